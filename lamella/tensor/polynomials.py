"""Polynomials as NumPy has them: coefficients in a vector, the highest power first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from lamella.errors import OptionError, ShapeError
from lamella.tensor.core import wrap
from lamella.tensor.creation import asarray, ones, zeros
from lamella.tensor.decomposition import eigvals
from lamella.tensor.indexing import At
from lamella.tensor.joining import concat, stack
from lamella.tensor.operands import TensorLike, as_float, as_node
from lamella.tensor.sequences import convolve
from lamella.tensor.solving import lstsq
from lamella.tensor.transcendental import sqrt
from lamella.tensor.triangles import vander

if TYPE_CHECKING:
    from lamella.tensor.tensor import Tensor

__all__ = [
    "poly", "polyadd", "polyder", "polydiv", "polyfit", "polyint", "polymul", "polysub", "roots",
]  # fmt: skip


def _vector(name: str, p: TensorLike) -> Any:
    x: Any = wrap(as_node(p))
    if x.ndim > 1:
        raise ShapeError(f"[{name}] coefficients of shape {x.shape}; give a vector")
    return x.reshape(-1)


def _widened(p: Any, size: int) -> Any:
    return p if p.shape[0] == size else concat([zeros(size - p.shape[0], dtype=p.dtype), p])


def polyadd(a1: TensorLike, a2: TensorLike) -> Tensor:
    """The sum of two polynomials.

    >>> polyadd([1, 2], [3, 4, 5]).tolist()
    [3, 5, 7]
    """
    p, q = _vector("polyadd", a1), _vector("polyadd", a2)
    size = max(p.shape[0], q.shape[0])
    return _widened(p, size) + _widened(q, size)  # type: ignore[no-any-return]


def polysub(a1: TensorLike, a2: TensorLike) -> Tensor:
    """The difference of two polynomials.

    >>> polysub([1, 2], [3, 4, 5]).tolist()
    [-3, -3, -3]
    """
    return polyadd(a1, -_vector("polysub", a2))


def polymul(a1: TensorLike, a2: TensorLike) -> Tensor:
    """The product of two polynomials.

    >>> polymul([1, 2], [1, 3]).tolist()
    [1, 5, 6]
    """
    return convolve(_vector("polymul", a1), _vector("polymul", a2))


def polydiv(u: TensorLike, v: TensorLike) -> tuple[Tensor, Tensor]:
    """Quotient and remainder of the polynomial ``u`` by ``v``, whose first coefficient is not 0;
    the remainder has as many coefficients as ``v`` less one, zeros first.

    >>> [part.tolist() for part in polydiv([1.0, 5.0, 6.0], [1.0, 2.0])]
    [[1.0, 3.0], [0.0]]
    """
    rest, divisor = (wrap(as_float(as_node(_vector("polydiv", p)))) for p in (u, v))
    steps, size = rest.shape[0] - divisor.shape[0] + 1, divisor.shape[0]
    if steps < 1:
        return zeros(1, dtype=rest.dtype), rest
    found = []
    for k in range(steps):
        factor = rest[k] / divisor[0]
        found.append(factor)
        rest = At(rest)[k : k + size].add(-factor * divisor)
    return stack(found), rest[steps:] if size > 1 else zeros(1, dtype=rest.dtype)


def polyder(p: TensorLike, m: int = 1) -> Tensor:
    """The derivative of order ``m``.

    >>> polyder([1, 2, 3]).tolist()
    [2, 2]
    """
    x = _vector("polyder", p)
    if not isinstance(m, int) or m < 0:
        raise OptionError(f"[polyder] order {m!r:.40} is no whole number from 0 on; give one")
    for _ in range(m):
        x = x[:-1] * np.arange(x.shape[0] - 1, 0, -1)
    return x  # type: ignore[no-any-return]


def polyint(p: TensorLike, m: int = 1, k: TensorLike = 0) -> Tensor:
    """The integral of order ``m`` with the constants ``k``, one an order, the outermost last.

    >>> polyint([2.0, 2.0], k=3).tolist()
    [1.0, 2.0, 3.0]
    """
    x: Any = wrap(as_float(as_node(_vector("polyint", p))))
    if not isinstance(m, int) or m < 0:
        raise OptionError(f"[polyint] order {m!r:.40} is no whole number from 0 on; give one")
    ends: Any = _vector("polyint", k)
    for j in range(m):
        end = ends[j if ends.shape[0] > 1 else 0].astype(x.dtype).reshape(1)
        scale = asarray(1.0 / np.arange(x.shape[0], 0, -1), dtype=x.dtype)
        x = concat([x * scale, end])
    return x  # type: ignore[no-any-return]


def polyfit(x: TensorLike, y: TensorLike, deg: int, *, w: TensorLike | None = None) -> Tensor:
    """The polynomial of degree ``deg`` closest to ``y`` at ``x`` in the squares of the differences,
    times the weights ``w``; a column of ``y`` for each, if it has two axes.

    >>> polyfit([0.0, 1.0, 2.0], [1.0, 3.0, 5.0], 1).round(decimals=4).tolist()
    [2.0, 1.0]
    """
    places = wrap(as_float(as_node(x)))
    values = wrap(as_float(as_node(y)))
    matrix: Any = vander(places, deg + 1)
    single = values.ndim == 1
    target: Any = values[:, None] if single else values
    if w is not None:
        weight: Any = wrap(as_node(w, matrix.dtype))[:, None]
        matrix, target = matrix * weight, target * weight
    scale = sqrt((matrix * matrix).sum(0))
    found: Any = lstsq(matrix / scale, target)[0] / scale[:, None]
    return found[:, 0] if single else found  # type: ignore[no-any-return]


def roots(p: TensorLike) -> Tensor:
    """The roots, complex, as the eigenvalues of the companion matrix. The coefficients are looked
    at: leading and trailing zeros are taken off.

    >>> sorted(z.real for z in roots([1.0, -3.0, 2.0]).round(decimals=4).tolist())
    [1.0, 2.0]
    """
    x: Any = wrap(as_float(as_node(_vector("roots", p))))
    places = np.flatnonzero(x.numpy())
    if not len(places):
        return zeros(0, dtype="complex64")
    kept, tail = x[int(places[0]) : int(places[-1]) + 1], x.shape[0] - 1 - int(places[-1])
    size = kept.shape[0] - 1
    first = -kept[1:] / kept[0]
    shift = asarray(np.eye(size, k=-1), dtype=x.dtype)
    found: Any = zeros(0, dtype="complex128" if x.dtype.name == "float64" else "complex64")
    if size:
        found = eigvals(At(shift)[0].set(first) if size > 1 else first.reshape(1, 1))
    return concat([found, zeros(tail, dtype=found.dtype)])


def poly(seq_of_zeros: TensorLike) -> Tensor:
    """The polynomial with the given roots and the first coefficient 1; of a square matrix the
    characteristic one, complex.

    >>> poly([1.0, 2.0]).tolist()
    [1.0, -3.0, 2.0]
    """
    z: Any = wrap(as_float(as_node(seq_of_zeros)))
    if z.ndim == 2:
        z = eigvals(z)
    found: Any = ones(1, dtype=z.dtype)
    for k in range(z.shape[0]):
        found = concat([found, zeros(1, dtype=z.dtype)]) - concat(
            [zeros(1, dtype=z.dtype), found * z[k]]
        )
    return found  # type: ignore[no-any-return]
