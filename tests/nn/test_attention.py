"""Attention in tiles: values and gradients against NumPy in float64, over shapes, masks and bands.

The reference makes the whole matrix of weights. Gradients are the formula's, checked once against
finite differences.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lamella as lm
from lamella import nn
from lamella.config import config
from lamella.errors import DTypeError, OptionError, ShapeError
from lamella.ir.loop_interp import run_kernel
from lamella.ir.node import topological
from lamella.ir.vectors import VectorUnit
from lamella.ops.attention_setting import forced
from lamella.tensor import pending
from tests.nn.helpers import check_gradient
from tests.support.llvm_backend import target_named
from tests.support.programs import nodes_of, run_program
from tests.support.units import AVX2, AVX512, NEON, SSE

Array = np.ndarray
sdpa = nn.functional.scaled_dot_product_attention


@dataclass
class Case:
    """Inputs of one call, drawn from a seed."""

    q: tuple[int, ...]
    k: tuple[int, ...]
    width: int
    mask: str = ""  # "", "bool", "float", "keys"
    window: tuple[int | None, int | None] | None = None
    causal: bool = False
    seed: int = 0
    options: dict[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        rng = np.random.default_rng(self.seed)
        self.arrays = [rng.standard_normal(s) for s in (self.q, self.k, (*self.k[:-1], self.width))]
        if self.mask:
            full = (self.q[-2], self.k[-2]) if self.mask != "keys" else (1, self.k[-2])
            shown = rng.random(full) < 0.7
            noise = np.where(shown, rng.standard_normal(full), -np.inf)
            self.options["attn_mask"] = noise if self.mask == "float" else shown
        if self.window:
            self.options["window"] = self.window
        if self.causal:
            self.options["is_causal"] = True

    def scores(self) -> Array:
        q, k, _ = self.arrays
        s = q @ np.swapaxes(k, -1, -2) / np.sqrt(max(q.shape[-1], 1))
        gap = np.arange(s.shape[-1])[None, :] - np.arange(s.shape[-2])[:, None]
        before, after = self.window or (None, None)
        after = 0 if self.causal else after
        if before is not None:
            s = np.where(gap < -before, -np.inf, s)
        if after is not None:
            s = np.where(gap > after, -np.inf, s)
        mask = self.options.get("attn_mask")
        if mask is None:
            return s
        return np.where(mask, s, -np.inf) if mask.dtype == bool else s + mask

    def weights(self) -> Array:
        s = self.scores()
        top = s.max(-1, keepdims=True, initial=-np.inf)
        e = np.exp(s - np.where(np.isinf(top), 0, top))
        total = e.sum(-1, keepdims=True)
        return e / np.where(total == 0, 1, total)

    def gradients(self, d_out: Array) -> list[Array]:
        q, k, v = self.arrays
        p, scale = self.weights(), 1 / np.sqrt(max(q.shape[-1], 1))
        dp = d_out @ np.swapaxes(v, -1, -2)
        ds = p * (dp - (dp * p).sum(-1, keepdims=True)) * scale
        t = np.swapaxes
        found = [ds @ k, t(ds, -1, -2) @ q, t(p, -1, -2) @ d_out]
        return [summed(g, a.shape) for g, a in zip(found, (q, k, v), strict=True)]

    def check(self, dtype: lm.DType, rtol: float) -> None:
        leaves = [lm.tensor(a, dtype=dtype, requires_grad=True) for a in self.arrays]
        self.arrays = [x.detach().astype(lm.float64).numpy() for x in leaves]
        y = sdpa(*leaves, **self.options)
        expected = self.weights() @ self.arrays[2]
        assert y.dtype is dtype and y.shape == expected.shape
        d_out = np.random.default_rng(1).standard_normal(expected.shape)
        (y * lm.asarray(d_out, dtype=dtype)).sum().backward()
        d_out = lm.asarray(d_out, dtype=dtype).astype(lm.float64).numpy()
        pairs = [(y, expected)]
        pairs += zip([x.grad for x in leaves], self.gradients(d_out), strict=True)
        for found, wanted in pairs:
            scale = max(1.0, float(np.abs(wanted).max(initial=0)))
            value = found.detach().astype(lm.float64).numpy()
            np.testing.assert_allclose(value, wanted, rtol=rtol, atol=rtol * scale)


def summed(gradient: Array, shape: tuple[int, ...]) -> Array:
    """A gradient summed over broadcast axes."""
    gradient = gradient.sum(tuple(range(gradient.ndim - len(shape))))
    axes = tuple(i for i, n in enumerate(shape) if n == 1 and gradient.shape[i] != 1)
    return gradient.sum(axes, keepdims=True)


LENGTHS = st.sampled_from([0, 1, 2, 7, 8, 9, 13, 31, 64, 65, 97, 130])
WIDTHS = st.sampled_from([1, 3, 8, 16, 17, 40, 64])
SIDES = st.sampled_from([None, 0, 1, 5, 63, 64, 100])


@settings(max_examples=40, deadline=None)
@given(
    lead=st.sampled_from([(), (1,), (3,), (2, 3), (0,)]),
    rows=LENGTHS, keys=LENGTHS, depth=WIDTHS, width=WIDTHS,
    mask=st.sampled_from(["", "", "bool", "float", "keys"]),
    window=st.none() | st.tuples(SIDES, SIDES), shared=st.booleans(), seed=st.integers(0, 99),
)  # fmt: skip
def test_random_shapes(
    lead: tuple[int, ...], rows: int, keys: int, depth: int, width: int, mask: str,
    window: tuple[int | None, int | None] | None, shared: bool, seed: int,
) -> None:  # fmt: skip
    heads = (*lead[:-1], 1) if shared and lead and lead[-1] else lead
    case = Case((*lead, rows, depth), (*heads, keys, depth), width, mask, window, seed=seed)
    case.check(lm.float32 if seed % 2 else lm.float64, 2e-5 if seed % 2 else 1e-11)


@pytest.mark.parametrize(("dtype", "rtol"), [(lm.float16, 4e-3), (lm.bfloat16, 3e-2)])
def test_narrow_storage(dtype: lm.DType, rtol: float) -> None:
    Case((2, 70, 24), (2, 90, 24), 24, causal=True).check(dtype, rtol)
    Case((2, 70, 24), (2, 90, 24), 24, mask="float").check(dtype, rtol)


FORCED = {32: 5, 96: 6, 128: 7, 192: 8}  # heads, so that no two blocks have a program in common


@settings(max_examples=25, deadline=None)
@given(
    block=st.sampled_from(list(FORCED)), rows=st.integers(1, 260), keys=st.integers(1, 260),
    depth=WIDTHS, mask=st.sampled_from(["", "bool", "float", "keys"]),
    window=st.none() | st.tuples(SIDES, SIDES), seed=st.integers(0, 99),
)  # fmt: skip
def test_tiles_of_other_sizes(
    block: int, rows: int, keys: int, depth: int, mask: str,
    window: tuple[int | None, int | None] | None, seed: int,
) -> None:  # fmt: skip
    lead = (FORCED[block],)
    with forced(block):
        Case((*lead, rows, depth), (*lead, keys, depth), 9, mask, window, seed=seed).check(
            lm.float32, 2e-5
        )


@pytest.mark.parametrize("target", ["avx2", "x86-64-v2"])
def test_narrower_vectors(target: str) -> None:
    target_named(target)  # or the test is skipped
    with config(target=target):
        Case((2, 70, 24), (2, 90, 24), 20, causal=True).check(lm.float32, 2e-5)


@pytest.mark.parametrize("unit", [SSE, AVX2, AVX512, NEON])
@pytest.mark.parametrize("dtype", [lm.float32, lm.float64])
@pytest.mark.parametrize(("rows", "keys"), [(8, 1), (9, 5), (8, 9), (11, 13), (12, 8)])
def test_kernels_for_every_kind_of_vectors(
    unit: VectorUnit, dtype: lm.DType, rows: int, keys: int
) -> None:
    case = Case((rows, 1), (keys, 1), 1)
    d_out = np.random.default_rng(1).standard_normal((rows, 1))
    q, k, v, d = (lm.asarray(a, dtype=dtype) for a in (*case.arrays, d_out))
    pending.flush()
    with config(flush=0):  # nothing is computed before it is looked at
        gradients = lm.grad(lambda q, k, v: (sdpa(q, k, v) * d).sum(), argnums=(0, 1, 2))(q, k, v)
        outputs = nodes_of([sdpa(q, k, v), *gradients])
    assert any(node.op.name == "attention_backward" for node in topological(outputs))
    found = run_program(outputs, run_kernel, unit)
    wanted = [case.weights() @ case.arrays[2], *case.gradients(d_out)]
    for array, expected in zip(found, wanted, strict=True):
        np.testing.assert_allclose(array, expected, rtol=2e-5, atol=1e-6)


def test_many_heads_and_long_rows() -> None:
    Case((20, 130, 16), (20, 130, 16), 16, causal=True).check(lm.float32, 2e-5)
    Case((1, 1000, 16), (1, 700, 16), 16, window=(100, 3)).check(lm.float32, 2e-5)


def test_grouped_heads() -> None:
    rng = np.random.default_rng(0)
    q, k, v = (rng.standard_normal((2, heads, 12, 8)) for heads in (6, 2, 2))
    mask = rng.random((2, 6, 12, 12)) < 0.8
    for options in ({}, {"is_causal": True}, {"attn_mask": mask}, {"attn_mask": mask[:, :1]}):
        leaves = [lm.tensor(a, requires_grad=True) for a in (q, k, v)]
        y = sdpa(*leaves, enable_gqa=True, **options)
        wide = [lm.tensor(a, requires_grad=True) for a in (q, k.repeat(3, 1), v.repeat(3, 1))]
        expected = sdpa(*wide, **options)
        np.testing.assert_allclose(y.detach().numpy(), expected.detach().numpy(), rtol=1e-12)
        (y * y).sum().backward()
        (expected * expected).sum().backward()
        np.testing.assert_allclose(leaves[0].grad.numpy(), wide[0].grad.numpy(), rtol=1e-9)
        for narrow, full in zip(leaves[1:], wide[1:], strict=True):
            total = full.grad.numpy().reshape(2, 2, 3, 12, 8).sum(2)
            np.testing.assert_allclose(narrow.grad.numpy(), total, rtol=1e-9, atol=1e-12)


def test_gradients_by_finite_differences() -> None:
    rng = np.random.default_rng(0)
    q, k, v = (lm.asarray(rng.standard_normal((1, n, 3))) for n in (8, 9, 9))
    mask = lm.asarray(rng.standard_normal((8, 9)))
    check_gradient(lambda t: sdpa(t, k, v, is_causal=True), q.numpy())
    check_gradient(lambda t: sdpa(q, t, v, attn_mask=mask), k.numpy())
    check_gradient(lambda t: sdpa(q, k, t, window=(2, 1)), v.numpy())
    check_gradient(lambda t: sdpa(q, k, v, attn_mask=t), mask.numpy())


def test_second_derivatives_and_vmap() -> None:
    rng = np.random.default_rng(0)
    q, k, v = (lm.asarray(rng.standard_normal((2, 9, 3))) for _ in range(3))

    def tiles(q: lm.Tensor, k: lm.Tensor, v: lm.Tensor) -> lm.Tensor:
        return lm.sum(sdpa(q, k, v, is_causal=True) ** 2)

    def plain(q: lm.Tensor, k: lm.Tensor, v: lm.Tensor) -> lm.Tensor:
        weights = nn.functional.attention.attention_weights(q, k, None, True)
        return lm.sum((weights @ v) ** 2)

    def second(f: object) -> lm.Tensor:
        inner = lm.grad(f, argnums=(0, 1, 2))
        return lm.grad(lambda q, k, v: sum(lm.sum(g * g) for g in inner(q, k, v)), (0, 1, 2))(
            q, k, v
        )

    for found, wanted in zip(second(tiles), second(plain), strict=True):
        np.testing.assert_allclose(found.numpy(), wanted.numpy(), rtol=1e-9, atol=1e-12)
    push = [lm.jvp(lm.grad(f), (q, k, v), (k, v, q))[1].numpy() for f in (tiles, plain)]
    np.testing.assert_allclose(*push, rtol=1e-9, atol=1e-12)
    for axes in ((0, 0, 0), (0, None, None), (None, 0, None), (None, None, 0)):
        given = [x if a == 0 else x[0] for x, a in zip((q, k, v), axes, strict=True)]
        values = [
            lm.vmap(lm.grad(f, argnums=(0, 1, 2)), in_axes=axes)(*given) for f in (tiles, plain)
        ]
        for found, wanted in zip(*values, strict=True):
            np.testing.assert_allclose(found.numpy(), wanted.numpy(), rtol=1e-9, atol=1e-12)


def test_rows_that_see_nothing() -> None:
    x = lm.tensor(np.ones((9, 4)), requires_grad=True)
    for mask in (np.zeros((9, 9), bool), np.full((9, 9), -np.inf)):
        y = sdpa(x, x, x, attn_mask=lm.asarray(mask))
        y.sum().backward()
        assert (y.detach().numpy() == 0).all() and np.isfinite(x.grad.numpy()).all()
    few = sdpa(x[:2], x, x, attn_mask=lm.asarray(np.full((2, 9), -np.inf)))
    assert (few.detach().numpy() == 0).all()


def test_nan_stays_in_its_row() -> None:
    q, k, v = np.ones((2, 10, 4)), np.ones((2, 12, 4)), np.ones((2, 12, 4))
    q[1, 3] = np.nan
    found = sdpa(*(lm.asarray(a) for a in (q, k, v)), is_causal=True).numpy()
    assert np.isfinite(found[0]).all()
    assert np.isnan(found[1, 3]).all() and np.isfinite(np.delete(found[1], 3, 0)).all()


def test_same_bits_for_any_number_of_threads() -> None:
    values = []
    for threads in (1, 2, 3):
        with config(threads=threads):
            leaves = [
                lm.tensor(a, dtype=lm.float32, requires_grad=True)
                for a in np.random.default_rng(0).standard_normal((3, 2, 200, 16))
            ]
            y = sdpa(*leaves, is_causal=True)
            (y * y).sum().backward()
            values.append([y.detach().numpy(), *(x.grad.numpy() for x in leaves)])
    for other in values[1:]:
        for a, b in zip(values[0], other, strict=True):
            assert a.tobytes() == b.tobytes()


def test_memory_is_that_of_the_operands() -> None:
    q = lm.zeros((1, 4000, 16))
    plan = lm.jit(lambda q: sdpa(q, q, q, is_causal=True)).lower(q)
    assert "4000, 4000" not in plan.text(1)


def test_misuse() -> None:
    x = lm.ones((9, 4))
    with pytest.raises(DTypeError, match="one floating-point dtype"):
        sdpa(x, x.astype(lm.float64), x)
    with pytest.raises(ShapeError, match="at least the axes"):
        sdpa(lm.ones(4), x, x)
    for window in (3, (1,), (-1, 0), (1.5, 0), (True, 0)):
        with pytest.raises(OptionError, match="window"):
            sdpa(x, x, x, window=window)
    with pytest.raises(ShapeError, match="no multiple"):
        sdpa(lm.ones((3, 9, 4)), lm.ones((2, 9, 4)), lm.ones((2, 9, 4)), enable_gqa=True)


def test_sizes_that_change() -> None:
    f = lm.jit(lambda q, k: sdpa(q, k, k, is_causal=True))
    for rows, keys, depth in ((9, 9, 4), (20, 9, 4), (70, 130, 4), (70, 131, 4), (9, 9, 5)):
        case = Case((2, rows, depth), (2, keys, depth), depth, causal=True)
        q, k, _ = case.arrays
        case.arrays[2] = k
        expected = case.weights() @ k
        for g in (f, lambda q, k: sdpa(q, k, k, is_causal=True)):
            np.testing.assert_allclose(g(lm.asarray(q), lm.asarray(k)).numpy(), expected, rtol=1e-9)


@pytest.mark.parametrize("depth", [129, 256])
def test_wide_heads_whose_tiles_leave_the_stack(depth: int) -> None:
    Case((2, 70, depth), (2, 90, depth), depth, causal=True).check(lm.float32, 3e-5)
