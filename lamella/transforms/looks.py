"""Results of differentiated functions that left the graph: an error instead of a silent zero.

Input: a function's result and the marks it is differentiated by. ``x.item()``, ``float(x)``,
``x.numpy()`` and the like give constants, as ``detach()`` does in PyTorch; a result that is made
of nothing else has no derivative. What does not depend on the arguments at all has derivative
zero, and so has what is made of ``lm.stop_gradient(x).item()``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from lamella import tree
from lamella.errors import GradientError
from lamella.ir.node import Node
from lamella.tensor.core import looks
from lamella.tensor.tensor import Tensor
from lamella.transforms.calls import as_tensor

__all__ = ["Watch", "watch"]


class Watch:
    """What was looked at since it began."""

    def __init__(self, found: list[tuple[str, str | None, Node]]) -> None:
        self._found, self._start = found, len(found)

    def check(self, name: str, value: object, marks: Sequence[Node]) -> None:
        """Raise if a floating-point part of ``value`` can only come from values looked at.

        Raises:
            GradientError: for a number or an array, where a value that depends on ``marks`` was
                looked at; for tensors, where none depends on them.
        """
        found = [look for look in self._found[self._start :] if _depends([look[2]], marks)]
        if not found:
            return
        leaves = [
            (path, leaf, as_tensor(leaf))
            for path, leaf in zip(tree.paths(value), tree.leaves(value), strict=True)
        ]
        made = [each for each in leaves if isinstance(each[2], Tensor) and each[2].dtype.inexact]
        left = [each for each in made if not isinstance(each[1], Tensor)]
        if not left and not _depends([each[2].node for each in made], marks):
            left = made
        if not left:
            return
        path, leaf, _ = left[0]
        how, site, _ = found[0]
        raise GradientError(
            f"[{name}] the function returned {type(leaf).__name__} at {path or 'its top'} after a "
            f"value that depends on its arguments left the graph by {how}"
            f"{f' ({site})' if site else ''}, so its derivative would be a silent zero; compute "
            "the result with tensors, return it as auxiliary output (has_aux=True), or look at "
            "lm.stop_gradient(x) where a constant is meant"
        )


@contextmanager
def watch() -> Iterator[Watch]:
    """Note what is looked at inside, for :meth:`Watch.check`.

    >>> import lamella as lm
    >>> lm.grad(lambda x: float(x * x))(lm.asarray(3.0))
    Traceback (most recent call last):
    lamella.errors.GradientError: [grad] the function returned float at value after a value ...
    """
    outer = looks.found
    looks.found = [] if outer is None else outer
    try:
        yield Watch(looks.found)
    finally:
        looks.found = outer


def _depends(roots: Sequence[Node], marks: Sequence[Node]) -> bool:
    """Whether a path leads from a root to a mark."""
    wanted, seen, stack = set(marks), set(roots), list(roots)
    while stack:
        node = stack.pop()
        if node in wanted:
            return True
        fresh = [source for source in node.inputs if source not in seen]
        seen.update(fresh)
        stack.extend(fresh)
    return False
