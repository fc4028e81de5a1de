"""Elementwise functions against independent references, and their derivatives at awkward places."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.special

from lamella import ops
from lamella.dtypes import (
    ALL,
    DType,
    bfloat16,
    bool_,
    float16,
    float32,
    float64,
    int8,
    int32,
    int64,
    uint8,
)
from lamella.errors import DTypeError, OptionError, ShapeError
from lamella.graph.forward import jvp
from lamella.graph.reverse import vjp
from lamella.ir.dim import Dim
from lamella.ir.interp import interpret
from lamella.ir.node import Node, gradient_mode
from lamella.ops.base import Array

pytestmark = pytest.mark.makes_no_program


def leaf(values: object, dtype: DType = float64, tracked: bool = True) -> Node:
    array = np.asarray(values, dtype.numpy)
    return ops.data(array, array.shape, dtype, tracked and dtype.kind == "f")


def value(node: Node) -> Array:
    return interpret([node])[0]


def slope(output: Node, x: Node) -> Array:
    """Reverse and forward derivative of an elementwise output by x, which must agree."""
    (back,) = vjp([output], [ops.full(1.0, output.shape, output.dtype)], [x])
    (ahead,) = jvp([output], [x], [ops.full(1.0, x.shape, x.dtype)])
    assert back is not None and ahead is not None
    np.testing.assert_allclose(value(back), value(ahead), rtol=1e-12)
    return value(back)


UNARY = {
    "negative": np.negative, "abs": np.abs, "sign": np.sign, "floor": np.floor, "ceil": np.ceil,
    "trunc": np.trunc, "round": np.round, "sqrt": np.sqrt, "rsqrt": lambda x: x**-0.5,
    "square": np.square, "reciprocal": lambda x: 1 / x, "exp": np.exp, "exp2": np.exp2,
    "expm1": np.expm1, "log": np.log, "log2": np.log2, "log10": np.log10, "log1p": np.log1p,
    "sin": np.sin, "cos": np.cos, "tan": np.tan, "asin": np.arcsin, "acos": np.arccos,
    "atan": np.arctan, "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh, "asinh": np.arcsinh,
    "acosh": lambda x: np.arccosh(x + 1), "atanh": np.arctanh, "erf": scipy.special.erf,
    "erfc": scipy.special.erfc, "sigmoid": scipy.special.expit,
}  # fmt: skip


@pytest.mark.parametrize("name", UNARY)
def test_unary_against_numpy_and_scipy(name: str) -> None:
    x = np.linspace(0.05, 0.95, 19)
    node = leaf(x + 1 if name == "acosh" else x)
    np.testing.assert_allclose(value(getattr(ops, name)(node)), UNARY[name](x), rtol=1e-13)


BINARY = {
    "add": np.add, "subtract": np.subtract, "multiply": np.multiply, "divide": np.true_divide,
    "floor_divide": np.floor_divide, "remainder": np.mod, "pow": np.float_power,
    "maximum": np.maximum, "minimum": np.minimum, "atan2": np.arctan2, "copysign": np.copysign,
    "equal": np.equal, "not_equal": np.not_equal, "less": np.less, "less_equal": np.less_equal,
    "greater": np.greater, "greater_equal": np.greater_equal,
}  # fmt: skip


@pytest.mark.parametrize("name", BINARY)
def test_binary_against_numpy(name: str) -> None:
    a, b = np.array([0.3, 1.5, 2.0, 7.25, 3.0]), np.array([1.1, 1.5, -0.5, 2.5, 0.1])
    found = value(getattr(ops, name)(leaf(a), leaf(b)))
    np.testing.assert_allclose(found, BINARY[name](a, b), rtol=1e-14)


def test_maximum_shares_ties() -> None:
    a, b = leaf([1.0, 2.0, 3.0]), leaf([2.0, 2.0, 2.0])
    np.testing.assert_array_equal(slope(ops.maximum(a, b), a), [0, 0.5, 1])
    np.testing.assert_array_equal(slope(ops.maximum(a, b), b), [1, 0.5, 0])
    np.testing.assert_array_equal(slope(ops.minimum(a, b), a), [1, 0.5, 0])


def test_abs_and_sqrt_at_zero() -> None:
    x = leaf([0.0, 4.0])
    np.testing.assert_array_equal(slope(ops.abs(x), x), [0, 1])
    np.testing.assert_array_equal(slope(ops.sqrt(x), x), [math.inf, 0.25])


@pytest.mark.parametrize(
    ("exponent", "expected"), [(0, [0, 0, 0]), (1, [1, 1, 1]), (2, [0, -4, 6]), (3, [0, 12, 27])]
)
def test_pow_with_whole_exponents_at_zero_and_below(exponent: int, expected: list[float]) -> None:
    x = leaf([0.0, -2.0, 3.0])
    p = leaf(float(exponent), tracked=False)
    y = ops.pow(x, p)
    np.testing.assert_allclose(slope(y, x), expected)
    ones = ops.full(1.0, (3,), float64)
    (first,) = vjp([y], [ones], [x])
    assert first is not None
    (second,) = vjp([first], [ones], [x])
    n = exponent
    want = n * (n - 1) * np.array([0.0, -2.0, 3.0]) ** max(n - 2, 0)
    np.testing.assert_allclose(0.0 if second is None else value(second), want)


def test_pow_by_exponent_at_zero_base() -> None:
    a, b = leaf([0.0, 2.0]), leaf([2.0, 3.0])
    np.testing.assert_allclose(slope(ops.pow(a, b), b), [0, 8 * math.log(2)])


def test_where_keeps_nan_of_the_other_branch_out() -> None:
    x = leaf([0.0, 4.0, -1.0])
    zero = leaf(0.0, tracked=False)
    safe = ops.where(ops.greater(x, zero), ops.sqrt(x), ops.stop_gradient(zero))
    np.testing.assert_array_equal(value(safe), [0, 2, 0])
    # By 0 * inf the chain still gives nan below where; the select's own cotangent is clean.
    chosen = ops.where(ops.greater(x, zero), x, ops.stop_gradient(ops.log(x)))
    np.testing.assert_array_equal(slope(chosen, x), [0, 1, 0])


def test_sigmoid_far_out() -> None:
    x = leaf([-800.0, -40.0, 0.0, 40.0, 800.0])
    y = ops.sigmoid(x)
    np.testing.assert_allclose(value(y), scipy.special.expit([-800.0, -40.0, 0.0, 40.0, 800.0]))
    np.testing.assert_allclose(slope(y, x)[[0, 2, 4]], [0, 0.25, 0])


def test_precision_of_derivatives_near_one() -> None:
    x = leaf([1 - 1e-12])
    exact = 1 / math.sqrt(float(x.value[0]) * -float(x.value[0]) + 1)  # type: ignore[index]
    assert math.isfinite(exact)
    gap = 1 - float(x.value[0])  # type: ignore[index]
    expected = 1 / math.sqrt(gap * (2 - gap))
    np.testing.assert_allclose(slope(ops.asin(x), x), [expected], rtol=1e-14)


def test_rounding_has_no_derivative() -> None:
    x = leaf([1.5])
    y = ops.add(ops.floor(x), ops.multiply(ops.sign(x), ops.round(x)))
    assert vjp([y], [ops.full(1.0, (1,), float64)], [x]) == [None]
    assert jvp([y], [x], [ops.full(1.0, (1,), float64)]) == [None]


def test_remainder_and_floor_divide_are_numpys() -> None:
    a = np.array([1.0, 5.0, -5.0, 5.0, -0.0, np.inf, 3.0, -7.5])
    b = np.array([0.1, np.inf, np.inf, -np.inf, 3.0, 2.0, 0.0, 2.0])
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(value(ops.remainder(leaf(a), leaf(b))), np.mod(a, b))
        np.testing.assert_array_equal(value(ops.floor_divide(leaf(a), leaf(b))), a // b)


@pytest.mark.parametrize("dtype", [int8, uint8, int32, int64])
def test_integer_edges(dtype: DType) -> None:
    info = np.iinfo(dtype.numpy)
    a = leaf([7, int(info.min), int(info.max), 5], dtype)
    b = leaf([0, int(info.max), 2, 3], dtype)
    np.testing.assert_array_equal(value(ops.floor_divide(a, b))[0], 0)
    np.testing.assert_array_equal(value(ops.remainder(a, b))[0], 0)
    wrapped = value(ops.add(a, b))
    exact = [int(x) + int(y) for x, y in zip(value(a), value(b), strict=True)]
    span = 1 << dtype.bits
    assert [int(w) % span for w in wrapped] == [e % span for e in exact]
    wide = ops.bitwise_left_shift(a, leaf([dtype.bits] * 4, dtype))
    np.testing.assert_array_equal(value(wide), 0)


def test_integer_powers() -> None:
    a, b = leaf([2, -1, -1, 1, 3, 0], int32), leaf([-1, -3, -2, -5, 4, 0], int32)
    np.testing.assert_array_equal(value(ops.pow(a, b)), [0, -1, 1, 1, 81, 1])


def test_casts_saturate() -> None:
    x = leaf([300.0, -300.0, math.nan, 1.9, -1.9, math.inf])
    np.testing.assert_array_equal(value(ops.cast(x, int8)), [127, -128, 0, 1, -1, 127])
    np.testing.assert_array_equal(value(ops.cast(x, uint8)), [255, 0, 0, 1, 0, 255])
    top = leaf([2.0**63, -(2.0**63), 1e300])
    np.testing.assert_array_equal(value(ops.cast(top, int64)), [2**63 - 1, -(2**63), 2**63 - 1])
    np.testing.assert_array_equal(value(ops.cast(leaf([0.0, -0.0, math.nan]), bool_)), [0, 0, 1])


def test_cast_derivative_returns_in_the_inputs_dtype() -> None:
    x = leaf([1.0, 2.0], float32)
    (g,) = vjp([ops.cast(x, float64)], [ops.full(3.0, (2,), float64)], [x])
    assert g is not None and g.dtype is float32
    back = ops.cast(ops.cast(x, int32), float32)
    assert vjp([back], [ops.full(1.0, (2,), float32)], [x]) == [None]


@pytest.mark.parametrize("dtype", [float16, bfloat16])
def test_narrow_floats_compute_in_float32(dtype: DType) -> None:
    x = leaf([1.0, 3.0, 100.0, 0.001], dtype)
    exact = np.exp(-np.asarray(x.value, np.float32)).astype(dtype.numpy)
    np.testing.assert_array_equal(value(ops.exp(ops.negative(x))), exact)
    many = leaf(np.full(4096, 0.01), dtype)
    total = np.asarray(many.value, np.float64).sum()
    np.testing.assert_allclose(float(value(ops.reduce_sum(many))), total, rtol=4e-3)


def test_broadcasting_and_zero_dimensional_operands() -> None:
    matrix, row, point = leaf(np.ones((2, 3))), leaf(np.ones(3)), leaf(2.0)
    assert ops.add(matrix, row).inputs[1].op.name == "broadcast_to"
    assert ops.add(matrix, point).inputs[1] is point
    out = ops.multiply(matrix, point)
    (by_point,) = vjp([out], [ops.full(1.0, (2, 3), float64)], [point])
    assert by_point is not None and by_point.shape == ()
    assert float(value(by_point)) == 6.0
    n = Dim("n")
    x = ops.placeholder((n, 3), float64)
    assert ops.add(x, ops.placeholder((1, 3), float64)).shape == (n, 3)


def test_literals_simplify() -> None:
    x = leaf([1.0])
    assert ops.multiply(x, ops.constant(1, float64)) is x
    assert ops.multiply(ops.constant(-1, float64), x).op.name == "negative"
    assert ops.pow(x, ops.constant(1, float64)) is x
    assert ops.cast(x, float64) is x


def test_constants_distinguish_zeros_and_nans() -> None:
    assert ops.constant(0.0, float64).op != ops.constant(-0.0, float64).op
    assert ops.constant(math.nan, float64).op == ops.constant(math.nan, float64).op
    assert ops.constant(0.1, float32).op.value == float(np.float32(0.1))  # type: ignore[attr-defined]
    assert ops.constant(1e300, float32).op.value == math.inf  # type: ignore[attr-defined]


def test_no_gradient_mode() -> None:
    x = leaf([1.0])
    gradient_mode.enabled = False
    try:
        assert not ops.exp(x).tracked
        assert ops.mark(x).tracked
    finally:
        gradient_mode.enabled = True
    assert ops.exp(x).tracked and not ops.stop_gradient(x).tracked


def test_errors() -> None:
    x, i = leaf([1.0, 2.0]), leaf([1, 2], int32)
    with pytest.raises(DTypeError, match=r"\[add\] operands are float64 and int32"):
        ops.add(x, i)
    with pytest.raises(ShapeError, match=r"\[add\] shapes \(2,\) and \(3,\) do not broadcast"):
        ops.add(x, leaf([1.0, 2.0, 3.0]))
    with pytest.raises(DTypeError, match=r"\[exp\] does not take int32"):
        ops.exp(i)
    with pytest.raises(DTypeError, match=r"\[subtract\] does not take bool"):
        ops.subtract(leaf([True], bool_), leaf([True], bool_))
    with pytest.raises(DTypeError, match=r"\[where\] the condition is float64"):
        ops.where(x, x, x)
    with pytest.raises(OptionError, match=r"\[constant\] int8 cannot hold 300"):
        ops.constant(300, int8)
    with pytest.raises(DTypeError, match=r"\[bitcast\] float64 has 64 bits"):
        ops.bitcast(x, int32)
    with pytest.raises(ShapeError, match=r"\[iota\] axis 2"):
        ops.iota((2, 2), 2, int32)


def test_every_dtype_is_taken_by_where_and_comparisons() -> None:
    for dtype in ALL:
        x = ops.placeholder((2,), dtype)
        assert ops.where(ops.equal(x, x), x, x).dtype is dtype
