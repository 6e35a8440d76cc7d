"""Random bits: pure functions of a key. Distributions are built on them.

A key is six uint32 words (seed, stream, call and lane, two words each but stream and call).
"""

from __future__ import annotations

import fx.backends.cpu.philox as cpu
import fx.prims.shape as shape_prims
from fx.dtypes import uint32
from fx.errors import DTypeError, ShapeError
from fx.prims.axes import check_integer
from fx.prims.families import broadcast_shapes, to_front
from fx.prims.sampling import Sample
from fx.primitive import NOT_DIFFERENTIABLE, define


def _check_key(name, key):
    if key.dtype != uint32:
        raise DTypeError(
            f"{name}: a key is uint32, got {key.dtype.name}; make one with fx.random.key(seed)"
        )
    if key.ndim == 0 or key.shape[-1] != cpu.KEY_WORDS:
        raise ShapeError(
            f"{name}: a key has {cpu.KEY_WORDS} words along its last axis, got shape {key.shape}; "
            f"make one with fx.random.key(seed)"
        )


def _keys(d, shape=()):
    return d.integers((*shape, cpu.KEY_WORDS), 0, 2**32, "uint32")


def _random_bits_spec(key, *, shape):
    _check_key("random_bits", key)
    return key.with_(shape=(*key.shape[:-1], *shape))


random_bits = define(  # uniform uint32 words: key (*B, 6) -> (*B, *shape)
    "random_bits", cpu=cpu.random_bits, spec=_random_bits_spec,
    jvp=NOT_DIFFERENTIABLE,
    vjp=NOT_DIFFERENTIABLE,
    batch=lambda level, args, dims, *, shape: (
        random_bits(to_front(args[0], dims[0]), shape=shape), 0
    ),
    sample=lambda d: Sample([_keys(d, d.shape(0, 2))], {"shape": d.shape(low=0)}),
)  # fmt: skip


def _derive_spec(key, data):
    _check_key("derive", key)
    check_integer("derive", "data", data)
    lead = broadcast_shapes("derive", key.shape[:-1], data.shape)
    return key.with_(shape=(*lead, cpu.KEY_WORDS))


def _derive_batch(level, args, dims):
    key, data = args
    dk, dd = dims
    rank = max(key.ndim - 1 - (dk is not None), data.ndim - (dd is not None))
    if dk is not None:
        key = _aligned(to_front(key, dk), rank + 2)
    if dd is not None:
        data = _aligned(to_front(data, dd), rank + 1)
    return derive(key, data), 0


def _aligned(x, ndim):
    """Ones after the lanes, so that what follows broadcasts."""
    if x.ndim == ndim:
        return x
    ones = (1,) * (ndim - x.ndim)
    return shape_prims.reshape(x, shape=(x.shape[0], *ones, *x.shape[1:]))


def _derive_sample(d):
    shape = d.shape(0, 2)
    return Sample([_keys(d, shape), d.integers(d.broadcastable(shape), 0, 100)])


derive = define(  # a new key for each number: key (*B, 6), data (*D) -> (*broadcast(B, D), 6)
    "derive", cpu=cpu.derive, spec=_derive_spec,
    jvp=NOT_DIFFERENTIABLE,
    vjp=NOT_DIFFERENTIABLE,
    batch=_derive_batch,
    sample=_derive_sample,
)  # fmt: skip
