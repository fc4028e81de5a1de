"""Opaque calls: steps of a program that run in Python, in the thread that runs the program.

Input: the call node (its inputs are placeholders with shapes) and the program's size symbols.
Output: the address of a native function that a launch may name: its arguments are the addresses of
the inputs, then of the results, then the values of the symbols. An exception cannot pass through
native code: :class:`Watch` keeps it, the program ends before its next launch, and it is raised.
"""
from __future__ import annotations

import ctypes
import math
import threading
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from lamella.errors import ShapeError
from lamella.ir.dim import bind
from lamella.ir.node import Node
from lamella.ops.calls import Call, Result
from lamella.runtime.launch import Passage

__all__ = ["OpaqueCall", "Watch"]

_Native: Final = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)


class _Thread(threading.local):
    """The program that a thread runs."""

    watch: Watch | None = None


_thread: Final = _Thread()


class Watch:
    """One run of a program in this thread: which of its opaque calls have ended, and the first
    exception of one, which is raised at the end.

    A signal may interrupt Python anywhere in a call, outside any ``try``: then ``ended`` tells, or
    ``running``, where the number of ``calls`` is not known.
    """

    def __init__(self, calls: int | None, passage: Passage) -> None:
        self._calls = calls
        self._passage = passage
        self.ended = 0
        self.running = False
        self.failure: BaseException | None = None

    def __enter__(self) -> None:
        self._outer = _thread.watch  # a call may run programs itself
        _thread.watch = self

    def __exit__(self, kind: object, *rest: object) -> None:
        _thread.watch = self._outer
        if kind is None and self.failure is not None:
            raise self.failure
        if kind is None and (self.running or self._calls not in (None, self.ended)):
            raise KeyboardInterrupt

    def begins(self, number: int | None) -> bool:
        """Whether a call may run: none did not end before it. Else the program ends."""
        if self.failure is not None or self.running or number not in (None, self.ended):
            self._passage.stop()
            return False
        self.running = True
        return True

    def fail(self, error: BaseException) -> None:
        """End the program, and raise ``error`` then."""
        self.failure = error
        self._passage.stop()


class OpaqueCall:
    """One opaque call as a native function; ``address`` is valid while this object lives.

    ``number`` counts the program's opaque calls, in the order in which they run; None in a program
    with loops and branches, where that is not known.
    """

    def __init__(self, node: Node, symbols: Sequence[str], number: int | None) -> None:
        if not isinstance(node.op, Call):
            raise TypeError(f"{node.op.name} is no call")
        self._number: Final = number
        self._node: Final = node
        self._op: Final = node.op
        self._symbols: Final = tuple(symbols)
        self._inputs: Final = [(source.shape, source.dtype) for source in node.inputs]
        self._results: Final = node.op.results(node.inputs)
        self._function: Final = _Native(self._run)
        self.address: Final = ctypes.cast(self._function, ctypes.c_void_p).value or 0

    def _run(self, args: int, begin: int, end: int) -> None:
        kinds = (*self._inputs, *self._results)
        words = (ctypes.c_uint64 * (len(kinds) + len(self._symbols))).from_address(args)
        sizes = dict(zip(self._symbols, words[len(kinds) :], strict=True))
        arrays = [_view(word, kind, sizes) for word, kind in zip(words, kinds, strict=False)]
        given, made = arrays[: len(self._inputs)], arrays[len(self._inputs) :]
        watch = _thread.watch
        if watch is None or not watch.begins(self._number):
            return
        for array in given:
            array.flags.writeable = False
        try:
            _fill(made, self._op.evaluate(self._node, given), self._op.name)
            watch.ended += 1
            watch.running = False
        except BaseException as error:
            watch.fail(error)


def _fill(made: Sequence[npt.NDArray[Any]], found: Sequence[Any], name: str) -> None:
    for number, (array, value) in enumerate(zip(made, found, strict=True)):
        result = np.asarray(value)
        if result.shape != array.shape or result.dtype != array.dtype:
            raise ShapeError(
                f"[{name}] result {number} is {result.dtype}{list(result.shape)}, but "
                f"{array.dtype}{list(array.shape)} was promised; return that shape and dtype"
            )
        array[...] = result


def _view(word: int, kind: Result, sizes: dict[str, int]) -> npt.NDArray[Any]:
    """The array at an address."""
    shape: tuple[int, ...] = kind[0]  # type: ignore[assignment]
    if sizes:
        shape = tuple([bind(size, sizes) for size in shape])
    dtype = kind[1].numpy
    nbytes = math.prod(shape) * dtype.itemsize
    if not nbytes:
        return np.empty(shape, dtype)
    return np.ndarray(shape, dtype, memoryview((ctypes.c_char * nbytes).from_address(word)))
