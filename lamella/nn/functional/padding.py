"""Padding of the last axes: constant, reflected, repeated or circular."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Literal

import numpy as np

import lamella as lm
from lamella.errors import OptionError, ShapeError
from lamella.nn.functional.support import choose, tensor
from lamella.tensor.tensor import Tensor

__all__ = ["pad"]

_MODES: Final[dict[str, Literal["reflect", "edge", "wrap"]]] = {
    "reflect": "reflect", "replicate": "edge", "circular": "wrap",
}


def pad(
    input: Any, pad: Sequence[int], mode: str = "constant", value: float | None = None
) -> Tensor:
    """Pad the last axes: ``pad`` is ``(low, high)`` of the last axis, then of the one before it,
    and so on.

    Args:
        input: any shape.
        pad: two numbers per axis; negative ones cut off.
        mode: what is added: ``"constant"``, ``"reflect"`` (without repeating the edge),
            ``"replicate"`` (the edge) or ``"circular"``.
        value: the constant (default 0; ``mode="constant"`` only).

    Raises:
        OptionError: for another mode, or numbers that are no pairs of existing axes.
        ShapeError: if an axis is too short to be reflected or wrapped that far.

    >>> pad(lm.ones((1, 2)), (1, 0)).tolist()
    [[0.0, 1.0, 1.0]]
    >>> pad(lm.asarray([[1.0, 2.0, 3.0]]), (2, 1), mode="reflect").tolist()
    [[3.0, 2.0, 1.0, 2.0, 3.0, 2.0]]
    """
    x = tensor(input)
    choose("pad", "mode", mode, ("constant", *_MODES))
    pairs = _pairs(x, tuple(pad))
    if mode == "constant":
        fill = 0 if value is None else value
        return lm.pad(_cut(x, pairs), [(max(a, 0), max(b, 0)) for a, b in pairs], "constant", fill)
    if value not in (None, 0):
        raise OptionError(f"[pad] value={value} with mode={mode!r}, which adds no constant")
    for axis, (low, high) in enumerate(pairs):
        if low or high:
            x = lm.take(x, _places(x, axis, low, high, mode), axis=axis)
    return x


def _pairs(x: Tensor, numbers: tuple[int, ...]) -> list[tuple[int, int]]:
    """``(low, high)`` per axis of ``x``, in its order."""
    if (
        len(numbers) % 2
        or len(numbers) > 2 * x.ndim
        or not all(isinstance(n, int) for n in numbers)
    ):
        raise OptionError(
            f"[pad] pad={numbers!r} is no list of (low, high) pairs for the axes of "
            f"{tuple(x.shape)}; give pairs"
        )
    given = list(zip(numbers[::2], numbers[1::2], strict=True))[::-1]
    pairs = [(0, 0)] * (x.ndim - len(given)) + given
    for axis, (low, high) in enumerate(pairs):
        size = x.shape[axis]
        if isinstance(size, int) and size + low + high < 0:
            raise ShapeError(
                f"[pad] ({low}, {high}) takes more from axis {axis} of {tuple(x.shape)} than it "
                "has; cut off less"
            )
    return pairs


def _cut(x: Tensor, pairs: list[tuple[int, int]]) -> Tensor:
    if all(low >= 0 and high >= 0 for low, high in pairs):
        return x
    return x[
        tuple(
            slice(max(-low, 0), size - max(-high, 0))
            for (low, high), size in zip(pairs, x.shape, strict=True)
        )
    ]


def _places(x: Tensor, axis: int, low: int, high: int, mode: str) -> np.ndarray:
    """Which elements along ``axis`` the padded axis shows."""
    size = int(x.shape[axis])
    most = max(low, high)
    limit = {"reflect": size - 1, "replicate": most if size else 0, "circular": size}[mode]
    if most > limit:
        raise ShapeError(
            f"[pad] mode {mode!r} adds at most {limit} to axis {axis} of {tuple(x.shape)}, but "
            f"{most} is wanted; pad less, or in another mode"
        )
    ends = (max(low, 0), max(high, 0))
    cut = slice(max(-low, 0), None if high >= 0 else high)
    places = np.arange(size)
    if mode == "circular":  # goes around what is left
        return np.pad(places[cut], ends, mode="wrap")
    padded: np.ndarray = np.pad(places, ends, mode=_MODES[mode])
    return padded[cut]
