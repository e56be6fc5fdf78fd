"""Reading a submission and rebuilding it on the master: a small lesson, and everything that happens to files."""

import copy
import json
import zlib

import nbformat
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autograder.staff import intake
from autograder.staff.intake import NotGradable, NothingHandedIn
from autograder.staff.rebuild import rebuild

LESSON = "07_small"
STUB = 'def double(n):\n    """Twice n."""\n    raise NotImplementedError("write this part")'
KEY = 'def double(n):\n    """Twice n."""\n    return KEY_OF_DOUBLE'
MINE = "def double(n):\n    return n + n"


def cell(source, name=None, kind="code", **nbgrader):
    metadata = {"nbgrader": {"grade_id": name, "schema_version": 3, "grade": False, "solution": False, "locked": True, **nbgrader}} if name else {}
    made = {"cell_type": kind, "id": name or f"p-{zlib.crc32(source.encode())}", "metadata": metadata, "source": source}
    return made | ({"outputs": [], "execution_count": None} if kind == "code" else {})


def notebook(*cells):
    return {"cells": list(cells), "metadata": {"kernelspec": {"name": "python3", "display_name": "P", "language": "python"}}, "nbformat": 4, "nbformat_minor": 5}


def solution(name, source):
    return cell(source, name, solution=True, locked=False)


def lesson(hidden, double, triple):
    secret = "\nassert double(7) == 14  # HIDDEN" if hidden else ""
    return notebook(
        cell("# Small", kind="markdown"),
        cell("import math"),
        solution("double", double),
        cell(f"assert double(1) == 2{secret}", "double-checks", grade=True, points=2),
        cell("double(3)"),
        solution("triple", triple),
        cell(f"assert triple(1) == 3{secret}", "triple-checks", grade=True, points=3),
    )


RELEASED = lesson(False, STUB, STUB.replace("double", "triple"))
MASTER = lesson(True, KEY, KEY.replace("double", "triple"))


@pytest.fixture
def hand_in(tmp_path):
    """Hand in files (name → bytes) or one notebook, and get the rebuilt notebook and the notes."""
    master, released = (nbformat.from_dict(made) for made in (MASTER, RELEASED))

    def prepare(given, name=f"{LESSON}.ipynb"):
        submitted = tmp_path / "submitted"
        submitted.mkdir(exist_ok=True)
        files = given if name is None else {name: given if isinstance(given, bytes) else json.dumps(given).encode()}
        for name, content in files.items():
            (submitted / name).write_bytes(content)
        return intake.take_in(submitted, f"{LESSON}.ipynb", master, released)

    return prepare


def mine(double=MINE):
    made = copy.deepcopy(RELEASED)
    made["cells"][2]["source"] = double
    return made


def sources(nb):
    return [c["source"] for c in nb["cells"]]


EXPECTED = [*sources(MASTER)[:2], MINE, *sources(MASTER)[3:5], sources(RELEASED)[5], sources(MASTER)[6]]


def test_solutions_come_from_the_learner_and_all_else_from_the_master(hand_in):
    prepared, notes = hand_in(mine())
    assert sources(prepared) == EXPECTED
    assert notes == []


def test_a_solution_of_the_master_never_gets_into_a_submission(hand_in):
    bare = notebook(*[c for c in RELEASED["cells"] if c["metadata"].get("nbgrader", {}).get("grade")])
    prepared, notes = hand_in(bare)
    assert "KEY_OF" not in json.dumps(prepared)
    assert [c["source"] for c in prepared.cells if c.metadata.get("nbgrader", {}).get("solution")] == [sources(RELEASED)[2], sources(RELEASED)[5]]
    assert "cell double was missing; it counts as not written" in notes


@pytest.mark.parametrize(
    ("change", "note"),
    [
        (lambda raw: b"\xef\xbb\xbf" + raw, "UTF-8 with a byte order mark"),
        (lambda raw: b"\xff\xfe" + raw.decode().encode("utf-16-le"), "UTF-16 with a byte order mark"),
        (lambda raw: b"\xfe\xff" + raw.decode().encode("utf-16-be"), "UTF-16 with a byte order mark"),
        (lambda raw: raw.replace(b"\n", b"\r\n"), "Windows line ends"),
    ],
)
def test_odd_encodings_are_read_and_noted(hand_in, change, note):
    prepared, notes = hand_in(change(json.dumps(mine(), indent=1).encode()))
    assert sources(prepared) == EXPECTED
    assert any(note in said for said in notes)


def test_windows_line_ends_in_cells_are_no_change_to_a_test(hand_in):
    made = mine()
    for each in made["cells"]:
        each["source"] = each["source"].replace("\n", "\r\n")
    prepared, notes = hand_in(made)
    assert sources(prepared) == EXPECTED
    assert notes == []


def test_notebook_format_3_is_graded(hand_in):
    cells = [{"cell_type": c["cell_type"], "metadata": c["metadata"]} | ({"input": c["source"], "outputs": [], "language": "python"} if c["cell_type"] == "code" else {"source": c["source"]}) for c in mine()["cells"]]
    prepared, notes = hand_in({"nbformat": 3, "nbformat_minor": 0, "metadata": {"name": ""}, "worksheets": [{"cells": cells, "metadata": {}}]})
    assert sources(prepared) == EXPECTED
    assert notes == ["converted from notebook format 3"]


@pytest.mark.parametrize("ids", [None, "same"])
def test_missing_or_repeated_ids_do_not_matter(hand_in, ids):
    made = mine()
    for each in made["cells"]:
        each.pop("id") if ids is None else each.update(id=ids)
    assert sources(hand_in(made)[0]) == EXPECTED


def test_a_renamed_copy_is_found_by_its_content(hand_in):
    prepared, notes = hand_in(mine(), f"{LESSON} (1).ipynb")
    assert sources(prepared) == EXPECTED
    assert notes == [f"found under the name {LESSON} (1).ipynb; {LESSON}.ipynb was expected"]


def test_two_renamed_copies_are_named_and_not_guessed_between(hand_in):
    raw = json.dumps(mine()).encode()
    with pytest.raises(NotGradable, match="several files") as problem:
        hand_in({"a.ipynb": raw, "b.ipynb": raw}, None)
    assert "a.ipynb, b.ipynb" in str(problem.value)


def test_a_folder_without_a_notebook_is_not_submitted(hand_in):
    with pytest.raises(NothingHandedIn):
        hand_in({"notes.txt": b"sorry"}, None)


def test_a_link_is_not_followed(hand_in, tmp_path):
    (tmp_path / "submitted").mkdir()
    (tmp_path / "submitted" / f"{LESSON}.ipynb").symlink_to(tmp_path / "source" / f"{LESSON}.ipynb")
    with pytest.raises(NotGradable, match="is a link"):
        hand_in({}, None)


TEXT = json.dumps(mine(), indent=1)


@pytest.mark.parametrize(
    ("content", "cause", "where"),
    [
        (b"", "is empty", None),
        (b"  \n", "is empty", None),
        (TEXT[: TEXT.index("triple(1)")].encode(), "ends in the middle", "after the start of cell triple"),
        (TEXT[:-2].encode(), "ends in the middle", "triple-checks"),
        (TEXT.replace('\n   "id": "triple"', '\n<<<<<<< HEAD\n   "id": "triple"\n=======').encode(), "merge conflict", "after the start of cell double-checks"),
        (b"\n<!doctype html><html></html>", "is a web page", None),
        (b"hello", "it is not JSON", "line 1"),
        (b"[1, 2]", "not a notebook", None),
        (b'{"a": 1}', "has no cells", None),
        (b'{"nbformat": 2, "cells": []}', "format 2", None),
        (b'{"nbformat": 3, "worksheets": 7}', "malformed", None),
        (b"[" * 200_000, "nested too deeply", None),
        (b'{"nbformat": 4, "cells": []}', "holds no cell of this lesson", None),
        (TEXT.encode().replace(b"# Small", b"# Sm\xe4ll"), "is not UTF-8 text", "byte"),
    ],
)
def test_an_unreadable_file_has_a_cause_a_place_and_a_cure(hand_in, content, cause, where):
    with pytest.raises(NotGradable) as problem:
        hand_in(content)
    assert cause in problem.value.cause
    assert problem.value.cure.endswith(".")
    assert (where or "") in (problem.value.where or "")


def test_a_huge_file_is_refused_before_it_is_read(hand_in, monkeypatch):
    monkeypatch.setattr(intake, "MAX_BYTES", 100)
    with pytest.raises(NotGradable, match="MiB") as problem:
        hand_in(mine())
    assert "Clear Outputs" in problem.value.cure


def test_cells_that_are_none_are_left_out(hand_in):
    made = mine()
    made["cells"][1:1] = [7, {"cell_type": "code", "source": 3, "metadata": {}}, {"cell_type": "film"}]
    prepared, notes = hand_in(made)
    assert sources(prepared) == EXPECTED
    assert notes == ["3 malformed cell(s) left out"]


def test_text_that_utf_8_cannot_hold_does_not_stop_grading(hand_in):
    prepared, _ = hand_in(mine("double = '\ud800'"))
    assert prepared.cells[2].source == "double = '?'"


# ---- cells that were copied, moved, changed or lost ----


def test_of_a_repeated_solution_the_last_changed_one_counts(hand_in):
    made = mine()
    made["cells"].insert(3, copy.deepcopy(RELEASED["cells"][2]))
    prepared, notes = hand_in(made)
    assert sources(prepared) == EXPECTED
    assert notes == ["cell double is there 2 times; the last changed one counts, the others run before it"]


def test_a_split_solution_runs_as_in_the_learners_own_notebook(hand_in):
    made = mine("def helper(n):\n    return n")
    made["cells"].insert(3, solution("double", MINE))
    prepared, _ = hand_in(made)
    assert sources(prepared)[2:4] == ["def helper(n):\n    return n", MINE]


def test_a_solution_turned_into_markdown_is_code_again(hand_in):
    made = mine()
    made["cells"][2] = {k: v for k, v in made["cells"][2].items() if k not in ("outputs", "execution_count")} | {"cell_type": "markdown"}
    prepared, notes = hand_in(made)
    assert sources(prepared) == EXPECTED
    assert prepared.cells[2].cell_type == "code"
    assert notes == ["cell double had become markdown; it is code again"]


def test_a_solution_that_lost_its_name_is_recognised_by_what_it_defines(hand_in):
    made = mine()
    made["cells"][2] = cell(MINE)
    prepared, notes = hand_in(made)
    assert sources(prepared) == EXPECTED
    assert notes == ["cell double had lost its name; it was recognised by what it defines"]


def test_an_edited_test_is_the_masters_again_and_it_is_said(hand_in):
    made = mine()
    made["cells"][3]["source"] = "print('passed')"
    prepared, notes = hand_in(made)
    assert sources(prepared) == EXPECTED
    assert notes == ["cell double-checks had been changed; the released one was run"]


def test_a_test_above_its_solution_runs_after_it(hand_in):
    made = mine()
    made["cells"][2], made["cells"][3] = made["cells"][3], made["cells"][2]
    prepared, notes = hand_in(made)
    assert sources(prepared) == EXPECTED
    assert notes == ["cell double-checks stood before the cell it tests; it was run after it"]


def test_a_cell_of_ones_own_keeps_its_place_and_loses_its_metadata(hand_in):
    made = mine()
    made["cells"].insert(2, cell("helper = 1") | {"metadata": {"tags": ["skip-execution"], "nbgrader": {"grade": True, "points": 99, "grade_id": "free"}}})
    prepared, _ = hand_in(made)
    assert sources(prepared) == [*EXPECTED[:2], "helper = 1", *EXPECTED[2:]]
    assert prepared.cells[2].metadata == {}


def test_a_changed_cell_of_the_lesson_runs_beside_the_original(hand_in):
    made = mine()
    made["cells"][1]["source"] = "import math, heapq"
    prepared, _ = hand_in(made)
    assert "import math, heapq" in sources(prepared)[:3]
    assert "import math" in sources(prepared)[:3]


def as_read(made):
    return nbformat.from_dict(copy.deepcopy(made))


@given(st.data())
def test_whatever_happens_to_the_cells_every_test_is_the_masters_once_and_behind_its_solution(data):
    cells = [*mine()["cells"], cell("helper = 1"), cell("note", kind="markdown"), solution("double", "def double(n): return 3")]
    kept = data.draw(st.lists(st.sampled_from(range(len(cells))), max_size=14))
    rebuilt, _ = rebuild(as_read(notebook(*[cells[i] for i in kept])), as_read(MASTER), as_read(RELEASED))
    named = [c for c in rebuilt.cells if c.metadata.get("nbgrader")]
    assert [c.metadata.nbgrader.grade_id for c in named] == ["double", "double-checks", "triple", "triple-checks"]
    assert named[1].source == sources(MASTER)[3]
    assert "KEY_OF" not in json.dumps(rebuilt)
    assert [c.source for c in rebuilt.cells if c.source == "helper = 1"] == ["helper = 1"] * sum(i == 7 for i in kept)
    again, _ = rebuild(rebuilt, as_read(MASTER), as_read(RELEASED))
    assert sources(again) == sources(rebuilt)
