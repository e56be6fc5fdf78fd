"""The promises of a block manager. They relate the state after one operation to the state before it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from autograder.promises.base import Broken, Promise
from autograder.record import Outcome, State, show

EVERYTHING = frozenset({"allocate", "fork", "append", "release"})
EVERY_ROW = EVERYTHING | {"new", "_take", "twin"}


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
        self.name = op[2] if verb == "fork" else op[1] if len(op) > 1 else None
        self.source = op[1] if verb in ("fork", "append", "release") else None
        self.unknown = self.source is not None and self.source not in seqs
        known_append = verb == "append" and not self.unknown
        self.at_boundary = known_append and seqs[self.name][1] % self.block_size == 0
        self.needs_block = self.at_boundary or (known_append and self.tail_count > 1)
        self.no_room = self._no_room()
        self.doable = not self.unknown and not self.no_room

    @property
    def regular(self) -> bool:
        """Whether the rules for whole states apply: blocks taken by hand are in no table."""
        return self.verb != "_take"

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


ALL: dict[str, Promise] = {}


def promise(id: str, statement: str, needs: frozenset[str] | set[str], hint: str = "", spoils: bool = True, verbs: frozenset[str] = EVERY_ROW):
    """Register the decorated test as a promise."""

    def register(test):
        ALL[id] = Promise(id, statement, test, frozenset(needs), hint, spoils, verbs)
        return test

    return register


def _compare(expected: object, actual: object, what: str) -> Broken | bool:
    return True if expected == actual else Broken(f"{what}: {_words(expected)}", f"{what}: {_words(actual)}")


def _words(x: object) -> str:
    if isinstance(x, (tuple, list)):
        shown = ", ".join(map(str, x[:16])) + (", …" if len(x) > 16 else "")
        return f"[{shown}]"
    if isinstance(x, dict):
        return "{" + ", ".join(f"{k}: {v}" for k, v in list(x.items())[:16]) + "}"
    return "none" if x is None else str(x)


# ---- what the operation answers -------------------------------------------------------------------------------


@promise(
    "unknown-name",
    "An unknown name raises `KeyError`.",
    EVERYTHING - {"allocate"},
    "Look the name up before anything else; a plain `self.seqs[name]` raises `KeyError` by itself.",
    verbs=frozenset({"fork", "append", "release"}),
)
def unknown_name(step: Step):
    if not step.unknown:
        return None
    return step.outcome.error == "KeyError" or Broken("KeyError is raised", str(step.outcome))


@promise(
    "refuses",
    "When blocks are needed and not enough are free, `MemoryError` is raised.",
    {"allocate"},
    "Compare the number of blocks needed with the number of free blocks; an exact fit is no reason to refuse.",
)
def refuses(step: Step):
    if step.unknown or not step.no_room:
        return None
    return step.outcome.error == "MemoryError" or Broken("MemoryError is raised", str(step.outcome))


@promise(
    "succeeds",
    "What can be done is done: with a known name and enough free blocks nothing is raised.",
    EVERYTHING,
    "Only as many blocks as are really needed may be asked for, and any free block will do.",
)
def succeeds(step: Step):
    if step.verb == "new":
        return step.outcome.error is None or Broken("a manager is made", str(step.outcome))
    if not step.doable:
        return None
    return step.outcome.error is None or Broken("no exception", str(step.outcome))


@promise(
    "readable",
    "`free`, `ref` and `seqs` can be read as the contract says: block numbers, counts, and for each name a `\"blocks\"` table and a `\"len\"`.",
    EVERYTHING,
    "Keep the attributes' names and meanings; their types are yours.",
)
def readable(step: Step):
    return step.after.problem is None or Broken("free blocks, counts and tables", step.after.problem)


@promise(
    "failure-changes-nothing",
    "After an exception the manager is as it was before the call.",
    {"allocate"},
    "Check first, change afterwards: everything that can fail belongs before the first assignment.",
)
def failure_changes_nothing(step: Step):
    if step.outcome.error is None or step.before is None:
        return None
    if step.before == step.after:
        return True
    for what, before, after in _parts(step):
        if before != after:
            return Broken(f"{what} stays {_words(before)}", f"{what} is {_words(after)}")
    return True


def _parts(step: Step):
    yield "free", step.before.free, step.after.free
    yield "ref", step.before.ref, step.after.ref
    for name in sorted({*step.before.seqs, *step.after.seqs}):
        yield f"sequence {show(name)}", _sequence(step.before, name), _sequence(step.after, name)


def _sequence(state: State, name: str) -> str | None:
    seq = state.seqs.get(name)
    return seq and f"table {_words(seq[0])} with {seq[1]} tokens"


@promise("empty-at-first", "A new manager has every block free, no reference counts and no sequences.", {"allocate"}, verbs=frozenset({"new"}))
def empty_at_first(step: Step):
    if step.verb != "new":
        return None
    fresh = State(tuple(range(step.num_blocks)))
    if step.after == fresh:
        return True
    return Broken("all blocks free, no counts, no sequences", _whole(step.after))


def _whole(state: State) -> str:
    if state.problem:
        return state.problem
    return f"free {_words(state.free)}, ref {_words(state.ref)}, sequences {_words(sorted(state.seqs))}"


@promise(
    "managers-are-separate",
    "Two managers share nothing: what one does changes nothing in the other.",
    {"allocate"},
    "Make the containers in `__init__`, on `self`; one written in the class body, or as a default argument, belongs to all managers.",
    verbs=frozenset({"twin"}),
)
def managers_are_separate(step: Step):
    if step.verb != "twin" or step.outcome.error:
        return None
    if step.after != step.before:
        return Broken("the first manager is as it was", f"the first manager has {_whole(step.after)}")
    twin = State.from_json(step.outcome.value)
    if set(twin.seqs) - {"z"}:
        return Broken("the second manager holds only what was put into it", f"it has {_whole(twin)}")
    return True


# ---- allocate --------------------------------------------------------------------------------------------------


@promise(
    "allocate-length",
    "`allocate(name, n)` makes a sequence of `n` tokens.",
    {"allocate"},
    "`len` counts tokens, not slots and not blocks.",
    verbs=frozenset({"allocate"}),
)
def allocate_length(step: Step):
    if not step.done("allocate"):
        return None
    seq = step.after.seqs.get(step.name)
    return _compare(step.op[2], seq and seq[1], f"tokens of {show(step.name)}")


@promise(
    "lowest-first",
    "The block handed out is the lowest free one.",
    {"allocate"},
    "However `free` is kept, hand out the smallest number in it; blocks that were released must be found again in order.",
)
def lowest_first(step: Step):
    if step.done("_take"):
        return _compare(step.before.free[0], step.outcome.value, "_take() returns block")
    if step.done("allocate"):
        table = step.table() or ()
        return _compare(step.before.free[: len(table)], table, f"table of {show(step.name)}")
    if step.done("append") and step.needs_block:
        taken = set(step.before.free) - set(step.after.free)
        return True if len(taken) != 1 else _compare(step.before.free[0], min(taken), "block handed out")
    return None


@promise(
    "take-by-hand",
    "`_take()` removes one block from `free`, sets its count to 1 and returns it; tables stay as they are.",
    {"_take"},
    "A block that was used before starts again at count 1: set the count, do not add to it.",
    verbs=frozenset({"_take"}),
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
            return Broken(f"{what}: {_words(expected)}", f"{what}: {_words(actual)}")
    return True


# ---- fork ------------------------------------------------------------------------------------------------------


@promise(
    "fork-shares-blocks",
    "After `fork(parent, child)` the child's block table holds the parent's blocks, in the same order.",
    {"fork"},
    "Nothing is copied in a fork, not even the partly filled last block; the copy is made at the first write.",
    verbs=frozenset({"fork"}),
)
def fork_shares_blocks(step: Step):
    if not step.done("fork"):
        return None
    return _compare(step.before.seqs[step.source][0], step.table(), f"table of {show(step.name)}")


@promise("fork-length", "The child of a fork has the parent's length in tokens.", {"fork"}, "Copy `len` as well; it is not blocks × block size.", verbs=frozenset({"fork"}))
def fork_length(step: Step):
    if not step.done("fork"):
        return None
    seq = step.after.seqs.get(step.name)
    return _compare(step.before.seqs[step.source][1], seq and seq[1], f"tokens of {show(step.name)}")


@promise("fork-takes-nothing", "A fork takes no block: `free` stays as it is.", {"fork"}, verbs=frozenset({"fork"}))
def fork_takes_nothing(step: Step):
    return _compare(step.before.free, step.after.free, "free") if step.done("fork") else None


@promise(
    "fork-raises-counts",
    "A fork raises the count of each of the parent's blocks by 1, and of no other.",
    {"fork"},
    "Every entry of the new table is one more reference: raise the count of every block in it, full or not.",
    verbs=frozenset({"fork"}),
)
def fork_raises_counts(step: Step):
    if not step.done("fork"):
        return None
    expected = Counter(step.before.ref)
    expected.update(step.before.seqs[step.source][0])
    return _compare(dict(sorted(expected.items())), dict(sorted(step.after.ref.items())), "ref")


# ---- append ----------------------------------------------------------------------------------------------------


def _appended(step: Step) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """The table before and after, if a token was really appended."""
    if not step.done("append"):
        return None
    return step.before.seqs[step.name][0], step.table() or ()


@promise("append-length", "`append` makes the sequence one token longer.", {"append"}, "Count the token on every path: new block, copy, or in place.", verbs=frozenset({"append"}))
def append_length(step: Step):
    if _appended(step) is None:
        return None
    seq = step.after.seqs.get(step.name)
    return _compare(step.before.seqs[step.name][1] + 1, seq and seq[1], f"tokens of {show(step.name)}")


@promise(
    "append-at-boundary",
    "When every slot is filled (`len % block_size == 0` before the token), `append` adds one new block at the end of the table.",
    {"append"},
    "Test the length before the token is counted: 0, block_size, 2 × block_size … are the moments a block is full.",
    verbs=frozenset({"append"}),
)
def append_at_boundary(step: Step):
    tables = _appended(step)
    if tables is None or not step.at_boundary:
        return None
    before, after = tables
    if len(after) == len(before) + 1 and after[:-1] == before and after[-1] in step.before.free:
        return True
    return Broken(f"table of {show(step.name)}: {_words(before)} and one new block behind", f"table of {show(step.name)}: {_words(after)}")


@promise(
    "append-in-place",
    "When the last block has an empty slot and count 1, `append` changes no block table.",
    {"append"},
    "The only owner writes in place: no block is taken, none is copied.",
    verbs=frozenset({"append"}),
)
def append_in_place(step: Step):
    tables = _appended(step)
    if tables is None or step.needs_block:
        return None
    if tables[0] != tables[1]:
        return _compare(tables[0], tables[1], f"table of {show(step.name)}")
    return _compare(step.before.free, step.after.free, "free")


@promise(
    "append-copies-shared",
    "When the last block has an empty slot but is shared, `append` puts a new block in its place in this table.",
    {"append", "fork"},
    "A shared block must not be written: take a block, lower the old block's count by 1, put the new one where the old one stood.",
    verbs=frozenset({"append"}),
)
def append_copies_shared(step: Step):
    tables = _appended(step)
    if tables is None or step.at_boundary or not step.needs_block:
        return None
    before, after = tables
    if len(after) == len(before) and after[-1] in step.before.free:
        return True
    return Broken(f"table of {show(step.name)}: a new block in place of {before[-1]}", f"table of {show(step.name)}: {_words(after)}")


@promise(
    "one-copy-at-most",
    "`append` copies at most one block, the last: the entries before it stay.",
    {"append", "fork"},
    "Only the block that is written needs a copy; the full blocks before it stay shared.",
    verbs=frozenset({"append"}),
)
def one_copy_at_most(step: Step):
    tables = _appended(step)
    if tables is None:
        return None
    keep = len(tables[0]) - (0 if step.at_boundary else 1)
    return _compare(tables[0][:keep], tables[1][:keep], f"first {keep} entries of {show(step.name)}'s table")


@promise(
    "single-writer",
    "After `append` the block that took the token has count 1.",
    {"append", "fork"},
    "A copy is a new block with one owner: its count starts at 1, whatever the old block's count was.",
    verbs=frozenset({"append"}),
)
def single_writer(step: Step):
    tables = _appended(step)
    if tables is None or not tables[1]:
        return None
    return _compare(1, step.after.ref.get(tables[1][-1], 0), f"count of block {tables[1][-1]}")


@promise(
    "append-lowers-old-count",
    "A copy lowers the count of the block it replaces by exactly 1, and of no other.",
    {"append", "fork"},
    "The writer gives up one reference to one block; the other owners keep theirs, so the block does not become free.",
    verbs=frozenset({"append"}),
)
def append_lowers_old_count(step: Step):
    tables = _appended(step)
    if tables is None or step.at_boundary or not step.needs_block:
        return None
    new = set(step.after.ref) - set(step.before.ref)
    expected = {b: c - (b == tables[0][-1]) for b, c in step.before.ref.items()}
    actual = {b: c for b, c in step.after.ref.items() if b not in new}
    return _compare(dict(sorted(expected.items())), dict(sorted(actual.items())), "counts of the old blocks")


@promise(
    "append-result",
    "`append` returns True if it copied a block, otherwise False.",
    {"append", "fork"},
    "A new block at a boundary is no copy. Return a truth value on every path.",
    spoils=False,
    verbs=frozenset({"append"}),
)
def append_result(step: Step):
    if _appended(step) is None:
        return None
    copied = step.needs_block and not step.at_boundary
    value = step.outcome.value
    right = type(value) in (int, float) and value == copied
    return right or Broken(f"returned {copied}", str(step.outcome))


# ---- release ---------------------------------------------------------------------------------------------------


@promise("release-forgets", "`release` forgets the sequence.", {"release"}, "Remove the name, so that a second release raises `KeyError` instead of giving the blocks back twice.", verbs=frozenset({"release"}))
def release_forgets(step: Step):
    if not step.done("release"):
        return None
    return step.name not in step.after.seqs or Broken(f"{show(step.name)} is gone", f"{show(step.name)} is still there")


@promise("release-lowers-counts", "`release` lowers the count of each of the sequence's blocks by 1, and of no other.", {"release"}, "Go through the whole table, once.", verbs=frozenset({"release"}))
def release_lowers_counts(step: Step):
    if not step.done("release"):
        return None
    expected = Counter(step.before.ref)
    expected.subtract(step.before.seqs[step.name][0])
    return _compare({b: c for b, c in sorted(expected.items()) if c}, dict(sorted(step.after.ref.items())), "ref")


@promise(
    "release-frees",
    "After `release` exactly the blocks that lost their last reference are back in `free`.",
    {"release"},
    "At count 0 the block goes back to `free` and leaves `ref`; while another table points at it, it must not.",
    verbs=frozenset({"release"}),
)
def release_frees(step: Step):
    if not step.done("release"):
        return None
    held = {b for n, (blocks, _) in step.before.seqs.items() if n != step.name for b in blocks}
    back = [b for b in step.before.seqs[step.name][0] if b not in held]
    return _compare(tuple(sorted([*step.before.free, *back])), step.after.free, "free")


# ---- whatever the operation ------------------------------------------------------------------------------------


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
    for name in {**old, **new}:
        if name != step.name and old.get(name) != new.get(name):
            before, after = _sequence(step.before, name), _sequence(step.after, name)
            return Broken(f"{show(name)} stays: {_words(before)}", f"{show(name)}: {_words(after)}")
    return True


@promise("size", "A block table holds exactly ⌈len / block_size⌉ blocks.", EVERYTHING, "No spare block, and none for 0 tokens.")
def size(step: Step):
    for name, (blocks, tokens) in step.after.seqs.items():
        if not (len(blocks) - 1) * step.block_size < tokens <= len(blocks) * step.block_size:
            enough = next(k for k in range(step.num_blocks + len(blocks) + 2) if k * step.block_size >= tokens or k > step.num_blocks)
            return Broken(f"{tokens} tokens of {show(name)} in {enough} block{'s' * (enough != 1)}", f"table {_words(blocks)}")
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
    entries: dict[int, int] = {}
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
        return Broken("used() changes nothing", step.used.message)
    taken = step.num_blocks - len(step.after.free)
    right = step.used.error is None and type(step.used.value) in (int, float) and step.used.value == taken
    return right or Broken(f"used() is {taken}", f"used(): {step.used}")
