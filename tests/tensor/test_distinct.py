"""Distinct elements of many, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import lamella as lm
from lamella.config import config

N = 20_000
RNG = np.random.default_rng(0)
INPUTS = {
    "few": RNG.integers(0, 256, N),
    "negative": RNG.integers(-3000, -100, N).astype(np.int32),
    "bytes": RNG.integers(-128, 128, N).astype(np.int8),
    "large": RNG.integers(2**62, 2**62 + 100, N),
    "wide": RNG.integers(-(2**63), 2**63 - 1, N),
    "unsigned": RNG.integers(0, 2**32, N).astype(np.uint32),
    "longest": RNG.integers(0, 2**64, N, dtype=np.uint64),
    "one": np.full(N, 7),
    "limits": np.array([-(2**63), 2**63 - 1] * N),
    "floats": RNG.normal(size=N).round(2).astype(np.float32),
    "doubles": RNG.normal(size=(100, N // 100)).round(3),
    "nans": np.where(RNG.random(N) < 0.3, np.nan, RNG.normal(size=N).round(1)),
    "only nans": np.full(N, np.nan, np.float32),
    "infinities": np.where(RNG.random(N) < 0.3, np.inf, -np.inf),
    "halves": RNG.normal(size=N).astype(np.float16),
    "bools": RNG.random(N) < 0.5,
    "complex": RNG.normal(size=N).round(1) + 1j,
}


@pytest.mark.parametrize("name", INPUTS)
def test_distinct_elements_of_many(name: str) -> None:
    array = INPUTS[name]
    wanted = np.unique(array)
    with config(backend="llvm"):
        found = lm.unique(lm.asarray(array))
        values = lm.unique_values(array) if name != "nans" and name != "only nans" else found
    assert found.numpy().dtype == wanted.dtype
    assert np.array_equal(found.numpy(), wanted, equal_nan=array.dtype.kind in "fc")
    assert values.shape == found.shape
