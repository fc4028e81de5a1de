"""What compiled Python code mentions: names that it reads, names and items that it may set.

Input: code objects, and those among the functions inside that are not looked into. Output: names.
"""

from __future__ import annotations

import dis
import functools
import types

__all__ = ["ITEMS", "code_names", "global_names", "read_by", "stored"]

ITEMS = "[]"  # the name of items of containers
_INDIRECT = {  # what sets attributes and items without an instruction of its own
    "setattr", "update", "vars", "__dict__", "__setattr__", "__setitem__", "exec", "setdefault",
    "pop", "clear", "insert", "appendleft", "rotate", "reverse", "sort",
}  # fmt: skip
_GLOBAL = {  # LOAD_NAME is in bodies of classes, LOAD_FROM_DICT_OR_GLOBALS since Python 3.12
    "LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS", "STORE_GLOBAL", "DELETE_GLOBAL",
}  # fmt: skip


def code_names(
    code: types.CodeType, found: set[str], unwatched: frozenset[types.CodeType]
) -> None:
    """Add the names of globals and attributes that code mentions, and functions inside it that are
    watched.
    """
    found.update(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType) and constant not in unwatched:
            code_names(constant, found, unwatched)


@functools.lru_cache(maxsize=4096)
def _of_globals(code: types.CodeType) -> frozenset[str]:
    """The names that instructions of ``code`` look up among globals, or write there; its names of
    attributes are not among them.
    """
    used = (i.argval for i in dis.get_instructions(code) if i.opname in _GLOBAL)
    return frozenset(used)


def global_names(code: types.CodeType, unwatched: frozenset[types.CodeType]) -> set[str]:
    """The globals that code mentions, or functions inside it that are watched."""
    found = set(_of_globals(code))
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType) and constant not in unwatched:
            found |= global_names(constant, unwatched)
    return found


def read_by(code: types.CodeType, unwatched: frozenset[types.CodeType]) -> set[str]:
    """The closure variables that code reads itself, or in functions inside it that are watched."""
    inner = [constant for constant in code.co_consts if isinstance(constant, types.CodeType)]
    if not unwatched.intersection(inner):
        return set(code.co_freevars)
    found = {i.argval for i in dis.get_instructions(code) if i.opname.endswith("DEREF")}
    for each in inner:
        if each not in unwatched:
            found |= read_by(each, unwatched)
    return found


@functools.lru_cache(maxsize=4096)
def stored(code: types.CodeType) -> frozenset[str]:
    """The names of variables and attributes that instructions of ``code`` set, or of functions
    inside it; ``ITEMS`` if items of containers, everything (``"*"``) if that cannot be told.
    """
    found = {
        ITEMS if i.opname in ("STORE_SUBSCR", "STORE_SLICE") else str(i.argval)
        for i in dis.get_instructions(code) if i.opname.startswith("STORE_")
    }  # fmt: skip
    if not _INDIRECT.isdisjoint(code.co_names):
        found.add("*")
    inner = [constant for constant in code.co_consts if isinstance(constant, types.CodeType)]
    return frozenset(found).union(*map(stored, inner))
