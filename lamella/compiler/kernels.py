"""From a group of statements to a kernel: chooses the schedule, and gives the kernel its canonical
signature.

Input: a group and the nodes other kernels need. Output: a :class:`Draft`: the kernel as data and
what its arguments are in the program.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from lamella.compiler.across import TransposeKernel, across
from lamella.compiler.blocks import LONG, frame, lane_cost, load_indices
from lamella.compiler.contraction_plan import writer
from lamella.compiler.convolution import writer as convolution_writer
from lamella.compiler.elements import Elements
from lamella.compiler.fusion import Group
from lamella.compiler.inward import inward
from lamella.compiler.pooling import pooling
from lamella.compiler.rows import Rows
from lamella.compiler.sliding import sliding
from lamella.compiler.statements import Program, Statement
from lamella.compiler.walk import mentions
from lamella.compiler.written import certain
from lamella.dtypes import DType, int64
from lamella.ir.dim import Dim, Size, product, typical
from lamella.ir.index import add, linearise, mul, split_linear
from lamella.ir.lanes import meeting
from lamella.ir.loops import (
    Alloc,
    BufferParam,
    Const,
    Expr,
    For,
    If,
    Kernel,
    Load,
    Stmt,
    Store,
    Var,
)  # fmt: skip
from lamella.ir.node import Node
from lamella.ir.numbering import checked_indices
from lamella.ir.vectors import VectorUnit
from lamella.ir.walk import expressions, statements
from lamella.ops.base import Element, Index
from lamella.ops.calls import Call
from lamella.ops.cumulative import Running

__all__ = ["Draft", "draft", "sites"]


@dataclass(slots=True)
class Draft:
    """A kernel, what its names of buffers and scalars are in the program, and the members that need
    a buffer only for it.
    """

    kernel: Kernel | None  # None for a call without one
    temporaries: set[Node]
    sites: list[str | None]  # of the operations that may report a fault
    failure: str = ""  # the message of a fault that is no index out of range
    call: Node | None = None  # the call without a kernel
    zeroing: list[Kernel] = field(default_factory=list)  # before it, of results that begin as zero
    names: dict[str, str] = field(default_factory=dict)
    # for each buffer that is only written, the operands whose memory it may take over
    in_place: dict[str, list[str]] = field(default_factory=dict)


class Writer:
    """What a primitive of kind "kernel" writes its statements with (``ops.base.KernelWriter``)."""

    def __init__(
        self, statement: Statement, names: Mapping[Node, str], unit: VectorUnit
    ) -> None:
        self.unit = unit
        self._statement = statement
        self._names = names
        self._count = 0

    def _unique(self, name: str) -> str:
        self._count += 1
        return f"{name}_{self._count}"

    def var(self, name: str, extent: Size | Expr) -> Var:
        """A new loop variable."""
        return Var(self._unique(name), extent)

    def temporary(self, name: str) -> str:
        """A new name for a variable or scratch buffer."""
        return self._unique(name)

    def store(self, index: Index, value: Expr) -> Store:
        """Store one element of the result."""
        return Store(self._statement.name, linearise(index, self._statement.node.shape), value)

    def load(self, index: Index) -> Expr:
        """Load an element stored before in this iteration."""
        node = self._statement.node
        return Load(self._statement.name, linearise(index, node.shape), node.dtype)

    def part(self, number: int, index: Index, value: Expr) -> Stmt:
        """Store one element of result ``number`` of a call."""
        node = self._statement.parts[number]
        return Store(self._names[node], linearise(index, node.shape), value)

    def atomic(self, number: int, index: Index, op: str, value: Expr) -> Stmt:
        """Change an element of a result, which begins as zero, in one step."""
        node = self._statement.parts[number]
        return Store(self._names[node], linearise(index, node.shape), value, None, op)

    def load_part(self, number: int, index: Index) -> Expr:
        """Load an element of result ``number`` stored before in this iteration."""
        node = self._statement.parts[number]
        return Load(self._names[node], linearise(index, node.shape), node.dtype)


def _own_kernel(
    statement: Statement, program: Program, unit: VectorUnit
) -> tuple[For, Size]:
    node = statement.node
    elements = Elements(program.names, program.params)
    sizes: tuple[Size, ...] = node.op.grid(node)
    writer = Writer(statement, program.names, unit)
    args = [elements.argument(source) for source in node.inputs]
    grid = Var("g", product(sizes))
    if sizes:
        *outer, last = (Var(f"o{axis}", size) for axis, size in enumerate(sizes))
        shape = frame(outer, last, has_inner=True)
        at = tuple(shape.variables[v] for v in (*outer, last))
        body = node.op.kernel(node, args, at, writer)
        pays = node.op.name == "interleave" or (shape.lane and _lanes_pay(body, shape.lane))
        if _is_partial(node) and shape.lane is not None:  # a person's: nothing else is known of it
            pays = pays and meeting(For(shape.lane, "lanes", tuple(body))) is None
        if shape.lane is not None and pays:
            loop = For(shape.lane, "lanes", tuple(body))
            inside = inward(loop)
            return For(shape.grid, "grid", tuple(inside or (loop,))), _share(statement, shape.grid)
        writer = Writer(statement, program.names, unit)
    abreast = _abreast(node, grid.extent)
    if abreast > 1:
        grid = Var("g", product(sizes) // abreast)
        beside = _Beside(statement, program.names, unit)
        bodies = [
            beside.copy(node, args, split_linear(add(mul(grid, abreast), number), sizes))
            for number in range(abreast)
        ]
        return For(grid, "grid", _side_by_side(bodies)), 4 * _share(statement, grid)
    body = node.op.kernel(node, args, split_linear(grid, sizes), writer)
    return For(grid, "grid", tuple(body)), 4 * _share(statement, grid)


def _abreast(node: Node, walks: Size | Expr) -> int:
    """How many walks along an axis go side by side: each waits for its last sum at every step."""
    if not isinstance(node.op, Running) or not isinstance(walks, int):
        return 1
    return next((n for n in (4, 3, 2) if walks % n == 0 and walks >= 8 * n), 1)


class _Beside(Writer):
    """A writer of several copies of a body whose loops have the same variables."""

    def __init__(self, statement: Statement, names: Mapping[Node, str], unit: VectorUnit) -> None:
        super().__init__(statement, names, unit)
        self._loops: list[Var] = []
        self._next = 0

    def copy(self, node: Node, args: Sequence[Element], at: Index) -> list[Stmt]:
        """The body at an index of the grid."""
        self._next = 0
        return node.op.kernel(node, args, at, self)

    def var(self, name: str, extent: Size | Expr) -> Var:
        """The loop variable that other copies have here."""
        if self._next == len(self._loops):
            self._loops.append(super().var(name, extent))
        self._next += 1
        return self._loops[self._next - 1]


def _side_by_side(bodies: Sequence[Sequence[Stmt]]) -> tuple[Stmt, ...]:
    """Bodies that end with the same loop as one with one loop."""
    every = [stmt for body in bodies for stmt in body]
    loops = [stmt for stmt in every if isinstance(stmt, For)]
    steps = tuple([step for loop in loops for step in loop.body])
    return *[s for s in every if not isinstance(s, For)], replace(loops[0], body=steps)


def _is_partial(node: Node) -> bool:
    return isinstance(node.op, Call) and node.op.partial


def _unwritten(statement: Statement, program: Program, unit: VectorUnit) -> list[str]:
    """The results of a person's kernel that it may leave unwritten, or read before."""
    node = statement.node
    if not _is_partial(node):
        return []
    elements = Elements(program.names, program.params)
    grid = tuple(Var(f"g{axis}", size) for axis, size in enumerate(node.op.grid(node)))
    args = [elements.argument(source) for source in node.inputs]
    body = node.op.kernel(node, args, grid, Writer(statement, program.names, unit))
    return [
        program.names[part] for part in statement.parts
        if not certain(body, grid, program.names[part], product(part.shape))
    ]


def _share(statement: Statement, grid: Var) -> Size:
    """Elements of the result, or of the largest input, in one grid iteration, roughly."""
    result: Size = 0
    for node in statement.parts or (statement.node,):
        result = result + node.size
    size = max((result, *(source.size for source in statement.node.inputs)), key=typical)
    if isinstance(grid.extent, int):
        return size // max(1, grid.extent)
    extent = grid.extent if isinstance(grid.extent, Dim) else 1
    return typical(size) // max(1, typical(extent))


def _lanes_pay(body: Sequence[Stmt], lane: Var) -> bool:
    """Whether iterations may and should run side by side: no scratch, no diverging branch, memory
    contiguous.
    """
    roots: list[Expr] = []
    for s in statements(body):
        if isinstance(s, Alloc) or (isinstance(s, For) and s.kind == "lanes"):
            return False
        if isinstance(s, If) and lane in expressions([s.condition]):
            return False
        if isinstance(s, Store) and s.atomic:
            return False
        if isinstance(s, Store):
            roots.extend((s.value, Load(s.buffer, s.index, int64)))
    wide = not isinstance(lane.extent, int) or lane.extent > 8
    return wide and lane_cost(lane, load_indices(roots)) < 2


def draft(group: Group, program: Program, needed: set[Node], unit: VectorUnit) -> Draft:
    """The kernel of ``group``; ``needed`` are the nodes that must be left in their buffers."""
    temporaries: set[Node] = set()
    begun: list[str] = []  # buffers that begin as zero
    work: Size
    if group.kind in ("kernel", "call"):
        first = group.members[0]
        temporaries.update(first.parts)
        if isinstance(first.node.op, Call) and first.node.op.in_memory:
            return Draft(None, temporaries, [], call=first.node)
        body, work = _own_kernel(first, program, unit)
        begun = _unwritten(first, program, unit)
    elif group.kind == "tiles":
        direct = convolution_writer(group, program, needed, unit)
        tiles = direct or writer(group, needed, unit)
        body, work = tiles.grid(), tiles.work
    elif group.kind == "across" and (axes := across(group.members[0])) is not None:
        blocks = TransposeKernel(group.members[0], axes, unit)
        body, work = blocks.grid(), blocks.work
    elif (pool := pooling(group, needed) or sliding(group, needed)) is not None:
        body = pool.grid()
        work = pool.work
    else:
        rows = Rows(group, needed)
        body, work = rows.grid(), rows.work
        temporaries = rows.temporaries
    kernel = _signed(body, _dtypes(group, program), work, begun)
    begun += [name for name in _added_to(kernel) if name not in begun]
    zeroing = [_zeroing(name, kernel, program) for name in begun]
    failure = getattr(group.members[0].node.op, "failure", "")
    found = sites(group) if kernel.faults else []
    return Draft(kernel, temporaries, found, failure, zeroing=zeroing)


def _added_to(kernel: Kernel) -> list[str]:
    """The buffers that a kernel changes in atomic steps."""
    stores = [s for s in statements((kernel.body,)) if isinstance(s, Store) and s.atomic]
    return list(dict.fromkeys(s.buffer for s in stores))


def _zeroing(name: str, kernel: Kernel, program: Program) -> Kernel:
    """A kernel that fills a buffer of ``kernel`` with zeros."""
    node = next(node for node, own in program.names.items() if own == name)
    shape = frame([], Var("z", product(node.shape)), has_inner=False)
    body: tuple[Stmt, ...] = (Store(name, next(iter(shape.variables.values())),
                                    Const(0, node.dtype)),)  # fmt: skip
    if shape.lane is not None:
        body = (For(shape.lane, "lanes", body),)
    return _signed(For(shape.grid, "grid", body), {name: node.dtype}, LONG)


def _dtypes(group: Group, program: Program) -> dict[str, DType]:
    wanted = {n for s in group.members for n in (*s.sources, s.node)}
    return {program.names[n]: n.dtype for n in wanted if n in program.names}


def _signed(
    body: For, dtypes: dict[str, DType], work: Size, begun: Collection[str] = ()
) -> Kernel:
    """The kernel around ``body``: arguments in order of first mention; what has ``begun`` keeps
    what it does not write.
    """
    found = mentions((body,))
    buffers = []
    for name in found.buffers:
        if name not in dtypes:
            continue  # scratch
        reads, writes = name in found.reads or name in begun, name in found.writes
        if reads and writes:
            buffers.append(BufferParam(name, dtypes[name], "inout"))
        else:
            buffers.append(BufferParam(name, dtypes[name], "out" if writes else "in"))
    if found.faults:
        buffers.append(BufferParam("fault", int64, "inout"))
    params = tuple(found.params.values())
    kernel = Kernel("kernel", tuple(buffers), params, tuple(found.sizes), body, 0, work)
    faults = len(checked_indices(kernel)) if found.faults else 0
    return replace(kernel, faults=faults)


def sites(group: Group) -> list[str | None]:
    """Source lines of the members' operations that may report an index out of range."""
    found: list[str | None] = []
    seen: set[Node] = set()
    stack = [s.node for s in group.members]
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        if node.site is not None and getattr(node.op, "checked", False):
            found.append(node.site)
        stack.extend(node.inputs if node.value is None else ())
    return found
