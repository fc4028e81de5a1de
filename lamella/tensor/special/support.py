"""What the special functions share: operands of one floating-point type, and work in float64.

Input: what a user passes. Output: tensors. Compositions are evaluated in float64 and cast to the
operands' type at the end, so that their float32 results are rounded once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from lamella import ops
from lamella.dtypes import DType, default_float, float64, promote
from lamella.errors import DTypeError
from lamella.graph.loops import Loop, loop
from lamella.graph.replay import subgraph_of
from lamella.ir.node import Node
from lamella.tensor.core import node_of, wrap
from lamella.tensor.host import node_from_array
from lamella.tensor.operands import TensorLike, as_float, as_node, cast
from lamella.tensor.pending import Trace, current_trace, set_trace

if TYPE_CHECKING:
    from lamella.tensor.tensor import Tensor

__all__ = [
    "applied", "binary", "chebyshev", "constants", "in_double", "operands", "polynomial",
    "repeated", "several",
]  # fmt: skip


def operands(name: str, *xs: TensorLike) -> list[Node]:
    """The operands as nodes of one floating-point type; Python numbers take that of the others.

    Raises:
        DTypeError: for a complex operand.
    """
    weak = [isinstance(x, bool | int | float) and not isinstance(x, np.generic) for x in xs]
    nodes = [None if w else as_node(x) for x, w in zip(xs, weak, strict=True)]
    dtype: DType | None = None
    for node in nodes:
        if node is not None:
            if node.dtype.kind not in "biuf":
                raise DTypeError(
                    f"[{name}] operand of {node.dtype.name}, but this function is defined for real "
                    "numbers; pass its real part"
                )
            dtype = node.dtype if dtype is None else promote(dtype, node.dtype)
    if dtype is None or dtype.kind != "f":
        dtype = default_float()
    return [
        as_node(x, dtype) if node is None else cast(node, dtype)
        for x, node in zip(xs, nodes, strict=True)
    ]


def applied(name: str, builder: Callable[[Node], Node], x: TensorLike) -> Tensor:
    """A primitive of one operand."""
    return wrap(builder(*operands(name, x)))


def binary(
    name: str, builder: Callable[[Node, Node], Node], x: TensorLike, y: TensorLike
) -> Tensor:
    """A primitive of two operands."""
    return wrap(builder(*operands(name, x, y)))


def in_double(name: str, function: Callable[..., Any], *xs: TensorLike) -> Tensor:
    """``function`` of the operands as float64 tensors, in their own type."""
    nodes = operands(name, *xs)
    value = function(*(wrap(as_float(cast(node, float64))) for node in nodes))
    return value.astype(nodes[0].dtype)  # type: ignore[no-any-return]


def constants(array: np.ndarray) -> Tensor:
    """Constants of a formula, as a float64 tensor."""
    return wrap(node_from_array(np.asarray(array, np.float64)))


def several(
    name: str, function: Callable[..., Sequence[Any]], *xs: TensorLike
) -> tuple[Tensor, ...]:
    """As :func:`in_double`, of a function with several results."""
    nodes = operands(name, *xs)
    values = function(*(wrap(as_float(cast(node, float64))) for node in nodes))
    return tuple(value.astype(nodes[0].dtype) for value in values)


def polynomial(x: Any, coefficients: Sequence[float]) -> Any:
    """``c0 + c1 x + c2 x**2 + …`` by Horner's rule, of constants (Python numbers would be arguments
    of the program).
    """
    node = node_of(x)
    total = ops.constant(coefficients[-1], node.dtype)
    for c in reversed(coefficients[:-1]):
        total = ops.add(ops.multiply(total, node), ops.constant(c, node.dtype))
    return wrap(total)


def chebyshev(t: Any, coefficients: Sequence[float]) -> Any:
    """The sum of coefficients times Chebyshev's polynomials of ``t`` in [-1, 1], by Clenshaw's
    recurrence (Mathematical Tables and Other Aids to Computation 9, 1955).
    """
    node = node_of(t)
    twice = ops.add(node, node)
    before, last = ops.constant(0.0, node.dtype), ops.constant(coefficients[-1], node.dtype)
    for c in reversed(coefficients[1:-1]):
        step = ops.subtract(ops.multiply(twice, last), before)
        before, last = last, ops.add(step, ops.constant(c, node.dtype))
    first = ops.constant(coefficients[0], node.dtype)
    return wrap(ops.add(ops.subtract(ops.multiply(node, last), before), first))


class _Body(Trace):
    """Keeps the tensors of a step from being noted as pending."""


def repeated(step: Callable[..., Sequence[Any]], times: int, *start: Any) -> list[Any]:
    """The tensors ``start`` after ``times`` calls of ``step``, recorded once as a loop."""
    initial = [node_of(x) for x in start]
    arguments = [ops.placeholder(node.shape, node.dtype, True) for node in initial]
    outer = current_trace()
    set_trace(outer or _Body())  # what depends on placeholders must not wait to be computed
    try:
        outputs = [node_of(x) for x in step(*map(wrap, arguments))]
    finally:
        set_trace(outer)
    body, outside = subgraph_of(arguments, outputs, bake=True)
    op = Loop(body, carries=len(initial), length=times)
    return [wrap(node) for node in loop(op, *outside, *initial)]
