"""``vmap``: a function of one example becomes a function of many.

Input: a function, and which axes of its arguments and results run over examples. Output: a
function. The function runs once, on placeholders of one example; its graph is then rewritten for
all of them by each primitive's batching rule, so the cost is that of writing the batch by hand.
"""
from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from lamella import ops, tree
from lamella.errors import OptionError, ShapeError, TraceError, did_you_mean
from lamella.graph import names as naming
from lamella.graph.batch import batch
from lamella.graph.forward import between
from lamella.ir.dim import Size
from lamella.ir.node import Node
from lamella.ops.calls import token_of
from lamella.tensor.core import TensorCore, node_of, wrap
from lamella.tensor.pending import Trace, current_trace, note, perform, set_trace
from lamella.tensor.random.stream import fold_in, generator
from lamella.tensor.tensor import Tensor
from lamella.transforms.calls import Inputs, is_array, tensor_leaves
from lamella.transforms.watching import InnerTrace

__all__ = ["vmap"]

MODES = ("error", "same", "different")

Axes = int | None | Sequence[Any] | dict[str, Any]


class BatchTrace(InnerTrace):
    """Watches a function that runs for one example.

    Its values cannot be looked at, and must not stay in tensors from outside.
    """

    def __init__(self, outer: Trace | None) -> None:
        super().__init__(outer)
        self.rebound: list[tuple[TensorCore, Node]] = []
        self.graded: list[tuple[TensorCore, TensorCore | None]] = []

    def rebind(self, tensor: TensorCore) -> None:
        """Remember outer tensors that change."""
        if id(tensor) not in self._inner:
            if self.outer is not None:
                self.outer.rebind(tensor)
            self.rebound.append((tensor, tensor.node))

    def write_grad(self, tensor: TensorCore) -> None:
        """Remember outer tensors whose gradients change."""
        if self.outer is not None:
            self.outer.write_grad(tensor)
        if id(tensor) not in self._inner:
            self.graded.append((tensor, None if tensor._leaf is None else tensor._leaf.grad))

    def effect(self, token: Node, function: Callable[..., Any]) -> None:
        """It is seen to once it is known for all examples."""
        self.effects.append((token, function))

    def own(self, *tensors: TensorCore) -> None:
        """These stay outside in name only: somebody puts them back."""
        self._inner.update(map(id, tensors))

    def settle(self, ones: set[Node]) -> bool:
        """Undo changes of outer tensors to values of one example; whether there were any."""
        found = False
        for tensor, before in reversed(self.rebound):
            if between([tensor.node], ones):
                tensor.node, found = before, True
            elif self.outer is None and tensor.node.value is None:
                note(tensor)
        for tensor, grad in reversed(self.graded):
            leaf = tensor._leaf
            if leaf is None or leaf.grad is None or leaf.grad is grad:
                continue
            if between([leaf.grad.node], ones):
                leaf.grad, found = grad, True
        return found


def vmap(
    f: Callable[..., Any], in_axes: Axes = 0, out_axes: Axes = 0, randomness: str = "error"
) -> Callable[..., Any]:
    """``f`` for every example along an axis of its arguments.

    Args:
        f: a function of trees of tensors for one example; it must not look at values.
        in_axes: for each positional argument (or one for all) the axis that runs over examples, or
            None for an argument shared by all; a container like an argument gives an axis for each
            of its parts. Keyword arguments use axis 0.
        out_axes: the axis that runs over examples in the results, one for all or a tree like the
            result.
        randomness: what drawing from the implicit generator means: an "error" (the default), equal
            numbers for all examples ("same"), or others for each ("different"). Keys that are
            arguments say it by themselves.

    Raises:
        ShapeError: if mapped axes differ in size, or an axis is out of range.
        OptionError: if nothing is mapped, ``in_axes`` does not fit the arguments, or random numbers
            are drawn without ``randomness``.
        TraceError: if ``f`` leaves a value of one example in a tensor from outside.

    >>> import lamella as lm
    >>> f = vmap(lambda a, b: (a * b).sum(), in_axes=(0, None))
    >>> f(lm.ones((3, 2)), lm.asarray([1.0, 2.0])).tolist()
    [3.0, 3.0, 3.0]
    """
    if randomness not in MODES:
        raise OptionError(
            f"[vmap] randomness={randomness!r}; {did_you_mean(str(randomness), MODES)}"
        )

    @functools.wraps(f)
    def call(*args: Any, **options: Any) -> Any:
        inputs = Inputs((args, options), floating=False)
        axes = _axes_of(in_axes, args, options, inputs)
        size = _batch_size(inputs.tensors, axes)
        many: dict[Node, Node] = {}
        handles: list[Tensor] = []
        trace = BatchTrace(current_trace())
        for tensor, axis in zip(inputs.tensors, axes, strict=True):
            if axis is None:
                handles.append(tensor)
                continue
            node = _to_front(node_of(tensor), axis)
            one = ops.placeholder(node.shape[1:], node.dtype)
            one.tracked = node.tracked
            if naming.state.active:
                naming.assume(one, naming.names_of(node)[1:])
            many[one] = node
            handles.append(wrap(one))
            trace.created(handles[-1])
        with Randomness(randomness, trace, many, size):
            result = _run(f, inputs, handles, trace, set(many))
        leaves, structure = tensor_leaves("vmap", result)
        effects = [token for token, _ in trace.effects]
        found = batch([*effects, *(node_of(leaf) for leaf in leaves)], many, size)
        for (node, _), (_, function) in zip(found, trace.effects, strict=False):
            token = token_of(node)
            if token is not None:
                perform(token, function)
        found = found[len(effects) :]
        return _place_out(found, structure, out_axes, size)

    return call


class Randomness:
    """The implicit generator while a function runs for one example."""

    def __init__(self, mode: str, trace: BatchTrace, many: dict[Node, Node], size: Size) -> None:
        self._mode, self._trace, self._many, self._size = mode, trace, many, size

    def __enter__(self) -> None:
        self._source = source = generator()
        self._before = node_of(source.key), node_of(source.counter)
        if self._mode == "different":
            key, counter = self._before
            keys = ops.random_split(node_of(fold_in(wrap(key), wrap(counter))), self._size)
            one = ops.placeholder(key.shape, key.dtype)
            self._many[one] = keys
            source.key.node = one
            source.counter.node = ops.constant(0, counter.dtype)
            self._trace.own(source.key, source.counter)

    def __exit__(self, kind: object, *rest: object) -> None:
        source, (key, counter) = self._source, self._before
        drawn = source.counter.node is not counter
        if self._mode == "different":
            source.key.node, source.counter.node = key, counter
            if kind is None:
                source.counter.rebind(ops.add(counter, ops.constant(1, counter.dtype)))
        elif self._mode == "error" and drawn:
            source.counter.node = counter
            if kind is None:
                raise OptionError(
                    "[vmap] the function draws from the implicit generator, and there are many "
                    'examples; pass randomness="different" or "same", or keys as an argument'
                )


def _run(
    f: Callable[..., Any], inputs: Inputs, handles: Sequence[Tensor], trace: BatchTrace,
    ones: set[Node],
) -> Any:  # fmt: skip
    """The function for one example; outer tensors keep no values of it."""
    previous = set_trace(trace)
    try:
        args, options = inputs.with_tensors(handles)
        result = f(*args, **options)
    except BaseException:
        set_trace(previous)
        trace.settle(ones)
        raise
    set_trace(previous)
    if trace.settle(ones):
        raise TraceError(
            "[vmap] the function changed a tensor (or gradient) from outside to a value of one "
            "example, and there are many; return the value instead (a BatchNorm layer needs the "
            "whole batch: use it in eval mode, or GroupNorm)"
        )
    return result


def _to_front(node: Node, axis: int) -> Node:
    if axis == 0:
        return node
    return ops.permute(node, (axis, *(a for a in range(node.ndim) if a != axis)))


def _axes_of(
    in_axes: Axes, args: tuple[Any, ...], options: dict[str, Any], inputs: Inputs
) -> list[int | None]:
    """The mapped axis of each tensor, counted from the front."""
    if isinstance(in_axes, (list, tuple)):
        if len(in_axes) != len(args):
            raise OptionError(
                f"[vmap] in_axes has {len(in_axes)} entries for {len(args)} positional arguments; "
                "give one for each, or one for all"
            )
        per_argument = list(in_axes)
    else:
        per_argument = [in_axes] * len(args)
    flat: list[int | None] = []
    for axes, value in zip(per_argument, args, strict=True):
        flat += _spread("in_axes", axes, value)
    flat += [0] * tree.structure(options).count
    leaves = tree.leaves((args, options))
    wanted = [axis for axis, leaf in zip(flat, leaves, strict=True) if is_array(leaf)]
    found: list[int | None] = []
    for axis, tensor in zip(wanted, inputs.tensors, strict=True):
        if axis is not None and not -tensor.ndim <= axis < tensor.ndim:
            raise ShapeError(
                f"[vmap] axis {axis} of in_axes is out of range for an argument of shape "
                f"{tensor.shape}; choose one of its axes, or None to share it"
            )
        found.append(None if axis is None else axis % tensor.ndim)
    return found


def _spread(name: str, axes: Any, value: Any) -> list[int | None]:
    """One axis a leaf: ``axes`` is an axis for all of ``value``, or a container of its form."""
    if axes is None or isinstance(axes, int):
        return [axes] * tree.structure(value).count
    entries, form = tree.flatten(axes, is_leaf=lambda part: part is not axes)
    parts, other = tree.flatten(value, is_leaf=lambda part: part is not value)
    if len(entries) != len(parts) or form.extra != other.extra or other.kind is None:
        raise OptionError(
            f"[vmap] {name} {axes} does not fit a value of structure {other}; give an axis for "
            "each of its parts, or one for all"
        )
    return [axis for a, v in zip(entries, parts, strict=True) for axis in _spread(name, a, v)]


def _batch_size(tensors: Sequence[Tensor], axes: Sequence[int | None]) -> Size:
    sizes = [t.shape[a] for t, a in zip(tensors, axes, strict=True) if a is not None]
    if not sizes:
        raise OptionError(
            "[vmap] no argument is mapped (in_axes is None for all of them, or there is no tensor);"
            " map at least one axis"
        )
    if any(size != sizes[0] for size in sizes):
        raise ShapeError(
            f"[vmap] the mapped axes have the sizes {sizes}, but every argument needs the same "
            "number of examples; correct in_axes or the arguments"
        )
    return sizes[0]


def _place_out(
    found: Sequence[tuple[Node, bool]], structure: tree.Structure, out_axes: Axes, size: Size
) -> Any:
    axes = _spread("out_axes", out_axes, tree.unflatten(structure, range(len(found))))
    results = []
    for (node, has_axis), axis in zip(found, axes, strict=True):
        if axis is None:
            if has_axis:
                raise OptionError(
                    "[vmap] out_axes is None for a result that differs between examples; "
                    "give it an axis"
                )
            results.append(wrap(node))
            continue
        if not has_axis:
            shape = (size, *node.shape)
            node = ops.broadcast_to(ops.reshape(node, (1, *node.shape)), shape)
        if not -node.ndim <= axis < node.ndim:
            raise ShapeError(
                f"[vmap] out_axes {axis} is out of range for a result of shape {node.shape}; "
                "choose one of its axes"
            )
        order = list(range(1, node.ndim))
        order.insert(axis % node.ndim, 0)
        results.append(wrap(node if axis == 0 else ops.permute(node, tuple(order))))
    return tree.unflatten(structure, results)
