"""Sizes of a contraction's schedule: the register tile, the block a grid iteration makes, the depth
of a block of k.

Input: a problem's sizes, its element type, and the vectors. Output: a :class:`Shape`, or
:class:`Thin` for a few rows. What decides the order of each sum depends on these alone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import gcd
from typing import Literal

from lamella.compiler.contraction_panels import LINE
from lamella.compiler.contraction_register import UNROLL
from lamella.dtypes import DType, float32, float64
from lamella.ir.decisions import at_least, pinned
from lamella.ir.dim import Size
from lamella.ir.vectors import VectorUnit

__all__ = [
    "LARGE", "RUN", "STRIP", "Lies", "Shape", "Thin", "are_few", "choose", "kept_width",
    "panel_width", "thin",
]  # fmt: skip


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
    ready: bool = False  # whether the right factor lies in panels of ``columns`` already
    together: int = 1  # panels of rows packed at once where memory is contiguous along the rows


@dataclass(frozen=True, slots=True)
class Lies:
    """How the left factor lies in memory: it could be read in place (``plain``), in rows that are
    contiguous in k (``along_k``) and whose lines do not meet in one set of a cache (``apart``).
    Where places are linear only within runs of rows or of steps of k, as an image's or a head's
    are, ``rows`` and ``steps`` say how long those are; else they are 0. ``once``: no row may be
    computed twice, so panels that are read in place divide the rows. ``deep``: it is memory that
    is contiguous along k, however far its rows are apart.
    """

    plain: bool = False
    along_k: bool = True
    along_rows: bool = False
    apart: bool = True
    rows: int = 0
    steps: int = 0
    once: bool = False
    deep: bool = False


@dataclass(frozen=True, slots=True)
class Thin:
    """Sizes of a schedule for a few rows: the columns of a grid iteration; how many rows of memory
    are read side by side (``group``: of k for "stream", of columns for "dot"); for "dot", also the
    depth of a block of k.
    """

    kind: Literal["stream", "dot"]
    columns: int
    group: int = 1
    depth: int = 1
    swapped: bool = False


DEPTH = 1024  # steps of k summed in one go
SHALLOW = 384  # where rows are packed too, or a line of memory has rows of one step of k
RIGHT = 512 << 10  # bytes of a block's packed columns, which stay in a second-level cache
TALL, SHORT = 1024, 512  # rows of a block; fewer where its sums wait in scratch for the next of k
TASKS = 16  # blocks that keep every worker busy to the end
BLOCK = 1 << 17  # multiply-adds of a block that take longer than to share them
WAYS = 8  # lines of one set that a first-level cache holds
ROWS_PACKED = 64  # rows of a block, at least, for which columns are packed

RUN = 4  # vectors of columns that a stream takes in one go, at most
ROWS_STREAM, ROWS_DOT = 16, 8  # at most, of a thin schedule
STEPS_STREAM = 16  # of k for each row: fewer do not hide how sums go to the cache and back
LARGE = 1 << 17  # elements of a right factor that a thin schedule is for
ROWS_WIDE = 2  # with so few rows, sums of wide panels are needed not to wait for one another
ROWS_KEPT = 9, 224  # of products for which panels of a parameter are kept, which is a second copy
READY = 1 << 12  # elements of one that is laid out for several rows at a time
STRIP = 16 << 10  # bytes of the sums of a strip, half of a first-level cache
PANEL = 128 << 10  # bytes of the few rows, which stay in a second-level cache
SIDE = 6  # rows of memory read side by side: what they meet is read again for each such group
FEWER = 3  # where they and the sums would not fit into the registers
ROWS_LOADED = 2  # that multiply what they load at once, so that it needs no registers


def panel_width(unit: VectorUnit, dtype: DType, rows: Size, columns: Size, k: Size) -> int:
    """Columns of the panels in which a right factor is best laid out before many products with
    ``rows`` rows each; 0 where it is better left as it is.
    """
    if not isinstance(columns, int) or not isinstance(k, int) or dtype not in (float32, float64):
        return 0
    if columns * k < (LARGE if rows == 1 else READY):
        return 0
    lanes = unit.lanes(dtype)
    few = isinstance(rows, int) and rows <= ROWS_WIDE
    widths = (vectors * lanes for vectors in ((4, 3, 2, 1) if few else (3, 2, 4, 1)))
    return next((width for width in widths if columns % width == 0), 0)


def kept_width(unit: VectorUnit, dtype: DType, rows: Size, columns: Size, k: Size) -> int:
    """Columns of the panels in which a right factor that many calls multiply by is best kept; 0
    where it is better left as it is: a few rows stream it, many hide how it is packed.
    """
    least, most = ROWS_KEPT
    if not isinstance(rows, int) or not least <= rows <= most:
        return 0
    width = panel_width(unit, dtype, rows, columns, k)
    return width if width > unit.lanes(dtype) else 0


def are_few(m: Size, n: Size) -> bool:
    """Whether ``m`` rows against ``n`` columns are few enough for a thin schedule."""
    if m == 0 or at_least(m, ROWS_STREAM + 1, True):
        return False
    return at_least(n, 2 * m, False)


def thin(
    unit: VectorUnit, dtype: DType, sizes: tuple[Size, ...], order: tuple[bool, bool], swapped: bool
) -> Thin | None:
    """A schedule for a few rows, if it pays; ``order`` says whether the right factor is contiguous
    along its columns and along k.
    """
    _, m, n, k = sizes
    lanes = unit.lanes(dtype)
    if not at_least(n * k, LARGE, False) or not are_few(m, n):
        return None
    m = pinned(m)
    if not isinstance(m, int):
        return None
    if order[0] and at_least(k, STEPS_STREAM * m, False):
        columns = _even(n, max(256, STRIP // (m * dtype.itemsize)), RUN * lanes)
        side = SIDE if m <= ROWS_LOADED or unit.registers > RUN * SIDE else FEWER
        return Thin("stream", columns, side, swapped=swapped)
    if order[1] and m <= ROWS_DOT:
        group = max(1, min(SIDE, unit.registers // m))
        depth = _block(k, max(DEPTH, PANEL // (m * dtype.itemsize)), 2 * lanes)
        columns = 256 // group * group
        if isinstance(n, int):
            columns = max(8 * group, min(columns, _even(n, -(-n // TASKS), group)))
        return Thin("dot", columns, group, depth, swapped)
    return None


def choose(
    unit: VectorUnit, dtype: DType, sizes: tuple[Size, ...], swapped: bool = False,
    left: Lies = Lies(), ready: int = 0,
) -> Shape:  # fmt: skip
    """The tiled schedule for a machine's vectors, a problem's size (batch, rows, columns, k), and
    the way its left factor lies in memory. ``ready``: columns of the panels in which the right one
    lies, if it does.
    """
    batch, m, n, k = sizes
    rows, columns = _register_tile(m, n, unit.lanes(dtype), unit.sums, left)
    if ready:
        rows, columns = _rows(m, max(1, unit.sums * unit.lanes(dtype) // ready)), ready
    found = _rows_in_place(m, rows, left)
    in_place = found is not None
    rows = found or rows
    depth = _depth(k, DEPTH if left.deep else SHALLOW, left.steps)
    all_rows, all_columns = _panels(m, rows), _panels(n, columns)
    tall = TALL if isinstance(k, int) and k <= depth else SHORT
    together = 1
    if left.along_rows and not left.along_k and not in_place:
        together = _together(all_rows, rows, dtype)
    row_panels = _even(all_rows, max(1, tall // rows), together)
    column_panels = max(1, RIGHT // (columns * depth * dtype.itemsize))
    column_panels = _even(all_columns, column_panels, 1)
    shape = Shape(
        rows, columns, row_panels, column_panels, depth, swapped, in_place, bool(ready), together
    )
    return _busy(shape, all_rows, all_columns, k, batch)


def _together(panels: Size, rows: int, dtype: DType) -> int:
    """Panels of rows that begin and end with lines of memory: of a line that is packed in parts,
    nothing is left in the caches for the next panel where steps of k are pages apart.
    """
    line = LINE // dtype.itemsize
    whole = line // gcd(line, rows)
    return min(whole, panels) if isinstance(panels, int) and panels else 1


def _depth(k: Size, most: int, run: int) -> int:
    """Steps of a block of k: whole runs, or a whole part of one, where there are runs."""
    if 0 < run <= most:
        return _block(k, most, run * UNROLL // gcd(run, UNROLL))
    parts = (d for d in range(most, most // 2, -1) if run and run % d == 0 and d % UNROLL == 0)
    return next(parts, _block(k, most, UNROLL))


def _block(k: Size, most: int, step: int) -> int:
    """Steps of a block of k: all in one, or ``most``, whatever is left then, so that the order of a
    sum is the same where k is open.
    """
    whole = isinstance(k, int) and k <= most
    return _even(k, most, step) if whole else max(1, most // step) * step


def _register_tile(m: Size, n: Size, lanes: int, sums: int, left: Lies) -> tuple[int, int]:
    """Rows and columns of the register tile: little is lost at the edges, and the more rows there
    are the fewer vectors are loaded; without an edge the left factor may need no packing, and
    within a run of rows packing needs no division.
    """
    if isinstance(n, int) and n <= lanes:
        return _rows(m, sums), lanes
    best = _rows(m, sums // 2), 2 * lanes
    if not isinstance(m, int) or not isinstance(n, int) or m <= sums // 2:
        return best

    def cost(tile: tuple[int, int]) -> float:
        rows, _ = tile
        padded = -(-m // rows) * rows, -(-n // lanes) * lanes
        loads = 1 + 0.5 * (1 / rows - 2 / sums)
        packing = 0.96 if left.plain and padded[0] == m else 1.0
        if left.rows and left.rows % rows:
            packing = 1.3
        return padded[0] * padded[1] * loads * packing

    wide = 3 if sums % 3 == 0 and n > 2 * lanes else 2
    tiles = [
        (rows, vectors * lanes)
        for vectors in range(2, wide + 1)
        for rows in range(sums // vectors, max(_least(vectors), sums // vectors * 2 // 3) - 1, -1)
    ]
    return min([best, *tiles], key=cost)


def _rows_in_place(m: Size, rows: int, left: Lies) -> int | None:
    """Rows of a register tile of at most ``rows`` that reads the left factor where it lies: with
    few of them computed twice at the end, and few vectors loaded for each.
    """
    if not left.plain or not isinstance(m, int):
        return None
    least = rows
    if not left.apart and rows > WAYS:
        rows, least = WAYS, WAYS * 3 // 4
    fit = [r for r in range(rows, least - 1, -1) if r <= m and (m % r == 0 or not left.once)]
    return min(fit, key=lambda r: -(-m // r) * (r + 0.5), default=None)


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
        if each * rows * columns < 2 * (READY if shape.ready else BLOCK):
            break
        if columns > 8 or (columns > 1 and shape.in_place):
            columns = -(-columns // 2)
        elif rows * shape.rows > ROWS_PACKED:
            rows = -(-rows // 2)
        elif columns > 1:
            columns = -(-columns // 2)
        else:
            break
    rows, columns = _even(all_rows, rows, shape.together), _even(all_columns, columns, 1)
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
