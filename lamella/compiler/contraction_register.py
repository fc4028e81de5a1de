"""The register tile: rows x columns of a product, summed over k without touching memory.

Input: the sizes, the name of the accumulators, and the two factors as functions of (row, k) and
(k, column) inside the tile. Output: statements. The accumulators are scratch of space "register";
lanes run along the columns, a factor's element on the row side is one scalar in all lanes. Every
contraction schedule (matrix products, convolutions) multiplies with these statements. The order of
each sum is that of k.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from lamella.dtypes import DType
from lamella.ir.dim import Size
from lamella.ir.index import add, floordiv, mul, parts
from lamella.ir.loops import Alloc, Apply, Const, Expr, For, Load, Stmt, Store, Var

__all__ = ["UNROLL", "RegisterTile", "fused", "zero"]

UNROLL = 4  # steps of k written out in one turn of the loop

Factor = Callable[[Expr, Expr], Expr]


def zero(dtype: DType) -> Const:
    """The sum of nothing."""
    return Const(0.0 if dtype.kind == "f" else 0, dtype)


def fused(a: Expr, b: Expr, c: Expr) -> Expr:
    """a · b + c, one instruction where the target has it, two where it has not."""
    return Apply("add", (Apply("mul", (a, b), a.dtype), c), a.dtype)


@dataclass(frozen=True, slots=True)
class RegisterTile:
    """``rows`` x ``columns`` accumulators of ``dtype`` named ``name``."""

    rows: int
    columns: int
    dtype: DType
    name: str = "acc"
    fused: Callable[[Expr, Expr, Expr], Expr] = fused

    def clear(self, start: Callable[[Expr], Expr] | None = None) -> list[Stmt]:
        """The accumulators at zero, or what ``start`` says of a row; they live to the end of the
        enclosing block.
        """
        i, j = Var("c0", self.rows), Var("d0", self.columns)
        first = zero(self.dtype) if start is None else start(i)
        store = Store(self.name, self._at(i, j), first)
        alloc = Alloc(self.name, self.dtype, self.rows * self.columns, "register")
        return [alloc, _nest(i, j, store)]

    def _at(self, i: Expr, j: Expr) -> Expr:
        return add(mul(i, self.columns), j)

    def value(self, i: Expr, j: Expr) -> Expr:
        """The accumulator at (i, j), i unrolled and j along lanes over all columns."""
        return Load(self.name, self._at(i, j), self.dtype)

    def multiply(
        self,
        count: Expr | Size,
        left: Factor,
        right: Factor,
        whole: bool = False,
        soon: Callable[[Expr], list[Stmt]] = lambda k: [],
        columns: int = 0,
    ) -> list[Stmt]:
        """Add left(i, k) · right(k, j) for k below ``count``; ``whole``: it is a multiple of
        ``UNROLL`` (or, being no constant, is rounded up to one). ``soon`` gives the hints of a turn
        that begins with step k. Only the first ``columns`` are multiplied, if given.
        """
        tag = "n" if columns else ""
        const, terms = parts(count)
        if not terms and isinstance(const, int):
            turns: Expr | Size = -(-const // UNROLL) if whole else const // UNROLL
            rest: Expr | Size = 0 if whole else const % UNROLL
        else:
            turns = floordiv(add(count, UNROLL - 1) if whole else count, UNROLL)
            rest = 0 if whole else add(count, mul(turns, -UNROLL))
        body: list[Stmt] = []
        if turns != 0:
            k, u = Var("mk" + tag, turns), Var("mu" + tag, UNROLL)
            step = self._step(add(mul(k, UNROLL), u), left, right, tag, columns)
            hints = soon(mul(k, UNROLL))
            body.append(For(k, "serial", (*hints, For(u, "unroll", (step,)))))
        if rest != 0:
            k = Var("mr" + tag, rest)
            step = self._step(add(mul(turns, UNROLL), k), left, right, "r" + tag, columns)
            body.append(For(k, "serial", (step,)))
        return body

    def _step(self, k: Expr, left: Factor, right: Factor, suffix: str, columns: int) -> Stmt:
        i, j = Var(f"c1{suffix}", self.rows), Var(f"d1{suffix}", columns or self.columns)
        at = self._at(i, j)
        total = self.fused(left(i, k), right(k, j), Load(self.name, at, self.dtype))
        return _nest(i, j, Store(self.name, at, total))


def _nest(i: Var, j: Var, statement: Stmt) -> Stmt:
    return For(i, "unroll", (For(j, "lanes", (statement,)),))
