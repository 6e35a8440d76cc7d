"""Rarer decompositions: LDL, reflectors, Hessenberg's, Schur's, RQ, some eigenpairs."""

from __future__ import annotations

from typing import Any, NamedTuple

from fx.dtypes import int32
from fx.errors import ArgumentError, DTypeError
from fx.linalg.cholesky import cholesky
from fx.linalg.functions import pinv
from fx.linalg.operands import matrices, square
from fx.linalg.orthogonal import qr
from fx.linalg.solving import right_sides, solve_triangular, together
from fx.linalg.spectral import eigh, svd, svdvals
from fx.ops.indexing.searching import where
from fx.ops.pointwise.elementwise import acos, asin
from fx.ops.shapes.manipulation import flip
from fx.prims.linalg import symmetric
from fx.prims.linalg.by_scipy import decomposition
from fx.prims.linalg.lu import back_in_place
from fx.prims.linalg.pieces import complex_dtype
from fx.prims.linalg.verified import verified
from fx.prims.shape import stretched
from fx.tensor import Tensor


class LDLFactor(NamedTuple):
    """What ``ldl_factor`` gives."""

    LD: Tensor
    pivots: Tensor


class LDLFactorEx(NamedTuple):
    """What ``ldl_factor_ex`` gives."""

    LD: Tensor
    pivots: Tensor
    info: Tensor


def ldl_factor_ex(x: Any, /, *, hermitian: bool = False, check_errors: bool = False) -> LDLFactorEx:
    """``ldl_factor`` with ``info``, which is not 0 where D is singular.

    Args:
        x: (*B, n, n), symmetric; the lower triangle is read.
        hermitian: whether complex matrices are Hermitian.
        check_errors: raise an error where D is singular.
    """
    return _factored("linalg.ldl_factor_ex", x, hermitian, check_errors)


def _factored(name: str, x: Any, hermitian: bool, check: bool) -> LDLFactorEx:
    packed, pivots, info = symmetric.ldl(square(name, x), hermitian=bool(hermitian))
    if check:
        rest = (
            "is zero. The factorization has been completed, but the block diagonal matrix D is "
            "exactly singular, and division by zero will occur if it is used to solve a system"
        )
        words = (
            f"{name}: The diagonal element %lld of D {rest}",
            f"{name}: (Batch element %lld): a diagonal element of D {rest}",
        )
        packed = verified(packed, info, words=words)
    return LDLFactorEx(packed, pivots, info)


def ldl_factor(x: Any, /, *, hermitian: bool = False) -> LDLFactor:
    """Triangles and a block diagonal of symmetric matrices, which need not be definite.

    Args:
        x: (*B, n, n), symmetric; the lower triangle is read.
        hermitian: whether complex matrices are Hermitian.

    Returns:
        ``LD`` (*B, n, n) and ``pivots`` (*B, n), int32, as LAPACK's sytrf and hetrf pack them, for
        ``ldl_solve``; differentiable where the pivots do not change.

    Raises:
        LinAlgError: if D is singular.

    Source: ``torch.linalg.ldl_factor``; J. R. Bunch, L. Kaufman, Some stable methods for
    calculating inertia and solving symmetric linear systems, 1977.

    Example:
        >>> import fx
        >>> fx.linalg.ldl_factor(fx.tensor([[2.0, 1.0], [1.0, 3.0]])).LD
        tensor([[2.0000, 0.0000],
                [0.5000, 2.5000]])
    """
    return LDLFactor(*_factored("linalg.ldl_factor", x, hermitian, True)[:2])


def ldl_solve(LD: Any, pivots: Any, B: Any, /, *, hermitian: bool = False) -> Tensor:
    """The solution x of A x = B by what ``ldl_factor`` gives of A.

    Args:
        LD: (*B, n, n).
        pivots: (*B, n), int32.
        B: (*B, n, k); leading axes broadcast.
        hermitian: as for the factorisation.

    Raises:
        ShapeError, DTypeError: if these do not fit.
    """
    name = "linalg.ldl_solve"
    a, b = square(name, LD), matrices(name, B, "B")
    if pivots.dtype != int32:
        raise DTypeError(f"{name}: pivots should be a Tensor of scalar type int32, got {pivots!r}")
    right_sides(name, a, b, True)
    a, b = together(name, a, b)
    pivots = stretched(pivots, a._shape[:-1])
    return symmetric.solved(a, pivots, b, bool(hermitian))  # type: ignore[no-any-return]


def ldl(A: Any, lower: bool = True, hermitian: bool = True) -> tuple[Tensor, Tensor, Tensor]:
    """L, D and an order of rows with A = L D L^H and L[order] triangular, as SciPy gives them.

    Args:
        A: (*B, n, n), of which the lower triangle is read.
        lower: only True: the upper factor is not computed.
        hermitian: whether complex matrices are Hermitian, or symmetric.

    Raises:
        ArgumentError: without ``lower``.
    """
    if not lower:
        raise ArgumentError("linalg.ldl: the lower factor is computed; write ldl(A.mH)")
    packed, pivots, _ = symmetric.ldl(square("linalg.ldl", A), hermitian=bool(hermitian))
    order, places, blocks = symmetric.ldl_order(pivots)
    low, middle = symmetric.unpacked(packed, places, blocks, bool(hermitian))
    return back_in_place(low, order), middle, order


class Reflectors(NamedTuple):
    """What ``geqrf`` gives."""

    a: Tensor
    tau: Tensor


def geqrf(x: Any, /) -> Reflectors:
    """QR as LAPACK packs it: R, and below it the reflectors; ``tau`` has their factors.

    Args:
        x: (*B, m, n).

    Returns:
        ``a`` (*B, m, n) and ``tau`` (*B, min(m, n)), for ``householder_product``.

    Raises:
        BackwardError: when it is differentiated, as in PyTorch; ``qr`` has derivatives.

    Example:
        >>> import fx
        >>> fx.linalg.geqrf(fx.tensor([[3.0], [4.0]])).a
        tensor([[-5.0000],
                [ 0.5000]])
    """
    return Reflectors(*decomposition(matrices("linalg.geqrf", x), kind="geqrf"))


def hessenberg(a: Any, calc_q: bool = False) -> Any:
    """h, with zeros below its first subdiagonal, and with ``calc_q`` the unitary q: a = q h q^H.

    Raises:
        BackwardError: when it is differentiated.
    """
    found = decomposition(square("linalg.hessenberg", a), kind="hessenberg")
    return found if calc_q else found[0]


def schur(a: Any, output: str = "real") -> tuple[Tensor, Tensor]:
    """t, triangular but for blocks of two of real matrices, and the unitary z: a = z t z^H.

    Args:
        a: (*B, n, n).
        output: "complex" makes t of real matrices triangular too.

    Raises:
        ArgumentError: for another output.
        BackwardError: when it is differentiated.
    """
    if output not in ("real", "complex"):
        raise ArgumentError(f"schur: output is 'real' or 'complex', got {output!r}")
    a = square("linalg.schur", a)
    wide = complex_dtype(a.dtype)
    return decomposition(a.astype(wide) if output == "complex" else a, kind="schur")  # type: ignore[no-any-return]


def rq(a: Any) -> tuple[Tensor, Tensor]:
    """a = r q of (*B, m, n): r upper triangular on its right, and q with orthonormal rows."""
    a = matrices("linalg.rq", a)
    q, r = qr(flip(a, axis=-2).mH)
    return flip(r.mH, axis=(-2, -1)), flip(q.mH, axis=-2)


def qr_multiply(a: Any, c: Any, mode: str = "right") -> tuple[Tensor, Tensor]:
    """c q, or q c if ``mode`` is "left", and r, of the reduced a = q r.

    Raises:
        ArgumentError: for another mode.
    """
    if mode not in ("left", "right"):
        raise ArgumentError(f"qr_multiply: mode is 'left' or 'right', got {mode!r}")
    q, r = qr(a)
    return (q @ c if mode == "left" else c @ q), r


def cho_factor(a: Any, lower: bool = False) -> tuple[Tensor, bool]:
    """Cholesky's factor of (*B, n, n), as ``cho_solve`` takes it.

    Raises:
        LinAlgError: if a matrix is not positive definite.
    """
    a = square("linalg.cho_factor", a)
    return (cholesky(a) if lower else cholesky(a.mH).mH), lower


def pinvh(a: Any, atol: Any = None, rtol: Any = None) -> Tensor:
    """``pinv`` of Hermitian matrices, of which the lower triangle is read."""
    return pinv(a, atol=atol, rtol=rtol, hermitian=True)


def orthogonal_procrustes(A: Any, B: Any) -> tuple[Tensor, Tensor]:
    """The unitary matrix that brings A (m, n) nearest to B (m, n), and the scale between them."""
    A, B = matrices("linalg.orthogonal_procrustes", A), matrices("orthogonal_procrustes", B, "B")
    u, s, vh = svd((B.mT @ A.conj()).mT, full_matrices=False)
    return u @ vh, s.sum(-1)


def subspace_angles(A: Any, B: Any) -> Tensor:
    """The angles between the spaces that the columns of A (m, k) and B (m, n) span, falling.

    The columns are taken to be linearly independent.

    Source: A. V. Knyazev, M. E. Argentati, Principal angles between subspaces in an A-based scalar
    product, 2002.
    """
    a, b = qr(matrices("linalg.subspace_angles", A)).Q, qr(matrices("subspace_angles", B, "B")).Q
    if a.shape[-1] < b.shape[-1]:
        a, b = b, a
    inner = a.mH @ b
    cosines = svdvals(inner)  # falling; sines are exact where angles are small
    sines = flip(svdvals(b - a @ inner), axis=-1)
    small = cosines * cosines >= 0.5
    by_sine = asin(where(small, sines, 0.5).clip(-1.0, 1.0))
    return flip(where(small, by_sine, acos(where(small, 0.5, cosines))), axis=-1)


def lobpcg(A: Any, k: int = 1, B: Any = None, largest: bool = True) -> tuple[Tensor, Tensor]:
    """The k largest, or smallest, eigenvalues of A v = w B v, with their vectors.

    Tensors are dense: all eigenpairs come at once, and these are taken; there is nothing to start
    from and no tolerance.

    Args:
        A: (*B, n, n), Hermitian.
        k: how many.
        B: (*B, n, n), Hermitian and positive definite; the identity unless given.
        largest: which end.

    Returns:
        (*B, k) and (*B, n, k), of which v^H B v is the identity.

    Raises:
        ArgumentError: if there are no k.
    """
    A = square("linalg.lobpcg", A)
    if not 1 <= k <= A.shape[-1]:
        raise ArgumentError(f"linalg.lobpcg: k is one of 1 .. {A.shape[-1]}, got {k}")
    if B is None:
        w, v = eigh(A)
    else:
        factor = cholesky(B)
        inner = solve_triangular(factor, A, upper=False)
        inner = solve_triangular(factor.mH, inner, upper=True, left=False)
        w, v = eigh((inner + inner.mH) * 0.5)
        v = solve_triangular(factor.mH, v, upper=True)
    if largest:
        return flip(w[..., -k:], axis=-1), flip(v[..., -k:], axis=-1)
    return w[..., :k], v[..., :k]


__all__ = [
    "LDLFactor", "LDLFactorEx", "Reflectors", "ldl_factor", "ldl_factor_ex", "ldl_solve", "ldl",
    "geqrf", "hessenberg", "schur", "rq", "qr_multiply", "cho_factor", "pinvh",
    "orthogonal_procrustes", "subspace_angles", "lobpcg",
]  # fmt: skip
