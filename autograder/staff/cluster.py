"""Submissions assessed by the workers of a Dask cluster, which share no disk with the grader.

A worker is sent the lesson's sheet and the bytes that were handed in, and sends back what `assess` found. Learners' code
runs below it in the same sandbox as on one machine. The grader alone reads the course and writes the gradebook. Dask
gives the work of a worker that ends to another; a worker with another version of the course is sent none.
"""

from __future__ import annotations

import atexit
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator

from autograder.staff import records
from autograder.staff.assess import Assessed, Sheet, assess, failed
from autograder.staff.courses import Course, code_key
from autograder.staff.engine import client
from autograder.staff.execute import OWN, start_engine
from autograder.staff.intake import KEPT_BESIDE, NotGradable
from autograder.staff.records import Record
from autograder.staff.snapshot import Snapshot
from autograder.staff.workers import Done, Who

ANSWER_SECONDS = 4
AHEAD = 3    # submissions for each worker that are under way or wait there


class NoCluster(Exception):
    """The cluster cannot be used; the message is one sentence with the cure."""


def assess_all(course: Course, sheets: dict[str, Sheet], settings: client.Settings, no_sandbox: bool, address: str, todo: list[Who], say: Callable[[str], None]) -> Iterator[Done]:
    """Assess everybody on the cluster whose scheduler is at the address; in the order in which they are done."""
    from distributed import Client, as_completed

    try:
        dask = Client(address, timeout=ANSWER_SECONDS, set_as_default=False)
    except (OSError, ValueError) as problem:
        raise NoCluster(f"No Dask scheduler answers at {address} ({problem}): start one with `dask scheduler`, or see its address.") from None
    with dask:
        crew = _Crew(dask, say)
        say(f"on {len(crew.fit())} workers of the cluster at {address}")
        waiting, under_way = deque(todo), {}
        there = as_completed(loop=dask.loop)
        while waiting or under_way:
            fit = crew.fit()
            while waiting and len(under_way) < AHEAD * len(fit):
                lesson, student = waiting.popleft()
                handed_in, key = course.read(lesson, student)
                if isinstance(handed_in, NotGradable):
                    yield Done(assess(sheets[lesson], student, handed_in, None), {}, key)
                    continue
                future = dask.submit(_assess_there, code_key(), settings, no_sandbox, sheets[lesson], student, handed_in, workers=fit, allow_other_workers=True, pure=False)
                under_way[future.key] = (lesson, student, handed_in, key)
                there.add(future)
            if under_way:
                future = next(there)
                lesson, student, handed_in, key = under_way.pop(future.key)
                assessed = _outcome(future, lesson, student)
                if assessed is None:
                    waiting.append((lesson, student))
                    continue
                yield Done(assessed, {name: handed_in[name] for name in KEPT_BESIDE if name in handed_in}, key)


class _Crew:
    """The workers that have this version of the course. Asked anew whenever workers have come or gone."""

    def __init__(self, dask: object, say: Callable[[str], None]):
        self.dask, self.say = dask, say
        self.known: dict[str, bool] = {}

    def fit(self) -> list[str]:
        """Addresses; raises NoCluster if for a while there is no such worker."""
        deadline = time.monotonic() + ANSWER_SECONDS
        while True:
            here = set(self.dask.scheduler_info(n_workers=-1)["workers"])
            if new := here - self.known.keys():
                self._ask(new)
            if fit := [address for address in sorted(here) if self.known.get(address)]:
                return fit
            if time.monotonic() > deadline:
                others = f"its {len(here)} workers have another version of the course" if here else "it has no workers"
                raise NoCluster(f"The cluster cannot grade, because {others}: install this version there (`pip install` of this checkout) and start `dask worker`.")
            time.sleep(0.2)

    def _ask(self, addresses: set[str]) -> None:
        answers = self.dask.run(_version_there, workers=sorted(addresses), on_error="return")
        for address, answer in answers.items():
            self.known[address] = answer == code_key()
            if not self.known[address]:
                why = f"it has another version of the course ({answer[:8]}, here {code_key()[:8]})" if isinstance(answer, str) else f"it has no course that could be asked ({type(answer).__name__})"
                self.say(f"worker {address} is left out: {why}")


def _outcome(future: object, lesson: str, student: str) -> Assessed | None:
    """What was found; None if it has to be done again. The machine's trouble is raised, as on one machine."""
    from distributed.scheduler import KilledWorker

    try:
        return future.result()
    except OtherVersion:
        return None
    except client.EngineFailed:
        raise
    except client.NoSandbox as problem:
        raise NoCluster(f"A worker of the cluster has no sandbox: {problem}") from None
    except KilledWorker:
        return Assessed(failed(Record(lesson, student, records.FAILED), RuntimeError("every worker that assessed it was ended")))


# ---- on a worker -----------------------------------------------------------------------------------------------


class OtherVersion(Exception):
    """This worker has come with another version of the course."""


def _version_there() -> str:
    return code_key()


_alone, _engines = threading.Lock(), {}


def _assess_there(key: str, settings: client.Settings, no_sandbox: bool, sheet: Sheet, student: str, handed_in: Snapshot) -> Assessed:
    if code_key() != key:
        raise OtherVersion
    with _alone:    # one warm process for all of a worker's threads
        started = time.monotonic()
        assessed = assess(sheet, student, handed_in, _engine(settings, no_sandbox).lines[0])
    assessed.record.seconds = round(time.monotonic() - started, 3)
    return assessed


def _engine(settings: client.Settings, no_sandbox: bool) -> client.Engine:
    made = _engines.get((settings, no_sandbox))
    if made is None or not made.alive:
        made = _engines[settings, no_sandbox] = start_engine(settings, OWN, client.Warm(), no_sandbox)
        atexit.register(made.close)
    return made
