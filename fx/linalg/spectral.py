"""Eigenvalues and singular values, with their vectors or without."""

from __future__ import annotations

from typing import Any, NamedTuple

import fx.prims.linalg.spectral as spectral
import fx.prims.linalg.svd as singular
from fx.linalg.operands import matrices, square
from fx.prims.linalg.hermitian import hermitian
from fx.prims.linalg.stacks import adjoint
from fx.prims.linalg.verified import verified
from fx.tensor import Tensor

_FAILED = "The algorithm failed to converge because the input matrix"
_REPEATED = f"{_FAILED} is ill-conditioned or has too many repeated eigenvalues"
NOT_FINITE = f"{_FAILED} contained non-finite values."


class Eigh(NamedTuple):
    """What ``eigh`` gives."""

    eigenvalues: Tensor
    eigenvectors: Tensor


class Eig(NamedTuple):
    """What ``eig`` gives."""

    eigenvalues: Tensor
    eigenvectors: Tensor


class SVD(NamedTuple):
    """What ``svd`` gives."""

    U: Tensor
    S: Tensor
    Vh: Tensor


def checked(name: str, reason: str, info: Tensor, *outs: Tensor) -> tuple[Tensor, ...]:
    """Results, if every ``info`` is 0; else an error with the reason."""
    words = (f"{name}: {reason}", f"{name}: (Batch element %lld): {reason}")
    return tuple([verified(x, info, words=words) for x in outs])


def _triangle(name: str, x: Any, uplo: str) -> Tensor:
    x = hermitian(square(name, x))
    if uplo not in ("L", "U", "l", "u"):
        raise ValueError(f"{name}: Expected UPLO argument to be 'L' or 'U', but got {uplo}")
    return x if uplo in "Ll" else adjoint(x)


def eigh(x: Any, /, *, UPLO: str = "L") -> Eigh:
    """The eigenvalues w and eigenvectors v of Hermitian matrices, x = v diag(w) v^H.

    An eigenvector is determined up to a factor of absolute value 1, and where eigenvalues repeat up
    to a rotation: differentiate what does not depend on that. Derivatives of vectors divide by
    differences of eigenvalues, and are infinite or NaN where some repeat; those of eigenvalues are
    finite always. They are along Hermitian matrices. NaN gives NaN.

    Args:
        x: (*B, n, n), Hermitian; one triangle is read.
        UPLO: which one, ``"L"`` or ``"U"``.

    Returns:
        ``eigenvalues`` (*B, n), real and in ascending order; ``eigenvectors`` (*B, n, n), the
            columns.

    Raises:
        ShapeError: if ``x`` is no stack of square matrices.
        DTypeError: unless it is of float32, float64 or complex numbers.
        ValueError: for another triangle.
        LinAlgError: if the iteration does not converge.

    Source: Python Array API standard 2024.12, ``linalg.eigh``; ``torch.linalg.eigh``.

    Example:
        >>> import fx
        >>> fx.linalg.eigh(fx.tensor([[2.0, 1.0], [1.0, 2.0]])).eigenvalues
        tensor([1., 3.])
    """
    w, v, info = spectral.eigh(_triangle("linalg.eigh", x, UPLO))
    return Eigh(*checked("linalg.eigh", _REPEATED, info, w, v))


def eigvalsh(x: Any, /, *, UPLO: str = "L") -> Tensor:
    """The eigenvalues of Hermitian matrices, in ascending order; ``eigh`` says more.

    Args:
        x: (*B, n, n), Hermitian; one triangle is read.
        UPLO: which one, ``"L"`` or ``"U"``.

    Returns:
        (*B, n), real.

    Raises:
        As ``eigh``.

    Source: Python Array API standard 2024.12, ``linalg.eigvalsh``; ``torch.linalg.eigvalsh``.

    Example:
        >>> import fx
        >>> identity = fx.eye(3, dtype=fx.float64)
        >>> fx.grad(lambda x: fx.linalg.eigvalsh(x).sum())(identity)
        tensor([[1., 0., 0.],
                [0., 1., 0.],
                [0., 0., 1.]], dtype=fx.float64)
    """
    w, info = spectral.eigvalsh(_triangle("linalg.eigvalsh", x, UPLO))
    return checked("linalg.eigvalsh", _REPEATED, info, w)[0]


_NO_EIGENVALUES = f"{_FAILED} is ill-conditioned, or contains infs or NaNs."


def eig(x: Any, /) -> Eig:
    """The eigenvalues w and eigenvectors v of square matrices, x v = v diag(w).

    Both are complex. Eigenvectors have norm 1, are determined up to a factor of absolute value 1,
    and there may be fewer than n: differentiate where eigenvalues do not repeat, and what does not
    depend on those factors.

    Args:
        x: (*B, n, n).

    Returns:
        ``eigenvalues`` (*B, n), in no order; ``eigenvectors`` (*B, n, n), the columns.

    Raises:
        ShapeError: if ``x`` is no stack of square matrices.
        DTypeError: unless it is of float32, float64 or complex numbers.
        LinAlgError: if it holds NaN or infinities, or the iteration does not converge.

    Source: ``torch.linalg.eig``; M. B. Giles, An extended collection of matrix derivative results
    for forward and reverse mode algorithmic differentiation, 2008, section 3.1.

    Example:
        >>> import fx
        >>> fx.linalg.eig(fx.tensor([[0.0, 1.0], [-1.0, 0.0]])).eigenvalues
        tensor([0.+1.j, 0.-1.j])
    """
    w, v, info = spectral.eig(square("linalg.eig", x))
    return Eig(*checked("linalg.eig", _NO_EIGENVALUES, info, w, v))


def eigvals(x: Any, /) -> Tensor:
    """The complex eigenvalues of square matrices, in no order; ``eig`` says more.

    Args:
        x: (*B, n, n).

    Returns:
        (*B, n), complex.

    Raises:
        As ``eig``.

    Source: ``torch.linalg.eigvals``.

    Example:
        >>> import fx
        >>> fx.linalg.eigvals(fx.tensor([[2.0, 1.0], [0.0, 3.0]]))
        tensor([2.+0.j, 3.+0.j])
    """
    w, info = spectral.eigvals(square("linalg.eigvals", x))
    return checked("linalg.eigvals", _NO_EIGENVALUES, info, w)[0]


def svd(x: Any, /, *, full_matrices: bool = True) -> SVD:
    """The singular value decomposition x = U diag(S) Vh.

    A pair of columns of U and rows of Vh is determined up to a common factor of absolute value 1,
    and where singular values repeat, or beyond the first k, up to a rotation: differentiate what
    does not depend on that. Derivatives of vectors divide by differences of singular values, and,
    unless x is square and real, by the values; they are infinite or NaN where some repeat or are 0.
    Those of singular values are finite always.

    Args:
        x: (*B, m, n); k = min(m, n).
        full_matrices: whether U has m columns and Vh n rows, or both k.

    Returns:
        ``U`` (*B, m, m or k); ``S`` (*B, k), real and in descending order; ``Vh`` (*B, n or k, n).

    Raises:
        ShapeError: if ``x`` has fewer than two axes.
        DTypeError: unless it is of float32, float64 or complex numbers.
        LinAlgError: if it holds NaN or infinities, or the iteration does not converge.

    Source: Python Array API standard 2024.12, ``linalg.svd``; ``torch.linalg.svd``.

    Example:
        >>> import fx
        >>> fx.linalg.svd(fx.tensor([[3.0, 0.0], [0.0, 4.0]])).S
        tensor([4., 3.])
    """
    u, s, vh, info = singular.svd(matrices("linalg.svd", x), full=bool(full_matrices))
    return SVD(*checked("linalg.svd", NOT_FINITE, info, u, s, vh))


def svdvals(x: Any, /) -> Tensor:
    """The singular values, in descending order; ``svd`` says more.

    Args:
        x: (*B, m, n).

    Returns:
        (*B, min(m, n)), real.

    Raises:
        As ``svd``.

    Source: Python Array API standard 2024.12, ``linalg.svdvals``; ``torch.linalg.svdvals``.

    Example:
        >>> import fx
        >>> fx.linalg.svdvals(fx.tensor([[3.0, 0.0], [0.0, 4.0]]))
        tensor([4., 3.])
    """
    s, info = singular.svdvals(matrices("linalg.svdvals", x))
    return checked("linalg.svdvals", NOT_FINITE, info, s)[0]
