"""The loops of attention's derivative for a chunk of keys.

Input: a place in the grid. Output: statements. Block by block of the keys, all queries pass by, in
order, with lanes along keys; the weights are made again from the rows' logarithms.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from lamella.ir import index as ix
from lamella.ir.dim import ceildiv, product
from lamella.ir.loops import Expr, For, Stmt, Store, apply, cast
from lamella.ir.node import Node
from lamella.ops.attention_setting import LOG2E, Setting, block_size, blocks, left
from lamella.ops.base import Element, Index, KernelWriter
from lamella.ops.register_tiles import Product, guard, rounded_up, row_step

__all__ = ["backward"]


def backward(
    before: int | None, after: int | None, chunks: int, node: Node, args: Sequence[Element],
    at: Index, out: KernelWriter,
) -> list[Stmt]:  # fmt: skip
    """Chunk ``at[1]`` of the keys of head ``at[0]``, with all queries that share the head."""
    return _Backward(Setting(before, after, node, args, out, True), chunks, at).statements()


class _Backward:
    """One chunk of keys."""

    def __init__(self, setting: Setting, chunks: int, at: Index) -> None:
        s = self.s = setting
        self.at, self.chunks = at, chunks
        self.head = ix.split_linear(at[0], s.args[1].shape[:-2])
        self.rows = s.tile(s.rows, row_step(s.out.unit))
        self.keys = s.square_tile(s.keys)
        self.depth, self.breadth = s.width(0), s.width(2)
        self.wide_q, self.wide_v = (rounded_up(n, s.lanes) for n in (self.depth, self.breadth))
        self.allocs: list[Stmt] = []
        self.key_t = self._scratch("key_t", self.depth * self.keys)
        self.value_t = self._scratch("value_t", self.breadth * self.keys)
        self.key = self._scratch("key", self.keys * self.wide_q)
        self.query = self._scratch("query", self.rows * self.wide_q)
        self.d_out = self._scratch("d_out", self.rows * self.wide_v)
        self.weight = self._scratch("weight", self.rows * self.keys)
        self.change = self._scratch("change", self.rows * self.keys)
        self.d_key = self._scratch("d_key", self.keys * self.wide_q)
        self.d_value = self._scratch("d_value", self.keys * self.wide_v)
        self.logarithm, self.mean = (self._scratch(n, self.rows) for n in ("logarithm", "mean"))

    def _scratch(self, name: str, size: int) -> str:
        unique, alloc = self.s.scratch(name, max(size, 1))
        self.allocs.append(alloc)
        return unique

    def statements(self) -> list[Stmt]:
        """Everything."""
        s, out = self.s, self.s.out
        count = ceildiv(blocks(s.keys), self.chunks)
        block = out.var("block", count)
        number = ix.add(block, ix.mul(self.at[1], count))
        first = ix.mul(number, block_size())
        body = [
            s.pack_across(self.key_t, 1, self.head, first, self.keys, 1.0),
            s.pack_across(self.value_t, 2, self.head, first, self.keys, 1.0),
            s.pack(self.key, 1, self.head, first, self.keys, self.wide_q),
            s.fill(self.d_key, self.keys * self.wide_q, 0.0),
            s.fill(self.d_value, self.keys * self.wide_v, 0.0),
            *self._each_head(lambda lead: self._queries(lead, first)),
            self._store(1, self.d_key, first, self.depth, self.wide_q),
            self._store(2, self.d_value, first, self.breadth, self.wide_v),
        ]
        there = guard(ix.lt(number, blocks(s.keys)), body)
        return [
            *self.allocs,
            *self._each_head(self._clear),
            For(block, "serial", tuple(there)),
        ]

    def _each_head(self, body: Callable[[Index], list[Stmt]]) -> list[Stmt]:
        """``body`` for each head of queries that shares this head of keys."""
        s, out = self.s, self.s.out
        lead, heads = s.args[0].shape[:-2], s.args[1].shape[:-2]
        several = tuple(a if b == 1 else 1 for a, b in zip(lead, heads, strict=True))
        count = product(several)
        if count == 1:
            return body(self.head)
        var = out.var("head", count)
        own = ix.split_linear(var, several)
        index = tuple(o if b == 1 else h for o, h, b in zip(own, self.head, heads, strict=True))
        return [For(var, "serial", tuple(body(index)))]

    def _clear(self, lead: Index) -> list[Stmt]:
        s, out = self.s, self.s.out
        i, j = out.var("i", s.rows), out.var("j", self.depth)
        store = out.part(0, (*lead, self.at[1], i, j), s.const(0.0))
        return [For(i, "serial", (For(j, "lanes", (store,)),))]

    def _store(self, number: int, tile: str, first: Expr, width: int, stride: int) -> Stmt:
        """Rows of a finished tile to a result."""
        s, out = self.s, self.s.out
        i, j = out.var("i", left(self.keys, s.keys, first)), out.var("j", width)
        value = cast(s.at(tile, ix.mul(i, stride), j), s.args[0].dtype)
        store = out.part(number, (*self.head, ix.add(first, i), j), value)
        return For(i, "serial", (For(j, "lanes", (store,)),))

    def _queries(self, lead: Index, first: Expr) -> list[Stmt]:
        """All queries of a head against one block of keys."""
        s = self.s
        block = s.out.var("queries", blocks(s.rows))
        row = ix.mul(block, block_size())
        operand = len(s.args) - 1
        body = [
            s.pack(self.query, 0, lead, row, self.rows, self.wide_q),
            s.pack(self.d_out, operand, lead, row, self.rows, self.wide_v),
            self._statistics(lead, row),
            *self._scores(row, first),
            *self._mask(lead, row, first),
            *self._weights(row, first),
            *self._add(self.d_value, self.weight, self.d_out, self.wide_v, row, first),
            *self._add(self.d_key, self.change, self.query, self.wide_q, row, first),
            *self._add_query(lead, row, first),
        ]
        return [For(block, "serial", tuple(guard(s.some(row, self.rows, first, self.keys), body)))]

    def _statistics(self, lead: Index, row: Expr) -> Stmt:
        """Logarithms, in units of log 2, and means; beyond the edge what makes weights of zero."""
        s = self.s
        i = s.out.var("i", self.rows)
        at = (*lead, ix.add(row, i))
        inside = ix.lt(at[-1], s.rows)
        logarithm, mean = s.args[-3], s.args[-2]
        scaled = apply("mul", logarithm.guarded(inside, at, s.const(math.inf)), s.const(LOG2E))
        return For(i, "lanes", (
            Store(self.logarithm, i, scaled),
            Store(self.mean, i, mean.guarded(inside, at, s.const(0.0))),
        ))  # fmt: skip

    def _scores(self, row: Expr, first: Expr) -> list[Stmt]:
        """weight[query, key] = q . k in units of log 2"""
        s = self.s
        return Product(
            self.rows, self.keys, self.depth,
            left=lambda i, k: s.at(self.query, ix.mul(i, self.wide_q), k),
            right=lambda k, j: s.at(self.key_t, ix.mul(k, self.keys), j),
            start=None,
            finish=lambda i, j, total: Store(
                self.weight, ix.add(ix.mul(i, self.keys), j),
                apply("mul", total, s.const(LOG2E)),
            ),
            dtype=s.dtype,
            wanted=self._wanted(row, first),
        ).loops(s.out)  # fmt: skip

    def _wanted(self, row: Expr, first: Expr) -> Callable[[Expr, Expr], Expr]:
        s = self.s
        step = row_step(s.out.unit)
        return lambda i, j: s.some(ix.add(row, i), step, ix.add(first, j), 2 * s.lanes)

    def _mask(self, lead: Index, row: Expr, first: Expr) -> list[Stmt]:
        s = self.s
        i, j = s.out.var("i", self.rows), s.out.var("j", self.keys)
        place = ix.add(ix.mul(i, self.keys), j)
        query, key = ix.add(row, i), ix.add(first, j)
        element = None if s.mask is None else s.mask_element(s.mask, lead, query, key)
        shown = s.shown(s.at(self.weight, place), query, key, element)
        loop = For(i, "serial", (For(j, "lanes", (Store(self.weight, place, shown),)),))
        return guard(s.hidden(row, self.rows, first, self.keys), [loop])

    def _weights(self, row: Expr, first: Expr) -> list[Stmt]:
        """Scores become weights; change = weight * (dout . v - mean)"""
        s, out = self.s, self.s.out
        i, j = out.var("i", left(self.rows, s.rows, row)), out.var("j", self.keys)
        place = ix.add(ix.mul(i, self.keys), j)
        power = apply("exp2", apply("sub", s.at(self.weight, place), s.at(self.logarithm, i)))
        exponentials = For(i, "serial", (For(j, "lanes", (Store(self.weight, place, power),)),))
        gap = Product(
            self.rows, self.keys, self.breadth,
            left=lambda i, k: s.at(self.d_out, ix.mul(i, self.wide_v), k),
            right=lambda k, j: s.at(self.value_t, ix.mul(k, self.keys), j),
            start=lambda i, j: apply("neg", s.at(self.mean, i)),
            finish=lambda i, j, total: Store(
                self.change, ix.add(ix.mul(i, self.keys), j),
                apply("mul", total, s.at(self.weight, ix.add(ix.mul(i, self.keys), j))),
            ),
            dtype=s.dtype,
            wanted=lambda i, j: s.inside(ix.add(row, i), ix.add(first, j)),
        )  # fmt: skip
        return [exponentials, *gap.loops(out)]

    def _add(
        self, result: str, factor: str, right: str, width: int, row: Expr, first: Expr
    ) -> list[Stmt]:
        """result[key, feature] += sum over queries of factor[query, key] * right[query, feature]"""
        s = self.s

        def place(i: Expr, j: Expr) -> Expr:
            return ix.add(ix.mul(i, width), j)

        return Product(
            self.keys, width, left(self.rows, s.rows, row),
            left=lambda i, k: s.at(factor, ix.mul(k, self.keys), i),
            right=lambda k, j: s.at(right, ix.mul(k, width), j),
            start=lambda i, j: s.at(result, place(i, j)),
            finish=lambda i, j, total: Store(result, place(i, j), total),
            dtype=s.dtype,
            wanted=lambda i, j: ix.lt(ix.add(first, i), s.keys),
        ).loops(s.out)  # fmt: skip

    def _add_query(self, lead: Index, row: Expr, first: Expr) -> list[Stmt]:
        """The part of the queries' cotangent += change k; ``query`` is used again for the sums."""
        s, out = self.s, self.s.out
        step, keys = row_step(out.unit), left(self.keys, s.keys, first)
        product = Product(
            self.rows, self.wide_q, lambda i: s.seen(ix.add(row, i), step, first, keys),
            left=lambda i, k: s.at(self.change, ix.mul(i, self.keys), k),
            right=lambda k, j: s.at(self.key, ix.mul(k, self.wide_q), j),
            start=None,
            finish=lambda i, j, total: Store(
                self.query, ix.add(ix.mul(i, self.wide_q), j), total
            ),
            dtype=s.dtype,
            wanted=lambda i, j: ix.lt(ix.add(row, i), s.rows),
        )  # fmt: skip
        i, j = out.var("i", left(self.rows, s.rows, row)), out.var("j", self.depth)
        place = (*lead, self.at[1], ix.add(row, i), j)
        value = apply("add", out.load_part(0, place), s.at(self.query, ix.mul(i, self.wide_q), j))
        added = For(i, "serial", (For(j, "lanes", (out.part(0, place, value),)),))
        return [*product.loops(out), added]
