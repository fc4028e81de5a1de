"""Networks of kinds that people run, written once for PyTorch and Lamella: ``xp`` is the module of
a framework, whose ``nn`` has the same layers under the same names, so that a state dictionary of
one loads into the other.

Output: functions of ``xp`` that return a module; the papers are named beside them.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

__all__ = [
    "bert", "convnext", "efficientnet_b0", "language_model", "mixer", "odd_channels", "unet", "vae",
    "vit",
]  # fmt: skip


def _bypass(nn: Any, *layers: Any) -> Any:
    """x + f(x)."""

    class Bypass(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.body = nn.Sequential(*layers)

        def forward(self, x: Any) -> Any:
            return x + self.body(x)

    return Bypass()


def _convolution(nn: Any, inputs: int, outputs: int, kernel: int, stride: int = 1) -> list[Any]:
    layer = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False)
    return [layer, nn.BatchNorm2d(outputs)]


def _mbconv(nn: Any, inputs: int, outputs: int, kernel: int, stride: int, expand: int) -> Any:
    """EfficientNet's block: widen, filter each channel, weigh the channels, narrow."""
    inner, squeezed = inputs * expand, inputs // 4

    class Weighed(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            down, up = nn.Conv2d(inner, squeezed, 1), nn.Conv2d(squeezed, inner, 1)
            pool = nn.AdaptiveAvgPool2d(1)
            self.weight = nn.Sequential(pool, down, nn.SiLU(), up, nn.Sigmoid())

        def forward(self, x: Any) -> Any:
            return x * self.weight(x)

    layers = [*_convolution(nn, inputs, inner, 1), nn.SiLU()] if expand > 1 else []
    each = nn.Conv2d(inner, inner, kernel, stride, kernel // 2, groups=inner, bias=False)
    layers += [each, nn.BatchNorm2d(inner), nn.SiLU(), Weighed()]
    layers += _convolution(nn, inner, outputs, 1)
    fits = stride == 1 and inputs == outputs
    return _bypass(nn, *layers) if fits else nn.Sequential(*layers)


def efficientnet_b0(xp: Any) -> Any:
    """EfficientNet-B0 (Tan and Le, 2019), 1000 classes."""
    nn, width = xp.nn, 32
    layers = [*_convolution(nn, 3, width, 3, 2), nn.SiLU()]
    for expand, outputs, count, stride, kernel in (
        (1, 16, 1, 1, 3), (6, 24, 2, 2, 3), (6, 40, 2, 2, 5), (6, 80, 3, 2, 3), (6, 112, 3, 1, 5),
        (6, 192, 4, 2, 5), (6, 320, 1, 1, 3),
    ):  # fmt: skip
        for number in range(count):
            step = 1 if number else stride
            layers.append(_mbconv(nn, width, outputs, kernel, step, expand))
            width = outputs
    layers += [*_convolution(nn, width, 1280, 1), nn.SiLU()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(1280, 1000))


def unet(xp: Any, widths: tuple[int, ...] = (16, 32, 64, 128)) -> Any:
    """A small U-Net (Ronneberger et al., 2015) of one output channel."""
    nn = xp.nn

    def double(inputs: int, outputs: int) -> Any:
        first, second = _convolution(nn, inputs, outputs, 3), _convolution(nn, outputs, outputs, 3)
        return nn.Sequential(*first, nn.ReLU(), *second, nn.ReLU())

    class UNet(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            pairs = list(pairwise(widths))
            self.first, self.pool = double(3, widths[0]), nn.MaxPool2d(2)
            self.down = nn.ModuleList([double(a, b) for a, b in pairs])
            self.up = nn.ModuleList([nn.ConvTranspose2d(b, a, 2, 2) for a, b in pairs[::-1]])
            self.join = nn.ModuleList([double(2 * a, a) for a, _ in pairs[::-1]])
            self.last = nn.Conv2d(widths[0], 1, 1)

        def forward(self, x: Any) -> Any:
            kept = [self.first(x)]
            for layer in self.down:
                kept.append(layer(self.pool(kept[-1])))
            x = kept.pop()
            for up, join in zip(self.up, self.join, strict=True):
                x = join(xp.concat([kept.pop(), up(x)], 1))
            return self.last(x)

    return UNet()


def _attention(nn: Any, width: int, heads: int) -> Any:
    """Multi-head attention of a sequence to itself, its three products in one."""

    class Attention(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

        def forward(self, x: Any) -> Any:
            b, t, _ = x.shape
            parts = self.qkv(x).reshape(b, t, 3, heads, width // heads).permute(2, 0, 3, 1, 4)
            y = nn.functional.scaled_dot_product_attention(parts[0], parts[1], parts[2])
            return self.out(y.permute(0, 2, 1, 3).reshape(b, t, width))

    return Attention()


def _feed_forward(nn: Any, width: int, inner: int) -> list[Any]:
    return [nn.Linear(width, inner), nn.GELU(), nn.Linear(inner, width)]


def bert(
    xp: Any, layers: int = 6, width: int = 768, vocabulary: int = 30522, longest: int = 512
) -> Any:
    """A text encoder of BERT's layers (Devlin et al., 2018): norms behind the bypasses."""
    nn = xp.nn

    class Bert(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Embedding(longest, width)
            self.norm = nn.LayerNorm(width, eps=1e-12)
            parts: list[Any] = []
            for _ in range(layers):
                parts.append(_bypass(nn, _attention(nn, width, width // 64)))
                parts.append(nn.LayerNorm(width, eps=1e-12))
                parts.append(_bypass(nn, *_feed_forward(nn, width, 4 * width)))
                parts.append(nn.LayerNorm(width, eps=1e-12))
            self.layers = nn.Sequential(*parts)

        def forward(self, tokens: Any) -> Any:
            places = self.places(xp.arange(tokens.shape[1]))
            return self.layers(self.norm(self.tokens(tokens) + places))

    return Bert()


def vit(xp: Any, width: int, layers: int = 12, size: int = 224, patch: int = 16) -> Any:
    """A vision transformer (Dosovitskiy et al., 2020) with the mean of the patches at its end."""
    nn = xp.nn

    class ViT(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.patches = nn.Conv2d(3, width, patch, patch)
            self.places = nn.Embedding((size // patch) ** 2, width)
            parts: list[Any] = []
            for _ in range(layers):
                attend = _attention(nn, width, width // 64)
                parts.append(_bypass(nn, nn.LayerNorm(width), attend))
                forward = _feed_forward(nn, width, 4 * width)
                parts.append(_bypass(nn, nn.LayerNorm(width), *forward))
            self.layers = nn.Sequential(*parts, nn.LayerNorm(width))
            self.head = nn.Linear(width, 1000)

        def forward(self, x: Any) -> Any:
            x = self.patches(x).flatten(2).permute(0, 2, 1) + self.places.weight
            return self.head(self.layers(x).mean(1))

    return ViT()


def mixer(xp: Any, width: int = 512, layers: int = 8, size: int = 224, patch: int = 16) -> Any:
    """MLP-Mixer S/16 (Tolstikhin et al., 2021)."""
    nn, tokens = xp.nn, (size // patch) ** 2

    class Across(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.body = nn.Sequential(*_feed_forward(nn, tokens, width // 2))

        def forward(self, x: Any) -> Any:
            return self.body(x.permute(0, 2, 1)).permute(0, 2, 1)

    class Mixer(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.patches = nn.Conv2d(3, width, patch, patch)
            parts: list[Any] = []
            for _ in range(layers):
                parts.append(_bypass(nn, nn.LayerNorm(width), Across()))
                parts.append(_bypass(nn, nn.LayerNorm(width), *_feed_forward(nn, width, 4 * width)))
            self.layers = nn.Sequential(*parts, nn.LayerNorm(width))
            self.head = nn.Linear(width, 1000)

        def forward(self, x: Any) -> Any:
            return self.head(self.layers(self.patches(x).flatten(2).permute(0, 2, 1)).mean(1))

    return Mixer()


def convnext(xp: Any, widths: tuple[int, ...] = (48, 96, 192, 384)) -> Any:
    """ConvNeXt (Liu et al., 2022), half as wide as its smallest: 7 × 7 filters of each channel,
    norms and products over the channels.
    """
    nn = xp.nn

    class Last(nn.Module):  # type: ignore[misc]
        """Layers that want the channels last."""

        def __init__(self, *layers: Any) -> None:
            super().__init__()
            self.body = nn.Sequential(*layers)

        def forward(self, x: Any) -> Any:
            return self.body(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)

    layers = [nn.Conv2d(3, widths[0], 4, 4), Last(nn.LayerNorm(widths[0], eps=1e-6))]
    for number, (width, count) in enumerate(zip(widths, (3, 3, 9, 3), strict=True)):
        if number:
            before = widths[number - 1]
            layers += [Last(nn.LayerNorm(before, eps=1e-6)), nn.Conv2d(before, width, 2, 2)]
        for _ in range(count):
            each = nn.Conv2d(width, width, 7, 1, 3, groups=width)
            inner = [nn.LayerNorm(width, eps=1e-6), *_feed_forward(nn, width, 4 * width)]
            layers.append(_bypass(nn, each, Last(*inner)))
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(widths[-1], 1000)]
    return nn.Sequential(*layers, *head)


def language_model(xp: Any, vocabulary: int = 5000, width: int = 256) -> Any:
    """Two layers of LSTM between an embedding and the scores of the next token."""
    nn = xp.nn

    class LanguageModel(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.tokens = nn.Embedding(vocabulary, width)
            self.lstm = nn.LSTM(width, width, num_layers=2, batch_first=True)
            self.head = nn.Linear(width, vocabulary)

        def forward(self, tokens: Any) -> Any:
            return self.head(self.lstm(self.tokens(tokens))[0])

    return LanguageModel()


def vae(xp: Any, latent: int = 16) -> Any:
    """A variational autoencoder (Kingma and Welling, 2013) of 28 × 28 images; noise is an input."""
    nn = xp.nn

    class VAE(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.encode = nn.Sequential(
                nn.Conv2d(1, 32, 3, 2, 1), nn.ReLU(), nn.Conv2d(32, 64, 3, 2, 1), nn.ReLU(),
                nn.Flatten(), nn.Linear(64 * 49, 2 * latent),
            )  # fmt: skip
            self.widen = nn.Linear(latent, 64 * 49)
            self.decode = nn.Sequential(
                nn.ReLU(), nn.ConvTranspose2d(64, 32, 4, 2, 1), nn.ReLU(),
                nn.ConvTranspose2d(32, 1, 4, 2, 1),
            )  # fmt: skip

        def forward(self, x: Any, noise: Any) -> Any:
            code = self.encode(x)
            mean, log_variance = code[:, :latent], code[:, latent:] * 0.1
            z = mean + xp.exp(log_variance / 2) * noise
            return self.decode(self.widen(z).reshape(-1, 64, 7, 7)), mean, log_variance

    return VAE()


def odd_channels(xp: Any, widths: tuple[int, ...] = (3, 17, 33, 65)) -> Any:
    """Convolutions whose numbers of channels fit no vector, ten classes."""
    nn = xp.nn
    layers: list[Any] = []
    for inputs, outputs in pairwise(widths):
        layers += [*_convolution(nn, inputs, outputs, 3), nn.ReLU(), nn.MaxPool2d(2)]
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(widths[-1], 10)]
    return nn.Sequential(*layers, *head)
