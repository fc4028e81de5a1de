"""Loops and branches without what nobody uses: rows kept for a derivative that never came, carries
that nothing depends on.

Input and output: the outputs of a graph.
"""

from __future__ import annotations

from collections.abc import Sequence

from lamella.ir.node import Node, topological
from lamella.ops.calls import Call, Part, call, part

__all__ = ["prune"]


def prune(outputs: Sequence[Node]) -> list[Node]:
    """The graph, its calls reduced to the results that are used."""
    order = topological(outputs)
    used: dict[Node, set[int]] = {}
    for node in order:
        if isinstance(node.op, Part) and node.value is None:
            used.setdefault(node.inputs[0], set()).add(node.op.index)
    smaller = {}
    for node, results in used.items():
        op = node.op
        if isinstance(op, Call) and len(results) < len(op.results(node.inputs)):
            found = op.kept(node, sorted(results))
            if found is not None:
                smaller[node] = found
    if not smaller:
        return list(outputs)
    return prune(_rebuilt(outputs, order, smaller))


def _rebuilt(
    outputs: Sequence[Node], order: Sequence[Node],
    smaller: dict[Node, tuple[Call, Sequence[Node], dict[int, int]]],
) -> list[Node]:  # fmt: skip
    new: dict[Node, Node] = {}
    for node in order:
        if node.value is not None or not node.inputs:
            new[node] = node
        elif node in smaller:
            op, inputs, _ = smaller[node]
            new[node] = call(op, *(new[source] for source in inputs))[0].inputs[0]
        elif isinstance(node.op, Part) and node.inputs[0] in smaller:
            _, _, places = smaller[node.inputs[0]]
            new[node] = part(new[node.inputs[0]], places[node.op.index])
        elif any(new[source] is not source for source in node.inputs):
            new[node] = Node(node.op, tuple(new[s] for s in node.inputs), node.shape, node.dtype)
            new[node].site = node.site
        else:
            new[node] = node
    return [new[node] for node in outputs]
