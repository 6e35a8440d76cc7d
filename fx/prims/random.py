"""Random bits: pure functions of a key. Distributions are built on them.

A key is six uint32 words (seed, stream, call and lane, two words each but stream and call).
"""

from __future__ import annotations

import fx.prims.factors as factors
import fx.prims.shape as shape_prims
from fx.dtypes import uint32
from fx.errors import DTypeError, ShapeError
from fx.primitive import NOT_DIFFERENTIABLE, define
from fx.prims.axes import check_integer
from fx.prims.families import broadcast_shapes, to_front
from fx.prims.sampling import Sample

KEY_WORDS = 6


def check_key(name, key):
    """Refuse what is no key, or no array of keys.

    Raises:
        DTypeError, ShapeError: with the line that makes a key.
    """
    if key.dtype != uint32:
        raise DTypeError(
            f"{name}: a key is uint32, got {key.dtype.name}; make one with fx.random.key(seed)"
        )
    if key.ndim == 0 or key.shape[-1] != KEY_WORDS:
        raise ShapeError(
            f"{name}: a key has {KEY_WORDS} words along its last axis, got shape {key.shape}; "
            f"make one with fx.random.key(seed)"
        )


def keys(d, shape=()):
    """Keys, for samplers."""
    return d.integers((*shape, KEY_WORDS), 0, 2**32, "uint32")


def _random_bits_spec(key, *, shape):
    check_key("random_bits", key)
    return key.with_(shape=(*key.shape[:-1], *shape))


random_bits = define(  # uniform uint32 words: key (*B, 6) -> (*B, *shape)
    "random_bits", weight=20, spec=_random_bits_spec,
    jvp=NOT_DIFFERENTIABLE,
    vjp=NOT_DIFFERENTIABLE,
    sharding=factors.drawn,
    batch=lambda level, args, dims, *, shape: (
        random_bits(to_front(args[0], dims[0]), shape=shape), 0
    ),
    sample=lambda d: Sample([keys(d, d.shape(0, 2))], {"shape": d.shape(low=0)}),
)  # fmt: skip


def _key_and_number_spec(name):
    def spec(key, number):
        check_key(name, key)
        check_integer(name, "numbers", number)
        lead = broadcast_shapes(name, key.shape[:-1], number.shape)
        return key.with_(shape=(*lead, KEY_WORDS))

    return spec


def _key_and_number_batch(get):
    """The rule of key (*B, 6), numbers (*N) -> (*broadcast(B, N), 6)."""

    def batch(level, args, dims):
        key, number = args
        dk, dn = dims
        rank = max(key.ndim - 1 - (dk is not None), number.ndim - (dn is not None))
        if dk is not None:
            key = _aligned(to_front(key, dk), rank + 2)
        if dn is not None:
            number = _aligned(to_front(number, dn), rank + 1)
        return get()(key, number), 0

    return batch


def _aligned(x, ndim):
    """Ones after the lanes, so that what follows broadcasts."""
    if x.ndim == ndim:
        return x
    ones = (1,) * (ndim - x.ndim)
    return shape_prims.reshaped(x, (x.shape[0], *ones, *x.shape[1:]))


def _key_and_number_sample(d):
    shape = d.shape(0, 2)
    return Sample([keys(d, shape), d.integers(d.broadcastable(shape), 0, 100)])


derive = define(  # a new key for each number: key (*B, 6), data (*D) -> (*broadcast(B, D), 6)
    "derive", spec=_key_and_number_spec("derive"),
    jvp=NOT_DIFFERENTIABLE,
    vjp=NOT_DIFFERENTIABLE,
    sharding=factors.einsum("..._,...->..._"),
    batch=_key_and_number_batch(lambda: derive),
    sample=_key_and_number_sample,
)  # fmt: skip
with_lane = define(  # the same key with other lane words
    "with_lane", spec=_key_and_number_spec("with_lane"),
    jvp=NOT_DIFFERENTIABLE,
    vjp=NOT_DIFFERENTIABLE,
    sharding=factors.einsum("..._,...->..._"),
    batch=_key_and_number_batch(lambda: with_lane),
    sample=_key_and_number_sample,
)  # fmt: skip


def _next_key_spec(key):
    check_key("next_key", key)
    return key


next_key = define(  # the key of the call after this one
    "next_key", spec=_next_key_spec,
    jvp=NOT_DIFFERENTIABLE,
    vjp=NOT_DIFFERENTIABLE,
    sharding=factors.einsum("..._->..._"),
    batch=lambda level, args, dims: (next_key(to_front(args[0], dims[0])), 0),
    sample=lambda d: Sample([keys(d)]),
)  # fmt: skip
