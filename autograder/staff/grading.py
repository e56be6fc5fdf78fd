"""Grade a class: every submission through intake, sandbox and judge into nbgrader's gradebook.

One submission cannot stop another, a run that is stopped goes on where it was, and a submission whose bytes, lesson
and grading code are those of its record is not run again.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable
from pathlib import Path

from sqlalchemy.exc import SQLAlchemyError

from autograder.staff import records
from autograder.staff.assess import Sheet, failed
from autograder.staff.courses import Course, nbgraders_surroundings
from autograder.staff.engine import client
from autograder.staff.execute import ExecuteInSandbox, start_engine
from autograder.staff.intake import read_own
from autograder.staff.keep import Keeper
from autograder.staff.records import Record, write_atomically
from autograder.staff.regrade import Replaced, moved
from autograder.staff.workers import Done, Who, assess_all

RELEASED_MB = 16
SANDBOXES = {
    "root": "each submission in a sandbox (namespaces, a user id of its own)",
    "user": "each submission in a sandbox (user namespaces)",
    "none": "NO SANDBOX: each submission runs with your rights",
}


def is_current(course: Course, record: Record | None, key: str) -> bool:
    """Whether the record can stand: same inputs, ended well, and nbgrader's own notebook is still there."""
    if record is None or record.key != key or record.state not in records.FINAL:
        return False
    return record.score is None or course.notebook("autograded", record.lesson, record.student).is_file()


def sheet_of(course: Course, keeper: Keeper, lesson: str, to_the_end: bool) -> Sheet:
    """All that grading the lesson needs."""
    rows = keeper.lesson(lesson)
    released = course.notebook("release", lesson)
    files, left = {}, RELEASED_MB << 20
    for path in sorted(released.parent.rglob("*")):
        if path.is_file() and not path.is_symlink() and path.suffix != ".ipynb" and path.stat().st_size <= left:
            files[path.relative_to(released.parent).as_posix()] = path.read_bytes()
            left -= path.stat().st_size
    master = course.notebook("source", lesson)
    options = {name: dict(course.config[name]) for name in ("IgnorePattern", "LimitOutput") if name in course.config}
    return Sheet(lesson, read_own(master), read_own(released), rows.given, rows.kernelspec, files, to_the_end, options)


def grade_all(
    root: Path,
    work: list[Who],
    workers: int = 2,
    again: bool = False,
    tell: Callable[[Record, int, int], None] = lambda record, done, total: None,
    no_sandbox: bool = False,
    say: Callable[[str], None] = lambda line: None,
    warm: client.Warm | None = None,
    db: str | None = None,
    cluster: str | None = None,
) -> list[Record]:
    """Grade (lesson, student) pairs, those that must run; `tell(record, done, total)` hears of each one that ran.

    warm: a warm process that the caller has started already, with as many lines as there shall be workers.
    db: the gradebook's address, if it is not the one in the course's configuration. cluster: a Dask scheduler's
    address; its workers then assess, and `workers` and `warm` play no part.
    """
    course = Course(root, db)
    with course.alone(), nbgraders_surroundings():
        keeper = Keeper(course)
        try:
            kept, todo = _what_to_do(course, keeper, work, again)
            if todo:
                kept += _grade(course, keeper, todo, workers, tell, no_sandbox, say, warm, cluster)
        finally:
            keeper.close()
    return sorted(kept, key=lambda record: (record.lesson, record.student))


def _what_to_do(course: Course, keeper: Keeper, work: list[Who], again: bool) -> tuple[list[Record], list[Who]]:
    """The records that stand, and whose submissions must run."""
    kept, todo, holding = [], [], keeper.holding()
    for lesson, student in work:
        record = records.load(course.records, lesson, student)
        current = not again and is_current(course, record, course.read(lesson, student)[1])
        if current and (record.score is None or (lesson, student) in holding):
            kept.append(record)
        else:
            todo.append((lesson, student))
    return kept, todo


def _grade(
    course: Course,
    keeper: Keeper,
    todo: list[Who],
    workers: int,
    tell: Callable[[Record, int, int], None],
    no_sandbox: bool,
    say: Callable[[str], None],
    warm: client.Warm | None,
    cluster: str | None,
) -> list[Record]:
    options = ExecuteInSandbox(config=course.config)
    sheets = {lesson: sheet_of(course, keeper, lesson, options.run_to_the_end) for lesson in sorted({lesson for lesson, _ in todo})}
    keeper.engine.dispose()  # no connection of ours may be in the workers
    ran, moves, replaced = [], [], Replaced(course)
    replaced.begin()
    settings, no_sandbox = options.settings(*(sheet.master for sheet in sheets.values())), no_sandbox or options.no_sandbox
    with contextlib.ExitStack() as running:
        if cluster:
            from autograder.staff.cluster import assess_all as assess_there

            found = running.enter_context(contextlib.closing(assess_there(course, sheets, settings, no_sandbox, cluster, todo, say)))
        else:
            warm = warm or client.Warm(max(1, min(workers, len(todo))))
            engine = running.enter_context(start_engine(settings, course.root, warm, no_sandbox))
            say(SANDBOXES[engine.kind])
            found = assess_all(course, sheets, engine, todo)
        for done in found:
            before = replaced.remember(done.assessed.record.lesson, done.assessed.record.student)
            ran.append(_keep(course, keeper, done))
            tell(ran[-1], len(ran), len(todo))
            if before and (move := moved(before, ran[-1])):
                moves.append(move)
    replaced.end()
    _say_moves(moves, say)
    return ran


def _say_moves(moves: list[str], say: Callable[[str], None]) -> None:
    if moves:
        say(f"{len(moves)} moved; `autograder grade --undo` puts the marks back as they were:")
        for move in sorted(moves):
            say(f"  {move}")


def undo(root: Path, work: list[Who] | None = None, db: str | None = None) -> list[Record]:
    """Put back the marks that the last run replaced, of everybody or of these. Marks given by hand stay."""
    course = Course(root, db)
    with course.alone(), nbgraders_surroundings():
        keeper, replaced = Keeper(course), Replaced(course)
        try:
            return [replaced.undo(keeper, *who) for who in replaced.entries() if work is None or who in work]
        finally:
            keeper.close()


def _keep(course: Course, keeper: Keeper, done: Done) -> Record:
    record = done.assessed.record
    try:
        keeper.keep(done.assessed, done.beside, done.key)
    except (SQLAlchemyError, KeyError, ValueError) as problem:
        record.key = None
        records.save(course.records, failed(record, problem))
    if done.assessed.trace:
        write_atomically(course.records / record.lesson / f"{record.student}.log", done.assessed.trace)
    return record


def grade_submission(root: Path, lesson: str, student: str, again: bool = False) -> Record:
    """Grade one submission and keep what came out."""
    (record,) = grade_all(root, [(lesson, student)], 1, again)
    return record


class Progress:
    """One line per submission: done of total, whose it was, its mark and time; the rate, the time left, the slowest."""

    def __init__(self, stream: object = None) -> None:
        self.stream = stream or sys.stdout
        self.started = time.monotonic()
        self.slowest: Record | None = None

    def __call__(self, record: Record, done: int, total: int) -> None:
        took = time.monotonic() - self.started
        mark = record.state if record.score is None else f"{record.score:g}/{record.max_score:g}"
        if self.slowest is None or (record.seconds or 0) > (self.slowest.seconds or 0):
            self.slowest = record
        print(
            f"[{done:>{len(str(total))}}/{total}] {record.student} {record.lesson}: {mark} ({record.seconds or 0:.1f} s; {done / took:.1f} a second;"
            f" about {took / done * (total - done):.0f} s left; slowest {self.slowest.student} {self.slowest.seconds or 0:.1f} s)",
            file=self.stream, flush=True,
        )  # fmt: skip


def chosen(course: Course, lessons: list[str], students: list[str] | None) -> list[Who]:
    """The submissions that were asked for. Raises FileNotFoundError with the names that exist."""
    known = course.lessons()
    if unknown := [lesson for lesson in lessons if lesson not in known]:
        raise FileNotFoundError(f"There is no lesson {unknown[0]} in this course: it has {', '.join(known)}.")
    work = [(lesson, s) for lesson in lessons or known for s in course.students(lesson) if not students or s in students]
    if absent := [student for student in students or [] if student not in {s for _, s in work}]:
        raise FileNotFoundError(f"Nothing was handed in by {absent[0]} for {', '.join(lessons or known)}.")
    return work


def exit_code(graded: list[Record]) -> int:
    """0: all graded. 3: some are not gradable. 1: the grader itself failed on some."""
    if any(record.state == records.FAILED for record in graded):
        return 1
    return 3 if any(record.state == records.NOT_GRADABLE for record in graded) else 0
