"""``checkpoint``: derivatives that compute values again instead of keeping them.

Input: a function, and what its derivative may keep: by a policy, or as much as fits a memory
budget. Output: a function with the same results and derivatives. The choice of what to compute
again is that of selective rematerialisation: the values that are cheapest to make again for the
bytes they take go first (Chen et al., 2016, arXiv:1604.06174; Jain et al., 2020,
arXiv:1910.02653, whose exact optimum is replaced by the greedy order).
"""
from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from lamella import ops, tree
from lamella.errors import OptionError
from lamella.graph.cut import forward_nodes, read_by
from lamella.graph.inlined import Checkpoint
from lamella.graph.replay import Recording, subgraph_of, twins
from lamella.graph.reverse import vjp
from lamella.ir.dim import typical
from lamella.ir.node import Node, gradient_mode, topological
from lamella.ir.subgraph import Subgraph
from lamella.ops.calls import call
from lamella.tensor.core import node_of, wrap
from lamella.tensor.operands import TensorLike, as_node
from lamella.tensor.tensor import Tensor
from lamella.transforms.bodies import trace
from lamella.transforms.calls import Inputs
from lamella.transforms.signature import check_budget

__all__ = ["checkpoint", "checkpoint_name", "checkpoint_policies"]

Function = Callable[..., Any]
Policy = Callable[[Node], bool]


class checkpoint_policies:  # noqa: N801 - a namespace of functions
    """What a checkpointed function keeps for its derivative.

    A policy takes a node of the function's graph and says whether its value is kept.
    """

    @staticmethod
    def nothing_saveable(node: Node) -> bool:
        """Nothing but the arguments."""
        return False

    @staticmethod
    def everything_saveable(node: Node) -> bool:
        """All that the derivative reads."""
        return True

    @staticmethod
    def dots_saveable(node: Node) -> bool:
        """Results of matrix products and convolutions."""
        return node.op.kind == "contraction"

    @staticmethod
    def save_only_these_names(*names: str) -> Policy:
        """Values that :func:`checkpoint_name` gave one of ``names``."""
        return lambda node: node.op.name == "label" and node.op.text in names  # type: ignore[attr-defined]

    @staticmethod
    def save_any_names_but_these(*names: str) -> Policy:
        """Values with a name, but for ``names``."""
        return lambda node: node.op.name == "label" and node.op.text not in names  # type: ignore[attr-defined]


def checkpoint_name(x: TensorLike, name: str) -> Tensor:
    """``x`` under a name that policies know it by.

    >>> import lamella as lm
    >>> checkpoint_name(lm.ones(2), "hidden").tolist()
    [1.0, 1.0]
    """
    return wrap(ops.label(as_node(x), name))


def checkpoint(
    f: Function | None = None, *, policy: Policy | None = None, memory_budget: int | None = None
) -> Any:
    """``f``, whose derivative computes intermediate values again instead of keeping them.

    Args:
        f: a function of trees of tensors and other values, or a module. Random numbers and running
            statistics in it are drawn and updated once, effects (``io_callback``, ``debug_print``,
            ``check``) had once: what they return is kept.
        policy: which values are kept all the same, one of :class:`checkpoint_policies`; by default
            none is.
        memory_budget: bytes that intermediate values of ``f`` and its derivative may take at once,
            by the plan of the compiled program. Values are kept as far as that allows, those that
            are dearest to compute again for their size first.

    Raises:
        OptionError: for a budget that cannot be kept even if nothing is, or one together with a
            policy.

    >>> import lamella as lm
    >>> f = checkpoint(lambda x: lm.sum(lm.sin(lm.sin(x))))
    >>> lm.grad(f)(lm.zeros(2)).tolist()
    [1.0, 1.0]
    """
    if f is None:
        return functools.partial(checkpoint, policy=policy, memory_budget=memory_budget)
    if not callable(f):
        raise OptionError(f"[checkpoint] {type(f).__name__} cannot be called; pass a function")
    if policy is not None and memory_budget is not None:
        raise OptionError("[checkpoint] policy and memory_budget exclude each other; give one")
    check_budget("checkpoint", memory_budget)
    if policy is not None and not callable(policy):
        raise OptionError(
            f"[checkpoint] policy={policy!r} is no function; take one of lm.checkpoint_policies"
        )

    @functools.wraps(f, updated=())
    def run(*args: Any, **options: Any) -> Any:
        inputs = Inputs((args, options), floating=False)

        def on_tensors(tensors: Sequence[Any]) -> Any:
            given, named = inputs.with_tensors(tensors)
            return f(*given, **named)

        if not gradient_mode.enabled:
            return on_tensors(inputs.tensors)
        return _record(on_tensors, inputs.tensors, policy, memory_budget)

    return run


def _record(
    f: Function, tensors: Sequence[Tensor], policy: Policy | None, budget: int | None
) -> Any:
    body = trace("checkpoint", lambda *given: f(given), tensors, effects=True)
    kept = body.returned
    fuller, outside = subgraph_of(body.arguments, [*body.outputs, *kept], own=body.calls)
    graph = Subgraph(fuller.inputs, fuller.outputs[: len(body.outputs)])
    effects = fuller.outputs[len(body.outputs) :]
    given = [*map(node_of, tensors), *map(node_of, body.states)]
    keep = _chosen(graph, policy) if budget is None else _within(graph, len(given), budget)
    keep = list(dict.fromkeys([*effects, *keep]))
    found = call(_op(graph, keep, len(given)), *outside, *given)
    body.have(dict(zip(kept, found[len(body.outputs) :], strict=False)))
    count = len(body.outputs) - len(body.states)
    for state, node in zip(body.states, found[count : len(body.outputs)], strict=True):
        state.rebind(node)
    return tree.unflatten(body.structure, [wrap(node) for node in found[:count]])


def _op(graph: Subgraph, keep: Sequence[Node], arguments: int) -> Checkpoint:
    count = len(graph.outputs)
    body = Subgraph(graph.inputs, (*graph.outputs, *keep)) if keep else graph
    return Checkpoint(body, count=count, arguments=arguments)


def _chosen(graph: Subgraph, policy: Policy | None) -> list[Node]:
    """What a policy keeps."""
    if policy is None or policy is checkpoint_policies.nothing_saveable:
        return []
    if policy is checkpoint_policies.everything_saveable:
        return _read(graph)
    order = topological(graph.outputs, stop=graph.inputs)
    return [n for n in order if n not in graph.inputs and n.inputs and policy(n)]


def _derivative(graph: Subgraph) -> tuple[list[Node], list[Node]]:
    """Cotangents of a graph's inputs, from placeholders for those of its outputs."""
    with Recording():
        seeds = twins(graph.outputs)
        wanted = [n for n in graph.inputs if n.dtype.inexact]
        found = vjp(graph.outputs, [s if s.dtype.inexact else None for s in seeds], wanted)
    return [ct for ct in found if ct is not None], seeds


def _read(graph: Subgraph) -> list[Node]:
    """What a derivative that keeps everything reads of the values between."""
    found, _ = _derivative(graph)
    forward = forward_nodes(graph.outputs, graph.inputs)
    read = read_by(found, forward, graph.inputs, lambda node: node.op.kind != "movement")
    return [n for n in read if n not in graph.inputs]


# -- within a budget -------------------------------------------------------------------------------
TRIES = 6  # numbers of values to keep that are tried


def _within(graph: Subgraph, arguments: int, budget: int) -> list[Node]:
    """The values to keep so that the planned memory of both passes fits, with least to do again."""
    found = graph.cache.get(("budget", budget))
    if isinstance(found, list):
        return found
    least = 0
    for keep in _choices(_read(graph)):
        need = _arena(graph, keep, arguments)
        if need <= budget:
            graph.cache[("budget", budget)] = keep
            return keep
        least = min(least or need, need)
    raise OptionError(
        f"[checkpoint] memory_budget={budget:,}, but the values between take {least:,} bytes at "
        "once even with the best choice that was found; raise it, or checkpoint smaller parts"
    )


def _choices(candidates: Sequence[Node]) -> list[list[Node]]:
    """Sets of values to keep, those that leave least to compute again first.

    The dearest for their size, in several numbers; and every second, third … of the products, so
    that what lies between is computed again a part at a time.
    """
    from lamella.compiler.costs import scalar_operations

    order = sorted(candidates, key=lambda n: -scalar_operations(n) / max(_nbytes(n), 1))
    count = len(order)
    found = [order[: -(-count * part // TRIES)] for part in range(TRIES, -1, -1)]
    products = [n for n in candidates if n.op.kind == "contraction"]
    found += [products[step - 1 :: step] for step in (1, 2, 3, 4, 6) if len(products) >= step]
    return sorted(found, key=lambda keep: -sum(map(scalar_operations, keep)))


def _nbytes(node: Node) -> int:
    return typical(node.size) * node.dtype.itemsize


def _arena(graph: Subgraph, keep: Sequence[Node], arguments: int) -> int:
    """Bytes of values between, at once, in a program of both passes."""
    from lamella.compiler.memory import assign
    from lamella.compiler.pipeline import compile_graph
    from lamella.runtime.program import target

    inputs = twins(graph.inputs)
    with Recording():
        made = call(_op(graph, keep, arguments), *inputs)[: len(graph.outputs)]
        seeds = twins(made)
        wanted = [n for n in inputs if n.dtype.inexact]
        found = vjp(made, [s if s.dtype.inexact else None for s in seeds], wanted)
    outputs = [*made, *(ct for ct in found if ct is not None)]
    program = compile_graph(outputs, [*inputs, *seeds], [], target().unit)
    sizes = [typical(t.nbytes) for t in program.temporaries]
    return assign(program.temporaries, sizes)[1]
