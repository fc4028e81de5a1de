"""Loop IR to LLVM IR text.

Input: kernels (``ir.loops.Kernel``) and a :class:`Target`. Output: one module in which each kernel
is

    define void @NAME(ptr noalias %args, i64 %begin, i64 %end)

``%args`` points to 8-byte slots: the pointers of ``kernel.buffers``, the bits of ``kernel.params``
(in a slot's low bytes), the int64 ``kernel.sizes``, and last, if ``scratch_bytes(kernel)`` is not
0, a pointer to that much memory, 64-byte aligned and private to the calling worker. A call runs the
grid iterations ``begin`` to ``end`` (exclusive).

The text needs no optimisation passes (except ``sroa`` where ``needs_sroa``): vectors are explicit,
variables are in SSA form, and every expression is written once, in the outermost loop that has its
operands. Reductions over lanes have a fixed order.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Final

from lamella.compiler.emit.llvm_function import FunctionWriter
from lamella.compiler.emit.llvm_lanes import allocations
from lamella.compiler.emit.target import Target
from lamella.compiler.mathlib import expand_math
from lamella.ir.loops import Kernel

__all__ = ["emit_module", "needs_sroa", "scratch_bytes"]

STACK_LIMIT: Final = 256 << 10
_DEPTH: Final = (
    20_000  # expressions are written recursively; deep ones come from unrolled recurrences
)


def scratch_bytes(kernel: Kernel) -> int:
    """Bytes of worker-private memory the kernel takes in an extra last slot; 0 when its scratch
    fits the stack.
    """
    total = 0
    for alloc in allocations(kernel.body.body):
        if alloc.space != "register":
            total += -(-alloc.size * alloc.dtype.itemsize // 64) * 64
    return total if total > STACK_LIMIT else 0


def needs_sroa(kernels: Sequence[Kernel]) -> bool:
    """Whether some kernel keeps arrays in registers, which LLVM's ``sroa`` has to take apart."""
    return any(a.space == "register" for k in kernels for a in allocations(k.body.body))


def emit_module(kernels: Sequence[Kernel], target: Target) -> str:
    """The LLVM IR of ``kernels``, whose names must differ.

    Raises:
        CompilerError: for a kernel no emitter could translate (a fault of the compiler).

    >>> from lamella.compiler.emit.target import named
    >>> from lamella.ir.text import parse_kernel
    >>> double = parse_kernel('''kernel double
    ...   inout x: float32
    ... grid i < 1
    ...   lanes j < 4
    ...     x[j] = add(x[j], x[j])''')
    >>> [line for line in emit_module([double], named("avx2")).splitlines() if "fadd" in line]
    ['%v7 = fadd contract <4 x float> %v6, %v6']
    """
    declares: dict[str, str] = {}
    metadata: list[str] = []
    functions = []
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, _DEPTH))
    try:
        for kernel in kernels:
            writer = FunctionWriter(
                expand_math(kernel, target.scales), target, scratch_bytes(kernel), metadata
            )
            functions.append(writer.text())
            declares.update(writer.b.declares)
    finally:
        sys.setrecursionlimit(limit)
    head = [f'target triple = "{target.triple}"', *declares.values()]
    return "\n".join(
        [*head, *functions, f"attributes #0 = {{ {target.attributes} }}", *metadata, ""]
    )
