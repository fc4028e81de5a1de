"""Long rows, which a radix sort puts in order: against NumPy's stable sort."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lamella as lm

SPECIAL = [np.nan, np.inf, -np.inf, 0.0, -0.0, 5e-324, -5e-324, 1e300, -1e300, 1.0, -1.0]


def expected(x: np.ndarray, descending: bool) -> np.ndarray:
    if not descending:
        return np.argsort(x, kind="stable")
    return len(x) - 1 - np.argsort(x[::-1], kind="stable")[::-1]


@settings(max_examples=25, deadline=None)
@given(
    length=st.sampled_from([63, 64, 65, 255, 256, 257, 1009, 5000]),
    kind=st.sampled_from("bBhHiIqQefd"), spread=st.sampled_from(["few", "all", "special"]),
    descending=st.booleans(), seed=st.integers(0, 99),
)  # fmt: skip
def test_any_row(length: int, kind: str, spread: str, descending: bool, seed: int) -> None:
    rng = np.random.default_rng(seed)
    dtype = np.dtype(kind)
    if dtype.kind == "f":
        x = rng.standard_normal(length)
        x = rng.choice(SPECIAL, length) if spread == "special" else x
        with np.errstate(over="ignore"):
            x = (np.round(x) if spread == "few" else x).astype(dtype)
    else:
        ends = np.iinfo(dtype)
        low, high = (0, 3) if spread == "few" else (ends.min, ends.max)
        x = rng.integers(low, high, length, dtype=dtype, endpoint=True)
    found = lm.argsort(lm.asarray(x), descending=descending).numpy()
    np.testing.assert_array_equal(found, expected(x, descending))


@pytest.mark.parametrize("axis", [0, 1])
def test_rows_of_a_matrix(axis: int) -> None:
    x = np.random.default_rng(0).standard_normal((100, 130)).astype(np.float32)
    np.testing.assert_array_equal(lm.sort(lm.asarray(x), axis=axis).numpy(), np.sort(x, axis))


def test_a_long_row_in_memory_of_its_own() -> None:
    x = np.random.default_rng(0).integers(0, 1000, 300_000)
    found = lm.argsort(lm.asarray(x)).numpy()
    np.testing.assert_array_equal(found, np.argsort(x, kind="stable"))
