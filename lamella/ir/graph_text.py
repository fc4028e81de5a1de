"""Print graphs as text and read them back. The grammar is in ``lamella.ir.text``.

Input: output nodes, or text. Output: text, or new output nodes.
Invariant: printing what was read gives the same text. Leaves keep shape and dtype, not their
values.
"""

from __future__ import annotations

import ast
import dataclasses
import math
import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final, NoReturn

from lamella.dtypes import ALL, COMPLEX, DType
from lamella.errors import CompilerError, FileFormatError, did_you_mean
from lamella.ir.dim import Dim, Size
from lamella.ir.loop_parse import parse_size
from lamella.ir.node import Node, topological
from lamella.ir.subgraph import Subgraph

if TYPE_CHECKING:
    from lamella.ops.base import Primitive

__all__ = ["graph_text", "parse_graph"]

_DTYPES: Final = {dtype.name: dtype for dtype in (*ALL, *COMPLEX)}
_WORDS: Final[dict[str, object]] = {
    "True": True, "False": False, "None": None, "inf": math.inf, "-inf": -math.inf, "nan": math.nan,
}  # fmt: skip
_TOKEN: Final = re.compile(
    r"\s*(%\d+|\{[^}]*\}|'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|-inf\b|-?\d[\w.]*(?:(?<=e)[+-]\d+)?"
    r"|[A-Za-z_][\w.]*|[()\[\],=])"
)
_COMPUTED: Final = "data"  # how a computed node prints: the primitive of leaves that hold a buffer


def _value_text(value: object, where: str, exact: bool = True) -> str:
    if isinstance(value, DType):
        return value.name
    if isinstance(value, tuple):
        inner = ", ".join([_value_text(item, where, exact) for item in value])
        return f"({inner},)" if len(value) == 1 else f"({inner})"
    if isinstance(value, Subgraph):
        return repr(value.text(exact))
    if value is None or isinstance(value, bool | int | float | str):
        return repr(value)
    if isinstance(value, Dim):
        return repr(str(value))
    if not exact:
        return f"<{value}>"
    raise CompilerError(
        f"[graph_text] {where} holds {value!r}, which has no text form; "
        "static parameters are numbers, strings, dtypes, subgraphs and tuples of them"
    )


def _size_text(size: Size) -> str:
    return str(size) if isinstance(size, int) else f"{{{size}}}"


def _node_text(node: Node, numbers: Mapping[int, int], exact: bool) -> str:
    computed = node.value is not None and bool(node.inputs)
    parts = [] if computed else [f"%{numbers[id(source)]}" for source in node.inputs]
    if not computed:
        for entry in [f for f in dataclasses.fields(node.op) if f.repr]:
            value = getattr(node.op, entry.name)
            text = _value_text(value, f"{node.op.name}.{entry.name}", exact)
            parts.append(f"{entry.name}={text}")
    name = _COMPUTED if computed else node.op.name
    shape = ", ".join([_size_text(size) for size in node.shape])
    return f"%{numbers[id(node)]} = {name}({', '.join(parts)}) {node.dtype.name}[{shape}]"


def graph_text(outputs: Iterable[Node], exact: bool = True) -> str:
    """The text of the graph under ``outputs``: one line a node, numbered in topological order.

    With ``exact=False``, for people alone, parameters without a text form are shown as they are.

    Raises:
        CompilerError: if a primitive has a static parameter without a text form.

    >>> graph_text([])
    'return'
    """
    wanted = list(outputs)
    order = topological(wanted)
    numbers = {id(node): at for at, node in enumerate(order)}
    lines = [_node_text(node, numbers, exact) for node in order]
    returned = ", ".join([f"%{numbers[id(node)]}" for node in wanted])
    return "\n".join([*lines, f"return {returned}".rstrip()])


def _fail(line: str, why: str) -> NoReturn:
    raise FileFormatError(
        f"[parse_graph] cannot read {line.strip()!r}: {why}; see the grammar in lamella.ir.text"
    )


class _Line:
    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = _TOKEN.findall(text)
        if re.sub(r"\s", "", "".join(self.tokens)) != re.sub(r"\s", "", text):
            _fail(text, "unexpected characters")
        self.at = 0

    def peek(self, ahead: int = 0) -> str:
        at = self.at + ahead
        return str(self.tokens[at]) if at < len(self.tokens) else ""

    def take(self) -> str:
        self.at += 1
        return (
            str(self.tokens[self.at - 1])
            if self.at <= len(self.tokens)
            else _fail(self.text, "it ends early")
        )

    def accept(self, token: str) -> bool:
        if self.peek() == token:
            self.at += 1
            return True
        return False

    def expect(self, token: str) -> None:
        if self.take() != token:
            _fail(self.text, f"{token!r} expected before {self.peek() or 'the end'!r}")

    def end(self) -> None:
        if self.at < len(self.tokens):
            _fail(self.text, f"unexpected {self.peek()!r}")

    def value(self) -> object:
        token = self.take()
        if token == "(":
            items: list[object] = []
            while not self.accept(")"):
                items.append(self.value())
                if not self.accept(","):
                    self.expect(")")
                    break
            return tuple(items)
        if token in _WORDS:
            return _WORDS[token]
        if token in _DTYPES:
            return _DTYPES[token]
        try:
            return ast.literal_eval(
                token
            )  # a number or a quoted string: the token pattern admits nothing else
        except (ValueError, SyntaxError):
            _fail(self.text, f"{token!r} is not a value")

    def shape(self) -> tuple[Size, ...]:
        self.expect("[")
        sizes: list[Size] = []
        while not self.accept("]"):
            sizes.append(parse_size(self.take()))
            if not self.accept(","):
                self.expect("]")
                break
        return tuple(sizes)


class _Reader:
    def __init__(self, primitives: Mapping[str, type[Primitive]]) -> None:
        self.primitives = primitives
        self.nodes: dict[str, Node] = {}

    def reference(self, line: _Line) -> Node:
        token = line.take()
        return self.nodes.get(token) or _fail(line.text, f"{token} is not defined above")

    def node(self, line: _Line) -> None:
        label = line.take()
        line.expect("=")
        name = line.take()
        line.expect("(")
        inputs: list[Node] = []
        fields: dict[str, object] = {}
        while not line.accept(")"):
            if line.peek().startswith("%"):
                inputs.append(self.reference(line))
            else:
                field = line.take()
                line.expect("=")
                fields[field] = line.value()
            if not line.accept(","):
                line.expect(")")
                break
        dtype = _DTYPES.get(line.take()) or _fail(line.text, "a dtype must follow")
        self.nodes[label] = Node(
            self.primitive(line, name, fields), tuple(inputs), line.shape(), dtype
        )
        line.end()

    def primitive(self, line: _Line, name: str, fields: dict[str, object]) -> Primitive:
        found = self.primitives.get(name)
        if found is None:
            _fail(line.text, f"{name!r} is no primitive ({did_you_mean(name, self.primitives)})")
        try:
            return found(**fields)
        except TypeError as error:
            _fail(line.text, f"{name} does not take these parameters ({error})")


def parse_graph(text: str, primitives: Mapping[str, type[Primitive]]) -> list[Node]:
    """The output nodes of the graph that ``text`` describes; ``primitives`` maps names to classes
    (``ops.PRIMITIVES``).

    Leaves have no value and nothing is tracked. Shapes and dtypes are taken as written:
    ``verify_graph`` checks them.

    Raises:
        FileFormatError: naming the line that does not follow the grammar.

    >>> parse_graph("return", {})
    []
    """
    reader = _Reader(primitives)
    lines = [_Line(line) for line in text.splitlines() if line.strip()]
    if not lines or lines[-1].peek() != "return":
        _fail(text[-80:], "the last line must return nodes")
    for line in lines[:-1]:
        reader.node(line)
    last = lines[-1]
    last.take()
    outputs: list[Node] = []
    while last.peek():
        outputs.append(reader.reference(last))
        if not last.accept(","):
            break
    last.end()
    return outputs
