"""Memory with an address: what the value of a computed node is.

Input: a size, or a NumPy array to share. Output: :class:`Buffer`, whose ``ptr`` goes into a
program's slots. Contents are C-contiguous, row-major; shape and dtype belong to the node. Buffers
made here are aligned to 64 bytes and return their memory when the last reference goes. ``writable``
is False once anything outside Lamella may look at the memory; such a buffer must never be donated
or written in place.
"""

from __future__ import annotations

import atexit
import ctypes
from collections.abc import Sequence
from typing import Any, Final, SupportsIndex

import numpy as np

from lamella.errors import LostValueError
from lamella.runtime.memory import (
    SMALL,
    LargeClass,
    free_lists,
    memory_in_use,
    new_block,
    size_class,
)  # fmt: skip

__all__ = ["Buffer", "Lost", "empty", "from_numpy", "memory_in_use", "probe", "view"]


class _Window(ctypes.c_char * 2**62):  # type: ignore[misc]
    """Memory as NumPy accepts it, keeping its buffer alive; one length serves every size."""

    __slots__ = ("buffer",)


_window_at: Final[Any] = _Window.from_address
probe: Final[Any] = (ctypes.c_char * 0).from_buffer
_address_of: Final = ctypes.addressof
_new: Final = object.__new__


class Buffer:
    """``nbytes`` bytes at ``ptr``, alive as long as this object is.

    ``owner`` is what keeps or takes back the memory: a free list, a NumPy array, another buffer.
    """

    __slots__ = ("__weakref__", "nbytes", "owner", "ptr", "writable")

    def __init__(self, ptr: int, nbytes: int, owner: object, writable: bool) -> None:
        self.ptr = ptr
        self.nbytes = nbytes
        self.owner = owner
        self.writable = writable

    def __del__(self) -> None:
        owner = self.owner
        if type(owner) is list:
            owner.append(self.ptr)
        elif type(owner) is LargeClass:
            owner.release(self.ptr)

    def __repr__(self) -> str:
        access = "writable" if self.writable else "shared"
        return f"<Buffer {self.nbytes} bytes at {self.ptr:#x}, {access}>"

    def numpy(
        self, shape: Sequence[SupportsIndex], dtype: Any, *, writable: bool = False
    ) -> np.ndarray:
        """The memory as an array of ``shape`` and NumPy ``dtype`` that keeps this buffer alive.

        By default the array is read-only and the buffer counts as shared from now on (never
        donated). With ``writable=True`` the caller fills the buffer and drops the array before
        anyone else sees it.

        Raises:
            TypeError: from NumPy, if shape and dtype need more than 2**62 bytes.
            ValueError: if they need more bytes than the buffer has.

        >>> empty(8).numpy((2,), "float32", writable=True).shape
        (2,)
        """
        window = _window_at(self.ptr)
        window.buffer = self
        array = np.ndarray(shape, getattr(dtype, "numpy", dtype), window)
        if array.nbytes > self.nbytes:
            raise ValueError(
                f"[buffer] shape {tuple(shape)} of {array.dtype} takes {array.nbytes} bytes, but "
                f"the buffer has {self.nbytes}; pass the node's own shape and dtype"
            )
        if not writable:
            self.writable = False
            # By position, which the stub lacks: a fourth of the time of flags.writeable = False.
            array.setflags(False)  # type: ignore[call-arg]
        return array


class Lost(Buffer):
    """In place of a value that an interrupted program was writing over: whoever asks is told."""

    __slots__ = ()

    def __init__(self, nbytes: int) -> None:
        self.nbytes = nbytes
        self.owner = None
        self.writable = False

    def __repr__(self) -> str:
        return f"<Lost {self.nbytes} bytes>"

    @property
    def ptr(self) -> int:  # type: ignore[override]
        """None.

        Raises:
            LostValueError: always.
        """
        raise LostValueError(
            f"[jit] a value of {self.nbytes} bytes was lost when Ctrl-C, or another signal, ended "
            "the program that was writing its successor in the same memory; give the tensor a "
            "value again (copy_, load_state_dict) before it is read"
        )


def empty(nbytes: int) -> Buffer:
    """A writable buffer of ``nbytes`` (0 is fine) uninitialised bytes.

    Raises:
        OutOfMemoryError: if there is no room for it.

    >>> empty(100).nbytes
    100
    """
    if nbytes <= 4096:
        size = (nbytes + 63) & -64 or 64
    else:
        size = size_class(nbytes)
    made = _new(Buffer)
    made.owner = None
    try:
        free = free_lists[size]
        made.ptr = free.pop() if size <= SMALL else free.take()  # type: ignore[attr-defined]
    except (KeyError, IndexError):
        made.ptr = new_block(size)
        free = free_lists[size]
    made.nbytes = nbytes
    made.owner = free
    made.writable = True
    return made


def from_numpy(array: np.ndarray) -> Buffer:
    """The memory of ``array``, shared: no copy, kept alive, never donated.

    Raises:
        ValueError: if ``array`` is not C-contiguous or is in another byte order.

    >>> from_numpy(np.zeros(3, np.float32))
    <Buffer 12 bytes at 0x..., shared>
    """
    if not array.flags.c_contiguous or not array.dtype.isnative:
        raise ValueError(
            f"[buffer] an array of shape {array.shape}, strides {array.strides} and dtype "
            f"{array.dtype} cannot be shared, because buffers are C-contiguous and in "
            "native byte order; pass np.ascontiguousarray(array)"
        )
    try:
        pointer = _address_of(probe(array))  # a third of the time of array.ctypes.data
    except (TypeError, ValueError, BufferError):  # read-only, or a type the protocol lacks
        pointer = array.ctypes.data
    return Buffer(pointer, array.nbytes, array, False)


def view(buffer: Buffer, offset: int, nbytes: int) -> Buffer:
    """``nbytes`` of ``buffer`` from ``offset`` on, as a buffer that keeps the whole alive.

    Raises:
        ValueError: if they do not lie inside it.

    >>> view(empty(100), 64, 36).nbytes
    36
    """
    if offset < 0 or nbytes < 0 or offset + nbytes > buffer.nbytes:
        raise ValueError(
            f"[buffer] bytes {offset} to {offset + nbytes} lie outside a buffer of "
            f"{buffer.nbytes}; ask for a range inside it"
        )
    return Buffer(buffer.ptr + offset, nbytes, buffer, buffer.writable)


# While the interpreter takes modules apart, a finaliser no longer finds the names it uses.
atexit.register(delattr, Buffer, "__del__")
