"""The grader's side: start the warm process, and run a notebook's cells in its forks.

    with Engine(settings, hide=[course], Warm(lines=2)) as engine:
        engine.wait()                      # "root", "user" or "none": which sandbox this machine gives
        run(engine.lines[0], cells, …)     # one line for each worker

A fork is never believed. It may send anything; what is not a list of outputs of the expected shape is left out, what
is too large or late ends it, and a cell whose fork has ended costs that cell alone: the rest runs in a fresh fork,
after what came before (tests excepted) has run again for what it defines.
"""

from __future__ import annotations

import os
import select
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path

from autograder.staff.engine import outputs, sandbox, wire

GRACE_SECONDS = 2.0
TICK_SECONDS = 0.1
PACKAGE_ROOT = str(Path(__file__).resolve().parents[3])
# All else of the grader's environment (tokens, passwords, paths of the course) is no business of a submission.
PASSED_ON = ("PATH", "LANG", "LC_", "TZ", "LD_LIBRARY_PATH", "VIRTUAL_ENV", "CUDA_")


class NoSandbox(Exception):
    """This machine gives no sandbox. The message is one sentence with the cure."""


class EngineFailed(Exception):
    """The warm process did not start, or has ended: the machine's trouble, not a submission's."""


@dataclass(frozen=True)
class Settings:
    """What a submission may take. Times in seconds; processes_mb is what all of a sandbox's processes hold together.

    packages: large ones that the submissions need, imported once instead of by each.
    """

    cell_seconds: float = 20.0
    total_seconds: float = 240.0
    restarts: int = 8
    printable_kb: int = 256
    displayable_kb: int = 16384
    processes_mb: int = 5120
    start_seconds: float = 60.0
    limits: sandbox.Limits = field(default_factory=sandbox.Limits)
    packages: tuple[str, ...] = ()


@dataclass
class Cell:
    """One cell to run. parts: its sources, run one after the other. replay: whether a fresh fork runs it again.

    files_anew: whether the files beside the notebook are laid down again before it, as they were handed in.
    """

    parts: list[str]
    replay: bool = True
    files_anew: bool = False
    outputs: list[dict] = field(default_factory=list)
    count: int | None = None
    happened: str | None = None


class Warm:
    """The warm process, started and told nothing yet: it can import while the grader still reads its own parts."""

    def __init__(self, lines: int = 1):
        if not hasattr(os, "fork"):
            raise NoSandbox(f"{sys.platform} has neither a sandbox nor forks: grade on Linux, in a virtual machine or in WSL.")
        pairs = [socket.socketpair() for _ in range(lines)]
        fds = [theirs.fileno() for _, theirs in pairs]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "autograder.staff.engine.zygote", str(os.getpid()), *map(str, fds)],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, pass_fds=fds, env=_environment(), start_new_session=True,
        )  # fmt: skip
        for _, theirs in pairs:
            theirs.close()
        self.sockets = [ours for ours, _ in pairs]

    def close(self) -> None:
        for ours in self.sockets:
            ours.close()
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stderr.close()


class Engine:
    """The warm process at work, with a line to it for each worker."""

    def __init__(self, settings: Settings, hide: list[Path], warm: Warm | None = None, no_sandbox: bool = False):
        """hide: folders that a submission must not see wherever they lie."""
        self.settings, self.warm = settings, warm or Warm()
        self.lines = [Line(ours, settings) for ours in self.warm.sockets]
        self.kind: str | None = None
        self.config = {
            "no_sandbox": no_sandbox, "hide": [str(path) for path in hide], "limits": asdict(settings.limits),
            "printable_kb": settings.printable_kb, "displayable_kb": settings.displayable_kb, "packages": settings.packages,
        }  # fmt: skip

    def wait(self) -> str:
        """Wait until the warm process is ready; which sandbox there is. Raises NoSandbox or EngineFailed."""
        if self.kind is None:
            fd = self.warm.sockets[0].fileno()
            try:
                wire.send(fd, self.config)
                said = wire.Reader(fd, 4096).receive(self.settings.start_seconds)
            except (wire.Ended, wire.Late):
                self.warm.process.kill()
                why = self.warm.process.stderr.read().decode("utf-8", "replace").strip().splitlines()
                raise EngineFailed(f"The process that runs submissions did not start: {why[-1] if why else 'it said nothing'}.") from None
            if "unavailable" in said:
                raise NoSandbox(
                    f"This machine gives no sandbox ({said['unavailable']}): grade on Linux as root or where users may make namespaces,"
                    " or add --no-sandbox if you trust every submission with your files."
                )
            self.kind = said["kind"]
        return self.kind

    @property
    def alive(self) -> bool:
        return self.warm.process.poll() is None

    def close(self) -> None:
        self.warm.close()

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name.startswith(PASSED_ON)}
    ours = {
        "PYTHONPATH": PACKAGE_ROOT, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONUTF8": "1", "IPYTHONDIR": f"{sandbox.HOME}/tmp/ipython",
        "MPLCONFIGDIR": os.environ.get("MPLCONFIGDIR") or str(Path.home() / ".cache" / "matplotlib"), "HOME": f"{sandbox.HOME}/work",
        # One thread each: a fork keeps no other thread of its parent.
        "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "PYDEVD_DISABLE_FILE_VALIDATION": "1",
    }  # fmt: skip
    return {**kept, **ours}


class Line:
    """One worker's line to the warm process."""

    def __init__(self, ours: socket.socket, settings: Settings):
        self.socket, self.settings = ours, settings

    def fork(self) -> Fork:
        """Ask for a fresh sandbox."""
        commands, to = os.pipe()
        back, answers = os.pipe()
        try:
            socket.send_fds(self.socket, [b"f"], [commands, answers])
            pid = self._number()
        except OSError as problem:
            raise EngineFailed(f"The process that runs submissions has ended: {problem}.") from None
        finally:
            os.close(commands)
            os.close(answers)
        return Fork(self, pid, to, back)

    def drain(self) -> None:
        """Throw away answers to a worker that is no more."""
        while select.select([self.socket], [], [], 0.2)[0] and self.socket.recv(64):
            pass

    def interrupt(self, pid: int) -> None:
        self.socket.sendall(b"i" + pid.to_bytes(4, "big", signed=True))

    def end(self, pid: int) -> int:
        self.socket.sendall(b"k" + pid.to_bytes(4, "big", signed=True))
        return self._number()

    def _number(self) -> int:
        got = self.socket.recv(4, socket.MSG_WAITALL)
        if len(got) != 4:
            raise EngineFailed("The process that runs submissions has ended.")
        return int.from_bytes(got, "big", signed=True)


class Fork:
    """One sandbox."""

    def __init__(self, line: Line, pid: int, to: int, back: int):
        self.line, self.pid, self.to = line, pid, to
        settings = line.settings
        self.reader = wire.Reader(back, 2 * 1024 * (settings.printable_kb + settings.displayable_kb) + 2**20)
        self.home: str | None = None

    def start(self, env: dict[str, str], files: dict[str, bytes]) -> None:
        wire.send(self.to, {"env": env, "files": _sent(files)})
        said = self.reader.receive(self.line.settings.start_seconds)
        if "ready" not in said:
            raise EngineFailed(f"A sandbox could not be made: {said.get('trouble')}.")
        self.home = said["home"]

    def run(self, source: str, seconds: float, files: dict[str, bytes] | None = None) -> dict:
        """What one cell put out, with these files laid down before. Raises wire.Ended if the fork ended, wire.Late if even an interrupt did not help."""
        wire.send(self.to, {"source": source, "files": _sent(files or {})})
        try:
            return self.reader.receive(seconds, TICK_SECONDS, self._watch_memory)
        except wire.Late:
            self.line.interrupt(self.pid)
            got = self.reader.receive(GRACE_SECONDS, TICK_SECONDS, self._watch_memory)
            return {**got, "late": True}

    def _watch_memory(self) -> None:
        if held_by(self.pid) > self.line.settings.processes_mb << 20:
            raise wire.Ended("its processes took too much memory")

    def end(self) -> int:
        os.close(self.to)
        os.close(self.reader.fd)
        code = self.line.end(self.pid)
        if self.home and not self.home.startswith(sandbox.HOME):
            sandbox.remove_home(self.home)
        return code


def _sent(files: dict[str, bytes]) -> dict[str, str]:
    return {name: content.hex() for name, content in files.items()}


def held_by(pid: int) -> int:
    """Bytes of memory of its own that a process and all below it hold (Linux; 0 elsewhere)."""
    total, waiting = 0, [pid]
    while waiting:
        one = waiting.pop()
        try:
            _, resident, shared, *_ = map(int, Path(f"/proc/{one}/statm").read_text().split())
            total += (resident - shared) * os.sysconf("SC_PAGE_SIZE")
            for task in os.listdir(f"/proc/{one}/task"):
                waiting += map(int, Path(f"/proc/{one}/task/{task}/children").read_text().split())
        except (OSError, ValueError):
            continue
    return total


def run(line: Line, cells: list[Cell], env: dict[str, str], files: dict[str, bytes], beat: Callable[[], None] = lambda: None) -> None:
    """Run the cells in order; each gets its outputs, its number, and a word if something happened to it."""
    Run(line, cells, env, files, beat).go()


class Run:
    """One submission's run, over as many forks as it takes."""

    def __init__(self, line: Line, cells: list[Cell], env: dict[str, str], files: dict[str, bytes], beat: Callable[[], None]):
        self.line, self.cells, self.env, self.files, self.beat = line, cells, env, files, beat
        self.settings = line.settings
        self.started = time.monotonic()
        self.ended = 0
        self.fork: Fork | None = None

    def go(self) -> None:
        try:
            self._fresh()
            for number, cell in enumerate(self.cells):
                self.beat()
                if refusal := self._refusal():
                    self._lost(cell, refusal)
                elif why := self._run(cell):
                    self._lost(cell, why)
                    self._start_again(number)
        finally:
            if self.fork:
                self.fork.end()

    def _fresh(self) -> None:
        self.fork = self.line.fork()
        try:
            self.fork.start(self.env, self.files)
        except (wire.Ended, wire.Late):
            raise EngineFailed("A sandbox ended before it was ready.") from None

    def _refusal(self) -> str | None:
        """Why no further cell may run, or None."""
        if self.ended > self.settings.restarts:
            return f"not run: Python had ended {self.ended} times before"
        if time.monotonic() - self.started > self.settings.total_seconds:
            return f"not run: the cells before took more than {self.settings.total_seconds:g} seconds"
        return None

    def _run(self, cell: Cell) -> str | None:
        """Run a cell's parts; a check that has raised does not keep the next one from answering. Returns why the fork ended, if it did."""
        for source in cell.parts:
            try:
                got = self.fork.run(source, self.settings.cell_seconds, self.files if cell.files_anew else None)
            except wire.Late:
                return f"this cell ran longer than {self.settings.cell_seconds:g} seconds and could not be interrupted"
            except wire.Ended as problem:
                return f"Python ended in this cell{_because(problem)}"
            cell.outputs += outputs.clean(got.get("outputs"), self.settings.printable_kb, self.settings.displayable_kb)
            cell.count = got["count"] if type(got.get("count")) is int and 0 < got["count"] < 2**31 else None
            if got.get("late"):
                cell.happened = f"this cell ran longer than {self.settings.cell_seconds:g} seconds"
                cell.outputs.append(outputs.error("CellTimeoutError", cell.happened))
        return None

    def _lost(self, cell: Cell, what: str) -> None:
        """Note what happened; what the cell had put out before stays."""
        cell.happened = what
        cell.outputs.append(outputs.error("NotRun" if what.startswith("not run") else "PythonEnded", what))

    def _start_again(self, number: int) -> None:
        """Go on in a fresh fork, after what the cells before had defined; tests, and cells that something happened to, are left out."""
        self.ended += 1
        self.fork.end()
        self.fork = None
        if self.ended > self.settings.restarts:
            return
        self._fresh()
        for cell in self.cells[:number]:
            if not cell.replay or cell.happened:
                continue
            for source in cell.parts:
                try:
                    self.fork.run(source, self.settings.cell_seconds)
                except (wire.Ended, wire.Late):
                    # It did not the first time, so nothing sure can be said about what follows.
                    self.ended = self.settings.restarts + 1
                    return


def _because(problem: wire.Ended) -> str:
    text = str(problem)
    return f" ({text})" if text.startswith(("its processes", "a message of")) else ""
