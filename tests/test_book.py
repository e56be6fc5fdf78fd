"""The built book: no warning, no other host, no secret, no dead link, and the same bytes every time."""

import ast
import contextlib
import html
import importlib.util
import json
import re
import shutil
import sys
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import unquote, urlsplit

import pytest

from conftest import ROOT, build

LESSONS = sorted(path.parent.name for path in ROOT.glob("notebooks/*/*.ipynb"))
TEXT = {".html", ".js", ".mjs", ".css", ".txt", ".md", ".ipynb", ".json", ".py", ".svg", ".xml", ""}



@pytest.fixture(scope="session")
def pages(built):
    return {path.relative_to(built).as_posix(): Page(path.read_text(encoding="utf-8")) for path in sorted(built.rglob("*.html")) if "_static" not in path.parts}


class Page(HTMLParser):
    """What the tests ask of a page: what it loads, where it links, which places it has, what it says."""

    LOADED = {"script": ["src"], "img": ["src", "srcset"], "iframe": ["src"], "source": ["src", "srcset"], "video": ["src", "poster"],
              "audio": ["src"], "embed": ["src"], "object": ["data"], "track": ["src"], "use": ["href", "xlink:href"], "input": ["src"]}
    NOT_LOADED = {"next", "prev", "index", "search", "genindex", "author", "copyright", "canonical", "license"}

    def __init__(self, text):
        super().__init__()
        self.loaded, self.links, self.places, self.images, self.inline, self.said = [], [], set(), [], [], []
        self.inside = None
        self.text = text
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        self.places |= {values[name] for name in ("id", "name") if values.get(name)}
        self.loaded += [values[name] for name in self.LOADED.get(tag, []) if values.get(name)]
        if tag == "link" and not set((values.get("rel") or "").split()) & self.NOT_LOADED:
            self.loaded.append(values.get("href") or "")
        if tag == "a" and values.get("href"):
            self.links.append(values["href"])
        if tag == "img":
            self.images.append(values)
        if values.get("style"):
            self.inline.append(values["style"])
        self.inside = tag if tag in ("script", "style") else self.inside

    def handle_endtag(self, tag):
        self.inside = None if tag == self.inside else self.inside

    def handle_data(self, data):
        (self.inline if self.inside else self.said).append(data)


def is_elsewhere(address):
    return bool(re.match(r"\s*(?:[a-z][a-z0-9+.-]*:)?//", address, re.I))


def test_every_chapter_has_its_page(pages):
    chapters = re.findall(r"^\s*(?:- file|root):\s*(\S+)", (ROOT / "_toc.yml").read_text(encoding="utf-8"), re.M)
    assert {f"{chapter}.html" for chapter in chapters} <= set(pages)
    assert {f"notebooks/{name}/{name}.html" for name in LESSONS} <= set(pages)


def test_no_page_comes_from_elsewhere_than_book_and_notebooks(pages):
    strangers = [name for name in pages if not name.startswith(("book/", "notebooks/"))]
    assert sorted(strangers) == ["genindex.html", "index.html", "search.html"]


def test_no_page_loads_from_another_host(pages):
    assert [(name, address) for name, page in pages.items() for address in page.loaded if is_elsewhere(address)] == []
    for name, page in pages.items():
        assert not re.search(r"(?:https?:)?//[\w-]+\.[\w.-]+/", re.sub(r"http://www\.w3\.org/\S*", "", "\n".join(page.inline))), name


def test_no_stylesheet_or_script_loads_from_another_host(built):
    found = []
    for path in sorted([*built.rglob("*.css"), *built.rglob("*.js"), *built.rglob("*.mjs")]):
        text = path.read_text(encoding="utf-8", errors="replace")
        found += [(path.name, hit) for hit in re.findall(r"""(?:url\(|@import)\s*["']?\s*((?:https?:)?//[^"')\s]+)""", text)]
        # An address of a script, a style, a font or a module as a string; addresses in comments and licences are none.
        found += [(path.name, hit) for hit in re.findall(r"""["'`]((?:https?:)?//[^"'`\s]+\.(?:m?js|css|woff2?|ttf|wasm|json)\b[^"'`]*)["'`]""", text)]
        found += [(path.name, hit) for hit in re.findall(r"unpkg\.com|jsdelivr|cdnjs|googleapis|gstatic|mathjax@|thebe@", text)]
    assert found == []


def test_a_browser_asks_no_other_host_misses_no_file_and_fits_a_phone(pages, served, browser):
    asked, missing, wide = [], [], []
    with contextlib.closing(browser.new_context(viewport={"width": 360, "height": 740})) as context:
        page = context.new_page()
        page.on("request", lambda request: asked.append(request.url))
        page.on("response", lambda response: missing.append(response.url) if response.status >= 400 else None)
        for name in sorted(set(pages) - {"index.html"}):     # which only sends on to the first page
            page.goto(f"{served}/{name}", wait_until="load")
            if page.evaluate("document.documentElement.scrollWidth") > 360:
                wide.append(name)
    assert [url for url in asked if not url.startswith((served, "data:"))] == []
    assert len(asked) > len(pages) and missing == [] and wide == []


# --- paper ---

PAPER = """() => {
  const seen = (element) => element.checkVisibility({ contentVisibilityAuto: true, opacityProperty: true, visibilityProperty: true });
  const all = (found) => [...document.querySelectorAll(`.bd-article ${found}`)];
  return {
    chrome: all(".kv-form, .kv-lab, .kv-bar, .kv-editor, button").filter(seen).map((element) => element.className),
    closed: all("details:not([open])").length,
    cut: all("pre, table").filter((element) => seen(element) && element.scrollWidth > element.clientWidth + 1).map((element) => element.textContent.slice(0, 60)),
    unfinished: all("img").filter((image) => !image.complete).length,
    held: all(".kv-held").filter((element) => !seen(element)).length,
    stills: all(".kv-still").filter(seen).length,
    theme: document.documentElement.dataset.theme,
  };
}"""


def wait_until(page, holds):
    for _ in range(100):
        if page.evaluate(holds):
            return
        page.wait_for_timeout(100)
    pytest.fail(f"after ten seconds still not so: {holds}")


@pytest.fixture
def on_paper(served, browser):
    """Opens a page as it is when a reader in the dark theme prints it; back() gives it to the screen again."""
    with contextlib.closing(browser.new_context(viewport={"width": 680, "height": 960}, color_scheme="dark")) as context:
        page = context.new_page()

        def open_(name):
            page.goto(f"{served}/{name}", wait_until="load")
            # A widget that has started has put its still away. The page's policy refuses Playwright's own waiting for a script.
            wait_until(page, "!document.querySelector('.kv-widget > .kv-still')")
            # And every listing of a lesson that can run is an editor: as many as a moment ago.
            wait_until(page, "window.before === (window.before = document.querySelectorAll('.kv-bar').length) && (window.before > 0 || !location.pathname.includes('/notebooks/'))")
            page.emulate_media(media="print")
            page.evaluate("dispatchEvent(new Event('beforeprint'))")
            wait_until(page, "[...document.images].every((image) => image.complete)")
            return page

        yield open_


def test_every_page_prints_whole_without_what_only_works_on_a_screen(pages, on_paper):
    wrong = {}
    for name in sorted(set(pages) - {"index.html", "genindex.html", "search.html"}):
        found = on_paper(name).evaluate(PAPER)
        widgets = len(re.findall(r'class="kv-widget" data-widget="', pages[name].text))
        expected = {"chrome": [], "closed": 0, "cut": [], "unfinished": 0, "held": 0, "stills": widgets, "theme": "light"}
        if found != expected:
            wrong[name] = {what: found[what] for what in expected if found[what] != expected[what]}
    assert wrong == {}


def test_a_printed_page_is_itself_again_on_the_screen(on_paper):
    page = on_paper(f"notebooks/{LESSONS[0]}/{LESSONS[0]}.html")
    assert page.locator(".kv-form").count() == 0
    page.emulate_media(media="screen")
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.locator(".kv-form").count() > 0 and page.locator(".kv-editor").count() > 0 and page.locator(".kv-still").count() == 0
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"


def test_a_printed_link_out_of_the_course_says_its_address(on_paper):
    page = on_paper("book/reading.html")
    said = "(element) => getComputedStyle(element, '::after').content"
    assert page.locator("p a.external[href*='FlexKV'], em a.external[href*='FlexKV']").first.evaluate(said).replace('" "', "") == '" (https://github.com/taco-project/FlexKV/pull/193)"'
    assert page.locator("a.internal[href*='glossary']").first.evaluate(said) in ("none", "normal")


def test_chromium_makes_a_pdf_of_a_lesson(on_paper):
    paper = on_paper(f"notebooks/{LESSONS[0]}/{LESSONS[0]}.html").pdf(format="A4")
    assert paper.startswith(b"%PDF") and 10 < len(re.findall(rb"/Type\s*/Page\b", paper)) < 60


# --- secrets ---

REGION = re.compile(r"### BEGIN (?:SOLUTION|HIDDEN TESTS)\n(.*?)### END (?:SOLUTION|HIDDEN TESTS)", re.S)


def secret_lines(text):
    """Lines of code that stand in a solution or a hidden test, and nowhere in what lessons give."""
    given = {squeezed(line) for path in ROOT.glob("source_assignments/*/*.py") for line in REGION.sub("", path.read_text(encoding="utf-8")).splitlines()}
    regions = [squeezed(line) for region in REGION.findall(text) for line in region.splitlines()]
    return {line for line in regions if len(line) > 12 and not line.startswith("#") and line not in given}


def squeezed(text):
    return re.sub(r"\s+", "", text)


@pytest.fixture(scope="module")
def published(built):
    """Everything that the site says, file by file, as it stands and as a reader sees it, without white space."""
    said = {}
    for path in sorted(path for path in built.rglob("*") if path.is_file() and path.suffix in TEXT):
        text = path.read_text(encoding="utf-8", errors="replace")
        bare = html.unescape(re.sub(r"<[^>]+>", "", text))
        said[path.relative_to(built).as_posix()] = squeezed(text) + "\0" + squeezed(bare) + "\0" + squeezed(text.encode().decode("unicode_escape", "replace") if path.suffix == ".ipynb" else "")
    return said


@pytest.mark.parametrize("lesson", LESSONS)
def test_no_line_of_a_solution_or_a_hidden_test_is_published(lesson, published):
    source = ROOT / "source_assignments" / lesson / f"{lesson}.py"
    if not source.exists():
        pytest.skip("a student repository holds no answers")
    secrets = secret_lines(source.read_text(encoding="utf-8"))
    assert secrets
    assert [(line, name) for line in sorted(secrets) for name, text in published.items() if line in text] == []


def test_no_variant_of_a_manager_is_published(published):
    variants = ROOT / "source_assignments" / "variants.toml"
    if not variants.exists():
        pytest.skip("a student repository holds no variants")
    import tomllib

    codes = [code for code in strings_of(tomllib.loads(variants.read_text(encoding="utf-8"))) if "def " in code]
    given = "\0".join(published[f"_sources/notebooks/{name}/{name}.ipynb"] for name in LESSONS)
    lines = {squeezed(line) for code in codes for line in code.splitlines() if len(squeezed(line)) > 24}
    secrets = {line for line in lines if line not in given and not line.startswith(("#", "def", "class", "import", '"""'))}
    assert codes and [(line, name) for line in sorted(secrets) for name, text in published.items() if line in text] == []


def strings_of(value):
    if isinstance(value, str):
        return [value]
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else []
    return [text for part in parts for text in strings_of(part)]


def test_the_secrets_are_found_where_they_are(published):
    """The search above finds a line if it is there: on a page, in colours, and in a notebook."""
    line = squeezed("def blocks_needed(n_tokens, block_size):")
    assert {name for name, text in published.items() if line in text} >= {f"notebooks/{LESSONS[0]}/{LESSONS[0]}.html", f"_sources/notebooks/{LESSONS[0]}/{LESSONS[0]}.ipynb"}


# --- what a page shows ---

def outputs_on(page):
    return re.findall(r'<div class="cell_output[^>]*>.*?(?=<div class="cell |</section>)', page.text, re.S)


@pytest.mark.parametrize("lesson", LESSONS)
def test_a_lesson_page_shows_the_answer_keys_outputs(lesson, pages):
    if not (ROOT / "source_assignments" / lesson).is_dir():
        pytest.skip("a student repository holds no answers")
    page = pages[f"notebooks/{lesson}/{lesson}.html"]
    kept = json.loads((ROOT / "_build" / "answers" / f"{lesson}.json").read_text(encoding="utf-8"))
    released = json.loads((ROOT / "notebooks" / lesson / f"{lesson}.ipynb").read_text(encoding="utf-8"))
    shown = sum(bool(kept["cells"].get(cell["id"])) for cell in released["cells"] if cell["cell_type"] == "code")
    assert shown and len(outputs_on(page)) == shown == len(kept["cells"])


def test_no_page_shows_a_traceback(pages):
    for name, page in pages.items():
        assert "Traceback (most recent" not in page.text and 'class="output traceback' not in page.text, name
        assert not [output for output in outputs_on(page) if "NotImplementedError" in output], name


def test_every_image_has_alternative_text_that_tells_something(pages):
    poor = [(name, image.get("src")) for name, page in pages.items() for image in page.images
            if len((image.get("alt") or "").split()) < 3 or image["alt"].endswith((".png", ".svg"))]
    assert poor == []


def test_links_between_pages_resolve(pages, built):
    broken = []
    for name, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (built / name).parent / unquote(parts.path) if parts.path else built / name
            target = target.resolve()
            inside = target.is_relative_to(built.resolve())
            known = pages.get(target.relative_to(built.resolve()).as_posix()) if inside else None
            if not target.is_file() or not inside or (parts.fragment and known and unquote(parts.fragment) not in known.places):
                broken.append((name, link))
    assert broken == []


def test_links_leave_only_for_the_web_over_https(pages):
    schemes = {urlsplit(link).scheme for page in pages.values() for link in page.links}
    assert schemes <= {"", "https"}


def test_lessons_have_launch_buttons_if_and_only_if_the_course_has_a_home(pages):
    from autograder.staff.launch import home_in

    with_buttons = {name for name, page in pages.items() if "launch-buttons" in page.text}
    assert with_buttons == ({f"notebooks/{name}/{name}.html" for name in LESSONS} if home_in(ROOT) else set())


def test_no_page_tells_where_it_was_built(built):
    told = [path.name for path in built.rglob("*") if path.is_file() and path.suffix in TEXT
            and str(ROOT) in path.read_text(encoding="utf-8", errors="replace")]
    assert told == []


# --- building ---

def contents(folder):
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_a_build_over_an_older_book_gives_the_same_files_as_a_clean_one(built, tmp_path):
    """The older book had another page and lacked a line; nothing of it may stay behind."""
    course = tmp_path / "course"
    shutil.copytree(ROOT, course, ignore=shutil.ignore_patterns(".git", ".venv", "html", "jupyter_execute", ".doctrees", "course", "kept", "*.egg-info", "__pycache__"))
    intro, old = course / "book" / "intro.md", course / "book" / "old.md"
    authored = intro.read_text(encoding="utf-8")
    intro.write_text(authored + "\nZebras once grazed here.\n", encoding="utf-8")
    old.write_text("# Old\n\nAn old page.\n", encoding="utf-8")
    toc = course / "_toc.yml"
    contents_table = toc.read_text(encoding="utf-8")
    toc.write_text(contents_table.replace("      - file: book/glossary\n", "      - file: book/glossary\n      - file: book/old\n"), encoding="utf-8")
    site, first = build(course, tmp_path / "out")
    assert first.returncode == 0 and (site / "book" / "old.html").exists()

    intro.write_text(authored, encoding="utf-8")
    toc.write_text(contents_table, encoding="utf-8")
    old.unlink()
    site, second = build(course, tmp_path / "out")
    assert second.returncode == 0
    fresh, renewed = contents(built), contents(site)
    assert sorted(fresh) == sorted(renewed)
    assert [name for name in fresh if fresh[name] != renewed[name]] == []

    shutil.rmtree(course / "source_assignments")
    site, student = build(course, tmp_path / "student")
    assert student.returncode == 0, student.stderr[-2000:]
    assert [path.name for path in site.rglob("*.html") if 'class="cell_output' in path.read_text(encoding="utf-8")] == []
    assert sorted(path.name for path in site.rglob("*.html")) == sorted(Path(name).name for name in fresh if name.endswith(".html"))


def test_a_failing_answer_key_ends_the_build_with_its_sentence_alone(monkeypatch):
    from autograder.staff import answers

    def fail(lesson):
        raise answers.AnswerKeyFailed(f"The answer key of {lesson.name} fails in cell 'part': ValueError: no")

    monkeypatch.setattr(answers, "ensure", fail)
    monkeypatch.setattr(sys, "path", [*sys.path])
    with pytest.raises(SystemExit) as end:
        extension().make_answers(SimpleNamespace(srcdir=ROOT))
    assert end.value.code == f"\nThe answer key of {LESSONS[0]} fails in cell 'part': ValueError: no"


def extension():
    """The Sphinx extension as a module."""
    spec = importlib.util.spec_from_file_location("course_pages", ROOT / "book" / "_ext" / "course_pages.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(("entry", "kept"), [
    ("_static/course.css", True),
    ("scripts/sphinx-book-theme.js", True),
    ("https://unpkg.com/thebe@1/lib/index.js", False),
    ("//cdn.example/x.js", False),
    ("sphinx-thebe.js", False),
    (SimpleNamespace(filename="", attributes={"body": 'const THEBE_JS_URL = "x"'}), False),
    (SimpleNamespace(filename="course.js", attributes={}), True),
])
def test_entries_of_other_hosts_are_dropped_and_ours_stay(entry, kept):
    assert extension()._is_third_party(entry) is not kept


def test_the_extension_never_writes_code_into_a_page():
    """`lay_answers` touches outputs and counts, nothing else of a cell."""
    tree = ast.parse((ROOT / "book" / "_ext" / "course_pages.py").read_text(encoding="utf-8"))
    lay = next(node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "lay_answers")
    stored = {node.slice.value for node in ast.walk(lay) if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store) and isinstance(node.slice.value, str)}
    assert stored == {"outputs", "execution_count"}
