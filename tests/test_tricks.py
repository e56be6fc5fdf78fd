"""Ways to fool a checker from inside the process. None earns a pass; right work in odd clothes still passes.

Each trick dresses up a manager that writes into shared blocks (a wrong variant), or code that does nothing at all. No
solution is written here: the right and the wrong manager come from `source_assignments/`.
"""

from __future__ import annotations

import builtins
import itertools
import json
import sys

import pytest

from autograder import checks, drive, record
from autograder.checks import exercise_named, judge_packed, pack
from conftest import ROOT, needs_sources

pytestmark = needs_sources

MANAGER = "03_copy_on_write/BlockManager"
CLASSES: dict[str, type] = {}


def made(name: str) -> type:
    """The reference, or the wrong variant of that name."""
    if name not in CLASSES:
        from autograder.staff.variants import load_reference, variants

        CLASSES["right"] = load_reference(ROOT, MANAGER)
        CLASSES.update({v.name: v.load() for v in variants(ROOT) if v.exercise == MANAGER and v.name in WRONG})
    return CLASSES[name]


WRONG = ("writes_into_the_shared", "fork_raises_nothing", "used_sums_tables")


def verdict_on(work: object, thorough: bool = True):
    asked = exercise_named(MANAGER)
    return checks.judge(asked, json.loads(json.dumps(checks.record(asked, work, thorough, "seed"))), thorough, "seed")


class Same(int):
    """Equal to everything."""

    __eq__ = lambda self, other: True  # noqa: E731
    __ne__ = lambda self, other: False  # noqa: E731
    __lt__ = __le__ = __gt__ = __ge__ = __eq__
    __hash__ = lambda self: 0  # noqa: E731


class Shy(dict):
    """Shows less on every second look."""

    looks = 0

    def items(self):
        self.looks += 1
        return super().items() if self.looks % 2 else {}.items()


class Fickle(list):
    """Iterates over something else each time."""

    def __iter__(self):
        self.times = getattr(self, "times", 0) + 1
        return iter(range(self.times))


def equal_to_everything(base):
    class Work(base):
        def used(self):
            return Same(-7)

        def append(self, name):
            return Same(super().append(name) + 5)

    return Work


def result_is_not_implemented_but_equal(base):
    class Yes:
        __eq__ = lambda self, other: True  # noqa: E731
        __bool__ = lambda self: True  # noqa: E731
        __hash__ = None

    class Work(base):
        def append(self, name):
            super().append(name)
            return Yes()

    return Work


def well_behaved_only_at_first(base):
    class Work(base):
        made_so_far = 0

        def __new__(cls, *args):
            Work.made_so_far += 1
            return made("right")(*args) if Work.made_so_far == 1 else super().__new__(cls)

    return Work


def detects_the_judge(base):
    class Work(base):
        def append(self, name):
            frame = sys._getframe()
            while frame:
                if "autograder" in frame.f_code.co_filename:
                    return True
                frame = frame.f_back
            return super().append(name)

    return Work


def shy_dict(base):
    class Work(base):
        def __init__(self, *args):
            super().__init__(*args)
            self.ref, self.seqs = Shy(self.ref), Shy(self.seqs)

    return Work


def fickle_free(base):
    class Work(base):
        def __init__(self, *args):
            super().__init__(*args)
            self.free = Fickle(self.free)

    return Work


def counts_as_lies(base):
    class Work(base):
        @property
        def ref(self):
            return {b: Same(1) for b in range(2)}

        @ref.setter
        def ref(self, value):
            self.__dict__["ref"] = value

    return Work


def counts_as_fractions(base):
    class Work(base):
        def used(self):
            return super().used() + 0.5

    return Work


def counts_as_infinity(base):
    class Work(base):
        def used(self):
            return float("inf")

    return Work


def counts_as_text(base):
    class Work(base):
        def used(self):
            return str(super().used())

    return Work


def endless_free(base):
    class Work(base):
        @property
        def free(self):
            return itertools.count()

        @free.setter
        def free(self, value):
            pass

    return Work


def endless_table(base):
    class Work(base):
        def allocate(self, name, n_tokens):
            self.seqs[name] = {"blocks": itertools.repeat(0), "len": n_tokens}

    return Work


def generator_for_free(base):
    class Work(base):
        def __init__(self, *args):
            super().__init__(*args)
            self.free = (b for b in list(self.free))

    return Work


def answers_any_attribute(base):
    class Work:
        def __init__(self, *args):
            pass

        def __getattr__(self, name):
            return lambda *args: True

    return Work


def mapping_of_any_key(base):
    class Any(dict):
        def __contains__(self, key):
            return True

        def __getitem__(self, key):
            return {"blocks": [], "len": 0}

        def items(self):
            return []

    class Work(base):
        def __init__(self, *args):
            super().__init__(*args)
            self.seqs = Any()

    return Work


def recursion(base):
    class Work(base):
        def append(self, name):
            return self.append(name)

    return Work


def table_of_itself(base):
    class Work(base):
        def allocate(self, name, n_tokens):
            super().allocate(name, n_tokens)
            blocks = self.seqs[name]["blocks"]
            blocks.append(blocks)

    return Work


def patched_builtins(base):
    class Work(base):
        def __init__(self, *args):
            super().__init__(*args)
            builtins.sorted = lambda *a, **k: []
            builtins.len = lambda x: 0
            builtins.isinstance = lambda *a: True

    return Work


def patched_reader(base):
    class Work(base):
        def __init__(self, *args):
            super().__init__(*args)
            record.whole = lambda x: 0
            drive.read_state = lambda manager, n=0: record.State()

    return Work


def raises_base_exceptions(base):
    class Work(base):
        def append(self, name):
            raise SystemExit(0)

    return Work


def raises_the_exit_of_a_generator(base):
    class Work(base):
        def release(self, name):
            raise GeneratorExit

    return Work


def lies_about_its_class(base):
    class Work(base):
        __class__ = property(lambda self: made("right"))

    return Work


def not_written_when_it_gets_hard(base):
    class Work(base):
        def append(self, name):
            blocks = self.seqs[name]["blocks"]
            if blocks and self.ref[blocks[-1]] > 1:
                raise NotImplementedError
            return super().append(name)

    return Work


def the_class_is_a_function(base):
    return lambda num_blocks, block_size: base(num_blocks, block_size)


def an_exception_that_claims_another_class(base):
    class Full(Exception):
        __class__ = MemoryError

    class Work(base):
        def allocate(self, name, n_tokens):
            try:
                super().allocate(name, n_tokens)
            except MemoryError:
                raise Full from None

    return Work


def used_is_right_when_it_is_first_asked(base):
    class Work(base):
        asked = None

        def used(self):
            key = (len(self.free), len(self.seqs))
            asked, self.asked = self.asked, key
            return -1 if asked == key else self.num_blocks - len(self.free)

    return Work


def names_that_cannot_be_asked_for(base):
    class Name(str):
        __eq__ = lambda self, other: self is other  # noqa: E731
        __hash__ = lambda self: id(self)  # noqa: E731

    class Work(base):
        @property
        def seqs(self):
            return self.__dict__["seqs"]

        @seqs.setter
        def seqs(self, value):
            class Shown(dict):
                def items(self):
                    return [(Name(name), seq) for name, seq in dict.items(self)]

                def __getitem__(self, name):
                    if sys._getframe(1).f_code.co_filename == record.__file__:
                        raise KeyError(name)
                    return dict.__getitem__(self, name)

            self.__dict__["seqs"] = Shown(value)

    return Work


def every_name_twice(base):
    class Work(base):
        @property
        def seqs(self):
            return self.__dict__["seqs"]

        @seqs.setter
        def seqs(self, value):
            class Shown(dict):
                def items(self):
                    return [(name, each) for name, seq in dict.items(self) for each in ({"blocks": [99], "len": 99}, seq)]

            self.__dict__["seqs"] = Shown(value)

    return Work


TRICKS = [
    an_exception_that_claims_another_class, used_is_right_when_it_is_first_asked, names_that_cannot_be_asked_for, every_name_twice,
    equal_to_everything, result_is_not_implemented_but_equal, well_behaved_only_at_first, detects_the_judge, shy_dict, fickle_free,
    counts_as_lies, counts_as_fractions, counts_as_infinity, counts_as_text, endless_free, endless_table, generator_for_free,
    answers_any_attribute, mapping_of_any_key, recursion, table_of_itself, patched_builtins, patched_reader, raises_base_exceptions,
    raises_the_exit_of_a_generator, lies_about_its_class, not_written_when_it_gets_hard, the_class_is_a_function,
]  # fmt: skip


@pytest.fixture(autouse=True)
def mended(monkeypatch):
    """What a trick patches is put back afterwards."""
    for module, names in ((builtins, ("sorted", "len", "isinstance")), (record, ("whole",)), (drive, ("read_state",))):
        for name in names:
            monkeypatch.setattr(module, name, getattr(module, name))


@pytest.mark.parametrize("trick", TRICKS, ids=lambda t: t.__name__)
@pytest.mark.parametrize("wrong", WRONG)
def test_a_trick_does_not_make_wrong_work_pass(trick, wrong, tmp_path):
    """The judge works outside: here in this process after everything is put back, for a submission in another."""
    asked = exercise_named(MANAGER)
    work = trick(made(wrong))
    try:
        with pytest.MonkeyPatch.context() as patch:
            for module, names in ((builtins, ("sorted", "len", "isinstance")), (record, ("whole",)), (drive, ("read_state",))):
                for name in names:
                    patch.setattr(module, name, getattr(module, name))
            data = checks.record(asked, work, True, "seed")
    except Exception as error:  # a broken recorder records nothing, and nothing earns nothing
        assert trick in (patched_builtins, patched_reader), error
        data = None
    verdict = judge_packed(data and {"exercise": MANAGER, "thorough": True, "nonce": "seed", "packed": pack(data)}, exercise=MANAGER, nonce="seed", thorough=True)
    assert not verdict.passed
    assert verdict.score(16) < 16


OWN = [an_exception_that_claims_another_class, used_is_right_when_it_is_first_asked, names_that_cannot_be_asked_for, every_name_twice]


@pytest.mark.parametrize("trick", OWN, ids=lambda t: t.__name__)
def test_a_trick_that_is_wrong_by_itself_does_not_pass(trick):
    assert not verdict_on(trick(made("right"))).passed


def test_right_work_behind_a_factory_or_a_subclass_passes():
    base = made("right")
    for work in (the_class_is_a_function(base), type("Sub", (base,), {}), lies_about_its_class(base)):
        assert verdict_on(work).passed


def test_forged_transcripts_earn_nothing():
    asked = exercise_named(MANAGER)
    real = checks.record(asked, made("right"), True, "nonce")
    good = {"exercise": MANAGER, "thorough": True, "nonce": "nonce", "packed": pack(real)}
    read = lambda data: judge_packed(data, exercise=MANAGER, nonce="nonce", thorough=True)  # noqa: E731
    assert read(good).passed
    wrong = made(WRONG[0])
    forged = [
        None, [], "passed", {"passed": True}, {**good, "nonce": "other"}, {**good, "thorough": 1}, {**good, "thorough": False}, {**good, "exercise": "x"},
        {**good, "packed": ""}, {**good, "packed": good["packed"][:-8]}, {**good, "packed": pack({"plays": [], "stopped": None})},
        {**good, "packed": pack({**real, "plays": real["plays"][:5]})}, {**good, "packed": pack({**real, "stopped": [0, 0]})},
        {**good, "packed": pack({**real, "stopped": [99, 0]})}, {**good, "packed": pack({**real, "plays": [real["plays"][0]] * len(real["plays"])})},
        {**good, "packed": pack(checks.record(asked, made("right"), True, "another nonce"))}, {**good, "packed": pack(checks.record(asked, wrong, True, "nonce"))},
        {**good, "packed": "A" * 10_000_000},
    ]  # fmt: skip
    for data in forged:
        assert not read(data).passed
