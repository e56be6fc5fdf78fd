"""The promises of lesson 5's `copy_blocks`: many blocks of one cache, on whatever device it is."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from autograder.drive import call
from autograder.needs import need
from autograder.promises.base import Broken, Promise
from autograder.promises.functions import Case, Function
from autograder.promises.tensors import FINE, Grid, grid_of, in_words, numbered, recorded
from autograder.record import Outcome

PIECES = ("keys", "values")
# A tensor on torch's "meta" device has a shape and no numbers. What cannot be done to it without fetching numbers to
# the host, or by mixing it with a tensor elsewhere, raises one of these.
THROUGH_THE_HOST = ("Cannot copy out of meta tensor", "can't convert meta device", "expected to be in the same device", "to be on the same device")


@dataclass(frozen=True)
class Batch:
    """One call of copy_blocks. Shape of the cache: (2, layers, blocks, block_size, heads, head_dim); keys first, then values."""

    cache: Grid
    pairs: tuple[tuple[int, int], ...]

    @property
    def layers(self) -> int:
        return self.cache.shape[1]

    @property
    def blocks(self) -> int:
        return self.cache.shape[2]

    def place(self, piece: int, layer: int, block: int) -> int:
        """Where a block of one layer's keys (0) or values (1) stands among the rows of the cache."""
        return (piece * self.layers + layer) * self.blocks + block

    @property
    def targets(self) -> dict[int, int]:
        """target → source"""
        return {target: source for source, target in self.pairs}


def _batch(layers: int, blocks: int, size: int, heads: int, dim: int, *pairs: tuple[int, int], dtype: str = "float32", fine: bool = False, gaps: int = 0) -> Batch:
    return Batch(numbered((2, layers, blocks, size, heads, dim), 1, 1, dtype, fine, gaps), pairs)


def _pairs(rng: random.Random, blocks: int, many: int) -> list[tuple[int, int]]:
    """So many targets, each with a source; a source may have several targets, and no target is a source."""
    chosen = rng.sample(range(blocks), blocks)
    targets, others = chosen[:many], chosen[many:]
    return [(rng.choice(others), target) for target in targets]


def _batch_cases(thorough: bool, rng: random.Random) -> Iterator[Batch]:
    yield from (_batch(1, 2, 1, 1, 1, (source, 1 - source)) for source in (0, 1))
    yield from (_batch(layers, 3, 1, 1, 1, pair) for layers in (2, 3) for pair in ((0, 2), (2, 1), (1, 0)))
    yield from (_batch(2, 3, 2, 1, 1, (1, 2)), _batch(1, 3, 1, 2, 2, (2, 0)))
    yield _batch(1, 2, 1, 1, 1)
    yield _batch(2, 3, 2, 1, 1)
    yield from (_batch(1, 4, 1, 1, 1, (0, 2), (1, 3)), _batch(1, 4, 1, 1, 1, (3, 0), (2, 1)), _batch(1, 3, 1, 1, 1, (0, 1), (0, 2)))
    yield from (_batch(2, 5, 2, 1, 1, (4, 0), (1, 3), (4, 2)), _batch(3, 7, 2, 2, 1, (6, 1), (2, 0), (5, 3)))
    yield from (_batch(2, 4, 2, 1, 2, (3, 1), (0, 2), dtype=dtype) for dtype in ("float64", "float16"))
    yield from (_batch(1, 3, 2, 2, 1, (2, 0), dtype=dtype, fine=True) for dtype in FINE)
    yield from (_batch(1, 3, 3, 1, 1, (0, 2), gaps=2), _batch(1, 2, 2, 4, 24, (1, 0)), _batch(1, 2, 2, 8, 2, (0, 1)))
    if thorough:
        yield from (_batch(1, 40, 2, 1, 1, (37, 4), (38, 36), (0, 39)), _batch(9, 4, 1, 1, 1, (3, 0), (2, 1)), _batch(2, 3, 33, 1, 1, (2, 0)))
        yield _batch(1, 80, 1, 1, 1, *_pairs(rng, 80, 39))
    for _ in range(40 if thorough else 6):
        blocks = rng.randint(2, 8)
        yield _batch(rng.randint(1, 4), blocks, rng.randint(1, 3), rng.randint(1, 2), rng.randint(1, 2), *_pairs(rng, blocks, rng.randint(1, blocks - 1)))


def _keep_batch(function: Callable, case: Batch) -> Outcome:
    """What the cache holds after the call; and what a cache without numbers, which is on no host, said to the same call."""
    cache = case.cache.tensor()
    outcome = call(function, cache, [tuple(pair) for pair in case.pairs])
    if outcome.error:
        return outcome
    torch = need("torch", "This check")
    elsewhere = call(function, torch.empty(case.cache.shape, dtype=cache.dtype, device="meta"), [tuple(pair) for pair in case.pairs])
    said = f"{elsewhere.error}: {elsewhere.message}" if elsewhere.error and any(words in (elsewhere.message or "") for words in THROUGH_THE_HOST) else None
    return Outcome({"cache": recorded(cache), "elsewhere": said})


def cache_after(case: Case) -> Grid | None:
    """The cache as recorded, if it has its shape and dtype still."""
    after = grid_of(case.value.get("cache")) if isinstance(case.value, dict) and case.outcome.error is None else None
    return after if after and (after.shape, after.dtype) == (case.args.cache.shape, case.args.cache.dtype) else None


def _trouble(case: Case) -> str:
    return str(case.outcome) if case.outcome.error else "the cache has another shape or dtype, or is no tensor any more"


def _copied(piece: int, several: bool) -> Callable[[Case], object]:
    """Whether every target holds what its source held, in every layer; asked of calls with one pair, or of those with several."""

    def test(case: Case):
        batch: Batch = case.args
        if not batch.pairs or several != (len(batch.pairs) > 1):
            return None
        after, before = cache_after(case), batch.cache.rows(3)
        for source, target in batch.pairs:
            due = f"block {target} holds block {source}'s {PIECES[piece]} in every layer"
            if after is None:
                return Broken(due, _trouble(case))
            now = after.rows(3)
            wrong = [n for n in range(batch.layers) if now[batch.place(piece, n, target)] != before[batch.place(piece, n, source)]]
            if wrong:
                same = all(now[batch.place(piece, n, target)] == before[batch.place(piece, n, target)] for n in wrong)
                return Broken(due, f"in {in_words(wrong, 'layer')} it {'is as it was' if same else 'holds something else'}")
        return True

    return test


def _every_pair(case: Case):
    keys, values = _copied(0, True)(case), _copied(1, True)(case)
    return keys if keys is not True else values


def _stay(of_sources: bool, words: str) -> Callable[[Case], object]:
    """Whether the sources, or the blocks that no pair names, are as they were."""

    def test(case: Case):
        batch: Batch = case.args
        sources = {source for source, _ in batch.pairs}
        asked = sources if of_sources else set(range(batch.blocks)) - sources - set(batch.targets)
        if not batch.pairs or not asked:
            return None
        after = cache_after(case)
        if after is None:
            return Broken(words, _trouble(case))
        before, now = batch.cache.rows(3), after.rows(3)
        for piece, name in enumerate(PIECES):
            for layer in range(batch.layers):
                changed = [block for block in sorted(asked) if before[batch.place(piece, layer, block)] != now[batch.place(piece, layer, block)]]
                if changed:
                    return Broken(words, f"in layer {layer} the {name} of {in_words(changed, 'block')} changed")
        return True

    return test


def _no_pairs(case: Case):
    if case.args.pairs:
        return None
    after = cache_after(case)
    if after is None:
        return Broken("nothing is raised and nothing changes", _trouble(case))
    return after.numbers == case.args.cache.numbers or Broken("nothing changes", "the cache changed")


def _stays_there(case: Case):
    """Asked where something was copied rightly: whoever does nothing moves nothing through the host."""
    if not case.args.pairs or cache_after(case) is None:
        return None
    said = case.value.get("elsewhere")
    if said is not None:
        return Broken("a cache on another device is copied there", f"on a device that is not the host: {str(said)[:200]}")
    right = all(_copied(piece, len(case.args.pairs) > 1)(case) is True for piece in (0, 1))
    return True if right else None


COPY_BLOCKS = Function(
    _batch_cases,
    [
        Promise("keys-copied", "With one pair, the target block holds the source block's keys in every layer.", _copied(0, False), hint="The dimensions are: keys and values, layers, blocks. `cache[:, :, block]` is a block with all that belongs to it."),
        Promise("values-copied", "With one pair, the target block holds the source block's values in every layer.", _copied(1, False), hint="`cache[0]` are the keys, `cache[1]` the values; a block is both."),
        Promise("every-pair", "With several pairs, each target holds what its source holds.", _every_pair, hint="All pairs of the list, the first and the last too; a source may stand in several of them."),
        Promise("sources-stay", "Every source is as it was.", _stay(True, "the sources stay as they were"), hint="A copy reads the source and writes the target; others still read the source."),
        Promise("other-blocks-stay", "A block that no pair names does not change.", _stay(False, "only the targets change"), hint="Address the blocks by the third dimension, and only the targets."),
        Promise("no-pairs", "With no pairs nothing happens, and nothing is raised.", _no_pairs, hint="An engine calls it at every step, and most steps copy nothing. `torch.tensor([])` is of floats: it is no index."),
        Promise("stays-on-its-device", "The numbers stay on the cache's device: none goes through the host, and no tensor of another device meets the cache.", _stays_there, hint="Leave out .cpu(), .numpy(), .tolist() and .item() on the cache; make tensors of block numbers with `device=cache.device`."),
    ],
    _keep_batch,
    lambda name, batch: [f"cache = {batch.cache}", f"{name}(cache, {[tuple(p) for p in batch.pairs]})"],
    needs="torch",
)
