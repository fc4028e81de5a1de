"""``vectorize`` and ``apply_along_axis``: functions of scalars or vectors over whole tensors.

Input: a function over tensors. Output: the function batched by :func:`lamella.vmap`, so that it
runs as one program, is differentiable, and works inside ``jit``.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from typing import Any

from lamella import tree
from lamella.errors import OptionError, ShapeError
from lamella.tensor.axes import axis_of
from lamella.tensor.core import TensorCore, wrap
from lamella.tensor.manipulation import broadcast_shapes, broadcast_to, moveaxis, reshape
from lamella.tensor.operands import as_node
from lamella.transforms.batching import vmap

__all__ = ["apply_along_axis", "apply_over_axes", "vectorize"]

Function = Callable[..., Any]


def apply_along_axis(
    func: Function, axis: int, x: Any, *args: Any, **options: Any
) -> Any:
    """``func`` of every vector along ``axis``, its results put in the vector's place.

    Args:
        func: takes a vector; returns a tensor or a tree of them.
        axis: along which the vectors lie.
        x: a tensor of at least one axis.
        *args: passed to ``func`` after the vector.
        **options: passed to ``func`` too.

    Raises:
        ShapeError: for an axis that ``x`` has not.

    >>> import lamella as lm
    >>> apply_along_axis(lambda row: row.max() - row.min(), 1, [[1, 5], [2, 2]]).tolist()
    [4, 0]
    """
    tensor = wrap(as_node(x))
    place = axis_of("apply_along_axis", axis, tensor.shape)
    moved = moveaxis(tensor, place, -1)
    lead = moved.shape[:-1]
    rows = reshape(moved, (-1 if 0 not in moved.shape else _count(lead), moved.shape[-1]))
    found = vmap(lambda row: func(row, *args, **options))(rows)

    def back(part: Any) -> Any:
        inner = part.shape[1:]
        whole = reshape(part, (*lead, *inner))
        sources = list(range(len(lead), len(lead) + len(inner)))
        return moveaxis(whole, sources, list(range(place, place + len(inner)))) if inner else whole

    return tree.map(back, found)


def _count(shape: Sequence[int]) -> int:
    total = 1
    for size in shape:
        total *= size
    return total


def apply_over_axes(func: Function, x: Any, axes: int | Sequence[int]) -> Any:
    """``func(x, axis)`` over each axis in turn; an axis that it removes is put back with size 1.

    >>> import lamella as lm
    >>> apply_over_axes(lm.sum, lm.ones((2, 3)), (0, 1)).tolist()
    [[6.0]]
    """
    found = wrap(as_node(x))
    for axis in (axes,) if isinstance(axes, int) else tuple(axes):
        place = axis_of("apply_over_axes", axis, found.shape)
        made = wrap(as_node(func(found, place)))
        if made.ndim == found.ndim - 1:
            made = reshape(made, (*made.shape[:place], 1, *made.shape[place:]))
        if made.ndim != found.ndim:
            raise ShapeError(
                f"[apply_over_axes] the function made shape {made.shape} of {found.shape}; it may "
                "remove the axis or leave it"
            )
        found = made
    return found


_DIMENSIONS = re.compile(r"\(\s*(?:\w+\s*(?:,\s*\w+\s*)*)?\)")


def _core(signature: str) -> tuple[list[tuple[str, ...]], list[tuple[str, ...]]]:
    """The named axes of arguments and results in a signature such as ``(m,n),(n)->(m)``."""
    sides = signature.split("->")
    if len(sides) != 2 or any(_DIMENSIONS.sub("", side).replace(",", "").strip() for side in sides):
        raise OptionError(
            f"[vectorize] cannot read the signature {signature!r}; write it as '(m,n),(n)->(m)'"
        )
    first, second = (
        [tuple(re.findall(r"\w+", group)) for group in _DIMENSIONS.findall(side)] for side in sides
    )
    return first, second


def vectorize(
    func: Function, *, signature: str | None = None, excluded: Sequence[int | str] = ()
) -> Function:
    """``func`` of scalars (or of the axes that ``signature`` names) over tensors that broadcast.

    Args:
        func: takes and returns tensors without the batch axes.
        signature: the last axes that ``func`` sees, as in ``"(n),(n)->()"``; by default none.
        excluded: positions or names of arguments passed on as they are.

    Raises (when called):
        ShapeError: if the other axes do not broadcast, or an argument has too few.
        OptionError: for a signature that cannot be read, or of another number of arguments.

    >>> import lamella as lm
    >>> bigger = vectorize(lambda a, b: lm.where(a > b, a, b))
    >>> bigger([[1.0], [5.0]], [2.0, 3.0]).tolist()
    [[2.0, 3.0], [5.0, 5.0]]
    """
    core = None if signature is None else _core(signature)[0]

    @functools.wraps(func)
    def call(*args: Any, **options: Any) -> Any:
        fixed = {p: a for p, a in enumerate(args) if p in excluded}
        given = [wrap(as_node(a)) for p, a in enumerate(args) if p not in excluded]
        names = [name for name in options if name not in excluded]
        given += [wrap(as_node(options[name])) for name in names]
        inner = [0] * len(given) if core is None else [len(axes) for axes in core]
        if len(inner) != len(given):
            raise OptionError(
                f"[vectorize] {len(given)} arguments for the signature {signature!r}; give as many"
            )
        rest = {name: value for name, value in options.items() if name in excluded}

        def one(*values: TensorCore) -> Any:
            moved = iter(values)
            positional = [fixed[p] if p in fixed else next(moved) for p in range(len(args))]
            return func(*positional, **dict(zip(names, moved, strict=True)), **rest)

        return _batched(one, given, inner)

    return call


def _batched(function: Function, given: Sequence[Any], inner: Sequence[int]) -> Any:
    """``function`` over all axes but the last ``inner`` of each argument, which broadcast."""
    leads = []
    for tensor, count in zip(given, inner, strict=True):
        if tensor.ndim < count:
            raise ShapeError(
                f"[vectorize] an argument of shape {tensor.shape} needs {count} axes of its own"
            )
        leads.append(tensor.shape[: tensor.ndim - count])
    lead = broadcast_shapes(*leads) if leads else ()
    if not lead:
        return function(*given)
    flat = []
    for tensor, count in zip(given, inner, strict=True):
        own = tensor.shape[tensor.ndim - count :]
        flat.append(reshape(broadcast_to(tensor, (*lead, *own)), (_count(lead), *own)))
    found = vmap(function)(*flat)
    return tree.map(lambda part: reshape(part, (*lead, *part.shape[1:])), found)
