"""Put a learner's object through histories of calls and keep what happened as a transcript. Nothing is judged here."""

from __future__ import annotations

import contextlib
import copy
import gc
import io
import signal
import threading
import time
import types
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from autograder.histories import Play
from autograder.record import Outcome, State, plain, read_state, simple_key, state_of

CALL_SECONDS = 3.0
SMALL = 2**53
TWIN_OP = ("allocate", "z", 1)
USED_TWICE = 12  # rows of any history
USED_WATCHED, USED_SMALL = 12, 64  # rows of a long history, in pools of so many blocks


class TimeUp(BaseException):
    """A call ran longer than it may. Not an Exception, so that `except Exception` in a learner's code lets it pass."""


@dataclass
class Rows:
    """What one play gave. Row i: outcomes[outcome[i]], used: outcomes[used[i]], states[state[i]] (indices, as most rows repeat)."""

    states: list[State] = field(default_factory=list)
    outcomes: list[Outcome] = field(default_factory=list)
    rows: list[tuple[int, int, int]] = field(default_factory=list)

    def to_json(self) -> dict:
        return {"states": [s.packed() for s in self.states], "outcomes": [o.to_json() for o in self.outcomes], "rows": [list(r) for r in self.rows]}

    @classmethod
    def from_json(cls, data: dict, length: int) -> Rows:
        """The inverse of `to_json` for a play of `length` rows (fewer only if the run was cut off); raises ValueError on any other shape."""
        try:
            found = cls([State.from_json(s) for s in data["states"]], [Outcome.from_json(o) for o in data["outcomes"]])
            for row in data["rows"][:length]:
                outcome, used, state = row
                if not (type(outcome) is type(used) is type(state) is int and min(row) >= 0):
                    raise ValueError
                found.outcomes[outcome], found.outcomes[used], found.states[state]
                found.rows.append((outcome, used, state))
            return found
        except (TypeError, KeyError, IndexError, ValueError):
            raise ValueError("not the rows of a play") from None


class Guard:
    """Cuts off a call that runs too long, where the platform can (main thread, a system with interval timers)."""

    def __init__(self, seconds: float = CALL_SECONDS):
        self.seconds = seconds
        self.started = time.perf_counter()

    def _tick(self, *_: object) -> None:
        if time.perf_counter() - self.started > self.seconds:
            raise TimeUp

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        able = hasattr(signal, "setitimer") and threading.current_thread() is threading.main_thread()
        if not able:
            yield
            return
        before = signal.signal(signal.SIGALRM, self._tick)
        # The tick repeats: code that swallows one TimeUp meets the next.
        signal.setitimer(signal.ITIMER_REAL, self.seconds / 4, self.seconds / 4)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)


class Said(io.TextIOBase):
    """Keeps the first characters of what a learner's code prints during a check, and counts the rest."""

    MOST = 2_000

    def __init__(self) -> None:
        self.text, self.more = "", 0

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        room = self.MOST - len(self.text)
        self.text += text[:room]
        self.more += max(0, len(text) - room)
        return len(text)


@contextlib.contextmanager
def listening() -> Iterator[Said]:
    """Prints and warnings of the code that is driven are kept, and never change what it does."""
    said = Said()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said), warnings.catch_warnings():
        warnings.simplefilter("default")  # a caller's `-W error` must not turn a warning into a failure
        yield said


@contextlib.contextmanager
def uncollected() -> Iterator[None]:
    """The garbage collector rests: what is recorded stays, and looking through it again and again takes a tenth of the time."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


Answer = tuple  # (value as plain data, name of the exception or None, its message)


def ask(function: Callable, *args: object) -> Answer:
    """One call of the learner's code; whatever it raises becomes data. Only the learner's own Ctrl-C goes through."""
    try:
        value = function(*args)
        if value is True or value is False:
            return int(value), None, repr(value)
        return (value if value is None or type(value) is int and -SMALL < value < SMALL else plain(value)), None, ""
    except (TimeUp, KeyboardInterrupt):
        raise
    except BaseException as error:
        outcome = Outcome.raised(error)
        return None, outcome.error, outcome.message


def call(function: Callable, *args: object) -> Outcome:
    """The same as an `Outcome`."""
    return Outcome(*ask(function, *args))


def _unmarked(play: int, row: int) -> None:
    """Nobody asked which call is going on."""


class _Recorder:
    """Rows of one play; states and outcomes that come again are kept once."""

    def __init__(self, num_blocks: int):
        self.num_blocks = num_blocks
        self.kept = Rows()
        self._state_at: dict[tuple, int] = {}
        self._outcome_at: dict[tuple, int] = {}

    def state(self, manager: object) -> int:
        simple = simple_key(manager, self.num_blocks)
        at = self._state_at.get(simple) if simple else None
        if at is None:
            state = simple and state_of(simple)
            key = simple
            if not state:
                state = read_state(manager, self.num_blocks)
                key = ("state", *state.key)
            at = self._state_at.setdefault(key, len(self.kept.states))
            if at == len(self.kept.states):
                self.kept.states.append(state)
        return at

    def outcome(self, answer: Answer) -> int:
        value, error, message = answer
        key = (value if type(value) in (int, float) else repr(value), error, message)
        at = self._outcome_at.get(key)
        if at is None:
            at = self._outcome_at[key] = len(self.kept.outcomes)
            self.kept.outcomes.append(Outcome(value, error, message))
        return at

    def row(self, manager: object, answer: Answer, goes_on: bool) -> None:
        """State, then `used()`. If the history goes on with this manager, asking must not have changed the state.

        That is looked at in the first rows only: later a change shows in the next row, which is as wrong as this one.
        """
        state = self.state(manager)
        used = ask(_ask_used, manager)
        if len(self.kept.rows) < USED_TWICE and used[1] is None and ask(_ask_used, manager)[0] != used[0]:
            used = None, "changed", "asked twice, used() gives two answers"
        if goes_on and len(self.kept.rows) < USED_WATCHED and self.num_blocks <= USED_SMALL and self.state(manager) != state:
            used = None, "changed", "calling used() changed what the manager holds"
        self.kept.rows.append((self.outcome(answer), self.outcome(used), state))


def _ask_used(manager: object) -> object:
    return manager.used()


def _operate(manager: object, op: tuple) -> object:
    return getattr(manager, op[0])(*op[1:])


class _Driver:
    """Runs plays against one class and remembers which call is going on."""

    def __init__(self, make: Callable, mark: Callable[[int, int], None]):
        self.make, self.mark = make, mark
        self.guard = Guard()
        self.at = (0, 0)

    def construct(self, num_blocks: int, block_size: int) -> tuple[object, Answer]:
        made = []
        answer = ask(lambda: made.append(self.make(num_blocks, block_size)))
        return (made[0] if made else None), answer

    def replayed(self, play: Play, ops: list[tuple]) -> object:
        """A new manager after these operations, whose outcomes are known already."""
        manager, _ = self.construct(play.num_blocks, play.block_size)
        for op in ops:
            try:
                getattr(manager, op[0])(*op[1:])
            except (TimeUp, KeyboardInterrupt):
                raise
            except BaseException:
                pass  # it is in the row that this operation has of its own
        return manager

    def apply(self, manager: object, play: Play, op: tuple) -> Answer:
        if op[0] == "twin":
            other, answer = self.construct(play.num_blocks, play.block_size)
            if answer[1]:
                return answer
            ask(_operate, other, TWIN_OP)
            return read_state(other, play.num_blocks).to_json(), None, ""
        if op[0] == "burst":
            return self.burst(manager, op[1])
        return ask(_operate, manager, op)

    def burst(self, manager: object, ops: tuple) -> Answer:
        """Many calls, each as guarded as one alone; the first that raises is the last. What came back is one character for each."""
        given = []
        for op in ops:
            self.guard.started = time.perf_counter()
            value, error, message = ask(_operate, manager, op)
            if error:
                return {"answers": "".join(given)}, error, message
            given.append("1" if value == 1 else "0" if value == 0 and value is not None else ".")
        return {"answers": "".join(given)}, None, ""

    def run(self, number: int, play: Play, recorder: _Recorder) -> None:
        branches = play.branches
        roots = play.roots
        managers: dict[int, object] = {}
        for row, (parent, op) in enumerate(zip(play.parents, play.ops, strict=True)):
            self.guard.started = time.perf_counter()
            self.at = number, row
            self.mark(number, row)
            if parent is None:
                manager, answer = self.construct(*play.shape(row))
                managers[row] = manager
            else:  # a chain goes on with the manager of the row before
                manager = self.replayed(play, play.before[row]) if branches else managers[roots[row]]
                answer = self.apply(manager, play, op)
            recorder.row(manager, answer, not branches)
            if parent is None and answer[1] and not row:
                return  # nothing can be built: the one row says why


@dataclass
class Transcript:
    """All plays of one check, in order; stopped names the play and row whose call did not return."""

    plays: list[Rows]
    stopped: tuple[int, int] | None = None


def drive_manager(make: Callable, plays: list[Play], mark: Callable[[int, int], None] = _unmarked) -> Transcript:
    """Build managers with `make(num_blocks, block_size)` and put them through the plays. `mark` is told of each call before it."""
    driver, done = _Driver(make, mark), []
    with driver.guard.watching():
        for number, play in enumerate(plays):
            recorder = _Recorder(max(play.num_blocks, *(play.second or (0,))))
            done.append(recorder.kept)
            try:
                driver.run(number, play, recorder)
            except TimeUp:
                return Transcript(done, driver.at)
    return Transcript(done)


class Snapshot(types.SimpleNamespace):
    """A block manager at one moment, for functions that read one: free, ref, seqs, used(), num_blocks, block_size."""

    def used(self) -> int:
        return len(self.ref)

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        raise AttributeError(f"the manager is shown to be read: it has free, ref, seqs and used(), and no {name!r}")


def snapshot(state: State, num_blocks: int, block_size: int) -> Snapshot:
    """A fresh object each time, so that a function that writes to it harms nobody."""
    seqs = {n: {"blocks": list(b), "len": k} for n, (b, k) in state.seqs.items()}
    return Snapshot(free=list(state.free), ref=dict(state.ref), seqs=seqs, num_blocks=num_blocks, block_size=block_size)


@dataclass
class Calls:
    """What a function gave for each case, in order; stopped is the number of the case that did not return."""

    outcomes: list[Outcome]
    stopped: int | None = None


def drive_function(function: Callable, cases: list, keep: Callable[[Callable, object], Outcome], mark: Callable[[int, int], None] = _unmarked) -> Calls:
    """Call the function on every case. `keep(function, case)` makes the call and turns the result into plain data."""
    guard, out = Guard(), []
    with guard.watching():
        for number, case in enumerate(cases):
            guard.started = time.perf_counter()
            mark(0, number)
            try:
                out.append(keep(function, copy.deepcopy(case)))
            except TimeUp:
                return Calls(out, number)
    return Calls(out)
