"""Networks of other kinds than the workloads with names of their own: inference, and training
steps. Random weights, float32.

A contestant is called FRAMEWORK_CASE, as in ``torch_unet``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from benchmarks import networks, peers
from benchmarks.harness import Array, Figure, Task, against, race
from benchmarks.workloads import vision

TRAINING = ("torch", "lamella", "torch_compile")
INFERENCE = (*TRAINING, "torch_frozen", "onnxruntime", "openvino")
Loss = Callable[[Any, Any, list[Any]], Any]  # of the framework's module, the network, the inputs


@dataclass(frozen=True)
class Case:
    """A network and its inputs; with ``loss`` a training step by Adam is measured."""

    title: str
    make: Callable[[Any], Any]
    inputs: Callable[[], list[Array]]
    loss: Loss | None = None


def _integers(below: int, *shape: int) -> Array:
    return np.random.default_rng(5).integers(0, below, shape)


def _vae_inputs() -> list[Array]:
    draw = np.random.default_rng(9)
    noise = draw.standard_normal((64, 16)).astype(np.float32)
    return [draw.random((64, 1, 28, 28)).astype(np.float32), noise]


def _vae_loss(xp: Any, model: Any, inputs: list[Any]) -> Any:
    image, mean, log_variance = model(*inputs)
    likelihood = xp.nn.functional.binary_cross_entropy_with_logits(image, inputs[0])
    divergence = (mean * mean + xp.exp(log_variance) - log_variance - 1).mean()
    return likelihood + 0.01 * divergence


def _token_loss(xp: Any, model: Any, inputs: list[Any]) -> Any:
    scores = model(inputs[0][:, :-1])
    wanted = inputs[0][:, 1:].reshape(-1)
    return xp.nn.functional.cross_entropy(scores.reshape(-1, scores.shape[-1]), wanted)


def _class_loss(xp: Any, model: Any, inputs: list[Any]) -> Any:
    return xp.nn.functional.cross_entropy(model(inputs[0]), inputs[1])


def _vit(width: int, batch: int) -> Case:
    title = f"ViT, {width} wide, 224², batch {batch}"
    return Case(title, partial(networks.vit, width=width), lambda: [vision.images(batch)])


CASES = {
    "efficientnet": Case(
        "EfficientNet-B0, 224²", networks.efficientnet_b0, lambda: [vision.images(1)]
    ),
    "unet": Case("U-Net, 128²", networks.unet, lambda: [vision.images(1, 128)]),
    "bert": Case("BERT, 6 layers, 2 × 128", networks.bert, lambda: [_integers(30522, 2, 128)]),
    "vit_tiny": _vit(192, 1),
    "vit_small": _vit(384, 3),
    "mixer": Case("MLP-Mixer S/16, 224²", networks.mixer, lambda: [vision.images(1)]),
    "convnext": Case("ConvNeXt, narrow, 224²", networks.convnext, lambda: [vision.images(1)]),
    "lstm_train": Case(
        "LSTM language model step, 16 × 64", networks.language_model,
        lambda: [_integers(5000, 16, 65)], _token_loss,
    ),
    "vae_train": Case("VAE step, 64 × 28²", networks.vae, _vae_inputs, _vae_loss),
    "odd_train": Case(
        "odd channels step, 3 × 96²", networks.odd_channels,
        lambda: [vision.images(3, 96), _integers(10, 3)], _class_loss,
    ),
}  # fmt: skip


def _lamella(case: Case) -> Task:
    import lamella as lm
    from lamella import optim

    model = case.make(lm)
    model.load_state_dict(vision.weights(model), strict=False)
    inputs = [lm.asarray(a) for a in case.inputs()]
    if case.loss is None:
        model.eval()
        return vision.lamella_forward(model, inputs)
    loss_of, optimizer = case.loss, optim.Adam(model.parameters(), lr=1e-3)

    @lm.jit
    def step(*inputs: Any) -> Any:
        loss = loss_of(lm, model, list(inputs))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    return peers.repeated(lambda: step(*inputs).numpy(), lambda y: y)


def _torch(case: Case, compiled: bool, frozen: bool) -> Task:
    import torch as th

    model = _torch_model(case)
    inputs = [th.from_numpy(a) for a in case.inputs()]
    if case.loss is None:
        return vision.torch_forward(model.eval(), inputs, compiled, frozen)
    loss_of, optimizer = case.loss, th.optim.Adam(model.parameters(), lr=1e-3)

    def forward(*inputs: Any) -> Any:
        return loss_of(th, model, list(inputs))

    forward = th.compile(forward) if compiled else forward

    def step() -> Any:
        loss = forward(*inputs)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return peers.repeated(step, lambda y: y.numpy())


def _torch_model(case: Case) -> Any:
    import torch as th

    model = case.make(th)
    state = {name: th.from_numpy(value) for name, value in vision.weights(model).items()}
    model.load_state_dict(state, strict=False)
    return model


def _task(framework: str, name: str) -> Task:
    case = CASES[name]
    if framework == "lamella":
        return _lamella(case)
    if framework in ("onnxruntime", "openvino"):
        inputs = case.inputs()
        file = peers.exported(_torch_model(case), inputs)
        return peers.repeated(peers.session(framework, file, inputs), np.array)
    return _torch(case, framework != "torch", framework == "torch_frozen")


__getattr__ = peers.by_case(_task, CASES)


def measure(quick: bool) -> list[Figure]:
    """Lamella's time as a ratio to the others'."""
    figures = []
    for name, case in CASES.items():
        names = TRAINING if case.loss else INFERENCE
        timings, left_out = race("models", names, rounds=3 if quick else 9, rtol=1e-3, case=name)
        figures += against(case.title, timings, left_out, dict.fromkeys(names, 1.0))
    return figures
