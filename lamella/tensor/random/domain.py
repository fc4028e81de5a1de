"""Domains of parameters.

What is known when a draw is recorded (numbers, sequences of them, NumPy arrays) is refused outside
its domain. The elements of tensors are known only when the draw is computed; there, a number drawn
with a parameter outside its domain is NaN, a whole number is -1.
"""

from __future__ import annotations

import math
import operator
from typing import Any, Final

import numpy as np

from lamella.errors import DTypeError, OptionError
from lamella.tensor.comparison import where
from lamella.tensor.core import wrap
from lamella.tensor.operands import TensorLike, as_float, as_node

__all__ = ["LARGEST_MEAN", "known", "require", "require_weights", "whole", "width_node"]

LARGEST_MEAN: Final = 9.2e18  # what int64 holds, with room for the spread


def known(value: Any) -> np.ndarray | None:
    """``value`` as an array where it is one or is made of numbers alone, else None."""
    if isinstance(value, int | float | np.generic | np.ndarray) or _numbers(value):
        try:
            found = np.asarray(value)
        except ValueError:  # lists of different lengths, which are refused as what they are made of
            return None
        return found if found.dtype.kind in "biuf" else None
    return None


def whole(name: str, option: str, value: Any, low: int | None = None) -> int:
    """``value`` as an int, at least ``low``.

    Raises:
        DTypeError: for what is no whole number. OptionError: for one below ``low``.

    >>> whole("randint", "high", np.int8(3))
    3
    """
    try:
        number = operator.index(value)
    except TypeError:
        raise DTypeError(
            f"[{name}] {option}={value!r:.40} is a {type(value).__name__}, not a whole number; "
            f"give one (see help(lm.random.{name}) for the order of arguments)"
        ) from None
    if low is not None and number < low:
        raise OptionError(f"[{name}] {option}={number} is below {low}; give {low} or more")
    return number


def _numbers(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(
        isinstance(item, int | float | np.generic) or _numbers(item) for item in value
    )


def require(
    name: str, option: str, value: Any, low: float, high: float = math.inf, above: bool = False
) -> None:
    """Raise unless ``value``, where it is known, lies in [``low``, ``high``]; with ``above``, in
    (``low``, ``high``].

    Raises:
        OptionError: for a number outside, NaN among them.
    """
    found = known(value)
    if found is None:
        return
    inside = ((found > low) if above else (found >= low)) & (found <= high)
    if not inside.all():
        limits = f"{'above' if above else 'at least'} {low:g}"
        limits += "" if high == math.inf else f" and at most {high:g}"
        raise OptionError(
            f"[{name}] {option}={found[~inside].flat[0]} is not {limits}; give such a number"
        )


def require_weights(name: str, p: Any, total: float | None = None) -> None:
    """Raise unless ``p``, where it is known, has weights along its last axis: none is negative or
    NaN, their sum is finite and above 0, or ``total`` up to rounding.

    Raises:
        OptionError: for other weights.
    """
    found = known(p)
    if found is None or not found.ndim:
        return
    require(name, "p", p, 0)
    sums = found.sum(-1, dtype=np.float64)
    if not ((sums > 0) & np.isfinite(sums)).all():
        raise OptionError(
            f"[{name}] the weights p sum to {sums.min()}, so that there is nothing to choose by; "
            "let the sum be a finite number above 0"
        )
    eps = 2.0**-13 if found.dtype.itemsize < 8 else 2.0**-26
    if total is not None and (abs(sums - total) > eps).any():
        raise OptionError(
            f"[{name}] the probabilities p sum to {sums.flat[0]}, not {total:g}; divide them by "
            "their sum"
        )


def width_node(name: str, scale: TensorLike, option: str = "scale") -> Any:
    """A scale: itself if it is a number, else with NaN where it is negative.

    Raises:
        OptionError: for a known number below 0.
    """
    require(name, option, scale, 0)
    if known(scale) is not None:
        return scale
    width = wrap(as_float(as_node(scale)))
    return where(width >= 0, width, math.nan)
