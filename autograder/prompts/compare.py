"""Reads an answer as its form meant it, and says for each field whether it is right and, if not, why."""

from __future__ import annotations

import re
from dataclasses import dataclass

from autograder.prompts.questions import Field, Outcome, Question
from autograder.record import Unreadable, number

LONGEST = 2_000  # characters of an answer in words


class Unanswered(ValueError):
    """An answer that does not fill in the form; the message says which field, and how."""


@dataclass(frozen=True)
class Compared:
    """One field's answer beside its outcome. right is None where there is no right or wrong."""

    field: Field
    answer: object
    right: bool | None
    outcome: object
    why: str


def read(asked: Question, answer: object) -> dict:
    """The answer as {field: plain value}; raises Unanswered."""
    keys = [field.key for field in asked.fields]
    if not isinstance(answer, dict):
        values = list(answer) if isinstance(answer, (list, tuple)) and len(keys) > 1 else [answer]
        if len(values) != len(keys):
            raise Unanswered(f"{asked.id} asks for {len(keys)} values ({', '.join(keys)}), not {len(values)}.")
        answer = dict(zip(keys, values, strict=True))
    unknown = [key for key in answer if key not in keys]
    if unknown:
        raise Unanswered(f"{asked.id} does not ask for {unknown[0]!r}; it asks for {', '.join(keys)}.")
    return {field.key: _read_field(field, answer.get(field.key)) for field in asked.fields}


def _read_field(field: Field, value: object) -> object:
    if value is None or value == "":
        raise Unanswered(f"{field.label}: nothing is given yet.")
    if field.kind == "number":
        return _read_number(field, value)
    if field.kind == "choice":
        return _read_choice(field, value)
    if field.kind == "words":
        return str(value)[:LONGEST]
    return _read_list(field, value)


def _read_number(field: Field, value: object) -> float | int:
    try:
        return number(float(re.sub(r"[\s,_%]", "", value)) if isinstance(value, str) else value)
    except (Unreadable, ValueError):
        raise Unanswered(f"{field.label}: give a number.") from None


def _read_choice(field: Field, value: object) -> str:
    """The option itself, or its number counted from 1."""
    if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= len(field.options):
        return field.options[value - 1]
    for option in field.options:
        if str(value).strip().casefold() == option.casefold():
            return option
    raise Unanswered(f"{field.label}: give one of {', '.join(map(repr, field.options))}.")


def _read_list(field: Field, value: object) -> list[int]:
    items = re.findall(r"-?\d+", value) if isinstance(value, str) else value
    try:
        return [int(number(int(item) if isinstance(item, str) else item)) for item in items]
    except (TypeError, ValueError, Unreadable):
        raise Unanswered(f"{field.label}: give numbers, like 0, 2, 5.") from None


def compare(asked: Question, answer: dict) -> list[Compared]:
    """Every field of an answer that `read` gave, beside its outcome."""
    return [_compare_field(field, answer[field.key], asked.outcomes[field.key]) for field in asked.fields]


def _compare_field(field: Field, answer: object, outcome: Outcome) -> Compared:
    if not outcome.right:
        return Compared(field, answer, None, None, outcome.otherwise)
    if any(_same(field, answer, right, outcome.within) for right in outcome.right):
        return Compared(field, answer, True, outcome.right[0], "")
    why = next((say for wrong, say in outcome.wrong if _same(field, answer, wrong, outcome.within)), outcome.otherwise)
    return Compared(field, answer, False, outcome.right[0], why)


def _same(field: Field, one: object, other: object, within: float) -> bool:
    if field.kind == "number":
        return abs(one - other) <= within + 1e-9
    if field.kind in ("list", "order"):
        return list(one) == list(other)
    return one == other
