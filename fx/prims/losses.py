"""The negative log-likelihood and cross-entropy, with integer targets, fused."""

from __future__ import annotations

from fx.dtypes import float64, uint64
from fx.prims.compare import astype, logical_and, logical_or, where
from fx.prims.creation import constant_like, iota, zeros_like_spec
from fx.prims.elementwise import exp, log
from fx.prims.fused import fuse, of_reference
from fx.prims.indexing import take, take_along_axis
from fx.prims.reduction import log_softmax, max, softmax, sum
from fx.prims.shape import reshape
from fx.quick import quick


def _used(y, ignore_index):
    used = y != ignore_index
    return used, where(used, y, constant_like(0, y))


def at_targets(x, y, *weight, axis, ignore_index):
    """For each target its loss, its factor (0 where ignored), and whether it is used.

    x (*A, classes, *B), y int64 (*A, *B), weight (classes,).
    """
    used, safe = _used(y, ignore_index)
    shape = x.shape
    # as unsigned numbers negative classes lie beyond every size
    places = astype(reshape(safe, shape=(*shape[:axis], 1, *shape[axis + 1 :])), dtype=uint64)
    picked = take_along_axis(x, places, axis=axis)
    zero = constant_like(0.0, x)
    losses = where(used, -reshape(picked, shape=y.shape), zero)
    if not weight:
        return losses, astype(used, dtype=x.dtype), used
    factors = where(used, take(weight[0], safe, axis=0), zero)
    return losses * factors, factors, used


def _nll(x, y, *weight, axis, ignore_index, reduction):
    losses, factors, _ = at_targets(x, y, *weight, axis=axis, ignore_index=ignore_index)
    if reduction == "none":
        return losses
    loss, number = (sum(a, axes=(*range(y.ndim),), keepdims=False) for a in (losses, factors))
    return loss if reduction == "sum" else loss / number


def _nll_grad(ct, y, *weight, shape, **params):
    x = zeros_like_spec(ct.spec.with_(shape=shape))  # of which the loss is linear
    needs = (True, None, *[None for _ in weight])
    return _nll_back(needs, x, y, *weight, **params)(ct)[0]


_nll_back = of_reference(_nll)


def _nll_vjp(needs, x, y, *weight, **params):
    if weight and needs[2] is not None:
        return _nll_back(needs, x, y, *weight, **params)
    shape = x._shape
    return lambda ct: (nll_grad(ct, y, *weight, shape=shape, **params), None, *[None] * len(weight))


nll_grad = fuse("nll_grad", reference=_nll_grad)
nll = fuse("nll", reference=_nll, vjp=_nll_vjp, torch_name="NllLoss")
_WORDS = ("axis", "ignore_index", "reduction")
nll_of, weighted_nll_of = (quick(nll, *_WORDS, tensors=n) for n in (2, 3))


def _cross_entropy(x, y, **params):
    return _nll(log_softmax(x, axis=1), y, axis=1, **params)


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
