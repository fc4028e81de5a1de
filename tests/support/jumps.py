"""Control steps of programs on NumPy arrays: what each does to the slots."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from lamella.compiler.blueprint import Control


@dataclass(frozen=True)
class Pointer:
    """An address: an array and bytes into it."""

    array: np.ndarray[Any, Any]
    offset: int

    def __add__(self, nbytes: int) -> Pointer:
        return Pointer(self.array, self.offset + nbytes)

    def memory(self) -> np.ndarray[Any, Any]:
        """The bytes from there on."""
        return self.array.view(np.uint8)[self.offset :]


def _bytes(slot: Any) -> np.ndarray[Any, Any]:
    return slot.memory() if isinstance(slot, Pointer) else slot.view(np.uint8)


def control(step: Control, slots: list[Any], following: int) -> int:
    """Do a control step; the number of the step to go on with."""
    a, b, c = (*step.slots, 0, 0, 0)[:3]
    if step.op == "jump":
        return step.target
    if step.op == "less":
        return following if slots[a] < slots[b] else step.target
    if step.op == "move":
        for to, source in zip(step.slots[::2], step.slots[1::2], strict=True):
            slots[to] = slots[source]
    elif step.op == "add":
        for to, source in zip(step.slots[::2], step.slots[1::2], strict=True):
            slots[to] = _pointer(slots[to]) + slots[source]
    elif step.op == "scale":
        slots[a] = _pointer(slots[a]) + slots[b] * slots[c]
    elif step.op == "load":
        slots[a] = int(_bytes(slots[b])[:8].view(np.int64)[0])
    elif step.op == "store":
        _bytes(slots[a])[:8].view(np.int64)[0] = slots[b]
    elif step.op == "copy":
        _bytes(slots[a])[: slots[c]] = _bytes(slots[b])[: slots[c]]
    else:
        _bytes(slots[a])[: slots[b]] = 0
    return following


def _pointer(slot: Any) -> Any:
    return Pointer(slot, 0) if isinstance(slot, np.ndarray) else slot
