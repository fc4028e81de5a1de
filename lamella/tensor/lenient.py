"""Reading outside an axis on purpose: indices wrapped around or clipped to it, or elements filled
in.

Input: a tensor and indices. Output: elements. Without a mode an index outside its axis is an error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from lamella import ops
from lamella.dtypes import DType, int64
from lamella.errors import LamellaIndexError, OptionError, did_you_mean
from lamella.ir.dim import Size
from lamella.ir.node import Node
from lamella.ops.validate import require_integer
from lamella.tensor.core import TensorCore, node_of, wrap
from lamella.tensor.host import integer_range
from lamella.tensor.indexing import read
from lamella.tensor.operands import as_node, cast, count_node, scalar_node
from lamella.tensor.subscript import Subscript, entries_of, parse

if TYPE_CHECKING:
    from lamella.tensor.tensor import Tensor

__all__ = ["brought_inside", "clipped", "getitem_outside", "wrapped"]

_MODES: Final = ("clip", "drop", "fill", "promise_in_bounds")


def clipped(name: str, index: Node, size: Size) -> Node:
    """The nearest position in ``[0, size)``.

    Raises:
        LamellaIndexError: for an axis of size 0.
    """
    _require_some(name, index, size)
    last = ops.subtract(count_node((size,), int64), scalar_node(1, int64))
    least = ops.maximum(cast(index, int64), scalar_node(0, int64))
    return ops.minimum(least, last)


def wrapped(name: str, index: Node, size: Size) -> Node:
    """The position modulo ``size``; errors as :func:`clipped`."""
    _require_some(name, index, size)
    return ops.remainder(cast(index, int64), count_node((size,), int64))


def brought_inside(name: str, index: Node, size: Size, mode: str) -> Node:
    """Positions in ``[0, size)`` for integers: NumPy's modes "wrap" and "clip".

    Raises:
        OptionError: for another mode.
        DTypeError: for what are no integers.
        LamellaIndexError: for an axis of size 0.
    """
    if mode not in ("wrap", "clip"):
        raise OptionError(
            f"[{name}] no mode {mode!r:.40}; {did_you_mean(str(mode), ('raise', 'wrap', 'clip'))}"
        )
    require_integer(name, index)
    return (wrapped if mode == "wrap" else clipped)(name, index, size)


def _require_some(name: str, index: Node, size: Size) -> None:
    if size == 0 and index.size != 0:
        raise LamellaIndexError(
            f"[{name}] indices of shape {index.shape} into an axis of size 0, which has no "
            "element; index an axis that has some, or pass no index"
        )


def _no_element(dtype: DType) -> Any:
    """What stands for an element that is not there, in JAX."""
    if dtype.kind in "iu":
        return integer_range(dtype)[dtype.kind == "u"]
    return True if dtype.kind == "b" else float("nan")


def getitem_outside(x: TensorCore, subscript: object, mode: str, fill_value: Any) -> Tensor:
    """``x[subscript]`` with indices outside their axis clipped ("clip") or their elements filled in
    ("fill", "drop"); negative ones count from the end first.

    Raises:
        OptionError: for another mode.
        LamellaIndexError: for an axis of size 0, which has nothing to clip to.

    >>> import lamella as lm
    >>> getitem_outside(lm.arange(3), [-1, 7], "clip", None).tolist()
    [2, 2]
    """
    if mode not in _MODES:
        raise OptionError(f"[at.get] no mode {mode!r:.40}; {did_you_mean(str(mode), _MODES)}")
    node = node_of(x)
    entries: list[Any] = []
    inside: list[Node] = []
    axis = 0
    for entry, taken in entries_of(subscript, node.shape):
        if _is_index(entry):
            place, fine = _placed(as_node(entry, int64), node.shape[axis])
            inside.append(fine)
            entry = wrap(place)
        entries.append(entry)
        axis += taken
    found = parse(tuple(entries), node.shape)
    read_node = read(node, found)
    if mode == "clip" or not inside:
        return wrap(read_node)
    value = _no_element(node.dtype) if fill_value is None else fill_value
    return wrap(
        ops.where(_where(inside, found, read_node), read_node, as_node(value, node.dtype))
    )


def _is_index(entry: Any) -> bool:
    """Whether an entry is an integer, or an array of them."""
    if entry is None or entry is Ellipsis or isinstance(entry, slice):
        return False
    return isinstance(entry, int) or entry.dtype.kind in "iu"


def _placed(index: Node, size: Size) -> tuple[Node, Node]:
    """The nearest position inside, and whether it is the one that was meant."""
    count = count_node((size,), int64)
    negative = ops.less(index, scalar_node(0, int64))
    index = ops.where(negative, ops.add(index, count), index)
    place = clipped("at.get", index, size)
    return place, ops.equal(place, index)


def _where(inside: list[Node], found: Subscript, result: Node) -> Node:
    """Which elements of the result are there."""
    fine = inside[0]
    for other in inside[1:]:
        fine = ops.logical_and(fine, other)
    shape = (*fine.shape, *(1,) * (result.ndim - found.front - fine.ndim))
    return ops.broadcast_to(ops.reshape(fine, shape), result.shape)
