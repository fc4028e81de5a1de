"""A loaded state belongs to the module: writing to the array it came from changes nothing."""

from __future__ import annotations

import numpy as np

import lamella as lm
from lamella import nn


def test_arrays_are_copied() -> None:
    layer, weight = nn.Linear(2, 1, bias=False), np.ones((1, 2), np.float32)
    layer.load_state_dict({"weight": weight})
    weight[:] = 9.0
    assert layer.weight.tolist() == [[1.0, 1.0]]


def test_tensors_are_taken_as_they_are() -> None:
    layer, weight = nn.Linear(2, 1, bias=False), lm.ones((1, 2))
    layer.load_state_dict({"weight": weight})
    weight += 1
    assert layer.weight.tolist() == [[1.0, 1.0]]
