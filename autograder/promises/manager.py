"""The promises of a block manager. They relate the state after one operation to the state before it."""

from __future__ import annotations

import functools
import itertools
from collections import Counter
from dataclasses import dataclass

from autograder.promises.base import Broken, Promise
from autograder.record import Outcome, State, show

EVERYTHING = frozenset({"allocate", "fork", "append", "release"})
HOW = frozenset({"done", "failed", "boundary", "copy", "in place"})  # an append that was done: at a boundary, …
DONE = HOW - {"failed"}
EVERY_ROW = EVERYTHING | {"new", "_take", "twin", "burst"}


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


@dataclass
class Burst:
    """What the calls of a burst ask of the state after them, call by call and without a block in sight.

    lengths: name → (tokens, the call that the name last had). alike: child → parent, if neither has been written to
    since the fork and both are live. gone: names that were released. touched: all names that were spoken of.
    results: for each call the answer that `append` must give, "1" or "0", where the calls before it tell; else "?".
    """

    lengths: dict[str, tuple[int, str]]
    alike: dict[str, str]
    gone: list[str]
    touched: set[str]
    results: str


def follow(step: Step) -> Burst:
    size, calls = step.block_size, step.op[1]
    forked = {name for op in calls if op[0] == "fork" for name in op[1:]}
    lengths = {name: (length, "") for name, (_, length) in step.before.seqs.items()}
    ends: dict[str, int] = {}    # name → the call that last wrote to it or made it
    forks: dict[str, tuple[str, int]] = {}
    gone: dict[str, None] = {}
    touched: set[str] = set()
    results = []
    for n, op in enumerate(calls):
        verb, name = op[0], op[2] if op[0] == "fork" else op[1]
        touched.add(name)
        result = "?"
        if verb == "allocate":
            lengths[name] = op[2], verb
        elif verb == "fork":
            lengths[name] = lengths.get(op[1], (0, ""))[0], verb
            forks[name] = op[1], n
        elif verb == "append":
            length = lengths.get(name, (0, ""))[0]
            if length % size == 0:
                result = "0"
            elif name in forks and forks[name][1] == n - 1:
                result = "1"
            elif name not in forked and not (name in step.before.seqs and any(step.before.ref.get(block) != 1 for block in step.before.seqs[name][0][-1:])):
                result = "0"
            lengths[name] = length + 1, verb
        else:
            lengths.pop(name, None)
            gone[name] = None
        if verb != "release":
            gone.pop(name, None)
        if verb != "fork":
            forks.pop(name, None)
        ends[name] = n
        results.append(result)
    alike = {child: parent for child, (parent, at) in forks.items() if parent in lengths and ends.get(parent, -1) < at}
    return Burst(lengths, alike, list(gone), touched, "".join(results))


SHOWN = 16  # entries of a table, or counts
ALL: dict[str, Promise] = {}


def promise(id: str, statement: str, needs: frozenset[str] | set[str], hint: str = "", spoils: bool = True, verbs: frozenset[str] = EVERY_ROW, when: frozenset[str] | set[str] = HOW):
    """Register the decorated test as a promise."""

    def register(test):
        ALL[id] = Promise(id, statement, test, frozenset(needs), hint, spoils, verbs, frozenset(when))
        return test

    return register


def _compare(expected: object, actual: object, what: str) -> Broken | bool:
    return True if expected == actual else Broken(*_apart(expected, actual, what))


def _apart(expected: object, actual: object, what: str) -> tuple[str, str]:
    """Both as words; of long lists and counts that look alike at the beginning the first place that differs."""
    right, found = _words(expected), _words(actual)
    if right == found or (right.endswith((", …]", ", …}")) and type(expected) is type(actual)):
        lists = isinstance(expected, (tuple, list)) and isinstance(actual, (tuple, list))
        if lists:
            at = next((i for i, (x, y) in enumerate(zip(expected, actual, strict=False)) if x != y), min(len(expected), len(actual)))
            if at >= SHOWN:
                place = lambda x: f"entry {at} is {x[at]}" if at < len(x) else f"{len(x)} entries"  # noqa: E731
                return f"{what}: {place(expected)}", f"{what}: {place(actual)}"
        if isinstance(expected, dict) and isinstance(actual, dict):
            block = min((b for b in {*expected, *actual} if expected.get(b) != actual.get(b)), default=None)
            return f"{what}: {expected.get(block, 0)} for block {block}", f"{what}: {actual.get(block, 0)} for block {block}"
    return f"{what}: {right}", f"{what}: {found}"


def _words(x: object) -> str:
    if isinstance(x, (tuple, list)):
        shown = ", ".join(map(str, x[:SHOWN])) + (", …" if len(x) > SHOWN else "")
        return f"[{shown}]"
    if isinstance(x, dict):
        return "{" + ", ".join(f"{k}: {v}" for k, v in list(x.items())[:SHOWN]) + (", …" if len(x) > SHOWN else "") + "}"
    return "none" if x is None else str(x)


# ---- many calls at once ----------------------------------------------------------------------------------------


def _lengths(step: Step, verb: str):
    """Whether the names that last had this call are there, with as many tokens as the calls gave them."""
    if step.outcome.error:
        return None
    seen = None
    for name, (tokens, last) in step.burst.lengths.items():
        if last == verb:
            seen = True
            found = step.after.seqs.get(name)
            if found is None or found[1] != tokens:
                return _compare(tokens, found and found[1], f"tokens of {show(name)}")
    return seen


def _alike(step: Step):
    """Whether forks that nobody has written to have their parents' blocks."""
    if step.outcome.error or not step.burst.alike:
        return None
    for child, parent in step.burst.alike.items():
        blocks, others = step.after.seqs.get(child, ((),))[0], step.after.seqs.get(parent, ((),))[0]
        if blocks != others:
            return _compare(others, blocks, f"table of {show(child)}, as of {show(parent)}")
    return True


def _writers_alone(step: Step):
    """Whether the last block of each sequence that was appended to after every fork has count 1."""
    if step.outcome.error:
        return None
    seen = None
    forked = {name for op in step.op[1] if op[0] == "fork" for name in op[1:]}
    for name, (_, last) in step.burst.lengths.items():
        if last == "append" and name not in forked and name in step.after.seqs and step.after.seqs[name][0]:
            seen = True
            tail = step.after.seqs[name][0][-1]
            if step.after.ref.get(tail, 0) != 1:
                return _compare(1, step.after.ref.get(tail, 0), f"count of block {tail}")
    return seen


def _results(step: Step):
    """Whether each append answered what the calls before it tell, and a truth value where they do not."""
    seen = None
    for n, (op, due, given) in enumerate(zip(step.op[1], step.burst.results, step.answers, strict=False)):
        if op[0] == "append":
            seen = True
            if given not in ("01" if due == "?" else due):
                told = {"1": "True", "0": "False"}
                return Broken(f"call {n + 1} of these {len(step.op[1])}, m.append({show(op[1])}), returned {told.get(due, 'True or False')}", f"returned {told.get(given, 'something else')}")
    return seen


# ---- what the operation answers -------------------------------------------------------------------------------


@promise(
    "unknown-name",
    "An unknown name raises `KeyError`.",
    EVERYTHING - {"allocate"},
    "Look the name up before anything else; a plain `self.seqs[name]` raises `KeyError` by itself.",
    verbs=frozenset({"fork", "append", "release"}),
    when={"failed"},
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
    when={"failed"},
)
def refuses(step: Step):
    if step.unknown or not step.no_room:
        return None
    hint = "The name is known; what is missing is a block." if step.outcome.error == "KeyError" and step.source is not None else None
    return step.outcome.error == "MemoryError" or Broken("MemoryError is raised", str(step.outcome), hint)


@promise(
    "succeeds",
    "What can be done is done: with a known name and enough free blocks nothing is raised.",
    EVERYTHING,
    "Only as many blocks as are really needed may be asked for, and any free block will do.",
)
def succeeds(step: Step):
    if step.verb == "new":
        return step.outcome.error is None or Broken("a manager is made", str(step.outcome))
    if step.verb == "burst" and step.outcome.error is not None:
        at = len(step.answers)
        return Broken("no exception", f"{step.outcome} by call {at + 1} of these {len(step.op[1])}, m.{step.op[1][at][0]}({', '.join(map(show, step.op[1][at][1:]))})")
    if not step.doable:
        return None
    hint = None
    if step.outcome.error == "KeyError":
        hint = "The name is known here: it was allocated or forked before, and not released." if step.source is not None else "A new name is no reason to raise: nothing has to be there yet."
    return step.outcome.error is None or Broken("no exception", str(step.outcome), hint)


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
    when={"failed"},
)
def failure_changes_nothing(step: Step):
    if step.outcome.error is None or step.before is None or step.verb == "burst":
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
    verbs=frozenset({"allocate", "burst"}),
)
def allocate_length(step: Step):
    if step.verb == "burst":
        return _lengths(step, "allocate")
    if not step.done("allocate"):
        return None
    seq = step.after.seqs.get(step.name)
    return _compare(step.op[2], seq and seq[1], f"tokens of {show(step.name)}")


@promise(
    "lowest-first",
    "The block handed out is the lowest free one.",
    {"allocate"},
    "However `free` is kept, hand out the smallest number in it; blocks that were released must be found again in order.",
    when=DONE,
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
            return Broken(*_apart(expected, actual, what))
    return True


# ---- fork ------------------------------------------------------------------------------------------------------


@promise(
    "fork-shares-blocks",
    "After `fork(parent, child)` the child's block table holds the parent's blocks, in the same order.",
    {"fork"},
    "Nothing is copied in a fork, not even the partly filled last block; the copy is made at the first write.",
    verbs=frozenset({"fork", "burst"}),
)
def fork_shares_blocks(step: Step):
    if step.verb == "burst":
        return _alike(step)
    if not step.done("fork"):
        return None
    return _compare(step.before.seqs[step.source][0], step.table(), f"table of {show(step.name)}")


@promise("fork-length", "The child of a fork has the parent's length in tokens.", {"fork"}, "Copy `len` as well; it is not blocks × block size.", verbs=frozenset({"fork", "burst"}))
def fork_length(step: Step):
    if step.verb == "burst":
        return _lengths(step, "fork")
    if not step.done("fork"):
        return None
    seq = step.after.seqs.get(step.name)
    return _compare(step.before.seqs[step.source][1], seq and seq[1], f"tokens of {show(step.name)}")


@promise("fork-takes-nothing", "A fork takes no block: `free` stays as it is.", {"fork"}, verbs=frozenset({"fork"}), when=DONE)
def fork_takes_nothing(step: Step):
    return _compare(step.before.free, step.after.free, "free") if step.done("fork") else None


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
    return _compare(dict(sorted(expected.items())), dict(sorted(step.after.ref.items())), "ref")


# ---- append ----------------------------------------------------------------------------------------------------


def _appended(step: Step) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """The table before and after, if a token was really appended."""
    if not step.done("append"):
        return None
    return step.before.seqs[step.name][0], step.table() or ()


@promise("append-length", "`append` makes the sequence one token longer.", {"append"}, "Count the token on every path: new block, copy, or in place.", verbs=frozenset({"append", "burst"}))
def append_length(step: Step):
    if step.verb == "burst":
        return _lengths(step, "append")
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
    when={"boundary"},
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
    when={"in place"},
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
    when={"copy"},
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
    when=DONE,
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
    verbs=frozenset({"append", "burst"}),
)
def single_writer(step: Step):
    if step.verb == "burst":
        return _writers_alone(step)
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
    when={"copy"},
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
    verbs=frozenset({"append", "burst"}),
)
def append_result(step: Step):
    if step.verb == "burst":
        return _results(step)
    if _appended(step) is None:
        return None
    copied = step.needs_block and not step.at_boundary
    value = step.outcome.value
    right = type(value) in (int, float) and value == copied
    return right or Broken(f"returned {copied}", str(step.outcome))


# ---- release ---------------------------------------------------------------------------------------------------


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
    return _compare({b: c for b, c in sorted(expected.items()) if c}, dict(sorted(step.after.ref.items())), "ref")


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
    if step.verb == "burst":
        touched = step.burst.touched
        strange = None if step.outcome.error else next((name for name in {**old, **new} if name not in touched and old.get(name) != new.get(name)), None)
        return strange is None or Broken(f"{show(strange)} stays: {_words(_sequence(step.before, strange))}", f"{show(strange)}: {_words(_sequence(step.after, strange))}")
    for name in {**old, **new}:
        if name != step.name and old.get(name) != new.get(name):
            before, after = _sequence(step.before, name), _sequence(step.after, name)
            alone = all(step.before.ref.get(block, 0) <= 1 for blocks, _ in step.before.seqs.values() for block in blocks) and step.verb != "fork"
            return Broken(f"{show(name)} stays: {_words(before)}", f"{show(name)}: {_words(after)}", f"`{step.verb}` speaks of one sequence: leave the others alone." if alone else None)
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
