"""The promises of `eviction_order`."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

from autograder.drive import call, snapshot
from autograder.promises.base import Broken, Promise
from autograder.promises.functions import Case, Function, again
from autograder.record import Outcome, State, Unreadable, numbers


def _pool_state(rng: random.Random, names: int) -> tuple[State, int, int]:
    """Sequences that share prefixes, as forks and copies leave them; written down as data, without any manager."""
    size = rng.choice((2, 4, 16))
    num_blocks = 4 * names + 4
    free = list(range(num_blocks))
    rng.shuffle(free)
    seqs: dict[str, tuple[tuple[int, ...], int]] = {}
    for n in range(names):
        parent = rng.choice(list(seqs.values()))[0] if seqs and rng.random() < 0.7 else ()
        table = parent[: rng.randint(0, len(parent))] + tuple(free.pop() for _ in range(rng.randint(0 if parent else 1, 2)))
        seqs[f"s{n}"] = table, max(0, len(table) * size - rng.randrange(size)) if table else 0
    if rng.random() < 0.3:    # a full pool: the same with no block left over
        used = sorted({b for table, _ in seqs.values() for b in table})
        number = {b: n for n, b in enumerate(rng.sample(used, len(used)))}
        num_blocks, seqs = len(number), {name: (tuple(number[b] for b in table), length) for name, (table, length) in seqs.items()}
    return _state(num_blocks, seqs), num_blocks, size


def _state(num_blocks: int, seqs: dict) -> State:
    ref: dict[int, int] = {}
    for blocks, _ in seqs.values():
        for b in blocks:
            ref[b] = ref.get(b, 0) + 1
    return State(tuple(b for b in range(num_blocks) if b not in ref), ref, seqs)


def _families(counts: list[int], names: list[str]) -> tuple[State, int, int]:
    """One block for each count, owned by so many sequences; the higher the count, the lower the number. All stand first in their tables."""
    owners = iter(names)
    tables = {next(owners): ((block,), 3) for block, count in enumerate(sorted(counts, reverse=True)) for _ in range(count)}
    return _state(len(counts) + 2, tables), len(counts) + 2, 4


def _alike_names(many: int) -> list[str]:
    return [f"{text}{n}" for n in range(many) for text in ("a", "A", " a", "a/")]


def _large(num_blocks: int, size: int, shared: int, own: int, names: list[str]) -> tuple[State, int, int]:
    """Sequences with a long common beginning and tails of their own; block numbers go down along a table."""
    free = list(range(num_blocks))
    head = tuple(free.pop() for _ in range(shared))
    tables = {name: head + tuple(free.pop() for _ in range(own)) for name in names}
    return _state(num_blocks, {name: (table, len(table) * size) for name, table in tables.items()}), num_blocks, size


def _eviction_cases(thorough: bool, rng: random.Random) -> Iterator[tuple]:
    def asked() -> Iterator[tuple]:
        yield _state(3, {}), 3, 4
        yield _state(3, {"a": ((0,), 4)}), 3, 4
        yield _state(4, {"a": ((0, 1), 5)}), 4, 4
        yield _state(4, {"a": ((1, 0), 5)}), 4, 4
        yield _state(4, {"a": ((0,), 3), "b": ((1,), 3)}), 4, 4
        yield _state(4, {"a": ((1,), 3), "b": ((0,), 3)}), 4, 4
        yield _state(4, {"a": ((0, 1), 5), "b": ((0, 2), 6)}), 4, 4
        yield _state(4, {"a": ((2, 0), 5), "b": ((2, 1), 6)}), 4, 4
        yield _state(3, {"a": ((2, 0), 8), "b": ((2, 1), 8)}), 3, 4
        yield _state(6, {"a": ((0, 1), 5), "b": ((0, 1), 5), "c": ((2,), 1)}), 6, 4
        yield _state(6, {"a": ((0, 1), 5), "A": ((0, 2), 5), "b": ((3,), 1)}), 6, 4
        yield _state(6, {"a": ((), 0), "b": ((5, 4), 8), "c": ((3, 2, 1), 9)}), 6, 4
        yield _families([2, 3, 4, 8, 9, 10, 11, 12], _alike_names(16))
        yield _families([15, 16, 17, 31, 33, 100], _alike_names(60))
        yield _large(40, 4, 1, 1, [f"s{n}" for n in range(9)])
        yield _large(140, 16, 12, 3, [f"s{n}" for n in range(12)])
        if thorough:
            yield _large(500, 2, 120, 130, ["a", "A"])
            yield _state(2_600, {"a": (tuple(range(2_500)), 5_000), "b": (tuple(range(2_500)), 5_000), "c": ((2_550,), 2)}), 2_600, 2
            yield _large(4096, 16, 1500, 100, [f"s{n}" for n in range(20)])
        for _ in range(60 if thorough else 10):
            yield _pool_state(rng, rng.randint(1, rng.choice((7, 7, 14))))

    return again(asked(), rng, thorough)


def _keep_order(function: Callable, args: tuple) -> Outcome:
    """The order, and whether the function changed the manager that it was shown."""
    state, num_blocks, block_size = args
    shown = snapshot(state, num_blocks, block_size)
    got: list[tuple[int, ...]] = []
    outcome = call(lambda: got.append(_order(function(shown), num_blocks)))
    changed = vars(shown) != vars(snapshot(state, num_blocks, block_size))
    if outcome.error:
        return outcome
    value = {"shown": "no list of block numbers"} if got[0] is None else {"order": list(got[0])}
    return Outcome({**value, "changed": True} if changed else value)


def _order(result: object, num_blocks: int) -> tuple[int, ...] | None:
    try:
        return numbers(result, 2 * num_blocks + 8)
    except Unreadable:
        return None


def given(case: Case) -> tuple[State, list[int] | None]:
    value = case.value
    order = value.get("order") if isinstance(value, dict) else None
    return case.args[0], order if type(order) is list and all(type(b) is int for b in order) else None


def _changes_nothing(case: Case):
    """Held only by a call that listed the blocks: whoever does nothing changes nothing either."""
    if isinstance(case.value, dict) and case.value.get("changed"):
        return Broken("`free`, `ref` and `seqs` as they were before the call", "the manager was changed")
    return True if _each_once(case) is True else None


def _list(blocks: list[int]) -> str:
    return f"[{', '.join(map(str, blocks[:40]))}{', …' if len(blocks) > 40 else ''}]"


def _each_once(case: Case):
    state, order = given(case)
    right = order is not None and sorted(order) == sorted(state.ref)
    return right or Broken(f"the blocks {_list(sorted(state.ref))}, each once", str(case.outcome) if order is None else f"returned {_list(order)}")


def _ordered(rank: str) -> Callable[[Case], object]:
    """Among blocks that agree in the ranks before this one, this rank must not fall along the order."""

    def test(case: Case):
        state, order = given(case)
        if order is None or sorted(order) != sorted(state.ref):
            return None
        place = {b: i for blocks, _ in state.seqs.values() for i, b in enumerate(blocks)}
        ranks = {"count": lambda b: state.ref[b], "index": lambda b: -place[b], "number": lambda b: b}
        earlier, own = list(ranks)[: list(ranks).index(rank)], ranks[rank]
        last: dict[tuple, int] = {}
        relevant = False
        for block in order:
            alike = tuple(ranks[r](block) for r in earlier)
            before = last.setdefault(alike, block)
            relevant = relevant or own(before) != own(block)
            if own(before) > own(block):
                words = lambda b: f"block {b} (count {state.ref[b]}, logical index {place[b]})"  # noqa: E731
                return Broken(f"{words(block)} before {words(before)}", f"returned {_list(order)}")
            last[alike] = block
        return True if relevant else None

    return test


EVICTION_ORDER = Function(
    _eviction_cases,
    [
        Promise("each-block-once", "Every block in use is in the order, once; a free block is not.", _each_once, hint="A shared block stands in several tables and is still one block."),
        Promise("lower-count-first", "A block with a lower reference count comes before one with a higher count.", _ordered("count"), hint="Giving up a shared prefix hurts every sequence that uses it."),
        Promise("tails-before-heads", "Among equal counts the higher logical index comes first.", _ordered("index"), hint="A block is of no use without the blocks before it, so give up tails first; the index is the place in the table, not the block's number."),
        Promise("then-by-number", "Among equal counts and indices the lower block number comes first.", _ordered("number"), hint="The last tie is broken by the physical number, ascending."),
        Promise("changes-nothing", "It changes nothing in the manager.", _changes_nothing, hint="`manager.seqs` and its tables are the manager's own: look at them, or copy before you change."),
    ],
    _keep_order,
    lambda name, args: [f"tables {{{', '.join(f'{n!r}: {_list(list(b))}' for n, (b, _) in args[0].seqs.items())}}}", f"{name}(manager)"],
)
