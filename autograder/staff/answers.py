"""The answer key's outputs for the published page: run the solved lesson, keep what it showed, never its code."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import re
import sys
import tempfile
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from autograder.exercises import EXERCISES

# A page never needs what only the grader or a live kernel reads.
PRIVATE_TYPES = ("application/vnd.autograder.transcript+json", "application/vnd.jupyter.widget-view+json")
HIDDEN = re.compile(r"^[ \t]*### BEGIN HIDDEN TESTS\n.*?^[ \t]*### END HIDDEN TESTS[^\n]*\n?", re.S | re.M)
CELL_TIMEOUT = 300   # seconds
SHAPING = ("matplotlib", "numpy", "ipython", "torch")     # other versions of these may show other outputs


class AnswerKeyFailed(Exception):
    """The answer key of a lesson cannot be shown; the message is one sentence with the lesson and the cell."""


def ensure(lesson_dir: Path | str, folder: Path | str | None = None) -> Path | None:
    """The lesson's answers file, made anew only if the lesson or the package has changed.

    The file holds {"key": hash, "cells": {cell id: [outputs]}} and lies in `_build/answers` beside
    `source_assignments`, or in `folder`. None if a package that the lesson needs was left out of the set-up.
    """
    lesson_dir = Path(lesson_dir).resolve()
    root, lesson = lesson_dir.parent.parent, lesson_dir.name
    kept = Path(folder or root / "_build" / "answers") / f"{lesson}.json"
    twin = lesson_dir / f"{lesson}.ipynb"
    if not twin.is_file():
        raise AnswerKeyFailed(f"The lesson {lesson} has no notebook {lesson}.ipynb; make it with `make lessons`.")
    key = _key(twin, root)
    if _key_of(kept) != key:
        if missing := _left_out(lesson):
            print(f"answer key of {lesson}: {missing} is not installed, so its page has no outputs", file=sys.stderr, flush=True)
            return None
        cells = _run(twin, root)
        _write(kept, {"key": key, "cells": cells})
    return kept


def _key(twin: Path, root: Path) -> str:
    """A hash of all that the outputs depend on and that changes from day to day."""
    digest = hashlib.sha256(f"python {sys.version_info[:2]} {[_version(name) for name in SHAPING]}".encode())
    package = root / "autograder"
    shown = sorted(p for p in package.rglob("*.py") if "staff" not in p.relative_to(package).parts) + [Path(__file__)]
    data = sorted([*(root / "book" / "_data").glob("*.json"), *(path for kind in ("prompts/*.json", "widgets/*.mjs", "*.safetensors") for path in package.glob(kind))])
    for path in [twin, *shown, *data]:
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


def _left_out(lesson: str) -> str | None:
    """A package that the lesson's exercises need and that is not here (`make setup TORCH=no`)."""
    needed = sorted({exercise.needs for exercise in EXERCISES.values() if exercise.lesson == lesson and exercise.needs})
    return next((package for package in needed if importlib.util.find_spec(package) is None), None)


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _key_of(kept: Path) -> str | None:
    try:
        return json.loads(kept.read_text(encoding="utf-8")).get("key")
    except (OSError, ValueError, AttributeError):
        return None


def _run(twin: Path, root: Path) -> dict[str, list]:
    """Execute the solved notebook in a kernel of this interpreter; {cell id: outputs}."""
    import nbformat

    notebook = nbformat.read(twin, as_version=4)
    for cell in notebook.cells:
        cell.source = HIDDEN.sub("", cell.source) if cell.cell_type == "code" else cell.source
    started = time.monotonic()
    print(f"answer key of {twin.stem}: running …", file=sys.stderr, flush=True)
    _execute(notebook, twin, root)
    print(f"answer key of {twin.stem}: done in {time.monotonic() - started:.0f} s", file=sys.stderr, flush=True)
    return {cell.id: outputs for cell in notebook.cells if cell.cell_type == "code" and (outputs := _shown(cell.outputs))}


def _execute(notebook, twin: Path, root: Path) -> None:
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError

    running = {}
    with tempfile.TemporaryDirectory() as kernels, tempfile.TemporaryDirectory() as work:    # what a lesson leaves beside itself is not the page's
        client = NotebookClient(
            notebook,
            kernel_name="lesson",
            kernel_manager_class=_own_kernels(Path(kernels)),
            timeout=CELL_TIMEOUT,
            coalesce_streams=True,
            record_timing=False,
            shutdown_kernel="immediate",
            extra_arguments=["--log-level=ERROR"],
            resources={"metadata": {"path": work}},
            on_cell_start=lambda cell, cell_index: running.update(id=cell.id),
        )
        try:
            client.execute(env=_environment(root))
        except CellExecutionError as error:
            raise _failed(twin, running, f"{error.ename}: {error.evalue}") from None
        except CellTimeoutError:
            raise _failed(twin, running, f"it ran longer than {CELL_TIMEOUT} seconds") from None
        except DeadKernelError:
            raise _failed(twin, running, "the kernel died") from None


def _own_kernels(folder: Path) -> type:
    """A kernel manager that knows one kernel, "lesson", of this interpreter.

    A kernelspec named python3 in the user's home may belong to another one.
    """
    from ipykernel.kernelspec import write_kernel_spec
    from jupyter_client.kernelspec import KernelSpecManager
    from jupyter_client.manager import AsyncKernelManager
    from traitlets import default

    write_kernel_spec(folder / "lesson")

    class OwnKernels(AsyncKernelManager):
        @default("kernel_spec_manager")
        def _specs(self):
            return KernelSpecManager(kernel_dirs=[str(folder)])

    return OwnKernels


def _failed(twin: Path, running: dict, why: str) -> AnswerKeyFailed:
    first_line = next(iter(why.strip().splitlines()), "")
    return AnswerKeyFailed(f"The answer key of {twin.stem} fails in cell {running.get('id')!r}: {first_line[:300]}")


def _environment(root: Path) -> dict[str, str]:
    """The environment of the kernel: this copy of the package first, inline figures, nothing of a grading run."""
    kept = {name: value for name, value in os.environ.items() if name not in ("MPLBACKEND", "AUTOGRADER_NONCE")}
    path = os.pathsep.join(filter(None, [str(root), kept.get("PYTHONPATH")]))
    return kept | {"PYTHONPATH": path, "PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1", "AUTOGRADER_ANSWER_KEY": "1"}


def _shown(outputs) -> list[dict]:
    """Outputs as plain data, without counts and without what only the grader reads."""
    shown = []
    for output in outputs:
        output = json.loads(json.dumps(output))
        if "data" in output:
            output["data"] = {kind: value for kind, value in output["data"].items() if kind not in PRIVATE_TYPES}
            if not output["data"]:
                continue
        if "execution_count" in output:
            output["execution_count"] = None
        shown.append(output)
    return shown


def _write(path: Path, content: dict) -> None:
    """Write in one step, so that a build that is stopped leaves no half file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_suffix(".new")
    fresh.write_text(json.dumps(content, indent=1, sort_keys=True, ensure_ascii=False) + "\n", encoding="utf-8")
    fresh.replace(path)
