"""Readable C99 for one kernel: an independent check of the LLVM emitter, and code for other compilers.

Input: a verified kernel. Output: a self-contained C file that defines ::

    void NAME(const uint64_t *args, int64_t begin, int64_t end)

which runs the grid iterations ``begin`` to ``end`` (exclusive). ``args`` has one 8-byte word per argument, as the LLVM
emitter has it: the addresses of the buffers, then the parameters (their bits in a word's low bytes), then the sizes.
Elementary functions are those of libm; lanes run in order, so sums are in serial order. Expressions are
evaluated where they are used: the arm of a ``select`` that is not chosen, and the index of a load whose mask is false,
are not evaluated. Kernels with barriers need a target with blocks and are refused.
"""
from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from typing import Final

from lamella.compiler.emit.c_support import Helpers, storage_type, value_type
from lamella.dtypes import DType, float32, int64, uint32, uint64
from lamella.errors import CompilerError
from lamella.ir import scalar
from lamella.ir.dim import Dim, Monomial, Size
from lamella.ir.loop_text import kernel_text
from lamella.ir.loops import (
    Accumulate, Alloc, Apply, Assign, Const, Declare, Expr, For, If, Kernel, Linear, Load, Param, Stmt, Store,
)  # fmt: skip
from lamella.ir.numbering import Numbering, checked_indices, roots

__all__ = ["emit_c", "function_name"]

ON_STACK: Final = 16384  # bytes of one scratch array; larger ones come from malloc
LINE: Final = 80  # longer expressions get a variable of their own
_KEYWORDS: Final = """
    auto bool break case char const continue default do double else enum extern float for goto if inline int long
    register restrict return short signed sizeof static struct switch typedef union unsigned void volatile while
    true false args begin end main memcpy malloc free NAN INFINITY isnan isinf isfinite signbit frexp
    copysign fabs ldexp nearbyint nextafter fmod rint fma floor ceil trunc sqrt exp exp2 expm1 log log2 log10 log1p
    sin cos tan asin acos atan atan2 sinh cosh tanh asinh acosh atanh erf erfc pow
""".split()
_RESERVED: Final = frozenset(_KEYWORDS) | {f"{name}f" for name in _KEYWORDS}
_INFIX: Final = {
    "add": "+", "sub": "-", "mul": "*", "div": "/", "lt": "<", "le": "<=", "eq": "==", "ne": "!=",
    "and": "&", "or": "|", "xor": "^",
}  # fmt: skip
_COMPARE: Final = frozenset(["lt", "le", "eq", "ne"])
_TESTS: Final = frozenset(["isnan", "isinf", "isfinite", "signbit"])
_LIBM: Final = {"abs": "fabs", "round": "rint"}
_EXACT: Final = frozenset(["neg", "abs", "sign", "max", "min", "copysign", "floor", "ceil", "trunc", "round"])


def function_name(kernel: Kernel) -> str:
    """The C function's name: the kernel's, where C allows it."""
    return _Names().define(kernel.name)


class _Names:
    """C identifiers for the kernel's names."""

    def __init__(self) -> None:
        self.known: dict[str, str] = {}
        self.used: set[str] = set()

    def define(self, name: str) -> str:
        chosen = re.sub(r"\W", "_", name)
        while chosen in _RESERVED or chosen in self.used or re.match(r"lm_|t\d+$|\d", chosen):
            chosen = f"{chosen}_" if not chosen[:1].isdigit() and chosen[:3] != "lm_" else f"k{chosen}"
        self.used.add(chosen)
        self.known[name] = chosen
        return chosen

    def __getitem__(self, name: str) -> str:
        return self.known[name]


def _bare(text: str) -> str:
    """Without parentheses around the whole."""
    if not text.startswith("("):
        return text
    depth = 0
    for at, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if depth == 0:
            return text[1:-1] if at == len(text) - 1 else text
    return text


def _literal(value: bool | int | float, dtype: DType) -> str:
    if dtype.kind == "f":
        number = scalar.round_to(float(value), dtype)
        if math.isnan(number):
            return "NAN"
        if math.isinf(number):
            return "INFINITY" if number > 0 else "-INFINITY"
        return repr(number) if dtype.bits == 64 else f"{number!r}f"
    if dtype.kind == "b":
        return "true" if value else "false"
    whole = int(value)
    if dtype.kind == "i" and whole == -(1 << (dtype.bits - 1)):
        return f"INT{dtype.bits}_MIN"
    if dtype.bits == 64 and abs(whole) >= 1 << 31:
        return f"{'U' if dtype.kind == 'u' else ''}INT64_C({whole})"
    return f"{whole}u" if dtype.kind == "u" and dtype.bits >= 32 else str(whole)


class _Expressions:
    """C text of expressions. Shared or long ones become ``const`` variables, written to ``lines``."""

    def __init__(self, kernel: Kernel) -> None:
        self.helpers = Helpers()
        self.names = _Names()
        self.lines: list[str] = []
        self.depth = 1
        self.temporaries = 0
        self.numbering = Numbering()
        self.impure: list[bool] = []  # by number: loads from memory or may fault
        self.uses: dict[int, int] = {}  # in the present statement
        self.texts: dict[int, str] = {}  # in the present statement, valid in the present C block
        self.dtypes: list[DType] = []
        checks = checked_indices(kernel)
        self.ordinals = {self.numbering.number(check): at for at, check in enumerate(checks)}

    def line(self, text: str) -> None:
        self.lines.append("    " * self.depth + text if text else "")

    def temporary(self) -> str:
        self.temporaries += 1
        return f"t{self.temporaries}"

    # -- a statement's expressions -----------------------------------------------------------------
    def begin(self, exprs: Iterable[Expr]) -> list[int]:
        """Start a statement that evaluates ``exprs``; their numbers."""
        numbers = [self.numbering.number(expr) for expr in exprs]
        known = self.numbering
        for number in range(len(self.impure), len(known.exprs)):
            expr, parts = known.exprs[number], known.operands[number]
            own = isinstance(expr, Load) or (isinstance(expr, Apply) and expr.op == "checked_index")
            self.impure.append(own or any(self.impure[part] for part in parts))
        self.texts, self.uses = {}, {}
        stack = list(numbers)
        while stack:
            number = stack.pop()
            self.uses[number] = self.uses.get(number, 0) + 1
            if self.uses[number] == 1:
                stack.extend(known.operands[number])
        return numbers

    def eager(self, number: int) -> Sequence[int]:
        """The operands that are evaluated whenever the expression is."""
        expr, parts = self.numbering.exprs[number], self.numbering.operands[number]
        lazy = isinstance(expr, Load) and len(parts) == 2
        lazy = lazy or (isinstance(expr, Apply) and expr.op == "select")
        if lazy and any(self.impure[part] for part in parts[1:]):
            return parts[:1]
        return parts

    def value(self, number: int) -> str:
        """The text of an expression, after the lines it needs. Its operands are done in order of their numbers."""
        wanted, stack = {number}, [number]
        while stack:
            for part in self.eager(stack.pop()):
                if part not in wanted and part not in self.texts:
                    wanted.add(part)
                    stack.append(part)
        for each in sorted(wanted):
            if each not in self.texts:
                text = self.compute(each)
                leaf = not self.numbering.operands[each]
                if not leaf and (self.uses[each] > 1 or len(text) > LINE) and not text.isidentifier():
                    name = self.temporary()
                    kind = value_type(self.numbering.exprs[each].dtype)
                    self.line(f"const {kind} {name} = {_bare(text)};")
                    text = name
                self.texts[each] = text
        return self.texts[number]

    def compute(self, number: int) -> str:
        expr, parts = self.numbering.exprs[number], self.numbering.operands[number]
        if isinstance(expr, Const):
            return _literal(expr.value, expr.dtype)
        if isinstance(expr, Linear):
            return self.linear(expr, [self.texts[part] for part in parts])
        if isinstance(expr, Load):
            return self.load(expr, parts)
        if not isinstance(expr, Apply):
            return self.names[expr.name]
        if expr.op == "select":
            return self.choose(expr.dtype, self.texts[parts[0]], parts[1], parts[2])
        args = [self.texts[part] for part in parts]
        if expr.op == "checked_index":
            code = str(1 + self.ordinals[number])
            return self.helpers.fixed("checked_index", *map(_bare, args), self.names["fault"], code)
        return self.apply(expr.op, expr.args[0].dtype, expr.dtype, args)

    # -- evaluation of only what is needed -----------------------------------------------------------
    def arm(self, number: int) -> tuple[str, list[str]]:
        """The text of an expression in a block of its own, and the lines it needs there."""
        texts, lines = self.texts, self.lines
        self.texts, self.lines = dict(texts), []
        self.depth += 1
        text = self.value(number)
        found = self.lines
        self.depth -= 1
        self.texts, self.lines = texts, lines
        return text, found

    def choose(self, dtype: DType, condition: str, then: int, otherwise: int) -> str:
        first, before = self.arm(then)
        second, after = self.arm(otherwise)
        return self.conditional(dtype, condition, (first, before), (second, after))

    def conditional(
        self, dtype: DType, condition: str, then: tuple[str, list[str]], other: tuple[str, list[str]]
    ) -> str:
        if not then[1] and not other[1]:
            return f"({condition} ? {then[0]} : {other[0]})"
        name = self.temporary()
        self.line(f"{value_type(dtype)} {name};")
        self.line(f"if ({_bare(condition)}) {{")
        self.lines += then[1]
        self.line(f"    {name} = {_bare(then[0])};")
        self.line("} else {")
        self.lines += other[1]
        self.line(f"    {name} = {_bare(other[0])};")
        self.line("}")
        return name

    def load(self, expr: Load, parts: Sequence[int]) -> str:
        if expr.mask is None:
            return self.element(expr, self.texts[parts[0]])
        index, before = self.arm(parts[1])
        other = expr.other if expr.other is not None else Const(0, expr.dtype)
        fill = _literal(other.value, other.dtype)
        loaded = self.element(expr, index)
        return self.conditional(expr.dtype, self.texts[parts[0]], (loaded, before), (fill, []))

    def element(self, expr: Load, index: str) -> str:
        text = f"{self.names[expr.buffer]}[{_bare(index)}]"
        if expr.dtype.kind == "f" and expr.dtype.bits == 16:
            return self.helpers.fixed(f"from_{expr.dtype.name}", text)
        return text

    # -- sizes and indices ---------------------------------------------------------------------------
    def size(self, size: Size) -> str:
        if isinstance(size, int):
            return _literal(size, int64)
        terms = [self.monomial(monomial, scale) for monomial, scale in size.terms.items()]
        return terms[0] if len(terms) == 1 else f"({' + '.join(terms)})"

    def monomial(self, monomial: Monomial, scale: int) -> str:
        factors = [] if scale == 1 and monomial else [_literal(scale, int64)]
        for factor in monomial:
            if isinstance(factor, str):
                factors.append(self.names[factor])
            else:
                above = _bare(self.size(factor.numerator))
                factors.append(self.helpers.call("floordiv", int64, above, str(factor.denominator)))
        return " * ".join(factors)

    def linear(self, expr: Linear, terms: Sequence[str]) -> str:
        parts = []
        for (scale, _), term in zip(expr.terms, terms, strict=True):
            parts.append(term if scale == 1 else f"{self.size(scale)} * {term}")
        if expr.const != 0 or not parts:
            parts.append(self.size(expr.const))
        text = " + ".join(parts).replace("+ -", "- ")
        return text if len(parts) == 1 and " " not in text else f"({text})"

    # -- operations ----------------------------------------------------------------------------------
    def apply(self, op: str, source: DType, dtype: DType, args: Sequence[str]) -> str:
        if op == "cast":
            return self.cast(source, dtype, args[0])
        if op == "bitcast":
            return self.bitcast(source, dtype, args[0])
        if op in _COMPARE:
            return f"({args[0]} {_INFIX[op]} {args[1]})"
        if op in _TESTS:
            return f"({op}({_bare(args[0])}) != 0)"
        if dtype.kind == "b":
            return self.logical(op, args)
        if dtype.kind == "f":
            return self.floating(op, dtype, args)
        if op in ("and", "or", "xor"):
            return f"({args[0]} {_INFIX[op]} {args[1]})"
        return self.helpers.call(op, dtype, *map(_bare, args))

    def logical(self, op: str, args: Sequence[str]) -> str:
        if op == "not":
            return f"!{args[0]}"
        sign = {"max": "|", "min": "&", "xor": "!=", **_INFIX}[op if op != "xor" else "ne"]
        return f"({args[0]} {sign} {args[1]})"

    def floating(self, op: str, dtype: DType, args: Sequence[str]) -> str:
        short, suffix = dtype.bits == 16, "" if dtype.bits == 64 else "f"
        inner = [_bare(arg) for arg in args]
        if op in _INFIX:
            text = f"({args[0]} {_INFIX[op]} {args[1]})"
        elif op == "neg":
            text = f"(- {args[0]})"
        elif op == "rsqrt":
            root = self.rounded(dtype, f"sqrt{suffix}({inner[0]})")
            text = f"({_literal(1.0, dtype)} / {root})"
        elif op == "fma" and short:
            text = self.helpers.fixed("fma_sticky", *inner)
        elif op in ("mod", "floordiv"):
            text = self.helpers.call(op, dtype, *inner)
            text = text if dtype.bits == 64 or short else f"(float){text}"
        elif op in ("sign", "max", "min"):
            text = self.helpers.call(op, dtype, *inner)
        else:
            text = f"{_LIBM.get(op, op)}{suffix}({', '.join(inner)})"
        return text if op in _EXACT else self.rounded(dtype, text)

    def rounded(self, dtype: DType, text: str) -> str:
        """A ``float`` or ``double`` rounded to a short format."""
        short = dtype.bits == 16
        return self.helpers.fixed(f"round_{dtype.name}", _bare(text)) if short else text

    def cast(self, source: DType, dtype: DType, text: str) -> str:
        if source is dtype:
            return text
        if dtype.kind == "b":
            return f"({text} != 0)"
        if dtype.kind != "f":
            if source.kind == "f":
                return self.helpers.saturate(dtype, _bare(text))
            return f"({storage_type(dtype)}){text}"
        if dtype.bits == 16:
            wide = source.kind != "f" and source.bits == 64
            exact = self.helpers.fixed(f"sticky_{source.name}", _bare(text)) if wide else text
            return self.rounded(dtype, exact)
        same = value_type(source) == value_type(dtype)
        return text if same else f"({value_type(dtype)}){text}"

    def bitcast(self, source: DType, dtype: DType, text: str) -> str:
        if source.kind == "f" and source.bits == 16:
            text = self.helpers.fixed(f"to_{source.name}", _bare(text))
        text = self.helpers.bits(source, dtype, _bare(text))
        if dtype.kind == "f" and dtype.bits == 16:
            return self.helpers.fixed(f"from_{dtype.name}", text)
        return text


class _Emitter(_Expressions):
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
            self.line(f"{kind} *{name} = ({kind} *)(uintptr_t)args[{at}];  /* {buffer.mode}{shared} */")
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
            self.line(f"if ({_bare(self.value(numbers[0]))}) {{")
            self.block(stmt.then)
            if stmt.otherwise:
                self.line("} else {")
                self.block(stmt.otherwise)
            self.line("}")
        elif isinstance(stmt, Store):
            self.store(stmt, numbers)
        elif isinstance(stmt, Declare):
            text = _bare(self.value(numbers[0]))
            self.line(f"{value_type(stmt.dtype)} {self.names.define(stmt.name)} = {text};")
        elif isinstance(stmt, Assign):
            self.line(f"{self.names[stmt.name]} = {_bare(self.value(numbers[0]))};")
        elif isinstance(stmt, Accumulate):
            self.accumulate(stmt, numbers)
        elif isinstance(stmt, Alloc):
            self.alloc(stmt)
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
            last = _bare(self.size(extent))
        else:
            last = self.temporary()
            self.line(f"const int64_t {last} = {_bare(self.value(numbers[0]))};")
        name = self.names.define(stmt.var.name)
        note = "" if stmt.kind == "serial" else f"  /* {stmt.kind} */"
        self.line(f"for (int64_t {name} = {first}; {name} < {last}; {name}++) {{{note}")
        self.block(stmt.body)
        self.line("}")

    def store(self, stmt: Store, numbers: Sequence[int]) -> None:
        if stmt.mask is not None:
            self.line(f"if ({_bare(self.value(numbers[0]))}) {{")
            self.depth += 1
        index, value = _bare(self.value(numbers[-2])), _bare(self.value(numbers[-1]))
        dtype = self.storage[stmt.buffer]
        if dtype.kind == "f" and dtype.bits == 16:
            value = self.helpers.fixed(f"to_{dtype.name}", value)
        self.line(f"{self.names[stmt.buffer]}[{index}] = {value};")
        if stmt.mask is not None:
            self.depth -= 1
            self.line("}")

    def accumulate(self, stmt: Accumulate, numbers: Sequence[int]) -> None:
        names = [self.names[name] for name in stmt.names]
        dtype, values = stmt.values[0].dtype, [_bare(self.value(number)) for number in numbers]
        if len(names) == 1:
            value = self.value(numbers[0])
            text = _bare(self.apply(stmt.op, dtype, dtype, [names[0], value]))
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
