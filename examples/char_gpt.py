"""Train a small character-level GPT on a text file and let it write.

    python examples/char_gpt.py TEXTFILE [--minutes 5] [--out samples.txt]

An ordinary training loop in PyTorch's style; ``lm.jit`` turns the whole step (forward, backward,
clipping, optimiser) into one native call. The last tenth of the text is held out; the loss on it is
in nats per character.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from pathlib import Path

import numpy as np

import lamella as lm
from lamella import nn, optim

F = nn.functional
CONTEXT, WIDTH, LAYERS, HEADS, BATCH = 64, 128, 4, 4, 16
RATE, WARM_UP, FINAL = 4e-3, 100, 0.05


class Block(nn.Module):
    """Causal self-attention and a two-layer perceptron, each after a norm and beside a residual."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(WIDTH)
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.proj = nn.Linear(WIDTH, WIDTH, bias=False)
        self.norm2 = nn.LayerNorm(WIDTH)
        self.grow = nn.Linear(WIDTH, 4 * WIDTH, bias=False)
        self.shrink = nn.Linear(4 * WIDTH, WIDTH, bias=False)

    def forward(self, x: lm.Tensor) -> lm.Tensor:
        """``(batch, length, width)`` to the same."""
        batch, length, _ = x.shape
        heads = self.qkv(self.norm1(x)).reshape((batch, length, 3, HEADS, WIDTH // HEADS))
        q, k, v = heads.permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(y.permute(0, 2, 1, 3).reshape((batch, length, WIDTH)))
        return x + self.shrink(F.gelu(self.grow(self.norm2(x)), approximate="tanh"))


class GPT(nn.Module):
    """Characters in, logits of the next character out."""

    def __init__(self, vocabulary: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, WIDTH)
        self.places = nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, vocabulary, bias=False)
        for name, weight in self.named_parameters():
            if weight.ndim == 2:
                last = name.endswith(("proj.weight", "shrink.weight"))
                nn.init.normal_(weight, std=0.02 / (math.sqrt(2 * LAYERS) if last else 1))

    def forward(self, ids: lm.Tensor) -> lm.Tensor:
        """``(batch, length)`` integers to ``(batch, length, vocabulary)``."""
        x = self.tokens(ids) + self.places(lm.arange(ids.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def next_loss(model: GPT, ids: lm.Tensor, targets: lm.Tensor) -> lm.Tensor:
    """The mean cross-entropy of every next character."""
    logits = model(ids)
    return F.cross_entropy(logits.reshape((-1, logits.shape[-1])), targets.reshape(-1))


def windows(data: np.ndarray, starts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Inputs and targets of ``CONTEXT`` characters from each start."""
    places = starts[:, None] + np.arange(CONTEXT)
    return data[places], data[places + 1]


def rate_at(step: int, share: float) -> float:
    """A short warm-up, then half a cosine over the time allowed."""
    cosine = 0.5 * (1 + math.cos(math.pi * min(share, 1.0)))
    return RATE * min(1.0, (step + 1) / WARM_UP) * (FINAL + (1 - FINAL) * cosine)


def train(model: GPT, data: np.ndarray, minutes: float, generator: np.random.Generator) -> None:
    """Train for the given time."""
    optimizer = optim.AdamW(model.parameters(), lr=RATE, betas=(0.9, 0.99), weight_decay=0.1)

    @lm.jit
    def train_step(ids: lm.Tensor, targets: lm.Tensor) -> lm.Tensor:
        loss = next_loss(model, ids, targets)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss

    start, step, shown = time.monotonic(), 0, 0.0
    while (share := (time.monotonic() - start) / (60 * minutes)) < 1:
        optimizer.param_groups[0]["lr"] = rate_at(step, share)
        ids, targets = windows(data, generator.integers(0, len(data) - CONTEXT - 1, BATCH))
        loss = train_step(ids, targets).item()
        step += 1
        if time.monotonic() - shown > 5:
            shown = time.monotonic()
            print(f"step {step:6}  loss {loss:.3f}  {100 * share:3.0f} % of the time", flush=True)
    seconds = time.monotonic() - start
    print(f"{step} steps, {step * BATCH * CONTEXT / seconds:,.0f} characters/s")


def validate(model: GPT, data: np.ndarray) -> float:
    """The mean loss over the held-out text, in nats per character."""
    score = lm.jit(lambda ids, targets: next_loss(model, ids, targets))
    starts = np.arange(0, len(data) - CONTEXT - 1, CONTEXT)
    batches = starts[: len(starts) // BATCH * BATCH].reshape(-1, BATCH)
    with lm.no_grad():
        losses = [score(*windows(data, batch)).item() for batch in batches]
    return float(np.mean(losses))


def write(
    model: GPT, letters: list[str], length: int, generator: np.random.Generator, heat: float = 0.8
) -> str:
    """Sample ``length`` characters, each from the last ``CONTEXT`` ones."""
    following = lm.jit(lambda ids: model(ids))
    written = [letters.index("\n") if "\n" in letters else 0]
    with lm.no_grad():
        for _ in range(length):
            recent = written[-CONTEXT:]
            ids = np.zeros((1, CONTEXT), np.int64)
            ids[0, : len(recent)] = recent  # what follows a place does not reach it
            logits = following(ids).numpy()[0, len(recent) - 1].astype(np.float64) / heat
            shares = np.exp(logits - logits.max())
            written.append(int(generator.choice(len(letters), p=shares / shares.sum())))
    return "".join(letters[i] for i in written)


def main() -> int:
    """Read the arguments, train, validate, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("text", type=Path, help="a plain text file")
    parser.add_argument("--minutes", type=float, default=5.0, help="how long to train")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=None, help="also write the sample to this file")
    options = parser.parse_args()

    if options.out is not None and options.out.is_dir():
        parser.error(f"--out {options.out} is a folder; name a file")
    text = options.text.read_text(encoding="utf-8")
    if len(text) < 20 * CONTEXT * BATCH:  # the held-out tenth must fill a batch
        print(f"{options.text} has {len(text)} characters; give a longer text", file=sys.stderr)
        return 2
    letters = sorted(set(text))
    number = {letter: i for i, letter in enumerate(letters)}
    data = np.array([number[letter] for letter in text], np.int64)
    cut = int(0.9 * len(data))

    lm.manual_seed(options.seed)
    generator = np.random.default_rng(options.seed)
    model = GPT(len(letters))
    count = sum(weight.size for weight in model.parameters())
    print(f"{len(text):,} characters of {len(letters)} kinds; {count:,} parameters")
    train(model, data[:cut], options.minutes, generator)
    sample = write(model, letters, 500, generator)
    print(f"\n{sample}\n")
    print(f"validation loss: {validate(model, data[cut:]):.3f} nats/char")
    if options.out is not None:
        options.out.write_text(sample, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
