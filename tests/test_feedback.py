"""The feedback page, from a record alone."""

import re

import pytest

from autograder.staff import records
from autograder.staff.feedback import ByHand, render
from autograder.staff.records import CellMark, Record
from autograder.staff.report import main, mark_text, summarise, summary, table, write_report


def promise(id, held, history=(), expected="", actual="", hint=""):
    return {"id": id, "statement": f"The promise {id}.", "held": held, "history": list(history), "expected": expected, "actual": actual, "hint": hint}


def verdict(*promises, answered=True):
    return {"exercise": "01/f", "passed": all(p["held"] for p in promises), "answered": answered, "written": True, "sentence": "f breaks a promise: The promise size.", "promises": list(promises)}


def graded(*cells, **more):
    return Record("01_small", "s01", records.GRADED, cells=list(cells), **more)


SEEN = promise("size", False, ["f(1)", "f(2)"], "four", "five", "Count again.")
HIDDEN = promise("counts", False, ["f(123456)"], "hidden expectation", "hidden answer", "hidden hint")


def page_of(thorough, quick):
    return render(graded(CellMark("t", "01_small/f", 2.0, 1.0, verdict=thorough, quick=quick)))


def test_a_promise_that_the_visible_check_broke_is_shown_with_its_shortest_history():
    page = page_of(verdict(SEEN), verdict(SEEN))
    assert "<li>f(1)</li>\n<li>f(2)</li>" in page
    assert all(text in page for text in ("The promise size.", "four", "five", "Count again.", "1 of 2"))


def test_of_a_promise_that_only_the_hidden_check_broke_the_page_has_the_promise_alone():
    page = page_of(verdict(SEEN, HIDDEN), verdict(SEEN, promise("counts", True)))
    assert "The promise counts." in page
    assert [text for text in ("f(123456)", "hidden expectation", "hidden answer", "hidden hint") if text in page] == []


def test_the_history_shown_is_that_of_the_visible_check():
    page = page_of(verdict(promise("size", False, ["f(999)"], "secret", "secret too")), verdict(SEEN))
    assert "f(2)" in page
    assert "f(999)" not in page
    assert "secret" not in page


def test_a_failed_plain_test_shows_nothing_of_its_assertion():
    page = render(graded(CellMark("double-checks", None, 2.0, 0.0)))
    assert "The test failed." in page


def test_an_unreadable_file_has_its_cause_its_place_and_its_cure_and_is_no_zero():
    page = render(Record("01_small", "s01", records.NOT_GRADABLE, "k", "small.ipynb ends in the middle", "line 7", "Save it again."))
    assert all(text in page for text in ("Not gradable", "small.ipynb ends in the middle", "line 7", "Save it again.", "not a zero"))
    assert not re.search(r"\d+ of \d+", page)


def test_text_of_a_learner_is_escaped():
    evil = "<script>alert(1)</script>"
    page = page_of(verdict(promise("size", False, [evil], evil, evil, evil)), verdict(promise("size", False, [evil], evil, evil, evil)))
    assert "<script>" not in page
    assert page.count("&lt;script&gt;") == 4


def test_what_stands_between_backquotes_is_code_and_still_escaped():
    page = page_of(verdict(promise("size", False, ["f()"], "`<b>` comes", "x", "")), verdict(promise("size", False, ["f()"], "`<b>` comes", "x", "")))
    assert "<code>&lt;b&gt;</code> comes" in page


def test_a_cell_that_did_not_answer_says_why():
    page = render(graded(CellMark("t", "01_small/f", 2.0, 0.0, note="Python ended in this cell")))
    assert "Python ended in this cell" in page


def test_what_a_person_has_given_counts_and_is_shown():
    record = graded(CellMark("essay", None, 4.0, None), CellMark("t", "01_small/f", 2.0, 1.5, note="Python ended in this cell"))
    record.state = records.AWAITING
    before = render(record)
    assert "1.5 of 6 points" in before and "so far" in before and "awaits a manual mark (of 4)" in before
    page = render(record, ByHand({"essay": 3.0, "t": 2.0}, {"essay": "Read <b>lesson</b> 3 again."}, late=1.0))
    assert "4 of 6 points" in page and "so far" not in page and "1 taken off for being late" in page
    assert "3 of 4" in page and "the check gave 1.5" in page and "Read &lt;b&gt;lesson&lt;/b&gt; 3 again." in page


def test_mended_things_are_told():
    assert "cell x was missing" in render(graded(repairs=["cell x was missing"]))


def test_the_page_calls_no_other_host_and_has_both_themes():
    page = page_of(verdict(SEEN, HIDDEN), verdict(SEEN))
    assert not re.search(r"https?:|//[a-z]|src=|@import|url\(", page)
    assert "prefers-color-scheme: dark" in page


@pytest.mark.parametrize(
    ("state", "text"),
    [(records.GRADED, "0/0"), (records.NOT_GRADABLE, "not gradable"), (records.FAILED, "failed"), (records.NOT_SUBMITTED, "–"), (records.AWAITING, "0/0*")],
)
def test_a_table_tells_marks_from_their_absence(state, text):
    assert mark_text(Record("01", "s01", state)) == text


def test_the_table_gives_a_reason_for_each_mark_that_is_not_full():
    full = graded(CellMark("t", "01_small/f", 2.0, 2.0))
    part = Record("01_small", "s02", records.GRADED, cells=[CellMark("t", "01_small/f", 2.0, 1.0, verdict=verdict(SEEN))])
    lines = table([full, part, Record("02_next", "s02", records.NOT_GRADABLE, None, "it is empty", None, "Save it.")], ["01_small", "02_next"]).splitlines()
    assert lines[2].split() == ["s01", "2/2", "–"]
    assert lines[3].split() == ["s02", "1/2", "not", "gradable"]
    assert lines[-2:] == ["s02 01_small: f 1/2: breaks a promise: The promise size.", "s02 02_next: not gradable: it is empty. Save it."]


def test_the_report_counts_the_mistakes_that_were_recognised(tmp_path):
    wrong = {**verdict(SEEN), "mistake": "fork-copies-tail"}
    cells = [CellMark("t", "01_small/f", 2.0, 1.0, verdict=wrong), CellMark("u", "01_small/g", 2.0, 1.0, verdict={**wrong, "mistake": None})]
    both = [graded(*cells), Record("01_small", "s02", records.GRADED, cells=cells)]
    assert summarise(both, ["01_small"])[0].mistakes == [("f", "The partly filled block is copied at the fork", 2)]
    page = write_report(tmp_path / "report.html", summarise(both, ["01_small"]), {}).read_text("utf-8")
    assert "Mistakes recognised" in page
    assert "copied at the fork" in page


def test_the_summary_counts_names_what_was_missed_and_says_who_needs_a_person():
    silent = CellMark("u", "01_small/g", 2.0, 0.0, note="Python ended in this cell")
    essay = CellMark("essay", None, 3.0, None)
    class_of = [
        graded(CellMark("t", "01_small/f", 2.0, 1.0, verdict=verdict(SEEN)), silent),
        Record("01_small", "s02", records.AWAITING, cells=[essay]),
        Record("01_small", "s03", records.NOT_GRADABLE, None, "it is empty", None, "Save it."),
        Record("01_small", "s04", records.GRADED, cells=[CellMark("t", "01_small/f", 2.0, 2.0, verdict=verdict(promise("size", True)))]),
    ]
    assert summary(summarise(class_of, ["01_small"])).splitlines() == [
        "01 small",
        "  4 handed in, 3 with marks, 1 full, mean 1.0",
        "  promises that did not hold",
        "       1  f: The promise size.",
        "  for a person to look at",
        "    s01: did not answer its checks: g",
        "    s02: essay awaits a mark",
        "    s03: not gradable: it is empty. Save it.",
    ]


def test_the_report_command_reads_the_records_and_refuses_without_any(tmp_path, capsys):
    assert main(["--course", str(tmp_path)]) == 1
    assert "run `autograder grade` first" in capsys.readouterr().err
    records.save(tmp_path / "records", graded(CellMark("t", "01_small/f", 2.0, 1.0, verdict=verdict(SEEN))))
    assert main(["--course", str(tmp_path)]) == 0
    assert "1 handed in" in capsys.readouterr().out
    assert "The promise size." in (tmp_path / "report.html").read_text("utf-8")
