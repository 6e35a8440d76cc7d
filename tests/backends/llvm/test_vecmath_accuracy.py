"""Transcendental functions: distance to exact values everywhere, and special values."""

from itertools import pairwise

import mpmath
import numpy as np
import pytest
import scipy.special

from fx.primitive import registry
from tests.backends.llvm.element_kernel import (
    element_kernel,
    every_float32,
    many_float64,
    specials,
    worst_ulp,
)

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")

_L = np.longdouble


def _sigmoid(x):
    return 1 / (1 + np.exp(-x))


def _softplus(x):
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


UNARY = {
    "exp": np.exp, "exp2": np.exp2, "expm1": np.expm1, "log": np.log, "log1p": np.log1p,
    "log2": np.log2, "log10": np.log10, "sin": np.sin, "cos": np.cos, "tan": np.tan,
    "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh, "arcsin": np.arcsin, "arccos": np.arccos,
    "arctan": np.arctan, "arcsinh": np.arcsinh, "arccosh": np.arccosh, "arctanh": np.arctanh,
    "sigmoid": _sigmoid, "softplus": _softplus, "sqrt": np.sqrt,
    "logit": lambda x: np.log(x / (1 - x)),
    "rsqrt": lambda x: 1 / np.sqrt(x), "reciprocal": lambda x: 1 / x,
}  # fmt: skip
ERROR = {"erf": scipy.special.erf, "erfc": scipy.special.erfc, "erfinv": scipy.special.erfinv}
BINARY = {"power": np.power, "arctan2": np.arctan2, "hypot": np.hypot}


# that keep what rounding took; the others are within 2 ulp of float32 and 4 of float64
CLOSE = {
    "sin": 0.85, "cos": 0.85, "tan": 1.0, "log1p": 1.0, "log2": 1.0, "log10": 1.0, "tanh": 1.0,
    "sinh": 0.85, "cosh": 0.75, "arcsin": 0.85, "arccos": 1.05, "arctan": 1.1, "arctan2": 1.05,
    "erf": 1.3, "erfc": 1.3,
}  # fmt: skip


@pytest.mark.parametrize("name", [*UNARY, *ERROR])
def test_float32_is_within_two_ulps(name):
    x = every_float32(1_000_003)
    got = element_kernel(name, ("f4",), "f4", 16)(x)
    exact = (UNARY | ERROR)[name](x.astype(np.float64))
    assert worst_ulp(got, exact) <= CLOSE.get(name, 2.0)


@pytest.mark.parametrize("name", UNARY)
def test_float64_is_within_four_ulps(name):
    x = many_float64(200_000)
    got = element_kernel(name, ("f8",), "f8", 8)(x)
    assert worst_ulp(got, UNARY[name](x.astype(_L))) <= CLOSE.get(name, 4.0)


@pytest.mark.parametrize("code, lanes", [("f4", 16), ("f8", 8)])
def test_logarithms_of_powers_are_exact(code, lanes):
    for name, base, most in (("log2", 2.0, 126), ("log10", 10.0, 37)):
        powers = np.arange(-most, most + 1)
        x = np.array([float(mpmath.mpf(base) ** int(k)) for k in powers], code)
        assert (element_kernel(name, (code,), code, lanes)(x) == powers).all()


@pytest.mark.parametrize("name", ERROR)
def test_float64_error_functions_are_within_four_ulps(name):
    r = np.random.default_rng(0)
    near_one = 1 - 10.0 ** r.uniform(-16, 0, 700)
    tails = r.uniform(-6, 27, 1000)
    x = np.concatenate([r.uniform(-1, 1, 1000), near_one if name == "erfinv" else tails])
    got = element_kernel(name, ("f8",), "f8", 8)(x)
    with mpmath.workdps(40):
        function = getattr(mpmath, name)
        exact = np.array([_L(mpmath.nstr(function(mpmath.mpf(float(v))), 25)) for v in x])
    assert worst_ulp(got, exact) <= CLOSE.get(name, 4.0)


SLOW = {  # name: the same in mpmath, where, and the ulp in float64
    "erfc": (mpmath.erfc, (-6, 0, 0.5, 4, 9), 4),
    "erfinv": (mpmath.erfinv, (-1, 0.1, 0.999, 0.9995, 0.9999999, 1), 4),  # pieces meet at 0.9992
    "erfcx": (lambda x: mpmath.erfc(x) * mpmath.exp(x * x), (-5, 0, 40), 5),
    "log_ndtr": (lambda x: mpmath.log(mpmath.erfc(-x / mpmath.sqrt(2)) / 2), (-30, -1, 1, 8), 6),
    "erfcinv": (lambda x: mpmath.erfinv(1 - x), (0.01, 1, 1.99), 6),
    "ndtri": (lambda x: mpmath.sqrt(2) * mpmath.erfinv(2 * x - 1), (0.005, 0.5, 0.995), 5),
    "gamma": (mpmath.gamma, (0, 1, 8, 16, 171.5), 4),
    "lgamma": (lambda x: mpmath.log(mpmath.gamma(x)), (0, 1, 3, 8, 150), 5),
    "digamma": (mpmath.digamma, (0, 1, 3, 8, 1000), 10),
    "trigamma": (lambda x: mpmath.polygamma(1, x), (-3, 0, 3, 100), 7),
    "bessel_i0": (lambda x: mpmath.besseli(0, x), (-9, 0, 9, 300), 6),
    "bessel_i1": (lambda x: mpmath.besseli(1, x), (-9, 0, 9, 300), 6),
    "bessel_ie0": (lambda x: mpmath.besseli(0, x) * mpmath.exp(-abs(x)), (-9, 0, 9, 300), 5),
    "bessel_ie1": (lambda x: mpmath.besseli(1, x) * mpmath.exp(-abs(x)), (-9, 0, 9, 300), 6),
}


@pytest.mark.parametrize("name", SLOW)
def test_special_functions_beside_40_digits(name):
    function, marks, most = SLOW[name]
    word, _, kind = name.partition("_i") if "bessel" in name else (name, "", "")
    params = (("kind", "i" + kind[:-1]), ("order", int(kind[-1]))) if kind else ()
    r = np.random.default_rng(2)
    for code, lanes, ulp in (("f4", 16, 0.52), ("f8", 8, most)):
        x = np.concatenate([r.uniform(*ends, 120) for ends in pairwise(marks)]).astype(code)
        with mpmath.workdps(40):
            exact = [_L(mpmath.nstr(function(mpmath.mpf(float(v))), 25)) for v in x]
        got = element_kernel(word, (code,), code, lanes, params)(x)
        assert worst_ulp(got, np.array(exact)) <= ulp


@pytest.mark.parametrize("name", BINARY)
def test_functions_of_two(name):
    r = np.random.default_rng(1)
    n = 300_000
    x = r.permutation(every_float32(n))
    y = np.concatenate([r.permutation(every_float32(n // 2)), r.normal(size=n // 2) * 30])
    y[::5] = np.round(y[::5])
    x, y = x.astype(np.float32), y.astype(np.float32)
    got = element_kernel(name, ("f4", "f4"), "f4", 16)(x, y)
    exact = BINARY[name](x.astype(np.float64), y.astype(np.float64))
    assert worst_ulp(got, exact) <= CLOSE.get(name, 2.0)
    x, y = r.permutation(many_float64(200_000, 2)), many_float64(200_000, 3)
    x = np.where(np.arange(x.size) % 2, np.abs(x), x)
    y[::5] = np.round(y[::5])
    got = element_kernel(name, ("f8", "f8"), "f8", 8)(x, y)
    assert worst_ulp(got, BINARY[name](x.astype(_L), y.astype(_L))) <= CLOSE.get(name, 4.0)


def test_logaddexp_is_precise_to_the_size_of_its_arguments():
    r = np.random.default_rng(2)
    for dtype, lanes, wide in ((np.float32, 16, np.float64), (np.float64, 8, _L)):
        x, y = (r.normal(size=(2, 200_000)) * 10).astype(dtype)
        got = element_kernel("logaddexp", (dtype, dtype), dtype, lanes)(x, y)
        off = np.abs(got - np.logaddexp(x.astype(wide), y.astype(wide)))
        assert (off <= np.finfo(dtype).eps * (1 + 2 * np.maximum(np.abs(x), np.abs(y)))).all()


@pytest.mark.parametrize("name", [*UNARY, *ERROR])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_special_values(name, dtype):
    x = specials(dtype)
    got = element_kernel(name, (dtype,), dtype, 8)(x)
    want = registry[name].cpu(x)
    info = np.finfo(dtype)
    assert np.array_equal(np.isnan(got), np.isnan(want))
    assert np.array_equal(np.isinf(got), np.isinf(want))
    finite = np.isfinite(want)
    assert np.array_equal((got == 0)[finite], (want == 0)[finite])
    if name != "erfinv":  # SciPy's erfinv(-0.0) is 0.0
        known = ~np.isnan(want)
        assert np.array_equal(np.signbit(got)[known], np.signbit(want)[known])
    off = np.abs(got - want)[finite]
    assert (off <= 6 * info.eps * np.abs(want[finite]) + 2 * info.smallest_subnormal).all()


@pytest.mark.parametrize("name", [*BINARY, "logaddexp"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_special_values_of_two(name, dtype):
    some = specials(dtype)
    x, y = (a.reshape(-1) for a in np.meshgrid(some, some))
    got = element_kernel(name, (dtype, dtype), dtype, 8)(x, y)
    want = registry[name].cpu(x, y)
    info = np.finfo(dtype)
    assert np.array_equal(np.isnan(got), np.isnan(want))
    assert np.array_equal(np.isinf(got), np.isinf(want))
    known, finite = ~np.isnan(want), np.isfinite(want)
    assert np.array_equal(np.signbit(got)[known], np.signbit(want)[known])
    off = np.abs(got - want)[finite]
    assert (off <= 6 * info.eps * np.abs(want[finite]) + 2 * info.smallest_subnormal).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_angles_up_to_the_largest_number(dtype):
    r = np.random.default_rng(3)
    top = np.log10(float(np.finfo(dtype).max))
    x = (10.0 ** r.uniform(11, top, 1500) * r.choice([-1, 1], 1500)).astype(dtype)
    # the float64 that is closest to a multiple of pi/2, and its kin
    x[:3] = [6381956970095103 * 2.0 ** (797 if dtype == np.float64 else 60), 1e30, -1e22]
    with mpmath.workdps(400):
        for name in ("sin", "cos", "tan"):
            function = getattr(mpmath, name)
            exact = np.array([_L(mpmath.nstr(function(mpmath.mpf(float(v))), 25)) for v in x])
            got = element_kernel(name, (dtype,), dtype, 8)(x)
            assert worst_ulp(got, exact) <= (2.0 if dtype == np.float32 else 4.0)


@pytest.mark.parametrize("name", [*UNARY, *ERROR])
def test_bits_do_not_depend_on_lanes(name):
    for dtype in (np.float32, np.float64):
        x = np.concatenate([specials(dtype), np.linspace(-20, 20, 999).astype(dtype)])
        one = element_kernel(name, (dtype,), dtype, None)(x)
        for lanes in (4, 8, 16):
            many = element_kernel(name, (dtype,), dtype, lanes)(x)
            assert np.array_equal(one, many, equal_nan=True)


@pytest.mark.parametrize("name", ["exp", "tanh", "log", "erf", "sin", "power", "sigmoid"])
def test_nothing_is_called(name):
    arity = 2 if name == "power" else 1
    for dtype in ("f4", "f8"):
        run = element_kernel(name, (dtype,) * arity, dtype, 8)
        called = [line for line in run.compiled.assembly().splitlines() if "call" in line]
        assert all("fx." in line or "*%r" in line for line in called)
        assert all(f.startswith("llvm.") for f in _declared(run.compiled.optimised))


def _declared(text):
    for line in text.splitlines():
        if line.startswith("declare"):
            yield line.split("@")[1].split("(")[0]
