"""Running a compiled program: its launches as packed tables, gone through by one native call.

Input: :class:`Launch` records (function address, iterations, which slots are its arguments) and, at
each run, the slots: 64-bit words that are addresses, scalars' bits or sizes. Output: whatever the
kernels write. A kernel is ``void kernel(ptr args, i64 begin, i64 end)`` with one 8-byte word per
argument. A plan is reentrant: it is read-only while it runs, and every run brings its own slots.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from lamella.dtypes import DType, float32
from lamella.errors import CompilerError
from lamella.runtime import os_host, threads
from lamella.runtime.native import native
from lamella.runtime.native_program import CONTROLS, PLAN_WORDS

__all__ = ["Jump", "Launch", "Plan", "SlotValue", "pack_scalar", "pack_scalars", "run"]


@dataclass(frozen=True, slots=True)
class SlotValue:
    """A number read from a slot at run time, for extents that a symbolic size decides."""

    slot: int


@dataclass(frozen=True, slots=True)
class Launch:
    """One kernel call over ``extent`` grid iterations.

    ``args`` are slot numbers, in the kernel's order. ``grain`` is the fewest iterations worth a
    task of their own; tasks are multiples of it, at most 32 a thread. With ``extent <= grain``,
    or a grain of 0, the launch runs in the calling thread.

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


class Plan:
    """Launches as native tables, ready to run any number of times, from any thread.

    Raises:
        CompilerError: if a launch names a slot outside ``range(slots)`` or has no function.
    """

    __slots__ = (
        "_address",
        "_changes",
        "_index",
        "_plan",
        "_run",
        "_table",
        "_times",
        "launches",
        "pack",
        "slots",
    )

    def __init__(self, launches: Sequence[Launch | Jump], slots: int) -> None:
        for launch in launches:
            if isinstance(launch, Jump):
                _check_jump(launch, slots, len(launches))
            else:
                _check(launch, slots)
        self.launches: Final = tuple(launches)
        self.slots: Final = slots
        self.pack: Final[Callable[..., bytes]] = struct.Struct(f"={slots}Q").pack
        index: list[int] = []
        rows: list[int] = []
        for launch in launches:
            row = _jump_row if isinstance(launch, Jump) else _row
            rows += row(launch, len(index))  # type: ignore[operator]
            index += launch.args
        self._changes = any(isinstance(launch, Jump) for launch in launches)  # its slots
        self._index = (ctypes.c_int64 * max(len(index), 1))(*index)
        self._table = (ctypes.c_int64 * max(len(rows), 1))(*rows)
        self._times: ctypes.Array[ctypes.c_int64] | None = None
        most = max((len(launch.args) for launch in launches), default=0)
        self._plan = (ctypes.c_int64 * PLAN_WORDS)(
            len(launches), ctypes.addressof(self._table), ctypes.addressof(self._index), 0,
            threads.POOL, max(most, 1),
        )  # fmt: skip
        self._address = ctypes.addressof(self._plan)
        self._run = native().run_program

    def run(self, words: Sequence[int], begun: list[bool] | None = None) -> None:
        """Run every launch, in order; ``words`` are the slots, unsigned 64-bit each.

        ``begun[0]`` becomes True right before native code starts. Python calls signal handlers
        only after that code has returned, so whoever catches a KeyboardInterrupt then knows that
        all of it has run.

        Raises:
            struct.error: if there are more or fewer words than slots.
        """
        if not threads.pool.ready:
            threads.start_pool()
        packed: Any = self.pack(*words)
        if self._changes:
            packed = ctypes.create_string_buffer(packed, len(packed))
        if begun is not None:
            begun[0] = True
        self._run(self._address, packed)

    def run_packed(self, words: bytes) -> None:
        """As ``run``, with the slots already packed by ``pack``."""
        if not threads.pool.ready:
            threads.start_pool()
        if len(words) != 8 * self.slots:
            raise CompilerError(f"[plan] {len(words)} bytes of slots, not {8 * self.slots}")
        own: Any = ctypes.create_string_buffer(words, len(words)) if self._changes else words
        self._run(self._address, own)

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


def pack_scalars(values: Sequence[bool | int | float], dtypes: list[DType]) -> list[int]:
    """The slot words of scalars, each as :func:`pack_scalar` gives it.

    >>> from lamella.dtypes import float32, int8
    >>> pack_scalars([1.0, -1], [float32, int8])
    [1065353216, 255]
    """
    count = len(dtypes)
    if count and dtypes.count(float32) == count:
        try:
            return list(struct.unpack(f"={count}I", struct.pack(f"={count}f", *values)))
        except OverflowError:  # a number that rounds to infinity
            pass
    return [pack_scalar(value, dtype) for value, dtype in zip(values, dtypes, strict=True)]


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
