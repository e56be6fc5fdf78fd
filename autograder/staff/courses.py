"""An nbgrader course folder, what of it a mark depends on, and who may grade in it at a time."""

from __future__ import annotations

import contextlib
import functools
import glob
import hashlib
import os
import sys
import warnings
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

from nbgrader.coursedir import CourseDirectory
from traitlets.config import PyFileConfigLoader

from autograder.staff import intake, snapshot
from autograder.staff.snapshot import Snapshot

PACKAGE = Path(__file__).resolve().parents[1]
# What of the instructors' part a mark depends on.
STAFF_CODE = ("assess.py", "execute.py", "intake.py", "plugin.py", "rebuild.py", "records.py", "snapshot.py", "engine")
VERSIONS = ("nbgrader", "ipython", "nbformat")


class Busy(Exception):
    """Another grader is at work in the course."""


class Course:
    """An nbgrader course folder, read through its own nbgrader_config.py. db: another gradebook than the configuration's."""

    def __init__(self, root: Path, db: str | None = None):
        self.root = root.resolve()
        if not (self.root / "nbgrader_config.py").is_file():
            raise FileNotFoundError(f"{root} has no nbgrader_config.py: name a course folder with --course.")
        self.config = PyFileConfigLoader("nbgrader_config.py", path=str(self.root)).load_config()
        self.config.CourseDirectory.root = str(self.root)
        if db:
            self.config.CourseDirectory.db_url = db
        self.directory = CourseDirectory(config=self.config)
        self.directory.db_url = with_driver(self.directory.db_url)
        self.records = self.root / "records"

    def path(self, step: str, lesson: str, student: str = ".") -> Path:
        """The folder of one submission (or of the lesson) in a step: "source", "release", "submitted", "autograded", "feedback"."""
        named = getattr(self.directory, f"{step}_directory", step)
        return Path(self.directory.format_path(named, student, lesson))

    def notebook(self, step: str, lesson: str, student: str = ".") -> Path:
        return self.path(step, lesson, student) / f"{lesson}.ipynb"

    def lessons(self) -> list[str]:
        """The lessons that have a source, in order."""
        return sorted(path.stem for path in self.path("source", "*").parent.glob("*/*.ipynb") if path.stem == path.parent.name)

    def students(self, lesson: str) -> list[str]:
        """Who has handed something in for the lesson."""
        anyone = self.path("submitted", lesson, "*")
        return sorted(Path(found).parent.name for found in glob.glob(str(anyone)) if Path(found).is_dir())

    def read(self, lesson: str, student: str) -> tuple[Snapshot | intake.NotGradable, str]:
        """What the student has handed in, or why it cannot be read; and the key of its marks."""
        try:
            handed_in = snapshot.take(self.path("submitted", lesson, student))
            seen = snapshot.digest(handed_in)
        except intake.NotGradable as problem:
            handed_in, seen = problem, str(problem)
        return handed_in, hashlib.sha256(f"{self.lesson_key(lesson)} {seen}".encode("utf-8", "surrogateescape")).hexdigest()

    @functools.lru_cache(maxsize=64)  # noqa: B019  (a course lives as long as the process)
    def lesson_key(self, lesson: str) -> str:
        """A hash of all that marks depend on beside what was handed in: the lesson, the code that grades, the configuration."""
        digest = hashlib.sha256(code_key().encode())
        digest.update((self.root / "nbgrader_config.py").read_bytes())
        for step in ("source", "release"):
            digest.update(hashlib.sha256(self.notebook(step, lesson).read_bytes()).digest())
        return digest.hexdigest()

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """For the time of the block no other grader writes in this course. Raises Busy; the system lets go if we are killed."""
        try:
            import fcntl
        except ImportError:
            yield
            return
        self.records.mkdir(parents=True, exist_ok=True)
        with open(self.records / ".lock", "w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise Busy("Another `autograder grade` is at work in this course: wait until it has ended.") from None
            yield


def with_driver(url: str) -> str:
    """An address as instructors write it, "postgresql://…", with the driver that comes with the course."""
    kind, rest = url.split("://", 1) if "://" in url else ("", url)
    return f"postgresql+psycopg://{rest}" if kind in ("postgresql", "postgres") else url


@functools.cache
def code_key() -> str:
    """A hash of all code that a mark depends on, with the versions of Python and of the packages that matter."""
    own = [path for path in sorted(PACKAGE.rglob("*.py")) if "staff" not in path.relative_to(PACKAGE).parts]
    staff = [PACKAGE / "staff" / name for name in STAFF_CODE]
    staff = [path for place in staff for path in (sorted(place.glob("*.py")) if place.is_dir() else [place])]
    digest = hashlib.sha256(f"{sys.version_info[:2]} {[version(name) for name in VERSIONS]}".encode())
    for path in [*own, *staff]:
        digest.update(path.read_bytes() + b"\0")
    return digest.hexdigest()


@contextlib.contextmanager
def nbgraders_surroundings() -> Iterator[None]:
    """What nbgrader needs around it.

    It calls alembic from PATH: without this interpreter's own folder there, a half-made gradebook would be left.
    Its and its dependencies' warnings about each other are no news to an instructor.
    """
    before = os.environ.get("PATH", "")
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), before])
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        os.environ["PATH"] = before
