"""Sizes of the schedule of convolutions by Winograd's transforms, and whether it pays.

Input: the sizes of a convolution of 3 x 3 taps. Output: a :class:`Fast`, or None where direct sums
are as quick. Costs are cycles of a core that does two vector multiply-adds of 32 bytes, or one of
64, in each. Everything follows from sizes and the machine's vectors, nothing from the number of
threads.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from lamella.compiler.convolution_plan import parts_of
from lamella.ir.vectors import VectorUnit

__all__ = ["Fast", "Sizes", "fast"]

EDGES = (2, 4)
CACHE = 640 * 1024  # bytes of transformed image that stay in a second-level cache
NEAR, FAR = 16.0, 5.5  # bytes a core reads in a cycle from the third-level cache, from memory
LARGE = 8 << 20  # bytes of kernels that are in memory when they are needed again
TOUCH = 7.0  # cycles to transform a vector of the image, and of results, for each of its points
GAIN = 0.85  # of the time of direct sums that must suffice
WORKERS = (2, 4, 8)  # numbers of threads that should all be busy
PAD = 64  # bytes between rows of scratch, so that they do not meet in one set of a cache


@dataclass(frozen=True, slots=True)
class Sizes:
    """Of one convolution: ``images`` of results ``high x wide``, channels in and out, and bytes."""

    images: int
    high: int
    wide: int
    channels: int
    filters: int
    itemsize: int
    unit: VectorUnit

    @property
    def width(self) -> int:
        """Numbers in a vector."""
        return max(1, self.unit.bytes // self.itemsize)

    def tiles(self, edge: int) -> int:
        """Tiles of ``edge x edge`` results that cover all images."""
        return self.images * parts_of(self.high, edge) * parts_of(self.wide, edge)


@dataclass(frozen=True, slots=True)
class Fast:
    """Tiles of ``edge x edge`` results; ``lanes`` output channels in a block; a task has ``tiles``
    tiles and ``blocks`` blocks, and multiplies ``rows`` tiles at a time.
    """

    edge: int
    lanes: int
    tiles: int
    blocks: int
    rows: int

    def image_row(self, channels: int, itemsize: int) -> int:
        """Numbers from one tile's channels to the next tile's in scratch."""
        return channels + PAD // itemsize


def fast(sizes: Sizes, edge: int | None = None, lanes: int | None = None) -> Fast | None:
    """The cheapest schedule, with tiles of ``edge`` and blocks of ``lanes`` if they are given; else
    None where direct sums cost about as much.
    """
    edges = EDGES if edge is None else (edge,)
    wide = lanes or _lanes(sizes)
    found = [(_cost(sizes, plan), plan) for e in edges for plan in _plans(sizes, e, wide)]
    cost, best = min(found, key=lambda item: item[0])
    return best if edge is not None or cost < GAIN * _direct(sizes) else None


def _lanes(sizes: Sizes) -> int:
    """Output channels in a block: two vectors, unless another number leaves fewer lanes over."""

    def padded(lanes: int) -> tuple[int, int]:
        return parts_of(sizes.filters, lanes) * lanes, abs(lanes - 2 * sizes.width)

    return min((vectors * sizes.width for vectors in (1, 2, 3, 4)), key=padded)


def _plans(sizes: Sizes, edge: int, lanes: int) -> Iterator[Fast]:
    vectors, count = max(1, lanes // sizes.width), sizes.tiles(edge)
    blocks = parts_of(sizes.filters, lanes)
    most = max(1, (sizes.unit.registers - vectors - 2) // vectors)
    for rows in range(1, min(most, count) + 1):
        for groups in range(1, 1 + min(8, count // rows)):
            for parts in range(1, blocks + 1):
                yield Fast(edge, lanes, rows * groups, parts_of(blocks, parts), rows)


def _cost(sizes: Sizes, plan: Fast) -> float:
    points, vectors = (plan.edge + 2) ** 2, max(1, plan.lanes // sizes.width)
    rate = 64 / sizes.unit.bytes  # vectors multiplied in a cycle
    blocks = parts_of(sizes.filters, plan.lanes)
    tasks = parts_of(sizes.tiles(plan.edge), plan.tiles) * parts_of(blocks, plan.blocks)
    touch = TOUCH * points * plan.tiles / rate
    image = touch * parts_of(sizes.channels, sizes.width)
    each = plan.tiles * points * vectors
    work = each * (sizes.channels + 4.0) / rate * (1.0 + 1.0 / (plan.rows * vectors))
    kernels = points * sizes.channels * plan.lanes * sizes.itemsize
    stream = kernels / (FAR if kernels * blocks > LARGE else NEAR)
    row = plan.image_row(sizes.channels, sizes.itemsize) * sizes.itemsize
    scratch = points * plan.tiles * (row + plan.lanes * sizes.itemsize)
    again = max(0, scratch - CACHE) / NEAR
    block = max(work, stream) + 0.15 * stream + touch * vectors + again
    return tasks * (image + again + plan.blocks * block) * _idle(tasks)


def _idle(tasks: int) -> float:
    """How much longer tasks take because some workers have fewer: the mean over ``WORKERS``."""
    return sum(parts_of(tasks, w) * w / tasks for w in WORKERS) / len(WORKERS)


def _direct(sizes: Sizes) -> float:
    """Cycles of direct sums."""
    places = sizes.images * sizes.high * sizes.wide
    vectors = parts_of(sizes.filters, sizes.width)
    return 1.1 * 9 * places * sizes.channels * vectors * sizes.unit.bytes / 64
