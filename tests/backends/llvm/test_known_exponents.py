"""Exponents that are known: code of their own, with the same bits however a power is served."""

import numpy as np
import pytest
from ml_dtypes import bfloat16

import fx
from fx.backends.cpu.llvm import driver
from fx.graph.family import Family, Numbered
from fx.primitive import registry
from tests.backends.llvm.element_kernel import every_float32, worst_ulp

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")

POWERS = [-2.0, -0.5, 0.5]


@pytest.mark.parametrize("number", POWERS)
def test_every_float32_is_rounded_as_the_best(number):
    x = every_float32(1_000_003)
    got = (fx.tensor(x) ** number).numpy()
    assert worst_ulp(got, np.power(x.astype(np.float64), np.full(x.shape, number))) <= 0.505


@pytest.mark.parametrize("dtype", [np.float16, bfloat16])
@pytest.mark.parametrize("number", POWERS)
def test_short_floats_are_rounded_once_more(number, dtype):
    x = np.arange(2**16, dtype=np.uint16).view(dtype)
    got = fx.jit(lambda x: x**number)(fx.tensor(x)).numpy()
    want = np.power(x.astype(np.float64), np.full(x.shape, number)).astype(dtype)
    assert np.array_equal(np.isnan(got), np.isnan(want))
    known = ~np.isnan(want)
    assert np.array_equal(np.signbit(got[known]), np.signbit(want[known]))
    off = got[known].view(np.uint16).astype(int) - want[known].view(np.uint16).astype(int)
    assert (abs(off) <= 1).all() and (off != 0).mean() < 1e-3


def powers(number):
    def f(x):
        y = x**number
        return y, fx.grad(lambda a: (a**number).sum())(x)

    return f


@pytest.mark.parametrize("dtype", ["f", "d"])
@pytest.mark.parametrize("number", [-2.0, -1.0, -0.5, 0.5, 1.5, 1.7])
def test_bits_are_those_of_no_earlier_call(number, dtype):
    driver.forget()
    other, f = fx.jit(powers(2.3)), fx.jit(powers(number))
    for n in (700, 901):  # which makes a family
        other(fx.ones((n, 3), dtype=fx.float32 if dtype == "f" else fx.float64))
    for n in (700, 901, 1203, 1507, 1811):
        x = fx.tensor(np.abs(np.random.default_rng(n).normal(size=(n, 3))).astype(dtype))
        alone = fx.jit(powers(number), dynamic=False)(x)
        eager = powers(number)(x)
        for k, (a, b, c) in enumerate(zip(f(x), alone, eager, strict=True)):
            np.testing.assert_array_equal(a.numpy(), b.numpy())
            if number - k in (*POWERS, -1.0, -3.0):  # NumPy's pow computes other powers eagerly
                np.testing.assert_array_equal(a.numpy(), c.numpy())


def test_graphs_of_other_exponents_are_of_another_form():
    def written(number, factor, n):
        return Numbered(fx.make_graph(lambda x: x**number * factor)(fx.ones(n)))

    first = written(1.7, 3.1, 5)
    assert first.lines == written(1.7, 4.1, 6).lines != written(-2.0, 3.1, 6).lines
    assert len(Family(first, written(1.7, 4.1, 6)).free) == 1
    # a number that is an exponent too is one
    both = [Numbered(fx.make_graph(lambda x, c=c: x**c * c)(fx.ones(5))) for c in (1.7, 2.7)]
    assert both[0].lines != both[1].lines


def test_what_code_takes_numbers_of_says_so():
    from fx.backends.cpu.llvm.vecmath import power

    assert set(power.BY_NUMBER) == set(POWERS) and registry["power"].literals == (1,)
