"""Read what a learner's object shows into plain data, fairly: by value, never by type, and never writing to it."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Sequence
from dataclasses import dataclass, field

LARGEST = 2**63  # a count or block number beyond this is nonsense, and printing it could take minutes
NAMES_READ, NAMES_ASKED = 10_000, 100
TEXT_SHOWN = 60
SHOWN = 8  # entries of a list
LONG = 40  # a list of more numbers is written as runs
UNROLLED = 100_000  # numbers in one list at most
BLOCKS = tuple(range(4096))  # the numbers that a pool can have, made once


class Unreadable(Exception):
    """What was read is not what the contract promises; the text says what was found instead."""


@dataclass(frozen=True, slots=True)
class State:
    """What a block manager's attributes held at one moment, as plain data.

    free: numbers of the free blocks in ascending order (a block listed twice stays twice);
    ref: physical block → reference count, without zeros;
    seqs: sequence name → (physical blocks in logical order, length in tokens);
    problem: why the attributes could not be read, else None.
    """

    free: tuple[int, ...] = ()
    ref: dict[int, int] = field(default_factory=dict)
    seqs: dict[str, tuple[tuple[int, ...], int]] = field(default_factory=dict)
    problem: str | None = None

    @property
    def key(self) -> tuple:
        """Hashable, equal for equal states."""
        return self.free, tuple(self.ref.items()), tuple(self.seqs.items()), self.problem

    def to_json(self) -> list:
        """Plain lists; free blocks as runs, because a pool may have thousands.

        Counts stand beside their blocks, not in pairs: thousands of small lists would keep the garbage collector busy.
        """
        counted = sorted(self.ref)
        return [runs(self.free), counted, [self.ref[b] for b in counted], [[n, list(b), k] for n, (b, k) in self.seqs.items()], self.problem]

    def packed(self) -> list:
        """The same, with long tables and counts as runs too."""
        if len(self.ref) <= LONG:
            return self.to_json()
        counted = sorted(self.ref)
        counts = [[value, len(list(same))] for value, same in itertools.groupby(map(self.ref.__getitem__, counted))]
        seqs = [[n, list(b) if len(b) <= LONG else {"runs": runs(b)}, k] for n, (b, k) in self.seqs.items()]
        return [runs(self.free), {"runs": runs(counted)}, {"times": counts}, seqs, self.problem]

    @classmethod
    def from_json(cls, data: list) -> State:
        """The inverse of `to_json` and of `packed`; raises ValueError on anything of another shape."""
        try:
            free, counted, counts, seqs, problem = data
            if type(counted) is dict:
                counted, counts = unrolled(counted["runs"]), tuple(c for c, times in counts["times"] for c in (c,) * min(times, UNROLLED))
            tables = {name: (tuple(blocks) if type(blocks) is list else unrolled(blocks["runs"]), length) for name, blocks, length in seqs}
            kinds = {*map(type, counted), *map(type, counts)}
            for blocks, length in tables.values():
                kinds.update(map(type, blocks))
                kinds.add(type(length))
            if not (kinds <= {int} and {*map(type, tables), type(problem)} <= {str, type(None)}) or None in tables:
                raise ValueError
            return cls(unrolled(free), dict(zip(counted, counts, strict=True)), tables, problem)
        except (TypeError, ValueError, KeyError):
            raise ValueError("not a state") from None


def unrolled(pieces: list[list[int]]) -> tuple[int, ...]:
    """The inverse of `runs`; raises ValueError or TypeError on anything else, and on what would be very many."""
    if not all(type(low) is type(high) is int for low, high in pieces) or sum(high - low for low, high in pieces) > UNROLLED:
        raise ValueError("not runs")
    return tuple(itertools.chain.from_iterable(BLOCKS[low : high + 1] if low >= 0 and high < len(BLOCKS) else range(low, high + 1) for low, high in pieces))


def runs(numbers: Sequence[int]) -> list[list[int]]:
    """Numbers as [first, last] runs of neighbours that ascend; their order stays."""
    if numbers and numbers[-1] - numbers[0] == len(numbers) - 1 and tuple(numbers) == BLOCKS[numbers[0] : numbers[-1] + 1]:
        return [[numbers[0], numbers[-1]]]
    out: list[list[int]] = []
    for n in numbers:
        if out and n == out[-1][1] + 1:
            out[-1][1] = n
        else:
            out.append([n, n])
    return out


def whole(x: object) -> int:
    """The whole number that x stands for: int, NumPy integer, whole float, anything with `__index__`.

    Subclasses are read past their own methods, so that an object that claims to equal everything is still one number.
    Raises Unreadable for anything else.
    """
    if type(x) is int:
        n = x
    elif isinstance(x, int):
        n = int.__add__(x, 0)
    elif isinstance(x, float):
        n = _from_float(float.__add__(x, 0.0), x)
    elif (index := _index(x)) is not None:
        n = index
    elif hasattr(type(x), "__float__"):
        n = _from_float(float.__add__(float(x), 0.0), x)
    elif type(x).__module__ == "numpy" and hasattr(x, "item"):
        n = whole(x.item())
    else:
        raise Unreadable(f"{show(x)} is not a whole number")
    if not -LARGEST < n < LARGEST:
        raise Unreadable("a number of more than 18 digits is not a block, a count or a length")
    return n


def _index(x: object) -> int | None:
    """What `__index__` gives; None where there is none that answers, as in an array of no dimensions."""
    try:
        return int.__add__(operator.index(x), 0)
    except TypeError:
        return None


def _from_float(value: float, x: object) -> int:
    if value != value or value in (float("inf"), float("-inf")) or value != int(value):
        raise Unreadable(f"{show(x)} is not a whole number")
    return int(value)


def number(x: object) -> int | float:
    """Like `whole`, but a fraction is allowed; infinities and NaN are not."""
    try:
        return whole(x)
    except Unreadable:
        if isinstance(x, float) or (hasattr(type(x), "__float__") and not isinstance(x, int)):
            value = float.__add__(float(x), 0.0)
            if value == value and value not in (float("inf"), float("-inf")):
                return value
        raise Unreadable(f"{show(x)} is not a number") from None


def show(x: object) -> str:
    """A short text for any object, whatever its own `__repr__` does."""
    if x is None or type(x) in (bool, float):
        return repr(x)
    if type(x) is int:
        return repr(x) if -LARGEST < x < LARGEST else "a huge int"
    if type(x) is str:
        return clean(repr(x if len(x) <= TEXT_SHOWN else x[:TEXT_SHOWN] + "…"))
    if type(x) in (list, tuple, set, dict) and len(x) == 0:
        return repr(x)
    if type(x) in (list, tuple, set, dict):
        return _show_many(x)
    kind = _name(type(x))
    return f"{'an' if kind[:1].lower() in 'aeiou' else 'a'} {kind}"


def _name(kind: type) -> str:
    name = clean(type.__dict__["__name__"].__get__(kind))
    return name if len(name) <= TEXT_SHOWN else name[:TEXT_SHOWN] + "…"


def _show_many(x: list | tuple | set | dict) -> str:
    """The first entries, and the last one of a list or tuple."""
    if type(x) is dict:
        shown = [f"{show(key)}: {show(value)}" for key, value in itertools.islice(x.items(), SHOWN)]
    else:
        shown = [show(y) for y in itertools.islice(x, SHOWN)]
    if len(x) > SHOWN:
        shown += ["…", show(x[-1])] if type(x) in (list, tuple) else ["…"]
    inner = ", ".join(shown)
    if type(x) is tuple:
        return f"({inner}{',' * (len(x) == 1)})"
    return f"[{inner}]" if type(x) is list else f"{{{inner}}}"


def plain(x: object) -> object:
    """A returned value as data that JSON holds: None, a number, or a text that describes anything else."""
    if x is None:
        return None
    try:
        return number(x)
    except Unreadable:
        return {"shown": show(x)}
    except Exception as error:  # a value whose own methods raise is still only a value
        return {"shown": f"{show(x)} that raises {_name(type(error))} when read"}


def numbers(x: object, at_most: int) -> tuple[int, ...]:
    """The whole numbers in any iterable, read once; one that never ends is cut off after `at_most`."""
    if isinstance(x, (str, bytes)):
        raise Unreadable(f"{show(x)} is text, not a list of numbers")
    try:
        items = iter(x)
    except TypeError:
        raise Unreadable(f"{show(x)} is not a list of numbers") from None
    got = tuple(whole(y) for y in itertools.islice(items, at_most + 1))
    if len(got) > at_most:
        raise Unreadable(f"a list of more than {at_most} entries")
    return got


def read_state(manager: object, num_blocks: int = 4096) -> State:
    """What `free`, `ref` and `seqs` of any block manager hold now. Never raises: `problem` says what could not be read.

    num_blocks bounds how much is read, so that an endless table is cut off.
    """
    try:
        return _read_state(manager, 2 * num_blocks + 8)
    except Unreadable as error:
        return State(problem=str(error))
    except Exception as error:
        return State(problem=f"reading it raises {_name(type(error))}: {_message(error)}")


def _read_state(manager: object, most: int) -> State:
    free, ref, seqs = manager.free, manager.ref, manager.seqs
    try:
        blocks = tuple(sorted(numbers(free, most)))
    except Unreadable as error:
        raise Unreadable(f"in `free`: {error}") from None
    found = _sequences(seqs, most)
    _known_by_name(manager.seqs, found)
    return State(blocks, _counts(ref, most), found)


def _known_by_name(seqs: object, found: dict[str, object]) -> None:
    """A sequence is what is asked for by its name: a mapping must not show other names than it knows."""
    for name in itertools.islice(found, NAMES_ASKED):
        try:
            seqs[name]
        except Exception:
            raise Unreadable(f"`seqs` shows the name {show(name)}, and `seqs[{show(name)}]` is not there") from None


def simple_key(manager: object, num_blocks: int) -> tuple | None:
    """A hashable copy of the attributes if they are lists and dicts of plain ints, the usual case; otherwise None.

    Two managers with equal keys have equal states. Exact types only: an int that claims to equal everything must not
    be taken for another. `state_of` makes the state of a key.
    """
    most = 2 * num_blocks + 8
    try:
        free, ref, seqs = manager.free, manager.ref, manager.seqs
        if not (type(free) is list and type(ref) is dict and type(seqs) is dict):
            return None
        kinds = {*map(type, free), *map(type, ref), *map(type, ref.values())}
        tables = []
        for name, seq in seqs.items():
            blocks, length = seq["blocks"], seq["len"]
            if type(name) is not str or type(blocks) is not list or len(blocks) > most:
                return None
            kinds.update(map(type, blocks))
            kinds.add(type(length))
            tables.append((name, tuple(blocks), length))
    except Exception:
        return None
    if not kinds <= {int} or len(free) > most or len(ref) > most or len(tables) > NAMES_READ:
        return None
    return tuple(free), tuple(ref), tuple(ref.values()), tuple(tables)


def state_of(key: tuple) -> State | None:
    """The state that a `simple_key` stands for; None if a number in it is too large to be one."""
    free, counted, counts, tables = key
    for numbers in (free, counted, counts, *(blocks for _, blocks, _ in tables), [length for *_, length in tables]):
        if numbers and not -LARGEST < min(numbers) <= max(numbers) < LARGEST:
            return None
    ref = dict(zip(counted, counts, strict=True))
    return State(tuple(sorted(free)), ref if all(counts) else {b: c for b, c in ref.items() if c}, {name: (blocks, length) for name, blocks, length in tables})


def _counts(ref: object, most: int) -> dict[int, int]:
    """`ref` may be any mapping, or an array with one count per block."""
    try:
        pairs = ref.items() if hasattr(ref, "items") else ((b, ref[b]) for b in ref.keys()) if hasattr(ref, "keys") else enumerate(ref)  # noqa: SIM118 - no dict
        found = {}
        for n, (block, count) in enumerate(pairs):
            if n > most:
                raise Unreadable(f"more than {most} entries")
            count = whole(count)
            if count:
                found[whole(block)] = count
        return found
    except Unreadable as error:
        raise Unreadable(f"in `ref`: {error}") from None
    except (TypeError, ValueError):
        raise Unreadable(f"`ref` is {show(ref)}, not a mapping from block to count") from None


def _sequences(seqs: object, most: int) -> dict[str, tuple[tuple[int, ...], int]]:
    if not (hasattr(seqs, "items") or hasattr(seqs, "keys")):
        raise Unreadable(f"`seqs` is {show(seqs)}, not a mapping from name to sequence")
    found = {}
    pairs = seqs.items() if hasattr(seqs, "items") else ((name, seqs[name]) for name in seqs.keys())  # noqa: SIM118 - no dict
    for name, seq in itertools.islice(pairs, NAMES_READ):
        name = clean(str.__str__(name)) if isinstance(name, str) else f"({show(name)})"
        if name in found:
            raise Unreadable(f"`seqs` shows the name {show(name)} twice")
        try:
            found[name] = numbers(seq["blocks"], most), whole(seq["len"])
        except Unreadable as error:
            raise Unreadable(f"in `seqs[{show(name)}]`: {error}") from None
        except (TypeError, KeyError, IndexError, AttributeError):
            raise Unreadable(f"`seqs[{show(name)}]` is {show(seq)} that does not answer [\"blocks\"] and [\"len\"]") from None
    return found


def clean(text: str) -> str:
    """The text with everything that no terminal or file can take written as an escape."""
    return text if text.isprintable() else "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in str.__str__(text))


def _message(error: BaseException) -> str:
    try:
        text = clean(str(error))
    except Exception:
        text = ""
    return text if len(text) <= 2 * TEXT_SHOWN else text[: 2 * TEXT_SHOWN] + "…"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a call gave: a value (plain data), or the name of the exception it raised, with its message.

    Without an exception the message is how the value was written, where that says more: a truth value is kept as 1 or 0.
    """

    value: object = None
    error: str | None = None
    message: str = ""

    @classmethod
    def raised(cls, error: BaseException) -> Outcome:
        """A subclass of an exception that the contract names counts as that exception."""
        for kind in (MemoryError, KeyError, NotImplementedError):
            if issubclass(type(error), kind):    # `isinstance` believes an object that claims another class
                return cls(error=kind.__name__)
        return cls(error=_name(type(error)), message=_message(error))

    def to_json(self) -> list:
        return [self.value, self.error, self.message]

    @classmethod
    def from_json(cls, data: list) -> Outcome:
        """The inverse of `to_json`; raises ValueError on anything of another shape."""
        if type(data) is not list or len(data) != 3:
            raise ValueError("not an outcome")
        value, error, message = data
        if not (error is None or type(error) is str) or type(message) is not str:
            raise ValueError("not an outcome")
        return cls(value, error, message)

    def __str__(self) -> str:
        if self.error:
            return f"{self.error} was raised" + (f" ({self.message})" if self.message else "")
        return f"returned {self.shown}"

    @property
    def exception(self) -> str:
        """The exception as Python writes it."""
        return f"{self.error}: {self.message}" if self.message else str(self.error)

    @property
    def shown(self) -> str:
        """The value as a learner would write it."""
        if self.message in ("True", "False"):
            return self.message
        if isinstance(self.value, dict) and "shown" in self.value:
            return str(self.value["shown"])
        return repr(self.value)
