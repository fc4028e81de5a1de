"""Derivatives of linear algebra: forward, reverse, twice, batched, compiled; odd cases."""

from __future__ import annotations

import numpy as np
import pytest

import lamella as lm
from lamella.errors import GradientError, LinAlgError

la = lm.linalg


def draw(shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


def regular(n, seed=0):
    return draw((n, n), seed) + np.diag(3.0 + np.arange(n))


def symmetric(a):
    return (a + a.mT) / 2


def wide(a):
    return lm.concat([a, a[:, :1] * a[:, 1:2] + a[:, 2:]], axis=1)


B = draw((3, 2), 9)
CASES = {
    "solve": lambda a: la.solve(a, lm.asarray(B)),
    "solve vector": lambda a: la.solve(a, a[0] * 2),
    "solve both": lambda a: la.solve(a, a @ a.mT * a),
    "triangular": lambda a: la.solve_triangular(a, a * a, upper=True),
    "triangular unit": lambda a: la.solve_triangular(a / 5, a * a, upper=False, unitriangular=True),
    "triangular right": lambda a: la.solve_triangular(a, a * a, upper=True, left=False),
    "inv": la.inv,
    "det": la.det,
    "slogdet": lambda a: la.slogdet(a).logabsdet,
    "matrix_exp": lambda a: la.matrix_exp(a / 3),
    "power": lambda a: la.matrix_power(a / 3, -3),
    "cholesky": lambda a: la.cholesky(a @ a.mT),
    "cholesky upper": lambda a: la.cholesky(a @ a.mT, upper=True),
    "cholesky_solve": lambda a: la.cholesky_solve(a * a, a),
    "cholesky_inverse": la.cholesky_inverse,
    "qr": lambda a: la.qr(a).Q @ lm.sin(la.qr(a).R),
    "qr wide": lambda a: la.qr(wide(a)).Q[:, :1] + la.qr(wide(a)).R,
    "qr tall": lambda a: la.qr(wide(a).mT).Q @ la.qr(wide(a).mT).R[:, :1],
    "qr complete": lambda a: la.qr(a, "complete").Q,
    "eigh": lambda a: la.eigh(symmetric(a)).eigenvectors ** 2,
    "eigvalsh": lambda a: la.eigvalsh(symmetric(a)),
    "svd": lambda a: la.svd(a).U ** 2 @ lm.diag(la.svd(a).S) @ la.svd(a).Vh ** 2,
    "svd wide": lambda a: la.svd(wide(a), False).Vh ** 2,
    "svd tall": lambda a: la.svd(wide(a).mT, False).U ** 2,
    "svd rest": lambda a: beyond(la.svd(wide(a).mT).U) * la.svd(wide(a)).U[:1, :1],
    "svd rest of V": lambda a: beyond(la.svd(wide(a)).Vh.mT),
    "svdvals": lambda a: la.svdvals(wide(a)),
    "eigvals": lambda a: lm.real(la.eigvals(a)) + lm.imag(la.eigvals(a)) ** 2,
    "eig": lambda a: lm.abs(la.eig(a).eigenvectors),
    "lu": lambda a: lm.sin(la.lu(a).L) @ la.lu(a).U,
    "lu wide": lambda a: la.lu(wide(a)).L @ lm.sin(la.lu(wide(a)).U),
    "lu tall": lambda a: lm.sin(la.lu(wide(a).mT).L) @ la.lu(wide(a).mT).U,
    "lu_solve": lambda a: la.lu_solve(*la.lu_factor(a), a * a),
    "lu_solve adjoint": lambda a: la.lu_solve(*la.lu_factor(a), a * a, adjoint=True),
    "pinv": lambda a: la.pinv(wide(a)),
    "pinv deficient": lambda a: la.pinv(a[:, :2] @ a[:2] / 3, rtol=1e-6),
    "pinv hermitian": lambda a: la.pinv(symmetric(a), hermitian=True),
    "lstsq": lambda a: la.lstsq(wide(a).mT, wide(a).mT[:, :1] ** 2).solution,
    "lstsq residual": lambda a: la.lstsq(wide(a).mT, wide(a).mT[:, :1] ** 2).residuals,
    "nuc": lambda a: la.norm(a, "nuc"),
    "norm 2": lambda a: la.norm(a, 2),
    "norm 3": lambda a: la.norm(a, 3, axis=0),
    "norm half": lambda a: la.norm(a, 0.5, axis=0),
    "cond": la.cond,
    "cond 1": lambda a: la.cond(a, "fro"),
    "multi_dot": lambda a: la.multi_dot([a, wide(a), a[0, :1].reshape(1, 1) * wide(a).mT]),
    "tensorsolve": lambda a: la.tensorsolve(a, a[0]),
    "vander": lambda a: la.vander(a, 4),
    "householder": lambda a: la.householder_product(a / 3, a[0]),
}  # fmt: skip


def beyond(u):
    """The projection on the columns beyond the third, which does not depend on their turning."""
    return u[:, 3:] @ u[:, 3:].mT


def slope(f, x, v):
    """Richardson's central difference."""

    def central(h):
        return (f(x + h * v) - f(x - h * v)) / (2 * h)

    return (4 * central(1e-3) - central(2e-3)) / 3


@pytest.mark.parametrize("name", CASES)
def test_derivatives(name):
    f, x, v = CASES[name], regular(3), draw((3, 3), 1)
    weight = draw(f(lm.asarray(x)).shape, 2)

    def value(a):
        return np.asarray(f(lm.asarray(a)))

    def scalar(a):
        return (f(a) * lm.asarray(weight)).sum()

    _, tangent = lm.jvp(f, (x,), (v,))
    np.testing.assert_allclose(tangent.numpy(), slope(value, x, v), rtol=1e-5, atol=1e-6)
    gradient = lm.jit(lm.grad(scalar))(lm.asarray(x))
    np.testing.assert_allclose(
        np.sum(gradient.numpy() * v), np.sum(tangent.numpy() * weight), rtol=1e-8, atol=1e-9
    )
    second = lm.jit(lm.grad(lambda a: (lm.grad(scalar)(a) * lm.asarray(v)).sum()))(lm.asarray(x))
    reference = slope(lambda a: lm.grad(scalar)(lm.asarray(a)).numpy(), x, v)
    np.testing.assert_allclose(second.numpy(), reference, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", CASES)
def test_batches(name):
    f, xs = CASES[name], np.stack([regular(3, seed) for seed in range(3)])

    def gradient(a):
        return lm.grad(lambda a: (lm.sin(f(a))).sum())(a)

    together = lm.jit(lm.vmap(gradient))(lm.asarray(xs)).numpy()
    for one, x in zip(together, xs, strict=True):
        np.testing.assert_allclose(one, gradient(lm.asarray(x)).numpy(), rtol=1e-7, atol=1e-8)


COMPLEX = {
    "solve": lambda a: la.solve(a, a * a),
    "triangular": lambda a: la.solve_triangular(a, a * a, upper=True),
    "inv": la.inv,
    "det": la.det,
    "slogdet": lambda a: la.slogdet(a).logabsdet * la.slogdet(a).sign,
    "matrix_exp": lambda a: la.matrix_exp(a / 3),
    "cholesky": lambda a: la.cholesky(a @ a.mT.conj()),
    "qr": lambda a: la.qr(a).Q + la.qr(a).R,
    "eigh": lambda a: lm.abs(la.eigh((a + a.mT.conj()) / 2).eigenvectors),
    "eigvalsh": lambda a: la.eigvalsh((a + a.mT.conj()) / 2),
    "svdvals": la.svdvals,
    "svd": lambda a: la.svd(a).U @ lm.diag(lm.sin(la.svd(a).S)).astype(a.dtype) @ la.svd(a).Vh,
    "svd abs": lambda a: lm.abs(la.svd(a[:, :2], False).U),
    "eigvals": la.eigvals,
    "eig": lambda a: lm.abs(la.eig(a).eigenvectors),
    "lu": lambda a: la.lu(a).L @ (la.lu(a).U * la.lu(a).U),
    "pinv": lambda a: la.pinv(a[:, :2]),
    "norm": lambda a: la.norm(a, axis=0),
    "nuc": lambda a: la.norm(a, "nuc"),
}


@pytest.mark.parametrize("name", COMPLEX)
def test_complex_derivatives(name):
    f = COMPLEX[name]
    x, v = regular(3) + 1j * draw((3, 3), 5), draw((3, 3), 1) + 1j * draw((3, 3), 2)

    def value(a):
        return np.asarray(f(lm.asarray(a)))

    _, tangent = lm.jvp(f, (x,), (v,))
    np.testing.assert_allclose(tangent.numpy(), slope(value, x, v), rtol=1e-5, atol=1e-6)
    weight = lm.asarray(draw(tangent.shape, 3) + 1j * draw(tangent.shape, 4))

    def scalar(a):
        return lm.real(lm.sum(f(a).astype(lm.complex128) * weight))

    gradient = lm.jit(lm.grad(scalar))(lm.asarray(x)).numpy()
    found = np.sum(gradient.real * v.real + gradient.imag * v.imag)
    wanted = np.sum(tangent.numpy() * weight.numpy()).real
    np.testing.assert_allclose(found, wanted, rtol=1e-8, atol=1e-9)


# -- odd cases -------------------------------------------------------------------------------------
def test_equal_eigenvalues_and_singular_values():
    eye = lm.eye(3, dtype=lm.float64)
    np.testing.assert_allclose(lm.grad(lambda a: la.eigvalsh(a).sum())(eye).numpy(), np.eye(3))
    np.testing.assert_allclose(lm.grad(lambda a: la.svdvals(a).sum())(eye).numpy(), np.eye(3))

    for f in (la.eigh, la.svd, la.eig):  # no derivative, and never a wrong one
        gradient = lm.grad(lambda a, f=f: (lm.abs(f(a)[-1]) ** 3).sum())(eye)
        assert not np.isfinite(gradient.numpy()).all()


def test_zero_singular_values():
    gradient = lm.grad(lambda a: la.norm(a, "nuc"))(lm.zeros((2, 3)))
    assert np.isfinite(gradient.numpy()).all()


def test_determinants_of_singular_matrices():
    a = np.array([[1.0, 2.0, 3.0], [2.0, 4.0, 6.0], [1.0, 0.0, 1.0]])
    found = lm.grad(la.det)(lm.asarray(a)).numpy()
    wanted = [[np.linalg.det(np.delete(np.delete(a, i, 0), j, 1)) * (-1) ** (i + j)
               for j in range(3)] for i in range(3)]  # fmt: skip
    np.testing.assert_allclose(found, wanted, atol=1e-12)
    np.testing.assert_allclose(lm.grad(la.det)(lm.zeros((1, 1))).numpy(), [[1.0]])
    with pytest.raises(LinAlgError):
        lm.grad(lambda a: la.slogdet(a).logabsdet)(lm.asarray(a * 0)).numpy()


def test_what_has_no_derivative_is_an_error():
    tall = lm.asarray(draw((4, 2)))
    for f in (lambda a: la.qr(a, "complete").Q.sum(),):
        with pytest.raises(GradientError, match="arbitrary"):
            lm.grad(f)(tall)
        with pytest.raises(GradientError, match="arbitrary"):
            lm.jvp(f, (tall,), (tall,))


@pytest.mark.parametrize("ord", [2, 3, 1.5, 0.5, 1, np.inf])
def test_norms_of_zero(ord):
    """The subgradient 0, also beside other elements that are not zero."""
    for x in (np.zeros((2, 3)), np.array([[0.0, 0, 0], [0.0, 3, 4]])):
        found = lm.grad(lambda a: la.vector_norm(a, axis=1, ord=ord).sum())(lm.asarray(x)).numpy()
        assert np.isfinite(found).all() and (found[0] == 0).all()
    assert (lm.grad(lambda a: la.norm(a))(lm.zeros((2, 2))).numpy() == 0).all()
    assert (lm.grad(lambda a: la.norm(a))(lm.zeros(2, dtype=lm.complex64)).numpy() == 0).all()


def test_standard_deviation_of_a_constant():
    assert lm.grad(lambda x: lm.std(x))(lm.ones(4)).tolist() == [0, 0, 0, 0]
    x = draw((5,))
    wanted = (x - x.mean()) / (5 * x.std())
    np.testing.assert_allclose(lm.grad(lambda x: lm.std(x))(lm.asarray(x)).numpy(), wanted)


def test_backward_and_jitted_steps():
    a = lm.tensor(regular(4), requires_grad=True)
    b = lm.asarray(draw((4,)))

    @lm.jit
    def step():
        loss = (la.solve(a @ a.mT, b) ** 2).sum() + la.slogdet(a).logabsdet
        a.grad = None
        loss.backward()
        with lm.no_grad():
            a.sub_(a.grad * 1e-3)
        return loss

    losses = [step().item() for _ in range(5)]
    assert losses == sorted(losses, reverse=True)


def test_a_failing_step_changes_nothing():
    count = lm.zeros(3)

    @lm.jit
    def step(a):
        count.add_(1)
        return la.inv(a)

    step(lm.eye(2))
    with pytest.raises(LinAlgError):
        step(lm.zeros((2, 2)))
    assert count.tolist() == [1, 1, 1]
    step(lm.eye(2))
    assert count.tolist() == [2, 2, 2]
