"""`autograder report`: the class at a glance, in the terminal and as one HTML file with every reason.

Marks and reasons come from the records alone; predictions and alike submissions from what was handed in (`study`).
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from autograder.misconceptions import CATALOGUE
from autograder.staff import course_root, records
from autograder.staff.courses import Course
from autograder.staff.feedback import spoken, templates
from autograder.staff.records import Record
from autograder.staff.study import Study, study

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
    study: Study | None = None


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


def summarise(graded: list[Record], lessons: list[str], course: Course | None = None) -> list[Lesson]:
    """Lesson by lesson; with the course's folder at hand also what its files say."""
    return [_lesson(name, [record for record in graded if record.lesson == name], course) for name in lessons]


def _lesson(name: str, own: list[Record], course: Course | None) -> Lesson:
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
        study=study(course, name, own) if course and own else None,
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


def write_report(path: Path, lessons: list[Lesson], feedback: dict[tuple[str, str], str]) -> Path:
    """Write the HTML report. feedback: (lesson, student) → the page's address as seen from the report."""
    page = templates().get_template("report.html.j2").render(
        lessons=lessons, feedback=feedback, mark_text=mark_text, needs_a_person=needs_a_person, states=records
    )
    records.write_atomically(path, page)
    return path


def summary(lessons: list[Lesson]) -> str:
    """For the terminal: per lesson how many and how well, what was missed most, and who needs a person."""
    return "\n\n".join("\n".join(_lesson_lines(lesson)) for lesson in lessons)


def _lesson_lines(lesson: Lesson) -> list[str]:
    mean = f", mean {lesson.mean:.1f}" if lesson.mean is not None else ""
    lines = [lesson.title, f"  {lesson.handed_in} handed in, {lesson.graded} with marks, {lesson.full} full{mean}"]
    for title, rows in (("promises that did not hold", lesson.missed), ("mistakes recognised", lesson.mistakes)):
        if rows:
            lines += [f"  {title}", *(f"    {count:>4}  {exercise}: {what}" for exercise, what, count in rows)]
    lines += _study_lines(lesson.study) if lesson.study else []
    if waiting := [record for record in lesson.records if needs_a_person(record)]:
        lines += ["  for a person to look at", *(f"    {record.student}: {needs_a_person(record)}" for record in waiting)]
    return lines


def _study_lines(found: Study) -> list[str]:
    lines = []
    for prompt in found.guesses.prompts if any(prompt.committed for prompt in found.guesses.prompts) else ():
        rights = ", ".join(f"{answers.label}: {answers.right} right" for answers in prompt.fields if answers.right is not None)
        lines.append(f"    {prompt.committed:>4}  {prompt.title}" + (f" ({rights})" if rights and prompt.committed else ""))
    lines = ["  predictions committed, and how many were right at first", *lines] if lines else []
    if found.guesses.minutes is not None:
        lines.append(f"  from first to last prediction: {found.guesses.minutes:.0f} minutes (median)")
    if found.alike:
        lines += [f"  alike beyond the template, to be looked at ({len(found.alike)})", *(f"    {pair.one} and {pair.other}" for pair in found.alike[:12])]
    return lines + ([f"  {found.alike_note}"] if found.alike_note else [])


def needs_a_person(record: Record) -> str | None:
    """Why somebody should look at the submission, None if nobody need."""
    if record.state in (records.NOT_GRADABLE, records.FAILED):
        return record.reasons()[0]
    if record.state == records.AWAITING:
        return ", ".join(reason for cell in record.cells if cell.score is None and (reason := _awaits(cell)))
    silent = [cell.exercise.split("/")[-1] for cell in record.cells if cell.exercise and not (cell.verdict or {}).get("answered") and cell.note]
    return f"did not answer its checks: {', '.join(silent)}" if silent else None


def _awaits(cell: records.CellMark) -> str:
    return f"{cell.grade_id} awaits a mark{f' ({cell.note})' if cell.note else ''}"


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="autograder report", description=__doc__.splitlines()[0])
    parser.add_argument("lesson", nargs="*", metavar="LESSON", help="lessons to report on (default: all that were graded)")
    parser.add_argument("--course", type=Path, help="the course folder (default: the one around here)")
    parser.add_argument("--to", type=Path, metavar="FILE", help="where to write the page (default: report.html in the course folder)")
    options = parser.parse_args(argv)
    root = (options.course or course_root()).resolve()
    found = records.load_all(root / "records")
    lessons = options.lesson or sorted({record.lesson for record in found})
    if not found or not {record.lesson for record in found} >= set(lessons):
        print(f"autograder report: nothing is graded yet{' for ' + ', '.join(lessons) if lessons else ''}: run `autograder grade` first.", file=sys.stderr)
        return 1
    chosen = [record for record in found if record.lesson in lessons]
    pages = {(r.lesson, r.student): page for r in chosen if (root / (page := f"feedback/{r.student}/{r.lesson}/{r.lesson}.html")).is_file()}
    summarised = summarise(chosen, lessons, Course(root) if (root / "nbgrader_config.py").is_file() else None)
    print(summary(summarised))
    print(f"\nEvery reason is in {write_report(options.to or root / 'report.html', summarised, pages)}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
