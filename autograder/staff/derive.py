"""A lesson's text → its notebook twin → nbgrader's release: pure steps, the same bytes every time."""

from __future__ import annotations

import logging
import shutil
import tempfile
from pathlib import Path

from autograder.staff.launch import TAGS

SOURCE, RELEASE = "source_assignments", "notebooks"
PERCENT = {
    "extension": ".py",
    "format_name": "percent",
    "cell_markers": '"""',
    "notebook_metadata_filter": "kernelspec",
}
KERNELSPEC = {"display_name": "Python 3", "language": "python", "name": "python3"}
# How jupytext remembers the text's layout; a notebook has no use for it.
LAYOUT_METADATA = ("cell_marker", "lines_to_next_cell", "lines_to_end_of_cell_marker")


class ReleaseFailed(Exception):
    """nbgrader could not make the release; the message is its own first sentence."""


def text_to_notebook(text: str, stem: str, install: str = ""):
    """The lesson as a notebook without outputs, every cell named by its `grade_id` or by its place.

    install: code for a cell that comes before all other code (see `launch`); it is no part of the text.
    """
    import jupytext
    import nbformat

    notebook = _plain(jupytext.reads(text, fmt=PERCENT), stem)
    if install:
        cell = nbformat.v4.new_code_cell(install, id=f"{stem}-install", metadata={"tags": list(TAGS)})
        first = next((place for place, other in enumerate(notebook.cells) if other.cell_type == "code"), 0)
        notebook.cells.insert(first, cell)
    return notebook


def notebook_to_text(twin: bytes, stem: str, like: str = "") -> str:
    """The percent text of a notebook, without outputs; cells that are in `like` too keep their blank lines."""
    import jupytext
    import nbformat

    notebook = _plain(nbformat.reads(twin.decode("utf-8"), as_version=4), stem)
    layout = {cell.source: cell.metadata for cell in jupytext.reads(like, fmt=PERCENT).cells}
    for cell in notebook.cells:
        before = layout.get(cell.source, {})
        cell.metadata.update({key: before[key] for key in LAYOUT_METADATA if key in before})
    return jupytext.writes(notebook, fmt=PERCENT)


def notebook_bytes(notebook) -> bytes:
    """What is written to disk for a notebook."""
    import nbformat

    return (nbformat.writes(notebook, version=4).rstrip("\n") + "\n").encode("utf-8")


def _plain(notebook, stem: str):
    """Drop what a run or an editor leaves behind and the derived first cell, and name the cells."""
    notebook.cells = [cell for cell in notebook.cells if TAGS[0] not in cell.metadata.get("tags", [])]
    notebook.metadata = type(notebook.metadata)(kernelspec=dict(KERNELSPEC))
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    for place, cell in enumerate(notebook.cells):
        # Random ids, as editors give them, would change every file each time.
        cell.id = cell.metadata.get("nbgrader", {}).get("grade_id") or f"{stem}-{place:02}"
        for key in LAYOUT_METADATA:
            cell.metadata.pop(key, None)
        for key in ("execution", "trusted", "ExecuteTime"):
            cell.metadata.pop(key, None)
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    return notebook


def release_files(root: Path, lesson: str, twin: bytes) -> dict[str, bytes]:
    """What `nbgrader generate_assignment` makes of the lesson: file name → content.

    It runs in a folder of its own, so that a failure leaves the course as it was.
    """
    with tempfile.TemporaryDirectory() as scratch:
        course = Path(scratch).resolve()
        source = course / SOURCE / lesson
        shutil.copytree(root / SOURCE / lesson, source)
        (source / f"{lesson}.ipynb").write_bytes(twin)
        _convert(root, course, lesson)
        made = course / RELEASE / lesson
        files = {str(p.relative_to(made)): p.read_bytes() for p in sorted(made.rglob("*")) if p.is_file()}
    for name, content in files.items():
        # An editor's backup copy or a notebook under another name would give the answers away.
        if b"BEGIN SOLUTION" in content or b"BEGIN HIDDEN TESTS" in content:
            raise ReleaseFailed(f"{name} would be released with a solution or a hidden test in it: move it away")
    return files


def _convert(root: Path, course: Path, lesson: str) -> None:
    """Run nbgrader's own converter with the course's own configuration, without a gradebook."""
    from nbgrader.converters import GenerateAssignment
    from nbgrader.coursedir import CourseDirectory
    from nbgrader.preprocessors import SaveCells
    from traitlets.config import PyFileConfigLoader

    config = PyFileConfigLoader("nbgrader_config.py", path=str(root)).load_config()
    config.CourseDirectory.root = str(course)
    config.CourseDirectory.assignment_id = lesson
    config.GenerateAssignment.no_database = True
    said = _Said()
    converter = GenerateAssignment(coursedir=CourseDirectory(config=config), config=config)
    converter.log = logging.Logger("release")
    converter.log.addHandler(said)
    converter.preprocessors = [step for step in converter.preprocessors if step is not SaveCells]
    try:
        converter.start()
    except Exception as error:
        raise ReleaseFailed(said.first_error() or str(error)) from error


class _Said(logging.Handler):
    """Keeps what nbgrader logs, so that one sentence of it can be told."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())

    def first_error(self) -> str | None:
        """The error's own line: the last of the first message, which may be a traceback."""
        return self.messages[0].strip().splitlines()[-1] if self.messages else None
