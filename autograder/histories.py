"""Which histories a block manager is put through: every short one in order of length; long ones are in `plays`.

A history never depends on what the manager does, so the same list can be made again elsewhere from the same seed.
What the contract leaves undefined is never in one: a name is used for a new sequence only if no sequence of a right
manager has it.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass

# ("allocate", name, n_tokens) ("fork", parent, child) ("append", name) ("release", name) ("_take",) ("twin",)
# ("burst", (op, op, …)): many calls that must all succeed; what the manager holds is looked at after the last.
Op = tuple

NOBODY = "nobody"
LESSON_01 = frozenset({"allocate", "release"})
ALL = frozenset({"allocate", "fork", "append", "release"})


@dataclass(frozen=True)
class Play:
    """A tree of operations on pools of one shape. Row i is operation ops[i] applied after row parents[i].

    Row 0 is the construction of the manager: parents[0] is None and ops[0] is ("new",). A play without branches may
    have a second manager, of the shape `second`; it is made in a later row without a parent, and the rows of the two
    take turns.
    """

    num_blocks: int
    block_size: int
    parents: list[int | None]
    ops: list[Op]
    branches: bool = True
    second: tuple[int, int] | None = None

    @functools.cached_property
    def roots(self) -> list[int]:
        """For each row the one in which its manager was made."""
        out: list[int] = []
        for row, parent in enumerate(self.parents):
            out.append(row if parent is None else out[parent])
        return out

    def shape(self, row: int) -> tuple[int, int]:
        """Blocks and block size of the row's manager."""
        return self.second if self.second and self.roots[row] else (self.num_blocks, self.block_size)

    @functools.cached_property
    def before(self) -> list[list[Op]]:
        """For each row the operations that lead to the state in which its own is called."""
        out: list[list[Op]] = []
        for parent in self.parents:
            out.append([*out[parent], self.ops[parent]] if parent else [])
        return out

    def path(self, row: int) -> list[int]:
        """The rows from the first operation to this one, construction left out; where there are two managers, of both."""
        if self.second:
            return list(range(1, row + 1))
        out = []
        while row:
            out.append(row)
            row = self.parents[row]
        return out[::-1]

    def calls(self, row: int) -> int:
        """How many calls lead there, its own included."""
        return 1 + sum(len(self.ops[r][1]) if self.ops[r][0] == "burst" else 1 for r in self.path(row))

    def singles(self, row: int) -> list[Op]:
        """Those calls without the construction, one by one."""
        return [op for r in self.path(row) for op in (self.ops[r][1] if self.ops[r][0] == "burst" else (self.ops[r],))]


class Tree:
    """A play that is being written."""

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
def every(num_blocks: int, block_size: int, length: int, sizes: tuple[int, ...], verbs: frozenset[str] = ALL, strangers: bool = True, last: tuple[int, ...] | None = None) -> Play:
    """Every history of up to `length` operations, shorter ones first.

    sizes are the token counts tried in `allocate`. An operation that every manager must refuse (more tokens than
    the pool has slots, a name that is not there) ends its history; unless `strangers` is False, those are tried too.
    last: the histories of one operation more, in which only these token counts occur and every call could succeed.
    """
    tree = Tree(num_blocks, block_size)
    level = [(0, _Names())]
    slots = num_blocks * block_size
    few = {0}  # rows in which no other token counts than `last` occur
    for _ in range(length):
        following = []
        for row, names in level:
            for op in _next(names, sizes, verbs):
                child = tree.add(row, op)
                if row in few and (op[0] != "allocate" or op[2] in (last or ())):
                    few.add(child)
                if not (op[0] == "allocate" and op[2] > slots):
                    following.append((child, names.after(op)))
            if strangers:
                for op in _refused(names, verbs):
                    tree.add(row, op)
        level = following
    if last:
        for row, names in level:
            if row in few:
                for op in _next(names, last, verbs):
                    tree.add(row, op)
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
