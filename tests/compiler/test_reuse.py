"""Results written over operands: allowed only where nothing reads the operand afterwards."""

from __future__ import annotations

import numpy as np

import lamella as lm
from lamella import nn
from lamella.compiler.reuse import in_place, reads_first
from lamella.ir.text import parse_kernel


def kernel(*lines: str):
    inputs = [f"  in {name}: float32" for name in "xw" if any(f"{name}[" in s for s in lines)]
    head = ["kernel k", *inputs, "  out y: float32", "  out z: float32", "grid g < 8"]
    return parse_kernel("\n".join([*head, *(f"  {line}" for line in lines)]))


def test_an_operand_that_dies_with_the_store() -> None:
    assert in_place(kernel("y[g] = neg(x[g])", "z[g] = 1.0:float32")) == {"y": ["x"], "z": ["x"]}


def test_an_operand_read_after_the_store_is_kept() -> None:
    found = in_place(kernel("y[g] = neg(x[g])", "z[g] = abs(x[g])"))
    assert found == {"y": [], "z": ["x"]}


def test_an_operand_read_elsewhere_is_kept() -> None:
    found = in_place(kernel("y[g] = neg(x[-1*g + 7])", "z[g] = 1.0:float32"))
    assert found["y"] == []


def test_what_reads_most_is_stored_first() -> None:
    made = reads_first(kernel("y[g] = neg(x[g])", "z[g] = mul(x[g], w[g])"))
    assert [s.buffer for s in made.body.body] == ["z", "y"]
    assert "x" in in_place(made)["y"] and in_place(made)["z"] == ["w"]


def test_stores_that_read_one_another_keep_their_order() -> None:
    lines = "y[g] = neg(x[g])", "z[g] = mul(y[g], mul(x[g], w[g]))"
    made = reads_first(kernel(*lines))
    assert [s.buffer for s in made.body.body] == ["y", "z"]


def test_batch_normalisation_has_the_same_gradient_as_the_interpreter() -> None:
    draw = np.random.default_rng(0)
    x, weights = draw.normal(size=(2, 4, 3, 5, 5)).astype(np.float32)
    gradients = []
    for backend in ("llvm", "interpret"):
        with lm.config(backend=backend):
            leaf = lm.tensor(x, requires_grad=True)
            out = nn.BatchNorm2d(3)(leaf)
            out.detach().numpy()
            lm.sum(out * lm.asarray(weights)).backward()
            gradients.append(leaf.grad.numpy().copy())
    np.testing.assert_allclose(gradients[0], gradients[1], atol=1e-5)
