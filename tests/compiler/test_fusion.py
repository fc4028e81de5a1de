"""Fusion keeps every statement, whatever is merged."""

from __future__ import annotations

import numpy as np
import pytest

import lamella as lm
from lamella.compiler.canonicalise import canonicalise
from lamella.compiler.fusion import fuse
from lamella.compiler.partition import materialised
from lamella.compiler.statements import build
from lamella.ir.node import topological
from lamella.nn import functional

FUNCTIONS = {
    "cross entropy": lambda x, y: functional.cross_entropy(x, y),
    "its gradient": lambda x, y: lm.grad(lambda v: functional.cross_entropy(v, y))(x),
    "normalised": lambda x, y: functional.layer_norm(functional.gelu(x), (4,)) + lm.mean(x),
    "spread": lambda x, y: lm.var(x, axis=0) + lm.std(functional.softmax(x, dim=1)) * lm.max(y),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_statement_is_in_one_group(name: str) -> None:
    lowered = lm.jit(FUNCTIONS[name]).lower(lm.zeros((2, 4)), lm.asarray([0, 3]))
    outputs = canonicalise(lowered.outputs)
    order = topological(outputs)
    program = build(order, outputs, materialised(order, outputs, fuse=True))
    members = [s.node for group in fuse(program.statements) for s in group.members]
    assert set(members) == {s.node for s in program.statements}
    assert len(members) == len(program.statements)


def test_cross_entropy_of_equal_scores() -> None:
    loss = functional.cross_entropy(lm.zeros((2, 4)), lm.asarray([0, 3]))
    np.testing.assert_allclose(loss.numpy(), np.log(4.0), rtol=1e-6)
