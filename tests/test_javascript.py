"""The widgets' modules under Node's own test runner, with histories that the Python reference has played."""

import json
import re
from pathlib import Path

import pytest

from autograder import tokens
from autograder.drive import drive_manager
from autograder.histories import ALL
from autograder.plays import manager_plays
from autograder.pool import pool_of
from autograder.record import State
from autograder.scenarios import ARRIVED, CONTIGUOUS, PAGED, STREAM
from autograder.staff.node import node, run

ROOT = Path(__file__).resolve().parents[1]
NAMES = [["A", "B"], ["beam", "A", "b"], [], list("ABCDEFGHIJ"), ["ß", "序列", "s1", "s2", "s10"], ["x"] * 1 + [f"s{n}" for n in range(40)], ["", " ", "G", "g"], ["b", "B", "bb", "BB"]]


def histories(make):
    """Every chain of single calls that a thorough check drives, with what the class answered and held after each."""
    for seed in ("one", "two"):
        plays = [play for play in manager_plays(ALL, True, seed) if not play.branches and play.second is None and all(op[0] != "burst" for op in play.ops)]
        for play, rows in zip(plays, drive_manager(make, plays).plays, strict=True):
            outcomes = [(rows.outcomes[outcome], rows.states[state]) for outcome, _, state in rows.rows]
            # Python's booleans are numbers in a transcript; the model's are its own.
            steps = [[bool(o.value) if op[0] == "append" and o.error is None else o.value, o.error, s.to_json()] for op, (o, s) in zip(play.ops, outcomes, strict=True)]
            yield {"num_blocks": play.num_blocks, "block_size": play.block_size, "ops": play.ops[1:], "steps": steps}


def layouts():
    """States, sound and broken, as the course's figures lay them out."""
    states = [
        State((2, 3), {0: 2, 1: 1}, {"A": ((0, 1), 5), "B": ((0,), 4)}),
        State((1, 2, 3), {}, {}),
        State((3,), {0: 2, 1: 1, 2: 1}, {"A": ((0, 1), 5), "B": ((0, 1, 2), 6)}),
        State((0, 3), {0: 1}, {"A": ((0,), 3)}),
        State((), {0: 1}, {"A": ((0, 0), 8)}),
        State((1, 1, 2), {3: 4}, {"序列": ((), 0)}),
    ]
    for state in states:
        pool = pool_of(state, 4, 4)
        yield {"state": state.to_json(), "num_blocks": 4, "block_size": 4, "expected": [[b.number, b.kind, list(b.owners), b.count, b.filled] for b in pool.blocks]}


def marks(names):
    return [[name, mark.letter, tokens.HUES.index(mark.hue) if mark.hue in tokens.HUES else None] for name, mark in tokens.owners(names).items()]


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """What Python tells the JavaScript tests, as files: environment variable → path."""
    folder = tmp_path_factory.mktemp("told")
    stream = {"slots": 160, "longest": 64, "block": 16, "events": STREAM}
    data = {
        "KV_MARKS": [[names, marks(names)] for names in NAMES], "KV_LAYOUTS": list(layouts()),
        "KV_STILL": {"stream": stream, "at": ARRIVED, "contiguous": CONTIGUOUS, "paged": PAGED},
    }  # fmt: skip
    if (ROOT / "source_assignments").is_dir():
        from autograder.staff.variants import load_reference

        data["KV_HISTORIES"] = list(histories(load_reference(ROOT, "03_copy_on_write/BlockManager")))
    for name, value in data.items():
        (folder / name).write_text(json.dumps(value), encoding="utf-8")
    return {name: str(folder / name) for name in data}


def test_every_javascript_test_passes(told):
    done = run("--test", "--test-reporter=tap", *map(str, sorted((ROOT / "tests" / "js").glob("*.test.mjs"))), **told)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    assert int(re.search(r"^# pass (\d+)", done.stdout, re.M)[1]) > 15
    # Without source_assignments/ there is no reference to compare with; nothing else may be left out.
    assert int(re.search(r"^# skipped (\d+)", done.stdout, re.M)[1]) == 4 - len(told)


def test_node_is_found_beside_python_where_the_machine_has_none(monkeypatch, tmp_path):
    import sys

    program = tmp_path / "node"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    assert node() == str(program)
    program.unlink()
    assert node() is None
    with pytest.raises(FileNotFoundError, match="make setup"):
        run("--version")
