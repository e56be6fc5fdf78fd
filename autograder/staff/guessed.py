"""What a class predicted, beside what came: from each `predictions.json` that was handed in. Nothing of it is a mark."""

from __future__ import annotations

import datetime
import itertools
import json
import statistics
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from autograder.beside import LARGEST, PREDICTIONS
from autograder.prompts.compare import Unanswered, compare, read
from autograder.prompts.questions import Question, of_lesson

SHOWN = 3      # wrong answers of a field
SITTING = datetime.timedelta(hours=8)    # a longer time between two predictions is a break, not work


@dataclass(frozen=True)
class Answers:
    """One field of a prompt. right: first answers that were right; None where opinions differ. wrong: (answer, how many)."""

    label: str
    right: int | None
    wrong: list[tuple[str, int]]


@dataclass(frozen=True)
class Predicted:
    """One prompt. committed: who answered; changed: who came back and gave another answer."""

    title: str
    committed: int
    changed: int
    fields: list[Answers]


@dataclass(frozen=True)
class Guesses:
    """A lesson's prompts, and the median minutes between a learner's first and last prediction (None: nobody made two)."""

    prompts: list[Predicted]
    minutes: float | None


def guesses(lesson: str, folders: Iterable[Path]) -> Guesses:
    """folders: where each submission lies."""
    files = [found for folder in folders if (found := _read(folder / PREDICTIONS))]
    spans = [span for file in files if (span := _span(file)) is not None]
    return Guesses([_predicted(asked, files) for asked in of_lesson(lesson, "predict")], statistics.median(spans) if spans else None)


def _read(path: Path) -> dict:
    """The file's entries; a file that cannot be read has none. It is a stranger's: no part of it is taken on trust."""
    try:
        if path.is_symlink() or path.stat().st_size > LARGEST:
            return {}
        found = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return {id: entries for id, entries in found.items() if isinstance(entries, list)} if isinstance(found, dict) else {}


def _predicted(asked: Question, files: list[dict]) -> Predicted:
    given = [answers for file in files if (answers := [a for entry in file.get(asked.id, []) if (a := _answer(asked, entry)) is not None])]
    fields = []
    for n, field in enumerate(asked.fields):
        first = [compare(asked, answers[0])[n] for answers in given]
        wrong = Counter(_words(c.answer) for c in first if c.right is False)
        right = None if first and all(c.right is None for c in first) else sum(c.right is True for c in first)
        fields.append(Answers(field.label, right, wrong.most_common(SHOWN)))
    return Predicted(asked.title, len(given), sum(len(answers) > 1 for answers in given), fields)


def _answer(asked: Question, entry: object) -> dict | None:
    try:
        return read(asked, entry["answer"])
    except (Unanswered, KeyError, TypeError, ValueError, OverflowError):
        return None


def _words(answer: object) -> str:
    text = f"{answer:g}" if isinstance(answer, float) else str(answer)
    return text if len(text) <= 60 else text[:59] + "…"


def _span(file: dict) -> float | None:
    """Minutes from the first to the last prediction, breaks left out; None for fewer than two times."""
    times = sorted(time for entries in file.values() for entry in entries if (time := _time(entry)) is not None)
    if len(times) < 2:
        return None
    steps = [after - before for before, after in itertools.pairwise(times)]
    return sum((step for step in steps if step < SITTING), datetime.timedelta()).total_seconds() / 60


def _time(entry: object) -> datetime.datetime | None:
    try:
        time = datetime.datetime.fromisoformat(entry["at"])
    except (KeyError, TypeError, ValueError):
        return None
    return time if time.tzinfo else None
