"""Convolution and pooling functions against torch's: values, gradients, refusals."""

import numpy as np
import pytest

import fx
from fx.errors import DTypeError, ShapeError

torch = pytest.importorskip("torch")

from tests.nn.oracle import arrays, check, close

F, T = fx.nn.functional, torch.nn.functional

# convolutions -----------------------------------------------------------------------------------

CONVOLUTIONS = [
    {},
    {"stride": 2},
    {"padding": 1},
    {"dilation": 2, "padding": 2},
    {"stride": 2, "padding": 1, "groups": 2},
    {"padding": "same"},
    {"padding": "same", "dilation": 3},
    {"padding": "valid"},
]


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("options", CONVOLUTIONS, ids=str)
def test_conv(rank, options):
    groups = options.get("groups", 1)
    kernel = (2, 3, 2)[:rank]
    xs = arrays((2, 4, *(7, 6, 5)[:rank]), (6, 4 // groups, *kernel), (6,))
    name = f"conv{rank}d"
    check(
        lambda *a: getattr(F, name)(*a, **options),
        lambda *a: getattr(T, name)(*a, **options),
        *xs,
    )


def test_conv_of_one_sample_and_of_sizes_a_dimension():
    x, w, b = arrays((3, 8, 9), (2, 3, 3, 2), (2,))
    options = {"stride": (2, 1), "padding": (0, 2), "dilation": (1, 3)}
    check(lambda *a: F.conv2d(*a, **options), lambda *a: T.conv2d(*a, **options), x, w, b)


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"stride": 2},
        {"stride": 2, "padding": 1, "output_padding": 1},
        {"stride": 3, "output_padding": 2, "groups": 2},
        {"dilation": 3, "output_padding": 2, "padding": 1},
        {"dilation": 2, "stride": 2, "padding": 2},
    ],
    ids=str,
)
def test_conv_transpose(rank, options):
    groups = options.get("groups", 1)
    xs = arrays((2, 4, *(4, 3, 3)[:rank]), (4, 6 // groups, *(3, 2, 3)[:rank]), (6,))
    name = f"conv_transpose{rank}d"
    check(
        lambda *a: getattr(F, name)(*a, **options),
        lambda *a: getattr(T, name)(*a, **options),
        *xs,
    )


def test_conv_errors():
    x, w = fx.ones((1, 3, 5, 5)), fx.ones((4, 3, 3, 3))
    with pytest.raises(
        ShapeError, match=r"conv2d takes an input \(batch, channels, height, width\)"
    ):
        F.conv2d(fx.ones((5, 5)), w)
    with pytest.raises(ShapeError, match=r"has 2 channels, but a weight .* takes 3"):
        F.conv2d(fx.ones((1, 2, 5, 5)), w)
    with pytest.raises(ShapeError, match=r"a kernel \(3, 3\) with dilation \(3, 3\) does not fit"):
        F.conv2d(x, w, dilation=3)
    with pytest.raises(
        ShapeError, match="conv2d: stride must be an int or 2 ints, each at least 1"
    ):
        F.conv2d(x, w, stride=0)
    with pytest.raises(ShapeError, match=r"bias must have shape \(4,\), one a channel, got \(3,\)"):
        F.conv2d(x, w, fx.ones(3))
    with pytest.raises(ValueError, match="padding='same' is not supported for strided"):
        F.conv2d(x, w, stride=2, padding="same")
    with pytest.raises(DTypeError, match=r"conv.*float32.*float64"):
        F.conv2d(x, w.astype(fx.float64))
    with pytest.raises(ShapeError, match=r"output_padding .* must be smaller than stride"):
        F.conv_transpose2d(x, fx.ones((3, 4, 3, 3)), output_padding=1)


# pooling ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize(
    "options",
    [
        {"kernel_size": 2},
        {"kernel_size": 3, "stride": 2, "padding": 1},
        {"kernel_size": 3, "stride": 2, "ceil_mode": True},
        {"kernel_size": 2, "stride": 3, "padding": 1, "ceil_mode": True},
        {"kernel_size": 2, "dilation": 2, "stride": 1},
    ],
    ids=str,
)
def test_max_pool(rank, options):
    (x,) = arrays((2, 3, *(7, 6, 8)[:rank]))
    name = f"max_pool{rank}d"
    ours, theirs = getattr(F, name), getattr(T, name)
    check(lambda x: ours(x, **options), lambda x: theirs(x, **options), x)
    got = ours(fx.tensor(x), **options, return_indices=True)
    expected = theirs(torch.tensor(x), **options, return_indices=True)
    close(got[1], expected[1], "places")


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize(
    "options",
    [
        {"kernel_size": 2},
        {"kernel_size": 3, "stride": 2, "padding": 1},
        {"kernel_size": 3, "stride": 2, "padding": 1, "count_include_pad": False},
        {"kernel_size": 3, "stride": 2, "ceil_mode": True},
        {"kernel_size": 3, "stride": 2, "padding": 1, "ceil_mode": True},
        {"kernel_size": 2, "stride": 3, "padding": 1, "ceil_mode": True},
        {
            "kernel_size": 4,
            "stride": 3,
            "padding": 2,
            "ceil_mode": True,
            "count_include_pad": False,
        },
    ],
    ids=str,
)
def test_avg_pool(rank, options):
    (x,) = arrays((2, 3, *(7, 6, 8)[:rank]))
    name = f"avg_pool{rank}d"
    check(lambda x: getattr(F, name)(x, **options), lambda x: getattr(T, name)(x, **options), x)


def test_avg_pool_with_a_divisor_and_sizes_a_dimension():
    (x,) = arrays((3, 7, 6))
    options = {"kernel_size": (3, 2), "stride": (2, 1), "padding": (1, 0), "divisor_override": 5}
    check(lambda x: F.avg_pool2d(x, **options), lambda x: T.avg_pool2d(x, **options), x)


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_adaptive_avg_pool(rank, size):
    (x,) = arrays((2, 3, *(6, 7, 5)[:rank]))
    name = f"adaptive_avg_pool{rank}d"
    check(lambda x: getattr(F, name)(x, size), lambda x: getattr(T, name)(x, size), x)


def test_adaptive_avg_pool_keeps_a_size_and_infinities_where_they_are():
    (x,) = arrays((1, 2, 5, 4))
    x[0, 0, 0, 0] = np.inf
    got = F.adaptive_avg_pool2d(fx.tensor(x), (3, None))
    close(got, T.adaptive_avg_pool2d(torch.tensor(x), (3, None)))


def test_pool_errors():
    x = fx.ones((1, 1, 4, 4))
    with pytest.raises(ShapeError, match=r"a window \(5, 5\) .* does not fit into an input"):
        F.max_pool2d(x, 5)
    with pytest.raises(ShapeError, match=r"padding .* should be at most half of the window"):
        F.max_pool2d(x, 2, padding=2)
    with pytest.raises(ValueError, match="divisor_override must not be 0"):
        F.avg_pool2d(x, 2, divisor_override=0)
    with pytest.raises(ShapeError, match="output_size must be an int or 2 ints"):
        F.adaptive_avg_pool2d(x, (1, 2, 3))
