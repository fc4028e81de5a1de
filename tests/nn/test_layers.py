"""Layers: parameter names, shapes, initial ranges, text; attention against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import special

import lamella as lm
from lamella import nn
from lamella.errors import CheckError, OptionError, ShapeError
from tests.nn.helpers import check_gradient

RNG = np.random.default_rng(2)

SHAPES: list[tuple[nn.Module, dict[str, tuple[int, ...]]]] = [
    (nn.Linear(3, 5), {"weight": (5, 3), "bias": (5,)}),
    (nn.Linear(3, 5, bias=False), {"weight": (5, 3)}),
    (nn.Conv1d(4, 6, 3, groups=2), {"weight": (6, 2, 3), "bias": (6,)}),
    (nn.Conv2d(4, 6, (3, 5)), {"weight": (6, 4, 3, 5), "bias": (6,)}),
    (nn.Conv3d(1, 2, 3, bias=False), {"weight": (2, 1, 3, 3, 3)}),
    (nn.ConvTranspose1d(4, 6, 3, groups=2), {"weight": (4, 3, 3), "bias": (6,)}),
    (nn.ConvTranspose2d(4, 6, 3), {"weight": (4, 6, 3, 3), "bias": (6,)}),
    (nn.ConvTranspose3d(4, 6, 2), {"weight": (4, 6, 2, 2, 2), "bias": (6,)}),
    (
        nn.BatchNorm2d(3),
        {
            "weight": (3,),
            "bias": (3,),
            "running_mean": (3,),
            "running_var": (3,),
            "num_batches_tracked": (),
        },
    ),
    (nn.BatchNorm1d(3, affine=False, track_running_stats=False), {}),
    (nn.LayerNorm((2, 3)), {"weight": (2, 3), "bias": (2, 3)}),
    (nn.LayerNorm(3, bias=False), {"weight": (3,)}),
    (nn.RMSNorm(4), {"weight": (4,)}),
    (nn.GroupNorm(2, 4), {"weight": (4,), "bias": (4,)}),
    (nn.Embedding(7, 2), {"weight": (7, 2)}),
    (
        nn.MultiheadAttention(4, 2),
        {
            "in_proj_weight": (12, 4),
            "in_proj_bias": (12,),
            "out_proj.weight": (4, 4),
            "out_proj.bias": (4,),
        },
    ),
    (
        nn.MultiheadAttention(4, 2, kdim=3, vdim=5, bias=False),
        {
            "q_proj_weight": (4, 4),
            "k_proj_weight": (4, 3),
            "v_proj_weight": (4, 5),
            "out_proj.weight": (4, 4),
        },
    ),
]


@pytest.mark.parametrize(("layer", "shapes"), SHAPES)
def test_state_names_and_shapes(layer: nn.Module, shapes: dict[str, tuple[int, ...]]) -> None:
    assert {name: tuple(value.shape) for name, value in layer.state_dict().items()} == shapes


TEXTS: list[tuple[nn.Module, str]] = [
    (
        nn.Conv2d(1, 2, 3, padding=1),
        "Conv2d(1, 2, kernel_size=(3, 3), stride=(1, 1), padding=(1, 1))",
    ),
    (
        nn.Conv1d(2, 2, 3, dilation=2, groups=2, bias=False, padding="same"),
        "Conv1d(2, 2, kernel_size=(3,), stride=(1,), padding='same', dilation=(2,), groups=2, "
        "bias=False)",
    ),
    (nn.LayerNorm(3), "LayerNorm((3,), eps=1e-05, elementwise_affine=True, bias=True)"),
    (nn.GroupNorm(2, 4), "GroupNorm(2, 4, eps=1e-05, affine=True, bias=True)"),
    (nn.Embedding(3, 2, padding_idx=-1), "Embedding(3, 2, padding_idx=2)"),
    (nn.Dropout(0.1), "Dropout(p=0.1, inplace=False)"),
    (nn.MaxPool2d(2), "MaxPool2d(kernel_size=2, stride=2, padding=0, dilation=1, ceil_mode=False)"),
    (nn.AdaptiveAvgPool2d((1, None)), "AdaptiveAvgPool2d(output_size=(1, None))"),
    (nn.LeakyReLU(0.2), "LeakyReLU(negative_slope=0.2)"),
    (nn.GELU("tanh"), "GELU(approximate='tanh')"),
    (nn.Softmax(1), "Softmax(dim=1)"),
    (nn.Flatten(), "Flatten(start_dim=1, end_dim=-1)"),
]


@pytest.mark.parametrize(("layer", "text"), TEXTS)
def test_text(layer: nn.Module, text: str) -> None:
    assert repr(layer) == text


@pytest.mark.parametrize(
    ("layer", "fan"),
    [(nn.Linear(400, 300), 400), (nn.Conv2d(50, 60, 3), 450), (nn.ConvTranspose1d(60, 50, 9), 450)],
)
def test_weights_and_biases_start_uniform_by_fan_in(layer: Any, fan: int) -> None:
    bound = 1 / np.sqrt(fan)
    for values in (layer.weight.numpy(), layer.bias.numpy()):
        assert np.abs(values).max() <= bound
        assert np.abs(values).max() > 0.85 * bound
        assert abs(values.mean()) < 0.3 * bound


def test_init_functions() -> None:
    lm.manual_seed(0)
    t = lm.empty((200, 100))
    assert abs(nn.init.normal_(t, 1, 2).numpy().std() - 2) < 0.05
    assert (
        abs(nn.init.kaiming_normal_(t, nonlinearity="relu").numpy().std() - np.sqrt(2 / 100))
        < 0.005
    )
    assert (
        abs(nn.init.kaiming_normal_(t, mode="fan_out", nonlinearity="relu").numpy().std() - 0.1)
        < 0.005
    )
    assert abs(nn.init.xavier_normal_(t).numpy().std() - np.sqrt(2 / 300)) < 0.005
    limit = np.sqrt(6 / 300)
    assert 0.95 * limit < np.abs(nn.init.xavier_uniform_(t).numpy()).max() <= limit
    truncated = nn.init.trunc_normal_(t, 0, 1, -1, 1).numpy()
    assert np.abs(truncated).max() <= 1
    assert abs(truncated.std() - 0.54) < 0.01
    q = nn.init.orthogonal_(t, 2.0).numpy()
    np.testing.assert_allclose(q.T @ q, 4 * np.eye(100), atol=1e-4)
    assert nn.init.eye_(lm.empty((2, 3))).tolist() == [[1, 0, 0], [0, 1, 0]]
    weight = nn.Parameter(lm.zeros((2, 2)))
    assert nn.init.ones_(weight) is weight
    assert weight.requires_grad
    assert weight.tolist() == [[1.0, 1.0], [1.0, 1.0]]
    with pytest.raises(ShapeError, match="no fan in"):
        nn.init.kaiming_uniform_(lm.empty(3))
    with pytest.raises(OptionError, match="did you mean 'relu'"):
        nn.init.calculate_gain("rellu")


def test_manual_seed_repeats_a_model() -> None:
    def weights() -> list[Any]:
        lm.manual_seed(3)
        return nn.Linear(4, 4).weight.tolist()

    assert weights() == weights()


def test_batch_norm_state_over_steps() -> None:
    layer = nn.BatchNorm1d(2)
    batches = [RNG.standard_normal((5, 2)).astype(np.float32) for _ in range(3)]
    mean, var = np.zeros(2), np.ones(2)
    for batch in batches:
        layer(lm.asarray(batch))
        mean = 0.9 * mean + 0.1 * batch.mean(0)
        var = 0.9 * var + 0.1 * batch.var(0, ddof=1)
    np.testing.assert_allclose(layer.running_mean.numpy(), mean, rtol=1e-5)
    np.testing.assert_allclose(layer.running_var.numpy(), var, rtol=1e-5)
    assert layer.num_batches_tracked.item() == 3
    before = layer.running_mean.tolist()
    layer.eval()(lm.asarray(batches[0]))
    assert layer.running_mean.tolist() == before
    assert not layer.running_mean.requires_grad


def test_batch_norm_cumulative_average() -> None:
    layer = nn.BatchNorm1d(2, momentum=None)
    batches = [RNG.standard_normal((5, 2)).astype(np.float32) for _ in range(3)]
    for batch in batches:
        layer(lm.asarray(batch))
    np.testing.assert_allclose(
        layer.running_mean.numpy(), np.mean(batches, (0, 1)), rtol=1e-4, atol=1e-6
    )


@pytest.mark.parametrize("layer", [nn.BatchNorm1d, nn.InstanceNorm1d])
def test_norms_without_running_statistics_use_the_inputs_own(layer: Any) -> None:
    x = lm.asarray(RNG.standard_normal((3, 2, 4)).astype(np.float32))
    untracked = layer(2, track_running_stats=False)
    np.testing.assert_array_equal(untracked.eval()(x).numpy(), untracked.train()(x).numpy())
    tracked = layer(2, track_running_stats=True).eval()
    tracked.running_mean = None
    with pytest.raises(OptionError, match="running_var without running_mean"):
        tracked(x)


def test_option_errors() -> None:
    with pytest.raises(OptionError, match="groups=3"):
        nn.Conv2d(4, 6, 3, groups=3)
    with pytest.raises(OptionError, match="kernel_size"):
        nn.Conv2d(4, 6, (3, 3, 3))
    with pytest.raises(OptionError, match="num_heads=3"):
        nn.MultiheadAttention(4, 3)
    with pytest.raises(OptionError, match="p=2"):
        nn.Dropout(2)
    with pytest.raises(ShapeError, match="BatchNorm2d"):
        nn.BatchNorm2d(3)(lm.ones((2, 3)))


def attend(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, bias: np.ndarray | float = 0.0
) -> np.ndarray:
    scores = q @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1]) + bias
    return special.softmax(scores, -1) @ v


def test_scaled_dot_product_attention() -> None:
    q, k, v = (RNG.standard_normal((2, 4, length, 8)) for length in (5, 6, 6))
    sdpa = nn.functional.scaled_dot_product_attention
    args = [lm.asarray(each) for each in (q, k, v)]
    np.testing.assert_allclose(sdpa(*args).numpy(), attend(q, k, v), rtol=1e-9)
    hidden = np.where(np.tril(np.ones((5, 6))), 0, -np.inf)
    np.testing.assert_allclose(
        sdpa(*args, is_causal=True).numpy(), attend(q, k, v, hidden), rtol=1e-9
    )
    mask = RNG.random((5, 6)) < 0.7
    mask[:, 0] = True
    found = sdpa(*args, attn_mask=lm.asarray(mask))
    np.testing.assert_allclose(
        found.numpy(), attend(q, k, v, np.where(mask, 0, -np.inf)), rtol=1e-9
    )
    bias = RNG.standard_normal((5, 6))
    found = sdpa(*args, attn_mask=lm.asarray(bias))
    np.testing.assert_allclose(found.numpy(), attend(q, k, v, bias), rtol=1e-9)
    check_gradient(lambda t: sdpa(t, args[1][:1, :1], args[2][:1, :1], is_causal=True), q[:1, :1])


def test_grouped_heads_and_wholly_hidden_rows() -> None:
    sdpa = nn.functional.scaled_dot_product_attention
    q, k, v = (RNG.standard_normal((1, heads, 3, 4)) for heads in (4, 2, 2))
    found = sdpa(*(lm.asarray(each) for each in (q, k, v)), enable_gqa=True)
    np.testing.assert_allclose(found.numpy(), attend(q, k.repeat(2, 1), v.repeat(2, 1)), rtol=1e-9)
    mask = lm.asarray(np.array([[True, False], [False, False]]))
    x = lm.tensor(np.ones((2, 2)), requires_grad=True)
    y = sdpa(x, x, x, attn_mask=mask)
    y.sum().backward()
    assert y.tolist() == [[1.0, 1.0], [0.0, 0.0]]
    assert np.isfinite(x.grad.numpy()).all()
    with pytest.raises(ShapeError, match="query and key must agree"):
        sdpa(lm.ones((2, 3)), lm.ones((2, 4)), lm.ones((2, 4)))
    with pytest.raises(OptionError, match="exclude"):
        sdpa(x, x, x, attn_mask=mask, is_causal=True)


@pytest.mark.parametrize("batch_first", [False, True])
def test_multihead_attention(batch_first: bool) -> None:
    layer = nn.MultiheadAttention(8, 2, batch_first=batch_first, dtype=lm.float64)
    nn.init.normal_(layer.in_proj_bias)
    nn.init.normal_(layer.out_proj.bias)
    q, k, v = (RNG.standard_normal((2, length, 8)) for length in (3, 5, 5))
    w, b = layer.in_proj_weight.numpy(), layer.in_proj_bias.numpy()

    def heads(x: np.ndarray, i: int) -> np.ndarray:
        y = x @ w[8 * i : 8 * i + 8].T + b[8 * i : 8 * i + 8]
        return y.reshape(2, -1, 2, 4).swapaxes(1, 2)

    inner = attend(heads(q, 0), heads(k, 1), heads(v, 2)).swapaxes(1, 2).reshape(2, 3, 8)
    expected = inner @ layer.out_proj.weight.numpy().T + layer.out_proj.bias.numpy()
    given = [lm.asarray(x if batch_first else x.swapaxes(0, 1)) for x in (q, k, v)]
    y, weights = layer(*given)
    found = y.numpy() if batch_first else y.numpy().swapaxes(0, 1)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(weights.numpy().sum(-1), 1)
    assert tuple(weights.shape) == (2, 3, 5)
    fast, none = layer(*given, need_weights=False)
    assert none is None
    np.testing.assert_allclose(fast.numpy(), y.numpy(), rtol=1e-9)
    assert tuple(layer(*given, average_attn_weights=False)[1].shape) == (2, 2, 3, 5)


def test_multihead_attention_masks() -> None:
    layer = nn.MultiheadAttention(4, 2, batch_first=True)
    x = lm.asarray(RNG.standard_normal((2, 3, 4)).astype(np.float32))
    hidden = np.array([[False, False, True], [False, True, True]])
    weights = layer(x, x, x, key_padding_mask=hidden)[1].numpy()
    assert (weights[0, :, 2] == 0).all()
    assert (weights[1, :, 1:] == 0).all()
    future = ~np.tril(np.ones((3, 3), bool))
    both = layer(x, x, x, key_padding_mask=hidden, attn_mask=future)[1].numpy()
    assert (both[:, future] == 0).all()
    causal = layer(x, x, x, attn_mask=None, is_causal=True)[1].numpy()
    np.testing.assert_allclose(causal, layer(x, x, x, attn_mask=future)[1].numpy(), rtol=1e-6)
    added = np.where(future, -np.inf, 0).astype(np.float32)
    np.testing.assert_allclose(causal, layer(x, x, x, attn_mask=added)[1].numpy(), rtol=1e-6)
    single = layer(x[0], x[0], x[0])[0]
    np.testing.assert_allclose(single.numpy(), layer(x, x, x)[0].numpy()[0], rtol=1e-5, atol=1e-6)


def test_small_layers() -> None:
    x = lm.ones((2, 3, 4))
    assert tuple(nn.Flatten()(x).shape) == (2, 12)
    assert tuple(nn.Unflatten(1, (1, 3))(x).shape) == (2, 1, 3, 4)
    assert nn.Identity(1, a=2)(x) is x
    layer = nn.Embedding.from_pretrained(lm.asarray([[1.0], [2.0]]))
    assert not layer.weight.requires_grad
    assert layer(lm.asarray([1])).tolist() == [[2.0]]
    padded = nn.Embedding(3, 2, padding_idx=1)
    assert padded.weight.numpy()[1].tolist() == [0.0, 0.0]


def test_clip_gradients() -> None:
    a, b = lm.tensor([3.0, 0.0], requires_grad=True), lm.tensor([4.0], requires_grad=True)
    ((a * a).sum() / 2 + (b * b).sum() / 2).backward()
    assert nn.utils.clip_grad_norm_([a, b], 1.0).item() == pytest.approx(5.0)
    np.testing.assert_allclose(a.grad.numpy(), [0.6, 0.0], rtol=1e-5)
    assert nn.utils.clip_grad_norm_([a, b], 100.0).item() == pytest.approx(1.0, rel=1e-5)
    np.testing.assert_allclose(b.grad.numpy(), [0.8], rtol=1e-5)
    assert nn.utils.clip_grad_norm_([a, b], 1.0, float("inf")).item() == pytest.approx(
        0.8, rel=1e-5
    )
    nn.utils.clip_grad_value_([a, b], 0.25)
    assert a.grad.tolist() == [0.25, 0.0]
    assert nn.utils.clip_grad_norm_([lm.ones(1)], 1.0).item() == 0.0


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_clipping_gradients_that_are_not_finite(bad: float) -> None:
    a = lm.tensor([3.0, 0.0], requires_grad=True)
    (a * bad).sum().backward()
    with pytest.raises(CheckError, match="not finite"):
        nn.utils.clip_grad_norm_([a], 1.0, error_if_nonfinite=True).item()
    with pytest.raises(CheckError, match="not finite"):
        lm.jit(lambda: nn.utils.clip_grad_norm_([a], 1.0, error_if_nonfinite=True))()


def test_parameter_vectors() -> None:
    net = nn.Linear(2, 1)
    vector = nn.utils.parameters_to_vector(net.parameters())
    nn.utils.vector_to_parameters(vector * 2, net.parameters())
    np.testing.assert_allclose(
        nn.utils.parameters_to_vector(net.parameters()).numpy(), vector.numpy() * 2
    )
    with pytest.raises(ShapeError, match="3 elements"):
        nn.utils.vector_to_parameters(lm.ones(2), net.parameters())
