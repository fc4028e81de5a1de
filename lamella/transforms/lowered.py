"""A compiled function to look at: its graph, kernels and memory.

Input: what one trace was compiled to. Output: :class:`Lowered`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lamella.errors import OptionError
from lamella.ir.node import Node

if TYPE_CHECKING:
    from lamella.compiler.blueprint import Blueprint

__all__ = ["Lowered"]


@dataclass(slots=True)
class Lowered:
    """A compiled function to look at."""

    outputs: list[Node]
    kernels: list[Any]
    blueprint: Blueprint

    @property
    def memory(self) -> int:
        """Bytes a call takes at once: values between, and results but for state that is rebound."""
        return self.blueprint.memory

    def peak(self, most: int = 20) -> str:
        """The values between that are alive when they take most memory, the largest first: what
        makes them, and the first and last of the program's launches that use them.
        """
        from lamella.compiler.memory import peak

        return peak(self.blueprint, most)

    def text(self, level: int = 2) -> str:
        """What was compiled: 1 the graph, 2 and loop IR, 3 and LLVM IR, 4 and assembly."""
        from lamella.compiler import codegen
        from lamella.compiler.emit.llvm import emit_module
        from lamella.ir.text import graph_text, kernel_text
        from lamella.runtime.program import target

        if level not in (1, 2, 3, 4):
            raise OptionError(f"[lower] level {level!r:.40} is not 1, 2, 3 or 4; give one")
        parts = [graph_text(self.outputs, exact=False)]
        if level >= 2:
            parts += [kernel_text(kernel) for kernel in self.kernels]
        if level >= 3:
            parts.append(emit_module(self.kernels, target()))
        if level >= 4:
            parts.append(codegen.assembly(self.kernels, target()))
        return "\n".join(parts)
