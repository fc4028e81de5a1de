"""The k first of an order along an axis: the ``largest`` primitive, and ``topk``, which sorts only
what it chose.

The kernel finds the k-th key by halving the range of keys, a bit at a time: each step counts, in
vectors, how many keys are not below a bound. A second look takes what is above the k-th, and of its
equals those that come first. Rows that are long are cut into parts, whose winners are compared
again. nan is the greatest, both zeros are equal, as in sorting.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from lamella import ops
from lamella.dtypes import ALL, DType, bool_, int32, int64, uint8
from lamella.errors import ShapeError
from lamella.ir import index as ix
from lamella.ir.dim import Shape, Size
from lamella.ir.loops import (
    Accumulate,
    Alloc,
    Assign,
    Const,
    Declare,
    Expr,
    For,
    If,
    Load,
    Read,
    Stmt,
    Store,
    apply,
    cast,
)
from lamella.ir.node import Node, make
from lamella.ops.base import Array, Element, Index, KernelWriter, Kind, Sample
from lamella.ops.families import Positions, check_fits, normalize_axes, widen
from lamella.ops.radix import ordered_bits
from lamella.ops.reduce import lowest, remaining
from lamella.ops.sampling import special
from lamella.ops.sorting import ArgSort, argsort
from lamella.ops.validate import require_ordered

__all__ = ["Largest", "topk"]

SHORT = 64  # elements of a row that is sorted whole
FEW = 4  # the least elements for each one chosen: beyond that sorting is as quick
BLOCK = 32  # keys that are looked at together
PART = 8192  # the longest row that is not cut


@dataclass(frozen=True, slots=True)
class Largest(Positions):
    """The positions, ascending, of the ``count`` largest (or smallest) elements along ``axis``, of
    equal ones the first, int64.
    """

    name: ClassVar[str] = "largest"
    kind: ClassVar[Kind] = "kernel"
    count: int
    smallest: bool

    def check(self, node: Node) -> None:
        """``count`` elements along the axis, which has as many; int64."""
        x = node.inputs[0]
        normalize_axes(self.name, self.axis, x.ndim)
        length = x.shape[self.axis]
        if not isinstance(length, int) or not 0 < self.count <= length:
            raise ShapeError(f"[largest] {self.count} of axis {self.axis} of {x.shape}")
        check_fits(node, self._shape(x.shape), int64)

    def _shape(self, shape: Shape) -> Shape:
        return (*shape[: self.axis], self.count, *shape[self.axis + 1 :])

    def reference(self, *arrays: Array, shape: tuple[int, ...], dtype: DType) -> Array:
        """The first of a stable sort, in order of position."""
        order = ArgSort(self.axis, not self.smallest).reference(
            *arrays, shape=arrays[0].shape, dtype=dtype
        )
        return np.sort(np.take(order, np.arange(self.count), self.axis), self.axis)

    def grid(self, node: Node) -> Shape:
        """All axes but the one chosen along."""
        return remaining(node.shape, (self.axis,))

    def kernel(
        self, node: Node, args: Sequence[Element], at: Index, out: KernelWriter
    ) -> list[Stmt]:
        """The keys, the bound, then the positions."""
        length = args[0].shape[self.axis]
        if not isinstance(length, int):
            raise ShapeError(f"[largest] axis {self.axis} has no plain size; leave it not dynamic")

        def index(place: Expr) -> Index:
            return (*at[: self.axis], place, *at[self.axis :])

        def key(place: Expr) -> Expr:
            return ordered_bits(widen(args[0](index(place))), self.smallest)

        row = _Row(key(ix.constant(0)).dtype, length, self.count, out)
        last, chosen = out.var("last", self.count), out.temporary("chosen")
        return [
            *row.fill(key),
            Alloc(chosen, int64, self.count + 1, "local"),
            *row.search(),
            *row.positions(chosen),
            For(last, "lanes", (out.store(index(last), Load(chosen, last, int64)),)),
        ]

    @classmethod
    def samples(cls) -> Iterator[Sample]:
        """Ties, nans, one and all."""
        cases = (
            ((17,), 0, 5), ((2, 3, 5), 1, 1), ((90, 2), 0, 7), ((4, 1), 1, 1), ((3, 20), 1, 20),
        )  # fmt: skip
        for smallest in (False, True):
            for shape, axis, k in cases:
                yield Sample(
                    (shape,), lambda x, a=axis, n=k, s=smallest: largest(x, n, a, s), ALL,
                    differentiable=False,
                )  # fmt: skip
            yield Sample(
                ((144, 1),), lambda x, s=smallest: largest(x, 30, 0, s), ALL, draw=special,
                differentiable=False, note="special values",
            )  # fmt: skip


class _Row:
    """Writes the search in one row of keys, of which the greatest win."""

    def __init__(self, dtype: DType, length: int, count: int, out: KernelWriter) -> None:
        self.dtype, self.length, self.count, self.out = dtype, length, count, out
        self.room = -(-length // BLOCK) * BLOCK
        self.keys, self._bound, self._held = map(out.temporary, ("keys", "bound", "held"))

    def _key(self, at: Expr) -> Expr:
        return Load(self.keys, at, self.dtype)

    @property
    def bound(self) -> Expr:
        """What :meth:`search` finds."""
        return Read(self._bound, self.dtype)

    def fill(self, key: Callable[[Expr], Expr]) -> list[Stmt]:
        """The keys, and behind them the least there is, up to a whole block."""
        i, rest = self.out.var("i", self.length), self.out.var("rest", self.room - self.length)
        behind = Store(self.keys, ix.add(self.length, rest), Const(0, self.dtype))
        return [
            Alloc(self.keys, self.dtype, self.room, "local"),
            For(i, "lanes", (Store(self.keys, i, key(i)),)),
            For(rest, "serial", (behind,)),
        ]

    def _counted(self, op: str, bound: Expr, name: str) -> list[Stmt]:
        """How many keys are ``op`` bound: "le" not below it, "lt" above it."""
        i = self.out.var("i", self.length)
        one = cast(apply(op, bound, self._key(i), dtype=bool_), int32)
        return [
            Declare(name, int32, Const(0, int32)),
            For(i, "lanes", (Accumulate((name,), "add", (one,)),)),
        ]

    def search(self) -> list[Stmt]:
        """The greatest bound that ``count`` keys or more are not below, or one that just as many
        are not below.
        """
        out, dtype, wanted = self.out, self.dtype, Const(self.count, int32)
        number, found, tried = out.var("bit", dtype.bits), out.temporary("n"), out.temporary("try")
        bit = cast(ix.sub(dtype.bits - 1, number), dtype)
        higher = apply("or", self.bound, apply("shl", Const(1, dtype), bit))
        held, more = Read(self._held, int32), Read(found, int32)
        enough = apply("le", wanted, more, dtype=bool_)
        step = (
            Declare(tried, dtype, higher),
            *self._counted("le", Read(tried, dtype), found),
            Assign(self._held, apply("select", enough, more, held, dtype=int32)),
            Assign(
                self._bound, apply("select", enough, Read(tried, dtype), self.bound, dtype=dtype)
            ),
        )
        return [
            Declare(self._bound, dtype, Const(0, dtype)),
            Declare(self._held, int32, Const(self.length, int32)),
            For(number, "serial", (If(apply("lt", wanted, held, dtype=bool_), step),)),
        ]

    def positions(self, chosen: str) -> list[Stmt]:
        """What is above the bound, and the first of its equals; a block of keys that has neither is
        passed over.
        """
        out = self.out
        above, cursor, equals, some = map(out.temporary, ("above", "cursor", "equals", "some"))
        block, lane = out.var("block", self.room // BLOCK), out.var("lane", BLOCK)
        start = ix.mul(block, BLOCK)
        reached = apply("le", self.bound, self._key(ix.add(start, lane)), dtype=bool_)
        body = (
            Declare(some, bool_, Const(False, bool_)),
            For(lane, "lanes", (Accumulate((some,), "or", (reached,)),)),
            If(Read(some, bool_), self._taken(chosen, start, cursor, equals)),
        )
        left = cast(apply("sub", Const(self.count, int32), Read(above, int32)), int64)
        return [
            *self._counted("lt", self.bound, above),
            Declare(equals, int64, left),
            Declare(cursor, int64, ix.constant(0)),
            For(block, "serial", body),
        ]

    def _taken(self, chosen: str, start: Expr, cursor: str, equals: str) -> tuple[Stmt, ...]:
        i = self.out.var("i", BLOCK)
        at, left = ix.add(start, i), Read(equals, int64)
        more = apply("lt", ix.constant(0), left, dtype=bool_)
        level = apply("and", apply("eq", self.bound, self._key(at), dtype=bool_), more)
        tie = self.out.temporary("tie")
        wins = cast(apply("lt", self.bound, self._key(at), dtype=bool_), int64)
        steps = (
            Declare(tie, int64, cast(level, int64)),
            Store(chosen, Read(cursor, int64), at),
            Assign(equals, apply("sub", left, Read(tie, int64))),
            Assign(cursor, ix.add(Read(cursor, int64), ix.add(wins, Read(tie, int64)))),
        )
        return (For(i, "serial", steps),)


def largest(x: Node, count: int, axis: int, smallest: bool = False) -> Node:
    """The positions, ascending, of the ``count`` largest (smallest) elements along ``axis``."""
    require_ordered("topk", x)
    shape = (*x.shape[:axis], count, *x.shape[axis + 1 :])
    source = ops.cast(x, uint8) if x.dtype is bool_ else x
    return make(Largest(axis, count, smallest), (source,), shape, int64)


def _selected(x: Node, k: int, axis: int, smallest: bool) -> Node:
    """As :func:`largest`; long rows by their parts' winners, in which the first of equals still
    come first.
    """
    length = x.shape[axis]
    if not isinstance(length, int) or length <= PART or k > PART // FEW:
        return largest(x, k, axis, smallest)
    parts = -(-length // PART)
    missing = parts * PART - length
    if missing:
        high = [missing if a == axis else 0 for a in range(x.ndim)]
        x = ops.pad(x, [0] * x.ndim, high, _last(x.dtype, smallest))
    cut = ops.reshape(x, (*x.shape[:axis], parts, PART, *x.shape[axis + 1 :]))
    inside = largest(cut, k, axis + 1, smallest)
    start = ops.multiply(ops.iota(inside.shape, axis, int64), ops.constant(PART, int64))
    shape = (*x.shape[:axis], parts * k, *x.shape[axis + 1 :])
    winners = ops.reshape(ops.add(inside, start), shape)
    again = _selected(ops.take_along_axis(x, winners, axis), k, axis, smallest)
    return ops.take_along_axis(winners, again, axis)


def _last(dtype: DType, smallest: bool) -> Node:
    """What no element comes after in the order."""
    if smallest and dtype.kind == "f":
        return ops.constant(float("nan"), dtype)
    return ops.constant(lowest(dtype, 1 if smallest else -1).value, dtype)


def topk(x: Node, k: int, axis: int = -1, largest: bool = True) -> tuple[Node, Node]:
    """The ``k`` largest (or smallest) elements along ``axis``, in order, and their positions.

    Raises:
        ShapeError: if ``k`` is negative or greater than the axis, or the axis is out of range.

    >>> from lamella import dtypes, ops
    >>> [t.shape for t in topk(ops.iota((2, 3), 1, dtypes.float64), 2)]
    [(2, 2), (2, 2)]
    """
    (found,) = normalize_axes("topk", axis, x.ndim)
    length = x.shape[found]
    if k < 0 or (isinstance(length, int) and k > length):
        raise ShapeError(
            f"[topk] k = {k} elements of axis {axis} of shape {x.shape}, which has {length}; "
            f"choose k from 0 to {length}"
        )
    if isinstance(length, int) and length >= SHORT and 0 < FEW * k <= length:
        return _sorted(x, _selected(x, k, found, not largest), found, largest)
    order = argsort(x, found, descending=largest)
    sizes: list[Size] = list(x.shape)
    sizes[found] = k
    first = ops.slice(order, [0] * x.ndim, sizes)
    return ops.take_along_axis(x, first, found), first


def _sorted(x: Node, chosen: Node, axis: int, descending: bool) -> tuple[Node, Node]:
    """The chosen elements in order, and their positions."""
    if chosen.shape[axis] == 1:
        return ops.take_along_axis(x, chosen, axis), chosen
    values = ops.take_along_axis(x, chosen, axis)
    order = argsort(values, axis, descending)
    return ops.take_along_axis(values, order, axis), ops.take_along_axis(chosen, order, axis)
