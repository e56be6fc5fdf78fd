"""What goes wrong around a grader: it is killed, the disk is full, the gradebook is locked or read-only, another grader is at work."""

import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time

import plain_course
import pytest
from plain_course import LESSON

from autograder.staff import grading, keep, records
from conftest import ROOT, run

pytestmark = [pytest.mark.usefixtures("sandboxed")]
KILLS = 20
COMMAND = [sys.executable, "-m", "autograder.staff.grade", LESSON]


def grade(folder, *more):
    return run(*COMMAND, *more, cwd=folder, PYTHONPATH=str(ROOT))


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """A course with thirty submissions, and what its gradebook holds when nothing goes wrong."""
    folder = tmp_path_factory.mktemp("faults") / "prepared"
    released = plain_course.make(folder)
    for number in range(30):
        right = number % 3 == 0
        plain_course.hand_in(folder, f"s{number:02}", released, double=f"def double(x):\n    # {number}\n    return x * {2 if right else 3}", parts="parts = 1")
    reference = folder.with_name("reference")
    shutil.copytree(folder, reference)
    done = grade(reference)
    assert done.returncode == 0, done.stderr
    return folder, state(reference)


def state(folder):
    """All that is kept, without what differs from run to run: ids, times, random ids in tracebacks."""
    kept = {}
    for path in sorted((folder / "records" / LESSON).glob("*.json")):
        record = records.load(folder / "records", LESSON, path.stem)
        kept[path.stem] = (record.state, [(c.grade_id, c.score, c.note) for c in record.cells], record.key is not None)
    autograded = sorted(p.relative_to(folder) for p in (folder / "autograded").rglob("*") if p.is_file())
    return plain_course.rows(folder), kept, autograded


@pytest.fixture
def course(prepared, tmp_path):
    shutil.copytree(prepared[0], tmp_path / "course")
    return tmp_path / "course"


def test_killed_at_twenty_random_moments_it_ends_with_the_same_gradebook(prepared, course):
    chance, killed = random.Random(6), 0
    for number in range(KILLS):
        more = ["--again"] if number >= KILLS // 2 else []  # the second half finds everything graded
        grader = subprocess.Popen([*COMMAND, *more], cwd=course, env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(chance.uniform(0.3, 2.8))
        killed += grader.poll() is None
        grader.send_signal(signal.SIGKILL)
        grader.wait()
    assert killed >= KILLS // 2
    done = grade(course)
    assert done.returncode == 0, done.stderr
    assert state(course) == prepared[1]
    assert not list((course / "records").rglob(".*.json.*"))


def test_interrupted_it_says_how_to_go_on_and_goes_on(prepared, course):
    grader = subprocess.Popen(COMMAND, cwd=course, env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert grader.stdout.readline().startswith("[ 1/30]")
    grader.send_signal(signal.SIGINT)
    _, said = grader.communicate(timeout=20)
    assert grader.returncode == 130
    assert "the same command goes on from here" in said
    done = grade(course)
    assert "[ 1/30]" not in done.stdout
    assert state(course) == prepared[1]


def test_a_second_grader_is_sent_away(course):
    with grading.Course(course).alone():
        done = grade(course)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "Another `autograder grade` is at work" in done.stderr


def test_a_gradebook_that_another_program_holds_for_a_while_is_waited_for(prepared, course):
    other = sqlite3.connect(course / "gradebook.db", isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    letting_go = threading.Timer(9, other.execute, ["ROLLBACK"])
    letting_go.start()
    done = grade(course)
    letting_go.join()
    other.close()
    assert done.returncode == 0, done.stderr
    assert state(course) == prepared[1]


def test_a_gradebook_that_stays_locked_fails_the_submission_with_the_cause_and_a_later_run_grades_it(prepared, course, monkeypatch):
    monkeypatch.setattr(keep, "LOCKED_SECONDS", 0.1)
    monkeypatch.chdir(course)
    other = sqlite3.connect(course / "gradebook.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    record = grading.grade_submission(course, LESSON, "s00")
    other.execute("ROLLBACK")
    other.close()
    assert record.state == records.FAILED
    assert "locked" in record.cause
    assert grade(course).returncode == 0
    assert state(course) == prepared[1]


def test_a_read_only_gradebook_is_named_and_cured(prepared, course):
    config = (course / "nbgrader_config.py").read_text()
    (course / "nbgrader_config.py").write_text(config + f"c.CourseDirectory.db_url = 'sqlite:///file:{course}/gradebook.db?mode=ro&uri=true'\n")
    done = grade(course, "--student", "s00", "--student", "s01")
    assert done.returncode == 1
    assert "readonly" in done.stdout
    assert "Traceback" not in done.stdout + done.stderr
    (course / "nbgrader_config.py").write_text(config)
    assert grade(course).returncode == 0
    assert state(course) == prepared[1]


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can mount a small disk")
def test_a_full_disk_is_named_and_after_there_is_room_the_run_goes_on(prepared, tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=6m", "small", disk], check=True)
    try:
        course = disk / "course"
        shutil.copytree(prepared[0], course)
        with open(disk / "filler", "wb", buffering=0) as filler, pytest.raises(OSError, match="No space"):
            while True:
                filler.write(bytes(4096))
        with open(disk / "filler", "r+b") as filler:
            filler.truncate(max(0, (disk / "filler").stat().st_size - 200_000))
        done = grade(course)
        assert done.returncode == 1
        assert "disk is full" in done.stderr + done.stdout
        assert "Traceback" not in done.stdout + done.stderr
        (disk / "filler").unlink()
        assert grade(course).returncode == 0
        assert state(course) == prepared[1]
    finally:
        subprocess.run(["umount", "-l", disk], check=True)


def test_what_was_handed_in_anew_is_graded_anew_and_nothing_else(course):
    assert grade(course).returncode == 0
    path = course / "submitted" / "s01" / LESSON / f"{LESSON}.ipynb"
    path.write_text(path.read_text().replace("x * 3", "x * 2"))
    done = grade(course)
    assert done.stdout.startswith("[1/1] s01")
    assert {row[0]: row[3] for row in plain_course.rows(course)["grades"] if row[1] == "double-test"}["s01"] == 2


def test_grading_as_json_is_one_document_with_nothing_else(course):
    import json

    (course / "submitted" / "s02" / LESSON / f"{LESSON}.ipynb").write_bytes(b"")
    done = grade(course, "--json", "--student", "s00", "--student", "s02")
    assert done.returncode == 3
    told = {one["student"]: one for one in json.loads(done.stdout)}
    assert (told["s00"]["state"], told["s00"]["score"] > 0) == ("graded", True)
    assert (told["s02"]["state"], told["s02"]["score"]) == ("not gradable", None)


@pytest.mark.parametrize(("more", "words"), [(["nolesson"], "There is no lesson nolesson"), ([LESSON, "--student", "nobody"], "Nothing was handed in by nobody")])
def test_a_name_that_does_not_exist_is_answered_with_those_that_do(course, more, words):
    done = run(sys.executable, "-m", "autograder.staff.grade", *more, cwd=course, PYTHONPATH=str(ROOT))
    assert done.returncode == 1
    assert words in done.stderr
    assert done.stderr.count("\n") == 1
