"""Convolutions by Winograd's transforms against float64 sums: the matrices, random sizes, both
sizes of tile and every kind of plan, what is fused behind, when they are chosen.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lamella as lm
from lamella import nn, ops
from lamella.compiler import winograd
from lamella.compiler.hoisting import hoist
from lamella.compiler.pipeline import compile_graph
from lamella.compiler.winograd_plan import Fast, Sizes, fast
from lamella.config import config
from lamella.dtypes import DType, float32, float64
from lamella.errors import ShapeError
from lamella.ir.node import Node, topological
from lamella.ir.vectors import VectorUnit
from lamella.ir.verify import verify_graph
from lamella.ops.convolution import Conv
from lamella.ops.convolution_last import channels_first, channels_last
from lamella.ops.convolution_winograd import conv_winograd, recovered, transformed, transforms
from lamella.runtime.buffer import from_numpy
from lamella.runtime.evaluate import evaluate

RTOL = {float64: 1e-12, float32: 1e-5}
UNIT = VectorUnit(64, 32)


@pytest.fixture(autouse=True)
def passes_on() -> Iterator[None]:
    with config(optimize=1, skip_passes="", backend="llvm", cache=0, winograd=1):
        yield


def leaf(rng: np.random.Generator, shape: Sequence[int], dtype: DType = float32) -> Node:
    array = rng.standard_normal(tuple(shape)).astype(dtype.numpy)
    return ops.data(from_numpy(np.ascontiguousarray(array)), tuple(shape), dtype)


def array(node: Node) -> np.ndarray:
    return node.value.numpy(node.shape, node.dtype.numpy)  # type: ignore[union-attr]


def plain(x: Node, w: Node, pads: tuple[tuple[int, int], tuple[int, int]]) -> Node:
    return ops.conv(x, w, (1, 1), pads)


def quick(conv: Node, edge: int, lanes: int) -> Node:
    """The same convolution by transforms."""
    x, w = conv.inputs
    assert isinstance(conv.op, Conv)
    u = transformed(w, edge, lanes)
    places, filters = conv.shape[2:], conv.shape[1]
    return channels_first(
        conv_winograd(conv.op, channels_last(x), u, places, filters, conv.dtype)
    )


def expected(conv: Node) -> np.ndarray:
    inputs = [array(n).astype(np.float64) for n in conv.inputs]
    return conv.op.reference(*inputs, shape=conv.shape, dtype=float64)


def check(node: Node, wanted: np.ndarray) -> None:
    with config(verify=1):
        evaluate([node])
    scale = np.abs(wanted).max(initial=0) + 1.0
    np.testing.assert_allclose(array(node), wanted, rtol=0, atol=RTOL[node.dtype] * scale)


# -- the matrices ----------------------------------------------------------------------------------
@pytest.mark.parametrize("edge", [2, 4])
def test_the_transforms_compute_sums_of_three_products(edge: int) -> None:
    t, rng = transforms(edge), np.random.default_rng(edge)
    b, g, a, back = (np.array(m) for m in (t.image, t.kernel, t.result, t.back))
    image, kernel = rng.standard_normal(edge + 2), rng.standard_normal(3)
    sums = [image[i : i + 3] @ kernel for i in range(edge)]
    np.testing.assert_allclose(a @ ((g @ kernel) * (b @ image)), sums, atol=1e-14)
    np.testing.assert_allclose(back @ g, np.eye(3), atol=1e-15)


def test_the_matrices_for_two_are_the_published_ones() -> None:
    """Lavin and Gray (2015), equation 7; the first row of each is −1 times theirs."""
    t = transforms(2)
    image = [[1, 0, -1, 0], [0, 1, 1, 0], [0, -1, 1, 0], [0, -1, 0, 1]]
    kernel = [[1, 0, 0], [0.5, 0.5, 0.5], [0.5, -0.5, 0.5], [0, 0, 1]]
    sign = np.array([[-1.0], [1], [1], [1]])
    np.testing.assert_array_equal(np.array(t.image) * sign, image)
    np.testing.assert_array_equal(np.array(t.kernel) * sign, kernel)
    np.testing.assert_array_equal(t.result, [[1, 1, 1, 0], [0, 1, -1, 1]])


@pytest.mark.parametrize(("edge", "factor"), [(2, 1.5), (4, 3.0)])
def test_errors_are_about_those_of_direct_sums(edge: int, factor: float) -> None:
    rng = np.random.default_rng(0)
    x, w = leaf(rng, (1, 96, 24, 24)), leaf(rng, (64, 96, 3, 3))
    conv = plain(x, w, ((1, 1), (1, 1)))
    wanted, fused = expected(conv), quick(conv, edge, 32)
    evaluate([conv, fused])
    direct, found = (np.sqrt(np.mean((array(n) - wanted) ** 2)) for n in (conv, fused))
    assert found < factor * direct


# -- the schedule ----------------------------------------------------------------------------------
@st.composite
def convolutions(draw: st.DrawFn) -> Node:
    small = st.integers(0, 3)
    pads = ((draw(small), draw(small)), (draw(small), draw(small)))
    size = [max(draw(st.integers(1, 15)), 3 - sum(pad)) for pad in pads]
    channels, filters = draw(st.integers(1, 40)), draw(st.integers(1, 70))
    dtype = draw(st.sampled_from((float32, float32, float64)))
    rng = np.random.default_rng(draw(st.integers(0, 999)))
    x = leaf(rng, (draw(st.integers(1, 3)), channels, *size), dtype)
    return plain(x, leaf(rng, (filters, channels, 3, 3), dtype), pads)


@given(convolutions(), st.sampled_from((2, 4)), st.sampled_from((1, 4, 8, 16, 32, 48, 64)))
@settings(max_examples=40, deadline=None)
def test_random_convolutions(conv: Node, edge: int, lanes: int) -> None:
    check(quick(conv, edge, lanes), expected(conv))


@pytest.mark.parametrize("rows", [1, 3, 5])
@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("blocks", [1, 2, 3])
def test_every_kind_of_plan(
    monkeypatch: pytest.MonkeyPatch, rows: int, groups: int, blocks: int
) -> None:
    """Tasks of which the last is moved back, chunks of blocks of which the last is shorter."""

    def forced(_: Sizes, edge: int, lanes: int) -> Fast:
        return Fast(edge, lanes, rows * groups, blocks, rows)

    monkeypatch.setattr(winograd, "fast", forced)
    rng = np.random.default_rng(rows)
    x, w = leaf(rng, (2, 5, 11, 13)), leaf(rng, (33, 5, 3, 3))
    conv = plain(x, w, ((1, 1), (0, 2)))
    check(quick(conv, 4, 16), expected(conv))


@pytest.mark.parametrize("edge", [2, 4])
def test_what_follows_is_computed_from_registers(edge: int) -> None:
    """Bias, residual (which the result may overwrite) and activation are the kernel's own."""
    rng = np.random.default_rng(edge)
    x, w = leaf(rng, (2, 16, 9, 10)), leaf(rng, (40, 16, 3, 3))
    conv = plain(x, w, ((1, 1), (1, 1)))
    bias, other = leaf(rng, (40, 1, 1)), leaf(rng, conv.shape)
    wide = ops.broadcast_to(bias, conv.shape)
    zero = ops.full(0.0, conv.shape, float32)
    node = ops.maximum(ops.add(ops.add(quick(conv, edge, 16), wide), other), zero)
    check(node, np.maximum(expected(conv) + array(bias) + array(other), 0))


def test_the_same_bits_on_any_number_of_threads() -> None:
    rng = np.random.default_rng(5)
    x, w = leaf(rng, (3, 24, 17, 19)), leaf(rng, (72, 24, 3, 3))
    conv = plain(x, w, ((1, 1), (1, 1)))
    found = []
    for threads in (1, 2, 5):
        node = quick(conv, 4, 32)
        with config(threads=threads):
            evaluate([node])
        found.append(array(node).tobytes())
    assert found[0] == found[1] == found[2]


def test_kernels_come_back() -> None:
    w = leaf(np.random.default_rng(1), (33, 7, 3, 3), float64)
    node = recovered(transformed(w, 4, 16), 33)
    evaluate([node])
    np.testing.assert_allclose(array(node), array(w), atol=1e-13)


def test_what_it_does_not_take_is_an_error() -> None:
    rng = np.random.default_rng(2)
    x, w = leaf(rng, (1, 8, 8, 3)), leaf(rng, (4, 3, 3, 3))
    strided = Conv((2, 2), (1, 1), (1, 1), (1, 1))
    node = conv_winograd(strided, x, transformed(w, 2, 4), (4, 4), 4, float32)
    with pytest.raises(ShapeError, match=r"\[conv_winograd\].*use conv_last"):
        verify_graph([node])


# -- the choice ------------------------------------------------------------------------------------
def contractions(outputs: Sequence[Node], steady: set[Node], quickly: bool = True) -> list[str]:
    found = hoist(outputs, steady, UNIT, quickly)
    nodes = found.outputs if found else outputs
    return [n.op.name for n in topological(nodes) if n.op.kind == "contraction"]


def test_only_kernels_that_stay_the_same_are_transformed() -> None:
    rng = np.random.default_rng(0)
    w = leaf(rng, (64, 64, 3, 3))
    conv = plain(leaf(rng, (1, 64, 28, 28)), w, ((1, 1), (1, 1)))
    assert contractions([conv], {w}) == ["conv_winograd"]
    assert "conv_winograd" not in contractions([conv], {w}, quickly=False)
    assert "conv_winograd" not in contractions([conv], set())
    names = [n.op.name for n in topological([conv])]
    assert compile_graph([conv], [*conv.inputs], [], UNIT).kernels and "conv" in names


@pytest.mark.parametrize(
    ("channels", "filters", "size"), [(3, 64, 56), (64, 8, 56), (64, 64, 2), (64, 17, 30)]
)
def test_where_it_costs_more_direct_sums_are_taken(channels: int, filters: int, size: int) -> None:
    rng = np.random.default_rng(0)
    w = leaf(rng, (filters, channels, 3, 3))
    conv = plain(leaf(rng, (1, channels, size, size)), w, ((1, 1), (1, 1)))
    assert "conv_winograd" not in contractions([conv], {w})


def test_plans_fit_the_sizes() -> None:
    for images, size, channels in ((1, 56, 64), (8, 7, 512), (1, 7, 512), (3, 13, 100)):
        for unit in (UNIT, VectorUnit(32, 16), VectorUnit(16, 32), VectorUnit(16, 16)):
            sizes = Sizes(images, size, size, channels, channels, 4, unit)
            found = fast(sizes)
            assert found is not None and found.tiles % found.rows == 0
            assert found.tiles <= sizes.tiles(found.edge)


def test_a_network_in_use_takes_it_and_the_flag_turns_it_off() -> None:
    model = nn.Sequential(nn.Conv2d(64, 64, 3, padding=1), nn.BatchNorm2d(64), nn.ReLU()).eval()
    x = lm.asarray(np.random.default_rng(3).standard_normal((1, 64, 28, 28)).astype(np.float32))
    found = []
    for flag in (0, 1):
        forward = lm.jit(lambda x: model(x))
        with config(winograd=flag), lm.no_grad(), lm.profile() as profile:
            found.append(forward(x).numpy())
        names = {row.label.split("+")[0] for row in profile.rows()}
        assert ("conv_winograd" in names) == bool(flag)
    np.testing.assert_allclose(found[0], found[1], atol=1e-5 * np.abs(found[0]).max())
