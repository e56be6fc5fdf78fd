"""The reference solutions of the lessons, and the right and wrong variants of them in `variants.toml`."""

from __future__ import annotations

import re
import sys
import tomllib
import types
from dataclasses import dataclass
from pathlib import Path

import jupytext

from autograder.exercises import EXERCISES

MARKS = re.compile(r"^ *### (?:BEGIN|END) SOLUTION *\n?", re.M)


@dataclass(frozen=True)
class Variant:
    """One way to write an exercise.

    code is the whole solution cell, says is the diagnosis in one sentence, before is what the lesson's earlier
    solution cells define.
    """

    exercise: str
    name: str
    right: bool
    says: str
    code: str
    before: str = ""

    @property
    def part(self) -> str:
        """The exercise's name within its lesson."""
        return self.exercise.split("/")[1]

    def load(self) -> object:
        """The class or function that the code defines, in a module of its own."""
        return load(self.code, self.part, self.before)


def load(code: str, name: str, before: str = "") -> object:
    """Run the code of a solution cell in a new module, after earlier cells, and return what it calls by that name."""
    # Dataclasses look their module up by name.
    module = sys.modules["variant"] = types.ModuleType("variant")
    exec(compile(before, "<earlier cells>", "exec"), module.__dict__)
    exec(compile(code, f"<{name}>", "exec"), module.__dict__)
    return module.__dict__[name]


def references(root: Path) -> dict[str, str]:
    """Exercise → the solution cell of the lesson's text, without the marks around the solution."""
    found = {}
    for text in sorted((root / "source_assignments").glob("*/*.py")):
        for cell in jupytext.read(text, fmt="py:percent").cells:
            about = cell.metadata.get("nbgrader", {})
            id = f"{text.stem}/{about.get('grade_id')}"
            if about.get("solution") and id in EXERCISES:
                found[id] = unmarked(cell.source)
    return found


def earlier(reference: dict[str, str], exercise: str) -> str:
    """The lesson's solution cells before this exercise's."""
    lesson = exercise.split("/")[0]
    ids = [id for id in reference if id.startswith(f"{lesson}/")]
    return "\n\n".join(reference[id] for id in ids[: ids.index(exercise)])


def load_reference(root: Path, exercise: str) -> object:
    """The class, function or answers of the reference solution."""
    reference = references(root)
    return load(reference[exercise], exercise.split("/")[1], earlier(reference, exercise))


def unmarked(code: str) -> str:
    return MARKS.sub("", code).strip("\n")


def variants(root: Path) -> list[Variant]:
    """All variants of `variants.toml`; ValueError if an edit does not fit the reference exactly once."""
    path = root / "source_assignments" / "variants.toml"
    if not path.is_file():
        return []
    reference = references(root)
    return [_expanded(raw, reference) for raw in tomllib.loads(path.read_text("utf-8"))["variant"]]


def _expanded(raw: dict, reference: dict[str, str]) -> Variant:
    code = raw.get("code")
    if code is None:
        code = reference[raw["exercise"]]
        for old, new in raw["edits"]:
            if code.count(old) != 1:
                raise ValueError(f"variants.toml, {raw['exercise']} {raw['name']}: {old!r} must stand once in the solution, not {code.count(old)} times.")
            code = code.replace(old, new)
    return Variant(raw["exercise"], raw["name"], raw["right"], raw["says"], unmarked(code), earlier(reference, raw["exercise"]))
