"""Native convolutions: against PyTorch, against exact loops, whatever the cut into tasks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import fx
from fx import limits
from fx.backends.cpu import conv as eager
from fx.backends.cpu.llvm import conv as room
from fx.backends.cpu.llvm.machines import emitting_for, host
from fx.prims import convolution
from tests.backends.llvm.conv_steps import Steps, run, setting
from tests.backends.llvm.run_step import node_of

# (N, C, O, size, kernel, stride, padding, dilation, groups)
CASES = [
    (2, 3, 5, (9,), (3,), (1,), (0,), (1,), 1),
    (3, 4, 6, (11,), (3,), (2,), (2,), (2,), 2),
    (1, 64, 24, (3000,), (5,), (2,), (2,), (1,), 1),  # strips
    (2, 3, 8, (8, 9), (3, 2), (1, 1), (0, 0), (1, 1), 1),
    (2, 3, 8, (8, 9), (3, 3), (2, 1), (1, 2), (1, 2), 1),
    (2, 16, 40, (30, 17), (3, 3), (1, 1), (1, 1), (1, 1), 1),  # a narrow last block
    (2, 40, 20, (7, 7), (3, 3), (1, 1), (1, 1), (1, 1), 1),  # tiles of several rows
    (3, 6, 16, (14, 14), (5, 5), (1, 1), (0, 0), (1, 1), 1),
    (3, 1, 6, (12, 12), (5, 5), (1, 1), (2, 2), (1, 1), 1),
    (1, 3, 33, (23, 29), (7, 7), (2, 2), (3, 3), (1, 1), 1),
    (1, 16, 40, (33, 47), (5, 3), (2, 3), (1, 1), (1, 2), 2),
    (2, 6, 6, (20, 20), (3, 3), (1, 1), (1, 1), (1, 1), 6),  # depthwise
    (2, 6, 12, (9, 40), (3, 3), (2, 2), (1, 1), (1, 1), 6),  # depthwise, strided, two a channel
    (2, 9, 9, (17, 33), (3, 3), (2, 2), (1, 1), (1, 1), 9),  # depthwise, lanes two apart
    (1, 8, 8, (9, 70), (5, 3), (2, 3), (1, 1), (1, 2), 8),  # depthwise, lanes three apart
    (2, 8, 16, (31,), (3,), (5,), (1,), (1,), 8),  # a stride too wide for lanes
    (50, 24, 40, (3, 4), (3, 3), (1, 1), (1, 1), (1, 1), 1),  # stacks of small samples
    (3, 35, 70, (9, 16), (1, 1), (1, 1), (0, 0), (1, 1), 1),  # pointwise
    (2, 5, 7, (6, 6), (1, 1), (2, 2), (0, 0), (1, 1), 1),  # most inputs are never seen
    (2, 4, 8, (6, 6), (2, 2), (3, 3), (0, 0), (1, 1), 1),  # some inputs are never seen
    (2, 4, 8, (4, 4), (4, 4), (1, 1), (0, 0), (1, 1), 1),  # one position
    (1, 3, 8, (2, 2), (3, 3), (1, 1), (2, 2), (1, 1), 1),  # kernel larger than the input
    (2, 3, 8, (5, 5), (1, 1), (1, 1), (2, 2), (1, 1), 1),  # more padding than the kernel reaches
    (2, 3, 6, (5, 6, 7), (2, 3, 2), (1, 2, 1), (1, 0, 1), (2, 1, 1), 1),
    (2, 4, 4, (4, 5, 6), (3, 3, 3), (1, 1, 2), (1, 1, 1), (1, 1, 1), 2),
]


def against_torch(case, dtype):
    torch = pytest.importorskip("torch")
    N, C, O, size, kernel, stride, padding, dilation, groups = case
    rng = np.random.default_rng(0)

    def draw(*shape):
        return rng.standard_normal(shape).astype(dtype)

    x, w = draw(N, C, *size), draw(O, C // groups, *kernel)
    tx, tw = (torch.tensor(a, requires_grad=True) for a in (x, w))
    function = getattr(torch.nn.functional, f"conv{len(size)}d")
    ty = function(tx, tw, None, stride, padding, dilation, groups)
    g = draw(*ty.shape)
    tgx, tgw = torch.autograd.grad(ty, (tx, tw), torch.tensor(g))
    kw = setting(stride, padding, dilation, groups=groups)
    tolerance = 1e-5 if dtype == np.float32 else 1e-13
    for mine, oracle in (
        (run("conv", x, w, **kw), ty.detach()),
        (run("conv_input_grad", g, w, input_size=size, **kw), tgx),
        (run("conv_weight_grad", x, g, kernel_size=kernel, **kw), tgw),
    ):
        scale = max(1.0, float(np.abs(oracle.numpy()).max(initial=0)))
        np.testing.assert_allclose(mine, oracle.numpy(), rtol=0, atol=scale * tolerance)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_agrees_with_torch(case):
    against_torch(case, np.float32)


@pytest.mark.parametrize("case", CASES[::3], ids=str)
def test_float64_agrees_with_torch(case):
    against_torch(case, np.float64)


@pytest.mark.parametrize("nbytes", [16, 32], ids=["sse", "avx2"])
def test_narrower_vectors_agree_with_torch(nbytes):
    with emitting_for(replace(host(), vector_bytes=nbytes, registers=16)):
        for case in CASES[1::4]:
            against_torch(case, np.float32)


def test_small_bands_agree_with_torch():
    with limits.given(CONV_PLANES=4096, CONV_LINES_PLANES=1024, CONV_GRAD_BAND=4096):
        for case in CASES[5:13]:
            against_torch(case, np.float32)


def exact_input_grad(g, w, size, stride, padding, groups):
    """What the definition says, number by number."""
    out = np.zeros((g.shape[0], w.shape[1] * groups, *size))
    kernel = w.shape[2:]
    for n, o, i, j in np.ndindex(g.shape):
        first = o // (w.shape[0] // groups) * w.shape[1]
        for c, a, b in np.ndindex(w.shape[1], *kernel):
            h, v = i * stride - padding + a, j * stride - padding + b
            if 0 <= h < size[0] and 0 <= v < size[1]:
                out[n, first + c, h, v] += g[n, o, i, j] * w[o, c, a, b]
    return out


@pytest.mark.parametrize("channels", [2, 34], ids=["by lines", "by taps"])
@pytest.mark.parametrize(("stride", "groups"), [(1, 1), (2, 1), (2, 2)])
def test_weights_that_are_not_finite_reach_what_they_touch_and_no_more(stride, groups, channels):
    rng = np.random.default_rng(1)
    size = (5, 33)  # rows in several tiles, whose first and last columns see padding
    w = rng.standard_normal((6, channels // groups, 3, 3))
    out = [(n + 2 - 3) // stride + 1 for n in size]
    g = rng.standard_normal((1, 6, *out))
    w[0, 0, 0, 0], w[4, -1, 2, 2] = np.inf, np.nan
    kw = setting((stride, stride), (1, 1), (1, 1), groups=groups)
    mine = run("conv_input_grad", g, w, input_size=size, **kw)
    with np.errstate(invalid="ignore"):
        expected = exact_input_grad(g, w, size, stride, 1, groups)
    assert np.isfinite(expected).any() and not np.isfinite(expected).all()
    np.testing.assert_allclose(mine, expected, rtol=1e-12, atol=1e-12)


def test_infinities_and_nan_pass_through():
    kw = setting((1, 1), (1, 1), (1, 1), groups=1)
    x = np.zeros((1, 1, 5, 5), np.float32)
    x[0, 0, 2, 2], x[0, 0, 0, 0] = np.inf, np.nan
    y = run("conv", x, np.ones((3, 1, 3, 3), np.float32), **kw)
    assert np.isposinf(y[0, :, 3, 3]).all()
    assert np.isnan(y[0, :, 1, 1]).all()
    assert np.isfinite(y[0, :, 4, 4]).all()
    g = np.ones((1, 3, 5, 5), np.float32)
    gw = run("conv_weight_grad", x, g, kernel_size=(3, 3), **kw)
    assert np.isnan(gw[:, 0, 1, 1]).all()
    assert np.isposinf(gw[:, 0, 2, 2]).all()  # the last tap never sees the corner


def test_one_corner_reaches_one_weight():
    kw = setting((2, 2), (1, 1), (1, 1), groups=1)
    rng = np.random.default_rng(4)
    x, g = rng.standard_normal((2, 1, 6, 6)), rng.standard_normal((2, 2, 3, 3))
    x[0, 0, 0, 0] = np.inf
    gw = run("conv_weight_grad", x, g, kernel_size=(3, 3), **kw)
    assert (~np.isfinite(gw)).sum(axis=(1, 2, 3)).tolist() == [1, 1]


def test_integers_are_left_to_numpy():
    x, w = np.ones((1, 2, 5, 5), np.int32), np.ones((3, 2, 3, 3), np.int32)
    kw = setting((1, 1), (0, 0), (1, 1), groups=1)
    node = node_of(convolution.conv, (x, w), **kw)
    assert room.STEPS["conv"](node) is None


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_eager_calls_use_the_same_kernels_and_the_same_bits(threads):
    rng = np.random.default_rng(0)
    x, w = (rng.standard_normal(s).astype(np.float32) for s in ((3, 5, 9, 20), (18, 5, 3, 3)))
    kw = setting((1, 1), (1, 1), (1, 1), groups=1)
    before = fx.get_num_threads()
    fx.set_num_threads(threads)
    try:
        with limits.given(CONV_FROM=0):
            y = eager.conv(x, w, **kw)
            gx = eager.conv_input_grad(y, w, input_size=(9, 20), **kw)
            gw = eager.conv_weight_grad(x, y, kernel_size=(3, 3), **kw)
    finally:
        fx.set_num_threads(before)
    np.testing.assert_array_equal(y, run("conv", x, w, **kw))
    np.testing.assert_array_equal(gx, run("conv_input_grad", y, w, input_size=(9, 20), **kw))
    np.testing.assert_array_equal(gw, run("conv_weight_grad", x, y, kernel_size=(3, 3), **kw))


@pytest.mark.parametrize("dtype", [np.float16, np.int32])
def test_other_dtypes_are_what_they_were(dtype):
    rng = np.random.default_rng(0)
    x, w = (rng.integers(-4, 4, s).astype(dtype) for s in ((2, 3, 6, 7), (4, 3, 3, 3)))
    kw = setting((1, 1), (1, 1), (1, 1), groups=1)
    expected = eager.conv(x, w, **kw)
    with limits.given(CONV_FROM=0):
        out = eager.conv(x, w, **kw)
    assert out.dtype == dtype
    np.testing.assert_array_equal(out, expected)


def test_steps_with_equal_keys_have_equal_code():
    x, w = np.ones((2, 3, 8, 8), np.float32), np.ones((4, 3, 3, 3), np.float32)
    kw = setting((1, 1), (1, 1), (1, 1), groups=1)
    first, second = (Steps("conv", (x, w), **kw) for _ in range(2))
    for a, b, left, right in zip(first.steps, second.steps, first.kernels, second.kernels):
        assert a.key == b.key
        assert left.compiled.text == right.compiled.text
