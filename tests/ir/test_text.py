"""The text form: what is printed reads back, the same structure gives the same text, and wrong text
says which line.
"""

from __future__ import annotations

import math
import time
from dataclasses import replace

import pytest
from hypothesis import given

from lamella.dtypes import bool_, float32, float64, int32, int64
from lamella.errors import FileFormatError
from lamella.ir.dim import Dim
from lamella.ir.loop_parse import parse_size
from lamella.ir.loops import (
    Apply,
    BufferParam,
    Const,
    Expr,
    For,
    Kernel,
    Linear,
    Load,
    Store,
    Var,
)
from lamella.ir.node import Node
from lamella.ir.text import graph_text, kernel_text, parse_graph, parse_kernel
from lamella.ops.base import PRIMITIVES
from lamella.ops.leaf import constant, data, placeholder
from tests.support.kernels import kernels

pytestmark = pytest.mark.makes_no_program


def store_of(value: Expr) -> Kernel:
    i = Var("i", 4)
    buffers = BufferParam("x", float32, "in"), BufferParam("y", value.dtype, "out")
    return Kernel("k", buffers, (), ("n",), For(i, "grid", (Store("y", i, value),)))


@given(kernels())
def test_kernel_reads_back(kernel: Kernel) -> None:
    text = kernel_text(kernel)
    again = parse_kernel(text)
    assert again == kernel
    assert again.work == kernel.work
    assert kernel_text(again) == text


@given(kernels())
def test_normalised_text_is_a_kernel_and_a_fixed_point(kernel: Kernel) -> None:
    text = kernel_text(kernel, normalise=True)
    assert kernel_text(parse_kernel(text), normalise=True) == text


VALUES = [
    Const(-0.0, float32), Const(0.0, float32), Const(math.inf, float64), Const(-math.inf, float32),
    Const(math.nan, float64),
    Const(0.1, float64), Const(1e300, float64), Const(5e-324, float64), Const(2**63 - 1, int64),
    Const(-(2**31), int32),
    Const(True, bool_), Const(3, int64), Linear(Dim("n") * 2 - 3, ()), Linear(7, ()), Linear(0,
    ((-2, Var("i", 4)),)),
    Linear(-1, ((Dim("n") * Dim("n") + 1, Var("i", 4)), (3, Load("y", Linear(0, ()), int64)))),
    Linear((Dim("n") - 3) // 2, ((1, Var("i", 4)),)),
    Apply("cast", (Const(1, int64),), float32), Apply("lt", (Const(1, int64), Const(2, int64)),
    bool_),
    Load("x", Var("i", 4), float32, Const(False, bool_), Const(-math.inf, float32)),
    Load("x", Linear(3, ((4, Var("i", 4)),)), float32, Const(False, bool_)),
]  # fmt: skip


@pytest.mark.parametrize("value", VALUES, ids=str)
def test_value_reads_back_exactly(value: Expr) -> None:
    kernel = store_of(value)
    again = parse_kernel(kernel_text(kernel))
    assert again == kernel
    assert repr(again) == repr(kernel)  # unlike ==, tells -0.0 from 0.0


def test_zero_signs_are_different_constants() -> None:
    difference = Apply("sub", (Const(0.0, float32), Const(-0.0, float32)), float32)
    assert "sub(0.0:float32, -0.0:float32)" in kernel_text(store_of(difference))


def test_text_does_not_depend_on_sharing() -> None:
    i = Var("i", 4)
    once = Apply("exp", (Load("x", i, float32),), float32)
    shared = Apply("add", (once, once), float32)
    twice = Apply("exp", (Load("x", Var("i", 4), float32),), float32)
    assert kernel_text(store_of(shared)) == kernel_text(
        store_of(Apply("add", (once, twice), float32))
    )


def test_text_is_linear_in_distinct_expressions() -> None:
    value: Expr = Load("x", Var("i", 4), float32)
    for _ in range(300):
        value = Apply("add", (value, value), float32)
    text = kernel_text(store_of(value))
    assert len(text.splitlines()) < 320
    assert kernel_text(parse_kernel(text)) == text


def test_deep_expressions_need_no_recursion() -> None:
    value: Expr = Load("x", Var("i", 4), float32)
    for _ in range(5000):
        value = Apply("neg", (value,), float32)
    text = kernel_text(store_of(value))
    assert kernel_text(parse_kernel(text)) == text


def test_normalised_text_ignores_names_only() -> None:
    text = """kernel a
  in x: float32
  out y: float32 alias x
  param s: float32
  sizes n
grid row < {n}
  var t: float32 = 0.0:float32
  lanes col < 8
    t add= mul(x[{n}*row + 1*col], s)
  local buf: float32[8]
  y[row] = t
"""
    renamed = text
    for old, new in [
        ("row", "zz"),
        ("col", "aa"),
        (" t", " acc"),
        ("buf", "q"),
        ("x", "input"),
        ("kernel a", "kernel b"),
    ]:
        renamed = renamed.replace(old, new)
    first, second = parse_kernel(text), parse_kernel(renamed)
    assert kernel_text(first, True) == kernel_text(second, True)
    assert kernel_text(first) != kernel_text(second)
    other = parse_kernel(text.replace("lanes col < 8", "lanes col < 9"))
    assert kernel_text(first, True) != kernel_text(other, True)
    assert kernel_text(first, True) == kernel_text(replace(first, work=99), True)


def test_size_names_are_normalised_inside_quotients() -> None:
    text = (
        "kernel k\n  out y: int64\n  sizes {0}\n"
        "grid i < {{(({0} - 3)//2) + 1}}\n  y[i] = {{2*{0}}}*i + 1"
    )
    first, second = (parse_kernel(text.format(name)) for name in ("n", "width"))
    assert kernel_text(first, True) == kernel_text(second, True)


WRONG = {
    "": "empty",
    "kernel k\n  in x: float33\n": "not a dtype",
    "kernel k\n  out y: int64\ngrid i < 4\n  y[j] = 1": "'j' is not defined",
    "kernel k\n  out y: int64\ngrid i < 4\n  z[i] = 1": "begins no statement",
    "kernel k\n  out y: int64\ngrid i < 4\n  y[i] = foo(i)": "'foo' is not defined",
    "kernel k\n  out y: int64\ngrid i < 4\n  y[i] = add(i, i": "expected",
    "kernel k\n  out y: int64\ngrid i < 4\n  y[i] = i i": "unexpected 'i'",
    "kernel k\n  out y: int64\ngrid i < 4\n      y[i] = i": "indentation",
    "kernel k\n  out y: int64\ngrid i < 4\n  y[i] = %3": "%3 is not defined",
    "kernel k\n  out y: int64\ngrid i < 4\n  y[i] = 1.5": "not an integer",
    "kernel k\n  out y: int64\ngrid i < {n +}\n  y[i] = 1": "missing",
    "kernel k\n  out y: int64\ngrid i < 4\n  y[i] = \"a\"": "unexpected character",
    "kernel k\n  out y: int64\n": "one grid loop",
}  # fmt: skip


@pytest.mark.parametrize("text", WRONG)
def test_wrong_text_is_refused(text: str) -> None:
    with pytest.raises(FileFormatError, match=WRONG[text]):
        parse_kernel(text)


@pytest.mark.parametrize(
    "size",
    [
        Dim("n"),
        2 * Dim("n") * Dim("m") - 7,
        (Dim("n") + 5) // 3 - 2,
        ((Dim("n") + 1) // 2) * Dim("m"),
    ],
)
def test_size_reads_back(size: Dim) -> None:
    assert parse_size(f"{{{size}}}") == size


@pytest.mark.slow
def test_text_of_200_expressions_is_fast() -> None:
    value: Expr = Load("x", Var("i", 4), float32)
    for at in range(100):
        value = Apply("add", (Apply("exp", (value,), float32), Const(at / 2, float32)), float32)
    kernel, best = store_of(value), math.inf
    for _ in range(20):
        start = time.process_time()
        kernel_text(kernel, normalise=True)
        best = min(best, time.process_time() - start)
    assert best < 5e-3  # about 1 ms on an idle machine


# -- graphs ----------------------------------------------------------------------------------------


def samples() -> list[tuple[str, Node]]:
    found = []
    for name, primitive in sorted(PRIMITIVES.items()):
        for at, sample in enumerate(primitive.samples()):
            kinds = sample.input_dtypes or (None,) * len(sample.shapes)
            for dtype in sample.dtypes[:1]:
                inputs = [
                    placeholder(s, k or dtype) for s, k in zip(sample.shapes, kinds, strict=True)
                ]
                found.append((f"{name}-{at}-{dtype.name}", sample.build(*inputs)))
    return found


SAMPLES = samples()


@pytest.mark.parametrize("node", [node for _, node in SAMPLES], ids=[name for name, _ in SAMPLES])
def test_graph_of_every_primitive_reads_back(node: Node) -> None:
    text = graph_text([node])
    (again,) = parse_graph(text, PRIMITIVES)
    assert graph_text([again]) == text
    assert (again.op, again.shape, again.dtype) == (node.op, node.shape, node.dtype)


def test_graph_shares_nodes_and_keeps_symbolic_sizes() -> None:
    from lamella import ops

    x = placeholder((Dim("n"), 3), float32)
    half = ops.multiply(x, constant(0.5, float32))
    text = graph_text([ops.add(half, half), half])
    assert text == (
        "%0 = placeholder() float32[{n}, 3]\n"
        "%1 = constant(value=0.5) float32[]\n"
        "%2 = multiply(%0, %1) float32[{n}, 3]\n"
        "%3 = add(%2, %2) float32[{n}, 3]\n"
        "return %3, %2"
    )
    total, shared = parse_graph(text, PRIMITIVES)
    assert total.inputs == (shared, shared)
    assert total.shape == (Dim("n"), 3)


def test_a_computed_node_prints_as_a_leaf() -> None:
    from lamella import ops

    x = ops.negative(placeholder((2,), float32))
    x.value = object()
    assert graph_text([ops.negative(x)]).startswith("%0 = data() float32[2]\n%1 = negative(%0)")
    assert graph_text([data(None, (2,), float32)]).startswith("%0 = data() float32[2]")


@pytest.mark.parametrize(("text", "why"), [
    ("%0 = nonesuch() float32[]\nreturn %0", "no primitive"),
    ("%0 = iota(axes=0) float32[3]\nreturn %0", "does not take"),
    ("%0 = placeholder() float32[3]\nreturn %1", "not defined"),
    ("%0 = placeholder() float99[3]\nreturn %0", "dtype"),
    ("%0 = placeholder( float32[3]\nreturn %0", "expected"),
    ("%0 = placeholder() float32[3]", "must return"),
])  # fmt: skip
def test_wrong_graph_text_is_refused(text: str, why: str) -> None:
    with pytest.raises(FileFormatError, match=why):
        parse_graph(text, PRIMITIVES)
