"""Products of vectors, matrices and more axes, and what is made of them.

All products are contractions of one primitive: float16 and bfloat16 are summed in float32. Operands
are promoted to one element type; bools are counted as int64.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from lamella import ops
from lamella.dtypes import as_dtype, int64
from lamella.errors import OptionError, ShapeError
from lamella.ir.node import Node
from lamella.tensor.axes import Axes, axis_of
from lamella.tensor.core import wrap
from lamella.tensor.deferring import deferring
from lamella.tensor.einsum import contract_nodes, einsum
from lamella.tensor.keywords import with_synonyms
from lamella.tensor.manipulation import diagonal_node, matrix_transpose
from lamella.tensor.norms import vector_norm
from lamella.tensor.operands import TensorLike, as_node, cast, pair
from lamella.tensor.reduction import sum_dtype

if TYPE_CHECKING:
    from lamella.tensor.tensor import Tensor

__all__ = [
    "cross", "diagonal", "dot", "einsum", "inner", "kron", "matmul", "matrix_transpose", "matvec",
    "norm", "outer", "tensordot", "trace", "vdot", "vecdot", "vecmat",
]  # fmt: skip


def _numbers(name: str, x: TensorLike, y: TensorLike) -> tuple[Node, Node]:
    a, b = pair(name, x, y)
    return (cast(a, int64), cast(b, int64)) if a.dtype.kind == "b" else (a, b)


@deferring
def matmul(x: TensorLike, y: TensorLike, dtype: object = None) -> Tensor:
    """The matrix product ``x @ y``; vectors are rows and columns, leading axes broadcast.

    ``dtype`` is a wider element type for the result, as int32 of int8.

    Raises:
        ShapeError: if the inner sizes differ, or an operand is 0-d.

    >>> matmul([[1, 2], [3, 4]], [1, 1]).tolist()
    [3, 7]
    """
    a, b = _numbers("matmul", x, y)
    return wrap(ops.matmul(a, b, None if dtype is None else as_dtype(dtype)))


@deferring
def dot(x: TensorLike, y: TensorLike) -> Tensor:
    """The sum of products of two vectors; of more axes, the last of ``x`` with the last but one of
    ``y``.

    >>> dot([1, 2], [3, 4]).item()
    11
    """
    a, b = _numbers("dot", x, y)
    if a.ndim == 0 or b.ndim == 0:
        return wrap(ops.multiply(a, b))
    if a.ndim <= 2 and b.ndim <= 2:
        return wrap(ops.matmul(a, b))
    left = list(range(a.ndim))
    right = [a.ndim + i for i in range(b.ndim)]
    right[max(b.ndim - 2, 0)] = left[-1]
    out = left[:-1] + [label for label in right if label != left[-1]]
    return wrap(contract_nodes("dot", a, b, left, right, out))


@deferring
def inner(x: TensorLike, y: TensorLike) -> Tensor:
    """The sum of products over the last axes.

    >>> inner([1, 2], [3, 4]).item()
    11
    """
    a, b = _numbers("inner", x, y)
    if a.ndim == 0 or b.ndim == 0:
        return wrap(ops.multiply(a, b))
    return tensordot(wrap(a), wrap(b), ((-1,), (-1,)))


@deferring
@with_synonyms
def vecdot(x: TensorLike, y: TensorLike, axis: int = -1) -> Tensor:
    """The sum of products ``conj(x) * y`` along ``axis``, the others broadcast.

    Raises:
        ShapeError: if the sizes along ``axis`` differ, or an operand is 0-d.

    >>> vecdot([[1, 2], [3, 4]], [1, 1]).tolist()
    [3, 7]
    """
    a, b = _numbers("vecdot", x, y)
    sizes = [node.shape[axis_of("vecdot", axis, node.shape)] for node in (a, b)]
    if sizes[0] != sizes[1]:
        raise ShapeError(
            f"[vecdot] shapes {a.shape} and {b.shape}: {sizes[0]} ≠ {sizes[1]} along axis {axis}; "
            "only the other axes broadcast"
        )
    product = ops.multiply(ops.conj(a), b)
    return wrap(ops.reduce_sum(product, (axis_of("vecdot", axis, product.shape),)))


def vdot(x: TensorLike, y: TensorLike) -> Tensor:
    """The sum of ``conj(x) * y`` over all elements of both, flattened.

    >>> vdot([1j, 2.0], [1j, 1.0]).item()
    (3+0j)
    """
    a, b = _numbers("vdot", x, y)
    return vecdot(wrap(ops.reshape(a, (a.size,))), wrap(ops.reshape(b, (b.size,))))


def matvec(x: TensorLike, y: TensorLike) -> Tensor:
    """Matrices with vectors: the last two axes of ``x`` with the last of ``y``, others broadcast.

    >>> matvec([[1, 2], [3, 4]], [[1, 0], [0, 1]]).tolist()
    [[1, 3], [2, 4]]
    """
    a, b = _numbers("matvec", x, y)
    found = ops.matmul(a, ops.reshape(b, (*b.shape, 1)))
    return wrap(ops.reshape(found, found.shape[:-1]))


def vecmat(x: TensorLike, y: TensorLike) -> Tensor:
    """Vectors (conjugated) with matrices: the last axis of ``x`` with the last two of ``y``.

    >>> vecmat([1, 0], [[1, 2], [3, 4]]).tolist()
    [1, 2]
    """
    a, b = _numbers("vecmat", x, y)
    found = ops.matmul(ops.reshape(ops.conj(a), (*a.shape[:-1], 1, a.shape[-1])), b)
    return wrap(ops.reshape(found, (*found.shape[:-2], found.shape[-1])))


@deferring
def outer(x: TensorLike, y: TensorLike) -> Tensor:
    """``result[i, j] = x[i] * y[j]`` of two vectors (flattened).

    >>> outer([1, 2], [3, 4]).tolist()
    [[3, 4], [6, 8]]
    """
    a, b = _numbers("outer", x, y)
    column = ops.reshape(a, (a.size, 1))
    return wrap(ops.multiply(column, ops.reshape(b, (1, b.size))))


@deferring
@with_synonyms
def tensordot(
    x: TensorLike, y: TensorLike, axes: int | Sequence[Sequence[int]] | Sequence[int] = 2
) -> Tensor:
    """The sum of products over pairs of axes: the last ``axes`` of ``x`` with the first of ``y``,
    or the listed ones.

    Raises:
        ShapeError: if paired axes differ in size.

    >>> tensordot([[1, 2], [3, 4]], [[1, 0], [0, 1]], 1).tolist()
    [[1, 2], [3, 4]]
    """
    a, b = _numbers("tensordot", x, y)
    if isinstance(axes, int):
        first, second = list(range(a.ndim - axes, a.ndim)), list(range(axes))
        if axes > min(a.ndim, b.ndim):
            raise ShapeError(
                f"[tensordot] {axes} axes of shapes {a.shape} and {b.shape}; use fewer"
            )
    else:
        lists = [list(part) if isinstance(part, Sequence) else [part] for part in axes]
        first = [axis_of("tensordot", each, a.shape) for each in lists[0]]
        second = [axis_of("tensordot", each, b.shape) for each in lists[1]]
    if len(first) != len(second):
        raise ShapeError(f"[tensordot] {len(first)} axes paired with {len(second)}; give as many")
    left = list(range(a.ndim))
    right = [a.ndim + i for i in range(b.ndim)]
    for i, j in zip(first, second, strict=True):
        right[j] = left[i]
    out = [label for label in left + right if (label in left) != (label in right)]
    return wrap(contract_nodes("tensordot", a, b, left, right, out))


@deferring
def kron(x: TensorLike, y: TensorLike) -> Tensor:
    """The Kronecker product: every element of ``x`` times all of ``y``.

    >>> kron([1, 2], [1, 10]).tolist()
    [1, 10, 2, 20]
    """
    a, b = _numbers("kron", x, y)
    ndim = max(a.ndim, b.ndim)
    left = (1,) * (ndim - a.ndim) + a.shape
    right = (1,) * (ndim - b.ndim) + b.shape
    spread = ops.reshape(a, tuple(s for size in left for s in (size, 1)))
    dense = ops.reshape(b, tuple(s for size in right for s in (1, size)))
    total = tuple(m * n for m, n in zip(left, right, strict=True))
    return wrap(ops.reshape(ops.multiply(spread, dense), total))


@deferring
@with_synonyms
def cross(
    x: TensorLike, y: TensorLike, axis: int | None = None, axisa: int = -1, axisb: int = -1,
    axisc: int = -1,
) -> Tensor:  # fmt: skip
    """The cross product of vectors of three components along ``axis``, by default the last.

    Args:
        x: vectors, which broadcast with
        y: others.
        axis: that of the vectors in ``x``, ``y`` and the result, instead of:
        axisa: the axis of ``x`` that has the components (NumPy).
        axisb: that of ``y``.
        axisc: that of the result.

    Raises:
        ShapeError: unless both have three components, or if the other axes do not broadcast.

    >>> cross([1, 0, 0], [0, 1, 0]).tolist()
    [0, 0, 1]
    """
    from lamella.tensor.manipulation import common_shape, moveaxis, roll

    a, b = _numbers("cross", x, y)
    first, second = (axisa, axisb) if axis is None else (axis, axis)
    if (
        a.shape[axis_of("cross", first, a.shape)] != 3
        or b.shape[axis_of("cross", second, b.shape)] != 3
    ):
        raise ShapeError(
            f"[cross] shapes {a.shape} and {b.shape} along axes {first} and {second}: both need 3 "
            "components; add a zero to vectors of two"
        )
    left, right = wrap(a), wrap(b)
    if axis is None and (axisa, axisb, axisc) != (-1, -1, -1):
        left, right = moveaxis(left, axisa, -1), moveaxis(right, axisb, -1)
        return moveaxis(cross(left, right), -1, axisc)
    axis = -1 if axis is None else axis
    common_shape("cross", a.shape, b.shape)
    ahead, behind = roll(left, -1, axis), roll(left, 1, axis)
    return ahead * roll(right, 1, axis) - behind * roll(right, -1, axis)


@deferring
def trace(x: TensorLike, offset: int = 0, dtype: object = None) -> Tensor:
    """The sum of the diagonal of the last two axes (array-API's ``linalg.trace``).

    :func:`lamella.trace` takes the first two, or those that are given, as NumPy does.

    >>> trace([[1, 2], [3, 4]]).item()
    5
    """
    node = as_node(x)
    if node.ndim < 2:
        raise ShapeError(f"[trace] shape {node.shape} is no matrix; give at least two axes")
    node = cast(node, sum_dtype(node.dtype, dtype))
    found = diagonal_node(node, offset, node.ndim - 2, node.ndim - 1)
    return wrap(ops.reduce_sum(found, (found.ndim - 1,)))


def diagonal(x: TensorLike, offset: int = 0) -> Tensor:
    """The diagonal of the last two axes (array-API's ``linalg.diagonal``).

    >>> diagonal([[1, 2], [3, 4]]).tolist()
    [1, 4]
    """
    node = as_node(x)
    if node.ndim < 2:
        raise ShapeError(f"[diagonal] shape {node.shape} is no matrix; give at least two axes")
    return wrap(diagonal_node(node, offset, node.ndim - 2, node.ndim - 1))


@with_synonyms
def norm(
    x: TensorLike, ord: float | str | None = None, axis: Axes = None, keepdims: bool = False
) -> Tensor:
    """The vector norm over ``axis`` (None: all elements), 2 by default; "fro" of all is the same.

    :func:`lamella.linalg.norm` takes two axes for a matrix, as NumPy does.

    >>> norm([[3.0, 0.0], [0.0, 4.0]]).item()
    5.0
    """
    if isinstance(ord, str) and ord != "fro":
        raise OptionError(f"[norm] no norm {ord!r}; known: numbers and 'fro'")
    order = 2.0 if ord is None or isinstance(ord, str) else ord
    return vector_norm(x, axis=axis, keepdims=keepdims, ord=order)
