"""`autograder prose`: spelling and prose of what people read, one line for each finding with its file and line.

Three kept tools do the judging: codespell knows common misspellings in any text, Hunspell with a British dictionary
knows every word, and proselint knows worn and clumsy phrases. Here the prose is only found: a file's text with
everything else blanked out, so that a finding's line is the file's.
"""

from __future__ import annotations

import argparse
import io
import re
import subprocess
import sys
import tokenize
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from autograder.staff import course_root

PAGES = ("*.md", "book/*.md")
LESSONS = ("source_assignments/*/*.py", "source_assignments/*/questions.toml")
MESSAGES = ("autograder/*.py", "autograder/misconceptions/*.py", "autograder/promises/*.py", "autograder/prompts/*.py", "autograder/staff/*.py",
            "autograder/staff/engine/*.py", "autograder/widgets/*.mjs", "book/_ext/*.py", "book/_static/page/*.mjs")
WORDS = Path("book", "words.txt")
DICTIONARY = Path("node_modules", "dictionary-en-gb")
WORD = re.compile(r"(?<![\w’'.])[A-Za-z][a-z]*(?:['’][a-z]+)*(?![\w(])")
NOT_ASKED = ("typography.symbols", "weasel_words.very", "dates_times.dates.decade_apostrophes")    # of proselint's checks: straight quotes and gaps where code was are meant; an H100's is no decade
ALLOWED = {"for ever", "number of different", "for free", "only-", "exactly-"}    # phrases that it misjudges: British; "asks for free blocks"; the names only-full, exactly-48


class Finding(NamedTuple):
    path: str
    line: int
    says: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.says}"


def main(argv: list[str] | None = None) -> int:
    argparse.ArgumentParser(prog="autograder prose", description=__doc__).parse_args(argv)
    root = course_root()
    try:
        found = findings(root)
    except ModuleNotFoundError as missing:
        print(f"{missing.name} is not installed: `make setup` installs it", file=sys.stderr)
        return 2
    except FileNotFoundError as missing:
        print(missing, file=sys.stderr)
        return 2
    for finding in found:
        print(finding)
    print(f"prose: {len(found)} finding(s)" if found else "prose: nothing to mend")
    return int(bool(found))


def findings(root: Path) -> list[Finding]:
    """All findings, file by file and line by line."""
    found = [*misspelt(root)]
    spelt = speller(root)
    for path in sorted(path for pattern in (*PAGES, *LESSONS, *MESSAGES) for path in root.glob(pattern)):
        text, name = prose_of(path), path.relative_to(root).as_posix()
        found += unknown_words(name, text, spelt)
        if name.endswith((".md", ".toml")) or name.startswith("source_assignments"):
            found += clumsy(name, text)
    return sorted(set(found))


# --- the three tools ---


def misspelt(root: Path) -> list[Finding]:
    """codespell over the whole course; pyproject.toml says what it leaves out."""
    run = subprocess.run([sys.executable, "-m", "codespell_lib", "--quiet-level=3"], cwd=root, capture_output=True, text=True)
    if "No module named" in run.stderr:
        raise ModuleNotFoundError(name="codespell")
    lines = (re.fullmatch(r"(?:\./)?(.+?):(\d+): (.+)", line) for line in run.stdout.splitlines())
    return [Finding(match[1], int(match[2]), match[3]) for match in lines if match]


def speller(root: Path) -> Callable[[str], bool]:
    """Whether a word is English or one of the course's own."""
    from hunspell import Hunspell

    if not (root / DICTIONARY / "index.dic").is_file():
        raise FileNotFoundError("The spelling check needs npm's dictionary-en-gb, which is not in node_modules: `make setup` installs it.")
    dictionary = Hunspell("index", hunspell_data_dir=str(root / DICTIONARY))
    own = own_words(root)
    known: dict[str, bool] = {}

    def is_spelt(word: str) -> bool:
        if word not in known:
            known[word] = word in own or word[:1].lower() + word[1:] in own or dictionary.spell(word)
        return known[word]

    return is_spelt


def own_words(root: Path) -> set[str]:
    """The course's word list; a line that begins with # is a heading."""
    lines = (root / WORDS).read_text(encoding="utf-8").splitlines()
    return {line.strip() for line in lines if line.strip() and not line.startswith("#")}


def unknown_words(name: str, text: str, spelt: Callable[[str], bool]) -> Iterator[Finding]:
    for number, line in enumerate(text.splitlines(), start=1):
        for match in WORD.finditer(line):
            word = re.sub(r"['’]s?$", "", match[0]).replace("’", "'")
            if len(word) > 2 and not spelt(word):
                yield Finding(name, number, f"{word!r} is in no dictionary: mend it, or add it to {WORDS.as_posix()}")


def clumsy(name: str, text: str) -> Iterator[Finding]:
    """What proselint finds."""
    from proselint.config import DEFAULT
    from proselint.registry import CheckRegistry
    from proselint.tools import LintFile

    _register(CheckRegistry())
    file = LintFile(source=name, content=text + "\n")
    for result in file.lint(DEFAULT):
        check = result.check_result
        phrase = file.content[slice(*check.span)].strip(' "\n').lower()
        if not check.check_path.startswith(NOT_ASKED) and phrase not in ALLOWED and "  " not in phrase:
            yield Finding(name, result.pos[0], f"{check.message} ({check.check_path})")


def _register(registry: object) -> None:
    from proselint.checks import __register__

    if not registry.checks:
        registry.register_many(__register__)


# --- finding the prose ---


def prose_of(path: Path) -> str:
    """The file's text with everything but prose blanked out, line for line."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        return _of_python(text)
    if path.suffix == ".mjs":
        return _of_javascript(text)
    if path.suffix == ".toml":
        text = re.sub(r"^\s*(?:\[.*\]|[\w.-]+\s*=)|^#", _blank, text, flags=re.M)
    return of_markdown(text)


# What is no prose in Markdown, in the order in which it is taken out.
NO_PROSE = [re.compile(pattern, flags) for pattern, flags in [
    (r"^---\n.*?\n---$", re.S | re.M),                                    # a header
    (r"^( *)(`{3,}|~{3,})(?!\{(?:figure|glossary|admonition|note|tip)).*?^\1\2`*~*$", re.S | re.M),
    (r"^ *(`{3,}|:{3,}).*$", re.M),
    (r"\{\w+\}`[^`]*<[^`]*>`|\{(?:cite|doc|ref|download)[\w:]*\}`[^`]*`", 0),
    (r"\{\w+\}(?=`)", 0),
    (r"(?<=\{term\})`|(?<!`)(`+)(?!`).*?(?<!`)\1(?!`)", re.S),            # code
    (r"(?<=\])\([^)\s]*\)|<?https?://[^\s)>|]*|(?<!\w)\]\[[\w-]*\]", 0),  # addresses
    (r"</?[a-z][^>]*?(?=alt=|>)|(?<=\")[^\">]*>|\balt=", 0),              # HTML, but for alternative texts
    (r"^\([\w-]+\)=$|^ *:\w+:", re.M),
    (r"\{[^{}\n]*\}|\\.", 0),                                             # what Python fills in
]]


def of_markdown(text: str) -> str:
    text = text.replace("{term}`", "      `")
    terms = re.compile(r"(?<=      )`([^`<]*)(?:<[^`]*>)?`")
    text = terms.sub(lambda match: f" {match[1]} " + _blank(re.match(r".*", match[0][len(match[1]) + 2 :], re.S)), text)
    for pattern in NO_PROSE:
        text = pattern.sub(_blank, text)
    return text


def _blank(match: re.Match) -> str:
    return re.sub(r"[^\n]", " ", match[0])


# Comments and the three kinds of strings, found from left to right so that none is taken for a part of another.
JAVASCRIPT = re.compile(r"""//[^\n]*|/\*.*?\*/|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|`(?:[^`\\]|\\.)*`""", re.S)


def _of_javascript(text: str) -> str:
    """Comments, and strings that are sentences."""
    kept, at = [], 0
    for match in JAVASCRIPT.finditer(text):
        words = re.sub(r"\$\{[^}]*\}|[\"'`]", _blank, match[0])
        kept += [_blank(re.match(r".*", text[at : match.start()], re.S)), of_markdown(words) if re.search(r"[a-z] [a-z]", words) else _blank(match)]
        at = match.end()
    return "".join(kept)


def _of_python(text: str) -> str:
    """Strings that are sentences, and comments."""
    lines = [" " * len(line) for line in text.split("\n")]
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in STRINGS and " " in token.string.strip() or token.type == tokenize.COMMENT:
            _lay(lines, token.start, _of_comment(token.string) if token.type == tokenize.COMMENT else _of_string(token))
    return "\n".join(lines)


# From Python 3.12 on the words of an f-string are tokens of their own.
STRINGS = {tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING)}


def _of_comment(comment: str) -> str:
    if not re.match(r"# ?%%", comment):
        return of_markdown(comment.replace("#", " "))
    alternative = re.search(r'"alt": "((?:[^"\\]|\\.)*)"', comment)     # a cell's marker says what its picture shows
    return " " * alternative.start(1) + alternative[1] if alternative else ""


def _of_string(token: tokenize.TokenInfo) -> str:
    body = re.sub(r"^[A-Za-z]*(\"{3}|'{3}|\"|')|(\"{3}|'{3}|\"|')$", _blank, token.string)
    return of_markdown(body)


def _lay(lines: list[str], start: tuple[int, int], text: str) -> None:
    """Put the text where it stood."""
    row, column = start
    for offset, part in enumerate(text.split("\n")):
        line = lines[row - 1 + offset]
        lines[row - 1 + offset] = line[:column] + part + line[column + len(part) :]
        column = 0


if __name__ == "__main__":
    sys.exit(main())
