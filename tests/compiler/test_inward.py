"""Lanes around serial loops move inside them, where no lane has a variable of its own."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import lamella as lm
from lamella.compiler.inward import inward
from lamella.ir.loop_interp import run_kernel
from lamella.ir.loops import For
from lamella.ir.text import parse_kernel
from lamella.ir.verify_loops import verify_kernel

ROWS = """kernel rows
  in x: float32
  in at: int64
  out y: float32
grid g < 2
  lanes l < 40
    serial row < 3
      %0 = 80*row + 40*g + 1*l
      y[%0] = x[%0]
    serial update < 4
      var place: int64 = at[update]
      %1 = 80*place + 40*g + 1*l
      y[%1 if lt(place, 2)] = add(y[%1], x[80*update + 40*g + 1*l])"""


def test_what_lanes_have_in_common_is_outside() -> None:
    whole = parse_kernel(ROWS)
    (loop,) = whole.body.body
    assert isinstance(loop, For)
    found = inward(loop)
    assert found is not None and all(isinstance(s, For) and s.kind == "serial" for s in found)
    turned = replace(whole, body=replace(whole.body, body=tuple(found)))
    verify_kernel(turned)
    results = []
    for kernel in (whole, turned):
        arrays = {
            "x": np.arange(320, dtype=np.float32), "at": np.array([1, 0, 2, 1]),
            "y": np.zeros(240, np.float32),
        }  # fmt: skip
        run_kernel(kernel, arrays, {}, {})
        results.append(arrays["y"])
    np.testing.assert_array_equal(*results)


def test_variables_of_a_lane_keep_it_outside() -> None:
    kernel = parse_kernel("""kernel sums
  in x: float32
  out y: float32
grid g < 1
  lanes l < 40
    var total: float32 = 0.0:float32
    serial row < 3
      total = add(total, x[40*row + 1*l])
      y[40*row + 1*l] = total""")
    (loop,) = kernel.body.body
    assert isinstance(loop, For) and inward(loop) is None


def test_stores_beside_each_other_stay_together() -> None:
    """As parts of complex numbers, which are woven into one vector."""
    kernel = parse_kernel("""kernel woven
  in x: float32
  out y: float32
grid g < 1
  lanes l < 40
    y[2*l] = x[l]
    y[2*l + 1] = neg(x[l])""")
    (loop,) = kernel.body.body
    assert isinstance(loop, For) and inward(loop) is None


@pytest.mark.parametrize("columns", [9, 40, 64, 100])
def test_rows_added_at_indices(columns: int) -> None:
    rng = np.random.default_rng(columns)
    x, index = rng.normal(size=(20, columns)).astype(np.float32), rng.integers(-20, 20, 50)
    updates = rng.normal(size=(50, columns)).astype(np.float32)
    wanted = x.astype(np.float64)
    np.add.at(wanted, index, updates.astype(np.float64))
    found = lm.asarray(x).at[lm.asarray(index)].add(lm.asarray(updates))
    np.testing.assert_allclose(np.asarray(found), wanted, rtol=1e-5, atol=1e-5)
    faulty = np.where(np.arange(50) == 30, 20, index)
    with pytest.raises(IndexError):
        np.asarray(lm.asarray(x).at[lm.asarray(faulty)].add(lm.asarray(updates)))
