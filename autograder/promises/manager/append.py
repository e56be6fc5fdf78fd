"""The promises of `append`: where the token goes, when a block is copied, what is answered."""

from __future__ import annotations

from autograder.promises.base import Broken
from autograder.promises.manager.bursts import answers_right, lengths_right, writers_alone
from autograder.promises.manager.registry import DONE, compare, promise, words
from autograder.promises.manager.step import Step
from autograder.record import show


def _appended(step: Step) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """The table before and after, if a token was really appended."""
    if not step.done("append"):
        return None
    return step.before.seqs[step.name][0], step.table() or ()


@promise("append-length", "`append` makes the sequence one token longer.", {"append"}, "Count the token on every path: new block, copy, or in place.", verbs=frozenset({"append", "burst"}))
def append_length(step: Step):
    if step.verb == "burst":
        return lengths_right(step, "append")
    if _appended(step) is None:
        return None
    seq = step.after.seqs.get(step.name)
    return compare(step.before.seqs[step.name][1] + 1, seq and seq[1], f"tokens of {show(step.name)}")


@promise(
    "append-at-boundary",
    "When every slot is filled (`len % block_size == 0` before the token), `append` adds one new block at the end of the table.",
    {"append"},
    "Test the length before the token is counted: 0, block_size, 2 × block_size … are the moments a block is full.",
    verbs=frozenset({"append"}),
    when={"boundary"},
)
def append_at_boundary(step: Step):
    tables = _appended(step)
    if tables is None or not step.at_boundary:
        return None
    before, after = tables
    if len(after) == len(before) + 1 and after[:-1] == before and after[-1] in step.before.free:
        return True
    return Broken(f"table of {show(step.name)}: {words(before)} and one new block behind", f"table of {show(step.name)}: {words(after)}")


@promise(
    "append-in-place",
    "When the last block has an empty slot and count 1, `append` changes no block table.",
    {"append"},
    "The only owner writes in place: no block is taken, none is copied.",
    verbs=frozenset({"append"}),
    when={"in place"},
)
def append_in_place(step: Step):
    tables = _appended(step)
    if tables is None or step.needs_block:
        return None
    if tables[0] != tables[1]:
        return compare(tables[0], tables[1], f"table of {show(step.name)}")
    return compare(step.before.free, step.after.free, "free")


@promise(
    "append-copies-shared",
    "When the last block has an empty slot but is shared, `append` puts a new block in its place in this table.",
    {"append", "fork"},
    "A shared block must not be written: take a block, lower the old block's count by 1, put the new one where the old one stood.",
    verbs=frozenset({"append"}),
    when={"copy"},
)
def append_copies_shared(step: Step):
    tables = _appended(step)
    if tables is None or step.at_boundary or not step.needs_block:
        return None
    before, after = tables
    if len(after) == len(before) and after[-1] in step.before.free:
        return True
    return Broken(f"table of {show(step.name)}: a new block in place of {before[-1]}", f"table of {show(step.name)}: {words(after)}")


@promise(
    "one-copy-at-most",
    "`append` copies at most one block, the last: the entries before it stay.",
    {"append", "fork"},
    "Only the block that is written needs a copy; the full blocks before it stay shared.",
    verbs=frozenset({"append"}),
    when=DONE,
)
def one_copy_at_most(step: Step):
    tables = _appended(step)
    if tables is None:
        return None
    keep = len(tables[0]) - (0 if step.at_boundary else 1)
    return compare(tables[0][:keep], tables[1][:keep], f"first {keep} entries of {show(step.name)}'s table")


@promise(
    "single-writer",
    "After `append` the block that took the token has count 1.",
    {"append", "fork"},
    "A copy is a new block with one owner: its count starts at 1, whatever the old block's count was.",
    verbs=frozenset({"append", "burst"}),
)
def single_writer(step: Step):
    if step.verb == "burst":
        return writers_alone(step)
    tables = _appended(step)
    if tables is None or not tables[1]:
        return None
    return compare(1, step.after.ref.get(tables[1][-1], 0), f"count of block {tables[1][-1]}")


@promise(
    "append-lowers-old-count",
    "A copy lowers the count of the block it replaces by exactly 1, and of no other.",
    {"append", "fork"},
    "The writer gives up one reference to one block; the other owners keep theirs, so the block does not become free.",
    verbs=frozenset({"append"}),
    when={"copy"},
)
def append_lowers_old_count(step: Step):
    tables = _appended(step)
    if tables is None or step.at_boundary or not step.needs_block:
        return None
    new = set(step.after.ref) - set(step.before.ref)
    expected = {b: c - (b == tables[0][-1]) for b, c in step.before.ref.items()}
    actual = {b: c for b, c in step.after.ref.items() if b not in new}
    return compare(dict(sorted(expected.items())), dict(sorted(actual.items())), "counts of the old blocks")


@promise(
    "append-result",
    "`append` returns True if it copied a block, otherwise False.",
    {"append", "fork"},
    "A new block at a boundary is no copy. Return a truth value on every path.",
    spoils=False,
    verbs=frozenset({"append", "burst"}),
)
def append_result(step: Step):
    if step.verb == "burst":
        return answers_right(step)
    if _appended(step) is None:
        return None
    copied = step.needs_block and not step.at_boundary
    value = step.outcome.value
    right = type(value) in (int, float) and value == copied
    return right or Broken(f"returned {copied}", str(step.outcome))
