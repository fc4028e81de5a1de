"""The words of kernels written in Python, with their meaning when the function runs as plain
Python on NumPy arrays.

``lm.kernel`` compiles functions that use them (``kernel_compiler`` says how); run plainly, a kernel
is slow and its own reference.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np

from lamella.dtypes import DType

__all__ = ["ATOMIC", "LOOPS", "SPACES", "Words", "grid", "lanes", "local", "unroll", "where"]


def grid(*sizes: int) -> Iterator[Any]:
    """The kernel's outer loop: iterations that may run in any order, at the same time.

    >>> list(grid(2, 2)), list(grid(3))
    ([(0, 0), (0, 1), (1, 0), (1, 1)], [0, 1, 2])
    """
    if len(sizes) == 1:
        yield from range(sizes[0])
    else:
        yield from itertools.product(*map(range, sizes))


def lanes(size: int) -> Iterator[int]:
    """A loop whose iterations run side by side in vectors; they may share only sums (``t += x``),
    products, maxima and minima of variables declared before it, and no element of what they write:
    indices of that have the lane in them, as ``y[i, j]`` or ``y[4 * j + k]`` with k below 4.
    """
    yield from range(size)


def unroll(size: int) -> Iterator[int]:
    """A loop written out; ``size`` is known when the kernel is compiled."""
    yield from range(size)


def local(size: int, dtype: DType) -> Any:
    """Scratch memory of one grid iteration: ``size`` elements, contents undefined."""
    return np.zeros(size, dtype.numpy)


def registers(size: int, dtype: DType) -> Any:
    """As ``local``, in registers: small, indexed by constants, unrolled loops and lanes alone."""
    return np.zeros(size, dtype.numpy)


def shared(size: int, dtype: DType) -> Any:
    """Scratch memory that the iterations of a block share (on a CPU: of a grid iteration)."""
    return np.zeros(size, dtype.numpy)


def where(condition: Any, a: Any, b: Any) -> Any:
    """``a`` where the condition holds, else ``b``."""
    return a if condition else b


def atomic_add(array: Any, index: Any, value: Any) -> None:
    """Add to an element of a result, in one step however many iterations do so at once.

    Integers only: sums of floating-point numbers depend on their order, and results here do not. A
    result that is added to begins as zero, and is neither read nor written otherwise.
    """
    array[index] += value


def atomic_max(array: Any, index: Any, value: Any) -> None:
    """As ``atomic_add``, for the larger of an element and a value."""
    array[index] = max(array[index], value)


def atomic_min(array: Any, index: Any, value: Any) -> None:
    """As ``atomic_add``, for the smaller of an element and a value."""
    array[index] = min(array[index], value)


ATOMIC = {atomic_add: "add", atomic_max: "max", atomic_min: "min"}
LOOPS = {range: "serial", lanes: "lanes", unroll: "unroll"}
SPACES = {local: "local", registers: "register", shared: "shared"}


class Words:
    """What ``lm.kernel`` offers inside a kernel."""

    grid = staticmethod(grid)
    lanes = staticmethod(lanes)
    unroll = staticmethod(unroll)
    local = staticmethod(local)
    registers = staticmethod(registers)
    shared = staticmethod(shared)
    where = staticmethod(where)
    atomic_add = staticmethod(atomic_add)
    atomic_max = staticmethod(atomic_max)
    atomic_min = staticmethod(atomic_min)
