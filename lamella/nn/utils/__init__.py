"""Functions on the parameters of a model: gradient clipping, and parameters as one vector; ``rnn``
has padded and packed sequences.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import lamella as lm
from lamella.errors import ShapeError
from lamella.nn.utils import rnn
from lamella.tensor.tensor import Tensor

__all__ = [
    "clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_", "get_total_norm",
    "parameters_to_vector", "rnn", "vector_to_parameters",
]  # fmt: skip


def _gradients(parameters: Tensor | Iterable[Tensor]) -> list[tuple[Tensor, Tensor]]:
    given = [parameters] if isinstance(parameters, Tensor) else list(parameters)
    return [(parameter, parameter.grad) for parameter in given if parameter.grad is not None]


def clip_grad_norm_(
    parameters: Tensor | Iterable[Tensor], max_norm: float, norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
) -> Tensor:  # fmt: skip
    """Scale all gradients together so that their joint norm is at most ``max_norm``.

    Args:
        parameters: tensors whose ``.grad`` is scaled in place.
        max_norm: the largest norm allowed.
        norm_type: the exponent; ``inf`` for the largest absolute value.
        error_if_nonfinite: raise if the norm is nan or infinite, which would spoil all gradients.

    Returns:
        the norm before scaling, 0-d.

    Raises:
        CheckError: if asked to, when the norm is computed.

    >>> p = lm.tensor([3.0, 4.0], requires_grad=True)
    >>> (p * lm.asarray([3.0, 4.0])).sum().backward()
    >>> clip_grad_norm_([p], 1.0).item()
    5.0
    """
    given = [parameters] if isinstance(parameters, Tensor) else list(parameters)
    gradients = [gradient for _, gradient in _gradients(given)]
    total = get_total_norm(gradients, norm_type, error_if_nonfinite)
    clip_grads_with_norm_(given, max_norm, total)
    return total


def get_total_norm(
    tensors: Tensor | Iterable[Tensor], norm_type: float = 2.0, error_if_nonfinite: bool = False
) -> Tensor:
    """The norm of all elements of tensors together, 0-d; 0 of none.

    Raises:
        CheckError: if ``error_if_nonfinite``, when a norm that is nan or infinite is computed.

    >>> get_total_norm([lm.asarray([3.0]), lm.asarray([4.0])]).item()
    5.0
    """
    given = [tensors] if isinstance(tensors, Tensor) else list(tensors)
    if not given:
        return lm.zeros(())
    with lm.no_grad():
        norms = lm.stack([_norm(tensor, norm_type) for tensor in given])
        total = norms.max() if math.isinf(norm_type) else _norm(norms, norm_type)
    if error_if_nonfinite:
        lm.check(lm.isfinite(total), "the norm of the gradients is {}, not finite", total)
    return total


def clip_grads_with_norm_(
    parameters: Tensor | Iterable[Tensor], max_norm: float, total_norm: Tensor
) -> None:
    """Scale all gradients together by ``max_norm / total_norm`` if that is below 1.

    >>> p = lm.tensor([3.0], requires_grad=True)
    >>> (p * 4.0).sum().backward()
    >>> clip_grads_with_norm_(p, 2.0, lm.asarray(4.0)); round(p.grad.item(), 4)
    2.0
    """
    with lm.no_grad():
        factor = lm.minimum(max_norm / (total_norm + 1e-6), 1.0)
        for parameter, gradient in _gradients(parameters):
            parameter.grad = gradient * factor.astype(gradient.dtype)


def _norm(x: Tensor, norm_type: float) -> Tensor:
    x = x.astype(lm.float32) if x.dtype.bits < 32 else x
    if math.isinf(norm_type):
        return abs(x).max()
    if norm_type == 2:
        return lm.sqrt((x * x).sum())
    return (abs(x) ** norm_type).sum() ** (1 / norm_type)


def clip_grad_value_(parameters: Tensor | Iterable[Tensor], clip_value: float) -> None:
    """Limit every element of the gradients to ``[-clip_value, clip_value]``.

    >>> p = lm.tensor([3.0], requires_grad=True)
    >>> (p * 9.0).sum().backward()
    >>> clip_grad_value_([p], 1.0); p.grad.tolist()
    [1.0]
    """
    with lm.no_grad():
        for parameter, gradient in _gradients(parameters):
            parameter.grad = lm.minimum(lm.maximum(gradient, -clip_value), clip_value)


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """All elements of the parameters as one vector.

    >>> parameters_to_vector([lm.ones((1, 2)), lm.zeros(1)]).tolist()
    [1.0, 1.0, 0.0]
    """
    return lm.concat([parameter.reshape(-1) for parameter in parameters])


def vector_to_parameters(vector: Tensor, parameters: Iterable[Tensor]) -> None:
    """Write the elements of ``vector`` into the parameters, in place.

    Raises:
        ShapeError: if the numbers of elements differ.

    >>> p = lm.zeros((1, 2))
    >>> vector_to_parameters(lm.asarray([1.0, 2.0]), [p]); p.tolist()
    [[1.0, 2.0]]
    """
    given = list(parameters)
    needed = sum(math.prod(parameter.shape) for parameter in given)
    if vector.ndim != 1 or vector.shape[0] != needed:
        raise ShapeError(
            f"[vector_to_parameters] a vector of shape {tuple(vector.shape)} for {needed} "
            "elements; they must agree"
        )
    place = 0
    for parameter in given:
        count = math.prod(parameter.shape)
        parameter.data = vector[place : place + count].reshape(parameter.shape).detach()
        place += count
