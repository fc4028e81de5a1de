"""Calls that only compute results: no state but Python numbers, no gradients, nothing of the call
is handed on.

Input: the program of such a call. Output: :class:`Direct`, which runs it on frames whose slots stay
as they are between calls, but for the addresses of arguments and results.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from lamella import tree
from lamella.dtypes import DType
from lamella.ir.dim import Shape
from lamella.ir.node import Node
from lamella.ops.leaf import data
from lamella.runtime import buffer as memory
from lamella.runtime.buffer import Buffer
from lamella.runtime.evaluate import too_large
from lamella.runtime.program import Executable, Frame
from lamella.tensor.core import TensorCore, wrap
from lamella.tensor.symbolic import At
from lamella.transforms.prepared import Prepared
from lamella.transforms.results import value_of_handle

if TYPE_CHECKING:
    from lamella.transforms.tracing import Outside

__all__ = ["CELL", "Direct"]

CELL: Final = 64  # bytes between numbers: each is aligned as values are


class Direct:
    """A program that runs on frames.

    Args:
        program: its inputs are ``where``, then ``constants``, then what ``prepared`` keeps.
        where: for each input the number of an argument, or a captured tensor.
        words: of its scalars.
        captured: those of ``where`` that are.
        roots: what it computes.
        places: the roots, and the numbers of the call, that the function's result consists of, in
            the form ``structure``.
        numbers: how many of the arguments are numbers of the call. They come last.
    """

    def __init__(
        self, program: Executable, where: Sequence[TensorCore | int], constants: Sequence[Buffer],
        words: Sequence[int], prepared: Prepared | None, captured: Sequence[Outside],
        roots: Sequence[Node], places: Sequence[int | At], structure: tree.Structure, numbers: int,
    ) -> None:  # fmt: skip
        self.program = program
        self._where = where
        self._constants, self._words, self._prepared = constants, words, prepared
        self._captured = captured
        self._roots = roots
        self.kinds: list[tuple[Shape, DType]] = [(node.shape, node.dtype) for node in roots]
        self.places, self.structure = places, structure
        self.passed = [(w, slot) for slot, w in enumerate(where) if isinstance(w, int)]
        self._numbers = numbers
        held = 0 if prepared is None else prepared.count
        self.first_output = len(where) + len(constants) + held
        self._at = program.bind(())
        self.nbytes = self._at.nbytes
        self.frames: list[Frame] = []
        self.tensors = [o.tensor for o in captured]
        self.nodes: list[Node] = []  # of the captured tensors, as in the frames of this owner
        self.owner: object = None

    def is_steady(self) -> bool:
        """Whether frames are up to date for as long as the captured tensors have their values."""
        return self._prepared is None or self._prepared.is_known(self.owner)

    def frame(self) -> Frame:
        """A new frame, with a cell of ``CELL`` bytes for each number."""
        frame = self.program.frame(self._at)
        if self._numbers:
            cells = memory.empty(CELL * self._numbers)
            frame.cells = cells.numpy((cells.nbytes,), np.uint8, writable=True)
            frame.cell = cells.ptr
        return frame

    def run(self, tensors: Sequence[TensorCore], owner: object, numbers: Sequence[Any]) -> Any:
        """The function's result; ``owner`` is the same while captured tensors do not change.
        ``numbers`` are those of which it consists.
        """
        buffers = [value_of_handle(tensors[w]) for w, _ in self.passed]
        try:
            made = [memory.empty(n) for n in self.nbytes]
            frame = self.frames.pop() if self.frames else self.frame()
        except MemoryError as error:
            raise too_large(self._roots, error) from None
        words = frame.words
        prepared = self._prepared
        if frame.owner is not owner or (prepared is not None and not prepared.is_known(owner)):
            self._refresh(frame, owner)
        for (_, slot), buffer in zip(self.passed, buffers, strict=True):
            words[slot] = buffer.ptr
        for slot, buffer in enumerate(made, self.first_output):
            words[slot] = buffer.ptr
        self.program.run_frame(frame)
        self.frames.append(frame)
        leaves: list[Any] = []
        for place in self.places:
            if isinstance(place, At):
                leaves.append(numbers[place.index])
                continue
            leaves.append(wrap(data(made[place], *self.kinds[place])))
        return leaves[0] if self.structure.kind is None else tree.unflatten(self.structure, leaves)

    def _refresh(self, frame: Frame, owner: object) -> None:
        """Write the addresses of what the function captured, and what is kept of it, into a
        frame.
        """
        captured = [value_of_handle(w) if isinstance(w, TensorCore) else None for w in self._where]
        for slot, buffer in enumerate(captured):
            if buffer is not None:
                frame.words[slot] = buffer.ptr
        kept = list(self._constants)
        if self._prepared is not None:
            kept += self._prepared.values([*captured, *kept], owner)
        for slot, buffer in enumerate(kept, len(self._where)):
            frame.words[slot] = buffer.ptr
        for slot, word in enumerate(self._words, self.first_output + len(self.nbytes)):
            frame.words[slot] = word
        for o in self._captured:
            o.original = o.tensor.node
        self.nodes[:] = [o.original for o in self._captured]
        frame.kept = (*frame.kept[:2], *kept)
        frame.owner = self.owner = owner
