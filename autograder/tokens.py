"""The visual language: names, colours, hatches and sizes that every picture of a block uses.

Plain data and the standard library only, so that a figure, a widget, a feedback page and a printed page can all read it.
"""

from typing import NamedTuple

# Okabe–Ito without black and grey: seven hues that colour-blind readers can tell apart, each 4.5:1 or more
# against black ink or white ink (`ink_on` picks which).
HUES = ("#56B4E9", "#E69F00", "#009E73", "#CC79A7", "#F0E442", "#0072B2", "#D55E00")
NO_HUE = "#C9CDD3"     # owners after the seventh: a neutral fill, told apart by letter alone

INK = "#14171A"        # text and filled slots
MUTED = "#57606A"      # secondary text: 6:1 on white
LINE = "#8C959F"       # outlines of what is free or empty
PAPER = "#FFFFFF"      # every picture is a white card, so that it reads the same in a dark theme
SHARED_FILL = "#E6E8EB"
ALARM = "#B3261E"      # a block whose records contradict each other; always beside a "!"

# What a slot of memory can be, in the order in which it is always stacked. Hatches are matplotlib's own codes.
KINDS = ("tokens", "reserved", "internal", "external", "free")
KIND_NAMES = {
    "tokens": "token states",
    "reserved": "reserved",
    "internal": "internal (slack)",
    "external": "external",
    "free": "free",
}
KIND_FILLS = {"tokens": "#56B4E9", "reserved": "#FFF3D6", "internal": "#F6DCE9", "external": "#DDE1E6", "free": PAPER}
HATCHES = {"tokens": "", "reserved": "..", "internal": "---", "external": "xx", "free": "", "shared": "///"}

# Lines are told apart by dash and marker as well as by hue; thin hues are darkened until they reach 3:1 on white.
LINE_HUES = ("#0072B2", "#B85000", "#00805D", "#A8437C", "#14171A", "#8A6500", "#2B7EB5")
DASHES = ("-", "--", "-.", ":", (0, (6, 1, 1, 1, 1, 1)), (0, (8, 2)), (0, (1, 3)))
MARKERS = ("o", "s", "^", "D", "v", "P", "X")

# Inches and points.
FIGURE_WIDTH = 7.0
SQUARE = 0.64
GAP = 0.1
TEXT = 9.0
SMALL = 7.5


class Owner(NamedTuple):
    """How one sequence is marked everywhere in a picture."""

    letter: str
    hue: str


def owners(names):
    """Give every sequence name its letter and hue: {name: Owner}.

    A name that is one of the letters A to G keeps its own hue, so that releasing A does not recolour B.
    """
    names = list(names)
    marks = {n: Owner(n, HUES[ord(n) - ord("A")]) for n in names if n in tuple("ABCDEFG")}
    hues = [h for h in HUES if h not in {m.hue for m in marks.values()}]
    letters = {m.letter for m in marks.values()}
    for name in names:
        if name not in marks:
            letter = _letter(name, letters)
            letters.add(letter)
            marks[name] = Owner(letter, hues.pop(0) if hues else NO_HUE)
    return marks


def _letter(name, taken):
    """The shortest mark for a name that is not taken yet: the name, its first letter, another letter, a number."""
    wanted = [name] if name.isascii() and name.isalnum() and len(name) <= 2 else []
    first = name[:1].upper()
    wanted += [first] if first.isascii() and first.isalnum() else []
    wanted += [chr(code) for code in range(ord("A"), ord("Z") + 1)]
    wanted += [str(number) for number in range(1, len(taken) + 2)]
    return next(letter for letter in wanted if letter not in taken)


def luminance(colour):
    """Relative luminance of "#RRGGBB" as WCAG 2 defines it, 0 (black) to 1 (white)."""
    parts = (int(colour[i:i + 2], 16) / 255 for i in (1, 3, 5))
    red, green, blue = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one, other):
    """WCAG contrast ratio of two colours, 1 to 21."""
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def ink_on(fill):
    """The text colour, dark or white, that reads better on a fill."""
    return max((INK, PAPER), key=lambda ink: contrast(ink, fill))
