"""Random orders and choices."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from lamella import ops
from lamella.dtypes import int64, uint64
from lamella.errors import OptionError, ShapeError
from lamella.tensor.axes import axis_of, shape_of
from lamella.tensor.core import wrap
from lamella.tensor.keywords import with_synonyms
from lamella.tensor.operands import TensorLike, as_float, as_node, scalar_node
from lamella.tensor.random.continuous import gumbel, uniform
from lamella.tensor.random.discrete import randint
from lamella.tensor.random.stream import Source, bits_node

if TYPE_CHECKING:
    from lamella.ir.node import Node
    from lamella.tensor.tensor import Tensor

__all__ = ["choice", "permutation", "shuffle"]


def permutation(x: int | TensorLike, axis: int = 0, key: Source = None) -> Tensor:
    """The numbers 0 … ``x`` - 1, or the slices of ``x`` along ``axis``, in random order.

    >>> sorted(permutation(4).tolist())
    [0, 1, 2, 3]
    """
    from lamella.tensor.searching import take_node

    if isinstance(x, int):
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


@with_synonyms
def choice(
    a: int | TensorLike,
    shape: Any = (),
    replace: bool = True,
    p: TensorLike | None = None,
    axis: int = 0,
    key: Source = None,
) -> Tensor:
    """Slices of ``a`` (or numbers below it) chosen at random, with probabilities ``p`` (which need
    not sum to 1). Without replacement, the largest of ``log p`` plus Gumbel noise are taken, which
    is as drawing one after the other; what has p = 0 comes last.

    Raises:
        OptionError: for more than there are without replacement.
        ShapeError: for probabilities that are not one for each.

    >>> choice(1, (2,)).tolist()
    [0, 0]
    """
    from lamella.tensor.searching import searchsorted, take_node

    sizes = shape_of("choice", shape)
    node = None if isinstance(a, int) else as_node(a)
    place = 0 if node is None else axis_of("choice", axis, node.shape)
    total = int(a if isinstance(a, int) else node.shape[place])  # type: ignore[union-attr]
    count = math.prod(int(size) for size in sizes)
    if p is not None and as_node(p).shape != (total,):
        raise ShapeError(
            f"[choice] p of shape {as_node(p).shape} for {total} things; give one number for each"
        )
    if not replace:
        if count > total:
            raise OptionError(
                f"[choice] {count} of {total} without replacement: the shape must be no larger; "
                "use replace=True"
            )
        order = _order(total, p, key)
        index = ops.reshape(ops.slice(order, (0,), (count,)), sizes)
    elif p is None:
        index = as_node(randint(0, total, sizes, key=key))
    else:
        ends = ops.cumsum(as_float(as_node(p)), 0)
        draw = uniform(sizes, 0.0, 1.0, dtype=ends.dtype, key=key)
        top = ops.slice(ends, (total - 1,), (1,))
        scaled = ops.multiply(as_node(draw), ops.reshape(top, ()))
        index = as_node(searchsorted(wrap(ends), wrap(scaled), side="right"))
        index = ops.minimum(index, scalar_node(total - 1, int64))
    return wrap(index if node is None else take_node(node, index, place))
