"""Windows: weights that fade a stretch of a signal in and out, as in ``scipy.signal.windows``.

Input: a length and, for some, a shape parameter. Output: a tensor of weights, computed in float64.
``sym=True`` gives a symmetric window; ``sym=False`` one that is periodic with the length, as
spectra and :func:`lamella.signal.stft` want it: the symmetric one of length n + 1 without its last.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from lamella.dtypes import as_dtype, default_float
from lamella.errors import DTypeError, OptionError, did_you_mean
from lamella.tensor.core import wrap
from lamella.tensor.host import node_from_array

if TYPE_CHECKING:
    from lamella.tensor.tensor import Tensor

__all__ = [
    "bartlett", "blackman", "blackmanharris", "boxcar", "cosine", "exponential", "flattop",
    "gaussian", "general_cosine", "general_hamming", "get_window", "hamming", "hann", "kaiser",
    "nuttall", "tukey",
]  # fmt: skip

Array = np.ndarray[Any, Any]


def _window(
    name: str, n: int, sym: bool, dtype: object, weights: Callable[[Array, int], Array]
) -> Tensor:
    """``weights(places, m)`` of the places 0 … m - 1 of a symmetric window, m > 1."""
    if isinstance(n, bool) or not isinstance(n, int) or n < 0:
        raise OptionError(f"[{name}] length {n!r}: give a whole number from 0 on")
    kind = default_float() if dtype is None else as_dtype(dtype)
    if kind.kind != "f":
        raise DTypeError(f"[{name}] weights are real numbers, not {kind.name}; use a float dtype")
    m = n if sym else n + 1
    found = np.ones(n) if n <= 1 else weights(np.arange(float(m)), m)[:n]
    return wrap(node_from_array(found.astype(kind.numpy)))


def boxcar(n: int, sym: bool = True, dtype: object = None) -> Tensor:
    """Ones.

    >>> boxcar(3).tolist()
    [1.0, 1.0, 1.0]
    """
    return _window("boxcar", n, sym, dtype, lambda k, m: np.ones(m))


def _cosines(k: Array, m: int, a: Sequence[float]) -> Array:
    angle = np.pi * (2 * k / (m - 1) - 1)  # from -π to π, so that the result is symmetric
    total: Array = np.sum([c * np.cos(j * angle) for j, c in enumerate(a)], axis=0)
    return total


def general_cosine(
    n: int, a: Sequence[float], sym: bool = True, dtype: object = None
) -> Tensor:
    """``Σ a[j] cos(j φ)`` of φ from -π to π.

    >>> general_cosine(3, [0.5, 0.5]).tolist()
    [0.0, 1.0, 0.0]
    """
    return _window("general_cosine", n, sym, dtype, lambda k, m: _cosines(k, m, a))


def general_hamming(n: int, alpha: float = 0.54, sym: bool = True, dtype: object = None) -> Tensor:
    """``alpha + (1 - alpha) cos φ``, φ from -π to π.

    >>> general_hamming(3, 0.5).tolist()
    [0.0, 1.0, 0.0]
    """
    weights = (alpha, 1 - alpha)
    return _window("general_hamming", n, sym, dtype, lambda k, m: _cosines(k, m, weights))


def exponential(
    n: int, center: float | None = None, tau: float = 1.0, sym: bool = True, dtype: object = None
) -> Tensor:
    """``exp(-|k - center| / tau)``, ``center`` by default the middle.

    Raises:
        OptionError: for a symmetric window with a center.

    >>> exponential(3)[1].item()
    1.0
    """
    if sym and center is not None:
        raise OptionError("[exponential] a symmetric window has its center in the middle; leave it")

    def weights(k: Array, m: int) -> Array:
        middle = (m - 1) / 2 if center is None else center
        return np.asarray(np.exp(-np.abs(k - middle) / tau))

    return _window("exponential", n, sym, dtype, weights)


def hann(n: int, sym: bool = True, dtype: object = None) -> Tensor:
    """``0.5 + 0.5 cos φ``, φ from -π to π: 0 at the ends.

    >>> hann(4, sym=False).tolist()
    [0.0, 0.5, 1.0, 0.5]
    """
    return _window("hann", n, sym, dtype, lambda k, m: _cosines(k, m, (0.5, 0.5)))


def hamming(n: int, sym: bool = True, dtype: object = None) -> Tensor:
    """``0.54 + 0.46 cos φ``, φ from -π to π.

    >>> [f"{w:.2f}" for w in hamming(3).tolist()]
    ['0.08', '1.00', '0.08']
    """
    return _window("hamming", n, sym, dtype, lambda k, m: _cosines(k, m, (0.54, 0.46)))


def blackman(n: int, sym: bool = True, dtype: object = None) -> Tensor:
    """``0.42 + 0.5 cos φ + 0.08 cos 2φ``, φ from -π to π.

    >>> f"{blackman(5)[1].item():.2f}"
    '0.34'
    """
    return _window("blackman", n, sym, dtype, lambda k, m: _cosines(k, m, (0.42, 0.5, 0.08)))


_NUTTALL: Final = (0.3635819, 0.4891775, 0.1365995, 0.0106411)
_BLACKMAN_HARRIS: Final = (0.35875, 0.48829, 0.14128, 0.01168)
_FLAT_TOP: Final = (0.21557895, 0.41663158, 0.277263158, 0.083578947, 0.006947368)


def nuttall(n: int, sym: bool = True, dtype: object = None) -> Tensor:
    """Nuttall's minimum four-term window (1981, as in SciPy).

    >>> nuttall(3)[1].item()
    1.0
    """
    return _window("nuttall", n, sym, dtype, lambda k, m: _cosines(k, m, _NUTTALL))


def blackmanharris(n: int, sym: bool = True, dtype: object = None) -> Tensor:
    """Blackman and Harris's minimum four-term window (Harris, 1978).

    >>> blackmanharris(3)[1].item()
    1.0
    """
    return _window("blackmanharris", n, sym, dtype, lambda k, m: _cosines(k, m, _BLACKMAN_HARRIS))


def flattop(n: int, sym: bool = True, dtype: object = None) -> Tensor:
    """A flat-top window of five terms, whose main lobe measures amplitudes.

    >>> f"{flattop(3)[1].item():.6f}"
    '1.000000'
    """
    return _window("flattop", n, sym, dtype, lambda k, m: _cosines(k, m, _FLAT_TOP))


def bartlett(n: int, sym: bool = True, dtype: object = None) -> Tensor:
    """A triangle from 0 to 1 and back.

    >>> bartlett(5).tolist()
    [0.0, 0.5, 1.0, 0.5, 0.0]
    """
    return _window(
        "bartlett", n, sym, dtype, lambda k, m: 1 - np.abs(2 * k / (m - 1) - 1)
    )


def cosine(n: int, sym: bool = True, dtype: object = None) -> Tensor:
    """Half a period of a sine, not 0 at the ends: ``sin(π (k + 1/2) / n)``.

    >>> f"{cosine(3)[1].item():.1f}"
    '1.0'
    """
    return _window("cosine", n, sym, dtype, lambda k, m: np.sin(np.pi / m * (k + 0.5)))


def gaussian(n: int, std: float, sym: bool = True, dtype: object = None) -> Tensor:
    """``exp(-(k - (n-1)/2)² / (2 std²))``.

    >>> gaussian(3, 1.0)[1].item()
    1.0
    """
    if not std > 0:
        raise OptionError(f"[gaussian] std={std!r} is not positive; use a positive number")
    return _window(
        "gaussian", n, sym, dtype, lambda k, m: np.exp(-0.5 * ((k - (m - 1) / 2) / std) ** 2)
    )


def kaiser(n: int, beta: float, sym: bool = True, dtype: object = None) -> Tensor:
    """Kaiser's window ``I₀(β √(1 - (2k/(n-1) - 1)²)) / I₀(β)``.

    >>> kaiser(3, 14.0)[1].item()
    1.0
    """

    def weights(k: Array, m: int) -> Array:
        inside = np.maximum(1 - (2 * k / (m - 1) - 1) ** 2, 0)
        return np.i0(beta * np.sqrt(inside)) / np.i0(beta)

    return _window("kaiser", n, sym, dtype, weights)


def tukey(n: int, alpha: float = 0.5, sym: bool = True, dtype: object = None) -> Tensor:
    """Ones with cosine-shaped ends that take the part ``alpha`` of the window.

    >>> tukey(5, 0.0).tolist()
    [1.0, 1.0, 1.0, 1.0, 1.0]
    """

    def weights(k: Array, m: int) -> Array:
        if alpha <= 0:
            return np.ones(m)
        width = min(alpha, 1.0) * (m - 1) / 2
        ends = np.minimum(k, m - 1 - k)
        return np.where(ends < width, 0.5 * (1 - np.cos(np.pi * ends / width)), 1.0)

    return _window("tukey", n, sym, dtype, weights)


_BY_NAME: Final[dict[str, Callable[..., Tensor]]] = {
    window.__name__: window
    for window in (
        bartlett, blackman, blackmanharris, boxcar, cosine, exponential, flattop, gaussian,
        general_hamming, hamming, hann, kaiser, nuttall, tukey,
    )
}  # fmt: skip
_NEEDS: Final = frozenset(("gaussian", "kaiser"))


def get_window(
    window: str | float | tuple[Any, ...], n: int, fftbins: bool = True, dtype: object = None
) -> Tensor:
    """A window by its name, or ``(name, parameter)``; a number is Kaiser's ``beta``. Periodic
    unless ``fftbins`` is False.

    Raises:
        OptionError: for an unknown name, or one whose parameter is missing.

    >>> get_window("hann", 4).tolist()
    [0.0, 0.5, 1.0, 0.5]
    """
    if isinstance(window, int | float):
        window = ("kaiser", window)
    name, *rest = (window,) if isinstance(window, str) else window
    if name not in _BY_NAME:
        raise OptionError(f"[get_window] no window {name!r}; {did_you_mean(str(name), _BY_NAME)}")
    if name in _NEEDS and not rest:
        raise OptionError(f"[get_window] {name!r} has a parameter; give ({name!r}, number)")
    return _BY_NAME[name](n, *rest, sym=not fftbins, dtype=dtype)
