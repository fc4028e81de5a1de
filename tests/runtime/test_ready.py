"""Single operations on values: the program that is known is run, and only where it is the right
one.
"""

from __future__ import annotations

from threading import Thread
from typing import Any

import numpy as np
import pytest

import lamella as lm
from lamella.config import config
from lamella.errors import LamellaIndexError, NaNError, OutOfMemoryError
from lamella.runtime import buffer, evaluate, repeated


def value(size: int = 50, seed: int = 0) -> Any:
    x = lm.asarray(np.random.default_rng(seed).normal(size=size).astype(np.float32))
    lm.eval(x)
    return x


def test_the_second_call_lays_nothing_out(searches: list[int]) -> None:
    x, y = value(), value(seed=1)
    for _ in range(3):
        for function in (lm.exp, lambda x: x * 2.5, lambda x: x - y, lm.sort, lm.sum):
            lm.eval(function(x))
    lm.eval()
    del searches[:]
    for number in (2.5, 7.0):
        assert np.array_equal((x * number).numpy(), x.numpy() * np.float32(number))
    assert np.array_equal((y - x).numpy(), y.numpy() - x.numpy())
    assert np.array_equal(lm.exp(y).numpy(), lm.exp(y.copy()).numpy())
    assert lm.sum(y).item() == lm.sum(lm.asarray(y.numpy())).item()
    assert len(searches) <= 2  # the copy, and an array taken in


def test_sizes_that_come_again_lay_nothing_out(searches: list[int]) -> None:
    arrays = [value(size, size) for size in (50, 60, 70, 900)]
    functions = (lm.exp, lambda x: x * 2.5, lm.sort, lm.sum, lm.linalg.norm, lm.cumsum)
    for _ in range(4):
        for x in arrays:
            for function in functions:
                lm.eval(function(x))
    del searches[:]
    made = [[function(x).numpy() for function in functions] for x in arrays]
    assert not searches
    for x, (exp, scaled, ordered, total, norm, sums) in zip(arrays, made, strict=True):
        exact = x.numpy()
        assert np.array_equal(scaled, exact * np.float32(2.5))
        assert np.array_equal(ordered, np.sort(exact))
        assert np.allclose(exp, np.exp(exact), rtol=1e-6)
        assert np.allclose([total, norm], [exact.sum(), np.linalg.norm(exact)], rtol=1e-4)
        assert np.allclose(sums, np.cumsum(exact), atol=1e-4)


def test_rows_and_slices_lay_nothing_out(searches: list[int]) -> None:
    x = value(60).reshape(6, 10)
    exact = x.numpy()

    def subscripts(i: int) -> list[Any]:
        return [i, -1 - i, slice(i, i + 3), (slice(None, None, -2), i), (..., None, i)]

    for i in (0, 1, 2):
        for each in subscripts(i):
            lm.eval(x[each])
    del searches[:]
    for i in (3, 1):
        for each in subscripts(i):
            assert np.array_equal(x[each].numpy(), exact[each])
    assert not searches


def test_calls_on_the_results_of_calls_lay_nothing_out(searches: list[int]) -> None:
    x = value(60).reshape(6, 10)
    exact = x.numpy()

    def squares(i: int) -> Any:
        row = x[i]
        return lm.clip(lm.outer(row, row), -1, 1)

    for _ in range(3):
        lm.eval(lm.outer(x[0], x[1]))
        lm.eval(squares(0))
    del searches[:]
    for i, j in ((2, 3), (4, 4)):
        product = lm.outer(x[i], x[j]).numpy()
        assert np.array_equal(product, np.outer(exact[i], exact[j]))
        limited = squares(i).numpy()
        assert np.array_equal(limited, np.clip(np.outer(exact[i], exact[i]), -1, 1))
    assert not searches
    row = x[5]
    product = lm.outer(row, row).numpy()  # the row has a value of its own now
    assert np.array_equal(product, np.outer(exact[5], exact[5]))
    assert np.array_equal(row.numpy(), exact[5])


def test_a_graph_of_sizes_seen_before_is_found_by_its_key(monkeypatch: pytest.MonkeyPatch) -> None:
    arrays = [value(size, size) for size in (50, 60, 70)]

    def total(x: Any) -> Any:
        return (lm.exp(x) * x - 1).sum()

    for x in arrays:
        lm.eval(total(x))
    monkeypatch.setattr(evaluate, "_find", None)
    for x in arrays[1:]:
        exact = x.numpy().astype(np.float64)
        assert np.isclose(total(x).item(), (np.exp(exact) * exact - 1).sum(), rtol=1e-5)


def test_an_operand_twice_is_no_other_program() -> None:
    x, y = value(), value(seed=1)
    z = value(seed=2)
    lm.eval(z)
    for a, b in ((x, y), (x, x), (y, x), (y, y), (x, x)):
        assert np.array_equal((a - b).numpy(), a.numpy() - b.numpy())
        chosen = lm.where(a > b, a, a)
        assert np.array_equal(chosen.numpy(), a.numpy())
        for c, d, e in ((a, b, z), (z, a, b), (b, z, a), (a, a, b), (z, z, z)):
            wanted = np.where(c.numpy() > 0, d.numpy(), e.numpy())
            assert np.array_equal(lm.where(c > 0, d, e).numpy(), wanted)
            clipped = np.clip(c.numpy(), d.numpy(), np.maximum(d.numpy(), e.numpy()))
            assert np.array_equal(lm.clip(c, d, lm.maximum(d, e)).numpy(), clipped)


def test_the_second_call_with_an_operand_twice_lays_nothing_out(searches: list[int]) -> None:
    x, y = value(), value(seed=1)
    for _ in range(3):
        lm.eval(x * x)
        lm.eval(lm.logaddexp(x, x))
    del searches[:]
    assert np.array_equal((y * y).numpy(), y.numpy() ** 2)
    wanted = np.logaddexp(y.numpy(), y.numpy())
    np.testing.assert_allclose(lm.logaddexp(y, y).numpy(), wanted, rtol=1e-6)
    assert not searches


def test_parameters_shapes_and_types_tell_programs_apart() -> None:
    x = lm.asarray(np.arange(12, dtype=np.float32).reshape(3, 4))
    for _ in range(2):
        for array in (x, x.astype(lm.float64), x.reshape(4, 3), x.astype(lm.int32)):
            lm.eval(array)
            for axis in (0, 1):
                wanted = array.numpy().sum(axis)
                assert np.array_equal(lm.sum(array, axis=axis).numpy(), wanted)


def test_settings_are_heeded_when_they_change() -> None:
    x = lm.asarray(np.array([-1.0, 4.0], np.float32))
    lm.eval(x)
    for _ in range(2):
        assert np.isnan(lm.sqrt(x).numpy()[0])
    with config(debug_nans=1), pytest.raises(NaNError):
        lm.sqrt(x).numpy()
    with config(backend="interpret"):
        assert lm.sqrt(x).numpy()[1] == 2
    with lm.profile() as profile:
        lm.eval(lm.sqrt(x))
    assert len(profile.rows()) == 1
    with config(optimize=0):
        assert not repeated._known
        assert lm.sqrt(x).numpy()[1] == 2


def test_tracked_results_keep_their_history() -> None:
    x = value()
    lm.eval(lm.exp(x))
    w = lm.tensor(x.numpy(), requires_grad=True)
    y = lm.exp(w)
    lm.eval(y)
    y.sum().backward()
    assert np.allclose(w.grad.numpy(), np.exp(x.numpy()), rtol=1e-6)


def test_a_fault_is_raised_each_time_and_leaves_nothing_behind() -> None:
    x, good, bad = value(), lm.asarray([1, 2]), lm.asarray([1, 50])
    lm.eval(good, bad)
    for _ in range(3):
        assert lm.take(x, good).tolist() == x.numpy()[[1, 2]].tolist()
        with pytest.raises(LamellaIndexError, match=r"test_ready\.py"):
            lm.take(x, bad).numpy()


def test_a_fault_of_an_open_size_is_raised_each_time() -> None:
    good, bad = lm.asarray([1, 2]), lm.asarray([1, 1000])
    arrays = [value(size) for size in (50, 60, 70)]
    for _ in range(3):
        for x in arrays:
            assert lm.take(x, good).tolist() == x.numpy()[[1, 2]].tolist()
            with pytest.raises(LamellaIndexError, match=r"test_ready\.py"):
                lm.take(x, bad).numpy()


def test_no_room_is_an_error_with_the_shape(monkeypatch: pytest.MonkeyPatch) -> None:
    x = value()
    lm.eval(lm.exp(x))

    def full(nbytes: int) -> Any:
        raise OutOfMemoryError(f"no room for {nbytes}")

    y = lm.exp(x)
    monkeypatch.setattr(buffer, "empty", full)
    with pytest.raises(OutOfMemoryError, match=r"float32\[50\]"):
        lm.eval(y)
    monkeypatch.undo()
    assert np.isfinite(y.numpy()).all()


@pytest.mark.parametrize("sizes", [(20_000,) * 4, (20_000, 30_000, 20_000, 40_000)])
def test_threads_at_the_same_program(sizes: tuple[int, ...]) -> None:
    arrays = [value(size, seed) for seed, size in enumerate(sizes)]
    wanted = [np.sort(x.numpy()) for x in arrays]
    wrong: list[int] = []

    def work(i: int) -> None:
        wrong.extend(
            i for _ in range(50) if not np.array_equal(lm.sort(arrays[i]).numpy(), wanted[i])
        )

    threads = [Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
