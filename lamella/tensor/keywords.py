"""Keyword names: synonyms of PyTorch's (``dim``, ``keepdim``, ``input``) and NumPy's (``a_min``).

Input: a function. Output: the same function, which also takes the synonyms, and says which option
was meant when a name is not known. Calls without keywords pay one dictionary test.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final, TypeVar

from lamella.errors import OptionError, ShapeError, did_you_mean
from lamella.graph import names as naming
from lamella.ir.node import Node

__all__ = ["SYNONYMS", "with_synonyms"]

Function = TypeVar("Function", bound=Callable[..., Any])

SYNONYMS: Final = {
    "dim": "axis", "keepdim": "keepdims", "dims": "axis", "axes": "axis", "input": "x",
    "other": "y", "unbiased": "correction", "ddof": "correction", "decimals": "decimals",
    "size": "shape", "shifts": "shift", "diagonal": "k", "p": "ord", "a": "x", "a_min": "min",
    "a_max": "max", "M": "m", "interpolation": "method", "steps": "num", "end": "stop",
    "rcond": "rtol", "v": "values", "axis": "dim",
}  # fmt: skip


def with_synonyms(function: Function) -> Function:
    """``function`` taking PyTorch's and NumPy's names of its keyword options too.

    Raises (when called):
        OptionError: for a keyword that is neither an option nor a synonym of one, or given twice.

    >>> @with_synonyms
    ... def total(x, axis=None, keepdims=False):
    ...     return axis, keepdims
    >>> total(1, dim=0, keepdim=True)
    (0, True)
    >>> total(1, keepdms=True)
    Traceback (most recent call last):
    lamella.errors.OptionError: [total] no option 'keepdms'; did you mean 'keepdims'? ...
    """
    code = function.__code__  # inspect.signature would take most of the time to import this package
    known = list(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])
    names = frozenset(known)

    @functools.wraps(function)
    def call(*args: object, **options: object) -> object:
        if options and not names.issuperset(options):
            options = _translate(function.__name__, known, options)
        if naming.state.active and "axis" in names:
            args, options = _counted(function.__name__, known, args, options)
        return function(*args, **options)

    return call  # type: ignore[return-value]


def _translate(name: str, known: list[str], options: dict[str, object]) -> dict[str, object]:
    found: dict[str, object] = {}
    for option, value in options.items():
        if value is None and option in ("dtype", "out") and option not in known:
            continue  # np.std(x) passes them on
        target = option if option in known else SYNONYMS.get(option, option)
        if target in ("axis", "dim") and target not in known and "axes" in known:
            target = "axes"
        if target not in known:
            raise OptionError(f"[{name}] no option {option!r}; {did_you_mean(option, known)}")
        if target in found:
            raise OptionError(
                f"[{name}] option {target!r} is given twice, once as a synonym; give it once"
            )
        if option == "unbiased":
            value = 1 if value else 0
        found[target] = value
    return found


def _counted(
    name: str, known: list[str], args: tuple[Any, ...], options: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Arguments with axes given by name as numbers."""
    place = known.index("axis")
    axis = args[place] if place < len(args) else options.get("axis")
    wanted = axis if isinstance(axis, (tuple, list)) else (axis,)
    if not any(isinstance(each, str) for each in wanted):
        return args, options
    node = getattr(args[0] if args else next(iter(options.values())), "node", None)
    names = naming.names_of(node) if isinstance(node, Node) else ()
    if not any(names):
        return args, options
    numbers = []
    for each in wanted:
        if isinstance(each, str) and each not in names:
            raise ShapeError(
                f"[{name}] no axis is called {each!r}: the axes are {naming.text(names)}; "
                "name them with .named(...)"
            )
        numbers.append(names.index(each) if isinstance(each, str) else each)
    found: Any = tuple(numbers) if isinstance(axis, (tuple, list)) else numbers[0]
    if place < len(args):
        return (*args[:place], found, *args[place + 1 :]), options
    return args, {**options, "axis": found}
