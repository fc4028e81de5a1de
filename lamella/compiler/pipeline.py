"""The compiler as a list of passes, from a graph to a program of kernels.

Input: the outputs of a graph and its external inputs in order. Output: a :class:`Blueprint`: kernels as plain data, which slots each is launched
with, and where temporaries live. Nothing here depends on the machine but the width of its vectors.
"""
from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from lamella.compiler.canonicalise import canonicalise, split_reductions
from lamella.compiler.fusion import Group, fuse
from lamella.compiler.kernels import Draft, draft
from lamella.compiler.memory import Temporary
from lamella.compiler.partition import is_external, materialised
from lamella.compiler.statements import Program, build
from lamella.dtypes import DType
from lamella.ir.dim import Dim, Shape, Size, product, symbols, typical
from lamella.ir.loop_text import kernel_text
from lamella.ir.loops import Kernel
from lamella.ir.node import Node, topological

__all__ = ["GRAPH_PASSES", "Blueprint", "Step", "compile_graph"]

GraphPass = Callable[[Sequence[Node]], list[Node]]

# In order: name, pass, why it stands here.
GRAPH_PASSES: tuple[tuple[str, GraphPass, str], ...] = (
    ("canonicalise", canonicalise, "first, so that later passes see each value once and no identities"),
    ("split_reductions", split_reductions, "before fusion, which decides by how many results a reduction has"),
    ("share", canonicalise, "splitting makes new nodes, some of them equal"),
)
# Then, on statements: partition (what is stored), fuse (what shares loops), draft (loop nests), plan (memory).


@dataclass(frozen=True, slots=True)
class Step:
    """One launch: which kernel, over how many grid iterations, with which slots, in tasks of at least ``grain`` iterations."""

    kernel: int
    extent: Size
    slots: tuple[int, ...]
    grain: int


@dataclass(slots=True)
class Blueprint:
    """A program as data; a kernel's name is a hash of its text. Slots, in order: inputs, outputs, scalars, size symbols, temporaries, then the fault words."""

    kernels: list[Kernel]
    steps: list[Step]
    inputs: int
    outputs: list[tuple[Shape, DType]]
    scalars: int
    symbols: list[str]
    temporaries: list[Temporary]
    faults: list[tuple[int, list[str | None]]] = field(default_factory=list)  # slot, source lines
    same: dict[int, int] = field(default_factory=dict)  # output -> input or earlier output that it equals


TASK = 32768  # scalar operations worth a task of their own


def compile_graph(
    outputs: Sequence[Node], inputs: Sequence[Node], scalars: Sequence[Node], vector_bytes: int, skip: frozenset[str] = frozenset()
) -> Blueprint:
    """The program that computes ``outputs`` from the buffers ``inputs`` and the numbers ``scalars``.

    ``skip`` names passes to leave out: those of ``GRAPH_PASSES``, and "fuse" and "inline".
    """
    nodes = list(outputs)
    for name, run, _ in GRAPH_PASSES:
        if name not in skip or name == "canonicalise":
            nodes = run(nodes)
    order = topological(nodes)
    stored = materialised(order, nodes, fuse="inline" not in skip)
    program = build(order, nodes, stored)
    groups = fuse(program.statements, enabled="fuse" not in skip)
    return _Assembler(program, groups, nodes, inputs, scalars).run(vector_bytes)


class _Assembler:
    """Turns groups into launches with slots."""

    def __init__(
        self, program: Program, groups: Sequence[Group], outputs: Sequence[Node], inputs: Sequence[Node], scalars: Sequence[Node]
    ) -> None:
        self.program = program
        self.groups = groups
        self.outputs = outputs
        self.inputs = {node: slot for slot, node in enumerate(inputs)}
        self.scalars = list(scalars)
        self.kernels: list[Kernel] = []
        self.kernel_of: dict[str, int] = {}

    def run(self, vector_bytes: int) -> Blueprint:
        """The finished program."""
        home: dict[Node, int] = {}
        for i, group in enumerate(self.groups):
            home |= {s.node: i for s in group.members}
        needed = set(self.outputs)
        for i, group in enumerate(self.groups):
            for s in group.members:
                needed |= {n for n in s.sources if home.get(n, i) != i}
        drafts = [draft(group, self.program, needed, vector_bytes) for group in self.groups]
        for made in drafts:
            needed |= made.temporaries
        return self._assemble(drafts, needed, home)

    def _assemble(self, drafts: Sequence[Draft], needed: set[Node], home: dict[Node, int]) -> Blueprint:
        names = sorted({s for made in drafts for s in made.kernel.sizes} | self._symbols())
        result = Blueprint(
            [], [], len(self.inputs), [(n.shape, n.dtype) for n in self.outputs], len(self.scalars), names, []
        )
        slot = {self.program.names[n]: s for n, s in self.inputs.items() if n in self.program.names}
        first_output = len(self.inputs)
        seen: dict[Node, int] = {}
        for i, node in enumerate(self.outputs):
            if node in seen:
                result.same[i] = seen[node]
            elif is_external(node):
                result.same[i] = -1 - self.inputs.get(node, -1)
            else:
                seen[node] = i
                slot[self.program.names[node]] = first_output + i
        params = {self.program.params[n]: first_output + len(self.outputs) + i
                  for i, n in enumerate(self.scalars) if n in self.program.params}  # fmt: skip
        base = first_output + len(self.outputs) + len(self.scalars)
        size_slot = {name: base + i for i, name in enumerate(names)}
        self._temporaries(result, needed, home, slot, base + len(names))
        fault = base + len(names) + len(result.temporaries)
        for made in drafts:
            self._step(result, made, slot, params, size_slot, fault)
        result.kernels = self.kernels
        return result

    def _symbols(self) -> set[str]:
        found: set[str] = set()
        for node in (*self.outputs, *self.inputs):
            for size in node.shape:
                found |= symbols(size)
        return found

    def _temporaries(
        self, result: Blueprint, needed: set[Node], home: dict[Node, int], slot: dict[str, int], first: int
    ) -> None:
        last = dict(home)
        for i, group in enumerate(self.groups):
            for s in group.members:
                for node in s.sources:
                    if node in last:
                        last[node] = max(last[node], i)
        for node in home:
            name = self.program.names[node]
            if node in needed and name not in slot:
                slot[name] = first + len(result.temporaries)
                size = product(node.shape) * node.dtype.itemsize
                result.temporaries.append(Temporary(size, home[node], last[node]))

    def _step(
        self, result: Blueprint, made: Draft, slot: dict[str, int], params: dict[str, int], sizes: dict[str, int], fault: int
    ) -> None:
        kernel = made.kernel
        arguments = [slot[b.name] for b in kernel.buffers if b.name != "fault"]
        if kernel.faults:
            arguments.append(fault + len(result.faults))
            result.faults.append((fault + len(result.faults), made.sites))
        arguments += [params[p.name] for p in kernel.params]
        arguments += [sizes[name] for name in kernel.sizes]
        extent = kernel.body.var.extent
        if not isinstance(extent, (int, Dim)):
            raise TypeError(f"the grid of {kernel.name} has the extent {extent}, which is no size")
        grain = max(1, TASK // max(typical(kernel.work), 1))
        text = kernel_text(kernel, normalise=True)
        index = self.kernel_of.setdefault(text, len(self.kernels))
        if index == len(self.kernels):
            name = "k" + hashlib.sha256(text.encode()).hexdigest()[:32]
            self.kernels.append(replace(kernel, name=name))
        result.steps.append(Step(index, extent, tuple(arguments), grain))

