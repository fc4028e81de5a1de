"""State that a jitted step rebinds is updated where it lies, unless anything else can see it."""

from __future__ import annotations

import numpy as np
import pytest

import lamella as lm
from lamella import nn, optim


def _model() -> tuple[nn.Module, optim.Optimizer, lm.Tensor]:
    lm.manual_seed(0)
    model = nn.Linear(64, 64)
    x = lm.asarray(np.random.default_rng(0).standard_normal((8, 64)).astype(np.float32))
    return model, optim.Adam(model.parameters(), lr=1e-2), x


def _address(tensor: lm.Tensor) -> int:
    return tensor.node.value.ptr


def _step(model: nn.Module, opt: optim.Optimizer, x: lm.Tensor) -> lm.Tensor:
    loss = (model(x) ** 2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    return loss


@pytest.mark.usefixtures("optimized")
def test_parameters_are_updated_in_place() -> None:
    model, opt, x = _model()
    step = lm.jit(lambda x: _step(model, opt, x))
    step(x)
    before = _address(model.weight)
    step(x)
    assert _address(model.weight) == before


def test_snapshots_and_views_keep_their_values() -> None:
    model, opt, x = _model()
    step = lm.jit(lambda x: _step(model, opt, x))
    step(x)
    snapshot, state = model.weight.detach(), model.state_dict()
    array = opt.state[model.weight]["exp_avg"].numpy()
    kept = snapshot.numpy().copy(), array.copy()
    for _ in range(3):
        step(x)
    np.testing.assert_array_equal(snapshot.numpy(), kept[0])
    np.testing.assert_array_equal(state["weight"].numpy(), kept[0])
    np.testing.assert_array_equal(array, kept[1])
    assert np.abs(model.weight.detach().numpy() - kept[0]).max() > 1e-3


def test_the_same_numbers_as_without() -> None:
    eager, opt, x = _model()
    for _ in range(5):
        _step(eager, opt, x)
    model, opt2, _ = _model()
    step = lm.jit(lambda x: _step(model, opt2, x))
    for _ in range(5):
        step(x)
    np.testing.assert_allclose(
        model.weight.detach().numpy(), eager.weight.detach().numpy(), rtol=1e-5, atol=1e-6
    )


def test_an_index_fault_loses_no_state() -> None:
    table = lm.tensor(np.ones((4, 3), np.float32))

    @lm.jit
    def add_row(i: lm.Tensor) -> lm.Tensor:
        table.add_(1.0)
        return table[i].sum()

    assert add_row(lm.asarray([0])).item() == 6.0
    with pytest.raises(IndexError):
        add_row(lm.asarray([9]))
    np.testing.assert_array_equal(table.numpy(), np.full((4, 3), 2.0))
