"""Mistakes in the functions of lesson 2: what is shared, what it saves, and which blocks are the same."""

from __future__ import annotations

import itertools
from collections.abc import Callable

from autograder.misconceptions.base import Misconception, recorder
from autograder.misconceptions.functions import L2, _fills, _holds, _nearest, _value, would_differ
from autograder.promises.functions import Case, fills, holds
from autograder.promises.prefixes import hits, key_lists, leads, shared_tokens

THREE = "Worked example: three requests of different lengths"
SEE = "See it: 32 tokens in common, three requests, 20 tokens of their own"
IDEA = "The idea"
SAFE = "When is it safe? Model, tokens, position"
FOURTH = "The fourth condition, which a block does not know about itself"
KEYS = "Code 5: a key for each full block"
MATCH = "Code 6: how much of a prompt is there already"
FULL = "Code 1: how many blocks can be shared"
ALONE = "Code 2: the bill without sharing"

ALL: dict[str, Misconception] = {}


# ---- counting ---------------------------------------------------------------------------------------

shared = recorder(ALL, f"{L2}/full_shared_blocks", spared=would_differ)


@shared(
    "shared-to-the-nearest",
    "A nearly full block counts as shared",
    "Nearly full is not full: the last slots take tokens that differ from request to request. Only a block without an empty slot can be shared.",
    IDEA,
)
def shared_to_the_nearest(case: Case) -> bool:
    return _nearest(_value(case), *case.args)


@shared(
    "partial-block-shared",
    "The partly filled block counts as shared",
    "The last block of the prefix has empty slots, and each request writes its own next token there. It differs from request to request, so it is not shared.",
    IDEA,
)
def partial_block_shared(case: Case) -> bool:
    return _holds(case, [case.args[0]], case.args[1])


@shared(
    "last-full-block-left-out",
    "The last full block is left out",
    "A prefix that ends exactly at a block's end fills that block as well, and it is as shareable as those before it. (Engines leave a token to compute; that is a question of matching, not of what is full.)",
    FULL,
)
def last_full_block_left_out(case: Case) -> bool:
    tokens, block = case.args
    return tokens > 0 and tokens % block == 0 and _fills(case, [tokens], block, -1)


@shared(
    "shared-tokens-for-blocks",
    "Tokens counted instead of blocks",
    "Full blocks × block size is how many tokens are shared. The question is in how many blocks they are.",
    FULL,
)
def shared_tokens_for_blocks(case: Case) -> bool:
    return case.args[1] > 1 and _value(case) == shared_tokens(*case.args)


alone = recorder(ALL, f"{L2}/blocks_without_sharing", spared=would_differ)


@alone(
    "rounded-after-adding",
    "Rounded up after adding",
    "Two half-filled blocks of two requests are two blocks: without sharing nobody puts a token into another's. Round up for each request, then add.",
    THREE,
)
def rounded_after_adding(case: Case) -> bool:
    totals, block = case.args
    return _holds(case, [sum(totals)], block)


@alone(
    "each-rounded-down",
    "Each request rounded down",
    "That counts the full blocks only. The tokens in each request's last, partly filled block have to be stored as well.",
    ALONE,
)
def each_rounded_down(case: Case) -> bool:
    totals, block = case.args
    return _fills(case, totals, block)


@alone(
    "one-more-for-each",
    "`n // size + 1` for each request",
    "Adding one after rounding down is right only if something is left over. A request that fills its blocks exactly, or has no token, gets a block that holds nothing.",
    ALONE,
)
def one_more_for_each(case: Case) -> bool:
    totals, block = case.args
    return _fills(case, totals, block, len(totals))


@alone(
    "longest-for-all",
    "Every request counted like the longest",
    "Reserving as much as the longest needs is what contiguous memory does. In a paged pool each request holds the blocks of its own tokens.",
    ALONE,
)
def longest_for_all(case: Case) -> bool:
    totals, block = case.args
    return len(totals) > 1 and _holds(case, [max(totals)] * len(totals), block)


@alone(
    "no-requests-fail",
    "An empty list is an error",
    "No requests are a case like any other: they hold no block. A sum starts at 0 before the first request is added.",
    ALONE,
)
def no_requests_fail(case: Case) -> bool:
    return not case.args[0] and case.outcome.error is not None


sharing = recorder(ALL, f"{L2}/blocks_with_sharing", spared=would_differ)


def _own(case: Case, off: int) -> list[int]:
    """The tokens of each request when so many are taken off its total."""
    return [max(0, total - off) for total in case.args[1]]


@sharing(
    "partial-block-once",
    "The partly filled prefix block is shared too",
    "The prefix's last block is not full: each request writes its own next token into it, and one slot cannot hold two tokens. Only the full blocks count once.",
    IDEA,
)
def partial_block_once(case: Case) -> bool:
    prefix, _, block = case.args
    up = prefix + -prefix % block
    return prefix % block > 0 and _holds(case, [prefix, *_own(case, up)], block)


@sharing(
    "prefix-kept-apart",
    "Prefix and own tokens in separate blocks",
    "A request's tokens go on in the block in which the prefix ends; there is no gap between them. What a request keeps is its total less the tokens in full shared blocks, rounded up once.",
    THREE,
)
def prefix_kept_apart(case: Case) -> bool:
    prefix, _, block = case.args
    return prefix % block > 0 and _holds(case, [prefix, *_own(case, prefix)], block)


@sharing(
    "whole-prefix-taken-off",
    "The whole prefix is taken off each total",
    "The tokens behind the prefix's last full block are in no shared block, so somebody must store them: each request does. Take off only the tokens in full shared blocks.",
    THREE,
)
def whole_prefix_taken_off(case: Case) -> bool:
    prefix, _, block = case.args
    return prefix % block > 0 and _holds(case, [_off(case), *_own(case, prefix)], block)


def _off(case: Case) -> int:
    """Tokens in the full shared blocks."""
    return shared_tokens(case.args[0], case.args[2])


@sharing(
    "shared-blocks-for-each",
    "Shared blocks counted for each request",
    "Every table names the shared blocks, but in memory they are there once. Counted for each request nothing is saved.",
    SEE,
)
def shared_blocks_for_each(case: Case) -> bool:
    return _holds(case, case.args[1], case.args[2])


@sharing(
    "shared-blocks-forgotten",
    "The shared blocks are left out",
    "Shared does not mean free of charge: somebody has to hold the blocks, once. Add them to what the requests keep for themselves.",
    SEE,
)
def shared_blocks_forgotten(case: Case) -> bool:
    return _off(case) > 0 and _holds(case, _own(case, _off(case)), case.args[2])


@sharing(
    "own-tokens-rounded-down",
    "The requests' own tokens are rounded down",
    "What a request keeps for itself rarely fills its last block, and that block is taken all the same. Round up.",
    THREE,
)
def own_tokens_rounded_down(case: Case) -> bool:
    return _fills(case, [_off(case), *_own(case, _off(case))], case.args[2])


@sharing(
    "own-tokens-in-one-table",
    "All own tokens rounded up together",
    "Each request has a block table of its own, and the tokens of two requests never share a partly filled block. Round up for each, then add.",
    THREE,
)
def own_tokens_in_one_table(case: Case) -> bool:
    return _holds(case, [_off(case), sum(_own(case, _off(case)))], case.args[2])


# ---- which blocks are the same ----------------------------------------------------------------------

share = recorder(ALL, f"{L2}/can_share", spared=would_differ)


def _same(case: Case, *keys: str) -> bool:
    """Whether two blocks that must not be shared were, and are alike in these keys."""
    a, b = case.args
    return _value(case) == 1 and a != b and all(a[key] == b[key] for key in keys)


@share(
    "ignores-position",
    "The position is ignored",
    "The same tokens further on in a text have other keys: a token's position is worked into its key. Equal tokens at another start are another block.",
    SAFE,
)
def ignores_position(case: Case) -> bool:
    return _same(case, "model", "tokens")


@share(
    "ignores-model",
    "The model is ignored",
    "Keys and values are made by a model's weights. Another model, or the same one fine-tuned, makes other numbers of the same tokens.",
    SAFE,
)
def ignores_model(case: Case) -> bool:
    return _same(case, "tokens", "start")


@share(
    "text-is-enough",
    "Equal tokens are thought to be enough",
    "A block does not hold text, it holds what one model's weights made of the tokens at their positions. Model and start must be equal as well.",
    SAFE,
)
def text_is_enough(case: Case) -> bool:
    return _same(case, "tokens")


def _alike(case: Case, view: Callable[[list[int]], object]) -> bool:
    """Whether two blocks were shared whose tokens differ, but not in this view."""
    a, b = case.args
    return _same(case, "model", "start") and view(a["tokens"]) == view(b["tokens"])


@share(
    "compares-text",
    "The text is compared, not the tokens",
    "The same characters can be cut into tokens in more than one way, and each token has its own key. Compare the lists of ids, not what they look like when joined.",
    SAFE,
)
def compares_text(case: Case) -> bool:
    return _alike(case, lambda tokens: "".join(map(str, tokens)))


@share(
    "ignores-order",
    "The order of the tokens is ignored",
    "Each token's key and value depend on where it stands and on what came before it. The same tokens in another order, or another number of times, are another block.",
    SAFE,
)
def ignores_order(case: Case) -> bool:
    return _alike(case, set)


@share(
    "common-beginning-is-enough",
    "A common beginning is thought to be enough",
    "A block is shared as a whole or not at all. `zip` stops at the shorter list, so what one block has more is never compared.",
    SAFE,
)
def common_beginning_is_enough(case: Case) -> bool:
    a, b = case.args
    return _same(case, "model", "start") and all(x == y for x, y in zip(a["tokens"], b["tokens"], strict=False))


@share(
    "length-is-enough",
    "Only the number of tokens is compared",
    "Two blocks of the same length need not have a token in common. Compare which ids they hold, one by one.",
    SAFE,
)
def length_is_enough(case: Case) -> bool:
    return _alike(case, len)


def _other_keys(explains: Callable[[Case], bool], held: Case) -> bool:
    """Whether the mistake makes other keys here than the right ones that were made; a group without a key tells nothing."""
    return any(key_lists(held) or ()) and not explains(Case(held.args, held.outcome, RIGHT_NUMBER))


RIGHT_NUMBER = frozenset({"one-key-per-full-block"})


keys = recorder(ALL, f"{L2}/block_keys", spared=_other_keys)


def _equal_where(case: Case, view: Callable[[list[int], int, str, int], object], model: bool = True) -> bool:
    """Whether the keys are in number as they must be, and equal just where the models, and this view of (tokens, block, end), are."""
    lists = key_lists(case)
    if case.outcome.error or lists is None:
        return False
    flat = []
    for (tokens, block, name), given in zip(case.args, lists, strict=True):
        if not fills(len(given), [len(tokens)], block):
            return False
        flat += [(key, (name if model else "", _frozen(view(tokens, block, (i + 1) * block)))) for i, key in enumerate(given)]
    return len({key for key, _ in flat}) == len({seen for _, seen in flat}) == len(set(flat))


def _frozen(x: object) -> object:
    """Lists and sets as what can be put into a set."""
    return tuple(map(_frozen, x)) if isinstance(x, (list, tuple)) else frozenset(x) if isinstance(x, set) else x


def _numbers(case: Case, expected: Callable[[int, int, int], bool]) -> bool:
    """Whether the wrong number of keys is for each prompt what is expected of it, its length and the block size."""
    lists = key_lists(case)
    return "one-key-per-full-block" in case.broken and lists is not None and all(expected(len(given), len(tokens), block) for (tokens, block, _), given in zip(case.args, lists, strict=True))


@keys(
    "keys-are-lists",
    "The keys are lists",
    "A list can change, so a set or a dict cannot hold it. A tuple of the same tokens can be a key.",
    KEYS,
)
def keys_are_lists(case: Case) -> bool:
    return case.outcome.error == "TypeError" and "unhashable" in case.outcome.message


@keys(
    "partial-block-keyed",
    "The partly filled block gets a key",
    "The last block is not full yet: the next token changes what it holds, so what a key says of it now is wrong a moment later. Only full blocks have keys.",
    KEYS,
)
def partial_block_keyed(case: Case) -> bool:
    return _numbers(case, lambda keys, n, block: holds(keys, [n], block))


@keys(
    "last-key-missing",
    "The last full block gets no key",
    "A prompt that ends exactly at a block's end fills that block too. The end of a `range` is not in it; one more is needed to reach the last block's end.",
    KEYS,
)
def last_key_missing(case: Case) -> bool:
    return _numbers(case, lambda keys, n, block: fills(keys, [max(0, n - 1)], block))


@keys(
    "ignores-model-in-key",
    "The key leaves the model out",
    "Another model makes other keys and values of the same tokens. Without the model in the key, one model would be given another's blocks.",
    SAFE,
)
def ignores_model_in_key(case: Case) -> bool:
    return _equal_where(case, lambda tokens, block, end: tokens[:end], model=False)


@keys(
    "keys-by-block-only",
    "The key covers the block's own tokens only",
    "Attention mixes into every key and value what came before. The same tokens after another beginning are another block, so its key must cover everything up to its end.",
    FOURTH,
)
def keys_by_block_only(case: Case) -> bool:
    return _equal_where(case, lambda tokens, block, end: tokens[end - block : end])


@keys(
    "position-for-prefix",
    "The position stands for the tokens before the block",
    "Two prompts may differ at the start and agree in a block further on. The number of tokens before it is equal then, and their keys and values are not: the key must cover the tokens themselves.",
    FOURTH,
)
def position_for_prefix(case: Case) -> bool:
    return _equal_where(case, lambda tokens, block, end: (end, tokens[end - block : end]))


@keys(
    "block-left-out-of-its-key",
    "The key covers what stands before the block, not the block",
    "Two prompts that agree up to a block and differ in it need two keys. The slice must reach to the block's end, not to its start.",
    KEYS,
)
def block_left_out_of_its_key(case: Case) -> bool:
    return _equal_where(case, lambda tokens, block, end: (end, tokens[: end - block]))


@keys(
    "order-lost-in-key",
    "The key forgets the order of the tokens",
    "A set keeps neither order nor repeats, so different prefixes get one key. A tuple keeps both.",
    KEYS,
)
def order_lost_in_key(case: Case) -> bool:
    return _equal_where(case, lambda tokens, block, end: (end, set(tokens[:end])))


@keys(
    "weak-hash",
    "The key is a number made from the tokens",
    "Many prefixes have the same sum, and any number that is shorter than its tokens can collide. A user would be given another's keys and values; keep the tokens themselves in the key.",
    KEYS,
)
def weak_hash(case: Case) -> bool:
    return _equal_where(case, lambda tokens, block, end: (end, sum(tokens[:end])))


@keys(
    "whole-prompt-in-key",
    "The key covers tokens behind the block",
    "Attention never looks ahead: what stands behind a block changes nothing in it. With those tokens in the key two prompts that begin alike would share no block.",
    KEYS,
)
def whole_prompt_in_key(case: Case) -> bool:
    return _equal_where(case, lambda tokens, block, end: (end, tokens))


match = recorder(ALL, f"{L2}/match_prefix", spared=would_differ)


@match(
    "nothing-when-complete",
    "No answer when every key is cached",
    "The loop may end without meeting a miss, and then it is over without a `return`. A prompt whose blocks are all there matches all of them.",
    MATCH,
)
def nothing_when_complete(case: Case) -> bool:
    return case.outcome.error is None and case.value is None and all(hits(case.args))


@match(
    "all-or-nothing",
    "All or nothing",
    "A prompt that is cached in part is still worth matching: its computation starts at the first missing block, not at the beginning.",
    MATCH,
)
def all_or_nothing(case: Case) -> bool:
    return _value(case) == 0 and hits(case.args)[:1] == [True] and not all(hits(case.args))


@match(
    "last-key-never-matched",
    "The last key is never matched",
    "That engines leave a token to compute is true, and asked elsewhere. This function counts the leading keys that are cached; if all are, it is all of them.",
    MATCH,
)
def last_key_never_matched(case: Case) -> bool:
    return all(hits(case.args)) and _value(case) == len(case.args[1]) - 1 >= 0


@match(
    "index-for-number",
    "The index of the last match instead of the number of matches",
    "Indices start at 0: the third key has index 2. The question is how many keys match, one more than the last one's index.",
    MATCH,
)
def index_for_number(case: Case) -> bool:
    return _value(case) is not None and _value(case) >= 0 and leads(case.args, _value(case) + 1)


@match(
    "counts-to-the-last-hit",
    "Counts up to the last hit",
    "A hit behind a gap is of no use: its keys and values rest on the block that is missing. Only the run from the front counts.",
    MATCH,
)
def counts_to_the_last_hit(case: Case) -> bool:
    found = hits(case.args)
    return any(not early and late for early, late in itertools.pairwise(found)) and _value(case) == max(i for i, hit in enumerate(found) if hit) + 1


@match(
    "counts-hits-after-a-miss",
    "Hits after a miss are counted",
    "A block behind a gap cannot be used: the prompt is computed from its first missing token on, and what comes later is computed with it. Stop at the first miss.",
    MATCH,
)
def counts_hits_after_a_miss(case: Case) -> bool:
    return _value(case) == sum(hits(case.args))


@match(
    "keys-for-number",
    "The keys instead of their number",
    "The keys that match are the right ones; the question is how many they are.",
    MATCH,
)
def keys_for_number(case: Case) -> bool:
    shown = case.value.get("shown", "") if isinstance(case.value, dict) else ""
    return shown.startswith("[") and (shown == "[]") == leads(case.args, 0)


@match(
    "counts-the-cache",
    "The size of the cache",
    "The cache holds blocks of many prompts. How many it has in all says nothing about this one: look its keys up, one after the other.",
    MATCH,
    spared=lambda explains, held: hits(held.args)[:1] == [True] and would_differ(explains, held),
)
def counts_the_cache(case: Case) -> bool:
    return _value(case) == len(case.args[0])
