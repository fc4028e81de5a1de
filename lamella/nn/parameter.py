"""A parameter: a tensor that a module registers and an optimiser trains."""

from __future__ import annotations

from typing import Any

import lamella as lm
from lamella.tensor.core import announce
from lamella.tensor.tensor import Tensor

__all__ = ["Parameter"]


class Parameter(Tensor):
    """A leaf tensor that requires a gradient; assigning it to a module's attribute registers it.

    Args:
        data: a tensor or anything ``lm.tensor`` takes; neither its history nor an array is shared.
        requires_grad: whether it is trained.

    >>> import lamella as lm
    >>> Parameter(lm.zeros(2)).requires_grad
    True
    """

    __slots__ = ()

    def __new__(cls, data: Any, requires_grad: bool = True) -> Parameter:
        """A handle of this class on the value of ``data``."""
        self = object.__new__(cls)
        self._leaf = None
        self.node = lm.asarray(data, copy=not isinstance(data, Tensor)).detach().node
        announce(self)
        self.requires_grad = requires_grad
        return self

    def __init__(self, data: Any, requires_grad: bool = True) -> None:
        pass

    def __reduce__(self) -> tuple[type[Parameter], tuple[Any, bool]]:
        return Parameter, (self.detach(), self.requires_grad)

    def __deepcopy__(self, memo: dict[int, Any]) -> Parameter:
        memo[id(self)] = copied = Parameter(self.detach(), self.requires_grad)
        return copied

    def __repr__(self) -> str:
        return f"Parameter containing:\n{super().__repr__()}"
