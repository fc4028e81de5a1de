"""Which values of a forward graph a derivative takes as they were, and which it computes again.

Input: the nodes of a derivative, which read nodes of the forward graph. Output: the forward nodes
to be given to it: inputs, what is available anyway, and what is expensive.
"""
from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from lamella.ir.node import Node, topological

__all__ = ["expensive", "forward_nodes", "read_by"]

COSTLY = 4  # scalar operations an element that are kept rather than computed again
OWN = ("reduction", "contraction", "kernel", "part")


def expensive(node: Node) -> bool:
    """Whether a value is better kept than computed again from its inputs."""
    return node.op.kind in OWN or (node.op.kind == "elementwise" and node.op.cost > COSTLY)


def forward_nodes(outputs: Sequence[Node], inputs: Sequence[Node]) -> set[Node]:
    """The nodes of a forward graph that depend on its inputs, and the inputs."""
    reached = set(inputs)
    for node in topological(outputs, stop=inputs):
        if any(source in reached for source in node.inputs):
            reached.add(node)
    return reached


def read_by(
    derivative: Sequence[Node], forward: Collection[Node], given: Collection[Node],
    keep: Callable[[Node], bool] = expensive,
) -> list[Node]:  # fmt: skip
    """The forward nodes at which ``derivative`` is cut: those ``given``, else those to ``keep``;
    everything above them is computed again. In an order that the graph decides.
    """
    found: dict[Node, None] = {}
    seen: set[Node] = set()
    stack = list(reversed(derivative))
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        if node in forward and (node in given or not node.inputs or keep(node)):
            found[node] = None
        else:
            stack.extend(reversed(node.inputs))
    return list(found)
