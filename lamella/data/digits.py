"""The UCI handwritten digits: 1,797 real 8×8 images, shipped with the package (source and licence
in ``digits.md``).

Output: three parts (training, validation, test) of images ``(n, 1, 8, 8)`` float32 in [0, 1] and
labels ``(n,)`` int64.
Invariant: the parts are disjoint, cover all images, and hold every digit in the same proportion.
"""

from __future__ import annotations

from importlib.resources import files
from typing import NamedTuple

import numpy as np

from lamella.errors import OptionError

__all__ = ["Digits", "digits"]

Part = tuple[np.ndarray, np.ndarray]


class Digits(NamedTuple):
    """The three parts, each ``(images, labels)``."""

    train: Part
    validation: Part
    test: Part


def digits(*, validation: float = 0.1, test: float = 0.2, seed: int | None = None) -> Digits:
    """The handwritten digits, split so that every part holds each digit in the same proportion.

    Without a seed the split is systematic: at even steps through the images of each digit.

    Args:
        validation: the share of images in the validation part.
        test: the share of images in the test part.
        seed: shuffles the images of each digit first, for another split.

    Raises:
        OptionError: if a share is negative or the two leave nothing to train on.

    >>> parts = digits()
    >>> [len(labels) for _, labels in parts], parts.train[0].shape[1:]
    ([1265, 177, 355], (1, 8, 8))
    """
    if validation < 0 or test < 0 or validation + test >= 1:
        raise OptionError(
            f"[digits] shares validation={validation} and test={test} leave no training images; "
            "give two shares >= 0 whose sum is below 1"
        )
    with files("lamella.data").joinpath("digits.npz").open("rb") as file, np.load(file) as archive:
        images, labels = archive["images"], archive["labels"].astype(np.int64)
    images = (images.astype(np.float32) / 16)[:, None]
    chosen = _stratified(labels, validation, test, seed)
    return Digits(*((images[part], labels[part]) for part in chosen))


def _stratified(
    labels: np.ndarray, validation: float, test: float, seed: int | None
) -> list[np.ndarray]:
    generator = None if seed is None else np.random.default_rng(seed)
    parts: list[list[np.ndarray]] = [[], [], []]
    for label in np.unique(labels):
        members = np.flatnonzero(labels == label)
        if generator is not None:
            members = generator.permutation(members)
        tested = _even(len(members), test)
        rest = members[~tested]
        validated = _even(len(rest), validation / (1 - test))
        for part, found in zip(
            parts, (rest[~validated], rest[validated], members[tested]), strict=True
        ):
            part.append(found)
    return [np.sort(np.concatenate(part)) for part in parts]


def _even(count: int, share: float) -> np.ndarray:
    """A mask that picks the given share of ``count`` places at even distances."""
    steps = np.floor(np.arange(count + 1) * share + 1e-9)
    picked: np.ndarray = np.diff(steps) > 0
    return picked
