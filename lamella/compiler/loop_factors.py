"""The graph pass that lays out what a loop multiplies by at every step, once, before the loop.

Input and output: the outputs of a graph. A constant of a loop's body that a product reads as a
matrix (the weights of a recurrent layer) becomes panels: for each block of columns, as wide as the
register tile, the rows of k one after the other. The product reads panels where they lie
(``tiles.TileKernel``), so no step copies or transposes a weight, and memory gives each in order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from lamella import ops
from lamella.compiler.canonicalise import map_graph, with_inputs
from lamella.compiler.contraction_shapes import panel_width
from lamella.compiler.factors import Factor, Layout, factor_of
from lamella.compiler.partition import is_external
from lamella.graph.loops import Loop
from lamella.graph.replay import twins
from lamella.ir.node import Node, topological
from lamella.ir.subgraph import Subgraph
from lamella.ir.vectors import VectorUnit
from lamella.ops.contraction import Contract, contract

__all__ = ["loop_factors"]

STEPS = 4  # of a loop, at least, for which a layout is worth it


def loop_factors(outputs: Sequence[Node], unit: VectorUnit) -> list[Node]:
    """The pass."""

    def change(node: Node, inputs: tuple[Node, ...]) -> Node:
        op = node.op
        if is_external(node) or not inputs:
            return node
        if isinstance(op, Loop):
            op, inputs = _laid_out(op, inputs, unit)
        if op is node.op and all(a is b for a, b in zip(inputs, node.inputs, strict=True)):
            return node
        found = Node(op, inputs, node.shape, node.dtype)
        found.site = node.site
        return found

    return map_graph(outputs, change)


def _laid_out(
    op: Loop, inputs: tuple[Node, ...], unit: VectorUnit
) -> tuple[Loop, tuple[Node, ...]]:
    """The loop over panels instead of the matrices they are made of, and its inputs."""
    most = op.most(inputs)
    factors = {} if isinstance(most, int) and most < STEPS else _factors(op, unit)
    if not factors:
        return op, inputs
    given = op.split(inputs)
    outside = dict(zip(op.body.inputs, given.constants, strict=False))
    stacks = {f.layout: f.panels(outside[f.constant]) for f in factors.values()}
    stands = {layout: ops.placeholder(n.shape, n.dtype) for layout, n in stacks.items()}
    outputs = _with_panels(op.body, factors, stands)
    kept = _read(op, outputs)
    constants = [node for i, node in enumerate(given.constants) if i in kept]
    count = () if given.count is None else (given.count,)

    def over(graph: Subgraph, results: Sequence[Node], added: Sequence[Node]) -> Subgraph:
        head = [node for i, node in enumerate(graph.inputs[: op.constants]) if i in kept]
        return Subgraph((*head, *added, *graph.inputs[op.constants :]), results)

    body, test = over(op.body, outputs, [*stands.values()]), op.condition
    if test is not None:
        test = over(test, test.outputs, twins([*stands.values()]))
    found = replace(op, body=body, condition=test)
    return found, (*count, *constants, *stacks.values(), *given.initial, *given.slices)


def _with_panels(
    body: Subgraph, factors: dict[Node, Factor], stands: dict[Layout, Node]
) -> list[Node]:
    """The body's outputs, from products that read panels."""
    new: dict[Node, Node] = {node: node for node in body.inputs}
    for node in topological(body.outputs, stop=body.inputs):
        factor = factors.get(node)
        if factor is not None:
            other = new[node.inputs[1 - factor.operand]]
            new[node] = _product(factor, other, stands[factor.layout])
        elif node not in new:
            new[node] = with_inputs(node, tuple(new[source] for source in node.inputs))
    return [new[node] for node in body.outputs]


def _read(op: Loop, outputs: Sequence[Node]) -> set[int]:
    """Which constants something still reads."""
    graphs = [(op.body.inputs, outputs)]
    if op.condition is not None:
        graphs.append((op.condition.inputs, op.condition.outputs))
    found: set[int] = set()
    for inputs, results in graphs:
        reads = set(topological(results, stop=inputs))
        found |= {i for i, node in enumerate(inputs[: op.constants]) if node in reads}
    return found


def _factors(op: Loop, unit: VectorUnit) -> dict[Node, Factor]:
    """The products of the body that are better read from panels."""
    constants = set(op.body.inputs[: op.constants])
    order = topological(op.body.outputs, stop=op.body.inputs)
    found = (factor_of(node, constants, partial(panel_width, unit)) for node in order)
    return {factor.node: factor for factor in found if factor is not None}


def _product(factor: Factor, other: Node, panels: Node) -> Node:
    """The product of the other operand and the panels, whose blocks have a label: so it is clear
    that memory is contiguous along the columns, where the product is split.
    """
    node, at = factor.node, factor.operand
    op = node.op
    if not isinstance(op, Contract):
        raise TypeError(f"{op.name} is no contraction")
    labels = [op.a_labels, op.b_labels]
    (column,) = (label for label in labels[at] if label in op.out_labels)
    (k,) = (label for label in labels[at] if label not in op.out_labels)
    block = max((*labels[0], *labels[1])) + 1
    labels[at] = (block, k, column)
    of_a, of_b = labels
    out = [n for label in op.out_labels for n in ((block, column) if label == column else (label,))]
    a, b = (panels, other) if at == 0 else (other, panels)
    found = contract(a, b, of_a, of_b, out, node.dtype)
    found.site = node.site
    return ops.reshape(found, node.shape)
