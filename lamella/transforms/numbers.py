"""Python numbers that differ from call to call: how a trace gets stand-ins for them, and how later
calls get what it made of them.

Input: the places of numbers outside that have been seen to change, and the numbers among a call's
arguments and its open sizes. Output: :class:`Numbers`, which puts stand-ins there while a function
is traced and takes them away again, and afterwards computes, by a Python function written for the
trace, the program's inputs, the numbers among the results and what the function sets. Numbers that
the function sets are set at every call, once the program has run, also those that were not opened.
"""

from __future__ import annotations

import ctypes
import gc
import math
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from lamella.dtypes import DType
from lamella.errors import CompilerError
from lamella.ir.dim import Dim, Quotient
from lamella.ir.node import Node
from lamella.ops.leaf import data
from lamella.runtime import buffer as memory
from lamella.runtime.launch import pack_scalar
from lamella.tensor.core import TensorCore, node_of, wrap
from lamella.tensor.symbolic import At, Number, Step, SymbolicNumber, Tape, is_symbolic, plain
from lamella.tensor.tensor import Tensor
from lamella.transforms.guards import Environment
from lamella.transforms.places import Place, bump
from lamella.transforms.reach import PLAIN
from lamella.transforms.signature import Call

__all__ = ["Numbers", "Source", "write_all"]

# the path of a place outside, the number of a leaf of the arguments, or an open size
Source = str | int | Dim
Values = tuple[Any, ...]
Take = Callable[[TensorCore, int], None]
_MISSING: Final = object()


class Numbers:
    """The numbers of one trace.

    Args:
        environment: says where plain values are, and which get stand-ins.
        call: its opened numbers get stand-ins too, and its open sizes.
    """

    def __init__(self, environment: Environment, call: Call) -> None:
        places, opened = environment.places, environment.opened
        self._places = {path: places[path] for path in opened}
        self._places |= {p: found for p, found in places.items() if environment.may_set(found[0])}
        self._may_set = environment.may_set
        self.sources: list[Source] = [*opened, *call.numbers, *map(Dim, call.sizes)]
        self.given = self.sources[: len(opened) + len(call.numbers)]  # all but open sizes
        self._before: list[Any] = [places[path][1] for path in opened]
        self._before += [call.leaves[i] for i in call.numbers]
        self._before += call.sizes.values()
        self._of_sizes: dict[Dim, Any] = {}  # their stand-ins
        self._kinds = [type(value) for value in self._before]
        self.tape = Tape(self._argument)
        self._inputs: dict[tuple[int, DType], TensorCore] = {}
        self._take: Take | None = None
        self._writes: list[tuple[str, object]] = []  # with an At or a value
        self._results: list[At] = []
        self._function: Callable[..., Values | int] | None = None
        self.fixed: set[Source] = set()  # sources of stand-ins that were found somewhere outside
        self.kept: set[Source] = set()  # of those, the ones of stand-ins that are still there

    # -- while the function is traced --------------------------------------------------------------
    def install(self, take: Take) -> dict[int, SymbolicNumber]:
        """Put stand-ins in place; those for arguments are returned. ``take`` makes a handle an
        input of the program by its number among those of the numbers.
        """
        self._take = take
        given: dict[int, SymbolicNumber] = {}
        for source, value in zip(self.sources, self._before, strict=True):
            stand_in = self.tape.source(value)
            if isinstance(source, int):
                given[source] = stand_in
            elif isinstance(source, Dim):
                self._of_sizes[source] = stand_in
            else:
                self._places[source][0].write(stand_in)
        return given

    def _argument(self, index: int, value: Number, dtype: DType) -> Node:
        """A number as an input of the program."""
        handle = self._inputs.get((index, dtype))
        if handle is None:
            handle = object.__new__(Tensor)  # unannounced: it is none of the function's own
            handle.node, handle._leaf = _number(value, dtype), None
            self._inputs[index, dtype] = handle
            if self._take is not None:
                self._take(handle, len(self._inputs) - 1)
        return node_of(handle)

    def of_size(self, size: Dim) -> Any:
        """A size as a number: a stand-in."""
        if size not in self._of_sizes:
            total: Any = 0
            for factors, coefficient in size.terms.items():
                part: Any = coefficient
                for factor in factors:
                    part = part * self._factor(factor)
                total = total + part
            self._of_sizes[size] = total
        return self._of_sizes[size]

    def _factor(self, factor: str | Quotient) -> Any:
        if isinstance(factor, str):
            return self.of_size(Dim(factor))
        return self.of_size(factor.numerator) // factor.denominator

    def result(self, leaf: object) -> object:
        """A leaf of the function's result: ``At`` the number of a result instead of a stand-in."""
        place = self.tape.at(leaf)
        if not isinstance(place, At):
            return leaf
        self._results.append(place)
        return At(len(self._results) - 1)

    def collect(self) -> None:
        """Note what the function has set."""
        for path, (place, before) in self._places.items():
            now = _read(place)
            if type(now) is Dim and self._may_set(place):
                now = self.of_size(now)
            if self._is_ours(place, now):
                at = self.tape.at(now)
                mine = isinstance(at, At) and at.index < self.tape.sources
                if mine and self.sources[at.index] == path:
                    continue
                if isinstance(at, At) or not _is_same(now, before):
                    self._writes.append((path, at))

    def _is_ours(self, place: Place, now: object) -> bool:
        """Whether the function has put there what is there: a number, or another plain value."""
        if is_symbolic(now):
            return True
        return (isinstance(now, PLAIN) or type(now) is Dim) and self._may_set(place)

    def restore(self) -> None:
        """Put back what was in every place, but where there is no plain value any more."""
        for place, before in self._places.values():
            now = _read(place)
            if now is not before and self._is_ours(place, now):
                place.write(before)
                if place.announced:
                    bump()
        self._take = None

    def release(self) -> None:
        """Find the stand-ins that somebody still holds: only a call with the same numbers does the
        same. Containers get the values instead; what is held elsewhere is ``kept``.
        """
        self._of_sizes.clear()
        if self.tape.alive():
            gc.collect()
        self.fixed = self._held(_replace)
        self.kept = self._held(lambda number: None)

    def _held(self, act: Callable[[SymbolicNumber], None]) -> set[Source]:
        """The sources, guarded by value from now on, of what is held; ``act`` is done to each."""
        roots: set[int] = set()
        for number in self.tape.alive():
            act(number)
            place = self.tape.at(number)
            roots |= self.tape.roots(place.index) if isinstance(place, At) else set()
        for root in roots:
            self.tape.require(root, self._before[root])
        return {self.sources[root] for root in roots}

    def finish(self) -> None:
        """End the trace: stand-ins that are left are the numbers they stand for."""
        self.tape.close()

    # -- at every call -----------------------------------------------------------------------------
    @property
    def matters(self) -> bool:
        """Whether calls have anything to do with numbers."""
        known = len(self.tape.steps) == self.tape.sources  # nothing is made of any, or assumed
        return bool(self.given or self._writes or self._results or self._inputs or not known)

    @property
    def settled(self) -> set[Source]:
        """The sources of numbers that must be what they are in the call that is traced."""
        found = set(self.fixed)
        for index in self.tape.required:
            found |= {self.sources[root] for root in self.tape.roots(index)}
        return found

    @property
    def inputs(self) -> list[DType]:
        """The types of the inputs of the program that are numbers."""
        return [dtype for _, dtype in self._inputs]

    @property
    def writes(self) -> list[str]:
        """The paths that calls set, in order."""
        return [path for path, _ in self._writes]

    @property
    def result_count(self) -> int:
        """How many numbers are among the results."""
        return len(self._results)

    @property
    def function(self) -> Callable[..., Values | int]:
        """What :meth:`values` are, as a function of the numbers of ``sources``: inputs, what is
        set, results; a number where something of the trace does not hold.
        """
        if self._function is None:
            self._function = _written(self.tape, self._kinds, self._wanted())
        return self._function

    def values(self, places: Mapping[str, tuple[Place, object]], call: Call) -> Values | str:
        """What a call makes of its numbers; in words, what of the trace does not hold for them."""
        try:
            now = [self._now(source, places, call) for source in self.sources]
            found = self._computed(now)
        except Exception as error:  # as the function itself will raise it when it is traced again
            return f"arithmetic on numbers raised {type(error).__name__}"
        return self._reason(found) if isinstance(found, int) else found

    def _now(
        self, source: Source, places: Mapping[str, tuple[Place, object]], call: Call
    ) -> Any:
        if isinstance(source, int):
            return call.leaves[source]
        if isinstance(source, Dim):
            return call.sizes[str(source)]
        return plain(places[source][0].read())

    def first(self) -> Values:
        """What the call that was traced makes of its numbers."""
        found = self._computed(self._before)
        if isinstance(found, int):
            raise CompilerError(f"[jit] in the very call that was traced, {self._reason(found)}")
        return found

    def _computed(self, now: Sequence[Any]) -> Values | int:
        return self.function(*now)

    def _wanted(self) -> list[tuple[object, DType | None]]:
        """The numbers that calls need: inputs with their types, what is set, results."""
        inputs = [(At(index), dtype) for index, dtype in self._inputs]
        others = [value for _, value in self._writes] + self._results
        return [*inputs, *((value, None) for value in others)]

    def _reason(self, step: int) -> str:
        if step < 0:
            return f"{self._name(-1 - step)} is a number of another type"
        asked = self.tape.steps[step]
        text = asked.text.format(*map(self._text, asked.operands))
        return f"{(asked.wanted or '{}').format(text)} holds no more"

    def _name(self, source: int) -> str:
        found = self.sources[source]
        if isinstance(found, Dim):
            return f"the size {found}"
        return found if isinstance(found, str) else "an argument"

    def _text(self, operand: object, depth: int = 0) -> str:
        """A number as an expression of the names of its sources."""
        if not isinstance(operand, At):
            return repr(operand)
        if operand.index < self.tape.sources:
            return self._name(operand.index)
        step = self.tape.steps[operand.index]
        if depth > 3:
            return "..."
        return f"({step.text.format(*(self._text(o, depth + 1) for o in step.operands))})"

    def tensors(self, values: Values) -> list[TensorCore]:
        """The inputs of the program."""
        given = zip(values, self._inputs, strict=False)
        return [wrap(_number(value, dtype)) for value, (_, dtype) in given]

    def results(self, values: Values) -> Values:
        """The numbers among the results, in order."""
        return values[len(self._inputs) + len(self._writes) :]

    def write(self, values: Values, places: Mapping[str, tuple[Place, object]]) -> None:
        """Set what the function sets."""
        given = zip(self._writes, values[len(self._inputs) :], strict=False)
        write_all([(places[path][0], value) for (path, _), value in given])


def write_all(found: Sequence[tuple[Place, object]]) -> None:
    """Set all of it, also where a signal strikes in between."""
    try:
        _write(found)
    except BaseException:
        _write(found)
        raise


def _write(found: Sequence[tuple[Place, object]]) -> None:
    announced = False
    for place, value in found:
        place.write(value)
        announced |= place.announced
    if announced:
        bump()


def _read(place: Place) -> object:
    try:
        return place.read()
    except (LookupError, ValueError, AttributeError):
        return _MISSING


def _is_same(now: object, before: object) -> bool:
    return now is before or (type(now) is type(before) and repr(now) == repr(before))


def _replace(number: SymbolicNumber) -> None:
    """Give lists, dicts and attributes that hold a stand-in its value."""
    value = plain(number)
    for holder in gc.get_referrers(number):
        if isinstance(holder, (list, deque)):
            for i, item in enumerate(holder):
                if item is number:
                    holder[i] = value
            continue
        held = holder if isinstance(holder, dict) else getattr(holder, "__dict__", None)
        if isinstance(held, dict):
            for key, item in list(held.items()):
                if item is number:
                    held[key] = value


def _number(value: Number, dtype: DType) -> Node:
    """A computed 0-d node."""
    buffer = memory.empty(dtype.itemsize)
    word = pack_scalar(value, dtype).to_bytes(8, "little")
    ctypes.memmove(buffer.ptr, word, dtype.itemsize)
    return data(buffer, (), dtype)


def _written(
    tape: Tape, kinds: Sequence[type], wanted: Sequence[tuple[object, DType | None]]
) -> Callable[..., Any]:
    """A function of the sources' values that does what is on the tape: a tuple of what is
    ``wanted``, or the number of a step whose condition does not hold (-1 - n: source n has another
    type).
    """
    names: dict[str, Any] = {"trunc": math.trunc, "floor": math.floor, "ceil": math.ceil}

    def text_of(operand: object) -> str:
        if isinstance(operand, At):
            return f"v{operand.index}"
        names[f"c{len(names)}"] = operand
        return f"c{len(names) - 1}"

    lines = [f"def numbers({', '.join(f'v{i}' for i in range(tape.sources))}):"]
    for i, kind in enumerate(kinds):
        lines.append(f"    if type(v{i}) is not {kind.__name__}: return {-1 - i}")
    used = _used(tape.steps, [value for value, _ in wanted])
    for i, step in enumerate(tape.steps):
        if i < tape.sources or (i not in used and step.wanted is None):
            continue
        lines.append(f"    v{i} = {step.text.format(*map(text_of, step.operands))}")
        if step.wanted is not None:
            lines.append(f"    if not ({step.wanted.format(f'v{i}')}): return {i}")
    parts = [
        f"float({text_of(value)})" if dtype is not None and dtype.kind == "f" else text_of(value)
        for value, dtype in wanted
    ]
    lines.append(f"    return ({''.join(f'{part}, ' for part in parts)})")
    exec(compile("\n".join(lines), "<numbers>", "exec"), names)  # noqa: S102
    return names["numbers"]  # type: ignore[no-any-return]


def _used(steps: Sequence[Step], wanted: Sequence[object]) -> set[int]:
    """The steps that what is wanted, or a condition, depends on."""
    found: set[int] = set()
    stack = [value.index for value in wanted if isinstance(value, At)]
    stack += [i for i, step in enumerate(steps) if step.wanted is not None]
    while stack:
        i = stack.pop()
        if i not in found:
            found.add(i)
            stack += [o.index for o in steps[i].operands if isinstance(o, At)]
    return found
