"""Windows, their sum back, and diagonals, against NumPy."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view

from lamella import ops
from lamella.dtypes import float32
from lamella.errors import ShapeError
from lamella.ir.dim import Dim
from tests.ops.evaluate import leaf, value


def strided(x: np.ndarray, sizes, strides, dilations) -> np.ndarray:
    reach = [(k - 1) * d + 1 for k, d in zip(sizes, dilations, strict=True)]
    axes = tuple(range(x.ndim - len(sizes), x.ndim))
    every = sliding_window_view(x, reach, axis=axes)
    steps = (slice(None, None, s) for s in strides)
    taps = (slice(None, None, d) for d in dilations)
    return every[(..., *steps, *taps)]


@pytest.mark.parametrize(
    ("shape", "sizes", "strides", "dilations"),
    [((7,), (3,), (2,), (1,)), ((2, 9), (3,), (1,), (2,)), ((2, 6, 7), (2, 3), (2, 1), (1, 2)),
     ((4, 5, 6), (2, 2, 2), (1, 2, 3), (3, 1, 2)), ((5,), (5,), (1,), (1,))],
)  # fmt: skip
def test_window_and_fold(shape, sizes, strides, dilations) -> None:
    x = np.random.default_rng(0).standard_normal(shape)
    expected = strided(x, sizes, strides, dilations)
    found = value(lambda a: ops.window(a, sizes, strides, dilations), x)
    np.testing.assert_array_equal(found, expected)
    space = shape[len(shape) - len(sizes) :]
    total = np.zeros(shape)
    for at in itertools.product(*map(range, found.shape)):
        rank = len(sizes)
        lead, o, k = at[: -2 * rank], at[-2 * rank : -rank], at[-rank:]
        place = (a * s + b * d for a, s, b, d in zip(o, strides, k, dilations, strict=True))
        total[(*lead, *place)] += found[at]
    folded = value(lambda a: ops.fold(a, space, strides, dilations), found)
    np.testing.assert_allclose(folded, total, rtol=1e-12)


@pytest.mark.parametrize("offset", [0, 1, 2, 4, 9, -1, -2, -5])
def test_diagonal(offset: int) -> None:
    x = np.arange(60).reshape(3, 4, 5)
    for axes in ((0, 1), (1, 2), (2, 0)):
        found = value(lambda a, at=axes: ops.diagonal(a, *at, offset), x)
        np.testing.assert_array_equal(found, np.diagonal(x, offset, *axes))


def test_symbolic_sizes() -> None:
    n = Dim("n")
    x = ops.placeholder((n, 2 * n), float32)
    assert ops.window(x, (2,), (2,)).shape == (n, n, 2)
    assert ops.diagonal(ops.placeholder((n, n), float32)).shape == (n,)


def test_builders_refuse() -> None:
    x = leaf(np.ones((2, 5)))
    with pytest.raises(ShapeError, match="larger than the axis of 5"):
        ops.window(x, (3,), (1,), (3,))
    with pytest.raises(ShapeError, match="as many of each"):
        ops.window(x, (3,), (1, 1))
    with pytest.raises(ShapeError, match="below 1"):
        ops.window(x, (3,), (0,))
    with pytest.raises(ShapeError, match="reach 7 elements"):
        ops.fold(leaf(np.ones((3, 3))), (6,), (2,))
    with pytest.raises(ShapeError, match="twice"):
        ops.diagonal(x, 1, -1)
