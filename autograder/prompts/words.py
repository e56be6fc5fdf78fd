"""A prompt and its outcome in words: for a terminal, and for readers of the page without scripts."""

from __future__ import annotations

import html
import re

from autograder.prompts.compare import Compared, compare
from autograder.prompts.questions import Field, Question


def told(asked: Question, answers: list[dict]) -> str:
    """The form in plain text, or once it is answered the answer beside the outcome and what is to be said of it."""
    if not answers:
        return f"{asked.title}\n{_form(asked)}"
    rows = compare(asked, answers[0] if asked.kind == "predict" else answers[-1])
    lines = [asked.title, *(_line(row) for row in rows)]
    return "\n".join([*lines, "", asked.reveal] if asked.kind == "predict" or all(row.right is not False for row in rows) else lines)


def _form(asked: Question) -> str:
    verb = f'{asked.kind}("{asked.id}", answer='
    fields = [f"  {field.key}: {field.label}{_options(field)}" for field in asked.fields]
    example = "{" + ", ".join(f'"{field.key}": …' for field in asked.fields) + "}"
    return "\n".join([*fields, f"Answer in code: {verb}{example})"])


def _options(field: Field) -> str:
    if not field.options:
        return ""
    if field.kind == "order":
        return "\n" + "\n".join(f"      {n}. {line}" for n, line in enumerate(field.options, 1))
    return f" ({' / '.join(field.options)})"


def _line(row: Compared) -> str:
    if row.right is None:
        return f"  {row.field.label}: you said {shown(row.field, row.answer)}. {row.why}".rstrip()
    sign = "✓ as it is" if row.right else f"✗ it is {shown(row.field, row.outcome)}"
    return f"  {row.field.label}: you said {shown(row.field, row.answer)}, {sign}. {row.why}".rstrip()


def shown(field: Field, value: object) -> str:
    """An answer as a reader would write it."""
    if field.kind in ("list", "order"):
        return "[" + ", ".join(map(str, value)) + "]"
    return str(value)


def still(asked: Question) -> str:
    """The prompt without a form, in HTML."""
    items = "".join(f"<li>{_marked(field.label)}{_listed(field)}</li>" for field in asked.fields)
    return f'<p><strong>{_marked(asked.title)}</strong></p><ul>{items}</ul><p>Write your answer down. What comes of it is on the page of <a href="../../book/outcomes.html#outcome-{html.escape(asked.id)}">outcomes</a>.</p>'


def _listed(field: Field) -> str:
    if field.kind == "order":
        return f"<ol>{''.join(f'<li>{_marked(line)}</li>' for line in field.options)}</ol>"
    return _marked(_options(field))


def _marked(words: str) -> str:
    """The words as HTML; what stands between backquotes is code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", html.escape(words))
