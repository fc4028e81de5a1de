"""A compiled program as plain data: kernels, launches, where everything lies.

Produced by ``pipeline``, made executable by ``runtime.program``; nothing in it depends on the
process.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from lamella.compiler.memory import Temporary
from lamella.dtypes import DType
from lamella.ir.dim import Shape, Size
from lamella.ir.loops import Kernel

__all__ = ["Blueprint", "Step"]


@dataclass(frozen=True, slots=True)
class Step:
    """One launch: which kernel, over how many grid iterations, with which slots, in tasks of at
    least ``grain`` iterations.
    """

    kernel: int
    extent: Size
    slots: tuple[int, ...]
    grain: int


@dataclass(slots=True)
class Blueprint:
    """A program as data; a kernel's name is a hash of its text. Slots, in order: inputs, outputs,
    scalars, size symbols, temporaries, then the fault words.
    """

    kernels: list[Kernel]
    steps: list[Step]
    inputs: int
    outputs: list[tuple[Shape, DType]]
    scalars: int
    symbols: list[str]
    temporaries: list[Temporary]
    faults: list[tuple[int, list[str | None]]] = field(default_factory=list)  # slot, source lines
    same: dict[int, int] = field(default_factory=dict)
    """Outputs that are no work: an earlier output (its number) or an input (-1 - its number)."""
    donated: dict[int, int] = field(default_factory=dict)
    """Output -> input whose memory it may be given, if nothing else needs the input."""
