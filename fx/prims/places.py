"""Parts of what is looked up by places: zeros for each place that lies outside of a part."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fx.prims.factors import Factors
from fx.prims.indexing import wrap_index


def looked_up(
    kernel: Callable[[np.ndarray, np.ndarray], np.ndarray],
    told: Factors,
    source: np.ndarray,
    places: np.ndarray,
    size: int,
    start: int,
) -> np.ndarray:
    """The addend of a part along the factor ``told.places``.

    Args:
        kernel: what looks up.
        told: by the rule.
        source: the part.
        places: in the whole.
        size: of the whole along the factor.
        start: where the part begins.

    Raises:
        IndexingError: for a place outside of the whole.
    """
    axis = told.operands[0].index(told.places)
    count = source.shape[axis]
    here = wrap_index.cpu(places, size=size) - start
    inside = (here >= 0) & (here < count)
    if not count:  # a part without an element still has to give zeros of the right shape
        shape = [*source.shape]
        shape[axis] = 1
        source = np.zeros(shape, source.dtype)
    found = np.asarray(kernel(source, np.where(inside, here, 0)))
    sizes = dict(zip(told.operands[1], inside.shape))
    mask = inside.reshape([sizes.get(c, 1) for c in told.results[0]])
    return np.where(mask, found, found.dtype.type(0))
