"""Loops and branches as steps of a program: the launches of their bodies, with jumps between them.

Input: a call node that is lowered to control flow, the slots of its inputs and results, and a
function that compiles its subgraphs. Output: steps. ``Control`` steps change slots, so one set of
launches serves every iteration: carries change places by exchanging addresses (or stay, where the
body can write over them), slices and rows are addresses that move on. What each control step does
is said in ``lamella.runtime.native_program``.

While a program is being written, slots whose place is not known yet are negative numbers;
``Writer.finish`` puts the final ones in.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from lamella import ops
from lamella.compiler.blueprint import Blueprint, Control, Source
from lamella.compiler.memory import Temporary
from lamella.graph.branches import Branch
from lamella.graph.loops import Loop
from lamella.ir.dim import Dim, Size, product, symbols
from lamella.ir.node import Node
from lamella.ir.subgraph import Subgraph

__all__ = ["Nested", "Writer", "fault", "lower", "symbols_of"]

_FAULT, _REGISTER, _NUMBER = 1, 2, 3
_KINDS = 3


class Nested(Protocol):
    """Compiles a subgraph: outputs, inputs, which outputs may be written over which input."""

    def __call__(
        self, outputs: Sequence[Node], inputs: Sequence[Node], donated: Mapping[int, int]
    ) -> Blueprint:
        """The subgraph's program."""


def fault(number: int) -> int:
    """The slot of a fault word, to be known later."""
    return -_FAULT - _KINDS * number


class Writer:
    """Adds steps to a program. ``sizes``: the slot of each size symbol (``size NAME``)."""

    def __init__(
        self, result: Blueprint, sources: list[Source], kernels: dict[str, int],
        sizes: Mapping[str, int],
    ) -> None:  # fmt: skip
        self.result = result
        self.steps = result.steps
        self.sources = sources
        self.kernels = kernels
        self.sizes = sizes

    # -- slots -------------------------------------------------------------------------------------
    def temporary(self, nbytes: Size, first: int, last: int) -> int:
        """Memory that lives from one step to another."""
        made = self.result
        made.temporaries.append(Temporary(nbytes, first, last))
        return made.first_fault - 1

    def register(self) -> int:
        """A slot that control steps change."""
        self.result.registers += 1
        return -_REGISTER - _KINDS * (self.result.registers - 1)

    def number(self, value: Size) -> int:
        """A slot that holds a number."""
        numbers = self.result.numbers
        if value not in numbers:
            numbers.append(value)
        return -_NUMBER - _KINDS * numbers.index(value)

    def finish(self) -> None:
        """Give every slot its number."""
        made = self.result
        base = made.first_fault
        first = {_FAULT: base, _REGISTER: base + len(made.faults)}
        first[_NUMBER] = first[_REGISTER] + made.registers

        def place(slot: int) -> int:
            if slot >= 0:
                return slot
            number, kind = divmod(-slot - 1, _KINDS)
            return first[kind + 1] + number

        made.steps[:] = [replace(s, slots=tuple(map(place, s.slots))) for s in made.steps]
        made.faults[:] = [replace(f, slot=base + i) for i, f in enumerate(made.faults)]

    # -- steps -------------------------------------------------------------------------------------
    def control(self, op: str, *slots: int, target: int = 0) -> int:
        """A control step; its number."""
        self.steps.append(Control(op, slots, target))
        return len(self.steps) - 1

    def aim(self, *numbers: int) -> None:
        """Have control steps jump to the next step that is written."""
        for number in numbers:
            step = self.steps[number]
            if isinstance(step, Control):
                self.steps[number] = replace(step, target=len(self.steps))

    def splice(self, inner: Blueprint, inputs: Sequence[int], outputs: Sequence[int]) -> None:
        """The steps of ``inner``, on these slots."""
        base, made = len(self.steps), self.result
        slots = [*inputs, *outputs, *(self.sizes[f"size {name}"] for name in inner.symbols)]
        slots += [
            self.temporary(t.nbytes, base + t.first, base + t.last) for t in inner.temporaries
        ]
        slots += [fault(len(made.faults) + i) for i in range(len(inner.faults))]
        made.faults += inner.faults
        slots += [self.register() for _ in range(inner.registers)]
        slots += [self.number(n) for n in inner.numbers]
        sources = [self._source(source) for source in inner.sources]
        for step in inner.steps:
            mapped = tuple(slots[slot] for slot in step.slots)
            if isinstance(step, Control):
                self.steps.append(Control(step.op, mapped, step.target + base))
                continue
            if inner.sources[step.kernel].call is not None:  # it takes every symbol of its program
                mapped = (*mapped[: len(mapped) - len(inner.symbols)], *self.sizes.values())
            self.steps.append(replace(step, kernel=sources[step.kernel], slots=mapped))

    def _source(self, source: Source) -> int:
        """The number of a kernel, which may be known already, or of an opaque call."""
        known = self.kernels.get(source.name) if source.call is None else None
        if known is None:
            known = len(self.sources)
            self.sources.append(source)
            if source.call is None:
                self.kernels[source.name] = known
        return known


def symbols_of(node: Node) -> set[str]:
    """The size symbols that a call's subgraphs and results mention."""
    found: set[str] = set()
    graphs: Sequence[Subgraph | None]
    op = node.op
    if isinstance(op, Loop):
        graphs = (op.body, op.condition)
    elif isinstance(op, Branch):
        graphs = op.branches
    else:
        return found
    sizes = [s for shape, _ in op.results(node.inputs) for s in shape]
    sizes += [s for source in node.inputs for s in source.shape]
    for size in sizes:
        if isinstance(size, Dim):
            found |= symbols(size)
    for graph in graphs:
        found |= set() if graph is None else graph.symbols()
    return found


def lower(
    writer: Writer, node: Node, given: Sequence[int], results: Sequence[int], nested: Nested
) -> None:
    """The steps of a control-flow call."""
    if isinstance(node.op, Loop):
        LoopSteps(writer, node, node.op, given, results, nested).write()
    elif isinstance(node.op, Branch):
        _branch(writer, node.op, given, results, nested)


def _branch(
    writer: Writer, op: Branch, given: Sequence[int], results: Sequence[int], nested: Nested
) -> None:
    """Each branch behind a jump over it; after it a jump over those that follow."""
    index, ends = writer.register(), []
    writer.control("load", index, given[0])
    last = len(op.branches) - 1
    for number, branch in enumerate(op.branches):
        over = []
        if number < last:
            over.append(writer.control("less", index, writer.number(number + 1)))
        writer.splice(compiled(branch, nested, {}), given[1:], results)
        if number < last:
            ends.append(writer.control("jump"))
        writer.aim(*over)
    writer.aim(*ends)


def compiled(graph: Subgraph, nested: Nested, donated: Mapping[int, int]) -> Blueprint:
    """The program of a subgraph, in which every output has memory of its own."""
    outputs = list(graph.outputs)
    while True:
        made = nested(outputs, graph.inputs, donated)
        if not made.same:
            return made
        for i in made.same:
            outputs[i] = ops.barrier(outputs[i])


def _nbytes(shape: Sequence[Size], node: Node) -> Size:
    return product(tuple(shape)) * node.dtype.itemsize


@dataclass(slots=True)
class Moving:
    """A carry that changes places: where the step reads it, where it writes, and the third."""

    read: int
    write: int
    other: int


class LoopSteps:
    """Writes a loop."""

    def __init__(
        self, writer: Writer, node: Node, op: Loop, given: Sequence[int],
        results: Sequence[int], nested: Nested,
    ) -> None:  # fmt: skip
        self.w, self.node, self.op, self.nested = writer, node, op, nested
        head = 1 if op.counted else 0
        carries, slices = head + op.constants, len(given) - op.slices
        self.count = given[0] if op.counted else None
        self.constants = given[head:carries]
        self.initial = given[carries:slices]
        self.slices = given[slices:]
        self.results = results
        self.rows = results[op.first_row :]
        self.zero, self.one = writer.number(0), writer.number(1)

    def write(self) -> None:
        """All steps: begin, test, body, go on, end."""
        w, op = self.w, self.op
        offered = {j: op.constants + j for j in range(op.carries)}
        body = compiled(op.body, self.nested, offered)
        in_place = set(body.donated)
        begin = len(w.steps)
        steps = self._steps()
        self.moving = {j: Moving(w.register(), w.register(), w.register())
                       for j in range(op.carries) if j not in in_place}  # fmt: skip
        spare = self._begin(in_place)
        pointers = self._pointers(steps)
        counter = w.register()
        w.control("move", counter, self.one)
        ends = [] if steps is None else [w.control("less", self.zero, steps)]
        top = len(w.steps)
        ends += self._test()
        reads = [self.moving[j].read if j in self.moving else self.results[j]
                 for j in range(op.carries)]  # fmt: skip
        writes = [self.moving[j].write if j in self.moving else self.results[j]
                  for j in range(op.carries)]  # fmt: skip
        places = [p for p, _ in pointers]
        slices, rows = places[: op.slices], places[op.slices :]
        w.splice(body, [*self.constants, *reads, *slices], [*writes, *rows])
        self._go_on(pointers, counter, steps, top)
        w.aim(*ends)
        self._end(counter)
        self._span(spare, begin)

    def _steps(self) -> int | None:
        """The slot of the number of steps; None if only a condition ends the loop."""
        w, most = self.w, self.op.most(self.node.inputs)
        if self.count is None:
            return None if most is None else w.number(most)
        steps = w.register()
        w.control("load", steps, self.count)
        return steps

    def _begin(self, in_place: set[int]) -> list[int]:
        """Carries where the first step looks for them; the temporaries that they need."""
        w, op = self.w, self.op
        most = op.most(self.node.inputs)
        plain = self.count is None and op.condition is None
        even = plain and isinstance(most, int) and most % 2 == 0
        spare: list[int] = []
        moves: list[int] = []
        for j, node in enumerate(op.body.outputs[: op.carries]):
            nbytes = _nbytes(node.shape, node)
            if j in in_place:
                w.control("copy", self.results[j], self.initial[j], w.number(nbytes))
                continue
            carry, at = self.moving[j], w.temporary(nbytes, 0, 0)
            spare.append(len(w.result.temporaries) - 1)
            first, second = (at, self.results[j]) if even else (self.results[j], at)
            moves += [carry.read, self.initial[j], carry.write, first, carry.other, second]
        if moves:
            w.control("move", *moves)
        return spare

    def _pointers(self, steps: int | None) -> list[tuple[int, int]]:
        """Registers that point to the present slice or row, and how far they move."""
        w, op = self.w, self.op
        inputs = op.body.inputs[len(op.body.inputs) - op.slices :]
        stacks = [*zip(self.slices, inputs, strict=True),
                  *zip(self.rows, op.row_nodes, strict=True)]  # fmt: skip
        sizes = [_nbytes(node.shape, node) for _, node in stacks]
        if self.count is not None or op.condition is not None:
            self._clear_rows()
        pointers = []
        last = w.register() if op.reverse and stacks and steps is not None else None
        if last is not None and steps is not None:
            w.control("move", last, steps)
            w.control("add", last, w.number(-1))
        for (start, _), size in zip(stacks, sizes, strict=True):
            at = w.register()
            w.control("move", at, start)
            if last is not None:
                w.control("scale", at, last, w.number(size))
            pointers.append((at, w.number(-size if op.reverse else size)))
        return pointers

    def _clear_rows(self) -> None:
        """Rows that no step may write are zeros."""
        kinds = self.op.results(self.node.inputs)[self.op.first_row :]
        for slot, (shape, dtype) in zip(self.rows, kinds, strict=True):
            self.w.control("zero", slot, self.w.number(product(shape) * dtype.itemsize))

    def _test(self) -> list[int]:
        """The condition; the jumps that it may take to the end."""
        w, test = self.w, self.op.condition
        if test is None:
            return []
        reads = [self.moving[j].read if j in self.moving else self.results[j]
                 for j in range(self.op.carries)]  # fmt: skip
        flag, value = w.temporary(8, 0, 0), w.register()
        place = len(w.result.temporaries) - 1
        begin = len(w.steps)
        w.splice(compiled(test, self.nested, {}), [*self.constants, *reads], [flag])
        w.control("load", value, flag)
        w.result.temporaries[place] = Temporary(8, begin, len(w.steps))
        return [w.control("less", self.zero, value)]

    def _go_on(
        self, pointers: Sequence[tuple[int, int]], counter: int, steps: int | None, top: int
    ) -> None:
        """After a step: the next slices and rows, carries change places, back to the top."""
        w = self.w
        adds = [slot for pair in pointers for slot in pair]
        w.control("add", counter, self.one, *adds)
        moves: list[int] = []
        for carry in self.moving.values():
            moves += [carry.read, carry.write, carry.write, carry.other, carry.other, carry.read]
        if moves:
            w.control("move", *moves)
        if steps is None:
            w.control("jump", target=top)
        else:
            w.control("less", steps, counter, target=top)

    def _end(self, counter: int) -> None:
        """Carries to where they belong, and the number of steps."""
        w, op = self.w, self.op
        for j, carry in self.moving.items():
            node = op.body.outputs[j]
            w.control("copy", self.results[j], carry.read, w.number(_nbytes(node.shape, node)))
        w.control("add", counter, w.number(-1))
        if op.condition is not None:
            w.control("store", self.results[op.carries], counter)

    def _span(self, spare: Sequence[int], begin: int) -> None:
        """The spare places of carries live as long as the loop."""
        held = self.w.result.temporaries
        for i in spare:
            held[i] = replace(held[i], first=begin, last=len(self.w.steps) - 1)
