"""Functions against references of their own: definitions written out in NumPy, SciPy, enumeration,
and properties that hold for any input.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import ndimage, special
from scipy.spatial import distance

import lamella as lm
from lamella import nn

F = nn.functional
RNG = np.random.default_rng(3)


def close(found: lm.Tensor, expected: Any, tol: float = 1e-9) -> None:
    expected = np.asarray(expected)
    assert tuple(found.shape) == expected.shape
    np.testing.assert_allclose(found.numpy(), expected, rtol=tol, atol=tol)


def test_activations() -> None:
    x = np.linspace(-3, 3, 25)
    t = lm.asarray(x)
    close(F.celu(t, 0.5), np.where(x > 0, x, 0.5 * np.expm1(x / 0.5)))
    close(F.softsign(t), x / (1 + abs(x)))
    close(F.tanhshrink(t), x - np.tanh(x))
    close(F.hardtanh(t, -1, 2), np.clip(x, -1, 2))
    close(F.hardshrink(t), np.where(abs(x) > 0.5, x, 0))
    close(F.softshrink(t), np.sign(x) * np.maximum(abs(x) - 0.5, 0))
    close(F.threshold(t, 0.3, -7.0), np.where(x > 0.3, x, -7))
    close(F.logsigmoid(t), special.log_expit(x))
    close(F.softmin(t, 0), special.softmax(-x))
    close(F.prelu(t, lm.asarray(0.2, dtype=lm.float64)), np.where(x > 0, x, 0.2 * x))
    assert np.isnan(F.hardtanh(lm.asarray([np.nan])).item())
    assert np.isnan(F.softshrink(lm.asarray([np.nan])).item())


def test_distances() -> None:
    x, y = RNG.standard_normal((5, 4)), RNG.standard_normal((3, 4))
    for p in (1.0, 2.0, 3.5, np.inf):
        close(F.cdist(lm.asarray(x), lm.asarray(y), p), distance.cdist(x, y, "minkowski", p=p))
        close(F.pdist(lm.asarray(x), p), distance.pdist(x, "minkowski", p=p))
    close(F.pdist(lm.asarray(x), 0), [4.0] * 10)
    cosine = 1 - distance.cdist(x, y, "cosine")
    close(F.cosine_similarity(lm.asarray(x)[:, None], lm.asarray(y), dim=-1), cosine)
    assert tuple(F.pdist(lm.ones((1, 4))).shape) == (0,)


def test_norms_of_zero_vectors_have_no_nan_gradient() -> None:
    for function in (F.normalize, lambda x: F.cdist(x, x), lambda x: F.pdist(x)):
        x = lm.zeros((2, 3)).requires_grad_()
        lm.sum(function(x)).backward()
        assert np.isfinite(x.grad.numpy()).all()


def test_likelihoods() -> None:
    x, var, target = RNG.standard_normal(6), RNG.uniform(0.5, 2, 6), RNG.standard_normal(6)
    wanted = 0.5 * (np.log(2 * np.pi * var) + (x - target) ** 2 / var)
    found = F.gaussian_nll_loss(
        lm.asarray(x), lm.asarray(target), lm.asarray(var), full=True, reduction="none"
    )
    close(found, wanted)
    assert np.isnan(F.gaussian_nll_loss(lm.ones(1), lm.ones(1), lm.asarray([-1.0])).item())
    count = np.array([0.0, 1.0, 2.0, 7.0])
    found = F.poisson_nll_loss(lm.asarray(x[:4]), lm.asarray(count), full=True, reduction="none")
    exact = np.exp(x[:4]) - count * x[:4] + special.gammaln(count + 1)
    np.testing.assert_allclose(found.numpy(), exact, atol=0.09)  # Stirling's formula


def test_losses_of_large_scores_stay_finite() -> None:
    x = lm.tensor([-1e4, 1e4], requires_grad=True)
    target = lm.asarray([1.0, 0.0])
    loss = F.binary_cross_entropy_with_logits(x, target, reduction="sum")
    loss.backward()
    assert loss.item() == 2e4
    assert x.grad.tolist() == [-1.0, 1.0]
    assert F.soft_margin_loss(x, lm.asarray([1.0, -1.0])).item() == 1e4
    tiny = F.binary_cross_entropy_with_logits(
        lm.asarray([-40.0], dtype=lm.float64), lm.zeros(1, dtype=lm.float64)
    )
    np.testing.assert_allclose(tiny.item(), np.exp(-40.0), rtol=1e-12)


def spelled(path: tuple[int, ...], blank: int) -> list[int]:
    """What a path of frames spells: repetitions joined, blanks left out."""
    return [c for c, _ in itertools.groupby(path) if c != blank]


@pytest.mark.parametrize("target", [[], [1], [1, 1], [1, 2], [2, 1, 2], [1, 1, 1]])
def test_ctc_sums_over_all_paths(target: list[int]) -> None:
    shares = RNG.dirichlet(np.ones(3), 4)
    total = sum(
        np.prod([shares[t, c] for t, c in enumerate(path)])
        for path in itertools.product(range(3), repeat=4)
        if spelled(path, 0) == target
    )
    logs = lm.asarray(np.log(shares))[:, None]
    labels = np.array([target + [0] * (3 - len(target))])
    options: dict[str, Any] = {"reduction": "sum"}
    lengths = (lm.asarray([4]), lm.asarray([len(target)]))
    found = F.ctc_loss(logs, lm.asarray(labels), *lengths, **options).item()
    np.testing.assert_allclose(found, -np.log(total) if total else np.inf, rtol=1e-9)
    if not total:
        logs = logs.detach().requires_grad_()
        loss = F.ctc_loss(logs, lm.asarray(labels), *lengths, zero_infinity=True, **options)
        loss.backward()
        assert loss.item() == 0
        assert not logs.grad.numpy().any()


def test_ctc_counts_frames_and_batches_apart() -> None:
    logs = np.log(RNG.dirichlet(np.ones(4), (6, 3)))
    labels, lengths = np.array([[1, 2, 0], [3, 3, 1], [2, 0, 0]]), np.array([2, 3, 1])
    frames = np.array([6, 5, 3])
    whole = F.ctc_loss(
        lm.asarray(logs), lm.asarray(labels), lm.asarray(frames), lm.asarray(lengths),
        reduction="none",
    )  # fmt: skip
    for n in range(3):
        one = F.ctc_loss(
            lm.asarray(logs[: frames[n], n]), lm.asarray(labels[n, : lengths[n]]),
            lm.asarray(frames[n]), lm.asarray(lengths[n]), reduction="none",
        )  # fmt: skip
        np.testing.assert_allclose(whole.numpy()[n], one.item(), rtol=1e-12)


def test_ctc_of_wrong_input() -> None:
    logs, one = lm.log(lm.full((4, 2, 3), 1 / 3)), lm.asarray([1, 1])
    labels = lm.asarray([[1], [2]])
    with pytest.raises(lm.errors.ShapeError, match="from 1 to 9"):
        F.ctc_loss(logs, labels, lm.asarray([1, 9]), one)
    with pytest.raises(lm.errors.ShapeError, match="add up to 2"):
        F.ctc_loss(logs, lm.asarray([1, 2, 1]), lm.asarray([4, 4]), one)
    with pytest.raises(lm.errors.OptionError, match="blank=3"):
        F.ctc_loss(logs, labels, lm.asarray([4, 4]), one, blank=3)
    with pytest.raises(lm.errors.DTypeError, match="float"):
        F.ctc_loss(logs, labels * 1.0, lm.asarray([4, 4]), one)
    with pytest.raises(lm.errors.ShapeError, match="no frames"):
        F.ctc_loss(logs[:0], labels, lm.asarray([0, 0]), one)
    with pytest.raises(IndexError):
        F.ctc_loss(logs, labels + 2, lm.asarray([4, 4]), one).numpy()


@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular"])
def test_padding(mode: str) -> None:
    x = RNG.standard_normal((2, 3, 4, 5))
    numpy_mode = {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}[mode]
    close(
        F.pad(lm.asarray(x), (2, 1, 0, 3), mode=mode),
        np.pad(x, [(0, 0), (0, 0), (0, 3), (2, 1)], mode=numpy_mode),
    )


def test_pooling_by_definition() -> None:
    x = RNG.standard_normal((2, 3, 7, 6))
    values, places = F.max_pool2d(lm.asarray(x), 3, 2, 1, return_indices=True)
    close(values, F.max_pool2d(lm.asarray(x), 3, 2, 1).numpy())
    flat = x.reshape(2, 3, 42)
    picked = np.take_along_axis(flat, places.numpy().reshape(2, 3, -1), -1)
    close(values, picked.reshape(values.shape))
    values, places = F.adaptive_max_pool2d(lm.asarray(x), (3, 4), return_indices=True)
    for i, j in np.ndindex(3, 4):
        rows = slice(i * 7 // 3, -(-(i + 1) * 7 // 3))
        columns = slice(j * 6 // 4, -(-(j + 1) * 6 // 4))
        close(values[..., i, j], x[..., rows, columns].max((-2, -1)))
    seen = np.lib.stride_tricks.sliding_window_view(np.abs(x), (2, 2), axis=(-2, -1))
    close(F.lp_pool2d(lm.asarray(np.abs(x)), 3, 2, 1), (seen**3).sum((-2, -1)) ** (1 / 3))


def test_the_first_of_equal_maxima_has_the_gradient() -> None:
    for kernel, options in ((2, {}), (3, {"stride": 1, "padding": 1}), (7, {"padding": 3})):
        x = lm.zeros((1, 1, 8, 8)).requires_grad_()
        y = F.max_pool2d(x, kernel, **options)
        _, places = F.max_pool2d(x, kernel, **options, return_indices=True)
        y.sum().backward()
        wanted = np.bincount(places.numpy().ravel(), minlength=64).reshape(1, 1, 8, 8)
        close(x.grad, wanted)
        with lm.no_grad():
            close(F.max_pool2d(x, kernel, **options), y.numpy())
    hole = lm.asarray([[[-np.inf, -np.inf, np.nan, 1.0]]])
    values, places = F.max_pool1d(hole, 2, return_indices=True)
    assert places.tolist() == [[[0, 2]]]
    assert np.isneginf(values.numpy()[0, 0, 0]) and np.isnan(values.numpy()[0, 0, 1])


def test_fractional_pooling_draws_windows() -> None:
    lm.manual_seed(1)
    x = lm.asarray(RNG.standard_normal((1, 2, 9, 9)))
    values, places = F.fractional_max_pool2d(x, 2, 5, return_indices=True)
    assert tuple(values.shape) == (1, 2, 5, 5)
    close(values[0], np.take_along_axis(
        x.numpy().reshape(2, 81), places.numpy().reshape(2, 25), -1).reshape(2, 5, 5))  # fmt: skip
    other = F.fractional_max_pool2d(x, 2, 5)
    assert not np.array_equal(values.numpy(), other.numpy())
    with pytest.raises(lm.errors.OptionError, match="either"):
        F.fractional_max_pool2d(x, 2)


def test_unpooling_is_the_inverse_on_maxima() -> None:
    x = lm.asarray(RNG.standard_normal((2, 3, 6, 8)))
    values, places = F.max_pool2d(x, 2, return_indices=True)
    back = F.max_unpool2d(values, places, 2)
    close(F.max_pool2d(lm.abs(back), 2), np.abs(values.numpy()))
    assert np.count_nonzero(back.numpy()) == values.numpy().size
    with pytest.raises(IndexError):
        F.max_unpool2d(values, places + 48, 2).numpy()


@settings(max_examples=20, deadline=None)
@given(
    kernel=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    stride=st.tuples(st.integers(1, 3), st.integers(1, 2)),
    padding=st.tuples(st.integers(0, 2), st.integers(0, 1)),
    dilation=st.tuples(st.integers(1, 2), st.integers(1, 2)),
)
def test_fold_is_the_transpose_of_unfold(
    kernel: tuple[int, int], stride: tuple[int, int], padding: tuple[int, int],
    dilation: tuple[int, int],
) -> None:  # fmt: skip
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2, 3, 6, 7))
    columns = F.unfold(lm.asarray(x), kernel, dilation, padding, stride)
    y = rng.standard_normal(columns.shape)
    folded = F.fold(lm.asarray(y), (6, 7), kernel, dilation, padding, stride)
    np.testing.assert_allclose((columns.numpy() * y).sum(), (folded.numpy() * x).sum(), rtol=1e-9)


def test_unfold_and_shuffles_by_definition() -> None:
    x = RNG.standard_normal((2, 3, 4, 5))
    seen = np.lib.stride_tricks.sliding_window_view(x, (2, 3), axis=(-2, -1))
    close(F.unfold(lm.asarray(x), (2, 3)), seen.transpose(0, 1, 4, 5, 2, 3).reshape(2, 18, 9))
    y = RNG.standard_normal((2, 12, 3, 4))
    shuffled = F.pixel_shuffle(lm.asarray(y), 2)
    for i, j in np.ndindex(2, 2):
        close(shuffled[:, :, i::2, j::2], y[:, 2 * i + j :: 4])
    close(F.pixel_unshuffle(shuffled, 2), y)
    close(F.channel_shuffle(lm.asarray(y), 3)[:, 1], y[:, 4])


def test_interpolation_with_aligned_corners_is_what_scipy_does() -> None:
    x = RNG.standard_normal((5, 6))
    found = F.interpolate(
        lm.asarray(x)[None, None], (9, 11), mode="bilinear", align_corners=True
    )[0, 0]  # fmt: skip
    rows, columns = np.meshgrid(np.linspace(0, 4, 9), np.linspace(0, 5, 11), indexing="ij")
    close(found, ndimage.map_coordinates(x, [rows, columns], order=1))


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact", "area", "bilinear", "bicubic"])
def test_interpolation_keeps_constants_and_sizes(mode: str) -> None:
    x = lm.full((1, 2, 5, 4), 3.0, dtype=lm.float64)
    for size in ((5, 4), (10, 8), (3, 7), (1, 1)):
        close(F.interpolate(x, size, mode=mode), np.full((1, 2, *size), 3.0))
    y = lm.asarray(RNG.standard_normal((1, 2, 5, 4)))
    close(F.interpolate(y, (5, 4), mode=mode), y.numpy())


def test_grid_sampling_by_scipy() -> None:
    x, grid = RNG.standard_normal((1, 1, 5, 6)), RNG.uniform(-1.4, 1.4, (1, 7, 8, 2))
    columns, rows = ((grid[0, ..., 0] + 1) * 6 - 1) / 2, ((grid[0, ..., 1] + 1) * 5 - 1) / 2
    for padding_mode, theirs in (("border", "nearest"), ("zeros", "grid-constant")):
        found = F.grid_sample(lm.asarray(x), lm.asarray(grid), padding_mode=padding_mode)
        wanted = ndimage.map_coordinates(x[0, 0], [rows, columns], order=1, mode=theirs)
        close(found[0, 0], wanted)
    identity = F.affine_grid(lm.asarray([[[1.0, 0, 0], [0, 1, 0]]], dtype=lm.float64), (1, 1, 5, 6))
    close(F.grid_sample(lm.asarray(x), identity), x)
    close(F.grid_sample(lm.asarray(x), identity * -1), x[..., ::-1, ::-1])
    assert np.isfinite(F.grid_sample(lm.asarray(x), lm.full((1, 1, 1, 2), 1e30)).numpy()).all()
    F.grid_sample(lm.asarray(x), lm.full((1, 1, 1, 2), np.nan)).numpy()


def test_embedding_bags_by_definition() -> None:
    table, index = RNG.standard_normal((6, 3)), np.array([0, 5, 2, 2, 4])
    starts, ends = [0, 2, 2], [2, 2, 5]
    for mode, reduce in (("sum", np.sum), ("mean", np.mean), ("max", np.max)):
        wanted = [
            reduce(table[index[a:b]], axis=0) if b > a else np.zeros(3)
            for a, b in zip(starts, ends, strict=True)
        ]
        options: dict[str, Any] = {"mode": mode}
        close(F.embedding_bag(index, lm.asarray(table), lm.asarray(starts), **options), wanted)
    with pytest.raises(IndexError):
        F.embedding_bag(lm.asarray([7]), lm.asarray(table), lm.asarray([0])).numpy()
    with pytest.raises(IndexError):
        F.one_hot(lm.asarray([3]), 3).numpy()


def test_random_functions() -> None:
    lm.manual_seed(0)
    x = lm.asarray(RNG.standard_normal(40_000).astype(np.float32))
    y = F.alpha_dropout(x, 0.3, training=True).numpy()
    assert abs(y.mean()) < 0.03 and abs(y.std() - 1) < 0.03
    slopes = (F.rrelu(x, 0.1, 0.4, training=True) / x).numpy()[x.numpy() < 0]
    assert slopes.min() >= 0.0999 and slopes.max() <= 0.4001 and abs(slopes.mean() - 0.25) < 0.01
    z = F.dropout2d(lm.ones((100, 50, 2, 2)), 0.4).numpy()
    assert (z == z[..., :1, :1]).all() and abs((z == 0).mean() - 0.4) < 0.03
    kept = F.dropout1d(lm.ones((50, 3)), 0.4).numpy()
    assert (kept == kept[:, :1]).all()
    logits = lm.asarray(np.log([0.2, 0.3, 0.5]).astype(np.float32))
    drawn = F.gumbel_softmax(lm.broadcast_to(logits, (20_000, 3)), hard=True).numpy()
    assert set(np.unique(drawn)) == {0.0, 1.0}
    np.testing.assert_allclose(drawn.mean(0), [0.2, 0.3, 0.5], atol=0.02)
    soft = lm.zeros(3).requires_grad_()
    (F.gumbel_softmax(soft, hard=True) * lm.arange(3.0)).sum().backward()
    assert np.isfinite(soft.grad.numpy()).all() and soft.grad.numpy().any()


def test_in_place_the_tensor_stands_for_the_result() -> None:
    for function in (F.relu, F.silu, F.hardtanh, F.elu, F.dropout):
        x = lm.asarray([-3.0, 2.0]) * 1
        y = function(x, inplace=True)
        assert y is x
    x = lm.asarray([-3.0, 2.0])
    nn.ReLU(inplace=True)(x)
    assert x.tolist() == [0.0, 2.0]
    leaf = lm.tensor([-3.0], requires_grad=True)
    middle = leaf * 2
    F.relu_(middle)
    middle.sum().backward()
    assert leaf.grad.tolist() == [0.0]
    with pytest.raises(lm.errors.GradientError):
        F.relu_(leaf)
    with pytest.raises(lm.errors.OptionError, match="inplace"):
        F.relu(np.ones(2), inplace=True)


def test_in_place_layers_under_transformations() -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.ReLU(inplace=True), nn.Linear(3, 2))
    x = lm.asarray(RNG.standard_normal((4, 3)).astype(np.float32))
    wanted = model(x).detach().numpy()
    for transformed in (lm.jit(model), lm.vmap(model)):
        np.testing.assert_allclose(transformed(x).detach().numpy(), wanted, rtol=1e-5)
    found = lm.grad(lambda x: lm.sum(F.relu(x * 1, inplace=True)))(x)
    np.testing.assert_array_equal(found.numpy(), x.numpy() > 0)


def test_numbers_without_axes() -> None:
    x = lm.tensor(2.0, requires_grad=True)
    for function, value in ((F.softmax, 1.0), (F.log_softmax, 0.0), (F.softmin, 1.0)):
        x.grad = None
        y = function(x, 0)
        y.backward()
        assert (y.shape, y.item(), x.grad.item()) == ((), value, 0.0)
    assert F.mse_loss(x, lm.asarray(1.0)).item() == 1.0
    assert F.relu(x).item() == 2.0


def test_empty_inputs() -> None:
    empty = lm.zeros((0, 3))
    for function in (F.relu, F.hardtanh, F.softmax, F.normalize, F.log_softmax, F.softmin):
        assert tuple(function(empty).shape) == (0, 3)
    assert tuple(F.cdist(empty, lm.ones((2, 3))).shape) == (0, 2)
    assert tuple(F.max_pool1d(lm.zeros((0, 2, 4)), 2).shape) == (0, 2, 2)
    assert tuple(F.interpolate(lm.zeros((0, 2, 4)), 8).shape) == (0, 2, 8)
    assert tuple(F.pixel_shuffle(lm.zeros((0, 4, 1, 1)), 2).shape) == (0, 1, 2, 2)
    assert np.isnan(F.mse_loss(empty, empty).item())
    assert F.l1_loss(empty, empty, "sum").item() == 0
