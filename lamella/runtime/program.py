"""Executable programs: a blueprint whose kernels are machine code, ready to run on buffers.

Input: a :class:`~lamella.compiler.blueprint.Blueprint`. Output: :class:`Executable`, called with
the addresses of its inputs, the words of its scalars and the values of its size symbols; it fills
the output buffers. Kernels are looked up in memory, then on disk, else compiled; one kernel serves
every program that contains it. A program's memory need is known, and checked, before it starts.
"""

from __future__ import annotations

import ctypes
import json
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cache
from typing import Final

from lamella.compiler.blueprint import Blueprint, Control, Source
from lamella.compiler.emit.target import Target, host, named
from lamella.compiler.memory import assign
from lamella.config import config
from lamella.errors import LamellaIndexError, OutOfMemoryError
from lamella.ir.dim import Dim, bind
from lamella.runtime import buffer as memory
from lamella.runtime import disk, profiling, threads
from lamella.runtime.elf import load_elf
from lamella.runtime.launch import Jump, Launch, Plan, SlotValue
from lamella.runtime.opaque import OpaqueCall, Watch
from lamella.runtime.report import Progress, report

__all__ = ["Executable", "kernel_addresses", "target"]

_addresses: Final[dict[tuple[str, str], int]] = {}
_lock: Final = threading.RLock()
_WORD: Final = 2**64 - 1


@cache
def _known(name: str) -> Target:
    """The target of a name; this machine's (no name) is remembered on disk, because asking for it
    loads LLVM.
    """
    if name:
        return named(name)
    data = disk.get("host")
    if data is not None:
        return Target(**json.loads(data))
    found = host()
    disk.put("host", json.dumps(asdict(found)).encode())
    return found


def target() -> Target:
    """The machine that programs are compiled for."""
    return _known(config.target)


def kernel_addresses(kernels: Sequence[Source]) -> list[int]:
    """Machine code of ``kernels``: from memory, from disk, else compiled now."""
    where = target()
    with _lock:
        missing = [k for k in kernels if (where.key, k.name) not in _addresses]
        to_compile = [k for k in missing if not _from_disk(k, where)]
        if to_compile:
            _compile(to_compile, where)
        return [_addresses[where.key, k.name] for k in kernels]


def _from_disk(kernel: Source, where: Target) -> bool:
    data = disk.get(f"{where.key}/{kernel.name}")
    if data is None:
        return False
    _load(data, kernel, where)
    return True


def _load(data: bytes, kernel: Source, where: Target) -> None:
    """Machine code into memory: by the small loader for this platform's objects, else by LLVM."""
    found = load_elf(data.partition(b"\n\n")[2])
    if found is None or kernel.name not in found:
        from lamella.compiler.codegen import load_object

        found = load_object(data)
    _addresses[where.key, kernel.name] = found[kernel.name]


def _compile(kernels: Sequence[Source], where: Target) -> None:
    from lamella.compiler.codegen import compile_objects

    progress = Progress("compiling kernels", len(kernels))
    for number, kernel in enumerate(kernels):
        progress.show(number)
        started = time.perf_counter()
        data = compile_objects([kernel.kernel()], where)
        _load(data, kernel, where)
        disk.put(f"{where.key}/{kernel.name}", data)
        milliseconds = 1e3 * (time.perf_counter() - started)
        report(2, f"kernel {kernel.name[:9]}: compiled in {milliseconds:.1f} ms")
    progress.end()


@dataclass(frozen=True, slots=True)
class Binding:
    """A program with its sizes known: extents, output bytes, where temporaries lie."""

    symbols: tuple[int, ...]
    extents: tuple[int, ...]  # values of the extra slots
    registers: list[int]  # the words of registers and numbers
    shapes: tuple[tuple[int, ...], ...]
    nbytes: tuple[int, ...]
    offsets: tuple[int, ...]
    arena: int


@dataclass(slots=True)
class Frame:
    """The slots of a run that may be used again: small temporaries keep their place."""

    words: list[int]
    kept: tuple[memory.Buffer | None, ...]  # what the words point to
    owner: object = None  # whose inputs and scalars the words hold


_SMALL: Final = 1 << 16  # bytes of temporaries that may stay allocated between runs


class Executable:
    """A compiled program. Reentrant: every run has its own slots and arena."""

    def __init__(self, blueprint: Blueprint) -> None:
        self.blueprint: Final = blueprint
        kernels = [source for source in blueprint.sources if source.call is None]
        calls = [(i, s.call) for i, s in enumerate(blueprint.sources) if s.call is not None]
        jumps = any(isinstance(step, Control) for step in blueprint.steps)
        self._opaque = {
            i: OpaqueCall(call, blueprint.symbols, None if jumps else number)
            for number, (i, call) in enumerate(calls)
        }
        self._calls = None if jumps else len(calls)
        self.may_fail: Final = bool(calls or blueprint.faults)
        compiled = iter(kernel_addresses(kernels))
        addresses = [
            self._opaque[i].address if i in self._opaque else next(compiled)
            for i in range(len(blueprint.sources))
        ]
        self._extras: list[Dim] = []
        self._extra_slot = blueprint.slots
        scratch = [source.scratch for source in blueprint.sources]
        copies = threads.num_threads()
        # launches follow one another, so they share it
        self._scratch = copies * max(scratch, default=0)
        if self._scratch:
            self._extra_slot += 1
        launches: list[Launch | Jump] = []
        for step in blueprint.steps:
            if isinstance(step, Control):
                launches.append(Jump(step.op, step.slots, step.target))
                continue
            extent = step.extent if isinstance(step.extent, int) else self._extra(step.extent)
            name = blueprint.sources[step.kernel].name
            own = scratch[step.kernel]
            slots = (*step.slots, self._extra_slot - 1) if own else step.slots
            launches.append(
                Launch(addresses[step.kernel], extent, slots, step.grain, name, own, copies)
            )
        self._plan = Plan(launches, self._extra_slot + len(self._extras))
        self._bindings: dict[tuple[int, ...], Binding] = {}
        self.fixed: Final = None if blueprint.symbols else self.bind(())

        known = self.fixed
        self.has_frames: Final = (
            known is not None and not self.may_fail and not jumps
            and known.arena + self._scratch <= _SMALL
        )  # fmt: skip

    def frame(self) -> Frame:
        """Slots for runs one after the other, with places for temporaries; the caller writes the
        addresses of inputs and outputs, and the words of scalars. Only where ``has_frames``.
        """
        at = self.bind(())
        b = self.blueprint
        arena = self._arena(at) if at.arena else None
        scratch = memory.empty(self._scratch) if self._scratch else None
        words = [0] * (b.inputs + len(b.outputs) + b.scalars)
        words += [arena.ptr + offset for offset in at.offsets] if arena is not None else []
        words += at.registers
        words += [scratch.ptr] if scratch is not None else []
        words += at.extents
        return Frame(words, (arena, scratch))

    def run_frame(self, frame: Frame) -> None:
        """Run on the slots of a frame."""
        self._plan.run(frame.words)

    def _extra(self, extent: Dim) -> SlotValue:
        if extent not in self._extras:
            self._extras.append(extent)
        return SlotValue(self._extra_slot + self._extras.index(extent))

    def bind(self, values: tuple[int, ...]) -> Binding:
        """The program with ``values`` for its size symbols, in order."""
        found = self._bindings.get(values)
        if found is None:
            if len(self._bindings) > 256:
                self._bindings.clear()
            found = self._bindings[values] = self._bind(values)
        return found

    def _bind(self, values: tuple[int, ...]) -> Binding:
        b = self.blueprint
        known = dict(zip(b.symbols, values, strict=True))
        shapes = tuple(tuple(bind(size, known) for size in shape) for shape, _ in b.outputs)
        nbytes = []
        for shape, (_, dtype) in zip(shapes, b.outputs, strict=True):
            count = dtype.itemsize
            for size in shape:
                count *= size
            nbytes.append(count)
        sizes = [bind(t.nbytes, known) for t in b.temporaries]
        offsets, arena = assign(b.temporaries, sizes)
        extents = tuple(bind(extent, known) for extent in self._extras)
        registers = [0] * b.registers + [bind(n, known) & _WORD for n in b.numbers]
        return Binding(values, extents, registers, shapes, tuple(nbytes), tuple(offsets), arena)

    def run(
        self, inputs: list[int], scalars: list[int], outputs: list[int], at: Binding,
        begun: list[bool] | None = None,
    ) -> None:  # fmt: skip
        """Run on the given addresses and scalar words; ``outputs`` are addresses of ``at.nbytes``
        bytes each. ``begun`` is that of :meth:`Plan.run`.

        Raises:
            OutOfMemoryError: before anything runs, if the temporaries do not fit.
            LamellaIndexError: if a kernel met an index outside its axis, naming the line that
            recorded it.
            Whatever an opaque call raised.
        """
        words = [*inputs, *outputs, *scalars, *at.symbols]
        arena = None
        if at.arena:
            arena = self._arena(at)
            base = arena.ptr
            words += [base + offset for offset in at.offsets]
        faults: Sequence[int] = ()
        if self.blueprint.faults:
            faults = (ctypes.c_int64 * len(self.blueprint.faults))()
            first = ctypes.addressof(faults)  # type: ignore[arg-type]
            words += [first + 8 * i for i in range(len(faults))]
        words += at.registers
        scratch = memory.empty(self._scratch) if self._scratch else None
        if scratch is not None:
            words.append(scratch.ptr)
        words += at.extents
        if self._opaque:
            with Watch(self._calls):
                self._launch(words, at, begun)
        else:
            self._launch(words, at, begun)
        if faults and any(faults):
            self._fault(faults)

    def _launch(self, words: list[int], at: Binding, begun: list[bool] | None) -> None:
        if profiling.active is None:
            self._plan.run(words, begun)
        else:
            profiling.active.run(self._plan, self.blueprint, words, at.symbols, begun)

    def _arena(self, at: Binding) -> memory.Buffer:
        try:
            return memory.empty(at.arena)
        except MemoryError as error:
            known = dict(zip(self.blueprint.symbols, at.symbols, strict=True))
            sizes = sorted(
                (bind(t.nbytes, known) for t in self.blueprint.temporaries), reverse=True
            )
            largest = ", ".join(f"{size / 2**20:,.1f} MiB" for size in sizes[:3])
            raise OutOfMemoryError(
                f"[program] intermediate results need {at.arena / 2**20:,.1f} MiB at once (the "
                "largest tensors: "
                f"{largest}), more than there is; use smaller batches or sizes ({error})"
            ) from None

    def _fault(self, seen: Sequence[int]) -> None:
        for (_, sites), value in zip(self.blueprint.faults, seen, strict=True):
            if value:
                lines = ", ".join(dict.fromkeys(site for site in sites if site))
                where = f" (recorded at {lines})" if lines else ""
                raise LamellaIndexError(
                    f"[gather] an index is out of range for the axis it selects from{where}; "
                    "indices run from -size to size - 1: check the values, for example with lm.clip"
                )
