"""Functions on tensors with symbolic sizes, as jit's dynamic axes give them, against NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lamella as lm
from lamella import ops
from lamella.ir.dim import Dim
from lamella.ir.interp import interpret
from lamella.tensor.core import wrap

CASES: list[tuple[str, Callable[[Any], Any], Callable[[np.ndarray], Any]]] = [
    ("first", lambda t: t[0], lambda x: x[0]),
    ("last", lambda t: t[-1], lambda x: x[-1]),
    ("last but one", lambda t: t[-2, 1], lambda x: x[-2, 1]),
    ("from", lambda t: t[2:], lambda x: x[2:]),
    ("up to", lambda t: t[:3], lambda x: x[:3]),
    ("but the last", lambda t: t[:-1], lambda x: x[:-1]),
    ("the last", lambda t: t[-3:], lambda x: x[-3:]),
    ("between", lambda t: t[1:-1], lambda x: x[1:-1]),
    ("every second", lambda t: t[::2], lambda x: x[::2]),
    ("every second from", lambda t: t[1::2], lambda x: x[1::2]),
    ("backwards", lambda t: t[::-1], lambda x: x[::-1]),
    ("backwards by two", lambda t: t[::-2], lambda x: x[::-2]),
    ("columns", lambda t: t[:, 1:, None], lambda x: x[:, 1:, None]),
    ("array", lambda t: t[[0, -1, 2]], lambda x: x[[0, -1, 2]]),
    ("array of the other axis", lambda t: t[:, [2, 0]], lambda x: x[:, [2, 0]]),
    ("set one", lambda t: t.at[0].set(9.0), lambda x: np.concatenate([x[:1] * 0 + 9, x[1:]])),
    ("set the last", lambda t: t.at[-1].add(1.0), lambda x: np.concatenate([x[:-1], x[-1:] + 1])),
    ("mask", lambda t: t.at[t > 0].set(0.0), lambda x: np.where(x > 0, 0, x)),
    ("mean", lambda t: t.mean(0), lambda x: x.mean(0)),
    ("average", lambda t: lm.average(t, 0, returned=True)[1], lambda x: np.full(3, len(x))),
    ("mean of all", lambda t: t.mean(), lambda x: x.mean()),
    ("variance", lambda t: t.var(0, correction=1), lambda x: x.var(0, ddof=1)),
    (
        "logsumexp",
        lambda t: t.logsumexp(0, keepdims=True).exp(),
        lambda x: np.exp(x).sum(0, keepdims=True),
    ),
    ("maximum", lambda t: t.max(0), lambda x: x.max(0)),
    ("position", lambda t: t.argmax(0), lambda x: x.argmax(0)),
    ("cumsum", lambda t: t.cumsum(0), lambda x: x.cumsum(0)),
    ("sort", lambda t: lm.sort(t, 0), lambda x: np.sort(x, 0)),
    ("flatten", lambda t: t.flatten(), np.ravel),
    ("reshape", lambda t: t.reshape(-1, 1, 3), lambda x: x.reshape(-1, 1, 3)),
    ("transpose", lambda t: t.T @ t, lambda x: x.T @ x),
    ("outer sum", lambda t: t[:, None] + t[None], lambda x: x[:, None] + x[None]),
    ("concat", lambda t: lm.concat([t, t]), lambda x: np.concatenate([x, x])),
    ("pad", lambda t: lm.pad(t, 1), lambda x: np.pad(x, 1)),
    ("tile", lambda t: lm.tile(t, (2, 1)), lambda x: np.tile(x, (2, 1))),
    ("tril", lambda t: lm.tril(t), np.tril),
    ("einsum", lambda t: lm.einsum("ij,kj->ik", t, t), lambda x: np.einsum("ij,kj->ik", x, x)),
    ("zeros like", lambda t: lm.zeros_like(t) + 1, lambda x: np.ones_like(x)),
    ("ones of a shape", lambda t: lm.ones(t.shape), lambda x: np.ones_like(x)),
    ("norm", lambda t: lm.norm(t, axis=1), lambda x: np.linalg.norm(x, axis=1)),
    (
        "flip and roll",
        lambda t: lm.roll(lm.flip(t, 0), 1, 1),
        lambda x: np.roll(np.flip(x, 0), 1, 1),
    ),
]


@pytest.fixture(autouse=True)
def _no_pending() -> None:
    lm.eval()


@pytest.mark.parametrize(("name", "ours", "theirs"), CASES, ids=[name for name, *_ in CASES])
@pytest.mark.parametrize("size", [4, 7])
def test_symbolic(
    name: str, ours: Callable[[Any], Any], theirs: Callable[[np.ndarray], Any], size: int
) -> None:
    node = ops.placeholder((Dim("n"), 3), lm.float64)
    x = np.random.default_rng(size).normal(size=(size, 3))
    (found,) = interpret([ours(wrap(node)).node], {node: x})
    np.testing.assert_allclose(found, theirs(x), rtol=1e-12, atol=1e-14)


def test_random_numbers_of_a_symbolic_shape_advance_the_counter() -> None:
    node = ops.placeholder((Dim("n"),), lm.float32)
    own = lm.random.Generator(3)
    draw = lm.random.uniform(wrap(node).shape, key=own)
    x = np.zeros(5, np.float32)
    found, counter = interpret([draw.node, own.counter.node], {node: x})
    want = lm.random.uniform((5,), key=lm.random.Generator(3)).numpy()
    np.testing.assert_array_equal(found, want)
    assert counter == 5


@pytest.mark.parametrize("subscript", [slice(-3, 2), slice(3, None, -1), slice(-4, -1)])
def test_what_cannot_be_said_before_the_program_runs_is_an_error(subscript: slice) -> None:
    t = wrap(ops.placeholder((Dim("n"), 3), lm.float64))
    with pytest.raises(ValueError, match=r"\[(index|Dim)\].*n"):
        t[subscript]
