"""Reverse-mode differentiation: from the cotangents of outputs to those of inputs, as a graph.

Input: outputs, their cotangents, the nodes to differentiate by. Output: one cotangent per such
node, or None where the outputs do not depend on it. The result is an ordinary graph, so it can be
differentiated again. Only tracked nodes are walked, each once, users before inputs, in an order
that depends on the graph alone: sums of cotangents always have the same order. Nodes that compute
the same count as one: their cotangents are added before they are pulled.
"""
from __future__ import annotations

from collections.abc import Mapping, Sequence

from lamella import ops
from lamella.errors import ShapeError
from lamella.ir.node import Node, gradient_mode
from lamella.ops.calls import Call, Part

__all__ = ["vjp"]

PURE = ("elementwise", "movement", "reduction", "contraction")
DEEP = 4  # nodes without derivatives, in a row, that are compared


def vjp(
    outputs: Sequence[Node], cotangents: Sequence[Node | None], wrt: Sequence[Node]
) -> list[Node | None]:
    """The cotangents of ``wrt``: for each, the sum over outputs of cotangent · d output / d wrt.

    Args:
        outputs: nodes; those not floating point or not tracked contribute nothing.
        cotangents: for each output a node of its shape and dtype, or None for zero.
        wrt: nodes to differentiate by.

    Raises:
        ShapeError: if a cotangent does not have its output's shape and dtype.
        MissingRuleError: if a primitive on the way has no derivative.

    >>> from lamella.dtypes import float64
    >>> x = ops.mark(ops.constant(3.0, float64))
    >>> (g,) = vjp([ops.multiply(x, x)], [ops.constant(1.0, float64)], [x])
    >>> from lamella.ir.interp import interpret
    >>> float(interpret([g])[0])
    6.0
    """
    found: dict[Node, Node] = {}
    gathered: dict[Node, dict[int, Node]] = {}  # a call's results -> their cotangents
    for output, cotangent in zip(outputs, cotangents, strict=True):
        if cotangent is not None:
            _check(output, cotangent)
            _add(found, output, cotangent)
    targets = set(wrt)
    order, on_path = _paths([o for o in outputs if o in found], targets)
    first = _repeated(order, targets)
    for node in reversed(order):
        cotangent = found.get(node)
        if node in first and cotangent is not None:
            _add(found, first[node], found.pop(node))
            continue
        several = gathered.pop(node, None)
        if (cotangent is None and several is None) or not node.op.differentiable:
            continue
        if isinstance(node.op, Part) and cotangent is not None:
            gathered.setdefault(node.inputs[0], {})[node.op.index] = cotangent
        elif node.inputs:
            needs = tuple(source in on_path for source in node.inputs)
            pulled = _pull(node, cotangent, several, needs) if any(needs) else ()
            for source, part in zip(node.inputs, pulled, strict=False):
                if part is not None and source in on_path:
                    _add(found, source, part)
        if node not in targets:
            found.pop(node, None)
    return [found.get(node) for node in wrt]


def _repeated(order: Sequence[Node], targets: set[Node]) -> dict[Node, Node]:
    """Nodes that compute the same as one before them, with that one."""
    first: dict[Node, Node] = {}
    known: dict[tuple[object, int], list[Node]] = {}
    for node in order:
        if node in targets or node.op.kind not in PURE or node.op.name in ("mark", "again"):
            continue
        source = next((n for n in node.inputs if n.tracked), None)
        if source is None:
            continue
        others = known.setdefault((node.op, id(first.get(source, source))), [])
        same = next((n for n in others if _alike(node, n, first, DEEP)), None)
        if same is None:
            others.append(node)
        else:
            first[node] = same
    return first


def _alike(a: Node, b: Node, first: Mapping[Node, Node], deep: int) -> bool:
    """Whether two nodes of one operation have the same value, as far as can be seen."""
    if a.shape != b.shape or a.dtype is not b.dtype or len(a.inputs) != len(b.inputs):
        return False
    pairs = zip(a.inputs, b.inputs, strict=True)
    return all(first.get(m, m) is first.get(n, n) or _equal(m, n, first, deep) for m, n in pairs)


def _equal(a: Node, b: Node, first: Mapping[Node, Node], deep: int) -> bool:
    """Whether two nodes are the same number, or made of equal ones without a derivative."""
    if a.tracked or b.tracked or a.op != b.op or a.dtype is not b.dtype:
        return False
    if a.op.name == "scalar":  # as text: 0.0 is not -0.0, and NaN is itself
        return repr(a.value) == repr(b.value)
    if a.value is not None or b.value is not None or deep == 0:
        return False
    if not a.inputs:
        return a.op.name in ("constant", "iota") and a.shape == b.shape
    return a.op.kind in PURE and _alike(a, b, first, deep - 1)


def _pull(
    node: Node, cotangent: Node | None, several: dict[int, Node] | None, needs: tuple[bool, ...]
) -> Sequence[Node | None]:
    if isinstance(node.op, Call) and node.op.transposed:
        return _transposed(node, several or {}, needs)
    if isinstance(node.op, Call):
        count = len(node.op.results(node.inputs))
        given = several or {}
        return node.op.vjp_all(node, [given.get(i) for i in range(count)], needs)
    return () if cotangent is None else node.op.vjp(node, cotangent, needs)


def _transposed(
    node: Node, cotangents: Mapping[int, Node], needs: tuple[bool, ...]
) -> Sequence[Node | None]:
    """Forward mode is linear in the tangents, so reverse mode is its transpose: the derivatives of
    the results' tangents by placeholders for the inputs'.
    """
    before, gradient_mode.enabled = gradient_mode.enabled, True
    try:
        seeds = [
            ops.placeholder(source.shape, source.dtype, tracked=True) if need else None
            for source, need in zip(node.inputs, needs, strict=True)
        ]
        tangents = node.op.jvp_all(node, seeds)  # type: ignore[attr-defined]
    finally:
        gradient_mode.enabled = before
    pairs = [(t, cotangents.get(i)) for i, t in enumerate(tangents) if t is not None]
    wanted = [seed for seed in seeds if seed is not None]
    found = iter(vjp([t for t, _ in pairs], [c for _, c in pairs], wanted))
    return [None if seed is None else next(found) for seed in seeds]


def _check(output: Node, cotangent: Node) -> None:
    if cotangent.shape != output.shape or cotangent.dtype is not output.dtype:
        raise ShapeError(
            f"[vjp] a cotangent of {cotangent.dtype.name}{list(cotangent.shape)} was given for an "
            f"output of {output.dtype.name}{list(output.shape)}; they must agree"
        )


def _add(found: dict[Node, Node], node: Node, cotangent: Node) -> None:
    before = found.get(node)
    found[node] = cotangent if before is None else ops.add(before, cotangent)


def _paths(outputs: Sequence[Node], targets: set[Node]) -> tuple[list[Node], set[Node]]:
    """Tracked nodes below ``outputs``, inputs first, and those from which a target is reached.

    Nodes that hold a value are entered too: tracked ones keep their inputs.
    """
    order: list[Node] = []
    on_path: set[Node] = set()
    seen: set[Node] = set()
    stack: list[tuple[Node, bool]] = [(node, False) for node in reversed(outputs)]
    while stack:
        node, expanded = stack.pop()
        if expanded:
            order.append(node)
            if node in targets or any(source in on_path for source in node.inputs):
                on_path.add(node)
            continue
        if node in seen or not (node.tracked or node in targets):
            continue
        seen.add(node)
        stack.append((node, True))
        stack.extend((source, False) for source in reversed(node.inputs))
    return order, on_path
