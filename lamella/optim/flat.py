"""An optimiser's state as tensors by name, which files of tensors can hold, and back.

``state.0.exp_avg`` is the state ``exp_avg`` of parameter 0, ``param_groups.0.lr`` an option of
group 0: numbers are float64, flags bool, the numbers of its parameters int64; None is left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

import lamella as lm
from lamella.errors import OptionError
from lamella.tensor.tensor import Tensor

__all__ = ["flattened", "nested"]


def flattened(state_dict: Mapping[str, Any]) -> dict[str, Tensor]:
    """The tensors of a state in PyTorch's form, by name.

    Raises:
        OptionError: for an option that is neither a number, a flag, None nor several numbers.

    >>> found = flattened({"state": {}, "param_groups": [{"params": [0], "betas": (0.9, 0.99)}]})
    >>> found["param_groups.0.betas"].tolist()
    [0.9, 0.99]
    """
    found: dict[str, Tensor] = {}
    for number, held in state_dict["state"].items():
        for name, value in held.items():
            found[f"state.{number}.{name}"] = value
    for number, group in enumerate(state_dict["param_groups"]):
        for name, value in group.items():
            found |= _option(f"param_groups.{number}.{name}", value)
    return found


def _option(name: str, value: Any) -> dict[str, Tensor]:
    if value is None:
        return {}
    if isinstance(value, tuple) and None in value:
        parts = (_option(f"{name}.{i}", part) for i, part in enumerate(value))
        return {key: part for found in parts for key, part in found.items()}
    array = np.asarray(value.numpy() if isinstance(value, Tensor) else value)
    if array.dtype.kind not in "biuf":
        raise OptionError(
            f"[state_dict] the option {name}={value!r:.40} is no number, flag or None; keep it "
            "apart from the flat state"
        )
    whole = name.endswith(".params")
    return {name: lm.asarray(array.astype(np.int64 if whole else _kind(array)))}


def _kind(array: np.ndarray) -> np.dtype[Any]:
    return np.dtype(bool if array.dtype.kind == "b" else np.float64)


def nested(state_dict: Mapping[str, Any]) -> Mapping[str, Any]:
    """A flat state in PyTorch's form; another one as it is."""
    names = [name for name in state_dict if isinstance(name, str)]
    if "param_groups" in state_dict or not any(n.startswith("param_groups.") for n in names):
        return state_dict
    state: dict[int, dict[str, Any]] = {}
    groups: dict[int, dict[str, Any]] = {}
    for key in names:
        kind, number, name = (*key.split(".", 2), "", "")[:3]
        if kind not in ("state", "param_groups") or not number.isdigit():
            raise OptionError(
                f"[load_state_dict] {key!r} is no name of an optimiser's flat state, which begins "
                "with 'state.0.' or 'param_groups.0.'; pass what state_dict(flat=True) returned"
            )
        value = state_dict[key]
        if kind == "state":
            state.setdefault(int(number), {})[name] = value
        else:
            groups.setdefault(int(number), {})[name] = _plain(value)
    return {"state": state, "param_groups": [_paired(groups[n]) for n in sorted(groups)]}


def _plain(value: Any) -> Any:
    found = lm.asarray(value).tolist()
    whole = lm.asarray(value).dtype.is_integer
    return tuple(found) if isinstance(found, list) and not whole else found


def _paired(group: dict[str, Any]) -> dict[str, Any]:
    """Tuples of which None was left out, put together again."""
    found = {name: value for name, value in group.items() if "." not in name}
    for name, value in group.items():
        if "." in name:
            whole, place = name.split(".", 1)
            parts = [None, None] if whole not in found else list(found[whole])
            parts[int(place)] = value
            found[whole] = tuple(parts)
    return found
