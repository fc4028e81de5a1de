"""Effects in graphs that calls hold: loops, branches, functions whose values are computed again.

Input: the outputs of such a graph. Output: what its effects returned, which derivatives must be
given, for they would have the effects again; or a graph with its effects under a condition, for
examples that are not all meant.
"""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy.typing as npt

from lamella import ops
from lamella.dtypes import bool_
from lamella.graph.replay import Recording, replay
from lamella.ir.interp import interpret
from lamella.ir.node import Node, topological
from lamella.ir.subgraph import Subgraph
from lamella.ops.calls import Call, Part, effects_first, has_effects, is_token

__all__ = ["conditional", "guarded", "interpreted", "returned"]

Arrays = Sequence[npt.NDArray[Any]]


def interpreted(graph: Subgraph, arrays: Arrays, sizes: Mapping[str, int]) -> Arrays:
    """The outputs of ``graph`` for these inputs, by the interpreter, its effects in their order."""
    order = effects_first(graph.outputs)
    values = interpret(order, dict(zip(graph.inputs, arrays, strict=True)), sizes)
    found = dict(zip(order, values, strict=True))
    return [found[node] for node in graph.outputs]


def returned(outputs: Sequence[Node], stop: Sequence[Node]) -> list[Node]:
    """What effects gave that the graph from ``stop`` to ``outputs`` reads: no tokens."""
    order = topological(outputs, stop=stop)
    found = [n for n in order if isinstance(n.op, Part) and n.inputs and has_effects(n.inputs[0])]
    return [node for node in found if not is_token(node)]


def guarded(graph: Subgraph, flag: Node) -> list[Node]:
    """The outputs of ``graph``, with its effects only where ``flag`` (0-d bool) holds; elsewhere
    what they return is zeros.
    """

    def change(op: Call, inputs: Sequence[Node]) -> tuple[Call, Sequence[Node]]:
        return op.when(flag, inputs) if op.tokens else (op, inputs)

    with Recording():
        return replay(graph.outputs, {node: node for node in graph.inputs}, change=change)


def conditional(graph: Subgraph) -> Subgraph:
    """``graph`` with one more input in front: whether its effects are had."""
    flag = ops.placeholder((), bool_)
    return Subgraph([flag, *graph.inputs], guarded(graph, flag))
