"""The graph-level interpreter: what a graph means, one NumPy call per node, slowly.

Input: nodes, values for placeholders, numbers for symbolic sizes. Output: one array per node. Every
compiled program is tested against it, and ``config.backend = "interpret"`` runs on it.
"""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from lamella.errors import ShapeError, TraceError
from lamella.ir.dim import bind, unify
from lamella.ir.node import Node, topological

__all__ = ["interpret"]

Array = npt.NDArray[Any]


def interpret(
    outputs: Sequence[Node],
    inputs: Mapping[Node, Array] | None = None,
    sizes: Mapping[str, int] | None = None,
) -> list[Array]:
    """The values of ``outputs``.

    Args:
        outputs: any nodes; those that hold a value are leaves.
        inputs: a value for each placeholder (or any other node, which is then not computed).
        sizes: a number for each symbolic size that the shapes of ``inputs`` do not give.

    Raises:
        TraceError: for a placeholder without a value.
        ShapeError: if a value does not have its node's shape.

    >>> from lamella import ops
    >>> from lamella.dtypes import float64
    >>> x = ops.placeholder((3,), float64)
    >>> interpret([ops.add(x, x)], {x: np.ones(3)})
    [array([2., 2., 2.])]
    """
    bound = dict(sizes or {})
    values: dict[Node, Array] = {}
    several: dict[Node, tuple[Array, ...]] = {}  # the results of calls
    for node, array in (inputs or {}).items():
        values[node] = _given(node, array, bound)
    for node in topological(outputs, stop=list(values)):
        if node in values:
            continue
        if node.op.kind == "call":
            arrays = [values[source] for source in node.inputs]
            several[node] = node.op.evaluate(node, arrays)  # type: ignore[attr-defined]
        elif node.op.kind == "part" and node.value is None:
            found = several[node.inputs[0]][node.op.index]  # type: ignore[attr-defined]
            values[node] = _checked(node, found, tuple(bind(size, bound) for size in node.shape))
        else:
            values[node] = _value(node, values, bound)
    return [values[node] for node in outputs]


def _given(node: Node, array: Array, bound: dict[str, int]) -> Array:
    found = np.asarray(array, node.dtype.numpy)
    if not unify(node.shape, found.shape, bound):
        raise ShapeError(
            f"[interpret] a value of shape {found.shape} was given for {node.shape}; sizes must "
            "agree, and each symbol must stand for one size"
        )
    return found


def _value(node: Node, values: Mapping[Node, Array], bound: Mapping[str, int]) -> Array:
    shape = tuple(bind(size, bound) for size in node.shape)
    held = node.value
    if isinstance(held, (bool, int, float, np.ndarray)):
        return np.asarray(held).astype(node.dtype.numpy, copy=False).reshape(shape)
    if held is not None:
        view: Array = held.numpy(shape, node.dtype.numpy)  # type: ignore[attr-defined]
        return view
    if node.op.name == "placeholder":
        raise TraceError(
            f"[interpret] the placeholder of shape {node.shape} has no value; give it one in inputs"
        )
    arrays = [values[source] for source in node.inputs]
    return _checked(node, node.op.reference(*arrays, shape=shape, dtype=node.dtype), shape)


def _checked(node: Node, value: Array, shape: tuple[int, ...]) -> Array:
    result = np.asarray(value)
    if result.shape != shape or result.dtype != node.dtype.numpy:
        raise ShapeError(
            f"[{node.op.name}] reference gave {result.dtype}{list(result.shape)} for a node of "
            f"{node.dtype.name}{list(shape)}; correct the primitive's reference or its builder"
        )
    return result
