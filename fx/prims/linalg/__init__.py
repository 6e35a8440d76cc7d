"""Primitives on stacks of matrices (*B, m, n): a file a family. ``stacks.py`` is common to all."""

from fx.prims.linalg import (
    by_scipy,
    cholesky,
    det,
    functions,
    hermitian,
    lapack_forms,
    lu,
    orthogonal,
    solve,
    spectral,
    svd,
    symmetric,
    triangular,
    verified,
)
