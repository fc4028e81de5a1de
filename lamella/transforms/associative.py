"""``associative_scan``: running totals of any associative operation, in logarithmic depth."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from lamella import tree
from lamella.errors import OptionError, ShapeError
from lamella.tensor.joining import concat, stack
from lamella.tensor.manipulation import flip, moveaxis, reshape
from lamella.tensor.tensor import Tensor
from lamella.transforms.bodies import as_tensors

__all__ = ["associative_scan"]

Combine = Callable[[Any, Any], Any]


def associative_scan(fn: Combine, elems: Any, reverse: bool = False, axis: int = 0) -> Any:
    """Running combinations along ``axis``: e₀, e₀∘e₁, e₀∘e₁∘e₂, …

    ``fn(a, b)`` combines trees of many entries at once, entry by entry along ``axis``; it must be
    associative. Pairs are combined first, then pairs of pairs (Blelloch, 1990, "Prefix sums and
    their applications"): 2·log₂ n steps of whole-array operations instead of n small ones.

    Args:
        fn: a function of two trees like ``elems`` that returns one like them.
        elems: a tree of tensors with equal sizes along ``axis``.
        reverse: combine from the last entry on: e_{n-1}, e_{n-1}∘e_{n-2}, … from behind, as JAX
            does; where the order matters, ``fn``'s first argument is the later entries.
        axis: the axis that is combined along.

    Raises:
        ShapeError: if the sizes along ``axis`` disagree, or ``axis`` is out of range.
        OptionError: if ``fn`` returns another structure.

    >>> import lamella as lm
    >>> associative_scan(lm.maximum, lm.asarray([1, 3, 2, 5])).tolist()
    [1, 3, 3, 5]
    """
    leaves, structure = tree.flatten(as_tensors("associative_scan", elems))
    for path, leaf in zip(tree.paths(elems), leaves, strict=True):
        if not -leaf.ndim <= axis < leaf.ndim:
            raise ShapeError(
                f"[associative_scan] axis {axis} is out of range at {path}, of shape {leaf.shape}"
            )
    sizes = {leaf.shape[axis] for leaf in leaves}
    if len(sizes) > 1:
        raise ShapeError(
            f"[associative_scan] sizes {sorted(sizes)} along axis {axis}; all of elems need one"
        )

    def combine(a: Sequence[Tensor], b: Sequence[Tensor]) -> list[Tensor]:
        """``fn`` on leaves with ``axis`` in front."""
        given = [tree.unflatten(structure, [moveaxis(x, 0, axis) for x in part]) for part in (a, b)]
        found, form = tree.flatten(as_tensors("associative_scan", fn(*given)))
        if form != structure:
            raise OptionError(
                f"[associative_scan] fn returned {form} for {structure}; return a tree like elems"
            )
        return [moveaxis(x, axis, 0) for x in found]

    front = [moveaxis(leaf, axis, 0) for leaf in leaves]
    if reverse:
        front = [flip(leaf, axis=0) for leaf in front]
    made = _totals(combine, front) if leaves else []
    if reverse:
        made = [flip(leaf, axis=0) for leaf in made]
    return tree.unflatten(structure, [moveaxis(leaf, 0, axis) for leaf in made])


def _totals(
    combine: Callable[[Sequence[Tensor], Sequence[Tensor]], list[Tensor]], elems: list[Tensor]
) -> list[Tensor]:
    """Totals at odd places are those of pairs; at even places one entry more than before them."""
    count = elems[0].shape[0]
    if count < 2:
        return elems
    odd = _totals(combine, combine([e[:-1:2] for e in elems], [e[1::2] for e in elems]))
    before = odd if count % 2 else [o[:-1] for o in odd]
    even = [e[:1] for e in elems]
    if count > 2:
        later = combine(before, [e[2::2] for e in elems])
        even = [concat([first, rest]) for first, rest in zip(even, later, strict=True)]
    return [_interleaved(a, b) for a, b in zip(even, odd, strict=True)]


def _interleaved(even: Tensor, odd: Tensor) -> Tensor:
    """even[0], odd[0], even[1], …; ``even`` may have one entry more."""
    pairs = odd.shape[0]
    both = reshape(stack([even[:pairs], odd], axis=1), (2 * pairs, *odd.shape[1:]))
    return both if even.shape[0] == pairs else concat([both, even[pairs:]])
