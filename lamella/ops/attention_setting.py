"""What the loops of attention are written with: sizes, operands, tiles in scratch memory, bands.

Input: the operands of a call as functions of indices. Output: expressions and short statements.
Scores are in units of log 2. Blocks that a band hides are left out, in register tiles too.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final

from lamella.dtypes import DType, bool_
from lamella.errors import ShapeError
from lamella.ir import index as ix
from lamella.ir.dim import Dim, Shape, Size, ceildiv
from lamella.ir.loops import (
    Alloc,
    Apply,
    Const,
    Expr,
    For,
    Load,
    Stmt,
    Store,
    apply,
    cast,
)
from lamella.ir.node import Node
from lamella.ops.base import Element, Index, KernelWriter
from lamella.ops.families import accumulator
from lamella.ops.register_tiles import rounded_up, row_step

__all__ = ["LOG2E", "Setting", "block_size", "blocks", "forced", "left", "shared"]

LOG2E = math.log2(math.e)


_block: Final[ContextVar[int]] = ContextVar("block", default=64)


def block_size() -> int:
    """Queries, and keys, in a tile.

    >>> block_size()
    64
    """
    return _block.get()


@contextmanager
def forced(size: int) -> Iterator[None]:
    """Attention compiled inside has tiles of ``size`` queries and keys, a multiple of two vectors
    (programs known already keep theirs).
    """
    token = _block.set(size)
    try:
        yield
    finally:
        _block.reset(token)


def blocks(length: Size) -> Size:
    """Tiles along an axis.

    >>> blocks(65)
    2
    """
    return ceildiv(length, block_size())


@dataclass(frozen=True, slots=True)
class Setting:
    """Sizes and operands, and the words all kernels are written with."""

    before: int | None
    after: int | None
    node: Node
    args: Sequence[Element]
    out: KernelWriter
    backward: bool = False

    # -- sizes -------------------------------------------------------------------------------------
    @property
    def dtype(self) -> DType:
        """The dtype of sums."""
        return accumulator(self.args[0].dtype)

    @property
    def lanes(self) -> int:
        """Elements of a vector."""
        return self.out.unit.lanes(self.dtype)

    @property
    def rows(self) -> Size:
        """Queries."""
        return self.args[0].shape[-2]

    @property
    def keys(self) -> Size:
        """Keys."""
        return self.args[1].shape[-2]

    @property
    def mask(self) -> Element | None:
        """The mask."""
        return self.args[3] if len(self.args) == (7 if self.backward else 4) else None

    def width(self, operand: int) -> int:
        """The last axis of an operand."""
        size = self.args[operand].shape[-1]
        if isinstance(size, Dim):
            raise ShapeError(
                f"[attention] features of size {size}, known only when the program runs; leave "
                "that axis out of dynamic=..."
            )
        return size

    def tile(self, length: Size, step: int) -> int:
        """Elements of a tile along an axis: fewer than a block where the axis is short."""
        if not isinstance(length, int):
            return block_size()
        return min(block_size(), rounded_up(length, step))

    def square_tile(self, length: Size) -> int:
        """Elements of a tile along an axis that products have as rows and as columns."""
        return self.tile(length, max(2 * self.lanes, row_step(self.out.unit)))

    # -- scratch memory ----------------------------------------------------------------------------
    def scratch(self, name: str, size: int) -> tuple[str, Stmt]:
        """A new tile of ``size`` elements."""
        unique = self.out.temporary(name)
        return unique, Alloc(unique, self.dtype, size, "local")

    def at(self, tile: str, *place: Expr) -> Load:
        """An element of a tile."""
        return Load(tile, ix.add(*place), self.dtype)

    def const(self, value: float) -> Const:
        """A number."""
        return Const(value, self.dtype)

    def fill(self, tile: str, size: int, value: float) -> Stmt:
        """Every element of a tile."""
        i = self.out.var("i", size)
        return For(i, "lanes", (Store(tile, i, self.const(value)),))

    def pack(
        self, tile: str, operand: int, lead: Index, first: Expr, count: int, stride: int
    ) -> Stmt:
        """``count`` rows of an operand from row ``first``, zeros beyond its edges."""
        i, j = self.out.var("i", count), self.out.var("j", stride)
        value = self.row_element(operand, lead, ix.add(first, i), j)
        return For(
            i, "serial", (For(j, "lanes", (Store(tile, ix.add(ix.mul(i, stride), j), value),)),)
        )

    def pack_across(
        self, tile: str, operand: int, lead: Index, first: Expr, count: int, scale: float
    ) -> Stmt:
        """The same with rows along lanes, times ``scale``."""
        i, j = self.out.var("i", self.width(operand)), self.out.var("j", count)
        value = self.row_element(operand, lead, ix.add(first, j), i)
        if scale != 1:
            value = apply("mul", value, self.const(scale))
        return For(
            i, "serial", (For(j, "lanes", (Store(tile, ix.add(ix.mul(i, count), j), value),)),)
        )

    def row_element(self, operand: int, lead: Index, row: Expr, column: Expr) -> Expr:
        """An element of an operand, zero outside."""
        source = self.args[operand]
        inside = ix.both(ix.lt(row, source.shape[-2]), ix.lt(column, source.shape[-1]))
        at = (*shared(lead, source.shape), row, column)
        return cast(source.guarded(inside, at, Const(0.0, source.dtype)), self.dtype)

    # -- what is visible ---------------------------------------------------------------------------
    def some(self, row: Expr, rows: int, key: Expr, keys: int) -> Expr:
        """Whether some of these keys is there and visible to some of these queries."""
        found = self.inside(row, key)
        if self.after is not None:
            found = ix.both(found, ix.lt(key, ix.add(row, rows + self.after)))
        if self.before is not None:
            found = ix.both(found, ix.lt(row, ix.add(key, keys + self.before)))
        return found

    def inside(self, row: Expr, key: Expr) -> Expr:
        """Whether there is such a query, and such a key."""
        return ix.both(ix.lt(row, self.rows), ix.lt(key, self.keys))

    def seen(self, row: Expr, rows: int, key: Expr, keys: int | Expr) -> int | Expr:
        """Of ``keys`` keys from ``key``, up to the last that some of these queries see."""
        if self.after is None:
            return keys
        return extent(ix.minimum(keys, ix.sub(ix.add(row, rows + self.after), key)))

    def hidden(self, row: Expr, rows: int, key: Expr, keys: int) -> Expr:
        """Whether some of these keys may be hidden from some of these queries."""
        found = [ix.lt(self.keys, ix.add(key, keys))]
        if self.after is not None:
            found.append(ix.lt(ix.add(row, self.after), ix.add(key, keys - 1)))
        if self.before is not None:
            found.append(ix.lt(ix.add(key, self.before), ix.add(row, rows - 1)))
        if self.mask is not None or ix.TRUE in found:
            return ix.TRUE
        wanted = [e for e in found if e != ix.FALSE]
        total = wanted[0] if wanted else ix.FALSE
        for e in wanted[1:]:
            total = Apply("or", (total, e), bool_)
        return total

    def mask_element(self, mask: Element, lead: Index, row: Expr, key: Expr) -> Expr:
        """An element of the mask as a number: 0 or 1 of a bool, and 0 outside."""
        inside = self.inside(row, key)
        at = shared((*lead, row, key), (*mask.shape, 0, 0))
        nothing = Const(False if mask.dtype is bool_ else 0.0, mask.dtype)
        return cast(mask.guarded(inside, at, nothing), self.dtype)

    def shown(self, score: Expr, row: Expr, key: Expr, element: Expr | None) -> Expr:
        """A score with its element of the mask: -inf where hidden."""
        visible = ix.lt(key, self.keys)
        if self.after is not None:
            visible = ix.both(visible, ix.lt(key, ix.add(row, self.after + 1)))
        if self.before is not None:
            visible = ix.both(visible, ix.lt(row, ix.add(key, self.before + 1)))
        if element is not None and self.mask is not None and self.mask.dtype is bool_:
            visible = ix.both(visible, apply("ne", element, self.const(0.0), dtype=bool_))
        elif element is not None:
            score = apply("fma", element, self.const(LOG2E), score)
        return (
            score
            if visible == ix.TRUE
            else apply("select", visible, score, self.const(-math.inf), dtype=self.dtype)
        )


def shared(index: Index, shape: Shape) -> Index:
    """The leading part of an index, 0 along axes of size 1."""
    axes = shape[: len(shape) - 2]
    return tuple(ix.constant(0) if n == 1 else i for i, n in zip(index, axes, strict=True))


def left(tile: int, size: Size, first: Expr) -> int | Expr:
    """How much of a tile that begins at ``first`` lies inside an axis."""
    return extent(ix.minimum(tile, ix.sub(size, first)))


def extent(value: Expr) -> int | Expr:
    """A loop's extent: a number where it is one."""
    const, terms = ix.parts(value)
    return const if isinstance(const, int) and not terms else value
