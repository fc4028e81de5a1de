"""Functions under PyTorch's names against NumPy's meaning of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lamella as lm
from lamella.errors import LamellaError

RNG = np.random.default_rng(1)
A, S = RNG.normal(size=(4, 5)), RNG.normal(size=(3, 5))
I = RNG.integers(0, 4, (3, 5))  # noqa: E741
STEPS: dict[str, Callable[[float, float], float]] = {
    "sum": lambda a, b: a + b, "prod": lambda a, b: a * b, "amax": max, "amin": min,
}  # fmt: skip


@pytest.mark.parametrize("include_self", [False, True])
@pytest.mark.parametrize("reduce", STEPS)
def test_scatter_reduce_meets_one_element_after_the_other(reduce: str, include_self: bool) -> None:
    want, fresh = A.copy(), set()
    for row, column in np.ndindex(I.shape):
        place = (I[row, column], column)
        first = not include_self and place not in fresh
        fresh.add(place)
        value = S[row, column]
        want[place] = value if first else STEPS[reduce](want[place], value)
    got = lm.jit(lambda a: lm.scatter_reduce(a, 0, I, S, reduce, include_self))(lm.asarray(A))
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-12)


def test_logcumsumexp() -> None:
    x = np.concatenate([RNG.normal(size=(3, 40)) * 200, np.full((3, 2), -np.inf)], 1)[:, ::-1]
    np.testing.assert_allclose(lm.logcumsumexp(x, 1), np.logaddexp.accumulate(x, 1), rtol=1e-12)
    rows = lm.vmap(lambda r: lm.logcumsumexp(r, 0))(lm.asarray(x.copy()))
    np.testing.assert_allclose(rows.numpy(), np.logaddexp.accumulate(x, 1), rtol=1e-12)


def test_mode_counts() -> None:
    x = RNG.integers(0, 4, (5, 30))
    values, indices = lm.mode(x, 1)
    for row, value, index in zip(x, values.tolist(), indices.tolist(), strict=True):
        kinds, counts = np.unique(row, return_counts=True)
        assert value == kinds[counts.argmax()] and index == np.flatnonzero(row == value)[-1]
    with pytest.raises(LamellaError, match=r"^\[mode\]"):
        lm.mode(np.zeros((2, 0)))


def test_every_synonym_is_there() -> None:
    for name, (module, own) in lm._OTHERS.items():
        assert getattr(lm, name).__name__ in (own, name), module
    for window in ("hann", "hamming", "blackman", "bartlett"):
        got = getattr(lm, f"{window}_window")(16, False).numpy()
        want = getattr(np, {"hann": "hanning"}.get(window, window))(16)
        np.testing.assert_allclose(got, want, atol=1e-7)


@pytest.mark.parametrize("act", [
    lambda: lm.scatter_reduce(A, 0, I, S, "add"), lambda: lm.scatter_reduce(A, 0, I[0], S, "sum"),
    lambda: lm.index_reduce(A, 0, [0], A[:1], "summ"), lambda: lm.renorm(A, 2, 0, -1.0),
    lambda: lm.t(np.ones((2, 2, 2))), lambda: lm.div(1, 2, rounding_mode="up"),
    lambda: lm.logcumsumexp([1j], 0),
    lambda: lm.scatter_reduce(A, 0, I + 9, S, "prod").numpy(),
])  # fmt: skip
def test_misuse(act: Callable[[], Any]) -> None:
    with pytest.raises((LamellaError, IndexError), match=r"^\["):
        act()
