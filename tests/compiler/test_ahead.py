"""Rows are asked for ahead of time where a pass over them computes functions."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import lamella as lm
from lamella.compiler.ahead import ahead
from lamella.ir.loop_text import kernel_text
from lamella.ir.loops import For, Prefetch
from lamella.ir.text import parse_kernel

F = lm.nn.functional


def prefetches(f, *shape: int) -> int:
    """How many the program of ``f`` has."""
    text = lm.jit(f).lower(lm.zeros(shape)).text(2)
    return text.count("prefetch")


@pytest.mark.usefixtures("optimized")
def test_functions_of_rows_ask_for_the_next_row():
    assert prefetches(lambda x: F.softmax(x, -1), 64, 1024) == 1
    assert prefetches(lambda x: F.log_softmax(x, -1), 64, 1024) == 1
    weighted = lm.grad(lambda x: (F.softmax(x, -1) * lm.ones((64, 1024))).sum())
    assert prefetches(weighted, 64, 1024) >= 1


@pytest.mark.parametrize(
    ("f", "shape"),
    [
        (lambda x: F.layer_norm(x, (1024,)), (64, 1024)),  # little to do: memory is busy
        (lambda x: F.softmax(x, -1), (64, 64)),  # short rows
        (lambda x: F.softmax(x, -1), (4, 100_000)),  # rows that fill a cache
        (lambda x: F.softmax(x, 0), (1024, 64)),  # lanes along the other axis
        (lambda x: lm.exp(x), (64, 1024)),  # one pass
    ],
)
def test_others_do_not(f, shape):
    assert prefetches(f, *shape) == 0


def test_the_next_row_is_that_of_the_grid():
    kernel = parse_kernel("""kernel k
  in x: float32
  in w: float32
  out y: float32
grid g < 8
  var m: float32 = -inf:float32
  lanes i < 512
    m max= mul(x[512*g + 1*i], w[i])
  lanes j < 512
    y[512*g + 1*j] = exp(sub(x[512*g + 1*j], m))""")
    first, second = (s for s in ahead(kernel.body).body if isinstance(s, For))
    assert not any(isinstance(s, Prefetch) for s in first.body)
    assert [s.buffer for s in second.body if isinstance(s, Prefetch)] == ["x"]
    assert "prefetch x[512*g + 1*j + 512]" in kernel_text(replace(kernel, body=ahead(kernel.body)))


def test_results_stay_the_same():
    x = np.random.default_rng(0).normal(size=(64, 1024)).astype(np.float32)
    wide = np.exp(x.astype(float) - x.max(1, keepdims=True))
    wanted = wide / wide.sum(1, keepdims=True)
    np.testing.assert_allclose(F.softmax(lm.asarray(x), -1).numpy(), wanted, rtol=1e-6)
