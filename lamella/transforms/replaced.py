"""Memory that a compiled step's gradients take over: that of the gradients they replace.

A step that sets gradients without having read those of the step before (``zero_grad``, then
``backward``) has no input for the old ones, which would wait in memory until it is done. Invariant:
memory is taken over only where the slot of the parameter alone holds the old gradient.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Final, cast

from lamella.dtypes import float32
from lamella.ir.node import Node
from lamella.ops.leaf import DATA
from lamella.runtime.buffer import Buffer, empty
from lamella.tensor.core import Leaf, TensorCore, wrap

__all__ = ["replaced"]


def replaced(
    gradients: Sequence[tuple[int, int | Node | None]], handles: Sequence[TensorCore],
    nbytes: Sequence[int],
) -> dict[int, tuple[TensorCore, Buffer]]:
    """The old gradients, and their memory, that the roots, by number, may be written over."""
    found: dict[int, tuple[TensorCore, Buffer]] = {}
    for i, place in gradients:
        leaf = handles[i]._leaf
        if not isinstance(place, int) or place in found or leaf is None or leaf.grad is None:
            continue
        alone, buffer = _holders(leaf) == _ALONE, leaf.grad.node.value
        fits = isinstance(buffer, Buffer) and buffer.writable and buffer.nbytes == nbytes[place]
        if alone and fits:
            found[place] = leaf.grad, cast("Buffer", buffer)
    return found


def _holders(leaf: Leaf) -> tuple[int, int, int]:
    """How many references there are to a gradient, its node and its memory."""
    grad = leaf.grad
    if grad is None:
        return 0, 0, 0
    node = grad.node
    buffer = node.value
    return sys.getrefcount(grad), sys.getrefcount(node), sys.getrefcount(buffer)


def _unshared() -> tuple[int, int, int]:
    """The holders of a gradient that its slot alone holds, as this interpreter counts them."""
    leaf = Leaf(required=False)
    leaf.grad = wrap(Node(DATA, (), (1,), float32))
    leaf.grad.node.value = empty(4)
    return _holders(leaf)


_ALONE: Final = _unshared()
