"""The frequencies of transforms, and moving the zero frequency to the middle."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from lamella.dtypes import as_dtype, default_float
from lamella.errors import DTypeError, OptionError
from lamella.tensor.axes import Axes, axes_of
from lamella.tensor.core import wrap
from lamella.tensor.host import node_from_array
from lamella.tensor.manipulation import roll
from lamella.tensor.operands import TensorLike, as_node

if TYPE_CHECKING:
    from lamella.tensor.tensor import Tensor

__all__ = ["fftfreq", "fftshift", "ifftshift", "rfftfreq"]


def _frequencies(name: str, places: np.ndarray, n: Any, d: float, dtype: object) -> Tensor:
    kind = default_float() if dtype is None else as_dtype(dtype)
    if kind.kind != "f":
        raise DTypeError(f"[{name}] frequencies are real numbers, not {kind.name}; use a float")
    return wrap(node_from_array((places / (n * d)).astype(kind.numpy)))


def _length(name: str, n: Any) -> None:
    if not isinstance(n, int) or n < 1:
        raise OptionError(f"[{name}] n={n!r} is no length; give a positive integer")


def fftfreq(n: int, d: float = 1.0, *, dtype: object = None, device: object = None) -> Tensor:
    """The frequencies of :func:`fft` of length ``n`` with samples ``d`` apart:
    ``[0, 1, …, (n-1)//2, -(n//2), …, -1] / (n d)``.

    >>> fftfreq(4).tolist()
    [0.0, 0.25, -0.5, -0.25]
    """
    _length("fftfreq", n)
    places = (np.arange(n) + n // 2) % n - n // 2
    return _frequencies("fftfreq", places, n, d, dtype)


def rfftfreq(n: int, d: float = 1.0, *, dtype: object = None, device: object = None) -> Tensor:
    """The frequencies of :func:`rfft` of length ``n``: ``[0, 1, …, n//2] / (n d)``.

    >>> rfftfreq(4).tolist()
    [0.0, 0.25, 0.5]
    """
    _length("rfftfreq", n)
    return _frequencies("rfftfreq", np.arange(n // 2 + 1), n, d, dtype)


def _shifted(name: str, x: TensorLike, axes: Axes, back: bool) -> Tensor:
    node = as_node(x)
    places = axes_of(name, axes, node.shape)
    steps = [int(node.shape[axis]) // 2 for axis in places]
    if back:
        steps = [-step for step in steps]
    return roll(wrap(node), steps, places) if places else wrap(node)


def fftshift(x: TensorLike, axes: Axes = None) -> Tensor:
    """``x`` with the zero frequency moved to the middle of ``axes`` (None: all).

    >>> fftshift([0.0, 1.0, -2.0, -1.0]).tolist()
    [-2.0, -1.0, 0.0, 1.0]
    """
    return _shifted("fftshift", x, axes, False)


def ifftshift(x: TensorLike, axes: Axes = None) -> Tensor:
    """The inverse of :func:`fftshift`.

    >>> ifftshift([-1.0, 0.0, 1.0]).tolist()
    [0.0, 1.0, -1.0]
    """
    return _shifted("ifftshift", x, axes, True)
