"""The prompts of all lessons, as the lessons' `questions.toml` were made into `LESSON.json` beside this file."""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass
from pathlib import Path

from autograder.prompts.seal import unseal

FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class Field:
    """One thing that is asked for. kind: number, choice (one of `options`), list (of numbers), order (of `options`), words."""

    key: str
    label: str
    kind: str
    options: tuple[str, ...] = ()


@dataclass(frozen=True)
class Outcome:
    """What a field's answer is compared with.

    right: every answer that is right, the first of them to be shown; none where opinions differ. within: how far a
    number may be off. wrong: (answer, explanation) of likely mistakes. otherwise: the explanation of any other.
    """

    right: tuple = ()
    within: float = 0.0
    wrong: tuple[tuple[object, str], ...] = ()
    otherwise: str = ""


@dataclass(frozen=True)
class Question:
    """One prompt. kind is "predict" (answered once, before the outcome) or "ask" (practice). covered: outcomes and reveal, sealed."""

    id: str
    lesson: str
    kind: str
    title: str
    fields: tuple[Field, ...]
    covered: str

    @functools.cached_property
    def _open(self) -> dict:
        return unseal(self.id, self.covered)

    @property
    def reveal(self) -> str:
        """What is said once the prompt is answered, in Markdown."""
        return self._open["reveal"]

    @functools.cached_property
    def outcomes(self) -> dict[str, Outcome]:
        return {
            key: Outcome(tuple(map(_hashable, o["right"])), o["within"], tuple((_hashable(a), say) for a, say in o["wrong"]), o["otherwise"])
            for key, o in self._open["outcomes"].items()
        }

    def for_page(self) -> dict:
        """What the widget gets."""
        return {
            "id": self.id,
            "kind": self.kind,
            "title": self.title,
            "fields": [{"key": f.key, "label": f.label, "kind": f.kind, "options": list(f.options)} for f in self.fields],
            "covered": self.covered,
        }


def _hashable(value: object) -> object:
    return tuple(value) if isinstance(value, list) else value


@functools.cache
def _all() -> dict[str, Question]:
    found = {}
    for path in sorted(FOLDER.glob("*.json")):
        for raw in json.loads(path.read_text("utf-8")):
            fields = tuple(Field(f["key"], f["label"], f["kind"], tuple(f["options"])) for f in raw["fields"])
            found[raw["id"]] = Question(raw["id"], path.stem, raw["kind"], raw["title"], fields, raw["covered"])
    return found


def question(id: str, kind: str) -> Question:
    """The prompt with this id; KeyError with the ids that exist otherwise."""
    known = {name for name, q in _all().items() if q.kind == kind}
    if id not in known:
        import difflib

        near = difflib.get_close_matches(str(id), known, 3) or sorted(known)[:5]
        raise KeyError(f"There is no {kind}({id!r}); did you mean {', '.join(near) or 'another one'}?")
    return _all()[id]


def of_lesson(lesson: str, kind: str) -> list[Question]:
    """The lesson's prompts of one kind, in the order of the lesson."""
    return [q for q in _all().values() if q.lesson == lesson and q.kind == kind]
