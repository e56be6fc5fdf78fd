"""Prompts in a real browser, on a small page of their own: answered, held back, explained, kept, by keyboard alone."""

import contextlib
import re
import shutil

import pytest

from autograder.prompts.questions import of_lesson, question
from autograder.widgets.colours import COLOURS
from autograder.widgets.host import page_html
from conftest import ROOT, serving

PAGE = """<!DOCTYPE html><html lang="en" data-theme="{theme}"><head><meta charset="utf-8"><title>A lesson</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; connect-src 'self'">
<script type="module" src="widgets/mount.mjs"></script></head><body><main><h1>A lesson</h1>
<section id="one"><h2>One</h2><div class="cell">{predict}</div><p id="outcome">The outcome: three blocks.</p><div class="cell">figure</div>
<section id="inner"><h3>Inner</h3><p>Goes on.</p></section></section>
<section id="two"><h2>Two</h2><div class="cell">{ask}</div><p id="after">After a question nothing is held back.</p><div class="cell">{order}</div></section>
</main></body></html>"""


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    shutil.copytree(ROOT / "autograder" / "widgets", folder / "widgets", ignore=shutil.ignore_patterns("*.py", "__pycache__"))
    (folder / "widgets" / "colours.css").write_text(COLOURS)
    asked = {"predict": question("boundary", "predict"), "ask": question("next-block-33", "ask"), "order": question("fork-order", "ask")}
    parts = {name: page_html("question", q.for_page(), key=f"question:{q.id}", still=f'<p class="still">{q.title}</p>') for name, q in asked.items()}
    for theme in ("light", "dark"):
        (folder / f"{theme}.html").write_text(PAGE.format(theme=theme, **parts))
    with serving(folder) as at:
        yield at


@pytest.fixture
def page(address, browser):
    with contextlib.closing(browser.new_context(viewport={"width": 360, "height": 740}, reduced_motion="reduce")) as context:
        opened = context.new_page()
        troubles = []
        opened.on("pageerror", lambda error: troubles.append(str(error)))
        opened.on("console", lambda message: troubles.append(message.text) if message.type == "error" else None)
        opened.goto(f"{address}/light.html")
        opened.wait_for_selector(".kv-question >> nth=2")
        yield opened
        assert troubles == []


def prompt(page, number):
    return page.locator(".kv-question").nth(number)


def test_what_follows_a_prediction_in_its_section_is_held_until_it_is_made(page):
    assert not page.locator("#outcome").is_visible() and page.locator("#inner").is_visible() and page.locator("#after").is_visible()
    for label, value in (("blocks now", "1"), ("blocks after 12 more tokens", "3"), ("blocks after 13 more tokens", "3")):
        prompt(page, 0).get_by_label(label).fill(value)
    prompt(page, 0).get_by_role("button", name="Commit my prediction").click()
    assert page.locator("#outcome").is_visible()
    said = prompt(page, 0).inner_text()
    assert "2 of 3 came out differently" in said
    assert "That rounds down." in said and "A full block is not a missing block" in said and "That counts only full blocks" not in said
    rows = prompt(page, 0).locator("tbody tr").all_inner_texts()
    assert [row.split("\t")[1:3] for row in rows] == [["1", "2"], ["3", "2"], ["3", "3"]]
    assert page.evaluate("document.documentElement.scrollWidth") <= 360


def test_a_reload_keeps_the_prediction_and_it_cannot_be_made_again(page):
    for label in ("blocks now", "blocks after 12 more tokens", "blocks after 13 more tokens"):
        prompt(page, 0).get_by_label(label).fill("2")
    prompt(page, 0).get_by_role("button", name="Commit my prediction").click()
    page.reload()
    page.wait_for_selector(".kv-question >> nth=2")
    assert page.locator("#outcome").is_visible()
    assert prompt(page, 0).get_by_role("button").count() == 0


def test_a_form_that_is_not_filled_in_says_what_is_missing(page):
    prompt(page, 0).get_by_label("blocks now").fill("two")
    prompt(page, 0).get_by_role("button", name="Commit my prediction").click()
    assert prompt(page, 0).get_by_role("alert").inner_text() == "blocks now: give a number."
    assert prompt(page, 0).get_by_label("blocks now").evaluate("(e) => e === document.activeElement")
    assert not page.locator("#outcome").is_visible()


def test_a_reader_may_go_on_without_predicting(page):
    page.get_by_role("button", name="Go on without predicting").click()
    assert page.locator("#outcome").is_visible()
    assert prompt(page, 0).get_by_role("button", name="Commit my prediction").is_visible()
    page.reload()
    page.wait_for_selector(".kv-question >> nth=2")
    assert page.locator("#outcome").is_visible()


def test_a_link_into_what_is_held_shows_it(page, address):
    page.goto(f"{address}/light.html#outcome")
    page.reload()
    page.wait_for_selector(".kv-question >> nth=2")
    assert page.locator("#outcome").is_visible()


def test_a_wrong_answer_is_explained_may_be_mended_and_the_answer_may_be_shown(page):
    ask = prompt(page, 1)
    ask.get_by_label("slack in percent of this allocation").fill("45.45")
    ask.get_by_label("which append").fill("16")
    ask.get_by_role("button", name="Check").click()
    assert "That divides by the tokens." in ask.inner_text() and "31.25" not in ask.inner_text()
    ask.get_by_label("slack in percent of this allocation").fill("31,25".replace(",", "."))
    ask.get_by_role("button", name="Check").click()
    assert "Right." in ask.inner_text() and "16th append" in ask.inner_text()


def test_the_answer_is_shown_only_after_a_try(page):
    ask = prompt(page, 1)
    assert ask.get_by_role("button", name="Show the answer").count() == 0
    for label in ("slack in percent of this allocation", "which append"):
        ask.get_by_label(label).fill("1")
    ask.get_by_role("button", name="Check").click()
    ask.get_by_role("button", name="Show the answer").click()
    assert "31.25" in ask.inner_text()


def test_lines_are_put_in_order_by_keyboard_alone(page):
    order = prompt(page, 2)
    order.get_by_role("button", name="Move down: enter the child").focus()
    page.keyboard.press("Enter")
    page.keyboard.press("Enter")
    assert "Now line 3 of 3: enter the child" in order.inner_text()
    order.get_by_role("button", name="Move up: look the parent up").focus()
    page.keyboard.press("Enter")
    for _ in range(20):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.textContent") == "Check":
            break
    page.keyboard.press("Enter")
    assert "Right." in order.inner_text()


def test_without_scripts_the_still_text_and_the_outcome_stand_there(address, browser):
    with contextlib.closing(browser.new_context(java_script_enabled=False)) as context:
        page = context.new_page()
        page.goto(f"{address}/light.html")
        assert page.locator(".still").count() == 3 and page.locator("#outcome").is_visible()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_words_are_readable_in_both_themes(theme, address, browser):
    from autograder.tokens import contrast

    with contextlib.closing(browser.new_context()) as context:
        page = context.new_page()
        page.goto(f"{address}/{theme}.html")
        page.wait_for_selector(".kv-question >> nth=2")
        page.wait_for_load_state("networkidle")
        found = page.evaluate("""() => ["ink", "muted", "accent", "good", "bad"].map((name) => [name, getComputedStyle(document.querySelector(".kv-widget")).getPropertyValue(`--kv-${name}`)])""")
        soft = page.evaluate("""() => getComputedStyle(document.querySelector(".kv-widget")).getPropertyValue("--kv-soft")""")
    assert [(name, ink) for name, ink in found if contrast(ink.strip(), soft.strip()) < 4.5] == []


# --- every prompt of every lesson ---

LESSONS = sorted(path.stem for path in (ROOT / "autograder" / "prompts").glob("*.json"))


def prompts_of(lesson):
    return [asked for kind in ("predict", "ask") for asked in of_lesson(lesson, kind)]


@pytest.fixture(scope="module")
def all_prompts(tmp_path_factory):
    """A page for each lesson with all of its prompts, each in a section of its own."""
    folder = tmp_path_factory.mktemp("prompts")
    shutil.copytree(ROOT / "autograder" / "widgets", folder / "widgets", ignore=shutil.ignore_patterns("*.py", "__pycache__"))
    (folder / "widgets" / "colours.css").write_text(COLOURS)
    for lesson in LESSONS:
        sections = "".join(f'<section id="{q.id}"><h2>{n}</h2><div class="cell">{page_html("question", q.for_page(), key=f"question:{q.id}", still="")}</div></section>' for n, q in enumerate(prompts_of(lesson)))
        head = PAGE.format(theme="light", predict="", ask="", order="")
        (folder / f"{lesson}.html").write_text(head[: head.index('<section id="one">')] + sections + "</main></body></html>")
    with serving(folder) as at:
        yield at


def give(part, field, value):
    """Fill in one field as a reader does."""
    if field.kind == "choice":
        part.get_by_role("group", name=field.label, exact=True).get_by_label(value, exact=True).check()
    elif field.kind == "order":
        for place, line in enumerate(value):
            words = field.options[line - 1]
            order = "(rows) => rows.map((row) => Number(row.dataset.line))"
            while (at := part.locator(".kv-order li").evaluate_all(order).index(line)) != place:
                part.get_by_role("button", name=f"Move {'up' if at > place else 'down'}: {words}", exact=True).click()
        part.get_by_role("button", name=f"Move up: {field.options[value[0] - 1]}", exact=True).click()    # touched, though it was in order
    else:
        part.get_by_label(field.label, exact=True).fill(", ".join(map(str, value)) if isinstance(value, tuple) else str(value))


def plain(words):
    """As it stands on the page: without marks for code and emphasis, and with single spaces."""
    return " ".join(re.sub(r"[`*]", "", words).split())


def wrong_answer(field, outcome):
    """A likely wrong answer and what is said of it; else some other answer."""
    if outcome.wrong:
        return outcome.wrong[0]
    if not outcome.right:
        return ("some words" if field.kind == "words" else 1), ""
    other = {"number": 987_654, "list": (9, 9, 9), "words": "some words", "order": tuple(reversed(outcome.right[0])) if field.kind == "order" else None}
    return other.get(field.kind) or next(option for option in field.options if option not in outcome.right), outcome.otherwise


@pytest.mark.parametrize("lesson", LESSONS)
def test_every_prompt_refuses_an_empty_form_explains_a_wrong_answer_and_knows_a_right_one(lesson, all_prompts, browser):
    troubles, asked_for = [], prompts_of(lesson)
    with contextlib.ExitStack() as stack:
        wrong, right = (stack.enter_context(contextlib.closing(browser.new_context(viewport={"width": 900, "height": 900}, reduced_motion="reduce"))).new_page() for _ in range(2))
        for page in (wrong, right):
            page.set_default_timeout(5000)
            page.on("pageerror", lambda error: troubles.append(str(error)))
            page.goto(f"{all_prompts}/{lesson}.html")
            page.wait_for_selector(f".kv-question >> nth={len(asked_for) - 1}")
        for asked in asked_for:
            verb = "Commit my prediction" if asked.kind == "predict" else "Check"
            part = wrong.locator(f'[id="{asked.id}"] .kv-question')
            part.get_by_role("button", name=verb).click()
            assert part.get_by_role("alert").inner_text().startswith(f"{plain(asked.fields[0].label)}: "), asked.id
            said = []
            for field in asked.fields:
                answer, why = wrong_answer(field, asked.outcomes[field.key])
                give(part, field, answer)
                said.append(plain(why))
            part.get_by_role("button", name=verb).click()
            shown = plain(part.inner_text())
            assert [why for why in said if why not in shown] == [], asked.id
            if all(asked.outcomes[field.key].right for field in asked.fields):
                part = right.locator(f'[id="{asked.id}"] .kv-question')
                for field in asked.fields:
                    give(part, field, asked.outcomes[field.key].right[0])
                part.get_by_role("button", name=verb).click()
                shown = plain(part.inner_text())
                assert ("Right." in shown or "as you said" in shown or "You saw it coming" in shown) and "not as you said" not in shown, (asked.id, shown)
    assert troubles == []
