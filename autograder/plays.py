"""The long plays of a check: what goes wrong only in a crowd, late, far out, under an odd name, or beside another manager.

Most of what is only far out is reached by a burst, so that it costs a few rows; the operations behind it are looked at
one by one. Which operations must be refused is known by counting blocks here, on paper, for each play.
"""

from __future__ import annotations

import functools
import random

from autograder.histories import ALL, LESSON_01, NOBODY, Op, Play, Tree, every

# Near-equal names live beside each other. Any text that is not empty is a name.
LONG = "ein langer Name " * 20
NAMES = (
    "a", "A", " a", "a ", "b", "ab", "ba", "7", "07", "0", "-1", "r1/0", "r1/1", "r1:0", "r1.0", "a b", "a c", "a.blocks", "a.len", "_a", "__class__", "free", "seqs", "len", "blocks", "None",
    "\u00e9", "e\u0301", "\u5e8f", "\u5217", "\U0001f600", "\U0001f601", LONG[:100] + "x", LONG[:100] + "y", LONG[:16] + "x", LONG[:16] + "y", LONG, LONG + "2",
)  # fmt: skip
SIZES = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 16, 17, 20, 24, 32, 33, 64)
POOLS = (5, 6, 7, 8, 9, 10, 12, 16, 20, 24, 32, 33, 40, 48, 50, 64)
MANY = 1_100  # sequences: more than a byte can count, than frames fit on the stack, than 10 bits number


def anew(name: str) -> str:
    """An equal name that is another object, as a name that was read from a request would be."""
    return "".join(list(name))


class Script:
    """A chain of operations for an exercise of these verbs; the others are left out, and names that only they would make."""

    def __init__(self, num_blocks: int, block_size: int, verbs: frozenset[str], second: tuple[int, int] | None = None):
        self.tree = Tree(num_blocks, block_size, branches=False)
        self.tree.play = Play(num_blocks, block_size, [None], [("new",)], False, second)
        self.verbs = verbs
        self.live: list[set[str]] = [set(), set()]
        self.rows: list[int | None] = [0, None]

    @property
    def play(self) -> Play:
        return self.tree.play

    def _known(self, op: Op, on: int) -> bool:
        return op[0] in self.verbs and (op[0] == "allocate" or op[1] in self.live[on])

    def _note(self, op: Op, on: int) -> None:
        if op[0] == "allocate":
            self.live[on].add(op[1])
        elif op[0] == "fork":
            self.live[on].add(op[2])
        elif op[0] == "release":
            self.live[on].discard(op[1])

    def _add(self, op: Op, on: int) -> None:
        self.rows[on] = self.tree.add(self.rows[on], op)

    def do(self, *ops: Op, on: int = 0) -> None:
        """Calls that succeed, if their names are known."""
        for op in ops:
            if op[0] in self.verbs:
                if self._known(op, on):
                    self._note(op, on)
                self._add((op[0], *(anew(x) if isinstance(x, str) else x for x in op[1:])), on)

    def refused(self, *ops: Op, on: int = 0) -> None:
        """Calls that every right manager refuses: no name is made."""
        for op in ops:
            if op[0] in self.verbs:
                self._add((op[0], *(anew(x) if isinstance(x, str) else x for x in op[1:])), on)

    def burst(self, *ops: Op, on: int = 0) -> None:
        """Calls that all succeed, after the last of which the manager is looked at."""
        kept = []
        for op in ops:
            if self._known(op, on):
                self._note(op, on)
                kept.append((op[0], *(anew(x) if isinstance(x, str) else x for x in op[1:])))
        if kept:
            self._add(("burst", tuple(kept)), on)

    def other(self) -> None:
        """The second manager is made."""
        self.rows[1] = self.tree.add(None, ("new",))

    def take(self, times: int) -> None:
        for _ in range(times):
            self._add(("_take",), 0)


# ---- small plays -----------------------------------------------------------------------------------------------


def takes(verbs: frozenset[str]) -> Play:
    """`_take` called by hand: on a new pool until it is empty, after an allocation, among gaps, beside shared blocks."""
    tree = Tree(3, 2)
    tree.chain(*[("_take",)] * 4)
    tree.chain(("allocate", "a", 3), ("_take",), ("_take",))
    tree.chain(("allocate", "a", 2), ("allocate", "b", 3), ("release", "a"), ("_take",), ("_take",))
    return tree.play


def takes_among_gaps(verbs: frozenset[str]) -> Play:
    script = Script(7, 2, verbs)
    script.do(("allocate", "a", 2), ("allocate", "b", 3), ("allocate", "c", 2), ("allocate", "d", 2), ("fork", "b", "e"), ("release", "c"), ("release", "a"), ("release", "d"))
    script.take(6)
    return script.play


def twin() -> Play:
    """A second manager lives beside the first, before and after the first holds something."""
    tree = Tree(3, 2)
    tree.chain(("twin",))
    tree.chain(("allocate", "b", 3), ("twin",), ("allocate", "c", 1))
    return tree.play


def pair(shape: tuple[int, int], second: tuple[int, int], verbs: frozenset[str]) -> Play:
    """Two managers of different shapes take turns; both are looked at as fully as one alone."""
    script = Script(*shape, verbs, second)
    size, other = shape[1], second[1]
    script.do(("allocate", "a", size - 1), ("allocate", "d", 1), ("fork", "a", "b"))
    script.other()
    script.do(("append", "b"), ("append", "a"))
    script.do(("allocate", "a", other + 1), ("allocate", "b", 11), ("fork", "a", "c"), on=1)
    script.do(("append", "d"), ("append", "a"))    # in blocks that are shared in the other pool, and not here
    script.do(("append", "c"), ("append", "a"), ("append", "b"), on=1)
    script.do(("allocate", "e", size + 1), ("fork", "e", "f"), ("append", "f"), ("append", "e"))
    script.do(("append", "b"), ("release", "c"), ("append", "a"), ("release", "b"), ("fork", "a", "b"), on=1)
    script.do(("release", "a"), ("append", "f"), ("release", "e"))
    script.do(("release", "a"), ("append", "b"), on=1)
    script.do(("release", "b"), ("release", "d"))
    return script.play


def retries(verbs: frozenset[str]) -> Play:
    """After a refusal the same is tried again, at once or when there is room; a name is free again and again."""
    tree = Tree(2, 2)
    keep = lambda *ops: tree.chain(*(op for op in ops if op[0] in verbs))  # noqa: E731
    keep(("allocate", "a", 3), ("allocate", "b", 1), ("release", "a"), ("allocate", "b", 1), ("append", "b"))
    keep(("allocate", "a", 3), ("allocate", "b", 1), ("fork", "a", "b"), ("append", "b"), ("release", "b"))
    keep(("allocate", "a", 5), ("allocate", "a", 4), ("append", "a"), ("release", "a"), ("allocate", "a", 5), ("allocate", "a", 1))
    keep(("fork", "x", "b"), ("allocate", "b", 1), ("append", "b"))
    keep(("fork", "x", "x"), ("allocate", "x", 1), ("fork", "x", "y"), ("append", "y"))
    keep(("allocate", "a", 1), ("fork", "x", "b"), ("fork", "a", "b"), ("append", "b"), ("append", "a"))
    keep(("append", "a"), ("allocate", "a", 1), ("append", "a"), ("append", "a"))
    keep(("release", "a"), ("allocate", "a", 1), ("release", "a"), ("release", "a"))
    keep(("allocate", "a", 1), ("fork", "a", "b"), ("allocate", "c", 1), ("append", "b"), ("append", "a"), ("release", "c"), ("append", "b"), ("append", "a"))
    keep(("allocate", "a", 4), ("append", "a"), ("release", "a"), ("allocate", "a", 2), ("append", "a"), ("append", "a"))
    keep(("allocate", "a", 1), ("fork", "a", "b"), ("fork", "a", "c"), ("fork", "a", "d"), ("fork", "a", "e"), ("allocate", "z", 1), ("append", "b"), ("append", "b"), ("release", "b"), ("append", "c"))
    keep(*[("allocate", "a", 1), ("release", "a")] * 4, ("allocate", "a", 3), ("release", "a"), ("release", "a"))
    keep(("allocate", "a", 1), *[("fork", "a", "b"), ("append", "b"), ("release", "b")] * 3, ("append", "b"))
    return tree.play


def two_blocks(block_size: int, verbs: frozenset[str]) -> Play:
    """A pool of two blocks: sharing, a copy, and a copy that finds no block until another sequence goes."""
    script = Script(2, block_size, verbs)
    script.do(("allocate", "a", block_size - 1), ("fork", "a", "b"), ("append", "b"), ("append", "a"), ("release", "a"), ("append", "b"), ("release", "b"))
    script.do(("allocate", "a", block_size - 1), ("fork", "a", "b"), ("fork", "b", "c"), ("allocate", "z", block_size))
    script.refused(("append", "c"), ("append", "z"))
    script.do(("release", "z"), ("append", "c"), ("release", "a"), ("append", "b"), ("release", "c"), ("release", "b"))
    return script.play


def names(rng: random.Random, verbs: frozenset[str]) -> Play:
    """Names that are nearly equal live together and are told apart in every operation."""
    shown = rng.sample(NAMES, len(NAMES))
    script = Script(len(shown) + 12, 2, verbs)
    for n in range(0, len(shown), 6):
        script.burst(*(("allocate", name, i % 3) for i, name in enumerate(shown[n : n + 6])))
    for name in rng.sample(shown, 5):
        script.do(("append", name))
    gone = rng.sample(shown, 6)
    script.do(*(("release", name) for name in gone))
    script.refused(("append", gone[0]), ("release", gone[1]))
    parents = [name for name in shown if name not in gone][:6]
    script.do(*(("fork", parent, child) for parent, child in zip(parents, gone, strict=True)))
    script.burst(*(("append", name) for name in (*gone, *parents)))
    script.do(*(("release", name) for name in (*gone[:3], *parents[:3])))
    return script.play


# ---- a round through everything that can go wrong, in pools of many shapes --------------------------------------


def _round(script: Script, free: int, size: int, mark: str) -> None:
    """Sharing, a copy, gaps, an exact fit, a full pool that refuses all it must, and the same again with room.

    free blocks, 5 or more; all of them are free again in the end.
    """
    a, b, c, d, e = (mark + letter for letter in "abcde")
    more = int(size == 1)    # in blocks of one slot every append is at a boundary
    script.do(("allocate", a, size + 1), ("fork", a, b), ("append", b), ("append", a), ("allocate", c, size), ("allocate", d, 1))
    script.do(("release", a), ("release", d), ("release", c))
    held = 2 + more if "fork" in script.verbs else 0
    rest = free - held
    script.refused(("allocate", e, rest * size + 1))
    script.do(("allocate", e, rest * size))
    script.refused(("allocate", c, 1))
    script.do(("fork", b, a), ("fork", b, d))
    script.refused(("append", a), ("append", e))
    script.do(("release", e), ("append", a), ("append", a), ("allocate", c, 1), ("release", b))
    script.refused(("release", b), ("append", b), ("fork", b, e))
    script.do(("append", d), ("release", a), ("release", c), ("release", d))


def shape(rng: random.Random, num_blocks: int, block_size: int, verbs: frozenset[str]) -> Play:
    """A round in a new pool; and one in a crowd, after many calls, beside sequences that share."""
    script = Script(num_blocks, block_size, verbs)
    _round(script, num_blocks, block_size, rng.choice(("", "x", "seq-")))
    if num_blocks < 7:
        return script.play
    first = 2 if block_size > 1 else 1
    script.do(("allocate", "k", first))    # one block, partly filled where it can be
    script.burst(*[op for n in range(60) for op in (("fork", "k", f"t{n % 3}"), ("append", f"t{n % 3}"), ("release", f"t{n % 3}"))])
    script.burst(*(("fork", "k", f"k{n}") for n in range(11)), *(("allocate", f"empty{n}", 0) for n in range(12)))
    families = 2 if num_blocks >= 9 else 0    # of a block each, beside that of k
    script.burst(*(op for n in range(families) for op in (("allocate", f"f{n}", 1), ("fork", f"f{n}", f"g{n}"))))
    _round(script, num_blocks - 1 - families, block_size, "s")
    script.burst(*(("release", f"k{n}") for n in range(1, 11)), *(("release", f"empty{n}") for n in range(11)))
    script.do(("append", "k0"), ("append", "k"), ("append", "empty11"), ("release", "k"))
    return script.play


def long_table(rng: random.Random, verbs: frozenset[str]) -> Play:
    """A round in a pool of hundreds, beside a table of hundreds; then both its owners write, and its blocks come back out of order."""
    num_blocks, size, long = rng.randint(640, 700), rng.choice((2, 3, 4)), rng.randint(301, 340)
    script = Script(num_blocks, size, verbs)
    script.burst(("allocate", "front", 3 * size), ("allocate", "long", long * size - 1), ("release", "front"))
    _round(script, num_blocks - long, size, "r")
    script.do(("fork", "long", "copy"), ("append", "copy"), ("append", "copy"), ("append", "long"), ("release", "long"), ("release", "copy"))
    return script.play


def large(verbs: frozenset[str]) -> Play:
    """A pool of 4,096 that is filled by one sequence and refuses the next token."""
    script = Script(4096, 16, verbs)
    script.do(("allocate", "a", 4096 * 16))
    script.refused(("append", "a"), ("allocate", "b", 1))
    return script.play


def walk(verbs: frozenset[str]) -> Play:
    """Through a pool of 4,096 blocks: an exact fit of all, one too many, tables above 1,000, blocks that come back out of order."""
    script = Script(4096, 16, verbs)
    script.do(("allocate", "a", 4096 * 16))
    script.refused(("append", "a"))
    script.burst(("release", "a"), ("allocate", "b", 1000 * 16), ("allocate", "c", 1100 * 16 + 2), ("allocate", "d", 900 * 16), ("fork", "c", "f"), ("fork", "c", "h"), ("release", "b"))
    free = 4096 - 1101 - 900
    script.refused(("allocate", "e", free * 16 + 1))
    script.do(("allocate", "e", free * 16))
    script.refused(("append", "f"))
    script.burst(("release", "d"))
    script.do(("append", "f"), ("append", "c"))
    script.burst(("release", "e"), ("release", "f"), ("release", "c"), ("release", "h"))
    script.do(("allocate", "g", 3000 * 16))
    return script.play


# ---- crowds and long lives -------------------------------------------------------------------------------------


def crowd(rng: random.Random, verbs: frozenset[str]) -> Play:
    """Over a thousand sequences live at once, each the child of the one before or of the first; most of them go again."""
    script = Script(8, 4, verbs)
    script.do(("allocate", "s0", 3))
    made = list(dict.fromkeys(f"{rng.getrandbits(30):x}" for _ in range(MANY)))
    ops: list[Op] = [("fork", "s0" if n < 40 else made[n - 1], name) for n, name in enumerate(made)]
    if "fork" not in verbs:
        ops = [("allocate", name, 0) for name in made]
    script.burst(*ops, ("allocate", "late", 0))
    script.do(("append", made[-1]))
    some = rng.sample(made[:-1], 30)
    script.burst(*(("release", name) for name in rng.sample(made, len(made)) if name not in some and name != made[-1]))
    script.do(("append", some[0]), ("append", "late"), ("append", "s0"), ("append", made[-1]), ("append", made[-1]), ("release", some[1]), ("release", "s0"))
    script.burst(*(("release", name) for name in some[2:28]))
    script.do(("append", some[28]), ("append", some[29]), ("append", some[29]), ("release", some[0]), ("release", some[28]))
    return script.play


def life(rng: random.Random, verbs: frozenset[str]) -> Play:
    """Thousands of calls to one manager: what drifts shows in the answers, or in the round that follows."""
    size = rng.choice((4, 5))    # so that 8 tokens are two blocks
    script = Script(12, size, verbs)
    script.do(("allocate", "a", 2), ("allocate", "keep", 1))
    for part in range(3):
        cycle: list[Op] = []
        for n in range(140):
            child = f"c{part}-{n}"
            cycle += [("fork", "a", child), ("append", child), ("append", child), ("release", child), ("allocate", "x", n % 3), ("append", "x"), ("release", "x")]
        script.burst(*cycle)
        script.burst(*[("append", "keep")] * (3 * size + 1))
        script.do(("append", "a"), ("fork", "a", "b"), ("append", "b"), ("append", "a"), ("release", "b"), ("release", "keep"), ("allocate", "keep", 1))
    _round(script, 12 - (3 if "append" in verbs else 2), size, "r")
    return script.play


def long_run(verbs: frozenset[str]) -> Play:
    """One sequence that grows token by token, with a child forked off now and then."""
    script = Script(40, 4, verbs)
    script.do(("allocate", "a", 1))
    for n in range(12):
        script.burst(*[("append", "a")] * 9)
        script.do(("append", "a"), ("fork", "a", "b"), ("append", "b"), ("append", "b"))
        if n % 4 == 3:
            script.do(("append", "a"))
        script.do(("release", "b"))
    return script.play


def offsets(block_size: int, at: list[int], verbs: frozenset[str]) -> Play:
    """A fork and writes by both sides, at these places in a block."""
    script = Script(5, block_size, verbs)
    for offset in at:
        script.do(("allocate", "a", block_size + offset), ("fork", "a", "b"), ("append", "b"), ("append", "a"), ("append", "a"), ("release", "a"), ("release", "b"))
    return script.play


def fan(num_blocks: int, block_size: int, tokens: int, children: int, verbs: frozenset[str]) -> Play:
    """One long sequence with many children, all of which write; then half of them go and the others write on."""
    script = Script(num_blocks, block_size, verbs)
    names = ["a", *(f"c{n}" for n in range(children))]
    script.do(("allocate", "a", tokens), *(("fork", "a", name) for name in names[1:]))
    script.do(*(("append", name) for name in names[::-1] * 2), *(("release", name) for name in names[::2]), *(("append", name) for name in names[1::2]))
    script.do(("allocate", "z", tokens), ("release", "z"))
    return script.play


def lineage(verbs: frozenset[str]) -> Play:
    """Forks of forks of forks of the same names, three times over; all write, and they go in another order each time."""
    script = Script(40, 4, verbs)
    for tokens, order in ((6, "abcd"), (6, "dcab"), (8, "cadb")):
        script.do(("allocate", "a", tokens), ("fork", "a", "b"), ("fork", "b", "c"), ("fork", "c", "d"))
        script.do(*(("append", name) for name in "dcdbac"), *(("release", name) for name in order[:2]), *(("append", name) for name in order[2:] * 2), *(("release", name) for name in order[2:]))
    # Children of one that is gone; then two that share a tail behind blocks of other counts.
    script.do(("allocate", "a", 6), *(("fork", "a", name) for name in "bcd"), ("release", "a"), *(("append", name) for name in "bcd"), *(("release", name) for name in "bcd"))
    script.do(("allocate", "a", 4), ("fork", "a", "b"), *[("append", "b")] * 4, ("fork", "b", "c"), *[("append", "c")] * 2, ("fork", "c", "d"), ("release", "b"), ("append", "d"), ("append", "c"), *(("release", name) for name in "adc"))
    return script.play


def ladder(verbs: frozenset[str]) -> Play:
    """A table whose blocks have the counts 4, 3, 2 and 1: forked, written at the boundary by five owners, copied from, refused, given back."""
    script = Script(40, 4, verbs)
    script.do(("allocate", "a", 4))
    for parent, child in ("ab", "bc", "cd"):
        script.do(("fork", parent, child), *[("append", child)] * 4)
    script.do(*(("fork", "d", name) for name in "efgh"), *(("append", name) for name in "hedfg"))    # at the boundary of a block of five
    script.do(("fork", "h", "i"), ("append", "i"), ("append", "h"), ("release", "b"), ("release", "e"), ("fork", "i", "j"), ("append", "j"), ("fork", "j", "k"))
    script.do(("fork", "a", "s"), *[("append", "s")] * 9, ("release", "s"))                          # one block that is shared, three of its own
    script.do(("allocate", "x", 2), ("fork", "x", "y"), ("append", "y"), ("fork", "y", "z"))
    used = 12 if {"fork", "append"} <= verbs else 2
    script.do(("allocate", "full", (40 - used) * 4))
    script.refused(*((("append", "y"), ("append", "k")) * 3 if {"fork", "append"} <= verbs else ()))      # each would have to copy
    script.do(("release", "full"), ("append", "k"), ("append", "z"), ("append", "y"), *(("release", name) for name in "dacfghijkxyz"))
    return script.play


# ---- by chance -------------------------------------------------------------------------------------------------


def long_random(rng: random.Random, length: int, num_blocks: int, block_size: int, verbs: frozenset[str] = ALL) -> Play:
    """One long history; how crowded the pool gets is drawn too."""
    tree = Tree(num_blocks, block_size, branches=False)
    live: list[str] = []
    gone: list[str] = []
    odd = rng.sample(NAMES, 10)
    crowd = rng.uniform(0.5, 1.6) * num_blocks * block_size
    tokens: dict[str, int] = {}
    made = row = 0
    for _ in range(length):
        verb = _draw(rng, verbs, live, sum(tokens.values()) > crowd)
        if verb in ("allocate", "fork"):
            if gone and rng.random() < 0.2:
                new = gone.pop(rng.randrange(len(gone)))
            else:
                new = odd[made] if made < len(odd) and rng.random() < 0.5 else f"s{made}"
                made += 1
            if verb == "fork":
                parent = rng.choice(live)
                op, tokens[new] = ("fork", anew(parent), anew(new)), block_size
            else:
                n = _draw_tokens(rng, num_blocks, block_size)
                op, tokens[new] = ("allocate", anew(new), n), min(n, num_blocks * block_size)
            live.append(new)
        else:
            name = rng.choice(live) if live and rng.random() < 0.97 else rng.choice(gone or [NOBODY])
            op = (verb, anew(name))
            if verb == "release" and name in live:
                live.remove(name)
                gone.append(name)
                tokens.pop(name)
        row = tree.add(row, op)
    return tree.play


def _draw(rng: random.Random, verbs: frozenset[str], live: list[str], crowded: bool) -> str:
    if not live:
        return "allocate"
    odds = {"allocate": 1 if crowded else 4, "fork": 2, "append": 8, "release": 4 if crowded else 1}
    choices = [v for v in odds if v in verbs]
    return rng.choices(choices, [odds[v] for v in choices])[0]


def _draw_tokens(rng: random.Random, num_blocks: int, block_size: int) -> int:
    """Around block boundaries most of the time, sometimes nothing, sometimes more than fits."""
    roll = rng.random()
    if roll < 0.05:
        return 0
    if roll < 0.1:
        return num_blocks * block_size + rng.randint(0, 2)
    most = max(1, num_blocks // 3)
    return max(0, rng.randint(0, most) * block_size + rng.choice((-1, 0, 1, rng.randrange(block_size))))


# ---- all of a check --------------------------------------------------------------------------------------------


def _shapes(rng: random.Random) -> list[tuple[int, int]]:
    """Pools of 8 and of 32, blocks of 8, 10, 32, 64 and larger ones, each time; the rest is drawn."""
    pools = [8, 32, rng.choice((65, 100, 128, 200)), *rng.sample([p for p in POOLS if p not in (5, 6, 8, 32)], 5)]
    sizes = [5, 8, 10, 32, 64, rng.choice((128, 256)), rng.choice((512, 1000, 4096)), rng.randrange(35, 400, 2)]
    return list(zip(pools, rng.sample(sizes, len(sizes)), strict=True))


@functools.lru_cache(maxsize=8)
def manager_plays(verbs: frozenset[str], thorough: bool, seed: str) -> list[Play]:
    """All the plays of one check, the shortest histories first. The thorough check's random part follows the seed."""
    rng = random.Random(f"{sorted(verbs)} {seed}" if thorough else "the check that everyone sees")
    plays = [twin(), takes(verbs)]
    if thorough:
        plays.append(every(3, 2, 3, (0, 1, 2, 3, 5, 7), verbs, last=(2, 3)))
        plays.append(every(4, 1, 3, (0, 1, 2, 4, 5), verbs, strangers=False))
    else:
        plays.append(every(3, 2, 3, (0, 1, 2, 3, 5, 7), verbs, last=(2, 3)))
    plays += [retries(verbs), takes_among_gaps(verbs), names(rng, verbs)]
    if not thorough:
        plays += [shape(rng, 8, 4, verbs), shape(rng, 7, 128, verbs), lineage(verbs), large(verbs)]
        plays += [long_random(rng, 20, *size, verbs) for size in ((1, 1), (1, 4), (2, 3), (5, 1), (16, 5), (64, 16))]
        return [*plays, pair((7, 16), (8, 6), verbs)]
    plays += [two_blocks(rng.choice((3, 4, 7, 16)), verbs), fan(100, 16, 325, 6, verbs), offsets(16, list(range(16)), verbs), long_run(verbs)]
    odd = rng.randrange(17, 64, 2)
    plays.append(offsets(odd, sorted({0, 1, odd - 1, *rng.sample(range(odd), 3)}), verbs))
    plays += [shape(rng, *size, verbs) for size in _shapes(rng)]
    plays += [lineage(verbs), ladder(verbs), long_table(rng, verbs), crowd(rng, verbs), life(rng, verbs), walk(verbs)]
    plays += [long_random(rng, 40, *size, verbs) for size in ((1, 1), (1, 4), (2, 2), (2, 3), (5, 1))]
    plays += [long_random(rng, 70, rng.randint(3, 40), rng.choice(SIZES), verbs) for _ in range(4)]
    return [*plays, pair((7, 16), (8, 6), verbs), pair((rng.choice(POOLS[3:]), rng.choice(SIZES[2:])), (rng.choice(POOLS[3:]), rng.choice(SIZES[1:6])), verbs)]


__all__ = ["ALL", "LESSON_01", "long_random", "manager_plays"]
