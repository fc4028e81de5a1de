"""The C99 emitter: every operation on every dtype at special values against NumPy, and kernels
against the interpreter.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from lamella.compiler.emit.c import emit_c
from lamella.dtypes import ALL, INTEGERS, DType, bool_, float16, float32, float64
from lamella.errors import CompilerError
from lamella.ir.loop_interp import run_kernel
from lamella.ir.loop_text import BOOL_RESULTS
from lamella.ir.loops import APPLY_OPS, Apply, BufferParam, For, Kernel, Load, Store, Var
from lamella.ir.text import parse_kernel
from lamella.ir.verify_exprs import apply_kinds
from lamella.ir.verify_loops import verify_kernel
from tests.support.c_backend import merge, run_kernel_c
from tests.support.kernels import APPROXIMATE, PARAMS, kernels
from tests.support.kernels import SIZES as DRAWN_SIZES
from tests.support.kernels import arrays_for as drawn_arrays

pytestmark = pytest.mark.makes_no_program

Array = np.ndarray[Any, Any]
CONVERSIONS = ("cast", "bitcast")
OPS = sorted(set(APPLY_OPS) - {"checked_index", "word", "ldexp", *CONVERSIONS})
CASES = [(op, dtype) for op in OPS for dtype in ALL if dtype.kind in apply_kinds(op)]
CASTS = [
    (op, source, dtype)
    for op, source, dtype in itertools.product(CONVERSIONS, ALL, ALL)
    if op == "cast" or (source.itemsize == dtype.itemsize and source.kind != "b" != dtype.kind)
]


def special_values(dtype: DType) -> Array:
    if dtype.kind == "b":
        return np.array([False, True])
    if dtype.kind == "f":
        name = dtype.name
        tiny = {"float16": 2.0**-24, "bfloat16": 2.0**-133, "float32": 2.0**-149}.get(
            name, 2.0**-1074
        )
        most = {"float16": 65504.0, "float64": 1.7e308}.get(name, 3.3e38)
        values = [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 1.5, 3.0, -7.25, 0.1, 1e-3, 100.7, 2049.0, most,
        -most,
                  tiny, -tiny, tiny * 1.5, 65520.0, math.inf, -math.inf,
                  math.nan, 300.0, 2.0**31, -(2.0**63), 2.0**64]  # fmt: skip
    else:
        low, high = (
            (0, 2**dtype.bits - 1)
            if dtype.kind == "u"
            else (-(2 ** (dtype.bits - 1)), 2 ** (dtype.bits - 1) - 1)
        )
        wide = [2**53 + 1, 2**60 + 2**52 + 1] if dtype.bits == 64 else []
        values = sorted({low, low + 1, high, high - 1, max(low, -1), max(low, -7), 0, 1, 2, 3, 7,
        dtype.bits, high // 3,
                         *wide})  # fmt: skip
        return np.array(values, dtype.numpy)
    return np.array(values, np.float64).astype(dtype.numpy)


def kernel_of(op: str, sources: list[DType], dtype: DType, size: int) -> Kernel:
    i = Var("i", size)
    loads = tuple(Load(f"x{at}", i, source) for at, source in enumerate(sources))
    buffers = [BufferParam(f"x{at}", source, "in") for at, source in enumerate(sources)]
    store = Store("y", i, Apply(op, loads, dtype))
    name = "_".join(["k", op, *[s.name for s in sources], dtype.name])
    buffers.append(BufferParam("y", dtype, "out"))
    return Kernel(name, tuple(buffers), (), (), For(i, "grid", (store,)))


def operation(op: str, dtype: DType) -> tuple[Kernel, dict[str, Array]]:
    """A kernel that applies ``op`` to all pairs of special values of ``dtype``."""
    count = APPLY_OPS[op][0]
    sources = [dtype] * count if op != "select" else [bool_, dtype, dtype]
    pools = [special_values(source) for source in sources]
    if count == 3:
        pools = [pool[:: max(1, len(pool) // 9)] for pool in pools]
    grid = [g.reshape(-1) for g in np.meshgrid(*pools, indexing="ij")]
    result = bool_ if op in BOOL_RESULTS else dtype
    arrays = {f"x{at}": np.ascontiguousarray(values) for at, values in enumerate(grid)}
    arrays["y"] = np.zeros(grid[0].size, result.numpy)
    return kernel_of(op, sources, result, grid[0].size), arrays


def conversion(op: str, source: DType, dtype: DType) -> tuple[Kernel, dict[str, Array]]:
    values = special_values(source)
    arrays = {"x0": values, "y": np.zeros(values.size, dtype.numpy)}
    return kernel_of(op, [source], dtype, values.size), arrays


def ran(case: tuple[Kernel, dict[str, Array]], others: list[Kernel]) -> tuple[Array, Array]:
    """The results in C and in Python."""
    kernel, arrays = case
    verify_kernel(kernel)
    in_c, in_python = dict(arrays, y=arrays["y"].copy()), dict(arrays, y=arrays["y"].copy())
    run_kernel_c(kernel, in_c, {}, {}, merge(tuple(others)))
    run_kernel(kernel, in_python, {}, {})
    return in_c["y"], in_python["y"]


@pytest.fixture(scope="module")
def operations() -> list[Kernel]:
    return [operation(op, dtype)[0] for op, dtype in CASES]


@pytest.fixture(scope="module")
def conversions() -> list[Kernel]:
    return [conversion(*case)[0] for case in CASTS]




def same_bits(a: Array, b: Array) -> None:
    """Equal, zeros with their sign; any nan equals any nan."""
    if a.dtype.kind in "biu":
        np.testing.assert_array_equal(a, b)
        return
    a, b = a.astype(np.float64), b.astype(np.float64)
    np.testing.assert_array_equal(a, b)
    numbers = ~np.isnan(a)
    np.testing.assert_array_equal(np.signbit(a[numbers]), np.signbit(b[numbers]))


def close(a: Array, b: Array, ulps: int) -> None:
    """Within ``ulps`` units in the last place of the dtype; infinities and nans equal."""
    wide_a, wide_b = a.astype(np.float64), b.astype(np.float64)
    digits = {"float16": 11, "bfloat16": 8, "float32": 24, "float64": 53}[a.dtype.name]
    least = {"float16": -24, "bfloat16": -133, "float32": -149, "float64": -1074}[a.dtype.name]
    finite = np.isfinite(wide_b) & np.isfinite(wide_a)
    np.testing.assert_array_equal(wide_a[~finite], wide_b[~finite])
    quantum = np.maximum(np.frexp(np.abs(wide_b[finite]))[1] - digits, least)
    assert np.all(np.abs(wide_a[finite] - wide_b[finite]) <= ulps * np.ldexp(1.0, quantum))


@pytest.mark.parametrize(("op", "dtype"), CASES, ids=lambda x: getattr(x, "name", x))
def test_operation_in_c_equals_interpreter(op: str, dtype: DType, operations: list[Kernel]) -> None:
    in_c, in_python = ran(operation(op, dtype), operations)
    if op in APPROXIMATE and dtype.kind == "f":
        close(in_c, in_python, 4)
    else:
        same_bits(in_c, in_python)


@pytest.mark.parametrize(("op", "source", "dtype"), CASTS, ids=lambda x: getattr(x, "name", x))
def test_conversion_in_c_equals_interpreter(
    op: str, source: DType, dtype: DType, conversions: list[Kernel]
) -> None:
    same_bits(*ran(conversion(op, source, dtype), conversions))


NUMPY = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "neg": np.negative,
    "abs": np.abs,
    "sign": np.sign, "max": np.maximum, "min": np.minimum, "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor, "not": np.invert, "lt": np.less, "le": np.less_equal, "eq": np.equal,
    "ne": np.not_equal,
    "floordiv": np.floor_divide, "mod": np.remainder, "select": np.where, "floor": np.floor,
    "ceil": np.ceil,
    "trunc": np.trunc, "round": np.rint, "sqrt": np.sqrt, "isnan": np.isnan, "isinf": np.isinf,
    "isfinite": np.isfinite, "signbit": np.signbit, "copysign": np.copysign, "exp": np.exp,
    "exp2": np.exp2,
    "expm1": np.expm1, "log": np.log, "log2": np.log2, "log10": np.log10, "log1p": np.log1p,
    "sin": np.sin,
    "cos": np.cos, "tan": np.tan, "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan,
    "atan2": np.arctan2,
    "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh, "asinh": np.arcsinh, "acosh": np.arccosh,
    "atanh": np.arctanh,
    "pow": np.power, "shl": np.left_shift, "shr": np.right_shift,
}  # fmt: skip
INTERPRETED = [
    (op, dtype) for op, dtype in CASES
    if op in NUMPY and not (op == "pow" and dtype.kind != "f")
]  # fmt: skip


@pytest.mark.parametrize(("op", "dtype"), INTERPRETED, ids=lambda x: getattr(x, "name", x))
def test_interpreter_equals_numpy(op: str, dtype: DType) -> None:
    kernel, arrays = operation(op, dtype)
    run_kernel(kernel, arrays, {}, {})
    inputs = [arrays[f"x{at}"] for at in range(len(arrays) - 1)]
    ours = arrays["y"]
    if dtype.name == "bfloat16":  # through float32, which holds its exact results
        inputs = [x if x.dtype == bool else x.astype(np.float32) for x in inputs]
    theirs = NUMPY[op](*inputs).astype(ours.dtype)
    if op in ("floordiv", "mod") and dtype.kind == "f" and dtype.bits < 64:
        # NumPy divides in the short format, where a large quotient has lost its last digits
        keep = np.abs(inputs[0].astype(np.float64) / inputs[1].astype(np.float64)) < 100
        ours, theirs = ours[keep], theirs[keep]
        if op == "floordiv":
            return close(ours, theirs, 0)
    if op in ("floordiv", "mod") and dtype.kind == "i":
        keep = (
            inputs[1] != -1
            if op == "mod"
            else (inputs[1] != -1) | (inputs[0] != np.iinfo(dtype.numpy).min)
        )
        ours, theirs = ours[keep], theirs[keep]
    if op in ("shl", "shr"):
        keep = (inputs[1] >= 0) & (inputs[1] < dtype.bits)
        ours, theirs = ours[keep], theirs[keep]
    if op in ("max", "min", "mod", "sign"):  # NumPy leaves open which zero it gives
        ours, theirs = ours + ours.dtype.type(0), theirs + theirs.dtype.type(0)
    if op in APPROXIMATE or op == "mod":
        return close(ours, theirs, 4) if ours.dtype.kind not in "biu" else same_bits(ours, theirs)
    return same_bits(ours, theirs)


def test_stated_integer_cases() -> None:
    cases = {
        ("floordiv", -128, -1): -128, ("floordiv", 5, 0): 0, ("mod", 5, 0): 0, ("mod", -128, -1): 0,
        ("mod", -7, 3): 2, ("mod", 7, -3): -2, ("shl", 1, 8): 0, ("shl", 1, -1): 0, ("shr", -3,
        8): -1,
        ("shr", 3, 9): 0, ("pow", 2, -1): 0, ("pow", -1, -3): -1, ("pow", 1, -3): 1, ("pow", 3,
        5): -13,
        ("abs", -128, 0): -128, ("neg", -128, 0): -128,
    }  # fmt: skip
    i8 = next(d for d in INTEGERS if d.name == "int8")
    for (op, a, b), want in cases.items():
        count = APPLY_OPS[op][0]
        kernel = kernel_of(op, [i8] * count, i8, 1)
        arrays = {
            "x0": np.array([a], np.int8),
            "x1": np.array([b], np.int8),
            "y": np.zeros(1, np.int8),
        }
        run_kernel(kernel, arrays, {}, {})
        assert arrays["y"][0] == want, (op, a, b)


def test_fma_of_short_floats_rounds_once() -> None:
    one = 1.0 + 2.0**-10
    exact = one * one + 2.0**-22  # above the tie by less than float32 would keep of a large sum
    kernel = kernel_of("fma", [float16] * 3, float16, 1)
    arrays = {"x0": np.array([one], np.float16), "x1": np.array([one], np.float16),
              "x2": np.array([2.0**-22], np.float16), "y": np.zeros(1, np.float16)}  # fmt: skip
    run_kernel_c(kernel, arrays, {}, {})
    assert arrays["y"][0] == np.float16(exact)


def test_products_by_powers_of_two_round_once() -> None:
    a, b = np.array([1.2345678, -0.9, 1.5, 2.0, np.nan]), np.array([-140, -149, -150, 127, np.nan])
    for dtype in (float32, float64):
        given = {"x0": a.astype(dtype.numpy), "x1": b.astype(dtype.numpy)}
        arrays = {**given, "y": np.zeros(5, dtype.numpy)}
        run_kernel_c(kernel_of("ldexp", [dtype, dtype], dtype, 5), arrays, {}, {})
        with np.errstate(over="ignore"):
            wanted = np.ldexp(given["x0"].astype(float), np.nan_to_num(b).astype(int))
            np.testing.assert_array_equal(arrays["y"], wanted.astype(dtype.numpy))


KERNELS = {
    "row_softmax": """kernel row_softmax
  in x: float32
  out y: float32
  param scale: float32
  sizes n, m
grid i < {m}
  var most: float32 = -inf:float32
  lanes j < {n}
    most max= x[{n}*i + 1*j]
  local e: float32[64]
  var total: float32 = 0.0:float32
  lanes k < {n}
    %0 = exp(mul(scale, sub(x[{n}*i + 1*k], most)))
    e[k] = %0
    total add= %0
  lanes l < {n}
    y[{n}*i + 1*l] = div(e[l], total)
""",
    "arg": """kernel arg
  in x: float64
  out v: float64
  out w: int64
  sizes n
grid i < {n}
  var best: float64 = -inf:float64
  var where: int64 = 9223372036854775807
  lanes j < 5
    best, where argmax= x[5*i + 1*j], j
  v[i] = best
  w[i] = where
""",
    "gather": """kernel gather
  in x: float16
  in at: int64
  out y: float16
  inout fault: int64
  sizes n, m
  faults 1
grid i < {m}
  y[i] = x[checked_index(at[i], [{n}])]
""",
    "guarded": """kernel guarded
  in x: int32
  out y: int32
  sizes n
grid i < {n + 2}
  %0 = lt(1*i + -1, [{n}])
  %1 = and(le(1, i), %0)
  y[i] = add(x[1*i + -1 if %1 else 7:int32], select(%1, x[1*i + -1 if %1], i32))
""".replace("i32", "3:int32"),
    "branches": """kernel branches
  inout x: bfloat16
  param p: bool
  param q: bfloat16
  sizes n
grid i < {n}
  var v: bfloat16 = x[i]
  if p
    v = mul(v, q)
    unroll u < 3
      v add= cast<bfloat16>(u)
  else
    serial s < cast<int64>(q)
      v = add(v, q)
  if lt(i, 2)
    x[i if ne(i, 1)] = v
  else
    x[i] = neg(v)
""",
    "big_scratch": """kernel big_scratch
  out y: int64
grid i < 2
  local t: int64[5000]
  serial j < 5000
    t[j] = mul(1*i + 1*j, 3)
  var s: int64 = 0
  lanes k < 5000
    s add= t[k]
  y[i] = s
""",
    "quotient": """kernel quotient
  out y: int64
  sizes n
grid i < {((n - 3)//2) + 1}
  y[i] = {n*n + ((n - 3)//2)}*i + {3*n - 1}
""",
}
SIZES = {"n": 7, "m": 6}


def arrays_for(kernel: Kernel, seed: int) -> dict[str, Array]:
    rng = np.random.default_rng(seed)
    found = {}
    for buffer in kernel.buffers:
        values = rng.uniform(-8, 8, 64)
        found[buffer.name] = (values > 0 if buffer.dtype.kind == "b" else values).astype(
            buffer.dtype.numpy
        )
    if "fault" in found:
        found["fault"][:] = 0
    return found


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("seed", [0, 1])
def test_kernel_in_c_equals_interpreter(name: str, seed: int) -> None:
    kernel = parse_kernel(KERNELS[name])
    verify_kernel(kernel)
    first = arrays_for(kernel, seed)
    second = {name: array.copy() for name, array in first.items()}
    params = {"scale": 0.3, "p": bool(seed), "q": 2.5}
    run_kernel(kernel, first, params, SIZES)
    run_kernel_c(kernel, second, params, SIZES)
    for buffer in kernel.buffers:
        if buffer.dtype.kind == "f":
            close(second[buffer.name], first[buffer.name], 4)
        else:
            np.testing.assert_array_equal(second[buffer.name], first[buffer.name])


def test_index_fault_is_reported_and_gives_zero() -> None:
    kernel = parse_kernel(KERNELS["gather"])
    for run in (run_kernel, run_kernel_c):
        arrays = arrays_for(kernel, 0)
        arrays["at"][:6] = [0, -7, 6, 7, -1, 3]
        arrays["fault"][:] = 0
        run(kernel, arrays, {}, SIZES)
        assert arrays["fault"][0] == 1
        np.testing.assert_array_equal(arrays["y"][:6], arrays["x"][[0, 0, 6, 0, 6, 3]])


def test_second_check_has_the_second_ordinal_and_unchosen_ones_none() -> None:
    kernel = parse_kernel("""kernel two
  in a: int64
  in b: int64
  out y: int64
  inout fault: int64
  faults 2
grid i < 4
  y[i] = select(lt(i, 2), checked_index(a[i], 3), checked_index(b[i], 3))
""")
    verify_kernel(kernel)
    for run in (run_kernel, run_kernel_c):
        for wrong, want in ((("a", 0), 1), (("b", 3), 2), (("a", 3), 0), (("b", 1), 0)):
            arrays = {name: np.zeros(4, np.int64) for name in ("a", "b", "y")}
            arrays["fault"] = np.zeros(1, np.int64)
            arrays[wrong[0]][wrong[1]] = 99
            run(kernel, arrays, {}, {})
            assert arrays["fault"][0] == want


def test_names_that_c_reserves_are_changed() -> None:
    kernel = parse_kernel("""kernel exp
  in double: float32
  out lm_add_int32: float32
  param args: float32
  sizes t1
grid for < {t1}
  var sin.0: float32 = add(double[for], args)
  lm_add_int32[for] = sin(sin.0)
""")
    arrays = {"double": np.ones(3, np.float32), "lm_add_int32": np.zeros(3, np.float32)}
    run_kernel_c(kernel, arrays, {"args": 0.5}, {"t1": 3})
    np.testing.assert_allclose(arrays["lm_add_int32"], np.sin(np.float32(1.5)), rtol=1e-6)


def test_shared_expressions_keep_the_text_linear() -> None:
    i = Var("i", 4)
    value: Load | Apply = Load("x", i, float64)
    for _ in range(60):
        value = Apply("mul", (Apply("add", (value, value), float64), value), float64)
    buffers = BufferParam("x", float64, "in"), BufferParam("y", float64, "out")
    kernel = Kernel("deep", buffers, (), (), For(i, "grid", (Store("y", i, value),)))
    assert len(emit_c(kernel)) < 20_000


def test_negation_within_other_operators_compiles_without_a_warning() -> None:
    kernel = parse_kernel("""kernel negation
  in x: bool
  out y: bool
grid i < 4
  y[i] = or(not(true), and(not(x[i]), eq(i, 2)))
""")
    arrays = {"x": np.array([True, False, False, True]), "y": np.zeros(4, bool)}
    run_kernel_c(kernel, arrays, {}, {})
    assert arrays["y"].tolist() == [False, False, True, False]


def test_barrier_is_refused() -> None:
    kernel = parse_kernel("""kernel b
  out y: int64
grid i < 2
  block j < 2
    barrier
    y[2*i + 1*j] = j
""")
    with pytest.raises(CompilerError, match="barrier"):
        emit_c(kernel)


@given(st.lists(kernels(), min_size=6, max_size=6))
@settings(max_examples=5, phases=[Phase.generate])  # shrinking would compile C for minutes
def test_drawn_kernels_in_c_equal_interpreter(drawn: list[Kernel]) -> None:
    named = tuple([replace(kernel, name=f"k{at}") for at, kernel in enumerate(drawn)])
    library = merge(named)
    for seed, kernel in enumerate(named):
        first = drawn_arrays(kernel, seed)
        second = {name: array.copy() for name, array in first.items()}
        run_kernel(kernel, first, PARAMS, DRAWN_SIZES)
        run_kernel_c(kernel, second, PARAMS, DRAWN_SIZES, library)
        for name, array in first.items():
            same_bits(second[name], array)
