"""Each number that a lesson must hold stands in it, with the words it belongs to: in its prose, its outcomes or its outputs."""

import json
import re

import pytest

from autograder.staff import answers
from conftest import ROOT, needs_sources

pytestmark = [needs_sources]
ONE, TWO, THREE = "01_contiguous_vs_paged", "02_prefix_sharing", "03_copy_on_write"

# (lesson, what it is, a pattern that finds the number together with its words; white space counts as one space)
TABLE = [
    (ONE, "bytes per token", r"KV bytes per token = 2 × layers × KV heads × head dim"),
    (ONE, "OPT-13B's bytes", r"OPT-13B, Llama-2-13B +819,200"),
    (ONE, "Llama-3-8B's block", r"Llama-3-8B +131,072 +2\.00 MiB"),
    (ONE, "Llama-3-70B's block", r"Llama-3-70B +327,680 +5\.00 MiB"),
    (ONE, "Qwen3-8B's block", r"Qwen3-8B +147,456 +2\.25 MiB"),
    (ONE, "DeepSeek-V3's block", r"DeepSeek-V3 \(latent\) +70,272 +1\.07 MiB"),
    (ONE, "a 12 GiB cache of OPT-13B", r"OPT-13B, Llama-2-13B +819,200 +12\.50 MiB +15,728 +7"),
    (ONE, "33 tokens are 3 blocks", r"33 ÷ 16 = 2\.0625, rounded up: \*\*3 blocks\*\*"),
    (ONE, "48 slots", r"3 × 16 = \*\*48 slots\*\*"),
    (ONE, "slack of 15", r"48 − 33 = \*\*15 slots\*\*"),
    (ONE, "31.25 % of this allocation", r"15 ÷ 48 = 0\.3125 = \*\*31\.25 %\*\*\. 31\.25 % of \*this allocation\*"),
    (ONE, "not of the pool", r"It is not 31\.25 % of the GPU's memory"),
    (ONE, "the boundary prediction", r"has 20 tokens in blocks of 16\. How many blocks does it hold \*\*now\*\*\? How many after \*\*12 more\*\* .*? How many after \*\*13\*\*"),
    (ONE, "the boundary outcome", r"Now 2, after 12 more 2, after 13 more 3"),
    (ONE, "six public threads", r"Six public threads \(65, 66, 71, 150, 151, 240\)"),
    (ONE, "Table 1, simulated and published", r"15\.7, 9\.6 and 60\.1 thousand against the published 15\.7, 9\.7 and 60\.1"),
    (ONE, "Orca (Max): a batch of 7", r"15,728 slots hold 7 reservations of 2,048"),
    (ONE, "8.9 % external", r"left over 1,392 slots = 8\.9 %"),
    (ONE, "Figure 2 Max", r"Max +tokens +\d\d\.\d ± \d\.\d +20\.4"),
    (ONE, "Figure 2 Max reserved", r"Max +reserved +\d\d\.\d ± \d\.\d +13\.3"),
    (ONE, "Figure 2 Max internal", r"Max +internal +\d\d\.\d ± \d\.\d +57\.3"),
    (ONE, "Figure 2 Oracle", r"Oracle +tokens +\d\d\.\d ± \d\.\d +38\.2"),
    (ONE, "Figure 2 Oracle reserved", r"Oracle +reserved +\d\d\.\d ± \d\.\d +25\.2"),
    (ONE, "Figure 2 Oracle external", r"Oracle +external +\d\d\.\d ± \d\.\d +36\.6"),
    (ONE, "Figure 2 paged", r"paged +tokens +\d\d\.\d ± \d\.\d +96\.3"),
    (ONE, "lengths are an assumption", r"spread of the lengths is ours"),
    (ONE, "why 16", r"block size +1 +2 +4 +8 +16 +32 +64 +128 +256"),
    (ONE, "blog's waste", r"60[–-]80 %"),
    (ONE, "kernel's cost", r"20–26 % \*?slower\*? than FasterTransformer"),
    (TWO, "default without sharing", r"Without sharing: 3 × 4 = 12 blocks"),
    (TWO, "default with sharing", r"With sharing: 2 \+ 3 × 2 = 8 blocks"),
    (TWO, "default saving", r"2 \+ 3 × 2 = 8 blocks, so 4 of 12 are saved"),
    (TWO, "the calculator begins there", r"Requests that start with the same text: 3 requests of 32 \+ 20 tokens in blocks of 16 take 12 blocks without sharing and 8"),
    (TWO, "the 40-token prefix", r"a common prefix of \*\*40\*\* tokens, \*\*3\*\* requests, \*\*20\*\* tokens of their own, blocks of \*\*16\*\*"),
    (TWO, "one request", r"the same prefix of 40 and \*\*1\*\* request"),
    (TWO, "prefixes of 80 and 341", r"the 80 and 341 tokens of the paper's own shared prefixes"),
    (TWO, "the same looks in another model", r"may two unrelated models reuse a block because the text in it looks identical"),
    (TWO, "47 tokens at block 16", r"prefix of \**47\** tokens"),
    (TWO, "at least one token is computed", r"Leave at least one token to compute"),
    (TWO, "count 0 is free and findable", r"A block with count 0 is free and findable"),
    (TWO, "tails before heads", r"Give up tails before heads"),
    (THREE, "the walk's start", r"A pool of 10 blocks of 16 slots\. A's 20 tokens need two blocks"),
    (THREE, "the walk's outcome", r"Block 0 has 2 references, 3 blocks are in use, and B's table is \[0, 2\]"),
    (THREE, "144 blocks", r"⌈2,300 / 16⌉ = \*\*144\*\*"),
    (THREE, "576 without", r"4 × 144 = \*\*576\*\*"),
    (THREE, "125 shared", r"2,000 / 16 = \*\*125\*\* blocks exactly"),
    (THREE, "201 with", r"125 \+ 4 × 19 = \*\*201\*\*"),
    (THREE, "why no copy", r"Copies: \*\*none\*\*\. 2,000 is a multiple of 16"),
    (THREE, "2,005 tokens", r"Take a 2,005-token prompt"),
    (THREE, "n − 1 copies", r"there are \*\*n − 1 copies\*\*, not n"),
    (THREE, "n = 8", r"the prompt is stored eight times"),
    (THREE, "copies of 2, 5 and 12.5 MiB", r"2 MiB in Llama-3-8B, 5 MiB in Llama-3-70B and 12\.5 MiB in Llama-2-13B"),
    (THREE, "Fig. 15a, n = 2", r"n = 2: closed form +6\.00 %, published +6\.09 %"),
    (THREE, "Fig. 15a, n = 4", r"n = 4: closed form +9\.00 %, published +8\.53 %"),
    (THREE, "Fig. 15a, n = 6", r"n = 6: closed form +10\.00 %, published +9\.79 %"),
    (THREE, "Fig. 15b", r"published\) \| 37\.56 % \| 53\.13 % \| 55\.16 %"),
    (THREE, "ShareGPT", r"16\.2–30\.5 % for parallel sampling and 44\.3–66\.3 % for beam search"),
    (THREE, "V0's end", r"V0 was removed on 2025-09-20 \(#25321\), the `copy_blocks` operation on 2025-12-24 \(#30967\)"),
    (THREE, "V1's copy-on-write", r"since #45939 \(2026-06-22\) and #46384 \(2026-07-12\)"),
    (THREE, "four bugs in a day", r"On 14 February 2023 the authors"),
    (THREE, "the four commits", r"c128c2ed, 1f739f9b, be1e2163, 2729087e"),
    (THREE, "the order after step 4", r"the order is 1, 2, 0"),
    (THREE, "latest first", r"the latest to arrive goes first"),
]  # fmt: skip


@pytest.fixture(scope="session")
def lessons():
    """Lesson → all that a reader of it meets: prose and code, outcomes of its prompts, outputs of the answer key."""
    found = {}
    for lesson in {row[0] for row in TABLE}:
        folder = ROOT / "source_assignments" / lesson
        parts = [(folder / f"{lesson}.py").read_text("utf-8"), (folder / "questions.toml").read_text("utf-8")]
        cells = json.loads(answers.ensure(folder).read_text("utf-8"))["cells"]
        for output in (output for outputs in cells.values() for output in outputs):
            parts += [_joined(output.get("text", "")), _joined(output.get("data", {}).get("text/plain", ""))]
        found[lesson] = re.sub(r"\s+", " ", _without_links("\n".join(parts)))
    return found


def _without_links(text):
    """The words of links stay, their addresses go: a number's words may be a term of the glossary."""
    return re.sub(r"\[([^\[\]]+)\]\([^()\s]*glossary\.md[^()\s]*\)", r"\1", text)


def _joined(text):
    return text if isinstance(text, str) else "".join(text)


@pytest.mark.parametrize(("lesson", "what", "pattern"), TABLE, ids=[f"{row[0][:2]}-{row[1]}" for row in TABLE])
def test_number_stands_in_its_lesson(lesson, what, pattern, lessons):
    assert re.search(pattern, lessons[lesson]), what


def test_a_number_that_is_gone_is_missed(lessons):
    """The table finds each number in one or two places, not in any text."""
    for lesson, what, pattern in TABLE:
        hits = len(re.findall(pattern, lessons[lesson]))
        assert hits <= 4, (what, hits)
        assert not re.search(pattern, re.sub(r"\d", "#", lessons[lesson])) or not re.search(r"\d", re.sub(r"\\d|\{\d", "", pattern)), what
