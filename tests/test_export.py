"""Marks as tables for other programs."""

import csv
import io
import sqlite3

import plain_course
import pytest
from plain_course import LESSON

from autograder.staff import export, grading
from autograder.staff.export import Row
from conftest import run

pytestmark = [pytest.mark.usefixtures("sandboxed")]


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    """ann is graded, bob has a full zero, cyd's file is broken, dan is late, eve has handed in nothing, flo waits."""
    folder = tmp_path_factory.mktemp("export") / "course"
    released = plain_course.make(folder)
    right = {"double": "def double(x):\n    return 2 * x", "parts": "parts = 2"}
    plain_course.hand_in(folder, "ann", released, **right, essay="So.", own="np.arange(4)")
    plain_course.hand_in(folder, "bob", released, double="double = None", parts="parts = 0")
    plain_course.hand_in(folder, "cyd", released)
    (folder / "submitted" / "cyd" / LESSON / f"{LESSON}.ipynb").write_bytes(b"")
    plain_course.hand_in(folder, "dan", released, timestamp="2026-10-25 20:00:00 UTC", **right)
    made = grading.Course(folder)
    grading.grade_all(folder, [(LESSON, who) for who in made.students(LESSON)])
    plain_course.hand_in(folder, "flo", released)
    database = sqlite3.connect(folder / "gradebook.db")
    with database:
        database.execute("INSERT INTO student (id, first_name, last_name, email) VALUES ('eve', 'Eve, Jr.', '=HYPERLINK(\"http://x\",\"y\")', '+1@x')")
        database.execute("UPDATE student SET first_name = 'Ann\nMarie', last_name = 'Ü' WHERE id = 'ann'")
    database.close()
    return made


def table(course, kind):
    return list(csv.reader(io.StringIO(export.write(export.rows_of(course, [LESSON]), kind), newline="")))


def test_a_zero_is_told_from_every_kind_of_absence(course):
    rows = {row[0]: row[5:9] for row in table(course, "csv")[1:]}
    assert rows == {
        "ann": ["awaiting manual marks", "4", "10.5", ""],
        "bob": ["awaiting manual marks", "0", "10.5", ""],
        "cyd": ["not gradable", "", "", ""],
        "dan": ["awaiting manual marks", "0", "10.5", "4"],
        "eve": ["not submitted", "", "", ""],
        "flo": ["not graded yet", "", "", ""],
    }


@pytest.mark.parametrize("kind", ["csv", "canvas", "moodle"])
def test_names_with_commas_quotes_line_ends_and_formulas_stay_in_their_cells(course, kind):
    rows = table(course, kind)
    assert {len(row) for row in rows} == {len(rows[0])}
    assert [cell for row in rows for cell in row if cell.startswith(("=", "+", "-", "@"))] == []
    assert any("'=HYPERLINK" in cell for row in rows for cell in row)
    assert any("Ann\nMarie" in cell for row in rows for cell in row)


def test_canvas_has_the_points_in_its_second_line_and_empty_cells_for_no_mark(course):
    head, points, *people = table(course, "canvas")
    assert (head[0], head[5:], points[5:]) == ("Student", [LESSON], ["10.5"])
    assert {row[2]: row[5] for row in people} == {"ann": "4", "bob": "0", "cyd": "", "dan": "0", "eve": "", "flo": ""}


def test_moodle_has_a_column_for_each_lesson(course):
    head, *people = table(course, "moodle")
    assert head == ["ID number", "First name", "Surname", "Email address", LESSON]
    assert {row[0]: row[4] for row in people}["cyd"] == ""


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@x", "\t=1", "\r=1"])
def test_what_a_spreadsheet_would_run_gets_an_apostrophe(text):
    row = Row(text, text, text, text, text, "graded", -0.5, 1.0, None, "")
    (line,) = list(csv.reader(io.StringIO(export.write([row], "csv"), newline="")))[1:]
    assert line[:5] == [f"'{text}"] * 5
    assert line[6] == "-0.5"


def test_the_command_writes_a_file_that_excel_reads_as_utf_8(course, tmp_path):
    done = run("autograder", "export", "--course", str(course.root), "--to", str(tmp_path / "marks.csv"))
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "marks.csv").read_bytes().startswith(b"\xef\xbb\xbfstudent,")
    assert "Ü" in (tmp_path / "marks.csv").read_text("utf-8-sig")


def test_an_unknown_lesson_is_answered_with_those_that_exist(course):
    done = run("autograder", "export", "--course", str(course.root), "nothing")
    assert (done.returncode, done.stderr) == (1, f"autograder export: There is no lesson nothing in this course: it has {LESSON}.\n")
