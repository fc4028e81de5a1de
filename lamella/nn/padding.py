"""Padding as modules: constant, zero, reflected, replicated and circular, for one to three spatial
axes.

The size is one number for all ends, or ``(low, high)`` of the last axis, then of the one before it,
and so on; negative numbers cut off.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from lamella.errors import OptionError
from lamella.nn import functional as F
from lamella.nn.module import Configured
from lamella.tensor.tensor import Tensor

__all__ = [
    "CircularPad1d", "CircularPad2d", "CircularPad3d", "ConstantPad1d", "ConstantPad2d",
    "ConstantPad3d", "ReflectionPad1d", "ReflectionPad2d", "ReflectionPad3d", "ReplicationPad1d",
    "ReplicationPad2d", "ReplicationPad3d", "ZeroPad1d", "ZeroPad2d", "ZeroPad3d",
]  # fmt: skip

Sizes = int | Sequence[int]


class _Pad(Configured):
    rank: ClassVar[int]
    mode: ClassVar[str]
    options: ClassVar[tuple[str, ...]] = ("padding",)

    def __init__(self, padding: Sizes) -> None:
        super().__init__()
        count = 2 * self.rank
        self.padding = (padding,) * count if isinstance(padding, int) else tuple(padding)
        if len(self.padding) != count:
            raise OptionError(
                f"[{type(self).__name__}] padding={padding!r}; give one number, or {count}: low "
                "and high of each axis, the last axis first"
            )

    def forward(self, input: Tensor) -> Tensor:
        """The padded input."""
        return F.pad(input, self.padding, self.mode)


class _ConstantPad(_Pad):
    mode = "constant"
    options = ("padding", "value")

    def __init__(self, padding: Sizes, value: float) -> None:
        super().__init__(padding)
        self.value = value

    def forward(self, input: Tensor) -> Tensor:
        """The padded input."""
        return F.pad(input, self.padding, self.mode, self.value)


class ConstantPad1d(_ConstantPad):
    """Add a constant around ``(N, C, L)`` or one without ``N``.

    >>> import lamella as lm
    >>> ConstantPad1d(1, 0.5)(lm.ones((1, 1, 3))).shape
    (1, 1, 5)
    """

    rank = 1


class ConstantPad2d(_ConstantPad):
    """Add a constant around ``(N, C, H, W)`` or one without ``N``."""

    rank = 2


class ConstantPad3d(_ConstantPad):
    """Add a constant around ``(N, C, D, H, W)`` or one without ``N``."""

    rank = 3


class ZeroPad1d(_Pad):
    """Add zeros around ``(N, C, L)`` or one without ``N``.

    >>> import lamella as lm
    >>> ZeroPad1d(1)(lm.ones((1, 1, 3))).shape
    (1, 1, 5)
    """

    rank = 1
    mode = "constant"


class ZeroPad2d(_Pad):
    """Add zeros around ``(N, C, H, W)`` or one without ``N``."""

    rank = 2
    mode = "constant"


class ZeroPad3d(_Pad):
    """Add zeros around ``(N, C, D, H, W)`` or one without ``N``."""

    rank = 3
    mode = "constant"


class ReflectionPad1d(_Pad):
    """Reflect, without repeating the edge, around ``(N, C, L)`` or one without ``N``.

    >>> import lamella as lm
    >>> ReflectionPad1d(1)(lm.ones((1, 1, 3))).shape
    (1, 1, 5)
    """

    rank = 1
    mode = "reflect"


class ReflectionPad2d(_Pad):
    """Reflect, without repeating the edge, around ``(N, C, H, W)`` or one without ``N``."""

    rank = 2
    mode = "reflect"


class ReflectionPad3d(_Pad):
    """Reflect, without repeating the edge, around ``(N, C, D, H, W)`` or one without ``N``."""

    rank = 3
    mode = "reflect"


class ReplicationPad1d(_Pad):
    """Repeat the edges around ``(N, C, L)`` or one without ``N``.

    >>> import lamella as lm
    >>> ReplicationPad1d(1)(lm.ones((1, 1, 3))).shape
    (1, 1, 5)
    """

    rank = 1
    mode = "replicate"


class ReplicationPad2d(_Pad):
    """Repeat the edges around ``(N, C, H, W)`` or one without ``N``."""

    rank = 2
    mode = "replicate"


class ReplicationPad3d(_Pad):
    """Repeat the edges around ``(N, C, D, H, W)`` or one without ``N``."""

    rank = 3
    mode = "replicate"


class CircularPad1d(_Pad):
    """Wrap around ``(N, C, L)`` or one without ``N``.

    >>> import lamella as lm
    >>> CircularPad1d(1)(lm.ones((1, 1, 3))).shape
    (1, 1, 5)
    """

    rank = 1
    mode = "circular"


class CircularPad2d(_Pad):
    """Wrap around ``(N, C, H, W)`` or one without ``N``."""

    rank = 2
    mode = "circular"


class CircularPad3d(_Pad):
    """Wrap around ``(N, C, D, H, W)`` or one without ``N``."""

    rank = 3
    mode = "circular"
