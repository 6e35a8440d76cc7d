"""Functions of square matrices: roots, logarithms, trigonometric ones."""

from __future__ import annotations

from typing import Any

from fx.dtypes import COMPLEX
from fx.linalg.functions import matrix_exp
from fx.linalg.operands import square
from fx.linalg.solving import inv, solve
from fx.ops.operands import argument
from fx.prims.linalg.by_scipy import matrix_function
from fx.prims.linalg.functions import along
from fx.prims.linalg.functions import matrix_exp as exponential
from fx.tensor import Tensor


def sqrtm(A: Any) -> Tensor:
    """The principal square root of matrices (*B, n, n), of the dtype of A.

    That of a real matrix is NaN where the root is not real: give a complex one for that.

    Source: E. Deadman, N. J. Higham, R. Ralha, Blocked Schur algorithms for computing the matrix
    square root, 2013; ``scipy.linalg.sqrtm``.

    Example:
        >>> import fx
        >>> fx.linalg.sqrtm(fx.tensor([[1.0, 2.0], [0.0, 9.0]]))
        tensor([[1.0000, 0.5000],
                [0.0000, 3.0000]])
    """
    return matrix_function(square("linalg.sqrtm", A), function="sqrtm")  # type: ignore[no-any-return]


def logm(A: Any) -> Tensor:
    """The principal logarithm of matrices (*B, n, n), of the dtype of A.

    That of a real matrix is NaN where the logarithm is not real: give a complex one for that.

    Source: A. H. Al-Mohy, N. J. Higham, Improved inverse scaling and squaring algorithms for the
    matrix logarithm, 2012; ``scipy.linalg.logm``.

    Example:
        >>> import fx
        >>> fx.linalg.logm(fx.eye(2) * 1.0)
        tensor([[0., 0.],
                [0., 0.]])
    """
    return matrix_function(square("linalg.logm", A), function="logm")  # type: ignore[no-any-return]


def fractional_matrix_power(A: Any, t: float) -> Tensor:
    """exp(t log(A)) of matrices (*B, n, n); NaN where ``logm`` is."""
    return matrix_exp(logm(A) * t)


def signm(A: Any) -> Tensor:
    """The sign of matrices (*B, n, n) without imaginary eigenvalues: A (A^2)^(-1/2)."""
    A = square("linalg.signm", A)
    return A @ inv(sqrtm(A @ A))  # type: ignore[no-any-return]


def _turned(name: str, A: Any) -> tuple[Tensor, Tensor, bool]:
    """exp(i A), exp(-i A), and whether A is complex."""
    A = square(name, A)
    return matrix_exp(A * 1j), matrix_exp(A * -1j), A.dtype in COMPLEX


def cosm(A: Any) -> Tensor:
    """The cosine of matrices (*B, n, n)."""
    up, down, wide = _turned("linalg.cosm", A)
    return (up + down) * 0.5 if wide else up.real  # type: ignore[no-any-return]


def sinm(A: Any) -> Tensor:
    """The sine of matrices (*B, n, n)."""
    up, down, wide = _turned("linalg.sinm", A)
    return (up - down) * -0.5j if wide else up.imag  # type: ignore[no-any-return]


def tanm(A: Any) -> Tensor:
    """The tangent of matrices (*B, n, n)."""
    return solve(cosm(A), sinm(A))


def _grown(name: str, A: Any) -> tuple[Tensor, Tensor]:
    A = square(name, A)
    return matrix_exp(A), matrix_exp(-A)


def coshm(A: Any) -> Tensor:
    """The hyperbolic cosine of matrices (*B, n, n)."""
    up, down = _grown("linalg.coshm", A)
    return (up + down) * 0.5  # type: ignore[no-any-return]


def sinhm(A: Any) -> Tensor:
    """The hyperbolic sine of matrices (*B, n, n)."""
    up, down = _grown("linalg.sinhm", A)
    return (up - down) * 0.5  # type: ignore[no-any-return]


def tanhm(A: Any) -> Tensor:
    """The hyperbolic tangent of matrices (*B, n, n)."""
    return solve(coshm(A), sinhm(A))


def expm_frechet(A: Any, E: Any, compute_expm: bool = True) -> Any:
    """The derivative of the exponential at A (*B, n, n) along E, behind the exponential itself."""
    A = square("linalg.expm_frechet", A)
    found = along(exponential, A, argument("linalg.expm_frechet", E))
    return found if compute_expm else found[1]


__all__ = [
    "sqrtm", "logm", "fractional_matrix_power", "signm", "cosm", "sinm", "tanm", "coshm", "sinhm",
    "tanhm", "expm_frechet",
]  # fmt: skip
