"""What a learner reads about a submission: one HTML file, written from the record alone.

The executed notebook is never used, so no hidden test, no traceback and no expected value of a hidden check can be in
it: of a promise that only the hidden check broke the page gives the promise and one sentence.
"""

from __future__ import annotations

import functools
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from autograder.staff import records
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


def write_feedback(course: object, record: Record) -> Path:
    """Write the page where nbgrader looks for it, with nbgrader's two files beside it; an unchanged page is left alone.

    course: a `grading.Course`.
    """
    folder = course.path("feedback", record.lesson, record.student)
    page = folder / f"{record.lesson}.html"
    text = render(record)
    if not page.is_file() or page.read_text("utf-8") != text:
        records.write_atomically(page, text)
    submitted = course.path("submitted", record.lesson, record.student)
    for name in STAMPS:
        if (submitted / name).is_file() and not (submitted / name).is_symlink():
            shutil.copyfile(submitted / name, folder / name)
    return page


def render(record: Record) -> str:
    return templates().get_template("feedback.html.j2").render(
        record=record, lesson=spoken(record.lesson), parts=[part(cell) for cell in record.cells], states=records
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


def part(cell: CellMark) -> Part:
    name = cell.exercise.split("/")[-1] if cell.exercise else cell.grade_id
    marks = f"awaits a manual mark (of {cell.points:g})" if cell.score is None else f"{cell.score:g} of {cell.points:g}"
    full = cell.score is not None and cell.score >= cell.points
    return Part(name, marks, full, _sentence(cell, full), [] if full else broken_promises(cell))


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
