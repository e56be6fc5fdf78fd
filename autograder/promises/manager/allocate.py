"""The promises of `allocate` and `_take`."""

from __future__ import annotations

from autograder.promises.base import Broken
from autograder.promises.manager.bursts import lengths_right
from autograder.promises.manager.registry import DONE, apart, compare, promise
from autograder.promises.manager.step import Step
from autograder.record import show


@promise(
    "allocate-length",
    "`allocate(name, n)` makes a sequence of `n` tokens.",
    {"allocate"},
    "`len` counts tokens, not slots and not blocks.",
    verbs=frozenset({"allocate", "burst"}),
)
def allocate_length(step: Step):
    if step.verb == "burst":
        return lengths_right(step, "allocate")
    if not step.done("allocate"):
        return None
    seq = step.after.seqs.get(step.name)
    return compare(step.op[2], seq and seq[1], f"tokens of {show(step.name)}")


@promise(
    "lowest-first",
    "The block handed out is the lowest free one.",
    {"allocate"},
    "However `free` is kept, hand out the smallest number in it; blocks that were released must be found again in order.",
    when=DONE,
)
def lowest_first(step: Step):
    if step.done("_take"):
        return compare(step.before.free[0], step.outcome.value, "_take() returns block")
    if step.done("allocate"):
        table = step.table() or ()
        return compare(step.before.free[: len(table)], table, f"table of {show(step.name)}")
    if step.done("append") and step.needs_block:
        taken = set(step.before.free) - set(step.after.free)
        return True if len(taken) != 1 else compare(step.before.free[0], min(taken), "block handed out")
    return None


@promise(
    "take-by-hand",
    "`_take()` removes one block from `free`, sets its count to 1 and returns it; tables stay as they are.",
    {"_take"},
    "A block that was used before starts again at count 1: set the count, do not add to it.",
    verbs=frozenset({"_take"}),
    when=DONE,
)
def take_by_hand(step: Step):
    if not step.done("_take"):
        return None
    block = step.outcome.value
    if type(block) is not int or block not in step.before.free:
        return Broken("_take() returns a free block's number", f"_take() {step.outcome}")
    free = [b for b in step.before.free if b != block]
    for what, expected, actual in (
        ("free", free, list(step.after.free)),
        ("ref", {**step.before.ref, block: 1}, step.after.ref),
        ("tables", step.before.seqs, step.after.seqs),
    ):
        if expected != actual:
            return Broken(*apart(expected, actual, what))
    return True
