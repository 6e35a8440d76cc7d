"""Least squares."""

from __future__ import annotations

from typing import Any, NamedTuple

from fx.dtypes import int32
from fx.errors import ShapeError
from fx.linalg.functions import pseudo_inverse
from fx.linalg.operands import matrices
from fx.linalg.spectral import svdvals
from fx.ops.products.linear import matmul
from fx.prims.compare import astype
from fx.prims.linalg.verified import verified
from fx.tensor import Tensor

_DRIVERS = ("gels", "gelsy", "gelsd", "gelss")
_RANK = (
    "The least squares problem could not be solved because the input matrix does not have full rank"
)


class Lstsq(NamedTuple):
    """What ``lstsq`` gives."""

    solution: Tensor
    residuals: Tensor
    rank: Tensor
    singular_values: Tensor


def lstsq(a: Any, b: Any, /, rcond: Any = None, *, driver: str | None = None) -> Lstsq:
    """The x for which the norm of a x - b is least, and of these the one that is itself least.

    All drivers compute by singular values; they differ in what they tell. The solution has a
    derivative among matrices of one rank.

    Args:
        a: (*B, m, n).
        b: (*B, m, k), or (*B, m) for one right side.
        rcond: singular values up to ``rcond`` times the largest count as 0; max(m, n) times the
            machine's epsilon unless given.
        driver: ``"gelsy"`` unless given, ``"gels"``, ``"gelsd"`` or ``"gelss"``.

    Returns:
        ``solution`` (*B, n, k) or (*B, n). ``residuals`` (*B, k), the squared norms, of all
        drivers but ``"gelsy"`` if m > n and every matrix is of full rank, else (0,). ``rank``
        (*B), int64, but of ``"gels"``, (0,). ``singular_values`` (*B, min(m, n)) of ``"gelsd"``
        and ``"gelss"``, else (0,).

    Raises:
        ShapeError: if these do not fit.
        DTypeError: unless they are of float32, float64 or complex numbers.
        ValueError: for another driver.
        LinAlgError: if ``a`` holds NaN or infinities, or with ``"gels"`` is not of full rank.

    Source: ``torch.linalg.lstsq``.

    Example:
        >>> import fx
        >>> a, b = fx.tensor([[1.0, 0.0], [1.0, 1.0], [1.0, 2.0]]), fx.tensor([1.0, 3.0, 5.0])
        >>> fx.linalg.lstsq(a, b).solution.round(decimals=4)
        tensor([1., 2.])
    """
    name = "linalg.lstsq"
    a = matrices(name, a)
    b = matrices(name, b[..., None], "B")[..., 0]
    driver = "gelsy" if driver is None else driver
    if driver not in _DRIVERS:
        raise ValueError(
            f"{name}: parameter `driver` should be one of (gels, gelsy, gelsd, gelss), got "
            f"{driver!r}"
        )
    m, n = a._shape[-2:]
    vector = b.ndim == a.ndim - 1 and b.shape == a.shape[:-1]
    right = b[..., None] if vector else b
    if right.ndim < 2 or right.shape[-2] != m:
        raise ShapeError(
            f"{name}: input.size(-2) should match other.size(-2), got {a.shape} and {b.shape}"
        )
    p, rank = pseudo_inverse(name, a, rcond, None)
    few = min(m, n)
    if driver == "gels":
        words = (f"{name}: {_RANK} (%lld less).", f"{name}: (Batch element %lld): {_RANK}.")
        p = verified(p, astype(few - rank, dtype=int32), words=words)
    x = matmul(p, right)
    x = x + matmul(p, right - matmul(a, x))  # what rounding in p had left
    residuals = none = x.real.reshape(-1)[:0]
    if m > n and driver != "gelsy" and (driver == "gels" or bool((rank == n).all())):
        residuals = (matmul(a, x) - right).abs().square().sum(-2)
        residuals = residuals[..., 0] if vector else residuals
    return Lstsq(
        x[..., 0] if vector else x,
        residuals,
        rank.reshape(-1)[:0] if driver == "gels" else rank,
        svdvals(a) if driver in ("gelsd", "gelss") else none,
    )
