"""What can be wrong in a lesson's text, each told as one sentence with its line."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import NamedTuple

from autograder.exercises import EXERCISES

MARKER = re.compile(r"# %%(?P<title>.*)")
CHECK = re.compile(r"\bcheck\(\s*[\"'](?P<exercise>[^\"']+)[\"'](?P<rest>.*)")
CELL_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
REGIONS = ("SOLUTION", "HIDDEN TESTS")


class Fault(NamedTuple):
    line: int
    sentence: str


@dataclass
class Cell:
    """One cell of the text: where its marker stands, what nbgrader is told, and its lines."""

    line: int
    markdown: bool
    nbgrader: dict
    lines: list[str] = field(default_factory=list)

    @property
    def grade_id(self) -> str | None:
        return self.nbgrader.get("grade_id")

    def is_a(self, role: str) -> bool:
        return bool(self.nbgrader.get(role))

    def region(self, name: str) -> list[str]:
        """The lines between BEGIN and END of all regions of that name."""
        inside, found = False, []
        for line in self.lines:
            if f"### END {name}" in line:
                inside = False
            elif f"### BEGIN {name}" in line:
                inside = True
            elif inside:
                found.append(line)
        return found

    def checks(self) -> dict[str, int]:
        """Exercises that the cell checks → the line of the first call."""
        found: dict[str, int] = {}
        for offset, line in enumerate(self.lines, start=1):
            if call := CHECK.search(line):
                found.setdefault(call["exercise"], self.line + offset)
        return found

    def hidden_thorough_checks(self) -> set[str]:
        """Exercises that a hidden test checks with `thorough=True`: only those calls earn points."""
        calls = [CHECK.search(line) for line in self.region("HIDDEN TESTS")]
        return {call["exercise"] for call in calls if call and "thorough=True" in call["rest"].replace(" ", "")}


def find_faults(text: str, lesson: str) -> list[Fault]:
    """Everything that would make a bad release of this text, first lines first."""
    cells, faults = _cells(text)
    faults += _syntax_faults(text)
    faults += _region_faults(text)
    faults += _id_faults(cells)
    for cell in cells:
        faults += _cell_faults(cell, lesson)
    faults += _unchecked(cells, lesson)
    return sorted(set(faults))


def _cells(text: str) -> tuple[list[Cell], list[Fault]]:
    """Split the percent text; what stands before the first marker is the header."""
    cells: list[Cell] = []
    faults: list[Fault] = []
    for number, line in enumerate(text.splitlines(), start=1):
        if marker := MARKER.match(line):
            nbgrader, broken = _nbgrader_of(marker["title"])
            if broken:
                faults.append(Fault(number, broken))
            cells.append(Cell(number, "[markdown]" in marker["title"], nbgrader))
        elif cells:
            cells[-1].lines.append(line)
    return cells, faults


def _nbgrader_of(title: str) -> tuple[dict, str | None]:
    """The `nbgrader={…}` of a cell marker, and what is wrong with it."""
    if "nbgrader" not in title:
        return {}, None
    try:
        start = title.index("nbgrader=") + len("nbgrader=")
        metadata, _ = json.JSONDecoder().raw_decode(title, start)
    except ValueError:
        return {}, "the nbgrader metadata is not JSON: write nbgrader={\"grade\": false, …} on one line"
    if not isinstance(metadata, dict):
        return {}, "the nbgrader metadata is not a JSON object"
    return metadata, None


def _syntax_faults(text: str) -> list[Fault]:
    try:
        compile(text, "lesson", "exec", dont_inherit=True)
    except SyntaxError as error:
        return [Fault(error.lineno or 1, f"Python cannot read this ({error.msg})")]
    return []


def _region_faults(text: str) -> list[Fault]:
    """Regions that are not closed, closed twice or nested, or that reach over a cell's end."""
    faults: list[Fault] = []
    opened: tuple[str, int] | None = None
    for number, line in enumerate([*text.splitlines(), "# %%"], start=1):
        if MARKER.match(line) and opened:
            faults.append(Fault(opened[1], f"### BEGIN {opened[0]} has no ### END {opened[0]} in its cell"))
            opened = None
        for name in REGIONS:
            if f"### BEGIN {name}" in line:
                if opened:
                    faults.append(Fault(number, f"### BEGIN {name} stands inside the region that line {opened[1]} opens"))
                opened = (name, number)
            elif f"### END {name}" in line:
                if not opened or opened[0] != name:
                    faults.append(Fault(number, f"### END {name} has no ### BEGIN {name}"))
                opened = None
    return faults


def _id_faults(cells: list[Cell]) -> list[Fault]:
    faults, first = [], {}
    for cell in cells:
        if not cell.nbgrader:
            continue
        if not CELL_ID.fullmatch(cell.grade_id or ""):
            faults.append(Fault(cell.line, "the cell needs a grade_id of letters, digits, - and _ (at most 64)"))
        elif cell.grade_id in first:
            faults.append(Fault(cell.line, f"grade_id {cell.grade_id} is taken by the cell in line {first[cell.grade_id]}"))
        else:
            first[cell.grade_id] = cell.line
    return faults


def _cell_faults(cell: Cell, lesson: str) -> list[Fault]:
    """What one cell lacks for its role."""
    faults = []
    if cell.region("SOLUTION") and not cell.is_a("solution"):
        faults.append(Fault(cell.line, "a solution region stands in a cell that nbgrader does not take for a solution"))
    if cell.region("HIDDEN TESTS") and not (cell.is_a("grade") and not cell.is_a("solution")):
        faults.append(Fault(cell.line, "hidden tests stand in a cell that nbgrader does not take for a test"))
    if cell.is_a("grade") and not _is_points(cell.nbgrader.get("points")):
        faults.append(Fault(cell.line, f"graded cell {cell.grade_id} has no points"))
    if cell.markdown or not cell.nbgrader:
        return faults
    if cell.is_a("solution") and not cell.is_a("grade") and not cell.region("SOLUTION"):
        faults.append(Fault(cell.line, f"solution cell {cell.grade_id} has no ### BEGIN SOLUTION: all of it would be cleared"))
    if cell.is_a("grade") and not cell.is_a("solution"):
        faults += _check_faults(cell, lesson)
    return faults


def _is_points(value) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value >= 0


def _check_faults(cell: Cell, lesson: str) -> list[Fault]:
    """A test cell checks one known exercise of this lesson, thoroughly in its hidden part, for its points."""
    checks = cell.checks()
    if len(checks) != 1:
        found = "no check" if not checks else f"{len(checks)} exercises"
        return [Fault(cell.line, f"test cell {cell.grade_id} has {found}: one check(\"{lesson}/…\", …) gives its points")]
    ((exercise, line),) = checks.items()
    if exercise not in EXERCISES or EXERCISES[exercise].lesson != lesson:
        return [Fault(line, f"{exercise} is no exercise of {lesson} in autograder/exercises.py")]
    faults = []
    if cell.nbgrader.get("points") != EXERCISES[exercise].points:
        faults.append(
            Fault(
                cell.line,
                f"{cell.grade_id} gives {cell.nbgrader.get('points')} points, "
                f"autograder/exercises.py gives {EXERCISES[exercise].points}",
            )
        )
    if exercise not in cell.hidden_thorough_checks():
        faults.append(Fault(cell.line, f"{cell.grade_id} has no hidden check(\"{exercise}\", …, thorough=True), which gives its marks"))
    return faults


def _unchecked(cells: list[Cell], lesson: str) -> list[Fault]:
    """Solution cells whose exercise no test cell checks."""
    checked = {exercise for cell in cells if cell.is_a("grade") for exercise in cell.checks()}
    return [
        Fault(cell.line, f"no test cell checks {lesson}/{cell.grade_id}")
        for cell in cells
        if cell.is_a("solution") and not cell.is_a("grade") and f"{lesson}/{cell.grade_id}" not in checked
    ]
