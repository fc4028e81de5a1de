"""``lamella predict MODEL PICTURE``: the digit in a picture and how sure the model is."""

from __future__ import annotations

import numpy as np

import lamella as lm
from lamella import nn
from lamella.cli.digits import load_model
from lamella.cli.picture import load_grey, to_digit

__all__ = ["probabilities", "run"]

_SHADES = " ░▒▓█"


def run(model_path: str, picture_path: str) -> int:
    """Print what the model sees, the digit and the probability of each; returns the exit code."""
    model = load_model(model_path)
    digit = to_digit(load_grey(picture_path))
    shares = probabilities(model, digit)
    for row in digit:
        print("  " + "".join(2 * _SHADES[round(4 * value)] for value in row))
    best = int(shares.argmax())
    print(f"\ndigit: {best}   probability: {shares[best]:.3f}\n")
    for number in np.argsort(-shares):
        print(f"{number}  {shares[number]:.3f}  {'█' * round(30 * shares[number])}")
    return 0


def probabilities(model: nn.Module, digit: np.ndarray) -> np.ndarray:
    """The probability of each digit for an 8×8 image in [0, 1], float32 ``(10,)``."""
    images = lm.asarray(digit.astype(np.float32)[None, None])
    with lm.no_grad():
        logits: lm.Tensor = model(images)
        return nn.functional.softmax(logits[0], -1).numpy()
