"""Named tensors in one file: the safetensors format, written atomically and read as untrusted
input.

Layout (https://github.com/huggingface/safetensors, README "Format")::

    8 bytes       N, the header's length, little-endian unsigned
    N bytes       UTF-8 JSON: {"name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [begin,
    end]}, ...},
                  optionally "__metadata__": {"key": "text"}; padded with spaces
    the rest      the tensors' bytes, little-endian, row-major, without holes or overlaps

Input of :func:`save`: a mapping of names to tensors; input of :func:`load`: a path. Nothing in a
file is executed, and every number in it is checked before it is used. Invariant: a tensor returned
by :func:`load` lies wholly inside the memory-mapped file, is aligned for its element type and
cannot be written through.
"""

from __future__ import annotations

import json
import math
import mmap
import os
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from lamella import dtypes
from lamella.errors import DTypeError, FileFormatError, OptionError
from lamella.files import replaced

if TYPE_CHECKING:
    from lamella.tensor.tensor import Tensor

__all__ = ["MAX_HEADER", "load", "read_arrays", "read_metadata", "save"]

MAX_HEADER = 100_000_000  # bytes; the limit of the reference implementation
MAX_RANK = 64  # axes NumPy can describe
MAX_SIZE = 2**63 - 1

_CODES = {
    "BOOL": dtypes.bool_, "I8": dtypes.int8, "I16": dtypes.int16, "I32": dtypes.int32,
    "I64": dtypes.int64, "U8": dtypes.uint8, "U16": dtypes.uint16, "U32": dtypes.uint32,
    "U64": dtypes.uint64, "F16": dtypes.float16, "BF16": dtypes.bfloat16,
    "F32": dtypes.float32, "F64": dtypes.float64, "C64": dtypes.complex64,
}  # fmt: skip
_NAMES = {dtype: code for code, dtype in _CODES.items()}
_ALIGNMENT = 64  # of the first tensor's byte, so that a mapped file feeds vector loads


@dataclass(frozen=True, slots=True)
class Entry:
    """One checked header entry; ``begin`` and ``end`` are relative to the first byte after the
    header.
    """

    name: str
    dtype: dtypes.DType
    shape: tuple[int, ...]
    begin: int
    end: int


def save(
    tensors: Mapping[str, object],
    path: str | os.PathLike[str],
    *,
    metadata: Mapping[str, str] | None = None,
) -> None:
    """Write named tensors to ``path``; the old file stays whole until the new one is complete on
    disk.

    Args:
        tensors: names to tensors or NumPy arrays of any shape and any dtype of
            :mod:`lamella.dtypes`, for example ``model.state_dict()``. The file keeps the mapping's
            order.
        path: the file to create or replace.
        metadata: texts stored beside the tensors.

    Raises:
        OptionError: if ``tensors`` is no mapping or holds one, a name is not a text or is
            ``__metadata__``, or ``metadata`` holds something else than texts.
        DTypeError: for an element type the format cannot hold.

    >>> import os, tempfile, numpy as np, lamella as lm
    >>> path = os.path.join(tempfile.mkdtemp(), "a.safetensors")
    >>> lm.save({"w": np.arange(3.0)}, path, metadata={"made by": "a doctest"})
    >>> lm.load(path)["w"].tolist()
    [0.0, 1.0, 2.0]
    """
    arrays = _as_arrays(tensors)
    placed = sorted(arrays, key=lambda name: (-arrays[name].dtype.itemsize, name))
    header = _header(arrays, placed, _checked_metadata(metadata))
    with replaced(path) as file:
        file.write(header)
        for name in placed:
            file.write(arrays[name].reshape(-1).view(np.uint8).data)


def load(path: str | os.PathLike[str], *, mmap: bool = True) -> dict[str, Tensor]:
    """Read every tensor of a safetensors file.

    The file is mapped, not copied: pages load when they are touched, and the file must stay as it
    is for as long as a tensor is used. One that is replaced by another of its name (as
    :func:`lamella.save` does) stays readable; one that is written over changes the tensors; one
    that is cut short ends the process with SIGBUS when a missing page is touched, which no program
    can catch. Read what others may write to with ``mmap=False``.

    Args:
        path: the file.
        mmap: whether to map it; False reads it into memory now.

    Returns:
        names to tensors, in the header's order.

    Raises:
        FileFormatError: naming file, tensor and reason, if the file is damaged, hostile or of
            another kind.
        OSError: if it cannot be opened.

    >>> import os, tempfile, numpy as np, lamella as lm
    >>> path = os.path.join(tempfile.mkdtemp(), "a.safetensors")
    >>> lm.save({"a": np.ones((2, 3), np.float32)}, path)
    >>> lm.load(path)["a"].shape
    (2, 3)
    """
    import lamella as lm

    return {name: lm.asarray(array) for name, array in read_arrays(path, mapped=mmap).items()}


def read_arrays(path: str | os.PathLike[str], *, mapped: bool = True) -> dict[str, np.ndarray]:
    """As :func:`load`, giving read-only NumPy arrays over the mapped file, or over its bytes.

    >>> import os, tempfile, numpy as np, lamella as lm
    >>> path = os.path.join(tempfile.mkdtemp(), "a.safetensors")
    >>> lm.save({"a": np.int8(5)}, path)
    >>> read_arrays(path)
    {'a': array(5, dtype=int8)}
    """
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        entries, _, start = _read_header(file, size, path)
        whole: mmap.mmap | bytes = b""
        if size and mapped:
            whole = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        elif size:
            file.seek(0)
            whole = file.read(size)
            if len(whole) < size:
                raise _refuse(path, f"it became shorter while it was read: {len(whole)} bytes")
    return {entry.name: _array(whole, start, entry, path) for entry in entries}


def read_metadata(path: str | os.PathLike[str]) -> dict[str, str]:
    """The texts stored beside the tensors; only the header is read.

    Raises:
        FileFormatError: as :func:`load`.

    >>> import os, tempfile, lamella as lm
    >>> path = os.path.join(tempfile.mkdtemp(), "a.safetensors")
    >>> lm.save({}, path, metadata={"kind": "empty"})
    >>> read_metadata(path)
    {'kind': 'empty'}
    """
    with open(path, "rb") as file:
        return _read_header(file, os.fstat(file.fileno()).st_size, path)[1]


def _as_arrays(tensors: Mapping[str, object]) -> dict[str, np.ndarray]:
    if not isinstance(tensors, Mapping):
        raise OptionError(
            f"[save] got a {type(tensors).__name__}, but a file holds named tensors; pass a dict "
            "such as model.state_dict()"
        )
    arrays = {}
    for name, value in tensors.items():
        if not _is_text(name) or name == "__metadata__":
            raise OptionError(
                f"[save] {name!r} cannot name a tensor: names are texts (that UTF-8 can hold) "
                "other than '__metadata__'; rename it"
            )
        if isinstance(value, Mapping):
            raise OptionError(
                f"[save] {name!r} holds a {type(value).__name__}, but a file holds tensors by name "
                "and no trees; flatten it to names such as 'a.b', or pickle it"
            )
        array = np.asarray(value)
        code = array.dtype.newbyteorder("=")
        if code not in _NAMES:
            raise DTypeError(
                f"[save] tensor {name!r} has dtype {array.dtype}, which safetensors files of "
                f"Lamella do not hold; cast it to one of {', '.join(d.name for d in _NAMES)}"
            )
        little = code.newbyteorder("<") if code.byteorder == "=" and code.kind in "iufc" else code
        arrays[name] = np.ascontiguousarray(array, dtype=little).reshape(array.shape)
    return arrays


def _is_text(value: object) -> bool:
    """Whether ``value`` is a text without lone surrogates, which a file cannot hold."""
    return isinstance(value, str) and not any("\ud800" <= letter <= "\udfff" for letter in value)


def _checked_metadata(metadata: Mapping[str, str] | None) -> dict[str, str]:
    found = dict(metadata or {})
    for key, value in found.items():
        if not _is_text(key) or not _is_text(value):
            raise OptionError(
                f"[save] metadata {key!r}: {value!r} is not a text named by a text (that UTF-8 can "
                "hold); write other values with json.dumps"
            )
    return found


def _header(arrays: dict[str, np.ndarray], placed: list[str], metadata: dict[str, str]) -> bytes:
    offsets: dict[str, list[int]] = {}
    position = 0
    for name in placed:
        offsets[name] = [position, position + arrays[name].nbytes]
        position += arrays[name].nbytes
    record: dict[str, object] = {"__metadata__": metadata} if metadata else {}
    for name, array in arrays.items():
        code = _NAMES[dtypes.as_dtype(array.dtype.newbyteorder("="))]
        record[name] = {"dtype": code, "shape": list(array.shape), "data_offsets": offsets[name]}
    text = json.dumps(record, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-(len(text) + 8) % _ALIGNMENT)
    if len(text) > MAX_HEADER:
        raise OptionError(
            f"[save] names, shapes and metadata take {len(text)} bytes, more than the {MAX_HEADER} "
            "a header may have; split the tensors over several files"
        )
    return struct.pack("<Q", len(text)) + text


def _refuse(path: object, reason: str, name: str | None = None) -> FileFormatError:
    where = f"{os.fspath(path)}: tensor {name!r}" if name is not None else os.fspath(path)  # type: ignore[call-overload]
    return FileFormatError(f"[load] {where}: {reason}; the file is damaged or no safetensors file")


def _read_header(file: object, size: int, path: object) -> tuple[list[Entry], dict[str, str], int]:
    """The checked entries, the metadata and the offset of the first tensor byte."""
    prefix = file.read(8)  # type: ignore[attr-defined]
    if len(prefix) < 8:
        raise _refuse(path, f"{size} bytes are fewer than the 8 that hold the header's length")
    (length,) = struct.unpack("<Q", prefix)
    if length > MAX_HEADER:
        raise _refuse(
            path, f"it states a header of {length} bytes, more than the {MAX_HEADER} allowed"
        )
    if length > size - 8:
        raise _refuse(path, f"it states a header of {length} bytes, but only {size - 8} follow")
    text = file.read(length)  # type: ignore[attr-defined]
    if text[:1] != b"{":
        raise _refuse(path, "its header does not begin with '{'")
    record = _parse(text, path)
    metadata = _metadata(record.pop("__metadata__", {}), path)
    entries = [_entry(name, value, path) for name, value in record.items()]
    _check_layout(entries, size - 8 - length, path)
    return entries, metadata, 8 + length


def _parse(text: bytes, path: object) -> dict[str, object]:
    def unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
        found = dict(pairs)
        if len(found) < len(pairs):
            names = [name for name, _ in pairs]
            twice = next(name for name in found if names.count(name) > 1)
            raise _refuse(path, f"its header has the key {twice!r} twice")
        return found

    def constant(word: str) -> object:
        raise _refuse(path, f"its header holds {word}, which is not JSON")

    try:
        record = json.loads(text.decode("utf-8"), object_pairs_hook=unique, parse_constant=constant)
    except FileFormatError:
        raise
    except RecursionError:
        raise _refuse(path, "its header is nested too deeply") from None
    except ValueError as error:
        raise _refuse(path, f"its header is not JSON ({error})") from None
    if not isinstance(record, dict):
        raise _refuse(path, "its header is no JSON object")
    return record


def _metadata(value: object, path: object) -> dict[str, str]:
    if not isinstance(value, dict) or not all(isinstance(text, str) for text in value.values()):
        raise _refuse(path, "'__metadata__' is not an object of texts")
    return value


def _entry(name: str, value: object, path: object) -> Entry:
    if not isinstance(value, dict) or set(value) != {"dtype", "shape", "data_offsets"}:
        raise _refuse(path, "its entry is not {dtype, shape, data_offsets}", name)
    code, shape, offsets = value["dtype"], value["shape"], value["data_offsets"]
    if not isinstance(code, str) or code not in _CODES:
        raise _refuse(path, f"dtype {code!r} is not one of {', '.join(_CODES)}", name)
    dtype = _CODES[code]
    if not _whole_numbers(shape) or len(shape) > MAX_RANK:
        raise _refuse(
            path, f"its shape is no list of at most {MAX_RANK} sizes from 0 to 2^63 - 1", name
        )
    if not _whole_numbers(offsets) or len(offsets) != 2 or offsets[0] > offsets[1]:
        raise _refuse(
            path, "its data_offsets are not [begin, end] with 0 <= begin <= end < 2^63", name
        )
    needed = math.prod(shape) * dtype.itemsize
    if needed != offsets[1] - offsets[0]:
        raise _refuse(
            path,
            f"shape {shape} of {code} takes {needed} bytes, but its data has "
            f"{offsets[1] - offsets[0]}",
            name,
        )
    return Entry(name, dtype, tuple(shape), offsets[0], offsets[1])


def _whole_numbers(value: object) -> bool:
    return isinstance(value, list) and all(type(n) is int and 0 <= n <= MAX_SIZE for n in value)


def _check_layout(entries: list[Entry], available: int, path: object) -> None:
    position = 0
    for entry in sorted(entries, key=lambda entry: (entry.begin, entry.end)):
        if entry.begin != position:
            what = (
                "overlaps the one before it"
                if entry.begin < position
                else "leaves a hole before it"
            )
            raise _refuse(
                path,
                f"its data begins at byte {entry.begin} and {what} (at {position})",
                entry.name,
            )
        if entry.end > available:
            raise _refuse(
                path, f"its data ends at byte {entry.end}, but the file has {available}", entry.name
            )
        position = entry.end
    if position != available:
        raise _refuse(path, f"{available - position} bytes follow the last tensor")


def _array(whole: mmap.mmap | bytes, start: int, entry: Entry, path: object) -> np.ndarray:
    count = (entry.end - entry.begin) // entry.dtype.itemsize
    kind = entry.dtype.numpy
    if kind.kind in "iufc" and entry.dtype.itemsize > 1:
        kind = kind.newbyteorder("<")
    try:
        if not count:
            return np.empty(entry.shape, kind)
        flat = np.frombuffer(whole, kind, count, start + entry.begin)
        return np.require(flat.reshape(entry.shape), entry.dtype.numpy, "A")
    except ValueError as error:
        raise _refuse(
            path, f"NumPy cannot describe shape {entry.shape} ({error})", entry.name
        ) from None
