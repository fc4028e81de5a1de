"""Read kernels from text. The grammar is in ``lamella.ir.text``; ``loop_text`` prints it.

Input: text as ``kernel_text`` prints it. Output: the kernel, its equal subexpressions shared as the
text shares them. Invariant: ``parse_kernel(kernel_text(kernel)) == kernel``. A kernel so read is
not yet verified.
"""

from __future__ import annotations

import math
import re
from typing import Final, NoReturn

from lamella.dtypes import ALL, DType, bool_, int64
from lamella.errors import FileFormatError
from lamella.ir.dim import Dim, Size
from lamella.ir.loop_text import BOOL_RESULTS
from lamella.ir.loops import (
    APPLY_OPS,
    Accumulate,
    Alloc,
    Apply,
    Assign,
    Barrier,
    BufferParam,
    Const,
    Declare,
    Expr,
    Extent,
    For,
    If,
    Kernel,
    Linear,
    Load,
    Param,
    Prefetch,
    Read,
    Stmt,
    Store,
    Var,
)  # fmt: skip

__all__ = ["parse_kernel", "parse_size"]

_TOKEN: Final = re.compile(
    r"\s*(?:(?P<ref>%\d+)|(?P<dim>\{[^}]*\})|(?P<number>-?(?:\d+(?:\.\d+)?(?:e[+-]?\d+)?|(?:inf|nan)\b))"
    r"|(?P<name>[A-Za-z_][\w.]*)|(?P<mark>[<>()\[\],:=*+]))"
)
_SIZE_TOKEN: Final = re.compile(r"\s*(\d+|[A-Za-z_][\w.]*|//|[()*+-])")
_DTYPES: Final = {dtype.name: dtype for dtype in ALL}
_LOOPS: Final = ("grid", "block", "serial", "unroll", "lanes")
_SPACES: Final = ("register", "local", "shared")
_MODES: Final = ("in", "out", "inout")


def _fail(line: str, why: str) -> NoReturn:
    raise FileFormatError(
        f"[parse_kernel] cannot read {line.strip()!r}: {why}; see the grammar in lamella.ir.text"
    )


class _SizeReader:
    """``sum = product {(+|-) product}; product = factor {(*|//) factor}; factor = number | name |
    (sum) | - factor``.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = _SIZE_TOKEN.findall(text)
        if "".join(self.tokens) != re.sub(r"\s", "", text):
            _fail(text, "a size holds numbers, names, + - * // and parentheses")
        self.at = 0

    def take(self, *wanted: str) -> str | None:
        if self.at < len(self.tokens) and (not wanted or self.tokens[self.at] in wanted):
            self.at += 1
            return str(self.tokens[self.at - 1])
        return None

    def sum(self) -> Size:
        total = self.product()
        while sign := self.take("+", "-"):
            term = self.product()
            total = total + term if sign == "+" else total - term
        return total

    def product(self) -> Size:
        total = self.factor()
        while sign := self.take("*", "//"):
            other = self.factor()
            total = total * other if sign == "*" else total // other
        return total

    def factor(self) -> Size:
        if self.take("-"):
            return -self.factor()
        if self.take("("):
            inner = self.sum()
            if not self.take(")"):
                _fail(self.text, "a parenthesis is not closed")
            return inner
        token = self.take()
        if token is None or not (token.isdigit() or token[0].isalpha() or token[0] == "_"):
            _fail(self.text, "a number or a name is missing")
        return int(token) if token.isdigit() else Dim(token)


def parse_size(text: str) -> Size:
    """The size that ``text`` (a number or ``{polynomial}``) stands for.

    >>> parse_size("{2*n + 1}"), parse_size("4")
    (2*n + 1, 4)
    """
    reader = _SizeReader(text.strip().removeprefix("{").removesuffix("}"))
    size = reader.sum()
    if reader.take():
        _fail(text, "something follows the size")
    return size


class _Line:
    """The tokens of one line, and what its names mean."""

    def __init__(self, text: str, scope: _Scope) -> None:
        self.text, self.scope = text, scope
        self.indent = len(text) - len(text.lstrip())
        self.tokens: list[tuple[str, str]] = []
        at, end = 0, len(text.rstrip())
        while at < end:
            match = _TOKEN.match(text, at)
            if match is None:
                _fail(text, f"unexpected character {text[at:].strip()[:1]!r}")
            self.tokens.append((str(match.lastgroup), match.group(str(match.lastgroup))))
            at = match.end()
        self.at = 0

    # -- tokens ------------------------------------------------------------------------------------
    def peek(self, ahead: int = 0) -> str:
        at = self.at + ahead
        return self.tokens[at][1] if at < len(self.tokens) else ""

    def kind(self) -> str:
        return self.tokens[self.at][0] if self.at < len(self.tokens) else ""

    def accept(self, *wanted: str) -> bool:
        if self.peek() in wanted and self.peek():
            self.at += 1
            return True
        return False

    def expect(self, wanted: str) -> None:
        if not self.accept(wanted):
            _fail(self.text, f"{wanted!r} expected, found {self.peek() or 'the end'!r}")

    def word(self, kind: str = "name") -> str:
        if self.kind() != kind:
            _fail(self.text, f"a {kind} expected, found {self.peek() or 'the end'!r}")
        self.at += 1
        return self.tokens[self.at - 1][1]

    def choice(self, allowed: tuple[str, ...]) -> str:
        word = self.word()
        return (
            word
            if word in allowed
            else _fail(self.text, f"{word!r} is not one of {', '.join(allowed)}")
        )

    def dtype(self) -> DType:
        return _DTYPES.get(name := self.word()) or _fail(self.text, f"{name!r} is not a dtype")

    def end(self) -> None:
        if self.at < len(self.tokens):
            _fail(self.text, f"unexpected {self.peek()!r}")

    # -- expressions -------------------------------------------------------------------------------
    def size(self) -> Size:
        return parse_size(self.word("dim") if self.kind() == "dim" else self.word("number"))

    def extent(self) -> Extent:
        alone = self.at + 1 == len(self.tokens)
        if alone and self.kind() in ("dim", "number"):
            return self.size()
        return self.expr()

    def expr(self) -> Expr:
        if self.kind() in ("dim", "number") and self.peek(1) == "*":
            return self.linear()
        return self.atom()

    def linear(self) -> Linear:
        const: Size = 0
        terms: list[tuple[Size, Expr]] = []
        while True:
            size = self.size()
            if self.accept("*"):
                terms.append((size, self.atom()))
            else:
                const = size
            if not self.accept("+"):
                return Linear(const, tuple(terms))

    def atom(self) -> Expr:
        kind = self.kind()
        if kind == "ref":
            ref = self.word("ref")
            return self.scope.refs.get(ref) or _fail(self.text, f"{ref} is not defined above")
        if kind == "number":
            return self.const()
        if self.accept("["):
            inner = self.linear()
            self.expect("]")
            return inner
        name = self.word()
        if name in ("true", "false"):
            return Const(name == "true", bool_)
        if self.peek() in ("(", "<") and name in APPLY_OPS:
            return self.apply(name)
        if self.accept("["):
            index, mask, other = self.subscript()
            return Load(name, index, self.scope.element(name, self.text), mask, other)
        return self.scope.name(name, self.text)

    def const(self) -> Const:
        if self.peek() in ("true", "false"):
            return Const(self.word() == "true", bool_)
        text = self.word("number")
        dtype = self.dtype() if self.accept(":") else int64
        if dtype.kind == "f":
            return Const(math.nan if "nan" in text else float(text), dtype)
        try:
            return Const(int(text), dtype)
        except ValueError:
            _fail(self.text, f"{text} is not an integer")

    def apply(self, op: str) -> Apply:
        dtype = None
        if self.accept("<"):
            dtype = self.dtype()
            self.expect(">")
        self.expect("(")
        args = [self.expr()]
        while self.accept(","):
            args.append(self.expr())
        self.expect(")")
        if dtype is None:
            if op == "select" and len(args) < 2:
                _fail(self.text, "select takes three arguments")
            dtype = bool_ if op in BOOL_RESULTS else args[1 if op == "select" else 0].dtype
        return Apply(op, tuple(args), dtype)

    def subscript(self) -> tuple[Expr, Expr | None, Const | None]:
        index = self.expr()
        mask = self.expr() if self.accept("if") else None
        other = self.const() if self.accept("else") else None
        self.expect("]")
        return index, mask, other


class _Scope:
    """Names of the kernel read so far (they are unique, so one table serves all blocks)."""

    def __init__(self) -> None:
        self.refs: dict[str, Expr] = {}
        self.names: dict[str, Expr] = {}
        self.buffers: dict[str, DType] = {}

    def name(self, name: str, line: str) -> Expr:
        return self.names.get(name) or _fail(line, f"{name!r} is not defined above")

    def element(self, name: str, line: str) -> DType:
        return self.buffers.get(name) or _fail(line, f"{name!r} is not a buffer defined above")


class _Reader:
    def __init__(self, text: str) -> None:
        self.scope = _Scope()
        self.lines = [_Line(line, self.scope) for line in text.splitlines() if line.strip()]
        self.at = 0

    def next(self, indent: int) -> _Line | None:
        """The next line if it is indented by exactly ``indent``, consumed."""
        if self.at < len(self.lines) and self.lines[self.at].indent == indent:
            self.at += 1
            return self.lines[self.at - 1]
        return None

    def kernel(self) -> Kernel:
        first = self.next(0) or _fail("", "the text is empty or indented")
        first.expect("kernel")
        name = first.word()
        first.end()
        buffers: list[BufferParam] = []
        params: list[Param] = []
        sizes: list[str] = []
        numbers: dict[str, Size] = {"faults": 0, "work": 1}
        while line := self.next(2):
            self.header(line, buffers, params, sizes, numbers)
        body = self.block(0)
        if self.at < len(self.lines):
            _fail(self.lines[self.at].text, "the indentation fits no block")
        if len(body) != 1 or not isinstance(body[0], For):
            _fail(first.text, "a kernel's body is one grid loop")
        faults = numbers["faults"]
        if not isinstance(faults, int):
            _fail(first.text, "faults is a plain number")
        return Kernel(
            name, tuple(buffers), tuple(params), tuple(sizes), body[0], faults, numbers["work"]
        )

    def header(
        self,
        line: _Line,
        buffers: list[BufferParam],
        params: list[Param],
        sizes: list[str],
        numbers: dict[str, Size],
    ) -> None:
        word = line.word()
        if word in _MODES:
            name = line.word()
            line.expect(":")
            dtype = self.scope.buffers[name] = line.dtype()
            alias = line.word() if line.accept("alias") else None
            streamed = line.accept("streamed")
            buffers.append(
                BufferParam(name, dtype, word, alias, streamed)  # type: ignore[arg-type]
            )
        elif word == "param":
            name = line.word()
            line.expect(":")
            params.append(Param(name, line.dtype()))
            self.scope.names[name] = params[-1]
        elif word == "sizes":
            sizes.append(line.word())
            while line.accept(","):
                sizes.append(line.word())
        elif word in numbers:
            numbers[word] = line.size()
        else:
            _fail(line.text, f"{word!r} is not in, out, inout, param, sizes, faults or work")
        line.end()

    def block(self, indent: int) -> tuple[Stmt, ...]:
        found: list[Stmt] = []
        while line := self.next(indent):
            if line.kind() == "ref":
                ref = line.word("ref")
                line.expect("=")
                self.scope.refs[ref] = line.expr()
            elif line.peek() == "else" and found and isinstance(last := found[-1], If):
                line.accept("else")
                found[-1] = If(last.condition, last.then, self.block(indent + 2))
            else:
                found.append(self.statement(line, indent))
            line.end()
        return tuple(found)

    def statement(self, line: _Line, indent: int) -> Stmt:
        word, following = line.word(), line.peek()
        if following == "[" and word in self.scope.buffers:
            line.accept("[")
            index, mask, _ = line.subscript()
            atomic = line.word() if line.accept("atomic") else ""
            line.expect("=")
            return Store(word, index, line.expr(), mask, atomic)
        if following == "=":
            line.accept("=")
            return Assign(word, line.expr())
        if following == "," or line.peek(1) == "=":
            return self.accumulate(word, line)
        if word in _LOOPS:
            name = line.word()
            line.expect("<")
            var = Var(name, line.extent())
            self.scope.names[name] = var
            return For(var, word, self.block(indent + 2))  # type: ignore[arg-type]
        if word == "if":
            return If(line.expr(), self.block(indent + 2))
        if word == "barrier":
            return Barrier()
        if word in ("prefetch", "prefetch2"):
            buffer = line.word()
            line.expect("[")
            return Prefetch(buffer, line.subscript()[0], 1 if word == "prefetch" else 2)
        if word == "var" or word in _SPACES:
            return self.definition(word, line)
        _fail(line.text, f"{word!r} begins no statement")

    def accumulate(self, first: str, line: _Line) -> Accumulate:
        names = [first]
        while line.accept(","):
            names.append(line.word())
        op = line.word()
        line.expect("=")
        values = [line.expr()]
        while line.accept(","):
            values.append(line.expr())
        return Accumulate(tuple(names), op, tuple(values))

    def definition(self, word: str, line: _Line) -> Stmt:
        name = line.word()
        line.expect(":")
        dtype = line.dtype()
        if word == "var":
            self.scope.names[name] = Read(name, dtype)
            line.expect("=")
            return Declare(name, dtype, line.expr())
        self.scope.buffers[name] = dtype
        line.expect("[")
        size = line.size()
        line.expect("]")
        if not isinstance(size, int):
            _fail(line.text, "scratch memory has a constant size")
        return Alloc(name, dtype, size, word)  # type: ignore[arg-type]


def parse_kernel(text: str) -> Kernel:
    """The kernel that ``text`` describes.

    Raises:
        FileFormatError: naming the line that does not follow the grammar.

    >>> kernel = parse_kernel('''kernel fill
    ...   out y: float32
    ...   work 1
    ... grid i < 4
    ...   y[i] = 0.5:float32''')
    >>> kernel.body.body[0].value
    Const(value=0.5, dtype=lamella.float32)
    """
    return _Reader(text).kernel()
