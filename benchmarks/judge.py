"""What a check costs: start, a visible check, a thorough one, and one operation as histories grow.

    .venv/bin/python benchmarks/judge.py

Times are the processor's, the least of several runs, since machines are shared; compare them with each other. Needs
`source_assignments/` for the reference manager.
"""

from __future__ import annotations

import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from autograder.checks import exercise_named, judge, pack, record
from autograder.drive import drive_manager
from autograder.histories import ALL
from autograder.judge import judge_manager
from autograder.plays import long_random, manager_plays
from autograder.staff.variants import load_reference

ROOT = Path(__file__).resolve().parent.parent
MANAGER = exercise_named("03_copy_on_write/BlockManager")
RUNS = 7


def least(work: Callable[[], object], runs: int = RUNS) -> float:
    """Milliseconds of processor time, the least of several runs."""
    times = []
    for _ in range(runs):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return 1e3 * min(times)


def start_up() -> None:
    """Wall time of a bare interpreter, and of one that imports the package, in turn."""
    bare, ours = [], []
    for _ in range(RUNS):
        for times, code in ((bare, "pass"), (ours, "import autograder"), ):
            start = time.perf_counter()
            subprocess.run([sys.executable, "-c", code], check=True)
            times.append(1e3 * (time.perf_counter() - start))
    print(f"python -c pass {statistics.median(bare):.0f} ms, with `import autograder` {statistics.median(ours):.0f} ms: ratio {statistics.median(ours) / statistics.median(bare):.2f}")


def checks(make: type) -> None:
    print("check      histories' rows   drive    judge   transcript")
    for thorough in (False, True):
        rows = sum(len(play.ops) for play in manager_plays(ALL, thorough, "bench"))
        data = record(MANAGER, make, thorough, "bench")
        drive = least(lambda deep=thorough: record(MANAGER, make, deep, "bench"))
        judged = least(lambda deep=thorough, got=data: judge(MANAGER, got, deep, "bench"))
        name = "thorough" if thorough else "visible"
        print(f"{name:<10} {rows:>15}  {drive:>5.0f} ms {judged:>5.0f} ms   {len(pack(data)) / 1024:>6.0f} KiB   {1e3 * rows / (drive + judged):>8,.0f} rows a second")


def growth(make: type) -> None:
    """One long history of a pool of 64 blocks of 16: the cost of an operation should not grow with the history."""
    print("operations in one history   microseconds an operation, driven and judged")
    for length in (100, 400, 1600, 6400):
        play = long_random(random.Random("growth"), length, 64, 16)
        cost = least(lambda p=play: judge_manager(MANAGER, [p], drive_manager(make, [p])), 3)
        print(f"{length:>25}   {1e3 * cost / length:.0f}")


if __name__ == "__main__":
    reference = load_reference(ROOT, MANAGER.id)
    start_up()
    checks(reference)
    growth(reference)
