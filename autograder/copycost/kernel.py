"""Copy any number of blocks by one launch of a Triton kernel, straight from source to target.

Each program moves one chunk of one piece (a block in one layer, of the keys or of the values). The kernel itself is in
`triton_kernel`, which is imported when it is first called; where Triton is not installed that says what is missing.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from autograder.needs import need

if TYPE_CHECKING:
    from torch import Tensor

CHUNK = 4_096    # words of 4 bytes that one program moves


def words(cache: Tensor) -> Tensor:
    """The cache's memory as whole numbers of 4 bytes: shape (pieces × layers, blocks, words of a block in one layer)."""
    torch = need("torch", "Copying blocks")
    pieces, layers, blocks = cache.shape[:3]
    rows = cache.view(pieces * layers, blocks, -1)
    if rows.shape[-1] * rows.element_size() % 4:
        raise ValueError("A block in one layer must have a multiple of 4 bytes: take an even number of 2-byte numbers.")
    return rows.view(torch.int32)


def launch(rows: Tensor, copies: int) -> tuple[int, int, int]:
    """How many programs are started: (copies, pieces, chunks of a piece)."""
    return copies, rows.shape[0], math.ceil(rows.shape[2] / CHUNK)


def copy(cache: Tensor, sources: list[int], targets: list[int]) -> None:
    """Copy all blocks in one launch. cache: layers first, contiguous, shape (pieces, layers, blocks, …)."""
    torch = need("torch", "Copying blocks")
    copy_chunk = need("autograder.copycost.triton_kernel", "This way of copying").copy_chunk
    rows = words(cache)
    numbers = torch.tensor([sources, targets], device=cache.device)    # 64 bits, so that no product with them overflows
    copy_chunk[launch(rows, len(sources))](rows, numbers[0], numbers[1], rows.shape[1] * rows.shape[2], rows.shape[2], CHUNK=CHUNK)
