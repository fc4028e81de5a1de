"""Recurrent layers and Transformers against their equations written out, and what they promise:
causality, masks, state that a jitted step finds.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.special import expit

import lamella as lm
from lamella import nn, optim
from lamella.errors import OptionError, ShapeError

RNG = np.random.default_rng(8)


def close(found: lm.Tensor, expected: Any, tol: float = 1e-5) -> None:
    np.testing.assert_allclose(found.detach().numpy(), expected, rtol=tol, atol=tol)


def weights(layer: nn.Module, suffix: str) -> list[np.ndarray]:
    state = layer.state_dict()
    names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    return [state[f"{name}{suffix}"].numpy().astype(np.float64) for name in names]


def lstm(layer: nn.Module, x: np.ndarray, suffix: str) -> np.ndarray:
    wi, wh, bi, bh = weights(layer, suffix)
    h = c = np.zeros((x.shape[1], wh.shape[1]))
    outputs = []
    for frame in x:
        i, f, g, o = np.split(frame @ wi.T + bi + h @ wh.T + bh, 4, -1)
        c = expit(f) * c + expit(i) * np.tanh(g)
        h = expit(o) * np.tanh(c)
        outputs.append(h)
    return np.stack(outputs)


def gru(layer: nn.Module, x: np.ndarray, suffix: str) -> np.ndarray:
    wi, wh, bi, bh = weights(layer, suffix)
    h = np.zeros((x.shape[1], wh.shape[1]))
    outputs = []
    for frame in x:
        ri, zi, ni = np.split(frame @ wi.T + bi, 3, -1)
        rh, zh, nh = np.split(h @ wh.T + bh, 3, -1)
        r, z = expit(ri + rh), expit(zi + zh)
        h = (1 - z) * np.tanh(ni + r * nh) + z * h
        outputs.append(h)
    return np.stack(outputs)


@pytest.mark.parametrize(("kind", "reference"), [("LSTM", lstm), ("GRU", gru)])
def test_layers_by_their_equations(kind: str, reference: Any) -> None:
    layer = getattr(nn, kind)(3, 5, num_layers=2, bidirectional=True)
    x = RNG.standard_normal((6, 4, 3))
    wanted = x
    for number in range(2):
        forward = reference(layer, wanted, f"_l{number}")
        backward = reference(layer, wanted[::-1], f"_l{number}_reverse")[::-1]
        wanted = np.concatenate([forward, backward], -1)
    output, last = layer(lm.asarray(x.astype(np.float32)))
    close(output, wanted)
    hidden = last[0] if kind == "LSTM" else last
    close(hidden[2], wanted[-1, :, :5])
    close(hidden[3], wanted[0, :, 5:])


def test_cells_are_steps_of_layers() -> None:
    for name in ("RNN", "LSTM", "GRU"):
        layer, cell = getattr(nn, name)(3, 5), getattr(nn, f"{name}Cell")(3, 5)
        cell.load_state_dict({k.removesuffix("_l0"): v for k, v in layer.state_dict().items()})
        x = lm.asarray(RNG.standard_normal((4, 2, 3)).astype(np.float32))
        output, _ = layer(x)
        state = None
        for t in range(4):
            state = cell(x[t], state)
            close(state[0] if name == "LSTM" else state, output[t].detach().numpy())


def test_a_state_continues_a_sequence() -> None:
    layer = nn.LSTM(3, 5, batch_first=True, proj_size=2)
    x = lm.asarray(RNG.standard_normal((2, 7, 3)).astype(np.float32))
    whole, _ = layer(x)
    first, state = layer(x[:, :4])
    second, _ = layer(x[:, 4:], state)
    close(lm.concat([first, second], axis=1), whole.detach().numpy())
    single, (hidden, cell) = layer(x[0])
    close(single, whole[0].detach().numpy())
    assert (hidden.shape, cell.shape) == ((1, 2), (1, 5))


def test_a_jitted_step_trains_a_recurrent_model() -> None:
    lm.manual_seed(0)

    class Counter(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.rnn = nn.GRU(1, 8, batch_first=True)
            self.head = nn.Linear(8, 1)

        def forward(self, x: lm.Tensor) -> lm.Tensor:
            return self.head(self.rnn(x)[0][:, -1])

    model = Counter()
    opt = optim.Adam(model.parameters(), lr=0.02)

    @lm.jit
    def step(x: lm.Tensor, y: lm.Tensor) -> lm.Tensor:
        loss = nn.functional.mse_loss(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss

    x = RNG.integers(0, 2, (64, 6, 1)).astype(np.float32)
    y = x.mean(1)
    losses = [step(lm.asarray(x), lm.asarray(y)).item() for _ in range(150)]
    assert losses[-1] < 0.1 * losses[0]


def test_wrong_input_of_recurrent_layers_is_named() -> None:
    layer = nn.LSTM(3, 5)
    with pytest.raises(ShapeError, match=r"\(2, 4\).* 3\)"):
        layer(lm.ones((2, 4)))
    with pytest.raises(ShapeError, match="state of shapes"):
        layer(lm.ones((2, 4, 3)), (lm.zeros((1, 4, 5)), lm.zeros((1, 3, 5))))
    with pytest.raises(ShapeError, match="no steps"):
        layer(lm.ones((0, 4, 3)))
    with pytest.raises(OptionError, match="proj_size=5"):
        nn.LSTM(3, 5, proj_size=5)
    with pytest.raises(OptionError, match="did you mean 'relu'"):
        nn.RNN(3, 5, nonlinearity="rely")


def test_dropout_between_layers_acts_in_training_only() -> None:
    layer = nn.GRU(3, 5, num_layers=2, dropout=0.5)
    x = lm.asarray(RNG.standard_normal((4, 2, 3)).astype(np.float32))
    assert not np.array_equal(layer(x)[0].detach().numpy(), layer(x)[0].detach().numpy())
    layer.eval()
    close(layer(x)[0], layer(x)[0].detach().numpy())


@pytest.mark.parametrize("norm_first", [False, True])
def test_a_causal_encoder_sees_nothing_later(norm_first: bool) -> None:
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, norm_first=norm_first)
    encoder = nn.TransformerEncoder(layer, 2).eval()
    x = RNG.standard_normal((1, 6, 8)).astype(np.float32)
    changed = x.copy()
    changed[:, 4:] += 1
    one, other = (
        encoder(lm.asarray(each), is_causal=True).detach().numpy() for each in (x, changed)
    )
    np.testing.assert_allclose(one[:, :4], other[:, :4], atol=1e-5)
    assert abs(one[:, 4:] - other[:, 4:]).max() > 1e-2
    mask = nn.Transformer.generate_square_subsequent_mask(6)
    close(encoder(lm.asarray(x), mask), one)


def test_padding_of_memory_is_not_seen() -> None:
    model = nn.Transformer(8, 2, 1, 1, 16, batch_first=True).eval()
    source, target = RNG.standard_normal((2, 5, 8)), RNG.standard_normal((2, 3, 8))
    hidden = np.zeros((2, 5), bool)
    hidden[:, 3:] = True
    other = source.copy()
    other[:, 3:] = 9.0
    one, two = (
        model(
            lm.asarray(each.astype(np.float32)), lm.asarray(target.astype(np.float32)),
            src_key_padding_mask=hidden, memory_key_padding_mask=hidden,
        ).detach().numpy()
        for each in (source, other)
    )  # fmt: skip
    np.testing.assert_allclose(one, two, atol=1e-5)
    with pytest.raises(ShapeError, match="d_model=8"):
        model(lm.ones((2, 5, 4)), lm.ones((2, 3, 8)))


def test_added_keys_of_multihead_attention() -> None:
    attention = nn.MultiheadAttention(8, 2, add_bias_kv=True, add_zero_attn=True)
    x = lm.asarray(RNG.standard_normal((4, 3, 8)).astype(np.float32))
    y, shares = attention(x, x, x, is_causal=True)
    assert y.shape == (4, 3, 8) and shares.shape == (3, 4, 6)
    assert (shares.detach().numpy()[:, 0, 1:4] == 0).all()
    np.testing.assert_allclose(shares.detach().numpy().sum(-1), 1, rtol=1e-5)


def test_parameters_in_containers() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.some = nn.ParameterList([lm.ones(2), lm.zeros(3)])
            self.named = nn.ParameterDict({"a": lm.ones(1)})

    model = Model()
    assert list(model.state_dict()) == ["some.0", "some.1", "named.a"]
    assert len(model.some) == 2 and model.some[-1].shape == (3,) and "a" in model.named
    model.some.append(lm.ones(4))
    del model.named["a"]
    assert [name for name, _ in model.named_parameters()] == ["some.0", "some.1", "some.2"]
    with pytest.raises(IndexError):
        model.some[5]


def test_adaptive_softmax_is_a_distribution() -> None:
    layer = nn.AdaptiveLogSoftmaxWithLoss(8, 20, [4, 10], div_value=2.0)
    x = lm.asarray(RNG.standard_normal((5, 8)).astype(np.float32))
    logs = layer.log_prob(x).detach().numpy()
    np.testing.assert_allclose(np.exp(logs).sum(-1), 1, rtol=1e-5)
    target = np.array([0, 3, 5, 12, 19])
    output, loss = layer(x, lm.asarray(target))
    close(output, logs[np.arange(5), target])
    close(loss, -logs[np.arange(5), target].mean())
    assert layer.predict(x).tolist() == logs.argmax(-1).tolist()
    with pytest.raises(OptionError, match="cutoffs"):
        nn.AdaptiveLogSoftmaxWithLoss(8, 20, [10, 4])


def test_filters_that_return_their_input() -> None:
    conv = nn.Conv2d(4, 4, 3, padding=1, groups=2, bias=False)
    nn.init.dirac_(conv.weight, groups=2)
    x = lm.asarray(RNG.standard_normal((1, 4, 5, 5)).astype(np.float32))
    close(conv(x), x.numpy())
    sparse = nn.init.sparse_(lm.zeros((50, 4)), 0.3).numpy()
    assert (np.count_nonzero(sparse, axis=0) == 35).all()
