"""A compiled program as plain data: kernels, launches, where everything lies.

Produced by ``pipeline``, made executable by ``runtime.program``; nothing in it depends on the
process, so ``to_json`` and ``from_json`` keep it on disk.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from lamella.compiler.memory import Temporary, assign
from lamella.dtypes import DType, as_dtype
from lamella.ir.decisions import Decision
from lamella.ir.dim import Shape, Size, product, typical
from lamella.ir.graph_text import graph_text, parse_graph
from lamella.ir.loops import Kernel
from lamella.ir.node import Node

__all__ = [
    "STREAM", "Blueprint", "Control", "Fault", "Source", "Step", "from_json", "grain_of", "to_json",
]  # fmt: skip

TASK = 32768  # scalar operations worth a task of their own
STREAM = 16 << 20  # bytes of a result that would only drive other data out of the caches


@dataclass(slots=True)
class Step:
    """One launch: a source's number, its grid iterations, the slots of its arguments.

    A task is at least ``grain`` iterations; 0 keeps all of them in the calling thread. Where an
    iteration's ``work`` is known only later, that decides (see :func:`grain_of`). An opaque call's
    arguments are its inputs, its results and the program's size symbols.
    """

    kernel: int
    extent: Size
    slots: tuple[int, ...]
    grain: int
    nbytes: Size = 0  # of the arrays it reads and writes
    label: str = ""  # the operations it computes
    lines: list[str] = field(default_factory=list)  # that recorded them, where that was asked for
    work: Size = 0  # scalar operations of an iteration, where its sizes are open


def grain_of(work: int) -> int:
    """The iterations of ``work`` scalar operations each that are worth a task.

    >>> grain_of(100), grain_of(1_000_000)
    (327, 1)
    """
    return max(1, TASK // max(work, 1))


@dataclass(frozen=True, slots=True)
class Control:
    """A step that changes slots or jumps to another step; see ``lamella.compiler.control``."""

    op: str
    slots: tuple[int, ...]
    target: int = 0


@dataclass(slots=True)
class Source:
    """A kernel by the hash of its text; the kernel itself is parsed only if it must be compiled.

    Or an opaque call: its node on placeholders, which is also its text form.
    """

    name: str
    scratch: int  # bytes of memory private to a thread, beyond what fits its stack
    text: str = ""
    parsed: Kernel | None = None
    call: Node | None = None

    def kernel(self) -> Kernel:
        """The kernel as data."""
        if self.parsed is None:
            from lamella.ir.loop_parse import parse_kernel

            self.parsed = parse_kernel(self.text)
        return self.parsed


@dataclass(frozen=True, slots=True)
class Fault:
    """The word by which a launch says that it failed, the source lines that may be why, and the
    message if it is no index out of range.
    """

    slot: int
    sites: list[str | None]
    failure: str = ""


@dataclass(slots=True)
class Blueprint:
    """A program as data.

    Slots, in order: inputs, outputs, scalars, size symbols, temporaries, the fault words, registers
    (that control steps set before anything reads them), numbers.
    """

    sources: list[Source]
    steps: list[Step | Control]
    inputs: int
    outputs: list[tuple[Shape, DType]]
    scalars: int
    symbols: list[str]
    temporaries: list[Temporary]
    faults: list[Fault] = field(default_factory=list)
    same: dict[int, int] = field(default_factory=dict)
    """Outputs that are no work: an earlier output (its number) or an input (-1 - its number)."""
    donated: dict[int, int] = field(default_factory=dict)
    """Output -> input whose memory it may be given, if nothing else needs the input."""
    registers: int = 0
    numbers: list[Size] = field(default_factory=list)
    guarded: bool = False
    """Whether a run that fails, if one can, ends before it writes over a donated input."""
    decisions: list[Decision] = field(default_factory=list)
    """What was decided by open sizes: it serves those of which all of it is true."""

    def suits(self, values: Mapping[str, int]) -> bool:
        """Whether it serves these numbers for its size symbols."""
        return all(decision.suits(values) for decision in self.decisions)

    @property
    def first_fault(self) -> int:
        """The slot of the first fault word."""
        before = self.inputs + len(self.outputs) + self.scalars
        return before + len(self.symbols) + len(self.temporaries)

    @property
    def slots(self) -> int:
        """How many slots there are."""
        return self.first_fault + len(self.faults) + self.registers + len(self.numbers)

    @property
    def may_fail(self) -> bool:
        """Whether a run may end with an error."""
        return bool(self.faults) or any(source.call is not None for source in self.sources)

    @property
    def over(self) -> dict[int, int]:
        """Those of ``donated`` that may be: a run that fails leaves its inputs as they were."""
        return self.donated if self.guarded else {}

    @property
    def memory(self) -> int:
        """Bytes that a run takes at once: values between, and results that do not take over the
        memory of inputs. Open sizes count as typical ones.
        """
        over = self.same.keys() | self.over.keys()
        results = sum(
            typical(product(shape)) * dtype.itemsize
            for i, (shape, dtype) in enumerate(self.outputs) if i not in over
        )  # fmt: skip
        sizes = [typical(t.nbytes) for t in self.temporaries]
        return results + assign(self.temporaries, sizes)[1]

    @property
    def kernels(self) -> list[Kernel]:
        """The kernels as data."""
        return [source.kernel() for source in self.sources if source.call is None]


def _size(size: Size) -> int | str:
    return size if isinstance(size, int) else str(size)


def _parsed(size: int | str) -> Size:
    if isinstance(size, int):
        return size
    from lamella.ir.loop_parse import parse_size

    return parse_size(size)


def _text(source: Source) -> str:
    if source.call is not None:
        return graph_text([source.call])
    if source.parsed is None:
        return source.text
    from lamella.ir.loop_text import kernel_text

    return kernel_text(source.parsed)


def _source(name: str, scratch: int, text: str, opaque: bool) -> Source:
    if not opaque:
        return Source(name, scratch, text)
    from lamella.ops import load_all
    from lamella.ops.base import PRIMITIVES

    load_all()
    (call,) = parse_graph(text, PRIMITIVES)
    return Source(name, scratch, call=call)


def _step_json(step: Step | Control) -> list[object]:
    if isinstance(step, Control):
        return [step.op, step.slots, step.target]
    sizes = _size(step.extent), _size(step.nbytes)
    rest = step.label, step.lines, _size(step.work)
    return [step.kernel, sizes[0], step.slots, step.grain, sizes[1], *rest]


def _step(what: int | str, second: Any, third: Any, *rest: Any) -> Step | Control:
    if isinstance(what, str):
        return Control(what, tuple(second), third)
    grain, nbytes, label, lines, work = rest
    sizes = _parsed(second), _parsed(nbytes), _parsed(work)
    return Step(what, sizes[0], tuple(third), grain, sizes[1], label, lines, sizes[2])


def to_json(program: Blueprint) -> bytes:
    """The program as JSON text; kernels as their text."""
    value = {
        "sources": [[s.name, s.scratch, _text(s), s.call is not None] for s in program.sources],
        "steps": [_step_json(s) for s in program.steps],
        "inputs": program.inputs,
        "outputs": [[[_size(n) for n in shape], d.name] for shape, d in program.outputs],
        "scalars": program.scalars,
        "symbols": program.symbols,
        "temporaries": [[_size(t.nbytes), t.first, t.last] for t in program.temporaries],
        "faults": [[f.slot, f.sites, f.failure] for f in program.faults],
        "same": list(program.same.items()),
        "donated": list(program.donated.items()),
        "registers": program.registers,
        "numbers": [_size(n) for n in program.numbers],
        "guarded": program.guarded,
        "decisions": [[_size(d.size), d.limit, d.holds] for d in program.decisions],
    }
    return json.dumps(value, separators=(",", ":")).encode()


def from_json(data: bytes) -> Blueprint:
    """The program that ``to_json`` wrote.

    Raises:
        ValueError, KeyError, TypeError: if it is something else.
    """
    value: dict[str, Any] = json.loads(data)
    return Blueprint(
        [_source(*source) for source in value["sources"]],
        [_step(*step) for step in value["steps"]],
        value["inputs"],
        [(tuple(_parsed(n) for n in shape), as_dtype(d)) for shape, d in value["outputs"]],
        value["scalars"],
        value["symbols"],
        [Temporary(_parsed(nbytes), first, last) for nbytes, first, last in value["temporaries"]],
        [Fault(*fault) for fault in value["faults"]],
        dict(value["same"]),
        dict(value["donated"]),
        value["registers"],
        [_parsed(n) for n in value["numbers"]],
        value["guarded"],
        [Decision(_parsed(size), limit, holds) for size, limit, holds in value["decisions"]],
    )
