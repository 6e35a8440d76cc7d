"""Reference functions of factorisations and solves: by hand, or with ``numpy.linalg``."""

import numpy as np


def each_matrix(function):
    """A function of matrices as one of stacks, matrix by matrix."""

    def stacked(*stacks, **params):
        lead = stacks[0].shape[:-2]
        found = [function(*[s[i] for s in stacks], **params) for i in np.ndindex(lead)]
        if isinstance(found[0], tuple):
            return tuple(np.reshape(x, (*lead, *np.shape(x[0]))) for x in zip(*found, strict=True))
        return np.reshape(found, (*lead, *np.shape(found[0])))

    return stacked


@each_matrix
def cholesky(a):
    factor = np.zeros(a.shape, a.dtype)
    for j in range(len(a)):
        rest = a[j:, j] - factor[j:, :j] @ factor[j, :j].conj()
        factor[j:, j] = rest / np.sqrt(rest[0].real)
    return factor, np.int32(0)


@each_matrix
def triangular_solve(a, b, *, left, lower, transposed, unit):
    part = np.tril(a) if lower else np.triu(a)
    if unit:
        part[np.diag_indices(len(a))] = 1.0
    part = part.T if transposed else part
    return np.linalg.solve(part, b) if left else np.linalg.solve(part.T, b.T).T


def told(function):
    """A function of a matrix with an ``info`` that is 0 behind its results."""
    return each_matrix(lambda x, **params: (*function(x, **params), np.int32(0)))


@told
def eigh(x):
    low = np.tril(x, -1)
    w, v = np.linalg.eig(low + low.T + np.diag(np.diag(x)))
    order = np.argsort(w)
    return w[order], np.linalg.qr(v[:, order])[0]


@told
def eig(x):
    w, v = np.linalg.eig(x)
    return w + 0j, v + 0j


@each_matrix
def qr(x, *, full):
    return tuple(np.linalg.qr(x, "complete" if full else "reduced"))


@told
def svd(x, *, full):
    """Right vectors and values from x' x, then the left ones, and bases of what is left."""
    k = min(x.shape)
    squares, v = np.linalg.eigh(x.T @ x)
    s, v = np.sqrt(np.maximum(squares[::-1], 0)), v[:, ::-1]
    u = x @ v[:, :k] / s[:k]
    return (np.hstack([u, _rest(u)]) if full else u), s[:k], v.T if full else v[:, :k].T


def _rest(u):
    """Columns that complete orthonormal ones to a basis."""
    return np.linalg.qr(u, "complete")[0][:, u.shape[1] :]


@each_matrix
def lu(a):
    (m, n), order = a.shape, np.arange(len(a))
    u, pivots = a.copy(), np.zeros(min(m, n), np.int32)
    for j in range(min(m, n)):
        p = pivots[j] = j + np.argmax(np.abs(u[j:, j]))
        u[[j, p]], order[[j, p]] = u[[p, j]], order[[p, j]]
        u[j + 1 :, j] /= u[j, j]
        u[j + 1 :, j + 1 :] -= np.outer(u[j + 1 :, j], u[j, j + 1 :])
    return u, pivots, order, np.int32(0)


def order_of(pivots, *, size):
    order = np.broadcast_to(np.arange(size), (*pivots.shape[:-1], size)).copy()
    for at in np.ndindex(pivots.shape[:-1]):
        for i, p in enumerate(pivots[at]):
            order[at][[i, p]] = order[at][[p, i]]
    return order


@each_matrix
def matrix_exp(x):
    """The series, of a small part."""
    small, total, term = x / 16, np.eye(len(x)), np.eye(len(x))
    for k in range(1, 20):
        term = term @ small / k
        total = total + term
    return np.linalg.matrix_power(total, 16)


@told
def pinv(x, *, rtol, atol):
    rank = np.linalg.matrix_rank(x, tol=max(atol, rtol * np.linalg.norm(x, 2)))
    tall = len(x) >= x.shape[1]
    return np.linalg.solve(x.T @ x, x.T) if tall else np.linalg.solve(x @ x.T, x).T, rank


MATRICES = {
    "matrix_exp": matrix_exp,
    "pinv": pinv,
    "cholesky": cholesky,
    "eig": eig,
    "eigh": eigh,
    "eigvals": told(lambda x: (np.linalg.eigvals(x) + 0j,)),
    "eigvalsh": told(lambda x: (np.linalg.eigvalsh(x),)),
    "qr": qr,
    "svd": svd,
    "svdvals": told(lambda x: (np.sqrt(np.linalg.eigvalsh(x @ x.T)[::-1][: min(x.shape)]),)),
    "det": np.linalg.det,
    "inv": lambda a: (np.linalg.inv(a), np.zeros(a.shape[:-2], np.int32)),
    "lu": lu,
    "order_of": order_of,
    "slogdet": lambda a: tuple(np.linalg.slogdet(a)),
    "solve": lambda a, b: (np.linalg.solve(a, b), np.zeros(a.shape[:-2], np.int32)),
    "triangular_solve": triangular_solve,
    "verified": lambda x, info, *, words: x,
}
