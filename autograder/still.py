"""Pictures for readers without scripts: SVG with nothing but presentation attributes, so that no style and no script is needed.

A still shows one moment of a simulator in the visual language of `tokens`; what changes is the simulator's own business.
"""

from __future__ import annotations

import html

from autograder import tokens as look
from autograder.pool import Pool, pool_of
from autograder.record import State

WIDTH = 640             # units; a page scales it to its column
SIDE, STEP = 54, 60
MOST_BLOCKS, MOST_ROWS, MOST_ENTRIES = 40, 8, 10


class Sheet:
    """A white card that is drawn from the top to the bottom; `y` is where the next thing goes."""

    def __init__(self, title: str = ""):
        self.parts: list[str] = []
        self.y = 12.0
        if title:
            self.line(title, weight="bold", size=15)

    def svg(self, label: str) -> str:
        ground = f'<rect width="{WIDTH}" height="{self.y:g}" fill="{look.PAPER}"/>'
        return f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {self.y:g}" width="100%" role="img" aria-label="{html.escape(label)}" font-family="sans-serif">{ground}{"".join(self.parts)}</svg>'

    def rect(self, x: float, y: float, width: float, height: float, fill: str, edge: str = look.INK, dashed: bool = False) -> None:
        dash = ' stroke-dasharray="4 3"' if dashed else ""
        self.parts.append(f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" fill="{fill}" stroke="{edge}"{dash}/>')

    def lines(self, path: str, colour: str = look.LINE, width: float = 1, dashed: bool = False) -> None:
        dash = ' stroke-dasharray="4 3"' if dashed else ""
        self.parts.append(f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="{width:g}"{dash}/>')

    def say(self, x: float, y: float, words: str, size: float = 12, colour: str = look.INK, anchor: str = "start", weight: str = "normal", pad: str = "") -> None:
        if pad and words:
            wide = 0.62 * size * len(words) + 4
            left = {"start": x - 2, "middle": x - wide / 2, "end": x - wide + 2}[anchor]
            self.parts.append(f'<rect x="{left:g}" y="{y - size:g}" width="{wide:g}" height="{size + 3:g}" fill="{pad}"/>')
        self.parts.append(f'<text x="{x:g}" y="{y:g}" font-size="{size:g}" fill="{colour}" text-anchor="{anchor}" font-weight="{weight}">{html.escape(words)}</text>')

    def line(self, words: str, size: float = 13, colour: str = look.INK, weight: str = "normal") -> None:
        self.say(12, self.y + size, words, size, colour, weight=weight)
        self.y += size + 9

    # --- blocks ---

    def blocks(self, blocks: tuple, marks: dict, block_size: int, x: float = 12) -> None:
        """Blocks as squares, as many to a row as fit; of a large pool the first ones."""
        columns = int((WIDTH - x) // STEP)
        for place, block in enumerate(blocks[:MOST_BLOCKS]):
            row, column = divmod(place, columns)
            self._block(x + column * STEP, self.y + row * STEP, block, marks, block_size)
        self.y += STEP * -(-min(len(blocks), MOST_BLOCKS) // columns) + 6
        if len(blocks) > MOST_BLOCKS:
            self.line(f"and {len(blocks) - MOST_BLOCKS:,} more blocks", colour=look.MUTED)

    def _block(self, x: float, y: float, block, marks: dict, size: int) -> None:
        owned, shared, free = (block.kind == kind for kind in ("owned", "shared", "free"))
        fill = marks[block.owners[0]].hue if owned else look.SHARED_FILL if shared else look.PAPER
        ink, pad = (look.ink_on(fill), "") if owned else (look.INK, look.SHARED_FILL if shared else "")
        edge = look.LINE if free else look.INK if owned or shared else look.ALARM
        self.rect(x, y, SIDE, SIDE, fill, edge, dashed=free)
        if shared:
            self.lines(_hatch(x, y, SIDE, SIDE))
        self.say(x + 4, y + 13, f"#{block.number}", 11, ink, pad=pad)
        if block.count > 1 or not (owned or shared or free):
            self.say(x + SIDE - 4, y + 13, f"×{block.count}" + "!" * (not shared), 11, ink, "end", "bold", pad)
        letters = " ".join(dict.fromkeys(marks[name].letter for name in block.owners))
        words = "free" if free else "lost!" if block.kind == "lost" else letters if len(letters) <= 7 else letters[:5] + " …"
        self.say(x + SIDE / 2, y + 33, words, 11 if free else 14, look.MUTED if free else ink, "middle", "normal" if free else "bold", pad)
        if block.owners and size:
            self.rect(x + 4, y + SIDE - 13, SIDE - 8, 8, look.PAPER)
            self.rect(x + 4, y + SIDE - 13, (SIDE - 8) * block.filled / size, 8, look.INK)

    def tables(self, pool: Pool, marks: dict) -> None:
        """One row per sequence, logical index over physical number."""
        for name, (numbers, length) in list(pool.tables.items())[:MOST_ROWS]:
            mark, y = marks[name], self.y
            self.rect(12, y + 14, 20, 20, mark.hue)
            self.say(22, y + 29, mark.letter, 12, look.ink_on(mark.hue), "middle", "bold")
            self.say(40, y + 29, f"{length:,} token{'s' * (length != 1)}")
            for place, number in enumerate(numbers[:MOST_ENTRIES]):
                x = 130 + 46 * place
                self.say(x + 20, y + 10, str(place), 10, look.MUTED, "middle")
                self.rect(x, y + 14, 40, 20, look.PAPER)
                self.rect(x, y + 14, 5, 20, mark.hue)
                self.say(x + 22, y + 29, f"#{number}", 12, anchor="middle")
            if len(numbers) > MOST_ENTRIES:
                self.say(130 + 46 * MOST_ENTRIES, y + 29, f"+ {len(numbers) - MOST_ENTRIES:,}")
            self.y += 44
        if len(pool.tables) > MOST_ROWS:
            self.line(f"and {len(pool.tables) - MOST_ROWS:,} more sequences", colour=look.MUTED)

    # --- memory ---

    def memory(self, label: str, spans: list, size: int, marks: dict) -> None:
        """A bar of slots; spans are (start, length, kind, owner)."""
        self.line(label, colour=look.MUTED)
        wide = WIDTH - 24
        for start, length, kind, owner in spans:
            x, width = 12 + wide * start / size, wide * length / size
            tokens = kind == "tokens"
            fill = marks[owner].hue if tokens else look.KIND_FILLS[kind]
            self.rect(x, self.y, width, 36, fill, dashed=kind == "free")
            if kind in _SHADES:
                self.lines(_SHADES[kind](x, self.y, width, 36))
            if tokens and length > 0.03 * size:
                self.say(x + width / 2, self.y + 23, marks[owner].letter, 14, look.ink_on(fill), "middle", "bold")
        self.y += 46


def _hatch(x: float, y: float, width: float, height: float, gap: float = 9) -> str:
    """Diagonals from the lower left to the upper right, cut at the edges of the box."""
    path, at = [], gap
    while at < width + height:
        x0, y0 = x + max(0, at - height), y + min(height, at)
        x1, y1 = x + min(width, at), y + max(0, at - width)
        path.append(f"M{x0:g},{y0:g}L{x1:g},{y1:g}")
        at += gap
    return "".join(path)


def _rules(x: float, y: float, width: float, height: float) -> str:
    return "".join(f"M{x:g},{y + at:g}h{width:g}" for at in range(5, int(height), 5))


def _dots(x: float, y: float, width: float, height: float) -> str:
    return "".join(f"M{x + across:g},{y + down:g}h1.5" for down in range(5, int(height), 6) for across in range(4, int(width), 6))


def _crosses(x: float, y: float, width: float, height: float) -> str:
    back = "".join(f"M{x + across:g},{y:g}l{min(height, width - across):g},{min(height, width - across):g}" for across in range(0, int(width), 9))
    return _hatch(x, y, width, height) + back


_SHADES = {"reserved": _dots, "internal": _rules, "external": _crosses}


def pool_still(state: State, num_blocks: int, block_size: int, title: str, label: str) -> str:
    """A pool and its tables."""
    pool, sheet = pool_of(state, num_blocks, block_size), Sheet(title)
    marks = look.owners(pool.tables)
    sheet.blocks(pool.blocks, marks, block_size)
    sheet.tables(pool, marks)
    return sheet.svg(label)
