"""Mistakes in the numbers that a reader works out: each recogniser knows likely wrong answers to the exercise's questions.

A case has the question's key for its arguments. The wrong answers stand here as the sums that give them.
"""

from __future__ import annotations

from autograder.misconceptions.base import Misconception, recorder
from autograder.misconceptions.functions import L1, L2, L3, PAGED, WORKED
from autograder.misconceptions.prefixes import IDEA, SAFE, SEE
from autograder.promises.functions import Case

PREDICT = "Predict first"
PARALLEL = "Hands-on: parallel sampling"
CODE_6 = "Code 6: how much of a prompt is there already"

ALL: dict[str, Misconception] = {}


def one_of(case: Case, **likely: tuple) -> bool:
    """Whether the answer to the case's question is one of the likely ones, to two digits."""
    value = case.value
    return case.outcome.error is None and type(value) in (int, float) and any(abs(value - wrong) < 0.006 for wrong in likely.get(case.args, ()))


# ---- lesson 01, numbers: 100 tokens in blocks of 16 ------------------------------------------------------------

EMPTY = -100 % 16
first = recorder(ALL, f"{L1}/numbers")


@first(
    "hundred-rounded-down",
    "The partly filled block is forgotten",
    "Six blocks hold 96 tokens. The other four have to be stored too: they take one more block, whole, and most of its slots are empty.",
    WORKED,
    clear=lambda case: case.args in ("blocks", "slots"),
)
def hundred_rounded_down(case: Case) -> bool:
    return one_of(case, blocks=(100 // 16,), slots=(96,), slack=(0, 4, -4), slack_percent=(0, 100 * 4 / 96, 100 * 4 / 100))


@first(
    "tokens-for-slots",
    "Tokens taken for slots",
    "A slot is room for a token, filled or not. Blocks are taken whole, so the slots are blocks × 16, and there are more of them than tokens.",
    PAGED,
    clear=lambda case: case.args in ("blocks", "slots"),
)
def tokens_for_slots(case: Case) -> bool:
    return one_of(case, blocks=(100 / 16,), slots=(100,), slack=(0,), slack_percent=(0,))


@first(
    "tokens-in-the-last-block-for-slack",
    "The tokens in the last block taken for the slack",
    "The remainder of 100 ÷ 16 is what the last block holds. Slack is what it does not hold.",
    WORKED,
    clear=lambda case: case.args == "slack",
)
def tokens_in_the_last_block_for_slack(case: Case) -> bool:
    return one_of(case, slack=(100 % 16,), slack_percent=(100 * 4 / (100 + EMPTY), 100 * 4 / 16, 100 * 4 / 100))


@first(
    "percent-of-the-tokens",
    "The slack in percent of the tokens",
    "A percentage needs its denominator. The question is what share of the allocated slots is empty: divide by the slots, not by the tokens.",
    PAGED,
)
def percent_of_the_tokens(case: Case) -> bool:
    return one_of(case, slack_percent=(100 * EMPTY / 100,))


@first(
    "percent-of-one-block",
    "The slack in percent of one block",
    "The slack lies in the last block, but the allocation is all the blocks. Divide by the slots of all of them.",
    PAGED,
)
def percent_of_one_block(case: Case) -> bool:
    return one_of(case, slack_percent=(100 * EMPTY / 16,))


@first(
    "fraction-for-percent",
    "A fraction instead of percent",
    "The two say the same, but the question asks for percent, from 0 to 100.",
    WORKED,
)
def fraction_for_percent(case: Case) -> bool:
    return type(case.value) is float and abs(case.value - EMPTY / (100 + EMPTY)) < 0.006 and case.args == "slack_percent"


@first(
    "percent-filled",
    "The filled share instead of the empty one",
    "Tokens divided by slots is what is used. The slack is the rest of the 100 %.",
    WORKED,
)
def percent_filled(case: Case) -> bool:
    return one_of(case, slack_percent=(100 * 100 / (100 + EMPTY),))


# ---- lesson 01, holes: 96 slots, 16–31 and 64–79 occupied ------------------------------------------------------

holes = recorder(ALL, f"{L1}/holes")


@holes(
    "ends-not-counted",
    "Slots 16 to 31 counted as 15",
    "From 16 to 31, both included, there are 16 slots: the difference of the numbers leaves out one end.",
    WORKED,
)
def ends_not_counted(case: Case) -> bool:
    return one_of(case, total_free=(96 - 2 * 15,), largest_contiguous=(64 - 31, 63 - 32), largest_paged=(96 - 2 * 15,))


@holes(
    "occupied-for-free",
    "The occupied slots instead of the free ones",
    "Two runs of 16 are taken. What is free is the rest of the 96.",
    WORKED,
)
def occupied_for_free(case: Case) -> bool:
    return one_of(case, total_free=(2 * 16,))


@holes(
    "free-is-not-one-hole",
    "All free slots taken for one hole",
    "The free slots are three separate runs. A contiguous request needs neighbours, so only the longest run counts.",
    WORKED,
)
def free_is_not_one_hole(case: Case) -> bool:
    return one_of(case, largest_contiguous=(96 - 2 * 16,))


@holes(
    "first-run-only",
    "The first run taken for the longest",
    "The run before the first occupied slot has 16 slots. The one between the two occupied runs is longer.",
    WORKED,
)
def first_run_only(case: Case) -> bool:
    return one_of(case, largest_contiguous=(16,))


@holes(
    "pages-need-no-neighbours",
    "A paged request held to neighbouring blocks",
    "In a paged pool the table says where each block lies, so any free block will do and all free slots count.",
    PAGED,
)
def pages_need_no_neighbours(case: Case) -> bool:
    return one_of(case, largest_paged=(64 - 32, 16))


@holes(
    "blocks-for-tokens",
    "Blocks counted instead of tokens",
    "Four blocks are free. The question is how many tokens they take, 16 in each.",
    WORKED,
)
def blocks_for_tokens(case: Case) -> bool:
    return one_of(case, largest_paged=((96 - 32) / 16,))


# ---- lesson 02, numbers: three requests of 40 + 20 tokens ------------------------------------------------------

second = recorder(ALL, f"{L2}/numbers")


@second(
    "sixty-rounded-down",
    "Each request rounded down",
    "60 tokens fill three blocks of 16 and leave 12 tokens over. They take one more block, in each of the three requests.",
    SEE,
    clear=lambda case: case.args == "without",
)
def sixty_rounded_down(case: Case) -> bool:
    return one_of(case, without=(3 * (60 // 16),), with_sharing=(2 + 3 * (28 // 16),))


@second(
    "everybody-saves",
    "Every request thought to save the shared blocks",
    "One copy of the prefix must be there, and the first request holds it. Each request after the first saves the full shared blocks; a single one saves nothing.",
    PREDICT,
    clear=lambda case: case.args == "saved_one_request",
)
def everybody_saves(case: Case) -> bool:
    return one_of(case, with_sharing=(3 * (60 // 16 + 1) - 3 * 2,), saved=(3 * 2,), saved_one_request=(2,))


@second(
    "tokens-saved-for-blocks",
    "Saved tokens counted instead of blocks",
    "Memory is saved in whole blocks. Of the 40 common tokens 32 fill blocks; the other eight are stored by every request and save nothing.",
    IDEA,
)
def tokens_saved_for_blocks(case: Case) -> bool:
    return one_of(case, saved=(2 * 40, 2 * 32, 2 * 40 / 16), saved_one_request=(40, 32))


@second(
    "saved-by-one-request",
    "The saving of one request only",
    "One request holds the prefix's full blocks, and each of the others leaves its copy away, not just one of them.",
    PREDICT,
)
def saved_by_one_request(case: Case) -> bool:
    return one_of(case, saved=(40 // 16,))


@second(
    "one-request-for-three",
    "One request counted, not three",
    "Four blocks hold one request. There are three of them, and without sharing each has its own.",
    SEE,
)
def one_request_for_three(case: Case) -> bool:
    return one_of(case, without=(60 // 16 + 1,))


# ---- lesson 02, understanding ----------------------------------------------------------------------------------

understanding = recorder(ALL, f"{L2}/understanding")


@understanding(
    "same-text-same-cache",
    "The same text taken for the same cache",
    "A cache does not hold text, it holds what one model's weights made of it. Unrelated models make other keys and values of the same words.",
    SAFE,
)
def same_text_same_cache(case: Case) -> bool:
    return one_of(case, unrelated_models=(1,))


@understanding(
    "nearly-full-is-shared",
    "A nearly full block counted as shared",
    "47 tokens leave one slot of the third block empty, and each request writes its own token there. Nearly full is not full.",
    IDEA,
)
def nearly_full_is_shared(case: Case) -> bool:
    return one_of(case, shared_of_47=(47 // 16 + 1,))


@understanding(
    "whole-prompt-matched",
    "The whole prompt matched",
    "If all four blocks were matched nothing would be left to compute, and the answer's first token comes from computing the prompt's last one. So the last block may not be matched.",
    CODE_6,
)
def whole_prompt_matched(case: Case) -> bool:
    return one_of(case, matched_of_64=(64 // 16,))


@understanding(
    "matched-in-tokens",
    "Matched tokens instead of blocks",
    "63 tokens may be matched at most, but matching goes by whole blocks, and the last one cannot be matched in part.",
    CODE_6,
)
def matched_in_tokens(case: Case) -> bool:
    return one_of(case, matched_of_64=(64 - 1, 3 * 16, 63 / 16))


# ---- lesson 03, numbers: four samples of 2,005 + 300 tokens ----------------------------------------------------

third = recorder(ALL, f"{L3}/numbers")


@third(
    "samples-rounded-down",
    "Each sample rounded down",
    "2,305 tokens leave one over behind 144 full blocks, and that one takes a block too, in each of the four samples.",
    PARALLEL,
    clear=lambda case: case.args == "without",
)
def samples_rounded_down(case: Case) -> bool:
    return one_of(case, without=(4 * (2305 // 16),), with_sharing=(125 + 4 * (305 // 16),))


@third(
    "samples-added-then-rounded",
    "Rounded up after adding",
    "Four samples are four tables, and nobody puts tokens into another's block. Round up for each sample, then add.",
    PARALLEL,
)
def samples_added_then_rounded(case: Case) -> bool:
    return one_of(case, without=(4 * 2305 // 16 + 1,))


@third(
    "tail-shared-for-good",
    "The partly filled block counted as shared for good",
    "After the fork all four share it, but each writes into it. In the end every sample has its own version: only the 125 full blocks are still shared.",
    PARALLEL,
)
def tail_shared_for_good(case: Case) -> bool:
    return one_of(case, with_sharing=(126 + 4 * ((2305 - 126 * 16) // 16 + 1),))


@third(
    "new-tokens-only",
    "Only the new tokens counted for each sample",
    "The first new tokens do not start a block: five prompt tokens stand before them, in a block that each sample has for itself in the end. So more than 300 tokens are its own.",
    PARALLEL,
)
def new_tokens_only(case: Case) -> bool:
    return one_of(case, with_sharing=(125 + 4 * (300 // 16 + 1),))


@third(
    "every-sample-copies",
    "Every sample thought to copy",
    "Whoever writes while there are other owners copies. The last one is alone by then and writes in place: n owners make n − 1 copies.",
    PARALLEL,
)
def every_sample_copies(case: Case) -> bool:
    return one_of(case, copies=(4,))


@third(
    "one-copy-for-all",
    "One copy thought to be enough",
    "Each writer needs a block that nobody else reads. After the first copy the other owners still share the old block, and the next to write has to copy again.",
    PARALLEL,
)
def one_copy_for_all(case: Case) -> bool:
    return one_of(case, copies=(1,))


@third(
    "full-blocks-copied",
    "The full blocks thought to be copied",
    "A full block is never written again, so it is never copied. Only the one partly filled block is, once for each writer that is not alone.",
    IDEA,
)
def full_blocks_copied(case: Case) -> bool:
    return one_of(case, copies=(3 * 125, 4 * 125, 3 * 126, 4 * 126, 125, 126))


@third(
    "fork-never-copied",
    "No copy thought to be needed",
    "That is right for a prompt that ends at a block's end. 2,005 tokens leave five in a shared block, and whoever writes into it while others read it has to copy.",
    PARALLEL,
)
def fork_never_copied(case: Case) -> bool:
    return one_of(case, copies=(0,))
