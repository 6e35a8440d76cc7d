"""Products and parts of matrices: the standard's names here too, and what ``torch.linalg`` adds."""

from __future__ import annotations

from typing import Any

from fx.errors import ShapeError
from fx.ops.operands import argument
from fx.ops.products import chains, matrices
from fx.ops.products.linear import matmul, outer, tensordot, vecdot
from fx.ops.products.matrices import cross as crossed
from fx.ops.products.matrices import matrix_transpose
from fx.ops.shapes.assembly import vander as powers
from fx.tensor import Tensor


def cross(x1: Any, x2: Any, /, *, axis: int = -1) -> Tensor:
    """The cross product along an axis of size 3.

    Source: Python Array API standard 2024.12, ``linalg.cross``.

    Example:
        >>> import fx
        >>> fx.linalg.cross(fx.tensor([1.0, 0.0, 0.0]), fx.tensor([0.0, 1.0, 0.0]))
        tensor([0., 0., 1.])
    """
    return crossed(x1, x2, axis)  # type: ignore[no-any-return]


def diagonal(x: Any, /, *, offset: int = 0) -> Tensor:
    """The diagonals of matrices (*B, m, n), as a last axis.

    Source: Python Array API standard 2024.12, ``linalg.diagonal``.

    Example:
        >>> import fx
        >>> fx.linalg.diagonal(fx.eye(2))
        tensor([1., 1.])
    """
    return matrices.diagonal(x, offset, -2, -1)


def trace(x: Any, /, *, offset: int = 0, dtype: Any = None) -> Tensor:
    """The sum of the diagonals of matrices (*B, m, n): (*B).

    Source: Python Array API standard 2024.12, ``linalg.trace``.

    Example:
        >>> import fx
        >>> fx.linalg.trace(fx.eye(3))
        tensor(3.)
    """
    found = diagonal(x, offset=offset)
    return found.sum(-1) if dtype is None else found.sum(-1, dtype=dtype)  # type: ignore[no-any-return]


def matrix_power(x: Any, n: int, /) -> Tensor:
    """Square matrices (*B, m, m) multiplied ``n`` times with themselves; a negative n inverts.

    Raises:
        LinAlgError: if ``n`` is negative and a matrix singular.
        ShapeError: if ``x`` is no stack of square matrices.

    Source: Python Array API standard 2024.12, ``linalg.matrix_power``.

    Example:
        >>> import fx
        >>> fx.linalg.matrix_power(fx.tensor([[2.0, 0.0], [0.0, 4.0]]), -1)
        tensor([[0.5000, 0.0000],
                [0.0000, 0.2500]])
    """
    return chains.matrix_power(x, n)


def multi_dot(tensors: Any, /) -> Tensor:
    """The product of several matrices, in the cheapest order; the outer two may be vectors.

    Raises:
        ShapeError: for fewer than two.

    Source: ``numpy.linalg.multi_dot``, ``torch.linalg.multi_dot``.

    Example:
        >>> import fx
        >>> fx.linalg.multi_dot([fx.eye(2), fx.ones((2, 3)), fx.ones(3)])
        tensor([3., 3.])
    """
    inner = [argument("linalg.multi_dot", x) for x in tensors]
    if len(inner) < 2:
        raise ShapeError(f"linalg.multi_dot: expected at least 2 tensors but got {len(inner)}")
    first, last = inner[0], inner[-1]
    if first.ndim == 1:
        inner[0] = first[None]
    if last.ndim == 1:
        inner[-1] = last[:, None]
    out = chains.chain_matmul(inner)
    if last.ndim == 1:
        out = out[..., 0]
    return out[0] if first.ndim == 1 else out  # type: ignore[no-any-return]


def vander(x: Any, /, *, N: int | None = None) -> Tensor:
    """The powers 0, 1, 2 ... of the elements of vectors, as columns.

    Args:
        x: (*B, n).
        N: how many columns; n unless told.

    Source: ``torch.linalg.vander``.

    Example:
        >>> import fx
        >>> fx.linalg.vander(fx.tensor([2, 3, 5]))
        tensor([[ 1,  2,  4],
                [ 1,  3,  9],
                [ 1,  5, 25]])
    """
    x = argument("linalg.vander", x)
    return powers(x if x.ndim else x.reshape(1), N, increasing=True)


__all__ = [
    "cross", "diagonal", "matmul", "matrix_power", "matrix_transpose", "multi_dot", "outer",
    "tensordot", "trace", "vander", "vecdot",
]  # fmt: skip
