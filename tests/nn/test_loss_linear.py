"""The cross-entropy of a linear layer by blocks, against NumPy in float64 and the composition."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special

import lamella as lm
from lamella import nn
from lamella.nn.functional import loss_linear
from tests.nn.helpers import check_gradient

fused = nn.functional.linear_cross_entropy


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loss_linear, "ROOM", 40)
    monkeypatch.setattr(loss_linear, "LEAST", 4)


def expected(
    x: np.ndarray, w: np.ndarray, b: np.ndarray | float, t: np.ndarray, smoothing: float
) -> np.ndarray:
    logs = special.log_softmax(x @ w.T + b, -1)
    picked = np.take_along_axis(logs, np.where(t == -100, 0, t)[:, None], 1)[:, 0]
    losses = -(1 - smoothing) * picked - smoothing * logs.mean(-1)
    return np.where(t == -100, 0, losses)


@pytest.mark.parametrize("rows", [5, 7, 16, 33])
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_values_and_gradients(rows: int, biased: bool, smoothing: float) -> None:
    rng = np.random.default_rng(rows)
    x, w, b = rng.standard_normal((rows, 3)), rng.standard_normal((9, 3)), rng.standard_normal(9)
    t = rng.integers(0, 9, rows)
    t[2] = -100
    losses = expected(x, w, b if biased else 0.0, t, smoothing)
    count = (t != -100).sum()
    classes = lm.asarray(t)
    for reduction, wanted in (
        ("mean", losses.sum() / count), ("sum", losses.sum()), ("none", losses)
    ):  # fmt: skip
        leaves = [lm.tensor(a, requires_grad=True) for a in (x, w, *([b] if biased else []))]
        options = {"reduction": reduction, "label_smoothing": smoothing}
        bias = leaves[2] if biased else None
        found = fused(leaves[0], leaves[1], classes, linear_bias=bias, **options)
        np.testing.assert_allclose(found.detach().numpy(), wanted, rtol=1e-12)
        plain = [lm.tensor(a, requires_grad=True) for a in (x, w, *([b] if biased else []))]
        logits = nn.functional.linear(*plain)
        other = nn.functional.cross_entropy(logits, classes, **options)
        (found * found).sum().backward()
        (other * other).sum().backward()
        for a, c in zip(leaves, plain, strict=True):
            np.testing.assert_allclose(a.grad.numpy(), c.grad.numpy(), rtol=1e-9, atol=1e-13)


def test_finite_differences_jit_and_narrow_types() -> None:
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((9, 3)), rng.standard_normal((9, 3))
    t = lm.asarray(rng.integers(0, 9, 9))
    check_gradient(lambda a: fused(a, lm.asarray(w), t), x)
    check_gradient(lambda a: fused(lm.asarray(x), a, t, reduction="none"), w)
    step = lm.jit(lm.value_and_grad(lambda a, b: fused(a, b, t), argnums=(0, 1)))
    value, (dx, dw) = step(lm.asarray(x), lm.asarray(w))
    again, (ex, ew) = lm.value_and_grad(
        lambda a, b: nn.functional.cross_entropy(a @ b.mT, t), argnums=(0, 1)
    )(lm.asarray(x), lm.asarray(w))
    for a, b in ((value, again), (dx, ex), (dw, ew)):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-9, atol=1e-13)
    half = fused(lm.asarray(x, dtype=lm.bfloat16), lm.asarray(w, dtype=lm.bfloat16), t)
    np.testing.assert_allclose(half.item(), value.item(), rtol=3e-2)


def test_logits_are_never_whole() -> None:
    x, w, t = lm.zeros((64, 3)), lm.zeros((50, 3)), lm.zeros(64, dtype=lm.int64)
    step = lm.jit(lm.grad(lambda x, w: fused(x, w, t), argnums=(0, 1)))
    assert "[64, 50]" not in step.lower(x, w).text(1)


def test_misuse() -> None:
    x, w = lm.zeros((6, 3)), lm.zeros((9, 3))
    with pytest.raises(lm.errors.OptionError, match="reduction"):
        fused(x, w, lm.zeros(6, dtype=lm.int64), reduction="median")
    with pytest.raises(lm.errors.OptionError, match="label_smoothing"):
        fused(x, w, lm.zeros(6, dtype=lm.int64), label_smoothing=2)
    with pytest.raises(IndexError):
        fused(x, w, lm.full(6, 9)).item()
