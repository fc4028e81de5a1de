"""Folds over windows: rows first, then neighbours in a row, against NumPy's sliding windows."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import lamella as lm
from lamella import ops
from lamella.compiler import pooling, sliding
from lamella.compiler.pipeline import compile_graph
from lamella.config import config
from lamella.dtypes import DType, bfloat16, float16, float32, float64, int8, int32
from lamella.ir.dim import Dim
from lamella.ir.loop_text import kernel_text
from lamella.ir.node import Node, topological
from lamella.runtime.buffer import from_numpy
from lamella.runtime.evaluate import evaluate
from tests.support.units import AVX512

pytestmark = pytest.mark.usefixtures("with_passes")
FOLDS = {
    "max": (ops.reduce_max, np.max, -np.inf),
    "min": (ops.reduce_min, np.min, np.inf),
    "sum": (ops.reduce_sum, np.sum, 0.0),
    "prod": (ops.reduce_prod, np.prod, 1.0),
}


@pytest.fixture
def with_passes() -> object:
    with config(optimize=1, skip_passes="", backend="llvm", cache=0):
        yield


def leaf(array: np.ndarray, dtype: DType = float32) -> Node:
    plain = np.ascontiguousarray(array, dtype.numpy)
    return ops.data(from_numpy(plain), array.shape, dtype)


def run(node: Node) -> np.ndarray:
    with config(verify=1):
        evaluate([node])
    return node.value.numpy(node.shape, node.dtype.numpy)  # type: ignore[union-attr]


def text(node: Node) -> str:
    inputs = [n for n in topological([node]) if n.op.name == "data"]
    kernels = compile_graph([node], inputs, [], AVX512, verify=True).kernels
    return "\n".join(kernel_text(kernel) for kernel in kernels)


def pooled(
    x: Node, fold: str, taps: Sequence[int], steps: Sequence[int], around: Sequence[int],
    fill: float, last: bool = False,
) -> Node:  # fmt: skip
    """A fold over windows of the last axes; ``last``: of a tensor stored with axis 1 last."""
    rank, lead = len(taps), x.ndim - len(taps)
    if last:
        order = (0, x.ndim - 1, *range(1, x.ndim - 1))
        x = ops.permute(x, order)
    ends = (*(0,) * lead, *around)
    padded = ops.pad(x, ends, ends, ops.constant(fill, x.dtype)) if any(around) else x
    seen = ops.window(padded, tuple(taps), tuple(steps))
    if last:
        seen = ops.permute(seen, (0, *range(2, x.ndim), 1, *range(x.ndim, seen.ndim)))
    return FOLDS[fold][0](seen, tuple(range(seen.ndim - rank, seen.ndim)))


def expected(
    x: np.ndarray, fold: str, taps: Sequence[int], steps: Sequence[int], around: Sequence[int],
    fill: float,
) -> np.ndarray:  # fmt: skip
    lead = x.ndim - len(taps)
    ends = [(0, 0)] * lead + [(p, p) for p in around]
    wide = np.pad(x.astype(np.float64), ends, constant_values=fill)
    axes = tuple(range(lead, x.ndim))
    seen = np.lib.stride_tricks.sliding_window_view(wide, tuple(taps), axes)
    every = tuple([slice(None)] * lead + [slice(None, None, step) for step in steps])
    return np.asarray(FOLDS[fold][1](seen[every], axis=tuple(range(x.ndim, seen.ndim))))


@given(
    st.lists(
        st.tuples(
            st.integers(1, 21), st.integers(1, 5), st.integers(1, 4), st.integers(0, 3)
        ),
        min_size=1, max_size=3,
    ),
    st.integers(1, 3), st.sampled_from((1, 2, 7, 17)), st.sampled_from(tuple(FOLDS)), st.booleans(),
)  # fmt: skip
@settings(max_examples=120, deadline=None)
def test_windows(
    axes: list[tuple[int, int, int, int]], images: int, channels: int, fold: str, last: bool
) -> None:
    """Sizes, taps, steps and padding of one to three axes, channels before or behind them."""
    space, taps, steps, around = zip(*axes, strict=True)
    assume(all(s + 2 * p >= t for s, t, p in zip(space, taps, around, strict=True)))
    fill = FOLDS[fold][2]
    x = np.random.default_rng(len(axes)).uniform(0.5, 1.5, (images, channels, *space))
    want = expected(x.astype(np.float32), fold, taps, steps, around, fill)
    stored = np.moveaxis(x, 1, -1) if last else x
    found = run(pooled(leaf(stored), fold, taps, steps, around, fill, last))
    found = np.moveaxis(found, -1, 1) if last else found
    np.testing.assert_allclose(found, want, rtol=3e-6, atol=3e-6)


@pytest.mark.parametrize("dtype", [float16, bfloat16, float64, int8, int32])
@pytest.mark.parametrize("fold", ["max", "sum"])
def test_element_types(dtype: DType, fold: str) -> None:
    """Sums of narrow numbers are carried in wide ones."""
    x = np.random.default_rng(1).integers(-9, 9, (3, 2, 11, 19))
    fill = 0.0 if fold == "sum" else -128 if dtype.kind == "i" else -np.inf
    found = run(pooled(leaf(x, dtype), fold, (3, 3), (2, 2), (1, 1), fill))
    want = expected(x, fold, (3, 3), (2, 2), (1, 1), fill)
    np.testing.assert_array_equal(found.astype(np.float64), want)


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize(("fold", "fill"), [("max", 2.0), ("sum", 1.0), ("max", 0.0)])
def test_a_border_that_counts(fold: str, fill: float, last: bool) -> None:
    """What lies around is folded in where it is no identity."""
    x = np.random.default_rng(2).uniform(-1, 1, (2, 18, 9, 9))
    stored = np.moveaxis(x, 1, -1) if last else x
    found = run(pooled(leaf(stored), fold, (3, 3), (1, 1), (1, 1), fill, last))
    want = expected(x.astype(np.float32), fold, (3, 3), (1, 1), (1, 1), fill)
    found = np.moveaxis(found, -1, 1) if last else found
    np.testing.assert_allclose(found, want, rtol=3e-6, atol=3e-6)


@pytest.mark.parametrize("last", [False, True])
def test_what_is_around_the_fold(last: bool) -> None:
    """An elementwise operand, and a tail with an operand of its own and one for each channel."""
    draw = np.random.default_rng(3)
    shape = (2, 12, 12, 18) if last else (2, 18, 12, 12)
    x, rest, scale = draw.normal(size=shape), draw.normal(size=shape), draw.normal(size=18)
    wide = leaf(scale if last else scale[:, None, None])
    image = ops.maximum(leaf(x), ops.broadcast_to(ops.constant(0.0, float32), shape))
    fold = pooled(image, "max", (3, 3), (1, 1), (1, 1), -np.inf, last)
    tail = ops.add(ops.multiply(fold, ops.broadcast_to(wide, shape)), leaf(rest))
    front = np.moveaxis(x, -1, 1) if last else x
    want = expected(np.maximum(front, 0), "max", (3, 3), (1, 1), (1, 1), -np.inf)
    want = np.moveaxis(want, 1, -1) * scale if last else want * scale[:, None, None]
    assert text(tail).count("kernel ") == 1
    np.testing.assert_allclose(run(tail), want + rest, rtol=1e-5, atol=1e-5)


def test_nan_is_the_largest() -> None:
    x = np.random.default_rng(4).normal(size=(1, 20, 7, 9)).astype(np.float32)
    x[0, 3, 2, 2] = x[0, 5, 0, 8] = np.nan
    found = run(pooled(leaf(x), "max", (3, 3), (1, 1), (1, 1), -np.inf))
    np.testing.assert_array_equal(
        found, expected(x, "max", (3, 3), (1, 1), (1, 1), -np.inf).astype(np.float32)
    )


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize(("fold", "dtype"), [("max", float32), ("min", float64), ("sum", int32)])
def test_no_masks_inside(fold: str, dtype: DType, last: bool) -> None:
    """Positions outside the image are left out of loops, and rows are folded once."""
    x = np.zeros((2, 28, 28, 32) if last else (2, 32, 28, 28))
    fill = FOLDS[fold][2]
    found = text(pooled(leaf(x, dtype), fold, (5, 5), (1, 1), (2, 2), fill, last))
    assert f"local {pooling.ROW}" in found
    assert " if %" not in found and "select" not in found


def test_plain_sums_stay_as_they_are() -> None:
    """Windows beside each other in a row are an ordinary reduction."""
    x = leaf(np.zeros((64, 32, 8)))
    assert "local" not in text(ops.reduce_sum(x, (2,)))


def in_turn(x: np.ndarray, taps: Sequence[int], steps: Sequence[int], around: int) -> np.ndarray:
    """Sums over padded windows of the last axes, tap by tap."""
    lead = x.ndim - len(taps)
    wide = np.pad(x, [(0, 0)] * lead + [(around, around)] * len(taps))
    seen = np.lib.stride_tricks.sliding_window_view(wide, tuple(taps), tuple(range(lead, x.ndim)))
    seen = seen[tuple([slice(None)] * lead + [slice(None, None, step) for step in steps])]
    total = np.zeros(seen.shape[: x.ndim], x.dtype)
    for tap in np.ndindex(*taps):
        total = total + seen[(..., *tap)]
    return total


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize(
    ("space", "taps", "steps"),
    [((28, 28), (3, 3), (1, 1)), ((27, 30), (3, 3), (2, 2)), ((31,), (4,), (2,)),
     ((9, 7, 12), (3, 2, 3), (1, 1, 1)), ((70, 41), (5, 5), (1, 2)), ((11, 9), (7, 7), (1, 1))],
)  # fmt: skip
def test_sums_of_floats_go_tap_by_tap(
    space: tuple[int, ...], taps: tuple[int, ...], steps: tuple[int, ...], last: bool
) -> None:
    """The bits are those of the plainest order, in which programs with open sizes add as well."""
    x = np.random.default_rng(5).normal(size=(2, 20, *space)).astype(np.float32)
    x[0, 3, (2,) * len(space)] = np.inf  # what lies around is no product with zero
    want = in_turn(x, taps, steps, 1)
    stored = np.moveaxis(x, 1, -1) if last else x
    node = pooled(leaf(stored), "sum", taps, steps, (1,) * len(space), 0.0, last)
    assert f"local {sliding.IMAGE}" in text(node)
    found = run(node)
    np.testing.assert_array_equal(np.moveaxis(found, -1, 1) if last else found, want)


@pytest.mark.parametrize("step", [1, 2])
@pytest.mark.parametrize("count", [False, True])
def test_averages_of_open_sizes(step: int, count: bool) -> None:
    """Sizes that have changed are open: the same bits as of a program for one size."""
    average = functools.partial(
        lm.nn.functional.avg_pool2d, kernel_size=3, stride=step, padding=1, count_include_pad=count
    )
    step_of = lm.jit(average)
    for rows, columns in ((9, 12), (14, 31), (40, 17), (33, 65)):
        x = np.random.default_rng(rows).normal(size=(2, 3, rows, columns)).astype(np.float32)
        want = in_turn(x, (3, 3), (step, step), 1)
        by = 9.0 if count else in_turn(np.ones_like(x), (3, 3), (step, step), 1)
        with lm.no_grad():
            np.testing.assert_array_equal(step_of(lm.asarray(x)).numpy(), want / by)
            np.testing.assert_array_equal(average(lm.asarray(x)).numpy(), want / by)


def test_an_average_may_replace_what_it_is_added_to() -> None:
    """The tail reads what is written over: no row is made twice."""
    draw = np.random.default_rng(6)
    x, y = (draw.normal(size=(3, 2, 35, 8)).astype(np.float32) for _ in range(2))

    @lm.jit
    def step(state: dict[str, lm.Tensor], x: lm.Tensor) -> None:
        state["y"] = state["y"] + lm.nn.functional.avg_pool2d(x, 3, 1, 1) * 9.0

    state = {"y": lm.asarray(y)}
    for _ in range(2):
        step(state, lm.asarray(x))
    want = y + 2 * in_turn(x, (3, 3), (1, 1), 1)
    np.testing.assert_allclose(state["y"].numpy(), want, rtol=1e-4, atol=1e-5)


def test_open_batches() -> None:
    """How many images there are may be open."""
    x = ops.placeholder((Dim("n"), 8, 28, 28), float32)
    found = pooled(x, "max", (3, 3), (2, 2), (1, 1), -np.inf)
    (kernel,) = compile_graph([found], [x], [], AVX512, verify=True).kernels
    assert f"local {pooling.ROW}" in kernel_text(kernel)
    step = lm.jit(lambda x: lm.nn.functional.max_pool2d(x, 3, 2, 1))
    for count in (1, 3, 5, 2):
        images = np.random.default_rng(count).normal(size=(count, 8, 28, 28)).astype(np.float32)
        want = expected(images, "max", (3, 3), (2, 2), (1, 1), -np.inf)
        with lm.no_grad():
            np.testing.assert_array_equal(step(lm.asarray(images)).numpy(), want)
