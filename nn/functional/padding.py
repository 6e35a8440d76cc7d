"""Padding in PyTorch's order of widths; the work is done by ``fx.pad``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fx.config import modes
from fx.dtypes import float32
from fx.errors import ShapeError
from fx.ops.autocasting import cast_to
from fx.ops.axes import integers
from fx.ops.operands import argument
from fx.ops.shapes import padding as ops
from fx.tensor import Tensor

MODES = ("constant", "reflect", "replicate", "circular")


def pad(input: Any, pad: Sequence[int], mode: str = "constant", value: Any = None) -> Tensor:
    """Make the last axes longer at both ends, or shorter where a width is negative.

    Args:
        input: any shape.
        pad: a width before and a width behind for the last axis, then for the one before it, ...
        mode: ``"constant"``, ``"reflect"`` (mirrored at the edge element), ``"replicate"`` (the
            edge element) or ``"circular"`` (from the other end).
        value: the constant, 0 unless told.

    Raises:
        ShapeError: if the widths are odd in number, too many, or do not fit the shape.
        ValueError: for another ``mode``, or a ``value`` without ``"constant"``.

    Example:
        >>> import fx
        >>> fx.nn.functional.pad(fx.tensor([1.0, 2.0, 3.0]), (1, 2))
        tensor([0., 1., 2., 3., 0., 0.])
        >>> fx.nn.functional.pad(fx.tensor([1.0, 2.0, 3.0]), (2, 0), mode="reflect")
        tensor([3., 2., 1., 2., 3.])
    """
    x = argument("pad", input)
    widths = integers("pad", "pad", pad)
    if len(widths) % 2 or len(widths) > 2 * x.ndim:
        raise ShapeError(
            f"pad: widths come in pairs, (before, behind) from the last axis on, at most {x.ndim} "
            f"of them for shape {x.shape}; got {widths}"
        )
    if mode not in MODES:
        raise ValueError(f"pad: mode must be one of {', '.join(MODES)}, got {mode!r}")
    pairs = [(0, 0)] * (x.ndim - len(widths) // 2)
    pairs += [(widths[i], widths[i + 1]) for i in range(len(widths) - 2, -1, -2)]
    if mode == "constant":
        return ops.with_constant(x, pairs, 0 if value is None else value)
    if value not in (None, 0):
        raise ValueError(f'pad: mode {mode!r} takes no value; write mode="constant"')
    half = mode == "circular" or (mode == "reflect" and len(widths) > 4)
    if modes.autocast is not None and not half:
        x = cast_to(float32, x)
    if not widths or min(widths) >= 0:
        return ops.with_own(x, pairs, mode)
    cuts = [(min(a, 0), min(b, 0)) for a, b in pairs]
    longer = [(max(a, 0), max(b, 0)) for a, b in pairs]
    if mode == "circular":  # what was cut off does not come back from the other end
        return ops.pad(ops.pad(x, cuts), longer, mode)
    return ops.pad(ops.pad(x, longer, mode), cuts)
