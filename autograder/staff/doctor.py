"""`autograder doctor`: what this machine has and lacks for the course, each with the one command that cures it.

It needs no package, so that `make doctor` can also tell why nothing else works.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from autograder.staff import course_root

SET_UP = "make setup"
DISK_NEEDED = 3     # GiB; a .venv with torch has 1.9, the book and a graded class take the rest
# Linux's flags for new namespaces: mounts, host name, IPC, processes, network; and users, for whoever is not root.
NAMESPACES = 0x00020000 | 0x04000000 | 0x08000000 | 0x20000000 | 0x40000000
USER_NAMESPACE = 0x10000000


@dataclass(frozen=True)
class Finding:
    """One thing looked at. `needed`: `make course` or `make test` cannot do without it."""

    name: str
    ok: bool
    found: str
    cure: str | None = None
    needed: bool = True

    def line(self) -> str:
        state = "ok" if self.ok else "missing" if self.needed else "absent"
        cure = f"  →  {self.cure}" if self.cure and not self.ok else ""
        return f"{state:<8} {self.name:<22} {self.found}{cure}"


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="autograder doctor", description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print one JSON document instead of text")
    as_json = parser.parse_args(argv).json
    findings = []
    for finding in examine(course_root()):
        findings.append(finding)
        if not as_json:
            print(finding.line(), flush=True)
    fit = all(x.ok for x in findings if x.needed)
    if as_json:
        print(json.dumps({"ok": fit, "findings": [asdict(x) for x in findings]}, indent=1))
    elif fit:
        print("make course and make test have what they need.")
    else:
        print("make course and make test lack what is marked as missing.")
    return 0 if fit else 1


def examine(root: Path) -> Iterator[Finding]:
    yield python()
    yield environment(root)
    yield programs(root)
    yield from packages(root)
    yield torch()
    yield node(root)
    yield modules(root)
    yield browser()
    yield sandbox()
    yield gpu()
    yield disk(root)
    yield git()


def python() -> Finding:
    found = f"{sys.version.split()[0]} at {sys.executable}"
    return Finding("Python", sys.version_info >= (3, 11), found, "make setup PYTHON=python3.11 (3.11 or newer)")


def environment(root: Path) -> Finding:
    """Whether the course's own .venv is finished and is what runs."""
    venv = root / ".venv"
    if (venv / "unfinished").exists():
        return Finding("environment", False, ".venv was not finished", SET_UP)
    if not (venv / "bin" / "python").exists():
        here = sys.prefix != sys.base_prefix
        return Finding("environment", here, sys.prefix if here else "no .venv in the course's folder", SET_UP)
    return Finding("environment", True, ".venv" if Path(sys.prefix) == venv else f".venv, though {sys.prefix} is running")


def programs(root: Path) -> Finding:
    """nbgrader starts `alembic` by name: without it on PATH its first use leaves a half-made gradebook."""
    names = ("nbgrader", "alembic", "jupyter-book")
    lost = [name for name in names if shutil.which(name) is None]
    if not lost:
        return Finding("PATH", True, "finds " + ", ".join(names))
    behind = root / ".venv" / "bin"
    if all((behind / name).exists() for name in names):
        # make puts it there by itself; only commands typed by hand miss it.
        return Finding("PATH", False, "does not find " + ", ".join(lost), "source .venv/bin/activate", needed=False)
    return Finding("PATH", False, "does not find " + ", ".join(lost), SET_UP)


def packages(root: Path) -> Iterator[Finding]:
    """Each package of requirements.txt against its pin."""
    pins = read_pins(root)
    for name in read_requirements(root):
        if name == "torch":
            continue
        there = installed(name)
        if there is None:
            yield Finding(name, False, "not installed", SET_UP)
        elif name in pins and there != pins[name]:
            yield Finding(name, False, f"{there}; constraints.txt has {pins[name]}", SET_UP)
        else:
            yield Finding(name, True, there)


def read_requirements(root: Path) -> list[str]:
    """The names in requirements.txt, in its order."""
    lines = (root / "requirements.txt").read_text(encoding="utf-8").splitlines()
    return [match[0] for line in lines if (match := re.match(r"[A-Za-z0-9_.-]+", line))]


def read_pins(root: Path) -> dict[str, str]:
    """Package → exact version, from constraints.txt."""
    lines = (root / "constraints.txt").read_text(encoding="utf-8").splitlines()
    return dict(line.split("==") for line in lines if re.match(r"[A-Za-z0-9_.-]+==", line))


def installed(name: str) -> str | None:
    """The installed version, without the part that says how it was built (2.13.0+cpu is 2.13.0)."""
    try:
        return version(name).split("+")[0]
    except PackageNotFoundError:
        return None


def torch() -> Finding:
    there = installed("torch")
    found = there or "not installed: lessons 04 and 05 need it, nothing else does"
    return Finding("torch", there is not None, found, "make setup TORCH=yes", needed=False)


def node(root: Path) -> Finding:
    program = shutil.which("node", path=f"{root / '.venv' / 'bin'}{os.pathsep}{os.environ.get('PATH', '')}")
    answer = said([program, "--version"]) if program else None
    return Finding("Node", answer is not None, f"{answer} at {program}" if answer else "not found", SET_UP, needed=False)


def modules(root: Path) -> Finding:
    """What the pages take from npm: Python for the browser, and the editor."""
    lacking = [name for name in ("pyodide", "@codemirror/view", "esbuild") if not (root / "node_modules" / name / "package.json").is_file()]
    return Finding("page modules", not lacking, f"not in node_modules: {', '.join(lacking)}" if lacking else "in node_modules", SET_UP)


def browser() -> Finding:
    """A Chromium for the tests of the book; they are skipped without."""
    program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    answer = said([program, "--version"]) if program else None
    found = answer or "no chromium: tests that need a browser are skipped"
    return Finding("browser", answer is not None, found, "apt-get install chromium (as root)", needed=False)


def sandbox() -> Finding:
    """Whether submissions can be shut off: new namespaces are really entered, in a process of its own."""
    root = os.geteuid() == 0 if hasattr(os, "geteuid") else False
    flags = NAMESPACES if root else NAMESPACES | USER_NAMESPACE
    attempt = (
        "import ctypes, os, sys\n"
        "libc = ctypes.CDLL(None, use_errno=True)\n"
        f"sys.exit(os.strerror(ctypes.get_errno()) if libc.unshare({flags}) else 0)"
    )
    tried = subprocess.run([sys.executable, "-c", attempt], capture_output=True, text=True)
    way = "namespaces as root" if root else "user namespaces"
    if tried.returncode == 0:
        return Finding("sandbox", True, way, needed=False)
    reason = (tried.stderr.strip().splitlines() or ["no reason given"])[-1]
    return Finding("sandbox", False, f"no {way} ({reason}): submissions cannot be shut off from this machine", sandbox_cure(root), needed=False)


def sandbox_cure(root: bool) -> str:
    if not sys.platform.startswith("linux"):
        return "grade on a Linux machine"
    if root:
        return "start the container with --cap-add SYS_ADMIN --security-opt seccomp=unconfined"
    apparmor = Path("/proc/sys/kernel/apparmor_restrict_unprivileged_userns")
    if apparmor.exists() and apparmor.read_text().strip() == "1":
        return "sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"
    return "sudo sysctl -w user.max_user_namespaces=10000"


def gpu() -> Finding:
    """Asked of torch in a process of its own, since CUDA may take seconds or fail hard."""
    ask = "import torch; print(torch.cuda.get_device_name(0) if torch.cuda.is_available() else '')"
    name = said([sys.executable, "-c", ask]) if installed("torch") else None
    found = name or "none: lesson 05 measures the CPU and says so"
    return Finding("GPU", bool(name), found, "run lesson 05 on a machine with an NVIDIA GPU", needed=False)


def disk(root: Path) -> Finding:
    free = shutil.disk_usage(root).free / 2**30
    enough = free >= (1 if (root / ".venv").exists() else DISK_NEEDED)
    return Finding("disk", enough, f"{free:.1f} GiB free", f"free {DISK_NEEDED} GiB on this disk (make clean helps)")


def git() -> Finding:
    answer = said(["git", "--version"]) if shutil.which("git") else None
    return Finding("git", answer is not None, answer or "not found", "apt-get install git (as root)", needed=False)


def said(command: list[str]) -> str | None:
    """A program's first line, or None if it does not answer within 30 seconds."""
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return answer.stdout.strip().splitlines()[0] if answer.returncode == 0 and answer.stdout.strip() else None


if __name__ == "__main__":
    sys.exit(main())
