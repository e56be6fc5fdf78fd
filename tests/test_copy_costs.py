"""Lesson 5: ways of copying that are exact, times that are medians, a line that finds what was put in, records that are checked."""

import inspect
import json
import math
import os
import random
import subprocess
import sys

import pytest

from autograder.checks import exercise_named, judge
from autograder.checks import record as recorded
from autograder.copycost import clock, fit, reading, records, shapes
from conftest import ROOT, needs_sources, run

torch = pytest.importorskip("torch", reason="lesson 5 needs torch; `make setup` installs it")

from autograder.copycost import exact, figures, kernel, measure, ways  # noqa: E402

HERE = [way for way in ways.WAYS if way.missing("cpu") is None]
GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device, and torch built for it")


@pytest.fixture(scope="module")
def record():
    """A real record of this machine, with the smallest plan."""
    return measure.take("cpu", measure.TINY)


# ---- shapes ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "token", "mebibytes"),
    [("Llama-3-8B", 131_072, 2), ("Llama-2-13B", 819_200, 12.5), ("Llama-3-70B", 327_680, 5), ("Qwen3-8B", 147_456, 2.25), ("DeepSeek-V3 (latent)", 70_272, 1.07)],
)  # fmt: skip
def test_a_block_weighs_what_the_published_configuration_says(name, token, mebibytes):
    shape = next(shape for shape in shapes.SHAPES if shape.name == name)
    assert shape.token_bytes == token
    assert shape.block_bytes / 2**20 == pytest.approx(mebibytes, abs=0.005)
    assert math.prod(shape.tensor_shape(3)) * shapes.BYTES_PER_NUMBER == 3 * shape.block_bytes


def test_weights_read_in_a_step_are_those_of_an_8b_model_without_its_embedding():
    assert shapes.LLAMA_3_8B.weights == pytest.approx(7.5e9, rel=0.01)    # 8.03 billion, of which 0.53 are the embedding


# ---- ways ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", HERE, ids=lambda way: way.name)
@pytest.mark.parametrize("seed", range(3))
def test_a_way_copies_no_byte_more_and_none_less(way, seed):
    exact.check(way, "cpu", seed)


WRONG = {
    "misses the last block": lambda cache, sources, targets: ways.block_by_block(cache, sources[:-1], targets[:-1]),
    "misses a layer": lambda cache, sources, targets: ways.block_by_block(cache[:, :-1], sources, targets),
    "misses the values": lambda cache, sources, targets: ways.block_by_block(cache[:1], sources, targets),
    "one slot short": lambda cache, sources, targets: [cache[:, :, t, :-1].copy_(cache[:, :, s, :-1]) for s, t in zip(sources, targets, strict=True)],
    "backwards": lambda cache, sources, targets: ways.block_by_block(cache, targets, sources),
    "writes a block too many": lambda cache, sources, targets: (ways.block_by_block(cache, sources, targets), cache[:, :, 11].zero_()),
    "does nothing": lambda cache, sources, targets: None,
}


@pytest.mark.parametrize("name", WRONG)
def test_a_way_that_copies_something_else_is_refused_before_it_is_timed(name):
    wrong = ways.Way(name, ways.LAYERS_FIRST, ways._calling(WRONG[name]), "wrong")
    with pytest.raises(exact.CopiesWrong, match=name):
        exact.check(wrong, "cpu")


@GPU
@pytest.mark.parametrize("way", ways.WAYS, ids=lambda way: way.name)
def test_a_way_is_exact_on_a_gpu(way):
    if missing := way.missing("cuda"):
        pytest.skip(missing)
    exact.check(way, "cuda")


def test_no_block_is_a_target_twice_or_a_target_and_a_source():
    for seed in range(50):
        sources, targets = exact.random_blocks(random.Random(seed), 20, 10)
        assert len({*sources, *targets}) == 20


@needs_sources
@pytest.mark.parametrize("module", [ways, kernel, exact, measure], ids=lambda module: module.__name__.split(".")[-1])
def test_no_function_of_the_package_is_an_answer(module):
    asked = exercise_named("05_copy_costs/copy_blocks")
    tried = [found for _, found in inspect.getmembers(module, inspect.isfunction) if found.__module__.startswith("autograder.copycost") and found.__name__ != "take"]
    assert tried
    for found in [*tried, ways.indexed(0), ways.indexed(2), *(way.prepare for way in HERE)]:
        assert not judge(asked, json.loads(json.dumps(recorded(asked, found, False, ""))), False, "").passed


@pytest.mark.parametrize(("layers", "size", "heads", "dim", "copies"), [(3, 4, 2, 10, 5), (32, 16, 8, 128, 1), (1, 1, 1, 2, 7), (2, 16, 40, 128, 3)])
def test_the_kernels_programs_cover_every_word_of_every_block_once(layers, size, heads, dim, copies):
    """What the Triton kernel computes of its three numbers, done in Python: the programs must reach each word just once."""
    shape = shapes.Shape("any", layers, heads, dim, block_size=size)
    rows = kernel.words(torch.zeros(shape.tensor_shape(4), dtype=torch.int16))
    grid = kernel.launch(rows, copies)
    assert rows.shape == (2 * layers, 4, shape.block_bytes // (2 * layers) // 4) and grid[:2] == (copies, 2 * layers)
    block_words = rows.shape[2]
    reached = sorted(place for chunk in range(grid[2]) for place in range(chunk * kernel.CHUNK, (chunk + 1) * kernel.CHUNK) if place < block_words)
    assert reached == list(range(block_words))


def test_the_kernel_says_so_where_a_piece_is_no_whole_number_of_words():
    with pytest.raises(ValueError, match="multiple of 4 bytes"):
        kernel.words(torch.zeros(2, 1, 4, 1, 1, 1, dtype=torch.int16))


INTERPRETED = """
import torch
from autograder.copycost import exact, kernel, ways
way = ways.Way("kernel", ways.LAYERS_FIRST, lambda cache, s, t: lambda: kernel.copy(cache, s, t), "")
for seed in range(2):
    exact.check(way, "cpu", seed)
print("exact")
"""


def test_the_kernel_is_exact_in_tritons_interpreter():
    pytest.importorskip("triton", reason="Triton is not installed here; torch's CPU builds come without it")
    done = run(sys.executable, "-c", INTERPRETED, env={**os.environ, "TRITON_INTERPRET": "1"})
    assert done.stdout.strip() == "exact", done.stderr[-800:]


# ---- clock and line --------------------------------------------------------------------------------------------


def test_a_spread_is_the_median_and_the_quartiles_of_all_repeats():
    spread = clock.Spread.of([5, 1, 3, 2, 4])
    assert (spread.low, spread.median, spread.high, spread.repeats) == (2, 3, 4, 5)


def test_each_repeat_gets_a_call_of_its_own_and_the_first_two_only_warm_up():
    asked, called = [], []
    spread = clock.Clock("cpu", budget=0.0, least=5).time(lambda repeat: asked.append(repeat) or (lambda: called.append(repeat)))
    assert asked == called == list(range(7)) and spread.repeats == 5


@pytest.mark.parametrize("overhead", [0.0, 2.3e-6, 4e-5])
@pytest.mark.parametrize("bandwidth", [8e9, 4.8e12])
def test_the_line_finds_overhead_and_bandwidth_again(overhead, bandwidth):
    moved = [2 * 2**21 * 2**k for k in range(13)]
    dice = random.Random(1)
    found = fit.line(moved, [(overhead + m / bandwidth) * dice.uniform(0.99, 1.01) for m in moved])
    assert found.bandwidth == pytest.approx(bandwidth, rel=0.02)
    assert found.overhead == pytest.approx(overhead, rel=0.05, abs=0.02 * moved[0] / bandwidth)
    assert found.worst < 0.03
    crossing = found.crossing(2**21)
    assert found.overhead == pytest.approx(2 * crossing * 2**21 / found.bandwidth)


@pytest.mark.parametrize(("moved", "seconds"), [([1, 1], [1, 2]), ([5], [1]), ([1, 2, 3], [3, 2, 1])])
def test_no_line_goes_through_times_that_tell_no_bandwidth(moved, seconds):
    with pytest.raises(ValueError):
        fit.line(moved, seconds)


# ---- records ---------------------------------------------------------------------------------------------------


def test_a_record_of_this_machine_fits_its_schema_and_names_what_was_left_out(record, tmp_path):
    records.save(record, tmp_path / "r.json")
    assert records.load(tmp_path / "r.json") == json.loads(json.dumps(record))
    assert record["device"]["kind"] == "cpu" and records.device_words(record).startswith("CPU: ")
    assert {row["way"] for row in record["copies"]} == {way.name for way in HERE}
    assert {row["way"]: row["why"] for row in record["left_out"]} == {way.name: "it needs a CUDA device" for way in ways.WAYS if way not in HERE}
    assert record["swap"] == []
    assert all(row["seconds"]["low"] <= row["seconds"]["median"] <= row["seconds"]["high"] for row in record["copies"])


def damaged(record, **changes):
    return json.dumps(json.loads(json.dumps(record)) | changes)


@pytest.mark.parametrize("change", [
    lambda r: "", lambda r: "[]", lambda r: "{", lambda r: "[" * 100_000, lambda r: '{"schema": 1}', lambda r: damaged(r, schema=2), lambda r: damaged(r, copies=[]),
    lambda r: damaged(r, device={"kind": "cuda", "name": "x"}), lambda r: damaged(r, ceiling={"bytes": 0, "seconds": r["ceiling"]["seconds"]}),
    lambda r: damaged(r, extra=1), lambda r: "x" * (1 << 21),
])  # fmt: skip
def test_a_file_that_is_no_record_is_named_with_the_cure(record, tmp_path, change):
    (tmp_path / "r.json").write_text(change(record))
    with pytest.raises(records.BadRecord, match=r"r\.json .*measure again\.$"):
        records.load(tmp_path / "r.json")


def test_nothing_is_written_that_is_no_record(record, tmp_path):
    with pytest.raises(records.BadRecord):
        records.save({**record, "schema": 7}, tmp_path / "r.json")
    assert list(tmp_path.iterdir()) == []


def test_ones_own_record_is_measured_once_and_a_damaged_one_anew(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    said = []
    first = records.own(say=said.append, plan=measure.TINY)
    assert records.own(say=said.append) == json.loads(json.dumps(first)) and said[-1].startswith("from copy_costs.json")
    (tmp_path / "copy_costs.json").write_text("{}")
    records.own(say=said.append, plan=measure.TINY)
    assert any("no record of copy costs" in line and "Measuring anew" in line for line in said)


def test_a_grader_measures_nothing_and_uses_what_was_handed_in(record, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NBGRADER_EXECUTION", "autograde")
    with pytest.raises(records.NotMeasured, match=r"No copy_costs\.json was handed in"):
        records.own()
    records.save(record, tmp_path / "copy_costs.json")
    assert records.own(say=lambda line: None)["date"] == record["date"]


def test_the_book_claims_a_gpu_only_if_it_has_a_record_of_one(record, tmp_path):
    folder = tmp_path / "book" / "_data"
    folder.mkdir(parents=True)
    records.save(record, folder / "copycost-cpu.json")
    assert records.published(folder) == [] and records.about_published(folder).startswith("No record of a GPU has been taken yet")
    device = {"kind": "cuda", "name": "Test GPU", "memory": 1, "l2": 1, "driver": None}
    records.save({**record, "device": device}, folder / "copycost-test.json")
    assert "Test GPU" in records.about_published(folder) and len(records.published(folder)) == 1
    assert "if any have been taken" in records.about_published(tmp_path / "nowhere" / "_data")


def test_every_record_of_the_book_is_one():
    assert all(record["device"]["kind"] == "cuda" for record in records.published(ROOT / "book" / "_data"))    # reading them checks them


def test_a_record_is_made_without_a_notebook(tmp_path):
    asked = run(sys.executable, "-m", "autograder.copycost", "--record", str(tmp_path / "missing" / "r.json"))
    assert asked.returncode == 2 and "make it first" in asked.stderr
    if not torch.cuda.is_available():
        asked = run(sys.executable, "-m", "autograder.copycost", "--device", "cuda", "--record", str(tmp_path / "r.json"))
        assert asked.returncode == 2 and "no CUDA device" in asked.stderr


# ---- what is read off a record ---------------------------------------------------------------------------------


def made_record(overhead, bandwidth):
    """A record by hand: one way on a machine with this overhead and bandwidth, whose ceiling is the bandwidth."""
    spread = lambda s: {"median": s, "low": s, "high": s, "repeats": 9}  # noqa: E731
    size = shapes.LLAMA_3_8B.block_bytes
    rows = [
        {"shape": "Llama-3-8B", "way": "w", "layout": "layers first", "blocks": n, "bytes": n * size, "seconds": spread(overhead + 2 * n * size / bandwidth)}
        for n in (1, 2, 4, 64, 256)
    ]  # fmt: skip
    swap = [
        {"host": "pinned", "direction": direction, "tokens": n, "bytes": n * 131_072, "seconds": spread(1e-5 + n * 131_072 / 5e10)}
        for n in (1, 16, 256) for direction in ("out", "in")
    ]  # fmt: skip
    work = {"dtype": "bfloat16", "rows": 1000, "columns": 1000, "bytes": 2_000_000, "one_token": {"tokens": 1, "seconds": spread(1e-6)}, "many_tokens": {"tokens": 100, "seconds": spread(1e-6)}}
    return {"ceiling": {"bytes": 10**9, "seconds": spread(2e9 / bandwidth)}, "copies": rows, "swap": swap, "work": work}


def test_crossing_share_of_the_ceiling_and_a_step_follow_from_the_record():
    made = made_record(overhead=1e-5, bandwidth=4e12)
    curve = reading.curves(made)[0]
    assert curve.line.overhead == pytest.approx(1e-5, rel=1e-6) and curve.crossing == pytest.approx(1e-5 * 4e12 / 2**22, rel=1e-6)
    assert reading.ceiling(made) == pytest.approx(4e12)
    name, share = reading.best(made, 256)
    assert name == "w" and share == pytest.approx((2**30 / 4e12) / (1e-5 + 2**30 / 4e12))
    assert reading.best(made, 3) is None
    assert reading.decode_step(made) == pytest.approx(2 * shapes.LLAMA_3_8B.weights / 2e12)    # two bytes a weight, 2 TB a second
    assert reading.recompute(made, 10**6) == pytest.approx(2 * shapes.LLAMA_3_8B.weights * 10**6 / 2e14)


def test_small_blocks_make_swapping_dear():
    made = made_record(1e-5, 4e12)
    assert reading.swap(made, 1024, 16) == pytest.approx(2 * 64 * (1e-5 + 16 * 131_072 / 5e10), rel=1e-6)
    assert reading.swap(made, 1024, 1) > reading.swap(made, 1024, 16) > reading.swap(made, 1024, 256)
    assert reading.swap(made, 1024, 16, "pageable") is None and reading.swap_crossing(made, 1024, "pageable") is None
    size = reading.swap_crossing(made, 1024)
    assert reading.swap(made, 1024, size) < reading.recompute(made, 1024) and (size == 1 or reading.swap(made, 1024, size // 2) >= reading.recompute(made, 1024))


def test_every_picture_names_its_device(record):
    for figure in (figures.times(record), figures.rates(record)):
        assert records.device_words(record) in figure.axes[0].get_xlabel()


def test_the_students_part_imports_without_torch():
    code = "import sys; sys.modules['torch'] = None\nfrom autograder.copycost import clock, exact, figures, fit, kernel, measure, reading, records, shapes, ways\nprint('fine')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.strip() == "fine", done.stderr
