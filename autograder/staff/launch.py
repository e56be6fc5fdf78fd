"""Where the course lives, read from `_config.yml`: what the pages' launch buttons and a notebook's first cell are made of."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ADDRESS = re.compile(r"https?://[\w.-]+(?::\d+)?(?:/[\w.~-]+)*")
REPOSITORY = re.compile(r"https://[\w.-]+(?::\d+)?(?:/[\w.~-]+){2,}")
BRANCH = re.compile(r"[\w./-]+")
# What a lesson draws and asks with, and what reads lesson 4's weights and lesson 5's records. Not torch: where it is missing, its gigabytes are the machine's owner's to decide.
COMPANIONS = ("matplotlib", "anywidget", "safetensors", "jsonschema")
TAGS = ["course-install", "remove-cell"]     # the first is how the cell is known again, the second keeps it off the page
CELL = '''\
# Where the course's package is missing, as on Colab, this installs it, and of what it works with only what is not there yet. Elsewhere it does nothing.
import importlib.util
import site
import subprocess
import sys

if importlib.util.find_spec("autograder") is None:
    wanted = {{
        {wanted},
    }}
    missing = [address for package, address in wanted.items() if importlib.util.find_spec(package) is None]
    subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", *missing], check=True)
    if site.ENABLE_USER_SITE:
        site.addsitedir(site.getusersitepackages())
    importlib.invalidate_caches()'''


class Unusable(ValueError):
    """`course_home` in `_config.yml` cannot be used; the text is one sentence with the cure."""


@dataclass(frozen=True)
class Home:
    """The students' repository, its branch, and the course's hub ("" if it has none)."""

    repository: str
    branch: str = "main"
    hub: str = ""


def home_of(values: object) -> Home | None:
    """The setting as it stands in `_config.yml`; None if it is empty, Unusable if it is not clear what it means."""
    if not isinstance(values, dict) or set(values) - {"repository", "branch", "hub"}:
        raise Unusable("course_home in _config.yml holds repository, branch and hub, and nothing else.")
    repository, branch, hub = (str(values.get(name) or "").strip().rstrip("/") for name in ("repository", "branch", "hub"))
    repository = repository.removesuffix(".git")
    if not repository:
        if hub:
            raise Unusable("course_home in _config.yml names a hub and no repository: a hub's link says which repository to fetch.")
        return None
    if not REPOSITORY.fullmatch(repository):
        raise Unusable(f"course_home.repository in _config.yml is {repository!r}: write it as https://github.com/OWNER/NAME.")
    if hub and not ADDRESS.fullmatch(hub):
        raise Unusable(f"course_home.hub in _config.yml is {hub!r}: write the hub's address as https://hub.example.edu.")
    if not BRANCH.fullmatch(branch or "main"):
        raise Unusable(f"course_home.branch in _config.yml is {branch!r}, which is no name of a branch.")
    return Home(repository, branch or "main", hub)


def home_in(root: Path) -> Home | None:
    """The setting of the course in this folder; None where there is no setting."""
    import yaml

    path = root / "_config.yml"
    config = yaml.safe_load(path.read_text(encoding="utf-8")) if path.is_file() else {}
    return home_of((config or {}).get("sphinx", {}).get("config", {}).get("course_home") or {})


def theme_options(home: Home | None) -> dict:
    """The options by which sphinx-book-theme makes its launch buttons; none without a home."""
    if home is None:
        return {}
    host = home.repository.split("/")[2]
    buttons = {"notebook_interface": "jupyterlab", "jupyterhub_url": home.hub}
    if host in ("github.com", "gitlab.com"):     # of others the theme makes an address that Binder does not take
        buttons["binderhub_url"] = "https://mybinder.org"
    if host == "github.com":                     # the only one that Colab opens notebooks from
        buttons["colab_url"] = "https://colab.research.google.com"
    # The theme wants a kind for a host that it does not know; a hub's link is the same for all.
    kind = {} if any(name in host for name in ("github", "gitlab", "bitbucket.org")) else {"repository_provider": "gitlab"}
    return {"repository_url": home.repository, "repository_branch": home.branch, "launch_buttons": buttons, **kind}


def install_cell(home: Home | None, root: Path) -> str:
    """The code of the cell that comes first in every notebook; "" without a home."""
    if home is None:
        return ""
    bounds = _bounds((root / "requirements.txt").read_text(encoding="utf-8"))
    wanted = {"autograder": f"git+{home.repository}@{home.branch}", **{name: name + bounds.get(name, "") for name in COMPANIONS}}
    return CELL.format(wanted=",\n        ".join(f'"{name}": "{address}"' for name, address in wanted.items()))


def _bounds(requirements: str) -> dict[str, str]:
    """Package → its bounds as requirements.txt has them."""
    found = re.finditer(r"^([A-Za-z0-9_.-]+)([<>=!~][^\s#]*)", requirements, re.M)
    return {match[1]: match[2] for match in found}
