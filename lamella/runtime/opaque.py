"""Opaque calls: steps of a program that run in Python, in the thread that runs the program.

Input: the call node (its inputs are placeholders with shapes) and the program's size symbols.
Output: the address of a native function that a launch may name: its arguments are the addresses of
the inputs, then of the results, then the values of the symbols. An exception cannot pass through
native code: it is kept for the thread, the results become zeros, and ``raise_failure`` raises it
when the program has ended.
"""
from __future__ import annotations

import ctypes
import threading
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from lamella.errors import ShapeError
from lamella.ir.dim import bind
from lamella.ir.node import Node
from lamella.ops.calls import Call, Result

__all__ = ["OpaqueCall", "raise_failure"]

_Native: Final = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)


class _Failures(threading.local):
    """The first exception in a thread's present program."""

    first: BaseException | None = None


_failures: Final = _Failures()


def raise_failure() -> None:
    """Raise what went wrong in this thread's last program, if anything did."""
    failure, _failures.first = _failures.first, None
    if failure is not None:
        raise failure


class OpaqueCall:
    """One opaque call as a native function; ``address`` is valid while this object lives."""

    def __init__(self, node: Node, symbols: Sequence[str]) -> None:
        if not isinstance(node.op, Call):
            raise TypeError(f"{node.op.name} is no call")
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
        for array in given:
            array.flags.writeable = False
        try:
            if _failures.first is None:
                _fill(made, self._op.evaluate(self._node, given), self._op.name)
                return
        except BaseException as error:  # raised again by raise_failure
            _failures.first = error
        for array in made:
            array[...] = 0


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
    shape = tuple(bind(size, sizes) for size in kind[0])
    dtype = kind[1].numpy
    count = int(np.prod(shape, dtype=np.int64))
    if not count:
        return np.empty(shape, dtype)
    memory = (ctypes.c_char * (count * dtype.itemsize)).from_address(word)
    return np.frombuffer(memory, dtype, count).reshape(shape)
