"""Prompts of the lessons: `predict` before the outcome is shown, `ask` to check one's understanding.

    predict("boundary")                                     a form in a notebook and on the page
    predict("boundary", answer={"now": 1, "later": 2})      the same in plain code
    predicted("boundary")                                   stops a notebook's cell until the prediction is made
    predictions("01_contiguous_vs_paged")                   which of a lesson's predictions are made: what the mark reads
"""

from __future__ import annotations

import os

from autograder.prompts.compare import Unanswered, read
from autograder.prompts.kept import answers_to, commit
from autograder.prompts.questions import Question, of_lesson, question
from autograder.prompts.words import told
from autograder.shell import in_notebook, shell

__all__ = ["PredictFirst", "Unanswered", "ask", "predict", "predicted", "predictions"]


class PredictFirst(Exception):
    """A cell that shows an outcome was run before its prediction. A notebook shows the sentence alone."""

    def _render_traceback_(self) -> list[str]:
        return [str(self)]


def predict(id: str, answer: object = None) -> object:
    """Ask for a prediction; the outcome is shown beside it once it is made.

    answer: one value per field, as a dict or in the order of the form. It goes to `predictions.json` beside the
    notebook, with its time; a mark counts that a prediction was made, never that it was right.
    Raises Unanswered if a field is missing, KeyError if there is no such prompt.
    """
    asked = question(id, "predict")
    if answer is not None:
        commit(id, read(asked, answer))
    return _show(asked, answers_to(id), answer is not None)


def ask(id: str, answer: object = None) -> object:
    """Ask a question for practice: each likely wrong answer is explained. Nothing is kept of it and nothing graded."""
    asked = question(id, "ask")
    return _show(asked, [read(asked, answer)] if answer is not None else [], answer is not None)


def predicted(id: str) -> None:
    """In a live notebook, stop here until the prediction is made; elsewhere do nothing."""
    asked = question(id, "predict")
    if _somebody_reads() and not answers_to(id):
        raise PredictFirst(f"Predict first: run the cell with predict({id!r}) above, commit what you think ({asked.title}), then run this cell again.")


def predictions(lesson: str) -> dict[str, int | None]:
    """For each prediction of the lesson 1 if it was made, None if not: what `check` reads.

    In a plain script, and while the answer key is run for the page, nobody is there to predict; all of them count then.
    """
    nobody = bool(os.environ.get("AUTOGRADER_ANSWER_KEY")) or shell() is None
    return {asked.id: 1 if nobody or answers_to(asked.id) else None for asked in of_lesson(lesson, "predict")}


def _somebody_reads() -> bool:
    """Whether a learner sits before a live notebook: no script, no grader, no run of the answer key."""
    return in_notebook() and not any(os.environ.get(name) for name in ("AUTOGRADER_ANSWER_KEY", "AUTOGRADER_NONCE", "NBGRADER_EXECUTION"))


def _show(asked: Question, answers: list[dict], plain: bool) -> object:
    from autograder.prompts.words import still
    from autograder.widgets.host import Still, show

    words = told(asked, answers)
    if plain:
        return Still(f"<pre>{_escaped(words)}</pre>", words)
    front = {"answers": answers, "done": bool(answers)} if asked.kind == "predict" else {}

    def on_kept(new: dict) -> None:
        if asked.kind == "predict" and new.get("answers") and not answers_to(asked.id):
            commit(asked.id, read(asked, new["answers"][-1]))

    return show("question", asked.for_page(), key=f"question:{asked.id}", text=words, still=still(asked), kept=front, on_kept=on_kept)


def _escaped(words: str) -> str:
    import html

    return html.escape(words)
