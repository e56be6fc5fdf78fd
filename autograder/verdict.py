"""A verdict: what a check found, promise by promise."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from autograder.exercises import Exercise
from autograder.promises.base import Promise
from autograder.promises.functions import Case
from autograder.promises.manager import Step
from autograder.record import State

if TYPE_CHECKING:
    from autograder.misconceptions import Misconception


@dataclass(frozen=True)
class Breach:
    """Where a promise first broke: the calls that led there, the last of them being the one that broke it."""

    history: list[str]
    expected: str
    actual: str
    before: State | None = None
    after: State | None = None
    calls: int = 0  # that led there, if they are more than the lines of the history
    raised: str = ""  # the call and its exception, if that is one that the contract does not know
    hint: str | None = None  # instead of the promise's

    @property
    def length(self) -> int:
        return self.calls or len(self.history)


@dataclass(frozen=True)
class PromiseVerdict:
    """held: seen working wherever it applies. Otherwise breach says where it broke, or why_not why it was not seen."""

    promise: Promise
    points: float
    held: bool
    breach: Breach | None = None
    why_not: str = ""

    @property
    def hint(self) -> str:
        """What helps: nothing about blocks where the code fails for another reason."""
        if self.breach and self.breach.hint is not None:
            return self.breach.hint
        return "" if self.breach and self.breach.raised else self.promise.hint

    def to_dict(self) -> dict:
        return {
            "id": self.promise.id,
            "statement": self.promise.statement,
            "held": self.held,
            "history": self.breach.history if self.breach else [],
            "expected": self.breach.expected if self.breach else "",
            "actual": self.breach.actual if self.breach else self.why_not,
            "hint": "" if self.held else self.hint,
        }


@dataclass(frozen=True)
class Verdict:
    """What a check found. answered: the object answered the histories it was given; written: it is more than a stub."""

    exercise: Exercise
    promises: list[PromiseVerdict]
    answered: bool = True
    unwritten: list[str] = field(default_factory=list)
    stopped: list[str] = field(default_factory=list)
    trouble: str = ""
    unasked: float = 0.0    # the share of the check that was not asked, because a call before it did not return
    evidence: list[Step] | list[Case] = field(default_factory=list, repr=False)  # what broke, simplest first; from sound states only
    held: Callable[[], Iterable[Step] | Iterable[Case]] = field(default=tuple, repr=False)  # what did not break; asked for only when a mistake is to be named

    @property
    def passed(self) -> bool:
        return self.answered and not self.stopped and not self.unwritten and all(p.held for p in self.promises)

    @property
    def written(self) -> bool:
        return not self.unwritten

    @property
    def broken(self) -> list[PromiseVerdict]:
        """Broken promises, the one with the shortest history first; the order of the list decides between equals.

        Among equals an exception that is none of the contract's comes first: it is why the others broke.
        """
        return sorted((p for p in self.promises if p.breach), key=lambda p: (p.breach.length, not p.breach.raised))

    def score(self, max_points: float) -> float:
        """Points for the promises that held, as a share of max_points; all of them only if every promise held."""
        if self.passed:
            return float(max_points)
        if not self.answered:
            return 0.0
        share = sum(p.points for p in self.promises if p.held) / self.exercise.points
        if self.stopped:
            # What was not asked may have broken any of them: not to answer must never earn more than a wrong answer.
            share *= min(0.5, 1 - self.unasked)
        return max(0.0, min(round(share * max_points, 2), max_points - 0.01))

    @functools.cached_property
    def mistake(self) -> Misconception | None:
        """The mistake that what broke is known by, if it is. Never raises: a verdict does not depend on it."""
        from autograder.misconceptions import diagnose

        try:
            return diagnose(self)
        except Exception:  # recorded data may come from anywhere
            return None

    @property
    def sentence(self) -> str:
        from autograder.tell import sentence

        return sentence(self)

    def to_dict(self) -> dict:
        """Plain data. The hint of the first broken promise is the mistake's refutation, if it is known."""
        from autograder.tell import advice

        promises = [p.to_dict() for p in self.promises]
        if self.broken:
            first = next(p for p in promises if p["id"] == self.broken[0].promise.id)
            first["hint"] = advice(self)
        return {
            "exercise": self.exercise.id,
            "passed": self.passed,
            "answered": self.answered,
            "written": self.written,
            "sentence": self.sentence,
            "mistake": self.mistake.id if self.mistake else None,
            "promises": promises,
        }


def not_answered(exercise: Exercise, trouble: str) -> Verdict:
    """The verdict on something that cannot be judged, because the check's questions were not answered."""
    return Verdict(exercise, [PromiseVerdict(p, w, False, why_not=trouble) for p, w in exercise.graded()], answered=False, trouble=trouble)
