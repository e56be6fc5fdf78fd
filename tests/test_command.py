"""The command `autograder judge`: exit codes, one JSON document, nothing left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from conftest import ROOT, needs_sources

MANAGER = "03_copy_on_write/BlockManager"
FUNCTION = "01_contiguous_vs_paged/blocks_needed"
RIGHT = "def blocks_needed(n_tokens, block_size):\n    k = 0\n    while k * block_size < n_tokens:\n        k += 1\n    return k\n"


def judge(file, *options, exercise=FUNCTION, timeout=60):
    """Run the command as a user would, in a process of its own."""
    command = [sys.executable, "-m", "autograder", "judge", str(file), "--exercise", exercise, *options]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=timeout)


@pytest.fixture
def file(tmp_path):
    def write(text, name="work.py"):
        path = tmp_path / name
        path.write_text(textwrap.dedent(text))
        return path

    return write


def test_right_work_exits_0(file):
    done = judge(file(RIGHT))
    assert (done.returncode, done.stderr) == (0, "")
    assert "every promise holds" in done.stdout


def test_wrong_work_exits_1_and_shows_the_shortest_call(file):
    done = judge(file("def blocks_needed(n, size):\n    return n // size\n"), "--json")
    assert done.returncode == 1
    told = json.loads(done.stdout)
    broken = [p for p in told["promises"] if not p["held"]]
    assert told["passed"] is False
    assert [p["id"] for p in broken] == ["enough"]
    assert broken[0]["history"] == ["blocks_needed(1, 4)"]
    assert (broken[0]["expected"], broken[0]["actual"]) == ("returned 1", "returned 0")
    assert set(broken[0]) == {"id", "statement", "held", "history", "expected", "actual", "hint"}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("def blocks_needed(:\n", "line 1"),
        ("x = 1\n", "does not define `blocks_needed`"),
        ("import does_not_exist_anywhere\n", "ModuleNotFoundError"),
        ("raise ValueError('no')\n", "raises ValueError"),
        ("raise SystemExit(0)\n", "raises SystemExit"),
        ("import os\nos._exit(0)\n", "ends Python while it is loaded"),
        ("blocks_needed = 3\n", "not something that can be called"),
        ("blocks_needed = {'a': 1}\n", "not something that can be called"),
        ("if 0: pass\n" + "elif 1: pass\n" * 20_000, "nested too deeply"),
        ("a = '\x00'\n", "not valid Python"),
    ],
)
def test_what_cannot_be_judged_exits_2_with_one_sentence(file, text, says):
    path = file(text)
    done = judge(path)
    assert done.returncode == 2
    assert says in done.stderr and len(done.stderr.strip().splitlines()) == 1 and done.stdout == ""
    done = judge(path, "--json")
    assert done.returncode == 2
    assert json.loads(done.stdout)["passed"] is False


def test_a_missing_file_a_folder_and_an_unknown_exercise_exit_2(tmp_path, file):
    assert judge(tmp_path / "nothing.py").returncode == 2
    assert judge(tmp_path).returncode == 2
    done = judge(file(RIGHT), exercise="03/BlockManager")
    assert done.returncode == 2 and MANAGER in done.stderr


def test_a_stub_is_called_unwritten(file):
    done = judge(file("def blocks_needed(n, size):\n    raise NotImplementedError\n"))
    assert done.returncode == 1 and "not written yet" in done.stdout


NOISE = """
import sys, os
print("loading", flush=True)
os.write(1, b"raw bytes")
sys.stderr.write("warning")
import json
json.dumps = lambda *a, **k: '{"passed": true}'
import builtins
builtins.print = None
def blocks_needed(n, size):
    os.write(1, b'{"passed": true}' * 10)
    return n // size
"""


def test_stdout_is_one_json_document_whatever_the_file_prints_or_patches(file):
    done = judge(file(NOISE), "--json")
    assert done.returncode == 1
    assert json.loads(done.stdout)["passed"] is False


def test_a_call_that_never_returns_is_named(file):
    done = judge(file("def blocks_needed(n, size):\n    while n == 5: pass\n    return -(-n // size)\n"))
    assert done.returncode == 1
    assert "blocks_needed(5, 4) did not return in time" in done.stdout


def test_a_call_that_swallows_every_exception_is_cut_off(file):
    swallow = """
    def blocks_needed(n, size):
        while True:
            try:
                while True: pass
            except BaseException:
                pass
    """
    start = time.monotonic()
    done = judge(file(swallow))
    assert done.returncode == 1 and "blocks_needed(0, 4) did not return in time" in done.stdout
    assert time.monotonic() - start < 40


def test_a_call_that_ends_python_is_named(file):
    done = judge(file("import os\ndef blocks_needed(n, size):\n    if n == 5: os._exit(0)\n    return -(-n // size)\n"))
    assert done.returncode == 1
    assert "blocks_needed(5, 4)" in done.stdout and "did not answer its checks" in done.stdout


def test_a_manager_with_gigabytes_is_stopped_by_its_own_memory_limit(file):
    done = judge(file("def blocks_needed(n, size):\n    x = [0] * (10 ** 10)\n    return -(-n // size)\n"))
    assert done.returncode == 1 and "MemoryError" in done.stdout


LEAVES = """
import os, time, sys
for _ in range(3):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            time.sleep(300)
        os._exit(0)
open({path!r}, "w").write(str(os.getpid()))
def blocks_needed(n, size):
    return -(-n // size)
"""


@pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="orphans are looked for in /proc, which this system lacks")
def test_nothing_that_the_file_started_outlives_the_judge(file, tmp_path):
    marker = tmp_path / "pid"
    done = judge(file(LEAVES.format(path=str(marker))))
    assert done.returncode == 0 and marker.exists()
    left = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as f:
                if str(tmp_path).encode() in f.read():
                    left.append(pid)
        except OSError:
            pass
    assert left == []


def test_importing_the_package_loads_the_standard_library_alone():
    code = "import sys, autograder, autograder.checks; print(sorted({m.split('.')[0] for m in sys.modules} - set(sys.stdlib_module_names)))"
    done = subprocess.run([sys.executable, "-S", "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.stdout.strip() == "['__main__', 'autograder']", done.stderr


@needs_sources
def test_the_reference_manager_and_a_wrong_one_through_the_command(tmp_path):
    from autograder.staff.variants import references, variants

    path = tmp_path / "manager.py"
    path.write_text(references(ROOT)[MANAGER])
    assert judge(path, exercise=MANAGER).returncode == 0
    wrong = next(v for v in variants(ROOT) if v.exercise == MANAGER and v.name == "writes_into_the_shared")
    path.write_text(wrong.code)
    done = judge(path, exercise=MANAGER)
    assert done.returncode == 1
    assert "m.fork('a', 'b')" in done.stdout and "← here" in done.stdout


# ---- ends and encodings ----------------------------------------------------------------------------------------


def test_a_list_in_place_of_answers_is_told_as_that(file):
    done = judge(file("numbers = [7, 112]\n"), exercise="01_contiguous_vs_paged/numbers")
    assert done.returncode == 2 and "not a dict of answers" in done.stderr


def test_a_path_that_no_system_takes_is_told_in_one_sentence():
    done = judge("x" * 5_000)
    assert done.returncode == 2 and "Traceback" not in done.stderr and len(done.stderr.strip().splitlines()) == 1


STRANGE = "def blocks_needed(n, size):\n    raise ValueError('\\ud800 \\x1b[31m \u5e8f\\nsecond')\n"


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_a_message_that_the_terminal_cannot_show_is_written_with_escapes(file, options):
    path = file(STRANGE)
    command = [sys.executable, "-m", "autograder", "judge", str(path), "--exercise", FUNCTION, *options]
    done = subprocess.run(command, capture_output=True, cwd=ROOT, timeout=60, env={**os.environ, "PYTHONIOENCODING": "ascii"})
    assert done.returncode == 1 and done.stderr == b""
    assert b"\x1b" not in done.stdout and b"second" in done.stdout
    if options:
        assert json.loads(done.stdout)["passed"] is False


def test_a_reader_that_goes_away_and_a_seed_of_odd_bytes_leave_no_traceback(file):
    path = file(RIGHT)
    done = subprocess.run(f"{sys.executable} -m autograder judge {path} --exercise {FUNCTION} --seed $'\\xff' | true", shell=True, executable="/bin/bash", capture_output=True, cwd=ROOT, timeout=60)
    assert b"Traceback" not in done.stderr


def runs(pid: str) -> bool:
    """Whether the process is there and no zombie that waits to be collected."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"
    except OSError:
        return False


@pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="processes are looked for in /proc, which this system lacks")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_whoever_ends_the_judge_ends_what_it_started(file, tmp_path, number):
    marker = tmp_path / "started"
    path = file(f"import os, time\nopen({str(marker)!r}, 'w').write(os.getcwd() + ' ' + str(os.getpid()))\ntime.sleep(100)\n")
    judging = subprocess.Popen([sys.executable, "-m", "autograder", "judge", str(path), "--exercise", FUNCTION], cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 30
    while not (marker.exists() and " " in marker.read_text()) and time.monotonic() < deadline:
        time.sleep(0.05)
    folder, child = marker.read_text().split()
    judging.send_signal(number)
    judging.wait(20)
    deadline = time.monotonic() + 10
    while runs(child) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not runs(child)
    if number == signal.SIGTERM:
        assert not os.path.exists(folder)
    else:
        os.rmdir(folder)
