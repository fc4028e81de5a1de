"""Python numbers whose values a compiled function does not know: stand-ins that record arithmetic.

Input: the numbers of one call, while a function is traced. Output: :class:`Tape`: the arithmetic
that the function has done with them, as the text of a Python function that does it again, and what
the trace has assumed. A :class:`SymbolicNumber` passes for the number in everything Python and
NumPy do with it. Arithmetic gives another one; met by a tensor it is an argument of the program;
asked for its value (as a truth, an index, a key, text, by C code) it gives that of this call, and
the tape remembers that another call must see the same.

Invariant: a stand-in never changes what a function does in this call, and whatever of it depends
on a number's value is on the tape.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from threading import get_ident
from typing import Any, Final
from weakref import ref

import numpy as np

from lamella.dtypes import DType
from lamella.ir.node import Node
from lamella.ops.leaf import SCALAR
from lamella.tensor.core import TensorCore

__all__ = [
    "At", "Number", "Step", "SymbolicNumber", "Tape", "is_symbolic", "plain", "symbolic_node",
]  # fmt: skip

Number = int | float
LONGEST: Final = 4096  # operations; what a longer calculation gives is taken as it is
_EXACT: Final = (int, float, bool)


@dataclass(frozen=True, slots=True)
class At:
    """A number by its place on the tape."""

    index: int


@dataclass(frozen=True, slots=True)
class Step:
    """One operation as a Python expression with ``{}`` for its operands, numbers or ``At``.

    ``wanted`` (if given) is a condition on the result ``{}`` without which the tape is not valid.
    """

    text: str
    operands: tuple[object, ...]
    wanted: str | None = None


class Tape:
    """What one trace has done with the numbers from outside, in order.

    Args:
        argument: the node of a number as an input of the program, by place, value and type.
    """

    def __init__(self, argument: Callable[[int, Number, DType], Node]) -> None:
        self.steps: list[Step] = []
        self.sources = 0
        self.required: set[int] = set()  # what must have the very value that it has
        self._argument = argument
        self._thread: int | None = get_ident()
        self._made: list[ref[SymbolicNumber]] = []

    def source(self, value: Number) -> SymbolicNumber:
        """A stand-in for a number from outside; sources come first."""
        self.sources += 1
        return self._append(Step("", ()), value)

    def close(self) -> None:
        """From now on stand-ins are just the numbers that they had."""
        self._thread = None

    @property
    def is_open(self) -> bool:
        """Whether the trace is going on, in this thread."""
        return self._thread == get_ident()

    def alive(self) -> list[SymbolicNumber]:
        """The stand-ins that somebody holds."""
        found = [reference() for reference in self._made]
        return [number for number in found if number is not None]

    def roots(self, index: int) -> set[int]:
        """The sources that a number depends on."""
        found: set[int] = set()
        stack = [index]
        while stack:
            here = stack.pop()
            if here not in found:
                found.add(here)
                stack += [o.index for o in self.steps[here].operands if isinstance(o, At)]
        return {i for i in found if i < self.sources}

    def apply(
        self, function: Callable[..., Any], text: str, operands: Sequence[Any], typed: bool = False
    ) -> Any:
        """The result of an operation on numbers, at least one of them a stand-in of this tape.

        ``typed``: the type of the result depends on the operands' values.
        """
        value = function(*map(plain, operands))
        if not self.is_open:
            return value
        if type(value) not in (int, float) or len(self.steps) >= LONGEST:
            for operand in operands:
                self.fix(operand)
            return value
        wanted = f"type({{}}) is {type(value).__name__}" if typed else None
        return self._append(Step(text, self._operands(operands), wanted), value)

    def ask(self, function: Callable[..., bool], text: str, operands: Sequence[Any]) -> bool:
        """The truth of a statement about numbers, which every call must have the same."""
        value = function(*map(plain, operands))
        if self.is_open:
            wanted = "{}" if value else "not {}"
            self.steps.append(Step(text, self._operands(operands), wanted))
        return value

    def fix(self, number: Any) -> Any:
        """The value of a number, which every call must have the same."""
        value = plain(number)
        if self.is_open and isinstance(number, SymbolicNumber) and number._tape is self:
            self.require(number._index, value)
        return value

    def require(self, index: int, value: Number) -> None:
        """Only calls in which the number is ``value`` can use what has been traced."""
        self.required.add(index)
        if value and value == value:  # nor 0.0, which is -0.0, nor a NaN, which nothing is
            self.steps.append(Step("{} == {}", (At(index), value), "{}"))
        else:
            self.steps.append(Step("repr({}) == {}", (At(index), repr(value)), "{}"))

    def node(self, index: int, value: Number, dtype: DType) -> Node:
        """A number as an input of the program."""
        if self.is_open:
            return self._argument(index, value, dtype)
        node = Node(SCALAR, (), (), dtype)
        node.value = float(value) if dtype.kind == "f" else value
        return node

    def at(self, value: Any) -> Any:
        """The place of a number of this tape; the value of anything else."""
        if isinstance(value, SymbolicNumber) and value._tape is self:
            return At(value._index)
        return _fixed(value)

    def _operands(self, operands: Sequence[Any]) -> tuple[object, ...]:
        return tuple(map(self.at, operands))

    def _append(self, step: Step, value: Number) -> SymbolicNumber:
        made = (SymbolicInt if type(value) is int else SymbolicFloat)(self, len(self.steps), value)
        self.steps.append(step)
        self._made.append(ref(made))
        return made


def is_symbolic(value: object) -> bool:
    """Whether a number is a stand-in.

    >>> is_symbolic(1.0)
    False
    """
    return isinstance(value, SymbolicNumber)


def symbolic_node(value: Any, dtype: DType) -> Node:
    """A stand-in as an input of the program, in the given type."""
    node: Node = value._tape.node(value._index, value._value, dtype)
    return node


def plain(value: Any) -> Any:
    """The number that a stand-in stands for in this call; anything else as it is."""
    return value._value if isinstance(value, SymbolicNumber) else value


def _fixed(value: Any) -> Any:
    """``value``, where stand-ins are replaced by their values for good, inside sequences too."""
    if isinstance(value, SymbolicNumber):
        return value._tape.fix(value)
    if type(value) in (list, tuple):
        return type(value)(map(_fixed, value))
    if type(value) is dict:
        return {key: _fixed(item) for key, item in value.items()}
    return value


def _binary(
    function: Callable[[Any, Any], Any], text: str, swap: bool = False, typed: bool = False
) -> Any:
    def method(self: SymbolicNumber, other: Any) -> Any:
        if isinstance(other, TensorCore):
            return NotImplemented
        x, y = (other, self) if swap else (self, other)
        if type(other) not in _EXACT and not isinstance(other, SymbolicNumber):
            return function(_fixed(x), _fixed(y))
        return self._tape.apply(function, text, (x, y), typed)

    return method


def _unary(function: Callable[[Any], Any], text: str) -> Any:
    def method(self: SymbolicNumber) -> Any:
        return self._tape.apply(function, text, (self,))

    return method


def _compared(function: Callable[[Any, Any], bool], text: str) -> Any:
    def method(self: SymbolicNumber, other: Any) -> Any:
        if type(other) in _EXACT or isinstance(other, SymbolicNumber):
            return self._tape.ask(function, text, (self, other))
        if isinstance(other, (int, float)):
            return function(_fixed(self), other)
        return NotImplemented

    return method


def _as_value(function: Callable[[Any], Any]) -> Any:
    def method(self: SymbolicNumber, *options: Any) -> Any:
        return function(_fixed(self), *map(_fixed, options))

    return method


class SymbolicNumber:
    """A number of a call that is being traced; ``isinstance`` finds it an int or a float."""

    # nothing else has a public name: code may ask what attributes a number has
    __slots__ = ("__weakref__", "_index", "_tape", "_value")

    def __init__(self, tape: Tape, index: int, value: Number) -> None:
        self._tape, self._index, self._value = tape, index, value

    @property
    def __class__(self) -> Any:
        return type(self._value)

    @__class__.setter
    def __class__(self, kind: Any) -> None:
        raise TypeError("the class of a number cannot be changed")

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._value, name)
        _fixed(self)
        return found

    __add__, __radd__ = _binary(operator.add, "{} + {}"), _binary(operator.add, "{} + {}", True)
    __sub__, __rsub__ = _binary(operator.sub, "{} - {}"), _binary(operator.sub, "{} - {}", True)
    __mul__, __rmul__ = _binary(operator.mul, "{} * {}"), _binary(operator.mul, "{} * {}", True)
    __truediv__ = _binary(operator.truediv, "{} / {}")
    __rtruediv__ = _binary(operator.truediv, "{} / {}", True)
    __floordiv__ = _binary(operator.floordiv, "{} // {}")
    __rfloordiv__ = _binary(operator.floordiv, "{} // {}", True)
    __mod__, __rmod__ = _binary(operator.mod, "{} % {}"), _binary(operator.mod, "{} % {}", True)
    __rpow__ = _binary(operator.pow, "{} ** {}", True, typed=True)
    _power = _binary(operator.pow, "{} ** {}", typed=True)
    __neg__, __pos__ = _unary(operator.neg, "-{}"), _unary(operator.pos, "+{}")
    __abs__, __trunc__ = _unary(abs, "abs({})"), _unary(math.trunc, "trunc({})")
    __floor__, __ceil__ = _unary(math.floor, "floor({})"), _unary(math.ceil, "ceil({})")
    __lt__, __le__ = _compared(operator.lt, "{} < {}"), _compared(operator.le, "{} <= {}")
    __gt__, __ge__ = _compared(operator.gt, "{} > {}"), _compared(operator.ge, "{} >= {}")
    __eq__, __ne__ = _compared(operator.eq, "{} == {}"), _compared(operator.ne, "{} != {}")
    __hash__ = _as_value(hash)
    __repr__, __str__, __format__ = _as_value(repr), _as_value(str), _as_value(format)
    __float__, __complex__ = _as_value(float), _as_value(complex)

    def __pow__(self, other: Any, modulus: Any = None) -> Any:
        if modulus is None:
            return self._power(other)
        return pow(_fixed(self), _fixed(other), _fixed(modulus))

    def __rdivmod__(self, other: Any) -> Any:
        return other // self, other % self

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def __round__(self, digits: Any = None) -> Any:
        if digits is None:
            return self._tape.apply(round, "round({})", (self,))
        return self._tape.apply(round, "round({}, {})", (self, _fixed(digits)))

    def __bool__(self) -> bool:
        return self._tape.ask(bool, "bool({})", (self,))

    def __int__(self) -> int:
        return int(_fixed(math.trunc(self)))

    def __copy__(self) -> Any:
        return self

    def __deepcopy__(self, memo: Any) -> Any:
        return self

    def __reduce__(self) -> Any:
        return type(self._value), (_fixed(self),)

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return np.asarray(_fixed(self), dtype)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        return getattr(ufunc, method)(*map(_fixed, inputs), **_fixed(options))

    def __array_function__(self, function: Any, types: Any, args: Any, options: Any) -> Any:
        return function(*_fixed(args), **_fixed(options))


class SymbolicFloat(SymbolicNumber):
    """A float of a call that is being traced."""

    __slots__ = ()

    @property
    def real(self) -> Any:
        """Itself."""
        return self

    @property
    def imag(self) -> float:
        """0.0."""
        return 0.0


class SymbolicInt(SymbolicNumber):
    """An int of a call that is being traced."""

    __slots__ = ()

    @property
    def real(self) -> Any:
        """Itself."""
        return self

    @property
    def imag(self) -> int:
        """0."""
        return 0

    __index__ = _as_value(operator.index)
    __invert__ = _unary(operator.invert, "~{}")
    __and__, __rand__ = _binary(operator.and_, "{} & {}"), _binary(operator.and_, "{} & {}", True)
    __or__, __ror__ = _binary(operator.or_, "{} | {}"), _binary(operator.or_, "{} | {}", True)
    __xor__, __rxor__ = _binary(operator.xor, "{} ^ {}"), _binary(operator.xor, "{} ^ {}", True)
    __lshift__ = _binary(operator.lshift, "{} << {}")
    __rlshift__ = _binary(operator.lshift, "{} << {}", True)
    __rshift__ = _binary(operator.rshift, "{} >> {}")
    __rrshift__ = _binary(operator.rshift, "{} >> {}", True)
