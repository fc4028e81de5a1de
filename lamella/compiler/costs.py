"""What a kernel does, in numbers: floating-point operations of one launch; and what a node costs.

Input: a kernel and numbers for its symbolic sizes, or a node. Output: a count. Additions,
multiplications, comparisons that choose (max, min), divisions and elementary functions count one,
``fma`` two, moves and index arithmetic nothing; both branches of a condition count.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from lamella.errors import CompilerError
from lamella.ir.dim import Dim, bind, typical
from lamella.ir.loops import (
    Accumulate,
    Apply,
    Const,
    Expr,
    Extent,
    For,
    If,
    Kernel,
    Linear,
    Stmt,
    Var,
)
from lamella.ir.node import Node
from lamella.ir.walk import expressions, roots, statements

__all__ = ["operations", "scalar_operations"]

Numbers = npt.NDArray[np.int64]
_FREE: Final = frozenset({
    "and", "or", "xor", "not", "shl", "shr", "lt", "le", "eq", "ne", "select", "cast", "bitcast",
    "isnan", "isinf", "isfinite", "signbit", "copysign", "neg", "abs", "checked_index",
})  # fmt: skip
_INTEGER: Final[dict[str, Callable[..., Any]]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "min": np.minimum, "max": np.maximum,
    "floordiv": np.floor_divide, "mod": np.mod, "lt": np.less, "le": np.less_equal,
    "eq": np.equal, "ne": np.not_equal, "select": np.where, "and": np.logical_and,
    "or": np.logical_or, "not": np.logical_not,
}  # fmt: skip


def operations(kernel: Kernel, sizes: Mapping[str, int] | None = None) -> int:
    """Floating-point operations of one launch of ``kernel``.

    >>> from lamella.ir.text import parse_kernel
    >>> operations(parse_kernel('''kernel scale
    ...   inout x: float32
    ... grid i < 8
    ...   x[i] = add(mul(x[i], x[i]), x[i])'''))
    16
    """
    return int(_Counter(sizes or {}).block((kernel.body,), {}))


def scalar_operations(node: Node) -> float:
    """Scalar operations that computing a value takes, from its inputs."""
    if node.op.kind == "contraction":
        sizes = [float(typical(n.size)) for n in (*node.inputs, node)]
        return 2 * math.sqrt(math.prod(sizes))  # m·k times k·n times m·n
    if node.op.kind == "elementwise":
        return float(node.op.cost * typical(node.size))
    if node.op.kind == "movement":  # pure changes of indices cost nothing
        return float((node.op.cost - 1) * typical(node.size))
    return float(sum(typical(n.size) for n in node.inputs))


class _Counter:
    """Counts statements for all values of the outer loop variables at once: each variable that a
    loop's end depends on is an array with an axis of its own.
    """

    def __init__(self, sizes: Mapping[str, int]) -> None:
        self.sizes = sizes

    def block(self, body: Iterable[Stmt], env: Mapping[str, Numbers]) -> Numbers:
        """The operations of statements, for each point of ``env``."""
        total = np.zeros((1,) * len(env), np.int64)
        for stmt in body:
            total = total + sum(map(_weight, expressions(roots(stmt))))
            if isinstance(stmt, Accumulate) and stmt.values[0].dtype.kind == "f":
                total = total + 1
            if isinstance(stmt, For):
                total = total + self.loop(stmt, env)
            elif isinstance(stmt, If):
                # one of them runs, at edges the cheaper
                branches = self.block(stmt.then, env), self.block(stmt.otherwise, env)
                total = total + np.maximum(*branches)
        return total

    def loop(self, loop: For, env: Mapping[str, Numbers]) -> Numbers:
        """The operations of a loop."""
        extent = self.number(loop.var.extent, env)
        if not _decides(loop):
            return extent * self.block(loop.body, env)
        values = np.arange(max(int(extent.max(initial=0)), 0))
        inner = {name: array[..., None] for name, array in env.items()}
        inner[loop.var.name] = values.reshape((1,) * len(env) + (-1,))
        counts = self.block(loop.body, inner)
        counted: Numbers = np.where(values < extent[..., None], counts, 0).sum(-1)
        return counted

    def number(self, expr: Extent, env: Mapping[str, Numbers]) -> Numbers:
        """An integer expression for each point of ``env``."""
        if isinstance(expr, (int, Dim)):
            return np.full((1,) * len(env), bind(expr, self.sizes))
        if isinstance(expr, Var) and expr.name in env:
            return env[expr.name]
        if isinstance(expr, Const):
            return np.full((1,) * len(env), expr.value)
        if isinstance(expr, Linear):
            total = self.number(expr.const, env)
            for factor, term in expr.terms:
                total = total + bind(factor, self.sizes) * self.number(term, env)
            return total
        if isinstance(expr, Apply) and expr.op in _INTEGER:
            return np.asarray(_INTEGER[expr.op](*(self.number(a, env) for a in expr.args)))
        raise CompilerError(f"[costs] the end of a loop depends on {expr}, which is no size")


def _decides(loop: For) -> bool:
    """Whether a loop inside ends where this one's variable says."""
    ends = [
        s.var.extent for s in statements(loop.body)
        if isinstance(s, For) and not isinstance(s.var.extent, (int, Dim))
    ]  # fmt: skip
    names = {e.name for e in expressions(ends) if isinstance(e, Var)}
    return loop.var.name in names


def _weight(expr: Expr) -> int:
    if not isinstance(expr, Apply) or expr.dtype.kind != "f" or expr.op in _FREE:
        return 0
    return 2 if expr.op == "fma" else 1
