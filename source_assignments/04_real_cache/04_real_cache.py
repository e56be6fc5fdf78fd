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
# Lesson 4: A real cache

So far a [block](../../book/glossary.md#term-block) was a square in a picture. Your manager counted, handed out and took back, and where it said "copied" nothing was
copied. In this lesson the squares are filled: a small transformer writes text, its keys and values lie in one pool of blocks, and
your `BlockManager` decides which block is whose.

**What you will build.** Three functions, about ten lines: `write_token` puts a [token](../../book/glossary.md#term-token)'s key and value into its [slot](../../book/glossary.md#term-slot), `copy_block`
does what `append` has only reported so far, and `paged_attention` reads a [sequence](../../book/glossary.md#term-sequence) through its [block table](../../book/glossary.md#term-block-table). Together with your
manager they make a cache that [forks](../../book/glossary.md#term-fork), copies, [releases](../../book/glossary.md#term-release) and preempts. You will see that it gives, character for character, what a
plain cache gives; and what becomes of a text when one copy is left out.

**Time.** About two hours.

**What you need.** Your `BlockManager` from [lesson 3](../03_copy_on_write/03_copy_on_write.ipynb), and torch: in the course's
repository `make setup` has installed it. No GPU. The longest cell takes a few seconds. This notebook needs torch and does not run
inside a web page: run it on your own machine or on your course's hub. You have met tensors before, or don't mind reading
`k_cache[2, 5]` as "a list of lists, and in it entry 5 of entry 2". Words that are new to you are in the
[glossary](../../book/glossary.md).
"""

# %%
import random

import torch

from autograder import ask, charmodel, check, draw, predict, predicted, predictions, simulate
from autograder.record import read_state
from autograder.texts import SideBySide

torch.set_num_threads(1)    # tiny tensors: threads would only wait for one another
model = charmodel.load()

# %% [markdown]
"""
## The idea

### What is in a slot

When a transformer reads a token, each layer makes three vectors of it for every **[head](../../book/glossary.md#term-head)**: a **query** q, a **key** k and a
**value** v. The query asks, the keys answer how well they fit, and the values are what is handed over:

1. the **score** of an earlier token is q · k, its key times the query, divided by √head_dim;
2. **softmax** turns the scores of all tokens so far into weights: positive, and 1 in all;
3. the result is the sum of all values, each times its weight.

The newest token is one of them: it has a key and a value too. Each head does this by itself, with its own vectors.

The keys and values of a token depend on nothing that comes after it. So they are computed once, when the token is read, and kept:
that is the [KV cache](../../book/glossary.md#term-KV-cache). A **slot** is the room for one token's key and value, in every layer. The query is used once and forgotten.

| what | shape | in this lesson's model |
|---|---|---|
| q, k, v of one token in one layer | (heads, head_dim) | (4, 24) |
| k_cache and v_cache of one layer | (blocks, block_size, heads, head_dim) | (24, 16, 4, 24) |
| k_cache and v_cache of all layers | (layers, blocks, block_size, heads, head_dim) | (3, 24, 16, 4, 24) |

Two tensors for the whole pool, made once at the start. Nothing is ever allocated afterwards; blocks are handed out by number.

### From a position to a slot

Sequence B of lesson 3 had the table [0, 2], and its 21st token is at position 20. Which slot is that?

- [Logical block](../../book/glossary.md#term-logical-block): 20 // 16 = 1. Place in it: 20 % 16 = 4.
- [Physical block](../../book/glossary.md#term-physical-block): the table's entry 1, which is 2.
- Slots are counted through the whole pool: slot = physical block × [block size](../../book/glossary.md#term-block-size) + place. (This one is yours to work out, below.)

Positions belong to the text, slots to the memory; the block table is all that connects them. [Attention](../../book/glossary.md#term-attention) never needs the tokens to
lie side by side. It needs to know where they are.

### The model

It is a transformer of three layers that reads and writes single characters. It learned from the prose of this course's first three
lessons and of the book's pages, lower case, in three and a half minutes on one core; the script that trained it is in the repository.
It knows words and turns of phrase and has no idea what they mean.
"""

# %%
numbers_in_all = sum(weight.numel() for weight in model.weights.values())
print(f"{model.layers} layers, {model.heads} heads of {model.head_dim} numbers, {numbers_in_all:,} weights")
print(f"tokens: {len(model.alphabet)} characters; the longest text it can write: {model.longest} of them")
print(f"trained in {model.about['steps']} steps from seed {model.about['seed']}; {model.about['loss']} nats a character on its own text")

# %% [markdown]
"""
## Worked example: attention over a contiguous cache

The three steps from above in code, for one layer and the newest token. `keys` and `values` hold all tokens so far, in order:
shape (tokens, heads, head_dim).
"""

# %%
def attention(q, keys, values):
    """What the query finds, for each head: shape (heads, head_dim)."""
    scores = torch.einsum("hd,thd->ht", q, keys) / q.shape[-1] ** 0.5    # one score for each head and token
    weights = torch.softmax(scores, dim=-1)                              # over the tokens, for each head by itself
    return torch.einsum("ht,thd->hd", weights, values)


# %% [markdown]
"""
Around it, a cache as in lesson 1: every sequence gets slots for the longest text that can be written, side by side, and a fork
copies all of it. It is wasteful and easy to believe. The rest of the lesson compares with it.

`model.step` takes one token through all layers. In each layer it calls `attend(layer, q, k, v)`, which must keep k and v and give
back what the query finds. The model itself remembers nothing.
"""

# %%
class Contiguous:
    """A cache for each sequence, reserved to the longest text; its tokens, and the scores after the last."""

    def __init__(self, model):
        self.model = model
        self.k, self.v, self.tokens, self.scores = {}, {}, {}, {}

    def start(self, name, tokens):
        shape = self.model.layers, self.model.longest, self.model.heads, self.model.head_dim
        self.k[name], self.v[name] = (torch.zeros(shape, dtype=self.model.dtype) for _ in "kv")
        self.tokens[name] = []
        for token in tokens:
            self.feed(name, token)

    def feed(self, name, token):
        """Read one token more; its scores for the next one are kept."""
        position = len(self.tokens[name])

        def attend(layer, q, k, v):
            self.k[name][layer, position] = k
            self.v[name][layer, position] = v
            return attention(q, self.k[name][layer, : position + 1], self.v[name][layer, : position + 1])

        self.tokens[name].append(token)
        self.scores[name] = self.model.step(token, position, attend)

    def fork(self, parent, child):
        self.k[child], self.v[child] = self.k[parent].clone(), self.v[parent].clone()
        self.tokens[child], self.scores[child] = list(self.tokens[parent]), self.scores[parent]

    def stop(self, name):
        for kept in (self.k, self.v, self.tokens, self.scores):
            del kept[name]


# %% [markdown]
"""
Writing means: turn the scores into chances, throw a die, read the character that came up, and so on. A low **temperature** keeps
to likely characters. Each sequence has dice of its own, so that what one draws never depends on the others.
"""

# %%
PROMPT = "a block that is shared with somebody is "    # 40 characters: two full blocks of 16, and 8 tokens in a third


def draw_one(scores, dice, temperature=0.6):
    """The next token, drawn with the chances that the scores give."""
    chances = torch.softmax(scores / temperature, dim=-1).cumsum(0)
    return min(int((chances < dice.random()).sum()), len(chances) - 1)


def write(cache, names, new_tokens):
    """The sequences take turns; each writes so many tokens."""
    dice = {name: random.Random(f"dice of {name}") for name in names}
    for _ in range(new_tokens):
        for name in names:
            cache.feed(name, draw_one(cache.scores[name], dice[name]))
    return cache


def text(cache, name):
    return cache.model.decode(cache.tokens[name])


def samples(cache, names, new_tokens):
    """Parallel sampling: one sequence reads the prompt, the others are forked off it, all of them write."""
    cache.start(names[0], cache.model.encode(PROMPT))
    for child in names[1:]:
        cache.fork(names[0], child)
    return write(cache, names, new_tokens)


# %% [markdown]
"""
## See it

One [prompt](../../book/glossary.md#term-prompt), two samples, with the contiguous cache. They part where their dice do.
"""

# %%
plain = samples(Contiguous(model), ["A", "B"], 90)
SideBySide(text(plain, "A"), text(plain, "B"), ("A", "B"))

# %% [markdown]
"""
*Two samples of one prompt. Pale is what they have in common, the mark shows where they part.* Both are right: this is what sampling
means. Keep the two texts in mind; you will see them again, once as they are and once spoilt.

## Predict first

A and B share the prompt: two [full blocks](../../book/glossary.md#term-full-block), and a third with 8 of its 16 slots filled. They take turns, A first. Suppose that the
copy is left out: at the first write into the shared third block nobody takes a new one, and both write into it, each at its next
position.

1. Whose text goes wrong: A's, B's, both, or does an error stop the program?
2. Which new character is the first that can be another one than it should be?
3. When both have filled that block and write into blocks of their own again, does the text recover?
"""

# %% tags=["remove-input"]
predict("missing-copy")

# %% [markdown]
"""
You will measure the first two, and see the third.

## Hands-on: bytes and slots

**Worked example.** Llama-3-8B has 32 layers and 8 KV heads of 128 numbers, 2 bytes each. One token leaves
2 × 32 × 8 × 128 × 2 = 131,072 bytes (128 KiB): the 2 in front stands for key and value. A block of 16 has 2 MiB, and that is what
one copy on write moves, as 2 × 32 = 64 pieces: in every layer a piece of the key cache and one of the value cache.

**Your turn**, with this lesson's model: 3 layers, 4 heads of 24 numbers, 4 bytes a number, blocks of 16.

- `bytes_per_token`: what does one token leave in the cache?
- `slot`: the slot of the token at position 20 of a sequence with the table [0, 2].
- `bytes_copied`: how many bytes does one copy of a block move, into the new block?
- `bytes_in_use`: the prompt of 40 tokens, four samples, 24 new tokens each. At the end the full blocks of the prompt are shared
  and the rest is each sample's own. How many bytes do the blocks in use have?
"""

# %% nbgrader={"grade": false, "grade_id": "numbers", "locked": false, "schema_version": 3, "solution": true, "task": false}
numbers = {"bytes_per_token": None, "slot": None, "bytes_copied": None, "bytes_in_use": None}    # replace each None by your number
### BEGIN SOLUTION
numbers = {"bytes_per_token": 2_304, "slot": 36, "bytes_copied": 36_864, "bytes_in_use": 368_640}
### END SOLUTION

# %% nbgrader={"grade": true, "grade_id": "numbers-checks", "locked": true, "points": 4, "schema_version": 3, "solution": false, "task": false}
check("04_real_cache/numbers", numbers)
### BEGIN HIDDEN TESTS
check("04_real_cache/numbers", numbers, thorough=True)
### END HIDDEN TESTS

# %% [markdown]
"""
## Code: write one token

`write_token(k_cache, v_cache, slot, k, v)` puts one token of one layer into its slot.

- `k_cache`, `v_cache`: the caches of one layer, shape (blocks, block_size, heads, head_dim);
- `slot`: a whole number from 0 to blocks × block_size − 1, counted through the pool;
- `k`, `v`: shape (heads, head_dim), of the caches' dtype.

It changes the two tensors that it was given, in that slot and nowhere else. What it returns does not matter.
"""

# %% nbgrader={"grade": false, "grade_id": "write_token", "locked": false, "schema_version": 3, "solution": true, "task": false}
def write_token(k_cache, v_cache, slot, k, v):
    """Put k and v into their slot of one layer's caches, in place. Roughly 3 lines.

    Shapes: caches (blocks, block_size, heads, head_dim); k and v (heads, head_dim).
    """
    ### BEGIN SOLUTION
    block, place = divmod(slot, k_cache.shape[1])
    k_cache[block, place] = k
    v_cache[block, place] = v
    ### END SOLUTION

# %% nbgrader={"grade": true, "grade_id": "write_token-checks", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
check("04_real_cache/write_token", write_token)
### BEGIN HIDDEN TESTS
check("04_real_cache/write_token", write_token, thorough=True)
### END HIDDEN TESTS

# %% [markdown]
"""
Yours, on a cache so small that it can be printed: two blocks of three slots, one head of one number.
"""

# %%
def one_written(slot):
    """A small key cache of zeros after your function has written 7 into a slot."""
    k_cache, v_cache = torch.zeros(2, 3, 1, 1), torch.zeros(2, 3, 1, 1)
    write_token(k_cache, v_cache, slot, torch.tensor([[7.0]]), torch.tensor([[8.0]]))
    return k_cache[:, :, 0, 0]


for slot in (0, 4):
    print(f"slot {slot}: blocks hold", one_written(slot).tolist())

# %% [markdown]
"""
## Code: copy one block

`copy_block(k_cache, v_cache, source, target)` is what `append`'s `True` asks for. A block number stands for one block in *every*
layer, so the caches come with all layers this time:

- `k_cache`, `v_cache`: shape (layers, blocks, block_size, heads, head_dim);
- `source`, `target`: two different block numbers.

Afterwards the target holds what the source holds, keys and values, in every layer. The source and all other blocks are as they
were. The whole block is copied, filled slots or not.
"""

# %% nbgrader={"grade": false, "grade_id": "copy_block", "locked": false, "schema_version": 3, "solution": true, "task": false}
def copy_block(k_cache, v_cache, source, target):
    """Copy one block to another in every layer, in place. Roughly 2 lines.

    Shape of both caches: (layers, blocks, block_size, heads, head_dim).
    """
    ### BEGIN SOLUTION
    k_cache[:, target] = k_cache[:, source]
    v_cache[:, target] = v_cache[:, source]
    ### END SOLUTION

# %% nbgrader={"grade": true, "grade_id": "copy_block-checks", "locked": true, "points": 4, "schema_version": 3, "solution": false, "task": false}
check("04_real_cache/copy_block", copy_block)
### BEGIN HIDDEN TESTS
check("04_real_cache/copy_block", copy_block, thorough=True)
### END HIDDEN TESTS

# %% [markdown]
"""
## Code: attention through a block table

**Faded example.** The worked `attention` needs all tokens in order. A paged sequence has them in blocks, in the order of its
table, and behind the last token there may be empty slots. Three tokens in blocks of 2 with the table [5, 1]: fill the gaps.

1. The blocks in logical order: `k_cache[[5, 1]]`, shape (2, 2, heads, head_dim).
2. As a row of slots: shape (…, heads, head_dim).
3. Of these only the first … belong to the sequence.
4. The last slot of block 1 holds …
"""

# %% tags=["remove-input"]
ask("gather-gaps")

# %% [markdown]
"""
`paged_attention(q, k_cache, v_cache, block_table, length)`:

- `q`: the newest token's query in one layer, shape (heads, head_dim), 32-bit or 64-bit floats;
- `k_cache`, `v_cache`: that layer's caches, shape (blocks, block_size, heads, head_dim), same dtype;
- `block_table`: a list of physical block numbers in logical order, ⌈length / block_size⌉ of them;
- `length`: how many tokens the sequence has, the newest included (its key and value are in the cache already); at least 1.

It returns a tensor with q's shape and dtype, right to within 0.0001 (absolute, and relative to the value), and changes nothing.
Inside you may compute as you like: in loops, with einsum, in 64 bits, or with torch's own `scaled_dot_product_attention` (in
`torch.nn.functional`), which scales by itself and wants the heads in front of the tokens.
"""

# %% nbgrader={"grade": false, "grade_id": "paged_attention", "locked": false, "schema_version": 3, "solution": true, "task": false}
def paged_attention(q, k_cache, v_cache, block_table, length):
    """What the query finds among the first `length` tokens of a block table. Roughly 5 lines.

    Shapes: q and the result (heads, head_dim); caches (blocks, block_size, heads, head_dim).
    """
    ### BEGIN SOLUTION
    keys = k_cache[block_table].flatten(0, 1)[:length]
    values = v_cache[block_table].flatten(0, 1)[:length]
    fits = (keys * q).sum(-1) / q.shape[-1] ** 0.5
    shares = fits.softmax(0)
    return (shares[:, :, None] * values).sum(0)
    ### END SOLUTION

# %% nbgrader={"grade": true, "grade_id": "paged_attention-checks", "locked": true, "points": 6, "schema_version": 3, "solution": false, "task": false}
check("04_real_cache/paged_attention", paged_attention)
### BEGIN HIDDEN TESTS
check("04_real_cache/paged_attention", paged_attention, thorough=True)
### END HIDDEN TESTS

# %% [markdown]
"""
Yours beside torch's own attention, on random numbers: 21 tokens in blocks of 16 with the table [2, 0], in a pool full of leftovers.
"""

# %%
def far_apart(seed):
    """The largest difference between your attention and torch's on a random cache."""
    dice = torch.Generator().manual_seed(seed)
    q, k_cache, v_cache = (torch.randn(shape, generator=dice) for shape in ((4, 24), (3, 16, 4, 24), (3, 16, 4, 24)))
    yours = paged_attention(q, k_cache, v_cache, [2, 0], 21)
    rows = [(2, place) for place in range(16)] + [(0, place) for place in range(5)]
    keys, values = (torch.stack([cache[row] for row in rows], dim=1) for cache in (k_cache, v_cache))
    torchs = torch.nn.functional.scaled_dot_product_attention(q[:, None], keys, values)[:, 0]
    return float((yours - torchs).abs().max())


print(f"largest difference in 20 trials: {max(map(far_apart, range(20))):.1e}")

# %% [markdown]
"""
## Your `BlockManager`

Paste your class from lesson 3 over the cell below, all of it. Nothing in it has to change: it counted blocks there and it counts
blocks here. It is checked once more by the [promises](../../book/glossary.md#term-promise) of lesson 3, for a few points. If yours is not finished, finish it
[there](../03_copy_on_write/03_copy_on_write.ipynb), where the explanations are.
"""

# %% nbgrader={"grade": false, "grade_id": "BlockManager", "locked": false, "schema_version": 3, "solution": true, "task": false}
class BlockManager:
    """Paste your class from lesson 3 over this one."""

    def __init__(self, num_blocks, block_size):
        self.num_blocks = num_blocks
        self.block_size = block_size
        self.free = list(range(num_blocks))    # numbers of the free blocks, ascending
        self.ref = {}                          # physical block -> reference count
        self.seqs = {}                         # name -> {"blocks": [physical blocks], "len": tokens}

    def _take(self):
        ### BEGIN SOLUTION
        if not self.free:
            raise MemoryError("no free block")
        block = self.free.pop(0)
        self.ref[block] = 1
        return block
        ### END SOLUTION

    def allocate(self, name, n_tokens):
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
        ### BEGIN SOLUTION
        source = self.seqs[parent]
        if child in self.seqs:
            raise ValueError(f"{child!r} is already a sequence")
        for block in source["blocks"]:
            self.ref[block] += 1
        self.seqs[child] = {"blocks": list(source["blocks"]), "len": source["len"]}
        ### END SOLUTION

    def append(self, name):
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
        ### BEGIN SOLUTION
        for block in self.seqs.pop(name)["blocks"]:
            self.ref[block] -= 1
            if self.ref[block] == 0:
                del self.ref[block]
                self.free.append(block)
        self.free.sort()
        ### END SOLUTION

    def used(self):
        ### BEGIN SOLUTION
        return self.num_blocks - len(self.free)
        ### END SOLUTION

# %% nbgrader={"grade": true, "grade_id": "BlockManager-checks", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
check("04_real_cache/BlockManager", BlockManager)
### BEGIN HIDDEN TESTS
check("04_real_cache/BlockManager", BlockManager, thorough=True)
### END HIDDEN TESTS

# %% [markdown]
"""
## Your own cache

Now the parts come together. Read this class with care: it is the whole engine. The manager says where, your three functions move
the numbers, the model never learns that its cache is paged. It answers the same four calls as `Contiguous`.
"""

# %%
class Paged:
    """All sequences in one pool. The manager keeps the books, this class moves the numbers."""

    def __init__(self, model, num_blocks=24, block_size=16):
        shape = model.layers, num_blocks, block_size, model.heads, model.head_dim
        self.model, self.block_size = model, block_size
        self.manager = BlockManager(num_blocks, block_size)
        self.k, self.v = (torch.zeros(shape, dtype=model.dtype) for _ in "kv")
        self.tokens, self.scores, self.copies = {}, {}, 0

    def table(self, name):
        return [int(block) for block in self.manager.seqs[name]["blocks"]]

    def start(self, name, tokens):
        self.manager.allocate(name, len(tokens))
        self.tokens[name] = []
        for token in tokens:
            self.compute(name, token)

    def feed(self, name, token):
        """Read one token more: first room for it, then the model."""
        before = self.table(name)
        if self.manager.append(name):
            self.copies += 1
            self.copy(before[-1], self.table(name)[-1])
        self.compute(name, token)

    def copy(self, source, target):
        copy_block(self.k, self.v, source, target)

    def compute(self, name, token):
        """Take the token through the model; its key and value go into the slot that the table names."""
        position = len(self.tokens[name])
        table = self.table(name)[: position // self.block_size + 1]
        slot = table[-1] * self.block_size + position % self.block_size

        def attend(layer, q, k, v):
            write_token(self.k[layer], self.v[layer], slot, k, v)
            return paged_attention(q, self.k[layer], self.v[layer], table, position + 1)

        self.tokens[name].append(token)
        self.scores[name] = self.model.step(token, position, attend)

    def fork(self, parent, child):
        self.manager.fork(parent, child)
        self.tokens[child], self.scores[child] = list(self.tokens[parent]), self.scores[parent]

    def stop(self, name):
        self.manager.release(name)
        del self.tokens[name], self.scores[name]


# %% [markdown]
"""
Four samples of the prompt, six characters each, and then the pool, drawn from your manager:
"""

# %% mystnb={"image": {"alt": "The pool after four samples have written six characters each: blocks 0 and 1 hold the prompt's 32 first tokens and are shared by all four; each sample has one partly filled block of its own with 14 tokens."}}
draw.blocks(samples(Paged(model, num_blocks=12), ["A", "B", "C", "D"], 6).manager, title="Four samples of a 40-token prompt, six characters on")

# %% [markdown]
"""
*Figure 1. Blocks 0 and 1, full and shared by all four, hold the prompt's first 32 tokens. The third block was copied three times;
the last sample to write kept the original.* What is new: behind each of these squares there are numbers now.

The same with two samples, to be stepped through: watch the third block while A and B write their first characters, and again when it
is full.
"""

# %%
class Watched(Paged):
    """Keeps a copy of the manager's books after each call, with what was done in words."""

    def __init__(self, model, num_blocks):
        super().__init__(model, num_blocks)
        self.moments = []

    def note(self, words):
        self.moments.append((words, read_state(self.manager)))

    def start(self, name, tokens):
        super().start(name, tokens)
        self.note(f"{name} reads the prompt, {len(tokens)} tokens")

    def fork(self, parent, child):
        super().fork(parent, child)
        self.note(f"{child} is forked off {parent}")

    def feed(self, name, token):
        copies = self.copies
        super().feed(name, token)
        self.note(f"{name} writes {self.model.decode([token])!r}" + (", and a block is copied first" if self.copies > copies else ""))


watched = samples(Watched(model, 8), ["A", "B"], 10)
simulate.history(watched.moments, num_blocks=8, block_size=16, title="Two samples of the prompt, ten characters each", key="watched")

# %% [markdown]
"""
*Every picture is your manager's state after one call of the engine.*

## Is it the same?

A cache is right if nobody can tell from the text that it is there. The same dice, the same prompt, both caches:
"""

# %%
def far(one, other, name):
    """The largest difference of a sequence's scores in two caches."""
    return float((one.scores[name] - other.scores[name]).abs().max())


def compare(model):
    """A and B on both caches: are the texts equal, how far are the scores apart, how many copies?"""
    paged, plain = (samples(kind(model), ["A", "B"], 90) for kind in (Paged, Contiguous))
    same = all(text(paged, name) == text(plain, name) for name in ("A", "B"))
    return same, max(far(paged, plain, name) for name in ("A", "B")), paged.copies


same, apart, copies = compare(model)
print(f"the same texts: {same}; blocks copied: {copies}")
print(f"largest difference of the scores: {apart:.0e}")

# %% [markdown]
"""
The texts are equal, and with two [owners](../../book/glossary.md#term-owner) one block was copied. But the scores differ a little. Is that rounding, since the two add
up the same numbers in another order, or is it a small mistake? There is a test for that: compute in 64 bits. Rounding errors then
shrink to a billionth. A mistake stays as large as it is.
"""

# %%
exact = charmodel.load("float64")
same, apart, copies = compare(exact)
print(f"in 64 bits: the same texts: {same}")
print(f"largest difference of the scores: {apart:.0e}")

# %% [markdown]
"""
It was rounding. **[Paging](../../book/glossary.md#term-paging) changes where a token lies, not what it says.** From here on the comparisons are made in 64 bits, so that
nothing can hide behind rounding, and 0.00001 is the most that is let pass.

### Beam search

[Beam search](../../book/glossary.md#term-beam-search) (lesson 3) forks and releases at every step, and now the model's own probabilities decide which beams survive. The
score of a beam is the sum of its characters' log-probabilities.
"""

# %%
def beam_search(cache, width, steps):
    """The `width` best continuations of the prompt, best first, as (log-probability, text)."""
    cache.start("0", cache.model.encode(PROMPT))
    beams, born = {"0": 0.0}, 0
    for _ in range(steps):
        offers = []
        for name, so_far in beams.items():
            gains, tokens = torch.log_softmax(cache.scores[name], dim=-1).topk(width)
            offers += [(so_far + float(gain), name, int(token)) for gain, token in zip(gains, tokens)]
        chosen = sorted(offers, reverse=True)[:width]
        for name in set(beams) - {parent for _, parent, _ in chosen}:
            cache.stop(name)                     # no child of it is among the best
        following, tails = {}, []
        for total, parent, token in chosen:
            name = parent
            if parent in following:              # its first child goes on under its name, the others are forked off
                born += 1
                name = str(born)
                cache.fork(parent, name)
            following[name] = total
            tails.append((name, token))
        for name, token in tails:
            cache.feed(name, token)
        beams = following
    return [(round(total, 3), text(cache, name)) for name, total in sorted(beams.items(), key=lambda beam: -beam[1])]


# %%
paged, plain = Paged(exact, num_blocks=12), Contiguous(exact)
found = beam_search(paged, 4, 40)
print("the same beams:", found == beam_search(plain, 4, 40))
print(f"copied: {paged.copies} blocks; in use at the end: {paged.manager.used()}")
for total, words in found:
    print(f"{total:8.3f}  …{words[30:]}".replace("\n", " ↵ "))

# %% mystnb={"image": {"alt": "The pool after a beam search with four beams over 40 steps. The beams share their first blocks, which are full, and have last blocks of their own."}}
draw.blocks(paged.manager, title="Four beams of 80 tokens")

# %% [markdown]
"""
*Figure 2. What the beams have in common is there once (hatched, with its count); at the end of its table each has a block of its
own.* Without sharing four beams of 80 tokens would need 4 × 5 = 20 blocks.

### Preemption by recompute

When no block is free, a sequence is given up: its blocks go to the others, and only its *text* is kept. Later it comes back by
being read again, all of it, as if it were a prompt. That is **[recompute](../../book/glossary.md#term-recompute)**: no [swap](../../book/glossary.md#term-swap), no copy, only work done twice. Nothing of it
may show in the text either.

So here is the trial for everything at once. Random histories on small pools: sequences start, fork, write, stop, run out of blocks,
are preempted and come back. The contiguous cache does the same without ever running out. After each character the two must agree.
"""

# %%
class Both:
    """Both caches, put through the same operations. Only the paged one can run out of blocks; then it preempts."""

    def __init__(self, model, num_blocks, block_size):
        self.paged, self.plain = Paged(model, num_blocks, block_size), Contiguous(model)
        self.happened = dict.fromkeys(("characters", "forks", "releases", "preemptions", "recomputed tokens"), 0)
        self.waiting, self.born = [], 0

    def new_name(self):
        self.born += 1
        return f"s{self.born}"

    def with_room(self, operation, name, *more):
        """Do it; as long as there is no room, preempt whoever came last and is not concerned."""
        while True:
            try:
                return operation(name, *more)
            except MemoryError:
                last = [other for other in self.paged.tokens if other != name][-1]
                self.paged.stop(last)             # its text is still in the contiguous cache
                self.waiting.append(last)
                self.happened["preemptions"] += 1

    def start(self, prompt):
        name = self.new_name()
        self.with_room(self.paged.start, name, prompt)
        self.plain.start(name, prompt)

    def come_back(self):
        """Recompute the sequence that has waited longest."""
        name = self.waiting.pop(0)
        self.with_room(self.paged.start, name, self.plain.tokens[name])
        self.happened["recomputed tokens"] += len(self.plain.tokens[name])

    def fork(self, parent):
        child = self.new_name()
        self.paged.fork(parent, child)
        self.plain.fork(parent, child)
        self.happened["forks"] += 1

    def stop(self, name):
        self.paged.stop(name)
        self.plain.stop(name)
        self.happened["releases"] += 1

    def write(self, name, luck):
        """One character on each cache, drawn from its own scores with the same luck."""
        ours, theirs = (draw_one(cache.scores[name], random.Random(luck)) for cache in (self.paged, self.plain))
        if ours != theirs:
            raise AssertionError(f"{name} goes on with another character than it should")
        self.with_room(self.paged.feed, name, ours)
        self.plain.feed(name, theirs)
        self.happened["characters"] += 1


# %% [markdown]
"""
A [history](../../book/glossary.md#term-history) is thirty random decisions about these operations, in blocks of 1 to 16 slots. After each of them the texts and scores of
all sequences that are in the pool are compared.
"""

# %%
def random_history(model, seed, steps=30):
    """What happened in one random history, and how far the scores were apart at most."""
    dice = random.Random(seed)
    block_size = dice.choice((1, 2, 3, 4, 8, 16))
    both, apart = Both(model, dice.randint(60, 110) // block_size, block_size), 0.0
    for _ in range(steps):
        live, wish = list(both.paged.tokens), dice.random()
        if not live or wish < 0.08:
            begin = dice.randrange(30)
            both.start(model.encode(PROMPT[begin : begin + dice.randint(1, 10)]))
        elif wish < 0.3 and both.waiting:
            both.come_back()
        elif wish < 0.48:
            both.fork(dice.choice(live))
        elif wish < 0.54 and len(live) > 1:
            both.stop(dice.choice(live))
        else:
            name = dice.choice(live)
            room = 50 - len(both.plain.tokens[name])    # the smallest pool has 60 slots for one sequence
            for _ in range(min(dice.randint(1, 4), room)):
                both.write(name, dice.random())
        for name in both.paged.tokens:
            if both.paged.tokens[name] != both.plain.tokens[name]:
                raise AssertionError(f"history {seed}: {name} has another text than it should")
            apart = max(apart, far(both.paged, both.plain, name))
    return {**both.happened, "copies": both.paged.copies}, apart


def trial(seeds):
    """All these histories together."""
    total, worst = {}, 0.0
    for seed in seeds:
        happened, apart = random_history(exact, seed)
        total = {what: total.get(what, 0) + count for what, count in happened.items()}
        worst = max(worst, apart)
    return total, worst


total, worst = trial(range(12))
for what, count in total.items():
    print(f"{count:4} {what}")
print(f"largest difference of any score: {worst:.0e}", "(within 1e-5)" if worst <= 1e-5 else "(more than 1e-5)")

# %% [markdown]
"""
Every character the same, through all of it. If this cell complains while your checks pass, that is worth a bug report.

## One copy left out

Back to the [prediction](../../book/glossary.md#term-prediction). The engine below has a planted bug: where your manager answers "copied", it does not use the new block but
goes on with the old one, the way a manager without [copy-on-write](../../book/glossary.md#term-copy-on-write) would have told it. Nothing else is changed.
"""

# %%
class NeverCopies(Paged):
    """With a planted bug: what belongs into a copy is written into the block that others read."""

    def __init__(self, model):
        super().__init__(model)
        self.instead = {}    # block that should hold a copy -> block used in its place

    def copy(self, source, target):
        self.instead[target] = self.instead.get(source, source)

    def table(self, name):
        return [self.instead.get(block, block) for block in super().table(name)]


def spoilt(engine, name):
    """A sample's text with a right cache and with this engine; same prompt, dice and turns."""
    right, wrong = samples(Paged(model), ["A", "B"], 90), samples(engine, ["A", "B"], 90)
    return SideBySide(text(right, name), text(wrong, name), (f"{name}, as it should be", f"{name}, with {type(engine).__name__}"))


# %%
predicted("missing-copy")
spoilt(NeverCopies(model), "A")

# %% [markdown]
"""
*The text of A, left with exact copies, right with the copy left out. The mark shows where they part; characters 1 to 40 are the
prompt.*
"""

# %%
spoilt(NeverCopies(model), "B")

# %% [markdown]
"""
*The text of B, which wrote second. It is untouched.*

So much for question 1. For question 2, do not trust the text, in which a wrong score can still give the right character; compare
the scores:
"""

# %%
def first_wrong(engine, name="A"):
    """The first new character, of 24, that is drawn from wrong scores: its number, or None."""
    right = Paged(model)
    for cache in (right, engine):
        samples(cache, ["A", "B"], 0)
    dice = {turn: random.Random(f"dice of {turn}") for turn in ("A", "B")}
    for number in range(1, 25):
        if far(right, engine, name) > 1e-3:
            return number
        for turn in ("A", "B"):
            token = draw_one(right.scores[turn], dice[turn])    # the same for both engines
            right.feed(turn, token)
            engine.feed(turn, token)
    return None


for name in ("A", "B"):
    print(f"{name}: first new character with wrong scores: {first_wrong(NeverCopies(model), name)}")

# %% [markdown]
"""
The third or a later one: if A and B happen to draw the same first character, the shared slot holds what both expect, and nothing is
wrong until they differ. (A test in which both siblings write the same token proves nothing.) And from the ninth new character on
each has blocks of its own again, position 48 being a boundary, but the eight slots before stay B's. A's past has been rewritten.

A copy can also be made badly. Three ways that your `copy_block` does not have, and what they do to whoever gets the copy:
"""

# %%
class HalfCopies(Paged):
    """Copies a part of the block only. `k[:1]` is a view: the first layer of the same tensor."""

    def __init__(self, model, part):
        super().__init__(model)
        self.part = part

    def copy(self, source, target):
        k, v = self.part(self.k, self.v)
        copy_block(k, v, source, target)


ways = {
    "keys only": lambda k, v: (k, v.clone()),
    "values only": lambda k, v: (k.clone(), v),
    "first layer only": lambda k, v: (k[:1], v[:1]),
    "all of it": lambda k, v: (k, v),
}
for way, part in ways.items():
    number = first_wrong(HalfCopies(model, part))
    print(f"{way:17} A: first new character with wrong scores: {number}")

# %% [markdown]
"""
This time the harm comes at once and to the one who copies, since the prompt itself is damaged in its new block. A was the first to
write, so A got the copy.

## Write it down

In your own words, two to five sentences, marked by hand: **Why is it A that is harmed by the missing copy and not B, and what would
have to be different for B to be harmed?** Use what your own cells above show.
"""

# %% [markdown] nbgrader={"grade": true, "grade_id": "who_is_harmed", "locked": false, "points": 2, "schema_version": 3, "solution": true, "task": false}
"""
### BEGIN SOLUTION
Both write their token of a position into one and the same slot. B writes after A in every turn, so from then on the slot holds B's
key and value: B reads its own past, while A reads B's tokens wherever it believes its own to be. Nothing protects the child or
endangers the parent as such; it is the order of the writes. If the turns went B, A, then A would write last and B would be the one
harmed. (1 point: whoever writes last owns the slot; 1 point: another order of turns.)
### END SOLUTION
"""

# %% [markdown]
"""
## What it costs

Memory of both caches, measured from the tensors themselves: numbers × bytes per number.
"""

# %%
def size(*tensors):
    """Bytes of tensors."""
    return sum(tensor.nelement() * tensor.element_size() for tensor in tensors)


def measured(n, new_tokens=24):
    """n samples on both caches: bytes that the contiguous one holds, the paged pool, and its blocks in use."""
    names = [f"sample {i}" for i in range(n)]
    plain, paged = samples(Contiguous(model), names, new_tokens), samples(Paged(model), names, new_tokens)
    blocks = sorted(read_state(paged.manager).ref)
    return size(*plain.k.values(), *plain.v.values()), size(paged.k, paged.v), size(paged.k[:, blocks], paged.v[:, blocks])


contiguous, pool, in_use = measured(4)
print(f"four samples, contiguous: {contiguous:,} bytes")
print(f"four samples, paged:      {in_use:,} bytes in use, of a pool of {pool:,}")
print("bytes in use:", "as you said" if in_use == numbers["bytes_in_use"] else "not the number you gave")

# %% mystnb={"image": {"alt": "Kibibytes held against the number of samples, 1 to 8, for a 40-token prompt and 24 new tokens: the contiguous cache rises by 432 KiB with each sample to 3,456 KiB, the blocks in use of the paged cache rise from 144 to 648 KiB."}}
draw.savings(
    [1, 2, 4, 8],
    {"contiguous, reserved to 192 tokens": [measured(n)[0] / 1024 for n in (1, 2, 4, 8)],
     "paged, blocks in use": [measured(n)[2] / 1024 for n in (1, 2, 4, 8)]},
    xlabel="samples of one 40-token prompt, 24 new tokens each",
    ylabel="KiB of keys and values",
)

# %% [markdown]
"""
*Figure 3. Measured from the tensors. Each further sample costs the contiguous cache 432 KiB, its whole reservation; the paged one
72 KiB, two blocks.* The pool itself has its full size from the start, like a GPU's. What paging changes is how many sequences fit.

And time? On a CPU and at this size, paging gains nothing: the gather copies each sequence's keys and values at every step, which
a real kernel avoids by reading through the table. What a copy costs on a GPU is lesson 5.

## Check your understanding

**1.** The pool's tensors are full of numbers from sequences that were released. Why does nobody clear them?

<details><summary>Answer</summary>

Because nobody reads them. A slot is read only if a table leads there and its place lies before the length, and such a slot has been
written by its owner. Clearing would cost as much as a copy. (It is also why a freed block can still be found by its key, lesson 2.)

</details>

**2.** `length` is one too high in a single call, and the slot behind the last token was never written by anybody. What happens?

<details><summary>Answer</summary>

The slot holds zeros, so its score is 0 and its weight is e⁰ over the sum: not nothing. Its value of zeros pulls the result towards
zero. In a used pool it would be a stranger's value instead. Neither raises an error.

</details>

**3.** Lesson 3's manager answers `True` from `append` *after* it has changed its table. What must the engine remember, and do in
which order?

<details><summary>Answer</summary>

The old block's number, from before the call. Then copy, then write the new token, then attend. If the token were written first it
would be overwritten by the copy.

</details>

**4.** A sequence of 100 tokens is preempted and comes back by recompute. Which blocks does it get, and are its keys the same?
"""

# %% tags=["remove-input"]
ask("recompute-blocks")

# %% [markdown]
"""
**5.** With 3 layers, how many separate pieces of memory does one `copy_block` move in this lesson's layout?
"""

# %% tags=["remove-input"]
ask("six-pieces")

# %% [markdown]
"""
## What people get wrong

**"The cache holds the attention weights."** It holds keys and values. The weights are new at every step, because the query is; they
are used once and thrown away.

**"Paged attention is an approximation."** It isn't. It reads the same numbers from other places. What differs is the order in which
sums are rounded, and in 64 bits next to nothing is left of that.

**"An unwritten slot is harmless because it holds zeros."** A score of zero has the weight e⁰ = 1 before it is divided by the sum.
Only what is cut off before the softmax, or masked with −∞, has no weight.

**"If the copy were forgotten, the child would break."** The one that breaks is whoever wrote first and reads later. Here that is
the parent.

**"A wrong cache gives garbage, so one would notice."** Look at A's spoilt text: it has words, and it is wrong. A model goes on
fluently from any past. Only a comparison with a cache that is known to be right shows it.

**"Recompute gives another text, because the dice have been thrown."** Recompute reads the tokens that were drawn before, as a
prompt. Nothing is drawn again.

**"`scaled_dot_product_attention` wants a scaled query."** It scales by itself. Scaling before it as well flattens the weights: no
error, a worse text.

## Reference

| quantity | formula | here |
|---|---|---|
| bytes of a token | 2 × layers × heads × head_dim × bytes per number | 2 × 3 × 4 × 24 × 4 = 2,304 |
| bytes of a block | block size × bytes of a token | 36,864 (36 KiB) |
| slot of a position p | table[p // size] × size + p % size | |
| attention, one head | softmax(q · kᵢ / √head_dim) over i < length, then the sum of the weighted vᵢ | |
| pieces in a copy | 2 × layers | 6 |

One step of one sequence, in words: *[append](../../book/glossary.md#term-append) (and copy the block if it says so); then in every layer write the key and the value into
the slot, and attend through the table up to the new length.*

Plain code: `attention` and `Contiguous` above are the whole of it without paging.

**Sources.**

- Kwon et al., *Efficient Memory Management for Large Language Model Serving with PagedAttention*, SOSP 2023, arXiv 2309.06180: the
  attention kernel and the block table §4.1–4.3; copy-on-write §4.4; recompute §4.5; a kernel of its own for copies §5.1.
- Llama-3-8B's shape (32 layers, 8 KV heads of 128) is that of its published configuration.
- The model: `autograder/staff/train_charmodel.py` in the course's repository, with its text and its seed. Each number on this page
  that is not in a source was computed or measured by a cell on it.

## Two recall questions

**From lesson 2.** Two [requests](../../book/glossary.md#term-request) with the same 40-token prompt arrive at an engine that caches [prefixes](../../book/glossary.md#term-prefix), blocks of 16. How many blocks
can the second take over, and why is nothing of this lesson's copying needed for it?
"""

# %% tags=["remove-input"]
ask("recall-take-over")

# %% [markdown]
"""
**From lesson 3.** Five sequences share a [partly filled block](../../book/glossary.md#term-partly-filled-block) and all of them write. How many copies, and what does the last one do?
"""

# %% tags=["remove-input"]
ask("recall-five")

# %% [markdown]
"""
## What you predicted

This cell counts that you committed to an answer, 1 point. Whether you were right earns nothing and costs nothing.
"""

# %% nbgrader={"grade": true, "grade_id": "predictions", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
check("04_real_cache/predictions", predictions("04_real_cache"))
### BEGIN HIDDEN TESTS
check("04_real_cache/predictions", predictions("04_real_cache"), thorough=True)
### END HIDDEN TESTS

# %% [markdown]
"""
Next: lesson 5, which measures what one of these copies costs on the machine that you have.
"""
