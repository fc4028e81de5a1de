"""One page that shows the whole system works: arrays, a gradient, a training step, jit."""

from __future__ import annotations

import numpy as np

import lamella as lm
from lamella import nn, optim


def test_sum() -> None:
    x = np.arange(6.0).reshape(2, 3)
    assert lm.sum(lm.asarray(x)).item() == x.sum()


def test_chain_of_operations() -> None:
    x = np.linspace(-2.0, 2.0, 101)
    y = lm.tanh(lm.asarray(x)) * 2 + 1
    np.testing.assert_allclose(y.numpy(), np.tanh(x) * 2 + 1, rtol=1e-12)


def test_matmul() -> None:
    a, b = np.random.default_rng(0).normal(size=(2, 17, 17))
    np.testing.assert_allclose(
        (lm.asarray(a) @ lm.asarray(b)).numpy(), a @ b, rtol=1e-12, atol=1e-12
    )


def test_views_do_not_alias() -> None:
    x = lm.asarray(np.arange(4.0))
    z = x[::-1]
    x[0] = 7.0
    assert x.tolist() == [7.0, 1.0, 2.0, 3.0]
    assert z.tolist() == [3.0, 2.0, 1.0, 0.0]


def test_backward() -> None:
    t = lm.tensor([1.0, -2.0, 3.0], requires_grad=True)
    lm.sum(t * t).backward()
    assert t.grad.tolist() == [2.0, -4.0, 6.0]


def test_gradients_of_functions() -> None:
    x = lm.asarray(np.array([0.5, 1.5]))
    np.testing.assert_allclose(lm.grad(lambda v: lm.sum(lm.sin(v)))(x).numpy(), np.cos([0.5, 1.5]))
    second = lm.vmap(lm.grad(lm.grad(lambda v: v * v * v)))(x)
    np.testing.assert_allclose(second.numpy(), [3.0, 9.0])


def sine(seed: int) -> tuple[nn.Module, optim.SGD, lm.Tensor, lm.Tensor]:
    lm.manual_seed(seed)
    model = nn.Sequential(nn.Linear(1, 16), nn.Tanh(), nn.Linear(16, 1))
    x = lm.asarray(np.linspace(-1, 1, 64, dtype=np.float32)[:, None])
    return model, optim.SGD(model.parameters(), lr=0.1, momentum=0.9), x, lm.sin(2 * x)


def train(step, x: lm.Tensor, y: lm.Tensor) -> list[float]:
    return [step(x, y).item() for _ in range(60)]


def test_a_training_loop_learns_and_the_compiled_step_gives_the_same() -> None:
    losses = []
    for transform in (lambda step: step, lm.jit):
        model, opt, x, y = sine(seed=3)

        def step(x, y, model=model, opt=opt):
            loss = nn.functional.mse_loss(model(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            return loss

        losses.append(train(transform(step), x, y))
    assert losses[0][-1] < losses[0][0] / 20
    np.testing.assert_allclose(losses[1], losses[0], rtol=1e-3)


def test_jit_sees_a_changed_learning_rate() -> None:
    model, opt, x, y = sine(seed=1)

    @lm.jit
    def step(x, y):
        loss = nn.functional.mse_loss(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss

    step(x, y)
    opt.param_groups[0]["lr"] = 0.0
    opt.param_groups[0]["momentum"] = 0.0
    step(x, y)
    before = next(iter(model.parameters())).numpy().copy()
    step(x, y)
    np.testing.assert_array_equal(next(iter(model.parameters())).numpy(), before)
