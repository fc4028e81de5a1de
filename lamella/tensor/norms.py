"""Norms of vectors and matrices, condition numbers and ranks.

Where a norm is 0 its derivative is 0, one of the subgradients, as in PyTorch.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from lamella import ops
from lamella.dtypes import finfo, float32, int64
from lamella.errors import OptionError, ShapeError
from lamella.ir.node import Node
from lamella.tensor.axes import Axes, axes_of, kept
from lamella.tensor.core import wrap
from lamella.tensor.deferring import deferring
from lamella.tensor.keywords import with_synonyms
from lamella.tensor.operands import TensorLike, as_float, as_node, cast, scalar_node
from lamella.tensor.reduction import root

if TYPE_CHECKING:
    from lamella.tensor.tensor import Tensor

__all__ = ["cond", "matrix_norm", "matrix_rank", "norm", "vector_norm"]

Order = float | str | None


def _require_matrix(name: str, node: Node, square: bool = False) -> None:
    from lamella.ops.matrices import require_matrix  # few programs need it

    require_matrix(name, node, square)


def _modulus(node: Node) -> Node:
    return ops.modulus(node) if node.dtype.kind == "c" else ops.abs(node)


def _square_sum(node: Node, axes: tuple[int, ...]) -> Node:
    if node.dtype.kind == "c":
        parts = (ops.square(ops.real(node)), ops.square(ops.imag(node)))
        return ops.reduce_sum(ops.add(*parts), axes)
    return ops.reduce_sum(ops.square(node), axes)


def _norm_node(node: Node, order: float, axes: tuple[int, ...]) -> Node:
    """A norm over ``axes``; of types of 16 bits computed in float32, since squares that lie beyond
    their range (or below it) have a norm within.
    """
    if node.dtype.bits < 32:
        return cast(_norm_node(cast(node, float32), order, axes), node.dtype)
    if order == 2:
        return root(_square_sum(node, axes))
    if order == 0:
        some = ops.not_equal(node, ops.constant(0, node.dtype))
        return ops.reduce_sum(cast(some, node.dtype.part), axes)
    size = _modulus(node)
    if order == math.inf:
        return ops.reduce_max(size, axes)
    if order == -math.inf:
        return ops.reduce_min(size, axes)
    if order == 1:
        return ops.reduce_sum(size, axes)
    return _power_norm(size, order, axes)


def _power_norm(size: Node, order: float, axes: tuple[int, ...]) -> Node:
    """(Σ size**order)**(1/order); zeros have no part in it, nor in its derivative."""
    power = scalar_node(order, size.dtype)
    zero, one = ops.constant(0.0, size.dtype), ops.constant(1.0, size.dtype)
    if order < 0:
        return ops.pow(ops.reduce_sum(ops.pow(size, power), axes), ops.reciprocal(power))
    empty = ops.equal(size, zero)
    powers = ops.where(empty, zero, ops.pow(ops.where(empty, one, size), power))
    total = ops.reduce_sum(powers, axes)
    none = ops.equal(total, zero)
    taken = ops.pow(ops.where(none, one, total), ops.reciprocal(power))
    return ops.where(none, zero, taken)


@deferring
@with_synonyms
def vector_norm(x: TensorLike, axis: Axes = None, keepdims: bool = False, ord: float = 2) -> Tensor:
    """``(sum |x|**ord)**(1/ord)`` over ``axis``; ``ord`` may be 0 (nonzero elements) or ±inf.

    >>> vector_norm([3.0, 4.0]).item()
    5.0
    """
    node = as_float(as_node(x))
    axes = axes_of("norm", axis, node.shape)
    found = _norm_node(node, ord, axes)
    return wrap(ops.reshape(found, kept(node.shape, axes)) if keepdims else found)


@deferring
@with_synonyms
def matrix_norm(x: TensorLike, keepdims: bool = False, ord: float | str = "fro") -> Tensor:
    """A norm of the last two axes.

    Args:
        x: matrices.
        keepdims: leave two axes of size 1.
        ord: "fro" (all elements), "nuc" (the sum of the singular values), 2 and -2 (the largest and
            the smallest of them), 1 and -1 (the largest and smallest sum of a column), inf and -inf
            (of a row).

    Raises:
        OptionError: for another norm.

    >>> matrix_norm([[3.0, 0.0], [0.0, 4.0]]).item()
    5.0
    """
    node = as_float(as_node(x))
    if node.ndim < 2:
        raise ShapeError(f"[matrix_norm] shape {node.shape} is no matrix; give at least two axes")
    found = _matrix_norm(node, ord)
    axes = (node.ndim - 2, node.ndim - 1)
    return wrap(ops.reshape(found, kept(node.shape, axes)) if keepdims else found)


def _matrix_norm(node: Node, ord: Order) -> Node:
    last = node.ndim - 1
    if ord in ("fro", None):
        return _norm_node(node, 2, (last - 1, last))
    if ord in (1, -1, math.inf, -math.inf):
        along, over = (last - 1, last - 1) if ord in (1, -1) else (last, last - 1)
        sums = ops.reduce_sum(_modulus(node), (along,))
        pick = ops.reduce_max if ord in (1, math.inf) else ops.reduce_min
        return pick(sums, (over,))
    if ord in ("nuc", 2, -2):
        _require_matrix("matrix_norm", node)
        values = ops.svd(node)[1]
        choose = {"nuc": ops.reduce_sum, 2: ops.reduce_max, -2: ops.reduce_min}[ord]
        return choose(values, (values.ndim - 1,))
    raise OptionError(
        f"[matrix_norm] no norm {ord!r}; known: 'fro', 'nuc', 1, -1, 2, -2, inf, -inf"
    )


@deferring
@with_synonyms
def norm(
    x: TensorLike, ord: Order = None, axis: Axes = None, keepdims: bool = False
) -> Tensor:
    """A norm of vectors or matrices, as NumPy's.

    Over one ``axis`` the vector norm of order ``ord`` (2 by default), over two the matrix norm
    ("fro" by default, see :func:`matrix_norm`). Without ``axis``: of all elements if ``ord`` is
    None too, else of ``x`` as the vector or matrix it is.

    Raises:
        OptionError: for an unknown norm. ShapeError: for more than two axes.

    >>> norm([[3.0, 0.0], [0.0, 4.0]], ord=2).item()
    4.0
    """
    node = as_float(as_node(x))
    if ord is None and axis is None:
        return vector_norm(wrap(node), keepdims=keepdims)
    axes = axes_of("norm", axis, node.shape)
    if len(axes) == 1:
        if isinstance(ord, str):
            raise OptionError(f"[norm] no norm {ord!r} of a vector; give a number, or two axes")
        return vector_norm(wrap(node), axis=axes, keepdims=keepdims, ord=2 if ord is None else ord)
    if len(axes) != 2:
        raise ShapeError(
            f"[norm] {len(axes)} axes of shape {node.shape}; a norm of order {ord} is over one "
            "axis (a vector) or two (a matrix): choose them with axis="
        )
    given = axis if isinstance(axis, tuple | list) else axes  # in the caller's order
    order = [a % node.ndim for a in given]
    rest = [a for a in range(node.ndim) if a not in order]
    found = _matrix_norm(ops.permute(node, (*rest, *order)), ord)
    return wrap(ops.reshape(found, kept(node.shape, axes)) if keepdims else found)


def cond(x: TensorLike, p: Order = None) -> Tensor:
    """The condition number: the norm of ``x`` times that of its inverse (infinity if it has none).

    Args:
        x: square matrices; of any shape for the orders of singular values.
        p: a norm as :func:`matrix_norm` takes; None and 2 are the largest singular value over the
            smallest, -2 the reverse.

    >>> cond([[1.0, 0.0], [0.0, 4.0]]).item()
    4.0
    """
    node = as_float(as_node(x))
    _require_matrix("cond", node, square=p not in (None, 2, -2))
    if p in (None, 2, -2):
        values = ops.svd(node)[1]
        last = (values.ndim - 1,)
        high, low = ops.reduce_max(values, last), ops.reduce_min(values, last)
        return wrap(_or_infinite(ops.divide(*((low, high) if p == -2 else (high, low))), node))
    inverse = ops.inverse(node, lenient=True)
    product = ops.multiply(_matrix_norm(node, p), _matrix_norm(inverse, p))
    return wrap(_or_infinite(product, node))


def _or_infinite(found: Node, node: Node) -> Node:
    """Infinity for NaN where the matrix has none."""
    clean = ops.logical_not(ops.reduce_any(ops.isnan(node), (node.ndim - 2, node.ndim - 1)))
    undefined = ops.logical_and(ops.isnan(found), clean)
    return ops.where(undefined, ops.constant(math.inf, found.dtype), found)


def matrix_rank(
    x: TensorLike,
    tol: TensorLike | None = None,
    hermitian: bool = False,
    *,
    rtol: TensorLike | None = None,
) -> Tensor:
    """How many singular values are larger than ``tol``, or than ``rtol`` times the largest.

    Args:
        x: matrices (vectors have rank 1, or 0 if they are 0).
        tol: an absolute bound, or one for each matrix.
        hermitian: ``x`` is Hermitian; the moduli of its eigenvalues are used.
        rtol: a relative bound, likewise; by default the larger size times the type's epsilon.

    >>> matrix_rank([[1.0, 2.0], [2.0, 4.0]]).item()
    1
    """
    node = as_float(as_node(x))
    if node.ndim < 2:
        some = ops.reduce_any(ops.not_equal(node, ops.constant(0, node.dtype)))
        return wrap(cast(some, int64))
    _require_matrix("matrix_rank", node, square=hermitian)
    values = ops.abs(ops.eigh(node)[0]) if hermitian else ops.svd(node)[1]
    if 0 in values.shape:
        return wrap(ops.full(0, values.shape[:-1], int64))
    if tol is None:
        largest = ops.reduce_max(values, (values.ndim - 1,))
        bound = ops.multiply(largest, tolerance(node, rtol))
    else:
        bound = tolerance(node, tol)
    bound = ops.reshape(bound, (*bound.shape, 1)) if bound.ndim else bound
    return wrap(ops.reduce_sum(cast(ops.greater(values, bound), int64), (values.ndim - 1,)))


def tolerance(node: Node, given: TensorLike | None) -> Node:
    """A bound of singular values as a node; by default the larger size times the type's epsilon."""
    if given is None:
        size = max(int(size) for size in node.shape[-2:])
        return scalar_node(size * finfo(node.dtype).eps, node.dtype.part)
    return as_node(given, node.dtype.part)
