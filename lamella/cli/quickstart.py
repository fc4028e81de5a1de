"""``lamella quickstart``: train a small convolutional network on real handwritten digits and show
how well it reads.

Output: ``digits.safetensors`` (written after every epoch, whole or not at all), ``digits.png`` with
learning curves and misread digits, a confusion matrix, and ``test accuracy: 0.9xxx`` as the last
line.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

import lamella as lm
from lamella import nn, optim
from lamella.cli.canvas import BLACK, Canvas, chart
from lamella.cli.digits import KIND, DigitNet, vary
from lamella.cli.progress import Progress
from lamella.data import DataLoader, Digits, digits

__all__ = ["History", "Recipe", "Trainer", "run"]

_BLUE, _ORANGE = (31, 100, 180), (215, 110, 20)


@dataclass(frozen=True, slots=True)
class Recipe:
    """The options of one training."""

    epochs: int = 16
    batch_size: int = 64
    seed: int = 0
    rate: float = 4e-3
    decay: float = 0.02
    smoothing: float = 0.05
    average: float = 0.98


@dataclass(slots=True)
class History:
    """What each epoch reached."""

    loss: list[float] = field(default_factory=list)
    validation_loss: list[float] = field(default_factory=list)
    accuracy: list[float] = field(default_factory=list)
    validation_accuracy: list[float] = field(default_factory=list)


class Trainer:
    """The model, its average, the optimiser and one compiled step over them."""

    def __init__(self, recipe: Recipe, data: Digits) -> None:
        lm.manual_seed(recipe.seed)
        self.recipe = recipe
        self.data = data
        self.model = DigitNet()
        self.average = optim.EMA(self.model, recipe.average)
        self.optimizer = optim.AdamW(
            self.model.parameters(), lr=recipe.rate, weight_decay=recipe.decay
        )
        batches = max(len(data.train[1]) // recipe.batch_size, 1)
        self.schedule = optim.lr_scheduler.OneCycleLR(
            self.optimizer, recipe.rate, recipe.epochs * batches, pct_start=0.2
        )
        self.history = History()
        self._generator = np.random.default_rng(recipe.seed)
        self._step = lm.jit(self._train_step)
        self._scores = lm.jit(self._averaged_scores)

    def _train_step(self, images: lm.Tensor, labels: lm.Tensor) -> tuple[lm.Tensor, lm.Tensor]:
        logits = self.model(images)
        loss = nn.functional.cross_entropy(logits, labels, label_smoothing=self.recipe.smoothing)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.average.update()
        right = (logits.detach().argmax(1) == labels).astype(lm.float32).mean()
        return loss.detach(), right

    def _averaged_scores(self, images: lm.Tensor) -> lm.Tensor:
        with lm.no_grad():
            scores: lm.Tensor = self.average.module(images)
            return scores

    def epoch(self, number: int) -> None:
        """Train on every image once and note how well the averaged model does."""
        recipe = self.recipe
        images, labels = self.data.train
        varied = vary(images, self._generator)
        size = min(recipe.batch_size, len(labels))
        order = int(self._generator.integers(2**31))
        loader = DataLoader(
            (varied, labels), size, shuffle=True, drop_last=True, seed=order, as_numpy=True
        )
        bar = Progress(len(loader), f"epoch {number:2}/{recipe.epochs}")
        losses, rights = [], []
        start = time.perf_counter()
        for done, batch in enumerate(loader, 1):
            loss, right = self._step(*batch)
            losses.append(loss.item())
            rights.append(right.item())
            self.schedule.step()
            speed = done * size / (time.perf_counter() - start)
            bar.advance(
                f"loss {np.mean(losses):.3f}  accuracy {np.mean(rights):.3f}  {speed:,.0f} "
                "examples/s"
            )
        self._note(float(np.mean(losses)), float(np.mean(rights)))
        bar.finish(
            f"loss {self.history.loss[-1]:.3f}  accuracy {self.history.accuracy[-1]:.3f}  "
            f"validation {self.history.validation_accuracy[-1]:.3f}  {speed:,.0f} examples/s"
        )

    def _note(self, loss: float, accuracy: float) -> None:
        images, labels = self.data.validation
        scores = self.scores(images)
        shifted = scores - scores.max(1, keepdims=True)
        logs = shifted - np.log(np.exp(shifted).sum(1, keepdims=True))
        history = self.history
        history.loss.append(loss)
        history.accuracy.append(accuracy)
        history.validation_loss.append(float(-logs[np.arange(len(labels)), labels].mean()))
        history.validation_accuracy.append(float((scores.argmax(1) == labels).mean()))

    def scores(self, images: np.ndarray) -> np.ndarray:
        """The averaged model's logits."""
        return self._scores(images).numpy()

    def save(self, path: Path) -> None:
        """Write the averaged model."""
        lm.save(
            self.average.module.state_dict(),
            path,
            metadata={"kind": KIND, "lamella": lm.__version__},
        )


def run(recipe: Recipe, out: Path) -> int:
    """Train, save, draw and print; returns the exit code (130 when interrupted)."""
    out.mkdir(parents=True, exist_ok=True)
    model_path, picture_path = out / "digits.safetensors", out / "digits.png"
    data = digits()
    counts = " / ".join(str(len(labels)) for _, labels in data)
    print(f"UCI handwritten digits, 8×8: {counts} images to train / validate / test")
    trainer = Trainer(recipe, data)
    start = time.perf_counter()
    saved = 0
    try:
        for number in range(1, recipe.epochs + 1):
            trainer.epoch(number)
            trainer.save(model_path)
            saved = number
        return _report(trainer, time.perf_counter() - start, model_path, picture_path)
    except KeyboardInterrupt:
        kept = (
            f"{model_path} holds the model of epoch {saved}"
            if saved
            else "no epoch was complete, nothing is saved"
        )
        print(f"\ninterrupted; {kept}")
        return 130


def _report(trainer: Trainer, seconds: float, model_path: Path, picture_path: Path) -> int:
    images, labels = trainer.data.test
    guesses = trainer.scores(images).argmax(1)
    draw(trainer.history, images, labels, guesses).save(picture_path)
    print(f"\ntrained in {seconds:.1f} s; wrote {model_path} and {picture_path}")
    print(f"try: lamella predict {model_path} PICTURE\n")
    print(confusion(labels, guesses))
    print(f"\ntest accuracy: {(guesses == labels).mean():.4f}")
    return 0


def confusion(labels: np.ndarray, guesses: np.ndarray) -> str:
    """The counts of each true digit (row) read as each digit (column).

    >>> print(confusion(np.array([0, 1]), np.array([0, 0])).splitlines()[2])
       0    1  .  .  .  .  .  .  .  .  .
    """
    counts = np.zeros((10, 10), int)
    np.add.at(counts, (labels, guesses), 1)
    lines = ["true   read as", "    " + "".join(f"{digit:3}" for digit in range(10)).rjust(32)]
    for digit, row in enumerate(counts):
        lines.append(f"{digit:4}  " + "".join(f"{count:3}" if count else "  ." for count in row))
    return "\n".join(lines)


def draw(history: History, images: np.ndarray, labels: np.ndarray, guesses: np.ndarray) -> Canvas:
    """Learning curves above, misread digits below."""
    canvas = Canvas(560, 940)
    losses = [("train", _BLUE, history.loss), ("validation", _ORANGE, history.validation_loss)]
    shares = [
        ("train", _BLUE, history.accuracy),
        ("validation", _ORANGE, history.validation_accuracy),
    ]
    chart(
        canvas,
        (50, 60, 240, 380),
        "loss",
        losses,
        (0.0, max(history.loss[0], history.validation_loss[0])),
    )
    lowest = min(history.accuracy[0], history.validation_accuracy[0])
    chart(canvas, (50, 530, 240, 380), "accuracy", shares, (np.floor(lowest * 20) / 20, 1.0))
    wrong = np.flatnonzero(labels != guesses)
    canvas.text(
        330, 20, f"misread: {len(wrong)} of {len(labels)} test digits   (true > read)", BLACK
    )
    for place, index in enumerate(wrong[:18]):
        top, left = 360 + 100 * (place // 9), 20 + 102 * (place % 9)
        canvas.image(top, left, images[index, 0], 8)
        canvas.text(top + 70, left, f"{labels[index]} > {guesses[index]}")
    return canvas
