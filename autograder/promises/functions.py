"""How a function is asked and judged, and the promises of lesson 1's functions: each a relation between arguments and result.

A relation looks at an answer that was given. Nothing here takes the arguments and hands the answer back.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from autograder.drive import call
from autograder.promises.base import Broken, Promise
from autograder.record import Outcome, show

TRIED = 150_000  # numbers, to find the answer that is shown in words; fewer if the arguments are long


@dataclass
class Case:
    """One call of a function (or one group of calls that are judged together) and what it gave.

    An answer's case has its question's key for args. broken: ids of the promises that it broke, once it has been judged.
    """

    args: object
    outcome: Outcome
    broken: frozenset[str] = frozenset()

    @property
    def value(self) -> object:
        return self.outcome.value


@dataclass(frozen=True)
class Function:
    """A function exercise: its cases, simplest first; how a result becomes plain data; its promises; how a case is written.

    needs: a package without which no call can be made. The judge never needs it.
    """

    cases: Callable[[bool, random.Random], Iterator[object]]
    promises: list[Promise]
    keep: Callable[[Callable, object], Outcome] = field(default=lambda function, args: call(function, *args))
    written: Callable[[str, object], list[str]] = field(default=lambda name, args: [f"{name}({', '.join(map(show, args))})"])
    needs: str | None = None


Relation = Callable[[tuple, float], bool]


def relation_promise(id: str, statement: str, relation: Relation, right: Relation | str, hint: str, concerns: Callable[[tuple], bool] = lambda args: True) -> Promise:
    """A promise on the arguments and the returned number or truth value.

    right: all that is asked of an answer, to say in words what it would have been; or the words.
    """

    def test(case: Case):
        if not concerns(case.args):
            return None
        if case.outcome.error is None and type(case.value) in (int, float) and relation(case.args, case.value):
            return True
        return Broken(right if isinstance(right, str) else lambda: _words(right, case.args), str(case.outcome))

    return Promise(id, statement, test, frozenset(), hint)


def _words(right: Relation, args: tuple) -> str:
    """The answer that would have been right, found by trying one number after the other."""
    size = 1 + sum(len(a) for a in args if hasattr(a, "__len__"))
    found = next((k for k in range(TRIED // size) if right(args, k)), None)
    return "another number" if found is None else f"returned {found}"


def holds(k: float, parts: list[int], block: int) -> bool:
    """Whether k is the number of blocks that these token counts need, each rounded up by itself."""
    return k * block == sum(tokens + -tokens % block for tokens in parts)


def fills(k: float, parts: list[int], block: int) -> bool:
    """Whether k is the number of blocks that these token counts fill to the last slot, each by itself."""
    return k * block == sum(tokens - tokens % block for tokens in parts)


def again(cases: Iterator[tuple], rng: random.Random, thorough: bool) -> Iterator[tuple]:
    """The cases, and then some of them once more: an answer must not depend on what was asked before."""
    asked = list(cases)
    yield from asked
    yield from asked[-1:]
    yield from rng.sample(asked, min(len(asked), 60 if thorough else 10))


# ---- lesson 01 -------------------------------------------------------------------------------------------------

# One token more or less than blocks of every size hold, far more tokens than slots in a block, and pairs that look alike when joined.
WIDE = (
    (1, 2), (1, 3), (41, 41), (49, 49), (98, 49), (1, 64), (127, 128), (128, 128), (129, 128), (1, 128), (255, 256), (1, 256), (1, 512), (1, 1000), (1001, 1000),
    (1, 4096), (8191, 4096), (11, 6), (1, 16), (116, 1), (2000, 1), (2049, 1), (4096, 1), (4000, 16), (5000, 16), (65_536, 16),
)  # fmt: skip
VAST = ((16_777_217, 4096), (16_777_217, 4096), (70_000, 64), (70_000, 64))


def _token_cases(thorough: bool, rng: random.Random) -> Iterator[tuple]:
    def asked() -> Iterator[tuple]:
        yield from ((n, size) for size in (4, 1, 16) for n in range(2 * size + 2))
        yield from ((33, 16), (20, 16), (32, 16), (2000, 16), (2005, 16))
        yield from WIDE
        yield from VAST if thorough else ()
        for _ in range(200 if thorough else 10):
            size = rng.choice((rng.randint(1, 64), rng.randint(1, 5000)))
            yield rng.randint(0, 40) * size + rng.choice((0, 0, 1, size - 1, rng.randrange(size))), size

    return again(asked(), rng, thorough)


def _blocks_right(a: tuple, k: float) -> bool:
    return holds(k, [a[0]], a[1])


BLOCKS_NEEDED = Function(
    _token_cases,
    [
        relation_promise("enough", "The blocks hold all tokens.", lambda a, k: k * a[1] >= a[0] and k == int(k), _blocks_right, "A last block that is only partly filled is still a whole block: round up, not down.", lambda a: a[0] > 0),
        relation_promise("no-spare", "One block fewer would not hold them: a multiple of the block size needs no spare block.", lambda a, k: (k - 1) * a[1] < a[0] and k == int(k), _blocks_right, "`n // size + 1` is one too many when n is a multiple of the size."),
        relation_promise("nothing-for-nothing", "0 tokens need 0 blocks.", lambda a, k: k == 0, "returned 0", "Nothing stored, nothing reserved: that is the point of paging.", lambda a: a[0] == 0),
    ],
)


def _slack_right(a: tuple, s: float) -> bool:
    return (a[0] + s) % a[1] == 0 and 0 <= s < a[1]


SLACK = Function(
    _token_cases,
    [
        relation_promise("fills-up", "Tokens and slack together fill whole blocks.", lambda a, s: (a[0] + s) % a[1] == 0, _slack_right, "slack = slots − tokens, and slots = blocks × block size."),
        relation_promise("within-one-block", "The slack lies in the last block: at least 0, and less than one block.", lambda a, s: 0 <= s < a[1], _slack_right, "When the tokens fill their blocks the slack is 0, not a whole block."),
    ],
)


def _fraction_right(a: tuple, value: float) -> bool:
    """Whether the value is a share of slots of which this many are empty; exact to 1e-9."""
    slots = a[0] + -a[0] % a[1]
    return abs(value * slots - -a[0] % a[1]) <= 1e-9 * slots


def _of_the_slots(case: Case):
    tokens, size = case.args
    if tokens == 0:
        return None
    if case.outcome.error is None and type(case.value) in (int, float) and _fraction_right(case.args, case.value):
        return True
    empty = next(s for s in range(size) if _slack_right(case.args, s))
    near = case.outcome.error is None and type(case.value) in (int, float) and abs(case.value - empty / (tokens + empty)) < 1e-3
    return Broken(f"returned {empty / (tokens + empty)!r}, that is {empty} of {tokens + empty} slots", str(case.outcome), "Nearly: give the fraction as it is, without rounding and in full precision." if near else None)


SLACK_FRACTION = Function(
    _token_cases,
    [
        Promise("of-the-slots", "The slack as a fraction of the allocated slots.", _of_the_slots, frozenset(), "Name the denominator: the slots of this allocation, neither the tokens nor all of the memory; and a fraction (0.3125), not a percentage."),
        relation_promise("no-slots-no-waste", "0.0 for 0 tokens.", lambda a, v: v == 0, "returned 0.0", "Without a slot there is nothing to divide by; answer that case first.", lambda a: a[0] == 0),
    ],
)


def _hole_cases(thorough: bool, rng: random.Random) -> Iterator[tuple]:
    def asked() -> Iterator[tuple]:
        for size in range(1, 6):
            for chosen in itertools.product((False, True), repeat=size):
                yield {slot for slot, taken in enumerate(chosen) if taken}, size
        yield set(range(16, 32)) | set(range(64, 80)), 96
        yield {8, 1}, 9
        yield {64, 3, 33}, 70
        yield set(range(0, 400, 2)), 400
        # Long pools whose longest hole is the last, the first, or one in the middle; the others are short.
        yield set(range(0, 1100, 5)), 1400
        yield set(range(290, 1400, 7)), 1400
        yield set(range(0, 1500, 4)) | set(range(1800, 2100, 4)), 2100
        for _ in range(60 if thorough else 5):
            size = rng.randint(6, 200)
            often = rng.choice((0.05, 0.3, 0.8))
            yield {s for s in range(size) if rng.random() < often}, size

    return again(asked(), rng, thorough)


def drawn(occupied: set[int], size: int) -> str:
    """The pool as text, one character a slot."""
    return "".join("x" if slot in occupied else "." for slot in range(size))


def fits(a: tuple, n: float) -> bool:
    """Whether that many free neighbours are somewhere in the pool."""
    return n == int(n) and 0 <= n <= a[1] and "." * int(n) in drawn(*a)


def _hole_right(a: tuple, n: float) -> bool:
    return fits(a, n) and not fits(a, n + 1)


def _keep_hole(function: Callable, args: tuple) -> Outcome:
    """The message tells a set that was changed."""
    occupied, size = args
    before = set(occupied)
    outcome = call(function, occupied, size)
    return outcome if occupied == before else Outcome(outcome.value, outcome.error, CHANGED)


CHANGED = "the set was changed"


def _set_unchanged(case: Case):
    """Held only by a call that found the hole: whoever does nothing changes nothing either."""
    if case.outcome.message == CHANGED:
        return Broken("the set is as it was before the call", CHANGED)
    found = case.outcome.error is None and type(case.value) in (int, float) and _hole_right(case.args, case.value)
    return True if found else None


LARGEST_HOLE = Function(
    _hole_cases,
    [
        relation_promise("is-there", "There is a run of free neighbours that long.", fits, _hole_right, "The free slots must be neighbours; the number of all free slots is another thing."),
        relation_promise("none-longer", "No run of free neighbours is longer.", lambda a, n: not fits(a, int(n) + 1), _hole_right, "Look at the last run too: it may end at the pool's end instead of at an occupied slot."),
        relation_promise("full-pool", "0 if no slot is free.", lambda a, n: n == 0, "returned 0", "A full pool has no hole.", lambda a: len(a[0]) == a[1]),
        Promise("leaves-the-set", "The set of occupied slots is not changed.", _set_unchanged, frozenset(), "A set that is passed to a function stays the caller's: look at it, or copy it before you change the copy."),
    ],
    _keep_hole,
    lambda name, a: [f"{name}({_slots(a[0])}, {a[1]})"],
)


def _slots(occupied: set[int]) -> str:
    if not occupied:
        return "set()"
    shown = sorted(occupied)
    return "{" + ", ".join(map(str, shown[:40])) + (f", … {len(shown)} in all" if len(shown) > 40 else "") + "}"
