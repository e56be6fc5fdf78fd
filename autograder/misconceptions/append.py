"""Mistakes in `append`: the block boundary, the copy-on-write with its counts, and the answer.

What parent and child share by accident after a fork shows here too, when one of them is written.
"""

from __future__ import annotations

from autograder.misconceptions.base import Misconception, recorder
from autograder.misconceptions.manager import (
    AGAIN,
    BOUNDARY,
    IDEA,
    LESSON_01,
    UNDERSTANDING,
    WHOLE,
    WHOLE_CLASS,
    WRONG,
    held,
    only,
    taken,
    without,
)
from autograder.promises.manager import Step

PREDICT = "Predict first"
WAR_STORY = "War story: four bugs in one day"

ALL: dict[str, Misconception] = {}
mistake = recorder(ALL, WHOLE, AGAIN)


# ---- one list, one record, one copy for several ---------------------------------------------------------


def _moved(step: Step) -> dict[str, tuple]:
    """The other sequences whose table or length an `append` changed: name → (before, after)."""
    old, new = step.before.seqs, step.after.seqs
    return {n: (old[n], new[n]) for n in old if n != step.name and n in new and old[n] != new[n]}


def _dragged(step: Step) -> dict[str, tuple]:
    """Those that were changed by an `append` that is right for its own sequence; empty if anything else is wrong."""
    if not step.done("append") or "bystanders" not in step.broken or not only(step, "bystanders", "size", "counts"):
        return {}
    return _moved(step) if set(step.before.seqs) == set(step.after.seqs) else {}


@mistake(
    "copy-for-everyone",
    "Every table is moved to the copy",
    "The copy is for the writer alone. The others keep the old block, which still holds what they read; if all move, all of them see the writer's token.",
    IDEA,
)
def copy_for_everyone(step: Step) -> bool:
    others = _dragged(step)
    if not others or step.at_boundary:
        return False
    old, new = held(step)[-1], step.table()[-1]
    swapped = lambda table: tuple(new if block == old else block for block in table)  # noqa: E731
    readers = {n for n, (table, _) in step.before.seqs.items() if n != step.name and old in table}
    return set(others) == readers and all(after == (swapped(table), length) for (table, length), after in others.values())


@mistake(
    "list-shared-after-fork",
    "Parent and child share one list",
    "Assigning a list does not copy it: both names then lead to one list, and what is appended for one is there for the other. The child needs a list of its own with the same numbers in it.",
    IDEA,
)
def list_shared_after_fork(step: Step) -> bool:
    others = _dragged(step)
    return bool(others) and all(table == held(step) and after == (step.table(), length) for (table, length), after in others.values())


@mistake(
    "record-shared-after-fork",
    "Parent and child share one record",
    "Assigning a dict does not copy it: table and length are then the same for both, and one token appended to one counts for two. The child needs a record of its own, with a list of its own in it.",
    IDEA,
)
def record_shared_after_fork(step: Step) -> bool:
    others = _dragged(step)
    return bool(others) and all(before == step.before.seqs[step.name] and after == step.after.seqs[step.name] for before, after in others.values())


@mistake(
    "copy-for-the-wrong-owner",
    "Another owner gets the copy",
    "The one that writes moves to the new block. If another owner is moved instead, the writer still writes into a block that it may share, and the other reads a block that nobody filled for it.",
    IDEA,
)
def copy_for_the_wrong_owner(step: Step) -> bool:
    if not _copying(step) or not only(step, "append-copies-shared", "single-writer", "bystanders", "counts") or step.table() != held(step):
        return False
    others = list(_moved(step).values())
    return len(others) == 1 and others[0][1][0] == (*held(step)[:-1], *taken(step))


# ---- the copy ------------------------------------------------------------------------------------------


def _copying(step: Step) -> bool:
    """An `append` that came back where a copy was due."""
    return step.done("append") and step.needs_block and not step.at_boundary


def _copied(step: Step, *promises: str) -> int | None:
    """The block that was taken where a copy was due, if no promises but these broke."""
    new = taken(step) if _copying(step) and only(step, *promises) else ()
    return min(new) if len(new) == 1 else None


@mistake(
    "copy-behind",
    "The copy is put behind the shared block",
    "A copy does not make the sequence a block longer. It holds the same positions as the block it was made of, so it takes that block's place in the table; behind it, the old block would still be read for them.",
    WAR_STORY,
)
def copy_behind(step: Step) -> bool:
    new = _copied(step, "append-copies-shared", "append-lowers-old-count", "size", "counts")
    return new is not None and step.table() == (*held(step), new)


@mistake(
    "copy-replaces-first",
    "The copy replaces the first block",
    "The token is written into the last block, so the last entry of the table is replaced. The first block is full, nobody writes it, and it stays where it is.",
    PREDICT,
)
def copy_replaces_first(step: Step) -> bool:
    new = _copied(step, "append-copies-shared", "one-copy-at-most", "single-writer", "counts")
    return new is not None and step.table() == (new, *held(step)[1:])


@mistake(
    "copy-at-the-front",
    "The copy is put at the front of the table",
    "A block table is in the order of the text. The copy holds the sequence's last tokens, so it stands last, where the block was of which it was made.",
    PREDICT,
)
def copy_at_the_front(step: Step) -> bool:
    new = _copied(step, "append-copies-shared", "one-copy-at-most", "single-writer", "counts")
    return new is not None and step.table() == (new, *held(step)[:-1])


@mistake(
    "copy-not-in-the-table",
    "The table still points at the old block",
    "Taking a block and lowering a count does not move anybody: a sequence reads what its table says. Unless the entry is changed, the token still goes into the block that the others read.",
    IDEA,
)
def copy_not_in_the_table(step: Step) -> bool:
    return _copied(step, "append-copies-shared", "single-writer", "counts") is not None and step.table() == held(step)


def _wrote_into_shared(step: Step) -> bool:
    """An `append` that wrote in place where a copy was due, with room for it or without."""
    if step.verb != "append" or step.unknown or step.at_boundary or not step.needs_block or step.outcome.error:
        return False
    if not only(step, "append-copies-shared", "single-writer", "append-lowers-old-count", "append-result", "refuses"):
        return False
    length = step.before.seqs[step.name][1]
    return step.after.seqs[step.name] == (held(step), length + 1) and (step.before.free, step.before.ref) == (step.after.free, step.after.ref)


@mistake(
    "full-pool-writes-into-shared",
    "Without room it writes into the shared block",
    "A full pool is no leave to write into a block that others read: their text would go wrong without an error. If no block is free for the copy, `MemoryError` is the answer.",
    UNDERSTANDING,
    spared=lambda explains, held: held.verb == "append" and held.no_room and not held.at_boundary,
)
def full_pool_writes_into_shared(step: Step) -> bool:
    return _wrote_into_shared(step) and step.no_room


@mistake(
    "copies-from-three-owners-on",
    "Two owners write into one block",
    "Two owners are enough for a block to be shared: what one writes the other reads. A write is safe in place only at count 1.",
    IDEA,
)
def copies_from_three_owners_on(step: Step) -> bool:
    return _wrote_into_shared(step) and step.tail_count == 2


@mistake(
    "copy-missed-before-boundary",
    "No copy for the last slot of a block",
    "The token that fills a block is still written into it. Whether a copy is needed is decided by where this token goes, so by the length before it is counted, not after.",
    WRONG,
)
def copy_missed_before_boundary(step: Step) -> bool:
    return _wrote_into_shared(step) and (step.before.seqs[step.name][1] + 1) % step.block_size == 0


@mistake(
    "writes-into-shared",
    "A shared block is written in place",
    "The others still read the block. They would find the writer's token in their own text, with no error raised; so a block with a count above 1 is copied before the write.",
    IDEA,
    spared=lambda explains, held: held.how == "copy",
)
def writes_into_shared(step: Step) -> bool:
    return _wrote_into_shared(step)


@mistake(
    "copies-the-whole-table",
    "A copy of every block of the table",
    "Only the block that is written needs a copy. The blocks before it are full, nobody writes them again, and they stay shared: one copy at most, however long the sequence.",
    PREDICT,
    clear=lambda step: step.outcome.error is None,
)
def copies_the_whole_table(step: Step) -> bool:
    if step.verb != "append" or step.unknown or step.at_boundary or not step.needs_block:
        return False
    shared = [i for i, block in enumerate(held(step)) if step.before.ref[block] > 1]
    if step.outcome.error:
        return step.broken == {"succeeds"} and step.outcome.error == "MemoryError" and len(step.before.free) < len(held(step))
    table = step.table() or ()
    if not only(step, "one-copy-at-most", "append-lowers-old-count") or len(table) != len(held(step)):
        return False
    changed = [i for i, block in enumerate(held(step)) if table[i] != block]
    return len(changed) > 1 and changed in (shared, list(range(len(table)))) and {table[i] for i in changed} == taken(step)


def _copied_alone(step: Step) -> bool:
    """An `append` that replaced, or wanted to replace, a last block with count 1."""
    if step.verb != "append" or step.unknown or step.needs_block:
        return False
    if step.outcome.error:
        return step.broken == {"succeeds"} and step.outcome.error == "MemoryError" and not step.before.free
    new = taken(step) if only(step, "append-in-place", "append-result", "conservation") else set()
    return len(new) == 1 and step.table() == (*held(step)[:-1], *new)


@mistake(
    "copies-if-anything-is-shared",
    "A copy because some other block is shared",
    "That the beginning is shared does not matter for a write at the end. Only the count of the block that is written decides; at count 1 it is written in place.",
    IDEA,
    clear=lambda step: step.outcome.error is None,
)
def copies_if_anything_is_shared(step: Step) -> bool:
    return _copied_alone(step) and max(step.before.ref[block] for block in held(step)) > 1


@mistake(
    "copies-though-alone",
    "A copy though nobody else reads the block",
    "A copy protects the other owners, and at count 1 there are none, even if the block was shared before. The last owner writes in place: with n owners there are n − 1 copies.",
    UNDERSTANDING,
    clear=lambda step: step.outcome.error is None,
    by_chance=True,
)
def copies_though_alone(step: Step) -> bool:
    return _copied_alone(step)


# ---- the counts of a copy ------------------------------------------------------------------------------


def _after_copy(step: Step, *promises: str) -> tuple[int, int] | None:
    """The old and the new block of a copy that is right but for these promises about counts."""
    new = _copied(step, *promises)
    return None if new is None or step.table() != (*held(step)[:-1], new) else (held(step)[-1], new)


OLD_COUNT = ("append-lowers-old-count", "counts")


@mistake(
    "old-count-not-lowered",
    "A copy does not lower the old count",
    "The writer's table no longer points at the old block, so the block has one reference fewer. If its count stays, it never reaches 0: the block is lost when the others end.",
    IDEA,
)
def old_count_not_lowered(step: Step) -> bool:
    blocks = _after_copy(step, *OLD_COUNT)
    return blocks is not None and step.after.ref == {**step.before.ref, blocks[1]: 1}


@mistake(
    "old-count-set-to-one",
    "A copy sets the old count to 1",
    "One is right only if two shared the block. With n owners, n − 1 are left: lower the count by 1, whatever it was.",
    UNDERSTANDING,
)
def old_count_set_to_one(step: Step) -> bool:
    blocks = _after_copy(step, *OLD_COUNT)
    return blocks is not None and step.after.ref == {**step.before.ref, blocks[0]: 1, blocks[1]: 1}


@mistake(
    "whole-table-lowered",
    "A copy lowers the counts of the whole table",
    "The sequence gives up one block, the one that it replaces. It still points at all the others, so their counts stay as they are.",
    PREDICT,
)
def whole_table_lowered(step: Step) -> bool:
    blocks = _after_copy(step, *OLD_COUNT, "conservation")
    return blocks is not None and len(held(step)) > 1 and step.after.ref == without({**step.before.ref, blocks[1]: 1}, held(step))


@mistake(
    "copied-block-freed",
    "The copied block is freed though others read it",
    "The writer leaves the block; the others do not. It loses one reference and goes to `free` only if that was the last, which at a copy it never is.",
    IDEA,
)
def copied_block_freed(step: Step) -> bool:
    # It was not counted as taken and returned: `taken` sees the new block alone.
    blocks = _after_copy(step, *OLD_COUNT)
    return blocks is not None and blocks[0] in step.after.free and blocks[0] not in step.after.ref


@mistake(
    "copy-inherits-count",
    "The copy inherits the old count",
    "The copy holds the same tokens, but it is a new block with one owner: its count starts at 1, whatever the old block's was.",
    IDEA,
)
def copy_inherits_count(step: Step) -> bool:
    blocks = _after_copy(step, "single-writer", "counts")
    return blocks is not None and step.after.ref[blocks[1]] == step.before.ref[blocks[0]]


@mistake(
    "new-count-lowered",
    "A copy lowers the new block's count",
    "The reference that is given up is the one to the old block. The new block has just got its first, and keeps it.",
    IDEA,
)
def new_count_lowered(step: Step) -> bool:
    blocks = _after_copy(step, *OLD_COUNT, "single-writer", "conservation")
    return blocks is not None and step.after.ref == step.before.ref


@mistake(
    "old-reference-dropped-first",
    "The old reference is given up before the new block is taken",
    "Taking can fail. If the old count has been lowered by then, a reference is lost although the table still has the entry: take first, give up afterwards.",
    UNDERSTANDING,
)
def old_reference_dropped_first(step: Step) -> bool:
    if step.verb != "append" or step.unknown or not step.no_room or step.at_boundary or step.outcome.error != "MemoryError":
        return False
    same = (step.before.free, step.before.seqs) == (step.after.free, step.after.seqs)
    return same and only(step, "failure-changes-nothing", "counts") and step.after.ref == without(step.before.ref, held(step)[-1:])


# ---- the length and the boundary -----------------------------------------------------------------------


@mistake(
    "length-before-take",
    "The token is counted before its block is there",
    "Counting first is wrong when the block cannot be had: the call fails and the length is one too high. Count the token when it has its place; a failed call changes nothing.",
    WHOLE_CLASS,
)
def length_before_take(step: Step) -> bool:
    if step.verb != "append" or step.unknown or not step.no_room or step.outcome.error != "MemoryError" or not only(step, "failure-changes-nothing", "size"):
        return False
    counted = {**step.before.seqs, step.name: (held(step), step.before.seqs[step.name][1] + 1)}
    return (step.before.free, step.before.ref, counted) == (step.after.free, step.after.ref, step.after.seqs)


@mistake(
    "token-not-counted",
    "The token is not counted on every path",
    "A token is one token more, whether it went into a new block, into a copy or in place. An early return leaves it out; then the next token overwrites it.",
    WHOLE_CLASS,
)
def token_not_counted(step: Step) -> bool:
    return step.done("append") and only(step, "append-length", "size") and step.after.seqs[step.name][1] == step.before.seqs[step.name][1]


@mistake(
    "entry-before-block",
    "The table entry is made before the block is there",
    "Making room in the table first is wrong when the block cannot be had: the call fails and the empty entry stays. Take the block first; everything that can fail comes before the first change.",
    WHOLE_CLASS,
)
def entry_before_block(step: Step) -> bool:
    return step.verb == "append" and step.no_room and step.outcome.error == "MemoryError" and "None is not" in (step.after.problem or "")


def _as_if_within(step: Step) -> bool:
    """An `append` at a boundary that went on as if the last block had an empty slot."""
    if not step.at_boundary:
        return False
    table = held(step)
    if not table:
        return step.outcome.error == "IndexError" and step.broken <= {"succeeds", "refuses"}
    if step.outcome.error or not only(step, "append-at-boundary", "append-result", "one-copy-at-most", "single-writer", "refuses", "size", "counts"):
        return False
    if step.tail_count == 1:
        return step.table() == table and step.before.ref == step.after.ref
    return step.table() == (*table[:-1], *taken(step)) and len(taken(step)) == 1


def _as_if_boundary(step: Step, *rests: int) -> bool:
    """An `append` where `len % size` is one of the rests, not 0, that took a new block as if the last one were full."""
    if step.verb != "append" or step.unknown or step.at_boundary or step.before.seqs[step.name][1] % step.block_size not in rests:
        return False
    if step.outcome.error:
        return step.broken == {"succeeds"} and step.outcome.error == "MemoryError" and not step.before.free
    if not only(step, "append-in-place", "append-copies-shared", "append-lowers-old-count", "append-result", "size"):
        return False
    return len(taken(step)) == 1 and step.table() == (*held(step), *taken(step))


@mistake(
    "boundary-one-late",
    "No new block when the last one is full",
    "A full block has no slot for one more token: it would be written somewhere it does not belong, and a block that comes one token later comes too late. Before the token is counted, the moment is `len % size == 0`, and an empty sequence is such a moment too.",
    BOUNDARY,
    clear=lambda step: bool(held(step)),
    lesson=LESSON_01,
)
def boundary_one_late(step: Step) -> bool:
    return _as_if_within(step)


@mistake(
    "new-block-for-every-token",
    "A new block for every token",
    "A block has room for block_size tokens. While its last slot is empty the next token goes there; a block for each token is what paging is not.",
    BOUNDARY,
    lesson=LESSON_01,
    clear=lambda step: step.block_size > 2,
)
def new_block_for_every_token(step: Step) -> bool:
    return _as_if_boundary(step, *range(1, step.block_size))


@mistake(
    "boundary-at-one",
    "The boundary is tested with `len % size == 1`",
    "That test is right where `len` already counts the new token, and wrong here: before the token is counted the last block is full at `len % size == 0`. Ask of every such line what `len` counts at that moment.",
    BOUNDARY,
    clear=lambda step: not step.at_boundary and step.block_size > 2,
    lesson=LESSON_01,
)
def boundary_at_one(step: Step) -> bool:
    return _as_if_within(step) or (step.block_size > 1 and _as_if_boundary(step, 1))


@mistake(
    "boundary-one-early",
    "The new block comes one token too early",
    "A block that this token fills is not full yet: the token still has its slot in it. A new block is needed for the token after that, and if none comes it would be pure waste.",
    BOUNDARY,
    clear=lambda step: not step.at_boundary and step.block_size > 2,
    lesson=LESSON_01,
)
def boundary_one_early(step: Step) -> bool:
    return step.block_size > 1 and (_as_if_within(step) or _as_if_boundary(step, step.block_size - 1))


@mistake(
    "boundary-inverted",
    "The boundary test is inverted",
    "A new block is needed when the last one is full, at `len % size == 0`, and at no other length: as long as it has an empty slot, the token goes there.",
    BOUNDARY,
    lesson=LESSON_01,
    clear=lambda step: not step.at_boundary and step.before.seqs[step.name][1] > step.block_size > 2,
)
def boundary_inverted(step: Step) -> bool:
    return _as_if_within(step) or _as_if_boundary(step, *range(1, step.block_size))


@mistake(
    "reads-last-before-boundary",
    "The last block is looked up before it is known that there is one",
    "A sequence of 0 tokens has an empty table, so it has no last block. Its first append is at a boundary: ask that first, and look at the last block only otherwise.",
    WHOLE_CLASS,
    clear=lambda step: "succeeds" in step.broken,
)
def reads_last_before_boundary(step: Step) -> bool:
    return step.at_boundary and not held(step) and step.outcome.error == "IndexError" and step.broken <= {"succeeds", "refuses"}


# ---- what it answers -----------------------------------------------------------------------------------


def _answer(step: Step) -> object:
    """What an `append` returned, if that is all that is wrong with it; else an object that equals nothing."""
    return step.outcome.value if step.done("append") and step.broken == {"append-result"} else object()


@mistake(
    "answer-forgotten",
    "`append` returns nothing",
    "Without a `return` the answer is None, and None says neither that a block was copied nor that none was. Whoever moves the bytes has to know: return True or False on every path.",
    WHOLE_CLASS,
)
def answer_forgotten(step: Step) -> bool:
    return _answer(step) is None


@mistake(
    "answer-is-pairs",
    "`append` returns the blocks of the copy",
    "vLLM's method once gave such pairs of source and target, and an engine needs them. Here the answer is the plain one, True if a block was copied and False if not.",
    WHOLE_CLASS,
)
def answer_is_pairs(step: Step) -> bool:
    answer = _answer(step)
    return isinstance(answer, dict) and str(answer.get("shown", "")).startswith(("[", "("))


@mistake(
    "answer-is-the-block",
    "`append` returns a block's number",
    "The number of the block that was written does not say whether it is a copy, and block 0 looks like False. Return True or False.",
    WHOLE_CLASS,
    clear=lambda step: step.outcome.value > 1,
)
def answer_is_the_block(step: Step) -> bool:
    return _answer(step) == step.table()[-1] if step.done("append") and step.table() else False


@mistake(
    "new-block-called-a-copy",
    "A new block at a boundary is called a copy",
    "Taking a block is not copying one. At a boundary the new block starts empty and nothing is moved, so the answer is False.",
    UNDERSTANDING,
)
def new_block_called_a_copy(step: Step) -> bool:
    return step.at_boundary and _answer(step) == 1


@mistake(
    "copy-not-reported",
    "A copy is answered with False",
    "After a copy in the books somebody must copy the bytes as well. False says that there is nothing to do, and the new block would stay empty.",
    WHOLE_CLASS,
)
def copy_not_reported(step: Step) -> bool:
    return _copying(step) and _answer(step) == 0


@mistake(
    "answer-always-true",
    "`append` always answers True",
    "True is for a copy only. A token written in place, or into a new block at a boundary, moves no other: the answer is False.",
    WHOLE_CLASS,
    clear=lambda step: not step.at_boundary,
)
def answer_always_true(step: Step) -> bool:
    return not _copying(step) and _answer(step) == 1


@mistake(
    "answer-inverted",
    "The answer is inverted",
    "True means that a block was copied. Written in place, or into a new block at a boundary, nothing was copied and the answer is False.",
    WHOLE_CLASS,
    clear=lambda step: _copying(step),
)
def answer_inverted(step: Step) -> bool:
    return step.done("append") and _answer(step) == (not _copying(step))
