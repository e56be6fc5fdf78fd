"""The promises of `fork`."""

from __future__ import annotations

from collections import Counter

from autograder.promises.manager.bursts import forks_alike, lengths_right
from autograder.promises.manager.registry import DONE, compare, promise
from autograder.promises.manager.step import Step
from autograder.record import show


@promise(
    "fork-shares-blocks",
    "After `fork(parent, child)` the child's block table holds the parent's blocks, in the same order.",
    {"fork"},
    "Nothing is copied in a fork, not even the partly filled last block; the copy is made at the first write.",
    verbs=frozenset({"fork", "burst"}),
)
def fork_shares_blocks(step: Step):
    if step.verb == "burst":
        return forks_alike(step)
    if not step.done("fork"):
        return None
    return compare(step.before.seqs[step.source][0], step.table(), f"table of {show(step.name)}")


@promise("fork-length", "The child of a fork has the parent's length in tokens.", {"fork"}, "Copy `len` as well; it is not blocks × block size.", verbs=frozenset({"fork", "burst"}))
def fork_length(step: Step):
    if step.verb == "burst":
        return lengths_right(step, "fork")
    if not step.done("fork"):
        return None
    seq = step.after.seqs.get(step.name)
    return compare(step.before.seqs[step.source][1], seq and seq[1], f"tokens of {show(step.name)}")


@promise("fork-takes-nothing", "A fork takes no block: `free` stays as it is.", {"fork"}, verbs=frozenset({"fork"}), when=DONE)
def fork_takes_nothing(step: Step):
    return compare(step.before.free, step.after.free, "free") if step.done("fork") else None


@promise(
    "fork-raises-counts",
    "A fork raises the count of each of the parent's blocks by 1, and of no other.",
    {"fork"},
    "Every entry of the new table is one more reference: raise the count of every block in it, full or not.",
    verbs=frozenset({"fork"}),
    when=DONE,
)
def fork_raises_counts(step: Step):
    if not step.done("fork"):
        return None
    expected = Counter(step.before.ref)
    expected.update(step.before.seqs[step.source][0])
    return compare(dict(sorted(expected.items())), dict(sorted(step.after.ref.items())), "ref")
