"""What the tests of layers share: gradients by finite differences in float64."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import lamella as lm


def numeric_gradient(
    f: Callable[[np.ndarray], float], x: np.ndarray, step: float = 1e-5
) -> np.ndarray:
    """Central differences of a scalar function, element by element."""
    gradient = np.zeros_like(x)
    for place in np.ndindex(x.shape):
        above, below = x.copy(), x.copy()
        above[place] += step
        below[place] -= step
        gradient[place] = (f(above) - f(below)) / (2 * step)
    return gradient


def check_gradient(
    function: Callable[[lm.Tensor], lm.Tensor], x: np.ndarray, tol: float = 1e-5
) -> None:
    """``backward`` through ``function``, weighted at random, agrees with finite differences."""
    x = x.astype(np.float64)
    weights = np.random.default_rng(7).standard_normal(function(lm.asarray(x)).shape)
    leaf = lm.tensor(x, requires_grad=True)
    (function(leaf) * lm.asarray(weights)).sum().backward()
    assert leaf.grad is not None

    def value(at: np.ndarray) -> float:
        return float((function(lm.asarray(at)) * lm.asarray(weights)).sum().item())

    np.testing.assert_allclose(leaf.grad.numpy(), numeric_gradient(value, x), rtol=tol, atol=tol)
