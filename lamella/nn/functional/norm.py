"""Normalisation. Statistics of float16 and bfloat16 inputs are computed in float32."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import lamella as lm
from lamella import ops
from lamella.errors import OptionError, ShapeError
from lamella.nn.functional.support import check_float, record, tensor
from lamella.tensor.deferring import deferring
from lamella.tensor.tensor import Tensor

__all__ = [
    "batch_norm", "group_norm", "instance_norm", "layer_norm", "local_response_norm", "rms_norm",
]  # fmt: skip


def _wide(x: Tensor) -> Tensor:
    return x.astype(lm.float32) if x.dtype.bits == 16 else x


def _whitened(x: Tensor, axes: tuple[int, ...], eps: float) -> Tensor:
    """``(x - mean) / sqrt(var + eps)`` over ``axes``, in two passes so that large means lose
    nothing.
    """
    centred = x - x.mean(axes, keepdims=True)
    return centred * lm.rsqrt((centred * centred).mean(axes, keepdims=True) + eps)


def _last_axes(op: str, x: Tensor, shape: int | Sequence[int]) -> tuple[int, ...]:
    sizes = (shape,) if isinstance(shape, int) else tuple(shape)
    if not sizes or tuple(x.shape[-len(sizes) :]) != sizes:
        raise ShapeError(
            f"[{op}] input of shape {tuple(x.shape)} does not end in normalized_shape {sizes}; "
            "build the layer for the input's last axes"
        )
    return tuple(range(-len(sizes), 0))


def _affine(y: Tensor, weight: Any, bias: Any) -> Tensor:
    y = y if weight is None else y * weight
    return y if bias is None else y + bias


@deferring
def layer_norm(
    input: Any,
    normalized_shape: int | Sequence[int],
    weight: Any = None,
    bias: Any = None,
    eps: float = 1e-5,
) -> Tensor:
    """``(x - mean) / sqrt(var + eps) * weight + bias`` over the last axes (Ba et al., 2016).

    Raises:
        ShapeError: if the last axes are not ``normalized_shape``.

    >>> layer_norm(lm.asarray([[1.0, 3.0]]), 2, eps=0.0).tolist()
    [[-1.0, 1.0]]
    """
    x = tensor(input)
    check_float("layer_norm", x)
    axes = _last_axes("layer_norm", x, normalized_shape)
    return _affine(_whitened(_wide(x), axes, eps).astype(x.dtype), weight, bias)


@deferring
def rms_norm(
    input: Any, normalized_shape: int | Sequence[int], weight: Any = None, eps: float | None = None
) -> Tensor:
    """``x / sqrt(mean(x^2) + eps) * weight`` over the last axes (Zhang and Sennrich, 2019).

    ``eps`` defaults to the dtype's machine epsilon.

    >>> rms_norm(lm.asarray([[3.0, 3.0]]), 2, eps=0.0).tolist()
    [[1.0, 1.0]]
    """
    x = tensor(input)
    check_float("rms_norm", x)
    axes = _last_axes("rms_norm", x, normalized_shape)
    wide = _wide(x)
    small = float(lm.finfo(x.dtype).eps) if eps is None else eps
    y = wide * lm.rsqrt((wide * wide).mean(axes, keepdims=True) + small)
    return _affine(y.astype(x.dtype), weight, None)


@deferring
def group_norm(
    input: Any, num_groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5
) -> Tensor:
    """Normalise ``(N, C, *)`` over each of ``num_groups`` groups of channels (Wu and He, 2018).

    Raises:
        ShapeError: if the channels do not divide into the groups.

    >>> group_norm(lm.ones((1, 4, 2)), 2).shape
    (1, 4, 2)
    """
    x = tensor(input)
    check_float("group_norm", x)
    if x.ndim < 2 or x.shape[1] % num_groups:
        raise ShapeError(
            f"[group_norm] channels of shape {tuple(x.shape)} do not divide into {num_groups} "
            "groups; use (N, C, ...) with C a multiple of num_groups"
        )
    grouped = _wide(x).reshape((x.shape[0], num_groups, x.shape[1] // num_groups, *x.shape[2:]))
    y = _whitened(grouped, tuple(range(2, grouped.ndim)), eps).reshape(x.shape).astype(x.dtype)
    return _affine(y, _channels(weight, x), _channels(bias, x))


def _channels(values: Any, x: Tensor) -> Any:
    return None if values is None else tensor(values).reshape((-1,) + (1,) * (x.ndim - 2))


def batch_norm(
    input: Any,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Any = None,
    bias: Any = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Normalise each channel of ``(N, C, *)`` (Ioffe and Szegedy, 2015).

    In training with the batch's mean and biased variance; the running ones, where given, move by
    ``momentum`` towards the batch's mean and unbiased variance, in place. Otherwise with the
    running ones.

    Raises:
        ShapeError: without a channel axis, or for other channels than the statistics have.
        OptionError: in training with one value a channel; otherwise without running statistics;
            for one of them without the other.

    >>> batch_norm(lm.asarray([[1.0], [3.0]]), None, None, training=True, eps=0.0).tolist()
    [[-1.0], [1.0]]
    """
    x = tensor(input)
    check_float("batch_norm", x)
    known = running_mean if running_mean is not None else weight
    if x.ndim < 2 or (known is not None and x.shape[1] != known.shape[0]):
        raise ShapeError(
            f"[batch_norm] input of shape {tuple(x.shape)} is not (N, C, ...) with the layer's "
            f"{'' if known is None else f'{known.shape[0]} '}channels; build the layer for the "
            "input's second axis"
        )
    _require_running("batch_norm", running_mean, running_var, training, "training=True")
    wide = _wide(x)
    if training:
        y = _batch_statistics(wide, running_mean, running_var, momentum, eps)
    else:
        y = (wide - _channels(running_mean, x)) * lm.rsqrt(_channels(running_var, x) + eps)
    return _affine(y, _channels(weight, x), _channels(bias, x)).astype(x.dtype)


def _require_running(op: str, mean: Any, var: Any, own: bool, option: str) -> None:
    """Raise unless there are statistics to normalise by: the input's own, or both running ones."""
    if mean is None and var is None and not own:
        raise OptionError(
            f"[{op}] neither running_mean nor running_var, and not {option}, so that there is "
            f"nothing to normalise by; give both, or {option} for the input's own statistics"
        )
    if (mean is None) != (var is None):
        missing, given = ("mean", "var") if mean is None else ("var", "mean")
        raise OptionError(
            f"[{op}] running_{given} without running_{missing}; give both of them, or neither"
        )


def _batch_statistics(
    x: Tensor, running_mean: Tensor | None, running_var: Tensor | None, momentum: Any, eps: float
) -> Tensor:
    axes = (0, *range(2, x.ndim))
    count = math.prod(x.shape[axis] for axis in axes)
    if isinstance(count, int) and count == 1:
        raise OptionError(
            f"[batch_norm] shape {tuple(x.shape)} has one value a channel, whose variance is "
            "unknown; use a larger batch, or model.eval()"
        )
    mean = x.mean(axes, keepdims=True)
    centred = x - mean
    variance = (centred * centred).mean(axes, keepdims=True)
    if running_mean is not None and running_var is not None:
        with lm.no_grad():
            unbiased = variance.detach() * (count / (count - 1))
            _move(running_mean, mean.detach().reshape(-1), momentum)
            _move(running_var, unbiased.reshape(-1), momentum)
    return centred * lm.rsqrt(variance + eps)


def _move(running: Tensor, towards: Tensor, momentum: Any) -> None:
    running.copy_(running + (towards.astype(running.dtype) - running) * momentum)


def instance_norm(
    input: Any, running_mean: Tensor | None = None, running_var: Tensor | None = None,
    weight: Any = None, bias: Any = None, use_input_stats: bool = True, momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:  # fmt: skip
    """Normalise each channel of each example of ``(N, C, *)`` (Ulyanov et al., 2016).

    With ``use_input_stats`` by its own mean and biased variance; running statistics, where given,
    move by ``momentum`` towards the batch's average of means and unbiased variances, in place.
    Otherwise by the running ones.

    Raises:
        ShapeError: without spatial axes, or for other channels than the statistics have.
        OptionError: with one value a channel; without any statistics; for a running mean without
            the variance, or the reverse.

    >>> instance_norm(lm.asarray([[[1.0, 3.0]]]), eps=0.0).tolist()
    [[[-1.0, 1.0]]]
    """
    x = tensor(input)
    check_float("instance_norm", x)
    known = next((each for each in (running_mean, weight) if each is not None), None)
    if x.ndim < 3 or (known is not None and x.shape[1] != known.shape[0]):
        raise ShapeError(
            f"[instance_norm] input of shape {tuple(x.shape)} is not (N, C, ...) with the layer's "
            f"{'' if known is None else f'{known.shape[0]} '}channels; add axes or build the layer "
            "for the input's second axis"
        )
    _require_running(
        "instance_norm", running_mean, running_var, use_input_stats, "use_input_stats=True"
    )
    if not use_input_stats:
        return batch_norm(x, running_mean, running_var, weight, bias, False, momentum, eps)
    wide = _wide(x)
    axes = tuple(range(2, x.ndim))
    if math.prod(x.shape[2:]) == 1:
        raise OptionError(
            f"[instance_norm] shape {tuple(x.shape)} has one value a channel, whose variance is "
            "unknown; use larger images, or running statistics"
        )
    y = _whitened(wide, axes, eps)
    if running_mean is not None and running_var is not None:
        with lm.no_grad():
            held = wide.detach()
            _move(running_mean, held.mean(axes).mean(0), momentum)
            _move(running_var, lm.var(held, axes, correction=1).mean(0), momentum)
    return _affine(y, _channels(weight, x), _channels(bias, x)).astype(x.dtype)


def local_response_norm(
    input: Any, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0
) -> Tensor:
    """``x / (k + alpha * a)^beta`` with the mean ``a`` of the squares in ``size`` neighbouring
    channels of ``(N, C, *)``, zeros beyond them (Krizhevsky et al., 2012).

    Raises:
        ShapeError: without spatial axes.
        OptionError: if ``size`` is below 1.

    >>> local_response_norm(lm.ones((1, 1, 1)), 1, alpha=3.0, beta=0.5).tolist()
    [[[0.5]]]
    """
    x = tensor(input)
    check_float("local_response_norm", x)
    if x.ndim < 3:
        raise ShapeError(
            f"[local_response_norm] input of shape {tuple(x.shape)} is not (N, C, ...); add axes"
        )
    if size < 1:
        raise OptionError(f"[local_response_norm] size={size} is below 1; give 1 or more")
    squares = lm.moveaxis(x * x, 1, -1)
    ends = [(0, 0)] * (x.ndim - 1) + [(size // 2, (size - 1) // 2)]
    near = record(ops.window, lm.pad(squares, ends), sizes=(size,), strides=(1,))
    mean = lm.moveaxis(near.sum(-1) / size, -1, 1)
    return x / (k + alpha * mean) ** beta
