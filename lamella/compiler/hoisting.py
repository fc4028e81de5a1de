"""What a program would compute again and again from inputs that stay the same.

Input: the outputs of a graph, and the inputs that do not change between calls, such as the
parameters of a network in use. Output: the graph with placeholders in place of values that depend
on those inputs alone, and the values: packed kernels, panels of the right factors of products,
scales of normalisations. They are computed once and given to the program as inputs. A value is
taken out where that saves work on every call and it is not much larger than what it is made of.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from lamella import ops
from lamella.compiler.canonicalise import canonicalise, map_graph, with_inputs
from lamella.compiler.convolution import GROWTH as CONVOLUTION
from lamella.compiler.layout import layouts
from lamella.compiler.loop_factors import loop_factors
from lamella.compiler.partition import is_external
from lamella.compiler.steady_factors import steady_factors
from lamella.ir.node import Node, topological
from lamella.ir.vectors import VectorUnit
from lamella.ops.calls import Call

__all__ = ["Hoisted", "hoist"]

PURE = ("elementwise", "movement", "reduction", "contraction")
GROWTH = 2  # times the size of its inputs that a value may have


@dataclass(frozen=True, slots=True)
class Hoisted:
    """A graph in two: ``outputs`` read ``placeholders``, which stand for ``values``."""

    outputs: list[Node]
    values: list[Node]
    placeholders: list[Node]
    panels: int = 0  # bytes of the values that are copies of parameters, see ``steady_factors``


def hoist(
    outputs: Sequence[Node], steady: Collection[Node], unit: VectorUnit, winograd: bool = True,
    lasting: Collection[Node] = (), most: int = 0,
) -> Hoisted | None:  # fmt: skip
    """The graph in two; None where nothing is worth it, or sizes are open. ``winograd``: whether
    convolutions may be computed by Winograd's transforms of such inputs. ``lasting``: those of
    them that nobody else may write to, of which panels may be kept in ``most`` bytes.
    """
    plain = canonicalise(outputs)
    fixed = _made_of(topological(plain), frozenset(steady)) if winograd else {}
    nodes = loop_factors(layouts(plain, unit, fixed), unit)
    order = topological(nodes)
    if not all(isinstance(size, int) for node in order for size in node.shape):
        return None
    nodes, panels = steady_factors(nodes, _made_of(order, frozenset(lasting)), unit, most)
    order = topological(nodes)
    made_of = _made_of(order, frozenset(steady))
    chosen = {node: ops.placeholder(node.shape, node.dtype) for node in panels}
    for node in order:
        if node in made_of or is_external(node):
            continue
        for position, source in enumerate(node.inputs):
            if source in chosen:
                continue
            value = source if _stored(node, position) else _computed(source)
            growth = CONVOLUTION if node.op.name == "conv_winograd" else GROWTH
            if _worth(value, made_of, growth) and value not in chosen:
                chosen[value] = ops.placeholder(value.shape, value.dtype)
    if not chosen:
        return None

    def change(node: Node, inputs: tuple[Node, ...]) -> Node:
        found = chosen.get(node)
        if found is not None:
            return found
        return node if is_external(node) or not inputs else with_inputs(node, inputs)

    nbytes = sum(int(node.size) * node.dtype.itemsize for node in panels)
    return Hoisted(map_graph(nodes, change), list(chosen), list(chosen.values()), nbytes)


def _made_of(order: Sequence[Node], steady: Collection[Node]) -> dict[Node, frozenset[Node]]:
    """The nodes that depend on steady inputs alone, each with those it depends on."""
    found: dict[Node, frozenset[Node]] = {}
    for node in order:
        if node in steady:
            found[node] = frozenset((node,))
        elif node.op.kind in PURE and all(n in found or _constant(n) for n in node.inputs):
            found[node] = frozenset().union(*(found.get(n, ()) for n in node.inputs))
    return {node: sources for node, sources in found.items() if sources}


def _constant(node: Node) -> bool:
    return node.op.name in ("constant", "iota", "scalar")


def _stored(node: Node, position: int) -> bool:
    """Whether an input is made as it is, even if that only moves it."""
    in_memory = isinstance(node.op, Call) and node.op.in_memory
    return in_memory or position in node.op.stored


def _computed(node: Node) -> Node:
    """What movement, which costs nothing, only moves."""
    while node.op.kind == "movement" and len(node.inputs) == 1 and not is_external(node):
        node = node.inputs[0]
    return node


def _worth(node: Node, made_of: dict[Node, frozenset[Node]], growth: int) -> bool:
    if node not in made_of or is_external(node):
        return False
    most = growth * sum(int(source.size) for source in made_of[node])
    return 0 < int(node.size) <= most
