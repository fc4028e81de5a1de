"""``config.debug_nans``: the first operation and source line that made a NaN.

Input: the roots of a program, what it computed for them, and its inputs. Nothing happens unless a
root holds a NaN; then the graph is computed again by the interpreter, one operation at a time
(effects are not repeated), until the first NaN. Slow, for looking for faults.
"""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from lamella.errors import NaNError
from lamella.ir.interp import interpret
from lamella.ir.node import Node, topological
from lamella.ops.calls import has_effects

__all__ = ["refuse_nans"]

Array = npt.NDArray[Any]


def refuse_nans(
    roots: Sequence[Node], made: Sequence[Array], inputs: Mapping[Node, Array],
    sizes: Mapping[str, int],
) -> None:  # fmt: skip
    """Raise if one of the values ``made`` for ``roots`` holds a NaN.

    Raises:
        NaNError: naming where the first one came from.
    """
    found = [root for root, array in zip(roots, made, strict=True) if _has_nan(array)]
    if not found:
        return
    given = dict(inputs)
    for root, array in zip(roots, made, strict=True):
        source = root.inputs[0] if root.op.kind == "part" else root
        if has_effects(source):
            given[root] = array
    raise NaNError(_origin(found, given, sizes))


def _has_nan(array: Array) -> bool:
    return array.dtype.kind not in "biu" and bool(np.isnan(array).any())


def _origin(roots: Sequence[Node], given: Mapping[Node, Array], sizes: Mapping[str, int]) -> str:
    order = [
        node for node in topological(roots, stop=list(given))
        if node.op.kind != "call" and (node.op.name != "placeholder" or node in given)
    ]  # fmt: skip
    values = dict(zip(order, interpret(order, given, sizes), strict=True))
    first = next((node for node in order if _has_nan(values[node])), roots[0])
    what = f"{first.dtype.name}{list(first.shape)}"
    if not first.inputs or first in given:
        return f"[debug_nans] a NaN came in with an input of the computation, {what}"
    op = first.inputs[0].op if first.op.kind == "part" else first.op
    where = f", recorded at {first.site}" if first.site else ""
    return (
        f"[{op.name}] the first NaN, in {what}{where}; its inputs have none: check them for values "
        "outside the operation's domain"
    )
