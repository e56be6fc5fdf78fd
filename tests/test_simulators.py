"""The simulators in a real browser, on small pages under a strict Content-Security-Policy: numbers, steps, keyboard, people."""

import contextlib
import json
import re
import shutil
from pathlib import Path

import pytest

from autograder import simulate
from autograder.record import State
from autograder.widgets.colours import COLOURS
from autograder.widgets.host import FOLDER, Still, script
from conftest import serving

ROOT = Path(__file__).resolve().parents[1]
NAMES = ["contiguous", "prefix", "pool", "beams", "history"]
POLICY = "default-src 'none'; script-src 'self'; style-src 'self'"



class Forgetful:
    """A manager that keeps the promises of `allocate` and of nothing else: a child's list is its parent's own."""

    def __init__(self, num_blocks, block_size):
        self.num_blocks, self.block_size = num_blocks, block_size
        self.free, self.ref, self.seqs = list(range(num_blocks)), {}, {}

    def allocate(self, name, n_tokens):
        need = -(-n_tokens // self.block_size)
        if need > len(self.free):
            raise MemoryError
        taken, self.free = self.free[:need], self.free[need:]
        self.ref.update(dict.fromkeys(taken, 1))
        self.seqs[name] = {"blocks": taken, "len": n_tokens}

    def fork(self, parent, child):
        self.seqs[child] = self.seqs[parent]

    def append(self, name):
        raise NotImplementedError

    def release(self, name):
        del self.seqs[name]

    def used(self):
        return self.num_blocks - len(self.free)


@pytest.fixture(scope="module")
def simulators():
    """What stands on the test pages: name → what the functions of `simulate` return."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("autograder.widgets.host._anywidget", lambda: None)
        return {
            "contiguous": simulate.contiguous(), "prefix": simulate.prefix(), "pool": simulate.pool(), "beams": simulate.beams(),
            "history": simulate.history(Forgetful, [("allocate", "A", 5), ("fork", "A", "B")]),
            "walk": simulate.pool(scenario="walk"), "locked": simulate.pool(scenario="walk", lock=(2, "three", "Answer the question first."), key="locked"),
            "bug": simulate.history("double-free", key="bug"), "large": simulate.pool(num_blocks=1000, key="large"), "yours": simulate.pool(Forgetful, 10, 16, key="yours"),
            "odd": simulate.history([("<img src=x onerror=alert(1)>", State((1,), {0: 1}, {"<b>bold</b>": ((0,), 3)}))], num_blocks=2, key="odd"),
        }  # fmt: skip


@pytest.fixture(scope="module")
def site(tmp_path_factory, simulators):
    folder = tmp_path_factory.mktemp("site")
    (folder / "widgets").mkdir()
    for path in FOLDER.iterdir():
        if path.suffix in (".mjs", ".css"):
            shutil.copy(path, folder / "widgets")
    (folder / "widgets" / "colours.css").write_text(COLOURS, encoding="utf-8")
    for name, shown in simulators.items():
        (folder / f"{name}.html").write_text(page_around(shown.page), encoding="utf-8")
    (folder / "all.html").write_text(page_around("".join(simulators[name].page for name in NAMES)), encoding="utf-8")
    (folder / "empty.html").write_text("<!doctype html><html lang=en><title>empty</title><body></body></html>", encoding="utf-8")
    return folder


def page_around(body):
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1"><title>Simulators</title>'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}"><script type="module" src="widgets/mount.mjs"></script></head><body><main>{body}</main></body></html>'
    )


@pytest.fixture(scope="module")
def served(site):
    with serving(site) as address:
        yield address


@pytest.fixture
def visit(browser, served):
    """Open a page by name; whatever the browser complains of fails the test."""
    with contextlib.ExitStack() as stack:
        complaints = []

        def visit(name, width=1280, **options):
            context = stack.enter_context(contextlib.closing(browser.new_context(viewport={"width": width, "height": 900}, **options)))
            page = context.new_page()
            page.set_default_timeout(8000)
            page.on("console", lambda said: complaints.append(said.text) if said.type in ("error", "warning") else None)
            page.on("pageerror", lambda error: complaints.append(str(error)))
            page.goto(f"{served}/{name}.html")
            if options.get("java_script_enabled", True):
                page.wait_for_selector(".kv-lab")
            return page

        yield visit
        assert [said for said in complaints if "favicon" not in said] == []


def press(page, name, times=1):
    for _ in range(times):
        page.get_by_role("button", name=name, exact=True).click()


def forward(page, times=1):
    press(page, "Forward one step", times)


def until(page, expression, seconds=8):
    """Wait until the expression is true; Playwright's own way needs `eval`, which the policy forbids."""
    for _ in range(seconds * 20):
        if page.evaluate(expression):
            return
        page.wait_for_timeout(50)
    raise AssertionError(f"never came true: {expression}")


def log(page):
    return page.locator(".kv-log").inner_text()


def tables(page):
    """The block tables as a screen reader has them."""
    return [re.sub(r"\s+", " ", row.text_content()) for row in page.locator(".kv-tables .kv-who").all()]


def blocks(page):
    """Each block's class of kind, in order."""
    return page.evaluate("[...document.querySelectorAll('.kv-grid > .kv-block')].map((b) => b.className.match(/kv-(free|owned|shared|lost|torn)/)[1])")


# --- numbers ---


def test_the_prefix_calculator_begins_with_12_8_and_4(visit):
    page = visit("prefix")
    assert re.findall(r"= (\d+) blocks", log(page)) == ["12", "8", "4"]
    assert page.locator(".kv-side-by-side .kv-block").count() == 12 + 8
    assert page.locator(".kv-side-by-side .kv-shared").count() == 2


def test_the_prefix_calculator_follows_sliders_fields_and_block_size(visit):
    page = visit("prefix")
    page.get_by_label("prefix tokens", exact=True).fill("40")
    assert re.findall(r"= (\d+) blocks", log(page)) == ["12", "8", "4"] and "the other 8 prefix tokens stay with each request" in log(page)
    page.get_by_label("requests (slider)").focus()
    page.keyboard.press("Home")
    assert re.findall(r"= (\d+) blocks", log(page)) == ["4", "4", "0"]
    assert page.get_by_label("requests", exact=True).input_value() == "1"
    page.get_by_label("block size").select_option("8 slots")
    assert "⌈60 ÷ 8⌉" in log(page)
    page.get_by_label("requests", exact=True).fill("999")
    page.keyboard.press("Tab")
    assert page.get_by_label("requests", exact=True).input_value() == "12"
    press(page, "as at first")
    assert re.findall(r"= (\d+) blocks", log(page)) == ["12", "8", "4"]


def counts(page):
    return {row.locator("th").inner_text(): [int(n) for n in row.locator("td").all_inner_texts()] for row in page.locator(".kv-counts tbody tr").all()}


def test_the_stream_of_lesson_01_wastes_what_the_lesson_says(visit):
    page = visit("contiguous")
    forward(page, 4)
    assert counts(page) == {"hold a token": [53, 93], "reserved": [43, 0], "internal": [32, 35], "external": [32, 0], "free": [0, 32]}
    forward(page)
    assert counts(page)["hold a token"] == [73, 123] and counts(page)["internal"][1] == 37
    assert "D comes in and gets blocks 0, 1, 8, 9." in page.locator("body").inner_text()
    press(page, "Back one step")
    assert counts(page)["hold a token"] == [53, 93]
    press(page, "Start: go to the first step")
    assert counts(page)["free"] == [160, 160]


def test_nothing_plays_by_itself_and_play_can_be_paused(visit):
    page = visit("contiguous")
    page.clock.install()
    page.reload()
    page.wait_for_selector(".kv-lab")
    page.clock.run_for(20_000)
    assert "step 0 of" in page.locator(".kv-place").inner_text()
    press(page, "Play")
    page.clock.run_for(4_500)
    assert "step 3 of" in page.locator(".kv-place").inner_text()
    press(page, "Pause")
    page.clock.run_for(20_000)
    assert "step 3 of" in page.locator(".kv-place").inner_text()


def test_the_walk_of_lesson_03_steps_forward_and_back(visit):
    page = visit("walk")
    assert blocks(page) == ["free"] * 10 and 'next: allocate("A", 20)' in page.locator(".kv-place").inner_text()
    forward(page, 2)
    assert blocks(page)[:3] == ["shared", "shared", "free"]
    forward(page)
    assert tables(page) == ["A20 tokens; block table [0, 1]", "B21 tokens; block table [0, 2]"]
    assert blocks(page)[:4] == ["shared", "owned", "owned", "free"]
    assert "returned True. #1 was shared (×2): B took #2, 4 tokens were copied into it, and #1 is down to ×1." in log(page)
    assert page.locator(".kv-arrow").count() == 1 and page.locator(".kv-was").inner_text() == "was ×2"
    assert "3 of 10 blocks in use, 1 of them shared" in page.locator(".kv-grid").get_attribute("aria-label")
    press(page, "Back one step")
    assert blocks(page)[:3] == ["shared", "shared", "free"] and page.locator(".kv-arrow").count() == 0
    forward(page, 3)
    assert tables(page) == ["B21 tokens; block table [0, 2]"]
    assert page.get_by_role("button", name="Forward one step").get_attribute("aria-disabled") == "true"


def test_a_press_after_going_back_begins_another_future(visit):
    page = visit("walk")
    forward(page, 3)
    press(page, "Back one step")
    press(page, "append a token to A")
    assert tables(page) == ["A21 tokens; block table [0, 2]", "B20 tokens; block table [0, 1]"]
    assert "step 3 of 3" in page.locator(".kv-place").inner_text()


def test_a_pool_is_worked_by_hand_until_it_is_full(visit):
    page = visit("pool")
    page.locator("summary").click()
    page.get_by_label("blocks", exact=True).fill("2")
    page.get_by_label("slots in each").fill("4")
    press(page, "new pool")
    page.get_by_label("tokens", exact=True).fill("5")
    press(page, "allocate A")
    press(page, "fork A into B")
    press(page, "append a token to B")
    assert "raised MemoryError. It needs a block and none is free. Nothing has changed." in log(page)
    assert tables(page) == ["A5 tokens; block table [0, 1]", "B5 tokens; block table [0, 1]"]
    press(page, "release A")
    press(page, "append a token to B")
    assert "The token went into #1" in log(page)


def test_every_scenario_runs_to_its_end(visit):
    page = visit("pool")
    ids = page.get_by_label("Scenario").locator("option").evaluate_all("options => options.map((option) => option.value).filter(Boolean)")
    assert len(ids) == 7
    for name in ids:
        page.get_by_label("Scenario").select_option(name)
        steps = int(page.locator(".kv-place").inner_text().split(" of ")[1].split(",")[0])
        forward(page, steps)
        assert f"step {steps} of {steps}" in page.locator(".kv-place").inner_text()


def test_the_beam_search_of_lesson_03_copies_six_blocks_instead_of_fifteen(visit):
    page = visit("beams")
    forward(page, 6)
    assert "Copied so far: 6 blocks; copying the whole table at each fork: 15." in log(page)
    assert [row[0] for row in tables(page)] == ["D", "F", "G"]
    press(page, "another tree")
    assert "step 0 of 8" in page.locator(".kv-place").inner_text()
    forward(page, 8)
    assert len(tables(page)) == 3


def test_a_history_shows_expected_beside_actual_and_only_what_differs_is_strong(visit):
    page = visit("history")
    forward(page)
    assert "✓ The same on both sides." in page.locator(".kv-apart").inner_text()
    forward(page)
    assert "They part: blocks #0, #1." in page.locator(".kv-apart").inner_text()
    assert "Forgetful breaks a promise" in log(page) and "Expected:" in log(page)
    strong = page.locator(".kv-block:not(.kv-pale) .kv-number").all_inner_texts()
    assert strong == ["#0", "#1", "#0", "#1"]


def test_the_double_free_ends_with_a_block_twice_in_the_free_list(visit):
    page = visit("bug")
    forward(page, 5)
    assert "#1 twice in the free list" in page.locator(".kv-apart").inner_text()


# --- the reader's own class ---

ANSWERS = """() => document.addEventListener("kv-mounted", ({ detail: { model } }) => {
    window.model = model;
})"""


def drive(page, manager_class, served):
    """What page code does that can run Python: it listens to `kept` and sets `state`."""
    page.expose_function("python", lambda kept: json.loads(json.dumps(simulate.answer(manager_class, kept))))
    page.add_init_script(f"({ANSWERS})()")
    page.goto(f"{served}/yours.html")
    page.wait_for_selector(".kv-lab")
    assert "The course's own manager answers until your Forgetful has run." in page.locator(".kv-lab").inner_text()
    page.evaluate("""async () => {
        const { model } = window, answer = async () => {
            const kept = model.get("kept"), { driver } = model.get("state");
            if (!driver.ready || kept.calls <= driver.answers) return;
            model.set("state", { ...model.get("state"), driver: await window.python(kept) });
        };
        model.on("change:kept", answer);
        model.set("state", { ...model.get("state"), driver: { ...model.get("state").driver, ready: true } });
    }""")
    until(page, "window.model.get('state').driver.answers > 0")


def test_the_readers_class_draws_until_it_breaks_a_promise(visit, served):
    page = visit("yours")
    drive(page, Forgetful, served)
    assert "Every button calls your Forgetful." in page.locator(".kv-lab").inner_text()
    press(page, "allocate A")
    page.wait_for_selector(".kv-row")
    assert tables(page) == ["A20 tokens; block table [0, 1]"] and "returned None" in log(page)
    press(page, "fork A into B")
    page.wait_for_selector(".kv-broken")
    assert "✗ Forgetful breaks a promise: " in log(page) and "Expected: " in log(page)
    assert blocks(page)[:2] == ["torn", "torn"]
    assert page.get_by_role("button", name="append a token to A").get_attribute("aria-disabled") == "true"
    press(page, "Back one step")
    assert page.locator(".kv-broken").count() == 0
    press(page, "append a token to A")
    page.wait_for_selector(".kv-broken")
    assert "`" not in log(page) and "append is not written yet." in log(page)


def test_a_scenario_goes_no_further_than_the_first_broken_promise(visit, served):
    page = visit("yours")
    drive(page, Forgetful, served)
    page.get_by_label("Scenario").select_option("walk")
    until(page, "document.querySelector('.kv-place').textContent.includes('of 2')")
    forward(page, 2)
    assert "step 2 of 2" in page.locator(".kv-place").inner_text() and "breaks a promise" in log(page)
    assert page.get_by_role("button", name="Forward one step").get_attribute("aria-disabled") == "true"


def test_a_press_while_python_works_changes_nothing(visit, served):
    page = visit("yours")
    page.add_init_script(f"({ANSWERS})()")
    page.reload()
    page.wait_for_selector(".kv-lab")
    page.evaluate("window.model.set('state', { ...window.model.get('state'), driver: { ...window.model.get('state').driver, ready: true } })")
    assert "Asking your class" in log(page)
    page.get_by_role("button", name="allocate A").click(force=True)
    assert page.evaluate("window.model.get('kept').ops") == []
    until(page, "document.querySelector('.kv-log').textContent.includes('Python has not answered yet')")


# --- people ---


@pytest.mark.parametrize("name", NAMES)
def test_a_phone_needs_no_sideways_scrolling_and_every_target_is_large(visit, name):
    page = visit(name, width=360, has_touch=True)
    if name == "pool":
        press(page, "allocate A")
    elif name != "prefix":
        forward(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    small = page.evaluate("""[...document.querySelectorAll('button, input, select, summary')]
        .map((target) => [target.outerHTML.slice(0, 80), target.getBoundingClientRect()])
        .filter(([, box]) => box.width && (box.width < 24 || box.height < 24)).map(([html]) => html)""")
    assert small == []


def tab_to(page, name, most=40):
    for _ in range(most):
        page.keyboard.press("Tab")
        if page.evaluate("(document.activeElement.getAttribute('aria-label') || document.activeElement.textContent)") == name:
            return
    raise AssertionError(f"Tab never reaches {name!r}")


def test_the_keyboard_alone_walks_and_keeps_its_place(visit):
    page = visit("walk")
    tab_to(page, "Forward one step")
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    for key in ("Enter", "Space", "Enter"):
        page.keyboard.press(key)
    assert tables(page)[1] == "B21 tokens; block table [0, 2]"
    tab_to(page, "append a token to B")
    page.keyboard.press("Enter")
    page.keyboard.press("Enter")
    assert tables(page)[1] == "B23 tokens; block table [0, 2]"
    tab_to(page, "release B")
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.getAttribute('aria-label')") == "Back one step"
    page.keyboard.press("Enter")
    assert len(tables(page)) == 2


@pytest.mark.parametrize("name", ["contiguous", "beams", "history"])
def test_the_keyboard_steps_through_every_history(visit, name):
    page = visit(name)
    tab_to(page, "Forward one step")
    page.keyboard.press("Enter")
    assert page.locator(".kv-place").inner_text().startswith("step 1 of")
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Enter")
    assert page.locator(".kv-place").inner_text().startswith("step 0 of")


def test_one_polite_live_region_hears_every_simulator(visit):
    page = visit("all")
    until(page, "document.querySelectorAll('.kv-lab').length === 5")
    for name, words in (("contiguous", "A arrives"), ("beams", "is forked off A")):
        page.locator(f".kv-lab-{name}").get_by_role("button", name="Forward one step").click()
        until(page, f"document.querySelector('#kv-say').textContent.includes({words!r})")
    page.locator(".kv-lab-prefix").get_by_label("prefix tokens", exact=True).fill("47")
    until(page, "document.querySelector('#kv-say').textContent === '15 blocks without sharing, 11 with, 4 saved.'")
    assert page.locator("[aria-live]").count() == 1


def test_motion_is_short_and_none_where_it_is_not_wanted(visit):
    calm, lively = visit("walk", reduced_motion="reduce"), visit("walk")
    for page in (calm, lively):
        forward(page)
    ask = "getComputedStyle(document.querySelector('.kv-changed')).{}"
    assert calm.evaluate(ask.format("animationName")) == "none"
    assert float(lively.evaluate(ask.format("animationDuration")).rstrip("s")) <= 0.2


def test_both_themes_have_their_own_ground_and_the_same_paper(visit):
    page = visit("walk")
    forward(page)
    look = "['.kv-lab', '.kv-pool'].map((place) => getComputedStyle(document.querySelector(place)).backgroundColor)"
    light = page.evaluate(look)
    page.evaluate("document.documentElement.dataset.theme = 'dark'")
    dark = page.evaluate(look)
    assert light == ["rgb(255, 255, 255)", "rgb(255, 255, 255)"] and dark == ["rgb(27, 31, 36)", "rgb(255, 255, 255)"]


@pytest.mark.parametrize("name", NAMES)
def test_without_scripts_the_picture_and_the_words_stand_there(visit, simulators, name):
    page = visit(name, java_script_enabled=False)
    still = page.locator(".kv-still")
    assert still.locator("svg").bounding_box()["height"] > 60
    assert simulators[name].text in still.inner_text()
    assert 'style="' not in simulators[name].page and "<style" not in simulators[name].page


def test_what_the_reader_did_is_there_after_a_reload(visit):
    page = visit("walk")
    forward(page, 3)
    page.reload()
    page.wait_for_selector(".kv-lab")
    assert tables(page) == ["A20 tokens; block table [0, 1]", "B21 tokens; block table [0, 2]"]


def test_a_locked_step_waits_for_its_question(visit):
    page = visit("locked")
    forward(page, 2)
    assert "Answer the question first." in log(page)
    page.get_by_role("button", name="Forward one step").click(force=True)
    page.get_by_role("button", name="append a token to B").click(force=True)
    assert page.locator(".kv-place").inner_text().startswith("step 2 of")
    page.evaluate("document.dispatchEvent(new CustomEvent('kv-answered', { detail: { key: 'another' } }))")
    assert "Answer the question first." in log(page)
    page.evaluate("document.dispatchEvent(new CustomEvent('kv-answered', { detail: { key: 'three' } }))")
    forward(page)
    assert page.locator(".kv-place").inner_text().startswith("step 3 of")


# --- what it is made of ---


def test_names_are_text_and_never_markup(visit):
    page = visit("odd")
    assert "<img src=x onerror=alert(1)>" in log(page) and page.locator(".kv-lab img, .kv-lab b").count() == 0
    assert "<b>bold</b>: 3 tokens" in page.locator(".kv-who").inner_text()


def test_no_module_writes_html_or_evaluates_text():
    for path in FOLDER.glob("*.mjs"):
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|setAttribute\(\"style\"", path.read_text("utf-8")), path.name


@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_gets_each_widget_as_one_module(visit, browser, served, simulators, name):
    """As anywidget does: the text as a module of its own, the model from elsewhere."""
    assert not re.search(r"^(?:import|export (?!default))", script(name), re.M)
    data = json.loads(re.search(r'<script type="application/json">(.*?)</script>', simulators[name].page, re.S)[1])
    with contextlib.closing(browser.new_context()) as context:
        page = context.new_page()
        page.goto(f"{served}/empty.html")
        page.evaluate("""async ([source, state]) => {
            const { default: front } = await import(URL.createObjectURL(new Blob([source], { type: "text/javascript" })));
            const values = { state, kept: {} };
            const model = { get: (name) => values[name], set: (name, value) => { values[name] = value; }, save_changes() {}, on() {}, off() {} };
            const leave = await front.render({ model, el: document.body });
            leave?.();
        }""", [script(name), data])
        assert page.locator(f".kv-lab-{name}").count() == 1


def test_a_thousand_blocks_are_all_drawn_and_the_pool_scrolls_to_what_changed(visit):
    page = visit("large", width=390)
    assert page.locator(".kv-grid > .kv-block").count() == 1000
    page.get_by_label("tokens", exact=True).fill("15000")
    press(page, "allocate A")
    page.get_by_label("tokens", exact=True).fill("20")
    press(page, "allocate B")
    assert blocks(page).count("owned") == 940
    box, pool = page.locator(".kv-changed.kv-block").first.bounding_box(), page.locator(".kv-pool").bounding_box()
    assert pool["y"] <= box["y"] <= pool["y"] + pool["height"]


def test_a_terminal_shows_the_words(simulators):
    assert all(isinstance(shown, Still) for shown in simulators.values())
    assert repr(simulators["prefix"]).endswith("take 12 blocks without sharing and 8 with the 2 full prefix blocks shared; 4 saved.")
