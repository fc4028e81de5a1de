"""Padding in every mode of ``numpy.pad``.

Input: a tensor and how many elements to add before and after each axis. Output: the larger tensor.
Modes that repeat elements gather them; those that compute new ones work axis by axis, so that the
corners come from what the earlier axes added, as in NumPy. All are differentiable.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

from lamella import ops
from lamella.dtypes import float64, int64
from lamella.errors import OptionError, ShapeError, did_you_mean
from lamella.ir.node import Node
from lamella.tensor.core import wrap
from lamella.tensor.deferring import deferring
from lamella.tensor.host import node_from_array
from lamella.tensor.operands import TensorLike, as_float, as_node, cast, scalar_node
from lamella.tensor.quantiles import median
from lamella.tensor.reduction import max as max_of
from lamella.tensor.reduction import mean
from lamella.tensor.reduction import min as min_of
from lamella.tensor.searching import take_node

if TYPE_CHECKING:
    from lamella.tensor.tensor import Tensor

__all__ = ["pad"]

Amounts = int | Sequence[int] | Sequence[Sequence[int]]
PadMode = Literal[
    "constant", "edge", "empty", "linear_ramp", "maximum", "mean", "median", "minimum", "reflect",
    "symmetric", "wrap",
]  # fmt: skip
_STATISTICS: Final[dict[str, Callable[..., Tensor]]] = {
    "maximum": max_of, "minimum": min_of, "mean": mean, "median": median,
}
_REPEATING = ("edge", "reflect", "symmetric", "wrap")
_MODES = ("constant", "empty", "linear_ramp", *_REPEATING, *_STATISTICS)


def _pairs(name: str, value: Any, ndim: int) -> list[tuple[Any, Any]]:
    """One ``(before, after)`` for each axis, from one value, one pair or all pairs."""
    try:
        pairs = np.broadcast_to(np.asarray(value), (ndim, 2)).tolist()
    except ValueError:
        raise ShapeError(
            f"[pad] {name} {value} for {ndim} axes; give one value, one (before, after), or one "
            "such pair for each axis"
        ) from None
    return [(before, after) for before, after in pairs]


@deferring
def pad(
    x: TensorLike,
    pad_width: Amounts,
    mode: PadMode = "constant",
    constant_values: Any = 0,
    end_values: Any = 0,
    stat_length: Any = None,
    reflect_type: Literal["even", "odd"] = "even",
) -> Tensor:
    """``x`` with more elements before and after each axis.

    Args:
        x: the tensor.
        pad_width: one amount, one ``(before, after)``, or one such pair per axis.
        mode: what the new elements are: "constant" and "empty" (``constant_values``), "edge" (the
            outermost element), "reflect" and "symmetric" (mirrored without and with it), "wrap"
            (from the other end), "linear_ramp" (down to ``end_values``), "maximum", "minimum",
            "mean", "median" (of the ``stat_length`` outermost elements, or all).
        constant_values: a number, one ``(before, after)``, or a pair per axis.
        end_values: likewise, for "linear_ramp".
        stat_length: how many elements the statistics are of, likewise.
        reflect_type: "odd" mirrors at the edge's value too: ``2 edge - mirrored``.

    Raises:
        OptionError: for an unknown mode or type.
        ShapeError: for negative amounts, or an empty axis with nothing to repeat.

    >>> pad([1, 2], (1, 2)).tolist(), pad([1, 2, 3], 1, mode="reflect").tolist()
    ([0, 1, 2, 0, 0], [2, 1, 2, 3, 2])
    """
    node = as_node(x)
    if mode not in _MODES:
        raise OptionError(f"[pad] no mode {mode!r}; {did_you_mean(mode, _MODES)}")
    if reflect_type not in ("even", "odd"):
        raise OptionError(f"[pad] no reflect_type {reflect_type!r}; use 'even' or 'odd'")
    amounts = [(int(a), int(b)) for a, b in _pairs("pad_width", pad_width, node.ndim)]
    if any(amount < 0 for pair in amounts for amount in pair):
        raise ShapeError(
            f"[pad] amounts {pad_width} are negative somewhere; slice the tensor to crop it"
        )
    if mode in ("constant", "empty"):
        return wrap(_constant(node, amounts, constant_values if mode == "constant" else 0))
    per_axis = {
        "linear_ramp": _pairs("end_values", end_values, node.ndim),
        **dict.fromkeys(_STATISTICS, _pairs("stat_length", stat_length, node.ndim)),
    }.get(mode, [(None, None)] * node.ndim)
    for axis, (amount, options) in enumerate(zip(amounts, per_axis, strict=True)):
        if amount != (0, 0):
            node = _along(node, axis, amount, mode, options, reflect_type == "odd")
    return wrap(node)


def _constant(node: Node, amounts: Sequence[tuple[int, int]], values: Any) -> Node:
    if isinstance(values, bool | int | float | complex):
        fill = scalar_node(values, node.dtype, "pad")
        return ops.pad(node, [a for a, _ in amounts], [b for _, b in amounts], fill)
    none = [0] * node.ndim
    fills = _pairs("constant_values", values, node.ndim)
    for axis, (pair, filled) in enumerate(zip(amounts, fills, strict=True)):
        for place, (amount, value) in enumerate(zip(pair, filled, strict=True)):
            ends = [amount if a == axis else 0 for a in range(node.ndim)]
            fill = scalar_node(value, node.dtype, "pad")
            node = ops.pad(node, *((none, ends) if place else (ends, none)), fill)
    return node


def _along(
    node: Node, axis: int, amount: tuple[int, int], mode: str, options: tuple[Any, Any], odd: bool
) -> Node:
    """One axis padded."""
    size = int(node.shape[axis])
    if size == 0:
        raise ShapeError(f"[pad] axis {axis} of {node.shape} is empty: nothing to take {mode} from")
    if mode in _REPEATING:
        if odd and mode in ("reflect", "symmetric"):
            return _odd(node, axis, amount, mode == "symmetric")
        places = np.pad(np.arange(size), amount, mode=mode)  # type: ignore[call-overload]
        return take_node(node, node_from_array(places.astype(np.int64)), axis)
    ends = []
    for last, (count, option) in enumerate(zip(amount, options, strict=True)):
        if mode == "linear_ramp":
            ends.append(_ramp(node, axis, count, option, bool(last)))
        else:
            ends.append(_statistic(node, axis, count, mode, option, bool(last)))
    return ops.concatenate([ends[0], node, ends[1]], axis)


def _piece(node: Node, axis: int, start: int, size: int) -> Node:
    starts = [start if a == axis else 0 for a in range(node.ndim)]
    return ops.slice(node, starts, (*node.shape[:axis], size, *node.shape[axis + 1 :]))


def _odd(node: Node, axis: int, amount: tuple[int, int], symmetric: bool) -> Node:
    """Mirrored at both ends with ``2 edge - mirrored``, as often as it takes."""
    before, after = amount
    while before or after:
        size = int(node.shape[axis])
        reach = size if symmetric else size - 1
        if reach == 0:  # one element: its own mirror image
            return _edge(node, axis, (before, after))
        take = min(before, reach), min(after, reach)
        first, last = _piece(node, axis, 0, 1), _piece(node, axis, size - 1, 1)
        skip = 0 if symmetric else 1
        head = ops.flip(_piece(node, axis, skip, take[0]), (axis,))
        tail = ops.flip(_piece(node, axis, size - skip - take[1], take[1]), (axis,))
        parts = [
            ops.subtract(ops.broadcast_to(ops.add(edge, edge), part.shape), part)
            for edge, part in ((first, head), (last, tail))
        ]
        node = ops.concatenate([parts[0], node, parts[1]], axis)
        before, after = before - take[0], after - take[1]
    return node


def _edge(node: Node, axis: int, amount: tuple[int, int]) -> Node:
    places = np.pad(np.arange(int(node.shape[axis])), amount, mode="edge")
    return take_node(node, node_from_array(places.astype(np.int64)), axis)


def _statistic(node: Node, axis: int, count: int, mode: str, length: Any, last: bool) -> Node:
    """``count`` copies of a statistic of the outermost elements."""
    size = int(node.shape[axis])
    if length is not None and int(length) < 1:
        raise OptionError(f"[pad] stat_length {length}; a statistic needs at least one element")
    taken = size if length is None else min(int(length), size)
    part = _piece(node, axis, size - taken if last else 0, taken)
    found = as_node(_STATISTICS[mode](wrap(part), axis=axis, keepdims=True))
    if not node.dtype.inexact and found.dtype.kind == "f":
        found = ops.round(found)
    shape = (*node.shape[:axis], count, *node.shape[axis + 1 :])
    return ops.broadcast_to(cast(found, node.dtype), shape)


def _ramp(node: Node, axis: int, count: int, end: Any, last: bool) -> Node:
    """``count`` numbers on the straight line from ``end`` to the edge, which is not among them."""
    size = int(node.shape[axis])
    shape = (*node.shape[:axis], count, *node.shape[axis + 1 :])
    work = float64 if not node.dtype.inexact else as_float(node).dtype
    edge = cast(_piece(node, axis, size - 1 if last else 0, 1), work)
    step = ops.cast(ops.iota(shape, axis, int64), work)
    if last:
        step = ops.subtract(ops.constant(count - 1, work), step)
    target = scalar_node(end, work, "pad")
    rise = ops.subtract(edge, ops.broadcast_to(target, edge.shape))
    rise = ops.divide(rise, ops.constant(max(count, 1), work))
    line = ops.add(ops.multiply(ops.broadcast_to(rise, shape), step), target)
    return cast(line if node.dtype.inexact else ops.floor(line), node.dtype)
