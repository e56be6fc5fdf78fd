"""What nbgrader does differently in this course: marks come from verdicts, and only from them.

`configure(c)`, called in nbgrader_config.py, puts three steps into nbgrader's own Autograde, so that the command
line, formgrader's button and `autograder course` give the same marks:

- RebuildOnMaster: tests and locked cells from the source, the learner's cells in their places;
- ExecuteInSandbox (execute.py): the cells run in a sandbox, and every check answers a fresh nonce;
- SaveVerdicts: the marks of a checked cell are judged from its transcript, here, outside the learner's kernel.
"""

from __future__ import annotations

import contextlib
import math
import re
from pathlib import Path

import nbformat
from nbconvert.preprocessors import ClearMetadataPreprocessor, CSSHTMLHeaderPreprocessor
from nbformat.notebooknode import NotebookNode
from nbgrader import utils
from nbgrader.preprocessors import (
    AssignLatePenalties,
    CheckCellMetadata,
    ClearHiddenTests,
    ClearOutput,
    DeduplicateIds,
    GetGrades,
    IgnorePattern,
    LimitOutput,
    NbGraderPreprocessor,
    OverwriteCells,
    OverwriteKernelspec,
    SaveAutoGrades,
)
from traitlets import Unicode

from autograder.exercises import exercise_of
from autograder.staff import records
from autograder.staff.execute import ExecuteInSandbox
from autograder.staff.intake import read_own
from autograder.staff.rebuild import rebuild

TRANSCRIPT = "application/vnd.autograder.transcript+json"
NUMBER = re.compile(r"(?:np\.\w+\()?([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|[-+]?(?:nan|inf))\)?")
UNANSWERED = "it did not answer its checks"


def configure(c: object) -> None:
    """Set up nbgrader's Autograde for this course. c: the configuration that `get_config()` gives."""
    c.Autograde.sanitize_preprocessors = [
        RebuildOnMaster, ClearOutput, DeduplicateIds, OverwriteKernelspec, OverwriteCells, CheckCellMetadata,
    ]  # fmt: skip
    c.Autograde.autograde_preprocessors = [
        ExecuteInSandbox, IgnorePattern, ClearMetadataPreprocessor, LimitOutput, SaveVerdicts, AssignLatePenalties, CheckCellMetadata,
    ]  # fmt: skip
    c.OverwriteCells.add_missing_cells = True
    c.GenerateFeedback.preprocessors = [GetGrades, ClearHiddenTests, SayWhy, CSSHTMLHeaderPreprocessor]


class RebuildOnMaster(NbGraderPreprocessor):
    """Put the learner's cells on the lesson's source."""

    records_directory = Unicode("records", help="Where the records lie, from the course folder.").tag(config=True)

    def preprocess(self, nb: NotebookNode, resources: dict) -> tuple[NotebookNode, dict]:
        lesson, student = resources["nbgrader"]["assignment"], resources["nbgrader"]["student"]
        name = f"{resources['nbgrader']['notebook']}.ipynb"
        coursedir = self.parent.parent.coursedir
        master = Path(coursedir.format_path(coursedir.source_directory, ".", lesson), name)
        released = Path(coursedir.format_path(coursedir.release_directory, ".", lesson), name)
        rebuilt, repairs = rebuild(nb, read_own(master), read_own(released))
        records.save(Path(self.records_directory), records.Record(lesson, student, records.PREPARED, repairs=repairs))
        return rebuilt, resources


class SayWhy(NbGraderPreprocessor):
    """For nbgrader's own feedback pages: a test shows why its mark is not full, and no traceback, which would show hidden tests."""

    records_directory = Unicode("records", help="Where the records lie, from the course folder.").tag(config=True)

    def preprocess(self, nb: NotebookNode, resources: dict) -> tuple[NotebookNode, dict]:
        found = records.load(Path(self.records_directory), resources["nbgrader"]["assignment"], resources["nbgrader"]["student"])
        why = {cell.grade_id: reason for cell in found.cells if (reason := records.reason(cell))} if found else {}
        for cell in nb.cells:
            if cell.cell_type == "code" and utils.is_grade(cell) and not utils.is_solution(cell):
                said = why.get(cell.metadata.nbgrader.grade_id)
                cell.outputs = [nbformat.v4.new_output("stream", name="stdout", text=f"{said}\n")] if said else []
        return nb, resources


class SaveVerdicts(SaveAutoGrades):
    """Save the marks: for a cell with a `check("…")` from its thorough transcript alone, else by nbgrader's rule, validated."""

    records_directory = Unicode("records", help="Where the records lie, from the course folder.").tag(config=True)

    def preprocess(self, nb: NotebookNode, resources: dict) -> tuple[NotebookNode, dict]:
        self.marks: list[records.CellMark] = []
        nb, resources = super().preprocess(nb, resources)
        folder, who = Path(self.records_directory), (self.assignment_id, self.student_id)
        record = records.load(folder, *who) or records.Record(*who, records.PREPARED)
        record.cells = self.marks
        record.state = records.AWAITING if any(mark.score is None for mark in self.marks) else records.GRADED
        record.cause = record.where = record.cure = record.key = None
        records.save(folder, record)
        return nb, resources

    def preprocess_cell(self, cell: NotebookNode, resources: dict, cell_index: int) -> tuple[NotebookNode, dict]:
        self.cell_index = cell_index
        return super().preprocess_cell(cell, resources, cell_index)

    def _add_score(self, cell: NotebookNode, resources: dict) -> None:
        """nbgrader's step of that name: the automatic mark, and whether a person has to look. A manual mark stays."""
        mark = mark_cell(cell, self.cell_index, resources.get("autograder", {}))
        self.marks.append(mark)
        grade = self.gradebook.find_grade(mark.grade_id, self.notebook_id, self.assignment_id, self.student_id)
        grade.auto_score = mark.score
        grade.needs_manual_grade = grade.manual_score is not None or mark.score is None
        self.gradebook.db.commit()


def mark_cell(cell: NotebookNode, index: int, run: dict) -> records.CellMark:
    """The mark of one executed cell. run: what `ExecuteInSandbox` has left ("nonce", "happened")."""
    meta = cell.metadata.nbgrader
    exercise = exercise_of(cell.source) if cell.cell_type == "code" and not utils.is_solution(cell) else None
    mark = records.CellMark(meta.grade_id, exercise, float(meta.points), None, note=run.get("happened", {}).get(index))
    if exercise is None:
        mark.score, why = plain_mark(cell)
        mark.note = mark.note or why
        return mark
    nonce = run.get("nonce")
    verdict = lowest_verdict(cell, exercise, nonce, thorough=True)
    quick = lowest_verdict(cell, exercise, nonce, thorough=False)
    mark.quick = quick.to_dict() if quick else None
    mark.score = 0.0
    if verdict is None or not verdict.answered:
        mark.note = mark.note or (verdict.sentence if verdict else _unanswered(cell))
        return mark
    mark.verdict = verdict.to_dict()
    mark.score = valid(verdict.score(mark.points), mark.points) or 0.0
    return mark


def lowest_verdict(cell: NotebookNode, exercise: str, nonce: str | None, thorough: bool) -> object | None:
    """The verdict on the cell's transcript of that kind, None without one; a cell that shows several gets the worst of them."""
    from autograder.checks import judge_packed

    transcripts = [
        data
        for output in cell.get("outputs", [])
        if isinstance(data := output.get("data", {}).get(TRANSCRIPT), dict)
        and bool(data.get("thorough")) == thorough
        and data.get("exercise") == exercise
    ]
    verdicts = [judge_packed(data, exercise=exercise, nonce=nonce, thorough=thorough) for data in transcripts if nonce]
    return min(verdicts, key=lambda verdict: (verdict.answered, verdict.score(1.0)), default=None)


def _unanswered(cell: NotebookNode) -> str:
    """Why there is no transcript, as far as the cell shows it."""
    errors = [output for output in cell.get("outputs", []) if output.output_type == "error"]
    if not errors:
        return UNANSWERED
    first = f"{errors[-1].ename}: {errors[-1].evalue}".strip().splitlines()[0]
    return f"{UNANSWERED} ({first[:160]})"


def plain_mark(cell: NotebookNode) -> tuple[float | None, str | None]:
    """nbgrader's own rule for a graded cell without a check, and why it gave no mark if it gave none.

    What is on stderr is no error, and a last line that should be a mark but is none (nan, negative, above the
    maximum, True) asks for a person instead of giving full marks.
    """
    quiet = NotebookNode(cell)
    points = float(cell.metadata.nbgrader.points)
    if cell.cell_type == "code" and not utils.is_solution(cell):
        quiet.outputs = [o for o in cell.get("outputs", []) if not (o.output_type == "stream" and o.name == "stderr")]
        shown = next((o.data.get("text/plain", "") for o in quiet.outputs if o.output_type == "execute_result"), "")
        failed = any(o.output_type == "error" for o in quiet.outputs)
        if not failed and (number := _as_number(str(shown).strip())) is not None:
            score = valid(number, points)
            return score, None if score is not None else f"its test ended in {shown}, which is no mark from 0 to {points:g}"
    score, _ = utils.determine_grade(quiet)
    return score, None


def _as_number(text: str) -> float | None:
    """The number that a cell displays, also as NumPy writes it; True and False become nan, other text None."""
    if text in ("True", "False"):
        return math.nan
    match = NUMBER.fullmatch(text)
    with contextlib.suppress(TypeError, ValueError):
        return float(match[1]) if match else None
    return None


def valid(score: float, points: float) -> float | None:
    """The score as a float if it is finite and from 0 to points, else None."""
    score = float(score)
    if not math.isfinite(score) or not -1e-9 <= score <= points + 1e-9:
        return None
    return min(max(score, 0.0), points)
