"""Resizing images, sequences and volumes: nearest, linear, cubic, area and antialiased.

Every mode is separable: along each axis an output element is a weighted sum of a few input
elements, whose positions and weights depend on the sizes only. They are worked out here in the
precision PyTorch uses (float32, for float64 inputs float64), then read by index; the antialiased
modes, which have many taps, multiply by a matrix.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

import lamella as lm
from lamella.errors import OptionError, ShapeError
from lamella.nn.functional.pooling_adaptive import (
    adaptive_avg_pool1d,
    adaptive_avg_pool2d,
    adaptive_avg_pool3d,
)
from lamella.nn.functional.support import (
    check_float,
    check_rank,
    choose,
    per_axis,
    record,
    tensor,
    wide_of,
)
from lamella.tensor.searching import take_node
from lamella.tensor.tensor import Tensor
from lamella.transforms.custom import linear_with_transpose

__all__ = ["interpolate", "upsample", "upsample_bilinear", "upsample_nearest"]

_RANKS = {
    "nearest": (1, 2, 3), "nearest-exact": (1, 2, 3), "area": (1, 2, 3), "linear": (1,),
    "bilinear": (2,), "trilinear": (3,), "bicubic": (2,), "lanczos": (2,),
}  # fmt: skip
_MANY = 16  # outputs that read an element, beyond which its derivative is scattered
_ALIGNED = ("linear", "bilinear", "trilinear", "bicubic")
_AREA = {1: adaptive_avg_pool1d, 2: adaptive_avg_pool2d, 3: adaptive_avg_pool3d}


@dataclass(frozen=True)
class _Axis:
    """One axis to resize: sizes before and after, the factor asked for, and where corners are."""

    before: int
    after: int
    factor: float | None
    aligned: bool
    kind: type[np.floating[Any]]

    def step(self) -> np.floating[Any]:
        """How far apart the outputs are, in input elements."""
        if self.aligned:
            return self.kind((self.before - 1) / (self.after - 1) if self.after > 1 else 0)
        if self.factor is not None:
            return self.kind(1.0 / self.factor)
        return self.kind(self.before) / self.kind(self.after)

    def centres(self) -> np.ndarray:
        """Where each output lies, in input elements."""
        places: np.ndarray = np.arange(self.after).astype(self.kind)
        if not self.aligned:
            half = self.kind(0.5)
            places = (places + half) * self.step() - half
        else:
            places = places * self.step()
        return places


def _nearest(axis: _Axis, exact: bool) -> np.ndarray:
    """Which input element each output is."""
    places = np.arange(axis.after).astype(np.float32)
    step = np.float32(axis.step())
    found = np.floor((places + np.float32(0.5)) * step if exact else places * step)
    if not exact and axis.after == axis.before:
        found = places
    nearest: np.ndarray = np.minimum(found.astype(np.int64), axis.before - 1)
    return nearest


Taps = list[tuple[np.ndarray, np.ndarray]]


def _linear(axis: _Axis) -> Taps:
    """Two neighbours; before the first element there is only that."""
    centres = np.maximum(axis.centres(), axis.kind(0))
    low = np.minimum(np.floor(centres).astype(np.int64), axis.before - 1)
    share = np.clip(centres - low.astype(axis.kind), 0, 1).astype(axis.kind)
    return [(low, 1 - share), (np.minimum(low + 1, axis.before - 1), share)]


def _cubic_weight(distance: np.ndarray, a: float) -> np.ndarray:
    """The cubic convolution kernel (Keys, 1981)."""
    d = np.abs(distance)
    near = ((a + 2) * d - (a + 3)) * d * d + 1
    far = ((d - 5) * d + 8) * d * a - 4 * a
    return np.where(d <= 1, near, np.where(d < 2, far, 0))


def _cubic(axis: _Axis) -> Taps:
    """Four neighbours, the edge repeated beyond it."""
    centres = axis.centres()
    low = np.floor(centres)
    taps = []
    for offset in (-1, 0, 1, 2):
        weight: np.ndarray = _cubic_weight(centres - low - offset, -0.75).astype(axis.kind)
        taps.append((np.clip(low.astype(np.int64) + offset, 0, axis.before - 1), weight))
    return taps


def _lanczos_weight(distance: np.ndarray) -> np.ndarray:
    return np.where(np.abs(distance) < 3, np.sinc(distance) * np.sinc(distance / 3), 0)


_FILTERS: dict[str, tuple[int, Callable[[np.ndarray], np.ndarray]]] = {
    "bilinear": (1, lambda d: np.maximum(1 - np.abs(d), 0)),
    "bicubic": (2, lambda d: _cubic_weight(d, -0.5)),
    "lanczos": (3, _lanczos_weight),
}  # fmt: skip


def _antialiased(axis: _Axis, mode: str) -> np.ndarray:
    """The matrix ``(before, after)`` of a filter that is as wide as an output element."""
    reach, weigh = _FILTERS[mode]
    step = float(axis.step())
    support, shrink = (reach * step, 1 / step) if step >= 1 else (float(reach), 1.0)
    matrix = np.zeros((axis.before, axis.after))
    for i in range(axis.after):
        centre = step * (i + 0.5)
        low = max(int(centre - support + 0.5), 0)
        high = min(int(centre + support + 0.5), axis.before)
        weights = weigh((np.arange(low, high) - centre + 0.5) * shrink)
        total = weights.sum()
        matrix[low:high, i] = weights / total if total else weights
    return matrix


def _sum_of_taps(x: Tensor, place: int, taps: Taps) -> Tensor:
    """The weighted sum of the elements along the axis ``place`` that the taps name."""
    parts = [
        record(take_node, x, lm.asarray(index), axis=place)  # which are inside: nothing is checked
        * lm.asarray(weight.reshape((-1,) + (1,) * (x.ndim - 1 - place)))
        for index, weight in taps
    ]
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total


def _transposed(taps: Taps, before: int) -> Taps | None:
    """The taps of the transpose, as many for each element before: which outputs read it, and how
    much of it. None where some are read by none, or by many.
    """
    shares: list[dict[int, Any]] = [{} for _ in range(before)]
    for index, weight in taps:
        for output, (place, share) in enumerate(zip(index.tolist(), weight, strict=True)):
            shares[place][output] = shares[place].get(output, 0) + share
    count = max(map(len, shares))
    if not all(shares) or count > _MANY:
        return None
    kind = taps[0][1].dtype
    lines = [sorted(read) + [min(read)] * (count - len(read)) for read in shares]
    weights = [[read[o] for o in sorted(read)] + [0] * (count - len(read)) for read in shares]
    outputs, found = np.array(lines, np.int64).T, np.array(weights, kind).T
    return [(outputs[k].copy(), found[k].copy()) for k in range(count)]


@lru_cache(maxsize=64)
def _both_ways(axis: _Axis, mode: str) -> tuple[Taps, Taps | None]:
    """The taps of a mode, and those of its transpose."""
    taps = _cubic(axis) if mode == "bicubic" else _linear(axis)
    return taps, _transposed(taps, axis.before)


def _by_taps(x: Tensor, place: int, axis: _Axis, mode: str) -> Tensor:
    """The sum of taps, whose derivative gathers as well where few outputs read an element."""
    taps, back = _both_ways(axis, mode)
    if back is None:
        return _sum_of_taps(x, place, taps)
    result: Tensor = linear_with_transpose(
        lambda x: _sum_of_taps(x, place, taps), lambda g: _sum_of_taps(g, place, back), x
    )
    return result


def _resized(x: Tensor, place: int, axis: _Axis, mode: str, antialias: bool) -> Tensor:
    """``x`` with one axis resized."""
    if mode in ("nearest", "nearest-exact"):
        return _repeated(x, place, axis, _nearest(axis, mode == "nearest-exact"))
    if antialias:
        matrix = lm.asarray(_antialiased(axis, mode).astype(axis.kind))
        return lm.moveaxis(lm.matmul(lm.moveaxis(x, place, -1), matrix), -1, place)
    return _by_taps(x, place, axis, mode)


def _repeated(x: Tensor, place: int, axis: _Axis, index: np.ndarray) -> Tensor:
    """The elements at ``index``; a whole factor is a repetition, which costs nothing."""
    times = axis.after // axis.before
    if axis.after % axis.before == 0 and (index == np.arange(axis.after) // times).all():
        return x if times == 1 else lm.repeat_interleave(x, times, axis=place)
    return lm.take(x, index, axis=place)


def interpolate(
    input: Any, size: Any = None, scale_factor: Any = None, mode: str = "nearest",
    align_corners: bool | None = None, recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Tensor:  # fmt: skip
    """``(N, C, *spatial)`` resized to ``(N, C, *size)``.

    Args:
        input: one to three spatial axes.
        size: the new sizes, one number per axis or one for all; or
        scale_factor: by what to multiply the sizes, likewise (rounded down).
        mode: ``"nearest"``, ``"nearest-exact"``, ``"area"``, ``"linear"`` (one spatial axis),
            ``"bilinear"``, ``"bicubic"`` or ``"lanczos"`` (two; the last with ``antialias``),
            ``"trilinear"`` (three).
        align_corners: for the linear modes and bicubic, whether the centres of the corner elements
            stay in place, instead of their outer corners.
        recompute_scale_factor: whether positions follow from the rounded sizes, not from
            ``scale_factor``.
        antialias: whether to average over what shrinks (bilinear, bicubic and lanczos).

    Raises:
        ShapeError: for another number of axes, or sizes of 0.
        OptionError: for options that are unknown or exclude each other.
        DTypeError: if a mode that computes averages gets integers.

    >>> interpolate(lm.asarray([[[1.0, 2.0]]]), scale_factor=2, mode="linear").tolist()
    [[[1.0, 1.25, 1.75, 2.0]]]
    """
    x = tensor(input)
    check_rank("interpolate", x, (3, 4, 5), "(N, C, *spatial) with one to three spatial axes")
    rank = x.ndim - 2
    _check_mode(mode, rank, align_corners, antialias)
    sizes, factors = _sizes(x, size, scale_factor)
    if recompute_scale_factor or mode == "area":
        if recompute_scale_factor and size is not None:
            raise OptionError(
                "[interpolate] recompute_scale_factor with size; it belongs to scale_factor"
            )
        factors = (None,) * rank
    if mode == "area":
        return _AREA[rank](x, sizes)
    if mode not in ("nearest", "nearest-exact"):
        check_float("interpolate", x)
    kind = np.float64 if x.dtype.bits == 64 else np.float32
    y = wide_of(x)
    for place in reversed(range(2, x.ndim)):
        before, after = int(x.shape[place]), sizes[place - 2]
        axis = _Axis(before, after, factors[place - 2], bool(align_corners), kind)
        y = _resized(y, place, axis, mode, antialias)
    return y.astype(x.dtype)


def _check_mode(mode: str, rank: int, align_corners: bool | None, antialias: bool) -> None:
    choose("interpolate", "mode", mode, tuple(_RANKS))
    if rank not in _RANKS[mode]:
        fitting = [each for each, ranks in _RANKS.items() if rank in ranks]
        raise OptionError(
            f"[interpolate] mode={mode!r} is not for {rank} spatial axes; choose one of {fitting}"
        )
    if align_corners is not None and mode not in _ALIGNED:
        raise OptionError(
            f"[interpolate] align_corners with mode={mode!r}; it is for {', '.join(_ALIGNED)}"
        )
    if antialias and mode not in _FILTERS:
        raise OptionError(
            f"[interpolate] antialias with mode={mode!r}; it is for {', '.join(_FILTERS)}"
        )
    if mode == "lanczos" and not antialias:
        raise OptionError("[interpolate] mode='lanczos' is for antialias=True only")


def _sizes(
    x: Tensor, size: Any, scale_factor: Any
) -> tuple[tuple[int, ...], tuple[float | None, ...]]:
    """The new sizes, and the factors if they were given."""
    rank = x.ndim - 2
    spatial = [int(each) for each in x.shape[2:]]
    if (size is None) == (scale_factor is None):
        raise OptionError("[interpolate] give either size or scale_factor")
    if 0 in spatial:
        raise ShapeError(
            f"[interpolate] input of shape {tuple(x.shape)} has an empty spatial axis, which "
            "cannot be resized"
        )
    if size is not None:
        return per_axis("interpolate", "size", size, rank, 1), (None,) * rank
    one = isinstance(scale_factor, int | float)
    factors = (scale_factor,) * rank if one else tuple(scale_factor)
    if len(factors) != rank or not all(factor > 0 for factor in factors):
        raise OptionError(
            f"[interpolate] scale_factor={scale_factor!r}; give a positive number, or {rank} of "
            "them, one for each spatial axis"
        )
    sizes = tuple(math.floor(s * factor) for s, factor in zip(spatial, factors, strict=True))
    return per_axis("interpolate", "size", sizes, rank, 1), factors


def upsample(
    input: Any, size: Any = None, scale_factor: Any = None, mode: str = "nearest",
    align_corners: bool | None = None,
) -> Tensor:  # fmt: skip
    """:func:`interpolate` by its old name.

    >>> upsample(lm.asarray([[[1.0, 2.0]]]), scale_factor=2).tolist()
    [[[1.0, 1.0, 2.0, 2.0]]]
    """
    return interpolate(input, size, scale_factor, mode, align_corners)


def upsample_nearest(
    input: Any, size: Any = None, scale_factor: float | Sequence[float] | None = None
) -> Tensor:
    """:func:`interpolate` with ``mode="nearest"``.

    >>> upsample_nearest(lm.asarray([[[1.0, 2.0]]]), size=3).tolist()
    [[[1.0, 1.0, 2.0]]]
    """
    return interpolate(input, size, scale_factor, "nearest")


def upsample_bilinear(
    input: Any, size: Any = None, scale_factor: float | Sequence[float] | None = None
) -> Tensor:
    """:func:`interpolate` with ``mode="bilinear"`` and ``align_corners=True``.

    >>> upsample_bilinear(lm.asarray([[[[1.0, 3.0]]]]), size=(1, 3)).tolist()
    [[[[1.0, 2.0, 3.0]]]]
    """
    return interpolate(input, size, scale_factor, "bilinear", align_corners=True)
