"""The whole record of a machine: every way of copying over many block counts, the ceiling, the host, and a model's work."""

from __future__ import annotations

import datetime
import platform
import random
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from autograder.copycost import exact
from autograder.copycost.clock import Clock
from autograder.copycost.shapes import LLAMA_3_8B, ONE_LAYER, Shape
from autograder.copycost.ways import BLOCKS_FIRST, WAYS, Way
from autograder.needs import need

if TYPE_CHECKING:
    from torch import Tensor

SCHEMA = 1
SHARE_OF_MEMORY = 0.4    # of a GPU's free memory, for the pool


@dataclass(frozen=True)
class Plan:
    """How much is measured. most_blocks: at once; the pool has twice as many. budget: seconds for one measurement.

    too_long: seconds; a way whose call takes longer is not tried with more blocks. width, inner, tokens: of the matrices
    that stand for a model's work, in numbers of `dtype`.
    """

    most_blocks: int
    budget: float
    too_long: float
    width: int
    inner: int
    tokens: int
    dtype: str


CPU = Plan(most_blocks=32, budget=0.05, too_long=0.2, width=4_096, inner=4_096, tokens=64, dtype="float32")
GPU = Plan(most_blocks=4_096, budget=0.25, too_long=0.25, width=8_192, inner=28_672, tokens=2_048, dtype="bfloat16")
TINY = Plan(most_blocks=4, budget=0.0, too_long=9.0, width=64, inner=64, tokens=16, dtype="float32")    # for tests


def device_here() -> str:
    """ "cuda" where torch sees such a device, else "cpu"."""
    return "cuda" if need("torch", "Measuring").cuda.is_available() else "cpu"


def take(device: str | None = None, plan: Plan | None = None, say: Callable[[str], None] = lambda line: None) -> dict:
    """Measure this machine; a record as `records` keeps it. Raises exact.CopiesWrong before anything that is wrong is timed.

    A CPU copies with one thread: on a machine that is shared, several would wait for the slowest.
    """
    device = device or device_here()
    torch = need("torch", "Measuring")
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        return _taken(device, plan or (GPU if device == "cuda" else CPU), say)
    finally:
        torch.set_num_threads(threads)


def _taken(device: str, plan: Plan, say: Callable[[str], None]) -> dict:
    torch = need("torch", "Measuring")
    clock = Clock(device, plan.budget)
    most = plan.most_blocks if device != "cuda" else min(plan.most_blocks, _fitting())
    pool = torch.empty(2 * most * LLAMA_3_8B.block_bytes // 2, dtype=torch.int16, device=device)
    pool.random_(-(1 << 15), 1 << 15)
    ways = [way for way in WAYS if way.missing(device) is None]
    left_out = [{"way": way.name, "why": way.missing(device)} for way in WAYS if way not in ways]
    for way in ways:
        exact.check(way, device)
    say(f"{len(ways)} ways of copying checked, bit for bit")
    record = {"schema": SCHEMA, "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"), "device": _device(device), "versions": _versions()}
    record["ceiling"] = _ceiling(clock, pool)
    say("ceiling measured")
    record["copies"] = [row for shape in (LLAMA_3_8B, ONE_LAYER) for way in ways for row in _sweep(clock, pool, shape, way, most, plan, say)]
    record["left_out"] = left_out
    record["swap"] = list(_swap(clock, pool)) if device == "cuda" else []
    del pool
    record["work"] = _work(clock, plan)
    say("a model's work measured")
    return record


def _fitting() -> int:
    """Half the blocks that a share of the GPU's free memory holds, a power of two."""
    free, _ = need("torch", "Measuring").cuda.mem_get_info()
    half = int(free * SHARE_OF_MEMORY) // LLAMA_3_8B.block_bytes // 2
    return 1 << max(0, half.bit_length() - 1)


def _cache(pool: Tensor, shape: Shape, layout: str, blocks: int) -> Tensor:
    """The beginning of the pool as a cache of this shape and layout."""
    full = shape.tensor_shape(blocks)
    if layout == BLOCKS_FIRST:
        full = (blocks, *full[:2], *full[3:])
    return pool[: blocks * shape.block_bytes // 2].view(full)


def _sweep(clock: Clock, pool: Tensor, shape: Shape, way: Way, most: int, plan: Plan, say: Callable[[str], None]) -> Iterator[dict]:
    """One way over 1, 2, 4, … blocks at once, until a call takes too long; a single layer is measured for one block alone."""
    blocks = 2 * most * LLAMA_3_8B.block_bytes // shape.block_bytes    # the whole pool, however small a block is
    cache, dice, many = _cache(pool, shape, way.layout, blocks), random.Random(way.name), 1
    last = 1 if shape is ONE_LAYER else most
    while many <= last:
        spread = clock.time(lambda repeat, n=many: way.prepare(cache, *exact.random_blocks(dice, blocks, n)))
        yield {"shape": shape.name, "way": way.name, "layout": way.layout, "blocks": many, "bytes": many * shape.block_bytes, "seconds": spread.to_dict()}
        if spread.median > plan.too_long:
            last = many
        many *= 2
    say(f"{way.name}: {shape.name}, up to {last} block{'s' * (last > 1)} at once")


def _ceiling(clock: Clock, pool: Tensor) -> dict:
    """One large copy within the device's memory: nothing moves blocks faster."""
    half = pool.numel() // 2
    spread = clock.time(lambda repeat: lambda: pool[:half].copy_(pool[half : 2 * half]))
    return {"bytes": half * pool.element_size(), "seconds": spread.to_dict()}


def _swap(clock: Clock, pool: Tensor) -> Iterator[dict]:
    """Blocks of 1 to 256 tokens to the host's memory and back, each in one piece; pinned memory is what a GPU can read by itself."""
    torch = need("torch", "Measuring")
    for tokens in (1, 4, 16, 64, 256):
        size = min(tokens * LLAMA_3_8B.token_bytes // 2, pool.numel())
        for kind in ("pinned", "pageable"):
            host = torch.zeros(size, dtype=torch.int16, pin_memory=kind == "pinned")
            there = pool[:size]
            for direction, target, source in (("out", host, there), ("in", there, host)):
                spread = clock.time(lambda repeat, a=target, b=source: lambda: a.copy_(b, non_blocking=True))
                yield {"host": kind, "direction": direction, "tokens": tokens, "bytes": 2 * size, "seconds": spread.to_dict()}


def _work(clock: Clock, plan: Plan) -> dict:
    """How fast weights are read (one token through a matrix), and how fast many tokens are multiplied."""
    torch = need("torch", "Measuring")
    kind = getattr(torch, plan.dtype)
    with torch.inference_mode():
        matrix = torch.full((plan.width, plan.inner), 0.01, dtype=kind, device=clock.device)
        timed = {}
        for name, tokens in (("one_token", 1), ("many_tokens", plan.tokens)):
            given = torch.full((tokens, plan.width), 0.01, dtype=kind, device=clock.device)
            timed[name] = {"tokens": tokens, "seconds": clock.time(lambda repeat, x=given: lambda: x @ matrix).to_dict()}
    return {"dtype": plan.dtype, "rows": plan.width, "columns": plan.inner, "bytes": matrix.numel() * matrix.element_size(), **timed}


def _device(device: str) -> dict:
    torch = need("torch", "Measuring")
    if device == "cuda":
        about = torch.cuda.get_device_properties(0)
        return {"kind": "cuda", "name": about.name, "memory": about.total_memory, "l2": about.L2_cache_size, "driver": _driver()}
    return {"kind": "cpu", "name": _processor(), "threads": torch.get_num_threads()}


def _driver() -> str | None:
    """The GPU driver's version, as nvidia-smi tells it; None where there is no such program."""
    try:
        asked = subprocess.run(["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"], capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return asked.stdout.strip().splitlines()[0] if asked.stdout.strip() else None


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    names = [line.partition(":")[2].strip() for line in info.read_text("utf-8").splitlines() if line.startswith("model name")] if info.is_file() else []
    return (names or [platform.processor() or platform.machine()])[0]


def _versions() -> dict:
    torch = need("torch", "Measuring")
    try:
        from triton import __version__ as triton
    except ImportError:
        triton = None
    return {"python": platform.python_version(), "torch": torch.__version__, "cuda": torch.version.cuda, "triton": triton}


