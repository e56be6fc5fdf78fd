"""Make `.venv` and fill it, and node_modules for the pages: `make setup`. Runs on any Python 3 without a package, so that it can say what is missing."""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
STAMP = VENV / "set-up.json"            # written last: what the finished set-up was made from
UNFINISHED = VENV / "unfinished"        # there while pip works: a set-up that was cut short is begun anew
LOG = VENV / "set-up.log"
MODULES_LOG = VENV / "npm.log"
SHAPED_BY = ("requirements.txt", "constraints.txt", "pyproject.toml")
LOCK = ROOT / "package-lock.json"
MODULES = ROOT / "node_modules"         # what the pages take from npm
MODULES_STAMP = MODULES / ".set-up"     # the hash of the lock they were installed from, written last
OLDEST = (3, 11)
NEWS_EVERY = 10                         # seconds between signs of life when nobody watches a terminal


class Unable(Exception):
    """Set-up cannot go on; the message is one sentence with its cure."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="make setup", description=__doc__)
    parser.add_argument("--torch", choices=["yes", "no"], help="lessons 04 and 05 need it; default: yes, or as it was")
    wish = parser.parse_args().torch
    try:
        with (ROOT / "requirements.txt").open() as lock:
            wait_for(lock)
            if not is_done(wish):
                set_up(wish)
            if not has_modules():
                install_modules()
    except Unable as unable:
        print(unable, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nset-up was interrupted: `make setup` begins it anew", file=sys.stderr)
        return 130
    return 0


def wait_for(lock) -> None:
    """Take the lock; of two set-ups at once the second waits, then mostly finds all done."""
    os.set_inheritable(lock.fileno(), True)     # pip keeps it: should it outlive us, the next set-up waits for it
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        print("set-up: another one is at work here, waiting for it", flush=True)
        fcntl.flock(lock, fcntl.LOCK_EX)


def is_done(wish: str | None) -> bool:
    """Whether `.venv` was finished here, from these files, with torch if it is wished for."""
    stamp = read_stamp()
    torch_is_right = wish != "yes" or stamp.get("torch") == "yes"
    return not UNFINISHED.exists() and PYTHON.exists() and stamp.get("made_from") == made_from() and torch_is_right


def made_from() -> str:
    """One hash of what shapes the set-up; the folder too, since a `.venv` that was moved does not work."""
    parts = [str(VENV), *((ROOT / name).read_text() for name in SHAPED_BY)]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def read_stamp() -> dict:
    try:
        return json.loads(STAMP.read_text())
    except (OSError, ValueError):
        return {}


def set_up(wish: str | None) -> None:
    stamp = read_stamp()
    torch = wish or stamp.get("torch") or "yes"
    begun = time.monotonic()
    make_venv(stamp)
    UNFINISHED.touch()
    LOG.write_text("")
    install("packages", [*without_torch(), "-c", str(ROOT / "constraints.txt")])
    install("this course", ["-e", f"{ROOT}[dev]", "-c", str(ROOT / "constraints.txt")])
    if torch == "yes":
        torch = install_torch()
    STAMP.write_text(json.dumps({"made_from": made_from(), "torch": torch}))
    UNFINISHED.unlink()
    print(f"set-up: done ({time.monotonic() - begun:.0f} s)", flush=True)


def make_venv(stamp: dict) -> None:
    """A virtual environment that works, made anew only where the one that is there cannot be trusted."""
    if sys.version_info < OLDEST:
        raise Unable(
            f"this is Python {sys.version.split()[0]} and the course needs 3.11 or newer: install one, "
            "then `make setup PYTHON=python3.11`"
        )
    moved = stamp and stamp.get("made_from") and not was_made_here()
    if VENV.exists() and not UNFINISHED.exists() and not moved and runs():
        return
    lacking = [name for name in ("venv", "ensurepip") if importlib.util.find_spec(name) is None]
    if lacking:
        package = f"python3.{sys.version_info[1]}-venv"
        raise Unable(f"this Python has no {lacking[0]} module: `apt-get install {package}` (as root) brings it")
    print(f"set-up: a new .venv for Python {sys.version.split()[0]}", flush=True)
    shutil.rmtree(VENV, ignore_errors=True)
    VENV.mkdir(exist_ok=True)
    UNFINISHED.touch()
    # Started by the .venv that was just removed, sys.executable is gone; the Python behind it is not.
    base = getattr(sys, "_base_executable", sys.executable)
    made = subprocess.run([base, "-m", "venv", str(VENV)], capture_output=True, text=True)
    if made.returncode:
        raise Unable(f"python could not make .venv: {(made.stderr or made.stdout).strip().splitlines()[-1]}")


def was_made_here() -> bool:
    """Whether the programs in `.venv/bin` start this folder's Python; those of a copied `.venv` start the old one."""
    try:
        with (VENV / "bin" / "pip").open() as program:
            return str(VENV) in program.read(1000)
    except (OSError, UnicodeDecodeError):
        return False


def runs() -> bool:
    """Whether the Python in `.venv` starts, is new enough and has pip."""
    probe = f"import sys, pip; sys.exit(sys.version_info < {OLDEST})"
    try:
        return subprocess.run([str(PYTHON), "-c", probe], capture_output=True).returncode == 0
    except OSError:
        return False


def without_torch() -> list[str]:
    """pip's arguments for the requirements except torch, which may be missing."""
    wanted = VENV / "requirements-without-torch.txt"
    lines = (ROOT / "requirements.txt").read_text().splitlines()
    wanted.write_text("\n".join(line for line in lines if not line.startswith("torch")) + "\n")
    return ["-r", str(wanted)]


def install_torch() -> str:
    """Install torch; "failed" if that cannot be, since all but two lessons work without."""
    bounds = [x for x in (ROOT / "requirements.txt").read_text().splitlines() if x.startswith("torch")]
    try:
        install("torch", [bounds[0].split("#")[0].strip(), "-c", str(ROOT / "constraints.txt")])
    except Unable as unable:
        print(f"{unable}\nLessons 04 and 05 need torch, all else works: `make setup TORCH=yes` tries again.", file=sys.stderr)
        return "failed"
    return "yes"


def has_modules() -> bool:
    """Whether node_modules was finished from the lock as it is now."""
    try:
        return MODULES_STAMP.read_text() == lock_hash()
    except OSError:
        return False


def lock_hash() -> str:
    return hashlib.sha256(LOCK.read_bytes()).hexdigest()


def install_modules() -> None:
    """Install what the pages take from npm, exactly as locked, with the npm that came from PyPI; .npmrc lets no package run a script."""
    npm = VENV / "bin" / "npm"
    MODULES_LOG.write_text("")
    watch("the pages' modules", [str(npm), "ci", "--no-progress"], MODULES_LOG, "npm error")
    MODULES_STAMP.write_text(lock_hash())


def install(what: str, arguments: list[str]) -> None:
    """Install with pip."""
    watch(what, [str(PYTHON), "-m", "pip", "install", "--disable-pip-version-check", "--no-input", *arguments], LOG, "ERROR")


def watch(what: str, command: list[str], log_file: Path, complaint: str) -> None:
    """Run an installer quietly: its words go to the log, and a sign of life to whoever waits."""
    # npm's own program starts `node` by name.
    environment = {**os.environ, "PATH": f"{VENV / 'bin'}{os.pathsep}{os.environ.get('PATH', '')}"}
    begun = time.monotonic()
    print(f"set-up: installing {what} …", flush=True)
    with log_file.open("a") as log, subprocess.Popen(
        command, stdout=log, stderr=subprocess.STDOUT, close_fds=False, cwd=ROOT, env=environment
    ) as installer:
        while installer.poll() is None:
            try:
                installer.wait(timeout=NEWS_EVERY)
            except subprocess.TimeoutExpired:
                print(f"set-up: {progress(log_file)}, {time.monotonic() - begun:.0f} s", flush=True)
    if installer.returncode:
        tail = [x for x in log_file.read_text(errors="replace").splitlines() if x.startswith(complaint)][-3:]
        reason = "\n".join(tail) or "it gave no reason"
        raise Unable(f"{what} could not be installed (all that the installer said is in .venv/{log_file.name}):\n{reason}")


def progress(log_file: Path) -> str:
    """What the installer does now, from its log."""
    if log_file == MODULES_LOG:
        return "npm is at work"
    said = log_file.read_text(errors="replace")
    last = said.rstrip().rpartition("\n")[2]
    if last.startswith("Installing collected packages"):
        return f"unpacking {last.count(',') + 1} packages"
    found = {line.split()[1] for line in said.splitlines() if line.startswith("Collecting ")}
    return f"{len(found)} packages found" if found else "comparing with what is there"


if __name__ == "__main__":
    sys.exit(main())
