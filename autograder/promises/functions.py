"""The promises of the lessons' functions, each a relation between the arguments and the result; and the cases they are tried on."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from autograder.drive import call, snapshot
from autograder.promises.base import Broken, Promise
from autograder.record import Outcome, State, Unreadable, number, numbers, plain, show


@dataclass
class Case:
    """One call of a function (or one group of calls that are judged together) and what it gave.

    An answer's case has its question's key for args. broken: ids of the promises that it broke, once it has been judged.
    """

    args: object
    outcome: Outcome
    broken: frozenset[str] = frozenset()

    @property
    def value(self) -> object:
        return self.outcome.value


@dataclass(frozen=True)
class Function:
    """A function exercise: its cases, simplest first; how a result becomes plain data; its promises; how a case is written.

    needs: a package without which no call can be made. The judge never needs it.
    """

    cases: Callable[[bool, random.Random], Iterator[object]]
    promises: list[Promise]
    keep: Callable[[Callable, object], Outcome] = field(default=lambda function, args: _call(function, args))
    written: Callable[[str, object], list[str]] = field(default=lambda name, args: [f"{name}({', '.join(map(show, args))})"])
    needs: str | None = None


def _call(function: Callable, args: object) -> Outcome:
    return call(function, *args)


def _promise(id: str, statement: str, relation: Callable[[tuple, object], bool], expected: Callable[[tuple], str], hint: str, concerns: Callable[[tuple], bool] = lambda args: True) -> Promise:
    """A promise on the arguments and the returned number or truth value."""

    def test(case: Case):
        if not concerns(case.args):
            return None
        if case.outcome.error is None and type(case.value) in (int, float) and relation(case.args, case.value):
            return True
        return Broken(expected(case.args), str(case.outcome))

    return Promise(id, statement, test, frozenset(), hint)


def _fewest(tokens: int, block: int) -> int:
    """Found by trying, from no block upwards."""
    return next(k for k in itertools.count() if k * block >= tokens)


def _holds(tokens: int, block: int, k: float) -> bool:
    """Whether k blocks hold the tokens and one block fewer would not."""
    return (k - 1) * block < tokens <= k * block and k == int(k)


# ---- lesson 01 -------------------------------------------------------------------------------------------------


def _token_cases(thorough: bool, rng: random.Random) -> Iterator[tuple]:
    yield from ((n, size) for size in (4, 1, 16) for n in range(2 * size + 2))
    yield from ((33, 16), (20, 16), (32, 16), (2000, 16), (2005, 16))
    for _ in range(200 if thorough else 10):
        size = rng.randint(1, 64)
        yield rng.randint(0, 40) * size + rng.choice((0, 0, 1, size - 1, rng.randrange(size))), size


BLOCKS_NEEDED = Function(
    _token_cases,
    [
        _promise("enough", "The blocks hold all tokens.", lambda a, k: k * a[1] >= a[0] and k == int(k), lambda a: f"returned {_fewest(*a)}", "A last block that is only partly filled is still a whole block: round up, not down.", lambda a: a[0] > 0),
        _promise("no-spare", "One block fewer would not hold them: a multiple of the block size needs no spare block.", lambda a, k: (k - 1) * a[1] < a[0] and k == int(k), lambda a: f"returned {_fewest(*a)}", "`n // size + 1` is one too many when n is a multiple of the size."),
        _promise("nothing-for-nothing", "0 tokens need 0 blocks.", lambda a, k: k == 0, lambda a: "returned 0", "Nothing stored, nothing reserved: that is the point of paging.", lambda a: a[0] == 0),
    ],
)

SLACK = Function(
    _token_cases,
    [
        _promise("fills-up", "Tokens and slack together fill whole blocks.", lambda a, s: (a[0] + s) % a[1] == 0, lambda a: f"returned {_fewest(*a) * a[1] - a[0]}", "slack = slots − tokens, and slots = blocks × block size."),
        _promise("within-one-block", "The slack lies in the last block: at least 0, and less than one block.", lambda a, s: 0 <= s < a[1], lambda a: f"returned {_fewest(*a) * a[1] - a[0]}", "When the tokens fill their blocks the slack is 0, not a whole block."),
    ],
)


def _fraction_right(args: tuple, value: float) -> bool:
    slots = _fewest(*args) * args[1]
    return abs(value * slots - (slots - args[0])) <= 1e-9 * slots


def _fraction(args: tuple) -> str:
    slots = _fewest(*args) * args[1]
    return f"returned {(slots - args[0]) / slots!r}"


SLACK_FRACTION = Function(
    _token_cases,
    [
        _promise("of-the-slots", "The slack as a fraction of the allocated slots.", _fraction_right, _fraction, "Name the denominator: the slots of this allocation, neither the tokens nor all of the memory; and a fraction (0.3125), not a percentage.", lambda a: a[0] > 0),
        _promise("no-slots-no-waste", "0.0 for 0 tokens.", lambda a, v: v == 0, lambda a: "returned 0.0", "Without a slot there is nothing to divide by; answer that case first.", lambda a: a[0] == 0),
    ],
)


def _hole_cases(thorough: bool, rng: random.Random) -> Iterator[tuple]:
    for size in range(6):
        for chosen in itertools.product((False, True), repeat=size):
            yield {slot for slot, taken in enumerate(chosen) if taken}, size
    yield set(range(16, 32)) | set(range(64, 80)), 96
    for _ in range(60 if thorough else 5):
        size = rng.randint(6, 200)
        yield {s for s in range(size) if rng.random() < rng.choice((0.05, 0.3, 0.8))}, size


def _holes(occupied: set[int], size: int) -> list[int]:
    """Lengths of all runs of free neighbours."""
    text = "".join("x" if slot in occupied else "." for slot in range(size))
    return [len(run) for run in text.split("x")]


LARGEST_HOLE = Function(
    _hole_cases,
    [
        _promise("is-there", "There is a run of free neighbours that long.", lambda a, n: n == 0 or n in _holes(*a), lambda a: f"returned {max(_holes(*a))}", "The free slots must be neighbours; the number of all free slots is another thing."),
        _promise("none-longer", "No run of free neighbours is longer.", lambda a, n: n >= max(_holes(*a)), lambda a: f"returned {max(_holes(*a))}", "Look at the last run too: it may end at the pool's end instead of at an occupied slot."),
        _promise("full-pool", "0 if no slot is free.", lambda a, n: n == 0, lambda a: "returned 0", "A full pool has no hole.", lambda a: max(_holes(*a)) == 0),
    ],
    written=lambda name, a: [f"{name}({{{', '.join(map(str, sorted(a[0])))}}}, {a[1]})" if a[0] else f"{name}(set(), {a[1]})"],
)

# ---- lesson 02 -------------------------------------------------------------------------------------------------


def _prefix_cases(thorough: bool, rng: random.Random) -> Iterator[tuple]:
    yield from ((n, size) for size in (4, 1, 16) for n in range(2 * size + 2))
    yield from ((32, 16), (40, 16), (47, 16))
    for _ in range(100 if thorough else 10):
        yield rng.randint(0, 3000), rng.randint(1, 64)


FULL_SHARED_BLOCKS = Function(
    _prefix_cases,
    [
        _promise("only-full", "Only blocks that the prefix fills completely are counted.", lambda a, k: k * a[1] <= a[0] and k == int(k), lambda a: f"returned {_fewest(a[0] + 1, a[1]) - 1}", "The partly filled block also holds each request's own tokens: it differs, so it is not shared."),
        _promise("all-full", "Every block that the prefix fills completely is counted.", lambda a, k: (k + 1) * a[1] > a[0] and k == int(k), lambda a: f"returned {_fewest(a[0] + 1, a[1]) - 1}", "A prefix that ends exactly at a block's end fills that block too."),
    ],
)


def _totals_cases(thorough: bool, rng: random.Random) -> Iterator[tuple]:
    yield [], 4
    yield from (([n], 4) for n in range(10))
    yield from (([a, b], 4) for a in range(6) for b in range(6))
    yield from (([52, 52, 52], 16), ([60, 60, 60], 16), ([2300] * 4, 16))
    for _ in range(60 if thorough else 5):
        size = rng.randint(1, 32)
        yield [rng.randint(0, 200) for _ in range(rng.randint(0, 8))], size


def _sum(args: tuple) -> int:
    return sum(_fewest(t, args[1]) for t in args[0])


BLOCKS_WITHOUT_SHARING = Function(
    _totals_cases,
    [
        _promise("each-on-its-own", "Every request has its own blocks, rounded up request by request.", lambda a, k: k == _sum(a), lambda a: f"returned {_sum(a)}", "Round up for each request and then add: two half-filled blocks of two requests are two blocks.", lambda a: bool(a[0])),
        _promise("no-requests", "No requests, no blocks.", lambda a, k: k == 0, lambda a: "returned 0", "The sum of an empty list is 0.", lambda a: not a[0]),
    ],
)


def _sharing_cases(thorough: bool, rng: random.Random) -> Iterator[tuple]:
    for prefix in range(9):
        yield from ((prefix, [prefix + own], 4) for own in range(6))
    for prefix in range(9):
        yield from ((prefix, [prefix + a, prefix + b], 4) for a in range(5) for b in range(5))
    yield from ((32, [52] * 3, 16), (40, [60] * 3, 16), (32, [52], 16), (2005, [2305] * 4, 16), (2000, [2300] * 4, 16))
    for _ in range(60 if thorough else 5):
        size, prefix = rng.randint(1, 32), rng.randint(0, 200)
        yield prefix, [prefix + rng.randint(0, 100) for _ in range(rng.randint(1, 8))], size


def _shared(args: tuple) -> int:
    prefix, totals, block = args
    full = next(k for k in itertools.count() if (k + 1) * block > prefix)
    return full + sum(_fewest(t - full * block, block) for t in totals)


BLOCKS_WITH_SHARING = Function(
    _sharing_cases,
    [
        _promise("one-request", "A single request needs the blocks that it needs alone.", lambda a, k: k == _fewest(a[1][0], a[2]), lambda a: f"returned {_fewest(a[1][0], a[2])}", "With nobody to share with, sharing saves nothing and costs nothing.", lambda a: len(a[1]) == 1),
        _promise("full-blocks-once", "With several requests the prefix's full blocks count once, the rest of each request by itself.", lambda a, k: k == _shared(a), lambda a: f"returned {_shared(a)}", "What remains of a request is its total less the FULL shared blocks; the partly filled prefix block belongs to each request.", lambda a: len(a[1]) > 1),
    ],
)


def _block(model: str = "m", tokens: tuple = (1, 2), start: int = 0) -> dict:
    return {"model": model, "tokens": list(tokens), "start": start}


def _share_cases(thorough: bool, rng: random.Random) -> Iterator[tuple]:
    base = _block()
    yield base, _block()
    yield base, _block(model="n")
    yield base, _block(tokens=(1, 3))
    yield base, _block(start=2)
    yield base, _block(tokens=(2, 1))
    yield base, _block(tokens=(1,))
    yield base, _block(tokens=(1, 2, 3))
    yield _block(tokens=()), _block(tokens=())
    # One digit string, cut into tokens in two ways: the text looks the same.
    yield _block(tokens=(1, 23)), _block(tokens=(12, 3))
    yield _block(tokens=(0, 1)), _block(tokens=(0, 1, 0))
    for _ in range(100 if thorough else 5):
        pick = lambda: _block(rng.choice("mn"), tuple(rng.randrange(2) for _ in range(rng.randrange(4))), rng.choice((0, 16)))  # noqa: E731
        yield pick(), pick()


def _alike(args: tuple, key: str) -> bool:
    return args[0][key] == args[1][key]


def _must_differ(key: str, statement: str, hint: str) -> Promise:
    others = {"model", "tokens", "start"} - {key}
    return _promise(f"same-{key}", statement, lambda a, v: v == 0, lambda a: "returned False", hint, lambda a: not _alike(a, key) and all(_alike(a, k) for k in others))


CAN_SHARE = Function(
    _share_cases,
    [
        _promise("shares", "Blocks of the same model, tokens and start can be shared.", lambda a, v: v == 1, lambda a: "returned True", "When all three agree the keys and values are identical; nothing else matters.", lambda a: a[0] == a[1]),
        _must_differ("model", "Blocks of different models cannot be shared.", "Other weights give other keys and values for the same text."),
        _must_differ("tokens", "Blocks with different token ids cannot be shared.", "Compare the lists of token ids: order, length and where the text is cut all matter."),
        _must_differ("start", "Blocks at different positions cannot be shared.", "Positions enter the keys: the same tokens later in a text have another cache."),
        _promise("all-three", "When several of the three differ, nothing can be shared.", lambda a, v: v == 0, lambda a: "returned False", "All three must agree at once.", lambda a: sum(not _alike(a, k) for k in ("model", "tokens", "start")) > 1),
    ],
)


def _key_cases(thorough: bool, rng: random.Random) -> Iterator[list]:
    """Groups of calls (tokens, block, model); keys are compared within a group."""
    yield [([], 2, "m")]
    yield [([1], 2, "m")]
    yield [([1, 2], 2, "m")]
    yield [([1, 2, 3], 2, "m")]
    yield [([1, 2, 3, 4], 2, "m")]
    yield [([1, 2], 2, "m"), ([1, 2], 2, "m")]
    yield [([1, 2], 2, "m"), ([1, 2, 3], 2, "m")]
    yield [([1, 2], 2, "m"), ([1, 2], 2, "n")]
    yield [([1, 2], 2, "m"), ([2, 1], 2, "m")]
    yield [([1, 2, 3, 4], 2, "m"), ([5, 6, 3, 4], 2, "m")]
    yield [([1, 2, 1, 2], 2, "m")]
    yield [([1, 23], 2, "m"), ([12, 3], 2, "m")]
    yield [([-1, 0], 2, "m"), ([-2, 0], 2, "m")]
    for _ in range(60 if thorough else 5):
        # One block size in a group: chained keys of different sizes need not agree.
        block = rng.choice((1, 2, 3))
        yield [([rng.randrange(3) for _ in range(rng.randrange(10))], block, rng.choice("mn")) for _ in range(rng.randint(2, 4))]


def _keep_keys(function: Callable, group: list) -> Outcome:
    """Keys by what they equal: each list of keys becomes a list of numbers, equal numbers for equal keys."""
    seen: dict[object, int] = {}
    lists = []

    def collect(tokens: list, block: int, model: str) -> None:
        keys = list(itertools.islice(iter(function(tokens, block, model)), len(tokens) + 1000))
        lists.append([seen.setdefault(key, len(seen)) for key in keys])

    for args in group:
        outcome = call(collect, *args)
        if outcome.error:
            return outcome
    return Outcome({"keys": lists})


def _key_lists(case: Case) -> list[list[int]] | None:
    """The recorded keys, if they have the shape that was asked for."""
    value = case.value
    lists = value.get("keys") if isinstance(value, dict) else None
    if type(lists) is list and len(lists) == len(case.args) and all(type(x) is list and all(type(k) is int for k in x) for x in lists):
        return lists
    return None


def _key_pairs(case: Case) -> Iterator[tuple[int, int, bool]]:
    """Every two keys of the group, and whether model and all tokens up to their blocks' ends agree."""
    flat = []
    for (tokens, block, model), keys in zip(case.args, _key_lists(case), strict=True):
        flat += [(key, model, tokens[: (i + 1) * block]) for i, key in enumerate(keys)]
    for (k, *a), (j, *b) in itertools.combinations(flat, 2):
        yield k, j, a == b


def _keys_promise(id: str, statement: str, test: Callable[[Case], object], hint: str) -> Promise:
    def guarded(case: Case):
        if case.outcome.error or _key_lists(case) is None:
            return Broken("one hashable key for each full block", str(case.outcome)) if id == "one-key-per-full-block" else None
        return test(case)

    return Promise(id, statement, guarded, frozenset(), hint)


def _right_number(case: Case):
    for (tokens, block, _), keys in zip(case.args, _key_lists(case), strict=True):
        if not len(keys) * block <= len(tokens) < (len(keys) + 1) * block:
            return Broken(f"{next(k for k in itertools.count() if (k + 1) * block > len(tokens))} keys for {len(tokens)} tokens in blocks of {block}", f"{len(keys)} keys")
    return True


def _equal_enough(case: Case):
    pairs = [(k, j) for k, j, same in _key_pairs(case) if same]
    return None if not pairs else all(k == j for k, j in pairs) or Broken("equal keys for equal model and prefix", "different keys")


def _different_enough(case: Case):
    pairs = [(k, j) for k, j, same in _key_pairs(case) if not same]
    return None if not pairs else all(k != j for k, j in pairs) or Broken("different keys where the model or a token before the block's end differs", "equal keys")


BLOCK_KEYS = Function(
    _key_cases,
    [
        _keys_promise("one-key-per-full-block", "There is one hashable key for each full block, and none for a partly filled one.", _right_number, "Go from block end to block end and stop before the one that the tokens do not reach; a list is not hashable, a tuple is."),
        _keys_promise("equal-for-equal", "Keys are equal where the model and all tokens up to the end of the block are equal.", _equal_enough, "The key must depend on nothing else: not on the tokens behind the block, not on the object."),
        _keys_promise("different-for-different", "Keys differ where the model or any token up to the end of the block differs.", _different_enough, "A block's keys and values depend on everything before it: chain the key before it, or take the whole prefix, and the model."),
    ],
    _keep_keys,
    lambda name, group: [f"{name}({tokens}, {block}, {model!r})" for tokens, block, model in group],
)


def _match_cases(thorough: bool, rng: random.Random) -> Iterator[tuple]:
    for length in range(5):
        keys = list(range(1, length + 1))
        for chosen in itertools.product((True, False), repeat=length):
            yield {k for k, there in zip(keys, chosen, strict=True) if there}, keys
    yield {1, 2, 3, 9}, [1, 2]
    yield {"x", ("m", 1)}, [("m", 1), "x", "y"]
    for _ in range(60 if thorough else 5):
        keys = rng.sample(range(100), rng.randint(0, 12))
        yield set(rng.sample(range(100), rng.randint(0, 90))) | set(keys[: rng.randint(0, len(keys))]), keys


def _leading(args: tuple) -> int:
    return next((n for n, key in enumerate(args[1]) if key not in args[0]), len(args[1]))


MATCH_PREFIX = Function(
    _match_cases,
    [
        _promise("stops-at-first-miss", "Counting stops at the first key that is not cached; a later hit does not count.", lambda a, n: n == _leading(a), lambda a: f"returned {_leading(a)}", "A block behind a gap cannot be used: its keys and values rest on the missing one.", lambda a: _leading(a) < len(a[1])),
        _promise("all-cached", "When every key is cached, all are counted.", lambda a, n: n == len(a[1]), lambda a: f"returned {len(a[1])}", "The loop may end without meeting a miss.", lambda a: _leading(a) == len(a[1])),
    ],
)

# ---- lesson 03 -------------------------------------------------------------------------------------------------


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
    return _state(num_blocks, seqs), num_blocks, size


def _state(num_blocks: int, seqs: dict) -> State:
    ref: dict[int, int] = {}
    for blocks, _ in seqs.values():
        for b in blocks:
            ref[b] = ref.get(b, 0) + 1
    return State(tuple(b for b in range(num_blocks) if b not in ref), ref, seqs)


def _eviction_cases(thorough: bool, rng: random.Random) -> Iterator[tuple]:
    yield _state(3, {}), 3, 4
    yield _state(3, {"a": ((0,), 4)}), 3, 4
    yield _state(4, {"a": ((0, 1), 5)}), 4, 4
    yield _state(4, {"a": ((1, 0), 5)}), 4, 4
    yield _state(4, {"a": ((0,), 3), "b": ((1,), 3)}), 4, 4
    yield _state(4, {"a": ((0, 1), 5), "b": ((0, 2), 6)}), 4, 4
    yield _state(4, {"a": ((2, 0), 5), "b": ((2, 1), 6)}), 4, 4
    yield _state(6, {"a": ((0, 1), 5), "b": ((0, 1), 5), "c": ((2,), 1)}), 6, 4
    for _ in range(60 if thorough else 10):
        yield _pool_state(rng, rng.randint(1, 7))


def _keep_order(function: Callable, args: tuple) -> Outcome:
    state, num_blocks, block_size = args
    got: list[tuple[int, ...]] = []
    outcome = call(lambda: got.append(_order(function(snapshot(state, num_blocks, block_size)), num_blocks)))
    return outcome if outcome.error else Outcome({"order": list(got[0])}) if got[0] is not None else Outcome({"shown": "no list of block numbers"})


def _order(result: object, num_blocks: int) -> tuple[int, ...] | None:
    try:
        return numbers(result, 2 * num_blocks + 8)
    except Unreadable:
        return None


def _given(case: Case) -> tuple[State, list[int] | None]:
    value = case.value
    order = value.get("order") if isinstance(value, dict) else None
    return case.args[0], order if type(order) is list and all(type(b) is int for b in order) else None


def _each_once(case: Case):
    state, order = _given(case)
    right = order is not None and sorted(order) == sorted(state.ref)
    return right or Broken(f"the blocks {sorted(state.ref)}, each once", str(case.outcome) if order is None else f"returned {order}")


def _ordered(rank: str) -> Callable[[Case], object]:
    """Neighbours in the order: among those that agree in the ranks before this one, this rank must not be out of order."""

    def test(case: Case):
        state, order = _given(case)
        if order is None or sorted(order) != sorted(state.ref):
            return None
        place = {b: i for blocks, _ in state.seqs.values() for i, b in enumerate(blocks)}
        ranks = {"count": lambda b: state.ref[b], "index": lambda b: -place[b], "number": lambda b: b}
        earlier = list(ranks)[: list(ranks).index(rank)]
        relevant = False
        for x, y in itertools.combinations(order, 2):
            if all(ranks[r](x) == ranks[r](y) for r in earlier) and ranks[rank](x) != ranks[rank](y):
                relevant = True
                if ranks[rank](x) > ranks[rank](y):
                    words = lambda b: f"block {b} (count {state.ref[b]}, logical index {place[b]})"  # noqa: E731
                    return Broken(f"{words(y)} before {words(x)}", f"returned {order}")
        return True if relevant else None

    return test


EVICTION_ORDER = Function(
    _eviction_cases,
    [
        Promise("each-block-once", "Every block in use is in the order, once; a free block is not.", _each_once, hint="A shared block stands in several tables and is still one block."),
        Promise("lower-count-first", "A block with a lower reference count comes before one with a higher count.", _ordered("count"), hint="Giving up a shared prefix hurts every sequence that uses it."),
        Promise("tails-before-heads", "Among equal counts the higher logical index comes first.", _ordered("index"), hint="A block is of no use without the blocks before it, so give up tails first; the index is the place in the table, not the block's number."),
        Promise("then-by-number", "Among equal counts and indices the lower block number comes first.", _ordered("number"), hint="The last tie is broken by the physical number, ascending."),
    ],
    _keep_order,
    lambda name, args: [f"tables {{{', '.join(f'{n!r}: {list(b)}' for n, (b, _) in args[0].seqs.items())}}}", f"{name}(manager)"],
)

# ---- numbers that the reader works out ------------------------------------------------------------------------


@dataclass(frozen=True)
class Question:
    """A question with a number (or True/False) as its answer. right tells whether a value answers it."""

    key: str
    text: str
    right: Callable[[float], bool]
    hint: str


def question_promise(question: Question) -> Promise:
    def test(case: Case):
        if case.outcome.error or case.value is None:
            return None
        value = case.value
        return (type(value) in (int, float) and bool(question.right(value))) or Broken(question.text, f"your answer is {case.outcome.shown}")

    return Promise(question.key, question.text, test, frozenset(), question.hint)


def read_answer(answers: object, key: str) -> Outcome:
    """One answer out of the learner's dict, as plain data; None stands for not answered."""
    try:
        value = answers[key]
    except Exception:
        return Outcome(None)
    if isinstance(value, (set, frozenset, list, tuple)) and len(value) == 1:
        (value,) = value
    try:
        return Outcome(None if value is None else number(value))
    except Exception:
        return Outcome(plain(value))

