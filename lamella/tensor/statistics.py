"""PyTorch's functions of values along an axis that NumPy has not: modes, cumulative logarithms and
integrals, histograms of equal bins, norms that are bounded.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from lamella import ops
from lamella.errors import DTypeError, OptionError, ShapeError
from lamella.tensor.axes import axis_of
from lamella.tensor.comparison import where
from lamella.tensor.core import wrap
from lamella.tensor.counting import histogram
from lamella.tensor.creation import arange
from lamella.tensor.elementwise import logaddexp
from lamella.tensor.joining import diff, stack
from lamella.tensor.manipulation import expand_dims, moveaxis
from lamella.tensor.norms import vector_norm
from lamella.tensor.operands import TensorLike, as_float, as_node, new_tensor
from lamella.tensor.padding import pad
from lamella.tensor.pytorch import Chosen
from lamella.tensor.reduction import argmax, cummax, cumsum
from lamella.tensor.searching import argsort, nonzero, take_along_axis

if TYPE_CHECKING:
    from lamella.tensor.tensor import Tensor

__all__ = [
    "cumulative_trapezoid", "histc", "logcumsumexp", "mode", "nonzero_static", "renorm",
]  # fmt: skip


def mode(input: TensorLike, dim: int = -1, keepdim: bool = False) -> Chosen:
    """The most frequent values along ``dim``, the smallest of several, and the last position of
    each.

    Raises:
        ShapeError: for an axis without elements.

    >>> values, indices = mode([3, 1, 1, 2])
    >>> values.item(), indices.item()
    (1, 2)
    """
    x = new_tensor(input)
    if x.ndim == 0:
        return Chosen(x, wrap(ops.full(0, (), as_node(0).dtype)))
    axis = axis_of("mode", dim, x.shape)
    if x.shape[axis] == 0:
        raise ShapeError(f"[mode] axis {dim} of shape {x.shape} is empty; give one with elements")
    order = argsort(x, axis=axis, stable=True)
    ordered = moveaxis(take_along_axis(x, order, axis), axis, -1)
    place = arange(ordered.shape[-1])
    new = ordered[..., 1:] != ordered[..., :-1]
    start = where(_with_first(new), place, 0)
    length = place - cummax(start, -1)
    last = argmax(length, -1)  # the end of the longest run, the first of several
    chosen = expand_dims(last, -1)
    values = take_along_axis(ordered, chosen, -1)
    indices = take_along_axis(moveaxis(order, axis, -1), chosen, -1)
    found = (moveaxis(values, -1, axis), moveaxis(indices, -1, axis))
    return Chosen(*found) if keepdim else Chosen(*(f.squeeze(axis) for f in found))


def _with_first(new: Any) -> Any:
    return pad(new, [(0, 0)] * (new.ndim - 1) + [(1, 0)])


def logcumsumexp(input: TensorLike, dim: int) -> Tensor:
    """``log Σ exp(x)`` of the elements so far along ``dim``, each sum relative to the largest so
    far.

    Raises:
        DTypeError: for complex numbers.

    >>> logcumsumexp([0.0, 0.0], 0).tolist()[0]
    0.0
    """
    x = wrap(as_float(as_node(input)))
    if x.dtype.kind == "c":
        raise DTypeError("[logcumsumexp] complex numbers have no largest; give real ones")
    axis = axis_of("logcumsumexp", dim, x.shape)
    total, reach = moveaxis(x, axis, -1), 1
    while reach < total.shape[-1]:  # sums of 1, 2, 4, … elements (Hillis and Steele, 1986)
        widths = [(0, 0)] * (total.ndim - 1) + [(reach, 0)]
        before = pad(total[..., :-reach], widths, constant_values=-math.inf)
        total, reach = logaddexp(total, before), 2 * reach
    return moveaxis(total, -1, axis)


def cumulative_trapezoid(
    y: TensorLike, x: TensorLike | None = None, *, dx: TensorLike = 1.0, dim: int = -1
) -> Tensor:
    """The integral so far along ``dim`` by the trapezoidal rule, one element shorter than ``y``.

    ``x`` are the places, of the shape of ``y`` or of its axis ``dim``; without, they are ``dx``
    apart. Integers are cast to float32.

    >>> cumulative_trapezoid([1.0, 2.0, 3.0]).tolist()
    [1.5, 4.0]
    """
    values = wrap(as_float(as_node(y)))
    axis = axis_of("cumulative_trapezoid", dim, values.shape)
    moved = moveaxis(values, axis, -1)
    width: Any = dx
    if x is not None:
        places = new_tensor(x)
        width = diff(places if places.ndim == 1 else moveaxis(places, axis, -1), axis=-1)
    return moveaxis(cumsum((moved[..., 1:] + moved[..., :-1]) * 0.5 * width, -1), -1, axis)


def histc(input: TensorLike, bins: int = 100, min: float = 0, max: float = 0) -> Tensor:
    """How many elements lie in each of ``bins`` equal parts of ``min`` to ``max``, of the element
    type of ``input``; where both are equal, the range of the elements.

    >>> histc([1.0, 2.0, 2.5], 2, 1.0, 3.0).tolist()
    [1.0, 2.0]
    """
    x = wrap(as_float(as_node(input)))
    ends = None if min == max else (float(min), float(max))
    return histogram(x.reshape(-1), bins, ends)[0].astype(x.dtype)


def renorm(input: TensorLike, p: float, dim: int, maxnorm: float) -> Tensor:
    """``input`` with the slices along ``dim`` whose ``p``-norm exceeds ``maxnorm`` scaled down to
    it.

    Raises:
        OptionError: for a negative ``maxnorm`` or ``p`` that is not positive.

    >>> renorm([[3.0, 4.0], [0.3, 0.4]], 2, 0, 1.0).round(decimals=4).tolist()[1]
    [0.30000001192092896, 0.4000000059604645]
    """
    if not (maxnorm >= 0 and p > 0):
        raise OptionError(f"[renorm] p={p}, maxnorm={maxnorm}; give p > 0 and a bound >= 0")
    x = new_tensor(input)
    axis = axis_of("renorm", dim, x.shape)
    axes = tuple(k for k in range(x.ndim) if k != axis)
    norm = vector_norm(x, axis=axes, keepdims=True, ord=p)
    return where(norm > maxnorm, x * (maxnorm / (norm + 1e-7)), x)


def nonzero_static(input: TensorLike, *, size: int, fill_value: int = -1) -> Tensor:
    """The places of ``size`` elements that are not 0, one a row, the rest ``fill_value``: a shape
    that is known in advance.

    >>> nonzero_static([0, 3, 4], size=3).tolist()
    [[1], [2], [-1]]
    """
    x = new_tensor(input)
    return stack(list(nonzero(x, size=size, fill_value=fill_value)), -1)
