"""A picture to draw charts on, and its PNG file, with NumPy and zlib alone.

Coordinates are pixels from the top left; colours are (red, green, blue) from 0 to 255. What lies
outside the picture is not drawn.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Sequence

import numpy as np

from lamella.cli.font import HEIGHT, WIDTH, glyph
from lamella.files import replaced

__all__ = ["BLACK", "GREY", "Canvas", "Colour", "chart", "png_bytes"]

Colour = tuple[int, int, int]
BLACK: Colour = (30, 30, 30)
GREY: Colour = (200, 200, 200)


class Canvas:
    """A white picture of ``height`` × ``width`` pixels."""

    def __init__(self, height: int, width: int) -> None:
        self.pixels = np.full((height, width, 3), 255, np.uint8)

    def rectangle(self, top: int, left: int, bottom: int, right: int, colour: Colour) -> None:
        """Fill the pixels from ``top, left`` up to but without ``bottom, right``."""
        self.pixels[max(top, 0) : max(bottom, 0), max(left, 0) : max(right, 0)] = colour

    def line(
        self, start: tuple[float, float], end: tuple[float, float], colour: Colour, width: int = 2
    ) -> None:
        """A straight line between two points ``(row, column)``."""
        count = int(max(abs(end[0] - start[0]), abs(end[1] - start[1]))) + 1
        rows = np.linspace(start[0], end[0], count).round().astype(int)
        columns = np.linspace(start[1], end[1], count).round().astype(int)
        for down in range(width):
            for right in range(width):
                self._dots(rows + down, columns + right, colour)

    def text(self, top: int, left: int, text: str, colour: Colour = BLACK, scale: int = 2) -> int:
        """Write ``text`` with its top left corner at a point; returns the column after it."""
        for character in text:
            dots = np.kron(glyph(character), np.ones((scale, scale), bool))
            rows, columns = np.nonzero(dots)
            self._dots(rows + top, columns + left, colour)
            left += (WIDTH + 1) * scale
        return left

    def image(self, top: int, left: int, values: np.ndarray, scale: int) -> None:
        """A grey picture ``(h, w)`` of values from 0 (white) to 1 (black), each a square of
        ``scale`` pixels.
        """
        grey = (255 * (1 - np.clip(values, 0, 1))).astype(np.uint8)
        large = np.kron(grey, np.ones((scale, scale), np.uint8))
        height, width = large.shape
        self.pixels[top : top + height, left : left + width] = large[..., None]

    def _dots(self, rows: np.ndarray, columns: np.ndarray, colour: Colour) -> None:
        height, width = self.pixels.shape[:2]
        inside = (rows >= 0) & (rows < height) & (columns >= 0) & (columns < width)
        self.pixels[rows[inside], columns[inside]] = colour

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the picture as PNG, replacing the file in one step."""
        with replaced(path) as file:
            file.write(png_bytes(self.pixels))


def png_bytes(pixels: np.ndarray) -> bytes:
    """A PNG file of an RGB picture, uint8 ``(height, width, 3)`` (ISO/IEC 15948).

    >>> png_bytes(np.zeros((1, 1, 3), np.uint8))[1:4]
    b'PNG'
    """
    height, width = pixels.shape[:2]
    unfiltered = np.concatenate(
        [np.zeros((height, 1), np.uint8), pixels.reshape(height, -1)], axis=1
    )
    chunks = [
        (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)),
        (b"IDAT", zlib.compress(unfiltered.tobytes(), 9)),
        (b"IEND", b""),
    ]
    parts = [b"\x89PNG\r\n\x1a\n"]
    for kind, body in chunks:
        parts += [
            struct.pack(">I", len(body)),
            kind,
            body,
            struct.pack(">I", zlib.crc32(kind + body)),
        ]
    return b"".join(parts)


def chart(
    canvas: Canvas,
    box: tuple[int, int, int, int],
    title: str,
    curves: Sequence[tuple[str, Colour, Sequence[float]]],
    limits: tuple[float, float],
) -> None:
    """Draw curves over 1, 2, 3 … into ``box = (top, left, height, width)``, with a grid, a title
    and a legend.
    """
    top, left, height, width = box
    low, high = limits
    high = high if high > low else low + 1
    canvas.text(top - 22, left, title)
    for part in range(5):
        row = top + round(height * part / 4)
        canvas.rectangle(row, left, row + 1, left + width, GREY)
        label = f"{high - (high - low) * part / 4:.2f}"
        canvas.text(row - HEIGHT // 2, left - 8 - 6 * len(label), label, scale=1)
    count = max(len(values) for _, _, values in curves)
    place = left + width
    for name, colour, values in reversed(curves):
        place -= 12 * len(name) + 16
        canvas.text(top - 22, place, name, colour)
        points = [
            (
                top + height * (1 - (min(max(value, low), high) - low) / (high - low)),
                left + width * step / max(count - 1, 1),
            )
            for step, value in enumerate(values)
        ]
        for start, end in zip(points, points[1:] or points, strict=False):
            canvas.line(start, end, colour)
    canvas.text(top + height + 6, left, "1", scale=1)
    canvas.text(top + height + 6, left + width - 6 * len(str(count)), str(count), scale=1)
