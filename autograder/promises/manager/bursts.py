"""Many calls at once, told only by the state after the last: what they ask of it, and whether it is so."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from autograder.promises.base import Broken
from autograder.promises.manager.registry import compare
from autograder.record import show

if TYPE_CHECKING:
    from autograder.promises.manager.step import Step


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


def lengths_right(step: Step, verb: str):
    """Whether the names that last had this call are there, with as many tokens as the calls gave them."""
    if step.outcome.error:
        return None
    seen = None
    for name, (tokens, last) in step.burst.lengths.items():
        if last == verb:
            seen = True
            found = step.after.seqs.get(name)
            if found is None or found[1] != tokens:
                return compare(tokens, found and found[1], f"tokens of {show(name)}")
    return seen


def forks_alike(step: Step):
    """Whether forks that nobody has written to have their parents' blocks."""
    if step.outcome.error or not step.burst.alike:
        return None
    for child, parent in step.burst.alike.items():
        blocks, others = step.after.seqs.get(child, ((),))[0], step.after.seqs.get(parent, ((),))[0]
        if blocks != others:
            return compare(others, blocks, f"table of {show(child)}, as of {show(parent)}")
    return True


def writers_alone(step: Step):
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
                return compare(1, step.after.ref.get(tail, 0), f"count of block {tail}")
    return seen


def answers_right(step: Step):
    """Whether each append answered what the calls before it tell, and a truth value where they do not."""
    seen = None
    for n, (op, due, given) in enumerate(zip(step.op[1], step.burst.results, step.answers, strict=False)):
        if op[0] == "append":
            seen = True
            if given not in ("01" if due == "?" else due):
                told = {"1": "True", "0": "False"}
                return Broken(f"call {n + 1} of these {len(step.op[1])}, m.append({show(op[1])}), returned {told.get(due, 'True or False')}", f"returned {told.get(given, 'something else')}")
    return seen
