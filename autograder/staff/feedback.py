"""What a learner reads about a submission: one HTML file, written from the record alone.

The executed notebook is never used, so no hidden test, no traceback and no expected value of a hidden check can be in
it: of a promise that only the hidden check broke the page gives the promise and one sentence.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import re
import shutil
import sys
from dataclasses import dataclass, field
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from autograder.staff import course_root, records
from autograder.staff.intake import STAMPS
from autograder.staff.records import CellMark, Record


@dataclass(frozen=True)
class Broken:
    """One promise that did not hold, as far as its owner may see it. history is empty if only hidden checks found it."""

    statement: str
    history: list[str]
    expected: str
    actual: str
    hint: str


@dataclass(frozen=True)
class Part:
    """One graded cell on the page."""

    name: str
    marks: str
    full: bool
    sentence: str
    broken: list[Broken]
    comment: str = ""    # of a person


@dataclass(frozen=True)
class ByHand:
    """What a person has given, in nbgrader's gradebook. marks: grade_id → points, extra ones included; late: points taken off."""

    marks: dict[str, float] = field(default_factory=dict)
    comments: dict[str, str] = field(default_factory=dict)
    late: float = 0.0


def by_hand(course: object, lesson: str) -> dict[str, ByHand]:
    """Student → what a person has given, for all who have handed in the lesson."""
    from nbgrader.api import Gradebook, MissingEntry

    found = {}
    with Gradebook(course.directory.db_url, course.directory.course_id) as gradebook, contextlib.suppress(MissingEntry):
        for submission in gradebook.assignment_submissions(lesson):
            marks, comments = {}, {}
            for notebook in submission.notebooks:
                for grade in notebook.grades:
                    if grade.manual_score is not None or grade.extra_credit:
                        automatic = grade.auto_score if grade.manual_score is None else grade.manual_score
                        marks[grade.name] = (automatic or 0.0) + (grade.extra_credit or 0.0)
                comments |= {comment.name: comment.manual_comment for comment in notebook.comments if comment.manual_comment}
            found[submission.student_id] = ByHand(marks, comments, submission.late_submission_penalty or 0.0)
    return found


def write_feedback(course: object, record: Record, given: ByHand | None = None) -> Path:
    """Write the page where nbgrader looks for it, with nbgrader's two files beside it; an unchanged page is left alone.

    course: a `grading.Course`.
    """
    folder = course.path("feedback", record.lesson, record.student)
    page = folder / f"{record.lesson}.html"
    text = render(record, given)
    if not page.is_file() or page.read_text("utf-8") != text:
        records.write_atomically(page, text)
    submitted = course.path("submitted", record.lesson, record.student)
    for name in STAMPS:
        if (submitted / name).is_file() and not (submitted / name).is_symlink():
            shutil.copyfile(submitted / name, folder / name)
    return page


def render(record: Record, given: ByHand | None = None) -> str:
    given = given or ByHand()
    parts = [part(cell, given) for cell in record.cells]
    score = None if record.score is None else sum(given.marks.get(cell.grade_id, cell.score or 0.0) for cell in record.cells) - given.late
    waits = any(cell.score is None and cell.grade_id not in given.marks for cell in record.cells)
    return templates().get_template("feedback.html.j2").render(
        record=record, lesson=spoken(record.lesson), parts=parts, states=records, score=score, waits=waits, late=given.late
    )


@functools.cache
def templates() -> Environment:
    folder = Path(__file__).parent / "templates"
    environment = Environment(loader=FileSystemLoader(folder), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters["spans"] = code_spans
    environment.globals["style"] = (folder / "style.css").read_text("utf-8")
    return environment


def code_spans(text: str) -> Markup:
    """The text, escaped, with what stands between backquotes as code."""
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(text))))


def spoken(lesson: str) -> str:
    """"01_contiguous_vs_paged" → "01 contiguous vs paged"."""
    return lesson.replace("_", " ")


def part(cell: CellMark, given: ByHand) -> Part:
    name = cell.exercise.split("/")[-1] if cell.exercise else cell.grade_id
    score = given.marks.get(cell.grade_id, cell.score)
    marks = f"awaits a manual mark (of {cell.points:g})" if score is None else f"{score:g} of {cell.points:g}"
    full = score is not None and score >= cell.points
    if cell.grade_id in given.marks:
        sentence = "A person has marked this."
        if cell.score is not None:
            sentence = f"A person has marked this; the check gave {cell.score:g}. {_sentence(cell, cell.score >= cell.points)}"
    else:
        sentence = _sentence(cell, full)
    return Part(name, marks, full, sentence, [] if full else broken_promises(cell), given.comments.get(cell.grade_id, ""))


def _sentence(cell: CellMark, full: bool) -> str:
    if cell.verdict and cell.verdict["answered"]:
        said = cell.verdict["sentence"]
        return f"{said} ({cell.note})" if cell.note and not full else said
    if cell.exercise:
        return f"No mark: {cell.note or 'it did not answer its checks'}."
    if cell.score is None:
        return cell.note or "A person will read this."
    return "The test passed." if full else cell.note or "The test failed."


def broken_promises(cell: CellMark) -> list[Broken]:
    """The promises that did not hold, with a history where the check that everyone sees found one."""
    verdict = cell.verdict if cell.verdict and cell.verdict["answered"] else cell.quick
    if not verdict or not verdict["answered"]:
        return []
    seen = {promise["id"]: promise for promise in (cell.quick or {}).get("promises", []) if not promise["held"]}
    found = [_broken(promise, seen.get(promise["id"])) for promise in verdict["promises"] if not promise["held"]]
    # What has a history can be understood at once, the shortest first; what was merely not reached comes last.
    return sorted(found, key=lambda promise: (not promise.history, len(promise.history)))


def _broken(promise: dict, quick: dict | None) -> Broken:
    if quick and quick["history"]:
        return Broken(promise["statement"], quick["history"], quick["expected"], quick["actual"], quick["hint"])
    return Broken(promise["statement"], [], "", "", "")


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="autograder feedback", description="Write a page for each graded submission, with marks and comments given by hand; `nbgrader release_feedback` hands them out.")
    parser.add_argument("lesson", nargs="*", metavar="LESSON", help="lessons (default: all that were graded)")
    parser.add_argument("--course", type=Path, help="the course folder (default: the one around here)")
    parser.add_argument("--student", action="append", metavar="ID", help="only this student; may be given several times")
    options = parser.parse_args(argv)
    from autograder.staff.courses import Course

    try:
        course = Course(options.course or course_root())
    except FileNotFoundError as problem:
        print(f"autograder feedback: {problem}", file=sys.stderr)
        return 1
    found = [r for r in records.load_all(course.records) if (not options.lesson or r.lesson in options.lesson) and (not options.student or r.student in options.student)]
    found = [record for record in found if record.state in records.FINAL and record.state != records.NOT_SUBMITTED]
    if not found:
        print("autograder feedback: nothing of this is graded yet: run `autograder grade` first.", file=sys.stderr)
        return 1
    for lesson in sorted({record.lesson for record in found}):
        given, own = by_hand(course, lesson), [record for record in found if record.lesson == lesson]
        for record in own:
            write_feedback(course, record, given.get(record.student))
        print(f"{lesson}: {len(own)} pages; hand them out with `nbgrader release_feedback {lesson}`")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
