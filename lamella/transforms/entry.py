"""One compiled trace: checks whether it fits a call, and runs it on the call's tensors and the captured ones.

Input: a recording. Output: :class:`Entry`. Running takes the addresses of the inputs' buffers, runs the program, and rebinds what the function rebound:
state, gradients, tensors it left somewhere. Outputs of a differentiable function keep a history that replays the graph.
"""
from __future__ import annotations

import ctypes
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from weakref import ref

import numpy as np

from lamella import tree
from lamella.ir.node import Node, gradient_mode, topological
from lamella.ops.leaf import DATA
from lamella.runtime import buffer as memory
from lamella.runtime.buffer import Buffer
from lamella.runtime.evaluate import compile_program, too_large
from lamella.runtime.launch import pack_scalar
from lamella.tensor import pending
from lamella.tensor.core import TensorCore, leaf_node, owners, wrap
from lamella.transforms.called import Called
from lamella.transforms.guards import Environment
from lamella.transforms.tracing import Outside, Recording, leaf_grad, set_leaf_grad

__all__ = ["Entry", "Lowered"]


@dataclass(slots=True)
class Lowered:
    """A compiled function to look at."""

    outputs: list[Node]
    kernels: list[Any]

    def text(self, level: int = 2) -> str:
        """What was compiled: 1 the graph, 2 and the loop IR of its kernels, 3 and their LLVM IR, 4 and assembly."""
        from lamella.compiler import codegen
        from lamella.compiler.emit.llvm import emit_module
        from lamella.ir.text import graph_text, kernel_text
        from lamella.runtime.program import target

        parts = [graph_text(self.outputs)]
        if level >= 2:
            parts += [kernel_text(kernel) for kernel in self.kernels]
        if level >= 3:
            parts.append(emit_module(self.kernels, target()))
        if level >= 4:
            parts.append(codegen.assembly(self.kernels, target()))
        return "\n".join(parts)


class Entry:
    """A program with what it was made for."""

    def __init__(self, recording: Recording, environment: Environment) -> None:
        self._environment = environment
        self._outsides = recording.outsides
        self._captured = [o for o in recording.outsides if o.argument < 0]
        self._captured_ids = {id(o.tensor) for o in self._captured}
        self._read_slots = [slot for slot in recording.slots if slot.was_read]
        self._structure = recording.structure
        self._inputs = [o.placeholder for o in recording.outsides]
        self._number = {o: i for i, o in enumerate(recording.outsides)}
        self._plan(recording)
        for o in recording.outsides:
            if o.argument >= 0:
                o.forget()

    def _plan(self, recording: Recording) -> None:
        """Numbers the program's outputs; roots that are already known stay as they are."""
        number: dict[Node, int] = {}

        def place(node: Node) -> int | Node:
            return node if node.value is not None else number.setdefault(node, len(number))

        self._results: list[Any] = [place(leaf) if isinstance(leaf, Node) else leaf for leaf in recording.result]
        self._is_node = [isinstance(leaf, Node) for leaf in recording.result]
        self._states = [(self._number[o], place(n)) for o, n in recording.states]
        self._gradients = [
            (self._number[slot.outside], None if n is None else place(n)) for slot, n in recording.gradients
        ]
        self._escaped = [(reference, place(n)) for reference, n in recording.escaped]
        self._roots = list(number)
        order = topological(self._roots)
        constants = [n for n in order if n.value is not None and n.op.name != "scalar"]
        scalars = [n for n in order if n.op.name == "scalar"]
        self._constants = [_settled(n) for n in constants]
        self._words = [pack_scalar(n.value, n.dtype) for n in scalars]  # type: ignore[arg-type]
        offered = {which: i for i, which in self._states if isinstance(which, int)}
        self._program = compile_program(self._roots, [*self._inputs, *constants], scalars, offered)
        self._donated = {} if self._program.blueprint.faults else self._program.blueprint.donated
        self._dtypes = [node.dtype for node in self._roots]
        differentiable = not recording.is_step and gradient_mode.enabled
        self._tracked = {
            number[leaf] for leaf, t in zip(recording.result, recording.tracked, strict=True)
            if differentiable and t and isinstance(leaf, Node) and leaf in number
        }  # fmt: skip

    def lowered(self) -> Lowered:
        """The program, to be looked at."""
        return Lowered(self._roots, self._program.blueprint.kernels)

    # -- does it fit ---------------------------------------------------------------------------------------------------
    def misfit(self, tensors: Sequence[TensorCore]) -> str | None:
        """None if a call with these arguments may run this program, else the reason."""
        changed = self._environment.changed()
        if changed is not None:
            return changed
        for o in self._captured:
            node, made_for = o.tensor.node, o.placeholder
            if node is not o.original:
                if node.shape != made_for.shape or node.dtype is not made_for.dtype:
                    return f"a captured tensor {made_for.dtype.name}{list(made_for.shape)} is now {node.dtype.name}{list(node.shape)}"
                if node.tracked != made_for.tracked:
                    return "a captured tensor has begun or ceased to require a gradient"
        for slot in self._read_slots:
            tensor = tensors[slot.outside.argument] if slot.outside.argument >= 0 else slot.outside.tensor
            if (slot.before is None) != (leaf_grad(tensor) is None):
                return "a gradient was None and is not, or the reverse"
        for tensor in tensors:
            if id(tensor) in self._captured_ids:
                return "a tensor the function captures is passed as an argument"
        return None

    # -- running -------------------------------------------------------------------------------------------------------
    def run(self, tensors: Sequence[TensorCore], sizes: dict[str, int]) -> Any:
        """The function's result for these arguments."""
        program = self._program
        handles = [tensors[o.argument] if o.argument >= 0 else o.tensor for o in self._outsides]
        buffers = [_value(handle) for handle in handles]
        buffers += self._constants
        at = program.fixed
        if at is None:
            at = program.bind(tuple([sizes[name] for name in program.blueprint.symbols]))
        try:
            made = self._outputs(at.nbytes, handles, buffers)
        except MemoryError as error:
            raise too_large(self._roots, error) from None
        program.run([b.ptr for b in buffers], self._words.copy(), [b.ptr for b in made], at)
        for i, source in program.blueprint.same.items():
            made[i] = made[source] if source >= 0 else _lasting(buffers[-1 - source])
        return self._deliver(handles, made, at.shapes, sizes)

    def _outputs(
        self, nbytes: Sequence[int], handles: Sequence[TensorCore], buffers: Sequence[Buffer]
    ) -> list[Buffer]:
        """Memory for the results: that of the state they replace, where nothing else holds it."""
        if not self._donated:
            return [memory.empty(n) for n in nbytes]
        return [
            buffers[self._donated[i]]
            if i in self._donated and self._is_sole(self._donated[i], handles, buffers)
            else memory.empty(n)
            for i, n in enumerate(nbytes)
        ]

    def _is_sole(self, i: int, handles: Sequence[TensorCore], buffers: Sequence[Buffer]) -> bool:
        """Whether the tensor's handle alone holds its value: counted references say so."""
        node = handles[i].node
        outside = self._outsides[i]
        holders = 3 + (outside.original is node)  # the handle, `node`, the count's argument
        return (
            buffers[i].writable
            and sys.getrefcount(node) == holders
            and sys.getrefcount(buffers[i]) == 3  # the node, `buffers`, the count's argument
        )

    def _deliver(
        self, handles: Sequence[TensorCore], made: Sequence[Buffer], shapes: Sequence[tuple[int, ...]], sizes: dict[str, int]
    ) -> Any:
        def node(which: int | Node) -> Node:
            if not isinstance(which, int):
                return which
            found = Node(DATA, (), shapes[which], self._dtypes[which])
            found.value = made[which]
            return found

        before = tuple([handle.node for handle in handles]) if self._tracked else ()
        leaves: list[Any] = []
        for leaf, is_node in zip(self._results, self._is_node, strict=True):
            if is_node:
                leaf = wrap(self._history(leaf, node(leaf), before, sizes))
            elif isinstance(leaf, Outside):
                leaf = handles[self._number[leaf]]
            leaves.append(leaf)
        for i, which in self._states:
            _rebind(handles[i], node(which))
        for i, which in self._gradients:
            set_leaf_grad(handles[i], None if which is None else wrap(node(which)))
        for reference, which in self._escaped:
            tensor = reference()
            if tensor is not None:
                tensor.node = node(which)
        for o in self._captured:
            o.original = o.tensor.node
        return leaves[0] if self._structure.kind is None else tree.unflatten(self._structure, leaves)

    def _history(self, which: int | Node, found: Node, before: tuple[Node, ...], sizes: dict[str, int]) -> Node:
        """The node with a history that replays the graph, where the result can be differentiated."""
        if which not in self._tracked or not any(n.tracked for n in before):
            return found
        called = Called(self._roots[which], tuple(self._inputs), sizes)  # type: ignore[index]
        history = Node(called, before, found.shape, found.dtype, tracked=True)
        history.value = found.value
        return history


def _value(handle: TensorCore) -> Buffer:
    """The buffer of a tensor's value, which is computed if it is pending."""
    value = handle.node.value
    if type(value) is Buffer:
        return value
    if value is None:
        pending.flush(handle.node)
    return _settled(handle.node)


def _settled(node: Node) -> Buffer:
    """The buffer of a computed node; a number gets one."""
    value = node.value
    if isinstance(value, (bool, int, float)):
        value = memory.from_numpy(np.asarray(value, node.dtype.numpy))
        node.op, node.value = DATA, value
    if not isinstance(value, Buffer):
        raise TypeError(f"a computed node holds a {type(value).__name__}")
    return value


def _lasting(buffer: Buffer) -> Buffer:
    """A buffer that stays as it is: a copy where its memory is someone else's array."""
    if buffer.writable:
        return buffer
    copy = memory.empty(buffer.nbytes)
    ctypes.memmove(copy.ptr, buffer.ptr, buffer.nbytes)
    return copy


def _rebind(tensor: TensorCore, node: Node) -> None:
    """Give an outside tensor its new value; a parameter stays a leaf that requires a gradient."""
    leaf = tensor._leaf
    if leaf is not None and leaf.required:
        node = leaf_node(node)
        owners[node] = ref(tensor)
    tensor.node = node
