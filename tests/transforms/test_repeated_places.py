"""Derivatives of products of what meets at a place, where several factors are zero."""

import numpy as np
import pytest

import lamella as lm

PLACES = lm.asarray([0, 1, 0, 2, 2, -1, 0])
WEIGHTS = np.array([1.0, -2.0, 3.0, 0.7])
VALUES = np.array([0.0, 2.0, 3.0, 0.5, 0.0, 3.0, 0.0, 2.0, 0.0, 0.0, 1.5])


def at_multiply(z):
    return (z[:4].at[PLACES].multiply(z[4:]) * WEIGHTS).sum()


def along_an_axis(z):
    x, v = z[:4].reshape(2, 2), z[4:10].reshape(2, 3)
    index = lm.asarray([[0, 0, 1], [1, -1, 1]])
    put = lm.scatter_reduce(x, 1, lm.where(index < 0, index + 2, index), v, "prod")
    return (put * WEIGHTS.reshape(2, 2)).sum() + z[10]


def rows(z):
    x, v = z[:4].reshape(2, 2), z[4:10].reshape(3, 2)
    return (x.at[lm.asarray([1, 1, 1])].multiply(v) * WEIGHTS.reshape(2, 2)).sum()


def mapped(z):
    x, v = z[:4].reshape(2, 2), z[4:10].reshape(2, 3)
    index = lm.asarray([[0, 0, 1], [1, 1, 1]])
    put = lm.vmap(lambda x, i, v: x.at[i].multiply(v))(x, index, v)
    return (put * WEIGHTS.reshape(2, 2)).sum()


def powers(z):
    return (lm.asarray(np.array([2.0, 3.0])).at[lm.asarray([0, 0, 1])].power(z[4:7])).sum()


def differences(f, z, step=1e-3):
    """The Hessian by central differences, exact for products of distinct factors."""
    unit = np.eye(len(z)) * step
    i, j, a, b = np.ix_(range(len(z)), range(len(z)), (1, -1), (1, -1))
    points = z + a[..., None] * unit[i] + b[..., None] * unit[j]
    values = lm.vmap(f)(lm.asarray(points.reshape(-1, len(z)))).numpy()
    return (values.reshape(points.shape[:-1]) * a * b).sum((2, 3)) / (4 * step * step)


@pytest.mark.parametrize("f", [at_multiply, along_an_axis, rows, mapped, powers])
def test_second_derivatives_of_products_with_zeros(f):
    wanted = differences(f, VALUES)
    z = lm.asarray(VALUES)
    assert np.abs(wanted).max() > 0.5
    for hessian in (lm.hessian(f), lm.jit(lm.hessian(f)), lm.jacfwd(lm.jacfwd(f))):
        np.testing.assert_allclose(hessian(z).numpy(), wanted, rtol=1e-5, atol=2e-5)


def test_third_derivatives_of_products_with_zeros():
    third = lm.jacfwd(lm.hessian(at_multiply))(lm.asarray(VALUES)).numpy()
    np.testing.assert_allclose(third[0, 4, 6], VALUES[10] * WEIGHTS[0])


def test_overflow_in_one_place_stays_there():
    def f(v):
        return lm.ones(2, dtype=lm.float32).at[lm.asarray([0, 0, 0, 1, 1])].multiply(v).sum()

    v = lm.asarray([1e30, 1e30, 1e30, 2.0, 3.0])
    assert lm.grad(f)(v).tolist()[3:] == [3.0, 2.0]


def test_open_sizes():
    @lm.jit(dynamic={"v": {0: "n"}, "index": {0: "n"}})
    def hessian(v, index):
        return lm.hessian(lambda v: lm.ones(3).at[index].multiply(v).sum())(v)

    for count in (3, 5):
        index = lm.arange(count) % 2
        found = hessian(lm.zeros(count), index).numpy()
        wanted = lm.hessian(lambda v: lm.ones(3).at[index].multiply(v).sum())(lm.zeros(count))  # noqa: B023
        np.testing.assert_array_equal(found, wanted.numpy())
