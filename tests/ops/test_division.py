"""Quotients and remainders of floats are those of exact division, however large the quotient."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

import lamella as lm

DTYPES = ["float16", "float32", "float64"]


def pairs(dtype: str, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Dividends and divisors of all sizes, ordinary ones, and every pair of special ones."""
    rng = np.random.default_rng(0)
    whole = {"float16": np.uint16, "float32": np.uint32, "float64": np.uint64}[dtype]
    limits = np.finfo(dtype)
    small, least, most = limits.tiny, limits.smallest_subnormal, limits.max
    special = [0.0, -0.0, math.inf, -math.inf, math.nan, 1, -1, most, -most, small, least, -least]
    grid = [part.ravel() for part in np.meshgrid([*special, 3.5, -2.5], [*special, 3.5, -2.5])]
    found = []
    for values in grid:
        bits = rng.integers(0, np.iinfo(whole).max, count, whole, endpoint=True).view(dtype)
        near = rng.standard_normal(count) * 10.0 ** rng.integers(-3, 4, count)
        found.append(np.concatenate([bits, near, values]).astype(dtype))
    return found[0], found[1]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["fmod", "remainder"])
def test_remainders_are_exact(name: str, dtype: str) -> None:
    a, b = pairs(dtype, 3000)
    with np.errstate(all="ignore"):
        expected = getattr(np, name)(a, b)
    found = getattr(lm, name)(lm.asarray(a), lm.asarray(b)).numpy()
    np.testing.assert_array_equal(found, expected)
    numbers = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(found)[numbers], np.signbit(expected)[numbers])


@pytest.mark.parametrize("dtype", DTYPES)
def test_quotients_are_exact_where_the_type_has_them(dtype: str) -> None:
    a, b = pairs(dtype, 3000)
    found = lm.floor_divide(lm.asarray(a), lm.asarray(b)).numpy()
    most = 2 ** (np.finfo(dtype).nmant + 1)
    for x, y, quotient in zip(a.tolist(), b.tolist(), found.tolist(), strict=True):
        if not (math.isfinite(x) and math.isfinite(y) and y):
            continue
        exact = Fraction(x) // Fraction(y)
        if abs(exact) < most:
            assert quotient == exact, (x, y)
        elif math.isfinite(quotient):  # within one rounding of the difference and of the quotient
            assert abs(quotient - exact) <= 2 * Fraction(abs(exact), most), (x, y)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("count", [1, 7, 8, 33])
def test_one_large_quotient_among_others(dtype: str, count: int) -> None:
    """Only the lanes that need long division take its result."""
    a = np.linspace(-9.0, 9.0, count).astype(dtype)
    b = np.full(count, 0.75, dtype)
    for place in {0, count // 2, count - 1}:
        a[place] = 1e30
        found = (lm.asarray(a) % lm.asarray(b)).tolist()
        assert found == np.remainder(a, b).tolist()
        quotient, rest = lm.divmod(lm.asarray(a), lm.asarray(b))
        assert rest.tolist() == found
        np.testing.assert_array_equal(quotient.numpy(), np.floor_divide(a, b))


def test_a_remainder_in_a_row_with_others_is_fused() -> None:
    x = np.linspace(-50, 1e20, 40).astype(np.float32).reshape(5, 8)
    found = lm.jit(lambda x: ((x % 7.25) * 2 + 1).sum(1))(lm.asarray(x)).numpy()
    expected = (np.remainder(x.astype(np.float64), 7.25) * 2 + 1).sum(1)
    np.testing.assert_allclose(found, expected, rtol=1e-6)
