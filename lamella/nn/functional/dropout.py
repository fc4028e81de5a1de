"""Dropout of elements and of whole channels, plain and for self-normalising networks.

Random numbers come from the implicit generator (``lm.manual_seed``), so that a jitted step draws
new ones each time.
"""

from __future__ import annotations

import math
from typing import Any

import lamella as lm
from lamella.nn.functional.support import check_probability, check_rank, in_place, tensor
from lamella.tensor.tensor import Tensor

__all__ = [
    "alpha_dropout", "dropout", "dropout1d", "dropout2d", "dropout3d", "feature_alpha_dropout",
]  # fmt: skip

_SATURATION = -1.7580993408473766  # where selu goes for large negative inputs


def _kept(shape: tuple[int, ...], p: float) -> Tensor:
    return lm.random.uniform(shape) >= p


def _dropped(x: Tensor, p: float, shape: tuple[int, ...]) -> Tensor:
    """``x`` with zeros where an element of ``shape`` is drawn, over the share that is kept."""
    return x * 0.0 if p == 1 else lm.where(_kept(shape, p), x * (1 / (1 - p)), 0)


def dropout(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """In training, each element is 0 with probability ``p`` and divided by ``1 - p`` otherwise
    (Srivastava et al., 2014).

    Raises:
        OptionError: if ``p`` is no probability.

    >>> dropout(lm.ones(3), 0.0).tolist()
    [1.0, 1.0, 1.0]
    """
    x = tensor(input)
    check_probability("dropout", p)
    if not training or p == 0:
        return x
    return in_place("dropout", input, _dropped(x, p, x.shape), inplace)


def _channels(
    op: str, input: Any, ranks: tuple[int, int], single: int, p: float, training: bool,
    inplace: bool,
) -> Tensor:  # fmt: skip
    """Whole channels dropped; an input of ``single`` axes has no batch axis."""
    x = tensor(input)
    check_probability(op, p)
    check_rank(op, x, ranks, "(N, C, *spatial) or (C, *spatial)")
    if not training or p == 0:
        return x
    lead = x.shape[:1] if x.ndim == single else x.shape[:2]
    y = _dropped(x, p, (*lead, *(1,) * (x.ndim - len(lead))))
    return in_place(op, input, y, inplace)


def dropout1d(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """:func:`dropout` of whole channels of ``(N, C, L)`` or ``(C, L)``.

    >>> dropout1d(lm.ones((1, 2, 3)), 1.0).sum().item()
    0.0
    """
    return _channels("dropout1d", input, (2, 3), 2, p, training, inplace)


def dropout2d(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """:func:`dropout` of whole channels of ``(N, C, H, W)``; ``(N, C, L)`` is taken too, as in
    PyTorch (Tompson et al., 2015).

    >>> dropout2d(lm.ones((1, 2, 3, 3)), 1.0).sum().item()
    0.0
    """
    return _channels("dropout2d", input, (3, 4), 0, p, training, inplace)


def dropout3d(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """:func:`dropout` of whole channels of ``(N, C, D, H, W)`` or ``(C, D, H, W)``.

    >>> dropout3d(lm.ones((1, 2, 3, 3, 3)), 1.0).sum().item()
    0.0
    """
    return _channels("dropout3d", input, (4, 5), 4, p, training, inplace)


def _alpha(x: Tensor, p: float, shape: tuple[int, ...]) -> Tensor:
    if p == 1:
        return x * 0.0
    scale = 1 / math.sqrt((_SATURATION**2 * p + 1) * (1 - p))
    shift = -scale * _SATURATION * p
    return lm.where(_kept(shape, p), x * scale, _SATURATION * scale) + shift


def alpha_dropout(
    input: Any, p: float = 0.5, training: bool = False, inplace: bool = False
) -> Tensor:
    """Dropout to the value where :func:`selu` saturates, scaled and shifted so that mean 0 and
    variance 1 stay (Klambauer et al., 2017).

    >>> alpha_dropout(lm.ones(3), 0.5).tolist()
    [1.0, 1.0, 1.0]
    """
    x = tensor(input)
    check_probability("alpha_dropout", p)
    if not training or p == 0:
        return x
    return in_place("alpha_dropout", input, _alpha(x, p, x.shape), inplace)


def feature_alpha_dropout(
    input: Any, p: float = 0.5, training: bool = False, inplace: bool = False
) -> Tensor:
    """:func:`alpha_dropout` of whole channels of ``(N, C, *)``.

    >>> feature_alpha_dropout(lm.ones((1, 1, 3)), 0.5).tolist()
    [[[1.0, 1.0, 1.0]]]
    """
    x = tensor(input)
    check_probability("feature_alpha_dropout", p)
    if not training or p == 0:
        return x
    check_rank("feature_alpha_dropout", x, range(2, 9), "(N, C, *)")
    y = _alpha(x, p, (*x.shape[:2], *(1,) * (x.ndim - 2)))
    return in_place("feature_alpha_dropout", input, y, inplace)
