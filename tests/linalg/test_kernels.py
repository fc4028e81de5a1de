"""Factorisations by kernels: large real matrices, alone and in batches, against NumPy's float64."""

from __future__ import annotations

import numpy as np
import pytest

import lamella as lm
from lamella.compiler.pipeline import compile_graph
from lamella.dtypes import float64
from lamella.errors import LamellaIndexError, LinAlgError
from lamella.ir.loop_interp import run_kernel
from lamella.ir.vectors import VectorUnit
from lamella.ops import placeholder
from lamella.ops.calls import call
from lamella.ops.cholesky_kernel import CholeskyRows
from lamella.ops.elimination import Elimination

la = lm.linalg
# of one tile and of many, in lanes and alone, more leading axes, a last task that is not full
SQUARE = [(129, 129), (3, 70, 70), (3, 11, 17, 17), (1000, 3, 3)]
TALL_AND_WIDE = [(200, 45), (45, 200), (2, 130, 66), (100, 9, 14), (150, 14, 9)]
EPS = {"float32": 1e-5, "float64": 1e-13}


def draw(shape, dtype, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)


def regular(shape, dtype, seed=0):
    """Rows have to change places, but nothing is near to singular."""
    n = shape[-1]
    turned = np.roll(np.eye(n), n // 2, 0)
    return (draw(shape, "float64", seed) + 3 * np.sqrt(n) * turned).astype(dtype)


def positive(shape, dtype, seed=0):
    x = draw(shape, "float64", seed)
    return (x @ np.swapaxes(x, -1, -2) / shape[-1] + np.eye(shape[-1])).astype(dtype)


def close(found, wanted, dtype):
    found = found.numpy()
    assert found.dtype == dtype
    np.testing.assert_allclose(found, wanted, rtol=0, atol=EPS[dtype] * np.abs(wanted).max())


def wide(x):
    return x.astype(np.float64)


@pytest.mark.parametrize("dtype", EPS)
@pytest.mark.parametrize("shape", SQUARE, ids=str)
def test_square_matrices(shape, dtype):
    a, s = regular(shape, dtype), positive(shape, dtype)
    junk = s + np.triu(draw(shape, dtype, 1), 1)  # the upper triangle is not read
    close(la.cholesky(junk), np.linalg.cholesky(wide(s)), dtype)
    close(la.inv(a), np.linalg.inv(wide(a)), dtype)
    scaled = (a / (3 * np.sqrt(shape[-1]))).astype(dtype)
    close(la.det(scaled), np.linalg.det(wide(scaled)), dtype)
    sign, log = la.slogdet(a)
    wanted = np.linalg.slogdet(wide(a))
    np.testing.assert_array_equal(sign.numpy(), wanted.sign)
    close(log, wanted.logabsdet, dtype)


@pytest.mark.parametrize("dtype", EPS)
@pytest.mark.parametrize("columns", [1, 3, 40])
@pytest.mark.parametrize("shape", SQUARE, ids=str)
def test_systems(shape, columns, dtype):
    a, b = regular(shape, dtype), draw((*shape[:-1], columns), dtype, 1)
    close(la.solve(a, b), np.linalg.solve(wide(a), wide(b)), dtype)
    s = positive(shape, dtype)
    factor = la.cholesky(s)
    close(lm.cholesky_solve(b, factor), np.linalg.solve(wide(s), wide(b)), dtype)
    upper = lm.array(np.swapaxes(factor.numpy(), -1, -2).copy())
    close(lm.cholesky_solve(b, upper, upper=True), np.linalg.solve(wide(s), wide(b)), dtype)


@pytest.mark.parametrize("dtype", EPS)
@pytest.mark.parametrize("shape", [(100, 100), (40, 15, 15)], ids=str)
@pytest.mark.parametrize("columns", [1, 20])
@pytest.mark.parametrize("unit", [False, True])
@pytest.mark.parametrize("upper", [False, True])
def test_triangles(shape, columns, unit, upper, dtype):
    n = shape[-1]
    t = (draw(shape, dtype) / n + 2 * np.eye(n)).astype(dtype)
    b = draw((*shape[:-1], columns), dtype, 1)
    used = np.triu(wide(t)) if upper else np.tril(wide(t))
    if unit:
        used += np.eye(n) - np.eye(n) * used
    wanted = np.linalg.solve(used, wide(b))
    close(la.solve_triangular(t, b, upper=upper, unitriangular=unit), wanted, dtype)
    turned = lm.array(np.swapaxes(t, -1, -2).copy()).mT  # the transpose of what lies in memory
    close(la.solve_triangular(turned, b, upper=upper, unitriangular=unit), wanted, dtype)


@pytest.mark.parametrize("dtype", EPS)
@pytest.mark.parametrize("shape", [*SQUARE, *TALL_AND_WIDE], ids=str)
def test_elimination(shape, dtype):
    a = draw(shape, dtype)
    packed, pivots = (x.numpy() for x in la.lu_factor(a))
    m, n = shape[-2:]
    k = min(m, n)
    low, up = np.tril(wide(packed)[..., :k], -1) + np.eye(m, k), np.triu(wide(packed)[..., :k, :])
    assert np.abs(low).max() == 1
    moved = wide(a).reshape(-1, m, n).copy()
    for matrix, row in zip(moved, pivots.reshape(-1, k), strict=True):
        for i, other in enumerate(row - 1):
            matrix[[i, other]] = matrix[[other, i]]
    np.testing.assert_allclose(low @ up, moved.reshape(shape), rtol=0, atol=30 * EPS[dtype])
    p, low, up = la.lu(a)
    np.testing.assert_allclose((p @ low @ up).numpy(), a, rtol=0, atol=30 * EPS[dtype])


def test_one_matrix_for_many_right_sides():
    a, b = regular((100, 100), "float64"), draw((3, 2, 100, 4), "float64", 1)
    close(la.solve(a, b), np.linalg.solve(a, b), "float64")
    close(lm.vmap(lambda v: la.solve(a, v))(b[0, 0].T), np.linalg.solve(a, b[0, 0]).T, "float64")


def _failing(shape):
    a = np.broadcast_to(np.eye(shape[-1]), shape).copy()
    a[-1, 5, 5] = 0
    return a


@pytest.mark.parametrize("shape", [(2, 100, 100), (300, 6, 6)], ids=str)
def test_matrices_without_a_result(shape):
    a = _failing(shape)
    size = rf"of float64\[{', '.join(map(str, shape))}\]"
    for name, what, f in (
        ("cholesky", "matrix is not positive definite", la.cholesky),
        ("inverse", "singular matrix", la.inv),
        ("solve", "singular matrix", lambda x: la.solve(x, x)),
        ("triangular_solve", "singular matrix", lambda x: la.solve_triangular(x, x, upper=True)),
    ):
        for wrapped in (f, lm.jit(f)):
            with pytest.raises(LinAlgError, match=rf"\[{name}\] {what} \({size}\), so there is no"):
                lm.eval(wrapped(lm.array(a)))
    assert la.det(a).numpy()[-1] == 0 and la.det(a).numpy()[0] == 1
    sign, log = la.slogdet(a)
    assert sign.numpy()[-1] == 0 and log.numpy()[-1] == -np.inf
    assert np.isinf(la.cond(a, 1).numpy()).tolist() == [False] * (len(a) - 1) + [True]


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("shape", [(3, 100, 100), (300, 6, 6)], ids=str)
def test_matrices_that_are_not_finite_give_nan(shape, bad):
    a = positive(shape, "float64")
    a[1, 5, 2] = bad
    right = np.ones((*shape[:-1], 5))
    for f in (la.cholesky, la.inv, la.lu_factor, la.det, la.slogdet, lambda x: la.solve(x, right),
              lambda x: la.solve_triangular(x, right, upper=False)):  # fmt: skip
        found = f(a)
        found = found[0] if isinstance(found, tuple) else found
        spoiled = np.isnan(found.numpy()).reshape(len(a), -1)
        assert spoiled[1].all() and not np.delete(spoiled, 1, 0).any()
    np.testing.assert_array_equal(la.lu_factor(a).pivots.numpy()[1], np.arange(1, shape[-1] + 1))


def test_determinants_out_of_range_on_the_way():
    scale = np.repeat([1e200, 1e-200], 50)
    assert la.det(np.diag(scale)).item() == pytest.approx(1)
    assert la.det(np.diag(scale[::-1])).item() == pytest.approx(1)


def test_a_bad_index_beside_a_factorisation_is_an_index_error():
    a = lm.array(regular((4, 60, 60), "float32"))
    with pytest.raises(LamellaIndexError):
        lm.eval(la.inv(a[lm.array([0, 4])]))
    with pytest.raises(LamellaIndexError):
        lm.eval(lm.jit(lambda x, i: la.solve(x[i], x[i]))(a, lm.array([0, 7])))


def _all(a, s):
    return [la.inv(a), la.solve(a, s), la.cholesky(s), la.lu_factor(a).LU, la.det(a)]


@pytest.mark.parametrize("shape", [(150, 150), (100, 12, 12)], ids=str)
def test_the_same_bits_for_any_number_of_threads(shape):
    a, s = lm.array(regular(shape, "float32")), lm.array(positive(shape, "float32"))
    found = []
    for count in (1, 2, 3):
        with lm.config(threads=count):
            found.append([x.numpy() for x in _all(a, s)])
    for others in found[1:]:
        for x, y in zip(found[0], others, strict=True):
            np.testing.assert_array_equal(x, y)


def test_bits_do_not_depend_on_sizes_seen_before():
    s = positive((100, 100), "float64")
    first = la.cholesky(s).numpy()
    for n in (95, 105, 110):
        lm.eval(la.cholesky(positive((n, n), "float64")))
    np.testing.assert_array_equal(la.cholesky(s).numpy(), first)


@pytest.mark.parametrize("shape", [(95, 95), (1000, 3, 3)], ids=str)
def test_gradients(shape):
    """d log det A = tr(A⁻¹ dA), d tr(A⁻¹) = -tr(A⁻² dA); Cholesky by its determinant."""
    s = positive(shape, "float64")
    inverse = np.linalg.inv(s)
    g = lm.grad(lambda x: la.slogdet(x).logabsdet.sum())(lm.array(s)).numpy()
    np.testing.assert_allclose(g, np.swapaxes(inverse, -1, -2), rtol=1e-8, atol=1e-10)
    g = lm.grad(lambda x: lm.trace(la.inv(x).mT).sum() if x.ndim == 2 else
                (la.inv(x) * np.eye(shape[-1])).sum())(lm.array(s)).numpy()  # fmt: skip
    np.testing.assert_allclose(g, -inverse @ inverse, rtol=1e-8, atol=1e-10)
    g = lm.grad(lambda x: 2 * lm.log((la.cholesky(x) * np.eye(shape[-1])).sum(-1)).sum())(
        lm.array(s)
    ).numpy()
    np.testing.assert_allclose(g, inverse, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize(("size", "registers"), [(16, 16), (16, 32), (32, 16), (64, 32)])
@pytest.mark.parametrize("shape", [(14, 14), (33, 3, 3)], ids=str)
@pytest.mark.parametrize("op", [CholeskyRows(), Elimination()], ids=lambda op: op.name)
def test_kernels_for_vectors_of_every_size(op, shape, size, registers):
    """Tiles are cut by them; other machines' kernels are interpreted here."""
    s = positive(shape, "float64")
    given = placeholder(shape, float64)
    part = call(op, given)[0]
    (kernel,) = compile_graph([part], [given], (), VectorUnit(size, registers)).kernels
    memory = {b.name: np.zeros(np.prod(shape), b.dtype.numpy) for b in kernel.buffers}
    memory[next(b.name for b in kernel.buffers if b.mode == "in")][:] = s.ravel()
    run_kernel(kernel, memory, {}, {})
    found = memory[next(b.name for b in kernel.buffers if b.mode != "in" and b.dtype is float64)]
    (wanted, *_) = part.inputs[0].op.evaluate(part.inputs[0], [s])
    np.testing.assert_allclose(found.reshape(shape), wanted, rtol=0, atol=1e-13)
