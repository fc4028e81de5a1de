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


@pytest.mark.usefixtures("optimized")
@pytest.mark.parametrize("width", [64, 200])
def test_moments_are_updated_in_place(width: int) -> None:
    lm.manual_seed(0)
    model = nn.Linear(width, width)
    opt = optim.AdamW(model.parameters(), lr=1e-2)
    x = lm.ones((8, width))
    step = lm.jit(lambda x: _step(model, opt, x))
    step(x)
    state = opt.state[model.weight]
    before = _address(state["exp_avg"]), _address(state["exp_avg_sq"])
    step(x)
    state = opt.state[model.weight]
    assert (_address(state["exp_avg"]), _address(state["exp_avg_sq"])) == before


@pytest.mark.usefixtures("optimized")
def test_gradients_take_over_the_memory_of_those_before() -> None:
    model, opt, x = _model()
    step = lm.jit(lambda x: _step(model, opt, x))
    step(x)
    assert model.weight.grad is not None
    before = _address(model.weight.grad)
    step(x)
    assert _address(model.weight.grad) == before


@pytest.mark.parametrize("kept", ["tensor", "array", "alias", "node"])
def test_gradients_that_are_held_keep_their_values(kept: str) -> None:
    model, opt, x = _model()
    step = lm.jit(lambda x: _step(model, opt, x))
    step(x)
    grad = model.weight.grad
    assert grad is not None
    value = grad.numpy().copy()
    held = {
        "tensor": lambda: grad, "array": grad.numpy, "alias": lambda: lm.positive(grad),
        "node": lambda: lm.reshape(grad, (-1,)),
    }[kept]()  # fmt: skip
    grad = None
    step(x)
    assert np.array_equal(np.asarray(held).reshape(64, 64), value)
    assert not np.array_equal(model.weight.grad.numpy(), value)


def test_gradients_written_over_are_those_of_eager_steps() -> None:
    (model, opt, x), (other, other_opt, _) = _model(), _model()
    step = lm.jit(lambda x: _step(model, opt, x))
    for _ in range(4):
        step(x)
        _step(other, other_opt, x)
        for mine, theirs in zip(model.parameters(), other.parameters(), strict=True):
            assert np.allclose(mine.grad.numpy(), theirs.grad.numpy(), rtol=1e-4, atol=1e-6)
            assert np.allclose(mine.numpy(), theirs.numpy(), rtol=1e-4, atol=1e-6)


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


def _words() -> tuple[nn.Module, optim.Optimizer]:
    lm.manual_seed(0)
    model = nn.Sequential(nn.Embedding(50, 32), nn.Linear(32, 50))
    return model, optim.Adam(model.parameters(), lr=1e-2)


def _predict(model: nn.Module, opt: optim.Optimizer, x: lm.Tensor, y: lm.Tensor) -> lm.Tensor:
    loss = nn.functional.nll_loss(nn.functional.log_softmax(model(x), dim=-1), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    return loss


def _all(model: nn.Module, opt: optim.Optimizer) -> list[lm.Tensor]:
    states = [opt.state[p] for p in model.parameters()]
    return [*model.parameters(), *(s[k] for s in states for k in ("exp_avg", "exp_avg_sq"))]


@pytest.mark.usefixtures("optimized")
def test_a_program_that_checks_indices_first_updates_in_place() -> None:
    model, opt = _words()
    x, y = lm.asarray(np.arange(20) % 7), lm.asarray(np.arange(20) % 50)
    step = lm.jit(lambda x, y: _predict(model, opt, x, y))
    step(x, y)
    before = [_address(t) for t in _all(model, opt)]
    step(x, y)
    assert [_address(t) for t in _all(model, opt)] == before
    assert step.lower(x, y).memory < sum(t.node.value.nbytes for t in _all(model, opt))


@pytest.mark.parametrize("at", ["token", "label", "both"])
def test_a_fault_before_a_state_is_written_over_changes_nothing(at: str) -> None:
    model, opt = _words()
    good = lm.asarray(np.arange(20) % 7), lm.asarray(np.arange(20) % 50)
    x, y = (t.numpy().copy() for t in good)
    if at != "label":
        x[13] = 50
    if at != "token":
        y[19] = -51
    step = lm.jit(lambda x, y: _predict(model, opt, x, y))
    step(*good)
    before = [t.detach().numpy().copy() for t in _all(model, opt)]
    for _ in range(2):
        with pytest.raises(IndexError):
            step(lm.asarray(x), lm.asarray(y))
        for tensor, array in zip(_all(model, opt), before, strict=True):
            np.testing.assert_array_equal(tensor.detach().numpy(), array)
    after = step(*good).item()
    other, opt = _words()
    step = lm.jit(lambda x, y: _predict(other, opt, x, y))
    step(*good)
    assert step(*good).item() == after


@pytest.mark.usefixtures("optimized")
def test_where_the_last_check_is_late_nothing_is_written_over() -> None:
    table = lm.tensor(np.ones((4, 3), np.float32))
    picked = lm.tensor(np.zeros(3, np.float32))

    @lm.jit
    def step(i: lm.Tensor) -> lm.Tensor:
        table.add_(1.0)
        picked.copy_(table.sum(axis=0)[i])
        return picked.sum()

    assert step(lm.asarray([0, 1, 2])).item() == 24.0
    with pytest.raises(IndexError):
        step(lm.asarray([0, 1, 3]))
    np.testing.assert_array_equal(table.numpy(), np.full((4, 3), 2.0))
    np.testing.assert_array_equal(picked.numpy(), np.full(3, 8.0))


@pytest.mark.usefixtures("optimized")  # alone, rows are read before any is chosen
def test_indices_that_no_chosen_element_has_are_no_faults() -> None:
    table = lm.tensor(np.ones((4, 8), np.float32))

    @lm.jit
    def step(i: lm.Tensor) -> lm.Tensor:
        rows = lm.where((i < 4)[:, None], table[i], 0.0)
        table.add_(1.0)
        return rows.sum()

    assert step(lm.asarray([0, 9, 3])).item() == 16.0
    assert step(lm.asarray([7, 9, 3])).item() == 16.0


class _Language(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words, self.layer = nn.Embedding(30, 16), nn.LSTM(16, 64)
        self.pairs = nn.Parameter(lm.random.normal((6, 7, 16)))
        self.head = nn.Linear(64, 30)

    def forward(self, x: lm.Tensor) -> lm.Tensor:
        more = self.pairs[x % 6, x % 7]
        return self.head(self.layer(self.words(x) + more)[0])


def _language(jit: bool, steps: int) -> list[np.ndarray]:
    lm.manual_seed(0)
    model = _Language()
    opt = optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    def step(x: lm.Tensor) -> lm.Tensor:
        predicted = model(x[:-1]).reshape(-1, 30)
        loss = nn.functional.cross_entropy(predicted, x[1:].reshape(-1))
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss

    run = lm.jit(step) if jit else step
    rng = np.random.default_rng(0)
    for _ in range(steps):
        run(lm.asarray(rng.integers(0, 30, (9, 4))))
    if jit:
        before = _address(model.words.weight), _address(model.layer.weight_hh_l0)
        run(lm.asarray(rng.integers(0, 30, (9, 4))))
        assert before == (_address(model.words.weight), _address(model.layer.weight_hh_l0))
    else:
        run(lm.asarray(rng.integers(0, 30, (9, 4))))
    return [p.detach().numpy() for p in model.parameters()]


@pytest.mark.usefixtures("optimized")
def test_recurrent_language_models_are_updated_in_place() -> None:
    for found, expected in zip(_language(True, 3), _language(False, 3), strict=True):
        np.testing.assert_allclose(found, expected, rtol=2e-4, atol=2e-5)
