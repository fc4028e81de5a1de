"""Run a kernel in plain Python: this is what the loop IR means, and what every emitter is tested
against.

Input: a kernel, flat arrays for its buffers, numbers for its parameters and sizes. Output: the
arrays, changed. Loops run in order, lanes one after the other, every access is checked against its
buffer, scratch memory starts with nan or a large number. Only what is needed is evaluated: the arm
of a ``select`` that is not chosen and the index of a load whose mask is false have no effect. It is
slow on purpose: each rule is as short as its statement in ``loops``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from typing import cast as as_type

import numpy as np
import numpy.typing as npt

from lamella.dtypes import DType, int64
from lamella.errors import CompilerError
from lamella.ir import scalar
from lamella.ir.dim import Dim, Size, bind
from lamella.ir.loop_text import statement_text
from lamella.ir.loops import (
    Accumulate,
    Alloc,
    Apply,
    Assign,
    Barrier,
    Const,
    Declare,
    Expr,
    For,
    If,
    Kernel,
    Linear,
    Load,
    Stmt,
    Store,
)  # fmt: skip
from lamella.ir.numbering import Numbering, checked_indices
from lamella.ir.scalar import Scalar
from lamella.ir.walk import roots, statements

__all__ = ["run_kernel"]

Array = npt.NDArray[Any]


def run_kernel(
    kernel: Kernel,
    arrays: Mapping[str, Array],
    params: Mapping[str, Scalar],
    sizes: Mapping[str, int],
) -> None:
    """Run all grid iterations of ``kernel`` on ``arrays`` (one contiguous array per buffer), which
    it changes.

    Raises:
        CompilerError: if an array is missing or of another dtype, or an access lies outside its
        buffer.

    >>> from lamella.ir.text import parse_kernel
    >>> double = parse_kernel('''kernel double
    ...   inout x: float32
    ...   sizes n
    ... grid i < {n}
    ...   x[i] = add(x[i], x[i])''')
    >>> x = np.arange(3, dtype=np.float32)
    >>> run_kernel(double, {"x": x}, {}, {"n": 3})
    >>> x
    array([0., 2., 4.], dtype=float32)
    """
    memory = {}
    for buffer in kernel.buffers:
        array = arrays.get(buffer.name)
        if array is None or array.dtype != buffer.dtype.numpy or not array.flags.c_contiguous:
            raise CompilerError(
                f"[run_kernel] buffer {buffer.name!r} must be a "
                f"contiguous {buffer.dtype.name} array, "
                f"not {None if array is None else array.dtype}"
            )
        memory[buffer.name] = array.reshape(-1)
    values = {
        param.name: scalar.cast(params[param.name], param.dtype, param.dtype)
        for param in kernel.params
    }
    with np.errstate(all="ignore"):
        for _ in _Run(kernel, memory, values, sizes).statement(kernel.body):
            raise CompilerError(f"[run_kernel] {kernel.name} has a barrier outside a block loop")


class _Run:
    """The state of one run: the values of names, and memory."""

    def __init__(
        self,
        kernel: Kernel,
        memory: dict[str, Array],
        values: dict[str, Scalar],
        sizes: Mapping[str, int],
    ) -> None:
        self.kernel, self.memory, self.values, self.sizes = kernel, memory, values, sizes
        self.cache: dict[int, Scalar] = {}  # of the statement being run
        self.numbering = Numbering()
        for stmt in statements([kernel.body]):
            for root in roots(stmt):
                self.numbering.number(root)
        checks = [self.numbering.number(check) for check in checked_indices(kernel)]
        self.ordinals = {number: at for at, number in enumerate(checks)}

    def branch(self) -> _Run:
        """The same memory with its own variables, for one iteration of a block loop."""
        other = object.__new__(_Run)
        other.kernel, other.memory, other.sizes = self.kernel, dict(self.memory), self.sizes
        other.numbering, other.ordinals = self.numbering, self.ordinals
        other.values, other.cache = dict(self.values), {}
        return other

    # -- expressions -----------------------------------------------------------------------------
    def evaluate(self, *exprs: Expr) -> list[Scalar]:
        """Their values now."""
        self.cache = {}
        return [self.expr(expr) for expr in exprs]

    def integer(self, expr: Expr | Size) -> int:
        if isinstance(expr, int | Dim):
            return bind(expr, self.sizes)
        return int(self.expr(expr))

    def expr(self, expr: Expr) -> Scalar:
        found = self.cache.get(id(expr))
        if found is None:
            found = self.cache[id(expr)] = self.compute(expr)
        return found

    def compute(self, expr: Expr) -> Scalar:
        if isinstance(expr, Const):
            return scalar.cast(expr.value, expr.dtype, expr.dtype)
        if isinstance(expr, Linear):
            terms = [self.integer(scale) * self.integer(term) for scale, term in expr.terms]
            return scalar.wrap(self.integer(expr.const) + sum(terms), int64)
        if isinstance(expr, Load):
            return self.load(expr)
        if isinstance(expr, Apply):
            return self.apply(expr)
        return self.values[expr.name]

    def apply(self, expr: Apply) -> Scalar:
        if expr.op == "select":
            return self.expr(expr.args[1] if self.expr(expr.args[0]) else expr.args[2])
        args = [self.expr(arg) for arg in expr.args]
        if expr.op == "checked_index":
            return self.checked_index(expr, as_type(Sequence[int], args))
        return scalar.evaluate(expr.op, args, [arg.dtype for arg in expr.args], expr.dtype)

    def checked_index(self, expr: Apply, args: Sequence[int]) -> int:
        index, size = args
        if -size <= index < size:
            return index % size
        ordinal = self.ordinals[self.numbering.number(expr)]
        self.memory["fault"][0] = 1 + ordinal
        return 0

    def load(self, expr: Load) -> Scalar:
        if expr.mask is not None and not self.expr(expr.mask):
            return (
                self.expr(expr.other)
                if expr.other is not None
                else scalar.cast(0, int64, expr.dtype)
            )
        found: Scalar = self.memory[expr.buffer][self.place(expr.buffer, expr.index)].item()
        return found

    def place(self, buffer: str, index: Expr) -> int:
        at, size = self.integer(index), self.memory[buffer].size
        if not 0 <= at < size:
            raise CompilerError(
                f"[run_kernel] {self.kernel.name} reads or writes {buffer}[{at}], "
                f"which holds {size} elements"
            )
        return at

    # -- statements: generators that yield at each barrier -----------------------------------------
    def block(self, body: Sequence[Stmt]) -> Iterator[None]:
        for stmt in body:
            yield from self.statement(stmt)

    def statement(self, stmt: Stmt) -> Iterator[None]:
        try:
            if isinstance(stmt, For):
                yield from self.loop(stmt)
            elif isinstance(stmt, If):
                yield from self.block(
                    stmt.then if self.evaluate(stmt.condition)[0] else stmt.otherwise
                )
            elif isinstance(stmt, Barrier):
                yield
            else:
                self.simple(stmt)
        except KeyError as error:
            line = statement_text(stmt).splitlines()[-1]
            raise CompilerError(
                f"[run_kernel] {error.args[0]!r} has no value in `{line}`"
            ) from None

    def loop(self, stmt: For) -> Iterator[None]:
        self.cache = {}
        extent = self.integer(stmt.var.extent)
        if stmt.kind == "block":
            self.together(stmt, extent)
            return
        for at in range(extent):
            self.values[stmt.var.name] = at
            yield from self.block(stmt.body)

    def together(self, stmt: For, extent: int) -> None:
        """Iterations of a block loop: each runs to its next barrier before any goes on."""
        waiting = []
        for at in range(extent):
            run = self.branch()
            run.values[stmt.var.name] = at
            waiting.append(run.block(stmt.body))
        while waiting:
            waiting = [iteration for iteration in waiting if next(iteration, self) is not self]

    def simple(self, stmt: Stmt) -> None:
        if isinstance(stmt, Declare):
            self.values[stmt.name] = self.evaluate(stmt.init)[0]
        elif isinstance(stmt, Assign):
            self.values[stmt.name] = self.evaluate(stmt.value)[0]
        elif isinstance(stmt, Store):
            self.store(stmt)
        elif isinstance(stmt, Accumulate):
            self.accumulate(stmt)
        elif isinstance(stmt, Alloc):
            self.memory[stmt.name] = _undefined(stmt.size, stmt.dtype)

    def store(self, stmt: Store) -> None:
        self.cache = {}
        if stmt.mask is None or self.expr(stmt.mask):
            at = self.place(stmt.buffer, stmt.index)
            value, memory = self.expr(stmt.value), self.memory[stmt.buffer]
            if stmt.atomic:
                dtype = stmt.value.dtype
                old = memory[at].item()
                value = scalar.evaluate(stmt.atomic, [old, value], [dtype, dtype], dtype)
            memory[at] = value

    def accumulate(self, stmt: Accumulate) -> None:
        values = self.evaluate(*stmt.values)
        if stmt.op in ("argmax", "argmin"):
            (value, index), (best, where) = values, [self.values[name] for name in stmt.names]
            tie = value == best or (value != value and best != best)
            if scalar.better(stmt.op, value, best) or (tie and index < where):
                self.values[stmt.names[0]], self.values[stmt.names[1]] = value, index
            return
        name, dtype = stmt.names[0], stmt.values[0].dtype
        self.values[name] = scalar.evaluate(
            stmt.op, [self.values[name], values[0]], [dtype, dtype], dtype
        )


def _undefined(size: int, dtype: DType) -> Array:
    if dtype.kind == "f":
        return np.full(size, np.nan, dtype.numpy)
    return np.full(size * dtype.itemsize, 1 if dtype.kind == "b" else 0x5A, np.uint8).view(
        dtype.numpy
    )
