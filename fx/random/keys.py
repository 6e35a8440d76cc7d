"""Keys: uint32 tensors of shape (6,) that name a stream of random numbers.

The words are (seed low, seed high, stream, call, lane low, lane high).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import fx.prims.creation as creation
import fx.prims.draws as draws
import fx.prims.random as prims
import fx.prims.shape as shape_prims
from fx import dtypes
from fx.errors import DTypeError, ShapeError
from fx.ops.convert import as_tensor
from fx.ops.operands import argument, cast
from fx.prims.compare import bitwise_and, right_shift
from fx.prims.random import KEY_WORDS
from fx.tensor import Tensor

_WORD = 0xFFFFFFFF
_ONE_KEY = (KEY_WORDS,)


def seed_words(name: str, seed: int) -> list[int]:
    """A seed as its two words; a negative one counts back from 2 ** 64.

    Raises:
        DTypeError: if it is no integer.
        ValueError: if it lies outside [-2 ** 63, 2 ** 64).
    """
    try:
        number = seed.__index__()
    except (AttributeError, TypeError):
        raise DTypeError(
            f"{name}: a seed is an integer, got {seed!r}; write fx.random.key(0)"
        ) from None
    if not -(1 << 63) <= number < 1 << 64:
        raise ValueError(f"{name}: a seed lies in [-2 ** 63, 2 ** 64), got {number}")
    return [number & _WORD, number >> 32 & _WORD]


IMPLEMENTATION = "philox4x32"


def _check_implementation(name: str, impl: Any) -> None:
    if impl is not None and impl != IMPLEMENTATION:
        raise ValueError(
            f"{name}: fx draws from one generator, {IMPLEMENTATION!r} (Philox 4x32-10), got "
            f"{impl!r}; leave it out"
        )


def key_dtype(impl: Any = None) -> Any:
    """The dtype of keys: they are uint32 tensors (6,), no dtype of their own as in JAX.

    Args:
        impl: JAX's name of the generator: ``"philox4x32"`` or None.

    Raises:
        ValueError: if another generator is asked for.

    Example:
        >>> import fx
        >>> fx.random.key_dtype() == fx.random.key(0).dtype
        True
    """
    _check_implementation("key_dtype", impl)
    return dtypes.uint32


def key(seed: Any, device: Any = None, *, impl: Any = None, dtype: Any = None) -> Tensor:
    """A key from a seed: where every stream of explicit random numbers begins.

    Args:
        seed: an int in [-2 ** 63, 2 ** 64), or an integer tensor (any shape) of seeds.
        device: the device of the key and of what is drawn with it.
        impl, dtype: JAX's names of the generator: ``"philox4x32"`` or None.

    Returns:
        uint32 (6,); (*shape, 6) for a tensor of seeds.

    Raises:
        DTypeError: if the seed is no integer.
        ValueError: if it does not fit 64 bits, or another generator is asked for.

    Example:
        >>> import fx
        >>> fx.random.uniform(fx.random.key(0), 2)
        tensor([0.7945, 0.3131])
    """
    if impl is not None or dtype is not None:
        _check_implementation("key", dtype if impl is None else impl)
    if not isinstance(seed, Tensor):
        return as_tensor([*seed_words("key", seed), 0, 0, 0, 0], dtypes.uint32, device)
    if seed.dtype not in dtypes.INTEGRAL:
        raise DTypeError(
            f"key: a seed is an integer, got {seed.dtype.name}; write seed.astype(fx.int64)"
        )
    wide = cast(argument("key", seed), dtypes.uint64)
    low = bitwise_and(wide, creation.constant_like(_WORD, wide))
    high = right_shift(wide, creation.constant_like(32, wide))
    rows = wide._shape
    words = [shape_prims.reshaped(cast(word, dtypes.uint32), (*rows, 1)) for word in (low, high)]
    rest = creation.full(
        shape=(*rows, KEY_WORDS - 2), value=0, dtype=dtypes.uint32, device=wide.device.name
    )
    return shape_prims.concatenate(*words, rest, axis=len(rows))


def PRNGKey(seed: Any, *, impl: Any = None) -> Tensor:
    """The same as ``key``: JAX's older name of it.

    Args:
        seed, impl: as of ``key``.

    Example:
        >>> import fx
        >>> bool((fx.random.PRNGKey(7) == fx.random.key(7)).all())
        True
    """
    return key(seed, impl=impl)


def key_data(keys: Any) -> Tensor:
    """The words of keys: they are tensors of words, so ``keys`` itself.

    Args:
        keys: uint32 (..., 6).

    Raises:
        DTypeError, ShapeError: if they are no keys.

    Example:
        >>> import fx
        >>> fx.random.key_data(fx.random.key(7))
        tensor([7, 0, 0, 0, 0, 0], dtype=fx.uint32)
    """
    return _as_keys("key_data", keys)


def wrap_key_data(key_bits_array: Any, *, impl: Any = None, dtype: Any = None) -> Tensor:
    """Keys of words, as ``key_data`` gives them.

    Args:
        key_bits_array: uint32 (..., 6).
        impl, dtype: as of ``key``.

    Raises:
        DTypeError, ShapeError: if they are no words of keys.
        ValueError: for another generator.

    Example:
        >>> import fx
        >>> key = fx.random.wrap_key_data(fx.random.key_data(fx.random.key(7)))
        >>> bool((key == fx.random.key(7)).all())
        True
    """
    _check_implementation("wrap_key_data", dtype if impl is None else impl)
    return _as_keys("wrap_key_data", key_bits_array)


def key_impl(keys: Any) -> str:
    """The name of the generator that draws with keys.

    Args:
        keys: uint32 (..., 6).

    Raises:
        DTypeError, ShapeError: if they are no keys.

    Example:
        >>> import fx
        >>> fx.random.key_impl(fx.random.key(0))
        'philox4x32'
    """
    _as_keys("key_impl", keys)
    return IMPLEMENTATION


def clone(key: Any) -> Tensor:
    """The same key again: it draws the same numbers.

    JAX marks with it that a key is used twice on purpose; fx does not watch that.

    Args:
        key: uint32 (..., 6).

    Raises:
        DTypeError, ShapeError: if it is no key.

    Example:
        >>> import fx
        >>> key = fx.random.key(0)
        >>> bool(fx.random.uniform(key) == fx.random.uniform(fx.random.clone(key)))
        True
    """
    return _as_keys("clone", key)


def _as_keys(name: str, value: Any) -> Tensor:
    """An argument of one key or of many."""
    if not hasattr(value, "dtype"):
        raise DTypeError(f"{name}: keys are uint32 tensors, got {value!r:.60}; {_MAKE}")
    keys = argument(name, value)
    if keys._dtype != dtypes.uint32:
        raise DTypeError(f"{name}: keys are uint32 tensors, got {keys.dtype.name}; {_MAKE}")
    if keys._shape[-1:] != _ONE_KEY:
        raise ShapeError(
            f"{name}: a key has {KEY_WORDS} words along its last axis, got {keys.shape}; {_MAKE}"
        )
    return keys


_MAKE = "make one with fx.random.key(seed)"


def as_key(name: str, value: Any) -> Tensor:
    """The key argument of a sampler.

    Raises:
        DTypeError, ShapeError: if it is none, with the line that makes one.
    """
    if type(value) is Tensor and value._dtype is dtypes.uint32 and value._shape == _ONE_KEY:
        return value
    if not hasattr(value, "dtype"):
        raise DTypeError(
            f"{name}: the first argument is a key, got {value!r:.60}; "
            f"write fx.random.{name}(fx.random.key(0), ...)"
        )
    x = argument(name, value)
    if x._dtype != dtypes.uint32:
        raise DTypeError(
            f"{name}: the first argument is a key, uint32 of shape ({KEY_WORDS},), "
            f"got {x.dtype.name} {x.shape}; write fx.random.{name}(fx.random.key(0), ...)"
        )
    if x._shape != (KEY_WORDS,):
        if x._shape[-1:] == (KEY_WORDS,):
            fix = f"draw with each of them: fx.vmap(lambda k: fx.random.{name}(k, ...))(keys)"
        else:
            fix = f"write fx.random.{name}(fx.random.key(0), ...)"
        raise ShapeError(f"{name} takes one key of shape ({KEY_WORDS},), got {x.shape}; {fix}")
    return x


def split(
    key: Tensor, n: int | Sequence[int] = 2, *, num: int | Sequence[int] | None = None
) -> Tensor:
    """New keys from a key, independent of each other and of what is drawn with ``key`` itself.

    Args:
        key: uint32 (6,).
        n: how many, or a shape of keys.
        num: JAX's name of ``n``.

    Returns:
        uint32 (n, 6), or (*n, 6).

    Raises:
        DTypeError, ShapeError: if ``key`` is no key.

    Example:
        >>> import fx
        >>> first, second = fx.random.split(fx.random.key(0))
        >>> fx.random.split(fx.random.key(0), (2, 3)).shape
        (2, 3, 6)
    """
    found = as_key("split", key)
    shape = sample_shape("split", n if num is None else num)
    count = prod(shape)
    numbers = creation.iota(
        shape=(count,), axis=0, start=0, step=1, dtype=dtypes.int64, device=found.device.name
    )
    keys = prims.derive(found, numbers)
    return keys if len(shape) == 1 else shape_prims.reshaped(keys, (*shape, KEY_WORDS))


def fold_in(key: Tensor, data: Any) -> Tensor:
    """A new key from a key and a number, such as a step or the index of a layer.

    ``fold_in(key, i)`` equals ``split(key, n)[i]`` for every n > i.

    Args:
        key: uint32 (6,).
        data: an int, or an integer tensor (); its low 32 bits count.

    Returns:
        uint32 (6,).

    Raises:
        DTypeError, ShapeError: if ``key`` is no key or ``data`` no integer scalar.

    Example:
        >>> import fx
        >>> key = fx.random.key(0)
        >>> fx.random.fold_in(key, 7).shape
        (6,)
    """
    found = as_key("fold_in", key)
    if isinstance(data, int):
        number = creation.constant(data & _WORD, dtypes.int64, found.device.name)
    else:
        number = argument("fold_in", data)
        if number._dtype not in dtypes.INTEGRAL:
            raise DTypeError(
                f"fold_in takes an integer, got {number.dtype.name}; write data.astype(fx.int64)"
            )
        if number._shape != ():
            raise ShapeError(
                f"fold_in takes one number, got shape {number.shape}; "
                f"map over them: fx.vmap(fx.random.fold_in, (None, 0))(key, data)"
            )
    return prims.derive(found, number)


def child(key: Tensor, i: int) -> Tensor:
    """``split(key, n)[i]``, for samplers that need several keys."""
    return prims.derive(key, creation.constant(i, dtypes.int64, key.device.name))


def sample_shape(name: str, shape: Any) -> tuple[int, ...]:
    """A shape argument as a tuple of ints.

    Raises:
        DTypeError: if a size is no integer.
        ShapeError: if one is negative.
    """
    for n in shape if type(shape) is tuple else (None,):
        if type(n) is not int or n < 0:
            break
    else:
        return shape  # type: ignore[no-any-return]
    given = shape if isinstance(shape, Sequence) else (shape,)
    try:
        out = tuple([n.__index__() for n in given])
    except (AttributeError, TypeError):
        raise DTypeError(
            f"{name}: a shape is an int or a tuple of ints, got {shape!r:.60}; "
            f"write fx.random.{name}(key, (2, 3))"
        ) from None
    if out and min(out) < 0:
        raise ShapeError(f"{name}: sizes must not be negative, got {out}")
    return out


def wide_words(key: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Uniform uint64 words."""
    everything = creation.constant(0, dtypes.uint64, key.device.name)  # stands for 2 ** 64
    return draws.random_below(key, everything, planes=2, shape=shape)
