"""Mistakes in handing out: a new manager, `allocate`, `_take`; and what the recognisers of all operations share.

A recogniser first limits which promises the step may have broken. All others hold, so what they say of the state after
it is known; the rest of the recogniser says how the broken part looks.
"""

from __future__ import annotations

from autograder.misconceptions.base import Misconception, recorder
from autograder.promises.manager import Step

FIRST, WHOLE = "01_contiguous_vs_paged/BlockManager", "03_copy_on_write/BlockManager"
AGAIN = "04_real_cache/BlockManager"    # the same class, pasted
BOUNDARY = "Predict first: the block boundary"
FIRST_HALF = "Code: the block manager, first half"
WHOLE_CLASS = "Code: the whole `BlockManager`"
PAGED = "Paged: blocks and a table"
GAPS = "The same again, with gaps"
UNDERSTANDING = "Check your understanding"
IDEA = "The idea"
WRONG = "What people get wrong"
LESSON_01 = "01_contiguous_vs_paged"

ALL: dict[str, Misconception] = {}
mistake = recorder(ALL, FIRST, WHOLE, AGAIN)


def only(step: Step, *promises: str) -> bool:
    """Whether the step broke none but these promises."""
    return step.broken <= {*promises}


def taken(step: Step) -> set[int]:
    """The blocks that left `free`."""
    return set(step.before.free) - set(step.after.free)


def held(step: Step) -> tuple[int, ...]:
    """The block table, before the step, of the sequence that must be known for it."""
    return step.before.seqs[step.source][0]


def without(counts: dict[int, int], blocks) -> dict[int, int]:
    """Reference counts less one for each of these table entries; zeros left out."""
    left = dict(counts)
    for block in blocks:
        left[block] = left.get(block, 0) - 1
    return {block: count for block, count in left.items() if count}


# ---- a new manager ---------------------------------------------------------------------------------------------


def _from_elsewhere(step: Step) -> bool:
    """Whether the step brought a sequence that it does not name, or a count for a free block that had none."""
    names = set(step.after.seqs) - set(step.before.seqs) - {step.name}
    blocks = set(step.after.ref) & set(step.after.free) - set(step.before.ref)
    return bool(names or blocks)


def _twin_disturbed(step: Step) -> bool:
    return step.verb == "twin" and "managers-are-separate" in step.broken


def _left_over(step: Step) -> bool:
    """Whether another manager, perhaps of an earlier check, has left something: in a new one, or in this one's twin."""
    return _twin_disturbed(step) or (step.verb == "new" and (bool(step.after.seqs) or "more than" in (step.after.problem or "")))


@mistake(
    "state-on-the-class",
    "State kept on the class",
    "A container written in the class body, or as a default argument, is not made anew for each manager: there is one, and all managers write into it. Make `free`, `ref` and `seqs` in `__init__`, on `self`.",
    FIRST_HALF,
    clear=_left_over,
    by_chance=True,
)
def state_on_the_class(step: Step) -> bool:
    if step.verb == "new":
        return bool(step.after.problem or step.after.ref or step.after.seqs)
    return _twin_disturbed(step) or (step.before is not None and _from_elsewhere(step))


def _empty_but(step: Step) -> bool:
    """A new manager that is wrong in `free` alone."""
    return step.verb == "new" and only(step, "empty-at-first", "conservation", "used-counts-once") and not step.after.ref and not step.after.seqs


@mistake(
    "blocks-from-one",
    "Blocks numbered from 1",
    "Counting from 1 is natural, and wrong here: physical blocks are numbered from 0, so a pool of n blocks ends at n − 1 and block n does not exist.",
    FIRST_HALF,
)
def blocks_from_one(step: Step) -> bool:
    return _empty_but(step) and step.after.free == tuple(range(1, step.num_blocks + 1))


@mistake(
    "one-block-kept-back",
    "One block of the pool is never used",
    "No block is kept in reserve: all of them, 0 to num_blocks − 1, are free at first. `range(n)` already stops before n, so there is nothing to take off.",
    FIRST_HALF,
)
def one_block_kept_back(step: Step) -> bool:
    return _empty_but(step) and step.after.free in (tuple(range(step.num_blocks - 1)), tuple(range(1, step.num_blocks)))


# ---- allocate: how many blocks ---------------------------------------------------------------------------------


def _got(step: Step) -> int | None:
    """How many blocks an `allocate` that came back gave, if nothing but their number is wrong."""
    if step.verb != "allocate" or step.outcome.error or not only(step, "size", "refuses"):
        return None
    seq = step.after.seqs.get(step.name)
    return len(seq[0]) if seq and seq[1] == step.op[2] else None


def _refused(step: Step) -> bool:
    """A MemoryError of an `allocate` that had room, and nothing else wrong."""
    return step.verb == "allocate" and step.broken == {"succeeds"} and step.outcome.error == "MemoryError"


@mistake(
    "rounds-to-nearest",
    "Blocks rounded to the nearest number",
    "A rest of less than half a block is not too little to count: its tokens need a slot, and the slot is in a block of its own. Round up, whatever the rest.",
    BOUNDARY,
    spared=lambda explains, held: held.done("allocate") and 0 < 2 * (held.op[2] % held.block_size) < held.block_size,
)
def rounds_to_nearest(step: Step) -> bool:
    blocks = _got(step)
    rest = None if blocks is None else step.op[2] - blocks * step.block_size
    return rest is not None and rest > 0 and (2 * rest < step.block_size or (2 * rest == step.block_size and blocks % 2 == 0))


@mistake(
    "floor-for-ceil",
    "Blocks rounded down",
    "Rounding down counts the full blocks only. The tokens of the last, partly filled one have to be stored as well, so round up.",
    BOUNDARY,
    spared=lambda explains, held: held.done("allocate") and held.op[2] % held.block_size > 0,
)
def floor_for_ceil(step: Step) -> bool:
    blocks = _got(step)
    return blocks is not None and 0 < step.op[2] - blocks * step.block_size < step.block_size


@mistake(
    "zero-tokens-take-a-block",
    "A block for 0 tokens",
    "An empty sequence needs no block yet. Nothing stored, nothing reserved: its first token takes the first block.",
    FIRST_HALF,
    clear=lambda step: _got(step) is not None,
)
def zero_tokens_take_a_block(step: Step) -> bool:
    return step.verb == "allocate" and step.op[2] == 0 and (_got(step) == 1 or (_refused(step) and not step.before.free))


@mistake(
    "floor-plus-one",
    "`n // size + 1` blocks",
    "\"Divide, round down, add one\" looks like rounding up and is not: at every exact multiple, and at 0, it gives a block that holds nothing.",
    GAPS,
    clear=lambda step: _got(step) is not None,
)
def floor_plus_one(step: Step) -> bool:
    if step.verb != "allocate" or step.op[2] % step.block_size:
        return False
    blocks = _got(step)
    if blocks is not None:
        return step.op[2] == (blocks - 1) * step.block_size
    return _refused(step) and step.op[2] == len(step.before.free) * step.block_size


@mistake(
    "length-in-slots",
    "The slots stored as the length",
    "`len` counts the tokens of the sequence, not the slots of its blocks. If it counted slots, nobody would know any more where the next token goes.",
    PAGED,
)
def length_in_slots(step: Step) -> bool:
    if not step.done("allocate") or not only(step, "allocate-length"):
        return False
    table, length = step.after.seqs[step.name]
    return length == len(table) * step.block_size


# ---- allocate: when to refuse ----------------------------------------------------------------------------------


@mistake(
    "exact-fit-refused",
    "An exact fit is refused",
    "A request that needs exactly the free blocks does fit: afterwards none is free, and that is no error. Refuse only if it needs more than there are.",
    FIRST_HALF,
    clear=lambda step: step.op[2] > 0 and not step.before.seqs,
    spared=lambda explains, held: held.done("allocate") and held.op[2] > (len(held.before.free) - 1) * held.block_size and held.op[2] > 0,
)
def exact_fit_refused(step: Step) -> bool:
    free = len(step.before.free) if step.before else 0
    return _refused(step) and (free - 1) * step.block_size < step.op[2] <= free * step.block_size


def _stretch(step: Step) -> tuple[int, ...]:
    """The lowest free blocks, as many as the tokens need."""
    free, size = step.before.free, step.block_size
    return free[: next((k for k in range(len(free)) if k * size >= step.op[2]), len(free))]


@mistake(
    "wants-neighbours",
    "Insists on neighbouring blocks",
    "Blocks of one sequence need not be neighbours: the block table says where each of them lies, and any free block will do. That is what paging is for.",
    PAGED,
    clear=_refused,
)
def wants_neighbours(step: Step) -> bool:
    if step.verb != "allocate":
        return False
    lowest = _stretch(step)
    apart = bool(lowest) and lowest[-1] - lowest[0] != len(lowest) - 1
    if _refused(step):
        return apart
    table = step.table() or ()
    return apart and step.done("allocate") and only(step, "lowest-first") and table == tuple(range(table[0], table[0] + len(lowest)))


@mistake(
    "tokens-against-blocks",
    "Tokens compared with blocks",
    "A number of tokens and a number of free blocks are different units: one block holds block_size tokens. Turn the tokens into blocks first, then compare.",
    BOUNDARY,
    clear=lambda step: step.op[2] <= (len(step.before.free) - 1) * step.block_size and not step.before.seqs,
)
def tokens_against_blocks(step: Step) -> bool:
    return _refused(step) and step.op[2] > len(step.before.free)


@mistake(
    "takes-before-it-checks",
    "Blocks are taken before the room is checked",
    "Taking blocks one by one until none is left is not the same as refusing: the blocks taken so far belong to nobody then. Check first, take afterwards; a failed call changes nothing.",
    FIRST_HALF,
)
def takes_before_it_checks(step: Step) -> bool:
    if step.verb != "allocate" or not step.no_room or step.outcome.error != "MemoryError" or not only(step, "failure-changes-nothing", "counts"):
        return False
    everything = {**step.before.ref, **dict.fromkeys(step.before.free, 1)}
    return bool(step.before.free) and not step.after.free and step.after.ref == everything and step.name not in step.after.seqs


@mistake(
    "registers-before-it-checks",
    "The name is stored before the room is checked",
    "Storing the name first looks harmless, and leaves a sequence behind when the call fails: a name that nobody was promised. Everything that can fail belongs before the first change.",
    FIRST_HALF,
)
def registers_before_it_checks(step: Step) -> bool:
    if step.verb != "allocate" or not step.no_room or step.outcome.error != "MemoryError" or not only(step, "failure-changes-nothing", "size"):
        return False
    same = (step.before.free, step.before.ref) == (step.after.free, step.after.ref)
    return same and step.after.seqs.get(step.name, ((0,), 0))[0] == ()


@mistake(
    "refusal-returned",
    "A refusal is returned, not raised",
    "Returning a value for \"no room\" is no refusal: a caller that does not look at it goes on as if it had its blocks. Raise `MemoryError`.",
    FIRST_HALF,
)
def refusal_returned(step: Step) -> bool:
    return step.verb in ("allocate", "append") and step.broken == {"refuses"} and step.outcome.error is None and step.after == step.before


@mistake(
    "empty-list-not-checked",
    "Taking from an empty list",
    "The `IndexError` of an empty list says that the code has a bug; `MemoryError` says that the pool is full, and that is what a caller can act on. Look whether a block is free before taking one.",
    FIRST_HALF,
    clear=lambda step: step.verb == "_take" or bool(held(step)),
)
def empty_list_not_checked(step: Step) -> bool:
    return step.broken == {"refuses"} and step.outcome.error == "IndexError" and step.after == step.before and (step.verb == "_take" or step.needs_block)


@mistake(
    "wrong-exception-when-full",
    "Another exception than `MemoryError` for a full pool",
    "Any exception stops the call, but not any will do: callers that make room and try again wait for `MemoryError`, and no other.",
    FIRST_HALF,
)
def wrong_exception_when_full(step: Step) -> bool:
    return step.broken == {"refuses"} and step.outcome.error not in (None, "MemoryError", "IndexError") and step.after == step.before


# ---- which block, and its first count --------------------------------------------------------------------------


@mistake(
    "take-returns-none",
    "`_take` returns None when nothing is free",
    "None is not a block. Whoever called `_take` puts it into a table as if it were one; raise `MemoryError`, so that the call ends there.",
    FIRST_HALF,
    clear=lambda step: step.verb == "_take",
)
def take_returns_none(step: Step) -> bool:
    if step.before is None or not step.no_room or step.outcome.error:
        return False
    if step.verb == "_take":
        return step.broken == {"refuses"} and step.outcome.value is None
    return "None is not" in (step.after.problem or "")


@mistake(
    "taken-block-not-counted",
    "A block that is taken has no count",
    "A taken block has one owner from the first moment: its count starts at 1. At 0 it would be free and not free at once.",
    FIRST_HALF,
)
def taken_block_not_counted(step: Step) -> bool:
    if step.verb not in ("_take", "allocate", "append") or step.outcome.error or not step.doable:
        return False
    if not only(step, "take-by-hand", "single-writer", "counts", "conservation"):
        return False
    return "conservation" in step.broken and bool(taken(step)) and step.after.ref == step.before.ref


def _handed_out(step: Step) -> tuple[int, ...] | None:
    """The blocks that a step handed out, in order, if the choice is all that is wrong with it."""
    if step.broken != {"lowest-first"}:
        return None
    return step.table() if step.verb == "allocate" else tuple(taken(step))


@mistake(
    "highest-first",
    "The highest free block is handed out",
    "`pop()` takes from the end, and the end of an ascending list is its highest number. The block to hand out is the lowest free one.",
    FIRST_HALF,
)
def highest_first(step: Step) -> bool:
    blocks = _handed_out(step)
    return bool(blocks) and blocks == step.before.free[: -len(blocks) - 1 : -1]


@mistake(
    "free-in-text-order",
    "Free blocks sorted as text",
    "As text \"10\" stands before \"2\"; as block numbers 2 comes first. Sort the numbers, not their names.",
    FIRST_HALF,
    by_chance=True,
)
def free_in_text_order(step: Step) -> bool:
    blocks = _handed_out(step)
    return bool(blocks) and blocks == tuple(sorted(step.before.free, key=str)[: len(blocks)])


def _lowest_passed_over(step: Step) -> bool:
    blocks = _handed_out(step)
    return bool(blocks) and step.before.free[0] not in blocks


def _in_a_new_pool(step: Step) -> bool:
    """A `_take` before which nothing was ever given back."""
    return step.verb == "_take" and not step.before.ref


@mistake(
    "free-not-in-order",
    "`free` is not kept in order",
    "The block that stands first in `free`, or that a set gives first, is not always the lowest: after a release it is only if `free` was put back in ascending order.",
    FIRST_HALF,
    together=lambda evidence: any(_lowest_passed_over(step) for step in evidence) and not any(_in_a_new_pool(step) for step in evidence),
    by_chance=True,
)
def free_not_in_order(step: Step) -> bool:
    blocks = _handed_out(step)
    return bool(blocks) and set(blocks) <= set(step.before.free)
