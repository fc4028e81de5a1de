"""DLPack both ways without copies: tensors to other libraries and theirs to us.

Input / output: a ``PyCapsule`` around a ``DLManagedTensor`` (unversioned) or
``DLManagedTensorVersioned`` (1.0), laid out as the DLPack specification says
(https://dmlc.github.io/dlpack/latest/). Whoever holds the memory keeps the other side's object
alive until its deleter runs. CPU memory only; strided memory that comes in is copied.
"""

from __future__ import annotations

import ctypes
from typing import Any, Final, cast

import numpy as np

from lamella.dtypes import ALL, COMPLEX, DType
from lamella.errors import DTypeError, OptionError
from lamella.ir.node import Node
from lamella.tensor.core import TensorCore, value_of, wrap
from lamella.tensor.host import node_from_array

__all__ = ["capsule_of", "from_dlpack", "node_from_dlpack"]

_CPU: Final = 1
_PLAIN: Final = b"dltensor"
_VERSIONED: Final = b"dltensor_versioned"
_READ_ONLY: Final = 1
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
_api.PyCapsule_New.restype = ctypes.py_object
_api.PyCapsule_New.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
_api.PyCapsule_IsValid.argtypes = (ctypes.py_object, ctypes.c_char_p)
_api.PyCapsule_GetPointer.restype = ctypes.c_void_p
_api.PyCapsule_GetPointer.argtypes = (ctypes.py_object, ctypes.c_char_p)
_api.PyCapsule_SetName.argtypes = (ctypes.py_object, ctypes.c_char_p)

_lent: Final[dict[int, tuple[Any, ...]]] = {}  # address of a managed tensor -> what it needs alive


@_Deleter  # type: ignore[untyped-decorator]
def _give_back(address: int) -> None:
    _lent.pop(address, None)


_RawDestructor: Final = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)
_raw_is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)(
    ("PyCapsule_IsValid", ctypes.pythonapi)
)
_raw_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)


@_RawDestructor  # type: ignore[untyped-decorator]
def _drop_capsule(capsule: int) -> None:
    """A capsule nobody took: forget what it lent."""
    for name in (_PLAIN, _VERSIONED):
        if _raw_is_valid(capsule, name):
            _lent.pop(_raw_pointer(capsule, name), None)


def capsule_of(
    tensor: TensorCore,
    stream: object = None,
    max_version: tuple[int, int] | None = None,
    dl_device: tuple[int, int] | None = None,
    copy: bool | None = None,
) -> Any:
    """The capsule that ``tensor.__dlpack__()`` returns.

    The consumer shares the tensor's memory and must not write to it (the versioned form says so).

    Raises:
        OptionError: for another device than the CPU.
    """
    if dl_device is not None and dl_device[0] != _CPU:
        raise OptionError(
            f"[dlpack] device {dl_device} is not the CPU (1, 0); move the data there afterwards"
        )
    array = value_of(tensor, "dlpack")
    if copy:
        array = array.copy()
    ndim = array.ndim
    shape = (ctypes.c_int64 * max(ndim, 1))(*array.shape)
    strides = (ctypes.c_int64 * max(ndim, 1))(*(s // array.itemsize for s in array.strides))
    versioned = max_version is not None and max_version[0] >= 1
    managed: Any = _ManagedVersioned() if versioned else _Managed()
    if versioned:
        managed.major, managed.minor = 1, 0
        managed.flags = 0 if copy else _READ_ONLY
    code = _BFLOAT if tensor.dtype.name == "bfloat16" else _CODES[tensor.dtype.kind]
    managed.tensor = _DLTensor(
        array.ctypes.data, _CPU, 0, ndim, code, tensor.dtype.bits, 1,
        ctypes.cast(shape, ctypes.POINTER(ctypes.c_int64)),
        ctypes.cast(strides, ctypes.POINTER(ctypes.c_int64)), 0,
    )  # fmt: skip
    managed.deleter = ctypes.cast(_give_back, ctypes.c_void_p)
    address = ctypes.addressof(managed)
    _lent[address] = (managed, array, shape, strides)
    name = _VERSIONED if versioned else _PLAIN
    return _api.PyCapsule_New(address, name, ctypes.cast(_drop_capsule, ctypes.c_void_p))


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


def _ask(source: Any) -> Any:
    device = source.__dlpack_device__() if hasattr(source, "__dlpack_device__") else (_CPU, 0)
    if int(device[0]) != _CPU:
        raise OptionError(
            f"[dlpack] device {tuple(device)} is not the CPU; bring the data there first"
        )
    try:
        return source.__dlpack__(max_version=(1, 0))
    except TypeError:
        return source.__dlpack__()


def node_from_dlpack(source: Any, copy: bool = False) -> Node:
    """A node that shares the memory of anything with ``__dlpack__`` (or of a capsule).

    Raises:
        OptionError: for memory that is not the CPU's. DTypeError: for an element type that is not
            supported, or what does not speak DLPack.
    """
    capsule = _ask(source) if hasattr(source, "__dlpack__") else source
    if type(capsule).__name__ != "PyCapsule":
        raise DTypeError(
            f"[dlpack] {type(capsule).__name__} has no __dlpack__; pass an array or a tensor that "
            "has, or use lm.asarray for other data"
        )
    if _api.PyCapsule_IsValid(capsule, _VERSIONED):
        name, layout = _VERSIONED, cast(Any, _ManagedVersioned)
    elif _api.PyCapsule_IsValid(capsule, _PLAIN):
        name, layout = _PLAIN, _Managed
    else:
        raise OptionError(
            "[dlpack] not a DLPack capsule, or one that was taken before; make a new one"
        )
    address = _api.PyCapsule_GetPointer(capsule, name)
    managed: Any = layout.from_address(address)
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
    array = np.asarray(_Borrowed(interface, address, managed.deleter))
    if array.dtype != dtype.numpy:
        array = array.view(dtype.numpy)
    return node_from_array(array, copy=copy)


_USED: Final = {_PLAIN: b"used_dltensor", _VERSIONED: b"used_dltensor_versioned"}
_TYPES: Final = {d.name: d.numpy.str for d in (*ALL, *COMPLEX) if d.name != "bfloat16"}


def from_dlpack(source: Any, copy: bool | None = None, device: object = None) -> Any:
    """A tensor that shares the memory of an array of another library, through DLPack.

    Change that array afterwards and results not yet computed change too; ``copy=True`` copies.

    Raises:
        OptionError: for memory that is not the CPU's. DTypeError: for an element type that is not
            supported, or what does not speak DLPack.

    >>> from_dlpack(np.arange(3)).tolist()
    [0, 1, 2]
    """
    return wrap(node_from_dlpack(source, copy=bool(copy)))
