"""Reduction kernels."""

from __future__ import annotations

from typing import Any

import numpy as np


def sum(x: np.ndarray, *, axes: tuple[int, ...], keepdims: bool) -> Any:
    """The sum in the dtype of ``x``; float16 and bfloat16 are added up in float32."""
    if x.dtype.itemsize == 2 and x.dtype.kind not in "iu":
        return np.add.reduce(x, axes, np.float32, None, keepdims).astype(x.dtype)
    return np.add.reduce(x, axes, x.dtype, None, keepdims)
