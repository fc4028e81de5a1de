"""Results written over operands: which output of a kernel may share the memory of which of its
inputs.

Input: kernels in order with what their buffers are. Output: for a node, the node whose memory it
takes over. That is safe where the kernel reads the operand only at the very index it stores to, in
the same iteration of every loop, and nothing reads the operand afterwards, in it or later.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from lamella.compiler.walk import expressions, statement_roots, statements
from lamella.ir.loops import Kernel, Load, Store

__all__ = ["in_place", "with_alias"]


def in_place(kernel: Kernel) -> dict[str, list[str]]:
    """For each buffer the kernel only writes, the inputs of its size of element it may share memory
    with.
    """
    stores: dict[str, list[Store]] = {}
    loads: dict[str, list[Load]] = {}
    late: dict[str, set[str]] = {}  # buffer stored to -> buffers read after that
    for s in statements((kernel.body,)):
        for e in expressions(statement_roots(s)):
            if isinstance(e, Load):
                loads.setdefault(e.buffer, []).append(e)
                for read_after in late.values():
                    read_after.add(e.buffer)
        if isinstance(s, Store):
            stores.setdefault(s.buffer, []).append(s)
            late.setdefault(s.buffer, set())
    found: dict[str, list[str]] = {}
    for out in kernel.buffers:
        written = stores.get(out.name, [])
        if out.mode != "out" or len(written) != 1 or written[0].mask is not None:
            continue
        index = written[0].index
        found[out.name] = [
            b.name for b in kernel.buffers
            if b.mode == "in" and b.dtype.itemsize == out.dtype.itemsize
            and b.name not in late[out.name]
            and all(load.index == index and load.mask is None for load in loads.get(b.name, []))
        ]  # fmt: skip
    return found


def with_alias(kernel: Kernel, pairs: Mapping[str, str]) -> Kernel:
    """The kernel, told which of its outputs share memory with which input."""
    if not pairs:
        return kernel
    buffers: Sequence[object] = [
        replace(b, alias=pairs[b.name]) if b.name in pairs else b for b in kernel.buffers
    ]
    return replace(kernel, buffers=tuple(buffers))  # type: ignore[arg-type]
