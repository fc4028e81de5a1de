"""Vectors are stored whole, also where elements are chosen between themselves and others."""

from __future__ import annotations

import pytest

from lamella.compiler.codegen import assembly
from lamella.compiler.emit.target import named
from lamella.ir.text import parse_kernel


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64"])
@pytest.mark.parametrize(
    "value", ["max(y[%0], x[%0])", "min(x[%0], y[%0])", "select(lt(x[%0], y[%0]), x[%0], y[%0])"]
)
def test_a_choice_over_its_own_element_is_no_masked_store(dtype: str, value: str) -> None:
    kernel = parse_kernel(f"""kernel choice
  in x: {dtype}
  inout y: {dtype}
grid g < 9
  lanes l < 1024
    %0 = 1024*g + 1*l
    y[%0] = {value}""")
    assert "maskmov" not in assembly([kernel], named("avx2"))
