"""Readable C99 for one kernel: an independent check of the LLVM emitter, and code for other
compilers.

Input: a verified kernel. Output: a self-contained C file that defines ::

    void NAME(const uint64_t *args, int64_t begin, int64_t end)

which runs the grid iterations ``begin`` to ``end`` (exclusive). ``args`` has one 8-byte word per
argument, as the LLVM emitter has it: the addresses of the buffers, then the parameters (their bits
in a word's low bytes), then the sizes. Elementary functions are those of libm; lanes run in order,
so sums are in serial order. Expressions are evaluated where they are used: the arm of a ``select``
that is not chosen, and the index of a load whose mask is false, are not evaluated. Kernels with
barriers need a target with blocks and are refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from lamella.compiler.emit.c_expr import Expressions, Names, bare
from lamella.compiler.emit.c_support import storage_type, value_type
from lamella.dtypes import DType, float32, uint32, uint64
from lamella.errors import CompilerError
from lamella.ir.dim import Dim
from lamella.ir.loop_text import kernel_text
from lamella.ir.loops import (
    Accumulate,
    Alloc,
    Assign,
    Declare,
    For,
    If,
    Kernel,
    Param,
    Prefetch,
    Stmt,
    Store,
)  # fmt: skip
from lamella.ir.walk import roots

__all__ = ["emit_c", "function_name"]

ON_STACK: Final = 16384  # bytes of one scratch array; larger ones come from malloc


def function_name(kernel: Kernel) -> str:
    """The C function's name: the kernel's, where C allows it."""
    return Names().define(kernel.name)

_ATOMIC: Final = {"add": "+=", "and": "&=", "or": "|="}


class _Emitter(Expressions):
    """Statements."""

    def __init__(self, kernel: Kernel) -> None:
        super().__init__(kernel)
        self.kernel = kernel
        self.storage: dict[str, DType] = {}
        self.frees: list[str] = []
        self.prologue: list[str] = []

    def function(self) -> str:
        kernel = self.kernel
        name = self.names.define(kernel.name)
        self.arguments()
        self.statement(kernel.body)
        self.lines = self.prologue + self.lines
        for scratch in self.frees:
            self.line(f"free({scratch});")
        head = f"void {name}(const uint64_t *args, int64_t begin, int64_t end) {{"
        return "\n".join([head, *self.lines, "}"])

    def arguments(self) -> None:
        at = 0
        for buffer in self.kernel.buffers:
            name, kind = self.names.define(buffer.name), storage_type(buffer.dtype)
            kind = f"const {kind}" if buffer.mode == "in" else kind
            shared = f", may be {buffer.alias}" if buffer.alias is not None else ""
            self.line(
                f"{kind} *{name} = ({kind} *)(uintptr_t)args[{at}];  /* {buffer.mode}{shared} */"
            )
            self.storage[buffer.name] = buffer.dtype
            at += 1
        for param in self.kernel.params:
            name, text = self.names.define(param.name), self.argument(param, at)
            self.line(f"const {value_type(param.dtype)} {name} = {text};")
            at += 1
        for size in self.kernel.sizes:
            self.line(f"const int64_t {self.names.define(size)} = (int64_t)args[{at}];")
            at += 1

    def argument(self, param: Param, at: int) -> str:
        dtype = param.dtype
        if dtype.kind == "b":
            return f"(args[{at}] & 1) != 0"
        if dtype.kind != "f":
            return f"({storage_type(dtype)})args[{at}]"
        if dtype.bits == 16:
            return self.helpers.fixed(f"from_{dtype.name}", f"(uint16_t)args[{at}]")
        word = uint32 if dtype is float32 else uint64
        return self.helpers.bits(word, dtype, f"({storage_type(word)})args[{at}]")

    def block(self, body: Sequence[Stmt]) -> None:
        self.depth += 1
        for stmt in body:
            self.statement(stmt)
        self.depth -= 1

    def statement(self, stmt: Stmt) -> None:
        numbers = self.begin(roots(stmt))
        if isinstance(stmt, For):
            self.loop(stmt, numbers)
        elif isinstance(stmt, If):
            self.line(f"if ({bare(self.value(numbers[0]))}) {{")
            self.block(stmt.then)
            if stmt.otherwise:
                self.line("} else {")
                self.block(stmt.otherwise)
            self.line("}")
        elif isinstance(stmt, Store):
            self.store(stmt, numbers)
        elif isinstance(stmt, Declare):
            text = bare(self.value(numbers[0]))
            self.line(f"{value_type(stmt.dtype)} {self.names.define(stmt.name)} = {text};")
        elif isinstance(stmt, Assign):
            self.line(f"{self.names[stmt.name]} = {bare(self.value(numbers[0]))};")
        elif isinstance(stmt, Accumulate):
            self.accumulate(stmt, numbers)
        elif isinstance(stmt, Alloc):
            self.alloc(stmt)
        elif isinstance(stmt, Prefetch):
            pass  # C has no word for it
        else:
            raise CompilerError(
                f"[emit_c] kernel {self.kernel.name} has a barrier, which C has not; "
                "split its block loop at the barrier first"
            )

    def loop(self, stmt: For, numbers: Sequence[int]) -> None:
        extent, first = stmt.var.extent, "0"
        if stmt.kind == "grid":
            first, last = "begin", "end"
        elif isinstance(extent, int | Dim):
            last = bare(self.size(extent))
        else:
            last = self.temporary()
            self.line(f"const int64_t {last} = {bare(self.value(numbers[0]))};")
        name = self.names.define(stmt.var.name)
        note = "" if stmt.kind == "serial" else f"  /* {stmt.kind} */"
        self.line(f"for (int64_t {name} = {first}; {name} < {last}; {name}++) {{{note}")
        self.block(stmt.body)
        self.line("}")

    def store(self, stmt: Store, numbers: Sequence[int]) -> None:
        if stmt.mask is not None:
            self.line(f"if ({bare(self.value(numbers[0]))}) {{")
            self.depth += 1
        index, value = bare(self.value(numbers[-2])), bare(self.value(numbers[-1]))
        dtype = self.storage[stmt.buffer]
        if dtype.kind == "f" and dtype.bits == 16:
            value = self.helpers.fixed(f"to_{dtype.name}", value)
        place = f"{self.names[stmt.buffer]}[{index}]"
        if stmt.atomic in ("max", "min"):  # tests run one task at a time
            self.line(f"if ({value} {'>' if stmt.atomic == 'max' else '<'} {place})")
            self.line(f"  {place} = {value};")
        elif stmt.atomic:
            self.line(f"{place} {_ATOMIC[stmt.atomic]} {value};")
        else:
            self.line(f"{place} = {value};")
        if stmt.mask is not None:
            self.depth -= 1
            self.line("}")

    def accumulate(self, stmt: Accumulate, numbers: Sequence[int]) -> None:
        names = [self.names[name] for name in stmt.names]
        dtype, values = stmt.values[0].dtype, [bare(self.value(number)) for number in numbers]
        if len(names) == 1:
            value = self.value(numbers[0])
            text = bare(self.apply(stmt.op, dtype, dtype, [names[0], value]))
            self.line(f"{names[0]} = {text};")
            return
        value, index = self.temporary(), self.temporary()
        self.line(f"const {value_type(dtype)} {value} = {values[0]};")
        self.line(f"const int64_t {index} = {values[1]};")
        wins = self.helpers.wins(stmt.op, dtype, value, index, *names)
        self.line(f"if ({wins}) {{")
        self.line(f"    {names[0]} = {value};")
        self.line(f"    {names[1]} = {index};")
        self.line("}")

    def alloc(self, stmt: Alloc) -> None:
        name, kind = self.names.define(stmt.name), storage_type(stmt.dtype)
        self.storage[stmt.name] = stmt.dtype
        if stmt.size * stmt.dtype.itemsize <= ON_STACK:
            self.line(f"{kind} {name}[{stmt.size}];  /* {stmt.space} */")
            return
        self.prologue.append(f"    {kind} *{name} = malloc({stmt.size} * sizeof *{name});")
        self.frees.append(name)


def emit_c(kernel: Kernel) -> str:
    """A C99 file with one function that runs ``kernel`` (see the module for its signature).

    Raises:
        CompilerError: if the kernel has a barrier, or an operation without meaning on its dtype.

    >>> from lamella.ir.text import parse_kernel
    >>> print(emit_c(parse_kernel('''kernel halve
    ...   in x: float32
    ...   out y: float32
    ... grid i < 8
    ...   y[i] = mul(x[i], 0.5:float32)''')).split("helpers */")[-1].strip())
    void halve(const uint64_t *args, int64_t begin, int64_t end) {
        const float *x = (const float *)(uintptr_t)args[0];  /* in */
        float *y = (float *)(uintptr_t)args[1];  /* out */
        for (int64_t i = begin; i < end; i++) {  /* grid */
            y[i] = x[i] * 0.5f;
        }
    }
    """
    emitter = _Emitter(kernel)
    function = emitter.function()
    text = "\n".join([f" * {line}" for line in kernel_text(kernel).splitlines()])
    includes = ["math", "stdbool", "stdint", "stdlib", "string"]
    head = "\n".join([f"#include <{name}.h>" for name in includes])
    helpers = emitter.helpers.source
    parts = [f"/* The kernel in loop IR:\n *\n{text}\n */", head, "/* helpers */"]
    return "\n\n".join([*parts, *([helpers] if helpers else []), function]) + "\n"
