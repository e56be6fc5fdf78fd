"""Train lesson 4's model: `python -m autograder.staff.train_charmodel`, about four minutes of one core.

The text it learns from is the course's own prose. It is kept beside this file, because the lessons will change and the
weights should stay explained: `--renew-corpus` gathers it anew from the released lessons and the book's pages.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import re
import sys
import time
from pathlib import Path

import torch
from torch.nn.functional import cross_entropy, scaled_dot_product_attention

from autograder.charmodel import WEIGHTS, CharModel
from autograder.staff import course_root

CORPUS = Path(__file__).with_name("charmodel_corpus.txt")
PAGES = ("notebooks/01_*/*.ipynb", "notebooks/02_*/*.ipynb", "notebooks/03_*/*.ipynb", "book/[!p]*.md")    # promises.md is a list
ALPHABET = "\n !%'()+,-./0123456789:;=?_abcdefghijklmnopqrstuvwxyz"
SEED = 2026
LAYERS, HEADS, WIDTH, LONGEST = 3, 4, 96, 192
STEPS, BATCH, WARM_UP = 3_300, 6, 100
RATE, DECAY = 3e-3, 0.01
FIRST_STEPS = 4     # whose losses are in the weights' header, so that a test can repeat them


# ---- the text --------------------------------------------------------------------------------------------------


def gathered(root: Path) -> str:
    """The prose of the released lessons and of the book, one paragraph a line, in the model's alphabet."""
    texts = []
    for pattern in PAGES:
        for path in sorted(root.glob(pattern)):
            texts += _markdown(path)
    lines = [line for text in texts for line in _paragraphs(text)]
    return "\n".join(dict.fromkeys(lines)) + "\n"


def _markdown(path: Path) -> list[str]:
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        return [text]
    return ["".join(cell["source"]) for cell in json.loads(text)["cells"] if cell["cell_type"] == "markdown"]


def _paragraphs(text: str) -> list[str]:
    """Sentences as a reader sees them: no code blocks, tables, directives, headings' marks, links or emphasis."""
    text = re.sub(r"^(`{3,}|:{3,}).*?^\1\s*$", "", text, flags=re.M | re.S)
    text = re.sub(r"^[|{].*$|^:.*$|<[^>]+>|\{[a-z]+\}`[^`]*`", "", text, flags=re.M)
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"^[ >#*\d.-]+(?=\S)", "", text, flags=re.M)
    joined = (" ".join(part.split()) for part in re.split(r"\n\s*\n", text))
    plain = (_in_alphabet(part) for part in joined)
    return [part for part in plain if len(part) > 40 and sum(c.isalpha() or c == " " for c in part) > 0.85 * len(part)]


def _in_alphabet(text: str) -> str:
    text = text.lower().translate(str.maketrans("’–−⌈⌉×", "'--()x"))
    return re.sub(r" +", " ", "".join(c for c in text if c in ALPHABET)).strip()


# ---- the training ----------------------------------------------------------------------------------------------


def fresh() -> CharModel:
    """The model before training, from the seed."""
    torch.manual_seed(SEED)
    normal = lambda rows, columns: torch.randn(rows, columns) / math.sqrt(rows)  # noqa: E731
    weights = {"token": torch.randn(len(ALPHABET), WIDTH) * 0.1, "position": torch.randn(LONGEST, WIDTH) * 0.02, "norm": torch.ones(WIDTH)}
    for layer in range(LAYERS):
        weights |= {f"{layer}.norm1": torch.ones(WIDTH), f"{layer}.norm2": torch.ones(WIDTH)}
        weights |= {f"{layer}.qkv": normal(WIDTH, 3 * WIDTH), f"{layer}.out": normal(WIDTH, WIDTH) / math.sqrt(2 * LAYERS)}
        weights |= {f"{layer}.up": normal(WIDTH, 4 * WIDTH), f"{layer}.down": normal(4 * WIDTH, WIDTH) / math.sqrt(2 * LAYERS)}
    return CharModel(weights, {"alphabet": ALPHABET, "heads": str(HEADS)})


def causal(layer: int, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Attention of whole texts, each token over those before it; shapes (text, token, head, head_dim)."""
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    return scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2)


def loss_of(model: CharModel, pieces: torch.Tensor) -> torch.Tensor:
    """Mean loss in nats per character on pieces of text, shape (pieces, longest + 1)."""
    scores = model.scores(pieces[:, :-1], torch.arange(pieces.shape[1] - 1), causal)
    return cross_entropy(scores.flatten(0, 1), pieces[:, 1:].flatten())


def pieces_of(tokens: torch.Tensor, starts: torch.Tensor) -> torch.Tensor:
    return tokens[starts[:, None] + torch.arange(LONGEST + 1)]


def trained(model: CharModel, text: str, steps: int, tell=lambda step, loss: None) -> list[float]:
    """Train in place on random pieces of the text; the loss of each step. The schedule is that of a whole training."""
    tokens = torch.tensor(model.encode(text))
    for weight in model.weights.values():
        weight.requires_grad_(True)
    optimizer = torch.optim.AdamW(model.weights.values(), lr=RATE, betas=(0.9, 0.98), weight_decay=DECAY)
    losses = []
    for step in range(steps):
        share = min(1.0, (step + 1) / WARM_UP) * (0.02 + 0.98 * (1 + math.cos(math.pi * step / STEPS)) / 2)
        optimizer.param_groups[0]["lr"] = RATE * share
        loss = loss_of(model, pieces_of(tokens, torch.randint(len(tokens) - LONGEST, (BATCH,))))
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.weights.values(), 1.0)
        optimizer.step()
        losses.append(loss.item())
        tell(step, losses[-1])
    for weight in model.weights.values():
        weight.requires_grad_(False)
    return losses


def measured(model: CharModel, text: str) -> float:
    """Mean loss over the whole text, cut into neighbouring pieces; nats per character."""
    tokens = torch.tensor(model.encode(text))
    with torch.no_grad():
        return loss_of(model, pieces_of(tokens, torch.arange(0, len(tokens) - LONGEST - 1, LONGEST))).item()


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--renew-corpus", action="store_true", help="gather the text anew first")
    parser.add_argument("--out", type=Path, default=WEIGHTS, help="where the weights go (default: beside the package's code)")
    options = parser.parse_args(argv)
    if options.renew_corpus:
        CORPUS.write_text(gathered(course_root()), encoding="utf-8")
    text = CORPUS.read_text(encoding="utf-8")
    # One thread: sums in another order would round differently.
    torch.set_num_threads(1)
    model, started = fresh(), time.process_time()

    def tell(step: int, loss: float) -> None:
        if step % 50 == 49:
            print(f"step {step + 1}/{STEPS}: loss {loss:.3f} ({time.process_time() - started:.0f} s of CPU time)", flush=True)

    losses = trained(model, text, STEPS, tell)
    half = {name: weight.half().contiguous() for name, weight in model.weights.items()}
    kept = CharModel({name: weight.float() for name, weight in half.items()}, model.about)
    about = model.about | {
        "made_by": "autograder/staff/train_charmodel.py", "seed": str(SEED), "steps": str(STEPS),
        "corpus_sha256": digest(text), "first_losses": json.dumps([round(x, 5) for x in losses[:FIRST_STEPS]]),
        "loss": f"{measured(kept, text):.4f}",
    }  # fmt: skip
    from safetensors.torch import save_file

    save_file(half, options.out, about)
    print(f"{options.out.name}: {options.out.stat().st_size:,} bytes, loss {about['loss']} nats a character on its own text")
    return 0


if __name__ == "__main__":
    sys.exit(main())
