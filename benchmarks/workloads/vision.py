"""Convolutional networks written once for ``lamella.nn`` and ``torch.nn``, whose names agree, and
weights drawn by the parameters' names; what the workloads of this kind share.

Batch normalisation has random running statistics, so that folding it is no identity.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks import layers, peers
from benchmarks.harness import Array, Task
from benchmarks.layers import Functions, Layers

Make = Callable[[Any], Any]
NAMES = (
    "torch", "lamella", "torch_last", "torch_compile", "torch_compile_last", "torch_frozen", "jax",
    "onnxruntime", "openvino", "mlx", "tinygrad",
)  # fmt: skip


def resnet18(nn: Any) -> Any:
    """ResNet-18 (He et al., 2015), 1000 classes."""

    class Block(nn.Module):  # type: ignore[misc]
        def __init__(self, inputs: int, outputs: int, stride: int) -> None:
            super().__init__()
            self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
            self.bn1 = nn.BatchNorm2d(outputs)
            self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
            self.bn2 = nn.BatchNorm2d(outputs)
            self.relu = nn.ReLU()
            self.downsample = None
            if stride != 1 or inputs != outputs:
                projection = nn.Conv2d(inputs, outputs, 1, stride, bias=False)
                self.downsample = nn.Sequential(projection, nn.BatchNorm2d(outputs))

        def forward(self, x: Any) -> Any:
            y = self.relu(self.bn1(self.conv1(x)))
            y = self.bn2(self.conv2(y))
            return self.relu(y + (x if self.downsample is None else self.downsample(x)))

    stem = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU()]
    blocks = []
    for inputs, outputs, stride in ((64, 64, 1), (64, 128, 2), (128, 256, 2), (256, 512, 2)):
        blocks += [Block(inputs, outputs, stride), Block(outputs, outputs, 1)]
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 1000)]
    return nn.Sequential(*stem, nn.MaxPool2d(3, 2, 1), *blocks, *head)


def _inverted(nn: Any, inputs: int, outputs: int, stride: int, expand: int, kernel: int = 3) -> Any:
    """A block of MobileNetV2: widen, filter each channel, narrow; with a bypass where it fits."""
    inner = inputs * expand

    class Bypass(nn.Module):  # type: ignore[misc]
        def __init__(self, body: Any) -> None:
            super().__init__()
            self.body = body

        def forward(self, x: Any) -> Any:
            return x + self.body(x)

    layers = []
    if expand != 1:
        layers += [nn.Conv2d(inputs, inner, 1, bias=False), nn.BatchNorm2d(inner), nn.ReLU6()]
    layers += [
        nn.Conv2d(inner, inner, kernel, stride, kernel // 2, groups=inner, bias=False),
        nn.BatchNorm2d(inner),
        nn.ReLU6(),
        nn.Conv2d(inner, outputs, 1, bias=False),
        nn.BatchNorm2d(outputs),
    ]
    body = nn.Sequential(*layers)
    return Bypass(body) if stride == 1 and inputs == outputs else body


def mobilenet_v2(nn: Any) -> Any:
    """MobileNetV2 (Sandler et al., 2018), 1000 classes."""
    layers = [nn.Conv2d(3, 32, 3, 2, 1, bias=False), nn.BatchNorm2d(32), nn.ReLU6()]
    inputs = 32
    for expand, outputs, count, stride in (
        (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2),
        (6, 320, 1, 1),
    ):  # fmt: skip
        for number in range(count):
            layers.append(_inverted(nn, inputs, outputs, 1 if number else stride, expand))
            inputs = outputs
    layers += [nn.Conv2d(320, 1280, 1, bias=False), nn.BatchNorm2d(1280), nn.ReLU6()]
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(1280, 1000)]
    return nn.Sequential(*layers, *head)


def weights(model: Any) -> dict[str, Array]:
    """Values for the model's state, drawn by name: the same for every framework."""
    found: dict[str, Array] = {}
    for name, value in model.state_dict().items():
        draw = np.random.default_rng(zlib.crc32(name.encode()))
        shape = tuple(value.shape)
        if len(shape) > 1:
            scale = (2.0 / np.prod(shape[1:])) ** 0.5
            found[name] = (draw.standard_normal(shape) * scale).astype(np.float32)
        elif len(shape) == 1:
            low, high = (-0.1, 0.1) if name.endswith(("bias", "mean")) else (0.8, 1.2)
            found[name] = draw.uniform(low, high, shape).astype(np.float32)
    return found


def images(batch: int, size: int = 224) -> Array:
    """Random images (batch, 3, size, size)."""
    draw = np.random.default_rng(7)
    return draw.standard_normal((batch, 3, size, size)).astype(np.float32)


def lamella_inference(make: Make, batch: int) -> Task:
    """The model under ``jit``, in evaluation mode."""
    import lamella as lm
    from lamella import nn

    model = make(nn)
    model.load_state_dict(weights(model), strict=False)
    model.eval()
    return lamella_forward(model, [lm.asarray(images(batch))])


def lamella_forward(model: Any, inputs: list[Any]) -> Task:
    """A module of Lamella under ``jit``."""
    import lamella as lm

    forward = lm.jit(lambda *inputs: model(*inputs))

    def step() -> Any:
        with lm.no_grad():
            y = forward(*inputs)
            lm.eval(y)
        return y

    return peers.repeated(step, lambda y: y.numpy())


def torch_model(make: Make, last: bool) -> Any:
    """The model of PyTorch with the same weights, ``last``: in the channels-last format."""
    import torch as th

    model = make(th.nn)
    state = {name: th.from_numpy(value) for name, value in weights(model).items()}
    model.load_state_dict(state, strict=False)
    return model.to(memory_format=th.channels_last) if last else model


def torch_inference(
    make: Make, batch: int, last: bool = False, compiled: bool = False, frozen: bool = False
) -> Task:
    """PyTorch: eager or compiled, channels first or last, ``frozen``: its weights as constants."""
    import torch as th

    x = th.from_numpy(images(batch))
    x = x.to(memory_format=th.channels_last) if last else x
    return torch_forward(torch_model(make, last).eval(), [x], compiled, frozen)


def torch_forward(model: Any, inputs: list[Any], compiled: bool, frozen: bool = False) -> Task:
    """A module of PyTorch, eager or compiled."""
    import torch as th

    if frozen:
        import torch._inductor.config

        torch._inductor.config.freezing = True
    forward = th.compile(model) if compiled or frozen else model

    def step() -> Any:
        with th.no_grad():
            return forward(*inputs)

    return peers.repeated(step, lambda y: y.numpy())


def exported_inference(framework: str, make: Make, batch: int) -> Task:
    """ONNX Runtime or OpenVINO on what PyTorch exports."""
    inputs = [images(batch)]
    model = peers.exported(torch_model(make, False), inputs)
    return peers.repeated(peers.session(framework, model, inputs), np.array)


def stated(make: Make, functions: Functions, training: bool = False) -> tuple[Any, dict[str, Any]]:
    """The model over a framework's functions, and NumPy values for its state in its layout."""
    model = make(Layers(functions, training))
    values = weights(model)
    if functions.last:
        values = {n: v.transpose(0, 2, 3, 1) if v.ndim == 4 else v for n, v in values.items()}
    return model, values


def functional_inference(framework: str, make: Make, batch: int) -> Task:
    """JAX, MLX or tinygrad: the same layers over their functions."""
    functions: Functions = getattr(layers, f"{framework}_functions")()
    model, values = stated(make, functions)
    x = images(batch).transpose(0, 2, 3, 1) if functions.last else images(batch)

    def forward(_: Any, state: Any, x: Any) -> Any:
        model.bind(state)
        return model(x)

    inputs = [np.ascontiguousarray(x)]
    return peers.task(framework, {framework: forward}, inputs, tree_contiguous(values))


def tree_contiguous(values: dict[str, Any]) -> dict[str, Any]:
    """The arrays in C order."""
    return {name: np.ascontiguousarray(value) for name, value in values.items()}


def inference(make: Make, framework: str, batch: int) -> Task:
    """A contestant of an inference workload, by name."""
    made: dict[str, Callable[[], Task]] = {
        "lamella": lambda: lamella_inference(make, batch),
        "torch": lambda: torch_inference(make, batch),
        "torch_last": lambda: torch_inference(make, batch, last=True),
        "torch_compile": lambda: torch_inference(make, batch, compiled=True),
        "torch_compile_last": lambda: torch_inference(make, batch, last=True, compiled=True),
        "torch_frozen": lambda: torch_inference(make, batch, frozen=True),
    }
    if framework in made:
        return made[framework]()
    if framework in ("onnxruntime", "openvino"):
        return exported_inference(framework, make, batch)
    return functional_inference(framework, make, batch)
