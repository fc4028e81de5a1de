"""The interpreter of the loop IR: loops, scratch memory, barriers, accumulation and its checks."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from lamella.dtypes import bfloat16, float16, float32, float64, int64, uint8
from lamella.errors import CompilerError
from lamella.ir.loop_interp import run_kernel
from lamella.ir.scalar import cast, evaluate, round_to
from lamella.ir.text import parse_kernel

pytestmark = pytest.mark.makes_no_program

Array = np.ndarray[Any, Any]


def run(text: str, arrays: dict[str, Array], **sizes: int) -> dict[str, Array]:
    run_kernel(parse_kernel(text), arrays, {}, sizes)
    return arrays


def test_matrix_product_with_register_tile() -> None:
    text = """kernel matmul
  in a: float64
  in b: float64
  out c: float64
  sizes k
grid i < 2
  register acc: float64[6]
  unroll r < 2
    lanes z < 3
      acc[3*r + 1*z] = 0.0:float64
  serial p < {k}
    unroll s < 2
      lanes j < 3
        %0 = 3*s + 1*j
        acc[%0] = fma(a[{2*k}*i + {k}*s + 1*p], b[1*j + 3*p], acc[%0])
  unroll t < 2
    lanes w < 3
      c[6*i + 3*t + 1*w] = acc[3*t + 1*w]
"""
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(4, 5)), rng.normal(size=(5, 3))
    c = run(text, {"a": a, "b": b, "c": np.zeros((4, 3))}, k=5)["c"]
    np.testing.assert_allclose(c, a @ b, rtol=1e-14)


def test_barrier_makes_all_iterations_wait() -> None:
    text = """kernel reverse
  inout x: int64
grid i < 2
  shared t: int64[4]
  block j < 4
    var mine: int64 = x[4*i + 1*j]
    t[j] = mine
    barrier
    mine = add(mul(100, mine), t[-1*j + 3])
    barrier
    x[4*i + 1*j] = mine
"""
    x = run(text, {"x": np.arange(8)})["x"]
    assert x.tolist() == [3, 102, 201, 300, 407, 506, 605, 704]


def test_barrier_outside_block_is_an_error() -> None:
    with pytest.raises(CompilerError, match="barrier outside"):
        run("kernel k\n  out y: int64\ngrid i < 1\n  barrier", {"y": np.zeros(1, np.int64)})


@pytest.mark.parametrize("line", ["y[i] = x[1*i + 3]", "y[1*i + 3] = 1", "y[-1*i + -1] = 1"])
def test_access_outside_a_buffer_is_an_error(line: str) -> None:
    text = f"kernel k\n  in x: int64\n  out y: int64\ngrid i < 2\n  {line}"
    with pytest.raises(CompilerError, match=r"\[(3|-1)\], which holds 3 elements"):
        run(text, {"x": np.zeros(3, np.int64), "y": np.zeros(3, np.int64)})


def test_masked_access_touches_nothing() -> None:
    text = """kernel k
  in x: int64
  out y: int64
grid i < 3
  y[i] = add(x[1*i + 900 if false else 5], x[1*i + 900 if false])
  y[1*i + 900 if false] = 1
"""
    y = run(text, {"x": np.zeros(3, np.int64), "y": np.zeros(3, np.int64)})["y"]
    assert y.tolist() == [5, 5, 5]


def test_scratch_starts_undefined() -> None:
    text = "kernel k\n  out y: float32\ngrid i < 1\n  local t: float32[2]\n  y[i] = t[1]"
    assert math.isnan(run(text, {"y": np.zeros(1, np.float32)})["y"][0])


@pytest.mark.parametrize(("values", "highest", "lowest"), [
    ([1.0, 3.0, 3.0, 2.0], 1, 0), ([math.nan, 3.0, math.nan], 0, 0), ([2.0, math.nan, 9.0], 1, 1),
    ([-math.inf, -math.inf], 0, 0), ([0.0, -0.0], 0, 0),
])  # fmt: skip
def test_argmax_prefers_nan_then_the_first(values: list[float], highest: int, lowest: int) -> None:
    for op, first, want in (("argmax", "-inf", highest), ("argmin", "inf", lowest)):
        text = f"""kernel k
  in x: float64
  out y: int64
  sizes n
grid i < 1
  var best: float64 = {first}:float64
  var at: int64 = 9223372036854775807
  lanes j < {{n}}
    best, at {op}= x[j], j
  y[i] = at
"""
        arrays = run(text, {"x": np.array(values), "y": np.zeros(1, np.int64)}, n=len(values))
        assert arrays["y"][0] == want


def test_arrays_are_checked() -> None:
    text = "kernel k\n  out y: float32\ngrid i < 1\n  y[i] = 1.0:float32"
    with pytest.raises(CompilerError, match="contiguous float32 array, not float64"):
        run(text, {"y": np.zeros(1)})
    with pytest.raises(CompilerError, match="not None"):
        run(text, {})


def test_unknown_variable_names_the_statement() -> None:
    kernel = parse_kernel("""kernel k
  out y: int64
grid i < 1
  if false
    var v: int64 = 1
  y[i] = v
""")
    with pytest.raises(CompilerError, match=r"'v' has no value in `y\[i\] = v`"):
        run_kernel(kernel, {"y": np.zeros(1, np.int64)}, {}, {})


@pytest.mark.parametrize("dtype", [float16, float32, float64], ids=lambda d: d.name)
def test_rounding_is_that_of_numpy(dtype: Any) -> None:
    rng = np.random.default_rng(1)
    bits = rng.integers(0, 2**64, 3000, dtype=np.uint64).view(np.float64)
    near = rng.normal(size=3000) * 10.0 ** rng.integers(-12, 6, 3000)
    for value in [*bits[np.isfinite(bits)], *near]:
        with np.errstate(over="ignore"):
            assert round_to(float(value), dtype) == float(value.astype(dtype.numpy))


def test_bfloat16_rounds_once() -> None:
    tie = 1.0 + 2.0**-8  # half-way between 1 and the next bfloat16
    assert round_to(tie, bfloat16) == 1.0
    assert (
        round_to(tie + 2.0**-40, bfloat16) == 1.0 + 2.0**-7
    )  # through float32 this would be the tie
    assert cast(2**60 + 2**52 + 1, int64, bfloat16) == float(2**60 + 2**53)


def test_fma_is_exact() -> None:
    a = 1.0 + 2.0**-30
    assert evaluate("fma", [a, a, -1.0 - 2.0**-29], [float64] * 3, float64) == 2.0**-60
    assert evaluate("fma", [1e300, 1e300, -math.inf], [float64] * 3, float64) == -math.inf
    assert math.copysign(1, evaluate("fma", [-0.0, 1.0, -0.0], [float64] * 3, float64)) == -1


def test_operation_without_meaning_is_an_error() -> None:
    with pytest.raises(CompilerError, match=r"\[exp\] has no meaning on \(uint8\)"):
        evaluate("exp", [1], [uint8], uint8)
