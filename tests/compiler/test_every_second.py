"""Vector accesses to every second element: exact, and nothing beyond the last is touched; and under
masks.
"""

from __future__ import annotations

import re

import numpy as np
import pytest

from lamella.compiler.emit.llvm import emit_module
from lamella.compiler.emit.target import named
from lamella.dtypes import DType, bool_, float32, float64, int8, int64
from lamella.ir import index as ix
from lamella.ir.loops import BufferParam, Const, For, Kernel, Load, Store, Var
from tests.support.llvm_backend import NAMES, addresses, run_kernel_llvm, target_named

pytestmark = pytest.mark.makes_no_program


def kernel_of(dtype: DType, count: int, start: int) -> Kernel:
    """``y[2 j] = x[2 j + start]`` and ``z[j]`` the same."""
    j = Var("j", count)
    place = ix.mul(j, 2)
    value = Load("x", ix.add(place, start), dtype)
    body = (Store("y", place, value), Store("z", j, value))
    grid = For(Var("i", 1), "grid", (For(j, "lanes", body),))
    buffers = (BufferParam("x", dtype, "in"), BufferParam("y", dtype, "inout"),
               BufferParam("z", dtype, "out"))  # fmt: skip
    return Kernel(f"second_{dtype.name}_{count}_{start}", buffers, (), (), grid)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", [float32, float64, int8, int64, bool_], ids=lambda d: d.name)
def test_every_second(dtype: DType, name: str) -> None:
    rng = np.random.default_rng(0)
    target = target_named(name)
    for count in (1, 7, 16, 64, 101):
        for start in (0, 1):
            kernel = kernel_of(dtype, count, start)
            x = rng.integers(0, 2 if dtype is bool_ else 99, 2 * count - 1 + start)
            x, size = x.astype(dtype.numpy), 2 * count - 1
            around = {key: np.ones(64 + n + 256, dtype.numpy) for key, n in (("y", size), ("z", 0))}
            y, z = around["y"][64 : 64 + size], around["z"][64 : 64 + count]
            arrays = {"x": x, "y": y, "z": z}
            run_kernel_llvm(kernel, arrays, {}, {}, target, addresses([kernel], target))
            np.testing.assert_array_equal(y[::2], x[start::2])
            np.testing.assert_array_equal(z, x[start::2])
            y[::2] = z[:] = 1
            assert all((whole == 1).all() for whole in around.values())


def test_rows_under_a_mask_that_holds_nowhere_are_not_looked_for_far_away() -> None:
    """The two halves of a concatenation: beyond each lies memory that may not be there."""
    i = Var("i", 64)
    second = Load("b", ix.sub(i, 32), float32, ix.lt(31, i), Const(0.0, float32))
    body = (Store("y", i, second),)
    grid = For(Var("g", 1), "grid", (For(i, "lanes", body),))
    buffers = (BufferParam("b", float32, "in"), BufferParam("y", float32, "out"))
    text = emit_module([Kernel("halves", buffers, (), (), grid)], named("avx512"))
    loads = re.findall(r"@llvm.masked.load[^(]*\(ptr align 4 (%\S+),", text)
    assert loads and all(f"{name} = select i1" in text for name in loads)
