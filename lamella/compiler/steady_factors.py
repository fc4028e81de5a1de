"""What lays out, once for many calls, the parameters that products multiply by.

Input: the outputs of a graph, and what stays the same from call to call. Output: the graph with
products that read panels (``factors``), and the panels. Packing is a share of a product that falls
with its rows, and a few rows stream a parameter as it lies: ``contraction_shapes.kept_width`` says
between which the panels are worth a second copy of the parameter.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial

from lamella.compiler.canonicalise import map_graph, with_inputs
from lamella.compiler.contraction_shapes import kept_width
from lamella.compiler.factors import Layout, factor_of
from lamella.compiler.partition import is_external
from lamella.ir.node import Node
from lamella.ir.vectors import VectorUnit

__all__ = ["steady_factors"]


def steady_factors(
    outputs: Sequence[Node], steady: Collection[Node], unit: VectorUnit, most: int
) -> tuple[list[Node], list[Node]]:
    """The graph, and its panels of nodes in ``steady``: of at most ``most`` bytes, the first
    products first.
    """
    width = partial(kept_width, unit)
    found: dict[Layout, Node] = {}
    left = most

    def change(node: Node, inputs: tuple[Node, ...]) -> Node:
        nonlocal left
        if is_external(node) or not inputs:
            return node
        factor = None if node in steady else factor_of(node, steady, width, last=True)
        if factor is None:
            return with_inputs(node, inputs)
        matrix = factor.constant
        nbytes = int(matrix.size) * matrix.dtype.itemsize
        if factor.layout not in found and nbytes <= left:
            found[factor.layout] = factor.panels(matrix)
            left -= nbytes
        panels = found.get(factor.layout)
        if panels is None:
            return with_inputs(node, inputs)
        matrix, other = factor.matrix(panels), inputs[1 - factor.operand]
        return with_inputs(node, (matrix, other) if factor.operand == 0 else (other, matrix))

    return map_graph(outputs, change), list(found.values())
