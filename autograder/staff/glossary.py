"""Which terms of the glossary lack a link where a lesson or a page first uses them: `python -m autograder.staff.glossary`."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from autograder.staff import course_root
from autograder.staff.prose import prose_of

GLOSSARY = Path("book", "glossary.md")
TEXTS = ("book/*.md", "source_assignments/*/*.py")
# Written by the code that judges, or a list of terms itself.
NO_PROSE = {"book/glossary.md", "book/promises.md", "book/misconceptions.md", "book/outcomes.md"}
# Words of everyday, and terms whose words mean something else there: not asked of that text.
ELSEWHERE = {
    "book/instructors.md": {"release", "append", "history", "reserved", "head", "stub", "request", "prompt", "hit", "owner", "tail", "hole", "batch", "token", "fork", "audit"},
    "book/how-to-work.md": {"release", "append", "reserved", "head", "prompt", "hit", "owner", "tail", "hole", "token", "request", "batch", "fork"},
    "book/intro.md": {"append", "release", "head", "hit", "owner", "tail", "reserved", "prediction", "prompt", "batch"},
    "book/engines.md": {"hit", "request", "owner", "head", "release", "batch", "append", "tail"},
    "source_assignments/02_prefix_sharing/02_prefix_sharing.py": {"swap", "head"},      # a prompt's head, not attention's
    "source_assignments/03_copy_on_write/03_copy_on_write.py": {"head", "batch"},
    "book/reading.md": {"hit", "owner", "append", "hole", "release", "prompt", "batch", "audit", "request", "tail", "history"},
}
ALSO = {"query, key and value": r"query, key and value|queries, keys and values", "KV cache": r"KV[- ]caches?", "tail": r"tails?", "hybrid model": r"hybrid(?: Mamba)? models?", "fork": r"forks?(?! off)"}


class Missing(NamedTuple):
    path: str
    line: int
    term: str
    words: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.words!r} is the first use of {self.term!r}: link it to {link_to(self.path, self.term)}"


def terms(root: Path) -> list[str]:
    """The glossary's terms, in its order."""
    blocks = re.findall(r"^```\{glossary\}\n(.*?)^```$", (root / GLOSSARY).read_text(encoding="utf-8"), re.S | re.M)
    return [line for block in blocks for line in block.splitlines() if line and not line.startswith(" ")]


def anchor(term: str) -> str:
    """Where the page has the term, as Sphinx names it."""
    return "term-" + re.sub(r"[^A-Za-z0-9]+", "-", term).strip("-")


def link_to(path: str, term: str) -> str:
    """The address of the term in a link of this file; it works in JupyterLab and on the page."""
    return f"{'../../book/' if path.startswith('source_assignments') else ''}glossary.md#{anchor(term)}"


def missing_links(root: Path) -> list[Missing]:
    """First uses without a link, file by file."""
    known = terms(root)
    paths = sorted(path for pattern in TEXTS for path in root.glob(pattern) if path.relative_to(root).as_posix() not in NO_PROSE)
    return [missing for path in paths for missing in _missing(root, path, known)]


def _missing(root: Path, path: Path, known: list[str]) -> Iterator[Missing]:
    name, text = path.relative_to(root).as_posix(), path.read_text(encoding="utf-8")
    for term, (start, end) in first_uses(path, text, known).items():
        if term not in ELSEWHERE.get(name, ()) and not _is_linked(text, start, end, term):
            yield Missing(name, text.count("\n", 0, start) + 1, term, text[start:end])


def first_uses(path: Path, text: str, known: list[str]) -> dict[str, tuple[int, int]]:
    """Term → where its first use stands that could be a link: no heading, no code, no other link's words."""
    prose = list(prose_of(path))
    for start, end in _not_asked(path, text):
        prose[start:end] = re.sub(r"[^\n]", " ", "".join(prose[start:end]))
    found: dict[str, tuple[int, int]] = {}
    names = sorted(known, key=len, reverse=True)
    pattern = re.compile("|".join(f"(?P<t{number}>{_forms(term)})" for number, term in enumerate(names)), re.I)
    for match in pattern.finditer("".join(prose)):
        term = names[int(match.lastgroup[1:])]
        found.setdefault(term, match.span())
    return found


def _forms(term: str) -> str:
    """The term as it may be written: in the plural, and over a line's end."""
    form = ALSO.get(term) or re.sub(r" ", r"[ \\n]", re.escape(term).replace(r"\ ", " ")) + "(?:e?s)?"
    return rf"(?<![\w`-]){form}(?![\w`(-])"


def _not_asked(path: Path, text: str) -> Iterator[tuple[int, int]]:
    """Stretches where a term need not or cannot be a link."""
    for match in re.finditer(r"^#.*$|<summary>.*?</summary>|^\|.*\n(?=\|[ :|-]+$)|^:\w+:.*$", text, re.M):
        yield match.span()
    for match in re.finditer(r"!?\[([^\[\]]*)\]\(([^()\s]*)\)", text):
        if "glossary.md#" not in match[2]:
            yield match.span()
    if path.suffix == ".py":
        # Only what stands between a Markdown cell's marks.
        at = 0
        for cell in re.finditer(r'^# %% \[markdown\][^\n]*\n"""\n(.*?)^"""$', text, re.S | re.M):
            yield at, cell.start(1)
            at = cell.end(1)
        yield at, len(text)


def _is_linked(text: str, start: int, end: int, term: str) -> bool:
    if re.match(rf"[^\[\]\n]*\]\([^()\s]*glossary\.md#{re.escape(anchor(term))}\)", text[end:]) and "[" in text[max(0, start - 60) : start].split("]")[-1]:
        return True
    return bool(re.search(r"\{term\}`[^`]*$", text[max(0, start - 60) : start]))


def main() -> int:
    missing = missing_links(course_root())
    for one in missing:
        print(one)
    return int(bool(missing))


if __name__ == "__main__":
    sys.exit(main())
