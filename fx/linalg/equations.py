"""Equations in matrices, and systems whose matrix has a structure."""

from __future__ import annotations

from typing import Any

from fx import fft
from fx.dtypes import COMPLEX
from fx.errors import ArgumentError, ShapeError
from fx.linalg.cholesky import cholesky
from fx.linalg.operands import inexact, matrices, square
from fx.linalg.solving import cholesky_solve, inv, promoted, solve, together
from fx.linalg.spectral import Eigh, eigh, eigvalsh
from fx.linalg.structured import toeplitz
from fx.ops.shapes.joining import concat, stack
from fx.prims.linalg import by_scipy as prims
from fx.prims.linalg.pieces import identity
from fx.tensor import Tensor


def solve_sylvester(a: Any, b: Any, q: Any) -> Tensor:
    """The x with a x + x b = q; NaN where an eigenvalue of a is one of -b.

    Args:
        a, b, q: (*B, m, m), (*B, n, n) and (*B, m, n).

    Source: R. H. Bartels, G. W. Stewart, Solution of the matrix equation AX + XB = C, 1972.

    Example:
        >>> import fx
        >>> one = fx.eye(2)
        >>> fx.linalg.solve_sylvester(one, one, one * 4.0)
        tensor([[2., 0.],
                [0., 2.]])
    """
    name = "linalg.solve_sylvester"
    a, b, q = square(name, a), square(name, b, "B"), matrices(name, q, "Q")
    a, q = together(name, a, q)
    b, q = together(name, b, q)
    a, q = together(name, a, q)
    return prims.sylvester(a, b, q)  # type: ignore[no-any-return]


def solve_continuous_lyapunov(a: Any, q: Any) -> Tensor:
    """The x with a x + x a^H = q, of matrices (*B, n, n)."""
    a = square("linalg.solve_continuous_lyapunov", a)
    return solve_sylvester(a, a.mH, q)


solve_lyapunov = solve_continuous_lyapunov


def solve_discrete_lyapunov(a: Any, q: Any) -> Tensor:
    """The x with a x a^H - x + q = 0, of matrices (*B, n, n), by the bilinear transform."""
    a = square("linalg.solve_discrete_lyapunov", a)
    one = identity(a.shape[-1], a)
    back = inv(a.mH + one)
    b = (a.mH - one) @ back
    return solve_continuous_lyapunov(b.mH, (inv(a + one) @ q @ back) * -2.0)


_DOUBLINGS = 40


def _doubled(a: Tensor, g: Tensor, h: Tensor) -> Tensor:
    """The stable solution of x = h + a^H x (1 + g x)^-1 a, by doubling."""
    one = identity(a.shape[-1], a)
    for _ in range(_DOUBLINGS):
        left = solve(one + g @ h, a)  # (1 + g h)^-1 a
        middle = solve(one + g @ h, g)
        a, g, h = a @ left, g + a @ middle @ a.mH, h + a.mH @ h @ left
    return (h + h.mH) * 0.5  # type: ignore[no-any-return]


def solve_discrete_are(a: Any, b: Any, q: Any, r: Any) -> Tensor:
    """The stabilising x of Riccati's equation of a regulator in steps.

    a^H x a - x - a^H x b (r + b^H x b)^-1 b^H x a + q = 0.

    Args:
        a, b, q, r: (*B, n, n), (*B, n, m), Hermitian (*B, n, n) and positive definite (*B, m, m).

    Source: E. K.-W. Chu, H.-Y. Fan, W.-W. Lin, C.-S. Wang, Structure-preserving algorithms for
    periodic discrete-time algebraic Riccati equations, 2004.
    """
    a, b = square("linalg.solve_discrete_are", a), matrices("linalg.solve_discrete_are", b, "B")
    return _doubled(a, b @ solve(r, b.mH), q)


def solve_continuous_are(a: Any, b: Any, q: Any, r: Any) -> Tensor:
    """The stabilising x of Riccati's equation a^H x + x a - x b r^-1 b^H x + q = 0.

    Args:
        a, b, q, r: as of ``solve_discrete_are``, whose doubling follows Cayley's transform.
    """
    name = "linalg.solve_continuous_are"
    a, b = square(name, a), matrices(name, b, "B")
    one, g = identity(a.shape[-1], a), b @ solve(r, b.mH)
    speed = (abs(a.detach()).sum((-2, -1), keepdim=True) + 1.0).astype(a.dtype)
    shifted = a - one * speed
    w = shifted.mH + q @ solve(shifted, g)
    inner = solve(w, one)  # (a_s^H + q a_s^-1 g)^-1
    back = solve(shifted, one)
    first = one + inner.mH * (speed * 2.0)
    rest = (back @ g @ inner) * (speed * 2.0)
    last = (inner @ q @ back) * (speed * 2.0)
    return _doubled(first, rest, last)


# bands ------------------------------------------------------------------------------------------


def _vector(b: Tensor) -> bool:
    return b.ndim == 1


def solve_banded(l_and_u: tuple[int, int], ab: Any, b: Any) -> Tensor:
    """The solution of a banded system.

    Args:
        l_and_u: how many bands there are below the diagonal and above it.
        ab: (*B, l + u + 1, n): row ``u + i - j`` has element (i, j) in its place j.
        b: (n,) or (*B, n, k).

    Returns:
        As ``b``; NaN where the matrix is singular.

    Raises:
        ShapeError: if these do not fit.

    Source: ``scipy.linalg.solve_banded``.

    Example:
        >>> import fx
        >>> bands = fx.tensor([[0.0, 1.0], [2.0, 4.0]])
        >>> fx.linalg.solve_banded((0, 1), bands, fx.tensor([3.0, 4.0]))
        tensor([1., 1.])
    """
    name, (lower, upper) = "linalg.solve_banded", l_and_u
    bands, b = matrices(name, ab, "ab"), inexact(name, b)
    if bands.shape[-2] != lower + upper + 1:
        raise ShapeError(
            f"{name}: {lower} bands below and {upper} above the diagonal are rows "
            f"{lower + upper + 1} of ab, got shape {bands.shape}"
        )
    flat = _vector(b)
    bands, b = together(name, bands, b[:, None] if flat else b)
    x = prims.solve_banded(bands, b, upper=upper)
    return x[..., 0] if flat else x  # type: ignore[no-any-return]


def _whole(name: str, bands: Any, lower: bool) -> Tensor:
    """The triangle (*B, n, n) of which ``bands`` (*B, k, n) has the diagonals."""
    bands = matrices(name, bands, "ab")
    n, k = bands.shape[-1], bands.shape[-2]
    rows = list(range(k)) if lower else list(range(k - 1, -1, -1))
    found = 0.0
    for i, r in enumerate(rows):
        band = bands[..., r, : n - i] if lower else bands[..., r, i:]
        found = found + band.diag_embed(-i if lower else i)
    return found  # type: ignore[return-value]


def _from_bands(name: str, bands: Any, lower: bool) -> Tensor:
    """The Hermitian matrix, whole, so that derivatives are along Hermitian ones."""
    part = _whole(name, bands, lower)
    inner = part - part.diagonal(0, -2, -1).diag_embed()
    return part + inner.mH  # type: ignore[no-any-return]


def solveh_banded(ab: Any, b: Any, lower: bool = False) -> Tensor:
    """The solution of a Hermitian banded system; ``ab`` (*B, u + 1, n) has its upper bands.

    Args:
        ab: row ``u + i - j`` has element (i, j) in its place j; row ``i - j`` for ``lower`` ones.
        b: (n,) or (*B, n, k).
        lower: which triangle.
    """
    bands = matrices("linalg.solveh_banded", ab, "ab")
    u = bands.shape[-2] - 1
    parts = [bands[..., r, :] for r in range(u + 1)]
    if lower:
        below, others = parts[1:], [prims.moved(x, i) for i, x in enumerate(parts)][:0:-1]
        parts = [*[x.conj() for x in others], parts[0], *below]
    else:
        others = [prims.moved(x, i - u) for i, x in enumerate(parts[:-1])][::-1]
        parts = [*parts, *[x.conj() for x in others]]
    return solve_banded((u, u), stack(parts, axis=-2), b)


def cholesky_banded(ab: Any, lower: bool = False) -> Tensor:
    """Cholesky's factor of a Hermitian banded matrix (*B, u + 1, n), in bands too.

    The matrix is made whole on the way: n * n numbers.
    """
    name = "linalg.cholesky_banded"
    factor = cholesky(_from_bands(name, ab, lower))
    k, n = ab.shape[-2], ab.shape[-1]
    bands = [factor.diagonal(-i, -2, -1) for i in range(k)]
    filled = [x.new_zeros((*x.shape[:-1], i)) for i, x in enumerate(bands)]
    if lower:
        rows = [concat([x, z], axis=-1) for x, z in zip(bands, filled, strict=True)]
    else:
        rows = [concat([z, x.conj()], axis=-1) for x, z in zip(bands, filled, strict=True)][::-1]
    return stack(rows, axis=-2)[..., :n]


def cho_solve_banded(cb_and_lower: tuple[Any, bool], b: Any) -> Tensor:
    """The solution by what ``cholesky_banded`` gives, and whether that is ``lower``."""
    cb, lower = cb_and_lower
    b = inexact("linalg.cho_solve_banded", b)
    factor = _whole("linalg.cho_solve_banded", cb, lower)
    x = cholesky_solve(b[:, None] if _vector(b) else b, factor, upper=not lower)
    return x[..., 0] if _vector(b) else x  # type: ignore[no-any-return]


def eig_banded(a_band: Any, lower: bool = False) -> Eigh:
    """``eigh`` of a Hermitian banded matrix (*B, u + 1, n), which is made whole."""
    return eigh(_from_bands("linalg.eig_banded", a_band, lower))


def eigvals_banded(a_band: Any, lower: bool = False) -> Tensor:
    """``eigvalsh`` of a Hermitian banded matrix (*B, u + 1, n), which is made whole."""
    return eigvalsh(_from_bands("linalg.eigvals_banded", a_band, lower))


def _tridiagonal(name: str, d: Any, e: Any) -> Tensor:
    d, e = promoted(name, inexact(name, d), inexact(name, e))
    return d.diag_embed() + e.diag_embed(-1) + e.diag_embed(1)  # type: ignore[no-any-return]


def eigh_tridiagonal(d: Any, e: Any, eigvals_only: bool = False) -> Any:
    """``eigh`` of the matrix of diagonal d (*B, n) and lower off-diagonal e (*B, n - 1)."""
    a = _tridiagonal("linalg.eigh_tridiagonal", d, e)
    return eigvalsh(a) if eigvals_only else eigh(a)


def eigvalsh_tridiagonal(d: Any, e: Any) -> Tensor:
    """The eigenvalues of the matrix of diagonal d (*B, n) and lower off-diagonal e (*B, n - 1)."""
    return eigvalsh(_tridiagonal("linalg.eigvalsh_tridiagonal", d, e))


# Toeplitz and circulant -------------------------------------------------------------------------


def _of_toeplitz(c_or_cr: Any) -> Tensor:
    return toeplitz(*c_or_cr) if isinstance(c_or_cr, tuple) else toeplitz(c_or_cr)


def solve_toeplitz(c_or_cr: Any, b: Any) -> Tensor:
    """The solution of a Toeplitz system, of first column c (n,) or of (c, r); b (n,) or (n, k).

    The matrix is made whole: n * n numbers.
    """
    return solve(_of_toeplitz(c_or_cr), b)


def matmul_toeplitz(c_or_cr: Any, x: Any) -> Tensor:
    """The product of a Toeplitz matrix, as of ``solve_toeplitz``, and x (n,) or (n, k)."""
    return _of_toeplitz(c_or_cr) @ x  # type: ignore[no-any-return]


def solve_circulant(c: Any, b: Any) -> Tensor:
    """The solution of a circulant system, of first column c (n,), by Fourier transforms.

    Args:
        c: (n,).
        b: (n,) or (n, k).

    Raises:
        ArgumentError: if c has another number of axes.
    """
    c, b = promoted("linalg.solve_circulant", inexact("c", c), inexact("b", b))
    if c.ndim != 1:
        raise ArgumentError(f"linalg.solve_circulant: c is a vector, got shape {c.shape}")
    flat = _vector(b)
    b = b[:, None] if flat else b
    x = fft.ifft(fft.fft(b, axis=0) / fft.fft(c)[:, None], axis=0)
    x = x if b.dtype in COMPLEX else x.real
    return x[:, 0] if flat else x  # type: ignore[no-any-return]


__all__ = [
    "solve_sylvester", "solve_continuous_lyapunov", "solve_lyapunov", "solve_discrete_lyapunov",
    "solve_discrete_are", "solve_continuous_are", "solve_banded", "solveh_banded",
    "cholesky_banded", "cho_solve_banded", "eig_banded", "eigvals_banded", "eigh_tridiagonal",
    "eigvalsh_tridiagonal", "solve_toeplitz", "matmul_toeplitz", "solve_circulant",
]  # fmt: skip
