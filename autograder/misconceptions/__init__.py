"""The catalogue of mistakes that can be known by what was recorded, each with its refutation and the passage to read again.

A recogniser looks at data only: at a step's state before and after, or at a function's arguments and result. Where no
mistake looks exactly like what was seen there is no diagnosis; a wrong one is worse than none.
"""

from __future__ import annotations

from autograder.misconceptions import (
    answers,
    append,
    cache_numbers,
    copy_block,
    copy_blocks,
    eviction,
    fork,
    functions,
    manager,
    paged_attention,
    prefixes,
    release,
    write_token,
)
from autograder.misconceptions.base import Misconception
from autograder.misconceptions.situation import contradicted, other_used
from autograder.promises.manager import Step

__all__ = ["CATALOGUE", "Misconception", "diagnose", "page"]

PARTS = (fork, append, manager, release, functions, prefixes, eviction, answers, cache_numbers, write_token, copy_block, paged_attention, copy_blocks)
CATALOGUE: dict[str, Misconception] = {id: m for part in PARTS for id, m in part.ALL.items()}
USED = 60  # held steps that are asked what a mistake in `used()` would have said
MOST = 0.8  # of the evidence, for a mistake that is not alone


def diagnose(verdict) -> Misconception | None:
    """The one mistake that explains what broke: all of it, or else the first and most of it, better than any other.

    Of several that explain all the one that stands first in the catalogue is the more specific one.
    """
    evidence = verdict.evidence
    if not evidence or verdict.stopped or not verdict.answered:
        return None
    likely = [m for m in CATALOGUE.values() if verdict.exercise.id in m.exercises and m.explains(evidence[0]) and m.fits(evidence)]
    explained = {m.id: sum(map(m.explains, evidence)) for m in likely}
    for m in likely:
        if explained[m.id] == len(evidence) and not _spared(m, verdict):
            return m
    best = max(explained.values(), default=0)
    first, *others = [m for m in likely if explained[m.id] == best] or [None]
    return first if MOST * len(evidence) <= best < len(evidence) and not others and _stands_alone(first, verdict) and not _spared(first, verdict) else None


def _spared(mistake: Misconception, verdict) -> bool:
    """Whether something held that this mistake would have broken."""
    held = verdict.held()
    if mistake.spared is not None and any(map(mistake.spared, held)):
        return True
    if mistake.by_chance or not isinstance(verdict.evidence[0], Step):
        return False
    if verdict.evidence[0].broken == {"used-counts-once"}:
        return any(other_used(mistake.explains, step) for step in held[:USED])
    return contradicted([step for step in verdict.evidence if mistake.explains(step)], held)


def _stands_alone(mistake: Misconception, verdict) -> bool:
    """Whether what the mistake leaves unexplained looks like another one: it is in other operations, and is not what is shown."""
    shown = verdict.broken[0].promise.id
    known = [piece for piece in verdict.evidence if mistake.explains(piece)]
    verbs = {piece.verb for piece in known if isinstance(piece, Step)}
    rest = [piece for piece in verdict.evidence if isinstance(piece, Step) and piece.verb in verbs and not mistake.explains(piece)]
    return not rest and any(shown in piece.broken for piece in known)


def page() -> str:
    """The book's page of misconceptions, as Markdown, generated from the catalogue."""
    from autograder.exercises import EXERCISES

    lines = [
        "# What people get wrong",
        "",
        "A check that finds one of these mistakes names it. It does so only if everything that it saw looks exactly",
        "as this mistake makes it look; otherwise it shows what it saw, and no more.",
        "",
        "This page is written by the code that judges.",
        "",
    ]
    lesson = None
    for exercise in EXERCISES.values():
        own = [m for m in CATALOGUE.values() if m.exercises[0] == exercise.id]
        if not own or exercise.kind == "answers":     # what is asked as a number is not to be read off this page
            continue
        if exercise.lesson != lesson:
            lesson = exercise.lesson
            lines += [f"## {lesson.replace('_', ' ')}", ""]
        lines += [f"### `{exercise.name}`", ""]
        for m in own:
            read = f"[{m.section}](../notebooks/{m.lesson}/{m.lesson}.ipynb)"
            lines += [f"**{m.names}.** {m.refutes} Read again: {read}.", ""]
    return "\n".join(lines)
