"""``fx.linalg``: linear algebra on stacks of matrices.

The names of the Array API's extension ``linalg``, and those of ``torch.linalg`` beyond it. Matrices
are the last two axes of float32, float64, complex64 or complex128; leading axes broadcast.
"""

from fx.errors import LinAlgError
from fx.linalg import (
    equations,
    factors,
    lapack_forms,
    matrix_functions,
    named_matrices,
    triangular_forms,
    updates,
)
from fx.linalg.cholesky import CholeskyEx, cholesky, cholesky_ex
from fx.linalg.determinants import SlogdetResult, det, logdet, slogdet
from fx.linalg.equations import *
from fx.linalg.factors import *
from fx.linalg.functions import householder_product, matrix_exp, matrix_rank, pinv
from fx.linalg.lapack_forms import *
from fx.linalg.least_squares import Lstsq, lstsq
from fx.linalg.lu import (
    LU,
    LUFactor,
    LUFactorEx,
    lu,
    lu_factor,
    lu_factor_ex,
    lu_solve,
    lu_unpack,
)
from fx.linalg.matrix_functions import *
from fx.linalg.named_matrices import *
from fx.linalg.norms import cond, matrix_norm, norm, vector_norm
from fx.linalg.orthogonal import QR, qr
from fx.linalg.products import (
    cross,
    diagonal,
    matmul,
    matrix_power,
    matrix_transpose,
    multi_dot,
    outer,
    tensordot,
    trace,
    vander,
    vecdot,
)
from fx.linalg.solving import (
    InvEx,
    SolveEx,
    cholesky_inverse,
    cholesky_solve,
    inv,
    inv_ex,
    solve,
    solve_ex,
    solve_triangular,
    tensorinv,
    tensorsolve,
)
from fx.linalg.spectral import SVD, Eig, Eigh, eig, eigh, eigvals, eigvalsh, svd, svdvals
from fx.linalg.structured import (
    Polar,
    bandwidth,
    block_diag,
    cho_solve,
    circulant,
    companion,
    expm,
    hankel,
    hilbert,
    ishermitian,
    issymmetric,
    khatri_rao,
    null_space,
    orth,
    polar,
    toeplitz,
)
from fx.linalg.triangular_forms import *
from fx.linalg.updates import *

_LAZY = {"clarkson_woodruff_transform": "fx.random.sketching"}  # it draws, and stands above
__all__ = [
    "Polar", "bandwidth", "block_diag", "cho_solve", "circulant", "companion", "expm", "hankel",
    "hilbert", "ishermitian", "issymmetric", "khatri_rao", "null_space", "orth", "polar",
    "toeplitz",
    "CholeskyEx", "Eig", "Eigh", "InvEx", "LU", "LUFactor", "LUFactorEx", "LinAlgError",
    "Lstsq", "QR", "SVD", "SlogdetResult", "SolveEx", "cholesky", "cholesky_ex",
    "cholesky_inverse", "cholesky_solve", "cond", "cross", "det", "diagonal", "eig", "eigh",
    "eigvals", "eigvalsh", "householder_product", "inv", "inv_ex", "logdet", "lstsq", "lu",
    "lu_factor", "lu_factor_ex", "lu_solve", "lu_unpack", "matmul", "matrix_exp", "matrix_norm",
    "matrix_power", "matrix_rank", "matrix_transpose", "multi_dot", "norm", "outer", "pinv",
    "qr", "slogdet", "solve", "solve_ex", "solve_triangular", "svd", "svdvals", "tensordot",
    "tensorinv", "tensorsolve", "trace", "vander", "vecdot", "vector_norm", *equations.__all__,
    *factors.__all__, *lapack_forms.__all__, *matrix_functions.__all__, *named_matrices.__all__,
    *triangular_forms.__all__, *updates.__all__, *_LAZY,
]  # fmt: skip


def __getattr__(name: str) -> object:
    if name.startswith("__"):
        raise AttributeError(name)
    if name in _LAZY:
        from importlib import import_module

        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"fx has no fx.linalg.{name}; what there is: {', '.join(__all__)}")
