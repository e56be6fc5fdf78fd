"""The answer key's outputs are made once per change, hold nothing hidden, and fail in one sentence."""

import json

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from autograder.staff import answers

PASSING = {
    "01_tiny-00": "value = 6 * 7\nprint('the answer is', value)",
    "part": "def part():\n    ### BEGIN SOLUTION\n    return 7\n    ### END SOLUTION",
    "part-checks": "print('seen', part())\n### BEGIN HIDDEN TESTS\nprint('hidden', part())\n### END HIDDEN TESTS",
    "01_tiny-03": (
        "from IPython.display import display\n"
        "display({'application/vnd.autograder.transcript+json': {'nonce': 'n'}, 'text/plain': 'shown'}, raw=True)\n"
        "display({'application/vnd.autograder.transcript+json': {'nonce': 'n'}}, raw=True)\n"
        "value"
    ),
}


@pytest.fixture
def lesson(tmp_path):
    folder = tmp_path / "source_assignments" / "01_tiny"
    folder.mkdir(parents=True)
    (tmp_path / "autograder").mkdir()
    write(folder, PASSING)
    return folder


def write(folder, cells):
    notebook = new_notebook(cells=[new_markdown_cell("# Tiny", id="title"), *(new_code_cell(source, id=name) for name, source in cells.items())])
    nbformat.write(notebook, folder / "01_tiny.ipynb")


def cells_of(kept):
    return json.loads(kept.read_text(encoding="utf-8"))["cells"]


@pytest.fixture
def no_kernel(monkeypatch):
    def refuse(*_):
        raise AssertionError("the lesson was run again")

    monkeypatch.setattr(answers, "_execute", refuse)


def test_outputs_lie_under_their_cells_ids_without_the_hidden_and_the_private(lesson, capsys):
    kept = answers.ensure(lesson)
    assert kept == lesson.parents[1] / "_build" / "answers" / "01_tiny.json"
    cells = cells_of(kept)
    assert cells["01_tiny-00"] == [{"name": "stdout", "output_type": "stream", "text": "the answer is 42\n"}]
    assert cells["part-checks"] == [{"name": "stdout", "output_type": "stream", "text": "seen 7\n"}]
    assert [output["data"] for output in cells["01_tiny-03"]] == [{"text/plain": "shown"}, {"text/plain": "42"}]
    assert "part" not in cells
    assert "answer key of 01_tiny: done" in capsys.readouterr().err


def test_two_runs_give_the_same_bytes(lesson, tmp_path):
    first, second = (answers.ensure(lesson, tmp_path / name).read_bytes() for name in ("one", "two"))
    assert first == second


def test_an_unchanged_lesson_is_not_run_again(lesson, request):
    kept = answers.ensure(lesson)
    before = kept.stat().st_mtime_ns
    request.getfixturevalue("no_kernel")
    assert answers.ensure(lesson) == kept
    assert kept.stat().st_mtime_ns == before


@pytest.mark.parametrize("change", ["lesson", "package", "damaged"])
def test_a_change_runs_the_lesson_again(lesson, request, change):
    kept = answers.ensure(lesson)
    request.getfixturevalue("no_kernel")
    if change == "lesson":
        write(lesson, PASSING | {"01_tiny-00": "print(1)"})
    elif change == "package":
        (lesson.parents[1] / "autograder" / "draw.py").write_text("x = 1\n", encoding="utf-8")
    else:
        kept.write_text("{", encoding="utf-8")
    with pytest.raises(AssertionError, match="run again"):
        answers.ensure(lesson)


def test_a_failing_key_names_lesson_cell_and_error_in_one_sentence(lesson):
    write(lesson, PASSING | {"part-checks": "assert part() == 8, 'seven is not eight\\nand more'"})
    with pytest.raises(answers.AnswerKeyFailed) as failure:
        answers.ensure(lesson)
    assert str(failure.value) == "The answer key of 01_tiny fails in cell 'part-checks': AssertionError: seven is not eight"
    assert not (lesson.parents[1] / "_build").exists()


def test_a_missing_notebook_says_which_command_makes_it(tmp_path):
    with pytest.raises(answers.AnswerKeyFailed, match="make lessons"):
        answers.ensure(tmp_path / "source_assignments" / "09_none")


def test_a_lesson_whose_package_was_left_out_has_a_page_without_outputs(lesson, monkeypatch, capsys):
    monkeypatch.setattr(answers, "_left_out", lambda name: "torch")
    assert answers.ensure(lesson) is None
    assert "torch is not installed, so its page has no outputs" in capsys.readouterr().err


def test_only_lessons_whose_exercises_need_a_package_can_lack_it(monkeypatch):
    monkeypatch.setattr(answers.importlib.util, "find_spec", lambda name: None)
    assert [answers._left_out(name) for name in ("01_contiguous_vs_paged", "03_copy_on_write", "04_real_cache")] == [None, None, "torch"]
