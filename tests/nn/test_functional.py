"""Functions of layers against NumPy in float64, and their gradients against finite differences."""

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
RNG = np.random.default_rng(0)


def close(found: lm.Tensor, expected: Any, tol: float = 1e-9) -> None:
    """Equal shapes and nearly equal values."""
    expected = np.asarray(expected)
    assert tuple(found.shape) == expected.shape
    np.testing.assert_allclose(found.numpy(), expected, rtol=tol, atol=tol)


def sigmoid(x: np.ndarray) -> np.ndarray:
    return special.expit(x)


def softplus(x: np.ndarray) -> np.ndarray:
    return np.logaddexp(0, x)


ACTIVATIONS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "relu": lambda x: np.maximum(x, 0),
    "relu6": lambda x: np.clip(x, 0, 6),
    "leaky_relu": lambda x: np.where(x > 0, x, 0.01 * x),
    "elu": lambda x: np.where(x > 0, x, np.expm1(x)),
    "selu": lambda x: (
        1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * np.expm1(np.minimum(x, 0)))
    ),
    "sigmoid": sigmoid,
    "logsigmoid": lambda x: -softplus(-x),
    "tanh": np.tanh,
    "silu": lambda x: x * sigmoid(x),
    "mish": lambda x: x * np.tanh(softplus(x)),
    "gelu": lambda x: x * special.ndtr(x),
    "softplus": softplus,
    "hardsigmoid": lambda x: np.clip(x + 3, 0, 6) / 6,
    "hardswish": lambda x: x * np.clip(x + 3, 0, 6) / 6,
}
POINTS = np.array([-30.0, -3.7, -1.0, -0.2, 0.3, 1.0, 4.2, 7.5])


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations(name: str) -> None:
    function = getattr(F, name)
    close(function(lm.asarray(POINTS)), ACTIVATIONS[name](POINTS), 2e-9)
    check_gradient(function, POINTS[1:], 1e-6)


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations_stay_finite_and_keep_dtype(name: str) -> None:
    x = lm.tensor(np.array([-1e4, 0.0, 1e4], np.float32), requires_grad=True)
    y = getattr(F, name)(x)
    y.sum().backward()
    assert y.dtype is lm.float32
    assert np.isfinite(y.numpy()).all()
    assert np.isfinite(x.grad.numpy()).all()


def test_relu_at_zero_and_nan() -> None:
    x = lm.tensor([0.0, -0.0], requires_grad=True)
    F.relu(x).sum().backward()
    assert x.grad.tolist() == [0.0, 0.0]
    assert np.isnan(F.relu(lm.asarray([np.nan])).item())


def test_mish_over_its_whole_range() -> None:
    x = np.concatenate([np.linspace(-90, 90, 20001), [-3e38, -1e-30, 0.0, 3e38]])
    x = x.astype(np.float32)
    wide = x.astype(np.float64)
    wanted = wide * np.tanh(softplus(wide))
    np.testing.assert_allclose(F.mish(lm.asarray(x)).numpy(), wanted, rtol=6e-7, atol=1e-37)
    half = F.mish(lm.asarray([-60000.0, 0.0, 60000.0], dtype=lm.float16))
    assert half.tolist() == [0.0, 0.0, 60000.0]
    slope = lm.grad(lambda x: F.mish(x).sum())
    bend = lm.grad(lambda x: slope(x).sum())
    zero = lm.asarray([0.0])
    close(slope(zero), np.array([0.6]), 1e-6)
    close(bend(zero), np.array([0.64]), 1e-6)


def test_gelu_tanh() -> None:
    x = POINTS[1:]
    inner = np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)
    close(F.gelu(lm.asarray(x), "tanh"), 0.5 * x * (1 + np.tanh(inner)))
    with pytest.raises(OptionError, match="did you mean 'tanh'"):
        F.gelu(lm.asarray(x), "tan")


@pytest.mark.parametrize("dim", [0, 1, -1])
def test_softmax_and_log_softmax(dim: int) -> None:
    x = RNG.standard_normal((3, 4, 5)) * 5
    close(F.softmax(lm.asarray(x), dim), special.softmax(x, dim))
    close(F.log_softmax(lm.asarray(x), dim), special.log_softmax(x, dim))
    check_gradient(lambda t: F.softmax(t, dim), x / 5)
    check_gradient(lambda t: F.log_softmax(t, dim), x / 5)


def test_softmax_of_nothing() -> None:
    x = lm.zeros((2, 0))
    for function in (F.softmax, F.log_softmax, F.softmin, lm.special.softmax):
        assert function(x, -1).shape == (2, 0)
        assert function(x, 0).shape == (2, 0)
        assert lm.grad(lambda x, f=function: f(x, -1).sum())(x).shape == (2, 0)
    assert lm.logsumexp(x, -1).tolist() == [-np.inf, -np.inf]
    assert lm.logsumexp(x, 0, keepdims=True).shape == (1, 0)
    assert lm.special.logsumexp(x).item() == -np.inf


def test_softmax_of_huge_and_hidden_values() -> None:
    x = lm.asarray(np.array([[1e30, 0.0, -np.inf], [0.0, -np.inf, 0.0]], np.float32))
    assert F.softmax(x).tolist() == [[1.0, 0.0, 0.0], [0.5, 0.0, 0.5]]
    infinite = lm.asarray([[np.inf, 0.0], [-np.inf, -np.inf], [np.nan, 0.0]])
    for function in (F.softmax, F.log_softmax, lm.special.softmax):
        assert np.isnan(function(infinite, 1).numpy()).all()
    with pytest.raises(DTypeError, match="int64"):
        F.softmax(lm.asarray([1, 2]))
    assert F.softmax(lm.asarray([1, 1]), dtype=lm.float32).tolist() == [0.5, 0.5]


def test_glu() -> None:
    x = RNG.standard_normal((2, 6))
    close(F.glu(lm.asarray(x)), x[:, :3] * sigmoid(x[:, 3:]))
    with pytest.raises(ShapeError, match="odd"):
        F.glu(lm.ones((2, 3)))


def test_linear() -> None:
    x, w, b = RNG.standard_normal((2, 3, 4)), RNG.standard_normal((5, 4)), RNG.standard_normal(5)
    close(F.linear(lm.asarray(x), lm.asarray(w), lm.asarray(b)), x @ w.T + b)
    check_gradient(lambda t: F.linear(lm.asarray(x), t, lm.asarray(b)), w)
    with pytest.raises(ShapeError, match=r"\[linear\].*\(2, 3\).*\(5, 4\)"):
        F.linear(lm.ones((2, 3)), lm.asarray(w))


def test_embedding() -> None:
    table = RNG.standard_normal((5, 3))
    ids = np.array([[1, 4], [1, 0]])
    close(F.embedding(ids, lm.asarray(table)), table[ids])
    weight = lm.tensor(table, requires_grad=True)
    F.embedding(ids, weight, padding_idx=0).sum().backward()
    assert weight.grad.numpy()[:, 0].tolist() == [0.0, 2.0, 0.0, 0.0, 1.0]
    with pytest.raises(DTypeError, match="float64"):
        F.embedding(lm.asarray([1.0, 2.0], dtype=lm.float64), weight)
    with pytest.raises(IndexError):
        F.embedding(lm.asarray([5]), weight).numpy()
    with pytest.raises(IndexError, match="padding_idx=5"):
        F.embedding(ids, weight, padding_idx=5)


def test_dropout() -> None:
    lm.manual_seed(0)
    x = lm.ones(20_000)
    y = F.dropout(x, 0.25).numpy()
    assert set(np.unique(y)) == {np.float32(0), np.float32(1 / 0.75)}
    assert abs((y == 0).mean() - 0.25) < 0.02
    assert not np.array_equal(y, F.dropout(x, 0.25).numpy())
    assert F.dropout(x, 0.25, training=False) is x
    assert F.dropout(x, 1.0).numpy().sum() == 0
    with pytest.raises(OptionError, match=r"p=1.5"):
        F.dropout(x, 1.5)


def test_normalize_and_one_hot() -> None:
    x = RNG.standard_normal((3, 4))
    close(F.normalize(lm.asarray(x)), x / np.linalg.norm(x, axis=1, keepdims=True))
    close(F.normalize(lm.asarray(x), 1.0, 0), x / np.abs(x).sum(0))
    assert F.normalize(lm.zeros((1, 2))).tolist() == [[0.0, 0.0]]
    assert F.one_hot(lm.asarray([2, 0])).tolist() == [[0, 0, 1], [1, 0, 0]]


def convolve(
    x: np.ndarray, w: np.ndarray, stride: int, padding: int, dilation: int, groups: int
) -> np.ndarray:
    """Convolution of any rank as its definition reads."""
    rank = x.ndim - 2
    x = np.pad(x, [(0, 0), (0, 0)] + [(padding, padding)] * rank)
    reach = [dilation * (k - 1) + 1 for k in w.shape[2:]]
    sizes = [(s - r) // stride + 1 for s, r in zip(x.shape[2:], reach, strict=True)]
    y = np.zeros((x.shape[0], w.shape[0], *sizes))
    share_in, share_out = w.shape[1], w.shape[0] // groups
    for o in range(w.shape[0]):
        first = o // share_out * share_in
        for place in np.ndindex(*sizes):
            window = tuple(
                slice(p * stride, p * stride + r, dilation)
                for p, r in zip(place, reach, strict=True)
            )
            seen = x[(slice(None), slice(first, first + share_in), *window)]
            y[(slice(None), o, *place)] = (seen * w[o]).sum(tuple(range(1, rank + 2)))
    return y


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize(
    ("stride", "padding", "dilation", "groups"),
    [(1, 0, 1, 1), (2, 1, 1, 2), (1, 2, 2, 1), (1, 1, 1, 4)],
)
def test_convolution(rank: int, stride: int, padding: int, dilation: int, groups: int) -> None:
    side = {1: 7, 2: 6, 3: 5}[rank]
    x = RNG.standard_normal((2, 4, *[side] * rank))
    w = RNG.standard_normal((4, 4 // groups, *[2] * rank))
    b = RNG.standard_normal(4)
    conv = getattr(F, f"conv{rank}d")
    options = (stride, padding, dilation, groups)
    expected = convolve(x, w, *options) + b.reshape(-1, *[1] * rank)
    close(conv(lm.asarray(x), lm.asarray(w), lm.asarray(b), *options), expected)
    close(conv(lm.asarray(x[0]), lm.asarray(w), lm.asarray(b), *options), expected[0])
    if rank < 3:
        check_gradient(lambda t: conv(lm.asarray(x), t, None, *options), w)
        check_gradient(lambda t: conv(t, lm.asarray(w), None, *options), x[:1])


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize(
    ("stride", "padding", "extra", "groups", "dilation"),
    [(1, 0, 0, 1, 1), (2, 1, 1, 2, 1), (3, 0, 0, 1, 2)],
)
def test_transposed_convolution_is_the_transpose(
    rank: int, stride: int, padding: int, extra: int, groups: int, dilation: int
) -> None:
    x = RNG.standard_normal((1, 4, *[3] * rank))
    w = RNG.standard_normal((4, 2, *[3] * rank))
    transpose = getattr(F, f"conv_transpose{rank}d")
    y = transpose(lm.asarray(x), lm.asarray(w), None, stride, padding, extra, groups, dilation)
    side = (3 - 1) * stride - 2 * padding + dilation * 2 + extra + 1
    assert tuple(y.shape) == (1, 2 * groups, *[side] * rank)
    z = RNG.standard_normal(y.shape)
    forward = convolve(z, w, stride, padding, dilation, groups)[(..., *[slice(0, 3)] * rank)]
    np.testing.assert_allclose((y.numpy() * z).sum(), (forward * x).sum(), rtol=1e-9)


def test_convolution_same_padding_and_errors() -> None:
    x = lm.ones((1, 2, 5, 5))
    w = lm.ones((4, 2, 2, 3))
    assert tuple(F.conv2d(x, w, padding="same").shape) == (1, 4, 5, 5)
    assert tuple(F.conv2d(x, w, padding="valid").shape) == (1, 4, 4, 3)
    with pytest.raises(OptionError, match="did you mean 'same'"):
        F.conv2d(x, w, padding="sane")
    with pytest.raises(OptionError, match="stride"):
        F.conv2d(x, w, stride=2, padding="same")
    with pytest.raises(OptionError, match="stride=0"):
        F.conv2d(x, w, stride=0)
    with pytest.raises(ShapeError, match=r"has 3 channels.*takes 2"):
        F.conv2d(lm.ones((1, 3, 5, 5)), w)
    with pytest.raises(ShapeError, match=r"\(N, C, H, W\)"):
        F.conv2d(lm.ones((5, 5)), w)
    with pytest.raises(ShapeError):
        F.conv2d(lm.ones((1, 2, 1, 1)), w)


def pool(
    x: np.ndarray, k: int, stride: int, padding: int, fill: float, reduce: Callable[..., np.ndarray]
) -> np.ndarray:
    """Pooling over the last two axes as its definition reads."""
    x = np.pad(x, [(0, 0)] * (x.ndim - 2) + [(padding, padding)] * 2, constant_values=fill)
    seen = np.lib.stride_tricks.sliding_window_view(x, (k, k), axis=(-2, -1))
    return reduce(seen[..., ::stride, ::stride, :, :], axis=(-2, -1))


@pytest.mark.parametrize(("k", "stride", "padding"), [(2, 2, 0), (3, 2, 1), (2, 1, 0), (3, 3, 0)])
def test_pooling(k: int, stride: int, padding: int) -> None:
    x = RNG.standard_normal((2, 3, 8, 7))
    close(
        F.max_pool2d(lm.asarray(x), k, stride, padding),
        pool(x, k, stride, padding, -np.inf, np.max),
    )
    close(F.avg_pool2d(lm.asarray(x), k, stride, padding), pool(x, k, stride, padding, 0, np.mean))
    counts = pool(np.ones_like(x), k, stride, padding, 0, np.sum)
    close(
        F.avg_pool2d(lm.asarray(x), k, stride, padding, count_include_pad=False),
        pool(x, k, stride, padding, 0, np.sum) / counts,
    )
    check_gradient(lambda t: F.max_pool2d(t, k, stride, padding), x[:1, :1])
    check_gradient(lambda t: F.avg_pool2d(t, k, stride, padding), x[:1, :1])


def test_pooling_other_ranks_and_options() -> None:
    x = np.arange(7.0)[None, None]
    assert F.max_pool1d(lm.asarray(x), 2).tolist() == [[[1.0, 3.0, 5.0]]]
    assert F.max_pool1d(lm.asarray(x), 2, ceil_mode=True).tolist() == [[[1.0, 3.0, 5.0, 6.0]]]
    assert F.avg_pool1d(lm.asarray(x), 2, ceil_mode=True).tolist() == [[[0.5, 2.5, 4.5, 6.0]]]
    assert F.max_pool1d(lm.asarray(x), 2, stride=1, dilation=3).tolist() == [[[3.0, 4.0, 5.0, 6.0]]]
    assert F.max_pool1d(lm.asarray([[[3, 1, 2]]]), 3, 1, 1).tolist() == [[[3, 3, 2]]]
    assert tuple(F.max_pool3d(lm.ones((1, 1, 4, 4, 4)), 2).shape) == (1, 1, 2, 2, 2)
    assert tuple(F.avg_pool3d(lm.ones((1, 4, 4, 4)), 3, 1, 1).shape) == (1, 4, 4, 4)
    with pytest.raises(OptionError, match="more than half"):
        F.max_pool1d(lm.asarray(x), 2, padding=2)
    with pytest.raises(ShapeError, match="smaller than the window"):
        F.max_pool1d(lm.asarray(x), 8)


@pytest.mark.parametrize("size", [1, 2, 3, (4, 7), (None, 5)])
def test_adaptive_average(size: Any) -> None:
    x = RNG.standard_normal((2, 3, 8, 7))
    wanted = (
        (size, size)
        if isinstance(size, int)
        else tuple(s or n for s, n in zip(size, (8, 7), strict=True))
    )
    expected = np.empty((2, 3, *wanted))
    for i, j in np.ndindex(*wanted):
        rows = slice(i * 8 // wanted[0], -(-(i + 1) * 8 // wanted[0]))
        columns = slice(j * 7 // wanted[1], -(-(j + 1) * 7 // wanted[1]))
        expected[..., i, j] = x[..., rows, columns].mean((-2, -1))
    close(F.adaptive_avg_pool2d(lm.asarray(x), size), expected)


def test_pad() -> None:
    x = np.arange(6.0).reshape(2, 3)
    close(F.pad(lm.asarray(x), (1, 2)), np.pad(x, [(0, 0), (1, 2)]))
    close(
        F.pad(lm.asarray(x), (1, 0, 2, 1), value=9), np.pad(x, [(2, 1), (1, 0)], constant_values=9)
    )
    close(F.pad(lm.asarray(x), (-1, 1)), np.pad(x[:, 1:], [(0, 0), (0, 1)]))
    with pytest.raises(OptionError, match="pairs"):
        F.pad(lm.asarray(x), (1,))


def whiten(x: np.ndarray, axes: tuple[int, ...], eps: float = 1e-5) -> np.ndarray:
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + eps)


def test_layer_rms_and_group_norm() -> None:
    x = RNG.standard_normal((2, 4, 6)) * 3 + 100
    w, b = RNG.standard_normal(6), RNG.standard_normal(6)
    close(
        F.layer_norm(lm.asarray(x), 6, lm.asarray(w), lm.asarray(b)), whiten(x, (2,)) * w + b, 1e-8
    )
    close(F.layer_norm(lm.asarray(x), (4, 6)), whiten(x, (1, 2)), 1e-8)
    close(
        F.rms_norm(lm.asarray(x), 6, lm.asarray(w), 1e-6),
        x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-6) * w,
    )
    c = RNG.standard_normal(4)
    expected = whiten(x.reshape(2, 2, 12), (2,)).reshape(x.shape) * c[:, None] + 1
    close(
        F.group_norm(lm.asarray(x), 2, lm.asarray(c), lm.ones(4, dtype=lm.float64)), expected, 1e-8
    )
    check_gradient(lambda t: F.layer_norm(t, 6), x - 100)
    check_gradient(lambda t: F.rms_norm(t, 6), x - 100)
    check_gradient(lambda t: F.group_norm(t, 2), x - 100)
    with pytest.raises(ShapeError, match="normalized_shape"):
        F.layer_norm(lm.asarray(x), 5)
    with pytest.raises(ShapeError, match="3 groups"):
        F.group_norm(lm.asarray(x), 3)


def test_large_means_lose_nothing() -> None:
    x = (RNG.standard_normal((4, 64)) + 3e4).astype(np.float32)
    found = F.layer_norm(lm.asarray(x), 64).numpy()
    np.testing.assert_allclose(found, whiten(x.astype(np.float64), (1,)), atol=5e-3)


def test_batch_norm_in_training_and_evaluation() -> None:
    x = RNG.standard_normal((4, 3, 5)) * 2 + 1
    w, b = lm.asarray(RNG.standard_normal(3)), lm.asarray(RNG.standard_normal(3))
    mean, var = lm.zeros(3, dtype=lm.float64), lm.ones(3, dtype=lm.float64)
    y = F.batch_norm(lm.asarray(x), mean, var, w, b, training=True, momentum=0.2)
    close(y, whiten(x, (0, 2)) * w.numpy()[:, None] + b.numpy()[:, None], 1e-8)
    close(mean, 0.2 * x.mean((0, 2)))
    close(var, 0.8 + 0.2 * x.var((0, 2), ddof=1))
    y = F.batch_norm(lm.asarray(x), mean, var)
    scale = np.sqrt(var.numpy() + 1e-5)[:, None]
    close(y, (x - mean.numpy()[:, None]) / scale)
    check_gradient(lambda t: F.batch_norm(t, None, None, w, b, training=True), x)
    with pytest.raises(OptionError, match="one value a channel"):
        F.batch_norm(lm.ones((1, 3)), None, None, training=True)
    with pytest.raises(ShapeError, match="3 channels"):
        F.batch_norm(lm.ones((2, 4)), mean, var)


def test_half_precision_norms_compute_in_float32() -> None:
    x = (RNG.standard_normal((2, 256)) * 10 + 300).astype(np.float16)
    found = F.layer_norm(lm.asarray(x), 256)
    assert found.dtype is lm.float16
    np.testing.assert_allclose(found.numpy(), whiten(x.astype(np.float64), (1,)), atol=3e-3)
