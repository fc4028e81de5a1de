"""The graph: immutable nodes, each one primitive applied to other nodes.

A ``Node`` is a primitive, its inputs, and the shape and dtype of its value. Sizes live in ``shape``
alone: a primitive's own parameters never repeat them, so that a program can be reused for other
sizes. ``value`` is the one thing that changes: ``None`` while the node is pending, a buffer once it
is computed, a Python number for scalar leaves.
``tracked`` says that a derivative may later be asked for through this node, so evaluation keeps its
inputs.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from lamella.dtypes import DType
from lamella.ir.dim import Shape, Size, product

if TYPE_CHECKING:
    from lamella.ops.base import Primitive

__all__ = ["Node", "gradient_mode", "make", "recording", "topological"]


class GradientMode(threading.local):
    """Whether nodes recorded now, in this thread, may be differentiated later by ``backward()``."""

    enabled: bool = True


gradient_mode = GradientMode()


class Recording:
    """What is noted of every node made now: ``line`` gives the user's line, None is not at all."""

    __slots__ = ("line",)  # found faster than an attribute of the class

    def __init__(self) -> None:
        self.line: Callable[[], str | None] | None = None


recording = Recording()


class Node:
    """One application of a primitive. Compared by identity."""

    __slots__ = ("__weakref__", "dtype", "inputs", "op", "shape", "site", "tracked", "value")

    def __init__(
        self,
        op: Primitive,
        inputs: tuple[Node, ...],
        shape: Shape,
        dtype: DType,
        tracked: bool = False,
    ) -> None:
        self.op = op
        self.inputs = inputs
        self.shape = shape
        self.dtype = dtype
        self.tracked = tracked
        self.value: object = None  # None (pending) | Buffer | bool | int | float
        # "file.py:12": for operations that may fail when they run, and all while lines are wanted
        self.site: str | None = None if recording.line is None else recording.line()

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def size(self) -> Size:
        """The number of elements."""
        return product(self.shape)

    def __repr__(self) -> str:
        return f"<{self.op!r}: {self.dtype.name}{list(self.shape)}>"


def make(op: Primitive, inputs: tuple[Node, ...], shape: Shape, dtype: DType) -> Node:
    """A new node that is tracked when an input is and gradients are being recorded (floating point
    and complex only).
    """
    node = Node(op, inputs, shape, dtype)
    if dtype.inexact and gradient_mode.enabled:
        for source in inputs:
            if source.tracked:
                node.tracked = True
                break
    return node


def topological(outputs: Iterable[Node], stop: Sequence[Node] = ()) -> list[Node]:
    """Every node the outputs depend on, inputs before users; the inputs of ``stop`` nodes are not
    entered.

    Nodes that hold a value are leaves: their inputs are not entered either.
    """
    done: set[int] = set()
    border = {id(node) for node in stop}
    order: list[Node] = []
    stack: list[tuple[Node, bool]] = [(node, False) for node in reversed(list(outputs))]
    while stack:
        node, expanded = stack.pop()
        if expanded:
            order.append(node)
            continue
        if id(node) in done:
            continue
        done.add(id(node))
        stack.append((node, True))
        if node.value is None and id(node) not in border:
            stack.extend([(n, False) for n in reversed(node.inputs) if id(n) not in done])
    return order
