"""The plainest kernel of one node: its own rule, every input read from memory, no fusion, no lanes.

It checks the lowering rules of primitives alone, without the compiler's schedules. ``run`` executes
it on the loop interpreter.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from lamella.dtypes import int64
from lamella.ir import index as ix
from lamella.ir.dim import Size, product
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
    apply,
    cast,
)
from lamella.ir.node import Node
from lamella.ir.verify_loops import verify_kernel
from lamella.ops.base import Array, Index
from lamella.ops.calls import Call, Result
from tests.support.units import AVX2

__all__ = ["kernel_of", "run"]


class Input:
    """An input in memory, as a function of indices."""

    def __init__(self, name: str, node: Node) -> None:
        self.name, self.shape, self.dtype = name, node.shape, node.dtype

    def __call__(self, index: Index) -> Expr:
        assert len(index) == len(self.shape)
        return Load(self.name, ix.linearise(index, self.shape), self.dtype)

    def guarded(self, condition: Expr, index: Index, fill: Expr) -> Expr:
        load = Load(self.name, ix.linearise(index, self.shape), self.dtype, condition)
        return Apply("select", (condition, load, fill), self.dtype)


class Writer:
    """Statements of a kernel primitive, storing to the buffer ``y``."""

    def __init__(self, node: Node) -> None:
        self.node, self.count, self.unit = node, 0, AVX2

    def temporary(self, name: str) -> str:
        self.count += 1
        return f"{name}_{self.count}"

    def var(self, name: str, extent: Size) -> Var:
        return Var(self.temporary(name), extent)

    def store(self, index: Index, value: Expr) -> Stmt:
        return Store("y", ix.linearise(index, self.node.shape), value)

    def load(self, index: Index) -> Expr:
        return Load("y", ix.linearise(index, self.node.shape), self.node.dtype)

    def part(self, number: int, index: Index, value: Expr) -> Stmt:
        shape, _ = results(self.node)[number]
        return Store(f"y{number}", ix.linearise(index, shape), value)

    def load_part(self, number: int, index: Index) -> Expr:
        shape, dtype = results(self.node)[number]
        return Load(f"y{number}", ix.linearise(index, shape), dtype)


def results(node: Node) -> Sequence[Result]:
    """Shape and dtype of each result of a call, or of any other node's only one."""
    if isinstance(node.op, Call):
        return node.op.results(node.inputs)
    return ((node.shape, node.dtype),)


def kernel_of(node: Node) -> Kernel:
    """The kernel of ``node`` with buffers x0, x1 … and y; those of a call are y0, y1 …"""
    args = [Input(f"x{i}", source) for i, source in enumerate(node.inputs)]
    own = node.op.kind in ("kernel", "call")
    sizes = node.op.grid(node) if own else node.shape
    grid = Var("g", product(sizes))
    at = ix.split_linear(grid, sizes)
    if own:
        body = node.op.kernel(node, args, at, Writer(node))
    elif node.op.kind == "reduction":
        body = _reduction(node, args[0], at)
    elif node.op.kind == "contraction":
        body, grid = _contraction(node, args)
    else:
        body = [Store("y", grid, node.op.element(node, args, at))]
    buffers = [BufferParam(f"x{i}", s.dtype, "in") for i, s in enumerate(node.inputs)]
    made = zip(outputs(node), results(node), strict=True)
    buffers += [BufferParam(name, dtype, "inout") for name, (_, dtype) in made]
    loop = For(grid, "grid", tuple(body))
    faults = len({id(e): e for e in _applications(loop) if e.op == "checked_index"})
    distinct = len({e for e in _applications(loop) if e.op == "checked_index"})
    if faults:
        buffers.append(BufferParam("fault", int64, "inout"))
    return Kernel("lone", tuple(buffers), (), (), loop, distinct)


def _applications(root: object) -> list[Apply]:
    found, stack, seen = [], [root], set()
    while stack:
        item = stack.pop()
        if id(item) in seen or not hasattr(item, "__dataclass_fields__"):
            stack.extend(item if isinstance(item, tuple) else ())
            continue
        seen.add(id(item))
        if isinstance(item, Apply):
            found.append(item)
        stack.extend(getattr(item, name) for name in item.__dataclass_fields__)
    return found


def _reduction(node: Node, x: Input, at: Index) -> list[Stmt]:
    op, identity = node.op.fold(node)
    axes: tuple[int, ...] = node.op.axes  # type: ignore[attr-defined]
    inner = Var("r", product(tuple(x.shape[axis] for axis in axes)))
    places = dict(zip(axes, ix.split_linear(inner, tuple(x.shape[a] for a in axes)), strict=True))
    rest = iter(at)
    index = tuple(places[a] if a in places else next(rest) for a in range(len(x.shape)))
    value = cast(x(index), identity.dtype)
    start: list[Stmt] = [Declare("best", identity.dtype, identity)]
    total = Read("best", identity.dtype)
    if not op.startswith("arg"):
        fold = Accumulate(("best",), op, (value,))
    else:
        start.append(Declare("place", int64, Const(int(np.iinfo(np.int64).max), int64)))
        fold = Accumulate(("best", "place"), op, (value, inner))
        total = Read("place", int64)
    store = Store("y", ix.linearise(at, node.shape), cast(total, node.dtype))
    return [*start, For(inner, "serial", (fold,)), store]


def _contraction(node: Node, args: Sequence[Input]) -> tuple[list[Stmt], Var]:
    parts = node.op.contraction(node, args)  # type: ignore[attr-defined]
    outer = (*parts.batch, *parts.m, *parts.n)
    grid, inner = Var("g", product(outer)), Var("r", product(parts.k))
    at, k = ix.split_linear(grid, outer), ix.split_linear(inner, parts.k)
    first, second = len(parts.batch), len(parts.batch) + len(parts.m)
    b, m, n = at[:first], at[first:second], at[second:]
    left, right = (cast(v, parts.accumulate) for v in (parts.left(b, m, k), parts.right(b, k, n)))
    zero = Const(0.0 if parts.accumulate.kind == "f" else 0, parts.accumulate)
    if parts.accumulate.kind == "b":
        zero = Const(False, parts.accumulate)
    fold = Accumulate(("total",), "add", (apply("mul", left, right),))
    place = ix.linearise(parts.out_index(b, m, n), node.shape)
    result = cast(Read("total", parts.accumulate), node.dtype)
    return [
        Declare("total", parts.accumulate, zero),
        For(inner, "serial", (fold,)),
        Store("y", place, result),
    ], grid


def outputs(node: Node) -> list[str]:
    """The names of the buffers of the results."""
    return [f"y{i}" for i in range(len(results(node)))] if node.op.kind == "call" else ["y"]


def run(node: Node, arrays: Sequence[Array]) -> Array:
    """The value of ``node`` on these inputs by its lone kernel, verified first."""
    return run_all(node, arrays)[0]


def run_all(node: Node, arrays: Sequence[Array]) -> list[Array]:
    """Every result of ``node``."""
    empty = [np.zeros(shape, dtype.numpy) for shape, dtype in results(node)]
    if all(array.size == 0 for array in empty):
        return empty
    kernel = kernel_of(node)
    verify_kernel(kernel)
    memory: Mapping[str, Any] = {
        f"x{i}": np.array(a, order="C").reshape(-1) for i, a in enumerate(arrays)
    }
    found = dict(zip(outputs(node), (array.reshape(-1) for array in empty), strict=True))
    buffers = {**memory, **found}
    if kernel.faults:
        buffers["fault"] = np.zeros(1, np.int64)
    run_kernel(kernel, buffers, {}, {})
    if kernel.faults:
        assert buffers["fault"][0] == 0
    made = zip(found.values(), results(node), strict=True)
    return [array.reshape(shape) for array, (shape, _) in made]
