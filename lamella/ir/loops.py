"""Loop IR: a kernel as plain data, a nest of loops over scalar functions of indices.

Expressions are immutable and may be shared (a DAG); statements form a tree. Indices are int64.
Every emitter, the verifier, the text form and the slow interpreter read exactly these records, so
their meaning is stated here, beside each of them.

A kernel's outermost statement is one ``For`` of kind ``"grid"``; its iterations are independent and
may run in any order on any worker. Inside, ``"serial"`` loops run in order, ``"unroll"`` loops have
a constant extent and are written out, and
``"lanes"`` loops have independent iterations (except for ``Accumulate``) that a target may run side
by side in a vector. A ``lanes`` loop may hold serial loops and mutable variables (each lane has its
own), but no other ``lanes`` loop.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal

from lamella.dtypes import DType, int64
from lamella.ir.dim import Dim, Size

__all__ = [
    "ACCUMULATE_OPS", "APPLY_OPS", "Accumulate", "Alloc", "Apply", "Assign", "Barrier",
    "BufferParam", "Const", "Declare", "Expr", "Extent", "For", "If", "Kernel", "Linear", "Load",
    "LoopKind", "Param", "Prefetch", "Read", "Stmt", "Store", "Var", "apply", "cast",
]  # fmt: skip

LoopKind = Literal["grid", "block", "serial", "unroll", "lanes"]


@dataclass(frozen=True, slots=True)
class Var:
    """A loop index, int64, from 0 to its loop's extent (exclusive); unique by name in a kernel."""

    name: str
    extent: Extent

    @property
    def dtype(self) -> DType:
        """Always int64."""
        return int64

    @property
    def size(self) -> Size:
        """The extent, of a loop whose extent is a size and no expression."""
        if isinstance(self.extent, (int, Dim)):
            return self.extent
        raise TypeError(f"the loop over {self.name} has an expression as its extent, not a size")


@dataclass(frozen=True, slots=True)
class Const:
    """A literal. ``value`` is a bool, int or float (inf and nan allowed) representable in
    ``dtype``.
    """

    value: bool | int | float
    dtype: DType


@dataclass(frozen=True, slots=True)
class Param:
    """A scalar argument of the kernel, passed by value in its own dtype."""

    name: str
    dtype: DType


@dataclass(frozen=True, slots=True)
class Linear:
    """``const + sum(coefficient * term)`` in int64: the normal form of indices, built by
    ``ir.index`` only.

    Terms are distinct, not Linear nor Const, sorted by their text; coefficients are never 0. Sizes
    may be symbolic.
    """

    const: Size
    terms: tuple[tuple[Size, Expr], ...]

    @property
    def dtype(self) -> DType:
        """Always int64."""
        return int64


@dataclass(frozen=True, slots=True)
class Load:
    """``buffer[index]``, or ``other`` (default zero) without touching memory where ``mask`` (bool)
    is false.
    """

    buffer: str
    index: Expr
    dtype: DType
    mask: Expr | None = None
    other: Const | None = None


@dataclass(frozen=True, slots=True)
class Read:
    """The present value of a mutable variable (see ``Declare``)."""

    name: str
    dtype: DType


@dataclass(frozen=True, slots=True, eq=False)
class Apply:
    """``op(*args)`` with a result of ``dtype``; ``op`` is a key of ``APPLY_OPS``, which states the
    meaning.

    The hash is kept, because expressions share their parts and a walk of the tree can be
    exponential in the DAG.
    """

    op: str
    args: tuple[Expr, ...]
    dtype: DType
    _hash: int = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_hash", hash((self.op, self.args, self.dtype)))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return (
            isinstance(other, Apply)
            and self._hash == other._hash
            and self.op == other.op
            and self.dtype is other.dtype
            and self.args == other.args
        )


Expr = Var | Const | Param | Linear | Load | Read | Apply
Extent = int | Dim | Expr

# Every operation of expressions: number of arguments and meaning. All arguments have the dtype of
# the result unless said
# otherwise. Integer arithmetic wraps. Floating point follows IEEE 754; contraction of a*b+c into
# one rounding is allowed.
APPLY_OPS: Final[dict[str, tuple[int, str]]] = {
    "add": (2, "a + b"),
    "sub": (2, "a - b"),
    "mul": (2, "a * b"),
    "div": (2, "a / b, floating point only"),
    "floordiv": (2, "floor(a / b); integers: 0 where b == 0; the least value // -1 wraps"),
    "mod": (2, "a - floordiv(a, b) * b, the sign of b; integers: 0 where b == 0"),
    "fma": (3, "a * b + c, one rounding for floats"),
    "neg": (1, "-a"),
    "abs": (1, "|a|; the most negative integer wraps to itself"),
    "sign": (1, "-1, 0 or 1; nan for nan, keeps -0.0"),
    "max": (2, "the larger; nan if either is nan"),
    "min": (2, "the smaller; nan if either is nan"),
    "and": (2, "bitwise, or logical for bool"),
    "or": (2, "bitwise, or logical for bool"),
    "xor": (2, "bitwise, or logical for bool"),
    "not": (1, "bitwise complement, or logical for bool"),
    "shl": (2, "a << b; 0 where b >= bits or b < 0"),
    "shr": (2, "a >> b, arithmetic for signed; b >= bits or b < 0: 0, or -1 for negative signed a"),
    "lt": (2, "a < b -> bool, arguments of one dtype"),
    "le": (2, "a <= b -> bool"),
    "eq": (2, "a == b -> bool"),
    "ne": (2, "a != b -> bool (true for nan)"),
    "select": (3, "b where a (bool) else c; the value not chosen has no effect"),
    "cast": (
        1,
        "value conversion: float to int truncates and saturates (nan -> 0), to bool is a != 0, "
        "to float rounds to nearest even",
    ),
    "bitcast": (1, "the same bits as another dtype of the same size"),
    "floor": (1, "round down"),
    "ceil": (1, "round up"),
    "trunc": (1, "round towards zero"),
    "round": (1, "round to nearest, ties to even"),
    "sqrt": (1, "square root, correctly rounded"),
    "rsqrt": (1, "1 / sqrt(a), two roundings"),
    "isnan": (1, "a is nan -> bool"),
    "isinf": (1, "a is infinite -> bool"),
    "isfinite": (1, "a is finite -> bool"),
    "signbit": (1, "the sign bit of a float -> bool"),
    "copysign": (2, "|a| with the sign of b"),
    "ldexp": (2, "a * 2**b, one rounding; of nans, or 1/2 <= |a| <= 2 and whole |b| <= 190"),
    "exp": (1, "e**a"),
    "exp2": (1, "2**a"),
    "expm1": (1, "e**a - 1"),
    "log": (1, "natural logarithm"),
    "log2": (1, "base 2"),
    "log10": (1, "base 10"),
    "log1p": (1, "log(1 + a)"),
    "sin": (1, "sine, radians"),
    "cos": (1, "cosine, radians"),
    "tan": (1, "tangent, radians"),
    "asin": (1, "inverse sine"),
    "acos": (1, "inverse cosine"),
    "atan": (1, "inverse tangent"),
    "atan2": (2, "the angle of the point (b, a)"),
    "sinh": (1, "hyperbolic sine"),
    "cosh": (1, "hyperbolic cosine"),
    "tanh": (1, "hyperbolic tangent"),
    "asinh": (1, "inverse hyperbolic sine"),
    "acosh": (1, "inverse hyperbolic cosine"),
    "atanh": (1, "inverse hyperbolic tangent"),
    "erf": (1, "error function"),
    "erfc": (1, "1 - erf(a) without cancellation"),
    "pow": (2, "a ** b; integers wrap, a negative integer exponent gives 0 (not of 1 and -1)"),
    "mulhi": (2, "the high half of the full product, unsigned integers"),
    "word": (4, "four int8 as the bytes of an int32, the first the lowest"),
    "dotbytes": (3, "c + the sum of products of the bytes of a and b, as signed numbers; wraps"),
    "udotbytes": (3, "the same, the bytes of a as unsigned numbers"),
    "checked_index": (
        2,
        "a if 0 <= a < b, a + b if -b <= a < 0 (int64); else reports the kernel's index fault and "
        "gives 0. "
        "b is the axis size. Kernels that use it take a final int64 buffer named 'fault', whose "
        "word 0 becomes 1 + a's "
        "ordinal among the kernel's checked_index expressions in order of first emission; see "
        "Kernel.faults",
    ),
}  # fmt: skip

ATOMIC_OPS: Final = ("add", "max", "min", "and", "or")
ACCUMULATE_OPS: Final = ("add", "mul", "max", "min", "and", "or", "argmax", "argmin")


def apply(op: str, *args: Expr, dtype: DType | None = None) -> Apply:
    """``Apply`` with the dtype of the first argument unless given (comparisons and tests must give
    none: bool).
    """
    return Apply(op, args, dtype or args[0].dtype)


def cast(value: Expr, dtype: DType) -> Expr:
    """``value`` converted to ``dtype``; no operation if it has that dtype already."""
    return value if value.dtype is dtype else Apply("cast", (value,), dtype)


@dataclass(frozen=True, slots=True)
class Store:
    """``buffer[index] = value``, where ``mask`` (bool, default true) holds.

    With ``atomic`` (of ``ATOMIC_OPS``) the element becomes that operation of itself and the value,
    in one step however many iterations do it at once: integers in arguments of the kernel, not in
    lanes, and nothing else in the kernel touches the buffer.
    """

    buffer: str
    index: Expr
    value: Expr
    mask: Expr | None = None
    atomic: str = ""


@dataclass(frozen=True, slots=True)
class Declare:
    """A mutable scalar variable starting at ``init``, alive to the end of the enclosing block."""

    name: str
    dtype: DType
    init: Expr


@dataclass(frozen=True, slots=True)
class Assign:
    """``name = value``."""

    name: str
    value: Expr


@dataclass(frozen=True, slots=True)
class Accumulate:
    """Fold ``values`` into declared variables with an associative op; the only dependence lanes may
    have between them.

    Ops add … or take one name. ``argmax``/``argmin`` take (value, index): the better value wins,
    then the lower index, and a nan is better than any number. In a ``lanes`` loop over the folded
    axis, partial results are combined in a fixed order. A variable folded by a lanes loop is
    declared outside it with the identity of the op and only accumulated inside.
    """

    names: tuple[str, ...]
    op: str
    values: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class For:
    """``body`` for each value of ``var`` in ``range(extent)``, ``extent`` being ``var.extent``."""

    var: Var
    kind: LoopKind
    body: tuple[Stmt, ...]


@dataclass(frozen=True, slots=True)
class If:
    """``then`` where ``condition`` (bool) holds, else ``otherwise``. Inside lanes the condition
    must not vary by lane.
    """

    condition: Expr
    then: tuple[Stmt, ...]
    otherwise: tuple[Stmt, ...] = ()


@dataclass(frozen=True, slots=True)
class Alloc:
    """Scratch memory of ``size`` (a constant) elements, alive to the end of the enclosing block,
    contents undefined.

    ``space``: "register" (small; every index a constant once loops are unrolled and lanes taken as
    one), "local" (one per grid iteration; a worker may reuse it for its next iteration), "shared"
    (one per GPU block).
    """

    name: str
    dtype: DType
    size: int
    space: Literal["register", "local", "shared"]


@dataclass(frozen=True, slots=True)
class Barrier:
    """All iterations of the enclosing ``block`` loop reach this point before any goes on."""


@dataclass(frozen=True, slots=True)
class Prefetch:
    """A hint that ``buffer[index]`` is read soon, in lanes by all of them. It has no effect; the
    index may lie outside the buffer, and reads no memory. ``level``: the nearest cache to bring it
    to, 1 for what is read at once, 2 for what has time, and would hold up loads on its way to 1.
    """

    buffer: str
    index: Expr
    level: Literal[1, 2] = 1


Stmt = Store | Declare | Assign | Accumulate | For | If | Alloc | Barrier | Prefetch


@dataclass(frozen=True, slots=True)
class BufferParam:
    """A memory argument: ``mode`` is "in", "out" or "inout"; distinct buffers overlap only where
    ``alias`` allows it.

    ``alias`` names an input that this output may share memory with, index for index. ``streamed``:
    it begins at a multiple of 64 bytes and nothing reads it soon, so stores may bypass the caches.
    """

    name: str
    dtype: DType
    mode: Literal["in", "out", "inout"]
    alias: str | None = None
    streamed: bool = False


@dataclass(frozen=True, slots=True)
class Kernel:
    """One launch: ``buffers``, then ``params`` (scalars by value), then ``sizes`` (symbols, int64),
    in this order.

    ``body`` is a single grid ``For``. ``faults`` counts its checked_index expressions (the buffer
    "fault" then exists).
    ``work`` estimates scalar operations per grid iteration, from which the runtime chooses how many
    iterations make a task.
    """

    name: str
    buffers: tuple[BufferParam, ...]
    params: tuple[Param, ...]
    sizes: tuple[str, ...]
    body: For
    faults: int = 0
    work: Size = field(default=1, compare=False)
