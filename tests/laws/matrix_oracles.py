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


@each_matrix
def lu_solve(a, order, b, *, transposed):
    whole = np.empty_like(a)
    whole[order] = (np.tril(a, -1) + np.eye(len(a))) @ np.triu(a)
    return np.linalg.solve(whole.T if transposed else whole, b)


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


@each_matrix
def matrix_function(x, *, function):
    w, v = np.linalg.eig(x)
    f = {"sqrtm": np.emath.sqrt, "logm": np.emath.log}[function]
    return (v * f(w) @ np.linalg.inv(v)).real


@each_matrix
def sylvester(a, b, q):
    whole = np.kron(a, np.eye(len(b))) + np.kron(np.eye(len(a)), b.T)
    return np.linalg.solve(whole, q.reshape(-1)).reshape(q.shape)


@each_matrix
def solve_banded(bands, b, *, upper):
    (k, n) = bands.shape
    whole = np.zeros((n, n))
    for i in range(n):
        for j in range(max(0, i + upper + 1 - k), min(n, i + upper + 1)):
            whole[i, j] = bands[upper + i - j, j]
    return np.linalg.solve(whole, b)


@each_matrix
def decomposition(x, *, kind):
    if kind != "geqrf":  # seen put together
        return x, np.eye(len(x))
    a, tau = x.copy(), np.zeros(min(x.shape))
    for j in range(len(tau)):
        size = np.linalg.norm(a[j:, j])
        if np.any(a[j + 1 :, j]):
            beta = -np.copysign(size, a[j, j])
            tau[j] = (beta - a[j, j]) / beta
            v = np.r_[1.0, a[j + 1 :, j] / (a[j, j] - beta)]
            a[j:, j:] -= tau[j] * np.outer(v, v @ a[j:, j:])
            a[j + 1 :, j] = v[1:]
    return a, tau


@each_matrix
def generalized_schur(a, b, *, sort):  # seen put together
    nothing, whole = np.zeros(len(a)), np.eye(len(a))
    return a, b, nothing + 0j, nothing, whole, whole


@each_matrix
def cossin(x, *, p, q, swap_sign):  # seen are the angles
    angles = np.sort(np.arccos(np.clip(np.linalg.svd(x[:p, :q])[1], -1, 1)))
    return x, angles[len(angles) - min(p, q, len(x) - p, len(x) - q) :], x


@each_matrix
def balance(x, *, permute, scale):
    """LAPACK's own words on exchanges; of powers of two those that its loop ends with."""
    import scipy.linalg

    t = scipy.linalg.matrix_balance(x, permute, scale)[1]
    return t.max(0), np.abs(t).argmax(0)


@each_matrix
def ldl(a, *, hermitian):
    """Bunch and Kaufman's choice of pivots, on whole symmetric matrices."""
    a = np.tril(a) + np.tril(a, -1).T
    n, k, alpha = len(a), 0, (1 + 17**0.5) / 8
    packed, pivots = np.zeros((n, n)), np.zeros(n, np.int32)
    while k < n:
        size, width, p = abs(a[k, k]), 1, k
        column = np.abs(a[k + 1 :, k])
        if column.size and size < alpha * column.max():
            m = k + 1 + column.argmax()
            row = max(np.abs(np.delete(a[m, k:], m - k)))
            if size < alpha * column.max() ** 2 / row:
                p, width = m, 1 if abs(a[m, m]) >= alpha * row else 2
        at = k + width - 1
        a[[at, p], k:] = a[[p, at], k:]
        a[k:, [at, p]] = a[k:, [p, at]]
        pivots[k : k + width] = p + 1 if width == 1 else -(p + 1)
        block, rest = a[k : k + width, k : k + width], slice(k + width, n)
        low = np.linalg.solve(block, a[k : k + width, rest]).T
        packed[k : k + width, k : k + width] = np.tril(block)
        packed[rest, k : k + width] = low
        a[rest, rest] -= low @ block @ low.T
        k += width
    return packed, pivots, np.int32(0)


def ldl_order(pivots):
    n, lead = pivots.shape[-1], pivots.shape[:-1]
    order, places = np.zeros((*lead, n), int), np.zeros((*lead, n, n), int)
    blocks = np.zeros((*lead, n), int)
    for at in np.ndindex(lead):
        starts = [*range(n)]
        for k in range(n):
            if pivots[at][k] < 0 and k and starts[k - 1] == k - 1 and pivots[at][k - 1] < 0:
                starts[k] = k - 1
        columns = [[*range(n)] for _ in range(n + 1)]
        for k in range(n):
            if k + 1 < n and starts[k + 1] == k:  # the exchange of a pair is that of its second
                continue
            p = abs(pivots[at][k]) - 1
            for j in [*range(starts[k]), n]:
                columns[j][k], columns[j][p] = columns[j][p], columns[j][k]
        order[at], places[at], blocks[at] = columns[n], np.transpose(columns[:n]), starts
    return order, places, blocks


MATRICES = {
    "balance": balance,
    "cossin": cossin,
    "decomposition": decomposition,
    "generalized_schur": generalized_schur,
    "hermitian": lambda x: (x + x.swapaxes(-1, -2)) / 2,
    "ldl": ldl,
    "ldl_order": ldl_order,
    "matrix_function": matrix_function,
    "solve_banded": solve_banded,
    "sylvester": sylvester,
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
    "lu_solve": lu_solve,
    "order_of": order_of,
    "slogdet": lambda a: tuple(np.linalg.slogdet(a)),
    "solve": lambda a, b: (np.linalg.solve(a, b), np.zeros(a.shape[:-2], np.int32)),
    "triangular_solve": triangular_solve,
    "verified": lambda x, info, *, words: x,
}
