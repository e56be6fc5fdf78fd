"""Run a submission's cells: one kernel, a fresh nonce, limits, and a run that goes on when a cell ends Python.

There is no sandbox yet. The cells run as the grader's own user: they can read what it can read (the lessons' sources,
other submissions, the gradebook) and can use the network. Grade only classes that you trust with that, or in a
container of its own. What is limited, where the system can: address space, the size of written files, core dumps,
time per cell and per submission, and what a cell may put out.
"""

from __future__ import annotations

import ast
import copy
import os
import secrets
import subprocess
import tempfile
import time
from pathlib import Path

from ipykernel.kernelspec import write_kernel_spec
from jupyter_client.kernelspec import KernelSpecManager
from nbclient.exceptions import CellTimeoutError, DeadKernelError
from nbconvert.preprocessors import ExecutePreprocessor
from nbformat.notebooknode import NotebookNode
from nbgrader import utils
from nbgrader.preprocessors import Execute
from traitlets import Bool, Integer

from autograder.exercises import exercise_of

STARTS = 4  # how often a kernel is tried before the grader gives up
NONCE = "AUTOGRADER_NONCE"
PACKAGE_ROOT = str(Path(__file__).resolve().parents[2])
# All else of the grader's environment (tokens, passwords) is no business of a submission.
PASSED_ON = ("PATH", "HOME", "USER", "LANG", "LC_", "TZ", "TMPDIR", "TEMP", "SYSTEMROOT", "LD_LIBRARY_PATH", "VIRTUAL_ENV", "NBGRADER_", "CUDA_", "OMP_")


def parts_of(cell: NotebookNode) -> list[str]:
    """What is run one after the other: the statements of a test that calls `check`, else the cell as a whole."""
    if not utils.is_grade(cell) or utils.is_solution(cell) or exercise_of(cell.source) is None:
        return [cell.source]
    return [ast.unparse(statement) for statement in ast.parse(cell.source).body]


def last_graded(nb: NotebookNode) -> int:
    """The index of the last graded cell; that of the last cell if none is graded."""
    return max((index for index, cell in enumerate(nb.cells) if utils.is_grade(cell)), default=len(nb.cells))


class ExecuteWithNonce(Execute):
    """nbgrader's Execute; the checks answer a nonce that is new for each run, and no cell can end the run of the others."""

    memory_limit_mb = Integer(8192, help="Address space of the kernel in MiB (0: no limit).").tag(config=True)
    file_limit_mb = Integer(256, help="Largest file that the kernel may write, in MiB (0: no limit).").tag(config=True)
    output_limit_kb = Integer(256, help="Text that a cell may print, in KiB; the rest is cut off.").tag(config=True)
    display_limit_kb = Integer(16384, help="What a cell may display (figures, tables, transcripts), in KiB.").tag(config=True)
    total_timeout = Integer(240, help="Seconds for a whole submission; cells that come later are not run.").tag(config=True)
    run_to_the_end = Bool(False, help="Also run the cells after the last graded one, which can change no mark.").tag(config=True)
    max_restarts = Integer(8, help="How often Python is started again after a cell ended it.").tag(config=True)

    def preprocess(self, nb: NotebookNode, resources: dict, km: object = None) -> tuple[NotebookNode, dict]:
        """Run all cells. resources["autograder"] gets the nonce, and what happened to cells by their index."""
        self.nonce = secrets.token_hex(16)
        self.happened: dict[int, str] = {}
        self.restarts = 0
        self.started = time.monotonic()
        self.last = len(nb.cells) if self.run_to_the_end else last_graded(nb)
        resources["autograder"] = {"nonce": self.nonce, "happened": self.happened}
        # A kernelspec of our own: one named python3 in the user's home may belong to another interpreter.
        with tempfile.TemporaryDirectory() as self.scratch:
            write_kernel_spec(Path(self.scratch) / "grading")
            self.kernel_name = "grading"
            self.kernel_specs = KernelSpecManager(kernel_dirs=[self.scratch], ensure_native_kernel=False)
            return super().preprocess(nb, resources, km)

    def create_kernel_manager(self) -> object:
        manager = super().create_kernel_manager()
        manager.kernel_spec_manager = self.kernel_specs
        return manager

    def start_new_kernel(self, **kwargs: object) -> None:
        # What a submission writes past Python's own streams, and the kernel's own warnings, belong to no cell.
        silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        super().start_new_kernel(env=self._environment(), **silent, **self._limits(), **kwargs)

    def start_new_kernel_client(self, **kwargs: object) -> object:
        """A kernel that ends before it has answered has run nothing of the submission (two kernels may be given the same
        port, for one): another is started in its place."""
        for _ in range(STARTS - 1):
            try:
                return super().start_new_kernel_client(**kwargs)
            except RuntimeError:
                self.km = self.create_kernel_manager()
                self.start_new_kernel()
        return super().start_new_kernel_client(**kwargs)

    def _environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if name.startswith(PASSED_ON)}
        ours = {"PYTHONPATH": PACKAGE_ROOT, "PYTHONDONTWRITEBYTECODE": "1", "MPLBACKEND": "agg", "IPYTHONDIR": self.scratch}
        return {**kept, **ours, NONCE: self.nonce}

    def _limits(self) -> dict[str, object]:
        """Limits that the kernel starts with; none on systems without them (Windows)."""
        try:
            import resource
        except ImportError:
            return {}
        wanted = [(resource.RLIMIT_CORE, 0)]
        if self.memory_limit_mb:
            wanted.append((resource.RLIMIT_AS, self.memory_limit_mb * 2**20))
        if self.file_limit_mb:
            wanted.append((resource.RLIMIT_FSIZE, self.file_limit_mb * 2**20))

        def limit() -> None:
            for kind, value in wanted:
                _, hard = resource.getrlimit(kind)
                most = value if hard == resource.RLIM_INFINITY else min(value, hard)
                resource.setrlimit(kind, (most, most))

        return {"preexec_fn": limit}

    def execute_cell(self, cell: NotebookNode, cell_index: int, **kwargs: object) -> NotebookNode:
        """Run one cell; a cell that ends Python, or cannot be stopped, costs that cell only."""
        if cell.cell_type != "code" or cell_index > self.last:
            return cell
        if refusal := self._refusal():
            return self._lost(cell, cell_index, refusal)
        try:
            return self._execute_parts(cell, cell_index, **kwargs)
        except DeadKernelError:
            what = "Python ended in this cell"
        except CellTimeoutError:
            what = f"this cell ran longer than {self.timeout} seconds and could not be interrupted"
        self._lost(cell, cell_index, what)
        self._start_again(cell_index)
        return cell

    def _execute_parts(self, cell: NotebookNode, cell_index: int, **kwargs: object) -> NotebookNode:
        """Run the cell; a test's checks one by one, so that the thorough one answers too when the quick one has raised."""
        self.printed = self.displayed = 0
        outputs: list[NotebookNode] = []
        try:
            for source in parts_of(cell):
                part = NotebookNode(copy.copy(cell), source=source, outputs=[])
                self.nb.cells[cell_index] = part
                self.clear_display_id_mapping(cell_index)
                try:
                    ExecutePreprocessor.execute_cell(self, part, cell_index, **kwargs)
                finally:
                    outputs += part.outputs
                    cell.execution_count = part.get("execution_count")
        finally:
            cell.outputs = outputs
            self.nb.cells[cell_index] = cell
        return cell

    def _refusal(self) -> str | None:
        """Why no further cell may run, or None."""
        if self.restarts > self.max_restarts:
            return f"not run: Python had ended {self.restarts} times before"
        if time.monotonic() - self.started > self.total_timeout:
            return f"not run: the cells before took more than {self.total_timeout} seconds"
        return None

    def _lost(self, cell: NotebookNode, cell_index: int, what: str) -> NotebookNode:
        """Note in the record and in the cell itself what happened; what the cell had put out stays."""
        self.happened[cell_index] = what
        error = NotebookNode(output_type="error", ename="NotRun" if what.startswith("not run") else "PythonEnded", evalue=what)
        cell.outputs = [*cell.get("outputs", []), NotebookNode(error, traceback=[what])]
        return cell

    def _start_again(self, cell_index: int) -> None:
        """Start Python afresh and run again what the cells before had defined, the tests left out."""
        self.restarts += 1
        if self.restarts > self.max_restarts:
            return
        self._cleanup_now()
        self.km = self.create_kernel_manager()
        self.start_new_kernel()
        self.start_new_kernel_client()
        for index in range(cell_index):
            cell = self.nb.cells[index]
            is_test = utils.is_grade(cell) and not utils.is_solution(cell)
            if cell.cell_type != "code" or is_test or index in self.happened:
                continue
            self._replay(copy.deepcopy(cell), index)
            if self.restarts > self.max_restarts:
                return

    def _replay(self, cell: NotebookNode, index: int) -> None:
        """Run a cell for what it defines; its outputs are those of the first time."""
        first = self.nb.cells[index]
        self.printed = self.displayed = 0
        try:
            ExecutePreprocessor.execute_cell(self, cell, index, store_history=True)
        except (DeadKernelError, CellTimeoutError):
            # It did not fail the first time, so nothing sure can be said about what follows.
            self.restarts = self.max_restarts + 1
        finally:
            self.nb.cells[index] = first

    def _cleanup_now(self) -> None:
        self.shutdown_kernel, before = "immediate", self.shutdown_kernel
        self._cleanup_kernel()
        self.shutdown_kernel = before

    def on_cell_executed(self, **kwargs: object) -> None:
        """nbgrader's hook, and a note if the cell was interrupted for its time."""
        super().on_cell_executed(**kwargs)
        if kwargs["execute_reply"]["content"].get("ename") == "CellTimeoutError":
            self.happened[kwargs["cell_index"]] = f"this cell ran longer than {self.timeout} seconds"

    def output(self, outs: list, msg: dict, display_id: str | None, cell_index: int) -> NotebookNode | None:
        """Keep an output up to the limits; a flood is cut off once, with a word about it."""
        if msg["msg_type"] == "stream":
            return self._limited_stream(outs, msg, display_id, cell_index)
        if msg["msg_type"] in ("display_data", "execute_result"):
            self.displayed += sum(len(str(value)) for value in msg["content"].get("data", {}).values())
            if self.displayed > self.display_limit_kb * 1024:
                return None
        return super().output(outs, msg, display_id, cell_index)

    def _limited_stream(self, outs: list, msg: dict, display_id: str | None, cell_index: int) -> NotebookNode | None:
        limit = self.output_limit_kb * 1024
        if self.printed >= limit:
            return None
        text = msg["content"]["text"]
        if self.printed + len(text) > limit:
            msg["content"]["text"] = f"{text[: limit - self.printed]}\n… cut off after {self.output_limit_kb} KiB\n"
        self.printed += len(text)
        return super().output(outs, msg, display_id, cell_index)
