"""What the special functions share: operands of one floating-point type, and work in float64.

Input: what a user passes. Output: tensors. Compositions are evaluated in float64 and cast to the
operands' type at the end, so that their float32 results are rounded once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from lamella.dtypes import DType, default_float, float64, promote
from lamella.errors import DTypeError
from lamella.ir.node import Node
from lamella.tensor.core import wrap
from lamella.tensor.host import node_from_array
from lamella.tensor.operands import TensorLike, as_float, as_node, cast

if TYPE_CHECKING:
    from lamella.tensor.tensor import Tensor

__all__ = ["applied", "binary", "constants", "in_double", "operands"]


def operands(name: str, *xs: TensorLike) -> list[Node]:
    """The operands as nodes of one floating-point type; Python numbers take that of the others.

    Raises:
        DTypeError: for a complex operand.
    """
    weak = [isinstance(x, bool | int | float) and not isinstance(x, np.generic) for x in xs]
    nodes = [None if w else as_node(x) for x, w in zip(xs, weak, strict=True)]
    dtype: DType | None = None
    for node in nodes:
        if node is not None:
            if node.dtype.kind not in "biuf":
                raise DTypeError(
                    f"[{name}] operand of {node.dtype.name}, but this function is defined for real "
                    "numbers; pass its real part"
                )
            dtype = node.dtype if dtype is None else promote(dtype, node.dtype)
    if dtype is None or dtype.kind != "f":
        dtype = default_float()
    return [
        as_node(x, dtype) if node is None else cast(node, dtype)
        for x, node in zip(xs, nodes, strict=True)
    ]


def applied(name: str, builder: Callable[[Node], Node], x: TensorLike) -> Tensor:
    """A primitive of one operand."""
    return wrap(builder(*operands(name, x)))


def binary(
    name: str, builder: Callable[[Node, Node], Node], x: TensorLike, y: TensorLike
) -> Tensor:
    """A primitive of two operands."""
    return wrap(builder(*operands(name, x, y)))


def in_double(name: str, function: Callable[..., Any], *xs: TensorLike) -> Tensor:
    """``function`` of the operands as float64 tensors, in their own type."""
    nodes = operands(name, *xs)
    value = function(*(wrap(as_float(cast(node, float64))) for node in nodes))
    return value.astype(nodes[0].dtype)  # type: ignore[no-any-return]


def constants(array: np.ndarray) -> Tensor:
    """Constants of a formula, as a float64 tensor."""
    return wrap(node_from_array(np.asarray(array, np.float64)))
