"""Primitives with several results: in Python and as kernels, through every transformation."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

import lamella as lm
from lamella import ops
from lamella.config import config
from lamella.errors import MissingRuleError
from lamella.graph.batch import batch
from lamella.graph.forward import jvp
from lamella.graph.reverse import vjp
from lamella.ir.dim import Dim, Shape, Size
from lamella.ir.interp import interpret
from lamella.ir.loops import Expr, Stmt, apply
from lamella.ir.node import Node, make
from lamella.ops.base import Array, Element, Index, KernelWriter, Needs
from lamella.ops.calls import Call, Result, call
from lamella.tensor.core import wrap

RUNS: list[str] = []


@dataclass(frozen=True, slots=True)
class SumAndProduct(Call):
    """``x + y`` and ``x * y``, in Python."""

    name: ClassVar[str] = ""
    opaque: ClassVar[bool] = True
    fail: bool = False

    def results(self, inputs: Sequence[Node]) -> tuple[Result, ...]:
        x, _ = inputs
        return (x.shape, x.dtype), (x.shape, x.dtype)

    def evaluate(self, node: Node, arrays: Sequence[Array]) -> tuple[Array, ...]:
        RUNS.append(type(self).__name__)
        if self.fail:
            raise ZeroDivisionError("on purpose")
        x, y = arrays
        return x + y, x * y

    def vjp_all(
        self, node: Node, cotangents: Sequence[Node | None], needs: Needs
    ) -> Sequence[Node | None]:
        x, y = node.inputs
        total, product = cotangents
        found: list[Node | None] = []
        for other in (y, x):
            part = None if product is None else ops.multiply(product, other)
            both = [term for term in (total, part) if term is not None]
            found.append(both[0] if len(both) == 1 else ops.add(*both) if both else None)
        return found

    def jvp_all(self, node: Node, tangents: Sequence[Node | None]) -> Sequence[Node | None]:
        x, y = node.inputs
        dx, dy = tangents
        zero = ops.full(0.0, x.shape, x.dtype)
        dx, dy = dx or zero, dy or zero
        return ops.add(dx, dy), ops.add(ops.multiply(dx, y), ops.multiply(x, dy))

    def batch(self, node: Node, args: Sequence[Node], batched: Needs, size: Size) -> Node:
        wide = [
            arg if has else ops.broadcast_to(arg, (size, *arg.shape))
            for arg, has in zip(args, batched, strict=True)
        ]
        return make(self, tuple(wide), (), node.dtype)


@dataclass(frozen=True, slots=True)
class SumAndProductKernel(SumAndProduct):
    """The same as a kernel."""

    name: ClassVar[str] = ""
    opaque: ClassVar[bool] = False

    def grid(self, node: Node) -> Shape:
        return node.inputs[0].shape

    def kernel(
        self, node: Node, args: Sequence[Element], at: Index, out: KernelWriter
    ) -> list[Stmt]:
        x: Expr = args[0](at)
        y: Expr = args[1](at)
        return [out.part(0, at, apply("add", x, y)), out.part(1, at, apply("mul", x, y))]


BOTH = pytest.mark.parametrize("op", [SumAndProduct(), SumAndProductKernel()])


def tensors(op: Call, x: lm.Tensor, y: lm.Tensor) -> tuple[lm.Tensor, ...]:
    return tuple(wrap(node) for node in call(op, x.node, y.node))


def draw(shape: tuple[int, ...], seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape)


@BOTH
@pytest.mark.parametrize("shape", [(3, 5), (0, 4), (), (1,), (257,)])
def test_values(op: Call, shape: tuple[int, ...]) -> None:
    a, b = draw(shape, 0), draw(shape, 1)
    total, product = tensors(op, lm.asarray(a) * 2, lm.asarray(b))
    np.testing.assert_allclose((lm.exp(total) - product).numpy(), np.exp(2 * a + b) - 2 * a * b)
    np.testing.assert_allclose(product.numpy(), 2 * a * b)


@BOTH
def test_inputs_that_lie_nowhere(op: Call) -> None:
    scalar, constant = lm.asarray(2.5), lm.ones((3,))
    total, _ = tensors(op, scalar, scalar * 1)
    assert float(total) == 5.0
    total, product = tensors(op, constant, lm.arange(3, dtype=lm.float32))
    assert total.tolist() == [1, 2, 3] and product.tolist() == [0, 1, 2]


@BOTH
def test_one_result_alone(op: Call) -> None:
    a, b = draw((7,), 0), draw((7,), 1)
    _, product = tensors(op, lm.asarray(a), lm.asarray(b))
    np.testing.assert_allclose(product.numpy(), a * b)


def test_results_are_computed_together() -> None:
    a = lm.asarray(draw((4,), 0))
    total, product = tensors(SumAndProduct(), a, a)
    RUNS.clear()
    total.numpy()
    product.numpy()
    assert len(RUNS) == 1


@BOTH
def test_gradients(op: Call) -> None:
    a = lm.tensor(draw((5,), 0), requires_grad=True)
    b = lm.tensor(draw((5,), 1), requires_grad=True)
    total, product = tensors(op, a, b)
    RUNS.clear()
    loss = lm.sum(total * product)
    loss.backward()
    x, y = a.detach().numpy(), b.detach().numpy()
    np.testing.assert_allclose(a.grad.numpy(), x * y + (x + y) * y)
    np.testing.assert_allclose(b.grad.numpy(), x * y + (x + y) * x)


@BOTH
def test_second_derivatives_and_vmap(op: Call) -> None:
    def f(x: lm.Tensor, y: lm.Tensor) -> lm.Tensor:
        total, product = tensors(op, x, y)
        return lm.sum(total * product * product)

    x, y = lm.asarray(draw((4, 3), 0)), lm.asarray(draw((3,), 1))

    def plain(x: lm.Tensor, y: lm.Tensor) -> lm.Tensor:
        return lm.sum((x + y) * (x * y) * (x * y))

    for wrapped in (
        lambda g: lm.vmap(lm.grad(g), in_axes=(0, None)),
        lambda g: lm.vmap(lm.grad(lambda x, y: lm.sum(lm.grad(g)(x, y) ** 2)), in_axes=(0, None)),
        lambda g: lambda x, y: lm.jvp(lambda x: g(x[0], y), (x,), (x * 0.5,))[1],
        lambda g: lm.jit(lm.vmap(lm.grad(g), in_axes=(0, None))),
    ):
        np.testing.assert_allclose(
            wrapped(f)(x, y).numpy(), wrapped(plain)(x, y).numpy(), rtol=1e-10
        )


@BOTH
def test_open_sizes(op: Call) -> None:
    for length in (3, 5, 8, 13):
        a, b = draw((length,), 0), draw((length,), 1)
        total, product = tensors(op, lm.asarray(a) + 1, lm.asarray(b))
        np.testing.assert_allclose((total + product).numpy(), a + 1 + b + (a + 1) * b)


def test_interpreter_and_batch_rule() -> None:
    x = ops.placeholder((2,), lm.float64)
    total, product = call(SumAndProduct(), x, x)
    values = interpret([total, product], {x: np.array([2.0, 3.0])})
    np.testing.assert_allclose(values[1], [4, 9])
    many = ops.placeholder((4, 2), lm.float64)
    [(found, has)] = batch([product], {x: many}, 4)
    assert has and found.shape == (4, 2)
    assert vjp([product], [total], [x]) == [None]  # not tracked
    (tangent,) = jvp([product], [x], [ops.full(1.0, (2,), lm.float64)])
    assert tangent is not None
    np.testing.assert_allclose(interpret([tangent], {x: np.array([2.0, 3.0])})[0], [4, 6])
    assert Dim("n") == Dim("n")


def test_failures_are_exceptions() -> None:
    a = lm.ones((3,))
    total, _ = tensors(SumAndProduct(fail=True), a, a)
    for _ in range(2):
        with pytest.raises(ZeroDivisionError, match="on purpose"):
            (total + 1).numpy()
    assert (a + 1).tolist() == [2, 2, 2]
    forward = lm.jit(lambda x: tensors(SumAndProduct(fail=True), x, x)[0] + 1)
    with pytest.raises(ZeroDivisionError, match="on purpose"):
        forward(a).numpy()


@BOTH
def test_results_that_a_derivative_needs_are_kept(op: Call) -> None:
    a = lm.tensor(draw((5,), 0), requires_grad=True)
    total, product = tensors(op, a, a * 3)
    node = total.node.inputs[0]
    kept = ops.part(node, 1)
    lm.eval(total)
    del product, kept
    gc.collect()
    assert (total.node.inputs[0] is node) and ops.part(node, 0) is total.node


def test_complex_numbers() -> None:
    a, b = draw((3, 5), 0) + 1j * draw((3, 5), 1), draw((3, 5), 2) - 1j
    with config(backend="llvm"):
        total, product = tensors(SumAndProduct(), lm.asarray(a) * 1j, lm.asarray(b))
        found = (lm.exp(total) - product).numpy()
        np.testing.assert_allclose(found, np.exp(1j * a + b) - 1j * a * b)
        _, product = tensors(SumAndProduct(), lm.asarray(a), lm.asarray(b))  # nothing between
        np.testing.assert_allclose(product.numpy(), a * b)
        with pytest.raises(MissingRuleError, match="complex"):
            tensors(SumAndProductKernel(), lm.asarray(a), lm.asarray(b))[0].numpy()
