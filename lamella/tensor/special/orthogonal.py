"""Orthogonal polynomials by their recurrences (NIST Digital Library of Mathematical Functions,
18.9), under SciPy's names and PyTorch's.

The order is a whole number, or an array of such whose values are looked at: they decide how often
the recurrence runs. Orders up to 24 are unrolled into one kernel, larger ones are a loop. Work is
in float64: the error is about 1e-16 times the order times the largest value nearby. Derivatives by
the argument and by real parameters are those of the recurrence.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from lamella.errors import DTypeError
from lamella.tensor.comparison import where
from lamella.tensor.core import TensorCore
from lamella.tensor.operands import TensorLike
from lamella.tensor.special.support import constants, in_double, repeated

if TYPE_CHECKING:
    from lamella.tensor.tensor import Tensor

__all__ = [
    "chebyshev_polynomial_t", "chebyshev_polynomial_u", "chebyshev_polynomial_v",
    "chebyshev_polynomial_w", "eval_chebyc", "eval_chebys", "eval_chebyt", "eval_chebyu",
    "eval_gegenbauer", "eval_genlaguerre", "eval_hermite", "eval_hermitenorm", "eval_jacobi",
    "eval_laguerre", "eval_legendre", "eval_sh_chebyt", "eval_sh_chebyu", "eval_sh_jacobi",
    "eval_sh_legendre", "hermite_polynomial_h", "hermite_polynomial_he", "laguerre_polynomial_l",
    "legendre_polynomial_p", "shifted_chebyshev_polynomial_t", "shifted_chebyshev_polynomial_u",
    "shifted_chebyshev_polynomial_v", "shifted_chebyshev_polynomial_w",
]  # fmt: skip

_UNROLLED: Final = 24
Step = Callable[..., Any]  # (k, p[k], p[k - 1], x, *parameters) -> p[k + 1]


def orders(name: str, n: TensorLike) -> tuple[Any, int]:
    """Whole numbers as a float64 array, and the largest.

    Raises:
        DTypeError: if one is not whole.
    """
    found = np.asarray(n.numpy() if isinstance(n, TensorCore) else n)  # type: ignore[attr-defined]
    values = found.astype(np.float64)
    if not np.all(np.isfinite(values) & (np.floor(values) == values)):
        raise DTypeError(
            f"[{name}] order {found!r:.60}, but the recurrence needs whole numbers; round them"
        )
    return values, int(values.max(initial=0.0))


def _run(n: Any, most: int, first: Any, step: Step, x: Any, *parameters: Any) -> Any:
    """The polynomial of order ``n``, from ``first`` of order 1 on; 0 of negative order."""
    wanted = constants(n)
    one = x * 0 + 1.0
    found = where(wanted == 0, one, 0.0) if most == 0 or n.ndim or n < 1 else one * 0
    if most < 1:
        return found

    def chosen(k: Any, value: Any, found: Any) -> Any:
        return where(wanted == k, value, found)

    found = chosen(1, first, found)
    if most <= _UNROLLED:
        before, last = one, first
        for k in range(1, most):
            before, last = last, step(float(k), last, before, x, *parameters)
            found = chosen(k + 1, last, found)
        return found

    def following(k: Any, last: Any, before: Any, found: Any, x: Any, *rest: Any) -> Any:
        value = step(k, last, before, x, *rest)
        return k + 1.0, value, last, chosen(k + 1.0, value, found), x, *rest

    zero = found * 0  # of the shape of the result
    start = [constants(np.array(1.0)), first + zero, one + zero, found, x + zero]
    return repeated(following, most - 1, *start, *(p + zero for p in parameters))[3]


def _polynomial(
    name: str, n: TensorLike, first: Step, step: Step, x: TensorLike, *parameters: TensorLike
) -> Tensor:
    values, most = orders(name, n)

    def value(x: Any, *parameters: Any) -> Any:
        return _run(values, most, first(x, *parameters), step, x, *parameters)

    return in_double(name, value, x, *parameters)


def _twice(k: Any, last: Any, before: Any, x: Any) -> Any:
    return 2 * x * last - before


# -- Legendre, Jacobi, Gegenbauer ------------------------------------------------------------------
def _legendre(k: Any, last: Any, before: Any, x: Any) -> Any:
    return ((2 * k + 1) * x * last - k * before) / (k + 1)


def eval_legendre(n: TensorLike, x: TensorLike) -> Tensor:
    """Legendre's polynomial ``Pₙ(x)``: ``(n + 1) Pₙ₊₁ = (2n + 1) x Pₙ - n Pₙ₋₁``.

    >>> eval_legendre(2, 0.5).item()
    -0.125
    """
    return _polynomial("eval_legendre", n, lambda x: x, _legendre, x)


def eval_sh_legendre(n: TensorLike, x: TensorLike) -> Tensor:
    """Legendre's polynomial on [0, 1]: ``Pₙ(2x - 1)``.

    >>> eval_sh_legendre(2, 0.75).item()
    -0.125
    """
    return _shifted("eval_sh_legendre", n, lambda y: y, _legendre, x)


def _shifted(name: str, n: TensorLike, first: Step, step: Step, x: TensorLike) -> Tensor:
    values, most = orders(name, n)

    def value(x: Any) -> Any:
        y = 2 * x - 1
        return _run(values, most, first(y), step, y)

    return in_double(name, value, x)


def _gegenbauer(k: Any, last: Any, before: Any, x: Any, a: Any) -> Any:
    return (2 * (k + a) * x * last - (k + 2 * a - 1) * before) / (k + 1)


def eval_gegenbauer(n: TensorLike, alpha: TensorLike, x: TensorLike) -> Tensor:
    """Gegenbauer's polynomial ``Cₙ(x)`` of parameter ``alpha``: ``(n + 1) Cₙ₊₁ = 2 (n + α) x Cₙ -
    (n + 2α - 1) Cₙ₋₁``.

    >>> eval_gegenbauer(2, 1.0, 0.5).item()
    0.0
    """
    return _polynomial("eval_gegenbauer", n, lambda x, a: 2 * a * x, _gegenbauer, x, alpha)


def _jacobi(k: Any, last: Any, before: Any, x: Any, a: Any, b: Any) -> Any:
    s = 2 * k + a + b
    up = (s + 1) * ((s + 2) * s * x + a * a - b * b) * last
    down = 2 * (k + a) * (k + b) * (s + 2) * before
    return (up - down) / (2 * (k + 1) * (k + a + b + 1) * s)


def eval_jacobi(n: TensorLike, alpha: TensorLike, beta: TensorLike, x: TensorLike) -> Tensor:
    """Jacobi's polynomial of parameters ``alpha``, ``beta`` above -1, by its recurrence (18.9.2).

    >>> eval_jacobi(1, 1.0, 2.0, 0.5).item()
    0.75
    """

    def first(x: Any, a: Any, b: Any) -> Any:
        return (a + 1) + (a + b + 2) * (x - 1) * 0.5

    return _polynomial("eval_jacobi", n, first, _jacobi, x, alpha, beta)


def eval_sh_jacobi(n: TensorLike, p: TensorLike, q: TensorLike, x: TensorLike) -> Tensor:
    """Jacobi's polynomial on [0, 1] with the highest coefficient 1: that of parameters ``p - q``,
    ``q - 1`` at ``2x - 1`` over ``binom(2n + p - 1, n)``.

    >>> f"{eval_sh_jacobi(1, 2.0, 1.0, 0.5).item():.6f}"
    '0.166667'
    """
    from lamella.tensor.special.gamma import binom

    values, most = orders("eval_sh_jacobi", n)

    def value(p: Any, q: Any, x: Any) -> Any:
        a, b, y = p - q, q - 1, 2 * x - 1
        first = (a + 1) + (a + b + 2) * (y - 1) * 0.5
        found = _run(values, most, first, _jacobi, y, a, b)
        return found / binom(constants(2 * values) + p - 1, constants(values))

    return in_double("eval_sh_jacobi", value, p, q, x)


# -- Chebyshev -------------------------------------------------------------------------------------
def eval_chebyt(n: TensorLike, x: TensorLike) -> Tensor:
    """Chebyshev's polynomial of the first kind ``Tₙ(cos θ) = cos nθ``.

    >>> eval_chebyt(3, 0.5).item()
    -1.0
    """
    return _polynomial("eval_chebyt", n, lambda x: x, _twice, x)


def eval_chebyu(n: TensorLike, x: TensorLike) -> Tensor:
    """Chebyshev's polynomial of the second kind ``Uₙ(cos θ) = sin (n + 1)θ / sin θ``.

    >>> eval_chebyu(2, 0.5).item()
    0.0
    """
    return _polynomial("eval_chebyu", n, lambda x: 2 * x, _twice, x)


def eval_chebyc(n: TensorLike, x: TensorLike) -> Tensor:
    """``Cₙ(x) = 2 Tₙ(x / 2)``.

    >>> eval_chebyc(2, 1.0).item()
    -1.0
    """
    return _halved("eval_chebyc", n, lambda y: y, x, 2.0)


def eval_chebys(n: TensorLike, x: TensorLike) -> Tensor:
    """``Sₙ(x) = Uₙ(x / 2)``.

    >>> eval_chebys(2, 1.0).item()
    0.0
    """
    return _halved("eval_chebys", n, lambda y: 2 * y, x, 1.0)


def _halved(name: str, n: TensorLike, first: Step, x: TensorLike, scale: float) -> Tensor:
    values, most = orders(name, n)

    def value(x: Any) -> Any:
        y = x * 0.5
        return _run(values, most, first(y), _twice, y) * scale

    return in_double(name, value, x)


def eval_sh_chebyt(n: TensorLike, x: TensorLike) -> Tensor:
    """``Tₙ(2x - 1)``.

    >>> eval_sh_chebyt(3, 0.75).item()
    -1.0
    """
    return _shifted("eval_sh_chebyt", n, lambda y: y, _twice, x)


def eval_sh_chebyu(n: TensorLike, x: TensorLike) -> Tensor:
    """``Uₙ(2x - 1)``.

    >>> eval_sh_chebyu(2, 0.75).item()
    0.0
    """
    return _shifted("eval_sh_chebyu", n, lambda y: 2 * y, _twice, x)


def chebyshev_polynomial_t(input: TensorLike, n: TensorLike) -> Tensor:
    """:func:`eval_chebyt` by PyTorch's name.

    >>> chebyshev_polynomial_t(0.5, 3).item()
    -1.0
    """
    return eval_chebyt(n, input)


def chebyshev_polynomial_u(input: TensorLike, n: TensorLike) -> Tensor:
    """:func:`eval_chebyu` by PyTorch's name.

    >>> chebyshev_polynomial_u(0.5, 2).item()
    0.0
    """
    return eval_chebyu(n, input)


def chebyshev_polynomial_v(input: TensorLike, n: TensorLike) -> Tensor:
    """Chebyshev's polynomial of the third kind ``Vₙ(cos θ) = cos (n + ½)θ / cos ½θ``.

    >>> chebyshev_polynomial_v(0.5, 2).item()
    -1.0
    """
    return _polynomial("chebyshev_polynomial_v", n, lambda x: 2 * x - 1, _twice, input)


def chebyshev_polynomial_w(input: TensorLike, n: TensorLike) -> Tensor:
    """Chebyshev's polynomial of the fourth kind ``Wₙ(cos θ) = sin (n + ½)θ / sin ½θ``.

    >>> chebyshev_polynomial_w(0.5, 2).item()
    1.0
    """
    return _polynomial("chebyshev_polynomial_w", n, lambda x: 2 * x + 1, _twice, input)


def shifted_chebyshev_polynomial_t(input: TensorLike, n: TensorLike) -> Tensor:
    """:func:`eval_sh_chebyt` by PyTorch's name.

    >>> shifted_chebyshev_polynomial_t(0.75, 3).item()
    -1.0
    """
    return eval_sh_chebyt(n, input)


def shifted_chebyshev_polynomial_u(input: TensorLike, n: TensorLike) -> Tensor:
    """:func:`eval_sh_chebyu` by PyTorch's name.

    >>> shifted_chebyshev_polynomial_u(0.75, 2).item()
    0.0
    """
    return eval_sh_chebyu(n, input)


def shifted_chebyshev_polynomial_v(input: TensorLike, n: TensorLike) -> Tensor:
    """``Vₙ(2x - 1)``, see :func:`chebyshev_polynomial_v`.

    >>> shifted_chebyshev_polynomial_v(0.75, 2).item()
    -1.0
    """
    name = "shifted_chebyshev_polynomial_v"
    return _shifted(name, n, lambda y: 2 * y - 1, _twice, input)


def shifted_chebyshev_polynomial_w(input: TensorLike, n: TensorLike) -> Tensor:
    """``Wₙ(2x - 1)``, see :func:`chebyshev_polynomial_w`.

    >>> shifted_chebyshev_polynomial_w(0.75, 2).item()
    1.0
    """
    name = "shifted_chebyshev_polynomial_w"
    return _shifted(name, n, lambda y: 2 * y + 1, _twice, input)


# -- Hermite, Laguerre -----------------------------------------------------------------------------
def eval_hermite(n: TensorLike, x: TensorLike) -> Tensor:
    """Hermite's polynomial of physics ``Hₙ₊₁ = 2 x Hₙ - 2 n Hₙ₋₁``.

    >>> eval_hermite(2, 0.5).item()
    -1.0
    """

    def step(k: Any, last: Any, before: Any, x: Any) -> Any:
        return 2 * x * last - 2 * k * before

    return _polynomial("eval_hermite", n, lambda x: 2 * x, step, x)


def eval_hermitenorm(n: TensorLike, x: TensorLike) -> Tensor:
    """Hermite's polynomial of probability ``Heₙ₊₁ = x Heₙ - n Heₙ₋₁``.

    >>> eval_hermitenorm(2, 0.5).item()
    -0.75
    """

    def step(k: Any, last: Any, before: Any, x: Any) -> Any:
        return x * last - k * before

    return _polynomial("eval_hermitenorm", n, lambda x: x, step, x)


def hermite_polynomial_h(input: TensorLike, n: TensorLike) -> Tensor:
    """:func:`eval_hermite` by PyTorch's name.

    >>> hermite_polynomial_h(0.5, 2).item()
    -1.0
    """
    return eval_hermite(n, input)


def hermite_polynomial_he(input: TensorLike, n: TensorLike) -> Tensor:
    """:func:`eval_hermitenorm` by PyTorch's name.

    >>> hermite_polynomial_he(0.5, 2).item()
    -0.75
    """
    return eval_hermitenorm(n, input)


def eval_genlaguerre(n: TensorLike, alpha: TensorLike, x: TensorLike) -> Tensor:
    """Laguerre's polynomial of parameter ``alpha``: ``(n + 1) Lₙ₊₁ = (2n + 1 + α - x) Lₙ - (n + α)
    Lₙ₋₁``.

    >>> eval_genlaguerre(1, 1.0, 0.5).item()
    1.5
    """

    def step(k: Any, last: Any, before: Any, x: Any, a: Any) -> Any:
        return ((2 * k + 1 + a - x) * last - (k + a) * before) / (k + 1)

    return _polynomial("eval_genlaguerre", n, lambda x, a: 1 + a - x, step, x, alpha)


def eval_laguerre(n: TensorLike, x: TensorLike) -> Tensor:
    """Laguerre's polynomial ``Lₙ(x)``, :func:`eval_genlaguerre` of parameter 0.

    >>> eval_laguerre(1, 0.5).item()
    0.5
    """

    def step(k: Any, last: Any, before: Any, x: Any) -> Any:
        return ((2 * k + 1 - x) * last - k * before) / (k + 1)

    return _polynomial("eval_laguerre", n, lambda x: 1 - x, step, x)


def laguerre_polynomial_l(input: TensorLike, n: TensorLike) -> Tensor:
    """:func:`eval_laguerre` by PyTorch's name.

    >>> laguerre_polynomial_l(0.5, 1).item()
    0.5
    """
    return eval_laguerre(n, input)


def legendre_polynomial_p(input: TensorLike, n: TensorLike) -> Tensor:
    """:func:`eval_legendre` by PyTorch's name.

    >>> legendre_polynomial_p(0.5, 2).item()
    -0.125
    """
    return eval_legendre(n, input)
