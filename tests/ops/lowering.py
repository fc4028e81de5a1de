"""One primitive as one kernel, for tests of the lowering rules on the loop interpreter.

Input: a node whose inputs are leaves, and their arrays. Output: the node's value as its
``element``, ``kernel`` or ``contraction`` rule computes it. Every load is checked there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from lamella.dtypes import DType, int64
from lamella.ir import index as ix
from lamella.ir.dim import Shape, Size, bind, symbols
from lamella.ir.loop_interp import run_kernel
from lamella.ir.loops import (
    Accumulate,
    Apply,
    BufferParam,
    Const,
    Declare,
    Expr,
    For,
    Kernel,
    Load,
    Read,
    Stmt,
    Store,
    Var,
    cast,
)
from lamella.ir.node import Node
from lamella.ir.numbering import checked_indices
from lamella.ir.verify_loops import verify_kernel
from lamella.ops.base import Array, Index
from lamella.ops.validate import zero


@dataclass
class Buffer:
    """An input in memory, as an Element."""

    name: str
    shape: Shape
    dtype: DType

    def __call__(self, index: Index) -> Expr:
        return Load(self.name, ix.linearise(index, self.shape), self.dtype)

    def guarded(self, condition: Expr, index: Index, fill: Expr) -> Expr:
        if condition == ix.TRUE:
            return self(index)
        if condition == ix.FALSE:
            return fill
        masked = Load(self.name, ix.linearise(index, self.shape), self.dtype, condition)
        return Apply("select", (condition, masked, fill), self.dtype)


@dataclass
class Literal:
    """A constant leaf, broadcast or not, as an Element."""

    value: bool | int | float
    shape: Shape
    dtype: DType

    def __call__(self, index: Index) -> Expr:
        return Const(self.value, self.dtype)

    def guarded(self, condition: Expr, index: Index, fill: Expr) -> Expr:
        if condition == ix.TRUE:
            return self(index)
        return Apply("select", (condition, self(index), fill), self.dtype)


@dataclass
class Writer:
    """The result, as a KernelWriter."""

    shape: Shape
    dtype: DType
    count: int = field(default=0)

    def var(self, name: str, extent: Size) -> Var:
        return Var(self.temporary(name), extent)

    def temporary(self, name: str) -> str:
        self.count += 1
        return f"{name}{self.count}"

    def store(self, index: Index, value: Expr) -> Stmt:
        return Store("result", ix.linearise(index, self.shape), value)

    def load(self, index: Index) -> Expr:
        return Load("result", ix.linearise(index, self.shape), self.dtype)


def _nest(vars: Sequence[Var], body: tuple[Stmt, ...]) -> For:
    """Loops over ``vars`` around ``body``, the outermost one the grid."""
    for var in reversed(vars[1:]):
        body = (For(var, "serial", body),)
    return For(vars[0], "grid", body)


def _loops(writer: Writer, sizes: Shape) -> tuple[list[Var], Index]:
    """Loop variables for ``sizes``, at least one, and the index they make."""
    found = [writer.var("i", size) for size in sizes]
    return found or [writer.var("once", 1)], tuple(found)


def _elementwise(node: Node, args: Sequence[Buffer | Literal], out: Writer) -> For:
    loops, index = _loops(out, node.shape)
    return _nest(loops, (out.store(index, node.op.element(node, args, index)),))


def _kernel(node: Node, args: Sequence[Buffer | Literal], out: Writer) -> For:
    loops, index = _loops(out, node.op.grid(node))
    return _nest(loops, tuple(node.op.kernel(node, args, index, out)))


def _contraction(node: Node, args: Sequence[Buffer | Literal], out: Writer) -> For:
    plan = node.op.contraction(node, args)
    parts = [_loops(out, sizes) for sizes in (plan.batch, plan.m, plan.n)]
    batch, m, n = (index for _, index in parts)
    steps, k = _loops(out, plan.k)
    total = out.temporary("total")
    left, right = plan.left(batch, m, k), plan.right(batch, k, n)
    product = Apply(
        "mul", (cast(left, plan.accumulate), cast(right, plan.accumulate)), plan.accumulate
    )
    body: tuple[Stmt, ...] = (Accumulate((total,), "add", (product,)),)
    for var in reversed(steps):
        body = (For(var, "serial", body),)
    start = Declare(total, plan.accumulate, zero(plan.accumulate))
    value = cast(Read(total, plan.accumulate), node.dtype)
    store = out.store(plan.out_index(batch, m, n), value)
    return _nest([var for loops, _ in parts for var in loops], (start, *body, store))


RULES = {"movement": _elementwise, "kernel": _kernel, "contraction": _contraction}


def lowered(
    node: Node, arrays: Mapping[Node, Array], sizes: Mapping[str, int] | None = None
) -> tuple[Array, int]:
    """The value of ``node`` by its lowering rule, and the fault word (0: none)."""
    bound = dict(sizes or {})
    args: list[Buffer | Literal] = []
    buffers: list[BufferParam] = []
    memory: dict[str, Array] = {}
    for place, source in enumerate(node.inputs):
        constant = source
        while constant.op.name == "broadcast_to":
            (constant,) = constant.inputs
        if constant.op.name == "constant":
            args.append(Literal(constant.op.value, source.shape, source.dtype))
            continue
        name = f"in{place}"
        args.append(Buffer(name, source.shape, source.dtype))
        buffers.append(BufferParam(name, source.dtype, "in"))
        memory[name] = np.ascontiguousarray(arrays[source]).reshape(-1)
    shape = tuple(bind(size, bound) for size in node.shape)
    memory["result"] = np.full(int(np.prod(shape, dtype=int)), 77).astype(node.dtype.numpy)
    buffers.append(BufferParam("result", node.dtype, "inout"))
    body = RULES[node.op.kind](node, args, Writer(node.shape, node.dtype))
    names = sorted({s for n in (node, *node.inputs) for size in n.shape for s in symbols(size)})
    draft = Kernel("draft", tuple(buffers), (), tuple(names), body)
    faults = len(list(checked_indices(draft)))
    if faults:
        buffers.append(BufferParam("fault", int64, "out"))
        memory["fault"] = np.zeros(1, np.int64)
    kernel = Kernel("test", tuple(buffers), (), tuple(names), body, faults)
    verify_kernel(kernel)
    run_kernel(kernel, memory, {}, bound)
    return memory["result"].reshape(shape), int(memory["fault"][0]) if faults else 0
