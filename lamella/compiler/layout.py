"""The graph pass that decides in which order axes are stored: channels last around convolutions.

Input and output: the outputs of a graph. A ``conv`` becomes a ``conv_last`` between permutations.
From there the order spreads to what reads the result: elementwise operations, reductions and
concatenations are computed in that order, and the permutation moves behind them, until it meets the
one before the next convolution or an output. Movement is left as it is (it is never stored), but
passes the order on. The meaning of every node is kept; only which form is stored changes.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import replace

from lamella import ops
from lamella.compiler.canonicalise import map_graph, with_inputs
from lamella.compiler.convolution import direct
from lamella.compiler.partition import is_external
from lamella.ir.decisions import at_least
from lamella.ir.dim import Shape, Size
from lamella.ir.node import Node
from lamella.ir.vectors import VectorUnit
from lamella.ops.joining import Concatenate
from lamella.ops.movement import Permute
from lamella.ops.reduce import Reduction

__all__ = ["layouts"]

LONG = 256  # elements that are summed as one axis; windows are shorter
Order = tuple[int, ...]  # axis i of the stored form is axis order[i] of the node


def layouts(
    outputs: Sequence[Node], unit: VectorUnit, steady: Container[Node] = ()
) -> list[Node]:
    """The pass. ``steady`` are nodes whose values stay the same from call to call."""
    layout = _Layout(unit, steady)
    found = map_graph(outputs, layout.change)
    return [layout.settled.get(node, node) for node in found]


def inverse(order: Order) -> Order:
    """The permutation that undoes ``order``.

    >>> inverse((0, 2, 3, 1))
    (0, 3, 1, 2)
    """
    return tuple(order.index(a) for a in range(len(order)))


def moved(node: Node, order: Order) -> Node:
    """The node with its axes in ``order``, joined with a permutation it may be itself."""
    if isinstance(node.op, Permute) and node.value is None:
        return ops.permute(node.inputs[0], tuple(node.op.axes[a] for a in order))
    return ops.permute(node, order)


class _Layout:
    """The nodes that are better stored in another order, and the rules by which it spreads."""

    def __init__(self, unit: VectorUnit, steady: Container[Node]) -> None:
        self.unit, self.steady = unit, steady
        self.orders: dict[Node, Order] = {}
        self.kept: set[Node] = set()
        self.settled: dict[Node, Node] = {}

    def change(self, node: Node, inputs: tuple[Node, ...]) -> Node:
        """The node of new inputs, computed in the order they are stored in."""
        if is_external(node) or node.op.kind == "leaf":
            return node
        ordered = bool(inputs) and inputs[0] in self.orders
        steady = len(inputs) > 1 and node.inputs[1] in self.steady
        convolution = direct(node, inputs, self.unit, ordered, steady)
        if convolution is not None:
            return self._ordered(convolution, (0, *range(2, node.ndim), 1))
        first = next((n for n in inputs if n in self.orders), None)
        if node.op.kind == "elementwise" and any(self._kept(n) for n in inputs):
            found = with_inputs(node, tuple(self._settled(n) for n in inputs))
            self.kept.add(found)
            return found
        if first is None:
            return with_inputs(node, inputs)
        order = self.orders[first]
        if node.op.kind == "elementwise" and first.ndim == node.ndim:
            return self._elementwise(node, inputs, order)
        if isinstance(node.op, Reduction):
            return self._reduction(node, first, order)
        if isinstance(node.op, Concatenate):
            return self._concatenation(node, inputs, order)
        found = with_inputs(node, inputs)
        if node.op.kind == "movement":
            self._pass_on(found, first, order)
        return found

    def _ordered(self, node: Node, order: Order) -> Node:
        if order != tuple(range(node.ndim)):
            self.orders[node] = order
        return node

    def _back(self, stored: Node, order: Order) -> Node:
        return self._ordered(moved(stored, inverse(order)), order)

    def _kept(self, node: Node) -> bool:
        """Whether the order is not ours to choose: data, such as parameters, and what is computed
        from them element by element.
        """
        return node in self.kept or (is_external(node) and bool(node.shape))

    def _settled(self, node: Node) -> Node:
        """The node stored as it is, once for all that read it so."""
        if node not in self.orders:
            return node
        return self.settled.setdefault(node, ops.barrier(node))

    def _elementwise(self, node: Node, inputs: Sequence[Node], order: Order) -> Node:
        args = tuple(moved(n, order) if n.ndim else n for n in inputs)
        shape = tuple(node.shape[a] for a in order)
        return self._back(_like(node, args, shape), order)

    def _reduction(self, node: Node, source: Node, order: Order) -> Node:
        op = node.op
        if not isinstance(op, Reduction):
            raise TypeError(f"{op.name} is no reduction over axes")
        kept = [a for a in order if a not in op.axes]
        after = tuple(sorted(kept).index(a) for a in kept)
        joined, axes = _joined(moved(source, order), [a in op.axes for a in order])
        shape = tuple(source.shape[a] for a in kept)
        node = Node(replace(op, axes=axes), (joined,), shape, node.dtype)
        return self._back(node, after)

    def _concatenation(self, node: Node, inputs: Sequence[Node], order: Order) -> Node:
        op = node.op
        if not isinstance(op, Concatenate):
            raise TypeError(f"{op.name} is no concatenation")
        args = tuple(moved(n, order) for n in inputs)
        shape = tuple(node.shape[a] for a in order)
        stored = Node(replace(op, axis=order.index(op.axis)), args, shape, node.dtype)
        return self._back(stored, order)

    def _pass_on(self, node: Node, source: Node, order: Order) -> None:
        """What movement makes of the order of what it moves."""
        if isinstance(node.op, Permute):
            self._ordered(node, tuple(node.op.axes.index(a) for a in order))
        elif node.op.name == "reshape":
            groups = _split(source.shape, node.shape)
            if groups is not None:
                self._ordered(node, tuple(a for axis in order for a in groups[axis]))
        elif node.ndim == source.ndim:
            self._ordered(node, order)


def _like(node: Node, inputs: tuple[Node, ...], shape: Shape) -> Node:
    result = Node(node.op, inputs, shape, node.dtype)
    result.site = node.site
    return result


def _joined(x: Node, reduced: Sequence[bool]) -> tuple[Node, tuple[int, ...]]:
    """``x`` with neighbouring axes that are reduced as one, so that many rows can be divided among
    workers; and the reduced axes.
    """
    shape: list[Size] = []
    axes: list[int] = []
    for axis, size in enumerate(x.shape):
        if axis and reduced[axis] and reduced[axis - 1] and _is_long(size * shape[-1]):
            shape[-1] = shape[-1] * size
            continue
        if reduced[axis]:
            axes.append(len(shape))
        shape.append(size)
    return ops.reshape(x, shape), tuple(axes)


def _is_long(size: Size) -> bool:
    return at_least(size, LONG, True)


def _split(source: Shape, result: Shape) -> list[list[int]] | None:
    """For each axis of ``source`` the axes of ``result`` it is split into; None where axes join."""
    groups: list[list[int]] = []
    at = 0
    for size in source:
        group: list[int] = []
        total: Size = 1
        while at < len(result) and (total != size or result[at] == 1):
            total = total * result[at]
            group.append(at)
            at += 1
        if total != size:
            return None
        groups.append(group)
    return groups if at == len(result) else None
