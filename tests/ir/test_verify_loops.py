"""The verifier of kernels: what the compiler may make passes; each rule, broken, is named with its
statement.
"""

from __future__ import annotations

import pytest
from hypothesis import given

from lamella.dtypes import bool_, float32, float64, int32, int64, uint8
from lamella.errors import CompilerError
from lamella.ir.lanes import meeting
from lamella.ir.loops import (
    Apply,
    Assign,
    Barrier,
    BufferParam,
    Const,
    Expr,
    For,
    Kernel,
    Linear,
    Load,
    Param,
    Read,
    Stmt,
    Store,
    Var,
)
from lamella.ir.text import parse_kernel
from lamella.ir.verify_loops import verify_kernel
from tests.support.kernels import kernels

pytestmark = pytest.mark.makes_no_program

HEAD = """kernel k
  in x: float32
  out y: float32
  out z: int64
  param p: float32
  sizes n
grid i < {n}
"""
ONE = Const(1, int64)
HALF = Const(0.5, float32)


@given(kernels())
def test_drawn_kernels_pass(kernel: Kernel) -> None:
    verify_kernel(kernel)


BROKEN = {
    "x is an input": "x[i] = p",
    "a int64 value does not go into a float32 buffer": "y[i] = i",
    "defined twice": "serial i < 2\n    y[i] = p",
    "q is not the variable|q is no": "if true\n    var q: float32 = p\n  y[i] = q",
    "the outermost loop is the grid": "grid j < 2\n    y[j] = p",
    "no lanes loop stands inside lanes": "lanes j < 2\n    lanes k < 2\n      y[k] = p",
    "no block loop stands inside lanes": "lanes j < 2\n    block k < 2\n      y[k] = p",
    "an unrolled loop has a constant extent": "unroll j < {n}\n    y[j] = p",
    "an extent is int64": "serial j < p\n    y[j] = p",
    "a loop inside lanes runs equally often": "lanes j < 2\n    serial k < 1*j + 1\n      y[k] = p",
    "a condition inside lanes is the same": "lanes j < 2\n    if lt(j, 1)\n      y[j] = p",
    "the same for all lanes": "lanes j < 2\n    var v: int64 = 0\n    serial k < 2\n"
                              "      v = add(v, j)\n"
                              "    if lt(v, 1)\n      y[j] = p",
    "a condition is bool": "if i\n    y[i] = p",
    "the size m is not listed": "y[{m}*i + 1] = p",
    "nothing is allocated inside lanes": "lanes j < 2\n    local t: float32[2]\n    y[j] = p",
    "shared memory is allocated outside": "block j < 2\n    shared t: float32[2]\n    y[j] = p",
    "constant, positive size": "local t: float32[0]",
    "at most 2048 elements": "register t: float32[4096]",
    "t is in registers": "register t: float32[4]\n  t[i] = p",
    "its indices are constant once unrolled":
    "register t: float32[4]\n  lanes j < {n}\n    t[j] = p",
    "a barrier stands in a block loop": "barrier",
    "v is declared outside": "var v: int64 = 0\n  lanes j < 2\n    v = j",
    "v is float32, not int64": "var v: float32 = p\n  v = i",
    "its first value int64": "var v: float32 = i",
    "v is folded by this lanes loop": "var v: int64 = 0\n  lanes j < 2\n    v add= v",
    "v is folded with add and max": "var v: int64 = 0\n  lanes j < 2\n    v add= j\n    v max= j",
    "declared with the identity of add": "var v: int64 = 1\n  lanes j < 2\n    v add= j",
    "declared with the identity of argmax": "var v: float32 = 0.0:float32\n  var w: int64 = 0\n"
                                            "  lanes j < 2\n    v, w argmax= x[j], j",
    "share no variable": "var v: int64 = 0\n  block j < 2\n    v add= j",
    "'sub' is no way to accumulate": "var v: int64 = 0\n  v sub= i",
    "argmax takes 2 names": "var v: int64 = 0\n  v argmax= i",
    "and does not accumulate float32": "var v: float32 = p\n  v and= p",
    "argmax takes an int64 index": "var v: float32 = p\n  var w: float32 = p\n  v, w argmax= p, p",
    "faults is 0, but 1": "z[i] = checked_index(i, 3)",
    "an index is int64": "y[p] = p",
    "a mask is bool": "y[i if i] = p",
    "other value of a load": "y[i] = x[i if true else 1]",
    "exp takes 1 arguments, not 2": "y[i] = exp(p, p)",
    "the arguments have one dtype": "y[i] = add<float32>(p, i)",
    "not an operation on float32": "y[i] = xor(p, p)",
    "not an operation on int64": "z[i] = exp(i)",
    "the result has another dtype": "y[i] = add<float32>(i, i)",
    "the condition is bool": "y[i] = select(i, p, p)",
    "3000000000 is not a value of int32": "y[i] = cast<float32>(3000000000:int32)",
}  # fmt: skip


@pytest.mark.parametrize("why", BROKEN)
def test_broken_rule_is_named(why: str) -> None:
    with pytest.raises(CompilerError, match=why) as caught:
        verify_kernel(parse_kernel(f"{HEAD}  {BROKEN[why]}\n"))
    assert str(caught.value).startswith("[verify] kernel k: ")


def test_the_statement_is_named() -> None:
    with pytest.raises(CompilerError, match=r"in `y\[2\*i\] = 3`$"):
        verify_kernel(parse_kernel(f"{HEAD}  if true\n    y[i] = p\n    y[2*i] = 3\n"))
    with pytest.raises(CompilerError, match=r"in `lanes k < 2`$"):
        verify_kernel(parse_kernel(f"{HEAD}  lanes j < 2\n    lanes k < 2\n      y[k] = p\n"))


def kernel_of(*body: Stmt, kind: str = "grid") -> Kernel:
    i = Var("i", 4)
    buffers = BufferParam("x", float32, "in"), BufferParam("y", float32, "out")
    return Kernel("k", buffers, (Param("p", float32),), (), For(i, kind, body))  # type: ignore[arg-type]


DIRECT: dict[str, Stmt | Expr] = {
    "x holds float32, loaded as float64": Apply("cast", (Load("x", ONE, float64),), float32),
    "nowhere is no buffer": Load("nowhere", ONE, float32),
    "i is not the variable": Apply("cast", (Var("i", 5),), float32),
    "p is no int32 parameter": Apply("cast", (Param("p", int32),), float32),
    "v is no variable": Read("v", float32),
    "q is no variable": Assign("q", HALF),
    "'warp' is no kind of loop": For(Var("j", 2), "warp", ()),  # type: ignore[arg-type]
    "an extent is not negative": For(Var("j", -2), "serial", ()),
    "'2b' is not a name": For(Var("2b", 2), "serial", ()),
    "'lanes' is not a name": For(Var("lanes", 2), "serial", ()),
    "the terms of a Linear are no constants": Load("x", Linear(0, ((1, Linear(1, ())),)), float32),
    "have coefficients": Load("x", Linear(0, ((0, Var("i", 4)),)), float32),
    "are distinct": Load("x", Linear(0, ((1, Var("i", 4)), (2, Var("i", 4)))), float32),
    "'blend' is no operation": Apply("blend", (HALF,), float32),
    "300 is not a value of uint8": Apply("cast", (Const(300, uint8),), float32),
    "0.5 is not a value of bool": Apply("select", (Const(0.5, bool_), HALF, HALF), float32),
}


@pytest.mark.parametrize("why", DIRECT)
def test_broken_record_is_named(why: str) -> None:
    bad = DIRECT[why]
    is_expr = isinstance(bad, Apply | Load | Read | Const | Linear | Var | Param)
    stmt = Store("y", Var("i", 4), bad) if is_expr else bad  # type: ignore[arg-type]
    with pytest.raises(CompilerError, match=why):
        verify_kernel(kernel_of(stmt))  # type: ignore[arg-type]


def test_body_is_a_grid() -> None:
    with pytest.raises(CompilerError, match="must be a grid loop"):
        verify_kernel(kernel_of(kind="serial"))


@pytest.mark.parametrize(("header", "why"), [
    ("in x: float32\n  out y: float64 alias x", "another item size"),
    ("in x: float32\n  out y: float32 alias z", "an input only"),
    ("inout x: float32\n  out y: float32 alias x", "an input only"),
    ("in y: float32\n  out y: float32", "defined twice"),
    ("out y: float32\n  out fault: int64", "end with `out fault"),
])  # fmt: skip
def test_broken_header_is_named(header: str, why: str) -> None:
    with pytest.raises(CompilerError, match=why):
        verify_kernel(parse_kernel(f"kernel k\n  {header}\ngrid i < 2\n"))


def test_barrier_in_a_block_passes() -> None:
    verify_kernel(kernel_of(For(Var("j", 2), "block", (Barrier(),))))


@pytest.mark.parametrize("extent", ["8", "min(8, -8*g + 30)"])
@pytest.mark.parametrize("row", [7, 8, 9])
def test_lanes_along_rows_keep_apart_where_rows_are_as_long(extent: str, row: int) -> None:
    kernel = parse_kernel(f"""kernel k
  out x: float32
grid g < 4
  local t: float32[30]
  lanes j < {extent}
    unroll i < 3
      t[{row}*i + 1*j] = add(t[{row}*i + 1*j], 1.0:float32)
  x[g] = t[0]""")
    verify_kernel(kernel)
    loop = kernel.body.body[1]
    assert isinstance(loop, For) and (meeting(loop) is None) == (row >= 8)
