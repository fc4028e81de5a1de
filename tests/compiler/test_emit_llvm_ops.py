"""The LLVM emitter: every operation on every dtype at special values, as vectors and tails, against
the interpreter, on each x86 target the machine runs.
"""

from __future__ import annotations

import itertools
import struct
from functools import cache
from typing import Any

import numpy as np
import pytest

from lamella.compiler.codegen import compile_objects
from lamella.compiler.emit.target import named
from lamella.dtypes import ALL, DType, bool_, float32, float64
from lamella.ir.loop_interp import run_kernel
from lamella.ir.loop_text import BOOL_RESULTS
from lamella.ir.loops import (
    APPLY_OPS,
    Apply,
    BufferParam,
    For,
    Kernel,
    Load,
    Store,
    Var,
)
from lamella.ir.verify_exprs import apply_kinds
from tests.support.kernels import APPROXIMATE
from tests.support.llvm_backend import (
    NAMES,
    addresses,
    run_kernel_llvm,
    same_bits,
    target_named,
)  # fmt: skip

pytestmark = pytest.mark.makes_no_program

Array = np.ndarray[Any, Any]
CONVERSIONS = ("cast", "bitcast")
CASES = [
    (op, dtype)
    for op in sorted(set(APPLY_OPS) - {"checked_index", "word", "ldexp", *CONVERSIONS})
    for dtype in ALL
    if dtype.kind in apply_kinds(op)
]
CASTS = [
    (op, source, dtype)
    for op, source, dtype in itertools.product(CONVERSIONS, ALL, ALL)
    if op == "cast" or (source.itemsize == dtype.itemsize and source.kind != "b" != dtype.kind)
]


# -- operations ------------------------------------------------------------------------------------
def special_values(dtype: DType) -> Array:
    """Values at the edges of a dtype."""
    if dtype.kind == "b":
        return np.array([False, True])
    if dtype.kind == "f":
        tiny = {"float16": -24, "bfloat16": -133, "float32": -149, "float64": -1074}[dtype.name]
        least = 2.0**tiny
        most = {"float16": 65504.0, "float64": 1.7e308}.get(dtype.name, 3.3e38)
        values = [0.0, 1.0, 0.5, 2.5, 1.5, 3.0, 7.25, 0.1, 100.7, 2049.0, most, least, 3 * least,
        65520.0, np.inf, 300.0, 2.0**31,
                  2.0**63, 2.0**64, 1.0009765625, 1 + 2.0**-11, 88.7]  # fmt: skip
        return np.array([*values, *(-v for v in values), np.nan]).astype(dtype.numpy)
    info = np.iinfo(dtype.numpy)
    found = {
        info.min,
        info.min + 1,
        info.max,
        info.max - 1,
        0,
        1,
        2,
        3,
        7,
        dtype.bits,
        info.max // 3,
    }
    found |= {-1, -7, -dtype.bits} if dtype.kind == "i" else set()
    return np.array(sorted(found), dtype.numpy)


def kernel_of(op: str, sources: list[DType], dtype: DType, size: int) -> Kernel:
    """``y[j] = op(x0[j], …)`` along lanes."""
    i, j = Var("i", 1), Var("j", size)
    loads = tuple(Load(f"x{at}", j, source) for at, source in enumerate(sources))
    buffers = [BufferParam(f"x{at}", source, "in") for at, source in enumerate(sources)]
    buffers.append(BufferParam("y", dtype, "out"))
    name = "_".join(["k", op, *[s.name for s in sources], dtype.name])
    body = For(i, "grid", (For(j, "lanes", (Store("y", j, Apply(op, loads, dtype)),)),))
    return Kernel(name, tuple(buffers), (), (), body)


@cache
def operation(op: str, dtype: DType) -> tuple[Kernel, dict[str, Array]]:
    count = APPLY_OPS[op][0]
    sources = [dtype] * count if op != "select" else [bool_, dtype, dtype]
    pools = [special_values(source) for source in sources]
    if count == 3:
        pools = [pool[:: max(1, len(pool) // 9)] for pool in pools]
    grid = [np.ascontiguousarray(g.reshape(-1)) for g in np.meshgrid(*pools, indexing="ij")]
    result = bool_ if op in BOOL_RESULTS else dtype
    arrays = {f"x{at}": values for at, values in enumerate(grid)}
    return kernel_of(op, sources, result, grid[0].size), arrays


@cache
def conversion(op: str, source: DType, dtype: DType) -> tuple[Kernel, dict[str, Array]]:
    values = special_values(source)
    return kernel_of(op, [source], dtype, values.size), {"x0": values}


@cache
def compiled(name: str, op: str) -> dict[str, int]:
    """All kernels of one operation for one target, compiled together."""
    made = [operation(*case)[0] for case in CASES if case[0] == op]
    made += [conversion(*case)[0] for case in CASTS if case[0] == op]
    return addresses(made, target_named(name, exact=True))


def ran(case: tuple[Kernel, dict[str, Array]], name: str, op: str) -> tuple[Array, Array]:
    """The results in machine code and in Python."""
    kernel, inputs = case
    result = kernel.buffers[-1].dtype.numpy
    ours, theirs = (dict(inputs, y=np.zeros(inputs["x0"].size, result)) for _ in range(2))
    run_kernel_llvm(kernel, ours, {}, {}, target_named(name, exact=True), compiled(name, op))
    run_kernel(kernel, theirs, {}, {})
    return ours["y"], theirs["y"]


def close(a: Array, b: Array, ulps: int) -> None:
    """Within ``ulps`` units in the last place of the dtype; infinities and nans equal."""
    wide_a, wide_b = a.astype(np.float64), b.astype(np.float64)
    digits = {"float16": 11, "bfloat16": 8, "float32": 24, "float64": 53}[a.dtype.name]
    least = {"float16": -24, "bfloat16": -133, "float32": -149, "float64": -1074}[a.dtype.name]
    finite = np.isfinite(wide_b) & np.isfinite(wide_a)
    np.testing.assert_array_equal(wide_a[~finite], wide_b[~finite])
    quantum = np.maximum(np.frexp(np.abs(wide_b[finite]))[1] - digits, least)
    assert np.all(np.abs(wide_a[finite] - wide_b[finite]) <= ulps * np.ldexp(1.0, quantum))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("op", "dtype"), CASES, ids=lambda x: getattr(x, "name", x))
def test_operation_equals_interpreter(op: str, dtype: DType, name: str) -> None:
    ours, theirs = ran(operation(op, dtype), name, op)
    if op in ("floordiv", "mod") and dtype.kind == "f":  # larger quotients are not exact
        x, y = (operation(op, dtype)[1][key].astype(np.float64) for key in ("x0", "x1"))
        with np.errstate(all="ignore"):
            keep = ~(np.abs(x / y) >= 2.0**53) | np.isinf(x) | (y == 0)
        ours, theirs = ours[keep], theirs[keep]
    if op in APPROXIMATE and dtype.kind == "f":
        close(ours, theirs, 4)
    elif op in ("max", "min"):  # which zero comes out is left open
        same_bits(ours + ours.dtype.type(0), theirs + theirs.dtype.type(0))
    else:
        same_bits(ours, theirs)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("op", "source", "dtype"), CASTS, ids=lambda x: getattr(x, "name", x))
def test_conversion_equals_interpreter(op: str, source: DType, dtype: DType, name: str) -> None:
    same_bits(*ran(conversion(op, source, dtype), name, op))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", [float32, float64], ids=lambda d: d.name)
@pytest.mark.parametrize("size", [1, 3, 8, 21, 1000])
def test_products_by_powers_of_two_round_once(size: int, dtype: DType, name: str) -> None:
    rng = np.random.default_rng(size)
    a = (rng.uniform(0.5, 2, size) * rng.choice([-1, 1], size)).astype(dtype.numpy)
    edge = 149 if dtype is float32 else 1074  # half of the drawn results are subnormal or 0
    most = 190 if dtype is float32 else 1534
    b = np.where(rng.random(size) < 0.5, rng.integers(-edge - 3, -edge + 30, size),
                 rng.integers(-most, most + 1, size))  # fmt: skip
    given = b.astype(dtype.numpy)
    a[size // 2], given[size // 2] = (np.nan, np.nan) if size > 20 else (a[0], given[0])
    kernel = kernel_of("ldexp", [dtype, dtype], dtype, size)
    arrays = {"x0": a, "x1": given, "y": np.zeros(size, dtype.numpy)}
    run_kernel_llvm(kernel, arrays, {}, {}, target_named(name))
    with np.errstate(over="ignore"):
        wanted = np.ldexp(a.astype(np.float64), np.nan_to_num(given).astype(int))
        np.testing.assert_array_equal(arrays["y"], wanted.astype(dtype.numpy))
    theirs = dict(arrays, y=np.zeros(size, dtype.numpy))
    run_kernel(kernel, theirs, {}, {})
    same_bits(arrays["y"], theirs["y"])


def undefined(image: bytes) -> set[str]:
    """The names an ELF object leaves to others."""
    (start,) = struct.unpack_from("<Q", image, 40)
    size, count = struct.unpack_from("<HH", image, 58)
    sections = [struct.unpack_from("<IIQQQQIIQQ", image, start + k * size) for k in range(count)]
    found = set()
    for section in (s for s in sections if s[1] == 2):
        names = sections[section[6]][4]
        for at in range(section[4], section[4] + section[5], 24):
            name, _, _, defined_in = struct.unpack_from("<IBBH", image, at)
            if name and not defined_in:
                found.add(image[names + name : image.index(b"\0", names + name)].decode())
    return found


@pytest.mark.slow
def test_no_operation_calls_a_library() -> None:
    made = [operation(*case)[0] for case in CASES] + [conversion(*case)[0] for case in CASTS]
    for at in range(0, len(made), 50):  # x86 objects are linked above, where a missing name fails
        data = compile_objects(made[at : at + 50], named("aarch64"))
        assert undefined(data[data.index(b"\x7fELF") :]) == set()
