"""Formulas: one definition of a scalar function, read by NumPy and by the compiler.

A :class:`Term` stands for a float64 number (or a bool). It holds a loop IR expression or a NumPy
array, and arithmetic on it makes another of the same kind; so a function from terms to terms is at
once the meaning of a primitive (``reference``) and its lowering (``expr``). :class:`Formula` is an
elementwise primitive of such a function: it is evaluated in float64 whatever the element type, so
that a float32 result is rounded once from one that is far more precise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Union

import numpy as np

from lamella.dtypes import DType, bool_, float64
from lamella.errors import MissingRuleError
from lamella.ir import scalar
from lamella.ir.loops import Const, Expr, apply, cast
from lamella.ir.node import Node
from lamella.ops.base import Array
from lamella.ops.families import Elementwise

__all__ = ["Formula", "Term", "constant_term", "polynomial", "where"]

Number = Union["Term", float]


def _each(op: str) -> Callable[..., Array]:
    """A function of loop IR without a NumPy equivalent, value by value."""
    return np.vectorize(lambda *a: scalar.evaluate(op, a, [float64] * len(a), float64), [float])


_NUMPY: Final[dict[str, Callable[..., Any]]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.true_divide,
    "neg": np.negative, "abs": np.abs, "sqrt": np.sqrt, "exp": np.exp, "expm1": np.expm1,
    "log": np.log, "log1p": np.log1p, "sin": np.sin, "cos": np.cos, "tan": np.tan,
    "floor": np.floor, "round": np.rint, "copysign": np.copysign, "max": np.maximum,
    "min": np.minimum, "lt": np.less, "le": np.less_equal, "eq": np.equal, "and": np.logical_and,
    "or": np.logical_or, "not": np.logical_not, "isnan": np.isnan, "select": np.where,
    "pow": np.power,
    "fma": lambda a, b, c: a * b + c, "erf": _each("erf"), "erfc": _each("erfc"),
}  # fmt: skip
_TESTS: Final = frozenset(("lt", "le", "eq", "and", "or", "not", "isnan"))


class Term:
    """A number in a formula; see the module."""

    __slots__ = ("value",)

    def __init__(self, value: Expr | Array) -> None:
        self.value = value

    def call(self, op: str, *others: Number) -> Term:
        """A loop IR operation of this number and others."""
        return _apply(op, (self, *others))

    def __add__(self, other: Number) -> Term:
        return _apply("add", (self, other))

    def __radd__(self, other: float) -> Term:
        return _apply("add", (other, self))

    def __sub__(self, other: Number) -> Term:
        return _apply("sub", (self, other))

    def __rsub__(self, other: float) -> Term:
        return _apply("sub", (other, self))

    def __mul__(self, other: Number) -> Term:
        return _apply("mul", (self, other))

    def __rmul__(self, other: float) -> Term:
        return _apply("mul", (other, self))

    def __truediv__(self, other: Number) -> Term:
        return _apply("div", (self, other))

    def __rtruediv__(self, other: float) -> Term:
        return _apply("div", (other, self))

    def __neg__(self) -> Term:
        return _apply("neg", (self,))

    def __abs__(self) -> Term:
        return _apply("abs", (self,))

    def __lt__(self, other: Number) -> Term:
        return _apply("lt", (self, other))

    def __le__(self, other: Number) -> Term:
        return _apply("le", (self, other))

    def __gt__(self, other: Number) -> Term:
        return _apply("lt", (other, self))

    def __ge__(self, other: Number) -> Term:
        return _apply("le", (other, self))

    def __and__(self, other: Term) -> Term:
        return _apply("and", (self, other))

    def __or__(self, other: Term) -> Term:
        return _apply("or", (self, other))

    def __invert__(self) -> Term:
        return _apply("not", (self,))

    def equals(self, other: Number) -> Term:
        """Whether two numbers are equal (``==`` keeps Python's meaning)."""
        return _apply("eq", (self, other))

    def power(self, exponent: int) -> Term:
        """An integer power by squaring; negative ones are reciprocals."""
        if exponent < 0:
            return 1.0 / self.power(-exponent)
        result: Term | None = None
        square = self
        while exponent:
            if exponent % 2:
                result = square if result is None else result * square
            exponent //= 2
            square = square * square if exponent else square
        return self * 0.0 + 1.0 if result is None else result


def _apply(op: str, args: Sequence[Number]) -> Term:
    values = [arg.value if isinstance(arg, Term) else arg for arg in args]
    if any(isinstance(value, np.ndarray | np.generic) for value in values):
        return Term(_NUMPY[op](*values))
    exprs = [Const(float(v), float64) if isinstance(v, int | float) else v for v in values]
    return Term(apply(op, *exprs, dtype=bool_ if op in _TESTS else exprs[-1].dtype))  # type: ignore[arg-type]


def where(condition: Term, chosen: Number, other: Number) -> Term:
    """``chosen`` where the condition holds, else ``other``."""
    return _apply("select", (condition, chosen, other))


def constant_term(like: Term, value: float) -> Term:
    """A constant read as ``like`` is."""
    if isinstance(like.value, np.ndarray | np.generic):
        return Term(np.asarray(value))
    return Term(Const(value, float64))


def polynomial(t: Term, coefficients: Sequence[float]) -> Term:
    """``c0 + c1 t + c2 t**2 + …`` by Horner's rule, each step rounded once where compiled."""
    total = constant_term(t, coefficients[-1])
    for c in reversed(coefficients[:-1]):
        total = total.call("fma", t, c)
    return total


@dataclass(frozen=True, slots=True)
class Formula(Elementwise):
    """An elementwise primitive that is given by ``formula``; see the module."""

    cost: ClassVar[int] = 60
    widens: ClassVar[bool] = False  # float64 is wide enough for all
    sample_rtol: ClassVar[float | None] = 2e-12

    def formula(self, *x: Term) -> Term:
        """The function of the inputs."""
        raise MissingRuleError(self.name, "evaluation", "formula")

    def single(self, *x: Term) -> Term:
        """The function for results of float32 and less: an error of 1e-10 is none there."""
        return self.formula(*x)

    def _chosen(self, dtype: DType) -> Callable[..., Term]:
        return self.formula if dtype is float64 else self.single

    def reference(self, *arrays: Array, shape: tuple[int, ...], dtype: DType) -> Array:
        """The formula on arrays."""
        with np.errstate(all="ignore"):
            terms = [Term(np.asarray(array, np.float64)) for array in arrays]
            value = np.asarray(self._chosen(dtype)(*terms).value, np.float64).astype(dtype.numpy)
        return np.broadcast_to(value, shape)

    def expr(self, node: Node, values: Sequence[Expr]) -> Expr:
        """The formula on expressions."""
        value = self._chosen(node.dtype)(*(Term(cast(v, float64)) for v in values)).value
        if isinstance(value, np.ndarray):  # only for a formula that uses no input
            raise MissingRuleError(self.name, "compilation", "expr")
        return value
