"""What the tests of this folder share."""

import numpy as np


def leaf_of(library, a):
    """A tensor, and the real leaf that it is a view of."""
    if a.dtype.kind != "c":
        leaf = library.tensor(a, requires_grad=True)
        return leaf, leaf
    leaf = library.tensor(np.stack([a.real, a.imag], -1), requires_grad=True)
    return library.view_as_complex(leaf), leaf
