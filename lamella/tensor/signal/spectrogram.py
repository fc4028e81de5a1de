"""Spectra of short stretches of a signal, and the signal back from them.

Input: real or complex signals along the last axis. Output: complex spectra ``(..., frequency,
frame)``; conventions and defaults are those of ``torch.stft`` and ``torch.istft``. Frames are a
sliding window over the signal, their sum back its transpose; both are differentiable.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from lamella import ops
from lamella.errors import DTypeError, OptionError, ShapeError
from lamella.tensor.comparison import where
from lamella.tensor.complex import real
from lamella.tensor.core import wrap
from lamella.tensor.fft.transforms import fft, ifft, irfft, weighted_spectra
from lamella.tensor.joining import concat
from lamella.tensor.operands import TensorLike, as_float, as_node
from lamella.tensor.padding import pad

if TYPE_CHECKING:
    from lamella.tensor.tensor import Tensor

__all__ = ["frame", "istft", "overlap_add", "stft"]

_BLOCKS: Final = 16  # frames made of at most so many hops are moved block by block


def _positive(name: str, **options: Any) -> None:
    for option, value in options.items():
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise OptionError(f"[{name}] {option}={value!r} is no positive integer; give one")


def frame(x: TensorLike, frame_length: int, hop_length: int) -> Tensor:
    """Stretches of ``frame_length`` elements along the last axis, each ``hop_length`` after the one
    before: shape ``(..., frames, frame_length)`` with ``1 + (n - frame_length) // hop_length``
    frames; a rest that fills none is left out.

    >>> frame([1, 2, 3, 4, 5], 3, 2).tolist()
    [[1, 2, 3], [3, 4, 5]]
    """
    _positive("frame", frame_length=frame_length, hop_length=hop_length)
    node = as_node(x)
    if node.ndim == 0 or node.shape[-1] < frame_length:
        raise ShapeError(
            f"[frame] shape {node.shape} has no {frame_length} elements along its last axis; pad "
            "it, or use shorter frames"
        )
    blocks = -(-frame_length // hop_length)
    if blocks > _BLOCKS:
        return wrap(ops.window(node, (frame_length,), (hop_length,), (1,)))
    count = 1 + (int(node.shape[-1]) - frame_length) // hop_length
    rows = _filled(wrap(node), (count - 1 + blocks) * hop_length)
    rows = rows.reshape((*node.shape[:-1], count - 1 + blocks, hop_length))
    pieces = [rows[..., k : k + count, :] for k in range(blocks)]
    return concat(pieces, axis=-1)[..., :frame_length]


def _filled(x: Any, length: int) -> Any:
    """The last axis cut or filled with zeros to ``length``."""
    size = int(x.shape[-1])
    if size >= length:
        return x[..., :length]
    fill = wrap(ops.full(0, (*x.shape[:-1], length - size), x.dtype))
    return concat([x, fill], axis=-1)


def overlap_add(x: TensorLike, hop_length: int) -> Tensor:
    """Frames ``(..., frames, frame_length)`` put ``hop_length`` apart and summed: the transpose of
    :func:`frame`, of length ``(frames - 1) hop_length + frame_length``.

    >>> overlap_add([[1, 2, 3], [3, 4, 5]], 2).tolist()
    [1, 2, 6, 4, 5]
    """
    _positive("overlap_add", hop_length=hop_length)
    node = as_node(x)
    if node.ndim < 2:
        raise ShapeError(f"[overlap_add] shape {node.shape}; give (..., frames, frame_length)")
    count, length = (int(size) for size in node.shape[-2:])
    total = max(count - 1, 0) * hop_length + length
    blocks = -(-length // hop_length)
    if blocks > _BLOCKS:
        return wrap(ops.fold(node, (total,), (hop_length,), (1,)))
    lead = node.shape[:-2]
    parts = _filled(wrap(node), blocks * hop_length).reshape((*lead, count, blocks, hop_length))
    found: Any = None
    for k in range(blocks):
        edges = [(0, 0)] * len(lead) + [(k, blocks - 1 - k), (0, 0)]
        part = pad(parts[..., k, :], edges)
        found = part if found is None else found + part
    return found.reshape((*lead, -1))[..., :total]  # type: ignore[no-any-return]


def _weights(
    name: str, window: TensorLike | None, n_fft: int, win_length: int, like: Any
) -> Tensor:
    """The window, in the middle of ``n_fft`` elements."""
    if win_length > n_fft:
        raise OptionError(
            f"[{name}] win_length={win_length} is longer than n_fft={n_fft}; use a longer n_fft"
        )
    node = ops.full(1.0, (win_length,), like) if window is None else as_float(as_node(window))
    if node.shape != (win_length,):
        raise ShapeError(
            f"[{name}] a window of shape {node.shape}, but win_length is {win_length}; give one "
            "weight for each element"
        )
    left = (n_fft - win_length) // 2
    return pad(wrap(node), (left, n_fft - win_length - left))


def _options(
    name: str, n_fft: int, hop_length: int | None, win_length: int | None
) -> tuple[int, int]:
    hop = n_fft // 4 if hop_length is None else hop_length
    width = n_fft if win_length is None else win_length
    _positive(name, n_fft=n_fft, hop_length=hop, win_length=width)
    return hop, width


def _edges(x: Any, amount: int, mode: str) -> Any:
    if mode == "reflect" and x.shape[-1] <= amount:
        raise ShapeError(
            f"[stft] a signal of {x.shape[-1]} elements is too short to be reflected by {amount}; "
            'use pad_mode="constant", or center=False'
        )
    widths = [(0, 0)] * (x.ndim - 1) + [(amount, amount)]
    return pad(x, widths, mode=mode)  # type: ignore[arg-type]


def stft(
    x: TensorLike,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: TensorLike | None = None,
    center: bool = True,
    pad_mode: str = "reflect",
    normalized: bool = False,
    onesided: bool | None = None,
) -> Tensor:
    """The short-time Fourier transform ``X[f, t] = Σ w[k] x[t hop + k] exp(-2πi f k / n_fft)``.

    Args:
        x: signals along the last axis.
        n_fft: the length of each transform.
        hop_length: the distance of frames; ``n_fft // 4`` by default.
        win_length: the length of the window, which stands in the middle of a frame; ``n_fft``.
        window: its weights; ones by default.
        center: frame t has its middle at ``t hop_length``; the signal is padded on both sides.
        pad_mode: how ("reflect", "constant", "edge" …, as in :func:`lamella.pad`).
        normalized: times ``1 / √n_fft``.
        onesided: only frequencies up to the half; by default where signal and window are real.

    Returns:
        ``(..., n_fft // 2 + 1 or n_fft, frames)``, complex.

    Raises:
        OptionError, ShapeError: for lengths that do not fit.

    >>> stft([1.0] * 16, 8).shape
    (5, 9)
    """
    hop, width = _options("stft", n_fft, hop_length, win_length)
    node = as_float(as_node(x))
    weights = _weights("stft", window, n_fft, width, node.dtype if node.dtype.kind == "f" else
                       node.dtype.part)  # fmt: skip
    is_real = node.dtype.kind == "f" and weights.dtype.kind == "f"
    onesided = is_real if onesided is None else onesided
    if onesided and not is_real:
        raise DTypeError(
            "[stft] onesided=True, but a complex signal has no symmetric spectrum; use "
            "onesided=False"
        )
    signal = wrap(node)
    if center:
        signal = _edges(signal, n_fft // 2, pad_mode)
    frames = frame(signal, n_fft, hop)
    norm = "ortho" if normalized else "backward"
    if onesided:
        return weighted_spectra(frames, weights, norm)
    return fft(frames * weights, norm=norm).swapaxes(-1, -2)


def istft(
    x: TensorLike,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: TensorLike | None = None,
    center: bool = True,
    normalized: bool = False,
    onesided: bool | None = None,
    length: int | None = None,
    return_complex: bool = False,
) -> Tensor:
    """The signal whose :func:`stft` with the same options is closest to ``x``: frames times the
    window, summed, over the sum of squared windows (Griffin and Lim, 1984).

    Where that sum is below 1e-11 (between frames that do not overlap, and at the ends of windows
    that begin with 0 unless ``center``), the signal is 0. ``length`` cuts or fills the result.

    >>> signal = [1.0, 2.0, 3.0, 4.0, 3.0, 2.0, 1.0, 0.0]
    >>> back = istft(stft(signal, 4), 4)
    >>> [f"{v:.3f}" for v in back.tolist()][:3]
    ['1.000', '2.000', '3.000']
    """
    hop, width = _options("istft", n_fft, hop_length, win_length)
    node = as_node(x)
    if node.dtype.kind != "c" or node.ndim < 2:
        raise DTypeError(
            f"[istft] takes complex spectra (..., frequency, frame), not {node.dtype.name}"
            f"{list(node.shape)}; give what stft returns"
        )
    bins = node.shape[-2]
    onesided = (bins != n_fft) if onesided is None else onesided
    if bins != (n_fft // 2 + 1 if onesided else n_fft):
        raise ShapeError(
            f"[istft] {bins} frequencies, but n_fft={n_fft} has "
            f"{n_fft // 2 + 1 if onesided else n_fft}; give the n_fft and onesided of stft"
        )
    weights = _weights("istft", window, n_fft, width, node.dtype.part)
    spectrum, norm = wrap(node).swapaxes(-1, -2), "ortho" if normalized else "backward"
    frames = irfft(spectrum, n_fft, norm=norm) if onesided else ifft(spectrum, norm=norm)
    frames = frames if onesided or return_complex else real(frames)
    count = int(node.shape[-1])
    total = overlap_add(frames * weights, hop)
    squares = wrap(ops.broadcast_to(as_node(weights * weights), (count, n_fft)))
    power = overlap_add(squares, hop)
    signal = total / where(power > 1e-11, power, 1.0)
    signal = where(power > 1e-11, signal, 0.0)
    return _cut(signal, n_fft // 2 if center else 0, length)


def _cut(signal: Any, edge: int, length: int | None) -> Tensor:
    """Without the padding of ``center``, of a given length."""
    size = int(signal.shape[-1])
    stop = size - edge if length is None else min(edge + length, size)
    signal = signal[..., edge : max(stop, edge)]
    return signal if length is None else _filled(signal, length)  # type: ignore[no-any-return]


