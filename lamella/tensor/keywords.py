"""Keyword names: PyTorch's synonyms (``dim``, ``keepdim``, ``input``, ``other``) and unknown ones.

Input: a function. Output: the same function, which also takes the synonyms, and says which option
was meant when a name is not known. Calls without keywords pay one dictionary test.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final, TypeVar

from lamella.errors import OptionError, did_you_mean

__all__ = ["SYNONYMS", "with_synonyms"]

Function = TypeVar("Function", bound=Callable[..., Any])

SYNONYMS: Final = {
    "dim": "axis", "keepdim": "keepdims", "dims": "axis", "axes": "axis", "input": "x",
    "other": "y", "unbiased": "correction", "ddof": "correction", "decimals": "decimals",
    "size": "shape",
}  # fmt: skip


def with_synonyms(function: Function) -> Function:
    """``function`` taking PyTorch's names of its keyword options too.

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
        return function(*args, **options)

    return call  # type: ignore[return-value]


def _translate(name: str, known: list[str], options: dict[str, object]) -> dict[str, object]:
    found: dict[str, object] = {}
    for option, value in options.items():
        if value is None and option in ("dtype", "out") and option not in known:
            continue  # np.std(x) passes them on
        target = option if option in known else SYNONYMS.get(option, option)
        if target == "axis" and target not in known and "axes" in known:
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
