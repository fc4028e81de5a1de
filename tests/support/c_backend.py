"""Compile a kernel's C99 with the system's compiler and run it on NumPy arrays.

Input: what ``lamella.ir.loop_interp.run_kernel`` takes. Output: the arrays, changed in the same
way. Kernels are compiled with warnings as errors. Where there is no C compiler the test is skipped
with that reason.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lamella.compiler.emit.c import emit_c, function_name
from lamella.dtypes import DType
from lamella.ir.dim import Dim, bind
from lamella.ir.loops import Kernel

COMPILER = shutil.which(os.environ.get("CC", "cc"))
FLAGS = ("-std=c99", "-O1", "-fPIC", "-shared", "-ffp-contract=off", "-Wall", "-Werror",
         # what only drawn kernels do: odd constants, and names that nothing uses
         "-Wno-unused", "-Wno-maybe-uninitialized", "-Wno-tautological-compare", "-Wno-overflow",
         "-Wno-div-by-zero", "-Wno-bool-compare", "-Wno-bool-operation",
         "-Wno-int-in-bool-context")  # fmt: skip


@cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="lamella-c-")


@cache
def load_c(source: str) -> ctypes.CDLL:
    """The library made of ``source``; a failure of the compiler raises with its messages and the
    source.
    """
    if COMPILER is None:
        pytest.skip("there is no C compiler (cc) on this machine")
    base = Path(_folder().name, hashlib.sha256(source.encode()).hexdigest()[:16])
    base.with_suffix(".c").write_text(source, encoding="utf-8")
    library = base.with_suffix(".so")
    command = [COMPILER, *FLAGS, str(base.with_suffix(".c")), "-o", str(library), "-lm"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise AssertionError(f"{done.stderr}\n{source}")
    return ctypes.CDLL(str(library))


@cache
def merge(kernels: tuple[Kernel, ...]) -> ctypes.CDLL:
    """One library of several kernels of distinct names: far less work for the compiler than one by
    one.
    """
    head, seen, functions = "", {}, []
    for kernel in kernels:
        head, rest = emit_c(kernel).split("\n\n/* helpers */\n\n")
        head = head.partition("*/\n\n")[2]
        *helpers, function = rest.split("\n\n")
        seen.update(dict.fromkeys(helpers))
        functions.append(function)
    return load_c("\n\n".join([head, *seen, *functions]) + "\n")


def _word(value: bool | int | float, dtype: DType) -> int:
    raw = np.asarray([value]).astype(dtype.numpy).tobytes()
    return int.from_bytes(raw, "little")


def grid_extent(kernel: Kernel, sizes: Mapping[str, int]) -> int:
    """The number of grid iterations."""
    extent = kernel.body.var.extent
    if not isinstance(extent, int | Dim):
        raise TypeError(f"the grid's extent is {extent}")
    return bind(extent, sizes)


def run_kernel_c(
    kernel: Kernel,
    arrays: Mapping[str, np.ndarray[Any, Any]],
    params: Mapping[str, bool | int | float],
    sizes: Mapping[str, int],
    library: ctypes.CDLL | None = None,
) -> None:
    """Run all grid iterations of ``kernel``, compiled from C (``library`` if it has been), on
    ``arrays``.
    """
    words = []
    for buffer in kernel.buffers:
        array = arrays[buffer.name]
        if array.dtype != buffer.dtype.numpy or not array.flags.c_contiguous:
            raise TypeError(f"{buffer.name} must be a contiguous {buffer.dtype.name} array")
        words.append(array.ctypes.data)
    words += [_word(params[param.name], param.dtype) for param in kernel.params]
    words += [sizes[name] for name in kernel.sizes]
    loaded = library if library is not None else load_c(emit_c(kernel))
    function = getattr(loaded, function_name(kernel))
    function.restype = None
    function.argtypes = [ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64]
    args = (ctypes.c_uint64 * max(1, len(words)))(*words)
    function(args, 0, grid_extent(kernel, sizes))
