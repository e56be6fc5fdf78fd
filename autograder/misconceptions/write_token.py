"""Mistakes in `write_token`: each recogniser makes the mistake on the recorded arguments and compares what came out."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from autograder.misconceptions.base import Misconception, recorder
from autograder.misconceptions.functions import L4
from autograder.promises.functions import Case
from autograder.promises.tensors import (
    Grid,
    Write,
    caches_after,
)

WRITE = "Code: write one token"
IDEA = "The idea"

ALL: dict[str, Misconception] = {}
Rows = list[tuple]
write = recorder(ALL, f"{L4}/write_token")


def _slots(grid: Grid) -> Rows:
    return grid.rows(2)


def _put(case: Case, slots: Callable[[Write], Sequence[int]], keys: bool = True, values: bool = True) -> bool:
    """Whether k and v were written to these slots and to no other; a slot that is not there raises IndexError."""
    args: Write = case.args
    where, before = slots(args), (_slots(args.k_cache), _slots(args.v_cache))
    if any(slot >= len(before[0]) for slot in where):
        return case.outcome.error == "IndexError"
    for rows, new, done in zip(before, (args.k, args.v), (keys, values), strict=True):
        for slot in where if done else ():
            rows[slot] = new.numbers
    return caches_hold(case, *before)


def caches_hold(case: Case, keys: Rows, values: Rows) -> bool:
    """Whether the two caches hold these rows."""
    after = caches_after(case)
    return after is not None and (after[0].rows(2), after[1].rows(2)) == (keys, values)


def _own(args: Write) -> list[int]:
    return [args.slot]


@write(
    "nothing-in-place",
    "A new tensor instead of the one that was passed",
    "The cache is the tensor that the caller holds. A clone or a new tensor under the same name changes nothing there; assign to places in it: `k_cache[…] = k`.",
    WRITE,
    clear=lambda case: case.outcome.error is None,
)
def nothing_in_place(case: Case) -> bool:
    return _put(case, lambda args: [])


@write(
    "key-only",
    "Only the key is written",
    "Attention finds a token by its key and then takes its value. Without the value it takes what somebody else has left in that slot.",
    IDEA,
)
def key_only(case: Case) -> bool:
    return _put(case, _own, values=False)


@write(
    "value-only",
    "Only the value is written",
    "Attention finds a token by its key. Without a key of its own in the slot the value is weighted by somebody else's.",
    IDEA,
)
def value_only(case: Case) -> bool:
    return _put(case, _own, keys=False)


@write(
    "key-and-value-exchanged",
    "The key goes into v_cache and the value into k_cache",
    "Both have the same shape, so nothing complains. But the next query would be compared with values and would take keys home.",
    WRITE,
)
def key_and_value_exchanged(case: Case) -> bool:
    args, rows = case.args, (_slots(case.args.k_cache), _slots(case.args.v_cache))
    rows[0][args.slot], rows[1][args.slot] = args.v.numbers, args.k.numbers
    return caches_hold(case, *rows)


@write(
    "value-into-the-keys",
    "The value is written into k_cache",
    "Two caches, two lines: the value belongs in v_cache. In k_cache it takes the place of the key that was just written.",
    WRITE,
)
def value_into_the_keys(case: Case) -> bool:
    args, rows = case.args, (_slots(case.args.k_cache), _slots(case.args.v_cache))
    rows[0][args.slot] = args.v.numbers
    return caches_hold(case, *rows)


@write(
    "all-places-of-the-block",
    "All places of the block are written",
    "`k_cache[block]` is a whole block. Assigning one token to it fills every place with that token, and the tokens before it are gone.",
    WRITE,
)
def all_places_of_the_block(case: Case) -> bool:
    size = case.args.block_size
    return size > 1 and _put(case, lambda args: range(args.slot // size * size, (args.slot // size + 1) * size))


@write(
    "slot-for-block",
    "The slot number is taken for a block number",
    "Slots are counted through the whole pool, sixteen to a block or whatever the size is. `slot // block_size` is the block.",
    WRITE,
    clear=lambda case: case.outcome.error is None,
)
def slot_for_block(case: Case) -> bool:
    size = case.args.block_size
    if case.args.slot >= case.args.k_cache.shape[0]:
        return case.outcome.error == "IndexError"
    return _put(case, lambda args: range(args.slot * size, (args.slot + 1) * size))


@write(
    "block-and-place-exchanged",
    "Block and place are exchanged",
    "The first dimension is the block and the second the place in it: `k_cache[slot // block_size, slot % block_size]`. The other way round it is right only on the diagonal.",
    WRITE,
    clear=lambda case: case.outcome.error is None,
)
def block_and_place_exchanged(case: Case) -> bool:
    block, place = divmod(case.args.slot, case.args.block_size)
    if place >= case.args.k_cache.shape[0] or block >= case.args.block_size:
        return case.outcome.error == "IndexError"
    return _put(case, lambda args: [place * args.block_size + block])


@write(
    "divided-by-the-blocks",
    "The slot is divided by the number of blocks",
    "How many blocks the pool has does not matter for an address. Divide by the places in one block, `k_cache.shape[1]`.",
    WRITE,
    clear=lambda case: case.outcome.error is None,
)
def divided_by_the_blocks(case: Case) -> bool:
    blocks, size = case.args.k_cache.shape[:2]
    block, place = divmod(case.args.slot, blocks)
    if block >= blocks or place >= size:
        return case.outcome.error == "IndexError"
    return blocks != size and _put(case, lambda args: [block * size + place])


@write(
    "always-the-first-block",
    "The block is forgotten",
    "`slot % block_size` is the place within a block, in every block the same. Without the block all sequences write into block 0.",
    WRITE,
)
def always_the_first_block(case: Case) -> bool:
    return _put(case, lambda args: [args.slot % args.block_size])


@write(
    "one-slot-late",
    "One slot too far",
    "Slots are counted from 0, as blocks and places are. The slot that is given is the one to write.",
    WRITE,
    clear=lambda case: case.outcome.error is None,
)
def one_slot_late(case: Case) -> bool:
    return _put(case, lambda args: [args.slot + 1])


@write(
    "added-to-what-was-there",
    "The new numbers are added to the old ones",
    "A slot that was used before still holds its last owner's numbers. Overwrite them.",
    WRITE,
)
def added_to_what_was_there(case: Case) -> bool:
    args, rows = case.args, (_slots(case.args.k_cache), _slots(case.args.v_cache))
    for own, new in zip(rows, (args.k, args.v), strict=True):
        own[args.slot] = tuple(x + y for x, y in zip(own[args.slot], new.numbers, strict=True))
    return caches_hold(case, *rows)


@write(
    "first-head-only",
    "Only the first head is written",
    "Every head has its own part of the key and of the value. Assign the whole of k, shape (heads, head_dim), not one row of it.",
    WRITE,
)
def first_head_only(case: Case) -> bool:
    args, rows = case.args, (_slots(case.args.k_cache), _slots(case.args.v_cache))
    dim = args.k.shape[1]
    for own, new in zip(rows, (args.k, args.v), strict=True):
        own[args.slot] = new.numbers[:dim] + own[args.slot][dim:]
    return args.k.shape[0] > 1 and caches_hold(case, *rows)
