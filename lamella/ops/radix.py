"""A stable radix sort of positions, as loops: for rows too long for a merge sort to be quick.

Input: the length and the keys as a function of position. Output: statements that store the sorted
positions. A key becomes an unsigned integer of the same order (nan the greatest, both zeros one
key); one pass counts all digits of 8 bits, then each digit moves keys and positions to their
places, least significant digit first (Knuth, The Art of Computer Programming 3, 5.2.5).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from lamella.dtypes import DType, bool_, int32, int64, uint8, uint16, uint32, uint64
from lamella.ir import index as ix
from lamella.ir.loops import (
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
    cast,
)
from lamella.ops.base import KernelWriter

__all__ = ["RadixSort", "ordered_bits"]

DIGITS = 256
UNSIGNED = {8: uint8, 16: uint16, 32: uint32, 64: uint64}


def ordered_bits(value: Expr, descending: bool) -> Expr:
    """An unsigned integer that is ordered as ``value``, or the other way round.

    >>> from lamella.dtypes import float32
    >>> ordered_bits(Const(1.0, float32), False).dtype
    lamella.uint32
    """
    dtype = value.dtype
    unsigned = UNSIGNED[dtype.bits]
    top = Const(1 << (dtype.bits - 1), unsigned)
    ones = Const((1 << dtype.bits) - 1, unsigned)
    if dtype.kind == "u":
        found = value
    elif dtype.kind == "i":
        found = apply("xor", apply("bitcast", value, dtype=unsigned), top)
    else:
        one_zero = apply("add", value, Const(0.0, dtype))
        bits = apply("bitcast", one_zero, dtype=unsigned)
        negative = apply("lt", one_zero, Const(0.0, dtype), dtype=bool_)
        flips = apply("select", negative, ones, top, dtype=unsigned)
        nan = apply("isnan", value, dtype=bool_)
        found = apply("select", nan, ones, apply("xor", bits, flips), dtype=unsigned)
    return apply("not", found) if descending else found


@dataclass(frozen=True, slots=True)
class RadixSort:
    """Writes the passes. ``key(i)``: the key at position i; ``store`` takes place and position."""

    length: int
    key: Callable[[Expr], Expr]
    store: Callable[[Expr, Expr], Stmt]
    out: KernelWriter

    @property
    def narrow(self) -> DType:
        """The dtype positions are kept in."""
        return int32 if self.length < 2**31 else int64

    def statements(self) -> list[Stmt]:
        """Count, then one pass a digit."""
        out = self.out
        dtype = self.key(ix.constant(0)).dtype
        passes = dtype.itemsize
        keys, others, here, there, counts = (
            out.temporary(n) for n in ("keys", "others", "here", "there", "counts")
        )
        found: list[Stmt] = [Alloc(n, dtype, self.length, "local") for n in (keys, others)]
        found += [Alloc(n, self.narrow, self.length, "local") for n in (here, there)]
        found.append(Alloc(counts, self.narrow, DIGITS * passes, "local"))
        found += self._count(keys, counts, dtype)
        for number in range(passes):
            first, last = number == 0, number == passes - 1
            positions = None if first else here
            found += self._move(number, keys, others, positions, None if last else there, counts)
            keys, others, here, there = others, keys, there, here
        return found

    def _digit(self, key: Expr, number: int) -> Expr:
        """Where the digit's count lies."""
        shifted = apply("shr", key, Const(8 * number, key.dtype)) if number else key
        digit = apply("and", shifted, Const(DIGITS - 1, key.dtype))
        return ix.add(cast(digit, int64), DIGITS * number)

    def _count(self, keys: str, counts: str, dtype: DType) -> list[Stmt]:
        """The keys and, for each digit, how many keys have a smaller one."""
        out, narrow = self.out, self.narrow
        size = DIGITS * dtype.itemsize
        clear, i = out.var("clear", size), out.var("i", self.length)
        value = out.temporary("key")
        body: list[Stmt] = [Declare(value, dtype, self.key(i)), Store(keys, i, Read(value, dtype))]
        for number in range(dtype.itemsize):
            at = self._digit(Read(value, dtype), number)
            more = apply("add", Load(counts, at, narrow), Const(1, narrow))
            body.append(Store(counts, at, more))
        found: list[Stmt] = [
            For(clear, "lanes", (Store(counts, clear, Const(0, narrow)),)),
            For(i, "serial", tuple(body)),
        ]
        for number in range(dtype.itemsize):
            found += self._sums(counts, DIGITS * number)
        return found

    def _sums(self, counts: str, first: int) -> list[Stmt]:
        out, narrow = self.out, self.narrow
        total, own = out.temporary("total"), out.temporary("own")
        digit = out.var("digit", DIGITS)
        at = ix.add(digit, first)
        body = (
            Declare(own, narrow, Load(counts, at, narrow)),
            Store(counts, at, Read(total, narrow)),
            Assign(total, apply("add", Read(total, narrow), Read(own, narrow))),
        )
        return [Declare(total, narrow, Const(0, narrow)), For(digit, "serial", body)]

    def _move(
        self, number: int, keys: str, others: str, here: str | None, there: str | None, counts: str
    ) -> list[Stmt]:
        """Keys and positions in order of one digit; the last pass stores the result."""
        out, narrow = self.out, self.narrow
        i = out.var("i", self.length)
        dtype = self.key(ix.constant(0)).dtype
        value, place = out.temporary("key"), out.temporary("place")
        at = self._digit(Read(value, dtype), number)
        position = i if here is None else Load(here, i, narrow)
        where = cast(Read(place, narrow), int64)
        body: list[Stmt] = [
            Declare(value, dtype, Load(keys, i, dtype)),
            Declare(place, narrow, Load(counts, at, narrow)),
            Store(counts, at, apply("add", Read(place, narrow), Const(1, narrow))),
        ]
        if there is None:
            body.append(self.store(where, cast(position, int64)))
        else:
            body.append(Store(others, where, Read(value, dtype)))
            body.append(Store(there, where, cast(position, narrow)))
        return [For(i, "serial", tuple(body))]
