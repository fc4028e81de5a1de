"""Finite differences in float64, for tests of derivatives."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

__all__ = ["derivative"]


def derivative(
    f: Callable[[np.ndarray], np.ndarray], x: np.ndarray, step: float = 1e-5
) -> np.ndarray:
    """Central differences: shape ``out + in``."""
    columns = []
    for i in np.ndindex(x.shape):
        up, down = x.copy(), x.copy()
        up[i] += step
        down[i] -= step
        columns.append((np.asarray(f(up)) - np.asarray(f(down))) / (2 * step))
    found = np.stack(columns, -1)
    return found.reshape((*found.shape[:-1], *x.shape))
