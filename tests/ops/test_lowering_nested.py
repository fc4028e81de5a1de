"""Lowering rules of movement, indexing and contraction in nests of loops, with affine indices.

Faults of indices outside an axis and symbolic sizes are here too.
"""

from __future__ import annotations

import numpy as np
import pytest

from lamella import ops
from lamella.dtypes import bfloat16, bool_, float16, float32, int8, int64
from lamella.ir import index as ix
from lamella.ir.dim import Dim
from lamella.ir.interp import interpret
from lamella.ir.loops import Var
from lamella.ir.node import Node
from lamella.ops.base import PRIMITIVES, Array, Sample
from lamella.ops.movement import reshape_index
from tests.ops.lowering import lowered

pytestmark = pytest.mark.makes_no_program

NAMES = (
    "broadcast_to", "concatenate", "contract", "conv", "flip", "gather", "pad", "permute",
    "random_bits", "ravel_index", "reshape", "scatter", "slice", "slide", "unslide", "update_slice",
)  # fmt: skip
CASES = [
    pytest.param(sample, id=f"{name}-{place}")
    for name in NAMES
    for place, sample in enumerate(PRIMITIVES[name].samples())
]
RTOL = {float32: 1e-5, float16: 4e-3, bfloat16: 3e-2}


def leaves(sample: Sample, arrays: list[Array], dtype: object) -> list[Node]:
    own = sample.input_dtypes or (None,) * len(sample.shapes)
    return [
        ops.placeholder(array.shape, kind or dtype) for array, kind in zip(arrays, own, strict=True)
    ]


@pytest.mark.parametrize("sample", CASES)
def test_lowering_agrees_with_reference(sample: Sample) -> None:
    wanted = [d for d in (float32, int8, bool_, bfloat16) if d in sample.dtypes]
    for dtype in wanted or sample.dtypes[:1]:
        arrays = sample.arrays(dtype, np.random.default_rng(3))
        nodes = leaves(sample, arrays, dtype)
        node = sample.build(*nodes)
        if node.op.name not in NAMES:
            continue  # composed of others, or nothing to do
        given = dict(zip(nodes, arrays, strict=True))
        inputs = dict(zip(node.inputs, interpret(node.inputs, given), strict=True))
        value, fault = lowered(node, inputs)
        (expected,) = interpret([node], inputs)
        assert fault == 0
        tolerance = RTOL.get(dtype, 0)
        np.testing.assert_allclose(
            value.astype(float), expected.astype(float), rtol=tolerance, atol=tolerance
        )


def test_gather_reports_an_index_outside() -> None:
    x, i = ops.placeholder((4,), float32), ops.placeholder((3,), int64)
    node = ops.gather(x, i)
    data = np.arange(4, dtype=np.float32)
    for bad in (4, -5):
        _, fault = lowered(node, {x: data, i: np.array([0, bad, 3])})
        assert fault == 1
    value, fault = lowered(node, {x: data, i: np.array([0, -4, 3])})
    assert fault == 0 and value.tolist() == [0, 0, 3]


@pytest.mark.parametrize("mode", ops.MODES)
def test_scatter_reports_an_index_outside_and_changes_nothing(mode: str) -> None:
    x, i, u = (ops.placeholder(s, d) for s, d in (((4,), float32), ((2,), int64), ((2,), float32)))
    node = ops.scatter(x, i, u, mode)
    data = np.arange(4, dtype=np.float32)
    value, fault = lowered(node, {x: data, i: np.array([4, -5]), u: np.array([9, 8], np.float32)})
    assert fault == 1 and value.tolist() == data.tolist()


def test_ravel_index_checks_each_axis_by_itself() -> None:
    i, j = ops.placeholder((1,), int64), ops.placeholder((1,), int64)
    node = ops.ravel_index([i, j], (3, 4))
    _, fault = lowered(node, {i: np.array([0]), j: np.array([5])})
    assert fault == 2  # 5 is inside 12, but not inside 4


@pytest.mark.parametrize("size", [0, 1, 4])
def test_symbolic_sizes_run_at_any_size(size: int) -> None:
    n = Dim("n")
    x, u = (ops.placeholder((n, 3), float32) for _ in range(2))
    i = ops.placeholder((n,), int64)
    w = ops.placeholder((2, 3, 3), float32)
    image = ops.placeholder((n, 3, 2 * n), float32)
    rng = np.random.default_rng(size)
    arrays = {
        x: rng.random((size, 3), np.float32),
        u: rng.random((size, 3), np.float32),
        i: rng.integers(0, max(size, 1), size),
        w: rng.random((2, 3, 3), np.float32),
        image: rng.random((size, 3, 2 * size), np.float32),
    }
    nodes = (
        ops.gather(x, i),
        ops.scatter(x, i, u, "add"),
        ops.flip(x, (0,)),
        ops.pad(x, (1, 0), (2, 1), 5.0),
        ops.concatenate([x, u, x], 0),
        ops.reshape(image, (2 * n, 3 * n)),
        ops.reshape(x, (3 * n,)),
        ops.contract(x, u, (0, 1), (0, 2), (1, 2)),
        ops.conv(image, w, (2,), ((1, 1),)),
    )
    for node in nodes:
        inputs = {source: arrays[source] for source in node.inputs if source in arrays}
        value, _ = lowered(node, inputs, {"n": size})
        (expected,) = interpret([node], inputs, {"n": size})
        np.testing.assert_allclose(value, expected, rtol=1e-5)


def test_movement_keeps_indices_affine() -> None:
    """Merging and splitting axes costs no division where the bounds of the loops allow it."""
    n = Dim("n")
    b, t, c = Var("b", n), Var("t", 5), Var("c", 8)
    merged = reshape_index((b, t, c), (n, 5, 8), (n * 5, 8))
    assert merged == (ix.add(ix.mul(b, 5), t), c)
    row = Var("r", n * 5)
    assert reshape_index((row, c), (n * 5, 8), (n * 5, 2, 4))[0] == row
    h, d = Var("h", 2), Var("d", 4)
    assert reshape_index((row, h, d), (n * 5, 2, 4), (n * 5, 8)) == (row, ix.add(ix.mul(h, 4), d))


def test_a_convolution_without_padding_reads_its_image_unguarded() -> None:
    x, w = ops.placeholder((1, 1, 6), float32), ops.placeholder((1, 1, 3), float32)

    class Strict:
        shape, dtype = x.shape, x.dtype

        def __call__(self, index: tuple[object, ...]) -> object:
            return index

    node = ops.conv(x, w, (1,), ((0, 0),))
    plan = node.op.contraction(node, [Strict(), Strict()])
    o, k = Var("o", 4), Var("k", 3)
    zero = ix.constant(0)
    assert plan.right((zero,), (zero, k), (zero, o)) == (zero, zero, ix.add(o, k))
