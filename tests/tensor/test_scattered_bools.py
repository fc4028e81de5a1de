"""Bools that meet at an index, compared with NumPy's ``ufunc.at``: "or" and "and"."""

from __future__ import annotations

import numpy as np
import pytest

import lamella as lm
from lamella.errors import DTypeError

rng = np.random.default_rng(5)
X, INDEX, V = rng.random((4, 5)) < 0.5, rng.integers(0, 4, 6), rng.random((6, 5)) < 0.5
UFUNCS = {
    "add": np.logical_or, "max": np.maximum, "multiply": np.logical_and, "min": np.minimum,
}  # fmt: skip
REDUCTIONS = {"sum": "add", "amax": "max", "prod": "multiply", "amin": "min"}


def reduced(method, start=X):
    found = start.copy()
    UFUNCS[method].at(found, INDEX, V)
    return found


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("method", UFUNCS)
def test_at(method, compiled):
    def run(x, i, v):
        return getattr(x.at[i], method)(v)

    found = (lm.jit(run) if compiled else run)(lm.asarray(X), lm.asarray(INDEX), lm.asarray(V))
    assert found.dtype is lm.bool_
    np.testing.assert_array_equal(found, reduced(method))


@pytest.mark.parametrize("include", [False, True])
@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_reductions(reduction, include):
    method, start = REDUCTIONS[reduction], X.copy()
    if not include:
        start[INDEX] = method in ("multiply", "min")
    i = lm.asarray(INDEX)
    for found in (
        lm.index_reduce(X, 0, i, V, reduction, include_self=include),
        lm.scatter_reduce(
            X, 0, lm.broadcast_to(i[:, None], V.shape), V, reduction, include_self=include
        ),
    ):
        np.testing.assert_array_equal(found, reduced(method, start))


def test_rows_under_vmap():
    rows = np.array([[0, 0], [1, 4], [2, 2], [3, 0]])
    found = lm.vmap(lambda x, i, v: x.at[i].max(v))(X, rows, V[:4, :2])
    expected = X.copy()
    for row, places in enumerate(rows):
        np.maximum.at(expected[row], places, V[row, :2])
    np.testing.assert_array_equal(found, expected)


def test_differences_and_means_are_refused_by_their_names():
    with pytest.raises(DTypeError, match=r"^\[subtract\]"):
        lm.asarray(X).at[0].subtract(True)
    with pytest.raises(DTypeError, match=r"^\[index_reduce\] a mean of bools"):
        lm.index_reduce(X, 0, INDEX, V, "mean")
