"""Convolution against plain loops and SciPy, its transpose, and its derivatives' structure."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import scipy.signal
from hypothesis import given, settings
from hypothesis import strategies as st

from lamella import ops
from lamella.dtypes import float32, float64, int32
from lamella.errors import DTypeError, ShapeError
from lamella.graph.batch import batch
from lamella.graph.reverse import vjp
from lamella.ir.dim import Dim
from lamella.ir.interp import interpret
from lamella.ir.node import Node, topological
from lamella.ir.verify import verify_graph
from lamella.ops.base import Array
from tests.ops.evaluate import leaf, value

pytestmark = pytest.mark.makes_no_program


def padded(x: Array, padding, dilation) -> Array:
    """The image with zeros between and around its elements, cropped where padding is negative."""
    wide = np.zeros(
        (*x.shape[:2], *((s - 1) * d + 1 for s, d in zip(x.shape[2:], dilation, strict=True)))
    )
    wide[(slice(None), slice(None), *(slice(None, None, d) for d in dilation))] = x
    wide = np.pad(wide, [(0, 0), (0, 0), *((max(a, 0), max(b, 0)) for a, b in padding)])
    crop = (
        slice(max(-a, 0), n - max(-b, 0)) for (a, b), n in zip(padding, wide.shape[2:], strict=True)
    )
    return wide[(slice(None), slice(None), *crop)]


def by_loops(x, w, stride, padding, x_dilation, w_dilation, groups) -> Array:
    """The definition, one result element at a time."""
    image = padded(x, padding, x_dilation)
    sizes = zip(image.shape[2:], w.shape[2:], stride, w_dilation, strict=True)
    space = [(s - (k - 1) * d - 1) // step + 1 for s, k, step, d in sizes]
    result = np.zeros((x.shape[0], w.shape[0], *space))
    each, channels = w.shape[0] // groups, w.shape[1]
    for n, o, *at in itertools.product(*map(range, result.shape)):
        first = o // each * channels
        for c, *k in itertools.product(range(channels), *map(range, w.shape[2:])):
            place = [a * s + j * d for a, s, j, d in zip(at, stride, k, w_dilation, strict=True)]
            result[(n, o, *at)] += image[(n, first + c, *place)] * w[(o, c, *k)]
    return result


CASES = [
    ((2, 3, 8), (4, 3, 3), (1,), ((0, 0),), (1,), (1,), 1),
    ((1, 4, 9), (6, 2, 3), (2,), ((2, 1),), (1,), (2,), 2),
    ((1, 2, 5), (2, 2, 2), (2,), ((-1, 3),), (3,), (1,), 1),
    ((2, 4, 6, 5), (4, 1, 3, 3), (1, 2), ((1, 1), (1, 1)), (1, 1), (1, 1), 4),
    ((1, 2, 4, 4), (3, 2, 2, 3), (3, 1), ((1, 0), (0, 2)), (2, 1), (1, 2), 1),
    ((1, 2, 3, 4, 3), (2, 1, 2, 2, 2), (1, 2, 1), ((1, 1), (0, 0), (1, 0)), (1,) * 3, (1,) * 3, 2),
]


@pytest.mark.parametrize("case", CASES)
def test_conv_is_its_definition(case) -> None:
    x, w, *options = case
    rng = np.random.default_rng(0)
    image, kernel = rng.standard_normal(x), rng.standard_normal(w)
    found = value(lambda a, b: ops.conv(a, b, *options), image, kernel)
    np.testing.assert_allclose(found, by_loops(image, kernel, *options), rtol=1e-12, atol=1e-12)


def test_conv_agrees_with_scipy() -> None:
    rng = np.random.default_rng(1)
    image, kernel = rng.standard_normal((9, 8)), rng.standard_normal((3, 4))
    found = value(
        lambda a, b: ops.conv(a, b, (1, 1), ((0, 0), (0, 0))), image[None, None], kernel[None, None]
    )
    expected = scipy.signal.correlate(image, kernel, "valid")
    np.testing.assert_allclose(found[0, 0], expected, rtol=1e-12, atol=1e-12)


@settings(max_examples=30)
@given(
    st.integers(1, 3), st.integers(0, 2), st.integers(0, 1), st.integers(1, 2), st.integers(1, 2)
)
def test_conv_transpose_adds_up_shifted_kernels(stride, pad, extra, dilation, groups) -> None:
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((2, 4, 5)), rng.standard_normal((4, 3, 3))
    size = 4 * stride - 2 * pad + 2 * dilation + extra + 1
    wide = np.zeros((2, 3 * groups, size + 2 * pad + extra))
    for n, c, s, o, k in itertools.product(range(2), range(4), range(5), range(3), range(3)):
        group = c // (4 // groups)
        wide[n, group * 3 + o, s * stride + k * dilation] += x[n, c, s] * w[c, o, k]
    found = value(
        lambda a, b: ops.conv_transpose(
            a, b, (stride,), ((pad, pad),), (extra,), (dilation,), groups
        ),
        x,
        w,
    )
    np.testing.assert_allclose(found, wide[..., pad : pad + size], rtol=1e-12, atol=1e-12)


def test_conv_transpose_is_the_transpose() -> None:
    rng = np.random.default_rng(0)
    w = rng.standard_normal((4, 3, 3, 2))
    x = ops.placeholder((2, 3, 7, 6), float64, tracked=True)
    y = ops.conv(x, leaf(w), (2, 1), ((1, 1), (0, 1)))
    ct = rng.standard_normal(y.shape)
    (grad,) = interpret(vjp([y], [leaf(ct)], [x]))
    turned = value(lambda a, b: ops.conv_transpose(a, b, (2, 1), ((1, 1), (0, 1)), (0, 0)), ct, w)
    np.testing.assert_allclose(grad, turned, rtol=1e-12, atol=1e-12)


def convolutions(node: Node) -> list[Node]:
    return [n for n in topological([node]) if n.op.name == "conv"]


def test_derivatives_are_convolutions_without_sizes() -> None:
    """A program of the gradient serves every size: no field of a derivative depends on one."""
    found = []
    for size in (8, 13, Dim("n")):
        x = ops.placeholder((size, 2, size), float32, tracked=True)
        w = ops.placeholder((4, 1, 3), float32, tracked=True)
        y = ops.conv(x, w, (2,), ((1, 1),), groups=2)
        grads = vjp([y], [ops.placeholder(y.shape, float32, tracked=True)], [x, w])
        again = vjp([grads[1]], [ops.placeholder(w.shape, float32)], [x])
        assert [g.shape for g in grads] == [x.shape, w.shape] and again[0].shape == x.shape
        found.append([n.op for g in (*grads, *again) for n in convolutions(g)])
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize(("stride", "dilation"), [((2, 3), (1, 1)), ((3, 1), (1, 2))])
def test_the_kernel_of_a_transposed_convolution_needs_no_zeros(groups, stride, dilation) -> None:
    """Its derivative slides the small image over the large cotangent, not the other way round."""
    rng = np.random.default_rng(0)
    x, shape = rng.standard_normal((2, 4, 5, 4)), (4, 3, 3, 2)

    def turned(x: Node, w: Node) -> Node:
        return ops.conv_transpose(x, w, stride, ((1, 0), (0, 1)), None, dilation, groups)

    w = ops.placeholder(shape, float64, tracked=True)
    y = turned(leaf(x), w)
    cotangent = rng.standard_normal(y.shape)
    (gradient,) = vjp([y], [leaf(cotangent)], [w])
    assert [n.op.x_dilation for n in convolutions(gradient)] == [(1, 1)]
    units = np.eye(np.prod(shape)).reshape(-1, *shape)
    wanted = [np.sum(value(turned, x, unit) * cotangent) for unit in units]
    (found,) = interpret([gradient])
    np.testing.assert_allclose(found, np.reshape(wanted, shape), rtol=1e-12, atol=1e-12)


def test_int8_sums_in_int32() -> None:
    x, w = np.full((1, 64, 3), 100, np.int8), np.full((1, 64, 3), 100, np.int8)
    total = value(lambda a, b: ops.conv(a, b, (1,), ((0, 0),), dtype=int32), x, w)
    assert total.tolist() == [[[64 * 3 * 10_000]]]


def test_builders_refuse() -> None:
    x, w = leaf(np.ones((1, 4, 5))), leaf(np.ones((6, 2, 3)))
    with pytest.raises(ShapeError, match="channels"):
        ops.conv(x, w, (1,), ((0, 0),))
    with pytest.raises(ShapeError, match="do not divide"):
        ops.conv(x, leaf(np.ones((5, 2, 3))), (1,), ((0, 0),), groups=2)
    with pytest.raises(ShapeError, match="reaches over 9 positions"):
        ops.conv(x, w, (1,), ((1, 0),), w_dilation=(4,), groups=2)
    with pytest.raises(ShapeError, match="stride"):
        ops.conv(x, w, (1, 1), ((0, 0),), groups=2)
    with pytest.raises(ShapeError, match="below 1"):
        ops.conv(x, w, (0,), ((0, 0),), groups=2)
    with pytest.raises(ShapeError, match="groups 0"):
        ops.conv(x, w, (1,), ((0, 0),), groups=0)
    with pytest.raises(ShapeError, match="spatial axes"):
        ops.conv(leaf(np.ones((2, 3))), leaf(np.ones((2, 3))), (), ())
    with pytest.raises(DTypeError, match="cast"):
        ops.conv(x, leaf(np.ones((6, 2, 3), np.float32)), (1,), ((0, 0),), groups=2)
    with pytest.raises(ShapeError, match="kernel is"):
        ops.conv_transpose(x, w, (1,), ((0, 0),))
    with pytest.raises(ShapeError, match="crops more"):
        ops.conv_transpose(x, leaf(np.ones((4, 2, 3))), (1,), ((8, 8),))


def test_an_empty_batch_is_empty() -> None:
    x, w = ops.placeholder((1, 2, 5), float32), ops.placeholder((3, 2, 3), float32)
    y = ops.conv(x, w, (1,), ((0, 0),))
    xs, ws = ops.placeholder((0, 1, 2, 5), float32), ops.placeholder((0, 3, 2, 3), float32)
    for inputs in ({x: xs}, {w: ws}, {x: xs, w: ws}):
        ((found, _),) = batch([y], inputs, 0)
        verify_graph([found])
        leaves = {x: np.ones(x.shape), w: np.ones(w.shape)} | {
            many: np.ones(many.shape) for many in inputs.values()
        }
        assert interpret([found], leaves)[0].shape == (0, 1, 3, 3)
