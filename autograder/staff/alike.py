"""Pairs of submissions that are alike beyond the template: passages side by side, for a person to look at. Never a verdict.

Tokens are fingerprinted by copydetect (winnowing, as Moss does it): names, layout and comments do not matter. What the
release gives to everybody is left out, and so is what many of the class have written: there are few ways of writing
three lines, and having found one of them is no evidence.
"""

from __future__ import annotations

import io
import itertools
import logging
from collections import Counter
from dataclasses import dataclass

from nbformat.notebooknode import NotebookNode
from nbgrader import utils

GRAM, WINDOW = 12, 4       # characters of the token text that make a fingerprint; of so many neighbours one is kept
COMMON = 0.15              # a fingerprint that a larger share of the class has is no evidence …
AT_LEAST = 3               # … nor one that so many have, in a small class
ENOUGH = 90                # characters of token text that a pair must share beyond that: about eight lines
SHARE = 0.5                # and of the smaller submission's own


@dataclass(frozen=True)
class Pair:
    """Two submissions. share: of the smaller one's own tokens; passages: (lines of the one, lines of the other)."""

    one: str
    other: str
    share: float
    passages: list[tuple[str, str]]


def code_of(nb: NotebookNode) -> str:
    """What somebody wrote: the solution cells, one after the other."""
    return "\n\n".join(cell.source for cell in nb.cells if cell.cell_type == "code" and utils.is_solution(cell))


def pairs(written: dict[str, str], template: str) -> list[Pair]:
    """student → code; the pairs that are alike, the most alike first. Raises ImportError without copydetect."""
    from copydetect import CodeFingerprint, compare_files

    logging.getLogger("copydetect").setLevel(logging.ERROR)

    def fingerprint(code: str, known: list[int]) -> CodeFingerprint:
        return CodeFingerprint("solution.py", GRAM, WINDOW, boilerplate=known, fp=io.StringIO(code))

    given = set(fingerprint(template, []).hashes)
    everything = {student: set(fingerprint(code, []).hashes) for student, code in written.items()}
    have = Counter(hash for hashes in everything.values() for hash in hashes)
    common = [hash for hash, count in have.items() if hash in given or count > max(AT_LEAST, COMMON * len(written))]
    prints = {student: made for student, code in written.items() if (made := fingerprint(code, common)).hashes and made.token_coverage}
    found = []
    for one, other in itertools.combinations(sorted(prints), 2):
        if not prints[one].hashes & prints[other].hashes:
            continue
        shared, shares, places = compare_files(prints[one], prints[other])
        if shared >= ENOUGH and max(shares) >= SHARE:
            passages = (_lines(written[who], where) for who, where in zip((one, other), places, strict=True))
            found.append(Pair(one, other, min(1.0, float(max(shares))), list(itertools.zip_longest(*passages, fillvalue=""))))
    return sorted(found, key=lambda pair: (-pair.share, pair.one, pair.other))


def _lines(code: str, where: list) -> list[str]:
    """The whole lines in which the shared places lie; places on neighbouring lines are one passage."""
    numbered = code.split("\n")
    starts = list(itertools.accumulate((len(line) + 1 for line in numbered), initial=0))
    line_of = lambda place: max(n for n, start in enumerate(starts[:-1]) if start <= place)  # noqa: E731
    runs: list[list[int]] = []
    for begin, end in sorted(zip(*where, strict=True)):
        first, last = line_of(min(begin, len(code))), line_of(min(max(begin, end - 1), len(code)))
        if runs and first <= runs[-1][1] + 1:
            runs[-1][1] = max(runs[-1][1], last)
        else:
            runs.append([first, last])
    return ["\n".join(numbered[first : last + 1]) for first, last in runs]
