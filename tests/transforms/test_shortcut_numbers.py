"""Shortcuts of compiled functions with numbers that change: what they give, set and refuse."""

from __future__ import annotations

import importlib
import signal
import threading
from typing import Any

import numpy as np
import pytest

import lamella as lm

X = np.arange(6, dtype=np.float32).reshape(2, 3)


class Holder:
    """An object with a number."""

    def __init__(self) -> None:
        self.n = 1
        self.rate = 0.5


@pytest.fixture
def long_calls(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """One entry for each call that no shortcut served."""
    found: list[int] = []
    module = importlib.import_module("lamella.transforms.jit")  # beside the function of its name
    real = module.Call

    def count(*args: Any) -> Any:
        found.append(len(found))
        return real(*args)

    monkeypatch.setattr(module, "Call", count)
    return found


def test_an_argument(long_calls: list[int]) -> None:
    f = lm.jit(lambda x, k: x * k + (k + 1))
    for k in range(2, 6):
        f(X, k)
    del long_calls[:]
    for k in (9, -3, 2**40, 0):
        np.testing.assert_allclose(f(X, k).numpy(), X * k + np.float32(k + 1))
    assert not long_calls
    np.testing.assert_array_equal(f(X, 2.5).numpy(), X * 2.5 + 3.5)  # another type
    np.testing.assert_array_equal(f(X, np.int64(3)).numpy(), X * 3 + 4)
    np.testing.assert_array_equal(f(X, True).numpy(), X + 2)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int32", "int8"])
def test_numbers_at_the_ends_of_types(dtype: str) -> None:
    x = np.array([1, 0, 2], dtype)
    f = lm.jit(lambda x, k: x * k)
    many = [2, 3, 5, 7, 100, -7] if dtype[0] == "i" else [2.0, 3.0, 1e39, 1e-46, -1e39, 5.0]
    for k in many * 2:
        with np.errstate(all="ignore"):
            wanted = x * np.asarray(k).astype(dtype)
        np.testing.assert_array_equal(f(x, k).numpy(), wanted)


def test_attributes_and_what_is_set(long_calls: list[int]) -> None:
    holder, seen = Holder(), {"calls": 0}

    @lm.jit
    def f(x: Any) -> Any:
        holder.n += 2
        seen["calls"] += 1
        return x * holder.rate + holder.n, holder.n

    for i in range(12):
        holder.rate = 0.5 + i
        if i == 6:
            del long_calls[:]
        y, n = f(X)
        assert n == holder.n == 3 + 2 * i
        assert seen["calls"] == i + 1
        np.testing.assert_array_equal(y.numpy(), X * (0.5 + i) + n)
    assert not long_calls
    holder.n = 10**25  # no bounds in Python
    with pytest.raises(lm.errors.OptionError):
        lm.asarray(X.astype(np.int32)) + holder.n
    assert f(X)[1] == 10**25 + 2


def test_branches_on_numbers_have_shortcuts_each(long_calls: list[int]) -> None:
    holder = Holder()

    @lm.jit
    def f(x: Any) -> Any:
        holder.n += 1
        return x * 2 if holder.n % 3 == 0 else x + holder.n

    for i in range(20):
        if i == 12:
            del long_calls[:]
        n = i + 2
        np.testing.assert_array_equal(f(X).numpy(), X * 2 if n % 3 == 0 else X + n)
    assert not long_calls


def test_arithmetic_that_raises_does_so_each_time() -> None:
    f = lm.jit(lambda x, k: x * (1 / k))
    for k in (1, 2, 3, 4):
        np.testing.assert_allclose(f(X, k).numpy(), X / k, rtol=1e-6)
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            f(X, 0)
        np.testing.assert_allclose(f(X, 5).numpy(), X / 5, rtol=1e-6)


def test_a_holder_that_is_replaced() -> None:
    world = {"holder": Holder()}

    @lm.jit
    def f(x: Any) -> Any:
        world["holder"].n += 1
        return x * world["holder"].n

    for n in range(2, 8):
        np.testing.assert_array_equal(f(X).numpy(), X * n)
    old, world["holder"] = world["holder"], Holder()
    for n in range(2, 8):
        np.testing.assert_array_equal(f(X).numpy(), X * n)
    assert (old.n, world["holder"].n) == (7, 7)


def test_numbers_of_modules_and_captured_tensors() -> None:
    class Net(lm.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = 1.0
            self.weight = lm.asarray(X)

        def forward(self, x: Any) -> Any:
            return x * self.weight * self.scale

    net = Net()
    f = lm.jit(net)
    for i in range(8):
        net.scale = 1.0 + i
        if i == 5:
            net.weight.mul_(2)
        wanted = X * X * (1 + i) * (2 if i >= 5 else 1)
        np.testing.assert_array_equal(f(X).numpy(), wanted)
        net.train(i % 2 == 0)


def test_threads_do_not_share_numbers() -> None:
    f = lm.jit(lambda x, k: x + k)
    for k in range(4):
        f(X, k)
    wrong: list[int] = []

    def work(seed: int) -> None:
        found = [(k, f(X, k).numpy()) for k in range(seed, seed + 300)]
        wrong.extend(k for k, y in found if not np.array_equal(y, X + k))

    workers = [threading.Thread(target=work, args=(1000 * i,)) for i in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not wrong


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # in a finaliser
@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs a timer")
def test_what_a_call_sets_is_set_together() -> None:
    holder = Holder()
    holder.rate = 1.0

    @lm.jit
    def f(x: Any) -> Any:
        holder.n += 1
        holder.rate += 1.0
        return x * holder.rate

    fired: list[int] = []

    def interrupt(*_: object) -> None:
        fired.append(1)
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        for i in range(200):
            del fired[:]
            signal.setitimer(signal.ITIMER_REAL, 2e-5 + i * 1e-6)
            try:
                while not fired:
                    f(X)
            except KeyboardInterrupt:
                pass
            assert holder.n == holder.rate
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize(
    "order", [(3.0, np.float64(3.0)), (np.float64(3.0), 3.0), (np.int8(3), 3, np.int64(3))]
)
def test_numbers_of_numpy_are_python_numbers_whatever_came_first(order: tuple[Any, ...]) -> None:
    f = lm.jit(lambda s: (lm.asarray(s), s))
    for number in [*order, *[each + 1 for each in order], *order]:
        made, same = f(number)
        assert made.dtype is lm.asarray(np.asarray(number).item()).dtype
        assert type(same) in (int, float) and same == number
