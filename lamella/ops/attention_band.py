"""What the attention calls share: which keys a query sees, and the formulas as nodes.

Input: nodes as ``ops.attention`` takes them. Output: nodes, in the dtype of sums.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lamella import dtypes, ops
from lamella.dtypes import bool_
from lamella.errors import DTypeError, ShapeError
from lamella.ir.dim import Shape, Size
from lamella.ir.node import Node, make
from lamella.ops.base import Array, Needs
from lamella.ops.calls import Call
from lamella.ops.families import accumulator, to_shape
from lamella.ops.reduce import expand

__all__ = [
    "Banded", "Pieces", "across", "check_operands", "like", "score_tangent", "swapped", "total",
    "weights_of", "wide", "widened",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Banded(Call):
    """What both calls share: the band of visible keys (None: no bound)."""

    before: int | None = None
    after: int | None = None

    def allowed(self, rows: int, columns: int) -> Array:
        """The band as a matrix."""
        gap = np.arange(columns)[None, :] - np.arange(rows)[:, None]
        low = gap >= -self.before if self.before is not None else True
        high = gap <= self.after if self.after is not None else True
        return np.broadcast_to(np.logical_and(low, high), gap.shape)

    def scores(self, arrays: Sequence[Array]) -> Array:
        """In NumPy and float64: the scores, -inf where a key is not visible."""
        q, k = (wide(a) for a in arrays[:2])
        found = q @ np.swapaxes(k, -1, -2)
        if len(arrays) == 4 and arrays[3].dtype != np.bool_:
            found = found + wide(arrays[3])
        hidden = ~self.allowed(*found.shape[-2:])
        if len(arrays) == 4 and arrays[3].dtype == np.bool_:
            hidden = hidden | ~arrays[3]
        return np.where(hidden, -np.inf, found)

    def score_nodes(self, inputs: Sequence[Node]) -> Node:
        """The same as nodes, in the dtype of sums."""
        q, k = (widened(x) for x in inputs[:2])
        found = ops.matmul(q, swapped(k))
        allowed = self._band(found.shape)
        if len(inputs) == 4 and inputs[3].dtype is bool_:
            mask = to_shape(inputs[3], found.shape)
            allowed = mask if allowed is None else ops.bitwise_and(allowed, mask)
        elif len(inputs) == 4:
            found = ops.add(found, to_shape(widened(inputs[3]), found.shape))
        if allowed is None:
            return found
        return ops.where(allowed, found, ops.full(float("-inf"), found.shape, found.dtype))

    def _band(self, shape: Shape) -> Node | None:
        rows, columns = (ops.iota(shape, len(shape) - d, dtypes.int64) for d in (2, 1))
        gap = ops.subtract(columns, rows)
        found = None
        if self.after is not None:
            found = ops.less_equal(gap, ops.constant(self.after, dtypes.int64))
        if self.before is not None:
            low = ops.greater_equal(gap, ops.constant(-self.before, dtypes.int64))
            found = low if found is None else ops.bitwise_and(found, low)
        return found

    def batched(self, args: Sequence[Node], has: Needs, size: Size) -> list[Node]:
        """Inputs with one more leading axis: of size 1 where the mask, or forward also keys and
        values, have none.
        """
        shared = {3} if len(args) in (4, 7) else set()
        if len(args) <= 4 and not has[1] and not has[2]:
            shared |= {1, 2}
        return [
            arg if own
            else ops.reshape(arg, (1, *arg.shape)) if i in shared
            else to_shape(arg, (size, *arg.shape))
            for i, (arg, own) in enumerate(zip(args, has, strict=True))
        ]  # fmt: skip

    def batch(self, node: Node, args: Sequence[Node], batched: Needs, size: Size) -> Node:
        """One more leading axis."""
        return make(self, tuple(self.batched(args, batched, size)), (), node.dtype)


class Pieces:
    """The inputs of a backward pass and what follows from them, each as nodes of all heads."""

    def __init__(self, op: Banded, inputs: Sequence[Node]) -> None:
        given, (logarithm, mean, d_out) = inputs[:-3], inputs[-3:]
        lead = given[0].shape[:-2]
        self.q, self.k, self.v = (to_shape(widened(x), (*lead, *x.shape[-2:])) for x in given[:3])
        self.d_out = widened(d_out)
        self.weights = weights_of(op, given, logarithm)
        d_weights = ops.matmul(self.d_out, swapped(self.v))
        self.gap = ops.subtract(d_weights, across(mean, d_weights.shape))
        self.change = ops.multiply(self.weights, self.gap)


def weights_of(op: Banded, inputs: Sequence[Node], logarithm: Node) -> Node:
    """The weights, from each row's logarithm of the sum of exponentials."""
    scores = op.score_nodes(inputs)
    return ops.exp(ops.subtract(scores, across(logarithm, scores.shape)))


def score_tangent(
    inputs: Sequence[Node], tangents: Sequence[Node | None], shape: Shape
) -> Node | None:
    """The tangent of the scores from those of q, k and the mask."""
    q, k = (widened(x) for x in inputs[:2])
    dq, dk, *masks = (None if t is None else widened(t) for t in tangents)
    found = None if dq is None else ops.matmul(dq, swapped(k))
    if dk is not None:
        found = total(found, ops.matmul(q, swapped(dk)))
    for mask in masks:
        found = found if mask is None else total(found, to_shape(mask, shape))
    return found


def wide(array: Array) -> Array:
    """An array as float64."""
    return array.astype(np.float64)


def widened(x: Node) -> Node:
    """``x`` in the dtype of sums."""
    return ops.cast(x, accumulator(x.dtype))


def swapped(x: Node) -> Node:
    """The last two axes exchanged."""
    axes = list(range(x.ndim))
    return ops.permute(x, [*axes[:-2], axes[-1], axes[-2]])


def across(x: Node, shape: Shape) -> Node:
    """A value a row, put along the last axis of ``shape``."""
    return expand(x, (len(shape) - 1,), shape)


def total(a: Node | None, b: Node | None) -> Node | None:
    """The sum; None is zero."""
    return b if a is None else a if b is None else ops.add(a, b)


def like(x: Node, source: Node) -> Node:
    """``x`` summed over the axes along which ``source`` was shared, in its dtype."""
    axes = tuple(
        axis for axis, (have, want) in enumerate(zip(x.shape, source.shape, strict=True))
        if have != want
    )  # fmt: skip
    found = ops.reshape(ops.reduce_sum(x, axes), source.shape) if axes else x
    return ops.cast(found, source.dtype)


def check_operands(inputs: Sequence[Node]) -> None:
    """Raise ShapeError or DTypeError unless q, k, v and perhaps a mask fit each other."""
    q, k, v, *masks = inputs
    kinds = {x.dtype for x in (q, k, v)}
    if len(kinds) > 1 or q.dtype.kind != "f" or any(m.dtype not in (bool_, q.dtype) for m in masks):
        raise DTypeError(
            f"[attention] operands are {', '.join(x.dtype.name for x in inputs)}: q, k and v have "
            "one floating-point dtype and the mask that or bool; cast them"
        )
    lead = q.shape[:-2]
    fits = q.ndim == k.ndim == v.ndim >= 2 and k.shape[:-1] == v.shape[:-1]
    fits = fits and q.shape[-1] == k.shape[-1] and _shared(k.shape[:-2], lead)
    if not fits or not all(_shared(m.shape, (*lead, q.shape[-2], k.shape[-2])) for m in masks):
        raise ShapeError(
            f"[attention] shapes {', '.join(str(x.shape) for x in inputs)}: q is (*lead, L, E), k "
            "(*lead, S, E), v (*lead, S, V) and the mask (*lead, L, S), where an axis of 1 in k "
            "and v together, or in the mask, is shared; reshape them"
        )


def _shared(shape: Shape, whole: Shape) -> bool:
    return len(shape) == len(whole) and all(a in (1, b) for a, b in zip(shape, whole, strict=True))
