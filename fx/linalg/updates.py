"""QR of a matrix that has changed: by one of rank 1, by rows or columns more or fewer.

What changes is put together and factored anew, so slopes and lanes are those of ``qr``. The factors
are SciPy's but for the signs (phases of complex numbers) of the columns of Q.
"""

from __future__ import annotations

from typing import Any

from fx.errors import ArgumentError, ShapeError
from fx.linalg.operands import matrices
from fx.linalg.orthogonal import qr
from fx.ops.axes import integer
from fx.ops.operands import argument
from fx.ops.shapes.joining import concat
from fx.tensor import Tensor


def _whole(name: str, Q: Any, R: Any) -> tuple[Tensor, str]:
    """The matrix that was factored, and the mode of ``qr`` in which it was."""
    q, r = matrices(name, Q, "Q"), matrices(name, R, "R")
    if q.shape[-1] != r.shape[-2]:
        raise ShapeError(f"{name}: Q {q.shape} and R {r.shape} are no factors of one matrix")
    return q @ r, "complete" if q.shape[-2] == q.shape[-1] else "reduced"


def qr_update(Q: Any, R: Any, u: Any, v: Any) -> tuple[Tensor, Tensor]:
    """The factors of Q R + u v^H.

    Args:
        Q, R: (*B, m, m) and (*B, m, n), or (*B, m, n) and (*B, n, n).
        u, v: (*B, m) and (*B, n), or (*B, m, k) and (*B, n, k).

    Raises:
        ShapeError: if shapes do not fit.

    Source: ``scipy.linalg.qr_update``.

    Example:
        >>> import fx
        >>> q, r = fx.linalg.qr_update(fx.eye(2), fx.eye(2), fx.ones(2), fx.ones(2))
        >>> (q @ r).round()
        tensor([[2., 1.],
                [1., 2.]])
    """
    name = "linalg.qr_update"
    a, mode = _whole(name, Q, R)
    u, v = argument(name, u), argument(name, v)
    if u.ndim < a.ndim:
        u, v = u[..., None], v[..., None]
    if u.shape[-2] != a.shape[-2] or v.shape[-2] != a.shape[-1] or u.shape[-1] != v.shape[-1]:
        raise ShapeError(f"{name}: u {u.shape} v^H {v.shape} is not of the shape {a.shape}")
    return tuple(qr(a + u @ v.mH, mode=mode))  # type: ignore[return-value]


def qr_delete(Q: Any, R: Any, k: int, p: int = 1, which: str = "row") -> tuple[Tensor, Tensor]:
    """The factors without p rows or columns, from the one at k on.

    Args:
        Q, R: those of ``qr_update``.
        k: a place; a negative one counts from behind.
        p: how many.
        which: ``"row"`` or ``"col"``.

    Raises:
        ArgumentError: for another ``which``, and places that there are not.

    Source: ``scipy.linalg.qr_delete``.

    Example:
        >>> import fx
        >>> q, r = fx.linalg.qr_delete(fx.eye(3), fx.eye(3), 1, which="col")
        >>> abs(q @ r)
        tensor([[1., 0.],
                [0., 0.],
                [0., 1.]])
    """
    name = "linalg.qr_delete"
    a, mode = _whole(name, Q, R)
    a = a.mT if _columns(name, which) else a
    n, k, p = a.shape[-2], integer(name, "k", k), integer(name, "p", p)
    k = k + n if k < 0 else k
    if not (k >= 0 and p > 0 and k + p <= n):
        raise ArgumentError(f"{name}: places {k} .. {k + p - 1} of {n}")
    a = concat([a[..., :k, :], a[..., k + p :, :]], axis=-2)
    return tuple(qr(a.mT if which == "col" else a, mode=mode))  # type: ignore[return-value]


def qr_insert(Q: Any, R: Any, u: Any, k: int, which: str = "row") -> tuple[Tensor, Tensor]:
    """The factors with rows or columns more, before the one at k.

    Args:
        Q, R: those of ``qr_update``.
        u: rows (*B, p, n) or one (n,), or columns (*B, m, p) or one (m,).
        k: a place; a negative one counts from behind.
        which: ``"row"`` or ``"col"``.

    Raises:
        ShapeError: if shapes do not fit.
        ArgumentError: for another ``which``, and places that there are not.

    Source: ``scipy.linalg.qr_insert``.

    Example:
        >>> import fx
        >>> q, r = fx.linalg.qr_insert(fx.eye(2), fx.eye(2), fx.ones(2) * 3, 0)
        >>> abs(q @ r).round()
        tensor([[3., 3.],
                [1., 0.],
                [0., 1.]])
    """
    name = "linalg.qr_insert"
    a, mode = _whole(name, Q, R)
    columns = _columns(name, which)
    u, a = argument(name, u), a.mT if columns else a
    u = u[..., None, :] if u.ndim < a.ndim else u.mT if columns else u
    n, k = a.shape[-2], integer(name, "k", k)
    k = k + n if k < 0 else k
    if not 0 <= k <= n:
        raise ArgumentError(f"{name}: a place of 0 .. {n}, got {k}")
    if u.shape[-1] != a.shape[-1]:
        raise ShapeError(f"{name}: {which}s of {a.shape[-1]} elements, got {u.shape[-1]}")
    a = concat([a[..., :k, :], u, a[..., k:, :]], axis=-2)
    return tuple(qr(a.mT if columns else a, mode=mode))  # type: ignore[return-value]


def _columns(name: str, which: str) -> bool:
    if which not in ("row", "col"):
        raise ArgumentError(f"{name}: which is 'row' or 'col', got {which!r}")
    return which == "col"


__all__ = ["qr_delete", "qr_insert", "qr_update"]
