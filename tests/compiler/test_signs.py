"""The exponential of what is never above zero: found where it is certain, and of equal bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lamella.compiler.mathlib import expand_math
from lamella.ir.text import kernel_text, parse_kernel
from tests.support.llvm_backend import NAMES, run_kernel_llvm, same_bits, target_named

SOFTMAX = """kernel softmax
  inout x: float32
  out y: float32
  out z: float32
grid g < 4
  local r: float32[100]
  var top: float32 = -inf:float32
  lanes i < 100
    top max= x[100*g + 1*i]
  BETWEEN
  lanes j < 100
    y[100*g + 1*j] = exp(sub(x[100*g + 1*j], top))
"""


def clamps(text: str) -> int:
    """How often the upper end of the exponential's range is looked at."""
    return kernel_text(expand_math(parse_kernel(text))).count("min(89.0")


@pytest.mark.parametrize(
    ("between", "old", "new", "count"),
    [
        ("", "", "", 0),
        ("z[1*g] = top", "", "", 0),
        ("x[1*g] = 1.0:float32", "", "", 1),
        ("top = 0.0:float32", "", "", 1),
        ("top min= 0.0:float32", "", "", 1),
        ("", "lanes j < 100", "lanes j < 101", 1),
        ("", "sub(x[100*g + 1*j], top)", "sub(top, x[100*g + 1*j])", 1),
        ("", "sub(x[100*g + 1*j], top)", "sub(x[100*g + 1*j + 1], top)", 1),
        ("", "exp(sub(x[100*g + 1*j], top))", "exp(neg(abs(x[100*g + 1*j])))", 0),
        ("", "exp(sub(x[100*g + 1*j], top))", "exp(neg(x[100*g + 1*j]))", 1),
        ("", "top max=", "top min=", 1),
        ("", "x[100*g + 1*j] = exp", "x[100*g + 1*j] = exp", 0),
    ],
)
def test_only_what_is_certain(between: str, old: str, new: str, count: int) -> None:
    text = SOFTMAX.replace("  BETWEEN\n", f"  {between}\n" if between else "")
    assert clamps(text.replace(old, new)) == count


def test_a_row_that_was_kept_is_known() -> None:
    """The largest of a row is at least each of its elements, also where they were stored."""
    text = SOFTMAX.replace("  BETWEEN\n", "").replace(
        "    top max= x[100*g + 1*i]\n",
        "    r[i] = sin(x[100*g + 1*i])\n    top max= sin(x[100*g + 1*i])\n",
    )
    assert clamps(text.replace("sub(x[100*g + 1*j], top)", "sub(r[j], top)")) == 0


def test_a_branch_that_may_not_run_tells_nothing() -> None:
    text = SOFTMAX.replace("  BETWEEN\n", "")
    text = text.replace(
        "  lanes i < 100\n    top max= x[100*g + 1*i]\n",
        "  if lt(g, 2)\n    lanes i < 100\n      top max= x[100*g + 1*i]\n",
    )
    assert clamps(text) == 1


EXP = """kernel exponential
  in x: DTYPE
  out y: DTYPE
grid g < 1
  lanes j < COUNT
    y[j] = exp(VALUE)
"""


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_bits_are_those_of_exp(dtype: Any, name: str) -> None:
    rng = np.random.default_rng(0)
    low = -110.0 if dtype is np.float32 else -750.0
    ends = [0.0, -0.0, -np.inf, np.nan, -87.4, -103.9, -104.1, -708.5, -745.2, -1e-30, -0.34657359]
    small = -(10.0 ** rng.uniform(-37, 37, 500))
    drawn = rng.uniform(low, 0, 3000), rng.uniform(-1, 0, 1000), small, ends
    x = np.concatenate(drawn).astype(dtype)
    found = []
    for value in ("x[j]", "neg(abs(x[j]))"):
        text = EXP.replace("DTYPE", np.dtype(dtype).name).replace("COUNT", str(x.size))
        data = {"x": x, "y": np.zeros_like(x)}
        kernel = parse_kernel(text.replace("VALUE", value))
        run_kernel_llvm(kernel, data, {}, {}, target_named(name))
        found.append(data["y"])
    same_bits(*found)
    with np.errstate(all="ignore"):
        want = np.exp(x.astype(np.float64))
    np.testing.assert_allclose(found[1], want, 3e-7, 2e-45 if dtype is np.float32 else 5e-324)
