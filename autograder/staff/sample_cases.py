"""What the sample class holds: ordinary work, and the accidents and tricks that notebook courses meet.

`ODD` is the table of the odd ones: what happened, in which lesson, what grading must make of it, and how it is made.
Each maker takes the lesson's `Sheet` and gives the files that are handed in.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import cycle

from autograder.prompts.kept import FILE
from autograder.prompts.questions import of_lesson
from autograder.staff.sample import (
    FULL,
    NOT_GRADABLE,
    NOT_SUBMITTED,
    NOTHING,
    PARTIAL,
    Sheet,
    Submission,
    is_solution,
    name_of,
    notebook_bytes,
)

Files = dict[str, bytes]
ORDINARY = 8

# ---- the parts that makers are built from ----------------------------------------------------------------------


def file(sheet: Sheet, notebook: dict) -> Files:
    return {f"{sheet.lesson}.ipynb": notebook_bytes(notebook)}


def place(notebook: dict, name: str) -> int:
    return next(index for index, cell in enumerate(notebook["cells"]) if name_of(cell) == name)


def own_cell(source: str) -> dict:
    return {"cell_type": "code", "execution_count": None, "id": "mine", "metadata": {}, "outputs": [], "source": source}


def around(sheet: Sheet, name: str, body: str) -> dict:
    """The solved notebook with the function `name` wrapped: `body` runs instead of the call, which it may make as `call(*args)`."""
    wrapped = f"{sheet.reference[name]}\n\n\ndef {name}(*args, call={name}):\n    {body}"
    return sheet.filled({name: wrapped})


def every(sheet: Sheet, lines: str) -> dict:
    """The solved notebook with lines added in front of every solution."""
    return sheet.filled({name: f"{lines}\n{code}" for name, code in sheet.reference.items()})


# ---- makers ----------------------------------------------------------------------------------------------------


def solved(sheet: Sheet) -> Files:
    return file(sheet, sheet.filled())


def untouched(sheet: Sheet) -> Files:
    return file(sheet, sheet.released)


def half_done(sheet: Sheet) -> Files:
    return file(sheet, sheet.filled(only=sheet.exercises[: len(sheet.exercises) // 2]))


def second_half(sheet: Sheet) -> tuple[str, ...]:
    return tuple(sheet.exercises[len(sheet.exercises) // 2 :])


def truncated(sheet: Sheet) -> Files:
    return {name: content[: len(content) * 2 // 3] for name, content in solved(sheet).items()}


def empty(sheet: Sheet) -> Files:
    return {f"{sheet.lesson}.ipynb": b""}


def blank(sheet: Sheet) -> Files:
    return file(sheet, {**sheet.released, "cells": []})


def merge_conflict(sheet: Sheet) -> Files:
    lines = notebook_bytes(sheet.filled()).decode().split("\n")
    at = len(lines) // 2
    lines[at : at + 1] = ["<<<<<<< HEAD", lines[at], "=======", lines[at], ">>>>>>> theirs"]
    return {f"{sheet.lesson}.ipynb": "\n".join(lines).encode()}


def web_page(sheet: Sheet) -> Files:
    return {f"{sheet.lesson}.ipynb": b"<!DOCTYPE html>\n<html><body>Please log in.</body></html>\n"}


def with_bom(sheet: Sheet) -> Files:
    return {name: b"\xef\xbb\xbf" + content for name, content in solved(sheet).items()}


def in_utf_16(sheet: Sheet) -> Files:
    return {name: b"\xff\xfe" + content.decode().encode("utf-16-le") for name, content in solved(sheet).items()}


def windows_line_ends(sheet: Sheet) -> Files:
    notebook = sheet.filled()
    for cell in notebook["cells"]:
        cell["source"] = cell["source"].replace("\n", "\r\n")
    return {name: content.replace(b"\n", b"\r\n") for name, content in file(sheet, notebook).items()}


def renamed(sheet: Sheet) -> Files:
    return {f"{sheet.lesson} (1).ipynb": notebook_bytes(sheet.filled())}


def solution_twice(sheet: Sheet) -> Files:
    notebook = sheet.filled()
    at = place(notebook, sheet.exercises[-1])
    again = copy.deepcopy(sheet.released["cells"][at])
    notebook["cells"].insert(at, {**again, "id": "again"})
    return file(sheet, notebook)


def test_twice(sheet: Sheet) -> Files:
    notebook = sheet.filled()
    at = place(notebook, f"{sheet.exercises[-1]}-checks")
    notebook["cells"].insert(at, {**copy.deepcopy(notebook["cells"][at]), "id": "again"})
    return file(sheet, notebook)


def test_deleted(sheet: Sheet) -> Files:
    notebook = sheet.filled()
    del notebook["cells"][place(notebook, f"{sheet.exercises[1]}-checks")]
    return file(sheet, notebook)


def test_moved_up(sheet: Sheet) -> Files:
    notebook = sheet.filled()
    test = notebook["cells"].pop(place(notebook, f"{sheet.exercises[2]}-checks"))
    notebook["cells"].insert(place(notebook, sheet.exercises[2]), test)
    return file(sheet, notebook)


def test_edited(sheet: Sheet) -> Files:
    notebook = copy.deepcopy(sheet.released)
    for cell in notebook["cells"]:
        if (name_of(cell) or "").endswith("-checks"):
            cell["source"] = "print('all checks passed')"
    return file(sheet, notebook)


def solution_as_markdown(sheet: Sheet) -> Files:
    notebook = sheet.filled()
    cell = notebook["cells"][place(notebook, sheet.exercises[1])]
    cell["cell_type"] = "markdown"
    del cell["outputs"], cell["execution_count"]
    return file(sheet, notebook)


def names_stripped(sheet: Sheet) -> Files:
    notebook = sheet.filled()
    for cell in notebook["cells"]:
        cell["metadata"] = {}
    return without_ids(sheet, notebook)


def without_ids(sheet: Sheet, notebook: dict | None = None) -> Files:
    notebook = notebook or sheet.filled()
    for cell in notebook["cells"]:
        cell.pop("id", None)
    return file(sheet, {**notebook, "nbformat_minor": 4})


def same_ids(sheet: Sheet) -> Files:
    notebook = sheet.filled()
    for cell in notebook["cells"]:
        cell["id"] = "same"
    return file(sheet, notebook)


def in_format_3(sheet: Sheet) -> Files:
    cells = []
    for cell in sheet.filled()["cells"]:
        made = {"cell_type": cell["cell_type"], "metadata": cell["metadata"]}
        if cell["cell_type"] == "code":
            made |= {"collapsed": False, "input": cell["source"], "language": "python", "outputs": []}
        else:
            made["source"] = cell["source"]
        cells.append(made)
    notebook = {"metadata": {"name": ""}, "nbformat": 3, "nbformat_minor": 0, "worksheets": [{"cells": cells, "metadata": {}}]}
    return {f"{sheet.lesson}.ipynb": (json.dumps(notebook, indent=1) + "\n").encode()}


def foreign_kernel(sheet: Sheet) -> Files:
    notebook = sheet.filled()
    notebook["metadata"] = {"kernelspec": {"display_name": "R", "language": "R", "name": "ir"}}
    return file(sheet, notebook)


def warns(sheet: Sheet) -> Files:
    return file(sheet, around(sheet, _leaf(sheet), 'import sys, warnings; warnings.warn("slow"); print("called", file=sys.stderr); return call(*args)'))


def prints(sheet: Sheet) -> Files:
    return file(sheet, around(sheet, _leaf(sheet), 'print("called with", args, "\\nFAILED\\n0.0"); return call(*args)'))


def prints_a_long_line(sheet: Sheet) -> Files:
    notebook = sheet.filled()
    notebook["cells"].insert(place(notebook, sheet.exercises[-1]), own_cell('print("x" * 50_000_000)'))
    return file(sheet, notebook)


def gives_numpy_numbers(sheet: Sheet) -> Files:
    return file(sheet, around(sheet, _leaf(sheet), "import numpy as np; return np.int64(call(*args))"))


def ends_in_odd_values(sheet: Sheet) -> Files:
    """Whole cells that end in what a display-reading grader takes for a mark; all is unsolved."""
    notebook = copy.deepcopy(sheet.released)
    odd = cycle(["float('nan')", "-1", "True", "10**9", "1e999", "'0'"])
    for cell in notebook["cells"]:
        if is_solution(cell):
            cell["source"] += f"\n\n{next(odd)}" if cell["source"].startswith(("def ", "class ")) else ""
    return file(sheet, notebook)


def ends_python_in_own_cell(sheet: Sheet) -> Files:
    notebook = sheet.filled()
    at = place(notebook, sheet.exercises[3])
    notebook["cells"].insert(at, own_cell("import os\nos._exit(0)"))
    return file(sheet, notebook)


def asks_for_all_memory(sheet: Sheet) -> Files:
    notebook = sheet.filled()
    notebook["cells"].insert(place(notebook, sheet.exercises[3]), own_cell("everything = bytearray(100 * 2**30)"))
    return file(sheet, notebook)


def ends_python_in_a_call(sheet: Sheet) -> Files:
    return file(sheet, around(sheet, _leaf(sheet), "import os; os._exit(1)"))


def loops_in_own_cell(sheet: Sheet) -> Files:
    notebook = sheet.filled()
    at = place(notebook, sheet.exercises[-1])
    notebook["cells"].insert(at, own_cell("while True:\n    pass"))
    return file(sheet, notebook)


def loops_in_a_call(sheet: Sheet) -> Files:
    return file(sheet, around(sheet, _leaf(sheet), "while True: pass"))


def asks_torch_for_all_memory(sheet: Sheet) -> Files:
    return file(sheet, around(sheet, "paged_attention", "import torch; torch.zeros(2**36); return call(*args)"))


def manager_not_pasted(sheet: Sheet) -> Files:
    stub = sheet.released["cells"][place(sheet.released, "BlockManager")]["source"]
    return file(sheet, sheet.filled({"BlockManager": stub}))


def kills_its_grader(sheet: Sheet) -> Files:
    notebook = sheet.filled()
    notebook["cells"].insert(place(notebook, sheet.exercises[0]), own_cell("import os, signal\nos.kill(os.getppid(), signal.SIGKILL)"))
    return file(sheet, notebook)


def _unsolved_with(sheet: Sheet, trick: str) -> Files:
    """The untouched release with a cell of one's own in front of the first exercise."""
    notebook = copy.deepcopy(sheet.released)
    notebook["cells"].insert(place(notebook, sheet.exercises[0]), own_cell(trick))
    return file(sheet, notebook)


def replaces_check(sheet: Sheet) -> Files:
    return _unsolved_with(
        sheet, "import autograder\n\n\ndef check(*args, **more):\n    print('✓ every promise holds')\n\n\nautograder.check = check"
    )


def shows_a_forged_transcript(sheet: Sheet) -> Files:
    return _unsolved_with(
        sheet,
        "import os\nfrom IPython.display import display\n\n\n"
        "def check(exercise, obj, thorough=False):\n"
        '    forged = {"exercise": exercise, "thorough": thorough, "nonce": os.environ.get("AUTOGRADER_NONCE", ""), "packed": "e30="}\n'
        '    display({"application/vnd.autograder.transcript+json": forged, "text/plain": ""}, raw=True)',
    )


def redefines_builtins(sheet: Sheet) -> Files:
    return _unsolved_with(
        sheet, "import builtins\n\nbuiltins.all = lambda items: True\nbuiltins.any = lambda items: False\nbuiltins.AssertionError = Warning"
    )


def deletes_all_code(sheet: Sheet) -> Files:
    return _unsolved_with(
        sheet,
        "import ast\n\n\nclass Nothing(ast.NodeTransformer):\n    def visit_Module(self, node):\n        node.body = []\n        return node\n\n\n"
        "get_ipython().ast_transformers.append(Nothing())",
    )


def tags_tests_to_be_skipped(sheet: Sheet) -> Files:
    notebook = copy.deepcopy(sheet.released)
    for cell in notebook["cells"]:
        cell["metadata"]["tags"] = ["skip-execution"]
    return file(sheet, notebook)


def no_notebook(sheet: Sheet) -> Files:
    return {"notes.txt": b"I could not upload the notebook.\n"}


# Functions that no other exercise of their lesson uses, so that breaking one costs that one.
LEAVES = ("largest_hole", "match_prefix", "eviction_order")


def _leaf(sheet: Sheet) -> str:
    return next(name for name in LEAVES if name in sheet.reference)


# ---- the table -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Odd:
    """One odd submission. loses: exercise names, or a function of the sheet that gives them."""

    what: str
    lesson: str
    expect: str
    make: Callable[[Sheet], Files]
    cause: str = ""
    loses: Callable[[Sheet], tuple[str, ...]] | None = None


def leaf_only(sheet: Sheet) -> tuple[str, ...]:
    return (_leaf(sheet),)


ODD = (
    Odd("the untouched release", "01", NOTHING, untouched),
    Odd("half done", "02", PARTIAL, half_done, loses=second_half),
    Odd("truncated file", "01", NOT_GRADABLE, truncated, "ends in the middle"),
    Odd("empty file", "02", NOT_GRADABLE, empty, "is empty"),
    Odd("blank notebook", "03", NOT_GRADABLE, blank, "holds no cell of this lesson"),
    Odd("merge-conflict marks", "02", NOT_GRADABLE, merge_conflict, "merge conflict"),
    Odd("a web page under the notebook's name", "01", NOT_GRADABLE, web_page, "is a web page"),
    Odd("no notebook in what was handed in", "02", NOT_SUBMITTED, no_notebook, "no notebook"),
    Odd("UTF-8 with a byte order mark", "01", FULL, with_bom),
    Odd("UTF-16", "02", FULL, in_utf_16),
    Odd("Windows line ends", "02", FULL, windows_line_ends),
    Odd("renamed copy", "02", FULL, renamed),
    Odd("a solution cell twice, the released one first", "02", FULL, solution_twice),
    Odd("a test cell twice", "02", FULL, test_twice),
    Odd("a test cell deleted", "02", FULL, test_deleted),
    Odd("a test cell above its solution", "01", FULL, test_moved_up),
    Odd("a solution cell turned into Markdown", "02", FULL, solution_as_markdown),
    Odd("all cell metadata and ids stripped", "02", FULL, names_stripped),
    Odd("no cell ids", "02", FULL, without_ids),
    Odd("one id for all cells", "02", FULL, same_ids),
    Odd("notebook format 3", "02", FULL, in_format_3),
    Odd("a kernel of another language", "02", FULL, foreign_kernel),
    Odd("right code that warns and writes to stderr", "02", FULL, warns),
    Odd("right code that prints FAILED and 0.0", "01", FULL, prints),
    Odd("right code and a line of 50 MB", "02", FULL, prints_a_long_line),
    Odd("right code that gives NumPy numbers", "01", FULL, gives_numpy_numbers),
    Odd("a cell of one's own that ends Python", "02", FULL, ends_python_in_own_cell),
    Odd("a cell of one's own that asks for 100 GiB", "02", FULL, asks_for_all_memory),
    Odd("a function that ends Python when called", "02", PARTIAL, ends_python_in_a_call, "Python ended", leaf_only),
    Odd("a cell of one's own that never ends", "02", FULL, loops_in_own_cell),
    Odd("a function that never ends", "01", PARTIAL, loops_in_a_call, "did not return", leaf_only),
    Odd("a function that asks torch for 256 GiB", "04", PARTIAL, asks_torch_for_all_memory, "paged_attention", lambda sheet: ("paged_attention",)),
    Odd("lesson 3's manager not pasted into lesson 4", "04", PARTIAL, manager_not_pasted, "not written yet", lambda sheet: ("BlockManager",)),
    Odd("a cell that kills the process that grades it", "02", FULL, kills_its_grader),
    Odd("unsolved, with odd values as last lines", "01", NOTHING, ends_in_odd_values),
    Odd("unsolved, the tests replaced by a print", "02", NOTHING, test_edited),
    Odd("unsolved, the tests tagged to be skipped", "02", NOTHING, tags_tests_to_be_skipped),
    Odd("unsolved, check replaced", "02", NOTHING, replaces_check, "did not answer"),
    Odd("unsolved, with a forged transcript", "01", NOTHING, shows_a_forged_transcript, "did not answer"),
    Odd("unsolved, builtins redefined", "02", NOTHING, redefines_builtins),
    Odd("unsolved, all code deleted before it runs", "01", NOTHING, deletes_all_code, "did not answer"),
)


def make_class(sheets: dict[str, Sheet], students: int | None = None) -> list[Submission]:
    """The class: eight students who do every lesson, then one for each odd case; more students than that do ordinary work."""
    odd = [row for row in ODD if row.lesson in sheets]
    wanted = ORDINARY + len(odd) if students is None else students
    submissions: list[Submission] = []
    for number in range(1, wanted + 1):
        student = f"s{number:02}"
        if ORDINARY < number <= ORDINARY + len(odd):
            submissions.append(_odd(student, odd[number - ORDINARY - 1], sheets))
        else:
            submissions += _ordinary(student, number, sheets)
    return [with_predictions(submission) for submission in submissions]


def with_predictions(submission: Submission) -> Submission:
    """Who did some work has committed the lesson's predictions too; they lie beside the notebook."""
    if submission.expect not in (FULL, PARTIAL):
        return submission
    return replace(submission, files={**submission.files, **predicted(submission.lesson)})


def predicted(lesson: str) -> Files:
    """The file that says that every prediction of the lesson was made."""
    made = {asked.id: [{"answer": {f.key: 1 for f in asked.fields}, "at": "2026-10-12T14:00:00+02:00"}] for asked in of_lesson(lesson, "predict")}
    return {FILE: (json.dumps(made, indent=1) + "\n").encode()}


def _ordinary(student: str, number: int, sheets: dict[str, Sheet]) -> list[Submission]:
    """The reference, then right variants, then students with one wrong solution in each lesson."""
    made = []
    for sheet in sheets.values():
        if number == 1:
            made.append(Submission(student, sheet.lesson, "the reference solution", FULL, solved(sheet)))
        elif number in (2, 3) or not any(not v.right for v in sheet.variants):
            made.append(Submission(student, sheet.lesson, "other right solutions", FULL, file(sheet, sheet.filled(sheet.right(number)))))
        else:
            wrong = sheet.wrong(number - 4)
            files = file(sheet, sheet.filled({wrong.part: wrong.code}))
            made.append(Submission(student, sheet.lesson, f"wrong {wrong.part}: {wrong.says}", PARTIAL, files, (wrong.part,), sheet.callers(wrong.part)))
    return made


def _odd(student: str, row: Odd, sheets: dict[str, Sheet]) -> Submission:
    sheet = sheets[row.lesson]
    loses = row.loses(sheet) if row.loses else ()
    return Submission(student, sheet.lesson, row.what, row.expect, row.make(sheet), loses, cause=row.cause)
