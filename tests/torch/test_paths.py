"""The steps from one array to another in its memory: of any chain of views; never an error."""

import random

import numpy as np
import pytest

import fx.torch  # noqa: F401  # where the selections are
from fx.writing.layouts import on_array
from fx.writing.paths import steps


def _view(rng, m):
    """A view of an array: slices of any step, axes in another order, new axes, repeats."""
    way = rng.randrange(5)
    if way < 2 and m.ndim:
        index = []
        for n in m.shape:
            start, step = rng.randrange(n), rng.choice((-3, -2, -1, 1, 1, 2))
            index.append(
                rng.choice((slice(None), slice(start, None, step), slice(None, None, step)))
            )
        return m[tuple(index)]
    if way == 2:
        return m.transpose(rng.sample(range(m.ndim), m.ndim))
    if way == 3 and m.ndim < 4:
        return np.expand_dims(m, rng.randrange(m.ndim + 1))
    if way == 4 and 1 in m.shape:
        return np.broadcast_to(m, [rng.choice((1, 3)) if n == 1 else n for n in m.shape])
    return m


@pytest.mark.parametrize("seed", range(4))
def test_steps_lead_to_what_they_are_asked_for(seed):
    rng, found = random.Random(seed), 0
    for _ in range(300):
        shape = tuple(rng.choice((1, 2, 3, 5)) for _ in range(rng.randrange(1, 4)))
        owner = np.arange(np.prod(shape)).reshape(shape)
        r = owner if rng.random() < 0.7 else _view(rng, owner)
        m = r
        for _ in range(rng.randrange(4)):
            m = _view(rng, m)
        path = steps(r, m)
        if path is None:
            continue
        found += 1
        for primitive, params in path:
            r = on_array(primitive, r, params)
        assert r.shape == m.shape
        assert np.array_equal(r, m), path
    assert found > 200
