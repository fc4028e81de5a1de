"""What a function that is traced takes from the world, which a program would repeat for ever: the
time, a line that is typed, the next item of an iterator.

Input: the names that code in reach mentions and the iterators in reach (see ``reach``). Output: an
error while tracing, or a warning where a use may be harmless (a time that is printed). Calls are
seen by the interpreter's profiling hook, which is set only where code mentions one of the names.
"""

from __future__ import annotations

import builtins
import datetime
import itertools
import os
import sys
import time
import types
import warnings
from collections.abc import Collection, Iterator, Sequence, Sized
from contextlib import contextmanager
from typing import Any, Final

from lamella.errors import TraceError
from lamella.transforms.reach import is_library

__all__ = ["position", "watch_calls"]

_CLOCKS: Final[dict[Any, str]] = {
    getattr(time, name): f"time.{name}()"
    for name in ("time", "perf_counter", "monotonic", "process_time", "thread_time")
    for name in (name, f"{name}_ns")
} | {
    datetime.datetime.now: "datetime.now()", datetime.datetime.utcnow: "datetime.utcnow()",
    datetime.date.today: "date.today()", datetime.datetime.today: "datetime.today()",
}  # fmt: skip
_INPUTS: Final[dict[Any, str]] = {builtins.input: "input()", os.urandom: "os.urandom()"}
_NAMES: Final = frozenset(f.__name__ for f in (*_CLOCKS, *_INPUTS))
_PARTS: Final = 16  # of an iterator made of iterators, and how deep


def position(iterator: Any, depth: int = 0) -> object:
    """Where an iterator of Python's own is: a value that compares; None if that cannot be told.

    >>> numbers = zip([1, 2], "ab"); before = position(numbers); found = next(numbers)
    >>> position(numbers) == before
    False
    """
    if isinstance(iterator, types.GeneratorType):
        frame = iterator.gi_frame
        return None if frame is None else (frame.f_lasti, *map(id, frame.f_locals.values()))
    if not hasattr(iterator, "__next__") or depth > _PARTS:
        if isinstance(iterator, Sized):  # it may be made anew each time
            return len(iterator)
        return iterator if isinstance(iterator, int) else id(iterator)
    try:
        if hasattr(iterator, "tell"):
            return iterator.tell()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            _, parts, *more = iterator.__reduce__()
    except Exception:  # one that does not tell
        return None
    return tuple(position(part, depth + 1) for part in (*parts[:_PARTS], *more))


@contextmanager
def watch_calls(names: Collection[str], iterators: Sequence[tuple[str, Any]]) -> Iterator[None]:
    """Inside, a user's code is a traced function's.

    Raises:
        TraceError: if it has asked for a line or taken an item of one of the iterators.
    """
    before = [position(each) for _, each in iterators]
    generators = {id(i.gi_frame): path for path, i in iterators
                  if isinstance(i, types.GeneratorType)}  # fmt: skip
    found: dict[str, None] = {}

    def seen(frame: types.FrameType, event: str, call: Any) -> None:
        if event == "call" and id(frame) in generators:
            raise _taken(generators[id(frame)])
        if event != "c_call" or not isinstance(call, types.BuiltinFunctionType):
            return
        if call in _INPUTS and _is_own(frame):
            raise TraceError(
                f"[jit] the function calls {_INPUTS[call]}, whose result would be frozen in the "
                "program; call it outside and pass the result as an argument"
            )
        if call in _CLOCKS and _is_own(frame):
            found[_CLOCKS[call]] = None

    hooked = sys.getprofile() is None and bool(generators or not _NAMES.isdisjoint(names))
    if hooked:
        sys.setprofile(seen)
    try:
        yield
    finally:
        if hooked and sys.getprofile() is seen:  # else the function has begun to be profiled
            sys.setprofile(None)
    for (path, each), was in zip(iterators, before, strict=True):
        if position(each) == was:
            continue
        if not isinstance(each, itertools.count):
            raise _taken(path)
        found[f"next({path})"] = None  # which may count traces
    for name in found:
        warnings.warn(
            f"[jit] the function calls {name} while it is traced: later calls see the value of the "
            "trace; call it outside and pass the result as an argument",
            RuntimeWarning, stacklevel=2,
        )  # fmt: skip


def _taken(path: str) -> TraceError:
    return TraceError(
        f"[jit] the function takes items of the iterator {path}, which would be frozen in the "
        "program; take them outside and pass each as an argument"
    )


def _is_own(frame: types.FrameType) -> bool:
    """Whether a frame is of a user's code."""
    return not is_library(frame.f_globals.get("__name__"))
