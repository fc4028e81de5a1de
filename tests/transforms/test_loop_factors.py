"""What loops multiply by at every step is laid out once: same values, and no step packs it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lamella as lm
from lamella.compiler.loop_factors import loop_factors
from lamella.compiler.pipeline import compile_graph
from lamella.config import config
from lamella.ir.loop_text import kernel_text
from lamella.ir.node import topological
from tests.support.units import AVX512, NEON

STEPS = 7


def draw(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    rng = np.random.default_rng(sum(shape))
    return (rng.normal(size=shape) / np.sqrt(shape[-1])).astype(dtype)


def steps(body: Callable[[Any], Any], carry: Any) -> Any:
    return lm.scan(lambda c, _: (body(c), c), carry, None, length=STEPS)[0]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("rows", [1, 2, 5, 16, 33, 300])
@pytest.mark.parametrize("size", [64, 96, 400, 17])
@pytest.mark.parametrize("form", ["h w", "h wT", "w hT", "wT hT"])
def test_values(form: str, size: int, rows: int, dtype: str) -> None:
    h, w = draw(rows, size, dtype=dtype), draw(size, size, dtype=dtype)
    forms: dict[str, Callable[[Any, Any], Any]] = {
        "h w": lambda h, w: h @ w,
        "h wT": lambda h, w: h @ w.T,
        "w hT": lambda h, w: (w @ h.T).T,
        "wT hT": lambda h, w: (w.T @ h.T).T,
    }
    product = forms[form]
    with config(verify=1):
        found = steps(lambda c: lm.tanh(product(c, lm.asarray(w)) + c), lm.asarray(h)).numpy()
    expected = h.astype(np.float64)
    for _ in range(STEPS):
        expected = np.tanh(product(expected, w.astype(np.float64)) + expected)
    np.testing.assert_allclose(found, expected, rtol=0, atol=2e-5 if dtype == "float32" else 1e-13)


def test_a_matrix_that_is_read_in_several_ways() -> None:
    h, w = draw(4, 96), draw(96, 96)

    def body(c: Any, w: Any, tanh: Any) -> Any:
        return tanh(c @ w) @ w.T + tanh((c * w[3]) @ w + w.sum()) * 0.5

    found = steps(lambda c: body(c, lm.asarray(w), lm.tanh), lm.asarray(h)).numpy()
    expected, wide = h.astype(np.float64), w.astype(np.float64)
    for _ in range(STEPS):
        expected = body(expected, wide, np.tanh)
    np.testing.assert_allclose(found, expected, atol=1e-4)


def test_loops_under_a_condition_and_loops_in_loops() -> None:
    h, w = draw(3, 128), draw(128, 128)
    matrix = lm.asarray(w)

    def inner(c: Any) -> Any:
        test = lambda s: (s[0] < 6) & (lm.sum(lm.abs(matrix[0])) > 0)  # noqa: E731
        return lm.while_loop(test, lambda s: (s[0] + 1, lm.tanh(s[1] @ matrix)), (0, c))[1]

    found = steps(inner, lm.asarray(h)).numpy()
    expected = h.astype(np.float64)
    for _ in range(6 * STEPS):
        expected = np.tanh(expected @ w)
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_gradients() -> None:
    h, w = draw(5, 64, dtype=np.float64), draw(64, 192, dtype=np.float64)

    def loss(w: Any, h: Any) -> Any:
        def body(c: Any) -> Any:
            a, b, d = ((c @ w)[:, k * 64 : (k + 1) * 64] for k in range(3))
            return lm.tanh(a) * c + lm.sigmoid(b) * d

        return (steps(body, h) ** 2).sum()

    matrix, start = lm.asarray(w), lm.asarray(h)
    gradient = lm.grad(loss)(matrix, start).numpy()
    along = draw(64, 192, dtype=np.float64) + 0.1
    ends = [float(loss(lm.asarray(w + e * along), start).item()) for e in (1e-5, -1e-5)]
    assert (gradient * along).sum() == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=1e-6)


def test_batches() -> None:
    h, w = draw(6, 2, 64), draw(64, 64)
    one = lambda c: steps(lambda c: lm.tanh(c @ lm.asarray(w)), c)  # noqa: E731
    found = lm.vmap(one)(lm.asarray(h)).numpy()
    expected = h.astype(np.float64)
    for _ in range(STEPS):
        expected = np.tanh(expected @ w)
    np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize("unit", [AVX512, NEON])
def test_no_step_copies_the_matrix(unit: Any) -> None:
    h, w = lm.asarray(draw(16, 192)), lm.asarray(draw(192, 192))
    last = steps(lambda c: lm.tanh(c @ w.T), h)
    order = topological([last.node])
    inputs = [n for n in order if n.value is not None and n.op.name != "scalar"]
    scalars = [n for n in order if n.op.name == "scalar"]
    texts = [
        [kernel_text(k) for k in compile_graph([last.node], inputs, scalars, unit, skip).kernels]
        for skip in (frozenset(), frozenset(("loop_factors",)))
    ]
    copies = [sum("local right" in t or "local tile" in t for t in each) for each in texts]
    assert copies == [0, 1]


def test_a_second_pass_changes_nothing() -> None:
    h, w = lm.asarray(draw(16, 192)), lm.asarray(draw(192, 192))
    last = steps(lambda c: lm.tanh(c @ w.T), h).node
    once = loop_factors([last], AVX512)
    assert once[0] is not last
    assert loop_factors(once, AVX512)[0] is once[0]
