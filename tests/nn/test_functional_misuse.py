"""Wrong shapes, dtypes and options of functions raise at the call and name the function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lamella as lm
from lamella import nn
from lamella.errors import AxisError, DTypeError, LamellaIndexError, OptionError, ShapeError

F = nn.functional
IMAGE, ROW = lm.ones((1, 2, 4, 4)), lm.ones((3, 5))
WHOLE = lm.asarray([[1, 2], [3, 4]])

CASES: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "glu odd": (lambda: F.glu(ROW), ShapeError, r"\[glu\].*odd"),
    "glu axis": (lambda: F.glu(ROW, 2), AxisError, r"\[glu\] axis 2"),
    "softmax axis": (lambda: F.softmax(ROW, -3), AxisError, r"\[softmax\] axis -3"),
    "log_softmax axis": (lambda: F.log_softmax(ROW, 1.0), DTypeError, r"\[log_softmax\] axis 1.0"),
    "celu 0": (lambda: F.celu(ROW, 0.0), OptionError, r"\[celu\] alpha=0"),
    "hardtanh": (lambda: F.hardtanh(ROW, 2, 1), OptionError, r"\[hardtanh\]"),
    "rrelu": (lambda: F.rrelu(ROW, 0.5, 0.1), OptionError, r"\[rrelu\]"),
    "softshrink": (lambda: F.softshrink(ROW, -1.0), OptionError, r"\[softshrink\]"),
    "prelu": (lambda: F.prelu(ROW, lm.ones(4)), ShapeError, r"\[prelu\].*5 channels"),
    "gumbel": (lambda: F.gumbel_softmax(ROW, 0.0), OptionError, r"\[gumbel_softmax\] tau"),
    "dropout": (lambda: F.alpha_dropout(ROW, 2.0), OptionError, r"\[alpha_dropout\] p=2"),
    "dropout2d": (lambda: F.dropout2d(ROW), ShapeError, r"\[dropout2d\]"),
    "bilinear": (
        lambda: F.bilinear(ROW, ROW, lm.ones((2, 5, 4))), ShapeError, r"\[bilinear\].*\(2, 5, 4\)",
    ),
    "embedding table": (lambda: F.embedding(WHOLE, lm.ones(3)), ShapeError, r"\[embedding\]"),
    "bag offsets": (
        lambda: F.embedding_bag(lm.asarray([1, 2]), ROW), ShapeError, r"\[embedding_bag\].*without",
    ),
    "bag mode": (
        lambda: F.embedding_bag(WHOLE, ROW, mode="men"), OptionError, "did you mean 'mean'",
    ),
    "bag weights": (
        lambda: F.embedding_bag(WHOLE, ROW, per_sample_weights=lm.ones((2, 2))),
        OptionError, "mode='sum'",
    ),
    "bag padding": (
        lambda: F.embedding_bag(WHOLE, ROW, padding_idx=3), LamellaIndexError, "padding_idx=3",
    ),
    "one_hot": (lambda: F.one_hot(ROW), DTypeError, r"\[one_hot\]"),
    "batch statistics": (
        lambda: F.batch_norm(ROW, None, None), OptionError,
        r"\[batch_norm\] neither.*training=True",
    ),
    "batch mean alone": (
        lambda: F.batch_norm(ROW, lm.zeros(5), None), OptionError,
        r"running_mean without running_var",
    ),
    "batch variance alone": (
        lambda: F.batch_norm(ROW, None, lm.ones(5), training=True), OptionError,
        r"running_var without running_mean",
    ),
    "instance statistics": (
        lambda: F.instance_norm(IMAGE, use_input_stats=False), OptionError,
        r"\[instance_norm\] neither.*use_input_stats=True",
    ),
    "instance mean alone": (
        lambda: F.instance_norm(IMAGE, lm.zeros(2)), OptionError, r"\[instance_norm\] running_mean",
    ),
    "norm": (lambda: F.normalize(ROW, -1.0), OptionError, "p=-1"),
    "normalize ints": (lambda: F.normalize(WHOLE), DTypeError, r"\[normalize\] got int64"),
    "cdist": (lambda: F.cdist(ROW, lm.ones((3, 4))), ShapeError, r"\[cdist\]"),
    "pdist": (lambda: F.pdist(IMAGE), ShapeError, r"\[pdist\]"),
    "mse": (lambda: F.mse_loss(ROW, ROW[0]), ShapeError, r"\[mse_loss\] shapes"),
    "reduction": (lambda: F.mse_loss(ROW, ROW, "men"), OptionError, "did you mean 'mean'"),
    "huber": (lambda: F.huber_loss(ROW, ROW, delta=0.0), OptionError, r"\[huber_loss\] delta"),
    "smooth": (lambda: F.smooth_l1_loss(ROW, ROW, beta=-1.0), OptionError, r"beta=-1"),
    "gaussian": (lambda: F.gaussian_nll_loss(ROW, ROW, -1.0), OptionError, "negative"),
    "gaussian shape": (
        lambda: F.gaussian_nll_loss(ROW, ROW, lm.ones((3, 2))), ShapeError, r"of shape \(3, 2\)",
    ),
    "smoothing": (
        lambda: F.cross_entropy(ROW, lm.asarray([0, 1, 2]), label_smoothing=2.0),
        OptionError, "label_smoothing=2",
    ),
    "class weight": (
        lambda: F.cross_entropy(ROW, lm.asarray([0, 1, 2]), lm.ones(4)), ShapeError, "5 classes",
    ),
    "margin p": (
        lambda: F.multi_margin_loss(ROW, lm.asarray([0, 1, 2]), 3), OptionError, "p=3",
    ),
    "labels": (lambda: F.multilabel_margin_loss(ROW, ROW), DTypeError, "float32"),
    "ranking": (
        lambda: F.margin_ranking_loss(ROW, ROW, ROW[0]), ShapeError, r"\[margin_ranking_loss\]",
    ),
    "cosine": (
        lambda: F.cosine_embedding_loss(ROW, ROW, ROW), ShapeError, r"\[cosine_embedding_loss\]",
    ),
    "triplet": (lambda: F.triplet_margin_loss(ROW, ROW, ROW, 0.0), OptionError, "margin=0"),
    "instance_norm": (lambda: F.instance_norm(ROW), ShapeError, r"\[instance_norm\]"),
    "instance_norm of points": (
        lambda: F.instance_norm(lm.ones((2, 3, 1))), OptionError, "one value a channel",
    ),
    "lrn": (lambda: F.local_response_norm(IMAGE, 0), OptionError, "size=0"),
    "divisor": (
        lambda: F.avg_pool2d(IMAGE, 2, divisor_override=0), OptionError, r"\[avg_pool2d\]",
    ),
    "lp": (lambda: F.lp_pool2d(IMAGE, 0, 2), OptionError, r"\[lp_pool2d\] norm_type=0"),
    "adaptive": (lambda: F.adaptive_max_pool2d(IMAGE, 0), OptionError, "output_size"),
    "adaptive empty": (
        lambda: F.adaptive_max_pool1d(lm.zeros((1, 1, 0)), 2), ShapeError, "no elements",
    ),
    "fractional": (
        lambda: F.fractional_max_pool2d(IMAGE, 2, 4), ShapeError, r"\[fractional_max_pool2d\]",
    ),
    "fractional ratio": (
        lambda: F.fractional_max_pool2d(IMAGE, 2, output_ratio=1.5), OptionError, "between 0 and 1",
    ),
    "unpool": (
        lambda: F.max_unpool2d(IMAGE, WHOLE, 2), ShapeError, r"\[max_unpool2d\].*\(2, 2\)",
    ),
    "unpool size": (
        lambda: F.max_unpool1d(lm.ones((1, 1, 2)), lm.zeros((1, 1, 2), dtype=lm.int64), 2,
                               output_size=(9,)),
        OptionError, "output_size",
    ),
    "pad mode": (lambda: F.pad(IMAGE, (1, 1), "reflct"), OptionError, "did you mean 'reflect'"),
    "pad far": (lambda: F.pad(IMAGE, (4, 0), "reflect"), ShapeError, "at most 3"),
    "pad value": (lambda: F.pad(IMAGE, (1, 0), "circular", 2.0), OptionError, "no constant"),
    "pad away": (lambda: F.pad(IMAGE, (-3, -2)), ShapeError, "cut off less"),
    "shuffle": (lambda: F.pixel_shuffle(IMAGE, 3), ShapeError, r"\[pixel_shuffle\]"),
    "unshuffle": (lambda: F.pixel_unshuffle(IMAGE, 3), ShapeError, r"\[pixel_unshuffle\]"),
    "channels": (lambda: F.channel_shuffle(IMAGE, 3), ShapeError, r"\[channel_shuffle\]"),
    "factor": (lambda: F.pixel_shuffle(IMAGE, 0), OptionError, "upscale_factor=0"),
    "unfold": (lambda: F.unfold(IMAGE, 5), ShapeError, "larger than the axis"),
    "fold": (lambda: F.fold(lm.ones((1, 4, 5)), (3, 3), 2), ShapeError, r"\[fold\].*2 \* 2"),
    "resize both": (lambda: F.interpolate(IMAGE, 2, 2), OptionError, "either"),
    "resize mode": (lambda: F.interpolate(IMAGE, 2, mode="linear"), OptionError, "2 spatial axes"),
    "resize corners": (lambda: F.interpolate(IMAGE, 2, align_corners=True), OptionError, "nearest"),
    "resize alias": (lambda: F.interpolate(IMAGE, 2, antialias=True), OptionError, "antialias"),
    "resize lanczos": (lambda: F.interpolate(IMAGE, 2, mode="lanczos"), OptionError, "lanczos"),
    "resize to nothing": (lambda: F.interpolate(IMAGE, scale_factor=0.1), OptionError, "size"),
    "resize ints": (
        lambda: F.interpolate(IMAGE.astype(lm.int32), 2, mode="bilinear"), DTypeError, "int32",
    ),
    "resize nothing": (lambda: F.interpolate(lm.zeros((1, 1, 0)), 2), ShapeError, "empty"),
    "grid": (lambda: F.grid_sample(IMAGE, ROW), ShapeError, r"\[grid_sample\]"),
    "grid mode": (
        lambda: F.grid_sample(IMAGE, lm.zeros((1, 2, 2, 2)), "linear"), OptionError, "bilinear",
    ),
    "grid cubic": (
        lambda: F.grid_sample(lm.ones((1, 1, 2, 2, 2)), lm.zeros((1, 1, 1, 1, 3)), "bicubic"),
        OptionError, "images only",
    ),
    "affine": (lambda: F.affine_grid(ROW, (1, 1, 2, 2)), ShapeError, r"\[affine_grid\]"),
    "heads": (
        lambda: F.multi_head_attention_forward(
            lm.ones((3, 1, 4)), lm.ones((3, 1, 4)), lm.ones((3, 1, 4)), 4, 3, lm.ones((12, 4)),
            None, None, None, False, 0.0, lm.eye(4), None,
        ),
        OptionError, "3 heads",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_misuse_is_named(name: str) -> None:
    call, kind, words = CASES[name]
    with pytest.raises(kind, match=words):
        call()


def test_classes_out_of_range_raise_where_they_are_computed() -> None:
    labels = lm.asarray([0, 5, 1])
    for function in (F.cross_entropy, F.nll_loss, F.multi_margin_loss):
        with pytest.raises(IndexError):
            function(ROW, labels).item()
    with pytest.raises(IndexError):
        F.multilabel_margin_loss(ROW, lm.asarray(np.full((3, 5), 7))).item()
    assert F.cross_entropy(ROW, lm.asarray([0, -100, 1])).item() > 0
