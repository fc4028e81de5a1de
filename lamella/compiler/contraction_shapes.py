"""Sizes of a contraction's schedule: the register tile, the block a grid iteration makes, the depth
of a block of k.

Input: a problem's sizes, its element type, and the width of a vector. Output: a :class:`Shape`, or
:class:`Thin` for a few rows. What decides the order of each sum depends on these alone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from lamella.compiler.contraction_register import UNROLL
from lamella.dtypes import DType
from lamella.ir.dim import Size

__all__ = ["RUN", "Shape", "Thin", "choose", "thin"]


@dataclass(frozen=True, slots=True)
class Shape:
    """Sizes of one schedule: the register tile, panels per grid iteration, and the depth of a
    block of k (a multiple of ``UNROLL``).
    """

    rows: int  # of the register tile
    columns: int  # of the register tile
    row_panels: int
    column_panels: int
    depth: int
    swapped: bool = False  # whether rows are the result's columns
    in_place: bool = False  # whether the left factor is read where it lies: at least ``rows`` rows


@dataclass(frozen=True, slots=True)
class Thin:
    """Sizes of a schedule for a few rows: the columns of a grid iteration; for "dot", also those
    summed together (``group``), and the depth of a block of k.
    """

    kind: Literal["stream", "dot"]
    columns: int
    group: int = 1
    depth: int = 1
    swapped: bool = False


SUMS = {64: 24, 32: 12}  # vectors of the register tile, by bytes of one; elsewhere 8
DEPTH = 1024  # steps of k summed in one go
SHALLOW = 256  # where rows are packed too, or a line of memory has rows of one step of k
RIGHT = 512 << 10  # bytes of a block's packed columns, which stay in a second-level cache
TALL, SHORT = 1024, 512  # rows of a block; fewer where its sums wait in scratch for the next of k
TASKS = 16  # blocks that keep every worker busy to the end
BLOCK = 1 << 19  # multiply-adds of a block that are worth packing its columns
ROWS_PACKED = 64  # rows of a block, at least, for which columns are packed

RUN = 4  # vectors of columns that a stream takes in one go
ROWS_STREAM, ROWS_DOT = 16, 8  # at most, of a thin schedule
LARGE = 1 << 17  # elements of a right factor that a thin schedule is for
STRIP = 8 << 10  # bytes of the sums of a strip, next to eight rows of the right factor in L1
PARTIAL = 24  # vectors of partial sums in registers


def thin(
    dtype: DType, lanes: int, sizes: tuple[Size, ...], order: tuple[bool, bool], swapped: bool
) -> Thin | None:
    """A schedule for a few rows, if it pays; ``order`` says whether the right factor is contiguous
    along its columns and along k.
    """
    _, m, n, k = sizes
    if not isinstance(m, int) or not isinstance(n, int) or not isinstance(k, int):
        return None
    if not 0 < m <= ROWS_STREAM or n * k < LARGE or n < 2 * m:
        return None
    if order[0]:
        most = max(256, min(1024, STRIP // (m * dtype.itemsize)))
        columns = _even(n, most, RUN * lanes)
        return Thin("stream", columns, swapped=swapped)
    if order[1] and m <= ROWS_DOT:
        group = 4 if m == 1 else max(1, min(8, PARTIAL // m))
        depth = _even(k, 4 * DEPTH if m == 1 else DEPTH, 2 * lanes)
        return Thin("dot", 8 * group, group, depth, swapped)
    return None


def choose(
    vector_bytes: int, dtype: DType, sizes: tuple[Size, ...], swapped: bool = False,
    in_place: bool = False, along_k: bool = True,
) -> Shape:  # fmt: skip
    """The tiled schedule for a machine's vectors and a problem's size (batch, rows, columns, k);
    ``in_place``: the left factor could be read where it lies, ``along_k`` if that is in rows that
    are contiguous in k.
    """
    batch, m, n, k = sizes
    lanes = max(1, vector_bytes // dtype.itemsize)
    rows, columns = _register_tile(m, n, lanes, SUMS.get(vector_bytes, 8), in_place)
    in_place = in_place and isinstance(m, int) and m >= rows
    depth = _even(k, DEPTH if in_place and along_k else SHALLOW, UNROLL)
    all_rows, all_columns = _panels(m, rows), _panels(n, columns)
    tall = TALL if isinstance(k, int) and k <= depth else SHORT
    row_panels = _even(all_rows, max(1, tall // rows), 1)
    column_panels = max(1, RIGHT // (columns * depth * dtype.itemsize))
    column_panels = _even(all_columns, column_panels, 1)
    shape = Shape(rows, columns, row_panels, column_panels, depth, swapped, in_place)
    return _busy(shape, all_rows, all_columns, k, batch)


def _register_tile(m: Size, n: Size, lanes: int, sums: int, in_place: bool) -> tuple[int, int]:
    """Rows and columns of the register tile: little is lost at the edges, and the more rows there
    are the fewer vectors are loaded; without an edge the left factor may need no packing.
    """
    if isinstance(n, int) and n <= lanes:
        return _rows(m, sums), lanes
    best = _rows(m, sums // 2), 2 * lanes
    if not isinstance(m, int) or not isinstance(n, int) or m <= sums // 2:
        return best

    def cost(tile: tuple[int, int]) -> float:
        rows, columns = tile
        padded = -(-m // rows) * rows, -(-n // columns) * columns
        loads = 1 + 0.5 * (1 / rows - 2 / sums)
        return padded[0] * padded[1] * loads * (0.96 if in_place and padded[0] == m else 1)

    wide = 3 if sums % 3 == 0 and n > 2 * lanes else 2
    tiles = [
        (rows, vectors * lanes)
        for vectors in range(2, wide + 1)
        for rows in range(sums // vectors, max(_least(vectors), sums // vectors * 2 // 3) - 1, -1)
    ]
    return min([best, *tiles], key=cost)


def _rows(m: Size, most: int) -> int:
    """At most ``most`` rows, such that panels cover ``m`` evenly."""
    return _even(m, most, 1)


def _least(vectors: int) -> int:
    """Rows with ten sums at least, or each multiply-add waits for the one before."""
    return -(-10 // vectors)


def _busy(shape: Shape, all_rows: Size, all_columns: Size, k: Size, batch: Size) -> Shape:
    """Smaller blocks until there are enough for every worker, or they are not worth it."""
    if not isinstance(all_rows, int) or not isinstance(all_columns, int):
        return shape
    outer = batch if isinstance(batch, int) else 1
    each = shape.rows * shape.columns * (k if isinstance(k, int) else shape.depth)
    rows, columns = shape.row_panels, shape.column_panels
    while outer * -(-all_rows // rows) * -(-all_columns // columns) < TASKS:
        if each * rows * columns < 2 * BLOCK:
            break
        if columns > 8 or (columns > 1 and shape.in_place):
            columns = -(-columns // 2)
        elif rows * shape.rows > ROWS_PACKED:
            rows = -(-rows // 2)
        elif columns > 1:
            columns = -(-columns // 2)
        else:
            break
    rows, columns = _even(all_rows, rows, 1), _even(all_columns, columns, 1)
    return replace(shape, row_panels=rows, column_panels=columns)


def _panels(size: Size, step: int) -> Size:
    return -(-size // step) if isinstance(size, int) else size


def _even(size: Size, most: int, step: int) -> int:
    """At most ``most``, a multiple of ``step``, such that parts of it cover ``size`` evenly."""
    if not isinstance(size, int):
        return most
    pieces = max(1, -(-size // most))
    each = -(-max(size, 1) // pieces)
    return -(-each // step) * step
