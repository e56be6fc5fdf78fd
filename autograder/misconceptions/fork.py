"""Mistakes in `fork`: what is copied, what is counted, and what the child starts with."""

from __future__ import annotations

from autograder.misconceptions.base import Misconception, recorder
from autograder.misconceptions.manager import AGAIN, IDEA, WHOLE, WHOLE_CLASS, WRONG, held, only, taken, without
from autograder.promises.manager import Step

ALL: dict[str, Misconception] = {}
mistake = recorder(ALL, WHOLE, AGAIN)


def _forked(step: Step, *promises: str) -> bool:
    """A fork that came back and broke none but these promises."""
    return step.done("fork") and only(step, *promises)


def _no_room_for_fork(step: Step, *promises: str) -> bool:
    """A MemoryError of a fork, which needs no room."""
    return step.verb == "fork" and not step.unknown and step.outcome.error == "MemoryError" and only(step, "succeeds", *promises)


def _ends_within_block(step: Step) -> bool:
    return bool(step.before.seqs[step.source][1] % step.block_size)


NEW_IN_CHILD = ("fork-shares-blocks", "fork-takes-nothing", "fork-raises-counts")


@mistake(
    "fork-copies-tail",
    "The partly filled block is copied at the fork",
    "A fork need not copy anything: as long as both only read, they can read the same block. Whether a copy is needed shows at the first write, and the last owner never needs one.",
    WRONG,
    clear=lambda step: step.outcome.error is None,
)
def fork_copies_tail(step: Step) -> bool:
    if _no_room_for_fork(step, "failure-changes-nothing", "counts"):
        return _ends_within_block(step) and not step.before.free
    if not _forked(step, *NEW_IN_CHILD) or not _ends_within_block(step):
        return False
    table, parent = step.table() or (), held(step)
    return len(table) == len(parent) and table[:-1] == parent[:-1] and taken(step) == {table[-1]}


@mistake(
    "fork-copies-everything",
    "A fork copies the whole sequence",
    "A fork copies a table, a few numbers, and no block. Parent and child read the same blocks; the counts say so. A full copy is the memory that sharing is there to save.",
    IDEA,
    clear=lambda step: step.outcome.error is None,
)
def fork_copies_everything(step: Step) -> bool:
    parent = held(step) if step.verb == "fork" and not step.unknown else ()
    if _no_room_for_fork(step):
        return len(parent) > len(step.before.free)
    table = step.table() or ()
    return bool(parent) and _forked(step, *NEW_IN_CHILD) and len(table) == len(parent) and set(table) == taken(step)


@mistake(
    "fork-wants-room",
    "A fork asks for free blocks",
    "A fork takes no block, so it works in a full pool as well. Room is needed when somebody writes, and `append` looks for it then.",
    IDEA,
)
def fork_wants_room(step: Step) -> bool:
    return _no_room_for_fork(step) and len(held(step)) > len(step.before.free) and step.after == step.before


def _counted(step: Step, blocks: tuple[int, ...]) -> bool:
    """Whether a fork, right but for the counts, raised them for just these entries."""
    return _forked(step, "fork-raises-counts", "counts") and without(step.after.ref, blocks) == step.before.ref


@mistake(
    "fork-counts-full-blocks-only",
    "The partly filled block is not counted at the fork",
    "The child's table points at the partly filled block too, so it has one reference more, like the full ones. If it is not counted, nobody sees at the next write that it is shared.",
    IDEA,
)
def fork_counts_full_blocks_only(step: Step) -> bool:
    return step.done("fork") and _ends_within_block(step) and _counted(step, held(step)[:-1])


@mistake(
    "fork-counts-all-but-last",
    "The last block is not counted at the fork",
    "Every entry of the child's table is one more reference, the last one too, full or not. It is the block that may be written next: just there the count must be right.",
    IDEA,
    clear=lambda step: len(held(step)) > 1,
)
def fork_counts_all_but_last(step: Step) -> bool:
    return step.done("fork") and _counted(step, held(step)[:-1])


@mistake(
    "fork-counts-last-only",
    "Only the last block is counted at the fork",
    "The last block is the one that may have to be copied, but the blocks before it are shared as well. Uncounted, they go back to `free` when the first of the two ends, under the other's feet.",
    IDEA,
)
def fork_counts_last_only(step: Step) -> bool:
    return step.done("fork") and len(held(step)) > 1 and _counted(step, held(step)[-1:])


@mistake(
    "fork-counts-nothing",
    "A fork raises no count",
    "Copying the table alone is not sharing: the counts have to say that two tables point at each block now. Otherwise the first writer thinks that it is alone, and the first to end frees the other's blocks.",
    IDEA,
    spared=lambda explains, held: held.done("fork") and bool(held.before.seqs[held.source][0]),
)
def fork_counts_nothing(step: Step) -> bool:
    return step.done("fork") and _counted(step, ())


@mistake(
    "count-set-to-two",
    "A fork sets the count to 2",
    "Two is the count after the first fork only. A third owner makes it 3: raise the count by 1, whatever it was.",
    IDEA,
)
def count_set_to_two(step: Step) -> bool:
    if not _forked(step, "fork-raises-counts", "counts"):
        return False
    return step.after.ref == {**step.before.ref, **dict.fromkeys(held(step), 2)}


@mistake(
    "counts-made-anew",
    "A fork forgets the counts of all other blocks",
    "The parent's blocks are not the only ones in the pool. A new `ref` made of them alone loses every other sequence's references; change the counts that change, and leave the rest.",
    WHOLE_CLASS,
)
def counts_made_anew(step: Step) -> bool:
    if not _forked(step, "fork-raises-counts", "counts", "conservation"):
        return False
    return set(step.after.ref) == set(held(step)) and without(step.after.ref, held(step)) == {b: step.before.ref[b] for b in held(step)}


@mistake(
    "child-length-from-blocks",
    "The child's length is taken from its blocks",
    "Blocks × block size is the number of slots. The child has the parent's tokens, no more: with the slots as its length its next token would skip the empty ones.",
    WHOLE_CLASS,
)
def child_length_from_blocks(step: Step) -> bool:
    return _forked(step, "fork-length") and step.after.seqs[step.name][1] == len(held(step)) * step.block_size


@mistake(
    "child-starts-at-zero",
    "The child starts with length 0",
    "A fork does not start anew: the child has read everything that the parent has, so it starts with the parent's length.",
    IDEA,
)
def child_starts_at_zero(step: Step) -> bool:
    return _forked(step, "fork-length", "size") and step.after.seqs[step.name][1] == 0


@mistake(
    "fork-moves-parent",
    "The parent is gone after the fork",
    "A fork is not a change of name: the parent goes on beside the child, with its own table. Look it up and leave it where it is.",
    IDEA,
)
def fork_moves_parent(step: Step) -> bool:
    return _forked(step, "bystanders", "counts") and step.after.seqs == {n: s for n, s in step.before.seqs.items() if n != step.source} | {step.name: step.before.seqs[step.source]}


@mistake(
    "empty-parent-fails",
    "A sequence without blocks cannot be forked",
    "A sequence of 0 tokens has an empty table, and an empty table has no first and no last entry. Its fork is one more empty sequence.",
    WHOLE_CLASS,
)
def empty_parent_fails(step: Step) -> bool:
    return step.verb == "fork" and step.broken == {"succeeds"} and step.outcome.error in ("IndexError", "ValueError", "KeyError") and held(step) == ()
