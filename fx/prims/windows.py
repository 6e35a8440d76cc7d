"""Sliding windows: their output sizes, what is refused, and what convolution and pooling share."""

from __future__ import annotations

from functools import lru_cache

import fx.prims.shape as shape_prims
from fx.errors import ShapeError
from fx.prims.families import to_front


def check_rank(name, what, shape, extra=2):
    """Refuse what has not 1 to 3 spatial axes.

    Raises:
        ShapeError: naming the operation and the layout.
    """
    if not 1 <= len(shape) - extra <= 3:
        raise ShapeError(
            f"{name}: {what} must be (N, C, *spatial) with 1 to 3 spatial axes, got shape {shape}; "
            f"add a batch axis with x[None]"
        )


@lru_cache(maxsize=1024)
def output_sizes(name, sizes, window, stride, padding, dilation):
    """The sizes of the output of windows that slide over ``sizes``.

    Raises:
        ShapeError: if a parameter has not one entry a spatial axis, or is out of range, or if the
            window does not fit.
    """
    rank = len(sizes)
    for what, entries in (
        ("window", window), ("stride", stride), ("padding", padding), ("dilation", dilation)
    ):  # fmt: skip
        if len(entries) != rank:
            raise ShapeError(
                f"{name}: {what}={entries} must have {rank} entries, one a spatial axis of {sizes}"
            )
    if min((*window, *stride, *dilation)) < 1:
        raise ShapeError(
            f"{name}: window, stride and dilation must be at least 1, got {window}, {stride} and "
            f"{dilation}"
        )
    if min([w for pair in padding for w in pair]) < 0:
        raise ShapeError(f"{name}: padding must not be negative, got {padding}; slice x instead")
    out = []
    for n, k, s, (low, high), d in zip(sizes, window, stride, padding, dilation, strict=True):
        reach, padded = d * (k - 1) + 1, n + low + high
        if reach > padded:
            raise ShapeError(
                f"{name}: a window of {window} with dilation {dilation} reaches over {reach} "
                f"elements, more than the {padded} of an axis of size {n} with padding "
                f"({low}, {high}); pad more, or use a smaller window"
            )
        out.append((padded - reach) // s + 1)
    return tuple(out)


@lru_cache(maxsize=1024)
def some_window_is_all_padding(sizes, window, stride, padding, dilation):
    """Whether a window meets no element at all."""
    for n, k, s, (low, high), d in zip(sizes, window, stride, padding, dilation, strict=True):
        last = n + low + high - d * (k - 1)
        for start in range(-low, last - low, s):
            if not any(0 <= start + d * tap < n for tap in range(k)):
                return True
    return False


def check_fits(name, what, shape, expected):
    """Refuse a cotangent that is not what the forward operation gives."""
    if shape != expected:
        raise ShapeError(f"{name}: {what} must have shape {expected}, got {shape}")


def draw_windows(d, rank):
    """Sizes that a window fits, and the window's parameters."""
    window = tuple([d.integer(1, 3) for _ in range(rank)])
    dilation = tuple([d.integer(1, 2) for _ in range(rank)])
    padding = tuple([(d.integer(0, k - 1), d.integer(0, k - 1)) for k in window])
    stride = tuple([d.integer(1, 3) for _ in range(rank)])
    sizes = tuple(
        [e * (k - 1) + 1 + d.integer(0, 2) for k, e in zip(window, dilation, strict=True)]
    )
    return sizes, window, {"stride": stride, "padding": padding, "dilation": dilation}


def draw_rank(d):
    """One to three spatial axes, seldom three."""
    return d.choice((1, 1, 2, 2, 2, 3))


# lanes in other axes ----------------------------------------------------------------------------


def lanes_into(x, d, axis, lanes, groups=1):
    """Fold lanes into ``axis``, counted without them, whose c elements come in groups.

    The new axis holds (groups, lanes, c // groups).
    """
    others = [i for i in range(x.ndim) if i != d]
    if d != axis:
        x = shape_prims.transposed(x, (*others[:axis], d, *others[axis:]))
    before, c, after = x.shape[:axis], x.shape[axis + 1], x.shape[axis + 2 :]
    if groups > 1:
        x = shape_prims.reshaped(x, (*before, lanes, groups, c // groups, *after))
        x = _swap(x, axis)
    return shape_prims.reshaped(x, (*before, lanes * c, *after))


def lanes_from(x, axis, lanes, groups=1):
    """Undo ``lanes_into``: the lanes come to stand at ``axis``."""
    before, n, after = x.shape[:axis], x.shape[axis], x.shape[axis + 1 :]
    c = n // lanes
    if groups > 1:
        x = shape_prims.reshaped(x, (*before, groups, lanes, c // groups, *after))
        x = _swap(x, axis)
    return shape_prims.reshaped(x, (*before, lanes, c, *after))


def _swap(x, axis):
    axes = list(range(x.ndim))
    axes[axis], axes[axis + 1] = axis + 1, axis
    return shape_prims.transposed(x, tuple(axes))


def samples_batch(get):
    """The batching rule of what treats samples (the first axis) alike: lanes are samples."""

    def batch(level, args, dims, **params):
        x = to_front(args[0], dims[0])
        samples = x.shape[:2]
        out = get()(merge_samples(x), **params)
        if isinstance(out, tuple):
            return tuple([split_samples(o, samples) for o in out]), (0,) * len(out)
        return split_samples(out, samples), 0

    return batch


def merge_samples(x):
    """(lanes, N, ...) -> (lanes * N, ...)."""
    return shape_prims.reshaped(x, (x.shape[0] * x.shape[1], *x.shape[2:]))


def split_samples(x, samples):
    """(lanes * N, ...) -> (lanes, N, ...)."""
    return shape_prims.reshaped(x, (*samples, *x.shape[1:]))
