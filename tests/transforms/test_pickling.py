"""Pickles and copies of what stands for functions: compiled functions, kernels, functions with
rules of their own, and what holds them; here and in a process that starts from nothing.
"""
from __future__ import annotations

import copy
import multiprocessing
import pickle
from typing import Any

import numpy as np
import pytest

import lamella as lm
from lamella import nn

X = np.array([1.0, -2.0, 3.0], np.float32)
PROTOCOLS = range(2, pickle.HIGHEST_PROTOCOL + 1)


@lm.jit
def doubled(x: lm.Tensor) -> lm.Tensor:
    return x * 2


def plain(x: lm.Tensor) -> lm.Tensor:
    return x + 1


def twice(x: Any) -> Any:
    return (x, x.dtype)[0]


compiled = lm.jit(plain, dynamic={"x": {0: "n"}})


@lm.kernel(out=lambda x: x)
def negated(x, y):
    for i in lm.kernel.grid(x.shape[0]):
        y[i] = -x[i]


@negated.vjp
def _negated_vjp(inputs, results, cotangents):
    return -cotangents[0]


def _squares(x, y):
    for i in lm.kernel.grid(x.shape[0]):
        y[i] = x[i] * x[i]


squares = lm.custom_op(lm.kernel(out=twice)(_squares), jvp=None)
fast = lm.jit(negated)


@lm.custom_vjp
def clipped(x: lm.Tensor) -> lm.Tensor:
    return x * 3


def _forward(x: lm.Tensor) -> Any:
    return x * 3, None


def _backward(kept: None, g: lm.Tensor) -> Any:
    return (lm.clip(g, -1, 1),)


clipped.defvjp(_forward, _backward)
renamed = lm.custom_vjp(plain)
renamed.defvjp(_forward, _backward)

FUNCTIONS = {
    "jit": doubled, "jit under another name": compiled, "kernel": negated,
    "kernel under another name": squares, "jit of a kernel": fast, "custom": clipped,
    "custom under another name": renamed, "jit of a custom": lm.jit(clipped),
}  # fmt: skip


class Net(nn.Module):
    """Holds compiled functions in every way."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 2)
        self.act = doubled
        self.kernel = fast

    @lm.jit
    def step(self, x: lm.Tensor) -> lm.Tensor:
        return self.act(self.kernel(self.linear(x)))


def results(value: Any) -> list[Any]:
    """What a child computes with what it was sent."""
    if isinstance(value, Net):
        return [value.step(lm.asarray(X)).tolist()]
    return [value(lm.asarray(X)).tolist()]


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_functions(name: str, protocol: int) -> None:
    f = FUNCTIONS[name]
    wanted = f(lm.asarray(X)).tolist()  # it has a program
    data = pickle.dumps(f, protocol)
    assert len(data) < 400  # by name: no program, no source
    found = pickle.loads(data)
    assert found(lm.asarray(X)).tolist() == wanted
    assert (found is f) == (f in (doubled, negated, clipped))
    assert copy.deepcopy(f) is f and copy.copy(f)(lm.asarray(X)).tolist() == wanted


def test_rules_and_options_come_along() -> None:
    again = pickle.loads(pickle.dumps(renamed))
    assert lm.grad(lambda x: (again(x) * 5).sum())(lm.asarray(X)).tolist() == [1, 1, 1]
    found = pickle.loads(pickle.dumps(compiled))
    for n in (2, 3, 5):
        assert found(lm.zeros(n)).tolist() == [1.0] * n
    assert found.programs == 1


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_modules_and_optimisers(protocol: int) -> None:
    net = Net()
    optimiser = lm.optim.SGD(net.parameters(), lr=0.1)
    net.forward = lm.jit(net.step.__wrapped__)
    whole = lm.jit(nn.Linear(3, 2))
    before = net.step(lm.asarray(X)).tolist()
    for copied in (
        pickle.loads(pickle.dumps((net, optimiser, whole), protocol)),
        copy.deepcopy((net, optimiser, whole)),
    ):
        twin, other, second = copied
        assert twin.step(lm.asarray(X)).tolist() == before
        assert twin.forward(lm.asarray(X)).tolist() == before
        assert second(lm.asarray(X)).tolist() == whole(lm.asarray(X)).tolist()
        twin.step(lm.asarray(X)).sum().backward()
        other.step()
        changed = twin.step(lm.asarray(X)).tolist()
        assert changed != before and twin.forward(lm.asarray(X)).tolist() == changed
    assert net.step(lm.asarray(X)).tolist() == before


def test_functions_that_cannot_be_imported() -> None:
    for f in (lm.jit(lambda x: x), lm.custom_vjp(lambda x: x)):
        with pytest.raises((pickle.PicklingError, AttributeError), match="pickle"):
            pickle.dumps(f)


def test_a_process_that_starts_from_nothing() -> None:
    sent = [*FUNCTIONS.values(), Net()]
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        found = pool.map(results, sent)
    assert found == [results(value) for value in sent]


def pickled(value: Any) -> Any:
    return pickle.loads(pickle.dumps(value))


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickled])
def test_a_copied_generator_goes_on_by_itself(copied: Any) -> None:
    ours = lm.random.Generator(5)
    lm.random.normal((3,), key=ours)
    twin = copied(ours)
    want = lm.random.normal((4,), key=ours).tolist()
    assert lm.random.normal((4,), key=twin).tolist() == want
    assert lm.random.normal((4,), key=twin).tolist() != want
