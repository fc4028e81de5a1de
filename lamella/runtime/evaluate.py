"""Values for pending nodes: finds or makes the program of their graph, runs it, and leaves a buffer
in each.

Input: nodes. Output: ``node.value`` is set; a node that no derivative can need again forgets its
inputs. Programs are kept by the structure of the graph:
primitives, connections and dtypes, without the numbers of scalar leaves. The first program of a
structure is for its exact sizes; when other sizes come, those that differ become run-time extents
of a second program.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Final, cast

from lamella.config import config
from lamella.errors import OutOfMemoryError, ShapeError
from lamella.ir.dim import Dim, Size
from lamella.ir.node import Node
from lamella.ops.base import Array
from lamella.ops.calls import Part, keep, living, parts
from lamella.ops.leaf import DATA, SCALAR, Placeholder
from lamella.runtime import buffer as memory
from lamella.runtime import profiling, stored
from lamella.runtime.buffer import Buffer
from lamella.runtime.launch import pack_scalars
from lamella.runtime.program import Executable, target
from lamella.runtime.report import report

__all__ = ["compiled_count", "compile_program", "evaluate", "forget_programs", "too_large"]

PLACEHOLDER: Final = Placeholder()
Pattern = tuple[tuple[int | str, ...], ...]


@dataclass(slots=True)
class Structure:
    """What is known of graphs that differ in sizes alone: the sizes seen, and programs with some of
    them open.
    """

    patterns: list[tuple[Pattern, Executable]] = field(default_factory=list)
    last: Pattern | None = None
    closed: bool = False  # its sizes cannot be left open


@dataclass(slots=True)
class Graph:
    """A pending graph laid out for look-up: ``order`` has inputs before users, ``shapes`` are
    theirs.
    """

    order: list[Node]
    key: tuple[object, ...]  # everything but shapes
    shapes: tuple[tuple[int, ...], ...]
    inputs: list[Node]
    scalars: list[Node]

    def structure(self) -> tuple[object, ...]:
        """The key of all graphs that differ in sizes alone; 0 and 1 have meanings of their own."""
        return self.key, tuple([tuple([s if s < 2 else 2 for s in shape]) for shape in self.shapes])


_exact: Final[OrderedDict[tuple[object, ...], Executable]] = OrderedDict()
_structures: Final[OrderedDict[tuple[object, ...], Structure]] = OrderedDict()
_lock: Final = threading.RLock()
_compiled = 0
_without_fields: Final[dict[type, bool]] = {}


def compiled_count() -> int:
    """How many programs this process has compiled or loaded so far."""
    return _compiled


def forget_programs() -> None:
    """Drop every program kept in memory (kernels on disk stay)."""
    with _lock:
        _exact.clear()
        _structures.clear()


for _flag in ("lines", "optimize", "skip_passes", "target", "verify"):
    config.watch(_flag, forget_programs)  # programs depend on these settings


def _lay_out(roots: Sequence[Node]) -> Graph:
    """The graph below ``roots`` in a canonical order with its key."""
    number: dict[Node, int] = {}
    order: list[Node] = []
    key: list[object] = []
    inputs: list[Node] = []
    scalars: list[Node] = []
    stack: list[Node] = list(reversed(roots))
    note = key.append
    while stack:
        node = stack[-1]
        if node in number:
            stack.pop()
            continue
        depth = len(stack)
        for source in node.inputs:
            if source in number:
                continue
            if source.value is None:
                stack.append(source)
                continue
            number[source] = len(order)
            order.append(source)
            if source.op is SCALAR:
                scalars.append(source)
                note(source.dtype.as_scalar)
            else:
                inputs.append(source)
                note(source.dtype.as_data)
        if len(stack) > depth:
            continue
        stack.pop()
        op = node.op
        note(type(op) if _without_fields.get(type(op)) or _is_bare(type(op)) else op)
        for source in node.inputs:
            note(number[source])
        note(node.dtype.name)
        number[node] = len(order)
        order.append(node)
    note(tuple([number[root] for root in roots]))
    shapes = tuple([node.shape for node in order])
    return Graph(order, tuple(key), shapes, inputs, scalars)  # type: ignore[arg-type]


def _is_bare(kind: type) -> bool:
    """Whether the primitive has no parameters, so that its class says all."""
    found = _without_fields[kind] = not fields(kind)
    return found


def evaluate(nodes: Sequence[Node]) -> None:
    """Compute ``nodes``.

    Raises:
        OutOfMemoryError: before anything runs, if the results or temporaries do not fit.
        LamellaIndexError: for an index out of range.
        TraceError: if the graph depends on a placeholder.
    """
    roots = [node for node in dict.fromkeys(nodes) if node.value is None]
    if not roots:
        return
    if config.backend == "interpret":
        _interpret(roots)
        return
    roots += _siblings(roots)
    roots += _residuals(roots)
    with _lock:
        graph = _lay_out(roots)
        executable, symbols = _find(graph, roots)
    _run(graph, roots, executable, symbols)


def _interpret(roots: Sequence[Node]) -> None:
    from lamella.ir.interp import interpret

    arrays = interpret(roots)
    if config.debug_nans:
        _refuse_nans(roots, arrays)
    for node, array in zip(roots, arrays, strict=True):
        made = memory.empty(array.nbytes)
        made.numpy(array.shape, array.dtype, writable=True)[...] = array
        _settle(node, made)


def _settle(node: Node, value: Buffer) -> None:
    """Give a node its value; it forgets its inputs unless a derivative may pass to them."""
    node.value = value
    if node.tracked and type(node.op) is Part:
        keep(node, value)
    if not node.tracked or not any(source.tracked for source in node.inputs):
        node.inputs = ()
        node.op = DATA


def _siblings(roots: Sequence[Node]) -> list[Node]:
    """Other results of the same calls that somebody holds: one run computes them all."""
    calls = {node.inputs[0]: None for node in roots if type(node.op) is Part}
    known = set(roots) if calls else set()
    return [
        node for call in calls for node in living(call) if node.value is None and node not in known
    ]


OWN: Final = ("reduction", "contraction", "kernel", "part")


def _residuals(roots: Sequence[Node]) -> list[Node]:
    """Expensive forward values that a later backward pass will read: kept unless this graph is that
    pass.
    """
    if not any(root.tracked for root in roots):
        return []
    found: list[Node] = []
    seen: set[Node] = set(roots)
    stack = list(roots)
    while stack:
        node = stack.pop()
        for source in node.inputs:
            if source.value is not None:
                continue
            if source.tracked and not node.tracked and node.dtype.inexact:
                return []
            if source in seen:
                continue
            seen.add(source)
            stack.append(source)
            if source.tracked and source.op.kind in OWN:
                found.append(source)
            if source.tracked and source.op.kind == "call":
                missing = [p for p in parts(source) if p.value is None and p not in seen]
                seen.update(missing)
                found += missing
    return found


def _find(graph: Graph, roots: Sequence[Node]) -> tuple[Executable, tuple[int, ...]]:
    """The program for ``graph`` and the values of its size symbols."""
    exact = (graph.key, graph.shapes)
    found = _exact.get(exact)
    if found is not None:
        return found, ()
    key = graph.structure()
    structure = _structures.get(key)
    if structure is None:
        structure = _structures[key] = Structure()
        _limit(_structures)
    else:
        _structures.move_to_end(key)
        for pattern, executable in structure.patterns:
            values = _match(pattern, graph.shapes)
            if values is not None:
                return executable, tuple(values[name] for name in executable.blueprint.symbols)
        opened = _open(structure, graph, roots)
        if opened is not None:
            return opened
    structure.last = graph.shapes
    _exact[exact] = made = _compile_copy(graph, roots, graph.shapes)
    _limit(_exact)
    return made, ()


def _limit(programs: OrderedDict[tuple[object, ...], Any]) -> None:
    while len(programs) > config.programs:
        programs.popitem(last=False)


def _match(pattern: Pattern, shapes: Sequence[tuple[int, ...]]) -> dict[str, int] | None:
    values: dict[str, int] = {}
    for wanted, shape in zip(pattern, shapes, strict=True):
        if wanted == shape:
            continue
        for want, have in zip(wanted, shape, strict=True):
            if type(want) is int:
                if want != have:
                    return None
            elif values.setdefault(want, have) != have:  # type: ignore[arg-type]
                return None
    return values


def _open(
    structure: Structure, graph: Graph, roots: Sequence[Node]
) -> tuple[Executable, tuple[int, ...]] | None:
    """A program in which the sizes that differ from those seen before are open."""
    if structure.closed or structure.last is None or not config.optimize:
        return None
    names: dict[tuple[int | str, int], str] = {}
    pattern: Pattern = tuple(
        tuple([
            have if want == have else names.setdefault((want, have), f"n{len(names)}")
            for want, have in zip(wanted, shape, strict=True)
        ])
        for wanted, shape in zip(structure.last, graph.shapes, strict=True)
    )  # fmt: skip
    try:
        made = _compile_copy(graph, roots, pattern)
    except (ShapeError, TypeError):
        structure.closed = True
        return None
    structure.last = pattern
    structure.patterns.append((pattern, made))
    values = _match(pattern, graph.shapes) or {}
    return made, tuple(values[name] for name in made.blueprint.symbols)


def _compile_copy(graph: Graph, roots: Sequence[Node], pattern: Pattern) -> Executable:
    """The program of a copy of the graph with sizes as in ``pattern`` and without values.

    What the compiler makes may outlive the compilation, so it must not hold anyone's memory.
    """
    new: dict[Node, Node] = {}
    for node, wanted in zip(graph.order, pattern, strict=True):
        shape: tuple[Size, ...] = tuple(
            Dim(size) if isinstance(size, str) else size for size in wanted
        )
        if node.value is None:
            copy = Node(node.op, tuple(new[s] for s in node.inputs), shape, node.dtype)
            copy.site = node.site
        elif node.op is SCALAR:
            copy = node
        else:
            copy = Node(PLACEHOLDER, (), shape, node.dtype)
        new[node] = copy
    return compile_program(
        [new[n] for n in roots], [new[n] for n in graph.inputs], [new[n] for n in graph.scalars]
    )


def compile_program(
    roots: Sequence[Node],
    inputs: Sequence[Node],
    scalars: Sequence[Node],
    donated: Mapping[int, int] | None = None,
) -> Executable:
    """The program of ``roots`` with the given leaves as its arguments, in order.

    ``donated``: roots (by number) that may be written over an input (by number).
    """
    global _compiled
    started = time.perf_counter()
    skip = frozenset(name for name in config.skip_passes.split(",") if name)
    where = target()
    settings = f"{where.key} {where.vector_bytes} {sorted(skip)} {config.optimize}"
    key = stored.key_of(roots, inputs, scalars, donated or {}, settings)
    blueprint = None if config.verify else stored.find(key)
    if blueprint is None:
        from lamella.compiler.pipeline import PASSES, compile_graph

        if not config.optimize:
            skip |= {name for name, _ in PASSES}
        verify = bool(config.verify)
        blueprint = compile_graph(
            roots, inputs, scalars, where.vector_bytes, skip, donated, verify=verify
        )
        stored.keep(key, blueprint)
    made = Executable(blueprint)
    _compiled += 1
    milliseconds = 1e3 * (time.perf_counter() - started)
    counts = f"{len(blueprint.steps)} launches, {len(blueprint.sources)} kernels"
    report(1, f"program: {counts}, {milliseconds:.1f} ms")
    if profiling.active is not None:
        profiling.active.compiled(counts, started, time.perf_counter())
    return made


def _run(
    graph: Graph, roots: Sequence[Node], executable: Executable, symbols: tuple[int, ...]
) -> None:
    at = executable.fixed or executable.bind(symbols)
    try:
        made = [memory.empty(nbytes) for nbytes in at.nbytes]
    except MemoryError as error:
        raise too_large(roots, error) from None
    given = cast("list[Buffer]", [node.value for node in graph.inputs])
    numbers = cast("list[float]", [node.value for node in graph.scalars])
    words = pack_scalars(numbers, [node.dtype for node in graph.scalars])
    executable.run([b.ptr for b in given], words, [b.ptr for b in made], at)
    for i, source in executable.blueprint.same.items():
        made[i] = made[source] if source >= 0 else given[-1 - source]
    if config.debug_nans:
        pairs = zip(roots, made, strict=True)
        _refuse_nans(roots, [b.numpy(node.shape, node.dtype.numpy) for node, b in pairs])
    for node, value in zip(roots, made, strict=True):
        _settle(node, value)


def _refuse_nans(roots: Sequence[Node], arrays: Sequence[Array]) -> None:
    from lamella.runtime.nans import refuse_nans

    refuse_nans(roots, arrays, {}, {})


def too_large(roots: Sequence[Node], error: MemoryError) -> OutOfMemoryError:
    """The error for results that do not fit, naming the largest."""

    def nbytes(node: Node) -> int:
        return int(node.size) * node.dtype.itemsize

    largest = sorted(roots, key=nbytes, reverse=True)[:3]
    named = ", ".join(
        f"{n.dtype.name}{list(n.shape)} of {nbytes(n) / 2**20:,.1f} MiB" for n in largest
    )
    return OutOfMemoryError(
        f"[evaluate] the results do not fit in memory (the largest tensors: {named}); "
        f"use smaller batches or sizes ({error})"
    )
