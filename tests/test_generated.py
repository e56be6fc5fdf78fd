"""Generated right managers always pass; random edits of the reference pass only if nobody can tell them from it."""

from __future__ import annotations

import array
import collections
import random
import types

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autograder.checks import exercise_named, judge, record
from autograder.drive import drive_manager
from autograder.histories import ALL
from autograder.plays import manager_plays
from conftest import ROOT, needs_sources

pytestmark = needs_sources
MANAGER = exercise_named("03_copy_on_write/BlockManager")


def reference() -> type:
    from autograder.staff.variants import load_reference

    return load_reference(ROOT, MANAGER.id)


# ---- right managers in generated clothes -----------------------------------------------------------------------


class Record:
    """A sequence that is no dict and answers the two keys all the same."""

    def __init__(self, blocks, length):
        self._parts = {"blocks": blocks, "len": length}

    def __getitem__(self, key):
        return self._parts[key]


def shuffled(free):
    return random.Random(len(free)).sample(free, len(free))


FREE = [list, tuple, set, frozenset, collections.deque, shuffled, iter, dict.fromkeys, lambda f: numpy.array(f, dtype=numpy.int64), lambda f: array.array("l", f), lambda f: [float(b) for b in f]]
REF = [dict, collections.Counter, types.MappingProxyType, collections.UserDict, lambda r: {numpy.int32(b): numpy.int64(c) for b, c in r.items()}, lambda r: {b: float(c) for b, c in r.items()}, lambda r: {**r, **{b: 0 for b in range(3) if b not in r}}]
SEQS = [dict, collections.OrderedDict, types.MappingProxyType, collections.UserDict, collections.ChainMap]
TABLES = [list, tuple, collections.deque, iter, lambda t: array.array("i", t), lambda t: numpy.array(t, dtype=numpy.int16), lambda t: dict.fromkeys(t)]
SEQUENCE = [lambda b, n: {"blocks": b, "len": n}, Record, lambda b, n: types.MappingProxyType({"blocks": b, "len": n, "more": None})]
LENGTHS = [int, float, numpy.int32, numpy.float64]
TRUTHS = [bool, int, float, numpy.bool_, numpy.int8]
NUMBERS = [int, float, numpy.int64, numpy.uint16]


def dressed(as_free, as_ref, as_seqs, table, sequence, length, truth, number) -> type:
    """The reference behind other types: what it shows is made anew at each look, what it answers is converted."""
    base = reference()

    class Dressed:
        def __init__(self, num_blocks, block_size):
            self._inner = base(num_blocks, block_size)

        @property
        def free(self):
            return as_free(list(self._inner.free))

        @property
        def ref(self):
            return as_ref(dict(self._inner.ref))

        @property
        def seqs(self):
            return as_seqs({n: sequence(table(list(s["blocks"])), length(s["len"])) for n, s in self._inner.seqs.items()})

        def append(self, name):
            return truth(self._inner.append(name))

        def used(self):
            return number(self._inner.used())

        def __getattr__(self, name):
            return getattr(self._inner, name)

    return Dressed


@settings(max_examples=60)
@given(*(st.sampled_from(kinds) for kinds in (FREE, REF, SEQS, TABLES, SEQUENCE, LENGTHS, TRUTHS, NUMBERS)))
def test_right_work_passes_whatever_types_it_uses(free, ref, seqs, table, sequence, length, truth, number):
    work = dressed(free, ref, seqs, table, sequence, length, truth, number)
    verdict = judge(MANAGER, record(MANAGER, work, False, ""), False, "")
    assert verdict.passed, verdict.sentence


# ---- random edits of the reference -----------------------------------------------------------------------------

SWAPS = [("+ 1", "- 1"), ("+= 1", "-= 1"), ("== 0", "!= 0"), ("> 1", ">= 1"), ("[-1]", "[0]"), ("is None", "is not None"), ("not ", ""), ("<", "<="), (">", "<"), ("True", "False"), ("False", "True"), ("append", "extend"), ("%", "//"), ("list(", "("), (".pop(0)", ".pop()"), ("=", "+="), ("len(", "sum("), ("-", "")]  # fmt: skip


def edited(code: str, rng: random.Random) -> str:
    """One edit: a line dropped, doubled, moved or indented anew, or a piece of one replaced."""
    lines = code.splitlines()
    inner = [n for n, line in enumerate(lines) if line.startswith("        ") and '"""' not in line]
    at = rng.choice(inner)
    kind = rng.randrange(5)
    if kind == 0:
        del lines[at]
    elif kind == 1:
        lines.insert(at, lines[at])
    elif kind == 2:
        lines.insert(rng.choice(inner), lines.pop(at))
    elif kind == 3:
        lines[at] = lines[at][4:] if rng.random() < 0.5 else "    " + lines[at]
    else:
        old, new = rng.choice([pair for pair in SWAPS if pair[0] in lines[at]] or [("self", "self")])
        lines[at] = lines[at].replace(old, new, 1)
    return "\n".join(lines)


def shown(make: type) -> list:
    """All that can be seen of a manager on other histories than the judge's: results, used() and states."""
    transcript = drive_manager(make, manager_plays(ALL, True, "another eye"))
    return [transcript.stopped, *((r.outcomes[o].value, r.outcomes[o].error, r.outcomes[u].value, r.outcomes[u].error, r.states[s].key) for r in transcript.plays for o, u, s in r.rows)]


def comparable(rows: list) -> list:
    """Without what the contract leaves open: results of allocate, fork and release, the order of dicts."""
    out = rows[:1]
    for value, error, used, broken, (free, ref, seqs, problem) in rows[1:]:
        out.append((value if type(value) in (int, float) else None, error, used, broken, free, sorted(ref), sorted(seqs), problem))
    return out


@pytest.mark.filterwarnings("ignore::SyntaxWarning")
@pytest.mark.parametrize("seed", range(4))
def test_a_random_edit_passes_exactly_if_it_cannot_be_told_from_the_reference(seed):
    from autograder.staff.variants import load, references

    code = references(ROOT)[MANAGER.id]
    right = comparable(shown(reference()))
    rng = random.Random(seed)
    judged = 0
    for _ in range(12):
        mutant = edited(code, rng)
        try:
            work = load(mutant, MANAGER.name)
        except Exception:
            continue
        verdict = judge(MANAGER, record(MANAGER, work, True, f"edit {seed}"), True, f"edit {seed}")
        judged += 1
        assert verdict.passed is (comparable(shown(work)) == right), f"{verdict.sentence}\n{mutant}"
    assert judged >= 4
