"""Hyper-parameters that may change between the calls of a compiled step without a retrace.

A :class:`ParamGroup` reads like PyTorch's dict. Each number in it (also inside tuples) is kept a
second time as a 0-d float64 tensor, which is what an update computes with: inside ``jit`` it is
state like a parameter. What cannot be a tensor (flags, None, and whether a number is zero, which
decides what is computed) counts as a change of structure:
it bumps ``lamella.nn.module.epoch``, which makes traced functions look again.

Invariant: ``group.number(name)`` equals ``group[name]``, ``group.numbers(name)`` if it is a tuple.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

import lamella as lm
from lamella.errors import OptionError, TraceError
from lamella.nn.module import bump
from lamella.ops.leaf import scalar
from lamella.tensor.core import wrap
from lamella.tensor.pending import current_trace
from lamella.tensor.tensor import Tensor

__all__ = ["ParamGroup"]

Number = int | float


class ParamGroup(dict[str, Any]):
    """The parameters and options of one group of an optimiser."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        super().__init__()
        self._handles: dict[str, tuple[Tensor, ...]] = {}
        for name, value in options.items():
            self[name] = value

    def __setitem__(self, name: str, value: Any) -> None:
        old = self.get(name, self)
        if isinstance(value, np.generic):
            value = value.item()
        if name in self._handles and not (_is_numeric(value) and _count(value) == _count(old)):
            raise OptionError(
                f"[optim] param_groups[...][{name!r}] was {old!r:.60} and cannot become "
                f"{value!r:.60}; give a number (or as many in a tuple, where it has several)"
            )
        if _is_numeric(value):
            self._hold(name, value)
            changed = not _is_numeric(old) or _pattern(old) != _pattern(value)
        else:
            changed = old is not value
        super().__setitem__(name, value)
        if changed:
            bump()

    def __reduce__(self) -> tuple[type[ParamGroup], tuple[dict[str, Any]]]:
        return ParamGroup, (dict(self),)

    def update(self, *others: Any, **options: Any) -> None:
        """Set several options."""
        for name, value in dict(*others, **options).items():
            self[name] = value

    def setdefault(self, name: str, default: Any = None) -> Any:
        """The option, after setting it if it was missing."""
        if name not in self:
            self[name] = default
        return self[name]

    def number(self, name: str) -> Tensor:
        """The 0-d float64 tensor that holds the option ``name``.

        >>> ParamGroup({"lr": 0.5}).number("lr").item()
        0.5
        """
        (handle,) = self._handles[name]
        return handle

    def numbers(self, name: str) -> tuple[Tensor, ...]:
        """The 0-d float64 tensors that hold the option ``name``, which is a tuple."""
        return self._handles[name]

    def jit_guard(self) -> list[tuple[str, object]]:
        """What a compiled step has baked in: options that are no numbers, which numbers are 0."""
        return [
            (
                name,
                _pattern(value)
                if _is_numeric(value)
                else len(value)
                if name == "params"
                else value,
            )
            for name, value in self.items()
        ]

    def _hold(self, name: str, value: Any) -> None:
        if current_trace() is not None:
            raise TraceError(
                f"[optim] param_groups[...][{name!r}] was set inside a function being transformed, "
                "where its value would be frozen; set it between calls, which needs no retrace"
            )
        values = value if isinstance(value, tuple) else (value,)
        handles = self._handles.get(name, ())
        if len(handles) != len(values):
            handles = tuple(wrap(scalar(0.0, lm.float64)) for _ in values)
            self._handles[name] = handles
        for handle, number in zip(handles, values, strict=True):
            if isinstance(number, Tensor):
                handle.rebind(number.detach().astype(lm.float64).node)
            else:
                handle.rebind(scalar(float(number), lm.float64))


def _is_number(value: object) -> bool:
    return (isinstance(value, (int, float)) and not isinstance(value, bool)) or (
        isinstance(value, Tensor) and value.ndim == 0
    )


def _is_numeric(value: object) -> bool:
    return _is_number(value) or (
        isinstance(value, tuple) and len(value) > 0 and all(_is_number(item) for item in value)
    )


def _count(value: Any) -> int:
    return len(value) if isinstance(value, tuple) else -1


def _pattern(value: Any) -> tuple[bool, ...]:
    """Which numbers are zero; a tensor counts as other than zero."""
    values = value if isinstance(value, tuple) else (value,)
    return tuple(isinstance(item, Tensor) or item != 0 for item in values)
