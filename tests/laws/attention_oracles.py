"""Reference functions of attention: one query at a time."""

import numpy as np


def queries(q, k, v, masks, causal, scale):
    """For each query: its place, the keys and values of its head, and its scores."""
    batch, heads, targets, _ = q.shape
    group = heads // k.shape[1]
    for n, h, i in np.ndindex(batch, heads, targets):
        head = (n, h // group)
        scores = [scale * float(np.dot(q[n, h, i], key)) for key in k[head]]
        for mask in masks:
            line = np.broadcast_to(mask, (batch, heads, targets, k.shape[2]))[n, h, i]
            scores = [s + float(m) for s, m in zip(scores, line, strict=True)]
        seen = [s if j <= i or not causal else -np.inf for j, s in enumerate(scores)]
        yield (n, h, i), head, np.array(seen)


def attention(q, k, v, *masks, causal, scale):
    out, lse = np.zeros((*q.shape[:3], v.shape[3])), np.zeros(q.shape[:3])
    for place, head, scores in queries(q, k, v, masks, causal, scale):
        terms = np.exp(scores - scores.max())
        lse[place] = np.log(terms.sum()) + scores.max()
        out[place] = sum(t * x for t, x in zip(terms / terms.sum(), v[head], strict=True))
    return out, lse


def attention_grad(ct, q, k, v, lse, delta, *masks, causal, scale):
    dq, dk, dv = np.zeros(q.shape), np.zeros(k.shape), np.zeros(v.shape)
    for place, head, scores in queries(q, k, v, masks, causal, scale):
        for j, p in enumerate(np.exp(scores - lse[place])):
            g = scale * p * (np.dot(ct[place], v[head][j]) - delta[place])
            dq[place] += g * k[head][j]
            dk[head][j] += g * q[place]
            dv[head][j] += p * ct[place]
    return dq, dk, dv


ATTENTION = {"attention": attention, "attention_grad": attention_grad}
