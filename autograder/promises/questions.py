"""Numbers that the reader works out: a question, its promise, and how an answer is read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from autograder.promises.base import Broken, Promise
from autograder.promises.functions import Case
from autograder.record import Outcome, number, plain


@dataclass(frozen=True)
class Question:
    """A question with a number (or True/False) as its answer. right tells whether a value answers it."""

    key: str
    text: str
    right: Callable[[float], bool]
    hint: str


def question_promise(question: Question) -> Promise:
    def test(case: Case):
        if case.outcome.error or case.value is None:
            return None
        value = case.value
        number = type(value) in (int, float)
        if number and question.right(value):
            return True
        hint = None if number else "Give a number (or True or False), without quotation marks."
        if type(value) is float and any(question.right(value + step / 1000) for step in range(-60, 61)):
            hint = "Nearly: do not round as much."
        return Broken(question.text, f"your answer is {case.outcome.shown}", hint)

    return Promise(question.key, question.text, test, frozenset(), question.hint)


def read_answer(answers: object, key: str) -> Outcome:
    """One answer out of the learner's dict, as plain data; None stands for not answered."""
    try:
        value = answers[key]
    except Exception:
        return Outcome(None)
    if isinstance(value, (set, frozenset, list, tuple)) and len(value) == 1:
        (value,) = value
    try:
        return Outcome(None if value is None else number(value))
    except Exception:
        return Outcome(plain(value))

