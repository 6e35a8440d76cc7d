"""Statistics by the names of ``jax.scipy.stats``."""

from __future__ import annotations

import math
from typing import Any

import fx
from fx.config import default_dtype
from fx.dtypes import INEXACT
from fx.errors import ArgumentError
from fx.ops.operands import argument
from fx.ops.reductions.ordering import mode
from fx.tensor import Tensor

_RANKS = ("average", "min", "max", "dense", "ordinal")


def rankdata(
    a: Any, method: str = "average", *, axis: int | None = None, nan_policy: str = "propagate"
) -> Tensor:
    """The places that numbers have in order, from 1 on.

    Args:
        a: real.
        method: what equal numbers have: ``"average"``, ``"min"`` or ``"max"`` of their places;
            ``"dense"``, that among different numbers; ``"ordinal"``, each its own.
        axis: along which; all elements in one row unless told.
        nan_policy: ``"propagate"``: a row with NaN has NaN ranks.

    Returns:
        As ``a``, or one row, of the default floating dtype.

    Raises:
        ArgumentError: for another method or policy.

    Source: ``jax.scipy.stats.rankdata``.

    Example:
        >>> import fx
        >>> fx.stats.rankdata(fx.tensor([10, 30, 20, 30]))
        tensor([1.0000, 3.5000, 2.0000, 3.5000])
    """
    if method not in _RANKS:
        raise ArgumentError(f"rankdata: method is one of {', '.join(_RANKS)}, got {method!r}")
    if nan_policy != "propagate":
        raise ArgumentError(f"rankdata: nan_policy is 'propagate', got {nan_policy!r}")
    x = argument("rankdata", a)
    x = fx.reshape(x, (-1,)) if axis is None else fx.moveaxis(x, axis, -1)
    order = fx.argsort(x, axis=-1, stable=True)
    place = fx.argsort(order, axis=-1, stable=True)  # (*S, n)
    if method == "ordinal":
        ranks = place + 1
    else:
        line = fx.take_along_axis(x, order, axis=-1)
        n = line.shape[-1]
        new = fx.concat([fx.ones_like(line[..., :1]) > 0, line[..., 1:] != line[..., :-1]], axis=-1)
        first = fx.arange(n, dtype=fx.int64, device=x.device) + 1
        least = fx.where(new, first, 0).cummax(-1)[0]
        ends = fx.concat([new[..., 1:], fx.ones_like(new[..., :1])], axis=-1)
        greatest = fx.flip(fx.flip(fx.where(ends, first, n + 1), axis=-1).cummin(-1)[0], axis=-1)
        sorted_ranks = {
            "min": lambda: least, "max": lambda: greatest,
            "dense": lambda: fx.cumsum(new.astype(fx.int64), -1),
            "average": lambda: (least + greatest) * 0.5,
        }[method]()  # fmt: skip
        ranks = fx.take_along_axis(sorted_ranks, place, axis=-1)
    ranks = ranks.astype(default_dtype())
    if x.dtype in INEXACT:
        ranks = fx.where(fx.isnan(x).any(axis=-1, keepdims=True), math.nan, ranks)
    return ranks if axis is None else fx.moveaxis(ranks, -1, axis)


def sem(
    a: Any, axis: int | None = 0, ddof: int = 1, nan_policy: str = "propagate", *,
    keepdims: bool = False,
) -> Tensor:  # fmt: skip
    """The standard error of the mean: the deviation over the root of how many there are.

    Args:
        a: real; integers become floats.
        axis: along which, or None for all.
        ddof: what is taken from their number in the deviation.
        nan_policy: ``"propagate"``, or ``"omit"`` for those that are numbers.
        keepdims: whether the axis stays as 1.

    Raises:
        ArgumentError: for another policy.

    Source: ``jax.scipy.stats.sem``.

    Example:
        >>> import fx
        >>> fx.stats.sem(fx.tensor([1.0, 2.0, 3.0, 4.0, 5.0]))
        tensor(0.7071)
    """
    x = argument("sem", a)
    x = x if x.dtype in INEXACT else x.astype(default_dtype())
    if nan_policy == "propagate":
        count = x.size if axis is None else x.shape[axis]
        return fx.std(x, axis=axis, correction=ddof, keepdims=keepdims) / math.sqrt(max(count, 0))
    if nan_policy != "omit":
        raise ArgumentError(f"sem: nan_policy is 'propagate' or 'omit', got {nan_policy!r}")
    there = (~fx.isnan(x)).astype(x.dtype).sum(axis, keepdims=keepdims)
    return fx.nanstd(x, axis=axis, ddof=ddof, keepdims=keepdims) / fx.sqrt(there)


__all__ = ["mode", "rankdata", "sem"]
