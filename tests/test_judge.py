"""Right work passes, wrong work never does, and the judge looks at plain data only."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from autograder.checks import exercise_named, judge, record
from autograder.exercises import EXERCISES, exercise_of
from autograder.histories import ALL, LESSON_01
from autograder.plays import manager_plays
from autograder.record import read_state
from autograder.tell import text

ROOT = Path(__file__).parent.parent
MANAGER = "03_copy_on_write/BlockManager"
TRACES = Path(__file__).parent / "data" / "vllm_v0_traces.jsonl"

needs_source = pytest.mark.skipif(not (ROOT / "source_assignments").is_dir(), reason="this checkout has no source_assignments/, which holds the reference solutions")


def verdict_on(exercise: str, obj: object, thorough: bool = True, seed: str = "a seed"):
    asked = exercise_named(exercise)
    data = json.loads(json.dumps(record(asked, obj, thorough, seed)))
    return judge(asked, data, thorough, seed)


def variants():
    if not (ROOT / "source_assignments").is_dir():
        return []
    from autograder.staff.variants import variants

    return variants(ROOT)


def reference(exercise: str):
    from autograder.staff.variants import load_reference

    return load_reference(ROOT, exercise)


@needs_source
@pytest.mark.parametrize("variant", variants(), ids=lambda v: f"{v.exercise}-{v.name}")
def test_right_variants_pass_and_wrong_ones_do_not(variant):
    verdict = verdict_on(variant.exercise, variant.load())
    assert verdict.passed is variant.right, verdict.sentence
    full = verdict.exercise.points
    assert verdict.score(full) == full if variant.right else verdict.score(full) < full
    if variant.right:
        assert verdict_on(variant.exercise, variant.load(), thorough=False).passed


@needs_source
@pytest.mark.parametrize("exercise", [id for id in EXERCISES if not id.endswith("/predictions")])    # a prediction has no solution
def test_reference_solution_passes(exercise):
    assert verdict_on(exercise, reference(exercise)).passed


@needs_source
def test_reference_agrees_with_every_trace_of_a_real_engine():
    """150 histories answered by vLLM's v0 block manager: result, blocks used, counts, table lengths, sharing."""
    make = reference(MANAGER)
    traces = [json.loads(line) for line in TRACES.read_text().splitlines()]
    assert len(traces) == 150
    for trace in traces:
        manager = make(trace["num_blocks"], trace["block_size"])
        for op, expected in zip(trace["ops"], trace["expect"], strict=True):
            assert observed(manager, op) == expected


def observed(manager, op: list) -> list:
    """What the trace records after an operation; blocks renamed by first appearance, since numbers differ between engines."""
    try:
        result = getattr(manager, op[0])(*op[1:])
    except (MemoryError, KeyError) as error:
        result = type(error).__name__
    state = read_state(manager)
    names = sorted(state.seqs)
    renamed: dict[int, int] = {}
    structure = {n: [renamed.setdefault(b, len(renamed)) for b in state.seqs[n][0]] for n in names}
    return [result, manager.used(), sorted(state.ref.values()), {n: len(state.seqs[n][0]) for n in names}, structure]


def single(op: tuple) -> tuple:
    """The calls of an operation: a burst has many."""
    return op[1] if op[0] == "burst" else (op,)


@needs_source
@pytest.mark.parametrize("verbs", [ALL, LESSON_01], ids=["all", "lesson 1"])
@pytest.mark.parametrize(("thorough", "seed"), [(False, ""), *((True, f"seed {n}") for n in range(6))])
def test_no_undefined_call_is_driven_and_no_call_of_a_burst_is_refused(verbs, thorough, seed):
    """What is live is what the reference says is live: a refused call makes no name."""
    make, seen = reference(MANAGER), set()

    def call(manager, op: tuple) -> bool:
        """Whether it was done."""
        verb, *args = op
        assert verb in verbs
        if verb in ("allocate", "fork"):
            new = args[0] if verb == "allocate" else args[1]
            assert new and type(new) is str and new not in manager.seqs, op
            assert verb == "fork" or (type(args[1]) is int and args[1] >= 0)
        seen.add(verb)
        try:
            getattr(manager, verb)(*args)
            return True
        except (MemoryError, KeyError):
            return False

    for play in manager_plays(verbs, thorough, seed):
        managers: dict[int, object] = {}
        for row, (parent, op) in enumerate(zip(play.parents, play.ops, strict=True)):
            if parent is None:
                managers[row] = make(*play.shape(row))
                continue
            manager = managers[play.roots[row]]
            if play.branches:
                manager = make(*play.shape(row))
                for before in play.before[row]:
                    if before[0] not in ("twin", "_take"):
                        call(manager, before)
            if op[0] not in ("twin", "_take"):
                done = [call(manager, one) for one in single(op)]
                assert op[0] != "burst" or all(done), op
    assert seen == verbs


@needs_source
def test_every_call_brings_its_names_as_objects_of_their_own():
    """Equal names need not be one object: a manager that compares with `is` must not pass."""
    base = reference(MANAGER)

    class ByIdentity(base):
        def _known(self, name):
            return next(known for known in [*self.seqs, name] if known == name)

        def release(self, name):
            if len(name) > 1 and self._known(name) is not name and name in self.seqs:
                raise KeyError(name)
            super().release(name)

    assert not verdict_on(MANAGER, ByIdentity).passed


def test_short_histories_come_in_order_of_length():
    for play in manager_plays(ALL, True, "any"):
        if play.branches:
            tree = [len(play.path(row)) for row in range(len(play.ops))]
            assert tree == sorted(tree) or len(tree) < 100    # a few chains by hand are no such list


def test_the_seed_decides_the_long_histories():
    ops = lambda seed: [p.ops for p in manager_plays(ALL, True, seed)]  # noqa: E731
    assert ops("one") == ops("one")
    assert ops("one") != ops("two")


def test_points_of_an_exercise_are_those_of_its_promises():
    points = {"01_contiguous_vs_paged": 25, "02_prefix_sharing": 24, "03_copy_on_write": 26, "04_real_cache": 21, "05_copy_costs": 11}
    for lesson, total in points.items():
        assert sum(e.points for e in EXERCISES.values() if e.lesson == lesson) == pytest.approx(total)
    assert all(weight > 0 for e in EXERCISES.values() for weight in e.weights.values())


@needs_source
def test_points_of_a_lesson_cell_are_those_of_its_exercise():
    import jupytext

    seen = set()
    for lesson in sorted((ROOT / "source_assignments").glob("*/*.py")):
        for cell in jupytext.read(lesson, fmt="py:percent").cells:
            about = cell.metadata.get("nbgrader", {})
            if about.get("grade") and exercise_of(cell.source):
                seen.add(exercise_of(cell.source))
                assert about["points"] == pytest.approx(EXERCISES[exercise_of(cell.source)].points), about["grade_id"]
    assert seen == set(EXERCISES)


# ---- stubs -----------------------------------------------------------------------------------------------------


class Stub:
    def __init__(self, num_blocks, block_size):
        self.free, self.ref, self.seqs = list(range(num_blocks)), {}, {}

    def allocate(self, name, n_tokens):
        raise NotImplementedError

    _take = fork = append = release = used = lambda self, *args: (_ for _ in ()).throw(NotImplementedError())


def test_a_stub_earns_nothing_and_is_called_unwritten():
    verdict = verdict_on(MANAGER, Stub)
    assert not verdict.passed and not verdict.written and not verdict.broken
    assert verdict.score(16) == 0
    assert "not written yet" in verdict.sentence
    for exercise in EXERCISES.values():
        if exercise.kind == "function":

            def stub(*args):
                raise NotImplementedError

            verdict = verdict_on(exercise.id, stub)
            assert verdict.score(exercise.points) == 0 and "not written yet" in verdict.sentence


@pytest.mark.parametrize("number", [10**30_000, -(10**30_000), 2**70], ids=["huge", "hugely negative", "large"])
def test_a_number_of_thousands_of_digits_is_read_and_judged_wrong(number):
    class Huge:
        def __init__(self, num_blocks, block_size):
            self.free, self.ref, self.seqs = [*range(num_blocks), number], {0: number}, {"a": {"blocks": [number], "len": number}}

        def used(self):
            return number

    verdict = verdict_on(MANAGER, Huge, thorough=False)
    assert not verdict.passed and "digits" in verdict.broken[0].breach.actual


@needs_source
def test_work_that_stops_being_written_in_long_histories_does_not_pass():
    """A NotImplementedError now and then is no stub: what works elsewhere must work everywhere."""
    base = reference(MANAGER)

    class Lazy(base):
        def append(self, name):
            if len(self.seqs) > 4:
                raise NotImplementedError
            return super().append(name)

    class Seldom(base):
        def used(self):
            if len(self.ref) > 3:
                raise NotImplementedError
            return super().used()

    for lazy in (Lazy, Seldom):
        verdict = verdict_on(MANAGER, lazy)
        assert not verdict.passed and verdict.broken and verdict.score(16) < 16
    count = reference("01_contiguous_vs_paged/blocks_needed")

    def small_only(n, size):
        if n > 100:
            raise NotImplementedError
        return count(n, size)

    verdict = verdict_on("01_contiguous_vs_paged/blocks_needed", small_only)
    assert not verdict.passed and "NotImplementedError" in verdict.broken[0].breach.actual


def test_unanswered_questions_are_not_called_wrong():
    verdict = verdict_on("01_contiguous_vs_paged/numbers", {"blocks": None, "slots": None, "slack": None, "slack_percent": None})
    assert verdict.score(3) == 0 and not verdict.broken and "not answered yet" in verdict.sentence
    verdict = verdict_on("01_contiguous_vs_paged/numbers", {"blocks": 6, "slots": None})
    assert [p.promise.id for p in verdict.broken] == ["blocks"]


@pytest.mark.parametrize("nonsense", [None, 3, "x", [], {}, print, object()])
def test_nonsense_in_place_of_an_exercise_never_passes_and_never_crashes(nonsense):
    for exercise in EXERCISES:
        assert not verdict_on(exercise, nonsense, thorough=False).passed


# ---- transcripts from outside ----------------------------------------------------------------------------------


@needs_source
@pytest.mark.parametrize("exercise", [MANAGER, "02_prefix_sharing/can_share", "02_prefix_sharing/numbers"])
def test_a_damaged_transcript_is_not_an_answer(exercise):
    asked = exercise_named(exercise)
    data = json.loads(json.dumps(record(asked, reference(exercise), True, "s")))
    assert judge(asked, data, True, "s").passed
    for damage in (None, [], {}, {"plays": []}, {"outcomes": [[1]]}, {"answers": "abc"}, {"plays": None, "outcomes": None, "answers": None}):
        verdict = judge(asked, damage, True, "s")
        assert not verdict.passed and verdict.score(10) == 0
    if exercise == MANAGER:
        del data["plays"][3]["rows"][-1]
        verdict = judge(asked, data, True, "s")
        assert not verdict.answered and "did not answer its checks" in verdict.sentence


@needs_source
def test_a_transcript_for_another_seed_does_not_pass():
    asked = exercise_named(MANAGER)
    data = json.loads(json.dumps(record(asked, reference(MANAGER), True, "one")))
    assert not judge(asked, data, True, "two").passed


# ---- mistakes that show only far out ---------------------------------------------------------------------------

FAR_OUT = {
    "five owners": lambda m, name, tail: m.ref[tail] >= 5,
    "a long table": lambda m, name, tail: len(m.seqs[name]["blocks"]) >= 20,
    "many tokens": lambda m, name, tail: m.seqs[name]["len"] >= 257,
    "many sequences": lambda m, name, tail: len(m.seqs) >= 6,
    "large blocks": lambda m, name, tail: m.block_size > 17,
    "a large pool": lambda m, name, tail: len(m.free) + len(m.ref) > 64,
    "a high block number": lambda m, name, tail: tail >= 64,
    "the last slot of 16": lambda m, name, tail: m.seqs[name]["len"] % 16 == 15,
    "the middle of a block of 16": lambda m, name, tail: m.seqs[name]["len"] % 16 == 8,
}


@needs_source
@pytest.mark.parametrize("seed", ["one", "two", "three"])
@pytest.mark.parametrize("where", FAR_OUT, ids=lambda name: name)
def test_a_shared_write_that_goes_wrong_only_far_out_is_found_with_any_seed(where, seed):
    base = reference(MANAGER)

    class Work(base):
        def append(self, name):
            blocks = self.seqs[name]["blocks"]
            if blocks and self.seqs[name]["len"] % self.block_size and self.ref[blocks[-1]] > 1 and FAR_OUT[where](self, name, blocks[-1]):
                self.seqs[name]["len"] += 1
                return False
            return super().append(name)

    assert not verdict_on(MANAGER, Work, seed=seed).passed


@needs_source
@pytest.mark.parametrize("calls", [10, 50, 100])
def test_an_answer_that_drifts_after_many_calls_is_found(calls):
    base = reference(MANAGER)

    class Work(base):
        appended = 0

        def append(self, name):
            self.appended += 1
            return super().append(name) if self.appended < calls else not super().append(name)

    assert not verdict_on(MANAGER, Work).passed


# ---- what is told ----------------------------------------------------------------------------------------------


@needs_source
@pytest.mark.parametrize("verb", ["__init__", "allocate", "fork", "append", "release", "used", "_take"])
def test_an_exception_that_is_none_of_the_contracts_is_told_as_that_and_first(verb):
    """Commonest of all: a name that does not exist. It says nothing of blocks, so no hint does."""
    base = reference(MANAGER)

    def slips(self, *args):
        return undefined_name  # noqa: F821

    verdict = verdict_on(MANAGER, type("Work", (base,), {verb: slips}))
    assert "raises NameError: name 'undefined_name' is not defined." in verdict.sentence
    assert "hint" not in text(verdict) and "mistake" not in text(verdict)
    told = verdict.to_dict()["promises"]
    assert not next(p for p in told if p["id"] == verdict.broken[0].promise.id)["hint"]


@needs_source
def test_long_tables_show_where_they_differ():
    base = reference(MANAGER)

    class Work(base):
        def fork(self, parent, child):
            super().fork(parent, child)
            blocks = self.seqs[child]["blocks"]
            if len(blocks) > 40:
                blocks[38], blocks[39] = blocks[39], blocks[38]

    breach = next(p for p in verdict_on(MANAGER, Work).broken if p.promise.id == "fork-shares-blocks").breach
    assert "entry 38 is" in breach.expected and "entry 38 is" in breach.actual and breach.expected != breach.actual


@needs_source
def test_hints_do_not_mislead():
    base = reference(MANAGER)

    class Unknown(base):
        def append(self, name):
            raise KeyError(name)

    broken = next(p for p in verdict_on(MANAGER, Unknown).broken if p.promise.id == "succeeds")
    assert "name is known" in broken.hint
    verdict = verdict_on("01_contiguous_vs_paged/numbers", {"slack": "12", "slack_percent": 10.7})
    assert ["without quotation marks" in verdict.broken[0].hint, "round" in verdict.broken[1].hint] == [True, True]
    assert verdict_on("01_contiguous_vs_paged/blocks_needed", lambda n, size: n > 0).broken[0].breach.actual in ("returned True", "returned False")


def test_not_to_answer_earns_at_most_half_and_less_than_what_was_asked():
    """Whoever does not know an answer must not be better off with a loop than with a wrong one."""
    def table(n, size):
        while (n, size) not in {(0, 1), (1, 1), (0, 2), (1, 2), (2, 2), (0, 3), (1, 3), (2, 3), (3, 3)}:
            pass
        return -(-n // size)

    asked = EXERCISES["01_contiguous_vs_paged/blocks_needed"]
    verdict = judge(asked, json.loads(json.dumps(record(asked, table, False, ""))), False, "")
    assert verdict.stopped and not verdict.passed
    assert 0 <= verdict.score(2) <= 2 * min(0.5, 1 - verdict.unasked) < 1
