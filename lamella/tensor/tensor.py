"""``lamella.Tensor``: the functions of this package as methods, operators, and looking at values.

Methods are the functions of the same name with the tensor as first argument, so each is documented
once. Values are computed when looked at (``print``, ``float``, ``numpy``, comparison in ``if``);
in-place operations rebind the handle and never change another tensor.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, cast, overload

from lamella import ops
from lamella.ir.dim import Dim, Size, product
from lamella.ir.node import Node
from lamella.tensor import comparison as _compare
from lamella.tensor import complex as _complex
from lamella.tensor import counting as _count
from lamella.tensor import elementwise as _arith
from lamella.tensor import gradient as _gradient
from lamella.tensor import indexing as _indexing
from lamella.tensor import joining as _join
from lamella.tensor import linalg as _linalg
from lamella.tensor import manipulation as _move
from lamella.tensor import naming as _naming
from lamella.tensor import nanreduction as _nan
from lamella.tensor import quantiles as _quantiles
from lamella.tensor import reduction as _reduce
from lamella.tensor import searching as _search
from lamella.tensor import sets as _sets
from lamella.tensor import transcendental as _real
from lamella.tensor.core import TensorCore, announce, node_of, use_class, wrap
from lamella.tensor.inplace import TensorInPlace, in_place
from lamella.tensor.operands import TensorLike, as_node, scalar_node

__all__ = ["Tensor"]

Device = str


class _Size(int):
    """A number of elements that PyTorch's spelling may call: ``x.size(0)``, ``x.size()``."""

    shape: tuple[int, ...]

    @overload
    def __call__(self, axis: None = None) -> tuple[int, ...]: ...
    @overload
    def __call__(self, axis: int) -> int: ...
    def __call__(self, axis: int | None = None) -> tuple[int, ...] | int:
        return self.shape if axis is None else self.shape[axis]


def _size(total: Size, shape: tuple[int, ...]) -> _Size:
    if isinstance(total, Dim):
        return cast("_Size", total)  # as sizes of axes are
    found = _Size(total)
    found.shape = shape
    return found


_NUMBERS: Final = frozenset({float, int})
_PLAIN: Final[set[type]] = {float, int}  # and tensors: operands that need no closer look


def _foreign(other: object, kind: type) -> bool:
    """Whether an operator leaves ``other`` to its own type: no array, or one that keeps operators
    from arrays (as it tells NumPy, by ``__array_ufunc__ = None``), such as a sparse matrix.
    """
    if other is None or isinstance(other, (str, bytes, dict, set)):
        return True
    return getattr(kind, "__array_ufunc__", 0) is None and not isinstance(other, TensorCore)


def _operator(
    function: Callable[[TensorLike, TensorLike], Tensor], reflected: bool = False
) -> Callable[[Tensor, TensorLike], Tensor]:
    """The method of a binary operator that gives way to other types' own."""
    swap = reflected and function in (_arith.add, _arith.multiply)  # a number second is faster

    def method(self: Tensor, other: Any) -> Any:
        kind = type(other)
        if kind not in _PLAIN and _foreign(other, kind):
            return NotImplemented
        if reflected and not (swap and kind in _NUMBERS):
            return function(other, self)
        return function(self, other)

    method.__name__ = method.__qualname__ = function.__name__
    method.__doc__ = (function.__doc__ or "").split("\n")[0]
    return method


def _like(value: TensorLike, like: Tensor) -> Tensor:
    """``value`` in the element type of ``like``, a Python number as a run-time argument."""
    if isinstance(value, bool | int | float | complex):
        return wrap(scalar_node(value, like.node.dtype))
    return wrap(as_node(value, like.node.dtype))


def _where_method(self: Tensor, condition: TensorLike, other: TensorLike) -> Tensor:
    """The tensor where ``condition`` holds, else ``other`` (PyTorch's method)."""
    return _compare.where(condition, self, other)


class Tensor(TensorInPlace):
    """An n-dimensional array of one element type that remembers how it was computed.

    Made by :func:`lamella.tensor`, :func:`lamella.asarray`, :func:`lamella.zeros` and operations.
    Recording an operation checks shapes and types; its value is computed when it is looked at.
    """

    __slots__ = ()
    __array_ufunc__ = None  # NumPy leaves operators between an array and a tensor to the tensor
    __array_priority__ = 1000
    __hash__ = object.__hash__

    def __init__(
        self, data: TensorLike = (), dtype: object = None, requires_grad: bool = False
    ) -> None:
        """A tensor with a copy of ``data``; see :func:`lamella.tensor`."""
        from lamella.tensor.creation import tensor

        made = tensor(data, dtype)
        self.node = made.node
        self._leaf = None
        announce(self)
        if requires_grad:
            _gradient.require_grad(self)

    # -- what it is --------------------------------------------------------------------------------
    @property
    def size(self) -> _Size:
        """The number of elements (also callable, as in PyTorch: ``x.size()``, ``x.size(0)``)."""
        return _size(product(node_of(self).shape), self.shape)

    def numel(self) -> int:
        """The number of elements."""
        return cast("int", product(node_of(self).shape))

    nelement = numel

    def dim(self) -> int:
        """The number of axes."""
        return self.ndim

    ndimension = dim

    def element_size(self) -> int:
        """Bytes per element."""
        return self.node.dtype.itemsize

    @property
    def itemsize(self) -> int:
        """Bytes per element."""
        return self.node.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of the value."""
        return self.numel() * self.node.dtype.itemsize

    @property
    def device(self) -> Device:
        """Where the value is: ``"cpu"``."""
        return "cpu"

    @property
    def T(self) -> Tensor:  # noqa: N802
        """All axes in reverse order."""
        return _move.transpose(self)

    @property
    def mT(self) -> Tensor:  # noqa: N802
        """The last two axes exchanged."""
        return _move.matrix_transpose(self)

    @property
    def real(self) -> Tensor:
        """The real part."""
        return _complex.real(self)

    @property
    def imag(self) -> Tensor:
        """The imaginary part; zeros of a real tensor."""
        return _complex.imag(self)

    @property
    def at(self) -> _indexing.At:
        """``x.at[i].add(v)``: a new tensor with elements changed."""
        return _indexing.At(self)

    def is_floating_point(self) -> bool:
        """Whether the element type is floating point."""
        return self.node.dtype.kind == "f"

    def is_complex(self) -> bool:
        """Whether the element type is complex."""
        return self.node.dtype.kind == "c"

    def is_contiguous(self) -> bool:
        """True: values are always in row-major order."""
        return True

    def __divmod__(self, other: TensorLike) -> tuple[Tensor, Tensor]:
        return _arith.floor_divide(self, other), _arith.remainder(self, other)

    def __rdivmod__(self, other: TensorLike) -> tuple[Tensor, Tensor]:
        return _arith.floor_divide(other, self), _arith.remainder(other, self)

    # -- gradients ---------------------------------------------------------------------------------
    @property
    def requires_grad(self) -> bool:
        """Whether ``backward()`` computes a gradient for it or through it; assignable on leaves."""
        return _gradient.requires_grad(self)

    @requires_grad.setter
    def requires_grad(self, required: bool) -> None:
        _gradient.require_grad(self, required)

    def requires_grad_(self, requires_grad: bool = True) -> Tensor:
        """Set ``requires_grad`` and return the tensor."""
        _gradient.require_grad(self, requires_grad)
        return self

    @property
    def is_leaf(self) -> bool:
        """Whether it is no result of a recorded operation."""
        return _gradient.is_leaf(self)

    @property
    def grad(self) -> Tensor | None:
        """The gradient that ``backward()`` accumulated, or None."""
        return _gradient.grad_of(self)  # type: ignore[return-value]

    @grad.setter
    def grad(self, value: Tensor | None) -> None:
        _gradient.set_grad(self, value)

    @property
    def data(self) -> Tensor:
        """The value without its history; changing it in place (``p.data.copy_(w)``) changes the
        tensor.
        """
        view = object.__new__(_Data)
        view.node = _gradient.detached_node(node_of(self))
        view._leaf = None
        view.owner = self
        announce(view)
        return view

    @data.setter
    def data(self, value: TensorLike) -> None:
        with _gradient.no_grad():
            self.rebind(_gradient.detached_node(as_node(value)))

    backward = _gradient.backward
    register_hook = _gradient.register_hook
    retain_grad = _gradient.retain_grad

    def detach(self) -> Tensor:
        """The same value as a constant for differentiation."""
        return wrap(_gradient.detached_node(node_of(self)))

    def detach_(self) -> Tensor:
        """Forget how the tensor was computed."""
        node = _gradient.detached_node(node_of(self))
        self._leaf = None
        self.rebind(node)
        return self

    # -- operators ---------------------------------------------------------------------------------
    __add__ = _operator(_arith.add)
    __radd__ = _operator(_arith.add, reflected=True)
    __sub__ = _operator(_arith.subtract)
    __rsub__ = _operator(_arith.subtract, reflected=True)
    __mul__ = _operator(_arith.multiply)
    __rmul__ = _operator(_arith.multiply, reflected=True)
    __truediv__ = _operator(_arith.divide)
    __rtruediv__ = _operator(_arith.divide, reflected=True)
    __floordiv__ = _operator(_arith.floor_divide)
    __rfloordiv__ = _operator(_arith.floor_divide, reflected=True)
    __mod__ = _operator(_arith.remainder)
    __rmod__ = _operator(_arith.remainder, reflected=True)
    __pow__ = _operator(_arith.pow)
    __rpow__ = _operator(_arith.pow, reflected=True)
    __matmul__ = _operator(_linalg.matmul)
    __rmatmul__ = _operator(_linalg.matmul, reflected=True)
    __and__ = _operator(_compare.bitwise_and)
    __rand__ = _operator(_compare.bitwise_and, reflected=True)
    __or__ = _operator(_compare.bitwise_or)
    __ror__ = _operator(_compare.bitwise_or, reflected=True)
    __xor__ = _operator(_compare.bitwise_xor)
    __rxor__ = _operator(_compare.bitwise_xor, reflected=True)
    __lshift__ = _operator(_compare.bitwise_left_shift)
    __rlshift__ = _operator(_compare.bitwise_left_shift, reflected=True)
    __rshift__ = _operator(_compare.bitwise_right_shift)
    __rrshift__ = _operator(_compare.bitwise_right_shift, reflected=True)
    __eq__ = _operator(_compare.equal)  # type: ignore[assignment]  # elementwise
    __ne__ = _operator(_compare.not_equal)  # type: ignore[assignment]
    __lt__ = _operator(_compare.less)
    __le__ = _operator(_compare.less_equal)
    __gt__ = _operator(_compare.greater)
    __ge__ = _operator(_compare.greater_equal)
    __neg__ = negative = neg = _arith.negative
    __pos__ = positive = _arith.positive
    __abs__ = abs = _arith.abs
    __invert__ = bitwise_not = _compare.bitwise_invert
    __round__ = round = _compare.round
    named, rename, align_to = _naming.named, _naming.rename, _naming.align_to
    names = property(_naming.names)
    __getitem__ = _indexing.getitem
    __setitem__ = _indexing.setitem
    __iadd__ = add_ = in_place("add_", _arith.add)
    __isub__ = sub_ = in_place("sub_", _arith.subtract)
    __imul__ = mul_ = in_place("mul_", _arith.multiply)
    __itruediv__ = div_ = in_place("div_", _arith.divide)
    __ifloordiv__ = in_place("floor_divide_", _arith.floor_divide)
    __imod__ = in_place("remainder_", _arith.remainder)
    __ipow__ = pow_ = in_place("pow_", _arith.pow)
    __imatmul__ = in_place("matmul_", _linalg.matmul)
    __iand__ = in_place("bitwise_and_", _compare.bitwise_and)
    __ior__ = in_place("bitwise_or_", _compare.bitwise_or)
    __ixor__ = in_place("bitwise_xor_", _compare.bitwise_xor)
    __ilshift__ = in_place("bitwise_left_shift_", _compare.bitwise_left_shift)
    __irshift__ = in_place("bitwise_right_shift_", _compare.bitwise_right_shift)

    # -- in place ----------------------------------------------------------------------------------
    clamp_ = clip_ = in_place("clamp_", _arith.clip)
    neg_ = in_place("neg_", _arith.negative)
    abs_ = in_place("abs_", _arith.abs)
    exp_ = in_place("exp_", _real.exp)
    sqrt_ = in_place("sqrt_", _real.sqrt)
    tanh_ = in_place("tanh_", _real.tanh)
    sigmoid_ = in_place("sigmoid_", _real.sigmoid)
    lerp_ = in_place("lerp_", _arith.lerp)

    def copy_(self, source: TensorLike) -> Tensor:
        """Take the values of ``source``, broadcast and cast; ShapeError if they do not fit."""
        self.rebind(_indexing.assigned(self, ..., source))
        return self

    def fill_(self, value: TensorLike) -> Tensor:
        """Become ``value`` everywhere."""
        return self.copy_(value)

    def zero_(self) -> Tensor:
        """Become 0 everywhere."""
        self.rebind(ops.full(0, self.node.shape, self.node.dtype))
        return self

    def masked_fill(self, mask: TensorLike, value: TensorLike) -> Tensor:
        """With ``value`` where ``mask`` holds."""
        return _compare.where(mask, _like(value, self), self)

    masked_fill_ = in_place("masked_fill_", masked_fill)

    def uniform_(self, low: float = 0.0, high: float = 1.0) -> Tensor:
        """Fill with uniform random numbers of the implicit generator."""
        from lamella.tensor import random

        return self.copy_(random.uniform(self.shape, low, high, dtype=self.dtype))

    def normal_(self, mean: float = 0.0, std: float = 1.0) -> Tensor:
        """Fill with normal random numbers of the implicit generator."""
        from lamella.tensor import random

        return self.copy_(random.normal(self.shape, mean, std, dtype=self.dtype))

    # -- functions as methods ----------------------------------------------------------------------
    add, sub, subtract = _arith.add, _arith.subtract, _arith.subtract
    mul, multiply, div, divide = _arith.multiply, _arith.multiply, _arith.divide, _arith.divide
    true_divide, floor_divide, remainder = _arith.divide, _arith.floor_divide, _arith.remainder
    fmod, pow, square, sign = _arith.fmod, _arith.pow, _arith.square, _arith.sign
    reciprocal, maximum, minimum = _arith.reciprocal, _arith.maximum, _arith.minimum
    clip, clamp, atan2, lerp = _arith.clip, _arith.clip, _arith.atan2, _arith.lerp
    exp, exp2, expm1, log = _real.exp, _real.exp2, _real.expm1, _real.log
    log2, log10, log1p, sqrt = _real.log2, _real.log10, _real.log1p, _real.sqrt
    rsqrt, sin, cos, tan = _real.rsqrt, _real.sin, _real.cos, _real.tan
    asin, acos, atan, sinh = _real.asin, _real.acos, _real.atan, _real.sinh
    cosh, tanh, asinh, acosh = _real.cosh, _real.tanh, _real.asinh, _real.acosh
    atanh, erf, erfc, sigmoid = _real.atanh, _real.erf, _real.erfc, _real.sigmoid
    eq, ne, lt, le = _compare.equal, _compare.not_equal, _compare.less, _compare.less_equal
    gt, ge = _compare.greater, _compare.greater_equal
    isnan, isinf, isfinite = _compare.isnan, _compare.isinf, _compare.isfinite
    isclose, nan_to_num = _compare.isclose, _compare.nan_to_num
    logical_and, logical_or = _compare.logical_and, _compare.logical_or
    logical_xor, logical_not = _compare.logical_xor, _compare.logical_not
    floor, ceil, trunc = _compare.floor, _compare.ceil, _compare.trunc
    conj, angle = _complex.conj, _complex.angle
    astype, where, bitcast = _compare.astype, _where_method, _compare.bitcast
    sum, prod, mean, var, std = _reduce.sum, _reduce.prod, _reduce.mean, _reduce.var, _reduce.std
    max, min, amax, amin = _reduce.max, _reduce.min, _reduce.max, _reduce.min
    any, all, argmax, argmin = _reduce.any, _reduce.all, _reduce.argmax, _reduce.argmin
    count_nonzero, logsumexp = _reduce.count_nonzero, _reduce.logsumexp
    median, quantile, percentile = _quantiles.median, _quantiles.quantile, _quantiles.percentile
    nanmedian, nanquantile = _quantiles.nanmedian, _quantiles.nanquantile
    nansum, nanmean = _nan.nansum, _nan.nanmean
    cumsum, cumprod = _reduce.cumsum, _reduce.cumprod
    cummax, cummin = _reduce.cummax, _reduce.cummin
    sort, argsort, topk = _search.sort, _search.argsort, _search.topk
    take, take_along_axis, gather = _search.take, _search.take_along_axis, _search.gather
    scatter, scatter_add = _search.scatter, _search.scatter_add
    nonzero, argwhere, unique = _search.nonzero, _search.argwhere, _sets.unique
    isin, bincount, cov, corrcoef = _sets.isin, _count.bincount, _count.cov, _count.corrcoef
    reshape, view, flatten, ravel = _move.reshape, _move.view, _move.flatten, _move.ravel
    unflatten, squeeze = _move.unflatten, _move.squeeze
    unsqueeze, expand_dims = _move.unsqueeze, _move.unsqueeze
    permute, transpose, swapaxes = _move.permute, _move.transpose, _move.swapaxes
    swapdims, moveaxis, movedim = _move.swapaxes, _move.moveaxis, _move.moveaxis
    broadcast_to, expand, flip, roll = _move.broadcast_to, _move.expand, _move.flip, _move.roll
    diagonal, diag, tril, triu = _move.diagonal, _move.diag, _move.tril, _move.triu
    tile, repeat, repeat_interleave = _join.tile, _join.tile, _join.repeat_interleave
    split, chunk, unbind, diff = _join.split, _join.chunk, _join.unstack, _join.diff
    matmul, mm, bmm, mv = _linalg.matmul, _linalg.matmul, _linalg.matmul, _linalg.matmul
    dot, outer, norm, trace = _linalg.dot, _linalg.outer, _linalg.norm, _reduce.trace

    def expand_as(self, other: Tensor) -> Tensor:
        """Broadcast to the shape of ``other``."""
        return _move.broadcast_to(self, other.shape)

    def view_as(self, other: Tensor) -> Tensor:
        """Reshaped to the shape of ``other``."""
        return _move.reshape(self, other.shape)

    reshape_as = view_as

    def type_as(self, other: Tensor) -> Tensor:
        """Cast to the element type of ``other``."""
        return _compare.astype(self, other.dtype)

    def t(self) -> Tensor:
        """The transpose of a matrix."""
        return _move.transpose(self)


class _Data(Tensor):
    """``t.data``: an untracked tensor that writes through to its owner when changed in place."""

    __slots__ = ("owner",)

    owner: TensorCore

    def rebind(self, node: Node) -> None:
        """Rebind the owner, without recording."""
        with _gradient.no_grad():
            self.owner.rebind(node)
            self.node = _gradient.detached_node(self.owner.node)


use_class(Tensor)
_PLAIN.add(Tensor)
