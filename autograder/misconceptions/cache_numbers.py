"""Mistakes with the numbers of lesson 4."""

from __future__ import annotations

from autograder.misconceptions.answers import one_of
from autograder.misconceptions.base import Misconception, recorder
from autograder.misconceptions.functions import L4
from autograder.promises.functions import Case

NUMBERS = "Hands-on: bytes and slots"
COPY = "Code: copy one block"

ALL: dict[str, Misconception] = {}
TOKEN = 2 * 3 * 4 * 24 * 4
numbers = recorder(ALL, f"{L4}/numbers")


@numbers(
    "one-layer-for-all",
    "One layer counted instead of all three",
    "Every layer has keys and values of its own for each token: what one layer reads there, no other layer can use.",
    NUMBERS,
)
def one_layer_for_all(case: Case) -> bool:
    return one_of(case, bytes_per_token=(TOKEN // 3,), bytes_copied=(16 * TOKEN // 3,))


@numbers(
    "half-counted",
    "Only half is counted",
    "A token leaves two vectors in each layer and head, a key and a value: the 2 at the front of the formula. And a 32-bit number has 4 bytes; 2 would be 16 bits.",
    NUMBERS,
)
def half_counted(case: Case) -> bool:
    return one_of(case, bytes_per_token=(TOKEN // 2,))


@numbers(
    "one-head-for-all",
    "One head counted instead of all four",
    "Each of the four heads keeps 24 numbers of its own for a key, and as many for a value.",
    NUMBERS,
)
def one_head_for_all(case: Case) -> bool:
    return one_of(case, bytes_per_token=(TOKEN // 4,))


@numbers(
    "position-for-slot",
    "The position taken for the slot",
    "The position says where a token stands in the text. Where it lies in the pool is another matter: the table says in which block, and only the place within the block is the same.",
    NUMBERS,
)
def position_for_slot(case: Case) -> bool:
    return one_of(case, slot=(20, 21))


@numbers(
    "slots-counted-from-one",
    "Slots counted from 1",
    "Positions, blocks and places are all counted from 0: the token at position 20 is the twenty-first, and its place in the second block is 4.",
    NUMBERS,
)
def slots_counted_from_one(case: Case) -> bool:
    return one_of(case, slot=(2 * 16 + 5,))


@numbers(
    "place-for-slot",
    "The block is forgotten",
    "The place within a block is only the second half of an address; sixteen slots lie in front of each block with a number one higher.",
    NUMBERS,
)
def place_for_slot(case: Case) -> bool:
    return one_of(case, slot=(4,))


@numbers(
    "filled-slots-copied",
    "Only the filled slots copied",
    "The manager's copy is a whole block: one operation of one size, whatever is in it. What stands in the empty slots is copied along and never read.",
    COPY,
)
def filled_slots_copied(case: Case) -> bool:
    return one_of(case, bytes_copied=(5 * TOKEN, TOKEN))


@numbers(
    "samples-do-not-share",
    "Every sample stores the prompt",
    "The prompt's two full blocks are in the pool once, and all four tables point at them. Only what comes behind them is multiplied by four.",
    NUMBERS,
)
def samples_do_not_share(case: Case) -> bool:
    return one_of(case, bytes_in_use=(4 * 4 * 16 * TOKEN, 4 * 64 * TOKEN))


@numbers(
    "tokens-without-slack",
    "Tokens counted instead of blocks",
    "Memory is taken by the block. Multiply the blocks in use by the bytes of a block.",
    NUMBERS,
)
def tokens_without_slack(case: Case) -> bool:
    return one_of(case, bytes_in_use=((40 + 4 * 24) * TOKEN, (32 + 4 * 32) * TOKEN // 16, 10 * TOKEN, 10))
