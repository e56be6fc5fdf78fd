"""On notebooks of plain asserts `autograder grade` stores what stock `nbgrader autograde` stores."""

import re
import shutil

import nbformat
import plain_course
import pytest
from plain_course import LESSON

from conftest import ROOT, run

pytestmark = [pytest.mark.usefixtures("sandboxed")]


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """The same submissions in two copies of a course, graded by stock nbgrader and by us."""
    stock = tmp_path_factory.mktemp("plain") / "stock"
    released = plain_course.make(stock)
    good = {"double": "def double(x):\n    return 2 * x", "parts": "parts = 2"}
    hand_in = plain_course.hand_in
    hand_in(stock, "ann", released, **good, essay="Because.", own="np.arange(3)")
    hand_in(stock, "bob", released, double="def double(x):\n    return x + 1", parts="parts = 1")
    hand_in(stock, "cyd", released)
    hand_in(stock, "dan", released, timestamp="2026-10-25 19:30:00 Europe/Berlin", **good)
    hand_in(stock, "eve", released, double=good["double"] + "\nprint('x' * 10)\ndouble(4)", parts="parts = 'no number'", own="1 / 0")
    hand_in(stock, "flo", released, **good, own="for i in range(1500):\n    print(i)")
    hand_in(stock, "gus", released, **good, own="import sys\nprint('out')\nprint('err', file=sys.stderr)\nfrom IPython.display import HTML, display\ndisplay(HTML('<b>x</b>'))\nHTML('<i>y</i>')")
    ours = stock.with_name("ours")
    shutil.copytree(stock, ours)
    # As a kernel has it where nobody has set another backend.
    done = run("nbgrader", "autograde", LESSON, cwd=stock, PYTHONPATH="", MPLBACKEND="module://matplotlib_inline.backend_inline")
    assert done.returncode == 0, done.stderr[-3000:]
    done = run("python", "-m", "autograder.staff.grade", LESSON, cwd=ours, PYTHONPATH=str(ROOT))
    assert done.returncode == 0, done.stderr[-3000:]
    return stock, ours


@pytest.mark.parametrize("table", plain_course.QUERIES)
def test_the_gradebook_holds_the_same_rows(both, table):
    stock, ours = (plain_course.rows(folder)[table] for folder in both)
    assert len(stock) >= 7
    assert ours == stock


def test_the_autograded_folders_hold_the_same_files_with_the_same_rights(both):
    stock, ours = ({p.relative_to(folder): p.stat().st_mode for p in (folder / "autograded").rglob("*") if p.is_file()} for folder in both)
    assert len(stock) >= 21
    assert ours == stock


def comparable(output):
    """An output without what depends on the moment or on how a traceback is coloured."""
    kept = {key: value for key, value in output.items() if key not in ("traceback", "data")}
    if "data" in output:
        kept["data"] = {kind: re.sub(r"0x[0-9a-f]+", "0x…", text) for kind, text in output["data"].items() if not kind.startswith("image/")}
        kept["kinds"] = sorted(output["data"])
    return kept


def test_the_autograded_notebooks_hold_the_same_cells_and_outputs(both):
    looked = 0
    for path in sorted((both[0] / "autograded").glob("*/*/*.ipynb")):
        stock, ours = (nbformat.read(folder / path.relative_to(both[0]), as_version=4) for folder in both)
        assert ours.metadata == stock.metadata
        assert [c.source for c in ours.cells] == [c.source for c in stock.cells]
        for mine, theirs in zip(ours.cells, stock.cells, strict=True):
            assert mine.metadata == {key: value for key, value in theirs.metadata.items() if key != "execution"}
            if mine.cell_type == "code":
                assert [comparable(o) for o in mine.outputs] == [comparable(o) for o in theirs.outputs], theirs.source
                assert mine.execution_count == theirs.execution_count
                looked += len(mine.outputs)
    assert looked > 30
