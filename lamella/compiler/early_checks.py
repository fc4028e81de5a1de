"""The graph pass that checks indices before anything is written over: for programs that are offered
the memory of what they replace.

Input and output: the outputs of a graph. The indices of a scatter, which the derivative of an
embedding is, are checked as values of their own, once for the scatter and for every gather by the
same indices, the first of which runs early. A program all of whose checks come before the first
launch that writes over an input leaves its inputs as they were when a check fails
(``assemble``). No index is checked that was not before: a scatter checks all of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lamella import ops
from lamella.compiler.canonicalise import canonicalise, map_graph, with_inputs
from lamella.compiler.partition import is_external
from lamella.dtypes import bool_, int64
from lamella.ir.dim import Size, typical
from lamella.ir.node import Node, topological
from lamella.ops.calls import barrier
from lamella.ops.gathering import Gather, RavelIndex
from lamella.ops.scattering import Scatter

__all__ = ["early_checks"]

ROW = 4  # elements that an index moves, at least, for which it is cheap to keep the index


def early_checks(outputs: Sequence[Node]) -> list[Node]:
    """The pass."""
    if not any(isinstance(node.op, Scatter) for node in topological(outputs)):
        return list(outputs)
    outputs = canonicalise(outputs)  # equal indices are one node
    order = [node for node in topological(outputs) if not is_external(node)]
    scatters = [node for node in order if isinstance(node.op, Scatter)]
    wide = [n for n in scatters if typical(n.inputs[2].size) >= ROW * typical(n.inputs[1].size)]
    selections = {s for node in wide if (s := _selection(node)) is not None}
    positions = {n.inputs[1] for n in wide if isinstance(n.inputs[1].op, RavelIndex)}
    if not selections and not positions:
        return list(outputs)

    def change(node: Node, inputs: tuple[Node, ...]) -> Node:
        if is_external(node) or not inputs:
            return node
        selection, op = _selection(node), node.op
        if selection in selections and isinstance(op, Gather | Scatter):
            index = _checked(inputs[1], node.inputs[0].shape[op.lead], node.site)
            given = (inputs[0], index, *inputs[2:])
            return Node(replace(op, checked=False), given, node.shape, node.dtype)
        found = with_inputs(node, inputs)
        return barrier(found) if node in positions else found

    return map_graph(outputs, change)


def _selection(node: Node) -> tuple[Node, Size] | None:
    """The indices that a gather or a scatter checks, and the size of their axis."""
    op = node.op
    if not isinstance(op, Gather | Scatter) or not op.checked:
        return None
    return node.inputs[1], node.inputs[0].shape[op.lead]


def _checked(index: Node, size: Size, site: str | None) -> Node:
    """The positions that indices name, in memory of their own."""
    axis = ops.broadcast_to(ops.constant(False, bool_), (size,))
    found = Node(RavelIndex((True,)), (index, axis), index.shape, int64)
    found.site = site
    return barrier(found)
