"""Recurrent layers: RNN, LSTM and GRU over whole sequences."""

from __future__ import annotations

from typing import Any

from fx.errors import DTypeError
from fx.nn.sequences.rnn_base import RNNBase
from fx.tensor import Tensor


class RNN(RNNBase):
    """A stack of Elman layers: ``h' = tanh(W x + b + V h + c)``.

    Args:
        input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, device,
            dtype: as of ``RNNBase``.
        nonlinearity: ``"tanh"`` or ``"relu"``; the fourth argument.

    Raises:
        ValueError: for another nonlinearity, or options that make no sense.

    Source: Elman, "Finding structure in time", 1990.

    Example:
        >>> import fx
        >>> y, h = fx.nn.RNN(3, 4, num_layers=2)(fx.ones((5, 2, 3)))
        >>> y.shape, h.shape
        ((5, 2, 4), (2, 2, 4))
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        nonlinearity: str = "tanh",
        *args: Any,
        **kwargs: Any,
    ) -> None:
        _no_projection(kwargs)
        if nonlinearity not in ("tanh", "relu"):
            raise ValueError(
                f"Unknown nonlinearity '{nonlinearity}'. Select from 'tanh' or 'relu'."
            )
        mode = f"RNN_{nonlinearity.upper()}"
        super().__init__(mode, input_size, hidden_size, num_layers, *args, **kwargs)
        self.nonlinearity = nonlinearity


class LSTM(RNNBase):
    """A stack of long short-term memory layers.

    ``c' = sigmoid(f) * c + sigmoid(i) * tanh(g)`` and ``h' = sigmoid(o) * tanh(c')``, where the
    gates (i, f, g, o) are ``W x + b + V h + d``.

    Args:
        input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, proj_size,
            device, dtype: as of ``RNNBase``.

    Source: Hochreiter and Schmidhuber, "Long short-term memory", 1997.

    Example:
        >>> import fx
        >>> y, (h, c) = fx.nn.LSTM(3, 4, batch_first=True)(fx.ones((2, 5, 3)))
        >>> y.shape, h.shape, c.shape
        ((2, 5, 4), (1, 2, 4), (1, 2, 4))
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__("LSTM", *args, **kwargs)

    def _state_sizes(self) -> tuple[int, ...]:
        return (self.proj_size or self.hidden_size, self.hidden_size)

    def _given_states(self, hx: Any) -> list[Any]:
        if not isinstance(hx, tuple | list) or len(hx) != 2:
            raise DTypeError(
                f"LSTM: hx must be a pair (h, c), got {type(hx).__name__}; write lstm(x, (h, c))"
            )
        return list(hx)

    def _handed_out(self, states: list[Tensor]) -> Any:
        return tuple(states)


class GRU(RNNBase):
    """A stack of gated recurrent units.

    ``h' = (1 - z) * n + z * h`` with ``r, z = sigmoid(W x + b + V h + d)`` and
    ``n = tanh(W x + b + r * (V h + d))``.

    Args:
        input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, device,
            dtype: as of ``RNNBase``.

    Source: Cho et al., "Learning phrase representations using RNN encoder-decoder", 2014.

    Example:
        >>> import fx
        >>> y, h = fx.nn.GRU(3, 4, bidirectional=True)(fx.ones((5, 2, 3)))
        >>> y.shape, h.shape
        ((5, 2, 8), (2, 2, 4))
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        _no_projection(kwargs)
        super().__init__("GRU", *args, **kwargs)


def _no_projection(kwargs: dict[str, Any]) -> None:
    if "proj_size" in kwargs:
        raise ValueError("proj_size argument is only supported for LSTM, not RNN or GRU")
