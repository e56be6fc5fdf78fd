"""Lesson 4: both caches write the same text, a missing copy shows, the model is what its script says, and a judge needs no torch."""

from __future__ import annotations

import contextlib
import html
import io
import json
import re
import struct
import sys
import warnings

import pytest

from autograder import charmodel
from autograder.checks import exercise_named, judge, pack, record, unpack
from autograder.texts import MARK, SideBySide
from conftest import ROOT, SOURCES, needs_sources, run

torch = pytest.importorskip("torch", reason="lesson 4 needs torch; `make setup` installs it")

LESSON = SOURCES / "04_real_cache" / "04_real_cache.py"
TENSOR_EXERCISES = ["04_real_cache/write_token", "04_real_cache/copy_block", "04_real_cache/paged_attention"]
READABLE = 0.9    # of the words that the model writes occur in its text; measured: 0.96
TOLERANCE = 1e-5


@pytest.fixture(scope="module")
def lesson():
    """What the solved lesson defines, after it has been run as a script."""
    if not LESSON.exists():
        pytest.skip("a student repository has no source_assignments/, which holds the solutions")
    space = {"__name__": "__main__", "__file__": str(LESSON)}
    with contextlib.redirect_stdout(io.StringIO()):
        exec(compile(LESSON.read_text("utf-8"), str(LESSON), "exec"), space)
    return space


# ---- the two caches --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seeds", [range(100, 110), range(110, 120), range(120, 130)], ids=lambda r: f"{r.start}-{r.stop - 1}")
def test_random_histories_give_the_same_text_and_the_same_scores_on_both_caches(lesson, seeds):
    total: dict[str, int] = {}
    for seed in seeds:
        happened, apart = lesson["random_history"](lesson["exact"], seed)
        assert apart <= TOLERANCE
        total = {what: total.get(what, 0) + count for what, count in happened.items()}
    # A trial in which one of these never happened would say nothing about it.
    assert all(count > 0 for count in total.values()), total


def test_a_long_history_in_32_bits_differs_by_rounding_only(lesson):
    same, apart, copies = lesson["compare"](lesson["model"])
    assert same and copies == 1 and apart < 1e-3


@pytest.mark.parametrize("width", [1, 2, 5])
def test_beams_are_the_same_on_both_caches(lesson, width):
    paged, plain = lesson["Paged"](lesson["exact"], num_blocks=60), lesson["Contiguous"](lesson["exact"])
    assert lesson["beam_search"](paged, width, 30) == lesson["beam_search"](plain, width, 30)
    assert paged.copies > 0 or width == 1


def test_every_block_is_free_again_when_all_sequences_have_stopped(lesson):
    paged = lesson["samples"](lesson["Paged"](lesson["model"]), ["A", "B", "C"], 12)
    for name in "BAC":
        paged.stop(name)
    assert paged.manager.used() == 0


def test_a_sequence_that_comes_back_by_recompute_goes_on_as_if_nothing_had_been(lesson):
    paged, plain = (lesson["samples"](kind(lesson["exact"]), ["A", "B"], 20) for kind in (lesson["Paged"], lesson["Contiguous"]))
    kept = list(paged.tokens["A"])
    paged.stop("A")
    paged.start("C", lesson["exact"].encode("somebody else takes the blocks meanwhile"))
    paged.start("A", kept)
    assert float((paged.scores["A"] - plain.scores["A"]).abs().max()) <= TOLERANCE
    for cache in (paged, plain):
        lesson["write"](cache, ["A", "B"], 20)
    assert [paged.tokens[name] == plain.tokens[name] for name in "AB"] == [True, True]


@needs_sources
def test_every_right_manager_drives_the_cache_whatever_its_shape(lesson):
    """A heap, a dataclass, NumPy counts: what lesson 3 accepts serves the model here."""
    from autograder.staff.variants import variants

    right = [v for v in variants(ROOT) if v.exercise == "03_copy_on_write/BlockManager" and v.right]
    assert len(right) > 5
    before = lesson["BlockManager"]
    try:
        for variant in right:
            lesson["BlockManager"] = variant.load()
            with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
                warnings.simplefilter("ignore")    # one of them talks while it works
                assert lesson["random_history"](lesson["exact"], 7)[1] <= TOLERANCE, variant.name
    finally:
        lesson["BlockManager"] = before


def test_memory_measured_from_the_tensors_is_what_the_formulas_say(lesson):
    contiguous, pool, in_use = lesson["measured"](4)
    token = 2 * 3 * 4 * 24 * 4
    assert (contiguous, pool, in_use) == (4 * 192 * token, 24 * 16 * token, 10 * 16 * token)


# ---- mistakes that show ----------------------------------------------------------------------------------------


def test_without_the_copy_the_first_writers_text_goes_wrong_and_the_seconds_does_not(lesson):
    engine = lesson["NeverCopies"]
    garbled, whole = (lesson["spoilt"](engine(lesson["model"]), name) for name in ("A", "B"))
    assert garbled.at is not None and garbled.at >= len(lesson["PROMPT"]) + 2
    assert whole.at is None
    assert lesson["first_wrong"](engine(lesson["model"]), "A") == 3
    assert lesson["first_wrong"](engine(lesson["model"]), "B") is None


@pytest.mark.parametrize("way", ["keys only", "values only", "first layer only", "all of it"])
def test_half_a_copy_is_seen_at_the_next_character_and_a_whole_one_never(lesson, way):
    half = lesson["HalfCopies"](lesson["model"], lesson["ways"][way])
    assert lesson["first_wrong"](half) == (None if way == "all of it" else 2)


# What these do to their arguments or dtype is harmless in the lesson's own engine, which is run in 64 bits here.
POLITE = ("changes_k", "scales_q_in_place", "cuts_the_table", "always_double")


@needs_sources
def test_every_wrong_variant_that_can_be_run_spoils_the_cache(lesson):
    """What the checks call wrong does harm: put into the engine it changes scores or raises."""
    from autograder.staff.variants import variants

    harmless = []
    for variant in variants(ROOT):
        if variant.exercise in TENSOR_EXERCISES and not variant.right and variant.name not in POLITE:
            before = lesson[variant.part]
            lesson[variant.part] = variant.load()
            try:
                same, apart = _histories_agree(lesson)
                harmless += [variant.name] if same and apart <= TOLERANCE else []
            except (IndexError, RuntimeError):
                pass
            finally:
                lesson[variant.part] = before
    assert harmless == []


def _histories_agree(lesson) -> tuple[bool, float]:
    apart = 0.0
    for seed in range(100, 112):
        try:
            apart = max(apart, lesson["random_history"](lesson["exact"], seed)[1])
        except AssertionError:
            return False, 0.0
    return True, apart


# ---- two texts side by side ------------------------------------------------------------------------------------


def test_the_parting_place_is_marked_in_words_and_by_a_sign_not_by_colour_alone():
    shown = SideBySide("the same <b> here", "the same <i> there", ("one", "other"))
    assert shown.at == 10
    assert "They part at character 11" in shown.sentence
    for form in (repr(shown), shown._repr_html_()):
        assert form.count(MARK) == 3 and shown.sentence in html.unescape(form)
    assert "<b>" not in shown._repr_html_()


def test_equal_texts_and_a_text_that_only_goes_on_are_told_apart():
    assert SideBySide("ab", "ab").at is None and MARK not in repr(SideBySide("ab", "ab"))
    assert SideBySide("ab", "abc").at == 2


# ---- the model -------------------------------------------------------------------------------------------------


def header() -> dict:
    """The header of the weights' file, read by hand: eight bytes of length, then JSON."""
    raw = charmodel.WEIGHTS.read_bytes()
    (length,) = struct.unpack("<Q", raw[:8])
    return json.loads(raw[8 : 8 + length])


def test_weights_are_a_safetensors_file_below_a_megabyte_and_nothing_is_unpickled(monkeypatch):
    import pickle

    monkeypatch.setattr(pickle, "Unpickler", None)
    monkeypatch.setattr(torch, "load", None)
    model = charmodel.load()
    assert charmodel.WEIGHTS.stat().st_size < 2**20
    ends = [entry["data_offsets"][1] for name, entry in header().items() if name != "__metadata__"]
    raw = charmodel.WEIGHTS.read_bytes()
    assert 8 + struct.unpack("<Q", raw[:8])[0] + max(ends) == len(raw)    # numbers and nothing behind them
    assert set(model.weights) == set(header()) - {"__metadata__"}


def test_the_weights_are_of_the_script_and_text_that_are_here():
    from autograder.staff import train_charmodel as script

    about, text = header()["__metadata__"], script.CORPUS.read_text("utf-8")
    assert about["corpus_sha256"] == script.digest(text)
    assert (about["alphabet"], about["seed"], about["steps"]) == (script.ALPHABET, str(script.SEED), str(script.STEPS))
    model = charmodel.load()
    assert script.measured(model, text) == pytest.approx(float(about["loss"]), abs=0.01)


def test_the_first_steps_of_the_training_can_be_repeated():
    from autograder.staff import train_charmodel as script

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        losses = script.trained(script.fresh(), script.CORPUS.read_text("utf-8"), script.FIRST_STEPS)
    finally:
        torch.set_num_threads(threads)
    assert losses == pytest.approx(json.loads(header()["__metadata__"]["first_losses"]), abs=2e-3)


def test_the_model_learned_from_open_pages_only():
    """No line of a solution or a hidden test is in the text that it was trained on."""
    from autograder.staff import train_charmodel as script

    text = script.CORPUS.read_text("utf-8")
    assert set(text) <= set(script.ALPHABET)
    assert "begin solution" not in text and "begin hidden" not in text


def test_most_words_that_it_writes_are_words_of_its_text(lesson):
    from autograder.staff import train_charmodel as script

    words = re.compile(r"[a-z']+")
    known = set(words.findall(script.CORPUS.read_text("utf-8")))
    written = []
    for name in "ABCD":
        cache = lesson["samples"](lesson["Contiguous"](lesson["model"]), [name], 150)
        written += words.findall(lesson["text"](cache, name)[len(lesson["PROMPT"]) :])[1:-1]    # the ends may be cut off
    share = sum(word in known for word in written) / len(written)
    assert len(written) > 80 and share >= READABLE, f"{share:.2f} of {len(written)} words"


def test_a_character_that_the_model_never_saw_is_named():
    with pytest.raises(ValueError, match="not 'Q'"):
        charmodel.load().encode("Question")


# ---- judged without torch --------------------------------------------------------------------------------------

NO_TORCH = """
import sys, json
from autograder.checks import exercise_named, judge, unpack
data, id = unpack(sys.stdin.read()), sys.argv[1]
verdict = judge(exercise_named(id), data, True, "s")
verdict.mistake, verdict.to_dict()
print(verdict.passed, "torch" in sys.modules, "numpy" in sys.modules)
"""


@needs_sources
@pytest.mark.parametrize("exercise", TENSOR_EXERCISES)
def test_a_judge_of_recorded_calls_imports_no_torch_and_the_record_is_small(exercise):
    import os
    import subprocess

    from autograder.staff.variants import load_reference

    packed = pack(record(exercise_named(exercise), load_reference(ROOT, exercise), True, "s"))
    assert len(packed) < 40_000
    ran = subprocess.run([sys.executable, "-c", NO_TORCH, exercise], input=packed, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)})
    assert ran.stdout.split() == ["True", "False", "False"], ran.stderr


def test_no_module_of_the_students_part_imports_torch_by_itself():
    program = "import sys, autograder.checks, autograder.charmodel, autograder.texts, autograder.misconceptions; print('torch' in sys.modules)"
    assert run(sys.executable, "-c", program).stdout.strip() == "False"


WITHOUT = "import sys; sys.modules['torch'] = None; from autograder import check, charmodel\n"


@pytest.mark.parametrize("call", ["check('04_real_cache/write_token', print)", "charmodel.load()"])
def test_without_torch_one_sentence_names_the_cure(call):
    ran = run(sys.executable, "-c", WITHOUT + call)
    assert ran.returncode == 1
    assert "needs the package torch, which is not installed. In the course's repository `make setup` installs it" in ran.stderr.splitlines()[-1]


@needs_sources
def test_other_lessons_checks_run_without_torch():
    ran = run(sys.executable, "-c", WITHOUT + "check('01_contiguous_vs_paged/slack', lambda n, size: -n % size)")
    assert ran.returncode == 0, ran.stderr


@needs_sources
@pytest.mark.parametrize("exercise", TENSOR_EXERCISES)
def test_a_damaged_record_of_tensors_is_no_answer_and_raises_nothing(exercise):
    from autograder.staff.variants import load_reference

    asked = exercise_named(exercise)
    good = unpack(pack(record(asked, load_reference(ROOT, exercise), True, "s")))
    assert judge(asked, good, True, "s").passed
    keys = [key for key in good["outcomes"][0][0] if key != "changed"]
    for damage in (None, [], {}, "x", [[1], "float32", [None]], [[-1], "float32", []], [[10**9], "float32", [1]], [[1], 3, [1]], [["1"], "float32", [1]], [[2], "float32", [1, "2"]]):
        for key in keys:
            data = json.loads(json.dumps(good))
            for outcome in data["outcomes"]:
                outcome[0][key] = damage
            assert not judge(asked, data, True, "s").passed
    for value in (None, 1, {"shown": "x"}, {"changed": []}, {key: None for key in keys}, "text"):
        data = json.loads(json.dumps(good))
        data["outcomes"] = [[value, None, ""] for _ in data["outcomes"]]
        verdict = judge(asked, data, True, "s")
        assert not verdict.passed and verdict.to_dict()["passed"] is False
    other = judge(asked, good, True, "another seed")
    assert not other.passed


@needs_sources
@pytest.mark.parametrize("exercise", TENSOR_EXERCISES)
def test_a_file_can_be_judged_from_a_terminal(exercise, tmp_path):
    from autograder.staff.variants import references

    file = tmp_path / "mine.py"
    file.write_text("import torch\n\n\n" + references(ROOT)[exercise])
    assert run(sys.executable, "-m", "autograder", "judge", str(file), "--exercise", exercise).returncode == 0
    name = exercise.split("/")[1]
    file.write_text(f"def {name}(*args):\n    return None\n")
    ran = run(sys.executable, "-m", "autograder", "judge", str(file), "--exercise", exercise)
    assert ran.returncode == 1 and "breaks a promise" in ran.stdout


FAR_OUT = {
    "a long sequence": lambda q, cache, table, length: length > 100,
    "many blocks in the table": lambda q, cache, table, length: len(table) > 10,
    "a high block number": lambda q, cache, table, length: max(table) > 15,
    "blocks of 33": lambda q, cache, table, length: cache.shape[1] == 33,
    "nine heads": lambda q, cache, table, length: q.shape[0] == 9,
    "heads of 24": lambda q, cache, table, length: q.shape[1] == 24,
}


@needs_sources
@pytest.mark.parametrize("seed", ["one", "two", "three"])
@pytest.mark.parametrize("where", FAR_OUT, ids=lambda name: name)
def test_attention_that_goes_wrong_only_far_out_is_found_with_any_seed(where, seed):
    from autograder.staff.variants import load_reference

    asked = exercise_named("04_real_cache/paged_attention")
    right = load_reference(ROOT, asked.id)

    def work(q, k_cache, v_cache, table, length):
        result = right(q, k_cache, v_cache, table, length)
        return result + FAR_OUT[where](q, k_cache, table, length)

    assert not judge(asked, record(asked, work, True, seed), True, seed).passed


@pytest.mark.parametrize("result", [3, "x", [1.0], None, object(), {"a": 1}])
def test_a_result_that_is_no_tensor_breaks_promises_and_is_shown(result):
    asked = exercise_named("04_real_cache/paged_attention")
    verdict = judge(asked, json.loads(json.dumps(record(asked, lambda *args: result, False, ""))), False, "")
    assert not verdict.passed and "returned" in verdict.broken[0].breach.actual


def test_odd_tensors_as_results_are_recorded_and_judged_wrong():
    asked = exercise_named("04_real_cache/paged_attention")
    for odd in (torch.zeros(0), torch.full((10_000,), 1.0), torch.tensor(float("nan")), torch.zeros(1, 2, dtype=torch.complex64), torch.zeros(1, 2, dtype=torch.bool), torch.zeros(3).to_sparse()):
        verdict = judge(asked, json.loads(json.dumps(record(asked, lambda *args, odd=odd: odd, False, ""))), False, "")
        assert not verdict.passed and verdict.broken


def test_the_lesson_says_what_the_checks_let_pass():
    """The tolerance in the text is the judge's."""
    from autograder.promises.tensors import TOLERANCE as judged

    assert judged == 0.0001
    released = ROOT / "notebooks" / "04_real_cache" / "04_real_cache.ipynb"
    assert "to within 0.0001" in released.read_text("utf-8")
