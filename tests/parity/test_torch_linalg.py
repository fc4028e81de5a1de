"""Linear algebra against PyTorch: values, and gradients where they do not depend on choices."""

from __future__ import annotations

import numpy as np
import pytest

import lamella as lm

torch = pytest.importorskip("torch")

SEED = np.random.default_rng(0)
A = SEED.normal(size=(2, 4, 4)) + 4 * np.eye(4)
C = A + 1j * SEED.normal(size=(2, 4, 4))
B = SEED.normal(size=(2, 4, 3))
WIDE = SEED.normal(size=(2, 3, 5))


def hermitian(a):
    return (a + a.mT.conj()) / 2 if "complex" in str(a.dtype) else (a + a.mT) / 2


def size(x):
    return abs(x)


# name -> a function of (linalg namespace, matrix) that both libraries have
SQUARE = {
    "solve": lambda la, a: la.solve(a, a @ a),
    "triangular": lambda la, a: la.solve_triangular(a, a @ a, upper=True),
    "triangular unit": lambda la, a: la.solve_triangular(
        a / 9, a @ a, upper=False, unitriangular=True
    ),
    "triangular right": lambda la, a: la.solve_triangular(a, a @ a, upper=True, left=False),
    "inv": lambda la, a: la.inv(a),
    "det": lambda la, a: la.det(a),
    "slogdet": lambda la, a: la.slogdet(a)[1],
    "sign": lambda la, a: la.slogdet(a)[0],
    "matrix_exp": lambda la, a: la.matrix_exp(a / 3),
    "matrix_power": lambda la, a: la.matrix_power(a, -3),
    "cholesky": lambda la, a: la.cholesky(hermitian(a) @ hermitian(a)),
    "cholesky upper": lambda la, a: la.cholesky(hermitian(a) @ hermitian(a), upper=True),
    "eigvalsh": lambda la, a: la.eigvalsh(hermitian(a)),
    "eigh": lambda la, a: size(la.eigh(hermitian(a))[1]),
    "eigvals": lambda la, a: size(la.eigvals(a)).sum(-1),
    "eig": lambda la, a: size(la.eig(a)[1]).sum((-1, -2)),
    "lu": lambda la, a: la.lu(a)[1] + la.lu(a)[2],
    "lu_factor": lambda la, a: la.lu_factor(a)[0],
    "lu_solve": lambda la, a: la.lu_solve(*la.lu_factor(a), a @ a),
    "lu_solve adjoint": lambda la, a: la.lu_solve(*la.lu_factor(a), a @ a, adjoint=True),
    "lu_solve right": lambda la, a: la.lu_solve(*la.lu_factor(a), a @ a, left=False),
    "cond": lambda la, a: la.cond(a),
    "cond fro": lambda la, a: la.cond(a, "fro"),
    "cond 1": lambda la, a: la.cond(a, 1),
    "tensorinv": lambda la, a: la.tensorinv(a[0].reshape(4, 2, 2), 1),
    "tensorsolve": lambda la, a: la.tensorsolve(a[0].reshape(2, 2, 4), a[1][0].reshape(2, 2)),
    "multi_dot": lambda la, a: la.multi_dot([a[0], a[1][:, :1], a[0][:1]]),
    "householder": lambda la, a: la.householder_product(a / 5, a[:, 0]),
    "vander": lambda la, a: la.vander(a[0], N=3),
    "diagonal": lambda la, a: la.diagonal(a, offset=1),
    "vecdot": lambda la, a: la.vecdot(a, a @ a),
    "cross": lambda la, a: la.cross(a[:, :3, :3], a[:, 1:, 1:]),
}
ANY = {
    "svdvals": lambda la, a: la.svdvals(a),
    "svd": lambda la, a: size(la.svd(a, full_matrices=False)[0]),
    "svd vh": lambda la, a: size(la.svd(a, full_matrices=False)[2]),
    "qr": lambda la, a: la.qr(a)[0] * 2,
    "qr r": lambda la, a: la.qr(a)[1] * 2,
    "pinv": lambda la, a: la.pinv(a),
    "rank": lambda la, a: la.matrix_rank(a),
    "lu wide": lambda la, a: la.lu(a)[2],
    "norm": lambda la, a: la.norm(a),
    **{f"norm {o}": lambda la, a, o=o: la.norm(a, o, (-2, -1)) for o in
       ("fro", "nuc", 1, -1, 2, -2, float("inf"), -float("inf"))},
    **{f"vector {o}": lambda la, a, o=o: la.vector_norm(a, o) for o in (0, 1, 2, 3, 0.5)},
    "matrix_norm": lambda la, a: la.matrix_norm(a, "nuc", keepdim=True),
}  # fmt: skip
TALL = np.ascontiguousarray(np.swapaxes(WIDE, 1, 2))
CASES = [(name, f, x) for name, f in SQUARE.items() for x in (A, C)]
CASES += [(name, f, x) for name, f in ANY.items() for x in (WIDE, TALL, C)]
NAMES = [f"{name} {x.dtype} {x.shape}" for name, _, x in CASES]


# of the number of nonzeros; PyTorch 2.13 fails at its own in-place changes
WITHOUT_GRADIENT = ("vector 0", "cond fro", "cond 1")


class Namespace:
    """Ours, with PyTorch's order of arguments where it differs."""

    def __getattr__(self, name):
        return getattr(lm.linalg, name)

    def vector_norm(self, x, ord):
        return lm.linalg.vector_norm(x, ord=ord)

    def matrix_norm(self, x, ord, keepdim):
        return lm.linalg.matrix_norm(x, keepdims=keepdim, ord=ord)


@pytest.mark.parametrize(("name", "f", "x"), CASES, ids=NAMES)
def test_values_and_gradients(name, f, x):
    theirs = torch.tensor(x, requires_grad=True)
    ours = lm.tensor(x, requires_grad=True)
    wanted, found = f(torch.linalg, theirs), f(Namespace(), ours)
    np.testing.assert_allclose(
        found.numpy(), wanted.detach().resolve_conj().numpy(), rtol=1e-7, atol=1e-8
    )
    if not wanted.requires_grad or name in WITHOUT_GRADIENT:
        return
    weight = np.random.default_rng(1).normal(size=tuple(wanted.shape))
    (wanted * torch.tensor(weight)).real.sum().backward() if wanted.is_complex() else (
        wanted * torch.tensor(weight)
    ).sum().backward()
    total = (found * lm.asarray(weight)).sum()
    (lm.real(total) if wanted.is_complex() else total).backward()
    if theirs.grad is None:
        assert ours.grad is None or not ours.grad.numpy().any()
        return
    np.testing.assert_allclose(ours.grad.numpy(), theirs.grad.numpy(), rtol=1e-6, atol=1e-7)


def test_least_squares():
    a, b = TALL, np.random.default_rng(2).normal(size=(2, 5, 2))
    wanted = torch.linalg.lstsq(torch.tensor(a), torch.tensor(b), driver="gelsd")
    found = lm.linalg.lstsq(a, b)
    np.testing.assert_allclose(found.solution.numpy(), wanted.solution.numpy())
    np.testing.assert_allclose(found.residuals.numpy(), wanted.residuals.numpy())


def test_cholesky_functions():
    low, b = np.linalg.cholesky(A @ np.swapaxes(A, 1, 2)), torch.tensor(B)
    for upper in (False, True):
        factor = np.ascontiguousarray(np.swapaxes(low, 1, 2)) if upper else low
        wanted = torch.cholesky_solve(b, torch.tensor(factor), upper=upper)
        found = lm.linalg.cholesky_solve(B, factor, upper=upper)
        np.testing.assert_allclose(found.numpy(), wanted.numpy())
        wanted = torch.cholesky_inverse(torch.tensor(factor), upper=upper)
        found = lm.linalg.cholesky_inverse(factor, upper=upper)
        np.testing.assert_allclose(found.numpy(), wanted.numpy(), rtol=1e-6)


@pytest.mark.parametrize("ord", [0.5, 1, 1.5, 2, 3, float("inf")])
def test_gradients_at_zero(ord):
    for x in (np.zeros(3), np.array([0.0, 2.0, 2.0])):
        theirs = torch.tensor(x, requires_grad=True)
        torch.linalg.vector_norm(theirs, ord).backward()
        ours = lm.grad(lambda a: lm.linalg.vector_norm(a, ord=ord))(lm.asarray(x))
        np.testing.assert_allclose(ours.numpy(), theirs.grad.numpy(), atol=1e-12)


def test_deviation_of_a_constant():
    theirs = torch.ones(4, requires_grad=True)
    torch.std(theirs).backward()
    ours = lm.grad(lambda x: lm.std(x, correction=1))(lm.ones(4))
    np.testing.assert_allclose(ours.numpy(), theirs.grad.numpy())
