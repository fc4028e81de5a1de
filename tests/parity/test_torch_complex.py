"""Complex numbers: values and gradients agree with PyTorch, whose convention for them is ours."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lamella as lm

torch = pytest.importorskip("torch", reason="make parity installs PyTorch")

RNG = np.random.default_rng(3)
A, B = RNG.normal(size=(2, 3, 4, 2)) @ np.array([1.0, 1j])
REAL = RNG.normal(size=(3, 4))

FUNCTIONS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "products": lambda m, z, w: z * w - 2j * z,
    "quotient": lambda m, z, w: z / w,
    "powers": lambda m, z, w: z**3 + z ** (0.5 + 1j),
    "matrix product": lambda m, z, w: z @ m.conj(w).T,
    "exp and log": lambda m, z, w: m.exp(z) * m.log(w),
    "sqrt": lambda m, z, w: m.sqrt(z * w),
    "circular": lambda m, z, w: m.sin(z) + m.cos(w) * m.tan(z),
    "hyperbolic": lambda m, z, w: m.sinh(z) + m.cosh(w) * m.tanh(z),
    "inverse": lambda m, z, w: m.asin(z) + m.acos(w) + m.atan(z),
    "inverse hyperbolic": lambda m, z, w: m.asinh(z) + m.acosh(w) + m.atanh(z),
    "modulus": lambda m, z, w: m.abs(z) * w,
    "parts": lambda m, z, w: m.real(z) + 1j * m.imag(w) * z,
    "angle": lambda m, z, w: m.angle(z) * w,
    "sums": lambda m, z, w: m.cumsum(z, 1) * m.sum(w, 0),
    "mean": lambda m, z, w: m.mean(z, 0) * w,
    "choice": lambda m, z, w: m.where(m.abs(z) > 1, z, w * w),
    "indexing": lambda m, z, w: z[1:, ::2] * w[0, 1],
    "made of reals": lambda m, z, w: m.complex(m.real(z) ** 2, m.imag(w)) * z,
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_value_and_gradient(name: str) -> None:
    function = FUNCTIONS[name]
    theirs = [torch.tensor(x, requires_grad=True) for x in (A, B)]
    ours = [lm.tensor(x, requires_grad=True) for x in (A, B)]
    wanted, found = function(torch, *theirs), function(lm, *ours)
    np.testing.assert_allclose(found.detach().numpy(), wanted.detach().numpy(), rtol=1e-9)
    weights = RNG.normal(size=(*wanted.shape, 2)) @ np.array([1.0, 1j])
    torch.real((wanted * torch.tensor(weights)).sum()).backward()
    lm.real(lm.sum(found * lm.asarray(weights))).backward()
    for our, their in zip(ours, theirs, strict=True):
        if their.grad is not None:
            expected = their.grad.resolve_conj().numpy()
            np.testing.assert_allclose(our.grad.numpy(), expected, rtol=1e-8, atol=1e-10)


def test_gradient_of_a_real_tensor_through_complex_numbers() -> None:
    theirs, ours = torch.tensor(REAL, requires_grad=True), lm.tensor(REAL, requires_grad=True)
    torch.abs(torch.exp(1j * theirs) + theirs**2).sum().backward()
    lm.sum(lm.abs(lm.exp(1j * ours) + ours**2)).backward()
    assert ours.grad is not None and ours.grad.dtype is lm.float64
    np.testing.assert_allclose(ours.grad.numpy(), theirs.grad.numpy(), rtol=1e-9)


def test_backward_with_a_complex_gradient() -> None:
    theirs, ours = torch.tensor(A, requires_grad=True), lm.tensor(A, requires_grad=True)
    torch.sin(theirs).backward(torch.tensor(B))
    lm.sin(ours).backward(lm.asarray(B))
    np.testing.assert_allclose(ours.grad.numpy(), theirs.grad.numpy(), rtol=1e-9)
