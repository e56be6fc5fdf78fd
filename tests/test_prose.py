"""Spelling and prose: what is written for people is clean, and a slip is found in every kind of file, at its line."""

import shutil

import pytest

from autograder.staff import prose
from conftest import ROOT, needs_sources

# Planted misspellings are put together here, so that this file has none.
WRONG = "refer" + "ance"
LESSON = '# %% [markdown]\n"""\nThe SLIP count.\n"""\n\n# %% mystnb={"image": {"alt": "A SLIP count."}}\ntext = "no such thing"  # a SLIP count\n'


@pytest.fixture
def place(tmp_path):
    """A course with nothing to read in it."""
    for name in ("book/words.txt", "pyproject.toml"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "node_modules").symlink_to(ROOT / "node_modules")
    return tmp_path


def write(root, name, text):
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_text(text, encoding="utf-8")


@needs_sources
def test_everything_that_people_read_is_clean():
    assert [str(finding) for finding in prose.findings(ROOT)] == []


@pytest.mark.parametrize(("name", "text", "lines"), [
    ("book/page.md", "# Page\n\nThe SLIP count\nof a [SLIP block](x.md).\n", {3, 4}),
    ("book/page.md", "```{glossary}\nSLIP count\n  How many.\n```\n", {2}),
    ("book/page.md", "| what |\n|---|\n| SLIP |\n", {3}),
    ("book/page.md", '<img src="x.svg"\n alt="A SLIP count.">\n', {2}),
    ("README.md", "The **SLIP** count.\n", {1}),
    ("source_assignments/01_a/01_a.py", LESSON, {3, 6, 7}),
    ("source_assignments/01_a/questions.toml", '[[question]]\ntitle = "The SLIP count"\n', {2}),
    ("autograder/tell.py", 'def say():\n    """Say it."""\n    return (\n        "The count is high: "\n        f"one SLIP for {1} block")\n', {5}),
    ("autograder/promises/base.py", '"""First.\n\nThe SLIP count.\n"""\n', {3}),
    ("autograder/widgets/words.mjs", "const a = 1;\n// a SLIP count\nconst b = `a SLIP of ${a} block`;\n", {2, 3}),
])
def test_a_misspelling_is_found_in_every_kind_of_text_at_its_line(place, name, text, lines):
    write(place, name, text.replace("SLIP", WRONG))
    found = prose.findings(place)
    assert {finding.line for finding in found} == lines
    assert all(str(finding).startswith(f"{name}:{finding.line}: ") and WRONG in finding.says for finding in found)
    write(place, name, text.replace("SLIP", "reference"))
    assert prose.findings(place) == []


def test_code_names_and_addresses_are_no_prose(place):
    write(place, "book/page.md", "Call `refcnt` of [it](https://xyzzy.example/qwrt), `a\nqwrt b`, vLLM, KV.\n\n```python\nqwrt = 1\n```\n{cite}`qwrt2023` and <span class=\"qwrt\">this</span>\n")
    assert prose.findings(place) == []


def test_a_common_misspelling_is_found_where_no_prose_is_looked_for(place):
    write(place, "book/_static/course.css", f"/* the {WRONG} */\n")
    (finding,) = prose.findings(place)
    assert str(finding) == f"book/_static/course.css:1: {WRONG} ==> reference"


def test_a_clumsy_phrase_is_found(place):
    write(place, "book/page.md", "# Page\n\nIt is free at this point in time.\n")
    found = prose.findings(place)
    assert {finding.line for finding in found} == {3} and any("point in time" in finding.says for finding in found)


def test_a_word_of_the_course_is_known_only_by_its_list(place):
    write(place, "book/page.md", "The radix tree.\n")
    assert prose.findings(place) == []
    write(place, "book/words.txt", "# none\n")
    assert [finding.line for finding in prose.findings(place)] == [1]


def test_the_command_tells_each_finding_and_fails(place, monkeypatch, capsys):
    write(place, "nbgrader_config.py", "")
    write(place, "book/page.md", f"The {WRONG}.\n")
    monkeypatch.chdir(place)
    assert prose.main([]) == 1 and f"book/page.md:1: '{WRONG}' is in no dictionary" in capsys.readouterr().out
    write(place, "book/page.md", "The reference.\n")
    assert prose.main([]) == 0


def test_without_the_dictionary_the_cure_is_said(place, monkeypatch, capsys):
    write(place, "nbgrader_config.py", "")
    (place / "node_modules").unlink()
    monkeypatch.chdir(place)
    assert prose.main([]) == 2 and "`make setup` installs it" in capsys.readouterr().err


def test_the_word_list_is_in_order_without_doubles_or_words_that_nobody_uses():
    lines = (ROOT / prose.WORDS).read_text(encoding="utf-8").splitlines()
    groups = [group.splitlines() for group in "\n".join(line for line in lines if line).split("#")[2:]]
    assert groups and all(words[1:] == sorted(set(words[1:])) for words in groups)
    words = [word for group in groups for word in group[1:]]
    assert len(words) == len(set(words))
    texts = [prose.prose_of(path) for pattern in (*prose.PAGES, *prose.LESSONS, *prose.MESSAGES) for path in ROOT.glob(pattern)]
    used = {word for text in texts for match in prose.WORD.finditer(text) for word in (match[0], match[0][:1].lower() + match[0][1:])}
    used |= {word.removesuffix("'s") for word in used}
    if (ROOT / "source_assignments").is_dir():
        assert [word for word in words if word not in used] == []
