"""Put a learner's cells in their places on the master: a pure step from three notebooks to one.

From the learner come the solution cells and the cells of their own. All else, the tests with their hidden part
included, comes from the master, so that nothing a learner does to a test can matter.
"""

from __future__ import annotations

import copy
import re
from collections import Counter
from dataclasses import dataclass, field

from nbformat.notebooknode import NotebookNode

DEFINED = re.compile(r"^(?:async\s+def|def|class)\s+(\w+)|^(\w+)\s*(?::[^=\n]+)?=(?!=)", re.MULTILINE)


def clean(source: str) -> str:
    """A cell's text with one kind of line end, and without what UTF-8 cannot hold."""
    source = source.replace("\r\n", "\n").replace("\r", "\n")
    return source.encode("utf-8", "replace").decode("utf-8")


def tidy(source: str) -> str:
    """A cell's text for comparing: what an editor changes by itself is taken out."""
    return "\n".join(line.rstrip() for line in clean(source).split("\n")).strip("\n")


def graded_sources(released: NotebookNode) -> dict[str, str]:
    """Name → text of every graded cell, as learners were given it."""
    return {cell.metadata.nbgrader.grade_id: tidy(cell.source) for cell in released.cells if _is(cell, "grade")}


def rebuild(submitted: NotebookNode, master: NotebookNode, released: NotebookNode) -> tuple[NotebookNode, list[str]]:
    """The notebook to run, and one sentence for each thing that had to be mended."""
    plan = _Plan(submitted, master, released)
    cells = _extras(plan, -1)
    for index, cell in enumerate(master.cells):
        cells += [_masters_cell(plan, index, cell), *_extras(plan, index)]
    for number, cell in enumerate((cell for cell in cells if cell.id is None), start=1):
        cell.id = f"own-{number}"
    metadata = copy.deepcopy(master.metadata)
    return NotebookNode(cells=cells, metadata=metadata, nbformat=4, nbformat_minor=5), plan.notes()


def _is(cell: NotebookNode, role: str) -> bool:
    return bool(cell.metadata.get("nbgrader", {}).get(role))


def _grade_id(cell: NotebookNode) -> str | None:
    return cell.metadata.get("nbgrader", {}).get("grade_id")


@dataclass
class _Plan:
    """Where each cell of the submission belongs.

    found: master index → positions in the submission. extras: master index → positions of cells to run after it
    (−1 would be "before the first"). chosen: master index of a solution → the position whose text is used, if any.
    """

    submitted: NotebookNode
    master: NotebookNode
    released: NotebookNode
    found: dict[int, list[int]] = field(default_factory=dict)
    extras: dict[int, list[int]] = field(default_factory=dict)
    chosen: dict[int, int | None] = field(default_factory=dict)
    recognised: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.stubs = self._released_texts()
        self.released_metadata = {_grade_id(cell): cell.metadata for cell in self.released.cells if _grade_id(cell)}
        places = self._identify()
        for position, index in enumerate(places):
            if index is not None:
                self.found.setdefault(index, []).append(position)
        loose = [p for p, index in enumerate(places) if index is None and self.submitted.cells[p].source.strip()]
        for index, cell in enumerate(self.master.cells):
            if _is(cell, "solution"):
                self.chosen[index] = self._choose(index, loose)
        taken = {position for position in self.chosen.values() if position is not None}
        self._place_extras([p for p in loose if p not in taken], places, taken)

    def _released_texts(self) -> dict[int, str]:
        """Master index → the text that learners were given there."""
        by_id = {_grade_id(cell): cell.source for cell in self.released.cells if _grade_id(cell)}
        return {
            index: tidy(by_id.get(_grade_id(cell), "") if _grade_id(cell) else cell.source)
            for index, cell in enumerate(self.master.cells)
        }

    def _identify(self) -> list[int | None]:
        """For each cell of the submission the master's cell that it is, or None: by its name, else by its text."""
        by_name = {_grade_id(cell): i for i, cell in enumerate(self.master.cells) if _grade_id(cell)}
        by_text = {(c.cell_type, self.stubs[i]): i for i, c in enumerate(self.master.cells) if self.stubs[i]}
        by_cell_id = {cell.get("id"): i for i, cell in enumerate(self.master.cells) if _is(cell, "solution")}
        uses = Counter(cell.get("id") for cell in self.submitted.cells)
        places: list[int | None] = []
        for cell in self.submitted.cells:
            index = by_name.get(_grade_id(cell))
            if index is None:
                index = by_text.get((cell.cell_type, tidy(cell.source)))
            if index is None and uses[cell.get("id")] == 1:
                index = by_cell_id.get(cell.get("id"))
            places.append(index)
        return places

    def _choose(self, index: int, loose: list[int]) -> int | None:
        """The position of the learner's answer: the last copy that was changed, else any, else a cell that defines the same name."""
        copies = self.found.get(index, [])
        changed = [p for p in copies if tidy(self.submitted.cells[p].source) != self.stubs[index]]
        if copies:
            return (changed or copies)[-1]
        names = set(_defined(self.stubs[index]))
        same = [p for p in loose if self.submitted.cells[p].cell_type == "code" and names & set(_defined(self.submitted.cells[p].source))]
        if not names or not same:
            return None
        self.recognised.add(index)
        return same[-1]

    def _place_extras(self, loose: list[int], places: list[int | None], taken: set[int]) -> None:
        """Put every cell of the learner's own as early as its neighbours stand, so that it runs before the tests it serves."""
        for index in self.chosen:
            for position in self.found.get(index, []):
                if position not in taken and tidy(self.submitted.cells[position].source) != self.stubs[index]:
                    self.extras.setdefault(index - 1, []).append(position)
        for position in loose:
            before = next((i for i in reversed(places[:position]) if i is not None), -1)
            after = next((i for i in places[position + 1 :] if i is not None), len(self.master.cells))
            self.extras.setdefault(min(before, after - 1), []).append(position)
        for positions in self.extras.values():
            positions.sort()

    def notes(self) -> list[str]:
        """What was mended, in the master's order."""
        said = []
        for index, cell in enumerate(self.master.cells):
            name = _grade_id(cell)
            if name is None:
                continue
            copies = [self.submitted.cells[p] for p in self.found.get(index, [])]
            said += self._solution_notes(index, name, copies) if _is(cell, "solution") else self._locked_notes(index, name, copies)
            if any(copy.cell_type != cell.cell_type for copy in copies):
                said.append(f"cell {name} had become {copies[0].cell_type}; it is {cell.cell_type} again")
        return said + self._order_notes()

    def _solution_notes(self, index: int, name: str, copies: list[NotebookNode]) -> list[str]:
        if len(copies) > 1:
            return [f"cell {name} is there {len(copies)} times; the last changed one counts, the others run before it"]
        if index in self.recognised:
            return [f"cell {name} had lost its name; it was recognised by what it defines"]
        return [] if copies else [f"cell {name} was missing; it counts as not written"]

    def _locked_notes(self, index: int, name: str, copies: list[NotebookNode]) -> list[str]:
        if not copies:
            return [f"cell {name} was missing; it was put back"]
        if len(copies) > 1:
            return [f"cell {name} is there {len(copies)} times; the released one was run"]
        # Compared with the released text: the master's has a hidden part, so it differs from everybody's. A cell that
        # this step has already restored is the master's.
        same = {self.stubs[index], tidy(self.master.cells[index].source)}
        return [] if tidy(copies[0].source) in same else [f"cell {name} had been changed; the released one was run"]

    def _order_notes(self) -> list[str]:
        """Tests that stood before the solution they follow in the master."""
        said = []
        for index, cell in enumerate(self.master.cells):
            if not _is(cell, "grade") or _is(cell, "solution") or index not in self.found:
                continue
            solutions = [i for i in self.chosen if i < index and self.chosen[i] is not None]
            if solutions and self.found[index][-1] < self.chosen[solutions[-1]]:
                said.append(f"cell {_grade_id(cell)} stood before the cell it tests; it was run after it")
        return said


def _defined(source: str) -> list[str]:
    """The names that a cell's outermost lines define."""
    return [match[1] or match[2] for match in DEFINED.finditer(tidy(source))]


def _masters_cell(plan: _Plan, index: int, cell: NotebookNode) -> NotebookNode:
    """The master's cell, with the learner's text where it is a solution, and what nbgrader added at the release."""
    source = cell.source
    if index in plan.chosen:
        position = plan.chosen[index]
        source = plan.stubs[index] if position is None else clean(plan.submitted.cells[position].source)
    metadata = plan.released_metadata.get(_grade_id(cell)) or cell.metadata
    return _bare(cell.cell_type, source, copy.deepcopy(metadata), cell.get("id") or f"master-{index}")


def _extras(plan: _Plan, index: int) -> list[NotebookNode]:
    """The learner's own cells to run after the master's cell; their metadata could change how they run, so it is dropped."""
    cells = [plan.submitted.cells[position] for position in plan.extras.get(index, [])]
    return [_bare(cell.cell_type, clean(cell.source), NotebookNode()) for cell in cells]


def _bare(cell_type: str, source: str, metadata: NotebookNode, name: str | None = None) -> NotebookNode:
    cell = NotebookNode(cell_type=cell_type, source=source, metadata=metadata, id=name)
    if cell_type == "code":
        cell.update(outputs=[], execution_count=None)
    return cell
