"""Long rows, which a radix sort puts in order, and the first of an order: against NumPy's stable
sort.
"""

from __future__ import annotations

import re

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


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("kind", "efdbBiIq")
@pytest.mark.parametrize(("length", "k"), [(64, 3), (1000, 250), (8193, 1), (20000, 10)])
def test_the_first_of_an_order(length: int, k: int, kind: str, largest: bool) -> None:
    """Chosen without sorting the row, of equals the first; long rows in parts."""
    drawn = np.random.default_rng(length).standard_normal((3, length)) * 20
    x = np.abs(drawn).astype(kind)
    if x.dtype.kind == "f":
        x = drawn.astype(kind)
        x[0], x[1, ::71], x[1, 1::71], x[2, ::97] = np.round(x[0]), 0.0, -0.0, np.nan
        x[1, 5::53] = np.inf if largest else -np.inf
        x[2, : k // 2] = np.nan if largest else np.inf
    found, places = lm.topk(lm.asarray(x), k, largest=largest)
    order = np.stack([expected(row, largest)[:k] for row in x])
    np.testing.assert_array_equal(places.numpy(), order)
    np.testing.assert_array_equal(found.numpy(), np.take_along_axis(x, order, 1))


def test_the_last_elements_of_all_come_before_what_fills_up_the_parts() -> None:
    x = np.full(8200, -np.inf, np.float32)
    np.testing.assert_array_equal(lm.topk(lm.asarray(x), 9).indices.numpy(), np.arange(9))
    x[:] = np.nan
    found = lm.topk(lm.asarray(x), 9, largest=False).indices.numpy()
    np.testing.assert_array_equal(found, np.arange(9))


def test_the_work_of_a_row_is_that_of_what_it_reads() -> None:
    """Few are chosen of many: counted by its results, a row was too little to share out."""
    x = lm.asarray(np.zeros((100, 1000), np.float32))
    text = lm.jit(lambda x: lm.topk(x, 3).indices).lower(x).text(2)
    assert max(int(work) for work in re.findall(r"work (\d+)", text)) >= 1000
