"""What a class's files say beyond its marks, for the report: predictions, submissions that are alike, a picture of the marks."""

from __future__ import annotations

import base64
import io
from dataclasses import dataclass, field

import nbformat

from autograder import draw
from autograder import tokens as look
from autograder.staff import alike, guessed
from autograder.staff.courses import Course
from autograder.staff.records import AWAITING, GRADED, Record

MOST = 2_000    # submissions of a lesson that are compared with one another


@dataclass(frozen=True)
class Study:
    """alike: pairs for a person to look at; alike_note: why there are none to be had, if that is so. picture: an SVG image as an address."""

    guesses: guessed.Guesses
    alike: list[alike.Pair] = field(default_factory=list)
    alike_note: str = ""
    picture: str = ""
    picture_words: str = ""


def study(course: Course, lesson: str, records: list[Record]) -> Study:
    """Read what was handed in for a lesson; records: of that lesson, as graded."""
    handed_in = [course.path("submitted", lesson, record.student) for record in records]
    pairs, note = _alike(course, lesson, [r.student for r in records if r.state in (GRADED, AWAITING)])
    shares = [record.score / record.max_score for record in records if record.score is not None and record.max_score]
    picture, words = marks(shares) if shares else ("", "")
    return Study(guessed.guesses(lesson, handed_in), pairs, note, picture, words)


def _alike(course: Course, lesson: str, students: list[str]) -> tuple[list[alike.Pair], str]:
    if len(students) > MOST:
        return [], f"More than {MOST:,} submissions are not compared with one another."
    try:
        released = nbformat.read(course.notebook("release", lesson), as_version=4)
        written = {student: alike.code_of(nbformat.read(path, as_version=4)) for student in students if (path := course.notebook("autograded", lesson, student)).is_file()}
        return alike.pairs(written, alike.code_of(released)), ""
    except ImportError:
        return [], "Submissions were not compared: copydetect is not installed; `make setup` installs it."
    except (OSError, nbformat.reader.NotJSONError, nbformat.ValidationError) as problem:
        return [], f"Submissions were not compared: {problem}"


def marks(shares: list[float]) -> tuple[str, str]:
    """A histogram of marks, in tenths of the full mark: the image's address, and the same in words."""
    counts = [0] * 10
    for share in shares:
        counts[min(9, max(0, int(share * 10)))] += 1
    with draw._style():
        fig, axes = draw._figure(look.FIGURE_WIDTH, 1.9)
        bars = axes.bar(range(10), counts, width=0.9, color=look.HUES[0], edgecolor=look.INK, linewidth=0.6)
        axes.bar_label(bars, [str(count) if count else "" for count in counts], fontsize=look.SMALL)
        axes.set_xticks(range(10), [f"{10 * n}–{10 * n + 10}" for n in range(10)])
        axes.set(xlabel="percent of the full mark", ylabel="submissions")
        axes.yaxis.get_major_locator().set_params(integer=True)
        fig = draw._finished(fig, axes, None)
    image = io.BytesIO()
    fig.savefig(image, format="svg", metadata={"Date": None})
    words = ", ".join(f"{count} at {10 * n} to {10 * n + 10} percent" for n, count in enumerate(counts) if count)
    return f"data:image/svg+xml;base64,{base64.b64encode(image.getvalue()).decode()}", f"Submissions by mark: {words}."
