"""What users do wrong, or to NumPy arrays they passed: clear errors, and results that stay."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lamella as lm
from lamella import nn
from lamella.errors import ShapeError

F = nn.functional


@pytest.mark.parametrize(
    "function",
    [
        F.relu,
        lambda x: F.linear(x, lm.ones((2, 3))),
        nn.Linear(3, 2),
        nn.Parameter,
        lambda x: F.mse_loss(x, np.zeros((2, 3), np.float32)),
        lm.grad(lambda x: (x * x).sum()),
        lm.vmap(lambda x: x * 2),
        lambda x: lm.jvp(lambda x: x * 2, (x,), (x,))[1],
    ],
)
def test_results_do_not_change_with_an_array_filled_again(function: Callable[[Any], Any]) -> None:
    batch = np.ones((2, 3), np.float32)
    expected = function(np.ones((2, 3), np.float32)).numpy().copy()
    found = function(batch)
    batch[:] = 7.0  # as a loop does that reuses one buffer for its batches
    np.testing.assert_array_equal(found.numpy(), expected)


def test_results_of_an_interpreted_jit_do_not_change_either() -> None:
    with lm.config(backend="interpret"):
        batch = np.ones(3, np.float32)
        found = lm.jit(lambda x: x * 2)(batch)
        batch[:] = 7.0
        assert found.tolist() == [2.0, 2.0, 2.0]


@pytest.mark.parametrize("shape", [(3, 3), (1, 1, 2, 2), (3, 2, 2)])
def test_an_attention_mask_that_does_not_fit_is_named(shape: tuple[int, ...]) -> None:
    q = lm.ones((1, 2, 4))
    for dtype in (lm.bool_, lm.float32):
        with pytest.raises(ShapeError, match=r"\[scaled_dot_product_attention\] a mask of shape"):
            F.scaled_dot_product_attention(q, q, q, attn_mask=lm.ones(shape, dtype=dtype))


def test_masks_of_multihead_attention_that_do_not_fit_are_named() -> None:
    attention, x = nn.MultiheadAttention(4, 2), lm.ones((2, 3, 4))
    for mask in (np.ones((2, 3), bool), np.ones(3, bool)):  # the batch is the second axis
        with pytest.raises(ShapeError, match=r"key_padding_mask of shape .*otherwise"):
            attention(x, x, x, key_padding_mask=mask)
    with pytest.raises(ShapeError, match=r"attn_mask of shape \(3, 2, 2\).* 6 here"):
        attention(x, x, x, attn_mask=np.ones((3, 2, 2), bool))
    y, _ = attention(x, x, x, key_padding_mask=np.zeros((3, 2), bool))
    assert y.shape == (2, 3, 4)
