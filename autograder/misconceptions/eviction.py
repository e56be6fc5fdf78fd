"""Mistakes in `eviction_order`: which blocks are in it, and by what they are ranked."""

from __future__ import annotations

import itertools
from collections.abc import Callable

from autograder.misconceptions.base import Misconception, recorder
from autograder.misconceptions.functions import L3
from autograder.promises.eviction import given
from autograder.promises.functions import Case

EVICT = "When memory runs out: what to give up first"

ALL: dict[str, Misconception] = {}


def _other_order(explains: Callable[[Case], bool], held: Case) -> bool:
    """Whether the mistake gives another order here than the right one that was given."""
    return not explains(held)


evict = recorder(ALL, f"{L3}/eviction_order", spared=_other_order)


def _index(case: Case) -> dict[int, int]:
    """Physical block → its logical index."""
    return {block: i for table, _ in case.args[0].seqs.values() for i, block in enumerate(table)}


def _ascending(case: Case, rank: Callable[[int], tuple]) -> bool:
    """Whether the order has each block in use once, and this rank never falls in it."""
    state, order = given(case)
    return order is not None and sorted(order) == sorted(state.ref) and all(rank(x) <= rank(y) for x, y in itertools.pairwise(order))


@evict(
    "free-blocks-evicted",
    "Free blocks are given up as well",
    "A free block has been given up already. Only blocks in use are worth an order; `ref` and the tables name them.",
    EVICT,
)
def free_blocks_evicted(case: Case) -> bool:
    return sorted(given(case)[1] or ()) == list(range(case.args[1]))


@evict(
    "shared-block-twice",
    "A shared block is listed once for each table",
    "A shared block stands in several tables and is still one block: it can be given up once.",
    EVICT,
)
def shared_block_twice(case: Case) -> bool:
    state, order = given(case)
    return sorted(order or ()) == sorted(block for table, _ in state.seqs.values() for block in table)


@evict(
    "shared-blocks-kept",
    "Shared blocks are left out",
    "Shared blocks go last, but they do go if nothing else is left. The order names every block in use.",
    EVICT,
)
def shared_blocks_kept(case: Case) -> bool:
    state, order = given(case)
    return order is not None and sorted(order) == sorted(block for block, count in state.ref.items() if count == 1)


@evict(
    "sequence-by-sequence",
    "One sequence after the other",
    "The order runs over the whole pool: every unique tail goes before any shared prefix, whoever owns it. Going through the sequences one by one gives up a shared beginning while other tails stay.",
    EVICT,
)
def sequence_by_sequence(case: Case) -> bool:
    state, order = given(case)
    return order == list(dict.fromkeys(block for table, _ in state.seqs.values() for block in reversed(table)))


@evict(
    "ties-by-higher-number",
    "The last tie goes to the higher block number",
    "Count and index are right. Among blocks that are equal in both, the lower number goes first.",
    EVICT,
)
def ties_by_higher_number(case: Case) -> bool:
    ref, index = case.args[0].ref, _index(case)
    return _ascending(case, lambda block: (ref[block], -index[block], -block))


@evict(
    "number-for-index",
    "The block number is taken for the logical index",
    "The number says where a block lies in memory, not where it stands in the text. They agree only in a fresh pool; the index is the place in the block table.",
    EVICT,
)
def number_for_index(case: Case) -> bool:
    ref = case.args[0].ref
    return _ascending(case, lambda block: (ref[block], -block))


@evict(
    "heads-before-tails",
    "Heads go before tails",
    "Without its head a sequence cannot use what comes after it, so all of it is lost at once. Give up tails first: what is left is a usable beginning.",
    EVICT,
)
def heads_before_tails(case: Case) -> bool:
    ref, index = case.args[0].ref, _index(case)
    return _ascending(case, lambda block: (ref[block], index[block], block))


@evict(
    "most-shared-first",
    "The most shared blocks go first",
    "A block with many owners hurts all of them when it goes. Unique blocks hurt one sequence each, so they go before shared ones.",
    EVICT,
)
def most_shared_first(case: Case) -> bool:
    ref, index = case.args[0].ref, _index(case)
    return _ascending(case, lambda block: (-ref[block], -index[block], block))


@evict(
    "from-the-end-of-the-table",
    "The distance from the end instead of the index",
    "How far a block is from the end of a table differs between its tables and says little: a short sequence's only block is both tail and head. The rank is the place counted from the front.",
    EVICT,
)
def from_the_end_of_the_table(case: Case) -> bool:
    ref = case.args[0].ref
    back = {block: len(table) - i for table, _ in case.args[0].seqs.values() for i, block in enumerate(table)}
    return _ascending(case, lambda block: (ref[block], back[block], block))


@evict(
    "count-only",
    "Only the count is looked at",
    "Among blocks with the same count it is not all the same which goes first: a tail leaves a usable beginning, a head leaves nothing. Look at the logical index next.",
    EVICT,
)
def count_only(case: Case) -> bool:
    ref = case.args[0].ref
    place = {block: i for i, block in enumerate(_index(case))}
    return _ascending(case, lambda block: (ref[block], place[block])) or _ascending(case, lambda block: (ref[block], block))
