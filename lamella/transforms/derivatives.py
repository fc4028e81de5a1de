"""Derivatives of functions: ``grad``, ``vjp``, ``jvp``, Jacobians and the Hessian, to any order and nested in any way.

Input: a function of pytrees of tensors (modules among them). Output: a function. Each call runs the function on fresh marks of its arguments,
so that derivatives by an argument never include its other uses; the derivative is a graph made from the graph that the run recorded.
Arguments that the function changes in place (running statistics of a module) are changed for the caller too.
"""
from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from lamella import ops, tree
from lamella.errors import ShapeError
from lamella.graph import forward, reverse
from lamella.ir.node import Node
from lamella.tensor.core import node_of, wrap
from lamella.tensor.gradient import enable_grad
from lamella.tensor.tensor import Tensor
from lamella.transforms.batching import vmap
from lamella.transforms.calls import (
    Inputs, argument_numbers, only_number, outputs_of, tensor_leaves,
)  # fmt: skip

__all__ = ["grad", "hessian", "jacfwd", "jacrev", "jvp", "value_and_grad", "vjp"]

Function = Callable[..., Any]


class Marked:
    """Arguments whose floating-point tensors have fresh identities to differentiate by."""

    def __init__(self, value: object) -> None:
        self.inputs = Inputs(value, floating=True)
        self.nodes = [_mark(node_of(t)) for t in self.inputs.tensors]
        self.handles = [wrap(node) for node in self.nodes]
        self.value = self.inputs.with_tensors(self.handles)

    def write_back(self) -> None:
        """What the function changed in place is changed in the caller's tensors."""
        for original, handle, node in zip(self.inputs.tensors, self.handles, self.nodes, strict=True):
            if handle.node is not node and isinstance(original, Tensor):
                original.rebind(handle.node)

    def like(self, nodes: Sequence[Node | None]) -> Any:
        """A value like the arguments, of gradients: zeros where there is none, None for leaves that have none."""
        found = [wrap(_zeros(m) if g is None else g) for g, m in zip(nodes, self.nodes, strict=True)]
        return self.inputs.with_tensors(found, lambda leaf: leaf)


def _mark(node: Node) -> Node:
    mark = ops.mark(node)
    mark.tracked = True
    return mark


def _zeros(node: Node) -> Node:
    return ops.full(0.0, node.shape, node.dtype)


def value_and_grad(f: Function, argnums: int | Sequence[int] = 0, has_aux: bool = False) -> Function:
    """A function that returns ``(f(...), gradient)``, the gradient being a tree like the argument(s) ``argnums``.

    Args:
        f: returns a single floating-point number (or a pair of it and anything, with ``has_aux``).
        argnums: the positional argument(s) to differentiate by; a tuple gives a tuple of gradients.
        has_aux: ``f`` returns ``(value, auxiliary)``; then so does the first part of the result.

    Raises:
        DTypeError: if ``f`` does not return a single floating-point number.

    >>> import lamella as lm
    >>> value, g = value_and_grad(lambda x: (x * x).sum())(lm.asarray([1.0, 2.0]))
    >>> value.item(), g.tolist()
    (5.0, [2.0, 4.0])
    """

    @functools.wraps(f)
    def call(*args: Any, **options: Any) -> Any:
        numbers = argument_numbers("grad", argnums, len(args))
        with enable_grad():
            marked = Marked(tuple(args[i] for i in numbers))
            given = list(args)
            for place, value in zip(numbers, marked.value, strict=True):
                given[place] = value
            value, aux = outputs_of("grad", f(*given, **options), has_aux)
            root = only_number("grad", value)
            seed = ops.full(1.0, root.shape, root.dtype)
            gradients = marked.like(reverse.vjp([root], [seed], marked.nodes))
        marked.write_back()
        gradient = gradients[0] if isinstance(argnums, int) else gradients
        value = wrap(root)
        return ((value, aux) if has_aux else value), gradient

    return call


def grad(f: Function, argnums: int | Sequence[int] = 0, has_aux: bool = False) -> Function:
    """A function that returns the gradient of ``f``: a tree like the argument(s) ``argnums`` (and aux, with ``has_aux``).

    >>> import lamella as lm
    >>> grad(grad(lambda x: x ** 3))(lm.asarray(2.0)).item()
    12.0
    """
    both = value_and_grad(f, argnums, has_aux)

    @functools.wraps(f)
    def call(*args: Any, **options: Any) -> Any:
        value, gradient = both(*args, **options)
        return (gradient, value[1]) if has_aux else gradient

    return call


def vjp(f: Function, *primals: Any, has_aux: bool = False) -> Any:
    """``f(*primals)`` and the function that pulls cotangents of it back to the primals.

    Returns:
        ``(out, pull)`` or ``(out, pull, aux)``; ``pull(cotangents)`` takes a tree like ``out`` and returns a tuple of trees
        like ``primals``; it may be called any number of times.

    >>> import lamella as lm
    >>> out, pull = vjp(lambda x: x * x, lm.asarray([1.0, 3.0]))
    >>> pull(lm.asarray([1.0, 1.0]))[0].tolist()
    [2.0, 6.0]
    """
    with enable_grad():
        marked = Marked(primals)
        value, aux = outputs_of("vjp", f(*marked.value), has_aux)
    leaves, structure = tensor_leaves("vjp", value)
    nodes = [leaf.node for leaf in leaves]
    marked.write_back()

    def pull(cotangents: Any) -> Any:
        given = _matching("vjp", cotangents, structure, nodes)
        with enable_grad():
            return marked.like(reverse.vjp(nodes, given, marked.nodes))

    out = tree.unflatten(structure, [wrap(node) for node in nodes])
    return (out, pull, aux) if has_aux else (out, pull)


def jvp(f: Function, primals: Sequence[Any], tangents: Sequence[Any], has_aux: bool = False) -> Any:
    """``f(*primals)`` and its directional derivative along ``tangents`` (a sequence of trees like ``primals``).

    >>> import lamella as lm
    >>> out, tangent = jvp(lambda x: x * x, (lm.asarray(3.0),), (lm.asarray(1.0),))
    >>> tangent.item()
    6.0
    """
    with enable_grad():
        marked = Marked(tuple(primals))
        given = Inputs(tuple(tangents), floating=True)
        if given.structure != marked.inputs.structure:
            raise ShapeError(
                f"[jvp] the tangents' structure {given.structure} is not that of the primals {marked.inputs.structure}; "
                "give one tangent for each primal"
            )
        along = [node_of(t) for t in given.tensors]
        value, aux = outputs_of("jvp", f(*marked.value), has_aux)
        leaves, structure = tensor_leaves("jvp", value)
        nodes = [leaf.node for leaf in leaves]
        found = forward.jvp(nodes, marked.nodes, along)
    marked.write_back()
    out = tree.unflatten(structure, [wrap(node) for node in nodes])
    tangent = tree.unflatten(
        structure, [wrap(_zeros(n) if t is None else t) for t, n in zip(found, nodes, strict=True)]
    )
    return (out, tangent, aux) if has_aux else (out, tangent)


def _matching(name: str, value: Any, structure: tree.Structure, nodes: Sequence[Node]) -> list[Node | None]:
    leaves, form = tensor_leaves(name, value)
    if form != structure:
        raise ShapeError(
            f"[{name}] cotangents of structure {form} for outputs of structure {structure}; give a tree like the output"
        )
    found: list[Node | None] = []
    for leaf, node in zip(leaves, nodes, strict=True):
        if leaf.shape != node.shape:
            raise ShapeError(f"[{name}] a cotangent of shape {leaf.shape} for an output of shape {node.shape}; they must agree")
        found.append(ops.cast(node_of(leaf), node.dtype) if node.dtype.kind == "f" else None)
    return found


def _basis(x: Tensor) -> Tensor:
    """The unit tensors of ``x``'s shape, stacked along a leading axis of ``x.size``."""
    count = 1
    for size in x.shape:
        count *= size
    rows, columns = ops.iota((count, count), 0, x.dtype), ops.iota((count, count), 1, x.dtype)
    one = ops.cast(ops.equal(rows, columns), x.dtype)
    return wrap(ops.reshape(one, (count, *x.shape)))


def jacrev(f: Function, argnums: int = 0) -> Function:
    """The Jacobian of ``f`` by argument ``argnums``, a row at a time by reverse mode: for each output leaf of shape ``O``
    and input leaf of shape ``I`` a tensor of shape ``O + I``. Best where outputs are fewer than inputs.

    >>> import lamella as lm
    >>> jacrev(lambda x: x * x)(lm.asarray([1.0, 2.0])).tolist()
    [[2.0, 0.0], [0.0, 4.0]]
    """

    @functools.wraps(f)
    def call(*args: Any, **options: Any) -> Any:
        (number,) = argument_numbers("jacrev", argnums, len(args))

        def one(x: Any) -> Any:
            return f(*args[:number], x, *args[number + 1 :], **options)

        out, pull = vjp(one, args[number])
        leaves, structure = tensor_leaves("jacrev", out)
        rows = []
        for i, leaf in enumerate(leaves):
            def row(seed: Tensor, i: int = i) -> Any:
                seeds = [seed if j == i else wrap(_zeros(o.node)) for j, o in enumerate(leaves)]
                return pull(tree.unflatten(structure, seeds))[0]

            many = vmap(row)(_basis(leaf))
            rows.append(tree.map(lambda g, leaf=leaf: g.reshape((*leaf.shape, *g.shape[1:])), many))
        return tree.unflatten(structure, rows) if len(rows) != 1 or structure.count != 1 else rows[0]

    return call


def jacfwd(f: Function, argnums: int = 0) -> Function:
    """The Jacobian of ``f`` as ``jacrev`` gives it, a column at a time by forward mode; for one tensor argument.

    Best where inputs are fewer than outputs.

    >>> import lamella as lm
    >>> jacfwd(lambda x: x * x)(lm.asarray([1.0, 2.0])).tolist()
    [[2.0, 0.0], [0.0, 4.0]]
    """

    @functools.wraps(f)
    def call(*args: Any, **options: Any) -> Any:
        (number,) = argument_numbers("jacfwd", argnums, len(args))
        inputs = Inputs((args[number],), floating=True)
        leaves = inputs.tensors

        def column(i: int) -> Any:
            def along(direction: Tensor) -> Any:
                tangents = [direction if j == i else wrap(_zeros(node_of(x))) for j, x in enumerate(leaves)]
                given = inputs.with_tensors(tangents)
                return jvp(lambda x: f(*args[:number], x, *args[number + 1 :], **options), (args[number],), given)[1]

            many = vmap(along)(_basis(leaves[i]))
            shape = leaves[i].shape
            return tree.map(lambda g: _columns_last(g, shape), many)

        return inputs.with_tensors([column(i) for i in range(len(leaves))])[0]

    return call


def _columns_last(many: Tensor, shape: tuple[int, ...]) -> Tensor:
    """(count, *out) -> (*out, *shape)."""
    node = many.node
    moved = ops.permute(node, (*range(1, node.ndim), 0))
    return wrap(ops.reshape(moved, (*node.shape[1:], *shape)))


def hessian(f: Function, argnums: int = 0) -> Function:
    """The matrix of second derivatives of a scalar function: for leaves of shapes ``I`` and ``J`` a tensor ``I + J``.

    Forward over reverse: the Jacobian of the gradient.

    >>> import lamella as lm
    >>> hessian(lambda x: (x ** 3).sum())(lm.asarray([1.0, 2.0])).tolist()
    [[6.0, 0.0], [0.0, 12.0]]
    """
    return jacfwd(grad(f, argnums), argnums)
