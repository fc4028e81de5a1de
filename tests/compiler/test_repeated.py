"""Elements that each stand in several lanes are read once and moved, under masks too."""

from __future__ import annotations

import numpy as np
import pytest

import lamella as lm
from lamella.config import config
from lamella.nn import functional as F

CASES = (
    ("bool", 2), ("int8", 4), ("uint16", 2), ("int32", 8), ("int64", 2), ("float16", 4),
    ("bfloat16", 2), ("float32", 2), ("float32", 3), ("float32", 4), ("float64", 4),
)  # fmt: skip


@pytest.mark.parametrize(("dtype", "times"), CASES)
def test_repeats_of_every_type(dtype: str, times: int) -> None:
    draw = np.random.default_rng(times)
    for columns in (4, 7, 61):
        x = lm.asarray(draw.integers(0, 2 if dtype == "bool" else 99, (3, columns))).astype(dtype)
        y = lm.jit(lambda x: lm.repeat(x, times, axis=1))(x)
        np.testing.assert_array_equal(
            y.astype("float64").numpy(), np.repeat(x.astype("float64").numpy(), times, axis=1)
        )


@pytest.mark.parametrize("target", ["", "x86-64-v2"])
def test_repeats_inside_sums_of_indices(target: str) -> None:
    """Repeated elements beside others, of repeats, under masks, and at steps other than one."""
    draw = np.random.default_rng(0)
    a = draw.normal(size=(5, 24)).astype(np.float32)

    def f(x: lm.Tensor) -> tuple[lm.Tensor, ...]:
        twice = lm.repeat(x, 2, axis=1)
        return (
            lm.repeat(twice, 4, axis=1), twice[:, 3:41] * 2, lm.repeat(x[:, ::3], 2, axis=1),
            lm.pad(twice, ((0, 0), (2, 5))) + lm.pad(lm.tile(x, (1, 2)), ((0, 0), (5, 2))),
            lm.sum(lm.repeat(x, 8, axis=1).reshape(5, 48, 4), axis=2), lm.repeat(x[:, 1::5], 8, 1),
        )  # fmt: skip

    twice = np.repeat(a, 2, axis=1)
    wanted = (
        np.repeat(a, 8, axis=1), twice[:, 3:41] * 2, np.repeat(a[:, ::3], 2, axis=1),
        np.pad(twice, ((0, 0), (2, 5))) + np.pad(np.tile(a, (1, 2)), ((0, 0), (5, 2))),
        twice * 4, np.repeat(a[:, 1::5], 8, axis=1),
    )  # fmt: skip
    with config(target=target, cache=0):
        for y, value in zip(lm.jit(f)(lm.asarray(a)), wanted, strict=True):
            np.testing.assert_allclose(y.numpy(), value, rtol=1e-6)


def test_enlarging_gathers_nothing() -> None:
    x = lm.ones((1, 3, 8, 16))
    for factor in (2, 4):
        enlarge = lm.jit(lambda x, k=factor: F.interpolate(x, scale_factor=k, mode="nearest"))
        assert "gather" not in enlarge.lower(x).text(3)
