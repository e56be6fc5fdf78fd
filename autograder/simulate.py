"""Simulators to press, in a notebook and on the page: memory in both pools, shared prefixes, a block pool, beams, a history.

Each function returns an object that shows itself when it is the last expression of a cell. The pictures are drawn by
the modules in `widgets/`; in a terminal, and where scripts do not run, stands the finding in words and one still picture.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

from autograder import tokens as look
from autograder.checks import exercise_named
from autograder.drive import Rows, drive_manager, listening
from autograder.exercises import Exercise
from autograder.histories import LESSON_01, Play
from autograder.judge import history_text, judge_manager
from autograder.plays import manager_plays
from autograder.pool import Block, pool_of, summary
from autograder.record import State, read_state
from autograder.scenarios import ARRIVED, BEAMS, CONTIGUOUS, PAGED, SCENARIOS, STREAM
from autograder.still import Sheet, pool_still
from autograder.tell import advice, sentence
from autograder.verdict import Verdict
from autograder.widgets.host import show

VERBS = ("allocate", "fork", "append", "release")
MOST_OPS = 5_000
MOST_SHOWN = 200  # calls of a history


def contiguous(stream: Iterable[tuple] = STREAM, slots: int = 160, longest: int = 64, block: int = 16, title: str = "One stream of requests, two pools", key: str = "contiguous") -> object:
    """A stream of requests into a contiguous pool and a paged one, with the three wastes counted in both.

    stream: ("arrive", name, tokens now, tokens when done), ("grow", tokens for everybody), ("leave", name).
    """
    events = [list(event) for event in stream]
    state = {"title": title, "slots": slots, "longest": longest, "block": block, "events": events}
    text, still = f"{title}: {slots} slots; contiguous requests reserve {longest} each, paged ones take blocks of {block}.", ""
    if events == [list(event) for event in STREAM] and (slots, longest, block) == (160, 64, 16):
        text += " When A, B, C and D have arrived, the contiguous pool holds A and B: 53 slots hold tokens, 43 are reserved, 32 are internal waste, 32 external. The paged pool holds A, B and C: 93 slots hold tokens, 35 are slack, 32 free."
        still = _memory_still(title, text)
    return show("contiguous", state, key=key, text=text, still=still and still + _paragraph(text))


def prefix(prefix: int = 32, requests: int = 3, own: int = 20, block: int = 16, title: str = "Requests that start with the same text", key: str = "prefix") -> object:
    """Blocks for requests with a common prefix and equally many tokens of their own, with and without sharing."""
    full = prefix // block
    each, rest = math.ceil((prefix + own) / block), math.ceil((prefix + own) / block) - full
    without, shared = requests * each, full + requests * rest
    text = f"{title}: {requests} requests of {prefix} + {own} tokens in blocks of {block} take {without} blocks without sharing and {shared} with the {full} full prefix blocks shared; {without - shared} saved."
    state = {"title": title, "prefix": prefix, "requests": requests, "own": own, "block": block}
    return show("prefix", state, key=key, text=text, still=_prefix_still(title, text, state, full, rest) + _paragraph(text))


def pool(manager_class: Callable | None = None, num_blocks: int = 10, block_size: int = 16, scenario: str | None = None, scenarios: Iterable[str] | None = None, at: int = 0, lock: tuple[int, str, str] | None = None, title: str | None = None, key: str = "pool") -> object:
    """A block pool to press. With a class, every button calls a new object of it, and the first broken promise stops the picture.

    scenario: the one to begin with (its pool counts, not num_blocks and block_size), at its step `at`; scenarios: those
    offered, all by default. lock: (step, key, words), no going beyond this step until the question `key` has been answered.
    """
    verbs = [verb for verb in VERBS if manager_class is None or hasattr(manager_class, verb)]
    offered = [SCENARIOS[name] for name in (SCENARIOS if scenarios is None else scenarios)]
    offered = [each for each in offered if {op[0] for op in each.ops} <= set(verbs)]
    begun = SCENARIOS[scenario] if scenario else None
    if begun:
        num_blocks, block_size = begun.num_blocks, begun.block_size
    title = title or (f"Your {_name(manager_class)}, button by button" if manager_class else "A pool of blocks")
    state = {
        "title": title, "num_blocks": num_blocks, "block_size": block_size, "verbs": verbs, "scenario": scenario or "",
        "ops": [list(op) for op in begun.ops] if begun else [], "at": at, "scenarios": [each.to_json() for each in offered],
        "lock": lock and dict(zip(("at", "key", "words"), lock, strict=True)), "driver": None,
    }  # fmt: skip
    shown = _first_picture(manager_class, begun, num_blocks, block_size, at)
    words = f"{title}: {num_blocks} blocks of {block_size} slots; {', '.join(verbs)}. {summary(pool_of(shown, num_blocks, block_size)).capitalize()}."
    still = pool_still(shown, num_blocks, block_size, title, words) + _paragraph(words)
    if manager_class is None:
        return show("pool", state, key=key, text=words, still=still)
    return show("pool", state | {"driver": _driver(manager_class, False)}, key=key, text=words, still=still, on_kept=_Answers(manager_class), live={"driver": _driver(manager_class, True)})


def beams(steps: list[dict] = BEAMS, prompt: int = 6, num_blocks: int = 12, block_size: int = 4, title: str = "A beam search over the pool", key: str = "beams") -> object:
    """A tree of beams beside the pool that holds them. steps: {"fork": [(parent, child), …], "release": [name, …]}, then every live beam appends."""
    state = {"title": title, "prompt": prompt, "num_blocks": num_blocks, "block_size": block_size, "steps": [{"fork": [list(pair) for pair in step["fork"]], "release": list(step["release"])} for step in steps]}
    live = {"A"} | {child for step in steps for _, child in step["fork"]}
    live -= {name for step in steps for name in step["release"]}
    text = f"{title}: a prompt of {prompt} tokens, {len(steps)} steps, blocks of {block_size}. {sum(len(step['fork']) for step in steps)} forks, {sum(len(step['release']) for step in steps)} releases; {', '.join(sorted(live))} live at the end."
    return show("beams", state, key=key, text=text, still=_tree_still(title, text, steps, prompt) + _paragraph(text))


def history(source: object, ops: Iterable[tuple] | None = None, num_blocks: int = 8, block_size: int = 4, title: str | None = None, key: str = "history") -> object:
    """Play a history, step by step, with what was expected beside what happened.

    source: a manager class, with `ops` or else on the shortest history that breaks one of its promises; the name of a
    scenario with a bug; or a list of (words, manager or read state), which is drawn as it is.
    """
    if isinstance(source, str):
        return _bug_history(source, title, key)
    if callable(source):
        return _class_history(source, ops, num_blocks, block_size, title, key)
    moments = [(words, item if isinstance(item, State) else read_state(item)) for words, item in source]
    if not moments:
        raise ValueError("There is nothing to play: give a list of (words, manager), one for each moment.")
    steps = [{"op": None, "words": words, "outcome": None, "state": state.to_json(), "expected": None} for words, state in moments]
    return _history(title or "A history", num_blocks, block_size, steps, None, moments[-1][1], key)


# --- the reader's own class ---


def answer(manager_class: Callable, kept: dict) -> dict:
    """What the class does on the history that the pool simulator asks for: the `driver` of its state (see widgets/pool.mjs)."""
    play = _play(int(kept["num_blocks"]), int(kept["block_size"]), [tuple(op) for op in kept["ops"][:MOST_OPS] if op[0] in VERBS])
    rows, verdict = _played(manager_class, play)
    steps = [[rows.outcomes[outcome].to_json(), rows.states[state].to_json()] for outcome, _, state in rows.rows]
    return _driver(manager_class, True) | {"answers": kept["calls"], "steps": steps, "verdict": _told(verdict, play, rows, _name(manager_class))}


def _driver(manager_class: Callable, ready: bool) -> dict:
    return {"name": _name(manager_class), "ready": ready, "answers": 0, "steps": [], "verdict": None}


class _Answers:
    """Answers the simulator's calls in a notebook; going back and forward calls nothing."""

    def __init__(self, manager_class: Callable):
        self.manager_class, self.answered = manager_class, 0

    def __call__(self, kept: dict) -> dict | None:
        if kept.get("calls", 0) <= self.answered:
            return None
        self.answered = kept["calls"]
        return {"driver": answer(self.manager_class, kept)}


def _name(manager_class: Callable) -> str:
    return getattr(manager_class, "__name__", "manager")


def _exercise(manager_class: Callable) -> Exercise:
    return exercise_named("03_copy_on_write/BlockManager" if hasattr(manager_class, "fork") else "01_contiguous_vs_paged/BlockManager")


def _play(num_blocks: int, block_size: int, ops: list[tuple]) -> Play:
    return Play(num_blocks, block_size, [None, *range(len(ops))], [("new",), *ops], branches=False)


def _played(manager_class: Callable, play: Play) -> tuple[Rows, Verdict]:
    """What the class did on one chain of operations, and what is to be said of it."""
    with listening():
        transcript = drive_manager(manager_class, [play])
    return transcript.plays[0], judge_manager(_exercise(manager_class), [play], transcript)


def _told(verdict: Verdict, play: Play, rows: Rows, name: str) -> dict | None:
    """Where the picture stops and why; None if every promise that this history touches holds."""
    stub = next((row for row, (outcome, *_) in enumerate(rows.rows) if rows.outcomes[outcome].error == "NotImplementedError"), None)
    breach = verdict.broken[0].breach if verdict.broken else None
    if breach and (stub is None or breach.length - 1 < stub):
        return {"step": breach.length - 1, "sentence": f"{name} breaks a promise: {verdict.broken[0].promise.statement}", "expected": breach.expected, "actual": breach.actual, "hint": advice(verdict)}
    if stub is not None:
        return {"step": stub, "sentence": f"{name}: `{play.ops[stub][0]}` is not written yet.", "expected": "", "actual": "", "hint": ""}
    if verdict.stopped:
        return {"step": len(rows.rows) - 1, "sentence": sentence(verdict), "expected": "", "actual": "", "hint": "A loop that never ends is the usual cause."}
    return None


def _first_picture(manager_class: Callable | None, begun, num_blocks: int, block_size: int, at: int) -> State:
    if manager_class and begun:
        rows, _ = _played(manager_class, _play(num_blocks, block_size, begun.ops[:at]))
        return rows.states[rows.rows[-1][2]] if rows.rows else State(tuple(range(num_blocks)))
    return begun.still if begun and begun.still else State(tuple(range(num_blocks)))


# --- histories ---


def _bug_history(name: str, title: str | None, key: str) -> object:
    found = SCENARIOS.get(name)
    if not found or not found.bug:
        raise ValueError(f"There is no bug called {name!r}; use one of {', '.join(n for n, s in SCENARIOS.items() if s.bug)}.")
    steps = [_step(None, State(tuple(range(found.num_blocks))))] + [_step(op, state, note=found.notes.get(n)) for n, (op, state) in enumerate(zip(found.ops, found.bug, strict=True), 1)]
    return _history(title or f"CacheFlow before {found.title}", found.num_blocks, found.block_size, steps, None, found.bug[-1], key, whose="the engine")


def _class_history(manager_class: Callable, ops: Iterable[tuple] | None, num_blocks: int, block_size: int, title: str | None, key: str) -> object:
    play = _play(num_blocks, block_size, [tuple(op) for op in ops]) if ops is not None else _shortest_breach(manager_class) or _walk()
    rows, verdict = _played(manager_class, play)
    steps = [_step(op if n else None, rows.states[state], rows.outcomes[outcome].to_json()) for n, (op, (outcome, _, state)) in enumerate(zip(play.ops, rows.rows, strict=False))]
    name = _name(manager_class)
    return _history(title or f"Your {name} on one history", play.num_blocks, play.block_size, steps, _told(verdict, play, rows, name), rows.states[rows.rows[-1][2]] if rows.rows else State(), key)


def _walk() -> Play:
    walk = SCENARIOS["walk"]
    return _play(walk.num_blocks, walk.block_size, walk.ops)


def _shortest_breach(manager_class: Callable) -> Play | None:
    """The shortest of the check's histories that breaks a promise; None if none does, or only one too long to look at or with two managers."""
    exercise = _exercise(manager_class)
    for thorough in (False, True):
        plays = manager_plays(exercise.verbs, thorough, "")
        with listening():
            verdict = judge_manager(exercise, plays, drive_manager(manager_class, plays))
        for broken in verdict.broken:
            for play in plays:
                for row in range(len(play.ops)):
                    if play.second is None and play.calls(row) == broken.breach.length <= MOST_SHOWN and history_text(play, row) == broken.breach.history:
                        return _play(play.num_blocks, play.block_size, play.singles(row))
    return None


def _step(op: tuple | None, state: State, outcome: list | None = None, note: str | None = None) -> dict:
    return {"op": list(op) if op else ["new"], "words": note, "outcome": outcome, "state": state.to_json()}


def _history(title: str, num_blocks: int, block_size: int, steps: list[dict], verdict: dict | None, last: State, key: str, whose: str = "yours") -> object:
    # Only operations of the contract have an expected state, which the simulator's own model works out.
    known = LESSON_01 | {"new", "fork", "append", "_take"}
    judged = all(step["op"] and step["op"][0] in known for step in steps)
    state = {"title": title, "num_blocks": num_blocks, "block_size": block_size, "steps": steps, "verdict": verdict, "judged": judged, "whose": whose}
    words = f"{title}: {len(steps) - 1} steps. {verdict['sentence'] if verdict else ''}".strip()
    still = "" if last.problem else pool_still(last, num_blocks, block_size, title, words)
    return show("history", state, key=key, text=words, still=still + _paragraph(words))


# --- stills ---


def _paragraph(words: str) -> str:
    import html

    return f"<p>{html.escape(words)}</p>"


def _memory_still(title: str, label: str) -> str:
    sheet, marks = Sheet(f"{title}: after {ARRIVED} arrivals"), look.owners("ABCD")
    sheet.memory("contiguous", CONTIGUOUS, 160, marks)
    sheet.memory("paged", PAGED, 160, marks)
    sheet.line("Dots: reserved. Lines: internal. Crosses: external. Dashed: free.", 12, look.MUTED)
    return sheet.svg(label)


def _prefix_still(title: str, label: str, asked: dict, full: int, rest: int) -> str:
    """The shared blocks once, then each request's own; of many requests the first ones."""
    names = [chr(ord("A") + n) if n < 26 else f"r{n}" for n in range(asked["requests"])]
    marks, size, sheet = look.owners(names), asked["block"], Sheet(title)
    if full:
        sheet.line("shared by all", colour=look.MUTED)
        kind = "shared" if len(names) > 1 else "owned"
        sheet.blocks(tuple(Block(n, kind, tuple(names), len(names), size) for n in range(full)), marks, size)
    left = asked["prefix"] + asked["own"] - full * size
    for n, name in enumerate(names[:6]):
        sheet.line(f"{name}'s own", colour=look.MUTED)
        sheet.blocks(tuple(Block(full + n * rest + at, "owned", (name,), 1, min(size, left - at * size)) for at in range(rest)), marks, size)
    return sheet.svg(label)


def _tree_still(title: str, label: str, steps: list[dict], prompt: int) -> str:
    """Each beam as a line from its fork to its release (×) or to the end."""
    sheet, end = Sheet(title), prompt + len(steps)
    born, rows, released = {"A": 0}, {"A": 0}, {}
    for at, step in enumerate(steps, prompt):
        released |= dict.fromkeys(step["release"], at)
        for _, child in step["fork"]:
            born[child], rows[child] = at, len(rows)
    marks, top = look.owners(rows), sheet.y
    x, y = (lambda at: 20 + 560 * at / end), (lambda row: top + 14 + 26 * row)
    for at, step in enumerate(steps, prompt):
        for parent, child in step["fork"]:
            sheet.lines(f"M{x(at):g},{y(rows[parent]):g}V{y(rows[child]):g}", look.MUTED, dashed=True)
    for name, row in rows.items():
        last = released.get(name, end)
        sheet.lines(f"M{x(born[name]):g},{y(row):g}H{x(last):g}", marks[name].hue, 6)
        sheet.say(x(last) + 6, y(row) + 4, f"{marks[name].letter} ×" if name in released else marks[name].letter)
    sheet.y = y(len(rows)) + 4
    return sheet.svg(label)
