"""Loads and stores as LLVM text: addresses in steps by loop level, vector accesses, masks, and what
may overlap.

Input: a buffer's name and an index in affine form. Output: values, or effects in the innermost
scope. The affine parts of an address are added from the outermost loop inwards, so that an inner
loop keeps one pointer and one offset. A scalar access under a mask reads or writes a spare location
where the mask is false: no branch is needed in the middle of an expression.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from lamella.compiler.emit.llvm_builder import (
    Builder,
    Ramp,
    Value,
    constant,
    int_constant,
    mangle,
    memory_type,
    vtype,
)  # fmt: skip
from lamella.compiler.emit.llvm_ops import Operations
from lamella.compiler.emit.llvm_weave import woven
from lamella.dtypes import DType, bool_, int32, int64, uint8
from lamella.errors import CompilerError

__all__ = ["Affine", "Buffer", "Memory"]

LINE: Final = 64  # bytes of memory that come together
FEW: Final = 4  # elements of a vector, each in many lanes, that are read one by one


@dataclass(slots=True)
class Affine:
    """``const + sum(parts) + stride * (lane // repeat) + varying``, in elements."""

    const: int = 0
    parts: list[Value] = field(default_factory=list)
    stride: int | Value = 0
    varying: Value | None = None
    repeat: int = 1

    @property
    def step(self) -> int | None:
        """From one lane to the next, where that is the same for all and a number; else None."""
        if self.varying is not None or not isinstance(self.stride, int):
            return None
        return self.stride if self.repeat == 1 or self.stride == 0 else None


@dataclass(slots=True)
class Buffer:
    """Memory a kernel uses: its pointer, the metadata after each access, and the number of writes
    so far.
    """

    pointer: Value
    dtype: DType
    metadata: str = ""
    version: int = 0
    floor: int = (
        0  # loads stay in this scope or further in, because a loop around them writes the buffer
    )
    group: str = ""  # buffers of one group may overlap
    register: bool = False  # every index is a constant: reading is safe under any mask
    streamed: str = ""  # the metadata of vector stores that bypass the caches


class Memory:
    """The buffers of one function and accesses to them."""

    def __init__(self, builder: Builder, operations: Operations) -> None:
        self.b = builder
        self.o = operations
        self.buffers: dict[str, Buffer] = {}
        self.mask: Value | None = None  # which lanes are inside the loop (None: all)
        self.lanes = 0  # of the lanes loop under way (0: none)
        self.multiples: dict[
            str, int
        ] = {}  # scalars known to be multiples of something (starts of lane groups)
        self._spare = False

    # -- addresses ---------------------------------------------------------------------------------
    def address(self, buffer: Buffer, index: Affine, shift: int = 0) -> Value:
        """The pointer to the element at the index's uniform part plus ``shift``."""
        element = memory_type(buffer.dtype)
        pointer = buffer.pointer
        by_place: dict[int, list[Value]] = {}
        for part in index.parts:
            by_place.setdefault(part.place, []).append(part)
        for place in sorted(by_place):
            total = by_place[place][0]
            for part in by_place[place][1:]:
                total = self.o.binary("add", total, part)
            text = f"getelementptr {element}, ptr {pointer.text}, i64 {total.text}"
            pointer = self.b.pure(text, int64, 0, max(place, pointer.place))
        if index.const + shift:
            text = f"getelementptr {element}, ptr {pointer.text}, i64 {index.const + shift}"
            pointer = self.b.pure(text, int64, 0, pointer.place)
        return pointer

    def _pointers(self, buffer: Buffer, index: Affine) -> Value:
        """A vector of pointers, one a lane."""
        base = self.address(buffer, index)
        offsets = index.varying
        if isinstance(index.stride, Value) or index.stride:
            ramp = self.steps(index.stride, index.repeat)
            offsets = ramp if offsets is None else self.o.binary("add", offsets, ramp)
        if offsets is None:
            offsets = self.o.const(0, int64, self.lanes)
        element, t = memory_type(buffer.dtype), vtype("i64", self.lanes)
        text = f"getelementptr {element}, ptr {base.text}, {t} {offsets.text}"
        return self.b.pure(text, int64, self.lanes, max(base.place, offsets.place))

    def steps(self, stride: int | Value, repeat: int) -> Value:
        """``stride * (lane // repeat)`` in all lanes."""
        if isinstance(stride, int):
            return self.b.spread(Ramp(int_constant(0), stride, self.lanes, 1, 0, repeat))
        steps = self.b.spread(Ramp(int_constant(0), 1, self.lanes, 1, 0, repeat))
        return self.o.binary("mul", steps, self.b.splat(stride, self.lanes))

    # -- masks -------------------------------------------------------------------------------------
    def _spare_pointer(self) -> str:
        """A location of one element that nothing else uses."""
        if not self._spare:
            self._spare = True
            self.b.allocas.append("%spare = alloca [8 x i8], align 8")
        return "%spare"

    def _guarded(self, pointer: Value, mask: Value) -> Value:
        text = f"select i1 {mask.text}, ptr {pointer.text}, ptr {self._spare_pointer()}"
        return self.b.pure(text, int64, 0, max(mask.place, pointer.place))

    def _with_lanes(self, mask: Value | None) -> Value | None:
        """A mask of the access and of the lanes inside the loop together."""
        if mask is None:
            return self.mask
        wide = self.b.splat(mask, self.lanes)
        return wide if self.mask is None else self.o.binary("and", wide, self.mask)

    def any_lane(self, mask: Value) -> Value:
        """Whether a mask (scalar or vector) holds anywhere."""
        if not mask.lanes:
            return mask
        t = vtype("i1", mask.lanes)
        text = self.b.call(f"llvm.vector.reduce.or.v{mask.lanes}i1", "i1", (t, mask.text))
        return self.b.pure(text, bool_, 0, mask.place)

    def report(self, bad: Value, code: int) -> None:
        """Store a fault's code where ``bad`` holds, once per scope the check belongs to."""
        if bad.const is not None and not bad.const:
            return
        place = max(bad.place, self.b.top.load_floor)
        scope = self.b.scopes[place]
        key = f"fault {code} {bad.text}"
        if key not in scope.cse:
            scope.cse[key] = bad
            fault = self.buffers["fault"].pointer.text
            text = f"select i1 {bad.text}, ptr {fault}, ptr {self._spare_pointer()}"
            pointer = self.b.pure(text, int64, 0, place)
            scope.lines.append(f"store i64 {code}, ptr {pointer.text}, align 8")

    # -- loads -------------------------------------------------------------------------------------
    def load(self, name: str, index: Affine, mask: Value | None, other: Value) -> Value:
        """``name[index]``, or ``other`` where ``mask`` does not hold."""
        buffer = self.buffers[name]
        uniform = index.step == 0
        if uniform and (mask is None or not mask.lanes):
            return self._load_scalar(buffer, index, mask, other)
        if uniform:
            one = self._load_scalar(buffer, index, self.any_lane(self._checked(mask)), other)
            return self.o.select(
                self._checked(mask), self.b.splat(one, self.lanes), self.b.splat(other, self.lanes)
            )
        wide_other = self.b.splat(other, self.lanes)
        if index.step in (1, -1):
            return self._load_row(buffer, index, self._with_lanes(mask), wide_other)
        repeated = index.repeat > 1 and index.varying is None
        if mask is None and repeated and index.stride == 1:
            return self._load_repeated(buffer, index, other)
        mask = self._with_lanes(mask)
        few = repeated and self.lanes // index.repeat <= FEW
        if mask is None and few and isinstance(index.stride, int):
            return self._load_few(buffer, index, index.stride)
        if mask is None and index.step == 2:
            return self._load_every_second(buffer, index)
        return self._gather(buffer, index, mask, wide_other)

    def load_words(self, name: str, index: Affine) -> Value | None:
        """The int32 at each lane's four bytes, from ``index`` of a buffer of bytes on; None where
        lanes are neither one word nor one after the other.
        """
        buffer = self.buffers[name]
        if index.step not in (0, 4):
            return None
        pointer, lanes = self.address(buffer, index), self.lanes if index.stride else 0
        t, version, place = vtype("i32", lanes), buffer.version, max(pointer.place, buffer.floor)
        text = f"load {t}, ptr {pointer.text}, align 1"
        if lanes and self.mask is not None:
            zero = self.b.splat(constant(0, int32), lanes)
            masked = (vtype("i1", lanes), self.mask.text)
            text = self.b.call(
                f"llvm.masked.load.v{lanes}i32.p0", t, ("ptr", pointer.text), masked, (t, zero.text)
            ).replace("(ptr %", "(ptr align 1 %", 1)
            place = max(place, self.mask.place)
        return self.b.load(text + buffer.metadata, f"{version} {text}", int32, lanes, place)

    def _checked(self, mask: Value | None) -> Value:
        if mask is None:
            raise CompilerError("[llvm] a mask was expected")
        return mask

    def _load(self, buffer: Buffer, text: str, lanes: int, place: int) -> Value:
        """A load of memory type, converted to its value type (bool is a byte in memory)."""
        raw = uint8 if buffer.dtype is bool_ else buffer.dtype
        full = text + buffer.metadata
        value = self.b.load(full, f"{buffer.version} {text}", raw, lanes, max(place, buffer.floor))
        if raw is buffer.dtype:
            return value
        return self.o.compare("icmp ne", value, self.o.const(0, uint8, lanes))

    def _load_scalar(
        self, buffer: Buffer, index: Affine, mask: Value | None, other: Value
    ) -> Value:
        pointer = self.address(buffer, index)
        if mask is not None:
            pointer = self._guarded(pointer, mask)
        text = (
            f"load {memory_type(buffer.dtype)}, ptr {pointer.text}, align {buffer.dtype.itemsize}"
        )
        value = self._load(buffer, text, 0, pointer.place)
        return value if mask is None else self.o.select(mask, value, other)

    def _load_row(self, buffer: Buffer, index: Affine, mask: Value | None, other: Value) -> Value:
        lanes, size = self.lanes, buffer.dtype.itemsize
        backwards = index.stride == -1
        pointer = self.address(buffer, index, 1 - lanes if backwards else 0)
        t = vtype(memory_type(buffer.dtype), lanes)
        if mask is None:
            value = self._load(
                buffer, f"load {t}, ptr {pointer.text}, align {size}", lanes, pointer.place
            )
            return self._reversed(value) if backwards else value
        if mask is not self.mask:  # a vector that is masked off whole may lie outside all memory
            pointer = self._guarded(pointer, self.any_lane(mask))
        mask = self._reversed(mask) if backwards else mask
        fill = self._in_memory(self._reversed(other) if backwards else other)
        name = f"llvm.masked.load.{mangle(memory_type(buffer.dtype), lanes)}.p0"
        text = self.b.call(
            name, t, ("ptr", pointer.text), (vtype("i1", lanes), mask.text), (t, fill.text)
        ).replace("(ptr %", f"(ptr align {size} %", 1)
        value = self._load(buffer, text, lanes, max(pointer.place, mask.place, fill.place))
        return self._reversed(value) if backwards else value

    def _load_every_second(self, buffer: Buffer, index: Affine) -> Value:
        """From two rows that overlap by an element, so that none beyond the last is touched."""
        lanes, size = self.lanes, buffer.dtype.itemsize
        t = vtype(memory_type(buffer.dtype), lanes)
        rows: list[Value] = []
        for offset in (0, lanes - 1):
            pointer = self.address(buffer, index, offset)
            text = f"load {t}, ptr {pointer.text}, align {size}"
            rows.append(self._load(buffer, text, lanes, pointer.place))
        order = [2 * k if 2 * k < lanes else 2 * k + 1 for k in range(lanes)]
        return self.b.shuffle(order, rows[0], rows[1])

    def _load_repeated(self, buffer: Buffer, index: Affine, other: Value) -> Value:
        """Elements that follow each other, each in as many lanes: read once, then moved."""
        lanes, outside, repeat = self.lanes, self.mask, index.repeat
        self.lanes = lanes // repeat
        if outside is not None:  # which lanes are inside: the first ones, and so of each element
            self.mask = self.b.shuffle(range(0, lanes, repeat), outside)
        row = Affine(index.const, index.parts, 1)
        fill = self.b.splat(other, self.lanes)
        value = self._load_row(buffer, row, self.mask, fill)
        self.lanes, self.mask = lanes, outside
        return self.b.shuffle((lane // repeat for lane in range(lanes)), value)

    def _load_few(self, buffer: Buffer, index: Affine, step: int) -> Value:
        """Elements at equal steps, each in as many lanes: read one by one, then moved."""
        lanes, size = self.lanes, buffer.dtype.itemsize
        ones: list[Value] = []
        for number in range(lanes // index.repeat):
            pointer = self.address(buffer, index, number * step)
            text = f"load {memory_type(buffer.dtype)}, ptr {pointer.text}, align {size}"
            ones.append(self.b.splat(self._load(buffer, text, 0, pointer.place), lanes))
        found = ones[0]
        for number, one in enumerate(ones[1:], 1):
            order = [lane + lanes * (lane // index.repeat >= number) for lane in range(lanes)]
            found = self.b.shuffle(order, found, one)
        return found

    def _in_memory(self, value: Value) -> Value:
        """A value as it lies in memory."""
        if value.dtype is not bool_:
            return value
        if value.const is not None:
            return self.b.splat(constant(int(value.const), uint8), value.lanes)
        source, wanted = vtype("i1", value.lanes), vtype("i8", value.lanes)
        return self.b.pure(
            f"zext {source} {value.text} to {wanted}", uint8, value.lanes, value.place
        )

    def _reversed(self, value: Value) -> Value:
        if value.const is not None:
            return value
        return self.b.shuffle(reversed(range(value.lanes)), value)

    def _gather(self, buffer: Buffer, index: Affine, mask: Value | None, other: Value) -> Value:
        lanes = self.lanes
        pointers = self._pointers(buffer, index)
        mask = mask or self.o.const(True, bool_, lanes)
        fill = self._in_memory(other)
        t = vtype(memory_type(buffer.dtype), lanes)
        name = f"llvm.masked.gather.{mangle(memory_type(buffer.dtype), lanes)}.v{lanes}p0"
        text = self.b.call(
            name,
            t,
            (vtype("ptr", lanes), pointers.text),
            (vtype("i1", lanes), mask.text),
            (t, fill.text),
        ).replace("x ptr> %", f"x ptr> align {buffer.dtype.itemsize} %", 1)
        return self._load(buffer, text, lanes, max(pointers.place, mask.place, fill.place))

    def prefetch(self, name: str, index: Affine, level: int) -> None:
        """Ask for the line of an element, or for those of all lanes that follow each other, for the
        caches from ``level`` on.
        """
        buffer = self.buffers[name]
        hint = (("i32", "0"), ("i32", str(4 - level)), ("i32", "1"))  # to read, how near, data
        last = self.lanes if index.step == 1 else 1
        for shift in range(0, last, LINE // buffer.dtype.itemsize):
            pointer = ("ptr", self.address(buffer, index, shift).text)
            self.b.effect(self.b.call("llvm.prefetch.p0", "void", pointer, *hint))

    # -- stores ------------------------------------------------------------------------------------
    def store(self, name: str, index: Affine, value: Value, mask: Value | None) -> None:
        """``name[index] = value`` where ``mask`` holds."""
        buffer = self.buffers[name]
        uniform = index.step == 0
        if uniform and not value.lanes and (mask is None or not mask.lanes):
            self._store_scalar(buffer, index, self._in_memory(value), mask)
        else:
            wide = self._in_memory(self.b.splat(value, self.lanes))
            mask = self._with_lanes(mask)
            if index.step in (1, -1):
                self._store_row(buffer, index, wide, mask)
            elif mask is None and index.step == 2:
                self._store_every_second(buffer, index, wide)
            else:
                self._scatter(buffer, index, wide, mask)
        self.written([name])

    def store_woven(self, name: str, index: Affine, values: Sequence[Value]) -> None:
        """Elements of all values in turn, from ``name[index]`` on, without a gap."""
        buffer, lanes = self.buffers[name], self.lanes
        wide = [self._in_memory(self.b.splat(value, lanes)) for value in values]
        t = vtype(memory_type(buffer.dtype), lanes)
        for place, row in enumerate(woven(self.b, wide)):
            pointer = self.address(buffer, index, place * lanes)
            where = f"ptr {pointer.text}, align {buffer.dtype.itemsize}{buffer.metadata}"
            self.b.effect(f"store {t} {row.text}, {where}")
        self.written([name])

    def atomic(
        self, op: str, name: str, index: Affine, value: Value, mask: Value | None
    ) -> None:
        """``name[index] = op(name[index], value)`` in one step, where ``mask`` holds."""
        buffer = self.buffers[name]
        pointer = self.address(buffer, index)
        if mask is not None:
            pointer = self._guarded(pointer, mask)
        unsigned = "u" if buffer.dtype.kind == "u" and op in ("max", "min") else ""
        element = memory_type(buffer.dtype)
        where = f"ptr {pointer.text}, {element} {value.text} monotonic"
        self.b.effect(f"%{self.b.fresh('a')} = atomicrmw {unsigned}{op} {where}")
        self.written([name])

    def written(self, names: Iterable[str]) -> None:
        """Loads from these buffers (and any that may overlap them) must be done again."""
        groups = {self.buffers[name].group for name in names if name in self.buffers}
        for buffer in self.buffers.values():
            if buffer.group in groups:
                buffer.version += 1

    def hold(self, names: Iterable[str], place: int) -> list[tuple[Buffer, int]]:
        """Loads from these buffers stay inside the scope at ``place``; returns what to give to
        ``release``.
        """
        groups = {self.buffers[name].group for name in names if name in self.buffers}
        held = [
            (buffer, buffer.floor) for buffer in self.buffers.values() if buffer.group in groups
        ]
        for buffer, _ in held:
            buffer.floor = place
        return held

    def release(self, held: Sequence[tuple[Buffer, int]]) -> None:
        """Undo ``hold``."""
        for buffer, floor in held:
            buffer.floor = floor

    def _store_scalar(
        self, buffer: Buffer, index: Affine, value: Value, mask: Value | None
    ) -> None:
        pointer = self.address(buffer, index)
        if mask is not None:
            pointer = self._guarded(pointer, mask)
        element = memory_type(buffer.dtype)
        where = f"ptr {pointer.text}, align {buffer.dtype.itemsize}{buffer.metadata}"
        self.b.effect(f"store {element} {value.text}, {where}")

    def _store_row(self, buffer: Buffer, index: Affine, value: Value, mask: Value | None) -> None:
        lanes, size = self.lanes, buffer.dtype.itemsize
        backwards = index.stride == -1
        pointer = self.address(buffer, index, 1 - lanes if backwards else 0)
        value = self._reversed(value) if backwards else value
        t = vtype(memory_type(buffer.dtype), lanes)
        if mask is None:
            align = min(64, lanes * size) if buffer.streamed else size
            extra = f"{buffer.metadata}{buffer.streamed}"
            self.b.effect(f"store {t} {value.text}, ptr {pointer.text}, align {align}{extra}")
            return
        mask = self._reversed(mask) if backwards else mask
        name = f"llvm.masked.store.{mangle(memory_type(buffer.dtype), lanes)}.p0"
        text = self.b.call(
            name, "void", (t, value.text), ("ptr", pointer.text), (vtype("i1", lanes), mask.text)
        )
        self.b.effect(text.replace(", ptr %", f", ptr align {size} %", 1) + buffer.metadata)

    def _store_every_second(self, buffer: Buffer, index: Affine, value: Value) -> None:
        """By two rows under masks that overlap by an element, as they are loaded."""
        lanes, size = self.lanes, buffer.dtype.itemsize
        if value.const is not None:
            return self._scatter(buffer, index, value, None)
        t = vtype(memory_type(buffer.dtype), lanes)
        name = f"llvm.masked.store.{mangle(memory_type(buffer.dtype), lanes)}.p0"
        for offset in (0, lanes - 1):
            taken = [(offset + place) % 2 == 0 for place in range(lanes)]
            order = [(offset + place) // 2 for place in range(lanes)]
            row = self.b.shuffle(order, value, value)
            mask = "<" + ", ".join(f"i1 {str(one).lower()}" for one in taken) + ">"
            pointer = self.address(buffer, index, offset)
            operands = ((t, row.text), ("ptr", pointer.text), (vtype("i1", lanes), mask))
            text = self.b.call(name, "void", *operands)
            self.b.effect(text.replace(", ptr %", f", ptr align {size} %", 1) + buffer.metadata)
        return None

    def _scatter(self, buffer: Buffer, index: Affine, value: Value, mask: Value | None) -> None:
        lanes = self.lanes
        pointers = self._pointers(buffer, index)
        mask = mask or self.o.const(True, bool_, lanes)
        t = vtype(memory_type(buffer.dtype), lanes)
        name = f"llvm.masked.scatter.{mangle(memory_type(buffer.dtype), lanes)}.v{lanes}p0"
        operands = (
            (t, value.text),
            (vtype("ptr", lanes), pointers.text),
            (vtype("i1", lanes), mask.text),
        )
        text = self.b.call(name, "void", *operands)
        size = buffer.dtype.itemsize
        self.b.effect(text.replace("x ptr> %", f"x ptr> align {size} %", 1) + buffer.metadata)
