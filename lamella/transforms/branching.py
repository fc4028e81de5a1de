"""Choices that compile to native branches: ``cond`` and ``switch``.

Input: a condition or an index, and Python functions. Output: the results of the chosen one. Each
function is recorded once; when the program runs, only the chosen one is computed.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from lamella import ops, tree
from lamella.dtypes import bool_, int64, uint64
from lamella.errors import DTypeError, OptionError, ShapeError
from lamella.graph.branches import Branch, joined
from lamella.graph.replay import subgraph_of
from lamella.ir.node import Node
from lamella.ir.subgraph import Subgraph
from lamella.ops.calls import call
from lamella.tensor.core import TensorCore, describe, node_of, wrap
from lamella.tensor.tensor import Tensor
from lamella.transforms.bodies import Body, as_tensors, compiled_once, trace

__all__ = ["cond", "switch"]

Function = Callable[..., Any]


def cond(pred: Any, true_fun: Function, false_fun: Function, *operands: Any) -> Any:
    """``true_fun(*operands)`` where ``pred`` holds, else ``false_fun(*operands)``.

    Only the chosen function is computed. Under ``vmap`` with a condition for each example both are,
    and each example takes its own, with its effects (``io_callback``, ``debug_print``, ``check``).
    The derivative computes what it needs of the chosen function again.

    Args:
        pred: one boolean (or integer: other than 0), a tensor or a Python value.
        true_fun: a function of the operands.
        false_fun: one that returns a tree of the same structure, shapes and dtypes.
        operands: trees of tensors; functions may also close over tensors.

    Raises:
        ShapeError, DTypeError, OptionError: if the functions' results differ, or ``pred`` is not
            one boolean.

    >>> import lamella as lm
    >>> f = lm.jit(lambda x: cond(x > 0, lambda x: x * 2, lambda x: -x, x))
    >>> f(lm.asarray(3.0)).item(), f(lm.asarray(-3.0)).item()
    (6.0, 3.0)
    """
    if isinstance(pred, (bool, int)):
        return (true_fun if pred else false_fun)(*operands)
    node = _number("cond", "pred", pred)
    if node.dtype.kind not in "biu":
        raise DTypeError(
            f"[cond] pred is {node.dtype.name}; compare it with something, as in x > 0"
        )
    flag = node if node.dtype is bool_ else ops.not_equal(node, ops.full(0, (), node.dtype))
    return _choose("cond", ops.cast(flag, int64), [false_fun, true_fun], operands)


def switch(index: Any, branches: Sequence[Function], *operands: Any) -> Any:
    """``branches[index](*operands)``; an index outside is clipped to the first or the last.

    Only the chosen function is computed, as in :func:`cond`.

    Raises:
        OptionError: if there are no branches.
        ShapeError, DTypeError: if their results differ, or ``index`` is not one integer.

    >>> import lamella as lm
    >>> switch(lm.asarray(1), [lambda x: x, lambda x: x + 10], lm.asarray(1.0)).item()
    11.0
    """
    functions = list(branches)
    if not functions:
        raise OptionError("[switch] there are no branches; give at least one function")
    if isinstance(index, int):
        return functions[min(max(index, 0), len(functions) - 1)](*operands)
    node = _number("switch", "index", index)
    if node.dtype.kind not in "iu":
        raise DTypeError(f"[switch] index is {node.dtype.name}; give an integer")
    if node.dtype is uint64:  # what int64 cannot hold would turn negative
        node = ops.minimum(node, ops.constant(len(functions) - 1, uint64))
    return _choose("switch", ops.cast(node, int64), functions, operands)


def _number(name: str, what: str, value: Any) -> Node:
    """The 0-d node of a single number."""
    (tensor,) = tree.leaves(as_tensors(name, [value])) or [None]
    if not isinstance(tensor, Tensor) or tensor.node.size != 1:
        shape = describe(tensor.shape, tensor.dtype) if isinstance(tensor, Tensor) else "nothing"
        raise ShapeError(f"[{name}] {what} is {shape}, not a single value; reduce it, or use "
                         "lm.where for a choice at every element")  # fmt: skip
    return ops.reshape(node_of(tensor), ())


def _choose(name: str, index: Node, functions: Sequence[Function], operands: Any) -> Any:
    given = as_tensors(name, list(operands))
    bodies = [trace(name, f, given, effects=True) for f in functions]
    for number, body in enumerate(bodies):
        _check_like(name, number, bodies[0], body)
    states = list(dict.fromkeys(state for body in bodies for state in body.states))
    nodes = [node_of(leaf) for leaf in tree.leaves(given)]
    nodes += [node_of(state) for state in states]
    graphs, outside = _graphs(bodies, states, len(tree.leaves(given)))
    kept = [node for body in bodies for node in body.returned]
    op = Branch(tuple(graphs), len(kept))
    made = call(op, index, *outside, *nodes) if graphs[0].outputs else ()
    for body in bodies:
        body.have(dict(zip(kept, made, strict=False)))
    count, found = bodies[0].structure.count, made[len(kept) :]
    for state, node in zip(states, found[count:], strict=True):
        state.rebind(node)
    return tree.unflatten(bodies[0].structure, [wrap(node) for node in found[:count]])


def _check_like(name: str, number: int, first: Body, body: Body) -> None:
    """Raise unless a function returned what the first did."""
    if body.structure != first.structure:
        raise OptionError(
            f"[{name}] branch 0 returns {first.structure} and branch {number} {body.structure}; "
            "all return the same containers, keys and lengths"
        )
    for path, a, b in zip(first.paths, first.outputs, body.outputs, strict=False):
        if a.shape != b.shape or a.dtype is not b.dtype:
            kind = ShapeError if a.shape != b.shape else DTypeError
            raise kind(
                f"[{name}] at {path} branch 0 returns {describe(a.shape, a.dtype)} and branch "
                f"{number} {describe(b.shape, b.dtype)}; all return the same shapes and dtypes"
            )


def _graphs(
    bodies: Sequence[Body], states: Sequence[TensorCore], operands: int
) -> tuple[list[Subgraph], list[Node]]:
    """Every body as a subgraph of (all that any of them reads from outside, operands, states), with
    what effects in any of them return as its first outputs.
    """
    made = []
    kept = [node for body in bodies for node in body.returned]
    for body in bodies:
        own = set(body.returned)
        held = [n if n in own else ops.full(0, n.shape, n.dtype) for n in kept]
        place = {id(s): i for i, s in enumerate(body.states)}
        count = body.structure.count
        arguments, outputs = list(body.arguments[:operands]), list(body.outputs[:count])
        for state in states:
            i = place.get(id(state))
            if i is None:  # this branch leaves it as it is
                node = node_of(state)
                arguments.append(ops.placeholder(node.shape, node.dtype, node.dtype.inexact))
                outputs.append(arguments[-1])
            else:
                arguments.append(body.arguments[operands + i])
                outputs.append(body.outputs[count + i])
        made.append(subgraph_of(arguments, [*held, *outputs], compiled_once(), body.calls))
    return joined(made)
