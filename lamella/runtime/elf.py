"""Loading x86-64 object files without LLVM: a warm start then never imports it (55 ms, 42 MB here).

Input: the bytes of a relocatable ELF file. Output: addresses of the functions it defines, in memory
that is readable and executable, never writable at the same time. Only what our own code needs is
understood: constant sections and relative or 64-bit relocations between the file's own symbols.
Anything else is ``None``: the caller hands the file to LLVM instead. Field layouts: System V ABI,
AMD64 supplement.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from lamella.runtime import os_host

__all__ = ["load_elf"]

_FILE: Final = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION: Final = struct.Struct("<IIQQQQIIQQ")
_SYMBOL: Final = struct.Struct("<IBBHQQ")
_RELOCATION: Final = struct.Struct("<QQq")
_IDENT: Final = b"\x7fELF\x02\x01\x01"  # 64-bit, little-endian
_RELOCATABLE, _X86_64 = 1, 62
_SYMBOLS, _RELA, _NOBITS = 2, 4, 8  # section types
_WRITE, _ALLOC = 1, 2  # section flags
_R_64, _R_PC32, _R_PLT32, _R_PC64 = 1, 2, 4, 24
_R_GOT: Final = frozenset({9, 41, 42})  # relative to a word that holds the symbol's address


class _UnsupportedError(Exception):
    """The file needs more than this loader does."""


@dataclass(slots=True)
class _Section:
    name: str
    kind: int
    flags: int
    data: bytes
    link: int
    info: int
    align: int
    place: int = -1  # offset in the image, -1 while it has none


@dataclass(slots=True)
class _Symbol:
    name: str
    section: int
    value: int
    function: bool


def load_elf(data: bytes) -> Mapping[str, int] | None:
    """The addresses of an object file's global functions, loaded for good; None if it cannot be.

    >>> load_elf(b"not an object file") is None
    True
    """
    if not hasattr(os_host, "protect_code"):
        return None
    try:
        sections = _sections(data)
        symbols = _symbols(sections)
        image = _layout(sections)
        got = _got_entries(sections, len(image))
        image += bytes(8 * len(got))
        base = os_host.map_pages(len(image) or 1)
        if not base:
            return None
        try:
            _relocate(image, base, sections, symbols, got)
        except (_UnsupportedError, struct.error, IndexError):
            os_host.unmap_pages(base, len(image))
            return None
    except (_UnsupportedError, struct.error, IndexError, ValueError):
        return None
    ctypes.memmove(base, bytes(image), len(image))
    if not os_host.protect_code(base, len(image)):
        os_host.unmap_pages(base, len(image))
        return None
    return {
        s.name: base + sections[s.section].place + s.value
        for s in symbols
        if s.function and 0 < s.section < len(sections) and sections[s.section].place >= 0
    }


def _text(table: bytes, start: int) -> str:
    return table[start : table.index(b"\0", start)].decode("ascii", "replace")


def _sections(data: bytes) -> list[_Section]:
    if len(data) < _FILE.size or not data.startswith(_IDENT):
        raise _UnsupportedError
    header = _FILE.unpack_from(data)
    kind, machine, table, count, names = header[1], header[2], header[6], header[12], header[13]
    if (kind, machine) != (_RELOCATABLE, _X86_64):
        raise _UnsupportedError
    rows = [_SECTION.unpack_from(data, table + i * _SECTION.size) for i in range(count)]
    strings = data[rows[names][4] : rows[names][4] + rows[names][5]]
    found = []
    for name, kind, flags, _, offset, size, link, info, align, _ in rows:
        content = b"" if kind == _NOBITS else data[offset : offset + size]
        if len(content) != size:  # truncated, or variables that start at zero
            raise _UnsupportedError
        found.append(_Section(_text(strings, name), kind, flags, content, link, info, align))
    return found


def _symbols(sections: list[_Section]) -> list[_Symbol]:
    found = []
    for section in sections:
        if section.kind == _SYMBOLS:
            strings = sections[section.link].data
            for name, info, _, index, value, _ in _SYMBOL.iter_unpack(section.data):
                exported = info >> 4 == 1 and info & 15 == 2  # global function
                found.append(_Symbol(_text(strings, name), index, value, exported))
    return found


def _layout(sections: list[_Section]) -> bytearray:
    """The image before relocation; every section that code reads gets its place."""
    image = bytearray()
    for section in sections:
        if not section.flags & _ALLOC or section.name == ".eh_frame":
            continue  # nothing unwinds through kernels
        if section.flags & _WRITE and not section.name.startswith(".data.rel.ro"):
            if section.data:
                raise _UnsupportedError  # variables
            continue
        align = max(section.align, 1)
        if align > 4096:
            raise _UnsupportedError
        image += bytes(-len(image) % align)
        section.place = len(image)
        image += section.data
    image += bytes(-len(image) % 8)
    return image


def _relocations(sections: list[_Section]) -> list[tuple[int, int, int, int]]:
    """(place in the image, type, symbol, addend) of each relocation that matters."""
    found = []
    for section in sections:
        if section.kind != _RELA:
            continue
        target = sections[section.info]
        if target.place < 0:
            continue
        for offset, info, addend in _RELOCATION.iter_unpack(section.data):
            if offset + 4 > len(target.data):
                raise _UnsupportedError
            found.append((target.place + offset, info & 0xFFFFFFFF, info >> 32, addend))
    return found


def _got_entries(sections: list[_Section], start: int) -> dict[int, int]:
    """Where in the image the address of each symbol that is read through a table goes."""
    wanted = dict.fromkeys(s for _, kind, s, _ in _relocations(sections) if kind in _R_GOT)
    return {symbol: start + 8 * i for i, symbol in enumerate(wanted)}


def _relocate(
    image: bytearray,
    base: int,
    sections: list[_Section],
    symbols: list[_Symbol],
    got: dict[int, int],
) -> None:
    """Write the addresses the image needs once it lies at ``base``."""

    def address(index: int) -> int:
        symbol = symbols[index]
        if not 0 < symbol.section < len(sections) or sections[symbol.section].place < 0:
            raise _UnsupportedError  # defined elsewhere, such as a C function
        return base + sections[symbol.section].place + symbol.value

    for index, place in got.items():
        struct.pack_into("<Q", image, place, address(index))
    for place, kind, index, addend in _relocations(sections):
        if kind in (_R_PC32, _R_PLT32):
            struct.pack_into("<i", image, place, address(index) + addend - base - place)
        elif kind in _R_GOT:
            struct.pack_into("<i", image, place, got[index] + addend - place)
        elif kind == _R_64:
            struct.pack_into("<Q", image, place, (address(index) + addend) & (2**64 - 1))
        elif kind == _R_PC64:
            struct.pack_into("<q", image, place, address(index) + addend - base - place)
        else:
            raise _UnsupportedError
