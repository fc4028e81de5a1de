"""``copy``, ``deepcopy`` and ``pickle`` of tensors, subclasses and their attributes included.

A copy is a new handle on the same value, which needs no copy because values never change. A pickle
holds the value, the element type's name and whether a gradient is required; what a tensor was
computed from is not kept.
"""

from __future__ import annotations

import copy
from typing import Any

from lamella.dtypes import as_dtype
from lamella.tensor.core import Leaf, TensorCore, announce, leaf_node, node_of, owners, value_of
from lamella.tensor.gradient import detached_node, is_leaf
from lamella.tensor.host import node_from_array
from lamella.tensor.pending import current_trace, note

__all__ = ["copied", "rebuild", "reduced"]


def _adopt(made: TensorCore, source: Any, required: bool) -> TensorCore:
    """Give a new handle its node, as a leaf if it requires a gradient."""
    from weakref import ref

    made.node = leaf_node(source) if required else source
    made._leaf = Leaf(required=True) if required else None
    if required:
        owners[made.node] = ref(made)
    if current_trace() is not None:
        announce(made)
    elif made.node.value is None:
        note(made)
    return made


def _slots_of(tensor: TensorCore) -> dict[str, Any]:
    """Attributes that a subclass added."""
    return dict(getattr(tensor, "__dict__", {}))


def copied(tensor: TensorCore, memo: dict[int, object]) -> Any:
    """A new handle of the same class on the same value; leaves stay leaves, with their gradient.

    >>> import lamella as lm
    >>> x = lm.ones(2); y = copy.deepcopy(x); x += 1
    >>> y.tolist()
    [1.0, 1.0]
    """
    required = tensor.node.tracked and is_leaf(tensor)
    node = node_of(tensor)
    made = _adopt(object.__new__(type(tensor)), detached_node(node) if required else node, required)
    memo[id(tensor)] = made
    for name, value in _slots_of(tensor).items():
        setattr(made, name, copy.deepcopy(value, memo) if memo else value)
    leaf = tensor._leaf
    if leaf is not None and leaf.grad is not None and made._leaf is not None:
        made._leaf.grad = copied(leaf.grad, memo)
    return made


def rebuild(cls: type[TensorCore], array: Any, dtype: str, required: bool) -> TensorCore:
    """A tensor from what :func:`reduced` gave (a bfloat16 value travels as uint16)."""
    kind = as_dtype(dtype)
    if array.dtype != kind.numpy:
        array = array.view(kind.numpy)
    return _adopt(object.__new__(cls), node_from_array(array), required)


def reduced(tensor: TensorCore) -> tuple[Any, ...]:
    """How pickle takes a tensor apart.

    >>> import pickle, lamella as lm
    >>> pickle.loads(pickle.dumps(lm.tensor([1, 2]))).tolist()
    [1, 2]
    """
    array = value_of(tensor, "pickle")
    if tensor.dtype.name == "bfloat16":
        array = array.view("uint16")
    required = tensor.node.tracked and is_leaf(tensor)
    return rebuild, (type(tensor), array, tensor.dtype.name, required), _slots_of(tensor) or None
