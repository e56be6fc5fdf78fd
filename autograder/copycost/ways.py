"""The ways of copying many KV blocks at once, all with one meaning: the first target block gets
what the first source block holds, and so on. Targets differ from one another and from every source.

Two layouts of one cache. Layers first, (pieces, layers, blocks, …): in each layer a block lies in one piece, so that a
block of 32 layers is 64 pieces. Blocks first, (blocks, pieces, layers, …): a block is one piece.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from autograder.copycost import kernel
from autograder.needs import need

if TYPE_CHECKING:
    from torch import Tensor

Numbers = list[int]    # of blocks
LAYERS_FIRST, BLOCKS_FIRST = "layers first", "blocks first"


@dataclass(frozen=True)
class Way:
    """One way. prepare(cache, sources, targets) gives the call that copies; only that call is timed.

    needs: what it cannot do without, "cuda" or "triton".
    """

    name: str
    layout: str
    prepare: Callable[[Tensor, Numbers, Numbers], Callable[[], object]]
    words: str
    needs: frozenset[str] = frozenset()

    def missing(self, device: str) -> str | None:
        """Why this way cannot be taken on a device of this type ("cpu", "cuda"), in words; None if it can."""
        if "cuda" in self.needs and device != "cuda":
            return "it needs a CUDA device"
        if "triton" in self.needs and importlib.util.find_spec("triton") is None:
            return "it needs the package triton"
        return None


def block_dimension(layout: str) -> int:
    return 2 if layout == LAYERS_FIRST else 0


def blocks_of(cache: Tensor, layout: str) -> Tensor:
    """The same memory as (blocks, pieces, layers, …)."""
    return cache.movedim(2, 0) if layout == LAYERS_FIRST else cache


def _calling(copy: Callable[[Tensor, Numbers, Numbers], object]) -> Callable[[Tensor, Numbers, Numbers], Callable[[], object]]:
    return lambda cache, sources, targets: lambda: copy(cache, sources, targets)


def piece_by_piece(cache: Tensor, sources: Numbers, targets: Numbers) -> None:
    """A slice copy for each block, layer, and key or value: blocks × layers × 2 calls."""
    for source, target in zip(sources, targets, strict=True):
        for piece in cache:
            for layer in piece:
                layer[target].copy_(layer[source])


def block_by_block(cache: Tensor, sources: Numbers, targets: Numbers) -> None:
    """A slice copy for each block, all layers at once."""
    for source, target in zip(sources, targets, strict=True):
        cache[:, :, target].copy_(cache[:, :, source])


def whole_block_by_block(cache: Tensor, sources: Numbers, targets: Numbers) -> None:
    """The same with blocks first, where a block is one piece of memory."""
    for source, target in zip(sources, targets, strict=True):
        cache[target].copy_(cache[source])


def there(numbers: Numbers, cache: Tensor) -> Tensor:
    """Numbers of blocks as a tensor on the cache's device; making it is a part of every call's time."""
    return need("torch", "Copying blocks").tensor(numbers, device=cache.device)


def indexed(dimension: int) -> Callable[[Tensor, Numbers, Numbers], None]:
    """All blocks in two calls: index_select gathers the sources, index_copy_ scatters them. Everything moves twice."""

    def copy(cache: Tensor, sources: Numbers, targets: Numbers) -> None:
        cache.index_copy_(dimension, there(targets, cache), cache.index_select(dimension, there(sources, cache)))

    return copy


def assigned(cache: Tensor, sources: Numbers, targets: Numbers) -> None:
    """All blocks in one line of advanced indexing."""
    cache[:, :, there(targets, cache)] = cache[:, :, there(sources, cache)]


def replayed(cache: Tensor, sources: Numbers, targets: Numbers) -> Callable[[], None]:
    """The loop over blocks, recorded once as a CUDA graph and replayed in one launch; its blocks are fixed when it is recorded."""
    torch = need("torch", "Copying blocks")
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        block_by_block(cache, sources, targets)    # once outside, as torch asks for: memory and kernels are set up
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        block_by_block(cache, sources, targets)
    return graph.replay


TRITON, CUDA = frozenset({"cuda", "triton"}), frozenset({"cuda"})
WAYS = (
    Way("loop over pieces", LAYERS_FIRST, _calling(piece_by_piece), "a slice copy for every layer, key and value of every block"),
    Way("loop over blocks", LAYERS_FIRST, _calling(block_by_block), "a slice copy for every block, all layers at once"),
    Way("index_select, index_copy_", LAYERS_FIRST, _calling(indexed(2)), "two calls for all blocks, through a buffer"),
    Way("one indexed assignment", LAYERS_FIRST, _calling(assigned), "one line for all blocks, through a buffer"),
    Way("loop, blocks first", BLOCKS_FIRST, _calling(whole_block_by_block), "a slice copy for every block, which is one piece"),
    Way("index_copy_, blocks first", BLOCKS_FIRST, _calling(indexed(0)), "two calls for all blocks, each of them one piece"),
    Way("graph of the loop", LAYERS_FIRST, replayed, "the loop over blocks, recorded as a CUDA graph and replayed", CUDA),
    Way("Triton kernel", LAYERS_FIRST, _calling(kernel.copy), "one kernel of our own for all blocks, straight from source to target", TRITON),
)
