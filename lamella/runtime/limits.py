"""What this machine can do at most, measured in a fraction of a second: multiply-adds, and memory.

Output: :class:`Limits` for the present number of threads. The kernels are written in loop IR and
compiled as all others are: multiply-adds in as many registers as hide their latency, a streaming
copy, and a sum.
"""

from __future__ import annotations

import functools
import time
from dataclasses import dataclass
from typing import Final

from lamella.compiler.blueprint import Source
from lamella.ir.text import parse_kernel
from lamella.runtime import buffer, threads
from lamella.runtime.launch import Launch, Plan
from lamella.runtime.program import kernel_addresses, target

__all__ = ["Limits", "limits"]

_ELEMENTS: Final = 1 << 24  # of the arrays that are copied and summed: far beyond any cache
_GRID: Final = 64
_STEPS: Final = 4096  # multiply-adds one after the other in each register
_ROUNDS: Final = 7
_COPY: Final = """kernel limit_copy
  in x: float32
  out y: float32 streamed
grid g < 4096
  lanes i < 4096
    y[4096*g + 1*i] = x[4096*g + 1*i]"""
_READ: Final = """kernel limit_read
  in x: float32
  out y: float32
grid g < 64
  var total: float32 = 0.0:float32
  lanes i < 262144
    total add= x[262144*g + 1*i]
  y[g] = total"""
_MULTIPLY: Final = """kernel limit_multiply
  in x: float32
  out y: float32
grid g < 64
  register acc: float32[{size}]
  unroll a < {registers}
    lanes b < {lanes}
      acc[{lanes}*a + 1*b] = x[1*b]
  serial k < 4096
    unroll c < {registers}
      lanes d < {lanes}
        acc[{lanes}*c + 1*d] = fma(acc[{lanes}*c + 1*d], x[1*d], x[1*d + {lanes}])
  unroll e < {registers}
    lanes f < {lanes}
      y[{size}*g + {lanes}*e + 1*f] = acc[{lanes}*e + 1*f]"""


@dataclass(frozen=True, slots=True)
class Limits:
    """Operations and bytes a second; a multiply-add is two operations, a copy's bytes are those
    read and those written.
    """

    flops: float  # float32
    copy: float
    read: float


def limits() -> Limits:
    """The limits of this machine with ``lamella.num_threads()`` threads, measured once for each
    number of threads.
    """
    return _measured(threads.num_threads())


@functools.cache
def _measured(_: int) -> Limits:
    lanes, registers = target().vector_bytes // 4, 12
    size = lanes * registers
    text = _MULTIPLY.format(size=size, registers=registers, lanes=lanes)
    operations = 2.0 * size * _STEPS * _GRID
    nbytes = 4.0 * _ELEMENTS
    return Limits(
        operations / _seconds(text, _GRID, 1, 2 * lanes, size * _GRID),
        2 * nbytes / _seconds(_COPY, 4096, 16, _ELEMENTS, _ELEMENTS),
        nbytes / _seconds(_READ, 64, 1, _ELEMENTS, 64),
    )


def _seconds(text: str, grid: int, grain: int, given: int, made: int) -> float:
    """The least time of a launch that reads ``given`` float32 and writes ``made``."""
    kernel = parse_kernel(text)
    (address,) = kernel_addresses([Source(kernel.name, 0, parsed=kernel)])
    x, y = buffer.empty(4 * given), buffer.empty(4 * made)
    x.numpy((given,), "float32", writable=True)[...] = 0.5
    plan = Plan([Launch(address, grid, (0, 1), grain, kernel.name)], 2)
    found = float("inf")
    for _ in range(_ROUNDS):
        start = time.perf_counter()
        plan.run((x.ptr, y.ptr))
        found = min(found, time.perf_counter() - start)
    return found
