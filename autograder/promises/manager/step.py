"""One operation on a block manager, with the states before and after it."""

from __future__ import annotations

import functools
from dataclasses import dataclass

from autograder.promises.manager.bursts import Burst, follow
from autograder.record import Outcome, State


@dataclass
class Step:
    """One operation on a manager: what was called, what came back, what the attributes held before and after.

    verb, name: the operation, and the sequence it is about (a fork's child). source: the name that must be known before.
    at_boundary, needs_block, no_room, doable: what the state before says about the operation.
    broken: ids of the promises that it broke, once it has been judged.
    """

    num_blocks: int
    block_size: int
    op: tuple
    outcome: Outcome
    used: Outcome
    before: State | None
    after: State
    broken: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        # Worked out at once: thousands of steps are judged, and every promise asks.
        op, seqs = self.op, self.before.seqs if self.before else {}
        self.verb = verb = op[0]
        if verb == "burst":
            self.name = self.source = None
            self.unknown = self.at_boundary = self.needs_block = self.no_room = False
            self.doable = True
            return
        self.name = op[2] if verb == "fork" else op[1] if len(op) > 1 else None
        self.source = op[1] if verb in ("fork", "append", "release") else None
        self.unknown = self.source is not None and self.source not in seqs
        known_append = verb == "append" and not self.unknown
        self.at_boundary = known_append and seqs[self.name][1] % self.block_size == 0
        self.needs_block = self.at_boundary or (known_append and self.tail_count > 1)
        self.no_room = self._no_room()
        self.doable = not self.unknown and not self.no_room

    @property
    def how(self) -> str:
        """How the operation went, as far as the state before and the exception tell."""
        if not self.doable or self.outcome.error is not None:
            return "failed"
        if self.verb != "append":
            return "done"
        return "boundary" if self.at_boundary else "copy" if self.needs_block else "in place"

    @property
    def answers(self) -> str:
        """What came back from the calls of a burst, one character for each: 1 and 0 for True and False, a dot for anything else."""
        value = self.outcome.value
        text = value.get("answers") if isinstance(value, dict) else None
        return text[: len(self.op[1])] if type(text) is str else ""

    @property
    def regular(self) -> bool:
        """Whether the rules for whole states apply: blocks taken by hand are in no table."""
        return self.verb != "_take"

    @functools.cached_property
    def burst(self) -> Burst:
        """What the calls of a burst ask of the state after them."""
        return follow(self)

    @property
    def tail_count(self) -> int:
        """How many table entries point at the last block of the sequence that is appended to."""
        last = self.before.seqs[self.name][0][-1]
        return sum(blocks.count(last) for blocks, _ in self.before.seqs.values())

    def _no_room(self) -> bool:
        """Whether the pool cannot serve the operation."""
        if self.verb == "allocate":
            return self.op[2] > len(self.before.free) * self.block_size
        return (self.needs_block or self.verb == "_take") and not self.before.free

    def done(self, verb: str) -> bool:
        """Whether this is that operation, was possible, and gave no error."""
        return self.verb == verb and self.doable and self.outcome.error is None

    def table(self, name: str | None = None) -> tuple[int, ...] | None:
        seq = self.after.seqs.get(name or self.name)
        return seq and seq[0]
