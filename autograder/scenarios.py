"""Scripted histories of a block pool for the simulators: the walk of lesson 3, and four bugs that an engine once had.

The bugs are those that the authors of PagedAttention fixed on 14 February 2023 (vLLM repository, commits c128c2ed,
1f739f9b, be1e2163, 2729087e). Notes stand beside the step that they speak of: step 1 is the first operation.
"""

from __future__ import annotations

from typing import NamedTuple

from autograder.record import State


class Scenario(NamedTuple):
    """A history of operations on a pool.

    bug: where an engine went wrong on it, what it held after each operation, worked out by hand from what its commit
    mended. still: what a right manager holds after `still_at` operations, for a picture without scripts.
    """

    id: str
    title: str
    words: str
    num_blocks: int
    block_size: int
    ops: list[tuple]
    notes: dict[int, str]
    bug: list[State] | None = None
    still: State | None = None
    still_at: int = 0

    def to_json(self) -> dict:
        """What the pool simulator needs."""
        known = ("id", "title", "words", "num_blocks", "block_size", "notes")
        return {name: getattr(self, name) for name in known} | {"ops": [list(op) for op in self.ops]}


_A5 = State((2, 3, 4, 5, 6, 7), {0: 1, 1: 1}, {"A": ((0, 1), 5)})
_A5_B = State((2, 3, 4, 5, 6, 7), {0: 2, 1: 2}, {"A": ((0, 1), 5), "B": ((0, 1), 5)})
_A8 = State((2, 3, 4, 5, 6, 7), {0: 1, 1: 1}, {"A": ((0, 1), 8)})
_A8_B = State((2, 3, 4, 5, 6, 7), {0: 2, 1: 2}, {"A": ((0, 1), 8), "B": ((0, 1), 8)})
_SHARED = [("allocate", "A", 8), ("fork", "A", "B")]
_SWAPPED = "A and B share two full blocks and are moved to the CPU's pool. For this pool that means: both are released."

SCENARIOS = {scenario.id: scenario for scenario in (
    Scenario(
        "walk", "The walk: fork, then write", "Ten blocks of 16. A has 20 tokens, B is forked off it, and both go on writing.", 10, 16,
        [("allocate", "A", 20), ("fork", "A", "B"), ("append", "B"), ("append", "A"), ("release", "A")], {},
        still=State(tuple(range(2, 10)), {0: 2, 1: 2}, {"A": ((0, 1), 20), "B": ((0, 1), 20)}), still_at=2,
    ),
    Scenario(
        "boundary", "The block boundary", "A starts with 14 of 16 slots filled. Watch which token takes the next block.", 4, 16,
        [("allocate", "A", 14), *[("append", "A")] * 4], {3: "The block is full now, and no other is taken before a token needs one."},
    ),
    Scenario(
        "full-pool", "No block left", "Two blocks of 4, both shared: the next write needs a third.", 2, 4,
        [("allocate", "A", 5), ("fork", "A", "B"), ("append", "B"), ("release", "A"), ("append", "B")],
        {3: "Nothing may have changed: had the count of #1 been lowered before a block was taken, A's block would be in danger.", 5: "B owns #1 alone now and writes in place."},
    ),
    Scenario(
        "double-free", "c128c2ed: double free", "A copy on write whose new block was put behind the shared one instead of in its place.", 8, 4,
        [("allocate", "A", 5), ("fork", "A", "B"), ("append", "B"), ("release", "A"), ("release", "B")],
        {3: "The engine's B had the table [0, 1, 2]: the copy stood behind the shared block.", 4: "There, A's end freed #1 though B's table still listed it.",
         5: "There, B gave #1 back a second time: it stood in the free list twice, for two strangers to get."},
        [_A5, _A5_B,
         State((3, 4, 5, 6, 7), {0: 2, 1: 1, 2: 1}, {"A": ((0, 1), 5), "B": ((0, 1, 2), 6)}),
         State((1, 3, 4, 5, 6, 7), {0: 1, 2: 1}, {"B": ((0, 1, 2), 6)}),
         State((0, 1, 1, 2, 3, 4, 5, 6, 7), {}, {})],
    ),
    Scenario(
        "tables-not-rewritten", "1f739f9b: tables not rewritten", f"Swapping out. {_SWAPPED}", 8, 4,
        [*_SHARED, ("release", "A"), ("release", "B"), ("allocate", "C", 8)],
        {4: "The engine's A and B still pointed at #0 and #1, which were free.", 5: "There, C was given the very blocks that A and B believed to be theirs."},
        [_A8, _A8_B,
         State((2, 3, 4, 5, 6, 7), {0: 1, 1: 1}, {"A": ((0, 1), 8), "B": ((0, 1), 8)}),
         State((0, 1, 2, 3, 4, 5, 6, 7), {}, {"A": ((0, 1), 8), "B": ((0, 1), 8)}),
         State((2, 3, 4, 5, 6, 7), {0: 1, 1: 1}, {"A": ((0, 1), 8), "B": ((0, 1), 8), "C": ((0, 1), 8)})],
    ),
    Scenario(
        "given-back-once", "be1e2163: given back once", f"Swapping out. {_SWAPPED}", 8, 4,
        [*_SHARED, ("release", "A"), ("release", "B"), ("allocate", "C", 8)],
        {4: "The engine gave each block back once although two table entries pointed at it: the counts stayed at 1.", 5: "There, C got #2 and #3; #0 and #1 were lost for good, two more with every such swap."},
        [_A8, _A8_B,
         State((2, 3, 4, 5, 6, 7), {0: 1, 1: 1}, {"B": ((0, 1), 8)}),
         State((2, 3, 4, 5, 6, 7), {0: 1, 1: 1}, {}),
         State((4, 5, 6, 7), {0: 1, 1: 1, 2: 1, 3: 1}, {"C": ((2, 3), 8)})],
    ),
    Scenario(
        "count-not-raised", "2729087e: count not raised", "Swapping in: this is the pool that A and B come to. A takes two blocks, B's table points at the same two.", 8, 4,
        [*_SHARED, ("release", "A"), ("allocate", "C", 8)],
        {2: "The engine did not raise the counts for B: two table entries, count 1.", 3: "There, A's end freed #0 and #1 under B.", 4: "There, C was given them, and wrote over what B reads."},
        [_A8, State((2, 3, 4, 5, 6, 7), {0: 1, 1: 1}, {"A": ((0, 1), 8), "B": ((0, 1), 8)}),
         State((0, 1, 2, 3, 4, 5, 6, 7), {}, {"B": ((0, 1), 8)}),
         State((2, 3, 4, 5, 6, 7), {0: 1, 1: 1}, {"B": ((0, 1), 8), "C": ((0, 1), 8)})],
    ),
)}  # fmt: skip

# The beam search of lesson 3: which beams win is made up.
BEAMS = [
    {"fork": [("A", "B"), ("A", "C")], "release": []},
    {"fork": [("A", "D")], "release": ["B"]},
    {"fork": [], "release": []},
    {"fork": [("D", "E"), ("D", "F")], "release": ["A", "C"]},
    {"fork": [], "release": []},
    {"fork": [("F", "G")], "release": ["E"]},
]

# The stream of lesson 1, frozen as there until A leaves; then everybody writes on until all are done.
STREAM = [
    ("arrive", "A", 20, 36), ("arrive", "B", 33, 60), ("arrive", "C", 40, 44), ("arrive", "D", 50, 58), ("leave", "A"),
    *[("grow", 4)] * 9,
]  # fmt: skip

# The memory of both pools when A to D have arrived: (start, length, kind, owner). The simulator's own numbers must agree.
ARRIVED = 4
CONTIGUOUS = [
    (0, 20, "tokens", "A"), (20, 16, "reserved", "A"), (36, 28, "internal", "A"),
    (64, 33, "tokens", "B"), (97, 27, "reserved", "B"), (124, 4, "internal", "B"), (128, 32, "external", None),
]  # fmt: skip
PAGED = [
    (0, 16, "tokens", "A"), (16, 4, "tokens", "A"), (20, 12, "internal", "A"),
    (32, 16, "tokens", "B"), (48, 16, "tokens", "B"), (64, 1, "tokens", "B"), (65, 15, "internal", "B"),
    (80, 16, "tokens", "C"), (96, 16, "tokens", "C"), (112, 8, "tokens", "C"), (120, 8, "internal", "C"),
    (128, 16, "free", None), (144, 16, "free", None),
]  # fmt: skip
