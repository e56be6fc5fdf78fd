"""One submission from its bytes to its marks: intake, run, judge. The same everywhere; it needs no file of the course."""

from __future__ import annotations

import traceback
from dataclasses import dataclass, field

import nbformat
from nbformat.notebooknode import NotebookNode
from nbgrader import utils
from nbgrader.preprocessors import IgnorePattern, LimitOutput
from traitlets.config import Config

from autograder.beside import LARGEST, LEARNERS
from autograder.staff import intake, plugin, records, snapshot
from autograder.staff.engine import client
from autograder.staff.execute import run_notebook
from autograder.staff.records import Record
from autograder.staff.snapshot import Snapshot


@dataclass(frozen=True)
class Given:
    """A cell as the gradebook has it from generate_assignment; points is None for what is not graded."""

    cell_type: str
    locked: bool
    source: str
    checksum: str
    points: float | None = None


@dataclass(frozen=True)
class Sheet:
    """What grading a lesson needs, and nothing of where it lies.

    files: what was released beside the notebook. options: the configuration of nbgrader's steps that change outputs.
    """

    lesson: str
    master: NotebookNode
    released: NotebookNode
    given: dict[str, Given]
    kernelspec: dict | None
    files: dict[str, bytes] = field(default_factory=dict)
    to_the_end: bool = False
    options: dict = field(default_factory=dict)


@dataclass
class Assessed:
    """What came out. notebook: the text of the executed notebook; comments: grade_id → nbgrader's automatic comment."""

    record: Record
    notebook: str | None = None
    comments: dict[str, str | None] = field(default_factory=dict)
    trace: str | None = None


def assess(sheet: Sheet, student: str, handed_in: Snapshot | intake.NotGradable, line: client.Line) -> Assessed:
    """Grade one submission. Whatever its files are, this returns; a fault of ours is in the record too."""
    record = Record(sheet.lesson, student, records.FAILED)
    try:
        if isinstance(handed_in, intake.NotGradable):
            raise handed_in
        return _assess(sheet, record, handed_in, line)
    except intake.NotGradable as problem:
        record.state, record.cause, record.where, record.cure = records.NOT_GRADABLE, problem.cause, problem.where, problem.cure
    except intake.NothingHandedIn as problem:
        record.state, record.cause = records.NOT_SUBMITTED, str(problem)
    except client.EngineFailed:
        raise  # the machine's trouble: no submission is to blame
    except Exception as problem:  # nbformat and its dependencies raise what they like; the next submission must not care
        return Assessed(failed(record, problem), trace=traceback.format_exc())
    return Assessed(record)


def failed(record: Record, problem: BaseException) -> Record:
    record.state = records.FAILED
    record.cause = (str(problem).strip() or type(problem).__name__).splitlines()[0]
    record.cure = f"This is the grader's fault, not the submission's; the log is records/{record.lesson}/{record.student}.log."
    return record


def _assess(sheet: Sheet, record: Record, handed_in: Snapshot, line: client.Line) -> Assessed:
    with snapshot.laid_out(handed_in) as folder:
        nb, record.repairs = intake.take_in(folder, f"{sheet.lesson}.ipynb", sheet.master, sheet.released)
    _sanitise(nb, sheet)
    ran = run_notebook(nb, line, sheet.to_the_end, sheet.files | _beside(handed_in))
    _tidy_outputs(nb, sheet)
    record.cells = [plugin.mark_cell(cell, index, ran) for index, cell in enumerate(nb.cells) if utils.is_grade(cell)]
    record.state = records.AWAITING if any(mark.score is None for mark in record.cells) else records.GRADED
    return Assessed(record, nbformat.writes(nb, version=4), comments_of(nb))


def _beside(handed_in: Snapshot) -> dict[str, bytes]:
    """The learner's own files, which the cells find beside the notebook; too large ones are none."""
    entries = {name: handed_in[name] for name in LEARNERS if name in handed_in}
    return {name: entry.content for name, entry in entries.items() if entry.content is not None and entry.size <= LARGEST}


def _sanitise(nb: NotebookNode, sheet: Sheet) -> None:
    """What nbgrader's OverwriteKernelspec and OverwriteCells do, from the sheet instead of the gradebook."""
    if sheet.kernelspec:
        nb.metadata["kernelspec"] = sheet.kernelspec
    for cell in nb.cells:
        given = sheet.given.get(cell.metadata.get("nbgrader", {}).get("grade_id"))
        if given is None:
            continue
        meta = cell.metadata.nbgrader
        meta.update(locked=given.locked, checksum=given.checksum)
        if given.points is not None:
            meta["points"] = given.points
        if given.locked and utils.compute_checksum(cell) != given.checksum:
            cell.source = given.source


def _tidy_outputs(nb: NotebookNode, sheet: Sheet) -> None:
    """nbgrader's own two steps on outputs, between running and marking as there."""
    config = Config(sheet.options)
    for step in (IgnorePattern(config=config), LimitOutput(config=config)):
        for index, cell in enumerate(nb.cells if step.enabled else []):
            step.preprocess_cell(cell, {}, index)


def comments_of(nb: NotebookNode) -> dict[str, str | None]:
    """grade_id → nbgrader's automatic comment, for every answer."""
    return {c.metadata.nbgrader.grade_id: _comment(c) for c in nb.cells if utils.is_solution(c) or utils.is_task(c)}


def _comment(cell: NotebookNode) -> str | None:
    """nbgrader's automatic comment on an answer that is as it was given out."""
    unchanged = cell.metadata.nbgrader.get("checksum") == utils.compute_checksum(cell)
    return "No response." if unchanged and not utils.is_task(cell) else None
