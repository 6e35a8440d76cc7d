"""Pooling that gives maxima and their places, under the names that say so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fx.nn.functional import adaptive_pooling, fractional_pooling, pooling


def _with_indices(function: Callable[..., Any]) -> Callable[..., Any]:
    name = f"{function.__name__}_with_indices"

    def pool(input: Any, *args: Any, **kwargs: Any) -> Any:
        kwargs.pop("return_indices", None)
        return function(input, *args, **kwargs, return_indices=True)

    pool.__name__ = pool.__qualname__ = name
    pool.__doc__ = f"``{function.__name__}`` with ``return_indices=True``: maxima and places."
    return pool


max_pool1d_with_indices = _with_indices(pooling.max_pool1d)
max_pool2d_with_indices = _with_indices(pooling.max_pool2d)
max_pool3d_with_indices = _with_indices(pooling.max_pool3d)
adaptive_max_pool1d_with_indices = _with_indices(adaptive_pooling.adaptive_max_pool1d)
adaptive_max_pool2d_with_indices = _with_indices(adaptive_pooling.adaptive_max_pool2d)
adaptive_max_pool3d_with_indices = _with_indices(adaptive_pooling.adaptive_max_pool3d)
fractional_max_pool2d_with_indices = _with_indices(fractional_pooling.fractional_max_pool2d)
fractional_max_pool3d_with_indices = _with_indices(fractional_pooling.fractional_max_pool3d)
