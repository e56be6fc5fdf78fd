"""A gradebook in PostgreSQL holds what one in SQLite holds, and a server that goes away for a moment costs nothing."""

import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import plain_course
import pytest
from plain_course import LESSON

from conftest import ROOT, run

PROGRAMS = sorted(Path("/usr/lib/postgresql").glob("*/bin")) or [Path(found).parent for found in [shutil.which("pg_ctl")] if found]
pytestmark = [
    pytest.mark.usefixtures("sandboxed"),
    pytest.mark.skipif(not PROGRAMS, reason="needs the PostgreSQL server (Debian's package postgresql)"),
    pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="the server refuses to run as root, so this test starts it as another user, and needs to be root for that"),
]


class Server:
    """A PostgreSQL of its own, on a socket in its folder and on no port."""

    def __init__(self, folder):
        self.folder = folder
        self._as("initdb", "-D", folder / "data", "-U", "course", "--auth=trust", "--no-sync")
        self.start()
        self._as("createdb", "-h", folder, "-U", "course", "gradebook")
        self.url = f"postgresql://course@/gradebook?host={folder}"

    def start(self):
        self._as("pg_ctl", "-D", self.folder / "data", "-o", f"-c listen_addresses='' -k {self.folder} -c fsync=off", "-l", self.folder / "log", "-w", "start")

    def stop(self):
        self._as("pg_ctl", "-D", self.folder / "data", "-m", "fast", "-w", "stop")

    def _as(self, program, *words):
        done = subprocess.run(["runuser", "-u", "postgres", "--", PROGRAMS[-1] / program, *words], cwd="/", stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=60, check=False)
        assert done.returncode == 0, done.stderr.decode()


@pytest.fixture(scope="module")
def server():
    folder = Path(subprocess.run(["mktemp", "-d", "/tmp/pgXXXXXX"], capture_output=True, text=True, check=True).stdout.strip())    # short: a socket's path may have 107 characters
    shutil.chown(folder, "postgres", "postgres")
    made = Server(folder)
    yield made
    made.stop()
    shutil.rmtree(folder)


def graded(folder, *more):
    done = run(sys.executable, "-m", "autograder.staff.grade", LESSON, *more, cwd=folder, PYTHONPATH=str(ROOT))
    assert done.returncode == 0, done.stdout + done.stderr


def test_it_holds_the_same_rows_and_outlives_a_restart(server, tmp_path):
    lite, postgres = tmp_path / "lite", tmp_path / "postgres"
    released = plain_course.make(lite)
    good = {"double": "def double(x):\n    return 2 * x", "parts": "parts = 2"}
    for n in range(6):
        plain_course.hand_in(lite, f"s{n}", released, **(good if n % 2 else {}), essay="Because." * n, timestamp=f"2026-10-24 1{n + 5}:30:00 UTC")
    shutil.copytree(lite, postgres)
    graded(lite)

    (postgres / "gradebook.db").unlink()
    (postgres / "nbgrader_config.py").write_text(plain_course.CONFIG + f"c.CourseDirectory.db_url = {server.url.replace('postgresql', 'postgresql+psycopg')!r}\n")
    made = run("nbgrader", "generate_assignment", LESSON, "--force", cwd=postgres, PYTHONPATH="")
    assert made.returncode == 0, made.stderr
    (postgres / "nbgrader_config.py").write_text(plain_course.CONFIG)
    subprocess.run(["runuser", "-u", "postgres", "--", PROGRAMS[-1] / "psql", "-h", server.folder, "-U", "course", "-c", f"UPDATE assignment SET duedate = '{plain_course.DUE}'", "gradebook"], cwd="/", check=True, stdout=subprocess.DEVNULL)

    def restart():
        time.sleep(2.5)    # the grader is at work
        server.stop()
        server.start()

    restarting = threading.Thread(target=restart)
    restarting.start()
    graded(postgres, "--db", server.url)
    restarting.join()
    assert not (postgres / "gradebook.db").exists()
    theirs, ours = plain_course.rows(lite), plain_course.rows(postgres, server.url.replace("postgresql", "postgresql+psycopg"))
    assert ours == theirs and len(ours["grades"]) == 6 * 6
