"""Sums, products and extrema of rows that belong together: ``jax.ops.segment_sum`` and its kin."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import fx.prims.compare as compare
import fx.prims.creation as creation
from fx import dtypes
from fx.errors import DTypeError, ShapeError
from fx.ops.axes import integer
from fx.ops.operands import argument, cast
from fx.prims.creation import constant_like
from fx.tensor import Tensor

_DOC = """{word} of the rows of each segment.

    Args:
        data: (n, *rest).
        segment_ids: (n,) integers: to which segment each row belongs. Rows of negative ones and of
            those that are not below ``num_segments`` are left out.
        num_segments: how many segments there are; unless told one more than the greatest of
            ``segment_ids``, whose value is asked for.
        indices_are_sorted, unique_indices, mode: accepted for JAX's sake.

    Returns:
        (num_segments, *rest); a segment without rows is {empty}.

    Source: ``jax.ops.{name}``.

    Example:
        >>> import fx
        >>> fx.ops.{name}(fx.tensor([1.0, 2.0, 3.0]), fx.tensor([0, 0, 2]), 3)
        tensor({result})
    """


def _segments(name: str, method: str, neutral: Callable[[Any], Any], **doc: str) -> Any:
    def function(
        data: Any, segment_ids: Any, num_segments: int | None = None,
        indices_are_sorted: bool = False, unique_indices: bool = False,
        bucket_size: int | None = None, mode: Any = None,
    ) -> Tensor:  # fmt: skip
        x, ids = argument(name, data), argument(name, segment_ids)
        if ids.dtype not in dtypes.INTEGRAL:
            raise DTypeError(f"{name}: segment_ids must be integers, got {ids.dtype.name}")
        if ids.ndim != 1 or x.shape[:1] != ids.shape:
            raise ShapeError(
                f"{name} takes data (n, ...) and segment_ids (n,), got {x.shape} and {ids.shape}"
            )
        if num_segments is None:
            count = max(int(ids.max()) + 1, 0) if ids.shape[0] else 0
        else:
            count = integer(name, "num_segments", num_segments)
        if count < 0:
            raise ShapeError(f"{name}: num_segments must not be negative, got {count}")
        shape = (count, *x.shape[1:])
        start = creation.full(
            shape=shape, value=neutral(x.dtype), dtype=x.dtype, device=x.device.name
        )
        places = cast(ids, dtypes.int64)
        beyond = compare.less(places, constant_like(0, places))  # which would count from the end
        places = compare.where(beyond, constant_like(count, places), places)
        return getattr(start.at[places], method)(x, mode="drop")  # type: ignore[no-any-return]

    function.__name__ = function.__qualname__ = name
    function.__module__ = __name__
    function.__doc__ = _DOC.format(name=name, **doc)
    return function


def _lowest(dtype: Any) -> Any:
    if dtype in dtypes.FLOATING:
        return float("-inf")
    return False if dtype == dtypes.bool_ else int(np.iinfo(dtype).min)


def _highest(dtype: Any) -> Any:
    if dtype in dtypes.FLOATING:
        return float("inf")
    return True if dtype == dtypes.bool_ else int(np.iinfo(dtype).max)


segment_sum = _segments(
    "segment_sum", "add", lambda _: 0, word="The sum", empty="0", result="[3., 0., 3.]"
)
segment_prod = _segments(
    "segment_prod", "multiply", lambda _: 1, word="The product", empty="1", result="[2., 1., 3.]"
)
segment_max = _segments(
    "segment_max", "max", _lowest, word="The largest", empty="the smallest number of the dtype",
    result="[2., -inf, 3.]",
)  # fmt: skip
segment_min = _segments(
    "segment_min", "min", _highest, word="The smallest", empty="the largest number of the dtype",
    result="[1., inf, 3.]",
)  # fmt: skip
