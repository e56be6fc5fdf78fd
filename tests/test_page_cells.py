"""Code cells on the built pages, in a real browser: they run, judge, stop, keep the reader's work, and ask no other host."""

import contextlib
import functools
import http.server
import json
import re
import shutil
import threading
from pathlib import Path

import pytest

from autograder.checks import judge, record
from autograder.exercises import EXERCISES
from autograder.tell import sentence
from conftest import ROOT, needs_sources, serving

FIRST, SECOND, THIRD = "01_contiguous_vs_paged", "02_prefix_sharing", "03_copy_on_write"
AXE = ROOT / "node_modules" / "axe-core" / "axe.min.js"
# What WCAG 2.2 AA asks that a program can see.
TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
PYTHON_STARTS = 90_000      # milliseconds, on a machine with much else to do


class Lesson:
    """A lesson's page as a reader uses it."""

    def __init__(self, page, served, name):
        self.page, self.address = page, f"{served}/notebooks/{name}/{name}.html"
        self.asked, self.refused, self.written, self.edited = [], [], {}, set()
        page.on("request", lambda request: self.asked.append(request.url))
        page.on("console", lambda message: self.refused.append(message.text) if "Content Security Policy" in message.text else None)
        self.open()

    def open(self):
        self.page.goto(self.address)
        self.page.locator(".kv-bar").last.wait_for()

    def cell(self, id):
        return self.page.locator(f'[id="cell-{id}"]')

    def write(self, id, code):
        self.edited.add(id)
        self.cell(id).locator(".cm-content").click()
        self.page.keyboard.press("Control+a")
        self.page.keyboard.insert_text(code)

    def solve_up_to(self, exercise):
        """Write the reference into every exercise above this one, since it may call them."""
        from autograder.staff.variants import references

        for id, code in references(ROOT).items():
            if id == exercise:
                return
            if EXERCISES[id].lesson == EXERCISES[exercise].lesson and self.written.get(id) != code:
                self.write(EXERCISES[id].name, code)
                self.written[id] = code

    def tidy(self):
        """Every cell that was written into is as it was at first."""
        for id in sorted(self.edited):
            if self.cell(id).locator(".kv-stop").is_visible():
                self.press(id, "stop")
            self.wait(id)
            self.press(id, "reset")
        self.edited.clear()
        self.written.clear()

    def press(self, id, button="run"):
        self.cell(id).locator(f".kv-{button}").click()

    def wait(self, id):
        """Until the cell has run; returns what its status says."""
        self.page.locator(f'[id="cell-{id}"].kv-busy').wait_for(state="detached", timeout=PYTHON_STARTS)
        self.page.evaluate("new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)))")
        return self.status(id)

    def run(self, id):
        self.press(id)
        return self.wait(id)

    def status(self, id):
        return self.cell(id).locator(".kv-status").inner_text()

    def output(self, id):
        return self.cell(id).locator(".kv-output").inner_text().strip()

    def shows(self, id, words):
        """Wait until the cell's output has these words."""
        self.cell(id).locator(".kv-output", has_text=words).wait_for(timeout=PYTHON_STARTS)

    def text(self, id):
        return self.cell(id).locator(".cm-content").inner_text()

    def plain(self, number=0):
        """The id of the lesson's plain cell with this number."""
        return self.page.locator("div.cell.kv-plain[id^=cell-]").nth(number).get_attribute("id").removeprefix("cell-")

    def reader_sees(self, words):
        return self.page.get_by_text(words)


@contextlib.contextmanager
def reading(browser, served, name, **how):
    with contextlib.closing(browser.new_context(viewport={"width": 1280, "height": 900}, **how)) as context:
        yield Lesson(context.new_page(), served, name)


@pytest.fixture
def third(browser, served):
    """The third lesson as a new reader meets it."""
    with reading(browser, served, THIRD) as lesson:
        yield lesson


@pytest.fixture
def warm(solving):
    """The third lesson with its Python already started, and its cells as they were at first when the test is over."""
    lesson = solving(THIRD)
    yield lesson
    lesson.tidy()


@pytest.fixture(scope="module")
def solving(browser, served):
    """A page for each lesson that stays open, with its Python warm."""
    with contextlib.ExitStack() as stack:
        yield functools.cache(lambda name: stack.enter_context(reading(browser, served, name)))


# --- the judge on the page ---

# Every exercise that a browser's Python can run; the others need torch, of which a page says where it is.
SOLVED = [e.id for e in EXERCISES.values() if not e.needs and e.lesson in (FIRST, SECOND, THIRD) and e.name != "predictions"]


@functools.cache
def attempts():
    """For each exercise its reference and three wrong variants: (code, the earlier cells' code)."""
    from autograder.staff.variants import earlier, references, variants

    reference, found = references(ROOT), {}
    for id in SOLVED:
        wrong = [(variant.code, variant.before) for variant in variants(ROOT) if variant.exercise == id and not variant.right]
        if EXERCISES[id].kind == "answers":
            wrong = [(code, "") for code in _other_numbers(id, reference[id])]
        found[id] = [(reference[id], earlier(reference, id)), *wrong[:3]]
    return found


def _other_numbers(id, code):
    """The reference's numbers, each time with one of them far off."""
    from autograder.staff.variants import load

    name = EXERCISES[id].name
    right = load(code, name)
    return [f"{name} = {right | {key: 98765}!r}" for key in right]


def on_the_hub(id, code, before):
    """The sentence that the same code gets from the judge in this process, and whether it passes."""
    from autograder.staff.variants import load

    exercise = EXERCISES[id]
    verdict = judge(exercise, json.loads(json.dumps(record(exercise, load(code, exercise.name, before), False, ""))), False, "")
    return sentence(verdict), verdict.passed


@needs_sources
@pytest.mark.parametrize("attempt", [0, 1, 2, 3], ids=["right", "wrong 1", "wrong 2", "wrong 3"])
@pytest.mark.parametrize("exercise", SOLVED)
def test_page_gives_the_same_sentence_as_the_hub(exercise, attempt, solving):
    code, before = attempts()[exercise][attempt]
    lesson, part = solving(EXERCISES[exercise].lesson), EXERCISES[exercise].name
    words, passes = on_the_hub(exercise, code, before)
    assert passes == (attempt == 0)
    lesson.solve_up_to(exercise)
    lesson.write(part, code)
    lesson.written.pop(exercise, None)
    status = lesson.run(f"{part}-checks")
    assert ("passed" if passes else "a promise is broken") in status
    assert words.replace("`", "") in lesson.output(f"{part}-checks")
    assert lesson.refused == []


@needs_sources
def test_every_chosen_exercise_has_three_wrong_variants():
    assert {id: len(found) for id, found in attempts().items()} == dict.fromkeys(SOLVED, 4)


# --- running ---

def test_cells_above_run_first_and_then_only_what_has_changed(warm):
    """Each run of a cell adds a letter to a list that lives as long as Python does."""
    warm.press(warm.plain(0))
    warm.cell(warm.plain(0)).locator(".kv-stop").dispatch_event("click")     # a Python that has run nothing
    warm.wait(warm.plain(0))
    count = "import builtins\nif not hasattr(builtins, 'seen'): builtins.seen = []\nbuiltins.seen.append({!r})"
    first, second, last = warm.plain(0), warm.plain(1), warm.plain(2)
    warm.write(first, count.format("a") + "\nx = 1")
    warm.write(second, count.format("b") + "\ny = x + 1")
    warm.write(last, "import builtins\nprint(y, *builtins.seen)")
    warm.run(last)
    assert warm.output(last) == "2 a b"
    warm.run(last)
    assert warm.output(last) == "2 a b"
    warm.write(second, count.format("c") + "\ny = x + 10")
    warm.run(last)
    assert warm.output(last) == "11 a b c"
    warm.write(first, count.format("d") + "\nx = 2")     # what stands below it may stand on it
    warm.run(last)
    assert warm.output(last) == "12 a b c d c"


def test_stub_above_stands_in_nobodys_way_and_an_error_above_is_named(warm):
    last = warm.plain(4)
    warm.write(last, "print('here')")
    assert warm.run(last).startswith("done")
    assert warm.output(last) == "here"
    warm.write(warm.plain(0), "1 / 0")
    warm.write(last, "print(undefined)")
    assert warm.run(last).startswith("an error")
    assert "NameError: name 'undefined' is not defined" in warm.output(last)
    assert "Above, these cells end in an error: the cell 1" in warm.output(last)
    assert "ZeroDivisionError" in warm.output(warm.plain(0))


def test_traceback_names_the_cell_and_the_line_and_nothing_of_the_machinery(warm):
    warm.write(warm.plain(0), "def f():\n    return undefined\n\nf()")
    warm.run(warm.plain(0))
    shown = warm.output(warm.plain(0)).splitlines()
    assert shown[0].endswith("line 4, in <module>") and shown[-1] == "NameError: name 'undefined' is not defined"
    assert len(shown) <= 7
    assert not re.search(r"autograder|pyodide|page\.py", "\n".join(shown))


def test_endless_loop_is_stopped_and_python_starts_anew(warm):
    one, other = warm.plain(0), warm.plain(1)
    warm.write(one, "print('turning')\nwhile True:\n    pass")
    warm.press(one)
    warm.shows(one, "turning")
    warm.press(one, "stop")
    assert warm.wait(one) == "stopped"
    warm.write(one, "x = 'alive'")
    warm.write(other, "print(x)")
    assert warm.run(other).startswith("done")
    assert warm.output(other) == "alive"


WAYS_OUT = """
import js
from pyodide.ffi import to_js
def tried(name, way):
    try:
        way()
    except BaseException as error:
        print(name, "refused:", type(error).__name__)
    else:
        print(name, "went through")
def ask():
    request = js.XMLHttpRequest.new()
    request.open("GET", "{address}/request", False)
    request.send()
tried("request", ask)
import urllib.request
tried("urllib", lambda: urllib.request.urlopen("{address}/urllib", timeout=2))
tried("eval", lambda: js.eval("1"))
js.fetch("{address}/fetch")
js.WebSocket.new("{address}/socket".replace("http", "ws"))
print("asked")
"""


def test_readers_python_reaches_no_other_host(warm):
    """Another port is another host to a browser. The server would answer, and allows every page to read its answers."""
    heard = []

    class Other(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            heard.append(self.path)
            self.send_response(200)
            self.send_header("Access-Control-Allow-Origin", "*")
            self.end_headers()

        def log_message(self, *words):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Other) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}"
        assert warm.page.request.get(address).status == 200 and heard.pop() == "/"    # it is there
        cell = warm.plain(0)
        warm.write(cell, WAYS_OUT.replace("{address}", address))
        assert warm.run(cell).startswith("done")
        shown = warm.output(cell)
        warm.page.wait_for_timeout(500)
        server.shutdown()
    assert "request refused" in shown and "urllib refused" in shown and "eval refused" in shown and "asked" in shown, shown
    assert heard == []


def test_flood_of_output_is_cut_with_a_sentence_and_the_page_goes_on(warm):
    cell = warm.plain(0)
    warm.write(cell, "for n in range(200_000):\n    print(n)")
    assert warm.run(cell).startswith("done")
    shown = warm.output(cell)
    assert shown.startswith("0\n1\n2\n")
    assert "The rest of this cell's output is left out: a cell shows at most 1,000 lines or 20,000 characters." in shown
    assert len(shown) < 21_000
    warm.write(cell, "print('x' * 1_000_000)")
    warm.run(cell)
    assert 20_000 <= len(warm.output(cell)) < 20_200


def test_second_run_during_a_run_waits_and_no_answer_goes_to_the_wrong_cell(warm):
    one, other = warm.plain(0), warm.plain(1)
    warm.write(one, "import time\nfor n in range(4):\n    print('one', n)\n    time.sleep(0.3)")
    warm.write(other, "print('other')\n'the other value'")
    warm.press(one)
    warm.press(other)
    warm.cell(one).locator(".kv-run").dispatch_event("click")     # the same cell again: a press that is ignored
    warm.shows(one, "one 0")
    assert warm.status(other) == "waiting for its turn"
    warm.wait(one)
    warm.wait(other)
    assert warm.output(one) == "one 0\none 1\none 2\none 3"
    assert warm.output(other) == "other\n'the other value'"


def test_stop_ends_what_waits_too(warm):
    one, other = warm.plain(0), warm.plain(1)
    warm.write(one, "print('on')\nwhile True: pass")
    warm.write(other, "print('never')")
    warm.press(one)
    warm.press(other)
    warm.shows(one, "on")
    warm.press(other, "stop")
    assert [warm.wait(one), warm.wait(other)] == ["stopped", "stopped"]
    assert "never" not in warm.output(other)


def test_html_of_a_learners_object_is_shown_without_what_runs_or_loads(warm):
    cell = warm.plain(0)
    warm.write(cell, "class Bad:\n    def _repr_html_(self):\n        return '<b>bold</b><script>document.title = 1</script><img src=x onerror=\"document.title=2\"><iframe src=\"/\"></iframe>"
                      "<a href=\"javascript:alert(1)\" onclick=\"alert(2)\">link</a><p style=\"position:fixed;color:red\">red</p>'\nBad()")
    warm.run(cell)
    shown = warm.cell(cell).locator(".kv-shown")
    assert shown.inner_html() == "<b>bold</b><a>link</a><p>red</p>"
    assert "Lesson 3" in warm.page.title()


def test_cell_that_needs_what_is_not_there_says_so_and_leaves_the_answer_keys_figure(solving):
    lesson = solving(FIRST)
    figure = lesson.page.locator("div.cell.kv-plain:has(.cell_output img)").first
    id = figure.get_attribute("id").removeprefix("cell-")
    lesson.write(id, "import numpy as np\nimport matplotlib.pyplot as plt\nnp.sqrt(2)")
    assert lesson.run(id) == "needs the notebook"
    assert "This cell needs numpy, which Python in a browser does not have here: run it in the lesson's notebook." in lesson.output(id)
    assert figure.locator(".cell_output img").is_visible()
    lesson.write(id, "import numpy as np\nimport matplotlib.pyplot as plt\nprint('imported')")
    assert lesson.run(id).startswith("done")
    assert not figure.locator(".cell_output img").is_visible()
    lesson.tidy()
    assert figure.locator(".cell_output img").is_visible()


def test_drawing_the_pool_needs_no_matplotlib_and_other_figures_say_that_they_do(warm):
    cell = warm.plain(1)
    warm.write(cell, "from types import SimpleNamespace\nfrom autograder import draw\n"
                      "draw.blocks(SimpleNamespace(num_blocks=2, block_size=4, free=[1], ref={0: 1}, seqs={'A': {'blocks': [0], 'len': 3}}), title='two blocks')")
    assert warm.run(cell).startswith("done")
    assert "two blocks" in warm.output(cell) and "#0" in warm.output(cell)
    warm.write(cell, "from autograder import draw\ndraw.counts([{0: 1}])")
    assert warm.run(cell) == "needs the notebook"
    assert "This cell needs matplotlib" in warm.output(cell)


def test_what_happens_is_said_to_screen_readers(warm):
    cell = warm.plain(0)
    warm.write(cell, "print('spoken')")
    warm.run(cell)
    warm.page.locator("#kv-say", has_text="spoken").wait_for(state="attached")
    assert warm.page.locator("#kv-say").get_attribute("aria-live") == "polite"


@needs_sources
def test_readers_own_class_drives_the_picture_and_a_broken_promise_stops_it(warm):
    warm.write("BlockManager", attempts()[f"{THIRD}/BlockManager"][0][0].replace("self.ref[block] += 1", "pass", 1))
    order = warm.page.evaluate("[...document.querySelectorAll('div.cell[id^=cell-]')].map((cell) => cell.id.slice(5))")
    below = order[order.index("BlockManager-checks") + 1]
    warm.write(below, "from autograder import simulate\nsimulate.pool(BlockManager)")
    assert warm.run(below).startswith("done")
    shown = warm.cell(below).locator(".kv-output")
    shown.get_by_role("button", name="allocate A").click()
    shown.get_by_text('allocate("A", 20) returned None').first.wait_for()
    shown.get_by_role("button", name="fork A into B").click()
    shown.get_by_text("breaks a promise: A fork raises the count of each of the parent's blocks by 1").first.wait_for()


# --- the reader's work ---

def test_reload_keeps_the_work_and_reset_gives_the_first_text_back(third):
    before = third.text("numbers")
    third.write("numbers", "mine = 1")
    third.open()
    assert third.text("numbers") == "mine = 1"
    third.press("numbers", "reset")
    assert third.text("numbers") == before
    third.open()
    assert third.text("numbers") == before


def kept(lesson):
    return lesson.page.evaluate("Object.fromEntries(Object.entries(localStorage).filter(([name]) => name.startsWith('kv:')))")


def age(lesson):
    """As if the work had been begun on an older version of the page."""
    lesson.page.evaluate("for (const name of Object.keys(localStorage)) if (name.endsWith(':version')) localStorage.setItem(name, '\"older\"')")
    lesson.open()


def test_page_that_has_changed_offers_to_keep_mine_or_take_the_new(third):
    new = third.text("numbers")
    third.write("numbers", "mine = 1")
    third.open()
    assert third.page.locator(".kv-offer").count() == 0
    age(third)
    assert third.text("numbers") == "mine = 1"
    third.page.evaluate(AXE.read_text(encoding="utf-8"))
    assert faults(third.page) == []     # the offer included
    third.page.get_by_role("button", name="Keep mine").click()
    third.open()
    assert (third.text("numbers"), third.page.locator(".kv-offer").count()) == ("mine = 1", 0)
    age(third)
    third.page.get_by_role("button", name="Take the new").click()
    third.page.locator(".kv-offer").wait_for(state="detached")
    third.page.locator(".kv-bar").last.wait_for()
    assert third.text("numbers") == new
    third.open()
    assert (third.text("numbers"), third.page.locator(".kv-offer").count()) == (new, 0)


def test_version_of_a_page_changes_with_its_cells_and_not_with_its_prose():
    from test_book import extension

    version = extension().version_of
    cell = {"cell_type": "code", "id": "a", "source": "x = 1", "outputs": []}
    prose = {"cell_type": "markdown", "id": "b", "source": "words"}
    assert version([cell, prose]) == version([cell, prose | {"source": "other words"}])
    assert version([cell]) != version([cell | {"source": "x = 2"}])
    assert version([cell]) != version([cell | {"id": "c"}])
    prompt = {"output_type": "display_data", "data": {"text/html": '<div data-widget="question"></div>'}}
    assert version([cell]) != version([cell | {"outputs": [prompt]}])


def test_work_is_saved_to_a_file_removed_and_read_again(third, tmp_path):
    third.write("numbers", "mine = 1")
    third.write("eviction_order", "mine = 2")
    third.open()
    third.page.get_by_role("button", name="My work").click()
    with third.page.expect_download() as download:
        third.page.get_by_role("button", name="Save to a file").click()
    saved = tmp_path / "my-work.json"
    download.value.save_as(saved)
    pages = json.loads(saved.read_text(encoding="utf-8"))["pages"]
    assert pages[f"notebooks/{THIRD}/{THIRD}.html"]["cell:numbers"] == {"code": "mine = 1"}

    third.page.get_by_role("button", name="Remove everything").click()
    with third.page.expect_navigation():
        third.page.get_by_role("button", name="Remove it").click()
    third.page.locator(".kv-bar").last.wait_for()
    assert (kept(third), "mine" in third.text("numbers")) == ({}, False)

    third.page.goto(third.address.replace(f"notebooks/{THIRD}/{THIRD}", "book/glossary"))     # from any page
    third.page.get_by_role("button", name="My work").click()
    with third.page.expect_navigation():
        third.page.locator("#kv-import").set_input_files(saved)
    third.open()
    assert (third.text("numbers"), third.text("eviction_order")) == ("mine = 1", "mine = 2")


@pytest.mark.parametrize("content", ["no json", "{}", '{"format": "paged-kv-caches", "version": 1, "pages": [1]}', '{"format": "paged-kv-caches", "version": 1, "pages": {"a": 1}}'])
def test_file_that_is_no_saved_work_changes_nothing_and_is_told(third, tmp_path, content):
    third.write("numbers", "mine = 1")
    third.open()
    before = kept(third)
    (tmp_path / "other.json").write_text(content)
    third.page.get_by_role("button", name="My work").click()
    third.page.locator("#kv-import").set_input_files(tmp_path / "other.json")
    third.page.locator(".kv-told", has_text="choose the file that").wait_for()
    assert kept(third) == before


@needs_sources
def test_passed_exercise_is_marked_in_the_table_of_contents_of_every_page(third):
    assert third.page.locator(".kv-mark").count() == 0
    third.write("numbers", attempts_numbers())
    assert third.run("numbers-checks").startswith("passed")
    marked = third.page.locator(".bd-links .current .kv-mark").first
    all_of_them = third.page.locator("div.cell.kv-check").count()
    assert f"1/{all_of_them}" in marked.inner_text()
    third.page.goto(third.address.replace(f"notebooks/{THIRD}/{THIRD}", "book/glossary"))
    link = third.page.locator(".bd-links a", has_text="Copy-on-write")
    link.locator(".kv-mark").wait_for()
    assert f"1 of {all_of_them} exercises passed" in link.text_content()


def attempts_numbers():
    from autograder.staff.variants import references

    return references(ROOT)[f"{THIRD}/numbers"]


def test_page_that_may_store_nothing_still_works_and_says_so(browser, served):
    with reading(browser, served, THIRD) as lesson:
        lesson.page.add_init_script("Storage.prototype.setItem = () => { throw new DOMException('full', 'QuotaExceededError'); }")
        lesson.open()
        lesson.write("numbers", "mine = 1")
        assert lesson.text("numbers") == "mine = 1"
        lesson.page.get_by_role("button", name="My work").click()
        assert lesson.reader_sees("This browser keeps nothing for this page: save your work to a file before you leave.").is_visible()


# --- hosts, places and policies ---

def test_lesson_asks_its_own_host_alone_and_runs_with_the_network_cut(third, served):
    third.write("numbers", "print('first')")
    third.run("numbers")
    third.page.context.set_offline(True)
    third.write("numbers", "print('offline')")
    assert third.run("numbers").startswith("done")
    assert third.output("numbers") == "offline"
    assert [url for url in third.asked if not url.startswith((served, "data:", "blob:"))] == []
    assert any("pyodide.asm.wasm" in url for url in third.asked)
    assert third.refused == []


def test_nothing_of_python_is_loaded_until_somebody_writes_or_runs(third):
    third.page.wait_for_load_state("networkidle")
    third.cell("numbers").locator(".cm-content").click()
    assert [url for url in third.asked if "pyodide" in url or "worker" in url] == []
    with third.page.expect_request("**/pyodide.asm.wasm"):
        third.page.keyboard.type("x")


def test_first_view_of_a_lesson_is_small(built, third):
    """Under 600 kB as a server that compresses sends it, see benchmarks/page.py; Python is not part of it."""
    import gzip

    third.page.wait_for_load_state("networkidle")
    paths = {built / url.split("?")[0].split("/", 3)[3] for url in third.asked if url.startswith("http")}
    sizes = {path.name: len(path.read_bytes() if path.suffix in (".png", ".woff2") else gzip.compress(path.read_bytes(), 6)) for path in paths}
    assert len(sizes) > 20 and sum(sizes.values()) < 600_000, sorted(sizes.items(), key=lambda item: -item[1])[:5]


def test_pages_work_under_a_sub_path(built, browser, tmp_path):
    (tmp_path / "some").mkdir()
    (tmp_path / "some" / "book").symlink_to(built)
    with serving(tmp_path) as address, reading(browser, f"{address}/some/book", THIRD) as lesson:
        lesson.write("numbers", "print('below')")
        assert lesson.run("numbers").startswith("done")
        assert lesson.output("numbers") == "below"
        assert [url for url in lesson.asked if "/some/book/" not in url and not url.startswith(("data:", "blob:"))] == []
        assert kept(lesson) and all(name.startswith("kv:/some/book/") for name in kept(lesson))


def test_page_from_a_file_says_that_python_needs_a_server_and_everything_else_works(built, browser):
    with contextlib.closing(browser.new_context(viewport={"width": 1280, "height": 900})) as context:
        page = context.new_page()
        said = []
        page.on("console", lambda message: said.append(message.text) if message.type == "error" else None)
        page.goto((built / "notebooks" / THIRD / f"{THIRD}.html").as_uri())
        assert page.get_by_text("You opened this page as a file. Its Python cells need a server").is_visible()
        assert page.locator("div.cell_input pre").first.is_visible()
        assert (page.locator(".kv-editor").count(), page.locator(".kv-bar").count()) == (0, 0)
        # The theme's and our own style sheets are let in.
        assert page.evaluate("getComputedStyle(document.documentElement).getPropertyValue('--kv-code-ink')")
        page.locator(".kv-question").first.wait_for()
        assert page.locator(".kv-widget[data-widget=question] > .kv-still").count() == 0     # every prompt is one to answer
        page.get_by_role("button", name="My work").click()
        assert page.get_by_role("dialog").is_visible()
        # Browsers refuse modules from a file, which is why classic.js is there; anything else would be news.
        assert [words for words in said if "Content Security Policy" in words] == []


def test_every_page_has_a_strict_policy(built):
    for path in sorted(built.rglob("*.html")):
        if "_static" in path.parts:
            continue
        (policy,) = re.findall(r'<meta http-equiv="Content-Security-Policy" content="([^"]*)"', path.read_text(encoding="utf-8"))
        rules = {words.split()[0]: words.split()[1:] for words in policy.split("; ")}
        assert rules["default-src"] == ["'none'"], path.name
        assert rules["connect-src"] == ["'self'"] and rules["worker-src"] == ["blob:"], path.name
        allowed = {word for words in rules.values() for word in words if not word.startswith("'sha256-")}
        assert allowed <= {"'none'", "'self'", "data:", "blob:", "'unsafe-inline'", "'wasm-unsafe-eval'"}, path.name
        assert [name for name, words in rules.items() if "'unsafe-inline'" in words] == ["style-src-attr"]


def test_policy_of_a_page_refuses_what_it_does_not_name(third):
    refused = third.page.evaluate("""async () => {
        const heard = [];
        addEventListener("securitypolicyviolation", (event) => heard.push(event.effectiveDirective));
        try { eval("1"); } catch { /* as it should */ }
        const script = document.createElement("script");
        script.textContent = "window.intruder = 1";
        document.head.append(script);
        const picture = new Image();
        picture.src = "http://other.invalid/picture.png";
        await fetch("http://other.invalid/data").catch(() => {});
        await new Promise((done) => setTimeout(done, 200));
        return [heard, window.intruder === undefined];
    }""")
    assert refused[1]
    assert {"script-src-elem", "img-src", "connect-src"} <= set(refused[0])


def test_browsers_python_gets_the_students_part_alone(built):
    import zipfile

    names = zipfile.ZipFile(built / "_static" / "pyodide" / "course.zip").namelist()
    assert {"autograder/page.py", "autograder/checks.py", "autograder/judge.py"} <= set(names)
    assert [name for name in names if "staff" in name or not name.startswith("autograder/") or Path(name).suffix not in (".py", ".json")] == []


# --- people ---

def test_keyboard_alone_writes_runs_and_leaves_a_cell(warm):
    """From the cell's place in the page by Tab; Tab itself indents in an editor, Escape then Tab leaves it."""
    keys = warm.page.keyboard
    warm.page.locator(".headerlink").first.focus()
    for _ in range(60):
        keys.press("Tab")
        if warm.page.evaluate("document.activeElement.classList.contains('kv-editor')"):
            break
    first = warm.page.evaluate("document.activeElement.closest('.cell').id").removeprefix("cell-")
    keys.press("Control+a")
    keys.type("if True:\n")
    keys.type("print('by keys')")
    keys.press("Control+Enter")
    assert warm.wait(first).startswith("done")
    assert warm.output(first) == "by keys"
    keys.press("Escape")
    keys.press("Tab")
    focused = "document.activeElement.getAttribute('aria-label')"
    assert warm.page.evaluate(focused).startswith("Run ")
    ring = warm.page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert ring == "solid"
    keys.press("Tab")
    assert warm.page.evaluate(focused).startswith("Reset ")
    keys.press("Enter")
    assert warm.status(first) == "as it was at first"


def test_nothing_moves_when_listings_become_editors(browser, served):
    """Every cell is as high with its buttons as the place that was kept for them."""
    with contextlib.closing(browser.new_context(viewport={"width": 1280, "height": 900})) as context:
        page = context.new_page()
        context.route("**/page.mjs*", lambda route: route.abort())
        page.goto(f"{served}/notebooks/{THIRD}/{THIRD}.html")
        heights = "[...document.querySelectorAll('div.cell[id^=cell-] .cell_input')].map((cell) => Math.round(cell.offsetHeight))"
        before = page.evaluate(heights)
        context.unroute("**/page.mjs*")
        page.goto(f"{served}/notebooks/{THIRD}/{THIRD}.html")
        page.locator(".kv-bar").last.wait_for()
        assert len(before) > 20 and page.evaluate(heights) == before


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_phone_shows_cells_and_cards_within_its_width_in_both_themes(theme, warm):
    warm.page.set_viewport_size({"width": 360, "height": 740})
    warm.page.emulate_media(color_scheme=theme)
    warm.write("numbers", 'numbers = {"without": 1, "with_sharing": 2, "copies": 3}')
    assert "broken" in warm.run("numbers-checks")
    assert warm.page.evaluate("document.documentElement.scrollWidth") == 360
    assert warm.page.evaluate("document.documentElement.dataset.theme") == theme
    buttons = warm.cell("numbers").locator(".kv-bar button:visible").all()
    heights = [button.bounding_box()["height"] for button in buttons]
    warm.page.set_viewport_size({"width": 1280, "height": 900})
    warm.page.emulate_media(color_scheme="light")
    assert len(heights) == 2 and min(heights) >= 24     # WCAG 2.2, target size


def faults(page):
    """What axe finds, one line each."""
    found = page.evaluate("(tags) => axe.run(document, { runOnly: { type: 'tag', values: tags }, resultTypes: ['violations'] })", TAGS)
    return [f"{fault['id']}: {node['target']} {node['failureSummary'][:200]}" for fault in found["violations"] for node in fault["nodes"]]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing_on_any_page(theme, built, browser, served):
    axe = AXE.read_text(encoding="utf-8")
    names = [path.relative_to(built).as_posix() for path in sorted(built.rglob("*.html")) if "_static" not in path.parts and path.name != "index.html"]
    found, refused = {}, []
    with contextlib.closing(browser.new_context(viewport={"width": 1280, "height": 900}, color_scheme=theme, reduced_motion="reduce")) as context:
        page = context.new_page()
        page.on("console", lambda message: refused.append(message.text) if "Content Security Policy" in message.text else None)
        for name in names:
            page.goto(f"{served}/{name}", wait_until="load")
            if page.locator("div.cell[id^=cell-]").count():
                page.locator(".kv-bar").last.wait_for()
            assert refused == [], name      # by the page's own policy; axe itself tries a style that it refuses
            page.evaluate(axe)
            if bad := faults(page):
                found[name] = bad
            page.goto("about:blank")     # what axe was refused may be told late
            refused.clear()
    assert len(names) > 8 and found == {}


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing_in_a_used_lesson(theme, warm):
    warm.page.emulate_media(color_scheme=theme, reduced_motion="reduce")
    warm.write("numbers", 'numbers = {"without": 1, "with_sharing": 2, "copies": 3}')
    assert "broken" in warm.run("numbers-checks")
    warm.write("eviction_order", "print(1)\n1 / 0")
    assert "error" in warm.run("eviction_order")
    warm.page.evaluate(AXE.read_text(encoding="utf-8"))
    assert faults(warm.page) == []
    warm.page.get_by_role("button", name="My work").click()
    assert faults(warm.page) == []
    warm.page.get_by_role("button", name="Close").click()
    warm.page.emulate_media(color_scheme="light", reduced_motion="no-preference")


def test_build_without_the_page_modules_ends_with_one_sentence(tmp_path, monkeypatch):
    from types import SimpleNamespace

    from test_book import extension

    scripts = []
    app = SimpleNamespace(srcdir=tmp_path, add_js_file=lambda *names, **_: scripts.append(names), add_css_file=lambda name: None)
    with pytest.raises(SystemExit) as end:
        extension().add_scripts(app)
    assert end.value.code == "\nThe pages need npm's pyodide, which is not in node_modules: `make setup` installs it."


def test_same_package_gives_the_same_zip(tmp_path):
    from test_book import extension

    files = extension().page_files
    shutil.copytree(ROOT / "autograder", tmp_path / "autograder", ignore=shutil.ignore_patterns("__pycache__"))
    files.zip_course(ROOT / "autograder", tmp_path / "one.zip")
    files.zip_course(tmp_path / "autograder", tmp_path / "two.zip")
    assert (tmp_path / "one.zip").read_bytes() == (tmp_path / "two.zip").read_bytes()


def test_cell_whose_code_is_hidden_is_not_run_and_must_define_nothing(monkeypatch):
    from test_book import extension

    module, warned = extension(), []
    monkeypatch.setattr(module.logger, "warning", warned.append)
    cells = [{"cell_type": "code", "id": id, "source": source, "outputs": [], "metadata": {"tags": tags}}
             for id, source, tags in [("a", "simulate.pool()", ["remove-input"]), ("b", "x = 1", []), ("c", "x = 1", ["remove-input"])]]
    module.name_cells(cells)
    assert [cell["metadata"]["page"]["kind"] for cell in cells] == ["widget", "plain", "widget"]
    assert len(warned) == 1 and "cell c is tagged remove-input" in warned[0]
