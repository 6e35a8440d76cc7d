"""Schur's form made triangular, functions of matrices by it, and real forms of eigenpairs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fx.dtypes import COMPLEX
from fx.errors import ShapeError
from fx.linalg.factors import schur
from fx.linalg.matrix_functions import expm_frechet
from fx.linalg.norms import matrix_norm
from fx.linalg.operands import inexact, square
from fx.ops.indexing.searching import where
from fx.ops.making.patterns import eye
from fx.ops.making.ranges import arange
from fx.ops.operands import argument
from fx.ops.pointwise.elementwise import abs as absolute
from fx.ops.pointwise.elementwise import sqrt
from fx.ops.reductions.cumulative import cumsum
from fx.ops.shapes.manipulation import reshape
from fx.prims.linalg.pieces import complex_dtype
from fx.tensor import Tensor


def rsf2csf(T: Any, Z: Any, check_finite: bool = True) -> tuple[Tensor, Tensor]:
    """Schur's triangular form of a real one, by a rotation for each block of two.

    Args:
        T, Z: (*B, n, n), what ``schur`` gives.
        check_finite: nothing here depends on it.

    Returns:
        T, upper triangular, and Z, unitary; complex.

    Raises:
        ShapeError: if the shapes differ.

    Source: ``scipy.linalg.rsf2csf``.

    Example:
        >>> import fx
        >>> t, z = fx.linalg.rsf2csf(*fx.linalg.schur(fx.tensor([[0.0, 1.0], [-1.0, 0.0]])))
        >>> abs(t[1, 0]) < 1e-6
        tensor(True)
    """
    t, z = square("linalg.rsf2csf", T, "T"), square("linalg.rsf2csf", Z, "Z")
    if t.shape != z.shape:
        raise ShapeError(f"linalg.rsf2csf: T {t.shape} and Z {z.shape} are of one shape")
    wide = complex_dtype(t.dtype)
    t, z, n = t.astype(wide), z.astype(wide), t.shape[-1]
    tiny = 1.2e-7 if wide.itemsize == 8 else 2.2e-16
    for m in range(n - 1, 0, -1):
        a, b, c, d = (t[..., i, j] for i in (m - 1, m) for j in (m - 1, m))
        apart = absolute(c) > tiny * (absolute(a) + absolute(d))
        # one eigenvalue of the block, less d
        half = (a - d) * 0.5
        root = where(apart, half + sqrt(where(apart, half * half + b * c, 1.0)), 1.0)
        size = sqrt(absolute(root) ** 2 + absolute(c) ** 2)
        size = where(apart, size, 1.0)
        cos, sin = where(apart, root / size, 1.0), where(apart, c / size, 0.0)
        up, low = t[..., m - 1, :], t[..., m, :]
        turn = lambda x: x[..., None]
        t = t.at[..., m - 1, :].set(turn(cos.conj()) * up + turn(sin.conj()) * low)
        t = t.at[..., m, :].set(turn(-sin) * up + turn(cos) * low)
        for name in ("t", "z"):
            x = t if name == "t" else z
            left, right = x[..., :, m - 1], x[..., :, m]
            x = x.at[..., :, m - 1].set(left * turn(cos) + right * turn(sin))
            x = x.at[..., :, m].set(-left * turn(sin.conj()) + right * turn(cos.conj()))
            t, z = (x, z) if name == "t" else (t, x)
        t = t.at[..., m, m - 1].set(0.0)
    return t, z


def funm(A: Any, func: Callable[[Tensor], Any], disp: bool = True) -> Any:
    """A function of matrices by Parlett's recurrence along the diagonals of Schur's form.

    It divides by differences of eigenvalues, and is inaccurate where these are small: the estimate
    says how much. It is NaN where equal ones have no basis of eigenvectors. ``expm``, ``logm``,
    ``sqrtm`` and the trigonometric functions are not.

    Args:
        A: (*B, n, n).
        func: takes the eigenvalues (*B, n), complex, and returns their values.
        disp: whether to return the matrices alone.

    Returns:
        The function's values (*B, n, n), complex; without ``disp`` also the estimate of their
        relative error (*B).

    Raises:
        BackwardError: when it is differentiated.

    Source: G. H. Golub, C. F. Van Loan, Matrix Computations, algorithm 9.1.1;
    ``scipy.linalg.funm``, which returns real matrices where the result is real.

    Example:
        >>> import fx
        >>> fx.linalg.funm(fx.tensor([[1.0, 1.0], [0.0, 2.0]]), lambda w: w * w).real.round()
        tensor([[1., 3.],
                [0., 4.]])
    """
    a = square("linalg.funm", A)
    t, z = schur(a, "complex")
    n = t.shape[-1]
    diagonal = t.diagonal(0, -2, -1)
    values = argument("linalg.funm", func(diagonal)).astype(t.dtype)
    f = values[..., None] * eye(n, dtype=t.dtype, device=t.device)
    least = absolute(diagonal).sum(-1) * 0 + 1.0 if n < 2 else None
    for p in range(1, n):
        for i in range(n - p):
            j = i + p
            s = t[..., i, j] * (f[..., j, j] - f[..., i, i])
            coupled = absolute(t[..., i, j])
            if p > 1:
                right = t[..., i, i + 1 : j] * f[..., i + 1 : j, j]
                left = f[..., i, i + 1 : j] * t[..., i + 1 : j, j]
                s = s + (right - left).sum(-1)
                coupled = coupled + (absolute(right) + absolute(left)).sum(-1)
            gap = t[..., j, j] - t[..., i, i]
            size = absolute(gap)
            # of a chain of equal eigenvalues the recurrence knows nothing: there it has 0 / 0
            alone = where(coupled > 0, float("nan"), 0.0)
            f = f.at[..., i, j].set(where(size > 0, s / where(size > 0, gap, 1.0), alone))
            least = size if least is None else where(size < least, size, least)
    found = z @ f @ z.mH
    if disp:
        return found
    rounding = 1.2e-7 if t.dtype.itemsize == 8 else 2.2e-16
    least = where(least > 0, least, rounding)
    size = matrix_norm(t.triu(1), ord=1)
    error = (rounding / least * size).clip(rounding, 1.0)
    return found, where((found.isfinite()).all((-2, -1)), error, float("inf"))


def expm_cond(A: Any, check_finite: bool = True) -> Tensor:
    """By how much the exponential of a matrix (n, n) changes, relative to the matrix.

    Args:
        A: (n, n), real or complex.
        check_finite: nothing here depends on it.

    Raises:
        ShapeError: if it is no square matrix.

    Source: A. H. Al-Mohy, N. J. Higham, Computing the Frechet derivative of the matrix exponential,
    2009; ``scipy.linalg.expm_cond``.

    Example:
        >>> import fx
        >>> fx.linalg.expm_cond(fx.zeros((2, 2)) + fx.eye(2))
        tensor(1.0000)
    """
    a = square("linalg.expm_cond", A)
    if a.ndim != 2:
        raise ShapeError(f"linalg.expm_cond takes one matrix, got {a.shape}; write fx.vmap")
    n = a.shape[0]
    each = reshape(eye(n * n, dtype=a.dtype, device=a.device), (n * n, n, n))
    many = a[None].expand((n * n, n, n))
    exponential, along = expm_frechet(many, each)
    norm = matrix_norm(reshape(along, (n * n, n * n)), ord=2)
    return norm * matrix_norm(a) / matrix_norm(exponential[0])


def cdf2rdf(w: Any, v: Any) -> tuple[Tensor, Tensor]:
    """Eigenpairs of real matrices as real blocks: A v = v w.

    Args:
        w: (*B, n), eigenvalues; those that are complex come in neighbouring pairs.
        v: (*B, n, n), eigenvectors.

    Returns:
        w (*B, n, n), with blocks of two for pairs, and v (*B, n, n); real.

    Raises:
        ShapeError: if shapes do not fit.

    Source: ``scipy.linalg.cdf2rdf``.

    Example:
        >>> import fx
        >>> w, v = fx.linalg.cdf2rdf(*fx.linalg.eig(fx.tensor([[0.0, 1.0], [-1.0, 0.0]])))
        >>> w
        tensor([[ 0.,  1.],
                [-1.,  0.]])
    """
    w, v = inexact("linalg.cdf2rdf", w), square("linalg.cdf2rdf", v, "v")
    if w.shape != v.shape[:-1]:
        raise ShapeError(f"linalg.cdf2rdf: w {w.shape} has an eigenvalue for each column of v")
    n = w.shape[-1]
    unit = eye(n, dtype=w.real.dtype, device=w.device)
    if w.dtype not in COMPLEX:
        return w[..., None] * unit, v.real
    turned = w.imag != 0
    first = turned & (cumsum(turned.astype("int64"), -1) % 2 == 1)
    place = arange(n, device=w.device)
    above = ((place[None, :] - place[:, None]) == 1).astype(unit.dtype)
    part = where(first, w.imag, 0.0)[..., None] * above
    blocks = w.real[..., None] * unit + part - part.mT
    return blocks, where(first[..., None, :], -v.imag, v.real)


__all__ = ["cdf2rdf", "expm_cond", "funm", "rsf2csf"]
