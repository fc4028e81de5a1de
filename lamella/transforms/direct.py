"""Calls that only compute results: no state but Python numbers, no gradients, nothing of the call
is handed on.

Input: the program of such a call. Output: :class:`Direct`, which runs it on frames whose slots stay
as they are between calls, but for the addresses of arguments and results; of a program with open
sizes one for each sizes, by :class:`Directs`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
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
from lamella.runtime.program import Binding, Executable, Frame
from lamella.tensor.core import TensorCore, wrap
from lamella.tensor.symbolic import At
from lamella.transforms.prepared import Prepared
from lamella.transforms.results import value_of_handle

if TYPE_CHECKING:
    from lamella.transforms.tracing import Outside

__all__ = ["CELL", "Direct", "Directs"]

CELL: Final = 64  # bytes between numbers: each is aligned as values are
MOST: Final = 64  # sizes of one program that frames are kept for


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
        at: the program's sizes.
    """

    def __init__(
        self, program: Executable, where: Sequence[TensorCore | int], constants: Sequence[Buffer],
        words: Sequence[int], prepared: Prepared | None, captured: Sequence[Outside],
        roots: Sequence[Node], places: Sequence[int | At], structure: tree.Structure, numbers: int,
        at: Binding,
    ) -> None:  # fmt: skip
        self.program = program
        self._where = where
        self._constants, self._words, self._prepared = constants, words, prepared
        self._captured = captured
        self._roots = roots
        dtypes = [node.dtype for node in roots]
        self.kinds: list[tuple[Shape, DType]] = list(zip(at.shapes, dtypes, strict=True))
        self.places, self.structure = places, structure
        self.passed = [(w, slot) for slot, w in enumerate(where) if isinstance(w, int)]
        self._numbers = numbers
        held = 0 if prepared is None else prepared.count
        self.first_output = len(where) + len(constants) + held
        self.at = at
        self.nbytes = at.nbytes
        self.uses = 0  # calls, but those of a shortcut
        self.frames: list[Frame] = []
        self.tensors = [o.tensor for o in captured]
        self.nodes: list[Node] = []  # of the captured tensors, as in the frames of this owner
        self.owner: object = None

    def is_steady(self) -> bool:
        """Whether frames are up to date for as long as the captured tensors have their values."""
        return self._prepared is None or self._prepared.is_known(self.owner)

    def frame(self) -> Frame:
        """A new frame, with a cell of ``CELL`` bytes for each number."""
        frame = self.program.frame(self.at)
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
        self.program.run_frame(frame, self.at)
        self.frames.append(frame)
        self.uses += 1
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


class Directs:
    """The direct programs of one, for the sizes that it has met lately.

    Args:
        program: it.
        check: refuses sizes that it cannot run with.
        make: a direct program for sizes.
    """

    def __init__(
        self, program: Executable, check: Callable[[Mapping[str, int]], None],
        make: Callable[[Binding], Direct],
    ) -> None:  # fmt: skip
        self._program, self._check, self._make = program, check, make
        self._fixed = None if program.fixed is None else make(program.fixed)
        self._known: dict[tuple[int, ...], Direct] = {}

    def of(self, sizes: Mapping[str, int]) -> Direct:
        """That for the sizes of a call.

        Raises:
            LamellaIndexError, ShapeError: if there is none.
        """
        if self._fixed is not None:
            return self._fixed
        values = tuple([sizes[name] for name in self._program.blueprint.symbols])
        found = self._known.get(values)
        if found is None:
            self._check(sizes)
            if len(self._known) >= MOST:
                self._known.clear()
            found = self._known[values] = self._make(self._program.bind(values))
        return found
