"""Random orders and choices."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from lamella import ops
from lamella.dtypes import float64, int64, uint64
from lamella.errors import OptionError, ShapeError
from lamella.tensor.axes import axis_of, shape_of
from lamella.tensor.comparison import isfinite, where
from lamella.tensor.core import wrap
from lamella.tensor.creation import zeros
from lamella.tensor.elementwise import minimum
from lamella.tensor.keywords import with_synonyms
from lamella.tensor.operands import TensorLike, as_float, as_node
from lamella.tensor.random.continuous import gumbel, uniform
from lamella.tensor.random.discrete import randint
from lamella.tensor.random.domain import known, require_weights
from lamella.tensor.random.stream import Source, bits_node
from lamella.tensor.searching import searchsorted, take_node

if TYPE_CHECKING:
    from lamella.ir.dim import Shape
    from lamella.ir.node import Node
    from lamella.tensor.tensor import Tensor

__all__ = ["choice", "permutation", "shuffle"]


def permutation(x: int | TensorLike, axis: int = 0, key: Source = None) -> Tensor:
    """The numbers 0 … ``x`` - 1, or the slices of ``x`` along ``axis``, in random order.

    >>> sorted(permutation(4).tolist())
    [0, 1, 2, 3]
    """
    if isinstance(x, int | np.integer):
        (size,) = shape_of("permutation", x)
        return wrap(ops.argsort(bits_node(key, (size,), uint64), 0))
    node = as_node(x)
    place = axis_of("permutation", axis, node.shape)
    order = ops.argsort(bits_node(key, (node.shape[place],), uint64), 0)
    return wrap(take_node(node, order, place))


def shuffle(x: TensorLike, axis: int = 0, key: Source = None) -> Tensor:
    """The slices of ``x`` along ``axis`` in random order, as a new tensor.

    >>> sorted(shuffle([3, 1, 2]).tolist())
    [1, 2, 3]
    """
    return permutation(wrap(as_node(x)), axis, key)


def _order(total: int, p: TensorLike | None, key: Source) -> Node:
    """Numbers below ``total`` in the order in which they are drawn without replacement."""
    if p is None:
        return as_node(permutation(total, key=key))
    chances = as_float(as_node(p))
    noise = as_node(gumbel((total,), dtype=chances.dtype, key=key))
    return ops.argsort(ops.negative(ops.add(ops.log(chances), noise)), 0)


def _drawn(p: TensorLike, sizes: Shape, key: Source) -> Tensor:
    """Numbers with probabilities ``p``, independent of each other."""
    ends = wrap(as_node(p, float64)).cumsum(0)
    draw = uniform(sizes, 0.0, 1.0, dtype=float64, key=key) * ends[-1]
    return minimum(searchsorted(ends, draw, side="right"), searchsorted(ends, ends[-1]))


def _require(total: int, count: int, replace: bool, p: TensorLike | None) -> None:
    """Raise for what is known not to work."""
    if count and total < 1:
        raise OptionError(f"[choice] {count} of {total} things; there must be something to choose")
    if not replace and count > total:
        raise OptionError(
            f"[choice] {count} of {total} without replacement: the shape must be no larger; "
            "use replace=True"
        )
    if p is None:
        return
    if as_node(p).shape != (total,):
        raise ShapeError(
            f"[choice] p of shape {as_node(p).shape} for {total} things; give one number for each"
        )
    require_weights("choice", p, 1.0)
    values = known(p)
    possible = total if values is None else int((values > 0).sum())
    if not replace and count > possible:
        raise OptionError(
            f"[choice] {count} without replacement, but only {possible} have a probability above "
            "0; choose fewer, or use replace=True"
        )


def _index(total: int, sizes: Shape, replace: bool, p: TensorLike | None, key: Source) -> Tensor:
    """The numbers chosen; -1 where probabilities are none."""
    count = math.prod(int(size) for size in sizes)
    _require(total, count, replace, p)
    if not count:
        return zeros(sizes, dtype=int64)
    if replace and p is None:
        return randint(0, total, sizes, key=key)
    if replace and p is not None:
        index = _drawn(p, sizes, key)
    else:
        index = wrap(_order(total, p, key))[:count].reshape(sizes)
    if p is None or known(p) is not None:
        return index
    chances = wrap(as_node(p, float64))
    whole = chances.sum()
    return where((chances >= 0).all() & (whole > 0) & isfinite(whole), index, -1)


@with_synonyms
def choice(
    a: int | TensorLike,
    shape: Any = (),
    replace: bool = True,
    p: TensorLike | None = None,
    axis: int = 0,
    key: Source = None,
) -> Tensor:
    """Slices of ``a`` (or numbers below it) chosen at random, with probabilities ``p``. Without
    replacement, the largest of ``log p`` plus Gumbel noise are taken, which is as drawing one after
    the other.

    Probabilities that are a tensor need not sum to 1, and without replacement what has p = 0 comes
    last; where they are negative, NaN or sum to 0, the numbers are -1 and slices raise IndexError
    when they are computed.

    Raises:
        OptionError: for more than there are without replacement; for known probabilities that are
            negative, NaN or do not sum to 1.
        ShapeError: for probabilities that are not one for each.

    >>> choice(1, (2,)).tolist()
    [0, 0]
    """
    sizes = shape_of("choice", shape)
    if isinstance(a, int | np.integer):
        return _index(int(a), sizes, replace, p, key)
    node = as_node(a)
    place = axis_of("choice", axis, node.shape)
    total = int(node.shape[place])
    index = _index(total, sizes, replace, p, key)
    late = p is not None and known(p) is None
    if late:
        index = where(index < 0, total, index)  # an index out of range
    return wrap(take_node(node, as_node(index), place, checked=late))
