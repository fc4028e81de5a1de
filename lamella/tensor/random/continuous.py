"""Continuous distributions with a location and a scale, by the inverse of their distribution
functions: gradients by parameters follow from the formulas.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from lamella import ops
from lamella.dtypes import finfo, float32, float64, uint32
from lamella.errors import OptionError
from lamella.tensor.axes import shape_of
from lamella.tensor.comparison import where
from lamella.tensor.core import wrap
from lamella.tensor.keywords import with_synonyms
from lamella.tensor.operands import TensorLike, as_node, cast
from lamella.tensor.random.domain import known, require, width_node
from lamella.tensor.random.stream import (
    Source,
    affine_node,
    bits_node,
    float_dtype,
    normal_node,
    unit_node,
)
from lamella.tensor.special.error import ndtr, ndtri

if TYPE_CHECKING:
    from lamella.dtypes import DType
    from lamella.ir.dim import Shape
    from lamella.tensor.tensor import Tensor

__all__ = [
    "cauchy", "exponential", "gumbel", "laplace", "logistic", "lognormal", "normal", "pareto",
    "rayleigh", "truncated_normal", "uniform", "weibull",
]  # fmt: skip


def _require_interval(low: TensorLike, high: TensorLike) -> None:
    """Raise for ends that are known, unless both are finite and in order."""
    ends = known(low), known(high)
    for option, end in zip(("low", "high"), ends, strict=True):
        if end is not None and not np.isfinite(end).all():
            raise OptionError(f"[uniform] {option}={end} is not finite; give finite ends")
    if ends[0] is not None and ends[1] is not None and not (ends[0] <= ends[1]).all():
        raise OptionError(
            f"[uniform] high={ends[1]} is below low={ends[0]}; give the lower end first"
        )


@with_synonyms
def uniform(
    shape: Any = (),
    low: TensorLike = 0.0,
    high: TensorLike = 1.0,
    dtype: object = None,
    key: Source = None,
) -> Tensor:
    """Numbers spread evenly over [``low``, ``high``); float32 by default. Types of 16 bits take as
    many random bits as their numbers have, so that none is rounded up to 1. NaN where tensors
    have ``high`` below ``low``.

    Raises:
        OptionError: for known ends that are not finite or not in order.

    >>> uniform((2, 3)).shape
    (2, 3)
    """
    kind = float_dtype("uniform", dtype)
    _require_interval(low, high)
    node = unit_node(key, shape_of("uniform", shape), kind)
    if kind.bits < 32:
        steps = 2.0 / float(finfo(kind).eps)
        whole = ops.floor(ops.multiply(node, ops.constant(steps, node.dtype)))
        node = ops.multiply(whole, ops.constant(1 / steps, node.dtype))
    width = high - low if isinstance(low, int | float) and isinstance(high, int | float) else (
        width_node("uniform", wrap(as_node(high, node.dtype)) - wrap(as_node(low, node.dtype)))
    )  # fmt: skip
    return wrap(affine_node(node, width, low, kind))


@with_synonyms
def normal(
    shape: Any = (),
    mean: TensorLike = 0.0,
    std: TensorLike = 1.0,
    dtype: object = None,
    key: Source = None,
) -> Tensor:
    """Normally distributed numbers with the given mean and standard deviation; float32 by default.

    >>> normal((2, 3)).shape
    (2, 3)
    """
    kind = float_dtype("normal", dtype)
    width = width_node("normal", std, "std")
    work = float64 if kind is float64 else float32
    return wrap(affine_node(normal_node(key, shape_of("normal", shape), work), width, mean, kind))


@with_synonyms
def truncated_normal(
    shape: Any = (),
    low: TensorLike = -2.0,
    high: TensorLike = 2.0,
    mean: TensorLike = 0.0,
    std: TensorLike = 1.0,
    dtype: object = None,
    key: Source = None,
) -> Tensor:
    """Normal numbers cut off at ``low`` and ``high`` standard deviations: the quantile of a uniform
    number between their probabilities, taken in the tail that keeps its digits.

    >>> bool((abs(truncated_normal((50,)).numpy()) <= 2).all())
    True
    """
    kind = float_dtype("truncated_normal", dtype)
    width = width_node("truncated_normal", std, "std")
    ends = known(low), known(high)
    if ends[0] is not None and ends[1] is not None and not (ends[0] <= ends[1]).all():
        raise OptionError(
            f"[truncated_normal] high={ends[1]} is not at least low={ends[0]}; give the lower end "
            "first"
        )
    low, high = wrap(as_node(low, float64)), wrap(as_node(high, float64))
    above = low > 0  # then both sides are turned, so that probabilities are small ones
    left, right = where(above, -high, low), where(above, -low, high)
    below = ndtr(left)
    u = wrap(cast(unit_node(key, shape_of("truncated_normal", shape), kind), float64))
    x = ndtri(below + u * (ndtr(right) - below))
    x = where(above, -x, x).clip(low, high)
    x = where(low <= high, x, math.nan)
    return wrap(affine_node(cast(as_node(x), kind), width, mean, kind))


@with_synonyms
def exponential(
    shape: Any = (), scale: TensorLike = 1.0, dtype: object = None, key: Source = None
) -> Tensor:
    """Exponentially distributed numbers of mean ``scale``: ``-scale * log(1 - u)``.

    >>> exponential((3,)).shape
    (3,)
    """
    kind = float_dtype("exponential", dtype)
    width = width_node("exponential", scale)
    u = unit_node(key, shape_of("exponential", shape), kind)
    return wrap(affine_node(ops.negative(ops.log1p(ops.negative(u))), width, 0, kind))


@with_synonyms
def gumbel(shape: Any = (), dtype: object = None, key: Source = None) -> Tensor:
    """Numbers of the standard Gumbel distribution: ``-log(-log(u))``.

    >>> gumbel((3,)).shape
    (3,)
    """
    kind = float_dtype("gumbel", dtype)
    u = _open_unit(key, shape_of("gumbel", shape), kind)
    return wrap(cast(as_node(-(-u.log()).log()), kind))


def _open_unit(source: Source, shape: Shape, kind: DType) -> Any:
    """Uniform in (0, 1), both ends apart, as float64."""
    if kind is float64:
        return wrap(ops.add(unit_node(source, shape, kind), ops.constant(2.0**-54, kind)))
    bits = cast(bits_node(source, shape, uint32), float64)
    half = ops.add(bits, ops.constant(0.5, float64))
    return wrap(ops.multiply(half, ops.constant(2.0**-32, float64)))


def _inverted(
    name: str, value: Any, shape: Any, loc: TensorLike, scale: TensorLike, dtype: object,
    key: Source,
) -> Tensor:  # fmt: skip
    """``loc + scale * value(u)`` of uniform numbers, ``value`` computed in float64."""
    kind = float_dtype(name, dtype)
    width = width_node(name, scale)
    work = float64 if kind is float64 else float32
    found = value(_open_unit(key, shape_of(name, shape), kind))
    return wrap(affine_node(cast(as_node(found), work), width, loc, kind))


@with_synonyms
def laplace(
    shape: Any = (), loc: TensorLike = 0.0, scale: TensorLike = 1.0, dtype: object = None,
    key: Source = None,
) -> Tensor:  # fmt: skip
    """Numbers of density ``exp(-|x - loc| / scale) / (2 scale)``.

    >>> laplace((2, 3)).shape
    (2, 3)
    """

    def value(u: Any) -> Any:
        side = u - 0.5
        return -side.sign() * (-2 * side.abs()).log1p()

    return _inverted("laplace", value, shape, loc, scale, dtype, key)


@with_synonyms
def logistic(
    shape: Any = (), loc: TensorLike = 0.0, scale: TensorLike = 1.0, dtype: object = None,
    key: Source = None,
) -> Tensor:  # fmt: skip
    """Numbers of the logistic distribution: ``loc + scale * log(u / (1 - u))``.

    >>> logistic((2, 3)).shape
    (2, 3)
    """
    return _inverted(
        "logistic", lambda u: u.log() - (-u).log1p(), shape, loc, scale, dtype, key
    )


@with_synonyms
def cauchy(
    shape: Any = (), loc: TensorLike = 0.0, scale: TensorLike = 1.0, dtype: object = None,
    key: Source = None,
) -> Tensor:  # fmt: skip
    """Numbers of the Cauchy distribution: ``loc + scale * tan(π (u - 1/2))``.

    >>> cauchy((2, 3)).shape
    (2, 3)
    """
    return _inverted(
        "cauchy", lambda u: ((u - 0.5) * math.pi).tan(), shape, loc, scale, dtype, key
    )


@with_synonyms
def rayleigh(
    shape: Any = (), scale: TensorLike = 1.0, dtype: object = None, key: Source = None
) -> Tensor:
    """Lengths of two-dimensional normal vectors: ``scale * sqrt(-2 log u)``.

    >>> rayleigh((2, 3)).shape
    (2, 3)
    """
    return _inverted("rayleigh", lambda u: (u.log() * -2).sqrt(), shape, 0, scale, dtype, key)


def _exponent(name: str, a: TensorLike) -> Any:
    require(name, "a", a, 0, above=True)
    power = wrap(as_node(a, float64))
    return where(power > 0, power, math.nan)


@with_synonyms
def weibull(
    shape: Any = (), a: TensorLike = 1.0, scale: TensorLike = 1.0, dtype: object = None,
    key: Source = None,
) -> Tensor:  # fmt: skip
    """Numbers of Weibull's distribution of exponent ``a`` > 0: ``scale * (-log u)^(1 / a)``.

    >>> weibull((2, 3), 2.0).shape
    (2, 3)
    """
    power = _exponent("weibull", a)
    return _inverted(
        "weibull", lambda u: (-u.log()) ** (1 / power), shape, 0, scale, dtype, key
    )


@with_synonyms
def pareto(
    shape: Any = (), a: TensorLike = 1.0, scale: TensorLike = 1.0, dtype: object = None,
    key: Source = None,
) -> Tensor:  # fmt: skip
    """Numbers of Pareto's distribution of exponent ``a`` > 0 from ``scale`` on:
    ``scale * u^(-1 / a)``.

    >>> bool((pareto((9,), 3.0) >= 1).all())
    True
    """
    power = _exponent("pareto", a)
    return _inverted(
        "pareto", lambda u: (-u.log() / power).exp(), shape, 0, scale, dtype, key
    )


@with_synonyms
def lognormal(
    shape: Any = (), mean: TensorLike = 0.0, std: TensorLike = 1.0, dtype: object = None,
    key: Source = None,
) -> Tensor:  # fmt: skip
    """``exp`` of :func:`normal` numbers.

    >>> bool((lognormal((9,)) > 0).all())
    True
    """
    return normal(shape, mean, std, dtype=dtype, key=key).exp()
