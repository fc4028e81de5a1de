"""Values for pending nodes: finds or makes the program of their graph, runs it, and leaves a buffer
in each.

Input: nodes. Output: ``node.value`` is set; a node that no derivative can need again forgets its
inputs. Programs are kept by the structure of the graph:
primitives, connections and dtypes, without the numbers of scalar leaves. The first program of a
structure is for its exact sizes; when other sizes come, those that differ become run-time extents
of a second program, which serves all sizes that the compiler decides alike by. Results too large
for caches make another structure.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from lamella.compiler.blueprint import STREAM
from lamella.config import config
from lamella.errors import OutOfMemoryError, ShapeError
from lamella.forks import new_lock
from lamella.ir.decisions import deciding
from lamella.ir.dim import Dim, Size
from lamella.ir.node import Node
from lamella.ops.base import Array
from lamella.ops.calls import Call, Part, has_effects, keep, living, parts
from lamella.ops.leaf import DATA, SCALAR, Placeholder
from lamella.runtime import buffer as memory
from lamella.runtime import profiling, repeated, stored
from lamella.runtime.buffer import Buffer
from lamella.runtime.patterns import Pattern, match, opened
from lamella.runtime.program import Binding, Executable, target
from lamella.runtime.repeated import is_bare
from lamella.runtime.report import report, report_kernels

__all__ = ["compiled_count", "compile_program", "evaluate", "forget_programs", "too_large"]

PLACEHOLDER: Final = Placeholder()
Bound = tuple[Executable, Binding]


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
    """A pending graph laid out for look-up: ``order`` has inputs before users."""

    key: tuple[object, ...]  # primitives, connections, element types and shapes
    order: list[Node]
    roots: Sequence[Node]

    def leaves(self, scalar: bool) -> list[Node]:
        """The nodes with values that are scalars, or that are not."""
        known = [node for node in self.order if node.value is not None]
        return [node for node in known if (node.op is SCALAR) == scalar]

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """Those of ``order``."""
        return tuple([node.shape for node in self.order])  # type: ignore[misc]

    @property
    def is_large(self) -> bool:
        """Whether a result has ``STREAM`` bytes or more."""
        return any(int(node.size) * node.dtype.itemsize >= STREAM for node in self.roots)

    def made_for_sizes(self) -> bool:
        """Whether there is a call that should have no sizes left open."""
        pending = (node for node in self.order if node.value is None)
        return any(isinstance(n.op, Call) and n.op.made_for_sizes(n) for n in pending)

    def structure(self) -> tuple[object, ...]:
        """The key of all graphs that differ in sizes alone; 0 and 1 have meanings of their own, and
        results that do not fit in caches are stored in another way.
        """
        return self.is_large, *[_without_sizes(p) if type(p) is tuple else p for p in self.key]


def _without_sizes(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple([min(size, 2) for size in shape])


_exact: Final[OrderedDict[tuple[object, ...], Bound]] = OrderedDict()
_fitted: Final[dict[tuple[object, ...], Bound]] = {}  # programs with open sizes, for some sizes
_structures: Final[OrderedDict[tuple[object, ...], Structure]] = OrderedDict()
_lock: Final = new_lock()
_compiled = 0


def compiled_count() -> int:
    """How many programs this process has compiled or loaded so far."""
    return _compiled


def forget_programs() -> None:
    """Drop every program kept in memory (kernels on disk stay)."""
    with _lock:
        _exact.clear()
        _structures.clear()
        _fitted.clear()
        repeated.forget()


for _flag in ("lines", "optimize", "skip_passes", "target", "verify"):
    config.watch(_flag, forget_programs)  # programs depend on these settings


def _lay_out(
    roots: Sequence[Node],
) -> tuple[tuple[object, ...], dict[Node, int], list[Any], list[Any]]:
    """The key of the graph below ``roots``, its nodes in a canonical order with their numbers, the
    values of its inputs and of its scalars. In keys, tuples are shapes.
    """
    number: dict[Node, int] = {}
    key: list[object] = []
    inputs: list[Any] = []
    scalars: list[Any] = []
    stack = [*roots[::-1]]
    note = key.append
    while stack:
        node = stack[-1]
        if node in number:
            stack.pop()
            continue
        waits = False
        for source in node.inputs:
            if source in number:
                continue
            if source.value is None:
                stack.append(source)
                waits = True
                continue
            number[source] = len(number)
            if source.op is SCALAR:
                scalars.append(source.value)
                note(source.dtype.as_scalar)
            else:
                inputs.append(source.value)
                note(source.dtype.as_data)
                note(source.shape)
        if waits:
            continue
        stack.pop()
        kind = type(node.op)
        note(kind if is_bare[kind] else node.op)
        for source in node.inputs:
            note(number[source])
        note(node.dtype.name)
        note(node.shape)
        number[node] = len(number)
    for root in roots:
        note(number[root])
    return tuple(key), number, inputs, scalars


def evaluate(nodes: Sequence[Node]) -> None:
    """Compute ``nodes``.

    Raises:
        OutOfMemoryError: before anything runs, if the results or temporaries do not fit.
        LamellaIndexError: for an index out of range.
        TraceError: if the graph depends on a placeholder.
    """
    if not nodes:
        return
    try:
        if repeated.at_once(nodes):
            return
    except MemoryError as error:
        raise too_large(nodes, error) from None
    seen = repeated.surface(nodes)
    roots: list[Node] = []
    alone = True  # nothing else is computed with them
    for node in dict.fromkeys(nodes):
        if node.value is None:
            roots.append(node)
            if node.tracked or type(node.op) is Part:
                alone = False
    if not roots:
        return
    if config.backend == "interpret":
        _interpret(roots)
        return
    if not alone:
        roots += _siblings(roots)
        roots += _residuals(roots)
    with _lock:
        key, order, inputs, scalars = _lay_out(roots)
        found = _exact.get(key) or _fitted.get(key)
        executable, at = found or _find(Graph(key, list(order), roots))
    if at.frames or not at.symbols:  # open sizes may never come again, until they have
        leaves = [node for node in order if node.value is not None]
        repeated.offer(roots, seen, leaves, executable, at)
    words = executable.pack_scalars(scalars) if scalars else ()
    _run(roots, inputs, words, executable, at)


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
    if type(node.op) is Part and (node.tracked or has_effects(node.inputs[0])):
        keep(node, value)
    if node.tracked and any(source.tracked for source in node.inputs):
        return
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


def _find(graph: Graph) -> Bound:
    """The program for ``graph``, where none in memory is known to fit its sizes."""
    if not graph.made_for_sizes():
        found = _of_structure(graph)
        if found is not None:
            return found
    made = _compile_copy(graph, graph.shapes)
    _exact[graph.key] = bound = made, made.bind(())
    _limit(_exact)
    return bound


def _of_structure(graph: Graph) -> Bound | None:
    """A program with open sizes, if graphs of this structure have been seen before."""
    key, shapes = graph.structure(), graph.shapes
    structure = _structures.get(key)
    if structure is None:
        structure = _structures[key] = Structure()
        _limit(_structures)
    else:
        _structures.move_to_end(key)
        for pattern, executable in structure.patterns:
            values = match(pattern, shapes)
            if values is not None and executable.blueprint.suits(values):
                return _fit(graph, executable, values)
        opened = _open(structure, graph)
        if opened is not None:
            return opened
    structure.last = shapes
    return None


def _fit(graph: Graph, executable: Executable, values: Mapping[str, int]) -> Bound:
    """A program with open sizes, bound to those of ``graph``."""
    if len(_fitted) >= config.programs:
        _fitted.clear()
    at = executable.bind(tuple([values[name] for name in executable.blueprint.symbols]))
    _fitted[graph.key] = bound = executable, at
    return bound


def _limit(programs: OrderedDict[tuple[object, ...], Any]) -> None:
    while len(programs) > config.programs:
        programs.popitem(last=False)


def _open(structure: Structure, graph: Graph) -> Bound | None:
    """A program in which the sizes that differ from those seen before are open."""
    if structure.closed or structure.last is None or not config.optimize:
        return None
    pattern = opened(structure.last, graph.shapes)
    values = match(pattern, graph.shapes) or {}
    try:
        made = _compile_copy(graph, pattern, values)
    except (ShapeError, TypeError):
        structure.closed = True
        return None
    structure.last = pattern
    structure.patterns.append((pattern, made))
    return _fit(graph, made, values)


def _compile_copy(
    graph: Graph, pattern: Pattern, values: Mapping[str, int] | None = None
) -> Executable:
    """The program of a copy of the graph with sizes as in ``pattern`` and without values, decided
    by ``values`` for those that are open.

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
        [new[n] for n in graph.roots],
        [new[n] for n in graph.leaves(scalar=False)],
        [new[n] for n in graph.leaves(scalar=True)],
        large=graph.is_large,
        values=values,
    )


def compile_program(
    roots: Sequence[Node],
    inputs: Sequence[Node],
    scalars: Sequence[Node],
    donated: Mapping[int, int] | None = None,
    budget: int | None = None,
    large: bool = False,
    values: Mapping[str, int] | None = None,
) -> Executable:
    """The program of ``roots`` with the given leaves as its arguments, in order.

    ``donated``: roots (by number) that may be written over an input (by number). ``budget``: bytes
    that values between and results may take. ``large``: results whose sizes are not known will be
    of ``STREAM`` bytes or more. ``values``: open sizes to decide by, if other programs of the
    same graph can take over where the decisions do not hold.
    """
    global _compiled
    started = time.perf_counter()
    skip = frozenset(name for name in config.skip_passes.split(",") if name)
    where = target()
    settings = f"{where.key} {where.unit} {sorted(skip)} {config.optimize} {budget} {large}"
    sizes = values or {}
    settings += f" {[(name, size.bit_length()) for name, size in sizes.items()]}"
    key = stored.key_of(roots, inputs, scalars, donated or {}, settings)
    blueprint = None if config.verify else stored.find(key)
    if blueprint is None or not blueprint.suits(sizes):
        from lamella.compiler.pipeline import PASSES, compile_graph

        if not config.optimize:
            skip |= {name for name, _ in PASSES}
        verify = bool(config.verify)
        with deciding(sizes) as decisions:
            blueprint = compile_graph(
                roots, inputs, scalars, where.unit, skip, donated, verify, budget, large
            )
        blueprint.decisions = decisions.all()
        stored.keep(key, blueprint)
    made = Executable(blueprint, [node.dtype for node in scalars])
    _compiled += 1
    milliseconds = 1e3 * (time.perf_counter() - started)
    counts = f"{len(blueprint.steps)} launches, {len(blueprint.sources)} kernels"
    report(1, f"program: {counts}, {milliseconds:.1f} ms")
    report_kernels(blueprint.sources, where)
    if profiling.active is not None:
        profiling.active.compiled(counts, started, time.perf_counter())
    return made


def _run(
    roots: Sequence[Node], given: list[Any], words: Sequence[int], executable: Executable,
    at: Binding,
) -> None:  # fmt: skip
    try:
        made = [memory.empty(nbytes) for nbytes in at.nbytes]
    except MemoryError as error:
        raise too_large(roots, error) from None
    inputs, outputs = [buffer.ptr for buffer in given], [buffer.ptr for buffer in made]
    if executable.has_frames and profiling.active is None:
        executable.run_on_frame([*inputs, *outputs, *words], at)
    else:
        executable.run(inputs, words, outputs, at)
    for i, source in executable.same:
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
