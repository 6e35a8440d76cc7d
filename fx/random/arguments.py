"""What the samplers' arguments mean: shapes, dtypes, parameters, and JAX's other names of them."""

from __future__ import annotations

from math import nan
from typing import Any

import numpy as np

import fx.prims.compare as compare
from fx import dtypes
from fx.config import default_dtype
from fx.errors import DTypeError, ShapeError
from fx.ops.operands import SCALARS, argument, cast
from fx.prims.creation import constant, constant_like
from fx.prims.families import broadcast_shapes
from fx.random.keys import sample_shape
from fx.seen import TorchDType
from fx.tensor import Tensor

Shape = int | tuple[int, ...]


def floating_dtype(
    name: str,
    dtype: Any,
    parameters: tuple[Any, ...] = (),
    kinds: frozenset[Any] = dtypes.FLOATING,
) -> Any:
    """The dtype to draw in: ``dtype``, or that of the floating tensors among ``parameters``.

    Raises:
        DTypeError: if it is not among ``kinds``.
    """
    if dtype is None:
        found = None
        for p in parameters:
            if isinstance(p, Tensor) and p._dtype in dtypes.FLOATING:
                found = p._dtype if found is None else dtypes.promote_types(found, p._dtype)
        return found or default_dtype()
    found = dtypes.as_dtype(dtype)
    if found not in kinds:
        raise DTypeError(
            f"{name}: the samples are floating, got dtype {found.name}; "
            f"write dtype=fx.float32, and cast what was drawn"
        )
    return found


def parameter(name: str, value: Any, dtype: Any, device: str) -> Tensor:
    """A parameter of a distribution as a tensor of ``dtype``."""
    if type(value) in SCALARS:
        return constant(value, dtype, device)
    return cast(argument(name, value), dtype)


def positive(name: str, value: Any, dtype: Any, device: str, zero: bool = False) -> Tensor:
    """A positive parameter, or one that may be 0; NaN in place of others."""
    if type(value) in SCALARS:
        fits = value >= 0 if zero else value > 0
        return constant(value if fits else nan, dtype, device)
    x = parameter(name, value, dtype, device)
    least = constant_like(0.0, x)
    right = compare.greater_equal(x, least) if zero else compare.greater(x, least)
    return compare.where(right, x, constant_like(nan, x))


class Rows:
    """Something with a shape, for ``joint_shape``."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.shape = shape


def _shape_of(x: Any) -> tuple[int, ...]:
    return x._shape if isinstance(x, Tensor) else x.shape  # type: ignore[no-any-return]


def joint_shape(name: str, shape: Any, *parameters: Any) -> tuple[int, ...]:
    """The shape to draw; None is that of the parameters, which must broadcast to it.

    Raises:
        ShapeError: if they do not.
    """
    shapes = [_shape_of(p) for p in parameters if type(p) not in SCALARS and hasattr(p, "shape")]
    if shape is None:
        return broadcast_shapes(name, *shapes) if shapes else ()
    wanted = sample_shape(name, shape)
    for s in shapes:
        tail = wanted[len(wanted) - len(s) :]
        if len(s) > len(wanted) or any(n not in (1, m) for n, m in zip(s, tail, strict=True)):
            raise ShapeError(
                f"{name}: a parameter of shape {s} does not broadcast to the shape {wanted} asked "
                f"for; leave shape out to take that of the parameters"
            )
    return wanted


def is_high(name: str, mode: str | None) -> bool:
    """Whether JAX's ``mode`` asks for 64 bits a sample.

    Raises:
        ValueError: if it is none.
    """
    if mode not in (None, "low", "high"):
        raise ValueError(f"{name}: mode is 'low' or 'high', got {mode!r}; leave it out")
    return mode == "high"


def is_dtype(x: Any) -> bool:
    """Whether a value can only be meant as a dtype."""
    return isinstance(x, (np.dtype, type, str, TorchDType))


def both_numbers(x: Any, y: Any) -> bool:
    return type(x) in SCALARS and type(y) in SCALARS


def other_names(name: str, low: Any, high: Any, minval: Any, maxval: Any) -> tuple[Any, Any]:
    """JAX's names of two bounds.

    Raises:
        TypeError: if a bound is missing, or was also given by its other name.
    """
    for own, other, value, given in (
        ("low", "minval", low, minval), ("high", "maxval", high, maxval),
    ):  # fmt: skip
        if value is not None and given is not None:
            raise TypeError(f"{name}: {own} and {other} are two names of one bound; give one")
        if value is None and given is None:
            raise TypeError(f"{name}: {own} (or {other}) is missing; write {own}=...")
    return low if minval is None else minval, high if maxval is None else maxval
