"""Reductions, running folds and sorting against NumPy, derivatives with ties and zeros."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lamella import ops
from lamella.dtypes import bool_, float64, int32, int64
from lamella.errors import DTypeError, ShapeError
from lamella.graph.reverse import vjp
from lamella.ir.dim import Dim
from lamella.ir.interp import interpret
from lamella.ir.node import Node
from lamella.ops.base import Array
from tests.support.lower import run


def leaf(values: object) -> Node:
    array = np.asarray(values, np.float64)
    return ops.data(array, array.shape, float64, True)


def value(node: Node) -> Array:
    return interpret([node])[0]


def gradient(output: Node, x: Node) -> Array:
    (g,) = vjp([output], [ops.full(1.0, output.shape, float64)], [x])
    assert g is not None
    return value(g)


def test_ties_share_the_derivative() -> None:
    x = leaf([[1.0, 3.0, 3.0], [2.0, 0.0, 1.0]])
    np.testing.assert_array_equal(gradient(ops.reduce_max(x, 1), x), [[0, 0.5, 0.5], [1, 0, 0]])
    np.testing.assert_array_equal(gradient(ops.reduce_min(x, 0), x), [[1, 0, 0], [0, 1, 1]])


def test_product_with_zeros() -> None:
    x = leaf([[2.0, 0.0, 3.0], [0.0, 0.0, 5.0], [1.0, 2.0, 3.0]])
    expected = [[0, 6, 0], [0, 0, 0], [6, 3, 2]]
    np.testing.assert_array_equal(gradient(ops.reduce_prod(x, 1), x), expected)


def test_cumulative_product_with_zeros() -> None:
    x = leaf([2.0, 0.0, 3.0, 4.0])
    # d(2 + 2·0 + …)/dx1 = 2 (1 + 3 + 12)
    np.testing.assert_array_equal(gradient(ops.cumprod(x, 0), x), [1, 2 * (1 + 3 + 12), 0, 0])


def test_running_extremes() -> None:
    x = leaf([1.0, 3.0, 3.0, 2.0, 5.0])
    np.testing.assert_array_equal(value(ops.cummax(x, 0)), [1, 3, 3, 3, 5])
    np.testing.assert_array_equal(value(ops.cummin(x, 0, reverse=True)), [1, 2, 2, 2, 5])
    np.testing.assert_array_equal(gradient(ops.cummax(x, 0), x), [1, 3, 0, 0, 1])
    y = leaf([1.0, np.nan, 3.0])
    np.testing.assert_array_equal(value(ops.cummax(y, 0)), [1, np.nan, np.nan])


def test_first_position_and_nan_win() -> None:
    x = leaf([[1.0, 5.0, 5.0], [np.nan, 7.0, np.nan]])
    np.testing.assert_array_equal(value(ops.argmax(x, 1)), [1, 0])
    np.testing.assert_array_equal(value(ops.argmin(x, 1)), [0, 0])


@given(
    st.lists(st.sampled_from([0.0, -0.0, 1.0, 2.0, -1.0, np.inf, -np.inf, np.nan]), max_size=20),
    st.booleans(),
)
def test_sorting_kernel_is_stable(values: list[float], descending: bool) -> None:
    x = leaf(values)
    order = ops.argsort(x, 0, descending)
    found = run(order, [np.asarray(values, np.float64)])
    keys = [(-np.inf if np.isnan(v) else -v, i) if descending else (v, i)
            for i, v in enumerate(values)]  # fmt: skip
    rank = {True: 0, False: 1} if descending else {True: 1, False: 0}
    expected = sorted(
        range(len(values)),
        key=lambda i: (rank[bool(np.isnan(values[i]))],
                       0.0 if np.isnan(values[i]) else keys[i][0], i),
    )  # fmt: skip
    assert list(found) == expected
    assert list(value(order)) == expected


def test_sort_and_topk() -> None:
    x = leaf([[3.0, 1.0, 2.0], [np.nan, 0.0, -1.0]])
    np.testing.assert_array_equal(value(ops.sort(x, 1)), np.sort(value(x), 1))
    values, order = ops.topk(x, 2)
    np.testing.assert_array_equal(value(values), [[3, 2], [np.nan, 0]])
    np.testing.assert_array_equal(value(order), [[0, 2], [0, 1]])
    np.testing.assert_array_equal(gradient(values, x), [[1, 0, 1], [1, 1, 0]])


def test_shapes_with_symbolic_sizes() -> None:
    n = Dim("n")
    x = ops.placeholder((n, 3), float64, tracked=True)
    total = ops.reduce_sum(ops.reduce_prod(ops.cumsum(x, 0), 1))
    (g,) = vjp([total], [ops.constant(1.0, float64)], [x])
    assert g is not None and g.shape == (n, 3)
    (found,) = interpret([g], {x: np.ones((2, 3))})
    # sum over rows of (row number)**3: derivative by each element of row i is the sum of later j**2
    np.testing.assert_allclose(found, [[5, 5, 5], [4, 4, 4]])


def test_no_axes_is_the_identity() -> None:
    x = leaf([1.0])
    assert ops.reduce_sum(x, ()) is x
    assert ops.reduce_max(leaf(3.0)).shape == ()


def test_errors() -> None:
    x = leaf(np.ones((2, 0)))
    with pytest.raises(ShapeError, match=r"\[reduce_max\] axis 1 of shape \(2, 0\) is empty"):
        ops.reduce_max(x, 1)
    with pytest.raises(ShapeError, match=r"\[reduce_sum\] axis 2 is out of range"):
        ops.reduce_sum(x, 2)
    with pytest.raises(ShapeError, match=r"\[reduce_sum\] axes \(0, -2\) name an axis twice"):
        ops.reduce_sum(x, (0, -2))
    flags = ops.placeholder((2,), bool_)
    with pytest.raises(DTypeError, match=r"\[reduce_sum\] does not take bool"):
        ops.reduce_sum(flags)
    with pytest.raises(DTypeError, match=r"\[cumsum\] does not take bool"):
        ops.cumsum(flags, 0)
    with pytest.raises(ShapeError, match=r"\[topk\] k = 4"):
        ops.topk(leaf(np.ones(3)), 4)
    with pytest.raises(ShapeError, match=r"\[argmax\] axis 0 of shape \(0,\) is empty"):
        ops.argmax(leaf([]), 0)
    with pytest.raises(DTypeError, match=r"\[linear_recurrence\]"):
        ops.linear_recurrence(ops.placeholder((2,), int32), ops.placeholder((2,), int32), 0)
    assert ops.reduce_any(ops.placeholder((2,), int64)).dtype is bool_
