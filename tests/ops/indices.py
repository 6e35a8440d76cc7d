"""Random shapes and indices of every kind, for the tests of ``x[index]`` and ``x.at[index]``."""

import numpy as np
from hypothesis import strategies as st


def numbers(shape, dtype=np.float32):
    """0, 1, 2, ... in a shape."""
    return np.arange(np.prod(shape, dtype=int), dtype=dtype).reshape(shape)


def sources():
    """Random generators: what is drawn from them is spread evenly, and small cases come first."""
    return st.integers(0, 2**32 - 1).map(np.random.default_rng)


def random_shape(rng, max_dims=4):
    """Mostly sides of 1 to 4, now and then one of 0."""
    sides = rng.integers(1, 5, rng.integers(0, max_dims + 1))
    if rng.random() < 0.1:
        sides *= rng.integers(0, 2, sides.shape)
    return tuple(sides.tolist())


def random_slice(rng, n):
    """Any slice, its bounds beyond the axis too; often the whole axis."""
    if rng.random() < 0.3:
        return slice(None)
    start, stop = (None if rng.random() < 0.3 else int(rng.integers(-n - 2, n + 3)) for _ in "ab")
    step = None if rng.random() < 0.5 else int(rng.choice([-3, -2, -1, 1, 2, 3]))
    return slice(start, stop, step)


def mixed_index(rng, shape):
    """Any mixture of ints, slices, None, Ellipsis, masks and index arrays, sometimes out of range.

    Index arrays broadcast together, except with masks, whose number of elements is up to chance.
    """
    block = tuple(rng.integers(1, 4, rng.integers(0, 3)).tolist())
    wrong = rng.random() < 0.05  # an index may be out of range
    entries, axis, dots = [], 0, False
    kinds = ["slice", "slice", "array", "array", "int", "int", "mask", "zero"]
    while rng.random() < 0.85:
        draw = rng.random()
        if draw < 0.1:
            entries.append(None)
            continue
        if draw < 0.2 and not dots:
            entries.append(Ellipsis)
            dots, axis = True, int(rng.integers(axis, len(shape) + 1))
            continue
        if draw < 0.25:
            entries.append(bool(rng.integers(0, 2)))
            continue
        if axis >= len(shape):
            break
        kind, n = rng.choice(kinds), shape[axis]
        low, high = (-n - wrong, n + wrong) if n else (-1, 1)
        if kind == "slice" or not n:
            entries.append(random_slice(rng, n))
        elif kind == "int":
            entries.append(int(rng.integers(low, high)))
        elif kind == "zero":
            entries.append(np.array(rng.integers(low, high)))
        elif kind == "array":
            own = [k if rng.random() < 0.8 else 1 for k in block[rng.integers(0, len(block) + 1) :]]
            dtype = rng.choice([np.int64, np.int32, np.int8])
            entries.append(rng.integers(low, high, own).astype(dtype))
        else:
            width = int(rng.integers(1, len(shape) - axis + 1))
            entries.append(rng.integers(0, 2, shape[axis : axis + width]).astype(bool))
            axis += width - 1
        axis += 1
    return tuple(entries)
