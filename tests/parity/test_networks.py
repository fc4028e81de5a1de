"""The benchmarks' networks give what PyTorch's give from the same state, forward and backward."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch

import lamella as lm
from benchmarks import networks
from benchmarks.layers import jax_functions
from benchmarks.workloads import vision

TOKENS = np.random.default_rng(1).integers(0, 50, (2, 9))
NETWORKS: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "efficientnet_b0": (networks.efficientnet_b0, vision.images(2, 64)),
    "unet": (partial(networks.unet, widths=(4, 6, 8)), vision.images(2, 16)),
    "bert": (partial(networks.bert, layers=1, width=64, vocabulary=50, longest=9), TOKENS),
    "vit": (partial(networks.vit, width=64, layers=1, size=32), vision.images(2, 32)),
    "mixer": (partial(networks.mixer, width=16, layers=2, size=32), vision.images(2, 32)),
    "convnext": (partial(networks.convnext, widths=(4, 6, 8, 10)), vision.images(2, 64)),
    "language_model": (partial(networks.language_model, vocabulary=50, width=8), TOKENS),
    "odd_channels": (networks.odd_channels, vision.images(3, 24)),
}


def models(make: Callable[[Any], Any]) -> tuple[Any, Any]:
    own, other = make(lm), make(torch)
    values = vision.weights(other)
    assert values.keys() == vision.weights(own).keys()
    own.load_state_dict(values, strict=False)
    other.load_state_dict({n: torch.from_numpy(v) for n, v in values.items()}, strict=False)
    return own, other


def close(value: Any, wanted: Any) -> None:
    value, wanted = value.numpy(), wanted.detach().numpy()
    assert value.shape == wanted.shape
    assert np.abs(value - wanted).max() <= 1e-4 * max(1e-3, np.abs(wanted).max())


@pytest.mark.parametrize("name", NETWORKS)
def test_networks_agree_with_pytorch(name: str) -> None:
    make, x = NETWORKS[name]
    own, other = models(make)
    own.eval()
    other.eval()
    y, wanted = own(lm.asarray(x)), other(torch.from_numpy(x))
    close(y.detach(), wanted)
    (y * y).mean().backward()
    (wanted * wanted).mean().backward()
    gradients = dict(own.named_parameters())
    for parameter, value in other.named_parameters():
        close(gradients[parameter].grad, value.grad)


def test_layers_over_functions_agree_with_pytorch() -> None:
    model, values = vision.stated(vision.resnet18, jax_functions())
    model.bind(values)
    other = vision.torch_model(vision.resnet18, False).eval()
    x = vision.images(2, 64)
    wanted = other(torch.from_numpy(x)).detach().numpy()
    assert np.abs(np.asarray(model(x)) - wanted).max() <= 1e-4 * np.abs(wanted).max()
