"""C99 text of expressions; ``c`` writes the statements around them.

Input: expressions of a kernel, numbered by structure. Output: C text, and the lines that must stand
before it. Invariants: what is shared or long becomes a ``const`` variable, so that text stays
linear; what an untaken arm of a ``select`` or an unused index of a masked load needs is written
inside a block of its own.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from typing import Final

from lamella.compiler.emit.c_support import Helpers, storage_type, value_type
from lamella.dtypes import DType, int64
from lamella.ir import scalar
from lamella.ir.dim import Monomial, Size
from lamella.ir.loops import (
    Apply,
    Const,
    Expr,
    Kernel,
    Linear,
    Load,
)  # fmt: skip
from lamella.ir.numbering import Numbering, checked_indices

__all__ = ["Expressions", "Names", "bare", "c_literal"]

LINE: Final = 80  # longer expressions get a variable of their own
_KEYWORDS: Final = re.findall(
    r"\w+",
    """
    auto bool break case char const continue default do double else enum extern float for goto if
    inline int long register restrict return short signed sizeof static struct switch typedef union
    unsigned void volatile while true false args begin end main memcpy malloc free NAN INFINITY
    isnan isinf isfinite signbit frexp copysign fabs ldexp nearbyint nextafter fmod rint fma floor
    ceil trunc sqrt exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan atan2 sinh cosh
    tanh asinh acosh atanh erf erfc pow
    """,
)
_RESERVED: Final = frozenset(_KEYWORDS) | {f"{name}f" for name in _KEYWORDS}
_INFIX: Final = {
    "add": "+", "sub": "-", "mul": "*", "div": "/", "lt": "<", "le": "<=", "eq": "==", "ne": "!=",
    "and": "&", "or": "|", "xor": "^",
}  # fmt: skip
_COMPARE: Final = frozenset(["lt", "le", "eq", "ne"])
_TESTS: Final = frozenset(["isnan", "isinf", "isfinite", "signbit"])
_LIBM: Final = {"abs": "fabs", "round": "rint"}
_EXACT: Final = frozenset(
    ["neg", "abs", "sign", "max", "min", "copysign", "floor", "ceil", "trunc", "round"]
)


class Names:
    """C identifiers for the kernel's names."""

    def __init__(self) -> None:
        self.known: dict[str, str] = {}
        self.used: set[str] = set()

    def define(self, name: str) -> str:
        """A new identifier for ``name``: itself, unless C, a helper or an earlier name has it."""
        chosen = re.sub(r"\W", "_", name)
        while chosen in _RESERVED or chosen in self.used or re.match(r"lm_|t\d+$|\d", chosen):
            chosen = (
                f"{chosen}_" if not chosen[:1].isdigit() and chosen[:3] != "lm_" else f"k{chosen}"
            )
        self.used.add(chosen)
        self.known[name] = chosen
        return chosen

    def __getitem__(self, name: str) -> str:
        return self.known[name]


def bare(text: str) -> str:
    """Without parentheses around the whole.

    >>> bare("(a + b)"), bare("(a) + (b)")
    ('a + b', '(a) + (b)')
    """
    if not text.startswith("("):
        return text
    depth = 0
    for at, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if depth == 0:
            return text[1:-1] if at == len(text) - 1 else text
    return text


def c_literal(value: bool | int | float, dtype: DType) -> str:
    """A constant of ``dtype``, exact.

    >>> from lamella.dtypes import float32
    >>> c_literal(0.5, float32), c_literal(-(2**63), int64)
    ('0.5f', 'INT64_MIN')
    """
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


class Expressions:
    """C text of expressions. Shared or long ones become ``const`` variables in ``lines``."""

    def __init__(self, kernel: Kernel) -> None:
        self.helpers = Helpers()
        self.names = Names()
        self.lines: list[str] = []
        self.depth = 1
        self.temporaries = 0
        self.numbering = Numbering()
        self.impure: list[bool] = []  # by number: loads from memory or may fault
        self.uses: dict[int, int] = {}  # in the present statement
        self.texts: dict[int, str] = {}  # in the present statement, valid in the present C block
        checks = checked_indices(kernel)
        self.ordinals = {self.numbering.number(check): at for at, check in enumerate(checks)}

    def line(self, text: str) -> None:
        """Write one line of C."""
        self.lines.append("    " * self.depth + text if text else "")

    def temporary(self) -> str:
        """A fresh name for a variable."""
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

    def _eager(self, number: int) -> Sequence[int]:
        """The operands that are evaluated whenever the expression is."""
        expr, parts = self.numbering.exprs[number], self.numbering.operands[number]
        lazy = isinstance(expr, Load) and len(parts) == 2
        lazy = lazy or (isinstance(expr, Apply) and expr.op == "select")
        if lazy and any(self.impure[part] for part in parts[1:]):
            return parts[:1]
        return parts

    def value(self, number: int) -> str:
        """The text of an expression, after the lines it needs. Its operands are done in order of
        their numbers.
        """
        wanted, stack = {number}, [number]
        while stack:
            for part in self._eager(stack.pop()):
                if part not in wanted and part not in self.texts:
                    wanted.add(part)
                    stack.append(part)
        for each in sorted(wanted):
            if each not in self.texts:
                text = self._compute(each)
                leaf = not self.numbering.operands[each]
                if (
                    not leaf
                    and (self.uses[each] > 1 or len(text) > LINE)
                    and not text.isidentifier()
                ):
                    name = self.temporary()
                    kind = value_type(self.numbering.exprs[each].dtype)
                    self.line(f"const {kind} {name} = {bare(text)};")
                    text = name
                self.texts[each] = text
        return self.texts[number]

    def _compute(self, number: int) -> str:
        expr, parts = self.numbering.exprs[number], self.numbering.operands[number]
        if isinstance(expr, Const):
            return c_literal(expr.value, expr.dtype)
        if isinstance(expr, Linear):
            return self._linear(expr, [self.texts[part] for part in parts])
        if isinstance(expr, Load):
            return self._load(expr, parts)
        if not isinstance(expr, Apply):
            return self.names[expr.name]
        if expr.op == "select":
            return self._choose(expr.dtype, self.texts[parts[0]], parts[1], parts[2])
        args = [self.texts[part] for part in parts]
        if expr.op == "checked_index":
            code = str(1 + self.ordinals[number])
            return self.helpers.fixed("checked_index", *map(bare, args), self.names["fault"], code)
        return self.apply(expr.op, expr.args[0].dtype, expr.dtype, args)

    # -- evaluation of only what is needed ---------------------------------------------------------
    def _arm(self, number: int) -> tuple[str, list[str]]:
        """The text of an expression in a block of its own, and the lines it needs there."""
        texts, lines = self.texts, self.lines
        self.texts, self.lines = dict(texts), []
        self.depth += 1
        text = self.value(number)
        found = self.lines
        self.depth -= 1
        self.texts, self.lines = texts, lines
        return text, found

    def _choose(self, dtype: DType, condition: str, then: int, otherwise: int) -> str:
        first, before = self._arm(then)
        second, after = self._arm(otherwise)
        return self._conditional(dtype, condition, (first, before), (second, after))

    def _conditional(
        self,
        dtype: DType,
        condition: str,
        then: tuple[str, list[str]],
        other: tuple[str, list[str]],
    ) -> str:
        if not then[1] and not other[1]:
            return f"({condition} ? {then[0]} : {other[0]})"
        name = self.temporary()
        self.line(f"{value_type(dtype)} {name};")
        self.line(f"if ({bare(condition)}) {{")
        self.lines += then[1]
        self.line(f"    {name} = {bare(then[0])};")
        self.line("} else {")
        self.lines += other[1]
        self.line(f"    {name} = {bare(other[0])};")
        self.line("}")
        return name

    def _load(self, expr: Load, parts: Sequence[int]) -> str:
        if expr.mask is None:
            return self._element(expr, self.texts[parts[0]])
        index, before = self._arm(parts[1])
        other = expr.other if expr.other is not None else Const(0, expr.dtype)
        fill = c_literal(other.value, other.dtype)
        loaded = self._element(expr, index)
        return self._conditional(expr.dtype, self.texts[parts[0]], (loaded, before), (fill, []))

    def _element(self, expr: Load, index: str) -> str:
        text = f"{self.names[expr.buffer]}[{bare(index)}]"
        if expr.dtype.kind == "f" and expr.dtype.bits == 16:
            return self.helpers.fixed(f"from_{expr.dtype.name}", text)
        return text

    # -- sizes and indices -------------------------------------------------------------------------
    def size(self, size: Size) -> str:
        """A size as an int64 expression."""
        if isinstance(size, int):
            return c_literal(size, int64)
        terms = [self._monomial(monomial, scale) for monomial, scale in size.terms.items()]
        return terms[0] if len(terms) == 1 else f"({' + '.join(terms)})"

    def _monomial(self, monomial: Monomial, scale: int) -> str:
        factors = [] if scale == 1 and monomial else [c_literal(scale, int64)]
        for factor in monomial:
            if isinstance(factor, str):
                factors.append(self.names[factor])
            else:
                above = bare(self.size(factor.numerator))
                factors.append(self.helpers.call("floordiv", int64, above, str(factor.denominator)))
        return " * ".join(factors)

    def _linear(self, expr: Linear, terms: Sequence[str]) -> str:
        parts = []
        for (scale, _), term in zip(expr.terms, terms, strict=True):
            parts.append(term if scale == 1 else f"{self.size(scale)} * {term}")
        if expr.const != 0 or not parts:
            parts.append(self.size(expr.const))
        text = " + ".join(parts).replace("+ -", "- ")
        return text if len(parts) == 1 and " " not in text else f"({text})"

    # -- operations --------------------------------------------------------------------------------
    def apply(self, op: str, source: DType, dtype: DType, args: Sequence[str]) -> str:
        """``op`` of texts of values of ``source``, with a result of ``dtype``."""
        if op == "cast":
            return self._cast(source, dtype, args[0])
        if op == "bitcast":
            return self._bitcast(source, dtype, args[0])
        if op == "word":
            parts = [f"(uint32_t)(uint8_t){arg} << {8 * at}" for at, arg in enumerate(args)]
            return f"(int32_t)({' | '.join(parts)})"
        if op in _COMPARE:
            return f"({args[0]} {_INFIX[op]} {args[1]})"
        if op in _TESTS:
            return f"({op}({bare(args[0])}) != 0)"
        if dtype.kind == "b":
            return self._logical(op, args)
        if dtype.kind == "f":
            return self._floating(op, dtype, args)
        if op in ("and", "or", "xor"):
            return f"({args[0]} {_INFIX[op]} {args[1]})"
        return self.helpers.call(op, dtype, *map(bare, args))

    def _logical(self, op: str, args: Sequence[str]) -> str:
        if op == "not":
            return f"(!{args[0]})"
        sign = {"max": "|", "min": "&", "xor": "!=", **_INFIX}[op if op != "xor" else "ne"]
        return f"({args[0]} {sign} {args[1]})"

    def _floating(self, op: str, dtype: DType, args: Sequence[str]) -> str:
        short, suffix = dtype.bits == 16, "" if dtype.bits == 64 else "f"
        inner = [bare(arg) for arg in args]
        if op in _INFIX:
            text = f"({args[0]} {_INFIX[op]} {args[1]})"
        elif op == "neg":
            text = f"(- {args[0]})"
        elif op == "rsqrt":
            root = self._rounded(dtype, f"sqrt{suffix}({inner[0]})")
            text = f"({c_literal(1.0, dtype)} / {root})"
        elif op == "fma" and short:
            text = self.helpers.fixed("fma_sticky", *inner)
        elif op in ("mod", "floordiv"):
            text = self.helpers.call(op, dtype, *inner)
            text = text if dtype.bits == 64 or short else f"(float){text}"
        elif op == "ldexp":
            text = f"ldexp{suffix}({inner[0]}, (int){args[1]})"
        elif op in ("sign", "max", "min"):
            text = self.helpers.call(op, dtype, *inner)
        else:
            text = f"{_LIBM.get(op, op)}{suffix}({', '.join(inner)})"
        return text if op in _EXACT else self._rounded(dtype, text)

    def _rounded(self, dtype: DType, text: str) -> str:
        """A ``float`` or ``double`` rounded to a short format."""
        short = dtype.bits == 16
        return self.helpers.fixed(f"round_{dtype.name}", bare(text)) if short else text

    def _cast(self, source: DType, dtype: DType, text: str) -> str:
        if source is dtype:
            return text
        if dtype.kind == "b":
            return f"({text} != 0)"
        if dtype.kind != "f":
            if source.kind == "f":
                return self.helpers.saturate(dtype, bare(text))
            return f"({storage_type(dtype)}){text}"
        if dtype.bits == 16:
            wide = source.kind != "f" and source.bits == 64
            exact = self.helpers.fixed(f"sticky_{source.name}", bare(text)) if wide else text
            return self._rounded(dtype, exact)
        same = value_type(source) == value_type(dtype)
        return text if same else f"({value_type(dtype)}){text}"

    def _bitcast(self, source: DType, dtype: DType, text: str) -> str:
        if source.kind == "f" and source.bits == 16:
            text = self.helpers.fixed(f"to_{source.name}", bare(text))
        text = self.helpers.bits(source, dtype, bare(text))
        if dtype.kind == "f" and dtype.bits == 16:
            return self.helpers.fixed(f"from_{dtype.name}", text)
        return text
