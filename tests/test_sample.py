"""The sample class: the same bytes each time, made of released notebooks, and nowhere where it could be published."""

import json
import re
from collections import Counter

import pytest

from autograder.staff import sample
from autograder.staff.sample import FULL, NOT_GRADABLE, NOT_SUBMITTED, NOTHING, PARTIAL
from autograder.staff.sample_cases import ODD, ORDINARY, make_class
from conftest import ROOT, needs_sources, run

pytestmark = needs_sources


@pytest.fixture(scope="module")
def sheets():
    return sample.sheets(ROOT)


def test_the_class_has_every_kind_of_outcome_and_at_least_24_submissions(sheets):
    kinds = Counter(submission.expect for submission in make_class(sheets))
    assert sum(kinds.values()) >= 24
    assert set(kinds) == {FULL, PARTIAL, NOTHING, NOT_GRADABLE, NOT_SUBMITTED}


def test_each_submission_is_another(sheets):
    seen = Counter(tuple(sorted(s.files.items())) for s in make_class(sheets))
    assert [count for count in seen.values() if count > 1] == []


def test_the_class_is_the_same_each_time(tmp_path):
    for name in ("one", "two"):
        sample.write_class(tmp_path / name, ROOT)
    one, two = ({p.relative_to(folder): p.read_bytes() for p in folder.rglob("*") if p.is_file()} for folder in (tmp_path / "one", tmp_path / "two"))
    assert one == two


def test_the_class_can_be_smaller_and_larger(sheets):
    assert len({s.student for s in make_class(sheets, 2)}) == 2
    many = make_class(sheets, ORDINARY + len(ODD) + 5)
    assert len({s.student for s in many}) == ORDINARY + len(ODD) + 5
    assert len({(s.student, s.lesson) for s in many}) == len(many)


def test_wrong_managers_are_in_the_class(sheets):
    wrong = [s for s in make_class(sheets) if s.expect == PARTIAL and s.loses == ("BlockManager",)]
    assert {s.lesson for s in wrong} >= {"01_contiguous_vs_paged", "03_copy_on_write"}


def test_a_solved_notebook_is_the_release_with_other_solution_cells(sheets):
    for sheet in sheets.values():
        for ours, theirs in zip(sheet.filled()["cells"], sheet.released["cells"], strict=True):
            same = {k: v for k, v in ours.items() if k != "source"} == {k: v for k, v in theirs.items() if k != "source"}
            assert same
            assert (ours["source"] != theirs["source"]) == (sample.is_written(ours) or (sample.name_of(ours) in sheet.reference and sample.is_solution(ours)))
            assert not re.search(r"### (BEGIN|END) SOLUTION", ours["source"])


def test_every_variant_can_be_made_and_differs_from_the_reference(sheets):
    for sheet in sheets.values():
        assert [v.name for v in sheet.variants if v.code == sheet.reference[v.part]] == []


@pytest.mark.parametrize("folder", [".", "notebooks/x", "book/_static", "_build"])
def test_solutions_are_refused_where_they_could_be_published(folder, course):
    result = run("python", "-m", "autograder.staff.sample", str(course / folder), cwd=course)
    assert result.returncode == 2
    assert "would be published" in result.stderr
    assert not list(course.rglob("class.json"))


def test_a_folder_with_other_files_is_left_alone(tmp_path):
    (tmp_path / "thesis.tex").write_text("years of work")
    assert sample.main([str(tmp_path)]) == 2
    assert [p.name for p in tmp_path.iterdir()] == ["thesis.tex"]


def test_the_written_class_says_what_each_submission_is(tmp_path, capsys):
    assert sample.main([str(tmp_path / "class"), "--students", "1"]) == 0
    told = json.loads((tmp_path / "class" / "class.json").read_text())
    assert {row["what"] for row in told} == {"the reference solution"}
    assert "students are in" in capsys.readouterr().out
