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
# Lesson 1: Contiguous or paged

A language model that writes text keeps the keys and values of every [token](../../book/glossary.md#term-token) it has read or written: the **[KV cache](../../book/glossary.md#term-KV-cache)**.
Without it, each new token would cost the work of the whole text again. With it, a server's memory fills up with caches whose
final length nobody knows in advance.

This lesson is about where to put them. **You will build** five small functions that count [blocks](../../book/glossary.md#term-block), [slots](../../book/glossary.md#term-slot) and [holes](../../book/glossary.md#term-hole), and the first half of a
`BlockManager`: the object that hands out a GPU's KV memory in fixed-size blocks and takes it back. With them you will then
reproduce published numbers: why a server that reserves the maximum held only 7 [requests](../../book/glossary.md#term-request) in 12 GiB, and what filled its memory.

- **Time:** about two hours. Everything runs on a CPU; the longest cell takes a few seconds.
- **You need:** Python (lists, dicts, sets, a class with methods). You need not know how [attention](../../book/glossary.md#term-attention) works, only that every token
  leaves one key and one value behind in every layer.
- **How to work:** run the cells from top to bottom. Where it says *predict first*, commit your answer in the form below it: the outcome is shown beside it then, and cells that would give it away wait until you have.
  A cell under an exercise may say `NotImplementedError` until you have written the part it uses.

Words that are new to you are in the [glossary](../../book/glossary.md).
"""

# %%
from collections import Counter, deque
from types import SimpleNamespace

import numpy as np

from autograder import ask, check, draw, predict, predicted, predictions, simulate

# %% [markdown]
"""
## The idea

### What a token costs

Every token leaves a key and a value in every layer, for every key-value [head](../../book/glossary.md#term-head):

**KV [bytes per token](../../book/glossary.md#term-bytes-per-token) = 2 × layers × KV heads × head dimension × bytes per number**

The 2 stands for key and value; a 16-bit number has 2 bytes. The cell below works this out for some published model configurations, and how many
tokens, and how many requests of 2,048 tokens, fit into a cache of 12 GiB. (12 GiB is what one published experiment had left for the cache beside
the weights; it is used for all models here only to compare them.)
"""

# %%
models = {  # name: (layers, KV heads, head dimension)
    "OPT-13B, Llama-2-13B": (40, 40, 128),
    "Llama-3-8B": (32, 8, 128),
    "Llama-3-70B": (80, 8, 128),
    "Qwen2.5-7B": (28, 4, 128),
    "Qwen3-0.6B, 1.7B": (28, 8, 128),
    "Qwen3-8B": (36, 8, 128),
}


def kv_bytes(layers, kv_heads, head_dim, bytes_per_number=2):
    """Bytes of keys and values that one token leaves behind, over all layers."""
    return 2 * layers * kv_heads * head_dim * bytes_per_number


sizes = {name: kv_bytes(*shape) for name, shape in models.items()}
sizes["DeepSeek-V3 (latent)"] = 61 * (512 + 64) * 2  # one compressed vector per layer instead of keys and values

print(f"{'model':22}{'bytes a token':>14}{'16 tokens':>12}{'tokens in 12 GiB':>18}{'requests of 2,048':>19}")
for name, size in sizes.items():
    tokens = 12 * 2**30 // size
    print(f"{name:22}{size:14,}{16 * size / 2**20:8.2f} MiB{tokens:18,}{tokens // 2048:19}")

# %% [markdown]
"""
Look at the first row. One token of OPT-13B takes 819,200 bytes = 800 KiB. A request that uses the model's full 2,048 tokens takes
1,600 MiB. So the cache, not the arithmetic, decides how many requests can be served at once, and a slot of the cache
that holds no token is worth caring about. From here on we count in **slots**: one slot is room for one token's keys and values in all layers.

### Contiguous: one stretch for each request

The simplest way is one contiguous stretch of slots per request, as long as the request may ever become.
It has to be that long from the start: a request grows by one token per step, nobody knows when it will stop, and its neighbour
in memory is already taken, so it could not grow later. Three different things are then wasted. Keep them apart; the whole lesson depends on it.

| waste | what it is | who could use it |
|---|---|---|
| **[reserved](../../book/glossary.md#term-reserved)** | slots that this request will fill later, but that hold nothing yet | nobody else, until this request ends |
| **internal** | slots inside an allocation that this request will never fill | nobody, until this request ends |
| **external** | free slots between allocations, in pieces too short for the request that waits | only somebody small enough |

### Paged: blocks and a table

[Paging](../../book/glossary.md#term-paging) cuts the memory into **[physical blocks](../../book/glossary.md#term-physical-block)** of a fixed number of slots, say 16. A request's tokens are cut in the same way into
**[logical blocks](../../book/glossary.md#term-logical-block)**: tokens 0–15, tokens 16–31, and so on. A **[block table](../../book/glossary.md#term-block-table)** per request says which physical block holds each logical block.
The logical order is the order of the text. The physical blocks may lie anywhere.

Here is a request A of 33 tokens in a pool of 8 blocks. The table was written down by hand; later your own class will make such tables.
"""


# %%
def by_hand(num_blocks, block_size, seqs):
    """A pool with these tables, as plain data: what a block manager would show, without any of its work."""
    held = [block for seq in seqs.values() for block in seq["blocks"]]
    free = [block for block in range(num_blocks) if block not in held]
    return SimpleNamespace(num_blocks=num_blocks, block_size=block_size, free=free, ref=dict(Counter(held)), seqs=seqs)


# %% mystnb={"image": {"alt": "A pool of eight blocks of 16 slots. Request A's table lists the physical blocks 7, 2 and 5 in this order. Blocks 7 and 2 are full, block 5 holds one token, and five blocks are free."}}
draw.blocks(by_hand(8, 16, {"A": {"blocks": [7, 2, 5], "len": 33}}), title="33 tokens in blocks of 16")

# %% [markdown]
"""
*Figure 1. Request A has 33 tokens. Its table lists blocks 7, 2, 5: logical block 0 is physical block 7, logical block 1 is physical block 2, logical
block 2 is physical block 5. Two blocks are full, the last one holds a single token. The other five blocks are free for anybody.*

To find token number `t` (counted from 0), divide by the [block size](../../book/glossary.md#term-block-size): the quotient is the logical block, the remainder is the place inside it.
"""


# %%
def slot_of(t, table, block_size):
    """The physical slot that holds token t of a sequence with this block table."""
    logical, place = divmod(t, block_size)
    return table[logical] * block_size + place


for t in (0, 15, 16, 32):
    print(f"token {t:2} is in logical block {t // 16}, physical block {[7, 2, 5][t // 16]}, slot {slot_of(t, [7, 2, 5], 16)}")

# %% [markdown]
"""
Tokens 15 and 16 are neighbours in the text and lie 95 slots apart in memory. Attention does not mind: it reads the table.

What does paging waste? Nothing is reserved for later, because a block is taken only when a token needs it. Nothing is lost between allocations, because
every free block fits every request. What remains is the unfilled end of each request's *last* block. It is called **[slack](../../book/glossary.md#term-slack)**. With T tokens and blocks of P slots:

- blocks = ⌈T ÷ P⌉ (divide and round up)
- slots = P × blocks
- slack = slots − T, never more than P − 1

A percentage of slack is only meaningful with its denominator. This course always divides by *the slots of this allocation*, and says so.
"""

# %% [markdown]
"""
## See it: the same four requests in both pools

Four requests arrive at a pool of 160 slots, in this order. No request may have more than 64 tokens. Growth is frozen so that we can look: each request has
a length *now* and a length that it *will have* when it is done, which no server knows.

The contiguous pool reserves 64 slots for everybody and puts each request at the first place where it fits (**[first fit](../../book/glossary.md#term-first-fit)**). The paged pool has 10 blocks of 16 and
gives out the lowest free block first. In both pools the queue is in order: a request that does not fit waits, and so does everybody behind it.
"""

# %%
POOL, LONGEST, BLOCK = 160, 64, 16
stream = {"A": (20, 36), "B": (33, 60), "C": (40, 44), "D": (50, 58)}  # name: (tokens now, tokens when it is done)


def first_fit(placed, length, size):
    """The lowest start where `length` slots touch none of the stretches in `placed` ([(start, length)]), or None."""
    for start in range(size - length + 1):
        if all(start + length <= s or s + n <= start for s, n in placed):
            return start
    return None


def contiguous_map(starts):
    """Memory map of requests that reserve LONGEST slots each: {name: start} -> [(start, length, kind, owner)]."""
    spans = []
    for name, start in starts.items():
        now, done = stream[name]
        spans += [(start, now, "tokens", name), (start + now, done - now, "reserved", name), (start + done, LONGEST - done, "internal", name)]
    end = max(starts.values()) + LONGEST
    return spans + [(end, POOL - end, "external", None)]


def paged_map(seqs):
    """Memory map of block tables: {name: {"blocks", "len"}} -> [(start, length, kind, owner)]."""
    spans = []
    for name, seq in seqs.items():
        left = seq["len"]
        for block in seq["blocks"]:
            filled = min(left, BLOCK)
            left -= filled
            spans.append((block * BLOCK, filled, "tokens", name))
            if filled < BLOCK:
                spans.append((block * BLOCK + filled, BLOCK - filled, "internal", name))
    return spans


def count_slots(label, spans):
    """Print how many of the pool's slots are of each kind."""
    slots = Counter()
    for _, length, kind, _ in spans:
        slots[kind] += length
    slots["free"] = POOL - sum(slots.values())
    print(f"{label:12}" + "   ".join(f"{kind} {slots[kind]:3}" for kind in ("tokens", "reserved", "internal", "external", "free")))


# %% [markdown]
"""
**First moment: A, B, C and D have arrived.** First fit finds room for two requests of 64. The block tables are written by hand.
"""

# %% mystnb={"image": {"alt": "Two memory maps of 160 slots. The contiguous map holds only A and B, with large reserved and internal parts and 32 external slots at the end. The paged map holds A, B and C, with a little internal slack at the end of each, and 32 free slots."}}
starts = {}
for name in stream:
    start = first_fit([(s, LONGEST) for s in starts.values()], LONGEST, POOL)
    print(name, "waits" if start is None else f"gets slots {start} to {start + LONGEST - 1}")
    if start is None:
        break
    starts[name] = start

tables = {"A": {"blocks": [0, 1], "len": 20}, "B": {"blocks": [2, 3, 4], "len": 33}, "C": {"blocks": [5, 6, 7], "len": 40}}
rows = [("contiguous", contiguous_map(starts)), ("paged", paged_map(tables))]
for row in rows:
    count_slots(*row)
draw.memory(rows, POOL, title="Requests A to D have arrived")

# %% [markdown]
"""
*Figure 2. The same stream in both pools. Contiguous: A and B are in and C waits, although only 53 of the 160 slots hold a token. 43 are reserved, 32 are [internal waste](../../book/glossary.md#term-internal-waste) that will never be
filled, and the 32 external slots at the end are free but too few for another 64. Paged: A, B and C are in, 93 slots hold tokens, 35 are slack, and D
waits because it needs four blocks and two are free.*

> **Predict first.** Request A's reader closes the page; A leaves, and its memory is free again. Who comes in now, in the contiguous pool and in the paged one?
> If D comes in, which physical blocks are in its table?
"""

# %% tags=["remove-input"]
predict("who-comes-in")

# %% mystnb={"image": {"alt": "After A has left, the contiguous map holds C at slot 0 and B behind it. The paged map holds B, C and D; D lies in two pieces, in slots 0 to 31 and 128 to 159, and no slot is outside a block in use."}}
predicted("who-comes-in")
starts = {"B": starts["B"]}
starts["C"] = first_fit([(s, LONGEST) for s in starts.values()], LONGEST, POOL)
tables = {"B": tables["B"], "C": tables["C"], "D": {"blocks": [0, 1, 8, 9], "len": 50}}
rows = [("contiguous", contiguous_map(starts)), ("paged", paged_map(tables))]
for row in rows:
    count_slots(*row)
draw.memory(rows, POOL, title="A has left, and who could come in has come in")

# %% [markdown]
"""
*Figure 3. Both pools after A has left and the queue has moved up as far as it can, drawn as in Figure 2. Compare with what you said: who came in, and in how many pieces does it lie?*

The same moment of the paged pool, as blocks and tables:
"""

# %% mystnb={"image": {"alt": "A pool of ten blocks, all in use: D holds blocks 0, 1, 8 and 9, B holds 2 to 4, C holds 5 to 7. The tables beside the pool list the blocks in logical order."}}
predicted("who-comes-in")
draw.blocks(by_hand(10, 16, tables), title="The paged pool after A has left")

# %% [markdown]
"""
*Figure 4. The paged pool of Figure 3 as blocks and tables. Follow one table from left to right: its entries are the request's logical blocks 0, 1, 2, … and only the last of them
has empty slots.*
"""

# %% [markdown]
"""
### The same stream, to press

Step through the stream yourself, forward and back, and watch the three wastes in the contiguous pool beside the paged pool's slack. Nothing moves by itself.
"""

# %% tags=["remove-input"]
simulate.contiguous()

# %% [markdown]
"""
## Predict first: the block boundary

> **Predict first.** A request has 20 tokens in blocks of 16. How many blocks does it hold **now**? How many after **12 more** tokens are appended? How many after **13**?
"""

# %% tags=["remove-input"]
predict("boundary")

# %% [markdown]
"""
## Hands-on: numbers

Now with your own numbers. If you get stuck, the worked example comes right after.

**Exercise `numbers` (3 points).** A request has 100 tokens, in blocks of 16. Give the number of blocks, the number of slots in them, the slack in slots,
and the slack as a percentage of this allocation (0 to 100, exact to 0.01).
"""

# %% nbgrader={"grade": false, "grade_id": "numbers", "locked": false, "schema_version": 3, "solution": true, "task": false}
numbers = {"blocks": None, "slots": None, "slack": None, "slack_percent": None}    # replace each None by your number
### BEGIN SOLUTION
numbers = {"blocks": 7, "slots": 112, "slack": 12, "slack_percent": 100 * 12 / 112}
### END SOLUTION

# %% nbgrader={"grade": true, "grade_id": "numbers-checks", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
check("01_contiguous_vs_paged/numbers", numbers)
### BEGIN HIDDEN TESTS
check("01_contiguous_vs_paged/numbers", numbers, thorough=True)
### END HIDDEN TESTS

# %% [markdown]
"""
**Exercise `holes` (3 points).** A pool has 96 slots. Slots 16–31 and 64–79 are occupied (both ends included).

- `total_free`: how many slots are free?
- `largest_contiguous`: how many slots has the largest request that still fits contiguously?
- `largest_paged`: the same memory is a paged pool with blocks of 16 (slots 0–15 are block 0, and so on). How many tokens has the largest request that still fits?
"""

# %% nbgrader={"grade": false, "grade_id": "holes", "locked": false, "schema_version": 3, "solution": true, "task": false}
holes = {"total_free": None, "largest_contiguous": None, "largest_paged": None}    # replace each None by your number
### BEGIN SOLUTION
holes = {"total_free": 64, "largest_contiguous": 32, "largest_paged": 64}
### END SOLUTION

# %% nbgrader={"grade": true, "grade_id": "holes-checks", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
check("01_contiguous_vs_paged/holes", holes)
### BEGIN HIDDEN TESTS
check("01_contiguous_vs_paged/holes", holes, thorough=True)
### END HIDDEN TESTS

# %% [markdown]
"""
## Worked example: 33 tokens

A request has 33 tokens, in blocks of 16.

1. Blocks: 33 ÷ 16 = 2.0625, rounded up: **3 blocks**. (Two blocks hold 32 tokens; the last token needs a third.)
2. Slots: 3 × 16 = **48 slots**.
3. Slack: 48 − 33 = **15 slots**, all of them in the last block, which holds one token.
4. As a fraction of this allocation: 15 ÷ 48 = 0.3125 = **31.25 %**.

31.25 % of *this allocation*. It is not 31.25 % of the GPU's memory, nor of the pool: in a pool of 1,000 blocks the same 15 slots are 15 ÷ 16,000, about 0.09 %.
And 33 is the worst case for three blocks: one token less, and two blocks would do with slack 0.

A second one, with holes. A pool of 64 slots has slots 8–15 and 40–47 occupied. Free: 64 − 16 = 48. The free runs are 0–7 (8 slots), 16–39 (24 slots) and 48–63 (16 slots), so the largest
contiguous request has 24 slots, half of what is free. In a paged pool with blocks of 8 the occupied slots are blocks 1 and 5; six blocks are free, and a request of 48 tokens fits.

### The same again, with gaps

Fill in the gaps: a request has **70 tokens**, in blocks of 16.

1. Blocks: 70 ÷ 16 = 4.375, rounded up: ___ blocks.
2. Slots: ___ × 16 = ___.
3. Slack: ___ − 70 = ___.
4. As a fraction of ___: ___ ÷ ___ = ___ %.
5. Six tokens fewer (64): ___ blocks, slack ___.
"""

# %% tags=["remove-input"]
ask("gaps-70")

# %% [markdown]
"""
## Code: count blocks, slots and holes

Four small functions. Each comes with its [promise](../../book/glossary.md#term-promise); nothing is checked that the promise does not say. All token counts are whole numbers, 0 or more; block sizes are 1 or more.

**Exercise `blocks_needed` (2 points).** How many blocks `n_tokens` tokens need. No tokens need no block.
"""


# %% nbgrader={"grade": false, "grade_id": "blocks_needed", "locked": false, "schema_version": 3, "solution": true, "task": false}
def blocks_needed(n_tokens, block_size):
    """How many blocks of `block_size` slots hold `n_tokens` tokens; 0 for 0 tokens. Roughly 1 line.

    Whole numbers only: a division that goes through a float is wrong for very large counts.
    """
    ### BEGIN SOLUTION
    return -(-n_tokens // block_size)
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "blocks_needed-checks", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
check("01_contiguous_vs_paged/blocks_needed", blocks_needed)
### BEGIN HIDDEN TESTS
check("01_contiguous_vs_paged/blocks_needed", blocks_needed, thorough=True)
### END HIDDEN TESTS

# %% [markdown]
"""
The [prediction](../../book/glossary.md#term-prediction) from above, answered by your function:
"""

# %%
for appended in (0, 12, 13):
    print(f"20 + {appended:2} tokens: {blocks_needed(20 + appended, 16)} blocks")

# %% [markdown]
"""
**Exercise `slack` (2 points).** The empty slots in the blocks that `n_tokens` tokens need; 0 for 0 tokens. Use your `blocks_needed`.
"""


# %% nbgrader={"grade": false, "grade_id": "slack", "locked": false, "schema_version": 3, "solution": true, "task": false}
def slack(n_tokens, block_size):
    """Slots minus tokens: how many slots of the needed blocks stay empty; 0 for 0 tokens. Roughly 1 line."""
    ### BEGIN SOLUTION
    return blocks_needed(n_tokens, block_size) * block_size - n_tokens
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "slack-checks", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
check("01_contiguous_vs_paged/slack", slack)
### BEGIN HIDDEN TESTS
check("01_contiguous_vs_paged/slack", slack, thorough=True)
### END HIDDEN TESTS

# %% [markdown]
"""
**Exercise `slack_fraction` (2 points).** Slack divided by *the slots of this allocation*: a fraction such as 0.3125, not a percentage. For 0 tokens there are no slots and no waste: 0.0.
"""


# %% nbgrader={"grade": false, "grade_id": "slack_fraction", "locked": false, "schema_version": 3, "solution": true, "task": false}
def slack_fraction(n_tokens, block_size):
    """Slack as a fraction of the allocated slots, 0 <= fraction < 1, exact to 1e-9; 0.0 for 0 tokens. Roughly 4 lines."""
    ### BEGIN SOLUTION
    if n_tokens == 0:
        return 0.0
    return slack(n_tokens, block_size) / (blocks_needed(n_tokens, block_size) * block_size)
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "slack_fraction-checks", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
check("01_contiguous_vs_paged/slack_fraction", slack_fraction)
### BEGIN HIDDEN TESTS
check("01_contiguous_vs_paged/slack_fraction", slack_fraction, thorough=True)
### END HIDDEN TESTS

# %% [markdown]
"""
Your three functions on one page. Change the lengths or the block size and run again: where does the slack jump, and where is it zero?
"""

# %%
block_size = 16
print("tokens  blocks  slots  slack  of this allocation")
for n in (0, 1, 15, 16, 17, 32, 33, 100):
    blocks = blocks_needed(n, block_size)
    print(f"{n:6}{blocks:8}{blocks * block_size:7}{slack(n, block_size):7}{100 * slack_fraction(n, block_size):10.2f} %")

# %% [markdown]
"""
**Exercise `largest_hole` (3 points).** A contiguous pool has slots 0 … `size` − 1. `occupied` is the set of slot numbers in use, all below `size`. Return the length of the longest run of
free neighbours, 0 if there is none. Do not change the set.
Pools of up to 2,100 slots are tried. Going through the slots once, or once for each slot, is fast enough; trying every
length at every place is not.
"""


# %% nbgrader={"grade": false, "grade_id": "largest_hole", "locked": false, "schema_version": 3, "solution": true, "task": false}
def largest_hole(occupied, size):
    """Length of the longest run of neighbouring free slots among slots 0 … size - 1; 0 if none is free. Roughly 5 lines."""
    ### BEGIN SOLUTION
    longest = run = 0
    for slot in range(size):
        run = 0 if slot in occupied else run + 1
        longest = max(longest, run)
    return longest
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "largest_hole-checks", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
check("01_contiguous_vs_paged/largest_hole", largest_hole)
### BEGIN HIDDEN TESTS
check("01_contiguous_vs_paged/largest_hole", largest_hole, thorough=True)
### END HIDDEN TESTS

# %% [markdown]
"""
Your function on a pool of 120 slots in which five requests of 24 slots were placed side by side, and then every second one left:
"""

# %% mystnb={"image": {"alt": "A memory map of 120 slots. Requests B and D hold 24 slots each; three free holes of 24 slots lie before, between and behind them."}}
left = {"B": (24, 24), "D": (72, 24)}
occupied = {slot for start, length in left.values() for slot in range(start, start + length)}
print(f"free in total: {120 - len(occupied)} slots; largest contiguous request: {largest_hole(occupied, 120)} slots")
draw.memory([("contiguous", [(start, length, "tokens", name) for name, (start, length) in left.items()])], 120, title="External fragmentation")

# %% [markdown]
"""
*Figure 5. A, C and E have left. 72 slots are free, but in three holes of 24, so a contiguous request of 25 slots must wait. In a paged pool with blocks of 8 the same memory has 9 free blocks and takes a
request of 72 tokens.*

**Predict, then try:** a request F of 10 slots comes in and first fit puts it at slot 0. How many slots are free then, and how long is the largest hole? Add `"F": (0, 10)` to `left` and run the cell again. (The total falls to 62; the largest hole does not change.
Where a contiguous allocator puts things matters later, which is why it has policies with names such as first fit and best fit. A paged pool needs none.)
"""

# %% [markdown]
"""
## Code: the block manager, first half

Now the object itself. `BlockManager(num_blocks, block_size)` owns the physical blocks 0 … `num_blocks` − 1 and keeps three records, which are part of the promise because checks and figures read them:

| record | meaning |
|---|---|
| `free` | the numbers of the free blocks, in ascending order |
| `ref` | physical block → its **[reference count](../../book/glossary.md#term-reference-count)**: how many table entries point at it (a free block is absent) |
| `seqs` | [sequence](../../book/glossary.md#term-sequence) name → `{"blocks": [physical block numbers, in logical order], "len": number of tokens}` |

In this lesson every block in use has exactly one [owner](../../book/glossary.md#term-owner), so every count is 1. Counts above 1 come with sharing, from lesson 2 on; the record is here from the start because everything later rests on it.

**Exercise `BlockManager` (8 points).** Write four methods. What they promise:

- `_take()` removes the **lowest** free block from `free`, sets its count to 1 and returns its number. If no block is free it raises `MemoryError`.
- `allocate(name, n_tokens)` makes a new sequence with as many taken blocks as `n_tokens` tokens need, the first taken block first in its table. A sequence of 0 tokens holds no block. If there are not enough free blocks it
  raises `MemoryError`, **and then nothing has changed**: no block taken, no name registered.
- `release(name)` forgets the sequence. Each of its blocks loses one reference; a block whose count reaches 0 leaves `ref` and goes back to `free`, which stays in ascending order. An unknown name raises `KeyError`
  and changes nothing. A released name may be used again.
- `used()` returns the number of physical blocks in use.

After every operation, every block is either free or referenced, never both and never neither, and a table holds exactly as many blocks as its length needs.
Not tested: allocating a name that is still in use, and token counts that are negative or not whole.

(Why is it `release` and not `free`? Because `free` is the list.)
"""


# %% nbgrader={"grade": false, "grade_id": "BlockManager", "locked": false, "schema_version": 3, "solution": true, "task": false}
class BlockManager:
    """A pool of `num_blocks` physical blocks of `block_size` slots, handed out lowest number first."""

    def __init__(self, num_blocks, block_size):
        self.num_blocks = num_blocks
        self.block_size = block_size
        self.free = list(range(num_blocks))  # numbers of the free blocks, ascending
        self.ref = {}  # physical block -> how many table entries point at it
        self.seqs = {}  # name -> {"blocks": physical blocks in logical order, "len": tokens}

    def _take(self):
        """Remove the lowest free block, set its count to 1, return it; MemoryError if none is free. Roughly 5 lines."""
        ### BEGIN SOLUTION
        if not self.free:
            raise MemoryError("no free block")
        block = self.free.pop(0)
        self.ref[block] = 1
        return block
        ### END SOLUTION

    def allocate(self, name, n_tokens):
        """Register a new sequence with the blocks that n_tokens need; MemoryError, and no change, if too few are free. Roughly 5 lines."""
        ### BEGIN SOLUTION
        needed = blocks_needed(n_tokens, self.block_size)
        if needed > len(self.free):
            raise MemoryError(f"{n_tokens} tokens need {needed} blocks, {len(self.free)} are free")
        self.seqs[name] = {"blocks": [self._take() for _ in range(needed)], "len": n_tokens}
        ### END SOLUTION

    def release(self, name):
        """Forget the sequence and give back its references; KeyError, and no change, if the name is unknown. Roughly 6 lines."""
        ### BEGIN SOLUTION
        for block in self.seqs.pop(name)["blocks"]:
            self.ref[block] -= 1
            if self.ref[block] == 0:
                del self.ref[block]
                self.free.append(block)
        self.free.sort()
        ### END SOLUTION

    def used(self):
        """The number of physical blocks in use. Roughly 1 line."""
        ### BEGIN SOLUTION
        return self.num_blocks - len(self.free)
        ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "BlockManager-checks", "locked": true, "points": 8, "schema_version": 3, "solution": false, "task": false}
check("01_contiguous_vs_paged/BlockManager", BlockManager)
### BEGIN HIDDEN TESTS
check("01_contiguous_vs_paged/BlockManager", BlockManager, thorough=True)
### END HIDDEN TESTS

# %% [markdown]
"""
Your own object now walks the stream from *See it*. It must refuse D at first, and give D the table that was written by hand above.
"""

# %% mystnb={"image": {"alt": "The learner's own pool after the walk: ten blocks, all in use. D holds blocks 0, 1, 8 and 9, exactly as in the table written by hand before."}}
mine = BlockManager(10, 16)
for name in ("A", "B", "C"):
    mine.allocate(name, stream[name][0])
try:
    mine.allocate("D", stream["D"][0])
except MemoryError:
    print("D waits; blocks in use:", mine.used())
mine.release("A")
mine.allocate("D", stream["D"][0])
print("A has left, D is in; D's table:", mine.seqs["D"]["blocks"], "  as written by hand:", list(mine.seqs["D"]["blocks"]) == [0, 1, 8, 9])
draw.blocks(mine, title="Your pool after the same walk")

# %% [markdown]
"""
*Figure 6. Your own object after A, B and C were allocated, D was refused, A was released and D was allocated. It must look like Figure 4.*

Two of the promises that you just kept sound too obvious to write down. Real engines broke both:

- *Blocks and tokens are different units.* In mini-sglang's [eviction](../../book/glossary.md#term-eviction) call (80) pages were set against tokens. In your class: a pool of 4 blocks of 4 must take a request of 8 tokens.
- *A name gives its references back once.* In vLLM (1556, 3347, 33377) and FastDeploy (3710) blocks could be given back twice, for instance when the late output of an aborted request arrived. The same block is then
  in the [free list](../../book/glossary.md#term-free-list) twice, and two requests get it. In your class the second `release` of a name is a `KeyError`.

What you can do against such bugs is to **[audit](../../book/glossary.md#term-audit)**: state what must hold after every operation, and look. Here are 300 random operations on your class with three such rules.
"""


# %%
def audit(manager, num_blocks, block_size):
    """Raise AssertionError if a block is lost or counted twice, or if a table does not fit its length."""
    in_use = [block for seq in manager.seqs.values() for block in seq["blocks"]]
    assert sorted([*manager.free, *in_use]) == list(range(num_blocks)), "a block is lost, or in two places"
    assert manager.used() == len(in_use), "used() disagrees with the tables"
    for seq in manager.seqs.values():
        assert len(seq["blocks"]) == blocks_needed(seq["len"], block_size), "a table does not fit its length"


rng = np.random.default_rng(1)
manager, refused = BlockManager(40, 16), 0
for step in range(300):
    if manager.seqs and rng.random() < 0.45:
        manager.release(str(rng.choice(sorted(manager.seqs))))
    else:
        try:
            manager.allocate(f"request {step}", int(rng.integers(0, 200)))
        except MemoryError:
            refused += 1
    audit(manager, 40, 16)
print(f"300 operations, {refused} refused for lack of memory, no rule broken; {manager.used()} of 40 blocks in use")

# %% [markdown]
"""
## At scale: the published numbers, and yours

The paper that introduced paged KV memory (PagedAttention, SOSP 2023; link at the end) measured how much of the cache memory of existing systems held token states. You can reproduce
a good part of it with what you have, without a GPU.

### How many slots

The paper's Table 1 gives three OPT models, the memory left for the cache, and the number of slots. The hidden size and the layers are all we need.
"""

# %%
table_1 = {"OPT-13B": (5120, 40, 12, 15.7), "OPT-66B": (9216, 64, 21, 9.7), "OPT-175B": (12288, 96, 264, 60.1)}
print("model      GiB   slots   computed  published")
for name, (hidden, layers, gib, published_k) in table_1.items():
    slots = gib * 2**30 // (2 * hidden * layers * 2)
    print(f"{name:9}{gib:5}{slots:8,}{slots / 1000:9.1f}K{published_k:9.1f}K")

# %% [markdown]
"""
15.7, 9.6 and 60.1 thousand against the published 15.7, 9.7 and 60.1. The middle one is 1 % off; the other two agree in every printed digit. It also tells that the paper's
"GB" are binary: 12 GiB ÷ 819,200 bytes are 15,728 slots.

### How many requests, if each reserves the maximum

> **Predict first.** 15,728 slots, OPT-13B, and every request reserves 2,048 slots because that is the longest it may become. How many requests run at once? Which share of the memory is left over, and which share, roughly, holds tokens,
> if an average request comes with 161 tokens and writes 338?
"""

# %% tags=["remove-input"]
predict("seven")

# %%
predicted("seven")
slots = 12 * 2**30 // 819_200
at_once = slots // 2048
print(f"{slots:,} slots hold {at_once} reservations of 2,048; left over {slots - at_once * 2048:,} slots = {100 * (slots - at_once * 2048) / slots:.1f} %")

# %% [markdown]
"""
The paper's Figure 13 shows the measured [batch](../../book/glossary.md#term-batch) of that system: 7.00, with long conversations (ShareGPT) and with short instructions (Alpaca) alike. A batch that does not depend on how long the requests are
is the mark of reserving the maximum. And its Figure 2 puts the external part at 8.9 %, as computed.

### What fills the memory: a simulation

Figure 2 of the paper has a bar for each system. Three of them can be simulated:

- **Max**: every request reserves 2,048 slots. (In the paper: "Orca (Max)", the authors' own build of the Orca system with this policy.)
- **Oracle**: the system knows in advance how long each request will be, and reserves exactly that. Nobody can build it; it is the best case for contiguous memory.
- **paged**: blocks of 16.

Max and Oracle use a **[buddy allocator](../../book/glossary.md#term-buddy-allocator)**, as in the paper: it rounds every request up to a power of two and splits larger free pieces in halves to get one; when two halves are free they merge again. Fast, but the rounding costs memory. We count it
as external, as the paper's label "external fragmentation & others" does.

What the paper does not print, we must assume, and a different assumption gives different numbers:

1. **Lengths.** The paper prints means: ShareGPT 161.31 tokens in and 337.99 out. We draw both from a log-normal distribution with these means and a standard deviation of 0.9 times the mean. *The shape and the 0.9 are our assumption.* No request exceeds 2,048 tokens.
2. **Load.** There is always somebody waiting; first come, first served.
3. **Time.** In each step every running request gains one token. A [prompt](../../book/glossary.md#term-prompt) takes one step.
4. **Paged pool.** A newcomer is let in only if 1 % of the blocks stay free behind it. When a block is needed and none is free, the newest request is **preempted**: its blocks are freed, it goes back to the head of the queue and will be computed
   again. (Lesson 3 comes back to this.)

Everything is seeded, and averaged over eight seeds. First the requests and the buddy allocator:
"""

# %%
SLOTS, MAXIMUM = 15_728, 2048


def log_normal(rng, mean, spread, n):
    """n random lengths with this mean and this standard deviation divided by the mean."""
    sigma = np.sqrt(np.log(1 + spread**2))
    return np.rint(rng.lognormal(np.log(mean) - sigma**2 / 2, sigma, n))


def draw_requests(seed, mean_in=161.31, mean_out=337.99, spread=0.9, n=2000):
    """n pairs (prompt tokens, output tokens), together at most MAXIMUM."""
    rng = np.random.default_rng(seed)
    prompts = np.clip(log_normal(rng, mean_in, spread, n), 1, MAXIMUM // 2)
    outputs = np.clip(log_normal(rng, mean_out, spread, n), 1, MAXIMUM - prompts)
    return list(zip(prompts.astype(int).tolist(), outputs.astype(int).tolist(), strict=True))


class Buddy:
    """Contiguous pieces whose lengths are powers of two; a free piece is split to fit and merges with its other half later."""

    def __init__(self, size):
        self.holes = {1 << k: set() for k in range(size.bit_length())}  # length -> starts of free pieces
        start = 0
        for length in sorted(self.holes, reverse=True):
            if size & length:
                self.holes[length].add(start)
                start += length

    def take(self, wanted):
        """A piece (start, length) of at least `wanted` slots, or None."""
        length = 1 << (wanted - 1).bit_length()
        fitting = [n for n, starts in self.holes.items() if n >= length and starts]
        if not fitting:
            return None
        piece = min(fitting)
        start = min(self.holes[piece])
        self.holes[piece].remove(start)
        while piece > length:  # keep the lower half, free the upper one
            piece //= 2
            self.holes[piece].add(start + piece)
        return start, length

    def give(self, start, length):
        """Take a piece back, and merge it with its other half as long as that is free too."""
        while start ^ length in self.holes.get(length, ()):
            self.holes[length].remove(start ^ length)
            start, length = min(start, start ^ length), 2 * length
        self.holes[length].add(start)


# %% [markdown]
"""
Then the two servers. Both note, step by step, what every slot is used for, after a start-up phase that is not counted. The paged one uses your `blocks_needed`.
"""

# %%
STEPS, STARTUP = 5000, 1000


def request(prompt, output, made=0):
    """A running request: prompt tokens, output tokens when done, output tokens so far."""
    return SimpleNamespace(prompt=prompt, output=output, made=made)


def percent(totals, batch, waiting):
    """Totals of slots over the counted steps as percent of the pool, and the mean batch."""
    if not waiting:
        raise ValueError("The queue ran empty, so the pool was not always asked for more: draw more requests.")
    steps = STEPS - STARTUP
    return {kind: 100 * total / (steps * SLOTS) for kind, total in totals.items()}, batch / steps


def serve_contiguous(requests, wanted):
    """Serve with a buddy allocator; `wanted(prompt, output)` slots are asked for. Returns ({kind: percent}, mean batch)."""
    memory, waiting, running = Buddy(SLOTS), deque(requests), []
    totals, batch = Counter(), 0
    for step in range(STEPS):
        for r in running:
            if r.made == r.output:
                memory.give(*r.piece)
        running = [r for r in running if r.made < r.output]
        while waiting and (piece := memory.take(wanted(*waiting[0]))) is not None:
            r = request(*waiting.popleft())
            r.piece, r.wanted = piece, wanted(r.prompt, r.output)
            running.append(r)
        for r in running:
            r.made += 1
        if step >= STARTUP:
            asked = sum(r.wanted for r in running)
            tokens = sum(r.prompt + r.made for r in running)
            reserved = sum(r.output - r.made for r in running)
            totals.update(tokens=tokens, reserved=reserved, internal=asked - tokens - reserved, external=SLOTS - asked)
            batch += len(running)
    return percent(totals, batch, waiting)


def serve_paged(requests, block_size=16, watermark=0.01):
    """Serve from a pool of blocks, newest preempted first. Returns ({kind: percent}, mean batch)."""
    num_blocks = SLOTS // block_size
    waiting, running = deque(request(*pair) for pair in requests), []
    totals, batch = Counter(), 0

    def blocks_with_next_token(r):
        return blocks_needed(r.prompt + r.made + 1, block_size)

    for step in range(STEPS):
        running = [r for r in running if r.made < r.output]
        while (needed := sum(map(blocks_with_next_token, running))) > num_blocks:
            waiting.appendleft(running.pop())
        free = num_blocks - needed
        # 256 is a limit on the batch such as engines have too; right block counts never come near it here
        while waiting and len(running) < 256 and free - blocks_with_next_token(waiting[0]) >= watermark * num_blocks:
            running.append(waiting.popleft())
            free -= blocks_with_next_token(running[-1])
        for r in running:
            r.made += 1
        if step >= STARTUP:
            tokens = sum(r.prompt + r.made for r in running)
            used = (num_blocks - free) * block_size
            totals.update(tokens=tokens, internal=used - tokens, free=SLOTS - used)
            batch += len(running)
    return percent(totals, batch, waiting)


def over_seeds(serve, seeds=range(8), **lengths):
    """Mean and spread over the seeds of each kind's percentage, and the mean batch."""
    runs = [serve(draw_requests(seed, **lengths)) for seed in seeds]
    kinds = runs[0][0]
    means = {kind: float(np.mean([bar[kind] for bar, _ in runs])) for kind in kinds}
    spreads = {kind: float(np.std([bar[kind] for bar, _ in runs])) for kind in kinds}
    return means, spreads, float(np.mean([batch for _, batch in runs]))


# %% [markdown]
"""
Run them, and lay the published bars beside.
"""

# %% mystnb={"image": {"alt": "Stacked bars, simulated with the published outlined below. Max: about a fifth of the memory holds tokens and more than half is internal waste. Oracle: about two fifths hold tokens. Paged: about 97 percent hold tokens. Simulated and published bars agree to about one point."}}
published = {
    "Max": {"tokens": 20.4, "reserved": 13.3, "internal": 57.3, "external": 8.9},
    "Oracle": {"tokens": 38.2, "reserved": 25.2, "external": 36.6},
    "paged": {"tokens": 96.3},
}
servers = {
    "Max": lambda requests: serve_contiguous(requests, lambda prompt, output: MAXIMUM),
    "Oracle": lambda requests: serve_contiguous(requests, lambda prompt, output: prompt + output),
    "paged": serve_paged,
}
bars, batches = {}, {}
print("percent of the cache memory   simulated (spread over seeds)   published   apart")
for label, serve in servers.items():
    bars[label], spreads, batches[label] = over_seeds(serve)
    for kind, mean in bars[label].items():
        known = published[label].get(kind)
        beside = f"{known:12.1f}{mean - known:+8.1f}" if known is not None else ""
        print(f"{label:10}{kind:20}{mean:12.1f} ± {spreads[kind]:.1f}{'':12}{beside}")
print("mean batch, simulated:", {label: round(batch, 1) for label, batch in batches.items()})
draw.waste(bars, published=published, title="What fills the KV cache memory")

# %% [markdown]
"""
*Figure 7. What fills the cache memory, simulated (filled) over published (outlined), in percent. Max: 20.1 % token states against 20.4 published. Oracle: 38.7 against 38.2. Paged: 97.3 against 96.3, and the rest is slack (1.6) and
free blocks (1.1).*

Every simulated part lies within 1.0 points of the published one. Do not read more into it than it says. The tolerances set before the run were 3 points for Max and 2 for the others, and the spread over the seeds is up to 3.1 points, so agreement in the last tenths
is luck. That 57.9 % are internal waste for Max, that the Oracle gets no further than about two fifths, and that paging gets near the top: those are not.

Two things do *not* compare. The mean batches (7.0, 13.4 and 34.4) are for a pool with a queue that never ends; the paper's Figure 13 (7.00, 13.62 and 30.42) is for two requests per second. And the paper has a fourth bar, Pow2,
which guesses output lengths by powers of two; it depends on details that the paper does not print, so we leave it out (its published numbers are in the reference below).
"""

# %% [markdown]
"""
### How much of this is our assumption?

The spread of the lengths is ours. So change it, from 0.6 to 1.2 times the mean, and see which of the conclusions move.
"""

# %%
print("token states in percent, four seeds")
print("standard deviation ÷ mean" + "".join(f"{label:>10}" for label in servers))
for spread in (0.6, 0.9, 1.2):
    tokens = [over_seeds(serve, seeds=range(4), spread=spread)[0]["tokens"] for serve in servers.values()]
    print(f"{spread:25.1f}" + "".join(f"{share:10.1f}" for share in tokens))

# %% [markdown]
"""
Max moves from 17.8 to 22.4 %, the Oracle stays between 38.6 and 40.8 %, and the paged pool hardly moves at all. Where the lengths decide, the reservation policy is what suffers from them; a paged pool's waste is set by its block size and by how long requests are on average.
The order of the three bars, and their rough sizes, do not depend on our 0.9.

### Your own manager, filled up

Finally your `BlockManager` itself: a pool of 983 blocks of 16, the size of that experiment, filled with requests at their full length until it refuses. Beside Max's 7.
"""

# %%
big = BlockManager(SLOTS // 16, 16)
for n, (prompt, output) in enumerate(draw_requests(seed=0)):
    try:
        big.allocate(f"request {n}", prompt + output)
    except MemoryError:
        break
tokens = sum(seq["len"] for seq in big.seqs.values())
empty = sum(slack(seq["len"], 16) for seq in big.seqs.values())
print(f"{len(big.seqs)} requests with {tokens:,} tokens in {big.used()} of {SLOTS // 16} blocks; slack {empty} slots = {100 * empty / (16 * big.used()):.1f} % of the blocks in use")

# %% [markdown]
"""
### Why blocks of 16?

A small block has little slack. So why not blocks of one slot? The next cell shows both sides for block sizes from 1 to 256, for requests like ShareGPT's and like the much shorter ones of Alpaca (19.31 tokens in, 58.45 out), at their full length: the slack
of all requests together as a percentage of all their slots, and the mean number of table entries per request.
"""

# %% mystnb={"image": {"alt": "Slack in percent of the allocated slots over the block size from 1 to 256. Both lines start at zero and rise. At 16 the short Alpaca requests waste about a tenth and the longer ShareGPT requests under two percent; at 256 Alpaca wastes more than two thirds."}}
block_sizes = [1, 2, 4, 8, 16, 32, 64, 128, 256]
data = {"ShareGPT": (161.31, 337.99), "Alpaca": (19.31, 58.45)}
curves = {}
print(f"{'block size':28}" + "".join(f"{size:7}" for size in block_sizes))
for name, (mean_in, mean_out) in data.items():
    lengths = [prompt + output for seed in range(8) for prompt, output in draw_requests(seed, mean_in, mean_out)]
    entries = [sum(blocks_needed(n, size) for n in lengths) / len(lengths) for size in block_sizes]
    curves[name] = [100 * sum(slack(n, size) for n in lengths) / (per_request * len(lengths) * size) for size, per_request in zip(block_sizes, entries, strict=True)]
    print(f"{name + ': slack in percent':28}" + "".join(f"{share:7.1f}" for share in curves[name]))
    print(f"{name + ': table entries':28}" + "".join(f"{count:7.1f}" for count in entries))
figure = draw.savings(block_sizes, curves, "block size, slots (each step doubles it)", "slack, % of the allocated slots", title="Larger blocks waste more, short requests most")
figure.axes[0].set_xscale("log", base=2)
figure.axes[0].set_xticks(block_sizes, [str(size) for size in block_sizes])
figure

# %% [markdown]
"""
*Figure 8. Slack over block size, which doubles from mark to mark. At 16 slots, requests like ShareGPT's waste 1.5 % and requests like Alpaca's 8.8 %. At 256 it is 20.0 % and 69.9 %: most Alpaca requests then own one block and fill less than a third of it.*

On the memory side, smaller is always better. The other side is the number of blocks. At one slot per block, a ShareGPT request of mean length needs a table of 498 entries, each of which attention must look up, for a read of one token's keys and values. At 16 it needs 32. GPUs read long pieces much better than
short ones, so very small blocks cost time. That part no memory count can show; the paper measured it. In its section 7.2, ShareGPT's latency was best with blocks of 16 to 128, Alpaca's was good at 16 and 32 and much worse above. Compare with the lines:
at 128 the Alpaca slack is 46.8 %. The one block size that is good for both ends is about 16, and 16 became vLLM's default.
"""

# %% [markdown]
"""
## Check your understanding

Answer each; a wrong answer is told why it is wrong, and may be mended.

**1.** A paged pool with blocks of 16 runs 40 requests. What is the most slack it can have, in slots?
"""

# %% tags=["remove-input"]
ask("most-slack")

# %% [markdown]
"""
**2.** A pool has 64 free slots and refuses a request of 40 tokens. Which kind of pool is it, and which waste is this? Can it happen in a paged pool with blocks of 16 that has four free blocks?
"""

# %% tags=["remove-input"]
ask("refused-40")

# %% [markdown]
"""
**3.** A request has 48 tokens in blocks of 16. How many blocks does it hold, and how many will it hold after the next token?
"""

# %% tags=["remove-input"]
ask("exactly-48")

# %% [markdown]
"""
**4.** The Oracle knows every length in advance and still holds tokens in only about two fifths of the memory. Where is the rest, and which part of it would remain if its allocator wasted nothing by rounding?
"""

# %% tags=["remove-input"]
ask("oracle")

# %% [markdown]
"""
**5.** "Our cache has 31.25 % slack." What do you ask?
"""

# %% tags=["remove-input"]
ask("percent-of-what")

# %% [markdown]
"""
## What people get wrong

**"External fragmentation is the main loss of contiguous caches."** It is not, where the maximum is reserved. In the paper's Figure 2 external is 8.9 % for Orca (Max) and internal is 57.3 %. The holes between requests are the picture everybody remembers; over-reservation inside
the requests is what filled the memory.

**"Paging has no waste."** It has slack, in the last block of every request: about half a block on average if lengths fall anywhere, and up to a whole block less one slot. What it removes is the *reserved* part and the *external* part. With short requests and large blocks the slack alone can be most of the memory, as the sweep shows.

**"Less than 4 % waste means that 96 % of the GPU's memory does useful work."** The number is about the KV cache memory only, not about weights, activations or the rest. It is a measurement of 2023, with blocks of 16 and conversations of some 500 tokens. It counts what a pool keeps free as well as
the slack. And it says nothing of how much memory a *token* takes: that is the model's business.

**"33 tokens in blocks of 16 waste 31.25 % of the memory."** 15 of 48 slots of *this allocation* are empty. Divide by the pool and the number becomes tiny; take all requests of the ShareGPT kind together and it is 1.5 % of their slots. A percentage without its denominator is not a fact.

**"Blocks are ⌊T ÷ P⌋ + 1."** Right for 33, wrong for 32: it gives 3 blocks where 2 are full to the last slot. Every exact multiple then holds one empty block. Round up instead; and let 0 tokens need 0 blocks.

**"A new block is needed when `len % block_size == 1`" / "… `== 0`".** Neither is right by itself. It depends on whether `len` already counts the new token: 0 if not, 1 if it does. Six public threads about one correct line show how easily this is misread.

**"Physical blocks of a request are in order."** The *table* is in order. The numbers in it may go down as well as up ([7, 2, 5] in Figure 1), and after some traffic they usually do. Code that assumes `table[i + 1] == table[i] + 1` works in a fresh pool and fails in a used one.

**"Paging makes attention faster."** The paper's own measurement: its paged attention kernel was 20–26 % *slower* than FasterTransformer's, because of the table look-ups and the extra branches. Serving gets faster because more requests fit and run together: in Figure 13 30.42 requests at once, against 7.00 (Max) and 13.62 (Oracle).

**"So the smallest block is the best."** Slack is the only thing that gets better. Tables grow, and reads come in smaller pieces; the paper found latency best between 16 and 128 for ShareGPT.
"""

# %% [markdown]
"""
## Reference

**Symbols.** T tokens of a request, P slots per block, N blocks in the pool, L layers, H key-value heads, D head dimension, b bytes per number.

| quantity | formula | example |
|---|---|---|
| KV bytes per token | 2 × L × H × D × b | OPT-13B: 2 × 40 × 40 × 128 × 2 = 819,200 |
| bytes of a block | P × KV bytes per token | OPT-13B, P = 16: 12.5 MiB; Llama-3-8B: 2 MiB |
| blocks | ⌈T ÷ P⌉ | T = 33, P = 16: 3 |
| slots | P × blocks | 48 |
| slack | slots − T, from 0 to P − 1 | 15 |
| slack fraction | slack ÷ slots of this allocation | 15 ÷ 48 = 0.3125 |
| slot of token t | table[t div P] × P + t mod P | t = 32, table [7, 2, 5], P = 16: slot 80 |
| new block on [append](../../book/glossary.md#term-append), length *before* the token | length mod P = 0 | 32 → 33: yes; 31 → 32: no |
| requests at once, maximum M reserved | ⌊slots ÷ M⌋ | 15,728 and 2,048: 7 |

**Boundaries worth remembering** (P = 16): 0 tokens, 0 blocks; 1 to 16 tokens, 1 block; 17 to 32, 2 blocks; 20 tokens, 12 more appends fit, the 13th takes a block.

**Published numbers used here**

| what | value | where |
|---|---|---|
| slots for OPT-13B / 66B / 175B | 15.7K (12 GB) / 9.7K (21 GB) / 60.1K (264 GB) | [1], Table 1 |
| token states, Orca Max / Pow2 / Oracle, vLLM | 20.4 / 26.8 / 38.2, 96.3 % | [1], Figure 2 |
| reserved / internal / external & others, Max | 13.3 / 57.3 / 8.9 % | [1], Figure 2 |
| the same, Pow2 | 17.9 / 13.6 / 41.6 % | [1], Figure 2 |
| the same, Oracle | 25.2 / none / 36.6 % | [1], Figure 2 |
| mean lengths in and out, ShareGPT; Alpaca | 161.31 and 337.99; 19.31 and 58.45 tokens | [1], Figure 11 |
| requests at once, Max / Pow2 / Oracle / vLLM | ShareGPT (2 requests/s): 7.00 / 9.81 / 13.62 / 30.42; Alpaca (30 requests/s): 7.00 / 43.24 / 72.75 / 132.44 | [1], Figure 13 |
| paged attention kernel | 20–26 % slower than FasterTransformer's | [1], 7.1 |
| block size | ShareGPT best at 16–128; Alpaca good at 16 and 32, much worse above; default 16 | [1], 7.2 |
| waste of existing systems; of vLLM | "60–80 %"; "under 4 %" | [2] |

"Existing systems waste 60–80 %" and "token states 20.4 to 38.2 %" are the same measurement, told from the other side: 100 − 38.2 = 61.8 and 100 − 20.4 = 79.6.

**Plain code ideas.** The two cells that are useful elsewhere are `slot_of` (the address of a token through the table) and `audit` (what must hold after every operation). A [block manager](../../book/glossary.md#term-block-manager) that keeps its free list in a heap, a bitmap or a linked list makes the same promises as yours with a
list; the choice changes the time of an operation, not its result.

**Sources**

1. W. Kwon and others, *Efficient Memory Management for Large Language Model Serving with PagedAttention*, SOSP 2023, [arXiv 2309.06180](https://arxiv.org/abs/2309.06180).
2. *vLLM: Easy, Fast, and Cheap LLM Serving with PagedAttention*, 20 June 2023, [vLLM blog](https://blog.vllm.ai/2023/06/20/vllm.html).
3. S. Zhang and others, *OPT: Open Pre-trained Transformer Language Models*, 2022, [arXiv 2205.01068](https://arxiv.org/abs/2205.01068): hidden sizes and layers. The other model shapes are from the models' published configurations, except Qwen2.5-7B, which follows from the 0.87 MB per block in a table of the vLLM blog (8 January 2026).
4. The boundary in nano-vllm: [65](https://github.com/GeeeekExplorer/nano-vllm/pull/65), [66](https://github.com/GeeeekExplorer/nano-vllm/pull/66), [71](https://github.com/GeeeekExplorer/nano-vllm/pull/71),
   [150](https://github.com/GeeeekExplorer/nano-vllm/issues/150), [151](https://github.com/GeeeekExplorer/nano-vllm/pull/151), [240](https://github.com/GeeeekExplorer/nano-vllm/issues/240); in MinivLLM: [75](https://github.com/Wenyueh/MinivLLM/issues/75).
5. Blocks given back twice: vLLM [1556](https://github.com/vllm-project/vllm/issues/1556), [3347](https://github.com/vllm-project/vllm/issues/3347), [33377](https://github.com/vllm-project/vllm/issues/33377) and FastDeploy 3710; units mixed up: mini-sglang 80.
"""

# %% [markdown]
"""
## Two questions to take along

Lessons begin to fade when the page is closed. [Lesson 2](../02_prefix_sharing/02_prefix_sharing.ipynb) ends by asking you these two again, without the page. Answer them now, from memory.

**1.** Name the three wastes of a contiguous cache, and say for each whether paging removes it. What is left?
"""

# %% tags=["remove-input"]
ask("three-wastes")

# %% [markdown]
"""
**2.** A request has 33 tokens in blocks of 16. Blocks, slots, slack, and the slack as a percentage of what? And which append will take its next block?
"""

# %% tags=["remove-input"]
ask("next-block-33")

# %% [markdown]
"""
## What you predicted

Committing to an answer is what this cell counts, 2 points for all of the lesson's predictions. Whether you were right earns nothing and costs nothing.
"""

# %% nbgrader={"grade": true, "grade_id": "predictions", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
check("01_contiguous_vs_paged/predictions", predictions("01_contiguous_vs_paged"))
### BEGIN HIDDEN TESTS
check("01_contiguous_vs_paged/predictions", predictions("01_contiguous_vs_paged"), thorough=True)
### END HIDDEN TESTS

# %% [markdown]
"""
Next: [Lesson 2, prefix sharing](../02_prefix_sharing/02_prefix_sharing.ipynb). Many requests begin with the same text. Why store it more than once?
"""
