"""The direct schedule of convolutions against float64 sums: random sizes, strides, padding,
dilation, groups, transposed; every size of register tile; what is fused around it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lamella import ops
from lamella.compiler import convolution, convolution_plan
from lamella.compiler.convolution_plan import Axis, lanes, plan
from lamella.compiler.layout import layouts
from lamella.compiler.pipeline import compile_graph
from lamella.config import config
from lamella.dtypes import DType, bfloat16, float16, float32, float64
from lamella.ir.node import Node, topological
from lamella.ops.convolution import Conv
from lamella.runtime.buffer import from_numpy
from lamella.runtime.evaluate import evaluate

RTOL = {float64: 1e-12, float32: 4e-6, float16: 2e-3, bfloat16: 1.6e-2}
VECTOR = 64


@pytest.fixture(autouse=True)
def always(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Take the direct schedule for the smallest convolutions too, with the passes on."""
    monkeypatch.setattr(convolution, "LEAST", 0)
    monkeypatch.setattr(convolution, "FEW", 0)
    with config(optimize=1, skip_passes="", backend="llvm", cache=0):
        yield


def leaf(rng: np.random.Generator, shape: Sequence[int], dtype: DType) -> Node:
    array = rng.standard_normal(tuple(shape)).astype(dtype.numpy)
    return ops.data(from_numpy(np.ascontiguousarray(array)), tuple(shape), dtype)


def array(node: Node) -> np.ndarray:
    return node.value.numpy(node.shape, node.dtype.numpy)  # type: ignore[union-attr]


def reference(node: Node) -> np.ndarray:
    """A ``conv`` in float64, by NumPy alone."""
    arrays = [array(n).astype(np.float64) for n in node.inputs]
    return node.op.reference(*arrays, shape=node.shape, dtype=float64)


def kernels(outputs: Sequence[Node]) -> list[str]:
    """Names of the contractions that the layout pass leaves."""
    return [n.op.name for n in topological(layouts(outputs, VECTOR)) if n.op.kind == "contraction"]


def check(node: Node, expected: np.ndarray | None = None) -> None:
    """The result of a ``conv`` through the direct schedule."""
    wanted = reference(node) if expected is None else expected
    with config(verify=1):
        evaluate([node])
    found = array(node).astype(np.float64)
    scale = np.abs(wanted).max(initial=0) + 1.0
    rtol = RTOL[node.dtype]
    np.testing.assert_allclose(found, wanted, rtol=rtol, atol=rtol * scale)


@st.composite
def convolutions(draw: st.DrawFn) -> Node:
    """Any ``conv`` of rank 1 to 3 whose result is not empty."""
    rank = draw(st.integers(1, 3))
    small = st.integers(1, 3)
    taps = draw(st.lists(small, min_size=rank, max_size=rank))
    stride = draw(st.lists(small, min_size=rank, max_size=rank))
    gaps = draw(st.lists(st.integers(1, 2), min_size=rank, max_size=rank))
    phases = draw(st.sampled_from((1, 1, 2, 3)))
    if phases > 1:
        stride = [1] * rank
        gaps = [1 if gap == phases else gap for gap in gaps]
    most = {1: 40, 2: 17, 3: 7}[rank]
    size = [
        max(draw(st.integers(1, most)), (t - 1) * g + 1) for t, g in zip(taps, gaps, strict=True)
    ]
    padding = [(draw(st.integers(0, 3)), draw(st.integers(-0, 3))) for _ in range(rank)]
    groups = draw(st.sampled_from((1, 1, 2, 3)))
    channels, filters = draw(st.integers(1, 9)), draw(st.integers(1, 20))
    if draw(st.integers(0, 2)) == 0:  # each channel by itself
        groups, channels, filters = draw(st.sampled_from((2, 7, 16, 40, 130))), 1, 1
    images = draw(st.integers(1, 3))
    rng = np.random.default_rng(draw(st.integers(0, 999)))
    x = leaf(rng, (images, groups * channels, *size), float32)
    w = leaf(rng, (groups * filters, channels, *taps), float32)
    return ops.conv(x, w, stride, padding, (phases,) * rank, gaps, groups)


@given(convolutions())
@settings(max_examples=60, deadline=None)
def test_random_convolutions(node: Node) -> None:
    check(node)


@given(convolutions(), st.integers(0, 99))
@settings(max_examples=25, deadline=None)
def test_random_derivatives_by_the_image(node: Node, seed: int) -> None:
    """Flipped taps, and phases where the convolution is strided."""
    cotangent = leaf(np.random.default_rng(seed), node.shape, node.dtype)
    (by_image, _) = node.op.transpose(node, cotangent, (True, False))
    assert by_image is not None
    check(by_image, by_image.op.reference(
        *(_value(n) for n in by_image.inputs), shape=by_image.shape, dtype=float64
    ))  # fmt: skip


def _value(node: Node) -> np.ndarray:
    if node.value is not None:
        return array(node).astype(np.float64)
    values = [_value(n) for n in node.inputs]
    return node.op.reference(*values, shape=node.shape, dtype=float64)


@pytest.mark.parametrize("vectors", [16, 32, 48, 64])
@pytest.mark.parametrize("case", [(13, 13), (7, 7), (5, 30), (1, 33)])
def test_every_width_of_tile(
    monkeypatch: pytest.MonkeyPatch, vectors: int, case: tuple[int, int]
) -> None:
    monkeypatch.setattr(convolution, "lanes", lambda *_: vectors)
    rng = np.random.default_rng(vectors)
    x, w = leaf(rng, (2, 5, *case), float32), leaf(rng, (67, 5, 3, 3), float32)
    node = ops.conv(x, w, (1, 1), ((1, 1), (1, 1)))
    assert kernels([node]) == ["conv_last"]
    check(node)


@pytest.mark.parametrize("channels", [3, 16, 24, 70])
@pytest.mark.parametrize("stride", [1, 2])
def test_depthwise(channels: int, stride: int) -> None:
    rng = np.random.default_rng(channels)
    x, w = leaf(rng, (2, channels, 13, 21), float32), leaf(rng, (channels, 1, 5, 3), float32)
    node = ops.conv(x, w, (stride, stride), ((2, 2), (1, 1)), groups=channels)
    assert kernels([node]) == ["conv_depthwise"]
    check(node)


@pytest.mark.parametrize("dtype", [float64, float32, float16, bfloat16])
@pytest.mark.parametrize("taps", [1, 3])
def test_types(dtype: DType, taps: int) -> None:
    rng = np.random.default_rng(taps)
    x, w = leaf(rng, (2, 17, 9, 8), dtype), leaf(rng, (20, 17, taps, taps), dtype)
    check(ops.conv(x, w, (1, 1), ((taps // 2,) * 2,) * 2))


@pytest.mark.parametrize("vector_bytes", [16, 32, 64])
def test_tasks_are_chosen_by_sizes_alone(vector_bytes: int) -> None:
    """Plans exist for usual layers, tiles fit the registers, tasks the scratch memory."""
    for size, taps, channels, filters in ((224, 7, 3, 64), (56, 3, 64, 64), (7, 3, 512, 512)):
        axes = [Axis(1, 1, 1, 1, 0, 1), *[Axis(size, size, taps, 1, taps // 2, 1)] * 2]
        wide = lanes(axes, filters, vector_bytes, 4)
        found = plan(axes, 1, channels, -(-filters // wide), wide, vector_bytes, 4)
        assert found is not None
        vectors = wide * 4 // vector_bytes
        registers = convolution_plan.registers(vector_bytes)
        assert found.rows * found.columns * vectors + vectors + 1 <= registers
        pixels = axes[1].window(found.task_rows) * axes[2].window(found.task_columns)
        assert pixels * channels * 4 <= convolution_plan.SCRATCH


def test_an_image_too_large_to_copy_stays_general() -> None:
    axes = [Axis(1, 1, 1, 1, 0, 1), *[Axis(64, 64, 3, 1, 1, 1)] * 2]
    assert plan(axes, 1, 1 << 20, 4, 16, 64, 4) is None


def test_what_lies_between_is_fused() -> None:
    """Scale, shift, activation and bypass become part of the first convolution's kernel."""
    rng = np.random.default_rng(3)
    x, w = leaf(rng, (1, 16, 12, 12), float32), leaf(rng, (16, 16, 3, 3), float32)
    scale = leaf(rng, (1, 16, 1, 1), float32)
    pads = ((1, 1), (1, 1))
    first = ops.conv(x, w, (1, 1), pads)
    inner = ops.maximum(ops.add(ops.multiply(first, scale), scale), ops.constant(0.0, float32))
    inner = ops.add(inner, ops.broadcast_to(scale, inner.shape))
    second = ops.conv(inner, w, (1, 1), pads)
    data = [n for n in topological([second]) if n.op.name == "data"]
    blueprint = compile_graph([second], data, [], VECTOR)
    assert len(blueprint.steps) == 4  # packing the kernel, two convolutions, the result's order
    wide = _value(first) * array(scale) + array(scale)
    wide = np.maximum(wide, 0) + array(scale)
    op = second.op
    assert isinstance(op, Conv)
    expected = op.reference(wide, _value(w), shape=second.shape, dtype=float64)
    check(second, expected)


def test_pooling_and_statistics_stay_channels_last() -> None:
    """Windows, sums and concatenations after a convolution are stored in its order."""
    rng = np.random.default_rng(4)
    x, w = leaf(rng, (2, 8, 12, 12), float32), leaf(rng, (16, 8, 3, 3), float32)
    y = ops.conv(x, w, (1, 1), ((1, 1), (1, 1)))
    padded = ops.pad(y, (0, 0, 1, 1), (0, 0, 1, 1), float("-inf"))
    pooled = ops.reduce_max(ops.window(padded, (3, 3), (2, 2)), (4, 5))
    joined = ops.concatenate([pooled, ops.negative(pooled)], 1)
    mean = ops.reduce_sum(joined, (2, 3))
    wide = _value(y)
    high = np.pad(wide, ((0, 0), (0, 0), (1, 1), (1, 1)), constant_values=-np.inf)
    windows = np.lib.stride_tricks.sliding_window_view(high, (3, 3), (2, 3))[:, :, ::2, ::2]
    most = windows.max((4, 5))
    both = np.concatenate([most, -most], 1)
    with config(verify=1):
        evaluate([joined, mean])
    np.testing.assert_allclose(array(joined), both, rtol=1e-5, atol=1e-4)
    np.testing.assert_allclose(array(mean), both.sum((2, 3)), rtol=1e-4, atol=1e-3)


def test_threads_do_not_change_bits() -> None:
    rng = np.random.default_rng(5)
    x, w = leaf(rng, (3, 16, 20, 20), float32), leaf(rng, (40, 16, 3, 3), float32)
    found = []
    for threads in (1, 2):
        with config(threads=threads):
            node = ops.conv(x, w, (1, 1), ((1, 1), (1, 1)))
            evaluate([node])
        found.append(array(node).tobytes())
    assert found[0] == found[1]


def test_empty_and_symbolic_sizes_stay_general() -> None:
    rng = np.random.default_rng(6)
    x, w = leaf(rng, (0, 3, 6, 6), float32), leaf(rng, (4, 3, 3, 3), float32)
    assert kernels([ops.conv(x, w, (1, 1), ((0, 0), (0, 0)))]) == ["conv"]


def test_few_channels_stay_general_where_pixels_lie_side_by_side(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(convolution, "FEW", 16)
    rng = np.random.default_rng(8)
    x, w = leaf(rng, (1, 8, 9, 9), float32), leaf(rng, (24, 8, 3, 3), float32)
    pads = ((1, 1), (1, 1))
    few, one = leaf(rng, (4, 8, 3, 3), float32), leaf(rng, (1, 24, 3, 3), float32)
    assert kernels([ops.conv(x, few, (1, 1), pads)]) == ["conv"]
    wide = ops.conv(x, w, (1, 1), pads)
    after = leaf(rng, (4, 24, 3, 3), float32)
    assert kernels([ops.conv(wide, after, (1, 1), pads)]) == ["conv_last", "conv_last"]
    assert kernels([ops.conv(wide, one, (1, 1), pads)]) == ["conv_last", "conv"]
    check(ops.conv(x, few, (1, 1), pads))


def test_strides_against_the_axis_stay_general() -> None:
    rng = np.random.default_rng(7)
    x, w = leaf(rng, (1, 2, 6), float32), leaf(rng, (4, 2, 3), float32)
    node = ops.conv(x, w, (1,), ((0, 0),))
    back = Node(replace(node.op, stride=(-1,), low=(-3,)), node.inputs, node.shape, node.dtype)  # type: ignore[call-arg]
    assert kernels([back]) == ["conv"]
    check(back)
