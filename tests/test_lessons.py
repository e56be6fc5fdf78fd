"""`autograder lessons`: what it refuses, what it redoes, and that nobody's edits are lost."""

import os
import time

import nbformat
import pytest

from autograder import promises
from autograder.staff import derive, lessons
from autograder.staff.faults import find_faults
from conftest import ROOT

NAME = "01_contiguous_vs_paged"
HEADER = "# ---\n# jupyter:\n#   kernelspec:\n#     display_name: Python 3\n#     language: python\n#     name: python3\n# ---\n"
# A lesson of one exercise, with no right answer in it: nothing here is executed.
SOLUTION = """
# %% nbgrader={"grade": false, "grade_id": "slack", "locked": false, "schema_version": 3, "solution": true, "task": false}
def slack(n_tokens, block_size):
    ### BEGIN SOLUTION
    the_answer_key_stands_here = n_tokens
    ### END SOLUTION
"""
CHECKS = """
# %% nbgrader={"grade": true, "grade_id": "slack-checks", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
check("01_contiguous_vs_paged/slack", slack)
### BEGIN HIDDEN TESTS
check("01_contiguous_vs_paged/slack", slack, thorough=True)
### END HIDDEN TESTS
"""
LESSON = HEADER + '\n# %% [markdown]\n"""\n# A lesson\n"""\n' + SOLUTION + CHECKS


@pytest.fixture
def small(tmp_path, monkeypatch):
    """A course of one lesson; the command runs in its folder."""
    folder = tmp_path / "source_assignments" / NAME
    folder.mkdir(parents=True)
    (folder / f"{NAME}.py").write_text(LESSON)
    (tmp_path / "nbgrader_config.py").write_bytes((ROOT / "nbgrader_config.py").read_bytes())
    monkeypatch.chdir(tmp_path)
    return lessons.Lesson(tmp_path, NAME)


def edit_notebook(lesson, words, seconds_later=5):
    """What JupyterLab without the pairing does: another cell text, other ids, outputs, and a newer file."""
    notebook = nbformat.read(lesson.twin, 4)
    notebook.cells[0].source += words
    notebook.cells[0].id = "random"
    notebook.cells[1].outputs = [nbformat.v4.new_output("stream", text="4")]
    nbformat.write(notebook, lesson.twin)
    later = time.time() + seconds_later
    os.utime(lesson.twin, (later, later))


def test_small_lesson_has_no_fault():
    assert find_faults(LESSON, NAME) == []


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("    ### END SOLUTION\n", "", "### BEGIN SOLUTION has no ### END SOLUTION in its cell"),
        ("    ### BEGIN SOLUTION\n", "", "### END SOLUTION has no ### BEGIN SOLUTION"),
        ("### END HIDDEN TESTS\n", "", "### BEGIN HIDDEN TESTS has no ### END HIDDEN TESTS"),
        ("### BEGIN HIDDEN TESTS\n", "### BEGIN HIDDEN TESTS\n### BEGIN SOLUTION\n", "stands inside the region that line"),
        ('"slack-checks"', '"slack"', "grade_id slack is taken by the cell in line"),
        ('"grade_id": "slack-checks", ', "", "the cell needs a grade_id"),
        ('"points": 2, ', "", "slack-checks has no points"),
        ('"points": 2, ', '"points": 3, ', "gives 3 points, autograder/exercises.py gives 2"),
        (CHECKS, "", "no test cell checks 01_contiguous_vs_paged/slack"),
        ("check(", "print(", "slack-checks has no check"),
        ("paged/slack", "paged/slacks", "is no exercise of 01_contiguous_vs_paged"),
        (", thorough=True", "", "has no hidden check"),
        ("### BEGIN SOLUTION", "# given", "### END SOLUTION has no ### BEGIN SOLUTION"),
        ('"solution": true', '"solution": false', "a cell that nbgrader does not take for a solution"),
        ('nbgrader={"grade": false', 'nbgrader={grade: false', "the nbgrader metadata is not JSON"),
        ("def slack(", "def slack((", "Python cannot read this"),
    ],
)
def test_fault_is_told_in_one_sentence_with_its_line(old, new, sentence):
    assert old in LESSON
    text = LESSON.replace(old, new)
    told = [fault for fault in find_faults(text, NAME) if sentence in fault.sentence]
    assert told, find_faults(text, NAME)
    assert all(1 <= fault.line <= len(text.splitlines()) and "\n" not in fault.sentence for fault in told)


def test_solution_cell_without_a_region_is_a_fault():
    bare = LESSON.replace("    ### BEGIN SOLUTION\n", "").replace("    ### END SOLUTION\n", "")
    assert any("all of it would be cleared" in fault.sentence for fault in find_faults(bare, NAME))


def test_fault_keeps_the_release_as_it_was_and_names_file_and_line(small, capsys):
    assert lessons.main([NAME]) == 0
    before = small.outputs()
    small.text.write_text(LESSON.replace("    ### END SOLUTION\n", ""))
    assert lessons.main([NAME]) == 1
    line = 1 + LESSON[: LESSON.index("### BEGIN SOLUTION")].count("\n")
    assert f"source_assignments/{NAME}/{NAME}.py:{line}: ### BEGIN SOLUTION has no" in capsys.readouterr().err
    assert small.outputs() == before


def test_release_has_the_stub_and_neither_answer_nor_hidden_test(small):
    assert lessons.main([NAME]) == 0
    release = (small.release / f"{NAME}.ipynb").read_text()
    assert "write this part, then delete this line" in release
    assert "the_answer_key_stands_here" not in release
    assert "thorough" not in release
    assert [p.name for p in small.release.iterdir()] == [f"{NAME}.ipynb"]


def test_second_run_redoes_nothing(small, monkeypatch, capsys):
    assert lessons.main([NAME]) == 0
    monkeypatch.setattr(derive, "release_files", lambda *_: pytest.fail("derived again"))
    assert lessons.main([NAME]) == 0
    assert "1 up to date" in capsys.readouterr().out


@pytest.mark.parametrize("touched", ["text", "twin", "release", "configuration"])
def test_check_notices_whatever_was_touched_and_writes_nothing(small, touched, capsys):
    assert lessons.main([NAME]) == 0
    assert lessons.main([NAME, "--check"]) == 0
    release = small.release / f"{NAME}.ipynb"
    changed = {"text": small.text, "twin": small.twin, "release": release, "configuration": small.root / "nbgrader_config.py"}[touched]
    if touched == "configuration":
        changed.write_text(changed.read_text().replace("write this part", "fill this in"))
    elif touched == "text":
        changed.write_text(LESSON.replace("# A lesson", "# Another lesson"))
    else:
        changed.write_text(changed.read_text().replace("# A lesson", "# Another lesson"))
        os.utime(changed, (1, 1))
    before = small.outputs()
    assert lessons.main([NAME, "--check"]) == 1
    assert small.outputs() == before
    assert f"{NAME}.ipynb" in capsys.readouterr().out
    assert lessons.main([NAME]) == 0
    assert lessons.main([NAME, "--check"]) == 0


def test_removed_release_comes_back(small):
    assert lessons.main([NAME]) == 0
    (small.release / f"{NAME}.ipynb").unlink()
    assert lessons.main([NAME, "--check"]) == 1
    assert lessons.main([NAME]) == 0
    assert (small.release / f"{NAME}.ipynb").exists()


def test_edited_notebook_is_refused_until_its_text_takes_the_edits_over(small, capsys):
    assert lessons.main([NAME]) == 0
    edit_notebook(small, "\n\nwritten in JupyterLab")
    edited = small.twin.read_bytes()
    for arguments in ([NAME], [NAME, "--check"]):
        assert lessons.main(arguments) == 1
        assert f"autograder lessons --from-notebook {NAME}" in capsys.readouterr().err
        assert small.twin.read_bytes() == edited
    assert lessons.main(["--from-notebook", NAME]) == 0
    assert "written in JupyterLab" in small.text.read_text()
    assert "the_answer_key_stands_here" in small.text.read_text()
    assert lessons.main([NAME, "--check"]) == 0


def test_run_notebook_with_nothing_edited_is_simply_written_anew(small):
    assert lessons.main([NAME]) == 0
    fresh = small.twin.read_bytes()
    edit_notebook(small, "")
    assert lessons.main([NAME]) == 0
    assert small.twin.read_bytes() == fresh


def test_text_edited_after_the_notebook_wins_and_a_copy_of_the_notebook_is_kept(small, capsys):
    assert lessons.main([NAME]) == 0
    edit_notebook(small, "\n\nwritten in JupyterLab", seconds_later=-60)
    small.text.write_text(LESSON.replace("# A lesson", "# Another lesson"))
    assert lessons.main([NAME]) == 0
    (copy,) = (small.root / lessons.KEPT).rglob("*.ipynb")
    assert "written in JupyterLab" in copy.read_text()
    assert copy.relative_to(small.root).as_posix() in capsys.readouterr().err


def test_work_that_somebody_did_in_the_released_notebook_is_kept(small):
    assert lessons.main([NAME]) == 0
    release = small.release / f"{NAME}.ipynb"
    release.write_text(release.read_text().replace("raise NotImplementedError", "return 5  # NotImplementedError"))
    assert lessons.main([NAME]) == 0
    (copy,) = (small.root / lessons.KEPT).rglob("*.ipynb")
    assert "return 5" in copy.read_text()
    assert "return 5" not in release.read_text()


def test_second_notebook_in_a_lessons_folder_is_refused(small, capsys):
    assert lessons.main([NAME]) == 0
    (small.text.parent / "Untitled.ipynb").write_bytes(small.twin.read_bytes())
    assert lessons.main([NAME]) == 1
    assert "Untitled.ipynb would be released too" in capsys.readouterr().err


@pytest.mark.parametrize("name", [f"{NAME}.py~", f"{NAME}.py.orig", f".{NAME}.py.swp", f"{NAME}-copy.py"])
def test_copies_that_editors_leave_are_not_released(small, name):
    (small.text.parent / name).write_text(LESSON)
    assert lessons.main([NAME]) == 0
    assert [p.name for p in small.release.iterdir()] == [f"{NAME}.ipynb"]


def test_text_under_an_unforeseen_name_is_refused(small, capsys):
    (small.text.parent / "notes.txt").write_text(LESSON)
    assert lessons.main([NAME]) == 1
    assert "notes.txt would be released with a solution" in capsys.readouterr().err
    assert not small.release.exists()


def test_picture_beside_a_lesson_is_released_and_removed_with_it(small):
    (small.text.parent / "pool.svg").write_text("<svg/>")
    assert lessons.main([NAME]) == 0
    assert (small.release / "pool.svg").read_text() == "<svg/>"
    (small.text.parent / "pool.svg").unlink()
    assert lessons.main([NAME]) == 0
    assert not (small.release / "pool.svg").exists()


def test_file_in_a_release_that_comes_from_no_lesson_is_left_and_named(small, capsys):
    assert lessons.main([NAME]) == 0
    (small.release / "mine.py").write_text("mine")
    assert lessons.main([NAME, "--check"]) == 1
    assert "mine.py comes from no lesson" in capsys.readouterr().err
    assert lessons.main([NAME]) == 0
    assert (small.release / "mine.py").read_text() == "mine"


@pytest.mark.parametrize("broken", [b"", b"{", b"\xff\xfe", b"<<<<<<< HEAD\n"])
def test_unreadable_notebook_is_no_reason_to_lose_the_text(small, broken, capsys):
    assert lessons.main([NAME]) == 0
    small.twin.write_bytes(broken)
    assert lessons.main(["--from-notebook", NAME]) == 2
    assert "its text is unchanged" in capsys.readouterr().err
    assert small.text.read_text() == LESSON


def test_missing_text_is_written_from_its_notebook(small, capsys):
    assert lessons.main([NAME]) == 0
    small.text.unlink()
    assert lessons.main([NAME]) == 1
    assert f"--from-notebook {NAME}" in capsys.readouterr().err
    assert lessons.main(["--from-notebook", NAME]) == 0
    assert "the_answer_key_stands_here" in small.text.read_text()


def test_lesson_is_found_by_its_number_and_an_unknown_one_is_named(small, capsys):
    assert lessons.main(["01"]) == 0
    assert small.twin.exists()
    assert lessons.main(["9"]) == 2
    assert NAME in capsys.readouterr().err


def test_unreadable_record_costs_time_only(small):
    assert lessons.main([NAME]) == 0
    (small.root / lessons.RECORD).write_text("{")
    assert lessons.main([NAME, "--check"]) == 0


def test_page_of_promises_is_written_and_refused_when_stale(small, capsys):
    assert lessons.main([]) == 0
    page = small.root / "book" / "promises.md"
    assert page.read_text().strip() == promises.page().strip()
    page.write_text("# Other promises\n")
    assert lessons.main(["--check"]) == 1
    assert "book/promises.md is stale" in capsys.readouterr().err
    assert lessons.main([]) == 0
    assert lessons.main(["--check"]) == 0
