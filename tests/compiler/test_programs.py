"""Compiled programs agree with the interpreter on every primitive's samples.

For every element type; where the suite runs with the optional passes off, for three.
"""

from __future__ import annotations

import zlib

import numpy as np
import pytest

from lamella import ops
from lamella.config import config
from lamella.dtypes import (
    DType,
    bfloat16,
    bool_,
    complex64,
    complex128,
    float16,
    float32,
    float64,
    int32,
)
from lamella.ir.interp import interpret
from lamella.ir.node import Node
from lamella.ops.base import PRIMITIVES, Sample
from lamella.runtime.buffer import from_numpy
from lamella.runtime.evaluate import evaluate

TOLERANCE = {
    complex128: 1e-11, complex64: 4e-6, float64: 1e-11, float32: 4e-6, float16: 4e-3,
    bfloat16: 3e-2,
}  # fmt: skip
UNOPTIMISED = (float32, int32, bool_)  # the dtypes that run where the optional passes are off
CASES = [
    pytest.param(
        sample, position, id=f"{name}-{position}{'-' + sample.note if sample.note else ''}"
    )
    for name, primitive in sorted(PRIMITIVES.items())
    for position, sample in enumerate(primitive.samples())
]


def chosen(sample: Sample, position: int) -> list[DType]:
    """The dtypes of a sample: all of the first and of special values, every other one of the rest
    (so that two samples in a row have them all); three where the optional passes are off.
    """
    whole = position == 0 or bool(sample.note)
    return [
        dtype for i, dtype in enumerate(sample.dtypes)
        if (whole or (i + position) % 2 == 0 if config.optimize else dtype in UNOPTIMISED)
    ]  # fmt: skip


def leaves(sample: Sample, dtype: DType) -> list[Node]:
    rng = np.random.default_rng(zlib.crc32(repr((sample.shapes, sample.note)).encode()))
    dtypes = [own or dtype for own in sample.input_dtypes or (None,) * len(sample.shapes)]
    return [
        ops.data(from_numpy(np.ascontiguousarray(array)), array.shape, own)
        for array, own in zip(sample.arrays(dtype, rng), dtypes, strict=True)
    ]


def value(node: Node) -> np.ndarray:
    return node.value.numpy(node.shape, node.dtype)  # type: ignore[union-attr]


def compare(node: Node, expected: np.ndarray, rtol: float) -> None:
    found = value(node)
    if node.dtype.kind == "c":
        np.testing.assert_allclose(found, expected, rtol=rtol, atol=rtol)
        return
    if node.dtype.kind != "f":
        np.testing.assert_array_equal(found, expected)
        return
    found, expected = found.astype(np.float64), expected.astype(np.float64)
    finite = np.abs(expected[np.isfinite(expected)])
    scale = float(finite.max()) if finite.size else 1.0
    np.testing.assert_allclose(found, expected, rtol=rtol, atol=rtol * max(scale, 1e-30))


@pytest.mark.parametrize(("sample", "position"), CASES)
def test_primitive_compiled(sample: Sample, position: int) -> None:
    for dtype in chosen(sample, position):
        try:
            check(sample, dtype)
        except Exception as error:
            error.add_note(f"with inputs of {dtype.name}")
            raise


def check(sample: Sample, dtype: DType) -> None:
    output = sample.build(*leaves(sample, dtype))
    (expected,) = interpret([output])
    with config(verify=1):
        evaluate([output])
    compare(output, np.asarray(expected), max(sample.rtol or 0.0, TOLERANCE.get(output.dtype, 0.0)))


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("rows", [31, 34, 39, 64])
def test_walks_side_by_side(rows: int, reverse: bool) -> None:
    """One, two, three and four rows at a time: the numbers of each row are its own."""
    rng = np.random.default_rng(rows)
    arrays = rng.normal(size=(2, rows, 19))
    x, a = (ops.data(from_numpy(each.copy()), each.shape, float64) for each in arrays)
    nodes = [walk(x, 1, reverse) for walk in (ops.cumsum, ops.cumprod, ops.cumargmin)]
    nodes.append(ops.linear_recurrence(a, x, 1, reverse))
    expected = interpret(nodes)
    for node, wanted in zip(nodes, expected, strict=True):
        evaluate([node])
        np.testing.assert_allclose(value(node), wanted, rtol=1e-12, atol=1e-12)
    walked = np.cumsum(arrays[0, :, ::-1], axis=1)[:, ::-1] if reverse else arrays[0].cumsum(1)
    np.testing.assert_array_equal(value(nodes[0]), walked)
