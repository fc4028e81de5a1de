"""Powers with any exponent, elementwise: floating point and integers."""
from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from lamella import ops
from lamella.dtypes import FLOATS, INTEGERS
from lamella.ir.node import Node
from lamella.ops import complex_parts
from lamella.ops.arithmetic import like, multiply, subtract
from lamella.ops.base import Array, Needs, Sample
from lamella.ops.comparison import equal, where
from lamella.ops.exponential import log
from lamella.ops.families import Elementwise, binary, unbroadcast
from lamella.ops.leaf import Constant
from lamella.ops.sampling import binary_samples

__all__ = ["Pow", "pow"]


@dataclass(frozen=True, slots=True)
class Pow(Elementwise):
    """``a ** b``; integers wrap, a negative exponent gives 0 (1 and -1 keep their powers)."""

    name: ClassVar[str] = "pow"
    kinds: ClassVar[str] = "iufc"
    split = staticmethod(complex_parts.pow)
    cost: ClassVar[int] = 40

    @staticmethod
    def compute(a: Array, b: Array) -> Array:
        """``np.power``, total for integers."""
        return np.asarray(np.power(a, b)) if a.dtype.kind in "fc" else _integer_power(a, b)

    def vjp(self, node: Node, cotangent: Node, needs: Needs) -> Sequence[Node | None]:
        """The partial by an exponent is only made when it is asked for: it takes a logarithm."""
        found: list[Node | None] = [None, None]
        for position, partial in enumerate((_by_base, _by_exponent)):
            if needs[position]:
                term = multiply(cotangent, ops.conj(partial(node)))
                found[position] = unbroadcast(term, node.inputs[position])
        return found

    def partials(self, node: Node) -> Sequence[Node | None]:
        """``b * a ** (b - 1)``, a ** b * log(a); 0 where b == 0, and by b where a == 0."""
        return _by_base(node), _by_exponent(node)

    @classmethod
    def samples(cls) -> Iterator[Sample]:
        """Positive bases; integer exponents with any base; integers."""
        yield from binary_samples(pow, FLOATS, low=0.5, high=2.0)
        yield from binary_samples(pow, INTEGERS)
        for exponent in (0.0, 1.0, 2.0, 3.0, -2.0):
            yield Sample(
                ((7,),), lambda x, e=exponent: pow(x, like(x, e)), FLOATS, low=-2.0, high=-0.5,
                note=f"negative base to {exponent}",
            )  # fmt: skip


def _by_base(node: Node) -> Node:
    a, b = node.inputs
    zero = equal(b, like(b, 0))
    # The exponent is replaced where the result is not used, so that no inf or nan arises there.
    lower = where(zero, like(b, 1), subtract(b, like(b, 1)))
    return where(zero, like(b, 0), multiply(b, pow(a, lower)))


def _by_exponent(node: Node) -> Node:
    a = node.inputs[0]
    zero = equal(a, like(a, 0))
    slope = multiply(node, log(where(zero, like(a, 1), a)))
    return where(zero, like(a, 0), slope)


def _integer_power(a: Array, b: Array) -> Array:
    a, b = np.broadcast_arrays(a, b)
    negative_exponent = b < 0
    result = np.ones_like(a)
    base, left = a.copy(), np.where(negative_exponent, b.dtype.type(0), b)
    while np.any(left > 0):
        result = np.where(left & 1, result * base, result)
        base, left = base * base, left >> 1
    unit = np.where(a == 1, a, np.where((a.astype(np.int64) == -1) & (a.dtype.kind == "i"),
                                        np.where(b & 1, a, -a), np.zeros_like(a)))  # fmt: skip
    return np.where(negative_exponent, unit, result).astype(a.dtype)


_POW = Pow()


def pow(a: Node, b: Node) -> Node:
    """``a ** b``; a literal exponent 1 or 2 gives ``a`` or ``a * a``.

    >>> from lamella import dtypes, ops
    >>> pow(ops.constant(3, dtypes.float64), ops.constant(2, dtypes.float64)).op
    Multiply()
    """
    if type(b.op) is Constant and a.dtype is b.dtype and a.dtype.kind == "f":
        if b.op.value == 1:
            return a
        if b.op.value == 2:
            return multiply(a, a)
    return binary(_POW, a, b)
