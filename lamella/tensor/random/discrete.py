"""Discrete distributions. Poisson and binomial numbers are quantiles of one uniform number each:
below a mean of 12 by adding up probabilities, beyond by Cornish and Fisher's expansion, which is
less than one off, and the distribution function there and at its neighbours (to 2e-10).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from lamella import ops
from lamella.dtypes import as_dtype, float32, float64, int64, uint64
from lamella.errors import OptionError
from lamella.tensor.axes import axis_of, shape_of
from lamella.tensor.comparison import floor, isfinite, where
from lamella.tensor.core import node_of, wrap
from lamella.tensor.elementwise import maximum, minimum
from lamella.tensor.gradient import no_grad
from lamella.tensor.joining import concat
from lamella.tensor.keywords import with_synonyms
from lamella.tensor.operands import TensorLike, as_float, as_node, cast, scalar_node
from lamella.tensor.random.continuous import gumbel
from lamella.tensor.random.domain import LARGEST_MEAN, known, require, require_weights, whole
from lamella.tensor.random.stream import Source, bits_node, sizes_of, unit_node
from lamella.tensor.special.error import ndtri
from lamella.tensor.special.gamma import betaln
from lamella.tensor.special.incomplete import SINGLE, beta_inside, gamma_parts
from lamella.tensor.transcendental import exp, log, log1p, sqrt

if TYPE_CHECKING:
    from lamella.tensor.tensor import Tensor

__all__ = [
    "bernoulli", "binomial", "categorical", "geometric", "multinomial", "poisson", "rademacher",
    "randint",
]  # fmt: skip

_SMALL: Final = 12.0
_TERMS: Final = 60  # a Poisson number of mean 12 is larger with probability 1e-21


@with_synonyms
def randint(
    low: Any,
    high: Any = None,
    shape: Any = (),
    dtype: object = int64,
    key: Source = None,
) -> Tensor:
    """Whole numbers in [``low``, ``high``), or in [0, ``low``) without ``high``.

    A 64-bit random number times the width, shifted right by 64: the bias is below width / 2⁶⁴.

    Raises:
        DTypeError: for an end that is no whole number.
        OptionError: if the interval is empty or wider than 2³².

    >>> randint(0, 10, (3,)).shape
    (3,)
    """
    kind = as_dtype(dtype)
    if isinstance(high, Sequence) or getattr(high, "ndim", 0) > 0:
        high, shape = None, high  # randint(10, (2, 3))
    start, stop = 0, whole("randint", "low", low)
    if high is not None:
        start, stop = stop, whole("randint", "high", high)
    if not start < stop or stop - start > 2**32 or not kind.is_integer:
        raise OptionError(
            f"[randint] integers of type {kind.name} in [{start}, {stop}): the interval must hold "
            "1 to 2**32 numbers, the type be an integer one; change them"
        )
    for edge in (start, stop - 1):
        scalar_node(edge, kind, "randint")  # refuses what the type cannot hold
    bits = bits_node(key, shape_of("randint", shape), uint64)
    width = scalar_node(stop - start, uint64)
    shift, low_half = ops.constant(32, uint64), ops.constant(2**32 - 1, uint64)
    upper = ops.multiply(ops.bitwise_right_shift(bits, shift), width)
    lower = ops.bitwise_right_shift(ops.multiply(ops.bitwise_and(bits, low_half), width), shift)
    found = cast(ops.bitwise_right_shift(ops.add(upper, lower), shift), int64)
    return wrap(cast(ops.add(found, scalar_node(start, int64)), kind))


@with_synonyms
def bernoulli(
    p: TensorLike = 0.5, shape: Any = None, dtype: object = bool, key: Source = None
) -> Tensor:
    """True with probability ``p`` (a number or a tensor of them). Elements of a tensor below 0
    and NaN count as 0, those above 1 as 1.

    >>> bernoulli(1.0, (3,)).tolist()
    [True, True, True]
    """
    require("bernoulli", "p", p, 0, 1)
    chance = as_float(as_node(p))
    sizes = chance.shape if shape is None else shape_of("bernoulli", shape)
    work = float64 if chance.dtype is float64 else float32
    draw = unit_node(key, sizes, work)
    return wrap(cast(ops.less(draw, cast(chance, work)), as_dtype(dtype)))


@with_synonyms
def categorical(
    logits: TensorLike, shape: Any = None, axis: int = -1, key: Source = None
) -> Tensor:
    """Positions along ``axis``, each with probability proportional to ``exp(logits)``: the largest
    of logits plus Gumbel noise. ``shape`` adds leading axes of independent draws. -1 where
    logits are NaN, inf, or -inf throughout, which are no distribution.

    >>> categorical([-1e9, 0.0, -1e9], (4,)).tolist()
    [1, 1, 1, 1]
    """
    node = as_float(as_node(logits))
    place = axis_of("categorical", axis, node.shape)
    extra = () if shape is None else shape_of("categorical", shape)
    noise = as_node(gumbel((*extra, *node.shape), dtype=node.dtype, key=key))
    found = wrap(ops.argmax(ops.add(node, noise), place + len(extra)))
    top = wrap(ops.reduce_max(node, (place,)))
    return where(isfinite(top), found, -1)


def rademacher(shape: Any = (), dtype: object = None, key: Source = None) -> Tensor:
    """-1 or 1, each with probability 1/2; float32 by default.

    >>> sorted(set(rademacher((99,)).tolist()))
    [-1.0, 1.0]
    """
    kind = float32 if dtype is None else as_dtype(dtype)
    sizes = shape_of("rademacher", shape)
    high = ops.bitwise_right_shift(bits_node(key, sizes, uint64), ops.constant(63, uint64))
    signs = ops.subtract(ops.multiply(cast(high, int64), ops.constant(2, int64)),
                         ops.constant(1, int64))  # fmt: skip
    return wrap(cast(signs, kind))


def _uniform(source: Source, shape: Any) -> Any:
    """Uniform in (0, 1) as float64."""
    unit = unit_node(source, shape, float64)
    return wrap(ops.add(unit, ops.constant(2.0**-54, float64)))


@with_synonyms
def geometric(
    p: TensorLike, shape: Any = None, dtype: object = int64, key: Source = None
) -> Tensor:
    """The number of trials up to the first success, from 1 on, each of probability ``p``:
    ``ceil(log u / log(1 - p))``; -1 where ``p`` is not in (0, 1].

    >>> geometric(1.0, (3,)).tolist()
    [1, 1, 1]
    """
    require("geometric", "p", p, 0, 1, above=True)
    chance = as_node(p, float64)
    u = _uniform(key, sizes_of("geometric", shape, chance))
    with no_grad():
        count = (u.log() / log1p(-wrap(chance))).ceil()
        valid = (wrap(chance) > 0) & (wrap(chance) <= 1)
        return where(valid, maximum(count, 1.0), -1.0).astype(as_dtype(dtype))


def _by_adding(u: Any, first: Any, ratio: Callable[[int], Any]) -> Any:
    """How many of the running sums of probabilities ``u`` exceeds; each is ``ratio(k)`` times the
    one before.
    """
    chance = total = first
    count = u * 0
    for k in range(1, _TERMS):
        count = count + where(u > total, 1.0, 0.0)
        chance = chance * ratio(k)
        total = total + chance
    return count


def _by_searching(
    u: Any, guess: Any, below: Callable[[Any], Any], chance: Callable[[Any], Any]
) -> Any:
    """The least k with ``below(k) >= u``, known to be less than 2 away from ``guess``; ``chance``
    is the probability of k, so that one value of the distribution function is enough.
    """
    base = maximum(floor(guess), 0.0)
    middle = below(base)
    ends = [middle - chance(base), middle]
    for k in (1, 2):
        ends.append(ends[-1] + chance(base + k))
    return maximum(base - 1 + sum(where(end < u, 1.0, 0.0) for end in ends), 0.0)


def _chosen(small: Any, value: Any, near: Callable[[], Any], far: Callable[[], Any]) -> Any:
    """``near()`` where ``small``, else ``far()``; only one of them where that is known."""
    if isinstance(value, int | float):
        return near() if value <= _SMALL else far()
    return where(small, near(), far())


@with_synonyms
def poisson(
    lam: TensorLike, shape: Any = None, dtype: object = int64, key: Source = None
) -> Tensor:
    """Whole numbers of the Poisson distribution of mean ``lam``; -1 where it is negative, NaN or
    above 9.2e18, which int64 cannot hold.

    >>> poisson(0.0, (3,)).tolist()
    [0, 0, 0]
    """
    require("poisson", "lam", lam, 0, LARGEST_MEAN)
    rate = as_node(lam, float64)
    u = _uniform(key, sizes_of("poisson", shape, rate))
    with no_grad():
        mean = wrap(rate)
        small = mean <= _SMALL
        few, many = minimum(mean, _SMALL), maximum(mean, _SMALL)

        def near() -> Any:
            return _by_adding(u, exp(-few), lambda k: few / k)

        def far() -> Any:
            z, root = ndtri(u), sqrt(many)
            guess = many + root * z + (z * z - 1) / 6 + (z - z**3) / (72 * root)

            def chance(k: Any) -> Any:
                return exp(wrap(ops.log_poisson(node_of(k), node_of(many))))

            def below(k: Any) -> Any:
                return gamma_parts(k + 1, many, SINGLE, from_one=True)[1]

            return _by_searching(u, guess, below, chance)

        valid = (mean >= 0) & (mean <= LARGEST_MEAN)
        count = where(valid, _chosen(small, lam, near, far), -1.0)
        return count.astype(as_dtype(dtype))


@with_synonyms
def binomial(
    n: TensorLike, p: TensorLike, shape: Any = None, dtype: object = int64, key: Source = None
) -> Tensor:
    """The number of successes in ``n`` trials, each of probability ``p``; -1 where n is not a whole
    number from 0 on or p is outside [0, 1].

    >>> binomial(5, 1.0, (3,)).tolist()
    [5, 5, 5]
    """
    require("binomial", "n", n, 0, LARGEST_MEAN)
    require("binomial", "p", p, 0, 1)
    given = known(n)
    if given is not None and (np.floor(given) != given).any():
        raise OptionError(f"[binomial] n={n!r:.60} is no whole number; give whole numbers")
    trials, chance = as_node(n, float64), as_node(p, float64)
    u = _uniform(key, sizes_of("binomial", shape, trials, chance))
    with no_grad():
        count, p1 = wrap(trials), wrap(chance)
        q = minimum(p1, 1 - p1)
        mean: Any = count * q
        if isinstance(n, int | float) and isinstance(p, int | float):
            mean = n * min(p, 1 - p)
        found = _binomial(u, count, q, mean)
        found = where(p1 > 0.5, count - found, found)
        whole = (count >= 0) & (count <= LARGEST_MEAN) & (floor(count) == count)
        valid = whole & (p1 >= 0) & (p1 <= 1)
        return where(valid, found, -1.0).astype(as_dtype(dtype))


def _binomial(u: Any, n: Any, q: Any, mean: Any) -> Any:
    """Binomial quantiles for q <= 1/2."""
    small = mean <= _SMALL
    odds = q / (1 - q)

    def near() -> Any:
        return _by_adding(u, exp(n * log1p(-q)), lambda k: (n - (k - 1)) / k * odds)

    def far() -> Any:
        many = where(small, 1e3, n) if not isinstance(small, bool) else n
        part = where(small, 0.5, q) if not isinstance(small, bool) else q
        z, spread = ndtri(u), sqrt(many * part * (1 - part))
        skew = (1 - 2 * part) / spread
        tails = (1 - 6 * part * (1 - part)) / (spread * spread)
        w = z + skew * (z * z - 1) / 6 + tails * (z**3 - 3 * z) / 24
        w = w - skew * skew * (2 * z**3 - 5 * z) / 36

        def below(k: Any) -> Any:
            inside = k < many
            left = where(inside, many - k, 1.0)
            return where(inside, beta_inside(left, k + 1, 1 - part, SINGLE), 1.0)

        def chance(k: Any) -> Any:
            inside = k <= many
            k = where(inside, k, 0.0)
            ways = -betaln(k + 1, many - k + 1) - log(many + 1)
            found = exp(ways + k * log(part) + (many - k) * log1p(-part))
            return where(inside, found, 0.0)

        return _by_searching(u, many * part + spread * w, below, chance)

    return _chosen(small, mean, near, far)


@with_synonyms
def multinomial(
    n: int, p: TensorLike, shape: Any = None, dtype: object = int64, key: Source = None
) -> Tensor:
    """How often each of the things along the last axis of ``p`` comes up in ``n`` draws with
    probabilities ``p`` (which need not sum to 1). ``shape`` adds leading axes. -1 throughout where
    probabilities of a tensor are negative or NaN, or their sum is 0 or not finite.

    Raises:
        DTypeError: for an ``n`` that is no whole number.
        OptionError: for a negative one, for such known probabilities.

    >>> multinomial(7, [0.0, 1.0]).tolist()
    [0, 7]
    """
    n = whole("multinomial", "n", n, 0)
    require_weights("multinomial", p)
    chances = wrap(as_node(p, float64))
    if not chances.ndim:
        raise OptionError("[multinomial] p is one number; give one probability for each thing")
    extra = () if shape is None else shape_of("multinomial", shape)
    batch = chances.shape[:-1]
    with no_grad():
        ends = chances.cumsum(-1)
        u = wrap(unit_node(key, (*extra, *batch, n, 1), float64))
        below = (u * ends[..., None, -1:] < ends[..., None, :]).astype(int64).sum(-2)
        inner = below[..., :-1]  # the last end is n, whatever rounding says
        zero, full = below[..., :1] * 0, below[..., :1] * 0 + n
        counts = concat([inner, full], axis=-1) - concat([zero, inner], axis=-1)
        total = ends[..., -1:]
        valid = (chances >= 0).all(-1, keepdims=True) & (total > 0) & isfinite(total)
        return where(valid, counts, -1).astype(as_dtype(dtype))
