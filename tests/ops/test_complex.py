"""Complex numbers, generated from the samples of every primitive.

Each sample is built with complex inputs: it is refused when recorded, or the compiled parts agree
with NumPy's complex arithmetic, and vjp, jvp and batching with finite differences and a loop.
"""

from __future__ import annotations

import zlib
from itertools import groupby

import numpy as np
import pytest

from lamella import ops
from lamella.compiler.split_complex import split_complex
from lamella.dtypes import COMPLEX, DType, complex64, complex128, float64
from lamella.errors import DTypeError
from lamella.graph.batch import batch
from lamella.graph.forward import jvp
from lamella.graph.reverse import vjp
from lamella.ir.interp import interpret
from lamella.ir.node import Node, topological
from lamella.ir.verify import verify_graph
from lamella.ops.base import PRIMITIVES, Array, Sample
from lamella.runtime.buffer import from_numpy
from lamella.runtime.evaluate import evaluate

RTOL = {complex64: 3e-5, complex128: 1e-11}


def rng_for(sample: Sample) -> np.random.Generator:
    return np.random.default_rng(zlib.crc32(repr((sample.shapes, sample.note)).encode()))


def dtypes_of(sample: Sample, dtype: DType) -> list[DType]:
    return [own or dtype for own in sample.input_dtypes or (None,) * len(sample.shapes)]


def built(sample: Sample, dtype: DType = complex128) -> tuple[list[Node], Node]:
    """The sample on complex inputs; on real ones where it makes complex numbers of them."""
    try:
        return _built(sample, dtype)
    except DTypeError:
        nodes, output = _built(sample, dtype.part)
        if output.dtype is not dtype:
            raise
        return nodes, output


def _built(sample: Sample, dtype: DType) -> tuple[list[Node], Node]:
    kinds = dtypes_of(sample, dtype)
    nodes = [ops.placeholder(s, d, d.inexact) for s, d in zip(sample.shapes, kinds, strict=True)]
    return nodes, sample.build(*nodes)


def taken(sample: Sample) -> bool:
    """Whether the sample takes complex numbers: it must say so when it is recorded."""
    if float64 not in sample.dtypes and complex128 not in sample.dtypes:
        return False
    try:
        _, output = built(sample)
    except DTypeError:
        return False
    return complex128 in [node.dtype for node in topological([output])]


CASES = [
    pytest.param(sample, id=f"{name}-{position}{'-' + sample.note if sample.note else ''}")
    for name, primitive in sorted(PRIMITIVES.items())
    for position, sample in enumerate(primitive.samples())
    if taken(sample)
]
# Functions that are not analytic at some of the points that the samples draw.
SMOOTH = [c for c in CASES if c.values[0].differentiable]
ORDINARY = [c for c in CASES if c.values[0].note != "special values"]
# Each primitive meets both types, and each sample one of them: they differ in the parts' type only.
TYPED = [
    pytest.param(*case.values, dtype, id=f"{case.id}-{dtype.name}")
    for _, cases in groupby(ORDINARY, key=lambda case: str(case.id).split("-")[0])
    for number, case in enumerate(cases)
    for dtype in (COMPLEX if number == 0 else COMPLEX[number % 2 : number % 2 + 1])
]


def draw(sample: Sample, nodes: list[Node], dtype: DType, rng: np.random.Generator) -> list[Array]:
    """Complex inputs around the ones the sample draws for real numbers."""
    part = dtype.part
    real, other = (
        sample.arrays(part, rng) if complex128 not in sample.dtypes else sample.arrays(dtype, rng)
        for _ in range(2)
    )
    found = []
    for a, b, node in zip(real, other, nodes, strict=True):
        found.append((a + 1j * b).astype(dtype.numpy) if node.dtype.kind == "c" else a)
    return found


def compiled(output: Node, given: dict[Node, Array]) -> Array:
    """The value by the compiler, with the leaves in memory."""
    for node, array in given.items():
        node.value = from_numpy(np.ascontiguousarray(array))
        node.tracked = False
    evaluate([output])
    return output.value.numpy(output.shape, output.dtype.numpy)  # type: ignore[attr-defined]


def test_every_kind_of_operation_is_there() -> None:
    names = {c.id.split("-")[0] for c in CASES}
    wanted = (
        "add subtract multiply divide negative equal not_equal isnan isinf isfinite where cast "
        "sqrt rsqrt exp expm1 log log2 log10 log1p pow sin cos tan asin acos atan sinh cosh tanh "
        "asinh acosh atanh reduce_sum cumsum reshape permute broadcast_to flip slice update_slice "
        "pad concatenate gather scatter contract conv slide complex real imag conj modulus"
    )
    assert set(wanted.split()) <= names, set(wanted.split()) - names


@pytest.mark.parametrize(("sample", "dtype"), TYPED)
def test_value(sample: Sample, dtype: DType) -> None:
    nodes, output = built(sample, dtype)
    arrays = draw(sample, nodes, dtype, rng_for(sample))
    verify_graph([output])
    given = dict(zip(nodes, arrays, strict=True))
    (expected,) = interpret([output], given)
    real, _ = split_complex([output], nodes)
    verify_graph(real)
    found = compiled(output, given)
    rtol = max(RTOL[dtype], 10 * (sample.rtol or 0.0))
    np.testing.assert_allclose(found, expected, rtol=rtol, atol=rtol)


@pytest.mark.parametrize("sample", SMOOTH)
def test_derivative(sample: Sample) -> None:
    nodes, output = built(sample)
    if output.dtype not in (float64, complex128):
        return
    rng = rng_for(sample)
    arrays = draw(sample, nodes, complex128, rng)
    given = dict(zip(nodes, arrays, strict=True))
    smooth = [n for n in nodes if n.dtype.inexact]
    steps = {n: noise(n, rng) for n in smooth}

    def along(h: float) -> Array:
        moved = {n: a + h * steps[n] if n in steps else a for n, a in given.items()}
        return interpret([output], moved)[0]

    h = 1e-4
    expected = (8 * (along(h) - along(-h)) - along(2 * h) + along(-2 * h)) / (12 * h)
    (tangent,) = jvp([output], smooth, [ops.data(steps[n], n.shape, n.dtype) for n in smooth])
    if tangent is None:
        np.testing.assert_allclose(expected, 0, atol=1e-7)
        return
    assert tangent.shape == output.shape and tangent.dtype is output.dtype
    verify_graph([tangent])
    np.testing.assert_allclose(interpret([tangent], given)[0], expected, rtol=1e-6, atol=1e-6)
    cotangent = noise(output, rng)
    found = vjp([output], [ops.data(cotangent, output.shape, output.dtype)], smooth)
    total = 0.0
    for node, part in zip(smooth, found, strict=True):
        if part is not None:
            assert part.shape == node.shape and part.dtype is node.dtype
            verify_graph([part])
            total += np.sum(np.conj(interpret([part], given)[0]) * steps[node]).real
    np.testing.assert_allclose(
        total, np.sum(np.conj(cotangent) * expected).real, rtol=1e-5, atol=1e-5
    )


def noise(node: Node, rng: np.random.Generator) -> Array:
    """Random numbers of a node's shape and dtype."""
    real, imaginary = rng.standard_normal((2, *node.shape))
    return np.asarray(real + 1j * imaginary if node.dtype.kind == "c" else real)


@pytest.mark.parametrize("sample", ORDINARY)
def test_batching(sample: Sample) -> None:
    nodes, output = built(sample)
    rng = rng_for(sample)
    many = [draw(sample, nodes, complex128, rng) for _ in range(2)]
    stacked = [ops.placeholder((2, *n.shape), n.dtype) for n in nodes]
    ((result, has),) = batch([output], dict(zip(nodes, stacked, strict=True)), 2)
    if not has:
        return
    given = {b: np.stack([m[i] for m in many]) for i, b in enumerate(stacked)}
    value = interpret([result], given)[0]
    for k in range(2):
        (expected,) = interpret([output], dict(zip(nodes, many[k], strict=True)))
        np.testing.assert_allclose(value[k], expected, rtol=1e-10, atol=1e-10)
