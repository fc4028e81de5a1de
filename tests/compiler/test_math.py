"""The elementary functions of machine code: their stated errors, in units in the last place, and
special values.

float32 is compared with NumPy and SciPy in float64 on drawn bit patterns and ordinary ranges,
float64 with mpmath on samples.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import mpmath
import numpy as np
import pytest
from scipy import special

from lamella.compiler.mathlib import expand_math
from lamella.dtypes import DType, bfloat16, float16, float32, float64, int32, int64, uint8
from lamella.ir.dim import Dim
from lamella.ir.loops import Apply, BufferParam, For, Kernel, Load, Store, Var
from tests.support.llvm_backend import NAMES, addresses, run_kernel_llvm, target_named

pytestmark = pytest.mark.makes_no_program

Array = np.ndarray[Any, Any]
NUMPY: dict[str, Callable[..., Array]] = {
    "exp": np.exp, "exp2": np.exp2, "expm1": np.expm1, "log": np.log, "log2": np.log2,
    "log10": np.log10,
    "log1p": np.log1p, "sin": np.sin, "cos": np.cos, "tan": np.tan, "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan, "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh, "asinh": np.arcsinh,
    "acosh": np.arccosh, "atanh": np.arctanh, "erf": special.erf, "erfc": special.erfc,
}  # fmt: skip
BOUNDS = {  # (float32, float64), as the modules of lamella.compiler.mathlib state them
    "exp": (1.1, 1.1), "exp2": (1.2, 1.2), "expm1": (1.6, 1.7), "log": (1.1, 1.1), "log2": (1.5,
    1.5),
    "log10": (1.5, 1.5), "log1p": (1.7, 1.2), "sin": (0.6, 1.0), "cos": (0.6, 1.0), "tan": (0.6,
    2.0),
    "asin": (1.6, 1.6), "acos": (1.5, 1.5), "atan": (1.9, 1.5), "sinh": (2.0, 2.0), "cosh": (1.6,
    1.6),
    "tanh": (1.6, 2.0), "asinh": (0.6, 2.0), "acosh": (0.6, 2.2), "atanh": (0.6, 2.0), "erf": (1.5,
    1.2),
    "erfc": (0.6, 4.5),
}  # fmt: skip
LEAST = {"float32": 2.0**-149, "float64": 2.0**-1074}


def kernel_of(op: str, dtype: DType, count: int) -> Kernel:
    """``y[j] = op(x0[j], …)``."""
    j = Var("j", Dim("n"))
    buffers = [BufferParam(f"x{k}", dtype, "in") for k in range(count)]
    value = Apply(op, tuple(Load(f"x{k}", j, dtype) for k in range(count)), dtype)
    body = For(Var("i", 1), "grid", (For(j, "lanes", (Store("y", j, value),)),))
    name = f"{op}_{dtype.name}"
    return Kernel(name, (*buffers, BufferParam("y", dtype, "out")), (), ("n",), body)


@cache
def compiled(op: str, dtype: DType, count: int, name: str) -> dict[str, int]:
    return addresses([kernel_of(op, dtype, count)], target_named(name))


def apply(op: str, dtype: DType, *inputs: Array, name: str = "host") -> Array:
    """``op`` of arrays, in machine code."""
    given = [np.ascontiguousarray(x, dtype.numpy) for x in inputs]
    arrays = {f"x{k}": x for k, x in enumerate(given)} | {"y": np.zeros_like(given[0])}
    known = compiled(op, dtype, len(inputs), name)
    kernel = kernel_of(op, dtype, len(inputs))
    run_kernel_llvm(kernel, arrays, {}, {"n": given[0].size}, target_named(name), known)
    return arrays["y"]


def samples(count: int) -> Array:
    """float32 numbers: any bits, the ranges where functions are used, and their edges."""
    rng = np.random.default_rng(0)
    drawn = [
        rng.integers(0, 2**32, 4 * count, dtype=np.uint32).view(np.float32),
        *(rng.uniform(-r, r, count).astype(np.float32) for r in (1, 20, 110, 1e5)),
        (1 + rng.uniform(-1e-3, 1e-3, count)).astype(np.float32),
    ]
    edges = [0.0, -0.0, np.inf, -np.inf, np.nan, 1, -1, 0.5, -0.5, 1e-45, -1e-45, 1.17e-38, 3.4e38,
        88.72,
             88.73, 89.41, -103.9, -104.1, 2, 4, 8, 10, 100, 1000, 0.55, 0.93,
             0.41421357]  # fmt: skip
    return np.concatenate([*drawn, np.array(edges, np.float32)])


def check(got: Array, want: Array, dtype: DType, bound: float) -> None:
    """``got`` within ``bound`` ulp of ``want``, given in float64; infinities, nans and signs of
    zeros equal.
    """
    with np.errstate(all="ignore"):
        rounded = want.astype(dtype.numpy)
        np.testing.assert_array_equal(np.isnan(got), np.isnan(rounded))
        ulp = np.spacing(np.abs(rounded)).astype(np.float64)
        ulp = np.where(np.isfinite(ulp), np.maximum(ulp, LEAST[dtype.name]), 2.0**104)
        error = np.abs(got.astype(np.float64) - want) / ulp
        infinite = np.isinf(got) | np.isinf(rounded)
        np.testing.assert_array_equal(got[infinite & (error > 1)], rounded[infinite & (error > 1)])
    worst = float(np.max(error[np.isfinite(error)], initial=0.0))
    assert worst <= bound, f"{worst} ulp"
    zeros = (got == 0) & (rounded == 0)
    np.testing.assert_array_equal(np.signbit(got[zeros]), np.signbit(rounded[zeros]))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("op", NUMPY)
def test_float32_within_bounds(op: str, name: str) -> None:
    x = samples(40_000 if name == "host" else 10_000)
    with np.errstate(all="ignore"):
        want = NUMPY[op](x.astype(np.float64))
    check(apply(op, float32, x, name=name), want, float32, BOUNDS[op][0])


EXACT: dict[str, Callable[[Any], Any]] = {op: getattr(mpmath, op, None) for op in NUMPY} | {
    "exp2": lambda x: mpmath.mpf(2) ** x,
    "log2": lambda x: mpmath.log(x, 2),
}


def double_samples() -> Array:
    rng = np.random.default_rng(1)
    n = 80
    return np.concatenate([
        rng.integers(0, 2**64, n, dtype=np.uint64).view(np.float64), rng.uniform(-1, 1, n),
        rng.uniform(-20, 20, n),
        rng.uniform(-745, 709, n), 1 + rng.uniform(-1e-2, 1e-2, n), 10.0 ** rng.uniform(-10, 10, n),
        np.arange(1, 40) * np.pi / 2, 2.0 ** np.arange(-1074, 1024, 97),
        6381956970095103.0 * 2.0 ** np.arange(700, 900, 37),
    ])  # fmt: skip


def exact_error(op: Callable[..., Any], got: float, *x: float) -> float:
    """The error in ulp (0 where the function has no finite real value)."""
    try:
        value = op(*(mpmath.mpf(float(v)) for v in x))
    except (ValueError, ZeroDivisionError, OverflowError):
        return 0.0
    if isinstance(value, mpmath.mpc) or not mpmath.isfinite(value):
        return 0.0 if not np.isfinite(got) else np.inf
    if abs(value) >= mpmath.mpf(2) ** 1024:
        return 0.0 if np.isinf(got) else np.inf
    ulp = max(float(np.spacing(abs(float(value)))), LEAST["float64"])
    return float(abs(mpmath.mpf(float(got)) - value) / ulp)


@pytest.mark.parametrize("op", NUMPY)
def test_float64_within_bounds(op: str) -> None:
    x = double_samples()
    x = x[np.isfinite(x)]
    got = apply(op, float64, x)
    with mpmath.workprec(1200 if op in ("sin", "cos", "tan") else 200):
        worst = max(exact_error(EXACT[op], y, v) for v, y in zip(x, got, strict=True))
    assert worst <= BOUNDS[op][1]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("op", NUMPY)
def test_float64_special_values(op: str, name: str) -> None:
    x = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 2.0, 0.25, 1e-310])
    with np.errstate(all="ignore"):
        check(apply(op, float64, x, name=name), NUMPY[op](x), float64, 5.0)


@pytest.mark.parametrize("dtype", [float32, float64], ids=lambda d: d.name)
@pytest.mark.parametrize("op", ["pow", "atan2"])
def test_two_arguments(op: str, dtype: DType) -> None:
    rng = np.random.default_rng(0)
    a, b = rng.uniform(1e-3, 30, 300), rng.uniform(-20, 20, 300)
    a[:100], b[:100] = rng.uniform(0.99, 1.01, 100), rng.uniform(-3000, 3000, 100)
    a, b = a.astype(dtype.numpy), b.astype(dtype.numpy)
    got = apply(op, dtype, a, b)
    exact = mpmath.power if op == "pow" else mpmath.atan2
    with mpmath.workprec(200):
        for x, y, z in zip(a, b, got, strict=True):
            value = exact(mpmath.mpf(float(x)), mpmath.mpf(float(y)))
            ulp = float(np.spacing(np.abs(z)))
            assert abs(mpmath.mpf(float(z)) - value) <= (0.6 if dtype is float32 else 2.0) * ulp


@pytest.mark.parametrize("dtype", [float32, float64], ids=lambda d: d.name)
@pytest.mark.parametrize(("op", "reference"), [("pow", np.power), ("atan2", np.arctan2)])
def test_two_arguments_at_special_values(
    op: str, reference: Callable[..., Array], dtype: DType
) -> None:
    values = np.array(
        [0, -0.0, 1, -1, 0.5, -0.5, 2, -2, 3, -3, np.inf, -np.inf, np.nan, 1e30, 2.5, -2.5, 1e-40]
    )
    a, b = (x.reshape(-1).astype(dtype.numpy) for x in np.meshgrid(values, values))
    with np.errstate(all="ignore"):
        want = reference(a.astype(np.float64), b.astype(np.float64))
        check(apply(op, dtype, a, b), want, dtype, 2.0)


@pytest.mark.parametrize("dtype", [int32, int64, uint8], ids=lambda d: d.name)
def test_integer_powers_wrap(dtype: DType) -> None:
    rng = np.random.default_rng(0)
    a = rng.integers(0 if dtype is uint8 else -20, 20, 500)
    b = rng.integers(0, 70, 500)
    want = [pow(int(x), int(y), 1 << dtype.bits) for x, y in zip(a, b, strict=True)]
    got = apply("pow", dtype, a, b)
    np.testing.assert_array_equal(got, np.array(want, np.uint64).astype(dtype.numpy))


@pytest.mark.parametrize("dtype", [float16, bfloat16], ids=lambda d: d.name)
def test_short_floats_go_through_float32(dtype: DType) -> None:
    x = np.linspace(-9, 9, 1000).astype(dtype.numpy)
    want = np.tanh(x.astype(np.float64)).astype(dtype.numpy)
    np.testing.assert_allclose(apply("tanh", dtype, x).astype(float), want.astype(float), rtol=0.01)


def test_expansion_leaves_other_kernels_alone() -> None:
    kernel = kernel_of("abs", float32, 1)
    assert expand_math(kernel) is kernel
    assert expand_math(kernel_of("exp", float32, 1)) is not kernel
