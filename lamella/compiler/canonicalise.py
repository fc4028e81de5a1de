"""Graph passes before fusion: one node a value, no identities, reductions split so that every
worker has a part.

Input and output: the outputs of a graph. Nodes are never changed; passes make new ones where
something differs. Rules keep every bit:
nothing here reassociates, drops NaN or infinities, or assumes anything of signed zeros.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from lamella import ops
from lamella.compiler.partition import is_external
from lamella.compiler.statements import reduced_axes
from lamella.dtypes import bfloat16, float16, float32
from lamella.ir.decisions import at_least, power_within
from lamella.ir.dim import Size, product
from lamella.ir.node import Node, topological
from lamella.ops.calls import Call, Part, barrier
from lamella.ops.reduce import Reduction

__all__ = [
    "canonicalise", "first_of", "fixed_starts", "last_of", "map_graph", "one_of_each",
    "split_reductions", "with_inputs",
]  # fmt: skip


PARTS = 64  # pieces of a reduction with few results
LARGE = 65536  # elements from which splitting pays
MEMORY = ("data", "placeholder")  # leaves that lie in memory
COLUMNS = 16384  # sums over rows that are no tasks enough for whole rows
BUSY = 16  # independent results that keep every worker busy
JOINED: Final[dict[str, Callable[[Node, Node], Node]]] = {
    "reduce_sum": ops.add, "reduce_prod": ops.multiply, "reduce_max": ops.maximum,
    "reduce_min": ops.minimum, "reduce_any": ops.bitwise_or, "reduce_all": ops.bitwise_and,
}  # fmt: skip


def map_graph(
    outputs: Sequence[Node], change: Callable[[Node, tuple[Node, ...]], Node]
) -> list[Node]:
    """The graph with ``change(node, new_inputs)`` for every inner node, inputs first."""
    new: dict[Node, Node] = {}
    for node in topological(outputs):
        if is_external(node) or node.op.kind == "leaf":
            new[node] = change(node, ())
        else:
            new[node] = change(node, tuple(new[source] for source in node.inputs))
    return [new[node] for node in outputs]


def canonicalise(outputs: Sequence[Node]) -> list[Node]:
    """Equal nodes become one; ``mark`` and ``stop_gradient`` (identities once derivatives are
    taken) and products with 1 disappear; calls that are composed of others become those.
    """
    known: dict[object, Node] = {}
    made: dict[Node, Sequence[Node] | None] = {}  # what calls are composed of

    def change(node: Node, inputs: tuple[Node, ...]) -> Node:
        if is_external(node):
            return node
        if node.op.name in ("label", "mark", "named", "stop_gradient"):
            return inputs[0]
        if isinstance(node.op, Call) and node.op.in_memory:
            inputs = tuple(map(_in_memory, inputs))
        if isinstance(node.op, Part):
            composed = _composed(inputs[0], made)
            if composed is not None:
                return composed[node.op.index]
        kept = _times_one(node, inputs)
        if kept is not None:
            return kept
        key = (node.op, tuple(map(id, inputs)), node.shape, node.dtype)
        found = known.get(key)
        if found is None:
            found = known[key] = with_inputs(node, inputs)
        return found

    # an output that turns out to be a number of the program's arguments lies in memory as well
    found = map_graph(outputs, change)
    return [barrier(node) if node.op.name == "scalar" else node for node in found]


def _composed(node: Node, made: dict[Node, Sequence[Node] | None]) -> Sequence[Node] | None:
    if node not in made:
        made[node] = node.op.composed(node) if isinstance(node.op, Call) else None
    return made[node]


def _in_memory(node: Node) -> Node:
    """An input of a call without a kernel: what is no array anywhere is made one."""
    return barrier(node) if node.op.kind == "leaf" and node.op.name not in MEMORY else node


def fixed_starts(outputs: Sequence[Node]) -> list[Node]:
    """The graph with numbers where slices start as a part of it, for a program that is only called
    with these: what overlaps, and what lies side by side in memory, can then be seen.
    """

    def change(node: Node, inputs: tuple[Node, ...]) -> Node:
        if is_external(node):
            return node
        if node.op.name in ("slice", "update_slice"):
            inputs = tuple(_as_constant(x) if x.op.name == "scalar" else x for x in inputs)
        return with_inputs(node, inputs)

    return map_graph(outputs, change)


def one_of_each(outputs: Sequence[Node]) -> list[Node]:
    """The graph with one node for equal numbers, for a program that is only called with these: what
    is computed from them alike is then computed once.
    """
    known: dict[tuple[str, str], Node] = {}

    def change(node: Node, inputs: tuple[Node, ...]) -> Node:
        if node.op.name == "scalar":  # as text: 0.0 is not -0.0, and NaN is itself
            return known.setdefault((node.dtype.name, repr(node.value)), node)
        return node if is_external(node) else with_inputs(node, inputs)

    return map_graph(outputs, change)


def _as_constant(node: Node) -> Node:
    if not isinstance(node.value, (int, float)):
        raise TypeError(f"the value of a scalar is a number, not {node.value!r}")
    return ops.constant(node.value, node.dtype)


def _times_one(node: Node, inputs: tuple[Node, ...]) -> Node | None:
    """The other factor where one is the constant 1, however it was moved around."""
    if node.op.name not in ("multiply", "divide"):
        return None
    a, b = inputs
    if _is_one(b) and a.shape == node.shape:
        return a
    return b if node.op.name == "multiply" and _is_one(a) and b.shape == node.shape else None


def _is_one(node: Node) -> bool:
    while node.op.name in ("broadcast_to", "reshape", "permute") and node.value is None:
        node = node.inputs[0]
    value = getattr(node.op, "value", None) if node.op.name == "constant" else None
    return value is not None and not isinstance(value, bool) and value == 1


def with_inputs(node: Node, inputs: tuple[Node, ...]) -> Node:
    """The node with other inputs; itself where they are its own."""
    if len(inputs) == len(node.inputs) and all(
        a is b for a, b in zip(inputs, node.inputs, strict=True)
    ):
        return node
    result = Node(node.op, inputs, node.shape, node.dtype)
    result.site = node.site
    return result


def split_reductions(outputs: Sequence[Node]) -> list[Node]:
    """A large reduction with few results becomes two: over equal parts, then over the parts and
    what is left. Sizes alone decide, open ones as those that the program is made for.
    """

    def change(node: Node, inputs: tuple[Node, ...]) -> Node:
        if is_external(node) or node.op.kind == "leaf":
            return node
        if node.op.kind == "reduction" and node.op.name in JOINED:
            axis = _axis_to_split(node)
            if axis is not None:
                return _split(node, inputs[0], axis)
        return with_inputs(node, inputs)

    return map_graph(outputs, change)


def _axis_to_split(node: Node) -> int | None:
    (source,) = node.inputs
    axes = reduced_axes(node)
    enough = BUSY if source.ndim - 1 in axes else COLUMNS
    if at_least(product(node.shape), enough, True):
        return None
    if not at_least(product(source.shape), LARGE, False):
        return None
    axis = axes[0]
    for other in axes[1:]:
        if not at_least(source.shape[axis], source.shape[other], True):
            axis = other
    return axis if at_least(source.shape[axis], 2 * PARTS, False) else None


def _split(node: Node, source: Node, axis: int) -> Node:
    """Sums of parts, at least ``PARTS`` and not twice as many; those of them, and what is left at
    the end of the axis.
    """
    narrow = node.dtype is float16 or node.dtype is bfloat16
    x = ops.cast(source, float32) if narrow else source
    extent, axes = x.shape[axis], reduced_axes(node)
    piece = power_within(extent) // PARTS
    parts = extent // piece
    shape = (*x.shape[:axis], parts, piece, *x.shape[axis + 1 :])
    first = _reduced(
        node, ops.reshape(first_of(x, axis, parts * piece), shape),
        tuple(sorted(a + (a >= axis) for a in axes)),
    )  # fmt: skip
    found = _reduced(node, first, (axis - sum(a < axis for a in axes),))
    if parts * piece != extent:
        rest = _reduced(node, last_of(x, axis, extent - parts * piece), axes)
        found = JOINED[node.op.name](found, rest)
        found.site = node.site
    return ops.cast(found, node.dtype) if narrow else found


def first_of(x: Node, axis: int, count: Size) -> Node:
    """The first positions of an axis."""
    return ops.slice(x, [0] * x.ndim, [count if a == axis else s for a, s in enumerate(x.shape)])


def last_of(x: Node, axis: int, count: Size) -> Node:
    """The last positions of an axis, whose number may be open."""
    return ops.flip(first_of(ops.flip(x, (axis,)), axis, count), (axis,))


def _reduced(node: Node, x: Node, axes: tuple[int, ...]) -> Node:
    """The same reduction of ``x`` over other axes."""
    if not isinstance(node.op, Reduction):
        raise TypeError(f"{node.op.name} is no reduction over axes")
    shape = tuple(s for a, s in enumerate(x.shape) if a not in axes)
    found = Node(replace(node.op, axes=axes), (x,), shape, x.dtype)
    found.site = node.site
    return found
