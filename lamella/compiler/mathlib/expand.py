"""The pass that replaces elementary functions in a kernel by their expressions over basic operations.

Input: a kernel. Output: an equal kernel without the operations of ``FUNCTIONS`` (the same object if it has none).
"""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from lamella.dtypes import DType
from lamella.ir.loops import (
    Accumulate, Apply, Assign, Declare, Expr, For, If, Kernel, Linear, Load, Stmt, Store,
)  # fmt: skip

__all__ = ["FUNCTIONS", "expand_math"]

FUNCTIONS: Final[dict[str, Callable[[tuple[Expr, ...], DType], Expr]]] = {}


def expand_math(kernel: Kernel) -> Kernel:
    """``kernel`` with every elementary function written out."""
    return kernel
