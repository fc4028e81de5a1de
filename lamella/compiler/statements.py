"""Statements: each materialised node as a loop-free definition over named index variables.

Input: the graph and its materialised nodes. Output: one :class:`Statement` a node, in order. A
statement says: for every value of
``out`` (one variable per axis), the node's element is ``value``; or, for a reduction, the fold of
``value`` over ``reduce``. Contractions carry their two factors apart, kernels only the nodes they
read.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING

from lamella.compiler.elements import Elements, ReadOf
from lamella.compiler.partition import is_external
from lamella.ir.decisions import at_least
from lamella.ir.dim import Size, product
from lamella.ir.index import coefficient, constant
from lamella.ir.loops import Apply, Const, Expr, Load, Var
from lamella.ir.node import Node
from lamella.ir.walk import expressions
from lamella.ops.calls import Call, Part, has_effects, part

if TYPE_CHECKING:
    from lamella.ops.contraction import Contraction

__all__ = ["Program", "Statement", "Tiles", "build"]

SMALL = 4096  # multiply-adds below which a contraction is an ordinary reduction
SHORT = 512  # the same of each in a batch
LARGE = 1 << 17  # elements of a matrix that memory gives once


@dataclass(slots=True)
class Tiles:
    """A contraction with its loop variables: result = sum over ``k`` of ``left * right``."""

    description: Contraction
    batch: tuple[Var, ...]
    m: tuple[Var, ...]
    n: tuple[Var, ...]
    k: tuple[Var, ...]
    left: Expr
    right: Expr
    index: tuple[Expr, ...]


@dataclass(slots=True, eq=False)
class Statement:
    """The definition of one materialised node; ``number`` orders statements, ``name`` is the node's
    buffer.
    """

    number: int
    node: Node
    name: str
    kind: str  # "map", "fold", "tiles", "kernel", "call" or "part"
    out: tuple[Var, ...] = ()
    reduce: tuple[Var, ...] = ()
    value: Expr | None = None
    second: Expr | None = None  # the index that argmax and argmin carry
    fold: tuple[str, Const] | None = None
    tiles: Tiles | None = None
    reads: list[ReadOf] = field(default_factory=list)
    # every materialised or external node it depends on
    sources: list[Node] = field(default_factory=list)
    parts: tuple[Node, ...] = ()  # the results of a call
    late: bool = False  # it depends on values that are computed again
    origin: object = None  # the group of the statement that this one computes again

    @property
    def wide(self) -> list[int]:
        """The axes that need a loop: all but those of size 1."""
        return [axis for axis, v in enumerate(self.out) if v.extent != 1]

    @property
    def index(self) -> tuple[Expr, ...]:
        """The index of an element in terms of ``out``."""
        return _index(self.out)


@dataclass(slots=True)
class Program:
    """A graph as statements, with the names of everything it takes from outside."""

    statements: list[Statement]
    names: dict[Node, str]  # buffers: externals and materialised nodes
    params: dict[Node, str]  # scalar leaves
    outputs: list[Node]


def _variables(prefix: str, sizes: Sequence[Size]) -> tuple[Var, ...]:
    return tuple(Var(f"{prefix}{axis}", size) for axis, size in enumerate(sizes))


def _index(variables: Sequence[Var]) -> tuple[Expr, ...]:
    """The variables as an index; along an axis of size 1 it is 0, which takes no loop."""
    return tuple(constant(0) if v.extent == 1 else v for v in variables)


def build(
    order: Sequence[Node], outputs: Sequence[Node], stored: set[Node],
    copies: Mapping[Node, object] = MappingProxyType({}),
) -> Program:  # fmt: skip
    """The statements of a graph given in order;
    ``copies`` compute again what other nodes have, which were in these groups.
    """
    names: dict[Node, str] = {}
    params: dict[Node, str] = {}
    for node in order:
        if node.op.name == "scalar":
            params[node] = f"s{len(params)}"
        elif is_external(node) or node in stored:
            names[node] = f"b{len(names)}"
    statements: list[Statement] = []
    for node in order:
        if node in stored and node.op.kind != "part":
            statements.append(_statement(len(statements), node, names, params))
        if node in stored and isinstance(node.op, Call):
            _parts(statements, order, names, params)
    _in_order(statements)
    late = _late(order, copies)
    for statement in statements:
        statement.late = statement.node in late
        statement.origin = copies.get(statement.node)
    return Program(_live(statements, outputs), names, params, list(outputs))


def _late(order: Sequence[Node], copies: Collection[Node]) -> set[Node]:
    """The nodes that depend on one that is computed again."""
    found: set[Node] = set(copies)
    if found or any(node.op.name == "again" for node in order):
        for node in order:
            if node.op.name == "again" or any(source in found for source in node.inputs):
                found.add(node)
    return found


def _parts(
    statements: list[Statement], order: Sequence[Node], names: dict[Node, str],
    params: Mapping[Node, str],
) -> None:  # fmt: skip
    """A statement for every result of the call that is the last statement, wanted or not."""
    last = statements[-1]
    known = {node.op: node for node in order if node.inputs == (last.node,)}
    count = len(last.node.op.results(last.node.inputs))  # type: ignore[attr-defined]
    found = []
    for i in range(count):
        node = known.get(Part(i)) or part(last.node, i)
        names.setdefault(node, f"b{len(names)}")
        statements.append(_statement(len(statements), node, names, params))
        found.append(node)
    last.parts = tuple(found)


def _in_order(statements: Sequence[Statement]) -> None:
    """Every effect depends on the one before."""
    before: Statement | None = None
    for s in statements:
        if has_effects(s.node):
            if before is not None:
                s.sources = [*s.sources, before.parts[0]]
            before = s


def _live(statements: Sequence[Statement], outputs: Sequence[Node]) -> list[Statement]:
    """The statements an output reads: composing drops reads that an empty region never makes."""
    wanted = set(outputs)
    found: list[Statement] = []
    together = {node: s.parts for s in statements for node in s.parts}
    for s in reversed(statements):
        if any(node in wanted for node in together.get(s.node, (s.node,))):
            wanted.update(s.sources)
            found.append(s)
    return found[::-1]


def _statement(
    number: int, node: Node, names: Mapping[Node, str], params: Mapping[Node, str]
) -> Statement:
    elements = Elements(names, params)
    statement = Statement(number, node, names[node], "map")
    kind = node.op.kind
    if kind in ("kernel", "call", "part"):
        statement.kind = kind
        statement.out = _variables("v", node.shape)
        statement.sources = _frontier(node, names)
        return statement
    if kind == "contraction":
        _contraction(statement, elements)
    elif kind == "reduction":
        _reduction(statement, elements)
    else:
        statement.out = _variables("v", node.shape)
        statement.value = elements.at(node, statement.index, top=True)
    statement.reads = elements.reads
    frontier = _frontier(node, names) if node.op.stored else []  # read even where all is padding
    statement.sources = list(dict.fromkeys([*(read.node for read in elements.reads), *frontier]))
    return statement


def _reduction(statement: Statement, elements: Elements) -> None:
    node = statement.node
    (source,) = node.inputs
    axes = reduced_axes(node)
    variables = _variables("v", source.shape)
    statement.kind = "fold"
    statement.out = tuple(v for axis, v in enumerate(variables) if axis not in axes)
    index = _index(variables)
    folded = [index[axis] for axis in range(source.ndim) if axis in axes]
    statement.reduce = tuple(i for i in folded if isinstance(i, Var))
    statement.fold = node.op.fold(node)
    value = elements.at(source, index)
    identity = statement.fold[1].dtype
    if statement.fold[0] in ("argmax", "argmin"):
        statement.second = folded[0]
    statement.value = value if value.dtype is identity else Apply("cast", (value,), identity)


def reduced_axes(node: Node) -> tuple[int, ...]:
    """The axes a reduction node folds."""
    op = node.op
    axes = getattr(op, "axes", None)
    return tuple(axes) if axes is not None else (op.axis,)  # type: ignore[attr-defined]


def _contraction(statement: Statement, elements: Elements) -> None:
    node = statement.node
    args = [elements.argument(source) for source in node.inputs]
    what: Contraction = node.op.contraction(node, args)  # type: ignore[attr-defined]
    batch, m = _variables("b", what.batch), _variables("m", what.m)
    n, k = _variables("n", what.n), _variables("k", what.k)
    left = what.left(_index(batch), _index(m), _index(k))
    right = what.right(_index(batch), _index(k), _index(n))
    index = what.out_index(_index(batch), _index(m), _index(n))
    statement.tiles = Tiles(what, batch, m, n, k, left, right, index)
    statement.kind = "tiles"
    statement.out = _variables("v", node.shape)
    plain = all(isinstance(i, Var) or i == constant(0) for i in index)
    tiled = bool(node.op.stored) or _streams(statement.tiles)
    if plain and not tiled and _is_small(what):
        _as_fold(statement, statement.tiles)


def _is_small(what: Contraction) -> bool:
    """Whether tiling cannot pay: little work, or a matrix times a vector."""
    m, n, k = product(what.m), product(what.n), product(what.k)
    if m == 1 or n == 1 or k == 1:
        return True
    inner = m * n * k
    total = product(what.batch) * inner
    return not (at_least(total, SMALL + 1, True) and at_least(inner, SHORT + 1, True))


def _streams(tiles: Tiles) -> bool:
    """Whether a vector meets a large matrix: all of memory's speed is wanted."""
    m, n, k = (product(tuple(v.size for v in axes)) for axes in (tiles.m, tiles.n, tiles.k))
    matrix, axes, size = (tiles.right, tiles.n, n) if m == 1 else (tiles.left, tiles.m, m)
    if not axes or 1 not in (m, n) or k == 1 or not at_least(size * k, LARGE, False):
        return False
    loads = [e.index for e in expressions([matrix]) if isinstance(e, Load)]
    lines = [v for v in (axes[-1], *tiles.k[-1:]) if all(coefficient(e, v) == 1 for e in loads)]
    return bool(lines)


def _as_fold(statement: Statement, tiles: Tiles) -> None:
    accumulate = tiles.description.accumulate

    def cast(value: Expr) -> Expr:
        return value if value.dtype is accumulate else Apply("cast", (value,), accumulate)

    statement.kind = "fold"
    statement.out = tuple(
        i if isinstance(i, Var) else v for i, v in zip(tiles.index, statement.out, strict=True)
    )
    statement.reduce = tuple(v for v in tiles.k if v.extent != 1)
    statement.value = Apply("mul", (cast(tiles.left), cast(tiles.right)), accumulate)
    zero = 0.0 if accumulate.kind == "f" else 0
    statement.fold = (
        ("or", Const(False, accumulate))
        if accumulate.kind == "b"
        else ("add", Const(zero, accumulate))
    )
    if accumulate.kind == "b":
        statement.value = Apply("and", (cast(tiles.left), cast(tiles.right)), accumulate)
    statement.tiles = None


def _frontier(node: Node, names: Mapping[Node, str]) -> list[Node]:
    """The buffers a kernel's composed inputs read."""
    found: dict[Node, None] = {}
    stack = list(reversed(node.inputs))
    seen: set[Node] = set()
    while stack:
        source = stack.pop()
        if source in seen:
            continue
        seen.add(source)
        if source in names:
            found[source] = None
        else:
            stack.extend(reversed(source.inputs))
    return list(found)
