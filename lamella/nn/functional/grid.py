"""Sampling images and volumes at computed places: affine grids and grid sampling (Jaderberg et al.,
2015).

Coordinates are normalised: -1 and 1 are the ends of an axis, the outer corners of its first and
last elements or, with ``align_corners``, their centres. The last axis of a grid is (x, y) or
(x, y, z), the reverse of the image's axes.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import lamella as lm
from lamella.errors import OptionError, ShapeError
from lamella.nn.functional.support import check_float, choose, tensor
from lamella.tensor.tensor import Tensor

__all__ = ["affine_grid", "grid_sample"]


def affine_grid(theta: Any, size: Sequence[int], align_corners: bool | None = None) -> Tensor:
    """The places that affine maps send the elements of an output image to, for :func:`grid_sample`.

    Args:
        theta: maps ``(N, 2, 3)``, or ``(N, 3, 4)`` for volumes.
        size: the output's shape ``(N, C, H, W)`` or ``(N, C, D, H, W)``.
        align_corners: whether -1 and 1 are centres of the corner elements (default False).

    Returns:
        ``(N, H, W, 2)`` or ``(N, D, H, W, 3)``.

    Raises:
        ShapeError: if ``theta`` does not fit ``size``.

    >>> grid = affine_grid(lm.asarray([[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]]), (1, 1, 2, 2))
    >>> grid.tolist()
    [[[[-0.5, -0.5], [0.5, -0.5]], [[-0.5, 0.5], [0.5, 0.5]]]]
    """
    theta = tensor(theta)
    rank = len(size) - 2
    if rank not in (2, 3) or tuple(theta.shape) != (size[0], rank, rank + 1):
        raise ShapeError(
            f"[affine_grid] theta of shape {tuple(theta.shape)} for size {tuple(size)}: they are "
            "(N, 2, 3) and (N, C, H, W), or (N, 3, 4) and (N, C, D, H, W)"
        )
    check_float("affine_grid", theta)
    spatial = size[2:]
    place: Any = 0
    for axis, count in enumerate(spatial):
        along = _evenly(count, bool(align_corners), theta.dtype)
        shape = (-1,) + (1,) * (rank - axis)
        column = theta[:, :, rank - 1 - axis].reshape((-1, *(1,) * rank, rank))
        place = place + along.reshape(shape) * column
    offset = theta[:, :, rank].reshape((-1, *(1,) * rank, rank))
    return place + offset  # type: ignore[no-any-return]


def _evenly(count: int, aligned: bool, dtype: Any) -> Tensor:
    """The normalised coordinates of the elements of an axis."""
    if aligned:
        return lm.linspace(-1, 1, count, dtype=dtype) if count > 1 else lm.zeros(1, dtype=dtype)
    wide = lm.float64 if dtype.bits == 64 else lm.float32
    return ((2 * lm.arange(count, dtype=wide) + 1) / count - 1).astype(dtype)


def grid_sample(
    input: Any, grid: Any, mode: str = "bilinear", padding_mode: str = "zeros",
    align_corners: bool | None = None,
) -> Tensor:  # fmt: skip
    """``input`` at the places of ``grid``, between elements by interpolation.

    Args:
        input: ``(N, C, H, W)`` or ``(N, C, D, H, W)``.
        grid: ``(N, H', W', 2)`` or ``(N, D', H', W', 3)`` with normalised coordinates.
        mode: ``"bilinear"`` (trilinear for volumes), ``"nearest"`` or ``"bicubic"`` (images).
        padding_mode: what lies outside: ``"zeros"``, ``"border"`` (the nearest element) or
            ``"reflection"``.
        align_corners: whether -1 and 1 are centres of the corner elements (default False).

    Returns:
        ``(N, C, H', W')`` or ``(N, C, D', H', W')``.

    Raises:
        ShapeError: if the shapes do not belong together or an axis is empty.
        OptionError: for an unknown mode, or bicubic for volumes.

    >>> image = lm.asarray([[[[1.0, 2.0], [3.0, 4.0]]]])
    >>> grid_sample(image, lm.zeros((1, 1, 1, 2))).tolist()
    [[[[2.5]]]]
    """
    x, places = tensor(input), tensor(grid)
    _check(x, places, mode, padding_mode)
    rank = x.ndim - 2
    wide = lm.float64 if x.dtype.bits == 64 else lm.float32
    aligned = bool(align_corners)
    sizes = x.shape[2:]
    at = [
        _position(places[..., rank - 1 - axis].astype(wide), sizes[axis], aligned)
        for axis in range(rank)
    ]
    if mode != "bicubic":
        at = [_kept(c, size, padding_mode, aligned) for c, size in zip(at, sizes, strict=True)]
    if mode == "nearest":
        return _read(x, [lm.round(c) for c in at], padding_mode)
    taps = _cubic if mode == "bicubic" else _linear
    total: Any = 0
    for corner in itertools.product(*(taps(c) for c in at)):
        cells = [cell for cell, _ in corner]
        if mode == "bicubic":
            cells = [_kept(c, s, padding_mode, aligned) for c, s in zip(cells, sizes, strict=True)]
        weight = math.prod((share for _, share in corner[1:]), start=corner[0][1])
        total = total + _read(x, cells, padding_mode) * weight[:, None]
    return total.astype(x.dtype)  # type: ignore[no-any-return]


def _check(x: Tensor, grid: Tensor, mode: str, padding_mode: str) -> None:
    choose("grid_sample", "mode", mode, ("bilinear", "nearest", "bicubic"))
    choose("grid_sample", "padding_mode", padding_mode, ("zeros", "border", "reflection"))
    rank = x.ndim - 2
    fits = rank in (2, 3) and grid.ndim == x.ndim and grid.shape[-1] == rank
    if not fits or grid.shape[0] != x.shape[0] or 0 in x.shape[2:]:
        raise ShapeError(
            f"[grid_sample] input of shape {tuple(x.shape)} with a grid of shape "
            f"{tuple(grid.shape)}: they are (N, C, H, W) and (N, H', W', 2), or (N, C, D, H, W) "
            "and (N, D', H', W', 3), with H, W and D at least 1"
        )
    if mode == "bicubic" and rank == 3:
        raise OptionError("[grid_sample] mode='bicubic' is for images only; use bilinear")
    check_float("grid_sample", x)
    check_float("grid_sample", grid)


def _position(c: Tensor, size: int, aligned: bool) -> Tensor:
    """A normalised coordinate in elements."""
    return (c + 1) * ((size - 1) / 2) if aligned else ((c + 1) * size - 1) / 2


def _kept(c: Tensor, size: int, padding_mode: str, aligned: bool) -> Tensor:
    """A coordinate outside the axis moved inside, unless zeros lie there; derivative 0 at the
    border, as in PyTorch.
    """
    if padding_mode == "zeros":
        return c
    if padding_mode == "reflection":
        c = _reflected(c, 0, 2 * (size - 1)) if aligned else _reflected(c, -1, 2 * size - 1)
    return lm.where(c <= 0, 0, lm.where(c >= size - 1, size - 1, c))


def _reflected(c: Tensor, low: float, high: float) -> Tensor:
    """``c`` mirrored at ``low / 2`` and ``high / 2`` until it lies between them."""
    if low == high:
        return c * 0
    start, span = low / 2, (high - low) / 2
    distance = abs(c - start)
    flips = lm.floor(distance.detach() / span)
    extra = distance - flips * span
    return lm.where(flips % 2 == 0, extra + start, span - extra + start)


def _linear(c: Tensor) -> list[tuple[Tensor, Tensor]]:
    """Two neighbours of a coordinate and their shares."""
    low = lm.floor(c.detach())
    share = c - low
    return [(low, 1 - share), (low + 1, share)]


def _cubic(c: Tensor) -> list[tuple[Tensor, Tensor]]:
    """Four neighbours of a coordinate and their shares by cubic convolution (Keys, 1981)."""
    low = lm.floor(c.detach())
    share = c - low
    a = -0.75
    near = [((a + 2) * d - (a + 3)) * d * d + 1 for d in (share, 1 - share)]
    far = [((d - 5) * d + 8) * d * a - 4 * a for d in (share + 1, 2 - share)]
    return [(low - 1, far[0]), (low, near[0]), (low + 1, near[1]), (low + 2, far[1])]


def _read(x: Tensor, cells: Sequence[Tensor], padding_mode: str) -> Tensor:
    """The elements of ``x (N, C, *spatial)`` in the cells ``(N, *out)`` per axis, 0 outside."""
    inside: Any = True
    flat: Any = 0
    for cell, size in zip(cells, x.shape[2:], strict=True):
        fits = (cell >= 0) & (cell <= size - 1)
        inside = fits if inside is True else inside & fits
        flat = flat * size + lm.where(fits, cell, 0).astype(lm.int64)
    lead, out = x.shape[:2], tuple(flat.shape[1:])
    index = lm.broadcast_to(flat.reshape((lead[0], 1, math.prod(out))), (*lead, math.prod(out)))
    found = lm.take_along_axis(x.reshape((*lead, math.prod(x.shape[2:]))), index, -1)
    found = found.reshape((*lead, *out))
    return lm.where(inside[:, None], found, 0) if padding_mode == "zeros" else found
