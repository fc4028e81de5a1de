"""Asking for values and about them: ``eval``, whole-tensor comparisons, type questions, threads.

``lm.eval`` is never needed; it says when values are computed where that matters (timing, memory).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from lamella import tree
from lamella.dtypes import COMPLEX, FLOATS, INTEGERS, as_dtype, bool_, promote, promote_scalar
from lamella.errors import OptionError, ShapeError, did_you_mean
from lamella.ir.node import Node
from lamella.tensor.axes import axis_of
from lamella.tensor.comparison import isclose
from lamella.tensor.core import TensorCore
from lamella.tensor.operands import TensorLike, as_node
from lamella.tensor.pending import compute, current_trace, flush, noted, traces
from lamella.tensor.reduction import all as all_of

if TYPE_CHECKING:
    from lamella.dtypes import DType

__all__ = [
    "allclose", "array_equal", "array_equiv", "can_cast", "devices", "eval", "is_tensor",
    "iscomplexobj", "isdtype", "isrealobj", "ndim", "num_threads", "result_type",
    "set_num_threads", "shape", "size",
]  # fmt: skip


def eval(*values: Any) -> None:
    """Compute the tensors in ``values`` (trees of them) and everything else that is pending.

    Raises:
        TraceError: inside a transformed function, for a tensor that has no value there.

    >>> import lamella as lm
    >>> x = lm.ones(3) * 2
    >>> eval(x)
    """
    if traces and current_trace() is not None:
        compute(_nodes(values), "eval")
        return
    if noted:
        flush()
    for value in values:
        if not isinstance(value, TensorCore) or value.node.value is None:
            compute(_nodes(values), "eval")
            return


def _nodes(values: object) -> list[Node]:
    return [leaf.node for leaf in tree.leaves(values) if isinstance(leaf, TensorCore)]


def is_tensor(value: object) -> bool:
    """Whether ``value`` is a tensor.

    >>> is_tensor(3)
    False
    """
    return isinstance(value, TensorCore)


def allclose(
    x: TensorLike, y: TensorLike, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> bool:
    """Whether all elements are close (see :func:`lamella.isclose`); looks at the values.

    >>> allclose([1.0], [1.0 + 1e-7])
    True
    """
    return bool(all_of(isclose(x, y, rtol, atol, equal_nan)))


def array_equal(x: TensorLike, y: TensorLike, equal_nan: bool = False) -> bool:
    """Whether shapes and all elements are equal (with ``equal_nan`` a NaN equals another); looks at
    the values.

    >>> array_equal([1, 2], [1, 2]), array_equal([1, 2], [1])
    (True, False)
    """
    from lamella.tensor.comparison import equal, not_equal

    a, b = as_node(x), as_node(y)
    if a.shape != b.shape:
        return False
    same = equal(x, y)
    if equal_nan:
        same = same | (not_equal(x, x) & not_equal(y, y))
    return bool(all_of(same))


def array_equiv(x: TensorLike, y: TensorLike) -> bool:
    """Whether one broadcasts to the other and all elements are equal; looks at the values.

    >>> array_equiv([1, 1], 1), array_equiv([1, 2], 1)
    (True, False)
    """
    from lamella.tensor.comparison import equal

    try:
        return bool(all_of(equal(x, y)))
    except ShapeError:
        return False


def ndim(x: TensorLike) -> int:
    """The number of axes.

    >>> ndim([[1, 2]])
    2
    """
    return as_node(x).ndim


def shape(x: TensorLike) -> tuple[int, ...]:
    """The sizes of the axes.

    >>> shape([[1, 2]])
    (1, 2)
    """
    return as_node(x).shape  # type: ignore[return-value]


def size(x: TensorLike, axis: int | None = None) -> int:
    """The number of elements, or the size of one axis.

    >>> size([[1, 2]]), size([[1, 2]], 0)
    (2, 1)
    """
    node = as_node(x)
    if axis is None:
        return node.size  # type: ignore[return-value]
    return node.shape[axis_of("size", axis, node.shape)]  # type: ignore[return-value]


def iscomplexobj(x: TensorLike) -> bool:
    """Whether the element type is complex.

    >>> iscomplexobj([1j])
    True
    """
    return as_node(x).dtype.kind == "c"


def isrealobj(x: TensorLike) -> bool:
    """Whether the element type is not complex.

    >>> isrealobj([1.0])
    True
    """
    return not iscomplexobj(x)


# -- types -----------------------------------------------------------------------------------------
def result_type(*values: Any) -> DType:
    """The element type of a result computed from tensors, types and Python numbers together.

    Raises:
        DTypeError: for types without a common one. OptionError: for no values.

    >>> result_type("int32", "float32", 1.5)
    lamella.float32
    """
    number = bool | int | float | complex
    scalars = [v for v in values if isinstance(v, number) and not isinstance(v, np.generic)]
    kinds = [
        v.dtype if isinstance(v, TensorCore) else as_dtype(getattr(v, "dtype", v))
        for v in values
        if not isinstance(v, number) or isinstance(v, np.generic)
    ]
    if not values:
        raise OptionError("[result_type] got nothing; give tensors, types or numbers")
    if not kinds:
        kinds = [as_dtype(scalars[0].__class__)]
    found = kinds[0]
    for kind in kinds[1:]:
        found = promote(found, kind)
    for scalar in scalars:
        found = promote_scalar(found, scalar)
    return found


def can_cast(source: Any, target: object) -> bool:
    """Whether promotion may turn ``source`` into ``target`` without losing its kind.

    >>> can_cast("int32", "float32"), can_cast("float32", "int32")
    (True, False)
    """
    kind = source.dtype if isinstance(source, TensorCore) else as_dtype(source)
    wanted = as_dtype(target)
    try:
        return promote(kind, wanted) is wanted
    except TypeError:
        return False


_KINDS = {
    "bool": (bool_,),
    "signed integer": tuple(d for d in INTEGERS if d.kind == "i"),
    "unsigned integer": tuple(d for d in INTEGERS if d.kind == "u"),
    "integral": INTEGERS,
    "real floating": FLOATS,
    "complex floating": COMPLEX,
    "numeric": INTEGERS + FLOATS + COMPLEX,
}


def isdtype(dtype: object, kind: Any) -> bool:
    """Whether ``dtype`` is of a kind: a type, a tuple of kinds, or one of the array-API's names.

    >>> isdtype("int8", "integral"), isdtype("float32", ("bool", "integral"))
    (True, False)
    """
    if isinstance(kind, tuple):
        return any(isdtype(dtype, each) for each in kind)
    if isinstance(kind, str) and kind in _KINDS:
        return as_dtype(dtype) in _KINDS[kind]
    if isinstance(kind, str) and " " in kind:
        raise OptionError(f"[isdtype] no kind {kind!r}; {did_you_mean(kind, _KINDS)}")
    return as_dtype(dtype) is as_dtype(kind)


# -- the machine -----------------------------------------------------------------------------------
def devices() -> list[str]:
    """The devices programs run on.

    >>> devices()
    ['cpu']
    """
    return ["cpu"]


def num_threads() -> int:
    """How many threads run programs.

    >>> num_threads() >= 1
    True
    """
    from lamella.runtime import threads

    return threads.num_threads()


def set_num_threads(count: int) -> None:
    """Use ``count`` threads from now on; results do not depend on it.

    Raises:
        OptionError: for a number below 1.
    """
    from lamella.runtime import threads

    threads.set_num_threads(count)
