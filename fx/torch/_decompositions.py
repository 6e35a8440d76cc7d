"""Decompositions of ``torch.linalg``: those of ``fx.linalg`` by PyTorch's names of arguments."""

from __future__ import annotations

from typing import Any

from fx import linalg
from fx.tensor import Tensor


def eig(A: Any) -> linalg.Eig:
    """Eigenvalues and eigenvectors; ``fx.linalg.eig``."""
    return linalg.eig(A)


def eigvals(A: Any) -> Tensor:
    """Eigenvalues; ``fx.linalg.eigvals``."""
    return linalg.eigvals(A)


def eigh(A: Any, UPLO: str = "L") -> linalg.Eigh:
    """Eigenvalues and eigenvectors of Hermitian matrices; ``fx.linalg.eigh``."""
    return linalg.eigh(A, UPLO=UPLO)


def eigvalsh(A: Any, UPLO: str = "L") -> Tensor:
    """Eigenvalues of Hermitian matrices; ``fx.linalg.eigvalsh``."""
    return linalg.eigvalsh(A, UPLO=UPLO)


def qr(A: Any, mode: str = "reduced") -> linalg.QR:
    """The QR decomposition; ``fx.linalg.qr``."""
    return linalg.qr(A, mode=mode)


def svd(A: Any, full_matrices: bool = True, *, driver: str | None = None) -> linalg.SVD:
    """The singular value decomposition; ``fx.linalg.svd``.

    Raises:
        ValueError: if ``driver`` is given, which only other devices have.
    """
    _no_driver("linalg.svd", driver)
    return linalg.svd(A, full_matrices=full_matrices)


def svdvals(A: Any, *, driver: str | None = None) -> Tensor:
    """Singular values; ``fx.linalg.svdvals``.

    Raises:
        ValueError: if ``driver`` is given, which only other devices have.
    """
    _no_driver("linalg.svdvals", driver)
    return linalg.svdvals(A)


def householder_product(A: Any, tau: Any) -> Tensor:
    """A product of reflectors; ``fx.linalg.householder_product``."""
    return linalg.householder_product(A, tau)


def lstsq(A: Any, B: Any, rcond: Any = None, *, driver: str | None = None) -> linalg.Lstsq:
    """Least squares; ``fx.linalg.lstsq``."""
    return linalg.lstsq(A, B, rcond, driver=driver)


def matrix_exp(A: Any) -> Tensor:
    """The exponential of square matrices; ``fx.linalg.matrix_exp``."""
    return linalg.matrix_exp(A)


def matrix_rank(
    A: Any, tol: Any = None, hermitian: bool = False, *, atol: Any = None, rtol: Any = None
) -> Tensor:
    """How many singular values count; ``tol`` is ``atol`` with an ``rtol`` of 0."""
    if tol is not None:
        atol, rtol = tol, 0.0
    return linalg.matrix_rank(A, rtol=rtol, atol=atol, hermitian=hermitian)


def pinv(
    A: Any, rcond: Any = None, hermitian: bool = False, *, atol: Any = None, rtol: Any = None
) -> Tensor:
    """The Moore-Penrose inverse; ``rcond`` is ``rtol``."""
    rtol = rcond if rtol is None else rtol
    return linalg.pinv(A, rtol=rtol, atol=atol, hermitian=hermitian)


def _no_driver(name: str, driver: str | None) -> None:
    if driver is not None:
        raise ValueError(
            f"torch.{name}: keyword argument `driver=` is only supported on CUDA inputs"
        )
