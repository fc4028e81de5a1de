"""The pass that takes complex numbers apart: no later pass, kernel or emitter knows them.

Input: the outputs of a graph and its external inputs. Output: the same graph over real nodes. A
complex tensor of shape S lies in memory as reals of shape S + (2,), real and imaginary part side by
side: a complex input becomes such a real input, read as its two halves; a complex output is the
stack of its parts; between them each primitive's ``complex_parts`` says what the parts are. Graphs
without complex nodes pass unchanged.
"""

from __future__ import annotations

from collections.abc import Sequence

from lamella import ops
from lamella.compiler.partition import is_external
from lamella.dtypes import DType
from lamella.ir.dim import Shape
from lamella.ir.node import Node, topological
from lamella.ir.subgraph import Subgraph
from lamella.ops.base import Parts
from lamella.ops.calls import Call, PairedCall, Part
from lamella.ops.families import to_shape

__all__ = ["split_complex"]


def split_complex(
    outputs: Sequence[Node], inputs: Sequence[Node]
) -> tuple[list[Node], list[Node]]:
    """``outputs`` and ``inputs`` with every complex one as a real one with an axis of 2 more.

    Raises:
        MissingRuleError: for a primitive without ``complex_parts``.

    >>> from lamella.dtypes import complex64
    >>> x = ops.placeholder((3,), complex64)
    >>> (y,), (given,) = split_complex([ops.multiply(x, x)], [x])
    >>> y, given
    (<Interleave(): float32[3, 2]>, <Placeholder(): float32[3, 2]>)
    """
    order = topological(outputs)
    if not any(node.dtype.kind == "c" for node in (*order, *inputs)):
        return list(outputs), list(inputs)
    given = {node: _in_memory(node) for node in inputs}
    parts: dict[Node, Parts] = {}
    for node in order:
        parts[node] = _read(node, given) if is_external(node) else _parts(node, parts, given)
    return [_stored(node, parts[node], given) for node in outputs], [given[node] for node in inputs]


def _in_memory(node: Node) -> Node:
    return node if node.dtype.kind != "c" else ops.placeholder(*_paired(node))


def _paired(node: Node) -> tuple[Shape, DType]:
    """The shape and dtype of the reals that a value is in memory."""
    more = (2,) if node.dtype.kind == "c" else ()
    return (*node.shape, *more), node.dtype.part


def _read(node: Node, given: dict[Node, Node]) -> Parts:
    """The parts of a value from outside."""
    return _halves(given.get(node, node), node)


def _halves(pairs: Node, node: Node) -> Parts:
    """The parts of ``node``, which lie in ``pairs``."""
    if node.dtype.kind != "c":
        return (pairs,)
    lead, strides = (0,) * node.ndim, (1,) * pairs.ndim
    halves = (ops.slice(pairs, (*lead, k), (*node.shape, 1), strides) for k in (0, 1))
    return tuple(ops.reshape(half, node.shape) for half in halves)


def _call(node: Node, parts: dict[Node, Parts], given: dict[Node, Node]) -> Node:
    """A call without a kernel reads and writes complex numbers where the pairs lie."""
    if not isinstance(node.op, Call):
        raise TypeError(f"{node.op.name} is no call")
    results = node.op.results(node.inputs)
    kinds = tuple(source.dtype for source in node.inputs)
    inputs = tuple(_stored(source, parts[source], given) for source in node.inputs)
    if node.op.control:
        return Node(node.op.over_graphs(_real), inputs, node.shape, node.dtype.part)
    if not any(dtype.kind == "c" for dtype in (*kinds, *(kind for _, kind in results))):
        return Node(node.op, inputs, node.shape, node.dtype)
    return Node(PairedCall(node.op, kinds), inputs, node.shape, node.dtype.part)


def _real(graph: Subgraph) -> Subgraph:
    """A loop's body, a branch: on pairs too."""
    outputs, inputs = split_complex(graph.outputs, graph.inputs)
    return Subgraph(inputs, outputs)


def _parts(node: Node, parts: dict[Node, Parts], given: dict[Node, Node]) -> Parts:
    """The parts of a result; a node all of whose inputs stayed as they were is kept."""
    args = [parts[source] for source in node.inputs]
    if isinstance(node.op, Call) and node.op.in_memory:
        return (_call(node, parts, given),)
    if isinstance(node.op, Part):
        return _halves(Node(node.op, args[0], *_paired(node)), node)
    if node.dtype.kind != "c" and all(source.dtype.kind != "c" for source in node.inputs):
        inputs = tuple(arg[0] for arg in args)
        if all(a is b for a, b in zip(inputs, node.inputs, strict=True)):
            return (node,)
        made = Node(node.op, inputs, node.shape, node.dtype)
        made.site = node.site
        return (made,)
    return tuple(to_shape(part, node.shape) for part in node.op.complex_parts(node, args))


def _stored(node: Node, parts: Parts, given: dict[Node, Node]) -> Node:
    """An output as it lies in memory."""
    if node in given:
        return given[node]
    if len(parts) == 1:
        return parts[0]
    return ops.interleave(*parts)
