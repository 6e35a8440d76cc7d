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


MATRICES = {
    "cholesky": cholesky,
    "triangular_solve": triangular_solve,
    "verified": lambda x, info, *, words: x,
}
