"""``fx.linalg``: linear algebra on stacks of matrices.

The names of the Array API's extension ``linalg``, and those of ``torch.linalg`` beyond it. Matrices
are the last two axes of float32, float64, complex64 or complex128; leading axes broadcast.
"""

from fx.linalg.cholesky import CholeskyEx, cholesky, cholesky_ex
from fx.linalg.orthogonal import QR, qr
from fx.linalg.spectral import (
    SVD,
    Eig,
    Eigh,
    eig,
    eigh,
    eigvals,
    eigvalsh,
    svd,
    svdvals,
)  # fmt: skip

__all__ = [
    "CholeskyEx", "Eig", "Eigh", "QR", "SVD", "cholesky", "cholesky_ex", "eig", "eigh", "eigvals",
    "eigvalsh", "qr", "svd", "svdvals",
]  # fmt: skip


def __getattr__(name: str) -> object:
    if name.startswith("__"):
        raise AttributeError(name)
    raise AttributeError(f"fx has no fx.linalg.{name}; what there is: {', '.join(__all__)}")
