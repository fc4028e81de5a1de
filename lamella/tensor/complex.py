"""Complex numbers: made of two reals, and taken apart.

Input: tensors or anything :func:`lamella.asarray` takes. A complex64 is two float32, a complex128
two float64; all arithmetic and the elementary functions take them. Gradients are
dL/d(real part) + i dL/d(imaginary part), see ``lamella.tensor.gradient``.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from lamella import ops
from lamella.dtypes import complex_of
from lamella.errors import DTypeError, ShapeError
from lamella.ir.node import Node
from lamella.tensor.core import wrap
from lamella.tensor.operands import TensorLike, as_float, as_node, cast, pair

if TYPE_CHECKING:
    from lamella.tensor.tensor import Tensor

__all__ = [
    "angle", "complex", "conj", "imag", "polar", "real", "view_as_complex", "view_as_real",
]  # fmt: skip


def _parts(name: str, x: TensorLike, y: TensorLike) -> tuple[Node, Node]:
    a, b = (as_float(node) for node in pair(name, x, y))
    if a.dtype.kind == "c":
        raise DTypeError(
            f"[{name}] an operand is {a.dtype.name} already; give real ones, as lm.real(x)"
        )
    part = complex_of(a.dtype).part
    return cast(a, part), cast(b, part)


def complex(x: TensorLike, y: TensorLike) -> Tensor:
    """``x + 1j * y`` of real tensors, exactly (an infinite part makes no nan).

    Raises:
        DTypeError: for a complex operand.

    >>> complex([1.0, 2.0], 3.0).tolist()
    [(1+3j), (2+3j)]
    """
    return wrap(ops.complex(*_parts("complex", x, y)))


def polar(x: TensorLike, angle: TensorLike) -> Tensor:
    """``x * (cos(angle) + 1j * sin(angle))`` of real tensors.

    >>> polar(2.0, 0.0).item()
    (2+0j)
    """
    a, b = _parts("polar", x, angle)
    return wrap(ops.complex(ops.multiply(a, ops.cos(b)), ops.multiply(a, ops.sin(b))))


def real(x: TensorLike) -> Tensor:
    """The real part; real tensors are their own.

    >>> real([1 + 2j]).tolist()
    [1.0]
    """
    return wrap(ops.real(as_node(x)))


def imag(x: TensorLike) -> Tensor:
    """The imaginary part; of real tensors zeros.

    >>> imag([1 + 2j]).tolist()
    [2.0]
    """
    return wrap(ops.imag(as_node(x)))


def conj(x: TensorLike) -> Tensor:
    """The complex conjugate ``a - ib``; real tensors are their own.

    >>> conj([1 + 2j]).tolist()
    [(1-2j)]
    """
    return wrap(ops.conj(as_node(x)))


def angle(x: TensorLike, deg: bool = False) -> Tensor:
    """The argument ``atan2(imag(x), real(x))`` in [-π, π] (with ``deg`` in degrees); of real
    numbers 0, or π below 0.

    >>> angle([1j, -1.0]).tolist()
    [1.5707963705062866, 3.1415927410125732]
    """
    node = as_float(as_node(x))
    found = ops.atan2(ops.imag(node), ops.real(node))
    return wrap(ops.multiply(found, ops.constant(180.0 / math.pi, found.dtype)) if deg else found)


def view_as_real(x: TensorLike) -> Tensor:
    """A complex tensor as a real one with a last axis of 2: the real and the imaginary part.

    Raises:
        DTypeError: for a real tensor.

    >>> view_as_real([1 + 2j]).tolist()
    [[1.0, 2.0]]
    """
    node = as_node(x)
    if node.dtype.kind != "c":
        raise DTypeError(f"[view_as_real] takes complex tensors, not {node.dtype.name}")
    parts = [ops.reshape(part(node), (*node.shape, 1)) for part in (ops.real, ops.imag)]
    return wrap(ops.concatenate(parts, node.ndim))


def view_as_complex(x: TensorLike) -> Tensor:
    """A real tensor whose last axis has size 2 as a complex one: the inverse of
    :func:`view_as_real`.

    Raises:
        ShapeError: unless the last axis has size 2.

    >>> view_as_complex([[1.0, 2.0]]).tolist()
    [(1+2j)]
    """
    node = as_float(as_node(x))
    if node.ndim == 0 or node.shape[-1] != 2:
        raise ShapeError(
            f"[view_as_complex] shape {node.shape} needs a last axis of size 2: real and imaginary"
        )
    lead = node.shape[:-1]
    halves = (ops.slice(node, (*[0] * len(lead), k), (*lead, 1)) for k in (0, 1))
    return wrap(ops.complex(*(ops.reshape(half, lead) for half in halves)))
