"""Matrices with a pattern, and positions in tensors: triangles, diagonals, grids, flat indices.

Input: sizes and offsets, which are plain numbers, or tensors of positions. Output: tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from lamella import ops
from lamella.dtypes import as_dtype, default_float, int64
from lamella.errors import OptionError, ShapeError
from lamella.ir.node import Node
from lamella.tensor.axes import shape_of
from lamella.tensor.core import TensorCore, wrap
from lamella.tensor.host import node_from_array
from lamella.tensor.keywords import with_synonyms
from lamella.tensor.manipulation import diag
from lamella.tensor.operands import TensorLike, as_node, cast, scalar_node
from lamella.tensor.searching import flatnonzero, take_node

if TYPE_CHECKING:
    from lamella.tensor.tensor import Tensor

__all__ = [
    "diag_indices", "diag_indices_from", "diagflat", "fromfunction", "geomspace", "identity",
    "indices", "ix_", "ravel_multi_index", "tri", "tril_indices", "tril_indices_from",
    "triu_indices", "triu_indices_from", "unravel_index", "vander",
]  # fmt: skip


@with_synonyms
def tri(n: int, m: int | None = None, k: int = 0, dtype: object = None) -> Tensor:
    """Ones at and below diagonal ``k`` of an ``n`` × ``m`` matrix, zeros above.

    >>> tri(2, 3).tolist()
    [[1.0, 0.0, 0.0], [1.0, 1.0, 0.0]]
    """
    kind = default_float() if dtype is None else as_dtype(dtype)
    sizes = shape_of("tri", n, n if m is None else m)
    edge = ops.add(ops.iota(sizes, 0, int64), scalar_node(k, int64, "tri"))
    return wrap(cast(ops.less_equal(ops.iota(sizes, 1, int64), edge), kind))


def identity(n: int, dtype: object = None) -> Tensor:
    """The identity matrix of ``n`` rows.

    >>> identity(2).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    from lamella.tensor.creation import eye

    return eye(n, dtype=dtype)


def _positions(found: Sequence[np.ndarray]) -> tuple[Tensor, ...]:
    return tuple(wrap(node_from_array(np.asarray(i).astype(np.int64))) for i in found)


@with_synonyms
def tril_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Tensor, Tensor]:
    """Rows and columns of the elements at and below diagonal ``k`` of an ``n`` × ``m`` matrix.

    >>> [index.tolist() for index in tril_indices(2)]
    [[0, 1, 1], [0, 0, 1]]
    """
    rows, columns = _positions(np.tril_indices(n, k, m))
    return rows, columns


@with_synonyms
def triu_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Tensor, Tensor]:
    """Rows and columns of the elements at and above diagonal ``k`` of an ``n`` × ``m`` matrix.

    >>> [index.tolist() for index in triu_indices(2)]
    [[0, 0, 1], [0, 1, 1]]
    """
    rows, columns = _positions(np.triu_indices(n, k, m))
    return rows, columns


def _matrix_sizes(name: str, x: TensorLike) -> tuple[int, int]:
    shape = as_node(x).shape
    if len(shape) != 2:
        raise ShapeError(f"[{name}] shape {shape} is no matrix; give one")
    return int(shape[0]), int(shape[1])


def tril_indices_from(x: TensorLike, k: int = 0) -> tuple[Tensor, Tensor]:
    """:func:`tril_indices` of the size of a matrix.

    >>> tril_indices_from([[1, 2], [3, 4]])[0].tolist()
    [0, 1, 1]
    """
    rows, columns = _matrix_sizes("tril_indices_from", x)
    return tril_indices(rows, k, columns)


def triu_indices_from(x: TensorLike, k: int = 0) -> tuple[Tensor, Tensor]:
    """:func:`triu_indices` of the size of a matrix.

    >>> triu_indices_from([[1, 2], [3, 4]])[0].tolist()
    [0, 0, 1]
    """
    rows, columns = _matrix_sizes("triu_indices_from", x)
    return triu_indices(rows, k, columns)


def diag_indices(n: int, ndim: int = 2) -> tuple[Tensor, ...]:
    """The positions of the main diagonal of ``ndim`` axes of ``n``.

    >>> [index.tolist() for index in diag_indices(2)]
    [[0, 1], [0, 1]]
    """
    return _positions([np.arange(n)] * ndim)


def diag_indices_from(x: TensorLike) -> tuple[Tensor, ...]:
    """:func:`diag_indices` of the size of a tensor whose axes are equally long.

    >>> diag_indices_from([[1, 2], [3, 4]])[0].tolist()
    [0, 1]
    """
    shape = as_node(x).shape
    if len(shape) < 2 or len(set(shape)) != 1:
        raise ShapeError(f"[diag_indices_from] shape {shape}; give equally long axes, at least two")
    return diag_indices(int(shape[0]), len(shape))


def ix_(*vectors: TensorLike) -> tuple[Tensor, ...]:
    """Vectors of positions (or masks) each along an axis of its own: ``x[ix_(rows, columns)]``.

    >>> [index.shape for index in ix_([0, 1], [2, 3, 4])]
    [(2, 1), (1, 3)]
    """
    found = []
    for axis, vector in enumerate(vectors):
        node = as_node(vector)
        if node.ndim != 1:
            raise ShapeError(f"[ix_] shape {node.shape} is no vector; give one for each axis")
        if node.dtype.kind == "b":
            node = as_node(flatnonzero(wrap(node)))
        shape = tuple(node.shape[0] if a == axis else 1 for a in range(len(vectors)))
        found.append(wrap(ops.reshape(node, shape)))
    return tuple(found)


def diagflat(x: TensorLike, k: int = 0) -> Tensor:
    """The matrix whose diagonal ``k`` is the flattened tensor.

    >>> diagflat([[1, 2]]).tolist()
    [[1, 0], [0, 2]]
    """
    node = as_node(x)
    return diag(wrap(ops.reshape(node, (node.size,))), k)


def vander(x: TensorLike, N: int | None = None, increasing: bool = False) -> Tensor:
    """The powers of a vector's elements as rows: columns ``x**(N - 1)`` … ``x**0``, or ascending.

    >>> vander([2, 3], 3).tolist()
    [[4, 2, 1], [9, 3, 1]]
    """
    node = as_node(x)
    if node.ndim != 1:
        raise ShapeError(f"[vander] shape {node.shape} is no vector; flatten it")
    node = cast(node, int64) if node.dtype.kind == "b" else node
    rows = node.shape[0]
    columns = int(rows) if N is None else N
    if columns == 0:
        return wrap(ops.full(0, (rows, 0), node.dtype))
    factors = ops.broadcast_to(ops.reshape(node, (rows, 1)), (rows, columns - 1))
    table = ops.concatenate([ops.full(1, (rows, 1), node.dtype), factors], 1)
    powers = ops.cumprod(table, 1)
    return wrap(powers if increasing else ops.flip(powers, (1,)))


def geomspace(
    start: float, stop: float, num: int = 50, dtype: object = None, *, endpoint: bool = True
) -> Tensor:
    """``num`` numbers from ``start`` to ``stop`` (inclusive, unless ``endpoint`` is False) with
    equal ratios.

    >>> geomspace(1.0, 8.0, 4).tolist()
    [1.0, 2.0, 4.0, 8.0]
    """
    kind = default_float() if dtype is None else as_dtype(dtype)
    if start == 0 or stop == 0:
        raise OptionError("[geomspace] a sequence with equal ratios never is 0; use linspace")
    return wrap(node_from_array(np.geomspace(start, stop, num, endpoint), kind))


def indices(dimensions: Sequence[int], dtype: object = int64, sparse: bool = False) -> Any:
    """The position along each axis at every position: shape ``(len(dimensions), *dimensions)``.

    With ``sparse`` a tuple, each with size 1 along the other axes.

    >>> indices((2, 2)).tolist()
    [[[0, 0], [1, 1]], [[0, 1], [0, 1]]]
    """
    shape, kind = shape_of("indices", dimensions), as_dtype(dtype)
    grids = [ops.iota(shape, axis, kind) for axis in range(len(shape))]
    if sparse:
        return tuple(
            wrap(ops.iota(tuple(s if a == axis else 1 for a, s in enumerate(shape)), axis, kind))
            for axis in range(len(shape))
        )
    if not grids:
        return wrap(ops.full(0, (0,), kind))
    return wrap(ops.concatenate([ops.reshape(grid, (1, *shape)) for grid in grids], 0))


def fromfunction(
    function: Callable[..., Any], shape: Sequence[int], dtype: object = None
) -> Any:
    """``function`` of the positions along each axis, as tensors (float32 by default).

    >>> fromfunction(lambda i, j: i + j, (2, 2)).tolist()
    [[0.0, 1.0], [1.0, 2.0]]
    """
    kind = default_float() if dtype is None else as_dtype(dtype)
    sizes = shape_of("fromfunction", shape)
    return function(*(wrap(ops.iota(sizes, axis, kind)) for axis in range(len(sizes))))


def _inside(index: Node, size: int) -> Node:
    """Positions below ``size``, those from the end counted from the start; others raise."""
    places = ops.iota((size,), 0, int64)
    return take_node(places, index, 0, checked=True)


def unravel_index(index: TensorLike, shape: Sequence[int]) -> tuple[Tensor, ...]:
    """Positions in the flattened tensor of ``shape`` as positions along each axis.

    Raises:
        LamellaIndexError: when computed, for a position outside.

    >>> [i.tolist() for i in unravel_index([1, 5], (2, 3))]
    [[0, 1], [1, 2]]
    """
    sizes = shape_of("unravel_index", shape)
    rest = _inside(as_node(index), prod(map(int, sizes)))
    found = []
    for size in reversed(sizes):
        length = ops.constant(max(int(size), 1), int64)
        found.append(wrap(ops.remainder(rest, length)))
        rest = ops.floor_divide(rest, length)
    return tuple(reversed(found))


def ravel_multi_index(
    multi_index: Sequence[TensorLike] | TensorCore | np.ndarray,
    dims: Sequence[int],
    mode: str = "raise",
) -> Tensor:
    """Positions along each axis as positions in the flattened tensor of sizes ``dims``.

    ``mode`` "wrap" counts on in circles, "clip" stays inside.

    Raises:
        LamellaIndexError: with "raise", when computed, for a position outside.
        OptionError: for another mode.
        ShapeError: if there are not as many positions as sizes.

    >>> ravel_multi_index(([0, 1], [1, 2]), (2, 3)).tolist()
    [1, 5]
    """
    name = "ravel_multi_index"
    if mode not in ("raise", "wrap", "clip"):
        raise OptionError(f"[{name}] no mode {mode!r}; use 'raise', 'wrap' or 'clip'")
    from lamella.tensor.joining import unstack
    from lamella.tensor.lenient import clipped, wrapped

    bring = {"wrap": wrapped, "clip": clipped}.get(mode)

    given = unstack(multi_index) if isinstance(multi_index, TensorCore) else tuple(multi_index)
    sizes = shape_of("ravel_multi_index", dims)
    if len(given) != len(sizes):
        raise ShapeError(
            f"[ravel_multi_index] positions along {len(given)} axes for sizes {sizes}; give as many"
        )
    total = ops.constant(0, int64)
    for part, size in zip(given, sizes, strict=True):
        place, length = cast(as_node(part), int64), ops.constant(int(size), int64)
        place = _inside(place, int(size)) if bring is None else bring(name, place, int(size))
        total = ops.add(ops.multiply(total, length), place)
    return wrap(total)
