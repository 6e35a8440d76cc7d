"""JAX in float64 as the oracle: the same function is written once, for both array modules."""

import contextlib

import numpy as np
import pytest

import fx

jax = pytest.importorskip("jax")
jnp = jax.numpy


def x64():
    """JAX with float64, within the block only."""
    return jax.enable_x64(True)


def ours(tree):
    """NumPy arrays in a pytree as float64 tensors of fx."""
    return fx.tree.map(lambda x: fx.tensor(np.asarray(x)), tree)


def theirs(tree):
    """The same as arrays of JAX; call it inside ``x64``."""
    return jax.tree_util.tree_map(jnp.asarray, tree)


def array(x):
    """The values of a tensor, an array or a number."""
    return np.asarray(x.detach() if isinstance(x, fx.Tensor) else x)


def same(found, expected, rtol=1e-9, atol=1e-11):
    """Whether two pytrees hold the same numbers in the same structure."""
    a, b = fx.tree.leaves(found), jax.tree_util.tree_leaves(expected)
    assert len(a) == len(b), (found, expected)
    for x, y in zip(a, b, strict=True):
        assert array(x).shape == np.shape(y)
        np.testing.assert_allclose(array(x), np.asarray(y), rtol, atol)


@contextlib.contextmanager
def says(error, *words):
    """A block that must raise ``error`` with all ``words`` in its message."""
    with pytest.raises(error) as info:
        yield
    for word in words:
        assert word in str(info.value), f"{word!r} is not in: {info.value}"
