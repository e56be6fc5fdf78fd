"""Mistakes in giving back: `release`, names that are not known (any more), and `used`."""

from __future__ import annotations

from autograder.misconceptions.base import Misconception, recorder
from autograder.misconceptions.manager import (
    AGAIN,
    FIRST,
    FIRST_HALF,
    UNDERSTANDING,
    WHOLE,
    WHOLE_CLASS,
    held,
    only,
    without,
)
from autograder.promises.manager import Step

ALL: dict[str, Misconception] = {}
mistake = recorder(ALL, FIRST, WHOLE, AGAIN)
mistake_03 = recorder(ALL, WHOLE, AGAIN)


# ---- release ---------------------------------------------------------------------------------------------------


def gave_up(step: Step, blocks: tuple[int, ...]) -> bool:
    """Whether a release gave back just these entries of its table, in the right way, and forgot the name."""
    if not step.done("release") or not only(step, "release-lowers-counts", "release-frees", "counts", "conservation"):
        return False
    left = without(step.before.ref, blocks)
    back = [block for block in step.before.ref if block not in left]
    return step.after.ref == left and step.after.free == tuple(sorted([*step.before.free, *back])) and step.name not in step.after.seqs


def _counts_right(step: Step) -> bool:
    """A release after which `free` alone is wrong."""
    return step.done("release") and only(step, "release-frees", "conservation")


@mistake_03(
    "release-test-inverted",
    "The test for the last owner is inverted",
    "A block goes back when its count has reached 0, not when it has not: a block that somebody still reads must stay, and one that nobody has must not be lost.",
    WHOLE_CLASS,
    clear=lambda step: any(step.before.ref[block] > 2 for block in held(step)),
)
def release_test_inverted(step: Step) -> bool:
    if not step.done("release") or not only(step, "release-lowers-counts", "release-frees", "counts", "conservation"):
        return False
    shared = [block for block in held(step) if step.before.ref[block] > 1]
    return step.after.free == tuple(sorted([*step.before.free, *shared])) and not any(block in step.after.ref for block in held(step) if block not in shared)


@mistake(
    "release-keeps-blocks",
    "Released blocks never come free",
    "A count of 0 alone gives nothing back: the block must go to `free` as well. Otherwise nobody has it and nobody can get it, and the pool runs dry.",
    FIRST_HALF,
    spared=lambda explains, step: step.done("release") and any(step.before.ref[block] == 1 for block in held(step)),
)
def release_keeps_blocks(step: Step) -> bool:
    return _counts_right(step) and step.after.free == step.before.free


@mistake_03(
    "freed-at-every-release",
    "A block goes to `free` at every release",
    "A falling count does not make a block free. While the count is above 0 another table still reads the block; it goes back once, when the last reference goes.",
    WHOLE_CLASS,
)
def freed_at_every_release(step: Step) -> bool:
    return _counts_right(step) and step.after.free == tuple(sorted([*step.before.free, *held(step)]))


@mistake_03(
    "release-frees-shared",
    "A release takes blocks away from others",
    "A sequence that ends does not own its blocks alone. It gives up its own references; a block that another table points at keeps the others and is not free.",
    WHOLE_CLASS,
)
def release_frees_shared(step: Step) -> bool:
    if not step.done("release") or not only(step, "release-lowers-counts", "release-frees", "counts"):
        return False
    return step.after.free == tuple(sorted([*step.before.free, *held(step)])) and not set(held(step)) & set(step.after.ref)


@mistake(
    "release-only-forgets",
    "A release only forgets the name",
    "Forgetting the name gives nothing back: the counts still say that a table points at the blocks, so they are in use for ever. Each entry of the table has to be given up.",
    FIRST_HALF,
    spared=lambda explains, step: step.done("release") and any(step.before.ref[block] == 1 for block in held(step)),
)
def release_only_forgets(step: Step) -> bool:
    return gave_up(step, ())


@mistake_03(
    "release-skips-shared",
    "A release leaves the counts of shared blocks",
    "A block that stays in use has one reader fewer all the same. If its count does not fall, it never reaches 0 and the block is never free again.",
    WHOLE_CLASS,
)
def release_skips_shared(step: Step) -> bool:
    return gave_up(step, tuple(block for block in held(step) if step.before.ref[block] == 1)) if step.done("release") else False


@mistake(
    "release-last-only",
    "A release gives back the last block only",
    "The last block is not all that a sequence holds: every entry of its table is a reference, and each has to be given up.",
    FIRST_HALF,
)
def release_last_only(step: Step) -> bool:
    return step.done("release") and gave_up(step, held(step)[-1:])


@mistake(
    "list-changed-while-walked",
    "The list changes while the loop walks over it",
    "A loop over a list does not notice that an element in front was removed: the rest moves up and every second one is passed over. Walk over the list, and change another.",
    FIRST_HALF,
    clear=lambda step: len(held(step)) > 2,
)
def list_changed_while_walked(step: Step) -> bool:
    return step.done("release") and gave_up(step, held(step)[::2])


@mistake(
    "release-forgets-tail",
    "A release leaves out the last block",
    "A partly filled last block is a block like the others and has been taken like them. Go through the whole table, not through the full blocks or up to the last but one.",
    FIRST_HALF,
    clear=lambda step: len(held(step)) > 2,
)
def release_forgets_tail(step: Step) -> bool:
    return step.done("release") and gave_up(step, held(step)[:-1])


@mistake(
    "freed-block-keeps-its-count",
    "A free block keeps its count",
    "A free block has no reader, so it has no count: it leaves `ref` when it goes back to `free`. A stale count would be added to the next owner's.",
    FIRST_HALF,
)
def freed_block_keeps_its_count(step: Step) -> bool:
    if not step.done("release") or not only(step, "release-lowers-counts", "counts", "conservation"):
        return False
    stale = {block: 1 for block in step.after.free if block in step.before.ref}
    return bool(stale) and step.after.ref == {**without(step.before.ref, held(step)), **stale}


@mistake(
    "empty-record-stays",
    "An empty record stays under a released name",
    "An empty sequence is still a sequence: the name stays known, so a second release does not fail and an append goes on. Remove the name.",
    FIRST_HALF,
    clear=lambda step: bool(held(step)),
    spared=lambda explains, held: held.done("release"),
)
def empty_record_stays(step: Step) -> bool:
    return step.done("release") and only(step, "release-forgets") and step.after.seqs.get(step.name) == ((), 0)


@mistake(
    "name-stays-after-release",
    "The name stays after a release",
    "Giving the blocks back is only half of a release. With the name still there its table points at blocks that are free by now, and a second release gives them back a second time: the double free of the engines.",
    FIRST_HALF,
    spared=lambda explains, held: held.done("release"),
)
def name_stays_after_release(step: Step) -> bool:
    return step.done("release") and only(step, "release-forgets", "counts") and step.after.seqs.get(step.name) == step.before.seqs[step.name]


# ---- unknown names ---------------------------------------------------------------------------------------------


def _unnoticed(step: Step) -> bool:
    return step.unknown and "unknown-name" in step.broken and only(step, "unknown-name", "failure-changes-nothing")


@mistake(
    "unknown-name-ignored",
    "An unknown name is passed over in silence",
    "Doing nothing looks kind and hides the caller's error: a sequence released twice, or a name misspelt. An unknown name raises `KeyError`.",
    FIRST_HALF,
)
def unknown_name_ignored(step: Step) -> bool:
    return _unnoticed(step) and step.outcome.error is None and step.after == step.before


@mistake_03(
    "unknown-name-made",
    "An unknown name becomes a new sequence",
    "Only `allocate` starts a sequence. A name that nobody allocated or forked is an error of the caller, and `KeyError` says so.",
    WHOLE_CLASS,
    clear=lambda step: step.outcome.error is None,
)
def unknown_name_made(step: Step) -> bool:
    return _unnoticed(step) and step.outcome.error in (None, "MemoryError") and len(step.after.seqs) == len(step.before.seqs) + 1


@mistake(
    "wrong-exception-for-unknown-name",
    "Another exception than `KeyError` for an unknown name",
    "The call does stop, but callers tell a missing name by `KeyError`, as everywhere in Python. A plain look-up in the dict raises it by itself.",
    FIRST_HALF,
)
def wrong_exception_for_unknown_name(step: Step) -> bool:
    return _unnoticed(step) and step.outcome.error not in (None, "KeyError") and step.after == step.before


# ---- used ------------------------------------------------------------------------------------------------------


def _used(step: Step) -> int | float | None:
    """What `used()` answered, if that is all that is wrong with the step."""
    value = step.used.value
    return value if step.broken == {"used-counts-once"} and step.used.error is None and type(value) in (int, float) else None


def _in_use(step: Step, state=None) -> int:
    """Blocks that are not free."""
    return step.num_blocks - len((state or step.after).free)


def _entries(step: Step) -> int:
    return sum(len(blocks) for blocks, _ in step.after.seqs.values())


@mistake(
    "used-not-a-method",
    "`used` is a value, not a method",
    "`used` as an attribute or a property is a number that cannot be called; and a stored number does not follow the pool. Write it as a method: `used()`.",
    FIRST_HALF,
)
def used_not_a_method(step: Step) -> bool:
    return step.broken == {"used-counts-once"} and step.used.error == "TypeError" and "not callable" in step.used.message


@mistake(
    "free-for-used",
    "Free blocks counted instead of used ones",
    "`used()` is the other part of the pool: the blocks that are not free.",
    FIRST_HALF,
)
def free_for_used(step: Step) -> bool:
    return _used(step) == len(step.after.free)


@mistake(
    "tokens-for-used",
    "Tokens counted instead of blocks",
    "A block in use counts as one however many tokens are in it. Memory is handed out in blocks, so it is counted in blocks.",
    FIRST_HALF,
)
def tokens_for_used(step: Step) -> bool:
    return _used(step) == sum(length for _, length in step.after.seqs.values())


@mistake(
    "sequences-for-used",
    "Sequences counted instead of blocks",
    "A sequence is not a block: it holds as many blocks as its tokens need, or none, and several may share one.",
    FIRST_HALF,
)
def sequences_for_used(step: Step) -> bool:
    return _used(step) == len(step.after.seqs)


@mistake_03(
    "references-for-used",
    "References added up instead of blocks",
    "The tables' lengths, or the blocks that the lengths need, count a shared block once for every owner. In memory it is there once, so it is one block in use.",
    UNDERSTANDING,
)
def references_for_used(step: Step) -> bool:
    return _used(step) == _entries(step)


@mistake_03(
    "one-off-per-shared-block",
    "One taken off for each shared block",
    "A block with three owners is counted three times in the tables' lengths, so two have to come off, not one: each owner after the first.",
    UNDERSTANDING,
)
def one_off_per_shared_block(step: Step) -> bool:
    return _used(step) == _entries(step) - sum(count > 1 for count in step.after.ref.values())


@mistake_03(
    "shared-not-used",
    "Shared blocks left out of `used()`",
    "A shared block is in use as much as any other: it takes its place in memory once, whoever reads it.",
    UNDERSTANDING,
)
def shared_not_used(step: Step) -> bool:
    return _used(step) == sum(count == 1 for count in step.after.ref.values())


def _released_and_still_used(step: Step) -> bool:
    return step.done("release") and _used(step) == _in_use(step, step.before)


@mistake(
    "used-never-falls",
    "Released blocks still counted as used",
    "A block was in use, and after its release it is not: `used()` tells how many are in use now, not how many have ever been. Entries with count 0 do not count.",
    FIRST_HALF,
    together=lambda evidence: _released_and_still_used(evidence[0]) and all(map(used_never_falls, evidence)),
    by_chance=True,
)
def used_never_falls(step: Step) -> bool:
    value = _used(step)
    return value is not None and _in_use(step) < value <= step.num_blocks and (not step.done("release") or value >= _in_use(step, step.before))


def _lowered_too_often(step: Step) -> bool:
    """Whether `used()` is too low by just the references that this step gave up to blocks that stay in use."""
    kept = sum(count - step.after.ref.get(block, 0) for block, count in step.before.ref.items() if block in step.after.ref and count > step.after.ref[block])
    return kept > 0 and _used(step) == _in_use(step) - kept


@mistake_03(
    "used-drifts",
    "A counter of its own for `used()` that drifts",
    "A separate counter that falls with every reference given up counts references, not blocks: a block is out of use only when its last reference goes. A second book-keeping has to agree with the first; the free list already knows.",
    WHOLE_CLASS,
    together=lambda evidence: _lowered_too_often(evidence[0]) and all(map(used_drifts, evidence)),
    by_chance=True,
)
def used_drifts(step: Step) -> bool:
    value = _used(step)
    return value is not None and step.verb != "new" and value < _in_use(step)
