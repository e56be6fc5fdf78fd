"""What an operation answers, and what may be read of the manager after it."""

from __future__ import annotations

from autograder.promises.base import Broken
from autograder.promises.manager.registry import EVERYTHING, promise, sequence, words
from autograder.promises.manager.step import Step
from autograder.record import State, show


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
            return Broken(f"{what} stays {words(before)}", f"{what} is {words(after)}")
    return True


def _parts(step: Step):
    yield "free", step.before.free, step.after.free
    yield "ref", step.before.ref, step.after.ref
    for name in sorted({*step.before.seqs, *step.after.seqs}):
        yield f"sequence {show(name)}", sequence(step.before, name), sequence(step.after, name)


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
    return f"free {words(state.free)}, ref {words(state.ref)}, sequences {words(sorted(state.seqs))}"


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
