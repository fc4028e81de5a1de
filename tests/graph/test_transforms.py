"""Reverse, forward and batched graphs: composition, sharing, and what they must leave alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

from lamella import ops
from lamella.dtypes import DType, float64, int64
from lamella.errors import CompilerError, MissingRuleError, ShapeError, TraceError
from lamella.graph.batch import batch
from lamella.graph.forward import jvp
from lamella.graph.reverse import vjp
from lamella.ir.interp import interpret
from lamella.ir.node import Node, make, topological
from lamella.ir.verify import verify_graph
from lamella.ops.base import PRIMITIVES, Array, Primitive


def leaf(values: object, tracked: bool = True) -> Node:
    array = np.asarray(values, np.float64)
    return ops.data(array, array.shape, float64, tracked)


def value(node: Node) -> Array:
    return interpret([node])[0]


def one(shape: tuple[int, ...] = ()) -> Node:
    return ops.full(1.0, shape, float64)


def derivative(output: Node, x: Node) -> Node:
    (g,) = vjp([output], [one()], [x])
    assert g is not None
    return g


def test_derivatives_of_any_order() -> None:
    x = leaf(0.7)
    y, expected = ops.sin(x), np.sin(0.7)
    for order in range(1, 6):
        y = derivative(y, x)
        expected = [np.sin, np.cos, lambda v: -np.sin(v), lambda v: -np.cos(v)][order % 4](0.7)
        np.testing.assert_allclose(value(y), expected, rtol=1e-14)


def test_what_is_computed_twice_is_derived_once() -> None:
    x, w = leaf(np.arange(6.0).reshape(2, 3)), leaf(np.arange(12.0).reshape(3, 4))

    def layer() -> Node:
        scaled = ops.divide(x, ops.broadcast_to(ops.scalar(3.0, float64), x.shape))
        return ops.contract(scaled, w, (0, 1), (1, 2), (0, 2))

    total = ops.add(ops.sin(layer()), ops.multiply(layer(), layer()))
    found = vjp([total], [one((2, 4))], [x, w])
    new = [n for n in topological([n for n in found if n is not None]) if n.op.name == "contract"]
    forward = [n for n in topological([total]) if n.op.name == "contract"]
    assert len(set(new) - set(forward)) == 2
    y = np.arange(6.0).reshape(2, 3) / 3 @ np.arange(12.0).reshape(3, 4)
    by_y = np.cos(y) + 2 * y
    np.testing.assert_allclose(value(found[0]), by_y @ value(w).T / 3, rtol=1e-13)
    np.testing.assert_allclose(value(found[1]), value(x).T @ by_y / 3, rtol=1e-13)


def test_fresh_identities_are_derived_apart() -> None:
    x = leaf(0.3)
    first, second = ops.mark(x), ops.mark(x)
    y = ops.multiply(ops.sin(first), ops.sin(second))
    a, b = vjp([y], [one()], [first, second])
    np.testing.assert_allclose([value(a), value(b)], [np.cos(0.3) * np.sin(0.3)] * 2)


def test_other_numbers_are_other_values() -> None:
    x = leaf(0.3)
    parts = [ops.multiply(x, ops.scalar(k, float64)) for k in (0.0, -0.0, 2.0, 2.0, 3.0)]
    y = parts[0]
    for part in parts[1:]:
        y = ops.add(y, ops.sin(part))
    expected = 2 * 2 * np.cos(0.6) + 3 * np.cos(0.9)
    np.testing.assert_allclose(value(derivative(y, x)), expected, rtol=1e-14)


def test_forward_over_reverse_over_forward() -> None:
    x = ops.mark(leaf(0.5))
    y = ops.exp(ops.multiply(x, x))
    (t,) = jvp([y], [x], [one()])
    assert t is not None
    g = derivative(t, x)
    (third,) = jvp([g], [x], [one()])
    assert third is not None
    # d³ exp(x²) = (12 x + 8 x³) exp(x²)
    np.testing.assert_allclose(value(third), (12 * 0.5 + 8 * 0.125) * np.exp(0.25), rtol=1e-13)


def test_shared_nodes_are_walked_once() -> None:
    x = leaf(1.0001)
    y = x
    for _ in range(60):  # 2**60 paths
        y = ops.multiply(y, y) if y is x else ops.add(y, y)
    g = derivative(y, x)
    assert len(topological([g])) < 400
    np.testing.assert_allclose(value(g), 2.0**59 * 2 * 1.0001)


def test_deep_graphs_do_not_recurse() -> None:
    x = leaf(1.0)
    y = x
    for _ in range(20_000):
        y = ops.add(y, x)
    np.testing.assert_allclose(value(derivative(y, x)), 20_001)


def test_unreachable_and_untracked_inputs_give_none() -> None:
    x, other, frozen = leaf(2.0), leaf(3.0), leaf(4.0, tracked=False)
    y = ops.multiply(x, ops.stop_gradient(frozen))
    assert vjp([y], [one()], [x, other])[1] is None
    assert vjp([ops.stop_gradient(y)], [one()], [x]) == [None]
    assert vjp([y], [None], [x]) == [None]
    assert jvp([y], [other], [one()]) == [None]


def test_by_inner_nodes_and_outputs_that_are_inputs() -> None:
    x = leaf(3.0)
    middle = ops.multiply(x, x)
    y = ops.multiply(middle, x)
    found = vjp([y, x], [one(), ops.constant(10.0, float64)], [middle, x])
    assert [float(value(g)) for g in found if g is not None] == [3.0, 37.0]


def test_evaluated_tracked_nodes_are_entered() -> None:
    x = leaf(3.0)
    y = ops.multiply(x, x)
    y.value = value(y)  # looked at, as print(y) does
    z = ops.multiply(y, x)
    np.testing.assert_allclose(value(derivative(z, x)), 27.0)
    (t,) = jvp([z], [x], [one()])
    assert t is not None
    np.testing.assert_allclose(value(t), 27.0)


def test_batched_gradients_are_per_example() -> None:
    w, x = leaf([1.0, -2.0, 0.5]), ops.placeholder((3,), float64)
    m = ops.mark(w)
    loss = ops.reduce_sum(ops.tanh(ops.multiply(m, x)))
    g = derivative(loss, m)
    xs = ops.placeholder((4, 3), float64)
    ((many, has),) = batch([g], {x: xs}, 4)
    data = np.random.default_rng(0).standard_normal((4, 3))
    expected = data * (1 - np.tanh(np.array([1.0, -2.0, 0.5]) * data) ** 2)
    assert has
    np.testing.assert_allclose(interpret([many], {xs: data})[0], expected, rtol=1e-13)


def test_gradient_of_a_batched_graph() -> None:
    x = ops.placeholder((), float64)
    ((many, _),) = batch([ops.sin(x)], {x: ops.mark(leaf([1.0, 2.0]))}, 2)
    inner = many.inputs[0]
    (g,) = vjp([ops.reduce_sum(many)], [one()], [inner])
    assert g is not None
    np.testing.assert_allclose(value(g), np.cos([1.0, 2.0]))


def test_nested_batches() -> None:
    a, b = ops.placeholder((), float64), ops.placeholder((), float64)
    rows, columns = ops.placeholder((2,), float64), ops.placeholder((3,), float64)
    ((inner, _),) = batch([ops.multiply(a, b)], {b: columns}, 3)
    ((outer, _),) = batch([inner], {a: rows}, 2)
    found = interpret([outer], {rows: np.array([1.0, 2.0]), columns: np.arange(3.0)})[0]
    np.testing.assert_array_equal(found, np.outer([1, 2], [0, 1, 2]))


def test_batching_leaves_the_rest_alone() -> None:
    x, fixed = ops.placeholder((), float64), ops.exp(leaf(1.0))
    found = batch([fixed, ops.add(x, fixed), x], {x: ops.placeholder((5,), float64)}, 5)
    assert found[0] == (fixed, False)
    assert [has for _, has in found] == [False, True, True]
    assert found[1][0].inputs[1] is fixed


def test_cotangents_must_fit() -> None:
    x = leaf([1.0, 2.0])
    with pytest.raises(ShapeError, match=r"\[vjp\] a cotangent of float64\[\]"):
        vjp([ops.exp(x)], [one()], [x])
    with pytest.raises(ShapeError, match=r"\[jvp\] a tangent of float64\[\]"):
        jvp([ops.exp(x)], [x], [one()])
    with pytest.raises(ShapeError, match=r"\[batch\]"):
        batch([x], {x: ops.placeholder((2,), float64)}, 5)


@dataclass(frozen=True, slots=True)
class Bare(Primitive):
    """A primitive without rules."""

    name: ClassVar[str] = "bare"

    def check(self, node: Node) -> None:
        """Anything."""

    def reference(self, *arrays: Array, shape: tuple[int, ...], dtype: DType) -> Array:
        """Itself."""
        return arrays[0]


del PRIMITIVES["bare"]  # the tables of primitives are not to list it


@pytest.fixture
def bare() -> Node:
    x = leaf([1.0])
    return make(Bare(), (x,), (1,), float64)


def test_missing_rules_are_errors(bare: Node) -> None:
    (x,) = bare.inputs
    with pytest.raises(MissingRuleError, match=r"\[bare\] has no rule for reverse-mode"):
        vjp([bare], [one((1,))], [x])
    with pytest.raises(MissingRuleError, match=r"\[bare\] has no rule for forward-mode"):
        jvp([bare], [x], [one((1,))])
    with pytest.raises(MissingRuleError, match=r"\[bare\] has no rule for vmap"):
        batch([bare], {x: ops.placeholder((2, 1), float64)}, 2)


def test_interpreter_errors() -> None:
    x = ops.placeholder((2,), float64)
    with pytest.raises(TraceError, match=r"the placeholder of shape \(2,\) has no value"):
        interpret([x])
    with pytest.raises(ShapeError, match=r"a value of shape \(3,\)"):
        interpret([x], {x: np.ones(3)})


def test_verifier_finds_wrong_nodes() -> None:
    x = leaf([1.0, 2.0])
    wrong: Sequence[Node] = (
        Node(ops.exp(x).op, (x,), (3,), float64),
        Node(ops.exp(x).op, (x,), (2,), int64),
        Node(ops.add(x, x).op, (x, leaf([1.0])), (2,), float64),
        Node(ops.reduce_sum(x).op, (x,), (2,), float64),
    )
    for node in wrong:
        with pytest.raises((ShapeError, TypeError)):
            verify_graph([node])
    with pytest.raises(CompilerError, match="neither a Dim nor an int"):
        verify_graph([Node(ops.exp(x).op, (x,), (-1,), float64)])
    verify_graph([ops.exp(x)])
