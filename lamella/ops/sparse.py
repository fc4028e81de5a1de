"""Products of sparse matrices with dense ones, row by row.

A sparse matrix is its pattern, in compressed rows and in compressed columns, and its values in
the order of rows. A product reads each row's entries once and keeps its sums in registers; nothing
of the size of entries times columns is ever stored.
"""
from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from lamella import ops
from lamella.dtypes import FLOATS, DType, int64
from lamella.errors import DTypeError, ShapeError
from lamella.ir import index as ix
from lamella.ir.dim import Shape, Size
from lamella.ir.loops import Assign, Const, Declare, For, Read, Stmt, apply, cast
from lamella.ir.node import Node, make
from lamella.ops.base import Array, Element, Index, KernelWriter, Kind, Needs, Primitive, Sample
from lamella.ops.families import accumulator, check_fits, widen

__all__ = ["Pattern", "SparseProduct", "sampled_product", "sparse_product"]


@dataclass(frozen=True, slots=True)
class Pattern:
    """Where the entries of a sparse matrix are.

    ``offsets`` (rows + 1) says where each row begins among the entries, ``columns`` and ``rows``
    where each entry is. ``order`` names the entries by columns: entry ``order[k]`` is the ``k``-th
    of them, ``back`` is the inverse. ``t_offsets``, ``t_columns`` and ``t_rows`` are those of the
    transposed matrix.
    """

    offsets: Node
    columns: Node
    rows: Node
    t_offsets: Node
    t_columns: Node
    t_rows: Node
    order: Node
    back: Node

    @property
    def nodes(self) -> tuple[Node, ...]:
        """All of it, in order."""
        first = (self.offsets, self.columns, self.rows)
        return (*first, self.t_offsets, self.t_columns, self.t_rows, self.order, self.back)

    @property
    def transposed(self) -> Pattern:
        """That of the transposed matrix."""
        last = (self.offsets, self.columns, self.rows, self.back, self.order)
        return Pattern(self.t_offsets, self.t_columns, self.t_rows, *last)


@dataclass(frozen=True, slots=True)
class SparseProduct(Primitive):
    """result[..., i, k] = Σ values[..., j] dense[..., columns[j], k] over the entries j of row i.

    Inputs: the values, the dense matrix, and the eight arrays of the pattern.
    """

    name: ClassVar[str] = "sparse_product"
    kind: ClassVar[Kind] = "kernel"

    def check(self, node: Node) -> None:
        """As many rows as the pattern has, columns of the dense matrix."""
        values, dense, offsets, *_ = node.inputs
        if values.dtype is not dense.dtype or values.dtype.kind != "f":
            raise DTypeError(
                f"[sparse_product] values {values.dtype.name}, matrix {dense.dtype.name}; both "
                "need one floating-point type: cast one of them"
            )
        if dense.ndim < 2 or values.shape[:-1] != dense.shape[:-2]:
            raise ShapeError(
                f"[sparse_product] values {values.shape} and a matrix {dense.shape}; it needs two "
                "axes after the leading ones, which are the same"
            )
        shape = (*dense.shape[:-2], offsets.shape[0] - 1, dense.shape[-1])
        check_fits(node, shape, values.dtype)

    def reference(self, *arrays: Array, shape: tuple[int, ...], dtype: DType) -> Array:
        """One entry after the other."""
        values, dense, _, columns, rows, *_ = arrays
        wide = accumulator(dtype).numpy
        result = np.zeros(shape, wide)
        for j, (row, column) in enumerate(zip(rows, columns, strict=True)):
            product = values[..., j, None].astype(wide) * dense[..., column, :].astype(wide)
            result[..., row, :] += product
        return result.astype(dtype.numpy)

    def vjp(self, node: Node, cotangent: Node, needs: Needs) -> Sequence[Node | None]:
        """Products at the entries; the product with the transposed matrix."""
        values, dense = node.inputs[:2]
        pattern = Pattern(*node.inputs[2:])
        nothing: tuple[Node | None, ...] = (None,) * 8
        of_values = sampled_product(pattern, cotangent, dense) if needs[0] else None
        of_dense = sparse_product(_by_columns(values, pattern), cotangent, pattern.transposed)
        return of_values, of_dense if needs[1] else None, *nothing

    def jvp(self, node: Node, tangents: Sequence[Node | None]) -> Node | None:
        """Linear in the values and in the matrix."""
        values, dense = node.inputs[:2]
        pattern = Pattern(*node.inputs[2:])
        found = None
        if tangents[0] is not None:
            found = sparse_product(tangents[0], dense, pattern)
        if tangents[1] is not None:
            second = sparse_product(values, tangents[1], pattern)
            found = second if found is None else ops.add(found, second)
        return found

    def batch(self, node: Node, args: Sequence[Node], batched: Needs, size: Size) -> Node:
        """Dense matrices beside one another are one; values have one more leading axis; patterns
        become blocks on a diagonal.
        """
        if not any(batched[2:]) and not batched[0]:
            return self._beside(args[0], args[1], Pattern(*args[2:]), size)
        wide = [
            arg if has else ops.broadcast_to(arg, (size, *arg.shape))
            for arg, has in zip(args, batched, strict=True)
        ]
        if not any(batched[2:]):
            return sparse_product(wide[0], wide[1], Pattern(*args[2:]))
        rows, inner = node.shape[-2], node.inputs[1].shape[-2]
        values, dense = _joined(wide[0], wide[0].ndim - 1), _joined(wide[1], wide[1].ndim - 2)
        found = sparse_product(values, dense, _blocks(wide[2:], rows, inner))
        return _parted(found, size, found.ndim - 2)

    def _beside(self, values: Node, dense: Node, pattern: Pattern, size: Size) -> Node:
        axes = (*range(1, dense.ndim - 1), 0, dense.ndim - 1)  # (..., m, size, k)
        k = dense.shape[-1]
        wide = ops.reshape(ops.permute(dense, axes), (*dense.shape[1:-1], size * k))
        found = sparse_product(values, wide, pattern)
        apart = ops.reshape(found, (*found.shape[:-1], size, k))
        return ops.permute(apart, (apart.ndim - 2, *range(apart.ndim - 2), apart.ndim - 1))

    def grid(self, node: Node) -> Shape:
        """Every element is independent; those of a row run side by side."""
        return node.shape

    def kernel(
        self, node: Node, args: Sequence[Element], at: Index, out: KernelWriter
    ) -> list[Stmt]:
        """Sum over the entries of the row."""
        values, dense, offsets, columns, *_ = args
        *lead, row, column = at
        dtype = accumulator(node.dtype)
        begin, end = offsets((row,)), offsets((ix.add(row, 1),))
        entry = out.var("entry", ix.sub(end, begin))
        place = ix.add(begin, entry)
        named = cast(columns((place,)), int64)
        product = apply(
            "mul", widen(values((*lead, place))), widen(dense((*lead, named, column)))
        )
        total = out.temporary("total")
        more = Assign(total, apply("add", Read(total, dtype), product))
        return [
            Declare(total, dtype, Const(0.0, dtype)),
            For(entry, "serial", (more,)),
            out.store(at, cast(Read(total, dtype), node.dtype)),
        ]

    @classmethod
    def samples(cls) -> Iterator[Sample]:
        """A 3 x 4 matrix with an empty row, single and batched."""
        arrays = [
            np.array([0, 2, 2, 5]), np.array([1, 3, 0, 1, 2]), np.array([0, 0, 2, 2, 2]),
            np.array([0, 1, 3, 4, 5]), np.array([2, 0, 2, 2, 0]), np.array([0, 1, 1, 2, 3]),
            np.array([2, 0, 3, 4, 1]), np.array([1, 4, 0, 2, 3]),
        ]  # fmt: skip

        def draw(
            rng: np.random.Generator, shape: tuple[int, ...], dtype: DType, place: int
        ) -> Array:
            return arrays[place - 2] if place >= 2 else np.asarray(rng.uniform(-1, 1, shape))

        shapes = tuple(array.shape for array in arrays)
        for lead in ((), (2,)):
            yield Sample(
                ((*lead, 5), (*lead, 4, 3), *shapes),
                lambda v, d, *p: sparse_product(v, d, Pattern(*p)),
                FLOATS, (None, None, *(int64,) * 8), draw=draw,
            )  # fmt: skip


def _joined(x: Node, axis: int) -> Node:
    """The first axis in front of ``axis``, as one with it."""
    order = (*range(1, axis), 0, *range(axis, x.ndim))
    moved = ops.permute(x, order)
    joined = (*moved.shape[: axis - 1], x.shape[0] * x.shape[axis], *moved.shape[axis + 1 :])
    return ops.reshape(moved, joined)


def _parted(x: Node, size: Size, axis: int) -> Node:
    """The inverse of ``_joined``: ``size`` parts of ``axis`` as the first axis."""
    each = int(x.shape[axis]) // int(size)
    apart = ops.reshape(x, (*x.shape[:axis], size, each, *x.shape[axis + 1 :]))
    return ops.permute(apart, (axis, *(a for a in range(apart.ndim) if a != axis)))


def _blocks(many: Sequence[Node], rows: Size, columns: Size) -> Pattern:
    """The pattern with many of the same sizes on its diagonal."""
    size, entries = many[1].shape
    steps = (entries, columns, rows, entries, rows, columns, entries, entries)
    found = []
    for place, (node, step) in enumerate(zip(many, steps, strict=True)):
        count = ops.iota((size, 1), 0, node.dtype)
        start = ops.multiply(count, ops.constant(int(step), node.dtype))
        moved = ops.add(node, start)
        if place in (0, 3):  # where the last block ends, and no other
            moved = ops.slice(moved, (0, 0), (size, node.shape[1] - 1), (1, 1))
        flat = ops.reshape(moved, (moved.shape[0] * moved.shape[1],))
        if place in (0, 3):
            end = ops.full(int(size * entries), (1,), node.dtype)
            flat = ops.concatenate([flat, end], 0)
        found.append(flat)
    return Pattern(*found)


def _by_columns(values: Node, pattern: Pattern) -> Node:
    """Values in the order of columns."""
    return _entries(values, pattern.order, values.ndim - 1)


def _entries(x: Node, index: Node, axis: int) -> Node:
    """``x`` at ``index`` along ``axis``; other axes stay where they are."""
    axes = (axis, *(a for a in range(x.ndim) if a != axis))
    found = ops.gather(ops.permute(x, axes), index, 0, checked=False)
    return ops.permute(found, (*range(1, axis + 1), 0, *range(axis + 1, x.ndim)))


def sampled_product(pattern: Pattern, left: Node, right: Node) -> Node:
    """result[..., j] = Σ left[..., rows[j], k] right[..., columns[j], k]."""
    a = _entries(left, pattern.rows, left.ndim - 2)
    b = _entries(right, pattern.columns, right.ndim - 2)
    return ops.reduce_sum(ops.multiply(a, b), (a.ndim - 1,))


def sparse_product(values: Node, dense: Node, pattern: Pattern) -> Node:
    """The sparse matrix times a dense one, of the same leading axes."""
    shape = (*dense.shape[:-2], pattern.offsets.shape[0] - 1, dense.shape[-1])
    node = make(SparseProduct(), (values, dense, *pattern.nodes), shape, values.dtype)
    node.op.check(node)
    return node
