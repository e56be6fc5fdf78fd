"""A small nbgrader course of plain asserts, with none of this repository's own steps: what stock nbgrader is compared on."""

import datetime
import json
import sqlite3

import nbformat
import sqlalchemy

from conftest import run

LESSON = "ps1"
CONFIG = """
c = get_config()
c.CourseDirectory.course_id = "plain"
c.LateSubmissionPlugin.penalty_method = "zero"
"""
DUE = "2026-10-24 18:00:00"


def cell(source, grade_id=None, kind="code", **meta):
    made = nbformat.v4.new_code_cell(source) if kind == "code" else nbformat.v4.new_markdown_cell(source)
    made["id"] = f"id-{abs(hash(source)) % 10**8}" if grade_id is None else grade_id
    if grade_id:
        made.metadata["nbgrader"] = {"grade_id": grade_id, "grade": False, "solution": False, "locked": False, "task": False, "schema_version": 3, **meta}
    return made


def double(source):
    return cell(source, "double", solution=True)


RIGHT = "### BEGIN SOLUTION\ndef double(x):\n    return 2 * x\n### END SOLUTION"


def source_notebook():
    cells = [
        cell("# A lesson", kind="markdown"),
        cell("import numpy as np\nimport matplotlib.pyplot as plt"),
        double(RIGHT),
        cell("assert double(1) == 2\n### BEGIN HIDDEN TESTS\nassert double(-3) == -6\n### END HIDDEN TESTS", "double-test", grade=True, locked=True, points=2),
        cell("### BEGIN SOLUTION\nparts = 2\n### END SOLUTION", "parts", solution=True),
        cell("parts / 2", "parts-test", grade=True, locked=True, points=1.5),
        cell("plt.plot([1, 2])\nplt.show()"),
        cell("Explain it.", "essay", kind="markdown", grade=True, solution=True, points=3),
        cell("### BEGIN SOLUTION\nnp.arange(4)\n### END SOLUTION", "own", grade=True, solution=True, points=1),
        cell("Do it.", "task", kind="markdown", task=True, points=2, locked=True),
        cell("print('the end')\nassert double(0) == 0", "zero-test", grade=True, locked=True, points=1),
    ]
    for index, made in enumerate(cells):
        made["id"] = f"cell-{index}"
    return nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}})


def make(folder):
    """The course with its lesson released and due; returns the released notebook."""
    (folder / "source" / LESSON).mkdir(parents=True)
    (folder / "nbgrader_config.py").write_text(CONFIG)
    nbformat.write(source_notebook(), folder / "source" / LESSON / f"{LESSON}.ipynb")
    (folder / "source" / LESSON / "data.txt").write_text("1 2 3\n")
    made = run("nbgrader", "generate_assignment", LESSON, cwd=folder, PYTHONPATH="")
    assert made.returncode == 0, made.stderr
    with sqlite3.connect(folder / "gradebook.db") as database:
        database.execute("UPDATE assignment SET duedate = ?", (f"{DUE}.000000",))
    database.close()
    return nbformat.read(folder / "release" / LESSON / f"{LESSON}.ipynb", as_version=4)


def hand_in(folder, student, released, timestamp="2026-10-24 17:00:00 UTC", **changes):
    """Hand in the release with the text of some cells changed: grade_id → text."""
    made = nbformat.from_dict(json.loads(json.dumps(released)))
    for one in made.cells:
        one.source = changes.get(one.metadata.get("nbgrader", {}).get("grade_id"), one.source)
    place = folder / "submitted" / student / LESSON
    place.mkdir(parents=True)
    nbformat.write(made, place / f"{LESSON}.ipynb")
    (place / "timestamp.txt").write_text(timestamp)


def as_sqlite_has_it(value):
    return value.strftime("%Y-%m-%d %H:%M:%S.%f") if isinstance(value, datetime.datetime) else value


QUERIES = {
    "students": "SELECT id, first_name, last_name, email FROM student ORDER BY id",
    "submissions": "SELECT a.name, s.student_id, s.timestamp, s.extension FROM submitted_assignment s JOIN assignment a ON a.id = s.assignment_id ORDER BY 2",
    "notebooks": """SELECT s.student_id, n.name, m.flagged, m.late_submission_penalty FROM submitted_notebook m JOIN notebook n ON n.id = m.notebook_id
        JOIN submitted_assignment s ON s.id = m.assignment_id ORDER BY 1""",
    "grades": """SELECT s.student_id, c.name, c.type, g.auto_score, g.manual_score, g.extra_credit, g.needs_manual_grade FROM grade g
        JOIN base_cell c ON c.id = g.cell_id JOIN submitted_notebook m ON m.id = g.notebook_id JOIN submitted_assignment s ON s.id = m.assignment_id ORDER BY 1, 2""",
    "comments": """SELECT s.student_id, c.name, k.auto_comment, k.manual_comment FROM comment k
        JOIN base_cell c ON c.id = k.cell_id JOIN submitted_notebook m ON m.id = k.notebook_id JOIN submitted_assignment s ON s.id = m.assignment_id ORDER BY 1, 2""",
}


def rows(folder, url=None):
    """All that the gradebook holds of submissions, without the random ids; url: of another gradebook than the folder's own."""
    if url:
        engine = sqlalchemy.create_engine(url, poolclass=sqlalchemy.pool.NullPool)
        with engine.connect() as connection:
            return {name: [tuple(map(as_sqlite_has_it, row)) for row in connection.execute(sqlalchemy.text(query))] for name, query in QUERIES.items()}
    database = sqlite3.connect(folder / "gradebook.db")
    try:
        return {name: database.execute(query).fetchall() for name, query in QUERIES.items()}
    finally:
        database.close()
