"""Running a compiled program: its launches as packed tables, gone through by one native call.

Input: :class:`Launch` records (function address, iterations, which slots are its arguments) and, at
each run, the slots: 64-bit words that are addresses, scalars' bits or sizes. Output: whatever the
kernels write. A kernel is ``void kernel(ptr args, i64 begin, i64 end)`` with one 8-byte word per
argument. A plan is reentrant: it is read-only while it runs, and every run brings its own slots.
"""

from __future__ import annotations

import ctypes
import struct
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from lamella.dtypes import DType
from lamella.errors import CompilerError
from lamella.runtime import os_host, threads
from lamella.runtime.native import native
from lamella.runtime.native_program import CONTROLS, PLAN_WORDS, RUN_WORDS

__all__ = [
    "FORMATS", "UNFIT", "Jump", "Launch", "Passage", "Plan", "SlotValue", "pack_scalar", "run",
    "scalar_packer",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class SlotValue:
    """A number read from a slot at run time, for extents that a symbolic size decides."""

    slot: int


@dataclass(frozen=True, slots=True)
class Launch:
    """One kernel call over ``extent`` grid iterations.

    ``args`` are slot numbers, in the kernel's order. ``grain`` is the fewest iterations worth a
    task of their own; there are at most 32 tasks a thread, as equal as can be. With
    ``extent <= grain``, or a grain of 0, the launch runs in the calling thread.

    A kernel with ``scratch`` bytes of memory private to a thread takes its address as the last
    argument; there the program passes ``copies`` areas of ``scratch`` bytes (a multiple of 64),
    one after the other. Only that many threads take part, each with an area of its own; a launch
    that runs alone uses the first.
    """

    function: int
    extent: int | SlotValue
    args: tuple[int, ...]
    grain: int | SlotValue = 0
    name: str = ""
    scratch: int = 0
    copies: int | SlotValue = 1


@dataclass(frozen=True, slots=True)
class Jump:
    """A control row: what ``control`` does to the slots ``args``, and the launch it may jump to.

    ``lamella.runtime.native_program`` says what each of its ``CONTROLS`` means.
    """

    control: str
    args: tuple[int, ...]
    target: int = 0


_ALL: Final = 2**62


class Passage:
    """One run of a plan: how far it came, and a way to end it early.

    ``begun`` becomes True right before native code starts, ``partial`` if it ended early;
    ``faults`` are its fault words, of which one that is not 0 says that it failed. A run that a
    signal handler interrupts by raising, as Ctrl-C does, first goes on for ``patience``
    seconds at most, or until a handler raises again.
    """

    __slots__ = ("begun", "faults", "partial", "patience", "slots")

    def __init__(self, patience: float = 0.0) -> None:
        self.begun = False
        self.faults: Iterable[int] = ()
        self.partial = False
        self.patience = patience
        self.slots: Any = None

    def stop(self) -> None:
        """End the run before its next launch."""
        self.slots[-2] = 1


class Plan:
    """Launches as native tables, ready to run any number of times, from any thread.

    Raises:
        CompilerError: if a launch names a slot outside ``range(slots)`` or has no function.
    """

    __slots__ = (
        "_index", "_new_slots", "_pack_into", "_plan", "_table", "_times", "address", "launches",
        "slots", "start",
    )  # fmt: skip

    def __init__(self, launches: Sequence[Launch | Jump], slots: int) -> None:
        for launch in launches:
            if isinstance(launch, Jump):
                _check_jump(launch, slots, len(launches))
            else:
                _check(launch, slots)
        self.launches: Final = tuple(launches)
        self.slots: Final = slots
        self._new_slots = ctypes.c_uint64 * (slots + RUN_WORDS)
        self._pack_into = struct.Struct(f"={slots}Q").pack_into
        index: list[int] = []
        rows: list[int] = []
        for launch in launches:
            at = len(index)
            rows += _jump_row(launch, at) if isinstance(launch, Jump) else _row(launch, at)
            index += launch.args
        self._index = (ctypes.c_int64 * max(len(index), 1))(*index)
        self._table = (ctypes.c_int64 * max(len(rows), 1))(*rows)
        self._times: ctypes.Array[ctypes.c_int64] | None = None
        most = max((len(launch.args) for launch in launches), default=0)
        self._plan = (ctypes.c_int64 * PLAN_WORDS)(
            len(launches), ctypes.addressof(self._table), ctypes.addressof(self._index), 0,
            threads.POOL, max(most, 1), slots,
        )  # fmt: skip
        self.address: Final = ctypes.addressof(self._plan)
        self.start: Final = native().run_program

    def new_slots(self, words: Sequence[int]) -> Any:
        """The slots of a run as an array, which ``start(plan.address, its address)`` runs on.

        Raises:
            struct.error: if there are more or fewer words than slots.
        """
        slots = self._new_slots()
        self._pack_into(slots, 0, *words)
        return slots

    def run(self, words: Sequence[int], passage: Passage | None = None) -> None:
        """Run every launch, in order; ``words`` are the slots, unsigned 64-bit each.

        Raises:
            struct.error: if there are more or fewer words than slots.
            Whatever a signal handler raised, as KeyboardInterrupt: ``passage`` then says how far
            the run came.
        """
        if not threads.pool.ready:
            threads.start_pool()
        slots = self.new_slots(words)
        if passage is None:
            self.start(self.address, slots)
            return
        passage.slots = slots
        passage.begun = True
        try:
            self.start(self.address, slots)
        except BaseException:
            if slots[-1]:
                self._go_on(passage)
            raise

    def _go_on(self, passage: Passage) -> None:
        """Bring an interrupted run to its end, as far as there is patience for it."""
        passage.partial = True
        if not passage.patience or passage.slots[-2]:
            return
        alarm = threading.Timer(passage.patience, passage.stop)
        alarm.start()
        try:
            self.start(self.address, passage.slots)
        finally:
            alarm.cancel()
            passage.partial = bool(passage.slots[-1])

    def record_times(self, on: bool = True) -> None:
        """Start (or stop) adding up the time of each launch, from zero, while no run goes on."""
        self._plan[3] = 0
        self._times = None
        if on and self.launches:
            self._times = (ctypes.c_int64 * (2 * len(self.launches)))()
            self._plan[3] = ctypes.addressof(self._times)

    def times(self) -> tuple[float, ...]:
        """Nanoseconds spent in each launch since ``record_times()``; empty without it."""
        if self._times is None:
            return ()
        spent = self._times[: len(self.launches)]
        return tuple(value * os_host.CLOCK_NANOSECONDS for value in spent)

    def counts(self) -> tuple[int, ...]:
        """How often each launch has run since ``record_times()``; empty without it."""
        return () if self._times is None else tuple(self._times[len(self.launches) :])


def _check(launch: Launch, slots: int) -> None:
    numbers = [*launch.args]
    numbers += [n.slot for n in _sizes(launch) if isinstance(n, SlotValue)]
    outside = [n for n in numbers if not 0 <= n < slots]
    if outside:
        raise CompilerError(
            f"[plan] launch {launch.name or hex(launch.function)} names the slots {outside}, "
            f"but the program has {slots}"
        )
    if launch.scratch % 64 or (launch.scratch and not launch.args):
        raise CompilerError(
            f"[plan] launch {launch.name!r} has {launch.scratch} bytes of scratch memory, not a "
            "multiple of 64 at its last argument"
        )
    if not launch.function:
        raise CompilerError(f"[plan] launch {launch.name!r} has no function")


def _check_jump(jump: Jump, slots: int, launches: int) -> None:
    outside = [n for n in jump.args if not 0 <= n < slots]
    if jump.control not in CONTROLS or outside or not 0 <= jump.target <= launches:
        raise CompilerError(
            f"[plan] the control row {jump} does not fit {slots} slots and {launches} launches"
        )


def _jump_row(jump: Jump, first: int) -> tuple[int, ...]:
    return 0, CONTROLS.index(jump.control), jump.target, len(jump.args), first, 0, 0, 0


def _sizes(launch: Launch) -> tuple[int | SlotValue, int | SlotValue, int | SlotValue]:
    """Extent, grain, and how many threads may take part."""
    return launch.extent, launch.grain, launch.copies if launch.scratch else _ALL


def _row(launch: Launch, first: int) -> tuple[int, ...]:
    words, flags = [], 0
    for i, size in enumerate(_sizes(launch)):
        words.append(size.slot if isinstance(size, SlotValue) else size)
        flags |= isinstance(size, SlotValue) << i
    extent, grain, copies = words
    count = len(launch.args)
    return launch.function, extent, grain, count, first, flags, launch.scratch, copies


def run(plan: Plan, words: Sequence[int]) -> None:
    """Run ``plan`` with these slots; see :meth:`Plan.run`."""
    plan.run(words)


_WORD: Final = struct.Struct("<Q")
_HALF: Final = struct.Struct("<I")
_FLOAT32: Final = struct.Struct("<f")
_FLOAT64: Final = struct.Struct("<d")


def _pack_float32(value: bool | int | float) -> int:
    try:
        return int(_HALF.unpack(_FLOAT32.pack(value))[0])
    except OverflowError:  # struct refuses what rounds to infinity
        return 0x7F800000 if value > 0 else 0xFF800000


def _pack_float64(value: bool | int | float) -> int:
    return int(_WORD.unpack(_FLOAT64.pack(value))[0])


def _packer(dtype: DType) -> Callable[[bool | int | float], int]:
    """The function that turns a Python number into the slot word of ``dtype``."""
    if dtype.name == "float32":
        return _pack_float32
    if dtype.name == "float64":
        return _pack_float64
    if dtype.kind == "b":
        return lambda value: int(value != 0)
    if dtype.kind in "iu":
        mask = (1 << dtype.bits) - 1
        return lambda value: int(value) & mask
    return lambda value: _narrow(value, dtype)


def _narrow(value: bool | int | float, dtype: DType) -> int:
    """float16 and bfloat16; what is too large becomes infinity."""
    with np.errstate(over="ignore"):
        return int.from_bytes(dtype.numpy.type(value).tobytes(), "little")


def scalar_packer(dtypes: Sequence[DType]) -> Callable[[Sequence[Any]], Sequence[int]]:
    """The function that turns Python numbers into the slot words of scalars of these types.

    >>> from lamella.dtypes import float32, int8
    >>> scalar_packer([float32, int8])([1.0, -1])
    [1065353216, 255]
    """

    def pack_each(values: Sequence[Any]) -> Sequence[int]:
        return [pack(value) for value, pack in zip(values, packers, strict=True)]

    packers = [_packer(dtype) for dtype in dtypes]
    alike = {dtype.name for dtype in dtypes}
    codes = {"float32": "fI", "int64": "qQ"}.get(alike.pop()) if len(alike) == 1 else None
    if codes is None:
        return pack_each
    pack = struct.Struct(f"={len(dtypes)}{codes[0]}").pack
    unpack = struct.Struct(f"={len(dtypes)}{codes[1]}").unpack

    def pack_together(values: Sequence[Any]) -> Sequence[int]:
        try:
            return unpack(pack(*values))
        except (OverflowError, struct.error):  # a number that rounds to infinity, or that wraps
            return pack_each(values)

    return pack_together


# How ``struct`` packs a number into 8 bytes that begin with its bits in a type; it refuses a number
# that does not fit. Types that it does not know have no entry.
FORMATS: Final = {
    "float32": "f4x", "float64": "d", "int64": "q", "uint64": "Q", "int32": "i4x", "uint32": "I4x",
    "int16": "h6x", "uint16": "H6x", "int8": "b7x", "uint8": "B7x",
}  # fmt: skip
UNFIT: Final = (OverflowError, struct.error)  # it raises
_PACKERS: Final[dict[DType, Callable[[bool | int | float], int]]] = {}


def pack_scalar(value: bool | int | float, dtype: DType) -> int:
    """The slot word of a scalar argument: its bits in ``dtype``, in the low bytes. Integers wrap.

    >>> from lamella.dtypes import float32, int8
    >>> hex(pack_scalar(1.0, float32)), pack_scalar(-1, int8)
    ('0x3f800000', 255)
    """
    packer = _PACKERS.get(dtype)
    if packer is None:
        packer = _PACKERS[dtype] = _packer(dtype)
    return packer(value)
