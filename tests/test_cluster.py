"""The same marks from a Dask cluster: workers that see no file of the course, one that is killed, one with another version."""

import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time

import plain_course
import pytest
from plain_course import LESSON

from conftest import ROOT, run

pytest.importorskip("distributed", reason="needs the package distributed; `make setup` installs it")
pytestmark = [
    pytest.mark.usefixtures("sandboxed"),
    pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="a worker is kept from the course's disk by mounts of its own, which needs root"),
]
GOOD = {"double": "def double(x):\n    return 2 * x", "parts": "parts = 2"}


class Cluster:
    """A scheduler and workers as processes of their own on this machine."""

    def __init__(self, folder):
        self.folder, self.running = folder, []
        (folder / "empty").mkdir()
        scheduler = self._start("distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--no-show")
        self.address = self._wait_for(scheduler, r"Scheduler at:\s+(tcp://\S+)")

    def worker(self, name, package=ROOT):
        """A worker that sees an empty folder where the courses of this test lie."""
        more = ("--no-nanny", "--nthreads", "1", "--name", name, "--no-dashboard", "--local-directory", self.folder / name, "--host", "127.0.0.1")
        hidden = ["unshare", "--mount", "sh", "-c", f"mount --bind {self.folder}/empty {self.folder}/courses && cd / && exec \"$@\"", "sh"]
        return self._start("distributed.cli.dask_worker", self.address, *more, before=hidden, PYTHONPATH=str(package))

    def known(self, *workers):
        """Wait until the scheduler knows them."""
        for worker in workers:
            self._wait_for(worker, r"(Registered to)")

    def _start(self, module, *words, before=(), **env):
        started = subprocess.Popen([*before, sys.executable, "-m", module, *words], env={**os.environ, "DASK_TEMPORARY_DIRECTORY": str(self.folder), **env}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        started.said = []
        started.reader = threading.Thread(target=lambda: [started.said.append(line) for line in started.stdout], daemon=True)
        started.reader.start()
        self.running.append(started)
        return started

    @staticmethod
    def _wait_for(started, pattern):
        deadline = time.monotonic() + 40
        while time.monotonic() < deadline and started.poll() is None:
            if found := re.search(pattern, "".join(started.said)):
                return found[1]
            time.sleep(0.05)
        raise AssertionError("".join(started.said))

    def close(self):
        for process in reversed(self.running):
            process.kill()
            process.wait()
            process.reader.join(5)
            process.stdout.close()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cluster")
    (folder / "courses").mkdir()
    made = Cluster(folder)
    yield made
    made.close()


def graded(folder, *more):
    return run(sys.executable, "-m", "autograder.staff.grade", LESSON, *more, cwd=folder, PYTHONPATH=str(ROOT))


def test_marks_are_the_same_though_a_worker_sees_no_course_another_is_killed_and_a_third_has_another_version(cluster, tmp_path):
    here, there = cluster.folder / "courses" / "here", cluster.folder / "courses" / "there"
    released = plain_course.make(here)
    for n in range(10):
        own = "import os, time\ntime.sleep(0.4)\nprint(os.listdir('.'))" if n < 6 else f"print({n})"
        plain_course.hand_in(here, f"s{n:02}", released, own=own, **(GOOD if n % 3 else {}))
    (here / "submitted" / "s09" / LESSON / f"{LESSON}.ipynb").write_text("no notebook")
    shutil.copytree(here, there)
    local = graded(here)
    assert local.returncode == 3, local.stderr

    nowhere = graded(there, "--cluster", "tcp://127.0.0.1:9")
    assert nowhere.returncode == 1 and nowhere.stderr.startswith("autograder grade: No Dask scheduler answers at tcp://127.0.0.1:9"), nowhere.stderr
    nobody = graded(there, "--cluster", cluster.address)
    assert nobody.returncode == 1 and nobody.stderr.startswith("autograder grade: The cluster cannot grade, because it has no workers:"), nobody.stderr
    older = tmp_path / "older"
    shutil.copytree(ROOT / "autograder", older / "autograder", ignore=shutil.ignore_patterns("__pycache__"))
    tell = older / "autograder" / "tell.py"
    tell.write_text(tell.read_text("utf-8") + "# an older version\n", "utf-8")
    doomed = cluster.worker("doomed")
    cluster.known(cluster.worker("older", older), cluster.worker("whole"), doomed)

    def kill_in_the_middle():
        while not list((there / "autograded").glob("*")) and doomed.poll() is None:
            time.sleep(0.05)
        doomed.kill()

    killing = threading.Thread(target=kill_in_the_middle)
    killing.start()
    done = graded(there, "--cluster", cluster.address)
    killing.join()
    assert done.returncode == 3, done.stdout + done.stderr
    assert re.search(r"worker tcp://\S+ is left out: it has another version of the course", done.stderr) and "on 2 workers of the cluster" in done.stderr
    assert plain_course.rows(there) == plain_course.rows(here)
    assert doomed.wait(10) == -signal.SIGKILL
