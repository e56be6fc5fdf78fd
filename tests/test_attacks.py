"""Submissions that attack the grader: nothing is harmed, nothing is left, and each gets the mark that its code deserves."""

import contextlib
import hashlib
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import attacks
import nbformat
import pytest

from autograder.staff import course as course_command
from autograder.staff import grading, records, sample
from autograder.staff.sample_cases import file, own_cell, place, predicted
from conftest import ROOT, needs_sources

pytestmark = [pytest.mark.usefixtures("sandboxed"), needs_sources, pytest.mark.skipif(sys.platform != "linux", reason="only Linux has the sandbox")]
LESSON = "01_contiguous_vs_paged"
LIMITS = """
c.ExecuteInSandbox.timeout = 3
c.ExecuteInSandbox.memory_limit_mb = 1536
c.ExecuteInSandbox.all_memory_limit_mb = 1024
"""
EVERY = {**attacks.REACHING, **attacks.BREAKING}


def handed_in(course, name, files, predictions=True):
    folder = course.path("submitted", LESSON, name)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for path, content in (files | (predicted(LESSON) if predictions else {})).items():
        (folder / path).write_bytes(content)
    return folder


def with_cell(sheet, notebook, source):
    notebook["cells"] = lean(notebook["cells"])
    notebook["cells"].insert(place(notebook, sheet.exercises[0]), own_cell(source))
    return file(sheet, notebook)


def student_of(name):
    return re.sub(r"\W+", "-", name)


def state_of(folder):
    """Every file's name, bytes and rights."""
    return {p.relative_to(folder): (p.lstat().st_mode, hashlib.sha256(p.read_bytes()).hexdigest()) for p in folder.rglob("*") if p.is_file() and not p.is_symlink()}


def lean(cells):
    """The cells that are graded or answered, and the first, which imports: the lesson's figures are no part of an attack."""
    first = next(n for n, cell in enumerate(cells) if cell["cell_type"] == "code")
    return [cell for n, cell in enumerate(cells) if n == first or cell["metadata"].get("nbgrader")]


class Scene:
    """A course with attackers and their neighbours, and things of value around it."""

    def __init__(self, folder):
        self.outside = folder / "beside"
        self.outside.mkdir()
        (self.outside / "secret.txt").write_text("secret")
        self.course = course_command.set_up(ROOT, folder / "course")
        config = self.course.root / "nbgrader_config.py"
        config.write_text(config.read_text() + LIMITS)
        self.course = grading.Course(self.course.root)
        source = self.course.notebook("source", LESSON)
        lesson = nbformat.read(source, as_version=4)
        lesson.cells = lean(lesson.cells)
        nbformat.write(lesson, source)
        course_command.release(self.course, LESSON)
        self.sheet = sample.sheets(ROOT)[LESSON[:2]]
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.named = socket.socket(socket.AF_UNIX)
        self.named.bind(f"\0{folder}")
        self.named.listen()
        self.words = {"course": str(self.course.root), "outside": str(self.outside), "port": self.listening.getsockname()[1], "name": str(folder)}

    def attack(self, name, source):
        handed_in(self.course, student_of(name), with_cell(self.sheet, self.sheet.filled(), attacks.HEAD + source.format(**self.words)))

    def trick(self, name, source):
        notebook = sample.copy.deepcopy(self.sheet.released)
        handed_in(self.course, student_of(name), with_cell(self.sheet, notebook, attacks.HEAD + source.format(**self.words)), predictions=False)

    def neighbours(self):
        for number in range(6):
            handed_in(self.course, f"victim-{number}", with_cell(self.sheet, self.sheet.filled(), "mine = 'MARK_OF_THE_VICTIM' * 3"))

    def grade(self, *more):
        command = [sys.executable, "-m", "autograder.staff.grade", LESSON, "--course", str(self.course.root), *more]
        self.scratch = self.outside.with_name("scratch")
        self.scratch.mkdir(exist_ok=True)
        env = {**os.environ, "PYTHONPATH": str(ROOT), "SECRET_OF_THE_GRADER": "1", "TMPDIR": str(self.scratch)}
        grader = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.pid = grader.pid
        said = grader.communicate(timeout=900)
        return subprocess.CompletedProcess(command, grader.returncode, *said)

    def shown(self, name):
        """All that the cells have put out, as kept."""
        notebook = nbformat.read(self.course.notebook("autograded", LESSON, student_of(name)), as_version=4)
        return "".join(str(output.get("text", "")) for cell in notebook.cells for output in cell.get("outputs", []))

    def record(self, name):
        return records.load(self.course.records, LESSON, student_of(name))


def processes():
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended meanwhile
            found[int(folder.name)] = folder.joinpath("cmdline").read_bytes()
    return found


def mounts():
    return {line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()}


@pytest.fixture(scope="module")
def scene(tmp_path_factory):
    """Everybody graded once, with what was there before and after."""
    made = Scene(tmp_path_factory.mktemp("attacked"))
    made.neighbours()
    for name, source in EVERY.items():
        made.attack(name, source)
    for name, source in attacks.TRICKS.items():
        made.trick(name, source)
    watched = (made.outside, made.course.root / "source", made.course.root / "submitted", ROOT / "autograder", Path(os.__file__).parent)
    made.before = [state_of(folder) for folder in watched]
    made.mounts = mounts()
    made.result = made.grade()
    made.first_pid = made.pid
    made.after = [state_of(folder) for folder in watched]
    yield made
    made.listening.close()
    made.named.close()


def test_the_grader_ends_well(scene):
    assert scene.result.returncode == 0, scene.result.stdout[-2000:] + scene.result.stderr[-2000:]


def test_no_file_of_the_course_of_python_or_beside_it_has_changed(scene):
    def code_only(states):
        return [{name: state for name, state in folder.items() if "__pycache__" not in name.parts} for folder in states]

    assert code_only(scene.after) == code_only(scene.before)


def test_no_process_no_mount_and_no_file_is_left(scene):
    """Other graders may be at work on this machine, so only what is this one's is looked for."""
    assert [line for line in processes().values() if b"engine.zygote\0%d\0" % scene.first_pid in line or b"sleep\x004243" in line] == []
    assert [place for place in mounts() - scene.mounts if place.startswith(("/sandbox", str(scene.outside.parent)))] == []
    assert list(scene.scratch.iterdir()) == []


@pytest.mark.parametrize("number", range(6))
def test_the_neighbours_have_full_marks(scene, number):
    assert scene.record(f"victim-{number}").score == scene.record(f"victim-{number}").max_score > 0


@pytest.mark.parametrize("name", EVERY)
def test_an_attack_gets_at_nothing_and_right_work_around_it_keeps_its_mark(scene, name):
    assert "HARM" not in scene.shown(name)
    record = scene.record(name)
    assert record.score == record.max_score > 0, record.reasons()


@pytest.mark.parametrize("name", attacks.TRICKS)
def test_a_trick_earns_nothing(scene, name):
    record = scene.record(name)
    assert record.score == 0, record.cells
    assert record.max_score > 0


def test_the_attacks_do_harm_where_there_is_no_sandbox(tmp_path):
    """So the tests above can fail: the same cells, run with the grader's rights, find what they look for."""
    from autograder.staff.engine import client

    scene = Scene(tmp_path)
    scene.neighbours()
    cells = {name: client.Cell([attacks.HEAD + source.format(**scene.words)]) for name, source in attacks.REACHING.items()}
    os.environ["SECRET_OF_THE_GRADER"] = "1"
    try:
        sleeper = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)", "staff.grade"])
        with client.Engine(client.Settings(), [], no_sandbox=True) as engine:
            engine.wait()
            client.run(engine.lines[0], list(cells.values()), {}, {})
    finally:
        del os.environ["SECRET_OF_THE_GRADER"]
        sleeper.send_signal(signal.SIGKILL)
        sleeper.wait()
        scene.listening.close()
        scene.named.close()
    harmless = [name for name, cell in cells.items() if "HARM" not in str(cell.outputs)]
    assert harmless == []


# ---- what is handed in ----


@pytest.fixture
def odd(scene):
    def grade(files=None, make=None):
        folder = handed_in(scene.course, "odd", files or {})
        if make:
            make(folder)
        scene.result = scene.grade("--student", "odd")
        return scene.record("odd"), scene.result

    return grade


def test_a_link_to_the_answers_is_not_followed(scene, odd):
    answers = scene.course.notebook("source", LESSON)
    record, _ = odd(make=lambda folder: (folder / f"{LESSON}.ipynb").symlink_to(answers))
    assert record.state == records.NOT_GRADABLE
    assert "is a link" in record.cause


def test_a_linked_folder_is_not_entered(scene, odd):
    record, _ = odd(make=lambda folder: (folder / "work").symlink_to(scene.course.path("source", LESSON)))
    assert record.state == records.NOT_SUBMITTED


def test_a_sparse_file_of_a_petabyte_is_refused_by_its_size(odd):
    def sparse(folder):
        with open(folder / f"{LESSON}.ipynb", "wb") as file:
            file.truncate(1 << 43)

    started = time.monotonic()
    record, _ = odd(make=sparse)
    assert record.state == records.NOT_GRADABLE
    assert "MiB" in record.cause
    assert time.monotonic() - started < 30


def test_a_pipe_where_the_notebook_should_be_holds_nobody_up(odd):
    record, _ = odd(make=lambda folder: os.mkfifo(folder / f"{LESSON}.ipynb"))
    assert record.state == records.NOT_SUBMITTED


def test_odd_names_are_only_names(scene, odd):
    solved = file(scene.sheet, scene.sheet.filled())

    def extras(folder):
        for name in (b"\xff.ipynb", b"new\nline.ipynb", b"-rf", b"$(touch planted).ipynb", b" ", "\u202egnp.exe".encode()):
            Path(os.fsdecode(os.path.join(os.fsencode(folder), name))).write_bytes(b"{}")

    record, result = odd(solved, extras)
    assert record.score == record.max_score, (record, result.stderr)
    assert not list(scene.course.root.rglob("planted"))


def test_thousands_of_files_are_refused(odd):
    record, _ = odd(make=lambda folder: [(folder / f"{n}.txt").touch() for n in range(2500)])
    assert record.state == records.NOT_GRADABLE
    assert "2000 files" in record.cause
