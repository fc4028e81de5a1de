"""Text of tensors: ``str`` as NumPy prints arrays, ``repr`` with the type; large ones
summarised.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lamella.tensor.core import TensorCore, describe, value_of
from lamella.tensor.pending import current_trace, placeholder_in

if TYPE_CHECKING:
    from lamella.ops.base import Array

__all__ = ["tensor_repr", "tensor_str"]


def _traced(tensor: TensorCore) -> bool:
    """Whether the tensor has no value yet, inside a function being transformed (or left over from
    one).
    """
    node = tensor.node
    if node.value is not None:
        return False
    return (current_trace() is not None or node.op.name == "placeholder") and placeholder_in(node)


def _printable(tensor: TensorCore) -> Array:
    array = value_of(tensor, "print")
    if array.dtype.kind == "V" or tensor.dtype.name == "bfloat16":
        return array.astype(np.float32)
    return array


def tensor_str(tensor: TensorCore) -> str:
    """The value as NumPy prints it; inside a traced function the shape and type.

    >>> import lamella as lm
    >>> print(lm.tensor([[1, 2], [3, 4]]))
    [[1 2]
     [3 4]]
    """
    if _traced(tensor):
        return f"Tensor({describe(tensor.node.shape, tensor.dtype)}, traced)"
    array = _printable(tensor)
    return str(array) if array.ndim else str(array.item())


def tensor_repr(tensor: TensorCore) -> str:
    """The value with its element type, as an expression where it is small.

    >>> import lamella as lm
    >>> lm.tensor([1.5, 2.0])
    tensor([1.5, 2. ], dtype=float32)
    """
    if _traced(tensor):
        return f"Tensor({describe(tensor.node.shape, tensor.dtype)}, traced)"
    array = _printable(tensor)
    text = np.array2string(array, separator=", ", prefix="tensor(")
    parts = [text, f"dtype={tensor.dtype.name}"]
    if 0 in array.shape:
        parts.insert(1, f"shape={array.shape}")
    if tensor.node.tracked:
        parts.append("requires_grad=True")
    return f"tensor({', '.join(parts)})"
