"""Where marks are kept: the record, nbgrader's gradebook and nbgrader's `autograded/` folder, by one writer.

What is stored is what `nbgrader autograde` stores, row for row; a test compares the two. Per submission there is one
transaction in the gradebook, in plain SQL: through nbgrader's own interface the same takes tens of milliseconds.
The order makes a killed run harmless: notebook, then gradebook, then the record with its key. Until that key is there
the submission counts as not graded and runs again, which gives the same rows.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import sqlalchemy as sql
from nbgrader import api, utils
from nbgrader.api import Gradebook
from nbgrader.preprocessors import AssignLatePenalties
from sqlalchemy.engine import Connection
from sqlalchemy.exc import OperationalError

from autograder.staff import records
from autograder.staff.assess import Assessed, Given
from autograder.staff.intake import KEPT_BESIDE
from autograder.staff.records import Record
from autograder.staff.snapshot import Snapshot

LOCKED_SECONDS = 60.0

ASSIGNMENT, NOTEBOOK, CELL, SOURCE = (model.__table__ for model in (api.Assignment, api.Notebook, api.BaseCell, api.SourceCell))
GRADED, TASK, SOLUTION = (model.__table__ for model in (api.GradeCell, api.TaskCell, api.SolutionCell))
STUDENT, SUBMITTED, SUBMITTED_NOTEBOOK = (model.__table__ for model in (api.Student, api.SubmittedAssignment, api.SubmittedNotebook))
GRADE, COMMENT = api.Grade.__table__, api.Comment.__table__


class NotReleased(Exception):
    """The gradebook does not know the lesson."""


class Keeper:
    """The one writer of a course. course: a `grading.Course`."""

    def __init__(self, course: object):
        self.course = course
        self.gradebook = Gradebook(course.directory.db_url, course.directory.course_id)
        self.engine = self.gradebook.engine
        self.penalties = AssignLatePenalties(config=course.config)
        self.penalties.init_plugin()
        self.lessons: dict[str, _Lesson] = {}

    def close(self) -> None:
        self.gradebook.close()

    def lesson(self, name: str) -> _Lesson:
        if name not in self.lessons:
            with self.engine.connect() as connection:
                self.lessons[name] = _Lesson.load(connection, name)
        return self.lessons[name]

    def holding(self) -> set[tuple[str, str]]:
        """Which (lesson, student) the gradebook has a submission of."""
        both = sql.select(ASSIGNMENT.c.name, SUBMITTED.c.student_id).join_from(SUBMITTED, ASSIGNMENT)
        with self.engine.connect() as connection:
            return {(lesson, student) for lesson, student in connection.execute(both)}

    def keep(self, assessed: Assessed, handed_in: Snapshot, key: str) -> None:
        """Keep all that came out of one submission; after this it counts as graded."""
        record = assessed.record
        if record.score is None:
            self._take_away(record)
        else:
            self._write_notebook(record, assessed.notebook, handed_in)
            _patiently(lambda: self._write_rows(record, assessed.comments, handed_in))
        record.key = key if record.state != records.FAILED else None
        records.save(self.course.records, record)

    # ---- autograded/ ----

    def _write_notebook(self, record: Record, text: str, handed_in: Snapshot) -> None:
        folder = self.course.path("autograded", record.lesson, record.student)
        folder.mkdir(parents=True, exist_ok=True)
        mode = 0o664 if self.course.directory.groupshared else 0o444
        source = self.course.path("source", record.lesson)
        for found in utils.find_all_files(str(source), [*self.course.directory.ignore, "*.ipynb"]):
            target = folder / Path(found).relative_to(source)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.unlink(missing_ok=True)
            shutil.copy(found, target)
            target.chmod(mode)
        for name in KEPT_BESIDE:
            if (entry := handed_in.get(name)) and entry.content is not None:
                records.write_atomically(folder / name, entry.content.decode("utf-8", "replace"), mode)
        records.write_atomically(folder / f"{record.lesson}.ipynb", text + "\n", mode)

    def _take_away(self, record: Record) -> None:
        """Take away what an earlier submission, or a run that ended half-way, has left: it would look like this one's marks.

        What a person has given stays in the gradebook.
        """
        shutil.rmtree(self.course.path("autograded", record.lesson, record.student), ignore_errors=True)
        _patiently(lambda: self._remove_rows(record))

    # ---- the gradebook ----

    def _remove_rows(self, record: Record) -> None:
        with self.engine.begin() as connection:
            found = connection.execute(self._submission(record.lesson, record.student)).first()
            if found is None:
                return
            notebooks = sql.select(SUBMITTED_NOTEBOOK.c.id).where(SUBMITTED_NOTEBOOK.c.assignment_id == found.id)
            manual = sql.select(GRADE.c.id).where(GRADE.c.notebook_id.in_(notebooks), GRADE.c.manual_score.is_not(None))
            if connection.execute(manual).first() is None:
                connection.execute(GRADE.delete().where(GRADE.c.notebook_id.in_(notebooks)))
                connection.execute(COMMENT.delete().where(COMMENT.c.notebook_id.in_(notebooks)))
                connection.execute(SUBMITTED_NOTEBOOK.delete().where(SUBMITTED_NOTEBOOK.c.assignment_id == found.id))
                connection.execute(SUBMITTED.delete().where(SUBMITTED.c.id == found.id))

    def _submission(self, lesson: str, student: str) -> sql.Select:
        assignments = sql.select(ASSIGNMENT.c.id).where(ASSIGNMENT.c.name == lesson).scalar_subquery()
        return sql.select(SUBMITTED).where(SUBMITTED.c.assignment_id == assignments, SUBMITTED.c.student_id == student)

    def _write_rows(self, record: Record, comments: dict[str, str | None], handed_in: Snapshot) -> None:
        lesson = self.lesson(record.lesson)
        with self.engine.begin() as connection:
            found = connection.execute(self._submission(record.lesson, record.student)).first()
            if found is None:
                submission, extension = self._add(connection, lesson, record.student), None
            else:
                submission, extension = found.id, found.extension
            timestamp = _timestamp(handed_in)
            if timestamp is not None:
                connection.execute(SUBMITTED.update().where(SUBMITTED.c.id == submission).values(timestamp=timestamp))
            elif found is not None:
                timestamp = found.timestamp
            own = SUBMITTED_NOTEBOOK.c.assignment_id == submission, SUBMITTED_NOTEBOOK.c.notebook_id == lesson.notebook
            notebook = connection.execute(sql.select(SUBMITTED_NOTEBOOK.c.id).where(*own)).scalar_one()
            score = _write_grades(connection, lesson, notebook, record)
            _write_comments(connection, lesson, notebook, comments)
            penalty = self._penalty(record.student, score, lesson.seconds_late(timestamp, extension))
            connection.execute(SUBMITTED_NOTEBOOK.update().where(*own).values(late_submission_penalty=penalty))

    def _add(self, connection: Connection, lesson: _Lesson, student: str) -> str:
        """The rows of a submission that is new, as nbgrader's add_submission makes them."""
        if connection.execute(sql.select(STUDENT.c.id).where(STUDENT.c.id == student)).first() is None:
            connection.execute(STUDENT.insert().values(id=student))
        submission = api.new_uuid()
        connection.execute(SUBMITTED.insert().values(id=submission, assignment_id=lesson.id, student_id=student))
        for notebook, cells in lesson.notebooks.items():
            own = api.new_uuid()
            connection.execute(SUBMITTED_NOTEBOOK.insert().values(id=own, assignment_id=submission, notebook_id=notebook))
            for table, kinds in ((GRADE, ("GradeCell", "TaskCell")), (COMMENT, ("SolutionCell", "TaskCell"))):
                rows = [{"notebook_id": own, "cell_id": id} for id, kind in cells if kind in kinds]
                if rows:
                    connection.execute(table.insert(), rows)
        return submission

    def _penalty(self, student: str, score: float, seconds_late: float) -> float | None:
        """What nbgrader's plugin for late submissions takes off, from 0 to the score; None in time."""
        if seconds_late <= 0:
            return None
        penalty = self.penalties.plugin_inst.late_submission_penalty(student, score, seconds_late)
        return None if penalty is None else min(max(penalty, 0), score)


class _Lesson:
    """A lesson's rows: ids, when it is due, and which cells it has. notebooks: notebook id → [(cell id, its kind)]."""

    def __init__(self, id: str, due: datetime.datetime | None, notebook: str, kernelspec: str | None):
        self.id, self.due, self.notebook = id, due, notebook
        self.kernelspec = json.loads(kernelspec) if kernelspec else None
        self.notebooks: dict[str, list[tuple[str, str]]] = {}
        self.cells: dict[tuple[str, str], str] = {}
        self.given: dict[str, Given] = {}

    @classmethod
    def load(cls, connection: Connection, name: str) -> _Lesson:
        rows = connection.execute(
            sql.select(ASSIGNMENT.c.id, ASSIGNMENT.c.duedate, NOTEBOOK.c.id, NOTEBOOK.c.name, NOTEBOOK.c.kernelspec)
            .join_from(NOTEBOOK, ASSIGNMENT)
            .where(ASSIGNMENT.c.name == name)
        ).all()
        own = next((row for row in rows if row[3] == name), None)
        if own is None:
            raise NotReleased(f"The gradebook does not know {name}: run `nbgrader generate_assignment {name}` first.")
        lesson = cls(own[0], own[1], own[2], own[4])
        for row in rows:
            lesson.notebooks[row[2]] = _cells(connection, row[2])
        for cell in connection.execute(sql.select(CELL).where(CELL.c.notebook_id == lesson.notebook)):
            lesson.cells[cell.type, cell.name] = cell.id
        points = {
            name: most
            for table in (GRADED, TASK)
            for name, most in connection.execute(
                sql.select(CELL.c.name, table.c.max_score).join_from(table, CELL).where(CELL.c.notebook_id == lesson.notebook)
            )
        }
        for cell in connection.execute(sql.select(SOURCE).where(SOURCE.c.notebook_id == lesson.notebook)):
            lesson.given[cell.name] = Given(cell.cell_type, cell.locked, cell.source, cell.checksum, points.get(cell.name))
        return lesson

    def seconds_late(self, timestamp: datetime.datetime | None, extension: datetime.timedelta | None) -> float:
        """nbgrader keeps both times in UTC, so a change of the clocks makes no difference."""
        if timestamp is None or self.due is None:
            return 0.0
        return max(0.0, (timestamp - self.due - (extension or datetime.timedelta())).total_seconds())


def _cells(connection: Connection, notebook: str) -> list[tuple[str, str]]:
    return [(id, kind) for id, kind in connection.execute(sql.select(CELL.c.id, CELL.c.type).where(CELL.c.notebook_id == notebook))]


def _timestamp(handed_in: Snapshot) -> datetime.datetime | None:
    """When it was handed in, as nbgrader wrote it down; None if that cannot be read."""
    entry = handed_in.get("timestamp.txt")
    if entry is None or not entry.content:
        return None
    with contextlib.suppress(ValueError, OverflowError):
        return utils.parse_utc(entry.content.decode("utf-8", "replace").strip())
    return None


def _write_grades(connection: Connection, lesson: _Lesson, notebook: str, record: Record) -> float:
    """The automatic marks; what a person has given stays, and asks to be looked at again. The notebook's score after it."""
    before = {row.cell_id: row for row in connection.execute(sql.select(GRADE).where(GRADE.c.notebook_id == notebook))}
    score = sum((row.manual_score or 0.0) + (row.extra_credit or 0.0) for row in before.values() if row.manual_score is not None)
    rows = []
    for mark in record.cells:
        old = before[lesson.cells["GradeCell", mark.grade_id]]
        rows.append({"row": old.id, "auto": mark.score, "look": old.manual_score is not None or mark.score is None})
        if old.manual_score is None and mark.score is not None:
            score += mark.score + (old.extra_credit or 0.0)
    if rows:
        own = GRADE.c.id == sql.bindparam("row")
        connection.execute(GRADE.update().where(own).values(auto_score=sql.bindparam("auto"), needs_manual_grade=sql.bindparam("look")), rows)
    return score


def _write_comments(connection: Connection, lesson: _Lesson, notebook: str, comments: dict[str, str | None]) -> None:
    cells = {name: id for (kind, name), id in lesson.cells.items() if kind in ("SolutionCell", "TaskCell")}
    rows = [{"cell": cells[name], "text": text} for name, text in comments.items() if name in cells]
    if rows:
        own = (COMMENT.c.notebook_id == notebook) & (COMMENT.c.cell_id == sql.bindparam("cell"))
        connection.execute(COMMENT.update().where(own).values(auto_comment=sql.bindparam("text")), rows)


def _patiently(write: Callable[[], None]) -> None:
    """Write, and try again for a while if another program holds the gradebook, or its server is being started again."""
    deadline = time.monotonic() + LOCKED_SECONDS
    while True:
        try:
            return write()
        except OperationalError as problem:
            # Of a server every such error is of the moment: it is being restarted, or the way to it is cut.
            passing = "locked" in str(problem) or type(problem.orig).__module__.startswith("psycopg")
            if not passing or time.monotonic() > deadline:
                raise
            time.sleep(0.2)
