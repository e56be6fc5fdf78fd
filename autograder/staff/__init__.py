"""The instructors' part: deriving lessons, grading, feedback. It is not in the wheel that students get."""

from pathlib import Path


def course_root(start: Path | None = None) -> Path:
    """The course folder around `start` (default: here): the nearest one with an `nbgrader_config.py`."""
    here = Path(start or Path.cwd()).resolve()
    for folder in (here, *here.parents):
        if (folder / "nbgrader_config.py").is_file():
            return folder
    return Path(__file__).resolve().parents[2]
