"""What a mistake may depend on: how a step looks before it is made. Where one such step broke and another held, the mistake was not made always."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from dataclasses import replace

from autograder.promises.manager import Step
from autograder.record import Outcome


def situation(step: Step) -> tuple:
    """The step's operation and all that a plain mistake in it could look at, in coarse classes."""
    state = step.before
    if state is None:
        return step.verb, step.num_blocks > 1, step.block_size > 1
    if step.verb == "append" and step.no_room:
        blocks, tokens = state.seqs[step.name]
        return step.verb, min(step.block_size, 3), min(step.tail_count, 3) if blocks else 0, tokens == 0, tokens == step.block_size, _rest(tokens, step.block_size)
    free = state.free
    pool = (min(len(free), 3), bool(free) and free[-1] - free[0] >= len(free), bool(free) and free[0] > min(state.ref, default=-1), min(max(state.ref.values(), default=0), 3))
    return step.verb, min(step.block_size, 3), step.unknown, step.no_room, min(len(state.seqs), 3), pool, _own(step)


def _rest(tokens: int, size: int) -> tuple:
    """Where the last token stands in its block."""
    rest = tokens % size
    return rest == 0, rest == 1, rest == size - 1, 2 * rest > size, 2 * rest < size


def _own(step: Step) -> tuple:
    size, state = step.block_size, step.before
    if step.verb == "allocate":
        tokens, room = step.op[2], len(state.free) * size
        return tokens == 0, tokens < size, _rest(tokens, size), tokens > room - size, tokens <= room, tokens < room + size, tokens > step.num_blocks * size, tokens > len(state.free)
    seq = state.seqs.get(step.source) if step.source is not None else None
    if seq is None:
        return ()
    blocks, tokens = seq
    if not blocks and step.verb == "append":
        return (object(),)    # nothing tells two empty sequences that were forked from two that were not
    counts = tuple(min(state.ref.get(block, 0), 3) for block in (*blocks[:1], *blocks[1:-1][:2], *blocks[-1:]))
    order = tuple(a < b for a, b in itertools.pairwise(blocks[:3]))
    above = bool(blocks and state.free) and (min(blocks) > state.free[0], max(blocks) > state.free[-1], blocks[-1] + 1 in state.free)
    numbers = [min(block, 2) for block in (*blocks[-1:], *state.free[:1])]
    return min(len(blocks), 5), counts, order, above, tuple(numbers), len(blocks) > len(state.free), _rest(tokens, size), tokens < size


def other_used(explains: Callable[[Step], bool], held: Step) -> bool:
    """Whether a mistake in `used()` gives another number here than the right one that was given; looked for among small ones."""
    asked = lambda value: explains(replace(held, used=Outcome(value), broken=frozenset({"used-counts-once"})))  # noqa: E731
    return held.used.error is None and held.num_blocks <= 64 and not asked(held.used.value) and any(map(asked, range(140)))


def contradicted(broken: Iterable[Step], held: Iterable[Step]) -> bool:
    """Whether a step that held was made in a situation in which others broke."""
    places = {situation(step) for step in broken}
    verbs = {place[0] for place in places}
    return any(step.verb in verbs and situation(step) in places for step in held)
