"""Mistakes of lesson 5: with its numbers, and in `copy_blocks`, where each recogniser makes the mistake on the recorded arguments."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from autograder.misconceptions.answers import one_of
from autograder.misconceptions.base import Misconception, recorder
from autograder.misconceptions.functions import L5
from autograder.promises.batches import Batch, cache_after
from autograder.promises.functions import Case

NUMBERS = "Hands-on: bytes and microseconds"
COPY = "Code: copy many blocks"

ALL: dict[str, Misconception] = {}
BLOCK = 5 * 2**20    # bytes of the block that is asked for
numbers = recorder(ALL, f"{L5}/numbers")


@numbers(
    "a-token-for-a-block",
    "A token's bytes instead of a block's",
    "What one token leaves in the cache is multiplied by the 16 tokens of a block: a block is copied as a whole.",
    NUMBERS,
)
def token_for_block(case: Case) -> bool:
    return one_of(case, block_bytes=(BLOCK // 16,))


@numbers(
    "keys-counted-alone",
    "The values are forgotten",
    "Every layer keeps a key and a value of each token: twice the bytes, and twice the pieces.",
    NUMBERS,
)
def keys_alone(case: Case) -> bool:
    return one_of(case, block_bytes=(BLOCK // 2,), pieces=(80,))


@numbers(
    "one-piece",
    "The block is taken for one piece of memory",
    "A block number stands for one block in *each* layer, and each layer has tensors of its own: the pieces lie far apart, and a block table does not show it.",
    NUMBERS,
)
def one_piece(case: Case) -> bool:
    return one_of(case, pieces=(1, 2))


@numbers(
    "a-byte-moved-once",
    "A copied byte is counted once",
    "A copy reads each byte and writes it: within a device's own memory twice the bytes of the block have to pass.",
    NUMBERS,
)
def moved_once(case: Case) -> bool:
    return one_of(case, microseconds=(BLOCK / 4.8e6,), crossing=(22, 23))


@numbers(
    "crossing-rounded-down",
    "The crossing is rounded down",
    "With eleven blocks the transfer still takes less than the overhead. The twelfth makes it longer.",
    NUMBERS,
)
def rounded_down(case: Case) -> bool:
    return one_of(case, crossing=(11, 48e6 / (4 * 2**20)))


@numbers(
    "milliseconds",
    "The unit is another one",
    "A terabyte a second is a million bytes in a microsecond.",
    NUMBERS,
)
def milliseconds(case: Case) -> bool:
    if case.args != "microseconds" or case.outcome.error is not None or type(case.value) not in (int, float):
        return False
    ratio = case.value / (2 * BLOCK / 4.8e6)
    return any(abs(ratio / factor - 1) < 0.01 for factor in (1e3, 1e-3, 1e-6))


copying = recorder(ALL, f"{L5}/copy_blocks")
Moves = Iterable[tuple[int, int, int, int]]    # (piece, layer, source, target)


def _after(case: Case, moves: Callable[[Batch], Moves], back: bool = False) -> bool:
    """Whether just these moves were made, one after the other; back: the sources got the targets' numbers as well."""
    batch, after = case.args, cache_after(case)
    if after is None:
        return False
    rows = list(batch.cache.rows(3))
    for piece, layer, source, target in moves(batch):
        there, here = batch.place(piece, layer, target), batch.place(piece, layer, source)
        rows[there], rows[here] = rows[here], rows[there] if back else rows[here]
    return after.rows(3) == rows


def _all(batch: Batch, pieces: Iterable[int] = (0, 1), layers: Iterable[int] | None = None, pairs: Iterable[tuple[int, int]] | None = None) -> Moves:
    chosen = range(batch.layers) if layers is None else layers
    return [(piece, layer, *pair) for piece in pieces for layer in chosen for pair in (batch.pairs if pairs is None else pairs)]


@copying(
    "cache-not-changed",
    "A new tensor instead of the cache that was passed",
    "The cache is the tensor that the caller holds. `index_copy`, `clone` and indexing with a list give another one: assign to places in this one, or use the functions that end in _.",
    COPY,
)
def cache_not_changed(case: Case) -> bool:
    return bool(case.args.pairs) and _after(case, lambda batch: ())


@copying(
    "batch-keys-only",
    "Only the keys are copied",
    "`cache[0]` are the keys and `cache[1]` the values. With the keys alone the copy finds the right tokens and then takes a stranger's values.",
    COPY,
)
def keys_only(case: Case) -> bool:
    return _after(case, lambda batch: _all(batch, pieces=(0,)))


@copying(
    "batch-values-only",
    "Only the values are copied",
    "`cache[1]` are the values and `cache[0]` the keys. With the values alone the copy weighs them by a stranger's keys.",
    COPY,
)
def values_only(case: Case) -> bool:
    return _after(case, lambda batch: _all(batch, pieces=(1,)))


@copying(
    "batch-first-layer-only",
    "Only the first layer is copied",
    "A block number stands for one block in every layer. The second dimension is the layer: take all of it.",
    COPY,
    clear=lambda case: case.args.layers > 1,
)
def first_layer_only(case: Case) -> bool:
    return case.args.layers > 1 and _after(case, lambda batch: _all(batch, layers=(0,)))


@copying(
    "batch-last-layer-forgotten",
    "The last layer is left out",
    "`range(n)` ends at n − 1 by itself, so `range(layers - 1)` leaves out the last layer.",
    COPY,
)
def last_layer_forgotten(case: Case) -> bool:
    return _after(case, lambda batch: _all(batch, layers=range(batch.layers - 1)))


@copying(
    "batch-backwards",
    "The copies go the wrong way",
    "A pair is (source, target). The source is the block that others still read; the target was just taken, and gets what the source holds.",
    COPY,
)
def backwards(case: Case) -> bool:
    return _after(case, lambda batch: _all(batch, pairs=[(target, source) for source, target in batch.pairs]))


@copying(
    "batch-exchanged",
    "The two blocks are exchanged",
    "Others still read the source, so it must stay as it is: the target gets the source's numbers and gives none back.",
    COPY,
)
def exchanged(case: Case) -> bool:
    return _after(case, _all, back=True)


@copying(
    "first-pair-only",
    "Only the first pair is copied",
    "The list has a pair for each copy of this step: `pairs[0]` is one of them. An early `return` in a loop has the same effect.",
    COPY,
)
def first_pair_only(case: Case) -> bool:
    return len(case.args.pairs) > 1 and _after(case, lambda batch: _all(batch, pairs=batch.pairs[:1]))


@copying(
    "last-pair-only",
    "Only the last pair is copied",
    "Behind a loop its variables hold the last pair; the copy belongs inside the loop.",
    COPY,
)
def last_pair_only(case: Case) -> bool:
    return len(case.args.pairs) > 1 and _after(case, lambda batch: _all(batch, pairs=batch.pairs[-1:]))


@copying(
    "first-source-for-all",
    "Every target gets the first source",
    "Each pair has a source of its own. `sources[0]` is the first pair's.",
    COPY,
)
def first_source_for_all(case: Case) -> bool:
    return len({source for source, _ in case.args.pairs}) > 1 and _after(case, lambda batch: _all(batch, pairs=[(batch.pairs[0][0], target) for _, target in batch.pairs]))


@copying(
    "no-pairs-not-thought-of",
    "An empty list of pairs is an error",
    "Most decode steps copy nothing, and the engine calls all the same. `torch.tensor([])` has no whole numbers in it, and an empty list has nothing to unpack: return first if there are no pairs.",
    COPY,
    together=lambda evidence: all(not case.args.pairs for case in evidence),
)
def no_pairs(case: Case) -> bool:
    return not case.args.pairs and case.outcome.error is not None


@copying(
    "through-the-host",
    "The numbers go through the host, or meet a tensor that lies elsewhere",
    "On a GPU the cache is in the GPU's memory. `.cpu()`, `.numpy()` and `.tolist()` fetch it over a link that is far slower, and what is changed there is another tensor; numbers of blocks have to be made with `device=cache.device`.",
    COPY,
    together=lambda evidence: all(isinstance(case.value, dict) and case.value.get("elsewhere") for case in evidence),
)
def through_the_host(case: Case) -> bool:
    return isinstance(case.value, dict) and bool(case.value.get("elsewhere")) and _after(case, _all)
