"""A load under a mask touches nothing where the mask does not hold, whatever LLVM makes of it."""

from __future__ import annotations

import re

import pytest

from lamella.compiler.codegen import assembly
from lamella.compiler.emit.target import named
from lamella.ir.text import parse_kernel

pytestmark = pytest.mark.makes_no_program

# elements before the buffers' beginning are excluded; both factors are used again, so that LLVM
# would rather load the summand into the register of the result
CONCATENATION = """kernel concatenation
  in x: float64
  in y: float64
  out a: float64
  out b: float64
  param s: int64
  param t: int64
grid g < 1
  lanes l < 4
    %0 = lt(2, l)
    %1 = x[1*l + -3 if %0]
    %2 = x[1*l + 1*s + -3 if %0]
    a[l] = select(%0, add(mul(%1, %2), x[1*l + 1*t + -3 if %0]), 0.0:float64)
    %3 = add(mul(y[1*l + -3 if %0], %2), mul(y[1*l + 1*s + -3 if %0], %1))
    b[l] = select(%0, %3, 0.0:float64)
"""


@pytest.mark.parametrize("level", [1, 2, 3])
def test_no_load_loses_its_mask(level: int) -> None:
    text = assembly([parse_kernel(CONCATENATION)], named("avx512"), level=level)
    loads = re.findall(r"vmov\w+\t\(%\w+\), %[xyz]mm.*", text)
    assert len(loads) >= 3
    assert all("{%k" in load for load in loads), text
