"""What recurrent layers share: weights, checks, layers and directions, packed sequences."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any

import fx.prims.creation as creation
import fx.prims.indexing as indexing
import fx.prims.shape as shape_prims
from fx.config import modes
from fx.errors import DTypeError, ShapeError
from fx.nn import functional as F
from fx.nn import init
from fx.nn.base.factory import parameter
from fx.nn.base.module import Module
from fx.nn.functional.recurrence import recurrence
from fx.nn.utils.packing import Layout, layout_of
from fx.nn.utils.rnn import PackedSequence
from fx.ops.autocasting import cast_to, recurrent_dtype, rounded
from fx.ops.operands import argument
from fx.ops.shapes.joining import concat, stack
from fx.prims.linear import matmul
from fx.tensor import Tensor

_GATES = {"LSTM": 4, "GRU": 3, "RNN_TANH": 1, "RNN_RELU": 1}


class RNNBase(Module):
    """What RNN, LSTM and GRU share.

    Args:
        mode: ``"LSTM"``, ``"GRU"``, ``"RNN_TANH"`` or ``"RNN_RELU"``.
        input_size: the features of a step of the input.
        hidden_size: the features of the state.
        num_layers: how many layers stand on one another.
        bias: whether the gates have biases.
        batch_first: whether input and output are (batch, time, features) instead of
            (time, batch, features). States are (layers * directions, batch, features) either way.
        dropout: the probability with which outputs of all layers but the last are dropped.
        bidirectional: whether a second set of weights runs from the end to the start.
        proj_size: of an LSTM: the features of the output where they are fewer than the state's.
        device, dtype: of the parameters.

    Attributes:
        weight_ih_l0: (gates * hidden_size, input_size); ``weight_ih_l0_reverse`` of the way back,
            ``weight_ih_l1`` of the next layer, and so on.
        weight_hh_l0: (gates * hidden_size, hidden_size).
        bias_ih_l0, bias_hh_l0: (gates * hidden_size,).
        weight_hr_l0: (proj_size, hidden_size).

    Raises:
        ValueError, TypeError: for options that make no sense.
    """

    def __init__(
        self,
        mode: str,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        _check_options(mode, input_size, hidden_size, num_layers, bias, batch_first, proj_size)
        if isinstance(dropout, bool) or not isinstance(dropout, int | float):
            dropout = -1.0
        if not 0 <= dropout <= 1:
            raise ValueError(
                "dropout should be a number in range [0, 1] representing the probability of an "
                "element being zeroed"
            )
        if dropout > 0 and num_layers == 1:
            warnings.warn(
                f"dropout acts between recurrent layers, of which num_layers=1 has none: "
                f"dropout={dropout} changes nothing; write num_layers=2 or more",
                stacklevel=3,
            )
        self.mode = mode
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.bias = bias
        self.batch_first = batch_first
        self.dropout = float(dropout)
        self.bidirectional = bidirectional
        self.proj_size = proj_size
        rows = _GATES[mode] * hidden_size
        out = proj_size or hidden_size
        self._all_weights = []
        for layer in range(num_layers):
            size = input_size if layer == 0 else out * (2 if bidirectional else 1)
            shapes = {"weight_ih": (rows, size), "weight_hh": (rows, out)}
            if bias:
                shapes |= {"bias_ih": (rows,), "bias_hh": (rows,)}
            if proj_size:
                shapes["weight_hr"] = (proj_size, hidden_size)
            for suffix in ("", "_reverse") if bidirectional else ("",):
                for name, shape in shapes.items():
                    setattr(self, f"{name}_l{layer}{suffix}", parameter(shape, device, dtype))
                self._all_weights.append([f"{name}_l{layer}{suffix}" for name in shapes])
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new values, uniform in ``±1 / sqrt(hidden_size)``."""
        bound = 1.0 / math.sqrt(self.hidden_size)
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def flatten_parameters(self) -> None:
        """Nothing: the parameters need no common memory."""

    @property
    def all_weights(self) -> list[list[Any]]:
        """The parameters of each layer and direction."""
        return [[getattr(self, name) for name in names] for names in self._all_weights]

    @property
    def _flat_weights_names(self) -> list[str]:
        return [name for names in self._all_weights for name in names]

    @property
    def _flat_weights(self) -> list[Any]:
        return [getattr(self, name) for name in self._flat_weights_names]

    def extra_repr(self) -> str:
        """The sizes, and what differs from the defaults."""
        parts = [f"{self.input_size}, {self.hidden_size}"]
        defaults = {
            "proj_size": 0, "num_layers": 1, "bias": True, "batch_first": False, "dropout": 0,
            "bidirectional": False,
        }  # fmt: skip
        for name, value in defaults.items():
            if getattr(self, name) != value:
                parts.append(f"{name}={getattr(self, name)}")
        return ", ".join(parts)

    def forward(self, input: Any, hx: Any = None) -> tuple[Any, Any]:
        """(time, batch, input_size) to outputs (time, batch, directions * output) and the states.

        Args:
            input: as above, (batch, time, input_size) if ``batch_first``, (time, input_size) of
                one sequence, or a ``PackedSequence``, whose outputs are one too.
            hx: the states at the start, zeros unless told: (layers * directions, batch, output),
                without ``batch`` of one sequence; of an LSTM a pair of h and c.

        Raises:
            ShapeError, DTypeError: if they do not fit.
        """
        if isinstance(input, PackedSequence):
            return self._forward_packed(input, hx)
        name = type(self).__name__
        x = argument(name, input)
        if x.ndim not in (2, 3):
            raise ShapeError(
                f"{name} takes (time, batch, {self.input_size}), or (time, {self.input_size}) of "
                f"one sequence, got {x.shape}"
            )
        single, swap = x.ndim == 2, x.ndim == 3 and self.batch_first
        if single:
            x = shape_prims.reshape(x, shape=(x.shape[0], 1, x.shape[1]))
        elif swap:
            x = shape_prims.transpose(x, axes=(1, 0, 2))
        x = self._check_input(x)
        states = self._states(x, hx, x.shape[1], single)
        y, states = self._layers(x, states, None)
        if single:
            y = shape_prims.reshape(y, shape=(y.shape[0], y.shape[2]))
            states = [shape_prims.reshape(s, shape=(s.shape[0], s.shape[2])) for s in states]
        elif swap:
            y = shape_prims.transpose(y, axes=(1, 0, 2))
        return y, self._handed_out(states)

    def _forward_packed(self, input: PackedSequence, hx: Any) -> tuple[Any, Any]:
        data = argument(type(self).__name__, input.data)
        if data.ndim != 2:
            raise ShapeError(
                f"{type(self).__name__} takes packed data (rows, {self.input_size}), got "
                f"{data.shape}"
            )
        data = self._check_input(data)
        layout = layout_of(input.batch_sizes, data.shape[0], data.device)
        states = self._states(data, hx, layout.batch, False)
        if input.sorted_indices is not None and hx is not None:
            states = [indexing.take(s, input.sorted_indices, axis=1) for s in states]
        y, states = self._layers(data, states, layout)
        if input.unsorted_indices is not None:
            states = [indexing.take(s, input.unsorted_indices, axis=1) for s in states]
        return PackedSequence(y, *input[1:]), self._handed_out(states)

    def _layers(
        self, x: Tensor, states: list[Tensor], layout: Layout | None
    ) -> tuple[Tensor, list[Tensor]]:
        return layers(
            self.mode, x, states, self.all_weights, bool(self.proj_size),
            2 if self.bidirectional else 1, self.dropout, self.training, layout,
        )  # fmt: skip

    # states and checks --------------------------------------------------------------------------

    def _state_sizes(self) -> tuple[int, ...]:
        """The features of each tensor of the state."""
        return (self.hidden_size,)

    def _given_states(self, hx: Any) -> list[Any]:
        return [hx]

    def _handed_out(self, states: list[Tensor]) -> Any:
        return states[0]

    def _states(self, x: Tensor, hx: Any, batch: int, single: bool) -> list[Tensor]:
        """The states at the start, (layers * directions, batch, features) each."""
        count = self.num_layers * (2 if self.bidirectional else 1)
        shapes = [(count, batch, n) for n in self._state_sizes()]
        if hx is None:
            zero = {"value": 0, "dtype": x.dtype, "device": x.device.name}
            return [creation.full(shape=shape, **zero) for shape in shapes]
        name = type(self).__name__
        found = [argument(name, h) for h in self._given_states(hx)]
        given = [(s[0], s[2]) if single else s for s in shapes]
        if modes.autocast is not None:
            found = [cast_to(x.dtype, h) for h in found]
        for h, shape in zip(found, given, strict=True):
            if h.shape != shape:
                raise ShapeError(
                    f"{name}: hx must have shape {shape} (layers * directions, "
                    f"{'' if single else 'batch, '}features) for this input, got {h.shape}"
                )
            if h.dtype != x.dtype:
                raise DTypeError(
                    f"{name}: hx is {h.dtype.name} and the input {x.dtype.name}; write "
                    f"hx.to(fx.{x.dtype.name})"
                )
        return [shape_prims.reshape(h, shape=s) for h, s in zip(found, shapes)]

    def _check_input(self, x: Tensor) -> Tensor:
        """The input in the dtype in which the layers run."""
        name, weight = type(self).__name__, getattr(self, self._all_weights[0][0])
        if x.shape[-1] != self.input_size:
            raise ShapeError(
                f"{name}: the last axis of the input must be input_size={self.input_size}, got "
                f"{x.shape}"
            )
        if not x.shape[0]:
            raise ShapeError(f"{name}: the input {x.shape} has no time step")
        dtype = recurrent_dtype(self.mode, x)
        if dtype is not None:
            return rounded(dtype, x)  # type: ignore[no-any-return]
        if x.dtype != weight.dtype:
            raise DTypeError(
                f"{name}: the input is {x.dtype.name} and the weights are {weight.dtype.name}; "
                f"write x.to(fx.{weight.dtype.name}) or model.to(fx.{x.dtype.name})"
            )
        return x


def layers(
    mode: str,
    x: Tensor,
    states: list[Tensor],
    weights: Sequence[Sequence[Any]],
    projected: bool,
    directions: int,
    dropout: float,
    training: bool,
    layout: Layout | None,
) -> tuple[Tensor, list[Tensor]]:
    """All layers over (time, batch, features), or over packed rows; the states stacked.

    Args:
        mode: as of ``RNNBase``.
        x: the input.
        states: (layers * directions, batch, features) each.
        weights: of each layer and direction: of the input, of the state, biases or none, and the
            projection.
        projected: whether there is one.
        directions: 1 or 2.
        dropout, training: of the outputs of all layers but the last.
        layout: of packed rows.
    """
    ends: list[tuple[Tensor, ...]] = []
    for first in range(0, len(weights), directions):
        outs = []
        for i in range(first, first + directions):
            own = [argument(mode, w) for w in weights[i]]
            start = [_row(s, i) for s in states]
            y, end = _direction(mode, x, start, own, projected, layout, i > first)
            outs.append(y)
            ends.append(end)
        x = outs[0] if directions == 1 else concat(outs, axis=-1)
        if dropout and first + directions < len(weights):
            x = F.dropout(x, dropout, training)
    return x, [stack(column, axis=0) for column in zip(*ends)]


def _direction(
    mode: str,
    x: Tensor,
    states: list[Tensor],
    weights: list[Tensor],
    projected: bool,
    layout: Layout | None,
    reverse: bool,
) -> tuple[Tensor, tuple[Tensor, ...]]:
    if modes.autocast is not None:
        weights = [rounded(x.dtype, w) for w in weights]
    projection = weights.pop() if projected else None
    of_input, of_state, *biases = weights
    gates = _product(x, of_input)
    if layout is None:
        return recurrence(mode, gates, states, of_state, biases, projection, None, reverse)
    keep = shape_prims.reshape(layout.keep, shape=(*layout.keep.shape, 1))
    padded = layout.padded(gates)
    y, end = recurrence(mode, padded, states, of_state, biases, projection, keep, reverse)
    return layout.packed(y), end


def _check_options(
    mode: str,
    input_size: Any,
    hidden_size: Any,
    num_layers: Any,
    bias: Any,
    batch_first: Any,
    proj_size: Any,
) -> None:
    for name, value in (("bias", bias), ("batch_first", batch_first)):
        if not isinstance(value, bool):
            raise TypeError(f"{name} should be of type bool, got: {type(value).__name__}")
    sizes = {"input_size": input_size, "hidden_size": hidden_size, "num_layers": num_layers}
    for name, value in sizes.items():
        if isinstance(value, bool) or not isinstance(value, int):
            raise TypeError(f"{name} should be of type int, got: {type(value).__name__}")
        if value <= 0:
            raise ValueError(f"{name} must be greater than zero, got {value}")
    if not 0 <= proj_size < hidden_size:
        raise ValueError(
            f"proj_size must be smaller than hidden_size={hidden_size}, or 0 for no projection, "
            f"got {proj_size}"
        )
    if mode not in _GATES:
        raise ValueError(f"Unrecognized RNN mode: {mode}; the modes are {', '.join(_GATES)}")


def _product(x: Tensor, weight: Tensor) -> Tensor:
    """``x @ weight.T`` of all steps at once."""
    rows = shape_prims.reshape(x, shape=(math.prod(x.shape[:-1]), x.shape[-1]))
    out = matmul(rows, shape_prims.transpose(weight, axes=(1, 0)))
    return shape_prims.reshape(out, shape=(*x.shape[:-1], weight.shape[0]))


def _row(states: Tensor, index: int) -> Tensor:
    """One of (layers * directions, batch, features)."""
    _, batch, size = states.shape
    return shape_prims.slice(
        states, start=(index, 0, 0), stop=(index + 1, batch, size), step=(1, 1, 1), drop=(0,)
    )
