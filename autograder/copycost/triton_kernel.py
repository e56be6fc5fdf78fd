"""The Triton kernel; importing this module needs Triton."""

import triton
import triton.language as tl


@triton.jit
def copy_chunk(memory, sources, targets, piece_words, block_words, CHUNK: tl.constexpr):
    """Move one chunk of one piece of one block. memory: 4-byte words, piece after piece."""
    source = tl.load(sources + tl.program_id(0))
    target = tl.load(targets + tl.program_id(0))
    piece = memory + tl.program_id(1).to(tl.int64) * piece_words
    place = tl.program_id(2) * CHUNK + tl.arange(0, CHUNK)
    inside = place < block_words
    moved = tl.load(piece + source * block_words + place, mask=inside)
    tl.store(piece + target * block_words + place, moved, mask=inside)
