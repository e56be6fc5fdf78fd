"""`autograder sample-class DIR`: a class of submissions to try the whole road on.

They are made from the released notebooks by filling in the reference solutions, the right and wrong variants of
`source_assignments/variants.toml`, and the accidents and tricks of `sample_cases.py`. The bytes are the same each
time. Since they hold solutions they go into `_build` or out of the course, nowhere else.
"""

from __future__ import annotations

import argparse
import copy
import json
import re
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from autograder.staff import course_root
from autograder.staff.records import write_atomically
from autograder.staff.variants import Variant, references, variants

WRITTEN = "An answer in the student's own words."
FULL, PARTIAL, NOTHING, NOT_GRADABLE, NOT_SUBMITTED = "full", "partial", "nothing", "not gradable", "not submitted"


@dataclass(frozen=True)
class Submission:
    """What one student hands in for one lesson, and what grading must make of it.

    loses: the names of the exercises that must lose marks. may_lose: those that call them, so that they may lose marks
    as well; all others are full. cause: words of the reason.
    """

    student: str
    lesson: str
    what: str
    expect: str
    files: dict[str, bytes] = field(repr=False)
    loses: tuple[str, ...] = ()
    may_lose: tuple[str, ...] = ()
    cause: str = ""


@dataclass
class Sheet:
    """A lesson as released, with what can be filled in."""

    lesson: str
    released: dict
    reference: dict[str, str]
    variants: list[Variant]

    @property
    def exercises(self) -> list[str]:
        return list(self.reference)

    def filled(self, swap: dict[str, str] | None = None, only: list[str] | None = None) -> dict:
        """The notebook with every solution (or `only` these) from the reference, except what `swap` gives, and something written."""
        notebook = copy.deepcopy(self.released)
        for cell in notebook["cells"]:
            name = name_of(cell)
            if is_solution(cell) and name in self.reference and (only is None or name in only):
                cell["source"] = (swap or {}).get(name, self.reference[name])
            elif is_written(cell) and only is None:
                cell["source"] = WRITTEN
        return notebook

    def right(self, pick: int) -> dict[str, str]:
        """For each exercise one of its other right solutions, if it has any."""
        return self._pick(True, pick)

    def wrong(self, pick: int) -> Variant:
        """One of the lesson's wrong solutions; neighbouring picks come from different exercises, the last ones first."""
        by_exercise = [[v for v in self.variants if not v.right and v.part == e] for e in reversed(self.exercises)]
        rows = max(len(column) for column in by_exercise)
        in_turn = [column[row] for row in range(rows) for column in by_exercise if row < len(column)]
        return in_turn[pick % len(in_turn)]

    def callers(self, name: str) -> tuple[str, ...]:
        """The exercises whose solutions call the one of that name, directly or through another."""
        found: list[str] = []
        for other in self.exercises:
            if any(re.search(rf"\b{called}\(", self.reference[other]) for called in (name, *found) if called != other):
                found.append(other)
        return tuple(found)

    def _pick(self, right: bool, pick: int) -> dict[str, str]:
        chosen = {}
        for name in self.exercises:
            found = [v for v in self.variants if v.part == name and v.right == right]
            if found:
                chosen[name] = found[pick % len(found)].code
        return chosen


def name_of(cell: dict) -> str | None:
    return cell["metadata"].get("nbgrader", {}).get("grade_id")


def is_solution(cell: dict) -> bool:
    return bool(cell["metadata"].get("nbgrader", {}).get("solution"))


def is_written(cell: dict) -> bool:
    """Whether the cell is for an answer that a person marks."""
    return is_solution(cell) and bool(cell["metadata"]["nbgrader"].get("grade"))


def sheets(root: Path) -> dict[str, Sheet]:
    """The lessons that have both a source and a release, by their number: "01" → Sheet."""
    reference, every_variant = references(root), variants(root)
    found = {}
    for released in sorted((root / "notebooks").glob("*/*.ipynb")):
        source = root / "source_assignments" / released.parent.name / released.name
        if released.stem != released.parent.name or not source.is_file():
            continue
        lesson = released.stem
        own = {id.split("/")[1]: code for id, code in reference.items() if id.startswith(f"{lesson}/")}
        found[lesson[:2]] = Sheet(lesson, _read(released), own, [v for v in every_variant if v.exercise.startswith(f"{lesson}/")])
    if not found:
        raise FileNotFoundError("There are no lessons in notebooks/ yet: run `make lessons` first.")
    return found


def _read(path: Path) -> dict:
    notebook = json.loads(path.read_text("utf-8"))
    for cell in notebook["cells"]:
        if isinstance(cell["source"], list):
            cell["source"] = "".join(cell["source"])
    return notebook


def notebook_bytes(notebook: dict) -> bytes:
    return (json.dumps(notebook, indent=1, ensure_ascii=False) + "\n").encode("utf-8")


def make_class_of(root: Path, students: int | None = None) -> list[Submission]:
    """The class that the course at `root` gives, in memory."""
    from autograder.staff.sample_cases import make_class

    return make_class(sheets(root), students)


def write_class(folder: Path, root: Path, students: int | None = None, tell: Callable[[str], None] = lambda line: None) -> list[Submission]:
    """Write the class as DIR/STUDENT/LESSON/…, and `class.json` that says what each submission is."""
    submissions = make_class_of(root, students)
    shutil.rmtree(folder, ignore_errors=True)
    for number, submission in enumerate(submissions, start=1):
        place = folder / submission.student / submission.lesson
        place.mkdir(parents=True)
        for name, content in submission.files.items():
            (place / name).write_bytes(content)
        tell(f"[{number}/{len(submissions)}] {submission.student} {submission.lesson}: {submission.what}")
    told = [
        {key: getattr(s, key) for key in ("student", "lesson", "what", "expect", "loses", "cause")} for s in submissions
    ]
    write_atomically(folder / "class.json", json.dumps(told, indent=1, ensure_ascii=False) + "\n")
    return submissions


def may_hold_solutions(folder: Path, root: Path) -> bool:
    """Whether solutions may be written there: in the course only below _build."""
    folder, root = folder.resolve(), root.resolve()
    return not folder.is_relative_to(root) or (folder.is_relative_to(root / "_build") and folder != root / "_build")


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="autograder sample-class", description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, metavar="DIR", help="where to write it; what is there is replaced")
    parser.add_argument("--students", type=int, help="how many students (default: one for each case of the table)")
    options = parser.parse_args(argv)
    root = course_root()
    if not may_hold_solutions(options.folder, root):
        print(f"{options.folder} would be published with the course, and submissions hold solutions: choose a folder in _build.", file=sys.stderr)
        return 2
    if options.folder.exists() and any(options.folder.iterdir()) and not (options.folder / "class.json").is_file():
        print(f"{options.folder} is not empty and holds no sample class: choose another folder, or empty it yourself.", file=sys.stderr)
        return 2
    try:
        submissions = write_class(options.folder, root, options.students, print)
    except (FileNotFoundError, ValueError) as problem:
        print(problem, file=sys.stderr)
        return 2
    print(f"{len(submissions)} submissions of {len({s.student for s in submissions})} students are in {options.folder}.")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
