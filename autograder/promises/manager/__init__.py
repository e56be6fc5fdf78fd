"""The promises of a block manager. They relate the state after one operation to the state before it.

A module for each operation, one for what all of them answer and one for what is so after each. Importing them enters
their promises in `ALL`.
"""

from autograder.promises.manager import allocate, append, fork, outcomes, release, states
from autograder.promises.manager.registry import ALL, EVERY_ROW, HOW
from autograder.promises.manager.step import Step

__all__ = ["ALL", "EVERY_ROW", "HOW", "Step", "allocate", "append", "fork", "outcomes", "release", "states"]
