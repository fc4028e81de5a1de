"""Tiled contractions at every edge: sizes around the register tile, batches, transposes, tails,
narrow and wide types.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from lamella import ops
from lamella.compiler.pipeline import compile_graph
from lamella.config import config
from lamella.dtypes import DType, bfloat16, float16, float32, float64, int8, int32
from lamella.ir.node import Node, topological
from lamella.runtime.buffer import from_numpy
from lamella.runtime.evaluate import evaluate
from tests.support.units import AVX2

RTOL = {float64: 1e-12, float32: 3e-6, float16: 2e-3, bfloat16: 1.6e-2, int32: 0, int8: 0}
ORDERS = ((0, 2, 1, 2), (2, 0, 1, 2), (0, 2, 2, 1), (2, 0, 2, 1))  # labels of a, then of b


def leaf(rng: np.random.Generator, shape: tuple[int, ...], dtype: DType) -> Node:
    if dtype.kind == "f":
        array = rng.standard_normal(shape).astype(dtype.numpy)
    else:
        array = rng.integers(-100, 100, shape).astype(dtype.numpy)
    return ops.data(from_numpy(np.ascontiguousarray(array)), shape, dtype)


def array(node: Node) -> np.ndarray:
    return node.value.numpy(node.shape, node.dtype.numpy)  # type: ignore[union-attr]


def wide(node: Node) -> np.ndarray:
    return array(node).astype(np.float64 if node.dtype.kind == "f" else np.int64)


def close(node: Node, expected: np.ndarray, terms: int = 1) -> None:
    found = wide(node)
    rtol = RTOL[node.dtype]
    scale = np.abs(expected).max(initial=0) + np.sqrt(terms)
    np.testing.assert_allclose(found, expected, rtol=rtol, atol=rtol * scale)


def run(*nodes: Node) -> None:
    with config(verify=1):
        evaluate(nodes)


def kinds(outputs: Sequence[Node]) -> int:
    """The number of kernels the graph becomes."""
    order = topological(outputs)
    inputs = [n for n in order if n.value is not None and n.op.name != "scalar"]
    scalars = [n for n in order if n.op.name == "scalar"]
    return len(compile_graph(outputs, inputs, scalars, AVX2).steps)


SIZES = [
    (m, n, k)
    for m in (1, 5, 6, 7, 12, 13, 24, 25, 70)
    for n, k in ((1, 70), (15, 16), (16, 17), (17, 1), (33, 64), (48, 3), (70, 70))
]


@pytest.mark.parametrize("position", range(0, len(SIZES), 4))
def test_sizes_around_the_register_tile(position: int) -> None:
    rng = np.random.default_rng(position)
    outputs, expected = [], []
    for at, (m, n, k) in enumerate(SIZES[position : position + 4]):
        of_a, of_b = ORDERS[(position + at) % 4][:2], ORDERS[(position + at) % 4][2:]
        sizes = {0: m, 1: n, 2: k}
        a = leaf(rng, tuple(sizes[i] for i in of_a), float32)
        b = leaf(rng, tuple(sizes[i] for i in of_b), float32)
        outputs.append(ops.contract(a, b, of_a, of_b, (0, 1) if at % 2 else (1, 0)))
        left = wide(a) if of_a == (0, 2) else wide(a).T
        right = wide(b).T if of_b == (1, 2) else wide(b)
        found = left @ right
        expected.append((found if at % 2 else found.T, k))
    run(*outputs)
    for node, (value, k) in zip(outputs, expected, strict=True):
        close(node, value, k)


@pytest.mark.parametrize("shape", [(37, 300, 33), (64, 513, 16), (13, 1000, 130), (300, 260, 70)])
@pytest.mark.parametrize("dtype", [float32, float64])
def test_blocks_of_k(shape: tuple[int, int, int], dtype: DType) -> None:
    m, k, n = shape
    rng = np.random.default_rng(m)
    a, b = leaf(rng, (m, k), dtype), leaf(rng, (k, n), dtype)
    expected = wide(a) @ wide(b)
    out = ops.matmul(a, b)
    run(out)
    close(out, expected, k)


@pytest.mark.parametrize("dtype", [float16, bfloat16])
def test_narrow_floats_are_summed_in_float32(dtype: DType) -> None:
    rng = np.random.default_rng(1)
    a, b = leaf(rng, (33, 200), dtype), leaf(rng, (200, 40), dtype)
    expected = wide(a) @ wide(b)
    narrow, full = ops.matmul(a, b), ops.matmul(a, b, float32)
    run(narrow, full)
    close(narrow, expected, 1)
    np.testing.assert_allclose(wide(full), expected, rtol=1e-5, atol=1e-4)


def test_int8_into_int32() -> None:
    rng = np.random.default_rng(2)
    a, b = leaf(rng, (35, 500), int8), leaf(rng, (500, 37), int8)
    expected = wide(a) @ wide(b)
    out = ops.matmul(a, b, int32)
    run(out)
    np.testing.assert_array_equal(wide(out), expected)


@pytest.mark.parametrize(
    "labels",
    [
        ((0, 1, 2), (0, 2, 3), (0, 1, 3)),  # a batch in front
        ((1, 2, 0), (2, 0, 3), (3, 0, 1)),  # a batch behind and between
        ((0, 1, 2, 3), (3, 1, 4), (0, 1, 2, 4)),  # heads
        ((0, 1, 2, 3), (0, 2, 4, 3), (0, 2, 1, 4)),  # attention scores
        ((0, 1, 2), (1, 2, 3), (0, 3)),  # two summed axes
        ((0, 1, 2), (3, 1, 4), (4, 0, 2, 3)),  # an outer product of several axes
    ],
)
def test_labels(labels: tuple[tuple[int, ...], ...]) -> None:
    of_a, of_b, of_out = labels
    sizes = (3, 17, 11, 20, 19)
    rng = np.random.default_rng(len(of_a))
    a = leaf(rng, tuple(sizes[i] for i in of_a), float32)
    b = leaf(rng, tuple(sizes[i] for i in of_b), float32)
    text = ["".join("abcde"[i] for i in part) for part in labels]
    expected = np.einsum(f"{text[0]},{text[1]}->{text[2]}", wide(a), wide(b))
    out = ops.contract(a, b, of_a, of_b, of_out)
    run(out)
    close(out, expected, 340)


def test_a_tail_with_several_outputs_is_one_kernel() -> None:
    rng = np.random.default_rng(3)
    a, b, bias = (
        leaf(rng, (50, 60), float32),
        leaf(rng, (60, 45), float32),
        leaf(rng, (45,), float32),
    )
    other = leaf(rng, (50, 45), float32)
    product = ops.matmul(a, b)
    shifted = ops.add(product, bias)
    active = ops.multiply(shifted, ops.sigmoid(shifted))
    mixed = ops.subtract(active, other)
    positive = ops.greater(mixed, ops.constant(0.0, float32))
    outputs = [shifted, mixed, positive]
    assert kinds(outputs) == 1
    expected = wide(a) @ wide(b) + wide(bias)
    run(*outputs)
    close(shifted, expected, 60)
    expected = expected / (1 + np.exp(-expected)) - wide(other)
    close(mixed, expected, 60)
    np.testing.assert_array_equal(array(positive), array(mixed) > 0)


def test_factors_are_computed_while_they_are_packed() -> None:
    rng = np.random.default_rng(4)
    a, b = leaf(rng, (40, 30), float32), leaf(rng, (35, 30), float32)
    out = ops.matmul(ops.negative(a), ops.permute(ops.cast(ops.cast(b, float16), float32), (1, 0)))
    expected = -wide(a) @ wide(b).astype(np.float16).astype(np.float64).T
    run(out)
    close(out, expected, 30)


@pytest.mark.parametrize("shape", [(0, 20, 30), (20, 0, 30), (20, 30, 0), (0, 0, 0)])
def test_empty(shape: tuple[int, int, int]) -> None:
    m, k, n = shape
    rng = np.random.default_rng(5)
    out = ops.add(
        ops.matmul(leaf(rng, (m, k), float32), leaf(rng, (k, n), float32)),
        ops.constant(1.0, float32),
    )
    run(out)
    np.testing.assert_array_equal(array(out), np.ones((m, n), np.float32))
