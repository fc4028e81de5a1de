"""What a primitive is: one class with every rule inside.

A primitive is a frozen dataclass; its fields are its static parameters (axes, flags; never sizes, which live in
``Node.shape``). One class gives the type rule, the reference meaning in NumPy, the derivative, the batching rule, the lowering to loop IR
and test samples. Rules that can be derived are: an elementwise operation gives ``partials``; a linear one gives ``transpose``; a
missing rule raises :class:`MissingRuleError` naming the method to write.

Conventions for rules on nodes:
- Builders (``ops.add`` …, one per primitive, beside its class) check their arguments and make the node; inside rules call builders.
- Batching always has the batch axis first: a batched argument has one more leading axis, so does the result.
- An elementwise input has the shape of the result, or is 0-d; nothing else broadcasts implicitly.
"""
from __future__ import annotations

from abc import ABC
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal, Protocol

import numpy as np
import numpy.typing as npt

from lamella.errors import MissingRuleError
from lamella.ir.loops import Const, Expr, Stmt
from lamella.ir.node import Node

if TYPE_CHECKING:
    from lamella.dtypes import DType

__all__ = ["PRIMITIVES", "Array", "Element", "Index", "KernelWriter", "Primitive", "Sample"]

Array = npt.NDArray[np.generic]
Index = tuple[Expr, ...]
Kind = Literal["leaf", "elementwise", "movement", "reduction", "contraction", "kernel"]
Needs = tuple[bool, ...]


class Element(Protocol):
    """An input seen as a function from indices to scalars, while a kernel is being written."""

    @property
    def shape(self) -> tuple[object, ...]:
        """The input's shape."""

    @property
    def dtype(self) -> DType:
        """The input's dtype."""

    def __call__(self, index: Index) -> Expr:
        """The element at ``index`` (one int64 expression per axis, each inside its axis)."""

    def guarded(self, condition: Expr, index: Index, fill: Expr) -> Expr:
        """The element at ``index`` where ``condition`` holds, else ``fill``; no memory is touched where it does not."""


class KernelWriter(Protocol):
    """What a primitive of kind "kernel" writes its loop nest with."""

    def var(self, name: str, extent: object) -> Expr:
        """A new loop variable with a unique name."""

    def temporary(self, name: str) -> str:
        """A unique name for a variable or scratch buffer."""

    def store(self, index: Index, value: Expr) -> Stmt:
        """Store one element of the result."""

    def load(self, index: Index) -> Expr:
        """Load an element of the result that this grid iteration has stored before."""


@dataclass(frozen=True)
class Sample:
    """One generated test: input arrays' shapes and dtypes, how to draw them, and how exact the result must be."""

    shapes: tuple[tuple[int, ...], ...]
    build: Callable[..., Node]  # takes the input nodes, returns the node under test
    dtypes: tuple[DType, ...]  # the sample runs once per dtype (used for every input unless ``input_dtypes``)
    input_dtypes: tuple[DType | None, ...] | None = None  # None: the sample's dtype
    low: float = -2.0
    high: float = 2.0
    draw: Callable[[np.random.Generator, tuple[int, ...], DType, int], Array] | None = None  # (rng, shape, dtype, position)
    rtol: float | None = None  # None: from the dtype (float64 1e-12, float32 2e-6, float16 2e-3, bfloat16 2e-2; integers exact)
    differentiable: bool = True  # at these inputs
    note: str = ""


PRIMITIVES: dict[str, type[Primitive]] = {}


@dataclass(frozen=True, slots=True)
class Primitive(ABC):
    """The base of all primitives. ``name`` and ``kind`` are class attributes; see the module for the conventions."""

    name: ClassVar[str] = ""
    kind: ClassVar[Kind] = "elementwise"
    cost: ClassVar[int] = 1  # scalar operations per element (elementwise); decides inlining
    differentiable: ClassVar[bool] = True  # False: derivative is zero everywhere it exists (comparison, floor, argmax …)
    linear: ClassVar[bool] = False  # linear in its inputs together (transpose serves vjp; the op itself serves jvp)

    def __init_subclass__(cls, **kwargs: object) -> None:
        # dataclass(slots=True) makes the class a second time: the later one, which users see, replaces the earlier.
        super(Primitive, cls).__init_subclass__(**kwargs)
        if cls.name:
            PRIMITIVES[cls.name] = cls

    # -- meaning -------------------------------------------------------------------------------------------------------
    def check(self, node: Node) -> None:
        """Raise ShapeError or DTypeError unless ``node``'s shape and dtype follow from its inputs and this primitive."""
        raise MissingRuleError(self.name, "verification", "check")

    def reference(self, *arrays: Array, shape: tuple[int, ...], dtype: DType) -> Array:
        """The meaning, in NumPy: the value of a node of this ``shape`` and ``dtype`` on these inputs."""
        raise MissingRuleError(self.name, "interpretation", "reference")

    # -- derivatives ---------------------------------------------------------------------------------------------------
    def partials(self, node: Node) -> Sequence[Node | None]:
        """Elementwise: the derivative of the result by each input, as nodes (None: zero)."""
        raise MissingRuleError(self.name, "differentiation", "partials")

    def transpose(self, node: Node, cotangent: Node, needs: Needs) -> Sequence[Node | None]:
        """Linear (or linear in each input by itself): the cotangent of each input that ``needs`` asks for."""
        raise MissingRuleError(self.name, "reverse-mode differentiation", "transpose or vjp")

    def vjp(self, node: Node, cotangent: Node, needs: Needs) -> Sequence[Node | None]:
        """The cotangent of each input that ``needs`` asks for, from that of the result; None is zero."""
        raise MissingRuleError(self.name, "reverse-mode differentiation", "vjp")

    def jvp(self, node: Node, tangents: Sequence[Node | None]) -> Node | None:
        """The tangent of the result from those of the inputs; None is zero."""
        raise MissingRuleError(self.name, "forward-mode differentiation", "jvp")

    # -- batching ------------------------------------------------------------------------------------------------------
    def batch(self, node: Node, args: Sequence[Node], batched: Needs, size: object) -> Node:
        """The node applied along a new leading axis of ``size``; ``args[i]`` has that axis where ``batched[i]``."""
        raise MissingRuleError(self.name, "vmap", "batch")

    # -- lowering ------------------------------------------------------------------------------------------------------
    def element(self, node: Node, args: Sequence[Element], index: Index) -> Expr:
        """Elementwise and movement: the element of the result at ``index``."""
        raise MissingRuleError(self.name, "compilation", "element")

    def fold(self, node: Node) -> tuple[str, Const]:
        """Reductions: the accumulation op (of ``ir.loops.ACCUMULATE_OPS``) and its identity."""
        raise MissingRuleError(self.name, "compilation", "fold")

    def grid(self, node: Node) -> tuple[object, ...]:
        """Kernels: the sizes whose product is the number of independent iterations."""
        raise MissingRuleError(self.name, "compilation", "grid")

    def kernel(self, node: Node, args: Sequence[Element], at: Index, out: KernelWriter) -> list[Stmt]:
        """Kernels: the statements of the grid iteration ``at`` (one index per size of ``grid``)."""
        raise MissingRuleError(self.name, "compilation", "kernel")

    # -- tests and documentation ---------------------------------------------------------------------------------------
    @classmethod
    def samples(cls) -> Iterator[Sample]:
        """Inputs that exercise every parameter; the generated tests and the support table come from them."""
        yield from ()


