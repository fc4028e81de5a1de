"""Kernels in Python against NumPy and against the same functions run as plain Python."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

import lamella as lm
from lamella import ops
from lamella.errors import (
    CompilerError,
    LamellaIndexError,
    MissingRuleError,
    OptionError,
    ShapeError,
)
from lamella.ir.loop_interp import run_kernel
from lamella.ir.text import kernel_text, parse_kernel
from lamella.ir.verify_loops import verify_kernel
from tests.support.c_backend import run_kernel_c
from tests.support.programs import run_program

rng = np.random.default_rng(0)


def draw(*shape: int) -> np.ndarray:
    return rng.normal(size=shape).astype(np.float32)


@lm.kernel(out=lambda gate, up: gate)
def swiglu(gate, up, out):
    """silu(gate) * up"""
    for i, j in lm.kernel.grid(*gate.shape):
        g = gate[i, j]
        out[i, j] = g / (1.0 + lm.exp(-g)) * up[i, j]


@lm.kernel(out=lambda x: [((x.shape[0],), x.dtype), ((x.shape[0],), lm.int64)])
def row_sums(x, total, count):
    for i in lm.kernel.grid(x.shape[0]):
        t = 0.0
        n = 0
        for j in range(x.shape[1]):
            if x[i, j] > 0:
                t += x[i, j]
                n += 1
        total[i] = t
        count[i] = n


@lm.kernel(out=lambda x: ((x.shape[0],), x.dtype))
def norms(x, out):
    for i in lm.kernel.grid(x.shape[0]):
        t = 0.0
        biggest = -math.inf
        for j in lm.kernel.lanes(x.shape[1]):
            t += x[i, j] * x[i, j]
            biggest = max(biggest, x[i, j])
        out[i] = lm.sqrt(t) + biggest


@lm.kernel(out=lambda a, b: ((a.shape[0], b.shape[1]), a.dtype))
def product(a, b, out, *, tile):
    for bi, bj in lm.kernel.grid((a.shape[0] + tile - 1) // tile, (b.shape[1] + tile - 1) // tile):
        acc = lm.kernel.local(16, lm.float32)
        for s in range(16):
            acc[s] = 0.0
        for k in range(a.shape[1]):
            for i in lm.kernel.unroll(tile):
                for j in lm.kernel.unroll(tile):
                    if bi * tile + i < a.shape[0] and bj * tile + j < b.shape[1]:
                        acc[i * tile + j] += a[bi * tile + i, k] * b[k, bj * tile + j]
        for i in range(tile):
            for j in range(tile):
                if bi * tile + i < a.shape[0] and bj * tile + j < b.shape[1]:
                    out[bi * tile + i, bj * tile + j] = acc[i * tile + j]


@lm.kernel(out=lambda x, where: (where.shape, x.dtype))
def pick(x, where, out):
    for i in lm.kernel.grid(where.shape[0]):
        out[i] = x[where[i]]


@pytest.mark.parametrize("shape", [(3, 5), (1, 1), (0, 4), (4, 0), (33, 130)])
def test_elementwise(shape: tuple[int, int]) -> None:
    g, u = draw(*shape), draw(*shape)
    wanted = g / (1 + np.exp(-g.astype(np.float64))) * u
    np.testing.assert_allclose(swiglu(g, u).numpy(), wanted, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(swiglu.reference(g, u), wanted, rtol=1e-5, atol=1e-6)
    fused = swiglu(lm.asarray(g) * 2, lm.asarray(u) + 1) - 1
    wanted = 2 * g / (1 + np.exp(-2.0 * g)) * (u + 1) - 1
    np.testing.assert_allclose(fused.numpy(), wanted, rtol=1e-5, atol=1e-5)


def test_results_loops_and_branches() -> None:
    x = draw(7, 19)
    total, count = row_sums(x)
    np.testing.assert_allclose(total.numpy(), np.where(x > 0, x, 0).sum(1), rtol=1e-5)
    np.testing.assert_array_equal(count.numpy(), (x > 0).sum(1))
    for mine, theirs in zip((total, count), row_sums.reference(x), strict=True):
        np.testing.assert_allclose(mine.numpy(), theirs, rtol=1e-5)
    wanted = np.sqrt((x.astype(np.float64) ** 2).sum(1)) + x.max(1)
    np.testing.assert_allclose(norms(x).numpy(), wanted, rtol=1e-5)


@pytest.mark.parametrize("tile", [1, 2, 4])
def test_scratch_and_options(tile: int) -> None:
    a, b = draw(6, 5), draw(5, 7)
    np.testing.assert_allclose(product(a, b, tile=tile).numpy(), a @ b, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(product.reference(a, b, tile=tile), a @ b, rtol=1e-5, atol=1e-6)


@lm.kernel(out=lambda x, *, bins: [((bins,), lm.int32), ((1,), lm.int64), ((1,), lm.int64)])
def counted(x, counts, largest, smallest, *, bins):
    for i in lm.kernel.grid(x.shape[0]):
        lm.kernel.atomic_add(counts, x[i] % bins, 1)
        lm.kernel.atomic_max(largest, 0, x[i])
        lm.kernel.atomic_min(smallest, 0, x[i])


@pytest.mark.parametrize("size", [0, 1, 1000, 300_001])
def test_atomic_steps(size: int) -> None:
    x = rng.integers(-1000, 1000, size)
    for _ in range(2):
        counts, largest, smallest = counted(x, bins=7)
        np.testing.assert_array_equal(counts.numpy(), np.bincount(x % 7, minlength=7))
        assert largest.item() == x.max(initial=0) and smallest.item() == x.min(initial=0)
    if size < 2000:
        np.testing.assert_array_equal(counted.reference(x, bins=7)[0], counts.numpy())
    many = np.stack([x, x + 1])
    rows = lm.vmap(lambda v: counted(v, bins=5)[0])(many).numpy()
    wanted = np.stack([np.bincount(row % 5, minlength=5) for row in many])
    np.testing.assert_array_equal(rows, wanted)


def test_atomic_steps_in_every_form_of_the_ir() -> None:
    x = rng.integers(-50, 50, 300)
    lowered = lm.jit(lambda v: counted(v, bins=7)).lower(x)
    for kernel in lowered.kernels:
        verify_kernel(kernel)
        assert parse_kernel(kernel_text(kernel)) == kernel
    assert "atomic add=" in lowered.text(2)
    for run in (run_kernel_c, run_kernel):
        node = ops.data(x, x.shape, lm.int64)
        definition = counted(lm.asarray(x), bins=7)[0].node.inputs[0].op
        counts, largest, _ = run_program(list(ops.call(definition, node)), run)
        np.testing.assert_array_equal(counts, np.bincount(x % 7, minlength=7))
        assert largest[0] == x.max()
    kernel = lowered.kernels[-1]
    buffers = tuple(replace(b, dtype=lm.float32) for b in kernel.buffers)
    with pytest.raises(CompilerError):
        verify_kernel(replace(kernel, buffers=buffers))


def test_atomic_steps_of_floats_are_refused() -> None:
    @lm.kernel(out=lambda x: x)
    def added(x, y):
        for i in lm.kernel.grid(x.shape[0]):
            lm.kernel.atomic_add(y, i, x[i])

    with pytest.raises(OptionError, match="integers"):
        added(np.ones(3, np.float32)).numpy()


def test_indices_are_checked() -> None:
    x = np.arange(5, dtype=np.float32)
    assert pick(x, np.array([0, 4, -1])).tolist() == [0, 4, 4]
    with pytest.raises(LamellaIndexError, match="out of range"):
        pick(x, np.array([0, 5])).numpy()


def test_transformations() -> None:
    with pytest.raises(MissingRuleError, match="vjp"):
        lm.grad(lambda g: lm.sum(swiglu(g, g)))(lm.asarray(draw(2, 2)))

    @lm.kernel(out=lambda x: x)
    def cube(x, y):
        for i in lm.kernel.grid(x.shape[0]):
            y[i] = x[i] * x[i] * x[i]

    @cube.vjp
    def _(inputs, results, cotangents):
        return (3 * inputs[0] * inputs[0] * cotangents[0],)

    @cube.jvp
    def _(inputs, tangents):
        return 3 * inputs[0] * inputs[0] * tangents[0]

    x = draw(4)
    np.testing.assert_allclose(lm.grad(lambda v: lm.sum(cube(v)))(x).numpy(), 3 * x * x, rtol=1e-5)
    first = lm.grad(lambda v: lm.sum(cube(v)))
    second = lm.grad(lambda v: lm.sum(first(v)))
    np.testing.assert_allclose(second(x).numpy(), 6 * x, rtol=1e-5)
    _, tangent = lm.jvp(cube, (lm.asarray(x),), (lm.ones(4),))
    np.testing.assert_allclose(tangent.numpy(), 3 * x * x, rtol=1e-5)
    many = draw(3, 4)
    np.testing.assert_allclose(lm.vmap(cube)(many).numpy(), many**3, rtol=1e-5)
    np.testing.assert_allclose(
        lm.vmap(lm.vmap(pick, in_axes=(None, 0)), in_axes=(0, None))(
            many, np.array([[0, 1], [2, 3]])
        ).numpy(),
        np.stack([np.stack([row[[0, 1]], row[[2, 3]]]) for row in many]),
    )  # fmt: skip
    np.testing.assert_allclose(lm.jit(cube)(x).numpy(), x**3, rtol=1e-5)
    gradients = lm.jit(lm.vmap(lm.grad(lambda v: lm.sum(cube(v)))))
    np.testing.assert_allclose(gradients(many).numpy(), 3 * many**2, rtol=1e-5)


def test_surroundings_are_part_of_the_kernel() -> None:
    scale = 2.0

    @lm.kernel(out=lambda x: x)
    def scaled(x, y):
        for i in lm.kernel.grid(x.shape[0]):
            y[i] = x[i] * scale

    assert scaled(np.ones(2, np.float32)).tolist() == [2, 2]
    scale = 3.0
    assert scaled(np.ones(2, np.float32)).tolist() == [3, 3]


def test_sizes_that_change() -> None:
    for n in (3, 5, 9, 12):
        x = draw(n, n + 1)
        np.testing.assert_allclose(norms(x).numpy(), norms.reference(x), rtol=1e-5)


def test_mistakes_are_named() -> None:
    @lm.kernel(out=lambda x: x)
    def no_grid(x, y):
        y[0] = x[0]

    @lm.kernel(out=lambda x: x)
    def writes_input(x, y):
        for i in lm.kernel.grid(x.shape[0]):
            x[i] = 1.0

    @lm.kernel(out=lambda x: x)
    def unknown(x, y):
        for i in lm.kernel.grid(x.shape[0]):
            y[i] = missing_name + x[i]  # noqa: F821

    x = np.ones(3, np.float32)
    for bad, why in ((no_grid, "grid"), (writes_input, "only results"), (unknown, "missing_name")):
        with pytest.raises(OptionError, match=why):
            bad(x).numpy()
    with pytest.raises(OptionError, match="takes 2 tensors"):
        swiglu(x)
    with pytest.raises(OptionError, match="tile"):
        product(draw(2, 2), draw(2, 2))


# -- rules and many examples -----------------------------------------------------------------------
@lm.kernel(out=lambda x, w: [((x.shape[0],), x.dtype), ((x.shape[0],), x.dtype)])
def weighted(x, w, y, z):
    for i in lm.kernel.grid(x.shape[0]):
        t: x.dtype = 0.0
        for j in range(x.shape[1]):
            t += x[i, j] * w[j]
        y[i] = t
        z[i] = x[i, 0]


@weighted.vjp
def _weighted_vjp(inputs, results, cotangents):
    (x, w), (g, h) = inputs, cotangents
    first = lm.zeros_like(x)
    first[:, 0] = h
    return g[:, None] * w + first, (g[:, None] * x).sum(0)


@weighted.jvp
def _weighted_jvp(inputs, tangents):
    (x, w), (dx, dw) = inputs, tangents
    return dx @ w + x @ dw, dx[:, 0]


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("jit", [lambda f: f, lm.jit])
def test_derivatives_of_many_examples(own: bool, jit) -> None:
    """The rules are for one example: they sum over its axes, and see its shapes."""
    x = lm.asarray(rng.normal(size=(2, 5, 3, 4)))
    w = lm.asarray(rng.normal(size=(2, 5, 4) if own else (4,)))
    plain = lambda x, w: (x @ w, x[:, 0])  # noqa: E731
    axes = (0, 0 if own else None)
    made = []
    for f in (weighted, plain):
        many = lm.vmap(lm.vmap(f, in_axes=axes), in_axes=axes)

        def loss(x, w, many=many):
            y, z = many(x, w)
            return (y**2).sum() + (lm.sin(z) * y).sum()

        made.append([
            *jit(lm.grad(loss, (0, 1)))(x, w),
            *jit(lambda x, w, f=many: lm.jvp(f, (x, w), (x * 2, w + 1)))(x, w)[1],
            jit(lambda x, w, loss=loss: lm.jvp(loss, (x, w), (x, w)))(x, w)[1],
        ])  # fmt: skip
    for found, wanted in zip(*made, strict=True):
        np.testing.assert_allclose(found.numpy(), wanted.numpy(), rtol=1e-10)


def test_rules_that_return_something_else() -> None:
    x = lm.asarray(draw(3))

    def made(vjp=None, jvp=None):
        @lm.kernel(out=lambda x: x)
        def same(x, y):
            for i in lm.kernel.grid(x.shape[0]):
                y[i] = x[i]

        return lm.custom_op(same, vjp=vjp, jvp=jvp)

    with pytest.raises(MissingRuleError, match=r"@.*same\.vjp"):
        lm.grad(lambda x: made()(x).sum())(x)
    for rule, kind in (
        (lambda i, r, c: (c[0], c[0]), OptionError), (lambda i, r, c: c[0].sum(), ShapeError),
    ):  # fmt: skip
        with pytest.raises(kind, match="vjp returned"):
            lm.grad(lambda x, rule=rule: made(vjp=rule)(x).sum())(x)
    for rule, kind in ((lambda i, t: (), OptionError), (lambda i, t: t[0][:2], ShapeError)):
        with pytest.raises(kind, match="jvp returned"):
            lm.jvp(made(jvp=rule), (x,), (x,))
