"""Take in one submission: find its notebook, read it leniently, rebuild it on the master, and say what was mended.

Nothing of a learner's runs here, and what was handed in is only read. A file that cannot be read raises `NotGradable`
with its cause and its cure; it never becomes a zero.
"""

from __future__ import annotations

import codecs
import json
import re
from pathlib import Path

import nbformat
from nbformat.notebooknode import NotebookNode

from autograder.beside import LEARNERS
from autograder.staff.rebuild import graded_sources, rebuild, tidy

MAX_BYTES = 32 * 2**20
# nbgrader's own two files beside a submission, which grading and releasing feedback need, and the learner's own.
STAMPS = ("timestamp.txt", "submission_secret.txt")
KEPT_BESIDE = (*STAMPS, *LEARNERS)
BOMS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
GRADE_ID = re.compile(r'"grade_id"\s*:\s*"([^"\\]*)"')
CONFLICT = re.compile(r"^(<{7}|>{7})( |$)", re.MULTILINE)
RESUBMIT = "Open the notebook in Jupyter, check that it is whole, save it and hand it in again."


class NotGradable(Exception):
    """The submission cannot be graded: why, where in the file, and what its owner can do about it."""

    def __init__(self, cause: str, cure: str = RESUBMIT, where: str | None = None):
        super().__init__(cause)
        self.cause, self.cure, self.where = cause, cure, where


class NothingHandedIn(Exception):
    """There is no notebook in what was handed in."""


def take_in(submitted: Path, name: str, master: NotebookNode, released: NotebookNode) -> tuple[NotebookNode, list[str]]:
    """The submission rebuilt on the master, and what was mended.

    submitted: the folder that was handed in. name: the notebook's name. master, released: the lesson with and without
    solutions.
    """
    found, notes = find_notebook(submitted, name, released)
    notebook, mended = rebuild(found, master, released)
    return notebook, notes + mended


def read_own(path: Path) -> NotebookNode:
    """One of the course's own notebooks."""
    try:
        return nbformat.read(path, as_version=4)
    except FileNotFoundError:
        raise FileNotFoundError(
            f"{path} is missing: run `nbgrader generate_assignment {path.stem}` in the course folder first."
        ) from None


def find_notebook(folder: Path, name: str, released: NotebookNode) -> tuple[NotebookNode, list[str]]:
    """The notebook in the folder that is this lesson's, and what had to be done to read it."""
    if (folder / name).is_symlink():
        raise NotGradable(f"{name} is a link, not a file", "Hand in the notebook itself.")
    files = [path for path in sorted(folder.rglob("*")) if _is_notebook_file(path)]
    if not files:
        raise NothingHandedIn(f"there is no notebook in what was handed in; {name} was expected")
    if folder / name in files:
        notebook, notes = read_notebook(folder / name)
        if not is_of_lesson(notebook, released):
            raise NotGradable(f"{name} holds no cell of this lesson", f"Hand in the notebook that you worked on, named {name}.")
        others = [str(path.relative_to(folder)) for path in files if path != folder / name]
        return notebook, notes + [f"also handed in, not read: {other}" for other in others]
    return _find_by_content(folder, files, name, released)


def _is_notebook_file(path: Path) -> bool:
    hidden = any(part.startswith(".") for part in path.parts[-3:])
    return path.suffix.lower() == ".ipynb" and not hidden and not path.is_symlink() and path.is_file()


def _find_by_content(folder: Path, files: list[Path], name: str, released: NotebookNode) -> tuple[NotebookNode, list[str]]:
    """The one file that holds this lesson's checks, whatever it is called."""
    matches, unreadable = [], []
    for path in files:
        try:
            notebook, notes = read_notebook(path)
        except NotGradable as problem:
            unreadable.append(problem)
            continue
        if is_of_lesson(notebook, released):
            matches.append((path, notebook, notes))
    if len(matches) == 1:
        path, notebook, notes = matches[0]
        return notebook, [f"found under the name {path.relative_to(folder)}; {name} was expected", *notes]
    if not matches and unreadable:
        raise unreadable[0]
    found = ", ".join(str(path.relative_to(folder)) for path in files)
    several = "several files hold this lesson" if matches else "no file holds this lesson"
    raise NotGradable(f"{several}: found {found}; expected {name}", f"Hand in one notebook, named {name}.")


def is_of_lesson(notebook: NotebookNode, released: NotebookNode) -> bool:
    """Whether at least one graded cell of the lesson is in the notebook, by its text or by its name together with its kind."""
    wanted = graded_sources(released)
    if not wanted:
        return True
    sources = {tidy(cell.source) for cell in notebook.cells}
    if sources & set(wanted.values()):
        return True
    ids = {cell.metadata.get("nbgrader", {}).get("grade_id") for cell in notebook.cells}
    return len(ids & set(wanted)) * 2 > len(wanted)


def read_notebook(path: Path) -> tuple[NotebookNode, list[str]]:
    """Read any notebook from format 3 on, in UTF-8 or UTF-16, and note what was unusual."""
    size = path.stat().st_size
    if size > MAX_BYTES:
        raise NotGradable(
            f"{path.name} has {size / 2**20:.0f} MiB; at most {MAX_BYTES // 2**20} MiB are read",
            "Choose Edit → Clear Outputs of All Cells, save, and hand it in again.",
        )
    text, notes = _decode(path)
    data = _parse(text, path.name)
    notebook, more = _to_current_format(data, path.name)
    return notebook, notes + more


def _decode(path: Path) -> tuple[str, list[str]]:
    raw = path.read_bytes()
    if not raw.strip():
        raise NotGradable(f"{path.name} is empty ({len(raw)} bytes)")
    encoding = next((name for bom, name in BOMS if raw.startswith(bom)), "utf-8")
    notes = [] if encoding == "utf-8" else [f"read as {encoding.removesuffix('-sig').upper()} with a byte order mark"]
    try:
        text = raw.decode(encoding)
    except UnicodeDecodeError as problem:
        raise NotGradable(
            f"{path.name} is not {encoding.upper()} text", "Save it as UTF-8 and hand it in again.", f"byte {problem.start}"
        ) from None
    if "\r\n" in text:
        notes.append("Windows line ends")
    return text, notes


def _parse(text: str, name: str) -> dict:
    try:
        data = json.loads(text)
    except RecursionError:
        raise NotGradable(f"{name} is nested too deeply to be a notebook") from None
    except ValueError as problem:
        raise _diagnose(text, name, problem) from None
    if not isinstance(data, dict):
        raise NotGradable(f"{name} is JSON but not a notebook")
    return data


def _diagnose(text: str, name: str, problem: ValueError) -> NotGradable:
    """Why the text is not JSON, in words that its owner can act on."""
    if conflict := CONFLICT.search(text):
        return NotGradable(
            f"{name} holds the marks of a merge conflict",
            "Settle the conflict (keep one side, delete the <<<<<<<, ======= and >>>>>>> lines), save and hand it in again.",
            _place(text, conflict.start()),
        )
    if text.lstrip()[:1] == "<":
        return NotGradable(
            f"{name} is a web page, not a notebook", "Use File → Download in Jupyter and hand in the .ipynb file."
        )
    at = getattr(problem, "pos", 0)
    if at >= len(text.rstrip()) - 1 or "Unterminated" in str(problem):
        return NotGradable(f"{name} ends in the middle: the end of the file is missing", where=_place(text, at))
    return NotGradable(f"{name} is not a notebook: it is not JSON", where=_place(text, at))


def _place(text: str, at: int) -> str:
    """The line, and the last named cell that begins before it."""
    line = f"line {text.count(chr(10), 0, at) + 1}"
    ids = GRADE_ID.findall(text, 0, at)
    return f"{line}, after the start of cell {ids[-1]}" if ids else line


def _to_current_format(data: dict, name: str) -> tuple[NotebookNode, list[str]]:
    """The notebook in format 4 with cells that have a type, a text and metadata, and nothing else."""
    major = data.get("nbformat")
    notes = []
    if major == 3 or "worksheets" in data:
        try:
            data = nbformat.convert(nbformat.reader.reads(json.dumps({**data, "nbformat": 3})), 4)
        except Exception as problem:  # nbformat raises whatever a malformed part happens to cause
            raise NotGradable(f"{name} is in notebook format 3, and a part of it is malformed ({type(problem).__name__})") from None
        notes.append("converted from notebook format 3")
    elif isinstance(major, int) and major < 3:
        raise NotGradable(f"{name} is in notebook format {major}, from before 2014")
    if not isinstance(data.get("cells"), list):
        raise NotGradable(f"{name} is JSON but has no cells, so it is not a notebook")
    cells = [cell for raw in data["cells"] if (cell := _plain_cell(raw)) is not None]
    if dropped := len(data["cells"]) - len(cells):
        notes.append(f"{dropped} malformed cell(s) left out")
    return NotebookNode(cells=cells, metadata={}, nbformat=4, nbformat_minor=5), notes


def _plain_cell(raw: object) -> NotebookNode | None:
    """One cell, or None if it is not one. Outputs are dropped: they are made afresh."""
    if not isinstance(raw, dict) or raw.get("cell_type") not in ("code", "markdown", "raw"):
        return None
    source = raw.get("source", "")
    if isinstance(source, list) and all(isinstance(line, str) for line in source):
        source = "".join(source)
    if not isinstance(source, str):
        return None
    metadata = raw.get("metadata") if isinstance(raw.get("metadata"), dict) else {}
    nbgrader = metadata.get("nbgrader") if isinstance(metadata.get("nbgrader"), dict) else {}
    grade_id = nbgrader.get("grade_id")
    kept = {"nbgrader": NotebookNode(grade_id=grade_id)} if isinstance(grade_id, str) and grade_id else {}
    name = raw.get("id") if isinstance(raw.get("id"), str) else None
    return NotebookNode(cell_type=raw["cell_type"], source=source, metadata=NotebookNode(kept), id=name)
