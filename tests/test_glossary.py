"""The glossary has each term once, and each lesson and page links a term where it first uses it."""

import re

import pytest

from autograder.staff import glossary
from conftest import ROOT, needs_sources

KNOWN = glossary.terms(ROOT)


@needs_sources
def test_every_term_is_linked_at_its_first_use():
    assert [str(missing) for missing in glossary.missing_links(ROOT)] == []


def test_each_term_stands_once_and_has_an_address_of_its_own():
    assert len(KNOWN) > 60
    assert len({term.lower() for term in KNOWN}) == len({glossary.anchor(term) for term in KNOWN}) == len(KNOWN)


# The contract's, the lessons' and the pictures' words for things.
@pytest.mark.parametrize("term", [
    "block table", "physical block", "logical block", "reference count", "free list", "fork", "append", "release", "copy-on-write", "slot", "slack",
    "reserved", "internal waste", "external waste", "prefix", "full block", "block key", "hit", "hole", "parallel sampling", "beam search", "eviction",
    "preemption", "recompute", "swap", "conservation", "single writer", "bystander", "promise", "history", "verdict", "KV cache", "bytes per token",
    "radix tree", "latent attention", "double free", "leak", "audit", "query, key and value", "watermark", "buddy allocator", "chained hash",
])
def test_the_courses_own_words_are_in_it(term):
    assert term in KNOWN


@pytest.fixture
def place(tmp_path):
    (tmp_path / "book").mkdir()
    (tmp_path / "book" / "glossary.md").write_text("# Glossary\n\n```{glossary}\nblock\n  A few slots.\n\nblock table\n  A list.\n\nKV cache\n  Keys.\n```\n")
    return tmp_path


def missing(place, text, name="book/page.md"):
    (place / name).parent.mkdir(parents=True, exist_ok=True)
    (place / name).write_text(text)
    return [(found.line, found.term) for found in glossary.missing_links(place)]


def test_the_first_use_counts_and_the_longest_term(place):
    assert missing(place, "# Blocks\n\nThe block tables of\ntwo KV caches. A block. A block table.\n") == [(3, "block table"), (4, "KV cache"), (4, "block")]


@pytest.mark.parametrize("text", [
    "A [block](glossary.md#term-block), then a block.\n",
    "A {term}`block`, or {term}`blocks <block>`, then a block.\n",
    "# A block\n\nA `block`.\n\n```python\nblock = 1\n```\n",
    "See [a block](https://example.org/block).\n\n<details><summary>A block</summary></details>\n",
])
def test_a_link_is_taken_and_code_headings_and_other_links_are_not_asked(place, text):
    assert missing(place, text) == []


def test_a_link_to_another_term_is_not_taken(place):
    assert missing(place, "A [block](glossary.md#term-block-table).\n") == [(1, "block")]


def test_of_a_lesson_only_its_prose_is_asked(place):
    name = "source_assignments/01_a/01_a.py"
    text = '# %% [markdown]\n"""\n# Block\n\nWORDS\n"""\n\n# %%\nblock = "a block table"  # a block table\n'
    assert missing(place, text.replace("WORDS", "A KV cache."), name) == [(5, "KV cache")]
    assert missing(place, text.replace("WORDS", "A [KV cache](../../book/glossary.md#term-KV-cache)."), name) == []
    assert "](../../book/glossary.md#term-KV-cache)" in glossary.link_to(name, "KV cache").join(["](", ")"])


@needs_sources
def test_links_to_terms_lead_to_terms():
    anchors = {glossary.anchor(term) for term in KNOWN}
    for pattern in ("book/*.md", "source_assignments/*/*.py"):
        for path in ROOT.glob(pattern):
            for target in re.findall(r"glossary\.md#(term-[\w-]+)", path.read_text(encoding="utf-8")):
                assert target in anchors, (path.name, target)
