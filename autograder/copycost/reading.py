"""What follows from a record: curves with their fitted lines, the ceiling, a decode step, swap against recompute."""

from __future__ import annotations

from dataclasses import dataclass

from autograder.copycost.fit import Line, line
from autograder.copycost.shapes import LLAMA_3_8B, Shape


@dataclass(frozen=True)
class Curve:
    """One way over its block counts. medians, lows, highs: seconds a call; bytes: of the blocks, each counted once.

    line: the fitted line; None where there are fewer than three counts, or the times do not grow.
    """

    way: str
    layout: str
    block_bytes: int
    blocks: list[int]
    medians: list[float]
    lows: list[float]
    highs: list[float]
    line: Line | None

    @property
    def bytes(self) -> list[int]:
        return [n * self.block_bytes for n in self.blocks]

    @property
    def rates(self) -> list[float]:
        """Bytes a second, read plus written."""
        return [2 * b / s for b, s in zip(self.bytes, self.medians, strict=True)]

    @property
    def crossing(self) -> float | None:
        """The number of blocks from which on transfer takes longer than the overhead."""
        return self.line.crossing(self.block_bytes) if self.line else None


def curves(record: dict, shape: Shape = LLAMA_3_8B) -> list[Curve]:
    """The ways of a record, each over its block counts, in the record's order."""
    found: dict[str, list[dict]] = {}
    for row in record["copies"]:
        if row["shape"] == shape.name:
            found.setdefault(row["way"], []).append(row)
    return [_curve(way, sorted(rows, key=lambda row: row["blocks"])) for way, rows in found.items()]


def _curve(way: str, rows: list[dict]) -> Curve:
    medians = [row["seconds"]["median"] for row in rows]
    try:
        fitted = line([2 * row["bytes"] for row in rows], medians) if len(rows) > 2 else None
    except ValueError:
        fitted = None
    return Curve(
        way, rows[0]["layout"], rows[0]["bytes"] // rows[0]["blocks"], [row["blocks"] for row in rows], medians,
        [row["seconds"]["low"] for row in rows], [row["seconds"]["high"] for row in rows], fitted,
    )  # fmt: skip


def one_block(record: dict, shape: Shape) -> dict[str, float]:
    """Way → seconds for a single block of this shape (`ONE_LAYER` or the whole model's)."""
    return {row["way"]: row["seconds"]["median"] for row in record["copies"] if row["shape"] == shape.name and row["blocks"] == 1}


def ceiling(record: dict) -> float:
    """Bytes a second, read plus written, of one large copy within the device."""
    return 2 * record["ceiling"]["bytes"] / record["ceiling"]["seconds"]["median"]


def best(record: dict, blocks: int) -> tuple[str, float] | None:
    """The fastest way for so many blocks, and its share of the ceiling; None if the record has no such count."""
    known = [(curve.rates[curve.blocks.index(blocks)], curve.way) for curve in curves(record) if blocks in curve.blocks]
    return (max(known)[1], max(known)[0] / ceiling(record)) if known else None


def decode_step(record: dict, shape: Shape = LLAMA_3_8B) -> float:
    """Seconds of a decode step of one sequence, estimated: its weights, read at the measured rate of a matrix times one token."""
    work = record["work"]
    return shape.weights * (work["bytes"] / (work["rows"] * work["columns"])) / (work["bytes"] / work["one_token"]["seconds"]["median"])


def recompute(record: dict, tokens: int, shape: Shape = LLAMA_3_8B) -> float:
    """Seconds to compute so many tokens' keys and values again, estimated from the matrices alone.

    Two operations for each weight and token at the measured rate of a matrix times many tokens, and at least one
    reading of the weights. Attention is left out: beside the matrices it is small as long as the text is short.
    """
    work = record["work"]
    many = work["many_tokens"]
    rate = 2 * work["rows"] * work["columns"] * many["tokens"] / many["seconds"]["median"]
    return max(decode_step(record, shape), 2 * shape.weights * tokens / rate)


def swap(record: dict, tokens: int, block_size: int, host: str = "pinned", shape: Shape = LLAMA_3_8B) -> float | None:
    """Seconds to move so many tokens out and in again, block after block; None where no host was measured (on a CPU).

    Each block is one transfer, whose time is read off the line through the measured transfers of that direction.
    """
    total = 0.0
    for direction in ("out", "in"):
        rows = [row for row in record["swap"] if (row["host"], row["direction"]) == (host, direction)]
        if len(rows) < 2:
            return None
        # A byte crosses the link once, so it counts once here.
        link = line([row["bytes"] for row in rows], [row["seconds"]["median"] for row in rows])
        total += -(-tokens // block_size) * link.seconds(block_size * shape.token_bytes)
    return total


def swap_crossing(record: dict, tokens: int, host: str = "pinned") -> int | None:
    """The smallest block size (a power of two up to 256) with which swapping so many tokens takes less than computing them again.

    None if there is none, or if no host was measured.
    """
    for block_size in (1, 2, 4, 8, 16, 32, 64, 128, 256):
        moved = swap(record, tokens, block_size, host)
        if moved is not None and moved < recompute(record, tokens):
            return block_size
    return None
