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
from lamella.compiler.convolution_plan import Axis, crowded, lanes, plan
from lamella.compiler.layout import layouts
from lamella.compiler.pipeline import compile_graph
from lamella.config import config
from lamella.dtypes import DType, bfloat16, float16, float32, float64
from lamella.ir.loop_text import kernel_text
from lamella.ir.node import Node, topological
from lamella.ir.vectors import VectorUnit
from lamella.ops.convolution import Conv
from lamella.runtime.buffer import from_numpy
from lamella.runtime.evaluate import evaluate
from tests.support.units import AVX2, AVX512, NEON, SSE

RTOL = {float64: 1e-12, float32: 4e-6, float16: 2e-3, bfloat16: 1.6e-2}


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
    return [n.op.name for n in topological(layouts(outputs, AVX512)) if n.op.kind == "contraction"]


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
    elif draw(st.integers(0, 2)) == 0:  # groups of few channels, side by side
        groups, filters = draw(st.sampled_from((4, 6, 8, 16))), 2 ** (filters % 3)
    images = draw(st.integers(1, 3))
    rng = np.random.default_rng(draw(st.integers(0, 999)))
    x = leaf(rng, (images, groups * channels, *size), float32)
    w = leaf(rng, (groups * filters, channels, *taps), float32)
    return ops.conv(x, w, stride, padding, (phases,) * rank, gaps, groups)


@given(convolutions())
@settings(max_examples=60, deadline=None)
def test_random_convolutions(node: Node) -> None:
    check(node)


@pytest.mark.parametrize(("channels", "filters"), [(4, 4), (3, 2), (20, 4), (4, 8)])
def test_groups_of_few_channels(channels: int, filters: int) -> None:
    """As many groups lie side by side as a vector holds, where their channels are few."""
    rng = np.random.default_rng(channels)
    shapes = (2, 16 * channels, 9, 21), (16 * filters, channels, 3, 3)
    x, w = (leaf(rng, shape, float32) for shape in shapes)
    node = ops.conv(x, w, (1, 1), ((1, 1), (1, 1)), groups=16)
    (found,) = [n for n in topological(layouts([node], AVX2)) if n.op.name == "conv_last"]
    several = 8 // filters if channels < 20 else 1
    assert found.inputs[1].shape[0] == 16 // several
    check(node)
    x, w = (leaf(rng, shape, float16) for shape in shapes)
    check(ops.conv(x, w, (2, 1), ((1, 1), (1, 1)), groups=16))


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


@pytest.mark.parametrize(
    ("size", "taps", "stride", "gap", "pad"),
    [
        (7, 3, 1, 1, (1, 1)), (14, 5, 2, 1, (2, 2)), (28, 3, 1, 1, (1, 1)), (9, 7, 1, 1, (3, 3)),
        (4, 3, 1, 18, (18, 18)), (64, 3, 1, 20, (20, 20)), (33, 3, 2, 1, (1, 1)),
        (6, 5, 1, 1, (4, 0)), (5, 1, 1, 1, (5, 5)), (1, 3, 1, 1, (1, 1)), (13, 3, 3, 2, (0, 0)),
    ],
)  # fmt: skip
def test_depthwise_tiles_at_edges(
    size: int, taps: int, stride: int, gap: int, pad: tuple[int, int]
) -> None:
    """One tile that has both edges, whole tiles between two, tiles that see nothing but zeros."""
    rng = np.random.default_rng(size)
    x, w = leaf(rng, (2, 20, size, size), float32), leaf(rng, (20, 1, taps, taps), float32)
    node = ops.conv(x, w, (stride, stride), (pad, pad), w_dilation=(gap, gap), groups=20)
    assert kernels([node]) == ["conv_depthwise"]
    check(node)


def test_depthwise_writes_out_tiles_at_edges() -> None:
    """Their taps outside the image are left out: nothing is masked, nothing computed twice."""
    given = [ops.placeholder(shape, float32) for shape in ((1, 64, 28, 28), (64, 1, 3, 3))]
    node = ops.conv(*given, (1, 1), ((1, 1), (1, 1)), groups=64)
    texts = [kernel_text(k) for k in compile_graph([node], given, [], AVX512).kernels]
    (text,) = (text for text in texts if "fma(" in text)
    assert "select" not in text and "if " not in text
    assert text.count("fma(") == 3 * 7 + 2 * (3 * 7 - 1)  # a tile of 7 places, and two at edges


def by_kernels(op: Conv, x: Node, w: Node, places: tuple[int, ...], seed: int) -> list[Node]:
    """The derivative of a convolution by its kernels, and its cotangent."""
    shape = (x.shape[0], w.shape[0], *places)
    node = Node(op, (x, w), shape, x.dtype)
    cotangent = leaf(np.random.default_rng(seed), shape, x.dtype)
    found = op.transpose(node, cotangent, (False, True))[1]
    assert found is not None
    return [found, cotangent]


@pytest.mark.parametrize("images", [1, 3, 17])
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize(("size", "taps"), [((12, 12), (3, 3)), ((23, 17), (2, 5)), ((40,), (3,))])
@pytest.mark.parametrize("dtype", [float32, bfloat16])
def test_depthwise_derivatives_by_the_kernels_are_sums(
    images: int, stride: int, size: tuple[int, ...], taps: tuple[int, ...], dtype: DType
) -> None:
    rng = np.random.default_rng(images)
    x, w = leaf(rng, (images, 5, *size), dtype), leaf(rng, (5, 1, *taps), dtype)
    ones = (1,) * len(size)
    op = Conv((stride,) * len(size), ones, ones, ones)
    places = tuple((s + 2 - t) // stride + 1 for s, t in zip(size, taps, strict=True))
    found, cotangent = by_kernels(op, x, w, places, 1)
    assert kernels([found]) == []
    wide = np.pad(array(x).astype(np.float64), ((0, 0), (0, 0), *((1, 1),) * len(size)))
    slid = np.lib.stride_tricks.sliding_window_view(wide, taps, tuple(range(2, 2 + len(size))))
    slid = slid[:, :, *(slice(None, None, stride),) * len(size)]
    axes = "hw"[: len(size)]
    wanted = np.einsum(
        f"nc{axes}xy,nc{axes}->cxy" if len(size) == 2 else "nchx,nch->cx",
        slid, array(cotangent).astype(np.float64),
    )  # fmt: skip
    check(found, wanted[:, None])


def test_sums_of_depthwise_derivatives_are_one_pass() -> None:
    """However the image and the cotangent are made, no product of the two is stored."""
    rng = np.random.default_rng(6)
    x, w = leaf(rng, (4, 16, 24, 24), float32), leaf(rng, (16, 1, 3, 3), float32)
    op = Conv((1, 1), (1, 1), (1, 1), (1, 1))
    image = ops.exp(ops.multiply(x, x))
    found, cotangent = by_kernels(op, image, w, (24, 24), 2)
    made = compile_graph([found], [x, cotangent], [], AVX512)
    large = [t for t in made.temporaries if t.nbytes >= array(x).nbytes]
    assert len(large) <= 2
    assert len(made.steps) <= 6


def test_few_terms_of_depthwise_derivatives_stay_a_convolution() -> None:
    rng = np.random.default_rng(7)
    x, w = leaf(rng, (2, 16, 3, 3), float32), leaf(rng, (16, 1, 5, 5), float32)
    op = Conv((1, 1), (2, 2), (1, 1), (1, 1))
    assert kernels(by_kernels(op, x, w, (3, 3), 3)[:1]) != []


@pytest.mark.parametrize("dtype", [float64, float32, float16, bfloat16])
@pytest.mark.parametrize("taps", [1, 3])
def test_types(dtype: DType, taps: int) -> None:
    rng = np.random.default_rng(taps)
    x, w = leaf(rng, (2, 17, 9, 8), dtype), leaf(rng, (20, 17, taps, taps), dtype)
    check(ops.conv(x, w, (1, 1), ((taps // 2,) * 2,) * 2))


@pytest.mark.parametrize("unit", [SSE, NEON, AVX2, AVX512])
def test_tasks_are_chosen_by_sizes_alone(unit: VectorUnit) -> None:
    """Plans exist for usual layers, tiles fit the registers, tasks the scratch memory."""
    for size, taps, channels, filters in ((224, 7, 3, 64), (56, 3, 64, 64), (7, 3, 512, 512)):
        axes = [Axis(1, 1, 1, 1, 0, 1), *[Axis(size, size, taps, 1, taps // 2, 1)] * 2]
        wide = lanes(axes, filters, unit, 4)
        found = plan(axes, 1, channels, -(-filters // wide), wide, unit, 4)
        assert found is not None
        vectors = wide * 4 // unit.bytes
        assert found.rows * found.columns * vectors + vectors + 1 <= unit.registers
        pixels = axes[1].window(found.task_rows) * axes[2].window(found.task_columns)
        assert pixels * channels * 4 <= convolution_plan.SCRATCH


def test_an_image_too_large_to_copy_stays_general() -> None:
    axes = [Axis(1, 1, 1, 1, 0, 1), *[Axis(64, 64, 3, 1, 1, 1)] * 2]
    assert plan(axes, 1, 1 << 20, 4, 16, AVX512, 4) is None


@pytest.mark.parametrize(("channels", "parts"), [(6, 2), (15, 3), (7, 7)])
def test_channels_too_many_to_copy_are_summed_in_parts(
    monkeypatch: pytest.MonkeyPatch, channels: int, parts: int
) -> None:
    """As the images in the derivative by the kernels are; as few equal parts as can be copied."""
    high, wide = Axis(9, 9, 3, 1, 1, 1), Axis(7, 5, 5, 1, 2, 1)
    tile = plan([Axis(1, 1, 1, 1, 0, 1), high, wide], 2, 1, 1, 8, AVX512, 4)
    assert tile is not None
    least = 4 * high.window(tile.rows) * wide.window(tile.columns)
    monkeypatch.setattr(convolution_plan, "SCRATCH", 5 * least)
    rng = np.random.default_rng(channels)
    x, w = leaf(rng, (2, channels, 9, 7), float32), leaf(rng, (5, channels, 3, 5), float32)
    node = ops.conv(x, w, (1, 1), ((1, 1), (2, 0)))
    found = layouts([node], AVX512)
    (last,) = (n for n in topological(found) if n.op.kind == "contraction")
    assert (last.op.name, last.shape[-1]) == ("conv_last", parts * 5)
    assert [n.op.name for n in topological(found)].count("reduce_sum") == 1
    check(node)


def test_one_channel_too_large_to_copy_stays_general(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(convolution_plan, "SCRATCH", 4 * 3 * 5 - 1)
    rng = np.random.default_rng(0)
    x, w = leaf(rng, (2, 6, 9, 7), float32), leaf(rng, (5, 6, 3, 5), float32)
    assert kernels([ops.conv(x, w, (1, 1), ((0, 0), (0, 0)))]) == ["conv"]


def test_one_place_of_many_taps_is_a_product() -> None:
    """The derivative by kernels of one tap: a register tile of pixels would hold one."""
    rng = np.random.default_rng(1)
    x, w = leaf(rng, (20, 8, 9, 9), float32), leaf(rng, (24, 8, 9, 9), float32)
    node = ops.conv(x, w, (1, 1), ((0, 0), (0, 0)))
    assert kernels([node]) == ["conv"]
    check(node)


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
    blueprint = compile_graph([second], data, [], AVX512)
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


@pytest.mark.parametrize("channels", [1, 4, 12])
def test_few_channels_of_one_tap_stay_general_where_pixels_lie_side_by_side(
    monkeypatch: pytest.MonkeyPatch, channels: int
) -> None:
    monkeypatch.setattr(convolution, "FEW", 16)
    rng = np.random.default_rng(8)
    x, w = leaf(rng, (1, 8, 9, 9), float32), leaf(rng, (24, 8, 3, 3), float32)
    pads, none = ((1, 1), (1, 1)), ((0, 0), (0, 0))
    few, wide = leaf(rng, (channels, 8, 1, 1), float32), ops.conv(x, w, (1, 1), pads)
    assert kernels([ops.conv(x, few, (1, 1), none)]) == ["conv"]
    assert kernels([ops.conv(x, few, (2, 2), none)]) == ["conv_last"]
    check(ops.conv(x, few, (1, 1), none))
    for taps in (1, 3):  # behind another, channels lie side by side
        after = ops.conv(wide, leaf(rng, (channels, 24, taps, taps), float32), (1, 1), none)
        assert kernels([after]) == ["conv_last", "conv_last"]
    apart = ops.conv(x, leaf(rng, (channels, 8, 3, 3), float32), (1, 1), pads)
    assert kernels([apart]) == ["conv_last"]
    check(apart)


@pytest.mark.parametrize("channels", [1, 3, 5])
def test_a_dilated_image_is_never_general_however_few_the_channels(
    monkeypatch: pytest.MonkeyPatch, channels: int
) -> None:
    """A contraction would multiply the zeros between; four lanes cost what one does."""
    monkeypatch.setattr(convolution, "FEW", 16)
    rng = np.random.default_rng(channels)
    x, w = leaf(rng, (2, 6, 7, 5), float32), leaf(rng, (6, channels, 4, 3), float32)
    node = ops.conv_transpose(x, w, (2, 3), ((1, 1), (1, 0)))
    assert kernels([node]) == ["conv_last"]
    assert lanes([Axis(9, 9, 3, 1, 1, 1)] * 3, channels, AVX512, 4) >= 4
    values = [_value(n) for n in node.inputs]
    check(node, node.op.reference(*values, shape=node.shape, dtype=float64))


def test_strides_against_the_axis_stay_general() -> None:
    rng = np.random.default_rng(7)
    x, w = leaf(rng, (1, 2, 6), float32), leaf(rng, (4, 2, 3), float32)
    node = ops.conv(x, w, (1,), ((0, 0),))
    back = Node(replace(node.op, stride=(-1,), low=(-3,)), node.inputs, node.shape, node.dtype)  # type: ignore[call-arg]
    assert kernels([back]) == ["conv"]
    check(back)


@pytest.mark.parametrize("size", [14, 15])
def test_one_tap_copies_the_image_in_runs(size: int) -> None:
    """Rows of an image with channels first follow each other: no element is gathered."""
    rng = np.random.default_rng(size)
    x, w = leaf(rng, (1, 64, size, size), float32), leaf(rng, (96, 64, 1, 1), float32)
    node = ops.conv(x, w, (1, 1), ((0, 0), (0, 0)))
    check(node)
    given = [ops.placeholder(n.shape, n.dtype) for n in (x, w)]
    again = ops.conv(*given, (1, 1), ((0, 0), (0, 0)))
    texts = [kernel_text(k) for k in compile_graph([again], given, [], AVX512).kernels]
    lines = [line.strip() for text in texts for line in text.splitlines()]
    copies = [line for line in lines if line.startswith("image[") and "b0[" in line]
    assert copies and not any("mod(" in line for line in copies)


@pytest.mark.parametrize(("taps", "stride"), [(1, 1), (1, 2), (3, 2)])
def test_places_that_would_meet_in_one_set_of_a_cache_are_copied_apart(
    taps: int, stride: int
) -> None:
    """1024 channels are 4096 bytes: every place of a tile would have its line in the same set."""
    rng = np.random.default_rng(taps)
    size, pads = 9 * stride, ((taps // 2, taps // 2),) * 2
    x = leaf(rng, (1, size, size, 1024 // stride), float32)
    w = leaf(rng, (32, 1024 // stride, taps, taps), float32)
    image = ops.permute(x, (0, 3, 1, 2))
    node = ops.conv(image, w, (stride, stride), pads)
    wanted = np.moveaxis(array(x), 3, 1).astype(np.float64)
    check(node, node.op.reference(wanted, _value(w), shape=node.shape, dtype=float64))
    given = [ops.placeholder(n.shape, n.dtype) for n in (x, w)]
    again = ops.conv(ops.permute(given[0], (0, 3, 1, 2)), given[1], (stride, stride), pads)
    texts = [kernel_text(k) for k in compile_graph([again], given, [], AVX512).kernels]
    lines = [line.strip() for text in texts for line in text.splitlines()]
    copies = [line for line in lines if line.startswith("image[") and "b0[" in line]
    assert copies and all(f"[{1024 // stride + 16}*" in line for line in copies)


def test_what_few_lines_meet() -> None:
    assert not crowded((1, 8), (0, 4096)) and crowded((1, 9), (0, 4096))
    assert not crowded((1, 28), (0, 1024)) and crowded((1, 28), (0, 2048))
    assert crowded((3, 3), (12288, 4096)) and not crowded((3, 3), (64, 4096))
    assert not crowded((1, 28), (0, 0)) and not crowded((1, 28), (0, 4))


@pytest.mark.parametrize("gap", [3, 7, 18])
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_taps_far_apart(gap: int, rank: int) -> None:
    """Some taps read nothing but what lies around the image, at some places or at all."""
    rng = np.random.default_rng(gap)
    space = (4, 6, 9)[3 - rank :]
    x = leaf(rng, (2, 5, *space), float32)
    w = leaf(rng, (19, 5, *(3,) * rank), float32)
    pads, steps = ((gap, gap),) * rank, (1,) * rank
    check(ops.conv(x, w, steps, pads, w_dilation=(gap,) * rank))


def test_taps_far_apart_copy_only_the_rows_that_they_read() -> None:
    """37 rows of 68 places and 128 channels would not fit scratch memory: no sum in parts."""
    rng = np.random.default_rng(18)
    x, w = leaf(rng, (1, 128, 32, 32), float32), leaf(rng, (64, 128, 3, 3), float32)
    node = ops.conv(x, w, (1, 1), ((18, 18), (18, 18)), w_dilation=(18, 18))
    (last,) = [n for n in topological(layouts([node], AVX512)) if n.op.name == "conv_last"]
    assert last.inputs[1].shape[0] == 1
    check(node)


@pytest.mark.parametrize(("low", "skips"), [(0, False), (1, True)])
def test_taps_of_rows_outside_the_image_are_left_out(low: int, skips: bool) -> None:
    """They would multiply zeros; nothing is asked where no row lies outside."""
    given = [ops.placeholder(shape, float32) for shape in ((1, 32, 9, 20), (16, 32, 3, 1))]
    node = ops.conv(*given, (1, 1), ((low, low), (0, 0)))
    texts = [kernel_text(k) for k in compile_graph([node], given, [], AVX512).kernels]
    sums = [text.partition("serial k1 <")[2].partition("serial k2 <")[0] for text in texts]
    assert [" if and(" in text for text in sums if text] == [skips]
