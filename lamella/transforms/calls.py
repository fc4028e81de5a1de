"""What the transformations share: tensors in arguments and results, taken out and put back.

Input: pytrees of tensors, arrays and other values. Output: their tensors in order, and like trees
around other tensors. A module is a tree of its parameters and buffers, so it is an argument like
any other.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from lamella import tree
from lamella.errors import DTypeError, OptionError
from lamella.ir.node import Node
from lamella.tensor.core import describe
from lamella.tensor.creation import asarray
from lamella.tensor.tensor import Tensor

__all__ = [
    "Inputs", "argument_numbers", "as_tensor", "is_array", "only_number", "outputs_of",
    "tensor_leaves",
]  # fmt: skip


class Inputs:
    """The tensors among the leaves of a value, to be replaced by others.

    ``tensors`` are the leaves to transform by (floating point where ``floating``);
    ``with_tensors`` builds a like value.
    """

    def __init__(self, value: object, floating: bool) -> None:
        leaves, self.structure = tree.flatten(value)
        self._leaves: list[Any] = [as_tensor(leaf) for leaf in leaves]
        self._places = [
            i for i, leaf in enumerate(self._leaves)
            if isinstance(leaf, Tensor) and (leaf.dtype.inexact or not floating)
        ]  # fmt: skip
        self.tensors: list[Tensor] = [self._leaves[i] for i in self._places]

    def with_tensors(
        self, tensors: Sequence[Any], others: Callable[[Any], Any] | None = None
    ) -> Any:
        """A value like the original with ``tensors`` in place of its own.

        ``others`` (if given) makes the other leaves.
        """
        leaves = list(self._leaves)
        if others is not None:
            leaves = [others(leaf) for leaf in leaves]
        for place, tensor in zip(self._places, tensors, strict=True):
            leaves[place] = tensor
        return tree.unflatten(self.structure, leaves)


def is_array(leaf: object) -> bool:
    """Whether a leaf is a tensor, or is taken as one: arrays and Python floats are."""
    return isinstance(leaf, (Tensor, np.ndarray, np.generic, float, complex))


def as_tensor(leaf: Any) -> Any:
    """A leaf as a tensor, where it is taken as one; else as it is.

    Arrays are copied: results are computed later, when the array may hold something
    else.
    """
    if isinstance(leaf, Tensor) or not is_array(leaf):
        return leaf
    return asarray(leaf, copy=True)


def tensor_leaves(name: str, value: object) -> tuple[list[Tensor], tree.Structure]:
    """The leaves of a function's result, all of them tensors.

    Raises:
        DTypeError: naming the path of a leaf that is none.
    """
    leaves, structure = tree.flatten(value)
    found = [as_tensor(leaf) for leaf in leaves]
    for leaf, path in zip(found, tree.paths(value), strict=True):
        if not isinstance(leaf, Tensor):
            raise DTypeError(
                f"[{name}] the function returned {type(leaf).__name__} at {path or 'its top'}, "
                "which cannot be transformed; return tensors (other values as auxiliary output "
                "where has_aux=True)"
            )
    return found, structure


def only_number(name: str, value: object) -> Node:
    """The node of a function's result, which must be a single floating-point number.

    Raises:
        DTypeError: if it is not a floating-point tensor of one element.
    """
    found = as_tensor(value)
    if (
        not isinstance(found, Tensor)
        or found.dtype.kind != "f"
        or any(size != 1 for size in found.shape)
    ):
        what = type(found).__name__
        if isinstance(found, Tensor):
            what = describe(found.shape, found.dtype)
        raise DTypeError(
            f"[{name}] the function returned {what}, but a gradient needs a single floating-point "
            "number; reduce it, as in .mean(), or use jacrev; give has_aux=True if it returns "
            "(value, auxiliary)"
        )
    return found.node


def outputs_of(name: str, result: object, has_aux: bool) -> tuple[Any, Any]:
    """A function's result as (value, auxiliary).

    Raises:
        OptionError: if ``has_aux`` and it is no pair.
    """
    if not has_aux:
        return result, None
    if not isinstance(result, tuple) or len(result) != 2:
        raise OptionError(
            f"[{name}] has_aux=True, but the function returned {type(result).__name__} instead of "
            "a pair; return (value, auxiliary)"
        )
    return result


def argument_numbers(name: str, argnums: int | Sequence[int], count: int) -> tuple[int, ...]:
    """``argnums`` as a tuple of distinct positions.

    Raises:
        OptionError: for a position the call has no argument at.
    """
    wanted = (argnums,) if isinstance(argnums, int) else tuple(argnums)
    for number in wanted:
        if not -count <= number < count:
            raise OptionError(
                f"[{name}] argnums={argnums} but the call has {count} positional arguments; "
                "pass the arguments to differentiate by position, or correct argnums"
            )
    found = tuple(number % count for number in wanted)
    if len(set(found)) != len(found):
        raise OptionError(f"[{name}] argnums={argnums} names an argument twice; name each once")
    return found
