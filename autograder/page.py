"""The Python of a static page: runs a lesson's cells in the browser and hands what they show to the page as plain data.

`Page(tell)` keeps one namespace, as a notebook's kernel does. While a cell runs, `tell("text" | "html", words)` is
called for everything that it prints or displays; `run` returns how it ended. It needs nothing of a browser.
"""

from __future__ import annotations

import ast
import builtins
import contextlib
import html
import importlib.abc
import importlib.machinery
import io
import json
import linecache
import re
import sys
import traceback
import types
from collections.abc import Callable

from autograder.widgets import host

MOST_CHARACTERS, MOST_LINES = 20_000, 1_000  # of one cell's text; a browser that draws much more stops answering
MOST_HTML = 300_000
NAME = "<cell {}>"
# What lessons import and no package registry offers for Python in a browser.
ABSENT = ("numpy", "matplotlib", "torch")


class NeedsNotebook(ImportError):
    """The cell needs a package that the page's Python does not have."""


class Absent(types.ModuleType):
    """Stands for such a package, so that a cell that only imports it still runs; using it raises NeedsNotebook."""

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        package = self.__name__.split(".")[0]
        raise NeedsNotebook(f"This cell needs {package}, which Python in a browser does not have here: run it in the lesson's notebook.")


class AbsentFinder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds the packages of ABSENT, and their parts, where nothing else has found them."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> importlib.machinery.ModuleSpec | None:
        return importlib.machinery.ModuleSpec(name, self, is_package=True) if name.split(".")[0] in ABSENT else None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        return Absent(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        """Nothing is in it."""


class Screen(io.TextIOBase):
    """What a cell prints, told line by line and cut after MOST_CHARACTERS or MOST_LINES with a sentence."""

    def __init__(self, tell: Callable[[str, str], None]):
        self.tell, self.line, self.characters, self.lines = tell, "", 0, 0

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        if self.lines >= MOST_LINES or self.characters >= MOST_CHARACTERS:
            return len(text)
        room = text[: MOST_CHARACTERS - self.characters]
        whole, newline, rest = room.rpartition("\n")
        whole = "\n".join(whole.split("\n")[: MOST_LINES - self.lines])
        self.characters += len(room)
        self.lines += (whole + newline).count("\n")
        if newline:
            self.tell("text", self.line + whole + newline)
            self.line = ""
        self.line += rest
        if self.lines >= MOST_LINES or self.characters >= MOST_CHARACTERS:
            self.flush()
            self.tell("text", f"\n… The rest of this cell's output is left out: a cell shows at most {MOST_LINES:,} lines or {MOST_CHARACTERS:,} characters.\n")
        return len(text)

    def flush(self) -> None:
        if self.line:
            self.tell("text", self.line)
            self.line = ""


class Page:
    """One Python for one page."""

    def __init__(self, tell: Callable[[str, str], None]):
        self.tell = tell
        self.module = types.ModuleType("__main__")
        self.module.__dict__["__builtins__"] = builtins
        self.passed = False
        self.widgets: dict[str, Callable[[dict], dict | None]] = {}

    def begin(self) -> None:
        """Take over what belongs to the whole process. Only the page's worker does this."""
        sys.modules["__main__"] = self.module
        sys.meta_path.append(AbsentFinder())
        builtins.input = _no_input
        sys.modules.update(_like_ipython(self.display))
        host.front = Widgets(self.widgets)

    def run(self, name: str, source: str) -> str:
        """Run one cell and say as JSON how it ended.

        how: "done"; "unwritten" (NotImplementedError); "lacks" (a package that is not there); "broken" (a check, which
        has shown its card); "failed". error: what the reader is told. passed: whether a check passed.
        """
        self.passed = False
        screen = Screen(self.tell)
        with contextlib.redirect_stdout(screen), contextlib.redirect_stderr(screen):
            try:
                self._execute(NAME.format(name), source)
                how, error = "done", ""
            except BaseException as raised:
                how, error = _ending(raised)
            screen.flush()
        return json.dumps({"how": how, "error": error[:MOST_CHARACTERS], "passed": self.passed and how == "done"})

    def kept(self, key: str, data: str) -> str:
        """What changes in the state of the widget `key` now that the reader has changed what it keeps; both as JSON, null for nothing."""
        answer = self.widgets.get(key)
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            return json.dumps(answer(json.loads(data)) if answer else None)

    def _execute(self, name: str, source: str) -> None:
        """As a notebook: every statement, then the value of the last one if it is an expression without a semicolon."""
        linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
        tree = ast.parse(source, name)
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        space = self.module.__dict__
        exec(compile(tree, name, "exec", dont_inherit=True), space)
        if last is not None:
            value = eval(compile(ast.Expression(last.value), name, "eval", dont_inherit=True), space)
            if value is not None and not source.rstrip().endswith(";"):
                self.display(value)

    def display(self, value: object, raw: bool = False) -> None:
        """Show a value, or with raw a bundle of representations, as IPython's `display` does."""
        bundle = value if raw else _bundle(value)
        drawn, words = bundle.get("text/html"), str(bundle.get("text/plain", ""))
        self.passed |= words.startswith("✓ ")  # a check's verdict
        sys.stdout.flush()
        if drawn and len(drawn) <= MOST_HTML:
            self.tell("html", drawn)
        elif words:
            print(words)


class Widgets:
    """Stands where `autograder.widgets.host` has anywidget's class in a notebook: its widgets are answered through `Page.kept`."""

    def __init__(self, answers: dict[str, Callable[[dict], dict | None]]):
        self.answers = answers

    def of(self, name: str, state: dict, kept: dict, page: str, text: str, on_kept: Callable[[dict], dict | None] | None) -> host.Still:
        """The widget with the state that a live one has; key and still picture are those of `page`."""
        key = html.unescape(re.search(r'data-key="([^"]*)"', page)[1])
        if on_kept:
            self.answers[key] = on_kept
        still = page.partition('<div class="kv-still">')[2].removesuffix("</div></div>")
        return host.Still(host.page_html(name, state, key=key, still=still), text)


def _bundle(value: object) -> dict:
    for name in ("_repr_mimebundle_", "_repr_html_"):
        method = getattr(type(value), name, None)
        found = method(value) if method else None
        if found:
            found = found[0] if isinstance(found, tuple) else found
            return found if isinstance(found, dict) else {"text/html": found, "text/plain": repr(value)}
    return {"text/plain": repr(value)}


def _ending(raised: BaseException) -> tuple[str, str]:
    """How a cell ended that raised, and what the reader is told."""
    if isinstance(raised, NeedsNotebook):
        return "lacks", str(raised)
    if isinstance(raised, NotImplementedError):
        return "unwritten", "Not written yet: " + (str(raised) or "the cell raises NotImplementedError.")
    checks = sys.modules.get("autograder.checks")
    if checks and isinstance(raised, checks.PromiseBroken):
        return "broken", ""
    own = getattr(raised, "_render_traceback_", None)
    return "failed", "\n".join(own()) if own else short(raised)


def short(raised: BaseException) -> str:
    """The traceback with the cells' own lines alone; of a long recursion the two ends."""
    told = traceback.TracebackException.from_exception(raised)
    told.__cause__ = told.__context__ = None
    frames = [frame for frame in told.stack if frame.filename.startswith("<cell ")]
    cut = len(frames) > 6
    told.stack = traceback.StackSummary.from_list(frames[:2] + frames[-2:] if cut else frames)
    lines = list(told.format(chain=False))
    if cut:
        lines.insert(3, f"  … {len(frames) - 4:,} more calls …\n")
    return "".join(line for line in lines if not line.startswith("Traceback")).replace('  File "<cell ', 'cell "').replace('>", line', '", line').rstrip()


def _no_input(prompt: object = "") -> str:
    raise RuntimeError("input() waits for a keyboard that the page does not have: write the value into the cell instead.")


def _like_ipython(display: Callable) -> dict[str, types.ModuleType]:
    """What the package and the lessons ask of IPython: that somebody is listening, and `display`."""
    main, shown = types.ModuleType("IPython"), types.ModuleType("IPython.display")
    main.get_ipython = lambda: types.SimpleNamespace(kernel="page")
    main.display = shown
    shown.display = lambda *values, raw=False, **_: [display(value, raw) for value in values] and None
    shown.HTML = _Html
    return {"IPython": main, "IPython.display": shown}


class _Html:
    def __init__(self, data: str):
        self.data = data

    def _repr_html_(self) -> str:
        return self.data
