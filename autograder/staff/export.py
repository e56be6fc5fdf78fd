"""`autograder export`: marks as a table for a spreadsheet, Canvas or Moodle.

A mark is what the gradebook says: manual marks and penalties included. Where there is none the cell is empty, and in
the csv format the state beside it says why; no absence ever becomes a 0.
"""

from __future__ import annotations

import argparse
import csv
import io
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from autograder.staff import course_root, records
from autograder.staff.courses import Busy, Course, nbgraders_surroundings

# A spreadsheet takes a cell that begins so for a formula, also one that a student has put into a name.
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")


@dataclass(frozen=True)
class Row:
    """One student in one lesson. score: with penalty, None where there is no mark."""

    student: str
    first_name: str
    last_name: str
    email: str
    lesson: str
    state: str
    score: float | None
    max_score: float | None
    penalty: float | None
    handed_in: str


def rows_of(course: Course, lessons: list[str]) -> list[Row]:
    """A row for everybody whom the gradebook or the submitted folders know, in every lesson."""
    from nbgrader.api import Gradebook

    rows = []
    with nbgraders_surroundings(), Gradebook(course.directory.db_url, course.directory.course_id) as gradebook:
        people = {student.id: student for student in gradebook.students}
        for lesson in lessons:
            submissions = {s.student.id: s for s in gradebook.assignment_submissions(lesson)} if _known(gradebook, lesson) else {}
            for who in sorted({*people, *course.students(lesson)}):
                rows.append(_row(course, lesson, who, people.get(who), submissions.get(who)))
    return rows


def _known(gradebook: object, lesson: str) -> bool:
    return any(assignment.name == lesson for assignment in gradebook.assignments)


def _row(course: Course, lesson: str, who: str, person: object | None, submission: object | None) -> Row:
    record = records.load(course.records, lesson, who)
    state, score, most, penalty, when = _state(course, lesson, who, record), None, None, None, ""
    if submission is not None and (record is None or record.score is not None):
        state = records.AWAITING if submission.needs_manual_grade else records.GRADED
        penalty = submission.late_submission_penalty or None
        score, most = max(0.0, submission.score - (penalty or 0.0)), submission.max_score
        when = f"{submission.timestamp.isoformat()}Z" if submission.timestamp else ""
    names = [getattr(person, name, None) or "" for name in ("first_name", "last_name", "email")]
    return Row(who, *names, lesson, state, score, most, penalty, when)


def _state(course: Course, lesson: str, who: str, record: records.Record | None) -> str:
    if record is not None:
        return record.state
    return "not graded yet" if course.path("submitted", lesson, who).is_dir() else records.NOT_SUBMITTED


def write(rows: list[Row], kind: str) -> str:
    """The table as text: "csv", "canvas" or "moodle"."""
    made = io.StringIO()
    writer = csv.writer(made, quoting=csv.QUOTE_MINIMAL, lineterminator="\r\n")
    for line in {"csv": _plain, "canvas": _canvas, "moodle": _moodle}[kind](rows):
        writer.writerow([_safe(cell) for cell in line])
    return made.getvalue()


def _safe(cell: object) -> str:
    """Text that no spreadsheet runs: an apostrophe goes before what would be a formula. Numbers are ours and stay."""
    if cell is None:
        return ""
    if isinstance(cell, (int, float)):
        return f"{cell:.10g}"
    return f"'{cell}" if cell.startswith(FORMULA) else cell


def _plain(rows: list[Row]) -> Iterable[list]:
    yield ["student", "first name", "last name", "email", "lesson", "state", "score", "of", "late penalty", "handed in (UTC)"]
    for r in rows:
        yield [r.student, r.first_name, r.last_name, r.email, r.lesson, r.state, r.score, r.max_score, r.penalty, r.handed_in]


def _canvas(rows: list[Row]) -> Iterable[list]:
    """A gradebook as Canvas imports it: a column for each lesson, the points possible in the second line."""
    lessons, by = list(dict.fromkeys(r.lesson for r in rows)), {(r.student, r.lesson): r for r in rows}
    yield ["Student", "ID", "SIS User ID", "SIS Login ID", "Section", *lessons]
    points = [next((r.max_score for r in rows if r.lesson == lesson and r.max_score is not None), None) for lesson in lessons]
    yield ["    Points Possible", "", "", "", "", *points]
    for who in dict.fromkeys(r.student for r in rows):
        some = by[who, lessons[0]]
        name = ", ".join(filter(None, (some.last_name, some.first_name))) or who
        yield [name, "", who, who, "", *(by[who, lesson].score for lesson in lessons)]


def _moodle(rows: list[Row]) -> Iterable[list]:
    """A table for Moodle's import of grades, whose columns one assigns there; an empty grade changes nothing."""
    lessons, by = list(dict.fromkeys(r.lesson for r in rows)), {(r.student, r.lesson): r for r in rows}
    yield ["ID number", "First name", "Surname", "Email address", *lessons]
    for who in dict.fromkeys(r.student for r in rows):
        some = by[who, lessons[0]]
        yield [who, some.first_name, some.last_name, some.email, *(by[who, lesson].score for lesson in lessons)]


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="autograder export", description=__doc__.splitlines()[0])
    parser.add_argument("lesson", nargs="*", metavar="LESSON", help="lessons to export (default: all)")
    parser.add_argument("--course", type=Path, help="the course folder (default: the one around here)")
    parser.add_argument("--format", choices=("csv", "canvas", "moodle"), default="csv", help="for a spreadsheet, Canvas or Moodle (default: csv)")
    parser.add_argument("--to", type=Path, metavar="FILE", help="write it there instead of to the terminal")
    options = parser.parse_args(argv)
    try:
        course = Course(options.course or course_root())
        known = course.lessons()
        if unknown := [lesson for lesson in options.lesson if lesson not in known]:
            raise FileNotFoundError(f"There is no lesson {unknown[0]} in this course: it has {', '.join(known)}.")
        rows = rows_of(course, options.lesson or known)
        if not rows:
            raise FileNotFoundError("There is nobody to export: nothing was handed in, and the gradebook knows no students.")
        text = write(rows, options.format)
        if options.to:
            # With a byte order mark, without which Excel takes UTF-8 for something else.
            options.to.write_text(text, encoding="utf-8-sig", newline="")
        else:
            sys.stdout.write(text.replace("\r\n", "\n"))
    except (OSError, Busy) as problem:
        print(f"autograder export: {problem}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
