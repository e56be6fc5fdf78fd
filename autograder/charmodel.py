"""A tiny transformer that writes one character after the other: the model of lesson 4. torch is imported on use.

Its weights lie beside this file. `python -m autograder.staff.train_charmodel` made them; their header says how.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from autograder.needs import need

if TYPE_CHECKING:
    from torch import Tensor

WEIGHTS = Path(__file__).with_name("charmodel.safetensors")


def load(dtype: str = "float32", path: Path = WEIGHTS) -> CharModel:
    """The trained model, to compute in this precision. A safetensors file is a header and numbers: nothing in it is ever run, as a pickle would be."""
    torch = need("torch", "Lesson 4's model")
    with need("safetensors", "Lesson 4's model").safe_open(path, framework="pt") as file:
        about = dict(file.metadata())
        return CharModel({name: file.get_tensor(name).to(getattr(torch, dtype)) for name in file.keys()}, about)  # noqa: SIM118


class CharModel:
    """Weights and the one function that uses them.

    weights: name → tensor, all of one dtype. about: the file's header, with the alphabet and how many heads there are.
    """

    def __init__(self, weights: dict[str, Tensor], about: dict[str, str]):
        self.weights, self.about = weights, about
        self.alphabet = about["alphabet"]
        self.heads = int(about["heads"])
        self.dtype = weights["position"].dtype
        self.longest, width = weights["position"].shape    # tokens that a text may have; numbers that stand for one
        self.head_dim = width // self.heads
        self.layers = sum(name.endswith(".qkv") for name in weights)

    def encode(self, text: str) -> list[int]:
        """A token for each character; ValueError for one that the model has never seen."""
        strange = sorted(set(text) - set(self.alphabet))
        if strange:
            raise ValueError(f"The model knows the characters {self.alphabet!r}, not {''.join(strange)!r}.")
        return [self.alphabet.index(character) for character in text]

    def decode(self, tokens: list[int]) -> str:
        """The text that the tokens stand for."""
        return "".join(self.alphabet[token] for token in tokens)

    def step(self, token: int, position: int, attend: Callable) -> Tensor:
        """One token through all layers; a score for each character that may come next, shape (alphabet,).

        `attend(layer, q, k, v)` is called once in each layer, with this token's query, key and value, each of shape
        (heads, head_dim). It has to keep k and v and to give back what the query finds among all keys and values of
        the sequence so far, in the same shape. The model itself remembers nothing.
        """
        import torch

        with torch.no_grad():
            return self.scores(token, position, attend)

    def scores(self, tokens, positions, attend: Callable) -> Tensor:
        """The same for any number of tokens at once: leading dimensions go through to `attend`. (Training uses it.)"""
        from torch.nn.functional import gelu

        w = self.weights
        x = w["token"][tokens] + w["position"][positions]
        for layer in range(self.layers):
            qkv = _norm(x, w[f"{layer}.norm1"]) @ w[f"{layer}.qkv"]
            q, k, v = qkv.unflatten(-1, (3, self.heads, self.head_dim)).unbind(-3)
            x = x + attend(layer, q, k, v).flatten(-2) @ w[f"{layer}.out"]
            x = x + gelu(_norm(x, w[f"{layer}.norm2"]) @ w[f"{layer}.up"]) @ w[f"{layer}.down"]
        return _norm(x, w["norm"]) @ w["token"].T


def _norm(x: Tensor, weight: Tensor) -> Tensor:
    """Scale each vector to a root mean square of 1, then each of its numbers by a weight."""
    from torch.nn.functional import rms_norm

    return rms_norm(x, weight.shape, weight, 1e-5)
