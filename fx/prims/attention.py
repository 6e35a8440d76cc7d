"""Attention in blocks, and its gradient: what no array of targets by sources is made for.

q (batch, heads, targets, features), k (batch, kv heads, sources, features) and v (batch, kv heads,
sources, depth), where each head of k and v serves ``heads / kv heads`` heads of q next to each
other; a mask that is added to scores broadcasts to (batch, heads, targets, sources).

The results are out (batch, heads, targets, depth) and lse (batch, heads, targets), the logarithms
of the sums of the exponentials of the scores. From them the way back computes the scores once more,
block by block. A target that sees nothing has an lse of -inf, and its result is 0.
"""

from __future__ import annotations

import math

import fx.prims.factors as factors
import fx.prims.shape as shape_prims
from fx.config import modes
from fx.dtypes import float32, int64
from fx.errors import ShapeError
from fx.primitive import define
from fx.prims.axes import check_real_floating
from fx.prims.compare import astype, equal, where
from fx.prims.creation import constant_like, iota, zeros_like_spec
from fx.prims.elementwise import exp
from fx.prims.families import same_dtype, to_front
from fx.prims.fused import fuse, of_reference
from fx.prims.linear import matmul, swap_last
from fx.prims.reduction import logsumexp, softmax, sum
from fx.prims.sampling import Sample

# the same by primitives: heads are (kv heads, group) ----------------------------------------------


def _apart(kv_heads, x):
    """(batch, heads, ...) as (batch, kv heads, group, ...); one head serves all."""
    lead = (1, 1) if x.shape[1] == 1 else (kv_heads, x.shape[1] // kv_heads)
    return shape_prims.reshaped(x, (x.shape[0], *lead, *x.shape[2:]))


def _together(x):
    """(batch, kv heads, group, ...) as (batch, heads, ...)."""
    return shape_prims.reshaped(x, (x.shape[0], x.shape[1] * x.shape[2], *x.shape[3:]))


def _shared(x):
    """(batch, kv heads, ...) as (batch, kv heads, 1, ...)."""
    return shape_prims.reshaped(x, (*x.shape[:2], 1, *x.shape[2:]))


def _scores(q, k, masks, causal, scale):
    """(batch, kv heads, group, targets, sources)."""
    s = matmul(q * scale, swap_last(k))
    for mask in masks:
        s = s + mask
    if not causal:
        return s
    targets, sources = s.shape[-2:]
    like = {"start": 0, "step": 1, "dtype": int64, "device": s.device.name}
    row, column = iota(shape=(targets, 1), axis=0, **like), iota(shape=(1, sources), axis=1, **like)
    return where(row >= column, s, constant_like(-math.inf, s))


def _weights(s, lse):
    """exp(s - lse), 0 in rows that see nothing; lse (batch, kv heads, group, targets, 1)."""
    never = equal(lse, constant_like(-math.inf, lse))
    return exp(s - where(never, constant_like(math.inf, lse), lse))


def _five(q, k, v, masks):
    n = k.shape[1]
    return _apart(n, q), _shared(k), _shared(v), [_apart(n, mask) for mask in masks]


def _column(kv_heads, x):
    """(batch, heads, targets) as (batch, kv heads, group, targets, 1)."""
    return shape_prims.reshaped(_apart(kv_heads, x), (*_apart(kv_heads, x).shape, 1))


def _in_float32(get, formula):
    """A formula that takes 16-bit numbers to the primitive of float32, as its kernel does."""

    def widened(*args, **params):
        dtype = args[0].dtype
        if dtype.itemsize >= 4:
            return formula(*args, **params)
        found = get()(*[astype(x, dtype=float32) for x in args], **params)
        return tuple([astype(x, dtype=dtype) for x in found])

    return widened


def _formula(q, k, v, *masks, causal, scale):
    q, k, v, masks = _five(q, k, v, masks)
    s = _scores(q, k, masks, causal, scale)
    lse = logsumexp(s, axes=(4,), keepdims=True)
    out = _together(matmul(_weights(s, lse), v))
    return out, shape_prims.reshaped(lse, out.shape[:3])


def _grad_formula(ct, q, k, v, lse, delta, *masks, causal, scale):
    n = k.shape[1]
    q, k, v, masks = _five(q, k, v, masks)
    ct, delta = _apart(n, ct), _column(n, delta)
    p = _weights(_scores(q, k, masks, causal, scale), _column(n, lse))
    g = p * (matmul(ct, swap_last(v)) - delta) * scale
    of_group = lambda x: sum(x, axes=(2,), keepdims=False)
    return (
        _together(matmul(g, k)),
        of_group(matmul(swap_last(g), q)),
        of_group(matmul(swap_last(p), ct)),
    )


# derivatives ------------------------------------------------------------------------------------


def _plus(*terms):
    """The sum of what is not None; None if nothing is left."""
    found = None
    for x in terms:
        if x is not None:
            found = x if found is None else found + x
    return found


def _product(x, y):
    return None if x is None or y is None else matmul(x, y)


def _turned(x):
    return None if x is None else swap_last(x)


def _score_tangent(q, k, tq, tk, tmasks, scale):
    """Of the scores; None if they do not change."""
    t = _plus(_product(tq, swap_last(k)), _product(q, _turned(tk)))
    return _plus(None if t is None else t * scale, *tmasks)


def _maybe(f, x):
    return None if x is None else f(x)


def _jvp(primals, tangents, *, causal, scale):
    q, k, v, *masks = primals
    n = k.shape[1]
    out, lse = attention(*primals, causal=causal, scale=scale)
    q, k, v, masks = _five(q, k, v, masks)
    p = _weights(_scores(q, k, masks, causal, scale), _column(n, lse))
    tq, *tmasks = [_maybe(lambda x: _apart(n, x), t) for t in (tangents[0], *tangents[3:])]
    tk, tv = [_maybe(_shared, t) for t in tangents[1:3]]
    ts, tlse = _score_tangent(q, k, tq, tk, tmasks, scale), None
    tout = _product(p, tv)
    if ts is not None:
        tlse = sum(p * ts, axes=(4,), keepdims=True)
        tout = _plus(tout, matmul(p * (ts - tlse), v))
        tlse = shape_prims.reshaped(tlse, lse.shape)
    return (out, lse), (_together(tout), tlse)


def _vjp(needs, q, k, v, *masks, causal, scale):
    scored = any(needs[i] is not None for i in range(len(needs)) if i != 2)
    shape_of_v = v.spec
    v = v if scored else None  # its own cotangent does not depend on it
    params = {"causal": causal, "scale": scale}

    def pullback(cts, out, lse):
        ct, of_lse = cts
        ct = zeros_like_spec(out.spec) if ct is None else ct
        delta = sum(ct * out, axes=(3,), keepdims=False)
        delta = delta if of_lse is None else delta - of_lse
        args = (ct, q, k, zeros_like_spec(shape_of_v) if v is None else v, lse, delta, *masks)
        found = attention_grad(*args, **params)
        if masks:
            found = (*found, None if needs[3] is None else _mask_cotangent(*args, **params))
        return tuple([None if n is None else x for n, x in zip(needs, found, strict=True)])

    return pullback


def _mask_cotangent(ct, q, k, v, lse, delta, mask, *, causal, scale):
    """The gradient of the scores, added up over the axes along which the mask broadcasts."""
    n = k.shape[1]
    q, k, v, masks = _five(q, k, v, [mask])
    p = _weights(_scores(q, k, masks, causal, scale), _column(n, lse))
    g = p * (matmul(_apart(n, ct), swap_last(v)) - _column(n, delta))
    return shape_prims.sum_to(_together(g), shape=mask.shape)


def _grad_jvp(primals, tangents, *, causal, scale):
    ct, q, k, v, lse, delta, *masks = primals
    n = k.shape[1]
    found = attention_grad(*primals, causal=causal, scale=scale)
    q, k, v, masks = _five(q, k, v, masks)
    ct = _apart(n, ct)
    p = _weights(_scores(q, k, masks, causal, scale), _column(n, lse))
    a = matmul(ct, swap_last(v)) - _column(n, delta)
    tct, tq, *tmasks = [_maybe(lambda x: _apart(n, x), t) for t in (*tangents[:2], *tangents[6:])]
    tk, tv = [_maybe(_shared, t) for t in tangents[2:4]]
    tlse, tdelta = [_maybe(lambda x: _column(n, x), t) for t in tangents[4:6]]
    ts = _plus(_score_tangent(q, k, tq, tk, tmasks, scale), _maybe(lambda x: -x, tlse))
    ta = _plus(_product(tct, swap_last(v)), _product(ct, _turned(tv)), _maybe(lambda x: -x, tdelta))
    tp = _maybe(lambda x: p * x, ts)
    g, tg = p * a, _plus(_maybe(lambda x: x * a, tp), _maybe(lambda x: p * x, ta))
    scaled = lambda x: _maybe(lambda y: y * scale, x)
    of_group = lambda x: _maybe(lambda y: sum(y, axes=(2,), keepdims=False), x)
    tdq = scaled(_plus(_product(tg, k), _product(g, tk)))
    tdk = scaled(_plus(_product(_turned(tg), q), _product(swap_last(g), tq)))
    tdv = _plus(_product(_turned(tp), ct), _product(swap_last(p), tct))
    return found, (_maybe(_together, tdq), of_group(tdk), of_group(tdv))


def _grad_vjp(needs, *primals, **params):
    ct, v, delta = 0, 3, 5  # each linear, and delta a term by itself
    unused = set()
    if all(need is None for i, need in enumerate(needs) if i not in (ct, v, delta)):
        unused = {delta, *([ct] if needs[v] is None else []), *([v] if needs[ct] is None else [])}
    specs = {i: primals[i].spec for i in unused}
    kept = [None if i in unused else x for i, x in enumerate(primals)]

    def pullback(cts):
        args = [zeros_like_spec(specs[i]) if x is None else x for i, x in enumerate(kept)]
        return _over_formula(needs, *args, **params)(cts)

    return pullback


_over_formula = of_reference(_grad_formula, multiple=True)


# what both share --------------------------------------------------------------------------------


def _merged(x, d, lanes, batch):
    """x (lanes and batch, ...) with lanes a part of the batch."""
    x = shape_prims.reshaped(x, (1, *x.shape)) if d is None else to_front(x, d)
    full = (lanes, batch, *x.shape[2:])
    x = x if x.shape == full else shape_prims.broadcast_to(x, shape=full)
    return shape_prims.reshaped(x, (lanes * batch, *full[2:]))


def _batch_of(get, masks_from):
    """The batching rule of a primitive whose masks are its arguments from ``masks_from`` on."""

    def batch(level, args, dims, **params):
        lanes, batch = level.size, args[0].shape[0 if dims[0] != 0 else 1]
        merged = []
        for i, (x, d) in enumerate(zip(args, dims, strict=True)):
            for_all = i >= masks_from and d is None and x.shape[0] == 1
            merged.append(x if for_all else _merged(x, d, lanes, batch))
        outs = get()(*merged, **params)
        return tuple([
            shape_prims.reshaped(x, (lanes, batch, *x.shape[1:])) for x in outs
        ]), (0,) * len(outs)  # fmt: skip

    return batch


def _check(name, q, k, v, masks):
    """Refuse shapes and dtypes that do not fit."""
    same_dtype(name, q, k, v, *masks)
    check_real_floating(name, q)
    fits = q.ndim == k.ndim == v.ndim == 4 and q.shape[0] == k.shape[0] == v.shape[0]
    fits = fits and q.shape[3] == k.shape[3] and k.shape[1:3] == v.shape[1:3]
    if not fits or (k.shape[1] and q.shape[1] % k.shape[1]) or (q.shape[1] and not k.shape[1]):
        raise ShapeError(
            f"{name} takes q (batch, heads, targets, features), k (batch, kv heads, sources, "
            f"features) and v (batch, kv heads, sources, depth), where heads is a multiple of kv "
            f"heads, got {q.shape}, {k.shape} and {v.shape}"
        )
    scores = (*q.shape[:3], k.shape[2])
    for mask in masks:
        if mask.ndim != 4 or any(m not in (1, n) for m, n in zip(mask.shape, scores)):
            raise ShapeError(f"{name}: a mask has to broadcast to {scores}, got {mask.shape}")


def _draw(d, *, masked):
    """Shapes of q, k, v and perhaps a mask, and the parameters."""
    batch, kv_heads, group = d.integer(1, 2), d.integer(1, 2), d.integer(1, 2)
    targets, sources = d.integer(1, 5 * d.stretch), d.integer(1, 6 * d.stretch)
    features, depth = d.integer(1, 3), d.integer(1, 3)
    heads = kv_heads * group
    q, k = (batch, heads, targets, features), (batch, kv_heads, sources, features)
    masks = []
    if masked:
        masks = [tuple([d.choice((1, n)) for n in (batch, heads, targets, sources)])]
    params = {"causal": d.flag(), "scale": d.choice((0.5, 1.0))}
    return q, k, (*k[:3], depth), masks, params


# attention --------------------------------------------------------------------------------------


def _spec(q, k, v, *masks, causal, scale):
    _check("attention", q, k, v, masks)
    return q.with_(shape=(*q.shape[:3], v.shape[3])), q.with_(shape=q.shape[:3])


def _sample(d):
    q, k, v, masks, params = _draw(d, masked=d.flag())
    return Sample([d.floats(shape) for shape in (q, k, v, *masks)], params)


attention = define(
    "attention", spec=_spec, multiple=True, saves=(0, 1), weight=64,
    formula=_in_float32(lambda: attention, _formula),
    torch_name="ScaledDotProductFlashAttentionForCpu",
    jvp=_jvp,
    vjp=_vjp,
    sharding=factors.attention,
    batch=_batch_of(lambda: attention, 3),
    sample=_sample,
)  # fmt: skip


def _at_once(q, k, v, *, causal, scale):
    """With all weights in memory; lse is for the way back of a tape whose values are tracers, as
    in ``vmap(grad(f))``. A stage records no call of this, but what it does."""
    rows = q.shape[:3]
    grouped = q.shape[1] != k.shape[1]
    if grouped:
        q, k, v, _ = _five(q, k, v, [])
    s = _scores(q, k, [], causal, scale)
    out = matmul(softmax(s, axis=s.ndim - 1), v)
    out = _together(out) if grouped else out
    if modes.stage is not None:
        return out, None
    return out, shape_prims.reshaped(logsumexp(s, axes=(s.ndim - 1,), keepdims=False), rows)


attention_of_few = fuse(  # where all weights are the faster way for compilers, not for a kernel
    "attention", reference=_at_once, multiple=True, saves=(0, 1), vjp=_vjp,
    torch_name="ScaledDotProductFlashAttentionForCpu",
)  # fmt: skip


# attention_grad ---------------------------------------------------------------------------------


def _grad_spec(ct, q, k, v, lse, delta, *masks, causal, scale):
    name = "attention_grad"
    _check(name, q, k, v, masks)
    same_dtype(name, q, ct, lse, delta)
    out, line = (*q.shape[:3], v.shape[3]), q.shape[:3]
    if (ct.shape, lse.shape, delta.shape) != (out, line, line):
        raise ShapeError(
            f"{name} takes ct {out}, lse and delta {line}, got {ct.shape}, {lse.shape} and "
            f"{delta.shape}"
        )
    return q, k, v


def _grad_sample(d):
    q, k, v, masks, params = _draw(d, masked=d.flag())
    shapes = ((*q[:3], v[3]), q, k, v, q[:3], q[:3], *masks)
    return Sample([d.floats(shape) for shape in shapes], params)


attention_grad = define(  # delta (batch, heads, targets) is the sum of ct * out over depth
    "attention_grad", spec=_grad_spec, multiple=True, weight=64,
    formula=_in_float32(lambda: attention_grad, _grad_formula),
    torch_name="ScaledDotProductFlashAttentionForCpuBackward",
    jvp=_grad_jvp,
    vjp=_grad_vjp,
    sharding=factors.attention_grad,
    batch=_batch_of(lambda: attention_grad, 6),
    sample=_grad_sample,
)  # fmt: skip
