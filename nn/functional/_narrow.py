"""Float16 and bfloat16: what takes several operations is computed in float32 and rounded once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fx.dtypes import float32
from fx.ops.operands import cast
from fx.tensor import Tensor


def narrow(x: Tensor) -> bool:
    """Whether ``x`` is of a floating dtype with two bytes."""
    return x._dtype.itemsize == 2


def widened(function: Callable[..., Any], x: Tensor, *args: Any) -> Tensor:
    """``function(x, *args)`` computed in float32, in the dtype of ``x``."""
    return cast(function(cast(x, float32), *args), x._dtype)
