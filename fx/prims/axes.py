"""What the primitives that work along axes share: checks of axes and dtypes, batching rules."""

from __future__ import annotations

from fx.dtypes import COMPLEX, FLOATING, INTEGRAL
from fx.errors import AxisError, DTypeError


def check_axes(name, x, axes):
    """Refuse axes that ``x`` does not have, or has twice.

    Raises:
        AxisError: naming the operation, the axis and the shape.
    """
    for a in axes:
        if not 0 <= a < x.ndim:
            raise AxisError(
                f"{name}: axis {a} is out of range for shape {x.shape}, which has {x.ndim} axes"
            )
    if len(set(axes)) != len(axes):
        raise AxisError(f"{name}: axes {tuple(axes)} name an axis twice")


def check_ordered(name, x):
    """Refuse a dtype that has no order."""
    if x.dtype in COMPLEX:
        raise DTypeError(f"{name}: {x.dtype.name} has no order; use x.real or fx.abs(x)")


def check_real_floating(name, x):
    """Refuse a dtype that is not real and floating."""
    if x.dtype not in FLOATING:
        raise DTypeError(
            f"{name} takes a real floating dtype, got {x.dtype.name}; write x.astype(fx.float32)"
        )


def check_integer(name, what, x):
    """Refuse indices that are no integers."""
    if x.dtype not in INTEGRAL:
        hint = "select with a mask as x[mask]" if x.dtype == bool else "write i.astype(fx.int64)"
        raise DTypeError(f"{name}: {what} must be integers, got {x.dtype.name}; {hint}")


def along_batch(get):
    """The batching rule of what works along ``axis`` and keeps every axis: lanes stay."""

    def batch(level, args, dims, *, axis, **params):
        d = dims[0]
        out = get()(args[0], axis=axis + (axis >= d), **params)
        return out, (d,) * len(out) if isinstance(out, tuple) else d

    return batch
