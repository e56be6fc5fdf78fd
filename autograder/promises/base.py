"""A promise, what breaking it looks like, and the page that lists them all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Broken:
    """A promise did not hold: what was expected and what was found, as words. What takes long to say is said on demand."""

    expected: str | Callable[[], str]
    actual: str
    hint: str | None = None  # instead of the promise's, where that would mislead

    @property
    def due(self) -> str:
        return self.expected if isinstance(self.expected, str) else self.expected()


@dataclass(frozen=True)
class Promise:
    """One clause of the contract.

    test takes a step (or a function's case) and gives None where the promise says nothing, True where it held,
    and Broken where it did not. needs: the operations that must have been seen working before it counts as held.
    spoils: a state that broke it is no ground to judge what follows from it. verbs: the operations it may speak of; when: how those went
    (`promises.manager.HOW`), where it says nothing of other ways.
    """

    id: str
    statement: str
    test: Callable[[object], object]
    needs: frozenset[str] = frozenset()
    hint: str = ""
    spoils: bool = True
    verbs: frozenset[str] = frozenset()
    when: frozenset[str] = frozenset()


def page() -> str:
    """The book's page of promises, as Markdown, generated from the registry of exercises."""
    from autograder.exercises import EXERCISES

    lines = [
        "# The promises",
        "",
        "Right work keeps every one of these, after every operation. A check names the promise that broke,",
        "and shows the shortest history of calls that breaks it. Nothing that is not on this page is graded.",
        "",
        "This page is written by the code that judges.",
        "",
    ]
    lesson = None
    for exercise in EXERCISES.values():
        if exercise.kind == "answers":
            continue
        if exercise.lesson != lesson:
            lesson = exercise.lesson
            lines += [f"## {lesson.replace('_', ' ')}", ""]
        lines += [f"### `{exercise.name}`", "", "| promise | points | what it says |", "| --- | --- | --- |"]
        for promise, points in exercise.graded():
            lines.append(f"| {promise.id} | {points:g} | {promise.statement} |")
        lines.append("")
    return "\n".join(lines)
