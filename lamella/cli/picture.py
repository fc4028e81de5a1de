"""From any picture of one digit to the 8×8 image the model was trained on.

The steps follow how the UCI digits were made: find the ink, scale it to 32×32 dots keeping its
proportions, centre it, and count the ink in each 4×4 block. Pictures may have any size, be light on
dark or dark on light, or transparent.
Files are untrusted: whatever Pillow refuses becomes a FileFormatError.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from lamella.errors import FileFormatError, LamellaError

__all__ = ["load_grey", "to_digit"]

_LARGEST = 512  # pixels of the longer side that are looked at
_FAINT = 0.08  # contrast below which a picture counts as empty
_SIDE = 32
_WEIGHT = 0.305  # the mean of the UCI images, much the same for every digit


def load_grey(path: str) -> np.ndarray:
    """A picture file as grey values from 0 (black) to 1 (white), float64 ``(h, w)``, at most 512
    pixels a side.

    Raises:
        LamellaError: if Pillow is not installed.
        FileFormatError: if it is no picture that Pillow reads.
        OSError: if the file cannot be opened.
    """
    try:
        from PIL import Image, ImageOps
    except ImportError:
        raise LamellaError(
            "[predict] Pillow reads pictures and is not installed; run: pip install "
            "'lamella[vision]'"
        ) from None
    with open(path, "rb") as file, warnings.catch_warnings():
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        try:
            image: Any = Image.open(file)
            image.draft("L", (_LARGEST, _LARGEST))
            image = ImageOps.exif_transpose(image)
            image.thumbnail((_LARGEST, _LARGEST), Image.Resampling.BOX)
            return _grey(image)
        except (Image.DecompressionBombError, Image.DecompressionBombWarning):
            raise FileFormatError(f"[predict] {path} has too many pixels; scale it down") from None
        except Exception as error:  # decoders raise many kinds; each means: no usable picture
            raise FileFormatError(
                f"[predict] {path} is no picture that can be read ({error})"
            ) from None


def _grey(image: Any) -> np.ndarray:
    """Grey values of a Pillow image; transparent parts count as white, or as black behind light
    ink.
    """
    if "A" not in image.getbands() and "transparency" not in image.info:
        grey = np.asarray(
            image.convert("F" if image.mode.startswith(("I", "F")) else "L"), np.float64
        )
        top = grey.max() if image.mode.startswith(("I", "F")) else 255.0
        return grey / max(float(top), 1.0)
    colour = np.asarray(image.convert("RGBA").convert("LA"), np.float64) / 255
    grey, alpha = colour[..., 0], colour[..., 1]
    light = float((grey * alpha).sum()) > 0.5 * float(alpha.sum()) and alpha.min() < 0.5
    return grey * alpha + (0.0 if light else 1.0) * (1 - alpha)


def to_digit(grey: np.ndarray) -> np.ndarray:
    """The 8×8 image in [0, 1] (1 is ink) of the digit in a grey picture ``(h, w)``.

    Raises:
        FileFormatError: if there is no ink to be found.

    >>> picture = np.ones((60, 40)); picture[10:50, 15:25] = 0
    >>> to_digit(picture)[4].round(2).tolist()
    [0.0, 0.0, 0.22, 1.0, 1.0, 0.22, 0.0, 0.0]
    """
    if min(grey.shape) < 2:
        raise FileFormatError(
            f"[predict] a picture of {grey.shape[1]} × {grey.shape[0]} pixels shows no digit"
        )
    border = np.concatenate([grey[0], grey[-1], grey[:, 0], grey[:, -1]])
    ink = np.abs(grey - np.median(border))
    if not ink.max() > _FAINT:
        raise FileFormatError("[predict] the picture is one plain area and shows no digit")
    ink = ink / ink.max()
    box = _box(ink >= _threshold(ink))
    scaled = _scale(ink[box], _threshold(ink))
    dots = _weigh(scaled)
    means: np.ndarray = dots.reshape(8, 4, 8, 4).sum((1, 3)) / 16.0
    return means


def _threshold(ink: np.ndarray) -> float:
    """The value that parts ink from paper with the largest variance between them (Otsu, 1979)."""
    counts, edges = np.histogram(ink, 64, (0.0, 1.0))
    middles = (edges[1:] + edges[:-1]) / 2
    below = np.cumsum(counts)
    above = below[-1] - below
    sums = np.cumsum(counts * middles)
    with np.errstate(invalid="ignore", divide="ignore"):
        apart = below * above * (sums / below - (sums[-1] - sums) / above) ** 2
    best = np.nan_to_num(apart)
    return float(edges[1 + int(np.flatnonzero(best == best.max()).mean())])


def _box(mask: np.ndarray) -> tuple[slice, slice]:
    """The rows and columns that hold ink, without those with next to none (specks, a frame's
    remains).
    """
    spans = []
    for axis in (1, 0):
        amount = mask.sum(axis)
        used = np.flatnonzero(amount >= max(1.0, 0.03 * amount.max()))
        spans.append(slice(int(used[0]), int(used[-1]) + 1))
    return spans[0], spans[1]


def _scale(ink: np.ndarray, threshold: float) -> np.ndarray:
    """Ink scaled so that its longer side is 32 dots, centred, as bool ``(32, 32)``; each dot
    averages its area.
    """
    height, width = ink.shape
    factor = _SIDE / max(height, width)
    sizes = [max(round(side * factor), 1) for side in (height, width)]
    for axis, (old, new) in enumerate(zip((height, width), sizes, strict=True)):
        ink = np.apply_along_axis(_resample, axis, ink, old, new)
    canvas = np.zeros((_SIDE, _SIDE), bool)
    top, left = ((_SIDE - size) // 2 for size in sizes)
    canvas[top : top + sizes[0], left : left + sizes[1]] = ink >= threshold
    return canvas


def _resample(values: np.ndarray, old: int, new: int) -> np.ndarray:
    """Means of ``values`` over ``new`` equal parts of their length, by the integral of the step
    function.
    """
    integral = np.concatenate([[0.0], np.cumsum(values)])
    places = np.linspace(0, old, new + 1)
    means: np.ndarray = np.diff(np.interp(places, np.arange(old + 1), integral)) * new / old
    return means


def _weigh(dots: np.ndarray) -> np.ndarray:
    """Bring the pen to the weight of the training images, whatever the digit: float64 ``(32, 32)``.

    Strokes grow or shrink by one dot on each side until the amount of ink has passed the usual one;
    the last two stages are mixed so that it is met.
    """
    before = after = dots.astype(np.float64)
    change = _grow if dots.mean() < _WEIGHT else _shrink
    for _ in range(_SIDE // 2):
        if (after.mean() < _WEIGHT) != (change is _grow) or not after.any():
            break
        before, after = after, change(after > 0).astype(np.float64)
    span = after.mean() - before.mean()
    share = (_WEIGHT - before.mean()) / span if span else 0.0
    return before + min(max(share, 0.0), 1.0) * (after - before)


def _grow(dots: np.ndarray) -> np.ndarray:
    around = np.pad(dots, 1)
    grown: np.ndarray = (
        around[1:-1, 1:-1]
        | around[:-2, 1:-1]
        | around[2:, 1:-1]
        | around[1:-1, :-2]
        | around[1:-1, 2:]
    )
    return grown


def _shrink(dots: np.ndarray) -> np.ndarray:
    around = np.pad(dots, 1)
    core = around[1:-1, 1:-1] & around[:-2, 1:-1] & around[2:, 1:-1]
    shrunk: np.ndarray = core & around[1:-1, :-2] & around[1:-1, 2:]
    return shrunk
