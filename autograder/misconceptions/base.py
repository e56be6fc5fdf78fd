"""A misconception: how a mistake shows in what was recorded, why the idea behind it is wrong, and where to read again."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass

Evidence = object  # a broken Step of a block manager, or a broken Case of a function or of an answer


@dataclass(frozen=True)
class Misconception:
    """One mistake that can be known from data alone.

    explains tells whether a broken step looks exactly as this mistake would make it look. together, where there is
    one, tells whether all of the evidence may be put down to it: some mistakes show clearly on a few steps only.
    spared tells whether something that did not break would have broken under this mistake, so that it was not made, or
    not everywhere. A manager's steps are also compared by what they look like before (`situation`), unless the mistake is
    by_chance: it shows or not by what happened long before. section is a heading of the lesson to read again.
    """

    id: str
    exercises: tuple[str, ...]
    names: str
    refutes: str
    section: str
    lesson: str
    explains: Callable[[Evidence], bool]
    together: Callable[[list[Evidence]], bool] | None = None
    spared: Callable[[Evidence], bool] | None = None
    by_chance: bool = False

    def fits(self, evidence: list[Evidence]) -> bool:
        return self.together is None or self.together(evidence)

    def reread(self, exercise: str) -> str:
        """The heading, and its lesson if that is not the exercise's own."""
        number = int(self.lesson[:2])
        return self.section if exercise.startswith(f"{self.lesson}/") else f"{self.section} (lesson {number})"


def recorder(shelf: dict[str, Misconception], *exercises: str, spared: Callable | None = None):
    """A decorator that puts a misconception with the decorated recogniser on the shelf; the more specific one goes first.

    clear: at least one step that the mistake explains must be as clear as that. lesson: where section is, if not in the
    lesson of the first exercise. spared(explains, held): see `Misconception`.
    """

    def mistake(id: str, names: str, refutes: str, section: str, clear=None, together=None, lesson: str | None = None, spared=spared, by_chance=False):
        def put(explains):
            if id in shelf:
                raise ValueError(f"There are two misconceptions {id!r}.")
            seen = together
            if clear is not None:
                seen = lambda evidence: any(explains(step) and clear(step) for step in evidence)  # noqa: E731
            shelf[id] = Misconception(id, exercises, names, refutes, section, lesson or exercises[0].split("/")[0], explains, seen, spared and functools.partial(spared, explains), by_chance)
            return explains

        return put

    return mistake
