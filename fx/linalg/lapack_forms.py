"""Schur's form of pairs, sines and cosines of blocks, and balanced matrices: LAPACK's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fx.errors import ArgumentError
from fx.linalg.operands import square
from fx.ops.indexing.scattering import take_along_axis
from fx.ops.operands import alike
from fx.ops.pointwise.elementwise import cos, sin
from fx.ops.products.linear import tensordot
from fx.ops.shapes.joining import concat
from fx.prims.compare import stop_gradient
from fx.prims.creation import constants_like
from fx.prims.linalg import lapack_forms as prims
from fx.prims.linalg.pieces import complex_dtype
from fx.tensor import Tensor


def _schur_of_pair(name: str, A: Any, B: Any, output: str, sort: Any) -> Any:
    if output not in ("real", "complex"):
        raise ArgumentError(f"{name}: output is 'real' or 'complex', got {output!r}")
    a, b = alike(f"linalg.{name}", A, B)
    a, b = square(f"linalg.{name}", a), square(f"linalg.{name}", b, "B")
    if output == "complex":
        a, b = (x.astype(complex_dtype(x.dtype)) for x in (a, b))
    return prims.generalized_schur(a, b, sort=sort)


def qz(A: Any, B: Any, output: str = "real") -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Schur's form of a pair: A = Q AA Z^H and B = Q BB Z^H.

    Args:
        A, B: (*B, n, n), of one shape.
        output: "complex" makes AA of real matrices triangular too.

    Returns:
        AA, triangular but for blocks of two of real matrices, BB, triangular, and the unitary Q and
        Z; NaN where a matrix has numbers that are not finite.

    Raises:
        ArgumentError: for another output.
        ShapeError: if the shapes differ.
        BackwardError: when it is differentiated.

    Source: ``scipy.linalg.qz``; LAPACK's gges.

    Example:
        >>> import fx
        >>> a, b = fx.tensor([[1.0, 2.0], [3.0, 4.0]]), fx.eye(2)
        >>> s, t, q, z = fx.linalg.qz(a, b)
        >>> fx.allclose(q @ s @ z.mT, a, atol=1e-5)
        True
    """
    s, t, _, _, q, z = _schur_of_pair("qz", A, B, output, None)
    return s, t, q, z


def ordqz(
    A: Any, B: Any, sort: str | Callable[..., Any] = "lhp", output: str = "real"
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """``qz`` with chosen eigenvalues in front.

    Args:
        A, B: (*B, n, n), of one shape.
        sort: which come first: "lhp" and "rhp", in the left or right half plane; "iuc" and "ouc",
            inside or outside of the unit circle; or a function of alpha and beta, NumPy arrays
            (n,), that gives bools.
        output: as of ``qz``.

    Returns:
        AA, BB, alpha (*B, n), complex, beta (*B, n), Q and Z; eigenvalues are alpha / beta.

    Raises:
        ArgumentError: for another output or order.
        ShapeError: if the shapes differ.
        BackwardError: when it is differentiated.

    Source: ``scipy.linalg.ordqz``; LAPACK's tgsen.

    Example:
        >>> import fx
        >>> a = fx.tensor([[2.0, 1.0], [0.0, -3.0]])
        >>> _, _, alpha, beta, _, _ = fx.linalg.ordqz(a, fx.eye(2), sort="lhp")
        >>> (alpha.real / beta).round()
        tensor([-3.,  2.])
    """
    if not callable(sort) and sort not in prims.ORDERS[1:]:
        raise ArgumentError(
            f"ordqz: sort is 'lhp', 'rhp', 'iuc', 'ouc' or a function, got {sort!r}"
        )
    return _schur_of_pair("ordqz", A, B, output, sort)  # type: ignore[no-any-return]


def _places(m: int, p: int, q: int, swap: bool) -> tuple[Any, Any, Any]:
    """The ones of the middle factor (m, m), and where cosines and sines stand: (r, m, m) each."""
    r = min(p, q, m - p, m - q)
    whole, by_cos, by_sin = np.zeros((m, m)), np.zeros((r, m, m)), np.zeros((r, m, m))
    n11, n12 = min(p, q) - r, min(p, m - q) - r
    n21, n22 = min(m - p, q) - r, min(m - p, m - q) - r
    sign, right, down = -1.0 if swap else 1.0, n11 + n21 + n22 + r, p + n22
    for row, column, count, value in (
        (0, 0, n11, 1.0), (n11 + r, right + r, n12, -sign),
        (down + r, n11 + r, n21, sign), (p, q, n22, 1.0),
    ):  # fmt: skip
        for k in range(count):
            whole[row + k, column + k] = value
    for k in range(r):
        by_cos[k, n11 + k, n11 + k] = by_cos[k, down + k, right + k] = 1.0
        by_sin[k, n11 + k, right + k], by_sin[k, down + k, n11 + k] = -sign, sign
    return whole, by_cos, by_sin


def cossin(
    X: Any, p: int | None = None, q: int | None = None, separate: bool = False,
    swap_sign: bool = False, compute_u: bool = True, compute_vh: bool = True,
) -> tuple[Any, Tensor, Any]:  # fmt: skip
    """Sines and cosines of the blocks of unitary matrices: X = U CS Vh, U and Vh of two blocks.

    Args:
        X: (*B, m, m), unitary; or its four blocks, row by row.
        p, q: the rows and columns of the upper left block, unless blocks are given; 1 if only the
            other is given.
        separate: whether to return the blocks, and angles in place of CS.
        swap_sign: whether the minus stands in the lower left block of CS.
        compute_u, compute_vh: False gives nothing in their place.

    Returns:
        U (*B, m, m), CS (*B, m, m) and Vh (*B, m, m); if ``separate``, (U1, U2), the angles
        (*B, r) in radians, and (V1h, V2h).

    Raises:
        ArgumentError: if there are neither sizes nor four blocks.
        ShapeError: if the matrices are not square, or p and q are not between 0 and m.
        BackwardError: when it is differentiated.

    Source: B. D. Sutton, Computing the complete CS decomposition, 2009; ``scipy.linalg.cossin``.

    Example:
        >>> import fx
        >>> x = fx.linalg.qr(fx.tensor([[1.0, 2.0, 0.0], [3.0, 4.0, 1.0], [0.0, 1.0, 5.0]])).Q
        >>> u, cs, vh = fx.linalg.cossin(x, p=1, q=1)
        >>> fx.allclose(u @ cs @ vh, x, atol=1e-5)
        True
    """
    if p or q:
        p, q = p or 1, q or 1
        x = square("linalg.cossin", X, "X")
    else:
        if not isinstance(X, list | tuple) or len(X) != 4:
            raise ArgumentError("linalg.cossin: give p and q, or the four blocks of X in a tuple")
        blocks = alike("linalg.cossin", *X)
        p, q = blocks[0].shape[-2:]
        rows = [concat(blocks[i : i + 2], axis=-1) for i in (0, 2)]
        x = square("linalg.cossin", concat(rows, axis=-2), "X")
    u, theta, vh = prims.cossin(x, p=p, q=q, swap_sign=bool(swap_sign))
    if separate:
        left = (u[..., :p, :p], u[..., p:, p:]) if compute_u else None
        right = (vh[..., :q, :q], vh[..., q:, q:]) if compute_vh else None
        return left, theta, right
    places = _places(x.shape[-1], p, q, bool(swap_sign))
    whole, by_cos, by_sin = [constants_like(part, theta) for part in places]
    middle = whole + tensordot(cos(theta), by_cos, axes=1) + tensordot(sin(theta), by_sin, axes=1)
    return u if compute_u else None, middle.astype(x.dtype), vh if compute_vh else None


def matrix_balance(
    A: Any, permute: bool = True, scale: bool = True, separate: bool = False
) -> tuple[Tensor, Any]:
    """A similar matrix whose rows and columns have norms alike: B = T^-1 A T.

    T is a permutation times powers of two, constant around A, so that B is linear in A.

    Args:
        A: (*B, n, n).
        permute: whether rows and columns may be exchanged.
        scale: whether they may be scaled.
        separate: whether to return the factors (*B, n) and the order (*B, n) in place of T.

    Returns:
        B (*B, n, n) and T (*B, n, n); if ``separate``, B and (factors, order).

    Raises:
        ShapeError: if the matrices are not square.

    Source: R. James, J. Langou, B. R. Lowery, On matrix balancing and eigenvector computation,
    2014; ``scipy.linalg.matrix_balance``, LAPACK's gebal.

    Example:
        >>> import fx
        >>> fx.linalg.matrix_balance(fx.tensor([[1.0, 64.0], [1.0, 1.0]]))[0]
        tensor([[1., 8.],
                [8., 1.]])
    """
    a = square("linalg.matrix_balance", A)
    factors, order = prims.balance(stop_gradient(a), permute=bool(permute), scale=bool(scale))
    n = a.shape[-1]
    columns = order[..., None, :].expand((*order.shape[:-1], n, n))
    found = take_along_axis(take_along_axis(a, columns.mT, axis=-2), columns, axis=-1)
    found = found * (factors[..., None, :] / factors[..., :, None])
    if separate:
        return found, (factors, order)
    place = constants_like(np.arange(n)[:, None], order)
    return found, (columns == place).astype(a.dtype) * factors[..., None, :]


__all__ = ["cossin", "matrix_balance", "ordqz", "qz"]
