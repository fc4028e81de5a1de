"""Linear algebra against NumPy and SciPy in float64: values, shapes, odd cases."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg
from hypothesis import given, settings
from hypothesis import strategies as st

import lamella as lm
from lamella.errors import DTypeError, LinAlgError, OptionError, ShapeError

la = lm.linalg
SQUARE = [(1, 1), (2, 4, 4), (3, 0, 5, 5), (2, 0, 0), (67, 67)]
SHAPES = [*SQUARE, (3, 5), (5, 3), (2, 4, 3), (0, 3), (3, 0), (1, 7), (7, 1)]
TYPES = ["float32", "float64", "complex64", "complex128"]


def each(shapes):
    """Every shape in float64, one in every type."""
    return [
        pytest.param(shape, dtype, id=f"{shape} {dtype}")
        for shape in shapes for dtype in TYPES if dtype == "float64" or shape == shapes[1]
    ]  # fmt: skip


def draw(shape, dtype="float64", seed=0):
    rng = np.random.default_rng(seed)
    found = rng.normal(size=shape)
    if dtype.startswith("c"):
        found = found + 1j * rng.normal(size=shape)
    return found.astype(dtype)


def regular(shape, dtype="float64", seed=0):
    """Well-conditioned square matrices."""
    large = 3 * np.sqrt(max(shape[-1], 1)) * np.eye(shape[-1])
    return (draw(shape, dtype, seed) + large).astype(dtype)


def hermitian(shape, dtype="float64", seed=0):
    a = draw(shape, dtype, seed)
    return (a + np.conj(np.swapaxes(a, -1, -2))) / 2


def positive(shape, dtype="float64", seed=0):
    a = draw(shape, dtype, seed)
    return (a @ np.conj(np.swapaxes(a, -1, -2)) + np.eye(shape[-1]) * shape[-1]).astype(dtype)


def close(found, wanted, rtol=None):
    found, wanted = np.asarray(found), np.asarray(wanted)
    assert found.shape == wanted.shape and found.dtype == wanted.dtype
    single = found.dtype in (np.float32, np.complex64)
    rtol = rtol or (2e-3 if single else 1e-8)
    scale = np.abs(wanted).max(initial=1e-3)
    np.testing.assert_allclose(found, wanted, rtol=rtol, atol=rtol * scale)


def t(x):
    return np.conj(np.swapaxes(x, -1, -2))


@pytest.mark.parametrize(("shape", "dtype"), each(SQUARE))
def test_square(shape, dtype):
    a, x = regular(shape, dtype), lm.asarray(regular(shape, dtype))
    close(la.inv(x), np.linalg.inv(a))
    close(la.det(x), np.linalg.det(a), 1e-2 if dtype in ("float32", "complex64") else 1e-6)
    for found, wanted in zip(la.slogdet(x), np.linalg.slogdet(a), strict=True):
        close(found, wanted)
    b = draw((*shape[:-1], 3), dtype, 1)
    close(la.solve(x, lm.asarray(b)), np.linalg.solve(a, b))
    close(la.matrix_exp(x / 10), scipy.linalg.expm((a / 10).astype(a.dtype)).astype(a.dtype))
    for n in (-2, 0, 1, 5):
        close(la.matrix_power(x, n), np.linalg.matrix_power(a, n))


@pytest.mark.parametrize(("shape", "dtype"), each(SQUARE))
def test_symmetric(shape, dtype):
    a = hermitian(shape, dtype)
    x = lm.asarray(a)
    w, v = la.eigh(x)
    close(w, np.linalg.eigvalsh(a))
    close(x @ v, (v * w[..., None, :]).astype(v.dtype))
    close(la.eigvalsh(x, "U"), np.linalg.eigvalsh(a))
    p = positive(shape, dtype)
    close(la.cholesky(lm.asarray(np.tril(p))), np.linalg.cholesky(p))
    close(la.cholesky(lm.asarray(np.triu(p)), upper=True), t(np.linalg.cholesky(p)))
    factor = lm.asarray(np.linalg.cholesky(p))
    b = draw((*shape[:-1], 2), dtype)
    close(la.cholesky_solve(lm.asarray(b), factor), np.linalg.solve(p, b))
    close(la.cholesky_solve(lm.asarray(b), factor.mT.conj() if dtype[0] == "c" else factor.mT,
                            upper=True), np.linalg.solve(p, b))  # fmt: skip
    close(la.cholesky_inverse(factor), np.linalg.inv(p))


@pytest.mark.parametrize(("shape", "dtype"), each(SHAPES))
def test_any_shape(shape, dtype):
    a, x = draw(shape, dtype), lm.asarray(draw(shape, dtype))
    k = min(shape[-2:])
    for full in (True, False):
        u, s, vh = la.svd(x, full_matrices=full)
        wanted = np.linalg.svd(a, full)
        assert [f.shape for f in (u, s, vh)] == [w.shape for w in wanted]
        close(s, wanted[1])
        close((u[..., :k] * s[..., None, :]).astype(u.dtype) @ vh[..., :k, :], a)
    close(la.svdvals(x), wanted[1])
    for mode in ("reduced", "complete"):
        q, r = la.qr(x, mode)
        reference = np.linalg.qr(a, mode)
        assert (q.shape, r.shape) == (reference[0].shape, reference[1].shape)
        close(q @ r, a)
        close(lm.tril(r, -1), np.zeros_like(r.numpy()))
        close(lm.asarray(t(q.numpy())) @ q, np.broadcast_to(np.eye(q.shape[-1]), (*shape[:-2], *[q.shape[-1]] * 2)).astype(a.dtype))  # noqa: E501
    close(la.qr(x, "r"), r if k == shape[-2] else la.qr(x).R)
    p, low, up = la.lu(x)
    close(p @ low @ up, a)
    close(lm.triu(low, 1), np.zeros_like(low.numpy()))
    assert np.abs(low.numpy()).max(initial=0) <= 1 + 1e-6 if dtype[0] == "f" else True
    close(la.pinv(x), np.linalg.pinv(a) if a.size else np.zeros((*shape[:-2], shape[-1], shape[-2]), dtype))  # noqa: E501


@pytest.mark.parametrize(("shape", "dtype"), each([(1, 1), (2, 4, 4), (3, 3), (2, 0, 0)]))
def test_general_eigenvalues(shape, dtype):
    a, x = draw(shape, dtype), lm.asarray(draw(shape, dtype))
    w, v = la.eig(x)
    close(x.astype(v.dtype) @ v, (v * w[..., None, :]).numpy(), 2e-3)
    wanted = np.sort_complex(np.linalg.eigvals(a))
    np.testing.assert_allclose(np.sort_complex(la.eigvals(x).numpy()), wanted, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("dtype", ["float64", "complex64"])
@pytest.mark.parametrize("lead", [(), (2,), (0,)])
def test_triangular(lead, dtype):
    for n, k in ((1, 1), (4, 3), (70, 2), (3, 0), (0, 2)):
        a, b = regular((*lead, n, n), dtype), draw((*lead, n, k), dtype)
        for upper in (True, False):
            for unit in (True, False):
                triangle = np.triu(a) if upper else np.tril(a)
                if unit:
                    triangle = triangle / (np.abs(a).max(initial=1) * n or 1)
                    triangle = np.triu(triangle, 1) + np.tril(triangle, -1) + np.eye(n)
                given = triangle + (np.tril(a, -1) if upper else np.triu(a, 1))
                options = {"upper": upper, "unitriangular": unit}
                given = given.astype(dtype)
                found = la.solve_triangular(lm.asarray(given), lm.asarray(b), **options)
                close(found, np.linalg.solve(triangle, b).astype(dtype))
                right = np.swapaxes(b, -1, -2)
                found = la.solve_triangular(
                    lm.asarray(given), lm.asarray(right), left=False, **options
                )
                wanted = np.linalg.solve(np.swapaxes(triangle, -1, -2), b).astype(dtype)
                close(found, np.swapaxes(wanted, -1, -2))


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_lu_solve(dtype):
    for n in (1, 5, 80):
        a, b = draw((n, n), dtype), draw((n, 2), dtype)
        factors = la.lu_factor(lm.asarray(a))
        reference, pivots = scipy.linalg.lu_factor(a)
        close(factors.LU, reference)
        assert (factors.pivots.numpy() == pivots + 1).all()
        close(la.lu_solve(*factors, lm.asarray(b)), np.linalg.solve(a, b), 1e-6)
        close(la.lu_solve(*factors, lm.asarray(b), adjoint=True), np.linalg.solve(t(a), b), 1e-6)
        close(la.lu_solve(*factors, lm.asarray(b.T), left=False), np.linalg.solve(a.T, b).T, 1e-6)
    many = la.lu_solve(*factors, lm.asarray(draw((3, n, 2), dtype)))
    close(many, np.linalg.solve(a, draw((3, n, 2), dtype)), 1e-6)


@settings(deadline=None, max_examples=30)
@given(st.lists(st.integers(1, 3), max_size=2), st.lists(st.integers(1, 3), max_size=2),
       st.integers(1, 4), st.booleans())  # fmt: skip
def test_leading_axes_broadcast(left, right, n, vector):
    for i in range(1, 1 + min(len(left), len(right))):
        right[-i] = left[-i] if right[-i] != 1 else 1
    a = regular((*left, n, n))
    b = draw((n,)) if vector else draw((*right, n, 2))
    close(la.solve(a, b), np.linalg.solve(a, b))
    lower = la.solve_triangular(a, b, upper=False)
    close(lower, np.linalg.solve(np.tril(a), b))


def test_least_squares():
    for shape in ((5, 3), (3, 5), (4, 4), (6, 1), (5, 0)):
        a, b = draw(shape), draw((shape[0], 2), seed=1)
        if a.size:
            x, residual, rank, s = np.linalg.lstsq(a, b, rcond=None)
        else:
            x, residual, rank, s = np.zeros((0, 2)), (b * b).sum(0), 0, np.zeros(0)
        found = la.lstsq(a, b)
        close(found.solution, x)
        close(found.singular_values, s)
        assert found.rank.item() == rank
        if shape[0] > shape[1]:
            close(found.residuals, residual)
        else:
            assert found.residuals.shape == (0,)
        close(la.lstsq(a, b[:, 0]).solution, x[:, 0])
    deficient = np.outer(draw((5,)), draw((3,), seed=2))
    close(la.lstsq(deficient, b[:5]).solution, np.linalg.lstsq(deficient, b[:5], rcond=None)[0])
    assert la.lstsq(deficient, b[:5]).rank.item() == 1


ORDERS = [None, "fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf]


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_norms(dtype):
    a = draw((4, 3), dtype)
    for ord in ORDERS:
        close(la.norm(a, ord), np.float64(np.linalg.norm(a, ord)))
        close(la.cond(a[:3], ord), np.float64(np.linalg.cond(a[:3], ord)))
        for axis in ((0, 1), (1, 0), (-1, 0), (2, 1)):
            many = draw((2, 4, 3), dtype)
            for keep in (True, False):
                found = la.norm(many, ord, axis=axis, keepdims=keep)
                close(found, np.linalg.norm(many, ord, axis=axis, keepdims=keep))
    for ord in (None, 0, 1, -1, 2, 3, 0.5, -2, np.inf, -np.inf):
        close(la.norm(a, ord, axis=0), np.linalg.norm(a, ord, axis=0).astype("float64"))
        close(la.norm(a[0], ord), np.float64(np.linalg.norm(a[0], ord)))
    close(la.norm(draw((2, 3, 4), dtype)), np.float64(np.linalg.norm(draw((2, 3, 4), dtype))))
    assert la.cond(np.zeros((2, 2)), 1).item() == np.inf
    both = np.array([np.eye(2), np.ones((2, 2))])
    assert np.isinf(la.cond(both, 1).numpy()).tolist() == [False, True]
    for ord, axis in (("nuc", 0), ("spam", None), (3, (0, 1))):
        with pytest.raises(OptionError):
            la.norm(a, ord, axis=axis)
    with pytest.raises(ShapeError):
        la.norm(draw((2, 2, 2)), 1)


def test_rank():
    a = draw((5, 2)) @ draw((2, 4))
    assert la.matrix_rank(a).item() == 2
    assert la.matrix_rank(a, tol=1e9).item() == 0
    assert la.matrix_rank(a, rtol=0.9999).item() == 1
    assert la.matrix_rank(a @ a.T, hermitian=True).item() == 2
    assert la.matrix_rank(np.array([np.eye(3), np.zeros((3, 3))])).tolist() == [3, 0]
    both = np.array([np.diag([1.0, 0.1]), np.diag([1.0, 0.1])])
    assert la.matrix_rank(both, rtol=np.array([0.5, 0.01])).tolist() == [1, 2]
    assert la.matrix_rank(both, np.array([0.01, 2.0])).tolist() == [2, 0]
    assert la.matrix_rank(np.zeros((2, 0, 3))).tolist() == [0, 0]
    many, tol = np.stack([np.diag([4.0, 1.0])] * 3), np.array([0.0, 0.5, 1.0])
    assert la.matrix_rank(many, rtol=tol).tolist() == [2, 1, 0]
    assert la.matrix_rank(many, tol=tol).tolist() == [2, 2, 1]
    close(la.pinv(many, rtol=tol[:2][[0, 1, 1]]), np.linalg.pinv(many, rcond=tol[:2][[0, 1, 1]]))
    assert la.matrix_rank(np.zeros(3)).item() == 0 and la.matrix_rank(np.ones(3)).item() == 1


def test_other_functions():
    chain = [draw(s) for s in ((4,), (4, 10), (10, 2), (2, 7), (7,))]
    close(la.multi_dot(chain), np.float64(np.linalg.multi_dot(chain)))
    close(la.multi_dot(chain[1:-1]), np.linalg.multi_dot(chain[1:-1]))
    close(la.multi_dot([chain[1]]), chain[1])
    a = draw((2, 3, 6))
    close(la.tensorinv(a), np.linalg.tensorinv(a))
    close(la.tensorsolve(a, draw((2, 3))), np.linalg.tensorsolve(a, draw((2, 3))))
    b = draw((6, 2, 3))
    wanted = np.linalg.tensorsolve(b, draw((2, 3)), axes=(0,))
    close(la.tensorsolve(b, draw((2, 3)), axes=(0,)), wanted)
    v = draw((2, 3))
    close(la.vander(v, 4), np.stack([np.vander(row, 4, increasing=True) for row in v]))
    close(la.vander(v[0]), np.vander(v[0], increasing=True))
    assert la.vander([2, 3], 0).shape == (2, 0)
    h, tau = scipy.linalg.qr(draw((5, 3)), mode="raw")[0]
    q = scipy.linalg.qr(draw((5, 3)), mode="economic")[0]
    close(la.householder_product(np.ascontiguousarray(h), tau), q)
    with pytest.raises(ShapeError):
        la.householder_product(h.T, tau)


def test_what_is_no_matrix():
    for f in (la.inv, la.det, la.cholesky, la.eigh, la.eig, la.matrix_exp, la.slogdet):
        for wrong in (np.ones((2, 3)), np.ones(3), np.ones(())):
            with pytest.raises(ShapeError, match="square"):
                f(wrong)
        with pytest.raises(DTypeError, match="float16"):
            f(lm.ones((2, 2), dtype=lm.float16))
        assert f(np.eye(2, dtype=np.int32)) is not None
    for f in (la.svd, la.qr, la.pinv, la.lu):
        with pytest.raises(ShapeError):
            f(np.ones(3))
    eye, flat = np.eye(3), np.ones((2, 3))
    for a, b in ((eye, np.ones((2, 1))), (eye, np.ones(())), (flat, np.ones(2))):
        with pytest.raises(ShapeError):
            la.solve(a, b)
    with pytest.raises(OptionError, match="reduced"):
        la.qr(np.eye(2), "reduce")
    with pytest.raises(OptionError):
        la.eigh(np.eye(2), "X")


def test_singular_matrices_raise():
    zero = lm.zeros((2, 2, 2))
    for f in (la.inv, lambda a: la.solve(a, lm.ones((2, 1))), lambda a: la.cholesky(-lm.eye(2)),
              lambda a: la.matrix_power(a, -1),
              lambda a: la.solve_triangular(a, lm.ones((2, 1)), upper=True)):  # fmt: skip
        for wrapped in (f, lm.jit(f)):
            with pytest.raises(LinAlgError, match="so there is no result"):
                lm.eval(wrapped(zero))
    assert la.det(zero).tolist() == [0, 0]
    assert la.slogdet(zero).logabsdet.tolist() == [-np.inf, -np.inf]
    assert isinstance(LinAlgError("x"), ValueError)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_matrices_with_nan_give_nan(bad):
    a = positive((3, 4, 4))
    a[1, 2, 1] = bad
    for f in (la.inv, la.cholesky, la.eigh, la.eig, la.svd, la.qr, la.lu, la.det, la.matrix_exp,
              la.pinv, lambda a: la.solve(a, lm.ones((4, 1), dtype=lm.float64))):  # fmt: skip
        found = f(a)
        for part in found if isinstance(found, tuple) else (found,):
            if f is la.lu and part is found.P:
                continue
            value = part.numpy()
            assert np.isnan(value[1]).any() and np.isfinite(value[[0, 2]]).all()


def test_transposed_and_strided_operands():
    a = lm.asarray(positive((4, 4)))
    close(la.cholesky(a.mT), np.linalg.cholesky(a.numpy()))
    close(la.inv(a[::2, ::2]), np.linalg.inv(a.numpy()[::2, ::2]))
    close(la.svdvals(lm.broadcast_to(a, (3, 4, 4))), np.linalg.svd(np.stack([a.numpy()] * 3))[1])


def test_sizes_that_change():
    f = lm.jit(lambda a, b: la.solve(a, b) + la.eigvalsh(a)[..., None],
               dynamic={"a": {0: "n", 1: "n"}, "b": {0: "n"}})  # fmt: skip
    for n in (2, 3, 5):
        a, b = positive((n, n)), draw((n, 2))
        close(f(a, b), np.linalg.solve(a, b) + np.linalg.eigvalsh(a)[:, None])
        close(la.svdvals(a * 2), np.linalg.svd(a * 2)[1])
        close(la.qr(draw((n + 2, n)) * 2).R, np.linalg.qr(draw((n + 2, n)) * 2).R)
    assert f.programs == 1


@pytest.mark.usefixtures("optimized")
@pytest.mark.parametrize("name", ["svd", "eigh"])
def test_vectors_that_nobody_uses_are_not_computed(name, monkeypatch):
    a, asked = np.cov(draw((6, 20))), []
    whole, values = np.linalg.svd, np.linalg.eigvalsh
    monkeypatch.setattr(np.linalg, "svd", lambda *x, **o: (asked.append(o), whole(*x, **o))[1])
    monkeypatch.setattr(np.linalg, "eigh", lambda *x: pytest.fail("vectors were computed"))
    found = {"svd": la.svdvals, "eigh": la.eigvalsh}[name](lm.tensor(a)).numpy()
    np.testing.assert_allclose(np.sort(found), values(a), rtol=1e-12)
    assert name == "eigh" or asked == [{"compute_uv": False}]
