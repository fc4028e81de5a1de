"""Losses against NumPy in float64, their gradients, reductions and refusals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import special

import lamella as lm
from lamella import nn
from lamella.errors import DTypeError, OptionError, ShapeError
from tests.nn.helpers import check_gradient

F = nn.functional
RNG = np.random.default_rng(1)
A, B = RNG.standard_normal((3, 4)) * 2, RNG.standard_normal((3, 4))
P = RNG.random((3, 4))


def huber(d: np.ndarray, delta: float = 1.0) -> np.ndarray:
    d = np.abs(d)
    return np.where(d < delta, 0.5 * d * d, delta * (d - 0.5 * delta))


PAIRED: dict[str, tuple[np.ndarray, np.ndarray, np.ndarray]] = {
    "mse_loss": (A, B, (A - B) ** 2),
    "l1_loss": (A, B, np.abs(A - B)),
    "huber_loss": (A, B, huber(A - B)),
    "smooth_l1_loss": (A, B, huber(A - B)),
    "binary_cross_entropy_with_logits": (A, P, np.logaddexp(0, A) - P * A),
    "binary_cross_entropy": (P, B > 0, -special.xlogy(B > 0, P) - special.xlogy(B <= 0, 1 - P)),
    "kl_div": (A, P, special.xlogy(P, P) - P * A),
}


@pytest.mark.parametrize("name", PAIRED)
def test_paired_losses(name: str) -> None:
    x, target, expected = PAIRED[name]
    target = target.astype(np.float64)
    loss = getattr(F, name)
    for reduction, reduce in {"mean": np.mean, "sum": np.sum, "none": np.asarray}.items():
        found = loss(lm.asarray(x), lm.asarray(target), reduction=reduction)
        np.testing.assert_allclose(found.numpy(), reduce(expected), rtol=1e-9, atol=1e-12)
    check_gradient(lambda t: loss(t, lm.asarray(target)), x)
    with pytest.raises(ShapeError, match="broadcasting"):
        loss(lm.ones((3, 4)), lm.ones((4,)))
    with pytest.raises(OptionError, match="did you mean 'mean'"):
        loss(lm.asarray(x), lm.asarray(target), reduction="men")


def test_logit_loss_is_stable_and_weighted() -> None:
    x = lm.tensor(np.array([-1e4, 1e4]), requires_grad=True)
    loss = F.binary_cross_entropy_with_logits(x, lm.asarray(np.array([0.0, 1.0])))
    loss.backward()
    assert loss.item() == 0
    assert np.isfinite(x.grad.numpy()).all()
    weighted = F.binary_cross_entropy_with_logits(
        lm.asarray(A), lm.asarray(P), pos_weight=3.0, reduction="none"
    )
    expected = 3 * P * np.logaddexp(0, -A) + (1 - P) * np.logaddexp(0, A)
    np.testing.assert_allclose(weighted.numpy(), expected)


def class_loss(
    x: np.ndarray,
    target: np.ndarray,
    weight: np.ndarray | None,
    ignore: int,
    smoothing: float,
    reduction: str,
) -> np.ndarray:
    """Cross-entropy of ``(N, C, ...)`` as its definition reads."""
    logs = np.moveaxis(special.log_softmax(x, 1), 1, -1)
    weight = np.ones(x.shape[1]) if weight is None else weight
    losses, factors = np.zeros(target.shape), np.zeros(target.shape)
    for place in np.ndindex(target.shape):
        c = target[place]
        if c != ignore:
            factors[place] = weight[c]
            losses[place] = -(1 - smoothing) * weight[c] * logs[place][c]
            losses[place] -= smoothing / x.shape[1] * (weight * logs[place]).sum()
    if reduction == "mean":
        return losses.sum() / factors.sum()
    return losses.sum() if reduction == "sum" else losses


@pytest.mark.parametrize("shape", [(6, 4), (2, 4, 3), (2, 4, 3, 2)])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_cross_entropy(
    shape: tuple[int, ...], weighted: bool, smoothing: float, reduction: str
) -> None:
    x = RNG.standard_normal(shape) * 3
    target = RNG.integers(0, 4, (shape[0], *shape[2:]))
    target.flat[1] = -100
    weight = np.array([0.5, 1.0, 2.0, 3.0]) if weighted else None
    expected = class_loss(x, target, weight, -100, smoothing, reduction)

    def loss(t: lm.Tensor) -> lm.Tensor:
        return F.cross_entropy(
            t, target, None if weight is None else lm.asarray(weight), -100, reduction, smoothing
        )

    np.testing.assert_allclose(loss(lm.asarray(x)).numpy(), expected, rtol=1e-9, atol=1e-12)
    check_gradient(loss, x)


def test_nll_loss_and_single_example() -> None:
    x = RNG.standard_normal((5, 4))
    target = np.array([0, 3, 1, 1, 2])
    logs = special.log_softmax(x, 1)
    found = F.nll_loss(lm.asarray(logs), target)
    np.testing.assert_allclose(found.item(), -logs[np.arange(5), target].mean())
    np.testing.assert_allclose(F.cross_entropy(lm.asarray(x[0]), lm.asarray(2)).item(), -logs[0, 2])


def test_probability_targets() -> None:
    x, target = RNG.standard_normal((5, 4)), special.softmax(RNG.standard_normal((5, 4)), 1)
    weight = np.array([1.0, 2.0, 3.0, 4.0])
    smooth = target * 0.9 + 0.1 / 4
    expected = -(smooth * special.log_softmax(x, 1) * weight).sum() / 5
    found = F.cross_entropy(
        lm.asarray(x), lm.asarray(target), lm.asarray(weight), label_smoothing=0.1
    )
    np.testing.assert_allclose(found.item(), expected)


def test_huge_logits_stay_finite() -> None:
    x = lm.tensor(np.array([[1e30, -1e30]], np.float32), requires_grad=True)
    loss = F.cross_entropy(x, [0])
    loss.backward()
    assert loss.item() == 0
    assert np.isfinite(x.grad.numpy()).all()


@pytest.mark.parametrize("bad", [4, -1])
def test_classes_out_of_range_raise(bad: int) -> None:
    with pytest.raises(IndexError):
        F.cross_entropy(lm.ones((2, 4)), lm.asarray([0, bad])).item()


def test_refusals() -> None:
    with pytest.raises(ShapeError, match=r"\(2, 4\).*\(3,\)"):
        F.cross_entropy(lm.ones((2, 4)), lm.asarray([0, 1, 2]))
    with pytest.raises(DTypeError, match="float32"):
        F.cross_entropy(lm.ones((2, 4)), lm.ones(2))
    with pytest.raises(DTypeError, match="int64"):
        F.cross_entropy(lm.asarray([[1, 2]]), lm.asarray([0]))


MODULES: list[tuple[nn.Module, Callable[..., lm.Tensor], tuple[Any, Any]]] = [
    (nn.MSELoss(), F.mse_loss, (A, B)),
    (nn.L1Loss("sum"), lambda x, t: F.l1_loss(x, t, "sum"), (A, B)),
    (nn.HuberLoss(delta=0.5), lambda x, t: F.huber_loss(x, t, delta=0.5), (A, B)),
    (nn.SmoothL1Loss(beta=0.0), F.l1_loss, (A, B)),
    (nn.BCELoss(), F.binary_cross_entropy, (P, P)),
    (nn.BCEWithLogitsLoss(), F.binary_cross_entropy_with_logits, (A, P)),
    (nn.NLLLoss(), F.nll_loss, (A, np.array([0, 1, 2]))),
    (
        nn.CrossEntropyLoss(label_smoothing=0.2),
        lambda x, t: F.cross_entropy(x, t, label_smoothing=0.2),
        (A, np.array([0, 1, 2])),
    ),
]


@pytest.mark.parametrize(("module", "function", "args"), MODULES)
def test_loss_modules(
    module: nn.Module, function: Callable[..., lm.Tensor], args: tuple[Any, Any]
) -> None:
    x, target = (lm.asarray(each) for each in args)
    assert module(x, target).tolist() == function(x, target).tolist()


def test_gradients_through_saturated_probabilities() -> None:
    """PyTorch's binary_cross_entropy divides by at least 1e-12, so nothing is NaN there."""
    for dtype in (lm.float32, lm.float64, lm.bfloat16, lm.float16):
        x = lm.tensor([1000.0, -1000.0, 1000.0, -1000.0, 0.0], dtype=dtype, requires_grad=True)
        target = lm.asarray([1.0, 0.0, 0.0, 1.0, 1.0], dtype=dtype)
        F.binary_cross_entropy(lm.sigmoid(x), target, reduction="sum").backward()
        assert x.grad is not None
        assert x.grad.tolist() == [0.0, 0.0, 0.0, 0.0, -0.5]
    slope = lm.grad(lambda p: F.binary_cross_entropy(p, lm.asarray(1.0)))
    np.testing.assert_allclose(slope(lm.asarray(0.0)).item(), -1e12)
    np.testing.assert_allclose(lm.grad(slope)(lm.asarray(0.5)).item(), 4.0)
