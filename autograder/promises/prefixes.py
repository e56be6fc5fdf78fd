"""The promises of lesson 2's functions: what is shared, what it saves, and which blocks are the same."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator

from autograder.drive import call
from autograder.promises.base import Broken, Promise
from autograder.promises.functions import WIDE, Case, Function, again, fills, holds, relation_promise
from autograder.record import Outcome, show

# ---- counting --------------------------------------------------------------------------------------------------


def _prefix_cases(thorough: bool, rng: random.Random) -> Iterator[tuple]:
    def asked() -> Iterator[tuple]:
        yield from ((n, size) for size in (4, 1, 16) for n in range(2 * size + 2))
        yield from ((32, 16), (40, 16), (47, 16))
        yield from WIDE
        for _ in range(100 if thorough else 10):
            size = rng.choice((rng.randint(1, 64), rng.randint(1, 5000)))
            yield rng.choice((rng.randint(0, 3000), rng.randint(0, 60) * size, rng.randint(1, 60) * size - 1)), size

    return again(asked(), rng, thorough)


def _full_right(a: tuple, k: float) -> bool:
    return fills(k, [a[0]], a[1])


FULL_SHARED_BLOCKS = Function(
    _prefix_cases,
    [
        relation_promise("only-full", "Only blocks that the prefix fills completely are counted.", lambda a, k: k * a[1] <= a[0] and k == int(k), _full_right, "The partly filled block also holds each request's own tokens: it differs, so it is not shared."),
        relation_promise("all-full", "Every block that the prefix fills completely is counted.", lambda a, k: (k + 1) * a[1] > a[0] and k == int(k), _full_right, "A prefix that ends exactly at a block's end fills that block too."),
    ],
)


def _totals_cases(thorough: bool, rng: random.Random) -> Iterator[tuple]:
    def asked() -> Iterator[tuple]:
        yield [], 4
        yield from (([n], 4) for n in range(10))
        yield from (([a, b], 4) for a in range(6) for b in range(6))
        yield from (([52, 52, 52], 16), ([60, 60, 60], 16), ([2300] * 4, 16), ([1] * 9, 4), ([5] * 20, 4), ([1], 64), ([1], 128), ([1, 1], 4096), ([300], 4), ([30_000] * 3, 2))
        if thorough:
            yield from (([1] * 2000, 4), ([rng.randint(0, 9000) for _ in range(300)], 16))
        for _ in range(60 if thorough else 5):
            size = rng.randint(1, rng.choice((32, 300)))
            yield [rng.randint(0, 10 * size) for _ in range(rng.randint(0, rng.choice((8, 40))))], size

    return again(asked(), rng, thorough)


def _each_right(a: tuple, k: float) -> bool:
    return holds(k, a[0], a[1])


BLOCKS_WITHOUT_SHARING = Function(
    _totals_cases,
    [
        relation_promise("each-on-its-own", "Every request has its own blocks, rounded up request by request.", _each_right, _each_right, "Round up for each request and then add: two half-filled blocks of two requests are two blocks.", lambda a: bool(a[0])),
        relation_promise("no-requests", "No requests, no blocks.", lambda a, k: k == 0, "returned 0", "The sum of an empty list is 0.", lambda a: not a[0]),
    ],
)


def _sharing_cases(thorough: bool, rng: random.Random) -> Iterator[tuple]:
    def asked() -> Iterator[tuple]:
        for prefix in range(9):
            yield from ((prefix, [prefix + own], 4) for own in range(6))
        for prefix in range(9):
            yield from ((prefix, [prefix + a, prefix + b], 4) for a in range(5) for b in range(5))
        yield from ((32, [52] * 3, 16), (40, [60] * 3, 16), (32, [52], 16), (2005, [2305] * 4, 16), (2000, [2300] * 4, 16))
        yield from ((4, [5] * 9, 4), (16, [20] * 40, 16), (0, [1, 1], 64), (0, [1, 2], 128), (49, [49, 50], 49), (98, [147, 99], 49), (127, [127, 129], 128), (0, [2000, 3000], 4), (2000, [5000, 2001], 1))
        if thorough:
            yield 2000, [rng.randint(2000, 4000) for _ in range(2000)], 16
        for _ in range(60 if thorough else 5):
            size = rng.randint(1, rng.choice((32, 300)))
            prefix = rng.randint(0, 8 * size)
            yield prefix, [prefix + rng.randint(0, 4 * size) for _ in range(rng.randint(1, rng.choice((8, 40))))], size

    return again(asked(), rng, thorough)


def shared_tokens(prefix: int, block: int) -> int:
    """The prefix's tokens that are in full blocks."""
    return prefix - prefix % block


def _sharing_right(a: tuple, k: float) -> bool:
    """Whether all of k's slots are accounted for: the full blocks of the prefix once, and what each request keeps, rounded up."""
    prefix, totals, block = a
    full = shared_tokens(prefix, block)
    return holds(k, [full, *(total - full for total in totals)], block)


BLOCKS_WITH_SHARING = Function(
    _sharing_cases,
    [
        relation_promise("one-request", "A single request needs the blocks that it needs alone.", lambda a, k: holds(k, a[1], a[2]), _sharing_right, "With nobody to share with, sharing saves nothing and costs nothing.", lambda a: len(a[1]) == 1),
        relation_promise("full-blocks-once", "With several requests the prefix's full blocks count once, the rest of each request by itself.", _sharing_right, _sharing_right, "What remains of a request is its total less the FULL shared blocks; the partly filled prefix block belongs to each request.", lambda a: len(a[1]) > 1),
    ],
)

# ---- which blocks are the same ---------------------------------------------------------------------------------


def _anew(text: str) -> str:
    """An equal text that is another object: equal values need not be one object."""
    return "".join(list(text))


def _block(model: str = "m", tokens: tuple | list = (1, 2), start: int = 0) -> dict:
    return {"model": _anew(model), "tokens": [int(str(t)) for t in tokens], "start": int(str(start))}


MODELS = (("m", "M"), ("small-1", "small-1-tuned"), ("small-1", "small-2"), ("small", "my-small"), ("small", "smart"), ("ab", "ba"), ("a b", "ab"), ("m", "m "), ("org/m", "other/m"), ("m:8", "m:4"))
STARTS = ((16, 32), (0, 256), (0, 65_536), (16, 20), (16, 17), (1000, 1016), (1, 2), (0, 1))
TOKENS = (
    ([1, 2, 3], [1, 4, 3]), ([1], [257]), ([1], [65_537]), ([1, 2, 3, 4], [1, 2, 5, 4]), ([1, 2, 3, 4], [4, 3, 2, 1]), ([0, 3], [2, 2]), ([1, 0], [0, 31]), ([1, 23, 4], [12, 3, 4]),
    ([1, 100], [11, 0]), ([0, 1], [0, 1, 0]), ([1, 2, 3, 4, 5], [1, 2, 3, 4, 6]), ([3, 3, 1], [3, 1, 1]), ([149_999], [149_998]), ([], [0]),
)  # fmt: skip


# Two tokens each that are the same text when joined: as they are, or padded to two, three, four or five digits.
JOINED = (([1, 23], [12, 3]), ([101, 10], [10, 110]), ([1001, 100], [100, 1100]), ([10_001, 1000], [1000, 11_000]), ([100_001, 10_000], [10_000, 110_000]))


def _share_cases(thorough: bool, rng: random.Random) -> Iterator[tuple]:
    def asked() -> Iterator[tuple]:
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
        for one, other in MODELS:
            yield _block(model=one), _block(model=other)
            yield _block(model=one), _block(model=one)
        for one, other in STARTS:
            yield _block(start=one), _block(start=other)
            yield _block(start=other), _block(start=other)
        for one, other in TOKENS + JOINED:
            yield _block(tokens=one), _block(tokens=other)
            yield _block(tokens=one), _block(tokens=one)
        yield _block(model="n", start=16), _block()
        yield _block(model="n", tokens=(3, 4)), _block()
        yield _block(tokens=(3, 4), start=16), _block()
        yield _block("n", (3, 4), 16), _block()
        for length in (16, 64, 300) if thorough else (16,):
            ids = [rng.randrange(150_000) for _ in range(length)]
            yield _block(tokens=ids), _block(tokens=ids)
            for at in (0, length // 2, length - 1, rng.randrange(length)):
                yield _block(tokens=ids), _block(tokens=[*ids[:at], (ids[at] + 1) % 150_000, *ids[at + 1 :]])
            yield _block(tokens=ids), _block(tokens=[ids[1], ids[0], *ids[2:]])
        for _ in range(100 if thorough else 5):
            pick = lambda: _block(rng.choice("mn"), tuple(rng.randrange(2) for _ in range(rng.randrange(4))), rng.choice((0, 16)))  # noqa: E731
            yield pick(), pick()

    return again(asked(), rng, thorough)


def _alike(args: tuple, key: str) -> bool:
    return args[0][key] == args[1][key]


def _must_differ(key: str, statement: str, hint: str) -> Promise:
    others = {"model", "tokens", "start"} - {key}
    return relation_promise(f"same-{key}", statement, lambda a, v: v == 0, "returned False", hint, lambda a: not _alike(a, key) and all(_alike(a, k) for k in others))


def _written_blocks(name: str, args: tuple) -> list[str]:
    a, b = args
    return [f"a = {show_block(a)}", f"b = {show_block(b)}{_where(a['tokens'], b['tokens'])}", f"{name}(a, b)"]


def show_block(block: dict) -> str:
    """A description of a block as a learner would write it; of many tokens the first and the last."""
    tokens = block["tokens"]
    inner = ", ".join(map(str, tokens)) if len(tokens) <= 12 else ", ".join(map(str, tokens[:6])) + ", …, " + ", ".join(map(str, tokens[-3:]))
    return f'{{"model": {show(block["model"])}, "tokens": [{inner}], "start": {block["start"]}}}'


def _where(a: list, b: list) -> str:
    at = next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), None)
    return "" if at is None or max(len(a), len(b)) <= 12 else f"    # {a[at]} and {b[at]} at index {at}"


CAN_SHARE = Function(
    _share_cases,
    [
        relation_promise("shares", "Blocks of the same model, tokens and start can be shared.", lambda a, v: v == 1, "returned True", "When all three agree the keys and values are identical; nothing else matters.", lambda a: a[0] == a[1]),
        _must_differ("model", "Blocks of different models cannot be shared.", "Other weights give other keys and values for the same text."),
        _must_differ("tokens", "Blocks with different token ids cannot be shared.", "Compare the lists of token ids: order, length and where the text is cut all matter."),
        _must_differ("start", "Blocks at different positions cannot be shared.", "Positions enter the keys: the same tokens later in a text have another cache."),
        relation_promise("all-three", "When several of the three differ, nothing can be shared.", lambda a, v: v == 0, "returned False", "All three must agree at once.", lambda a: sum(not _alike(a, k) for k in ("model", "tokens", "start")) > 1),
    ],
    written=_written_blocks,
)

# ---- keys ------------------------------------------------------------------------------------------------------


def _prompts(rng: random.Random, block: int, blocks: int, many: int) -> list[list[int]]:
    """Prompts of that many blocks that part at some block, in one token; some are equal."""
    base = [rng.randrange(150_000) for _ in range(block * blocks)]
    out = [base, list(base)]
    for _ in range(many):
        at = rng.randrange(len(base))
        out.append([*base[:at], rng.choice((base[at] ^ 256, base[at] ^ 1, base[at] + 65_536, rng.randrange(150_000))), *base[at + 1 :]])
    return out


def _key_cases(thorough: bool, rng: random.Random) -> Iterator[list]:
    """Groups of calls (tokens, block, model); keys are compared within a group."""

    def asked() -> Iterator[list]:
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
        yield [([1, 2, 3, 4], 2, "m"), ([2, 1, 3, 4], 2, "m")]
        yield [([1, 100], 2, "m"), ([11, 0], 2, "m"), ([110, 0], 2, "m")]
        yield [([1, 0], 2, "m"), ([0, 31], 2, "m"), ([0, 3], 2, "m"), ([31, 32], 2, "m"), ([31, 31], 2, "m")]
        yield [([1], 1, "m"), ([257], 1, "m"), ([65_537], 1, "m"), ([31], 1, "m"), ([32], 1, "m"), ([149_999], 1, "m"), ([1], 1, _anew("m"))]
        yield from ([(one, 2, "m"), (other, 2, "m")] for one, other in JOINED)
        yield [([121], 1, "m"), ([202], 1, "m")]    # equal sums, plain and weighted by place
        yield [([2], 1, "m1"), ([12], 1, "m"), ([1, 2], 1, "m"), ([1], 1, "2m"), ([1, 2], 1, "1m")]
        yield from ([([1, 2], 1, "small"), ([2], 1, f"small{sign}1")] for sign in "-_/:. ,")    # joined with a sign that a model's name may have
        yield [([1, 2], 2, model) for model in ("m", "M", "ma", "mb", "am", "bm", "ab", "ba", "m ", "org/m", "other/m", "small-1", "small-1-tuned")]
        yield [([1, 2, 3, 4, 5, 6], 2, "m"), ([1, 2, 3, 4, 5, 6], 2, "n"), ([7, 2, 3, 4, 5, 6], 2, "m"), ([1, 2, 3, 7, 5, 6], 2, "m")]
        # The same token ids as other numbers, so that equal keys are not one object by chance.
        yield [([int("1000"), int("2000")], 2, "m"), ([int("1000"), int("2000")], 2, _anew("m"))]
        for block, blocks in ((4, 5), (8, 3), (16, 2)):
            yield [(tokens, block, "m") for tokens in _prompts(rng, block, blocks, 4)]
        if thorough:
            yield [(tokens, 1, "m") for tokens in _prompts(rng, 1, 40, 12)]
            yield [(tokens, 16, "m") for tokens in _prompts(rng, 16, 12, 6)]
            yield [(list(range(1200)), 1, "m")]
            many = [([rng.randrange(150_000) for _ in range(5)], 5, "m") for _ in range(1500)]
            yield many + [(list(tokens), block, model) for tokens, block, model in many[:3]]
            yield [([1], 1, f"model-{n}") for n in range(120)]
        for _ in range(60 if thorough else 5):
            # One block size in a group: chained keys of different sizes need not agree.
            block = rng.choice((1, 2, 3, 4, 8))
            yield [([rng.randrange(3) for _ in range(rng.randrange(10))], block, rng.choice("mn")) for _ in range(rng.randint(2, 4))]

    return again(asked(), rng, thorough)


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


def key_lists(case: Case) -> list[list[int]] | None:
    """The recorded keys, if they have the shape that was asked for."""
    value = case.value
    lists = value.get("keys") if isinstance(value, dict) else None
    if type(lists) is list and len(lists) == len(case.args) and all(type(x) is list and all(type(k) is int for k in x) for x in lists):
        return lists
    return None


def _places(case: Case) -> Iterator[tuple[int, tuple, str]]:
    """For each key: the key, which prefix it must stand for (equal for equal model and tokens), and where it is, as words."""
    known: dict[tuple, tuple] = {}
    for number, ((tokens, block, model), keys) in enumerate(zip(case.args, key_lists(case), strict=True)):
        stands = (model,)
        for i, key in enumerate(keys):
            stands = known.setdefault((stands, *tokens[i * block : (i + 1) * block]), (len(known),))
            yield key, stands, f"key {i + 1}" + (f" of prompt {number + 1}" if len(case.args) > 1 else "")


def _keys_promise(id: str, statement: str, test: Callable[[Case], object], hint: str) -> Promise:
    def guarded(case: Case):
        if case.outcome.error or key_lists(case) is None:
            return Broken("one hashable key for each full block", str(case.outcome)) if id == "one-key-per-full-block" else None
        return test(case)

    return Promise(id, statement, guarded, frozenset(), hint)


def _right_number(case: Case):
    for (tokens, block, _), keys in zip(case.args, key_lists(case), strict=True):
        if not fills(len(keys), [len(tokens)], block):
            due = next(k for k in range(len(tokens) + 1) if fills(k, [len(tokens)], block))
            return Broken(f"{due} key{'s' * (due != 1)} for {len(tokens)} token{'s' * (len(tokens) != 1)} in blocks of {block}", f"{len(keys)} key{'s' * (len(keys) != 1)}")
    return True


def _first_clash(case: Case, by: int) -> tuple[str, bool]:
    """Two places that are equal in one way (by: 0 keys, 1 prefixes) and not in the other, as words; and whether any two are equal."""
    first: dict[object, tuple] = {}
    several = False
    for place in _places(case):
        known = first.setdefault(place[by], place)
        several = several or known is not place
        if known[1 - by] != place[1 - by]:
            return f"{known[2]} and {place[2]}", several
    return "", several


def _equal_enough(case: Case):
    clash, several = _first_clash(case, 1)
    return Broken("equal keys for equal model and prefix", f"{clash} are different") if clash else several or None


def _different_enough(case: Case):
    clash, _ = _first_clash(case, 0)
    if clash:
        return Broken("different keys where the model or a token before the block's end differs", f"{clash} are equal")
    return len({stands for _, stands, _ in _places(case)}) > 1 or None


def _written_keys(name: str, group: list) -> list[str]:
    return [f"{name}({show(tokens)}, {block}, {model!r})" for tokens, block, model in group]


BLOCK_KEYS = Function(
    _key_cases,
    [
        _keys_promise("one-key-per-full-block", "There is one hashable key for each full block, and none for a partly filled one.", _right_number, "Go from block end to block end and stop before the one that the tokens do not reach; a list is not hashable, a tuple is."),
        _keys_promise("equal-for-equal", "Keys are equal where the model and all tokens up to the end of the block are equal.", _equal_enough, "The key must depend on nothing else: not on the tokens behind the block, not on the object."),
        _keys_promise("different-for-different", "Keys differ where the model or any token up to the end of the block differs.", _different_enough, "A block's keys and values depend on everything before it: chain the key before it, or take the whole prefix, and the model."),
    ],
    _keep_keys,
    _written_keys,
)


def _match_cases(thorough: bool, rng: random.Random) -> Iterator[tuple]:
    def asked() -> Iterator[tuple]:
        for length in range(5):
            keys = list(range(1, length + 1))
            for chosen in itertools.product((True, False), repeat=length):
                yield {k for k, there in zip(keys, chosen, strict=True) if there}, keys
        yield {1, 2, 3, 9}, [1, 2]
        yield {("x",), ("m", 1)}, [("m", 1), ("x",), ("y",)]
        yield {}, ["a"]
        yield {"a": 0}, ["a"]
        yield {"a": 0, "b": None}, ["a", "b", "c"]
        yield {1: 2, 2: 3}, [1, 3]
        yield {"a": "x"}, ["x"]
        yield {("m", 1): 5, ("m", 1, 2): 7}, [("m", 1), ("m", 1, 2), ("m", 1, 2, 3)]
        # Equal keys that are two objects, and keys that only look alike. Keys of one case are of one kind, as one
        # `block_keys` makes them: work that sorts or compares them is right.
        yield {_anew("key one"), _anew("key three")}, [_anew("key one"), _anew("key two")]
        yield {int("1000"), int("1001")}, [int("1000"), int("1002")]
        yield {(_anew("m"), 1)}, [(_anew("m"), 1)]
        yield {"1", "2"}, ["1", " 1"]
        yield {-1}, [-2]
        yield {0}, [2**61 - 1]
        yield {("m", "12")}, [("m", "1", "2")]
        for length in (17, 60, 2000):
            yield set(range(length)), list(range(length))
            yield set(range(length)) - {length - 2}, list(range(length))
            yield dict.fromkeys(range(length // 2), 0), list(range(length))
        for _ in range(60 if thorough else 5):
            keys = rng.sample(range(100), rng.randint(0, 12))
            cached = set(rng.sample(range(100), rng.randint(0, 90))) | set(keys[: rng.randint(0, len(keys))])
            yield (cached if rng.random() < 0.7 else dict.fromkeys(cached, rng.randrange(2))), keys

    return again(asked(), rng, thorough)


def hits(case_args: tuple) -> list[bool]:
    """For each key whether it is cached."""
    return [key in case_args[0] for key in case_args[1]]


def leads(a: tuple, n: float) -> bool:
    """Whether just n keys from the front on are cached: these are, and the next is not or there is none."""
    found = hits(a)
    return n == int(n) and 0 <= n <= len(found) and all(found[: int(n)]) and not any(found[int(n) : int(n) + 1])


MATCH_PREFIX = Function(
    _match_cases,
    [
        relation_promise("stops-at-first-miss", "Counting stops at the first key that is not cached; a later hit does not count.", leads, leads, "A block behind a gap cannot be used: its keys and values rest on the missing one.", lambda a: not all(hits(a))),
        relation_promise("all-cached", "When every key is cached, all are counted.", lambda a, n: n == len(a[1]), lambda a, n: n == len(a[1]), "The loop may end without meeting a miss.", lambda a: all(hits(a))),
    ],
)
