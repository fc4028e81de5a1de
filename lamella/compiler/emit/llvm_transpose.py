"""Square blocks that are stored across their lanes: transposed in registers instead of scattered.

Input: an unrolled loop around a lanes loop of the same extent (a power of two) whose only statement
stores along the unrolled axis. Output: one vector a row, log2(rows) rounds of interleaving, and one
vector store a column.
"""

from __future__ import annotations

from collections.abc import Sequence

from lamella.compiler.emit.llvm_builder import Builder, Value
from lamella.ir.index import coefficient
from lamella.ir.loops import For, Load, Store
from lamella.ir.walk import expressions

__all__ = ["square", "transposed"]

MOST = 16  # rows: half the registers of the widest targets


def square(loop: For, vector_bytes: int) -> tuple[For, Store] | None:
    """The lanes loop and the store of a block that this module writes, else None."""
    inner = loop.body[0]
    if len(loop.body) != 1 or not isinstance(inner, For) or inner.kind != "lanes":
        return None
    store, rows = inner.body[0], loop.var.extent
    if len(inner.body) != 1 or not isinstance(store, Store) or store.mask is not None:
        return None
    if not isinstance(rows, int) or inner.var.extent != rows or rows & (rows - 1) or rows < 4:
        return None
    if rows > MOST or rows * store.value.dtype.itemsize > vector_bytes:
        return None
    along = coefficient(store.index, loop.var), coefficient(store.index, inner.var)
    if along[0] != 1 or along[1] in (0, 1):
        return None
    reads = (e.buffer for e in expressions([store.value]) if isinstance(e, Load))
    return None if store.buffer in reads else (inner, store)


def transposed(b: Builder, rows: Sequence[Value]) -> list[Value]:
    """The columns of a square of vectors: each round interleaves a vector with the one half the
    square behind it.
    """
    size, found = len(rows), list(rows)
    first = [k // 2 + size * (k % 2) for k in range(size)]
    halves = (first, [k + size // 2 for k in first])
    for _ in range(size.bit_length() - 1):
        pairs = zip(found[: size // 2], found[size // 2 :], strict=True)
        found = [b.shuffle(order, low, high) for low, high in pairs for order in halves]
    return found
