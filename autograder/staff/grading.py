"""`autograder grade`: every submission of a lesson through intake, nbgrader's Autograde and into its record.

One submission cannot stop another, a run that is stopped goes on where it was, and a submission whose bytes, lesson
and grading code are those of its record is not run again.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import functools
import glob
import hashlib
import logging
import multiprocessing
import os
import shutil
import signal
import sys
import time
import warnings
from collections import deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from importlib.metadata import version
from pathlib import Path

from nbgrader.api import Gradebook, MissingEntry
from nbgrader.converters import Autograde
from nbgrader.coursedir import CourseDirectory
from traitlets.config import Config, PyFileConfigLoader

from autograder.staff import course_root, intake, records
from autograder.staff.records import Record

PACKAGE = Path(__file__).resolve().parents[1]
# What of the instructors' part a mark depends on.
STAFF_CODE = ("grading.py", "intake.py", "kernel.py", "plugin.py", "rebuild.py", "records.py")


class Course:
    """An nbgrader course folder, read through its own nbgrader_config.py."""

    def __init__(self, root: Path):
        self.root = root.resolve()
        if not (self.root / "nbgrader_config.py").is_file():
            raise FileNotFoundError(f"{root} has no nbgrader_config.py: name a course folder with --course.")
        self.config = PyFileConfigLoader("nbgrader_config.py", path=str(self.root)).load_config()
        self.config.CourseDirectory.root = str(self.root)
        self.directory = CourseDirectory(config=self.config)
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


def submission_key(course: Course, lesson: str, student: str) -> str:
    """A hash of all that the marks depend on: what was handed in, the lesson, the code that grades, the configuration."""
    digest = hashlib.sha256(_code_key().encode())
    digest.update((course.root / "nbgrader_config.py").read_bytes())
    for step in ("source", "release"):
        digest.update(hashlib.sha256(course.notebook(step, lesson).read_bytes()).digest())
    folder = course.path("submitted", lesson, student)
    for path in sorted(p for p in folder.rglob("*") if p.is_file() and not p.is_symlink()):
        digest.update(f"\0{path.relative_to(folder).as_posix()}\0".encode("utf-8", "surrogateescape"))
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


@functools.cache
def _code_key() -> str:
    own = [path for path in sorted(PACKAGE.rglob("*.py")) if "staff" not in path.relative_to(PACKAGE).parts]
    digest = hashlib.sha256(f"{sys.version_info[:2]} nbgrader {version('nbgrader')} ipykernel {version('ipykernel')}".encode())
    for path in [*own, *(PACKAGE / "staff" / name for name in STAFF_CODE)]:
        digest.update(path.read_bytes() + b"\0")
    return digest.hexdigest()


def is_current(course: Course, record: Record | None, key: str) -> bool:
    """Whether the record can stand: same inputs, ended well, and nbgrader's own notebook is still there."""
    if record is None or record.key != key or record.state not in records.FINAL:
        return False
    return record.score is None or course.notebook("autograded", record.lesson, record.student).is_file()


def grade_submission(root: Path, lesson: str, student: str, again: bool = False) -> Record:
    """Grade one submission and keep its record. Whatever its files are, this returns; a fault of ours is in the record too."""
    course = Course(root)
    started = time.monotonic()
    key = submission_key(course, lesson, student)
    if not again and is_current(course, record := records.load(course.records, lesson, student), key):
        return record
    try:
        record = _grade(course, lesson, student)
        record.key = key
    except Exception as problem:  # nbgrader and its dependencies raise what they like; the next submission must not care
        record = _failed(lesson, student, problem)
        logging.getLogger(__name__).debug("grading failed", exc_info=True)
    record.seconds = round(time.monotonic() - started, 3)
    records.save(course.records, record)
    return record


def _grade(course: Course, lesson: str, student: str) -> Record:
    try:
        repairs = intake.prepare(
            course.path("submitted", lesson, student),
            course.notebook("source", lesson),
            course.notebook("release", lesson),
            course.path("prepared", lesson, student),
        )
    except intake.NotGradable as problem:
        return _without_marks(course, Record(lesson, student, records.NOT_GRADABLE, None, problem.cause, problem.where, problem.cure))
    except intake.NothingHandedIn as problem:
        return _without_marks(course, Record(lesson, student, records.NOT_SUBMITTED, None, str(problem)))
    records.save(course.records, Record(lesson, student, records.PREPARED, repairs=repairs))
    with _log_to(course.records / lesson / f"{student}.log") as log:
        _autograde(course, lesson, student, log)
    record = records.load(course.records, lesson, student)
    if record is None or record.score is None:
        raise RuntimeError("nbgrader ended without a mark")
    return record


def _without_marks(course: Course, record: Record) -> Record:
    """Take away what an earlier submission, or a run that ended half-way, has left: it would look like this one's marks.

    What a person has given stays in the gradebook.
    """
    for step in ("prepared", "autograded"):
        shutil.rmtree(course.path(step, record.lesson, record.student), ignore_errors=True)
    with (
        nbgraders_surroundings(),
        Gradebook(course.directory.db_url, course.directory.course_id) as gradebook,
        contextlib.suppress(MissingEntry),
    ):
        grades = [grade for own in gradebook.find_submission(record.lesson, record.student).notebooks for grade in own.grades]
        if all(grade.manual_score is None for grade in grades):
            gradebook.remove_submission(record.lesson, record.student)
    return record


def _failed(lesson: str, student: str, problem: Exception) -> Record:
    first = (str(problem).strip() or type(problem).__name__).splitlines()[0]
    cure = f"This is the grader's fault, not the submission's; the log is records/{lesson}/{student}.log."
    return Record(lesson, student, records.FAILED, None, first, None, cure)


def _autograde(course: Course, lesson: str, student: str, log: logging.Logger) -> None:
    """nbgrader's own Autograde on the prepared copy of one submission."""
    config = Config(course.config)
    config.CourseDirectory.submitted_directory = "prepared"
    directory = CourseDirectory(config=config, log=log)
    directory.assignment_id, directory.student_id = lesson, glob.escape(student)
    converter = Autograde(coursedir=directory, config=config, log=log)
    converter.force = True
    with nbgraders_surroundings():
        converter.start()


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


@contextlib.contextmanager
def _log_to(path: Path) -> Iterator[logging.Logger]:
    path.parent.mkdir(parents=True, exist_ok=True)
    log = logging.Logger("autograde", logging.INFO)
    handler = logging.FileHandler(path, mode="w", encoding="utf-8", errors="replace")
    handler.setFormatter(logging.Formatter("%(levelname)s %(message)s"))
    log.addHandler(handler)
    try:
        yield log
    except Exception:
        log.exception("grading failed")
        raise
    finally:
        handler.close()


def grade_all(
    root: Path,
    work: list[tuple[str, str]],
    workers: int = 2,
    again: bool = False,
    tell: Callable[[Record, int, int], None] = lambda record, done, total: None,
) -> list[Record]:
    """Grade (lesson, student) pairs, those first that must run; `tell(record, done, total)` hears of each one that ran."""
    course = Course(root)
    kept, todo = [], []
    for lesson, student in work:
        record = records.load(course.records, lesson, student)
        current = not again and is_current(course, record, submission_key(course, lesson, student))
        kept.append(record) if current else todo.append((lesson, student))
    ran = []
    for record in _run(course.root, todo, workers, again):
        ran.append(record)
        tell(record, len(ran), len(todo))
    return sorted(kept + ran, key=lambda record: (record.lesson, record.student))


def _run(root: Path, todo: list[tuple[str, str]], workers: int, again: bool) -> Iterator[Record]:
    """Grade in processes of their own. When one of them dies, whoever it may have been runs again alone; all others go on."""
    waiting = deque(todo)
    while waiting:
        suspects = yield from _in_pool(root, waiting, workers, again)
        for who in suspects:
            left = yield from _in_pool(root, deque([who]), 1, again)
            if left:
                yield _ended_its_grader(root, *who)


def _in_pool(root: Path, waiting: deque, workers: int, again: bool) -> Generator[Record, None, list[tuple[str, str]]]:
    """Take work off `waiting` and yield records; returns who was in work when a process died, none if all went well."""
    running: dict[Future, tuple[str, str]] = {}
    with ProcessPoolExecutor(max(1, workers), multiprocessing.get_context("spawn"), _die_with_parent, (os.getpid(),)) as pool:
        try:
            while waiting or running:
                while waiting and len(running) < max(1, workers):
                    who = waiting.popleft()
                    running[pool.submit(grade_submission, root, *who, again)] = who
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    record = future.result()
                    del running[future]
                    yield record
        except BrokenProcessPool:
            return list(running.values())
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return []


def _die_with_parent(parent: int) -> None:
    """Linux: a grader that is killed leaves no worker behind, which would wait for work for ever."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(1, signal.SIGKILL, 0, 0, 0)  # PR_SET_PDEATHSIG
        if os.getppid() != parent:
            os._exit(1)


def _ended_its_grader(root: Path, lesson: str, student: str) -> Record:
    """The record of a submission that ended the process that graded it, twice, the second time alone."""
    course = Course(root)
    record = Record(
        lesson, student, records.NOT_GRADABLE, submission_key(course, lesson, student),
        "the process that graded it was ended, most likely by the notebook itself", None,
        "Take out what ends other processes or needs very much memory, and hand it in again.",
    )  # fmt: skip
    records.save(course.records, _without_marks(course, record))
    return record


class Progress:
    """One line per submission: done of total, whose it was, its mark, its time, and the time left."""

    def __init__(self) -> None:
        self.started = time.monotonic()

    def __call__(self, record: Record, done: int, total: int) -> None:
        left = (time.monotonic() - self.started) / done * (total - done)
        mark = record.state if record.score is None else f"{record.score:g}/{record.max_score:g}"
        print(
            f"[{done:>{len(str(total))}}/{total}] {record.student} {record.lesson}: {mark}"
            f" ({record.seconds or 0:.1f} s; about {left:.0f} s left)",
            flush=True,
        )


def main(argv: list[str]) -> int:
    options = _parser().parse_args(argv)
    try:
        course = Course(options.course or course_root())
        lessons = options.lesson or course.lessons()
        unknown = [lesson for lesson in lessons if lesson not in course.lessons()]
        if unknown:
            raise FileNotFoundError(f"There is no lesson {unknown[0]} in this course: it has {', '.join(course.lessons())}.")
        work = [(lesson, s) for lesson in lessons for s in course.students(lesson) if not options.student or s in options.student]
        graded = grade_all(course.root, work, options.workers, options.again, Progress())
    except FileNotFoundError as problem:
        print(f"autograder grade: {problem}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nStopped. What is graded is kept; the same command goes on from here.", file=sys.stderr)
        return 130
    for record in graded:
        if record.state in (records.NOT_GRADABLE, records.FAILED):
            print(f"{record.student} {record.lesson}: {record.reasons()[0]}")
    return exit_code(graded)


def exit_code(graded: list[Record]) -> int:
    """0: all graded. 3: some are not gradable. 1: the grader itself failed on some."""
    if any(record.state == records.FAILED for record in graded):
        return 1
    return 3 if any(record.state == records.NOT_GRADABLE for record in graded) else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="autograder grade", description=__doc__.splitlines()[0])
    parser.add_argument("lesson", nargs="*", help="lessons to grade (default: all)")
    parser.add_argument("--course", type=Path, help="the course folder (default: the one around here)")
    parser.add_argument("--student", action="append", help="only this student; may be given several times")
    parser.add_argument("--workers", type=int, default=min(2, os.cpu_count() or 1), help="submissions at once (default: %(default)s)")
    parser.add_argument("--again", action="store_true", help="grade again what is already graded")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
