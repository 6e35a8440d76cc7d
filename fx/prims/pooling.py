"""Pooling: maxima of windows with their places, sums over windows and their transpose."""

from __future__ import annotations

from math import prod

import fx.prims.factors as factors
import fx.prims.shape as shape_prims
from fx.dtypes import int64
from fx.errors import ShapeError
from fx.primitive import define
from fx.prims.axes import check_ordered
from fx.prims.fused import fuse
from fx.prims.indexing import scatter_along_axis, take_along_axis, zeros
from fx.prims.sampling import Sample
from fx.prims.windows import (
    check_fits,
    check_rank,
    draw_rank,
    draw_windows,
    output_sizes,
    samples_batch,
    some_window_is_all_padding,
)  # fmt: skip
from fx.quick import quick


def _pooled(name, x, window, stride, padding, dilation):
    check_rank(name, "x", x.shape)
    out = output_sizes(name, x.shape[2:], window, stride, padding, dilation)
    return (*x.shape[:2], *out)


def _draw(d):
    sizes, window, params = draw_windows(d, draw_rank(d))
    return (d.integer(1, 2), d.integer(1, 2), *sizes), {"window": window, **params}


# max_pool ---------------------------------------------------------------------------------------


def _max_pool_spec(x, *, window, stride, padding, dilation):
    check_ordered("max_pool", x)
    shape = _pooled("max_pool", x, window, stride, padding, dilation)
    if some_window_is_all_padding(x.shape[2:], window, stride, padding, dilation):
        raise ShapeError(
            f"max_pool: with padding {padding} a window of {window} over {x.shape[2:]} (stride "
            f"{stride}, dilation {dilation}) holds nothing but padding, and has no maximum; pad by "
            f"at most half of the window"
        )
    return x.with_(shape=shape), x.with_(shape=shape, dtype=int64)


def _flat(x):
    """(N, C, *spatial) -> (N, C, volume)."""
    return shape_prims.reshaped(x, (*x.shape[:2], prod(x.shape[2:])))


def _max_pool_jvp(primals, tangents, **params):
    values, indices = max_pool(*primals, **params)
    t = take_along_axis(_flat(tangents[0]), _flat(indices), axis=2)
    return (values, indices), (shape_prims.reshaped(t, values.shape), None)


def _max_pool_vjp(needs, x, **params):
    shape = x._shape

    def pullback(cts, indices):
        into = zeros(cts[0], (*shape[:2], prod(shape[2:])))
        out = scatter_along_axis(into, _flat(indices), _flat(cts[0]), axis=2, mode="add")
        return (shape_prims.reshaped(out, shape),)

    return pullback


def _max_pool_sample(d):
    shape, params = _draw(d)
    return Sample([d.distinct(shape)], params)


max_pool = define(  # values, and their places in the flattened spatial axes
    "max_pool", spec=_max_pool_spec, multiple=True, saves=(1,),
    torch_name="MaxPoolWithIndices",
    jvp=_max_pool_jvp,
    vjp=_max_pool_vjp,
    sharding=factors.einsum("NC*->NC*,NC*"),
    batch=samples_batch(lambda: max_pool),
    sample=_max_pool_sample,
)  # fmt: skip
pooled = quick(max_pool, "window", "stride", "padding", "dilation")


# the maxima alone
max_pool_values = fuse("max_pool_values", reference=lambda x, **params: max_pool(x, **params)[0])


# window_sum and its transpose -------------------------------------------------------------------


def _window_sum_spec(x, *, window, stride, padding, dilation):
    return x.with_(shape=_pooled("window_sum", x, window, stride, padding, dilation))


def _window_sum_vjp(needs, x, **params):
    size = x._shape[2:]
    return lambda ct: (window_sum_transpose(ct, input_size=size, **params),)


def _window_sum_sample(d):
    shape, params = _draw(d)
    return Sample([d.floats(shape)], params)


window_sum = define(
    "window_sum", spec=_window_sum_spec, torch_name="AvgPool",
    jvp=lambda primals, tangents, **p: (window_sum(*primals, **p), window_sum(*tangents, **p)),
    vjp=_window_sum_vjp,
    sharding=factors.einsum("NC*->NC*", (0,)),
    batch=samples_batch(lambda: window_sum),
    sample=_window_sum_sample,
)  # fmt: skip
summed = quick(window_sum, "window", "stride", "padding", "dilation")


def _window_mean_vjp(needs, x, *, count, **params):
    size = x._shape[2:]
    return lambda ct: (window_sum_transpose(ct / count, input_size=size, **params),)


window_mean = fuse(
    "window_mean", reference=lambda x, *, count, **params: window_sum(x, **params) / count,
    vjp=_window_mean_vjp, torch_name="AvgPool",
)  # fmt: skip
averaged = quick(window_mean, "window", "stride", "padding", "dilation", "count")


def _window_sum_transpose_spec(g, *, input_size, window, stride, padding, dilation):
    name = "window_sum_transpose"
    check_rank(name, "g", g.shape)
    out = output_sizes(name, tuple(input_size), window, stride, padding, dilation)
    check_fits(name, "g", g.shape, (*g.shape[:2], *out))
    return g.with_(shape=(*g.shape[:2], *input_size))


def _window_sum_transpose_sample(d):
    shape, params = _draw(d)
    out = output_sizes("window_sum", shape[2:], *params.values())
    return Sample([d.floats((*shape[:2], *out))], {"input_size": shape[2:], **params})


window_sum_transpose = define(
    "window_sum_transpose",
    spec=_window_sum_transpose_spec, torch_name="AvgPoolTranspose",
    jvp=lambda primals, tangents, **p: (
        window_sum_transpose(*primals, **p), window_sum_transpose(*tangents, **p)
    ),
    vjp=lambda needs, g, *, input_size, **params: lambda ct: (window_sum(ct, **params),),
    sharding=factors.einsum("NC*->NC*", (0,)),
    batch=samples_batch(lambda: window_sum_transpose),
    sample=_window_sum_transpose_sample,
)  # fmt: skip
