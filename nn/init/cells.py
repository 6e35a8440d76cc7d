"""What initialisers act on: cells, which are rebound, and their random numbers."""

from __future__ import annotations

from typing import Any

from fx import random
from fx.config import no_grad
from fx.errors import InPlaceError
from fx.state import Cell
from fx.tensor import Tensor
from fx.writing.inplace import user_writes


def put(tensor: Any, value: Tensor) -> Any:
    """Let it hold the value, and give it back."""
    with no_grad():
        return tensor._renew("init", value)


def as_cell(name: str, tensor: Any) -> Any:
    """What is to be initialised.

    Raises:
        InPlaceError: for what is no cell, with the line to write.
    """
    if not isinstance(tensor, Cell):
        if isinstance(tensor, Tensor) and user_writes():
            return tensor
        kind = repr(tensor.spec) if isinstance(tensor, Tensor) else type(tensor).__name__
        raise InPlaceError(
            f"init.{name} gives a Parameter or Buffer new values, and {kind} is a plain value that "
            f"never changes; write p = fx.nn.Parameter(x), then fx.nn.init.{name}(p)"
        )
    return tensor


def draw_uniform(tensor: Cell, low: float, high: float, generator: Any) -> Tensor:
    """Uniform values of the shape and dtype of a cell."""
    key = random.next_key(generator, tensor.device)
    return random.uniform(key, tensor.shape, low, high, tensor.dtype)


def draw_normal(tensor: Cell, mean: float, std: float, generator: Any) -> Tensor:
    """Normal values of the shape and dtype of a cell."""
    key = random.next_key(generator, tensor.device)
    return random.normal(key, tensor.shape, mean, std, tensor.dtype)
