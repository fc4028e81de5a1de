"""What a primitive is: one class with every rule inside.

A primitive is a frozen dataclass; its fields are its static parameters (axes, flags; never sizes,
which live in ``Node.shape``). One class gives the type rule, the reference meaning in NumPy, the
derivative, the batching rule, the lowering to loop IR and test samples. Rules that can be derived
are given by the bases in ``lamella.ops.families`` (elementwise, linear, movement, multilinear).
A missing rule raises :class:`MissingRuleError` naming the method to write.

Conventions for rules on nodes:
- Builders (``ops.add`` …, one per primitive, beside its class) check their arguments and make the
  node; inside rules call builders.
- A cotangent or tangent has exactly the shape and dtype of what it belongs to.
- Batching always has the batch axis first: a batched argument has one more leading axis, so does
  the result.
- An elementwise input has the shape of the result, or is 0-d; nothing else broadcasts implicitly.
- float16 and bfloat16 arithmetic is float32 arithmetic rounded at the end.
- A cotangent of a complex node is dL/d(real part) + i dL/d(imaginary part): the direction in which
  a real L grows fastest. So a linear rule passes it on as it is, and a function with the complex
  derivative p multiplies it by the conjugate of p; tangents are multiplied by p itself.
"""
from __future__ import annotations

from abc import ABC
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Protocol

import numpy as np
import numpy.typing as npt

from lamella.dtypes import DType
from lamella.errors import MissingRuleError
from lamella.ir.dim import Shape, Size
from lamella.ir.loops import Const, Expr, Stmt, Store, Var
from lamella.ir.node import Node, make
from lamella.ir.vectors import VectorUnit

__all__ = [
    "PRIMITIVES", "Array", "Element", "Index", "KernelWriter", "Kind", "Needs", "Parts",
    "Primitive", "Sample", "each_part",
]  # fmt: skip

Array = npt.NDArray[Any]
Index = tuple[Expr, ...]
Kind = Literal[
    "leaf", "elementwise", "movement", "reduction", "contraction", "kernel", "call", "part"
]  # fmt: skip
Needs = tuple[bool, ...]
Parts = tuple[Node, ...]  # of a complex node its real and its imaginary part; of a real one itself


class Element(Protocol):
    """An input seen as a function from indices to scalars, while a kernel is being written."""

    @property
    def shape(self) -> Shape:
        """The input's shape."""

    @property
    def dtype(self) -> DType:
        """The input's dtype."""

    def __call__(self, index: Index) -> Expr:
        """The element at ``index`` (one int64 expression per axis, each inside its axis)."""

    def guarded(self, condition: Expr, index: Index, fill: Expr) -> Expr:
        """The element at ``index`` where ``condition`` holds, else ``fill``; no memory is read."""


class KernelWriter(Protocol):
    """What a primitive of kind "kernel" writes its loop nest with."""

    @property
    def unit(self) -> VectorUnit:
        """The target's vectors, which tiles in registers are cut by."""

    def var(self, name: str, extent: Size | Expr) -> Var:
        """A new loop variable with a unique name."""

    def temporary(self, name: str) -> str:
        """A unique name for a variable or scratch buffer."""

    def store(self, index: Index, value: Expr) -> Store:
        """Store one element of the result."""

    def load(self, index: Index) -> Expr:
        """Load an element of the result that this grid iteration has stored before."""

    def part(self, number: int, index: Index, value: Expr) -> Stmt:
        """Store one element of result ``number`` of a call."""

    def atomic(self, number: int, index: Index, op: str, value: Expr) -> Stmt:
        """Change an element of result ``number``, which begins as zero, in one step."""

    def load_part(self, number: int, index: Index) -> Expr:
        """Load an element of result ``number`` that this grid iteration has stored before."""


@dataclass(frozen=True)
class Sample:
    """One generated test: shapes and dtypes of inputs, how to draw them, how exact the result is.

    ``build`` takes the input nodes and returns the node under test. The sample runs once per dtype
    of ``dtypes``, used for every input that ``input_dtypes`` does not fix. ``draw(rng, shape,
    dtype, position)`` replaces the uniform draw from ``low`` to ``high``. ``rtol`` None: from
    the dtype (float64 1e-12, float32 2e-6, float16 2e-3, bfloat16 2e-2; integers exact).
    """

    shapes: tuple[tuple[int, ...], ...]
    build: Callable[..., Node]
    dtypes: tuple[DType, ...]
    input_dtypes: tuple[DType | None, ...] | None = None
    low: float = -2.0
    high: float = 2.0
    draw: Callable[[np.random.Generator, tuple[int, ...], DType, int], Array] | None = None
    rtol: float | None = None
    differentiable: bool = True  # at these inputs
    note: str = ""

    def arrays(self, dtype: DType, rng: np.random.Generator) -> list[Array]:
        """Input arrays for a run with ``dtype``."""
        fixed = self.input_dtypes or (None,) * len(self.shapes)
        drawn = []
        for position, (shape, own) in enumerate(zip(self.shapes, fixed, strict=True)):
            kind = own or dtype
            if self.draw is not None:
                drawn.append(np.asarray(self.draw(rng, shape, kind, position)).astype(kind.numpy))
            else:
                drawn.append(_uniform(rng, shape, kind, self.low, self.high))
        return drawn


def _uniform(
    rng: np.random.Generator, shape: tuple[int, ...], dtype: DType, low: float, high: float
) -> Array:
    if dtype.kind == "b":
        return np.asarray(rng.random(shape) < 0.5)
    if dtype.kind == "c":
        parts = rng.uniform(low, high, (2, *shape))
        return np.asarray(parts[0] + 1j * parts[1]).astype(dtype.numpy)
    if dtype.kind == "f":
        return np.asarray(rng.uniform(low, high, shape)).astype(dtype.numpy)
    first, last = (-9, 9) if dtype.kind == "i" else (0, 9)
    return np.asarray(rng.integers(max(first, int(low) * 5), last, shape)).astype(dtype.numpy)


PRIMITIVES: dict[str, type[Primitive]] = {}


@dataclass(frozen=True, slots=True)
class Primitive(ABC):
    """The base of all primitives. ``name`` and ``kind`` are class attributes; see the module."""

    name: ClassVar[str] = ""
    kind: ClassVar[Kind] = "elementwise"
    cost: ClassVar[int] = 1  # scalar operations per element (elementwise); decides inlining
    differentiable: ClassVar[bool] = True  # False: zero wherever it exists (comparison, floor …)
    stored: ClassVar[tuple[int, ...]] = ()  # inputs that the lowering reads from memory
    linear: ClassVar[bool] = False  # linear in all its floating inputs together

    def __init_subclass__(cls, **kwargs: object) -> None:
        # dataclass(slots=True) makes the class a second time: the later one, which users see,
        # replaces the earlier.
        super(Primitive, cls).__init_subclass__(**kwargs)
        if cls.name:
            PRIMITIVES[cls.name] = cls

    # -- meaning ----------------------------------------------------------------------------------
    def check(self, node: Node) -> None:
        """Raise ShapeError or DTypeError unless ``node`` fits its inputs and this primitive."""
        raise MissingRuleError(self.name, "verification", "check")

    def reference(self, *arrays: Array, shape: tuple[int, ...], dtype: DType) -> Array:
        """The meaning, in NumPy: the value of a node of this ``shape`` and ``dtype``."""
        raise MissingRuleError(self.name, "interpretation", "reference")

    # -- derivatives ------------------------------------------------------------------------------
    def partials(self, node: Node) -> Sequence[Node | None]:
        """Elementwise: the derivative of the result by each input, as nodes (None: zero)."""
        raise MissingRuleError(self.name, "differentiation", "partials")

    def transpose(self, node: Node, cotangent: Node, needs: Needs) -> Sequence[Node | None]:
        """Linear (or linear in each input by itself): the cotangent of each input in ``needs``."""
        raise MissingRuleError(self.name, "reverse-mode differentiation", "transpose or vjp")

    def vjp(self, node: Node, cotangent: Node, needs: Needs) -> Sequence[Node | None]:
        """The cotangent of each input that ``needs`` asks for; None is zero."""
        raise MissingRuleError(self.name, "reverse-mode differentiation", "vjp")

    def jvp(self, node: Node, tangents: Sequence[Node | None]) -> Node | None:
        """The tangent of the result from those of the inputs; None is zero."""
        raise MissingRuleError(self.name, "forward-mode differentiation", "jvp")

    # -- batching ---------------------------------------------------------------------------------
    def batch(self, node: Node, args: Sequence[Node], batched: Needs, size: Size) -> Node:
        """The node applied along a new leading axis of ``size``, which ``batched`` args have."""
        raise MissingRuleError(self.name, "vmap", "batch")

    # -- complex numbers --------------------------------------------------------------------------
    def complex_parts(self, node: Node, args: Sequence[Parts]) -> Parts:
        """The parts of ``node``, which is or takes complex numbers, from those of its inputs."""
        raise MissingRuleError(self.name, "complex numbers", "complex_parts")

    # -- lowering ---------------------------------------------------------------------------------
    def element(self, node: Node, args: Sequence[Element], index: Index) -> Expr:
        """Elementwise, movement and iota: the element of the result at ``index``."""
        raise MissingRuleError(self.name, "compilation", "element")

    def fold(self, node: Node) -> tuple[str, Const]:
        """Reductions: the op (of ``ir.loops.ACCUMULATE_OPS``) and its identity.

        The identity's dtype is that of the accumulator (float32 for float16 and bfloat16): elements
        are cast to it, and the total is cast to the node's dtype. For argmax and argmin it is the
        value's identity; the index accumulator starts at the largest int64.
        """
        raise MissingRuleError(self.name, "compilation", "fold")

    def grid(self, node: Node) -> Shape:
        """Kernels: the sizes whose product is the number of independent iterations."""
        raise MissingRuleError(self.name, "compilation", "grid")

    def kernel(
        self, node: Node, args: Sequence[Element], at: Index, out: KernelWriter
    ) -> list[Stmt]:
        """Kernels: the statements of the grid iteration ``at`` (one index per size of ``grid``)."""
        raise MissingRuleError(self.name, "compilation", "kernel")

    # -- tests and documentation ------------------------------------------------------------------
    @classmethod
    def samples(cls) -> Iterator[Sample]:
        """Inputs that exercise every parameter; generated tests and docs come from them."""
        yield from ()


def each_part(node: Node, args: Sequence[Parts]) -> Parts:
    """The operation of ``node`` applied to the real parts, then to the imaginary parts; real inputs
    (indices, conditions) serve both.
    """
    found = []
    for part in (0, 1):
        inputs = tuple(arg[part] if len(arg) == 2 else arg[0] for arg in args)
        made = make(node.op, inputs, node.shape, node.dtype.part)
        made.site = node.site
        found.append(made)
    return tuple(found)
