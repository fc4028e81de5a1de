"""A graph as a value: the body of a loop, a branch. Part of a primitive, so compared by structure.

Input: placeholders and the outputs computed from them and from nothing else but constants. Equal
subgraphs compute the same, so equal loops share a compiled program.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from lamella.errors import CompilerError, FileFormatError
from lamella.ir.dim import Dim, symbols
from lamella.ir.node import Node, topological

if TYPE_CHECKING:
    from lamella.ops.base import Primitive

__all__ = ["Subgraph"]


class Subgraph:
    """A function of nodes. ``cache`` keeps what was derived from it (derivatives, programs)."""

    __slots__ = ("_hash", "_key", "cache", "inputs", "outputs")

    def __init__(self, inputs: Sequence[Node], outputs: Sequence[Node]) -> None:
        self.inputs = tuple(inputs)
        self.outputs = tuple(outputs)
        self.cache: dict[object, object] = {}
        self._key = self._structure()
        self._hash = hash(self._key)

    def _structure(self) -> tuple[object, ...]:
        """All that decides what is computed."""
        number = {node: i for i, node in enumerate(self.inputs)}
        found: list[object] = [(node.shape, node.dtype.name) for node in self.inputs]
        for node in topological(self.outputs, stop=self.inputs):
            if node in number:
                continue
            if node.value is not None or node.op.name == "placeholder":
                raise CompilerError(
                    f"[subgraph] {node} comes from outside; it must be one of the inputs"
                )
            number[node] = len(number)
            sources = tuple([number[source] for source in node.inputs])
            found.append((node.op, sources, node.shape, node.dtype.name, node.tracked))
        found.append(tuple([number[node] for node in self.outputs]))
        return tuple(found)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return (
            isinstance(other, Subgraph) and self._hash == other._hash and self._key == other._key
        )

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        return f"Subgraph({self.text()!r})"

    def text(self, exact: bool = True) -> str:
        """The graph as text: the number of inputs, then a graph of inputs and outputs."""
        from lamella.ir.graph_text import graph_text

        return f"{len(self.inputs)}\n{graph_text((*self.inputs, *self.outputs), exact)}"

    @classmethod
    def parse(cls, text: str, primitives: Mapping[str, type[Primitive]]) -> Subgraph:
        """The subgraph whose ``text`` this is.

        Raises:
            FileFormatError: if it is something else.
        """
        from lamella.ir.graph_text import parse_graph

        count, _, rest = text.partition("\n")
        if not count.isdecimal():
            raise FileFormatError(
                f"[subgraph] the text begins with {count!r} instead of the number of inputs; give "
                "what Subgraph.text returned"
            )
        nodes = parse_graph(rest, primitives)
        return cls(nodes[: int(count)], nodes[int(count) :])

    def symbols(self) -> set[str]:
        """The names of the run-time sizes in it."""
        found: set[str] = set()
        for node in (*self.inputs, *topological(self.outputs, stop=self.inputs)):
            for size in node.shape:
                if isinstance(size, Dim):
                    found |= symbols(size)
        return found
