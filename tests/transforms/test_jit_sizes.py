"""Compiled functions refuse sizes that the functions themselves refuse, when they are called."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lamella as lm
from lamella.errors import ShapeError

EXTREMES: list[Callable[[Any], Any]] = [
    lm.max, lm.min, lm.amax, lm.amin, lm.argmax, lm.argmin, lm.aminmax, lm.nanmax, lm.nanmin,
    lm.nanargmax, lm.ptp, lambda x: lm.vmap(lm.max)(lm.stack([x, x])), lm.grad(lm.max),
    lambda x: lm.scan(lambda c, y: (c + x.max(), y), lm.asarray(0.0), lm.zeros(2))[0],
]  # fmt: skip


@pytest.mark.parametrize("f", EXTREMES)
def test_nothing_has_no_largest_element_when_its_size_is_known_late(f: Callable[..., Any]) -> None:
    compiled = lm.jit(lambda x: f(x), dynamic={"x": {0: "n"}})
    for size in (3, 0, 2, 0):
        x = lm.arange(size, dtype="float32")
        if size:
            compiled(x)
            continue
        for each in (f, compiled):
            with pytest.raises(ShapeError, match=r"shape \(0,\) .* no elements"):
                each(x)
    assert compiled.programs == 1


@pytest.mark.parametrize(
    "f", [lm.softmax, lm.log_softmax, lm.logsumexp, lm.nn.functional.softmax, lambda x: x.max(0)]
)
def test_what_is_defined_of_nothing_stays_so(f: Callable[..., Any]) -> None:
    compiled = lm.jit(lambda x: f(x), dynamic={"x": {1: "n"}})
    for size in (0, 2, 0):
        x = lm.ones((3, size))
        np.testing.assert_array_equal(compiled(x).numpy(), f(x).numpy())
