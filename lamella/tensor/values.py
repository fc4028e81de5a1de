"""The part of :class:`lamella.Tensor` that leaves the graph: values, conversions, copies, exchange.

Looking at a value (``print``, ``float``, ``numpy``, ``if``) computes everything pending. Arrays
that come out are read-only and share the tensor's memory; NumPy, PyTorch and others that speak
DLPack take tensors without a copy.
"""

from __future__ import annotations

import builtins
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from lamella.dtypes import (
    as_dtype,
    bfloat16,
    bool_,
    complex64,
    complex128,
    float16,
    float32,
    float64,
    int32,
    int64,
)
from lamella.errors import DTypeError, ShapeError
from lamella.tensor.comparison import astype, equal
from lamella.tensor.core import TensorCore, check_device, node_of, value_of, wrap
from lamella.tensor.joining import unstack
from lamella.tensor.reduction import any as any_of

if TYPE_CHECKING:
    from lamella.ops.base import Array
    from lamella.tensor.tensor import Tensor

__all__ = ["TensorValues"]


_DEVICES = ("cpu", "cuda", "gpu", "mps", "meta")


class TensorValues(TensorCore):
    """Methods that look at values, convert and copy."""

    __slots__ = ()

    def numpy(self) -> Array:
        """The value as a read-only NumPy array that shares the tensor's memory.

        Raises:
            TraceError: inside a function being transformed.
        """
        return value_of(self, "numpy")

    def __array__(self, dtype: Any = None, copy: builtins.bool | None = None) -> Array:
        array = value_of(self, "np.asarray")
        if dtype is not None and array.dtype != np.dtype(dtype):
            return array.astype(dtype)
        return array.copy() if copy else array

    def item(self) -> Any:
        """The single element as a Python number.

        Raises:
            ShapeError: if there is not exactly one.
        """
        return self._number("item")

    def _number(self, name: str) -> Any:
        array = value_of(self, name)
        if array.size != 1:
            raise ShapeError(
                f"[{name}] shape {array.shape} has {array.size} elements, and a number is one; "
                "index it or reduce it"
            )
        value = array.item()
        return float(value) if self.node.dtype.kind == "f" else value

    def tolist(self) -> Any:
        """The value as nested lists of Python numbers (a number if 0-d)."""
        array = value_of(self, "tolist")
        if self.node.dtype.kind == "f" and self.node.dtype.bits < 32:
            array = array.astype(np.float64)
        return array.tolist()

    def __float__(self) -> builtins.float:
        self._require_real("float")
        return float(self.item())

    def __int__(self) -> builtins.int:
        self._require_real("int")
        return int(self.item())

    def _require_real(self, name: str) -> None:
        if self.node.dtype.kind == "c":
            raise DTypeError(
                f"[{name}] {self.node.dtype.name} has an imaginary part; use complex(x), x.real or "
                "abs(x)"
            )

    def __trunc__(self) -> builtins.int:
        return int(self.item())

    def __complex__(self) -> complex:
        return complex(self.item())

    def __bool__(self) -> builtins.bool:
        array = value_of(self, "if / bool()")
        if array.size != 1:
            raise ShapeError(
                f"[bool] the truth of shape {array.shape} is ambiguous: it has {array.size} "
                "elements; "
                "use .any() or .all()"
            )
        return bool(array.reshape(()))

    def __index__(self) -> builtins.int:
        if self.node.dtype.kind not in "iu" or self.node.shape != ():
            raise DTypeError(
                f"[index] a {self.node.dtype.name} tensor of shape {self.node.shape} is no whole "
                "number; only "
                "0-d integer tensors are"
            )
        return int(self.item())

    def __len__(self) -> builtins.int:
        if not self.node.shape:
            raise DTypeError("[len] a 0-d tensor has no length; use .item() for its number")
        return int(self.node.shape[0])

    def __iter__(self) -> Iterator[Tensor]:
        if not self.node.shape:
            raise DTypeError("[iter] a 0-d tensor has nothing to iterate over; use .item()")
        return iter(unstack(self))

    def __contains__(self, value: object) -> builtins.bool:
        return bool(any_of(equal(self, value)))  # type: ignore[arg-type]

    def __repr__(self) -> str:
        from lamella.tensor.printing import tensor_repr

        return tensor_repr(self)

    def __str__(self) -> str:
        from lamella.tensor.printing import tensor_str

        return tensor_str(self)

    def __format__(self, spec: str) -> str:
        if spec and self.node.size == 1:
            return format(self._number("format"), spec)
        return format(str(self), spec)

    # -- copies and exchange -----------------------------------------------------------------------
    def __copy__(self) -> Tensor:
        from lamella.tensor.copying import copied

        return cast("Tensor", copied(self, {}))

    def __deepcopy__(self, memo: dict[builtins.int, object]) -> Tensor:
        from lamella.tensor.copying import copied

        return cast("Tensor", copied(self, memo))

    def __reduce__(self) -> tuple[Any, ...]:
        from lamella.tensor.copying import reduced

        return reduced(self)

    def __dlpack__(
        self,
        *,
        stream: object = None,
        max_version: tuple[builtins.int, builtins.int] | None = None,
        dl_device: tuple[builtins.int, builtins.int] | None = None,
        copy: builtins.bool | None = None,
    ) -> Any:
        from lamella.tensor.dlpack import capsule_of

        return capsule_of(self, stream, max_version, dl_device, copy)

    def __dlpack_device__(self) -> tuple[builtins.int, builtins.int]:
        return (1, 0)

    def __array_namespace__(self, api_version: str | None = None) -> Any:
        import lamella

        return lamella

    def clone(self) -> Tensor:
        """A tensor of the same value; gradients flow through it."""
        return wrap(node_of(self))

    copy = clone

    def contiguous(self) -> Tensor:
        """The tensor itself: values are always in row-major order."""
        return cast("Tensor", self)

    def cpu(self) -> Tensor:
        """The tensor itself: it is in memory."""
        return cast("Tensor", self)

    def to_device(self, device: object, /, *, stream: object = None) -> Tensor:
        """The tensor itself: it is on the CPU, the only device (array-API's name)."""
        check_device(device, "to_device")
        return cast("Tensor", self)

    def to(self, *args: Any, **options: Any) -> Tensor:
        """The tensor as an element type, on a device, or like another tensor.

        Raises:
            OptionError: for a device there is not.
        """
        found = cast("Tensor", self)
        for arg in (*args, *options.values()):
            if isinstance(arg, bool) or arg is None:
                continue  # non_blocking, copy
            if isinstance(arg, TensorCore):
                found = astype(found, arg.dtype)
            elif isinstance(arg, str) and arg.split(":")[0] in _DEVICES:
                check_device(arg, "to")
            else:
                found = astype(found, as_dtype(arg))
        return found

    def type(self, dtype: object = None) -> Any:
        """The element type's name, or the tensor cast to ``dtype``."""
        return self.node.dtype.name if dtype is None else astype(self, dtype)

    def float(self) -> Tensor:
        """As float32."""
        return astype(self, float32)

    def cfloat(self) -> Tensor:
        """As complex64."""
        return astype(self, complex64)

    def cdouble(self) -> Tensor:
        """As complex128."""
        return astype(self, complex128)

    def double(self) -> Tensor:
        """As float64."""
        return astype(self, float64)

    def half(self) -> Tensor:
        """As float16."""
        return astype(self, float16)

    def bfloat16(self) -> Tensor:
        """As bfloat16."""
        return astype(self, bfloat16)

    def int(self) -> Tensor:
        """As int32."""
        return astype(self, int32)

    def long(self) -> Tensor:
        """As int64."""
        return astype(self, int64)

    def bool(self) -> Tensor:
        """As bool: whether each element is nonzero."""
        return astype(self, bool_)
