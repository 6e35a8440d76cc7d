"""Recurrent cells: one step of an RNN, an LSTM or a GRU."""

from __future__ import annotations

import math
from typing import Any

import fx.prims.creation as creation
from fx.errors import ShapeError
from fx.nn import functional as F
from fx.nn import init
from fx.nn.base.factory import parameter
from fx.nn.base.module import Module
from fx.nn.functional.recurrence import step
from fx.ops.autocasting import cast_to, recurrent_dtype, rounded, without
from fx.ops.operands import argument
from fx.prims.shape import reshape
from fx.tensor import Tensor


class RNNCellBase(Module):
    """What the cells share.

    Args:
        input_size: the features of the input.
        hidden_size: the features of the state.
        bias: whether there are biases.
        num_chunks: how many gates there are.
        device, dtype: of the parameters.

    Attributes:
        weight_ih: (num_chunks * hidden_size, input_size).
        weight_hh: (num_chunks * hidden_size, hidden_size).
        bias_ih, bias_hh: (num_chunks * hidden_size,), or None.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool,
        num_chunks: int,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.bias = bias
        rows = num_chunks * hidden_size
        self.weight_ih = parameter((rows, input_size), device, dtype)
        self.weight_hh = parameter((rows, hidden_size), device, dtype)
        for name in ("bias_ih", "bias_hh"):
            self.register_parameter(name, parameter((rows,), device, dtype) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new values, uniform in ``±1 / sqrt(hidden_size)``."""
        bound = 1.0 / math.sqrt(self.hidden_size) if self.hidden_size else 0.0
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def extra_repr(self) -> str:
        """The sizes, and what differs from the defaults."""
        text = f"{self.input_size}, {self.hidden_size}"
        if self.bias is not True:
            text += f", bias={self.bias}"
        if getattr(self, "nonlinearity", "tanh") != "tanh":
            text += f", nonlinearity={self.nonlinearity}"
        return text

    def _step(self, mode: str, input: Any, states: list[Any] | None, count: int) -> list[Tensor]:
        weights = (self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)
        return stepped(type(self).__name__, mode, input, states, count, *weights)


def stepped(
    name: str,
    mode: str,
    input: Any,
    states: list[Any] | None,
    count: int,
    weight_ih: Any,
    weight_hh: Any,
    bias_ih: Any,
    bias_hh: Any,
) -> list[Tensor]:
    """The states (batch, hidden_size) after one step; without batch where the input has none.

    Args:
        name: of what is called, for messages.
        mode: as of ``recurrence``.
        input: (batch, input_size) or (input_size,).
        states: h, and of an LSTM c; zeros if None.
        count: how many states there are.
        weight_ih, weight_hh, bias_ih, bias_hh: as of ``RNNCellBase``; both biases or none.

    Raises:
        ShapeError: if shapes do not fit.
    """
    x = argument(name, input)
    input_size, hidden_size = weight_ih.shape[1], weight_hh.shape[1]
    if x.ndim not in (1, 2) or x.shape[-1] != input_size:
        raise ShapeError(f"{name} takes (batch, {input_size}) or ({input_size},), got {x.shape}")
    wanted = (*x.shape[:-1], hidden_size)
    if states is None:
        zero = {"value": 0, "dtype": x.dtype, "device": x.device.name}
        found = [creation.full(shape=wanted, **zero)] * count
    else:
        found = [argument(name, s) for s in states]
    for s in found:
        if s.shape != wanted:
            raise ShapeError(
                f"{name}: for an input {x.shape} the state must have shape {wanted}, got {s.shape}"
            )
    single = x.ndim == 1
    if single:
        x, *found = [reshape(a, shape=(1, *a.shape)) for a in (x, *found)]
    biases = [argument(name, b) for b in (bias_ih, bias_hh) if b is not None]
    of_input, of_state = weight_ih, argument(name, weight_hh)
    dtype = recurrent_dtype(mode if mode.startswith("RNN") else "cell", x)
    if dtype is not None:
        x, of_input, of_state = [rounded(dtype, a) for a in (x, of_input, of_state)]
        found, biases = [[cast_to(dtype, a) for a in some] for some in (found, biases)]
    with without():
        gates = F.linear(x, of_input)
    after = step(mode, gates, found, of_state, biases)
    return [reshape(a, shape=wanted) for a in after] if single else after


class RNNCell(RNNCellBase):
    """One step of an Elman network: ``h' = tanh(W x + b + V h + c)``.

    Args:
        input_size, hidden_size, bias, device, dtype: as of ``RNNCellBase``.
        nonlinearity: ``"tanh"`` or ``"relu"``.

    Raises:
        ValueError: for another nonlinearity.

    Example:
        >>> import fx
        >>> fx.nn.RNNCell(3, 4)(fx.ones((2, 3))).shape
        (2, 4)
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: str = "tanh",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        if nonlinearity not in ("tanh", "relu"):
            raise ValueError(f"Unknown nonlinearity '{nonlinearity}'. Select 'tanh' or 'relu'.")
        super().__init__(input_size, hidden_size, bias, 1, device, dtype)
        self.nonlinearity = nonlinearity

    def forward(self, input: Any, hx: Any = None) -> Tensor:
        """(batch, input_size) and the state (batch, hidden_size) to the next state."""
        mode = f"RNN_{self.nonlinearity.upper()}"
        return self._step(mode, input, None if hx is None else [hx], 1)[0]


class LSTMCell(RNNCellBase):
    """One step of an LSTM; see ``LSTM``.

    Args:
        input_size, hidden_size, bias, device, dtype: as of ``RNNCellBase``.

    Example:
        >>> import fx
        >>> h, c = fx.nn.LSTMCell(3, 4)(fx.ones((2, 3)))
        >>> h.shape, c.shape
        ((2, 4), (2, 4))
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 4, device, dtype)

    def forward(self, input: Any, hx: Any = None) -> tuple[Tensor, Tensor]:
        """(batch, input_size) and the states (h, c), (batch, hidden_size) each, to the next."""
        h, c = self._step("LSTM", input, None if hx is None else list(hx), 2)
        return h, c


class GRUCell(RNNCellBase):
    """One step of a GRU; see ``GRU``.

    Args:
        input_size, hidden_size, bias, device, dtype: as of ``RNNCellBase``.

    Example:
        >>> import fx
        >>> fx.nn.GRUCell(3, 4)(fx.ones(3)).shape
        (4,)
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 3, device, dtype)

    def forward(self, input: Any, hx: Any = None) -> Tensor:
        """(batch, input_size) and the state (batch, hidden_size) to the next state."""
        return self._step("GRU", input, None if hx is None else [hx], 1)[0]
