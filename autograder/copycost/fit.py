"""The line t = overhead + bytes / bandwidth through measured times, and what follows from it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Line:
    """overhead: seconds that a call takes before it moves anything. bandwidth: bytes a second, read plus written.

    worst: the largest relative distance of a measured time from the line.
    """

    overhead: float
    bandwidth: float
    worst: float

    def seconds(self, moved: float) -> float:
        """What the line says for so many bytes, read plus written."""
        return self.overhead + moved / self.bandwidth

    def crossing(self, block_bytes: int) -> float:
        """The number of blocks whose transfer takes as long as the overhead; below it a call is bound by its overhead."""
        return self.overhead * self.bandwidth / (2 * block_bytes)


def line(moved: Sequence[float], seconds: Sequence[float]) -> Line:
    """Least squares of the *relative* distances, so that a microsecond counts as much as a millisecond.

    moved: bytes read plus written, at least two different numbers. The overhead is never below 0. Raises ValueError
    where time does not grow with the bytes: no bandwidth can be told from that.
    """
    if len(set(moved)) < 2:
        raise ValueError("A line needs measurements of at least two sizes.")
    # Minimise the sum of ((a + b·x − t) / t)²: two linear equations in a and b.
    w = [1 / t**2 for t in seconds]
    s, sx = math.fsum(w), math.fsum(k * x for k, x in zip(w, moved, strict=True))
    sxx = math.fsum(k * x * x for k, x in zip(w, moved, strict=True))
    sy, sxy = math.fsum(k * t for k, t in zip(w, seconds, strict=True)), math.fsum(k * x * t for k, x, t in zip(w, moved, seconds, strict=True))
    determinant = s * sxx - sx * sx
    overhead, slope = (sxx * sy - sx * sxy) / determinant, (s * sxy - sx * sy) / determinant
    if overhead < 0:
        overhead, slope = 0.0, sxy / sxx
    if slope <= 0:
        raise ValueError("The times do not grow with the bytes: the machine was busy, or the sizes are too small. Measure again.")
    worst = max(abs(overhead + slope * x - t) / t for x, t in zip(moved, seconds, strict=True))
    return Line(overhead, 1 / slope, worst)
