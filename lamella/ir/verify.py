"""The verifier of graphs: every node must follow from its inputs by its primitive's type rule.

Input: the outputs of a graph. Output: nothing, or the error of the first node that is wrong. Passes
are checked by it in tests, and at ``debug`` levels that ask for it.
"""
from __future__ import annotations

from collections.abc import Sequence

from lamella.dtypes import DType
from lamella.errors import CompilerError
from lamella.ir.dim import Dim
from lamella.ir.node import Node, topological

__all__ = ["verify_graph"]


def verify_graph(outputs: Sequence[Node]) -> None:
    """Check the whole graph below ``outputs``.

    Raises:
        ShapeError, DTypeError: from a primitive's ``check``, for a node that does not fit.
        CompilerError: for a node that is malformed in itself.

    >>> from lamella import ops
    >>> from lamella.dtypes import float64
    >>> verify_graph([ops.constant(1.0, float64)])
    """
    for node in topological(outputs):
        _verify_fields(node)
        if node.value is None or node.inputs:
            node.op.check(node)


def _verify_fields(node: Node) -> None:
    problem = ""
    dtype: object = node.dtype
    shape: object = node.shape
    if not isinstance(dtype, DType):
        problem = f"dtype {node.dtype!r} is not one of lamella.dtypes"
    elif not isinstance(shape, tuple):
        problem = f"shape {node.shape!r} is not a tuple"
    elif any(not _is_size(size) for size in node.shape):
        problem = f"shape {node.shape!r} has a size that is neither a Dim nor an int >= 0"
    elif node.tracked and not node.dtype.inexact:
        problem = f"a node of {node.dtype.name} is tracked, but only floating point is"
    elif node.op.kind == "leaf" and node.op.name in ("data", "scalar") and node.value is None:
        problem = "the leaf has no value"
    if problem:
        raise CompilerError(
            f"[{node.op.name}] {problem}; make nodes through the builders in lamella.ops"
        )


def _is_size(size: object) -> bool:
    return isinstance(size, Dim) or (type(size) is int and size >= 0)
