"""Grading again after a test was mended: who moved, manual marks, and the way back."""

import sqlite3
import sys

import nbformat
import plain_course
import pytest
from plain_course import LESSON

from autograder.staff import records
from autograder.staff.regrade import moved
from conftest import ROOT, run

pytestmark = [pytest.mark.usefixtures("sandboxed")]
COMMAND = [sys.executable, "-m", "autograder.staff.grade", LESSON]


def grade(folder, *more):
    done = run(*COMMAND, *more, cwd=folder, PYTHONPATH=str(ROOT))
    assert done.returncode == 0, done.stderr
    return done


def give_by_hand(folder, student, cell, score):
    database = sqlite3.connect(folder / "gradebook.db")
    query = """UPDATE grade SET manual_score = ? WHERE id = (SELECT g.id FROM grade g JOIN base_cell c ON c.id = g.cell_id JOIN submitted_notebook m
        ON m.id = g.notebook_id JOIN submitted_assignment s ON s.id = m.assignment_id WHERE s.student_id = ? AND c.name = ? AND c.type = 'GradeCell')"""
    with database:
        assert database.execute(query, (score, student, cell)).rowcount == 1
    database.close()


def mend(folder):
    """The instructor takes the hidden assert out and releases anew."""
    path = folder / "source" / LESSON / f"{LESSON}.ipynb"
    source = nbformat.read(path, as_version=4)
    (cell,) = [c for c in source.cells if c.metadata.get("nbgrader", {}).get("grade_id") == "double-test"]
    cell.source = "assert double(1) == 2"
    nbformat.write(source, path)
    assert run("nbgrader", "generate_assignment", LESSON, "--force", cwd=folder, PYTHONPATH="").returncode == 0


def test_grading_again_names_who_moved_keeps_manual_marks_and_can_be_undone(tmp_path):
    folder = tmp_path / "course"
    released = plain_course.make(folder)
    plain_course.hand_in(folder, "ann", released, double="def double(x):\n    return 2 * x")
    plain_course.hand_in(folder, "bob", released, double="def double(x):\n    return x + 1")
    assert "moved" not in grade(folder).stderr
    give_by_hand(folder, "bob", "essay", 2.5)
    files = lambda: {p: p.read_bytes() for p in sorted((folder / "autograded").rglob("*.ipynb"))}  # noqa: E731
    rows, notebooks = plain_course.rows(folder), files()

    mend(folder)
    said = grade(folder).stderr
    assert "1 moved" in said
    assert "bob ps1: 0 → 2 (double-test 0 → 2" in said
    assert "ann" not in said
    now = {(row[0], row[1]): row[3:5] for row in plain_course.rows(folder)["grades"] if row[2] == "GradeCell"}
    assert now["bob", "double-test"] == (2, None)
    assert now["bob", "essay"][1] == 2.5

    assert "bob ps1: 0 again" in grade(folder, "--undo").stdout
    back = plain_course.rows(folder)
    look_again = {(row[0], row[1]) for row in back["grades"] if row not in rows["grades"]}
    assert look_again <= {("bob", "essay")}, "nothing but the word that a person's mark may want another look"
    assert {name: table for name, table in back.items() if name != "grades"} == {name: table for name, table in rows.items() if name != "grades"}
    assert {p: nbformat.reads(b.decode(), 4) for p, b in files().items()} == {p: nbformat.reads(b.decode(), 4) for p, b in notebooks.items()}
    assert "[1/" not in grade(folder).stdout, "what was put back stands"
    assert "0 put back" in grade(folder, "--undo").stdout


def test_a_move_says_what_changed_and_nothing_is_said_without_one():
    def record(*scores, state=records.GRADED):
        return records.Record("ps1", "ann", state, cells=[records.CellMark(f"t{i}", None, 2.0, s) for i, s in enumerate(scores)])

    assert moved(record(1.0, 2.0), record(1.0, 2.0)) is None
    assert moved(record(1.0, 2.0), record(2.0, 2.0)) == "ann ps1: 3 → 4 (t0 1 → 2)"
    assert moved(record(state=records.NOT_GRADABLE), record(2.0)) == "ann ps1: not gradable → 2 (t0 no mark → 2)"
    assert moved(record(2.0, 1.0), record(1.0, 2.0)) == "ann ps1: 3 → 3 (t0 2 → 1; t1 1 → 2)"
