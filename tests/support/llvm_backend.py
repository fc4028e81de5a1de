"""Run a kernel through the LLVM emitter on NumPy arrays.

Input: what ``lamella.ir.loop_interp.run_kernel`` takes, and a target this machine can run. Output:
the arrays, changed in the same way.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from lamella.compiler.codegen import compile_objects, load_object
from lamella.compiler.emit.llvm import scratch_bytes
from lamella.compiler.emit.target import Target, host, named
from lamella.dtypes import DType
from lamella.ir.loops import Kernel
from tests.support.c_backend import grid_extent

Array = np.ndarray[Any, Any]


def _emitted_for(target: Target) -> Target:
    """What the emitter reads of a target: neither names nor the sizes of caches."""
    return replace(target, name="", triple="", cpu="", features="", l1=0, l2=0, l3=0)


# On a machine whose instructions are those of a named target, the host stands for both.
_OTHERS = ("avx2", "x86-64-v2")
NAMES = ("host", *(n for n in _OTHERS if _emitted_for(named(n)) != _emitted_for(host())))


def target_named(name: str, *, exact: bool = False) -> Target:
    """The host, or a named target this machine runs (else the test is skipped); ``exact`` forbids
    contraction.
    """
    here = host()
    target = here if name == "host" else named(name)
    why = target.lacks(here)
    if why:
        pytest.skip(f"this machine does not run {name}: {why}")
    return replace(target, triple=here.triple, contract=not exact)


def addresses(kernels: Sequence[Kernel], target: Target) -> dict[str, int]:
    """Compile kernels of distinct names together."""
    return load_object(compile_objects(kernels, target))


def _word(value: bool | int | float, dtype: DType) -> int:
    return int.from_bytes(np.asarray([value]).astype(dtype.numpy).tobytes(), "little")


def run_kernel_llvm(
    kernel: Kernel,
    arrays: Mapping[str, Array],
    params: Mapping[str, bool | int | float],
    sizes: Mapping[str, int],
    target: Target,
    known: Mapping[str, int] | None = None,
    cuts: Sequence[int] = (),
) -> None:
    """Run all grid iterations, in pieces that end at ``cuts``; ``known`` holds addresses if it has
    been compiled.
    """
    words = [arrays[b.name].ctypes.data for b in kernel.buffers]
    words += [_word(params[p.name], p.dtype) for p in kernel.params]
    words += [sizes[name] for name in kernel.sizes]
    scratch = np.zeros(scratch_bytes(kernel) + 64, np.uint8)
    words.append(scratch.ctypes.data + -scratch.ctypes.data % 64)
    address = (known or addresses([kernel], target))[kernel.name]
    function = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)(address)
    slots = (ctypes.c_uint64 * len(words))(*words)
    start = 0
    for stop in (*cuts, grid_extent(kernel, sizes)):
        function(ctypes.addressof(slots), start, stop)
        start = stop


def same_bits(a: Array, b: Array) -> None:
    """Equal, zeros with their sign; any nan equals any nan."""
    if a.dtype.kind not in "biu":
        a, b = a.astype(np.float64), b.astype(np.float64)
        numbers = ~np.isnan(a)
        np.testing.assert_array_equal(np.signbit(a[numbers]), np.signbit(b[numbers]))
    np.testing.assert_array_equal(a, b)
