"""Attention on NumPy arrays: how it is cut, its compiled kernels, and what it is in NumPy.

q (batch, heads, targets, features), k (batch, kv heads, sources, features), v (batch, kv heads,
sources, depth), a mask that broadcasts to (batch, heads, targets, sources), lse and delta (batch,
heads, targets).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from fx import limits
from fx.backends.cpu._arrays import narrowed, widen
from fx.backends.cpu.llvm import any_size
from fx.dtypes import FLOATING

_FLOATS = (np.dtype(np.float32), np.dtype(np.float64))
Four = Sequence[int]
# rows of scratch, as long as a block of queries in whole vectors: places in ``sizes`` of how many,
# None for one
_FEATURES, _DEPTH, _QUERIES, _KEYS = 4, 5, 7, 8
FORWARD_ROWS = (_FEATURES, _DEPTH, _KEYS, _KEYS, None, None)
BACKWARD_ROWS = (_FEATURES, _DEPTH, _FEATURES, _KEYS, _KEYS, _KEYS, None, None)
LINE = 64  # bytes of a cache line, where scratch begins; no vector is longer


class Cut(NamedTuple):
    """How attention of given sizes is computed.

    Attributes:
        sizes: the numbers of ``any_size/attention.py``, but for the strides.
        tasks: of the kernel.
        cost: nanoseconds of all of them.
        parts: that dk and dv are added up from.
        room: bytes of scratch that a thread takes.
    """

    sizes: tuple[int, ...]
    tasks: int
    cost: float
    parts: int
    room: int = 0

    @property
    def counts(self) -> list[int]:
        """What calls begin with: how many tasks, and how many a thread takes at once."""
        chunk = any_size.chunk_of(self.tasks, self.cost / self.tasks)
        return [self.tasks, max(chunk, -(-self.tasks // _ROOMS)) if chunk else 0]


def cut(q: Four, k: Four, v: Four, itemsize: int, causal: bool, back: bool) -> Cut:
    """The tasks of the kernel for arrays of these shapes, which alone decide."""
    batch, heads, targets, features = q
    kv_heads, sources, depth = v[1:]
    queries, keys = limits.ATTENTION_QUERIES, limits.ATTENTION_KEYS
    blocks, group = -(-targets // queries), heads // kv_heads
    tasks, parts = batch * heads * blocks, 1
    if back:
        tasks = batch * kv_heads
        parts = max(1, min(group * blocks, limits.ATTENTION_TASKS // tasks))
        tasks *= parts
    pairs = batch * heads * targets * sources * (0.5 if causal else 1.0)
    cost = pairs * ((features + depth) * (2.5 if back else 1.0) + 16) * itemsize / 200
    sizes = (heads, group, targets, sources, features, depth, int(causal), queries, keys, blocks)
    room = scratch_bytes(sizes, BACKWARD_ROWS if back else FORWARD_ROWS, itemsize)
    return Cut((*sizes, parts), tasks, cost, parts, room)


def scratch_bytes(sizes: Sequence[int], rows: Sequence[int | None], itemsize: int) -> int:
    """Bytes of scratch that a thread takes, at an address where no line needs to begin."""
    pitch = -(-sizes[_QUERIES] // LINE) * LINE
    return LINE + sum([1 if i is None else sizes[i] for i in rows]) * pitch * itemsize


def sum_of_parts(plan: Cut, length: int) -> Cut:
    """That of ``total``, for rows of ``length`` numbers."""
    _, _, _, sources, *_ = sizes = plan.sizes
    tasks = plan.tasks // plan.parts
    cost = plan.tasks * sources * length * 0.2
    return Cut((*sizes[:4], length, *sizes[5:]), tasks, cost, plan.parts)


def strides(shape: Four, steps: Four) -> tuple[int, ...]:
    """Strides, 0 along axes of one element, which may broadcast."""
    return tuple([step if n > 1 else 0 for n, step in zip(shape, steps)])


class _Call(NamedTuple):
    """What a call of a kernel has besides arrays; it depends on their sizes and strides alone."""

    plan: Cut
    counts: list[int]
    numbers: np.ndarray

    def scratch(self) -> list[Any]:
        """Memory for as many threads as may run, and which of it is a thread's."""
        tasks, chunk = self.counts
        chunk, room = chunk or tasks, self.plan.room
        return [np.empty(-(-tasks // chunk) * room, np.uint8), room, chunk]


_ROOMS = 64  # at most so many pieces a call is shared in
_MOST = 1024
_calls: dict[Any, _Call] = {}
limits.on_change(_calls.clear)
_Arrays = list[np.ndarray | None]


def _prepared(causal: bool, *given: np.ndarray | None) -> tuple[_Call, _Arrays]:
    """The call for q, k, v, a mask, and ct, lse and delta on the way back; and these, or copies.

    Their strides are whole numbers of elements, and features of q and ct are dense.
    """
    arrays: _Arrays = list(given)
    aligned = True
    key: list[Any] = [causal]
    for x in given:
        if x is not None:
            key += (x.dtype, x.shape, x.strides)
            aligned = aligned and x.flags.aligned
        else:
            key.append(None)
    found = _calls.get(tuple(key)) if aligned else None
    if found is None:
        _check_fit(*given)
        arrays = [_whole(x, place in _DENSE, place in _LINES) for place, x in enumerate(given)]
        found = _new_call(arrays, causal)
        if aligned and all(x is y for x, y in zip(arrays, given)):
            if len(_calls) >= _MOST:
                _calls.clear()
            _calls[tuple(key)] = found
    return found, arrays


_DENSE, _LINES = (0, 4), (5, 6)  # places whose last axis, and whose all axes, lie densely


def _check_fit(q: Any, k: Any, v: Any, mask: Any = None, *back: Any) -> None:
    """Refuse what the spec rules refuse; those say why."""
    fits = q.ndim == k.ndim == v.ndim == 4 and q.shape[0] == k.shape[0] == v.shape[0]
    fits = fits and q.shape[3] == k.shape[3] and k.shape[1:3] == v.shape[1:3]
    fits = fits and (q.shape[1] % k.shape[1] == 0 if k.shape[1] else not q.shape[1])
    scores = (*q.shape[:3], *k.shape[2:3])
    if mask is not None:
        fits = fits and mask.ndim == 4 and all(m in (1, n) for m, n in zip(mask.shape, scores))
    if back:
        fits = fits and back[0].shape == (*q.shape[:3], *v.shape[3:])
        fits = fits and back[1].shape == back[2].shape == q.shape[:3]
    if not fits or any(x is not None and x.dtype != q.dtype for x in (k, v, mask, *back)):
        raise ValueError("the spec rule says why")


def _whole(x: Any, dense: bool, lines: bool) -> Any:
    """x, or a copy where it does not lie as it has to."""
    if x is None:
        return None
    size, last = x.itemsize, x.strides[-1]
    fits = x.flags.aligned and not any(s % size for s in x.strides)
    fits = fits and (not dense or last == size or x.shape[-1] == 1)
    return x if fits and (not lines or x.flags.c_contiguous) else x.copy("C")


def _new_call(arrays: _Arrays, causal: bool) -> _Call:
    q, k, v, _, ct, *_ = (*arrays, None)
    assert q is not None and k is not None and v is not None
    plan = cut(q.shape, k.shape, v.shape, q.itemsize, causal, ct is not None)
    (_, heads, targets, _), depth = q.shape, v.shape[3]
    found = list(plan.sizes)
    for x in arrays[:4]:
        found += (0,) * 4 if x is None else [s // x.itemsize for s in strides(x.shape, x.strides)]
    row = heads * depth
    out = (targets * row, depth, row, 1)  # heads side by side, as the next layer takes them
    found += out if ct is None else [s // ct.itemsize for s in strides(ct.shape, ct.strides)]
    return _Call(plan, plan.counts, np.array(found, np.int64))


def _served(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> Any:
    """Whether the kernels take arrays of this dtype, and there are some elements everywhere."""
    return q.dtype in _FLOATS and q.size and k.size and v.size and any_size.available()


def _widened(*xs: np.ndarray) -> list[np.ndarray]:
    """16-bit numbers of one dtype as float32."""
    if xs[0].dtype not in FLOATING or any(x.dtype != xs[0].dtype for x in xs):
        raise ValueError("the spec rule says why")
    return [widen(x) for x in xs]


def attention(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, *masks: np.ndarray, causal: bool, scale: float
) -> tuple[np.ndarray, np.ndarray]:
    """softmax(q @ k.T * scale + mask) @ v and the logarithms of the sums of the exponentials."""
    dtype = q.dtype
    if dtype not in _FLOATS:
        found = attention(*_widened(q, k, v, *masks), causal=causal, scale=scale)
        return narrowed(found[0], dtype), narrowed(found[1], dtype)
    if not _served(q, k, v):
        _check_fit(q, k, v, *masks)
        return attention_plain(q, k, v, *masks, causal=causal, scale=scale)
    call, arrays = _prepared(causal, q, k, v, masks[0] if masks else None)
    batch, heads, targets, _ = q.shape
    out = any_size.empty([q, batch, targets, heads, v.shape[3]]).transpose(0, 2, 1, 3)
    lse = any_size.empty([q, batch, heads, targets])
    any_size.kernel("attention", "forward", dtype.char)(
        [*call.counts, *arrays, lse, out, *_NONE[:4], scale, call.numbers, *call.scratch()]
    )
    return out, lse


_NONE = [None] * 8


def attention_grad(
    ct: np.ndarray, q: np.ndarray, k: np.ndarray, v: np.ndarray, lse: np.ndarray,
    delta: np.ndarray, *masks: np.ndarray, causal: bool, scale: float,
) -> tuple[np.ndarray, ...]:  # fmt: skip
    """The cotangents of q, k and v, from that of the result; delta is the sum of ct * out."""
    dtype = q.dtype
    if dtype not in _FLOATS:
        wide = _widened(ct, q, k, v, lse, delta, *masks)
        found = attention_grad(*wide, causal=causal, scale=scale)
        return tuple([narrowed(x, dtype) for x in found])
    if not _served(q, k, v):
        _check_fit(q, k, v, masks[0] if masks else None, ct, lse, delta)
        args = (ct, q, k, v, lse, delta, *masks)
        return attention_grad_plain(*args, causal=causal, scale=scale)
    mask = masks[0] if masks else None
    call, arrays = _prepared(causal, q, k, v, mask, ct, lse, delta)
    q, k, v, mask, ct, lse, delta = arrays
    dq = any_size.empty([q, *q.shape])
    batch, kv_heads, sources, depth = v.shape
    parts = call.plan.parts
    shape = (batch, kv_heads, sources) if parts == 1 else (batch, kv_heads, parts, sources)
    dk, dv = any_size.empty([q, *shape, q.shape[3]]), any_size.empty([q, *shape, depth])
    any_size.kernel("attention", "backward", dtype.char)(
        [*call.counts, q, k, v, mask, lse, ct, delta, dq, dk, dv, scale, call.numbers,
         *call.scratch()]
    )  # fmt: skip
    if parts == 1:
        return dq, dk, dv
    return dq, _joined(call.plan, dk), _joined(call.plan, dv)


def _joined(plan: Cut, x: np.ndarray) -> np.ndarray:
    """x (batch, kv heads, parts, sources, length) without its parts."""
    batch, kv_heads, _, sources, length = x.shape
    out = any_size.empty([x, batch, kv_heads, sources, length])
    total = sum_of_parts(plan, length)
    numbers = np.array((*total.sizes, *[0] * 20), np.int64)
    any_size.kernel("attention", "total", x.dtype.char)(
        [*total.counts, x, out, *_NONE, 1.0, numbers]
    )
    return out


# in NumPy ---------------------------------------------------------------------------------------


def _scores(q: Any, k: Any, masks: Any, causal: bool, scale: float) -> Any:
    group = q.shape[1] // k.shape[1] if k.shape[1] else 1
    k = np.repeat(k, group, 1)
    s = np.matmul(q * q.dtype.type(scale), k.swapaxes(2, 3))
    for mask in masks:
        s = s + mask
    if causal:
        s = np.where(np.tri(*s.shape[2:], dtype=bool), s, s.dtype.type(-np.inf))
    return s, group


def attention_plain(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, *masks: np.ndarray, causal: bool, scale: float
) -> tuple[np.ndarray, np.ndarray]:
    """``attention`` with all scores at once."""
    with np.errstate(all="ignore"):
        s, group = _scores(q, k, masks, causal, scale)
        top = s.max(3, keepdims=True, initial=-np.inf)
        top = np.where(np.isneginf(top), s.dtype.type(0), top)
        p = np.exp(s - top)
        total = p.sum(3, keepdims=True)
        out = np.matmul(p, np.repeat(v, group, 1)) / np.where(total == 0, s.dtype.type(1), total)
        return out, (top + np.log(total))[..., 0]


def attention_grad_plain(
    ct: np.ndarray, q: np.ndarray, k: np.ndarray, v: np.ndarray, lse: np.ndarray,
    delta: np.ndarray, *masks: np.ndarray, causal: bool, scale: float,
) -> tuple[np.ndarray, ...]:  # fmt: skip
    """``attention_grad`` with all scores at once."""
    with np.errstate(all="ignore"):
        s, group = _scores(q, k, masks, causal, scale)
        lse = np.where(np.isneginf(lse), s.dtype.type(np.inf), lse)
        p = np.exp(s - lse[..., None])
        g = p * (np.matmul(ct, np.repeat(v, group, 1).swapaxes(2, 3)) - delta[..., None])
        g = g * s.dtype.type(scale)
        dq = np.matmul(g, np.repeat(k, group, 1))
        dk, dv = np.matmul(g.swapaxes(2, 3), q), np.matmul(p.swapaxes(2, 3), ct)
    shared = lambda x: x.reshape(*k.shape[:2], group, *x.shape[2:]).sum(2)
    return dq, shared(dk), shared(dv)
