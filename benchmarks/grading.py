"""How fast a class is graded: stock nbgrader and this repository's engine on the same submissions, in turn.

    .venv/bin/python benchmarks/grading.py [--submissions 24] [--rounds 3] [--two-processes]

The lesson has 25 cells, 8 of them tests with plain asserts; it imports NumPy and pyplot. A third of the class is right,
a third wrong in places, a third has handed in the untouched release. Times are wall time of the whole command, process
start included. Before anything is printed the marks of all ways are compared. `floor` is IPython running the same
cells in a namespaced fork, one after the other on one core, and nothing else: no intake, no marks, no gradebook.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import nbformat

from autograder.staff.engine import client
from autograder.staff.execute import OWN, parts_of

ROOT = Path(__file__).resolve().parent.parent
LESSON = "bench"
FUNCTIONS = 8
ENVIRONMENT = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}", "PYDEVD_DISABLE_FILE_VALIDATION": "1"}
SCORES = "SELECT s.student_id, c.name, g.auto_score FROM grade g JOIN base_cell c ON c.id = g.cell_id JOIN submitted_notebook m ON m.id = g.notebook_id JOIN submitted_assignment s ON s.id = m.assignment_id ORDER BY 1, 2"


def lesson() -> nbformat.NotebookNode:
    """1 import cell, 8 × (solution, own try, test)."""
    def cell(source: str, name: str | None = None, **meta: object) -> nbformat.NotebookNode:
        made = nbformat.v4.new_code_cell(source, id=name or f"c{abs(hash(source)) % 10**9}")
        if name:
            made.metadata["nbgrader"] = {"grade_id": name, "grade": False, "solution": False, "locked": False, "task": False, "schema_version": 3, **meta}
        return made

    cells = [cell("import numpy as np\nimport matplotlib.pyplot as plt")]
    for n in range(FUNCTIONS):
        cells += [
            cell(f"def f{n}(x):\n    ### BEGIN SOLUTION\n    return np.asarray(x) * {n}\n    ### END SOLUTION", f"f{n}", solution=True),
            cell(f"f{n}(3)" if n else "print(f0(3))"),
            cell(f"assert f{n}(2) == {2 * n}\n### BEGIN HIDDEN TESTS\nassert (f{n}([1, 2, 3]) == {n} * np.arange(1, 4)).all()\n### END HIDDEN TESTS", f"t{n}", grade=True, locked=True, points=2),
        ]
    return nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}})


def make_course(folder: Path, submissions: int) -> None:
    (folder / "source" / LESSON).mkdir(parents=True)
    (folder / "nbgrader_config.py").write_text('c = get_config()\nc.CourseDirectory.course_id = "bench"\n')
    nbformat.write(lesson(), folder / "source" / LESSON / f"{LESSON}.ipynb")
    run(["nbgrader", "generate_assignment", LESSON], folder)
    released = nbformat.read(folder / "release" / LESSON / f"{LESSON}.ipynb", as_version=4)
    for number in range(submissions):
        made = nbformat.from_dict(released)
        for cell in made.cells:
            name = cell.metadata.get("nbgrader", {}).get("grade_id", "")
            if name.startswith("f") and number % 3 < 2:
                wrong = number % 3 == 1 and int(name[1:]) % 2
                cell.source = f"def {name}(x):\n    # {number}\n    return np.asarray(x) * {int(name[1:]) + bool(wrong)}"
        place = folder / "submitted" / f"s{number:04}" / LESSON
        place.mkdir(parents=True)
        nbformat.write(made, place / f"{LESSON}.ipynb")


def run(command: list[str], folder: Path, **more: str) -> float:
    started = time.perf_counter()
    done = subprocess.run(command, cwd=folder, env={**ENVIRONMENT, **more}, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)}: {done.stderr[-2000:]}")
    return time.perf_counter() - started


def stock(folder: Path) -> float:
    return run(["nbgrader", "autograde", LESSON], folder)


def stock_in_two(folder: Path) -> float:
    """As an instructor would with two shells: each takes half of the students."""
    started = time.perf_counter()
    halves = [subprocess.Popen(["nbgrader", "autograde", LESSON, "--student", f"s*{ends}"], cwd=folder, env=ENVIRONMENT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for ends in ("[02468]", "[13579]")]
    if max(half.wait() for half in halves):
        sys.exit("nbgrader autograde failed")
    return time.perf_counter() - started


def ours(folder: Path, workers: int) -> float:
    return run([sys.executable, "-m", "autograder.staff.grade", LESSON, "--workers", str(workers)], folder, PYTHONPATH=str(ROOT))


def floor(folder: Path, submissions: int) -> float:
    """IPython in a namespaced fork, for a few of the submissions; seconds for all of them, start left out."""
    paths = sorted((folder / "autograded").glob("*/*/*.ipynb"))[: min(submissions, 24)]
    notebooks = [nbformat.read(path, as_version=4) for path in paths]
    with client.Engine(client.Settings(), [folder, OWN]) as engine:
        engine.wait()
        started = time.perf_counter()
        for nb in notebooks:
            client.run(engine.lines[0], [client.Cell(parts_of(cell)) for cell in nb.cells if cell.cell_type == "code"], {}, {})
        return (time.perf_counter() - started) / len(notebooks) * submissions


def scores(folder: Path) -> list[tuple]:
    database = sqlite3.connect(folder / "gradebook.db")
    try:
        return database.execute(SCORES).fetchall()
    finally:
        database.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--submissions", type=int, default=24)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--two-processes", action="store_true", help="also stock nbgrader split over two processes")
    options = parser.parse_args()
    ways = {"stock nbgrader, one process": stock, "ours, 1 worker": lambda f: ours(f, 1), "ours, 2 workers": lambda f: ours(f, 2)}
    if options.two_processes:
        ways["stock nbgrader, two processes"] = stock_in_two
    taken: dict[str, list[float]] = {way: [] for way in [*ways, "floor"]}
    with tempfile.TemporaryDirectory(prefix="bench-") as scratch:
        fresh = Path(scratch, "fresh")
        make_course(fresh, options.submissions)
        for number in range(options.rounds):
            marks = {}
            for way, grade in ways.items():
                folder = Path(scratch, "now")
                shutil.copytree(fresh, folder)
                taken[way].append(grade(folder))
                marks[way] = scores(folder)
                if way == "ours, 2 workers":
                    taken["floor"].append(floor(folder, options.submissions))
                shutil.rmtree(folder)
            if any(found != marks["stock nbgrader, one process"] for found in marks.values()):
                sys.exit(f"The marks differ in round {number + 1}.")
            print(f"round {number + 1}: " + ", ".join(f"{way} {times[-1]:.1f} s" for way, times in taken.items()), flush=True)
    report(options.submissions, taken, len(marks["ours, 1 worker"]))


def report(submissions: int, taken: dict[str, list[float]], grades: int) -> None:
    print(f"\n{submissions} submissions, {grades} grades, equal in every way of grading; medians of {len(taken['floor'])} rounds")
    base, low = statistics.median(taken["stock nbgrader, one process"]), statistics.median(taken["floor"])
    print(f"{'way':<32}{'ms each':>9}{'× stock':>9}{'÷ floor':>9}")
    for way, times in taken.items():
        middle = statistics.median(times)
        print(f"{way:<32}{1e3 * middle / submissions:>9.0f}{base / middle:>9.1f}{middle / low:>9.2f}")
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    print(f"largest process of any way: {peak / 1024:.0f} MiB")


if __name__ == "__main__":
    main()
