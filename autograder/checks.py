"""`check(exercise, object)`: what a lesson's cell calls. Drives the object, judges the transcript, tells the learner."""

from __future__ import annotations

import base64
import json
import os
import zlib

from autograder.drive import Calls, Rows, Transcript, drive_function, drive_manager, listening, uncollected
from autograder.exercises import EXERCISES, Exercise
from autograder.judge import cases_of, judge_answers, judge_calls, judge_manager
from autograder.needs import need
from autograder.plays import manager_plays
from autograder.promises.questions import read_answer
from autograder.record import Outcome
from autograder.shell import in_notebook
from autograder.tell import text
from autograder.verdict import Verdict, not_answered

TRANSCRIPT = "application/vnd.autograder.transcript+json"
LARGEST_TRANSCRIPT = 64 * 2**20  # unpacked bytes; a real one has a few hundred kilobytes


class PromiseBroken(AssertionError):
    """A check found a broken promise. In a notebook it shows the message alone, without a traceback through this package."""

    def __init__(self, message: str, short: str = ""):
        super().__init__(message)
        self.short = short or message

    def _render_traceback_(self) -> list[str]:
        return [self.short]


class NotWritten(PromiseBroken, NotImplementedError):
    """The exercise is still a stub."""


def exercise_named(id: str) -> Exercise:
    """The exercise with this id; KeyError with the names that exist otherwise."""
    if id in EXERCISES:
        return EXERCISES[id]
    near = [e for e in EXERCISES if e.split("/")[-1] == str(id).split("/")[-1]] or list(EXERCISES)
    raise KeyError(f"There is no exercise {id!r}; did you mean {', '.join(near)}?")


# ---- drive, then pack what was recorded ------------------------------------------------------------------------


def record(exercise: Exercise, obj: object, thorough: bool, seed: str, mark=lambda play, row: None) -> dict:
    """Put the object through the check's histories; the transcript as data that JSON holds."""
    with listening() as said, uncollected():
        data = _record(exercise, obj, thorough, seed, mark)
    return {**data, "said": [said.text, said.more]}


def _record(exercise: Exercise, obj: object, thorough: bool, seed: str, mark) -> dict:
    if exercise.kind == "manager":
        got = drive_manager(obj, manager_plays(exercise.verbs, thorough, seed), mark)
        return {"plays": [rows.to_json() for rows in got.plays], "stopped": got.stopped and list(got.stopped)}
    if exercise.kind == "function":
        if exercise.function.needs:
            need(exercise.function.needs, f"The check of {exercise.name}")    # before the clock of the first call runs
        got = drive_function(obj, cases_of(exercise, thorough, seed), exercise.function.keep, mark)
        return {"outcomes": [o.to_json() for o in got.outcomes], "stopped": got.stopped}
    return {"answers": [read_answer(obj, promise.id).to_json() for promise, _ in exercise.graded()]}


def judge(exercise: Exercise, data: object, thorough: bool, seed: str) -> Verdict:
    """The verdict on a recorded transcript, which may come from anywhere: what does not answer the histories is not judged."""
    try:
        with uncollected():
            return _judge(exercise, data, thorough, seed)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError):
        return not_answered(exercise, "the transcript does not belong to the histories that were asked")


def _judge(exercise: Exercise, data: dict, thorough: bool, seed: str) -> Verdict:
    if exercise.kind == "manager":
        plays = manager_plays(exercise.verbs, thorough, seed)
        rows = [Rows.from_json(r, len(play.ops)) for r, play in zip(data["plays"], plays, strict=False)]
        stopped = _stop(data["stopped"], plays)
        complete = len(rows) == len(plays) and all(len(r.rows) == len(p.ops) or (len(r.rows) == 1 and r.outcomes[r.rows[0][0]].error) for r, p in zip(rows, plays, strict=True))
        if not (complete or stopped):
            return not_answered(exercise, "some of its histories have no answer")
        return judge_manager(exercise, plays, Transcript(rows, stopped))
    if exercise.kind == "function":
        cases = cases_of(exercise, thorough, seed)
        outcomes = [Outcome.from_json(o) for o in data["outcomes"]]
        stopped = data["stopped"]
        if stopped is not None and not (type(stopped) is int and 0 <= stopped < len(cases)):
            raise ValueError
        if stopped is None and len(outcomes) != len(cases):
            return not_answered(exercise, "some of its calls have no answer")
        return judge_calls(exercise, cases, Calls(outcomes, stopped))
    return judge_answers(exercise, [Outcome.from_json(o) for o in data["answers"]])


def _stop(stopped: object, plays: list) -> tuple[int, int] | None:
    if stopped is None:
        return None
    number, row = stopped
    if not (type(number) is type(row) is int and 0 <= number < len(plays) and 0 <= row < len(plays[number].ops)):
        raise ValueError
    return number, row


def pack(data: dict) -> str:
    return base64.b64encode(zlib.compress(json.dumps(data, separators=(",", ":")).encode(), 6)).decode()


def unpack(packed: object) -> object:
    """The inverse of `pack`; ValueError for anything else, however large it pretends to be."""
    if type(packed) is not str:
        raise ValueError("not a packed transcript")
    try:
        stream = zlib.decompressobj()
        raw = stream.decompress(base64.b64decode(packed, validate=True), LARGEST_TRANSCRIPT)
        if stream.unconsumed_tail or not stream.eof:
            raise ValueError("too large, or cut off")
        return json.loads(raw)
    except (ValueError, zlib.error, RecursionError) as error:
        raise ValueError("not a packed transcript") from error


def judge_packed(data: object, *, exercise: str, nonce: str, thorough: bool) -> Verdict:
    """The verdict on what a check cell displayed. data may be None, damaged or forged: then `answered` is False."""
    asked = exercise_named(exercise)
    if not isinstance(data, dict):
        return not_answered(asked, "the cell shows no transcript")
    if data.get("exercise") != exercise or data.get("nonce") != nonce or data.get("thorough") is not thorough:
        return not_answered(asked, "the cell shows a transcript of something else")
    try:
        return judge(asked, unpack(data.get("packed")), thorough, nonce)
    except ValueError:
        return not_answered(asked, "the transcript is damaged")


# ---- in a notebook or a script ---------------------------------------------------------------------------------


def check(exercise: str, obj: object, thorough: bool = False) -> None:
    """Judge the object by the exercise's promises and show what was found.

    thorough: far more histories, as in grading. Raises PromiseBroken if a promise is broken. A stub shows
    "not written yet" and raises only where something must decide, that is in a script or under nbgrader.
    """
    asked = exercise_named(exercise)
    nonce = os.environ.get("AUTOGRADER_NONCE", "")
    data = record(asked, obj, thorough, nonce)
    if nonce:
        _display({TRANSCRIPT: {"exercise": exercise, "thorough": thorough, "nonce": nonce, "packed": pack(data)}, "text/plain": ""})
    verdict = judge(asked, json.loads(json.dumps(data)), thorough, nonce)
    _repeat(*data["said"])
    if verdict.passed:
        _show(verdict)
    elif verdict.unwritten and not verdict.broken and not verdict.stopped:
        if not in_notebook() or os.environ.get("NBGRADER_EXECUTION"):
            raise NotWritten(verdict.sentence)
        _show(verdict)
    elif in_notebook():
        _show(verdict)
        raise PromiseBroken(text(verdict), verdict.sentence)
    else:
        raise PromiseBroken(text(verdict))


def _display(bundle: dict) -> None:
    try:
        from IPython.display import display
    except ImportError:
        return
    display(bundle, raw=True)


def _repeat(text: str, more: int) -> None:
    """What the learner's code printed during the check; it changes no mark."""
    if text:
        print(f"Printed during the check:\n{text.rstrip()}" + (f"\n… and {more} more characters" if more else ""))


def _show(verdict: Verdict) -> None:
    mark = "✓" if verdict.passed else "✗" if verdict.broken else "…"
    words = f"{mark} {text(verdict)}"
    if in_notebook():
        from autograder.card import card

        _display({"text/html": card(verdict), "text/plain": words})
    else:
        print(words)
