"""The gamma distribution, and what is made of it: beta, Dirichlet, chi-square, Student's t.

Method: Marsaglia and Tsang, A simple method for generating gamma variables, 2000. Six trials are
made of every number and the first that is accepted is taken. A trial is refused with probability
below 0.05, so all six are for one number in 6e7; its value is then Wilson and Hilferty's
approximation of the quantile. All is in logarithms, so that small parameters do not underflow.

Gradients by parameters are those of the quantile at a fixed probability (Figurnov, Mohamed, Mnih:
Implicit reparameterization gradients, 2018): two of Newton's steps on the distribution function,
which change nothing but make derivatives up to the third order right.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from lamella import ops
from lamella.dtypes import DType, float32, float64
from lamella.ir.node import Node, gradient_mode
from lamella.tensor.axes import shape_of
from lamella.tensor.comparison import where
from lamella.tensor.core import node_of, wrap
from lamella.tensor.elementwise import maximum
from lamella.tensor.gradient import no_grad, stop_gradient
from lamella.tensor.host import node_from_array
from lamella.tensor.keywords import with_synonyms
from lamella.tensor.operands import TensorLike, as_node, cast
from lamella.tensor.random.domain import require, width_node
from lamella.tensor.random.stream import (
    Source,
    float_dtype,
    normal_node,
    sizes_of,
    streams,
    unit_node,
)
from lamella.tensor.special.entropy import softmax
from lamella.tensor.special.gamma import lgamma
from lamella.tensor.special.incomplete import gamma_parts
from lamella.tensor.transcendental import exp, log, sqrt

if TYPE_CHECKING:
    from lamella.ir.dim import Shape
    from lamella.tensor.tensor import Tensor

__all__ = ["beta", "chisquare", "dirichlet", "gamma", "loggamma", "student_t"]

_TRIALS: Final = 6


def _unit(source: Source, shape: Shape, kind: DType) -> Any:
    """Uniform in (0, 1) as float64."""
    node = cast(unit_node(source, shape, kind), float64)
    half = 2.0**-54 if kind is float64 else 2.0**-25
    return wrap(ops.add(node, ops.constant(half, float64)))


def _log_gamma(source: Source, a: Any, shape: Shape, kind: DType) -> Any:
    """Logarithms of gamma numbers of parameters ``a`` > 0 (float64)."""
    work = float64 if kind is float64 else float32
    first, second, third = streams(source, 3)
    trials = (_TRIALS, *shape)
    x = wrap(cast(normal_node(first, trials, work), float64))
    log_u = log(_unit(second, trials, work))
    lift = where(a < 1, log(_unit(third, shape, work)) / a, 0.0)
    d = where(a < 1, a + 1, a) - 1 / 3
    v = 1 + x / (3 * sqrt(d))
    log_v = 3 * log(where(v > 0, v, 1.0))
    taken = (v > 0) & (log_u < x * x / 2 + d - d * exp(log_v) + d * log_v)
    number = wrap(node_from_array(np.arange(float(_TRIALS)).reshape(-1, *(1,) * len(shape))))
    chosen = where(taken, number, float(_TRIALS)).min(0)
    log_z = where(number == chosen, log_v, 0.0).sum(0)
    quantile = maximum(1 - 1 / (9 * d) + x[0] / (3 * sqrt(d)), 1e-3)  # Wilson and Hilferty
    log_z = where(chosen == _TRIALS, 3 * log(quantile), log_z)
    return where(a > 0, log_z + log(d) + lift, math.nan)


def _moved(a: Any, log_z: Any) -> Any:
    """``log_z`` with its derivatives by ``a`` at a fixed probability."""
    near = log_z < -50  # P is z**a / gamma(a + 1) there
    fixed = stop_gradient(a * log_z - lgamma(a + 1))
    low = (fixed + lgamma(a + 1)) / a
    y = where(near, 0.0, log_z)
    p, q = gamma_parts(a, exp(y))
    lower, p0, q0 = stop_gradient(y <= log(a + 1)), stop_gradient(p), stop_gradient(q)
    for step in range(2):
        z = exp(y)
        if step:
            p, q = gamma_parts(a, z)
        gap = where(lower, p - p0, q0 - q)
        slope = a * exp(wrap(ops.log_poisson(node_of(a), node_of(z))))
        y = y - gap / maximum(slope, 1e-300)
    return where(near, low, y)


def log_gamma_node(source: Source, a: Node, shape: Shape, kind: DType) -> Any:
    """Logarithms of gamma numbers, as float64, with gradients by ``a``."""
    parameter = wrap(ops.broadcast_to(cast(a, float64), shape))
    with no_grad():
        drawn = stop_gradient(_log_gamma(source, stop_gradient(parameter), shape, kind))
    if not (gradient_mode.enabled and a.tracked):
        return drawn
    safe = where(parameter > 0, parameter, 1.0)
    moved = _moved(safe, where(parameter > 0, drawn, 0.0))
    return where(parameter > 0, moved, math.nan)


def _parameter(name: str, option: str, value: TensorLike) -> Node:
    require(name, option, value, 0, above=True)
    return as_node(value, float64)


def _width(name: str, scale: TensorLike) -> Node:
    return as_node(width_node(name, scale), float64)


@with_synonyms
def gamma(
    a: TensorLike, shape: Any = None, scale: TensorLike = 1.0, dtype: object = None,
    key: Source = None,
) -> Tensor:  # fmt: skip
    """Numbers of density ``x^(a-1) exp(-x) / Γ(a)``, times ``scale``; NaN unless a > 0.

    Differentiable by ``a`` and ``scale``.

    >>> gamma([1.0, 2.0], (5, 2)).shape
    (5, 2)
    """
    kind = float_dtype("gamma", dtype)
    parameter, width = _parameter("gamma", "a", a), _width("gamma", scale)
    sizes = sizes_of("gamma", shape, parameter, width)
    value = exp(log_gamma_node(key, parameter, sizes, kind)) * wrap(width)
    return value.astype(kind)


@with_synonyms
def loggamma(
    a: TensorLike, shape: Any = None, dtype: object = None, key: Source = None
) -> Tensor:
    """The logarithms of :func:`gamma` numbers, which do not underflow for small ``a``.

    >>> loggamma(1e-3, (5,)).shape
    (5,)
    """
    kind = float_dtype("loggamma", dtype)
    parameter = _parameter("loggamma", "a", a)
    sizes = sizes_of("loggamma", shape, parameter)
    return log_gamma_node(key, parameter, sizes, kind).astype(kind)  # type: ignore[no-any-return]


@with_synonyms
def beta(
    a: TensorLike, b: TensorLike, shape: Any = None, dtype: object = None, key: Source = None
) -> Tensor:
    """Numbers of density ``x^(a-1) (1-x)^(b-1) / B(a, b)``: ``G(a) / (G(a) + G(b))`` of gamma
    numbers. Differentiable by both.

    >>> bool((beta(0.5, 0.5, (9,)) <= 1).all())
    True
    """
    kind = float_dtype("beta", dtype)
    left, right = _parameter("beta", "a", a), _parameter("beta", "b", b)
    sizes = sizes_of("beta", shape, left, right)
    one, two = streams(key, 2)
    gap = log_gamma_node(one, left, sizes, kind) - log_gamma_node(two, right, sizes, kind)
    return gap.sigmoid().astype(kind)  # type: ignore[no-any-return]


@with_synonyms
def dirichlet(
    alpha: TensorLike, shape: Any = None, dtype: object = None, key: Source = None
) -> Tensor:
    """Vectors of probabilities along the last axis, of density proportional to ``Π x^(α-1)``:
    gamma numbers over their sum. ``shape`` is that of the batch, without the last axis.
    Differentiable.

    >>> dirichlet([1.0, 2.0, 3.0], (4,)).shape
    (4, 3)
    """
    kind = float_dtype("dirichlet", dtype)
    parameter = _parameter("dirichlet", "alpha", alpha)
    whole = None if shape is None else (*shape_of("dirichlet", shape), *parameter.shape[-1:])
    sizes = sizes_of("dirichlet", whole, parameter)
    logs = log_gamma_node(key, parameter, sizes, kind)
    return softmax(logs, axis=-1).astype(kind)


@with_synonyms
def chisquare(
    df: TensorLike, shape: Any = None, dtype: object = None, key: Source = None
) -> Tensor:
    """Sums of ``df`` squared normal numbers: twice a gamma number of ``df / 2``. Differentiable.

    >>> chisquare(3.0, (2,)).shape
    (2,)
    """
    require("chisquare", "df", df, 0, above=True)
    return gamma(wrap(as_node(df, float64)) / 2, shape, 2.0, dtype=dtype, key=key)


@with_synonyms
def student_t(
    df: TensorLike, shape: Any = None, loc: TensorLike = 0.0, scale: TensorLike = 1.0,
    dtype: object = None, key: Source = None,
) -> Tensor:  # fmt: skip
    """Numbers of Student's t distribution with ``df`` degrees of freedom: a normal number over the
    root of a chi-square one divided by ``df``, times ``scale`` plus ``loc``. Differentiable.

    >>> student_t(4.0, (2,)).shape
    (2,)
    """
    kind = float_dtype("student_t", dtype)
    freedom = _parameter("student_t", "df", df)
    middle, width = as_node(loc, float64), _width("student_t", scale)
    sizes = sizes_of("student_t", shape, freedom, middle, width)
    one, two = streams(key, 2)
    work = float64 if kind is float64 else float32
    half = wrap(freedom) / 2
    logs = log_gamma_node(one, as_node(half), sizes, kind)
    z = wrap(cast(normal_node(two, sizes, work), float64))
    value = wrap(middle) + z * exp((log(half) - logs) / 2) * wrap(width)
    return value.astype(kind)
