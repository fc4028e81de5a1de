"""Every exception Lamella raises, and the form of their messages.

A message reads ``[op] what happened (shapes, dtypes), why it is not allowed, how to fix it``. User
errors are also the builtin kind a reader expects (ValueError, TypeError, IndexError); faults at run
time and internal errors are apart. ``op`` is the public function that the user called, whichever
part of it found the mistake.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from lamella.called import called

__all__ = [
    "AxisError", "CheckError", "CompilerError", "DTypeError", "ExchangeError", "FileFormatError",
    "GradientError", "LamellaError", "LamellaIndexError", "LinAlgError", "MissingRuleError",
    "NaNError", "OptionError", "OutOfMemoryError", "ShapeError", "TraceError", "did_you_mean",
]  # fmt: skip


class LamellaError(Exception):
    """The base of every error raised on purpose by Lamella."""


class _ArgumentError(LamellaError):
    """Arguments that a function does not take: the message begins with the function that the user
    called, instead of the part of it that found out.
    """

    def __init__(self, message: str = "") -> None:
        op, bracket, rest = str(message).partition("]")
        if bracket and op.startswith("["):
            message = f"[{called(2) or op[1:]}]{rest}"
        super().__init__(message)


class ShapeError(_ArgumentError, ValueError):
    """Shapes or axes that do not fit the operation."""


class AxisError(ShapeError, IndexError):
    """An axis that the tensor has not."""


class DTypeError(_ArgumentError, TypeError):
    """An element type the operation does not take."""


class LamellaIndexError(_ArgumentError, IndexError):
    """An index outside its axis."""


class OptionError(_ArgumentError, ValueError):
    """An option, name or value that is not one of those allowed."""


class ExchangeError(OptionError, BufferError):
    """Memory that cannot be shared with another library as it is asked for."""


class FileFormatError(LamellaError, ValueError):
    """A file that is truncated, damaged, hostile or of another format."""


class GradientError(LamellaError, RuntimeError):
    """A derivative asked for where none is recorded, or a change that would lose one."""


class TraceError(LamellaError, RuntimeError):
    """Something a traced function did that a compiled program cannot repeat faithfully."""


class CheckError(LamellaError, ValueError):
    """A condition given to ``lm.check`` that does not hold."""


class NaNError(LamellaError, FloatingPointError):
    """A NaN in a computed value, found because ``config.debug_nans`` is on."""


class LinAlgError(LamellaError, ValueError):
    """A matrix that a factorisation does not exist for: singular, not positive definite …"""


class MissingRuleError(LamellaError, NotImplementedError):
    """A primitive without the rule a transformation needs; ``repair``: how to give it one."""

    def __init__(self, op: str, transform: str, method: str, repair: str = "") -> None:
        super().__init__(
            f"[{op}] has no rule for {transform}, so the result would be wrong if it went on; "
            f"{repair or f'write {method} in the class of the primitive'}, or keep {op} outside "
            f"{transform}"
        )


class OutOfMemoryError(LamellaError, MemoryError):
    """A program whose plan needs more memory than there is."""


class LostValueError(LamellaError, RuntimeError):
    """A value that an interrupted program was writing over, of which nothing is left."""


class CompilerError(LamellaError, RuntimeError):
    """An internal fault of the compiler: never the user's mistake, always worth reporting."""


def did_you_mean(name: object, known: Iterable[str]) -> str:
    """A sentence naming the closest of ``known`` and the whole list, for messages about unknown
    names.

    >>> did_you_mean("relu6x", ["relu", "relu6"])
    "did you mean 'relu6'? Known: relu, relu6"
    """
    names = sorted(known)
    close = difflib.get_close_matches(name, names, n=1) if isinstance(name, str) else []
    hint = f"did you mean {close[0]!r}? " if close else ""
    return f"{hint}Known: {', '.join(names)}"
