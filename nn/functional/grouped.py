"""Products of several groups of rows or columns, each with a matrix of its own."""

from __future__ import annotations

from typing import Any

from fx.errors import ArgumentError, DTypeError, ShapeError
from fx.ops.making.creation import zeros
from fx.ops.operands import argument
from fx.ops.shapes.joining import concat, stack
from fx.tensor import Tensor


def grouped_mm(
    mat_a: Any, mat_b: Any, *, offs: Any = None, bias: Any = None, out_dtype: Any = None
) -> Tensor:
    """A product for each group, as a mixture of experts computes: group i ends at ``offs[i]``.

    Args:
        mat_a: (m, k), or (groups, m, k).
        mat_b: (k, n), or (groups, k, n).
        offs: (groups,) int32, increasing; cuts the rows of an (m, k) before (groups, k, n), the
            columns of a (k, n) behind (groups, m, k), and k where both have two axes. None where
            both have three.
        bias: None; PyTorch has none yet either.
        out_dtype: that of ``mat_a``, or None.

    Returns:
        (m, n) with zeros behind the last group, where one operand has three axes; else
        (groups, m, n).

    Raises:
        ShapeError: if shapes do not fit, or ``offs`` is missing or too much.
        DTypeError: for other ``offs`` than int32, operands or results of two dtypes.
        ArgumentError: for a bias.

    Example:
        >>> import fx
        >>> x, w = fx.ones((3, 2)), fx.arange(4.0).reshape(2, 2, 1)
        >>> ends = fx.tensor([1, 3], dtype=fx.int32)
        >>> fx.nn.functional.grouped_mm(x, w, offs=ends).tolist()
        [[1.0], [5.0], [5.0]]
    """
    a, b = argument("grouped_mm", mat_a), argument("grouped_mm", mat_b)
    if bias is not None:
        raise ArgumentError("grouped_mm takes no bias, as PyTorch's; add it to the result")
    if a.dtype != b.dtype or (out_dtype is not None and out_dtype != a.dtype):
        raise DTypeError(
            f"grouped_mm: both operands and the result have one dtype, got {a.dtype.name}, "
            f"{b.dtype.name} and out_dtype={out_dtype}"
        )
    ranks = a.ndim, b.ndim
    if {*ranks} - {2, 3} or (offs is None) != (ranks == (3, 3)):
        raise ShapeError(
            f"grouped_mm takes operands with 2 or 3 axes, and offs unless both have 3; got "
            f"{a.shape} and {b.shape} {'without' if offs is None else 'with'} offs"
        )
    if offs is None:
        return a @ b
    ends = _ends(a, b, offs)
    spans = list(zip([0, *ends], ends))
    if ranks == (2, 2):
        return stack([a[:, i:j] @ b[i:j] for i, j in spans])
    if ranks == (2, 3):
        parts = [a[i:j] @ b[g] for g, (i, j) in enumerate(spans)]
        rest = (a.shape[0] - ends[-1], b.shape[2])
    else:
        parts = [a[g] @ b[:, i:j] for g, (i, j) in enumerate(spans)]
        rest = (a.shape[1], b.shape[1] - ends[-1])
    parts.append(zeros(rest, dtype=a.dtype, device=a.device))
    return concat(parts, axis=0 if ranks == (2, 3) else 1)


def _ends(a: Tensor, b: Tensor, offs: Any) -> list[int]:
    """Where each group ends."""
    ends = argument("grouped_mm", offs)
    if ends.dtype.name != "int32":
        raise DTypeError(
            f"grouped_mm: offs must be int32, got {ends.dtype.name}; write offs.to(fx.int32)"
        )
    groups = {x.shape[0] for x in (a, b) if x.ndim == 3}
    if ends.ndim != 1 or not ends.shape[0] or groups - {ends.shape[0]}:
        raise ShapeError(
            f"grouped_mm: offs has one entry a group, got {ends.shape} for {a.shape} and {b.shape}"
        )
    found = ends.tolist()
    length = b.shape[1] if a.ndim == 3 else a.shape[1] if b.ndim == 2 else a.shape[0]
    if any(i > j for i, j in zip([0, *found], [*found, length])):
        raise ShapeError(f"grouped_mm: offs must increase and end by {length}, got {found}")
    return found  # type: ignore[no-any-return]
