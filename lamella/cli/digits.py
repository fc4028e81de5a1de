"""The network of the quickstart, how its training images are varied, and its file.

Input: images ``(n, 1, 8, 8)`` in [0, 1]. Output: logits ``(n, 10)``.
"""

from __future__ import annotations

import numpy as np

import lamella as lm
from lamella import nn
from lamella.errors import FileFormatError, LamellaError
from lamella.io import read_metadata

__all__ = ["KIND", "DigitNet", "load_model", "vary"]

KIND = "lamella-digits-1"  # metadata "kind" of the model's file


class DigitNet(nn.Module):
    """Three 3×3 convolutions with batch normalisation, two of them before a maximum over 2×2, then
    one linear map.

    >>> DigitNet().eval()(lm.zeros((2, 1, 8, 8))).shape
    (2, 10)
    """

    def __init__(self, dropout: float = 0.1) -> None:
        super().__init__()
        self.features = nn.Sequential(
            *_block(1, 16),
            *_block(16, 32),
            nn.MaxPool2d(2),
            *_block(32, 32),
            nn.MaxPool2d(2),
        )
        self.head = nn.Sequential(nn.Flatten(), nn.Dropout(dropout), nn.Linear(32 * 2 * 2, 10))

    def forward(self, images: lm.Tensor) -> lm.Tensor:
        """Logits, one row an image."""
        logits: lm.Tensor = self.head(self.features(images))
        return logits


def _block(inputs: int, outputs: int) -> list[nn.Module]:
    return [
        nn.Conv2d(inputs, outputs, 3, padding=1, bias=False),
        nn.BatchNorm2d(outputs),
        nn.ReLU(),
    ]


def load_model(path: str) -> DigitNet:
    """The network that the quickstart saved, in evaluation mode.

    Raises:
        FileFormatError: if the file is damaged or holds something else.
    """
    kind = read_metadata(path).get("kind")
    if kind != KIND:
        raise FileFormatError(
            f"[predict] {path} is no model of the quickstart (its kind is {kind!r}); train one "
            "with: lamella quickstart"
        )
    model = DigitNet()
    try:
        model.load_state_dict(lm.load(path))
    except FileFormatError:
        raise
    except LamellaError as error:
        raise FileFormatError(
            f"[predict] {path} does not fit the quickstart's network: {error}"
        ) from None
    return model.eval()


def vary(images: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Each image moved by up to 0.4 pixels, turned by up to 6°, scaled and sheared by up to 6 %
    (bilinear).

    >>> vary(np.ones((2, 1, 8, 8), np.float32), np.random.default_rng(0)).shape
    (2, 1, 8, 8)
    """
    count, size = len(images), images.shape[-1]

    def draw(limit: float, *shape: int) -> np.ndarray:
        return generator.uniform(-limit, limit, (count, *shape))

    angle, shear = np.deg2rad(draw(6)), draw(0.06)
    scale, shift = np.exp(draw(0.06, 2)), draw(0.4, 2)
    matrix = np.empty((count, 2, 2))
    matrix[:, 0] = np.stack([np.cos(angle), -np.sin(angle)], -1)
    matrix[:, 1] = np.stack([np.sin(angle) + shear, np.cos(angle)], -1)
    matrix *= scale[:, :, None]
    axis = np.arange(size) - (size - 1) / 2
    grid = np.stack(np.meshgrid(axis, axis, indexing="ij"))
    places = np.einsum("nij,jhw->inhw", matrix, grid) + shift.T[:, :, None, None] + (size - 1) / 2
    return _sample(images[:, 0], places)[:, None]


def _sample(images: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Bilinear values of ``images (n, h, w)`` at ``places (2, n, h, w)``, zero outside."""
    margin = 2
    padded = np.pad(images, ((0, 0), (margin, margin + 1), (margin, margin + 1)))
    places = np.clip(places + margin, 0, padded.shape[-1] - 1.001)
    whole = places.astype(np.intp)
    down, right = places - whole
    number = np.arange(len(images))[:, None, None]
    row, column = whole
    top = (1 - right) * padded[number, row, column] + right * padded[number, row, column + 1]
    bottom = (1 - right) * padded[number, row + 1, column] + right * padded[
        number, row + 1, column + 1
    ]
    values: np.ndarray = (1 - down) * top + down * bottom
    return values.astype(np.float32)
