"""Executable programs: a blueprint whose kernels are machine code, ready to run on buffers.

Input: a :class:`~lamella.compiler.blueprint.Blueprint`. Output: :class:`Executable`, called with
the addresses of its inputs, the words of its scalars and the values of its size symbols; it fills
the output buffers. Kernels are looked up in memory, then on disk, else compiled; one kernel serves
every program that contains it. A program's memory need is known, and checked, before it starts.
"""

from __future__ import annotations

import ctypes
import json
import struct
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from typing import Any, Final

from lamella.compiler.blueprint import Blueprint, Control, Source, grain_of
from lamella.compiler.emit.target import Target, host, named
from lamella.compiler.memory import assign
from lamella.config import config
from lamella.dtypes import DType
from lamella.errors import LamellaIndexError, LinAlgError, OptionError, OutOfMemoryError
from lamella.forks import new_lock
from lamella.ir.dim import Dim, bind
from lamella.runtime import buffer as memory
from lamella.runtime import disk, profiling, threads
from lamella.runtime.elf import load_elf
from lamella.runtime.launch import Jump, Launch, Passage, Plan, SlotValue, scalar_packer
from lamella.runtime.opaque import OpaqueCall, Watch
from lamella.runtime.report import Progress, report

__all__ = ["Executable", "kernel_addresses", "target"]

_addresses: Final[dict[tuple[str, str], int]] = {}
_lock: Final = new_lock()
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


@cache
def _refusal(name: str) -> str:
    """Why this machine does not run code for the target of a name, or nothing."""
    why = named(name).lacks(_known("")) if name else ""
    return why and (
        f"[target] this machine does not run code for {name!r}, because {why}; choose another "
        "target, or none for this machine's"
    )


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


@dataclass(slots=True)
class Frame:
    """The slots of a run that may be used again: small temporaries keep their place."""

    words: Any  # an array
    address: int  # of the words
    kept: tuple[memory.Buffer | None, ...]  # what the words point to
    faults: Any  # an array
    owner: object = None  # whose inputs and scalars the words hold
    base: int = 0  # of the temporaries that the words point to
    cells: Any = None  # an array: memory for 0-d inputs that are numbers of a call
    cell: int = 0  # its address


@dataclass(slots=True)
class Binding:
    """A program with its sizes known: extents, output bytes, where temporaries lie. All but
    ``uses`` stays as it is.
    """

    symbols: tuple[int, ...]
    extents: tuple[int, ...]  # values of the extra slots: extents and grains
    registers: list[int]  # the words of registers and numbers
    shapes: tuple[tuple[int, ...], ...]
    nbytes: tuple[int, ...]
    offsets: tuple[int, ...]
    arena: int
    frames: list[Frame] = field(default_factory=list)  # of runs that have ended
    uses: int = 0  # evaluations since a function was written for it (see ``repeated``)


_SMALL: Final = 1 << 16  # bytes of temporaries that may stay allocated between runs


class Executable:
    """A compiled program. Reentrant: every run has its own slots and arena.

    ``pack_scalars`` makes the words of its scalars, whose types are ``scalars``.
    """

    def __init__(self, blueprint: Blueprint, scalars: Sequence[DType] = ()) -> None:
        self.blueprint: Final = blueprint
        self.pack_scalars: Final = scalar_packer(scalars)
        kernels = [source for source in blueprint.sources if source.call is None]
        calls = [(i, s.call) for i, s in enumerate(blueprint.sources) if s.call is not None]
        jumps = any(isinstance(step, Control) for step in blueprint.steps)
        self._opaque = {
            i: OpaqueCall(call, blueprint.symbols, None if jumps else number)
            for number, (i, call) in enumerate(calls)
        }
        self._calls = None if jumps else len(calls)
        self.may_fail: Final = blueprint.may_fail
        compiled = iter(kernel_addresses(kernels))
        addresses = [
            self._opaque[i].address if i in self._opaque else next(compiled)
            for i in range(len(blueprint.sources))
        ]
        self._extras: list[tuple[Dim, bool]] = []  # an extent, or the work that gives a grain
        self._extra_slot = blueprint.slots
        scratch = [source.scratch for source in blueprint.sources]
        copies = max(threads.num_threads(), threads.usable_cpus())  # threads may become more
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
            grain = step.grain if isinstance(step.work, int) else self._extra(step.work, True)
            name = blueprint.sources[step.kernel].name
            own = scratch[step.kernel]
            slots = (*step.slots, self._extra_slot - 1) if own else step.slots
            launches.append(
                Launch(addresses[step.kernel], extent, slots, grain, name, own, copies)
            )
        self.plan: Final = Plan(launches, self._extra_slot + len(self._extras))
        self._bindings: dict[tuple[int, ...], Binding] = {}
        self.fixed: Final = None if blueprint.symbols else self.bind(())
        self.same: Final = tuple(blueprint.same.items())
        known = self.fixed
        self._refusal: Final = _refusal(config.target)
        self.has_frames: Final = not (jumps or self._opaque or self._refusal)
        small = known is not None and known.arena + self._scratch <= _SMALL
        self.is_large: Final = not small  # a run borrows the memory of its temporaries
        self.is_light: Final = self.has_frames and not self.may_fail
        changing = blueprint.inputs + len(blueprint.outputs) + blueprint.scalars
        self._pack_into = struct.Struct(f"={changing}Q").pack_into
        self._temporaries = changing + len(blueprint.symbols)  # the first of their slots

    def frame(self, at: Binding) -> Frame:
        """Slots for runs one after the other; the caller writes the addresses of inputs and
        outputs, and the words of scalars. Only where ``has_frames``. Unless the program
        ``is_large``, temporaries have their places in it. If it ``is_light``, ``run_frame`` is all
        that a run takes.
        """
        b = self.blueprint
        faults = (ctypes.c_int64 * len(b.faults))()
        first = ctypes.addressof(faults)
        words = [0] * (self._temporaries - len(at.symbols))
        words += at.symbols
        words += [0] * len(at.offsets)
        words += [first + 8 * i for i in range(len(faults))]
        words += at.registers
        words += [0] if self._scratch else []
        words += at.extents
        slots = self.plan.new_slots(words)
        frame = Frame(slots, ctypes.addressof(slots), (None, None), faults)
        if not self.is_large:
            frame.kept = self.furnish(frame, at)
        return frame

    def furnish(self, frame: Frame, at: Binding) -> tuple[memory.Buffer | None, ...]:
        """Memory for temporaries and scratch, its addresses written into the slots of a run.

        Raises:
            OutOfMemoryError: if there is no room for them.
        """
        words = frame.words
        arena = self._arena(at) if at.arena else None
        if arena is not None and arena.ptr != frame.base:
            base = frame.base = arena.ptr
            for slot, offset in enumerate(at.offsets, self._temporaries):
                words[slot] = base + offset
        scratch = memory.empty(self._scratch) if self._scratch else None
        if scratch is not None:
            words[self._extra_slot - 1] = scratch.ptr
        return arena, scratch

    def run_frame(self, frame: Frame, at: Binding) -> None:
        """Run on the slots of a frame."""
        borrowed = self.furnish(frame, at) if self.is_large else None
        if not threads.pool.ready:
            threads.start_pool()
        self.plan.start(self.plan.address, frame.address)
        del borrowed

    def run_on_frame(self, words: Sequence[int], at: Binding) -> None:
        """As ``run``, with the slots of an earlier run; ``words`` are the addresses of inputs and
        of outputs, then the words of scalars. Only where ``has_frames``.
        """
        try:
            frame = at.frames.pop()
        except IndexError:
            frame = self.frame(at)
        self._pack_into(frame.words, 0, *words)
        borrowed = self.furnish(frame, at) if self.is_large else None
        if not threads.pool.ready:
            threads.start_pool()
        self.plan.start(self.plan.address, frame.address)
        del borrowed
        at.frames.append(frame)
        if self.may_fail and any(frame.faults):
            self.fail(frame)

    def fail(self, frame: Frame) -> None:
        """Raise what the faults of a run on a frame say, which is then as new."""
        seen = list(frame.faults)
        ctypes.memset(frame.faults, 0, ctypes.sizeof(frame.faults))
        self._fault(seen)

    def _extra(self, size: Dim, is_work: bool = False) -> SlotValue:
        extra = size, is_work
        if extra not in self._extras:
            self._extras.append(extra)
        return SlotValue(self._extra_slot + self._extras.index(extra))

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
        extras = [(bind(size, known), is_work) for size, is_work in self._extras]
        extents = tuple([grain_of(value) if is_work else value for value, is_work in extras])
        registers = [0] * b.registers + [bind(n, known) & _WORD for n in b.numbers]
        return Binding(values, extents, registers, shapes, tuple(nbytes), tuple(offsets), arena)

    def run(
        self, inputs: Sequence[int], scalars: Sequence[int], outputs: Sequence[int], at: Binding,
        passage: Passage | None = None,
    ) -> None:  # fmt: skip
        """Run on the given addresses and scalar words; ``outputs`` are addresses of ``at.nbytes``
        bytes each. ``passage`` is that of :meth:`Plan.run`.

        Raises:
            OutOfMemoryError: before anything runs, if the temporaries do not fit.
            LamellaIndexError: if a kernel met an index outside its axis, naming the line that
            recorded it.
            LinAlgError: if a matrix has no such result.
            OptionError: if the code is not for this machine.
            Whatever an opaque call raised.
        """
        if self._refusal:
            raise OptionError(self._refusal)
        words = [*inputs, *outputs, *scalars, *at.symbols]
        arena = None
        if at.arena:
            arena = self._arena(at)
            base = arena.ptr
            words += [base + offset for offset in at.offsets]
        faults: ctypes.Array[ctypes.c_int64] | None = None
        if self.blueprint.faults:
            faults = (ctypes.c_int64 * len(self.blueprint.faults))()
            first = ctypes.addressof(faults)
            words += [first + 8 * i for i in range(len(faults))]
            if passage is not None:
                passage.faults = faults
        words += at.registers
        scratch = memory.empty(self._scratch) if self._scratch else None
        if scratch is not None:
            words.append(scratch.ptr)
        words += at.extents
        if self._opaque:
            passage = passage or Passage()
            with Watch(self._calls, passage):
                self._launch(words, at, passage)
        else:
            self._launch(words, at, passage)
        if faults is not None and any(faults):
            self._fault(faults)

    def _launch(self, words: list[int], at: Binding, passage: Passage | None) -> None:
        if profiling.active is None:
            self.plan.run(words, passage)
        else:
            profiling.active.run(self.plan, self.blueprint, words, at.symbols, passage)

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

    def _fault(self, seen: Iterable[int]) -> None:
        for fault, value in zip(self.blueprint.faults, seen, strict=True):
            if value and fault.failure:
                raise LinAlgError(fault.failure)
            if value:
                lines = ", ".join(dict.fromkeys(site for site in fault.sites if site))
                where = f" (recorded at {lines})" if lines else ""
                raise LamellaIndexError(
                    f"[gather] an index is out of range for the axis it selects from{where}; "
                    "indices run from -size to size - 1: check the values, for example with lm.clip"
                )
