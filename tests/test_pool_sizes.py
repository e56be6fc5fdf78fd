"""At every size of pool the judge fails a manager exactly if somebody who looks at it beside the reference sees a difference."""

from __future__ import annotations

import random

import pytest

from autograder.checks import exercise_named
from autograder.drive import drive_manager, listening
from autograder.histories import every
from autograder.judge import judge_manager
from autograder.plays import long_random
from conftest import ROOT, needs_sources

pytestmark = needs_sources
MANAGER = exercise_named("03_copy_on_write/BlockManager")
SHAPES = [(blocks, 1 + blocks % 4) for blocks in range(1, 13)] + [(16, 16), (33, 5), (64, 16), (100, 1), (257, 8), (1024, 16), (4096, 16)]


def managers() -> list:
    from autograder.staff.variants import variants

    return [v for v in variants(ROOT) if v.exercise == MANAGER.id]


def plays_of(num_blocks: int, block_size: int) -> list:
    """Every history of up to three operations on a small pool, then random ones that fill this pool."""
    rng = random.Random(f"{num_blocks} {block_size}")
    slots = num_blocks * block_size
    sizes = tuple(sorted({0, block_size + 1, slots, slots + 1}))
    short = [every(num_blocks, block_size, 3, sizes)] if num_blocks <= 12 else []
    length, count = (60, 3) if num_blocks <= 100 else (25, 1)     # a row of a large pool is long
    return [*short, *(long_random(rng, length, num_blocks, block_size) for _ in range(count))]


def seen(transcript, plays) -> list:
    """What the contract lets anybody see: states, used(), exceptions, and the answers of `append` and `_take`."""
    rows = []
    for play, got in zip(plays, transcript.plays, strict=False):
        for op, (outcome, used, state) in zip(play.ops, got.rows, strict=False):
            said, using = got.outcomes[outcome], got.outcomes[used]
            answer = said.value if op[0] in ("append", "_take") else None
            rows.append((said.error, answer, using.error, using.value, got.states[state]))
    return [rows, transcript.stopped]


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: f"{shape[0]}x{shape[1]}")
def test_every_variant_is_judged_as_a_comparison_with_the_reference_would_judge_it(shape):
    from autograder.staff.variants import load_reference

    plays = plays_of(*shape)
    right = seen(drive_manager(load_reference(ROOT, MANAGER.id), plays), plays)
    wrong, missed, accused = 0, [], []
    for variant in managers():
        with listening():
            transcript = drive_manager(variant.load(), plays)
        differs = seen(transcript, plays) != right
        verdict = judge_manager(MANAGER, plays, transcript)
        condemned = bool(verdict.broken or verdict.stopped or verdict.unwritten)
        wrong += differs
        missed += [variant.name] * (differs and not condemned)
        accused += [variant.name] * (condemned and not differs)
        if variant.right:
            assert not differs, variant.name
    assert (missed, accused) == ([], [])
    assert wrong > 20, "these histories tell hardly any wrong manager from a right one"
