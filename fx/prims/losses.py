"""Cross-entropy with integer targets, fused."""

from __future__ import annotations

from fx.dtypes import float64, uint64
from fx.prims.compare import astype, logical_and, logical_or, where
from fx.prims.creation import constant_like, iota
from fx.prims.elementwise import exp, log
from fx.prims.fused import fuse
from fx.prims.indexing import take_along_axis
from fx.prims.reduction import log_softmax, max, softmax, sum
from fx.prims.shape import reshape
from fx.quick import quick


def _used(y, ignore_index):
    used = y != ignore_index
    return used, where(used, y, constant_like(0, y))


def _cross_entropy(x, y, *, ignore_index, reduction):
    used, safe = _used(y, ignore_index)
    rows = y.shape[0]
    # as unsigned numbers negative classes lie beyond every size
    places = astype(reshape(safe, shape=(rows, 1)), dtype=uint64)
    picked = take_along_axis(log_softmax(x, axis=1), places, axis=1)
    losses = where(used, -reshape(picked, shape=(rows,)), constant_like(0.0, x))
    if reduction == "none":
        return losses
    total = sum(losses, axes=(0,), keepdims=False)
    return total if reduction == "sum" else total / _number(used, x)


def _number(used, x):
    return sum(astype(used, dtype=x.dtype), axes=(0,), keepdims=False)


def _cross_entropy_grad(ct, x, y, *, ignore_index, reduction):
    used, safe = _used(y, ignore_index)
    rows = y.shape[0]
    if reduction == "mean":
        ct = ct / _number(used, x)
    factor = reshape(where(used, ct, constant_like(0.0, x)), shape=(rows, 1))
    hit = astype(_hits(x, safe), dtype=x.dtype)
    return (exp(log_softmax(x, axis=1)) - hit) * factor


# what kernels compute: no element is looked for by its place --------------------------------------


def _hits(x, y):
    """Whether a class is the target (rows, classes)."""
    classes = iota(
        shape=(1, x.shape[1]), axis=1, start=0, step=1, dtype=y.dtype, device=x.device.name
    )
    return reshape(y, shape=(y.shape[0], 1)) == classes


def _entropy_formula(x, y, ignored, *, reduction):
    """The loss, and how many targets are no class."""
    used = y != ignored
    place = astype(y, dtype=float64)
    wrong = logical_and(used, logical_or(place < 0, place >= float(x.shape[1])))
    wrong = sum(astype(wrong, dtype=x.dtype), axes=(0,), keepdims=False)
    zero = constant_like(0.0, x)
    gap = x - max(x, axes=(1,), keepdims=True)
    total = sum(exp(gap), axes=(1,), keepdims=False)
    picked = sum(where(_hits(x, y), gap, zero), axes=(1,), keepdims=False)
    losses = where(used, log(total) - picked, zero)
    if reduction == "none":
        return losses, wrong
    loss = sum(losses, axes=(0,), keepdims=False)
    return loss if reduction == "sum" else loss / _number(used, x), wrong


def _entropy_grad_formula(ct, x, y, ignored, *, reduction):
    used = y != ignored
    if reduction == "mean":
        ct = ct / _number(used, x)
    factor = reshape(where(used, ct, constant_like(0.0, x)), shape=(y.shape[0], 1))
    share = softmax(x, axis=1)
    return where(_hits(x, y), share - 1.0, share) * factor


cross_entropy_grad = fuse(
    "cross_entropy_grad", reference=_cross_entropy_grad, formula=_entropy_grad_formula
)
cross_entropy = fuse(  # x (rows, classes), y (rows,) int64
    "cross_entropy", reference=_cross_entropy, formula=_entropy_formula, torch_name="NllLoss",
    vjp=lambda needs, x, y, **params: lambda ct: (cross_entropy_grad(ct, x, y, **params), None),
)  # fmt: skip
cross_entropy_of = quick(cross_entropy, "ignore_index", "reduction", tensors=2)
