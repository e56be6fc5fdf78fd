"""`autograder.simulate` in Python: stills and scenarios that are true, the reader's class replayed and judged."""

import json
import xml.dom.minidom
from pathlib import Path

import pytest

from autograder import simulate
from autograder.record import State
from autograder.scenarios import BEAMS, SCENARIOS
from autograder.widgets import host

ROOT = Path(__file__).resolve().parents[1]
needs_source = pytest.mark.skipif(not (ROOT / "source_assignments").is_dir(), reason="this checkout has no source_assignments/, which holds the reference solutions")


def reference(exercise="03_copy_on_write/BlockManager"):
    from autograder.staff.variants import load_reference

    return load_reference(ROOT, exercise)


def asked(*ops, num_blocks=10, block_size=16, calls=1):
    return {"calls": calls, "num_blocks": num_blocks, "block_size": block_size, "ops": [list(op) for op in ops]}


@pytest.fixture
def plain(monkeypatch):
    """Without anywidget, as on a page or in a terminal."""
    monkeypatch.setattr(host, "_anywidget", lambda: None)


# --- scenarios ---


@needs_source
@pytest.mark.parametrize("scenario", SCENARIOS.values(), ids=SCENARIOS)
def test_a_scenario_is_what_the_contract_makes_of_it(scenario):
    answer = simulate.answer(reference(), asked(*scenario.ops, num_blocks=scenario.num_blocks, block_size=scenario.block_size))
    assert answer["verdict"] is None and len(answer["steps"]) == len(scenario.ops) + 1
    assert set(scenario.notes) <= set(range(1, len(scenario.ops) + 1))
    right = [State.from_json(json.loads(json.dumps(state))) for _, state in answer["steps"]]
    if scenario.still:
        assert right[scenario.still_at] == scenario.still
    if scenario.bug:
        assert len(scenario.bug) == len(scenario.ops)
        apart = [n for n, (held, state) in enumerate(zip(scenario.bug, right[1:], strict=True), 1) if held != state]
        # A note says what went wrong from the first step on at which the engine's books differ, or the one after.
        assert apart and apart[-1] == len(scenario.ops) and min(scenario.notes) in (apart[0], apart[0] + 1)


@needs_source
def test_the_beams_end_as_the_tree_says():
    ops, live = [("allocate", "A", 6)], ["A"]
    for step in BEAMS:
        ops += [("fork", *pair) for pair in step["fork"]] + [("release", name) for name in step["release"]]
        live = [name for name in [*live, *(child for _, child in step["fork"])] if name not in step["release"]]
        ops += [("append", name) for name in live]
    answer = simulate.answer(reference(), asked(*ops, num_blocks=12, block_size=4))
    assert answer["verdict"] is None and list(State.from_json(answer["steps"][-1][1]).seqs) == live == ["D", "F", "G"]


# --- the reader's class ---


@needs_source
def test_a_right_manager_is_drawn_and_never_stopped():
    answer = simulate.answer(reference(), asked(("allocate", "A", 20), ("fork", "A", "B"), ("append", "B"), calls=7))
    assert answer["answers"] == 7 and answer["ready"] and answer["verdict"] is None
    outcome, state = answer["steps"][-1]
    assert outcome == [1, None, "True"] and State.from_json(state) == State(tuple(range(3, 10)), {0: 2, 1: 1, 2: 1}, {"A": ((0, 1), 20), "B": ((0, 2), 21)})


@needs_source
def test_a_refused_operation_is_no_breach():
    answer = simulate.answer(reference(), asked(("allocate", "A", 20), num_blocks=1))
    assert answer["verdict"] is None and answer["steps"][-1][0][1] == "MemoryError"


class Stub:
    def __init__(self, num_blocks, block_size):
        self.num_blocks, self.block_size = num_blocks, block_size
        self.free, self.ref, self.seqs = list(range(num_blocks)), {}, {}

    def allocate(self, name, n_tokens):
        raise NotImplementedError

    fork = append = release = allocate

    def used(self):
        return 0


def test_a_stub_is_said_to_be_a_stub():
    verdict = simulate.answer(Stub, asked(("allocate", "A", 20)))["verdict"]
    assert verdict["step"] == 1 and verdict["sentence"] == "Stub: `allocate` is not written yet." and not verdict["expected"]


def test_a_class_that_cannot_be_built_stops_at_the_first_picture():
    class Unbuilt(Stub):
        def __init__(self, num_blocks, block_size):
            raise TypeError("no")

    verdict = simulate.answer(Unbuilt, asked(("allocate", "A", 20)))["verdict"]
    assert verdict["step"] == 0 and "Unbuilt breaks a promise" in verdict["sentence"]


def test_a_call_that_does_not_return_is_cut_off(monkeypatch):
    class Endless(Stub):
        def allocate(self, name, n_tokens):
            while True:
                pass

    monkeypatch.setattr("autograder.drive.Guard.__init__.__defaults__", (0.2,), raising=False)
    answer = simulate.answer(Endless, asked(("allocate", "A", 20)))
    assert "did not return in time" in answer["verdict"]["sentence"] and answer["verdict"]["step"] == 0
    assert len(answer["steps"]) == 1


def test_attributes_that_cannot_be_read_are_told_and_not_drawn():
    class Odd(Stub):
        def allocate(self, name, n_tokens):
            self.free = None

    answer = simulate.answer(Odd, asked(("allocate", "A", 20)))
    assert answer["verdict"]["step"] == 1 and State.from_json(answer["steps"][1][1]).problem


def wrong_managers():
    if not (ROOT / "source_assignments").is_dir():
        return []
    from autograder.staff.variants import variants

    return [v for v in variants(ROOT) if not v.right and v.exercise == "03_copy_on_write/BlockManager"]


@needs_source
def test_every_wrong_manager_has_a_history_that_shows_it(plain):
    wrong = wrong_managers()
    assert len(wrong) > 20
    silent = []
    for variant in wrong:
        shown = state_of(simulate.history(variant.load()))
        if not shown["verdict"] or shown["verdict"]["step"] != len(shown["steps"]) - 1:
            silent.append(variant.name)
    # Only after hundreds of calls, or beside another manager.
    assert silent == ["counts_in_a_byte", "a_hundred_sequences", "sorts_for_a_thousand_calls", "block_size_on_the_class"]


@needs_source
def test_a_right_manager_has_nothing_to_show_but_the_walk(plain):
    shown = state_of(simulate.history(reference()))
    assert shown["verdict"] is None and [step["op"] for step in shown["steps"][1:]] == [list(op) for op in SCENARIOS["walk"].ops]


def state_of(shown):
    start = shown.page.index(">", shown.page.index("<script")) + 1
    return json.loads(shown.page[start:shown.page.index("</script>")])


@needs_source
def test_the_first_half_of_the_manager_is_offered_its_own_buttons(plain):
    state = state_of(simulate.pool(reference("01_contiguous_vs_paged/BlockManager")))
    assert state["verbs"] == ["allocate", "release"] and state["driver"]["ready"] is False
    assert [each["id"] for each in state["scenarios"]] == []


def test_an_unknown_bug_is_answered_with_those_that_exist():
    with pytest.raises(ValueError, match="double-free"):
        simulate.history("no such bug")


def test_an_empty_history_says_what_is_missing():
    with pytest.raises(ValueError, match="nothing to play"):
        simulate.history([])


# --- notebooks ---


@pytest.fixture
def live(monkeypatch):
    """As in a live notebook: anywidget finds a shell."""
    pytest.importorskip("anywidget", reason="anywidget is not installed; run `make setup`")
    import IPython

    host._anywidget.cache_clear()
    monkeypatch.setattr(IPython, "get_ipython", lambda: object())
    yield
    host._anywidget.cache_clear()


def test_in_a_notebook_every_call_is_answered_once_and_steps_back_call_nothing(live):
    made = []

    class Counted(Stub):
        def __init__(self, *shape):
            made.append(shape)
            super().__init__(*shape)

    widget = simulate.pool(Counted)
    assert widget.state["driver"]["ready"] and '"ready":false' in widget.page
    made.clear()
    widget.kept = asked(("allocate", "A", 20), calls=1) | {"at": 1}
    assert widget.state["driver"]["answers"] == 1 and "not written" in widget.state["driver"]["verdict"]["sentence"]
    assert widget.state["num_blocks"] == 10 and made
    made.clear()
    widget.kept = asked(("allocate", "A", 20), calls=1) | {"at": 0}
    assert made == [] and widget.state["driver"]["answers"] == 1


def test_a_notebook_gets_words_page_and_widget_in_one(live):
    bundle = simulate.prefix()._repr_mimebundle_()
    data = bundle[0] if isinstance(bundle, tuple) else bundle
    assert {"text/plain", "text/html", "application/vnd.jupyter.widget-view+json"} <= set(data)


# --- stills ---


def test_stills_are_well_formed_and_need_no_style(plain):
    for shown in (simulate.contiguous(), simulate.prefix(), simulate.prefix(45, 9, 3, 8), simulate.pool(scenario="walk"), simulate.pool(num_blocks=100), simulate.beams(), simulate.history("double-free")):
        still = shown.page[shown.page.index('<div class="kv-still">'):-len("</div>")]
        document = xml.dom.minidom.parseString(still)
        assert document.getElementsByTagName("svg")[0].getAttribute("aria-label")
        assert not [node for node in document.getElementsByTagName("*") if node.hasAttribute("style")]


def test_names_in_a_still_are_text(plain):
    shown = simulate.history([("now", State((1,), {0: 1}, {"</svg><script>": ((0,), 3)}))], num_blocks=2)
    assert "<script>" not in shown.page.replace('<script type="application/json">', "")
