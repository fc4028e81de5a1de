"""Fourier transforms against NumPy and SciPy: every length class, norm, axis; derivatives by the
transform's own linearity; transformations; wrong uses.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.fft
from hypothesis import given, settings
from hypothesis import strategies as st

import lamella as lm
from lamella.tensor.fft.plan import divisor

F = lm.fft
Array = np.ndarray[Any, Any]
# one contraction; a prime of one; two stages; a large prime factor; a chirp; three stages
LENGTHS = [1, 2, 63, 100, 127, 200, 2 * 211, 509, 600, 67 * 67, 4096]


def drawn(*shape: int, dtype: str = "complex128") -> Array:
    rng = np.random.default_rng(zlib.crc32(repr(shape).encode()))
    x = rng.normal(size=shape)
    return (x + 1j * rng.normal(size=shape) if "complex" in dtype else x).astype(dtype)


def close(got: Any, want: Array, steps: float = 1.0) -> None:
    """Within the stated error: a multiple of the root of the mean square."""
    single = got.dtype.name in ("complex64", "float32")
    size = max(float(np.sqrt(np.mean(np.abs(want) ** 2))), 1e-300) if want.size else 1.0
    unit = (1e-6 if single else 2e-15) * max(1.0, np.log2(max(want.shape, default=1) + 1)) * steps
    np.testing.assert_allclose(got.numpy(), want, rtol=0, atol=unit * size)


@pytest.mark.parametrize("kind", ["single", "double"])
@pytest.mark.parametrize("n", LENGTHS)
def test_every_length(n: int, kind: str) -> None:
    real, full = ("float32", "complex64") if kind == "single" else ("float64", "complex128")
    z, x = drawn(2, n, dtype=full), drawn(2, n, dtype=real)
    half = drawn(2, n // 2 + 1, dtype=full)
    for got, want in (
        (F.fft(z), scipy.fft.fft(z)), (F.ifft(z), scipy.fft.ifft(z)),
        (F.fft(x), scipy.fft.fft(x)), (F.rfft(x), scipy.fft.rfft(x)),
        (F.irfft(half, n), scipy.fft.irfft(half, n)), (F.hfft(half, n), scipy.fft.hfft(half, n)),
        (F.ihfft(x), scipy.fft.ihfft(x)),
    ):  # fmt: skip
        assert got.dtype.name == want.dtype.name
        close(got, want)


@pytest.mark.parametrize("shape", [(9, 96), (16, 130), (21, 1001), (3, 360), (1, 100_000),
                                   (2, 2**17)])  # fmt: skip
@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_many_beside_each_other_and_long_ones(shape: tuple[int, int], dtype: str) -> None:
    """Whole in the lanes of vectors, vectors that are not full, two transforms in the place of one,
    and what those derivatives are: the transform with the other sign.
    """
    z, by = drawn(*shape, dtype=dtype), drawn(*shape, dtype=dtype)
    close(F.fft(z), scipy.fft.fft(z))
    _, back = lm.vjp(F.fft, z)
    close(back(by)[0], scipy.fft.ifft(by, norm="forward"))
    close(lm.vmap(F.ifft)(z), scipy.fft.ifft(z))


@pytest.mark.parametrize("norm", ["backward", "ortho", "forward"])
@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"])
@pytest.mark.parametrize("n", [None, 9, 81])
def test_norms_lengths_and_axes(name: str, norm: str, n: int | None) -> None:
    x = drawn(3, 8, 2, dtype="float64" if name in ("rfft", "ihfft") else "complex128")
    for axis in (0, 1, -2):
        if n is None and axis == 0 and name in ("irfft", "hfft"):
            continue
        got = getattr(F, name)(x, n=n, axis=axis, norm=norm)
        want = getattr(np.fft, name)(x, n=n, axis=axis, norm=norm)
        assert got.shape == want.shape
        close(got, want)


@pytest.mark.parametrize("norm", ["backward", "ortho", "forward"])
@pytest.mark.parametrize("name", ["fftn", "ifftn", "rfftn", "irfftn"])
def test_several_axes(name: str, norm: str) -> None:
    x = drawn(4, 6, 70, dtype="float64" if name == "rfftn" else "complex128")
    cases: list[tuple[Any, Any]] = [
        (None, None), ((5, 80), (0, 2)), (None, (2, 0)), ((4, 6, 9), (0, 1, 2)), (None, (1,)),
    ]  # fmt: skip
    for s, axes in cases:
        want = getattr(np.fft, name)(x, s=s, axes=axes, norm=norm)
        got = getattr(F, name)(x, s=s, axes=axes, norm=norm)
        assert got.shape == want.shape
        close(got, want, 2)


def test_planes() -> None:
    z, x = drawn(3, 12, 10), drawn(3, 12, 10, dtype="float64")
    close(F.fft2(z), np.fft.fft2(z), 2)
    close(F.ifft2(z), np.fft.ifft2(z), 2)
    close(F.rfft2(x), np.fft.rfft2(x), 2)
    close(F.irfft2(z), np.fft.irfft2(z), 2)


@settings(max_examples=6, deadline=None)
@given(n=st.integers(1, 400), rows=st.integers(0, 3))
def test_there_and_back(n: int, rows: int) -> None:
    z, x = drawn(rows, n), drawn(rows, n, dtype="float64")
    close(F.ifft(F.fft(z)), z, 4)
    close(F.irfft(F.rfft(x), n), x, 4)


def test_grids() -> None:
    for n in (1, 2, 7, 8):
        np.testing.assert_array_equal(F.fftfreq(n, d=0.5, dtype="float64"), np.fft.fftfreq(n, 0.5))
        np.testing.assert_array_equal(F.rfftfreq(n, d=2, dtype="float64"), np.fft.rfftfreq(n, 2))
        x = np.arange(3 * n).reshape(3, n)
        for axes in (None, 0, (1,), (0, 1)):
            np.testing.assert_array_equal(F.fftshift(x, axes=axes), np.fft.fftshift(x, axes))
            np.testing.assert_array_equal(F.ifftshift(x, axes=axes), np.fft.ifftshift(x, axes))
    assert F.fftfreq(3).dtype == lm.float32


def test_what_is_not_finite_stays_so() -> None:
    assert not np.isfinite(F.fft([1.0, np.nan, 2.0]).numpy()).any()
    assert F.irfft(np.array([1 + 5j, 1 + 7j])).tolist() == [1.0, 0.0]  # parts that do not count


TRANSFORMS: dict[str, tuple[Callable[..., Any], Callable[..., Any], str, str]] = {
    "fft": (F.fft, np.fft.fft, "complex128", "complex128"),
    "ifft": (F.ifft, np.fft.ifft, "complex128", "complex128"),
    "rfft": (F.rfft, np.fft.rfft, "float64", "complex128"),
    "irfft": (lambda z: F.irfft(z, 12), lambda z: np.fft.irfft(z, 12), "complex128", "float64"),
    "long rfft": (lambda x: F.rfft(x, 576), lambda x: np.fft.rfft(x, 576), "float64", "complex128"),
    "long irfft": (lambda z: F.irfft(z, 576), lambda z: np.fft.irfft(z, 576), "complex128",
                   "float64"),
    "chirp": (lambda z: F.fft(z, 419), lambda z: np.fft.fft(z, 419), "complex128", "complex128"),
    "fftn": (F.fftn, np.fft.fftn, "complex128", "complex128"),
}  # fmt: skip


def inner(a: Array, b: Array) -> float:
    return float(np.sum(a.real * b.real) + np.sum(a.imag * b.imag))


@pytest.mark.parametrize("name", TRANSFORMS)
def test_derivatives(name: str) -> None:
    """A linear function is its own tangent; its gradient is the adjoint:
    <T dx, w> = <dx, grad of <T x, w>>.
    """
    transform, exact, kind, out = TRANSFORMS[name]
    size = 7 if kind == "complex128" and out == "float64" else 12
    x, step = drawn(3, size, dtype=kind), drawn(3, size, dtype=kind)[::-1].copy()
    weight = drawn(*exact(x).shape, dtype=out)
    value, tangent = lm.jvp(transform, (lm.tensor(x),), (lm.tensor(step),))
    close(value, exact(x), 2)
    close(tangent, exact(step), 2)

    def loss(t: Any) -> Any:
        y, w = transform(t), lm.tensor(weight)
        return (lm.real(y) * lm.real(w) + lm.imag(y) * lm.imag(w)).sum()

    gradient = lm.grad(loss)(lm.tensor(x)).numpy()
    assert gradient.dtype == x.dtype
    assert inner(step, gradient) == pytest.approx(inner(exact(step), weight), rel=1e-12)


def test_transformations_compose() -> None:
    x = drawn(4, 96, dtype="float32")
    want = np.fft.rfft(x)
    close(lm.vmap(F.rfft)(x), want)
    close(lm.jit(lambda t: F.rfft(t))(lm.tensor(x)), want)

    def power(t: Any) -> Any:
        return (lm.abs(F.rfft(t)) ** 2).sum()

    single = lm.jit(lm.vmap(lm.grad(power)))(lm.tensor(x)).numpy()
    spectrum = np.fft.rfft(x, 96) * np.r_[1.0, np.full(47, 0.5), 1.0]
    np.testing.assert_allclose(single, 2 * 96 * np.fft.irfft(spectrum, 96), rtol=1e-4, atol=1e-2)


def test_the_batch_may_be_of_unknown_size() -> None:
    f = lm.jit(lambda x: F.rfft(x), dynamic={"x": {0: "batch"}})
    for rows in (2, 5, 9):
        x = drawn(rows, 3, 700, dtype="float64")
        close(f(lm.tensor(x)), np.fft.rfft(x))
    assert f.programs == 1
    with pytest.raises(ValueError, match="unknown size"):
        lm.jit(lambda x: F.fft(x), dynamic={"x": {0: "length"}})(lm.ones(5))


def test_lengths_are_split_near_their_roots() -> None:
    assert [divisor(n) for n in (4096, 1000, 2**15, 3**8, 131, 1018)] == [64, 25, 32, 27, 131, 2]


@pytest.mark.parametrize(
    "act",
    [
        lambda: F.fft(1.0),
        lambda: F.fft([1.0], n=0),
        lambda: F.fft([1.0], n=1.5),
        lambda: F.fft([1.0], axis=1),
        lambda: F.fft([1.0], norm="orto"),
        lambda: F.rfft([1j]),
        lambda: F.ihfft([1j]),
        lambda: F.irfft([1.0]),
        lambda: F.fftn(np.ones((2, 2)), s=(1, 2, 3)),
        lambda: F.fftn(np.ones((2, 2)), s=(1,), axes=(0, 1)),
        lambda: F.fftn(np.ones((2, 2)), axes=(0, 0)),
        lambda: F.rfftn(np.ones((2, 2)), axes=()),
        lambda: F.fftfreq(0),
        lambda: F.fftfreq(3, dtype="int32"),
        lambda: F.fft(np.ones((2, 0))),
        lambda: F.fft([1.0], norms="ortho"),
    ],
)
def test_wrong_uses(act: Any) -> None:
    with pytest.raises((ValueError, TypeError), match=r"^\["):
        act()


def test_norm_none_is_backward() -> None:
    x = np.arange(6.0)
    for name in ("fft", "ifft", "rfft", "irfft", "fftn", "hfft"):
        found = getattr(lm.fft, name)(x, norm=None).numpy()
        np.testing.assert_allclose(found, getattr(np.fft, name)(x, norm=None), atol=1e-12)
