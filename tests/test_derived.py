"""What derives from the lessons is fresh, the same from every machine, and gives nothing away."""

import json
import re
import shutil
import sqlite3
import sys
import zipfile
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from autograder.staff import derive
from autograder.staff.faults import find_faults
from conftest import LESSONS, ROOT, SOURCES, each_lesson, needs_sources, run

SECRET = re.compile(r"### BEGIN (?:SOLUTION|HIDDEN TESTS)\n(.*?)### END", re.S)
SHORTEST = 24   # characters; shorter lines ("return None") are everybody's
TEXTS = {".py", ".md", ".ipynb", ".json", ".html", ".txt", ".toml", ".mjs", ".js", ".css", ".svg", ".yml", ".bib"}


def text_of(lesson):
    return (SOURCES / lesson / f"{lesson}.py").read_text(encoding="utf-8")


def released(lesson):
    return ROOT / "notebooks" / lesson / f"{lesson}.ipynb"


# --- fresh ---------------------------------------------------------------------------------------------------------


@needs_sources
def test_nothing_derived_is_stale(course):
    """In a copy without `_build`, so that every file is made anew and compared."""
    looked = run(sys.executable, "-m", "autograder.staff.lessons", "--check", cwd=course)
    assert looked.returncode == 0, looked.stdout + looked.stderr


@needs_sources
def test_a_changed_text_makes_check_fail_and_name_both_files(course):
    text = course / "source_assignments" / LESSONS[0] / f"{LESSONS[0]}.py"
    text.write_text(text.read_text() + "\n# %%\n1 + 1\n")
    looked = run(sys.executable, "-m", "autograder.staff.lessons", "--check", cwd=course)
    assert looked.returncode == 1
    assert f"source_assignments/{LESSONS[0]}/{LESSONS[0]}.ipynb" in looked.stdout
    assert f"notebooks/{LESSONS[0]}/{LESSONS[0]}.ipynb" in looked.stdout
    assert "make lessons" in looked.stderr


@needs_sources
def test_stock_generate_assignment_gives_the_same_files(course):
    for lesson in LESSONS:
        made = run("nbgrader", "generate_assignment", lesson, cwd=course)
        assert made.returncode == 0, made.stderr
    for lesson in LESSONS:
        assert (course / "notebooks" / lesson / f"{lesson}.ipynb").read_bytes() == released(lesson).read_bytes()
    # nbgrader that skips a folder which is there already would pass so far, but would know no assignment.
    with sqlite3.connect(course / "gradebook.db") as gradebook:
        known = {name for (name,) in gradebook.execute("select name from assignment")}
    gradebook.close()
    assert known == set(LESSONS)


@each_lesson
def test_twin_has_the_same_bytes_whatever_the_hash_seed(lesson):
    program = (
        "import sys; from autograder.staff import derive; "
        "sys.stdout.buffer.write(derive.notebook_bytes(derive.text_to_notebook(open(sys.argv[1]).read(), sys.argv[2])))"
    )
    text = SOURCES / lesson / f"{lesson}.py"
    made = [run(sys.executable, "-c", program, text, lesson, PYTHONHASHSEED=seed).stdout for seed in "12"]
    assert made[0] == made[1] == (text.with_suffix(".ipynb")).read_text(encoding="utf-8")


@each_lesson
def test_text_survives_the_way_through_the_notebook(lesson):
    text = text_of(lesson)
    twin = derive.notebook_bytes(derive.text_to_notebook(text, lesson))
    assert derive.notebook_to_text(twin, lesson, like=text) == text


@each_lesson
def test_release_keeps_ids_and_alternative_texts(lesson):
    twin = nbformat.reads((SOURCES / lesson / f"{lesson}.ipynb").read_text(encoding="utf-8"), 4)
    release = nbformat.reads(released(lesson).read_text(encoding="utf-8"), 4)
    assert [x.id for x in release.cells] == [x.id for x in twin.cells]
    assert len({x.id for x in release.cells}) == len(release.cells)
    assert [x.metadata.get("mystnb") for x in release.cells] == [x.metadata.get("mystnb") for x in twin.cells]


# --- complete ------------------------------------------------------------------------------------------------------


@each_lesson
def test_lesson_has_no_fault(lesson):
    assert find_faults(text_of(lesson), lesson) == []


@each_lesson
def test_lesson_runs_as_a_script(lesson, tmp_path):
    """Solution, visible checks and hidden tests, without a kernel."""
    text = SOURCES / lesson / f"{lesson}.py"
    ran = run(sys.executable, "-W", "error::SyntaxWarning", text, cwd=tmp_path, PYTHONPATH=str(ROOT))
    assert ran.returncode == 0, ran.stdout[-2000:] + ran.stderr[-2000:]


@each_lesson
def test_unsolved_notebook_fails_only_where_code_or_a_prediction_is_missing(lesson, tmp_path):
    notebook = nbformat.reads(released(lesson).read_text(encoding="utf-8"), 4)
    client = NotebookClient(notebook, timeout=120, allow_errors=True, resources={"metadata": {"path": str(tmp_path)}})
    client.execute()
    errors = [
        f"{cell.id}: {output.ename}: {output.evalue}"
        for cell in notebook.cells
        for output in cell.get("outputs", [])
        if output.output_type == "error" and output.ename not in ("NotImplementedError", "PredictFirst")
    ]
    assert errors == []


# --- silent --------------------------------------------------------------------------------------------------------


def secrets():
    """Lines of solutions and hidden tests that stand nowhere in the open part of their lesson.

    Comments and the heads of loops over a manager's members are no answers.
    """
    found = set()
    for lesson in LESSONS:
        text = text_of(lesson)
        regions = SECRET.findall(text)
        shown = {line.strip() for line in SECRET.sub("", text).splitlines()}
        lines = {line.strip() for region in regions for line in region.splitlines()}
        found |= {x for x in lines - shown if len(x) >= SHORTEST and not x.startswith(("#", "for "))}
    return found


def strings(value):
    """Every string in a JSON document; notebooks keep their source so, and escape its quotes."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        yield "".join(x for x in value if isinstance(x, str))
        for item in value:
            yield from strings(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from strings(item)


def contents(path, raw):
    text = raw.decode("utf-8", errors="replace")
    if path.suffix in {".ipynb", ".json"}:
        return text + "\n".join(strings(json.loads(text)))
    return text


def leaks(secret_lines, files):
    """(file, line) for every secret that a public file shows; `files` are pairs of path and bytes."""
    shown = [(path, contents(path, raw)) for path, raw in files if path.suffix in TEXTS]
    return sorted((path.as_posix(), line) for path, text in shown for line in secret_lines if line in text)


def files_below(folder):
    return [(p.relative_to(folder), p.read_bytes()) for p in sorted(folder.rglob("*")) if p.is_file()]


@needs_sources
def test_there_are_secrets_to_look_for():
    assert len(secrets()) >= 5 * len(LESSONS)


@needs_sources
@pytest.mark.parametrize("folder", ["notebooks", "book"])
def test_public_folder_gives_nothing_away(folder):
    assert leaks(secrets(), files_below(ROOT / folder)) == []


@needs_sources
@pytest.mark.parametrize("name", ["notebook.ipynb", "page.html", "module.py"])
def test_a_planted_leak_is_noticed(name, tmp_path):
    line = max(secrets(), key=lambda x: x.count('"'))     # quotes are what a notebook's JSON would hide
    if name.endswith(".ipynb"):
        cell = nbformat.v4.new_code_cell(f"def f():\n    {line}\n")
        (tmp_path / name).write_text(nbformat.writes(nbformat.v4.new_notebook(cells=[cell])))
    else:
        (tmp_path / name).write_text(f"<p>\n    {line}\n")
    assert (name, line) in leaks(secrets(), files_below(tmp_path))


def test_release_holds_notebooks_and_no_text_of_a_lesson():
    kinds = {p.suffix for p in (ROOT / "notebooks").rglob("*") if p.is_file() and ".ipynb_checkpoints" not in p.parts}
    assert ".ipynb" in kinds
    assert kinds.isdisjoint({".py", ".toml", ".txt", ".orig", ".bak"})


@needs_sources
def test_derivation_refuses_to_release_the_text_if_the_guard_in_the_configuration_goes(course):
    config = course / "nbgrader_config.py"
    guarded = config.read_text()
    assert '"*.py"' in guarded
    config.write_text(guarded.replace('"*.py", ', ""))
    made = run(sys.executable, "-m", "autograder.staff.lessons", cwd=course)
    assert made.returncode == 1
    assert "would be released with a solution" in made.stderr
    assert not list((course / "notebooks").rglob("*.py"))


class TestWheel:
    def test_has_no_instructors_part(self, wheel):
        names = zipfile.ZipFile(wheel).namelist()
        assert "autograder/__init__.py" in names
        assert [x for x in names if "staff" in x or x.startswith(("tests", "source_assignments", "book"))] == []

    @needs_sources
    def test_gives_nothing_away(self, wheel):
        archive = zipfile.ZipFile(wheel)
        assert leaks(secrets(), [(Path(name), archive.read(name)) for name in archive.namelist()]) == []

    def test_needs_nothing_but_python_and_is_under_mit(self, wheel):
        archive = zipfile.ZipFile(wheel)
        (name,) = (x for x in archive.namelist() if x.endswith(".dist-info/METADATA"))
        lines = archive.read(name).decode().splitlines()
        assert [x for x in lines if x.startswith("Requires-Dist") and "extra ==" not in x] == []
        assert "License-Expression: MIT" in lines

    def test_works_from_the_wheel_alone(self, wheel, tmp_path):
        """Without site-packages: the students' part imports the standard library only."""
        zipfile.ZipFile(wheel).extractall(tmp_path)
        program = "import sys; sys.path.insert(0, sys.argv[1]); import autograder, autograder.cli, autograder.exercises"
        ran = run(sys.executable, "-I", "-S", "-c", program, tmp_path)
        assert ran.returncode == 0, ran.stderr

    def test_carries_every_data_file_of_the_package(self, wheel):
        there = set(zipfile.ZipFile(wheel).namelist())
        wanted = {
            p.relative_to(ROOT).as_posix()
            for p in (ROOT / "autograder").rglob("*")
            if p.suffix in {".css", ".mjs", ".json", ".safetensors"} and "staff" not in p.parts
        }
        assert wanted <= there


@needs_sources
def test_without_its_sources_the_course_is_a_student_repository(course):
    """Remove the one secret folder and the rest still says so instead of failing."""
    shutil.rmtree(course / "source_assignments")
    looked = run(sys.executable, "-m", "autograder.staff.lessons", cwd=course)
    assert looked.returncode == 0
    assert "no source_assignments/" in looked.stdout
