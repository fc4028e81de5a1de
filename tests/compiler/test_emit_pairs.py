"""Pairs of variables folded together (argmax) where loops and branches assign one of them."""

from __future__ import annotations

import numpy as np
import pytest

from lamella.ir.loop_interp import run_kernel
from lamella.ir.text import parse_kernel
from tests.support.llvm_backend import NAMES, addresses, run_kernel_llvm, target_named

pytestmark = pytest.mark.makes_no_program

TEXT = """kernel one_of_a_pair
  in x: float32
  out y: float32
  out w: int64
  sizes n, m
grid i < {m}
  var best: float32 = -inf:float32
  var where: int64 = 9223372036854775807
  lanes j < {n}
    best, where argmax= x[{n}*i + 1*j], j
  if lt(x[i], 0.0:float32)
    serial k < 3
      best = add(best, x[k])
  else
    serial l < 3
      where = add(where, l)
      best = x[l]
  y[i] = best
  w[i] = where
"""


@pytest.mark.parametrize("name", NAMES)
def test_a_loop_that_assigns_one_of_a_pair(name: str) -> None:
    kernel, target = parse_kernel(TEXT), target_named(name)
    known = addresses([kernel], target)
    for n in (3, 16, 67, 200):
        x = np.random.default_rng(n).normal(size=3 * n).astype(np.float32)
        ours, theirs = (
            {"x": x.copy(), "y": np.zeros(3, np.float32), "w": np.zeros(3, np.int64)}
            for _ in range(2)
        )
        run_kernel_llvm(kernel, ours, {}, {"n": n, "m": 3}, target, known)
        run_kernel(kernel, theirs, {}, {"n": n, "m": 3})
        for key in ("y", "w"):
            np.testing.assert_allclose(ours[key], theirs[key], rtol=2e-6)
