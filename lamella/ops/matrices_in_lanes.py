"""Elimination and Cholesky's method for many small matrices: sixteen in a task, one in each lane.

Input: matrices ``(*lead, m, n)`` in memory, of float32 or float64. Output: statements. In local
memory the sixteen lie element beside element, so all arithmetic runs along the lanes, and rows
change places by each lane's own index. The last task takes the last matrix several times. The
order of sums depends on the sizes alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from lamella.dtypes import DType, bool_, int64
from lamella.ir import index as ix
from lamella.ir.dim import Size, ceildiv, product
from lamella.ir.loops import (
    Accumulate,
    Alloc,
    Assign,
    Const,
    Declare,
    Expr,
    For,
    Load,
    Read,
    Stmt,
    Store,
    apply,
)
from lamella.ir.node import Node
from lamella.ops.base import Element, Index, KernelWriter
from lamella.ops.matrix_kernel import Flag, fixed, swap, turned

__all__ = ["in_lanes", "lanes_cholesky", "lanes_elimination", "matrix_tasks"]

LANES: Final = 16  # matrices in a task
LARGE: Final = 4096  # elements of a matrix, from which it has a task of its own


def in_lanes(a: Node) -> bool:
    """Whether matrices are small and many enough for it."""
    batch = product(a.shape[:-2])
    small = fixed(a.shape[-2]) * fixed(a.shape[-1]) < LARGE
    return small and fixed(batch) >= 2 * LANES


def matrix_tasks(a: Node) -> Size:
    """Matrices, or groups of small ones."""
    count = product(a.shape[:-2])
    return ceildiv(count, LANES) if in_lanes(a) else count


class _Lanes:
    """Sixteen matrices beside each other in local memory."""

    def __init__(self, a: Node, element: Element, at: Index, out: KernelWriter) -> None:
        self.out, self.dtype, self.element = out, a.dtype, element
        self.m, self.n, self.lead = fixed(a.shape[-2]), fixed(a.shape[-1]), a.shape[:-2]
        self.first = ix.mul(at[0], LANES)
        self.work, self.total = out.temporary("work"), out.temporary("total")
        self.lane = out.var("lane", LANES)
        self.flag = Flag(out, "failed")

    # -- elements ----------------------------------------------------------------------------------
    def matrix(self, lane: Expr) -> Index:
        """The leading indices of a lane's matrix."""
        last = fixed(product(self.lead)) - 1
        return ix.split_linear(ix.minimum(ix.add(self.first, lane), last), self.lead)

    def at(self, i: Expr | int, j: Expr | int) -> Load:
        """An element of each matrix."""
        return Load(self.work, self.place(ix.add(ix.mul(i, self.n), j)), self.dtype)

    def put(self, i: Expr | int, j: Expr | int, value: Expr) -> Store:
        """Set an element of each matrix."""
        return Store(self.work, self.place(ix.add(ix.mul(i, self.n), j)), value)

    def place(self, element: Expr) -> Expr:
        """Where each lane has an element."""
        return ix.add(ix.mul(element, LANES), self.lane)

    # -- steps -------------------------------------------------------------------------------------
    def load(self) -> list[Stmt]:
        """The matrices, in squares turned in registers."""

        def move(lane: Expr, element: Expr) -> Stmt:
            index = (*self.matrix(lane), *ix.split_linear(element, (self.m, self.n)))
            return Store(self.work, ix.add(ix.mul(element, LANES), lane), self.element(index))

        alloc = Alloc(self.work, self.dtype, self.m * self.n * LANES, "local")
        return [alloc, *turned(self.out, self.dtype, LANES, self.m * self.n, move)]

    def unload(self, number: int, name: str, dtype: DType, shape: tuple[int, ...]) -> list[Stmt]:
        """Result ``number`` of each matrix from local memory ``name``."""

        def move(element: Expr, lane: Expr) -> Stmt:
            value = Load(name, ix.add(ix.mul(element, LANES), lane), dtype)
            index = (*self.matrix(lane), *ix.split_linear(element, shape))
            return self.out.part(number, index, value)

        return turned(self.out, dtype, fixed(product(shape)), LANES, move)

    def all(self, body: Sequence[Stmt], columns: Callable[[Expr], Expr | int]) -> Stmt:
        """``body`` in all lanes; ``total`` is NaN where an element of the first ``columns(i)`` in a
        row i is not finite, else 0.
        """
        i = self.out.var("i", self.m)
        j = self.out.var("j", columns(i))
        nothing = apply("mul", self.at(i, j), Const(0.0, self.dtype))
        add = Assign(self.total, apply("add", Read(self.total, self.dtype), nothing))
        begin = Declare(self.total, self.dtype, Const(0.0, self.dtype))
        summed = For(i, "serial", (For(j, "serial", (add,)),))
        return For(self.lane, "lanes", (begin, summed, *body))

    @property
    def finite(self) -> Expr:
        """Whether the matrix of a lane is."""
        return apply("not", apply("isnan", Read(self.total, self.dtype), dtype=bool_))

    def failed(self, condition: Expr) -> Stmt:
        """A lane's matrix has no result."""
        either = apply("and", condition, self.finite)
        return Accumulate((self.flag.value.name,), "or", (either,))

    def spoiled(self) -> Stmt:
        """NaN in the place of results of a matrix that is not finite."""
        e = self.out.var("e", self.m * self.n)
        own = Load(self.work, self.place(e), self.dtype)
        nan = Const(float("nan"), self.dtype)
        value = apply("select", self.finite, own, nan, dtype=self.dtype)
        return For(e, "serial", (Store(self.work, self.place(e), value),))


def lanes_cholesky(a: Node, element: Element, at: Index, out: KernelWriter) -> list[Stmt]:
    """The lower factors of a task's matrices."""
    s = _Lanes(a, element, at, out)
    n, root = s.n, out.temporary("root")
    k, i = out.var("k", n), out.var("i", n)
    below = out.var("below", ix.sub(n - 1, k))
    row = ix.add(k, 1, below)
    beside = out.var("beside", ix.add(below, 1))
    other = ix.add(k, 1, beside)
    zero = Const(0.0, s.dtype)
    positive = apply("lt", zero, s.at(k, k), dtype=bool_)
    less = apply("sub", s.at(row, other), apply("mul", s.at(row, k), s.at(other, k)))
    step: tuple[Stmt, ...] = (
        s.failed(apply("not", positive)),
        Declare(root, s.dtype, apply("sqrt", s.at(k, k))),
        s.put(k, k, Read(root, s.dtype)),
        For(below, "serial", (
            s.put(row, k, apply("div", s.at(row, k), Read(root, s.dtype))),
            For(beside, "serial", (s.put(row, other, less),)),
        )),
    )  # fmt: skip
    above = out.var("above", ix.sub(n - 1, i))
    clear = For(i, "serial", (For(above, "serial", (s.put(i, ix.add(i, 1, above), zero),)),))
    body = (For(k, "serial", step), clear, s.spoiled())
    return [
        s.flag.begin(),
        *s.load(),
        s.all(body, lambda i: ix.add(i, 1)),
        s.flag.fail(),
        *s.unload(0, s.work, s.dtype, (n, n)),
    ]


class _Elimination:
    """Writes elimination in lanes."""

    def __init__(self, s: _Lanes) -> None:
        self.s, self.out = s, s.out
        self.steps = min(s.m, s.n)
        self.places, self.order = s.out.temporary("places"), s.out.temporary("order")

    def number(self, name: str, i: Expr) -> Load:
        """An element of the lists of rows."""
        return Load(name, self.s.place(i), int64)

    def statements(self, fails: bool) -> list[Stmt]:
        """All of it."""
        s, m, steps = self.s, self.s.m, self.steps
        k = self.out.var("k", steps)
        body = (*self._in_order(), For(k, "serial", tuple(self._step(k, fails))), s.spoiled())
        return [
            *([s.flag.begin()] if fails else []),
            *s.load(),
            Alloc(self.order, int64, m * LANES, "local"),
            Alloc(self.places, int64, steps * LANES, "local"),
            s.all(body, lambda i: s.n),
            *([s.flag.fail()] if fails else []),
            *s.unload(0, s.work, s.dtype, (m, s.n)),
            *s.unload(1, self.places, int64, (steps,)),
            *s.unload(2, self.order, int64, (m,)),
        ]

    def _in_order(self) -> list[Stmt]:
        i = self.out.var("i", self.s.m)
        return [For(i, "serial", (Store(self.order, self.s.place(i), i),))]

    def _step(self, k: Expr, fails: bool) -> list[Stmt]:
        """Find the pivots, exchange rows, take the row off those below."""
        s, out, dtype = self.s, self.out, self.s.dtype
        pivot, factor = out.temporary("pivot"), out.temporary("factor")
        below, beside = out.var("below", ix.sub(s.m - 1, k)), out.var("beside", ix.sub(s.n - 1, k))
        row, column = ix.add(k, 1, below), ix.add(k, 1, beside)
        zero = apply("eq", Read(pivot, dtype), Const(0.0, dtype), dtype=bool_)
        quotient = apply("div", s.at(row, k), Read(pivot, dtype))
        scaled = apply("select", zero, s.at(row, k), quotient, dtype=dtype)
        product = apply("mul", Read(factor, dtype), s.at(k, column))
        less = s.put(row, column, apply("sub", s.at(row, column), product))
        search, found = self._pivot(k)
        return [
            *search,
            *self._exchange(k, found),
            Declare(pivot, dtype, s.at(k, k)),
            *([s.failed(zero)] if fails else []),
            For(below, "serial", (
                Declare(factor, dtype, scaled),
                s.put(row, k, Read(factor, dtype)),
                For(beside, "serial", (less,)),
            )),
        ]  # fmt: skip

    def _pivot(self, k: Expr) -> tuple[list[Stmt], Expr]:
        """The first row with the largest element, from row k on."""
        s, out, dtype = self.s, self.out, self.s.dtype
        best, place = out.temporary("best"), out.temporary("place")
        below = out.var("below", ix.sub(s.m - 1, k))
        row = ix.add(k, 1, below)
        size = apply("abs", s.at(row, k))
        better = apply("lt", Read(best, dtype), size, dtype=bool_)
        found = Read(place, int64)
        search: tuple[Stmt, ...] = (
            Assign(place, apply("select", better, row, found, dtype=int64)),
            Assign(best, apply("select", better, size, Read(best, dtype), dtype=dtype)),
        )
        begin = [Declare(best, dtype, apply("abs", s.at(k, k))), Declare(place, int64, k)]
        kept = apply("select", s.finite, found, k, dtype=int64)
        end = (Assign(place, kept), Store(self.places, s.place(k), found))
        return [*begin, For(below, "serial", search), *end], found

    def _exchange(self, k: Expr, found: Expr) -> list[Stmt]:
        """Rows change places, each lane's own, and their numbers."""
        s, out = self.s, self.out
        j = out.var("j", s.n)
        rows = swap(out, lambda i: s.at(i, j), lambda i, x: s.put(i, j, x), k, found)
        numbers = swap(
            out, lambda i: self.number(self.order, i),
            lambda i, x: Store(self.order, s.place(i), x), k, found,
        )  # fmt: skip
        return [For(j, "serial", rows), *numbers]


def lanes_elimination(
    a: Node, element: Element, at: Index, out: KernelWriter, fails: bool
) -> list[Stmt]:
    """The packed factors, exchanges and orders of a task's matrices."""
    return _Elimination(_Lanes(a, element, at, out)).statements(fails)
