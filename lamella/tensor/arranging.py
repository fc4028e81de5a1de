"""More ways to arrange elements: stacking by shape, rotating, inserting, deleting, choosing.

Input: tensors or anything :func:`lamella.asarray` takes. Output: tensors; all are compositions of
joining, slicing and choosing, and differentiable where elements are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from lamella import ops
from lamella.dtypes import int64
from lamella.errors import OptionError, ShapeError
from lamella.ir.dim import product
from lamella.ir.node import Node
from lamella.tensor.axes import axis_of, shape_of
from lamella.tensor.comparison import where
from lamella.tensor.core import wrap
from lamella.tensor.host import node_from_array
from lamella.tensor.joining import array_split, concat, promoted, stack
from lamella.tensor.keywords import with_synonyms
from lamella.tensor.manipulation import common_shape
from lamella.tensor.operands import TensorLike, as_node, cast
from lamella.tensor.searching import host, take_node

if TYPE_CHECKING:
    from lamella.tensor.tensor import Tensor

__all__ = [
    "append", "atleast_1d", "atleast_2d", "atleast_3d", "block", "choose", "column_stack",
    "compress", "delete", "dsplit", "dstack", "extract", "hsplit", "insert", "piecewise", "resize",
    "rot90", "select", "trim_zeros", "vsplit",
]  # fmt: skip


def _flat(node: Node) -> Node:
    return ops.reshape(node, (node.size,))


# -- at least so many axes -------------------------------------------------------------------------
def _grown(name: str, tensors: Sequence[TensorLike], shape: Callable[[Any], Any]) -> Any:
    nodes = [as_node(tensor) for tensor in tensors]
    found = [wrap(ops.reshape(node, shape(node.shape))) for node in nodes]
    return found[0] if len(found) == 1 else tuple(found)


def atleast_1d(*tensors: TensorLike) -> Any:
    """Each tensor with at least one axis; a tuple if there are several.

    >>> atleast_1d(3.0).shape
    (1,)
    """
    return _grown("atleast_1d", tensors, lambda shape: shape or (1,))


def atleast_2d(*tensors: TensorLike) -> Any:
    """Each tensor with at least two axes, new ones in front; a tuple if there are several.

    >>> atleast_2d([1, 2]).shape
    (1, 2)
    """
    return _grown("atleast_2d", tensors, lambda shape: (*(1,) * (2 - len(shape)), *shape))


def atleast_3d(*tensors: TensorLike) -> Any:
    """Each tensor with at least three axes: (n,) becomes (1, n, 1), (m, n) becomes (m, n, 1).

    >>> atleast_3d([1, 2]).shape
    (1, 2, 1)
    """

    def grown(shape: Any) -> Any:
        if len(shape) == 1:
            return (1, *shape, 1)
        return (*shape, *(1,) * (3 - len(shape)))

    return _grown("atleast_3d", tensors, grown)


# -- joining and splitting by shape ----------------------------------------------------------------
def dstack(tensors: Sequence[TensorLike]) -> Tensor:
    """The tensors one behind the other, along axis 2 of :func:`atleast_3d`.

    >>> dstack([[1, 2], [3, 4]]).tolist()
    [[[1, 3], [2, 4]]]
    """
    return concat([atleast_3d(wrap(node)) for node in promoted("dstack", tensors)], 2)


def column_stack(tensors: Sequence[TensorLike]) -> Tensor:
    """Vectors as columns, beside matrices.

    >>> column_stack([[1, 2], [3, 4]]).tolist()
    [[1, 3], [2, 4]]
    """
    nodes = promoted("column_stack", tensors)
    return concat([wrap(ops.reshape(n, (n.size, 1)) if n.ndim < 2 else n) for n in nodes], 1)


def _depth(part: Any) -> int:
    if not isinstance(part, list):
        return 0
    if not part:
        raise ShapeError("[block] an empty list has nothing to join; leave it out")
    depths = {_depth(inner) for inner in part}
    if len(depths) != 1:
        raise ShapeError("[block] lists are nested to different depths; nest all alike")
    return 1 + depths.pop()


def _parts(part: Any) -> list[Any]:
    if not isinstance(part, list):
        return [part]
    return [leaf for inner in part for leaf in _parts(inner)]


def block(tensors: Any) -> Tensor:
    """Nested lists of tensors joined: the innermost along the last axis, the next along the one
    before, and so on.

    >>> import lamella as lm
    >>> block([[lm.ones((1, 2)), lm.zeros((1, 1))], [lm.zeros((1, 3))]]).tolist()
    [[1.0, 1.0, 0.0], [0.0, 0.0, 0.0]]
    """

    def joined(part: Any, level: int) -> Tensor:
        if not isinstance(part, list):
            node = as_node(part)
            return wrap(ops.reshape(node, (*(1,) * (ndim - node.ndim), *node.shape)))
        return concat([joined(inner, level - 1) for inner in part], -level)

    levels = _depth(tensors)
    ndim = max(levels, *(as_node(leaf).ndim for leaf in _parts(tensors)))
    return joined(tensors, levels)


def _split(name: str, x: TensorLike, sections: Any, axis: int) -> tuple[Tensor, ...]:
    node = as_node(x)
    place = axis_of(name, axis, node.shape)
    if isinstance(sections, int) and int(node.shape[place]) % max(sections, 1):
        raise ShapeError(
            f"[{name}] axis {place} of {node.shape} does not divide into {sections} equal parts; "
            "use array_split"
        )
    return array_split(wrap(node), sections, axis=place)


def hsplit(x: TensorLike, sections: int | Sequence[int]) -> tuple[Tensor, ...]:
    """Equal parts along axis 1 (0 of a vector), or parts between positions.

    >>> [part.tolist() for part in hsplit([1, 2, 3, 4], 2)]
    [[1, 2], [3, 4]]
    """
    return _split("hsplit", x, sections, 1 if as_node(x).ndim > 1 else 0)


def vsplit(x: TensorLike, sections: int | Sequence[int]) -> tuple[Tensor, ...]:
    """Equal parts along axis 0, or parts between positions.

    >>> [part.tolist() for part in vsplit([[1], [2]], 2)]
    [[[1]], [[2]]]
    """
    return _split("vsplit", x, sections, 0)


def dsplit(x: TensorLike, sections: int | Sequence[int]) -> tuple[Tensor, ...]:
    """Equal parts along axis 2, or parts between positions.

    >>> [part.shape for part in dsplit([[[1, 2]]], 2)]
    [(1, 1, 1), (1, 1, 1)]
    """
    return _split("dsplit", x, sections, 2)


# -- order and size --------------------------------------------------------------------------------
@with_synonyms
def rot90(x: TensorLike, k: int = 1, axes: Sequence[int] = (0, 1)) -> Tensor:
    """Turned by 90 degrees ``k`` times, from the first of ``axes`` to the second.

    >>> rot90([[1, 2], [3, 4]]).tolist()
    [[2, 4], [1, 3]]
    """
    node = as_node(x)
    first, second = (axis_of("rot90", axis, node.shape) for axis in axes)
    if first == second:
        raise ShapeError(f"[rot90] axes {tuple(axes)} are the same; a plane has two")
    order = list(range(node.ndim))
    order[first], order[second] = second, first
    turns = k % 4
    if turns == 2:
        return wrap(ops.flip(node, (first, second)))
    if turns == 1:
        return wrap(ops.permute(ops.flip(node, (second,)), order))
    return wrap(ops.flip(ops.permute(node, order), (second,)) if turns else node)


def resize(x: TensorLike, new_shape: int | Sequence[int]) -> Tensor:
    """The elements in row-major order, repeated or cut to fill ``new_shape``.

    >>> resize([1, 2, 3], (2, 2)).tolist()
    [[1, 2], [3, 1]]
    """
    node, shape = as_node(x), shape_of("resize", new_shape)
    total = int(product(shape))
    if node.size == 0 or total == 0:
        return wrap(ops.full(0, shape, node.dtype))
    times = -(-total // int(node.size))
    repeated = ops.broadcast_to(ops.reshape(node, (1, node.size)), (times, node.size))
    return wrap(ops.reshape(ops.slice(_flat(repeated), (0,), (total,)), shape))


def append(x: TensorLike, values: TensorLike, axis: int | None = None) -> Tensor:
    """``values`` after ``x`` along ``axis`` (None: both flattened).

    >>> append([1, 2], [3]).tolist()
    [1, 2, 3]
    """
    return concat([x, values], axis)


def _places(name: str, obj: Any, size: int) -> np.ndarray:
    """The positions along an axis that ``obj`` (an int, a slice, several, a mask) names."""
    if isinstance(obj, slice):
        return np.arange(size)[obj]
    places = np.asarray(obj)
    if places.dtype == bool:
        return np.flatnonzero(places)
    places = places.astype(np.int64)
    if places.size and not (-size <= places.min() and places.max() <= size):
        raise ShapeError(f"[{name}] positions {obj} lie outside an axis of {size} elements")
    return np.where(places < 0, places + size, places)


def delete(x: TensorLike, obj: Any, axis: int | None = None) -> Tensor:
    """Without the elements that ``obj`` (an int, a slice, several, a mask) names along ``axis``.

    >>> delete([1, 2, 3], 1).tolist()
    [1, 3]
    """
    node = as_node(x)
    node, place = (_flat(node), 0) if axis is None else (node, axis_of("delete", axis, node.shape))
    size = int(node.shape[place])
    places = _places("delete", obj, size)
    if places.size and places.max() >= size:
        raise ShapeError(f"[delete] position {places.max()} lies outside an axis of size {size}")
    kept = np.setdiff1d(np.arange(size), places)
    return wrap(take_node(node, node_from_array(kept.astype(np.int64)), place))


def insert(x: TensorLike, obj: Any, values: TensorLike, axis: int | None = None) -> Tensor:
    """``values`` put before the elements that ``obj`` (an int or several) names along ``axis``.

    >>> insert([1, 2, 3], 1, 9).tolist()
    [1, 9, 2, 3]
    """
    node = as_node(x)
    node, place = (_flat(node), 0) if axis is None else (node, axis_of("insert", axis, node.shape))
    size = int(node.shape[place])
    places = _places("insert", obj, size)
    new = as_node(values, node.dtype)
    if places.ndim == 0:  # the first axis of values counts the slices that go there
        new = ops.reshape(new, (*(1,) * (node.ndim - new.ndim), *new.shape))
        order = [*range(1, place + 1), 0, *range(place + 1, node.ndim)]
        new = ops.permute(new, order)
        places = np.repeat(places, int(new.shape[place]))
    new = ops.broadcast_to(new, (*node.shape[:place], places.size, *node.shape[place + 1 :]))
    joined = ops.concatenate([node, new], place)
    moved = np.argsort(np.concatenate([np.arange(size) + 0.5, places]), kind="stable")
    return wrap(take_node(joined, node_from_array(moved.astype(np.int64)), place))


def trim_zeros(x: TensorLike, trim: str = "fb") -> Tensor:
    """A vector without the zeros at its front ("f") and back ("b"); looks at the values.

    >>> trim_zeros([0, 1, 0, 2, 0]).tolist()
    [1, 0, 2]
    """
    places = np.flatnonzero(host(x, "trim_zeros"))
    node = as_node(x)
    if places.size == 0:
        return wrap(ops.slice(node, (0,), (0,)))
    first = int(places[0]) if "f" in trim.lower() else 0
    last = int(places[-1]) + 1 if "b" in trim.lower() else int(node.shape[0])
    return wrap(ops.slice(node, (first,), (last - first,)))


# -- choosing --------------------------------------------------------------------------------------
def compress(condition: TensorLike, x: TensorLike, axis: int | None = None) -> Tensor:
    """The slices along ``axis`` where a vector of conditions holds; looks at the condition.

    >>> compress([True, False, True], [1, 2, 3]).tolist()
    [1, 3]
    """
    node = as_node(x)
    place = 0 if axis is None else axis_of("compress", axis, node.shape)
    node = _flat(node) if axis is None else node
    chosen = np.flatnonzero(host(condition, "compress"))
    return wrap(take_node(node, node_from_array(chosen.astype(np.int64)), place, checked=True))


def extract(condition: TensorLike, x: TensorLike) -> Tensor:
    """The elements where ``condition`` (of the same number) holds; looks at the condition.

    >>> extract([[True, False]], [[1, 2]]).tolist()
    [1]
    """
    return compress(wrap(_flat(as_node(condition))), x)


def select(
    condlist: Sequence[TensorLike], choicelist: Sequence[TensorLike], default: TensorLike = 0
) -> Tensor:
    """At each element the choice of the first condition that holds, else ``default``.

    >>> select([[True, False], [True, True]], [[1, 2], [3, 4]]).tolist()
    [1, 4]
    """
    if len(condlist) != len(choicelist) or not condlist:
        raise OptionError(
            f"[select] {len(condlist)} conditions for {len(choicelist)} choices; give one for each"
        )
    found: Any = default
    for condition, choice in zip(reversed(condlist), reversed(choicelist), strict=True):
        found = where(condition, choice, found)
    return found  # type: ignore[no-any-return]


def piecewise(
    x: TensorLike, condlist: Sequence[TensorLike], funclist: Sequence[Callable[..., Any] | float]
) -> Tensor:
    """Each function applied where its condition holds, later conditions first; one function more
    is for where none does.

    Functions are evaluated everywhere and chosen from.

    >>> piecewise([-1.0, 2.0], [[True, False], [False, True]], [lambda v: -v, 10.0]).tolist()
    [1.0, 10.0]
    """
    if len(funclist) not in (len(condlist), len(condlist) + 1):
        raise OptionError(
            f"[piecewise] {len(funclist)} functions for {len(condlist)} conditions; give one for "
            "each, and perhaps one more"
        )
    node = as_node(x)
    given = wrap(node)

    def value(function: Callable[..., Any] | float) -> Any:
        return function(given) if callable(function) else function

    more = len(funclist) > len(condlist)
    found: Any = wrap(ops.full(0, node.shape, node.dtype))
    if more:
        found = where(True, value(funclist[-1]), found)
    for condition, function in zip(condlist, funclist, strict=False):
        found = where(condition, value(function), found)
    return wrap(cast(as_node(found), node.dtype))


def choose(x: TensorLike, choices: Sequence[TensorLike], mode: str = "raise") -> Tensor:
    """``choices[x[i]][i]`` at each element; ``mode`` "wrap" counts on in circles, "clip" stays
    inside, "raise" is an error (when computed).

    >>> choose([1, 0], [[1, 2], [3, 4]]).tolist()
    [3, 2]
    """
    if mode not in ("raise", "wrap", "clip"):
        raise OptionError(f"[choose] no mode {mode!r}; use 'raise', 'wrap' or 'clip'")
    nodes = promoted("choose", choices)
    place = cast(as_node(x), int64)
    shape = common_shape("choose", place.shape, *(node.shape for node in nodes))
    table = as_node(stack([wrap(ops.broadcast_to(node, shape)) for node in nodes]))
    count = ops.constant(len(nodes), int64)
    if mode == "wrap":
        place = ops.remainder(place, count)
    elif mode == "clip":
        last = ops.constant(len(nodes) - 1, int64)
        place = ops.minimum(ops.maximum(place, ops.constant(0, int64)), last)
    index = ops.reshape(ops.broadcast_to(place, shape), (1, *shape))
    return wrap(ops.reshape(ops.take_along_axis(table, index, 0), shape))
