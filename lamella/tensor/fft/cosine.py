"""Discrete cosine transforms of types 2 and 3, by a Fourier transform of the same length.

Method: Makhoul, A fast cosine transform in one and two dimensions, 1980.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from lamella.errors import DTypeError, OptionError
from lamella.tensor.axes import axis_of
from lamella.tensor.complex import complex, real
from lamella.tensor.core import wrap
from lamella.tensor.creation import asarray
from lamella.tensor.fft.transforms import axes_and_lengths, fft, fitted, ifft, length_of
from lamella.tensor.joining import concat
from lamella.tensor.manipulation import flip, moveaxis
from lamella.tensor.operands import TensorLike, as_float, as_node
from lamella.tensor.searching import take

if TYPE_CHECKING:
    from lamella.tensor.tensor import Tensor

__all__ = ["dct", "dctn", "idct", "idctn"]


def _checked(name: str, x: TensorLike, type: int, norm: str | None) -> Any:
    if type not in (2, 3):
        raise OptionError(f"[{name}] type {type!r:.40} is not there; use 2 or 3")
    if norm not in (None, "backward", "ortho"):
        raise OptionError(f"[{name}] norm={norm!r:.40} is no scaling; use None or 'ortho'")
    node = as_float(as_node(x))
    if node.dtype.kind == "c":
        raise DTypeError(f"[{name}] operand of {node.dtype.name}; transform its parts")
    return wrap(node)


def _angles(n: int, dtype: Any) -> tuple[Any, Any]:
    angle = np.arange(n) * (math.pi / (2 * n))
    return asarray(np.cos(angle), dtype=dtype), asarray(np.sin(angle), dtype=dtype)


def _scaled(x: Any, n: int, up: bool) -> Any:
    """The orthogonal scaling of type 2, or taken back."""
    scale = np.full(n, math.sqrt(1 / (2 * n)))
    scale[0] = math.sqrt(1 / (4 * n))
    return x * asarray(scale if up else 1 / scale, dtype=x.dtype)


def _second(x: Any) -> Any:
    """``2 Σ x[j] cos(π k (2j + 1) / (2n))`` along the last axis."""
    n = x.shape[-1]
    spectrum = fft(concat([x[..., ::2], flip(x[..., 1::2], axis=-1)], -1))
    c, s = _angles(n, x.dtype)
    return 2 * real(spectrum * complex(c, -s))


def _second_inverse(y: Any) -> Any:
    """What :func:`_second` gave ``y`` for."""
    n = y.shape[-1]
    c, s = _angles(n, y.dtype)
    turned = flip(y, axis=-1)
    rest = concat([y[..., :1] * 0, turned[..., :-1]], -1)
    v = real(ifft(complex(y * c + rest * s, y * s - rest * c))) * 0.5
    order = np.empty(n, np.int64)
    order[::2], order[1::2] = np.arange((n + 1) // 2), np.arange(n - 1, (n - 1) // 2, -1)
    return take(v, order, axis=-1)


def _third(x: Any) -> Any:
    """The transpose of type 2 up to the scaling: ``x[0] + 2 Σ x[j] cos(π j (2k + 1) / (2n))``."""
    return _second_inverse(x) * (2 * x.shape[-1])


def _along(name: str, x: Any, kind: int, n: Any, axis: int, norm: str | None) -> Any:
    place = axis_of(name, axis, x.shape)
    size = length_of(name, n, x.shape[place])
    moved = fitted(moveaxis(x, place, -1), size)
    if kind == 2:
        found = _second(moved)
        found = _scaled(found, size, True) if norm == "ortho" else found
    elif norm == "ortho":
        found = _second_inverse(_scaled(moved, size, False))
    else:
        found = _third(moved)
    return moveaxis(found, -1, place)


def dct(
    x: TensorLike, type: int = 2, n: int | None = None, axis: int = -1, norm: str | None = None
) -> Tensor:
    """The discrete cosine transform along ``axis``: of type 2 ``2 Σ x[j] cos(π k (2j + 1) / (2n))``
    and of type 3 ``x[0] + 2 Σ x[j] cos(π j (2k + 1) / (2n))``; "ortho" makes both orthogonal.

    Raises:
        OptionError: for another type or ``norm``.
        DTypeError: for complex numbers.

    >>> dct([1.0, 1.0]).round(decimals=4).tolist()
    [4.0, 0.0]
    """
    return _along("dct", _checked("dct", x, type, norm), type, n, axis, norm)  # type: ignore[no-any-return]


def idct(
    x: TensorLike, type: int = 2, n: int | None = None, axis: int = -1, norm: str | None = None
) -> Tensor:
    """The inverse of :func:`dct` with the same options.

    >>> idct([4.0, 0.0]).round(decimals=4).tolist()
    [1.0, 1.0]
    """
    return _back("idct", _checked("idct", x, type, norm), type, n, axis, norm)  # type: ignore[no-any-return]


def _back(name: str, x: Any, kind: int, n: Any, axis: int, norm: str | None) -> Any:
    """The inverse of :func:`_along`."""
    found = _along(name, x, 5 - kind, n, axis, norm)
    return found if norm == "ortho" else found / (2 * found.shape[axis_of(name, axis, x.shape)])


def _several(
    name: str, one: Callable[..., Any], x: TensorLike, kind: int, s: Any, axes: Any,
    norm: str | None,
) -> Any:  # fmt: skip
    """One axis after the other."""
    found = _checked(name, x, kind, norm)
    for place, length in zip(*axes_and_lengths(name, found.node, s, axes), strict=True):
        found = one(name, found, kind, length, place, norm)
    return found


def dctn(
    x: TensorLike,
    type: int = 2,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str | None = None,
) -> Tensor:
    """:func:`dct` along several axes, by default all, of sizes ``s``.

    >>> dctn([[1.0, 1.0]]).round(decimals=4).tolist()
    [[8.0, 0.0]]
    """
    return _several("dctn", _along, x, type, s, axes, norm)  # type: ignore[no-any-return]


def idctn(
    x: TensorLike,
    type: int = 2,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str | None = None,
) -> Tensor:
    """The inverse of :func:`dctn` with the same options.

    >>> idctn([[8.0, 0.0]]).round(decimals=4).tolist()
    [[1.0, 1.0]]
    """
    return _several("idctn", _back, x, type, s, axes, norm)  # type: ignore[no-any-return]
