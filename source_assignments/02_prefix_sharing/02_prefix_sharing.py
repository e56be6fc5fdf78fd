# ---
# jupyter:
#   jupytext:
#     cell_markers: '"""'
#     notebook_metadata_filter: kernelspec
#     text_representation:
#       extension: .py
#       format_name: percent
#       format_version: '1.3'
#       jupytext_version: 1.19.6
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
"""
# Lesson 2: Prefix sharing

Many [requests](../../book/glossary.md#term-request) to a language model begin alike: the same system [prompt](../../book/glossary.md#term-prompt), the same examples, the same document. Their keys
and values for that beginning are the same numbers. A paged cache can hold them **once** and let every [block table](../../book/glossary.md#term-block-table) point
at them.

**What you will build.** Six small functions. The first three say how many [blocks](../../book/glossary.md#term-block) sharing saves. The fourth says when
two blocks may be shared at all. The last two, `block_keys` and `match_prefix`, find a common [prefix](../../book/glossary.md#term-prefix) without being told
that there is one; at the end you feed them four prompts and see your own prefix cache fill a pool.

**Time.** About 90 minutes. **You need** [lesson 1](../01_contiguous_vs_paged/01_contiguous_vs_paged.ipynb): blocks,
block tables, [slack](../../book/glossary.md#term-slack). The words used here are in the [glossary](../../book/glossary.md). There is no model and no GPU in
this lesson, only counting.
"""

# %%
from types import SimpleNamespace

from autograder import ask, check, draw, predict, predicted, predictions, simulate

# %% [markdown]
"""
## The idea

A **prefix** of a request is a stretch of its [tokens](../../book/glossary.md#term-token) that starts at the first one. When two requests have a prefix in
common, the model computes the same K and V for it in both, because K and V at a position depend on three things only:

- the model and its weights,
- the tokens up to and including that position ([attention](../../book/glossary.md#term-attention) never looks ahead),
- the position itself.

So the blocks that hold the common prefix would be copies of one another. In a paged cache no copy is needed. A block
table is a list of [physical block](../../book/glossary.md#term-physical-block) numbers, and nothing forbids that two lists name the same block. The block then
carries a **[reference count](../../book/glossary.md#term-reference-count)** of 2: how many table entries point at it.

One restriction decides all the arithmetic of this lesson: **only [full blocks](../../book/glossary.md#term-full-block) of the prefix are shared.** The last,
[partly filled block](../../book/glossary.md#term-partly-filled-block) of the prefix still has empty [slots](../../book/glossary.md#term-slot). Each request is about to write its own next token into the
first of them, and one slot cannot hold two different tokens. A full block has no slot left to write into, so nobody
will ever change it.

The next cell defines `pool`, which only turns block tables that we write out by hand into something to draw.
"""

# %%
def pool(num_blocks, tables, block_size=16):
    """A pool to look at, from tables written out by hand: name → (physical blocks, number of tokens)."""
    counts = {}
    for blocks, _ in tables.values():
        for block in blocks:
            counts[block] = counts.get(block, 0) + 1
    return SimpleNamespace(
        num_blocks=num_blocks,
        block_size=block_size,
        free=sorted(set(range(num_blocks)) - set(counts)),
        ref=counts,
        seqs={name: {"blocks": blocks, "len": tokens} for name, (blocks, tokens) in tables.items()},
    )

# %% mystnb={"image": {"alt": "Two requests, A and B. Their tables both begin with blocks 0 and 1, which are hatched and counted twice. Block 2 belongs to A alone, block 3 to B alone; half of each is empty."}}
draw.blocks(pool(6, {"A": ([0, 1, 2], 40), "B": ([0, 1, 3], 40)}), title="Two requests of 40 tokens, the first 32 alike")

# %% [markdown]
"""
*Figure 1. A and B have 40 tokens each and the first 32 in common. Blocks #0 and #1 are full of common tokens: both
tables name them, their count is 2. The eight tokens that differ sit in a block of their own, #2 for A and #3 for B.
Four blocks hold what would take six.*

## See it: 32 tokens in common, three requests, 20 tokens of their own

These are the numbers to keep in mind throughout the lesson: a prefix of **32** tokens, **3** requests, **20** tokens
of its own for each, blocks of **16**. Every request has 32 + 20 = 52 tokens.

First without sharing. Each request gets a table of its own and every block has one [owner](../../book/glossary.md#term-owner):
"""

# %% mystnb={"image": {"alt": "Without sharing: three tables of four blocks each, no block in two tables, 12 blocks in use. The last block of each request is filled to a quarter."}}
draw.blocks(pool(12, {"A": ([0, 1, 2, 3], 52), "B": ([4, 5, 6, 7], 52), "C": ([8, 9, 10, 11], 52)}), title="Without sharing: 3 × 4 = 12 blocks")

# %% [markdown]
"""
*Figure 2. Without sharing. 52 tokens need four blocks of 16, the last of them with 4 tokens and 12 slots of slack.
Three requests: 3 × 4 = 12 blocks. Blocks #0, #4 and #8 hold the same numbers, and so do #1, #5 and #9.*

Now with sharing. The 32 common tokens fill exactly two blocks, and all three tables begin with them:
"""

# %% mystnb={"image": {"alt": "With sharing: the three tables all begin with blocks 0 and 1, counted three times each. Two more blocks for each request. 8 blocks in use, 4 free."}}
draw.blocks(pool(12, {"A": ([0, 1, 2, 3], 52), "B": ([0, 1, 4, 5], 52), "C": ([0, 1, 6, 7], 52)}), title="With sharing: 2 + 3 × 2 = 8 blocks")

# %% [markdown]
"""
*Figure 3. With sharing. Two full blocks of prefix, once, with a count of 3 each; then 20 tokens in two blocks for each
request. 2 + 3 × 2 = 8 blocks, so 4 of 12 are saved.*

Look at what did **not** change. Every table still has four entries, because every request still has 52 tokens. The
model reads the same K and V through them as before. Only the number of *different* blocks behind the entries went down.

Now with numbers of your own. Move the three sliders (or type into the fields beside them) and watch the two sums. Two things to
try: make the prefix one token longer until the saving jumps, and then double the requests.
"""

# %% tags=["remove-input"]
simulate.prefix()

# %% [markdown]
"""
In the notebook you can also edit the tables in the two cells above and run them again: let B and C share one more block, and ask
yourself whether the picture you get could hold three requests that differ in their own tokens.

## Predict first

Commit your answer before you look at anything. A [prediction](../../book/glossary.md#term-prediction) that turned out wrong is worth more than a table that was
merely read.

**Prediction 1.** The prefix loses one token: **31** in common, still 3 requests with 20 tokens of their own, block 16.
How many blocks with sharing?
"""

# %% tags=["remove-input"]
predict("one-token-less")

# %% [markdown]
"""
**Prediction 2.** Back to 32 in common, but **six** requests instead of three. Three requests saved 4 blocks. How many
do six save?
"""

# %% tags=["remove-input"]
predict("six-requests")

# %% [markdown]
"""
**Prediction 3.** 32 in common, 3 requests, but **200** tokens of their own instead of 20. How many blocks are saved,
and what share of the blocks without sharing is that?
"""

# %% tags=["remove-input"]
predict("200-own")

# %% [markdown]
"""
The picture to prediction 1:
"""

# %% mystnb={"image": {"alt": "A prefix of 31 tokens: only block 0 is shared by all three tables. Each request has three blocks of its own. 10 blocks in use."}}
predicted("one-token-less")
draw.blocks(pool(12, {"A": ([0, 1, 2, 3], 51), "B": ([0, 4, 5, 6], 51), "C": ([0, 7, 8, 9], 51)}), title="31 tokens in common: 1 + 3 × 3 = 10 blocks")

# %% [markdown]
"""
*Figure 4. The pool of prediction 1. Count the shared blocks, then look at the blocks behind them: each begins with the
same 15 tokens and ends with a different one, so they are nearly, and therefore not, the same.*

## Hands-on: the numbers

In Figures 2 and 3 go through the three numbers once more with a finger on the blocks: 12, 8, 4. Then do it on paper
for a longer prefix:

- a common prefix of **40** tokens, **3** requests, **20** tokens of their own, blocks of **16**: blocks `without`
  sharing, blocks `with_sharing`, blocks `saved`;
- the same prefix of 40 and **1** request: `saved_one_request`.

Replace each `None` by your number. Delete the line that raises, if there is one.
"""

# %% nbgrader={"grade": false, "grade_id": "numbers", "locked": false, "schema_version": 3, "solution": true, "task": false}
numbers = {"without": None, "with_sharing": None, "saved": None, "saved_one_request": None}    # replace each None by your number
### BEGIN SOLUTION
numbers = {"without": 12, "with_sharing": 8, "saved": 4, "saved_one_request": 0}
### END SOLUTION

# %% nbgrader={"grade": true, "grade_id": "numbers-checks", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
check("02_prefix_sharing/numbers", numbers)
### BEGIN HIDDEN TESTS
check("02_prefix_sharing/numbers", numbers, thorough=True)
### END HIDDEN TESTS

# %% [markdown]
"""
Compare your three numbers with 12, 8 and 4, the numbers for a prefix of 32. What changed, what didn't, and why?
"""

# %% tags=["remove-input"]
ask("40-against-32")

# %% [markdown]
"""
## Worked example: three requests of different lengths

A system prompt of 100 tokens; three requests with 110, 130 and 164 tokens **in total**, the prompt included; blocks of
16. Equal lengths made the sums above short, nothing needs them.

| step | | blocks |
| --- | --- | --- |
| full blocks in the prefix | 100 tokens fill 6 blocks (96 tokens); 4 tokens are left over | 6 |
| without sharing | 110 → 7, 130 → 9, 164 → 11 | **27** |
| what each request keeps for itself | 110 − 96 = **14**, 130 − 96 = **34**, 164 − 96 = **68** tokens | |
| blocks for that | 14 → 1, 34 → 3, 68 → 5 | 9 |
| with sharing | 6 once, and 9 | **15** |
| saved | 27 − 15 | **12** |

Note that a request keeps its total minus **96**, not minus 100: the 4 tokens of the partly filled prefix block are
each request's own business. And 12 is 2 × 6: the second and the third request each drop six blocks.

**Now fade the example.** A prefix of 75 tokens, totals 80, 91 and 75, blocks of 16. Fill the dots.

| step | | blocks |
| --- | --- | --- |
| full blocks in the prefix | 75 tokens fill … blocks (64 tokens); … tokens are left over | … |
| without sharing | 80 → …, 91 → 6, 75 → … | … |
| what each request keeps for itself | 80 − 64 = …, 91 − … = …, … − … = … tokens | |
| blocks for that | … | … |
| with sharing | … once, and … | … |
| saved | … | … |
"""

# %% tags=["remove-input"]
ask("fade-75")

# %% [markdown]
"""
## Code 1: how many blocks can be shared

**[Promise](../../book/glossary.md#term-promise).** `full_shared_blocks(prefix_len, block)` returns how many blocks lie wholly inside a common prefix of
`prefix_len` tokens. Both are whole numbers, `prefix_len` 0 or more, `block` 1 or more.
"""

# %% nbgrader={"grade": false, "grade_id": "full_shared_blocks", "locked": false, "schema_version": 3, "solution": true, "task": false}
def full_shared_blocks(prefix_len, block):
    """How many blocks of size `block` a prefix of `prefix_len` tokens fills completely. Roughly 1 line."""
    ### BEGIN SOLUTION
    return prefix_len // block
    ### END SOLUTION

# %% nbgrader={"grade": true, "grade_id": "full_shared_blocks-checks", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
check("02_prefix_sharing/full_shared_blocks", full_shared_blocks)
### BEGIN HIDDEN TESTS
check("02_prefix_sharing/full_shared_blocks", full_shared_blocks, thorough=True)
### END HIDDEN TESTS

# %% [markdown]
"""
Your function, drawn for prefixes up to 80 tokens, just before and at every multiple of 16:
"""

# %% mystnb={"image": {"alt": "A staircase for each block size. At block 16 the number of shared blocks rises by one at every multiple of 16; at block 32 it rises half as often."}}
prefixes = [prefix for prefix in range(81) if prefix % 16 in (0, 15)]
draw.savings(
    prefixes,
    {f"block {block}": [full_shared_blocks(prefix, block) for prefix in prefixes] for block in (16, 32)},
    xlabel="common prefix, tokens",
    ylabel="full shared blocks",
)

# %% [markdown]
"""
*Figure 5. What can be shared grows in stairs. A step comes where the prefix reaches a multiple of the [block size](../../book/glossary.md#term-block-size);
between two steps a longer prefix shares nothing more. Larger blocks have longer stairs, so they lose more tokens at
the end of the prefix: at most one less than the block size.*

## Code 2: the bill without sharing

**Promise.** `blocks_without_sharing(totals, block)` returns the number of blocks that requests of these total lengths
need when each has every block to itself. `totals` is a list of token counts; for an empty list the answer is 0.

This is the `blocks_needed` of lesson 1, summed. Write the rounding anew here or copy your own function into the cell.
"""

# %% nbgrader={"grade": false, "grade_id": "blocks_without_sharing", "locked": false, "schema_version": 3, "solution": true, "task": false}
def blocks_without_sharing(totals, block):
    """Blocks for requests of these total lengths, nothing shared; 0 for an empty list. Roughly 1 line."""
    ### BEGIN SOLUTION
    return sum(-(-total // block) for total in totals)
    ### END SOLUTION

# %% nbgrader={"grade": true, "grade_id": "blocks_without_sharing-checks", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
check("02_prefix_sharing/blocks_without_sharing", blocks_without_sharing)
### BEGIN HIDDEN TESTS
check("02_prefix_sharing/blocks_without_sharing", blocks_without_sharing, thorough=True)
### END HIDDEN TESTS

# %% [markdown]
"""
The three requests of Figure 2 and the three of the worked example: 12 and 27.
"""

# %%
blocks_without_sharing([52, 52, 52], 16), blocks_without_sharing([110, 130, 164], 16)

# %% [markdown]
"""
## Code 3: the bill with sharing

**Promise.** `blocks_with_sharing(prefix_len, totals, block)` returns the number of different blocks in use when all
requests share the full blocks of a common prefix. The full blocks count once. Each request then needs blocks for the
tokens it keeps for itself: its total, less the tokens in the full shared blocks. `totals` is a list that is not empty;
each total is at least `prefix_len`.

The worked example is the recipe. Your first two functions do most of the work.
"""

# %% nbgrader={"grade": false, "grade_id": "blocks_with_sharing", "locked": false, "schema_version": 3, "solution": true, "task": false}
def blocks_with_sharing(prefix_len, totals, block):
    """Blocks for requests that share the full blocks of one prefix. Roughly 3 lines.

    - count the full blocks of the prefix, once;
    - take the tokens in them off each total;
    - add the blocks for what is left.
    """
    ### BEGIN SOLUTION
    shared = full_shared_blocks(prefix_len, block)
    own = [total - shared * block for total in totals]
    return shared + blocks_without_sharing(own, block)
    ### END SOLUTION

# %% nbgrader={"grade": true, "grade_id": "blocks_with_sharing-checks", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
check("02_prefix_sharing/blocks_with_sharing", blocks_with_sharing)
### BEGIN HIDDEN TESTS
check("02_prefix_sharing/blocks_with_sharing", blocks_with_sharing, thorough=True)
### END HIDDEN TESTS

# %% [markdown]
"""
From here on your own functions draw the pool. `shared_pool` lays the tables out as your three functions count them: the
shared blocks first, then as many blocks for each request as your functions say it needs. Change the prefix, the
totals or the block size and run the cell again.
"""

# %% mystnb={"image": {"alt": "The worked example drawn by the reader's functions: six blocks shared by three tables, then one, three and five blocks of their own. 15 blocks in use."}}
def shared_pool(prefix_len, totals, block=16):
    """A pool of requests A, B, C … as long as `totals`, with the sharing that the functions above work out."""
    shared = full_shared_blocks(prefix_len, block)
    tables, following = {}, shared
    for name, total in zip("ABCDEFGH", totals):
        own = blocks_with_sharing(prefix_len, [total], block) - shared
        tables[name] = (list(range(shared)) + list(range(following, following + own)), total)
        following += own
    return pool(following, tables, block)


draw.blocks(shared_pool(100, [110, 130, 164]), title="A prefix of 100, totals 110, 130, 164")

# %% [markdown]
"""
*Figure 6. The worked example, drawn by your functions: 6 blocks with a count of 3, then 1 + 3 + 5 blocks with one
owner each, 15 in all. The four tokens of the prefix that fill no block are stored three times.*

## What it is worth: the savings curve

The PagedAttention paper measures a saving as *blocks saved by sharing ÷ blocks without sharing* (Kwon et al. 2023,
section 6.3). The next figure draws that share against the number of requests, for three prefixes: the 32 tokens from
above, and the 80 and 341 tokens of the paper's own shared prefixes (the WMT16 translation
experiment, section 6.4). Every request has 20 tokens of its own; that number is ours, not the paper's.

**Predict first.** Which saves the larger share: a prefix of 32 with **1,000** requests, or a prefix of 341 with **4**?
"""

# %% tags=["remove-input"]
predict("crowd-or-length")

# %% mystnb={"image": {"alt": "Share of blocks saved against the number of requests, three prefixes. All curves start at zero for one request, rise steeply to about eight requests and flatten: below 50 percent for a prefix of 32, below 71.4 for 80, below 91.3 for 341."}}
def saved_percent(prefix_len, requests, own=20, block=16):
    """Blocks saved by sharing, in percent of the blocks without it, for requests of equal length."""
    predicted("crowd-or-length")
    totals = [prefix_len + own] * requests
    without = blocks_without_sharing(totals, block)
    return 100 * (without - blocks_with_sharing(prefix_len, totals, block)) / without


requests = range(1, 33)
draw.savings(
    requests,
    {f"prefix {prefix}": [saved_percent(prefix, n) for n in requests] for prefix in (32, 80, 341)},
    xlabel="requests that share the prefix",
    ylabel="blocks saved, % of those without sharing",
)

# %% [markdown]
"""
*Figure 7. One request saves nothing; the first few save the most; then the curve flattens. Its ceiling is the share of
one request's blocks that lie in the prefix: 2 of 4 (50 %), 5 of 7 (71.4 %), 21 of 23 (91.3 %). Computed by your
functions, blocks of 16, 20 own tokens.*

Blocks saved are room for more requests, and room is what throughput is made of. For these prefixes the paper reports,
with LLaMA-13B, 1.67 times the throughput of its baseline Orca (Oracle) at 80 tokens and 3.58 times at 341 tokens
(section 6.4). That is a different quantity from the share of blocks, and the baseline lacks [paging](../../book/glossary.md#term-paging) too, so we do not
draw it into the figure. Prefixes that are shared also need not be *computed* again; the throughput has that in it.

In bytes: for Llama-3-8B a block of 16 tokens is 2 MiB of K and V over all layers (128 KiB a token, lesson 1). Sixteen
requests behind a 341-token prefix save 15 × 21 = 315 blocks, 630 MiB.

## When is it safe? Model, tokens, position

So far somebody told us that the prefixes were equal. An engine must find out, and a mistake is silent: a wrong block
raises no error, it makes the model continue somebody else's text.

K and V in a block are the same only if all of these are:

- **the model and its weights.** The token ids may be equal, the text on the screen may be equal; another model turns
  them into other vectors. The same holds for a fine-tuned copy, for another adapter on the same base model, for
  another number format.
- **the token ids of the block.** Ids, not characters: the same text can be cut into tokens in more than one way.
- **the position.** K carries the position of its token (rotary embeddings turn it by an angle that depends on it). The
  same 16 tokens at position 0 and at position 32 have different K.

## Code 4: may two blocks be one?

**Promise.** `can_share(a, b)` compares two descriptions of a block, dicts with exactly the keys `model` (a string),
`tokens` (a list of ids) and `start` (the position of the first token). It returns True only if all three are equal,
else False.
"""

# %% nbgrader={"grade": false, "grade_id": "can_share", "locked": false, "schema_version": 3, "solution": true, "task": false}
def can_share(a, b):
    """True if model, tokens and start are all equal, else False. Roughly 1 line."""
    ### BEGIN SOLUTION
    return all(a[key] == b[key] for key in ("model", "tokens", "start"))
    ### END SOLUTION

# %% nbgrader={"grade": true, "grade_id": "can_share-checks", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
check("02_prefix_sharing/can_share", can_share)
### BEGIN HIDDEN TESTS
check("02_prefix_sharing/can_share", can_share, thorough=True)
### END HIDDEN TESTS

# %% [markdown]
"""
Four neighbours of one block, judged by your function. Before you run it, say for each whether it may be shared.
"""

# %%
ours = {"model": "small-1", "tokens": list(range(100, 116)), "start": 32}
for what, other in {
    "the same once more": {"model": "small-1", "tokens": list(range(100, 116)), "start": 32},
    "its last token differs": {"model": "small-1", "tokens": [*range(100, 115), 7], "start": 32},
    "one block earlier": {"model": "small-1", "tokens": list(range(100, 116)), "start": 16},
    "fine-tuned weights": {"model": "small-1-tuned", "tokens": list(range(100, 116)), "start": 32},
}.items():
    print(f"{what:24}{'share' if can_share(ours, other) else 'do not share'}")

# %% [markdown]
"""
## The fourth condition, which a block does not know about itself

**Predict first.** Two blocks with the same model, the same tokens and the same start. May they *always* be shared?
"""

# %% tags=["remove-input"]
predict("always-shared")

# %% [markdown]
"""
A toy of two layers makes it visible. It has one number for a vector, and attention that is a plain average of all
tokens so far:
"""

# %%
def toy_keys(tokens):
    """Keys of a two-layer toy model, one number a token: layer 1 sees token and position, layer 2 an average of layer 1."""
    first, second, total = [], [], 0.0
    for position, token in enumerate(tokens):
        first.append(round(token + position / 10, 2))
        total += first[-1]
        second.append(round(total / (position + 1), 2))
    return first, second


for before in ([7, 7, 7, 7], [5, 5, 5, 5]):
    layer_1, layer_2 = toy_keys(before + [1, 2, 3, 4])
    print(f"after {before}: tokens [1, 2, 3, 4] have layer 1 {layer_1[4:]}   layer 2 {layer_2[4:]}")
layer_1, layer_2 = toy_keys([1, 2, 3, 4])
print(f"at position 0:      tokens [1, 2, 3, 4] have layer 1 {layer_1}   layer 2 {layer_2}")

# %% [markdown]
"""
The same four tokens three times. After two different beginnings layer 1 agrees and layer 2 does not. At another position
not even layer 1 agrees. A real model has dozens of layers above the first.

So a block must be identified by **everything up to its end**: the whole prefix, not its own 16 tokens. That is a gift.
If a block's name covers the whole prefix, then two equal names say at once that all earlier blocks are equal too, and
the position needs no extra care: the number of tokens before the block is part of what is named.

## Code 5: a key for each full block

**Promise.** `block_keys(tokens, block, model)` returns one key for each **full** block of `tokens`, in order. A key can
be anything hashable. Two keys, from one call or from two calls with the same block size, are equal **exactly if** the
model is the same and all tokens from the first one up to the end of their blocks are the same. Tokens after the last
full block have no key.

"Exactly" cuts both ways: equal prefixes must give equal keys, different prefixes must never do. Python's built-in
`hash` does not promise the second, so keep what you compare in the key itself rather than a number made from it.
"""

# %% nbgrader={"grade": false, "grade_id": "block_keys", "locked": false, "schema_version": 3, "solution": true, "task": false}
def block_keys(tokens, block, model):
    """One hashable key per full block, in order; each stands for the model and all tokens up to its block's end. Roughly 2 lines."""
    ### BEGIN SOLUTION
    ends = range(block, len(tokens) + 1, block)
    return [(model, *tokens[:end]) for end in ends]
    ### END SOLUTION

# %% nbgrader={"grade": true, "grade_id": "block_keys-checks", "locked": true, "points": 4, "schema_version": 3, "solution": false, "task": false}
check("02_prefix_sharing/block_keys", block_keys)
### BEGIN HIDDEN TESTS
check("02_prefix_sharing/block_keys", block_keys, thorough=True)
### END HIDDEN TESTS

# %% [markdown]
"""
Your keys of four prompts in blocks of 4, each held against those of the first. One character is one token here:
"""

# %%
first = "once upon a time"
for text, model in ((first, "small-1"), ("once upon a tide", "small-1"), ("Once upon a time", "small-1"), (first, "small-2")):
    pairs = zip(block_keys(list(first), 4, "small-1"), block_keys(list(text), 4, model))
    marks = ["same" if ours == theirs else "differs" for ours, theirs in pairs]
    print(f"{text:18}{model:9}", *(f"{mark:8}" for mark in marks))

# %% [markdown]
"""
Read the third line twice. Only the first letter differs, and yet not one block is the same, though twelve of the
sixteen characters stand in blocks with identical text. That is right, and it is why a prompt that begins with the
current time is never found in any prefix cache.

## Code 6: how much of a prompt is there already

**Promise.** `match_prefix(cached, keys)` returns how many leading keys are in `cached` before the first that is not.
`cached` is a set or a dict of keys, `keys` is a list as `block_keys` makes it.

The run must start at the front and must not have a [hole](../../book/glossary.md#term-hole): a prompt is computed from its first missing token on, so
engines make no use of a cached block behind a hole.
"""

# %% nbgrader={"grade": false, "grade_id": "match_prefix", "locked": false, "schema_version": 3, "solution": true, "task": false}
def match_prefix(cached, keys):
    """How many keys, from the front on, are in `cached` before the first that is not. Roughly 4 lines."""
    ### BEGIN SOLUTION
    for found, key in enumerate(keys):
        if key not in cached:
            return found
    return len(keys)
    ### END SOLUTION

# %% nbgrader={"grade": true, "grade_id": "match_prefix-checks", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
check("02_prefix_sharing/match_prefix", match_prefix)
### BEGIN HIDDEN TESTS
check("02_prefix_sharing/match_prefix", match_prefix, thorough=True)
### END HIDDEN TESTS

# %% [markdown]
"""
## Your own prefix cache

Now the pieces together. `serve` takes prompts one after the other. For each it asks your `block_keys` for the keys and
your `match_prefix` how many are known, points the new table at those blocks, adds fresh blocks for the rest, and
remembers the keys of all full blocks. Nobody tells it which prompts share what.

Four prompts, one character a token, blocks of 16: A, B and C begin with the same 56 characters, D differs from them in
its very first letter.

**Predict first.** A and B both go on with "Why is the sky blue", and only then part. Will B share more blocks with A
than C does?
"""

# %% tags=["remove-input"]
predict("sky-blue")

# %% mystnb={"image": {"alt": "A pool filled by the reader's functions. Blocks 0, 1 and 2 are counted three times, for A, B and C; block 3 twice, for A and B. D, which differs in its first letter, shares nothing. 14 blocks in use for 21 table entries."}}
predicted("sky-blue")
SYSTEM = "You are a librarian. Answer briefly, and name a source. "
PROMPTS = {
    "A": SYSTEM + "Why is the sky blue?",
    "B": SYSTEM + "Why is the sky blue at noon?",
    "C": SYSTEM + "Who invented paging?",
    "D": "y" + SYSTEM[1:] + "Why is the sky blue?",
}


def serve(prompts, block=16, model="small-1"):
    """Give every prompt a block table in one pool; a full block whose key is known is not stored again."""
    where, tables, following = {}, {}, 0
    for name, text in prompts.items():
        tokens = [ord(letter) for letter in text]
        keys = block_keys(tokens, block, model)
        table = [where[key] for key in keys[:match_prefix(where, keys)]]
        fresh = blocks_without_sharing([len(tokens)], block) - len(table)
        table += range(following, following + fresh)
        following += fresh
        where.update(zip(keys, table))
        tables[name] = (table, len(tokens))
    return pool(following, tables, block)


draw.blocks(serve(PROMPTS), title="Four prompts, served by your functions")

# %% [markdown]
"""
*Figure 8. Blocks #0 to #2 are full of the 56 common characters and have a count of 3. Block #3 holds the last 8 of
them and "Why is t": A and B agree on that, C does not. D begins with a small letter and shares nothing. 21 table
entries, 14 blocks.*

Swap the order of the prompts, or give each a time of day in front, and run the cell again.

One thing `serve` leaves out: an engine must keep **at least one token to compute**, even if every block of a prompt is
cached. The cache holds K and V, not the model's answer. To choose the next token the model needs the output at the last
position, and for that it must run at least the last token. With full blocks only, a prompt of 32 tokens whose two
blocks are both cached is therefore matched for one block, not for two: nothing less than the whole last block can be
left out.

## Free, and still findable

Until now all requests lived at the same time. The larger gain comes *after* a request has ended, when the next turn of
the same chat arrives. Engines get it by being slow to forget:

1. A request ends; the counts of its blocks fall. A block whose count reaches 0 is **free**: it may be handed out.
2. Nobody has written to it yet, though, and its key is still in the map. It is **also still findable**.
3. If a prompt with that key comes first, the block leaves the [free list](../../book/glossary.md#term-free-list), its count goes to 1: a [hit](../../book/glossary.md#term-hit), at no cost.
4. If a newcomer needs a block first, the block is handed out. Then, and only then, its **key must go**.

So "in use" and "cached" are different things, and keeping freed blocks findable takes no memory from anyone.

In which order should the freed blocks of one request be handed out? A key names a whole prefix, and `match_prefix` stops
at the first gap. So the choice matters a great deal:
"""

# %% mystnb={"image": {"alt": "Blocks that still match against blocks given up, for a prompt of eight blocks. Giving up the tail first loses one match per block. Giving up the head first loses all eight with the first block."}}
document = block_keys(list(range(128)), 16, "small-1")     # eight full blocks, all cached and free
given_up = range(9)
draw.savings(
    given_up,
    {
        "tail first": [match_prefix(set(document[:8 - n]), document) for n in given_up],
        "head first": [match_prefix(set(document[n:]), document) for n in given_up],
    },
    xlabel="blocks handed out to others, of eight",
    ylabel="blocks that still match",
)

# %% [markdown]
"""
*Figure 9. A freed prompt of eight cached blocks loses blocks to newcomers. [Tail](../../book/glossary.md#term-tail) first, each loss costs one block of the
match. Head first, the first loss costs all eight: seven blocks are still there and none is matched.*

That is why vLLM puts the blocks of a finished request on its free queue in **reverse** order, and why TensorRT-LLM
evicts the leaves of its tree of blocks.
"""

# %% [markdown]
"""
## Check your understanding

- `unrelated_models`: may two unrelated models reuse a block because the text in it looks identical? `True` or `False`.
- `shared_of_47`: a common prefix of 47 tokens, blocks of 16. How many blocks can be shared?
- `matched_of_64`: a prompt of 64 tokens, blocks of 16, and all four of its blocks are cached. How many blocks may an
  engine match that works with full blocks only and leaves at least one token to compute?
"""

# %% nbgrader={"grade": false, "grade_id": "understanding", "locked": false, "schema_version": 3, "solution": true, "task": false}
understanding = {"unrelated_models": None, "shared_of_47": None, "matched_of_64": None}    # replace each None by your answer
### BEGIN SOLUTION
understanding = {"unrelated_models": False, "shared_of_47": 2, "matched_of_64": 3}
### END SOLUTION

# %% nbgrader={"grade": true, "grade_id": "understanding-checks", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
check("02_prefix_sharing/understanding", understanding)
### BEGIN HIDDEN TESTS
check("02_prefix_sharing/understanding", understanding, thorough=True)
### END HIDDEN TESTS

# %% [markdown]
"""
## What people get wrong

**"It is the same text, so it is the same cache."** Wrong. A cache does not hold text. It holds what one set of weights
made of token ids at positions, after everything that came before. Another model, another adapter, another way to cut
the text into tokens, another beginning: other numbers, under the same words. Whoever reuses them gets no error, only a
model that reads vectors it did not write. The words are equal; the cache is not.

**"A long prefix is shared to its last token."** Wrong, for every engine that shares by blocks. The tokens after the last
full block are stored by each request itself, because their block also holds what comes next and that differs. The loss
is less than one block a request. TensorRT-LLM does reuse a partly matched block, and still does not share it: it
*copies* the block and lets the copy be written on.

**"A prefix cache needs [copy-on-write](../../book/glossary.md#term-copy-on-write)."** Wrong. Copy-on-write answers the question what to do when somebody *writes* into
a shared block. A full block has no free slot, so nobody does. Sharing full blocks needs exact counts and nothing more.
Copy-on-write becomes necessary the moment partly filled blocks are shared; that is
[lesson 3](../03_copy_on_write/03_copy_on_write.ipynb).

**"Twice the requests save twice as much."** Wrong. One copy of the prefix has to exist, so n requests save n − 1 times
its full blocks. From three to six requests the saving grows from 2 copies to 5, two and a half times. From one to two
it grows from nothing. For large n the rule of thumb comes nearly true, which is how it survives.

**"A freed block is gone."** Wrong, with a prefix cache. Free says that the block *may* be overwritten, not that it was.
Until it is, its key stays in the map and a hit takes it back. People who look only at the number of free blocks
therefore think that the cache is empty when it is at its most useful.

**"A hash is as good as the tokens."** Wrong as a statement about correctness, right as a statement about odds. A key that
contains the tokens compares equal only if they are. A hash can collide; if it does, one user reads another's K and V.
How likely that is depends on the hash, and on whether somebody is trying. See the fourth story below.

**"[Prefix caching](../../book/glossary.md#term-prefix-caching) makes the model faster."** Only half right. It saves computing the prompt, and memory. It does not make
the writing of the answer faster, one token after the other, and vLLM's own documentation says so. Long answers to short
prompts gain next to nothing.
"""

# %% [markdown]
"""
## Prefix caching in today's engines

State of late 2026. What changes is dated; the text seen is named in the last column.

| engine | how a common prefix is found and shared | source and date |
| --- | --- | --- |
| vLLM V1, ordinary models | full blocks only, by a hash chained from block to block; at most len − 1 tokens of a prompt are matched; freed blocks stay findable, tail freed first; no copy | source of 2026-08-17; `docs/design/prefix_caching.md` |
| vLLM V1, [hybrid Mamba models](../../book/glossary.md#term-hybrid-model) with a `--prefix-match-unit` below the block size | a partly filled tail can be hit, and is then copied into a private block | PRs #45939 (2026-06-22), #46384 (2026-07-12); the design page still says "only full blocks", a correction (#54983) was open |
| SGLang | [radix tree](../../book/glossary.md#term-radix-tree) over token ids, aligned to pages; no K or V is copied; reuse of a partial page by copying is proposed | PR #35635, open in 2026-08 |
| TensorRT-LLM | radix tree of blocks with priorities; leaves are evicted; a partly matched block is copied by default (`copy_on_partial_reuse = True`) | `docs/source/features/kvcache.md`, 1.4.0rc4 |
| LMDeploy, PyTorch engine | a trie of blocks with counts | source of 2026-08 |
| Transformers, continuous batching | a [fork](../../book/glossary.md#term-fork) shares complete blocks and copies the rest at once | PR #42921 (2025-12) |
| nano-vllm | full blocks by hash, never the last block of a prompt | commit bb823b3 |
| llama.cpp | no blocks: each cell of the cache carries the set of [sequences](../../book/glossary.md#term-sequence) that it belongs to | comment in `llama.h` |

Three things to see in the table. **Nearly everybody shares whole blocks only**; whoever goes below the block size pays
with a copy. **A hash map and a tree do the same job**: a chained key is the path from the root, written as one value.
And **"vLLM shares full blocks only" was true without exception until June 2026**, and is true for ordinary models
still.

How is a key made small? Yours may spell out the whole prefix: exact, simple and long, about n² ÷ 32 numbers for a
prompt of n tokens in blocks of 16. Engines chain instead: a block's hash is made from the hash of the block before it,
the block's own tokens, and whatever else changes K and V (adapter, images, a salt that keeps tenants apart). Each step
looks at 16 tokens, and the result still stands for the whole prefix. In return a collision is no longer impossible,
only improbable.
"""

# %% [markdown]
"""
## War stories

Six bugs of real engines, each with the rule that it broke. Not one is in the arithmetic of this lesson. Most are in the
order in which things happen.

**1. The key that outlived its block** (vLLM, pull requests #4764 of May 2024 and #5364 of June 2024). A freed block was
handed out again, and its entry stayed in the map. The next prompt with that prefix was pointed at a block that now held
somebody else's tokens. The sister bug kept the mark "already computed" on the recycled block, so K and V that had never
been computed were believed. *Rule: when a block is handed out, its key and every mark on it go in the same step.* With
your functions:
"""

# %%
key, = block_keys(list(range(16)), 16, "small-1")
where, holds = {key: 0}, {0: "K and V of the old prompt"}      # block 0 is free and still findable

holds[0] = "K and V of a newcomer"                             # block 0 is handed out; the map is not told
print("key kept:   ", match_prefix(where, [key]), "block matched, and it holds the", holds[0])

del where[key]                                                 # what should have happened in the same step
print("key removed:", match_prefix(where, [key]), "blocks matched; the old prompt is computed again")

# %% [markdown]
"""
**2. The hit that was counted before the room check** (vLLM, pull request #11565, December 2024). The order was: raise
the counts of the blocks that hit, then see whether there is room for the rest, and refuse if not. The refused request
left its counts behind. Take a pool of four blocks of 16. A holds #0, #1 and #2; B begins with the same 32 tokens and
needs three blocks more; only #3 is free:
"""

# %% mystnb={"image": {"alt": "Reference counts of blocks 0, 1 and 2 over four moments. When B is refused, the counts of blocks 0 and 1 have risen to 2 and stay there; when A ends, they fall to 1 instead of 0, though no request is left."}}
draw.counts(
    [
        ("A runs", {0: 1, 1: 1, 2: 1}),
        ("B refused", {0: 2, 1: 2, 2: 1}),
        ("A ends", {0: 1, 1: 1, 2: 0}),
        ("nobody left", {0: 1, 1: 1, 2: 0}),
    ],
    title="Counted first, checked second: two blocks are lost",
)

# %% [markdown]
"""
*Figure 10. B is refused and holds nothing, yet #0 and #1 keep a count of 2. When A ends they fall to 1, not to 0. No
table points at them, nobody will ever [release](../../book/glossary.md#term-release) them: half of this pool is lost. A scheduler that tries B again
at every step raises the two counts each time.*

*Rule: a refused request leaves every count as it was.* The reviewers found the trap on the other side as well. Say four
blocks are needed beyond the hits and five are free, but two of those five **are** the hits. They leave the free list the
moment they are taken, and three remain. So the check comes first, and it must not count as room the free blocks that
the request is about to reuse.

**3. The hit that was stolen** (vLLM #37164 for issue #37076, March 2026, open when seen; #33775 of February 2026 for
hits in an external cache). A lookup found a block with count 0. Before the count was raised, another request was given a
block, *that* block, and both wrote. *Rule: look up and pin in one step, before anything else may take a block.*
Megatron-LM #5822 (July 2026) had the same order wrong, and an [eviction](../../book/glossary.md#term-eviction) that removed parents before children: Figure 9,
head first.

**4. The hash that was too weak** (vLLM #12621, January 2025). Keys came from Python's `hash`, chained from `hash(None)`.
As of Python 3.12 that start is a known constant, so collisions could be planned. The fix made the start unpredictable;
later SHA-256 was offered (#15297) and then made the default (v0.10.2). Megatron-LM #4158 (April 2026) replaced a rolling
hash in which one token raised by 31 and its neighbour lowered by 1 cancelled out. *Rule: a key covers the whole prefix
and everything else that changes K and V, and unequal things do not share one.* "Everything else" is easy to forget:
vLLM #8240 (September 2024) added the adapter to keys that had been made from token ids alone.

**5. The full hit** (vLLM #11186 of December 2024; nano-vllm's issue #144). Every block of a prompt was cached, so no
token was left to compute, and a step with zero tokens either fails or puts the accounting out of step with the blocks.
*Rule: leave at least one token to compute; with full blocks only, never match the last block whole.*

**6. The revived block that lost its name** (nano-vllm, commits f64d821 and 9fa256a, both of 2026-04-26). Taking a freed
block back for a hit also reset its hash. The first repeat of a prompt hit, the second missed. The text stays right; the
cache merely stops working, which no test of outputs notices. *Rule: allocate, free, allocate, free, allocate the same prompt, and it must hit every time after the first.*
"""

# %% [markdown]
"""
## Reference

**The arithmetic.** n requests with totals T₁ … Tₙ, a common prefix of P tokens, blocks of B:

| quantity | formula |
| --- | --- |
| full shared blocks | F = ⌊P ÷ B⌋ |
| without sharing | W = Σ ⌈Tᵢ ÷ B⌉ |
| with sharing | S = F + Σ ⌈(Tᵢ − F·B) ÷ B⌉ |
| saved | W − S = (n − 1) · F |
| share saved | (W − S) ÷ W |

The fourth line needs no rounding, and here is why. F·B is a multiple of B, so taking it off a total takes exactly F off
the rounded number of blocks: ⌈(Tᵢ − F·B) ÷ B⌉ = ⌈Tᵢ ÷ B⌉ − F. Sum over n requests, add F once: S = W − n·F + F. The
requests' own lengths have dropped out, as in prediction 3.

**Worked numbers**, blocks of 16. "Equal" rows give the own tokens of each request:

| prefix | requests | without | with | saved | share |
| --- | --- | --- | --- | --- | --- |
| 32 | 3 equal, 20 own | 12 | 8 | 4 | 33.3 % |
| 31 | 3 equal, 20 own | 12 | 10 | 2 | 16.7 % |
| 32 | 6 equal, 20 own | 24 | 14 | 10 | 41.7 % |
| 32 | 3 equal, 200 own | 45 | 41 | 4 | 8.9 % |
| 100 | totals 110, 130, 164 | 27 | 15 | 12 | 44.4 % |
| 75 | totals 80, 91, 75 | 16 | 8 | 8 | 50.0 % |

The next cell holds your functions against the closed form (n − 1) · F, for 1,000 random sets of requests:
"""

# %%
import random

rng = random.Random(2)
for _ in range(1000):
    block, prefix = rng.randint(1, 64), rng.randint(0, 400)
    totals = [prefix + rng.randint(0, 300) for _ in range(rng.randint(1, 8))]
    saved = blocks_without_sharing(totals, block) - blocks_with_sharing(prefix, totals, block)
    expected = (len(totals) - 1) * full_shared_blocks(prefix, block)
    assert saved == expected, f"prefix {prefix}, totals {totals}, block {block}: saved {saved}, but (n - 1) x F is {expected}"
print("1,000 of 1,000 agree with (n - 1) x F")

# %% [markdown]
"""
**In bytes.** A token's K and V take 2 × layers × KV heads × head dim × bytes for each number. For n requests that share
F full blocks:
"""

# %%
def saved_mib(requests, full_blocks, layers, kv_heads, head_dim, block=16, bytes_each=2):
    """MiB of K and V that are not stored a second time; 2-byte numbers are fp16 or bf16."""
    per_token = 2 * layers * kv_heads * head_dim * bytes_each
    return (requests - 1) * full_blocks * block * per_token / 2**20


for model, shape in {"Llama-3-8B": (32, 8, 128), "Llama-2-13B": (40, 40, 128), "Llama-3-70B": (80, 8, 128)}.items():
    print(f"{model:12} 16 requests, 341 tokens in common (21 full blocks): {saved_mib(16, 21, *shape):7,.1f} MiB saved")

# %% [markdown]
"""
**The rules, in one place**

1. Share a block only if it is full and the model, all tokens up to its end, and so its position, are the same.
2. A key stands for the whole prefix. Match from the front, stop at the first gap.
3. Leave at least one token to compute.
4. Check the room first, not counting as room the free blocks that hit; then pin the hits; then take the rest.
5. A block with count 0 is free and findable; when it is handed out, its key goes with it.
6. Give up tails before heads.

**Sources**

- W. Kwon et al., *Efficient Memory Management for Large Language Model Serving with PagedAttention*, SOSP 2023,
  [arXiv:2309.06180](https://arxiv.org/abs/2309.06180): section 6.3 (the definition of a saving), 6.4 (shared prefixes of 80
  and 341 tokens).
- vLLM, [docs/design/prefix_caching.md](https://github.com/vllm-project/vllm/blob/main/docs/design/prefix_caching.md)
  ([chained hash](../../book/glossary.md#term-chained-hash), free queue in reverse order) and
  [docs/features/automatic_prefix_caching.md](https://github.com/vllm-project/vllm/blob/main/docs/features/automatic_prefix_caching.md)
  (section "Limits").
- vLLM pull requests and issues
  [#4764](https://github.com/vllm-project/vllm/pull/4764),
  [#5364](https://github.com/vllm-project/vllm/pull/5364),
  [#8240](https://github.com/vllm-project/vllm/pull/8240),
  [#11186](https://github.com/vllm-project/vllm/pull/11186),
  [#11565](https://github.com/vllm-project/vllm/pull/11565),
  [#12621](https://github.com/vllm-project/vllm/pull/12621),
  [#15297](https://github.com/vllm-project/vllm/pull/15297),
  [#33775](https://github.com/vllm-project/vllm/pull/33775),
  [#37076](https://github.com/vllm-project/vllm/issues/37076),
  [#37164](https://github.com/vllm-project/vllm/pull/37164),
  [#45939](https://github.com/vllm-project/vllm/pull/45939),
  [#46384](https://github.com/vllm-project/vllm/pull/46384),
  [#54983](https://github.com/vllm-project/vllm/pull/54983);
  SHA-256 as the default: [#29261](https://github.com/vllm-project/vllm/pull/29261).
- Other engines: Megatron-LM [#4158](https://github.com/NVIDIA/Megatron-LM/pull/4158) and
  [#5822](https://github.com/NVIDIA/Megatron-LM/pull/5822); SGLang
  [#35635](https://github.com/sgl-project/sglang/pull/35635); TensorRT-LLM, `docs/source/features/kvcache.md`; Transformers
  [#42921](https://github.com/huggingface/transformers/pull/42921); nano-vllm
  [#144](https://github.com/GeeeekExplorer/nano-vllm/issues/144) and the commits named above.
- Model shapes: the models' published configurations.

## Two questions from lesson 1

**Recall 1.** A request has 50 tokens, blocks of 16. How many blocks, how many slots, how much slack, and what is the slack
as a percentage, of what?
"""

# %% tags=["remove-input"]
ask("recall-50")

# %% [markdown]
"""
**Recall 2.** A contiguous pool has 64 slots free in all, and its largest hole is 24 slots. A request for 30 slots arrives.
Does it fit? Does it fit into a paged pool with blocks of 16 and 64 slots in free blocks?
"""

# %% tags=["remove-input"]
ask("recall-hole")

# %% [markdown]
"""
## What you predicted

This cell counts that you committed to an answer, 2 points for all of the lesson's predictions. Whether you were right
earns nothing and costs nothing.
"""

# %% nbgrader={"grade": true, "grade_id": "predictions", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
check("02_prefix_sharing/predictions", predictions("02_prefix_sharing"))
### BEGIN HIDDEN TESTS
check("02_prefix_sharing/predictions", predictions("02_prefix_sharing"), thorough=True)
### END HIDDEN TESTS

# %% [markdown]
"""
Next: [lesson 3](../03_copy_on_write/03_copy_on_write.ipynb). Two sequences share a block that is *not* full, and one of
them wants to write.
"""
