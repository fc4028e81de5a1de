"""PyTorch's products of matrices and vectors, alone and added to something. Arguments have
PyTorch's names and order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lamella.errors import ShapeError
from lamella.tensor.core import wrap
from lamella.tensor.deferring import deferring
from lamella.tensor.elementwise import add, divide, multiply
from lamella.tensor.linalg import matmul, outer
from lamella.tensor.operands import TensorLike, as_node

if TYPE_CHECKING:
    from lamella.tensor.tensor import Tensor

__all__ = ["addbmm", "addcdiv", "addcmul", "addmm", "addmv", "addr", "baddbmm", "bmm", "mm", "mv"]


@deferring
def addcmul(input: TensorLike, tensor1: TensorLike, tensor2: TensorLike, value: Any = 1) -> Tensor:
    """``input + value * tensor1 * tensor2``.

    >>> addcmul([1.0], [2.0], [3.0], value=10).tolist()
    [61.0]
    """
    return add(input, multiply(multiply(tensor1, tensor2), value))


@deferring
def addcdiv(input: TensorLike, tensor1: TensorLike, tensor2: TensorLike, value: Any = 1) -> Tensor:
    """``input + value * tensor1 / tensor2``.

    >>> addcdiv([1.0], [3.0], [2.0], value=10).tolist()
    [16.0]
    """
    return add(input, multiply(divide(tensor1, tensor2), value))


def _sum(input: TensorLike, product: Any, beta: Any, alpha: Any) -> Tensor:
    """``beta * input + alpha * product``; with ``beta`` 0 NaN in ``input`` does not count."""
    scaled = product if alpha == 1 else multiply(product, alpha)
    if isinstance(beta, int | float) and beta == 0:
        return scaled
    return add(input if beta == 1 else multiply(input, beta), scaled)


def with_axes(name: str, x: Any, count: int) -> Any:
    """A tensor of so many axes.

    Raises:
        ShapeError: for another one.
    """
    found = wrap(as_node(x))
    if found.ndim != count:
        raise ShapeError(
            f"[{name}] shape {found.shape} has {found.ndim} axes, not {count}; use lm.matmul, or "
            "reshape it"
        )
    return found


def mm(input: TensorLike, mat2: TensorLike) -> Tensor:
    """The product of two matrices.

    >>> mm([[1.0, 2.0]], [[3.0], [4.0]]).tolist()
    [[11.0]]
    """
    return matmul(with_axes("mm", input, 2), with_axes("mm", mat2, 2))


def bmm(input: TensorLike, mat2: TensorLike) -> Tensor:
    """The products of matrices, pair by pair.

    >>> bmm([[[1.0, 2.0]]], [[[3.0], [4.0]]]).tolist()
    [[[11.0]]]
    """
    return matmul(with_axes("bmm", input, 3), with_axes("bmm", mat2, 3))


def mv(input: TensorLike, vec: TensorLike) -> Tensor:
    """The product of a matrix and a vector.

    >>> mv([[1.0, 2.0]], [3.0, 4.0]).tolist()
    [11.0]
    """
    return matmul(with_axes("mv", input, 2), with_axes("mv", vec, 1))


@deferring
def addmm(
    input: TensorLike, mat1: TensorLike, mat2: TensorLike, beta: Any = 1, alpha: Any = 1
) -> Tensor:
    """``beta * input + alpha * mat1 @ mat2``.

    >>> addmm([1.0], [[1.0, 2.0]], [[3.0], [4.0]], alpha=2).tolist()
    [[23.0]]
    """
    return _sum(input, mm(mat1, mat2), beta, alpha)


def addmv(
    input: TensorLike, mat: TensorLike, vec: TensorLike, beta: Any = 1, alpha: Any = 1
) -> Tensor:
    """``beta * input + alpha * mat @ vec``.

    >>> addmv([1.0], [[1.0, 2.0]], [3.0, 4.0]).tolist()
    [12.0]
    """
    return _sum(input, mv(mat, vec), beta, alpha)


def addr(
    input: TensorLike, vec1: TensorLike, vec2: TensorLike, beta: Any = 1, alpha: Any = 1
) -> Tensor:
    """``beta * input + alpha * outer(vec1, vec2)``.

    >>> addr(1.0, [1.0, 2.0], [3.0]).tolist()
    [[4.0], [7.0]]
    """
    return _sum(input, outer(vec1, vec2), beta, alpha)


@deferring
def baddbmm(
    input: TensorLike, batch1: TensorLike, batch2: TensorLike, beta: Any = 1, alpha: Any = 1
) -> Tensor:
    """``beta * input + alpha * bmm(batch1, batch2)``.

    >>> baddbmm(1.0, [[[1.0, 2.0]]], [[[3.0], [4.0]]]).tolist()
    [[[12.0]]]
    """
    return _sum(input, bmm(batch1, batch2), beta, alpha)


def addbmm(
    input: TensorLike, batch1: TensorLike, batch2: TensorLike, beta: Any = 1, alpha: Any = 1
) -> Tensor:
    """``beta * input + alpha * sum(bmm(batch1, batch2))`` over the batch.

    >>> addbmm(1.0, [[[1.0]], [[2.0]]], [[[3.0]], [[4.0]]]).tolist()
    [[12.0]]
    """
    return _sum(input, bmm(batch1, batch2).sum(0), beta, alpha)
