"""PyTorch's functions that are methods, options or several functions here: division with rounding,
copies, questions about element types, windows, draws of a given shape.
"""

from __future__ import annotations

import builtins
from typing import TYPE_CHECKING, Any

from lamella.dtypes import float32, int64
from lamella.errors import OptionError, ShapeError, did_you_mean
from lamella.tensor import random
from lamella.tensor.comparison import trunc
from lamella.tensor.creation import asarray
from lamella.tensor.elementwise import divide, floor_divide, multiply, subtract
from lamella.tensor.operands import TensorLike, as_node, new_tensor
from lamella.tensor.solving import multi_dot, slogdet
from lamella.tensor.transcendental import log

if TYPE_CHECKING:
    from lamella.tensor.tensor import Tensor

__all__ = [
    "adjoint", "bartlett_window", "bernoulli", "blackman_window", "chain_matmul", "clone", "detach",
    "div", "hamming_window", "hann_window", "is_complex", "is_floating_point", "is_nonzero",
    "is_same_size", "is_signed", "kaiser_window", "logdet", "multinomial", "normal", "numel",
    "poisson", "rand", "rand_like", "randint", "randint_like", "randn", "randn_like", "randperm",
    "rsub", "scalar_tensor", "t",
]  # fmt: skip


# -- arithmetic ------------------------------------------------------------------------------------
def div(input: TensorLike, other: TensorLike, *, rounding_mode: str | None = None) -> Tensor:
    """The quotient; with ``rounding_mode`` "floor" or "trunc" rounded, of integers an integer.

    Raises:
        OptionError: for another mode.

    >>> div([7, -7], 2, rounding_mode="trunc").tolist()
    [3, -3]
    """
    if rounding_mode is None:
        return divide(input, other)
    if rounding_mode == "floor":
        return floor_divide(input, other)
    if rounding_mode != "trunc":
        hint = did_you_mean(str(rounding_mode), ["floor", "trunc"])
        raise OptionError(f"[div] rounding_mode={rounding_mode!r:.40} is no mode; {hint}")
    found: Any = floor_divide(input, other)
    if found.dtype.kind == "f":
        return trunc(divide(input, other))
    inexact = subtract(input, multiply(found, other)) != 0
    return found + (inexact & (found < 0)).astype(found.dtype)  # type: ignore[no-any-return]


def rsub(input: TensorLike, other: TensorLike, *, alpha: Any = 1) -> Tensor:
    """``other - alpha * input``.

    >>> rsub(1, 5).item()
    4
    """
    return subtract(other, input if alpha == 1 else multiply(input, alpha))


def chain_matmul(*matrices: TensorLike) -> Tensor:
    """The product of matrices in the order that costs least, :func:`lamella.linalg.multi_dot`.

    >>> chain_matmul([[2.0]], [[3.0]]).tolist()
    [[6.0]]
    """
    return multi_dot(list(matrices)) if len(matrices) > 1 else new_tensor(matrices[0])


def logdet(input: TensorLike) -> Tensor:
    """The logarithm of the determinant of square matrices; NaN where that is negative.

    >>> logdet([[1.0]]).item()
    0.0
    """
    sign, size = slogdet(input)
    return log(sign) + size


def t(input: TensorLike) -> Tensor:
    """The transpose of a matrix; a vector or number itself.

    Raises:
        ShapeError: for more than two axes.

    >>> t([[1, 2]]).tolist()
    [[1], [2]]
    """
    x = new_tensor(input)
    if x.ndim > 2:
        raise ShapeError(f"[t] shape {x.shape} has more than two axes; use x.mT")
    return x.T if x.ndim == 2 else x


def adjoint(input: TensorLike) -> Tensor:
    """The last two axes exchanged, conjugated.

    >>> adjoint([[1j]]).tolist()
    [[-1j]]
    """
    return new_tensor(input).mH


# -- copies and questions --------------------------------------------------------------------------
def clone(input: TensorLike) -> Tensor:
    """A tensor of the same values.

    >>> clone([1, 2]).tolist()
    [1, 2]
    """
    return new_tensor(input).clone()


def detach(input: TensorLike) -> Tensor:
    """A tensor of the same values through which no derivative goes.

    >>> detach([1.0]).requires_grad
    False
    """
    return new_tensor(input).detach()


def scalar_tensor(value: Any, *, dtype: object = None) -> Tensor:
    """A number as a tensor without axes, float32 unless ``dtype`` says otherwise.

    >>> scalar_tensor(2).item()
    2.0
    """
    return asarray(value, dtype=float32 if dtype is None else dtype)


def numel(input: TensorLike) -> Any:
    """How many elements there are.

    >>> numel([[1, 2, 3]])
    3
    """
    return new_tensor(input).numel()


def is_floating_point(input: TensorLike) -> builtins.bool:
    """Whether the elements are real floating-point numbers.

    >>> is_floating_point([1])
    False
    """
    return as_node(input).dtype.kind == "f"


def is_complex(input: TensorLike) -> builtins.bool:
    """Whether the elements are complex numbers.

    >>> is_complex([1j])
    True
    """
    return as_node(input).dtype.kind == "c"


def is_signed(input: TensorLike) -> builtins.bool:
    """Whether the element type has negative numbers.

    >>> is_signed([1])
    True
    """
    return as_node(input).dtype.kind in "ifc"


def is_nonzero(input: TensorLike) -> builtins.bool:
    """Whether the single element is not 0.

    >>> is_nonzero([0.0])
    False
    """
    return builtins.bool(new_tensor(input))


def is_same_size(input: TensorLike, other: TensorLike) -> builtins.bool:
    """Whether the shapes are equal.

    >>> is_same_size([1, 2], [3.0, 4.0])
    True
    """
    return as_node(input).shape == as_node(other).shape


# -- windows ---------------------------------------------------------------------------------------
def _window(
    name: str, length: int, periodic: builtins.bool, dtype: object, **options: Any
) -> Tensor:
    from lamella.tensor import signal

    found: Tensor = getattr(signal, name)(length, sym=not periodic, **options)
    return found if dtype is None else found.astype(dtype)


def hann_window(
    window_length: int, periodic: builtins.bool = True, *, dtype: object = None
) -> Tensor:
    """Hann's window, :func:`lamella.signal.hann`.

    >>> hann_window(2).tolist()
    [0.0, 1.0]
    """
    return _window("hann", window_length, periodic, dtype)


def hamming_window(
    window_length: int,
    periodic: builtins.bool = True,
    alpha: float = 0.54,
    beta: float = 0.46,
    *,
    dtype: object = None,
) -> Tensor:
    """Hamming's window ``alpha - beta cos(2πk / n)``.

    >>> f"{hamming_window(2)[0].item():.2f}"
    '0.08'
    """
    wave = _window("hann", window_length, periodic, dtype)
    return alpha + beta * (2 * wave - 1) if window_length > 1 else wave


def blackman_window(
    window_length: int, periodic: builtins.bool = True, *, dtype: object = None
) -> Tensor:
    """Blackman's window, :func:`lamella.signal.blackman`.

    >>> f"{blackman_window(2)[1].item():.2f}"
    '1.00'
    """
    return _window("blackman", window_length, periodic, dtype)


def bartlett_window(
    window_length: int, periodic: builtins.bool = True, *, dtype: object = None
) -> Tensor:
    """Bartlett's triangular window, :func:`lamella.signal.bartlett`.

    >>> bartlett_window(2).tolist()
    [0.0, 1.0]
    """
    return _window("bartlett", window_length, periodic, dtype)


def kaiser_window(
    window_length: int,
    periodic: builtins.bool = True,
    beta: float = 12.0,
    *,
    dtype: object = None,
) -> Tensor:
    """Kaiser's window, :func:`lamella.signal.kaiser`.

    >>> f"{kaiser_window(2)[1].item():.2f}"
    '1.00'
    """
    return _window("kaiser", window_length, periodic, dtype, beta=beta)


# -- draws -----------------------------------------------------------------------------------------
def _sizes(size: tuple[Any, ...]) -> Any:
    single = len(size) == 1 and isinstance(size[0], (tuple, list))
    return tuple(size[0]) if single else size


def rand(*size: Any, dtype: object = None) -> Tensor:
    """Numbers drawn uniformly from [0, 1): :func:`lamella.random.uniform` of a shape.

    >>> rand(2, 3).shape
    (2, 3)
    """
    return random.uniform(_sizes(size), dtype=dtype)


def randn(*size: Any, dtype: object = None) -> Tensor:
    """Numbers of the standard normal distribution: :func:`lamella.random.normal` of a shape.

    >>> randn(2, 3).shape
    (2, 3)
    """
    return random.normal(_sizes(size), dtype=dtype)


def randint(low: Any, high: Any = None, size: Any = None, *, dtype: object = None) -> Tensor:
    """Integers drawn from ``low`` up to below ``high``; ``randint(high, size)`` starts at 0.

    Raises:
        OptionError: without ``size``.

    >>> randint(3, (2, 4)).shape
    (2, 4)
    """
    if size is None and isinstance(high, (tuple, list)):
        low, high, size = 0, low, high
    if size is None:
        raise OptionError("[randint] size is missing; give the shape of the result, as (3,)")
    return random.randint(low, high, tuple(size), dtype=int64 if dtype is None else dtype)


def randperm(n: int, *, dtype: object = None) -> Tensor:
    """The numbers below ``n`` in random order.

    >>> sorted(randperm(3).tolist())
    [0, 1, 2]
    """
    found = random.permutation(n)
    return found if dtype is None else found.astype(dtype)


def rand_like(input: TensorLike, *, dtype: object = None) -> Tensor:
    """:func:`rand` of the shape and element type of a tensor.

    >>> rand_like([[1.0, 2.0]]).shape
    (1, 2)
    """
    x = new_tensor(input)
    return random.uniform(x.shape, dtype=x.dtype if dtype is None else dtype)


def randn_like(input: TensorLike, *, dtype: object = None) -> Tensor:
    """:func:`randn` of the shape and element type of a tensor.

    >>> randn_like([[1.0, 2.0]]).shape
    (1, 2)
    """
    x = new_tensor(input)
    return random.normal(x.shape, dtype=x.dtype if dtype is None else dtype)


def randint_like(
    input: TensorLike, low: Any, high: Any = None, *, dtype: object = None
) -> Tensor:
    """:func:`randint` of the shape and element type of a tensor.

    >>> randint_like([[1.0, 2.0]], 3).shape
    (1, 2)
    """
    x = new_tensor(input)
    start, end = (0, low) if high is None else (low, high)
    drawn: Any = random.randint(start, end, x.shape)
    return drawn.astype(x.dtype if dtype is None else dtype)  # type: ignore[no-any-return]


def normal(mean: TensorLike, std: TensorLike = 1.0, size: Any = None) -> Tensor:
    """Numbers drawn from normal distributions of ``mean`` and ``std``, of their shape or ``size``.

    >>> normal(0.0, 1.0, (2, 3)).shape
    (2, 3)
    """
    center: Any = new_tensor(mean) + 0 * new_tensor(std)
    shape = center.shape if size is None else tuple(size)
    return center + std * random.normal(shape)  # type: ignore[no-any-return]


def bernoulli(input: TensorLike) -> Tensor:
    """1 with the probability that an element is, else 0, of its type.

    >>> bernoulli([0.0, 1.0]).tolist()
    [0.0, 1.0]
    """
    return new_tensor(input).bernoulli()


def poisson(input: TensorLike) -> Tensor:
    """Poisson numbers whose means are the elements, of their type.

    >>> poisson([0.0]).tolist()
    [0.0]
    """
    x = new_tensor(input)
    drawn: Any = random.poisson(x, x.shape)
    return drawn.astype(x.dtype)  # type: ignore[no-any-return]


def multinomial(
    input: TensorLike, num_samples: int, replacement: builtins.bool = False
) -> Tensor:
    """Positions along the last axis, drawn with the elements as weights.

    >>> multinomial([0.0, 1.0], 1).tolist()
    [1]
    """
    return new_tensor(input).multinomial(num_samples, replacement)
