"""Where the numbers of a compiled function go: places outside, exceptions, other transformations,
copies, training.
"""

from __future__ import annotations

import copy
import operator
import pickle
import threading
import types
from typing import Any

import numpy as np
import pytest

import lamella as lm
from lamella import nn
from tests.transforms.holders import Layer, Plain

X = np.arange(1, 4, dtype=np.float32)


# -- where a number goes ---------------------------------------------------------------------------
def test_a_number_put_elsewhere_is_a_number() -> None:
    box, seen, other = [1], [0], types.SimpleNamespace()

    @lm.jit
    def f(x: Any) -> Any:
        seen.append(box[0])
        other.last = box[0] * 2
        return x * box[0]

    for i in range(5):
        box[0] = i
        np.testing.assert_array_equal(f(X).numpy(), X * i)
        assert other.last == 2 * i and type(other.last) is int
        assert seen[-1] == i and type(seen[-1]) is int
    assert seen == [0, 0, 1, 2, 3, 4]


def test_a_number_moved_from_one_place_to_another() -> None:
    box = types.SimpleNamespace(now=1.0, before=0.0)

    @lm.jit
    def f(x: Any) -> Any:
        box.before, box.now = box.now, box.now * 2
        return x * (box.now - box.before)

    now, before = 1.0, 0.0
    for _ in range(6):
        f(X)
        before, now = now, now * 2
        assert (box.now, box.before) == (now, before)
    assert f.programs <= 3


def test_a_number_becomes_a_tensor_and_another_type() -> None:
    box: dict[str, Any] = {"total": 0.0, "n": 0}

    @lm.jit
    def f(x: Any) -> Any:
        box["total"] = box["total"] + x.sum()
        box["n"] = box["n"] + 0.5
        return x

    for i in range(4):
        f(X)
        assert float(box["total"]) == 6.0 * (i + 1)
        assert box["n"] == 0.5 * (i + 1)


def test_a_closure_that_keeps_a_number() -> None:
    box = [1.0]
    f = lm.jit(lambda x: (x, (lambda t: lambda: t)(box[0])))
    for i in range(4):
        box[0] = i / 2
        assert f(X)[1]() == i / 2


def test_objects_among_the_arguments() -> None:
    f = lm.jit(lambda box, x: (setattr(box, "value", box.value + 1), x * box.value)[1])
    first, second = Plain(), Plain()
    for i in range(5):
        np.testing.assert_array_equal(f(first, X).numpy(), X * np.float32(i + 1.5))
        assert (first.value, second.value) == (i + 1.5, 0.5)
    np.testing.assert_array_equal(f(second, X).numpy(), X * np.float32(1.5))
    assert (first.value, second.value) == (5.5, 1.5)
    assert f.programs == 3


def test_modules_among_the_arguments_are_not_taken_for_one_another() -> None:
    f = lm.jit(lambda module, x: x * module.value)
    modules = [Layer(), Layer(), Layer()]
    for i in range(9):
        modules[i % 3].value = float(i % 4)
        for module in modules:
            np.testing.assert_array_equal(f(module, X).numpy(), X * np.float32(module.value))


def test_what_others_change_meanwhile_is_theirs() -> None:
    stats = {"n": 1, "of others": 1}

    def elsewhere() -> None:
        thread = threading.Thread(target=operator.setitem, args=(stats, "of others", 50))
        thread.start()
        thread.join()

    @lm.jit
    def f(x: Any) -> Any:
        elsewhere()
        return x * stats["n"]

    for i in range(4):  # opened after the first
        stats["of others"] = i
        f(X)
        assert stats["of others"] == (50 if i < 2 else i)
    np.testing.assert_array_equal(f(X[:2]).numpy(), X[:2])
    assert stats["of others"] == 50, "set while it was traced, by another thread"
    stats["of others"] = 7
    f(X[:2])
    assert stats["of others"] == 7, "no program sets it"


# -- errors ----------------------------------------------------------------------------------------
def test_an_exception_leaves_numbers_as_they_were() -> None:
    box, state = types.SimpleNamespace(n=0), lm.zeros(3)

    @lm.jit
    def f(x: Any) -> Any:
        box.n += 1
        state.add_(x)
        if box.n == 4:
            raise RuntimeError("four")
        return x * box.n

    for _ in range(3):
        f(X)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="four"):
            f(X)
        assert box.n == 3 and type(box.n) is int
        np.testing.assert_array_equal(state.numpy(), 3 * X)
    box.n = 10
    np.testing.assert_array_equal(f(X).numpy(), X * 11)
    assert f.programs <= 3


def test_a_program_that_fails_leaves_numbers_as_they_were() -> None:
    box, index = [0], lm.asarray([0])

    @lm.jit
    def f(x: Any, i: Any) -> Any:
        box[0] += 1
        return x[i] * box[0]

    for i in range(3):
        assert f(X, index).tolist() == [1.0 + i]
    with pytest.raises(IndexError):
        f(X, lm.asarray([7]))
    assert box == [3]
    assert f(X, index).tolist() == [4.0]
    assert f.programs == 2


def test_lower_changes_nothing() -> None:
    box = [0]

    @lm.jit
    def f(x: Any) -> Any:
        box[0] += 1
        return x * box[0]

    f.lower(lm.asarray(X))
    assert box == [0]
    f(X)
    assert box == [1]


# -- other transformations -------------------------------------------------------------------------
def test_nested_jit_and_derivatives() -> None:
    box = types.SimpleNamespace(t=1.0, n=0)

    @lm.jit
    def inner(x: Any) -> Any:
        box.n += 1
        return (x**2 * box.t).sum()

    outer = lm.jit(lambda x: (lm.grad(inner)(x), lm.vmap(lambda y: y * box.t)(x)))
    for i in range(5):
        box.t = i / 2
        gradient, mapped = outer(X)
        np.testing.assert_array_equal(gradient.numpy(), 2 * X * np.float32(i / 2))
        np.testing.assert_array_equal(mapped.numpy(), X * np.float32(i / 2))
        assert box.n == i + 1
    assert outer.programs == 2
    np.testing.assert_allclose(float(inner(X)), (X**2).sum() * 2.0)
    assert box.n == 6


def test_derivatives_of_a_compiled_call_replay_its_numbers() -> None:
    box = [1.0]
    f = lm.jit(lambda x: (x**3 * box[0]).sum())
    for value in (1.0, 2.0, 0.5, 4.0):
        box[0] = value
        x = lm.asarray(X, copy=True).requires_grad_()
        y = f(x)
        box[0] = 77.0  # what is differentiated is the call as it was
        y.backward()
        np.testing.assert_allclose(x.grad.numpy(), 3 * X**2 * value, rtol=1e-6)
        box[0] = value
        np.testing.assert_allclose(lm.grad(f)(lm.asarray(X)).numpy(), 3 * X**2 * value, rtol=1e-6)
    assert f.programs <= 4, "two for each kind of argument"


def test_the_derivative_by_a_number() -> None:
    box = [1.0]
    f = lm.jit(lambda x: lm.grad(lambda t: (x * t**2).sum())(box[0]))
    for value in (1.0, 2.0, 3.0, 4.0):
        box[0] = value
        np.testing.assert_allclose(f(X).numpy(), X.sum() * 2 * value, rtol=1e-6)
    assert f.programs == 2


def test_loops_and_branches_inside() -> None:
    box = [1.0, 1]

    def f(x: Any) -> Any:
        swept = lm.scan(lambda c, y: (c * box[0] + y, c), 0.0, x)[0]
        chosen = lm.cond(x.sum() > 3, lambda: x * box[1], lambda: x)
        return lm.checkpoint(lambda z: z * box[0])(x) + swept + chosen

    compiled = lm.jit(f)
    for i in range(5):
        box[:] = i / 2, i
        t, carry = i / 2, np.float32(0)
        for y in X:
            carry = carry * np.float32(t) + y
        np.testing.assert_allclose(compiled(X).numpy(), X * t + carry + X * i, rtol=1e-6)
    assert compiled.programs == 2


# -- training --------------------------------------------------------------------------------------
class Annealed(nn.Module):
    """Counts its calls and lowers its temperature."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 2)
        self.calls, self.temperature = 0, 4.0

    def forward(self, x: Any) -> Any:
        if self.training:
            self.calls += 1
            self.temperature = max(self.temperature * 0.9, 0.5)
        return self.linear(x) / self.temperature


def test_a_training_step_is_the_same_as_without() -> None:
    def train(compiled: bool) -> tuple[list[float], int, float, int]:
        lm.manual_seed(0)
        model = Annealed()
        optimizer = lm.optim.Adam(model.parameters(), lr=0.05)

        def step(x: Any) -> Any:
            loss = (model(x) ** 2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            return loss

        run = lm.jit(step) if compiled else step
        losses = [float(run(lm.asarray(X[None] + i))) for i in range(30)]
        return losses, model.calls, model.temperature, getattr(run, "programs", 0)

    losses, calls, temperature, programs = train(True)
    expected = train(False)
    np.testing.assert_allclose(losses, expected[0], rtol=1e-5)
    assert (calls, temperature) == expected[1:3] == (30, 0.5)
    assert programs <= 4


# -- copies, sharing -------------------------------------------------------------------------------
def test_copied_and_pickled_holders() -> None:
    model = Annealed()
    f = lm.jit(model)
    for _ in range(4):
        f(X)
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert other.calls == 4 and type(other.calls) is int
        g = lm.jit(other)
        for _ in range(3):
            g(X)
        assert (other.calls, model.calls) == (7, 4)
        assert g.programs == 2


def test_two_functions_share_a_number() -> None:
    model = Annealed()
    count, read = lm.jit(model), lm.jit(lambda x: x * model.calls + model.temperature)
    for i in range(6):
        count(X)
        expected = X * np.float32(i + 1) + np.float32(model.temperature)
        np.testing.assert_array_equal(read(X).numpy(), expected)
    assert (count.programs, read.programs) == (2, 2)


def test_other_functions_see_what_a_call_has_set() -> None:
    drop = nn.Dropout(0.5)
    other = lm.jit(lambda x: x * drop.p)

    @lm.jit
    def f(x: Any) -> Any:
        drop.p = drop.p / 2
        return x * drop.p

    for i in range(5):
        np.testing.assert_array_equal(other(X).numpy(), X * np.float32(0.5 ** (i + 1)))
        np.testing.assert_array_equal(f(X).numpy(), X * np.float32(0.5 ** (i + 2)))
    assert (f.programs, other.programs) == (2, 2)


def test_without_optimisations() -> None:
    box = [1.0]
    f = lm.jit(lambda x: (x * box[0], box[0]))
    with lm.config(optimize=False):
        for value in (1.0, 2.0, 3.0):
            box[0] = value
            np.testing.assert_array_equal(f(X)[0].numpy(), X * np.float32(value))
    assert f.programs == 2
