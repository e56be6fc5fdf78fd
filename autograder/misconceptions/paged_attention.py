"""Mistakes in `paged_attention`: each recogniser makes the mistake on the recorded arguments and compares what came out."""

from __future__ import annotations

import math

from autograder.misconceptions.base import Misconception, recorder
from autograder.misconceptions.functions import L4
from autograder.promises.functions import Case
from autograder.promises.tensors import (
    Attend,
    attention,
    mixed,
    near,
    numbers_of,
    softmax,
    weighted,
)

CONTIGUOUS = "Worked example: attention over a contiguous cache"
PAGED = "Code: attention through a block table"
IDEA = "The idea"

ALL: dict[str, Misconception] = {}
attend = recorder(ALL, f"{L4}/paged_attention")


def _gives(case: Case, *possible: list[float]) -> bool:
    """Whether the result's numbers are one of these lists, and not the right ones."""
    found = numbers_of(case)
    if case.outcome.error is not None or found is None or _right(case):
        return False
    return any(near(found, numbers) for numbers in possible)


def _right(case: Case) -> bool:
    found = numbers_of(case)
    return case.outcome.error is None and found is not None and near(found, attention(case.args))


def _all_slots(args: Attend) -> list[int]:
    """Every slot of the blocks in the table."""
    return args.slots(length=len(args.table) * args.block_size)


@attend(
    "not-scaled",
    "The scores are not scaled",
    "Without the division by √head_dim the scores grow with the head dimension, and the softmax takes little but the largest. The model was trained with the scale.",
    CONTIGUOUS,
)
def not_scaled(case: Case) -> bool:
    return _gives(case, attention(case.args, scale=1.0))


@attend(
    "scaled-twice",
    "The scores are scaled twice",
    "`scaled_dot_product_attention` divides by √head_dim itself. Dividing the query or the scores as well makes it head_dim, and the weights too even.",
    CONTIGUOUS,
)
def scaled_twice(case: Case) -> bool:
    return _gives(case, attention(case.args, scale=1 / case.args.q.shape[1]))


@attend(
    "scaled-by-the-wrong-number",
    "The scale is that of another dimension",
    "The scale is the square root of the head dimension, the last one of q: not of heads × head dimension, nor of the number of heads or of tokens.",
    CONTIGUOUS,
)
def scaled_by_the_wrong_number(case: Case) -> bool:
    heads, dim = case.args.q.shape
    return _gives(case, *(attention(case.args, scale=1 / math.sqrt(n)) for n in (heads * dim, heads, case.args.length)))


@attend(
    "whole-blocks-read",
    "All slots of the table's blocks are read",
    "The last block is only partly filled. Its other slots hold what is left over from earlier owners, and softmax gives weight to that too: cut off at the length, or mask with −∞ before the softmax.",
    PAGED,
)
def whole_blocks_read(case: Case) -> bool:
    return _gives(case, attention(case.args, _all_slots(case.args)))


@attend(
    "masked-after-the-softmax",
    "The weights are masked after the softmax",
    "By then the slots behind the length have taken their share, and what is left adds up to less than 1. Mask the scores, before the softmax.",
    PAGED,
)
def masked_after_the_softmax(case: Case) -> bool:
    args = case.args
    out = []
    for scores, values in weighted(args, _all_slots(args), 1 / math.sqrt(args.q.shape[1])):
        out += mixed(softmax(scores)[: args.length], values[: args.length])
    return _gives(case, out)


@attend(
    "scores-masked-with-zero",
    "The scores behind the length are set to 0",
    "A score of 0 is not no score: e⁰ is 1. Only −∞ gives a weight of 0 after the softmax; or leave those slots out.",
    PAGED,
)
def scores_masked_with_zero(case: Case) -> bool:
    args = case.args
    out = []
    for scores, values in weighted(args, _all_slots(args), 1 / math.sqrt(args.q.shape[1])):
        out += mixed(softmax(scores[: args.length] + [0.0] * (len(scores) - args.length)), values)
    return _gives(case, out)


@attend(
    "one-slot-past-the-length",
    "One token too many is read",
    "`length` counts the tokens, and the last one stands at position length − 1. A slice that ends at `length` has them all.",
    PAGED,
)
def one_slot_past_the_length(case: Case) -> bool:
    slots = _all_slots(case.args)
    return len(slots) > case.args.length and _gives(case, attention(case.args, slots[: case.args.length + 1]))


@attend(
    "newest-token-left-out",
    "The newest token is left out",
    "A token attends to itself as well. Its key and value are written before the attention, and `length` counts it.",
    IDEA,
)
def newest_token_left_out(case: Case) -> bool:
    if case.args.length == 1:
        found = numbers_of(case)
        return case.outcome.error is not None or found is not None and all(not x for x in found)
    return _gives(case, attention(case.args, case.args.slots()[:-1]))


@attend(
    "table-not-followed",
    "Logical block numbers are taken for physical ones",
    "The first tokens of a sequence lie in the block that its table names first, and that is block 0 only in a fresh pool.",
    PAGED,
)
def table_not_followed(case: Case) -> bool:
    return _gives(case, attention(case.args, case.args.slots(table=tuple(range(len(case.args.table))))))


@attend(
    "table-sorted",
    "The blocks are read in ascending order",
    "The table's order is the order of the text. Sorted by number the wrong block is taken for the last, partly filled one.",
    PAGED,
)
def table_sorted(case: Case) -> bool:
    return _gives(case, attention(case.args, case.args.slots(table=tuple(sorted(case.args.table)))))


@attend(
    "last-block-only",
    "Only one block is read",
    "A token attends to all tokens before it, in all blocks of its table.",
    PAGED,
)
def last_block_only(case: Case) -> bool:
    slots, size = case.args.slots(), case.args.block_size
    start = (case.args.length - 1) // size * size
    return len(case.args.table) > 1 and _gives(case, attention(case.args, slots[:size]), attention(case.args, slots[start:]))


@attend(
    "softmax-over-the-heads",
    "The softmax runs over the heads",
    "The weights must add up to 1 over the tokens, for each head by itself. Over the heads the tokens do not compete, and with one head every weight is 1.",
    CONTIGUOUS,
)
def softmax_over_the_heads(case: Case) -> bool:
    per_head = weighted(case.args, case.args.slots(), 1 / math.sqrt(case.args.q.shape[1]))
    across = [softmax(list(column)) for column in zip(*(scores for scores, _ in per_head), strict=True)]
    return _gives(case, [x for head, (_, values) in enumerate(per_head) for x in mixed([column[head] for column in across], values)])


@attend(
    "no-softmax",
    "There is no softmax",
    "Scores may be negative and add up to anything. The softmax turns them into weights: positive, and 1 in all.",
    CONTIGUOUS,
)
def no_softmax(case: Case) -> bool:
    per_head = weighted(case.args, case.args.slots(), 1 / math.sqrt(case.args.q.shape[1]))
    return _gives(case, [x for scores, values in per_head for x in mixed(scores, values)])


@attend(
    "keys-for-values",
    "The keys are mixed instead of the values",
    "The key is what a token is found by, the value is what it hands over. The weights come from the keys and are applied to the values.",
    IDEA,
)
def keys_for_values(case: Case) -> bool:
    args = case.args
    return _gives(case, attention(Attend(args.q, args.k_cache, args.k_cache, args.table, args.length)), _with_values(args))


def _with_values(args: Attend) -> list[float]:
    return attention(Attend(args.q, args.v_cache, args.v_cache, args.table, args.length))


@attend(
    "every-token-alike",
    "All tokens get the same weight",
    "A mean of the values ignores what the query asks for. The weights come from the query's product with each key.",
    CONTIGUOUS,
)
def every_token_alike(case: Case) -> bool:
    return _gives(case, attention(case.args, scale=0.0))


@attend(
    "a-dimension-too-many",
    "The result has a dimension too many",
    "torch's own attention wants a dimension for the tokens of the query, here one. Take it off again: the model expects (heads, head_dim).",
    PAGED,
)
def a_dimension_too_many(case: Case) -> bool:
    value = case.value if isinstance(case.value, dict) else {}
    result = value.get("result")
    shape = result[0] if isinstance(result, list) and result else []
    right = list(case.args.q.shape)
    return isinstance(shape, list) and len(shape) > 2 and [n for n in shape if n != 1] == [n for n in right if n != 1]


@attend(
    "another-precision",
    "The result has another dtype than the query",
    "A model computes in one precision, and its next product refuses two kinds of numbers. More digits inside are welcome; end with `.to(q.dtype)`.",
    PAGED,
)
def another_precision(case: Case) -> bool:
    value = case.value if isinstance(case.value, dict) else {}
    result = value.get("result")
    return _right(case) and isinstance(result, list) and len(result) == 3 and result[1] != case.args.q.dtype


@attend(
    "argument-changed",
    "An argument is changed in place",
    "The cache holds everybody's past, the table belongs to the manager, and the query is still needed. An operation with an underscore at its end, `/=` and `pop` change what they are given: work on a result of your own.",
    PAGED,
)
def argument_changed(case: Case) -> bool:
    value = case.value if isinstance(case.value, dict) else {}
    return _right(case) and bool(value.get("changed"))
