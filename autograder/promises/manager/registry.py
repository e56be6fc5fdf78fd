"""Where a manager's promises are entered, and how what was expected and what was found are put into words."""

from __future__ import annotations

from autograder.promises.base import Broken, Promise
from autograder.record import State

EVERYTHING = frozenset({"allocate", "fork", "append", "release"})
EVERY_ROW = EVERYTHING | {"new", "_take", "twin", "burst"}
HOW = frozenset({"done", "failed", "boundary", "copy", "in place"})  # an append that was done: at a boundary, …
DONE = HOW - {"failed"}
SHOWN = 16  # entries of a table, or counts
ALL: dict[str, Promise] = {}


def promise(id: str, statement: str, needs: frozenset[str] | set[str], hint: str = "", spoils: bool = True, verbs: frozenset[str] = EVERY_ROW, when: frozenset[str] | set[str] = HOW):
    """Register the decorated test as a promise."""

    def register(test):
        ALL[id] = Promise(id, statement, test, frozenset(needs), hint, spoils, verbs, frozenset(when))
        return test

    return register


def compare(expected: object, actual: object, what: str) -> Broken | bool:
    return True if expected == actual else Broken(*apart(expected, actual, what))


def apart(expected: object, actual: object, what: str) -> tuple[str, str]:
    """Both as words; of long lists and counts that look alike at the beginning the first place that differs."""
    right, found = words(expected), words(actual)
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


def words(x: object) -> str:
    if isinstance(x, (tuple, list)):
        shown = ", ".join(map(str, x[:SHOWN])) + (", …" if len(x) > SHOWN else "")
        return f"[{shown}]"
    if isinstance(x, dict):
        return "{" + ", ".join(f"{k}: {v}" for k, v in list(x.items())[:SHOWN]) + (", …" if len(x) > SHOWN else "") + "}"
    return "none" if x is None else str(x)


def sequence(state: State, name: str) -> str | None:
    seq = state.seqs.get(name)
    return seq and f"table {words(seq[0])} with {seq[1]} tokens"
