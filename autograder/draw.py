"""Figures of pools, tables, memory, waste, savings and counts, all in the visual language of `tokens`.

Every function returns a matplotlib Figure that pyplot has already let go of: as the last expression of a cell it
shows once. matplotlib is imported on first use.
"""

import textwrap

from . import tokens as look
from .pool import LARGEST_DRAWN, oddities, pool_of, summary

STYLE = {
    "font.family": "DejaVu Sans",      # comes with matplotlib, so a figure has the same letters on every machine
    "font.size": look.TEXT,
    "text.color": look.INK,
    "axes.labelcolor": look.INK,
    "axes.edgecolor": look.LINE,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.color": look.INK,
    "ytick.color": look.INK,
    "figure.facecolor": look.PAPER,
    "axes.facecolor": look.PAPER,
    "savefig.facecolor": look.PAPER,
    "text.parse_math": False,          # a sequence may be called "$x"
}


def blocks(manager, title=None, ax=None):
    """The pool as numbered squares, with the block tables beside it; works on any shape of manager."""
    pool = pool_of(_state(manager), getattr(manager, "num_blocks", None), getattr(manager, "block_size", None))
    try:
        style = _style()
    except ImportError:
        if ax is not None:
            raise
        return Squares(pool, title)
    with style:
        return _Sheet(pool, title).drawn(ax)


def memory(rows, size, title=None):
    """Contiguous memory maps, one bar per row: rows = [(label, [(start, length, kind, owner)])], in slots of 0 … size."""
    names = dict.fromkeys(owner for _, spans in rows for *_, kind, owner in spans if owner)
    marks = look.owners(names)
    with _style():
        fig, axes = _figure(look.FIGURE_WIDTH, 0.95 + 0.52 * len(rows) + 0.3 * bool(title))
        for y, (_, spans) in enumerate(rows):
            axes.barh(y, size, height=0.6, color=look.PAPER, edgecolor=look.LINE, linestyle=(0, (3, 2)))
            for start, length, kind, owner in spans:
                _span(axes, y, start, length, kind, marks.get(owner), size)
        _rows(axes, [label for label, _ in rows])
        axes.set(xlim=(0, size), xlabel="slots")
        _legend(axes, [kind for _, spans in rows for _, _, kind, _ in spans] + ["free"])
        return _finished(fig, axes, title)


def waste(bars, published=None, title=None):
    """Stacked bars in percent, {label: {kind: percent}}; published values stand under theirs as an outline."""
    published = published or {}
    with _style():
        fig, axes = _figure(look.FIGURE_WIDTH, 1.1 + 0.55 * len(bars) + 0.28 * len(published) + 0.3 * bool(title))
        places, y = [], 0.0
        for label, parts in bars.items():
            places.append(y)
            _stack(axes, y, 0.56, parts, outline=False)
            if label in published:
                y += 0.5
                _stack(axes, y, 0.32, published[label], outline=True)
            y += 0.95
        _rows(axes, list(bars), places)
        axes.set(xlim=(0, 100), xlabel="percent of the KV cache memory")
        _legend(axes, [kind for parts in bars.values() for kind in parts], outline="published" if published else None)
        return _finished(fig, axes, title)


def savings(x, series, xlabel, ylabel, published=None, title=None):
    """Lines over x, {label: values}; published values ({label: values} or {label: {x: value}}) as hollow markers."""
    x = list(x)
    with _style():
        fig, axes = _figure(look.FIGURE_WIDTH, 3.4)
        for n, (label, values) in enumerate(series.items()):
            axes.plot(x, list(values), label=label, **_line(n))
        for n, (label, values) in enumerate((published or {}).items()):
            known = list(series).index(label) if label in series else len(series) + n
            at, values = zip(*values.items(), strict=True) if hasattr(values, "items") else (x[:len(values)], values)
            axes.plot(at, values, label=f"{label}, published", **_line(known) | _HOLLOW)
        axes.set(xlabel=xlabel, ylabel=ylabel)
        axes.set_ylim(bottom=min(0, axes.get_ylim()[0]))
        axes.grid(axis="y", color=look.SHARED_FILL)
        if len(x) <= 10:
            axes.set_xticks(x)
        _legend_below(axes)
        return _finished(fig, axes, title)


def counts(manager_states, title=None):
    """Reference counts over time as steps: one item per moment, a manager, a read state or a {block: count}, or (label, item)."""
    moments = [item if isinstance(item, tuple) and len(item) == 2 and isinstance(item[0], str) else (None, item) for item in manager_states]
    held = [_held(item) for _, item in moments]
    numbers = sorted({number for ref in held for number in ref}, key=lambda b: (-max(ref.get(b, 0) for ref in held), b))
    shown = sorted(numbers[:len(look.LINE_HUES)])
    with _style():
        fig, axes = _figure(look.FIGURE_WIDTH, 3.0 + 0.3 * bool(title))
        for n, number in enumerate(shown):
            lift = 0.05 * (n - (len(shown) - 1) / 2)     # so that equal counts do not hide one another
            axes.plot(range(len(held)), [ref.get(number, 0) + lift for ref in held], label=f"#{number}",
                      drawstyle="steps-post", **_line(n))
        axes.set(ylabel="reference count", xlabel="operation")
        axes.set_ylim(-0.3, max([1, *(c for ref in held for c in ref.values())]) + 0.4)
        axes.yaxis.get_major_locator().set_params(integer=True)
        if len(held) <= 16:
            axes.set_xticks(range(len(held)), [label or str(n) for n, (label, _) in enumerate(moments)])
            if any(len(label or "") > 4 for label, _ in moments):
                axes.tick_params(axis="x", rotation=30)
        hidden = len(numbers) - len(shown)
        _legend_below(axes, f"and {hidden} more blocks, whose counts stay lower" if hidden else None)
        return _finished(fig, axes, title)


# --- the pool and its tables -------------------------------------------------------------------------------------------

class _Sheet:
    """One drawing of a pool. Coordinates are inches from the top left corner, so that text and squares keep their ratio."""

    MOST_TABLES, MOST_ENTRIES = 10, 6
    ENTRY = 0.4          # width of a table entry, inches
    TABLES = 2.75        # width of the column of tables

    def __init__(self, pool, title):
        self.pool, self.title = pool, title
        self.shown = pool.blocks[:LARGEST_DRAWN]
        self.marks = look.owners(pool.tables)
        total = len(self.shown)
        if total <= 48:
            self.step, self.columns = look.SQUARE + look.GAP, _columns(total)
        elif total <= 256:
            self.step, self.columns = 0.27, 16
        else:
            self.step, self.columns = 0.132, 32
        self.large = self.step > 0.5
        self.margin = 0.05 if self.large else 0.45

    def drawn(self, ax):
        """Draw onto the axes given, or onto a figure of its own; the figure is returned."""
        top = 0.35 if self.title else 0.05
        bottom_of_pool = top + self.step * -(-len(self.shown) // self.columns)
        left = self.margin + self.step * self.columns + 0.25 if self.shown else 0.05
        bottom_of_tables = top + self._tables_height()
        notes = [line for note in self._notes() for line in textwrap.wrap(note, 92)]
        bottom = max(bottom_of_pool, bottom_of_tables) + 0.12
        width = left + (self.TABLES if self.pool.tables else 0)
        width, height = max(width, 4.6 if notes else 0), bottom + 0.2 * len(notes) + 0.05
        fig, self.ax = _figure(width, height, layout=None) if ax is None else (ax.figure, ax)
        self.ax.set(xlim=(0, width), ylim=(height, 0), aspect="equal")
        self.ax.set_axis_off()
        if ax is None:
            self.ax.set_position((0, 0, 1, 1))
        if self.title:
            self._say(0.05, 0.14, self.title, size=look.TEXT + 1, weight="bold")
        self._pool(top)
        self._tables(left, top)
        for n, note in enumerate(notes):
            self._say(0.05, bottom + 0.1 + 0.2 * n, note, size=look.SMALL + 0.5, color=look.MUTED)
        return fig

    def _notes(self):
        hidden = len(self.pool.blocks) - len(self.shown)
        notes = [summary(self.pool) + "."] if self.shown else []
        notes += [f"Drawn: the first {len(self.shown):,} blocks; {hidden:,} more follow."] if hidden else []
        if not self.large:
            notes.append("Dashed: free.  Solid: one owner, lettered where its run begins.  Hatched: shared, ×count.")
        return notes + oddities(self.pool)

    def _pool(self, top):
        for place, block in enumerate(self.shown):
            row, column = divmod(place, self.columns)
            x, y = self.margin + column * self.step, top + row * self.step
            if not self.large and column == 0:
                self._say(self.margin - 0.06, y + self.step / 2, f"#{block.number}", ha="right", size=6.5, color=look.MUTED)
            self._square(x, y, block, first=column == 0 or self.shown[place - 1].owners != block.owners)

    def _square(self, x, y, block, first):
        """One block; small squares keep the outline, the fill and the hatch, and letter only where the owner changes."""
        side = self.step - (look.GAP if self.large else 0.03 if self.step > 0.2 else 0.016)
        free = block.kind in ("free", "lost")
        one = len(block.owners) == 1 and block.kind == "owned"
        fill = look.PAPER if free else self.marks[block.owners[0]].hue if one else look.SHARED_FILL
        torn = block.kind in ("lost", "torn")
        self._box(x, y, side, side, fill, look.ALARM if torn else look.LINE if free else look.INK, dashed=block.kind == "free",
                  hatch=look.HATCHES["shared"] * (1 if self.large else 2) if block.kind == "shared" else "", thick=1.6 if torn else 0.8 if self.large else 0.5)
        if self.large:
            self._lettering(x, y, side, block, fill)
        elif first and not free and side > 0.1:
            letters = self.marks[block.owners[0]].letter if one else "!" if torn else f"×{block.count}"
            self._say(x + side / 2, y + side / 2, letters, ha="center", size=7 if side > 0.2 else 5, color=look.ink_on(fill), weight="bold", pad=not one)

    def _lettering(self, x, y, side, block, fill):
        ink = look.ink_on(fill)
        hatched = block.kind == "shared"
        self._say(x + 0.05, y + 0.1, f"#{block.number}", size=7, color=ink, pad=hatched)
        if block.count > 1 or block.kind == "torn":
            self._say(x + side - 0.05, y + 0.1, f"×{block.count}" + "!" * (block.kind == "torn"), ha="right", size=7.5,
                      color=look.ALARM if block.kind == "torn" else ink, weight="bold", pad=hatched)
        letters = " ".join(self.marks[name].letter for name in dict.fromkeys(block.owners))
        letters = letters if len(letters) <= 7 else letters[:5] + " …"
        word = {"free": "free", "lost": "lost"}.get(block.kind, letters)
        size = look.SMALL if block.kind in ("free", "lost") else 11 if len(word) <= 3 else look.TEXT
        self._say(x + side / 2, y + 0.31, word, ha="center", size=size, weight="normal" if word == "free" else "bold",
                  color=look.ALARM if block.kind == "lost" else look.MUTED if word == "free" else ink, pad=hatched)
        if block.owners and self.pool.block_size:
            self._slots(x + 0.05, y + side - 0.16, side - 0.1, block.filled)

    def _slots(self, x, y, width, filled):
        """The row of slots inside a block, filled from the left; more than 32 slots become one bar."""
        size = self.pool.block_size
        cells = size if size <= 32 else 1
        self._box(x, y, width, 0.11, look.PAPER, look.INK, thick=0.5)
        self._box(x, y, width * filled / size, 0.11, look.INK, look.INK, thick=0)
        for cell in range(1, cells):
            at = x + width * cell / cells
            self.ax.plot([at, at], [y, y + 0.11], color=look.PAPER if cell < filled else look.LINE, linewidth=0.5)

    def _tables_height(self):
        rows = min(len(self.pool.tables), self.MOST_TABLES)
        return 0.2 + 0.66 * rows + 0.2 * (len(self.pool.tables) > rows) if rows else 0

    def _tables(self, x, y):
        tables = list(self.pool.tables.items())
        if not tables:
            return
        self._say(x, y + 0.05, "block tables", weight="bold", size=look.TEXT)
        self._say(x + 0.95, y + 0.05, "logical index over physical block", size=6.5, color=look.MUTED)
        y += 0.22
        for name, (numbers, length) in tables[:self.MOST_TABLES]:
            self._table(x, y, name, numbers, length)
            y += 0.66
        if len(tables) > self.MOST_TABLES:
            self._say(x, y + 0.08, f"… and {len(tables) - self.MOST_TABLES:,} more sequences", color=look.MUTED)

    def _table(self, x, y, name, numbers, length):
        mark = self.marks[name]
        self._box(x, y, 0.22, 0.2, mark.hue, look.INK)
        self._say(x + 0.11, y + 0.105, mark.letter, ha="center", color=look.ink_on(mark.hue), weight="bold", size=look.SMALL + 1)
        words = f"{length:,} token{'' if length == 1 else 's'}"
        self._say(x + 0.29, y + 0.105, words if name == mark.letter else f"{_short(name)}: {words}", size=look.SMALL + 0.5)
        for place, (index, number) in enumerate(_ends(numbers, self.MOST_ENTRIES)):
            left = x + place * self.ENTRY
            if index is None:
                self._say(left + self.ENTRY / 2, y + 0.46, "…", ha="center")
                continue
            self._say(left + self.ENTRY / 2 - 0.02, y + 0.29, str(index), ha="center", size=6, color=look.MUTED)
            self._box(left, y + 0.36, self.ENTRY - 0.04, 0.2, look.PAPER, look.INK, thick=0.6)
            self._box(left, y + 0.36, 0.06, 0.2, mark.hue, look.INK, thick=0.6)
            self._say(left + self.ENTRY / 2 + 0.01, y + 0.465, f"#{number}", ha="center", size=7 if number < 1000 else 6)
        if not numbers:
            self._say(x, y + 0.42, "no block yet", size=look.SMALL, color=look.MUTED)

    def _box(self, x, y, width, height, fill, edge, dashed=False, hatch="", thick=0.8):
        from matplotlib.patches import Rectangle

        if hatch:
            self.ax.add_patch(Rectangle((x, y), width, height, facecolor=fill, linewidth=0))
            self.ax.add_patch(Rectangle((x, y), width, height, facecolor="none", edgecolor=look.LINE, linewidth=0, hatch=hatch))
            fill = "none"
        self.ax.add_patch(Rectangle((x, y), width, height, facecolor=fill, edgecolor=edge, linewidth=thick, linestyle=(0, (3, 2)) if dashed else "-"))

    def _say(self, x, y, text, size=look.TEXT, color=look.INK, ha="left", weight="normal", pad=False):
        behind = {"facecolor": look.SHARED_FILL, "edgecolor": "none", "pad": 0.8} if pad and text else None
        self.ax.text(x, y, _drawable(text), size=size, color=color, ha=ha, va="center", weight=weight, bbox=behind)


def _columns(total):
    """How many squares to a row: the width that leaves the fewest gaps in the last row."""
    return max(1, total) if total <= 4 else min((6, 5, 4), key=lambda columns: -total % columns)


def _ends(numbers, most):
    """(logical index, block) pairs; of a long table the first ones, a gap (None, None), and the last."""
    pairs = list(enumerate(numbers))
    return pairs if len(pairs) <= most else pairs[:most - 2] + [(None, None), pairs[-1]]


def _short(name, most=16):
    return name if len(name) <= most else name[:most - 1] + "…"


def _drawable(text):
    """The text with every character that the figure's font lacks shown as "?", so that matplotlib has nothing to warn about."""
    from matplotlib import font_manager, get_data_path

    if text.isascii() and text.isprintable():
        return text
    font = font_manager.get_font(f"{get_data_path()}/fonts/ttf/DejaVuSans.ttf")
    return "".join(c if font.get_char_index(ord(c)) and c.isprintable() else "?" for c in text)


# --- bars, lines and what all figures share ------------------------------------------------------------------------------

_HOLLOW = {"linestyle": "none", "markerfacecolor": look.PAPER, "markersize": 9, "markeredgewidth": 1.6}


def _line(n):
    n %= len(look.LINE_HUES)
    return {"color": look.LINE_HUES[n], "linestyle": look.DASHES[n], "marker": look.MARKERS[n], "markersize": 5, "linewidth": 1.8}


def _span(axes, y, start, length, kind, mark, size):
    """One stretch of a memory map; token states carry the owner's hue and letter."""
    fill = mark.hue if mark and kind == "tokens" else look.KIND_FILLS[_known(kind)]
    _hatched(axes, y, 0.6, start, length, fill, kind)
    if mark and length > 0.03 * size and kind == "tokens":
        axes.text(start + length / 2, y, _drawable(mark.letter), ha="center", va="center", weight="bold", color=look.ink_on(fill))


def _stack(axes, y, height, parts, outline):
    """One stacked bar, always in the order of the visual language; values of 4 percent and more are written into it."""
    left = 0.0
    for kind in sorted(parts, key=lambda kind: look.KINDS.index(_known(kind))):
        percent = parts[kind]
        if outline:
            axes.barh(y, percent, left=left, height=height, facecolor="none", edgecolor=look.INK, linewidth=1.2)
        else:
            _hatched(axes, y, height, left, percent, look.KIND_FILLS[kind], kind)
        if percent >= 4:
            axes.text(left + percent / 2, y, f"{percent:.1f}", ha="center", va="center", size=look.SMALL if outline else look.TEXT,
                      bbox=None if outline else {"facecolor": look.KIND_FILLS[kind], "edgecolor": "none", "pad": 1})
        left += percent


def _hatched(axes, y, height, left, width, fill, kind):
    axes.barh(y, width, left=left, height=height, color=fill, linewidth=0)
    axes.barh(y, width, left=left, height=height, facecolor="none", edgecolor=look.LINE, hatch=look.HATCHES[kind], linewidth=0)
    dash = (0, (3, 2)) if kind == "free" else "-"
    axes.barh(y, width, left=left, height=height, facecolor="none", edgecolor=look.INK, linewidth=0.8, linestyle=dash)


def _known(kind):
    if kind not in look.KINDS:
        raise ValueError(f"{kind!r} is not a kind of memory; use one of {', '.join(look.KINDS)}.")
    return kind


def _rows(axes, labels, places=None):
    axes.set_yticks(range(len(labels)) if places is None else places, [_drawable(label) for label in labels])
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.invert_yaxis()


def _legend(axes, kinds, outline=None):
    """A legend of the kinds that occur, in the order of the visual language, under the axes."""
    from matplotlib.patches import Patch

    kinds = [kind for kind in look.KINDS if kind in kinds]
    keys = [Patch(facecolor=look.KIND_FILLS[k], edgecolor=look.LINE, hatch=look.HATCHES[k] * 2, label=look.KIND_NAMES[k],
                  linestyle="--" if k == "free" else "-") for k in kinds]
    keys += [Patch(facecolor="none", edgecolor=look.INK, linewidth=1.2, label=outline)] if outline else []
    axes.figure.legend(handles=keys, loc="outside lower center", ncols=len(keys), frameon=False, handlelength=1.6, columnspacing=1.2)


def _legend_below(axes, note=None):
    handles, labels = axes.get_legend_handles_labels()
    if handles:
        axes.figure.legend(handles, labels, loc="outside lower center", ncols=min(4, len(handles)), frameon=False, handlelength=3.2, title=note)


def _held(item):
    """The {block: count} of a manager, of a read state or of a plain mapping."""
    if not hasattr(item, "ref") and hasattr(item, "items"):
        return {int(number): int(count) for number, count in item.items()}
    return dict(_state(item).ref)


def _state(item):
    """The state of a manager, read now; a state that was read before is returned as it is."""
    from .record import State, read_state

    return item if isinstance(item, State) else read_state(item)


class Squares:
    """The pool where matplotlib is missing, as on the static page: the squares of a check's card."""

    def __init__(self, pool, title=None):
        self.pool, self.title = pool, title

    def _repr_html_(self):
        from .card import pool_card

        return pool_card(self.pool, self.title or summary(self.pool))

    def __repr__(self):
        return f"{self.title}: {summary(self.pool)}" if self.title else summary(self.pool)


def _style():
    """The course's style, to draw in; ImportError with one sentence where matplotlib is missing."""
    try:
        import matplotlib
    except ModuleNotFoundError:
        raise ImportError("This figure needs matplotlib: `pip install matplotlib` brings it.") from None
    return matplotlib.rc_context(STYLE)


def _figure(width, height, layout="constrained"):
    """A figure that shows sharply in a notebook and that pyplot will not show by itself."""
    import matplotlib
    from matplotlib import pyplot

    if "inline" in matplotlib.get_backend():
        from matplotlib_inline.backend_inline import set_matplotlib_formats

        set_matplotlib_formats("retina")
    fig, axes = pyplot.subplots(figsize=(width, height), layout=layout)
    pyplot.close(fig)
    return fig, axes


def _finished(fig, axes, title):
    if title:
        axes.set_title(_drawable(title), loc="left", weight="bold", size=look.TEXT + 1)
    axes.tick_params(labelsize=look.TEXT - 0.5)
    return fig
