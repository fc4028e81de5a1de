"""Values that a compiled call keeps between calls, because what they are made of has not changed.

Input: what ``compiler.hoisting`` took out of a graph. Output: :class:`Prepared`, which computes the
values from the buffers of a call's inputs, once for as long as the caller says that those are the
same. Buffers that somebody else may write to are never relied on.
"""

from __future__ import annotations

import mmap
import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from lamella.config import config
from lamella.forks import new_lock
from lamella.ir.node import Node, topological
from lamella.runtime import buffer as memory
from lamella.runtime.buffer import Buffer
from lamella.runtime.evaluate import compile_program
from lamella.runtime.launch import pack_scalar
from lamella.runtime.memory import LargeClass, memory_available
from lamella.tensor.core import TensorCore

if TYPE_CHECKING:
    from lamella.compiler.hoisting import Hoisted

__all__ = ["Prepared", "is_lasting", "room_for_panels"]

_PART = 4  # of the memory that is left, which panels may take


class _Panels:
    """Bytes of the panels that compiled functions keep."""

    def __init__(self) -> None:
        self.lock = new_lock()
        self.held = 0

    def add(self, nbytes: int) -> None:
        with self.lock:
            self.held += nbytes


_panels: Final = _Panels()


def room_for_panels() -> int:
    """Bytes of panels that one more function may keep."""
    left = (config.panels << 20) - _panels.held
    return min(left, memory_available() // _PART) if left > 0 else 0


def is_lasting(node: Node) -> bool:
    """Whether nobody else writes to a value: then what is made of it need not be made again."""
    return node.value is None or (isinstance(node.value, Buffer) and _is_private(node.value))


class Prepared:
    """The program of the values, and the values of last time.

    Args:
        hoisted: the values and what stands for them.
        inputs: the inputs of the whole program, in order.
        where: for the first of them the number of an argument, or a captured tensor; the others
            are constants.
    """

    def __init__(
        self, hoisted: Hoisted, inputs: Sequence[Node], where: Sequence[TensorCore | int]
    ) -> None:
        order = topological(hoisted.values)
        scalars = [n for n in order if n.op.name == "scalar"]
        used = set(order)
        self._inputs = [i for i, node in enumerate(inputs) if node in used]
        sources = [where[i] for i in self._inputs if i < len(where)]
        self._sources = [source for source in sources if isinstance(source, TensorCore)]
        self._words = [pack_scalar(n.value, n.dtype) for n in scalars]  # type: ignore[arg-type]
        given = [inputs[i] for i in self._inputs]
        self._program = compile_program(hoisted.values, given, scalars)
        self.count = len(hoisted.values)
        self._known: tuple[object, list[Buffer], list[Node]] | None = None
        if hoisted.panels:
            _panels.add(hoisted.panels)
            weakref.finalize(self, _panels.add, -hoisted.panels).atexit = False

    def values(self, buffers: Sequence[Buffer | None], token: object) -> list[Buffer]:
        """The values for these inputs; ``token`` is the same object while no input of the whole
        program changes.
        """
        known = self._known
        if known is not None and known[0] is token:
            return known[1]
        nodes = [source.node for source in self._sources]
        if known is not None and all(a is b for a, b in zip(nodes, known[2], strict=True)):
            self._known = token, known[1], nodes  # what has changed is another input
            return known[1]
        given = [_there(buffers[i]) for i in self._inputs]
        made = self._run(given)
        if all(_is_private(buffer) for buffer in given):
            self._known = token, made, nodes
        return made

    def is_known(self, token: object) -> bool:
        """Whether the values need not be computed again."""
        return self._known is not None and self._known[0] is token

    def _run(self, given: Sequence[Buffer]) -> list[Buffer]:
        program = self._program
        at = program.fixed or program.bind(())
        made = [memory.empty(nbytes) for nbytes in at.nbytes]
        program.run([b.ptr for b in given], self._words.copy(), [b.ptr for b in made], at)
        for i, source in program.blueprint.same.items():
            made[i] = made[source] if source >= 0 else given[-1 - source]
        return made


def _is_private(buffer: Buffer) -> bool:
    """Whether nobody else writes to it: memory of our own, which is given out to be read only, or a
    file's as it was mapped.
    """
    owner = buffer.owner
    if isinstance(owner, Buffer):
        return _is_private(owner)
    while True:
        if isinstance(owner, np.ndarray) and not owner.flags.writeable:
            owner = owner.base
        elif isinstance(owner, memoryview) and owner.readonly:
            owner = owner.obj
        else:
            break
    return isinstance(owner, (list, LargeClass, bytes, mmap.mmap))


def _there(buffer: Buffer | None) -> Buffer:
    if buffer is None:
        raise ValueError("a value that is kept between calls depends on an argument")
    return buffer
