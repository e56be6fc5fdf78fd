"""The class at a glance: a table of marks for the terminal, and one HTML file with every reason."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from autograder.misconceptions import CATALOGUE
from autograder.staff import records
from autograder.staff.feedback import spoken, templates
from autograder.staff.records import Record

REASON_WIDTH = 150


@dataclass(frozen=True)
class Lesson:
    """One lesson's part of the report.

    missed: (exercise, promise, how many submissions it did not hold in), mistakes: (exercise, the mistake behind it,
    how many), most first.
    """

    name: str
    title: str
    records: list[Record]
    handed_in: int
    graded: int
    full: int
    mean: float | None
    missed: list[tuple[str, str, int]]
    mistakes: list[tuple[str, str, int]]


def mark_text(record: Record | None) -> str:
    """The mark as it stands in a table; a state that is no mark is never written as a number."""
    if record is None or record.state == records.NOT_SUBMITTED:
        return "–"
    if record.score is None:
        return record.state
    return f"{record.score:g}/{record.max_score:g}{'*' if record.state == records.AWAITING else ''}"


def table(graded: list[Record], lessons: list[str]) -> str:
    """Students × lessons, then the reason for each mark that is not full, one line each."""
    by = {(record.student, record.lesson): record for record in graded}
    students = sorted({record.student for record in graded})
    rows = [["student", *lessons], *([who, *(mark_text(by.get((who, lesson))) for lesson in lessons)] for who in students)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(lessons) + 1)]
    lines = ["  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    lines.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join([*lines, "(– not submitted, * parts await a person)", "", "Why a mark is not full", *_reasons(graded)])


def _reasons(graded: list[Record]) -> list[str]:
    """One line per submission; who has handed in nothing at all needs none."""
    lines = []
    for record in sorted(graded, key=lambda record: (record.student, record.lesson)):
        if reasons := record.reasons():
            first = reasons[0] if len(reasons[0]) <= REASON_WIDTH else reasons[0][: REASON_WIDTH - 1] + "…"
            more = f" (and {len(reasons) - 1} more)" if len(reasons) > 1 else ""
            lines.append(f"{record.student} {record.lesson}: {first}{more}")
    return lines or ["Every mark is full."]


def summarise(graded: list[Record], lessons: list[str]) -> list[Lesson]:
    return [_lesson(name, [record for record in graded if record.lesson == name]) for name in lessons]


def _lesson(name: str, own: list[Record]) -> Lesson:
    marked = [record for record in own if record.score is not None]
    missed: Counter[tuple[str, str]] = Counter()
    mistakes: Counter[tuple[str, str]] = Counter()
    for record in marked:
        missed.update(set(_missed(record)))
        mistakes.update(_mistakes(record))
    return Lesson(
        name=name,
        title=spoken(name),
        records=own,
        handed_in=sum(record.state != records.NOT_SUBMITTED for record in own),
        graded=len(marked),
        full=sum(record.score >= record.max_score for record in marked),
        mean=sum(record.score for record in marked) / len(marked) if marked else None,
        missed=[(*which, count) for which, count in missed.most_common(12)],
        mistakes=[(*which, count) for which, count in mistakes.most_common(12)],
    )


def _missed(record: Record) -> list[tuple[str, str]]:
    """The promises that were broken; a part that was not written, or that did not answer, broke none."""
    return [
        (cell.exercise.split("/")[-1], promise["statement"])
        for cell in record.cells
        if cell.verdict and cell.verdict["answered"]
        for promise in cell.verdict["promises"]
        if not promise["held"] and promise["history"]
    ]


def _mistakes(record: Record) -> list[tuple[str, str]]:
    """The mistakes that were recognised, by exercise."""
    known = [(cell.exercise, cell.verdict.get("mistake")) for cell in record.cells if cell.verdict]
    return [(exercise.split("/")[-1], CATALOGUE[id].names) for exercise, id in known if id in CATALOGUE]


def write_report(path: Path, graded: list[Record], lessons: list[str], feedback: dict[tuple[str, str], str]) -> Path:
    """Write the HTML report. feedback: (lesson, student) → the page's address as seen from the report."""
    page = templates().get_template("report.html.j2").render(
        lessons=summarise(graded, lessons), feedback=feedback, mark_text=mark_text, states=records
    )
    records.write_atomically(path, page)
    return path
