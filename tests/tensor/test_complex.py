"""Complex tensors: functions at special points, gradients, promotion, exchange, errors."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Iterator
from pathlib import Path

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lamella as lm
from lamella.config import config
from lamella.errors import DTypeError, GradientError, ShapeError


@pytest.fixture(autouse=True)
def _compiled() -> Iterator[None]:
    """On compiled code: the interpreter would compare NumPy with itself."""
    with config(backend="llvm"):
        yield


NUMPY = {
    "asin": "arcsin", "acos": "arccos", "atan": "arctan", "asinh": "arcsinh", "acosh": "arccosh",
    "atanh": "arctanh",
}  # fmt: skip
FUNCTIONS = (
    "abs", "sqrt", "exp", "log", "log2", "log10", "sin", "cos", "tan", "sinh", "cosh", "tanh",
    "asin", "acos", "atan", "asinh", "acosh", "atanh", "square",
)  # fmt: skip
ENDS = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 0.5, -2.5, 3.0, 1e-4, -30.0, 1e-20, 2.0,
        -2.0, 1e18, 700.0, 710.0]  # fmt: skip
KINDS = ((np.complex64, 3e-5, [1e38, 1e-40]), (np.complex128, 1e-12, [1e308, 1e-310]))


def grid(dtype: type, ends: list[float]) -> np.ndarray:
    """All pairs of ``ends``; not by arithmetic, which would make nan of infinities."""
    found = np.empty((len(ends), len(ends)), dtype)
    found.real, found.imag = np.array(ends)[:, None], np.array(ends)
    return found.reshape(-1)


def close_parts(found: np.ndarray, expected: np.ndarray, rtol: float, atol: float = 0) -> None:
    """Equal parts, nan and infinities included."""
    tiny = max(1e-37 if rtol > 1e-6 else 1e-300, atol)
    if np.iscomplexobj(expected):
        close_parts(found.real, expected.real, rtol, atol)
        close_parts(found.imag, expected.imag, rtol, atol)
        return
    np.testing.assert_allclose(found, expected, rtol=rtol, atol=tiny)


def without_cancellation(
    found: np.ndarray, expected: np.ndarray, a: np.ndarray, b: np.ndarray
) -> np.ndarray:
    """``found`` with the parts of a product that rounding alone decides (with or without fused
    multiply-add) as they are expected.
    """
    settled = found.copy()
    with np.errstate(all="ignore"):
        size = 4 * np.finfo(found.dtype).eps * np.abs(a) * np.abs(b)
        for mine, theirs in ((settled.real, expected.real), (settled.imag, expected.imag)):
            near = np.abs(mine - theirs) <= size
            mine[near] = theirs[near]
    return settled


@pytest.mark.parametrize(("dtype", "rtol", "more"), KINDS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_special_values(name: str, dtype: type, rtol: float, more: list[float]) -> None:
    z = grid(dtype, ENDS + more)
    if name in ("sin", "sinh"):  # C99 leaves the sign open where no part is finite
        z = z[np.isfinite(z.real) | np.isfinite(z.imag)]
    with np.errstate(all="ignore"):
        if name == "square":  # whether inf - inf comes up depends on fused multiply-add
            for part in (np.real, np.imag):
                z = z[~np.isfinite(part(z)) | np.isfinite(part(z) ** 2)]
        expected = getattr(np, NUMPY.get(name, name))(z)
    found = getattr(lm, name)(lm.asarray(z)).numpy()
    assert found.dtype == expected.dtype
    if name == "square":
        found = without_cancellation(found, expected, z, z)
    close_parts(found, expected, rtol)
    if name in ("sqrt", "log", "sin", "sinh", "asin", "acos", "atan", "asinh", "acosh", "atanh"):
        for part in (np.real, np.imag):  # signs of zeros tell the sides of a branch cut apart
            zero = (part(found) == 0) & (part(expected) == 0)
            sides = np.signbit(part(found)), np.signbit(part(expected))
            np.testing.assert_array_equal(sides[0][zero], sides[1][zero])


@pytest.mark.parametrize(("dtype", "rtol", "more"), KINDS)
@pytest.mark.parametrize("name", ["add", "subtract", "multiply", "divide"])
def test_special_arithmetic(name: str, dtype: type, rtol: float, more: list[float]) -> None:
    z = grid(dtype, ENDS[:13])
    a, b = np.repeat(z, len(z)), np.tile(z, len(z))
    with np.errstate(all="ignore"):
        expected = getattr(np, name)(a, b)
    atol = rtol if name == "divide" else 0.0  # where products cancel, their rounding is left
    found = getattr(lm, name)(lm.asarray(a), lm.asarray(b)).numpy()
    if name == "multiply":
        found = without_cancellation(found, expected, a, b)
    close_parts(found, expected, rtol, atol)


@pytest.mark.parametrize("name", ["expm1", "log1p", "log", "exp", "sqrt", "tanh", "asin", "atanh"])
def test_precision_against_mpmath(name: str) -> None:
    rng = np.random.default_rng(3)
    size = 10.0 ** rng.uniform(-6, 1, (2, 300))
    z = size[0] * np.exp(1j * rng.uniform(-np.pi, np.pi, 300))
    z[:40] = np.exp(1j * rng.uniform(-np.pi, np.pi, 40))  # the unit circle, where logs vanish
    with mpmath.workdps(40):
        exactly = {"log1p": lambda v: mpmath.log(1 + v)}.get(name) or getattr(mpmath, name)
        exact = np.array([complex(exactly(mpmath.mpc(v))) for v in z])
    found = getattr(lm, name)(lm.asarray(z)).numpy()
    assert np.max(np.abs(found - exact) / np.abs(exact)) < 1e-14


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.complex_numbers(max_magnitude=1e3, allow_nan=False), min_size=1, max_size=5),
    st.integers(-3, 4),
)
def test_powers(values: list[complex], exponent: int) -> None:
    z = np.array(values) + 0.5
    with np.errstate(all="ignore"):
        expected = z**exponent
    found = (lm.asarray(z) ** exponent).numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12)


def test_making_and_taking_apart() -> None:
    z = lm.complex([1.0, 2.0], [3.0, -4.0])
    assert z.dtype is lm.complex64 and z.is_complex()
    assert z.real.tolist() == [1.0, 2.0] and lm.imag(z).tolist() == [3.0, -4.0]
    assert lm.conj(z).tolist() == [1 - 3j, 2 + 4j]
    np.testing.assert_allclose(z.angle().numpy(), np.angle(z.numpy()), rtol=1e-6)
    pairs = lm.view_as_real(z)
    assert pairs.shape == (2, 2) and lm.view_as_complex(pairs).tolist() == z.tolist()
    np.testing.assert_allclose(lm.polar(lm.abs(z), lm.angle(z)).numpy(), z.numpy(), rtol=1e-6)
    assert lm.complex(lm.asarray(np.ones(2)), 1).dtype is lm.complex128
    assert lm.complex(np.inf, 1.0).item() == complex(np.inf, 1.0)
    assert lm.imag([1.0, 2.0]).tolist() == [0.0, 0.0]


def test_python_complex_numbers_are_weak() -> None:
    assert (lm.ones(2) * 1j).dtype is lm.complex64
    assert (lm.ones(2, dtype=lm.float64) + 1j).dtype is lm.complex128
    assert (lm.asarray([1 + 1j]) * 2).dtype is lm.complex64
    assert (lm.arange(2) * 1j).tolist() == [0j, 1j]
    assert lm.tensor(1 + 2j).dtype is lm.complex64 and lm.tensor([1, 2j]).shape == (2,)
    assert lm.full((2,), 1j).tolist() == [1j, 1j]
    assert lm.result_type(lm.float64, lm.complex64) is lm.complex128
    assert lm.result_type(lm.float16, 1j) is lm.complex64
    assert lm.isdtype(lm.complex64, "complex floating") and lm.isdtype(lm.complex64, "numeric")
    assert lm.finfo(lm.complex128).bits == 64
    assert lm.promote_types(lm.int32, lm.complex64) is lm.complex64


def test_what_has_no_order_or_meaning_is_refused() -> None:
    z = lm.asarray([1 + 1j, 2 - 1j])
    for function in (
        lambda: z < 1, lambda: z >= z, lambda: lm.maximum(z, z), lambda: lm.sort(z),
        lambda: lm.argmax(z), lambda: lm.max(z), lambda: lm.floor(z), lambda: z // 2,
        lambda: z % 2, lambda: z & 1, lambda: lm.erf(z), lambda: z.astype(lm.float32),
        lambda: lm.asarray(np.array([1j]), dtype=lm.float32), lambda: lm.cummax(z),
        lambda: lm.complex(z, 1.0), lambda: lm.ones(2).at[0].set(1j), lambda: lm.atan2(z, z),
    ):  # fmt: skip
        with pytest.raises(DTypeError, match=r"complex|order|promote"):
            function()
    with pytest.raises(ShapeError):
        lm.view_as_complex(lm.ones(3))


def test_gradients_follow_the_documented_convention() -> None:
    z = lm.tensor([1 + 2j, -3 + 0.5j], requires_grad=True)
    lm.sum(lm.square(lm.abs(z))).backward()  # |z|² grows along 2z
    assert z.grad is not None and z.grad.dtype is lm.complex64
    np.testing.assert_allclose(z.grad.numpy(), 2 * z.numpy(), rtol=1e-6)

    def loss(z: lm.Tensor) -> lm.Tensor:
        return lm.sum(lm.abs(lm.exp(z * 1j) / (z + 3.0) - z**3))

    grad = lm.grad(loss)(lm.asarray(z.numpy()))
    np.testing.assert_allclose(grad.numpy(), numeric(loss, z.numpy()), rtol=1e-4, atol=1e-4)
    with pytest.raises(GradientError, match="complex"):
        lm.sum(z * z).backward()


def numeric(loss: object, z: np.ndarray, h: float = 1e-5) -> np.ndarray:
    """dL/da + i dL/db by central differences in double precision."""
    z = z.astype(np.complex128)
    found = np.zeros_like(z)
    for i in range(z.size):
        for unit in (1, 1j):
            step = np.zeros_like(z)
            step[i] = h * unit
            high, low = (loss(lm.asarray(z + s * step)).item() for s in (1, -1))  # type: ignore[operator]
            found[i] += unit * (high - low) / (2 * h)
    return found


def test_transformations() -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((2, 4, 4)) @ np.array([1.0, 0, 0, 1j]) for _ in range(2))
    f = lambda x, y: lm.sum(lm.abs(lm.sin(x * y)))  # noqa: E731
    x, y = lm.asarray(a), lm.asarray(b)
    np.testing.assert_allclose(lm.jit(f)(x, y).item(), np.abs(np.sin(a * b)).sum())
    np.testing.assert_allclose(lm.jit(lm.grad(f))(x, y).numpy(), lm.grad(f)(x, y).numpy())
    rows = lm.vmap(lm.grad(f))(x, y)
    for i in range(2):
        np.testing.assert_allclose(rows[i].numpy(), lm.grad(f)(x[i], y[i]).numpy(), rtol=1e-10)
    _, tangent = lm.jvp(lambda x: x * x, (x,), (y,))
    np.testing.assert_allclose(tangent.numpy(), 2 * a * b)
    _, pull = lm.vjp(lambda x: x * x, x)
    np.testing.assert_allclose(pull(y)[0].numpy(), 2 * np.conj(a) * b)
    state = lm.asarray(a)

    @lm.jit
    def step(z: lm.Tensor, scale: complex) -> lm.Tensor:
        return z * scale + lm.conj(z)

    for scale in (2.0, 1j, 1 - 1j):
        np.testing.assert_allclose(step(state, scale).numpy(), a * scale + np.conj(a))


def test_reductions_products_and_indexing() -> None:
    rng = np.random.default_rng(1)
    a, b = rng.standard_normal((2, 3, 4, 2)) @ np.array([1, 1j])
    x, y = lm.asarray(a), lm.asarray(b)
    np.testing.assert_allclose((x @ y.T).numpy(), a @ b.T)
    np.testing.assert_allclose(lm.einsum("ij,kj->ik", x, y).numpy(), a @ b.T)
    for name in ("sum", "prod", "mean", "var", "std"):
        for axis in (None, 0, 1):
            expected = getattr(np, name)(a, axis=axis)
            found = getattr(lm, name)(x, axis=axis).numpy()
            assert found.dtype == expected.dtype
            np.testing.assert_allclose(found, expected, rtol=1e-12)
    np.testing.assert_allclose(lm.cumsum(x, 1).numpy(), np.cumsum(a, 1))
    np.testing.assert_allclose(lm.cumprod(x, 0).numpy(), np.cumprod(a, 0))
    np.testing.assert_allclose(lm.cumulative_prod(lm.ravel(x)).numpy(), np.cumprod(a))
    assert lm.prod(lm.zeros((0, 2), dtype=lm.complex64), axis=0).tolist() == [1, 1]
    np.testing.assert_array_equal(x[lm.asarray([2, 0])].numpy(), a[[2, 0]])
    x[1] = 1j
    a[1] = 1j
    np.testing.assert_array_equal(x.numpy(), a)
    np.testing.assert_array_equal(lm.round(x, 1).numpy(), np.round(a, 1))
    assert lm.any(x).item() and (x == x).all() and lm.count_nonzero(x).item() == 12
    assert lm.allclose(x, x + 1e-9) and not lm.allclose(x, x + 1e-3j)


def test_sizes_may_change() -> None:
    f = lm.jit(lambda x: lm.sum(x * x), dynamic={"x": {0: "n"}})
    for n in (3, 4, 7, 0):
        z = np.arange(n) + 1j
        np.testing.assert_allclose(f(lm.asarray(z)).item(), (z * z).sum())
    total = lm.asarray(np.zeros(1, np.complex128))
    for n in (2, 3, 5, 9):
        total = total + lm.sum(lm.exp(lm.asarray(np.full(n, 1j))))
    np.testing.assert_allclose(total.numpy(), [19 * np.exp(1j)])


def test_printing_copying_files_and_exchange(tmp_path: Path) -> None:
    z = lm.asarray([1 + 2j, 0.5j])
    assert repr(z) == "tensor([1.+2.j , 0.+0.5j], dtype=complex64)"
    assert complex(z[0]) == 1 + 2j and z[0].item() == 1 + 2j
    assert f"{z[0]}" == "(1+2j)"
    for other in (copy.deepcopy(z), pickle.loads(pickle.dumps(z)), lm.from_dlpack(z)):
        assert other.dtype is lm.complex64 and other.tolist() == z.tolist()
    assert np.from_dlpack(z).tolist() == z.tolist()
    lm.save({"z": z}, tmp_path / "z.safetensors")
    back = lm.load(tmp_path / "z.safetensors")["z"]
    assert back.dtype is lm.complex64 and back.tolist() == z.tolist()
    with pytest.raises(DTypeError, match="complex128"):
        lm.save({"z": z.cdouble()}, tmp_path / "w.safetensors")


def test_optimisers_descend() -> None:
    z = lm.tensor([3 - 4j], requires_grad=True)
    opt = lm.optim.SGD([z], lr=0.1)
    for _ in range(50):
        loss = lm.sum(lm.square(lm.abs(z - (1 + 1j))))
        opt.zero_grad()
        loss.backward()
        opt.step()
    np.testing.assert_allclose(z.numpy(), [1 + 1j], atol=1e-3)


def test_state_is_written_in_place() -> None:
    z = lm.asarray(np.exp(1j * np.arange(5000.0)))
    expected = z.numpy().copy()

    @lm.jit
    def step(x: lm.Tensor) -> lm.Tensor:
        nonlocal z
        z = z * x + 1j
        return lm.sum(lm.abs(z))

    for _ in range(4):
        total = step(lm.asarray(0.5 - 0.5j))
        expected = expected * np.complex64(0.5 - 0.5j) + 1j
        np.testing.assert_allclose(total.item(), np.abs(expected).sum(), rtol=1e-6)
    np.testing.assert_allclose(z.numpy(), expected, rtol=1e-6)
