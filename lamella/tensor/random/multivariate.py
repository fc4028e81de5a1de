"""Vectors and matrices: correlated normal numbers, balls, spheres, orthogonal matrices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lamella.dtypes import float32, float64
from lamella.errors import ShapeError
from lamella.ops.families import broadcast_shapes
from lamella.tensor.axes import shape_of
from lamella.tensor.core import wrap
from lamella.tensor.decomposition import cholesky, qr
from lamella.tensor.keywords import with_synonyms
from lamella.tensor.linalg import diagonal, matmul
from lamella.tensor.norms import vector_norm
from lamella.tensor.operands import TensorLike, as_float, as_node, cast
from lamella.tensor.random.domain import whole
from lamella.tensor.random.stream import (
    Source,
    float_dtype,
    normal_node,
    streams,
    unit_node,
)

if TYPE_CHECKING:
    from lamella.dtypes import DType
    from lamella.tensor.tensor import Tensor

__all__ = ["ball", "multivariate_normal", "orthogonal", "sphere"]


def _normals(source: Source, shape: Any, kind: DType) -> Tensor:
    work = float64 if kind is float64 else float32
    return wrap(normal_node(source, shape, work))


@with_synonyms
def multivariate_normal(
    mean: TensorLike, cov: TensorLike, shape: Any = None, dtype: object = None, key: Source = None
) -> Tensor:
    """Normal vectors of the given mean ``(..., d)`` and covariance ``(..., d, d)``: the mean plus
    the covariance's Cholesky factor times standard normal numbers. Differentiable by both.

    ``shape`` is that of the batch, without the last axis; by default that of the parameters.

    Raises:
        ShapeError: unless the covariance is a square matrix of the mean's length.

    >>> multivariate_normal([0.0, 1.0], [[2.0, 1.0], [1.0, 2.0]], (5,)).shape
    (5, 2)
    """
    middle, spread = as_float(as_node(mean)), as_float(as_node(cov))
    d = middle.shape[-1] if middle.ndim else 0
    if middle.ndim < 1 or spread.ndim < 2 or spread.shape[-2:] != (d, d):
        raise ShapeError(
            f"[multivariate_normal] mean {middle.shape} and covariance {spread.shape}: give "
            "(..., d) and (..., d, d)"
        )
    double = float64 in (middle.dtype, spread.dtype)
    kind = float_dtype("multivariate_normal", dtype or (float64 if double else float32))
    work = float64 if kind is float64 else float32
    own = broadcast_shapes("multivariate_normal", middle.shape[:-1], spread.shape[:-2])
    batch = own if shape is None else shape_of("multivariate_normal", shape)
    factor = cholesky(wrap(cast(spread, work)))
    z = _normals(key, (*batch, d), kind)
    moved = matmul(factor, z[..., None])[..., 0]
    return (wrap(cast(middle, work)) + moved).astype(kind)


@with_synonyms
def sphere(d: int, shape: Any = (), dtype: object = None, key: Source = None) -> Tensor:
    """Vectors of length 1 in ``d`` dimensions, in all directions alike: normal vectors over their
    length.

    >>> sphere(3, (4,)).shape
    (4, 3)
    """
    d = whole("sphere", "d", d, 1)
    kind = float_dtype("sphere", dtype)
    z = _normals(key, (*shape_of("sphere", shape), d), kind)
    return (z / vector_norm(z, -1, keepdims=True)).astype(kind)


@with_synonyms
def ball(d: int, shape: Any = (), dtype: object = None, key: Source = None) -> Tensor:
    """Points spread evenly over the ball of radius 1 in ``d`` dimensions: a direction times
    ``u^(1/d)``.

    >>> ball(3, (4,)).shape
    (4, 3)
    """
    d = whole("ball", "d", d, 1)
    kind = float_dtype("ball", dtype)
    sizes = shape_of("ball", shape)
    first, second = streams(key, 2)
    u = wrap(unit_node(second, (*sizes, 1), kind))
    return (sphere(d, sizes, dtype=u.dtype, key=first) * u ** (1 / d)).astype(kind)


@with_synonyms
def orthogonal(n: int, shape: Any = (), dtype: object = None, key: Source = None) -> Tensor:
    """Orthogonal matrices ``(n, n)``, spread evenly (by Haar's measure): the factor Q of normal
    numbers, its columns turned so that the diagonal of R is positive (Mezzadri, 2007).

    >>> orthogonal(3, (2,)).shape
    (2, 3, 3)
    """
    n = whole("orthogonal", "n", n, 1)
    kind = float_dtype("orthogonal", dtype)
    q, r = qr(_normals(key, (*shape_of("orthogonal", shape), n, n), kind))
    signs = diagonal(r).sign()
    return (q * signs[..., None, :]).astype(kind)
