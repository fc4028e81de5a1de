"""Results whose places lie a few elements apart from lane to lane: written side by side, a whole
vector at a time, and nothing else is touched.
"""

from __future__ import annotations

import re

import numpy as np
import pytest

import lamella as lm
from lamella.compiler.emit.llvm import emit_module
from lamella.compiler.emit.target import named
from lamella.dtypes import DType, bool_, float16, float32, float64, int8
from lamella.ir import index as ix
from lamella.ir.loops import Apply, BufferParam, Const, For, Kernel, Load, Store, Var
from lamella.ir.text import parse_kernel
from tests.support.llvm_backend import NAMES, addresses, run_kernel_llvm, target_named


def kernel_of(dtype: DType, parts: int, count: int) -> Kernel:
    """``y[parts j + p] = x_p[j]``."""
    j = Var("j", count)
    body = tuple(
        Store("y", ix.add(ix.mul(j, parts), p), Load(f"x{p}", j, dtype)) for p in range(parts)
    )
    grid = For(Var("i", 1), "grid", (For(j, "lanes", body),))
    given = tuple(BufferParam(f"x{p}", dtype, "in") for p in range(parts))
    buffers = (*given, BufferParam("y", dtype, "out"))
    return Kernel(f"woven_{dtype.name}_{parts}_{count}", buffers, (), (), grid)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", [float32, float64, float16, int8, bool_], ids=lambda d: d.name)
def test_woven_stores(dtype: DType, name: str) -> None:
    rng, target = np.random.default_rng(0), target_named(name)
    kernels = [kernel_of(dtype, parts, n) for parts in (2, 3, 4) for n in (1, 16, 101, 256)]
    known = addresses(kernels, target)
    for kernel in kernels:
        parts, count = (int(number) for number in kernel.name.split("_")[2:])
        x = rng.integers(0, 2 if dtype is bool_ else 99, (parts, count)).astype(dtype.numpy)
        around = np.ones(64 + parts * count + 64, dtype.numpy)
        y = around[64 : 64 + parts * count]
        arrays = {"y": y} | {f"x{p}": x[p].copy() for p in range(parts)}
        run_kernel_llvm(kernel, arrays, {}, {}, target, known)
        np.testing.assert_array_equal(y.reshape(count, parts), x.T)
        y[:] = 1
        assert (around == 1).all()


def test_vectors_are_woven_where_no_place_is_left_out() -> None:
    whole, j = kernel_of(float32, 3, 64), Var("j", 64)
    constant = Store("y", ix.add(ix.mul(j, 3), 1), Const(2.0, float32))
    (lanes,) = whole.body.body
    for stores, scatters in ((lanes.body, 0), (lanes.body[:2], 2), ((lanes.body[0], constant), 2)):
        grid = For(Var("i", 1), "grid", (For(j, "lanes", stores),))
        text = emit_module([Kernel("k", whole.buffers, (), (), grid)], named("avx512"))
        calls = re.findall(r"call void @llvm.masked.scatter", text)
        assert bool(calls) == bool(scatters)


TEXT = """kernel in_turn
  inout y: float32
  in x: float32
grid i < 1
  lanes j < 64
    y[2*j] = x[j]
    y[2*j + 1] = add(y[2*j], y[2*j + 1])
"""


@pytest.mark.parametrize("name", NAMES)
def test_a_value_made_of_what_is_stored_before(name: str) -> None:
    kernel, target = parse_kernel(TEXT), target_named(name)
    x, y = np.arange(64, dtype=np.float32), np.arange(128, dtype=np.float32)
    wanted = np.stack([x, x + y[1::2]], 1).ravel()
    arrays = {"y": y, "x": x}
    run_kernel_llvm(kernel, arrays, {}, {}, target, addresses([kernel], target))
    np.testing.assert_array_equal(y, wanted)


@pytest.mark.parametrize("parts", [2, 3, 4, 5])
def test_short_last_axes(parts: int) -> None:
    x = np.random.default_rng(parts).normal(size=(parts, 5003)).astype(np.float32)
    rows = [lm.asarray(row) for row in x]
    bias = np.arange(parts, dtype=np.float32)
    np.testing.assert_array_equal(lm.stack(rows, -1).numpy(), x.T)
    np.testing.assert_array_equal((lm.stack(rows, -1) + lm.asarray(bias)).numpy(), x.T + bias)
    np.testing.assert_array_equal((lm.asarray(x).T * 2.0).numpy(), x.T * 2)
    padded = lm.pad(lm.asarray(x.T.copy()), ((0, 0), (1, 0)))
    np.testing.assert_array_equal(padded.numpy(), np.pad(x.T, ((0, 0), (1, 0))))
    joined = lm.jit(lambda a, b: lm.stack([a, b * 2], -1).reshape(-1))
    np.testing.assert_array_equal(
        joined(rows[0], rows[1]).numpy(), np.stack([x[0], x[1] * 2], -1).ravel()
    )


@pytest.mark.usefixtures("optimized")
def test_stacks_of_few_read_and_write_each_line_once() -> None:
    rows = [lm.ones(5003) * i for i in range(3)]
    lm.eval(*rows)
    (kernel,) = lm.jit(lambda *rows: lm.stack(rows, -1)).lower(*rows).kernels
    (lanes,) = kernel.body.body
    stores = [s for s in lanes.body if isinstance(s, Store)]
    assert [ix.parts(s.index)[0] for s in stores] == [0, 1, 2]
    assert all(isinstance(s.value, Load) and s.value.mask is None for s in stores)


def test_substitution_decides_what_constants_decide() -> None:
    i, x = Var("i", 2), Load("x", Var("j", 8), float32)
    first = Apply("lt", (i, Const(1, ix.constant(0).dtype)), bool_)
    masked = Load("x", Var("j", 8), float32, first)
    value = Apply("select", (Apply("and", (first, ix.TRUE), bool_), masked, x), float32)
    for number, mask in ((0, None), (1, None)):
        found = ix.Substitution({i: ix.constant(number)})(value)
        assert isinstance(found, Load) and found.mask is mask
