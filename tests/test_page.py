"""The page's Python without a browser: what a cell shows, how it ends, and what is not there."""

import ast
import json
import subprocess
import sys

import pytest

from autograder.page import MOST_CHARACTERS, MOST_LINES, AbsentFinder, NeedsNotebook, Page, Screen
from conftest import ROOT


class Heard(list):
    """What a page was told, in order."""

    def __call__(self, kind, words):
        self.append((kind, words))

    def text(self):
        return "".join(words for kind, words in self if kind == "text")


@pytest.fixture
def heard():
    return Heard()


@pytest.fixture
def run(heard):
    """Runs a cell; how it ended."""
    page = Page(heard)
    return lambda source, name="one": json.loads(page.run(name, source))


def test_names_live_from_cell_to_cell_and_the_last_expression_is_shown(run, heard):
    run("x = 40")
    assert run("y = x + 2\ny") == {"how": "done", "error": "", "passed": False}
    assert heard == [("text", "42\n")]


@pytest.mark.parametrize("source", ["None", "x = 1", "1;", "", "# nothing", "def f(): pass"])
def test_nothing_is_shown_where_a_notebook_shows_nothing(run, heard, source):
    assert run(source)["how"] == "done"
    assert heard == []


def test_value_with_html_is_shown_as_html_and_a_bundle_before_it(run, heard):
    run("class A:\n    def _repr_html_(self): return '<b>a</b>'\nA()")
    run("class B:\n    def _repr_mimebundle_(self, include=None, exclude=None): return {'text/html': '<i>b</i>', 'text/plain': 'b'}\nB()")
    assert heard == [("html", "<b>a</b>"), ("html", "<i>b</i>")]


def test_text_and_values_come_in_the_order_in_which_they_were_given(run, heard):
    run("print('a', end='')\nclass A:\n    def _repr_html_(self): return '<b/>'\nA()")
    assert heard == [("text", "a"), ("html", "<b/>")]


@pytest.mark.parametrize(("source", "how", "error"), [
    ("raise NotImplementedError('write this part')", "unwritten", "Not written yet: write this part"),
    ("1 / 0", "failed", 'cell "one", line 1, in <module>\n    1 / 0\n'),
    ("x = (1", "failed", "SyntaxError: '(' was never closed"),
    ("raise SystemExit", "failed", "SystemExit"),
    ("raise KeyboardInterrupt", "failed", "KeyboardInterrupt"),
])
def test_ending_is_told(run, source, how, error):
    ended = run(source)
    assert ended["how"] == how
    assert error in ended["error"]


def test_traceback_has_the_cells_own_lines_alone(run):
    run("import json\ndef read(text):\n    return json.loads(text)", "first")
    error = run("read('{')", "second")["error"]
    assert 'cell "second", line 1' in error and 'cell "first", line 3, in read' in error
    assert "json/" not in error and "page.py" not in error


def test_endless_recursion_is_told_in_a_few_lines(run):
    error = run("def f(n):\n    return f(n + 1)\nf(0)")["error"]
    assert error.splitlines()[-1].startswith("RecursionError")
    assert "more calls" in error and len(error.splitlines()) < 20


def test_error_of_an_error_tells_the_last_one_only(run):
    assert "ZeroDivisionError" not in run("try:\n    1 / 0\nexcept ZeroDivisionError as e:\n    raise ValueError('no') from e")["error"]


def test_flood_is_cut_once_with_a_sentence():
    heard = Heard()
    screen = Screen(heard)
    for n in range(5 * MOST_LINES):
        screen.write(f"{n}\n")
    lines = heard.text().splitlines()
    assert lines[: MOST_LINES] == [str(n) for n in range(MOST_LINES)]
    assert heard.text().count("is left out") == 1
    assert len(heard) <= MOST_LINES + 1


@pytest.mark.parametrize("piece", ["x", "xy" * 999, "z" * (MOST_CHARACTERS + 1)])
def test_no_more_characters_than_the_most_are_shown_however_they_come(piece):
    heard = Heard()
    screen = Screen(heard)
    for _ in range(2 * MOST_CHARACTERS // len(piece) + 2):
        screen.write(piece)
    shown, _, sentence = heard.text().partition("\n…")
    assert len(shown) == MOST_CHARACTERS and "is left out" in sentence


def test_next_cell_has_its_whole_room_again(run, heard):
    run(f"print('x' * {2 * MOST_CHARACTERS})")
    heard.clear()
    run("print('short')")
    assert heard.text() == "short\n"


def test_package_that_is_not_there_can_be_imported_and_says_so_when_it_is_used():
    finder = AbsentFinder()
    assert finder.find_spec("json") is None and finder.find_spec("numpyro") is None
    module = finder.create_module(finder.find_spec("matplotlib.pyplot"))
    with pytest.raises(NeedsNotebook, match="This cell needs matplotlib"):
        _ = module.plot
    assert not hasattr(module, "__all__")


def begun(*cells):
    """Cells in a Python that a page has begun, where no package but the course's is there; what was told and how each ended."""
    code = (
        "import json, sys\nfrom autograder.page import Page\ntold = []\npage = Page(lambda kind, words: told.append([kind, words]))\npage.begin()\n"
        "ended = [json.loads(page.run(str(n), cell)) for n, cell in enumerate(json.loads(sys.argv[1]))]\nsys.__stdout__.write(json.dumps([told, ended]))"
    )
    answer = subprocess.run([sys.executable, "-S", "-c", code, json.dumps(cells)], cwd=ROOT, capture_output=True, text=True)
    assert answer.returncode == 0, answer.stderr
    return json.loads(answer.stdout)


def test_check_shows_its_card_and_says_whether_it_passed():
    right = 'numbers = {"blocks": 7, "slots": 112, "slack": 12, "slack_percent": 1200 / 112}\nfrom autograder import check'
    told, ended = begun(right, "check('01_contiguous_vs_paged/numbers', numbers)", "numbers['blocks'] = 6\ncheck('01_contiguous_vs_paged/numbers', numbers)")
    assert [(end["how"], end["passed"]) for end in ended] == [("done", False), ("done", True), ("broken", False)]
    assert [kind for kind, _ in told] == ["html", "html"]
    assert "✓ numbers: every promise holds." in told[0][1] and "breaks a promise" in told[1][1]
    assert ended[2]["error"] == ""      # the card has said it


def test_exercise_that_is_not_written_yet_is_not_passed():
    told, ended = begun("from autograder import check\nnumbers = {'blocks': None}\ncheck('01_contiguous_vs_paged/numbers', numbers)")
    assert (ended[0]["how"], ended[0]["passed"]) == ("done", False)
    assert "not answered yet" in told[0][1]


def test_pool_is_drawn_without_matplotlib_and_other_figures_say_what_they_need():
    manager = "from types import SimpleNamespace\nfrom autograder import draw\nm = SimpleNamespace(num_blocks=2, block_size=4, free=[1], ref={0: 1}, seqs={'<A>': {'blocks': [0], 'len': 3}})"
    told, ended = begun(manager, "draw.blocks(m, title='a <b> pool')", "draw.counts([m])", "import numpy as np", "np.zeros(3)")
    assert [end["how"] for end in ended] == ["done", "done", "lacks", "done", "lacks"]
    assert "a &lt;b&gt; pool" in told[0][1] and "&lt;A&gt;" in told[0][1] and "#0" in told[0][1]
    assert "needs matplotlib" in ended[2]["error"] and "needs numpy" in ended[4]["error"]


def test_dataclasses_input_and_display_work_as_in_a_notebook():
    told, ended = begun("from dataclasses import dataclass\n@dataclass\nclass A:\n    x: int\nA(1)", "input()", "from IPython.display import display, HTML\ndisplay(HTML('<b>b</b>'), 3)")
    assert told == [["text", "A(x=1)\n"], ["html", "<b>b</b>"], ["text", "3\n"]]
    assert "write the value into the cell instead" in ended[1]["error"]


def test_widget_of_a_cell_is_answered_by_what_it_was_given():
    cell = "from autograder.widgets.host import show\nshow('pool', {'a': '</script>'}, key='mine', text='words', on_kept=lambda kept: {'twice': 2 * kept['n']})"
    told, _ = begun(cell, "from autograder.widgets import host\nprint(host.front.answers['mine']({'n': 4}), 'other' in host.front.answers)")
    assert told[0][0] == "html" and 'data-widget="pool" data-key="mine"' in told[0][1] and told[0][1].count("</script>") == 1
    assert told[1] == ["text", "{'twice': 8} False\n"]


def test_what_a_widget_keeps_is_answered_as_json_and_prints_nowhere(heard, capsys):
    page = Page(heard)
    page.widgets["mine"] = lambda kept: print("heard") or {"twice": 2 * kept["n"]}
    assert json.loads(page.kept("mine", '{"n": 4}')) == {"twice": 8}
    assert json.loads(page.kept("other", "{}")) is None
    assert (heard, capsys.readouterr().out) == ([], "")


def test_module_imports_the_standard_library_alone():
    tree = ast.parse((ROOT / "autograder" / "page.py").read_text(encoding="utf-8"))
    names = {name.name.split(".")[0] for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names}
    names |= {node.module.split(".")[0] for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert names <= sys.stdlib_module_names | {"autograder"}
