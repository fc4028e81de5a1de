"""Which nodes get a buffer or a row of their own, and which are composed into their users.

Input: the graph's nodes in order. Output: the set of materialised nodes. Reductions, contractions,
kernels and outputs always are. An elementwise node is when several materialised users would each
repeat an expensive computation, when a broadcast would repeat it, or when the composed expression
grows too deep; everything else is recomputed where it is needed.
"""

from __future__ import annotations

from collections.abc import Sequence

from lamella.ir.decisions import at_least
from lamella.ir.node import Node

__all__ = ["is_external", "materialised"]

CHEAP = 3  # scalar operations worth repeating rather than storing
DEEP = 48  # composed operations in a chain
WIDE = 160  # composed operations in one expression
MANY = 8  # distinct materialised users, after which one more makes no difference

OFTEN = 2  # times that gathers read an element, from which it pays to compute it once

REPEATED = ("slide", "unslide")  # movement that reads an element several times
OWN = ("reduction", "contraction", "kernel", "call", "part")


def is_external(node: Node) -> bool:
    """Whether the value comes from outside the program: data, scalars and placeholders."""
    return node.value is not None or node.op.name in ("data", "scalar", "placeholder")


def _cost(node: Node) -> int:
    """Scalar operations an element costs; pure index changes cost none."""
    if node.op.kind == "leaf":
        return 0
    if node.op.kind == "movement":
        return node.op.cost if node.op.cost > 1 else 0
    return node.op.cost


def materialised(order: Sequence[Node], outputs: Sequence[Node], fuse: bool = True) -> set[Node]:
    """The nodes of ``order`` (inputs before users) that are stored; ``fuse=False`` stores every
    one.
    """
    if not fuse:
        return {
            n for n in order if not is_external(n) and (n.op.kind != "leaf" or n in set(outputs))
        }
    stored = {
        n for n in order if n.value is None and (n.op.kind in OWN or n.op.name == "barrier")
    }
    stored.update(n for n in outputs if not is_external(n))
    stored.update(_wanted(order))  # before chains are cut, which end where something is stored
    costs = _by_size(order, stored)
    _by_demand(order, stored, costs)
    _by_users(order, stored, _by_size(order, stored))  # what is stored by now costs its users less
    return stored


def _wanted(order: Sequence[Node]) -> list[Node]:
    """The operands that kernels take from memory alone."""
    found = [
        source for node in order if not is_external(node)
        for position, source in enumerate(node.inputs) if position in node.op.stored
    ]  # fmt: skip
    return [source for source in found if not is_external(source) and source.op.kind != "leaf"]


def _by_size(order: Sequence[Node], stored: set[Node]) -> dict[Node, int]:
    """Cuts chains that would compose too deep or too wide; gives each node's composed cost."""
    costs: dict[Node, int] = {}
    depth: dict[Node, int] = {}
    width: dict[Node, int] = {}
    for node in order:
        if is_external(node):
            costs[node] = depth[node] = width[node] = 0
            continue
        inputs = [source for source in node.inputs if source not in stored]
        costs[node] = _cost(node) + sum(costs[source] for source in inputs)
        depth[node] = 1 + max((depth[source] for source in inputs), default=0)
        width[node] = 1 + sum(width[source] for source in inputs)
        if node.op.kind != "leaf" and (depth[node] > DEEP or width[node] > WIDE):
            stored.add(node)
    return costs


def _filled(order: Sequence[Node]) -> set[Node]:
    """Nodes whose elements do not depend on their indices: a gather must read them from memory,
    or nothing would check its indices.
    """
    found: set[Node] = set()
    for node in order:
        composed = bool(node.inputs) and node.op.kind in ("elementwise", "movement")
        inner = composed and not is_external(node) and all(s in found for s in node.inputs)
        if inner or node.op.name in ("constant", "scalar"):
            found.add(node)
    return found


def _of_indices(order: Sequence[Node]) -> set[Node]:
    """Nodes whose elements depend on their indices alone, as one-hot rows and masks do: computing
    them reads no memory.
    """
    found: set[Node] = set()
    for node in order:
        composed = bool(node.inputs) and node.op.kind in ("elementwise", "movement")
        inner = composed and not is_external(node) and all(s in found for s in node.inputs)
        if inner or node.op.name in ("constant", "iota"):
            found.add(node)
    return found


def _by_demand(order: Sequence[Node], stored: set[Node], costs: dict[Node, int]) -> None:
    """Operands read many times over (by contractions, kernels, gathers' indices, broadcasts) are
    stored unless cheap.
    """
    filled, of_indices = _filled(order), _of_indices(order)
    gathered = _gathered(order)
    for node in order:
        if is_external(node):
            continue
        kind, name = node.op.kind, node.op.name
        for position, source in enumerate(node.inputs):
            if is_external(source) or source in stored or source.op.kind == "leaf":
                continue
            limit = None
            in_memory = kind == "call" and node.op.in_memory  # type: ignore[attr-defined]
            if in_memory:
                stored.add(source)
            elif kind in ("contraction", "kernel", "call") and name != "interleave":  # reads once
                limit = CHEAP if source in of_indices else 1
            elif name in REPEATED or (name == "gather" and position == 1):
                limit = CHEAP
            elif name == "gather" and source in filled:
                stored.add(source)
            elif name == "gather" and gathered.get(_unmoved(source), 0) >= OFTEN:
                limit = 1
            elif name == "broadcast_to":
                limit = CHEAP if source.size != node.size else None
            if limit is not None and costs[source] > limit:
                found = _before_movement(source, stored)
                if found is not None:
                    stored.add(found)


def _gathered(order: Sequence[Node]) -> dict[Node, float]:
    """How often gathers read an element of what they read, on average, whatever moves it first."""
    found: dict[Node, float] = {}
    for node in order:
        if not is_external(node) and node.op.name == "gather":
            source = _unmoved(node.inputs[0])
            if isinstance(node.size, int) and isinstance(source.size, int) and source.size:
                found[source] = found.get(source, 0.0) + node.size / source.size
    return found


def _unmoved(node: Node) -> Node:
    """What a permutation of axes is of."""
    while node.op.name == "permute" and node.value is None:
        node = node.inputs[0]
    return node


def _before_movement(node: Node, stored: set[Node]) -> Node | None:
    """The node itself, or what it only moves around, repeats or surrounds: storing that keeps the
    movement free for every user. None where that is stored already.
    """
    while node.op.kind == "movement" and _cost(node) == 0 and _moves_one(node):
        source = node.inputs[0]
        if not (source.size == node.size or at_least(node.size, source.size, False)):
            break
        if source in stored or is_external(source):
            return None
        if source.op.kind == "leaf":
            break
        node = source
    return node


def _moves_one(node: Node) -> bool:
    return len(node.inputs) == 1 or node.op.name == "pad"


def _by_users(order: Sequence[Node], stored: set[Node], costs: dict[Node, int]) -> None:
    """An expensive node that reaches several stored nodes is stored."""
    reaches: dict[Node, set[int]] = {node: set() for node in order}
    together = dict(pair for node in order if (pair := _of_one_axis(node)) is not None)
    for node in reversed(order):
        if is_external(node):
            continue
        mine = reaches[node]
        movement = node.op.kind == "movement" and _cost(node) == 0
        if node not in stored and len(mine) > 1 and costs[node] > CHEAP and not movement:
            stored.add(node)
        sinks = {id(together.get(node, node))} if node in stored else mine
        for source in node.inputs:
            if len(reaches[source]) < MANY:
                reaches[source] |= sinks


def _of_one_axis(node: Node) -> tuple[Node, Node] | None:
    """The sums of an axis' last elements and of its parts before them, where ``node`` joins both
    (see ``split_reductions``): no element is computed for more than one of them.
    """
    if is_external(node) or len(node.inputs) != 2:
        return None
    whole, rest = node.inputs
    if whole.value is not None or rest.value is not None or whole.op.kind != "reduction":
        return None
    parts = whole.inputs[0]
    if parts.value is not None or not type(parts.op) is type(whole.op) is type(rest.op):
        return None
    return (rest, parts) if rest.inputs[0].op.name == "flip" else None
