"""Reduction kernels."""

from __future__ import annotations

from typing import Any

import numpy as np

_add = np.add.reduce


def sum(x: np.ndarray, *, axes: tuple[int, ...], keepdims: bool) -> Any:
    """The sum in the dtype of ``x``; float16 and bfloat16 are added up in float32."""
    dtype = x.dtype
    if dtype.itemsize == 2 and dtype.kind not in "iu":
        return _add(x, axes, np.float32, None, keepdims).astype(dtype)
    return _add(x, axes, dtype, None, keepdims)
