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
# Lesson 5: What a copy really costs

Since lesson 3 we have said "copied" and meant that it costs something. How much? This lesson measures it, on the machine that you
have. On a GPU it answers the question for that GPU. On a CPU it runs just the same and answers it for the CPU: every caption names
the device, and nothing in it says anything about another one.

**What you will build.** One function of a few lines, `copy_blocks`, which does all copies of a [decode step](../../book/glossary.md#term-decode-step) at once; then a measurement, a
line through it, and a paragraph that reads your own picture.

**Time.** About an hour. The measurement takes under a minute on a CPU and under three on a GPU.

**What you need.** torch, as in [lesson 4](../04_real_cache/04_real_cache.ipynb); a CUDA device if you have one. The cells below need
torch and do not run inside a web page: run them on your own machine or on your course's hub. The words are in the
[glossary](../../book/glossary.md).
"""

# %%
import torch

from autograder import ask, check, draw, predict, predicted, predictions
from autograder.copycost import figures, measure, reading, records, shapes

device = measure.device_here()
print(f"this notebook measures on: {device}")

# %% [markdown]
"""
## The idea

### What has to be moved

A [block](../../book/glossary.md#term-block) of 16 [tokens](../../book/glossary.md#term-token) holds a key and a value for each token, layer and [head](../../book/glossary.md#term-head). From lesson 1:
[bytes per token](../../book/glossary.md#term-bytes-per-token) = 2 × layers × KV heads × head dimension × bytes per number.
"""

# %%
print(f"{'model':22}{'bytes per token':>16}{'block of 16':>14}")
for shape in shapes.SHAPES:
    print(f"{shape.name:22}{shape.token_bytes:16,}{shape.block_bytes / 2**20:10.2f} MiB")

# %% [markdown]
"""
Copying a paragraph of text moves a few hundred bytes. Copying the block that holds its keys and values moves megabytes, and each of
them twice: it is read, and it is written. A memory that moves 4.8 TB a second (the figure in the H200's data sheet) needs at least
0.9 microseconds for the block of Llama-3-8B; one of 3.35 TB a second (H100) 1.3.

### Where it lies

That block is not one piece of memory. An engine keeps a key cache and a value cache for each layer, as you did in lesson 4, and
block 5 is "entry 5" of each of them. **[Layers first](../../book/glossary.md#term-layers-first)** we call that layout. The other one, **blocks first**, puts everything that
belongs to a block side by side. Here is block 5 of a small cache of 3 layers and 8 blocks, in both:
"""

# %% mystnb={"image": {"alt": "Two memory maps of 48 places. Layers first: block 5 is six separate places, 5, 13, 21, 29, 37 and 45. Blocks first: block 5 is one run of six places from 30 to 35."}}
draw.memory(
    [
        ("layers first", [(piece * 8 + 5, 1, "tokens", "block 5") for piece in range(2 * 3)]),
        ("blocks first", [(5 * 2 * 3, 2 * 3, "tokens", "block 5")]),
    ],
    size=2 * 3 * 8,
)

# %% [markdown]
"""
*Figure 1. Where block 5 lies; one place is the keys or the values of one block in one layer. Layers first it is six pieces, blocks
first it is one.*

### Overhead and transfer

To copy anything a program makes a **call**. On a GPU a call is a [request](../../book/glossary.md#term-request) to another chip, and it takes some microseconds until the
first byte moves, however little is asked for. So the time of a call has two parts:

**t = overhead + bytes ÷ bandwidth**

With few bytes the overhead is nearly all of it: the call is *bound by its overhead* (on a GPU one says [launch-bound](../../book/glossary.md#term-launch-bound)). With many
bytes the transfer is, and the call is *bound by bandwidth*. In between is a **[crossing](../../book/glossary.md#term-crossing)**, where both take the same time.

A step of a hundred [sequences](../../book/glossary.md#term-sequence) may have to copy several blocks. One call for each piece of each block pays the overhead very often. This
is why the PagedAttention authors wrote one kernel that does all copies of a step ("fused block copy", §5.1): vLLM's change 32 took
the number of launches from 2 × layers × blocks down to one.

## Predict first

Think of 64 blocks of Llama-3-8B (32 layers) that are to be copied, in the layout with layers first.
"""

# %% tags=["remove-input"]
predict("calls")

# %% [markdown]
"""
Now a way that does any number of copies in one call.
"""

# %% tags=["remove-input"]
predict("one-call")

# %% [markdown]
"""
And now the whole picture: one [prompt](../../book/glossary.md#term-prompt) of 2,005 tokens in blocks of 16, four parallel samples, 300 new tokens for each.
"""

# %% tags=["remove-input"]
predict("worth")

# %% [markdown]
"""
## Hands-on: bytes and microseconds

**Worked example.** Llama-3-8B: 2 × 32 × 8 × 128 × 2 = 131,072 bytes a token, × 16 = 2,097,152 bytes a block, in 2 × 32 = 64 pieces.
At 4.8 TB a second, read plus written: 2 × 2,097,152 ÷ 4,800,000 bytes a microsecond = 0.87 microseconds. If a call had an overhead of
5 microseconds, 5 × 4.8 million = 24 million bytes could be moved meanwhile, that is 24,000,000 ÷ 4,194,304 = 5.7 blocks: from the
sixth block on the transfer takes longer than the overhead.

**Your turn**, for Llama-3-70B: 80 layers, 8 KV heads of 128 numbers, 2 bytes a number, blocks of 16.

- `block_bytes`: how many bytes has a block?
- `pieces`: in how many pieces does it lie, layers first?
- `microseconds`: how long does its copy take at 4.8 TB a second, read plus written, with no overhead? Two digits after the point.
- `crossing`: back to blocks of 2 MiB (2,097,152 bytes), and an overhead of 10 microseconds: the fewest blocks whose transfer takes
  longer than that.
"""

# %% nbgrader={"grade": false, "grade_id": "numbers", "locked": false, "schema_version": 3, "solution": true, "task": false}
numbers = {"block_bytes": None, "pieces": None, "microseconds": None, "crossing": None}    # replace each None by your number
### BEGIN SOLUTION
numbers = {"block_bytes": 5_242_880, "pieces": 160, "microseconds": 2.18, "crossing": 12}
### END SOLUTION

# %% nbgrader={"grade": true, "grade_id": "numbers-checks", "locked": true, "points": 4, "schema_version": 3, "solution": false, "task": false}
check("05_copy_costs/numbers", numbers)
### BEGIN HIDDEN TESTS
check("05_copy_costs/numbers", numbers, thorough=True)
### END HIDDEN TESTS

# %% [markdown]
"""
## Worked example: one block, three ways

From here on keys and values are one tensor, with the two as its first dimension:
(2, layers, blocks, block_size, heads, head_dim). A copy of block 1 to block 3, piece by piece:
"""

# %%
def piece_by_piece(cache, source, target):
    """A call for the keys and one for the values, in every layer."""
    for piece in range(2):
        for layer in range(cache.shape[1]):
            cache[piece, layer, target] = cache[piece, layer, source]


def small_cache():
    """Two layers, five blocks of one slot, one head of one number: each number tells where it is, as piece layer block."""
    numbers = [[[100 * piece + 10 * layer + block for block in range(5)] for layer in range(2)] for piece in (1, 2)]
    return torch.tensor(numbers, dtype=torch.float32).reshape(2, 2, 5, 1, 1, 1)


cache = small_cache()
piece_by_piece(cache, 1, 3)
print(cache.reshape(2, 2, 5).int().tolist())

# %% [markdown]
"""
**Faded example.** The same with a single line, `cache[:, :, 3] = cache[:, :, 1]`: two colons for "both pieces, all layers". And for
several blocks at once: fill the gaps.

1. `cache[:, :, [1, 4]]` gathers the blocks 1 and 4 of a cache of shape (2, 2, 5, 1, 1, 1). The result has the shape (2, 2, …, 1, 1, 1).
2. `cache[:, :, [3, 0]] = cache[:, :, [1, 4]]` copies block 1 to block … and block 4 to block ….
3. `cache[:, :, [3, 0]].copy_(cache[:, :, [1, 4]])` changes … of the cache's blocks.
"""

# %% tags=["remove-input"]
ask("gather-many")

# %% [markdown]
"""
## Code: copy many blocks

`copy_blocks(cache, pairs)` does all copies of a step.

- `cache`: shape (2, layers, blocks, block_size, heads, head_dim), on any device;
- `pairs`: a list of pairs (source, target) of block numbers, possibly empty. A source may stand in several pairs; every target
  stands in one pair only and is nobody's source.

Afterwards each target holds what its source holds, keys and values in every layer, and nothing else has changed. The cache is
changed in place; what is returned does not matter. The numbers stay on the cache's device: nothing is fetched to the host, and no
tensor that lies elsewhere is mixed with the cache. (Python lists of block numbers may be used as an index on every device.)
"""

# %% nbgrader={"grade": false, "grade_id": "copy_blocks", "locked": false, "schema_version": 3, "solution": true, "task": false}
def copy_blocks(cache, pairs):
    """Copy blocks within a cache, in place: each pair is (source, target). Roughly 3 lines.

    Shape of the cache: (2, layers, blocks, block_size, heads, head_dim), keys first, then values.
    """
    ### BEGIN SOLUTION
    sources = [source for source, target in pairs]
    targets = [target for source, target in pairs]
    cache[:, :, targets] = cache[:, :, sources]
    ### END SOLUTION

# %% nbgrader={"grade": true, "grade_id": "copy_blocks-checks", "locked": true, "points": 6, "schema_version": 3, "solution": false, "task": false}
check("05_copy_costs/copy_blocks", copy_blocks)
### BEGIN HIDDEN TESTS
check("05_copy_costs/copy_blocks", copy_blocks, thorough=True)
### END HIDDEN TESTS

# %% [markdown]
"""
Yours, on the small cache, and on a larger one on this notebook's device:
"""

# %%
cache = small_cache()
copy_blocks(cache, [(1, 3), (4, 0)])
print(cache.reshape(2, 2, 5).int().tolist())

cache = torch.rand(2, 32, 40, 16, 8, 128, device=device)
before = cache.clone()
copy_blocks(cache, [(n, 39 - n) for n in range(20)])
print(f"on {device}, 20 blocks:", "exact" if torch.equal(cache[:, :, 20:], before[:, :, :20].flip(2)) and torch.equal(cache[:, :, :20], before[:, :, :20]) else "not exact")
del cache, before

# %% [markdown]
"""
## Measure

The next cell measures this machine. `measure` copies with several ways, from the loop over pieces to one call for all; each is
checked bit for bit before it is timed. A time is the median of several repeats, with fresh random blocks each time and a cache that has been flushed
before, so that nothing lies ready in the processor's or the GPU's fast memory. On a GPU the times are taken by CUDA events.

What it finds is kept in `copy_costs.json` beside this notebook and handed in with it, so that whoever reads your answer sees your
pictures. `records.own(again=True)` measures once more.
"""

# %%
record = records.own()

# %% [markdown]
"""
### The ceiling

One large copy, half of the pool to the other half. Nothing moves blocks faster than that.
"""

# %%
print(records.device_words(record))
print(f"one large copy: {reading.ceiling(record) / 1e9:,.1f} GB a second, read plus written")
for what, shape in (("one block, one layer", shapes.ONE_LAYER), ("one block, 32 layers", shapes.LLAMA_3_8B)):
    for way, seconds in reading.one_block(record, shape).items():
        print(f"{what:22}{way:30}{1e6 * seconds:10.1f} microseconds")

# %% [markdown]
"""
### From one block to many
"""

# %% mystnb={"image": {"alt": "Time of one call over the number of blocks, both axes logarithmic, one curve for each way of copying, with the device named below. The values are those of the machine that built this page."}}
predicted("calls")
figures.times(record, "Copying blocks: time of a call")

# %% [markdown]
"""
*Figure 2. The time of a call over the number of blocks, for each way; the device stands under the axis. Thin lines: t = overhead +
bytes ÷ bandwidth, fitted to each way. Shaded: the middle half of the repeats.*

A curve that is flat at the left is bound by its overhead there: another block costs nothing. One that rises in proportion is bound by
bandwidth, or pays the overhead anew for each block, as the loops do.
"""

# %% mystnb={"image": {"alt": "GB a second, read plus written, over the number of blocks, one curve for each way of copying, and a dashed line for one large copy. The values are those of the machine that built this page."}}
figures.rates(record, "Copying blocks: rate reached")

# %% [markdown]
"""
*Figure 3. The same measurements as rates. The dashed line is one large copy.*

### The line

What the fit says, way by way. The crossing is the number of blocks from which on transfer takes longer than the overhead; below 1 it
means that a single block is bound by bandwidth already. The last column says how far a measured time is from the line at most:
where that is much, a straight line is not the whole story (a CPU's caches, an allocation, a neighbour on the machine).
"""

# %%
predicted("one-call")
print(records.device_words(record))
print(f"{'way':30}{'overhead':>14}{'GB a second':>13}{'crossing':>10}{'worst':>8}")
for curve in reading.curves(record):
    if curve.line:
        print(f"{curve.way:30}{1e6 * curve.line.overhead:11.1f} µs{curve.line.bandwidth / 1e9:13.1f}{curve.crossing:10.1f}{100 * curve.line.worst:7.0f}%")

# %% [markdown]
"""
## What a copy is worth

How long is a copy beside the work around it? In a decode step of one sequence a model reads all its weights once. The record has the
rate at which this machine reads a matrix while it multiplies a single token with it; Llama-3-8B's weights at that rate give an
*estimate* of its step. No model is run here, and [attention](../../book/glossary.md#term-attention) and everything else are left out, so a real step takes longer.

[Copy-on-write](../../book/glossary.md#term-copy-on-write) fires at most n − 1 times for a prompt that n samples share (lesson 3).
"""

# %%
predicted("worth")
step = reading.decode_step(record)
one_copy = min(reading.one_block(record, shapes.LLAMA_3_8B).values())
copies, steps = 4 - 1, 300
print(records.device_words(record))
print(f"a decode step, estimated from the weights' reading alone: {1e3 * step:,.1f} ms")
print(f"the fastest copy of one block, measured:                 {1e3 * one_copy:,.3f} ms")
print(f"{copies} copies beside {steps} steps: {100 * copies * one_copy / (copies * one_copy + steps * step):.4f} % of the time")

# %% [markdown]
"""
So copies are cheap *because they are rare and done together*. They get dear in three ways: done for every sequence at every [fork](../../book/glossary.md#term-fork) (an
[eager copy](../../book/glossary.md#term-eager-copy)) instead of at the first write; done piece by piece, with an overhead for each; or done while everything else waits.

## Swap or recompute

When blocks run out somebody is preempted (lesson 3). Its blocks can be **swapped**: moved to the host's memory, and back later. Or they
are thrown away and **recomputed** from the tokens. The PagedAttention authors found that with small blocks [recompute](../../book/glossary.md#term-recompute) is better, since
many small transfers use the link badly, with large blocks [swap](../../book/glossary.md#term-swap), and that between 16 and 64 the two come out alike (§7.3). vLLM's V1 engine recomputes.

On a GPU the record has the transfers of blocks of several sizes, to pinned memory (which the GPU can reach by itself) and to pageable
memory; on a CPU there is no other memory to swap to.
"""

# %%
print(records.device_words(record))
tokens = 1_024
print(f"recompute {tokens:,} tokens, estimated from the matrices: {1e3 * reading.recompute(record, tokens):,.1f} ms")
if not record["swap"]:
    print("swap: not measured, a CPU's memory is the host's memory")
for host in ("pinned", "pageable") if record["swap"] else ():
    for block_size in (1, 16, 256):
        print(f"swap them out and in, {host:8} memory, blocks of {block_size:3}: {1e3 * reading.swap(record, tokens, block_size, host):,.1f} ms")
    size = reading.swap_crossing(record, tokens, host)
    print(f"  {host}: " + (f"from blocks of {size} on, swapping is faster" if size else "recompute is faster with every block size up to 256"))

# %% [markdown]
"""
## Records of GPUs
"""

# %% mystnb={"image": {"alt": "Rates of copying blocks on a GPU, one figure for each record that comes with the book."}}
from IPython.display import display

print(records.about_published())
for taken in records.published():
    display(figures.rates(taken))

# %% [markdown]
"""
## Write it down

Three to six sentences, marked by hand: **Read your own Figure 2 or 3.** Which way is bound by its overhead at one block, and how do
you see it? Where does the best way cross over, and how near does it come to the ceiling? What would you tell somebody who copies piece
by piece? Name your device.
"""

# %% [markdown] nbgrader={"grade": true, "grade_id": "reads_the_plot", "locked": false, "points": 4, "schema_version": 3, "solution": true, "task": false}
"""
### BEGIN SOLUTION
It depends on the machine. 1 point each: (1) names the device and a way that is bound by its overhead, by a flat beginning or by a
fitted overhead that is large beside the time of one block (or says, with numbers, that on this device a single block is bound by bandwidth already); (2) gives the
crossing of the best way from the table and what it means; (3) compares the best way's rate at many blocks with the dashed line, and
explains the gap by the overhead or says what else it may be; (4) advice that follows: one call for all blocks, or a layout with blocks
first, because the loop pays 2 × layers overheads for each block.
### END SOLUTION
"""

# %% [markdown]
"""
## Check your understanding

**1.** On some GPU a call has an overhead of 6 microseconds, and one block of 2 MiB needs 1 more. How long do 8 blocks take, in one
call, and in a loop of 8 calls that wait for one another?
"""

# %% tags=["remove-input"]
ask("eight-blocks")

# %% [markdown]
"""
**2.** The same cache, layers first and blocks first. In which layout does a copy of *one* block need fewer calls if each call moves
one piece, and by which factor, for a model of 32 layers?
"""

# %% tags=["remove-input"]
ask("layout-factor")

# %% [markdown]
"""
**3.** Why are the pairs drawn anew for each repeat?

<details><summary>Answer</summary>

The second time the same block is read, it may still lie in a fast cache near the processor, and the time would be that of the cache.
Fresh blocks from a pool far larger than the cache, and a flush in between, measure the memory. An engine copies a block that was
written a step ago by somebody, with the whole model's weights read in between: it is not in the cache either.

</details>

**4.** Somebody reports one number: "a copy takes 3.1 microseconds". What is missing?

<details><summary>Answer</summary>

Which device and software; how many bytes, in how many pieces; how many calls; how often it was repeated and how far the repeats were
apart; whether the time to prepare the list of blocks is in it. A record has all of these.

</details>

## What people get wrong

**"A fork copies memory."** It raises counts. The copy comes with the first write, for one block at most.

**"A copy costs bandwidth."** A single small one costs overhead. On an H20, one call of cudaMemcpyAsync was measured at about 2.3
microseconds (FlexKV, change 193), more than the 0.9 to 1.3 that the block's bytes need at the data sheets' rates of H200 and H100.

**"Then the overhead is per block."** It is per *call*. Doing all blocks of a step in one call pays it once.

**"The rate is bytes divided by time."** Which bytes? A copy within a device reads and writes each of them; over a link to the host each
passes once. State it, or be wrong by a factor of two.

**"My laptop's curve shows what a GPU does."** It shows what the laptop does. A CPU starts a copy with a function call and keeps a block
in its caches; a GPU does neither.

**"Swapping is how engines preempt."** vLLM's V1 engine recomputes; moving blocks to the host is a separate connector there.

## Reference

| quantity | formula | Llama-3-8B |
|---|---|---|
| bytes of a block | 2 × layers × KV heads × head dimension × bytes × [block size](../../book/glossary.md#term-block-size) | 2,097,152 |
| pieces, layers first | 2 × layers | 64 |
| bytes moved by a copy | 2 × bytes of the block | 4,194,304 |
| time of a call | overhead + bytes moved ÷ bandwidth | measured above |
| crossing | overhead × bandwidth ÷ (2 × bytes of a block), in blocks | measured above |
| copies of a shared prompt | at most n − 1 | 3 for n = 4 |

Llama-3-70B: 5 MiB, Qwen3-8B: 2.25 MiB, Llama-2-13B: 12.5 MiB, DeepSeek-V3 (one latent vector instead of key and value): 1.07 MiB.

A record without a notebook: `python -m autograder.copycost --record FILE`.

**Sources.**

- Kwon et al., *Efficient Memory Management for Large Language Model Serving with PagedAttention*, SOSP 2023, arXiv 2309.06180: fused
  block copy §5.1, recompute and swap §4.5 and §7.3. The launches saved: vLLM, change 32 (0f40557a).
- FlexKV, change 193: the time of one cudaMemcpyAsync on an H20. vLLM's blog of 2026-01-08: transfers between GPU and host by block
  size; all layers in one block raised their throughput tenfold.
- Data sheets: H100 SXM 3.35 TB/s, H200 4.8 TB/s. Shapes: the models' published configurations.
- Every other time and rate on this page was measured by a cell on it, on the device that the cell names.

## Two recall questions

**From lesson 3.** Four samples share a prompt of 2,000 tokens in blocks of 16. How many copies?
"""

# %% tags=["remove-input"]
ask("recall-none")

# %% [markdown]
"""
**From lesson 4.** `append` has answered `True`. In which order do the engine's copy and its write of the new token have to happen?
"""

# %% tags=["remove-input"]
ask("recall-order")

# %% [markdown]
"""
## What you predicted

This cell counts that you committed to an answer, 1 point. Whether you were right earns nothing and costs nothing.
"""

# %% nbgrader={"grade": true, "grade_id": "predictions", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
check("05_copy_costs/predictions", predictions("05_copy_costs"))
### BEGIN HIDDEN TESTS
check("05_copy_costs/predictions", predictions("05_copy_costs"), thorough=True)
### END HIDDEN TESTS

# %% [markdown]
"""
This was the last lesson. Where the field goes from here is in [reading on](../../book/reading.md).
"""
