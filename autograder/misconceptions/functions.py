"""Mistakes in the functions of lesson 1: each recogniser relates a wrong result to the arguments."""

from __future__ import annotations

import functools
from collections.abc import Callable

from autograder.misconceptions.base import Misconception, recorder
from autograder.promises.functions import CHANGED, Case, drawn, fills, fits, holds
from autograder.record import Outcome

L1, L2, L3, L4, L5 = "01_contiguous_vs_paged", "02_prefix_sharing", "03_copy_on_write", "04_real_cache", "05_copy_costs"
BOUNDARY = "Predict first: the block boundary"
WORKED = "Worked example: 33 tokens"
GAPS = "The same again, with gaps"
PAGED = "Paged: blocks and a table"
COUNT = "Code: count blocks, slots and holes"

ALL: dict[str, Misconception] = {}


def _value(case: Case) -> int | float | None:
    """The number that came back; None stands for anything else, and for a call that also did what it must not."""
    return case.value if case.outcome.error is None and case.outcome.message != CHANGED and type(case.value) in (int, float) else None


def would_differ(explains: Callable[[Case], bool], held: Case) -> bool:
    """Whether the mistake gives another answer here than the right one that was given.

    Looked for among the whole numbers and shares that a mistake is likely to give, and among ways to fail.
    """
    if sum(len(a) for a in held.args if hasattr(a, "__len__")) > 60:
        return False
    return not explains(held) and any(explains(Case(held.args, outcome, ANY)) for outcome in (*_likely(held.args), *ODD))


ANY = frozenset({"any"})
ODD = (Outcome(None), Outcome({"shown": "[]"}), Outcome({"shown": "[1]"}), *(Outcome(error=error) for error in ("ValueError", "IndexError", "TypeError", "ZeroDivisionError")))


@functools.lru_cache(maxsize=512)
def _likely_numbers(numbers: tuple[int, ...]) -> tuple[Outcome, ...]:
    values: set[float] = {*range(-20, 60)}
    for n in numbers:
        values.update((n, n - 1, n + 1, 100 * n))
    if len(numbers) == 2 and 0 < numbers[0] <= 64 and 0 < numbers[1] <= 16:
        tokens, size = numbers
        for below in (tokens, size, tokens + -tokens % size):
            for share in (part / below for part in range(size + 1)):
                values.update((share, 100 * share, 1 - share, *(round(share, digits) for digits in range(1, 9))))
    return tuple(map(Outcome, values))


def _likely(args: tuple) -> tuple[Outcome, ...]:
    return _likely_numbers(tuple(a for a in args if type(a) is int))


def _near(x: float | None, y: float) -> bool:
    return x is not None and abs(x - y) <= 1e-9 * max(1.0, abs(y))


def _holds(case: Case, parts: list[int], block: int, off: int = 0) -> bool:
    """Whether the answer, less off, is the number of blocks that these token counts need, each rounded up by itself."""
    return _value(case) is not None and holds(_value(case) - off, parts, block)


def _fills(case: Case, parts: list[int], block: int, off: int = 0) -> bool:
    """Whether the answer, less off, is the number of blocks that these token counts fill to the last slot."""
    return _value(case) is not None and fills(_value(case) - off, parts, block)


def _nearest(k: float | None, tokens: int, block: int) -> bool:
    """Whether k blocks come nearest to the tokens; of two that are as near, either."""
    return k is not None and k == int(k) and 2 * abs(k * block - tokens) <= block


# ---- lesson 01 -------------------------------------------------------------------------------------------------

def _whole(x: float) -> float | None:
    """The whole number that x is, but for the last digits of a division."""
    return round(x) if _near(x, round(x)) else None


blocks = recorder(ALL, f"{L1}/blocks_needed", spared=would_differ)


@blocks(
    "block-for-no-tokens",
    "A block for 0 tokens",
    "\"At least one block\" is what a contiguous reservation would do. Paging takes memory when a token needs it: nothing stored, nothing taken.",
    COUNT,
)
def block_for_no_tokens(case: Case) -> bool:
    return case.args[0] == 0 and _value(case) == 1


@blocks(
    "one-more-than-full-blocks",
    "`n // size + 1` blocks",
    "\"Divide, round down, add one\" looks like rounding up and is not: where the tokens fill their blocks exactly, and for 0 tokens, it gives a block that holds nothing.",
    GAPS,
    clear=lambda case: case.args[0] > 0,
)
def one_more_than_full_blocks(case: Case) -> bool:
    return case.args[0] % case.args[1] == 0 and _fills(case, [case.args[0]], case.args[1], 1)


@blocks(
    "blocks-to-the-nearest",
    "Blocks rounded to the nearest number",
    "A small rest is not too small to count: even one token more than the full blocks hold needs a block of its own. Round up, whatever the rest.",
    BOUNDARY,
)
def blocks_to_the_nearest(case: Case) -> bool:
    return _nearest(_value(case), *case.args)


@blocks(
    "blocks-rounded-down",
    "Blocks rounded down",
    "Rounding down counts the full blocks and forgets the partly filled one. Its tokens have to be stored as well, so round up.",
    BOUNDARY,
)
def blocks_rounded_down(case: Case) -> bool:
    return _fills(case, [case.args[0]], case.args[1])


@blocks(
    "fraction-of-a-block",
    "A fraction of a block",
    "Blocks are handed out whole: a quarter of a block still takes a block. Round the quotient up.",
    PAGED,
)
def fraction_of_a_block(case: Case) -> bool:
    value = _value(case)
    return value is not None and value != int(value) and _near(value * case.args[1], case.args[0])


@blocks(
    "arguments-swapped",
    "The block size is divided by the tokens",
    "The question is how many blocks the tokens fill, so the tokens are divided by the block size, not the other way round.",
    WORKED,
    clear=lambda case: case.args[0] > 1,
)
def arguments_swapped(case: Case) -> bool:
    tokens, size = case.args
    return tokens > 0 and _holds(case, [size], tokens)


@blocks(
    "block-size-fixed",
    "The block size is always taken as 16",
    "Sixteen is a common block size, not the only one. The size is an argument: use it.",
    COUNT,
)
def block_size_fixed(case: Case) -> bool:
    return case.args[1] != 16 and _holds(case, [case.args[0]], 16)


@blocks(
    "slots-for-blocks",
    "Slots counted instead of blocks",
    "Blocks × block size is the number of slots. The question is how many blocks there are.",
    PAGED,
)
def slots_for_blocks(case: Case) -> bool:
    return case.args[1] > 1 and _value(case) is not None and holds(_value(case) / case.args[1], [case.args[0]], case.args[1])


slack = recorder(ALL, f"{L1}/slack", spared=would_differ)


@slack(
    "filled-slots-for-slack",
    "The tokens in the last block, not its empty slots",
    "`n % size` is how many tokens the last block holds. Slack is the other part of it: the slots that stay empty.",
    WORKED,
)
def filled_slots_for_slack(case: Case) -> bool:
    return _near(_value(case), case.args[0] % case.args[1])


@slack(
    "whole-block-of-slack",
    "A whole block of slack",
    "Where the tokens fill their blocks exactly nothing is empty. A whole block of slack would be a block that need not have been taken.",
    GAPS,
)
def whole_block_of_slack(case: Case) -> bool:
    return case.args[0] % case.args[1] == 0 and _value(case) == case.args[1]


def _is_slack(s: float | None, args: tuple[int, int]) -> bool:
    """Whether s empty slots are in the last of the blocks that the tokens need."""
    return s is not None and 0 <= s < args[1] and _near((args[0] + s) % args[1], 0)


@slack(
    "slack-negative",
    "Tokens less slots",
    "There are never more tokens than slots, so that difference is never above 0. Slack counts the empty slots: slots less tokens.",
    PAGED,
)
def slack_negative(case: Case) -> bool:
    return _value(case) is not None and _value(case) < 0 and _is_slack(-_value(case), case.args)


@slack(
    "slack-one-short",
    "One slot too few",
    "Nothing stands between the last token and the first empty slot: slots and tokens are both counted from 1, so their difference is the slack, with nothing more to take off.",
    WORKED,
)
def slack_one_short(case: Case) -> bool:
    return _value(case) is not None and _value(case) >= 0 and _is_slack(_value(case) + 1, case.args)


fraction = recorder(ALL, f"{L1}/slack_fraction", spared=would_differ)


def _is_fraction(value: float | None, args: tuple[int, int], digits: int | None = None) -> bool:
    """Whether the value is the empty share of the allocated slots, rounded if digits says so."""
    empty = -args[0] % args[1]
    if value is None or not args[0]:
        return value == 0
    return _near(value * (args[0] + empty), empty) if digits is None else _near(value, round(empty / (args[0] + empty), digits))


@fraction(
    "percent-for-fraction",
    "A percentage instead of a fraction",
    "31.25 % and 0.3125 are one quantity, but a function has to say which of the two numbers it gives. Here it is the fraction, from 0 to 1.",
    WORKED,
)
def percent_for_fraction(case: Case) -> bool:
    return _value(case) is not None and _is_fraction(_value(case) / 100, case.args)


@fraction(
    "waste-over-tokens",
    "Slack divided by the tokens",
    "Divided by the tokens the number says how much is paid on top. The share that is empty has the allocated slots as its denominator: the tokens and the slack together.",
    WORKED,
)
def waste_over_tokens(case: Case) -> bool:
    return case.args[0] > 0 and _value(case) is not None and _is_slack(_whole(_value(case) * case.args[0]), case.args)


@fraction(
    "waste-over-one-block",
    "Slack divided by one block",
    "The slack lies in the last block, but the allocation is all of them. Divide by all of its slots, not by those of one block.",
    WORKED,
)
def waste_over_one_block(case: Case) -> bool:
    return _value(case) is not None and _is_slack(_whole(_value(case) * case.args[1]), case.args)


@fraction(
    "filled-share",
    "The filled share instead of the empty one",
    "Tokens divided by slots is the part that is used. The waste is what is left of the whole.",
    WORKED,
)
def filled_share(case: Case) -> bool:
    return case.args[0] > 0 and _value(case) is not None and _is_fraction(1 - _value(case), case.args)


@fraction(
    "fraction-rounded",
    "The fraction is rounded",
    "Rounding is for showing a number. In the result it loses what the next calculation needs; give the fraction as it is.",
    COUNT,
)
def fraction_rounded(case: Case) -> bool:
    value = _value(case)
    return value is not None and any(_is_fraction(value, case.args, digits) for digits in range(1, 9))


@fraction(
    "no-slots-divided",
    "0 tokens divide by 0 slots",
    "Without tokens there is no slot, and nothing can be divided by nothing. No slots, no waste: answer 0.0 before dividing.",
    COUNT,
)
def no_slots_divided(case: Case) -> bool:
    return case.args[0] == 0 and case.outcome.error == "ZeroDivisionError"


@fraction(
    "all-waste-for-nothing",
    "All is waste for 0 tokens",
    "An allocation without slots wastes none. 1.0 would say that memory was taken and is empty, and none was taken.",
    COUNT,
)
def all_waste_for_nothing(case: Case) -> bool:
    return case.args[0] == 0 and _value(case) == 1


hole = recorder(ALL, f"{L1}/largest_hole", spared=would_differ)


def _runs(case: Case) -> list[str]:
    """The pool cut at its occupied slots: a text for each run of free neighbours, empty between two that touch."""
    return drawn(*case.args).split("x")


@hole(
    "full-pool-fails",
    "A full pool is an error",
    "A pool without a free slot is full, not broken: its largest hole has length 0. `max()` of nothing raises, so say what it is then.",
    COUNT,
)
def full_pool_fails(case: Case) -> bool:
    return case.outcome.error is not None and len(case.args[0]) == case.args[1]


@hole(
    "last-hole-forgotten",
    "The hole at the end is forgotten",
    "A run does not need an occupied slot behind it: the last one ends where the pool ends. Look at it after the loop as well.",
    COUNT,
)
def last_hole_forgotten(case: Case) -> bool:
    *holes, last = _runs(case)
    return len(last) > max(map(len, holes), default=0) and _value(case) == max(map(len, holes), default=0)


@hole(
    "first-hole-only",
    "Only the first hole is looked at",
    "The first hole is not always the longest; one further on may fit where it does not. Go through the whole pool.",
    COUNT,
)
def first_hole_only(case: Case) -> bool:
    return _value(case) == next((len(run) for run in _runs(case) if run), 0)


@hole(
    "ends-joined",
    "The two ends of the pool are joined",
    "Memory is not a ring: the slot after the last one does not exist, so the hole at the end and the hole at the start are two.",
    COUNT,
)
def ends_joined(case: Case) -> bool:
    runs = _runs(case)
    joined = len(runs[0]) + len(runs[-1])
    return len(runs) > 1 and joined > max(map(len, runs)) and _value(case) == joined


@hole(
    "neighbour-counted-in",
    "Holes one slot too long",
    "An occupied slot is no part of the hole beside it. Between two of them lies one slot fewer than the difference of their numbers: 3 and 5 have only 4 between them.",
    COUNT,
)
def neighbour_counted_in(case: Case) -> bool:
    return _value(case) is not None and fits(case.args, _value(case) - 1) and not fits(case.args, _value(case))


@hole(
    "all-free-slots",
    "All free slots are counted",
    "Free slots that are not neighbours are no hole: a contiguous request needs one unbroken run. An occupied slot ends a run and the next begins at 0.",
    WORKED,
)
def all_free_slots(case: Case) -> bool:
    return _value(case) == case.args[1] - len(case.args[0])


@hole(
    "holes-counted",
    "The number of holes instead of the longest",
    "How many holes there are does not say what fits. A request fits if one hole is long enough, so the longest run counts.",
    WORKED,
)
def holes_counted(case: Case) -> bool:
    return _value(case) == sum(run != "" for run in _runs(case))
