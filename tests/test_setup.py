"""Set-up, the pins, the doctor and the verbs: a fresh machine, a broken one, and the second time."""

import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from autograder.staff import doctor, set_up
from conftest import ROOT, run

VERBS = {"help", "setup", "doctor", "lessons", "check", "book", "serve", "course", "test", "constraints", "clean"}


def requirements():
    lines = (ROOT / "requirements.txt").read_text().splitlines()
    return [Requirement(x.split("#")[0]) for x in lines if x.split("#")[0].strip()]


# --- pins ----------------------------------------------------------------------------------------------------------


def test_every_requirement_is_bounded_above_and_pinned_within_its_bounds():
    pins = doctor.read_pins(ROOT)
    for wanted in requirements():
        assert any(x.operator == "<" for x in wanted.specifier), wanted
        assert wanted.specifier.contains(pins[canonicalize_name(wanted.name)]), wanted


def test_pins_are_exact_and_fit_every_machine():
    lines = [x for x in (ROOT / "constraints.txt").read_text().splitlines() if x and not x.startswith("#")]
    assert [x for x in lines if not re.fullmatch(r"[a-z0-9.-]+==[A-Za-z0-9.]+", x)] == []


def test_everything_that_the_requirements_bring_is_pinned():
    """A package without a pin would be another one next month."""
    pins, seen, open_ends = doctor.read_pins(ROOT), set(), [(x.name, x.extras) for x in requirements()]
    while open_ends:
        name, extras = open_ends.pop()
        name = canonicalize_name(name)
        if (name, frozenset(extras)) in seen or doctor.installed(name) is None:
            continue        # torch may be left out; a marker may exclude a package here
        seen.add((name, frozenset(extras)))
        for line in importlib.metadata.requires(name) or []:
            needed = Requirement(line)
            environments = [{"extra": extra} for extra in ("", *extras)]
            if not needed.marker or any(needed.marker.evaluate(x) for x in environments):
                open_ends.append((needed.name, needed.extras))
    assert len(seen) > 100
    # pip-tools leaves installers unpinned, since pinning them can stop pip itself.
    assert {name for name, _ in seen} - set(pins) <= {"pip", "setuptools"}


def test_extras_have_the_bounds_of_the_requirements():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    bounds = {x.name: x.specifier for x in requirements()}
    extras = project["optional-dependencies"]
    for line in extras["notebook"] + extras["staff"]:
        assert bounds[Requirement(line).name] == Requirement(line).specifier, line
    assert project["dependencies"] == []


# --- verbs ---------------------------------------------------------------------------------------------------------


def test_help_is_the_default_and_lists_every_verb():
    listed = run("make", "-s").stdout
    assert set(re.findall(r"^make (\w+) ", listed, re.M)) == VERBS
    assert all(len(line) <= 100 for line in listed.splitlines())


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "book/instructors.md", "book/intro.md"])
def test_page_names_no_verb_that_does_not_exist(page):
    named = set(re.findall(r"(?:`|^)make ([a-z]+)", (ROOT / page).read_text(), re.M))
    assert named <= VERBS


def test_python_that_is_not_there_is_one_sentence_with_its_cure():
    tried = run("make", "-s", "setup", "PYTHON=no-such-python")
    assert tried.returncode != 0
    assert "There is no no-such-python: install Python 3.11 or newer" in tried.stderr


def test_clean_keeps_copies_of_edits_and_the_environment(tmp_path):
    shutil.copy(ROOT / "Makefile", tmp_path)
    for path in ("_build/kept/1/x.ipynb", "_build/html/index.html", ".venv/pyvenv.cfg", ".ruff_cache/x"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).touch()
    assert run("make", "-s", "clean", cwd=tmp_path).returncode == 0
    left = {p.relative_to(tmp_path).as_posix() for p in tmp_path.rglob("*") if p.is_file()}
    assert left == {"Makefile", "_build/kept/1/x.ipynb", ".venv/pyvenv.cfg"}


# --- set-up --------------------------------------------------------------------------------------------------------


class Installs:
    """Stands in for pip: remembers what it was asked for, and fails or is cut short when told to."""

    def __init__(self):
        self.asked, self.venvs, self.fails, self.cut, self.npm = [], 0, None, None, 0

    def watch(self, what, command, *_):
        """npm's own run; pip's goes through `install`."""
        self.npm += 1
        if what == self.fails:
            raise set_up.Unable(f"{what} could not be installed")
        assert command[1] == "ci", "`npm ci` installs what the lock says, `npm install` may change the lock"
        set_up.MODULES.mkdir(exist_ok=True)

    def install(self, what, arguments):
        self.asked.append((what, arguments))
        if what == self.cut:
            raise KeyboardInterrupt
        if what == self.fails:
            raise set_up.Unable(f"{what} could not be installed")

    def names(self):
        return [what for what, _ in self.asked]


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A course folder of its own, a venv that costs nothing, and a pip that only remembers."""
    for name in (*set_up.SHAPED_BY, "package-lock.json"):
        shutil.copy(ROOT / name, tmp_path)
    venv = tmp_path / ".venv"
    for name, path in {
        "ROOT": tmp_path, "VENV": venv, "PYTHON": venv / "bin" / "python", "STAMP": venv / "set-up.json",
        "UNFINISHED": venv / "unfinished", "LOG": venv / "set-up.log", "MODULES_LOG": venv / "npm.log", "LOCK": tmp_path / "package-lock.json",
        "MODULES": tmp_path / "node_modules", "MODULES_STAMP": tmp_path / "node_modules" / ".set-up",
    }.items():  # fmt: skip
        monkeypatch.setattr(set_up, name, path)
    pip = Installs()

    def new_venv(command, **_):
        if "venv" not in command:       # the question whether the .venv that is there works
            return subprocess.CompletedProcess(command, 0)
        pip.venvs += 1
        (venv / "bin").mkdir(parents=True)
        (venv / "bin" / "python").touch()
        (venv / "bin" / "pip").write_text(f"#!{venv}/bin/python\n")
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(set_up, "install", pip.install)
    monkeypatch.setattr(set_up, "watch", pip.watch)
    monkeypatch.setattr(set_up.subprocess, "run", new_venv)
    monkeypatch.setattr(sys, "argv", ["set_up.py"])
    return pip


def wish(monkeypatch, *words):
    monkeypatch.setattr(sys, "argv", ["set_up.py", *words])


def test_second_set_up_does_nothing(machine):
    assert set_up.main() == 0
    assert machine.names() == ["packages", "this course", "torch"]
    assert set_up.main() == 0
    assert (len(machine.asked), machine.venvs, machine.npm) == (3, 1, 1)


def test_changed_lock_of_npm_installs_the_pages_modules_again_and_nothing_else(machine):
    set_up.main()
    with set_up.LOCK.open("a") as file:
        file.write("\n")
    assert set_up.main() == 0
    assert (len(machine.asked), machine.npm) == (3, 2)
    assert set_up.main() == 0
    assert machine.npm == 2


def test_page_modules_that_cannot_be_installed_are_said_and_tried_again(machine, capsys):
    machine.fails = "the pages' modules"
    assert set_up.main() == 1
    assert "the pages' modules could not be installed" in capsys.readouterr().err
    machine.fails = None
    assert set_up.main() == 0
    assert (len(machine.asked), machine.npm) == (3, 2)


def test_lock_of_npm_names_no_host_and_every_package_has_its_hash():
    packages = json.loads((ROOT / "package-lock.json").read_text())["packages"]
    named = json.loads((ROOT / "package.json").read_text())
    assert all(re.fullmatch(r"\d+\.\d+\.\d+", version) for kind in ("dependencies", "devDependencies") for version in named[kind].values())
    assert [name for name, about in packages.items() if name and not about["integrity"].startswith("sha512-")] == []
    assert "://" not in re.sub(r'"(?:url|funding)": .*', "", (ROOT / "package-lock.json").read_text())
    assert "ignore-scripts=true" in (ROOT / ".npmrc").read_text()

@pytest.mark.parametrize("name", set_up.SHAPED_BY)
def test_changed_file_installs_again_into_the_same_environment(machine, name):
    set_up.main()
    with (set_up.ROOT / name).open("a") as file:
        file.write("# changed\n")
    assert set_up.main() == 0
    assert (len(machine.asked), machine.venvs) == (6, 1)


@pytest.mark.parametrize("step", ["packages", "this course", "torch"])
def test_set_up_that_was_cut_short_is_begun_anew(machine, step, capsys):
    machine.cut = step
    assert set_up.main() == 130
    assert "make setup" in capsys.readouterr().err
    machine.cut = None
    assert set_up.main() == 0
    assert machine.venvs == 2
    assert set_up.is_done(None)


def test_environment_that_was_moved_is_made_anew(machine):
    set_up.main()
    (set_up.VENV / "bin" / "pip").write_text("#!/somewhere/else/.venv/bin/python\n")
    stamp = json.loads(set_up.STAMP.read_text()) | {"made_from": "another folder"}
    set_up.STAMP.write_text(json.dumps(stamp))
    assert set_up.main() == 0
    assert machine.venvs == 2


def test_torch_can_be_left_out_and_brought_in_later(machine, monkeypatch):
    wish(monkeypatch, "--torch", "no")
    assert set_up.main() == 0
    assert machine.names() == ["packages", "this course"]
    assert "torch" not in (set_up.VENV / "requirements-without-torch.txt").read_text().split("#")[0]
    assert not re.search(r"^torch", (set_up.VENV / "requirements-without-torch.txt").read_text(), re.M)
    wish(monkeypatch)
    assert set_up.main() == 0
    assert "torch" not in machine.names()       # what was left out stays out until it is asked for
    wish(monkeypatch, "--torch", "yes")
    assert set_up.main() == 0
    assert machine.names()[-1] == "torch"


def test_torch_that_cannot_be_installed_stops_nothing_and_says_how_to_get_it(machine, capsys):
    machine.fails = "torch"
    assert set_up.main() == 0
    told = capsys.readouterr().err
    assert "Lessons 04 and 05 need torch" in told
    assert "make setup TORCH=yes" in told
    assert set_up.main() == 0                   # nor is it tried again at every verb
    assert machine.names().count("torch") == 1


def test_package_that_cannot_be_installed_stops_set_up_and_the_next_one_tries_again(machine, capsys):
    machine.fails = "packages"
    assert set_up.main() == 1
    assert "packages could not be installed" in capsys.readouterr().err
    machine.fails = None
    assert set_up.main() == 0


def test_too_old_a_python_is_one_sentence_with_its_cure(machine, monkeypatch, capsys):
    monkeypatch.setattr(set_up.sys, "version_info", (3, 9, 2))
    assert set_up.main() == 1
    assert "needs 3.11 or newer: install one, then `make setup PYTHON=python3.11`" in capsys.readouterr().err
    assert not set_up.VENV.exists()


def test_python_without_venv_is_one_sentence_with_its_cure(machine, monkeypatch, capsys):
    find = set_up.importlib.util.find_spec
    monkeypatch.setattr(set_up.importlib.util, "find_spec", lambda name: None if name == "ensurepip" else find(name))
    assert set_up.main() == 1
    package = f"python3.{sys.version_info[1]}-venv"
    assert f"`apt-get install {package}` (as root)" in capsys.readouterr().err


def test_set_up_can_be_read_by_a_python_that_is_too_old():
    """Or it could not say so: no syntax that is newer than 3.8."""
    import ast

    ast.parse((ROOT / "autograder/staff/set_up.py").read_text(), feature_version=(3, 8))


def test_pip_that_fails_leaves_its_reason(tmp_path, monkeypatch):
    monkeypatch.setattr(set_up, "PYTHON", sys.executable)
    monkeypatch.setattr(set_up, "LOG", tmp_path / "log")
    with pytest.raises(set_up.Unable, match=r"(?s)nothing could not be installed.*ERROR.*no-such-file"):
        set_up.install("nothing", ["-r", str(tmp_path / "no-such-file")])


# --- doctor --------------------------------------------------------------------------------------------------------


def test_doctor_finds_this_machine_fit():
    asked = run("autograder", "doctor", "--json")
    answer = json.loads(asked.stdout)
    lacking = [x for x in answer["findings"] if x["needed"] and not x["ok"]]
    assert (asked.returncode, answer["ok"], lacking) == (0, True, [])
    names = {x["name"] for x in answer["findings"]}
    assert names >= {"Python", "environment", "PATH", "nbgrader", "torch", "Node", "page modules", "browser", "sandbox", "GPU", "disk", "git"}


def test_doctor_gives_a_cure_for_whatever_is_missing():
    """Without site-packages almost everything is."""
    asked = run(sys.executable, "-S", "-m", "autograder.staff.doctor", "--json", PATH="/nonexistent")
    answer = json.loads(asked.stdout)
    lacking = [x for x in answer["findings"] if not x["ok"]]
    assert asked.returncode == 1
    assert {"nbgrader", "jupyter-book", "PATH", "browser", "git"} <= {x["name"] for x in lacking}
    assert [x["name"] for x in lacking if not x["cure"]] == []


def test_doctor_notices_another_version_than_the_pin(tmp_path):
    shutil.copy(ROOT / "requirements.txt", tmp_path)
    pins = (ROOT / "constraints.txt").read_text()
    (tmp_path / "constraints.txt").write_text(re.sub(r"(?m)^nbgrader==.*", "nbgrader==0.9.5.9", pins))
    (found,) = [x for x in doctor.packages(tmp_path) if x.name == "nbgrader"]
    assert not found.ok
    assert "constraints.txt has 0.9.5.9" in found.found
    assert found.cure == "make setup"


def test_doctor_tells_an_unfinished_environment(tmp_path):
    (tmp_path / ".venv").mkdir()
    (tmp_path / ".venv" / "unfinished").touch()
    found = doctor.environment(tmp_path)
    assert (found.ok, found.cure) == (False, "make setup")


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="namespaces are Linux's")
def test_doctor_really_tries_the_sandbox(monkeypatch):
    monkeypatch.setattr(doctor, "NAMESPACES", 0x7FFFFFFF)   # flags that no kernel grants
    found = doctor.sandbox()
    assert not found.ok
    assert found.cure
    assert "Traceback" not in found.found


def test_continuous_integration_runs_the_tests():
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    assert subprocess.run(["bash", "-n", script], capture_output=True).returncode == 0
    assert script.read_text().rstrip().endswith("make test")
