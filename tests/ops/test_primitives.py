"""Every rule of every primitive, generated from the samples in its class.

For each sample: the graph verifies; the value at each dtype agrees with that in float64; vjp
and jvp agree with central differences in float64, once and twice; batching agrees with a loop.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from itertools import product

import numpy as np
import pytest

import lamella.transforms.callback
import lamella.transforms.kernel  # noqa: F401
from lamella import ops
from lamella.dtypes import DType, bfloat16, complex128, float16, float32, float64
from lamella.graph.batch import batch
from lamella.graph.forward import jvp
from lamella.graph.reverse import vjp
from lamella.ir.interp import interpret
from lamella.ir.node import Node
from lamella.ir.verify import verify_graph
from lamella.ops.base import PRIMITIVES, Array, Sample

pytestmark = pytest.mark.makes_no_program

RTOL = {float64: 1e-12, float32: 1e-5, float16: 4e-3, bfloat16: 3e-2}
WITHOUT_SAMPLES = {
    "data", "scalar", "part", "placeholder", "pure_callback", "io_callback", "kernel",
}  # fmt: skip

CASES = [
    pytest.param(sample, id=f"{name}-{position}{'-' + sample.note if sample.note else ''}")
    for name, primitive in sorted(PRIMITIVES.items())
    for position, sample in enumerate(primitive.samples())
]
SMOOTH = [
    case for case in CASES
    if case.values[0].differentiable and case.values[0].shapes and float64 in case.values[0].dtypes
]  # fmt: skip


def rng_for(sample: Sample) -> np.random.Generator:
    return np.random.default_rng(zlib.crc32(repr((sample.shapes, sample.note)).encode()))


def placeholders(arrays: Sequence[Array], dtypes: Sequence[DType]) -> list[Node]:
    return [
        ops.placeholder(array.shape, dtype, tracked=dtype.kind == "f")
        for array, dtype in zip(arrays, dtypes, strict=True)
    ]


def dtypes_of(sample: Sample, dtype: DType) -> list[DType]:
    return [own or dtype for own in sample.input_dtypes or (None,) * len(sample.shapes)]


def test_every_primitive_has_samples() -> None:
    missing = {name for name, p in PRIMITIVES.items() if not list(p.samples())}
    assert missing == WITHOUT_SAMPLES


def test_every_differentiable_primitive_is_differentiated() -> None:
    for name, primitive in PRIMITIVES.items():
        leaves = {"constant", "iota"}
        if primitive.differentiable and name not in WITHOUT_SAMPLES | leaves:
            kinds = {d for s in primitive.samples() if s.differentiable for d in s.dtypes}
            assert kinds & {float64, complex128}, name


@pytest.mark.parametrize("sample", CASES)
def test_value_at_each_dtype(sample: Sample) -> None:
    for dtype in sample.dtypes:
        rng = rng_for(sample)
        arrays = sample.arrays(dtype, rng)
        nodes = placeholders(arrays, dtypes_of(sample, dtype))
        output = sample.build(*nodes)
        verify_graph([output])
        (value,) = interpret([output], dict(zip(nodes, arrays, strict=True)))
        assert value.shape == output.shape and value.dtype == output.dtype.numpy
        ordinary = float64 in sample.dtypes and sample.note != "special values"
        if ordinary and dtype in RTOL and dtype is not float64:
            _close_to_float64(sample, arrays, dtype, output, value)


def _close_to_float64(
    sample: Sample, arrays: Sequence[Array], dtype: DType, output: Node, value: Array
) -> None:
    wide = [a.astype(np.float64) if d is dtype else a
            for a, d in zip(arrays, dtypes_of(sample, dtype), strict=True)]  # fmt: skip
    nodes = placeholders(wide, dtypes_of(sample, float64))
    (exact,) = interpret([sample.build(*nodes)], dict(zip(nodes, wide, strict=True)))
    if output.dtype is not dtype:
        if output.dtype.kind != "f":
            np.testing.assert_array_equal(value, exact.astype(value.dtype))
        return
    rtol = max(RTOL[dtype], sample.rtol or 0.0)
    np.testing.assert_allclose(value.astype(np.float64), exact, rtol=rtol, atol=rtol)


def directional(
    function: Callable[[list[Array]], Array], arrays: list[Array], steps: list[Array]
) -> Array:
    """The derivative of ``function`` along ``steps``: central differences, Richardson's step."""

    def central(h: float) -> Array:
        def at(sign: float) -> Array:
            moved = [a + sign * h * s if s is not None else a
                     for a, s in zip(arrays, steps, strict=True)]  # fmt: skip
            return function(moved)

        return (at(1.0) - at(-1.0)) / (2 * h)

    return np.asarray((4 * central(1e-4) - central(2e-4)) / 3)


class Setting:
    """A sample in float64 with random cotangent and directions."""

    def __init__(self, sample: Sample) -> None:
        rng = rng_for(sample)
        self.arrays = sample.arrays(float64, rng)
        self.nodes = placeholders(self.arrays, dtypes_of(sample, float64))
        self.output = sample.build(*self.nodes)
        self.smooth = [node for node in self.nodes if node.dtype is float64]
        self.steps: list[Array | None] = [
            rng.standard_normal(n.shape) if n.dtype is float64 else None for n in self.nodes
        ]
        self.cotangent = rng.standard_normal(self.output.shape).astype(self.output.dtype.numpy)
        self.ct = ops.data(self.cotangent, self.output.shape, self.output.dtype)
        self.directions = [None if s is None else ops.data(s, s.shape, float64) for s in self.steps]

    def run(self, node: Node, arrays: list[Array] | None = None) -> Array:
        return interpret([node], dict(zip(self.nodes, arrays or self.arrays, strict=True)))[0]

    def slope(self, node: Node) -> Array:
        return directional(lambda arrays: self.run(node, arrays), self.arrays, self.steps)

    def along(self, cotangents: Sequence[Node | None]) -> float:
        """The sum of cotangent · direction over the inputs."""
        total = 0.0
        for node, cotangent in zip(self.smooth, cotangents, strict=True):
            step = self.steps[self.nodes.index(node)]
            if cotangent is not None and step is not None:
                assert cotangent.shape == node.shape and cotangent.dtype is node.dtype
                verify_graph([cotangent])
                total += float(np.sum(self.run(cotangent) * step))
        return total


@pytest.mark.parametrize("sample", SMOOTH)
def test_first_derivative(sample: Sample) -> None:
    s = Setting(sample)
    if s.output.dtype is not float64:
        return
    expected = s.slope(s.output)
    (tangent,) = jvp([s.output], s.nodes, s.directions)
    if tangent is None:
        np.testing.assert_allclose(expected, 0, atol=1e-7)
    else:
        assert tangent.shape == s.output.shape and tangent.dtype is s.output.dtype
        verify_graph([tangent])
        np.testing.assert_allclose(s.run(tangent), expected, rtol=1e-6, atol=1e-7)
    found = s.along(vjp([s.output], [s.ct], s.smooth))
    np.testing.assert_allclose(found, np.sum(expected * s.cotangent), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("sample", SMOOTH)
def test_second_derivative(sample: Sample) -> None:
    s = Setting(sample)
    if s.output.dtype is not float64:
        return
    first = vjp([s.output], [s.ct], s.smooth)
    present = [(n, g) for n, g in zip(s.smooth, first, strict=True) if g is not None]
    rng = np.random.default_rng(5)
    for _, g in present:
        weight = rng.standard_normal(g.shape)
        node = ops.data(weight, g.shape, float64)
        expected = s.slope(g)
        (tangent,) = jvp([g], s.nodes, s.directions)
        found = np.zeros(g.shape) if tangent is None else s.run(tangent)
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
        again = s.along(vjp([g], [node], s.smooth))
        np.testing.assert_allclose(again, np.sum(expected * weight), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("sample", [c for c in CASES if c.values[0].shapes])
def test_batching(sample: Sample) -> None:
    dtype = float32 if float32 in sample.dtypes else sample.dtypes[0]
    rng = rng_for(sample)
    many = [sample.arrays(dtype, rng) for _ in range(3)]
    kinds = dtypes_of(sample, dtype)
    choices = [c for c in product((True, False), repeat=len(kinds)) if any(c)]
    for chosen in choices[:4] + choices[-2:]:
        nodes = placeholders(many[0], kinds)
        stacked = [ops.placeholder((3, *n.shape), n.dtype) for n in nodes]
        output = sample.build(*nodes)
        given = {n: b for n, b, c in zip(nodes, stacked, chosen, strict=True) if c}
        ((result, has),) = batch([output], given, 3)
        if not has:  # the sample does not use that input, such as an empty part of concatenate
            assert result is output
            continue
        assert result.shape == (3, *output.shape) and result.dtype is output.dtype
        verify_graph([result])
        inputs = {}
        for i, (n, b, c) in enumerate(zip(nodes, stacked, chosen, strict=True)):
            inputs[b if c else n] = np.stack([m[i] for m in many]) if c else many[0][i]
        value = interpret([result], inputs)[0]
        for k in range(3):
            row = [many[k if c else 0][i] for i, c in enumerate(chosen)]
            (expected,) = interpret([output], dict(zip(nodes, row, strict=True)))
            np.testing.assert_allclose(
                value[k].astype(np.float64), expected.astype(np.float64), rtol=1e-5, atol=1e-6
            )
