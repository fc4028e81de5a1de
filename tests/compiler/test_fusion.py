"""Fusion keeps every statement whatever is merged, gives few kernels, and changes no value."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lamella as lm
from lamella import ops
from lamella.compiler.canonicalise import canonicalise
from lamella.compiler.fusion import fuse
from lamella.compiler.memory import Temporary, assign
from lamella.compiler.partition import is_external, materialised
from lamella.compiler.pipeline import compile_graph
from lamella.compiler.statements import build
from lamella.dtypes import float32
from lamella.ir.loop_text import kernel_text
from lamella.ir.node import topological
from lamella.nn import functional
from tests.support.units import AVX2

FUNCTIONS = {
    "cross entropy": lambda x, y: functional.cross_entropy(x, y),
    "its gradient": lambda x, y: lm.grad(lambda v: functional.cross_entropy(v, y))(x),
    "normalised": lambda x, y: functional.layer_norm(functional.gelu(x), (4,)) + lm.mean(x),
    "spread": lambda x, y: lm.var(x, axis=0) + lm.std(functional.softmax(x, dim=1)) * lm.max(y),
}


def test_loops_that_became_one_are_one_index() -> None:
    """Blocks of 4096 do not divide by nine taps; whole loops do, so they are merged first."""
    p, m, g = (ops.placeholder((128, 64, 3, 3), float32) for _ in range(3))
    moved = ops.add(m, g)
    outputs = [moved, ops.subtract(p, moved)]
    (kernel,) = compile_graph(outputs, [p, m, g], [], AVX2).kernels
    assert "mod(" not in kernel_text(kernel)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_statement_is_in_one_group(name: str) -> None:
    lowered = lm.jit(FUNCTIONS[name]).lower(lm.zeros((2, 4)), lm.asarray([0, 3]))
    outputs = canonicalise(lowered.outputs)
    order = topological(outputs)
    program = build(order, outputs, materialised(order, outputs, fuse=True))
    members = [s.node for group in fuse(program.statements) for s in group.members]
    assert set(members) == {s.node for s in program.statements}
    assert len(members) == len(program.statements)


def test_cross_entropy_of_equal_scores() -> None:
    loss = functional.cross_entropy(lm.zeros((2, 4)), lm.asarray([0, 3]))
    np.testing.assert_allclose(loss.numpy(), np.log(4.0), rtol=1e-6)


def kernels(fn: Callable[..., object], *args: lm.Tensor) -> int:
    """The number of kernels that the function's program launches."""
    outputs = lm.jit(fn).lower(*args).outputs
    order = topological(outputs)
    inputs = [n for n in order if is_external(n) and n.op.name != "scalar"]
    scalars = [n for n in order if n.op.name == "scalar"]
    return len(compile_graph(outputs, inputs, scalars, AVX2, verify=True).steps)


def gradient(fn: Callable[..., lm.Tensor], count: int) -> Callable[..., object]:
    return lm.grad(lambda *args: lm.sum(fn(*args[:-1]) * args[-1]), argnums=tuple(range(count)))


def normalised(x: lm.Tensor, w: lm.Tensor, b: lm.Tensor) -> lm.Tensor:
    return functional.layer_norm(x, (x.shape[-1],), w, b)


def batch_normalised(x: lm.Tensor, w: lm.Tensor, b: lm.Tensor) -> lm.Tensor:
    return functional.batch_norm(x, None, None, w, b, training=True)


def adam(p: lm.Tensor, g: lm.Tensor, m: lm.Tensor, v: lm.Tensor) -> tuple[lm.Tensor, ...]:
    m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
    return p - 0.001 * m / (lm.sqrt(v) + 1e-8), m, v


ROWS, IMAGES = (128, 1000), (16, 32, 28, 28)
LABELS = (256,)
COUNTS: list[tuple[str, Callable[..., object], tuple[tuple[int, ...], ...], int]] = [
    ("softmax", lambda x: functional.softmax(x, dim=-1), (ROWS,), 1),
    ("its gradient", gradient(lambda x: functional.softmax(x, dim=-1), 1), (ROWS, ROWS), 1),
    ("log softmax", lambda x: functional.log_softmax(x, dim=-1), (ROWS,), 1),
    ("softmax over channels", lambda x: functional.softmax(x, dim=1), (IMAGES,), 1),
    ("layer norm", normalised, ((64, 1024), (1024,), (1024,)), 1),
    ("its gradient", gradient(normalised, 3), ((64, 1024), (1024,), (1024,), (64, 1024)), 2),
    ("batch norm", batch_normalised, (IMAGES, (32,), (32,)), 1),
    ("its gradient", gradient(batch_normalised, 3), (IMAGES, (32,), (32,), IMAGES), 1),
    ("adam", adam, (ROWS,) * 4, 1),
    ("column sum", lambda x: lm.sum(x, axis=0), ((60000, 10),), 2),
    ("mean and variance", lambda x: (lm.mean(x, axis=1), lm.var(x, axis=1)), (ROWS,), 1),
    ("two products of one array", lambda x, y: (x * y, lm.exp(x)), (ROWS, ROWS), 1),
    ("a tail", lambda x, w, b: functional.gelu(x @ w + b), (ROWS, (1000, 64), (64,)), 1),
]


@pytest.mark.parametrize(
    ("fn", "shapes", "count"),
    [pytest.param(*case[1:], id=f"{case[0]} {i}") for i, case in enumerate(COUNTS)],
)
def test_kernel_counts(
    fn: Callable[..., object], shapes: tuple[tuple[int, ...], ...], count: int
) -> None:
    assert kernels(fn, *(lm.zeros(shape) for shape in shapes)) <= count


def test_cross_entropy_is_two_kernels() -> None:
    args = lm.zeros((256, 10)), lm.zeros((256,), dtype=lm.int64)
    assert kernels(functional.cross_entropy, *args) <= 2
    assert kernels(lm.grad(functional.cross_entropy), *args) <= 3


def agrees(fn: Callable[..., object], *arrays: np.ndarray, rtol: float = 2e-5) -> None:
    """The compiled function gives what the interpreter gives."""
    found = []
    for settings in ({"verify": 1}, {"backend": "interpret"}):
        with lm.config(**settings):
            result = fn(*(lm.asarray(a) for a in arrays))
            parts = result if isinstance(result, tuple) else (result,)
            found.append([np.array(part.numpy()) for part in parts])
    for mine, wanted in zip(*found, strict=True):
        scale = float(np.abs(wanted).max(initial=0)) or 1.0
        np.testing.assert_allclose(mine, wanted, rtol=rtol, atol=rtol * scale)


def draw(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def test_a_reduction_used_inside_and_outside_its_group() -> None:
    def fn(x: lm.Tensor) -> tuple[lm.Tensor, ...]:
        total = lm.sum(x, axis=1, keepdims=True)
        return x / total, total, lm.sum(x / total, axis=0), lm.max(total)

    agrees(fn, draw(40, 70) + 5)


def test_rows_larger_than_scratch() -> None:
    agrees(lambda x: functional.softmax(x, dim=-1), draw(3, 100_000))
    agrees(lambda x: functional.log_softmax(lm.exp(x * 0.1), dim=1), draw(2, 70_001, 2))


@pytest.mark.parametrize("shape", [(2, 21, 9, 9), (2, 300, 8, 16), (1, 3, 1, 70), (2, 5000, 3, 1)])
def test_lanes_along_outer_loops(shape: tuple[int, ...]) -> None:
    agrees(lambda x: functional.softmax(x, dim=1), draw(*shape))
    agrees(
        lambda x: (lm.sum(x, axis=1), lm.argmax(x, axis=1), lm.var(x, axis=(0, 1))), draw(*shape)
    )


def test_groups_that_would_depend_on_each_other() -> None:
    def fn(x: lm.Tensor, y: lm.Tensor) -> tuple[lm.Tensor, ...]:
        a = lm.exp(x)
        columns = lm.sum(a, axis=0)
        b = lm.exp(y) * columns
        rows = lm.sum(b, axis=1, keepdims=True)
        c = a / rows
        return c + lm.sum(c, axis=0), lm.sum(a * b), b - lm.max(c)

    agrees(fn, draw(33, 65), draw(65, 33).reshape(33, 65))


def test_sums_of_one_array_share_a_pass() -> None:
    def fn(x: lm.Tensor, y: lm.Tensor) -> tuple[lm.Tensor, ...]:
        return lm.sum(x, axis=0), lm.sum(x * y, axis=0), lm.max(x, axis=0), lm.sum(y, axis=1)

    agrees(fn, draw(64, 1000), draw(1000, 64).reshape(64, 1000))
    assert kernels(fn, lm.zeros((64, 1000)), lm.zeros((64, 1000))) <= 2


def test_products_with_one_disappear() -> None:
    x = ops.placeholder((5, 3), float32)
    one = ops.full(1.0, (3,), float32)
    product = ops.divide(ops.multiply(ops.broadcast_to(one, (5, 3)), x), ops.constant(1.0, float32))
    assert canonicalise([product]) == [x]
    wider = ops.multiply(ops.broadcast_to(x, (2, 5, 3)), ops.full(1.0, (2, 5, 3), float32))
    assert canonicalise([wider])[0].shape == (2, 5, 3)


@pytest.mark.parametrize("extent", [65536, 65537, 100_003, 131_072])
def test_split_reductions(extent: int) -> None:
    x = np.random.default_rng(extent).integers(-50, 50, (3, extent)).astype(np.int64)
    flags = x > 49 - 1
    for axis in (None, 0, 1):
        for name in ("sum", "max", "min"):
            mine = getattr(lm, name)(lm.asarray(x), axis=axis).numpy()
            np.testing.assert_array_equal(mine, getattr(np, name)(x, axis=axis))
        for name in ("any", "all"):
            mine = getattr(lm, name)(lm.asarray(flags), axis=axis).numpy()
            np.testing.assert_array_equal(mine, getattr(np, name)(flags, axis=axis))
        odd = (x | 1).astype(np.int64)
        np.testing.assert_array_equal(lm.prod(lm.asarray(odd), axis=axis).numpy(), odd.prod(axis))
    np.testing.assert_array_equal(lm.argmax(lm.asarray(x), axis=1).numpy(), x.argmax(1))


def test_a_result_is_never_written_over_a_value_still_needed() -> None:
    def fn(x: lm.Tensor) -> tuple[lm.Tensor, ...]:
        a = functional.softmax(x @ x, dim=-1)
        b = functional.softmax(a @ x, dim=0)
        c = lm.flip(b, axis=0) + a
        return c, b, lm.cumsum(c * b, axis=1) - a, c.permute((1, 0)) * b

    agrees(fn, draw(64, 64), rtol=1e-4)


@given(
    st.lists(st.tuples(st.integers(0, 5000), st.integers(0, 12), st.integers(0, 6)), max_size=40)
)
def test_live_temporaries_never_overlap(drawn: list[tuple[int, int, int]]) -> None:
    temporaries = [Temporary(size, first, first + length) for size, first, length in drawn]
    sizes = [size for size, _, _ in drawn]
    offsets, arena = assign(temporaries, sizes)
    for i, a in enumerate(temporaries):
        assert offsets[i] % 64 == 0 and offsets[i] + sizes[i] <= arena
        for j, b in enumerate(temporaries[:i]):
            if a.first <= b.last and b.first <= a.last and sizes[i] and sizes[j]:
                assert offsets[i] + sizes[i] <= offsets[j] or offsets[j] + sizes[j] <= offsets[i]


@pytest.mark.parametrize("shape", [(0,), (0, 5), (5, 0), (2, 0, 3)])
def test_empty_arrays(shape: tuple[int, ...]) -> None:
    agrees(lambda x: (lm.exp(x), lm.sum(x, axis=0), lm.sum(x), lm.cumsum(x, axis=-1)), draw(*shape))
    agrees(
        lambda x: (lm.concat([x, x]), lm.sort(x, axis=-1), lm.var(x)),
        draw(*shape),
    )


@pytest.mark.parametrize("shape", [(16, 64), (17, 65), (100, 1000), (3, 70, 33), (1024, 16)])
def test_transposes_run_in_blocks(shape: tuple[int, ...]) -> None:
    agrees(lambda x: lm.permute(x, tuple(reversed(range(x.ndim)))) + 1, draw(*shape))
    agrees(lambda x: lm.swapaxes(x, 0, -1) * lm.sin(lm.swapaxes(x, -1, 0)), draw(*shape))


def test_indices_checked_under_nested_choices() -> None:
    """Every choice between values made from a gathered one is translated once, not per arm."""

    def fn(x: lm.Tensor, index: lm.Tensor) -> tuple[lm.Tensor, ...]:
        y = lm.take(x, index)
        first = y
        for _ in range(4):
            y = lm.asinh(lm.cos(lm.tanh(y) * 0.5) * lm.exp(y * 0.25))
        again = lm.take(x, lm.asarray(index.numpy()))
        return y + first, lm.where(y > 0.5, y, lm.exp(again)), again * y

    agrees(lambda x: fn(x, lm.asarray([3, 1, -2, 0, 2, 2, 1, 3])), draw(4))
