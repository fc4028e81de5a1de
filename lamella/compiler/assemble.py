"""The last pass: groups become kernels with arguments, buffers get slots, temporaries share an
arena.

Input: groups in order. Output: the ``Blueprint``, whose slots its class lists. A result takes over
the memory of an operand that dies with it where ``reuse.in_place`` shows it safe: of a temporary
always, of an input if the caller offers it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace

from lamella import ops
from lamella.compiler import control
from lamella.compiler.blueprint import STREAM, Blueprint, Control, Fault, Source, Step, grain_of
from lamella.compiler.control import Nested
from lamella.compiler.drafts import Drafts
from lamella.compiler.emit.llvm import scratch_bytes
from lamella.compiler.fusion import Group
from lamella.compiler.kernels import Draft
from lamella.compiler.memory import Temporary
from lamella.compiler.partition import is_external
from lamella.compiler.reuse import streamable, streamed, with_alias
from lamella.compiler.split_loops import split_loops
from lamella.compiler.statements import Program
from lamella.dtypes import DType
from lamella.ir.dim import Dim, Shape, Size, product, symbols, typical
from lamella.ir.loop_text import kernel_text
from lamella.ir.loops import Kernel
from lamella.ir.node import Node
from lamella.ir.vectors import VectorUnit
from lamella.ops.calls import PairedCall

__all__ = ["Assembler"]


class Assembler:
    """Turns groups into launches with slots. ``asked``: the shapes and element types of the results
    as whoever asked for them knows them, whose sizes may have names that no kernel needs.
    """

    def __init__(
        self,
        program: Program,
        groups: Sequence[Group],
        outputs: Sequence[Node],
        inputs: Sequence[Node],
        scalars: Sequence[Node],
        donated: Mapping[int, int],
        nested: Nested,
        large: bool,
        asked: Sequence[tuple[Shape, DType]],
    ) -> None:
        self.program = program
        self.groups = groups
        self.outputs = outputs
        self.inputs = {node: slot for slot, node in enumerate(inputs)}
        self.scalars = list(scalars)
        self.sources: list[Source] = []
        self.kernel_of: dict[str, int] = {}
        # by the identities of kernels, which they keep alive
        self.finished: dict[tuple[object, ...], tuple[Kernel, Kernel]] = {}
        self.hashes: dict[int, tuple[Kernel, str]] = {}
        self.home = {s.node: i for i, group in enumerate(groups) for s in group.members}
        self.parts = {s.node: s.parts for group in groups for s in group.members if s.parts}
        self.node_of = {name: node for node, name in program.names.items()}
        self.last = self._last_uses()
        self.memory: dict[Node, Node] = {}  # a node -> the node whose memory it takes over
        self.nested = nested
        self.large = large  # as are results of sizes that are not known
        self.asked = asked
        self.offered = {outputs[o]: list(inputs)[i] for o, i in donated.items()}

    def _last_uses(self) -> dict[Node, int]:
        """The last group that touches each node."""
        last = dict(self.home)
        for i, group in enumerate(self.groups):
            for s in group.members:
                for node in s.sources:
                    last[node] = max(last.get(node, 0), i)
        return last

    def run(self, unit: VectorUnit, reuse: bool, split: bool) -> Blueprint:
        """The finished program."""
        needed = set(self.outputs)
        for i, group in enumerate(self.groups):
            for s in group.members:
                needed |= {n for n in s.sources if self.home.get(n, i) != i}
        shared = Drafts(self.program, needed, unit, reuse)
        drafts = [shared.of(group) for group in self.groups]
        for number, made in enumerate(drafts):
            needed |= made.temporaries
            if made.kernel is not None:
                made.kernel = self._finished(number, made, made.kernel, reuse, split)
        return self._assemble(drafts, needed)

    def _finished(
        self, number: int, made: Draft, kernel: Kernel, reuse: bool, split: bool
    ) -> Kernel:
        """The kernel of launch ``number``, told where its results go; one for equal ones."""
        loops = self.groups[number].kind == "loops"
        over = self._take_over(number, made)
        past = self._read_by_nobody(number, made, kernel) if loops and reuse else set()
        past -= over.keys()
        key = id(kernel), tuple(over.items()), frozenset(past)
        if key not in self.finished:
            found = streamed(with_alias(kernel, over), past)
            self.finished[key] = kernel, split_loops(found) if split and loops else found
        return self.finished[key][1]

    # -- memory ------------------------------------------------------------------------------------
    def _take_over(self, number: int, made: Draft) -> dict[str, str]:
        """Which outputs of launch ``number`` are written over which of its inputs."""
        pairs: dict[str, str] = {}
        for out, operands in made.in_place.items():
            node = self.node_of[made.names[out]]
            for name in operands:
                operand = self.node_of[made.names[name]]
                if name not in pairs.values() and self._dies(operand, node, number):
                    pairs[out] = name
                    self.memory[node] = operand
                    break
        return pairs

    def _read_by_nobody(self, number: int, made: Draft, kernel: Kernel) -> set[str]:
        """Large outputs of launch ``number`` that no later one reads, with aligned stores."""
        found = set()
        for name in streamable(kernel):
            node = self.node_of[made.names[name]]
            nbytes = node.size * node.dtype.itemsize
            large = nbytes >= STREAM if isinstance(nbytes, int) else self.large
            if large and node in self.outputs and self.last[node] == number:
                found.add(name)
        return found

    def _dies(self, operand: Node, node: Node, number: int) -> bool:
        if self.last[operand] != number or operand.size != node.size:
            return False
        if operand in self.inputs:
            return self.offered.get(node) is operand and operand not in self.outputs
        if operand in self.outputs or operand not in self.home or self.home[operand] == number:
            return False
        root = self._root(operand)
        return root not in self.inputs or self.offered.get(node) is root

    def _root(self, node: Node) -> Node:
        while node in self.memory:
            node = self.memory[node]
        return node

    def _temporaries(
        self, result: Blueprint, needed: set[Node], slot: dict[str, int], first: int
    ) -> None:
        """Slots for temporaries; those that share memory share one, perhaps that of an output."""
        chains: dict[Node, list[Node]] = {}
        for node in self.home:
            if node in needed:
                chains.setdefault(self._root(node), []).append(node)
        for root, nodes in chains.items():
            names = [self.program.names[n] for n in nodes]
            at = next((slot[name] for name in names if name in slot), None)
            if root in self.inputs:
                output = next(n for n in nodes if self.program.names[n] in slot)
                result.donated[self.outputs.index(output)] = self.inputs[root]
            if at is None:
                at = first + len(result.temporaries)
                size = product(root.shape) * root.dtype.itemsize
                begin, end = min(self.home[n] for n in nodes), max(self.last[n] for n in nodes)
                result.temporaries.append(Temporary(size, begin, end))
            slot.update((name, at) for name in names)

    # -- slots -------------------------------------------------------------------------------------
    def _assemble(self, drafts: Sequence[Draft], needed: set[Node]) -> Blueprint:
        kernels = [k for made in drafts for k in (*made.zeroing, made.kernel) if k is not None]
        calls = [made.call for made in drafts if made.call is not None]
        inner = [control.symbols_of(call) for call in calls]
        names = sorted(self._symbols().union(*(kernel.sizes for kernel in kernels), *inner))
        result = Blueprint([], [], len(self.inputs), [*self.asked], len(self.scalars), names, [])
        slot = self._outer_slots(result)
        base = len(self.inputs) + len(self.outputs)
        params = {
            self.program.params[n]: base + i
            for i, n in enumerate(self.scalars) if n in self.program.params
        }  # fmt: skip
        base += len(self.scalars)
        sizes = {f"size {name}": base + i for i, name in enumerate(names)}
        self._temporaries(result, needed, slot, base + len(names))
        whole = len(result.temporaries)
        writer = control.Writer(result, self.sources, self.kernel_of, sizes)
        begins, ends = [], []
        guard = self._guard(result, slot)
        for number, (group, made) in enumerate(zip(self.groups, drafts, strict=True)):
            begins.append(len(result.steps))
            if number == guard:
                ends = self._leave_on_fault(writer, result)
            self._write(writer, group, made, slot | params | sizes, list(sizes.values()))
        begins.append(len(result.steps))
        for i, t in enumerate(result.temporaries[:whole]):
            result.temporaries[i] = replace(t, first=begins[t.first], last=begins[t.last + 1] - 1)
        result.sources = self.sources
        writer.aim(*ends)
        opaque = any(source.call is not None for source in self.sources)
        result.guarded = len(result.faults) == len(ends) and not opaque
        writer.finish()
        return result

    def _write(
        self, writer: control.Writer, group: Group, made: Draft, slot: Mapping[str, int],
        sizes: list[int],
    ) -> None:  # fmt: skip
        """The steps of a group."""
        result, begin = writer.result, len(writer.steps)
        if made.call is not None and made.call.op.control:  # type: ignore[attr-defined]
            given, results = self._call_slots(made.call, slot)
            control.lower(writer, made.call, given, results, self.nested)
            return
        if made.call is not None:
            self._opaque_step(result, made.call, slot, sizes)
        elif made.kernel is not None:
            for kernel in (*made.zeroing, made.kernel):
                self._step(result, made, kernel, slot)
        self._describe(result.steps[begin:], group)

    def _guard(self, result: Blueprint, slot: Mapping[str, int]) -> int | None:
        """The first group that touches the memory of an input that may be written over."""
        first = len(self.inputs)
        over = {first + output for output in result.donated}
        for number, group in enumerate(self.groups):
            touched = {n for s in group.members for n in (s.node, *s.sources, *s.parts)}
            if any(slot.get(self.program.names.get(n, "")) in over for n in touched):
                return number
        return None

    def _leave_on_fault(self, writer: control.Writer, result: Blueprint) -> list[int]:
        """Steps that end the run where an index has been at fault; the jumps that do."""
        ends = []
        for number in range(len(result.faults)):
            value = writer.register()
            writer.control("load", value, control.fault(number))
            ends.append(writer.control("less", value, writer.number(1)))
        return ends

    def _describe(self, steps: Sequence[Step | Control], group: Group) -> None:
        """What people are told of the steps of a group."""
        wanted = {n for s in group.members for n in (*s.sources, s.node) if n in self.program.names}
        nbytes: Size = 0
        for node in wanted:
            nbytes = nbytes + product(node.shape) * node.dtype.itemsize
        label = "+".join(s.node.op.name for s in group.members if s.kind != "part")
        lines = dict.fromkeys(s.node.site for s in group.members if s.node.site is not None)
        for step in steps:
            if isinstance(step, Step):
                step.label, step.nbytes, step.lines = label, nbytes, list(lines)

    def _outer_slots(self, result: Blueprint) -> dict[str, int]:
        """Slots of inputs and outputs by name; outputs that need no work are noted."""
        slot = {self.program.names[n]: s for n, s in self.inputs.items() if n in self.program.names}
        seen: dict[Node, int] = {}
        for i, node in enumerate(self.outputs):
            if node in seen:
                result.same[i] = seen[node]
            elif is_external(node):
                result.same[i] = -1 - self.inputs[node]
            else:
                seen[node] = i
                slot[self.program.names[node]] = len(self.inputs) + i
        return slot

    def _symbols(self) -> set[str]:
        found: set[str] = set()
        for shape in (*(shape for shape, _ in self.asked), *(n.shape for n in self.inputs)):
            for size in shape:
                found |= symbols(size)
        return found

    def _call_slots(self, node: Node, slot: Mapping[str, int]) -> tuple[list[int], list[int]]:
        """The slots of a call's inputs and of its results."""
        names = self.program.names
        given = [slot[names[source]] for source in node.inputs]
        return given, [slot[names[part]] for part in self.parts[node]]

    def _opaque_step(
        self, result: Blueprint, node: Node, slot: Mapping[str, int], sizes: list[int]
    ) -> None:
        """A call that is computed in Python: its inputs, its results, then every size symbol."""
        given, made = self._call_slots(node, slot)
        if isinstance(node.op, PairedCall):
            call = node.op.seen(node.inputs)
        else:
            inputs = tuple(ops.placeholder(n.shape, n.dtype) for n in node.inputs)
            call = Node(node.op, inputs, node.shape, node.dtype)
        call.site = node.site
        result.steps.append(Step(len(self.sources), 1, (*given, *made, *sizes), 0))
        self.sources.append(Source(call.op.name, 0, call=call))

    def _step(
        self, result: Blueprint, made: Draft, kernel: Kernel, slot: Mapping[str, int]
    ) -> None:
        arguments = [slot[made.names[b.name]] for b in kernel.buffers if b.name != "fault"]
        if kernel.faults:
            arguments.append(control.fault(len(result.faults)))
            result.faults.append(Fault(0, made.sites, made.failure))
        arguments += [slot[made.names[p.name]] for p in kernel.params]
        arguments += [slot[f"size {name}"] for name in kernel.sizes]
        extent = kernel.body.var.extent
        if not isinstance(extent, (int, Dim)):
            raise TypeError(f"the grid of {kernel.name} has the extent {extent}, which is no size")
        grain = grain_of(typical(kernel.work))
        name = self._name(kernel)
        index = self.kernel_of.setdefault(name, len(self.sources))
        if index == len(self.sources):
            named = replace(kernel, name=name)
            self.sources.append(Source(name, scratch_bytes(named), parsed=named))
        work = kernel.work if isinstance(kernel.work, Dim) else 0
        result.steps.append(Step(index, extent, tuple(arguments), grain, work=work))

    def _name(self, kernel: Kernel) -> str:
        """The hash of a kernel's text, in which nothing has a name of its own."""
        known = self.hashes.get(id(kernel))
        if known is None:
            text = kernel_text(kernel, normalise=True)
            known = kernel, "k" + hashlib.sha256(text.encode()).hexdigest()[:32]
            self.hashes[id(kernel)] = known
        return known[1]
