"""The result of a compiled call as a node that can still be differentiated: derivatives replay the recorded graph.

Input: a recorded graph with its inputs. Output: one primitive per output; its value is already computed when the node is made, and its rules put
the graph itself in the node's place. Equal replays of one call become one in the compiler.
"""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from lamella.graph import batch, forward, reverse
from lamella.ir.dim import Dim, bind
from lamella.ir.node import Node, make, topological
from lamella.ops.base import Kind, Needs, Primitive

__all__ = ["Called", "replay"]


def replay(outputs: Sequence[Node], inputs: Sequence[Node], given: Sequence[Node], sizes: dict[str, int]) -> list[Node]:
    """The graph of ``outputs`` with ``given`` in place of ``inputs`` and plain numbers for size symbols."""
    new: dict[Node, Node] = dict(zip(inputs, given, strict=True))
    for node in topological(outputs, stop=inputs):
        if node in new:
            continue
        if not node.inputs and node.value is not None:
            new[node] = node
            continue
        shape = tuple(bind(size, sizes) if isinstance(size, Dim) else size for size in node.shape)
        copy = make(node.op, tuple(new[source] for source in node.inputs), shape, node.dtype)
        copy.tracked = copy.tracked and node.tracked
        copy.site = node.site
        new[node] = copy
    return [new[node] for node in outputs]


@dataclass(frozen=True, slots=True, eq=False)
class Called(Primitive):
    """Output ``output`` of a compiled call whose graph takes ``inputs``."""

    name: ClassVar[str] = ""  # part of no table: its rules are those of the graph it stands for
    kind: ClassVar[Kind] = "leaf"
    output: Node
    inputs: tuple[Node, ...]
    sizes: dict[str, int] = field(repr=False)

    def _graph(self, given: Sequence[Node]) -> Node:
        (found,) = replay([self.output], self.inputs, given, self.sizes)
        return found

    def vjp(self, node: Node, cotangent: Node, needs: Needs) -> Sequence[Node | None]:
        """Reverse mode through the graph."""
        return reverse.vjp([self._graph(node.inputs)], [cotangent], node.inputs)

    def jvp(self, node: Node, tangents: Sequence[Node | None]) -> Node | None:
        """Forward mode through the graph."""
        (found,) = forward.jvp([self._graph(node.inputs)], node.inputs, tangents)
        return found

    def batch(self, node: Node, args: Sequence[Node], batched: Needs, size: object) -> Node:
        """The graph for many examples."""
        many = {old: new for old, new, has in zip(node.inputs, args, batched, strict=True) if has}
        ((found, _),) = batch.batch([self._graph(node.inputs)], many, size)  # type: ignore[arg-type]
        return found
