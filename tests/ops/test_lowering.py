"""The lowering rule of every primitive, run on the loop interpreter, agrees with its reference."""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import numpy as np
import pytest

from lamella import ops
from lamella.dtypes import DType, bfloat16, float16, float32, float64
from lamella.ir.interp import interpret
from lamella.ir.node import Node, topological
from lamella.ops.base import PRIMITIVES, Array, Sample
from lamella.ops.calls import Call, Part
from tests.support.lower import run, run_all

pytestmark = pytest.mark.makes_no_program

RTOL = {float64: 1e-12, float32: 2e-6, float16: 2e-3, bfloat16: 1e-2}
FEW: tuple[DType, ...] = (float32, float64, float16, bfloat16)

CASES = [
    pytest.param(sample, id=f"{name}-{position}{'-' + sample.note if sample.note else ''}")
    for name, primitive in sorted(PRIMITIVES.items())
    for position, sample in enumerate(primitive.samples())
]


def lower(output: Node, values: dict[Node, Array]) -> Array:
    """Every node below ``output`` by its lone kernel, from the leaves up."""
    several: dict[Node, list[Array]] = {}
    for node in topological([output], stop=list(values)):
        if node in values:
            continue
        if node.op.name in ("scalar", "data"):
            (values[node],) = interpret([node])
            continue
        inputs = [values[source] for source in node.inputs] if node.op.kind != "part" else []
        if isinstance(node.op, Call):
            several[node] = _call(node, inputs, values)
        elif isinstance(node.op, Part):
            values[node] = several[node.inputs[0]][node.op.index]
        else:
            values[node] = run(node, inputs)
    return values[output]


def _call(node: Node, inputs: list[Array], values: dict[Node, Array]) -> list[Array]:
    """Every result of a call, or of what it is composed of."""
    assert isinstance(node.op, Call)
    if node.op.opaque:
        return list(node.op.evaluate(node, inputs))
    composed = node.op.composed(node)
    if composed is None:
        return run_all(node, inputs)
    return [lower(part, dict(values)) for part in composed]


def chosen(sample: Sample, size: int) -> Sequence[DType]:
    """All dtypes of small samples; a float, an integer and a narrow one of larger ones; of those
    that take the interpreter seconds, the float alone.
    """
    if size <= 40:
        return sample.dtypes
    if size > 1000 and float32 in sample.dtypes:
        return (float32,)
    return [d for i, d in enumerate(sample.dtypes) if d in (float32, bfloat16) or i in (0, 2)]


@pytest.mark.parametrize("sample", CASES)
def test_lowering(sample: Sample) -> None:
    size = max((int(np.prod(shape, dtype=int)) for shape in sample.shapes), default=1)
    for dtype in chosen(sample, size):
        rng = np.random.default_rng(zlib.crc32(repr(sample.shapes).encode()))
        arrays = sample.arrays(dtype, rng)
        kinds = [own or dtype for own in sample.input_dtypes or (None,) * len(arrays)]
        nodes = [ops.placeholder(a.shape, d) for a, d in zip(arrays, kinds, strict=True)]
        output = sample.build(*nodes)
        if any(node.dtype.kind == "c" for node in topological([output])):
            continue  # has no kernel of its own: see test_complex
        if any(isinstance(node.op, Call) and node.op.in_memory for node in topological([output])):
            continue  # becomes no kernel: see test_control
        given = dict(zip(nodes, arrays, strict=True))
        (expected,) = interpret([output], given)
        found = lower(output, dict(given))
        if output.dtype.kind != "f":
            np.testing.assert_array_equal(found, expected)
            continue
        rtol = max(RTOL[output.dtype], sample.rtol or 0.0)
        np.testing.assert_allclose(
            found.astype(np.float64), expected.astype(np.float64), rtol=rtol, atol=rtol
        )
        if output.op.name in ("maximum", "minimum"):
            continue  # which zero is the larger is left open
        zeros = (expected == 0) & (found == 0)
        signs = np.signbit(found.astype(np.float64)), np.signbit(expected.astype(np.float64))
        np.testing.assert_array_equal(signs[0][zeros], signs[1][zeros])
