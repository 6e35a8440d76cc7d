"""Splitting: parts of a tensor along an axis."""

from __future__ import annotations

from itertools import accumulate, pairwise
from typing import Any

from fx.config import modes
from fx.errors import ShapeError
from fx.ops.axes import integer, normal_axis, sizes
from fx.ops.indexing.positions import Within
from fx.ops.indexing.views import along, pieces, rows
from fx.ops.operands import public, same_view, viewed
from fx.staged_number import StagedNumber
from fx.tensor import Tensor


def unstack(x: Any, axis: int = 0, *, dim: int | None = None) -> tuple[Tensor, ...]:
    """The slices along an axis, without it.

    Example:
        >>> import fx
        >>> fx.unstack(fx.tensor([[1, 2], [3, 4]]))
        (tensor([1, 2]), tensor([3, 4]))
    """
    x = viewed("unstack", x)
    at = normal_axis("unstack", axis if dim is None else dim, x._shape)
    return rows(x, at)


unbind = unstack


def split(x: Any, split_size: Any, axis: int = 0, *, dim: int | None = None) -> tuple[Tensor, ...]:
    """Pieces of a given size along an axis, as PyTorch splits; the last may be smaller.

    Args:
        x: a tensor with at least one axis.
        split_size: the size of every piece, or a list with the size of each.
        axis: the axis.
        dim: PyTorch's word for ``axis``.

    Raises:
        ShapeError: if the sizes do not add up to that of the axis.

    Example:
        >>> import fx
        >>> fx.split(fx.tensor([1, 2, 3]), 2)
        (tensor([1, 2]), tensor([3]))
    """
    x = viewed("split", x)
    at = normal_axis("split", axis if dim is None else dim, x._shape)
    n = _told(x, at)
    if isinstance(split_size, (tuple, list)):
        sections = sizes((split_size,), "split")
        if sum(sections) != n or min(sections, default=0) < 0:
            raise ShapeError(
                f"split: sizes {sections} must add up to {n}, the size of axis {at} of {x.shape}"
            )
        return pieces(x, at, pairwise([0, *accumulate(sections)]))
    size = integer("split", "the size of a piece", split_size)
    if size < 1 and not size == n == 0:
        raise ShapeError(f"split: the size of a piece must be positive, got {size}")
    return _equal(x, at, size) if n else (same_view(x),)


def _told(x: Tensor, axis: int) -> int:
    """The size of the one axis on which the pieces depend."""
    n: int = x._shape[axis]
    if modes.stage is not None:
        modes.stage.was_told((n,))
    return n


def _equal(x: Tensor, axis: int, size: int) -> tuple[Tensor, ...]:
    """Pieces of one size, the last of which may be smaller."""
    n = _told(x, axis)
    return pieces(x, axis, [(a, min(a + size, n)) for a in range(0, n, size)])


def chunk(x: Any, chunks: int, axis: int = 0, *, dim: int | None = None) -> tuple[Tensor, ...]:
    """At most ``chunks`` pieces of equal size along an axis; the last may be smaller.

    Example:
        >>> import fx
        >>> fx.chunk(fx.tensor([1, 2, 3]), 2)
        (tensor([1, 2]), tensor([3]))
    """
    x = viewed("chunk", x)
    at = normal_axis("chunk", axis if dim is None else dim, x._shape)
    chunks = integer("chunk", "chunks", chunks)
    if chunks < 1:
        raise ShapeError(f"chunk: the number of chunks must be positive, got {chunks}")
    n = _told(x, at)
    if not n:
        return tuple([same_view(x)] * chunks)
    return _equal(x, at, -(-n // chunks))


def tensor_split(
    x: Any, indices_or_sections: Any, axis: int = 0, *, dim: int | None = None
) -> tuple[Tensor, ...]:
    """So many pieces of nearly equal size along an axis, or pieces cut at given places.

    Example:
        >>> import fx
        >>> fx.tensor_split(fx.tensor([1, 2, 3, 4]), [1, 3])
        (tensor([1]), tensor([2, 3]), tensor([4]))
    """
    x = viewed("tensor_split", x)
    at = normal_axis("tensor_split", axis if dim is None else dim, x._shape)
    n = x._shape[at]
    if isinstance(indices_or_sections, Tensor) and indices_or_sections.ndim:
        indices_or_sections = indices_or_sections.tolist()
    if isinstance(indices_or_sections, (tuple, list)):
        cuts = [
            min(max(c + n if c < 0 else c, 0), n)
            for c in sizes((indices_or_sections,), "tensor_split")
        ]
        starts, stops = [0, *cuts], [*cuts, n]
        pairs = zip(starts, stops, strict=True)
        return pieces(x, at, [(a, max(a, b)) for a, b in pairs])
    count = integer("tensor_split", "the number of pieces", indices_or_sections)
    if count < 1:
        raise ShapeError(f"tensor_split: the number of pieces must be positive, got {count}")
    small, larger = divmod(n, count)
    return pieces(x, at, pairwise([i * small + min(i, larger) for i in range(count + 1)]))


def narrow(
    x: Any, axis: int = 0, start: Any = 0, length: int = 0, *, dim: int | None = None
) -> Tensor:
    """``length`` places along an axis from ``start`` on.

    Raises:
        ShapeError: if they are not all there.

    Example:
        >>> import fx
        >>> fx.narrow(fx.tensor([1, 2, 3, 4]), 0, 1, 2)
        tensor([2, 3])
    """
    x = viewed("narrow", x)
    at = normal_axis("narrow", axis if dim is None else dim, x._shape)
    staged = type(start) is StagedNumber and type(length) is int and length > 0
    if staged and start.known(Within(0, x._shape[at] - length + 1)):  # one program for all of them
        return x[(*(slice(None),) * at, slice(start, start + length))]
    n, first = x._shape[at], integer("narrow", "start", start)
    length = integer("narrow", "length", length)
    first += n if first < 0 else 0
    if not 0 <= first <= first + length <= n:
        raise ShapeError(
            f"narrow: {length} places from {start} on do not lie in axis {at} of {x.shape}"
        )
    return along(x, at, first, first + length)


__all__ = public(globals())
