"""Elementwise functions at zeros, infinities, NaN, subnormal and huge numbers."""

import math

import numpy as np
import pytest
import torch

import fx

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")

SPECIAL = np.array(
    [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 1e-45, -1e-45, 3e38, -3e38, 0.5, -2.5],
    np.float32,
)
WAYS = pytest.mark.parametrize("way", [lambda f: f, fx.jit], ids=["eager", "jit"])
# not sign, which is NaN of NaN as the standard says, nor log1p, whose sign PyTorch loses at -1e-45
NAMES = (
    "abs acos acosh asin asinh atan atanh ceil cos cosh erf erfc exp exp2 expm1 floor lgamma log "
    "log10 log2 neg reciprocal round rsqrt sigmoid sin sinh sqrt square tan tanh trunc"
)


def of_one_class(got, want):
    """NaN, infinite and of one sign at the same places."""
    known = ~np.isnan(want)
    np.testing.assert_array_equal(np.isnan(got), ~known)
    np.testing.assert_array_equal(np.isinf(got), np.isinf(want))
    np.testing.assert_array_equal(np.signbit(got)[known], np.signbit(want)[known])


@WAYS
@pytest.mark.parametrize("name", NAMES.split())
def test_values_are_those_of_torch(name, way):
    want = getattr(torch, name)(torch.tensor(SPECIAL)).numpy()
    of_one_class(way(getattr(fx.torch, name))(fx.tensor(SPECIAL)).numpy(), want)


def power(x, y):
    """IEEE 754's pow."""
    if x < 0 and math.isfinite(x) and y % 1:
        return math.nan
    try:
        return math.pow(x, y)
    except (ValueError, OverflowError):  # a zero to a negative power, or too large
        return math.copysign(math.inf, x) if y % 2 == 1 else math.inf


@WAYS
@pytest.mark.parametrize("y", [0.5, -0.5, 0.0, 1.0, 2.0, 3.0, -1.0, 1.5])
def test_powers_are_those_of_the_standard(y, way):
    want = np.array([power(float(x), y) for x in SPECIAL]).astype(np.float32)
    of_one_class(way(lambda x: x**y)(fx.tensor(SPECIAL)).numpy(), want)


@WAYS
def test_slopes_where_there_is_no_angle_and_no_norm(way):
    zero = fx.tensor(0.0)
    assert [float(g) for g in way(fx.grad(fx.atan2, argnums=(0, 1)))(zero, zero)] == [0.0, 0.0]
    slope = way(fx.grad(lambda x: fx.torch.renorm(x, 2, 0, 1.0).sum()))(fx.zeros((2, 3)))
    assert (slope.numpy() == 1).all()


@WAYS
def test_a_sum_over_as_many_axes_as_there_may_be(way):
    assert float(way(lambda x: x.sum())(fx.ones((1,) * 64))) == 1.0
