"""`autograder course`: an nbgrader course in `_build/course` with a sample class, collected, graded and reported.

Every step is nbgrader's own where it has one (release, submit, collect, autograde), and is left out when nothing that it
depends on has changed; so a second run takes seconds, and a run that was stopped goes on.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import logging
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

from autograder.staff import course_root, records, sample
from autograder.staff.courses import Busy, Course, nbgraders_surroundings
from autograder.staff.engine.client import EngineFailed, NoSandbox
from autograder.staff.feedback import write_feedback
from autograder.staff.grading import Progress, grade_all
from autograder.staff.records import Record, write_atomically
from autograder.staff.report import summarise, table, write_report

CONFIG = '''"""Written by `autograder course`; a copy of the course's own configuration with folders of its own."""
from pathlib import Path

c = get_config()
load_subconfig("nbgrader_config.py", path={root})

here = Path(__file__).resolve().parent
c.CourseDirectory.root = str(here)
c.CourseDirectory.source_directory = "source"
c.CourseDirectory.release_directory = "release"
c.Exchange.root = str(here / "exchange")
c.Exchange.cache = str(here / "cache")
c.Exchange.assignment_dir = str(here)
c.ExchangeCollect.update = True
c.ExchangeCollect.check_owner = False       # the sample class has no accounts on this machine
'''


class StepFailed(Exception):
    """A step of nbgrader's failed; the message is its own first error."""


def set_up(root: Path, folder: Path) -> Course:
    """The course folder with its configuration and the sources of all lessons that are released."""
    folder.mkdir(parents=True, exist_ok=True)
    # A relative path, so that the repository can be moved.
    climb = os.path.relpath(root, folder)
    config = CONFIG.format(root=f"str(Path(__file__).resolve().parent / {climb!r})")
    if not (folder / "nbgrader_config.py").is_file() or (folder / "nbgrader_config.py").read_text("utf-8") != config:
        write_atomically(folder / "nbgrader_config.py", config)
    course = Course(folder)
    for released in sorted((root / "notebooks").glob("*/*.ipynb")):
        source = root / "source_assignments" / released.parent.name / released.name
        if source.is_file() and released.stem == released.parent.name:
            _copy_if_changed(source, course.notebook("source", released.stem))
    if not course.lessons():
        raise FileNotFoundError("There are no lessons in notebooks/ yet: run `make lessons` first.")
    return course


def _copy_if_changed(source: Path, target: Path) -> None:
    if not target.is_file() or target.read_bytes() != source.read_bytes():
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)


def release(course: Course, lesson: str, say: Callable[[str], None] = print) -> None:
    """nbgrader's generate_assignment (which fills the gradebook) and release_assignment, if the source has changed.

    nbgrader adds and removes no cell of a lesson that was handed in: what the sample class handed in is then withdrawn.
    """
    from nbgrader.converters import GenerateAssignment
    from nbgrader.exchange.default import ExchangeReleaseAssignment

    done = _Done(course, "released")
    key = _hash_of(course.notebook("source", lesson), course.root / "nbgrader_config.py")
    if done.has(lesson, key) and course.notebook("release", lesson).is_file():
        return
    try:
        _start(course, GenerateAssignment, lesson)
    except StepFailed:
        if not (handed_in := [name for name in _Done(course, "submitted").keys if name.endswith(f" {lesson}")]):
            raise
        say(f"the cells of {lesson} are others now: what the sample class handed in is withdrawn and handed in anew")
        _withdraw(course, handed_in)
        _start(course, GenerateAssignment, lesson)
    _start(course, ExchangeReleaseAssignment, lesson, force=True)
    done.note(lesson, key)


def submit(course: Course, folder: Path, submission: sample.Submission) -> None:
    """nbgrader's own submit of one sample submission, if its bytes are not those that were submitted last."""
    from nbgrader.exchange.default import ExchangeSubmit

    done = _Done(course, "submitted")
    place = folder / submission.student / submission.lesson
    key = _hash_of(*sorted(place.iterdir()))
    if done.has(f"{submission.student} {submission.lesson}", key):
        return
    _start(course, ExchangeSubmit, submission.lesson, submission.student, assignment_dir=str(place.parent))
    done.note(f"{submission.student} {submission.lesson}", key)


def withdraw_others(course: Course, submissions: list[sample.Submission]) -> None:
    """Take out what an earlier sample class had handed in and this one has not; the folder holds sample classes only."""
    wanted = {f"{submission.student} {submission.lesson}" for submission in submissions}
    _withdraw(course, sorted(_Done(course, "submitted").keys.keys() - wanted))


def _withdraw(course: Course, names: list[str]) -> None:
    """Take out submissions, each named by its student and lesson, with all that came of them."""
    from nbgrader.api import Gradebook, MissingEntry

    done = _Done(course, "submitted")
    for name in names:
        student, lesson = name.split(" ")
        for folder in (course.root / "exchange").glob(f"*/inbound/{student}+{lesson}+*"):
            shutil.rmtree(folder)
        for step in ("submitted", "autograded", "feedback"):
            shutil.rmtree(course.path(step, lesson, student), ignore_errors=True)
        records.path_of(course.records, lesson, student).unlink(missing_ok=True)
        with Gradebook(course.directory.db_url, course.directory.course_id) as gradebook, contextlib.suppress(MissingEntry):
            gradebook.remove_submission(lesson, student)
        done.forget(name)


def collect(course: Course, lesson: str) -> None:
    from nbgrader.exchange.default import ExchangeCollect

    _start(course, ExchangeCollect, lesson)


class _Done:
    """Which inputs a step has already worked on: name → hash, kept in the course folder."""

    def __init__(self, course: Course, step: str):
        self.path = course.root / "state" / f"{step}.json"
        try:
            self.keys = json.loads(self.path.read_text("utf-8"))
        except (OSError, ValueError):
            self.keys = {}

    def has(self, name: str, key: str) -> bool:
        return self.keys.get(name) == key

    def note(self, name: str, key: str) -> None:
        self.keys[name] = key
        self._write()

    def forget(self, name: str) -> None:
        del self.keys[name]
        self._write()

    def _write(self) -> None:
        write_atomically(self.path, json.dumps(self.keys, indent=1, sort_keys=True) + "\n")


def _hash_of(*paths: Path) -> str:
    digest = hashlib.sha256()
    for path in paths:
        digest.update(path.name.encode() + b"\0" + hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def _start(course: Course, step: type, lesson: str, student: str = "*", **traits: object) -> None:
    """Run one of nbgrader's converters or exchange steps on a lesson."""
    from nbgrader.auth import Authenticator
    from nbgrader.coursedir import CourseDirectory

    said = _Said()
    log = logging.Logger(step.__name__)
    log.addHandler(said)
    directory = CourseDirectory(config=course.config, log=log)
    directory.assignment_id, directory.student_id = lesson, student
    more = {"authenticator": Authenticator(config=course.config)} if step.__name__.startswith("Exchange") else {}
    runner = step(coursedir=directory, config=course.config, log=log, **more)
    for name, value in traits.items():
        setattr(runner, name, value)
    try:
        with nbgraders_surroundings():
            runner.start()
    except Exception as problem:
        raise StepFailed(f"{step.__name__} of {lesson} failed: {said.first or problem}") from problem


class _Said(logging.Handler):
    """Keeps the first error that nbgrader logs."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.first: str | None = None

    def emit(self, record: logging.LogRecord) -> None:
        self.first = self.first or record.getMessage().strip().splitlines()[-1]


def run(
    root: Path,
    folder: Path,
    students: int | None,
    workers: int,
    say: Callable[[str], None],
    tell: Callable[[Record, int, int], None],
    no_sandbox: bool = False,
) -> tuple[Course, list[Record]]:
    """The whole road; gives the course and a record for every student and lesson that was handed in."""
    course = set_up(root, folder)
    for lesson in course.lessons():
        say(f"release {lesson}")
        release(course, lesson, say)
    class_folder = folder.parent / f"{folder.name}-class"
    say(f"sample class into {class_folder.name}")
    submissions = sample.write_class(class_folder, root, students)
    withdraw_others(course, submissions)
    for submission in submissions:
        submit(course, class_folder, submission)
    for lesson in course.lessons():
        say(f"collect {lesson}")
        collect(course, lesson)
    work = [(lesson, student) for lesson in course.lessons() for student in course.students(lesson)]
    say(f"grade {len(work)} submissions")
    graded = grade_all(course.root, work, workers, tell=tell, no_sandbox=no_sandbox, say=say)
    report(course, graded)
    return course, graded


def report(course: Course, graded: list[Record]) -> Path:
    """Feedback for each submission, and the report on all."""
    pages = {}
    for record in graded:
        page = write_feedback(course, record)
        pages[record.lesson, record.student] = page.relative_to(course.root).as_posix()
    return write_report(course.root / "report.html", summarise(graded, course.lessons(), course), pages)


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="autograder course", description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, help="where to make the course (default: _build/course)")
    parser.add_argument("--students", type=int, help="size of the sample class (default: one for each case)")
    parser.add_argument("--workers", type=int, default=min(2, os.cpu_count() or 1), help="submissions at once (default: %(default)s)")
    parser.add_argument("--no-sandbox", action="store_true", help="where the machine gives no sandbox, run the class with all your rights")
    options = parser.parse_args(argv)
    root = course_root()
    folder = options.folder or root / "_build" / "course"
    if not sample.may_hold_solutions(folder, root):
        print(f"{folder} would be published with the course, and it holds solutions: choose a folder in _build.", file=sys.stderr)
        return 1
    try:
        course, graded = run(root, folder, options.students, options.workers, print, Progress(), options.no_sandbox)
    except (FileNotFoundError, StepFailed, ValueError, Busy, NoSandbox, EngineFailed) as problem:
        print(f"autograder course: {problem}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nStopped. What is done is kept; the same command goes on from here.", file=sys.stderr)
        return 130
    print(f"\n{table(graded, course.lessons())}\n")
    _say_where(root, course)
    return 1 if any(record.state == records.FAILED for record in graded) else 0


def _say_where(root: Path, course: Course) -> None:
    book = root / "_build" / "html" / "index.html"
    made = "" if book.is_file() else " (not built yet: `make book`)"
    print(f"book      {_short(book)}{made}")
    print(f"report    {_short(course.root / 'report.html')}")
    print(f"feedback  {_short(course.root / 'feedback')}/STUDENT/LESSON/LESSON.html")


def _short(path: Path) -> Path:
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
