"""Graph nodes as functions from indices to scalars: the one place where fusion is function
composition.

Input: a node and index expressions. Output: the scalar expression of that element, in which every
node of ``materialised`` is a
``Load`` from the buffer of its name and everything else has been composed in. Movement costs
nothing: it only changes indices.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lamella.dtypes import DType
from lamella.ir.dim import Shape
from lamella.ir.index import TRUE, both, linearise
from lamella.ir.loops import Apply, Const, Expr, Load, Param
from lamella.ir.node import Node
from lamella.ops.base import Index

__all__ = ["Elements", "ReadOf"]


@dataclass(frozen=True, slots=True)
class ReadOf:
    """One read of a materialised node: which, where (an index per axis), and the load that stands
    for it.
    """

    node: Node
    index: Index
    load: Load


class Argument:
    """A node as an ``ops.base.Element`` bound to the evaluation it takes part in."""

    __slots__ = ("_elements", "_node")

    def __init__(self, elements: Elements, node: Node) -> None:
        self._elements = elements
        self._node = node

    @property
    def shape(self) -> Shape:
        """The node's shape."""
        return self._node.shape

    @property
    def dtype(self) -> DType:
        """The node's dtype."""
        return self._node.dtype

    def __call__(self, index: Index) -> Expr:
        """The element at ``index``."""
        return self._elements.at(self._node, index)

    def guarded(self, condition: Expr, index: Index, fill: Expr) -> Expr:
        """The element at ``index`` where ``condition`` holds, else ``fill``."""
        return self._elements.guarded(self._node, condition, index, fill)


class Elements:
    """Composes elements. ``names`` gives the buffer of each materialised node, ``params`` that of
    each scalar leaf.
    """

    def __init__(self, names: Mapping[Node, str], params: Mapping[Node, str]) -> None:
        self.names = names
        self.params = params
        self.reads: list[ReadOf] = []
        self.mask: Expr = TRUE
        self._memo: dict[tuple[Node, Index, Expr], Expr] = {}

    def argument(self, node: Node) -> Argument:
        """``node`` as a function of indices."""
        return Argument(self, node)

    def at(self, node: Node, index: Index, top: bool = False) -> Expr:
        """The element of ``node`` at ``index``; ``top`` computes it even where it has a buffer."""
        key = (node, index, self.mask)
        found = None if top else self._memo.get(key)
        if found is None:
            found = self._compute(node, index, top)
            if not top:
                self._memo[key] = found
        return found

    def _compute(self, node: Node, index: Index, top: bool) -> Expr:
        name = None if top else self.names.get(node)
        if name is not None:
            return self._read(node, name, index)
        name = self.params.get(node)
        if name is not None:
            return Param(name, node.dtype)
        args: Sequence[Argument] = [Argument(self, source) for source in node.inputs]
        return node.op.element(node, args, index)

    def _read(self, node: Node, name: str, index: Index) -> Load:
        mask = None if self.mask == TRUE else self.mask
        load = Load(name, linearise(index, node.shape), node.dtype, mask)
        self.reads.append(ReadOf(node, index, load))
        return load

    def guarded(self, node: Node, condition: Expr, index: Index, fill: Expr) -> Expr:
        """The element where ``condition`` holds, else ``fill``: loads below take the condition as
        their mask.
        """
        if condition == TRUE:
            return self.at(node, index)
        outer = self.mask
        self.mask = both(outer, condition)
        try:
            value = self.at(node, index) if not _never(condition) else fill
        finally:
            self.mask = outer
        if value is fill:
            return fill
        if isinstance(value, Load) and value.other is None and _is_zero(fill):
            return value  # a masked load already gives zero where the condition fails
        return Apply("select", (condition, value, fill), value.dtype)


def _never(condition: Expr) -> bool:
    return isinstance(condition, Const) and not condition.value


def _is_zero(value: Expr) -> bool:
    return isinstance(value, Const) and value.value == 0 and str(value.value) != "-0.0"
