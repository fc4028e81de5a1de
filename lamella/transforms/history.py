"""What a derivative leaves behind: its results drop the history that only its own marks gave them.

Input: results of a transformed call. Output: the same values, untracked unless a leaf or a mark
from outside the call is below them. Without it a loop such as ``x = x - rate * grad(f)(x)`` would
keep the graphs of all its steps. Under a trace nothing is dropped: placeholders may stand for what
a caller differentiates by.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, Final
from weakref import WeakKeyDictionary

from lamella import ops, tree
from lamella.ir.node import Node
from lamella.tensor.core import wrap
from lamella.tensor.gradient import detached_node
from lamella.tensor.pending import current_trace
from lamella.tensor.tensor import Tensor

__all__ = ["mark", "moment", "released", "since"]

_moments: Final = itertools.count()
_made: Final[WeakKeyDictionary[Node, int]] = WeakKeyDictionary()  # marks, and when


def mark(node: Node) -> Node:
    """A fresh identity of ``node`` to differentiate by."""
    made = ops.mark(node)
    made.tracked = True
    _made[made] = moment()
    return made


def moment() -> int:
    """A number larger than all before.

    >>> moment() < moment()
    True
    """
    return next(_moments)


def since(start: int) -> Callable[[Node], bool]:
    """Whether a node is a mark made after ``start``."""
    return lambda node: _made.get(node, -1) > start


def released(value: Any, own: Callable[[Node], bool]) -> Any:
    """The tree ``value``, its tensors untracked where all they can be differentiated by is ``own``.

    >>> import lamella as lm
    >>> start, x = moment(), wrap(mark(lm.ones(2).node))
    >>> (x * 2).requires_grad, released(x * 2, since(start)).requires_grad
    (True, False)
    """
    if current_trace() is not None:
        return value
    leaves, structure = tree.flatten(value)
    roots = [leaf.node for leaf in leaves if isinstance(leaf, Tensor) and leaf.node.tracked]
    if not roots:
        return value
    kept = _reaching(roots, own)
    if all(root in kept for root in roots):
        return value
    found = [
        wrap(detached_node(leaf.node))
        if isinstance(leaf, Tensor) and leaf.node.tracked and leaf.node not in kept
        else leaf
        for leaf in leaves
    ]
    return tree.unflatten(structure, found)


def _reaching(roots: Sequence[Node], own: Callable[[Node], bool]) -> set[Node]:
    """The tracked nodes from which a tracked node without tracked inputs is reached that is not
    ``own``.
    """
    found: set[Node] = set()
    seen: set[Node] = set()
    stack = [(root, False) for root in roots]
    while stack:
        node, expanded = stack.pop()
        inner = [source for source in node.inputs if source.tracked]
        if expanded:
            if any(source in found for source in inner) if inner else not own(node):
                found.add(node)
        elif node not in seen:
            seen.add(node)
            stack.append((node, True))
            stack.extend((source, False) for source in inner)
    return found
