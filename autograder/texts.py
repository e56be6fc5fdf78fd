"""Two texts side by side, with a mark where they part: pale as long as they agree, strong from there on."""

from __future__ import annotations

import html
import textwrap

from autograder import tokens as look

WIDTH = 72
MARK = "▸"
CARD = f"font:14px/1.45 system-ui,sans-serif;color:{look.INK};background:{look.PAPER};border:1px solid {look.LINE};border-radius:4px;padding:.6em .9em;max-width:62em;margin:.2em 0"
PRE = f"color:{look.INK};white-space:pre-wrap;overflow-wrap:anywhere;font:13px/1.5 ui-monospace,monospace;margin:.2em 0 0;padding:0;border:0;background:none"
STRONG = f"color:{look.INK};font-weight:600;border-left:3px solid {look.ALARM};padding-left:3px"


class SideBySide:
    """The last expression of a cell shows it; printed it is plain text. at: the first place where the texts differ, None if nowhere."""

    def __init__(self, left: str, right: str, labels: tuple[str, str] = ("left", "right")):
        self.texts, self.labels = (left, right), labels
        same = next((n for n, (x, y) in enumerate(zip(left, right, strict=False)) if x != y), min(len(left), len(right)))
        self.at = None if left == right else same

    @property
    def sentence(self) -> str:
        """Where they part, in words."""
        if self.at is None:
            return "The two texts are the same, character for character."
        before = " ".join(self.texts[0][: self.at].split()[-3:])
        return f"They part at character {self.at + 1}, behind “{before}” ({MARK})."

    def __repr__(self) -> str:
        rows = [f"{label}:\n{textwrap.indent(_wrapped(self._marked(text)), '    ')}" for label, text in zip(self.labels, self.texts, strict=True)]
        return "\n".join([*rows, self.sentence])

    def _marked(self, text: str) -> str:
        return text if self.at is None else f"{text[: self.at]}{MARK}{text[self.at :]}"

    def _repr_html_(self) -> str:
        columns = "".join(
            f'<div style="flex:1 1 18em;min-width:0"><div style="color:{look.MUTED}">{html.escape(label)}</div><pre style="{PRE}">{self._pale_and_strong(text)}</pre></div>'
            for label, text in zip(self.labels, self.texts, strict=True)
        )
        return f'<div role="group" aria-label="two texts side by side" style="{CARD}"><div style="display:flex;flex-wrap:wrap;gap:.6em 1.6em">{columns}</div><div style="margin-top:.5em">{html.escape(self.sentence)}</div></div>'

    def _pale_and_strong(self, text: str) -> str:
        if self.at is None:
            return html.escape(text)
        same, own = text[: self.at], text[self.at :]
        return f'<span style="color:{look.MUTED}">{html.escape(same)}</span><span style="{STRONG}">{MARK}{html.escape(own)}</span>'


def _wrapped(text: str) -> str:
    """Each line of the text in lines of at most `WIDTH` characters."""
    return "\n".join(piece for line in text.split("\n") for piece in textwrap.wrap(line, WIDTH) or [""])
