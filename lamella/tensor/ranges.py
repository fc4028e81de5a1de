"""How many numbers a range has, and whether a type holds them: what ``arange`` asks.

Input: the bounds and the step of a range, which may be sizes that are known only when a compiled
function runs. Output: its length, as a number or a size.
"""
from __future__ import annotations

import math
from typing import Any

from lamella.dtypes import DType, int64
from lamella.errors import DTypeError, OptionError, ShapeError
from lamella.ir.dim import Dim, Size, ceildiv
from lamella.tensor.host import integer_range

__all__ = ["check_counted", "check_range", "count"]

Number = float | Dim


def count(start: Number, stop: Number, step: Number) -> Size:
    """How many numbers there are from ``start`` to ``stop`` by ``step``.

    Raises:
        OptionError: for a step of 0, or an endless range.
        ShapeError: for one that is not known yet.

    >>> count(0, 7, 2), count(0, Dim("n"), 1)
    (4, n)
    """
    if step == 0:
        raise OptionError("[arange] a step of 0 never arrives; use another step")
    if isinstance(start, Dim) or isinstance(stop, Dim) or isinstance(step, Dim):
        return _open_count(start, stop, step)
    if all(isinstance(v, int) for v in (start, stop, step)):
        steps = range(int(start), int(stop), int(step))
        return max(0, (steps.stop - steps.start - (1 if step > 0 else -1)) // steps.step + 1)
    if not (math.isfinite(start) and math.isfinite(stop) and not math.isnan(step)):
        raise OptionError(
            f"[arange] from {start} to {stop} by {step} is no finite count; give finite numbers"
        )
    return max(0, math.ceil((stop - start) / step))


def _open_count(start: Any, stop: Any, step: Number) -> Size:
    """The count between sizes that are known only when a compiled function runs."""
    if type(step) is not int:
        raise ShapeError(
            f"[arange] from {start} to {stop} by {step}: the count is known only when the program "
            "runs; use whole numbers, or leave that axis out of dynamic=..."
        )
    length = stop - start if step > 0 else start - stop
    if type(length) is Dim and not length.is_symbol and length < 0:
        return 0
    return ceildiv(length, abs(step))


def check_range(start: Number, stop: Number, step: Number) -> None:
    """Raise unless all are numbers, or sizes.

    Raises:
        DTypeError: for something else.
    """
    for value in (start, stop, step):
        if not isinstance(value, int | float | Dim):
            raise DTypeError(
                f"[arange] {type(value).__name__} {value!r:.40} is no number; give numbers, or "
                "0-d tensors"
            )


def check_counted(kind: DType, start: Number, step: Number, size: Size) -> None:
    """Raise unless the first and the last number of a range fit an integer type."""
    if kind.kind not in "iu" or size == 0 or (kind is int64 and type(size) is Dim):
        return
    least, most = integer_range(kind)
    last: Any = size - 1
    for value in (start, start + step * last):
        if not least <= value <= most:
            raise OptionError(
                f"[arange] {value} does not fit {kind.name}, whose range is {least} to {most}; "
                "choose a wider dtype"
            )
