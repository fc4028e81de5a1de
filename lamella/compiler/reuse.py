"""Where results go: over an operand that dies with them, or past the caches.

Input: a kernel. Output: for each of its outputs, the inputs whose memory it may take over, and
whether its stores are aligned, so that they may bypass the caches. Taking over is safe where the
kernel reads the operand only at the very index it stores to, in the same iteration of every loop,
and nothing reads the operand afterwards, in it or later: stores that stand beside each other are
ordered for that.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations

from lamella.ir.index import parts
from lamella.ir.loops import Expr, For, If, Kernel, Load, Stmt, Store
from lamella.ir.walk import expressions, roots, statements

__all__ = ["in_place", "reads_first", "streamable", "streamed", "with_alias"]


def reads_first(kernel: Kernel) -> Kernel:
    """The kernel with stores beside each other in such an order that what reads most operands is
    stored first: an optimiser's parameter, which its new moments are made for, before those.
    """
    body = kernel.body
    return replace(kernel, body=replace(body, body=_reads_first(body.body)))


def _reads_first(body: Sequence[Stmt]) -> tuple[Stmt, ...]:
    found: list[Stmt] = []
    beside: list[Store] = []
    for s in body:
        if isinstance(s, Store):
            beside.append(s)
            continue
        found += [*_most_first(beside), _inside(s)]
        beside = []
    return (*found, *_most_first(beside))


def _inside(s: Stmt) -> Stmt:
    if isinstance(s, For):
        return replace(s, body=_reads_first(s.body))
    if isinstance(s, If):
        return replace(s, then=_reads_first(s.then), otherwise=_reads_first(s.otherwise))
    return s


def _most_first(stores: Sequence[Store]) -> Sequence[Store]:
    if len(stores) < 2:
        return stores
    reads = [_buffers(roots(s)) for s in stores]
    written = [s.buffer for s in stores]
    if len(set(written)) < len(written) or not set().union(*reads).isdisjoint(written):
        return stores
    order = sorted(range(len(stores)), key=lambda i: -len(reads[i]))
    return [stores[i] for i in order]


def _buffers(roots: Sequence[Expr]) -> set[str]:
    return {e.buffer for e in expressions(roots) if isinstance(e, Load)}


Arms = tuple[tuple[If, bool], ...]  # the branches that a statement lies in


def _placed(body: Sequence[Stmt], arms: Arms = ()) -> Iterator[tuple[Stmt, Arms]]:
    """Every statement, outer ones first, with its branches."""
    for s in body:
        yield s, arms
        if isinstance(s, For):
            yield from _placed(s.body, arms)
        elif isinstance(s, If):
            yield from _placed(s.then, (*arms, (s, True)))
            yield from _placed(s.otherwise, (*arms, (s, False)))


def _exclusive(one: Arms, other: Arms) -> bool:
    """Whether two statements lie in different branches of one choice."""
    return any(s is t and x != y for s, x in one for t, y in other)


def in_place(kernel: Kernel) -> dict[str, list[str]]:
    """For each buffer the kernel only writes, the inputs of its size of element it may share memory
    with: each element of them is read only where that of the output is stored. Several stores to
    one output must lie in branches that exclude each other, so that each element has one.
    """
    stores: dict[str, list[tuple[Store, Arms]]] = {}
    loads: dict[str, list[tuple[Load, Arms]]] = {}
    late: dict[str, set[str]] = {}  # buffer stored to -> buffers read after that
    for s, arms in _placed((kernel.body,)):
        for e in expressions(roots(s)):
            if isinstance(e, Load):
                loads.setdefault(e.buffer, []).append((e, arms))
                for name, found in stores.items():
                    if not all(_exclusive(arms, before) for _, before in found):
                        late[name].add(e.buffer)
        if isinstance(s, Store):
            stores.setdefault(s.buffer, []).append((s, arms))
            late.setdefault(s.buffer, set())
    result: dict[str, list[str]] = {}
    for out in kernel.buffers:
        written = stores.get(out.name, [])
        if out.mode != "out" or not written or any(s.mask is not None for s, _ in written):
            continue
        if not all(_exclusive(a, b) for (_, a), (_, b) in combinations(written, 2)):
            continue
        result[out.name] = [
            b.name for b in kernel.buffers
            if b.mode == "in" and b.dtype.itemsize == out.dtype.itemsize
            and b.name not in late[out.name]
            and all(_written_there(*load, written) for load in loads.get(b.name, []))
        ]  # fmt: skip
    return result


def _written_there(load: Load, arms: Arms, written: Sequence[tuple[Store, Arms]]) -> bool:
    """Whether what is read is stored to just there, by every store that its branch allows."""
    found = [store for store, a in written if not _exclusive(a, arms)]
    return load.mask is None and bool(found) and all(s.index == load.index for s in found)


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
