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
# Lesson 3: Copy-on-write

In lesson 2 [requests](../../book/glossary.md#term-request) shared the *full* [blocks](../../book/glossary.md#term-block) of a common [prefix](../../book/glossary.md#term-prefix), and nobody ever wrote into a shared block. Now [sequences](../../book/glossary.md#term-sequence) share
everything they have, the partly filled last block included, and then go on to write different [tokens](../../book/glossary.md#term-token). This lesson is about the
moment of that write.

**What you will build.** The whole `BlockManager`: `_take`, `allocate`, `fork`, `append`, `release` and `used`, about 35 lines,
with exact [reference counts](../../book/glossary.md#term-reference-count) and [copy-on-write](../../book/glossary.md#term-copy-on-write). Then `eviction_order`, which says in what order to give blocks up when memory runs
out. In lesson 4 this same class drives a real transformer.

**Time.** About two hours; one of them is the code.

**What you need.** Lessons [1](../01_contiguous_vs_paged/01_contiguous_vs_paged.ipynb) ([block tables](../../book/glossary.md#term-block-table), [slack](../../book/glossary.md#term-slack)) and
[2](../02_prefix_sharing/02_prefix_sharing.ipynb) ([full blocks](../../book/glossary.md#term-full-block) of a prefix). Python only: no GPU, no model. Words that are new to
you are in the [glossary](../../book/glossary.md).
"""

# %%
import math
from collections import Counter
from types import SimpleNamespace

from autograder import ask, check, draw, predict, predicted, predictions, simulate
from autograder.record import read_state


# %% [markdown]
"""
## The idea

A user asks for two answers to one [prompt](../../book/glossary.md#term-prompt). Both answers start from the same 20 tokens, so both need the same keys and values for
them. Storing these twice is waste. A **[fork](../../book/glossary.md#term-fork)** avoids it: the second sequence, B, gets its own block table, but the table holds
the *same [physical block](../../book/glossary.md#term-physical-block) numbers* as A's. Each block remembers how many table entries point at it: its **reference count**. A fork
raises counts. It copies nothing.

That works as long as both only read. But A and B are about to diverge: A's next token is "on", B's is "by". With blocks of 16,
the 20 tokens fill block 0 and four slots of block 1, so the 21st token belongs in the fifth slot of block 1, for A *and* for B.
One slot cannot hold both. If both simply wrote there, whoever writes last would win, and the other would from then on read a
token at position 20 that is not its own. Its text would go wrong without it having done anything, and no error would be raised.

So a shared block is read-only in spirit. The rule at a write:

> If the count of the block that is to be written is above 1: **take** a new block, **copy** the old block's contents into it,
> **lower** the old block's count by 1, and **repoint** this one table entry at the new block. Then write.
> If the count is 1, nobody else reads the block: write in place.

That is **copy-on-write**, the same rule by which an operating system lets a forked process share its parent's pages. Full blocks
are never written again, so they stay shared for good. Only the partly filled last block can ever be copied.

Two things make it more than an exercise:

- **A copy costs something.** Copying a paragraph of text is a few hundred bytes. One block of 16 tokens is 2 MiB in Llama-3-8B, 5
  MiB in Llama-3-70B and 12.5 MiB in Llama-2-13B (fp16), and it lies in pieces, a key part and a value part for every layer.
  Copying it takes time on the GPU and launches to start it. Lesson 5 measures this.
- **Counts must be exact.** A count that is too high keeps a block for ever: a [leak](../../book/glossary.md#term-leak). A count that is too low frees a block that
  another sequence still reads: the block is handed to a stranger, who writes over it, and the text of the first goes wrong much
  later and somewhere else.

The pictures below are stills: their tables are written down by hand, since there is no manager yet. A square is a physical block
with its number; the cells in it are the [slots](../../book/glossary.md#term-slot).
"""

# %%
def still(num_blocks, block_size, tables, ref=None):
    """A pool written down by hand: tables is {name: (blocks, tokens)}; counts follow from them unless given."""
    entries = Counter(block for blocks, _ in tables.values() for block in blocks)
    ref = dict(entries) if ref is None else ref
    return SimpleNamespace(
        num_blocks=num_blocks,
        block_size=block_size,
        free=[block for block in range(num_blocks) if block not in ref],
        ref=ref,
        seqs={name: {"blocks": list(blocks), "len": tokens} for name, (blocks, tokens) in tables.items()},
        used=lambda: len(ref),
    )


# %% [markdown]
"""
## See it

**Step 1: `allocate("A", 20)`.** A pool of 10 blocks of 16 slots. A's 20 tokens need two blocks; the lowest free ones are 0 and 1.
"""

# %% mystnb={"image": {"alt": "Sequence A with 20 tokens holds block 0, full, and block 1 with 4 of 16 slots filled. Blocks 2 to 9 are free."}}
draw.blocks(still(10, 16, {"A": ([0, 1], 20)}), title="After allocate: A has 20 tokens in two blocks")

# %% [markdown]
"""
*Figure 1. A's block table is [0, 1]. Block 0 is full, block 1 holds four tokens and has twelve empty slots.*

**Step 2: `fork("A", "B")`.** B has a table of its own with the same numbers. Both counts are now 2. Still two blocks are in use,
for 40 tokens' worth of sequence.
"""

# %% mystnb={"image": {"alt": "Sequences A and B both have the table 0, 1. Blocks 0 and 1 are shared, each with a reference count of 2. Eight blocks are still free."}}
draw.blocks(still(10, 16, {"A": ([0, 1], 20), "B": ([0, 1], 20)}), title="After fork: both tables point at the same two blocks")

# %% [markdown]
"""
*Figure 2. After the fork blocks 0 and 1 are shared (×2). No block was taken and no byte was copied.*

**Step 3: `append("B")`.** B gets its 21st token. Before you see what happens, say it.

## Predict first

After B's [append](../../book/glossary.md#term-append), and before A does anything:

1. How many references has block 0?
2. How many blocks are in use?
3. What is B's block table?
"""

# %% tags=["remove-input"]
predict("b-appends")

# %% [markdown]
"""
The third picture is missing on purpose: your own manager will draw it. The pool below plays the same walk. It goes no further
than the fork until you have committed your [prediction](../../book/glossary.md#term-prediction); after that step on, or press the buttons and make a [history](../../book/glossary.md#term-history) of your own.
"""

# %% tags=["remove-input"]
simulate.pool(scenario="walk", lock=(2, "b-appends", "Predict B's append above first."), key="pool-walk")

# %% [markdown]
"""
What to look for: which count falls when a block is copied, and what does *not* change in A's row.
"""

# %% [markdown]
"""
## Hands-on: parallel sampling

**[Parallel sampling](../../book/glossary.md#term-parallel-sampling)** means n answers to one prompt: one sequence is filled with the prompt, and n − 1 children are forked off it.
Then each of the n writes its own tokens.

**Worked example.** A prompt of 2,000 tokens, n = 4 samples, 300 new tokens each, blocks of 16.

1. Each finished sequence has 2,000 + 300 = 2,300 tokens: ⌈2,300 / 16⌉ = **144** blocks.
2. Without sharing, everybody stores everything: 4 × 144 = **576** blocks.
3. The prompt fills 2,000 / 16 = **125** blocks exactly. All of them are shared.
4. Each sample then needs 144 − 125 = **19** blocks of its own for its 300 tokens (⌈300 / 16⌉ = 19).
5. With sharing: 125 + 4 × 19 = **201** blocks. That is 375 fewer, 65.1 % of the 576.
6. Copies: **none**. 2,000 is a multiple of 16, so the prompt's last block is full. The first new token of every sample stands at
   a [block boundary](../../book/glossary.md#term-block-boundary) and goes into a newly taken block. Nobody ever writes into a shared one.

In Llama-3-8B (2 MiB per block) that is 402 MiB in place of 1,152 MiB.

**And n = 8?** Without sharing 8 × 144 = 1,152 blocks: the prompt is stored eight times, and 1,000 of these blocks hold nothing
but the prompt. With sharing 125 + 8 × 19 = 277. Only the samples' own 19 blocks are multiplied by n.

**What changes when the prompt doesn't fit exactly.** Take a 2,005-token prompt. It leaves five tokens in a 126th block, and after
the fork all n samples share that block too. The first sample to write finds a count of n: it copies. The next finds n − 1: it
copies. So it goes on, until the last one finds a count of 1: it is the only [owner](../../book/glossary.md#term-owner) left and writes in place. So there are **n − 1
copies**, not n, and the prompt's [partly filled block](../../book/glossary.md#term-partly-filled-block) ends as the own block of whoever wrote last. At the end 125 blocks are
shared, as before.

**Faded example.** A prompt of 1,000 tokens, n = 3, 100 new tokens each, blocks of 16. Fill the gaps.

1. Each finished sequence: 1,100 tokens, ⌈1,100 / 16⌉ = 69 blocks.
2. Without sharing: 3 × 69 = 207 blocks.
3. Full prompt blocks: 1,000 // 16 = …
4. Own blocks of each sample at the end: 69 − … = …
5. With sharing: … + 3 × … = …
6. Copies: …
"""

# %% tags=["remove-input"]
ask("faded-1000")

# %% [markdown]
"""
**Your turn.** The 2,005-token prompt: n = 4, 300 new tokens each, blocks of 16. How many blocks are in use at the end without
sharing and with it, and how many blocks were copied on the way?
"""

# %% nbgrader={"grade": false, "grade_id": "numbers", "locked": false, "schema_version": 3, "solution": true, "task": false}
numbers = {"without": None, "with_sharing": None, "copies": None}    # replace each None by your number
### BEGIN SOLUTION
numbers = {"without": 580, "with_sharing": 205, "copies": 3}
### END SOLUTION

# %% nbgrader={"grade": true, "grade_id": "numbers-checks", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
check("03_copy_on_write/numbers", numbers)
### BEGIN HIDDEN TESTS
check("03_copy_on_write/numbers", numbers, thorough=True)
### END HIDDEN TESTS

# %% [markdown]
"""
The same count for other n, at the 2,000-token prompt of the worked example:
"""

# %% mystnb={"image": {"alt": "Blocks in use against the number of samples, 1 to 8, for a 2,000-token prompt and 300 new tokens: without sharing they rise from 144 to 1,152, with sharing from 144 to 277."}}
samples = [1, 2, 4, 6, 8]
draw.savings(
    samples,
    {"without sharing": [n * 144 for n in samples], "with sharing": [125 + n * 19 for n in samples]},
    xlabel="samples n of one 2,000-token prompt",
    ylabel="blocks in use",
)

# %% [markdown]
"""
*Figure 3. A 2,000-token prompt with n samples of 300 tokens, blocks of 16. With sharing each further sample costs 19 blocks;
without, 144.*

## Code: the whole `BlockManager`

Before you write `fork` and `append`, put what they do in order. The lines are all there; only their order is not.
"""

# %% tags=["remove-input"]
ask("fork-order")

# %% tags=["remove-input"]
ask("append-order")

# %% [markdown]
"""
`__init__` is given. You write six methods. What each has to do:

| method | promise |
|---|---|
| `_take()` | removes the lowest free block from `free`, sets its count to 1, returns it. `MemoryError` if none is free |
| `allocate(name, n_tokens)` | a new sequence with ⌈n_tokens / block_size⌉ taken blocks. `MemoryError` if there are not enough, and then nothing has changed. `allocate(name, 0)` holds no block |
| `fork(parent, child)` | the child gets *its own list* of the same blocks and the same length; each block's count rises by 1; nothing is copied or taken |
| `append(name)` | one token more. At a block boundary (`len % block_size == 0`, *before* the token is counted) it takes a new block. Otherwise the token goes into the last block; if that block's count is above 1: take a new block, lower the old count by 1, put the new block in this table only. `len` rises by 1. Returns `True` if a copy was made, else `False`. `MemoryError` if a block is needed and none is free, and then nothing has changed |
| `release(name)` | forgets the sequence; each of its blocks' counts falls by 1; a block at 0 goes back to `free` (still ascending) and leaves `ref`. It cannot be called `free`, because that is the list |
| `used()` | the number of physical blocks in use; a shared block counts once |

An unknown name raises `KeyError`, and after any exception the manager is as it was. A name that was released may be used again.
Never tried, so never graded: `allocate` or `fork` with a name that is in use, and token counts that are negative or not whole.

These [promises](../../book/glossary.md#term-promise) hold after every operation, and the checks look at them one by one:

- **[conservation](../../book/glossary.md#term-conservation)**: every block is either free or referenced, never both, never neither, never twice in `free`;
- **counts**: a block's count equals the number of table entries that point at it, over all sequences;
- **size**: a table holds exactly ⌈len / block_size⌉ blocks;
- **[single writer](../../book/glossary.md#term-single-writer)**: after `append`, the block that took the token has count 1;
- **[bystanders](../../book/glossary.md#term-bystander)**: an operation on one sequence changes no other sequence's table or length;
- **lowest first**: the block handed out is the lowest free one;
- **one copy at most**: an operation copies at most one block, and only in `append`;
- **failure changes nothing**.

The manager keeps books only: where the engine would copy a block's contents, yours returns `True`. Moving the bytes is lesson 4.

Three places where most of the bugs live: the order of *check* and *act* when memory runs out; whether a list is the parent's or
the child's own; and whether `len` already counts the new token where you test it.
"""

# %% nbgrader={"grade": false, "grade_id": "BlockManager", "locked": false, "schema_version": 3, "solution": true, "task": false}
class BlockManager:
    """Hands out the blocks of one pool and counts how many table entries point at each."""

    def __init__(self, num_blocks, block_size):
        """Start with every block free, no counts and no sequences. (Given.)"""
        self.num_blocks = num_blocks
        self.block_size = block_size
        self.free = list(range(num_blocks))    # numbers of the free blocks, ascending
        self.ref = {}                          # physical block -> reference count
        self.seqs = {}                         # name -> {"blocks": [physical blocks], "len": tokens}

    def _take(self):
        """Remove the lowest free block, set its count to 1, return it. Roughly 5 lines.

        MemoryError if none is free.
        """
        ### BEGIN SOLUTION
        if not self.free:
            raise MemoryError("no free block")
        block = self.free.pop(0)
        self.ref[block] = 1
        return block
        ### END SOLUTION

    def allocate(self, name, n_tokens):
        """Start a sequence that holds just enough taken blocks for n_tokens. Roughly 5 lines.

        MemoryError if there are not enough free blocks, and then nothing has changed.
        """
        ### BEGIN SOLUTION
        if n_tokens < 0 or n_tokens != int(n_tokens):
            raise ValueError("a number of tokens is a whole number, 0 or more")
        if name in self.seqs:
            raise ValueError(f"{name!r} is already a sequence")
        need = -(-n_tokens // self.block_size)
        if need > len(self.free):
            raise MemoryError(f"{need} blocks needed, {len(self.free)} free")
        blocks = [self._take() for _ in range(need)]
        self.seqs[name] = {"blocks": blocks, "len": n_tokens}
        ### END SOLUTION

    def fork(self, parent, child):
        """Let child start as parent: its own list of the same blocks, the same length. Roughly 4 lines.

        Each block's count rises by 1; nothing is copied, nothing is taken. KeyError if parent is unknown.
        """
        ### BEGIN SOLUTION
        source = self.seqs[parent]
        if child in self.seqs:
            raise ValueError(f"{child!r} is already a sequence")
        for block in source["blocks"]:
            self.ref[block] += 1
        self.seqs[child] = {"blocks": list(source["blocks"]), "len": source["len"]}
        ### END SOLUTION

    def append(self, name):
        """Add one token to a sequence; return True if a block was copied, else False. Roughly 13 lines.

        If all blocks of the sequence are full, the token goes into a newly taken block. Otherwise it goes
        into the last block, unless that block's count is above 1: then take a new block, lower the old
        count by 1 and put the new block in this table only. MemoryError if a block is needed and none is
        free, KeyError if the name is unknown; then nothing has changed.
        """
        ### BEGIN SOLUTION
        seq = self.seqs[name]
        copied = False
        if seq["len"] % self.block_size == 0:
            seq["blocks"].append(self._take())
        else:
            last = seq["blocks"][-1]
            if self.ref[last] > 1:
                new = self._take()    # first: if this fails, nothing has changed yet
                self.ref[last] -= 1
                seq["blocks"][-1] = new
                copied = True
        seq["len"] += 1
        return copied
        ### END SOLUTION

    def release(self, name):
        """Forget a sequence; a block that no table points at any more is free again. Roughly 6 lines.

        `free` stays in ascending order and the block leaves `ref`. KeyError if the name is unknown.
        """
        ### BEGIN SOLUTION
        for block in self.seqs.pop(name)["blocks"]:
            self.ref[block] -= 1
            if self.ref[block] == 0:
                del self.ref[block]
                self.free.append(block)
        self.free.sort()
        ### END SOLUTION

    def used(self):
        """Return the number of physical blocks in use: a shared block counts once. One line."""
        ### BEGIN SOLUTION
        return self.num_blocks - len(self.free)
        ### END SOLUTION

# %% nbgrader={"grade": true, "grade_id": "BlockManager-checks", "locked": true, "points": 16, "schema_version": 3, "solution": false, "task": false}
check("03_copy_on_write/BlockManager", BlockManager)
### BEGIN HIDDEN TESTS
check("03_copy_on_write/BlockManager", BlockManager, thorough=True)
### END HIDDEN TESTS

# %% [markdown]
"""
## Your own manager, drawn

The walk from above, now on your class. This function replays its first steps.
"""

# %%
def walk(steps):
    """Your manager after the first `steps` operations of the walk."""
    manager = BlockManager(10, 16)
    operations = [
        lambda: manager.allocate("A", 20),
        lambda: manager.fork("A", "B"),
        lambda: manager.append("B"),
        lambda: manager.append("A"),
        lambda: manager.release("A"),
    ]
    for operation in operations[:steps]:
        operation()
    return manager


# %% [markdown]
"""
Step 3 is the picture that was missing: B appends.
"""

# %% mystnb={"image": {"alt": "After B's append: block 0 is still shared with count 2, block 1 is A's alone with 4 tokens, block 2 is B's with 5 tokens. B's table is 0, 2. Three blocks are in use."}}
predicted("b-appends")
draw.blocks(walk(3), title="After append to B: block 1 was copied to block 2")

# %% [markdown]
"""
*Figure 4. B's 21st token forced a copy: block 2 holds B's version of what is in block 1, plus one token. Block 0 still has two
references; three blocks are in use.*

> **Predict first.** Now A appends its own 21st token. Where does it go, and how many blocks are in use then?
"""

# %% tags=["remove-input"]
predict("a-appends")

# %%
predicted("a-appends")
before, after = walk(3), walk(4)
print("blocks in use before A's append:", before.used(), " after:", after.used())
print("A's table:", list(after.seqs["A"]["blocks"]), " B's table:", list(after.seqs["B"]["blocks"]))

# %% [markdown]
"""
A finishes and is released. Its own block 1 comes free; block 0 stays, because B still reads it.
"""

# %% mystnb={"image": {"alt": "After A is released only B is left, with table 0, 2. Block 0 has one reference, block 1 is free again. Two blocks are in use."}}
draw.blocks(walk(5), title="After release of A: block 0 stays, block 1 is free")

# %% [markdown]
"""
*Figure 5. [Release](../../book/glossary.md#term-release) lowers counts; only a block whose count reaches 0 comes free. B's table [0, 2] was not touched.*

And now all of it, button by button: every press calls a method of your class. If one breaks a promise, the picture stops there and
the sentence says which.
"""

# %%
simulate.pool(BlockManager, key="pool-own")

# %% [markdown]
"""
The promises about the books can be written down as a program that knows nothing about how a manager works. It will be useful for
the rest of the lesson: it lists every contradiction it finds.
"""

# %%
def audit(manager, num_blocks, block_size):
    """List what contradicts itself in a manager's books; an empty list if they are exact."""
    state = read_state(manager)    # free: numbers; ref: {block: count}; seqs: {name: (blocks, tokens)}
    entries = Counter(block for blocks, _ in state.seqs.values() for block in blocks)
    free = Counter(state.free)
    found = []
    for block in range(num_blocks):
        count = state.ref.get(block, 0)
        if count != entries[block]:
            found.append(f"block {block}: count {count}, table entries that point at it: {entries[block]}")
        if free[block] != (1 if count == 0 else 0):
            found.append(f"block {block}: count {count}, times in the free list: {free[block]}")
    for name, (blocks, tokens) in state.seqs.items():
        need = math.ceil(tokens / block_size)
        if len(blocks) != need:
            found.append(f"{name}: {tokens} tokens need {need} blocks, its table holds {len(blocks)}")
    return found


[audit(walk(steps), 10, 16) for steps in range(6)]

# %% [markdown]
"""
Six empty lists: after none of the steps is there anything to complain about.

## Parallel sampling on your manager

The worked example again, token by token: n samples take turns, as they do in an engine.
"""

# %%
def sample(prompt, n, new_tokens, block_size=16):
    """Fork n − 1 children off one prompt and let all n write; return the manager and append's answers, step by step."""
    manager = BlockManager(2_048, block_size)
    names = [f"sample {i}" for i in range(n)]
    manager.allocate(names[0], prompt)
    for child in names[1:]:
        manager.fork(names[0], child)
    answers = [[manager.append(name) for name in names] for _ in range(new_tokens)]
    return manager, answers


# %%
for n in (4, 8):
    manager, answers = sample(2_000, n, 300)
    print(f"n = {n}: {manager.used()} blocks in use, {sum(map(sum, answers))} copied")

# %% [markdown]
"""
201 and 277, as counted by hand, and no copy at all. With five tokens more in the prompt the first step is different: look at what
the four samples' first appends answer.
"""

# %%
manager, answers = sample(2_005, 4, 300)
print("a copy in step 1?", answers[0])
print("a copy later?    ", any(map(any, answers[1:])))
print("blocks in use:   ", "as you said" if manager.used() == numbers["with_sharing"] else "not the number you gave")
print("copies:          ", "as you said" if sum(map(sum, answers)) == numbers["copies"] else "not the number you gave")

# %% [markdown]
"""
Three copies, then one write in place: the last owner is the only reader left. After step 1 every sample has its own last block,
so 299 further steps copy nothing. **There is at most one copy per fork, never one per token.**

## Beam search: a tree of forks and releases

**[Beam search](../../book/glossary.md#term-beam-search)** keeps the k best continuations at every step. Each of the k beams proposes some; the best k of all of them
survive, whoever they come from. So a beam may have two continuations among the survivors (it is **forked**), one (it goes on), or
none (it is **released**). Sharing is not decided once, as in parallel sampling, but anew at every step, and beams that part late
share nearly their whole history.

Six steps with k = 3 beams, a prompt of 6 tokens and blocks of 4. Which beams win is made up here; in an engine the model's
probabilities decide it.
"""

# %%
PROMPT = 6
STEPS = [
    {"fork": [("A", "B"), ("A", "C")], "release": []},
    {"fork": [("A", "D")], "release": ["B"]},
    {"fork": [], "release": []},
    {"fork": [("D", "E"), ("D", "F")], "release": ["A", "C"]},
    {"fork": [], "release": []},
    {"fork": [("F", "G")], "release": ["E"]},
]


def draw_tree(steps, start, block_size):
    """Draw each beam as a line from its fork to its release (×) or to now (→)."""
    import matplotlib.pyplot as plt
    figure, axes = plt.subplots(figsize=(7, 3), layout="constrained")
    end = start + len(steps)
    born, row, released = {"A": 0}, {"A": 0}, {}
    for at, step in enumerate(steps, start):
        released.update(dict.fromkeys(step["release"], at))
        for parent, child in step["fork"]:
            born[child], row[child] = at, len(row)
            axes.plot([at, at], [row[parent], row[child]], ":", color="#57606A")
    for beam, y in row.items():
        last = released.get(beam, end)
        axes.plot([born[beam], last], [y, y], "--" if beam in released else "-", color="#1F2328")
        axes.text(last, y, f" × {beam} released" if beam in released else f" → {beam}", va="center")
    for boundary in range(0, end + 1, block_size):
        axes.axvline(boundary, color="#DDE1E6", zorder=0)
    axes.set(xlabel="tokens in the sequence (grey lines: block boundaries)", xticks=range(end + 1), yticks=[], xlim=(-0.1, end + 2))
    axes.invert_yaxis()
    axes.spines[["left", "right", "top"]].set_visible(False)
    plt.close(figure)
    return figure


# %% mystnb={"image": {"alt": "A tree over token positions 0 to 12. Beam A holds the prompt of 6 tokens; B and C fork off at 6, D at 7, E and F fork off D at 9, G off F at 11. B is released at 7, A and C at 9, E at 11. D, F and G are alive at 12."}}
draw_tree(STEPS, PROMPT, 4)

# %% [markdown]
"""
*Figure 6. A beam tree. Dotted lines are forks, × marks a release, dashed beams are lost. The three beams alive at the end (D, F
and G) have their first nine tokens in common.*

The same search step by step, beside the pool that holds it:
"""

# %% tags=["remove-input"]
simulate.beams()

# %% [markdown]
"""
Now the same tree on your manager. `eager` counts what an engine without shared blocks would copy: at each fork the parent's whole
table.
"""

# %%
def beam_search(steps, prompt):
    """Run the tree on your manager; return it, what it held after each step, and the blocks copied: on write, and by eager forks."""
    manager = BlockManager(12, 4)
    manager.allocate("A", prompt)
    beams, states, copied, eager = ["A"], [read_state(manager)], 0, 0
    for step in steps:
        for parent, child in step["fork"]:
            eager += len(manager.seqs[parent]["blocks"])
            manager.fork(parent, child)
            beams.append(child)
        for beam in step["release"]:
            manager.release(beam)
            beams.remove(beam)
        copied += sum(manager.append(beam) for beam in beams)
        states.append(read_state(manager))
    return manager, states, copied, eager


# %% [markdown]
"""
> **Predict first.** A fork that copied at once would copy the parent's whole table, fifteen blocks in these six steps. How many blocks are copied on write?
"""

# %% tags=["remove-input"]
predict("beam-copies")

# %%
predicted("beam-copies")
manager, states, copied, eager = beam_search(STEPS, PROMPT)
print(f"copied on write: {copied} blocks; copied by eager forks: {eager} blocks")
print("in use at the start and after each step:", [len(state.ref) for state in states])
print("contradictions at the end:", audit(manager, 12, 4))

# %% mystnb={"image": {"alt": "The pool at the end of the beam search: beams D, F and G share the full blocks of their common history, and each has its own last block."}}
draw.blocks(beam_search(STEPS, PROMPT)[0], title="The pool after six steps")

# %% [markdown]
"""
*Figure 7. The beams alive at the end share their full blocks; the branches that lost left nothing behind.*
"""

# %% mystnb={"image": {"alt": "Reference counts of the blocks over the six steps: block 0 stays at 3 once the beams are forked, the other blocks come and go with their branches."}}
draw.counts(beam_search(STEPS, PROMPT)[1], title="Reference counts over the six steps")

# %% [markdown]
"""
*Figure 8. Reference counts at the start (0) and after each of the six steps. The prompt's full block is held by all three beams
all the time; blocks of lost branches fall to 0 and are handed out again.*

A block whose count never falls to 0 was never copied and never stored again: it is history that all beams read.

## When memory runs out: what to give up first

Sooner or later a block is needed and `free` is empty. Something has to go: it is **preempted**, and later swapped back in or
recomputed. What hurts least?

- A block with count 1 hurts one sequence. A block with count 8 hurts eight. So **unique [tails](../../book/glossary.md#term-tail) go before shared prefixes**.
- Within one sequence, giving up the tail leaves a usable beginning; giving up the beginning leaves a tail that no one can use
  until the beginning has been computed again. So **tails go before heads**.

With your walk after step 4, A = [0, 1] and B = [0, 2], the order is 1, 2, 0: blocks 1 and 2 have count 1 and logical index 1, so
the lower number goes first; block 0 has count 2.

Real engines choose in bigger units, for the same reason. The PagedAttention paper preempts a whole sequence or none of it,
because a sequence without some of its blocks cannot run a step; the sequences of one request go together, since they may share;
and the latest to arrive goes first (§4.5). Engines with [prefix caching](../../book/glossary.md#term-prefix-caching) take blocks whose count is already 0 but whose contents
can still be found, and free a sequence's tail before its head, so that beginnings live longest. Each of these decisions reads the
counts. If they are wrong, the engine evicts what somebody is reading.

**Write `eviction_order(manager)`.** It returns every block in use, once: lower reference count first; among equals the higher
logical index (the position in a table, counted from 0; a shared block has the same index in all its tables); then the lower block
number. It reads `manager.free`, `manager.ref`, `manager.seqs` and `manager.used()`, and changes nothing.
"""

# %% nbgrader={"grade": false, "grade_id": "eviction_order", "locked": false, "schema_version": 3, "solution": true, "task": false}
def eviction_order(manager):
    """Return every block in use, once, in the order in which to give them up. Roughly 5 lines.

    Lower reference count first; among equals the higher logical index; then the lower block number.
    """
    ### BEGIN SOLUTION
    index = {}
    for seq in manager.seqs.values():
        for i, block in enumerate(seq["blocks"]):
            index[block] = i    # a shared block has the same index in all its tables
    return sorted(index, key=lambda block: (manager.ref[block], -index[block], block))
    ### END SOLUTION

# %% nbgrader={"grade": true, "grade_id": "eviction_order-checks", "locked": true, "points": 5, "schema_version": 3, "solution": false, "task": false}
check("03_copy_on_write/eviction_order", eviction_order)
### BEGIN HIDDEN TESTS
check("03_copy_on_write/eviction_order", eviction_order, thorough=True)
### END HIDDEN TESTS

# %% [markdown]
"""
Your order on your own managers: the walk, and the end of the beam search.
"""

# %%
print("walk:       ", list(eviction_order(walk(4))))
print("beam search:", list(eviction_order(beam_search(STEPS, PROMPT)[0])))

# %% [markdown]
"""
Compare the second line with Figure 7: first the beams' own last blocks, then what is shared, the first block of the prompt at the
very end.

## At scale: the paper's savings

The PagedAttention paper (Kwon et al., SOSP 2023, Fig. 15) measures on real traces how many blocks sharing saves: blocks saved ÷
blocks without sharing. For parallel sampling that can be reproduced with a pencil. Let the prompt be a share *s* of the KV memory
of one request. Without sharing n samples need n times one request. With sharing they need the prompt once and n times the rest:

> saved = (n − (s + n × (1 − s))) / n = **(n − 1) / n × s**

For its Alpaca experiment the paper states s = 12 % (§3). That is taken from it, not derived: from the published mean lengths of
Alpaca alone (19.31 tokens in, 58.45 out) s would be 24.8 %. The formula also ignores partly filled blocks and lets all n samples
be equally long. So we ask for agreement within 0.5 percentage points, not for equality.
"""

# %%
def saved_percent(n, prompt_share):
    """Blocks saved by sharing, in percent of the blocks without sharing."""
    return 100 * (n - 1) / n * prompt_share


published = {2: 6.09, 4: 8.53, 6: 9.79}    # Fig. 15a, Alpaca
for n, paper in published.items():
    ours = saved_percent(n, 0.12)
    print(f"n = {n}: closed form {ours:5.2f} %, published {paper:5.2f} %, apart {abs(ours - paper):.2f}",
          "(within 0.5)" if abs(ours - paper) <= 0.5 else "(more than 0.5)")

# %% mystnb={"image": {"alt": "Share of blocks saved by parallel sampling on Alpaca for n = 2, 4 and 6: closed form 6.0, 9.0 and 10.0 percent, published 6.09, 8.53 and 9.79 percent."}}
draw.savings(
    list(published),
    {"closed form": [saved_percent(n, 0.12) for n in published]},
    xlabel="samples n",
    ylabel="blocks saved (%)",
    published={"Fig. 15a": published},
)

# %% [markdown]
"""
*Figure 9. Blocks saved by parallel sampling on the Alpaca trace: (n − 1)/n × 12 % beside what the paper measured. The largest gap
is 0.47 points, at n = 4.*

On ShareGPT, whose prompts are longer, s follows from the mean lengths: 161.31 / (161.31 + 337.99) = 32.3 %. The formula gives
16.2 % for n = 2, which is what the paper has. For n = 6 it gives 26.9 % against 30.5 %: outside our tolerance, and we leave it at
that.

**Beam search saves far more**, since beams share history that they generated themselves. The paper's numbers (Fig. 15b, §6.3) are
published ones; nothing here reproduces them, because which beams survive depends on a model:

| | k = 2 | k = 4 | k = 6 |
|---|---|---|---|
| Alpaca, blocks saved (published) | 37.56 % | 53.13 % | 55.16 % |

On ShareGPT the paper reports 16.2–30.5 % for parallel sampling and 44.3–66.3 % for beam search. The vLLM announcement's "up to 55
%" is this same experiment.

## Is sharing automatic?

Only if an engine makes it so, and engines differ. As of late summer 2026:

| engine | what is shared | a copy on write? | as of |
|---|---|---|---|
| vLLM V0 | block tables with counts, `fork`, as in this lesson | yes. V0 was removed on 2025-09-20 (#25321), the `copy_blocks` operation on 2025-12-24 (#30967) | removed |
| vLLM V1, ordinary models | only full blocks, found by hash; at most len − 1 tokens of a prompt are matched; n > 1 is n requests; beam search lives outside the core; [preemption](../../book/glossary.md#term-preemption) [recomputes](../../book/glossary.md#term-recompute), swapping is gone | no | source of 2026-08-17 |
| vLLM V1, [hybrid Mamba models](../../book/glossary.md#term-hybrid-model) ("align" mode, `--prefix-match-unit` below the [block size](../../book/glossary.md#term-block-size)) | a partly filled tail can be [hit](../../book/glossary.md#term-hit) as well | **yes**, since #45939 (2026-06-22) and #46384 (2026-07-12): a private copy, both ends held until the copy has run | source of 2026-08-17 |
| SGLang | a [radix tree](../../book/glossary.md#term-radix-tree), cut at page boundaries | KV: no (reuse of part of a page by copy is PR #35635, open in 2026-08). Mamba state: yes, on a hit | PRs to 2026-08 |
| TensorRT-LLM | a radix tree of blocks, leaves evicted first | yes, by default: `copy_on_partial_reuse = True` copies a partly matched block | 1.4.0rc4 |
| LMDeploy | PyTorch engine: a block trie with counts, partial blocks copied for state checkpoints (#4799); TurboMind: fork edges, the sibling's KV copied (#4717) | a copy at fork or restore | source of 2026-08 |
| Transformers, continuous batching | at a fork complete blocks are shared, the rest is copied at once | an [eager copy](../../book/glossary.md#term-eager-copy) instead | PR #42921 (2025-12) |
| MLC-LLM / TVM | a fork at any position | an eager copy of that one page | MLC #2060 |
| llama.cpp | cells carry sets of sequences; `seq_cp` only tags cells | there are no blocks to copy | comment in `llama.h` |

So each engine decides what is shared, and deals with the partly filled block in its own way: never share it, copy it at the fork,
or copy it at the write.

Two half-truths are in circulation.

- **"vLLM copies on write when n > 1."** Wrong today. V0 did. In V1 a request with n = 4 becomes four requests which meet in the
  prefix cache, where only full blocks are shared. A full block is never written, so there is nothing to copy; each of the four
  fills a last block of its own.
- **"vLLM V1 has no copy-on-write."** Wrong too, since the summer of 2026. For hybrid models with a match unit below the block
  size, a request may hit a block that is only partly filled, and then it gets a private copy before it writes. The documentation
  page on prefix caching still said "only full blocks" when this was written (a correction, PR #54983, was open).

## War story: four bugs in one day

On 14 February 2023 the authors of PagedAttention, whose engine was then called CacheFlow, fixed four bugs in their [block manager](../../book/glossary.md#term-block-manager).
All four are about block tables and reference counts that no longer agree. Replay them.

**c128c2ed, "Fix [double free](../../book/glossary.md#term-double-free)".** A pool of 8 blocks of 4. `allocate("A", 5)`, `fork("A", "B")`, `append("B")`. The copy was made,
but the new block was put *behind* the shared one in B's table instead of in its place. By hand, with the count of block 1 lowered
as it should be on a copy:
"""

# %% mystnb={"image": {"alt": "The state left by the bug: A's table is 0, 1; B's table is 0, 1, 2 though its 6 tokens need two blocks. Block 1 has count 1 but two tables point at it."}}
double_free = still(8, 4, {"A": ([0, 1], 5), "B": ([0, 1, 2], 6)}, ref={0: 2, 1: 1, 2: 1})
draw.blocks(double_free, title="CacheFlow before c128c2ed: the copy stands behind the shared block")

# %% [markdown]
"""
*Figure 10. B's 6 tokens need two blocks and its table has three. Two tables point at block 1, whose count is 1.*
"""

# %%
for contradiction in audit(double_free, 8, 4):
    print(contradiction)

# %% [markdown]
"""
Nothing fails yet. Now A ends: block 1 goes to count 0 and to the [free list](../../book/glossary.md#term-free-list), though B's table has it. Then B ends and gives block
1 back *again*: the double free that the commit is named after. From then on `free` holds block 1 twice, and two strangers will be
given the same block. Your manager on the same history:
"""

# %%
def replay():
    """The history of the double free on your manager, up to both releases."""
    manager = BlockManager(8, 4)
    manager.allocate("A", 5)
    manager.fork("A", "B")
    print("copied:", manager.append("B"), " B's table:", list(manager.seqs["B"]["blocks"]), " contradictions:", audit(manager, 8, 4))
    manager.release("A")
    manager.release("B")
    print("both released, blocks in use:", manager.used(), " contradictions:", audit(manager, 8, 4))


replay()

# %% [markdown]
"""
The bug's own history, to step through: what was expected stands beside what the engine held.
"""

# %% tags=["remove-input"]
simulate.history("double-free", key="history-double-free")

# %% [markdown]
"""
**The other three are in swapping.** When memory ran short, CacheFlow moved the blocks of a request's sequences to a pool in CPU
memory, and back later. The history that finds all three: two sequences that share two full blocks, A with 8 tokens and B forked
off it, are swapped out. It must end with **2 CPU blocks, each with count 2, no GPU block in use, and both tables pointing at CPU
blocks**; swapping in must restore the picture.

| commit | what was wrong | after the swap-out | what follows |
|---|---|---|---|
| 1f739f9b | the tables were not rewritten | A and B still point at the GPU blocks, which are free by now | the next sequence is given these blocks and writes over what A and B believe is theirs |
| be1e2163 | each source block was given back once only, though two table entries pointed at it | the GPU blocks stay at count 1 and no table has them | a leak: two blocks fewer with every such [swap](../../book/glossary.md#term-swap), until the engine stands still |
| 2729087e | the target's count was not raised for the second table that points at it | 2 CPU blocks with count 1 and two table entries each | the first to be released frees the block under the other |

Swapping isn't part of the course's class, but for sequences with equal tables it can be said in the operations you have: allocate
the first in the other pool, fork the others off it there, and release all of them here.
"""

# %%
def swap(source, target, first, *others):
    """Move sequences with equal tables from one pool to another, and their sharing with them."""
    target.allocate(first, source.seqs[first]["len"])
    for name in others:
        target.fork(first, name)
    for name in (first, *others):
        source.release(name)


def swap_out_and_in():
    """Swap two sharing sequences out to the CPU's pool and back in, on two of your managers."""
    gpu, cpu = BlockManager(8, 4), BlockManager(8, 4)
    gpu.allocate("A", 8)
    gpu.fork("A", "B")
    swap(gpu, cpu, "A", "B")
    print("swapped out: GPU", gpu.used(), "blocks, CPU", cpu.used(), "with counts", list(read_state(cpu).ref.values()))
    swap(cpu, gpu, "A", "B")
    print("swapped in:  GPU", gpu.used(), "blocks, CPU", cpu.used(), " contradictions:", audit(gpu, 8, 4) + audit(cpu, 8, 4))


swap_out_and_in()

# %% [markdown]
"""
The counts did the remembering: the swap never asks who shares what with whom. (vLLM's last V0 block manager, run on this same
history, took four CPU blocks: the sharing was lost on the way. We found no issue about it.)

What the four have in common: none is in the happy path of one sequence. They need sharing *and* a second event, a release or a
swap. If both siblings write the *same* token, even a missing copy shows nothing at all, so a test must let them differ (the
lesson of Atlas #692, where a partly filled tail was handed to a second writer).

## Check your understanding

**1.** A has 32 tokens, blocks of 16. `fork("A", "B")`, then both append one token. How many copies?
"""

# %% tags=["remove-input"]
ask("fork-at-32")

# %% [markdown]
"""
**2.** Five sequences share a partly filled block. One of them is released before any has written. How many copies will there be
if all that are left write?
"""

# %% tags=["remove-input"]
ask("five-less-one")

# %% [markdown]
"""
**3.** A and B share a partly filled block and `free` is empty. `append("B")` raises `MemoryError`. What is the shared block's
count afterwards?
"""

# %% tags=["remove-input"]
ask("full-pool")

# %% [markdown]
"""
**4.** A (20 tokens, blocks of 16) is forked to B, then A is released. B appends. Is a block copied?
"""

# %% tags=["remove-input"]
ask("released-first")

# %% [markdown]
"""
**5.** `used()` could be computed as the sum of all tables' lengths. When is that right?
"""

# %% tags=["remove-input"]
ask("sum-of-tables")

# %% [markdown]
"""
## What people get wrong

**"A fork copies memory."** It doesn't. A fork copies a *table*, a few numbers, and raises counts. The cost comes at the first
write into a shared block, it is one block at most, and at a full tail there is none. (Some engines do copy the partly filled
block at the fork, see the table above. That is a choice, and still one block.)

**"Every child copies."** Wrong: with n owners of a partly filled tail there are n − 1 copies, because the last to write finds
itself alone. And with a full tail there are none.

**"Prefix caching needs copy-on-write."** Not if only full blocks are shared. A full block is never written again, so no copy can
become necessary. Copy-on-write is the price of sharing partly filled ones. vLLM V1 shares full blocks only for ordinary models,
and does without.

**"vLLM uses copy-on-write for parallel sampling", "V1 has none."** Each is half true; see "Is sharing automatic?".

**"Take a new block when `len % size == 1`."** It depends on what `len` counts at that moment. Before the new token is counted the
boundary is `len % size == 0`; after it, `== 1`. Both are right in their place and wrong in the other's; readers of nano-vllm have
filed issues about exactly this. Write down which one you mean.

**"A copy costs bandwidth."** For one block the bytes are hardly the point. Reading and writing 2 MiB takes 1.3 µs at an H100's
full memory speed (computed), while one `cudaMemcpyAsync` call alone was measured at about 2.3 µs (on an H20, FlexKV #193).
Starting the copies costs more than moving the bytes, all the more so since a block lies in 2 × layers pieces. That is why the
paper batches all copies of a step into one kernel (§5.1). Lesson 5 measures it.

**"Freed means gone."** A block at count 0 may be handed out again, but its contents are still there until somebody writes.
Engines with prefix caching live on that: such a block is free *and* can still be found.

**"Preemption swaps to the CPU."** In the paper it may do either; it finds recomputing better for small blocks and swapping for
large ones (§7.3). vLLM V1 always recomputes; moving blocks to CPU memory is a separate connector there.

## Reference

Let P be the prompt's tokens, N the new tokens of each sample, B the block size.

| quantity | formula | worked: P = 2,000, N = 300, B = 16, n = 4 |
|---|---|---|
| blocks of one sequence | ⌈(P + N) / B⌉ | 144 |
| without sharing | n × ⌈(P + N) / B⌉ | 576 |
| shared for good | P // B | 125 |
| with sharing, at the end | P // B + n × (⌈(P + N) / B⌉ − P // B) | 125 + 4 × 19 = 201 |
| copies | n − 1 if B does not divide P, else 0 (for N ≥ 1) | 0 |
| saved, as a share | (n − 1) / n × s, s the prompt's share of one request | Fig. 9 |

The rule of a write, in words: *at a boundary take; else if the count is above 1 take, copy, lower, repoint; else write in place.*
The plain code for checking any manager's books is `audit` above.

**Sources.**

- Kwon et al., *Efficient Memory Management for Large Language Model Serving with PagedAttention*, SOSP 2023, arXiv 2309.06180:
  copy-on-write and its figure §4.4 and Fig. 8; preemption §4.5; fused block copy §5.1; fork, append, free §5.2; savings Fig. 15
  and §6.3; the prompt's share §3; lengths Fig. 11; swap or recompute §7.3.
- vLLM announcement, 2023-06-20: "up to 55 %".
- vLLM repository: CacheFlow commits c128c2ed, 1f739f9b, be1e2163, 2729087e (2023-02-14); removal of V0 #25321 and of
  `copy_blocks` #30967; partial hits with copy-on-write #45939 and #46384; documentation correction #54983; source as of
  2026-08-17 (017e9f44).
- SGLang PRs #35635, #11214, #27038. TensorRT-LLM docs, [KV cache](../../book/glossary.md#term-KV-cache) page, and `KvCacheConfig` of 1.4.0rc4. LMDeploy #4799, #4717.
  Transformers PR #42921. MLC-LLM #2060. llama.cpp, `llama.h`. Atlas #692. FlexKV PR #193.
- Block sizes in MiB: 2 × layers × KV heads × head dimension × 2 bytes × 16 tokens, from the models' published configurations
  (Llama-3-8B 32, 8, 128; Llama-3-70B 80, 8, 128; Llama-2-13B 40, 40, 128). H100 memory speed 3.35 TB/s (specification pages).

## Two recall questions

**From lesson 1.** A 2,005-token prompt in blocks of 16: how many slots are allocated, how many of them are slack, and what is
that in percent, of what?
"""

# %% tags=["remove-input"]
ask("recall-2005")

# %% [markdown]
"""
**From lesson 2.** A 40-token prefix, blocks of 16. How many blocks can two *requests* with this prefix share? How many do parent
and child share right after a *fork* at 40 tokens?
"""

# %% tags=["remove-input"]
ask("recall-40")

# %% [markdown]
"""
## What you predicted

This cell counts that you committed to an answer, 2 points for all of the lesson's predictions. Whether you were right earns
nothing and costs nothing.
"""

# %% nbgrader={"grade": true, "grade_id": "predictions", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
check("03_copy_on_write/predictions", predictions("03_copy_on_write"))
### BEGIN HIDDEN TESTS
check("03_copy_on_write/predictions", predictions("03_copy_on_write"), thorough=True)
### END HIDDEN TESTS

# %% [markdown]
"""
Next: lesson 4, where your `BlockManager` drives a real transformer, and a missing copy turns a sibling's text wrong before your
eyes.
"""
