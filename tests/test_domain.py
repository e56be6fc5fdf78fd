"""Work that is right in a small world only does not pass: every exercise is tried over the whole of its domain.

The wrong work here is the reference that goes wrong under a condition; a condition stands for a kind of mistake.
"""

from __future__ import annotations

import contextlib
import copy
import importlib
import inspect
import json
import pkgutil
from unittest import mock

import pytest

import autograder
from autograder.checks import exercise_named, judge, record
from autograder.exercises import EXERCISES
from conftest import ROOT, needs_sources

pytestmark = needs_sources
SEEDS = ("one", "two")


def verdict_on(exercise: str, obj: object, seed: str = "one"):
    asked = exercise_named(exercise)
    return judge(asked, json.loads(json.dumps(record(asked, obj, True, seed))), True, seed)


def reference(exercise: str):
    from autograder.staff.variants import load_reference

    return load_reference(ROOT, exercise)


def wrong_where(exercise: str, condition, wrong=lambda right: right + 1):
    """The reference, but for the calls on which the condition on its arguments holds."""
    right = reference(exercise)

    def work(*args):
        strange = condition(*args)
        result = right(*args)
        return wrong(result) if strange else result

    return work


def after(calls: int):
    """True from that call on."""
    seen = []

    def condition(*args):
        seen.append(args)
        return len(seen) > calls

    return condition


def asked_before():
    seen = []

    def condition(*args):
        known = args in seen
        seen.append(copy.deepcopy(args))
        return known

    return condition


L1, L2, L3 = "01_contiguous_vs_paged", "02_prefix_sharing", "03_copy_on_write"
NOT = lambda right: not right  # noqa: E731
TURNED = lambda right: right[::-1]  # noqa: E731
LAST = lambda keys: [*keys[:-1], ("another",)] if keys else keys  # noqa: E731
TOKENS = {
    "blocks of more than 64": lambda n, size: size > 64 and n > 0,
    "blocks of more than 1,000": lambda n, size: size > 1000 and n > 0,
    "more than 4,096 tokens": lambda n, size: n > 4096,
    "more than 1,000 blocks": lambda n, size: n > 1000 * size,
    "one token in a large block": lambda n, size: n == 1 and size >= 128,
    "one short of a large block": lambda n, size: size >= 128 and n % size == size - 1,
}
KINDS = {
    **{(f"{L1}/{name}", kind): (condition,) for name in ("blocks_needed", "slack", "slack_fraction") for kind, condition in TOKENS.items()},
    **{(f"{L2}/full_shared_blocks", kind): (condition,) for kind, condition in TOKENS.items()},
    (f"{L1}/largest_hole", "a hole of more than 255"): (lambda occupied, size: size - len(occupied) > 255 and size > 1000,),
    (f"{L1}/largest_hole", "more than 1,000 slots"): (lambda occupied, size: size > 1000,),
    (f"{L2}/blocks_without_sharing", "more than eight requests"): (lambda totals, block: len(totals) > 8,),
    (f"{L2}/blocks_without_sharing", "more than 1,000 requests"): (lambda totals, block: len(totals) > 1000,),
    (f"{L2}/blocks_without_sharing", "large blocks"): (lambda totals, block: block > 64 and any(totals),),
    (f"{L2}/blocks_with_sharing", "more than eight requests"): (lambda prefix, totals, block: len(totals) > 8,),
    (f"{L2}/blocks_with_sharing", "a long prefix"): (lambda prefix, totals, block: prefix > 1000,),
    (f"{L2}/can_share", "starts that are not 0"): (lambda a, b: 0 < a["start"] != b["start"] > 0, NOT),
    (f"{L2}/can_share", "starts one block apart"): (lambda a, b: a["start"] != b["start"] and a["start"] % 16 == b["start"] % 16, NOT),
    (f"{L2}/can_share", "models that differ in case"): (lambda a, b: a["model"] != b["model"] and a["model"].lower() == b["model"].lower(), NOT),
    (f"{L2}/can_share", "models that begin alike"): (lambda a, b: a["model"] != b["model"] and b["model"].startswith(a["model"]), NOT),
    (f"{L2}/can_share", "equal models that are two objects"): (lambda a, b: a == b and a["model"] is not b["model"] and len(a["model"]) > 1, NOT),
    (f"{L2}/can_share", "tokens that differ in the middle"): (lambda a, b: a["tokens"] != b["tokens"] and [t[:1] + t[-1:] for t in (a["tokens"], b["tokens"])] == [a["tokens"][:1] + a["tokens"][-1:]] * 2 and len(a["tokens"]) == len(b["tokens"]) > 2, NOT),
    (f"{L2}/can_share", "tokens equal modulo 256"): (lambda a, b: a["tokens"] != b["tokens"] and [t % 256 for t in a["tokens"]] == [t % 256 for t in b["tokens"]], NOT),
    (f"{L2}/block_keys", "blocks of four"): (lambda tokens, block, model: block == 4, TURNED),
    (f"{L2}/block_keys", "blocks of 16"): (lambda tokens, block, model: block == 16, TURNED),
    (f"{L2}/block_keys", "more than 1,000 blocks"): (lambda tokens, block, model: len(tokens) > 1000 * block, lambda keys: keys[:-1]),
    (f"{L2}/match_prefix", "a dict"): (lambda cached, keys: isinstance(cached, dict) and any(key in cached for key in keys),),
    (f"{L2}/match_prefix", "many keys"): (lambda cached, keys: len(keys) > 1000,),
    (f"{L2}/match_prefix", "equal keys that are two objects"): (lambda cached, keys: any(key == other and key is not other for key in keys for other in list(cached)[:40]), lambda n: n - 1),
    (f"{L3}/eviction_order", "block numbers above 99"): (lambda manager: any(block > 99 for block in manager.ref), TURNED),
    (f"{L3}/eviction_order", "an index above 99"): (lambda manager: any(len(seq["blocks"]) > 100 for seq in manager.seqs.values()), TURNED),
    (f"{L3}/eviction_order", "ten owners"): (lambda manager: any(count >= 10 for count in manager.ref.values()), TURNED),
    (f"{L3}/eviction_order", "names that differ in case"): (lambda manager: len({name.lower() for name in manager.seqs}) < len(manager.seqs), TURNED),
}  # fmt: skip


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: f"{kind[0].split('/')[1]}: {kind[1]}")
def test_a_function_that_goes_wrong_in_a_corner_of_its_domain_does_not_pass(kind, seed):
    assert not verdict_on(kind[0], wrong_where(kind[0], *KINDS[kind]), seed).passed


FUNCTIONS = [e.id for e in EXERCISES.values() if e.kind == "function" and not e.needs]
WRONG = {"can_share": NOT, "block_keys": LAST, "eviction_order": TURNED}


@pytest.mark.parametrize("exercise", [id for id in FUNCTIONS if not id.endswith(("eviction_order", "block_keys"))])
def test_a_function_that_answers_otherwise_when_it_is_asked_again_does_not_pass(exercise):
    assert not verdict_on(exercise, wrong_where(exercise, asked_before(), WRONG.get(exercise.split("/")[1], lambda right: right + 1))).passed


@pytest.mark.parametrize("exercise", FUNCTIONS)
def test_a_function_that_tires_does_not_pass(exercise):
    assert not verdict_on(exercise, wrong_where(exercise, after(60), WRONG.get(exercise.split("/")[1], lambda right: right + 1))).passed


# ---- managers --------------------------------------------------------------------------------------------------

MANAGER = f"{L3}/BlockManager"
WORLDS = {
    "a pool of 8": lambda m: m.num_blocks == 8,
    "a pool of 32": lambda m: m.num_blocks == 32,
    "a pool of more than 64": lambda m: m.num_blocks > 64,
    "a pool of hundreds": lambda m: m.num_blocks > 300,
    "blocks of 5": lambda m: m.block_size == 5,
    "blocks of 8": lambda m: m.block_size == 8,
    "blocks of 10": lambda m: m.block_size == 10,
    "blocks of 64": lambda m: m.block_size == 64,
    "blocks of more than 64": lambda m: m.block_size > 64,
    "blocks of more than 256": lambda m: m.block_size > 256,
    "twenty sequences": lambda m: len(m.seqs) >= 20,
    "ten owners": lambda m: max(m.ref.values(), default=0) >= 10,
    "a table of hundreds": lambda m: any(len(seq["blocks"]) >= 300 for seq in m.seqs.values()),
    "hundreds of calls": lambda m: m.calls > 300,
    "three families that share": lambda m: len({seq["blocks"][0] for seq in m.seqs.values() if seq["blocks"] and m.ref[seq["blocks"][0]] > 1}) >= 3,
    "after a refusal": lambda m: m.refusals > 0,
    "forty releases": lambda m: m.releases >= 40,
}


def mistakes(base: type, here) -> dict[str, type]:
    """Managers that make one mistake each, in one world only."""

    class Counting(base):
        calls = refusals = releases = 0

        def allocate(self, name, n_tokens):
            self.calls += 1
            self.refusals += -(-n_tokens // self.block_size) > len(self.free)
            super().allocate(name, n_tokens)

        def append(self, name):
            self.calls += 1
            return super().append(name)

        def release(self, name):
            self.calls += 1
            self.releases += name in self.seqs
            super().release(name)

    class RefusesExactFit(Counting):
        def allocate(self, name, n_tokens):
            if here(self) and 0 < -(-n_tokens // self.block_size) == len(self.free):
                raise MemoryError
            super().allocate(name, n_tokens)

    class WritesIntoShared(Counting):
        def append(self, name):
            blocks = self.seqs[name]["blocks"]
            if here(self) and self.seqs[name]["len"] % self.block_size and self.ref[blocks[-1]] > 1:
                self.seqs[name]["len"] += 1
                return False
            return super().append(name)

    class CountsOnFailure(Counting):
        def append(self, name):
            try:
                return super().append(name)
            except MemoryError:
                self.seqs[name]["len"] += here(self)
                raise

    class ForgetsToSort(Counting):
        def release(self, name):
            free, blocks = list(self.free), list(self.seqs[name]["blocks"]) if name in self.seqs else []
            super().release(name)
            if here(self):
                self.free = free + [block for block in blocks if block not in self.ref]

        def _take(self):
            block = self.free[0] if self.free else None
            if block is None:
                raise MemoryError
            self.free.remove(block)
            self.ref[block] = 1
            return block

    return {made.__name__: made for made in (RefusesExactFit, WritesIntoShared, CountsOnFailure, ForgetsToSort)}


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("mistake", ["RefusesExactFit", "WritesIntoShared", "CountsOnFailure", "ForgetsToSort"])
def test_a_manager_that_goes_wrong_in_one_world_only_does_not_pass(mistake, world, seed):
    assert not verdict_on(MANAGER, mistakes(reference(MANAGER), WORLDS[world])[mistake], seed).passed


def test_a_broken_burst_is_told_by_its_calls_and_counts_as_many():
    base = reference(MANAGER)

    class Hundred(base):
        def fork(self, parent, child):
            if len(self.seqs) >= 100:
                raise RuntimeError("too many")
            super().fork(parent, child)

    verdict = verdict_on(MANAGER, Hundred)
    (broken,) = verdict.broken
    assert broken.promise.id == "succeeds" and broken.breach.length > 100
    assert len(broken.breach.history) < 20 and "more calls like these" in "\n".join(broken.breach.history)
    assert "RuntimeError" in broken.breach.actual and "m.fork(" in broken.breach.actual


def test_what_breaks_only_beside_a_second_manager_is_told_as_that():
    base = reference(MANAGER)

    class Size(base):
        def __init__(self, num_blocks, block_size):
            super().__init__(num_blocks, block_size)
            Size.newest = block_size

        def append(self, name):
            self.block_size = Size.newest
            return super().append(name)

    verdict = verdict_on(MANAGER, Size)
    assert [p.promise.id for p in verdict.broken] == ["managers-are-separate"]
    assert any(line.startswith("other = ") for line in verdict.broken[0].breach.history)


def test_arguments_that_must_stay_as_they_are_are_looked_at():
    hole, order = reference(f"{L1}/largest_hole"), reference(f"{L3}/eviction_order")

    def empties(occupied, size):
        result = hole(occupied, size)
        occupied.clear()
        return result

    def forgets(manager):
        result = order(manager)
        manager.seqs.clear()
        return result

    assert [p.promise.id for p in verdict_on(f"{L1}/largest_hole", empties).broken] == ["leaves-the-set"]
    assert [p.promise.id for p in verdict_on(f"{L3}/eviction_order", forgets).broken] == ["changes-nothing"]


def test_no_case_is_outside_of_what_the_lesson_states():
    from autograder.judge import cases_of

    for seed in SEEDS:
        for exercise in EXERCISES.values():
            for args in cases_of(exercise, True, seed) if exercise.kind == "function" else ():
                if exercise.name == "largest_hole":
                    assert args[1] > 0 and all(0 <= slot < args[1] for slot in args[0])
                if exercise.name in ("blocks_needed", "slack", "slack_fraction", "full_shared_blocks"):
                    assert args[0] >= 0 and args[1] >= 1
                if exercise.name == "blocks_with_sharing":
                    assert args[1] and min(args[1]) >= args[0] >= 0 and args[2] >= 1
                if exercise.name == "block_keys":
                    assert all(block >= 1 and all(token >= 0 for token in tokens) for tokens, block, _ in args)
                    assert len({block for _, block, _ in args}) == 1


JUDGING = ("promises", "misconceptions", "record", "histories", "plays", "judge", "pool", "exercises")    # the rest has functions that do things


def callables():
    """Every function of the parts of the package that know what is right."""
    for module in pkgutil.walk_packages(autograder.__path__, "autograder."):
        if module.name.split(".")[1] in JUDGING and not module.name.endswith("tensors"):
            for name, found in inspect.getmembers(importlib.import_module(module.name), inspect.isfunction):
                if found.__module__.startswith("autograder"):
                    yield f"{module.name}.{name}", found


def always_raises(*args):
    raise StopIteration


def always_none(*args):
    return None


@pytest.mark.parametrize("work", [always_raises, always_none], ids=lambda work: work.__name__)
@pytest.mark.parametrize("id", FUNCTIONS)
def test_work_that_does_nothing_earns_nothing(id, work):
    assert verdict_on(id, work).score(EXERCISES[id].points) == 0


@pytest.fixture
def registries():
    """Among the package's functions are some that enter something in these: they are put back."""
    from autograder.misconceptions import CATALOGUE, PARTS
    from autograder.promises import manager

    with contextlib.ExitStack() as stack:
        for registry in (EXERCISES, CATALOGUE, manager.ALL, *(part.ALL for part in PARTS)):
            stack.enter_context(mock.patch.dict(registry))
        yield


@pytest.mark.usefixtures("registries")
def test_no_function_of_the_package_is_an_answer():
    """Each is tried on the first cases of each exercise; what gets through those is tried on all."""
    from autograder.drive import drive_function
    from autograder.judge import cases_of, judge_calls

    tried, answers = 0, []
    for name, found in callables():
        if len(inspect.signature(found).parameters) > 3:
            continue
        for id in FUNCTIONS:
            exercise = EXERCISES[id]
            cases = cases_of(exercise, False, "")[8:14]
            tried += 1
            if judge_calls(exercise, cases, drive_function(found, cases, exercise.function.keep)).broken == [] and verdict_on(id, found).passed:
                answers.append((name, id))
    assert tried > 1000 and answers == []
