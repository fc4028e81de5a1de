"""Every module of ``torch.nn`` that Lamella has against PyTorch: names and layouts of its state,
results, gradients, running statistics.

The functions behind them are compared option by option in ``test_torch_functional``.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lamella as lm
from lamella import nn

torch = pytest.importorskip("torch", reason="make parity installs PyTorch")

Build = Callable[[Any], Any]
CASES: dict[str, tuple[Build, tuple[Any, ...]]] = {}
DRAWN = itertools.count()


def draw(*shape: int) -> np.ndarray:
    return np.random.default_rng(next(DRAWN)).standard_normal(shape).astype(np.float32)


def ints(*shape: int, high: int) -> np.ndarray:
    return np.random.default_rng(next(DRAWN)).integers(0, high, shape)


def add(name: str, build: Build, *inputs: Any) -> None:
    CASES[name] = (build, inputs)


def plain(name: str, *inputs: Any, **options: Any) -> None:
    """A module built from keyword options."""
    shown = ",".join(f"{k}={v}" for k, v in options.items())
    add(f"{name}({shown})", lambda n: getattr(n, name)(**options), *inputs)


ACTIVATIONS = """
    CELU ELU GELU GLU Hardshrink Hardsigmoid Hardswish Hardtanh LeakyReLU LogSigmoid Mish PReLU ReLU
    ReLU6 SELU SiLU Sigmoid Softplus Softshrink Softsign Tanh Tanhshrink
"""
for name in ACTIVATIONS.split():
    plain(name, draw(3, 8))
plain("Softmax", draw(3, 8), dim=0)
plain("LogSoftmax", draw(3, 8), dim=1)
plain("Softmin", draw(3, 8), dim=1)
plain("Softmax2d", draw(2, 3, 4, 5))
plain("Threshold", draw(3, 8), threshold=0.1, value=2.0)
plain("PReLU", draw(2, 3, 4), num_parameters=3, init=0.1)
plain("Bilinear", draw(4, 3), draw(4, 5), in1_features=3, in2_features=5, out_features=2)
plain("Embedding", ints(3, 4, high=6), num_embeddings=6, embedding_dim=3, padding_idx=1)
for mode in ("sum", "mean", "max"):
    plain("EmbeddingBag", ints(9, high=6), np.array([0, 4, 4]), num_embeddings=6, embedding_dim=3,
          mode=mode, padding_idx=1)  # fmt: skip
plain("CosineSimilarity", draw(3, 8), draw(3, 8))
plain("PairwiseDistance", draw(3, 8), draw(3, 8), p=1.0, keepdim=True)
plain("PixelShuffle", draw(1, 8, 2, 3), upscale_factor=2)
plain("PixelUnshuffle", draw(1, 2, 4, 6), downscale_factor=2)
plain("ChannelShuffle", draw(1, 6, 2, 3), groups=2)
plain("Unfold", draw(2, 3, 5, 6), kernel_size=2, padding=1, stride=2)
plain("Fold", draw(2, 12, 20), output_size=(5, 6), kernel_size=2)
plain("Upsample", draw(1, 2, 3, 4), scale_factor=2.0, mode="bilinear", align_corners=True)
plain("UpsamplingNearest2d", draw(1, 2, 3, 4), scale_factor=2)
plain("UpsamplingBilinear2d", draw(1, 2, 3, 4), size=(5, 7))
plain("LocalResponseNorm", draw(2, 5, 3), size=3)
IMAGES = {1: (2, 4, 9), 2: (2, 4, 6, 7), 3: (1, 4, 4, 5, 6)}
for rank, shape in IMAGES.items():
    for kind in ("Reflection", "Replication", "Circular", "Zero"):
        plain(f"{kind}Pad{rank}d", draw(*shape), padding=2)
        plain(f"{kind}Pad{rank}d", draw(*shape), padding=(1, 2, 0, 1, 2, 3)[: 2 * rank])
    plain(f"ConstantPad{rank}d", draw(*shape), padding=1, value=3.5)
    plain(f"MaxPool{rank}d", draw(*shape), kernel_size=3, stride=2, padding=1)
    plain(f"AvgPool{rank}d", draw(*shape), kernel_size=2, ceil_mode=True)
    plain(f"LPPool{rank}d", np.abs(draw(*shape)), norm_type=2, kernel_size=2)
    plain(f"AdaptiveAvgPool{rank}d", draw(*shape), output_size=3)
    plain(f"AdaptiveMaxPool{rank}d", draw(*shape), output_size=3)
    plain(f"InstanceNorm{rank}d", draw(*shape), num_features=4)
    plain(f"InstanceNorm{rank}d", draw(*shape[1:]), num_features=4)
    plain(f"InstanceNorm{rank}d", draw(*shape), num_features=4, affine=True,
          track_running_stats=True)  # fmt: skip
for mode in ("zeros", "reflect", "replicate", "circular"):
    plain("Conv2d", draw(2, 3, 6, 5), in_channels=3, out_channels=4, kernel_size=3, padding=(2, 1),
          stride=2, padding_mode=mode)  # fmt: skip
    plain("Conv1d", draw(2, 3, 9), in_channels=3, out_channels=4, kernel_size=4, padding="same",
          padding_mode=mode)  # fmt: skip
add("ConvTranspose2d to a size", lambda n: n.ConvTranspose2d(3, 2, 3, stride=2, padding=1),
    draw(2, 3, 4, 5), [8, 10])  # fmt: skip
plain("BatchNorm2d", draw(4, 3, 5, 5), num_features=3, bias=False)
plain("GroupNorm", draw(4, 6, 5), num_groups=2, num_channels=6, bias=False)
plain("AvgPool2d", draw(1, 2, 4, 4), kernel_size=2, divisor_override=3)
for options in (
    {}, {"num_layers": 2, "bidirectional": True}, {"bias": False, "batch_first": True},
):  # fmt: skip
    for name in ("RNN", "LSTM", "GRU"):
        plain(name, draw(5, 3, 4), input_size=4, hidden_size=6, **options)
    plain("LSTM", draw(5, 3, 4), input_size=4, hidden_size=6, proj_size=2, **options)
plain("RNN", draw(5, 4), input_size=4, hidden_size=6, nonlinearity="relu")
plain("LSTM", draw(5, 4), input_size=4, hidden_size=6)
plain("GRU", draw(5, 3, 4), draw(2, 3, 6), input_size=4, hidden_size=6, bidirectional=True)
plain("RNNCell", draw(3, 4), draw(3, 6), input_size=4, hidden_size=6)
plain("RNNCell", draw(4), input_size=4, hidden_size=6, nonlinearity="relu")
plain("LSTMCell", draw(3, 4), input_size=4, hidden_size=6)
plain("GRUCell", draw(3, 4), draw(3, 6), input_size=4, hidden_size=6, bias=False)
LAYER = {"d_model": 8, "nhead": 2, "dim_feedforward": 16, "dropout": 0.0}
CAUSAL = np.triu(np.full((5, 5), -np.inf, np.float32), 1)
for options in ({}, {"batch_first": True, "norm_first": True, "activation": "gelu"}):
    plain("TransformerEncoderLayer", draw(5, 3, 8), **LAYER, **options)
    plain("TransformerDecoderLayer", draw(5, 3, 8), draw(5, 3, 8), **LAYER, **options)
    plain("Transformer", draw(5, 3, 8), draw(5, 3, 8), num_encoder_layers=2, num_decoder_layers=2,
          **LAYER, **options)  # fmt: skip
plain("TransformerEncoderLayer", draw(5, 3, 8), CAUSAL, bias=False, **LAYER)
add(
    "TransformerEncoder",
    lambda n: n.TransformerEncoder(
        n.TransformerEncoderLayer(**LAYER, batch_first=True), 2, n.LayerNorm(8)
    ),
    draw(2, 5, 8), CAUSAL, np.array([[0, 0, 0, 0, 1], [0, 0, 0, 1, 1]], bool),
)  # fmt: skip
HEADS = {"embed_dim": 8, "num_heads": 2}
for options in (
    {}, {"batch_first": True, "bias": False}, {"add_bias_kv": True, "add_zero_attn": True},
    {"kdim": 5, "vdim": 3},
):  # fmt: skip
    sizes = (8, options.get("kdim", 8), options.get("vdim", 8))
    lengths = (3, 3, 3) if "batch_first" in options else (4, 5, 5)
    inputs = [draw(n, 3, size) for n, size in zip(lengths, sizes, strict=True)]
    plain("MultiheadAttention", *inputs, **HEADS, **options)
    add(f"attention with masks {options}",
        lambda n, o=options: n.MultiheadAttention(**HEADS, **o), *inputs,
        np.arange(3 * lengths[1]).reshape(3, -1) % 5 == 4, True,
        np.triu(np.ones((lengths[0], lengths[1]), bool), 2), False)  # fmt: skip
add("attention to itself", lambda n: n.MultiheadAttention(**HEADS), *[draw(4, 8)] * 3, None, False)
LOSSES = """
    MSELoss L1Loss SmoothL1Loss HuberLoss KLDivLoss BCEWithLogitsLoss PoissonNLLLoss
    MultiLabelSoftMarginLoss
"""
for name in LOSSES.split():
    for reduction in ("mean", "sum", "none"):
        plain(name, draw(4, 5), np.abs(draw(4, 5)), reduction=reduction)
plain("BCELoss", np.abs(np.tanh(draw(4, 5))), np.abs(np.tanh(draw(4, 5))))
plain("GaussianNLLLoss", draw(4, 5), draw(4, 5), np.abs(draw(4, 5)) + 0.5, full=True)
plain("HingeEmbeddingLoss", draw(6), np.sign(draw(6)), margin=0.5)
plain("MarginRankingLoss", draw(6), draw(6), np.sign(draw(6)), margin=0.5)
plain("CosineEmbeddingLoss", draw(6, 4), draw(6, 4), np.sign(draw(6)), margin=0.1)
plain("TripletMarginLoss", draw(6, 4), draw(6, 4), draw(6, 4), margin=2.0, swap=True)
plain("TripletMarginWithDistanceLoss", draw(6, 4), draw(6, 4), draw(6, 4), margin=2.0)
plain("CrossEntropyLoss", draw(6, 4), ints(6, high=4), label_smoothing=0.1)
plain("NLLLoss", draw(6, 4), ints(6, high=4), ignore_index=1)
plain("MultiMarginLoss", draw(6, 4), ints(6, high=4), p=2)
plain("MultiLabelMarginLoss", draw(2, 4), np.array([[1, 3, -1, 0], [2, -1, 0, 0]]))
plain("SoftMarginLoss", draw(4, 5), np.sign(ints(4, 5, high=2) - 0.5).astype(np.int64))
plain("LinearCrossEntropyLoss", draw(6, 4), ints(6, 2, high=3), in_features=4, num_classes=3,
      out_features=(2,), bias=True)  # fmt: skip
plain("AdaptiveLogSoftmaxWithLoss", draw(6, 8), ints(6, high=20), in_features=8, n_classes=20,
      cutoffs=[5, 10], div_value=2.0)  # fmt: skip
add("CTCLoss", lambda n: n.CTCLoss(), np.log(np.full((7, 2, 4), 0.25, np.float32)),
    np.array([[1, 2], [3, 3]]), np.array([7, 6]), np.array([2, 2]))  # fmt: skip


def leaves(value: Any) -> list[Any]:
    """The tensors in nested tuples."""
    if value is None:
        return []
    if isinstance(value, tuple):
        return [leaf for each in value for leaf in leaves(each)]
    return [value]


def converted(convert: Callable[[np.ndarray], Any], value: Any) -> Any:
    return convert(value.copy()) if isinstance(value, np.ndarray) else value


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", CASES)
def test_state_results_and_gradients(name: str) -> None:
    build, inputs = CASES[name]
    theirs, ours = build(torch.nn), build(nn)
    state = {k: v.numpy().copy() for k, v in theirs.state_dict().items()}
    assert {k: tuple(v.shape) for k, v in ours.state_dict().items()} == {
        k: v.shape for k, v in state.items()
    }
    ours.load_state_dict(state)
    their_inputs = [converted(torch.from_numpy, each) for each in inputs]
    our_inputs = [converted(lm.asarray, each) for each in inputs]
    if inputs[0].dtype.kind == "f":
        their_inputs[0].requires_grad_()
        our_inputs[0].requires_grad_()
    wanted, found = leaves(theirs(*their_inputs)), leaves(ours(*our_inputs))
    assert len(found) == len(wanted)
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(
            one.detach().numpy(), other.detach().numpy(), rtol=3e-5, atol=2e-5
        )
    total, our_total = 0.0, 0.0
    for number, (one, other) in enumerate(zip(found, wanted, strict=True)):
        weights = np.random.default_rng(number).standard_normal(one.shape).astype(np.float32)
        total = total + (other * torch.from_numpy(weights)).sum()
        our_total = our_total + (one * lm.asarray(weights)).sum()
    total.backward()
    our_total.backward()
    if inputs[0].dtype.kind == "f" and name != "CTCLoss":  # whose own gradient differs
        np.testing.assert_allclose(
            our_inputs[0].grad.numpy(), their_inputs[0].grad.numpy(), rtol=2e-4, atol=5e-5
        )
    grads = {k: p.grad for k, p in theirs.named_parameters() if p.grad is not None}
    for key, parameter in ours.named_parameters():
        np.testing.assert_allclose(
            parameter.grad.numpy(), grads[key].numpy(), rtol=3e-4, atol=1e-4, err_msg=key
        )
    for key, value in theirs.state_dict().items():
        np.testing.assert_allclose(
            ours.state_dict()[key].numpy(), value.numpy(), atol=1e-5, rtol=1e-5, err_msg=key
        )
    theirs.eval(), ours.eval()
    for one, other in zip(leaves(ours(*our_inputs)), leaves(theirs(*their_inputs)), strict=True):
        np.testing.assert_allclose(
            one.detach().numpy(), other.detach().numpy(), rtol=3e-5, atol=2e-5
        )


def test_maxima_go_back() -> None:
    x = draw(2, 3, 6, 8)
    pooled = [n.MaxPool2d(2, return_indices=True) for n in (torch.nn, nn)]
    wanted = torch.nn.MaxUnpool2d(2)(*pooled[0](torch.from_numpy(x)))
    found = nn.MaxUnpool2d(2)(*pooled[1](lm.asarray(x)))
    np.testing.assert_array_equal(found.numpy(), wanted.numpy())


def test_fractional_pooling_module() -> None:
    x, samples = draw(2, 3, 9, 8), np.random.default_rng(0).uniform(size=(2, 3, 2))
    samples = samples.astype(np.float32)
    wanted = torch.nn.FractionalMaxPool2d(2, 4, _random_samples=torch.from_numpy(samples))
    found = nn.FractionalMaxPool2d(2, 4, _random_samples=lm.asarray(samples))
    np.testing.assert_array_equal(found(lm.asarray(x)).numpy(), wanted(torch.from_numpy(x)).numpy())


def test_rows_looked_up_are_limited() -> None:
    weight = draw(6, 4) * 3
    theirs = torch.nn.Embedding.from_pretrained(torch.from_numpy(weight.copy()), max_norm=2.0)
    ours = nn.Embedding.from_pretrained(lm.asarray(weight.copy()), max_norm=2.0)
    index = np.array([[1, 4], [1, 2]])
    wanted = theirs(torch.from_numpy(index))
    np.testing.assert_allclose(ours(lm.asarray(index)).numpy(), wanted.numpy(), rtol=1e-5)
    np.testing.assert_allclose(ours.weight.numpy(), theirs.weight.numpy(), rtol=1e-5)


@pytest.mark.parametrize(
    "build",
    [
        lambda n: n.Conv2d(4, 6, 3, groups=2, padding=1, bias=False, padding_mode="circular"),
        lambda n: n.ConvTranspose2d(4, 6, 3, stride=2, output_padding=(1, 0), dilation=2),
        lambda n: n.BatchNorm1d(4, momentum=None, affine=False),
        lambda n: n.InstanceNorm2d(4, track_running_stats=True),
        lambda n: n.LayerNorm((3, 4), bias=False),
        lambda n: n.RMSNorm(4, elementwise_affine=False),
        lambda n: n.GroupNorm(2, 4, eps=0.1),
        lambda n: n.Embedding(5, 3, padding_idx=1, max_norm=2.0, norm_type=1.0,
                              scale_grad_by_freq=True),
        lambda n: n.EmbeddingBag(5, 3, max_norm=2.0, scale_grad_by_freq=True, mode="sum"),
        lambda n: n.LSTM(3, 4, num_layers=2, bias=False, batch_first=True, bidirectional=True),
    ],
)  # fmt: skip
def test_text_shows_what_was_chosen(build: Build) -> None:
    assert repr(build(nn)) == repr(build(torch.nn))
