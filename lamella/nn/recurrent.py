"""Recurrent layers: plain, LSTM (Hochreiter and Schmidhuber, 1997) and GRU (Cho et al., 2014), one
step (cells) or whole sequences.

Parameters have PyTorch's names and layouts: ``weight_ih_l0 (gates * hidden, input)``,
``weight_hh_l0 (gates * hidden, hidden)``, ``bias_ih_l0``, ``bias_hh_l0``, with ``_reverse`` for the
backward direction and ``weight_hr_l0 (proj, hidden)`` for projections; gates stand in the order i,
f, g, o and r, z, n. All are drawn uniform in ``±1/sqrt(hidden_size)``. The input's share of the
gates is one matrix product over all steps; the steps are a :func:`lamella.scan`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, ClassVar

import lamella as lm
from lamella.errors import OptionError, ShapeError
from lamella.nn import functional as F
from lamella.nn import init
from lamella.nn.functional.support import choose, tensor
from lamella.nn.module import Module
from lamella.nn.parameter import Parameter
from lamella.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence
from lamella.tensor.tensor import Tensor

__all__ = ["GRU", "LSTM", "RNN", "GRUCell", "LSTMCell", "RNNCell"]

State = tuple[Tensor, ...]
Step = Callable[[Tensor, State], State]


def _rnn_step(nonlinearity: str, weight: Tensor, bias: Tensor | None) -> Step:
    """``h' = tanh(x + W h + b)``."""
    function = lm.tanh if nonlinearity == "tanh" else F.relu

    def step(x: Tensor, state: State) -> State:
        return (function(x + F.linear(state[0], weight, bias)),)

    return step


def _lstm_step(weight: Tensor, bias: Tensor | None, projection: Tensor | None) -> Step:
    """``c' = f c + i g``, ``h' = o tanh(c')``, projected if there is a projection."""

    def step(x: Tensor, state: State) -> State:
        hidden, cell = state
        gates = x + F.linear(hidden, weight, bias)
        size = cell.shape[-1]
        i, f, g, o = (gates[..., k * size : (k + 1) * size] for k in range(4))
        cell = lm.sigmoid(f) * cell + lm.sigmoid(i) * lm.tanh(g)
        hidden = lm.sigmoid(o) * lm.tanh(cell)
        return (hidden if projection is None else F.linear(hidden, projection)), cell

    return step


def _gru_step(weight: Tensor, bias: Tensor | None) -> Step:
    """``n = tanh(x_n + r (W_n h + b_n))``, ``h' = (1 - z) n + z h``."""

    def step(x: Tensor, state: State) -> State:
        (hidden,) = state
        own = F.linear(hidden, weight, bias)
        size = hidden.shape[-1]
        r, z = (
            lm.sigmoid(x[..., k * size : (k + 1) * size] + own[..., k * size : (k + 1) * size])
            for k in range(2)
        )
        n = lm.tanh(x[..., 2 * size :] + r * own[..., 2 * size :])
        return (n + z * (hidden - n),)

    return step


def _run(
    step: Step, xs: Tensor, state: State, reverse: bool, inside: Tensor | None = None
) -> tuple[Tensor, State]:
    """All steps over the first axis of ``xs``: the hidden states, and the last state. Where
    ``inside`` (steps, batch, 1) does not hold, the state stays.
    """

    def body(state: State, x: Tensor) -> tuple[State, Tensor]:
        state = step(x, state)
        return state, state[0]

    def masked(state: State, x: tuple[Tensor, Tensor]) -> tuple[State, Tensor]:
        after = step(x[0], state)
        after = tuple(lm.where(x[1], *pair) for pair in zip(after, state, strict=True))
        return after, after[0]

    if inside is None:
        last, hidden = lm.scan(body, state, xs, reverse=reverse)
    else:
        last, hidden = lm.scan(masked, state, (xs, inside), reverse=reverse)
    return hidden, last


class _Recurrent(Module):
    """What cells and layers share: sizes, parameters, and which step they take."""

    kind: ClassVar[str]
    gates: ClassVar[int]
    states: ClassVar[int] = 1
    nonlinearity = "tanh"
    proj_size = 0

    def _sizes(self, input_size: int, hidden_size: int, bias: bool) -> None:
        if input_size < 1 or hidden_size < 1:
            raise OptionError(
                f"[{type(self).__name__}] input_size={input_size}, hidden_size={hidden_size}; give "
                "sizes of 1 or more"
            )
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.bias = bias

    def _weights(self, suffix: str, inputs: int, dtype: Any) -> None:
        """Register the parameters of one direction of one layer."""
        rows = self.gates * self.hidden_size
        shapes: dict[str, Any] = {
            "weight_ih": (rows, inputs), "weight_hh": (rows, self.proj_size or self.hidden_size),
        }  # fmt: skip
        if self.bias:
            shapes |= {"bias_ih": (rows,), "bias_hh": (rows,)}
        if self.proj_size:
            shapes["weight_hr"] = (self.proj_size, self.hidden_size)
        for name, shape in shapes.items():
            self.register_parameter(
                name + suffix, Parameter(lm.empty(shape, dtype=dtype or lm.float32))
            )

    def reset_parameters(self) -> None:
        """Draw new values."""
        bound = 1 / math.sqrt(self.hidden_size)
        for parameter in self.parameters():
            init.uniform_(parameter, -bound, bound)

    def _value(self, name: str) -> Any:
        return self._parameters.get(name)

    def _step(self, suffix: str) -> Step:
        weight, bias = self._value("weight_hh" + suffix), self._value("bias_hh" + suffix)
        if self.kind == "lstm":
            return _lstm_step(weight, bias, self._value("weight_hr" + suffix))
        if self.kind == "gru":
            return _gru_step(weight, bias)
        return _rnn_step(self.nonlinearity, weight, bias)

    def _inputs(self, x: Tensor, suffix: str) -> Tensor:
        """The input's share of the gates."""
        return F.linear(x, self._value("weight_ih" + suffix), self._value("bias_ih" + suffix))

    def _begin(self, hx: Any, shapes: tuple[tuple[int, ...], ...], dtype: Any) -> State:
        """The given state, checked, or zeros."""
        if hx is None:
            return tuple(lm.zeros(shape, dtype=dtype) for shape in shapes)
        given = tuple(hx) if self.states == 2 else (hx,)
        found = tuple(tuple(each.shape) for each in given)
        if found != shapes:
            raise ShapeError(
                f"[{type(self).__name__}] a state of shapes {found}, but {shapes} are needed for "
                "this input; check the batch size, the number of layers and the order of axes"
            )
        return given


class _Cell(_Recurrent):
    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, dtype: Any = None
    ) -> None:
        super().__init__()
        self._sizes(input_size, hidden_size, bias)
        self._weights("", input_size, dtype)
        self.reset_parameters()

    def forward(self, input: Tensor, hx: Any = None) -> Any:
        """The next state, from ``(N, input_size)`` or ``(input_size,)`` and a state like it
        (default: zeros).
        """
        if input.ndim not in (1, 2) or input.shape[-1] != self.input_size:
            raise ShapeError(
                f"[{type(self).__name__}] input of shape {tuple(input.shape)} is not (N, "
                f"{self.input_size}) or ({self.input_size},)"
            )
        shape = (*input.shape[:-1], self.hidden_size)
        state = self._begin(hx, (shape,) * self.states, input.dtype)
        new = self._step("")(self._inputs(input, ""), state)
        return new if self.states == 2 else new[0]

    def extra_repr(self) -> str:
        """The sizes, as PyTorch shows them."""
        return f"{self.input_size}, {self.hidden_size}" + ("" if self.bias else ", bias=False")


class RNNCell(_Cell):
    """One step ``h' = tanh(W_ih x + b_ih + W_hh h + b_hh)``, or with relu.

    >>> RNNCell(3, 4)(lm.ones((2, 3))).shape
    (2, 4)
    """

    kind = "rnn"
    gates = 1

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, nonlinearity: str = "tanh",
        dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(input_size, hidden_size, bias, dtype)
        self.nonlinearity = choose("RNNCell", "nonlinearity", nonlinearity, ("tanh", "relu"))


class LSTMCell(_Cell):
    """One step of a long short-term memory, with the state ``(h, c)``.

    >>> hidden, cell = LSTMCell(3, 4)(lm.ones((2, 3)))
    >>> hidden.shape, cell.shape
    ((2, 4), (2, 4))
    """

    kind = "lstm"
    gates = 4
    states = 2


class GRUCell(_Cell):
    """One step of a gated recurrent unit.

    >>> GRUCell(3, 4)(lm.ones((2, 3))).shape
    (2, 4)
    """

    kind = "gru"
    gates = 3


class _Layers(_Recurrent):
    """Layers over sequences, one or two directions each."""

    def __init__(
        self, input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True,
        batch_first: bool = False, dropout: float = 0.0, bidirectional: bool = False,
        proj_size: int = 0, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self._sizes(input_size, hidden_size, bias)
        if num_layers < 1 or not 0 <= dropout <= 1 or not 0 <= proj_size < hidden_size:
            raise OptionError(
                f"[{type(self).__name__}] num_layers={num_layers}, dropout={dropout}, "
                f"proj_size={proj_size}; give 1 or more layers, a probability, and a projection "
                f"smaller than hidden_size={hidden_size}"
            )
        self.num_layers = num_layers
        self.batch_first = batch_first
        self.dropout = dropout
        self.bidirectional = bidirectional
        self.proj_size = proj_size
        size = input_size
        for layer in range(num_layers):
            for suffix in self._suffixes(layer):
                self._weights(suffix, size, dtype)
            size = (proj_size or hidden_size) * (1 + bidirectional)
        self.reset_parameters()

    def _suffixes(self, layer: int) -> list[str]:
        return [f"_l{layer}"] + [f"_l{layer}_reverse"] * self.bidirectional

    def forward(self, input: Any, hx: Any = None) -> tuple[Any, Any]:
        """All hidden states of the last layer, and the last state of every layer.

        Args:
            input: ``(L, N, input_size)``, with ``batch_first`` ``(N, L, input_size)``, ``(L,
                input_size)``, or a ``PackedSequence``, which gives one.
            hx: the state to begin with, ``(layers * directions, N, hidden_size)`` (a pair of
                these for LSTM; default: zeros).

        Returns:
            ``(L, N, directions * hidden_size)`` in the input's layout, and a state like ``hx``.

        Raises:
            ShapeError: if the shapes do not fit.
        """
        if isinstance(input, PackedSequence):
            return self._packed(input, hx)
        input = tensor(input)
        if input.ndim not in (2, 3) or input.shape[-1] != self.input_size:
            raise ShapeError(
                f"[{type(self).__name__}] input of shape {tuple(input.shape)} is not (length, "
                f"batch, {self.input_size}), with batch_first (batch, length, {self.input_size}), "
                f"or (length, {self.input_size})"
            )
        single = input.ndim == 2
        x = input[:, None] if single else lm.swapaxes(input, 0, 1) if self.batch_first else input
        if x.shape[0] == 0:
            raise ShapeError(f"[{type(self).__name__}] a sequence of no steps; give one or more")
        if single and hx is not None:
            hx = tuple(h[:, None] for h in hx) if self.states == 2 else hx[:, None]
        x, state = self._forward(x, hx)
        if single:
            x, state = x[:, 0], tuple(each[:, 0] for each in state)
        elif self.batch_first:
            x = lm.swapaxes(x, 0, 1)
        return x, state if self.states == 2 else state[0]

    def _packed(self, input: PackedSequence, hx: Any) -> tuple[PackedSequence, Any]:
        """All layers over a packed batch, padded and under a mask; states are in the order from
        before packing.
        """
        if input.data.ndim != 2 or input.data.shape[-1] != self.input_size:
            raise ShapeError(
                f"[{type(self).__name__}] packed steps of shape {tuple(input.data.shape)} are not "
                f"(steps, {self.input_size})"
            )
        x, _ = pad_packed_sequence(PackedSequence(input.data, input.batch_sizes))
        lengths = input.lengths()
        order, back = input.sorted_indices, input.unsorted_indices
        if hx is not None and order is not None:
            many = self.states == 2
            hx = tuple(h[:, list(order)] for h in hx) if many else hx[:, list(order)]
        inside = lm.arange(x.shape[0])[:, None, None] < lm.tensor(lengths)[:, None]
        x, state = self._forward(x, hx, inside)
        data = pack_padded_sequence(x, lengths).data
        if back is not None:
            state = tuple(each[:, list(back)] for each in state)
        packed = PackedSequence(data, input.batch_sizes, order, back)
        return packed, state if self.states == 2 else state[0]

    def _forward(
        self, x: Tensor, hx: Any, inside: Tensor | None = None
    ) -> tuple[Tensor, State]:
        """All layers over ``(L, N, input_size)``."""
        count = self.num_layers * (1 + self.bidirectional)
        sizes = (self.proj_size or self.hidden_size, self.hidden_size)[: self.states]
        shapes = tuple((count, x.shape[1], size) for size in sizes)
        begin = self._begin(hx, shapes, x.dtype)
        ends: list[State] = []
        for layer in range(self.num_layers):
            if layer and self.dropout:
                x = F.dropout(x, self.dropout, self.training)
            outputs = []
            for suffix in self._suffixes(layer):
                first = tuple(each[len(ends)] for each in begin)
                gates = self._inputs(x, suffix)
                reverse = suffix.endswith("_reverse")
                output, last = _run(self._step(suffix), gates, first, reverse, inside)
                outputs.append(output)
                ends.append(last)
            x = outputs[0] if len(outputs) == 1 else lm.concat(outputs, axis=-1)
        return x, tuple(lm.stack([end[i] for end in ends]) for i in range(self.states))

    def extra_repr(self) -> str:
        """The options that differ from the defaults, as PyTorch shows them."""
        text = f"{self.input_size}, {self.hidden_size}"
        defaults = {
            "proj_size": 0, "num_layers": 1, "bias": True, "batch_first": False, "dropout": 0.0,
            "bidirectional": False,
        }  # fmt: skip
        changed = ((name, getattr(self, name), usual) for name, usual in defaults.items())
        return text + "".join(f", {n}={value}" for n, value, usual in changed if value != usual)


class RNN(_Layers):
    """Layers of :class:`RNNCell` over sequences.

    >>> output, last = RNN(3, 4)(lm.ones((5, 2, 3)))
    >>> output.shape, last.shape
    ((5, 2, 4), (1, 2, 4))
    """

    kind = "rnn"
    gates = 1

    def __init__(
        self, input_size: int, hidden_size: int, num_layers: int = 1, nonlinearity: str = "tanh",
        bias: bool = True, batch_first: bool = False, dropout: float = 0.0,
        bidirectional: bool = False, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(
            input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional,
            dtype=dtype,
        )  # fmt: skip
        self.nonlinearity = choose("RNN", "nonlinearity", nonlinearity, ("tanh", "relu"))


class LSTM(_Layers):
    """Layers of :class:`LSTMCell` over sequences; ``proj_size`` projects hidden states (Sak et
    al., 2014).

    >>> output, (hidden, cell) = LSTM(3, 4, bidirectional=True)(lm.ones((5, 2, 3)))
    >>> output.shape, hidden.shape, cell.shape
    ((5, 2, 8), (2, 2, 4), (2, 2, 4))
    """

    kind = "lstm"
    gates = 4
    states = 2


class GRU(_Layers):
    """Layers of :class:`GRUCell` over sequences.

    >>> output, last = GRU(3, 4, num_layers=2, batch_first=True)(lm.ones((2, 5, 3)))
    >>> output.shape, last.shape
    ((2, 5, 4), (2, 2, 4))
    """

    kind = "gru"
    gates = 3

    def __init__(
        self, input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True,
        batch_first: bool = False, dropout: float = 0.0, bidirectional: bool = False,
        dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(
            input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional,
            dtype=dtype,
        )  # fmt: skip
