"""New tensors: from data, filled, counted, and like others.

``dtype`` defaults to float32 for what is made of real numbers, to int64 for whole ones; NumPy
arrays keep theirs. ``device`` may be given and must be "cpu". Filled tensors cost no memory until
they are needed as a whole.
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, overload

import numpy as np

from lamella import ops
from lamella.dtypes import DType, as_dtype, default_float, float64, int64
from lamella.errors import DTypeError, ExchangeError, OptionError, ShapeError
from lamella.ir.dim import Dim, Shape
from lamella.ir.node import Node
from lamella.ops.leaf import SCALAR
from lamella.tensor.axes import shape_of
from lamella.tensor.core import TensorCore, check_device, node_of, wrap
from lamella.tensor.deferring import Forms, deferring, of_form
from lamella.tensor.gradient import require_grad
from lamella.tensor.host import check_depth, node_from_data, python_dtype
from lamella.tensor.joining import stack
from lamella.tensor.keywords import with_synonyms
from lamella.tensor.manipulation import common_shape, moveaxis
from lamella.tensor.operands import TensorLike, as_node, cast, scalar_node
from lamella.tensor.ranges import check_counted, check_range, count
from lamella.tensor.symbolic import is_symbolic

if TYPE_CHECKING:
    from lamella.tensor.tensor import Tensor

__all__ = [
    "arange", "array", "as_tensor", "asanyarray", "asarray", "ascontiguousarray", "empty",
    "empty_like", "eye", "from_numpy", "full", "full_like", "linspace", "logspace", "meshgrid",
    "ones", "ones_like", "tensor", "zeros", "zeros_like",
]  # fmt: skip

Number = bool | int | float | complex


def _finish(node: Node, requires_grad: bool, device: object = None) -> Tensor:
    return _finished(wrap(node), requires_grad, device)


def _finished(made: Tensor, requires_grad: bool, device: object) -> Tensor:
    check_device(device)
    if requires_grad:
        require_grad(made)
    return made


def _has_tensors(data: object, depth: int = 0) -> bool:
    if isinstance(data, TensorCore):
        return True
    if not isinstance(data, list | tuple):
        return False
    check_depth(depth)
    return any(_has_tensors(item, depth + 1) for item in data)


def _from_data(data: Any, dtype: DType | None, copy: bool | None) -> Node:
    if isinstance(data, TensorCore):
        node = node_of(data)
        return node if dtype is None else cast(node, dtype)
    if isinstance(data, list | tuple) and _has_tensors(data):
        parts: list[Any] = [wrap(_from_data(item, dtype, copy)) for item in data]
        return node_of(stack(parts))
    if type(data) is Dim:
        data = data.number()
    if is_symbolic(data):
        return scalar_node(data, dtype or python_dtype(data), "tensor")
    if hasattr(data, "__dlpack__") and not isinstance(data, np.ndarray | np.generic):
        from lamella.tensor.dlpack import node_from_dlpack

        node = node_from_dlpack(data, copy)
        return node if dtype is None else cast(node, dtype)
    return node_from_data(data, dtype, bool(copy))


def tensor(
    data: Any, dtype: object = None, requires_grad: bool = False, device: object = None
) -> Tensor:
    """A tensor with a copy of ``data``: a number, nested lists, an array, a tensor.

    Args:
        data: Python floats become float32, integers int64; arrays keep their element type.
        dtype: the element type instead.
        requires_grad: make it a leaf that ``backward()`` gives a gradient.
        device: "cpu".

    Raises:
        ShapeError: for ragged lists. DTypeError: for what is no number.

    >>> tensor([[1, 2], [3, 4]]).shape, tensor(1.5).dtype
    ((2, 2), lamella.float32)
    """
    wanted = None if dtype is None else as_dtype(dtype)
    from lamella.tensor.gradient import detached_node

    return _finish(detached_node(_from_data(data, wanted, copy=True)), requires_grad, device)


def asarray(
    data: Any, dtype: object = None, device: object = None, copy: bool | None = None
) -> Tensor:
    """A tensor with the value of ``data``, sharing its memory where possible.

    A C-contiguous NumPy array, or what speaks DLPack, is shared: change it afterwards and results
    not yet computed change too. ``copy=True`` (or :func:`tensor`) copies, ``copy=False`` never
    does. A tensor is returned as it is.

    Raises:
        ShapeError: for ragged lists. DTypeError: for what is no number. ExchangeError: with
            ``copy=False``, for what only a copy can be made of.

    >>> asarray(np.arange(6.0).reshape(2, 3)).dtype
    lamella.float64
    """
    wanted = None if dtype is None else as_dtype(dtype)
    if isinstance(data, TensorCore) and not copy and (wanted is None or data.dtype is wanted):
        return data  # type: ignore[return-value]
    node = _from_data(data, wanted, copy)
    if copy is False and not _shares(node, data):
        raise ExchangeError(
            f"[asarray] copy=False of a {type(data).__name__}, which only a copy can be made of as "
            f"{node.dtype.name}{list(node.shape)}; leave copy out, or give a C-contiguous array of "
            "that element type"
        )
    return _finish(node, False, device)


def _shares(node: Node, data: Any) -> bool:
    """Whether ``node``, made of ``data``, is a view of its memory."""
    if isinstance(data, np.ndarray):
        return getattr(node.value, "ptr", None) == data.ctypes.data
    exchanged = hasattr(data, "__dlpack__") and not isinstance(data, np.generic)
    return exchanged and node.value is not None


as_tensor = asanyarray = ascontiguousarray = asarray
array = tensor


def from_numpy(array: Any) -> Tensor:
    """PyTorch's name of :func:`asarray` for NumPy arrays.

    >>> from_numpy(np.zeros(2)).shape
    (2,)
    """
    return asarray(array)


# -- filled ----------------------------------------------------------------------------------------
_constants: Final = Forms()
_numbers: Final = Forms()


def _constant(value: int, shape: Shape, kind: DType) -> Tensor:
    """A number, which programs know, in a shape."""

    def build(*_: Sequence[Node]) -> Node:
        return ops.full(value, shape, kind)

    known = of_form(_constants, (value, shape, kind.name), (), (), build)
    return wrap(build() if known is None else known)


def _filled(value: Number, shape: Shape, kind: DType, name: str) -> Tensor:
    """A number, an argument of programs, in a shape."""
    number = scalar_node(value, kind, name)

    def build(_: Sequence[Node], numbers: Sequence[Node]) -> Node:
        return ops.broadcast_to(numbers[0], shape)

    known = None
    if number.op is SCALAR:  # complex numbers are pairs
        known = of_form(_numbers, (shape, kind.name), (), (number,), build)
    return wrap(build((), (number,)) if known is None else known)


@with_synonyms
def zeros(
    shape: Any,
    *sizes: int,
    dtype: object = None,
    requires_grad: bool = False,
    device: object = None,
) -> Tensor:
    """Zeros of ``shape``, given as one sequence or as sizes; float32 by default.

    >>> zeros(2, 3).shape, zeros((2,)).tolist()
    ((2, 3), [0.0, 0.0])
    """
    kind = default_float() if dtype is None else as_dtype(dtype)
    made = _constant(0, shape_of("zeros", shape, *sizes), kind)
    return _finished(made, requires_grad, device)


@with_synonyms
def ones(
    shape: Any,
    *sizes: int,
    dtype: object = None,
    requires_grad: bool = False,
    device: object = None,
) -> Tensor:
    """Ones of ``shape``, given as one sequence or as sizes; float32 by default.

    >>> ones(2).tolist()
    [1.0, 1.0]
    """
    kind = default_float() if dtype is None else as_dtype(dtype)
    made = _constant(1, shape_of("ones", shape, *sizes), kind)
    return _finished(made, requires_grad, device)


@with_synonyms
def empty(
    shape: Any,
    *sizes: int,
    dtype: object = None,
    requires_grad: bool = False,
    device: object = None,
) -> Tensor:
    """A tensor of ``shape`` whose values do not matter: zeros.

    >>> empty(2).shape
    (2,)
    """
    return zeros(
        shape_of("empty", shape, *sizes), dtype=dtype, requires_grad=requires_grad, device=device
    )


@with_synonyms
def full(
    shape: Any,
    fill_value: TensorLike,
    dtype: object = None,
    requires_grad: bool = False,
    device: object = None,
) -> Tensor:
    """``fill_value`` everywhere; the number is an argument of programs, so changing it compiles
    nothing.

    >>> full((2,), 7).tolist()
    [7, 7]
    """
    sizes = shape_of("full", shape)
    if isinstance(fill_value, Number):
        kind = python_dtype(fill_value) if dtype is None else as_dtype(dtype)
        return _finished(_filled(fill_value, sizes, kind, "full"), requires_grad, device)
    node = as_node(fill_value, None if dtype is None else as_dtype(dtype))
    return _finish(ops.broadcast_to(node, sizes), requires_grad, device)


def _like(x: TensorLike, dtype: object, shape: Any) -> tuple[Shape, DType]:
    node = as_node(x)
    sizes = node.shape if shape is None else shape_of("shape", shape)
    return sizes, node.dtype if dtype is None else as_dtype(dtype)


@with_synonyms
def zeros_like(
    x: TensorLike, dtype: object = None, requires_grad: bool = False, device: object = None, *,
    shape: Any = None,
) -> Tensor:  # fmt: skip
    """Zeros of the shape (unless given) and element type of ``x``.

    >>> zeros_like([1, 2]).tolist()
    [0, 0]
    """
    sizes, kind = _like(x, dtype, shape)
    return _finished(_constant(0, sizes, kind), requires_grad, device)


@with_synonyms
def ones_like(
    x: TensorLike, dtype: object = None, requires_grad: bool = False, device: object = None, *,
    shape: Any = None,
) -> Tensor:  # fmt: skip
    """Ones of the shape (unless given) and element type of ``x``.

    >>> ones_like([3, 4]).tolist()
    [1, 1]
    """
    sizes, kind = _like(x, dtype, shape)
    return _finished(_constant(1, sizes, kind), requires_grad, device)


empty_like = zeros_like


@with_synonyms
def full_like(
    x: TensorLike, fill_value: Number, dtype: object = None, requires_grad: bool = False, device:
    object = None, *, shape: Any = None,
) -> Tensor:  # fmt: skip
    """``fill_value`` in the shape (unless given) and element type of ``x``.

    >>> full_like([3, 4], 9).tolist()
    [9, 9]
    """
    sizes, kind = _like(x, dtype, shape)
    return _finished(_filled(fill_value, sizes, kind, "full_like"), requires_grad, device)


@with_synonyms
def eye(
    n: int, m: int | None = None, k: int = 0, dtype: object = None, device: object = None
) -> Tensor:
    """Ones on diagonal ``k`` of an ``n`` × ``m`` matrix, zeros elsewhere.

    >>> eye(2).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    check_device(device)
    return _diagonal(n, m, k, default_float() if dtype is None else as_dtype(dtype))


@deferring
def _diagonal(n: int, m: int | None, k: int, kind: DType) -> Tensor:
    sizes = shape_of("eye", n, n if m is None else m)
    rows, columns = (size if isinstance(size, int) else 2**62 for size in sizes)
    offset = min(max(k, -rows), columns)  # beyond, there is no diagonal either
    edge = ops.add(ops.iota(sizes, 0, int64), scalar_node(offset, int64))
    return wrap(cast(ops.equal(ops.iota(sizes, 1, int64), edge), kind))


# -- counted ---------------------------------------------------------------------------------------
@with_synonyms
def arange(
    start: float,
    stop: float | None = None,
    step: float = 1,
    dtype: object = None,
    requires_grad: bool = False,
    device: object = None,
) -> Tensor:
    """``start``, ``start + step`` … below ``stop``; of integers int64, else float32.

    Raises:
        OptionError: for a step of 0, an endless range, or numbers that ``dtype`` cannot hold.
        DTypeError: for what is no number.

    >>> arange(3).tolist(), arange(1, 10, 4).tolist()
    ([0, 1, 2], [1, 5, 9])
    """
    if stop is None:
        start, stop = 0, start
    start, stop, step = (v.item() if hasattr(v, "item") else v for v in (start, stop, step))
    check_range(start, stop, step)
    whole = all(isinstance(v, int | Dim) for v in (start, stop, step))
    kind = (int64 if whole else default_float()) if dtype is None else as_dtype(dtype)
    size = count(start, stop, step)
    check_counted(kind, start, step, size)
    if whole:
        work = int64
    else:
        work = float64 if kind.kind == "f" and kind.bits >= 32 else default_float()
    node = ops.iota((size,), 0, work)
    if step != 1:
        node = ops.multiply(node, scalar_node(step, work))
    if start != 0:
        node = ops.add(node, as_node(start, work))
    return _finish(cast(node, kind), requires_grad, device)


@overload
def linspace(
    start: TensorLike, stop: TensorLike, num: int = 50, endpoint: bool = True,
    dtype: object = None, device: object = None, *, retstep: Literal[False] = False, axis: int = 0,
) -> Tensor: ...  # fmt: skip


@overload
def linspace(
    start: TensorLike, stop: TensorLike, num: int = 50, endpoint: bool = True,
    dtype: object = None, device: object = None, *, retstep: Literal[True], axis: int = 0,
) -> tuple[Tensor, Tensor]: ...  # fmt: skip


@with_synonyms
def linspace(
    start: TensorLike, stop: TensorLike, num: int = 50, endpoint: bool = True,
    dtype: object = None, device: object = None, *, retstep: bool = False, axis: int = 0,
) -> Tensor | tuple[Tensor, Tensor]:  # fmt: skip
    """``num`` evenly spaced numbers from ``start`` to ``stop`` (inclusive, unless ``endpoint`` is
    False).

    Args:
        start: a real number, or a tensor of them, which broadcasts with ``stop``.
        stop: likewise.
        num: how many.
        endpoint: whether ``stop`` is the last of them.
        dtype: by default float32.
        device: "cpu".
        retstep: return ``(numbers, step)``; of a single number with its end the step is NaN.
        axis: where in the result the numbers of tensors lie.

    Raises:
        DTypeError: for complex ends. ShapeError: if the ends do not broadcast.

    >>> linspace(0.0, 1.0, 5).tolist()
    [0.0, 0.25, 0.5, 0.75, 1.0]
    >>> linspace([0, 10], [1, 20], 3, axis=-1).tolist()
    [[0.0, 0.5, 1.0], [10.0, 15.0, 20.0]]
    """
    kind = default_float() if dtype is None else as_dtype(dtype)
    first, last = _ends("linspace", start, stop)
    (size,) = shape_of("linspace", num)
    between = max(int(size) - (1 if endpoint else 0), 1)
    shape = (size, *(1,) * first.ndim)
    place = ops.reshape(ops.iota((size,), 0, float64), shape)
    rise = ops.divide(ops.subtract(last, first), scalar_node(between, float64))
    rows = (size, *first.shape)
    place, rises, firsts, lasts = (ops.broadcast_to(n, rows) for n in (place, rise, first, last))
    node = ops.add(ops.multiply(place, rises), firsts)
    if endpoint and size not in (0, 1):
        node = ops.where(ops.equal(place, scalar_node(between, float64)), lasts, node)
    found = _finish(cast(node, kind), False, device)
    if axis:
        found = moveaxis(found, 0, axis)
    if not retstep:
        return found
    one = size <= (1 if endpoint else 0)
    return found, wrap(ops.full(math.nan, rise.shape, kind) if one else cast(rise, kind))


def _ends(name: str, start: TensorLike, stop: TensorLike) -> tuple[Node, Node]:
    """The ends of ranges as float64 nodes of one shape."""
    for end in (start, stop):
        if isinstance(end, builtins.complex) or getattr(
            getattr(end, "dtype", None), "kind", ""
        ) == "c":
            raise DTypeError(
                f"[{name}] from {start} to {stop}: ends are real; make both parts and join them "
                "with lm.complex(real, imag)"
            )
    first, last = as_node(start, float64), as_node(stop, float64)
    shape = common_shape(name, first.shape, last.shape)
    return ops.broadcast_to(first, shape), ops.broadcast_to(last, shape)


@with_synonyms
def logspace(
    start: TensorLike, stop: TensorLike, num: int = 50, base: float = 10.0, dtype: object = None, *,
    endpoint: bool = True, axis: int = 0,
) -> Tensor:  # fmt: skip
    """``base`` to the powers ``linspace(start, stop, num)``, whose options these are.

    >>> logspace(0, 2, 3).tolist()
    [1.0, 10.0, 100.0]
    """
    kind = default_float() if dtype is None else as_dtype(dtype)
    powers = as_node(linspace(start, stop, num, endpoint, float64, axis=axis))
    return wrap(cast(ops.pow(scalar_node(base, float64), powers), kind))


def meshgrid(
    *axes: TensorLike, copy: bool = True, sparse: bool = False, indexing: str = "xy"
) -> list[Tensor]:
    """Vectors broadcast against each other; "ij" keeps their order, "xy" swaps the first two axes.

    With ``sparse`` they keep size 1 along the axes of the others, against which they broadcast.
    ``copy`` is NumPy's and makes no difference: tensors share memory without it being seen.

    Raises:
        OptionError: for another indexing. ShapeError: for what is no vector.

    >>> [grid.tolist() for grid in meshgrid([1, 2], [3], indexing="ij")]
    [[[1], [2]], [[3], [3]]]
    >>> [grid.shape for grid in meshgrid([1, 2], [3, 4, 5], sparse=True)]
    [(1, 2), (3, 1)]
    """
    if indexing not in ("xy", "ij"):
        raise OptionError(f"[meshgrid] no indexing {indexing!r}; use 'xy' or 'ij'")
    nodes = [as_node(axis) for axis in axes]
    for node in nodes:
        if node.ndim > 1:
            raise ShapeError(f"[meshgrid] shape {node.shape} is no vector; flatten it first")
    swap = indexing == "xy" and len(nodes) > 1
    shaped = []
    for position, node in enumerate(nodes):
        place = 1 - position if swap and position < 2 else position
        shaped.append(
            ops.reshape(node, (1,) * place + (node.size,) + (1,) * (len(nodes) - place - 1))
        )
    if sparse:
        return [wrap(node) for node in shaped]
    shape = common_shape("meshgrid", *(node.shape for node in shaped))
    return [wrap(ops.broadcast_to(node, shape)) for node in shaped]
