"""One measurement: warm up, repeat, keep every repeat's time; the median and the quartiles are what is reported."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from autograder.needs import need


@dataclass(frozen=True)
class Spread:
    """Seconds of one call: the median and the quartiles of so many repeats."""

    median: float
    low: float
    high: float
    repeats: int

    @classmethod
    def of(cls, seconds: Iterable[float]) -> Spread:
        """Of at least two times."""
        seconds = sorted(seconds)
        low, median, high = statistics.quantiles(seconds, n=4, method="inclusive")
        return cls(median, low, high, len(seconds))

    def to_dict(self) -> dict:
        return {"median": self.median, "low": self.low, "high": self.high, "repeats": self.repeats}


class Clock:
    """Times calls on one device. budget: seconds that one measurement may take, warm-up included.

    On a GPU two CUDA events stand before and behind each call; on a CPU `time.perf_counter` is read. Before each repeat
    a buffer larger than the device's cache is written, so that no call finds its data there.
    """

    def __init__(self, device: str, budget: float = 0.3, least: int = 5, most: int = 50):
        self.device, self.budget, self.least, self.most = device, budget, least, most
        self._torch = need("torch", "Measuring")
        cached = self._torch.cuda.get_device_properties(0).L2_cache_size if device == "cuda" else 0
        self._flushed = self._torch.empty(max(4 * cached, 1 << 26), dtype=self._torch.int8, device=device)

    def time(self, prepare: Callable[[int], Callable[[], object]]) -> Spread:
        """The time of the calls that prepare(0), prepare(1), … give; each repeat gets a fresh one, the first two warm up."""
        seconds, ends = [], time.perf_counter() + self.budget
        for repeat in range(-2, self.most):
            call = prepare(repeat + 2)
            took = self._once(call)
            if repeat >= 0:
                seconds.append(took)
            if repeat + 1 >= self.least and time.perf_counter() > ends:
                break
        return Spread.of(seconds)

    def _once(self, call: Callable[[], object]) -> float:
        self._flushed.fill_(1)
        if self.device != "cuda":
            start = time.perf_counter()
            call()
            return time.perf_counter() - start
        cuda = self._torch.cuda
        start, end = cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)
        cuda.synchronize()
        start.record()
        call()
        end.record()
        cuda.synchronize()
        return start.elapsed_time(end) / 1e3    # from milliseconds
