"""Orthogonal matrices as functions of unconstrained ones: exponential, Cayley map, reflections."""

from __future__ import annotations

from typing import Any

from fx.config import no_grad
from fx.nn.base.module import Module
from fx.nn.parameter import Buffer
from fx.ops.indexing.searching import where
from fx.ops.making.creation import zeros
from fx.ops.making.patterns import eye, tril
from fx.ops.pointwise.elementwise import ceil, log2, maximum, sign, sqrt
from fx.ops.shapes.joining import concat
from fx.random.stateful import randn
from fx.tensor import Tensor
from fx.transforms import scan

MAPS = ("matrix_exp", "cayley", "householder")


class _Orthogonal(Module):
    """The parametrization of ``orthogonal``.

    Args:
        weight: the matrix (..., m, n) that is parametrized.
        orthogonal_map: one of ``MAPS``.
        use_trivialization: whether the buffer ``base`` holds the matrix from which the map starts.
    """

    base: Any

    def __init__(
        self, weight: Tensor, orthogonal_map: str, use_trivialization: bool = True
    ) -> None:
        super().__init__()
        self.shape = tuple(weight.shape)
        self.orthogonal_map = orthogonal_map
        self.use_trivialization = use_trivialization
        if use_trivialization:
            self.register_buffer("base", None)

    def forward(self, x: Tensor) -> Tensor:
        """The orthogonal matrix that belongs to ``x``."""
        wide = x.shape[-2] < x.shape[-1]
        if wide:
            x = x.mT
        n, k = x.shape[-2:]
        if self.orthogonal_map == "householder":
            below = tril(x, k=-1)
            tau = 2.0 / (1.0 + (below * below).sum(-2))
            q = householder_product(below, tau)
            q = q * sign(x.diagonal(0, -2, -1).detach())[..., None, :]
        else:
            x = tril(x)
            if n != k:
                x = concat([x, zeros((*x.shape[:-2], n, n - k), dtype=x.dtype)], axis=-1)
            skew = x - x.mT
            q = matrix_exp(skew) if self.orthogonal_map == "matrix_exp" else cayley(skew)
            q = q[..., :k]
        if self.use_trivialization:
            q = self.base @ q
        return q.mT if wide else q

    def right_inverse(self, q: Tensor) -> Tensor:
        """What ``forward`` maps to ``q``, or to the orthogonal matrix that comes from it.

        Raises:
            ValueError: for another shape.
            NotImplementedError: if the map has no inverse.
        """
        if q.shape != self.shape:
            raise ValueError(
                f"Expected a matrix or batch of matrices of shape {self.shape}. Got a tensor of "
                f"shape {q.shape}."
            )
        if not self.use_trivialization and self.orthogonal_map != "householder":
            raise NotImplementedError(
                "It is not possible to assign to the matrix exponential or the Cayley "
                "parametrizations when use_trivialization=False."
            )
        with no_grad():
            q = q.detach()
            shape, wide = q.shape, q.shape[-2] < q.shape[-1]
            if wide:
                q = q.mT
            n, k = q.shape[-2:]
            if not self.use_trivialization:
                factors, tau = reflections(q)
                signs = sign(factors.diagonal(0, -2, -1))
                signs = where(tau == 0, -signs, signs)
                factors = tril(factors, k=-1) + signs[..., None, :] * eye(n, k, dtype=q.dtype)
                return factors.mT if wide else factors
            if n != k:
                rest = randn(*q.shape[:-2], n, n - k).to(q.dtype)
                base = orthogonalised(concat([q, rest], axis=-1))
            else:
                base = q if _is_orthogonal(q) else orthogonalised(q)
            if self.base is None:
                self.base = Buffer(base)
            else:
                self.base.rebind(base)
            return zeros(shape, dtype=q.dtype) - eye(*shape[-2:], dtype=q.dtype)


def _is_orthogonal(q: Tensor) -> bool:
    n = q.shape[-1]
    gram = q.mT @ q
    eps = 10 * n * {"float64": 2.3e-16, "float32": 1.2e-7}.get(q.dtype.name, 1e-2)
    return bool((abs(gram - eye(n, dtype=q.dtype)) <= eps).all())


def matrix_exp(a: Tensor) -> Tensor:
    """The exponential of matrices (..., n, n), by its series on a matrix halved often enough."""
    n = a.shape[-1]
    size = abs(a.detach()).sum(-1).max()  # bounds the spectral norm
    halvings = maximum(ceil(log2(maximum(size, size * 0 + 1e-30))) + 1.0, size * 0)
    x = a * 0.5**halvings
    total = eye(n, dtype=a.dtype) + x
    term = x
    for i in range(2, 19):
        term = term @ x / float(i)
        total = total + term
    for i in range(_HALVINGS):
        total = where(i < halvings, total @ total, total)
    return total


_HALVINGS = 24


def cayley(a: Tensor) -> Tensor:
    """``(I - a/2)^-1 (I + a/2)`` of skew matrices (..., n, n).

    The symmetric part of ``I - a/2`` is the identity, so elimination needs no pivots.
    """
    n = a.shape[-1]
    one = eye(n, dtype=a.dtype)
    both = concat([one - a * 0.5, one + a * 0.5], axis=-1)

    def eliminate(both: Tensor, unit: Tensor) -> tuple[Tensor, None]:
        row = (unit[:, None] * both).sum(-2)  # the row of the pivot
        column = (both[..., :n] * unit).sum(-1)
        row = row / (row[..., :n] * unit).sum(-1)[..., None]
        factor = column - unit
        return both - factor[..., None] * row[..., None, :], None

    both, _ = scan(eliminate, both, one)
    return both[..., n:]


def householder_product(below: Tensor, tau: Tensor) -> Tensor:
    """The first columns of the product of reflections ``I - tau v v'``.

    Args:
        below: (..., n, k); the entries of ``v`` below its leading 1, a column each.
        tau: (..., k).
    """
    n, k = below.shape[-2:]
    one = eye(n, k, dtype=below.dtype)
    vectors = _in_front(tril(below, k=-1) + one, -1)
    start = one + below * 0.0

    def reflect(q: Tensor, x: Any) -> tuple[Tensor, None]:
        v, t = x
        return q - t[..., None, None] * (v[..., None] * (v[..., None, :] @ q)), None

    return scan(reflect, start, (vectors, _in_front(tau, -1)), reverse=True)[0]


def _in_front(x: Tensor, axis: int) -> Tensor:
    order = list(range(x.ndim))
    return x.permute((order.pop(axis), *order))


def reflections(a: Tensor) -> tuple[Tensor, Tensor]:
    """The factors of the QR decomposition of tall matrices (..., n, k), as LAPACK's geqrf has them.

    Returns:
        the matrices with R in place and the vectors below, and the factors ``tau`` (..., k).
    """
    k = a.shape[-1]
    taus = []
    for i in range(k):
        x = a[..., i:, i]
        alpha, rest = x[..., 0], (x[..., 1:] * x[..., 1:]).sum(-1)
        beta = -where(alpha < 0, -1.0, 1.0).to(a.dtype) * sqrt(alpha * alpha + rest)
        flat = rest == 0
        beta = where(flat, alpha, beta)
        tau = where(flat, 0.0 * alpha, (beta - alpha) / where(beta == 0, 1.0, beta))
        v = x / where(flat, 1.0, alpha - beta)[..., None]
        v = where(flat[..., None], 0.0 * v, v).at[..., 0].set(1.0)
        block = a[..., i:, i:]
        block = block - tau[..., None, None] * v[..., None] * (v[..., None, :] @ block)
        a = a.at[..., i:, i:].set(block)
        a = a.at[..., i + 1 :, i].set(v[..., 1:])
        taus.append(tau[..., None])
    return a, concat(taus, axis=-1)


def orthogonalised(a: Tensor) -> Tensor:
    """The orthogonal factor of a QR decomposition whose R has a positive diagonal."""
    factors, tau = reflections(a)
    q = householder_product(tril(factors, k=-1), tau)
    return q * sign(factors.diagonal(0, -2, -1))[..., None, :]
