"""A compiled call's result as a node that can still be differentiated: rules replay the graph.

Input: a recorded graph with its inputs. Output: one primitive per output; its value is already
computed when the node is made, and its rules put derivatives of the graph in the node's place.
Those are made once per graph, on the placeholders, so that no rule ever walks into the history of
the call's arguments. Equal replays of one call become one in the compiler.
"""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from lamella import ops
from lamella.graph import batch, forward, reverse
from lamella.ir.dim import Dim, Size, bind
from lamella.ir.node import Node, gradient_mode, make, topological
from lamella.ops.base import Kind, Needs, Primitive

__all__ = ["Called", "Graph", "replay"]


def replay(
    outputs: Sequence[Node], inputs: Sequence[Node], given: Sequence[Node], sizes: dict[str, int]
) -> list[Node]:
    """``outputs`` with ``given`` in place of ``inputs``, and numbers for size symbols."""
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


@dataclass(slots=True, eq=False)
class Graph:
    """One output of a recorded graph with its derivatives, by placeholders for all they need."""

    output: Node
    inputs: tuple[Node, ...]
    _pulls: dict[Needs, list[Node | None]] = field(default_factory=dict)
    _pushes: dict[Needs, Node | None] = field(default_factory=dict)
    _seeds: dict[int, Node] = field(default_factory=dict)

    def seed(self, node: Node, number: int) -> Node:
        """A placeholder for the cotangent or tangent of ``node``."""
        if number not in self._seeds:
            self._seeds[number] = made = ops.placeholder(node.shape, node.dtype)
            made.tracked = True
        return self._seeds[number]

    def pull(self, needs: Needs) -> list[Node | None]:
        """Cotangents of the inputs, from ``seed(output, -1)``."""
        if needs not in self._pulls:
            wanted = [node for node, need in zip(self.inputs, needs, strict=True) if need]
            with _Recording():
                found = reverse.vjp([self.output], [self.seed(self.output, -1)], wanted)
            place = iter(found)
            self._pulls[needs] = [next(place) if need else None for need in needs]
        return self._pulls[needs]

    def push(self, moves: Needs) -> Node | None:
        """The output's tangent, from ``seed(input, i)`` for inputs that move."""
        if moves not in self._pushes:
            tangents = [
                self.seed(node, i) if move else None
                for i, (node, move) in enumerate(zip(self.inputs, moves, strict=True))
            ]
            with _Recording():
                (found,) = forward.jvp([self.output], self.inputs, tangents)
            self._pushes[moves] = found
        return self._pushes[moves]


class _Recording:
    """Gradient mode on: what is made once must serve those who differentiate it again."""

    def __enter__(self) -> None:
        self._before = gradient_mode.enabled
        gradient_mode.enabled = True

    def __exit__(self, *exc: object) -> None:
        gradient_mode.enabled = self._before


@dataclass(frozen=True, slots=True, eq=False)
class Called(Primitive):
    """One output of a compiled call; the node's inputs are the graph's, in order."""

    name: ClassVar[str] = ""  # part of no table: its rules are those of the graph it stands for
    kind: ClassVar[Kind] = "leaf"
    graph: Graph
    sizes: dict[str, int] = field(repr=False)

    def vjp(self, node: Node, cotangent: Node, needs: Needs) -> Sequence[Node | None]:
        """Reverse mode through the graph."""
        graph = self.graph
        parts = graph.pull(needs)
        inputs = (*graph.inputs, graph.seed(graph.output, -1))
        found = [part for part in parts if part is not None]
        given = iter(replay(found, inputs, (*node.inputs, cotangent), self.sizes))
        return [None if part is None else next(given) for part in parts]

    def jvp(self, node: Node, tangents: Sequence[Node | None]) -> Node | None:
        """Forward mode through the graph."""
        graph = self.graph
        found = graph.push(tuple(tangent is not None for tangent in tangents))
        if found is None:
            return None
        moving = [(graph.seed(source, i), tangents[i]) for i, source in enumerate(graph.inputs)
                  if tangents[i] is not None]  # fmt: skip
        inputs = (*graph.inputs, *(seed for seed, _ in moving))
        given = (*node.inputs, *(tangent for _, tangent in moving if tangent is not None))
        return replay([found], inputs, given, self.sizes)[0]

    def batch(self, node: Node, args: Sequence[Node], batched: Needs, size: Size) -> Node:
        """The graph for many examples."""
        many: dict[Node, Node] = {}
        given: list[Node] = []
        for source, arg, has in zip(node.inputs, args, batched, strict=True):
            one = source
            if has:
                one = ops.placeholder(source.shape, source.dtype)
                one.tracked = source.tracked
                many[one] = arg
            given.append(one)
        graph = self.graph
        output = replay([graph.output], graph.inputs, given, self.sizes)
        ((found, _),) = batch.batch(output, many, size)
        return found
