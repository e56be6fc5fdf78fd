"""The promises of lesson 4's functions, which work on tensors; and the cases they are tried on.

A case is plain data, and so is what is recorded of a call: shapes, names of dtypes and lists of numbers. Only `keep_…`,
which makes the call, needs torch; the judge works without it.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from autograder.drive import call
from autograder.needs import need
from autograder.promises.base import Broken, Promise
from autograder.promises.functions import Case, Function
from autograder.record import Outcome, show

TOLERANCE = 1e-4    # absolute, and relative to what is expected; 32-bit sums in another order differ by far less
MOST_NUMBERS = 4_096
PRINTED = 24        # numbers; larger tensors are described by their shape


@dataclass(frozen=True)
class Grid:
    """A tensor as plain data: its numbers row by row. A number that is not finite stands as None."""

    shape: tuple[int, ...]
    dtype: str
    numbers: tuple[float | None, ...]

    def rows(self, dimensions: int) -> list[tuple]:
        """The numbers in equal pieces, one for each index of the first `dimensions` dimensions."""
        pieces = math.prod(self.shape[:dimensions])
        width = len(self.numbers) // pieces if pieces else 0
        return [self.numbers[n * width : (n + 1) * width] for n in range(pieces)]

    def tensor(self):
        """The same as a new torch tensor."""
        torch = need("torch", "This check")
        return torch.tensor(self.numbers, dtype=getattr(torch, self.dtype)).reshape(self.shape)

    def to_json(self) -> list:
        return [list(self.shape), self.dtype, list(self.numbers)]

    def __str__(self) -> str:
        if len(self.numbers) > PRINTED:
            return f"… shape {self.shape}, {self.dtype}"
        kind = "" if self.dtype == "float32" else f", dtype=torch.{self.dtype}"
        return f"torch.tensor({_nested(self.shape, [_short(x) for x in self.numbers])}{kind})"


def _short(x: float | None) -> str:
    """A number as torch prints it, with at most four digits behind the point."""
    if x is None:
        return "nan"
    text = f"{x:.4f}".rstrip("0")
    return text if text != "-0." else "0."


def _nested(shape: tuple[int, ...], texts: list[str]) -> str:
    if not shape:
        return texts[0] if texts else ""
    if len(shape) == 1:
        return f"[{', '.join(texts)}]"
    step = math.prod(shape[1:])
    return f"[{', '.join(_nested(shape[1:], texts[n * step : (n + 1) * step]) for n in range(shape[0]))}]"


def grid_of(recorded: object) -> Grid | None:
    """The recorded tensor; None if what was recorded is of another form, whoever recorded it."""
    if type(recorded) is not list or len(recorded) != 3:
        return None
    shape, dtype, numbers = recorded
    if type(shape) is not list or type(dtype) is not str or type(numbers) is not list:
        return None
    if not all(type(n) is int and n >= 0 for n in shape) or not all(x is None or type(x) in (int, float) for x in numbers):
        return None
    return Grid(tuple(shape), dtype, tuple(numbers)) if len(numbers) == math.prod(shape) else None


def recorded(tensor: object, short: bool = False) -> list | None:
    """What a tensor holds, as data that JSON takes; None for what is no tensor of numbers in memory, and for far too large ones."""
    torch = need("torch", "This check")
    try:
        if not isinstance(tensor, torch.Tensor):
            return None
        plain = torch.Tensor.detach(tensor).as_subclass(torch.Tensor).cpu()
        if plain.numel() > MOST_NUMBERS or plain.is_complex():
            return None
        numbers = plain.to(torch.float64).flatten().tolist()
    except Exception:  # sparse, quantised, on a device that holds nothing: no plain numbers
        return None
    return [list(plain.shape), str(plain.dtype).removeprefix("torch."), [_kept(x, short) for x in numbers]]


def _kept(x: float, short: bool) -> float | int | None:
    """Whole numbers are shorter without a point; short: to nine digits, which is all that a 32-bit number has."""
    if not math.isfinite(x):
        return None
    return int(x) if x == int(x) and abs(x) < 2**53 else float(f"{x:.9g}") if short else x


# ---- caches whose numbers tell where they come from ------------------------------------------------------------


# What a number loses if it is kept in fewer bits than its tensor has, on its way through another one.
FINE = {"float32": 2.0**-10, "float64": 2.0**-30}


def numbered(shape: tuple[int, ...], first: int, sign: int, dtype: str, fine: bool = False, gaps: int = 0) -> Grid:
    """A tensor of different numbers with changing signs; whole ones, small enough for every dtype of 16 bits and more.

    fine: with a fraction that only this dtype holds. gaps: every so many numbers are 0, as in a cache that is not full.
    """
    more = FINE.get(dtype, 0.0) if fine else 0
    return Grid(shape, dtype, tuple(0 if gaps and n % gaps == 0 else (sign if n % 2 else -sign) * (first + n + more) for n in range(math.prod(shape))))


@dataclass(frozen=True)
class Write:
    """One call of write_token. Shapes: caches (blocks, block_size, heads, head_dim); k and v (heads, head_dim)."""

    k_cache: Grid
    v_cache: Grid
    slot: int
    k: Grid
    v: Grid

    @property
    def block_size(self) -> int:
        return self.k_cache.shape[1]


@dataclass(frozen=True)
class Copy:
    """One call of copy_block. Shape of the caches: (layers, blocks, block_size, heads, head_dim)."""

    k_cache: Grid
    v_cache: Grid
    source: int
    target: int


def _write(blocks: int, size: int, heads: int, dim: int, slot: int, dtype: str = "float32", fine: bool = False, gaps: int = 0) -> Write:
    caches = (numbered((blocks, size, heads, dim), 1, sign, dtype, fine, gaps) for sign in (1, -1))
    new = (numbered((heads, dim), 1001, sign, dtype, fine, 2 if gaps > 1 else 0) for sign in (1, -1))
    (k_cache, v_cache), (k, v) = caches, new
    return Write(k_cache, v_cache, slot, k, v)


def _write_cases(thorough: bool, rng: random.Random) -> Iterator[Write]:
    yield from (_write(2, 2, 1, 1, slot) for slot in range(4))
    yield from (_write(3, 2, 1, 2, slot) for slot in range(6))
    yield from (_write(2, 4, 2, 1, slot) for slot in range(8))
    yield from (_write(3, 2, 2, 3, 4, dtype) for dtype in ("float64", "float16"))
    yield from (_write(3, 2, 2, 3, 3, dtype, fine=True) for dtype in FINE)
    yield from (_write(2, 2, 2, 2, 1, gaps=1), _write(2, 2, 2, 2, 2, gaps=3))    # an empty cache; zeros among what is written
    yield from (_write(4, 16, 1, 1, 37), _write(2, 3, 4, 24, 4), _write(2, 2, 8, 2, 1))
    if thorough:
        yield from (_write(20, 16, 1, 1, 300), _write(3, 33, 5, 1, 70))
    for _ in range(40 if thorough else 6):
        blocks, size = rng.randint(1, 6), rng.choice((1, 2, 3, 5, 8))
        yield _write(blocks, size, rng.randint(1, 3), rng.randint(1, 2), rng.randrange(blocks * size))


def _copy(layers: int, blocks: int, size: int, heads: int, dim: int, source: int, target: int, dtype: str = "float32", fine: bool = False, gaps: int = 0) -> Copy:
    k_cache, v_cache = (numbered((layers, blocks, size, heads, dim), 1, sign, dtype, fine, gaps) for sign in (1, -1))
    return Copy(k_cache, v_cache, source, target)


def _copy_cases(thorough: bool, rng: random.Random) -> Iterator[Copy]:
    yield from (_copy(1, 2, 1, 1, 1, source, 1 - source) for source in (0, 1))
    yield from (_copy(2, 2, 1, 1, 1, source, 1 - source) for source in (0, 1))
    yield from (_copy(3, 3, 2, 1, 1, *pair) for pair in itertools.permutations(range(3), 2))
    yield from (_copy(2, 3, 2, 2, 2, 2, 0, dtype) for dtype in ("float64", "float16"))
    yield from (_copy(2, 2, 2, 1, 2, 1, 0, dtype, fine=True) for dtype in FINE)
    yield from (_copy(1, 2, 3, 1, 1, 0, 1, gaps=2), _copy(2, 2, 3, 4, 24, 1, 0), _copy(1, 2, 2, 8, 2, 0, 1))
    if thorough:
        yield from (_copy(9, 3, 2, 1, 1, 2, 1), _copy(1, 40, 2, 1, 1, 37, 4), _copy(2, 2, 33, 1, 1, 0, 1))
    for _ in range(40 if thorough else 6):
        blocks = rng.randint(2, 6)
        yield _copy(rng.randint(1, 4), blocks, rng.randint(1, 4), rng.randint(1, 2), rng.randint(1, 2), *rng.sample(range(blocks), 2))


def keep_caches(function: Callable, case: Write | Copy) -> Outcome:
    """Call it; what both caches hold afterwards, and which of the other tensors were changed."""
    k_cache, v_cache = case.k_cache.tensor(), case.v_cache.tensor()
    if isinstance(case, Write):
        others = {"k": case.k.tensor(), "v": case.v.tensor()}
        outcome = call(function, k_cache, v_cache, case.slot, *others.values())
    else:
        others = {}
        outcome = call(function, k_cache, v_cache, case.source, case.target)
    if outcome.error:
        return outcome
    changed = [name for name, tensor in others.items() if recorded(tensor) != getattr(case, name).to_json()]
    return Outcome({"k_cache": recorded(k_cache), "v_cache": recorded(v_cache), "changed": changed})


def caches_after(case: Case) -> tuple[Grid, Grid] | None:
    """Both caches as recorded, if each has its shape and dtype still."""
    value = case.value if isinstance(case.value, dict) else {}
    after = grid_of(value.get("k_cache")), grid_of(value.get("v_cache"))
    before = case.args.k_cache, case.args.v_cache
    same = all(a and (a.shape, a.dtype) == (b.shape, b.dtype) for a, b in zip(after, before, strict=True))
    return after if same and case.outcome.error is None else None


def _trouble(case: Case) -> str:
    return str(case.outcome) if case.outcome.error else "a cache has another shape or dtype, or is no tensor any more"


NAMES = ("k_cache", "v_cache")


def _slots_changed(case: Case) -> list[list[int]]:
    """For each of the two caches the slots whose numbers are not what they were."""
    before = case.args.k_cache, case.args.v_cache
    return [[n for n, (x, y) in enumerate(zip(b.rows(2), a.rows(2), strict=True)) if x != y] for b, a in zip(before, caches_after(case), strict=True)]


def in_words(numbers: list[int], what: str) -> str:
    if not numbers:
        return f"no {what}"
    return f"{what}{'s' * (len(numbers) > 1)} {', '.join(map(str, numbers[:6]))}{', …' if len(numbers) > 6 else ''}"


def _written_to(which: int, name: str) -> Callable[[Case], object]:
    """Whether k (which = 0) or v (1) is in its slot."""

    def test(case: Case):
        write, after = case.args, caches_after(case)
        block, place = divmod(write.slot, write.block_size)
        expected = f"{name} in slot {write.slot} of {NAMES[which]}: block {block}, place {place}"
        if after is None:
            return Broken(expected, _trouble(case))
        if after[which].rows(2)[write.slot] == (write.k, write.v)[which].numbers:
            return True
        changed = _slots_changed(case)[which]
        there = f"slot {write.slot} holds something else than {name}" if write.slot in changed else f"slot {write.slot} is as it was"
        elsewhere = [slot for slot in changed if slot != write.slot]
        return Broken(expected, there + (f"; {in_words(elsewhere, 'slot')} changed" if elsewhere else ""))

    return test


def _other_slots(case: Case):
    after = caches_after(case)
    if after is None:
        return Broken("only one slot of each cache changes", _trouble(case))
    for name, changed in zip(NAMES, _slots_changed(case), strict=True):
        others = [slot for slot in changed if slot != case.args.slot]
        if others:
            return Broken(f"in {name} only slot {case.args.slot} changes", f"{in_words(others, 'slot')} changed")
    changed = case.value.get("changed")
    return True if changed == [] else Broken("k and v stay as they are", f"changed: {show(changed)}")


def _write_text(name: str, write: Write) -> list[str]:
    return [f"k_cache = {write.k_cache}", f"v_cache = {write.v_cache}", f"{name}(k_cache, v_cache, {write.slot}, {write.k}, {write.v})"]


WRITE_TOKEN = Function(
    _write_cases,
    [
        Promise("key-in-its-slot", "k is in its slot of k_cache: block `slot // block_size`, place `slot % block_size`.", _written_to(0, "k"), hint="The block size is `k_cache.shape[1]`; `divmod` gives block and place at once. Write into the tensor that was passed."),
        Promise("value-in-its-slot", "v is in the same slot of v_cache.", _written_to(1, "v"), hint="A token has a key and a value; both caches have the same slots."),
        Promise("other-slots-stay", "Nothing else changes: no other slot of either cache, nor k and v themselves.", _other_slots, hint="A block number alone names all of its slots; one slot is a block and a place in it."),
    ],
    keep_caches,
    _write_text,
    needs="torch",
)


def _copied(which: int, words: str) -> Callable[[Case], object]:
    """Whether the target block holds what the source block held, in every layer."""

    def test(case: Case):
        copy, after = case.args, caches_after(case)
        expected = f"block {copy.target} of {NAMES[which]} holds block {copy.source}'s {words} in every layer"
        if after is None:
            return Broken(expected, _trouble(case))
        before, layers = (copy.k_cache, copy.v_cache)[which], copy.k_cache.shape[0]
        blocks = copy.k_cache.shape[1]
        was, now = before.rows(2), after[which].rows(2)
        wrong = [n for n in range(layers) if now[n * blocks + copy.target] != was[n * blocks + copy.source]]
        if not wrong:
            return True
        same = all(now[n * blocks + copy.target] == was[n * blocks + copy.target] for n in wrong)
        return Broken(expected, f"in {in_words(wrong, 'layer')} it {'is as it was' if same else 'holds something else'}")

    return test


def _blocks_stay(concerned: Callable[[Copy, int], bool], words: Callable[[Copy], str]) -> Callable[[Case], object]:
    """Whether these blocks are as they were, in every layer of both caches."""

    def test(case: Case):
        copy, after = case.args, caches_after(case)
        if after is None:
            return Broken(words(copy), _trouble(case))
        blocks = copy.k_cache.shape[1]
        for name, before, now in zip(NAMES, (copy.k_cache, copy.v_cache), after, strict=True):
            changed = [n for n, (x, y) in enumerate(zip(before.rows(2), now.rows(2), strict=True)) if x != y and concerned(copy, n % blocks)]
            if changed:
                return Broken(words(copy), f"{name} changed in layer {changed[0] // blocks}, block {changed[0] % blocks}")
        return True

    return test


COPY_BLOCK = Function(
    _copy_cases,
    [
        Promise("keys-copied", "In every layer the target block of k_cache holds the source block's keys.", _copied(0, "keys"), hint="The first dimension is the layer, the second the block: `k_cache[:, …]` is every layer at once."),
        Promise("values-copied", "In every layer the target block of v_cache holds the source block's values.", _copied(1, "values"), hint="A copy of the keys alone leaves the values of whoever had the block before."),
        Promise("source-stays", "The source block is as it was, in every layer of both caches.", _blocks_stay(lambda copy, block: block == copy.source, lambda copy: f"block {copy.source} stays as it was"), hint="A copy reads the source and writes the target; others still read the source."),
        Promise("other-blocks-stay", "No other block changes, in any layer of either cache.", _blocks_stay(lambda copy, block: block not in (copy.source, copy.target), lambda copy: f"only block {copy.target} changes"), hint="`k_cache[target]` is a layer, not a block."),
    ],
    keep_caches,
    lambda name, copy: [f"k_cache = {copy.k_cache}", f"v_cache = {copy.v_cache}", f"{name}(k_cache, v_cache, {copy.source}, {copy.target})"],
    needs="torch",
)

# ---- attention -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Attend:
    """One call of paged_attention. Shapes: q (heads, head_dim); caches (blocks, block_size, heads, head_dim)."""

    q: Grid
    k_cache: Grid
    v_cache: Grid
    table: tuple[int, ...]
    length: int
    alike: bool = False    # all keys of the sequence are equal

    @property
    def block_size(self) -> int:
        return self.k_cache.shape[1]

    def slots(self, length: int | None = None, table: tuple[int, ...] | None = None) -> list[int]:
        """The slots of the sequence's tokens, in order."""
        table, size = table or self.table, self.block_size
        return [table[n // size] * size + n % size for n in range(self.length if length is None else length)]


def weighted(case: Attend, slots: list[int], scale: float) -> list[tuple[list[float], list[list]]]:
    """For each head: the scores of its query with the keys in these slots, and the values in them."""
    heads = case.q.shape[0]
    keys, values, out = case.k_cache.rows(3), case.v_cache.rows(3), []
    for head, query in enumerate(case.q.rows(1)):
        here = [slot * heads + head for slot in slots]
        out.append(([scale * math.fsum(x * y for x, y in zip(query, keys[n], strict=True)) for n in here], [values[n] for n in here]))
    return out


def softmax(scores: list[float]) -> list[float]:
    highest = max(scores)
    powers = [math.exp(score - highest) for score in scores]
    return [power / math.fsum(powers) for power in powers]


def mixed(weights: list[float], values: list) -> list[float]:
    """The sum of the vectors, each times its weight."""
    return [math.fsum(w * x for w, x in zip(weights, column, strict=True)) for column in zip(*values, strict=True)]


def attention(case: Attend, slots: list[int] | None = None, scale: float | None = None) -> list[float]:
    """What attention over these slots gives, head by head; the tokens of the sequence and 1/√head_dim unless told otherwise."""
    slots = case.slots() if slots is None else slots
    scale = 1 / math.sqrt(case.q.shape[1]) if scale is None else scale
    return [x for scores, values in weighted(case, slots, scale) for x in mixed(softmax(scores), values)]


def near(found: tuple | list, expected: list[float]) -> bool:
    return len(found) == len(expected) and all(x is not None and abs(x - y) <= TOLERANCE * (1 + abs(y)) for x, y in zip(found, expected, strict=True))


def _random(shape: tuple[int, ...], rng: random.Random, high: int, dtype: str) -> Grid:
    """Quarters, which every dtype holds exactly and which print short."""
    return Grid(shape, dtype, tuple(rng.randint(-4 * high, 4 * high) / 4 for _ in range(math.prod(shape))))


def _attend(rng: random.Random, blocks: int, size: int, heads: int, dim: int, length: int, alike: bool = False, table: tuple[int, ...] | None = None, dtype: str = "float32") -> Attend:
    table = tuple(rng.sample(range(blocks), -(-length // size))) if table is None else table
    shape = blocks, size, heads, dim
    case = Attend(_random((heads, dim), rng, 2, dtype), _random(shape, rng, 2, dtype), _random(shape, rng, 3, dtype), table, length, alike)
    keys, values = list(case.k_cache.numbers), list(case.v_cache.numbers)
    own, width = set(case.slots()), heads * dim
    for slot in range(blocks * size):
        here = slice(slot * width, (slot + 1) * width)
        if slot not in own:
            values[here] = [x + math.copysign(20, x or 1) for x in values[here]]    # whoever reads here is seen at once
        elif alike:
            keys[here] = keys[table[0] * size * width :][:width]
    return Attend(case.q, Grid(shape, dtype, tuple(keys)), Grid(shape, dtype, tuple(values)), table, length, alike)


def _attend_cases(thorough: bool, rng: random.Random) -> Iterator[Attend]:
    small = random.Random("small cases are the same in every check")
    yield from (_attend(small, 1, size, 1, 2, 1, table=(0,)) for size in (1, 2))
    yield from (_attend(small, 1, 2, 1, 2, 2, alike=True, table=(0,)), _attend(small, 1, 4, 1, 2, 3, alike=True, table=(0,)))
    yield from (_attend(small, 1, 2, 1, dim, 2, table=(0,)) for dim in (4, 2, 3))
    yield from (_attend(small, 1, 3, 1, 4, 2, table=(0,)), _attend(small, 2, 2, 1, 2, 3, table=(0, 1)), _attend(small, 1, 4, 1, 2, 3, table=(0,)))
    yield from (_attend(small, 2, 1, 1, 2, 2, table=(1, 0)), _attend(small, 3, 2, 1, 4, 4, table=(2, 0)), _attend(small, 4, 2, 1, 2, 6, table=(1, 3, 0)))
    yield from (_attend(small, 1, 2, heads, 4, 2, table=(0,)) for heads in (2, 3))
    yield from (_attend(small, 1, 4, 2, 2, 4, table=(0,)), _attend(small, 3, 2, 2, 4, 4, table=(2, 1)))
    yield _attend(small, 3, 2, 2, 4, 3, dtype="float64")
    yield _attend(small, 3, 16, 2, 4, 21, table=(2, 0))
    if thorough:
        yield from (_attend(rng, 24, 16, 2, 4, length) for length in (176, 181))
        yield from (_attend(rng, 2, 33, 1, 24, 50), _attend(rng, 3, 2, 9, 2, 5), _attend(rng, 100, 1, 1, 4, 3))
    for _ in range(40 if thorough else 6):
        blocks, size = rng.randint(1, 5), rng.choice((1, 2, 3, 4, 8))
        yield _attend(rng, blocks, size, rng.randint(1, 4), rng.choice((1, 2, 4, 6)), rng.randint(1, blocks * size), dtype=rng.choice(("float32", "float32", "float64")))


def keep_attention(function: Callable, case: Attend) -> Outcome:
    """Call it; the tensor that came back, and which of the arguments were changed."""
    given = {name: getattr(case, name).tensor() for name in ("q", "k_cache", "v_cache")}
    table, got = list(case.table), []
    outcome = call(lambda: got.append(function(*given.values(), table, case.length)))
    if outcome.error:
        return outcome
    changed = [name for name, tensor in given.items() if recorded(tensor) != getattr(case, name).to_json()]
    changed += ["block_table"] if table != list(case.table) else []
    result = recorded(got[0], short=True)
    return Outcome({"result": result, "changed": changed} | ({} if result else {"shown": show(got[0])}))


def result_of(case: Case) -> Grid | None:
    """The recorded result, if it has q's shape and dtype."""
    value = case.value if isinstance(case.value, dict) else {}
    result = grid_of(value.get("result"))
    fits = result and (result.shape, result.dtype) == (case.args.q.shape, case.args.q.dtype)
    return result if fits and case.outcome.error is None else None


def numbers_of(case: Case) -> tuple | None:
    """The recorded result's numbers, whatever its shape."""
    value = case.value if isinstance(case.value, dict) else {}
    result = grid_of(value.get("result"))
    return result.numbers if result else None


def _returned(case: Case) -> str:
    if case.outcome.error:
        return str(case.outcome)
    result = grid_of(case.value.get("result")) if isinstance(case.value, dict) else None
    if result is None:
        return f"returned {case.value.get('shown', 'something else')}" if isinstance(case.value, dict) else "returned something else"
    return f"returned {result}" if result_of(case) else f"returned a tensor of shape {result.shape} and dtype {result.dtype}"


def _fits(case: Case):
    q = case.args.q
    return True if result_of(case) else Broken(f"a tensor of shape {q.shape} and dtype {q.dtype}", _returned(case))


def _attends(concerns: Callable[[Attend], bool]) -> Callable[[Case], object]:
    """Whether the result's numbers are those of attention, on the cases that the promise is about."""

    def test(case: Case):
        if not concerns(case.args):
            return None
        expected, found = attention(case.args), numbers_of(case)
        if found is not None and case.outcome.error is None and near(found, expected):
            return True
        right = Grid(case.args.q.shape, case.args.q.dtype, tuple(expected))
        if result_of(case) and len(found) > PRINTED:
            at = next(n for n, (x, y) in enumerate(zip(found, expected, strict=True)) if not near([x], [y]))
            head, place = divmod(at, case.args.q.shape[1])
            return Broken(f"number {place} of head {head}: {expected[at]:.4f}", f"number {place} of head {head}: {_short(found[at])}")
        return Broken(f"returned {right}", _returned(case))

    return test


def _reads_only(case: Case):
    changed = case.value.get("changed") if isinstance(case.value, dict) else None
    if case.outcome.error is None and changed == []:
        return True
    return Broken("q, both caches and the table stay as they were", str(case.outcome) if case.outcome.error else f"changed: {show(changed)}")


def _kind(case: Attend) -> str:
    """The one thing that a small case is about; "all" for those with several at once."""
    heads, several, partly = case.q.shape[0] > 1, len(case.table) > 1, case.length % case.block_size > 0
    if case.length == 1 and not heads:
        return "one"
    if case.alike:
        return "alike"
    if heads + several + partly > 1:
        return "all"
    return "heads" if heads else "table" if several else "length" if partly else "weights"


def _about(kind: str) -> Callable[[Case], object]:
    return _attends(lambda case: _kind(case) == kind)


PAGED_ATTENTION = Function(
    _attend_cases,
    [
        Promise("like-the-query", "The result is a tensor with q's shape and dtype.", _fits, hint="(heads, head_dim): no further dimension of size 1, and no other precision; the model goes on with it."),
        Promise("one-token", "With one token the result is that token's value.", _about("one"), hint="The softmax of a single score is 1, whatever the score; slots behind the first hold nothing of this sequence."),
        Promise("equal-keys", "If all keys are equal the result is the mean of the values.", _about("alike"), hint="Equal scores give equal weights, and the weights over the tokens add up to 1."),
        Promise("right-weights", "The weights are softmax(q · k / √head_dim) over the tokens.", _about("weights"), hint="Scale once, by the square root of the head dimension, and apply softmax over the tokens; `scaled_dot_product_attention` scales by itself."),
        Promise("up-to-the-length", "Only the first `length` tokens count; the other slots of the last block are not read.", _about("length"), hint="What stands behind the length is left over from others: cut it off before the softmax."),
        Promise("through-the-table", "Token n is in block `block_table[n // block_size]`, place `n % block_size`.", _about("table"), hint="`k_cache[block_table]` gathers the blocks in logical order."),
        Promise("each-head-alone", "Each head's query meets that head's keys and values only.", _about("heads"), hint="The softmax runs over the tokens, once for each head. Bring the head dimension to the front before you multiply."),
        Promise("all-together", "All of this holds at once: any heads, any table, any length.", _about("all"), hint="Look at the smaller cases first."),
        Promise("reads-only", "q, both caches and the table stay as they were.", _reads_only, hint="An operation whose name ends in _ changes its tensor; work on a result of your own."),
    ],
    keep_attention,
    lambda name, a: [f"q = {a.q}", f"k_cache = {a.k_cache}", f"v_cache = {a.v_cache}", f"{name}(q, k_cache, v_cache, {list(a.table)}, {a.length})"],
    needs="torch",
)
