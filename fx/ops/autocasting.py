"""What autocast does to the arguments of a function: three rules, PyTorch's for the CPU.

``modes.autocast`` is None, or the half-precision dtype of the innermost region. A function of
products is decorated with ``in_half`` (a short one asks, and calls ``lowered``), one that needs
the range of float32 with ``in_float32``; one that joins tensors takes the widest of them anyway.
float64 stays what it is everywhere.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import fx.prims.compare as compare
from fx.config import modes
from fx.dtypes import bfloat16, float16, float32, promote_types
from fx.tape import CELL
from fx.tensor import Tensor

HALVES = frozenset((bfloat16, float16))
_CAST = frozenset((bfloat16, float16, float32))


def cast_to(dtype: Any, x: Any) -> Any:
    """A floating tensor narrower than float64 in ``dtype``; everything else as it is."""
    if not isinstance(x, Tensor):
        return x
    if x.level == CELL:
        x = x.read()
    given = x.dtype
    return compare.astype(x, dtype=dtype) if given in _CAST and given != dtype else x


def lowered(*operands: Any) -> list[Any]:
    """Operands in the dtype of the region; asked where ``modes.autocast`` is not None."""
    dtype = modes.autocast
    return [cast_to(dtype, x) for x in operands]


def recurrent_dtype(mode: str, x: Tensor) -> Any:
    """The dtype in which a recurrence on ``x`` runs in the region; None where nothing is cast.

    Args:
        mode: ``"RNN..."``, ``"LSTM"``, ``"GRU"`` or ``"cell"``, the last for one step of either.

    What holds the state beside products (GRU, cells) keeps the width of the input, as in PyTorch.
    """
    region, given = modes.autocast, x._dtype
    if region is None or given not in _CAST:
        return None
    if mode.startswith("RNN") or (mode == "LSTM" and given == float32):
        return region
    return promote_types(given, region)


def rounded(dtype: Any, x: Any) -> Any:
    """An operand of a recurrence in ``dtype``, with no more digits than the region's."""
    return cast_to(dtype, cast_to(modes.autocast, x))


def in_half(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of products that takes its operands in the dtype of the region."""

    @wraps(function)
    def wrapped(*args: Any, **options: Any) -> Any:
        dtype = modes.autocast
        if dtype is not None:
            args = tuple([cast_to(dtype, x) for x in args])
            options = {name: cast_to(dtype, x) for name, x in options.items()}
            with without():
                return function(*args, **options)
        return function(*args, **options)

    return wrapped


def in_float32(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that computes in float32 within a region, whatever half it is given."""

    @wraps(function)
    def wrapped(*args: Any, **options: Any) -> Any:
        if modes.autocast is not None:
            args = tuple([_widened(x) for x in args])
            options = {name: _widened(x) for name, x in options.items()}
            with without():
                return function(*args, **options)
        return function(*args, **options)

    return wrapped


def _widened(x: Any) -> Any:
    if isinstance(x, tuple | list) and x and isinstance(x[0], Tensor):
        return type(x)([cast_to(float32, one) for one in x])
    return cast_to(float32, x)


class without:
    """No region while a function of this kind runs: what it is made of is its own affair."""

    __slots__ = ("saved",)

    def __enter__(self) -> None:
        self.saved = modes.autocast
        modes.autocast = None

    def __exit__(self, *error: object) -> None:
        modes.autocast = self.saved
