"""A diagnosis names the mistake that was made, or none: a wrong one is worse than none."""

from __future__ import annotations

import functools
import itertools
import json
import random
import re
import time
import tomllib

import pytest

from autograder.checks import exercise_named, judge, record
from autograder.drive import Calls
from autograder.exercises import EXERCISES
from autograder.judge import cases_of, judge_calls
from autograder.misconceptions import CATALOGUE, PARTS, diagnose, page
from autograder.record import Outcome
from autograder.tell import text
from autograder.verdict import Verdict
from conftest import ROOT, needs_sources

VARIANTS = ROOT / "source_assignments" / "variants.toml"
MANAGER = "03_copy_on_write/BlockManager"
MILLISECONDS = 20


def verdict_on(exercise: str, obj: object, thorough: bool = True) -> Verdict:
    asked = exercise_named(exercise)
    return judge(asked, json.loads(json.dumps(record(asked, obj, thorough, "a seed"))), thorough, "a seed")


def named(verdict: Verdict) -> str | None:
    return verdict.mistake.id if verdict.mistake else None


@functools.cache
def table() -> list[tuple]:
    """Every variant, and the mistake that was judged by hand to be its own."""
    if not VARIANTS.is_file():
        return []
    from autograder.staff.variants import variants

    expected = [raw.get("mistake") for raw in tomllib.loads(VARIANTS.read_text("utf-8"))["variant"]]
    return list(zip(variants(ROOT), expected, strict=True))


# What readers may well answer, and the mistake behind it; None where several mistakes give the same number.
ANSWERS = [
    ("01_contiguous_vs_paged/numbers", {"blocks": 6}, "hundred-rounded-down"),
    ("01_contiguous_vs_paged/numbers", {"blocks": 6, "slots": 96, "slack": 4}, "hundred-rounded-down"),
    ("01_contiguous_vs_paged/numbers", {"slots": 100, "slack": 0}, "tokens-for-slots"),
    ("01_contiguous_vs_paged/numbers", {"blocks": 6.25}, "tokens-for-slots"),
    ("01_contiguous_vs_paged/numbers", {"slack": 4}, "tokens-in-the-last-block-for-slack"),
    ("01_contiguous_vs_paged/numbers", {"slack": 4, "slack_percent": 3.57}, "tokens-in-the-last-block-for-slack"),
    ("01_contiguous_vs_paged/numbers", {"slack_percent": 12}, "percent-of-the-tokens"),
    ("01_contiguous_vs_paged/numbers", {"slack_percent": 75.0}, "percent-of-one-block"),
    ("01_contiguous_vs_paged/numbers", {"slack_percent": 0.107}, "fraction-for-percent"),
    ("01_contiguous_vs_paged/numbers", {"slack_percent": 89.29}, "percent-filled"),
    ("01_contiguous_vs_paged/numbers", {"blocks": 8}, None),
    ("01_contiguous_vs_paged/numbers", {"blocks": 6, "slack_percent": 12}, None),
    ("01_contiguous_vs_paged/numbers", {"blocks": "seven"}, None),
    ("01_contiguous_vs_paged/holes", {"total_free": 66}, "ends-not-counted"),
    ("01_contiguous_vs_paged/holes", {"total_free": 32}, "occupied-for-free"),
    ("01_contiguous_vs_paged/holes", {"largest_contiguous": 64}, "free-is-not-one-hole"),
    ("01_contiguous_vs_paged/holes", {"largest_contiguous": 16}, "first-run-only"),
    ("01_contiguous_vs_paged/holes", {"largest_paged": 32}, "pages-need-no-neighbours"),
    ("01_contiguous_vs_paged/holes", {"largest_paged": 4}, "blocks-for-tokens"),
    ("01_contiguous_vs_paged/holes", {"largest_paged": 96}, None),
    ("02_prefix_sharing/numbers", {"without": 9}, "sixty-rounded-down"),
    ("02_prefix_sharing/numbers", {"saved": 6, "saved_one_request": 2}, "everybody-saves"),
    ("02_prefix_sharing/numbers", {"saved": 6}, None),
    ("02_prefix_sharing/numbers", {"with_sharing": 6}, None),
    ("02_prefix_sharing/numbers", {"saved": 5}, "tokens-saved-for-blocks"),
    ("02_prefix_sharing/numbers", {"saved": 80}, "tokens-saved-for-blocks"),
    ("02_prefix_sharing/numbers", {"saved": 2}, "saved-by-one-request"),
    ("02_prefix_sharing/numbers", {"without": 4}, "one-request-for-three"),
    ("02_prefix_sharing/understanding", {"unrelated_models": True}, "same-text-same-cache"),
    ("02_prefix_sharing/understanding", {"shared_of_47": 3}, "nearly-full-is-shared"),
    ("02_prefix_sharing/understanding", {"matched_of_64": 4}, "whole-prompt-matched"),
    ("02_prefix_sharing/understanding", {"matched_of_64": 63}, "matched-in-tokens"),
    ("02_prefix_sharing/understanding", {"matched_of_64": 0}, None),
    ("03_copy_on_write/numbers", {"without": 576}, "samples-rounded-down"),
    ("03_copy_on_write/numbers", {"without": 577}, "samples-added-then-rounded"),
    ("03_copy_on_write/numbers", {"with_sharing": 202}, "tail-shared-for-good"),
    ("03_copy_on_write/numbers", {"with_sharing": 201}, "new-tokens-only"),
    ("03_copy_on_write/numbers", {"copies": 4}, "every-sample-copies"),
    ("03_copy_on_write/numbers", {"copies": 1}, "one-copy-for-all"),
    ("03_copy_on_write/numbers", {"copies": 375}, "full-blocks-copied"),
    ("03_copy_on_write/numbers", {"copies": 0}, "fork-never-copied"),
    ("03_copy_on_write/numbers", {"copies": 2}, None),
    ("04_real_cache/numbers", {"bytes_per_token": 768}, "one-layer-for-all"),
    ("04_real_cache/numbers", {"bytes_copied": 12_288}, "one-layer-for-all"),
    ("04_real_cache/numbers", {"bytes_per_token": 1_152}, "half-counted"),
    ("04_real_cache/numbers", {"bytes_copied": 18_432}, None),    # the keys alone, or the eight filled slots
    ("04_real_cache/numbers", {"bytes_copied": 9_216}, None),     # one head, or four filled slots
    ("04_real_cache/numbers", {"bytes_per_token": 576}, "one-head-for-all"),
    ("04_real_cache/numbers", {"slot": 20}, "position-for-slot"),
    ("04_real_cache/numbers", {"slot": 37}, "slots-counted-from-one"),
    ("04_real_cache/numbers", {"slot": 4}, "place-for-slot"),
    ("04_real_cache/numbers", {"slot": 32}, None),
    ("04_real_cache/numbers", {"bytes_copied": 11_520}, "filled-slots-copied"),
    ("04_real_cache/numbers", {"bytes_in_use": 589_824}, "samples-do-not-share"),
    ("04_real_cache/numbers", {"bytes_in_use": 313_344}, "tokens-without-slack"),
    ("04_real_cache/numbers", {"bytes_in_use": 1_769_472}, None),
    ("05_copy_costs/numbers", {"block_bytes": 327_680}, "a-token-for-a-block"),
    ("05_copy_costs/numbers", {"block_bytes": 2_621_440}, "keys-counted-alone"),
    ("05_copy_costs/numbers", {"pieces": 80}, "keys-counted-alone"),
    ("05_copy_costs/numbers", {"pieces": 1}, "one-piece"),
    ("05_copy_costs/numbers", {"microseconds": 1.092}, "a-byte-moved-once"),
    ("05_copy_costs/numbers", {"crossing": 23}, "a-byte-moved-once"),
    ("05_copy_costs/numbers", {"crossing": 11}, "crossing-rounded-down"),
    ("05_copy_costs/numbers", {"microseconds": 2_184.5}, "milliseconds"),
    ("05_copy_costs/numbers", {"microseconds": 0.0021845}, "milliseconds"),
    ("05_copy_costs/numbers", {"pieces": 64}, None),
    ("05_copy_costs/numbers", {"microseconds": 10}, None),
]


# ---- the right diagnosis, or none ------------------------------------------------------------------------------


@needs_sources
@pytest.mark.parametrize(("variant", "expected"), table(), ids=lambda x: f"{x.exercise}-{x.name}" if hasattr(x, "name") else "")
def test_a_variant_has_the_diagnosis_that_was_judged_right(variant, expected):
    if variant.right:
        assert expected is None
        assert verdict_on(variant.exercise, variant.load(), thorough=False).mistake is None
        return
    assert named(verdict_on(variant.exercise, variant.load())) == expected
    # With fewer histories less may be known, but nothing else.
    assert named(verdict_on(variant.exercise, variant.load(), thorough=False)) in (expected, None)


@pytest.mark.parametrize(("exercise", "answers", "expected"), ANSWERS)
def test_a_wrong_number_has_the_diagnosis_that_was_judged_right(exercise, answers, expected):
    verdict = verdict_on(exercise, answers)
    assert {p.promise.id for p in verdict.broken} == set(answers)
    assert named(verdict) == expected


@needs_sources
def test_each_misconception_is_the_diagnosis_of_something():
    assert set(CATALOGUE) == {id for _, id in table() if id} | {id for *_, id in ANSWERS if id}


@needs_sources
def test_two_mistakes_at_once_are_never_taken_for_a_third():
    from autograder.staff.variants import load, references, unmarked

    reference = references(ROOT)[MANAGER]
    raw = [raw for raw in tomllib.loads(VARIANTS.read_text("utf-8"))["variant"] if raw["exercise"] == MANAGER and raw.get("mistake") and "edits" in raw]
    pairs = list(itertools.combinations(raw, 2))
    random.Random("pairs").shuffle(pairs)
    found = []
    for pair in pairs:
        code = reference
        for old, new in [edit for one in pair for edit in one["edits"]]:
            code = code.replace(old, new) if code.count(old) == 1 else ""
        if code:
            own = {one["mistake"] for one in pair}
            found.append((named(verdict_on(MANAGER, load(unmarked(code), "BlockManager"), thorough=False)), own))
        if len(found) == 25:
            break
    assert [(id, own) for id, own in found if id is not None and id not in own] == []
    assert any(id is not None for id, _ in found)


# ---- the catalogue itself --------------------------------------------------------------------------------------


def test_the_catalogue_is_large_enough_and_speaks_of_every_exercise():
    of = {exercise: [m for m in CATALOGUE.values() if exercise in m.exercises] for exercise in EXERCISES}
    assert {m for found in of.values() for m in found} == set(CATALOGUE.values())
    assert len(CATALOGUE) == sum(len(part.ALL) for part in PARTS)    # no id stands for two
    assert len(of[MANAGER]) >= 30
    assert [exercise for exercise, found in of.items() if len(found) < 3 and not exercise.endswith("/predictions")] == []


@pytest.mark.parametrize("m", CATALOGUE.values(), ids=lambda m: m.id)
def test_an_entry_has_a_name_and_a_refutation_in_plain_sentences(m):
    assert re.fullmatch(r"[a-z]+(-[a-z]+)*", m.id)
    assert m.names and not m.names.endswith(".") and "\n" not in m.names + m.refutes
    assert m.refutes.endswith((".", ".)")) and 40 < len(m.refutes) < 330


@needs_sources
@pytest.mark.parametrize("m", CATALOGUE.values(), ids=lambda m: m.id)
def test_the_section_to_reread_is_a_heading_of_its_lesson(m):
    lesson = (ROOT / "source_assignments" / m.lesson / f"{m.lesson}.py").read_text("utf-8")
    assert m.section in re.findall(r"^#+ (.*)$", lesson, re.M)


def test_the_page_has_every_entry_except_those_that_would_give_a_number_away():
    shown = {m.id for m in CATALOGUE.values() if f"**{m.names}.** {m.refutes}" in page()}
    of_numbers = {m.id for m in CATALOGUE.values() if EXERCISES[m.exercises[0]].kind == "answers"}
    assert shown == {m.id for m in CATALOGUE.values()} - of_numbers


# ---- what the learner reads ------------------------------------------------------------------------------------


def rounds_down(n_tokens, block_size):
    return n_tokens // block_size


def test_a_known_mistake_is_told_in_place_of_the_hint():
    verdict = verdict_on("01_contiguous_vs_paged/blocks_needed", rounds_down)
    mistake, hint = verdict.mistake, verdict.broken[0].promise.hint
    lines = text(verdict).splitlines()
    assert f"  mistake:  {mistake.names}. {mistake.refutes}" in lines
    assert f"  reread:   {mistake.section}" in lines
    assert hint and hint not in text(verdict)
    told = verdict.to_dict()
    (first,) = [p for p in told["promises"] if not p["held"]]
    assert told["mistake"] == "blocks-rounded-down"
    assert mistake.refutes in first["hint"] and mistake.section in first["hint"]


def test_an_unknown_mistake_leaves_the_hint():
    verdict = verdict_on("01_contiguous_vs_paged/blocks_needed", lambda n, size: 3)
    hint = verdict.broken[0].promise.hint
    assert verdict.mistake is None and verdict.to_dict()["mistake"] is None
    assert f"  hint:     {hint}" in text(verdict).splitlines()
    assert verdict.to_dict()["promises"][0]["hint"] == hint


def test_the_heading_of_another_lesson_is_told_with_its_number():
    mistake = CATALOGUE["boundary-one-early"]
    assert mistake.reread(MANAGER) == "Predict first: the block boundary (lesson 1)"
    assert mistake.reread("01_contiguous_vs_paged/BlockManager") == "Predict first: the block boundary"


def test_only_the_answers_that_are_wrong_are_evidence():
    verdict = verdict_on("01_contiguous_vs_paged/numbers", {"blocks": 6, "slots": None})
    assert [(case.args, case.value, case.broken) for case in verdict.evidence] == [("blocks", 6, {"blocks"})]


# ---- never in the way ------------------------------------------------------------------------------------------


class Stub:
    def __init__(self, num_blocks, block_size):
        raise NotImplementedError


def hangs(n_tokens, block_size):
    while n_tokens == 5:
        pass
    return n_tokens // block_size


@pytest.mark.parametrize(
    ("exercise", "obj"),
    [(MANAGER, Stub), (MANAGER, None), ("01_contiguous_vs_paged/blocks_needed", "nonsense"), ("01_contiguous_vs_paged/numbers", {}), ("01_contiguous_vs_paged/blocks_needed", hangs)],
)
def test_what_is_not_written_or_does_not_return_has_no_diagnosis(exercise, obj):
    assert verdict_on(exercise, obj, thorough=False).mistake is None


@pytest.mark.parametrize("evidence", [[None], [1, 2], [object()]])
def test_evidence_that_makes_no_sense_has_no_diagnosis_and_raises_nothing(evidence):
    for exercise in EXERCISES.values():
        assert Verdict(exercise, [], evidence=evidence).mistake is None


def test_every_recogniser_can_be_asked_about_every_kind_of_evidence_of_its_exercise():
    """A recogniser that raises would hide the diagnosis of another."""
    values = [None, True, 0, -1, 3, 2.5, {"shown": "[1]"}, {"keys": []}, {"keys": [[0]]}, {"order": [0, 0]}, {"order": None}]
    outcomes = [Outcome(value) for value in values] + [Outcome(error="TypeError", message="no")]
    asked = 0
    for exercise in EXERCISES.values():
        if exercise.kind == "function":
            cases = cases_of(exercise, False, "")
            for outcome in outcomes:
                for case in judge_calls(exercise, cases, Calls([outcome] * len(cases))).evidence:
                    for m in CATALOGUE.values():
                        if exercise.id in m.exercises:
                            asked += 1
                            assert m.explains(case) in (True, False)
    assert asked > 1000


@needs_sources
def test_every_recogniser_can_be_asked_about_every_broken_step():
    asked = 0
    for variant, _ in table():
        if variant.exercise.endswith("BlockManager") and not variant.right:
            for step in verdict_on(variant.exercise, variant.load(), thorough=False).evidence[::7]:
                for m in CATALOGUE.values():
                    if variant.exercise in m.exercises:
                        asked += 1
                        assert m.explains(step) in (True, False), m.id
    assert asked > 1000


@needs_sources
def test_a_diagnosis_takes_few_milliseconds():
    slow = {}
    for variant, _ in table():
        if not variant.right and variant.name in ("used_is_a_number", "answer_inverted", "release_by_length", "boundary_at_one", "whole_prompt"):
            verdict = verdict_on(variant.exercise, variant.load())
            slow[variant.name] = min(timed(verdict) for _ in range(3))
    assert len(slow) == 5 and max(slow.values()) < MILLISECONDS, slow


def timed(verdict: Verdict) -> float:
    """Milliseconds for one diagnosis."""
    started = time.perf_counter()
    diagnose(verdict)
    return 1000 * (time.perf_counter() - started)
