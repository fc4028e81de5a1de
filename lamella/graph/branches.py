"""The branch primitive: ``cond`` and ``switch`` as one node that runs one of its subgraphs.

Input: an index (0-d int64; it is clipped to the branches there are) and operands. Output: the
results of the chosen branch; all branches give the same shapes and dtypes. Derivatives are branches
again, which compute what they need of the forward branch anew. With an index for each example all
branches run, and each example takes the results of its own.
"""
from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from lamella import ops
from lamella.dtypes import float64, int64
from lamella.errors import ShapeError
from lamella.graph.batch import batch
from lamella.graph.effects import conditional, interpreted
from lamella.graph.forward import jvp
from lamella.graph.loop_batch import batched_inputs, like, widened
from lamella.graph.replay import (
    Recording,
    apply,
    replay,
    subgraph_of,
    twins,
    with_sizes,
)  # fmt: skip
from lamella.graph.reverse import vjp
from lamella.ir.dim import Size, unify
from lamella.ir.node import Node, topological
from lamella.ir.subgraph import Subgraph
from lamella.ops.base import PRIMITIVES, Array, Needs, Sample
from lamella.ops.calls import Call, Result, call, is_token, part

__all__ = ["Branch", "joined"]


@dataclass(frozen=True, slots=True)
class Branch(Call):
    """Runs ``branches[index]`` on the operands; see the module.

    The first results, as many as ``returned``, are what effects in any branch returned, for
    derivatives; zeros stand for them in the other branches.
    """

    name: ClassVar[str] = "branch"
    control: ClassVar[bool] = True
    branches: tuple[Subgraph, ...]
    returned: int = 0

    def __post_init__(self) -> None:
        """Branches may be given as text, as they are read from files."""
        given: tuple[Subgraph | str, ...] = self.branches
        found = tuple(Subgraph.parse(b, PRIMITIVES) if isinstance(b, str) else b for b in given)
        object.__setattr__(self, "branches", found)

    @property
    def tokens(self) -> tuple[int, ...]:
        """The numbers of the results whose computation is an effect in some branch."""
        kinds = zip(*(branch.outputs for branch in self.branches), strict=True)
        return tuple(i for i, nodes in enumerate(kinds) if any(map(is_token, nodes)))

    def when(self, flag: Node, inputs: Sequence[Node]) -> tuple[Branch, Sequence[Node]]:
        """The flag is one more operand."""
        return self.over_graphs(conditional), [inputs[0], flag, *inputs[1:]]

    def results(self, inputs: Sequence[Node]) -> tuple[Result, ...]:
        """Those of any branch."""
        return tuple((node.shape, node.dtype) for node in self.branches[0].outputs)

    def check(self, node: Node) -> None:
        """Every branch takes the operands, and gives the same kinds of results."""
        super(Branch, self).check(node)
        held = [(n.shape, n.dtype) for n in node.inputs[1:]]
        for branch in self.branches:
            wanted = [(n.shape, n.dtype) for n in branch.inputs]
            made = tuple((n.shape, n.dtype) for n in branch.outputs)
            if wanted != held or made != self.results(node.inputs):
                raise ShapeError(
                    f"[branch] a branch from {wanted} to {made} does not fit the operands {held} "
                    "and the other branches; all take and give the same"
                )

    def evaluate(self, node: Node, arrays: Sequence[Array]) -> tuple[Array, ...]:
        """The chosen branch, by the interpreter."""
        bound: dict[str, int] = {}
        for source, array in zip(node.inputs, arrays, strict=True):
            unify(source.shape, array.shape, bound)
        chosen = self.branches[min(max(int(arrays[0]), 0), len(self.branches) - 1)]
        return tuple(interpreted(chosen, arrays[1:], bound))

    def over_graphs(self, change: Callable[[Subgraph], Subgraph]) -> Branch:
        """Other branches."""
        return replace(self, branches=tuple(change(branch) for branch in self.branches))

    def bound(self, sizes: Mapping[str, int]) -> Branch:
        """The branches with numbers for size symbols."""
        return self.over_graphs(lambda graph: with_sizes(graph, sizes))

    # -- derivatives -------------------------------------------------------------------------------
    def vjp_all(
        self, node: Node, cotangents: Sequence[Node | None], needs: Needs
    ) -> Sequence[Node | None]:
        """The derivative of the chosen branch."""
        given = [i for i, ct in enumerate(cotangents) if ct is not None]
        with Recording():
            found = [_pulled(branch, self._held, given, needs[1:]) for branch in self.branches]
        cts = [ct for ct in cotangents if ct is not None]
        return [None, *_merged(found, [*node.inputs, *(part(node, i) for i in self._held), *cts])]

    def jvp_all(self, node: Node, tangents: Sequence[Node | None]) -> Sequence[Node | None]:
        """The tangents of the chosen branch."""
        moving = [i for i, t in enumerate(tangents[1:]) if t is not None]
        with Recording():
            found = [_pushed(branch, self._held, moving) for branch in self.branches]
        along = [t for t in tangents[1:] if t is not None]
        return _merged(found, [*node.inputs, *(part(node, i) for i in self._held), *along])

    @property
    def _held(self) -> list[int]:
        """The numbers of the results that derivatives must be given."""
        tokens = self.tokens if self.returned else ()
        return [i for i in range(self.returned) if i not in tokens]

    # -- batching ----------------------------------------------------------------------------------
    def batch_all(
        self, node: Node, args: Sequence[Node], batched: Needs, size: Size
    ) -> Sequence[Node]:
        """The batched branch; all of them where examples choose differently, with effects for those
        that choose it.
        """
        if not batched[0]:
            with Recording():
                made = [_batched(branch, batched[1:], size) for branch in self.branches]
            return call(replace(self, branches=tuple(made)), *args)
        last = len(self.branches) - 1
        found = []
        for number, branch in enumerate(self.branches):
            flag = [_chooses(args[0], number, last)] if self.tokens else []
            graph = conditional(branch) if flag else branch
            with Recording():
                many = _batched(graph, [True] * len(flag) + [*batched[1:]], size)
            found.append(apply(many, [*flag, *args[1:]]))
        return [_select(args[0], results) for results in zip(*found, strict=True)]

    def kept(
        self, node: Node, used: Sequence[int]
    ) -> tuple[Call, Sequence[Node], dict[int, int]] | None:
        """Branches to the results ``used``, of the operands that any of them needs."""
        used = sorted({*used, *self.tokens})
        if len(used) == len(self.branches[0].outputs):
            return None
        outputs = [[branch.outputs[i] for i in used] for branch in self.branches]
        needed = set()
        for branch, wanted in zip(self.branches, outputs, strict=True):
            below = set(topological(wanted, stop=branch.inputs))
            needed |= {i for i, n in enumerate(branch.inputs) if n in below}
        kept = sorted(needed)
        smaller = tuple(
            Subgraph([branch.inputs[i] for i in kept], wanted)
            for branch, wanted in zip(self.branches, outputs, strict=True)
        )
        inputs = [node.inputs[0], *(node.inputs[1 + i] for i in kept)]
        op = Branch(smaller, sum(i < self.returned for i in used))
        return op, inputs, {old: new for new, old in enumerate(used)}

    @classmethod
    def samples(cls) -> Iterator[Sample]:
        """Two branches."""

        def build(x: Node, y: Node) -> Node:
            sides = []
            for function in (ops.multiply, ops.subtract):
                a, b = twins([x, y])
                sides.append(Subgraph((a, b), (function(ops.sin(a), b),)))
            return call(Branch(tuple(sides)), ops.constant(0, int64), x, y)[0]

        yield Sample(((3,), (3,)), build, (float64,))


def joined(
    graphs: Sequence[tuple[Subgraph, list[Node]]]
) -> tuple[list[Subgraph], list[Node]]:
    """Subgraphs of (constants, arguments) with the constants of all of them, and those."""
    outside = list(dict.fromkeys(node for _, own in graphs for node in own))
    found = []
    for graph, own in graphs:
        known = dict(zip(own, graph.inputs, strict=False))
        constants = [known.get(n) or twins([n])[0] for n in outside]
        found.append(Subgraph([*constants, *graph.inputs[len(own) :]], graph.outputs))
    return found, outside


Derived = tuple[list[Node], list[Node | None]]


def _pulled(
    branch: Subgraph, held: Sequence[int], given: Sequence[int], needs: Needs
) -> Derived:
    """Inputs (operands, the results ``held``, cotangents) and the operands' cotangents."""
    inputs = twins(branch.inputs)
    outputs = apply(branch, inputs)
    seeds = twins([branch.outputs[i] for i in given])
    wanted = [n for n, need in zip(inputs, needs, strict=True) if need and n.dtype.inexact]
    found = vjp([outputs[i] for i in given], seeds, wanted)
    known = dict(zip(wanted, found, strict=True))
    return _given(inputs, [outputs[i] for i in held], seeds, [known.get(n) for n in inputs])


def _pushed(branch: Subgraph, held: Sequence[int], moving: Sequence[int]) -> Derived:
    """Inputs (operands, the results ``held``, tangents) and the results' tangents."""
    inputs = twins(branch.inputs)
    seeds = twins([inputs[i] for i in moving])
    outputs = apply(branch, inputs)
    found = jvp(outputs, [inputs[i] for i in moving], seeds)
    return _given(inputs, [outputs[i] for i in held], seeds, found)


def _given(
    inputs: Sequence[Node], results: Sequence[Node], seeds: Sequence[Node],
    found: Sequence[Node | None],
) -> Derived:  # fmt: skip
    """A derivative, and its inputs; it reads ``results`` as they were."""
    held = twins(results)
    given = [*inputs, *held, *seeds]
    if not held:
        return given, list(found)
    known = {n: n for n in given} | dict(zip(results, held, strict=True))
    made = iter(replay([n for n in found if n is not None], known))
    return given, [None if n is None else next(made) for n in found]


def _merged(derived: Sequence[Derived], given: Sequence[Node]) -> list[Node | None]:
    """One branch node over derivatives: where one of them has a value, the others give zeros."""
    count = len(derived[0][1])
    like = [next((d[1][i] for d in derived if d[1][i] is not None), None) for i in range(count)]
    places = [i for i, node in enumerate(like) if node is not None]
    if not places:
        return [None] * count
    graphs = []
    for inputs, found in derived:
        outputs = []
        for i in places:
            node, model = found[i], like[i]
            if node is None and model is not None:
                node = ops.full(0, model.shape, model.dtype)
            outputs.append(node)
        graphs.append(subgraph_of(inputs, [node for node in outputs if node is not None]))
    branches, outside = joined(graphs)
    made = iter(call(Branch(tuple(branches)), given[0], *outside, *given[1:]))
    return [next(made) if i in places else None for i in range(count)]


def _batched(branch: Subgraph, has: Sequence[bool], size: Size) -> Subgraph:
    """A branch for many examples, all its results with the new axis."""
    many = batched_inputs(branch, has, size)
    found = batch(branch.outputs, many, size)
    inputs = [many.get(n, n) for n in branch.inputs]
    fresh = twins(inputs)
    outputs = [node if wide else widened(node, size) for node, wide in found]
    return Subgraph(fresh, replay(outputs, dict(zip(inputs, fresh, strict=True))))


def _chooses(index: Node, number: int, last: int) -> Node:
    """Which examples choose a branch; an index outside is clipped."""
    zero, most = (ops.full(value, index.shape, index.dtype) for value in (0, last))
    own = ops.minimum(ops.maximum(index, zero), most)
    return ops.equal(own, ops.full(number, index.shape, index.dtype))


def _select(index: Node, results: Sequence[Node]) -> Node:
    """For each example the result of its own branch; an effect belongs to one branch."""
    token = next((node for node in results if is_token(node)), None)
    if token is not None:
        return token
    chosen = results[-1]
    for number in range(len(results) - 2, -1, -1):
        limit = ops.full(number, index.shape, index.dtype)
        mine = like(ops.less_equal(index, limit), chosen)
        chosen = ops.where(mine, results[number], chosen)
    return chosen
