"""The layers of the benchmark's convolutional networks for frameworks that have only functions, so
that a network is written once for them, ``torch.nn`` and ``lamella.nn``.

Input: a framework's :class:`Functions`. Output: :class:`Layers`, with the names and parameters of
``torch.nn``. Parameters are arrays of the framework that :meth:`Module.bind` puts in place, traced
ones as well; batch normalisation in training puts its new statistics in place of the old.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["Functions", "Layers", "Module", "jax_functions", "mlx_functions", "tinygrad_functions"]

EPSILON, MOMENTUM = 1e-5, 0.1


@dataclass(frozen=True)
class Functions:
    """What layers need. Images are (N, C, H, W), or (N, H, W, C) with ``last``; weights of
    convolutions are PyTorch's, or (O, H, W, I) with ``last``.
    """

    conv: Callable[[Any, Any, int, int, int], Any]  # x, weight, stride, padding, groups
    max_pool: Callable[[Any, int, int, int], Any]  # x, window, stride, padding
    clip: Callable[[Any, float | None], Any]  # x from 0 up to a limit
    mean: Callable[[Any, tuple[int, ...]], Any]  # x, axes
    last: bool = False

    @property
    def spatial(self) -> tuple[int, int]:
        """The axes of height and width."""
        return (1, 2) if self.last else (2, 3)

    def columns(self, channels: Any) -> Any:
        """Numbers of channels in a shape that meets images."""
        return channels if self.last else channels.reshape(1, -1, 1, 1)


class Module:
    """A layer: ``arrays`` names its parameters and statistics; children are attributes."""

    arrays: tuple[str, ...] = ()

    def __call__(self, *inputs: Any) -> Any:
        """The same as :meth:`forward`."""
        return self.forward(*inputs)

    def forward(self, *inputs: Any) -> Any:
        """What the layer computes."""
        raise NotImplementedError

    def places(self, prefix: str = "") -> dict[str, tuple[Module, str]]:
        """The owner and attribute of every array, by PyTorch's name."""
        found = {f"{prefix}{name}": (self, name) for name in self.arrays}
        for name, child in vars(self).items():
            if isinstance(child, Module):
                found |= child.places(f"{prefix}{name}.")
        return found

    def state_dict(self) -> dict[str, Any]:
        """Every array by name."""
        return {name: getattr(*place) for name, place in self.places().items()}

    def bind(self, values: Mapping[str, Any]) -> None:
        """Put arrays in the places of their names."""
        places = self.places()
        for name, value in values.items():
            setattr(*places[name], value)


class Sequential(Module):
    """Layers one after the other, whose names are their numbers."""

    def __init__(self, *layers: Module) -> None:
        self.layers = layers
        for number, layer in enumerate(layers):
            setattr(self, str(number), layer)

    def forward(self, *inputs: Any) -> Any:
        """The last layer's value."""
        (x,) = inputs
        for layer in self.layers:
            x = layer(x)
        return x


class _Function(Module):
    """A layer without parameters."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self.function = function

    def forward(self, *inputs: Any) -> Any:
        return self.function(*inputs)


class _Conv2d(Module):
    arrays = ("weight",)

    def __init__(self, f: Functions, shape: tuple[int, ...], *options: int) -> None:
        self.f, self.options = f, options
        self.weight: Any = np.empty(shape, np.float32)

    def forward(self, *inputs: Any) -> Any:
        return self.f.conv(*inputs, self.weight, *self.options)


class _Linear(Module):
    arrays = ("weight", "bias")

    def __init__(self, inputs: int, outputs: int) -> None:
        self.weight: Any = np.empty((outputs, inputs), np.float32)
        self.bias: Any = np.empty(outputs, np.float32)

    def forward(self, *inputs: Any) -> Any:
        return inputs[0] @ self.weight.T + self.bias


class _BatchNorm2d(Module):
    arrays = ("weight", "bias", "running_mean", "running_var")

    def __init__(self, layers: Layers, channels: int) -> None:
        self.owner, self.f = layers, layers.functions
        self.weight: Any = np.empty(channels, np.float32)
        self.bias, self.running_mean, self.running_var = self.weight, self.weight, self.weight

    def forward(self, *inputs: Any) -> Any:
        (x,) = inputs
        f = self.f
        mean, variance = self.running_mean, self.running_var
        if self.owner.training:
            axes = (0, *f.spatial)
            mean = f.mean(x, axes)
            variance = f.mean((x - f.columns(mean)) ** 2, axes)
            count = np.prod([x.shape[axis] for axis in axes])
            unbiased = variance * float(count / (count - 1))
            self.running_mean = (1 - MOMENTUM) * self.running_mean + MOMENTUM * mean
            self.running_var = (1 - MOMENTUM) * self.running_var + MOMENTUM * unbiased
        scale = self.weight * (variance + EPSILON) ** -0.5
        return x * f.columns(scale) + f.columns(self.bias - mean * scale)


class Layers:
    """``torch.nn`` as far as the networks use it, over a framework's functions."""

    Module, Sequential, Linear = Module, Sequential, _Linear

    def __init__(self, functions: Functions, training: bool = False) -> None:
        self.functions, self.training = functions, training

    def Conv2d(  # noqa: N802 - PyTorch's name
        self, inputs: int, outputs: int, kernel: int, stride: int = 1, padding: int = 0, *,
        groups: int = 1, bias: bool = True,
    ) -> Module:  # fmt: skip
        """A convolution without bias."""
        if bias:
            raise NotImplementedError("the networks' convolutions have no bias")
        shape = (outputs, inputs // groups, kernel, kernel)
        return _Conv2d(self.functions, shape, stride, padding, groups)

    def BatchNorm2d(self, channels: int) -> Module:  # noqa: N802
        """Batch normalisation."""
        return _BatchNorm2d(self, channels)

    def ReLU(self) -> Module:  # noqa: N802
        """max(x, 0)."""
        return _Function(lambda x: self.functions.clip(x, None))

    def ReLU6(self) -> Module:  # noqa: N802
        """min(max(x, 0), 6)."""
        return _Function(lambda x: self.functions.clip(x, 6.0))

    def MaxPool2d(self, window: int, stride: int, padding: int) -> Module:  # noqa: N802
        """The largest of each window."""
        return _Function(lambda x: self.functions.max_pool(x, window, stride, padding))

    def AdaptiveAvgPool2d(self, size: int) -> Module:  # noqa: N802
        """The mean of each channel."""
        return _Function(lambda x: self.functions.mean(x, self.functions.spatial))

    def Flatten(self) -> Module:  # noqa: N802
        """Nothing: the mean above has left rows."""
        return _Function(lambda x: x)


def jax_functions() -> Functions:
    """JAX's, channels first."""
    import jax as j
    import jax.numpy as jnp

    def conv(x: Any, weight: Any, stride: int, padding: int, groups: int) -> Any:
        around = [(padding, padding)] * 2
        return j.lax.conv_general_dilated(
            x, weight, (stride, stride), around, feature_group_count=groups
        )

    def max_pool(x: Any, window: int, stride: int, padding: int) -> Any:
        around = [(0, 0), (0, 0), (padding, padding), (padding, padding)]
        sizes, steps = (1, 1, window, window), (1, 1, stride, stride)
        return j.lax.reduce_window(x, -jnp.inf, j.lax.max, sizes, steps, around)

    return Functions(conv, max_pool, lambda x, top: jnp.clip(x, 0, top), jnp.mean)


def mlx_functions() -> Functions:
    """MLX's, channels last, as its convolutions are."""
    import mlx.core as mx
    import mlx.nn

    def conv(x: Any, weight: Any, stride: int, padding: int, groups: int) -> Any:
        return mx.conv2d(x, weight, stride, padding, 1, groups)

    def max_pool(x: Any, window: int, stride: int, padding: int) -> Any:
        return mlx.nn.MaxPool2d(window, stride, padding)(x)

    return Functions(conv, max_pool, lambda x, top: mx.clip(x, 0, top), mx.mean, last=True)


def tinygrad_functions() -> Functions:
    """tinygrad's, channels first."""

    def conv(x: Any, weight: Any, stride: int, padding: int, groups: int) -> Any:
        return x.conv2d(weight, None, groups, stride, 1, padding)

    def max_pool(x: Any, window: int, stride: int, padding: int) -> Any:
        return x.max_pool2d((window, window), stride, 1, padding)

    return Functions(
        conv, max_pool, lambda x, top: x.relu() if top is None else x.clip(0, top),
        lambda x, axes: x.mean(axes),
    )  # fmt: skip
