"""Checks shared by builders of operations that index: dtypes, and numbers known while recording.

Input: the nodes a caller passed. Output: nothing, or a DTypeError in the documented form.
"""

from __future__ import annotations

from lamella.dtypes import DType
from lamella.errors import DTypeError
from lamella.ir.loops import Const
from lamella.ir.node import Node

__all__ = ["known_number", "require_integer", "require_ordered", "require_same_dtype", "zero"]


def zero(dtype: DType) -> Const:
    """The literal 0 of a dtype.

    >>> from lamella.dtypes import float32
    >>> zero(float32).value
    0.0
    """
    return Const({"b": False, "f": 0.0}.get(dtype.kind, 0), dtype)


def require_same_dtype(op: str, *nodes: Node) -> None:
    """Check that the nodes' dtypes are all the same.

    Raises:
        DTypeError: when they are not.
    """
    dtype = nodes[0].dtype
    for node in nodes:
        if node.dtype is not dtype:
            listed = ", ".join(node.dtype.name for node in nodes)
            raise DTypeError(
                f"[{op}] operands of dtypes {listed}, but this operation does not promote; "
                "cast them to one dtype first"
            )


def require_ordered(op: str, node: Node) -> None:
    """Check that values can be compared: complex numbers have no order.

    Raises:
        DTypeError: when they have not.
    """
    if node.dtype.kind == "c":
        raise DTypeError(
            f"[{op}] {node.dtype.name} numbers have no order; use their modulus, lm.abs(x), or "
            "a part, lm.real(x)"
        )


def require_integer(op: str, node: Node) -> None:
    """Check that an index has an integer dtype.

    Raises:
        DTypeError: when it has not.
    """
    if not node.dtype.is_integer:
        raise DTypeError(
            f"[{op}] indices of dtype {node.dtype.name}, but positions are integers; "
            "cast them to int64, or use a boolean mask through Tensor indexing"
        )


def known_number(node: Node) -> int | None:
    """The integer a 0-d leaf is known to hold while recording, else None."""
    value = node.value if node.value is not None else getattr(node.op, "value", None)
    return value if isinstance(value, int) and not isinstance(value, bool) else None
