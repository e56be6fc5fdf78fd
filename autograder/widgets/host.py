"""Shows a widget wherever the lesson is read: a live notebook, the static page, or a terminal.

A widget is `NAME.mjs` beside this file, a module whose default export has `render({model, el})`, with `NAME.css`.
Its model has two values: `state`, which Python gives and the widget only reads, and `kept`, which the widget writes
and Python may watch. In a notebook anywidget carries them; on the page `mount.mjs` does, without Python.
"""

from __future__ import annotations

import functools
import html
import json
import re
from collections.abc import Callable
from pathlib import Path

FOLDER = Path(__file__).parent
front = None    # in a page's Python: what makes its widgets, see autograder.page


def show(name: str, state: dict, *, key: str, text: str, still: str = "", kept: dict | None = None, on_kept: Callable[[dict], dict | None] | None = None, live: dict | None = None) -> object:
    """An object that a notebook shows as the widget `name`.

    key: the widget's own name on its page, under which the page keeps what the reader did. text: what a terminal
    shows. still: HTML for readers without scripts. on_kept is called with the new `kept` whenever the reader has
    changed it, and may return what changes in `state`; live is what `state` has besides. Both only in a live notebook.
    """
    page = page_html(name, state, key=key, still=still or f"<p>{html.escape(text)}</p>")
    kind = front or _anywidget()
    if kind is None:
        return Still(page, text)
    return kind.of(name, state | (live or {}), kept or {}, page, text, on_kept)


def page_html(name: str, state: dict, *, key: str, still: str) -> str:
    """The place on a static page where `mount.mjs` puts the widget; until then, and without scripts, `still` stands there."""
    # "<" would end the script element if "/script" came after it.
    data = json.dumps(state, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
    return (
        f'<div class="kv-widget" data-widget="{html.escape(name)}" data-key="{html.escape(key)}">'
        f'<script type="application/json">{data}</script><div class="kv-still">{still}</div></div>'
    )


class Still:
    """Where anywidget is not installed: the page's HTML, or the words."""

    def __init__(self, page: str, text: str):
        self.page, self.text = page, text

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict:
        return {"text/plain": self.text, "text/html": self.page}

    def __repr__(self) -> str:
        return self.text


@functools.cache
def _anywidget() -> type | None:
    """The widget class of a live notebook; None where anywidget is not installed or nobody draws widgets."""
    try:
        import anywidget
        import traitlets
        from IPython import get_ipython
    except ImportError:
        return None
    if get_ipython() is None:
        return None

    class Live(anywidget.AnyWidget):
        _esm = ""
        state = traitlets.Dict().tag(sync=True)
        kept = traitlets.Dict().tag(sync=True)

        @classmethod
        def of(cls, name: str, state: dict, kept: dict, page: str, text: str, on_kept: Callable | None) -> Live:
            live = _live(cls, name)(state=state, kept=kept)
            live.page, live.text = page, text
            if on_kept:
                live.observe(lambda change: live._answer(on_kept(change["new"])), "kept")
            return live

        def _answer(self, changed: dict | None) -> None:
            if changed:
                self.state = self.state | changed

        def _repr_mimebundle_(self, **kwargs: object) -> dict | tuple:
            bundle = super()._repr_mimebundle_(**kwargs)
            data = bundle[0] if isinstance(bundle, tuple) else bundle
            if data:
                data.update({"text/plain": self.text, "text/html": self.page})
            return bundle

    return Live


@functools.cache
def _live(base: type, name: str) -> type:
    """The class of one widget; anywidget reads its module and its style as one text each."""
    return type(f"Live_{name}", (base,), {"_esm": script(name), "_css": css(name)})


_IMPORT = re.compile(r'^import \{([^}]*)\} from "\./([\w-]+)\.mjs";\n', re.M)
_EXPORT = re.compile(r"^export (?=(?:async )?(?:function|const|class) (\w+))", re.M)
_STYLE_IMPORT = re.compile(r'^@import "\./([\w-]+)\.css";\n', re.M)


@functools.cache
def script(name: str) -> str:
    """The widget's module with the modules that it imports put before it: a notebook loads one text, which has no neighbours.

    Of import and export only the forms that our modules use are known: `import { a, b } from "./x.mjs";` on one line,
    and `export` before a function, a class or one const.
    """
    order: list[str] = []
    _needed(name, order)
    return "".join(f"const $_{module} = (() => {{\n{_body(module)}\nreturn {{ {', '.join(_EXPORT.findall(_source(module)))} }};\n}})();\n" for module in order[:-1]) + _linked(_source(name))


def _needed(module: str, order: list[str]) -> None:
    for _, other in _IMPORT.findall(_source(module)):
        if other not in order:
            _needed(other, order)
    order.append(module)


def _source(module: str) -> str:
    return (FOLDER / f"{module}.mjs").read_text("utf-8")


def _body(module: str) -> str:
    return _EXPORT.sub("", _linked(_source(module)))


def _linked(source: str) -> str:
    """Imports as constants from the modules put before; `a as b` reads `a: b` there."""
    return _IMPORT.sub(lambda found: f"const {{{found[1].replace(' as ', ': ')}}} = $_{found[2]};\n", source)


@functools.cache
def css(name: str) -> str:
    """The colours that all widgets share, then the widget's own style with the styles that it imports."""
    from autograder.widgets.colours import COLOURS

    return COLOURS + _style(name)


def _style(name: str) -> str:
    return _STYLE_IMPORT.sub(lambda found: _style(found[1]), (FOLDER / f"{name}.css").read_text("utf-8"))
