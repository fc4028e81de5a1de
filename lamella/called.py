"""The public function that a user called, for the prefix of an error raised somewhere inside it.

Input: the stack, when an error is made; nothing is recorded before, so calls pay nothing. Output: a
name, or None where the error belongs to no call: it was found when a value was computed, long after
the operation was recorded.

Invariant: what is looked at is the stack from the error out to the first frame of other code than
Lamella's and of what that uses, so that a function which runs a user's function is not blamed for
what that one calls.
"""

from __future__ import annotations

import functools
import inspect
import sys
from types import CodeType, FrameType, ModuleType

__all__ = ["called"]

_COMPUTING = ("lamella.runtime", "lamella.compiler")  # their errors name what was recorded
_INSIDE = ("lamella.ops", "lamella.ir", "lamella.graph", *_COMPUTING)  # parts of functions
_SPACES = ("lamella.linalg",)  # modules that are no packages and export functions of others
_BETWEEN = frozenset({"numpy", *sys.stdlib_module_names})  # a function of ours may use them


def called(depth: int = 1) -> str | None:
    """The name by which the user's code, as its line says, called the function that is running;
    else that of the outermost public function. ``depth``: how many frames are the error's own.
    """
    frame: FrameType | None = sys._getframe(depth)
    while frame is not None and not _is_ours(frame):
        frame = frame.f_back  # the class of the error, if it is a user's
    inside: list[FrameType] = []
    while frame is not None and (_is_ours(frame) or _root(frame) in _BETWEEN):
        if _module(frame).startswith(_COMPUTING):
            return None
        if _is_ours(frame):
            inside.append(frame)
        frame = frame.f_back
    written = None if frame is None else _written(frame.f_code, frame.f_lasti)
    loaded = _loaded()
    if written is not None and (
        _is_method(inside[-1], written)
        or _means(written, {each.f_code for each in inside}, loaded)
    ):  # fmt: skip
        return written
    packages = [each for each in loaded if hasattr(each, "__path__") or each.__name__ in _SPACES]
    return next((name for each in reversed(inside) if (name := _exported(each, packages))), None)


def _module(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", ""))


def _root(frame: FrameType) -> str:
    return _module(frame).partition(".")[0]


def _is_ours(frame: FrameType) -> bool:
    return _root(frame) == "lamella"


def _loaded() -> list[ModuleType]:
    """The modules of this package that somebody has imported and that functions come from."""
    return [
        module
        for name, module in tuple(sys.modules.items())
        if (name == "lamella" or name.startswith("lamella.")) and not name.startswith(_INSIDE)
    ]


@functools.lru_cache(maxsize=64)  # a loop may meet the same error again and again
def _written(code: CodeType, last: int) -> str | None:
    """The last name of the expression that is called by the instruction at ``last``: ``take`` in
    ``lm.take(x, i)``.
    """
    import dis  # when there is an error

    done = [each for each in dis.get_instructions(code) if each.offset <= last]
    call = done[-1].positions if done else None
    if call is None or call.lineno is None:
        return None  # as with -X no_debug_ranges
    for each in reversed(done[:-1]):
        place = each.positions
        begins = place and (place.lineno, place.col_offset) == (call.lineno, call.col_offset)
        if begins and each.opname.startswith("LOAD_") and isinstance(each.argval, str):
            return each.argval
    return None


def _code(value: object) -> CodeType | None:
    """The code that a call of a function or class runs first."""
    if inspect.isclass(value):
        value = value.__init__
    elif not inspect.isfunction(value):
        return None
    return getattr(inspect.unwrap(value), "__code__", None)


def _is_method(frame: FrameType, name: str) -> bool:
    """Whether a frame runs the method ``name`` of something that tensors give: ``x.at[i].add``."""
    return frame.f_code.co_name == name and _module(frame).startswith("lamella.tensor")


def _means(name: str, running: set[CodeType], modules: list[ModuleType]) -> bool:
    """Whether a public function, class or method of that name is among what runs."""
    if name.startswith("_"):
        return False
    core = sys.modules.get("lamella.tensor.tensor")
    method = getattr(getattr(core, "Tensor", None), name, None)
    return any(_code(found) in running for found in (method, *(vars(m).get(name) for m in modules)))


def _exported(frame: FrameType, packages: list[ModuleType]) -> str | None:
    """The name of the public function that a frame runs, or a function made in it; None if it is
    no such function.
    """
    module = sys.modules.get(_module(frame))
    name = frame.f_code.co_qualname.partition(".")[0]
    if module is None or module.__name__.startswith(_INSIDE):
        return None
    function = vars(module).get(name)
    if name not in getattr(module, "__all__", ()) or not inspect.isfunction(function):
        return None
    for each in packages:
        if name not in getattr(each, "__all__", ()):
            continue
        if _code(getattr(each, name)) is _code(function):  # which it may import only now
            return name
    return None
