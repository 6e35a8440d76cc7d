"""Convolution and its two transposes: three primitives, each the derivative of the other two.

All three are partial derivatives of one trilinear form,

    form(x, w, g) = sum over n, o, t of g[n, o, t] * conv(x, w)[n, o, t]
                    x (N, C, *S), w (O, C // groups, *K), g (N, O, *T)

``conv`` is its gradient in g, ``conv_input_grad`` in x (the transposed convolution of ``nn``) and
``conv_weight_grad`` in w. So each has the other two as its derivatives, and all orders close.

A lane of ``vmap`` becomes samples where one argument is batched and its partner is shared, channels
of the same group where the batched one has no samples, and groups where both are batched.
"""

from __future__ import annotations

import fx.prims.factors as factors
from fx.errors import ShapeError
from fx.primitive import define
from fx.prims.creation import full
from fx.prims.elementwise import add
from fx.prims.families import same_dtype, to_front
from fx.prims.fused import fuse
from fx.prims.reduction import sum
from fx.prims.sampling import Sample
from fx.prims.shape import reshape
from fx.prims.windows import (
    check_fits,
    check_rank,
    draw_rank,
    draw_windows,
    lanes_from,
    lanes_into,
    merge_samples,
    output_sizes,
    split_samples,
)  # fmt: skip
from fx.quick import quick


def _bilinear(get, da, db):
    """jvp and vjp of a bilinear function, by its transposes in the first and second argument."""

    def jvp(primals, tangents, **params):
        (a, b), (ta, tb) = primals, tangents
        out = get()(a, b, **params)
        ta = None if ta is None else get()(ta, b, **params)
        tb = None if tb is None else get()(a, tb, **params)
        return out, tb if ta is None else ta if tb is None else ta + tb

    def vjp(needs, a, b, **params):
        # each cotangent keeps only the other argument
        pull_a = pull_b = None
        a_sizes, b_sizes = a._shape[2:], b._shape[2:]
        if needs[0] is not None:
            pull_a = lambda ct: da(ct, b, a_sizes, **params)
        if needs[1] is not None:
            pull_b = lambda ct: db(ct, a, b_sizes, **params)
        return lambda ct: (pull_a and pull_a(ct), pull_b and pull_b(ct))

    return {"jvp": jvp, "vjp": vjp}


def _check_channels(name, c, w, groups):
    """Refuse weights (O, C // groups, *K) that do not fit ``groups`` groups of c channels."""
    if groups < 1:
        raise ShapeError(f"{name}: groups must be at least 1, got {groups}")
    if c != w[1] * groups:
        raise ShapeError(
            f"{name}: weights of shape {w} with groups={groups} take {w[1] * groups} input "
            f"channels ({w[1]} a group), got {c}; weights are (O, C // groups, *kernel)"
        )
    if w[0] % groups:
        raise ShapeError(
            f"{name}: {w[0]} output channels of weights {w} do not divide into groups={groups}"
        )


def _no_lanes(prim, level, args, dims, params):
    """The result over no lanes at all."""
    specs = [
        x.spec if d is None else x.spec.with_(shape=(*x.shape[:d], *x.shape[d + 1 :]))
        for x, d in zip(args, dims, strict=True)
    ]
    spec = prim.spec(*specs, **params)
    return full(shape=(0, *spec.shape), value=0, dtype=spec.dtype, device=spec.device), 0


def _draw(d):
    """Shapes of x, w and g, and the parameters."""
    sizes, kernel, params = draw_windows(d, draw_rank(d))
    groups, c, m = d.integer(1, 2), d.integer(1, 2), d.integer(1, 2)
    x = (d.integer(1, 2), groups * c, *sizes)
    w = (groups * m, c, *kernel)
    out = output_sizes("conv", sizes, kernel, *params.values())
    return x, w, (x[0], w[0], *out), {**params, "groups": groups}


# conv -------------------------------------------------------------------------------------------


def _conv_spec(x, w, *, stride, padding, dilation, groups):
    same_dtype("conv", x, w)
    check_rank("conv", "x", x.shape)
    if w.ndim != x.ndim:
        raise ShapeError(
            f"conv: x {x.shape} has {x.ndim - 2} spatial axes and the weights {w.shape} have "
            f"{w.ndim - 2}; weights are (O, C // groups, *kernel), x is (N, C, *spatial)"
        )
    _check_channels("conv", x.shape[1], w.shape, groups)
    out = output_sizes("conv", x.shape[2:], w.shape[2:], stride, padding, dilation)
    return x.with_(shape=(x.shape[0], w.shape[0], *out))


def _conv_batch(level, args, dims, *, groups, **params):
    (x, w), (dx, dw), lanes = args, dims, level.size
    if not lanes:
        return _no_lanes(conv, level, args, dims, {"groups": groups, **params})
    if dw is None:
        x = to_front(x, dx)
        return split_samples(conv(merge_samples(x), w, groups=groups, **params), x.shape[:2]), 0
    if dx is None:
        w = lanes_into(w, dw, 0, lanes, groups)
        return lanes_from(conv(x, w, groups=groups, **params), 1, lanes, groups), 1
    x, w = lanes_into(x, dx, 1, lanes), lanes_into(w, dw, 0, lanes)
    return lanes_from(conv(x, w, groups=groups * lanes, **params), 1, lanes), 1


def _conv_sample(d):
    x, w, _, params = _draw(d)
    return Sample([d.floats(x), d.floats(w)], params)


conv = define(
    "conv", kind="product", spec=_conv_spec, torch_name="Convolution",
    **_bilinear(
        lambda: conv,
        lambda ct, w, sizes, **p: conv_input_grad(ct, w, input_size=sizes, **p),
        lambda ct, x, sizes, **p: conv_weight_grad(x, ct, kernel_size=sizes, **p),
    ),
    sharding=factors.windowed("NC*,OC*->NO*", "N_*,__*->N_*"),
    batch=_conv_batch,
    sample=_conv_sample,
)  # fmt: skip
convolved = quick(conv, "stride", "padding", "dilation", "groups", tensors=2)


# conv_input_grad --------------------------------------------------------------------------------


def _input_grad_spec(g, w, *, input_size, stride, padding, dilation, groups):
    name = "conv_input_grad"
    same_dtype(name, g, w)
    check_rank(name, "the weights", w.shape)
    _check_channels(name, w.shape[1] * groups, w.shape, groups)
    out = output_sizes(name, tuple(input_size), w.shape[2:], stride, padding, dilation)
    check_fits(name, "g", g.shape, (*g.shape[:1], w.shape[0], *out))
    return g.with_(shape=(g.shape[0], w.shape[1] * groups, *input_size))


def _input_grad_batch(level, args, dims, *, groups, **params):
    (g, w), (dg, dw), lanes = args, dims, level.size
    if not lanes:
        return _no_lanes(conv_input_grad, level, args, dims, {"groups": groups, **params})
    if dw is None:
        g = to_front(g, dg)
        out = conv_input_grad(merge_samples(g), w, groups=groups, **params)
        return split_samples(out, g.shape[:2]), 0
    if dg is None:
        w = lanes_into(w, dw, 1, lanes)
        return lanes_from(conv_input_grad(g, w, groups=groups, **params), 1, lanes, groups), 1
    g, w = lanes_into(g, dg, 1, lanes), lanes_into(w, dw, 0, lanes)
    return lanes_from(conv_input_grad(g, w, groups=groups * lanes, **params), 1, lanes), 1


def _input_grad_sample(d):
    x, w, g, params = _draw(d)
    return Sample([d.floats(g), d.floats(w)], {"input_size": x[2:], **params})


conv_input_grad = define(
    "conv_input_grad", kind="product", spec=_input_grad_spec,
    torch_name="Convolution",
    **_bilinear(
        lambda: conv_input_grad,
        lambda ct, w, sizes, *, input_size, **p: conv(ct, w, **p),
        lambda ct, g, sizes, *, input_size, **p: conv_weight_grad(ct, g, kernel_size=sizes, **p),
    ),
    sharding=factors.windowed("NO*,OC*->NC*", "N_*,__*->N_*"),
    batch=_input_grad_batch,
    sample=_input_grad_sample,
)  # fmt: skip


# conv_weight_grad -------------------------------------------------------------------------------


def _weight_grad_spec(x, g, *, kernel_size, stride, padding, dilation, groups):
    name = "conv_weight_grad"
    same_dtype(name, x, g)
    check_rank(name, "x", x.shape)
    check_rank(name, "g", g.shape)
    w = (g.shape[1], x.shape[1] // groups, *kernel_size)
    _check_channels(name, x.shape[1], w, groups)
    out = output_sizes(name, x.shape[2:], tuple(kernel_size), stride, padding, dilation)
    check_fits(name, "g", g.shape, (x.shape[0], g.shape[1], *out))
    return x.with_(shape=w)


def _weight_grad_batch(level, args, dims, *, groups, **params):
    (x, g), (dx, dg), lanes = args, dims, level.size
    if not lanes:
        return _no_lanes(conv_weight_grad, level, args, dims, {"groups": groups, **params})
    if dg is None:
        x = lanes_into(x, dx, 1, lanes, groups)
        return lanes_from(conv_weight_grad(x, g, groups=groups, **params), 1, lanes), 1
    if dx is None:
        g = lanes_into(g, dg, 1, lanes, groups)
        return lanes_from(conv_weight_grad(x, g, groups=groups, **params), 0, lanes, groups), 0
    x, g = lanes_into(x, dx, 1, lanes), lanes_into(g, dg, 1, lanes)
    return lanes_from(conv_weight_grad(x, g, groups=groups * lanes, **params), 0, lanes), 0


def _weight_grad_sample(d):
    x, w, g, params = _draw(d)
    return Sample([d.floats(x), d.floats(g)], {"kernel_size": w[2:], **params})


conv_weight_grad = define(
    "conv_weight_grad", kind="product",
    spec=_weight_grad_spec, torch_name="ConvolutionWeight",
    **_bilinear(
        lambda: conv_weight_grad,
        lambda ct, g, sizes, *, kernel_size, **p: conv_input_grad(g, ct, input_size=sizes, **p),
        lambda ct, x, sizes, *, kernel_size, **p: conv(x, ct, **p),
    ),
    sharding=factors.windowed("NC*,NO*->OC*", "N_*,N_*->__*"),
    batch=_weight_grad_batch,
    sample=_weight_grad_sample,
)  # fmt: skip


# a bias -----------------------------------------------------------------------------------------


def _biased(x, bias):
    return add(x, reshape(bias, shape=(x._shape[1], *[1] * (x.ndim - 2))))


def _biased_arrays(x, bias):
    return add.cpu(x, bias.reshape(-1, *[1] * (x.ndim - 2)))


def _biased_vjp(needs, x, bias):
    others = (0, *range(2, x.ndim))

    def pullback(ct):
        for_bias = None if needs[1] is None else sum(ct, axes=others, keepdims=False)
        return (None if needs[0] is None else ct), for_bias

    return pullback


biased = quick(  # x (N, O, ...) and bias (O,), of one dtype
    fuse(
        "biased", cpu=_biased_arrays, reference=_biased, vjp=_biased_vjp, torch_name="Convolution",
    ), tensors=2,
)  # fmt: skip
