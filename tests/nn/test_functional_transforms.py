"""Every function under every transformation: ``jit`` and ``vmap`` give what plain calls give, and
forward and second derivatives agree with differences of first ones.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import lamella as lm
from lamella import nn
from tests.nn.helpers import numeric_gradient

F = nn.functional
RNG = np.random.default_rng(5)
LABELS = lm.asarray([2, 0, 1])
SIGNS = lm.asarray([[1.0, -1.0, 1.0, -1.0, 1.0]] * 3, dtype=lm.float64)
SHARES = lm.asarray(RNG.uniform(0.1, 0.9, (3, 5)))
OTHER = lm.asarray(RNG.standard_normal((3, 5)))
TABLE = lm.asarray(RNG.standard_normal((4, 2)))
GRID = lm.asarray(RNG.uniform(-1.3, 1.3, (1, 3, 4, 2)))
IMAGE = lm.asarray(np.arange(12.0).reshape(1, 1, 3, 4) ** 1.5)
SEVERAL = lm.asarray([[1, 3, -1, 0, 0], [2, -1, 1, 1, 1], [0, 1, 2, 3, 4]])
LENGTHS = lm.asarray([3]), lm.asarray([2])
Function = Callable[[lm.Tensor], lm.Tensor]

CASES: dict[str, tuple[Function, tuple[int, ...]]] = {
    "celu": (lambda x: F.celu(x, 0.7), (3, 5)),
    "softsign": (F.softsign, (3, 5)),
    "tanhshrink": (F.tanhshrink, (3, 5)),
    "hardshrink": (F.hardshrink, (3, 5)),
    "softshrink": (F.softshrink, (3, 5)),
    "hardtanh": (F.hardtanh, (3, 5)),
    "threshold": (lambda x: F.threshold(x, 0.1, 3.0), (3, 5)),
    "prelu": (lambda x: F.prelu(x, lm.asarray([0.2, 0.3, 0.4], dtype=lm.float64)), (2, 3)),
    "rrelu": (F.rrelu, (3, 5)),
    "glu": (lambda x: F.glu(x, 1), (3, 4)),
    "softmin": (lambda x: F.softmin(x, 0), (3, 5)),
    "bilinear": (lambda x: F.bilinear(x, x, lm.ones((2, 5, 5), dtype=lm.float64)), (3, 5)),
    "embedding of weights": (lambda w: F.embedding(LABELS, w), (4, 2)),
    "embedding_bag of weights": (
        lambda w: F.embedding_bag(lm.asarray([1, 2, 0]), w, lm.asarray([0, 2])), (4, 2),
    ),
    "embedding_bag max": (
        lambda w: F.embedding_bag(lm.asarray([1, 2, 0]), w, lm.asarray([0, 2]), mode="max"), (4, 2),
    ),
    "normalize": (F.normalize, (3, 5)),
    "cosine_similarity": (lambda x: F.cosine_similarity(x, OTHER), (3, 5)),
    "pairwise_distance": (lambda x: F.pairwise_distance(x, OTHER, 3.0), (3, 5)),
    "cdist": (lambda x: F.cdist(x, OTHER), (3, 5)),
    "pdist": (F.pdist, (4, 3)),
    "mse_loss": (lambda x: F.mse_loss(x, OTHER, weight=SHARES), (3, 5)),
    "huber_loss": (lambda x: F.huber_loss(x, OTHER, delta=0.8), (3, 5)),
    "bce with logits": (
        lambda x: F.binary_cross_entropy_with_logits(x, SHARES, pos_weight=SHARES), (3, 5),
    ),
    "kl_div": (lambda x: F.kl_div(x, SHARES, "batchmean"), (3, 5)),
    "poisson_nll_loss": (lambda x: F.poisson_nll_loss(x, SHARES, full=True), (3, 5)),
    "gaussian_nll_loss": (lambda x: F.gaussian_nll_loss(x, OTHER, SHARES), (3, 5)),
    "soft_margin_loss": (lambda x: F.soft_margin_loss(x, SIGNS), (3, 5)),
    "hinge_embedding_loss": (lambda x: F.hinge_embedding_loss(x, SIGNS), (3, 5)),
    "margin_ranking_loss": (lambda x: F.margin_ranking_loss(x, OTHER, SIGNS, 0.2), (3, 5)),
    "cosine_embedding_loss": (lambda x: F.cosine_embedding_loss(x, OTHER, SIGNS[0, :3]), (3, 5)),
    "triplet_margin_loss": (lambda x: F.triplet_margin_loss(x, OTHER, -OTHER), (3, 5)),
    "cross_entropy": (lambda x: F.cross_entropy(x, LABELS, label_smoothing=0.1), (3, 5)),
    "multi_margin_loss": (lambda x: F.multi_margin_loss(x, LABELS, 2), (3, 5)),
    "multilabel_margin_loss": (lambda x: F.multilabel_margin_loss(x, SEVERAL), (3, 5)),
    "multilabel_soft_margin_loss": (lambda x: F.multilabel_soft_margin_loss(x, SHARES), (3, 5)),
    "ctc_loss": (
        lambda x: F.ctc_loss(F.log_softmax(x, -1), lm.asarray([[1, 2]]), *LENGTHS), (3, 1, 4),
    ),
    "instance_norm": (F.instance_norm, (2, 2, 4)),
    "local_response_norm": (lambda x: F.local_response_norm(x, 3, alpha=0.5), (1, 4, 2)),
    "max_pool2d": (lambda x: F.max_pool2d(x, 3, 2, 1), (1, 2, 5, 4)),
    "max_pool2d and indices": (
        lambda x: F.max_pool2d(x, 3, 2, 1, return_indices=True)[0], (1, 2, 5, 4),
    ),
    "avg_pool2d": (lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True), (1, 2, 5, 4)),
    "lp_pool2d": (lambda x: F.lp_pool2d(x, 2, 2), (1, 2, 4, 4)),
    "adaptive_avg_pool2d": (lambda x: F.adaptive_avg_pool2d(x, 3), (1, 2, 5, 4)),
    "adaptive_max_pool2d": (lambda x: F.adaptive_max_pool2d(x, 3), (1, 2, 5, 4)),
    "fractional_max_pool2d": (
        lambda x: F.fractional_max_pool2d(x, 2, 3, _random_samples=SHARES[None, :2, :2]),
        (1, 2, 5, 6),
    ),
    "max_unpool1d": (
        lambda x: F.max_unpool1d(x, lm.asarray([[[1, 2]]]), 2), (1, 1, 2),
    ),
    "pad": (lambda x: F.pad(x, (1, 2), mode="reflect"), (2, 3, 4)),
    "pixel_shuffle": (lambda x: F.pixel_shuffle(x, 2), (4, 2, 3)),
    "pixel_unshuffle": (lambda x: F.pixel_unshuffle(x, 2), (1, 4, 6)),
    "channel_shuffle": (lambda x: F.channel_shuffle(x, 2), (1, 4, 2)),
    "unfold": (lambda x: F.unfold(x, 2, padding=1, stride=2), (1, 2, 4, 3)),
    "fold": (lambda x: F.fold(x, (3, 4), 2), (1, 8, 6)),
    "interpolate linear": (lambda x: F.interpolate(x, 7, mode="linear"), (1, 2, 4)),
    "interpolate bicubic": (lambda x: F.interpolate(x, (5, 3), mode="bicubic"), (1, 1, 4, 4)),
    "interpolate antialiased": (
        lambda x: F.interpolate(x, 2, mode="bilinear", antialias=True), (1, 1, 4, 5),
    ),
    "interpolate nearest": (lambda x: F.interpolate(x, scale_factor=1.5), (1, 2, 4)),
    "grid_sample": (lambda x: F.grid_sample(x, GRID, padding_mode="border"), (1, 2, 4, 5)),
    "grid_sample bicubic": (lambda x: F.grid_sample(x, GRID, "bicubic"), (1, 2, 4, 5)),
    "grid_sample of grids": (
        lambda g: F.grid_sample(IMAGE, g), (1, 2, 2, 2),
    ),
    "affine_grid": (lambda t: F.affine_grid(t, (1, 1, 2, 3)), (1, 2, 3)),
}  # fmt: skip


def draw(shape: tuple[int, ...]) -> np.ndarray:
    """Numbers apart from each other and from where pieces of functions meet."""
    size = int(np.prod(shape))
    spread = (np.arange(size) + 0.31) / size * 2.2 - 1.09
    return np.random.default_rng(size).permutation(spread).reshape(shape)


@pytest.mark.parametrize("name", CASES)
def test_jit_and_vmap(name: str) -> None:
    function, shape = CASES[name]
    xs = np.stack([draw(shape), draw(shape)[::-1], draw(shape) * 0.5])
    wanted = np.stack([function(lm.asarray(x)).numpy() for x in xs])
    found = lm.vmap(function)(lm.asarray(xs)).numpy()
    np.testing.assert_allclose(found, wanted, rtol=1e-10, atol=1e-12)
    compiled = lm.jit(function)
    for x, y in zip(xs, wanted, strict=True):
        np.testing.assert_allclose(compiled(lm.asarray(x)).numpy(), y, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", CASES)
def test_derivatives(name: str) -> None:
    function, shape = CASES[name]
    x = draw(shape)
    weights = np.random.default_rng(1).standard_normal(function(lm.asarray(x)).shape)

    def scalar(x: lm.Tensor) -> lm.Tensor:
        return lm.sum(function(x) ** 2 * lm.asarray(weights))

    first = lm.grad(scalar)
    direction = np.random.default_rng(2).standard_normal(shape)

    def along(x: lm.Tensor) -> lm.Tensor:
        return lm.sum(first(x) * lm.asarray(direction))

    np.testing.assert_allclose(
        first(lm.asarray(x)).numpy(),
        numeric_gradient(lambda a: scalar(lm.asarray(a)).item(), x, 1e-6),
        rtol=2e-5, atol=1e-6,
    )  # fmt: skip
    _, tangent = lm.jvp(scalar, (lm.asarray(x),), (lm.asarray(direction),))
    np.testing.assert_allclose(tangent.item(), along(lm.asarray(x)).item(), rtol=1e-8, atol=1e-10)
    step = 1e-5 * direction
    moved = [first(lm.asarray(x + sign * step)).numpy() for sign in (1, -1)]
    np.testing.assert_allclose(
        lm.grad(along)(lm.asarray(x)).numpy(), (moved[0] - moved[1]) / 2e-5, rtol=1e-4, atol=1e-5
    )


DYNAMIC: dict[str, tuple[Function, int, tuple[int, ...]]] = {
    "max_pool2d": (lambda x: F.max_pool2d(x, 3, 2, 1), 0, (4, 6, 6)),
    "max_pool2d of any height": (lambda x: F.max_pool2d(x, 3, 2, 1), 2, (4, 6, 6)),
    "avg_pool2d of any height": (lambda x: F.avg_pool2d(x, 2), 2, (4, 6, 6)),
    "adaptive_max_pool2d": (lambda x: F.adaptive_max_pool2d(x, 4), 0, (4, 6, 6)),
    "interpolate": (
        lambda x: F.interpolate(x, scale_factor=1.5, mode="bilinear"), 0, (4, 6, 6),
    ),
    "unfold of any height": (lambda x: F.unfold(x, 2), 2, (4, 6, 6)),
    "cross_entropy": (
        lambda x: F.cross_entropy(x, lm.zeros(x.shape[0], dtype=lm.int64)), 0, (4,),
    ),
    "local_response_norm": (lambda x: F.local_response_norm(x, 2), 2, (4, 6, 6)),
}  # fmt: skip


@pytest.mark.parametrize("name", DYNAMIC)
def test_sizes_that_change(name: str) -> None:
    function, axis, rest = DYNAMIC[name]
    gradient = lm.grad(lambda x: lm.sum(function(x) ** 2))

    def both(x: lm.Tensor) -> tuple[lm.Tensor, lm.Tensor]:
        return function(x), gradient(x)

    compiled = lm.jit(both, dynamic={"x": {axis: "n"}})
    for size in (6, 9, 5):
        shape = [3, *rest]
        shape[axis] = size
        x = lm.asarray(draw(tuple(shape)))
        for found, wanted in zip(compiled(x), both(x), strict=True):
            np.testing.assert_allclose(found.numpy(), wanted.numpy(), rtol=1e-9, atol=1e-12)


def test_a_size_that_must_be_known_is_named() -> None:
    resize = lm.jit(lambda x: F.interpolate(x, scale_factor=2), dynamic={"x": {2: "height"}})
    with pytest.raises(lm.errors.ShapeError, match="height is known only when the program runs"):
        resize(lm.ones((1, 2, 4, 4)))
