"""What a compiled function takes for granted of sizes that change: that a slice lies within its
axis, that an axis which is indexed, or whose largest element is taken, has elements, and that no
size is negative.

Input: the graph of a trace. Output: :class:`Extents`, which refuses the sizes of a call that the
program would read or write memory beyond its arrays for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from lamella.errors import LamellaIndexError, ShapeError
from lamella.graph.loops import Loop
from lamella.ir.dim import Dim, Shape, Size, bind, product
from lamella.ir.node import Node, topological
from lamella.ir.subgraph import Subgraph
from lamella.ops.calls import Call
from lamella.ops.gathering import Gather
from lamella.ops.scattering import Scatter
from lamella.ops.slicing import Slice, UpdateSlice
from lamella.ops.validate import known_number

__all__ = ["Expected", "Extents"]

MOST: Final = 1024  # sizes that are remembered
Expected = tuple[Shape, Callable[[Shape], None]]


@dataclass(frozen=True, slots=True)
class _Region:
    """Positions ``start + k * stride``, k from 0 to ``length`` - 1, of an axis of ``size``."""

    size: Dim
    axis: int
    start: int
    length: Size
    stride: int

    def check(self, sizes: Mapping[str, int]) -> None:
        """Refuse sizes for which it does not lie within the axis."""
        size, length = bind(self.size, sizes), bind(self.length, sizes)
        last = self.start + (length - 1) * self.stride
        if length > 0 and not (0 <= self.start < size and 0 <= last < size):
            raise LamellaIndexError(
                f"[jit] a compiled function takes positions {self.start} to {last} of axis "
                f"{self.axis}, whose size {self.size} is {size} in this call; pass more, or leave "
                "that axis out of dynamic=..."
            )


class Extents:
    """The conditions of a graph with symbolic sizes; they are looked at once for each sizes.

    Args:
        roots: the graph.
        expected: shapes with what raises for some of them.
    """

    def __init__(self, roots: Sequence[Node], expected: Sequence[Expected] = ()) -> None:
        self._expected = expected
        self._regions: set[_Region] = set()
        self._sizes: set[Dim] = set()
        self._fitting: set[tuple[int, ...]] = set()
        self._misfits: dict[tuple[int, ...], str] = {}
        self._visit(roots, {})

    def misfit(self, sizes: Mapping[str, int], suits: Callable[[Mapping[str, int]], bool]) -> str:
        """Why the program cannot run with these sizes, or is another one; "" if it can."""
        values = tuple(sizes.values())
        found = self._misfits.get(values)
        if found is None:
            found = "" if suits(sizes) else "other sizes are computed with in another way"
            try:
                self.check(sizes)
            except (LamellaIndexError, ShapeError) as error:
                found = str(error)
            if len(self._misfits) >= MOST:
                self._misfits.clear()
            self._misfits[values] = found
        return found

    def check(self, sizes: Mapping[str, int]) -> None:
        """Refuse sizes that the program cannot run with.

        Raises:
            LamellaIndexError: if a slice or an index lies outside its axis.
            ShapeError: if a size would be negative, or an axis has no elements that must have some.
        """
        values = tuple(sizes.values())
        if values in self._fitting:
            return
        for region in self._regions:
            region.check(sizes)
        for size in self._sizes:
            if bind(size, sizes) < 0:
                raise ShapeError(
                    f"[jit] the size {size} of a compiled function is {bind(size, sizes)} in this "
                    "call, and sizes are 0 or more; pass more, or leave that axis out of "
                    "dynamic=..."
                )
        for shape, check in self._expected:
            check(tuple([bind(size, sizes) for size in shape]))
        self._fitting.add(values)

    def _visit(self, roots: Sequence[Node], known: Mapping[Node, int]) -> None:
        """``known`` are the numbers among a subgraph's inputs."""

        def number(node: Node) -> int | None:
            return known[node] if node in known else known_number(node)

        for node in topological(roots):
            self._sizes.update(size for size in node.shape if isinstance(size, Dim))
            if isinstance(node.op, Slice):
                x, *starts = node.inputs
                self._take(x.shape, node.shape, map(number, starts), node.op.strides)
            elif isinstance(node.op, UpdateSlice):
                x, update, *starts = node.inputs
                self._take(x.shape, update.shape, map(number, starts), node.op.strides)
            elif isinstance(node.op, Gather | Scatter):
                x, index, *_ = node.inputs
                size, lead = x.shape[node.op.lead], node.op.lead
                if isinstance(size, Dim):  # an axis without elements has nothing to index
                    self._regions.add(_Region(size, lead, 0, product(index.shape), 0))
            elif isinstance(node.op, Call):
                self._enter(node.op, [number(each) for each in node.inputs])

    def _enter(self, call: Call, numbers: Sequence[int | None]) -> None:
        """Visit the subgraphs of a call: their inputs are its last ones, but the first of a loop's
        are the same at every turn.
        """

        def visit(graph: Subgraph) -> Subgraph:
            if isinstance(call, Loop):
                given = numbers[call.counted : call.counted + call.constants]
            else:
                given = numbers[len(numbers) - len(graph.inputs) :]
            named = zip(graph.inputs, given, strict=False)
            self._visit(graph.outputs, {node: n for node, n in named if n is not None})
            return graph

        call.over_graphs(visit)

    def _take(
        self, shape: Shape, region: Shape, starts: Iterable[int | None], strides: Sequence[int]
    ) -> None:
        parts = zip(shape, starts, region, strides, strict=True)
        for axis, (size, start, length, stride) in enumerate(parts):
            if isinstance(size, Dim) and start is not None:
                self._regions.add(_Region(size, axis, start, length, stride))
