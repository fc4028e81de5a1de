"""The graph pass that computes a transposed product as it is stored: (A·B)ᵀ = Bᵀ·Aᵀ.

Input and output: the outputs of a graph. The gradient of a weight that a layer multiplies
transposed is such a product: computed in the order of the weight, it needs no pass that moves it,
and the optimiser's update can be part of its tail.
"""

from __future__ import annotations

from collections.abc import Sequence

from lamella.compiler.canonicalise import map_graph, with_inputs
from lamella.compiler.partition import is_external
from lamella.ir.node import Node, topological
from lamella.ops.contraction import Contract
from lamella.ops.movement import Permute

__all__ = ["transposes"]


def transposes(outputs: Sequence[Node]) -> list[Node]:
    """The pass. A product that others read as it is, or that only products read, stays."""
    users: dict[Node, list[Node]] = {}
    for node in topological(outputs):
        for source in node.inputs:
            users.setdefault(source, []).append(node)
    stored = set(outputs)

    def change(node: Node, inputs: tuple[Node, ...]) -> Node:
        if is_external(node) or not inputs:
            return node
        found = None
        if isinstance(node.op, Permute) and len(users[node.inputs[0]]) == 1:
            together = all(user.op.kind == "elementwise" for user in users.get(node, ()))
            if together and node.inputs[0] not in stored:
                found = _swapped(node, inputs[0])
        return found or with_inputs(node, inputs)

    return map_graph(outputs, change)


def _swapped(node: Node, product: Node) -> Node | None:
    """``product`` with its factors exchanged, where ``node`` exchanges its rows and columns."""
    op = product.op
    if not isinstance(op, Contract) or not isinstance(node.op, Permute) or is_external(product):
        return None
    wanted = tuple(op.out_labels[axis] for axis in node.op.axes)
    batch = tuple(label for label in wanted if label in op.a_labels and label in op.b_labels)
    rows = tuple(label for label in wanted if label not in op.a_labels)
    columns = tuple(label for label in wanted if label not in op.b_labels)
    if wanted != batch + rows + columns or not rows or not columns:
        return None
    a, b = product.inputs
    found = Node(Contract(op.b_labels, op.a_labels, wanted), (b, a), node.shape, node.dtype)
    found.site = product.site
    return found
