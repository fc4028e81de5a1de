"""Rows between the passes over them: kept near, or computed again where that costs no more."""

from __future__ import annotations

import numpy as np
import pytest

import lamella as lm

F = lm.nn.functional


def text(f, *shape: int) -> str:
    """The kernels of ``f``."""
    return lm.jit(f).lower(lm.zeros(shape)).text(2)


def test_differences_from_the_mean_are_computed_again():
    assert "local" not in text(lambda x: F.layer_norm(x, x.shape[1:]), 64, 1024)


@pytest.mark.usefixtures("optimized")
def test_functions_of_rows_are_kept():
    assert "local r1: float32[1024]" in text(lambda x: F.softmax(x, -1), 64, 1024)


@pytest.mark.usefixtures("optimized")
@pytest.mark.parametrize("size", [50_257, 100_000])
def test_long_rows_are_kept_beside_the_caches_not_in_results(size: int):
    found = text(lambda x: F.softmax(x, -1), 64, size)
    assert f"float32[{size}]" in found
    assert found.count("  out ") == 1


@pytest.mark.parametrize("size", [5, 1024, 50_257, 150_000])
def test_norms_and_softmax_of_long_rows(size: int):
    x = np.random.default_rng(size).normal(size=(64, size)).astype(np.float32)
    wide = x.astype(float)
    e = np.exp(wide - wide.max(1, keepdims=True))
    found = F.softmax(lm.asarray(x), 1).numpy()
    # a lane of four adds up twice as many terms as one of eight, and rounds as often
    np.testing.assert_allclose(found, e / e.sum(1, keepdims=True), rtol=4e-6)
    norm = (wide - wide.mean(1, keepdims=True)) / np.sqrt(wide.var(1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(F.layer_norm(lm.asarray(x), (size,)).numpy(), norm, atol=3e-6)


@pytest.mark.parametrize("name", ["max", "min"])
def test_nans_come_through_wherever_they_stand(name: str):
    rng = np.random.default_rng(0)
    for size in (1, 2, 7, 16, 33, 64, 100, 1024):
        for at in {0, size // 2, size - 1}:
            x = rng.normal(size=(4, size)).astype(np.float32)
            x[1, at], x[2, at], x[3] = np.nan, np.inf, -np.inf
            with np.errstate(invalid="ignore"):
                np.testing.assert_array_equal(
                    getattr(lm, name)(lm.asarray(x), axis=1).numpy(), getattr(x, name)(1)
                )


def sums(x):
    """Three folds over the rows."""
    return x.sum(0), (x * x).sum(0), x.max(0)


@pytest.mark.usefixtures("optimized")
def test_sums_over_rows_read_whole_rows_in_one_pass():
    found = text(sums, 4096, 1000)
    assert found.count("  local ") == 3  # a row of sums for each
    assert found.count("  in b0: ") == 1
    assert "  local " not in text(sums, 4096, 64)  # few columns are summed in registers


@pytest.mark.parametrize("shape", [(4096, 1000), (1024, 1024), (1000, 520), (8, 256, 192),
                                   (2048, 20_000), (300, 3000)])  # fmt: skip
def test_sums_over_rows(shape: tuple[int, ...]):
    x = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    axes = tuple(range(len(shape) - 1))
    x[..., 3], x[(0,) * len(axes)][5] = np.inf, np.nan
    y = lm.asarray(x)
    wide = x.astype(np.float64)
    one, two, most = lm.sum(y, axes), lm.sum(y * y, axes), lm.max(y, axes)
    np.testing.assert_allclose(one.numpy(), wide.sum(axes), rtol=1e-5, atol=2e-3)
    np.testing.assert_allclose(two.numpy(), (wide * wide).sum(axes), rtol=1e-5)
    np.testing.assert_array_equal(most.numpy(), x.max(axes))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64", "int32"])
def test_sums_over_rows_of_other_types(dtype: str):
    x = np.random.default_rng(0).integers(-4, 5, (1024, 200))
    y = lm.asarray(x).astype(getattr(lm, dtype))
    np.testing.assert_array_equal(lm.sum(y, 0).astype(lm.float64).numpy(), x.sum(0))
