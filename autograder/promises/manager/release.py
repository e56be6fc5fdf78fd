"""The promises of `release`."""

from __future__ import annotations

from collections import Counter

from autograder.promises.base import Broken
from autograder.promises.manager.registry import DONE, compare, promise
from autograder.promises.manager.step import Step
from autograder.record import show


@promise("release-forgets", "`release` forgets the sequence.", {"release"}, "Remove the name, so that a second release raises `KeyError` instead of giving the blocks back twice.", verbs=frozenset({"release", "burst"}))
def release_forgets(step: Step):
    if step.verb == "burst":
        left = None if step.outcome.error else next((name for name in step.burst.gone if name in step.after.seqs), None)
        return (Broken(f"{show(left)} is gone", f"{show(left)} is still there") if left is not None else True) if step.burst.gone else None
    if not step.done("release"):
        return None
    return step.name not in step.after.seqs or Broken(f"{show(step.name)} is gone", f"{show(step.name)} is still there")


@promise("release-lowers-counts", "`release` lowers the count of each of the sequence's blocks by 1, and of no other.", {"release"}, "Go through the whole table, once.", verbs=frozenset({"release"}), when=DONE)
def release_lowers_counts(step: Step):
    if not step.done("release"):
        return None
    expected = Counter(step.before.ref)
    expected.subtract(step.before.seqs[step.name][0])
    return compare({b: c for b, c in sorted(expected.items()) if c}, dict(sorted(step.after.ref.items())), "ref")


@promise(
    "release-frees",
    "After `release` exactly the blocks that lost their last reference are back in `free`.",
    {"release"},
    "At count 0 the block goes back to `free` and leaves `ref`; while another table points at it, it must not.",
    verbs=frozenset({"release"}),
    when=DONE,
)
def release_frees(step: Step):
    if not step.done("release"):
        return None
    held = {b for n, (blocks, _) in step.before.seqs.items() if n != step.name for b in blocks}
    back = [b for b in step.before.seqs[step.name][0] if b not in held]
    return compare(tuple(sorted([*step.before.free, *back])), step.after.free, "free")
