"""Processes that assess submissions side by side; one writer, elsewhere, keeps what they find.

A worker is a fork of the grader with a line of its own to the warm process. No learner's code runs in it. Should one
end all the same (the machine ran out of memory, say), whoever it worked on is tried once more, alone.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import signal
import sys
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait

from autograder.staff import records
from autograder.staff.assess import Assessed, Sheet, assess, failed
from autograder.staff.courses import Course
from autograder.staff.engine import client
from autograder.staff.intake import KEPT_BESIDE, NotGradable
from autograder.staff.records import Record
from autograder.staff.snapshot import Snapshot

Who = tuple[str, str]  # (lesson, student)


@dataclass
class Done:
    """One submission, assessed. beside: nbgrader's own two files of it. key: what its marks depend on, as it was read."""

    assessed: Assessed
    beside: Snapshot
    key: str


def assess_all(course: Course, sheets: dict[str, Sheet], engine: client.Engine, todo: list[Who]) -> Iterator[Done]:
    """Assess everybody, as many at a time as the engine has lines; in the order in which they are done."""
    waiting, second_try = deque(todo), deque()
    crew = [_Worker(course, sheets, line) for line in engine.lines]
    try:
        while waiting or second_try or any(worker.who for worker in crew):
            alone = not waiting and not any(worker.who for worker in crew)
            for worker in crew:
                if worker.who is None and waiting:
                    worker.give(waiting.popleft())
            if alone:
                crew[0].give(second_try.popleft())
            for connection in wait([worker.connection for worker in crew if worker.who]):
                number = next(i for i, worker in enumerate(crew) if worker.connection is connection)
                who, done = crew[number].take()
                if isinstance(done, client.EngineFailed):
                    raise done
                if done is not None:
                    yield done
                    continue
                engine.lines[number].drain()
                crew[number] = _Worker(course, sheets, engine.lines[number])
                if alone:
                    yield _ended(course, *who)
                else:
                    second_try.append(who)
    finally:
        for worker in crew:
            worker.kill()


class _Worker:
    def __init__(self, course: Course, sheets: dict[str, Sheet], line: client.Line):
        context = multiprocessing.get_context("fork")
        self.connection, theirs = context.Pipe()
        self.process = context.Process(target=_work, args=(theirs, os.getpid(), course, sheets, line), daemon=True)
        self.process.start()
        theirs.close()
        self.who: Who | None = None

    def give(self, who: Who) -> None:
        self.who = who
        self.connection.send(who)

    def take(self) -> tuple[Who, Done | Exception | None]:
        """Whose it was and what came out; None if the worker has ended."""
        who, self.who = self.who, None
        try:
            return who, self.connection.recv()
        except (EOFError, ConnectionError):
            return who, None

    def kill(self) -> None:
        self.process.kill()
        self.process.join()
        self.connection.close()


def _work(connection: Connection, parent: int, course: Course, sheets: dict[str, Sheet], line: client.Line) -> None:
    """A worker's life: a name comes in, what was found goes out."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the grader ends its workers itself
    _die_with_parent(parent)
    while True:
        lesson, student = connection.recv()
        started = time.monotonic()
        handed_in, key = course.read(lesson, student)
        try:
            assessed = assess(sheets[lesson], student, handed_in, line)
        except client.EngineFailed as problem:
            connection.send(problem)
            continue
        assessed.record.seconds = round(time.monotonic() - started, 3)
        beside = {} if isinstance(handed_in, NotGradable) else {name: handed_in[name] for name in KEPT_BESIDE if name in handed_in}
        connection.send(Done(assessed, beside, key))


def _die_with_parent(parent: int) -> None:
    """Linux: a grader that is killed leaves no worker behind, which would wait for work for ever."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(1, signal.SIGKILL, 0, 0, 0)  # PR_SET_PDEATHSIG
        if os.getppid() != parent:
            os._exit(1)


def _ended(course: Course, lesson: str, student: str) -> Done:
    """For a submission at which a worker has ended twice, the second time alone."""
    problem = RuntimeError("the process that assessed it was ended twice")
    return Done(Assessed(failed(Record(lesson, student, records.FAILED), problem)), {}, course.read(lesson, student)[1])
