"""Contraction and matmul against einsum and NumPy's matmul."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lamella import ops
from lamella.dtypes import bfloat16, float32, float64, int8, int32
from lamella.errors import DTypeError, ShapeError
from lamella.ir.dim import Dim
from tests.ops.evaluate import leaf, value

pytestmark = pytest.mark.makes_no_program


@st.composite
def equations(draw: st.DrawFn) -> tuple[list[int], list[int], list[int], dict[int, int]]:
    """Labels of two operands and an output, and their sizes."""
    labels = list(range(5))
    some = st.lists(st.sampled_from(labels), unique=True, max_size=4)
    a, b = draw(some), draw(some)
    out = draw(st.lists(st.sampled_from(sorted({*a, *b}) or [0]), unique=True, max_size=4))
    sizes = {label: draw(st.integers(0 if label == 4 else 1, 4)) for label in labels}
    return a, b, [label for label in out if label in {*a, *b}], sizes


@given(equations())
def test_contract_is_einsum(equation) -> None:
    a, b, out, sizes = equation
    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal([sizes[label] for label in labels]) for labels in (a, b))
    found = value(lambda p, q: ops.contract(p, q, a, b, out), x, y)
    np.testing.assert_allclose(found, np.einsum(x, a, y, b, out), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("a", "b"),
    [((3,), (3,)), ((2, 3), (3,)), ((3,), (3, 4)), ((2, 3), (3, 4)), ((5, 2, 3), (5, 3, 4)),
     ((5, 2, 3), (3, 4)), ((2, 3), (5, 3, 4)), ((5, 1, 2, 3), (6, 3, 4)), ((1, 2, 3), (1, 3, 4)),
     ((5, 2, 3), (3,)), ((3,), (5, 3, 4)), ((1, 6, 2, 3), (5, 1, 3, 4)), ((0, 2, 3), (1, 3, 4))],
)  # fmt: skip
def test_matmul_is_numpy_matmul(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal(a), rng.standard_normal(b)
    np.testing.assert_allclose(value(ops.matmul, x, y), np.matmul(x, y), rtol=1e-12)


def test_matmul_does_not_repeat_what_it_broadcasts() -> None:
    a, b = ops.placeholder((5, 1, 2, 3), float32), ops.placeholder((6, 3, 4), float32)
    product = ops.matmul(a, b)
    while product.op.name != "contract":
        (product,) = product.inputs
    assert [source.size for source in product.inputs] == [a.size, b.size]


def test_products_without_a_sum_are_elementwise() -> None:
    a, b = ops.placeholder((2,), float32), ops.placeholder((3,), float32)
    assert ops.contract(a, b, (0,), (1,), (1, 0)).op.name == "multiply"
    assert ops.contract(a, b, (0,), (1,), (1, 0)).shape == (3, 2)


def test_small_types_are_summed_wide() -> None:
    ones = np.ones(1000, bfloat16.numpy)
    assert float(value(ops.matmul, ones, ones)) == 1000
    bytes_ = np.full(1000, 100, np.int8)
    total = value(lambda a, b: ops.matmul(a, b, int32), bytes_, bytes_)
    assert total.dtype == np.int32 and total == 10_000_000


def test_equal_structures_are_equal() -> None:
    a, b = ops.placeholder((2, 3), float32), ops.placeholder((3, 4), float32)
    first = ops.contract(a, b, (7, 5), (5, 9), (7, 9))
    assert first.op == ops.contract(a, b, (0, 1), (1, 2), (0, 2)).op == ops.matmul(a, b).op


def test_symbolic_sizes() -> None:
    n = Dim("n")
    a, b = ops.placeholder((n, 2, 3), float32), ops.placeholder((3, n), float32)
    assert ops.matmul(a, b).shape == (n, 2, n)
    with pytest.raises(ShapeError):
        ops.matmul(a, ops.placeholder((n, 4), float32))


def test_builders_refuse() -> None:
    a, b = leaf(np.ones((2, 3))), leaf(np.ones((4, 5)))
    with pytest.raises(ShapeError, match=r"\[matmul\] shapes \(2, 3\) and \(4, 5\): 3 ≠ 4"):
        ops.matmul(a, b)
    with pytest.raises(ShapeError, match="scalar"):
        ops.matmul(a, leaf(1.0))
    with pytest.raises(ShapeError, match="do not broadcast: 2 ≠ 3"):
        ops.matmul(leaf(np.ones((2, 4, 3))), leaf(np.ones((3, 3, 4))))
    with pytest.raises(ShapeError, match="diagonal"):
        ops.contract(a, b, (0, 0), (1, 2), (0,))
    with pytest.raises(ShapeError, match="3 ≠ 4"):
        ops.contract(a, b, (0, 1), (1, 2), (0, 2))
    with pytest.raises(ShapeError, match="output labels"):
        ops.contract(a, b, (0, 1), (2, 3), (4,))
    with pytest.raises(DTypeError, match="cast"):
        ops.matmul(a, ops.cast(leaf(np.ones((3, 2))), float32))
    with pytest.raises(DTypeError, match="bool"):
        ops.matmul(leaf(np.ones(2, bool)), leaf(np.ones(2, bool)))
    with pytest.raises(DTypeError, match="wider one"):
        ops.matmul(a, leaf(np.ones((3, 2))), float32)
    assert ops.result_dtype("matmul", int8, None) is int8
    assert ops.result_dtype("matmul", float32, float64) is float64
