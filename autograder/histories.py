"""Which histories a block manager is put through: every short one in order of length, then long random ones.

A history never depends on what the manager does, so the same list can be made again elsewhere from the same seed.
What the contract leaves undefined is never in one: a name is used for a new sequence only if it was never used
before, or after it was released.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Iterator
from dataclasses import dataclass

Op = tuple  # ("allocate", name, n_tokens) ("fork", parent, child) ("append", name) ("release", name) ("_take",) ("twin",)

NOBODY = "nobody"
ODD_NAMES = ("a", "0", " ", "free", "序列", "ein langer Name " * 12, "b", "é", "len", "None")
LESSON_01 = frozenset({"allocate", "release"})
ALL = frozenset({"allocate", "fork", "append", "release"})


@dataclass(frozen=True)
class Play:
    """A tree of operations on pools of one shape. Row i is operation ops[i] applied after row parents[i].

    Row 0 is the construction of the manager: parents[0] is None and ops[0] is ("new",).
    """

    num_blocks: int
    block_size: int
    parents: list[int | None]
    ops: list[Op]
    branches: bool = True

    @functools.cached_property
    def before(self) -> list[list[Op]]:
        """For each row the operations that lead to the state in which its own is called."""
        out: list[list[Op]] = []
        for parent in self.parents:
            out.append([*out[parent], self.ops[parent]] if parent else [])
        return out

    def path(self, row: int) -> list[int]:
        """The rows from the first operation to this one, construction left out."""
        out = []
        while row:
            out.append(row)
            row = self.parents[row]
        return out[::-1]


class _Tree:
    def __init__(self, num_blocks: int, block_size: int, branches: bool = True):
        self.play = Play(num_blocks, block_size, [None], [("new",)], branches)

    def add(self, parent: int, op: Op) -> int:
        self.play.parents.append(parent)
        self.play.ops.append(op)
        return len(self.play.ops) - 1

    def chain(self, *ops: Op) -> None:
        row = 0
        for op in ops:
            row = self.add(row, op)


@dataclass(frozen=True)
class _Names:
    """Names of one history so far: perhaps live, and released."""

    live: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()

    def fresh(self) -> list[str]:
        new = chr(ord("a") + len(self.live) + len(self.gone))
        return [new, *self.gone[:1]]

    def after(self, op: Op) -> _Names:
        if op[0] in ("allocate", "fork"):
            name = op[1] if op[0] == "allocate" else op[2]
            return _Names(self.live + (name,), tuple(n for n in self.gone if n != name))
        if op[0] == "release":
            return _Names(tuple(n for n in self.live if n != op[1]), self.gone + (op[1],))
        return self


@functools.cache
def every(num_blocks: int, block_size: int, length: int, sizes: tuple[int, ...], verbs: frozenset[str] = ALL, strangers: bool = True) -> Play:
    """Every history of up to `length` operations, shorter ones first.

    sizes are the token counts tried in `allocate`. An operation that every manager must refuse (more tokens than
    the pool has slots, a name that is not there) ends its history; unless `strangers` is False, those are tried too.
    """
    tree = _Tree(num_blocks, block_size)
    level = [(0, _Names())]
    slots = num_blocks * block_size
    for _ in range(length):
        following = []
        for row, names in level:
            for op in _next(names, sizes, verbs):
                child = tree.add(row, op)
                if not (op[0] == "allocate" and op[2] > slots):
                    following.append((child, names.after(op)))
            if strangers:
                for op in _refused(names, verbs):
                    tree.add(row, op)
        level = following
    return tree.play


def _next(names: _Names, sizes: tuple[int, ...], verbs: frozenset[str]) -> Iterator[Op]:
    for new in names.fresh():
        for n in sizes:
            yield "allocate", new, n
        if "fork" in verbs:
            for parent in names.live:
                yield "fork", parent, new
    for name in names.live:
        if "append" in verbs:
            yield "append", name
        yield "release", name


def _refused(names: _Names, verbs: frozenset[str]) -> Iterator[Op]:
    for stranger in (names.gone[:1] or (NOBODY,)):
        yield "release", stranger
        if "append" in verbs:
            yield "append", stranger
        if "fork" in verbs:
            yield "fork", stranger, names.fresh()[0]


def takes() -> Iterator[Play]:
    """`_take` called by hand: on a new pool until it is empty, after an allocation, after a release."""
    tree = _Tree(3, 2)
    tree.chain(*[("_take",)] * 4)
    tree.chain(("allocate", "a", 3), ("_take",), ("_take",))
    tree.chain(("allocate", "a", 2), ("allocate", "b", 3), ("release", "a"), ("_take",), ("_take",))
    yield tree.play


def twin() -> Play:
    """A second manager lives beside the first, before and after the first holds something."""
    tree = _Tree(3, 2)
    tree.chain(("twin",))
    tree.chain(("allocate", "b", 3), ("twin",), ("allocate", "c", 1))
    return tree.play


def long_random(rng: random.Random, length: int, num_blocks: int, block_size: int, verbs: frozenset[str] = ALL) -> Play:
    """One long history; how crowded the pool gets is drawn too."""
    tree = _Tree(num_blocks, block_size, branches=False)
    live: list[str] = []
    gone: list[str] = []
    crowd = rng.uniform(0.5, 1.6) * num_blocks * block_size
    tokens: dict[str, int] = {}
    made = row = 0
    for _ in range(length):
        verb = _draw(rng, verbs, live, sum(tokens.values()) > crowd)
        if verb in ("allocate", "fork"):
            if gone and rng.random() < 0.2:
                new = gone.pop(rng.randrange(len(gone)))
            else:
                new = ODD_NAMES[made] if made < len(ODD_NAMES) and rng.random() < 0.5 else f"s{made}"
                made += 1
            if verb == "fork":
                parent = rng.choice(live)
                op, tokens[new] = ("fork", parent, new), block_size
            else:
                n = _draw_tokens(rng, num_blocks, block_size)
                op, tokens[new] = ("allocate", new, n), min(n, num_blocks * block_size)
            live.append(new)
        else:
            name = rng.choice(live) if live and rng.random() < 0.97 else rng.choice(gone or [NOBODY])
            op = (verb, name)
            if verb == "release" and name in live:
                live.remove(name)
                gone.append(name)
                tokens.pop(name)
        row = tree.add(row, op)
    return tree.play


def _draw(rng: random.Random, verbs: frozenset[str], live: list[str], crowded: bool) -> str:
    if not live:
        return "allocate"
    odds = {"allocate": 1 if crowded else 4, "fork": 2, "append": 8, "release": 4 if crowded else 1}
    choices = [v for v in odds if v in verbs]
    return rng.choices(choices, [odds[v] for v in choices])[0]


def _draw_tokens(rng: random.Random, num_blocks: int, block_size: int) -> int:
    """Around block boundaries most of the time, sometimes nothing, sometimes more than fits."""
    roll = rng.random()
    if roll < 0.05:
        return 0
    if roll < 0.1:
        return num_blocks * block_size + rng.randint(0, 2)
    most = max(1, num_blocks // 3)
    return max(0, rng.randint(0, most) * block_size + rng.choice((-1, 0, 1, rng.randrange(block_size))))


def _chain(num_blocks: int, block_size: int, ops: list[Op], verbs: frozenset[str]) -> Play:
    tree = _Tree(num_blocks, block_size, branches=False)
    tree.chain(*(op for op in ops if op[0] in verbs))
    return tree.play


def fan(num_blocks: int, block_size: int, tokens: int, children: int, verbs: frozenset[str]) -> Play:
    """One long sequence with many children, all of which write; then half of them go and the others write on."""
    names = ["a", *(f"c{n}" for n in range(children))]
    ops: list[Op] = [("allocate", "a", tokens), *(("fork", "a", name) for name in names[1:])]
    ops += [("append", name) for name in names[::-1] * 2]
    ops += [("release", name) for name in names[::2]]
    ops += [("append", name) for name in names[1::2]]
    return _chain(num_blocks, block_size, [*ops, ("allocate", "z", tokens), ("release", "z")], verbs)


def every_offset(block_size: int, verbs: frozenset[str]) -> Play:
    """A fork and writes by both sides, at each place in a block."""
    ops: list[Op] = []
    for offset in range(block_size):
        ops += [("allocate", "a", block_size + offset), ("fork", "a", "b"), ("append", "b"), ("append", "a"), ("append", "a"), ("release", "a"), ("release", "b")]
    return _chain(5, block_size, ops, verbs)


def long_run(verbs: frozenset[str]) -> Play:
    """One sequence that grows token by token, with a child forked off now and then: what drifts shows in the end."""
    ops: list[Op] = [("allocate", "a", 1)]
    for n in range(120):
        ops.append(("append", "a"))
        if n % 10 == 9:
            ops += [("fork", "a", "b"), ("append", "b"), ("append", "b"), ("release", "b")]
    return _chain(40, 4, ops, verbs)


@functools.lru_cache(maxsize=8)
def manager_plays(verbs: frozenset[str], thorough: bool, seed: str) -> list[Play]:
    """All the plays of one check, the shortest histories first. The thorough check's random part follows the seed."""
    rng = random.Random(f"{sorted(verbs)} {seed}" if thorough else "the check that everyone sees")
    plays = [twin(), *takes()]
    if thorough:
        plays.append(every(3, 2, 3, (0, 1, 2, 3, 5, 7), verbs))
        plays.append(every(3, 2, 4, (2, 3, 5), verbs))
        plays.append(every(4, 1, 3, (0, 1, 2, 4, 5), verbs, strangers=False))
        plays += [fan(100, 16, 325, 6, verbs), fan(300, 4, 1_101, 3, verbs), fan(20, 33, 40, 9, verbs)]
        plays += [every_offset(16, verbs), every_offset(33, verbs), long_run(verbs)]
    else:
        plays.append(every(3, 2, 3, (0, 1, 2, 3, 5, 7), verbs))
        plays.append(every(3, 2, 4, (2, 3), verbs, strangers=False))
    shapes = [(1, 1), (1, 4), (2, 3), (5, 1), (7, 16), (10, 16), (16, 5), (64, 16)]
    for num_blocks, block_size in shapes:
        plays.append(long_random(rng, 40 if thorough else 20, num_blocks, block_size, verbs))
    plays.append(long_random(rng, 6 if thorough else 4, 4096, 16, verbs))
    if thorough:
        for _ in range(6):
            plays.append(long_random(rng, 100, rng.randint(1, 40), rng.choice((1, 2, 3, 4, 7, 8, 16, 17, 32)), verbs))
    return plays
