"""Convolution and correlation in any number of axes, trends, and reading between the elements of a
grid, as ``scipy.signal`` and ``scipy.ndimage`` have them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from lamella.errors import OptionError, ShapeError, did_you_mean
from lamella.tensor.axes import axis_of
from lamella.tensor.comparison import floor, round, where
from lamella.tensor.core import wrap
from lamella.tensor.creation import asarray
from lamella.tensor.fft.transforms import fftn, ifftn, irfftn, rfftn
from lamella.tensor.manipulation import flip, moveaxis
from lamella.tensor.operands import TensorLike, as_float, as_node, pair
from lamella.tensor.padding import pad
from lamella.tensor.reduction import mean

if TYPE_CHECKING:
    from lamella.tensor.tensor import Tensor

__all__ = [
    "convolve", "convolve2d", "correlate", "correlate2d", "detrend", "fftconvolve",
    "map_coordinates",
]  # fmt: skip

_DIRECT: Final = 64  # elements of the smaller operand up to which it is run over directly
_MODES: Final = ("full", "same", "valid")


def _operands(name: str, x: TensorLike, y: TensorLike, mode: str) -> tuple[Any, Any]:
    if mode not in _MODES:
        raise OptionError(f"[{name}] mode={mode!r:.40} is none; {did_you_mean(mode, [*_MODES])}")
    a, b = (wrap(node) for node in pair(name, x, y))
    if a.ndim != b.ndim or 0 in (*a.shape, *b.shape):
        raise ShapeError(
            f"[{name}] shapes {a.shape} and {b.shape}; give as many axes to each, none empty"
        )
    return a, b


def _cut(full: Any, first: Any, second: Any, mode: str) -> Any:
    """The part of the full result that ``mode`` wants."""
    if mode == "full":
        return full
    place = []
    for size, m, n in zip(full.shape, first.shape, second.shape, strict=True):
        wanted = m if mode == "same" else max(m, n) - min(m, n) + 1
        start = (size - wanted) // 2
        place.append(slice(start, start + wanted))
    return full[tuple(place)]


def _direct(x: Any, kernel: Any) -> Any:
    """The full convolution as a sum over the kernel's elements."""
    edges = [(n - 1, n - 1) for n in kernel.shape]
    sizes = [m + n - 1 for m, n in zip(x.shape, kernel.shape, strict=True)]
    wide, total = pad(x, edges), None
    for index in itertools.product(*(range(n) for n in kernel.shape)):
        starts = [n - 1 - k for n, k in zip(kernel.shape, index, strict=True)]
        window = wide[tuple(slice(s, s + m) for s, m in zip(starts, sizes, strict=True))]
        term = window * kernel[index]
        total = term if total is None else total + term
    return total


def _by_fft(x: Any, y: Any) -> Any:
    """The full convolution by Fourier transforms."""
    sizes = [m + n - 1 for m, n in zip(x.shape, y.shape, strict=True)]
    if "c" in (x.dtype.kind, y.dtype.kind):
        return ifftn(fftn(x, sizes) * fftn(y, sizes), sizes)
    spectrum = rfftn(x, sizes) * rfftn(y, sizes)
    return irfftn(spectrum, sizes)


def _convolved(name: str, x: Any, y: Any, mode: str, method: str) -> Any:
    if method not in ("auto", "direct", "fft"):
        raise OptionError(f"[{name}] method={method!r:.40}; use auto, direct or fft")
    small, large = (x, y) if math.prod(x.shape) < math.prod(y.shape) else (y, x)
    direct = method == "direct" or (method == "auto" and math.prod(small.shape) <= _DIRECT)
    if direct:
        full = _direct(large, small)
    else:
        floats = [wrap(as_float(as_node(v))) for v in (x, y)]
        full = _by_fft(*floats)
        full = round(full).astype(x.dtype) if x.dtype.kind in "iu" else full
    return _cut(full, x, y, mode)


def convolve(
    in1: TensorLike, in2: TensorLike, mode: str = "full", method: str = "auto"
) -> Tensor:
    """``Σ in1[j] in2[k - j]`` over all axes.

    Args:
        in1: any shape; its size counts for "same".
        in2: as many axes.
        mode: "full", "same" or "valid" (only where the operands overlap wholly).
        method: "direct" sums over the elements of the smaller operand (as "auto" does for up to
            64), "fft" multiplies Fourier transforms, with an error relative to the largest value.

    Raises:
        OptionError: for another mode or method.
        ShapeError: if the numbers of axes differ or an operand is empty.

    >>> convolve([1, 2], [1, 3]).tolist()
    [1, 5, 6]
    """
    x, y = _operands("convolve", in1, in2, mode)
    return _convolved("convolve", x, y, mode, method)  # type: ignore[no-any-return]


def correlate(
    in1: TensorLike, in2: TensorLike, mode: str = "full", method: str = "auto"
) -> Tensor:
    """``Σ in1[j] conj(in2[j - k])`` over all axes, :func:`convolve` with ``in2`` turned round.

    >>> correlate([1, 2], [3, 1]).tolist()
    [1, 5, 6]
    """
    x, y = _operands("correlate", in1, in2, mode)
    return _convolved("correlate", x, flip(y).conj(), mode, method)  # type: ignore[no-any-return]


def fftconvolve(in1: TensorLike, in2: TensorLike, mode: str = "full") -> Tensor:
    """:func:`convolve` by Fourier transforms.

    >>> fftconvolve([1.0, 2.0], [1.0, 3.0]).round(decimals=4).tolist()
    [1.0, 5.0, 6.0]
    """
    x, y = _operands("fftconvolve", in1, in2, mode)
    return _convolved("fftconvolve", x, y, mode, "fft")  # type: ignore[no-any-return]


def _plane(name: str, x: TensorLike, y: TensorLike, mode: str) -> tuple[Any, Any]:
    a, b = _operands(name, x, y, mode)
    if a.ndim != 2:
        raise ShapeError(f"[{name}] shapes {a.shape} and {b.shape}; give two matrices")
    return a, b


def convolve2d(in1: TensorLike, in2: TensorLike, mode: str = "full") -> Tensor:
    """:func:`convolve` of two matrices, zeros beyond the edges.

    >>> convolve2d([[1, 2]], [[1, 3]]).tolist()
    [[1, 5, 6]]
    """
    x, y = _plane("convolve2d", in1, in2, mode)
    return _convolved("convolve2d", x, y, mode, "auto")  # type: ignore[no-any-return]


def correlate2d(in1: TensorLike, in2: TensorLike, mode: str = "full") -> Tensor:
    """:func:`correlate` of two matrices, zeros beyond the edges.

    >>> correlate2d([[1, 2]], [[3, 1]]).tolist()
    [[1, 5, 6]]
    """
    x, y = _plane("correlate2d", in1, in2, mode)
    turned = flip(y).conj()
    full = _convolved("correlate2d", x, turned, "full", "auto")
    if mode != "same":
        return _cut(full, x, y, mode)  # type: ignore[no-any-return]
    starts = [n // 2 for n in y.shape]  # SciPy's centre of an even kernel, from the other side
    place = tuple(slice(s, s + m) for s, m in zip(starts, x.shape, strict=True))
    return full[place]  # type: ignore[no-any-return]


def detrend(data: TensorLike, axis: int = -1, type: str = "linear") -> Tensor:
    """``data`` less the straight line ("linear") or the mean ("constant") closest to it along
    ``axis``.

    Raises:
        OptionError: for another type.

    >>> detrend([1.0, 2.0, 3.0]).round(decimals=4).tolist()
    [0.0, 0.0, 0.0]
    """
    if type not in ("linear", "constant"):
        raise OptionError(f"[detrend] type={type!r:.40}; use linear or constant")
    x: Any = wrap(as_float(as_node(data)))
    place = axis_of("detrend", axis, x.shape)
    moved = moveaxis(x, place, -1)
    rest = moved - mean(moved, -1, keepdims=True)
    if type == "linear":
        along = np.arange(moved.shape[-1]) - (moved.shape[-1] - 1) / 2
        line = asarray(along, dtype=rest.dtype)
        square = max(float((along * along).sum()), 1e-300)
        rest = rest - line * ((rest * line).sum(-1, keepdims=True) / square)
    return moveaxis(rest, -1, place)


# -- grids -----------------------------------------------------------------------------------------
def _folded(place: Any, size: int, mode: str) -> Any:
    """Whole positions brought inside the axis."""
    if mode in ("constant", "nearest"):
        return place.clip(0, size - 1)
    if mode == "wrap":
        return place % size
    period = 2 * size if mode == "reflect" else max(2 * (size - 1), 1)
    inside = place % period
    last = period - 1 - inside if mode == "reflect" else period - inside
    return where(inside < size, inside, last)


def map_coordinates(
    input: TensorLike,
    coordinates: Sequence[TensorLike] | TensorLike,
    order: int = 1,
    mode: str = "constant",
    cval: float = 0.0,
) -> Tensor:
    """``input`` read at places between its elements.

    Args:
        input: any shape, floating point or integer.
        coordinates: one tensor of positions an axis, of one shape.
        order: 0 takes the nearest element, 1 interpolates linearly.
        mode: what is beyond the edges: "constant" (``cval``), "nearest" (the edge), "wrap" (with
            the period of the size), "mirror" (about the last element), "reflect" (about its edge).
        cval: the value of "constant".

    Raises:
        OptionError: for another order or mode.
        ShapeError: unless there are as many coordinates as axes.

    >>> map_coordinates([0.0, 2.0, 4.0], [[0.5, 1.25]]).tolist()
    [1.0, 2.5]
    """
    modes = ["constant", "nearest", "wrap", "mirror", "reflect"]
    if mode not in modes:
        hint = did_you_mean(mode, modes)
        raise OptionError(f"[map_coordinates] mode={mode!r:.40} is none; {hint}")
    if order not in (0, 1):
        raise OptionError(f"[map_coordinates] order={order!r:.40} is not there; use 0 or 1")
    x: Any = wrap(as_node(input))
    places = [wrap(as_float(as_node(c))) for c in coordinates]  # type: ignore[union-attr]
    if len(places) != x.ndim:
        raise ShapeError(
            f"[map_coordinates] {len(places)} coordinates for shape {x.shape}; give one an axis"
        )
    sides = [_sides(c, order) for c in places]
    total: Any = None
    for corner in itertools.product(*sides):
        index: list[Any] = []
        weight: Any = None
        inside: Any = None
        for size, (whole, share) in zip(x.shape, corner, strict=True):
            good = (whole >= 0) & (whole < size)
            inside = good if inside is None else inside & good
            weight = share if weight is None else weight * share
            index.append(_folded(whole, size, mode))
        value = x[tuple(index)]
        if mode == "constant":
            value = where(inside, value, asarray(cval, dtype=x.dtype))
        term = value if order == 0 else value * weight
        total = term if total is None else total + term
    whole_numbers = x.dtype.kind in "iu" and order
    return round(total).astype(x.dtype) if whole_numbers else total


def _sides(place: Any, order: int) -> list[tuple[Any, Any]]:
    """The whole positions beside each place, and their weights."""
    if order == 0:
        return [(floor(place + 0.5).astype("int64"), None)]
    low = floor(place)
    share = place - low
    first = low.astype("int64")
    return [(first, 1 - share), (first + 1, share)]
