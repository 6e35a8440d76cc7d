"""Dropout."""

from __future__ import annotations

from typing import Any

import fx.prims.compare as compare
from fx.ops.operands import floating
from fx.prims.creation import constant_like
from fx.random import bernoulli, next_key
from fx.tensor import Tensor


def dropout(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Zero each element with probability ``p`` and scale the others by ``1 / (1 - p)``.

    The random numbers are those of the current generator; under ``vmap`` each lane has its own.

    Args:
        input: any shape, floating.
        p: the probability, in [0, 1].
        training: False gives the input back.
        inplace: accepted for PyTorch's sake.

    Raises:
        ValueError: if ``p`` is not in [0, 1].

    Source: Srivastava et al., "Dropout", 2014.

    Example:
        >>> import fx
        >>> x = fx.nn.functional.dropout(fx.ones(1000), p=0.25)
        >>> bool(((x == 0) | (x == 4 / 3)).all())
        True
    """
    if not 0 <= p <= 1:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
    x = floating("dropout", input)
    if not training or p == 0:
        return x
    zero = constant_like(0.0, x)
    kept = bernoulli(next_key(device=x.device), 1.0 - p, x.shape)
    return compare.where(kept, x * (1.0 / (1.0 - p) if p < 1 else 0.0), zero)
