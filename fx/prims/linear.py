"""Matrix products."""

from __future__ import annotations

import fx.prims.factors as factors
import fx.prims.reduction as reduction
import fx.prims.shape as shape_prims
from fx.errors import ShapeError
from fx.primitive import define
from fx.prims.families import align_lanes, broadcast_shapes, same_dtype, unbroadcast
from fx.prims.fused import fuse
from fx.prims.sampling import Sample
from fx.quick import quick

_SWAPPED = {2: (1, 0), 3: (0, 2, 1)}


def swap_last(x):
    """Exchange the last two axes."""
    n = len(x._shape)
    return shape_prims.transposed(x, _SWAPPED.get(n) or (*range(n - 2), n - 1, n - 2))


def _matmul_spec(x, y):
    same_dtype("matmul", x, y)
    if x.ndim < 2 or y.ndim < 2 or x.shape[-1] != y.shape[-2]:
        raise ShapeError(
            f"matmul: {x.shape} @ {y.shape}: the last axis of the first ({x.shape[-1:]}) must "
            f"equal the last but one of the second ({y.shape[-2:-1]}); "
            f"perhaps one wants a transpose: x.mT"
        )
    lead = broadcast_shapes("matmul", x.shape[:-2], y.shape[:-2])
    return x.with_(shape=(*lead, x.shape[-2], y.shape[-1]))


def _matmul_jvp(primals, tangents):
    x, y = primals
    tx, ty = tangents
    out = matmul(x, y)
    a = None if tx is None else matmul(tx, y)
    b = None if ty is None else matmul(x, ty)
    return out, b if a is None else a if b is None else a + b


def _matmul_vjp(needs, x, y):
    # each cotangent keeps only the other factor
    x_shape, y_shape = x._shape, y._shape
    rank = len(x_shape)
    alike = rank == len(y_shape) and (rank == 2 or (rank == 3 and x_shape[0] == y_shape[0]))
    if alike and needs[0] is not None and needs[1] is not None:
        return lambda ct: (matmul(ct, swap_last(y)), matmul(swap_last(x), ct))
    dx = None if needs[0] is None else _dx(y, x_shape)
    dy = None if needs[1] is None else _dy(x, y_shape)
    return lambda ct: (dx and dx(ct), dy and dy(ct))


def _dx(y, shape):
    return lambda ct: unbroadcast(matmul(ct, swap_last(y)), shape)  # (..., m, n) @ (..., n, k)


def _dy(x, shape):
    if len(shape) == 2 and len(x._shape) > 2:  # one product over all rows, no sum of products

        def pullback(ct):
            rows = shape_prims.reshaped(x, (_rows(x), x._shape[-1]))
            return matmul(swap_last(rows), shape_prims.reshaped(ct, (_rows(ct), ct._shape[-1])))

        return pullback
    return lambda ct: unbroadcast(matmul(swap_last(x), ct), shape)  # (..., k, m) @ (..., m, n)


def _rows(x):
    n = 1
    for side in x._shape[:-1]:
        n *= side
    return n


def _matmul_batch(level, args, dims):
    x, y = args
    if dims[1] is None and y.ndim == 2 and x.ndim == 3 and dims[0] == 0:
        return matmul(x, y), 0  # (lanes, m, k) @ (k, n): one product inside the kernel
    return matmul(*align_lanes(args, dims)), 0


def _matmul_sample(d):
    lead = d.shape(0, 2, 1, 3)
    m, k, n = d.integer(1, 4), d.integer(1, 4), d.integer(1, 4)
    a, b = (*lead, m, k), (*d.broadcastable(lead), k, n)
    return Sample([d.floats(a), d.floats(b)])


matmul = define(
    "matmul", kind="product", spec=_matmul_spec, torch_name="Mm",
    jvp=_matmul_jvp,
    vjp=_matmul_vjp,
    sharding=factors.einsum("...MK,...KN->...MN", (0,), (1,)),
    batch=_matmul_batch,
    sample=_matmul_sample,
)  # fmt: skip


def _linear(x, weight, bias=None):
    out = matmul(x, swap_last(weight))
    return out if bias is None else out + bias


def _linear_vjp(needs, x, weight, bias=None):
    x_shape, n = x._shape, weight._shape[0]
    k = x_shape[-1]
    weight = None if needs[0] is None else weight
    x = None if needs[1] is None else x
    biased = len(needs) > 2 and needs[2] is not None

    def pullback(ct):  # (..., n)
        rows = ct if len(x_shape) == 2 else shape_prims.reshaped(ct, (_rows(ct), n))
        dx = dweight = None
        if weight is not None:
            dx = matmul(rows, weight)
            if len(x_shape) != 2:
                dx = shape_prims.reshaped(dx, x_shape)
        if x is not None:
            flat = x if len(x_shape) == 2 else shape_prims.reshaped(x, (_rows(x), k))
            dweight = matmul(swap_last(rows), flat)
        if len(needs) == 2:
            return dx, dweight
        return dx, dweight, reduction.sum(rows, axes=(0,), keepdims=False) if biased else None

    return pullback


linear = fuse(  # x (..., k), weight (n, k), bias (n,)
    "linear", reference=_linear, vjp=_linear_vjp, torch_name="Addmm"
)
mapped, shifted = quick(linear, tensors=2), quick(linear, tensors=3)  # without and with a bias


def _mv(x, y):
    out = matmul(x, shape_prims.reshaped(y, (y._shape[0], 1)))
    return shape_prims.reshaped(out, (x._shape[0],))


def _mv_vjp(needs, x, y):
    y_needed = None if needs[0] is None else y
    x_needed = None if needs[1] is None else x

    def pullback(ct):
        column = shape_prims.reshaped(ct, (ct._shape[0], 1))  # (m, 1)
        dx = dy = None
        if y_needed is not None:
            dx = matmul(column, shape_prims.reshaped(y_needed, (1, y_needed._shape[0])))
        if x_needed is not None:
            dy = matmul(swap_last(x_needed), column)
            dy = shape_prims.reshaped(dy, (dy._shape[0],))
        return dx, dy

    return pullback


mv = quick(  # x (m, k), y (k,)
    fuse("mv", reference=_mv, vjp=_mv_vjp, torch_name="Mv"), tensors=2
)
