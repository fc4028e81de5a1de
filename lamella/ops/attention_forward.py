"""The loops of attention for a block of queries.

Input: a place in the grid. Output: statements. The block is transposed, so that lanes run along
queries and the statistics of a row need no exchange between lanes; it walks over blocks of keys
with the online softmax (Milakov and Gimelshein, 2018).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from lamella.dtypes import bool_
from lamella.ir import index as ix
from lamella.ir.loops import Assign, Declare, Expr, For, Load, Read, Stmt, Store, apply, cast
from lamella.ir.node import Node
from lamella.ops.attention_setting import LOG2E, Setting, block_size, blocks, left
from lamella.ops.base import Element, Index, KernelWriter
from lamella.ops.register_tiles import Product, guard, rounded_up, row_step

__all__ = ["forward"]


def forward(
    before: int | None, after: int | None, node: Node, args: Sequence[Element], at: Index,
    out: KernelWriter,
) -> list[Stmt]:  # fmt: skip
    """Block ``at[1]`` of the queries of head ``at[0]``."""
    return _Forward(Setting(before, after, node, args, out), at).statements()


class _Forward:
    """One block of queries."""

    def __init__(self, setting: Setting, at: Index) -> None:
        s = self.s = setting
        self.lead = ix.split_linear(at[0], s.args[0].shape[:-2])
        self.first = ix.mul(at[1], block_size())
        self.rows = s.square_tile(s.rows)
        self.keys = s.tile(s.keys, row_step(s.out.unit))
        self.depth = s.width(0)
        self.width = rounded_up(s.width(2), s.lanes)
        self.allocs: list[Stmt] = []
        self.query = self._scratch("query", self.depth * self.rows)
        self.key = self._scratch("key", self.keys * self.depth)
        self.value = self._scratch("value", self.keys * self.width)
        self.score = self._scratch("score", self.keys * self.rows)
        self.mask = ""
        if s.mask is not None and 1 not in s.mask.shape[-2:]:
            self.mask = self._scratch("mask", self.rows * self.keys)
        self.total = self._scratch("total", self.rows * self.width)
        self.top, self.mass, self.factor = (
            self._scratch(name, self.rows) for name in ("top", "mass", "factor")
        )

    def _scratch(self, name: str, size: int) -> str:
        unique, alloc = self.s.scratch(name, max(size, 1))
        self.allocs.append(alloc)
        return unique

    def statements(self) -> list[Stmt]:
        """Everything."""
        s = self.s
        block = s.out.var("block", blocks(s.keys))
        first = ix.mul(block, block_size())
        step = guard(
            s.some(self.first, self.rows, first, self.keys),
            [
                s.pack(self.key, 1, self.lead, first, self.keys, self.depth),
                s.pack(self.value, 2, self.lead, first, self.keys, self.width),
                *self._scores(first),
                *self._mask(first),
                self._softmax(left(self.keys, s.keys, first)),
                *self._values(first, left(self.keys, s.keys, first)),
            ],
        )
        return [
            *self.allocs,
            s.pack_across(self.query, 0, self.lead, self.first, self.rows, LOG2E),
            s.fill(self.total, self.rows * self.width, 0.0),
            s.fill(self.top, self.rows, -math.inf),
            s.fill(self.mass, self.rows, 0.0),
            For(block, "serial", tuple(step)),
            *self._finish(),
        ]

    def _scores(self, first: Expr) -> list[Stmt]:
        """score[key, query] = k . q"""
        s = self.s
        step = row_step(s.out.unit)
        wide = 2 * s.lanes

        def wanted(i: Expr, j: Expr) -> Expr:
            return s.some(ix.add(self.first, j), wide, ix.add(first, i), step)

        return Product(
            self.keys, self.rows, self.depth,
            left=lambda i, k: s.at(self.key, ix.mul(i, self.depth), k),
            right=lambda k, j: s.at(self.query, ix.mul(k, self.rows), j),
            start=None,
            finish=lambda i, j, total: Store(self.score, ix.add(ix.mul(i, self.rows), j), total),
            dtype=s.dtype,
            wanted=wanted,
        ).loops(s.out)  # fmt: skip

    def _mask(self, first: Expr) -> list[Stmt]:
        s = self.s
        i, j = s.out.var("i", self.keys), s.out.var("j", self.rows)
        place = ix.add(ix.mul(i, self.rows), j)
        query, key = ix.add(self.first, j), ix.add(first, i)
        packed: list[Stmt] = []
        element: Expr | None = None
        if s.mask is not None and self.mask:
            packed.append(self._pack_mask(s.mask, first))
            element = s.at(self.mask, ix.mul(j, self.keys), i)
        elif s.mask is not None:
            element = s.mask_element(s.mask, self.lead, query, key)
        shown = s.shown(s.at(self.score, place), query, key, element)
        loop = For(i, "serial", (For(j, "lanes", (Store(self.score, place, shown),)),))
        return guard(s.hidden(self.first, self.rows, first, self.keys), [*packed, loop])

    def _pack_mask(self, mask: Element, first: Expr) -> Stmt:
        """A tile of a mask that differs from query to query, as it lies in memory: read across from
        there, its rows could fall on one another in the caches.
        """
        s = self.s
        i, j = s.out.var("i", self.rows), s.out.var("j", self.keys)
        value = s.mask_element(mask, self.lead, ix.add(self.first, i), ix.add(first, j))
        store = Store(self.mask, ix.add(ix.mul(i, self.keys), j), value)
        return For(i, "serial", (For(j, "lanes", (store,)),))

    def _softmax(self, keys: int | Expr) -> Stmt:
        """Scores become weights; row statistics and the factor of what was summed before."""
        s, out = self.s, self.s.out
        j, a, b = out.var("j", self.rows), out.var("a", keys), out.var("b", keys)
        top, safe, mass, factor, weight = (
            out.temporary(name) for name in ("top", "safe", "mass", "factor", "weight")
        )

        def read(name: str) -> Read:
            return Read(name, s.dtype)

        def score(i: Expr) -> Load:
            return s.at(self.score, ix.mul(i, self.rows), j)

        less = apply("lt", read(top), score(a), dtype=bool_)
        nothing = apply("eq", read(top), s.const(-math.inf), dtype=bool_)
        still = apply("select", nothing, s.const(0.0), read(top), dtype=s.dtype)
        raised = apply("exp2", apply("sub", s.at(self.top, j), read(safe)))
        power = apply("exp2", apply("sub", score(b), read(safe)))
        body: tuple[Stmt, ...] = (
            Declare(top, s.dtype, s.at(self.top, j)),
            For(a, "serial", (
                Assign(top, apply("select", less, score(a), read(top), dtype=s.dtype)),
            )),
            Declare(safe, s.dtype, still),
            Declare(factor, s.dtype, raised),
            Declare(mass, s.dtype, apply("mul", s.at(self.mass, j), read(factor))),
            For(b, "serial", (
                Declare(weight, s.dtype, power),
                Store(self.score, ix.add(ix.mul(b, self.rows), j), read(weight)),
                Assign(mass, apply("add", read(mass), read(weight))),
            )),
            Store(self.top, j, read(top)),
            Store(self.mass, j, read(mass)),
            Store(self.factor, j, read(factor)),
        )  # fmt: skip
        return For(j, "lanes", body)

    def _values(self, first: Expr, keys: int | Expr) -> list[Stmt]:
        """total[query, feature] = factor[query] * total + weights v"""
        s, step = self.s, row_step(self.s.out.unit)

        def place(i: Expr, j: Expr) -> Expr:
            return ix.add(ix.mul(i, self.width), j)

        return Product(
            self.rows, self.width, lambda i: s.seen(ix.add(self.first, i), step, first, keys),
            left=lambda i, k: s.at(self.score, ix.mul(k, self.rows), i),
            right=lambda k, j: s.at(self.value, ix.mul(k, self.width), j),
            start=lambda i, j: apply("mul", s.at(self.total, place(i, j)), s.at(self.factor, i)),
            finish=lambda i, j, total: Store(self.total, place(i, j), total),
            dtype=s.dtype,
            wanted=lambda i, j: ix.lt(ix.add(self.first, i), s.rows),
        ).loops(s.out)  # fmt: skip

    def _finish(self) -> list[Stmt]:
        s, out = self.s, self.s.out
        rows = left(self.rows, s.rows, self.first)
        i, j, row = out.var("i", rows), out.var("j", s.width(2)), out.var("row", rows)
        none = apply("eq", s.at(self.mass, i), s.const(0.0), dtype=bool_)
        inverse = apply(
            "select", none, s.const(0.0), apply("div", s.const(1.0), s.at(self.mass, i)),
            dtype=s.dtype,
        )  # fmt: skip
        value = apply("mul", s.at(self.total, ix.mul(i, self.width), j), inverse)
        stored = out.part(0, (*self.lead, ix.add(self.first, i), j), cast(value, s.args[0].dtype))
        power = apply("add", apply("log2", s.at(self.mass, row)), s.at(self.top, row))
        empty = apply("eq", s.at(self.mass, row), s.const(0.0), dtype=bool_)
        logarithm = apply(
            "select", empty, s.const(math.inf), apply("mul", power, s.const(1 / LOG2E)),
            dtype=s.dtype,
        )  # fmt: skip
        return [
            For(i, "serial", (For(j, "lanes", (stored,)),)),
            For(row, "lanes", (out.part(1, (*self.lead, ix.add(self.first, row)), logarithm),)),
        ]
