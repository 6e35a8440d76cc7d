"""Counter-based random bits: Philox 4x32-10.

Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC'11, checked
against the known-answer vectors of their Random123 library.

A key is six uint32 words: (seed_lo, seed_hi, stream, call, lane_lo, lane_hi). A Philox block maps
a 128-bit counter and a 64-bit Philox key to four words. The six words do not fit beside an
element number in one block, so they are first hashed into a 128-bit state, once a key:

    s0, s1, s2, s3 = Philox(counter=(stream, call, lane_lo, lane_hi), key=(seed_lo, seed_hi))

Everything drawn with the key then comes from blocks of that state:

    random bits:  word i = Philox(counter=(b_lo, b_hi, s2, s3), key=(s0, s1))[i % 4], b = i // 4
    derived key:  Philox(counter=(data, 0x80000000, s2, s3), key=(s0, s1)), then lanes 0, 0

A derived key takes all 128 bits of its block as (seed_lo, seed_hi, stream, call). The top bit of
b_hi is set for derived keys only, so no derived key equals bits that were drawn. Every backend
that follows these three lines draws the same bits, in any order, on any number of threads.
"""

from math import prod
from typing import Any

import numpy as np

from fx import limits
from fx.backends.cpu import _np_draws
from fx.backends.cpu._formulas import philox
from fx.backends.cpu.llvm import any_size
from fx.prims.random import KEY_WORDS

_ONE_KEY = (KEY_WORDS,)
_UINT32 = np.dtype(np.uint32)
FEW = 2048  # samples that are drawn without a word about threads

_early_draws = 0
# the kernels that have been asked for, by name and dtype, and an array like those that they make
loaded: dict[Any, tuple[any_size.Run, np.ndarray]] = {}
limits.on_change(loaded.clear)


def is_early(size: int) -> bool:
    """Whether a draw of so many words is NumPy's: small, and one of the first of the process.

    Not many of them are worth the time that it takes to load a compiler, and all are the same bits.
    """
    global _early_draws
    if size > limits.EARLY_WORDS or _early_draws >= limits.EARLY_DRAWS:
        return False
    _early_draws += 1
    return True


def drawn(
    name: str, dtype: Any, key: np.ndarray, shape: tuple[int, ...], *more: Any
) -> np.ndarray | None:
    """What a kernel of ``any_size/draws`` makes of keys; None where NumPy is to do it.

    Args:
        name: the kernel's.
        dtype: of the result.
        key: uint32 (*B, 6).
        shape: of the result of a key.
        more: the kernel's own arguments.
    """
    n, lead = prod(shape), key.shape[:-1]
    size = n * prod(lead) if lead else n
    found = loaded.get((name, dtype))
    if found is None:
        if not size or (not loaded and is_early(size)) or not any_size.available():
            return None
        run = any_size.kernel("draws", name, np.dtype(dtype).name)
        found = loaded[name, dtype] = run, np.zeros(1, dtype)
    run, like = found
    out = any_size.empty([like, *lead, *shape])
    if size:
        piece = limits.DRAW_PIECE
        tasks = (size // n) * -(-n // piece)
        chunk = 0 if size < FEW else any_size.chunk_of(tasks, 1.5 * min(n, piece))
        run([tasks, chunk, dense(key), out, n, None, *more])
    return out


def dense(x: np.ndarray) -> np.ndarray:
    """The array, C-contiguous."""
    return x if x.flags.c_contiguous else x.copy()


def key_rows(key: np.ndarray) -> np.ndarray:
    """Keys (*B, 6) as (rows, 6)."""
    return key.reshape(-1, KEY_WORDS)


def philox4x32(counter: np.ndarray, key: np.ndarray) -> np.ndarray:
    """One Philox 4x32-10 block a row: counter (*B, 4), key (*B, 2) uint32 -> (*B, 4) uint32."""
    counter = _words(counter, 4, "counter")
    key = _words(key, 2, "key")
    given = [x[..., i].astype(np.uint64) for x, n in ((counter, 4), (key, 2)) for i in range(n)]
    return np.stack(np.broadcast_arrays(*philox(*given)), -1).astype(np.uint32)


def random_bits(
    key: np.ndarray, *, shape: tuple[int, ...], lanes: np.ndarray | None = None
) -> np.ndarray:
    """Uniform uint32 words: key (*B, 6) -> (*B, *shape).

    Element i (in C order) of a row is word i % 4 of block i // 4, so a shorter draw is a prefix of
    a longer one. `lanes`, integers that broadcast against B, replace the lane words of `key`.
    """
    key = _words(key, KEY_WORDS, "key")
    if lanes is not None:
        key = with_lane(key, lanes)
    out = drawn("bits", _UINT32, key, shape)
    if out is None:
        out = _np_draws.bits(key_rows(key), prod(shape)).reshape((*key.shape[:-1], *shape))
    return out


def with_lane(key: np.ndarray, lanes: np.ndarray) -> np.ndarray:
    """`key` (*B, 6) with its lane words set to the 64-bit `lanes` (*L): (*broadcast(B, L), 6)."""
    key = _words(key, KEY_WORDS, "key")
    lanes = np.asarray(lanes).astype(np.uint64)
    out = np.empty((*np.broadcast_shapes(key.shape[:-1], lanes.shape), KEY_WORDS), np.uint32)
    out[...] = key
    out[..., 4] = lanes & np.uint64(0xFFFFFFFF)
    out[..., 5] = lanes >> np.uint64(32)
    return out


def derive(key: np.ndarray, data: np.ndarray) -> np.ndarray:
    """A new key for each number in `data`: key (*B, 6), data (*D) -> (*broadcast(B, D), 6).

    Only the low 32 bits of `data` count. Equal (key, data) give equal keys; all others are
    independent of each other and of the bits drawn with `key`.
    """
    key = _words(key, KEY_WORDS, "key")
    data = np.asarray(data)
    if data.dtype != np.uint32:
        data = (data.astype(np.int64) & 0xFFFFFFFF).astype(np.uint32)
    batch = np.broadcast_shapes(key.shape[:-1], data.shape)
    keys = dense(np.broadcast_to(key, (*batch, KEY_WORDS)))
    data = dense(np.broadcast_to(data, batch))
    if not data.size or (not loaded and is_early(4 * data.size)) or not any_size.available():
        return _np_draws.derive(key_rows(keys), data.reshape(-1)).reshape(keys.shape)
    out = np.empty(keys.shape, np.uint32)
    chunk = any_size.chunk_of(data.size, 30.0)
    any_size.kernel("draws", "derive", "uint32")([data.size, chunk, keys, data, out])
    return out


def split(key: np.ndarray, n: int) -> np.ndarray:
    """`n` new keys: key (*B, 6) -> (*B, n, 6), where [..., i, :] is `derive(key, i)`."""
    key = _words(key, KEY_WORDS, "key")
    return derive(key[..., None, :], np.arange(n, dtype=np.uint32))


def next_key(key: np.ndarray) -> np.ndarray:
    """The key of the next call: the call word plus one, carried into the stream word."""
    if key.shape != _ONE_KEY:
        key = _words(key, KEY_WORDS, "key")
    out = key.copy()
    if key.ndim == 1:  # in plain integers
        call = key.item(3) + 1
        out[3] = call & 0xFFFFFFFF
        if call >> 32:
            out[2] = key.item(2) + 1 & 0xFFFFFFFF
        return out
    out[..., 3] += np.uint32(1)
    out[..., 2] += out[..., 3] == 0
    return out


def _words(x: np.ndarray, count: int, name: str) -> np.ndarray:
    x = np.asarray(x)
    if x.dtype != _UINT32 or x.ndim == 0 or x.shape[-1] != count:
        raise ValueError(
            f"{name} must be a uint32 array of shape (..., {count}), got {x.dtype} {x.shape}"
        )
    return x
