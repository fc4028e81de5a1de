"""Composed transformations: gradients for each sample of a small convolutional network, and
Hessians of a 10-32-1 network by its input and by its first layer.

A contestant is called FRAMEWORK_CASE, as in ``torch_persample``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.harness import Array, Figure, Task, against, race

FRAMEWORKS = ("torch", "lamella", "torch_compile", "jax")
CASES = ("persample", "hess_input", "hess_params")
DRAW = np.random.default_rng(0)


def draw(*shape: int) -> Array:
    """float32 weights of a sensible size."""
    return (DRAW.normal(size=shape) / max(1, np.prod(shape[1:])) ** 0.5).astype(np.float32)


CNN = {
    "conv1": draw(16, 1, 3, 3), "bias1": draw(16), "conv2": draw(32, 16, 3, 3), "bias2": draw(32),
    "head": draw(10, 32), "bias3": draw(10),
}  # fmt: skip
IMAGES, LABELS = draw(64, 1, 16, 16), DRAW.integers(0, 10, 64)
MLP = {"w1": draw(32, 10), "b1": draw(32), "w2": draw(1, 32), "b2": draw(1)}
POINT = draw(10)


def cnn_loss(f: Any, weights: Any, image: Any, label: Any) -> Any:
    """Cross-entropy of one image; ``f`` has a framework's functions."""
    x = f.relu(f.conv(image[None], weights["conv1"], weights["bias1"]))
    x = f.relu(f.conv(x, weights["conv2"], weights["bias2"]))
    x = f.mean(x, (2, 3)) @ weights["head"].T + weights["bias3"]
    return f.cross_entropy(x, label[None])


def mlp(f: Any, weights: Any, x: Any) -> Any:
    """A scalar function of ten numbers."""
    hidden = f.tanh(weights["w1"] @ x + weights["b1"])
    return (weights["w2"] @ hidden + weights["b2"])[0]


class _Lamella:
    def __init__(self) -> None:
        import lamella as lm

        functional = lm.nn.functional
        self.relu, self.tanh, self.mean = functional.relu, lm.tanh, lm.mean
        self.cross_entropy = functional.cross_entropy
        self.conv = lambda x, w, b: functional.conv2d(x, w, b, padding=1, stride=2)
        self.array, self.lm = lm.asarray, lm
        self.grad, self.vmap, self.hessian = lm.grad, lm.vmap, lm.hessian
        self.compiled = lm.jit
        self.numpy = lambda value: value.numpy()

    def wait(self, value: Any) -> Any:
        self.lm.eval(value)
        return value


class _Torch:
    def __init__(self, compiled: bool = False) -> None:
        import torch as th

        functional = th.nn.functional
        self.relu, self.tanh, self.mean = functional.relu, th.tanh, th.mean
        self.cross_entropy = functional.cross_entropy
        self.conv = lambda x, w, b: functional.conv2d(x, w, b, padding=1, stride=2)
        self.array = th.from_numpy
        self.grad, self.vmap, self.hessian = th.func.grad, th.vmap, th.func.hessian
        self.compiled = th.compile if compiled else (lambda f: f)
        self.numpy = lambda value: value.numpy()

    def wait(self, value: Any) -> Any:
        return value


class _Jax:
    def __init__(self) -> None:
        import jax as j
        import jax.numpy as jnp

        def conv(x: Any, w: Any, b: Any) -> Any:
            y = j.lax.conv_general_dilated(x, w, (2, 2), [(1, 1), (1, 1)])
            return y + b[None, :, None, None]

        self.relu, self.tanh, self.mean, self.conv = j.nn.relu, jnp.tanh, jnp.mean, conv
        self.cross_entropy = lambda x, y: -j.nn.log_softmax(x)[jnp.arange(len(y)), y].mean()
        self.array = jnp.asarray
        self.grad, self.vmap, self.hessian, self.compiled = j.grad, j.vmap, j.hessian, j.jit
        self.numpy = np.asarray
        self._wait = j.block_until_ready

    def wait(self, value: Any) -> Any:
        return self._wait(value)


def _make(framework: str) -> Any:
    made: dict[str, Callable[[], Any]] = {
        "lamella": _Lamella, "torch": _Torch, "torch_compile": lambda: _Torch(compiled=True),
        "jax": _Jax,
    }  # fmt: skip
    return made[framework]()


def _task(framework: str, case: str) -> Task:
    f = _make(framework)
    if case == "persample":
        weights = {name: f.array(value) for name, value in CNN.items()}
        images, labels = f.array(IMAGES), f.array(LABELS)
        gradients = f.vmap(f.grad(lambda w, x, y: cnn_loss(f, w, x, y)), (None, 0, 0))
        function = f.compiled(lambda w, x, y: gradients(w, x, y)["conv2"])
        arguments = (weights, images, labels)
    else:
        weights = {name: f.array(value) for name, value in MLP.items()}
        point = f.array(POINT)
        if case == "hess_input":
            function = f.compiled(f.hessian(lambda x: mlp(f, weights, x)))
            arguments = (point,)
        else:
            function = f.compiled(f.hessian(lambda w: mlp(f, {**weights, "w1": w}, point)))
            arguments = (weights["w1"],)
    last: list[Any] = []

    def run() -> None:
        last[:] = [f.wait(function(*arguments))]

    return Task(run, lambda: f.numpy(last[0]))


def __getattr__(name: str) -> Callable[[], Task]:
    for case in CASES:
        framework = name.removesuffix(f"_{case}")
        if framework != name and framework in FRAMEWORKS:
            return lambda: _task(framework, case)
    raise AttributeError(name)


def measure(quick: bool) -> list[Figure]:
    """Lamella's time as a ratio to the others'."""
    figures = []
    for case in CASES:
        names = [f"{framework}_{case}" for framework in FRAMEWORKS]
        timings, left_out = race("transforms", names, rounds=3 if quick else 9, rtol=1e-3)
        mine = {name.removesuffix(f"_{case}"): timing for name, timing in timings.items()}
        missing = {name.removesuffix(f"_{case}"): reason for name, reason in left_out.items()}
        limits = dict.fromkeys(FRAMEWORKS, 1.0)
        figures += against(f"transforms/{case}", mine, missing, limits)
    return figures
