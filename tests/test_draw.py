"""Pictures say what a manager holds, in any shape, and never stop the reader's notebook."""

import io
import re
import subprocess
import sys
import time
import warnings
from collections import deque
from pathlib import Path
from types import SimpleNamespace

import pytest

from autograder import draw, tokens
from autograder.record import read_state

ROOT = Path(__file__).resolve().parents[1]


def still(free, ref, tables, num_blocks=6, block_size=16):
    """A manager as plain attributes, after whatever brought it there."""
    seqs = {name: {"blocks": list(blocks), "len": length} for name, (blocks, length) in tables.items()}
    return SimpleNamespace(free=free, ref=ref, seqs=seqs, num_blocks=num_blocks, block_size=block_size)


@pytest.fixture
def forked():
    return still([3, 4, 5], {0: 2, 1: 1, 2: 1}, {"A": ([0, 1], 20), "B": ([0, 2], 21)})


def words(figure):
    return [text.get_text() for axes in figure.axes for text in axes.texts]


def hatches(figure):
    return [patch.get_hatch() for axes in figure.axes for patch in axes.patches if patch.get_hatch()]


def test_importing_draw_leaves_matplotlib_alone():
    code = "import sys, autograder.draw; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT).returncode == 0


def test_every_block_shows_its_number_and_a_free_one_says_so(forked):
    said = words(draw.blocks(forked))
    assert [f"#{n}" in said for n in range(6)] == [True] * 6
    assert said.count("free") == 3


def test_a_shared_block_has_a_hatch_and_its_count(forked):
    figure = draw.blocks(forked)
    assert hatches(figure) == [tokens.HATCHES["shared"]]
    assert words(figure).count("×2") == 1
    assert "A B" in words(figure)


def test_tables_stand_beside_with_lengths(forked):
    said = words(draw.blocks(forked, title="after the fork"))
    assert {"after the fork", "20 tokens", "21 tokens", "3 of 6 blocks in use, 1 of them shared, 3 free."} <= set(said)


@pytest.mark.parametrize("free", [{3, 4, 5}, deque([3, 4, 5]), (5, 4, 3), [3.0, 4.0, 5.0]], ids=lambda f: type(f).__name__)
def test_the_shape_of_the_free_list_does_not_matter(free, forked):
    usual = words(draw.blocks(forked))
    forked.free = free
    assert words(draw.blocks(forked)) == usual


def test_a_manager_is_not_written_to(forked):
    before = repr(vars(forked))
    draw.blocks(forked)
    assert repr(vars(forked)) == before


def test_without_a_block_size_slots_are_left_out_or_inferred(forked):
    slots = len(draw.blocks(forked).axes[0].lines)
    forked.block_size = None       # 20 and 21 tokens in two blocks each: many sizes fit
    assert slots > 0 and not draw.blocks(forked).axes[0].lines
    forked.seqs["C"] = {"blocks": [3, 4, 5], "len": 33}
    forked.seqs["D"] = {"blocks": [3], "len": 16}
    forked.free = []
    assert draw.blocks(forked).axes[0].lines


def test_contradictions_are_said_and_nothing_is_raised():
    torn = still([0, 1, 2], {2: 1, 3: 2, 4: 1}, {"A": ([2, 3, 77], 40)})
    said = " ".join(words(draw.blocks(torn)))
    assert "#2 is in the free list while 1 table entry points at it." in said
    assert "#3: count 2, 1 table entry points at it." in said
    assert "The pool has no block #77." in said


@pytest.mark.parametrize("broken", [SimpleNamespace(), SimpleNamespace(free=3, ref=None, seqs=[1]), object()], ids=["empty", "odd", "object"])
def test_what_cannot_be_read_is_a_sentence_on_the_picture(broken):
    problem = read_state(broken).problem
    assert problem and problem.split()[0] in " ".join(words(draw.blocks(broken)))


def test_names_of_any_script_draw_without_a_warning():
    names = ["$x^$", "子", "a\nb", "request-17", "A", "x" * 300]
    manager = still([], {n: 1 for n in range(6)}, {name: ([n], 3) for n, name in enumerate(names)})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        draw.blocks(manager).savefig(io.BytesIO(), format="png")


@pytest.mark.parametrize("size", [1, 48, 49, 256, 1000, 4096])
def test_pools_of_every_size_stay_small_enough_to_read(size):
    used = size // 2
    manager = still(list(range(used, size)), {n: 1 for n in range(used)}, {"A": (list(range(used)), used * 16)}, num_blocks=size)
    started = time.perf_counter()
    figure = draw.blocks(manager)
    assert time.perf_counter() - started < 20
    assert len(figure.axes[0].patches) < 2_500
    width, height = figure.get_size_inches()
    assert width <= 8 and height <= 8
    assert any(f"{used} of {size} blocks in use" in line for line in words(figure))


def test_a_crowd_of_sequences_is_capped():
    crowd = still([], {n: 1 for n in range(40)}, {f"r{n}": ([n], 1) for n in range(40)}, num_blocks=40)
    assert "… and 30 more sequences" in words(draw.blocks(crowd))


def test_every_figure_is_closed_for_pyplot(forked):
    from matplotlib import pyplot
    from matplotlib.figure import Figure

    spans = [("contiguous", [(0, 20, "tokens", "A"), (20, 12, "reserved", "A"), (32, 16, "internal", "A"), (48, 10, "external", None)])]
    parts = {"Max": {"tokens": 20.4, "reserved": 13.3, "internal": 57.3, "external": 8.9}}
    figures = [
        draw.blocks(forked),
        draw.memory(spans, 64, title="one pool"),
        draw.waste(parts, published=parts, title="waste"),
        draw.savings([2, 4, 6], {"closed form": [6, 9, 10]}, "n", "percent saved", published={"closed form": [6.09, 8.53, 9.79], "beam": {2: 37.56}}),
        draw.counts([("allocate", {0: 1}), ("fork", {0: 2}), ("now", forked), ("read", read_state(forked))], title="counts"),
    ]
    assert all(isinstance(figure, Figure) for figure in figures)
    assert pyplot.get_fignums() == []


def test_drawing_into_given_axes_returns_their_figure(forked):
    from matplotlib.figure import Figure

    figure = Figure()
    assert draw.blocks(forked, ax=figure.subplots()) is figure


def test_wastes_are_stacked_in_one_order_whatever_order_they_come_in():
    parts = {"external": 10, "internal": 20, "reserved": 30, "tokens": 40}
    said = words(draw.waste({"x": parts}))
    assert said == ["40.0", "30.0", "20.0", "10.0"]
    assert set(hatches(draw.waste({"x": parts}))) == {tokens.HATCHES[kind] for kind in ("reserved", "internal", "external")}


def test_an_unknown_kind_of_memory_is_named():
    with pytest.raises(ValueError, match="'lost' is not a kind of memory; use one of tokens, reserved"):
        draw.waste({"x": {"lost": 3}})


def test_savings_start_at_zero():
    assert draw.savings([1, 2], {"a": [50, 60]}, "x", "y").axes[0].get_ylim()[0] == 0


# --- the visual language itself ---

def test_lettering_meets_wcag_aa_on_every_fill():
    fills = [*tokens.HUES, tokens.NO_HUE, tokens.SHARED_FILL, tokens.PAPER, *tokens.KIND_FILLS.values()]
    assert {fill: tokens.contrast(tokens.ink_on(fill), fill) >= 4.5 for fill in fills} == dict.fromkeys(fills, True)
    assert tokens.contrast(tokens.MUTED, tokens.PAPER) >= 4.5 and tokens.contrast(tokens.ALARM, tokens.PAPER) >= 4.5
    assert all(tokens.contrast(hue, tokens.PAPER) >= 3 for hue in (*tokens.LINE_HUES, tokens.LINE))


def test_releasing_a_sequence_recolours_nobody():
    before = tokens.owners(["A", "B", "C"])
    assert tokens.owners(["B", "C"]) == {name: before[name] for name in "BC"}


def test_no_two_owners_have_one_letter_and_seven_have_a_hue():
    marks = tokens.owners([f"request-{n}" for n in range(60)]).values()
    assert len({mark.letter for mark in marks}) == 60
    assert sum(mark.hue != tokens.NO_HUE for mark in marks) == 7


def test_drawings_of_the_book_use_the_colours_of_the_language():
    known = {value.upper() for value in vars(tokens).values() if isinstance(value, str) and value.startswith("#")} | set(tokens.HUES)
    for drawing in (ROOT / "book" / "_static").glob("*.svg"):
        used = {colour.upper() for colour in re.findall(r"#[0-9a-fA-F]{6}\b", drawing.read_text(encoding="utf-8"))}
        assert used and used <= known, drawing.name
