"""Every function of ``torch.nn.functional`` against PyTorch: values and gradients, from one table.

A case is a name, positional arguments and options. Arrays become tensors of both libraries; those
of floating point are cast to the dtype under test and differentiated. What is random is checked in
``tests/nn``, except where PyTorch takes its random numbers as an argument.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import lamella as lm
from lamella import nn
from tests.support.pytorch_page import section

torch = pytest.importorskip("torch", reason="make parity installs PyTorch")

TOLERANCE = {"float64": 1e-7, "float32": 3e-5, "float16": 4e-3, "bfloat16": 3e-2}
Case = tuple[str, tuple[Any, ...], dict[str, Any], bool, tuple[int | str, ...]]
CASES: dict[str, Case] = {}
DRAWN = itertools.count()


def draw(*shape: int, low: float | None = None, high: float = 1.0) -> np.ndarray:
    """Numbers that are the same in every run, normal or uniform, apart from each other."""
    rng = np.random.default_rng(next(DRAWN))
    size = int(np.prod(shape))
    if low is None:
        spaced = (np.arange(size) - size / 2 + 0.3) * (4.0 / max(size, 1))
        return rng.permutation(spaced).reshape(shape)
    return rng.uniform(low, high, shape)


def ints(*shape: int, high: int) -> np.ndarray:
    return np.random.default_rng(next(DRAWN)).integers(0, high, shape)


def add(
    name: str, *args: Any, half: bool = True, fixed: tuple[int | str, ...] = (), **options: Any
) -> None:
    """Put a case into the table.

    ``half`` says whether PyTorch has it for float16 and bfloat16, ``fixed`` which arguments PyTorch
    does not differentiate.
    """
    shown = ",".join(
        f"{k}={v if not isinstance(v, np.ndarray) else 'array'}" for k, v in options.items()
    )
    key = f"{name}({shown})"
    while key in CASES:
        key += "'"
    CASES[key] = (name, args, options, half, fixed)


# -- activations -----------------------------------------------------------------------------------
ACTIVATIONS = """
    relu relu6 elu celu selu silu mish gelu sigmoid tanh logsigmoid softplus softsign tanhshrink
    hardsigmoid hardswish hardtanh hardshrink softshrink leaky_relu rrelu
"""
for name in ACTIVATIONS.split():
    add(name, draw(3, 17) * 3)
add("elu", draw(20), alpha=0.7)
add("celu", draw(20) * 2, alpha=0.4)
add("gelu", draw(20) * 2, approximate="tanh")
add("hardtanh", draw(20) * 2, min_val=-0.5, max_val=1.5)
add("hardshrink", draw(20), lambd=0.8)
add("softshrink", draw(20), lambd=0.8)
add("softplus", draw(20) * 9, beta=2.0, threshold=5.0)
add("leaky_relu", draw(20), negative_slope=0.3)
add("threshold", draw(20), 0.1, 20.0)
add("prelu", draw(2, 3, 5), draw(3))
add("prelu", draw(2, 3, 5), draw(1))
add("prelu", draw(7), draw(1))
add("glu", draw(3, 8, 2), dim=1)
for dim in (0, 1, -1):
    for name in ("softmax", "log_softmax", "softmin"):
        add(name, draw(3, 7, 4) * 3, dim=dim)

# -- linear maps, lookups, distances ---------------------------------------------------------------
add("linear", draw(2, 3, 5), draw(4, 5), draw(4))
add("linear", draw(5), draw(4, 5))
add("bilinear", draw(2, 3, 5), draw(2, 3, 4), draw(6, 5, 4), draw(6))
add("embedding", ints(2, 5, high=7), draw(7, 3))
add("embedding", ints(2, 5, high=7), draw(7, 3), padding_idx=2)
add("embedding", ints(2, 5, high=4), draw(7, 3), padding_idx=-5, scale_grad_by_freq=True)
for mode in ("sum", "mean", "max"):
    few = ints(3, 5, high=7)
    flat, starts = ints(9, high=7), np.array([0, 2, 2, 7])
    add("embedding_bag", few, draw(7, 4), mode=mode)
    add("embedding_bag", few, draw(7, 4), mode=mode, padding_idx=3)
    add("embedding_bag", flat, draw(7, 4), starts, mode=mode)
    add("embedding_bag", flat, draw(7, 4), starts, mode=mode, padding_idx=3)
    add(
        "embedding_bag", flat, draw(7, 4), np.array([0, 2, 2, 9]), mode=mode,
        include_last_offset=True,
    )  # fmt: skip
add("embedding_bag", ints(3, 5, high=7), draw(7, 4), per_sample_weights=draw(3, 5), mode="sum")
add(
    "embedding_bag", ints(9, high=7), draw(7, 4), np.array([0, 4]), per_sample_weights=draw(9),
    mode="sum", padding_idx=1,
)  # fmt: skip
add("one_hot", ints(3, 4, high=6))
add("one_hot", ints(3, 4, high=6), 8)
for p in (0.5, 1.0, 1.5, 2.0, 3.0, float("inf")):
    add("normalize", draw(3, 5), p=p)
    add("pairwise_distance", draw(4, 5), draw(4, 5), p=p, half=p == 2)
    add("pdist", draw(6, 5, low=-2.0), p=p, half=False)
add("normalize", draw(2, 3, 4), dim=-1)
add("pairwise_distance", draw(5), draw(4, 5), keepdim=True)
add("cosine_similarity", draw(3, 5), draw(3, 5))
add("cosine_similarity", draw(3, 1, 5), draw(4, 5), dim=-1)

# -- losses ----------------------------------------------------------------------------------------
for reduction in ("mean", "sum", "none"):
    for name in ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"):
        add(name, draw(4, 5), draw(4, 5), reduction=reduction)
    signs = np.sign(draw(4, 5))
    add("soft_margin_loss", draw(4, 5) * 3, signs, reduction=reduction, fixed=(1,))
    add("hinge_embedding_loss", draw(4, 5), signs, margin=0.7, reduction=reduction)
    add("kl_div", draw(4, 5), draw(4, 5, low=0.1), reduction=reduction)
    add("binary_cross_entropy", draw(4, 5, low=0.1, high=0.9), draw(4, 5, low=0.1),
        draw(5, low=0.5), reduction=reduction, fixed=(2,))  # fmt: skip
    add("binary_cross_entropy_with_logits", draw(4, 5) * 4, draw(4, 5, low=0.0), draw(5, low=0.5),
        pos_weight=draw(5, low=0.5), reduction=reduction, fixed=(2, "pos_weight"))  # fmt: skip
    add("poisson_nll_loss", draw(4, 5), draw(4, 5, low=0.0, high=6.0), reduction=reduction)
    add("gaussian_nll_loss", draw(4, 5), draw(4, 5), draw(4, 5, low=0.5), reduction=reduction)
    add("margin_ranking_loss", draw(6), draw(6), np.sign(draw(6)), 0.3, reduction=reduction)
    add("cosine_embedding_loss", draw(6, 4), draw(6, 4), np.sign(draw(6)), -0.2,
        reduction=reduction)  # fmt: skip
    add("triplet_margin_loss", draw(4, 5), draw(4, 5), draw(4, 5), reduction=reduction)
    add("triplet_margin_with_distance_loss", draw(4, 5), draw(4, 5), draw(4, 5), swap=True,
        reduction=reduction)  # fmt: skip
    classes = {"ignore_index": 2, "reduction": reduction, "fixed": (2,)}
    add("cross_entropy", draw(6, 5), ints(6, high=5), reduction=reduction)
    add("cross_entropy", draw(6, 5), ints(6, high=5), draw(5, low=0.5), **classes)
    add("cross_entropy", draw(6, 5), ints(6, high=5), draw(5, low=0.5), label_smoothing=0.2,
        **classes)  # fmt: skip
    add("cross_entropy", draw(2, 5, 3, 4), ints(2, 3, 4, high=5), **classes)
    add("cross_entropy", draw(5), np.array(3), reduction=reduction)
    add("cross_entropy", draw(3, 5), draw(3, 5, low=0.0), draw(5, low=0.5), label_smoothing=0.1,
        reduction=reduction, half=False)  # fmt: skip
    add("nll_loss", draw(6, 5), ints(6, high=5), draw(5, low=0.5), **classes)
    add("nll_loss", draw(2, 5, 3), ints(2, 3, high=5), **classes)
    add("multi_margin_loss", draw(6, 5), ints(6, high=5), half=False, reduction=reduction)
    add("multi_margin_loss", draw(6, 5), ints(6, high=5), 2, 0.7, draw(5, low=0.5), half=False,
        reduction=reduction, fixed=(4,))  # fmt: skip
    several = np.array([[1, 3, -1, 0], [2, -1, 1, 1], [-1, 0, 0, 0], [0, 1, 2, 3], [2, 2, -1, 0]])
    add("multilabel_margin_loss", draw(5, 4), several, half=False, reduction=reduction)
    add("multilabel_soft_margin_loss", draw(5, 4) * 3, draw(5, 4, low=0.0), draw(4, low=0.5),
        reduction=reduction)  # fmt: skip
    add("linear_cross_entropy", draw(6, 4), draw(5, 4), ints(6, high=5), linear_bias=draw(5),
        reduction=reduction)  # fmt: skip
    logs = np.log(np.random.default_rng(1).dirichlet(np.ones(6), (12, 3)))
    add("ctc_loss", logs, np.array([[1, 2, 2, 5], [3, 1, 0, 0], [4, 4, 4, 0]]),
        np.array([12, 9, 10]), np.array([4, 2, 3]), reduction=reduction, half=False)  # fmt: skip
    add("ctc_loss", logs, np.array([1, 2, 2, 4, 3, 1, 3]), np.array([12, 4, 2]),
        np.array([4, 0, 3]), blank=5, reduction=reduction, zero_infinity=True,
        half=False)  # fmt: skip
add("ctc_loss", np.log(np.full((5, 4), 0.25)), np.array([1, 2]), np.array(5), np.array(2),
    half=False)  # fmt: skip
add("mse_loss", draw(4, 5), draw(4, 5), weight=draw(4, 5, low=0.5))
add("l1_loss", draw(4, 5), draw(4, 5), weight=draw(4, 5, low=0.5))
add("huber_loss", draw(4, 5), draw(4, 5), weight=draw(4, 5, low=0.5), delta=0.7)
add("smooth_l1_loss", draw(4, 5), draw(4, 5), beta=0.6)
add("smooth_l1_loss", draw(4, 5), draw(4, 5), beta=0.0)
add("kl_div", draw(4, 5), draw(4, 5), reduction="batchmean", log_target=True)
add("kl_div", draw(4, 5), draw(4, 5, low=0.1), reduction="batchmean")
add("poisson_nll_loss", draw(4, 5, low=0.1), draw(4, 5, low=0.0, high=6.0), log_input=False,
    full=True)  # fmt: skip
add("poisson_nll_loss", draw(4, 5), draw(4, 5, low=0.0, high=6.0), full=True)
add("gaussian_nll_loss", draw(4, 5), draw(4, 5), draw(4, low=0.5), full=True)
add("gaussian_nll_loss", draw(4, 5), draw(4, 5), draw(4, 1, low=-0.0, high=1e-3), eps=5e-4,
    half=False)  # fmt: skip
add("gaussian_nll_loss", draw(4, 5), draw(4, 5), 0.5)
add("triplet_margin_loss", draw(4, 5), draw(4, 5), draw(4, 5), margin=2.0, p=1.5, swap=True,
    half=False)  # fmt: skip

# -- convolutions ----------------------------------------------------------------------------------
SIGNALS = {1: (2, 4, 9), 2: (2, 4, 7, 6), 3: (1, 4, 4, 5, 4)}
for rank, shape in SIGNALS.items():
    kernel = {1: (3,), 2: (3, 2), 3: (2, 2, 2)}[rank]
    for options in (
        {}, {"stride": 2, "padding": 1}, {"dilation": (2, 1, 1)[:rank], "groups": 2},
        {"padding": "same"},
    ):  # fmt: skip
        groups = options.get("groups", 1)
        add(f"conv{rank}d", draw(*shape), draw(6, 4 // groups, *kernel), draw(6), **options)
    for options in ({}, {"stride": 2, "padding": 1, "output_padding": 1}, {"groups": 2}):
        groups = options.get("groups", 1)
        add(f"conv_transpose{rank}d", draw(*shape), draw(4, 6 // groups, *kernel), draw(6),
            **options)  # fmt: skip

# -- normalisation ---------------------------------------------------------------------------------
add("layer_norm", draw(3, 4, 6), (4, 6), draw(4, 6), draw(4, 6))
add("rms_norm", draw(3, 4, 6), (6,), draw(6))
add("group_norm", draw(2, 6, 5), 3, draw(6), draw(6))
add("batch_norm", draw(4, 3, 5), draw(3), draw(3, low=0.5), draw(3), draw(3), half=False,
    fixed=(1, 2))  # fmt: skip
add("batch_norm", draw(4, 3, 5), None, None, draw(3), draw(3), training=True, half=False)
add("instance_norm", draw(2, 3, 5), weight=draw(3), bias=draw(3))
add("instance_norm", draw(2, 3, 4, 5), eps=1e-3)
add("instance_norm", draw(2, 3, 5), draw(3), draw(3, low=0.5), use_input_stats=False, half=False,
    fixed=(1, 2))  # fmt: skip
for size in (1, 2, 3, 5):
    add("local_response_norm", draw(2, 4, 3), size, alpha=0.1, beta=0.6, k=1.5)
add("local_response_norm", draw(2, 4, 3, 2), 3, half=False)

# -- pooling ---------------------------------------------------------------------------------------
IMAGES = {1: (2, 3, 11), 2: (2, 3, 9, 8), 3: (1, 2, 5, 6, 7)}
for rank, shape in IMAGES.items():
    kinds = [
        {"kernel_size": 2}, {"kernel_size": 3, "stride": 2, "padding": 1},
        {"kernel_size": 3, "stride": 2, "ceil_mode": True},
        {"kernel_size": 2, "stride": 3, "padding": 1, "ceil_mode": True},
        {"kernel_size": (1, 2, 3)[:rank], "stride": (2, 1, 2)[:rank]} if rank > 1 else
        {"kernel_size": 1, "stride": 2},
    ]  # fmt: skip
    for options in kinds:
        add(f"max_pool{rank}d", draw(*shape), **options)
        add(f"max_pool{rank}d", draw(*shape), return_indices=True, **options)
        add(f"avg_pool{rank}d", draw(*shape), half=rank < 3, **options)
        add(f"avg_pool{rank}d", draw(*shape), count_include_pad=False, half=rank < 3, **options)
        if "padding" not in options:
            add(f"lp_pool{rank}d", draw(*shape, low=0.1), 2, half=rank < 3, **options)
            add(f"lp_pool{rank}d", draw(*shape, low=0.1), 3.5, half=rank < 3, **options)
    add(f"max_pool{rank}d", draw(*shape), 2, stride=1, padding=1, dilation=2, return_indices=True)
    add(f"max_pool{rank}d", draw(*shape[1:]), 2, return_indices=True)
    add(f"max_pool{rank}d", np.full(shape, -np.inf), 2, 1, 1, return_indices=True)
    if rank > 1:
        add(f"avg_pool{rank}d", draw(*shape), 2, divisor_override=3, half=rank < 3)
    for size in (1, 2, 3, (4, 2, 5)[:rank], (None, 5, 4)[:rank] if rank > 1 else 5):
        add(f"adaptive_avg_pool{rank}d", draw(*shape), size, half=rank < 3)
        add(f"adaptive_max_pool{rank}d", draw(*shape), size)
        add(f"adaptive_max_pool{rank}d", draw(*shape), size, return_indices=True)
    add(f"adaptive_max_pool{rank}d", draw(*shape[1:]), 2, return_indices=True)
    pooled = torch.nn.functional.max_pool1d if rank == 1 else getattr(
        torch.nn.functional, f"max_pool{rank}d"
    )  # fmt: skip
    maxima, where = pooled(torch.from_numpy(draw(*shape)), 2, return_indices=True)
    if rank < 3:
        add(f"max_unpool{rank}d", maxima.numpy(), where.numpy(), 2, half=False)
    add(f"max_unpool{rank}d", maxima.numpy(), where.numpy(), 2, output_size=shape, half=False)
for rank in (2, 3):
    samples = draw(*IMAGES[rank][:2], rank, low=0.0)
    options = {"_random_samples": samples, "half": False, "fixed": ("_random_samples",)}
    add(f"fractional_max_pool{rank}d", draw(*IMAGES[rank]), 2, 3, **options)
    add(f"fractional_max_pool{rank}d", draw(*IMAGES[rank]), 2, 3, return_indices=True, **options)
    add(f"fractional_max_pool{rank}d", draw(*IMAGES[rank]), 2, output_ratio=(0.6, 0.7, 0.5)[:rank],
        return_indices=True, **options)  # fmt: skip

# -- padding, rearranging, resizing, sampling ------------------------------------------------------
add("pad", draw(2, 3), (1, 2))
add("pad", draw(2, 3, 4), (1, 2, -1, 3), value=0.5)
for mode in ("reflect", "replicate", "circular"):
    add("pad", draw(2, 3, 5), (2, 3), mode=mode)
    add("pad", draw(2, 3, 5, 4), (2, 3, 1, 0), mode=mode)
    add("pad", draw(2, 3, 5, 4, 3), (2, 1, 1, 0, 0, 2), mode=mode)
    add("pad", draw(3, 5, 4), (-1, 2, 1, -2), mode=mode)
add("pixel_shuffle", draw(2, 12, 3, 4), 2)
add("pixel_unshuffle", draw(2, 3, 4, 6), 2)
add("channel_shuffle", draw(2, 6, 3, 2), 3)
for options in (
    {"kernel_size": 2}, {"kernel_size": (3, 2), "padding": (1, 0), "stride": 2},
    {"kernel_size": 2, "dilation": (2, 1), "padding": 1, "stride": (1, 2)},
):  # fmt: skip
    add("unfold", draw(2, 3, 6, 5), **options)
    columns = torch.nn.functional.unfold(torch.from_numpy(draw(2, 3, 6, 5)), **options).numpy()
    add("fold", columns, (6, 5), **options)
    add("fold", columns[0], (6, 5), **options)
RESIZE = {1: "linear", 2: "bilinear", 3: "trilinear"}
for rank, shape in IMAGES.items():
    targets: tuple[dict[str, Any], ...] = (
        {"scale_factor": 2}, {"scale_factor": 0.6}, {"scale_factor": 1.7},
        {"scale_factor": 1.7, "recompute_scale_factor": True},
        {"size": (7, 13, 4)[:rank]}, {"size": 1},
    )  # fmt: skip
    for target in targets:
        add("interpolate", draw(*shape), **target)
        add("interpolate", draw(*shape), mode="nearest-exact", **target)
        add("interpolate", draw(*shape), mode="area", half=rank < 3, **target)
        for aligned in (False, True):
            add("interpolate", draw(*shape), mode=RESIZE[rank], align_corners=aligned, **target)
            if rank == 2:
                add("interpolate", draw(*shape), mode="bicubic", align_corners=aligned, **target)
                for mode in ("bilinear", "bicubic"):
                    add("interpolate", draw(*shape), mode=mode, align_corners=aligned,
                        antialias=True, half=False, **target)  # fmt: skip
        if rank == 2:
            add("interpolate", draw(*shape), mode="lanczos", antialias=True, half=False, **target)
add("upsample", draw(1, 2, 3, 4), scale_factor=2, mode="bilinear")
add("upsample_nearest", draw(1, 2, 3, 4), size=(5, 9))
add("upsample_bilinear", draw(1, 2, 3, 4), scale_factor=3)
for aligned in (False, True):
    add("affine_grid", draw(2, 2, 3), (2, 3, 4, 5), align_corners=aligned)
    add("affine_grid", draw(2, 3, 4), (2, 3, 4, 5, 1), align_corners=aligned, half=False)
    for padding_mode in ("zeros", "border", "reflection"):
        common = {"padding_mode": padding_mode, "align_corners": aligned, "half": False}
        for mode in ("bilinear", "nearest", "bicubic"):
            add("grid_sample", draw(2, 3, 4, 5), draw(2, 6, 7, 2), mode=mode, **common)
            if mode != "bicubic":
                add("grid_sample", draw(2, 3, 4, 5, 3), draw(2, 3, 2, 4, 3), mode=mode, **common)

# -- attention -------------------------------------------------------------------------------------
add("scaled_dot_product_attention", draw(2, 4, 5, 6), draw(2, 4, 7, 6), draw(2, 4, 7, 3))
add("scaled_dot_product_attention", draw(4, 5, 6), draw(4, 5, 6), draw(4, 5, 3), is_causal=True,
    scale=0.3)  # fmt: skip
add("scaled_dot_product_attention", draw(2, 4, 5, 6), draw(2, 4, 7, 6), draw(2, 4, 7, 3),
    np.tri(5, 7, 2, dtype=bool))  # fmt: skip
add("scaled_dot_product_attention", draw(2, 4, 5, 6), draw(2, 4, 7, 6), draw(2, 4, 7, 3),
    draw(2, 1, 5, 7), half=False)  # fmt: skip
add("scaled_dot_product_attention", draw(2, 4, 5, 6), draw(2, 2, 7, 6), draw(2, 2, 7, 6),
    enable_gqa=True)  # fmt: skip


three, out = draw(24, 8), draw(8, 8)
add("multi_head_attention_forward", draw(5, 2, 8), draw(6, 2, 8), draw(6, 2, 8), 8, 2, three,
    draw(24), draw(1, 1, 8), draw(1, 1, 8), True, 0.0, out, draw(8), half=False)  # fmt: skip
add("multi_head_attention_forward", draw(5, 2, 8), draw(6, 2, 4), draw(6, 2, 3), 8, 2, None,
    draw(24), None, None, False, 0.0, out, draw(8), use_separate_proj_weight=True,
    q_proj_weight=draw(8, 8), k_proj_weight=draw(8, 4), v_proj_weight=draw(8, 3),
    average_attn_weights=False, half=False)  # fmt: skip
add("multi_head_attention_forward", draw(5, 2, 8), draw(6, 2, 8), draw(6, 2, 8), 8, 2, three,
    draw(24), None, None, True, 0.0, out, draw(8), static_k=draw(4, 3, 4), static_v=draw(4, 3, 4),
    half=False)  # fmt: skip
for name in ("relu_", "elu_", "celu_", "selu_", "hardtanh_", "leaky_relu_", "rrelu_"):
    add(name, draw(3, 4), fixed=(0,))
add("threshold_", draw(3, 4), 0.15, 3.0, fixed=(0,))
add("native_channel_shuffle", draw(2, 6, 3, 2), 3, fixed=(0,))
for name in ("dropout", "dropout1d", "dropout2d", "dropout3d"):
    add(name, draw(2, 3, 4, 5)[(0,) * (name == "dropout1d")], training=False)
add("dropout", draw(2, 3), p=1.0)
add("alpha_dropout", draw(2, 3))
add("feature_alpha_dropout", draw(2, 3, 4))


OTHERS = {"gumbel_softmax", "grouped_mm"}  # random; with a test of its own below


def test_every_function_is_in_the_table() -> None:
    covered = {case[0] for case in CASES.values()}
    assert sorted(section("torch.nn.functional")[0] - covered - OTHERS) == []


def test_grouped_mm() -> None:
    """PyTorch has it for bfloat16 alone on some processors."""
    a, b = draw(8, 16).astype(np.float32), draw(3, 16, 24).astype(np.float32)
    ends = np.array([2, 2, 8], np.int32)
    halves = [torch.from_numpy(x).to(torch.bfloat16) for x in (a, b)]
    wanted = torch.nn.functional.grouped_mm(*halves, offs=torch.from_numpy(ends))
    mine = [lm.asarray(x.float().numpy(), dtype=lm.bfloat16) for x in halves]
    found = lm.nn.functional.grouped_mm(*mine, offs=ends)
    assert found.dtype is lm.bfloat16
    np.testing.assert_allclose(
        found.astype(lm.float32).numpy(), wanted.float().numpy(), rtol=1e-2, atol=1e-2
    )


# -- the test --------------------------------------------------------------------------------------
def runs() -> Iterator[Any]:
    """Every case in every dtype."""
    for key, case in CASES.items():
        kinds = ["float64", "float32"] + ["float16", "bfloat16"] * (case[3])
        yield from (pytest.param(key, kind, id=f"{key}-{kind}") for kind in kinds)


def theirs(value: Any, kind: str, tracked: bool) -> Any:
    if not isinstance(value, np.ndarray):
        return value
    found = torch.from_numpy(np.array(value))
    if found.is_floating_point():
        found = found.to(getattr(torch, kind)).requires_grad_(tracked)
    return found


def ours(value: Any, kind: str, tracked: bool) -> Any:
    if not isinstance(value, np.ndarray):
        return value
    if value.dtype.kind != "f":
        return lm.asarray(value)
    return lm.tensor(lm.asarray(value).astype(kind), requires_grad=tracked)


def converted(case: Case, kind: str, convert: Any) -> tuple[list[Any], dict[str, Any]]:
    """Arguments and options as tensors."""
    _, args, options, _, fixed = case
    return (
        [convert(each, kind, number not in fixed) for number, each in enumerate(args)],
        {name: convert(each, kind, name not in fixed) for name, each in options.items()},
    )


def result(library: Any, name: str, args: list[Any], options: dict[str, Any]) -> tuple[Any, ...]:
    """What the function returns. PyTorch's gradient of ``ctc_loss`` takes for granted that its
    argument comes from ``log_softmax``, so it does here.
    """
    if name == "ctc_loss":
        args = [library.log_softmax(args[0], dim=-1), *args[1:]]
    found = getattr(library, name)(*args, **options)
    return found if isinstance(found, tuple) else (found,)


def numbers(value: Any) -> np.ndarray:
    if isinstance(value, torch.Tensor):
        return value.detach().to(torch.float64).numpy()
    return value.detach().astype(lm.float64).numpy()


def leaves(args: list[Any], options: dict[str, Any]) -> list[Any]:
    held = [*args, *options.values()]
    return [each for each in held if getattr(each, "requires_grad", False)]


def close(found: Any, wanted: Any, tolerance: float, what: str) -> None:
    wanted = numbers(wanted)
    scale = np.abs(wanted[np.isfinite(wanted)]).max(initial=1e-3)
    np.testing.assert_allclose(
        numbers(found), wanted, rtol=tolerance, atol=tolerance * scale, err_msg=what
    )


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize(("key", "kind"), list(runs()))
def test_values_and_gradients(key: str, kind: str) -> None:
    case = CASES[key]
    their_args, their_options = converted(case, kind, theirs)
    our_args, our_options = converted(case, kind, ours)
    wanted = result(torch.nn.functional, case[0], their_args, their_options)
    found = result(nn.functional, case[0], our_args, our_options)
    assert len(found) == len(wanted)
    for each, other in zip(found, wanted, strict=True):
        assert tuple(each.shape) == tuple(other.shape)
        assert each.dtype.name == str(other.dtype).removeprefix("torch.")
        close(each, other, TOLERANCE[kind], "value")
    if not wanted[0].requires_grad:
        return
    weights = np.random.default_rng(3).standard_normal(tuple(wanted[0].shape))
    (wanted[0] * torch.from_numpy(weights).to(wanted[0].dtype)).sum().backward()
    (found[0] * lm.asarray(weights).astype(kind)).sum().backward()
    mine, others = leaves(our_args, our_options), leaves(their_args, their_options)
    for number, (one, other) in enumerate(zip(mine, others, strict=True)):
        if one.grad is not None and other.grad is not None:
            close(one.grad, other.grad, 4 * TOLERANCE[kind], f"gradient {number}")
        else:  # a constant: PyTorch may have zeros for it
            rest = one.grad if other.grad is None else other.grad
            assert rest is None or not rest.any(), f"gradient {number} is missing"


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("size", [1, 2, 3])
def test_equal_maxima_have_the_gradient_of_the_first(rank, size):
    rng = np.random.default_rng(0)
    X = rng.integers(0, 2, (2, 2, *(4, 6, 8)[:rank])).astype(np.float32)
    for name, args in (
        (f"adaptive_max_pool{rank}d", (size,)),
        (f"max_pool{rank}d", (2,)),
        (f"max_pool{rank}d", (3, size, 1)),
    ):
        x = torch.tensor(X, requires_grad=True)
        y = getattr(torch.nn.functional, name)(x, *args)
        w = np.arange(y.numel(), dtype=np.float32).reshape(y.shape)
        (y * torch.tensor(w)).sum().backward()

        def loss(a, name=name, args=args, w=w):
            return (getattr(lm.nn.functional, name)(a, *args) * w).sum()

        np.testing.assert_array_equal(lm.grad(loss)(lm.asarray(X)).numpy(), x.grad.numpy())
    if rank == 1:
        opened = lm.jit(
            lambda a: lm.grad(lambda a: (lm.nn.functional.max_pool1d(a, 2) ** 2).sum())(a),
            dynamic={"a": {2: "n"}},
        )
        x = torch.tensor(X, requires_grad=True)
        (torch.nn.functional.max_pool1d(x, 2) ** 2).sum().backward()
        np.testing.assert_array_equal(opened(lm.asarray(X)).numpy(), x.grad.numpy())
