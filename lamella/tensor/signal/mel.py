"""Mel scales and filter banks: frequencies as they are heard.

Two scales: "htk", ``2595 log10(1 + f / 700)`` (O'Shaughnessy, 1987; the HTK Book), and "slaney", of
the Auditory Toolbox (Slaney, 1998): linear below 1 kHz with 15 mels there, logarithmic above with
27 mels to a factor of 6.4.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from lamella.dtypes import as_dtype, default_float
from lamella.errors import OptionError, did_you_mean
from lamella.tensor.comparison import where
from lamella.tensor.core import wrap
from lamella.tensor.elementwise import maximum
from lamella.tensor.host import node_from_array
from lamella.tensor.operands import TensorLike
from lamella.tensor.special.support import in_double
from lamella.tensor.transcendental import exp, log

if TYPE_CHECKING:
    from lamella.tensor.tensor import Tensor

__all__ = ["hz_to_mel", "mel_filters", "mel_to_hz"]

_SCALES: Final = ("htk", "slaney")
_HTK: Final = 2595 / math.log(10)
_LINEAR: Final = 200 / 3  # Hz in a mel below the corner
_CORNER: Final = 1000.0
_CORNER_MEL: Final = 15.0
_STEP: Final = math.log(6.4) / 27


def _check_scale(name: str, scale: str) -> None:
    if scale not in _SCALES:
        raise OptionError(f"[{name}] no scale {scale!r}; {did_you_mean(str(scale), _SCALES)}")


def hz_to_mel(frequency: TensorLike, scale: str = "htk") -> Tensor:
    """Frequencies in Hz as mels.

    Raises:
        OptionError: for a scale that is not "htk" or "slaney".

    >>> f"{hz_to_mel(1000.0).item():.1f}", hz_to_mel(1000.0, "slaney").item()
    ('1000.0', 15.0)
    """
    _check_scale("hz_to_mel", scale)

    def value(f: Any) -> Any:
        if scale == "htk":
            return log(1 + f / 700) * _HTK
        above = _CORNER_MEL + log(maximum(f, _CORNER) / _CORNER) / _STEP
        return where(f < _CORNER, f / _LINEAR, above)

    return in_double("hz_to_mel", value, frequency)


def mel_to_hz(mel: TensorLike, scale: str = "htk") -> Tensor:
    """Mels as frequencies in Hz, the inverse of :func:`hz_to_mel`.

    Raises:
        OptionError: for a scale that is not "htk" or "slaney".

    >>> mel_to_hz(15.0, "slaney").item()
    1000.0
    """
    _check_scale("mel_to_hz", scale)

    def value(m: Any) -> Any:
        if scale == "htk":
            return 700 * (exp(m / _HTK) - 1)
        above = _CORNER * exp((maximum(m, _CORNER_MEL) - _CORNER_MEL) * _STEP)
        return where(m < _CORNER_MEL, m * _LINEAR, above)

    return in_double("mel_to_hz", value, mel)


def mel_filters(
    n_mels: int,
    n_fft: int,
    sample_rate: float,
    f_min: float = 0.0,
    f_max: float | None = None,
    scale: str = "htk",
    norm: str | None = None,
    dtype: object = None,
) -> Tensor:
    """Triangles of frequency, evenly spaced in mels from ``f_min`` to ``f_max``: the matrix
    ``(n_mels, n_fft // 2 + 1)`` that makes a mel spectrum of a power spectrum.

    Args:
        n_mels: the number of filters.
        n_fft: the length of the transforms.
        sample_rate: in Hz.
        f_min: where the first triangle begins, in Hz.
        f_max: where the last one ends; half the sample rate by default.
        scale: "htk" or "slaney".
        norm: None (each triangle rises to 1) or "slaney" (each has the area 1, in Hz).
        dtype: of the result.

    Raises:
        OptionError: for numbers that make no filters, an unknown scale or norm.

    >>> mel_filters(8, 64, 16000).shape
    (8, 33)
    """
    _check_scale("mel_filters", scale)
    if norm not in (None, "slaney"):
        raise OptionError(f"[mel_filters] no norm {norm!r}; use None or \"slaney\"")
    top = sample_rate / 2 if f_max is None else f_max
    if n_mels < 1 or n_fft < 1 or not 0 <= f_min < top:
        raise OptionError(
            f"[mel_filters] n_mels={n_mels}, n_fft={n_fft}, frequencies {f_min} to {top}: there "
            "must be filters, a transform and a rising range; change them"
        )
    edges = hz_to_mel(np.array([f_min, top]), scale).numpy()
    points = mel_to_hz(np.linspace(edges[0], edges[1], n_mels + 2), scale).numpy()
    bins = np.arange(n_fft // 2 + 1) * (sample_rate / n_fft)
    low, middle, high = points[:-2, None], points[1:-1, None], points[2:, None]
    found = np.minimum((bins - low) / (middle - low), (high - bins) / (high - middle))
    found = np.maximum(found, 0)
    if norm == "slaney":
        found = found * (2 / (high - low))
    kind = default_float() if dtype is None else as_dtype(dtype)
    return wrap(node_from_array(found.astype(kind.numpy)))
