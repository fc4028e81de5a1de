"""What a compiled call returns: its results in the form the function gave them, and the values of
tensors it reads.

Input: what was traced as the result, and later a :class:`Run`. Output: functions from a run to a
result each.
"""
from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import ref

import numpy as np

from lamella.graph import names as naming
from lamella.ir.dim import Dim, bind
from lamella.ir.node import Node
from lamella.ops.leaf import DATA, data
from lamella.runtime import buffer as memory
from lamella.runtime.buffer import Buffer
from lamella.tensor import pending
from lamella.tensor.core import Leaf, TensorCore, leaf_node, owners, wrap
from lamella.tensor.symbolic import At

__all__ = [
    "Run", "axis_names", "computed", "is_required", "lasting", "number", "places", "plain",
    "rebind", "returned", "settled", "value_of_handle",
]  # fmt: skip


@dataclass(slots=True)
class Run:
    """What one run of an entry has made: ``nodes`` are its roots, ``numbers`` those it returns."""

    handles: list[TensorCore]
    nodes: list[Node]
    sizes: dict[str, int]
    shared: Sequence[int]
    numbers: Sequence[Any] = ()

    def node(self, place: int | Node) -> Node:
        """A root by number; a node that was known when the function was compiled is itself."""
        return self.nodes[place] if isinstance(place, int) else place


def places(
    result: Sequence[object], place: Callable[[Node], int | Node]
) -> list[int | At] | None:
    """The roots and the numbers that a result consists of, roots once each; None if it is more
    than that.
    """
    found: list[int | At] = []
    for leaf in result:
        where = place(leaf) if isinstance(leaf, Node) and axis_names(leaf) is None else leaf
        if not isinstance(where, int | At) or isinstance(leaf, int):
            return None
        found.append(where)
    roots = [where for where in found if isinstance(where, int)]
    return found if len(set(roots)) == len(roots) else None


def computed(which: int | Node, names: naming.Names | None) -> Callable[[Run], Any]:
    """A root by number, or a node that was known before; ``names`` are those of its axes."""

    def result(run: Run) -> Any:
        node = run.node(which)
        if names is not None:
            naming.assume(node, names)
        return wrap(node)

    return result


def axis_names(node: Node) -> naming.Names | None:
    """The names of a result's axes, if it has any."""
    names = naming.names_of(node) if naming.state.active else ()
    return names if any(names) else None


def returned(number: int, argument: int) -> Callable[[Run], Any]:
    """A tensor from outside itself; a copy of one that shares an array of the caller's."""

    def result(run: Run) -> Any:
        handle = run.handles[number]
        if argument not in run.shared:
            return handle
        value = lasting(value_of_handle(handle))
        return wrap(data(value, handle.node.shape, handle.node.dtype))

    return result


def number(index: int) -> Callable[[Run], Any]:
    """A Python number that differs from call to call."""
    return lambda run: run.numbers[index]


def plain(leaf: Any) -> Callable[[Run], Any]:
    """A value the function returned as it was: sizes become numbers, arrays are copied."""
    if isinstance(leaf, Dim):
        return lambda run: bind(leaf, run.sizes)
    if isinstance(leaf, np.ndarray):
        return lambda run: leaf.copy()
    return lambda run: leaf


def is_required(tensor: TensorCore) -> bool:
    """Whether a tensor is a leaf that requires a gradient."""
    return tensor._leaf is not None and tensor._leaf.required


def rebind(tensor: TensorCore, node: Node, required: bool) -> None:
    """Give an outside tensor its new value; a parameter stays a leaf that requires a gradient."""
    leaf = tensor._leaf
    if required:
        node = leaf_node(node)
        owners[node] = ref(tensor)
        if leaf is None:
            tensor._leaf = Leaf(required=True)
        else:
            leaf.required = True
    elif leaf is not None and leaf.required:
        tensor._leaf = None
    tensor.node = node


def value_of_handle(handle: TensorCore) -> Buffer:
    """The buffer of a tensor's value, which is computed if it is pending."""
    value = handle.node.value
    if type(value) is Buffer:
        return value
    if value is None:
        pending.flush(handle.node)
    return settled(handle.node)


def settled(node: Node) -> Buffer:
    """The buffer of a computed node; a number gets one."""
    value = node.value
    if isinstance(value, (bool, int, float)):
        value = memory.empty(node.dtype.itemsize)
        value.numpy((), node.dtype.numpy, writable=True)[...] = node.value
        node.op, node.value = DATA, value
    if not isinstance(value, Buffer):
        raise TypeError(f"a computed node holds a {type(value).__name__}")
    return value


def lasting(buffer: Buffer) -> Buffer:
    """A buffer that stays as it is: a copy where its memory is someone else's array."""
    if buffer.writable:
        return buffer
    copy = memory.empty(buffer.nbytes)
    ctypes.memmove(copy.ptr, buffer.ptr, buffer.nbytes)
    return copy
