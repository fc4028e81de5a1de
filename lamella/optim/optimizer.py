"""The base of optimisers: parameter groups, state, and the step that rebinds parameters.

A subclass names its state and computes one parameter's update. All state exists from the start
(zeros), so the first call of a step computes the same program as every later one. The number of
steps is a tensor per group, so a compiled step counts on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

import lamella as lm
from lamella.errors import OptionError, ShapeError, did_you_mean
from lamella.optim.flat import flattened, nested
from lamella.optim.group import ParamGroup
from lamella.tensor import pending
from lamella.tensor.tensor import Tensor

__all__ = ["Optimizer"]

Parameters = Iterable[Tensor] | Iterable[tuple[str, Tensor]] | Iterable[Mapping[str, Any]]


class Optimizer:
    """Updates parameters from their gradients.

    Args:
        params: tensors, named tensors (``model.named_parameters()``), or dicts with ``"params"``
            and options that differ from the defaults.
        defaults: every option and its value.

    Raises:
        OptionError: for no parameters, an unknown option in a dict, or a parameter given twice.
    """

    state_names: tuple[str, ...] = ()

    def __init__(self, params: Parameters, defaults: dict[str, Any]) -> None:
        self.defaults = defaults
        self.param_groups: list[ParamGroup] = []
        self.state: dict[Tensor, dict[str, Tensor]] = {}
        self._steps: list[Tensor] = []
        given = _given(type(self).__name__, params)
        if not given:
            raise OptionError(
                f"[{type(self).__name__}] got no parameters; pass model.parameters() (a generator "
                "serves only once)"
            )
        groups = given if isinstance(given[0], Mapping) else [{"params": given}]
        for group in groups:
            self.add_param_group(group)

    def add_param_group(self, group: Mapping[str, Any]) -> None:
        """Train more parameters, with options of their own.

        Raises:
            OptionError: for an unknown option, or a parameter that is trained already.
        """
        name = type(self).__name__
        options = dict(group)
        held = options.pop("params", [])
        tensors = (
            [held]
            if isinstance(held, Tensor)
            else [p[1] if isinstance(p, tuple) else p for p in held]
        )
        for option in options:
            if option not in self.defaults:
                raise OptionError(
                    f"[{name}] unknown option {option!r}; {did_you_mean(option, self.defaults)}"
                )
        if len({id(p) for p in tensors}) < len(tensors) or any(p in self.state for p in tensors):
            raise OptionError(
                f"[{name}] a parameter is given twice, and would be updated twice; give each one "
                "once"
            )
        for parameter in tensors:
            if not isinstance(parameter, Tensor):
                raise OptionError(
                    f"[{name}] {type(parameter).__name__} is no parameter; pass tensors or dicts "
                    "of them"
                )
            self.state[parameter] = {
                state: self._fresh(state, parameter, options)
                for state in self._names_of(parameter, options)
            }
        made = ParamGroup({**self.defaults, **options})
        made["params"] = tensors
        self.param_groups.append(made)
        self._steps.append(lm.zeros((), dtype=lm.int64))

    def _kept(self, options: Mapping[str, Any]) -> tuple[str, ...]:
        """The names of the state that a group with these options needs."""
        return self.state_names

    def _names_of(self, parameter: Tensor, options: Mapping[str, Any]) -> tuple[str, ...]:
        """The names of the state of one parameter."""
        return self._kept(options)

    def _fresh(self, name: str, parameter: Tensor, options: Mapping[str, Any]) -> Tensor:
        """The state ``name`` before the first step."""
        return lm.zeros(parameter.shape, dtype=parameter.dtype)

    def _held(self, state: dict[str, Tensor], name: str, parameter: Tensor) -> Tensor:
        """State that a changed option asks for later than at the start."""
        if name not in state:
            state[name] = self._fresh(name, parameter, {})
        return state[name]

    def _prepare(self, group: ParamGroup, step: Tensor) -> Any:
        """What all updates of a group share; ``step`` counts this one (int64, from 1)."""
        raise NotImplementedError

    def _update(
        self,
        parameter: Tensor,
        gradient: Tensor,
        state: dict[str, Tensor],
        group: ParamGroup,
        shared: Any,
    ) -> Tensor:
        """The parameter's new value; rebinds the tensors in ``state``."""
        raise NotImplementedError

    def step(self, closure: Callable[[], Tensor] | None = None) -> Tensor | None:
        """Update every parameter that has a gradient; outside transformed functions, compute it
        now.

        Args:
            closure: computes the loss again, with its gradients, before the update.

        Returns:
            the closure's loss.
        """
        loss = None
        if closure is not None:
            with lm.enable_grad():
                loss = closure()
        with lm.no_grad():
            for group, counter in zip(self.param_groups, self._steps, strict=True):
                trained = [(p, p.grad) for p in group["params"] if p.grad is not None]
                if not trained:
                    continue
                counter.add_(1)
                shared = self._prepare(group, counter)
                for parameter, gradient in trained:
                    signed = -gradient if group.get("maximize") else gradient
                    value = self._update(parameter, signed, self.state[parameter], group, shared)
                    parameter.rebind(value.astype(parameter.dtype).node)
        if pending.current_trace() is None:
            pending.flush()
        return loss

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients (or set them to zero)."""
        for group in self.param_groups:
            for parameter in group["params"]:
                if set_to_none:
                    parameter.grad = None
                elif parameter.grad is not None:
                    parameter.grad = lm.zeros(parameter.shape, dtype=parameter.dtype)

    def state_dict(self, *, flat: bool = False) -> dict[str, Any]:
        """State by parameter number, and groups with parameter numbers, in PyTorch's form.

        Args:
            flat: give tensors by names such as ``"state.0.exp_avg"`` and ``"param_groups.0.lr"``
                instead, as ``lm.save`` writes and :meth:`load_state_dict` also takes them.

        >>> p = lm.tensor([1.0], requires_grad=True)
        >>> sorted(lm.optim.Adam([p]).state_dict(flat=True))[-3:]
        ['state.0.exp_avg', 'state.0.exp_avg_sq', 'state.0.step']
        """
        numbers = {
            p: i for i, p in enumerate(p for group in self.param_groups for p in group["params"])
        }
        state = {}
        for group, counter in zip(self.param_groups, self._steps, strict=True):
            for p in group["params"]:
                held = {name: value.detach() for name, value in self.state[p].items()}
                state[numbers[p]] = {"step": counter.detach(), **held}
        groups = [
            {**group, "params": [numbers[p] for p in group["params"]]}
            for group in self.param_groups
        ]
        found = {"state": state, "param_groups": groups}
        return flattened(found) if flat else found

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Continue from a state that :meth:`state_dict` gave, flat ones included; nothing changes
        when an error is raised.

        Raises:
            OptionError: if groups or parameters are more or fewer.
            ShapeError: if a state tensor's shape differs.
        """
        if isinstance(state_dict, Mapping):
            state_dict = nested(state_dict)
        if not isinstance(state_dict, Mapping) or not {"state", "param_groups"} <= set(state_dict):
            raise OptionError(
                f"[load_state_dict] {type(state_dict).__name__} with {_names(state_dict)} is no "
                "optimiser's state, which has 'state' and 'param_groups'; pass what state_dict() "
                "returned"
            )
        groups = state_dict["param_groups"]
        here = [len(group["params"]) for group in self.param_groups]
        there = [len(group["params"]) for group in groups]
        if here != there:
            raise OptionError(
                f"[load_state_dict] groups of {there} parameters there, of {here} here; build the "
                "optimiser over the same model first"
            )
        loaded: list[tuple[Tensor, Tensor]] = []
        for group, saved, counter in zip(self.param_groups, groups, self._steps, strict=True):
            for number, parameter in zip(saved["params"], group["params"], strict=True):
                entry = state_dict["state"].get(number, {})
                for name in self._names_of(parameter, self._known(saved)):
                    if name in entry:  # also what the options here had no use for
                        self._held(self.state[parameter], name, parameter)
                loaded += [
                    (mine, entry[name])
                    for name, mine in self.state[parameter].items()
                    if name in entry
                ]
                if "step" in entry:
                    loaded.append((counter, entry["step"]))
        checked = [(mine, self._fitting(mine, value)) for mine, value in loaded]
        for mine, value in checked:
            mine.rebind(value.node)
        for group, saved in zip(self.param_groups, groups, strict=True):
            group.update(self._known(saved))

    def _known(self, saved: Mapping[str, Any]) -> dict[str, Any]:
        """The options among a saved group's entries."""
        return {name: value for name, value in saved.items() if name in self.defaults}

    def _fitting(self, mine: Tensor, value: Any) -> Tensor:
        found = lm.asarray(value, copy=not isinstance(value, Tensor)).detach()
        if tuple(found.shape) != tuple(mine.shape):
            raise ShapeError(
                f"[load_state_dict] state of shape {tuple(found.shape)} for one of "
                f"{tuple(mine.shape)}; build the optimiser over the same model first"
            )
        return found.astype(mine.dtype)

    def __repr__(self) -> str:
        lines = [f"{type(self).__name__} ("]
        for number, group in enumerate(self.param_groups):
            lines.append(f"Parameter Group {number}")
            lines += [f"    {name}: {value}" for name, value in group.items() if name != "params"]
        return "\n".join([*lines, ")"])


def _given(name: str, params: Any) -> list[Any]:
    """What was passed for parameters, as a list."""
    if isinstance(params, Tensor):
        return [params]
    if isinstance(params, Mapping) or not isinstance(params, Iterable):
        what = "a model: pass its .parameters()" if hasattr(params, "parameters") else "no list"
        raise OptionError(
            f"[{name}] params is a {type(params).__name__}, {what}; parameters are given as a list "
            "of tensors, or of dicts with 'params'"
        )
    return list(params)


def _names(value: Any) -> str:
    return f"keys {sorted(map(str, value))}" if isinstance(value, Mapping) else "no keys"


def decayed(parameter: Tensor, gradient: Tensor, group: ParamGroup) -> Tensor:
    """The gradient with the group's weight decay times the parameter added."""
    if group["weight_decay"] == 0:
        return gradient
    return gradient + parameter * group.number("weight_decay").astype(parameter.dtype)


def decayed_both(
    parameter: Tensor, gradient: Tensor, group: ParamGroup, decoupled: bool
) -> tuple[Tensor, Tensor]:
    """The parameter and its gradient after weight decay: of the one if it is ``decoupled``, else
    of the other.
    """
    if not decoupled:
        return parameter, decayed(parameter, gradient, group)
    if group["weight_decay"] == 0:
        return parameter, gradient
    kept = 1.0 - group.number("lr") * group.number("weight_decay")
    return parameter * kept.astype(parameter.dtype), gradient


def moved(mean: Tensor, gradient: Tensor, take: Tensor) -> Tensor:
    """The running mean after a step of the share ``take`` towards the gradient, kept."""
    mean.rebind((mean + (gradient - mean) * take).node)
    return mean


def check_numbers(op: str, **numbers: Any) -> dict[str, Any]:
    """Options that are numbers from 0 on.

    Raises:
        OptionError: for something else.

    >>> check_numbers("SGD", lr=0.1)
    {'lr': 0.1}
    """
    for name, value in numbers.items():
        check_number(op, name, value)
    return numbers


def check_betas(op: str, betas: Any) -> tuple[float, float]:
    """Two numbers from 0 to below 1.

    Raises:
        OptionError: for something else.

    >>> check_betas("Adam", [0.9, 0.999])
    (0.9, 0.999)
    """
    if not isinstance(betas, (tuple, list)) or len(betas) != 2:
        raise OptionError(f"[{op}] betas={betas!r} are not two numbers; give two")
    for beta in betas:
        check_number(op, "betas", beta, below=1.0)
    return betas[0], betas[1]


def check_number(
    op: str, name: str, value: Any, low: float = 0.0, below: float | None = None,
    most: float | None = None,
) -> None:  # fmt: skip
    """Raise OptionError unless ``low <= value`` (and ``value < below``, ``value <= most``); tensors
    are taken as they are.

    >>> check_number("SGD", "lr", 0.1)
    """
    if isinstance(value, Tensor):
        return
    if (
        not isinstance(value, (int, float, np.number))
        or not value >= low
        or (below is not None and not value < below)
        or (most is not None and not value <= most)
    ):
        limits = f">= {low:g}" + (f" and < {below:g}" if below is not None else "")
        limits += f" and <= {most:g}" if most is not None else ""
        raise OptionError(f"[{op}] {name}={value!r} is no number {limits}; give one")
