"""Run a learner's file in a process of its own and hand back a transcript. The judge stays outside, in the parent.

The child's answer comes back through one pipe; what the file prints goes nowhere, and a counter in shared memory
tells which call was going on if the child dies or hangs. Nothing that the file started outlives `run_file`.
"""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from autograder.checks import exercise_named, judge, record
from autograder.exercises import Exercise
from autograder.judge import cases_of, history_text
from autograder.needs import Missing
from autograder.plays import manager_plays
from autograder.record import show
from autograder.verdict import Verdict, not_answered

IMPORT_SECONDS = 10.0
IMPORT_SECONDS_LARGE = 60.0    # for an exercise that needs a package as large as torch
TOTAL_SECONDS = 60.0
MEMORY_BYTES = 4 * 2**30
WRITTEN_BYTES = 64 * 2**20
LARGEST_ANSWER = 64 * 2**20
AT_IMPORT = 2**32 - 1


class CannotJudge(Exception):
    """The file cannot be judged at all; the text is one sentence with the cure."""


def run_file(path: Path, exercise: Exercise, thorough: bool, seed: str) -> Verdict:
    """The verdict on the class, function or dict of the exercise's name in a Python file. Raises CannotJudge."""
    source = _source(path)
    _compile(source, path)
    with tempfile.TemporaryFile() as shared:
        shared.write(struct.pack("<II", AT_IMPORT, 0))
        shared.flush()
        answer, code = _run(path, exercise, thorough, seed, shared.fileno())
        shared.seek(0)
        where = struct.unpack("<II", shared.read(8))
    try:
        data = json.loads(answer) if answer else None
    except ValueError:
        data = None
    if isinstance(data, dict) and isinstance(data.get("trouble"), str):
        raise CannotJudge(data["trouble"])
    if isinstance(data, dict) and "transcript" in data:
        return judge(exercise, data["transcript"], thorough, seed)
    return _died(path, exercise, thorough, seed, where, code)


def _source(path: Path) -> bytes:
    try:
        there = path.exists()
    except OSError as error:
        raise CannotJudge(f"{str(path)[:60]}… cannot be a file here ({error.strerror}); give the path of the Python file.") from None
    if not there:
        raise CannotJudge(f"There is no file {path}; give the path of the Python file that defines it.")
    if not path.is_file():
        raise CannotJudge(f"{path} is not a file; give the path of the Python file that defines it.")
    try:
        return path.read_bytes()
    except OSError as error:
        raise CannotJudge(f"{path} cannot be read ({error.strerror}); check its permissions.") from None


def _compile(source: bytes, path: Path) -> None:
    try:
        compile(source, str(path), "exec")
    except SyntaxError as error:
        where = f", line {error.lineno}" if error.lineno else ""
        raise CannotJudge(f"{path}{where} is not valid Python ({error.msg}); run `python {path}` to see the place.") from None
    except (ValueError, RecursionError, MemoryError) as error:
        if isinstance(error, ValueError):
            raise CannotJudge(f"{path} is not valid Python ({error}); save it as plain UTF-8 text.") from None
        raise CannotJudge(f"{path} cannot be compiled: something in it is nested too deeply, or very large; write it in smaller parts.") from None


def _died(path: Path, exercise: Exercise, thorough: bool, seed: str, where: tuple[int, int], code: int | None) -> Verdict:
    number, row = where
    if number == AT_IMPORT:
        what = f"did not finish loading within {_patience(exercise):g} s" if code is None else "ends Python while it is loaded"
        raise CannotJudge(f"{path} {what}; it should only define `{exercise.name}`.")
    if exercise.kind == "manager":
        plays = manager_plays(exercise.verbs, thorough, seed)
        calls = history_text(plays[number], row) if number < len(plays) and row < len(plays[number].ops) else ["an unknown call"]
    elif exercise.kind == "function":
        cases = cases_of(exercise, thorough, seed)
        calls = exercise.function.written(exercise.name, cases[row]) if row < len(cases) else ["an unknown call"]
    else:
        calls = ["reading the answers"]
    if code is None:
        return Verdict(exercise, not_answered(exercise, "a call did not return").promises, stopped=calls)
    return not_answered(exercise, f"Python ended during {calls[-1]}")


# ---- the parent's side -----------------------------------------------------------------------------------------


def _run(path: Path, exercise: Exercise, thorough: bool, seed: str, shared: int) -> tuple[bytes, int | None]:
    """What the child wrote into its pipe, and its exit code; None if it was cut off."""
    read, write = os.pipe()
    command = [sys.executable, "-c", "from autograder.child import main; main()", str(path.resolve()), exercise.id, str(int(thorough)), seed, str(write), str(shared)]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent.parent), *filter(None, [os.environ.get("PYTHONPATH")])]), "PYTHONDONTWRITEBYTECODE": "1"}
    _adopt_orphans()
    with _ended_in_order(), tempfile.TemporaryDirectory(prefix="judge-") as scratch:
        child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, pass_fds=(write, shared), start_new_session=True, cwd=scratch, env=env)
        os.close(write)
        try:
            answer = _read(read, child, shared, _patience(exercise))
            code = child.poll()
            if code is None and answer:
                code = _wait(child, 1.0)
        finally:
            os.close(read)
            _end(child)
    return answer, code


@contextlib.contextmanager
def _ended_in_order() -> Iterator[None]:
    """Who ends the judge by SIGTERM or SIGHUP ends the child and its folder too."""
    before = {}
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGTERM, signal.SIGHUP):
            before[number] = signal.signal(number, _leave)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _leave(number: int, frame: object) -> None:
    raise SystemExit(128 + number)


def _patience(exercise: Exercise) -> float:
    """Seconds for which nothing may happen."""
    return IMPORT_SECONDS_LARGE if exercise.needs else IMPORT_SECONDS


def _read(pipe: int, child: subprocess.Popen, shared: int, patience: float) -> bytes:
    """Everything up to the end of the pipe, or what had come when time ran out or a call stood still too long."""
    import select

    deadline, got, size = time.monotonic() + TOTAL_SECONDS, [], 0
    last, since = None, time.monotonic()
    while time.monotonic() < deadline and size < LARGEST_ANSWER:
        if select.select([pipe], [], [], 0.05)[0]:
            part = os.read(pipe, 2**20)
            if not part:
                _wait(child, 1.0)
                break
            got.append(part)
            size += len(part)
            if part.endswith(b"\n"):
                break  # the answer is one line; a grandchild may keep the pipe open for ever
            continue
        if child.poll() is not None:
            break
        now = os.pread(shared, 8, 0)
        if now != last:
            last, since = now, time.monotonic()
        if time.monotonic() - since > patience:
            break
    return b"".join(got)


def _wait(child: subprocess.Popen, seconds: float) -> int | None:
    try:
        return child.wait(seconds)
    except subprocess.TimeoutExpired:
        return None


def _adopt_orphans() -> None:
    """Linux: what the child leaves behind becomes ours, so that it can be found and ended."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None, use_errno=True).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER


def _end(child: subprocess.Popen) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)
    with contextlib.suppress(subprocess.TimeoutExpired):
        child.wait(5)
    for _ in range(200):  # each round ends the orphans that the round before laid bare
        left = _children()
        if not left:
            return
        for pid in left:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        for pid in left:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, 0)


def _children() -> list[int]:
    """Our own children now (Linux); an empty list elsewhere."""
    with contextlib.suppress(OSError, ValueError):
        return [int(pid) for task in Path("/proc/self/task").iterdir() for pid in (task / "children").read_text().split()]
    return []


# ---- the child's side ------------------------------------------------------------------------------------------


def main() -> None:
    """Load the file, drive what it defines, write one line of JSON to the pipe, and go."""
    _die_with_parent()
    path, id, thorough, seed, pipe, shared = sys.argv[1:7]
    sys.argv = [path]
    _limit()
    exercise = exercise_named(id)
    counter = mmap.mmap(int(shared), 8)
    pack_into = struct.pack_into
    try:
        found = _load(path, exercise.name, exercise.kind)
        answer = {"transcript": record(exercise, found, thorough == "1", seed, lambda play, row: pack_into("<II", counter, 0, play, row))}
    except (CannotJudge, Missing) as error:
        answer = {"trouble": str(error)}
    except BaseException as error:
        answer = {"trouble": f"{path} raises {type(error).__name__} while it is judged; it should only define `{exercise.name}`."}
    _write(int(pipe), json.dumps(answer).encode() + b"\n")
    os._exit(0)


def _die_with_parent() -> None:
    """Linux: whatever ends the judge, even SIGKILL, ends this process."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None, use_errno=True).prctl(1, int(signal.SIGKILL), 0, 0, 0)  # PR_SET_PDEATHSIG


def _write(pipe: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(pipe, view) :]


def _limit() -> None:
    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
        resource.setrlimit(resource.RLIMIT_FSIZE, (WRITTEN_BYTES, WRITTEN_BYTES))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _load(path: str, name: str, exercise_kind: str) -> object:
    space = {"__name__": "submission", "__file__": path, "__builtins__": __builtins__}
    # A dataclass or a pickle looks its module up by name.
    import types

    module = types.ModuleType("submission")
    module.__dict__.update(space)
    sys.modules["submission"] = module
    sys.path.insert(0, str(Path(path).parent))
    try:
        exec(compile(Path(path).read_bytes(), path, "exec"), module.__dict__)
    except BaseException as error:
        line = _line(error, path)
        raise CannotJudge(f"{path}{line} raises {type(error).__name__} when it is loaded; run `python {path}` to see why.") from None
    if name not in module.__dict__:
        raise CannotJudge(f"{path} does not define `{name}`; the exercise asks for exactly that name.")
    found = module.__dict__[name]
    if exercise_kind == "answers" and (isinstance(found, (list, tuple, str)) or not hasattr(type(found), "__getitem__")):
        raise CannotJudge(f"`{name}` in {path} is {show(found)}, not a dict of answers; write it as in the lesson, each answer under its name.")
    if exercise_kind != "answers" and not callable(found):
        raise CannotJudge(f"`{name}` in {path} is not something that can be called; define a class or a function of that name.")
    return found


def _line(error: BaseException, path: str) -> str:
    lines = []
    tb = error.__traceback__
    while tb:
        if tb.tb_frame.f_code.co_filename == path:
            lines.append(tb.tb_lineno)
        tb = tb.tb_next
    return f", line {lines[-1]}," if lines else ""
