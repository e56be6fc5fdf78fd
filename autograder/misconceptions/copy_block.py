"""Mistakes in `copy_block`: each recogniser makes the mistake on the recorded arguments and compares what came out."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from autograder.misconceptions.base import Misconception, recorder
from autograder.misconceptions.functions import L4
from autograder.misconceptions.write_token import caches_hold
from autograder.promises.functions import Case
from autograder.promises.tensors import (
    Copy,
)

COPY = "Code: copy one block"

ALL: dict[str, Misconception] = {}
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
    return caches_hold(case, *before)


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
    return caches_hold(case, *rows)


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
    return caches_hold(case, keys, values)


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
    return caches_hold(case, *rows)


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
    return caches_hold(case, *rows)


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
    return size > 1 and caches_hold(case, *rows)
