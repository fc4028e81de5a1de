"""Graphs that come again: the function written for one runs for graphs that are like it alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lamella as lm
from lamella.errors import LamellaIndexError
from lamella.graph.deferred import Deferred
from lamella.runtime import repeated
from lamella.tensor.deferring import deferring

TIMES = 6  # evaluations after which graphs of this size have their function


def value(*shape: int, seed: int = 0) -> Any:
    x = lm.asarray(np.random.default_rng(seed).uniform(0.5, 2, shape).astype(np.float32))
    lm.eval(x)
    return x


def chain(xp: Any, x: Any, y: Any) -> Any:
    z = xp.exp(x * 0.5 + 0.25) - y
    z = xp.tanh(z) * z / (y + 3.0)
    return xp.sqrt(z * z + 1.0)


def test_chains_that_come_again_lay_nothing_out(searches: list[int]) -> None:
    x, y = value(50), value(50, seed=1)
    for _ in range(TIMES):
        lm.eval(chain(lm, x, y))
    del searches[:]
    for a, b in ((x, y), (y, x), (value(50, seed=2), y)):
        del searches[:]
        wanted = chain(np, a.numpy().astype(np.float64), b.numpy().astype(np.float64))
        np.testing.assert_allclose(chain(lm, a, b).numpy(), wanted, rtol=1e-5)
        assert not searches
    chain(lm, x, x).numpy()  # one input twice is another program
    assert searches


def test_results_are_those_of_the_long_way() -> None:
    x, y = value(50), value(50, seed=1)
    repeated.forget()
    found = [chain(lm, x, y).numpy() for _ in range(TIMES)]
    assert repeated._known
    assert all(np.array_equal(each, found[0]) for each in found)


GRAPHS: list[Callable[[Any, Any, Any], Any]] = [
    lambda xp, x, y: xp.exp(x) * xp.exp(x),
    lambda xp, x, y: xp.exp(x) * xp.exp(y),
    lambda xp, x, y: (e := xp.exp(x)) * e,
    lambda xp, x, y: xp.sqrt(x) * xp.exp(y),
    lambda xp, x, y: x * y,
    lambda xp, x, y: x * x,
    lambda xp, x, y: x * xp.exp(x),
    lambda xp, x, y: xp.exp(x) * x,
    lambda xp, x, y: (x + y) * (y + x),
    lambda xp, x, y: (x + 1.5) * y,
    lambda xp, x, y: (x + 1.5) * (y + 1.5),
    lambda xp, x, y: xp.reshape(xp.reshape(x, (4, 1)) * xp.reshape(y, (1, 4)), (16,))[:4] * x,
    lambda xp, x, y: xp.reshape(xp.reshape(x, (2, 2)) * xp.reshape(y, (2, 2)), (4,)) * x,
    lambda xp, x, y: xp.concatenate([x[:2], y[2:]]) * x,
    lambda xp, x, y: xp.concatenate([x[:1], y[1:2], x[2:]]) * x,
    lambda xp, x, y: xp.concatenate([x, y]).sum() * x,
    lambda xp, x, y: xp.concatenate([x, y, x]).sum() * x,
]


def test_graphs_that_end_alike_are_told_apart() -> None:
    rng = np.random.default_rng(0)
    values = [value(4, seed=seed) for seed in range(3)]
    for number in [*range(len(GRAPHS)), *rng.integers(len(GRAPHS), size=300)]:
        x, y = (values[i] for i in rng.integers(3, size=2))
        graph = GRAPHS[number]
        wanted = graph(np, x.numpy().astype(np.float64), y.numpy().astype(np.float64))
        np.testing.assert_allclose(graph(lm, x, y).numpy(), wanted, rtol=1e-5)


def test_a_value_inside_makes_it_another_graph() -> None:
    x = value(4)
    for i in range(12):
        inner = lm.exp(x)
        if i % 3 == 2:
            lm.eval(inner)
        np.testing.assert_allclose((inner * x).numpy(), np.exp(x.numpy()) * x.numpy(), rtol=1e-5)


def test_calls_on_what_is_pending_lay_nothing_out(searches: list[int]) -> None:
    x, y = value(9), value(9, seed=1)
    for i in range(10):
        if i == 9:
            del searches[:]
        a, b = (x, y) if i % 2 else (y, x)
        found = lm.where(a > b, lm.clip(a * 2.0, 1, 3), b).numpy()
        exact = a.numpy(), b.numpy()
        wanted = np.where(exact[0] > exact[1], np.clip(exact[0] * 2, 1, 3), exact[1])
        np.testing.assert_array_equal(found, wanted)
    assert not searches


def test_several_results(searches: list[int]) -> None:
    x, y = value(9), value(9, seed=1)
    for i in range(10):
        if i == 9:
            del searches[:]
        a = x + y
        b = lm.exp(a)
        c = b * 2.0
        lm.eval()
        total = x.numpy() + y.numpy()
        np.testing.assert_allclose(a.numpy(), total, rtol=1e-6)
        np.testing.assert_allclose(b.numpy(), np.exp(total), rtol=1e-5)
        np.testing.assert_allclose(c.numpy(), np.exp(total) * 2, rtol=1e-5)
    assert not searches


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
def test_numbers_of_any_size(dtype: str) -> None:
    x = lm.asarray([0.5, -2.0]).astype(dtype)
    lm.eval(x)
    exact = x.numpy().astype(np.float64)
    with np.errstate(over="ignore"):
        for number in [1.5, 2, 1e39, float("inf"), -1e39, 3.25] * 2:
            wanted = (exact * number).astype(x.numpy().dtype)
            assert np.array_equal((x * number).numpy(), wanted)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "uint32", "int64", "uint64"])
def test_whole_numbers(dtype: str) -> None:
    x = lm.asarray([1, 3]).astype(dtype)
    lm.eval(x)
    low, high = (0 if dtype[0] == "u" else -5), 117
    for number in [2, low, high] * 3:
        wanted = x.numpy() + np.array(number, dtype)
        assert np.array_equal((x + number).numpy(), wanted)


def test_a_fault_is_raised_each_time() -> None:
    x, good, bad = value(5), lm.asarray([1, 2]), lm.asarray([1, 50])
    lm.eval(good, bad)
    for _ in range(TIMES):
        assert np.array_equal((x.take(good) + 1).numpy(), x.numpy()[[1, 2]] + 1)
        with pytest.raises(LamellaIndexError, match=r"test_repeated\.py"):
            (x.take(bad) + 1).numpy()


def test_gradients_go_the_long_way() -> None:
    x = lm.tensor([1.0, 2.0], requires_grad=True)
    for _ in range(TIMES):
        y = lm.exp(x) * x
        lm.eval(y)
        x.grad = None
        y.sum().backward()
        exact = x.detach().numpy()
        np.testing.assert_allclose(x.grad.numpy(), np.exp(exact) * (1 + exact), rtol=1e-5)
        with lm.no_grad():
            np.testing.assert_allclose((lm.exp(x) * x).numpy(), np.exp(exact) * exact, rtol=1e-5)


def test_operations_on_calls_look_inside_none(searches: list[int]) -> None:
    x, y = value(6, 4), value(6, 4, seed=1)
    exact, other = x.numpy(), y.numpy()
    graphs: list[Callable[[int], tuple[Any, Any]]] = [
        lambda i: (x + x[i], exact + exact[i]),
        lambda i: (x + y[i], exact + other[i]),
        lambda i: (x[i] - x[i], exact[i] - exact[i]),
        lambda i: ((row := x[i]) * row, exact[i] ** 2),
        lambda i: (x[i] * y[i + 1], exact[i] * other[i + 1]),
        lambda i: (lm.where(x[i] > 1, x[i], y), np.where(exact[i] > 1, exact[i], other)),
        lambda i: (x - 1.5, exact - np.float32(1.5)),
        lambda i: (x - x[i, i], exact - exact[i, i]),
        lambda i: (lm.sign(x[i]) * 1.5, np.sign(exact[i]) * np.float32(1.5)),
    ]
    for i in (0, 1, 2, 0, 1, 2, 3):
        for graph in graphs:
            if i == 3:
                del searches[:]
            found, wanted = graph(i)
            inner = [each for each in found.node.inputs if type(each) is Deferred]
            np.testing.assert_array_equal(found.numpy(), wanted)
            if i == 3:
                assert not searches
                assert all(type(each) is Deferred for each in inner)


def test_results_of_one_call_are_not_those_of_two() -> None:
    x, y = value(3, 8), value(3, 8, seed=1)

    def spans(a: Any, b: Any) -> Any:
        largest, at = lm.topk(a, 2)
        other, _ = lm.topk(b, 2)
        return largest - other, at

    for i in range(8):
        a, b = [(x, y), (x, x), (y, x)][i % 3]
        found, at = spans(a, b)
        lm.eval(found, at)
        ordered = [np.sort(each.numpy(), 1)[:, ::-1][:, :2] for each in (a, b)]
        np.testing.assert_array_equal(found.numpy(), ordered[0] - ordered[1])
        np.testing.assert_array_equal(at.numpy(), np.argsort(-a.numpy(), 1)[:, :2])


def test_what_all_calls_share_may_be_given_too() -> None:
    kept = value(5)

    @deferring
    def shifted(x: Any) -> Any:
        return lm.exp(x) - kept

    table = kept.numpy()
    for x in (kept, kept, kept, kept, value(5, seed=1), kept, value(5, seed=2)) * 2:
        found = shifted(x).numpy()
        np.testing.assert_allclose(found, np.exp(x.numpy()) - table, rtol=1e-5)
