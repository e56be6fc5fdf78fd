"""Prompts: what they accept, keep and explain, in Python and in JavaScript alike; and that no outcome lies about in clear."""

import json
import random
import re
import shutil

import nbformat
import pytest
from nbclient import NotebookClient

from autograder import prompts
from autograder.prompts import compare, kept, questions, seal
from autograder.staff import prompts as source
from conftest import LESSONS, ROOT, each_lesson, needs_sources, run

EVERY = [q for lesson in LESSONS for kind in ("predict", "ask") for q in questions.of_lesson(lesson, kind)]
every = pytest.mark.parametrize("asked", EVERY, ids=lambda q: q.id)


def typed(field, rng):
    """Something that a reader might give for a field."""
    if field.kind == "number":
        return rng.choice([0, 1, 2, 3, 7, 16, 600, 8.9, 12.5, 31.25, rng.randrange(3000)])
    if field.kind == "choice":
        return rng.choice(field.options)
    if field.kind == "order":
        return rng.sample(range(1, len(field.options) + 1), len(field.options))
    return [rng.randrange(10) for _ in range(rng.randrange(1, 5))] if field.kind == "list" else "because"


def answers_of(asked, rng):
    """Answers at random, and each foreseen one."""
    yield {f.key: typed(f, rng) for f in asked.fields}
    for field in asked.fields:
        outcome = asked.outcomes[field.key]
        for value in [*outcome.right, *(wrong for wrong, _ in outcome.wrong)]:
            answer = {f.key: typed(f, rng) for f in asked.fields}
            yield answer | {field.key: list(value) if isinstance(value, tuple) else value}


# ---- the two languages say the same ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def in_javascript(node):
    """Run every prompt's answers through `question.mjs`."""
    rng = random.Random(4)
    cases = [{"asked": asked.for_page(), "answers": list(answers_of(asked, rng))} for asked in EVERY]
    program = f"""
        import {{ compare, unseal }} from {json.dumps((ROOT / "autograder/widgets/question.mjs").as_uri())};
        let text = "";
        for await (const part of process.stdin) text += part;
        const out = JSON.parse(text).map(({{ asked, answers }}) => {{
          const hidden = unseal(asked.id, asked.covered);
          return {{ hidden, rows: answers.map((answer) => compare(asked.fields, hidden.outcomes, answer).map(({{ right, why, outcome }}) => ({{ right, why, outcome }}))) }};
        }});
        console.log(JSON.stringify(out));
    """
    done = node("--input-type=module", "-e", program, stdin=json.dumps(cases))
    assert done.returncode == 0, done.stderr
    return list(zip(EVERY, cases, json.loads(done.stdout), strict=True))


@needs_sources
def test_the_page_uncovers_what_python_covered(in_javascript):
    for asked, _, got in in_javascript:
        assert got["hidden"] == seal.unseal(asked.id, asked.covered)


@needs_sources
def test_the_page_and_python_judge_every_answer_alike(in_javascript):
    judged = 0
    for asked, case, got in in_javascript:
        for answer, rows in zip(case["answers"], got["rows"], strict=True):
            ours = [{"right": c.right, "why": c.why, "outcome": list(c.outcome) if isinstance(c.outcome, tuple) else c.outcome} for c in compare.compare(asked, answer)]
            assert ours == rows, (asked.id, answer)
            judged += 1
    assert judged > 150


# ---- authored prompts --------------------------------------------------------------------------------------------


@needs_sources
@every
def test_right_answers_are_right_and_every_wrong_one_has_a_reason(asked):
    rng = random.Random(asked.id)
    for answer in answers_of(asked, rng):
        for row in compare.compare(asked, compare.read(asked, answer)):
            assert row.right is not False or row.why, f"{asked.id} {row.field.key} {row.answer}"


@needs_sources
@each_lesson
def test_a_lesson_has_predictions_and_two_recall_questions(lesson):
    assert questions.of_lesson(lesson, "predict")
    assert sum(q.title.startswith("From lesson") for q in questions.of_lesson(lesson, "ask")) == (0 if lesson.startswith("01") else 2)


@needs_sources
def test_ids_are_the_course_s_own():
    assert len({q.id for q in EVERY}) == len(EVERY)


@needs_sources
@each_lesson
def test_no_outcome_lies_in_clear_where_its_prompt_is_read(lesson):
    places = [ROOT / "notebooks" / lesson / f"{lesson}.ipynb", ROOT / "autograder" / "prompts" / f"{lesson}.json"]
    text = "\n".join(p.read_text("utf-8") for p in places)
    plain = re.sub(r"[`*]", "", text)
    for question in source.read(source.source_of(ROOT, lesson)):
        says = [entry["say"] for field in question["field"] for entry in field.get("wrong", [])]
        for said in [*says, question.get("reveal", "").strip().split("\n")[0]]:
            assert len(said) < 25 or re.sub(r"[`*]", "", said) not in plain, (question["id"], said)


FAULTY = {
    "no id": ("id", None, "has no id"),
    "a kind that is none": ("kind", "quiz", "its kind is none of"),
    "no reveal": ("reveal", None, "needs a reveal"),
    "a right answer that cannot be chosen": ("right", "E", "is none of its options"),
    "a wrong answer that is right": ("wrong", [{"answer": "a", "say": "no"}], "both right and wrong"),
    "wrong answers without a word": ("wrong", [], "needs an `otherwise`"),
}


@pytest.mark.parametrize(("key", "value", "sentence"), FAULTY.values(), ids=FAULTY)
def test_a_faulty_question_is_told_in_one_sentence(key, value, sentence, tmp_path):
    question = {"id": "q", "kind": "predict", "title": "T", "reveal": "R"}
    field = {"key": "k", "label": "L", "kind": "choice", "options": ["a", "b", "c"], "right": "a", "wrong": [{"answer": "b", "say": "no"}, {"answer": "c", "say": "no"}]}
    part = field if key in ("right", "wrong") else question
    part[key] = value
    path = tmp_path / "questions.toml"
    path.write_text("[[question]]\n" + _toml(question) + "[[question.field]]\n" + _toml(field))
    with pytest.raises(ValueError, match=sentence):
        source.read(path)


def _toml(table):
    def inline(value):
        return "{" + ", ".join(f"{k} = {inline(v)}" for k, v in value.items()) + "}" if isinstance(value, dict) else "[" + ", ".join(map(inline, value)) + "]" if isinstance(value, list) else json.dumps(value)

    return "".join(f"{key} = {inline(value)}\n" for key, value in table.items() if value is not None)


def test_a_prompt_that_is_called_and_not_there_is_told_and_so_is_the_other_way_round(tmp_path):
    there = [{"kind": "ask", "id": "lonely"}]
    faults = source.usage_faults(tmp_path / "questions.toml", there, 'predict("absent")\n')
    assert faults == ["predict('absent') is called, and questions.toml has no such question", "questions.toml: the lesson never calls ask('lonely')"]


# ---- a learner's predictions -------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


RIGHT = {"now": 2, "after_12": 2, "after_13": 3}


def test_a_prediction_is_kept_with_its_time_and_zone(folder):
    prompts.predict("boundary", answer={"now": "1", "after_12": 3.0, "after_13": 3})
    prompts.predict("boundary", answer=(1, 3, 3))
    prompts.predict("boundary", answer=RIGHT)
    entries = json.loads((folder / "predictions.json").read_text())["boundary"]
    assert [e["answer"] for e in entries] == [{"now": 1, "after_12": 3, "after_13": 3}, RIGHT]
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[+-]\d\d:\d\d", e["at"]) for e in entries)


def test_the_outcome_is_told_beside_the_first_answer(folder):
    told = repr(prompts.predict("boundary", answer=(1, 3, 3)))
    assert "you said 1, ✗ it is 2. That rounds down." in told
    assert "you said 3, ✓ as it is" in told
    assert "only then is a third block taken" in told
    assert "you said 1" in repr(prompts.predict("boundary", answer=RIGHT))


def test_before_an_answer_the_form_is_told_and_no_outcome(folder):
    told = repr(prompts.predict("boundary"))
    assert 'predict("boundary", answer={"now": …' in told
    assert "third block" not in told


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        ({"now": 1}, "blocks after 12 more tokens: nothing is given yet."),
        ((1, 2), "boundary asks for 3 values"),
        ((1, 2, "many"), "blocks after 13 more tokens: give a number."),
        ((1, 2, float("nan")), "give a number"),
        ({"now": 1, "later": 2}, "does not ask for 'later'"),
        (object(), "asks for 3 values"),
    ],
)
def test_an_answer_that_does_not_fill_in_the_form_is_told_and_nothing_is_kept(folder, answer, sentence):
    with pytest.raises(prompts.Unanswered, match=re.escape(sentence)):
        prompts.predict("boundary", answer=answer)
    assert not (folder / "predictions.json").exists()


def test_an_unknown_prompt_names_those_that_are_near():
    with pytest.raises(KeyError, match="did you mean boundary"):
        prompts.predict("boundry")


@pytest.mark.parametrize("damage", ["{", "[]", '{"boundary": 3}', '{"boundary": [{"answer": 3, "at": "x"}]}', "\x00", "[" * 100_000])
def test_a_damaged_file_is_put_aside_and_not_lost(folder, damage, capsys):
    (folder / "predictions.json").write_text(damage)
    prompts.predict("boundary", answer=RIGHT)
    assert (folder / "predictions.damaged.json").read_text() == damage
    assert kept.answers_to("boundary") == [RIGHT]
    assert "is kept as predictions.damaged.json" in capsys.readouterr().out


def cells(folder, *sources, **environment):
    """What a live notebook shows for these cells, run in the folder."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(text) for text in ("from autograder import *", *sources)])
    client = NotebookClient(notebook, timeout=60, allow_errors=True, resources={"metadata": {"path": str(folder)}})
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {"PYTHONPATH": str(ROOT), **environment}.items():
            patch.setenv(name, value)
        client.execute()
    return [cell.outputs for cell in notebook.cells[1:]]


def test_in_a_live_notebook_an_outcome_waits_for_its_prediction(folder):
    form, stopped, told, outcome, graded = cells(
        folder, 'predict("boundary")', 'predicted("boundary"); print("shown")', 'predict("boundary", answer=(1, 3, 3))', 'predicted("boundary"); print("shown")', 'predictions("01_contiguous_vs_paged")["boundary"]'
    )
    assert {"application/vnd.jupyter.widget-view+json", "text/html", "text/plain"} <= set(form[0]["data"])
    assert (stopped[0]["ename"], stopped[0]["traceback"]) == ("PredictFirst", [stopped[0]["evalue"]])
    assert "you said 1, ✗ it is 2" in told[0]["data"]["text/plain"]
    assert outcome[0]["text"] == "shown\n"
    assert graded[0]["data"]["text/plain"] == "1"


def test_a_grader_s_run_waits_for_no_prediction_and_marks_those_that_were_made(folder):
    (folder / "predictions.json").write_text(json.dumps({"boundary": [{"answer": RIGHT, "at": "2026-10-01T12:00:00+02:00"}]}))
    outcome, made = cells(folder, 'predicted("seven"); print("shown")', 'print(predictions("01_contiguous_vs_paged"))', NBGRADER_EXECUTION="autograde")
    assert outcome[0]["text"] == "shown\n"
    assert made[0]["text"] == "{'who-comes-in': None, 'boundary': 1, 'seven': None}\n"


def test_the_form_writes_what_is_committed_in_it(folder, monkeypatch):
    """What the front end sends, sent by hand: a browser's part is in test_page_prompts."""
    told = cells(folder, 'form = predict("boundary")\nform.kept = {"answers": [{"now": 1, "after_12": 2, "after_13": 3}], "done": True}', "form.kept", 'predict("boundary").kept')
    assert json.loads((folder / "predictions.json").read_text())["boundary"][0]["answer"] == {"now": 1, "after_12": 2, "after_13": 3}
    assert "'done': True" in told[2][0]["data"]["text/plain"]


def test_nobody_predicts_in_a_plain_script(folder):
    done = run("python", "-c", "from autograder import *; predicted('boundary'); print(predictions('01_contiguous_vs_paged'))", cwd=ROOT)
    assert done.stdout == "{'who-comes-in': 1, 'boundary': 1, 'seven': 1}\n"
    assert not shutil.os.path.exists(ROOT / "predictions.json")
