"""Special functions where terms are longer than results, and where there is no result."""

import numpy as np
import pytest

import fx

special = pytest.importorskip("scipy.special")
INF, NAN = float("inf"), float("nan")


def _both(name, dtype, *args):
    """fx's values of arguments in a dtype, and SciPy's in double of the same arguments."""
    given = [np.asarray(a, dtype) for a in args]
    got = getattr(fx.special, name)(*map(fx.asarray, given))
    want = getattr(special, name)(*[a.astype("float64") for a in given])
    first = lambda x: x[0] if isinstance(x, tuple) else x
    return np.asarray(first(got).numpy()), np.asarray(first(want))


LONG = {  # pairs of arguments of which lgamma is large
    "comb": ([1e3, 1e6, 40.0], [3.0, 2.0, 20.0]), "binom": ([1e3, 1e7, 30.5], [3.0, 2.0, 4.5]),
    "perm": ([1e3, 1e6], [3.0, 2.0]), "poch": ([1e3, 1e6, 2.5, 1e5], [3.0, 1.5, 7.0, -2.25]),
    "beta": ([934.5, 60.0, 3.0], [1.77, 20.0, 0.1]),
    "betaln": ([1e6, 1e4, 640.0], [3.0, 2e4, 0.2]),
}  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", LONG)
def test_ratios_of_gamma_functions_keep_their_digits(name, dtype):
    got, want = _both(name, dtype, *LONG[name])
    rough = 2e-11 if name == "betaln" else 1e-12  # SciPy's own digits
    np.testing.assert_allclose(got, want, rtol=3e-7 if dtype == "float32" else rough)
    xs = [fx.tensor(x, dtype=getattr(fx, dtype)) for x in LONG[name]]
    f = lambda *xs: getattr(fx.special, name)(*xs).sum()
    slopes = fx.grad(f, (0, 1))(*xs)
    for narrow, wide in zip(slopes, fx.grad(f, (0, 1))(*[x.astype(fx.float64) for x in xs])):
        np.testing.assert_allclose(narrow.numpy(), wide.numpy(), rtol=2e-6)


def test_a_ratio_that_is_known():
    n = 1e6
    want = np.log(2.0) - np.log(n) - np.log(n + 1) - np.log(n + 2)
    got = fx.special.betaln(fx.tensor(n, dtype=fx.float64), 3.0)
    np.testing.assert_allclose(got.numpy(), want, rtol=3e-16)


def test_slopes_of_ratios_are_differences_of_digamma():
    a, b = (
        fx.tensor(x, dtype=fx.float64) for x in ([3.0, 12.0, 12.0, 500.0], [2.0, 4.0, 12.0, 12.0])
    )
    f = lambda a, b: fx.special.betaln(a, b).sum()
    for i, x in enumerate((a, b)):
        want = special.digamma(x.numpy()) - special.digamma((a + b).numpy())
        np.testing.assert_allclose(fx.grad(f, i)(a, b).numpy(), want, rtol=1e-10)
        wish = special.polygamma(1, x.numpy()) - special.polygamma(1, (a + b).numpy())
        second = fx.grad(lambda *ab, i=i: fx.grad(f, i)(*ab).sum(), i)(a, b)
        np.testing.assert_allclose(second.numpy(), wish, rtol=1e-9)


def test_signs_below_0():
    for name, *args in (
        ("beta", [-0.5, -2.5, -0.5, 0.0], [2.25, 0.5, -0.5, 0.0]),
        ("binom", [0.0, -2.5, 3.0, 2.5], [171.5, 3.0, 5.0, 4.0]),
        ("poch", [-2.5, -3.0, 0.0, 0.0, 5.0, -5.0, -2.0], [3.0, 2.0, 2.0, 0.0, -2.0, 2.0, -1.0]),
        ("sindg", [-1e-5, -30.0, 1e6, -400.0]), ("tandg", [-1e-5, -45.0, 100.0]),
        ("cosdg", [-1e-5, -100.0, 460.0]),
    ):  # fmt: skip
        got, want = _both(name, "float64", *args)
        np.testing.assert_allclose(got, want, rtol=1e-8, atol=1e-15, err_msg=name)
    assert fx.grad(fx.special.sindg)(fx.tensor(0.0)) == fx.tensor(np.float32(np.pi / 180))


def test_means_of_numbers_far_apart():
    got, want = _both(
        "agm", "float64", [1.0, 1e-3, -2.0, 0.0, 1.0, 3.0], [1e-20, 365.0, -3.0, 0.0, INF, 3.0]
    )
    np.testing.assert_allclose(got, want, rtol=1e-13)
    assert np.isnan(_both("agm", "float64", [-1.0], [2.0])[0]).all()


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("bdtr", (2.0, 5.0, 1.5)), ("bdtrc", (2.0, 5.0, -0.5)), ("bdtr", (-3.0, -5.0, 0.5)),
        ("fdtr", (100.0, 30.0, -1e3)), ("fdtr", (-2.0, 3.0, -1.0)), ("fdtrc", (2.0, 3.0, -1.0)),
        ("gdtr", (-1.0, 2.0, -1.0)), ("gdtrc", (-1.0, 2.0, -1.0)), ("expn", (NAN, 0.5)),
        ("expn", (INF, 0.5)), ("expn", (1.5, 0.5)), ("legendre_p", (NAN, 0.5)),
    ],
)  # fmt: skip
def test_there_is_no_number_outside(name, args):
    found = getattr(fx.special, name)(*[fx.tensor(x, dtype=fx.float64) for x in args])
    assert np.isnan(found.numpy()).all()


def test_distributions_in_float32():
    for name, *args in (
        ("fdtr", [59.97, 2.0], [0.0025, 3.0], [563.0, INF]), ("fdtrc", [0.14], [86.0], [0.0023]),
        ("bdtr", [3.0], [9.0], [1e-5]), ("betaincc", [2.0], [3.0], [1e-5]),
        ("nbdtrc", [2.0], [9.0], [1e-5]),
    ):  # fmt: skip
        got, want = _both(name, "float32", *args)
        np.testing.assert_allclose(got, want, rtol=1e-6, err_msg=name)


def test_divergences_of_neighbours():
    x, y = np.float32([0.6445, 19.2]), np.float32([0.6431, 19.6])
    part = (y.astype("float64") - x) / x
    want = x * (part - np.log1p(part))
    np.testing.assert_allclose(
        fx.special.kl_div(fx.asarray(x), fx.asarray(y)).numpy(), want, rtol=3e-4
    )
    slope = fx.grad(lambda x: fx.special.kl_div(x, fx.asarray(y)).sum())(fx.asarray(x))
    np.testing.assert_allclose(slope.numpy(), np.log(x / y.astype("float64")), rtol=1e-3)
    got, want = _both("rel_entr", "float32", [1e-38, 2.0], [1e10, 0.5])
    np.testing.assert_allclose(got, want, rtol=1e-6)
    np.testing.assert_allclose(
        *_both("pseudo_huber", "float32", [0.0, 1e-5, 2.0], [1.0, 1e30, 0.0])
    )


def test_long_angles_in_float32():
    got, want = _both("modfresnelp", "float32", [767.383, 17.25])
    np.testing.assert_allclose(got, want, rtol=1e-5)
    x = fx.tensor([767.383], dtype=fx.float32)
    slope = fx.grad(lambda x: fx.special.fresnel(x)[0].sum())(x).numpy()
    np.testing.assert_allclose(
        slope, np.sin(np.pi / 2 * x.numpy().astype("float64") ** 2), rtol=1e-5
    )


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_slopes_in_the_tails_of_error_functions(dtype):
    at = np.asarray([40.0, 29.0, 900.0, 1e5], dtype)
    wide = at.astype("float64")
    inverse = 1 / (2 * wide**2)
    tail = lambda s: -inverse * (1 + s * 3 * inverse + 15 * inverse**2 + s * 105 * inverse**3)
    x, rtol = fx.asarray(at), 1e-6 if dtype == "float32" else 3e-9
    of = lambda f: fx.grad(lambda x: f(x).sum())(x).numpy()
    np.testing.assert_allclose(of(fx.special.dawsn), tail(1), rtol=rtol)
    np.testing.assert_allclose(of(fx.special.erfcx), tail(-1) * 2 / np.pi**0.5, rtol=rtol)
    up = lambda x: fx.special.wofz(x * 1j).real  # erfcx
    np.testing.assert_allclose(of(up), tail(-1) * 2 / np.pi**0.5, rtol=rtol)


@pytest.mark.parametrize("name", ["struve", "modstruve"])
def test_slopes_of_negative_orders(name):
    v, x, h = np.array([-1.83, -2.25, -2.5, -0.5]), np.array([0.22, 0.7, 0.9, 1.1]), 1e-5
    peer = getattr(special, name)
    want = (peer(v, x + h) - peer(v, x - h)) / (2 * h)
    f = lambda x: getattr(fx.special, name)(fx.asarray(v), x).sum()
    np.testing.assert_allclose(fx.grad(f)(fx.asarray(x)).numpy(), want, rtol=1e-6)


def test_degrees_of_polynomials():
    with pytest.raises(fx.errors.ArgumentError, match="eval_legendre: degrees are whole numbers"):
        fx.special.eval_legendre(0.5, fx.tensor(0.3))
    with pytest.raises(fx.errors.ArgumentError, match="eval_chebyt: degrees are whole numbers"):
        fx.special.eval_chebyt(fx.tensor([2.0, -1.0]), fx.tensor(0.3))
    n = fx.tensor([NAN, INF, 2.0, 2000.0], dtype=fx.float64)
    x = fx.tensor([0.5, 0.5, 3.0, 0.5], dtype=fx.float64)
    got = fx.special.eval_chebyt(n, x).numpy()
    assert np.isnan(got[:2]).all() and got[2] == 17.0
    slope = fx.grad(lambda x: fx.special.eval_chebyt(n, x)[2:].sum())(x).numpy()
    assert slope[2] == 12.0  # no NaN of degree 2000 there
