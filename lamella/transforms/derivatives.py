"""Derivatives of functions to any order: ``grad``, ``vjp``, ``jvp``, Jacobians and the Hessian.

Input: a function of pytrees of tensors (modules among them). Output: a function. Each call runs the
function on fresh marks of its arguments, so that derivatives by an argument never include its other
uses; the derivative is a graph made from the graph that the run recorded, so transformations nest
in any way. Arguments that the function changes in place (running statistics of a module) are
changed for the caller too.
"""
from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from lamella import ops, tree
from lamella.errors import DTypeError, ShapeError
from lamella.graph import forward, reverse
from lamella.ir.node import Node
from lamella.tensor.core import describe, node_of, wrap
from lamella.tensor.gradient import enable_grad
from lamella.tensor.tensor import Tensor
from lamella.transforms.batching import vmap
from lamella.transforms.calls import (
    Inputs,
    argument_numbers,
    only_number,
    outputs_of,
    tensor_leaves,
)
from lamella.transforms.history import mark, moment, released, since
from lamella.transforms.looks import Watch, watch

__all__ = [
    "grad", "hessian", "hvp", "jacfwd", "jacrev", "jvp", "linearize", "value_and_grad", "vjp",
]  # fmt: skip

Function = Callable[..., Any]


class Marked:
    """Arguments whose floating-point tensors have fresh identities to differentiate by.

    Raises:
        DTypeError: if there are none.
    """

    def __init__(self, name: str, value: object) -> None:
        self.inputs = Inputs(value, floating=True)
        if not self.inputs.tensors:
            kinds = ", ".join(sorted({_kind(leaf) for leaf in tree.leaves(value)})) or "nothing"
            raise DTypeError(
                f"[{name}] the arguments to differentiate by hold {kinds}, but no floating-point "
                "tensor; pass floating-point tensors, or cast with .astype(lm.float32)"
            )
        self.nodes = [mark(node_of(t)) for t in self.inputs.tensors]
        self.handles = [wrap(node) for node in self.nodes]
        self.value = self.inputs.with_tensors(self.handles)

    def write_back(self) -> None:
        """What the function changed in place is changed in the caller's tensors."""
        for original, handle, node in zip(
            self.inputs.tensors, self.handles, self.nodes, strict=True
        ):
            if handle.node is not node:
                original.rebind(self.released(handle).node)

    def released(self, value: Any) -> Any:
        """``value`` without the history that these marks alone gave it."""
        return released(value, set(self.nodes).__contains__)

    def like(self, nodes: Sequence[Node | None]) -> Any:
        """A tree like the arguments, of gradients: zeros where nothing depends on a tensor."""
        pairs = zip(nodes, self.nodes, strict=True)
        found = [wrap(_zeros(mark) if node is None else node) for node, mark in pairs]
        return self.inputs.with_tensors(found, _without_gradient)


def _kind(leaf: object) -> str:
    return describe(leaf.shape, leaf.dtype) if isinstance(leaf, Tensor) else type(leaf).__name__


def _zeros(node: Node) -> Node:
    return ops.full(0, node.shape, node.dtype)


def _without_gradient(leaf: Any) -> Any:
    """What stands for the gradient of a leaf that has none."""
    return wrap(_zeros(leaf.node)) if isinstance(leaf, Tensor) else leaf


def value_and_grad(
    f: Function, argnums: int | Sequence[int] = 0, has_aux: bool = False
) -> Function:
    """A function that returns ``(f(...), gradient)``, a tree like the argument(s) ``argnums``.

    Args:
        f: returns a single floating-point number (or a pair of it and anything, with ``has_aux``).
        argnums: the positional argument(s) to differentiate by; a tuple gives a tuple of gradients.
            Integers in them have gradient zero.
        has_aux: ``f`` returns ``(value, auxiliary)``; then so does the first part of the result.

    Raises:
        DTypeError: if ``f`` does not return a single floating-point number, or the arguments
            hold none.

    >>> import lamella as lm
    >>> value, g = value_and_grad(lambda x: (x * x).sum())(lm.asarray([1.0, 2.0]))
    >>> value.item(), g.tolist()
    (5.0, [2.0, 4.0])
    """
    return _value_and_grad("value_and_grad", f, argnums, has_aux)


def _value_and_grad(
    name: str, f: Function, argnums: int | Sequence[int], has_aux: bool
) -> Function:
    @functools.wraps(f)
    def call(*args: Any, **options: Any) -> Any:
        numbers = argument_numbers(name, argnums, len(args))
        with enable_grad(), watch() as looked:
            marked = Marked(name, tuple(args[i] for i in numbers))
            given = list(args)
            for place, value in zip(numbers, marked.value, strict=True):
                given[place] = value
            value, aux = outputs_of(name, f(*given, **options), has_aux)
            root = only_number(name, value)
            looked.check(name, value, marked.nodes)
            seed = ops.full(1.0, root.shape, root.dtype)
            gradients = marked.like(reverse.vjp([root], [seed], marked.nodes))
        marked.write_back()
        gradient = gradients[0] if isinstance(argnums, int) else gradients
        value, aux, gradient = marked.released((wrap(root), aux, gradient))
        return ((value, aux) if has_aux else value), gradient

    return call


def grad(f: Function, argnums: int | Sequence[int] = 0, has_aux: bool = False) -> Function:
    """A function that returns the gradient of ``f``, as :func:`value_and_grad` does.

    With ``has_aux`` it returns ``(gradient, auxiliary)``.

    >>> import lamella as lm
    >>> grad(grad(lambda x: x ** 3))(lm.asarray(2.0)).item()
    12.0
    """
    return _grad("grad", f, argnums, has_aux)


def _grad(name: str, f: Function, argnums: int | Sequence[int], has_aux: bool) -> Function:
    both = _value_and_grad(name, f, argnums, has_aux)

    @functools.wraps(f)
    def call(*args: Any, **options: Any) -> Any:
        value, gradient = both(*args, **options)
        return (gradient, value[1]) if has_aux else gradient

    return call


def vjp(f: Function, *primals: Any, has_aux: bool = False) -> Any:
    """``f(*primals)`` and the function that pulls cotangents of it back to the primals.

    Returns:
        ``(out, pull)`` or ``(out, pull, aux)``; ``pull(cotangents)`` takes a tree like ``out`` and
        returns a tuple of trees like ``primals``; it may be called any number of times.

    Raises:
        DTypeError: if ``primals`` hold no floating-point tensor, or a result is no tensor.

    >>> import lamella as lm
    >>> out, pull = vjp(lambda x: x * x, lm.asarray([1.0, 3.0]))
    >>> pull(lm.asarray([1.0, 1.0]))[0].tolist()
    [2.0, 6.0]
    """
    return _vjp("vjp", f, primals, has_aux)


def _outputs(
    name: str, f: Function, marked: Marked, has_aux: bool, looked: Watch
) -> tuple[list[Node], tree.Structure, Any]:
    """The nodes of a function's results, their structure, and its auxiliary output."""
    value, aux = outputs_of(name, f(*marked.value), has_aux)
    leaves, structure = tensor_leaves(name, value)
    looked.check(name, value, marked.nodes)
    return [node_of(leaf) for leaf in leaves], structure, aux


def _vjp(name: str, f: Function, primals: tuple[Any, ...], has_aux: bool) -> Any:
    with enable_grad(), watch() as looked:
        marked = Marked(name, primals)
        nodes, structure, aux = _outputs(name, f, marked, has_aux, looked)
    marked.write_back()

    def pull(cotangents: Any) -> Any:
        with enable_grad():
            given = _matching(cotangents, structure, nodes)
            return marked.released(marked.like(reverse.vjp(nodes, given, marked.nodes)))

    out = tree.unflatten(structure, [wrap(node) for node in nodes])
    out, aux = marked.released((out, aux))
    return (out, pull, aux) if has_aux else (out, pull)


def _matching(value: Any, structure: tree.Structure, nodes: Sequence[Node]) -> list[Node | None]:
    """Cotangents as nodes of the outputs' dtypes; None for integers."""
    leaves, form = tensor_leaves("vjp", value)
    if form != structure:
        raise ShapeError(
            f"[vjp] cotangents of structure {form} for outputs of structure {structure}; "
            "give a tree like the output"
        )
    found: list[Node | None] = []
    for leaf, node in zip(leaves, nodes, strict=True):
        if leaf.shape != node.shape:
            raise ShapeError(
                f"[vjp] a cotangent of shape {leaf.shape} for an output of shape {node.shape}; "
                "they must agree"
            )
        if leaf.dtype.kind == "c" and node.dtype.kind == "f":
            raise DTypeError(
                f"[vjp] a cotangent of {leaf.dtype.name} for an output of {node.dtype.name}, whose "
                "cotangents are real; pass the part that is meant (x.real)"
            )
        found.append(ops.cast(node_of(leaf), node.dtype) if node.dtype.inexact else None)
    return found


def jvp(f: Function, primals: Sequence[Any], tangents: Sequence[Any], has_aux: bool = False) -> Any:
    """``f(*primals)`` and its directional derivative along ``tangents``, trees like ``primals``.

    Returns:
        ``(out, tangent)`` or ``(out, tangent, aux)``. Tangents of integers do not matter.

    Raises:
        ShapeError: if tangents do not fit the primals.

    >>> import lamella as lm
    >>> out, tangent = jvp(lambda x: x * x, (lm.asarray(3.0),), (lm.asarray(1.0),))
    >>> tangent.item()
    6.0
    """
    return _jvp("jvp", f, primals, tangents, has_aux)


def _jvp(
    name: str, f: Function, primals: Sequence[Any], tangents: Sequence[Any], has_aux: bool
) -> Any:
    with enable_grad(), watch() as looked:
        marked = Marked(name, tuple(primals))
        along = _tangents(name, marked, tuple(primals), tuple(tangents))
        nodes, structure, aux = _outputs(name, f, marked, has_aux, looked)
        found = forward.jvp(nodes, marked.nodes, along)
    marked.write_back()
    out = tree.unflatten(structure, [wrap(node) for node in nodes])
    tangent = tree.unflatten(
        structure, [wrap(_zeros(n) if t is None else t) for t, n in zip(found, nodes, strict=True)]
    )
    out, tangent, aux = marked.released((out, tangent, aux))
    return (out, tangent, aux) if has_aux else (out, tangent)


def linearize(f: Function, *primals: Any, has_aux: bool = False) -> Any:
    """``f(*primals)`` and its derivative there as a linear function of tangents.

    ``f`` runs once; the linear function may be called any number of times, with trees like
    ``primals``.

    Returns:
        ``(out, linear)`` or ``(out, linear, aux)``; ``linear(*tangents)`` is a tree like ``out``.

    Raises:
        DTypeError: if ``primals`` hold no floating-point tensor, or a result is no tensor.
        ShapeError: when called, if tangents do not fit the primals.

    >>> import lamella as lm
    >>> out, linear = linearize(lambda x: x * x, lm.asarray(3.0))
    >>> out.item(), linear(lm.asarray(1.0)).item(), linear(lm.asarray(2.0)).item()
    (9.0, 6.0, 12.0)
    """
    return _linearize("linearize", f, primals, has_aux)


def _linearize(name: str, f: Function, primals: tuple[Any, ...], has_aux: bool) -> Any:
    with enable_grad(), watch() as looked:
        marked = Marked(name, primals)
        nodes, structure, aux = _outputs(name, f, marked, has_aux, looked)
    marked.write_back()

    def linear(*tangents: Any) -> Any:
        with enable_grad():
            along = _tangents(name, marked, primals, tangents)
            found = forward.jvp(nodes, marked.nodes, along)
            pairs = zip(found, nodes, strict=True)
            made = [wrap(_zeros(n) if t is None else t) for t, n in pairs]
            return marked.released(tree.unflatten(structure, made))

    out, aux = marked.released(
        (tree.unflatten(structure, [wrap(node) for node in nodes]), aux)
    )
    return (out, linear, aux) if has_aux else (out, linear)


def hvp(f: Function, primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
    """The Hessian of a scalar function times a vector, without the Hessian: forward over reverse.

    ``primals`` and ``tangents`` are tuples with one tree for each argument of ``f``; so is the
    result (Pearlmutter, 1994, "Fast exact multiplication by the Hessian").

    >>> import lamella as lm
    >>> x, v = lm.asarray([1.0, 2.0]), lm.asarray([1.0, 0.0])
    >>> hvp(lambda x: (x ** 3).sum(), (x,), (v,))[0].tolist()
    [6.0, 0.0]
    """
    numbers = tuple(range(len(primals)))
    return _jvp("hvp", _grad("hvp", f, numbers, False), tuple(primals), tuple(tangents), False)[1]


def _tangents(name: str, marked: Marked, primals: object, tangents: object) -> list[Node]:
    """One tangent for each mark, in its dtype."""
    leaves, form = tree.flatten(tangents)
    if form != marked.inputs.structure:
        raise ShapeError(
            f"[{name}] the tangents' structure {form} is not that of the primals "
            f"{marked.inputs.structure}; give one tangent for each primal"
        )
    floating = Inputs(primals, floating=True)
    numbers = floating.with_tensors([True] * len(floating.tensors), lambda leaf: False)
    wanted = [t for t, need in zip(leaves, tree.leaves(numbers), strict=True) if need]
    found: list[Node] = []
    for value, like in zip(wanted, marked.nodes, strict=True):
        (tensor,), _ = tensor_leaves(name, float(value) if isinstance(value, int) else value)
        node = node_of(tensor)
        if node.shape != like.shape:
            raise ShapeError(
                f"[{name}] a tangent of shape {node.shape} for a primal of shape {like.shape}; "
                "they must agree"
            )
        if node.dtype.kind == "c" and like.dtype.kind == "f":
            raise DTypeError(
                f"[{name}] a tangent of {node.dtype.name} for a primal of {like.dtype.name}, whose "
                "tangents are real; pass the part that is meant (x.real)"
            )
        found.append(ops.cast(node, like.dtype))
    return found


# -- Jacobians -------------------------------------------------------------------------------------
def _basis(x: Tensor) -> Tensor:
    """The unit tensors of ``x``'s shape, stacked along a leading axis of ``x.size``."""
    count = 1
    for size in x.shape:
        count *= size
    rows = ops.iota((count, count), 0, x.dtype)
    one = ops.equal(rows, ops.iota((count, count), 1, x.dtype))
    return wrap(ops.reshape(ops.cast(one, x.dtype), (count, *x.shape)))


def jacrev(f: Function, argnums: int | Sequence[int] = 0, has_aux: bool = False) -> Function:
    """The Jacobian of ``f`` by argument(s) ``argnums``, a row at a time by reverse mode.

    A tree like the output of trees like the argument (a tuple of them for a sequence of argnums):
    for an output leaf of shape ``O`` and an input leaf of shape ``I`` a tensor of shape ``O + I``.
    Best where outputs are fewer than inputs. With ``has_aux`` it returns ``(jacobian, auxiliary)``.

    >>> import lamella as lm
    >>> jacrev(lambda x: x * x)(lm.asarray([1.0, 2.0])).tolist()
    [[2.0, 0.0], [0.0, 4.0]]
    """

    @functools.wraps(f)
    def call(*args: Any, **options: Any) -> Any:
        one, chosen = _of_chosen("jacrev", f, argnums, args, options)
        start = moment()
        out, pull, *aux = _vjp("jacrev", one, tuple(chosen), has_aux)
        leaves, structure = tensor_leaves("jacrev", out)

        def row(seed: Tensor, i: int) -> Any:
            seeds = [seed if j == i else wrap(_zeros(o.node)) for j, o in enumerate(leaves)]
            pulled = pull(tree.unflatten(structure, seeds))
            return pulled[0] if isinstance(argnums, int) else pulled

        rows = []
        for i, leaf in enumerate(leaves):
            many = vmap(functools.partial(row, i=i))(_basis(leaf))
            shape = leaf.shape
            rows.append(tree.map(lambda g, s=shape: g.reshape((*s, *g.shape[1:])), many))
        found = released(tree.unflatten(structure, rows), since(start))
        return (found, aux[0]) if has_aux else found

    return call


def _of_chosen(
    name: str, f: Function, argnums: int | Sequence[int], args: tuple[Any, ...],
    options: dict[str, Any],
) -> tuple[Function, list[Any]]:  # fmt: skip
    """``f`` as a function of the chosen arguments alone, and those."""
    numbers = argument_numbers(name, argnums, len(args))

    def one(*chosen: Any) -> Any:
        given = list(args)
        for place, value in zip(numbers, chosen, strict=True):
            given[place] = value
        return f(*given, **options)

    return one, [args[number] for number in numbers]


def jacfwd(f: Function, argnums: int | Sequence[int] = 0, has_aux: bool = False) -> Function:
    """The Jacobian of ``f`` as :func:`jacrev` gives it, a column at a time by forward mode.

    Best where inputs are fewer than outputs.

    >>> import lamella as lm
    >>> jacfwd(lambda x: x * x)(lm.asarray([1.0, 2.0])).tolist()
    [[2.0, 0.0], [0.0, 4.0]]
    """
    return _jacfwd("jacfwd", f, argnums, has_aux)


def _jacfwd(name: str, f: Function, argnums: int | Sequence[int], has_aux: bool) -> Function:
    @functools.wraps(f)
    def call(*args: Any, **options: Any) -> Any:
        one, chosen = _of_chosen(name, f, argnums, args, options)
        start = moment()
        out, linear, *aux = _linearize(name, one, tuple(chosen), has_aux)
        structure = tree.structure(out)
        inputs = Inputs(tuple(chosen), floating=True)
        leaves = inputs.tensors

        def along(direction: Tensor, i: int) -> Any:
            tangents = [
                direction if j == i else wrap(_zeros(x.node)) for j, x in enumerate(leaves)
            ]
            return linear(*inputs.with_tensors(tangents))

        columns: list[list[Tensor]] = []
        for i, leaf in enumerate(leaves):
            many = vmap(functools.partial(along, i=i))(_basis(leaf))
            found, _ = tensor_leaves(name, many)
            columns.append([_columns_last(each, leaf.shape) for each in found])
        trees = [inputs.with_tensors(parts) for parts in zip(*columns, strict=True)]
        if isinstance(argnums, int):
            trees = [each[0] for each in trees]
        made = released(tree.unflatten(structure, trees), since(start))
        return (made, aux[0]) if has_aux else made

    return call


def _columns_last(many: Tensor, shape: tuple[int, ...]) -> Tensor:
    """(count, *out) -> (*out, *shape)."""
    node = many.node
    moved = ops.permute(node, (*range(1, node.ndim), 0))
    return wrap(ops.reshape(moved, (*node.shape[1:], *shape)))


def hessian(f: Function, argnums: int | Sequence[int] = 0, has_aux: bool = False) -> Function:
    """The second derivatives of a scalar function: for leaves of shapes ``I``, ``J`` an ``I + J``.

    Forward over reverse: the Jacobian of the gradient. A sequence of ``argnums`` gives a tuple of
    tuples; with ``has_aux`` it returns ``(hessian, auxiliary)``.

    >>> import lamella as lm
    >>> hessian(lambda x: (x ** 3).sum())(lm.asarray([1.0, 2.0])).tolist()
    [[6.0, 0.0], [0.0, 12.0]]
    """
    return _jacfwd("hessian", _grad("hessian", f, argnums, has_aux), argnums, has_aux)
