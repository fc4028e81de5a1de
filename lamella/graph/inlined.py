"""Calls that are a graph of their own until they are compiled: functions with derivative or
batching rules of people's own, and functions whose values are computed again for derivatives.

Input: the function as a subgraph, and its rules. Output: a call node, which ``expand`` replaces by
the subgraph before anything is compiled.
"""
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

from lamella import ops
from lamella.errors import GradientError, MissingRuleError
from lamella.graph.batch import batch
from lamella.graph.cut import forward_nodes
from lamella.graph.effects import conditional, interpreted
from lamella.graph.forward import jvp
from lamella.graph.loop_batch import batched_inputs, widened
from lamella.graph.replay import Recording, apply, replay, twins, with_sizes
from lamella.graph.reverse import vjp
from lamella.ir.dim import Size, typical, unify
from lamella.ir.node import Node, topological
from lamella.ir.subgraph import Subgraph
from lamella.ops.base import Array, Needs
from lamella.ops.calls import Call, Part, Result, call, is_token, part

__all__ = ["BatchRule", "Checkpoint", "Custom", "Inlined", "PushRule", "expand", "for_many"]

BatchRule = Callable[[Sequence[Node], Needs, Size], Sequence[Node]]
PushRule = Callable[[Sequence[Node], Sequence[Node]], Sequence[Node]]


@dataclass(frozen=True, slots=True)
class Inlined(Call):
    """A call of ``body``; by default its derivatives are the body's."""

    body: Subgraph

    def results(self, inputs: Sequence[Node]) -> tuple[Result, ...]:
        """The body's."""
        return tuple((node.shape, node.dtype) for node in self.body.outputs)

    def evaluate(self, node: Node, arrays: Sequence[Array]) -> tuple[Array, ...]:
        """The body, by the interpreter."""
        bound: dict[str, int] = {}
        for source, array in zip(node.inputs, arrays, strict=True):
            unify(source.shape, array.shape, bound)
        return tuple(interpreted(self.body, arrays, bound))

    def over_graphs(self, change: Callable[[Subgraph], Subgraph]) -> Inlined:
        """Another body."""
        return replace(self, body=change(self.body))

    @property
    def tokens(self) -> tuple[int, ...]:
        """The numbers of the body's results whose computation is an effect."""
        return tuple(i for i, node in enumerate(self.body.outputs) if is_token(node))

    def when(self, flag: Node, inputs: Sequence[Node]) -> tuple[Inlined, Sequence[Node]]:
        """The flag is one more constant from around it."""
        return replace(self, body=conditional(self.body)), [flag, *inputs]

    def bound(self, sizes: Mapping[str, int]) -> Call:
        """The call with numbers for size symbols."""
        return self.over_graphs(lambda graph: with_sizes(graph, sizes))

    def vjp_all(
        self, node: Node, cotangents: Sequence[Node | None], needs: Needs
    ) -> Sequence[Node | None]:
        """Through the body."""
        with Recording():
            inputs = twins(node.inputs)
            found = _pulled(apply(self.body, inputs), cotangents, inputs, needs)
        known = dict(zip(inputs, node.inputs, strict=True))
        return _given(found, known | {ct: ct for ct in cotangents if ct is not None})

    def jvp_all(self, node: Node, tangents: Sequence[Node | None]) -> Sequence[Node | None]:
        """Through the body."""
        with Recording():
            inputs = twins(node.inputs)
            found = jvp(apply(self.body, inputs), inputs, tangents)
        known = dict(zip(inputs, node.inputs, strict=True))
        return _given(found, known | {t: t for t in tangents if t is not None})

    def batch_all(
        self, node: Node, args: Sequence[Node], batched: Needs, size: Size
    ) -> Sequence[Node]:
        """The batched bodies, called by the same rules. Every input of which there are derivatives
        is widened.
        """
        has = _widens(args, batched)
        wide = [
            widened(arg, size) if on and not had else arg
            for arg, on, had in zip(args, has, batched, strict=True)
        ]
        return call(self.over_graphs(lambda graph: _batched(graph, has, size)), *wide)


def _pulled(
    outputs: Sequence[Node], cotangents: Sequence[Node | None], inputs: Sequence[Node],
    needs: Needs,
) -> list[Node | None]:  # fmt: skip
    wanted = [n for n, need in zip(inputs, needs, strict=True) if need and n.dtype.inexact]
    found = dict(zip(wanted, vjp(outputs, cotangents, wanted), strict=True))
    return [found.get(n) for n in inputs]


def _given(found: Sequence[Node | None], known: Mapping[Node, Node]) -> list[Node | None]:
    """Derivatives made on placeholders, on the real nodes."""
    made = iter(replay([node for node in found if node is not None], known))
    return [None if node is None else next(made) for node in found]


def _widens(args: Sequence[Node], batched: Needs) -> list[bool]:
    """Which inputs of a call have the new axis in its bodies: not numbers that name functions."""
    return [has or arg.dtype.inexact for arg, has in zip(args, batched, strict=True)]


def _batched(graph: Subgraph, has: Sequence[bool], size: Size) -> Subgraph:
    """A graph whose outputs have the new axis, and the first inputs where ``has`` says, the others
    all.
    """
    with Recording():
        more = [True] * (len(graph.inputs) - len(has))
        many = batched_inputs(graph, [*has, *more], size)
        found = batch(graph.outputs, many, size)
        outputs = [node if wide else widened(node, size) for node, wide in found]
    return Subgraph([many.get(n, n) for n in graph.inputs], outputs)


# -- rules of people's own -------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Custom(Inlined):
    """A function with rules of its own.

    ``count``: its results; those of the body beyond are what ``pull`` reads. ``pull``: inputs
    (inputs, results beyond, cotangents of floating results) to cotangents of floating inputs.
    ``push``: a function of inputs and of tangents of floating inputs, to those of floating results;
    it is called when a derivative is taken, for it may use the function itself.
    ``fixed``: inputs that the rules do not differentiate by. ``rule`` is the batching rule.
    """

    name: ClassVar[str] = ""
    count: int = 0
    pull: Subgraph | None = None
    push: PushRule | None = field(default=None, compare=False, repr=False)
    fixed: int = 0
    rule: BatchRule | None = field(default=None, compare=False, repr=False)

    def over_graphs(self, change: Callable[[Subgraph], Subgraph]) -> Custom:
        """Other bodies and rules."""
        pull = None if self.pull is None else change(self.pull)
        return replace(self, body=change(self.body), pull=pull)

    def _moving(self, nodes: Sequence[Node]) -> list[int]:
        """The numbers of the inputs that derivatives are taken by."""
        return [i for i, n in enumerate(nodes) if i >= self.fixed and n.dtype.inexact]

    def vjp_all(
        self, node: Node, cotangents: Sequence[Node | None], needs: Needs
    ) -> Sequence[Node | None]:
        """By ``pull``, else by the transpose of ``push``."""
        if self.pull is None and self.push is None:
            return Inlined.vjp_all(self, node, cotangents, needs)
        if any(needs[: self.fixed]):
            raise GradientError(
                "[custom derivative] the function closes over a tensor that requires a gradient, "
                "which its rule does not give; pass the tensor as an argument"
            )
        outputs = self.body.outputs[: self.count]
        seeds = [
            ct if ct is not None else ops.full(0, out.shape, out.dtype)
            for ct, out in zip(cotangents, outputs, strict=False) if out.dtype.inexact
        ]  # fmt: skip
        beyond = [part(node, i) for i in range(self.count, len(self.body.outputs))]
        if self.pull is not None:
            made = apply(self.pull, [*node.inputs, *beyond, *seeds])
        else:
            made = self._transposed(node, seeds)
        found: list[Node | None] = [None] * len(needs)
        for i, ct in zip(self._moving(node.inputs), made, strict=True):
            found[i] = ct if needs[i] else None
        return self._with_beyond(node, cotangents, needs, found)

    def _transposed(self, node: Node, seeds: Sequence[Node]) -> list[Node]:
        if self.push is None:
            raise MissingRuleError(self.name, "reverse-mode differentiation", "push")
        moving = [node.inputs[i] for i in self._moving(node.inputs)]
        with Recording():
            tangents = twins(moving)
            outputs = self.push(node.inputs, tangents)
            found = vjp(outputs, seeds, tangents)
        zeros = [ops.full(0, t.shape, t.dtype) for t in tangents]
        known = dict(zip(tangents, zeros, strict=True))
        known |= {n: n for n in (*node.inputs, *seeds)}
        made = _given(found, known)
        return [ct or zero for ct, zero in zip(made, zeros, strict=True)]

    def _with_beyond(
        self, node: Node, cotangents: Sequence[Node | None], needs: Needs,
        found: list[Node | None],
    ) -> list[Node | None]:  # fmt: skip
        """What the rule kept has derivatives too, where the rule's result is differentiated."""
        later = [None] * self.count + list(cotangents[self.count :])
        if all(ct is None for ct in later):
            return found
        more = Inlined.vjp_all(self, node, later, needs)
        return [
            a if b is None else b if a is None else ops.add(a, b)
            for a, b in zip(found, more, strict=True)
        ]

    def jvp_all(self, node: Node, tangents: Sequence[Node | None]) -> Sequence[Node | None]:
        """By ``push``."""
        if self.pull is None and self.push is None:
            return Inlined.jvp_all(self, node, tangents)
        results: list[Node | None] = [None] * len(self.body.outputs)
        if all(t is None for t in tangents):
            return results
        if self.push is None or any(t is not None for t in tangents[: self.fixed]):
            raise GradientError(
                "[custom derivative] forward mode through a function whose rule is for reverse "
                "mode (lm.custom_vjp), or that closes over what moves; use lm.custom_jvp, and pass "
                "tensors as arguments"
            )
        along = [
            tangents[i] or ops.full(0, node.inputs[i].shape, node.inputs[i].dtype)
            for i in self._moving(node.inputs)
        ]
        made = iter(self.push(node.inputs, along))
        for i, out in enumerate(self.body.outputs[: self.count]):
            results[i] = next(made) if out.dtype.inexact else None
        return results

    def batch_all(
        self, node: Node, args: Sequence[Node], batched: Needs, size: Size
    ) -> Sequence[Node]:
        """By ``rule``, else body and rules batched."""
        if self.rule is not None:
            return self.rule(args, batched, size)
        has = _widens(args, batched)
        push = None if self.push is None else _batched_push(self.push, has, size)
        return Inlined.batch_all(replace(self, push=push), node, args, batched, size)


def _batched_push(push: PushRule, has: Sequence[bool], size: Size) -> PushRule:
    def rule(inputs: Sequence[Node], tangents: Sequence[Node]) -> Sequence[Node]:
        wide = [*has, *[True] * len(tangents)]
        split = lambda nodes: push(nodes[: len(inputs)], nodes[len(inputs) :])  # noqa: E731
        return [n for n in for_many(split, [*inputs, *tangents], wide, size) if n is not None]

    return rule


def for_many(
    rule: Callable[[Sequence[Node]], Sequence[Node | None]], given: Sequence[Node],
    has: Sequence[bool], size: Size,
) -> list[Node | None]:  # fmt: skip
    """What ``rule`` makes of one example's nodes, for many: all results have the new axis, and
    those ``given`` nodes that ``has`` says.
    """
    single = [
        ops.placeholder(n.shape[1:], n.dtype, n.dtype.inexact) if on else n
        for n, on in zip(given, has, strict=True)
    ]
    with Recording():
        made = rule(single)
    many = {a: b for a, b in zip(single, given, strict=True) if a is not b}
    found = iter(batch([n for n in made if n is not None], many, size))
    wide = (None if n is None else next(found) for n in made)
    return [None if w is None else w[0] if w[1] else widened(w[0], size) for w in wide]


# -- computing again -------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Checkpoint(Inlined):
    """A function whose derivative computes its values again.

    ``count``: its results; those of the body beyond are kept for the derivative, what effects
    returned among them. ``arguments``: the inputs (the last ones) that are no constants from around
    it.
    """

    name: ClassVar[str] = ""
    count: int = 0
    arguments: int = 0

    def vjp_all(
        self, node: Node, cotangents: Sequence[Node | None], needs: Needs
    ) -> Sequence[Node | None]:
        """Through the body, computed again from its inputs and from what was kept."""
        with Recording():
            inputs = twins(node.inputs)
            outputs = apply(self.body, inputs)
            found = _pulled(outputs, cotangents, inputs, needs)
        kept = [ops.again(part(node, i)) for i in range(self.count, len(outputs))]
        again = _apart(self.body, node.inputs, self.arguments)
        known = dict(zip(inputs, again, strict=True))
        known |= zip(outputs[self.count :], kept, strict=True)
        return _given(found, known | {ct: ct for ct in cotangents if ct is not None})

    def jvp_all(self, node: Node, tangents: Sequence[Node | None]) -> Sequence[Node | None]:
        """Through the body, with what was kept."""
        with Recording():
            inputs = twins(node.inputs)
            outputs = apply(self.body, inputs)
            found = jvp(outputs, inputs, tangents)
        kept = [part(node, i) for i in range(self.count, len(outputs))]
        known = dict(zip(inputs, node.inputs, strict=True))
        known |= zip(outputs[self.count :], kept, strict=True)
        return _given(found, known | {t: t for t in tangents if t is not None})


def _apart(body: Subgraph, inputs: Sequence[Node], arguments: int) -> list[Node]:
    """The inputs, as few of the ``arguments`` as possible under another identity, but so many that
    every operation that depends on them is another one: nothing is merged with what was first.
    """
    first = len(inputs) - arguments
    reached = [forward_nodes(body.outputs, [n]) for n in body.inputs[first:]]
    needed = []
    for node in topological(body.outputs, stop=body.inputs):
        if node.op.kind not in ("movement", "leaf") and node not in body.inputs:
            users = frozenset(i for i, nodes in enumerate(reached) if node in nodes)
            if users:
                needed.append(users)
    chosen = set(range(arguments))
    sizes = [typical(n.size) * n.dtype.itemsize for n in inputs[first:]]
    for i in sorted(chosen, key=lambda i: -sizes[i]):
        if all(users & (chosen - {i}) for users in needed):
            chosen.remove(i)
    return [
        ops.again(n) if i >= first and i - first in chosen else n for i, n in enumerate(inputs)
    ]


# -- before compiling ------------------------------------------------------------------------------
def expand(outputs: Sequence[Node]) -> list[Node]:
    """The graph with the bodies of such calls in their place."""
    order = topological(outputs)
    if not any(isinstance(node.op, Inlined) for node in order):
        return list(outputs)
    new: dict[Node, Node] = {}
    results: dict[Node, list[Node]] = {}
    for node in order:
        if node.value is not None or not node.inputs:
            new[node] = node
            continue
        inputs = tuple(new[source] for source in node.inputs if source in new)
        if isinstance(node.op, Inlined):
            results[node] = expand(apply(node.op.body, inputs))
        elif isinstance(node.op, Part) and node.inputs[0] in results:
            new[node] = results[node.inputs[0]][node.op.index]
        elif inputs != node.inputs:
            new[node] = Node(node.op, inputs, node.shape, node.dtype)
            new[node].site = node.site
        else:
            new[node] = node
    return [new[node] for node in outputs]
