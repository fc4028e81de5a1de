"""Forward and back substitution as a kernel: triangular systems, several columns at a time.

Input: square triangles ``(*lead, n, n)`` and right sides ``(*lead, n, k)`` in memory, of float32 or
float64. Output: the solutions. A task solves a strip of columns, one in each lane, in local memory:
a register tile of a few rows takes off what the rows known so far contribute, then is solved in
registers (Golub and Van Loan, "Matrix Computations", 4th ed., 3.1.4). With few columns lanes run
along a row of the triangle instead. The order of sums depends on the sizes alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from lamella import ops
from lamella.dtypes import DType, bool_, int64
from lamella.errors import ShapeError
from lamella.ir import index as ix
from lamella.ir.dim import Shape, ceildiv, product
from lamella.ir.loops import (
    Accumulate,
    Alloc,
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
)
from lamella.ir.node import Node
from lamella.ops import lapack
from lamella.ops.base import Array, Element, Index, KernelWriter, Sample
from lamella.ops.calls import Result, call
from lamella.ops.matrix_kernel import Flag, MatrixKernel, fixed, kernel_sample, require_real
from lamella.ops.register_rows import RowTile, tile_rows, tile_width

__all__ = ["FEW", "Substitution", "Triangle"]

FEW = 4  # columns from which lanes run along them
LONG = 32  # rows from which they may run along rows
STRIP = 128  # bytes of a row of a strip, at most


def _along_rows(rows: int, columns: int) -> bool:
    """Whether lanes run along the rows of the triangle."""
    return columns < FEW and rows >= LONG


def strip_width(rows: int, columns: int, dtype: DType) -> int:
    """Columns that a task solves.

    >>> from lamella.dtypes import float32
    >>> [strip_width(50, columns, float32) for columns in (3, 9, 100)]
    [1, 16, 32]
    """
    if _along_rows(rows, columns):
        return 1
    return min(STRIP // dtype.itemsize, 1 << (columns - 1).bit_length())


class Triangle(NamedTuple):
    """A triangle of a square matrix, or of its transpose if ``turned``; its diagonal is 1 and is
    not read if ``unit``.
    """

    lower: bool
    unit: bool = False
    turned: bool = False

    def solved(self, t: Array, b: Array) -> Array:
        """The solution, in NumPy."""
        t = np.swapaxes(t, -1, -2) if self.turned else t
        return lapack.triangular_solve(t, b, self.lower, self.unit)


@dataclass(frozen=True, slots=True)
class Substitution(MatrixKernel):
    """The solution with each triangle of one matrix after the other. A third input is the order in
    which rows of the right sides are taken. Failure: a 0 on the diagonal.
    """

    name: ClassVar[str] = "substitution"
    stored: ClassVar[tuple[int, ...]] = (0, 1, 2)
    triangles: tuple[Triangle, ...]

    def __post_init__(self) -> None:
        """Text forms hold plain tuples."""
        object.__setattr__(self, "triangles", tuple([Triangle(*each) for each in self.triangles]))

    def results(self, inputs: Sequence[Node]) -> tuple[Result, ...]:
        """As ``b``."""
        t, b = inputs[:2]
        require_real(self.name, t, b)
        if t.shape[:-1] != b.shape[:-1] or t.shape[-1] != t.shape[-2]:
            raise ShapeError(f"[{self.name}] triangles {t.shape} and right sides {b.shape}")
        return ((b.shape, b.dtype),)

    def evaluate(self, node: Node, arrays: Sequence[Array]) -> tuple[Array, ...]:
        """By blocks."""
        t, x = arrays[:2]
        if len(arrays) == 3:
            x = np.take_along_axis(x, arrays[2][..., None], -2)
        for triangle in self.triangles:
            x = triangle.solved(t, x)
        return (x,)

    def grid(self, node: Node) -> Shape:
        """Matrices, and strips of columns."""
        b = node.inputs[1]
        rows, columns = fixed(b.shape[-2]), fixed(b.shape[-1])
        return product(b.shape[:-2]), ceildiv(columns, strip_width(rows, columns, b.dtype))

    def kernel(
        self, node: Node, args: Sequence[Element], at: Index, out: KernelWriter
    ) -> list[Stmt]:
        """A strip of columns."""
        return _Strip(self, node, args, at, out).statements()

    @classmethod
    def samples(cls) -> Iterator[Sample]:
        """Both triangles, columns that fill strips and that do not."""
        sizes = (1, 1), (5, 2), (13, 5), (30, 37), (40, 1), (0, 3), (3, 0)
        for number, (n, k) in enumerate(sizes):
            for lower in (True, False):
                op = cls((Triangle(lower, number % 2 == 1, number % 4 > 1),))
                yield from kernel_sample(
                    lambda t, b, op=op: call(op, t, b)[0], (2, n, n), (2, n, k)
                )
        both = cls((Triangle(True, unit=True), Triangle(False)))
        for n, k in ((4, 1), (14, 6)):
            yield from kernel_sample(
                lambda t, b: call(both, t, b, _backwards(b.shape))[0], (2, n, n), (2, n, k)
            )


def _backwards(shape: Shape) -> Node:
    """The last row first."""
    last = ops.constant(fixed(shape[-2]) - 1, int64)
    return ops.subtract(last, ops.iota(shape[:-1], len(shape) - 2, int64))


class _Strip:
    """Writes the task of a strip."""

    def __init__(
        self, op: Substitution, node: Node, args: Sequence[Element], at: Index, out: KernelWriter
    ) -> None:
        self.op, self.args, self.out = op, args, out
        t, b = node.inputs[:2]
        self.dtype, self.n, self.columns = b.dtype, fixed(b.shape[-2]), fixed(b.shape[-1])
        self.width = strip_width(self.n, self.columns, b.dtype)
        self.lead = ix.split_linear(at[0], t.shape[:-2])
        self.first = ix.mul(at[1], self.width)
        self.x = out.temporary("x")

    def statements(self) -> list[Stmt]:
        """All of it."""
        alloc = Alloc(self.x, self.dtype, max(1, self.n * self.width), "local")
        check = self._check() if self.op.failure else []
        write = self._single if _along_rows(self.n, self.columns) else self._wide
        solved = [stmt for triangle in self.op.triangles for stmt in write(triangle)]
        load = self._moved(lambda i, j: Store(self.x, self._place(i, j), self._right(i, j)))
        store = self._moved(lambda i, j: self._result(i, j, self._known(i, j)))
        return [alloc, *check, *load, *solved, *store]

    # -- elements ----------------------------------------------------------------------------------
    def _element(self, i: Expr, j: Expr, turned: bool = False) -> Expr:
        return self.args[0]((*self.lead, j, i) if turned else (*self.lead, i, j))

    def _right(self, i: Expr, j: Expr) -> Expr:
        if len(self.args) == 3:
            i = self.args[2]((*self.lead, i))
        return self.args[1]((*self.lead, i, ix.add(self.first, j)))

    def _result(self, i: Expr, j: Expr, value: Expr) -> Stmt:
        return self.out.part(0, (*self.lead, i, ix.add(self.first, j)), value)

    def _place(self, i: Expr, j: Expr) -> Expr:
        return ix.add(ix.mul(i, self.width), j)

    def _known(self, i: Expr, j: Expr) -> Load:
        return Load(self.x, self._place(i, j), self.dtype)

    # -- steps -------------------------------------------------------------------------------------
    def _check(self) -> list[Stmt]:
        """Fail where the diagonal has a 0."""
        i, singular = self.out.var("i", self.n), Flag(self.out, "singular")
        zero = apply("eq", self._element(i, i), Const(0.0, self.dtype), dtype=bool_)
        return [singular.begin(), For(i, "serial", (singular.raised(zero),)), singular.fail()]

    def _moved(self, move: Callable[[Expr, Expr], Stmt]) -> list[Stmt]:
        """``move`` of every element of the strip that there is."""

        def loop(width: Expr | int) -> Stmt:
            i, j = self.out.var("i", self.n), self.out.var("j", width)
            return For(i, "serial", (For(j, "lanes", (move(i, j),)),))

        if self.columns % self.width == 0:
            return [loop(self.width)]
        fits = ix.lt(ix.add(self.first, self.width - 1), self.columns)
        return [If(fits, (loop(self.width),), (loop(ix.sub(self.columns, self.first)),))]

    def _single(self, triangle: Triangle) -> list[Stmt]:
        """One column: each row less the product with what is known."""
        n, lower = self.n, triangle.lower
        step, total = self.out.var("step", n), self.out.temporary("total")
        i = step if lower else ix.sub(n - 1, step)
        j = self.out.var("j", step)
        k = j if lower else ix.add(i, 1, j)
        term = apply("mul", self._element(i, k, triangle.turned), Load(self.x, k, self.dtype))
        left = apply("sub", Load(self.x, i, self.dtype), Read(total, self.dtype))
        value = left if triangle.unit else apply("div", left, self._element(i, i))
        body: tuple[Stmt, ...] = (
            Declare(total, self.dtype, Const(0.0, self.dtype)),
            For(j, "lanes", (Accumulate((total,), "add", (term,)),)),
            Store(self.x, i, value),
        )
        return [For(step, "serial", body)]

    def _wide(self, triangle: Triangle) -> list[Stmt]:
        """Tiles of rows, from the corner on; the last has what rows are left."""
        rows = tile_rows(self.out.unit)
        tiles, rest = divmod(self.n, rows)
        found: list[Stmt] = []
        if tiles:
            tile = self.out.var("tile", tiles)
            found.append(For(tile, "serial", tuple(self._rows(triangle, ix.mul(tile, rows), rows))))
        if rest:
            found += self._rows(triangle, ix.constant(tiles * rows), rest)
        return found

    def _rows(self, triangle: Triangle, done: Expr, rows: int) -> list[Stmt]:
        """The rows after ``done`` ones, in tiles as wide as registers allow."""
        width = min(self.width, tile_width(self.out.unit, self.dtype))
        across = self.out.var("across", self.width // width)
        tile = RowTile(self.out, self.dtype, rows, width)
        body = self._tile(triangle, done, tile, ix.mul(across, width))
        return [For(across, "serial", tuple(body))]

    def _tile(self, triangle: Triangle, done: Expr, tile: RowTile, column: Expr) -> list[Stmt]:
        lower, rows = triangle.lower, tile.rows
        first = done if lower else ix.sub(self.n - rows, done)
        known = ix.constant(0) if lower else ix.add(first, rows)

        def inside(r: Expr | int, q: Expr | int) -> Expr:
            return self._element(ix.add(first, r), ix.add(first, q), triangle.turned)

        return [
            *tile.begin(lambda i, j: self._known(ix.add(first, i), ix.add(column, j))),
            *tile.subtract(
                done,
                lambda i, k: inside(i, ix.sub(ix.add(known, k), first)),
                lambda k, j: self._known(ix.add(known, k), ix.add(column, j)),
            ),
            *tile.solve(
                lower, inside, None if triangle.unit else lambda r: inside(r, r),
            ),
            tile.put(
                lambda i, j, value: Store(
                    self.x, self._place(ix.add(first, i), ix.add(column, j)), value
                )
            ),
        ]  # fmt: skip
