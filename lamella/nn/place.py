"""Where in a model an error was raised: a note below its message, as tracebacks show it.

Input: an error on its way out of a module's ``forward``. Output: the error, with one note that
every module around makes longer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

from lamella.errors import LamellaError

if TYPE_CHECKING:
    from lamella.nn.module import Module

__all__ = ["tell_place"]

_left: Final[WeakKeyDictionary[LamellaError, tuple[str, Module]]] = WeakKeyDictionary()
"""The last module that an error left, and the path from there to the first."""


def tell_place(error: LamellaError, module: Module) -> None:
    """Note that an error left the ``forward`` of ``module``, which contains those it left before.

    >>> import lamella as lm
    >>> model = lm.nn.Sequential(lm.nn.ReLU(), lm.nn.Linear(4, 2))
    >>> try:
    ...     model(lm.ones((1, 3)))
    ... except lm.LamellaError as error:
    ...     print(error.__notes__[0])
    in module 1 of Sequential: Linear(in_features=4, out_features=2, bias=True)
    """
    path, inner = _left.get(error, ("", None))
    if inner is None:
        error.add_note("in " + repr(module).partition("\n")[0].rstrip("("))
    else:
        name = next((name for name, each in module.named_modules() if each is inner), "")
        about = error.__notes__.pop().removeprefix("in ").removeprefix(f"module {path} of ")
        about = about.removeprefix(f"{type(inner).__name__}: ") if path else about
        path = ".".join(part for part in (name, path) if part)
        error.add_note(f"in module {path} of {type(module).__name__}: {about}")
    _left[error] = (path, module)
