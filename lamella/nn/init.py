"""Initial values of parameters, in place, with PyTorch's names and formulas.

Each function changes the value of its tensor without recording a gradient and returns it.
Randomness comes from ``lamella.random``'s implicit generator. Fans are those of PyTorch: a weight
``(out, in, *window)`` has ``fan_in = in * prod(window)`` and ``fan_out = out * prod(window)``.
"""

from __future__ import annotations

import math

import numpy as np

import lamella as lm
from lamella.errors import OptionError, ShapeError, did_you_mean
from lamella.tensor.tensor import Tensor

__all__ = [
    "calculate_gain", "constant_", "dirac_", "eye_", "kaiming_normal_", "kaiming_uniform_",
    "normal_", "ones_", "orthogonal_", "sparse_", "trunc_normal_", "uniform_", "xavier_normal_",
    "xavier_uniform_", "zeros_",
]  # fmt: skip


def _set(tensor: Tensor, value: Tensor) -> Tensor:
    tensor.data = value.detach().astype(tensor.dtype)
    return tensor


def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0) -> Tensor:
    """Values uniform in ``[a, b)``.

    >>> 0 <= uniform_(lm.zeros(3)).min().item() < 1
    True
    """
    return _set(tensor, lm.random.uniform(tensor.shape) * (b - a) + a)


def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0) -> Tensor:
    """Normal values.

    >>> normal_(lm.zeros((2, 3))).shape
    (2, 3)
    """
    return _set(tensor, lm.random.normal(tensor.shape) * std + mean)


def trunc_normal_(
    tensor: Tensor, mean: float = 0.0, std: float = 1.0, a: float = -2.0, b: float = 2.0
) -> Tensor:
    """Normal values, those outside ``[a, b]`` replaced by the distribution's own restriction to it.

    Drawn by inverting the distribution function on the host, so it is meant for initialisation
    alone.

    >>> abs(trunc_normal_(lm.zeros(100)).numpy()).max() <= 2
    np.True_
    """
    from statistics import NormalDist

    law = NormalDist(mean, std)
    low, high = law.cdf(a), law.cdf(b)
    places = low + (high - low) * lm.random.uniform(tensor.shape).numpy().astype(np.float64)
    tiny = np.finfo(np.float64).tiny
    values = np.vectorize(law.inv_cdf, otypes=[np.float64])(np.clip(places, tiny, 1 - 2**-53))
    return _set(tensor, lm.asarray(np.clip(values, a, b).astype(np.float32)))


def constant_(tensor: Tensor, value: float) -> Tensor:
    """One value everywhere.

    >>> constant_(lm.zeros(2), 3.0).tolist()
    [3.0, 3.0]
    """
    return _set(tensor, lm.full(tensor.shape, value, dtype=tensor.dtype))


def ones_(tensor: Tensor) -> Tensor:
    """Ones.

    >>> ones_(lm.zeros(2)).tolist()
    [1.0, 1.0]
    """
    return constant_(tensor, 1.0)


def zeros_(tensor: Tensor) -> Tensor:
    """Zeros.

    >>> zeros_(lm.ones(2)).tolist()
    [0.0, 0.0]
    """
    return constant_(tensor, 0.0)


def eye_(tensor: Tensor) -> Tensor:
    """The identity matrix.

    >>> eye_(lm.zeros((2, 2))).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    return _set(tensor, lm.eye(*_matrix(tensor, "eye_")))


def dirac_(tensor: Tensor, groups: int = 1) -> Tensor:
    """Filters ``(out, in, *window)`` of a convolution that returns its input: 1 in the middle of
    the window where output and input channel agree, in each group, and 0 elsewhere.

    Raises:
        ShapeError: unless there are three to five axes.
        OptionError: if ``groups`` does not divide the outputs.

    >>> dirac_(lm.zeros((1, 1, 3))).tolist()
    [[[0.0, 1.0, 0.0]]]
    """
    if tensor.ndim not in (3, 4, 5):
        raise ShapeError(
            f"[dirac_] a tensor of shape {tuple(tensor.shape)} holds no filters (out, in, *window)"
        )
    if tensor.shape[0] % groups:
        raise OptionError(f"[dirac_] groups={groups} does not divide {tensor.shape[0]} outputs")
    value = np.zeros(tensor.shape, np.float32)
    each = tensor.shape[0] // groups
    middle = tuple(size // 2 for size in tensor.shape[2:])
    for group in range(groups):
        for channel in range(min(each, tensor.shape[1])):
            value[(group * each + channel, channel, *middle)] = 1
    return _set(tensor, lm.asarray(value))


def sparse_(tensor: Tensor, sparsity: float, std: float = 0.01) -> Tensor:
    """A normal matrix in which each column has the share ``sparsity`` of zeros (Martens, 2010).

    Raises:
        ShapeError: unless there are two axes.
        OptionError: if ``sparsity`` is no share.

    >>> (sparse_(lm.zeros((4, 3)), 0.5) == 0).sum(0).tolist()
    [2, 2, 2]
    """
    if tensor.ndim != 2:
        raise ShapeError(f"[sparse_] a tensor of shape {tuple(tensor.shape)} is no matrix")
    if not 0 <= sparsity <= 1:
        raise OptionError(f"[sparse_] sparsity={sparsity} is no share; give one from 0 to 1")
    order = lm.argsort(lm.random.uniform(tensor.shape), axis=0)
    kept = order >= math.ceil(sparsity * tensor.shape[0])
    return _set(tensor, lm.where(kept, lm.random.normal(tensor.shape) * std, 0.0))


def orthogonal_(tensor: Tensor, gain: float = 1.0) -> Tensor:
    """A matrix with orthonormal rows or columns (Saxe et al., 2013), times ``gain``; further axes
    are flattened.

    >>> w = orthogonal_(lm.zeros((2, 2))).numpy()
    >>> bool(np.allclose(w @ w.T, np.eye(2), atol=1e-5))
    True
    """
    rows = _matrix(tensor, "orthogonal_")[0]
    columns = tensor.size // rows if rows else 0
    drawn = lm.random.normal((max(rows, columns), min(rows, columns))).numpy().astype(np.float64)
    q, r = np.linalg.qr(drawn)
    q *= np.sign(np.diag(r))
    value = gain * (q.T if rows < columns else q)
    return _set(tensor, lm.asarray(value.reshape(tensor.shape).astype(np.float32)))


def xavier_uniform_(tensor: Tensor, gain: float = 1.0) -> Tensor:
    """Uniform in ``±gain * sqrt(6 / (fan_in + fan_out))`` (Glorot and Bengio, 2010).

    >>> xavier_uniform_(lm.zeros((2, 3))).shape
    (2, 3)
    """
    bound = gain * math.sqrt(6.0 / sum(fans(tensor)))
    return uniform_(tensor, -bound, bound)


def xavier_normal_(tensor: Tensor, gain: float = 1.0) -> Tensor:
    """Normal with deviation ``gain * sqrt(2 / (fan_in + fan_out))`` (Glorot and Bengio, 2010).

    >>> xavier_normal_(lm.zeros((2, 3))).shape
    (2, 3)
    """
    return normal_(tensor, 0.0, gain * math.sqrt(2.0 / sum(fans(tensor))))


def kaiming_uniform_(
    tensor: Tensor, a: float = 0.0, mode: str = "fan_in", nonlinearity: str = "leaky_relu"
) -> Tensor:
    """Uniform in ``±gain * sqrt(3 / fan)`` (He et al., 2015); ``a`` is the slope of the leaky ReLU
    that follows.

    >>> kaiming_uniform_(lm.zeros((2, 3))).shape
    (2, 3)
    """
    bound = math.sqrt(3.0) * _kaiming_std(tensor, a, mode, nonlinearity)
    return uniform_(tensor, -bound, bound)


def kaiming_normal_(
    tensor: Tensor, a: float = 0.0, mode: str = "fan_in", nonlinearity: str = "leaky_relu"
) -> Tensor:
    """Normal with deviation ``gain / sqrt(fan)`` (He et al., 2015).

    >>> kaiming_normal_(lm.zeros((2, 3))).shape
    (2, 3)
    """
    return normal_(tensor, 0.0, _kaiming_std(tensor, a, mode, nonlinearity))


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """The factor that keeps the deviation of activations through a nonlinearity.

    Raises:
        OptionError: for an unknown one.

    >>> calculate_gain("tanh")
    1.6666666666666667
    """
    slope = 0.01 if param is None else param
    gains = {
        "linear": 1.0, "conv1d": 1.0, "conv2d": 1.0, "conv3d": 1.0,
        "conv_transpose1d": 1.0, "conv_transpose2d": 1.0, "conv_transpose3d": 1.0,
        "sigmoid": 1.0, "tanh": 5.0 / 3, "relu": math.sqrt(2.0),
        "leaky_relu": math.sqrt(2.0 / (1 + slope**2)), "selu": 0.75,
    }  # fmt: skip
    if nonlinearity not in gains:
        raise OptionError(
            f"[calculate_gain] no nonlinearity {nonlinearity!r}; "
            f"{did_you_mean(nonlinearity, gains)}"
        )
    return gains[nonlinearity]


def fans(tensor: Tensor) -> tuple[int, int]:
    """The numbers of inputs and outputs each output and input depends on.

    Raises:
        ShapeError: for fewer than two axes.

    >>> fans(lm.zeros((8, 4, 3, 3)))
    (36, 72)
    """
    rows, columns = _matrix(tensor, "init")[:2]
    window = math.prod(tensor.shape[2:])
    return columns * window, rows * window


def _matrix(tensor: Tensor, name: str) -> tuple[int, ...]:
    if tensor.ndim < 2:
        raise ShapeError(
            f"[{name}] a tensor of shape {tensor.shape} has no fan in and fan out, which take two "
            "axes; initialise it with uniform_ or constant_"
        )
    return tensor.shape


def _kaiming_std(tensor: Tensor, a: float, mode: str, nonlinearity: str) -> float:
    if mode not in ("fan_in", "fan_out"):
        raise OptionError(
            f"[kaiming] no mode {mode!r}; {did_you_mean(mode, ('fan_in', 'fan_out'))}"
        )
    fan = fans(tensor)[mode == "fan_out"]
    return calculate_gain(nonlinearity, a) / math.sqrt(max(fan, 1))
