"""Matrices, polynomials, cosine transforms, convolutions and harmonics against SciPy and NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.fft
import scipy.linalg
import scipy.ndimage
import scipy.signal
import scipy.special

import lamella as lm
from lamella.errors import LamellaError

RNG = np.random.default_rng(0)
C, R, A = RNG.normal(size=4), RNG.normal(size=6), RNG.normal(size=(4, 3))
P, Q = RNG.normal(size=5), RNG.normal(size=3)
X = RNG.normal(size=(3, 8, 5))
MATRICES: list[tuple[str, tuple[Any, ...]]] = [
    ("toeplitz", (C, R)), ("toeplitz", (C + 1j,)), ("circulant", (C,)), ("hankel", (C, R)),
    ("hankel", (C,)), ("companion", (C,)), ("leslie", (C, abs(C[1:]))), ("fiedler", (C,)),
    *(("convolution_matrix", (C, n, m)) for n in (2, 4, 7) for m in ("full", "same", "valid")),
    *((name, (n,)) for name in ("hilbert", "invhilbert", "hadamard", "helmert", "pascal", "dft",
                                "invpascal") for n in (1, 4)),
    *((name, (5, kind)) for name in ("pascal", "invpascal") for kind in ("lower", "upper")),
    ("helmert", (3, True)), ("dft", (3, "n")), ("dft", (3, "sqrtn")), ("expm", (A[:3],)),
    *(("polar", (m, side)) for m in (A, A.T, A.T @ A) for side in ("right", "left")),
]  # fmt: skip


def agree(got: Any, want: Any, tolerance: float = 1e-6) -> None:
    if isinstance(want, tuple):
        for ours, theirs in zip(got, want, strict=True):
            agree(ours, theirs, tolerance)
    else:
        assert got.shape == np.shape(want)
        np.testing.assert_allclose(got.numpy(), want, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(("name", "arguments"), MATRICES, ids=lambda v: v if v is str else "")
def test_matrices(name: str, arguments: tuple[Any, ...]) -> None:
    agree(getattr(lm.linalg, name)(*arguments), getattr(scipy.linalg, name)(*arguments))


def test_cholesky_factors_solve() -> None:
    for lower in (True, False):
        found = lm.linalg.cho_solve(lm.linalg.cho_factor(A.T @ A, lower), A.T)
        agree(found, np.linalg.solve(A.T @ A, A.T))
        agree(lm.linalg.cho_solve(lm.linalg.cho_factor(A.T @ A, lower), A[0]),
              np.linalg.solve(A.T @ A, A[0]))  # fmt: skip


@pytest.mark.parametrize("norm", [None, "ortho"])
@pytest.mark.parametrize("kind", [2, 3])
def test_cosine_transforms(kind: int, norm: str | None) -> None:
    for axis in (0, 1, -1):
        for n in (None, 1, 4, 9):
            for name in ("dct", "idct"):
                want = getattr(scipy.fft, name)(X, kind, n, axis, norm)
                agree(getattr(lm.fft, name)(X, kind, n, axis, norm), want, 1e-12)
    agree(lm.fft.dctn(X, kind, norm=norm), scipy.fft.dctn(X, kind, norm=norm), 1e-12)
    agree(lm.fft.idctn(X, kind, axes=(0, 2), norm=norm),
          scipy.fft.idctn(X, kind, axes=(0, 2), norm=norm), 1e-12)  # fmt: skip
    slope = lm.grad(lambda x: (lm.fft.dct(x, kind, norm=norm) * R[:4]).sum())(lm.asarray(C))
    agree(slope, scipy.fft.dct(np.eye(4), kind, norm=norm, axis=1) @ R[:4], 1e-12)


def test_polynomials() -> None:
    for name in ("polyadd", "polysub", "polymul", "polydiv"):
        agree(getattr(lm, name)(P, Q), getattr(np, name)(P, Q), 1e-10)
    agree(lm.polyder(P, 2), np.polyder(P, 2))
    for m, k in ((2, [1.0, 2.0]), (1, 3.0), (3, 0.0)):
        agree(lm.polyint(P, m, k), np.polyint(P, m, k))
    x, y, w = RNG.normal(size=20), RNG.normal(size=(20, 2)), abs(RNG.normal(size=20))
    agree(lm.polyfit(x, y, 3, w=w), np.polyfit(x, y, 3, w=w))
    agree(lm.polyfit(x, y[:, 0], 3), np.polyfit(x, y[:, 0], 3))
    for p in (P, [0, 0, 1.0, -3, 2, 0, 0], [2.0, 1.0], [3.0], [0.0]):
        found = np.sort_complex(lm.roots(p).numpy())
        np.testing.assert_allclose(found, np.sort_complex(np.roots(p)), rtol=1e-6)
    agree(lm.poly(P), np.poly(P))


PAIRS = [
    (RNG.normal(size=9), RNG.normal(size=4)), (RNG.normal(size=4), RNG.normal(size=9)),
    (RNG.normal(size=(6, 7)), RNG.normal(size=(3, 2))),
    (RNG.normal(size=(12, 13)), RNG.normal(size=(9, 10))),
    (RNG.normal(size=(4, 5, 3)), RNG.normal(size=(2, 2, 2))),
    (RNG.integers(0, 9, 20), RNG.integers(0, 9, 5)),
    (RNG.normal(size=9) + 1j, RNG.normal(size=4) * 1j),
]  # fmt: skip


@pytest.mark.parametrize("mode", ["full", "same", "valid"])
@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: str(pair[0].shape))
def test_convolutions(pair: tuple[Any, Any], mode: str) -> None:
    for name in ("convolve", "correlate"):
        for method in ("auto", "direct" if pair[1].size < 60 else "auto", "fft"):
            want = getattr(scipy.signal, name)(*pair, mode, method)
            agree(getattr(lm.signal, name)(*pair, mode, method), want, 1e-9)
    agree(lm.signal.fftconvolve(*pair, mode), scipy.signal.fftconvolve(*pair, mode), 1e-9)
    if pair[0].ndim == 2:
        for name in ("convolve2d", "correlate2d"):
            want = getattr(scipy.signal, name)(*pair, mode)
            agree(getattr(lm.signal, name)(*pair, mode), want, 1e-9)


def test_trends_and_grids() -> None:
    for kind in ("linear", "constant"):
        for axis in (0, 1, -1):
            want = scipy.signal.detrend(X, axis, kind)
            agree(lm.signal.detrend(X, axis, kind), want, 1e-10)
    places = RNG.uniform(-9, 14, (2, 40))
    for mode in ("nearest", "mirror"):
        want = scipy.ndimage.map_coordinates(A, places, order=1, mode=mode)
        agree(lm.signal.map_coordinates(A, places, 1, mode), want, 1e-12)
    inside = RNG.uniform(0, 2, (2, 40))
    want = scipy.ndimage.map_coordinates(A, inside, order=0)
    agree(lm.signal.map_coordinates(A, inside, 0), want)
    slope = lm.grad(lambda a: lm.signal.map_coordinates(a, inside).sum())(lm.asarray(A))
    assert slope.sum().item() == pytest.approx(40.0)


def test_harmonics() -> None:
    theta, phi = RNG.uniform(0, np.pi, 30), RNG.uniform(0, 6, 30)
    n, m = RNG.integers(0, 9, 30), RNG.integers(-9, 10, 30)
    want = np.where(abs(m) > n, 0, scipy.special.sph_harm_y(n, m, theta, phi))
    agree(lm.special.sph_harm_y(n, m, theta, phi), want, 1e-12)
    x = RNG.uniform(-1, 1, 30)
    want = scipy.special.lpmv(abs(m), n, x)
    size = 1 + abs(want)
    agree(lm.special.lpmv(abs(m), n, x) / size, want / size, 1e-11)
    agree(lm.special.lpmv([0, 1, 2], 2, 1.0), np.array([1.0, 0.0, 0.0]))
    with pytest.raises(LamellaError, match=r"^\[sph_harm_y\]"):
        lm.special.sph_harm_y(-1, 0, 0.5, 0.5)


@pytest.mark.parametrize("act", [
    lambda: lm.linalg.toeplitz(A), lambda: lm.linalg.hadamard(3), lambda: lm.linalg.hilbert(0),
    lambda: lm.linalg.leslie(C, C), lambda: lm.linalg.pascal(2, "uper"),
    lambda: lm.linalg.polar(A, "top"), lambda: lm.linalg.companion([1.0]),
    lambda: lm.linalg.dft(2, "m"), lambda: lm.linalg.convolution_matrix(C, 3, "all"),
    lambda: lm.fft.dct(C, 1), lambda: lm.fft.dct(C, norm="orth"), lambda: lm.fft.dct(C + 1j),
    lambda: lm.fft.dct(C, n=0), lambda: lm.fft.dctn(X, s=(2, 3), axes=(0,)),
    lambda: lm.fft.idctn(X, axes=(0, 0)),
    lambda: lm.polyder(P, -1), lambda: lm.polyint(P, 0.5), lambda: lm.polyadd(A, P),
    lambda: lm.signal.convolve(C, A), lambda: lm.signal.convolve(C, C, "fully"),
    lambda: lm.signal.convolve(C, C, "full", "ftt"), lambda: lm.signal.convolve2d(C, C),
    lambda: lm.signal.detrend(C, type="line"), lambda: lm.signal.map_coordinates(A, [C]),
    lambda: lm.signal.map_coordinates(A, [C, C], 3),
    lambda: lm.signal.map_coordinates(A, [C, C], mode="mirrored"),
])  # fmt: skip
def test_misuse(act: Callable[[], Any]) -> None:
    with pytest.raises(LamellaError, match=r"^\["):
        act()
