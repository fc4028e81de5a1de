"""Where results go: over an operand that dies with them, or past the caches.

Input: a kernel. Output: for each of its outputs, the inputs whose memory it may take over, and
whether its stores are aligned, so that they may bypass the caches. Taking over is safe where the
kernel reads the operand only at the very index it stores to, in the same iteration of every loop,
and nothing reads the operand afterwards, in it or later.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from lamella.compiler.walk import expressions, statement_roots, statements
from lamella.ir.index import parts
from lamella.ir.loops import For, Kernel, Load, Store

__all__ = ["in_place", "streamable", "streamed", "with_alias"]


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


def streamable(kernel: Kernel) -> set[str]:
    """The outputs whose vector stores are all aligned, so that they may bypass the caches.

    An index may have the variable of its lanes with the factor 1, and multiples of 64 elements.
    """
    lanes = {s.var for s in statements((kernel.body,)) if isinstance(s, For) and s.kind == "lanes"}
    aligned: dict[str, bool] = {}
    for s in statements((kernel.body,)):
        if isinstance(s, Store):
            const, terms = parts(s.index)
            rest = [const, *(c for t, c in terms.items() if t not in lanes)]
            fits = all(isinstance(c, int) and c % 64 == 0 for c in rest)
            steps = [c for t, c in terms.items() if t in lanes]
            fits = fits and steps == [1] and s.mask is None
            aligned[s.buffer] = aligned.get(s.buffer, True) and fits
    return {b.name for b in kernel.buffers if b.mode == "out" and aligned.get(b.name, False)}


def streamed(kernel: Kernel, names: Collection[str]) -> Kernel:
    """The kernel, told which of its outputs nothing reads soon."""
    if not names:
        return kernel
    buffers = tuple(replace(b, streamed=b.name in names) for b in kernel.buffers)
    return replace(kernel, buffers=buffers)


def with_alias(kernel: Kernel, pairs: Mapping[str, str]) -> Kernel:
    """The kernel, told which of its outputs share memory with which input."""
    if not pairs:
        return kernel
    buffers: Sequence[object] = [
        replace(b, alias=pairs[b.name]) if b.name in pairs else b for b in kernel.buffers
    ]
    return replace(kernel, buffers=tuple(buffers))  # type: ignore[arg-type]
