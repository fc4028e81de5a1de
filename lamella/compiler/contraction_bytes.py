"""Products of bytes: contractions of int8 to int32, four steps of k at a time.

Input: a factor's bytes. Output: its words, the int32 of four bytes that follow each other in k,
which one instruction multiplies and adds up. A step of k is then a word, for every schedule. Some
machines take the bytes of one factor as unsigned numbers only: there the right factor's are moved
up by 128, and each sum begins with what that is too much, -128 times the sum of its row's bytes.
All of it is exact, because int32 wraps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lamella.compiler.statements import Tiles
from lamella.dtypes import DType, int8, int32
from lamella.ir.dim import Size
from lamella.ir.index import add, coefficient, lt, minimum, mul
from lamella.ir.loops import (
    Accumulate,
    Alloc,
    Apply,
    Const,
    Declare,
    Expr,
    For,
    Load,
    Read,
    Stmt,
    Store,
    Var,
)  # fmt: skip
from lamella.ir.walk import loads_of

__all__ = ["WORD", "has_words", "offset", "offset_alloc", "offsets", "shifted", "word"]

WORD = 4  # bytes of a word
LEAST = 16  # bytes of a sum that are worth words

_SIGNS = Const(-0x7F7F7F80, int32)  # the highest bit of every byte
_ONES = Const(0x01010101, int32)


def has_words(tiles: Tiles, accumulate: DType, sizes: Sequence[Size]) -> bool:
    """Whether a contraction of ``sizes`` (batch, rows, columns, k) multiplies words. For a single
    row or column they must lie in memory as they are: to join them is as much work as to multiply.
    """
    _, m, n, k = sizes
    bytes_only = tiles.left.dtype is int8 and tiles.right.dtype is int8
    if accumulate is not int32 or not bytes_only or not isinstance(k, int) or k < LEAST:
        return False
    loads = [*loads_of(tiles.left), *loads_of(tiles.right)]
    along_k = all(coefficient(load.index, tiles.k[-1]) == 1 for load in loads)
    return 1 not in (m, n) or along_k


def word(byte: Callable[[Expr], Expr], step: Expr, size: int, ends: bool) -> Expr:
    """The bytes ``WORD * step`` and following; beyond ``size`` zeros (``ends``) or any."""
    found: list[Expr] = []
    for at in range(WORD):
        place = add(mul(step, WORD), at)
        if at < size % WORD or size % WORD == 0:
            found.append(byte(place))
            continue
        value = byte(minimum(place, size - 1))
        zero = Const(0, int8)
        chosen = Apply("select", (lt(place, size), value, zero), int8)
        found.append(chosen if ends else value)
    return Apply("word", tuple(found), int32)


def shifted(value: Expr) -> Expr:
    """A word of signed bytes as unsigned ones, 128 more each."""
    return Apply("xor", (value, _SIGNS), int32)


# -- what the move by 128 adds to a sum ------------------------------------------------------------
def offset_alloc(rows: int) -> Alloc:
    """Scratch for what the sums of each row begin with."""
    return Alloc("offset", int32, max(1, rows), "local")


def offset(row: Expr) -> Expr:
    """What the sums of a row begin with."""
    return Load("offset", row, int32)


def offsets(rows: int, count: Size | Expr, left: Callable[[Expr, Expr], Expr]) -> Stmt:
    """Find them, from ``count`` words of each row."""
    i, k = Var("oi", rows), Var("ok", count)
    total = Apply("udotbytes", (_ONES, left(i, k), Const(0, int32)), int32)
    body: tuple[Stmt, ...] = (
        Declare("o", int32, Const(0, int32)),
        For(k, "lanes", (Accumulate(("o",), "add", (total,)),)),
        Store("offset", i, Apply("mul", (Read("o", int32), Const(-128, int32)), int32)),
    )
    return For(i, "serial", body)
