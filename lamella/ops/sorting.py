"""Sorting along an axis: the stable ``argsort`` primitive; ``sort`` composes it.

nan sorts as the greatest: last ascending (as NumPy), first descending. Equal elements keep order.
The kernel is a radix sort of positions; for short rows a bottom-up merge sort: log2(n) passes,
each one serial loop with two cursors and no branches. The sorted axis must have a plain size when
it is compiled.
"""
from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from lamella import ops
from lamella.dtypes import ALL, DType, bool_, int64, uint8
from lamella.errors import ShapeError
from lamella.ir import index as ix
from lamella.ir.dim import Dim, Shape
from lamella.ir.loops import (
    Alloc,
    Assign,
    Declare,
    Expr,
    For,
    Load,
    Read,
    Stmt,
    Store,
    apply,
    cast,
)
from lamella.ir.node import Node, make
from lamella.ops.base import Array, Element, Index, KernelWriter, Kind, Sample
from lamella.ops.families import Positions, accumulator, check_fits, normalize_axes, widen
from lamella.ops.radix import RadixSort, ordered_bits
from lamella.ops.reduce import remaining
from lamella.ops.sampling import special
from lamella.ops.validate import require_ordered

__all__ = ["ArgSort", "argsort", "sort"]

LONG = 64  # elements of a row from which digits are counted and not runs merged


@dataclass(frozen=True, slots=True)
class ArgSort(Positions):
    """The positions that sort the input along ``axis``, stable, int64."""

    name: ClassVar[str] = "argsort"
    kind: ClassVar[Kind] = "kernel"
    descending: bool

    def check(self, node: Node) -> None:
        """The input's shape, int64."""
        normalize_axes(self.name, self.axis, node.inputs[0].ndim)
        check_fits(node, node.inputs[0].shape, int64)

    def reference(self, *arrays: Array, shape: tuple[int, ...], dtype: DType) -> Array:
        """``np.argsort``, stable."""
        x = arrays[0]
        if x.dtype.kind not in "biu" and x.dtype.itemsize == 2:
            x = x.astype(np.float32)
        if not self.descending:
            return np.argsort(x, axis=self.axis, kind="stable").astype(np.int64)
        flipped = np.argsort(np.flip(x, self.axis), axis=self.axis, kind="stable")
        return np.flip(shape[self.axis] - 1 - flipped, self.axis).astype(np.int64)

    def grid(self, node: Node) -> Shape:
        """All axes but the sorted one."""
        return remaining(node.shape, (self.axis,))

    def kernel(
        self, node: Node, args: Sequence[Element], at: Index, out: KernelWriter
    ) -> list[Stmt]:
        """Sort the positions of the row."""
        length = node.shape[self.axis]
        if isinstance(length, Dim):
            raise ShapeError(
                f"[argsort] axis {self.axis} of size {length} is known only when the program runs; "
                "leave that axis out of dynamic=..."
            )
        if length >= LONG:
            return RadixSort(
                length,
                lambda i: ordered_bits(widen(args[0](self._index(at, i))), self.descending),
                lambda place, position: out.store(self._index(at, place), position),
                out,
            ).statements()
        return self._merged(args[0], at, length, out)

    def _merged(self, x: Element, at: Index, length: int, out: KernelWriter) -> list[Stmt]:
        """Copy the keys, then merge runs of 1, 2, 4 … between two arrays of positions."""
        keys, here, there = (out.temporary(n) for n in ("keys", "order", "merged"))
        dtype = accumulator(x.dtype)
        statements: list[Stmt] = [Alloc(keys, dtype, max(length, 1), "local")]
        statements += [Alloc(n, int64, max(length, 1), "local") for n in (here, there)]
        var = out.var("i", length)
        key = widen(x(self._index(at, var)))
        copy = (Store(keys, var, key), Store(here, var, var))
        statements.append(For(var, "serial", copy))
        merge = _Merge(keys, dtype, length, self.descending, out)
        width = 1
        while width < length:
            statements += merge.statements(here, there, width)
            here, there, width = there, here, width * 2
        last = out.var("i", length)
        statements.append(
            For(last, "serial", (out.store(self._index(at, last), Load(here, last, int64)),))
        )
        return statements

    def _index(self, at: Index, place: Expr) -> Index:
        return (*at[: self.axis], place, *at[self.axis :])

    @classmethod
    def samples(cls) -> Iterator[Sample]:
        """Ties, nans, sizes that are no power of 2, both orders."""
        for descending in (False, True):
            shapes = ((17,), 0), ((2, 3, 5), 1), ((90, 2), 0), ((4, 1), 1), ((0, 3), 0), ((0, 3), 1)
            for shape, axis in shapes:
                yield Sample(
                    (shape,), lambda x, a=axis, d=descending: argsort(x, a, d), ALL,
                    differentiable=False,
                )  # fmt: skip
            yield Sample(
                ((12, 12),), lambda x, d=descending: argsort(x, 0, d), ALL, draw=special,
                differentiable=False, note="special values",
            )  # fmt: skip
            yield Sample(
                ((144, 1),), lambda x, d=descending: argsort(x, 0, d), ALL, draw=special,
                differentiable=False, note="special values",
            )  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Merge:
    """Writes the passes of the merge sort."""

    keys: str
    dtype: DType
    length: int
    descending: bool
    out: KernelWriter

    def statements(self, source: str, target: str, width: int) -> list[Stmt]:
        """Merge neighbouring runs of ``width`` positions of ``source`` into ``target``."""
        p = self.out.var("p", self.length)
        left, right = self.out.temporary("left"), self.out.temporary("right")
        offset = ix.mod(p, 2 * width)
        base = ix.sub(p, offset)
        middle = ix.minimum(ix.add(base, width), self.length)
        end = ix.minimum(ix.add(base, 2 * width), self.length)
        starts = apply("eq", offset, ix.constant(0), dtype=bool_)
        cursors: tuple[Stmt, ...] = (
            Assign(left, _select(starts, base, Read(left, int64))),
            Assign(right, _select(starts, middle, Read(right, int64))),
        )
        i, j = Read(left, int64), Read(right, int64)
        a, b = self._at(source, i), self._at(source, j)
        exhausted = apply("le", end, j, dtype=bool_)
        kept = apply("not", self._before(self._key(b), self._key(a)))
        from_left = apply("and", apply("lt", i, middle, dtype=bool_), apply("or", exhausted, kept))
        chosen = self.out.temporary("chosen")
        take = Read(chosen, int64)
        step: tuple[Stmt, ...] = (
            Declare(chosen, int64, cast(from_left, int64)),
            Store(target, p, _select(apply("ne", take, ix.constant(0), dtype=bool_), a, b)),
            Assign(left, apply("add", i, take)),
            Assign(right, apply("add", j, apply("sub", ix.constant(1), take))),
        )
        zero = ix.constant(0)
        return [
            Declare(left, int64, zero),
            Declare(right, int64, zero),
            For(p, "serial", cursors + step),
        ]

    def _at(self, source: str, cursor: Expr) -> Expr:
        """The position under a cursor, which may stand just behind the end."""
        return Load(source, apply("min", cursor, ix.constant(self.length - 1)), int64)

    def _key(self, position: Expr) -> Expr:
        return Load(self.keys, position, self.dtype)

    def _before(self, x: Expr, y: Expr) -> Expr:
        """Whether key ``x`` comes strictly before key ``y``."""
        low, high = (y, x) if self.descending else (x, y)
        less = apply("lt", low, high, dtype=bool_)
        if self.dtype.kind != "f":
            return less
        number = apply("not", apply("isnan", low, dtype=bool_))
        return apply("or", less, apply("and", apply("isnan", high, dtype=bool_), number))


def _select(condition: Expr, a: Expr, b: Expr) -> Expr:
    return apply("select", condition, a, b, dtype=int64)


def argsort(x: Node, axis: int, descending: bool = False, stable: bool = True) -> Node:
    """The positions that sort ``x`` along ``axis``, int64; always stable.

    Raises:
        ShapeError: for an axis out of range. DTypeError: for complex numbers.

    >>> from lamella import dtypes, ops
    >>> argsort(ops.iota((2, 3), 1, dtypes.int64), 1).dtype
    lamella.int64
    """
    require_ordered("argsort", x)
    (found,) = normalize_axes("argsort", axis, x.ndim)
    source = ops.cast(x, uint8) if x.dtype is bool_ else x
    return make(ArgSort(found, descending), (source,), x.shape, int64)


def sort(x: Node, axis: int, descending: bool = False, stable: bool = True) -> Node:
    """``x`` in order along ``axis``; nan last, descending first.

    >>> from lamella import dtypes, ops
    >>> sort(ops.iota((2, 3), 1, dtypes.float64), 1).shape
    (2, 3)
    """
    return ops.take_along_axis(x, argsort(x, axis, descending, stable), axis)
