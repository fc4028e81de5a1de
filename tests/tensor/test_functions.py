"""Functions of the tensor layer against NumPy in float64, one table per family, broadcasting
drawn.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.special
from hypothesis import given
from hypothesis import strategies as st

import lamella as lm
from lamella.errors import OptionError

RNG = np.random.default_rng(7)
X = RNG.normal(size=(3, 4))
POSITIVE = np.abs(X) + 0.1
UNIT = np.tanh(X) * 0.9
WHOLE = RNG.integers(-5, 6, size=(3, 4))
MASK = RNG.random((3, 4)) < 0.5

UNARY: list[tuple[str, Callable[..., Any], np.ndarray]] = [
    ("exp", np.exp, X),
    ("exp2", np.exp2, X),
    ("expm1", np.expm1, X),
    ("log", np.log, POSITIVE),
    ("log2", np.log2, POSITIVE),
    ("log10", np.log10, POSITIVE),
    ("log1p", np.log1p, POSITIVE),
    ("sqrt", np.sqrt, POSITIVE),
    ("rsqrt", lambda x: 1 / np.sqrt(x), POSITIVE),
    ("sin", np.sin, X),
    ("cos", np.cos, X),
    ("tan", np.tan, X),
    ("asin", np.arcsin, UNIT),
    ("acos", np.arccos, UNIT),
    ("atan", np.arctan, X),
    ("sinh", np.sinh, X),
    ("cosh", np.cosh, X),
    ("tanh", np.tanh, X),
    ("asinh", np.arcsinh, X),
    ("acosh", np.arccosh, POSITIVE + 1),
    ("atanh", np.arctanh, UNIT),
    ("erf", scipy.special.erf, X),
    ("erfc", scipy.special.erfc, X),
    ("sigmoid", scipy.special.expit, X),
    ("negative", np.negative, X),
    ("positive", np.positive, X),
    ("abs", np.abs, X),
    ("sign", np.sign, X),
    ("square", np.square, X),
    ("reciprocal", np.reciprocal, POSITIVE),
    ("floor", np.floor, X * 3),
    ("ceil", np.ceil, X * 3),
    ("trunc", np.trunc, X * 3),
    ("round", np.round, X * 3),
    ("isnan", np.isnan, X),
    ("isinf", np.isinf, X),
    ("isfinite", np.isfinite, X),
    ("signbit", np.signbit, X),
    ("logical_not", np.logical_not, WHOLE),
    ("bitwise_invert", np.invert, WHOLE),
    ("abs", np.abs, WHOLE),
    ("negative", np.negative, WHOLE),
    ("square", np.square, WHOLE),
    ("sign", np.sign, WHOLE),
    ("logical_not", np.logical_not, MASK),
    ("bitwise_invert", np.invert, MASK),
]

BINARY: list[tuple[str, Callable[..., Any], np.ndarray, np.ndarray]] = [
    ("add", np.add, X, POSITIVE),
    ("subtract", np.subtract, X, POSITIVE),
    ("multiply", np.multiply, X, POSITIVE),
    ("divide", np.divide, X, POSITIVE),
    ("floor_divide", np.floor_divide, X * 5, POSITIVE),
    ("remainder", np.remainder, X * 5, POSITIVE),
    ("fmod", np.fmod, X * 5, -POSITIVE),
    ("pow", np.power, POSITIVE, X),
    ("maximum", np.maximum, X, -X),
    ("minimum", np.minimum, X, -X),
    ("atan2", np.arctan2, X, -POSITIVE),
    ("copysign", np.copysign, X, -X),
    ("hypot", np.hypot, X, POSITIVE),
    ("logaddexp", np.logaddexp, X, -X),
    ("equal", np.equal, WHOLE, WHOLE.T.reshape(3, 4)),
    ("not_equal", np.not_equal, WHOLE, -WHOLE),
    ("less", np.less, X, -X),
    ("less_equal", np.less_equal, WHOLE, -WHOLE),
    ("greater", np.greater, X, -X),
    ("greater_equal", np.greater_equal, WHOLE, -WHOLE),
    ("logical_and", np.logical_and, WHOLE, MASK),
    ("logical_or", np.logical_or, WHOLE, MASK),
    ("logical_xor", np.logical_xor, WHOLE, MASK),
    ("bitwise_and", np.bitwise_and, WHOLE, WHOLE + 3),
    ("bitwise_or", np.bitwise_or, WHOLE, WHOLE + 3),
    ("bitwise_xor", np.bitwise_xor, WHOLE, WHOLE + 3),
    ("bitwise_left_shift", np.left_shift, WHOLE, abs(WHOLE)),
    ("bitwise_right_shift", np.right_shift, WHOLE, abs(WHOLE)),
    ("floor_divide", np.floor_divide, WHOLE, abs(WHOLE) + 1),
    ("remainder", np.remainder, WHOLE, -abs(WHOLE) - 1),
    ("fmod", np.fmod, WHOLE, abs(WHOLE) + 1),
    ("add", np.add, MASK, ~MASK),
    ("multiply", np.multiply, MASK, MASK),
    ("pow", np.power, WHOLE, abs(WHOLE)),
]


def close(found: Any, want: np.ndarray) -> None:
    value = found.numpy()
    assert value.shape == want.shape
    np.testing.assert_allclose(value, want, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize(
    ("name", "reference", "x"), UNARY, ids=lambda v: v if isinstance(v, str) else ""
)
def test_unary(name: str, reference: Callable[..., Any], x: np.ndarray) -> None:
    close(getattr(lm, name)(lm.asarray(x)), reference(x))


@pytest.mark.parametrize(
    ("name", "reference", "x", "y"), BINARY, ids=lambda v: v if isinstance(v, str) else ""
)
def test_binary(name: str, reference: Callable[..., Any], x: np.ndarray, y: np.ndarray) -> None:
    function = getattr(lm, name)
    close(function(lm.asarray(x), lm.asarray(y)), reference(x, y))
    close(function(lm.asarray(x[0]), lm.asarray(y)), reference(x[0], y))
    close(function(lm.asarray(x), lm.asarray(y[:, :1])), reference(x, y[:, :1]))


OPERATORS: list[tuple[Callable[[Any, Any], Any], np.ndarray, Any]] = [
    (lambda a, b: a + b, X, 2),
    (lambda a, b: a - b, X, 2.5),
    (lambda a, b: a * b, X, True),
    (lambda a, b: a / b, X, 3),
    (lambda a, b: a // b, WHOLE, 3),
    (lambda a, b: a % b, WHOLE, 3),
    (lambda a, b: a**b, POSITIVE, 2.5),
    (lambda a, b: a**b, X, 3),
    (lambda a, b: a**b, POSITIVE, -0.5),
    (lambda a, b: a & b, WHOLE, 3),
    (lambda a, b: a | b, WHOLE, 3),
    (lambda a, b: a ^ b, WHOLE, 3),
    (lambda a, b: a << b, WHOLE, 2),
    (lambda a, b: a >> b, WHOLE, 1),
    (lambda a, b: a == b, WHOLE, 1),
    (lambda a, b: a != b, WHOLE, 1),
    (lambda a, b: a < b, X, 0),
    (lambda a, b: a <= b, X, 0.5),
    (lambda a, b: a > b, X, 0),
    (lambda a, b: a >= b, X, 0),
]


@pytest.mark.parametrize(("operator", "x", "scalar"), OPERATORS)
def test_operators_with_scalars_both_ways(
    operator: Callable[[Any, Any], Any], x: np.ndarray, scalar: Any
) -> None:
    t = lm.asarray(x)
    close(operator(t, scalar), operator(x, scalar))
    flipped = np.abs(x) + 1 if x.dtype.kind == "i" else POSITIVE
    close(operator(scalar, lm.asarray(flipped)), operator(scalar, flipped))


@pytest.mark.parametrize("dtype", lm.dtypes.ALL, ids=lambda d: d.name)
@pytest.mark.parametrize("scalar", [True, 2, 0.5])
def test_scalars_are_weak(dtype: Any, scalar: Any) -> None:
    x = lm.ones(2, dtype=dtype)
    want = lm.dtypes.promote_scalar(dtype, scalar)
    assert (x * scalar).dtype is want
    assert (scalar * x).dtype is want
    assert (x * np.float64(scalar)).dtype is lm.dtypes.promote_scalar(dtype, float(scalar))


@pytest.mark.parametrize("a", lm.dtypes.ALL, ids=lambda d: d.name)
@pytest.mark.parametrize("b", lm.dtypes.ALL, ids=lambda d: d.name)
def test_promotion_of_tensors(a: Any, b: Any) -> None:
    x, y = lm.ones(2, dtype=a), lm.ones(2, dtype=b)
    if {a.name, b.name} & {"uint64"} and {a.kind, b.kind} == {"i", "u"}:
        with pytest.raises(TypeError, match=r"\[add\]"):
            x + y
        return
    assert (x + y).dtype is lm.dtypes.promote(a, b)


REDUCTIONS: list[tuple[str, Callable[..., Any], np.ndarray, dict[str, Any]]] = [
    ("sum", np.sum, X, {}),
    ("prod", np.prod, X, {}),
    ("mean", np.mean, X, {}),
    ("var", np.var, X, {}),
    ("std", np.std, X, {}),
    ("max", np.max, X, {}),
    ("min", np.min, X, {}),
    ("any", np.any, MASK, {}),
    ("all", np.all, MASK, {}),
    ("sum", np.sum, MASK, {}),
    ("sum", np.sum, WHOLE, {}),
    ("prod", np.prod, WHOLE, {}),
    ("max", np.max, WHOLE, {}),
    ("any", np.any, WHOLE, {}),
    ("count_nonzero", np.count_nonzero, WHOLE, {}),
    ("logsumexp", scipy.special.logsumexp, X * 100, {}),
]


@pytest.mark.parametrize(("name", "reference", "x", "options"), REDUCTIONS)
@pytest.mark.parametrize("axis", [None, 0, -1, (0, 1), (1,)])
@pytest.mark.parametrize("keepdims", [False, True])
def test_reductions(
    name: str,
    reference: Callable[..., Any],
    x: np.ndarray,
    options: dict[str, Any],
    axis: Any,
    keepdims: bool,
) -> None:
    want = np.asarray(reference(x, axis=axis, keepdims=keepdims))
    close(getattr(lm, name)(lm.asarray(x), axis=axis, keepdims=keepdims), want)
    close(
        getattr(lm.asarray(x), name)(dim=axis, keepdim=keepdims)
        if hasattr(lm.Tensor, name)
        else getattr(lm, name)(lm.asarray(x), dim=axis, keepdim=keepdims),
        want,
    )


def test_variance_takes_a_correction_and_pytorchs_name_for_it() -> None:
    x = lm.asarray(X)
    close(x.var(axis=1, correction=1), X.var(axis=1, ddof=1))
    close(x.std(dim=1, unbiased=True), X.std(axis=1, ddof=1))
    close(lm.var(lm.asarray(X[:, :1]), axis=1, correction=0), np.zeros(3))


@pytest.mark.parametrize("name", ["argmax", "argmin"])
@pytest.mark.parametrize("axis", [None, 0, 1, -1])
def test_positions(name: str, axis: int | None) -> None:
    want = np.asarray(getattr(np, name)(WHOLE, axis=axis))
    found = getattr(lm, name)(lm.asarray(WHOLE), axis=axis)
    assert found.dtype == lm.int64
    close(found, want)
    close(
        getattr(lm, name)(lm.asarray(WHOLE), axis, True),
        getattr(np, name)(WHOLE, axis=axis, keepdims=True),
    )


@pytest.mark.parametrize(
    ("name", "reference"),
    [
        ("cumsum", np.cumsum),
        ("cumprod", np.cumprod),
        ("cummax", np.maximum.accumulate),
        ("cummin", np.minimum.accumulate),
    ],
)
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_running(name: str, reference: Callable[..., Any], axis: int) -> None:
    close(getattr(lm, name)(lm.asarray(X), axis), reference(X, axis=axis))


def test_order_statistics() -> None:
    for axis in (None, 0, 1):
        close(lm.median(lm.asarray(X), axis), np.asarray(np.median(X, axis=axis)))
        close(lm.quantile(lm.asarray(X), 0.3, axis), np.asarray(np.quantile(X, 0.3, axis=axis)))


def test_mean_of_float16_does_not_overflow() -> None:
    assert lm.full((4096,), 100.0, dtype="float16").mean().item() == 100.0


def test_mean_of_integers_is_float32_and_of_nothing_nan() -> None:
    assert lm.mean(lm.asarray(WHOLE)).dtype == lm.float32
    assert np.isnan(lm.mean(lm.zeros(0)).item())


@given(st.data())
def test_broadcasting_as_numpy(data: st.DataObject) -> None:
    full = data.draw(st.lists(st.integers(0, 3), max_size=4).map(tuple))
    shapes = []
    for _ in range(2):
        own = tuple(1 if data.draw(st.booleans()) else size for size in full)
        shapes.append(own[data.draw(st.integers(0, len(own))) :])
    a, b = (np.arange(int(np.prod(s)), dtype=np.float64).reshape(s) for s in shapes)
    close(lm.asarray(a) - lm.asarray(b), np.asarray(a - b))
    close(lm.where(lm.asarray(a) > lm.asarray(b), a, b), np.where(a > b, a, b))


def test_choice_and_repair() -> None:
    x = np.array([np.nan, np.inf, -np.inf, 1.0])
    close(lm.nan_to_num(lm.asarray(x)), np.nan_to_num(x))
    close(
        lm.nan_to_num(lm.asarray(x), 1.0, 2.0, 3.0),
        np.nan_to_num(x, nan=1.0, posinf=2.0, neginf=3.0),
    )
    close(lm.clip(lm.asarray(X), -0.5, 0.5), np.clip(X, -0.5, 0.5))
    close(lm.asarray(X).clamp(min=0), np.clip(X, 0, None))
    close(lm.lerp(lm.asarray(X), lm.asarray(POSITIVE), 0.25), X + 0.25 * (POSITIVE - X))
    want = np.isclose(x, x[::-1].copy()) | False
    close(lm.isclose(lm.asarray(x), lm.asarray(x[::-1].copy())), want)
    close(lm.isclose(lm.asarray(x), lm.asarray(x), equal_nan=True), np.ones(4, bool))
    assert lm.allclose(X, X + 1e-9) and not lm.allclose(X, X + 1)
    assert lm.array_equal(X, X) and not lm.array_equal(X, X.T)


def test_rounding_to_decimals() -> None:
    x = np.array([1.2345, -2.7182, 1234.5])
    for decimals in (0, 2, -2):
        close(lm.round(lm.asarray(x), decimals), np.round(x, decimals))


def test_gradient_does_not_leak_through_the_branch_not_taken() -> None:
    x = lm.tensor([0.0, 4.0], requires_grad=True)
    other = lm.tensor([2.0, float("nan")], requires_grad=True)
    lm.where(x > 0, lm.square(x), other).sum().backward()
    assert x.grad is not None and x.grad.tolist() == [0.0, 8.0]
    assert other.grad is not None and other.grad.tolist() == [1.0, 0.0]


def test_casts() -> None:
    x = lm.asarray(X * 3)
    np.testing.assert_array_equal(x.astype("int32").numpy(), (X * 3).astype(np.int32))
    np.testing.assert_array_equal(x.to(lm.float32).numpy(), (X * 3).astype(np.float32))
    assert (
        x.half().dtype == lm.float16 and x.long().dtype == lm.int64 and x.bool().dtype == lm.bool_
    )
    assert lm.bitcast(lm.tensor([1.0]), "uint32").item() == 0x3F800000
    assert x.to("cpu", lm.float16).dtype == lm.float16


def test_the_least_integers() -> None:
    """They have no absolute value of their type."""
    for dtype in (np.int8, np.int64):
        values = np.array([np.iinfo(dtype).min, np.iinfo(dtype).max, 1, -1, 6, -5], dtype)
        a, b = (each.ravel().copy() for each in np.meshgrid(values, values))
        for name in ("gcd", "lcm", "fmod", "remainder", "floor_divide"):
            with np.errstate(all="ignore"):
                close(getattr(lm, name)(lm.asarray(a), lm.asarray(b)), getattr(np, name)(a, b))


def test_fmod_keeps_the_dividends_sign() -> None:
    values = np.array([-0.0, 0.0, 1.5, -1.5, 7.0, -7.0, np.inf, -np.inf])
    a, b = (each.ravel().copy() for each in np.meshgrid(values, values))
    with np.errstate(all="ignore"):
        want = np.fmod(a, b)
    found = lm.fmod(lm.asarray(a), lm.asarray(b)).numpy()
    close(lm.asarray(found), want)
    np.testing.assert_array_equal(np.signbit(found[want == 0]), np.signbit(want[want == 0]))
    assert lm.grad(lambda x: lm.fmod(x, 3.0))(lm.asarray(0.0)).item() == 1


def test_frexp_keeps_the_element_type() -> None:
    assert lm.frexp(lm.asarray([3.0], dtype=lm.float16))[0].dtype == lm.float16


def test_slope_of_clip_at_its_limits() -> None:
    slope = lm.grad(lambda x: lm.sum(lm.clip(x, 0.0, 1.0)))
    assert slope(lm.asarray([-1.0, 0.0, 0.5, 1.0, 2.0])).tolist() == [0, 1, 1, 1, 0]
    assert np.isnan(lm.clip(lm.asarray([1.0, np.nan]), np.nan, 2.0).numpy()).all()


def test_pytorchs_options() -> None:
    x, y = lm.asarray([[7, -7], [4, 0]]), lm.asarray([[2, 2], [-3, 0]])
    assert lm.add(x, y, alpha=2).tolist() == [[11, -3], [-2, 0]]
    assert x.float().sub_(y, alpha=0.5).tolist() == [[6, -8], [5.5, 0]]
    assert x.div(y, rounding_mode="trunc").tolist() == [[3, -3], [-1, 0]]
    assert x.div(y, rounding_mode="floor").tolist() == [[3, -4], [-2, 0]]
    assert x.float().div(2, rounding_mode="trunc").tolist() == [[3, -3], [2, 0]]
    with pytest.raises(OptionError, match="did you mean 'floor'"):
        x.div(y, rounding_mode="flor")
    assert x.flip(0, 1).tolist() == [[0, 4], [-7, 7]]
    assert x.roll(shifts=(1, 1), dims=(0, 1)).tolist() == [[0, 4], [-7, 7]]
    assert x.tril(diagonal=-1).tolist() == [[0, 0], [4, 0]]
    assert x.float().norm(p=1, dim=1).tolist() == [14, 4]
    assert x.float().softmax(dim=0, dtype=lm.float64).dtype == lm.float64
    assert x.topk(1, sorted=True).values.tolist() == [[7], [4]]
    assert x.nonzero(as_tuple=False).tolist() == [[0, 0], [0, 1], [1, 0]]
    index = lm.asarray([[1], [0]])
    assert x.scatter(1, index, value=9).tolist() == [[7, 9], [9, 0]]
    assert x.scatter(1, index, y, reduce="add").tolist() == [[7, -5], [1, 0]]
    with pytest.raises(OptionError, match="src or value"):
        x.scatter(1, index)


def test_indices_along_an_axis_that_are_fewer_than_the_elements() -> None:
    """As PyTorch takes them; its results are written out."""
    x = lm.arange(12).reshape(3, 4)
    source = lm.arange(20).reshape(4, 5) + 100
    index = lm.asarray([[0, 1], [2, 3]])
    assert x.gather(1, index).tolist() == [[0, 1], [6, 7]]
    assert x.gather(1, lm.asarray([[1, 2]])).tolist() == [[1, 2]]
    assert x.scatter(1, index, source).tolist() == [
        [100, 101, 2, 3], [4, 5, 105, 106], [8, 9, 10, 11],
    ]  # fmt: skip
    assert x.scatter(0, index % 3, 7).tolist() == [[7, 7, 2, 3], [4, 7, 6, 7], [7, 9, 10, 11]]
    assert x.scatter_add(1, index % 2, source).tolist() == [
        [100, 102, 2, 3], [109, 111, 6, 7], [8, 9, 10, 11],
    ]  # fmt: skip
