"""Reference functions of convolution and pooling: sums over the places that meet, one by one."""

import itertools
import math

import numpy as np


def output_size(sizes, window, *, stride, padding, dilation):
    return tuple([
        (n + low + high - d * (k - 1) - 1) // s + 1
        for n, k, s, (low, high), d in zip(sizes, window, stride, padding, dilation, strict=True)
    ])  # fmt: skip


def meetings(sizes, window, *, stride, padding, dilation):
    """Each place in the output, each tap of the window, and the place in the input of both."""
    out = output_size(sizes, window, stride=stride, padding=padding, dilation=dilation)
    for place, tap in itertools.product(np.ndindex(*out), np.ndindex(*window)):
        at = tuple([
            t * s - low + k * d
            for t, k, s, (low, _), d in zip(place, tap, stride, padding, dilation, strict=True)
        ])  # fmt: skip
        if all(0 <= a < n for a, n in zip(at, sizes, strict=True)):
            yield place, tap, at


def conv_terms(x, w, *, groups, **windows):
    """The indices into x, w and g that are multiplied, for the shapes of x and w."""
    per_group = w[0] // groups
    for place, tap, at in meetings(x[2:], w[2:], **windows):
        for n, o, c in np.ndindex(x[0], w[0], w[1]):
            yield (n, o // per_group * w[1] + c, *at), (o, c, *tap), (n, o, *place)


def conv(x, w, *, groups, **windows):
    out = np.zeros((x.shape[0], w.shape[0], *output_size(x.shape[2:], w.shape[2:], **windows)))
    for i, j, k in conv_terms(x.shape, w.shape, groups=groups, **windows):
        out[k] += x[i] * w[j]
    return out


def conv_input_grad(g, w, *, input_size, groups, **windows):
    out = np.zeros((g.shape[0], w.shape[1] * groups, *input_size))
    for i, j, k in conv_terms(out.shape, w.shape, groups=groups, **windows):
        out[i] += g[k] * w[j]
    return out


def conv_weight_grad(x, g, *, kernel_size, groups, **windows):
    out = np.zeros((g.shape[1], x.shape[1] // groups, *kernel_size))
    for i, j, k in conv_terms(x.shape, out.shape, groups=groups, **windows):
        out[j] += x[i] * g[k]
    return out


def max_pool(x, *, window, **windows):
    shape = (*x.shape[:2], *output_size(x.shape[2:], window, **windows))
    values, places = np.full(shape, -math.inf), np.zeros(shape, np.int64)
    for place, _, at in meetings(x.shape[2:], window, **windows):
        for lead in np.ndindex(*x.shape[:2]):
            if x[(*lead, *at)] > values[(*lead, *place)]:
                values[(*lead, *place)] = x[(*lead, *at)]
                places[(*lead, *place)] = np.ravel_multi_index(at, x.shape[2:])
    return values, places


def window_sum(x, *, window, **windows):
    out = np.zeros((*x.shape[:2], *output_size(x.shape[2:], window, **windows)))
    for place, _, at in meetings(x.shape[2:], window, **windows):
        out[(..., *place)] += x[(..., *at)]
    return out


def window_sum_transpose(g, *, input_size, window, **windows):
    out = np.zeros((*g.shape[:2], *input_size))
    for place, _, at in meetings(input_size, window, **windows):
        out[(..., *at)] += g[(..., *place)]
    return out


WINDOWS = {
    "conv": conv, "conv_input_grad": conv_input_grad, "conv_weight_grad": conv_weight_grad,
    "max_pool": max_pool, "window_sum": window_sum, "window_sum_transpose": window_sum_transpose,
}  # fmt: skip
