"""Sizes of a direct convolution's schedule: the register tile, and how tasks share the work.

Input: the sizes of a convolution, one :class:`Axis` a spatial axis. Output: how many output
channels lie side by side (``lanes``) and a :class:`Plan`. Everything follows from sizes and the
machine's vectors, nothing from the number of threads.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product as pairs
from math import prod

from lamella.ir.vectors import VectorUnit

__all__ = [
    "LINE", "Axis", "Plan", "beside", "crowded", "flattened", "lanes", "parts_of", "plan",
]  # fmt: skip

SCRATCH = 448 * 1024  # bytes of image that a task copies: it stays in the second-level cache
TASKS = 16  # tasks that keep workers busy
LINE, PAGE = 64, 4096  # bytes of a cache line; bytes between lines that meet in one set
FEW = 16  # input channels of groups that lie side by side
WAYS = 8  # lines of one set that a first-level cache holds
STREAM = 32  # bytes of kernels a core takes from its second-level cache in a cycle


def parts_of(whole: int, part: int) -> int:
    """How many parts cover the whole.

    >>> parts_of(7, 2)
    4
    """
    return -(-whole // part)


@dataclass(frozen=True, slots=True)
class Axis:
    """One spatial axis: step·place + gap·tap − low = phases·position, as in ``ops.convolution``."""

    size: int  # of the image
    places: int
    taps: int
    step: int
    low: int
    gap: int  # between taps, positive
    phases: int = 1  # the image's dilation, of no common factor with step and gap
    backwards: bool = False  # taps are counted from the last one

    @property
    def each(self) -> int:
        """The most places in a phase."""
        return parts_of(self.places, self.phases)

    @property
    def reach(self) -> int:
        """The most taps in a phase."""
        return parts_of(self.taps, self.phases)

    def window(self, places: int) -> int:
        """Positions of the image that so many neighbouring places of a phase read."""
        return (places - 1) * self.step + (self.reach - 1) * self.gap + 1

    @property
    def unpadded(self) -> bool:
        """Whether every tap of every place reads inside the image, which is not dilated."""
        last = (self.places - 1) * self.step + (self.taps - 1) * self.gap - self.low
        return self.phases == 1 and self.low <= 0 and last < self.size

    def apart(self, places: int) -> bool:
        """Whether so many neighbouring places read fewer positions if each tap's are counted for
        themselves, since taps lie far apart.
        """
        return self.reach * places < self.window(places)

    def rows(self, places: int) -> int:
        """Positions that so many neighbouring places read: those of each tap, or the window."""
        return min(self.window(places), self.reach * places)


def crowded(tile: tuple[int, int], apart: tuple[int, ...]) -> bool:
    """Whether more lines of a tile of ``rows x columns`` places meet in one set of a first-level
    cache than it holds, with so many bytes from a row and from a column to the next.

    >>> crowded((1, 14), (0, 4096)), crowded((1, 14), (0, 4096 + 64))
    (True, False)
    """
    rows, columns = (range(size) for size in tile)
    lines = {(r * apart[0] + c * apart[1]) // LINE for r in rows for c in columns}
    return max(Counter(line % (PAGE // LINE) for line in lines).values()) > WAYS


def flattened(axes: Sequence[Axis], images: int) -> list[Axis] | None:
    """All places of all images as one axis, where each reads just its own position."""
    if all(a.taps == a.step == a.phases == 1 and a.low == 0 and a.size == a.places for a in axes):
        size = images * prod(a.size for a in axes)
        return [*[Axis(1, 1, 1, 1, 0, 1)] * 2, Axis(size, size, 1, 1, 0, 1)]
    return None


@dataclass(frozen=True, slots=True)
class Plan:
    """A register tile of ``rows x columns`` places; a task's ``task_rows x task_columns`` places
    and ``blocks`` blocks of output channels.
    """

    rows: int
    columns: int
    task_rows: int
    task_columns: int
    blocks: int


def _cycles(pixels: int, vectors: int, unit: VectorUnit) -> float:
    """Of one step of a tile: two products, two loads a cycle, a sum every four; one vector leaves a
    load to each product.
    """
    products, loads = pixels * vectors * (1.08 if vectors == 1 else 1.0), pixels + vectors
    stream = vectors * unit.bytes / STREAM
    return max(products / 2, loads / 2, 4.0) + 0.1 * stream


def _tiles(axes: Sequence[Axis], most: int) -> Iterator[tuple[int, int, float]]:
    """Tiles of at most so many pixels, with the number of tiles that cover the places."""
    high, wide = axes[-2].each, axes[-1].each
    for columns in range(1, min(most, wide) + 1):
        for rows in range(1, min(most // columns, high) + 1):
            uneven = 1.0 + 0.02 * bool(high % rows) + 0.02 * bool(wide % columns)
            yield rows, columns, parts_of(high, rows) * parts_of(wide, columns) * uneven


def _best(axes: Sequence[Axis], vectors: int, unit: VectorUnit) -> tuple[float, int, int]:
    """The cheapest tile: its cost per channel and tap, its rows and columns."""
    most = max(1, (unit.registers - vectors - 2) // vectors)
    found = (
        (count * _cycles(rows * columns, vectors, unit), rows, columns)
        for rows, columns, count in _tiles(axes, most)
    )
    return min(found, key=lambda item: (item[0], item[1]))


def lanes(axes: Sequence[Axis], channels: int, unit: VectorUnit, itemsize: int) -> int:
    """Output channels of a group side by side in a tile: one to four vectors, or fewer lanes, of
    which four cost what one does.
    """
    width = max(1, unit.bytes // itemsize)
    if channels < width:
        return min(width, max(4, 1 << (channels - 1).bit_length()))
    costs = []
    for vectors in (1, 2, 3, 4):
        blocks = parts_of(channels, vectors * width)
        costs.append((blocks * _best(axes, vectors, unit)[0], vectors))
    return min(costs)[1] * width


def beside(groups: int, each: int, channels: int, width: int) -> int:
    """How many groups, of ``each`` output channels and so many input channels, lie side by side in
    vectors of ``width`` lanes: all that a vector holds, if their channels are few.

    >>> beside(32, 4, 4, 8), beside(32, 8, 8, 8), beside(3, 4, 4, 8)
    (2, 1, 1)
    """
    several = width // each
    whole = several > 1 and several * each == width and groups % several == 0
    return several if whole and channels <= FEW else 1


def plan(
    axes: Sequence[Axis], outer: int, channels: int, blocks: int, width: int, unit: VectorUnit,
    itemsize: int,
) -> Plan | None:  # fmt: skip
    """The schedule; None where the least part of the image is too large to copy.

    ``outer`` counts what is computed apart anyway (images, groups, phases, depths), ``channels`` a
    group's input channels, ``width`` the lanes of a block.
    """
    vectors = max(1, width * itemsize // unit.bytes)
    _, rows, columns = _best(axes, vectors, unit)
    found: list[tuple[float, Plan]] = []
    depth = axes[-3].reach
    for task_rows, task_columns in pairs(
        _parts(axes[-2].each, rows), _parts(axes[-1].each, columns)
    ):
        pixels = depth * axes[-2].rows(task_rows) * axes[-1].window(task_columns)
        image = pixels * channels * itemsize
        if image > SCRATCH:
            continue
        tasks = outer * parts_of(axes[-2].each, task_rows) * parts_of(axes[-1].each, task_columns)
        taps = axes[-1].reach * axes[-2].reach * depth
        kernel = taps * channels * width * itemsize
        for part in _parts(blocks, 1):
            count = tasks * parts_of(blocks, part)
            copied = count * (2.0 * image + part * kernel)
            uneven = max(1.0, TASKS / count)
            cost = copied + (uneven - 1.0) * 64.0 * tasks * blocks * kernel
            found.append((cost, Plan(rows, columns, task_rows, task_columns, part)))
    return min(found, key=lambda item: item[0])[1] if found else None


def _parts(whole: int, unit: int) -> list[int]:
    """Sizes of equal parts of ``whole``, in multiples of ``unit``."""
    units = parts_of(whole, unit)
    return sorted({parts_of(units, count) * unit for count in range(1, units + 1)})
