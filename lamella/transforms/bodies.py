"""Functions of tensors as subgraphs: how control flow sees the bodies that users write.

Input: a function and tensors like its arguments. Output: :class:`Body`: what it computes from
placeholders, with what it returned, and what it read from outside. What depends on no argument is
computed outside, once. Tensors from outside that it rebinds (the implicit random generator's state,
running statistics) are found by a first run; in a second they are arguments and results.
"""
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lamella import ops, tree
from lamella.errors import DTypeError, OptionError, TraceError
from lamella.graph.replay import Recording
from lamella.ir.node import Node
from lamella.ops.calls import parts
from lamella.tensor.core import TensorCore, node_of, wrap
from lamella.tensor.creation import asarray
from lamella.tensor.pending import Trace, current_trace, perform, set_trace
from lamella.tensor.tensor import Tensor
from lamella.transforms.batching import BatchTrace
from lamella.transforms.watching import InnerTrace

__all__ = ["Body", "as_tensors", "compiled_once", "trace"]


class BodyTrace(InnerTrace):
    """Watches a function that becomes a subgraph: which outside tensors it rebinds."""

    def __init__(self, outer: Trace | None) -> None:
        super().__init__(outer)
        self.rebound: dict[int, tuple[TensorCore, Node]] = {}

    def rebind(self, tensor: TensorCore) -> None:
        """Remember outer tensors that change."""
        if id(tensor) not in self._inner and id(tensor) not in self.rebound:
            if self.outer is not None:
                self.outer.rebind(tensor)
            self.rebound[id(tensor)] = (tensor, tensor.node)

    def write_grad(self, tensor: TensorCore) -> None:
        """Gradients of outer tensors belong to no single step."""
        if id(tensor) not in self._inner:
            raise TraceError(
                "[control flow] the body calls backward() or sets .grad of a tensor from outside, "
                "but it runs many times; differentiate the whole loop, or use lm.grad inside"
            )

    def effect(self, token: Node, function: Callable[..., Any]) -> None:
        """Whoever makes something of the body sees to it."""
        self.effects.append((token, function))

    def restore(self) -> dict[int, tuple[TensorCore, Node]]:
        """Put outer tensors back; the nodes they had been given."""
        found = {}
        for key, (tensor, before) in self.rebound.items():
            found[key] = (tensor, tensor.node)
            tensor.node = before
        return found


@dataclass(slots=True)
class Body:
    """A function as a graph: ``arguments`` are placeholders, ``outputs`` what it returned.

    ``states`` are outer tensors that it rebinds: their placeholders come after the arguments, their
    new values after the outputs.
    """

    arguments: list[Node]
    outputs: list[Node]
    structure: tree.Structure
    paths: list[str]
    states: list[TensorCore]
    effects: list[tuple[Node, Callable[..., Any]]]  # of every run of the body

    @property
    def tokens(self) -> list[Node]:
        """What must be computed for the effects to be had."""
        return [token for token, _ in self.effects]

    @property
    def calls(self) -> list[Node]:
        """Those that have the effects."""
        return list(dict.fromkeys(token.inputs[0] for token in self.tokens))

    @property
    def returned(self) -> list[Node]:
        """All results of those calls."""
        return [node for call in self.calls for node in parts(call)]

    def have(self, found: Mapping[Node, Node]) -> None:
        """See to the effects; ``found`` are the tokens of what the body has become."""
        for token, function in self.effects:
            perform(found[token], function)


def as_tensors(name: str, value: Any) -> Any:
    """``value`` with every number and array among its leaves as a tensor.

    Raises:
        DTypeError: for a leaf that is neither.
    """

    def convert(leaf: Any) -> Tensor:
        if isinstance(leaf, Tensor):
            return leaf
        if isinstance(leaf, (bool, int, float, np.ndarray, np.generic)):
            return asarray(leaf)
        raise DTypeError(
            f"[{name}] {type(leaf).__name__} is neither a tensor nor a number; control flow passes "
            "tensors from step to step, close over anything else"
        )

    return tree.map(convert, value)


def compiled_once() -> bool:
    """Whether a function is being compiled: Python numbers in it stay what they are."""
    found = current_trace()
    while isinstance(found, BodyTrace | BatchTrace):
        found = found.outer
    return found is not None


def trace(
    name: str, f: Callable[..., Any], arguments: Sequence[Any], effects: bool = False
) -> Body:
    """``f(*arguments)`` on placeholders like the tensors in ``arguments``; ``effects``: the caller
    sees to those of ``f``.

    Raises:
        DTypeError: if it returns something that is no tensor or number.
        TraceError: if it looks at a value that depends on its arguments, or has effects.
    """
    body, rebound = _run(name, f, arguments, [])
    if rebound:
        body, again = _run(name, f, arguments, rebound)
        if again:
            raise TraceError(
                f"[{name}] the body rebinds other tensors at every run; pass them as arguments"
            )
    if body.effects and not effects:
        raise TraceError(
            f"[{name}] the function has an effect (io_callback, debug_print, check), which has no "
            "meaning in a rule or a condition, for they may run any number of times; return the "
            "value and use it outside, or move it into the body of a loop or branch"
        )
    return body


def _run(
    name: str, f: Callable[..., Any], arguments: Sequence[Any], states: list[TensorCore]
) -> tuple[Body, list[TensorCore]]:
    if not callable(f):
        raise OptionError(f"[{name}] {f!r:.40} is no function; give one")
    leaves, structure = tree.flatten(list(arguments))
    watcher = BodyTrace(current_trace())
    given = [_stand_in(node_of(leaf)) for leaf in leaves]
    held = [_stand_in(node_of(state)) for state in states]
    before = [state.node for state in states]
    previous = set_trace(watcher)
    try:
        with Recording():
            for state, node in zip(states, held, strict=True):
                state.node = node
            handles = [wrap(node) for node in given]
            result = as_tensors(name, f(*tree.unflatten(structure, handles)))
            outputs, form = tree.flatten(result)
            nodes = [node_of(leaf) for leaf in outputs]
            nodes += [state.node for state in states]
    finally:
        set_trace(previous)
        found = watcher.restore()
        for state, node in zip(states, before, strict=True):
            state.node = node
    known = {id(state) for state in states}
    more = [tensor for key, (tensor, _) in found.items() if key not in known]
    paths = tree.paths(result)
    return Body([*given, *held], nodes, form, paths, states, watcher.effects), more


def _stand_in(node: Node) -> Node:
    return ops.placeholder(node.shape, node.dtype, node.dtype.kind in "fc")
