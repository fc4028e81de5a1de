"""Results that are read across memory: square blocks and their edges, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lamella import ops
from lamella.compiler import across
from lamella.compiler.pipeline import compile_graph
from lamella.config import config
from lamella.dtypes import DType, float32, float64, int32
from lamella.ir.loop_text import kernel_text
from lamella.ir.node import Node, topological
from lamella.runtime.buffer import from_numpy
from lamella.runtime.evaluate import evaluate
from tests.support.units import AVX512

pytestmark = pytest.mark.usefixtures("with_passes")


@pytest.fixture
def with_passes(monkeypatch: pytest.MonkeyPatch) -> object:
    monkeypatch.setattr(across, "LEAST", 64)
    with config(optimize=1, skip_passes="", backend="llvm", cache=0):
        yield


def leaf(shape: tuple[int, ...], dtype: DType = float32) -> tuple[Node, np.ndarray]:
    values = np.arange(int(np.prod(shape)), dtype=np.float64).reshape(shape) % 8191
    array = values.astype(dtype.numpy)
    return ops.data(from_numpy(array), shape, dtype), array


def run(node: Node) -> np.ndarray:
    with config(verify=1):
        evaluate([node])
    return node.value.numpy(node.shape, node.dtype.numpy)  # type: ignore[union-attr]


@given(
    st.lists(st.sampled_from((1, 2, 3, 7, 9, 16, 17, 33)), min_size=2, max_size=4),
    st.randoms(use_true_random=False),
)
@settings(max_examples=60, deadline=None)
def test_permutations(shape: list[int], random: object) -> None:
    axes = list(range(len(shape)))
    random.shuffle(axes)  # type: ignore[attr-defined]
    node, array = leaf(tuple(shape))
    found = ops.permute(node, axes)
    np.testing.assert_array_equal(run(ops.add(found, found)), 2 * array.transpose(axes))


@pytest.mark.parametrize("dtype", [float32, float64, int32])
@pytest.mark.parametrize("shape", [(16, 16), (8, 700), (700, 8), (129, 65), (40, 1030)])
def test_with_other_operands(shape: tuple[int, int], dtype: DType) -> None:
    """A row that is constant along the lanes and one that is constant along the block's rows."""
    node, array = leaf(shape, dtype)
    row, rows = leaf((1, shape[0]), dtype)
    column, columns = leaf((shape[1], 1), dtype)
    turned = ops.permute(node, (1, 0))
    wide = (shape[1], shape[0])
    scaled = ops.multiply(turned, ops.broadcast_to(row, wide))
    value = ops.add(scaled, ops.broadcast_to(column, wide))
    np.testing.assert_array_equal(run(value), array.T * rows + columns)


@pytest.mark.parametrize("filters", [32, 40, 7])
@pytest.mark.parametrize("taps", [1, 3])
def test_packed_kernels(filters: int, taps: int) -> None:
    """Taps and channels follow each other in what is read and lie apart in the result; the last
    block is filled up.
    """
    node, array = leaf((filters, 20, taps, taps))
    found = run(ops.pack(node, 1, 16))
    blocks = -(-filters // 16)
    full = np.zeros((blocks * 16, *array.shape[1:]), np.float32)
    full[:filters] = array
    wanted = full.reshape(blocks, 16, *array.shape[1:]).transpose(0, 3, 4, 2, 1)
    np.testing.assert_array_equal(found[0], wanted)


def test_it_is_a_kernel_of_its_own() -> None:
    """What is computed from the turned values reads them, instead of turning them again."""
    node, _ = leaf((64, 96))
    other, _ = leaf((96, 64))
    turned = ops.permute(node, (1, 0))
    first, second = ops.add(turned, turned), ops.multiply(other, other)
    data = [n for n in topological([first, second]) if n.op.name == "data"]
    assert len(compile_graph([first, second], data, [], AVX512).steps) == 2


@pytest.mark.parametrize("shape", [(65, 3, 3, 64), (64, 3, 3, 128)])
def test_axes_that_follow_each_other_are_one_index(shape: tuple[int, ...]) -> None:
    """No quotients and remainders where taps and channels are contiguous on both sides."""
    x = ops.placeholder(shape, float32)
    (kernel,) = compile_graph([ops.permute(x, (3, 0, 1, 2))], [x], [], AVX512).kernels
    assert "unroll i" in kernel_text(kernel) and "mod(" not in kernel_text(kernel)


@pytest.mark.parametrize("channels", [64, 80])
def test_taps_of_kernels_that_are_packed(channels: int) -> None:
    """Squares are written out until their places among the taps repeat."""
    x, array = leaf((64, channels, 3, 3))

    def packed(kernels: Node) -> Node:
        return ops.permute(ops.reshape(kernels, (2, 32, channels, 3, 3)), (0, 3, 4, 2, 1))

    wanted = array.reshape(2, 32, channels, 3, 3).transpose(0, 3, 4, 2, 1)
    np.testing.assert_array_equal(run(packed(x)), wanted)
    given = ops.placeholder(x.shape, float32)
    (kernel,) = compile_graph([packed(given)], [given], [], AVX512).kernels
    assert "unroll q < 9" in kernel_text(kernel)
