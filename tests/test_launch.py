"""One setting says where the course lives: launch buttons on the lessons' pages, and a first cell that installs what is missing."""

import json
import os
import re
import subprocess
import sys
import textwrap
import venv
import zipfile
from urllib.parse import parse_qs, urlsplit

import nbformat
import pytest
from test_lessons import LESSON, NAME

from autograder.staff import derive, launch, lessons
from autograder.staff.rebuild import rebuild
from conftest import LESSONS, ROOT, needs_sources

SETTING = {"repository": "https://github.com/school/paged-course", "branch": "autumn", "hub": "https://hub.example.edu"}
HOME = launch.home_of(SETTING)
CONFIG = f"sphinx:\n  config:\n    course_home: {json.dumps(SETTING)}\n"
PAGE = f"notebooks/{NAME}/{NAME}"


# --- the setting ---


@pytest.mark.parametrize("empty", [{}, {"repository": ""}, {"repository": None, "branch": "main", "hub": ""}])
def test_an_empty_setting_gives_no_button_and_no_cell(empty):
    home = launch.home_of(empty)
    assert home is None and launch.theme_options(home) == {} and launch.install_cell(home, ROOT) == ""


@pytest.mark.parametrize(("values", "words"), [
    ("https://github.com/a/b", "holds repository, branch and hub"),
    ({"repo": "https://github.com/a/b"}, "holds repository, branch and hub"),
    ({"repository": "git@github.com:a/b.git"}, "write it as https://github.com/OWNER/NAME"),
    ({"repository": "https://github.com/a"}, "write it as https://github.com/OWNER/NAME"),
    ({"repository": 'https://github.com/a/b", "x'}, "write it as https://github.com/OWNER/NAME"),
    ({"hub": "https://hub.example.edu"}, "names a hub and no repository"),
    ({"repository": "https://github.com/a/b", "hub": "hub.example.edu"}, "write the hub's address as https://"),
    ({"repository": "https://github.com/a/b", "branch": "my branch"}, "no name of a branch"),
])
def test_a_setting_that_cannot_be_meant_is_refused_in_a_sentence(values, words):
    with pytest.raises(launch.Unusable, match=re.escape(words)):
        launch.home_of(values)


def test_a_repository_may_be_written_with_its_git_ending_and_a_slash():
    assert launch.home_of({"repository": "https://github.com/a/b.git/"}) == launch.Home("https://github.com/a/b", "main", "")


def test_an_unusable_setting_stops_the_derivation_in_a_sentence(tmp_path, monkeypatch, capsys):
    small_course(tmp_path, CONFIG.replace("https://github.com/school", "school"))
    monkeypatch.chdir(tmp_path)
    assert lessons.main([NAME]) == 1
    assert "write it as https://github.com/OWNER/NAME" in capsys.readouterr().err


# --- the first cell ---


def small_course(folder, config):
    """A course of one small lesson."""
    source = folder / "source_assignments" / NAME
    source.mkdir(parents=True)
    (source / f"{NAME}.py").write_text(LESSON)
    for name in ("nbgrader_config.py", "requirements.txt"):
        (folder / name).write_bytes((ROOT / name).read_bytes())
    (folder / "_config.yml").write_text(config)


def test_twin_and_release_begin_their_code_with_the_install_cell(tmp_path, monkeypatch):
    small_course(tmp_path, CONFIG)
    monkeypatch.chdir(tmp_path)
    assert lessons.main([NAME]) == 0
    for folder in ("source_assignments", "notebooks"):
        notebook = nbformat.read(tmp_path / folder / NAME / f"{NAME}.ipynb", 4)
        assert notebook.cells[0].cell_type == "markdown"     # the lesson's title stays the first thing to be seen
        first = next(cell for cell in notebook.cells if cell.cell_type == "code")
        assert '"autograder": "git+https://github.com/school/paged-course@autumn"' in first.source
        assert first.id == f"{NAME}-install" and first.metadata.tags == launch.TAGS and "nbgrader" not in first.metadata


def test_a_changed_setting_renews_the_notebooks_and_an_emptied_one_removes_the_cell(tmp_path, monkeypatch, capsys):
    small_course(tmp_path, CONFIG)
    monkeypatch.chdir(tmp_path)
    released = tmp_path / "notebooks" / NAME / f"{NAME}.ipynb"
    assert lessons.main([NAME]) == 0
    (tmp_path / "_config.yml").write_text(CONFIG.replace("autumn", "spring"))
    assert lessons.main([NAME, "--check"]) == 1
    assert lessons.main([NAME]) == 0 and "paged-course@spring" in released.read_text()
    (tmp_path / "_config.yml").write_text("title: none\n")
    assert lessons.main([NAME]) == 0 and "paged-course" not in released.read_text()
    assert "was not as derived" not in capsys.readouterr().err


def test_the_cell_shifts_no_other_cells_id_and_is_no_part_of_the_text():
    install = launch.install_cell(HOME, ROOT)
    without, with_cell = derive.text_to_notebook(LESSON, NAME), derive.text_to_notebook(LESSON, NAME, install)
    assert [cell.id for cell in with_cell.cells if cell.id != f"{NAME}-install"] == [cell.id for cell in without.cells]
    plain = derive.notebook_to_text(derive.notebook_bytes(without), NAME, like=LESSON)
    assert derive.notebook_to_text(derive.notebook_bytes(with_cell), NAME, like=LESSON) == plain
    # JupyterLab writes the text from the notebook by itself, with the cell in it; it is still there once only.
    import jupytext

    paired = jupytext.writes(with_cell, fmt=derive.PERCENT)
    again = derive.text_to_notebook(paired, NAME, install)
    assert derive.notebook_bytes(again) == derive.notebook_bytes(with_cell)


def test_the_cell_names_the_bounds_of_requirements_and_leaves_torch_alone():
    cell = launch.install_cell(HOME, ROOT)
    requirements = (ROOT / "requirements.txt").read_text()
    for name in launch.COMPANIONS:
        (bounded,) = re.findall(rf"^{name}[<>=]\S+", requirements, re.M)
        assert f'"{name}": "{bounded}"' in cell
    assert "torch" not in cell


@needs_sources
@pytest.mark.parametrize("lesson", LESSONS)
def test_grading_is_the_same_with_and_without_the_cell(lesson):
    """A submission from before the setting, one with the cell and one whose cell was deleted are rebuilt alike, with nothing to mend."""
    text = (ROOT / "source_assignments" / lesson / f"{lesson}.py").read_text(encoding="utf-8")
    released = nbformat.read(ROOT / "notebooks" / lesson / f"{lesson}.ipynb", 4)
    released.cells = [cell for cell in released.cells if launch.TAGS[0] not in cell.metadata.get("tags", [])]
    old, new = (derive.text_to_notebook(text, lesson, install) for install in ("", launch.install_cell(HOME, ROOT)))
    submitted = nbformat.from_dict(json.loads(json.dumps(released)))
    submitted.cells.insert(1, new.cells[1])
    assert new.cells[1].id == f"{lesson}-install"

    plain, notes = rebuild(released, old, released)
    assert notes == []
    for sent, master in ((submitted, old), (submitted, new), (released, new)):
        rebuilt, mended = rebuild(sent, master, released)
        cells = [cell for cell in rebuilt.cells if cell.source != new.cells[1].source]
        assert mended == [] and len(rebuilt.cells) == len(cells) + 1
        assert [(cell.id, cell.source, cell.metadata) for cell in cells] == [(cell.id, cell.source, cell.metadata) for cell in plain.cells]


def dummy_wheel(folder, name, version):
    """A wheel with one module that says its version."""
    path = folder / f"{name}-{version}-py3-none-any.whl"
    info = f"{name}-{version}.dist-info"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"{name}.py", f"VERSION = {version!r}\n")
        archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    return path


def test_the_cell_installs_what_is_missing_and_only_that(tmp_path, wheel):
    """In a fresh environment without a network: the package and one companion are missing, another is there in an older version."""
    shelf = tmp_path / "shelf"
    shelf.mkdir()
    for name in launch.COMPANIONS:
        dummy_wheel(shelf, name, {"anywidget": "0.9.99", "safetensors": "0.9", "matplotlib": "3.99", "jsonschema": "4.99"}[name])
    venv.create(tmp_path / "fresh", with_pip=True)
    python = tmp_path / "fresh" / "bin" / "python"
    (here,) = (tmp_path / "fresh" / "lib").glob("python*/site-packages")
    (here / "matplotlib.py").write_text("VERSION = 'as Colab has it'\n")

    cell = launch.install_cell(HOME, ROOT).replace("git+https://github.com/school/paged-course@autumn", wheel.as_uri())
    (tmp_path / "cell.py").write_text(cell + textwrap.dedent("""
        import anywidget, autograder, matplotlib, safetensors
        print(matplotlib.VERSION, anywidget.VERSION, safetensors.VERSION, autograder.__file__)

        def refuse(*_, **__):
            raise AssertionError("nothing is missing, so nothing may be started")
        subprocess.run = refuse
    """) + cell)
    bare = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PIP"))}
    ran = subprocess.run(
        [python, tmp_path / "cell.py"], cwd=tmp_path, capture_output=True, text=True,
        env=bare | {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(shelf), "PIP_DISABLE_PIP_VERSION_CHECK": "1"},
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.startswith("as Colab has it 0.9.99 0.9 ") and str(here) in ran.stdout


# --- the buttons ---

CONF = """
import sys
sys.path[:0] = [{root!r}, {extension!r}]
import course_pages
extensions = ["myst_nb"]
html_theme = "sphinx_book_theme"
nb_execution_mode = "off"
root_doc = "index"
course_home = {home!r}
def setup(app):
    app.add_config_value("course_home", {{}}, "html")
    app.connect("config-inited", course_pages.add_launch_buttons)
"""


def pages_with(folder, home):
    """The lesson's page and the first page of a small book with this setting, made by the theme itself; warnings are errors."""
    source = folder / "source"
    (source / PAGE).parent.mkdir(parents=True)
    (source / f"{PAGE}.ipynb").write_bytes(derive.notebook_bytes(derive.text_to_notebook(LESSON, NAME)))
    (source / "index.md").write_text(f"# Course\n\n```{{toctree}}\n{PAGE}\n```\n")
    (source / "conf.py").write_text(CONF.format(root=str(ROOT), extension=str(ROOT / "book" / "_ext"), home=home))
    built = subprocess.run([sys.executable, "-m", "sphinx", "-q", "-W", "-b", "html", source, folder / "html"], capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    return [(folder / "html" / f"{name}.html").read_text(encoding="utf-8") for name in (PAGE, "index")]


def launch_links(page):
    return {link.replace("&amp;", "&") for link in re.findall(r'href="(https?:[^"]*(?:/git-pull|//colab|/v2/)[^"]*)"', page)}


def test_every_lesson_gets_links_to_hub_colab_and_binder_and_no_other_page_does(tmp_path):
    lesson, index = pages_with(tmp_path, SETTING)
    assert "launch-buttons" in lesson and "launch-buttons" not in index
    binder, hub, colab = sorted(launch_links(lesson), key=lambda link: ("colab" in link, "git-pull" in link))
    assert colab == f"https://colab.research.google.com/github/school/paged-course/blob/autumn/{PAGE}.ipynb"
    assert binder == f"https://mybinder.org/v2/gh/school/paged-course/autumn?urlpath=lab/tree/{PAGE}.ipynb"
    # nbgitpuller's documentation, "Options in an nbgitpuller URL": repo as for git clone, a branch, and a urlpath from the
    # server's folder, so that it begins with the name of the cloned repository.
    parts = urlsplit(hub)
    assert (parts.scheme, parts.netloc, parts.path) == ("https", "hub.example.edu", "/hub/user-redirect/git-pull")
    assert parse_qs(parts.query, strict_parsing=True) == {
        "repo": ["https://github.com/school/paged-course"], "branch": ["autumn"], "urlpath": [f"lab/tree/paged-course/{PAGE}.ipynb"],
    }


@pytest.mark.parametrize(("repository", "hub", "kinds"), [
    ("https://github.com/school/course", "https://hub.example.edu", {"jupyterhub_url", "binderhub_url", "colab_url"}),
    ("https://github.com/school/course", "", {"binderhub_url", "colab_url"}),
    ("https://gitlab.com/school/course", "", {"binderhub_url"}),
    ("https://git.example.edu/school/course", "https://hub.example.edu", {"jupyterhub_url"}),
    ("https://git.example.edu/school/course", "", set()),
])
def test_the_theme_is_asked_only_for_buttons_whose_addresses_work(repository, hub, kinds):
    """Colab opens GitHub's notebooks only, Binder takes GitHub's and GitLab's, a hub takes anybody's."""
    buttons = launch.theme_options(launch.home_of({"repository": repository, "hub": hub}))["launch_buttons"]
    assert {name for name, address in buttons.items() if name.endswith("_url") and address} == kinds


def test_a_host_that_the_theme_does_not_know_gets_the_hubs_button_alone(tmp_path):
    lesson, _ = pages_with(tmp_path, {"repository": "https://git.example.edu/school/course", "hub": "https://hub.example.edu"})
    (hub,) = launch_links(lesson)
    assert parse_qs(urlsplit(hub).query)["repo"] == ["https://git.example.edu/school/course"]


def test_without_the_setting_there_is_no_button(tmp_path):
    lesson, _ = pages_with(tmp_path, {"repository": "", "branch": "main", "hub": ""})
    assert "launch-buttons" not in lesson and launch_links(lesson) == set()
