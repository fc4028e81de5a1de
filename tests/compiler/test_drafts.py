"""Groups that are equal in structure share a draft; those that differ in anything that counts do
not.
"""

from __future__ import annotations

import numpy as np
import pytest

import lamella as lm
from lamella.compiler import drafts
from lamella.runtime.evaluate import forget_programs


def network(layers: int, gather: int = -1):
    """Equal layers with a residual, and their weights; one layer's rows are gathered."""
    draw = np.random.default_rng(layers)
    weights = [draw.standard_normal((64, 64)).astype(np.float32) / 8 for _ in range(layers)]

    def forward(xp, x, weights):
        first = x
        for number, w in enumerate(weights):
            x = x + xp.tanh(x @ w)
            if number == gather:
                x = x * first
        return x * xp.exp(-x * x).sum(-1, keepdims=True)

    return forward, weights


@pytest.mark.parametrize("training", [False, True])
def test_more_layers_are_no_more_drafts(monkeypatch: pytest.MonkeyPatch, training: bool) -> None:
    made: list[object] = []
    one = drafts.draft
    monkeypatch.setattr(drafts, "draft", lambda *given: (made.append(given[0]), one(*given))[1])

    def count(layers: int) -> int:
        forget_programs()
        forward, weights = network(layers)
        x = lm.ones((128, 64))

        def loss(weights, x):
            return forward(lm, x, weights).sum()

        before = len(made)
        with lm.config(cache=False):
            lm.jit(lm.grad(loss) if training else loss)([lm.asarray(w) for w in weights], x)
        return len(made) - before

    few = count(4)
    assert few > 2
    assert count(7) == few


@pytest.mark.parametrize("gather", [-1, 1, 3])
def test_equal_layers_read_their_own_operands(gather: int) -> None:
    forward, weights = network(5, gather)
    x = np.random.default_rng(1).standard_normal((128, 64)).astype(np.float32)
    step = lm.jit(lambda x, weights: forward(lm, x, weights))
    found = step(lm.asarray(x), [lm.asarray(w) for w in weights]).numpy()
    wanted = forward(np, x.astype(np.float64), [w.astype(np.float64) for w in weights])
    np.testing.assert_allclose(found, wanted, rtol=2e-4, atol=2e-4)


def test_what_a_tail_computes_of_which_operand_counts() -> None:
    draw = np.random.default_rng(2)
    x, w = draw.standard_normal((64, 64)), draw.standard_normal((64, 64))
    ys = draw.standard_normal((9, 64, 64))

    def tails(xp, x, w, y):
        p = [x @ (w * y[i, 0]) for i in range(9)]
        zeros = [p[0] * 0.0, p[1] * -0.0, p[2] * 1.0 + y[2]]
        same = [p[3] - y[3], y[4] - p[4], p[5] - x, p[6] * 2.0, p[7] * 2.5]
        return [*zeros, *same, xp.maximum(p[8], y[0])]

    found = lm.jit(lambda *given: tails(lm, *given))(*(lm.asarray(a) for a in (x, w, ys)))
    for mine, wanted in zip(found, tails(np, x, w, ys), strict=True):
        np.testing.assert_allclose(mine.numpy(), wanted, rtol=1e-10, atol=1e-12)
        np.testing.assert_array_equal(np.signbit(mine.numpy()), np.signbit(wanted))


def test_what_is_needed_later_is_not_written_over() -> None:
    w = np.random.default_rng(3).standard_normal((6, 64, 64)) / 8

    def chain(xp, x, w):
        kept = []
        for i in range(6):
            x = xp.tanh(x @ w[i])
            x = x / xp.abs(x).sum(-1, keepdims=True)
            kept += [x] if i in (1, 4) else []
        return x + kept[0] * kept[1]

    x = np.random.default_rng(4).standard_normal((64, 64))
    found = lm.jit(lambda x, w: chain(lm, x, w))(lm.asarray(x), lm.asarray(w))
    np.testing.assert_allclose(found.numpy(), chain(np, x, w), rtol=1e-10, atol=1e-13)


def test_a_fault_names_the_line_of_its_own_operation() -> None:
    def twice(table, i, j):
        a = lm.exp(lm.take(table, i, axis=0)).sum()
        b = lm.exp(lm.take(table, j, axis=0)).sum()
        return a * b

    line = twice.__code__.co_firstlineno
    table, good, bad = lm.ones((50, 8)), lm.asarray([0, 1]), lm.asarray([0, 50])
    for given, at in (((bad, good), line + 1), ((good, bad), line + 2)):
        with pytest.raises(IndexError, match=rf"test_drafts.py:{at}"):
            lm.jit(twice)(table, *given).numpy()
