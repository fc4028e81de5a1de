"""Values of nodes built from arrays, for tests against independent references."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from lamella import ops
from lamella.dtypes import as_dtype
from lamella.ir.interp import interpret
from lamella.ir.node import Node
from lamella.ops.base import Array


def leaf(array: object) -> Node:
    """A leaf that holds ``array``."""
    found = np.asarray(array)
    return ops.data(found, found.shape, as_dtype(found.dtype))


def value(build: Callable[..., Node], *arrays: object) -> Array:
    """The value of ``build`` applied to leaves that hold ``arrays``."""
    return interpret([build(*(leaf(array) for array in arrays))])[0]


def values(nodes: Sequence[Node]) -> list[Array]:
    """The values of ``nodes``."""
    return interpret(list(nodes))
