"""Transposed products are computed as they are stored, where nobody reads them otherwise."""

from __future__ import annotations

import numpy as np
import pytest

import lamella as lm
from lamella import ops
from lamella.compiler.transposes import transposes
from lamella.dtypes import float32
from lamella.ir.interp import interpret
from lamella.ir.node import Node, topological
from lamella.runtime.buffer import from_numpy

DRAW = np.random.default_rng(0)


def leaf(*shape: int) -> Node:
    return ops.data(from_numpy(DRAW.standard_normal(shape).astype(np.float32)), shape, float32)


def names(outputs: list[Node]) -> list[str]:
    return [node.op.name for node in topological(outputs)]


@pytest.mark.parametrize("batch", [(), (3,)])
def test_the_factors_are_exchanged(batch: tuple[int, ...]) -> None:
    a, b = leaf(*batch, 4, 5), leaf(*batch, 5, 6)
    axes = tuple(range(len(batch)))
    m, k, n = (len(batch) + i for i in range(3))
    product = ops.contract(a, b, (*axes, m, k), (*axes, k, n), (*axes, m, n))
    swapped = ops.permute(product, (*axes, n - 1, m))
    output = ops.sin(swapped)
    found = transposes([output])
    assert "permute" not in names(found)
    np.testing.assert_allclose(interpret(found)[0], interpret([output])[0], rtol=1e-6)


def test_what_others_read_as_it_is_stays() -> None:
    product = ops.contract(leaf(4, 5), leaf(5, 6), (0, 1), (1, 2), (0, 2))
    swapped = ops.sin(ops.permute(product, (1, 0)))
    assert "permute" in names(transposes([swapped, product]))
    assert "permute" in names(transposes([swapped, ops.reduce_sum(product, (0, 1))]))


@pytest.mark.usefixtures("optimized")
def test_the_gradient_of_a_weight_needs_no_pass_that_moves_it() -> None:
    w = lm.asarray(DRAW.standard_normal((96, 64)).astype(np.float32))
    x = lm.asarray(DRAW.standard_normal((128, 64)).astype(np.float32))
    step = lm.jit(lm.grad(lambda w: lm.sum(lm.sin(x @ w.T))))
    y = x.numpy().astype(np.float64) @ w.numpy().T
    np.testing.assert_allclose(step(w).numpy(), np.cos(y).T @ x.numpy(), rtol=1e-4, atol=1e-4)
    labels = [s.label for s in step._entries.popitem()[1][0]._program.blueprint.steps]
    assert not any("permute" in label for label in labels), labels
