"""A graph again, with other nodes in place of its inputs.

Input: outputs, the nodes to replace and what replaces them. Output: new outputs. Nodes that depend
on nothing replaced but constants are copied too, computed ones are shared.
"""
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from lamella import ops
from lamella.ir.dim import Dim, Shape, bind
from lamella.ir.node import Node, gradient_mode, make, topological
from lamella.ir.subgraph import Subgraph
from lamella.ops.calls import Call, Part, part

__all__ = ["Recording", "apply", "outside_of", "replay", "subgraph_of", "twins", "with_sizes"]

Change = Callable[[Call, Sequence[Node]], tuple[Call, Sequence[Node]]]


class Recording:
    """Gradient mode on: what is made once must serve those who differentiate it again."""

    def __enter__(self) -> None:
        self._before = gradient_mode.enabled
        gradient_mode.enabled = True

    def __exit__(self, *exc: object) -> None:
        gradient_mode.enabled = self._before


def replay(
    outputs: Sequence[Node], given: Mapping[Node, Node], sizes: Mapping[str, int] | None = None,
    change: Change | None = None,
) -> list[Node]:  # fmt: skip
    """``outputs`` with values for the keys of ``given``, numbers for size symbols, and other calls
    in place of calls.
    """
    new: dict[Node, Node] = dict(given)
    for node in topological(outputs, stop=list(given)):
        if node in new:
            continue
        if not node.inputs and node.value is not None:
            new[node] = node
            continue
        shape = node.shape
        if sizes:
            shape = tuple(bind(size, sizes) if isinstance(size, Dim) else size for size in shape)
        inputs = tuple(new[source] for source in node.inputs)
        new[node] = _copied(node, inputs, shape, sizes, change)
    return [new[node] for node in outputs]


def _copied(
    node: Node, inputs: tuple[Node, ...], shape: Shape, sizes: Mapping[str, int] | None,
    change: Change | None,
) -> Node:  # fmt: skip
    op = node.op
    if isinstance(op, Part):
        return part(inputs[0], op.index)
    if sizes and isinstance(op, Call):
        op = op.bound(sizes)
    if change is not None and isinstance(op, Call):
        op, more = change(op, inputs)
        inputs = tuple(more)
    copy = make(op, inputs, shape, node.dtype)
    copy.tracked = copy.tracked and node.tracked
    copy.site = node.site
    return copy


def apply(graph: Subgraph, given: Sequence[Node]) -> list[Node]:
    """The outputs of ``graph`` for these inputs."""
    return replay(graph.outputs, dict(zip(graph.inputs, given, strict=True)))


def with_sizes(graph: Subgraph, sizes: Mapping[str, int]) -> Subgraph:
    """``graph`` with numbers for size symbols."""
    if not graph.symbols():
        return graph
    inputs = [
        ops.placeholder(tuple(bind(s, sizes) for s in n.shape), n.dtype, n.tracked)
        for n in graph.inputs
    ]
    with Recording():
        found = replay(graph.outputs, dict(zip(graph.inputs, inputs, strict=True)), sizes)
    return Subgraph(inputs, found)


def twins(nodes: Sequence[Node]) -> list[Node]:
    """A placeholder like each node, to be differentiated by where it is floating point."""
    return [ops.placeholder(n.shape, n.dtype, n.dtype.kind in "fc") for n in nodes]


def subgraph_of(
    arguments: Sequence[Node], outputs: Sequence[Node], bake: bool = False,
    own: Sequence[Node] = (),
) -> tuple[Subgraph, list[Node]]:  # fmt: skip
    """Outputs as a subgraph of (constants, arguments), and the outside nodes that the constants
    stand for. With ``bake`` Python numbers become part of it. ``own`` calls belong to it although
    they may depend on no argument: its effects.
    """
    outside = outside_of(arguments, outputs, own)
    known = _baked(arguments, outputs, outside) if bake else {}
    outside = [n for n in outside if n not in known]
    stand = twins(outside)
    known |= zip((*outside, *arguments), (*stand, *arguments), strict=True)
    with Recording():
        made = replay(outputs, known)
    return Subgraph([*stand, *arguments], made), outside


def _baked(
    arguments: Sequence[Node], outputs: Sequence[Node], outside: Sequence[Node]
) -> dict[Node, Node]:
    """Python numbers as constants, but for those that calls read: some name functions by them."""
    order = topological(outputs, stop=arguments)
    named = {source for n in order if n.op.kind == "call" for source in n.inputs}
    return {
        n: ops.constant(n.value, n.dtype)
        for n in outside
        if isinstance(n.value, bool | int | float) and n not in named
    }


def outside_of(
    arguments: Sequence[Node], outputs: Sequence[Node], own: Sequence[Node] = ()
) -> list[Node]:
    """The nodes at which a graph leaves the function of its arguments: they depend on no argument
    and no ``own`` call, and not on literals alone.
    """
    inner = {*arguments, *own}
    literal: set[Node] = set()
    order = topological(outputs, stop=arguments)
    for node in order:
        if node in inner:
            continue
        if any(source in inner for source in node.inputs) and node.value is None:
            inner.add(node)
        elif node.value is None and _is_literal(node, literal):
            literal.add(node)
    found: dict[Node, None] = {}
    for node in order:
        if node in inner and node not in arguments:
            found.update(dict.fromkeys(s for s in node.inputs if s not in inner | literal))
    found.update(dict.fromkeys(n for n in outputs if n not in inner and n not in literal))
    return list(found)


def _is_literal(node: Node, literal: set[Node]) -> bool:
    """Whether a node is a constant, or one moved around: cheaper made again than passed along."""
    if node.op.name in ("constant", "iota"):
        return True
    movement = node.op.kind == "movement" and node.op.cost <= 1
    return movement and bool(node.inputs) and all(source in literal for source in node.inputs)
