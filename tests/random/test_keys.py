"""Keys: seeds, split, fold_in, and their refusals."""

import numpy as np
import pytest

import fx
from fx import random
from fx.errors import DTypeError, ShapeError


@pytest.mark.parametrize(
    "seed, words",
    [
        (0, [0, 0]),
        (7, [7, 0]),
        ((5 << 32) + 3, [3, 5]),
        (-1, [2**32 - 1, 2**32 - 1]),
        (2**64 - 1, [2**32 - 1, 2**32 - 1]),
    ],
)
def test_a_key_holds_its_seed(seed, words):
    assert np.asarray(random.key(seed)).tolist() == [*words, 0, 0, 0, 0]
    if -(2**63) <= seed < 2**63:
        np.testing.assert_array_equal(random.key(fx.tensor(seed)), random.key(seed))


def test_keys_of_many_seeds():
    seeds = fx.tensor([[0, 1, -5], [2**40, 3, 4]])
    keys = random.key(seeds)
    assert keys.shape == (2, 3, 6)
    mapped = fx.vmap(fx.vmap(random.key))(seeds)
    np.testing.assert_array_equal(keys, mapped)
    np.testing.assert_array_equal(keys[1, 0], random.key(2**40))


def test_split_and_fold_in_agree():
    key = random.key(3)
    keys = random.split(key, 5)
    assert keys.dtype == fx.uint32
    np.testing.assert_array_equal(random.split(key), keys[:2])
    for i in range(5):
        np.testing.assert_array_equal(random.fold_in(key, i), keys[i])
    np.testing.assert_array_equal(random.split(key, (5, 1))[:, 0], keys)
    np.testing.assert_array_equal(fx.vmap(random.fold_in, (None, 0))(key, fx.arange(5)), keys)
    np.testing.assert_array_equal(random.fold_in(key, -1), random.fold_in(key, 2**32 - 1))
    assert random.split(key, 0).shape == (0, 6)


def test_split_maps_over_keys():
    keys = random.split(random.key(3), 4)
    mapped = fx.vmap(lambda k: random.split(k, 3))(keys)
    for i in range(4):
        np.testing.assert_array_equal(mapped[i], random.split(keys[i], 3))


def test_keys_made_in_many_ways_differ():
    key = random.key(0)
    made = [key, random.key(1), *random.split(key, 50), *random.split(random.fold_in(key, 3), 50)]
    assert len({np.asarray(k).tobytes() for k in made}) == len(made)


def test_refusals():
    with pytest.raises(DTypeError, match=r"key: a seed is an integer, got 1\.5; write fx\.random"):
        random.key(1.5)
    with pytest.raises(DTypeError, match="a seed is an integer, got float32"):
        random.key(fx.tensor(1.5))
    with pytest.raises(ValueError, match=r"a seed lies in \[-2 \*\* 63, 2 \*\* 64\), got"):
        random.key(2**64)
    with pytest.raises(ShapeError, match="split: sizes must not be negative"):
        random.split(random.key(0), -1)
    with pytest.raises(ShapeError, match=r"fold_in takes one number, got shape \(3,\); map"):
        random.fold_in(random.key(0), fx.arange(3))
    with pytest.raises(DTypeError, match="fold_in takes an integer, got float32"):
        random.fold_in(random.key(0), fx.tensor(1.0))
