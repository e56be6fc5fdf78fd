"""What one block of a real model's KV cache weighs. Sizes follow from the models' published configurations."""

from __future__ import annotations

from dataclasses import dataclass

BLOCK_SIZE = 16         # tokens; vLLM's default
BYTES_PER_NUMBER = 2    # float16 and bfloat16


@dataclass(frozen=True)
class Shape:
    """What a model keeps of each token: in every layer `pieces` tensors of heads × head_dim numbers (2: key and value).

    weights: numbers that a decode step reads, those of the embedding's one row left out; None where it is not needed.
    """

    name: str
    layers: int
    heads: int
    head_dim: int
    pieces: int = 2
    block_size: int = BLOCK_SIZE
    weights: int | None = None

    @property
    def token_bytes(self) -> int:
        return self.pieces * self.layers * self.heads * self.head_dim * BYTES_PER_NUMBER

    @property
    def block_bytes(self) -> int:
        return self.block_size * self.token_bytes

    def tensor_shape(self, blocks: int) -> tuple[int, ...]:
        """Of a cache of so many blocks, layers first: (pieces, layers, blocks, block_size, heads, head_dim)."""
        return self.pieces, self.layers, blocks, self.block_size, self.heads, self.head_dim


def _weights(layers: int, width: int, kv_width: int, inner: int, vocabulary: int) -> int:
    """Numbers in the matrices of a Llama-like model: q and o, k and v, gate, up and down, and the output matrix."""
    return layers * (2 * width * width + 2 * width * kv_width + 3 * width * inner) + width * vocabulary


LLAMA_3_8B = Shape("Llama-3-8B", 32, 8, 128, weights=_weights(32, 4_096, 1_024, 14_336, 128_256))
ONE_LAYER = Shape("Llama-3-8B, one layer", 1, 8, 128)
SHAPES = (
    LLAMA_3_8B,
    Shape("DeepSeek-V3 (latent)", 61, 1, 576, pieces=1),
    Shape("Qwen3-8B", 36, 8, 128),
    Shape("Llama-3-70B", 80, 8, 128),
    Shape("Llama-2-13B", 40, 40, 128),
)
