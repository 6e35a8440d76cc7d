"""The linear map of a layer."""

from __future__ import annotations

from typing import Any

import fx.prims.linear as linear_prims
import fx.prims.shape as shape_prims
from fx.errors import ShapeError
from fx.ops.operands import argument
from fx.tensor import Tensor


def linear(input: Any, weight: Any, bias: Any = None) -> Tensor:
    """``x @ weight.T + bias``.

    Args:
        input: (..., in_features).
        weight: (out_features, in_features), or (in_features,) for a result without that axis.
        bias: (out_features,) or None.

    Returns:
        (..., out_features).

    Raises:
        ShapeError: if the number of features differs.
        DTypeError: if the dtypes differ.

    Example:
        >>> import fx
        >>> fx.nn.functional.linear(fx.tensor([1.0, 2.0]), fx.tensor([[1.0, 1.0], [0.0, 3.0]]))
        tensor([3., 6.])
    """
    x, w = argument("linear", input), argument("linear", weight)
    in_features = w.shape[-1] if w.ndim in (1, 2) else None
    if not x.ndim or in_features != x.shape[-1]:
        raise ShapeError(
            f"linear: an input of shape {x.shape} does not fit a weight of shape {w.shape}, which "
            f"takes (..., {in_features}); flatten it first, for example x.flatten(1), or change "
            f"in_features"
        )
    lead = x.shape[:-1]
    if w.ndim == 1:
        w = shape_prims.reshape(w, shape=(w.shape[0], 1))
    else:
        w = shape_prims.transpose(w, axes=(1, 0))  # (in_features, out_features)
    if x.ndim == 1:
        x = shape_prims.reshape(x, shape=(1, *x.shape))
    out = linear_prims.matmul(x, w)  # (..., out_features)
    if len(lead) == 0 or weight.ndim == 1:
        out = shape_prims.reshape(out, shape=lead if weight.ndim == 1 else (out.shape[-1],))
    return out if bias is None else out + argument("linear", bias)
