"""One run of a user's function on placeholders: what it computes, and which outside tensors it reads and rebinds.

Input: a function and its arguments. Output: :class:`Recording`: the graph's inputs (tensors by where to find them), its outputs, and what each is for.
The function sees its real tensors, but an outside tensor that an operation touches stands for a placeholder until the run ends; then every outside
tensor and gradient is put back, whether the run ended well or not, so that an exception half-way loses nothing.
"""
from __future__ import annotations

import gc
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any
from weakref import ref

import numpy as np

from lamella import tree
from lamella.errors import TraceError
from lamella.ir.dim import Shape
from lamella.ir.node import Node
from lamella.ops.leaf import placeholder
from lamella.tensor import pending
from lamella.tensor.core import Leaf, TensorCore, describe, owners
from lamella.tensor.pending import placeholder_in, set_trace
from lamella.tensor.tensor import Tensor

__all__ = ["GradientSlot", "Outside", "Recording", "leaf_grad", "record", "set_leaf_grad"]


@dataclass(slots=True, eq=False)
class Outside:
    """A tensor from outside the traced function: argument number ``argument``, or captured (-1)."""

    tensor: TensorCore
    original: Node
    placeholder: Node
    argument: int

    def forget(self) -> None:
        """Let go of the tensor: an argument belongs to its call."""
        self.tensor, self.original = _NOTHING, self.placeholder


_NOTHING = TensorCore()


@dataclass(slots=True, eq=False)
class GradientSlot:
    """The ``.grad`` of an outside tensor: what it held before, and whether that mattered to the run."""

    outside: Outside
    before: TensorCore | None
    was_read: bool


@dataclass(slots=True)
class Recording:
    """A traced function. ``result`` leaves: a node, an ``Outside`` (the tensor itself is returned), or a constant value."""

    outsides: list[Outside]
    result: list[object]
    structure: tree.Structure
    states: list[tuple[Outside, Node]]  # rebound outside tensors
    gradients: list[tuple[GradientSlot, Node | None]]
    escaped: list[tuple[ref[TensorCore], Node]]
    slots: list[GradientSlot]
    tracked: list[bool] = field(default_factory=list)  # of the result's nodes

    @property
    def is_step(self) -> bool:
        """Whether gradients were written: the function differentiates by itself."""
        return bool(self.gradients)


class JitTrace:
    """The trace that the tensor layer reports to; see ``tensor.pending.Trace``."""

    def __init__(self, shapes: dict[int, Shape]) -> None:
        self.outsides: dict[int, Outside] = {}
        self.slots: dict[int, GradientSlot] = {}
        self.created_here: dict[int, ref[TensorCore]] = {}
        self.wrote_grad = False
        self._shapes = shapes  # symbolic shapes of arguments, by id of the tensor
        self.argument = -1

    def touch(self, tensor: TensorCore) -> None:
        """An outside tensor becomes a placeholder when it is first used."""
        if id(tensor) in self.outsides or self._is_inner(tensor):
            return
        node = tensor.node
        if node.value is None:
            if placeholder_in(node):
                return  # an example of an enclosing vmap
            pending.compute([node])
        self._take(tensor)

    def _take(self, tensor: TensorCore) -> None:
        node = tensor.node
        stand_in = placeholder(self._shapes.get(id(tensor), node.shape), node.dtype)
        stand_in.tracked = node.tracked
        leaf = tensor._leaf
        if leaf is not None and leaf.required:
            owners[stand_in] = ref(tensor)
        self.outsides[id(tensor)] = Outside(tensor, node, stand_in, self.argument)
        tensor.node = stand_in

    def take_argument(self, tensor: TensorCore, number: int) -> None:
        """Arguments are known from the start."""
        if id(tensor) not in self.outsides:
            self.argument = number
            self._take(tensor)
            self.argument = -1

    def _is_inner(self, tensor: TensorCore) -> bool:
        found = self.created_here.get(id(tensor))
        return found is not None and found() is tensor

    def rebind(self, tensor: TensorCore) -> None:
        """An outside tensor that is rebound is state."""
        self.touch(tensor)

    def created(self, tensor: TensorCore) -> None:
        """A tensor of the function's own."""
        self.created_here[id(tensor)] = ref(tensor)

    def value(self, tensor: TensorCore) -> None:
        """A value may be looked at only if no input decides it."""
        self.touch(tensor)
        node = tensor.node
        if node.value is None and placeholder_in(node):
            raise TraceError(
                f"[jit] the value of {describe(node.shape, node.dtype)} was looked at while the function was being compiled, "
                "where it would be frozen; use lm.where or lm.cond instead of Python branches on values, lm.debug_print "
                "to print, or return the tensor and look at it outside"
            )

    def read_grad(self, tensor: TensorCore) -> None:
        """Whether there is a gradient decides what is computed."""
        self.touch(tensor)
        self._slot(tensor, read=True)

    def write_grad(self, tensor: TensorCore) -> None:
        """A gradient that is set is state."""
        self.touch(tensor)
        self._slot(tensor, read=False)
        self.wrote_grad = True

    def _slot(self, tensor: TensorCore, read: bool) -> None:
        if id(tensor) not in self.slots and id(tensor) in self.outsides:
            before = leaf_grad(tensor)
            self.slots[id(tensor)] = GradientSlot(self.outsides[id(tensor)], before, read)

    def restore(self) -> None:
        """Put every outside tensor and gradient back."""
        for outside in self.outsides.values():
            owners.pop(outside.placeholder, None)
            outside.tensor.node = outside.original
        for slot in self.slots.values():
            set_leaf_grad(slot.outside.tensor, slot.before)


def leaf_grad(tensor: TensorCore) -> TensorCore | None:
    """``tensor.grad``, unseen by traces."""
    return None if tensor._leaf is None else tensor._leaf.grad


def set_leaf_grad(tensor: TensorCore, grad: TensorCore | None) -> None:
    """``tensor.grad = grad``, unseen by traces."""
    if tensor._leaf is None:
        if grad is None:
            return
        tensor._leaf = Leaf(required=False)
    tensor._leaf.grad = grad


def _random_state() -> object:
    kind, keys, position, *rest = np.random.get_state()  # noqa: NPY002
    return random.getstate(), kind, keys.tobytes(), position, rest


def record(
    f: Callable[..., Any], args: Sequence[Any], options: dict[str, Any], tensors: Sequence[TensorCore],
    shapes: dict[int, Shape],
) -> Recording:
    """Run ``f(*args, **options)`` on placeholders; ``tensors`` are the tensors among the arguments, in order.

    Raises:
        TraceError: for what a compiled program could not repeat faithfully.
    """
    trace = JitTrace(shapes)
    before = _random_state()
    previous = set_trace(trace)
    try:
        for number, tensor in enumerate(tensors):
            trace.take_argument(tensor, number)
        result = f(*args, **options)
        if _random_state() != before:
            raise TraceError(
                "[jit] the function draws from Python's or NumPy's random numbers, which would be frozen; "
                "use lm.random, or draw outside and pass the result as an argument"
            )
        return _finish(trace, result)
    finally:
        set_trace(previous)
        trace.restore()


def _finish(trace: JitTrace, result: Any) -> Recording:
    leaves, structure = tree.flatten(result)
    found: list[object] = []
    for leaf in leaves:
        if isinstance(leaf, TensorCore):
            outside = trace.outsides.get(id(leaf))
            found.append(leaf.node if outside is None else outside)
        else:
            found.append(leaf)
    outsides = list(trace.outsides.values())
    states = [(o, o.tensor.node) for o in outsides if o.tensor.node is not o.placeholder]
    gradients: list[tuple[GradientSlot, Node | None]] = []
    known = {id(leaf) for leaf in leaves}
    for slot in trace.slots.values():
        now = leaf_grad(slot.outside.tensor)
        if now is not slot.before:
            gradients.append((slot, None if now is None else now.node))
            known.add(id(now))
    _check_history(trace, outsides)
    tracked = [isinstance(n, Node) and n.tracked for n in found]
    del leaves, result
    escaped = _escaped(trace, known)
    return Recording(outsides, found, structure, states, gradients, escaped, list(trace.slots.values()), tracked)


def _check_history(trace: JitTrace, outsides: Sequence[Outside]) -> None:
    if not trace.wrote_grad:
        return
    for o in outsides:
        leaf = o.tensor._leaf
        if o.original.tracked and (leaf is None or not leaf.required):
            raise TraceError(
                f"[jit] the function calls backward() and uses a tensor {describe(o.original.shape, o.original.dtype)} computed outside "
                "from others that require gradients, which backward() inside cannot reach; pass x.detach(), or compute it inside"
            )


def _escaped(trace: JitTrace, known: set[int]) -> list[tuple[ref[TensorCore], Node]]:
    """Tensors made during the run that something outside still holds."""
    alive = [r for key, r in trace.created_here.items() if key not in known and r() is not None]
    if alive:
        gc.collect()
    found: list[tuple[ref[TensorCore], Node]] = []
    for reference in alive:
        tensor = reference()
        if isinstance(tensor, Tensor) and tensor.node.value is None:
            found.append((reference, tensor.node))
    return found
