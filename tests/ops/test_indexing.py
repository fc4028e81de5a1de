"""Gather, scatter and what is composed of them, against NumPy's advanced indexing."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

from lamella import ops
from lamella.dtypes import bfloat16, float32
from lamella.errors import DTypeError, LamellaIndexError, OptionError, ShapeError
from lamella.graph.reverse import vjp
from lamella.ir.interp import interpret
from tests.ops.evaluate import leaf, value

pytestmark = pytest.mark.makes_no_program

RNG = np.random.default_rng(0)
X = RNG.standard_normal((4, 5, 6))


def test_gather_indexes_the_first_axis() -> None:
    i = np.array([[3, -1], [0, -4]], np.int32)
    np.testing.assert_array_equal(value(ops.gather, X, i), X[i])
    np.testing.assert_array_equal(value(ops.gather, X, np.array(-2)), X[-2])


def test_gather_shares_lead_axes() -> None:
    i = RNG.integers(-5, 5, (4, 7))
    expected = np.stack([X[b, i[b]] for b in range(4)])
    np.testing.assert_array_equal(value(lambda x, at: ops.gather(x, at, 1), X, i), expected)


@pytest.mark.parametrize("axes", [(0,), (2,), (0, 2), (2, 0), (1, 2), (2, 1, 0), (-1, 0)])
def test_gather_nd_is_advanced_indexing(axes: tuple[int, ...]) -> None:
    shapes = [(3, 1), (1, 2), (3, 2)]
    indices = [RNG.integers(-X.shape[a], X.shape[a], s) for a, s in zip(axes, shapes, strict=False)]
    found = value(lambda x, *i: ops.gather_nd(x, i, axes), X, *indices)
    moved = np.moveaxis(X, axes, range(len(axes)))
    np.testing.assert_array_equal(found, moved[tuple(indices)])


@pytest.mark.parametrize("axes", [(0,), (2,), (0, 2), (2, 1, 0)])
def test_scatter_nd_is_assignment(axes: tuple[int, ...]) -> None:
    indices = [RNG.permutation(X.shape[a])[:3] for a in axes]
    moved = np.moveaxis(X.copy(), axes, range(len(axes)))
    updates = RNG.standard_normal(moved[tuple(indices)].shape)
    found = value(lambda x, u, *i: ops.scatter_nd(x, i, axes, u, "set"), X, updates, *indices)
    moved[tuple(indices)] = updates
    np.testing.assert_array_equal(found, np.moveaxis(moved, range(len(axes)), axes))


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_along_axis(axis: int) -> None:
    i = RNG.integers(-4, 4, (4, 5, 6))
    found = value(lambda x, at: ops.take_along_axis(x, at, axis), X, i)
    np.testing.assert_array_equal(found, np.take_along_axis(X, i, axis))
    order = np.argsort(X, axis)
    expected = np.zeros_like(X)
    np.put_along_axis(expected, order, X, axis)
    zeros = np.zeros_like(X)
    put = value(lambda x, at, u: ops.put_along_axis(x, at, u, axis), zeros, order, X)
    np.testing.assert_array_equal(put, expected)


def test_take_along_axis_broadcasts() -> None:
    i = RNG.integers(0, 5, (1, 2, 6))
    found = value(lambda x, at: ops.take_along_axis(x, at, 1), X, i)
    np.testing.assert_array_equal(found, np.take_along_axis(X, i, 1))


def test_scatter_applies_updates_in_order() -> None:
    x, i, u = np.ones(3), np.array([1, 1, -2, 0]), np.array([1.0, 2.0, 3.0, 4.0])
    found = {m: value(lambda *a, m=m: ops.scatter(*a, m), x, i, u).tolist() for m in ops.MODES}
    assert found == {
        "set": [4, 3, 1], "add": [5, 7, 1], "mul": [4, 6, 1], "max": [4, 3, 1], "min": [1, 1, 1],
    }  # fmt: skip


def test_scatter_sums_small_floats_in_float32() -> None:
    many = np.ones(1000, bfloat16.numpy)
    found = value(
        lambda x, i, u: ops.scatter(x, i, u, "add"), many[:1] * 0, np.zeros(1000, np.int64), many
    )
    assert float(found[0]) == 1000  # one by one bfloat16 stops at 256


def test_set_sends_the_cotangent_to_the_last_update() -> None:
    x, u = (ops.placeholder((3,), float32, tracked=True) for _ in range(2))
    y = ops.scatter(x, leaf(np.array([1, 1, 2])), u, "set")
    ct = leaf(np.array([1.0, 2.0, 3.0], np.float32))
    of_x, of_u = interpret(vjp([y], [ct], [x, u]))
    assert of_x.tolist() == [1, 0, 0] and of_u.tolist() == [0, 2, 3]


def test_ties_of_max_share_the_cotangent() -> None:
    x, u = (ops.placeholder((2,), float32, tracked=True) for _ in range(2))
    y = ops.scatter(x, leaf(np.array([0, 0])), u, "max")
    ct = leaf(np.array([3.0, 1.0], np.float32))
    ones = np.ones(2, np.float32)
    of_x, of_u = interpret(vjp([y], [ct], [x, u]), {x: ones, u: ones})
    assert of_x.tolist() == [1, 1] and of_u.tolist() == [1, 1]


def test_an_index_outside_is_an_index_error() -> None:
    for bad in (4, -5):
        with pytest.raises(IndexError, match=f"index {bad} is outside an axis of size 4"):
            value(ops.gather, X, np.array([0, bad]))
        with pytest.raises(LamellaIndexError):
            value(lambda x, i: ops.scatter(x, i, x, "add"), X, np.array([0, 1, 2, bad]))
    with pytest.raises(LamellaIndexError):  # inside 4 * 5, but not inside 5
        value(lambda x, i: ops.gather_nd(x, [i, i], (0, 1)), X, np.array([0, 5]) * 0 + 5)


def test_an_empty_axis_has_nothing_to_choose() -> None:
    with pytest.raises(LamellaIndexError, match="size 0"):
        ops.gather(leaf(np.zeros((0, 2))), leaf(np.array([0])))
    assert value(ops.gather, np.zeros((0, 2)), np.zeros(0, np.int64)).shape == (0, 2)


def test_faults_name_the_line_that_recorded_them() -> None:
    node = ops.gather(leaf(X), leaf(np.array([1])))
    here = inspect.currentframe().f_lineno - 1
    assert node.site == f"{__file__}:{here}"
    assert ops.gather(leaf(X), leaf(np.array([1])), checked=False).site is None
    x = ops.placeholder((3,), float32, tracked=True)
    y = ops.gather(x, leaf(np.array([1])))
    (grad,) = vjp([y], [leaf(np.ones(1, np.float32))], [x])
    assert grad.site == y.site


def test_builders_refuse() -> None:
    i = leaf(np.array([0]))
    with pytest.raises(DTypeError, match="positions are integers"):
        ops.gather(leaf(X), leaf(np.array([0.0])))
    with pytest.raises(ShapeError, match="lead axes"):
        ops.gather(leaf(X), i, 1)
    with pytest.raises(ShapeError, match="lead axes"):
        ops.gather(leaf(1.0), i)
    with pytest.raises(ShapeError, match="updates have"):
        ops.scatter(leaf(X), i, leaf(X), "set")
    with pytest.raises(OptionError, match="did you mean 'add'"):
        ops.scatter(leaf(X), i, leaf(X[:1]), "ad")
    with pytest.raises(ShapeError, match="each axis needs one"):
        ops.gather_nd(leaf(X), [i], (0, 1))
    with pytest.raises(ShapeError, match="same number of axes"):
        ops.take_along_axis(leaf(X), i, 0)
