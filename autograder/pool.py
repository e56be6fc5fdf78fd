"""What a picture of a block pool shows, worked out from a read state: plain data, nothing is drawn here."""

import math
from typing import NamedTuple

LARGEST_DRAWN = 1024    # squares; the rest of a larger pool is counted in words
LARGEST_GUESSED = 4096  # when the manager does not say how large its pool is


class Block(NamedTuple):
    """One physical block as it is drawn; `kind` is "free", "owned", "shared", "lost" or "torn"."""

    number: int
    kind: str
    owners: tuple     # sequence names, in the order of their tables
    count: int        # the reference count the manager holds
    filled: int       # slots that hold a token, 0 … block size


class Pool(NamedTuple):
    """Everything a picture of a manager needs."""

    blocks: tuple
    tables: dict      # name → (blocks, length)
    strays: tuple     # numbers that the manager names and that no block of the pool has
    block_size: int | None
    problem: str | None

    def of_kind(self, *kinds):
        """How many blocks are of these kinds."""
        return sum(block.kind in kinds for block in self.blocks)


def pool_of(state, num_blocks=None, block_size=None):
    """Lay a read state out as blocks; the pool is as large as the manager says, or as the highest number it names."""
    if state.problem:
        return Pool((), {}, (), None, state.problem)
    pointed = _pointers(state.seqs)
    named = sorted({*state.free, *state.ref, *pointed})
    total = _whole(num_blocks) or max((number + 1 for number in named if number < LARGEST_GUESSED), default=0)
    size = _whole(block_size) or _inferred_size(state.seqs)
    free = set(state.free)
    blocks = tuple(_block(number, state, free, pointed, size) for number in range(total))
    strays = tuple(number for number in named if not 0 <= number < total)
    return Pool(blocks, dict(state.seqs), strays, size, state.problem)


def _whole(value):
    """A positive whole number of at most 65,536, else None."""
    try:
        number = int(value)
    except Exception:  # the learner's attribute may be anything
        return None
    return number if 0 < number <= 1 << 16 else None


def _inferred_size(seqs):
    """The block size that all tables agree on, if only one does; else None."""
    least, most = 1, math.inf
    for blocks, length in seqs.values():
        if not blocks or length <= 0:
            continue
        least = max(least, math.ceil(length / len(blocks)))
        if len(blocks) > 1:
            most = min(most, math.ceil(length / (len(blocks) - 1)) - 1)
    return least if least == most else None


def _pointers(seqs):
    """Physical block → [(name, logical index)] over all tables."""
    pointed = {}
    for name, (blocks, _) in seqs.items():
        for index, number in enumerate(blocks):
            pointed.setdefault(number, []).append((name, index))
    return pointed


def _block(number, state, free, pointed, size):
    entries = pointed.get(number, [])
    count = state.ref.get(number, 0)
    filled = [_filled(state.seqs[name][1], index, size) for name, index in entries] if size else []
    return Block(number, _kind(number in free, count, len(entries)), tuple(name for name, _ in entries), count, max(filled, default=0))


def _kind(free, count, entries):
    """A block whose list, count and tables contradict each other is "torn"; one that nobody knows of is "lost"."""
    if not free and not count and not entries:
        return "lost"
    if count != entries or free == bool(entries):
        return "torn"
    return "free" if free else "owned" if entries == 1 else "shared"


def _filled(length, index, size):
    return max(0, min(size, length - index * size))


def summary(pool):
    """One line under the picture: how many blocks are in use, shared and free."""
    shared = pool.of_kind("shared")
    words = [f"{pool.of_kind('owned', 'shared', 'torn')} of {len(pool.blocks)} blocks in use"]
    words += [f"{shared} of them shared"] if shared else []
    return ", ".join(words + [f"{pool.of_kind('free')} free"])


def oddities(pool, most=3):
    """Sentences about blocks whose records contradict each other, and the reader's problem if there was one."""
    lines = [f"{pool.problem}."] if pool.problem else []
    lines += [f"The pool has no block #{number}." for number in pool.strays[:most]]
    odd = [block for block in pool.blocks if block.kind in ("lost", "torn")]
    lines += [_oddity(block) for block in odd[:most]]
    return lines + ([f"… and {len(odd) - most} more such blocks."] if len(odd) > most else [])


def _oddity(block):
    if block.kind == "lost":
        return f"#{block.number} is neither free nor in any table."
    entries = f"{len(block.owners)} table {'entry points' if len(block.owners) == 1 else 'entries point'} at it"
    return f"#{block.number}: count {block.count}, {entries}." if block.count != len(block.owners) else f"#{block.number} is in the free list while {entries}."
