"""How cells are run: in a fork of a warm process, one after the other, with limits, and on after a cell that ended its fork."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import nbformat
import pytest

from autograder.staff import execute
from autograder.staff.engine import client, outputs, sandbox, seccomp, wire
from autograder.staff.execute import ExecuteInSandbox
from conftest import ROOT, run

pytestmark = [pytest.mark.skipif(not hasattr(os, "fork"), reason="needs forks")]
SETTINGS = client.Settings(cell_seconds=2, restarts=3, printable_kb=8, displayable_kb=64)


@pytest.fixture(scope="module")
def engine(sandboxed):
    with client.Engine(SETTINGS, [ROOT]) as made:
        made.wait()
        yield made


@pytest.fixture
def cells(engine):
    """Run sources as cells; those that begin with "test:" are tests, which are not run a second time."""

    def go(*sources, env=None, files=None):
        made = [client.Cell([s.removeprefix("test:")], replay=not s.startswith("test:")) for s in sources]
        client.run(engine.lines[0], made, env or {}, files or {})
        return made

    return go


def text(cell):
    return "".join(o.get("text", "") or o.get("data", {}).get("text/plain", "") for o in cell.outputs)


def test_cells_share_what_they_define_and_show_their_last_value(cells):
    one, two = cells("x = 20", "print('now'); x + 22")
    assert (one.outputs, one.count) == ([], 1)
    assert [o["output_type"] for o in two.outputs] == ["stream", "execute_result"]
    assert text(two) == "now\n42"
    assert two.outputs[1]["execution_count"] == two.count == 2


def test_an_error_is_shown_and_the_next_cell_runs(cells):
    one, two = cells("1 / 0", "7")
    assert [(o["ename"], o["evalue"]) for o in one.outputs] == [("ZeroDivisionError", "division by zero")]
    assert text(two) == "7"


@pytest.mark.parametrize("done", ["os.remove('answers.txt')", "os.chdir('/')", "shutil.rmtree(os.getcwd(), ignore_errors=True)", "shutil.rmtree('/', ignore_errors=True)"])
def test_a_cell_that_asks_for_the_files_finds_them_as_they_were_handed_in(engine, done):
    made = [client.Cell([f"import os, shutil; {done}"]), client.Cell(["print(open('answers.txt').read())"], files_anew=True), client.Cell(["print('on')"])]
    client.run(engine.lines[0], made, {}, {"answers.txt": b"as handed in"})
    assert [text(cell).strip() for cell in made] == ["", "as handed in", "on"]


def test_one_submission_sees_nothing_of_another(cells):
    cells("left = 1", "open('left', 'w').close()")
    assert text(cells("import os; 'left' in globals(), os.listdir()")[0]) == "(False, [])"


def test_files_and_environment_are_where_cells_look_for_them(cells):
    assert text(cells("import os; open('data/a.txt').read() + os.environ['WORD']", env={"WORD": "!"}, files={"data/a.txt": b"hello"})[0]) == "'hello!'"


def test_magics_commands_figures_and_displays_work(cells):
    time_it, command, figure, update = cells(
        "%%time\n1 + 1", "!echo from the shell; echo and its errors >&2", "import matplotlib.pyplot as plt; plt.plot([1, 2]); plt.show()",
        "from IPython.display import HTML, display; handle = display(HTML('a'), display_id=True); handle.update(HTML('b'))",
    )  # fmt: skip
    assert "Wall time" in text(time_it)
    assert text(command) == "from the shell\nand its errors\n"
    assert "image/png" in figure.outputs[0]["data"]
    assert [o["data"]["text/html"] for o in update.outputs] == ["b"]


def test_what_a_cell_prints_is_cut_off_and_counted_anew_for_the_next(cells):
    one, two = cells("for _ in range(100000): print('x' * 100)", "print('y')")
    assert 8 * 1024 < len(text(one)) < 9 * 1024
    assert text(one).endswith("… cut off after 8 KiB\n")
    assert text(two) == "y\n"


def test_a_cell_that_ends_python_costs_that_cell_and_what_came_before_is_there_again(cells):
    defined, test, deadly, after = cells("x = 1; print('ran')", "test:print('tested')", "import os; y = 2; os._exit(0)", "print(x, 'y' in globals())")
    assert deadly.happened == "Python ended in this cell"
    assert text(after) == "1 False\n"
    assert (text(defined), text(test)) == ("ran\n", "tested\n")


def test_after_too_many_ends_nothing_more_is_run(cells):
    made = cells(*["import os; os._exit(0)"] * 5)
    assert [cell.happened.split(":")[0] for cell in made] == ["Python ended in this cell"] * 4 + ["not run"]




def test_a_cell_that_never_ends_is_interrupted_and_its_state_stays(cells):
    started = time.monotonic()
    _, endless, after = cells("x = 5", "while True: pass", "x")
    assert 2 <= time.monotonic() - started < 4
    assert endless.happened == "this cell ran longer than 2 seconds"
    assert endless.outputs[-1]["ename"] == "CellTimeoutError"
    assert text(after) == "5"


def test_a_cell_that_swallows_interrupts_is_ended(cells):
    _, endless, after = cells("x = 5", "import signal, time; signal.signal(signal.SIGINT, signal.SIG_IGN); time.sleep(100)", "x")
    assert endless.happened == "this cell ran longer than 2 seconds and could not be interrupted"
    assert text(after) == "5"


def test_a_fork_comes_of_the_warm_process_and_not_of_a_new_one(engine):
    """A new process would import for seconds; what a fork takes, the benchmark prints."""
    times = []
    for _ in range(5):
        started = time.monotonic()
        fork = engine.lines[0].fork()
        fork.start({}, {})
        times.append(time.monotonic() - started)
        fork.end()
    assert min(times) < 1


def zygotes_of(grader):
    """The warm process of this grader and its forks: they carry its number in their command line."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if b"engine.zygote\0%d\0" % grader.pid in (place / "cmdline").read_bytes():
                found.append(place.name)
    return found


@pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_a_grader_that_is_killed_leaves_no_process(how, sandboxed):
    code = (
        "from autograder.staff.engine import client; e = client.Engine(client.Settings(), []); e.wait(); f = e.lines[0].fork(); f.start({}, {}); print('ready', flush=True);"
        "f.run('import time, ctypes; ctypes.CDLL(None).prctl(1, 0); time.sleep(100)', 100)"
    )
    grader = subprocess.Popen([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=subprocess.PIPE, text=True)
    assert grader.stdout.readline() == "ready\n"
    time.sleep(0.5)
    assert len(zygotes_of(grader)) >= 2
    grader.send_signal(how)
    grader.wait()
    grader.stdout.close()
    deadline = time.monotonic() + 5
    while zygotes_of(grader) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert zygotes_of(grader) == []


# ---- which sandbox ----


def kind_under(*prefix):
    code = "from autograder.staff.engine import client; e = client.Engine(client.Settings(), [])\ntry: print(e.wait())\nexcept client.NoSandbox as p: print('refused:', p)\nfinally: e.close()"
    return run(*prefix, sys.executable, "-c", code).stdout


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has the sandbox")
def test_the_sandbox_is_chosen_by_what_the_machine_allows(sandboxed):
    if os.geteuid() != 0:
        assert kind_under() in ("user\n",) or kind_under().startswith("refused: This machine gives no sandbox")
        return
    assert kind_under() == "root\n"
    assert kind_under("unshare", "-U", "--map-user=1234", "--map-group=1234") == "user\n"
    refused = kind_under("unshare", "-U", "--map-user=1234")  # a group that is not known: the kernel allows no namespaces
    assert refused.startswith("refused: This machine gives no sandbox")
    assert "--no-sandbox" in refused


def test_without_a_sandbox_cells_run_all_the_same_and_leave_no_folder(tmp_path, monkeypatch):
    with client.Engine(SETTINGS, [], no_sandbox=True) as engine:
        assert engine.wait() == sandbox.NONE
        made = [client.Cell(["import os; open('x', 'w').close(); print(os.getcwd())"]), client.Cell(["os._exit(0)"]), client.Cell(["1 + 1"])]
        client.run(engine.lines[0], made, {}, {})
    assert text(made[2]) == "2"
    assert not Path(text(made[0]).strip()).exists()


def test_a_machine_on_which_nothing_starts_is_the_graders_trouble(monkeypatch):
    monkeypatch.setattr(client.sys, "executable", "/bin/false")
    with client.Engine(SETTINGS, []) as engine, pytest.raises(client.EngineFailed, match="did not start"):
        engine.wait()


def test_a_warm_process_that_has_ended_is_the_graders_trouble(sandboxed):
    with client.Engine(SETTINGS, []) as engine:
        engine.wait()
        engine.warm.process.kill()
        engine.warm.process.wait()
        with pytest.raises(client.EngineFailed):
            client.run(engine.lines[0], [client.Cell(["1"])], {}, {})


def test_the_filter_is_known_for_two_processors_and_jumps_only_forward():
    for machine in seccomp.ARCHITECTURES:
        steps = seccomp.program(machine)
        assert len(steps) % 8 == 0
        count = len(steps) // 8
        assert count < 4096
        for at in range(count):
            code, then, otherwise, _ = seccomp.struct.unpack_from("<HBBI", steps, 8 * at)
            assert at + 1 + max(then, otherwise) < count or code == seccomp.RETURN
    assert seccomp.program("riscv64") is None


# ---- what comes back ----


def test_messages_that_are_none_end_the_conversation():
    for body in (b"[]", b"{", b"[" * 100000, b'{"a": NaN}', b"\xff"):
        read, write = os.pipe()
        os.write(write, wire.HEAD.pack(len(body)) + body[:60000])
        os.close(write)
        with pytest.raises(wire.Ended):
            wire.Reader(read, 1 << 20).receive(1)
        os.close(read)


def test_a_message_larger_than_the_limit_is_not_waited_for():
    read, write = os.pipe()
    os.write(write, wire.HEAD.pack(1 << 31))
    with pytest.raises(wire.Ended, match="2147483648 bytes"):
        wire.Reader(read, 1 << 20).receive(5)
    os.close(read)
    os.close(write)


def test_half_a_message_is_late():
    read, write = os.pipe()
    os.write(write, wire.HEAD.pack(10) + b'{"a"')
    with pytest.raises(wire.Late):
        wire.Reader(read, 1 << 20).receive(0.1)
    os.close(read)
    os.close(write)


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (None, []),
        ("x", []),
        ([1, None, {}, {"output_type": "update"}], []),
        ([{"output_type": "stream", "name": 7, "text": "a\ud800"}], [{"output_type": "stream", "name": "stdout", "text": "a?"}]),
        ([{"output_type": "error", "ename": 1, "evalue": "e", "traceback": "no list"}], [{"output_type": "error", "ename": "", "evalue": "e", "traceback": []}]),
        ([{"output_type": "execute_result", "data": [], "metadata": 1, "execution_count": True}], [{"output_type": "execute_result", "data": {}, "metadata": {}, "execution_count": None}]),
        ([{"output_type": "display_data", "data": {"a\ud800": "b", "text/html": {"no": "text"}}, "metadata": {}}], [{"output_type": "display_data", "data": {"a?": "b"}, "metadata": {}}]),
        ([{"output_type": "display_data", "data": {"application/x+json": {"b": ["\ud800"]}}, "metadata": {}}], [{"output_type": "display_data", "data": {"application/x+json": {"b": ["?"]}}, "metadata": {}}]),
    ],
)
def test_outputs_are_taken_as_what_a_notebook_can_hold(given, kept):
    assert outputs.clean(given, 1, 1) == kept
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("", outputs=[nbformat.from_dict(o) for o in outputs.clean(given, 1, 1)])])
    assert nbformat.writes(notebook).encode("utf-8")


def test_outputs_beyond_the_limits_are_left_out():
    many = [{"output_type": "stream", "name": "stdout", "text": "x" * 1000}] * 5000
    assert sum(len(o["text"]) for o in outputs.clean(many, 4, 1)) < 4 * 1024 + 300
    shown = [{"output_type": "display_data", "data": {"text/html": "x" * 1000}, "metadata": {}}] * 50
    assert len(outputs.clean(shown, 4, 4)) == 4


# ---- in nbgrader's own steps ----


def graded_notebook():
    cell = nbformat.v4.new_code_cell("print(6 * 7)")
    cell.metadata.nbgrader = {"grade": True, "solution": False, "grade_id": "t", "points": 1, "locked": True, "schema_version": 3, "task": False}
    return nbformat.v4.new_notebook(cells=[cell])


def test_nbgraders_step_runs_the_cells_in_the_engine(sandboxed):
    ran, resources = ExecuteInSandbox().preprocess(graded_notebook(), {})
    assert ran.cells[0].outputs[0].text == "42\n"
    assert len(resources["autograder"]["nonce"]) == 32
    for engine in execute._engines.values():
        engine.close()
    ran, _ = ExecuteInSandbox().preprocess(graded_notebook(), {})  # an engine that has ended is started again
    assert ran.cells[0].outputs[0].text == "42\n"


LOOKS = """
import os, sys
from pathlib import Path
from autograder.staff.engine import client
course = Path(sys.argv[1])
with client.Engine(client.Settings(), [course]) as engine:
    print(engine.wait())
    (cell,) = made = [client.Cell([f"import autograder, os, tempfile; open(os.path.join(tempfile.mkdtemp(), 'a'), 'w').close(); print(os.path.exists({str(course / 'answers')!r}), os.path.exists({os.path.realpath(course / 'answers')!r}))"])]
    client.run(engine.lines[0], made, {}, {})
    print("".join(output.get("text", output.get("evalue", "")) for output in cell.outputs))
"""


@pytest.mark.parametrize("way", ["plain", "link"])
def test_a_course_below_the_temporary_folder_or_behind_a_link_has_its_sandbox(sandboxed, way):
    """The jail is built over /tmp, where this package and this course lie."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        there = Path(folder, "there")
        shutil.copytree(ROOT / "autograder", there / "autograder", ignore=shutil.ignore_patterns("__pycache__"))
        (there / "course").mkdir()
        (there / "course" / "answers").write_text("secret")
        place = there if way == "plain" else Path(folder, "link")
        if way == "link":
            place.symlink_to(there)
        ran = run(sys.executable, "-c", LOOKS, place / "course", cwd=place, PYTHONPATH=str(place))
    assert ran.stdout.split("\n")[1:] == ["False False", "", ""] and ran.stdout.split()[0] in (sandbox.ROOT, sandbox.USER), ran.stdout + ran.stderr
