"""The LLVM emitter: drawn kernels, and the shapes of loops the compiler makes, against the
interpreter; vectors, tails and masks on each x86 target the machine runs.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from lamella.compiler.codegen import compile_objects, load_object
from lamella.compiler.emit.llvm import emit_module, scratch_bytes
from lamella.compiler.emit.target import Target, host, named
from lamella.compiler.mathlib import expand_math
from lamella.errors import CompilerError
from lamella.ir.loop_interp import run_kernel
from lamella.ir.loops import (
    Accumulate,
    For,
    If,
    Kernel,
    Stmt,
)
from lamella.ir.text import parse_kernel
from tests.support.kernels import PARAMS, kernels
from tests.support.kernels import SIZES as DRAWN_SIZES
from tests.support.kernels import arrays_for as drawn_arrays
from tests.support.llvm_backend import (
    NAMES,
    addresses,
    run_kernel_llvm,
    same_bits,
    target_named,
)  # fmt: skip

pytestmark = pytest.mark.makes_no_program

Array = np.ndarray[Any, Any]


# -- kernels ---------------------------------------------------------------------------------------
def exact_folds(stmt: Stmt) -> Stmt:
    """Lanes loops whose sums depend on the order of addition become serial loops."""
    if isinstance(stmt, For):
        body = tuple(exact_folds(s) for s in stmt.body)
        rounds = any(
            isinstance(s, Accumulate) and s.op in ("add", "mul") and s.values[0].dtype.kind == "f"
            for s in body
        )
        return For(stmt.var, "serial" if rounds and stmt.kind == "lanes" else stmt.kind, body)
    if isinstance(stmt, If):
        return If(
            stmt.condition,
            tuple(exact_folds(s) for s in stmt.then),
            tuple(exact_folds(s) for s in stmt.otherwise),
        )
    return stmt


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=60, deadline=None, phases=[Phase.explicit, Phase.generate])
@given(kernel=kernels(), seed=st.integers(0, 9))
def test_drawn_kernels_equal_interpreter(name: str, kernel: Kernel, seed: int) -> None:
    body = exact_folds(kernel.body)
    assert isinstance(body, For)
    kernel = replace(kernel, body=body)
    ours, theirs = drawn_arrays(kernel, seed), drawn_arrays(kernel, seed)
    with np.errstate(all="ignore"):
        run_kernel(kernel, theirs, PARAMS, DRAWN_SIZES)
    run_kernel_llvm(kernel, ours, PARAMS, DRAWN_SIZES, target_named(name, exact=True))
    for key, array in theirs.items():
        same_bits(ours[key], array)


TEXTS = {
    "softmax": """kernel softmax
  in x: float32
  out y: float32
  param scale: float32
  sizes n, m
grid i < {m}
  var most: float32 = -inf:float32
  lanes j < {n}
    most max= x[{n}*i + 1*j]
  local e: float32[4096]
  var total: float32 = 0.0:float32
  lanes k < {n}
    %0 = exp(mul(scale, sub(x[{n}*i + 1*k], most)))
    e[k] = %0
    total add= %0
  lanes l < {n}
    y[{n}*i + 1*l] = div(e[l], total)
""",
    "argmax": """kernel argmax
  in x: float32
  out y: float32
  out w: int64
  sizes n, m
grid i < {m}
  var best: float32 = -inf:float32
  var where: int64 = 9223372036854775807
  lanes j < {n}
    best, where argmax= x[{n}*i + 1*j], j
  y[i] = best
  w[i] = where
""",
    "both_axes": """kernel both_axes
  in x: float32
  out y: float32
  sizes n, m
grid i < 1
  var total: float32 = 0.0:float32
  serial k < {m}
    lanes j < {n}
      total add= x[{n}*k + 1*j]
  y[i] = total
""",
    "columns": """kernel columns
  in x: float32
  out y: float32
  sizes n, m
grid i < 1
  lanes j < {n}
    var total: float32 = 0.0:float32
    serial k < {m}
      total add= x[{n}*k + 1*j]
    y[j] = total
""",
    "moved": """kernel moved
  in x: float32
  out y: float32
  sizes n, m
grid i < {m}
  lanes j < {n}
    %0 = and(le(3, j), lt(j, [{n - 2}]))
    %1 = x[{n}*i + -1*j + {n - 1}]
    %2 = x[{n}*i + 1*mod(mul(j, 7), [{n}])]
    y[{n}*i + 1*j] = add(sub(%1, %2), x[{n}*i + 1*j + 2 if %0 else 5.0:float32])
""",
    "reshaped": """kernel reshaped
  in x: float32
  out y: float32
  sizes n, m
grid i < 1
  lanes j < 6144
    %0 = floordiv(mod(j, 96), 32)
    y[j] = add(x[1*floordiv(j, 64)], x[1*%0 + 1*mod(j, 64) + 96*floordiv(j, 768)])
""",
    "scattered": """kernel scattered
  in x: float32
  out y: float32
  sizes n, m
grid i < {m}
  lanes j < {n}
    y[{m}*j + 1*i if lt(x[{n}*i + 1*j], 0.5:float32)] = x[{n}*i + 1*j]
""",
    "in_place": """kernel in_place
  in x: float32
  out y: float32 alias x
  sizes n, m
grid i < {m}
  serial k < 3
    lanes j < {n}
      y[{n}*i + 1*j] = add(x[{n}*i + 1*j], y[{n}*i + 1*j])
""",
    "branches": """kernel branches
  in x: float32
  out y: float32
  sizes n, m
grid i < {m}
  var a: float32 = x[{n}*i]
  if lt(a, 0.5:float32)
    lanes j < {n}
      a add= x[{n}*i + 1*j]
    y[{n}*i] = a
  else
    serial k < {n}
      a = mul(a, 0.5:float32)
      if lt(k, 2)
        a = add(a, x[{n}*i + 1*k])
  y[{n}*i + 1] = a
""",
}  # fmt: skip


def numbers(kernel: Kernel, n: int, m: int) -> dict[str, Array]:
    rng = np.random.default_rng(n)
    size = max(n * m, 6144)
    found: dict[str, Array] = {}
    for buffer in kernel.buffers:
        found[buffer.name] = rng.uniform(0.0, 1.0, size).astype(buffer.dtype.numpy)
    return found


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("text", TEXTS)
def test_kernels_at_every_tail(text: str, name: str) -> None:
    kernel, target = parse_kernel(TEXTS[text]), target_named(name)
    known = addresses([kernel], target)
    for n in (3, 8, 16, 17, 31, 64, 67, 129, 200):
        ours, theirs = numbers(kernel, n, 3), numbers(kernel, n, 3)
        if any(b.alias for b in kernel.buffers):
            for arrays in (ours, theirs):
                arrays["y"] = arrays["x"]
        sizes, params = {"n": n, "m": 3}, {p.name: 1.5 for p in kernel.params}
        run_kernel_llvm(kernel, ours, params, sizes, target, known)
        run_kernel(kernel, theirs, params, sizes)
        for key in ours:
            np.testing.assert_allclose(ours[key], theirs[key], rtol=2e-6, err_msg=f"{key} at {n}")


def test_what_a_short_loop_declares_ends_with_its_vector() -> None:
    """Its rest goes one by one where masks are dear, with variables of its own."""
    kernel = parse_kernel("""kernel k
  in b0: float32
  out b1: float32
grid g < 1
  lanes l < 5
    var f: float32 = 0.0:float32
    f add= b0[l]
    b1[l] = f""")
    assert list(load_object(compile_objects([kernel], named("avx2")))) == ["k"]


def test_same_bits_however_the_grid_is_cut() -> None:
    kernel, target = parse_kernel(TEXTS["softmax"]), target_named("host")
    whole, pieces = numbers(kernel, 1000, 4), numbers(kernel, 1000, 4)
    sizes = {"n": 1000, "m": 4}
    run_kernel_llvm(kernel, whole, {"scale": 2.0}, sizes, target)
    run_kernel_llvm(kernel, pieces, {"scale": 2.0}, sizes, target, cuts=(1, 3))
    assert whole["y"].tobytes() == pieces["y"].tobytes()


def test_nan_wins_reductions() -> None:
    kernel, target = parse_kernel(TEXTS["argmax"]), target_named("host")
    arrays = numbers(kernel, 100, 2)
    arrays["x"][[37, 70, 100]] = np.nan, np.nan, -np.inf
    run_kernel_llvm(kernel, arrays, {}, {"n": 100, "m": 2}, target)
    assert np.isnan(arrays["y"][0])
    assert list(arrays["w"][:2]) == [37, 100 + int(np.argmax(arrays["x"][100:200])) - 100]


GATHER = """kernel gather
  in x: float32
  in at: int64
  out y: float32
  inout fault: int64
  sizes n, m
  faults 2
grid i < 1
  lanes j < {n}
    %0 = x[checked_index(at[j], [{m}]) if lt(j, 40) else 0.0:float32]
    y[j] = add(%0, x[checked_index(-1*j + {m - 1}, [{m}])])
"""


@pytest.mark.parametrize("name", NAMES)
def test_checked_indices(name: str) -> None:
    kernel, target = parse_kernel(GATHER), target_named(name)
    known = addresses([kernel], target)
    x = np.arange(100, dtype=np.float32)
    for bad, fault in (({}, 0), ({41: 1000}, 0), ({39: 100}, 1), ({0: -101}, 1)):
        at = np.arange(-50, 0)
        for place, value in bad.items():
            at[place] = value
        arrays = {"x": x, "at": at, "y": np.zeros(50, np.float32), "fault": np.zeros(1, np.int64)}
        run_kernel_llvm(kernel, arrays, {}, {"n": 50, "m": 100}, target, known)
        assert arrays["fault"][0] == fault
        if not bad:
            want = np.where(np.arange(50) < 40, x[at], 0) + x[99 - np.arange(50)]
            np.testing.assert_array_equal(arrays["y"], want)


UNNEEDED = """kernel unneeded
  in x: float32
  in at: int64
  out y: float32
  inout fault: int64
  sizes n, m
  faults 1
grid i < 1
  lanes j < {n}
    %0 = checked_index(at[j], [{m}])
    y[j if lt(j, 40)] = select(lt(j, 30), x[%0], 2.0:float32)
"""


@pytest.mark.parametrize("name", NAMES)
def test_faults_only_where_the_value_is_needed(name: str) -> None:
    kernel, target = parse_kernel(UNNEEDED), target_named(name)
    known = addresses([kernel], target)
    for at_fault, fault in ((29, 1), (30, 0), (40, 0), (49, 0)):
        at = np.arange(50)
        at[at_fault] = 1 << 60
        arrays = {"x": np.ones(50, np.float32), "at": at, "y": np.zeros(50, np.float32)}
        arrays["fault"] = np.zeros(1, np.int64)
        run_kernel_llvm(kernel, arrays, {}, {"n": 50, "m": 50}, target, known)
        assert arrays["fault"][0] == fault
        assert list(arrays["y"][30:]) == [2.0] * 10 + [0.0] * 10


TILE = """kernel tile
  in a: float32
  in b: float32
  out c: float32
  sizes k
grid i < 1
  register acc: float32[{SIZE}]
  unroll r < {ROWS}
    lanes j < {COLUMNS}
      acc[{COLUMNS}*r + 1*j] = 0.0:float32
  serial q < {k}
    unroll s < {ROWS}
      lanes l < {COLUMNS}
        %0 = acc[1*l + {COLUMNS}*s]
        acc[1*l + {COLUMNS}*s] = fma(a[{ROWS}*q + 1*s], b[1*l + {COLUMNS}*q], %0)
  unroll t < {ROWS}
    lanes o < {COLUMNS}
      c[1*o + {COLUMNS}*t] = acc[1*o + {COLUMNS}*t]
"""


def tile_kernel(rows: int, columns: int) -> Kernel:
    """A register tile: ``c = a.T @ b`` for packed panels."""
    text = (
        TILE.replace("{SIZE}", str(rows * columns))
        .replace("{ROWS}", str(rows))
        .replace("{COLUMNS}", str(columns))
    )
    return parse_kernel(text)


@pytest.mark.parametrize(
    ("name", "rows", "columns"),
    [("host", 14, 32), ("host", 3, 20), ("avx2", 6, 16), ("x86-64-v2", 4, 8)],
)
def test_register_tiles(name: str, rows: int, columns: int) -> None:
    rng = np.random.default_rng(0)
    a, b = (
        rng.normal(size=(50, rows)).astype(np.float32),
        rng.normal(size=(50, columns)).astype(np.float32),
    )
    c = np.zeros((rows, columns), np.float32)
    run_kernel_llvm(
        tile_kernel(rows, columns), {"a": a, "b": b, "c": c}, {}, {"k": 50}, target_named(name)
    )
    np.testing.assert_allclose(c, a.T.astype(np.float64) @ b, rtol=1e-5, atol=1e-5)


TURN = """kernel turn
  in x: {TYPE}
  out y: {TYPE}
grid g < 2
  serial t < 3
    unroll i < {SIZE}
      lanes k < {SIZE}
        %0 = x[{LINE}*i + 1*k + {SIZE}*t + {WHOLE}*g]
        y[1*i + {WIDE}*k + {STRIP}*t + {ALL}*g] = add(%0, {ONE})
"""


@pytest.mark.parametrize("name", ["host", "avx2", "x86-64-v2"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int16", "uint8"])
@pytest.mark.parametrize("size", [4, 8, 16])
def test_blocks_stored_across_their_lanes(name: str, dtype: str, size: int) -> None:
    wide, line = size + 3, 3 * size + 1
    one = "1.0:" + dtype if "float" in dtype else "1:" + dtype
    sizes = {
        "TYPE": dtype, "SIZE": size, "WIDE": wide, "STRIP": size * wide, "ALL": 3 * size * wide,
        "LINE": line, "WHOLE": size * line, "ONE": one,
    }  # fmt: skip
    text = TURN
    for key, value in sizes.items():
        text = text.replace(f"{{{key}}}", str(value))
    kernel = parse_kernel(text)
    rng = np.random.default_rng(size)
    x = rng.integers(0, 100, (2, size, line)).astype(dtype)
    y, expected = (np.zeros((2, 3, size, wide), dtype) for _ in range(2))
    run_kernel_llvm(kernel, {"x": x, "y": y}, {}, {}, target_named(name))
    blocks = x[:, :, : 3 * size].reshape(2, size, 3, size)
    expected[..., :size] = blocks.transpose(0, 2, 3, 1) + np.ones((), dtype)
    np.testing.assert_array_equal(y, expected)


@pytest.mark.parametrize("name", ["host", "avx2", "x86-64-v2"])
@pytest.mark.parametrize("extent", [3, 5, 7, 13, 70])
@pytest.mark.parametrize("terms", [3, 0])
def test_a_variable_of_lanes_in_vectors_and_then_single_elements(
    name: str, extent: int, terms: int
) -> None:
    text = """kernel k
  in x: float32
  out y: float32
grid g < 2
  lanes l < {N}
    var s: float32 = 0.0:float32
    serial i < {K}
      s add= x[{N}*i + 1*l]
    y[{N}*g + 1*l] = s
"""
    x = np.arange(3 * extent, dtype=np.float32).reshape(3, extent)
    y = np.zeros((2, extent), np.float32)
    kernel = parse_kernel(text.replace("{N}", str(extent)).replace("{K}", str(terms)))
    run_kernel_llvm(kernel, {"x": x, "y": y}, {}, {}, target_named(name))
    np.testing.assert_array_equal(y, np.stack([x[:terms].sum(0)] * 2))


def test_large_scratch_comes_from_the_worker() -> None:
    text = TEXTS["softmax"].replace("[4096]", "[100000]")
    kernel = parse_kernel(text)
    assert scratch_bytes(kernel) == 400000
    arrays, small = numbers(kernel, 1000, 2), numbers(kernel, 1000, 2)
    sizes = {"n": 1000, "m": 2}
    run_kernel_llvm(kernel, arrays, {"scale": 1.0}, sizes, target_named("host"))
    run_kernel_llvm(
        parse_kernel(TEXTS["softmax"]), small, {"scale": 1.0}, sizes, target_named("host")
    )
    assert arrays["y"].tobytes() == small["y"].tobytes()


# -- objects ---------------------------------------------------------------------------------------
def test_objects_for_other_machines() -> None:
    kernel = parse_kernel(TEXTS["softmax"])
    assert b"\x7fELF" in compile_objects([kernel], named("aarch64"))
    assert "<4 x float>" in emit_module([kernel], named("aarch64"))


def test_equal_names_do_not_meet() -> None:
    first, second = (parse_kernel(TEXTS[t]) for t in ("columns", "both_axes"))
    target: Target = target_named("host")
    one = load_object(compile_objects([first], target))["columns"]
    two = load_object(compile_objects([replace(second, name="columns")], target))["columns"]
    assert one != two


def test_damaged_object_is_refused() -> None:
    data = compile_objects([parse_kernel(TEXTS["columns"])], target_named("host"))
    with pytest.raises(CompilerError, match="load"):
        load_object(b"nothing")
    with pytest.raises(CompilerError, match="load"):
        load_object(data[:60])


def test_constants_are_rounded_by_every_cast() -> None:
    kernel = parse_kernel("""kernel k
  out y: float16
grid i < 4
  y[i] = rsqrt(cast<float16>(2.9999999242136255e-05:float32))""")
    found, wanted = np.zeros(4, np.float16), np.zeros(4, np.float16)
    run_kernel_llvm(kernel, {"y": found}, {}, {}, host())
    run_kernel(kernel, {"y": wanted}, {}, {})
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("name", NAMES)
def test_a_variable_ends_with_the_block_that_declares_it(name: str) -> None:
    kernel = parse_kernel("""kernel k
  in x: int32
  out y: int32
  sizes n
grid g < 2
  serial a < 3
    serial b < 2
      var t: int32 = 0:int32
      lanes i < {n}
        t add= x[i]
      if lt(a, 2)
        lanes j < {n}
          t add= x[j]
      y[6*g + 2*a + 1*b] = t""")
    x = np.arange(37, dtype=np.int32)
    found = np.zeros(12, np.int32)
    run_kernel_llvm(kernel, {"x": x, "y": found}, {}, {"n": 37}, target_named(name))
    total = int(x.sum())
    np.testing.assert_array_equal(found, np.tile([2 * total] * 4 + [total] * 2, 2))


def test_rare_arms_are_written_once() -> None:
    """One for the sine and one for the cosine at each level, however deep they are nested."""
    kernel = expand_math(parse_kernel("""kernel nested
  inout x: float32
grid i < 1
  %1 = x[i]
  %2 = mul(sin(%1), cos(%1))
  %3 = mul(sin(%2), cos(%2))
  %4 = mul(sin(%3), cos(%3))
  x[i] = %4"""))
    text = emit_module([kernel], host())
    assert len(re.findall(r"^rare\S*:", text, re.MULTILINE)) == 6
