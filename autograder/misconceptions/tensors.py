"""Mistakes of lesson 4: each recogniser makes the mistake on the recorded arguments and compares what came out."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence

from autograder.misconceptions.answers import _one_of
from autograder.misconceptions.base import Misconception, recorder
from autograder.misconceptions.functions import L4
from autograder.promises.functions import Case
from autograder.promises.tensors import (
    Attend,
    Copy,
    Grid,
    Write,
    attention,
    caches_after,
    mixed,
    near,
    numbers_of,
    softmax,
    weighted,
)

NUMBERS = "Hands-on: bytes and slots"
WRITE = "Code: write one token"
COPY = "Code: copy one block"
CONTIGUOUS = "Worked example: attention over a contiguous cache"
PAGED = "Code: attention through a block table"
IDEA = "The idea"

ALL: dict[str, Misconception] = {}
Rows = list[tuple]

# ---- numbers ---------------------------------------------------------------------------------------------------

TOKEN = 2 * 3 * 4 * 24 * 4
numbers = recorder(ALL, f"{L4}/numbers")


@numbers(
    "one-layer-for-all",
    "One layer counted instead of all three",
    "Every layer has keys and values of its own for each token: what one layer reads there, no other layer can use.",
    NUMBERS,
)
def one_layer_for_all(case: Case) -> bool:
    return _one_of(case, bytes_per_token=(TOKEN // 3,), bytes_copied=(16 * TOKEN // 3,))


@numbers(
    "half-counted",
    "Only half is counted",
    "A token leaves two vectors in each layer and head, a key and a value: the 2 at the front of the formula. And a 32-bit number has 4 bytes; 2 would be 16 bits.",
    NUMBERS,
)
def half_counted(case: Case) -> bool:
    return _one_of(case, bytes_per_token=(TOKEN // 2,))


@numbers(
    "one-head-for-all",
    "One head counted instead of all four",
    "Each of the four heads keeps 24 numbers of its own for a key, and as many for a value.",
    NUMBERS,
)
def one_head_for_all(case: Case) -> bool:
    return _one_of(case, bytes_per_token=(TOKEN // 4,))


@numbers(
    "position-for-slot",
    "The position taken for the slot",
    "The position says where a token stands in the text. Where it lies in the pool is another matter: the table says in which block, and only the place within the block is the same.",
    NUMBERS,
)
def position_for_slot(case: Case) -> bool:
    return _one_of(case, slot=(20, 21))


@numbers(
    "slots-counted-from-one",
    "Slots counted from 1",
    "Positions, blocks and places are all counted from 0: the token at position 20 is the twenty-first, and its place in the second block is 4.",
    NUMBERS,
)
def slots_counted_from_one(case: Case) -> bool:
    return _one_of(case, slot=(2 * 16 + 5,))


@numbers(
    "place-for-slot",
    "The block is forgotten",
    "The place within a block is only the second half of an address; sixteen slots lie in front of each block with a number one higher.",
    NUMBERS,
)
def place_for_slot(case: Case) -> bool:
    return _one_of(case, slot=(4,))


@numbers(
    "filled-slots-copied",
    "Only the filled slots copied",
    "The manager's copy is a whole block: one operation of one size, whatever is in it. What stands in the empty slots is copied along and never read.",
    COPY,
)
def filled_slots_copied(case: Case) -> bool:
    return _one_of(case, bytes_copied=(5 * TOKEN, TOKEN))


@numbers(
    "samples-do-not-share",
    "Every sample stores the prompt",
    "The prompt's two full blocks are in the pool once, and all four tables point at them. Only what comes behind them is multiplied by four.",
    NUMBERS,
)
def samples_do_not_share(case: Case) -> bool:
    return _one_of(case, bytes_in_use=(4 * 4 * 16 * TOKEN, 4 * 64 * TOKEN))


@numbers(
    "tokens-without-slack",
    "Tokens counted instead of blocks",
    "Memory is taken by the block. Multiply the blocks in use by the bytes of a block.",
    NUMBERS,
)
def tokens_without_slack(case: Case) -> bool:
    return _one_of(case, bytes_in_use=((40 + 4 * 24) * TOKEN, (32 + 4 * 32) * TOKEN // 16, 10 * TOKEN, 10))


# ---- write_token -----------------------------------------------------------------------------------------------

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
    return _are(case, *before)


def _are(case: Case, keys: Rows, values: Rows) -> bool:
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
    return _are(case, *rows)


@write(
    "value-into-the-keys",
    "The value is written into k_cache",
    "Two caches, two lines: the value belongs in v_cache. In k_cache it takes the place of the key that was just written.",
    WRITE,
)
def value_into_the_keys(case: Case) -> bool:
    args, rows = case.args, (_slots(case.args.k_cache), _slots(case.args.v_cache))
    rows[0][args.slot] = args.v.numbers
    return _are(case, *rows)


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
    return _are(case, *rows)


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
    return args.k.shape[0] > 1 and _are(case, *rows)


# ---- copy_block ------------------------------------------------------------------------------------------------

copying = recorder(ALL, f"{L4}/copy_block")


def _copied(case: Case, keys: Sequence[int] | None = None, values: Sequence[int] | None = None, back: bool = False) -> bool:
    """Whether the block was copied in these layers (None: in all) and nothing else changed; back: from target to source."""
    args: Copy = case.args
    layers, blocks = args.k_cache.shape[:2]
    source, target = (args.target, args.source) if back else (args.source, args.target)
    before = args.k_cache.rows(2), args.v_cache.rows(2)
    for rows, chosen in zip(before, (keys, values), strict=True):
        for layer in range(layers) if chosen is None else chosen:
            rows[layer * blocks + target] = rows[layer * blocks + source]
    return _are(case, *before)


@copying(
    "copied-into-a-new-tensor",
    "A new tensor instead of the one that was passed",
    "The cache is the tensor that the caller holds. `clone`, `index_copy` and the like give another one; assign to places in this one: `k_cache[:, target] = …`.",
    COPY,
    clear=lambda case: case.outcome.error is None,
)
def copied_into_a_new_tensor(case: Case) -> bool:
    return _copied(case, (), ())


@copying(
    "keys-copied-only",
    "Only the keys are copied",
    "A block is its keys and its values. With the keys alone the copy finds the right tokens and then takes a stranger's values.",
    COPY,
)
def keys_copied_only(case: Case) -> bool:
    return _copied(case, values=())


@copying(
    "values-copied-only",
    "Only the values are copied",
    "A block is its keys and its values. With the values alone the copy weighs them by a stranger's keys.",
    COPY,
)
def values_copied_only(case: Case) -> bool:
    return _copied(case, keys=())


@copying(
    "copied-backwards",
    "The copy goes the wrong way",
    "The source is the block that the others still read; it stays. The target is the block that was just taken, and what is in it belongs to nobody.",
    COPY,
)
def copied_backwards(case: Case) -> bool:
    return _copied(case, back=True)


@copying(
    "first-layer-only",
    "Only the first layer is copied",
    "A block number stands for one block in every layer. A layer that is left out goes on with what the last owner of the target had there.",
    COPY,
)
def first_layer_only(case: Case) -> bool:
    return case.args.k_cache.shape[0] > 1 and _copied(case, (0,), (0,))


@copying(
    "last-layer-forgotten",
    "The last layer is left out",
    "`range(n)` ends at n − 1 by itself, so `range(layers - 1)` leaves out the last layer. Every layer has this block.",
    COPY,
)
def last_layer_forgotten(case: Case) -> bool:
    layers = range(case.args.k_cache.shape[0] - 1)
    return _copied(case, layers, layers)


@copying(
    "layer-for-block",
    "A layer is copied instead of a block",
    "The first dimension is the layer. `k_cache[target]` is all blocks of one layer; `k_cache[:, target]` is one block in all layers.",
    COPY,
    clear=lambda case: case.outcome.error is None,
)
def layer_for_block(case: Case) -> bool:
    args: Copy = case.args
    layers, blocks = args.k_cache.shape[:2]
    if max(args.source, args.target) >= layers:
        return case.outcome.error == "IndexError"
    rows = args.k_cache.rows(2), args.v_cache.rows(2)
    for own in rows:
        own[args.target * blocks : (args.target + 1) * blocks] = own[args.source * blocks : (args.source + 1) * blocks]
    return _are(case, *rows)


@copying(
    "values-from-the-keys",
    "The keys are copied into v_cache",
    "Both caches have the same shape, so nothing complains. The target's values must come from the source's values.",
    COPY,
)
def values_from_the_keys(case: Case) -> bool:
    args: Copy = case.args
    layers, blocks = args.k_cache.shape[:2]
    keys, values = args.k_cache.rows(2), args.v_cache.rows(2)
    for layer in range(layers):
        keys[layer * blocks + args.target] = values[layer * blocks + args.target] = keys[layer * blocks + args.source]
    return _are(case, keys, values)


@copying(
    "blocks-exchanged",
    "The two blocks are exchanged",
    "Others still read the source, so it must stay as it is. A copy gives the target the source's numbers and gives nothing back.",
    COPY,
)
def blocks_exchanged(case: Case) -> bool:
    args: Copy = case.args
    layers, blocks = args.k_cache.shape[:2]
    rows = args.k_cache.rows(2), args.v_cache.rows(2)
    for own, layer in itertools.product(rows, range(layers)):
        one, other = layer * blocks + args.source, layer * blocks + args.target
        own[one], own[other] = own[other], own[one]
    return _are(case, *rows)


@copying(
    "source-cleared",
    "The source is cleared after the copy",
    "Copy-on-write happens because others still read the source. Moving its contents away takes their past from them.",
    COPY,
)
def source_cleared(case: Case) -> bool:
    args: Copy = case.args
    layers, blocks = args.k_cache.shape[:2]
    rows = args.k_cache.rows(2), args.v_cache.rows(2)
    for own, layer in itertools.product(rows, range(layers)):
        one, other = layer * blocks + args.source, layer * blocks + args.target
        own[other], own[one] = own[one], (0,) * len(own[one])
    return _are(case, *rows)


@copying(
    "first-place-only",
    "Only one place of the block is copied",
    "The sequence that got the copy reads all tokens in it. Copy the whole block; a further index after the block picks one place out of it.",
    COPY,
)
def first_place_only(case: Case) -> bool:
    args: Copy = case.args
    layers, blocks, size = args.k_cache.shape[:3]
    rows = args.k_cache.rows(2), args.v_cache.rows(2)
    for own, layer in itertools.product(rows, range(layers)):
        one, other = own[layer * blocks + args.source], own[layer * blocks + args.target]
        own[layer * blocks + args.target] = one[: len(one) // size] + other[len(one) // size :]
    return size > 1 and _are(case, *rows)


# ---- paged_attention -------------------------------------------------------------------------------------------

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
