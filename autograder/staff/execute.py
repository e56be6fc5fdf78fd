"""Run a submission's notebook: which cells, in which parts, with a fresh nonce. The running itself is the engine's."""

from __future__ import annotations

import ast
import atexit
import platform
import secrets
from pathlib import Path

from nbformat.notebooknode import NotebookNode
from nbgrader import utils
from nbgrader.preprocessors import NbGraderPreprocessor
from traitlets import Bool, Float, Integer, default

from autograder.beside import LARGEST, LEARNERS
from autograder.exercises import EXERCISES, exercise_of
from autograder.staff.engine import client, sandbox

OWN = Path(__file__).resolve().parent
NONCE = "AUTOGRADER_NONCE"
LANGUAGE = {
    "codemirror_mode": {"name": "ipython", "version": 3}, "file_extension": ".py", "mimetype": "text/x-python", "name": "python",
    "nbconvert_exporter": "python", "pygments_lexer": "ipython3", "version": platform.python_version(),
}  # fmt: skip


def parts_of(cell: NotebookNode) -> list[str]:
    """What is run one after the other: the statements of a test that calls `check`, else the cell as a whole."""
    if not utils.is_grade(cell) or utils.is_solution(cell) or exercise_of(cell.source) is None:
        return [cell.source]
    return [ast.unparse(statement) for statement in ast.parse(cell.source).body]


def reads_predictions(cell: NotebookNode) -> bool:
    """Whether this is the test that marks predictions: it reads the file that was handed in, whatever the cells before it did to theirs."""
    return utils.is_grade(cell) and (exercise_of(cell.source) or "").endswith("/predictions")


def that_count(nb: NotebookNode) -> set[int]:
    """The indexes of the cells that a mark can depend on: those up to the last graded one, and tests of predictions.

    Such a test reads a file alone, so that the cells between need not run for it: in a lesson they are its large
    simulations. Without any other graded cell all cells count.
    """
    graded = [index for index, cell in enumerate(nb.cells) if utils.is_grade(cell)]
    last = max((index for index in graded if not reads_predictions(nb.cells[index])), default=len(nb.cells) - 1)
    return {*range(last + 1), *graded}


def packages_of(*lessons: NotebookNode) -> tuple[str, ...]:
    """The packages without which exercises of these notebooks cannot be driven."""
    asked = {exercise_of(cell.source) for nb in lessons for cell in nb.cells if utils.is_grade(cell) and cell.cell_type == "code"}
    return tuple(sorted({needed for id in asked if id in EXERCISES and (needed := EXERCISES[id].needs)}))


def run_notebook(nb: NotebookNode, line: client.Line, to_the_end: bool = False, files: dict[str, bytes] | None = None) -> dict:
    """Run the cells and put their outputs into the notebook; {"nonce", "happened": index → what happened to that cell}."""
    nonce = secrets.token_hex(16)
    wanted = set(range(len(nb.cells))) if to_the_end else that_count(nb)
    todo = {i: cell for i, cell in enumerate(nb.cells) if cell.cell_type == "code" and i in wanted and cell.source.strip()}
    cells = {i: client.Cell(parts_of(cell), not utils.is_grade(cell) or utils.is_solution(cell), reads_predictions(cell)) for i, cell in todo.items()}
    client.run(line, list(cells.values()), {NONCE: nonce, "NBGRADER_EXECUTION": "autograde"}, files or {})
    for index, ran in cells.items():
        nb.cells[index].outputs = [NotebookNode(o, **{k: NotebookNode(o[k]) for k in ("data", "metadata") if k in o}) for o in ran.outputs]
        nb.cells[index].execution_count = ran.count
    nb.metadata["language_info"] = NotebookNode(LANGUAGE)
    return {"nonce": nonce, "happened": {index: ran.happened for index, ran in cells.items() if ran.happened}}


class ExecuteInSandbox(NbGraderPreprocessor):
    """In nbgrader's own Autograde: run the cells as `autograder grade` does. Its options hold for both."""

    timeout = Integer(help="Seconds for a cell; c.Execute.timeout if that is set, else 20.").tag(config=True)
    total_timeout = Integer(240, help="Seconds for a whole submission; cells that come later are not run.").tag(config=True)
    memory_limit_mb = Integer(4096, help="Address space of one process of a submission, in MiB.").tag(config=True)
    all_memory_limit_mb = Integer(5120, help="Memory that all processes of a submission may hold together, in MiB.").tag(config=True)
    file_limit_mb = Integer(64, help="All files that a submission may write, in MiB; they are kept in memory.").tag(config=True)
    process_limit = Integer(64, help="Processes and threads of a submission.").tag(config=True)
    output_limit_kb = Integer(256, help="Text that a cell may print, in KiB; the rest is cut off.").tag(config=True)
    display_limit_kb = Integer(16384, help="What a cell may display (figures, tables, transcripts), in KiB.").tag(config=True)
    max_restarts = Integer(8, help="How often Python is started again after a cell ended it.").tag(config=True)
    run_to_the_end = Bool(False, help="Also run the cells that can change no mark: those after the last graded one, but for tests of predictions.").tag(config=True)
    no_sandbox = Bool(False, help="Run submissions with all your rights where there is no sandbox, and only there.").tag(config=True)
    start_timeout = Float(60.0, help="Seconds for the warm process to start.").tag(config=True)

    @default("timeout")
    def _timeout(self) -> int:
        return self.config.Execute.get("timeout", 20)

    def settings(self, *lessons: NotebookNode) -> client.Settings:
        """The options, for submissions of these lessons."""
        limits = sandbox.Limits(
            memory_mb=self.memory_limit_mb, file_mb=self.file_limit_mb, scratch_mb=self.file_limit_mb, processes=self.process_limit
        )
        return client.Settings(
            cell_seconds=self.timeout, total_seconds=self.total_timeout, restarts=self.max_restarts, printable_kb=self.output_limit_kb,
            displayable_kb=self.display_limit_kb, processes_mb=self.all_memory_limit_mb, limits=limits, start_seconds=self.start_timeout,
            packages=packages_of(*lessons),
        )  # fmt: skip

    def preprocess(self, nb: NotebookNode, resources: dict) -> tuple[NotebookNode, dict]:
        """Run all cells. resources["autograder"] gets the nonce, and what happened to cells by their index."""
        root = Path(self.parent.parent.coursedir.root) if self.parent else Path.cwd()
        line = _shared_engine(self.settings(nb), root, self.no_sandbox).lines[0]
        beside = [Path(resources.get("metadata", {}).get("path", "")) / name for name in LEARNERS]
        files = {path.name: path.read_bytes() for path in beside if path.is_file() and not path.is_symlink() and path.stat().st_size <= LARGEST}
        resources["autograder"] = run_notebook(nb, line, self.run_to_the_end, files)
        return nb, resources


_engines: dict[tuple, client.Engine] = {}


def _shared_engine(settings: client.Settings, root: Path, no_sandbox: bool) -> client.Engine:
    """One warm process for all submissions that this nbgrader process grades."""
    key = (settings, root, no_sandbox)
    if key not in _engines or not _engines[key].alive:
        _engines[key] = engine = start_engine(settings, root, client.Warm(), no_sandbox)
        atexit.register(engine.close)
    return _engines[key]


def start_engine(settings: client.Settings, root: Path, warm: client.Warm, no_sandbox: bool) -> client.Engine:
    """An engine that is ready. no_sandbox allows to go on without one where the machine gives none."""
    engine = client.Engine(settings, [root, OWN], warm)
    try:
        engine.wait()
    except client.NoSandbox:
        engine.close()
        if not no_sandbox:
            raise
        # A fresh process: the other one may have stopped half-way into its jail.
        engine = client.Engine(settings, [root, OWN], client.Warm(len(warm.sockets)), no_sandbox=True)
        engine.wait()
    except client.EngineFailed:
        engine.close()
        raise
    return engine
