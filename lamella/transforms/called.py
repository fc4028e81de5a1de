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
from lamella.graph.replay import Recording, replay
from lamella.ir.dim import Size
from lamella.ir.node import Node
from lamella.ops.base import Kind, Needs, Primitive

__all__ = ["Called", "Graph"]


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
            with Recording():
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
            with Recording():
                (found,) = forward.jvp([self.output], self.inputs, tangents)
            self._pushes[moves] = found
        return self._pushes[moves]


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
        known = dict(zip(inputs, (*node.inputs, cotangent), strict=True))
        given = iter(replay(found, known, self.sizes))
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
        return replay([found], dict(zip(inputs, given, strict=True)), self.sizes)[0]

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
        output = replay(
            [graph.output], dict(zip(graph.inputs, given, strict=True)), self.sizes
        )
        ((found, _),) = batch.batch(output, many, size)
        return found
