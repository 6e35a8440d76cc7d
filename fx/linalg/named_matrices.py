"""Matrices with a name, as ``scipy.linalg`` makes them."""

from __future__ import annotations

from typing import Any

import numpy as np

from fx.errors import ArgumentError
from fx.linalg.structured import companion, toeplitz
from fx.ops.operands import argument
from fx.ops.pointwise.elementwise import abs as absolute
from fx.ops.shapes.joining import concat
from fx.tensor import Tensor

_SAYS = {
    "dft": "the matrix of the discrete Fourier transform of n points",
    "hadamard": "Hadamard's matrix of n rows, a power of 2",
    "helmert": "Helmert's matrix of n rows, without its first",
    "invhilbert": "the inverse of Hilbert's matrix of n rows",
    "invpascal": "the inverse of Pascal's matrix of n rows",
    "pascal": "Pascal's matrix of n rows, of binomial coefficients",
}


def _constant(name: str, says: str) -> Any:
    def function(n: int, *args: Any, **options: Any) -> Tensor:
        import scipy.linalg

        return argument(name, np.asarray(getattr(scipy.linalg, name)(n, *args, **options)))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"{says[0].upper()}{says[1:]}, with SciPy's arguments and dtype."
    return function


for _name, _says in _SAYS.items():
    globals()[_name] = _constant(_name, _says)


def fiedler(a: Any) -> Tensor:
    """The absolute differences of the elements of a (n,): (n, n)."""
    a = argument("fiedler", a)
    return absolute(a[:, None] - a[None, :])


def fiedler_companion(a: Any) -> Tensor:
    """A matrix of five diagonals whose eigenvalues are the roots of the polynomial a (n,).

    Source: M. Fiedler, A note on companion matrices, 2003.
    """
    a = argument("fiedler_companion", a)
    n = a.shape[0] - 1
    if n < 3:
        return companion(a)
    a = -a / a[0]
    one = a[0] * 0.0 + 1.0
    filled = {(0, 0): a[1], (1, 0): one}
    for i in range(n - 1):  # the coefficients beside the diagonal, ones two places from it
        filled[(i, i + 1) if i % 2 == 0 else (i + 1, i)] = a[i + 2]
    for i in range(n - 2):
        filled[(i, i + 2) if i % 2 == 0 else (i + 2, i)] = one
    rows = [[filled.get((i, j), one * 0.0) for j in range(n)] for i in range(n)]
    return concat([x.reshape(1) for row in rows for x in row]).reshape(n, n)  # type: ignore[no-any-return]


def leslie(f: Any, s: Any) -> Tensor:
    """Leslie's matrix of fecundities f (n,) and survivals s (n - 1,).

    Raises:
        ArgumentError: if these do not fit.
    """
    f, s = argument("leslie", f), argument("leslie", s)
    if f.ndim != 1 or s.shape != (f.shape[0] - 1,):
        raise ArgumentError(f"leslie: f (n,) and s (n - 1,), got {f.shape} and {s.shape}")
    zeros = f[:, None] * 0
    return concat([f[None, :], concat([s.diag_embed(), zeros[1:]], axis=1)])


def diagsvd(s: Any, M: int, N: int) -> Tensor:
    """The matrix (M, N) that has s (min(M, N),) on its diagonal."""
    s = argument("diagsvd", s)
    if s.ndim != 1 or s.shape[0] != min(M, N):
        raise ArgumentError(f"diagsvd: s has {min(M, N)} elements, got shape {s.shape}")
    full = s.diag_embed()
    more = full.new_zeros((abs(M - N), s.shape[0]))
    if M == N:
        return full  # type: ignore[no-any-return]
    return concat([full, more]) if M > N else concat([full, more.mT], axis=1)


def convolution_matrix(a: Any, n: int, mode: str = "full") -> Tensor:
    """The matrix that convolves a vector of n elements with a (m,).

    Args:
        a: (m,).
        n: the length of the other vector.
        mode: "full", "same" or "valid", as of ``convolve``.

    Raises:
        ArgumentError: for another mode.
    """
    if mode not in ("full", "same", "valid"):
        raise ArgumentError(f"convolution_matrix: mode is full, same or valid, got {mode!r}")
    a = argument("convolution_matrix", a)
    m = a.shape[0]
    zeros = a.new_zeros((n - 1,))
    full = toeplitz(concat([a, zeros]), concat([a[:1], zeros]))  # (m + n - 1, n)
    if mode == "same":
        start = (min(m, n) - 1) // 2
        return full[start : start + max(m, n)]  # type: ignore[no-any-return]
    return full[min(m, n) - 1 : max(m, n)] if mode == "valid" else full  # type: ignore[no-any-return]


__all__ = [
    *_SAYS, "fiedler", "fiedler_companion", "leslie", "diagsvd", "convolution_matrix",
]  # fmt: skip
