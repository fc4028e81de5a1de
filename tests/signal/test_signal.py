"""Windows against SciPy, short-time transforms against frames and NumPy's FFT, mel filters against
their definition.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import scipy.signal

import lamella as lm

S = lm.signal
RNG = np.random.default_rng(0)
Array = np.ndarray[Any, Any]
WINDOWS: dict[str, tuple[Any, ...]] = {
    "bartlett": (), "blackman": (), "blackmanharris": (), "boxcar": (), "cosine": (),
    "flattop": (), "gaussian": (3.0,), "general_cosine": ([0.4, 0.5, 0.1],), "hamming": (),
    "hann": (), "kaiser": (8.6,), "nuttall": (), "tukey": (0.3,),
}  # fmt: skip


@pytest.mark.parametrize("sym", [True, False])
@pytest.mark.parametrize("name", WINDOWS)
def test_windows_are_scipys(name: str, sym: bool) -> None:
    for n in (0, 1, 2, 3, 16, 37):
        got = getattr(S, name)(n, *WINDOWS[name], sym=sym, dtype="float64").numpy()
        want = getattr(scipy.signal.windows, name)(n, *WINDOWS[name], sym=sym)
        np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-15)
    assert getattr(S, name)(4, *WINDOWS[name]).dtype == lm.float32


def test_windows_by_name() -> None:
    for window in ("hann", ("kaiser", 4.0), ("tukey", 0.2), 5.0):
        got = S.get_window(window, 20, dtype="float64").numpy()
        np.testing.assert_allclose(got, scipy.signal.get_window(window, 20), rtol=1e-12, atol=1e-15)


def frames_of(x: Array, length: int, hop: int) -> Array:
    count = 1 + (x.shape[-1] - length) // hop
    return np.stack([x[..., t * hop : t * hop + length] for t in range(count)], -2)


@pytest.mark.parametrize(("length", "hop"), [(8, 2), (8, 3), (5, 5), (4, 7), (1, 1), (40, 1)])
def test_frames_and_their_sum(length: int, hop: int) -> None:
    x = RNG.normal(size=(2, 53))
    frames = S.frame(x, length, hop)
    np.testing.assert_array_equal(frames.numpy(), frames_of(x, length, hop))
    total = np.zeros((2, (frames.shape[-2] - 1) * hop + length))
    for t in range(frames.shape[-2]):
        total[:, t * hop : t * hop + length] += frames.numpy()[:, t]
    np.testing.assert_allclose(S.overlap_add(frames, hop).numpy(), total, atol=1e-13)
    weight = RNG.normal(size=frames.shape)
    slope = lm.grad(lambda v: (S.frame(v, length, hop) * lm.tensor(weight)).sum())(lm.tensor(x))
    back = S.overlap_add(weight, hop).numpy()
    np.testing.assert_allclose(slope.numpy()[:, : back.shape[-1]], back, atol=1e-13)


def reference(
    x: Array, n: int, hop: int, window: Array, center: bool, onesided: bool, scale: float
) -> Array:
    left = (n - len(window)) // 2
    window = np.pad(window, (left, n - len(window) - left))
    if center:
        x = np.pad(x, [(0, 0)] * (x.ndim - 1) + [(n // 2, n // 2)], mode="reflect")
    spectrum = np.fft.fft(frames_of(x, n, hop) * window)
    return np.moveaxis(spectrum[..., : n // 2 + 1] if onesided else spectrum, -1, -2) * scale


@pytest.mark.parametrize("n", [16, 25, 400])
@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("normalized", [True, False])
def test_stft(n: int, center: bool, normalized: bool) -> None:
    x = RNG.normal(size=(2, 1000))
    width, hop = n - 4, n // 3
    window = scipy.signal.get_window("hann", width)
    for onesided in (True, False):
        got = S.stft(x, n, hop, width, window, center, "reflect", normalized, onesided)
        scale = n**-0.5 if normalized else 1.0
        want = reference(x, n, hop, window, center, onesided, scale)
        assert got.dtype == lm.complex128 and got.shape == want.shape
        np.testing.assert_allclose(got.numpy(), want, atol=1e-11)
    z = x + 1j * x[::-1]
    got = S.stft(z, n, hop, width, window, center, "reflect", normalized)
    np.testing.assert_allclose(
        got.numpy(), reference(z, n, hop, window, center, False, scale), atol=1e-11
    )


@pytest.mark.parametrize(("n", "hop"), [(16, 4), (25, 7), (64, 64), (400, 160)])
def test_istft_gives_the_signal_back(n: int, hop: int) -> None:
    x = RNG.normal(size=(2, 1000)).astype(np.float32)
    window = None if hop == n else S.hann(n, sym=False)
    for options in ({}, {"normalized": True}, {"onesided": False}):
        z = S.stft(x, n, hop, window=window, **options)
        back = S.istft(z, n, hop, window=window, length=1000, **options).numpy()
        assert back.shape == x.shape and back.dtype == np.float32
        covered = min((z.shape[-1] - 1) * hop + n - n // 2 - n // 2, 1000)  # frames end here
        np.testing.assert_allclose(back[:, :covered], x[:, :covered], atol=2e-5)
    whole = S.istft(z, n, hop, window=window, onesided=False)
    assert whole.shape[-1] == (z.shape[-1] - 1) * hop + n - 2 * (n // 2)
    longer = S.istft(z, n, hop, window=window, onesided=False, length=1500).numpy()
    assert longer.shape == (2, 1500) and not longer[:, 1000 + n :].any()


def test_spectra_are_differentiable() -> None:
    x = lm.tensor(RNG.normal(size=300))
    window = S.hann(32, sym=False, dtype="float64")

    def power(v: Any) -> Any:
        return (lm.abs(S.stft(v, 32, 8, window=window)) ** 2).sum()

    slope = lm.jit(lm.grad(power))(x).numpy()
    step, h = RNG.normal(size=300), 1e-4
    ahead, behind = (power(x + s * h * lm.tensor(step)).item() for s in (1, -1))
    assert np.dot(slope, step) == pytest.approx((ahead - behind) / (2 * h), rel=1e-6)

    def again(v: Any) -> Any:
        return (S.istft(S.stft(v, 32, 8, window=window), 32, 8, window=window) ** 2).sum()

    got = lm.grad(again)(x).numpy()
    np.testing.assert_allclose(got[:296], 2 * x.numpy()[:296], rtol=1e-9)


def mel(f: float, scale: str) -> float:
    if scale == "htk":
        return 2595 * math.log10(1 + f / 700)
    return 3 * f / 200 if f < 1000 else 15 + 27 * math.log(f / 1000) / math.log(6.4)


@pytest.mark.parametrize("scale", ["htk", "slaney"])
def test_mel_scales(scale: str) -> None:
    f = np.concatenate([np.linspace(0, 2000, 50), 10.0 ** RNG.uniform(2, 4.5, 50)])
    want = [mel(v, scale) for v in f]
    np.testing.assert_allclose(S.hz_to_mel(f, scale).numpy(), want, rtol=1e-12)
    np.testing.assert_allclose(S.mel_to_hz(want, scale).astype("float64").numpy(), f, rtol=1e-5)
    back = S.mel_to_hz(np.array(want), scale).numpy()
    np.testing.assert_allclose(back, f, rtol=1e-12, atol=1e-9)
    assert S.hz_to_mel(6400.0, "slaney").item() == pytest.approx(42)


@pytest.mark.parametrize("scale", ["htk", "slaney"])
@pytest.mark.parametrize("norm", [None, "slaney"])
def test_mel_filters(scale: str, norm: str | None) -> None:
    rate, n, count, low, high = 16000, 400, 20, 80.0, 7600.0
    got = S.mel_filters(count, n, rate, low, high, scale, norm, dtype="float64").numpy()
    ends = np.linspace(mel(low, scale), mel(high, scale), count + 2)
    points = S.mel_to_hz(ends, scale).numpy()
    for m in range(count):
        a, b, c = points[m : m + 3]
        area = 2 / (c - a) if norm else 1.0
        for k in range(n // 2 + 1):
            f = k * rate / n
            want = 0.0 if f <= a or f >= c else (f - a) / (b - a) if f <= b else (c - f) / (c - b)
            assert got[m, k] == pytest.approx(want * area, abs=1e-12)
    assert S.mel_filters(4, 32, 8000).dtype == lm.float32


@pytest.mark.parametrize(
    "act",
    [
        lambda: S.hann(-1),
        lambda: S.hann(2.5),
        lambda: S.hann(3, dtype="int32"),
        lambda: S.get_window("han", 3),
        lambda: S.get_window("kaiser", 3),
        lambda: S.gaussian(3, 0.0),
        lambda: S.frame([1.0, 2.0], 3, 1),
        lambda: S.frame([1.0, 2.0], 1, 0),
        lambda: S.overlap_add([1.0], 1),
        lambda: S.stft([1.0] * 4, 16),
        lambda: S.stft([1.0] * 40, 16, win_length=17),
        lambda: S.stft([1.0] * 40, 16, window=[1.0] * 3),
        lambda: S.stft([1j] * 40, 16, onesided=True),
        lambda: S.stft([1.0] * 40, 16, pad_mode="mirror"),
        lambda: S.istft([[1.0]], 16),
        lambda: S.istft([[1j]], 16, onesided=True),
        lambda: S.mel_filters(0, 16, 8000),
        lambda: S.mel_filters(4, 16, 8000, norm="area"),
        lambda: S.hz_to_mel(1.0, "bark"),
    ],
)
def test_wrong_uses(act: Any) -> None:
    with pytest.raises((ValueError, TypeError), match=r"^\["):
        act()
