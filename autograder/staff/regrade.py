"""Grading again: what moved and why, and the way back.

Whatever a run replaces, record and notebook, is copied beside the records first. `undo` keeps the copies in the place of
what the run had written; marks that a person has given are touched by neither.
"""

from __future__ import annotations

import contextlib
import shutil
from pathlib import Path

import nbformat

from autograder.staff import records
from autograder.staff.assess import Assessed, comments_of
from autograder.staff.courses import Course
from autograder.staff.intake import KEPT_BESIDE
from autograder.staff.records import Record
from autograder.staff.snapshot import Entry, Snapshot

FOLDER, ENDED = ".replaced", "ended"


class Replaced:
    """What the last run that replaced anything has replaced. A run that was killed and goes on counts as one."""

    def __init__(self, course: Course):
        self.course, self.folder = course, course.records / FOLDER

    def begin(self) -> None:
        """A new run: what the one before had replaced can be had back no more."""
        if (self.folder / ENDED).exists():
            shutil.rmtree(self.folder)

    def end(self) -> None:
        if self.folder.is_dir():
            (self.folder / ENDED).touch()

    def remember(self, lesson: str, student: str) -> Record | None:
        """Copy what is there of this submission before it is replaced; the record, if it was final."""
        record = records.load(self.course.records, lesson, student)
        if record is None or record.state not in records.FINAL:
            return None
        copy = records.path_of(self.folder, lesson, student)
        if not copy.exists():
            copy.parent.mkdir(parents=True, exist_ok=True)
            with contextlib.suppress(FileNotFoundError):
                shutil.copyfile(self.course.notebook("autograded", lesson, student), copy.with_suffix(".ipynb"))
            records.save(self.folder, record)
        return record

    def entries(self) -> list[tuple[str, str]]:
        return sorted((path.parent.name, path.stem) for path in self.folder.glob("*/*.json"))

    def undo(self, keeper: object, lesson: str, student: str) -> Record:
        """Put back what the run had replaced. It stands until the submission changes, or until --again."""
        now = records.load(self.course.records, lesson, student)
        record = records.load(self.folder, lesson, student)
        notebook = records.path_of(self.folder, lesson, student).with_suffix(".ipynb")
        assessed = Assessed(record)
        if notebook.exists():
            assessed.notebook = notebook.read_text("utf-8").removesuffix("\n")
            assessed.comments = comments_of(nbformat.reads(assessed.notebook, as_version=4))
        key = now.key if now and now.key else self.course.read(lesson, student)[1]
        keeper.keep(assessed, _beside(self.course.path("submitted", lesson, student)), key)
        for path in (notebook, records.path_of(self.folder, lesson, student)):
            path.unlink(missing_ok=True)
        return record


def _beside(folder: Path) -> Snapshot:
    """nbgrader's own two files of a submission."""
    return {n: Entry(len(c), c) for n in KEPT_BESIDE if (p := folder / n).is_file() and not p.is_symlink() and (c := p.read_bytes()) is not None}


def moved(before: Record, now: Record) -> str | None:
    """Who moved, by how much, and in which cells; None if the marks are the same."""
    old, new = ({cell.grade_id: cell.score for cell in record.cells} for record in (before, now))
    if before.state == now.state and old == new:
        return None
    changes = [f"{c.grade_id} {_number(old.get(c.grade_id))} → {_number(c.score)}{_because(c)}" for c in now.cells if old.get(c.grade_id) != c.score]
    said = f"{now.student} {now.lesson}: {_mark(before)} → {_mark(now)}"
    return f"{said} ({'; '.join(changes)})" if changes else said


def _because(cell: records.CellMark) -> str:
    """Why marks are missing now, if any are."""
    why = cell.note or (cell.verdict or {}).get("sentence")
    return f", {why}" if why and cell.score is not None and cell.score < cell.points else ""


def _mark(record: Record) -> str:
    return record.state if record.score is None else _number(record.score)


def _number(score: float | None) -> str:
    return "no mark" if score is None else f"{score:g}"
