"""The whole road on the sample class: collected, graded, told. Every mark must be what the class's table says."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys

import nbformat
import pytest
from nbformat.notebooknode import NotebookNode
from nbgrader.api import Gradebook, MissingEntry

from autograder.exercises import EXERCISES
from autograder.staff import course as course_command
from autograder.staff import execute, grading, plugin, records, sample
from autograder.staff.courses import nbgraders_surroundings
from autograder.staff.records import CellMark, Record
from conftest import ROOT, needs_sources, run

of_the_class = [needs_sources]
STATES = {sample.NOT_GRADABLE: records.NOT_GRADABLE, sample.NOT_SUBMITTED: records.NOT_SUBMITTED}


@pytest.fixture(scope="session")
def graded(tmp_path_factory, sandboxed):
    """The sample class, graded once for all tests: (course, {(student, lesson): (submission, record)})."""
    folder = tmp_path_factory.mktemp("the class") / "course"
    course, found = course_command.run(ROOT, folder, None, 2, say=lambda line: None, tell=lambda *told: None)
    submissions = {(s.student, s.lesson): s for s in sample.make_class_of(ROOT)}
    assert {(r.student, r.lesson) for r in found} == set(submissions)
    return course, {(r.student, r.lesson): (submissions[r.student, r.lesson], r) for r in found}


@needs_sources
def test_a_sample_course_with_an_earlier_edition_of_a_lesson_is_brought_up_to_date(tmp_path):
    course, said = course_command.set_up(ROOT, tmp_path / "course"), []
    lesson = course.lessons()[0]
    now = nbformat.read(course.notebook("source", lesson), 4)
    earlier = NotebookNode(now, cells=[cell for cell in now.cells if not cell.metadata.get("nbgrader", {}).get("task") and "numbers" not in cell.source])
    nbformat.write(earlier, course.notebook("source", lesson))
    course_command.release(course, lesson, said.append)
    with Gradebook(course.directory.db_url, course.directory.course_id) as gradebook:
        gradebook.update_or_create_student("ada")
        with nbgraders_surroundings():
            gradebook.add_submission(lesson, "ada")
    course_command._Done(course, "submitted").note(f"ada {lesson}", "its hash")
    nbformat.write(now, course.notebook("source", lesson))
    course_command.release(course, lesson, said.append)
    assert said == [f"the cells of {lesson} are others now: what the sample class handed in is withdrawn and handed in anew"]
    with Gradebook(course.directory.db_url, course.directory.course_id) as gradebook, pytest.raises(MissingEntry):
        gradebook.find_submission(lesson, "ada")


def outcome(record):
    """A record in the words of the class's table, and the exercises that lost marks. (A written answer has no mark yet.)"""
    if record.score is None:
        return record.state, ()
    lost = tuple(c.exercise.split("/")[1] for c in record.cells if c.exercise and c.score < c.points)
    return sample.FULL if not lost else sample.NOTHING if record.score == 0 else sample.PARTIAL, lost


class TestClass:
    pytestmark = of_the_class

    def test_every_submission_gets_what_the_table_says(self, graded):
        _, found = graded
        wrong = []
        for who, (submission, record) in sorted(found.items()):
            state, lost = outcome(record)
            right = state == STATES.get(submission.expect, submission.expect)
            if submission.expect == sample.PARTIAL:
                right = right and set(submission.loses) <= set(lost) <= {*submission.loses, *submission.may_lose}
            if not right:
                wrong.append((who, submission.what, submission.expect, state, lost, record.reasons()))
        assert wrong == []

    def test_causes_are_named(self, graded):
        _, found = graded
        unnamed = [(s.what, r.reasons()) for s, r in found.values() if s.cause and s.cause not in f"{r.cause} {' '.join(r.reasons())}"]
        assert unnamed == []

    def test_marks_are_finite_and_at_most_the_points_of_the_exercises(self, graded):
        _, found = graded
        cells = [cell for _, record in found.values() for cell in record.cells if cell.exercise]
        assert cells
        assert all(0 <= cell.score <= cell.points == EXERCISES[cell.exercise].points for cell in cells)

    def test_a_written_answer_waits_for_a_person_and_costs_nobody_a_mark_meanwhile(self, graded):
        _, found = graded
        written = [(s, r, cell) for s, r in found.values() for cell in r.cells if cell.exercise is None]
        assert written
        for submission, record, cell in written:
            assert cell.score is None and record.state == records.AWAITING, submission.what
            assert f"{cell.grade_id} awaits a manual mark" in record.reasons()

    def test_nbgraders_gradebook_has_the_marks_of_the_records(self, graded):
        course, found = graded
        with Gradebook(course.directory.db_url, course.directory.course_id) as gradebook:
            for (student, lesson), (_, record) in found.items():
                if record.score is None:
                    with pytest.raises(MissingEntry):
                        gradebook.find_submission(lesson, student)
                else:
                    assert gradebook.find_submission(lesson, student).score == pytest.approx(record.score)

    def test_what_was_handed_in_is_untouched(self, graded):
        course, found = graded
        for (student, lesson), (submission, _) in found.items():
            folder = course.path("submitted", lesson, student)
            assert {name: (folder / name).read_bytes() for name in submission.files} == submission.files

    def test_a_flood_of_output_is_cut_off(self, graded):
        course, found = graded
        ((student, lesson),) = [who for who, (s, _) in found.items() if "50 MB" in s.what]
        assert course.notebook("autograded", lesson, student).stat().st_size < 2 * 2**20
        assert "cut off after" in course.notebook("autograded", lesson, student).read_text("utf-8")

    def test_each_run_had_a_nonce_of_its_own(self, graded):
        course, found = graded
        nonces = []
        for (student, lesson), (_, record) in found.items():
            if record.score is not None:
                text = course.notebook("autograded", lesson, student).read_text("utf-8")
                cells = json.loads(text)["cells"]
                shown = {d["nonce"] for c in cells for o in c.get("outputs", []) if (d := o.get("data", {}).get(plugin.TRANSCRIPT))}
                assert len(shown) <= 1
                nonces += shown
        assert len(nonces) > 20
        assert len(set(nonces)) == len(nonces)

    def test_a_second_run_grades_nothing_again(self, graded):
        course, found = graded
        ran = []
        records_again = grading.grade_all(course.root, [(lesson, student) for student, lesson in found], tell=lambda *told: ran.append(told))
        assert ran == []
        assert len(records_again) == len(found)

    def test_a_changed_lesson_makes_only_its_own_submissions_stale(self, graded):
        course, found = graded
        source = course.notebook("source", "02_prefix_sharing")
        before = source.read_bytes()
        try:
            source.write_bytes(before + b"\n")
            stale = {
                (student, lesson)
                for (student, lesson), (_, record) in found.items()
                if not grading.is_current(grading.Course(course.root), record, grading.Course(course.root).read(lesson, student)[1])
            }
        finally:
            source.write_bytes(before)
        assert stale == {who for who in found if who[1] == "02_prefix_sharing"}

    def test_stock_nbgrader_gives_the_same_marks(self, graded, tmp_path):
        course, found = graded
        copy = tmp_path / "course"
        shutil.copytree(course.root, copy, ignore=shutil.ignore_patterns("exchange", "cache", "autograded", "records", "feedback", "submitted"))
        _repoint(course, copy)
        chosen = [who for who, (s, r) in found.items() if s.lesson.startswith("02") and r.score is not None and who[0] in ("s01", "s04") or "twice" in s.what]
        for student, lesson in chosen:
            shutil.copytree(course.path("submitted", lesson, student), copy / "submitted" / student / lesson)
        result = run("nbgrader", "autograde", "02_prefix_sharing", "--force", cwd=copy, PYTHONPATH=str(ROOT))
        assert result.returncode == 0, result.stderr[-2000:]
        assert len(chosen) >= 4
        for student, lesson in chosen:
            assert records.load(copy / "records", lesson, student).score == found[student, lesson][1].score

    def test_stock_nbgrader_releases_the_feedback(self, graded):
        course, found = graded
        lesson = "02_prefix_sharing"
        result = run("nbgrader", "release_feedback", lesson, cwd=course.root, PYTHONPATH=str(ROOT))
        assert result.returncode == 0, result.stderr[-2000:]
        pages = list((course.root / "exchange").glob("*/feedback/*.html"))
        assert len(pages) == sum(who[1] == lesson for who in found)

    def test_nbgraders_own_feedback_shows_no_hidden_test_and_why_a_mark_is_not_full(self, graded, tmp_path):
        course, found = graded
        student, lesson = next(who for who, (submission, record) in found.items() if submission.what.startswith("wrong ") and who[1].startswith("01"))
        copy = tmp_path / "course"
        shutil.copytree(course.root, copy, symlinks=True)
        config = copy / "nbgrader_config.py"    # it finds the course's own by a relative path, which a copy elsewhere breaks
        config.write_text(re.sub(r"path=.*\)$", lambda _: f"path={str(ROOT)!r})", config.read_text("utf-8"), count=1, flags=re.M), "utf-8")
        made = run("nbgrader", "generate_feedback", lesson, "--student", student, "--force", cwd=copy, PYTHONPATH=str(ROOT))
        assert made.returncode == 0, made.stderr[-2000:]
        page = (copy / "feedback" / student / lesson / f"{lesson}.html").read_text("utf-8")
        assert "thorough" not in page
        assert "HIDDEN" not in page
        reason = found[student, lesson][1].reasons()[0]
        assert reason.split(":")[0] in page

    def test_the_feedback_command_has_what_a_person_gave(self, graded, tmp_path, capsys):
        from autograder.staff import feedback

        course, found = graded
        copy = tmp_path / "course"
        shutil.copytree(course.root, copy, symlinks=True)
        (student, lesson), record = next((who, record) for who, (_, record) in found.items() if record.state == records.AWAITING)
        waiting = next(cell for cell in record.cells if cell.score is None)
        with Gradebook(f"sqlite:///{copy / 'gradebook.db'}", course.directory.course_id) as gradebook:
            gradebook.find_grade(waiting.grade_id, lesson, lesson, student).manual_score = 1.5
            gradebook.find_comment(waiting.grade_id, lesson, lesson, student).manual_comment = "Well seen."
            gradebook.db.commit()
        assert feedback.main([lesson, "--course", str(copy), "--student", student]) == 0
        page = (copy / "feedback" / student / lesson / f"{lesson}.html").read_text("utf-8")
        assert "Well seen." in page and f"1.5 of {waiting.points:g}" in page and "1 pages" in capsys.readouterr().out
        assert feedback.main(["99_nothing", "--course", str(copy)]) == 1

    def test_the_report_names_every_student_and_no_other_host(self, graded):
        course, found = graded
        page = (course.root / "report.html").read_text("utf-8")
        assert [who for who in found if f">{who[0]}<" not in page] == []
        assert "http" not in page

    def test_feedback_shows_nothing_that_only_hidden_checks_found(self, graded):
        course, found = graded
        looked = 0
        for (student, lesson), (_, record) in found.items():
            page = (course.path("feedback", lesson, student) / f"{lesson}.html").read_text("utf-8")
            assert "HIDDEN TESTS" not in page
            assert "thorough" not in page
            for cell in record.cells:
                quick = {p["id"]: p for p in (cell.quick or {}).get("promises", [])}
                for promise in (cell.verdict or {}).get("promises", []):
                    if promise["history"] and promise["history"] != quick[promise["id"]]["history"] and len(promise["history"]) > 1:
                        looked += 1
                        assert "</li>\n<li>".join(promise["history"]) not in page
        assert looked

    def test_manual_marks_outlive_a_new_grading_and_automatic_ones_do_not_outlive_their_file(self, graded, tmp_path):
        course, _ = graded
        copy = tmp_path / "course"
        shutil.copytree(course.root, copy, ignore=shutil.ignore_patterns("exchange", "cache"))
        _repoint(course, copy)
        lesson, students = "02_prefix_sharing", ("s01", "s02")
        database = grading.Course(copy).directory.db_url
        with Gradebook(database) as gradebook:
            gradebook.find_grade("can_share-checks", lesson, lesson, "s01").manual_score = 0.5
            gradebook.db.commit()
        assert grading.grade_submission(copy, lesson, "s01", again=True).score == sum(e.points for e in EXERCISES.values() if e.lesson == lesson)
        with Gradebook(database) as gradebook:
            grade = gradebook.find_grade("can_share-checks", lesson, lesson, "s01")
            assert (grade.manual_score, grade.auto_score, grade.needs_manual_grade) == (0.5, 3, True)
        for student in students:
            path = copy / "submitted" / student / lesson / f"{lesson}.ipynb"
            path.chmod(0o644)
            path.write_bytes(b"")
            assert grading.grade_submission(copy, lesson, student).state == records.NOT_GRADABLE
            assert not (copy / "autograded" / student / lesson).exists()
        with Gradebook(database) as gradebook:
            assert gradebook.find_grade("can_share-checks", lesson, lesson, "s01").manual_score == 0.5
            with pytest.raises(MissingEntry):
                gradebook.find_submission(lesson, "s02")

    def test_a_killed_run_goes_on_where_it_was(self, graded, tmp_path):
        course, found = graded
        copy = tmp_path / "course"
        shutil.copytree(course.root, copy, ignore=shutil.ignore_patterns("exchange", "cache", "autograded", "records", "feedback"))
        _repoint(course, copy)
        command = [sys.executable, "-m", "autograder.staff.grade", "02_prefix_sharing", "--course", str(copy), "--workers", "1"]
        command += [f"--student={student}" for student in ("s01", "s02", "s03")]
        first = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
        line = first.stdout.readline()
        first.send_signal(signal.SIGKILL)
        first.wait()
        first.stdout.close()
        assert line.startswith("[1/3] s01")
        result = run(*command)
        assert result.returncode == 0, result.stderr
        assert "[1/2]" in result.stdout
        assert "[2/2]" in result.stdout
        for student in ("s01", "s02", "s03"):
            assert records.load(copy / "records", "02_prefix_sharing", student).score == found[student, "02_prefix_sharing"][1].score


def _repoint(course, copy):
    """Make the copied course find the repository from where it is now."""
    text = (course.root / "nbgrader_config.py").read_text()
    climb = os.path.relpath(ROOT, course.root)
    assert climb in text
    (copy / "nbgrader_config.py").write_text(text.replace(climb, os.path.relpath(ROOT, copy)))


@needs_sources
def test_a_course_without_notebooks_says_what_to_run(course):
    shutil.rmtree(course / "notebooks")
    result = run("python", "-m", "autograder.staff.course", cwd=course)
    assert result.returncode == 1
    assert "make lessons" in result.stderr


# ---- marks of cells ----


def test_cell(source, outputs, points=2.0, **meta):
    made = nbformat.v4.new_code_cell(source, outputs=[NotebookNode(o) for o in outputs])
    made.metadata["nbgrader"] = NotebookNode({"grade": True, "solution": False, "locked": True, "grade_id": "t", "points": points, "schema_version": 3, **meta})
    return made


test_cell.__test__ = False


def shows(text):
    return {"output_type": "execute_result", "data": NotebookNode({"text/plain": text}), "metadata": {}, "execution_count": 1}


STDERR = {"output_type": "stream", "name": "stderr", "text": "UserWarning: slow"}
ERROR = {"output_type": "error", "ename": "AssertionError", "evalue": "SECRET-IS-THREE", "traceback": []}


@pytest.mark.parametrize(
    ("outputs", "score"),
    [
        ([], 2.0),
        ([STDERR], 2.0),
        ([ERROR], 0.0),
        ([STDERR, ERROR], 0.0),
        ([shows("1.5")], 1.5),
        ([STDERR, shows("1.5")], 1.5),
        ([shows("0")], 0.0),
        ([shows("np.int64(0)")], 0.0),
        ([shows("np.float64(0.5)")], 0.5),
        ([shows("'well done'")], 2.0),
        ([shows("nan")], None),
        ([shows("-1")], None),
        ([shows("3")], None),
        ([shows("1e999")], None),
        ([shows("True")], None),
        ([shows("False")], None),
    ],
)
def test_a_plain_test_keeps_nbgraders_rule_and_an_odd_number_asks_for_a_person(outputs, score):
    mark = plugin.mark_cell(test_cell("assert f(1) == 1", outputs), 0, {"nonce": "n"})
    assert mark.score == score
    assert (mark.note is not None) == (score is None)


EXERCISE = "01_contiguous_vs_paged/numbers"
CHECK = f'check("{EXERCISE}", numbers)\ncheck("{EXERCISE}", numbers, thorough=True)'


def transcript(**changes):
    return {"output_type": "display_data", "metadata": {}, "data": NotebookNode({plugin.TRANSCRIPT: {"exercise": EXERCISE, "thorough": True, "nonce": "n", "packed": packed(None), **changes}})}


def packed(value):
    from autograder.checks import EXERCISES, pack, record

    exercise = EXERCISES[EXERCISE]
    return pack(record(exercise, {id: value for id in exercise.weights}, True, "n"))


@pytest.mark.parametrize(
    "outputs",
    [
        [],
        [shows("3.0")],
        [transcript(nonce="other")],
        [transcript(thorough=False)],
        [transcript(exercise="01_contiguous_vs_paged/holes")],
        [transcript(packed="e30=")],
        [transcript(packed=7)],
        [{**transcript(), "data": NotebookNode({plugin.TRANSCRIPT: "3.0"})}],
    ],
)
def test_a_check_without_an_answer_earns_nothing_whatever_the_cell_shows(outputs):
    mark = plugin.mark_cell(test_cell(CHECK, [*outputs, shows("3.0")], points=3.0), 0, {"nonce": "n"})
    assert mark.score == 0
    assert "did not answer" in mark.note


def test_an_error_after_the_check_takes_no_mark_and_a_second_transcript_adds_none():
    answers = {"blocks": 7, "slots": 112, "slack": 12, "slack_percent": 0}
    from autograder.checks import pack, record

    part = record(EXERCISES[EXERCISE], answers, True, "n")
    right = transcript(packed=pack(part))
    alone = plugin.mark_cell(test_cell(CHECK, [right, STDERR, ERROR], points=3.0), 0, {"nonce": "n"}).score
    assert 0 < alone < 3
    both = plugin.mark_cell(test_cell(CHECK, [right, transcript()], points=3.0), 0, {"nonce": "n"}).score
    assert both == 0


def test_the_checks_of_a_test_run_one_by_one_and_other_cells_as_they_are():
    assert execute.parts_of(test_cell(CHECK, [])) == [line.replace('"', "'") for line in CHECK.split("\n")]
    assert execute.parts_of(test_cell("%time f()\nassert True", [])) == ["%time f()\nassert True"]


# ---- records ----


PREDICTIONS_TEST = "from autograder import check, predictions\ncheck('01_contiguous_vs_paged/predictions', predictions('01_contiguous_vs_paged'))"


@pytest.mark.parametrize(
    ("kinds", "run"),
    [
        ("cell test cell predictions cell", {0, 1, 3}),
        ("cell test cell written cell predictions", {0, 1, 2, 3, 5}),
        ("cell predictions test cell", {0, 1, 2}),
        ("cell cell predictions cell", {0, 1, 2, 3}),
        ("cell cell", {0, 1}),
    ],
)  # fmt: skip
def test_cells_that_can_change_no_mark_are_not_run(kinds, run):
    grade = {"grade": True, "solution": False, "locked": True, "schema_version": 3, "points": 1, "cell_type": "code"}
    make = {
        "cell": lambda: nbformat.v4.new_code_cell("1"),
        "test": lambda: nbformat.v4.new_code_cell("assert True", metadata={"nbgrader": grade | {"grade_id": "a"}}),
        "predictions": lambda: nbformat.v4.new_code_cell(PREDICTIONS_TEST, metadata={"nbgrader": grade | {"grade_id": "b"}}),
        "written": lambda: nbformat.v4.new_markdown_cell("words", metadata={"nbgrader": grade | {"grade_id": "c", "solution": True, "locked": False}}),
    }
    assert execute.that_count(nbformat.v4.new_notebook(cells=[make[kind]() for kind in kinds.split()])) == run


def test_a_record_comes_back_as_it_was_saved(tmp_path):
    record = Record("01", "s01", records.GRADED, "k", repairs=["a"], cells=[CellMark("t", None, 2.0, 1.5, note="é")])
    records.save(tmp_path, record)
    assert records.load(tmp_path, "01", "s01") == record
    assert [p.name for p in (tmp_path / "01").iterdir()] == ["s01.json"]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"schema": 0}', '{"schema": 1, "cells": []}', '{"schema": 1, "cells": [{"x": 1}]}'])
def test_a_damaged_record_counts_as_none(tmp_path, text):
    (tmp_path / "01").mkdir()
    (tmp_path / "01" / "s01.json").write_text(text)
    assert records.load(tmp_path, "01", "s01") is None


def test_a_state_that_is_no_mark_has_no_score():
    assert Record("01", "s01", records.NOT_GRADABLE).score is None
    assert Record("01", "s01", records.GRADED).score == 0


@pytest.mark.parametrize(("states", "code"), [([records.GRADED], 0), ([records.GRADED, records.NOT_GRADABLE], 3), ([records.NOT_GRADABLE, records.FAILED], 1), ([records.NOT_SUBMITTED], 0)])
def test_exit_codes(states, code):
    assert grading.exit_code([Record("01", "s01", state) for state in states]) == code
