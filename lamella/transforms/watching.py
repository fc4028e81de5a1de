"""What every trace of a function that runs inside another has in common.

Input: the trace around it, if there is one. Output: a base class that tells the function's own
tensors from those outside, and passes on what is the outer trace's business.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lamella.ir.dim import Shape
from lamella.ir.node import Node
from lamella.tensor.core import TensorCore
from lamella.tensor.pending import Trace

__all__ = ["InnerTrace"]


class InnerTrace(Trace):
    """The base of traces that turn a function into a graph; see ``tensor.pending.Trace``."""

    def __init__(self, outer: Trace | None) -> None:
        self.outer = outer
        self._inner: set[int] = set()
        self._alive: list[TensorCore] = []  # so that their ids stay their own
        self.effects: list[tuple[Node, Callable[..., Any]]] = []

    def touch(self, tensor: TensorCore) -> None:
        """Reads of outer tensors are the outer trace's business."""
        if self.outer is not None and id(tensor) not in self._inner:
            self.outer.touch(tensor)

    def created(self, tensor: TensorCore) -> None:
        """The handle is the function's own."""
        self._inner.add(id(tensor))
        self._alive.append(tensor)
        if self.outer is not None:
            self.outer.created(tensor)

    def value(self, tensor: TensorCore) -> None:
        """A placeholder has no value, which evaluation reports; else it is the outer trace's."""
        if self.outer is not None:
            self.outer.value(tensor)

    def read_grad(self, tensor: TensorCore) -> None:
        """Pass on."""
        if self.outer is not None:
            self.outer.read_grad(tensor)

    def expect(self, shape: Shape, check: Callable[[Shape], None]) -> None:
        """Pass on."""
        if self.outer is not None:
            self.outer.expect(shape, check)

    def backward(self, root: Node) -> None:
        """Pass on."""
        if self.outer is not None:
            self.outer.backward(root)
