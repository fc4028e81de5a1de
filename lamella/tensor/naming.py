"""Named axes: giving names, asking for them, and computing by them.

Input: tensors. Output: tensors whose axes have names; every operation derives the names of its
result (``graph.names``) and refuses axes that meet under two names. Names are optional: an axis
without one fits every other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from lamella import ops
from lamella.errors import OptionError, ShapeError
from lamella.graph import names as naming
from lamella.ir.node import Node
from lamella.tensor.core import node_of, wrap
from lamella.tensor.operands import TensorLike, as_node, pair, spread

if TYPE_CHECKING:
    from lamella.tensor.tensor import Tensor

__all__ = ["align_to", "by_name", "contract", "named", "names", "rename"]

Names = naming.Names


def _checked(op: str, names: Sequence[object], node: Node) -> Names:
    for name in names:
        if name is not None and (not isinstance(name, str) or not name.isidentifier()):
            raise OptionError(f"[{op}] {name!r} is no name; use an identifier, or None")
    given = [name for name in names if name is not None]
    if len(set(given)) != len(given):
        raise OptionError(f"[{op}] the names {tuple(names)} repeat one; a name is one axis's")
    if len(names) != node.ndim:
        raise ShapeError(
            f"[{op}] {len(names)} names for {node.ndim} axes of {node.shape}; give one for each, "
            "None where there is none"
        )
    return tuple(names)  # type: ignore[arg-type]


def named(x: TensorLike, *names: str | None) -> Tensor:
    """``x`` with a name for each axis (None: no name), instead of those it had.

    Raises:
        ShapeError: for another number of names than axes.
        OptionError: for a repeated name, or one that is no identifier.

    >>> import lamella as lm
    >>> x = lm.ones((2, 3)).named("batch", "feature")
    >>> x.sum("feature").names
    ('batch',)
    """
    node = as_node(x)
    chosen = _checked("named", names, node)
    naming.state.active = True
    return wrap(ops.named(node, chosen))


def names(x: Tensor) -> Names:
    """The name of each axis, None where it has none."""
    node = node_of(x)
    return naming.names_of(node) if naming.state.active else (None,) * node.ndim


def rename(x: Tensor, **changes: str | None) -> Tensor:
    """``x`` with some names changed: ``x.rename(time="step")``; None takes a name away.

    Raises:
        ShapeError: if no axis has a name that is to change.
    """
    node = node_of(x)
    changed = naming.rename(node.shape, names(x), changes)
    return wrap(ops.named(node, _checked("rename", changed, node)))


def align_to(x: Tensor, *order: str) -> Tensor:
    """``x`` with its axes in the given order; a name it lacks becomes an axis of size 1.

    Raises:
        ShapeError: unless every axis of ``x`` has a name that is in ``order``.

    >>> import lamella as lm
    >>> lm.ones((2, 3)).named("a", "b").align_to("b", "c", "a").shape
    (3, 1, 2)
    """
    own = names(x)
    if None in own or not set(own) <= set(order) or len(set(order)) != len(order):
        raise ShapeError(
            f"[align_to] the axes {naming.text(own)} cannot be put in the order {order}; name "
            "every axis, and mention each once"
        )
    return wrap(spread(node_of(x), own, order))


def contract(x: TensorLike, y: TensorLike, over: str | Sequence[str]) -> Tensor:
    """The sum of products over axes by name; other names that both have are batch axes.

    The result has the batch axes in the order of ``x``, then the rest of ``x``, then of ``y``.

    Raises:
        ShapeError: if an operand lacks an axis of ``over``, or has one without a name.

    >>> import lamella as lm
    >>> q = lm.ones((2, 5, 8)).named("head", "query", "feature")
    >>> k = lm.ones((2, 7, 8)).named("head", "key", "feature")
    >>> lm.contract(q, k, over="feature").names
    ('head', 'query', 'key')
    """
    a, b = pair("contract", x, y)
    of_a, of_b = naming.names_of(a), naming.names_of(b)
    summed = (over,) if isinstance(over, str) else tuple(over)
    for own in (of_a, of_b):
        if None in own or not set(summed) <= set(own):
            raise ShapeError(
                f"[contract] the axes {naming.text(of_a)} and {naming.text(of_b)} cannot be "
                f"contracted over {summed}: both need it, and every axis needs a name"
            )
    shared = [n for n in of_a if n in of_b and n not in summed]
    rest = [n for n in (*of_a, *of_b) if n not in shared and n not in summed]
    label: dict[str | None, int] = {n: i for i, n in enumerate(dict.fromkeys((*of_a, *of_b)))}
    a_labels, b_labels, out = (
        [label[n] for n in own] for own in (of_a, of_b, (*shared, *rest))
    )
    return wrap(ops.contract(a, b, a_labels, b_labels, out))


def by_name(x: Tensor, subscript: Mapping[str, Any]) -> tuple[Any, ...]:
    """The positional form of ``x[{"time": 3, "batch": slice(0, 2)}]``.

    Raises:
        ShapeError: for a name no axis has.
    """
    own = names(x)
    for name in subscript:
        if name not in own:
            raise ShapeError(
                f"[index] no axis is called {name!r}: the axes are {naming.text(own)}"
            )
    return tuple(subscript.get(name, slice(None)) if name else slice(None) for name in own)
