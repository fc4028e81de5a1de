"""Reading and assigning ``x[...]`` with NumPy's meaning, on values that are never aliased.

``x[i] = v`` gives ``x`` a new value; other tensors made from ``x`` keep theirs. ``x.at[i].add(v)``
and its sisters return a new tensor, in which repeated indices accumulate (``x[i] += v`` counts a
repeated index once, as in NumPy). Boolean masks are looked into, so their result has a known shape;
assigning one number through a mask is not.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

from lamella import ops
from lamella.dtypes import int64
from lamella.errors import ShapeError
from lamella.ir.dim import Shape
from lamella.ir.node import Node, make
from lamella.ops.leaf import SCALAR
from lamella.ops.movement import Reshape
from lamella.ops.slicing import Slice
from lamella.tensor.core import TensorCore, node_of, wrap
from lamella.tensor.deferring import Forms, of_form
from lamella.tensor.naming import by_name
from lamella.tensor.operands import TensorLike, as_node, cast, scalar_node
from lamella.tensor.pending import traces
from lamella.tensor.subscript import Subscript, is_single_mask, parse, regions

if TYPE_CHECKING:
    from lamella.tensor.tensor import Tensor

__all__ = ["At", "assign", "assigned", "getitem", "setitem"]

Mode = Literal["set", "add", "mul", "max", "min"]
_COMBINE: Final = {
    "set": lambda old, new: ops.broadcast_to(new, old.shape),
    "add": lambda old, new: ops.add(old, new),
    "mul": lambda old, new: ops.multiply(old, new),
    "max": lambda old, new: ops.maximum(old, new),
    "min": lambda old, new: ops.minimum(old, new),
}


def _region(x: Node, found: Subscript) -> Node:
    """The elements of the region, in the shape of ``found``."""
    if found.flips:
        x = ops.flip(x, found.flips)
    region = ops.slice(x, found.starts, found.sizes, found.strides)
    if found.back:
        region = ops.flip(region, found.back)
    return ops.reshape(region, found.shape)


def _moved(ndim: int, inner: int, front: int) -> list[int]:
    """The order of axes that moves ``inner`` leading ones behind ``front`` others."""
    others = list(range(inner, ndim))
    return [*others[:front], *range(inner), *others[front:]]


def read(x: Node, found: Subscript) -> Node:
    """The node of ``x[...]``."""
    region = _region(x, found)
    if not found.arrays:
        return region
    chosen = ops.gather_nd(region, found.arrays, found.axes, found.checked)
    inner = chosen.ndim - (region.ndim - len(found.axes))
    return ops.permute(chosen, _moved(chosen.ndim, inner, found.front))


def getitem(x: TensorLike, subscript: object) -> Tensor:
    """``x[subscript]``, with NumPy's meaning.

    Raises:
        LamellaIndexError: for an integer or host array out of range, here; for a tensor of indices,
            when computed.

    >>> getitem([[1, 2], [3, 4]], (slice(None), 0)).tolist()
    [1, 3]
    """
    if isinstance(x, TensorCore):
        known = _known(x, subscript)
        if known is not None:
            return wrap(known)
    node = as_node(x)
    if isinstance(subscript, dict):
        subscript = by_name(wrap(node), subscript)
    if type(subscript) is int and _is_row(node.shape, subscript):
        return wrap(_row(node, _row_start(node.shape, subscript)))
    return wrap(read(node, parse(subscript, node.shape)))


_forms: Final = Forms()


def _known(x: TensorCore, subscript: object) -> Node | None:
    """``x[...]`` of integers, slices and tensors of integers as one node, once there was one of
    its sizes.
    """
    if traces:
        return None
    shape = x.node.shape
    if type(subscript) is int and _is_row(shape, subscript):
        start = _row_start(shape, subscript)
        key = ("row",)
        return of_form(_forms, key, (x,), (start,), lambda nodes, at: _row(nodes[0], at[0]))
    entries = subscript if type(subscript) is tuple else (subscript,)
    found = regions(entries, shape)
    if found is None:
        return None

    def build(nodes: Sequence[Node], starts: Sequence[Node]) -> Node:
        return read(nodes[0], found.parse(entries, shape, nodes[1:], starts))

    return of_form(_forms, (*found.pattern,), (x, *found.arrays), found.starts, build)


_RESHAPE: Final = Reshape()
_START: Final = ops.constant(0, int64)


def _is_row(shape: Shape, i: int) -> bool:
    """Whether nothing about ``x[i]`` is out of the ordinary."""
    size = shape[0] if shape else 1
    return isinstance(size, int) and size != 1 and -size <= i < size


def _row_start(shape: Shape, i: int) -> Node:
    start = Node(SCALAR, (), (), int64)
    start.value = i + shape[0] if i < 0 else i
    return start


def _row(x: Node, start: Node) -> Node:
    """``x[i]`` recorded directly, where it :func:`_is_row`."""
    rest, ndim = x.shape[1:], len(x.shape)
    inputs = (x, start, *(_START,) * (ndim - 1))
    return make(_RESHAPE, (make(_ones(ndim), inputs, (1, *rest), x.dtype),), rest, x.dtype)


@functools.cache
def _ones(ndim: int) -> Slice:
    return Slice((1,) * ndim)


# -- assigning -------------------------------------------------------------------------------------
def _fitted(value: Node, shape: Shape) -> Node:
    """``value`` broadcast to the result's shape; leading axes of size 1 too many are dropped."""
    while value.ndim > len(shape) and value.shape[0] == 1:
        value = ops.reshape(value, value.shape[1:])
    offset = len(shape) - value.ndim
    if offset < 0 or any(s not in (1, shape[a + offset]) for a, s in enumerate(value.shape)):
        raise ShapeError(
            f"[assign] a value of shape {value.shape} does not broadcast to {shape}, the shape of "
            "the elements "
            "assigned; reshape it, or assign to others"
        )
    return ops.broadcast_to(value, shape)


def _put_back(x: Node, region: Node, found: Subscript) -> Node:
    """``x`` with its region replaced."""
    region = ops.reshape(region, found.sizes)
    if found.back:
        region = ops.flip(region, found.back)
    if found.flips:
        flipped = ops.update_slice(ops.flip(x, found.flips), region, found.starts, found.strides)
        return ops.flip(flipped, found.flips)
    return ops.update_slice(x, region, found.starts, found.strides)


def _value_node(value: TensorLike, x: Node) -> Node:
    if isinstance(value, bool | int | float):
        return scalar_node(value, x.dtype, "assign")
    return as_node(value, x.dtype)


def _masked(x: Node, mask: Node, value: Node, mode: Mode) -> Node:
    """``x`` with one number assigned where a mask over its leading axes holds."""
    mask = ops.reshape(mask, (*mask.shape, *(1,) * (x.ndim - mask.ndim)))
    return ops.where(ops.broadcast_to(mask, x.shape), _COMBINE[mode](x, value), x)


def assign(x: Node, subscript: object, value: TensorLike, mode: Mode = "set") -> Node:
    """The node of ``x`` with the elements at ``subscript`` set to, or combined with, ``value``.

    Raises:
        ShapeError: if ``value`` does not broadcast to the elements.
        LamellaIndexError, DTypeError: as for reading.
    """
    new = _value_node(value, x)
    if new.ndim == 0 and is_single_mask(subscript, x.shape):
        mask = subscript[0] if isinstance(subscript, tuple) else subscript
        return _masked(x, as_node(mask), new, mode)  # type: ignore[arg-type]
    return _replaced(x, parse(subscript, x.shape), new, mode)


def _replaced(x: Node, found: Subscript, new: Node, mode: Mode) -> Node:
    """``x`` with the elements that were found set to, or combined with, ``new``."""
    if not found.arrays:
        fitted = _fitted(new, tuple(found.shape))
        if mode != "set":
            fitted = _COMBINE[mode](_region(x, found), fitted)
        return _put_back(x, fitted, found)
    region = _region(x, found)
    shape = found.result_shape()
    inner = len(shape) - (len(found.shape) - len(found.axes))
    order = _moved(len(shape), inner, found.front)
    updates = ops.permute(_fitted(new, shape), [order.index(axis) for axis in range(len(shape))])
    region = ops.scatter_nd(region, found.arrays, found.axes, updates, mode, found.checked)
    return _put_back(x, region, found)


_assignments: Final = Forms()
_NUMBERS: Final = (bool, int, float)


def assigned(x: TensorCore, subscript: object, value: TensorLike, mode: Mode = "set") -> Node:
    """As :func:`assign`, recorded as one node once there was an assignment of its sizes."""
    if not traces:
        if isinstance(value, np.ndarray):
            value = wrap(as_node(value))
        known = _known_assignment(x, subscript, value, mode)
        if known is not None:
            return known
    return assign(node_of(x), subscript, value, mode)


def _known_assignment(
    x: TensorCore, subscript: object, value: TensorLike, mode: Mode
) -> Node | None:
    shape, dtype = x.node.shape, x.node.dtype
    values: list[TensorCore] = []
    numbers: list[Node] = []
    if isinstance(value, TensorCore):
        values.append(value)
    elif type(value) in _NUMBERS and dtype.kind != "c":
        numbers.append(scalar_node(value, dtype, "assign"))  # type: ignore[arg-type]
    else:
        return None
    entries = subscript if type(subscript) is tuple else (subscript,)
    mask = entries[0] if len(entries) == 1 else None
    if numbers and isinstance(mask, TensorCore) and is_single_mask(mask, shape):

        def masked(nodes: Sequence[Node], numbers: Sequence[Node]) -> Node:
            return _masked(nodes[0], nodes[1], numbers[0], mode)

        return of_form(_assignments, (mode, "mask"), (x, mask), numbers, masked)
    found = regions(entries, shape)
    if found is None:
        return None

    def build(nodes: Sequence[Node], numbers: Sequence[Node]) -> Node:
        arrays = nodes[1 + len(values) :]
        new = cast(nodes[1], dtype) if values else numbers[-1]
        return _replaced(nodes[0], found.parse(entries, shape, arrays, numbers), new, mode)

    key = (mode, len(values), *found.pattern)
    given = (x, *values, *found.arrays)
    return of_form(_assignments, key, given, [*found.starts, *numbers], build)


def setitem(x: TensorCore, subscript: object, value: TensorLike) -> None:
    """``x[subscript] = value``: ``x`` stands for a new value from now on.

    >>> import lamella as lm
    >>> x = lm.zeros(3)
    >>> setitem(x, 1, 5.0)
    >>> x.tolist()
    [0.0, 5.0, 0.0]
    """
    x.rebind(assigned(x, subscript, value))


class At:
    """``x.at``: ``x.at[i].add(v)`` is a new tensor like ``x`` with elements changed; ``x`` stays.

    >>> import lamella as lm
    >>> lm.zeros(3).at[[0, 0, 2]].add(1.0).tolist()
    [2.0, 0.0, 1.0]
    """

    __slots__ = ("_subscript", "_tensor")

    def __init__(self, tensor: TensorCore, subscript: object = ...) -> None:
        self._tensor = tensor
        self._subscript = subscript

    def __getitem__(self, subscript: object) -> At:
        return At(self._tensor, subscript)

    def _apply(self, value: TensorLike, mode: Mode) -> Tensor:
        return wrap(assigned(self._tensor, self._subscript, value, mode))

    def get(self, mode: str | None = None, fill_value: Any = None) -> Tensor:
        """The elements.

        Args:
            mode: what an index outside its axis is: an error (None, "promise_in_bounds"), the
                nearest one inside ("clip"), or a place where ``fill_value`` is ("fill", "drop").
            fill_value: by default NaN, the least signed or largest unsigned integer, True.

        Raises:
            OptionError: for another mode.

        >>> import lamella as lm
        >>> lm.arange(3).at[[1, 7]].get(mode="fill", fill_value=-1).tolist()
        [1, -1]
        """
        from lamella.tensor.lenient import getitem_outside

        if mode in (None, "promise_in_bounds"):
            return getitem(self._tensor, self._subscript)
        return getitem_outside(self._tensor, self._subscript, mode, fill_value)

    def apply(self, function: Callable[[Tensor], TensorLike]) -> Tensor:
        """With the elements replaced by ``function`` of them, once however often an index is
        repeated.

        >>> import lamella as lm
        >>> lm.asarray([1.0, 4.0]).at[1].apply(lm.sqrt).tolist()
        [1.0, 2.0]
        """
        return self.set(function(self.get()))

    def set(self, value: TensorLike) -> Tensor:
        """With the elements replaced; of repeated indices the last wins."""
        return self._apply(value, "set")

    def add(self, value: TensorLike) -> Tensor:
        """With ``value`` added; repeated indices accumulate."""
        return self._apply(value, "add")

    def subtract(self, value: TensorLike) -> Tensor:
        """With ``value`` subtracted, as often as an index is repeated."""
        return self._apply(wrap(ops.negative(_value_node(value, node_of(self._tensor)))), "add")

    def multiply(self, value: TensorLike) -> Tensor:
        """With the elements multiplied by ``value``, as often as an index is repeated."""
        return self._apply(value, "mul")

    mul = multiply

    def divide(self, value: TensorLike) -> Tensor:
        """With the elements divided by the product of their values, integers as floats."""
        from lamella.tensor.elementwise import divide

        return divide(self._tensor, self._product(value))

    def power(self, value: TensorLike) -> Tensor:
        """With the elements raised to the product of their values."""
        from lamella.tensor.elementwise import pow

        return pow(self._tensor, self._product(value))

    def _product(self, value: TensorLike) -> Tensor:
        """The product of the values of each element, 1 where there is none."""
        node = node_of(self._tensor)
        ones = ops.full(1, node.shape, node.dtype)
        return wrap(assign(ones, self._subscript, value, "mul"))

    def max(self, value: TensorLike) -> Tensor:
        """With the larger of element and ``value``."""
        return self._apply(value, "max")

    def min(self, value: TensorLike) -> Tensor:
        """With the smaller of element and ``value``."""
        return self._apply(value, "min")
