"""Padding: constants, reflections, edges, wrapping."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import fx.prims.indexing as indexing
import fx.prims.shape as shape_prims
from fx.errors import ShapeError
from fx.ops.convert import as_tensor
from fx.ops.operands import argument
from fx.prims.creation import constant_like
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
        ShapeError: if the widths are odd in number, too many, or leave nothing to take from.
        ValueError: for another ``mode``.

    Example:
        >>> import fx
        >>> fx.nn.functional.pad(fx.tensor([1.0, 2.0, 3.0]), (1, 2))
        tensor([0., 1., 2., 3., 0., 0.])
        >>> fx.nn.functional.pad(fx.tensor([1.0, 2.0, 3.0]), (2, 0), mode="reflect")
        tensor([3., 2., 1., 2., 3.])
    """
    x = argument("pad", input)
    widths = tuple(pad)
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
        return _constant(x, pairs, value)
    if value not in (None, 0):
        raise ValueError(f'pad: mode {mode!r} takes no value; write mode="constant"')
    for axis, (before, behind) in enumerate(pairs):
        if before or behind:
            places = as_tensor(_places(x, axis, before, behind, mode), device=x.device)
            x = indexing.take(x, places, axis=axis)
    return x


def _constant(x: Tensor, pairs: list[tuple[int, int]], value: Any) -> Tensor:
    if any(n + a + b < 0 for n, (a, b) in zip(x.shape, pairs, strict=True)):
        raise ShapeError(f"pad: the widths {pairs} leave a negative size of shape {x.shape}")
    if any(a < 0 or b < 0 for a, b in pairs):
        x = shape_prims.slice(
            x,
            start=tuple([max(-a, 0) for a, _ in pairs]),
            stop=tuple([n - max(-b, 0) for n, (_, b) in zip(x.shape, pairs, strict=True)]),
            step=(1,) * x.ndim,
        )
    low, high = tuple([max(a, 0) for a, _ in pairs]), tuple([max(b, 0) for _, b in pairs])
    if not any(low) and not any(high):
        return x
    filler = constant_like(0 if value is None else value, x)
    return shape_prims.pad(x, filler, low=low, high=high, inside=(0,) * x.ndim)


def _places(x: Tensor, axis: int, before: int, behind: int, mode: str) -> list[int]:
    """Where each element of the padded axis comes from."""
    n = x.shape[axis]
    most = {"reflect": n - 1, "circular": n}.get(mode)
    if n == 0 or (most is not None and max(before, behind) > most) or n + before + behind < 0:
        raise ShapeError(
            f"pad: {mode} widths ({before}, {behind}) do not fit axis {axis} of shape {x.shape}"
            + (f"; they may be at most {most}" if most is not None else "")
        )
    wanted = range(-before, n + behind)
    if mode == "replicate":
        return [min(max(i, 0), n - 1) for i in wanted]
    if mode == "circular":
        return [i % n for i in wanted]
    return [-i if i < 0 else 2 * (n - 1) - i if i >= n else i for i in wanted]
