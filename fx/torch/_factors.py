"""Decompositions that PyTorch has beside ``torch.linalg``."""

from __future__ import annotations

from typing import Any, NamedTuple

import fx
from fx import linalg
from fx.errors import ArgumentError, ShapeError
from fx.linalg.functions import reflectors
from fx.prims.linalg.stacks import adjoint
from fx.tensor import Tensor


class Qr(NamedTuple):
    """What ``torch.qr`` gives."""

    Q: Tensor
    R: Tensor


class Svd(NamedTuple):
    """What ``torch.svd`` gives: V, not its adjoint."""

    U: Tensor
    S: Tensor
    V: Tensor


def qr(input: Any, some: bool = True) -> Qr:
    """``torch.qr``: the reduced decomposition, or the complete one."""
    return Qr(*linalg.qr(input, mode="reduced" if some else "complete"))


def svd(input: Any, some: bool = True, compute_uv: bool = True) -> Svd:
    """``torch.svd``: V in place of its adjoint; zeros for vectors that are not computed."""
    if not compute_uv:
        s = linalg.svdvals(input)
        lead, (m, n) = input.shape[:-2], input.shape[-2:]
        return Svd(input.new_zeros((*lead, m, m)), s, input.new_zeros((*lead, n, n)))
    u, s, vh = linalg.svd(input, full_matrices=not some)
    return Svd(u, s, vh.mH)


def pinverse(input: Any, rcond: float = 1e-15) -> Tensor:
    """The Moore-Penrose inverse; ``torch.linalg.pinv`` with an ``rtol`` of ``rcond``."""
    return linalg.pinv(input, rtol=rcond)


def orgqr(input: Any, input2: Any) -> Tensor:
    """A product of reflectors; ``torch.linalg.householder_product``."""
    return linalg.householder_product(input, input2)


def ormqr(input: Any, tau: Any, other: Any, left: bool = True, transpose: bool = False) -> Tensor:
    """The product of a matrix with all columns of a product of reflectors, or with its adjoint.

    Args:
        input, tau: (*B, m, n) and (*B, k), as of ``torch.linalg.householder_product``.
        other: (*B, m, r), or (*B, r, m) where it is not ``left``.
        left: whether the reflectors stand on the left.
        transpose: whether their adjoint is taken.

    Raises:
        ShapeError: if these do not fit.
    """
    v, t = reflectors("ormqr", input, tau)
    side = -2 if left else -1
    if other.ndim < 2 or other.shape[side] != v.shape[-2]:
        raise ShapeError(
            f"ormqr: other.shape[{side}] must be equal to input.shape[-2], got {other.shape} and "
            f"{tuple(input.shape)}"
        )
    t = adjoint(t) if transpose else t
    if left:
        return other - v @ (t @ (v.mH @ other))  # type: ignore[no-any-return]
    return other - ((other @ v) @ t) @ v.mH  # type: ignore[no-any-return]


def geqrf(input: Any) -> linalg.Reflectors:
    """``torch.geqrf``: R, and below it the reflectors; ``tau`` has their factors."""
    return linalg.geqrf(input)


def lobpcg(
    A: Any,
    k: int | None = None,
    B: Any = None,
    X: Any = None,
    n: int | None = None,
    iK: Any = None,
    niter: int | None = None,
    tol: float | None = None,
    largest: bool | None = None,
    method: str | None = None,
) -> tuple[Tensor, Tensor]:
    """``torch.lobpcg``: the k largest or smallest eigenvalues of A v = w B v, with their vectors.

    All come at once by ``eigh``: ``X`` and ``n`` tell k where it is not given, and of ``iK``,
    ``niter``, ``tol`` and ``method``, which are about an iteration, nothing depends.

    Raises:
        ValueError: where A has fewer than 3 k rows, or the method is unknown, as in PyTorch.
    """
    del iK, niter, tol
    k = (1 if X is None else X.shape[-1]) if k is None else k
    if method not in (None, "basic", "ortho"):
        raise ValueError(f"lobpcg: method is 'basic' or 'ortho', got {method!r}")
    if A.shape[-1] < 3 * (k if n is None else n):
        raise ValueError(
            f"LPBPCG algorithm is not applicable when the number of A rows (={A.shape[-1]}) is "
            f"smaller than 3 x the number of requested eigenpairs (={k if n is None else n})"
        )
    return linalg.lobpcg(A, k, B, largest is None or largest)


# of low rank: N. Halko, P. G. Martinsson, J. A. Tropp, Finding structure with randomness, 2009 ----


def _basis(A: Tensor, q: int, niter: int) -> Tensor:
    """Orthonormal columns (*B, m, q) that nearly span what A (*B, m, n) gives."""
    start = fx.randn((A.shape[-1], q), dtype=A.dtype, device=A.device)
    basis = linalg.qr(A @ start).Q
    for _ in range(niter):
        basis = linalg.qr(A.mH @ basis).Q
        basis = linalg.qr(A @ basis).Q
    return basis


def svd_lowrank(A: Any, q: int | None = 6, niter: int | None = 2, M: Any = None) -> Svd:
    """The largest ``q`` singular values of A, or of A - M, nearly, with their vectors.

    Args:
        A: (*B, m, n).
        q: how many; a little more than the rank.
        niter: how many times the basis is made better.
        M: what is taken away from A, which broadcasts to it.

    Returns:
        U (*B, m, q), S (*B, q), V (*B, n, q).

    Raises:
        ValueError: if ``q`` does not lie in 0 .. min(m, n).
    """
    x = A if M is None else A - M
    m, n = x.shape[-2:]
    q = 6 if q is None else q
    if not 0 <= q <= min(m, n):
        raise ValueError(f"svd_lowrank: q(={q}) must be non-negative and not above min{(m, n)}")
    if m < n:
        u, s, v = svd_lowrank(x.mH, q, niter)
        return Svd(v, s, u)
    basis = _basis(x, q, 2 if niter is None else niter)
    u, s, vh = linalg.svd(basis.mH @ x, full_matrices=False)
    return Svd(basis @ u, s, vh.mH)


def pca_lowrank(A: Any, q: int | None = None, center: bool = True, niter: int = 2) -> Svd:
    """The principal components of the rows of A, nearly.

    Args:
        A: (*B, m, n).
        q: how many, min(6, m, n) unless given.
        center: whether the mean of the rows is taken away.
        niter: as of ``svd_lowrank``.

    Raises:
        ValueError: if ``q`` does not lie in 0 .. min(m, n), or ``niter`` is negative.
    """
    m, n = A.shape[-2:]
    q = min(6, m, n) if q is None else q
    if not 0 <= q <= min(m, n):
        raise ValueError(f"q(={q}) must be non-negative integer and not greater than min{(m, n)}")
    if niter < 0:
        raise ValueError(f"niter(={niter}) must be non-negative integer")
    return svd_lowrank(A - A.mean(-2, keepdim=True) if center else A, q, niter)


def lu(A: Any, pivot: bool = True, get_infos: bool = False) -> tuple[Tensor, ...]:
    """``torch.lu``: both triangles in one array, the exchanges, and ``info`` where it is asked for.

    Raises:
        ArgumentError: without ``pivot``.
    """
    if not pivot:
        raise ArgumentError("torch.lu: LU without pivoting is not implemented on the CPU")
    found = tuple(linalg.lu_factor_ex(A))
    return found if get_infos else found[:2]


class Unpacked(NamedTuple):
    """What ``torch.lu_unpack`` gives."""

    P: Tensor
    L: Tensor
    U: Tensor


def lu_unpack(
    LU_data: Any, LU_pivots: Any, unpack_data: bool = True, unpack_pivots: bool = True
) -> Unpacked:
    """The factors P, L, U of ``torch.lu``; () of those that are not unpacked."""
    factors = linalg.lu_unpack(LU_data, LU_pivots)
    none = LU_data.new_zeros((0,))
    p = factors[0] if unpack_pivots else none
    return Unpacked(p, *(factors[1:] if unpack_data else (none, none)))


def frobenius_norm(input: Any, dim: Any, keepdim: bool = False) -> Tensor:
    """The root of the sum of squares along axes; of all where ``dim`` is empty."""
    return linalg.vector_norm(input, axis=dim if dim != [] else None, keepdims=keepdim)


def nuclear_norm(input: Any, dim: Any = (-2, -1), keepdim: bool = False) -> Tensor:
    """The sum of singular values: ``torch.linalg.matrix_norm(input, "nuc")``."""
    return linalg.matrix_norm(input, ord="nuc", axis=tuple(dim), keepdims=keepdim)


def norm_except_dim(v: Any, pow: int = 2, dim: int = 0) -> Tensor:
    """The norm over all axes but one, which stay as 1; over all, without axes, if it is -1."""
    if dim == -1:
        return linalg.vector_norm(v, ord=pow)
    axes = tuple(i for i in range(v.ndim) if i != dim)
    return linalg.vector_norm(v, ord=pow, axis=axes, keepdims=True)
