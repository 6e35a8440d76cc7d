"""The linear and the bilinear map of a layer."""

from __future__ import annotations

from math import prod
from typing import Any

import fx.prims.linear as linear_prims
import fx.prims.shape as shape_prims
from fx.config import modes
from fx.errors import DTypeError, ShapeError
from fx.ops.autocasting import lowered
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
    if modes.autocast is not None:
        input, weight, bias = lowered(input, weight, bias)
    x, w = argument("linear", input), argument("linear", weight)
    x_sizes, w_sizes = x._shape, w._shape
    rank = len(w_sizes)
    in_features = w_sizes[-1] if rank in (1, 2) else None
    if not x_sizes or in_features != x_sizes[-1]:
        raise ShapeError(
            f"linear: an input of shape {x.shape} does not fit a weight of shape {w.shape}, which "
            f"takes (..., {in_features}); flatten it first, for example x.flatten(1), or change "
            f"in_features"
        )
    if x._dtype != w._dtype:
        raise _mixed("linear", x, w)
    if rank == 2 and len(x_sizes) > 1:
        if bias is None:
            return linear_prims.mapped(x, w)  # type: ignore[no-any-return]
        return linear_prims.shifted(x, w, argument("linear", bias))  # type: ignore[no-any-return]
    lead = x_sizes[:-1]
    if w.ndim == 1:
        w = shape_prims.reshaped(w, (w._shape[0], 1))
    else:
        w = shape_prims.transposed(w, (1, 0))  # (in_features, out_features)
    if x.ndim == 1:
        x = shape_prims.reshaped(x, (1, *x._shape))
    out = linear_prims.matmul(x, w)  # (..., out_features)
    if len(lead) == 0 or weight.ndim == 1:
        out = shape_prims.reshaped(out, lead if weight.ndim == 1 else (out.shape[-1],))
    return out if bias is None else out + argument("linear", bias)


def _mixed(name: str, x: Tensor, w: Tensor) -> DTypeError:
    return DTypeError(
        f"{name}: an input {x.spec!r} and a weight {w.spec!r} must have one dtype; write "
        f"x.astype(fx.{w._dtype.name}), or model.to(fx.{x._dtype.name})"
    )


def bilinear(input1: Any, input2: Any, weight: Any, bias: Any = None) -> Tensor:
    """``input1 @ weight[k] @ input2 + bias[k]`` for each output feature k.

    Args:
        input1: (..., in1_features).
        input2: (..., in2_features), with the same leading sizes.
        weight: (out_features, in1_features, in2_features).
        bias: (out_features,) or None.

    Returns:
        (..., out_features).

    Raises:
        ShapeError: if sizes do not fit.
        DTypeError: if the dtypes differ.

    Example:
        >>> import fx
        >>> x, y = fx.tensor([1.0, 2.0]), fx.tensor([3.0, 4.0])
        >>> fx.nn.functional.bilinear(x, y, fx.ones((1, 2, 2)))
        tensor([21.])
    """
    x, y, w = [argument("bilinear", v) for v in (input1, input2, weight)]
    if w.ndim != 3 or not x.ndim or not y.ndim or x.shape[:-1] != y.shape[:-1]:
        raise ShapeError(
            f"bilinear takes inputs (..., in1_features) and (..., in2_features) with the same "
            f"leading sizes and a weight (out, in1, in2), got {x.shape}, {y.shape} and {w.shape}"
        )
    out, first, second = w.shape
    if (x.shape[-1], y.shape[-1]) != (first, second):
        raise ShapeError(
            f"bilinear: inputs of shapes {x.shape} and {y.shape} do not fit a weight of shape "
            f"{w.shape}, which takes (..., {first}) and (..., {second})"
        )
    for v in (x, y):
        if v.dtype != w.dtype:
            raise _mixed("bilinear", v, w)
    lead = x.shape[:-1]
    rows = prod(lead)
    w = shape_prims.reshaped(shape_prims.transposed(w, (1, 0, 2)), (first, out * second))
    seen = linear_prims.matmul(shape_prims.reshaped(x, (rows, first)), w)
    seen = shape_prims.reshaped(seen, (rows, out, second))
    column = shape_prims.reshaped(y, (rows, second, 1))
    made = shape_prims.reshaped(linear_prims.matmul(seen, column), (*lead, out))
    return made if bias is None else made + argument("bilinear", bias)
