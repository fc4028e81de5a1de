"""DLPack both ways without copies: tensors to other libraries and theirs to us.

Input / output: a ``PyCapsule`` around a ``DLManagedTensor`` (unversioned) or
``DLManagedTensorVersioned`` (1.0), laid out as the DLPack specification says
(https://dmlc.github.io/dlpack/latest/). Whoever holds the memory keeps the other side's object
alive until its deleter runs. CPU memory only; strided memory that comes in is copied.
"""

from __future__ import annotations

import contextlib
import ctypes
from typing import Any, Final, cast

import numpy as np

from lamella.dtypes import ALL, COMPLEX, DType
from lamella.errors import DTypeError, ExchangeError
from lamella.ir.node import Node
from lamella.tensor.core import TensorCore, check_device, value_of, wrap
from lamella.tensor.host import node_from_array

__all__ = ["capsule_of", "from_dlpack", "node_from_dlpack"]

_CPU: Final = 1
_PLAIN: Final = b"dltensor"
_VERSIONED: Final = b"dltensor_versioned"
_CODES: Final = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}
_BFLOAT: Final = 4


class _DLTensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64),
    )  # fmt: skip


_Deleter: Final = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class _Managed(ctypes.Structure):
    _fields_ = (("tensor", _DLTensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p))


class _ManagedVersioned(ctypes.Structure):
    _fields_ = (
        ("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p), ("flags", ctypes.c_uint64), ("tensor", _DLTensor),
    )  # fmt: skip


_api = ctypes.pythonapi
_api.PyCapsule_IsValid.argtypes = (ctypes.py_object, ctypes.c_char_p)
_api.PyCapsule_GetPointer.restype = ctypes.c_void_p
_api.PyCapsule_GetPointer.argtypes = (ctypes.py_object, ctypes.c_char_p)
_api.PyCapsule_SetName.argtypes = (ctypes.py_object, ctypes.c_char_p)


# -- out -------------------------------------------------------------------------------------------
def capsule_of(
    tensor: TensorCore,
    stream: object = None,
    max_version: tuple[int, int] | None = None,
    dl_device: tuple[int, int] | None = None,
    copy: bool | None = None,
) -> Any:
    """The capsule that ``tensor.__dlpack__()`` returns.

    The consumer shares the tensor's memory and must not write to it (the versioned form says so).
    NumPy makes the capsule: its destructor is native code, as it must be where a consumer drops the
    capsule because of an exception, which Python code would lose.

    Raises:
        ExchangeError: for another device than the CPU, or a stream, which the CPU has not.
    """
    if dl_device is not None and tuple(dl_device)[:1] != (_CPU,):
        raise ExchangeError(
            f"[dlpack] device {dl_device} is not the CPU (1, 0); move the data there afterwards"
        )
    if stream not in (None, -1):
        raise ExchangeError(
            f"[dlpack] stream={stream!r:.40}, but data of the CPU is on none; leave stream out"
        )
    array = value_of(tensor, "dlpack")
    bfloat = tensor.dtype.name == "bfloat16"
    if bfloat:
        array = array.view(np.uint16)
    if copy:
        array = array.copy()
    capsule = _capsule(array, max_version is not None and tuple(max_version) >= (1,))
    if bfloat:
        _managed(capsule)[1].tensor.code = _BFLOAT
    return capsule


def _capsule(array: np.ndarray, versioned: bool) -> Any:
    """Versioned if that is asked for and NumPy is 2.1 or later; else in the form that cannot tell
    that memory is only to be read.
    """
    if versioned:
        with contextlib.suppress(TypeError):
            return array.__dlpack__(max_version=(1, 0))
    array.setflags(write=True)
    return array.__dlpack__()


# -- in --------------------------------------------------------------------------------------------
class _Borrowed:
    """Memory of another library as NumPy takes it; gives it back when the last array on it goes."""

    __slots__ = ("__array_interface__", "_address", "_deleter")

    def __init__(self, interface: dict[str, Any], address: int, deleter: int | None) -> None:
        self.__array_interface__ = interface
        self._address = address
        self._deleter = deleter

    def __del__(self) -> None:
        if self._deleter:
            _Deleter(self._deleter)(self._address)


def _dtype_of(code: int, bits: int, lanes: int) -> DType:
    for dtype in (*ALL, *COMPLEX):
        own = _BFLOAT if dtype.name == "bfloat16" else _CODES[dtype.kind]
        if (own, dtype.bits, 1) == (code, bits, lanes):
            return dtype
    raise DTypeError(
        f"[dlpack] element type (code {code}, {bits} bits, {lanes} lanes) is not supported; cast "
        "it before"
    )


def _managed(capsule: Any) -> tuple[bytes, Any]:
    """The name of a capsule, and the structure it holds.

    Raises:
        ExchangeError: if it holds none.
    """
    for name, layout in ((_VERSIONED, _ManagedVersioned), (_PLAIN, _Managed)):
        if _api.PyCapsule_IsValid(capsule, name):
            return name, cast(Any, layout).from_address(_api.PyCapsule_GetPointer(capsule, name))
    raise ExchangeError(
        "[dlpack] not a DLPack capsule, or one that was taken before; make a new one"
    )


def _ask(source: Any) -> Any:
    device = source.__dlpack_device__() if hasattr(source, "__dlpack_device__") else (_CPU, 0)
    if int(device[0]) != _CPU:
        raise ExchangeError(
            f"[dlpack] device {tuple(device)} is not the CPU; bring the data there first"
        )
    try:
        return source.__dlpack__(max_version=(1, 0))
    except TypeError:
        return source.__dlpack__()


def node_from_dlpack(source: Any, copy: bool | None = None) -> Node:
    """A node that shares the memory of anything with ``__dlpack__`` (or of a capsule), or a copy of
    it if ``copy``, or if it is strided and ``copy`` is None.

    Raises:
        ExchangeError: for memory that is not the CPU's; for strided memory with ``copy=False``.
            DTypeError: for an element type that is not
            supported, or what does not speak DLPack.
    """
    capsule = _ask(source) if hasattr(source, "__dlpack__") else source
    if type(capsule).__name__ != "PyCapsule":
        raise DTypeError(
            f"[dlpack] {type(capsule).__name__} has no __dlpack__; pass an array or a tensor that "
            "has, or use lm.asarray for other data"
        )
    name, managed = _managed(capsule)
    inner = managed.tensor
    dtype = _dtype_of(inner.code, inner.bits, inner.lanes)
    _api.PyCapsule_SetName(capsule, _USED[name])
    shape = tuple(inner.shape[i] for i in range(inner.ndim))
    size = dtype.itemsize
    strides = tuple(inner.strides[i] * size for i in range(inner.ndim)) if inner.strides else None
    interface = {
        "version": 3, "shape": shape, "strides": strides,
        "typestr": _TYPES.get(dtype.name, f"<u{size}"),
        "data": ((inner.data or 0) + inner.byte_offset, False),
    }  # fmt: skip
    array = np.asarray(_Borrowed(interface, ctypes.addressof(managed), managed.deleter))
    if array.dtype != dtype.numpy:
        array = array.view(dtype.numpy)
    if copy is False and not (array.flags.c_contiguous and array.flags.aligned):
        raise ExchangeError(
            f"[dlpack] shape {shape} with strides of {array.strides} bytes can only be copied, for "
            "tensors are contiguous; leave copy=False out, or make the array contiguous"
        )
    return node_from_array(array, copy=bool(copy))


_USED: Final = {_PLAIN: b"used_dltensor", _VERSIONED: b"used_dltensor_versioned"}
_TYPES: Final = {d.name: d.numpy.str for d in (*ALL, *COMPLEX) if d.name != "bfloat16"}


def from_dlpack(source: Any, copy: bool | None = None, device: object = None) -> Any:
    """A tensor that shares the memory of an array of another library, through DLPack.

    Change that array afterwards and results not yet computed change too; ``copy=True`` copies, and
    ``copy=False`` never does. ``device`` is "cpu".

    Raises:
        ExchangeError: for memory that is not the CPU's; for strided memory with ``copy=False``.
            OptionError: for another ``device``. DTypeError: for an element type that is not
            supported, or what does not speak DLPack.

    >>> from_dlpack(np.arange(3)).tolist()
    [0, 1, 2]
    """
    check_device(device, "from_dlpack")
    return wrap(node_from_dlpack(source, copy))
