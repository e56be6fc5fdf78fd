"""What grading found out about one submission: plain typed data, one JSON file per submission."""

from __future__ import annotations

import dataclasses
import json
import os
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

SCHEMA = 1

PREPARED = "prepared"                       # intake has read it; nothing has run yet
GRADED = "graded"
AWAITING = "awaiting manual marks"
NOT_GRADABLE = "not gradable"               # the file could not be read: no mark, never a zero
NOT_SUBMITTED = "not submitted"
FAILED = "failed"                           # the grader's own fault

FINAL = (GRADED, AWAITING, NOT_GRADABLE, NOT_SUBMITTED)


@dataclass
class CellMark:
    """The marks of one graded cell, and the verdicts they come from.

    score: 0 … points, or None while a person has to give it. verdict, quick: what the thorough and the quick check
    found, as `Verdict.to_dict()` gives it, or None. note: why there is no verdict, or what happened to the cell.
    """

    grade_id: str
    exercise: str | None
    points: float
    score: float | None
    verdict: dict | None = None
    quick: dict | None = None
    note: str | None = None


@dataclass
class Record:
    """One submission. key: what the marks depend on, as a hash; None until the grading has ended well."""

    lesson: str
    student: str
    state: str
    key: str | None = None
    cause: str | None = None
    where: str | None = None
    cure: str | None = None
    repairs: list[str] = field(default_factory=list)
    cells: list[CellMark] = field(default_factory=list)
    seconds: float | None = None

    @property
    def score(self) -> float | None:
        """The sum of the marks, None if there are none (not graded is not zero)."""
        if self.state not in (GRADED, AWAITING):
            return None
        return sum(cell.score or 0.0 for cell in self.cells)

    @property
    def max_score(self) -> float:
        return sum(cell.points for cell in self.cells)

    def reasons(self) -> list[str]:
        """Why the mark is not full, or why there is none: one sentence each."""
        if self.state == NOT_SUBMITTED:
            return ["not submitted"]
        if self.state in (NOT_GRADABLE, FAILED):
            where = f" ({self.where})" if self.where else ""
            return [f"{self.state}: {self.cause}{where}. {self.cure or ''}".strip()]
        return [why for cell in self.cells if (why := reason(cell))]


def reason(cell: CellMark) -> str | None:
    """Why the cell's mark is not full, None if it is: a sentence for whoever wrote it, with nothing hidden in it."""
    name = cell.exercise.split("/")[-1] if cell.exercise else cell.grade_id
    if cell.score is None:
        return f"{name} awaits a manual mark"
    if cell.score >= cell.points:
        return None
    why = cell.note or (cell.verdict or {}).get("sentence") or "the test failed"
    for prefix in (f"{name}: ", f"{name} "):
        why = why.removeprefix(prefix)
    return f"{name} {cell.score:g}/{cell.points:g}: {why}"


def summary(record: Record) -> dict:
    """The record in few words, for other programs. score is null where there is no mark."""
    return {
        "lesson": record.lesson, "student": record.student, "state": record.state, "score": record.score,
        "max_score": None if record.score is None else record.max_score, "reasons": record.reasons(), "repairs": record.repairs,
        "seconds": record.seconds,
    }  # fmt: skip


def path_of(folder: Path, lesson: str, student: str) -> Path:
    return folder / lesson / f"{student}.json"


def load(folder: Path, lesson: str, student: str) -> Record | None:
    """The record on disk; None if there is none, or if it is of an older kind."""
    try:
        data = json.loads(path_of(folder, lesson, student).read_text("utf-8"))
        if data.pop("schema") != SCHEMA:
            return None
        data["cells"] = [CellMark(**cell) for cell in data["cells"]]
        return Record(**data)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def load_all(folder: Path) -> list[Record]:
    """Every record there is, by lesson and student."""
    found = sorted((path.parent.name, path.stem) for path in folder.glob("[!.]*/[!.]*.json"))
    return [record for who in found if (record := load(folder, *who)) is not None]


def save(folder: Path, record: Record) -> None:
    """Write the record in one step: a reader, or a run that is killed, sees the old one or the new one."""
    data = {"schema": SCHEMA, **dataclasses.asdict(record)}
    write_atomically(path_of(folder, record.lesson, record.student), json.dumps(data, indent=1, ensure_ascii=False) + "\n")


def write_atomically(path: Path, text: str, mode: int = 0o644) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, scratch = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", errors="replace", newline="\n") as file:
            file.write(text)
        Path(scratch).chmod(mode)
        Path(scratch).replace(path)
    except BaseException:
        Path(scratch).unlink(missing_ok=True)
        raise
