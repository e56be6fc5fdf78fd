"""A verdict as a small drawn card for a notebook: the history as steps, expected beside actual, the pool before and after."""

from __future__ import annotations

import html

from autograder import tokens as look
from autograder.pool import Pool, pool_of
from autograder.record import State
from autograder.tell import advice, sentence, unwritten
from autograder.verdict import Breach, Verdict

MOST_SQUARES = 24

# A white card in any theme, like every other picture of the course.
CARD = f"font:14px/1.45 system-ui,sans-serif;color:{look.INK};background:{look.PAPER};border:1px solid {look.LINE};border-left:6px solid {{edge}};border-radius:4px;padding:.6em .9em;max-width:46em;margin:.2em 0"
CODE = "font-family:ui-monospace,monospace;font-size:13px"
EDGES = {"passed": look.HUES[2], "broken": look.ALARM, "unwritten": look.LINE}
MARKS = {"passed": "✓", "broken": "✗", "unwritten": "…"}


def card(verdict: Verdict) -> str:
    """The card as one piece of HTML: styles inline, nothing loaded, no script."""
    state = "passed" if verdict.passed else "broken" if verdict.broken or verdict.stopped or not verdict.answered else "unwritten"
    body = [f'<div style="font-weight:600">{MARKS[state]} {_text(sentence(verdict))}</div>']
    if verdict.stopped:
        body.append(_steps(verdict.stopped))
    elif verdict.broken:
        first, *others = verdict.broken
        body += _breach(first.breach, verdict)
        body += _advice(verdict)
        if others:
            names = ", ".join(other.promise.id for other in others)
            body.append(f'<div style="color:{look.MUTED};margin-top:.5em">{len(others)} more broken: {_text(names)}. Mend the first; the others often go with it.</div>')
        if verdict.unwritten:
            body.append(f'<div style="color:{look.MUTED}">Also {_text(unwritten(verdict))}.</div>')
    return f'<div role="group" aria-label="check" style="{CARD.format(edge=EDGES[state])}">{"".join(body)}</div>'


def _text(words: str) -> str:
    """Words for HTML; what stands between backticks becomes code."""
    parts = html.escape(words).split("`")
    if len(parts) % 2 == 0:
        return "`".join(parts)
    return "".join(f'<code style="{CODE}">{part}</code>' if n % 2 else part for n, part in enumerate(parts))


def _steps(calls: list[str]) -> str:
    rows = []
    for n, call in enumerate(calls):
        here = n == len(calls) - 1
        style = f"{CODE};{'font-weight:600' if here else ''}"
        rows.append(f'<li style="{style}">{html.escape(call)}{" ← here" if here and n else ""}</li>')
    return f'<ol style="margin:.4em 0 .4em 1.6em;padding:0" start="0">{"".join(rows)}</ol>'


def _breach(breach: Breach, verdict: Verdict) -> list[str]:
    out = [] if verdict.exercise.kind == "answers" else [_steps(breach.history)]
    labels = ("asked", "found") if verdict.exercise.kind == "answers" else ("expected", "actual")
    cells = "".join(
        f'<div style="flex:1 1 14em"><div style="color:{look.MUTED}">{label}</div><div>{_text(words)}</div></div>'
        for label, words in zip(labels, (breach.expected, breach.actual), strict=True)
    )
    out.append(f'<div style="display:flex;flex-wrap:wrap;gap:.3em 1.2em">{cells}</div>')
    if breach.after is not None:
        out += [_picture("before the last step", breach.before), _picture("after it, in your manager", breach.after)]
    return out


def _advice(verdict: Verdict) -> list[str]:
    words = advice(verdict)
    return [f'<div style="margin-top:.5em">{_text(words)}</div>'] if words else []


def pool_card(pool: Pool, title: str) -> str:
    """A pool by itself, on the same white card."""
    return f'<div role="group" aria-label="{html.escape(title)}" style="{CARD.format(edge=look.LINE)}">{_squares(title, pool)}</div>'


def _picture(label: str, state: State | None) -> str:
    return "" if state is None or state.problem else _squares(label, pool_of(state))


def _squares(label: str, pool: Pool) -> str:
    """The pool as numbered squares and the block tables below it."""
    squares = "".join(_square(block, pool) for block in pool.blocks[:MOST_SQUARES])
    more = f" … {len(pool.blocks) - MOST_SQUARES} more" if len(pool.blocks) > MOST_SQUARES else ""
    tables = "".join(
        f'<div style="{CODE}">{html.escape(name[:20])}: [{", ".join(map(str, blocks[:MOST_SQUARES]))}{", …" if len(blocks) > MOST_SQUARES else ""}], {length} token{"s" * (length != 1)}</div>'
        for name, (blocks, length) in list(pool.tables.items())[:8]
    )
    return f'<div style="margin-top:.5em"><div style="color:{look.MUTED}">{html.escape(label)}</div><div>{squares}{more}</div>{tables}</div>'


def _square(block, pool: Pool) -> str:
    marks = look.owners(pool.tables)
    free = block.kind == "free"
    letters = "".join(dict.fromkeys(marks[name].letter for name in block.owners))
    fill, border = look.PAPER, f"1px dashed {look.LINE}"
    if block.kind == "shared":
        fill, border = f"repeating-linear-gradient(45deg,{look.SHARED_FILL} 0 5px,{look.PAPER} 5px 8px)", f"1px solid {look.INK}"
    elif block.kind == "owned":
        fill, border = marks[block.owners[0]].hue, f"1px solid {look.INK}"
    elif not free:
        border = f"2px solid {look.ALARM}"
    ink = look.ink_on(fill) if block.kind == "owned" else look.INK
    words = "free" if free else f"{letters or '–'} ×{block.count}" if block.kind != "owned" else letters
    alarm = "!" if block.kind in ("torn", "lost") else ""
    return (
        f'<span style="display:inline-block;box-sizing:border-box;min-width:3.4em;margin:2px;padding:1px 4px;border:{border};background:{fill};color:{ink};font-size:12px;text-align:center">'
        f"#{block.number}{alarm}<br>{html.escape(words)}</span>"
    )
