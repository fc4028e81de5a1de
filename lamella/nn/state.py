"""Loading values into the tensors of a module, and casting them; every problem is reported at once.

Invariant: when an error is raised, no tensor has been changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import lamella as lm
from lamella.dtypes import DType, as_dtype
from lamella.errors import DTypeError, OptionError, ShapeError
from lamella.tensor.tensor import Tensor

__all__ = ["LoadResult", "cast_all", "load_state_dict", "target_dtype"]


class LoadResult(NamedTuple):
    """The names a lenient load did not find, and those it did not use."""

    missing_keys: list[str]
    unexpected_keys: list[str]


def _independent(value: Any) -> Tensor:
    """``value`` as a tensor of its own: arrays are copied, tensors need not be."""
    return lm.asarray(value) if isinstance(value, lm.Tensor) else lm.tensor(value)


def load_state_dict(
    owner: str, own: dict[str, Tensor], state: Mapping[str, Any], strict: bool
) -> LoadResult:
    """Copy the values of ``state`` into the tensors ``own`` of the same names (see
    ``Module.load_state_dict``).
    """
    if not isinstance(state, Mapping):
        raise OptionError(
            f"[load_state_dict] got a {type(state).__name__}; pass a dict of names to tensors, "
            "such as lm.load(path) gives"
        )
    missing = [name for name in own if name not in state]
    unexpected = [name for name in state if name not in own]
    values = {name: _independent(state[name]) for name in own if name in state}
    shapes = [
        f"{name} has shape {tuple(value.shape)} there but {tuple(own[name].shape)} here"
        for name, value in values.items()
        if tuple(value.shape) != tuple(own[name].shape)
    ]
    problems = [
        *([f"missing: {', '.join(missing)}"] if missing and strict else []),
        *([f"unexpected: {', '.join(unexpected)}"] if unexpected and strict else []),
        *([f"shapes differ: {'; '.join(shapes)}"] if shapes else []),
    ]
    if problems:
        raise (ShapeError if shapes else OptionError)(
            f"[load_state_dict] the state does not fit {owner}: {'. '.join(problems)}; build the "
            "model with the options it was saved with"
            + ("" if shapes else ", or pass strict=False to take what fits")
        )
    for name, value in values.items():
        _rebind(own[name], value.astype(own[name].dtype))
    return LoadResult(missing, unexpected)


def cast_all(tensors: Iterable[Tensor], dtype: DType) -> None:
    """Cast the floating-point ones among ``tensors`` in place."""
    for tensor in tensors:
        if tensor.dtype.is_floating and tensor.dtype is not dtype:
            _rebind(tensor, tensor.detach().astype(dtype))


def target_dtype(where: tuple[Any, ...], dtype: Any, device: Any) -> DType | None:
    """The floating-point dtype that arguments of ``Module.to`` ask for, if any."""
    for item in where:
        if isinstance(item, str) and item.split(":")[0] in ("cpu", "cuda", "gpu", "mps", "xpu"):
            device = item
        else:
            dtype = item
    if device is not None and str(device).split(":")[0] != "cpu":
        raise OptionError(f"[to] device {device!r} is not available; the one device is 'cpu'")
    if dtype is None:
        return None
    target = as_dtype(dtype)
    if not target.is_floating:
        raise DTypeError(
            f"[to] modules compute with floating-point parameters, not {target.name}; choose a "
            "float dtype"
        )
    return target


def _rebind(tensor: Tensor, value: Tensor) -> None:
    tensor.data = value.detach()
