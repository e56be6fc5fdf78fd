"""Does a way copy what it should, no byte more and no byte less? Asked of each before it is timed, on the device itself."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from autograder.copycost.shapes import Shape
from autograder.copycost.ways import BLOCKS_FIRST, Numbers, Way, blocks_of
from autograder.needs import need

if TYPE_CHECKING:
    from torch import Tensor

SMALL = Shape("small", layers=3, heads=2, head_dim=10, block_size=4)
BLOCKS = 23


class CopiesWrong(Exception):
    """A way copies something else than it should; the text says what."""


def random_cache(shape: Shape, blocks: int, layout: str, device: str, seed: int = 0) -> Tensor:
    """A cache of random bits, as 16-bit whole numbers: the hardware copies bits, and no two blocks are alike."""
    torch = need("torch", "Copying blocks")
    dice = torch.Generator(device).manual_seed(seed)
    full = shape.tensor_shape(blocks)
    if layout == BLOCKS_FIRST:
        full = (blocks, *full[:2], *full[3:])
    cache = torch.empty(full, dtype=torch.int16, device=device)
    return cache.random_(-(1 << 15), 1 << 15, generator=dice)


def random_blocks(dice: random.Random, blocks: int, many: int) -> tuple[Numbers, Numbers]:
    """So many sources and as many targets, all of them different blocks."""
    chosen = dice.sample(range(blocks), 2 * many)
    return chosen[:many], chosen[many:]


def check(way: Way, device: str, seed: int = 0) -> None:
    """Raise CopiesWrong if the way is not exact: for one block, for several, and for one source with several targets."""
    torch = need("torch", "Copying blocks")
    dice = random.Random(seed)
    for sources, targets in (random_blocks(dice, BLOCKS, 1), random_blocks(dice, BLOCKS, 7), ([4, 4, BLOCKS - 1], [0, 9, 2])):
        cache = random_cache(SMALL, BLOCKS, way.layout, device, seed)
        before = blocks_of(cache, way.layout).cpu().clone()
        way.prepare(cache, sources, targets)()
        after = blocks_of(cache, way.layout).cpu()
        came_from = dict.fromkeys(range(BLOCKS)) | dict(zip(targets, sources, strict=True))
        for block, source in came_from.items():
            if not torch.equal(after[block], before[block if source is None else source]):
                due = "stays as it was" if source is None else f"holds what block {source} holds"
                raise CopiesWrong(f"“{way.name}” on {device}, from {sources} to {targets}: block {block} {due}, and it does not.")
