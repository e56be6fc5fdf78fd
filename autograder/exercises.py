"""Every graded exercise of the course, and the points of its promises."""

from __future__ import annotations

import ast
import math
from dataclasses import dataclass

from autograder.histories import ALL, LESSON_01
from autograder.promises import batches, eviction, manager, prefixes
from autograder.promises import functions as f
from autograder.promises import tensors as t
from autograder.promises.base import Promise
from autograder.promises.questions import Question, question_promise
from autograder.prompts.questions import of_lesson


@dataclass(frozen=True)
class Exercise:
    """One check of a lesson. `weights` gives each promise's points, in the order in which promises are reported.

    kind is "manager" (a class), "function", or "answers" (numbers worked out by hand). section names the heading
    of the lesson to reread.
    """

    id: str
    kind: str
    weights: dict[str, float]
    promises: dict[str, Promise]
    function: f.Function | None = None
    verbs: frozenset[str] = frozenset()
    section: str = ""

    @property
    def lesson(self) -> str:
        return self.id.split("/")[0]

    @property
    def name(self) -> str:
        """The name of the class, function or dict that is checked."""
        return self.id.split("/")[1]

    @property
    def needs(self) -> str | None:
        """The package without which the exercise's object cannot be driven."""
        return self.function.needs if self.function else None

    @property
    def points(self) -> float:
        return math.fsum(self.weights.values())

    def graded(self) -> list[tuple[Promise, float]]:
        return [(self.promises[id], points) for id, points in self.weights.items()]


EXERCISES: dict[str, Exercise] = {}


def _add(id: str, kind: str, weights: dict[str, float], promises: list[Promise], **more: object) -> None:
    EXERCISES[id] = Exercise(id, kind, weights, {p.id: p for p in promises}, **more)


def _function(id: str, function: f.Function, *points: float) -> None:
    _add(id, "function", {p.id: w for p, w in zip(function.promises, points, strict=True)}, function.promises, function=function)


def _answers(id: str, points: float, *questions: Question) -> None:
    _add(id, "answers", {q.key: points / len(questions) for q in questions}, [question_promise(q) for q in questions])


def _predictions(lesson: str, points: float) -> None:
    """That each of the lesson's predictions was made; being right is not asked."""
    _answers(
        f"{lesson}/predictions", points,
        *(Question(q.id, f"a prediction for “{q.title}”", lambda v: v == 1, "Commit one in the form; any answer counts.") for q in of_lesson(lesson, "predict")),
    )  # fmt: skip


def _manager(id: str, verbs: frozenset[str], weights: dict[str, float]) -> None:
    _add(id, "manager", weights, list(manager.ALL.values()), verbs=verbs)


def _fills(k: float, tokens: int, block: int) -> bool:
    return (k - 1) * block < tokens <= k * block and k == int(k)


L1, L2, L3, L4, L5 = "01_contiguous_vs_paged", "02_prefix_sharing", "03_copy_on_write", "04_real_cache", "05_copy_costs"

_answers(
    f"{L1}/numbers", 3,
    Question("blocks", "the fewest blocks of 16 that hold 100 tokens", lambda v: _fills(v, 100, 16), "Six blocks hold 96 tokens: four tokens are left over."),
    Question("slots", "the slots in those blocks", lambda v: v % 16 == 0 and _fills(v // 16, 100, 16), "Every block has 16 slots, the last one too."),
    Question("slack", "the slots in them that hold no token", lambda v: (v + 100) % 16 == 0 and 0 <= v < 16, "Slots less tokens."),
    Question("slack_percent", "the slack in percent of this allocation's slots", lambda v: abs(v * (100 + -100 % 16) - 100 * (-100 % 16)) <= 0.01 * 112, "The denominator is the allocation's slots, not its tokens; and percent runs from 0 to 100."),
)
_answers(
    f"{L1}/holes", 3,
    Question("total_free", "all free slots of the pool of 96, of which 16–31 and 64–79 are occupied", lambda v: v + 32 == 96, "Two runs of 16 are occupied."),
    Question("largest_contiguous", "the largest request that still fits as one run of neighbours", lambda v: v == max(16, 64 - 32, 96 - 80), "Requests need neighbours: the free slots are three separate runs."),
    Question("largest_paged", "the largest request that still fits when the same slots are pages of 16", lambda v: v % 16 == 0 and v // 16 == 6 - 2, "Any free block will do, wherever it lies."),
)
_function(f"{L1}/blocks_needed", f.BLOCKS_NEEDED, 0.75, 0.75, 0.5)
_function(f"{L1}/slack", f.SLACK, 1, 1)
_function(f"{L1}/slack_fraction", f.SLACK_FRACTION, 1.5, 0.5)
_function(f"{L1}/largest_hole", f.LARGEST_HOLE, 1, 1.25, 0.5, 0.25)
_manager(
    f"{L1}/BlockManager", LESSON_01,
    {
        "readable": 0.25, "empty-at-first": 0.25, "managers-are-separate": 0.25,
        "allocate-length": 0.5, "lowest-first": 0.75, "take-by-hand": 0.75,
        "release-forgets": 0.25, "release-lowers-counts": 0.25, "release-frees": 0.5,
        "bystanders": 0.25, "refuses": 0.75, "unknown-name": 0.5, "failure-changes-nothing": 0.75,
        "size": 0.5, "counts": 0.25, "conservation": 0.25, "succeeds": 0.75, "used-counts-once": 0.25,
    },
)
_predictions(L1, 2)
_answers(
    f"{L2}/numbers", 3,
    Question("without", "blocks of 16 for three requests of 40 + 20 tokens, each on its own", lambda v: v % 3 == 0 and _fills(v // 3, 60, 16), "60 tokens a request, rounded up for each."),
    Question("with_sharing", "blocks when the full blocks of the 40-token prefix are shared", lambda v: (v - 2) % 3 == 0 and _fills((v - 2) // 3, 60 - 32, 16), "Of 40 tokens only two blocks are full; the other 8 tokens belong to each request."),
    Question("saved", "blocks saved", lambda v: v == (3 - 1) * (40 // 16), "Each request after the first saves the full shared blocks."),
    Question("saved_one_request", "blocks saved when there is one request only", lambda v: v == (1 - 1) * (40 // 16), "Nobody is there to share with."),
)
_function(f"{L2}/full_shared_blocks", prefixes.FULL_SHARED_BLOCKS, 1, 1)
_function(f"{L2}/blocks_without_sharing", prefixes.BLOCKS_WITHOUT_SHARING, 1.5, 0.5)
_function(f"{L2}/blocks_with_sharing", prefixes.BLOCKS_WITH_SHARING, 1, 2)
_function(f"{L2}/can_share", prefixes.CAN_SHARE, 0.5, 0.75, 0.75, 0.75, 0.25)
_function(f"{L2}/block_keys", prefixes.BLOCK_KEYS, 1, 1, 2)
_function(f"{L2}/match_prefix", prefixes.MATCH_PREFIX, 1.25, 0.75)
_answers(
    f"{L2}/understanding", 3,
    Question("unrelated_models", "may two unrelated models share a block because the text looks identical", lambda v: v == 0, "A block holds keys and values; other weights give other keys and values."),
    Question("shared_of_47", "full blocks of 16 in a shared prefix of 47 tokens", lambda v: v * 16 <= 47 < (v + 1) * 16 and v == int(v), "Three blocks would need 48 tokens."),
    Question("matched_of_64", "blocks of 16 that a fully cached prompt of 64 tokens may match when one token must be computed", lambda v: v * 16 <= 64 - 1 < (v + 1) * 16 and v == int(v), "Matching is by whole blocks; the last token must not be inside a matched one."),
)
_predictions(L2, 2)
_answers(
    f"{L3}/numbers", 3,
    Question("without", "blocks of 16 for four samples of 2,005 + 300 tokens without sharing", lambda v: v % 4 == 0 and _fills(v // 4, 2305, 16), "2,305 tokens a sample, rounded up, four times."),
    Question("with_sharing", "blocks in use at the end when the prompt's full blocks are shared", lambda v: (v - 2005 // 16) % 4 == 0 and _fills((v - 2005 // 16) // 4, 2305 - 2005 // 16 * 16, 16), "125 full blocks are shared; the 5 tokens behind them belong to every sample in the end."),
    Question("copies", "blocks copied on write", lambda v: v == 4 - 1, "The last owner of the partly filled block writes in place."),
)
_manager(
    f"{L3}/BlockManager", ALL,
    {
        "readable": 0.25, "empty-at-first": 0.25, "managers-are-separate": 0.25,
        "allocate-length": 0.25, "lowest-first": 0.5, "take-by-hand": 0.5,
        "fork-shares-blocks": 0.75, "fork-length": 0.5, "fork-takes-nothing": 0.5, "fork-raises-counts": 0.75,
        "append-length": 0.5, "append-at-boundary": 0.75, "append-in-place": 0.75, "append-copies-shared": 1, "one-copy-at-most": 0.5,
        "single-writer": 0.75, "append-lowers-old-count": 0.75, "append-result": 0.5,
        "release-forgets": 0.25, "release-lowers-counts": 0.5, "release-frees": 0.75,
        "bystanders": 0.5, "refuses": 0.5, "unknown-name": 0.5, "failure-changes-nothing": 1,
        "size": 0.25, "counts": 0.25, "conservation": 0.25, "succeeds": 0.75, "used-counts-once": 0.5,
    },
)  # fmt: skip
_function(f"{L3}/eviction_order", eviction.EVICTION_ORDER, 1, 1.25, 1.25, 1, 0.5)
_predictions(L3, 2)
TOKEN = 2 * 3 * 4 * 24 * 4    # bytes that a token leaves in lesson 4's model: keys and values, layers, heads, head dimension, bytes per number
_answers(
    f"{L4}/numbers", 4,
    Question("bytes_per_token", "bytes that one token leaves in the cache: 3 layers, 4 heads of 24 numbers, 4 bytes a number", lambda v: v == TOKEN, "2 × layers × heads × head dimension × bytes per number."),
    Question("slot", "the slot of the token at position 20 with the table [0, 2], blocks of 16", lambda v: v // 16 == 2 and v % 16 == 20 % 16, "Position 20 is in logical block 1, place 4; logical block 1 is physical block 2."),
    Question("bytes_copied", "bytes that a copy of one block of 16 moves", lambda v: v == 16 * TOKEN, "All 16 slots, keys and values, in every layer."),
    Question("bytes_in_use", "bytes of the blocks in use when four samples of a 40-token prompt have 24 new tokens each, blocks of 16", lambda v: v % (16 * TOKEN) == 0 and v // (16 * TOKEN) == 40 // 16 + 4 * (64 // 16 - 40 // 16), "The prompt's full blocks once, the rest of each sample by itself."),
)
_function(f"{L4}/write_token", t.WRITE_TOKEN, 1, 1, 1)
_function(f"{L4}/copy_block", t.COPY_BLOCK, 1.25, 1.25, 0.75, 0.75)
_function(f"{L4}/paged_attention", t.PAGED_ATTENTION, 0.5, 0.5, 0.5, 1, 1, 1, 0.5, 0.5, 0.5)
_predictions(L4, 1)
_manager(f"{L4}/BlockManager", ALL, dict.fromkeys(EXERCISES[f"{L3}/BlockManager"].weights, 0.1))
_answers(
    f"{L5}/numbers", 4,
    Question("block_bytes", "the bytes of one block of Llama-3-70B: 80 layers, 8 KV heads of 128 numbers, 2 bytes a number, 16 tokens", lambda v: v / (2 * 2 * 16) == 80 * 8 * 128, "Key and value, every layer, every head; a block has 16 tokens."),
    Question("pieces", "the pieces of memory in which that block lies, if each layer has a key cache and a value cache of its own", lambda v: v / 80 == 2, "A piece for the keys and one for the values, in every layer."),
    Question("microseconds", "the microseconds that its copy takes at 4.8 TB a second, bytes read plus bytes written", lambda v: abs(v * 4.8e6 / 2 - 5 * 2**20) <= 0.01 * 5 * 2**20, "A copied byte is read once and written once. A microsecond is a millionth of a second."),
    Question("crossing", "the fewest blocks of 2 MiB whose transfer at 4.8 TB a second takes longer than an overhead of 10 microseconds", lambda v: (v - 1) * 2 * 2 * 2**20 <= 48e6 < v * 2 * 2 * 2**20 and v == int(v), "In 10 microseconds 48 MB are moved, read plus written. How many blocks are that?"),
)
_function(f"{L5}/copy_blocks", batches.COPY_BLOCKS, 1, 1, 1, 0.5, 0.5, 1, 1)
_predictions(L5, 1)


def exercise_of(source: str) -> str | None:
    """The exercise that a cell checks: the first argument of its `check("…", …)` call; None if there is no such call."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return None
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "check" and node.args:
            first = node.args[0]
            if isinstance(first, ast.Constant) and isinstance(first.value, str):
                return first.value
    return None
