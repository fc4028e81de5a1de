"""Names of axes: what a node's axes are called, from the names of what it was computed from.

Input: nodes, some of which were given names. Output: for each node a name or None per axis. Nothing
is kept in graphs: names are derived from the operations when they are asked for, and remembered
while the node lives. None meets anything; two different names that meet are an error. Until the
first axis is named (``state.active``) nobody asks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final
from weakref import WeakKeyDictionary

from lamella.errors import ShapeError
from lamella.ir.dim import Shape
from lamella.ir.node import Node

__all__ = ["Names", "assume", "meet", "names_of", "rename", "state", "text"]

Names = tuple[str | None, ...]


class State:
    """Whether any axis has been named in this process."""

    __slots__ = ("active",)  # found faster than an attribute of the class

    def __init__(self) -> None:
        self.active = False


state: Final = State()
_known: Final[WeakKeyDictionary[Node, Names]] = WeakKeyDictionary()


def assume(node: Node, names: Sequence[str | None]) -> None:
    """Say what the axes of ``node`` are called."""
    state.active = True
    _known[node] = tuple(names)


def text(names: Names) -> str:
    """Names as messages show them.

    >>> text(("batch", None))
    '(batch, _)'
    """
    return f"({', '.join(name or '_' for name in names)})"


def names_of(node: Node) -> Names:
    """The name of each axis of ``node``, None where it has none.

    Raises:
        ShapeError: if two different names meet in an operation ``node`` depends on.
    """
    stack = [node]
    while stack:
        each = stack[-1]
        missing = [] if each in _known else [s for s in each.inputs if s not in _known]
        if missing:
            stack.extend(missing)
            continue
        stack.pop()
        if each not in _known:
            _known[each] = _unique(_derived(each))
    return _known[node]


def _unique(names: Names) -> Names:
    """A name stands for one axis: the first that has it."""
    return tuple(n if n not in names[:i] else None for i, n in enumerate(names))


def _derived(node: Node) -> Names:
    if node.op.name == "named":
        return node.op.names  # type: ignore[attr-defined, no-any-return]
    if not node.inputs:
        return (None,) * node.ndim
    given = [_known.get(source, (None,) * source.ndim) for source in node.inputs]
    if not any(any(names) for names in given):
        return (None,) * node.ndim
    rule = _RULES.get(node.op.name) or _BY_KIND.get(node.op.kind, _like_first)
    return rule(node, given)


def meet(op: str, a: Names, b: Names) -> Names:
    """The common names of axes that meet one by one.

    Raises:
        ShapeError: showing both where they differ.
    """
    found: list[str | None] = []
    for axis, (one, other) in enumerate(zip(a, b, strict=True)):
        if one is not None and other is not None and one != other:
            raise ShapeError(
                f"[{op}] the axes {text(a)} and {text(b)} do not fit: {one!r} and {other!r} meet "
                f"at axis {axis - len(a)}; align one with .align_to(...) or rename it"
            )
        found.append(one or other)
    return tuple(found)


def _elementwise(node: Node, given: Sequence[Names]) -> Names:
    names: Names = (None,) * node.ndim
    for source, theirs in zip(node.inputs, given, strict=True):
        if source.ndim == node.ndim:
            names = meet(node.op.name, names, theirs)
    return names


def _reduction(node: Node, given: Sequence[Names]) -> Names:
    op: Any = node.op
    axes = getattr(op, "axes", None) or (op.axis,)
    return tuple(name for axis, name in enumerate(given[0]) if axis not in axes)


def _like_first(node: Node, given: Sequence[Names]) -> Names:
    return given[0] if len(given[0]) == node.ndim else (None,) * node.ndim


def _together(node: Node, given: Sequence[Names]) -> Names:
    names = given[0]
    for theirs in given[1:]:
        names = meet(node.op.name, names, theirs)
    return names


def _permute(node: Node, given: Sequence[Names]) -> Names:
    return tuple(given[0][axis] for axis in node.op.axes)  # type: ignore[attr-defined]


def _broadcast(node: Node, given: Sequence[Names]) -> Names:
    return (None,) * (node.ndim - len(given[0])) + given[0]


def _reshape(node: Node, given: Sequence[Names]) -> Names:
    """Axes that stay whole keep their names: from the front, and from the back."""
    source, names = node.inputs[0].shape, given[0]
    if len(source) == node.ndim and source == node.shape:
        return names
    old = [(size, name) for size, name in zip(source, names, strict=True) if size != 1]
    at = [axis for axis, size in enumerate(node.shape) if size != 1]
    found: list[str | None] = [None] * node.ndim
    front = 0
    while front < min(len(old), len(at)) and old[front][0] == node.shape[at[front]]:
        found[at[front]] = old[front][1]
        front += 1
    back = 1
    while back <= min(len(old), len(at)) - front and old[-back][0] == node.shape[at[-back]]:
        found[at[-back]] = old[-back][1]
        back += 1
    if len(old) == len(at) and len(source) == node.ndim:
        found = [f or (n if s == 1 else None) for f, n, s in zip(found, names, source, strict=True)]
    return tuple(found)


def _contract(node: Node, given: Sequence[Names]) -> Names:
    op: Any = node.op
    by_label: dict[int, str | None] = {}
    for labels, names in ((op.a_labels, given[0]), (op.b_labels, given[1])):
        for label, name in zip(labels, names, strict=True):
            before = by_label.get(label)
            if before is not None and name is not None and before != name:
                raise ShapeError(
                    f"[contract] the axes {text(given[0])} and {text(given[1])} do not fit: "
                    f"{before!r} would be multiplied with {name!r}; rename one, or contract by "
                    "name with lm.contract(a, b, over=...)"
                )
            by_label[label] = before or name
    return tuple(by_label.get(label) for label in op.out_labels)


def _convolution(node: Node, given: Sequence[Names]) -> Names:
    """Examples and space keep their names, channels are new ones."""
    names = given[0]
    if len(names) != node.ndim or node.ndim < 2:
        return (None,) * node.ndim
    return (names[0], None, *names[2:])


def _gather(node: Node, given: Sequence[Names]) -> Names:
    lead: int = node.op.lead  # type: ignore[attr-defined]
    x, index = given[0], given[1]
    first = meet("gather", x[:lead], index[:lead])
    return (*first, *index[lead:], *x[lead + 1 :])


_RULES: Final[dict[str, Callable[[Node, Sequence[Names]], Names]]] = {
    "reshape": _reshape,
    "permute": _permute,
    "broadcast_to": _broadcast,
    "contract": _contract,
    "conv": _convolution,
    "concatenate": _together,
    "gather": _gather,
}
_BY_KIND: Final[dict[str, Callable[[Node, Sequence[Names]], Names]]] = {
    "elementwise": _elementwise,
    "reduction": _reduction,
}


def rename(shape: Shape, names: Names, changes: dict[str, str | None]) -> Names:
    """``names`` with some changed.

    Raises:
        ShapeError: for a name no axis has.
    """
    for name in changes:
        if name not in names:
            raise ShapeError(f"[rename] no axis of {text(names)} {shape} is called {name!r}")
    return tuple(changes.get(name, name) if name is not None else None for name in names)
