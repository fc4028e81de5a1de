"""Convolutional networks written once for ``lamella.nn`` and ``torch.nn``, whose names agree, and
weights drawn by the parameters' names; what the workloads of this kind share.

Batch normalisation has random running statistics, so that folding it is no identity.
"""

from __future__ import annotations

import io
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.harness import Array, Task

Make = Callable[[Any], Any]


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
    forward = lm.jit(lambda x: model(x))
    x = lm.asarray(images(batch))
    last: list[Any] = []

    def run() -> None:
        with lm.no_grad():
            y = forward(x)
            lm.eval(y)
        last[:] = [y]

    return Task(run, lambda: last[0].numpy())


def torch_model(make: Make, last: bool) -> Any:
    """The model of PyTorch with the same weights, ``last``: in the channels-last format."""
    import torch as th

    model = make(th.nn)
    state = {name: th.from_numpy(value) for name, value in weights(model).items()}
    model.load_state_dict(state, strict=False)
    return model.to(memory_format=th.channels_last) if last else model


def torch_inference(make: Make, batch: int, last: bool = False, compiled: bool = False) -> Task:
    """PyTorch: eager or compiled, channels first or last."""
    import torch as th

    model = torch_model(make, last).eval()
    forward = th.compile(model) if compiled else model
    x = th.from_numpy(images(batch))
    x = x.to(memory_format=th.channels_last) if last else x
    found: list[Any] = []

    def run() -> None:
        with th.no_grad():
            found[:] = [forward(x)]

    return Task(run, lambda: found[0].numpy())


def onnxruntime_inference(make: Make, batch: int, threads: int = 2) -> Task:
    """ONNX Runtime on what PyTorch exports."""
    import onnxruntime as ort
    import torch as th

    model, x = torch_model(make, False).eval(), images(batch)
    file = io.BytesIO()
    th.onnx.export(model, (th.from_numpy(x),), file, dynamo=False)
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    session = ort.InferenceSession(file.getvalue(), options, providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    found: list[Any] = []

    def run() -> None:
        found[:] = session.run(None, {name: x})

    return Task(run, lambda: np.asarray(found[0]))
