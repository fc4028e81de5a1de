"""The graph pass that lays out what a loop multiplies by at every step, once, before the loop.

Input and output: the outputs of a graph. A constant of a loop's body that a product reads as a
matrix (the weights of a recurrent layer) becomes panels: for each block of columns, as wide as the
register tile, the rows of k one after the other. The product reads panels where they lie
(``tiles.TileKernel``), so no step copies or transposes a weight, and memory gives each in order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from lamella import ops
from lamella.compiler.canonicalise import map_graph, with_inputs
from lamella.compiler.contraction_shapes import panel_width
from lamella.compiler.partition import is_external
from lamella.graph.loops import Loop
from lamella.graph.replay import twins
from lamella.ir.dim import product
from lamella.ir.node import Node, topological
from lamella.ir.subgraph import Subgraph
from lamella.ir.vectors import VectorUnit
from lamella.ops.contraction import Contract, contract
from lamella.ops.movement import Permute

__all__ = ["loop_factors"]

STEPS = 4  # of a loop, at least, for which a layout is worth it

Layout = tuple[Node, int, int]  # a constant, its axis that columns run along, columns of a panel


@dataclass(frozen=True, slots=True)
class Factor:
    """A product of a body that reads a constant: which operand, and by which axis of the constant
    the columns of the product run; panels are ``width`` columns wide.
    """

    node: Node
    operand: int
    constant: Node
    axis: int
    width: int

    @property
    def layout(self) -> Layout:
        """What says how the constant is laid out."""
        return self.constant, self.axis, self.width


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
    stacks = {f.layout: _panels(outside[f.constant], f.axis, f.width) for f in factors.values()}
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
            new[node] = _product(factor, new[node.inputs[1 - factor.operand]], stands)
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


# -- one product -----------------------------------------------------------------------------------
def _factors(op: Loop, unit: VectorUnit) -> dict[Node, Factor]:
    """The products of the body that are better read from panels."""
    constants = set(op.body.inputs[: op.constants])
    order = topological(op.body.outputs, stop=op.body.inputs)
    found = (_factor(node, constants, unit) for node in order)
    return {factor.node: factor for factor in found if factor is not None}


def _factor(node: Node, constants: set[Node], unit: VectorUnit) -> Factor | None:
    op = node.op
    if not isinstance(op, Contract):
        return None
    both = op.a_labels, op.b_labels
    for operand, labels in enumerate(both):
        source, axes = _moved(node.inputs[operand])
        columns = [i for i, label in enumerate(labels) if label in op.out_labels]
        if source not in constants or source.ndim != 2 or len(columns) != 1:
            continue
        label = labels[columns[0]]
        size = node.inputs[operand].shape[columns[0]]
        rows = product(tuple(n for n, at in zip(node.shape, op.out_labels, strict=True)
                             if at != label))  # fmt: skip
        width = panel_width(unit, source.dtype, rows, size, source.shape[1 - axes[columns[0]]])
        if width and label not in both[1 - operand]:
            return Factor(node, operand, source, axes[columns[0]], width)
    return None


def _moved(node: Node) -> tuple[Node, tuple[int, ...]]:
    """What permutations only move, and which axis of it each axis is."""
    axes = tuple(range(node.ndim))
    while isinstance(node.op, Permute) and node.value is None:
        axes = tuple(node.op.axes[a] for a in axes)
        node = node.inputs[0]
    return node, axes


def _panels(matrix: Node, axis: int, width: int) -> Node:
    """(blocks of columns, k, columns of a block)."""
    matrix = ops.permute(matrix, (axis, 1 - axis))
    columns, k = matrix.shape
    return ops.permute(ops.reshape(matrix, (columns // width, width, k)), (0, 2, 1))


def _product(factor: Factor, other: Node, stands: dict[Layout, Node]) -> Node:
    """The product of the other operand and the panels."""
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
    panels = stands[factor.layout]
    a, b = (panels, other) if at == 0 else (other, panels)
    found = contract(a, b, of_a, of_b, out, node.dtype)
    found.site = node.site
    return ops.reshape(found, node.shape)
