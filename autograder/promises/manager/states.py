"""What is so after every operation, whatever it was."""

from __future__ import annotations

import itertools
from collections import Counter

from autograder.promises.base import Broken
from autograder.promises.manager.registry import EVERYTHING, promise, sequence, words
from autograder.promises.manager.step import Step
from autograder.record import show


@promise(
    "bystanders",
    "An operation on one sequence changes no other sequence's block table or length.",
    EVERYTHING,
    "Two names must never hold the same list or dict object: give the child of a fork a list of its own.",
)
def bystanders(step: Step):
    if step.before is None or step.verb in ("twin",):
        return None
    old, new = step.before.seqs, step.after.seqs
    if step.verb == "burst":
        touched = step.burst.touched
        strange = None if step.outcome.error else next((name for name in {**old, **new} if name not in touched and old.get(name) != new.get(name)), None)
        return strange is None or Broken(f"{show(strange)} stays: {words(sequence(step.before, strange))}", f"{show(strange)}: {words(sequence(step.after, strange))}")
    for name in {**old, **new}:
        if name != step.name and old.get(name) != new.get(name):
            before, after = sequence(step.before, name), sequence(step.after, name)
            alone = all(step.before.ref.get(block, 0) <= 1 for blocks, _ in step.before.seqs.values() for block in blocks) and step.verb != "fork"
            return Broken(f"{show(name)} stays: {words(before)}", f"{show(name)}: {words(after)}", f"`{step.verb}` speaks of one sequence: leave the others alone." if alone else None)
    return True


@promise("size", "A block table holds exactly ⌈len / block_size⌉ blocks.", EVERYTHING, "No spare block, and none for 0 tokens.")
def size(step: Step):
    for name, (blocks, tokens) in step.after.seqs.items():
        if not (len(blocks) - 1) * step.block_size < tokens <= len(blocks) * step.block_size:
            enough = next(k for k in range(step.num_blocks + len(blocks) + 2) if k * step.block_size >= tokens or k > step.num_blocks)
            return Broken(f"{tokens} tokens of {show(name)} in {enough} block{'s' * (enough != 1)}", f"table {words(blocks)}")
    return True


@promise(
    "counts",
    "A block's reference count equals the number of block-table entries that point at it.",
    EVERYTHING,
    "Whenever an entry is added to a table the count goes up by 1; whenever one goes, down by 1. Nothing else moves a count.",
)
def counts(step: Step):
    if not step.regular:
        return None
    if len(step.after.ref) > 100:
        entries = Counter(itertools.chain.from_iterable(blocks for blocks, _ in step.after.seqs.values()))
    else:
        entries = {}
        for blocks, _ in step.after.seqs.values():
            for block in blocks:
                entries[block] = entries.get(block, 0) + 1
    if entries == step.after.ref:
        return True
    block = min(b for b in {*entries, *step.after.ref} if entries.get(b) != step.after.ref.get(b))
    return Broken(f"block {block} has count {entries.get(block, 0)}, as many as entries point at it", f"its count is {step.after.ref.get(block, 0)}")


@promise(
    "conservation",
    "Every block is either free or referenced: never both, never neither, never twice in `free`.",
    EVERYTHING,
    "A block that leaves `free` gets a count; one whose count falls to 0 goes back, once.",
)
def conservation(step: Step):
    if sorted((*step.after.free, *step.after.ref)) == list(range(step.num_blocks)):
        return True
    free = Counter(step.after.free)
    for block in sorted({*range(step.num_blocks), *free, *step.after.ref}):
        places = free[block] + (block in step.after.ref)
        if not 0 <= block < step.num_blocks:
            return Broken(f"block numbers 0 to {step.num_blocks - 1}", f"block {block} is in " + ("`free`" if free[block] else "`ref`"))
        if places != 1:
            where = "neither free nor referenced" if not places else f"{free[block]} times in `free`" if free[block] > 1 else "free and referenced"
            return Broken(f"block {block} is in one place", f"block {block} is {where}")
    return True


@promise(
    "used-counts-once",
    "`used()` is the number of physical blocks in use: a shared block counts once.",
    {"allocate"},
    "Count blocks, not table entries: every block that is not free is one block in use.",
    spoils=False,
)
def used_counts_once(step: Step):
    if not step.regular:
        return None
    if step.used.error == "changed":
        return Broken("used() only looks: it changes nothing, and its answer stays", step.used.message)
    taken = step.num_blocks - len(step.after.free)
    right = step.used.error is None and type(step.used.value) in (int, float) and step.used.value == taken
    return right or Broken(f"used() is {taken}", f"used(): {step.used}")
