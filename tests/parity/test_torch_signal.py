"""Comparisons with PyTorch: special functions with gradients, Fourier and short-time transforms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lamella as lm

torch = pytest.importorskip("torch", reason="make parity installs PyTorch")

RNG = np.random.default_rng(0)
Array = np.ndarray[Any, Any]
SPECIAL: dict[str, tuple[str, float, float]] = {
    # ours: theirs, low, high
    "erfcx": ("erfcx", -3, 20), "erfinv": ("erfinv", -0.99, 0.99), "ndtri": ("ndtri", 0.01, 0.99),
    "log_ndtr": ("log_ndtr", -20, 5), "gammaln": ("gammaln", 0.1, 20),
    "digamma": ("digamma", 0.1, 20), "i0": ("i0", -9, 9), "i0e": ("i0e", -30, 30),
    "i1": ("i1", -9, 9), "i1e": ("i1e", -30, 30), "logit": ("logit", 0.01, 0.99),
    "entr": ("entr", 0.01, 3), "expit": ("expit", -20, 20), "sinc": ("sinc", -5, 5),
}  # fmt: skip


@pytest.mark.parametrize("name", SPECIAL)
def test_special(name: str) -> None:
    theirs, low, high = SPECIAL[name]
    x = RNG.uniform(low, high, 200)
    t = torch.tensor(x, requires_grad=True)
    value = getattr(torch.special, theirs)(t)
    value.sum().backward()
    ours = getattr(lm.special, name)
    np.testing.assert_allclose(ours(x).numpy(), value.detach().numpy(), rtol=1e-9, atol=1e-12)
    slope = lm.grad(lambda v: ours(v).sum())(lm.tensor(x)).numpy()
    np.testing.assert_allclose(slope, t.grad.numpy(), rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize(("ours", "theirs"), [("xlogy", "xlogy"), ("xlog1py", "xlog1py"),
                                              ("gammainc", "gammainc"),
                                              ("gammaincc", "gammaincc"), ("zeta", "zeta")])
def test_special_of_two(ours: str, theirs: str) -> None:
    a, b = RNG.uniform(1.1, 9, 200), RNG.uniform(0.1, 9, 200)
    want = getattr(torch.special, theirs)(torch.tensor(a), torch.tensor(b)).numpy()
    np.testing.assert_allclose(getattr(lm.special, ours)(a, b).numpy(), want, rtol=1e-10)


TRANSFORMS: dict[str, Callable[[Any, Any], Any]] = {
    "fft": lambda f, x: f.fft(x), "ifft": lambda f, x: f.ifft(x, norm="ortho"),
    "rfft": lambda f, x: f.rfft(x.real), "irfft": lambda f, x: f.irfft(x, 90),
    "hfft": lambda f, x: f.hfft(x, 31), "fftn": lambda f, x: f.fftn(x),
    "rfft2": lambda f, x: f.rfft2(x.real),
}  # fmt: skip


@pytest.mark.parametrize("name", TRANSFORMS)
def test_gradients_of_transforms(name: str) -> None:
    """Of a real loss of complex numbers, with PyTorch's convention."""
    x = RNG.normal(size=(3, 66)) + 1j * RNG.normal(size=(3, 66))
    t = torch.tensor(x, requires_grad=True)
    value = TRANSFORMS[name](torch.fft, t)
    weight = RNG.normal(size=tuple(value.shape))
    (torch.abs(value) ** 2 * torch.tensor(weight)).sum().backward()

    def loss(v: Any) -> Any:
        return (lm.abs(TRANSFORMS[name](lm.fft, v)) ** 2 * lm.tensor(weight)).sum()

    got = TRANSFORMS[name](lm.fft, lm.tensor(x)).numpy()
    np.testing.assert_allclose(got, value.detach().numpy(), atol=1e-11)
    slope = lm.grad(loss)(lm.tensor(x)).numpy()
    np.testing.assert_allclose(slope, t.grad.numpy(), atol=1e-9)


STFT: list[dict[str, Any]] = [
    {"n_fft": 16}, {"n_fft": 400, "hop_length": 160}, {"n_fft": 25, "hop_length": 7},
    {"n_fft": 64, "hop_length": 16, "win_length": 50}, {"n_fft": 64, "center": False},
    {"n_fft": 32, "normalized": True}, {"n_fft": 32, "onesided": False},
    {"n_fft": 32, "pad_mode": "constant"},
]  # fmt: skip


@pytest.mark.parametrize("options", STFT, ids=str)
def test_short_time_transforms(options: dict[str, Any]) -> None:
    x = RNG.normal(size=(2, 1000))
    width = options.get("win_length", options["n_fft"])
    window = torch.hann_window(width, dtype=torch.float64)
    want = torch.stft(torch.tensor(x), window=window, return_complex=True, **options)
    got = lm.signal.stft(x, window=lm.signal.hann(width, sym=False, dtype="float64"), **options)
    assert got.shape == tuple(want.shape)
    np.testing.assert_allclose(got.numpy(), want.numpy(), atol=1e-11)
    if options.get("center", True):
        back = {key: value for key, value in options.items() if key != "pad_mode"}
        for length in (None, 990):
            signal = torch.istft(want, window=window, length=length, **back).numpy()
            ours = lm.signal.istft(got, window=window.numpy(), length=length, **back).numpy()
            np.testing.assert_allclose(ours, signal, atol=1e-11)


@pytest.mark.parametrize("name", ["hann", "hamming", "blackman", "bartlett", "kaiser"])
def test_windows(name: str) -> None:
    rest = (12.0,) if name == "kaiser" else ()
    for periodic in (True, False):
        ours = getattr(lm.signal, name)(40, *rest, sym=not periodic, dtype="float64").numpy()
        options: dict[str, Any] = {"dtype": torch.float64, "periodic": periodic}
        if name == "kaiser":
            options["beta"] = 12.0
        want = getattr(torch, f"{name}_window")(40, **options).numpy()
        np.testing.assert_allclose(ours, want, atol=1e-14)
