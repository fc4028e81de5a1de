"""Print kernels as text. The grammar is in ``lamella.ir.text``; ``loop_parse`` reads the same text
back.

Input: a kernel. Output: its text, linear in the number of distinct expressions.
Invariants: the same structure gives the same text, however its expressions share objects; with
``normalise=True`` also whatever its names are, so that text is the key under which compiled kernels
are kept.
"""

from __future__ import annotations

from lamella.ir.dim import Dim, Quotient, Size
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
    Prefetch,
    Stmt,
    Store,
)  # fmt: skip
from lamella.ir.numbering import Numbering, literal
from lamella.ir.walk import roots

__all__ = ["inferred_dtype", "kernel_text", "statement_text"]

INLINE_LEVELS = (
    8  # deeper single-use expressions get a line of their own, which bounds the parser's recursion
)
BOOL_RESULTS = frozenset(["lt", "le", "eq", "ne", "isnan", "isinf", "isfinite", "signbit"])
_Entry = tuple[int, Stmt | str, tuple[int, ...], int]


def inferred_dtype(op: str, args: tuple[Expr, ...]) -> str:
    """The name of the dtype that text leaves out; empty where it is always written (casts).

    >>> inferred_dtype("cast", ())
    ''
    """
    if op in BOOL_RESULTS:
        return "bool"
    if op in ("cast", "bitcast", "word"):
        return ""
    return args[1 if op == "select" else 0].dtype.name


class _Names:
    """Names as written, or replaced by their kind and order of definition."""

    def __init__(self, normalise: bool) -> None:
        self.normalise = normalise
        self.known: dict[str, str] = {}
        self.sizes: dict[str, str] = {}
        self.counts: dict[str, int] = {}

    def define(self, name: str, kind: str) -> None:
        if self.normalise and name not in self.known:
            count = self.counts.get(kind, 0)
            self.counts[kind] = count + 1
            self.known[name] = f"{kind}{count}"

    def __getitem__(self, name: str) -> str:
        return self.known.get(name, name)

    def size(self, size: Size) -> str:
        if isinstance(size, int):
            return str(size)
        if self.normalise:
            size = _rename(size, self.sizes)
        return f"{{{size}}}"


def _rename(size: Size, names: dict[str, str]) -> Size:
    if isinstance(size, int):
        return size
    total: Size = 0
    for monomial, coefficient in size.terms.items():
        term: Size = coefficient
        for factor in monomial:
            if isinstance(factor, Quotient):
                term = term * (_rename(factor.numerator, names) // factor.denominator)
            else:
                term = term * Dim(names.get(factor, factor))
        total = total + term
    return total


class _Printer:
    def __init__(self, normalise: bool) -> None:
        self.names = _Names(normalise)
        self.numbering = Numbering()
        self.entries: list[_Entry] = []
        self.uses: list[int] = []
        self.texts: list[str] = []
        self.lines: list[
            tuple[int, str]
        ] = []  # (number, definition) of the named expressions, in order

    # -- first walk: number every expression and define every name ---------------------------------
    def collect(self, stmt: Stmt, depth: int) -> None:
        if isinstance(stmt, For):
            self.names.define(stmt.var.name, "i")
        elif isinstance(stmt, Declare):
            self.names.define(stmt.name, "v")
        elif isinstance(stmt, Alloc):
            self.names.define(stmt.name, "a")
        numbers = tuple([self.numbering.number(root) for root in roots(stmt)])
        fresh = len(self.numbering.exprs)
        self.uses.extend([0] * (fresh - len(self.uses)))
        for number in numbers:
            self.uses[number] += 1
        self.entries.append((depth, stmt, numbers, fresh))
        if isinstance(stmt, For):
            for inner in stmt.body:
                self.collect(inner, depth + 1)
        elif isinstance(stmt, If):
            for inner in stmt.then:
                self.collect(inner, depth + 1)
            if stmt.otherwise:
                self.entries.append((depth, "else", (), fresh))
                for inner in stmt.otherwise:
                    self.collect(inner, depth + 1)

    # -- then texts of expressions, operands first -------------------------------------------------
    def render(self) -> None:
        uses, parts = self.uses, self.numbering.operands
        for numbers in parts:
            for number in numbers:
                uses[number] += 1
        levels: list[int] = []
        texts = self.texts
        for number, expr in enumerate(self.numbering.exprs):
            kids = parts[number]
            text = self.expression(expr, kids)
            level = 1 + max([levels[kid] for kid in kids]) if kids else 0
            if level and (uses[number] > 1 or level > INLINE_LEVELS):
                self.lines.append((number, f"%{len(self.lines)} = {text}"))
                text, level = f"%{len(self.lines) - 1}", 0
            texts.append(text)
            levels.append(level)

    def expression(self, expr: Expr, kids: tuple[int, ...]) -> str:
        kind, texts = type(expr), self.texts
        if kind is Apply:
            op, args = expr.op, expr.args  # type: ignore[union-attr]
            dtype = expr.dtype.name
            shown = "" if dtype == inferred_dtype(op, args) else f"<{dtype}>"
            return f"{op}{shown}({', '.join([texts[kid] for kid in kids])})"
        if kind is Linear:
            return self.linear(expr, kids)  # type: ignore[arg-type]
        if kind is Load:
            index = texts[kids[-1]]
            if expr.mask is not None:  # type: ignore[union-attr]
                index = f"{index} if {texts[kids[0]]}"
            if expr.other is not None:  # type: ignore[union-attr]
                index = f"{index} else {literal(expr.other)}"  # type: ignore[union-attr]
            return f"{self.names[expr.buffer]}[{index}]"  # type: ignore[union-attr]
        if kind is Const:
            return literal(expr)  # type: ignore[arg-type]
        return self.names[expr.name]  # type: ignore[union-attr]

    def linear(self, expr: Linear, kids: tuple[int, ...]) -> str:
        size = self.names.size
        if not kids:
            return f"[{size(expr.const)}]"
        parts = []
        for (scale, term), kid in zip(expr.terms, kids, strict=True):
            text = self.texts[kid]
            if type(term) is Linear and not text.startswith(("%", "[")):
                text = f"[{text}]"
            parts.append(f"{size(scale)}*{text}")
        if self.names.normalise:
            parts.sort()
        if expr.const != 0:
            parts.append(size(expr.const))
        return " + ".join(parts)

    # -- and the lines of statements ---------------------------------------------------------------
    def body(self) -> list[str]:
        lines, at = [], 0
        for depth, stmt, numbers, fresh in self.entries:
            indent = "  " * depth
            while at < len(self.lines) and self.lines[at][0] < fresh:
                lines.append(indent + self.lines[at][1])
                at += 1
            lines.append(indent + self.statement(stmt, numbers))
        return lines

    def statement(self, stmt: Stmt | str, numbers: tuple[int, ...]) -> str:
        names, texts = self.names, [self.texts[number] for number in numbers]
        if isinstance(stmt, Store):
            masked = f" if {texts[0]}" if stmt.mask is not None else ""
            becomes = f"atomic {stmt.atomic}=" if stmt.atomic else "="
            return f"{names[stmt.buffer]}[{texts[-2]}{masked}] {becomes} {texts[-1]}"
        if isinstance(stmt, Assign):
            return f"{names[stmt.name]} = {texts[0]}"
        if isinstance(stmt, Declare):
            return f"var {names[stmt.name]}: {stmt.dtype.name} = {texts[0]}"
        if isinstance(stmt, Accumulate):
            targets = ", ".join([names[name] for name in stmt.names])
            return f"{targets} {stmt.op}= {', '.join(texts)}"
        if isinstance(stmt, For):
            return f"{stmt.kind} {names[stmt.var.name]} < {self.extent(stmt, texts)}"
        if isinstance(stmt, If):
            return f"if {texts[0]}"
        if isinstance(stmt, Alloc):
            return f"{stmt.space} {names[stmt.name]}: {stmt.dtype.name}[{stmt.size}]"
        if isinstance(stmt, Prefetch):
            word = "prefetch" if stmt.level == 1 else "prefetch2"
            return f"{word} {names[stmt.buffer]}[{texts[0]}]"
        return "barrier" if isinstance(stmt, Barrier) else stmt

    def extent(self, stmt: For, texts: list[str]) -> str:
        extent = stmt.var.extent
        if isinstance(extent, int | Dim):
            return self.names.size(extent)
        bare = isinstance(extent, Const) and extent.dtype.name == "int64"
        return f"{texts[0]}:int64" if bare else texts[0]

    def header(self, kernel: Kernel) -> list[str]:
        names, normalise = self.names, self.names.normalise
        for buffer in kernel.buffers:
            names.define(buffer.name, "b")
        for param in kernel.params:
            names.define(param.name, "p")
        if normalise:
            names.sizes = {name: f"n{at}" for at, name in enumerate(kernel.sizes)}
        lines = [f"kernel {'_' if normalise else kernel.name}"]
        for buffer in kernel.buffers:
            alias = f" alias {names[buffer.alias]}" if buffer.alias is not None else ""
            streamed = " streamed" if buffer.streamed else ""
            name = names[buffer.name]
            lines.append(f"  {buffer.mode} {name}: {buffer.dtype.name}{alias}{streamed}")
        lines += [f"  param {names[p.name]}: {p.dtype.name}" for p in kernel.params]
        if kernel.sizes:
            lines.append(f"  sizes {', '.join([names.sizes.get(s, s) for s in kernel.sizes])}")
        if kernel.faults:
            lines.append(f"  faults {kernel.faults}")
        if not normalise:
            lines.append(f"  work {names.size(kernel.work)}")
        return lines


def kernel_text(kernel: Kernel, normalise: bool = False) -> str:
    """The text of a kernel; ``normalise`` replaces every name by its kind and order, and leaves out
    ``work``.

    >>> from lamella.dtypes import float32
    >>> from lamella.ir.loops import BufferParam, Var
    >>> i = Var("i", 4)
    >>> double = Apply("add", (Load("x", i, float32), Load("x", i, float32)), float32)
    >>> buffers = BufferParam("x", float32, "in"), BufferParam("y", float32, "out")
    >>> body = For(i, "grid", (Store("y", i, double),))
    >>> print(kernel_text(Kernel("twice", buffers, (), (), body)))
    kernel twice
      in x: float32
      out y: float32
      work 1
    grid i < 4
      %0 = x[i]
      y[i] = add(%0, %0)
    """
    printer = _Printer(normalise)
    lines = printer.header(kernel)
    printer.collect(kernel.body, 0)
    printer.render()
    return "\n".join(lines + printer.body())


def statement_text(stmt: Stmt) -> str:
    """The text of one statement and what is inside it, for messages."""
    printer = _Printer(normalise=False)
    printer.collect(stmt, 0)
    printer.render()
    return "\n".join(printer.body())
