"""The recurrent operators of ``torch``: those of ``fx.nn``, with the weights as arguments."""

from __future__ import annotations

from typing import Any

from fx.nn.sequences.rnn_base import layers
from fx.nn.sequences.rnn_cells import stepped
from fx.nn.utils.packing import Layout
from fx.tensor import Tensor


def _run(
    mode: str, x: Tensor, sizes: Any, states: list[Tensor], params: Any, has_biases: bool,
    num_layers: int, dropout: float, train: bool, bidirectional: bool,
    batch_first: bool = False,
) -> tuple[Tensor, ...]:  # fmt: skip
    """The outputs, and the states at the end.

    Raises:
        ValueError: if there are more or fewer weights than such layers have.
    """
    directions = 2 if bidirectional else 1
    projected = mode == "LSTM" and states[0].shape[-1] != states[1].shape[-1]
    each = 2 + 2 * has_biases + projected
    if len(params) != each * num_layers * directions:
        raise ValueError(
            f"torch.{mode.lower()} takes {each} weights a layer and direction, "
            f"{each * num_layers * directions} in all, got {len(params)}"
        )
    weights = [params[i : i + each] for i in range(0, len(params), each)]
    layout = None if sizes is None else Layout(sizes, x.shape[0], x.device)
    x = x.transpose(0, 1) if batch_first else x
    y, ends = layers(mode, x, states, weights, projected, directions, dropout, train, layout)
    return y.transpose(0, 1) if batch_first else y, *ends


def _over_sequences(mode: str) -> Any:
    def function(input: Any, second: Any, third: Any, *rest: Any) -> tuple[Tensor, ...]:
        packed = rest and isinstance(rest[0], tuple | list)  # (data, batch_sizes, hx, params, ...)
        sizes, hx, params = (second, third, rest[0]) if packed else (None, second, third)
        states = list(hx) if mode == "LSTM" else [hx]
        return _run(mode, input, sizes, states, params, *(rest[1:] if packed else rest))

    name = mode.lower()
    function.__name__ = function.__qualname__ = name
    function.__doc__ = (
        f"Layers of {mode}: ``{name}(input, hx, params, has_biases, num_layers, dropout, train, "
        f"bidirectional, batch_first)``, or ``{name}(data, batch_sizes, hx, params, ...)`` of "
        f"packed rows, without ``batch_first``."
    )
    return function


def _cell(mode: str, name: str) -> Any:
    def function(
        input: Any, hx: Any, w_ih: Any, w_hh: Any, b_ih: Any = None, b_hh: Any = None
    ) -> Any:
        if (b_ih is None) != (b_hh is None):
            raise ValueError(f"torch.{name} takes both biases or none")
        states = list(hx) if mode == "LSTM" else [hx]
        after = stepped(name, mode, input, states, len(states), w_ih, w_hh, b_ih, b_hh)
        return tuple(after) if mode == "LSTM" else after[0]

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"One step of {mode}; see ``fx.nn.{mode.partition('_')[0]}Cell``."
    return function


lstm, gru = _over_sequences("LSTM"), _over_sequences("GRU")
rnn_tanh, rnn_relu = _over_sequences("RNN_TANH"), _over_sequences("RNN_RELU")
lstm_cell, gru_cell = _cell("LSTM", "lstm_cell"), _cell("GRU", "gru_cell")
rnn_tanh_cell = _cell("RNN_TANH", "rnn_tanh_cell")
rnn_relu_cell = _cell("RNN_RELU", "rnn_relu_cell")
