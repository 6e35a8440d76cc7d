"""Legendre functions of the second kind, cylinder functions of whole orders, and elliptic ones."""

import numpy as np
import pytest

import fx

special = pytest.importorskip("scipy.special")
integrate = pytest.importorskip("scipy.integrate")
AT = np.array([0.1, 0.3, -0.7, 0.999, 1.001, 1.015, 1.03, -1.2, 1.5, -3.0, 10.0])


def _wide(x):
    return fx.tensor(x, dtype=fx.complex128 if np.iscomplexobj(x) else fx.float64)


def _integral(f, end):
    parts = [
        integrate.quad(lambda t, p=p: p(complex(f(t))), 0, end, epsabs=0, epsrel=1e-11, limit=500)[
            0
        ]
        for p in (np.real, np.imag)
    ]
    return complex(*parts)


@pytest.mark.filterwarnings("ignore")
def test_legendres_are_the_integral_that_they_are():
    for z in (1.001, 1.03, 1.5, 3.0, 10.0):
        got = fx.special.lqn(9, _wide(z))[0].numpy()
        root = np.sqrt(z * z - 1)
        want = [  # DLMF 14.12.6 of order 0
            _integral(lambda t, n=n, z=z, root=root: (z + root * np.cosh(t)) ** (-n - 1.0), 60).real
            for n in range(10)
        ]
        np.testing.assert_allclose(got, want, rtol=1e-11)
        odd = fx.special.lqn(9, _wide(-z))[0].numpy()
        np.testing.assert_allclose(odd, got * (-1.0) ** np.arange(1, 11), rtol=1e-13)
    inside = AT[:4]
    got = fx.special.lqn(7, _wide(inside))
    for i, z in enumerate(inside):
        for one, want in zip(got, special.lqn(7, z), strict=True):
            np.testing.assert_allclose(one[:, i].numpy(), want, rtol=1e-10)


@pytest.mark.parametrize(("m", "n"), [(0, 0), (0, 3), (1, 1), (2, 5), (4, 3), (3, 0)])
def test_associated_ones(m, n):
    got = fx.special.lqmn(m, n, _wide(AT))
    for i, z in enumerate(AT):
        for one, want in zip(got, special.lqmn(m, n, z), strict=True):
            assert one.shape == (m + 1, n + 1, len(AT))
            np.testing.assert_allclose(one[:, :, i].numpy(), want, rtol=1e-7)


@pytest.mark.parametrize(
    "f", [lambda z: fx.special.lqn(9, z), lambda z: fx.special.lqmn(3, 4, z)], ids=["lqn", "lqmn"]
)
def test_slopes_of_legendres(f):
    z, one = _wide(AT), _wide(np.ones(len(AT)))
    pushed = fx.jvp(lambda z: f(z)[0], (z,), (one,))[1].numpy()
    np.testing.assert_allclose(pushed, f(z)[1].numpy(), rtol=1e-9)
    lanes, jitted = fx.vmap(f, out_axes=-1)(z), fx.jit(f)(z)
    for a, b, c in zip(f(z), lanes, jitted, strict=True):
        np.testing.assert_allclose(b.numpy(), a.numpy(), rtol=1e-12)
        np.testing.assert_allclose(c.numpy(), a.numpy(), rtol=1e-12)
    narrow = f(z.astype(fx.float32))[0]
    assert narrow.dtype == fx.float32
    wide = f(z.astype(fx.float32).astype(fx.float64))[0]
    np.testing.assert_allclose(narrow.numpy(), wide.numpy(), rtol=1e-6)


PLACES = np.array(
    [0, 0.5, 1.5, 3, -2, 0.2 + 0.3j, 3 + 2j, -1 + 4j, 0.9 + 5j, 1.1 - 6j, -3 - 1j, 6 + 1j]
)


@pytest.mark.parametrize("k", [1, 2, 6, 12, 30])
def test_cylinder_functions_of_negative_orders(k):
    got = fx.special.pbdn_seq(-k, _wide(PLACES))[0][k].numpy()
    scale = special.gammaln(k)
    for value, z in zip(got, PLACES, strict=True):  # DLMF 12.5.1
        inner = lambda t, z=z: (
            np.exp((k - 1) * np.log(t) - t * t / 2 - z * t - scale) if t else k == 1
        )
        want = np.exp(-z * z / 4) * _integral(inner, 30)
        # of an oscillating integral quad has some digits less
        assert abs(value - want) < 1e-9 * abs(want) * np.exp(max(0, abs(z.imag) - 4) * 3)


@pytest.mark.parametrize("n", [5, 1, -1, -7])
def test_cylinder_functions_fulfil_their_equation(n):
    z, one = _wide(PLACES + 0j), _wide(np.ones(len(PLACES)) + 0j)
    f = lambda z: fx.special.pbdn_seq(n, z)
    values, slopes = (x.numpy() for x in f(z))
    (_, _), (first, second) = fx.jvp(f, (z,), (one,))
    np.testing.assert_allclose(first.numpy(), slopes, rtol=1e-9, atol=1e-13)
    orders = np.sign(n) * np.arange(abs(n) + 1)[:, None]
    want = (PLACES**2 / 4 - orders - 0.5) * values  # DLMF 12.2.4
    np.testing.assert_allclose(second.numpy(), want, rtol=1e-8, atol=1e-12)
    real = fx.special.pbdn_seq(n, fx.tensor([0.5, -2.0], dtype=fx.float64))
    for i, z in enumerate((0.5, -2.0)):
        each = [special.pbdv(v, z) for v in orders[:, 0]]
        for k in range(2):
            np.testing.assert_allclose(real[k][:, i].numpy(), [e[k] for e in each], rtol=1e-9)


def test_the_third_kind_as_a_principal_value():
    rng = np.random.default_rng(0)
    xs = [rng.uniform(0.2, 3, 12) for _ in range(3)] + [rng.uniform(-4, -0.2, 12)]
    xs[0][0], xs[3][1], xs[1][2] = 0.0, 1.5, xs[0][2]
    f = lambda *xs: fx.special.elliprj(*xs)
    given = list(map(_wide, xs))
    np.testing.assert_allclose(f(*given).numpy(), special.elliprj(*xs), rtol=1e-11)
    h = 1e-5
    for i in range(4):
        where = np.arange(12) != (0 if i == 0 else -1)  # at x = 0 there is no slope
        ends = [[x + s * h * (j == i) for j, x in enumerate(xs)] for s in (-1, 1)]
        with np.errstate(all="ignore"):
            want = np.subtract(*[special.elliprj(*e) for e in ends[::-1]]) / (2 * h)
        slope = fx.grad(lambda *xs: f(*xs).sum(), i)(*given).numpy()
        np.testing.assert_allclose(slope[where], want[where], rtol=2e-7)
    order = lambda i, j: fx.grad(
        lambda *xs: fx.grad(lambda *xs: f(*xs)[1:].sum(), i)(*xs)[1:].sum(), j
    )(*given)[1:]  # fmt: skip
    for i, j in ((0, 1), (0, 3), (2, 3)):
        np.testing.assert_allclose(order(i, j).numpy(), order(j, i).numpy(), rtol=1e-8)
    jitted = fx.jit(f)(*given).numpy()
    np.testing.assert_allclose(jitted, special.elliprj(*xs), rtol=1e-11)
    narrow = [x.astype(fx.float32) for x in given]
    want = special.elliprj(*[x.numpy().astype("float64") for x in narrow])
    np.testing.assert_allclose(f(*narrow).numpy(), want, rtol=2e-7)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("h2", "k2"), [(5.0, 8.0), (0.3, 4.0)])
def test_ellipsoidal_harmonics(h2, k2):
    s, far = np.array([0.2, -1.1, 2.5, 3.3, 12.0]), np.array([2.95, 3.3, 12.0])
    for n in range(7):
        for p in range(1, 2 * n + 2):
            want = [float(special.ellip_harm(h2, k2, n, p, x)) for x in s]
            got = fx.special.ellip_harm(h2, k2, n, p, _wide(s))
            np.testing.assert_allclose(got.numpy(), want, rtol=1e-9)
            want = [float(special.ellip_harm_2(h2, k2, n, p, x)) for x in far]
            got = fx.special.ellip_harm_2(h2, k2, n, p, _wide(far))
            np.testing.assert_allclose(got.numpy(), want, rtol=1e-7)
    signed = fx.special.ellip_harm(h2, k2, 3, 7, _wide(s), -1, -1)
    want = [float(special.ellip_harm(h2, k2, 3, 7, x, -1, -1)) for x in s]
    np.testing.assert_allclose(signed.numpy(), want, rtol=1e-10)
    assert bool(fx.special.ellip_harm_2(h2, k2, 2, 1, _wide(0.5)).isnan())


@pytest.mark.parametrize("name", ["ellip_harm", "ellip_harm_2"])
def test_slopes_of_ellipsoidal_harmonics(name):
    s = np.array([3.1, 4.5, 9.0])
    for p in range(1, 8):
        f = lambda s, p=p: getattr(fx.special, name)(5.0, 8.0, 3, p, s)
        h = 1e-4
        ends = [f(_wide(s + k * h)).numpy() for k in (-2, -1, 1, 2)]
        want = (ends[0] - 8 * ends[1] + 8 * ends[2] - ends[3]) / (12 * h)
        got = fx.grad(lambda s, f=f: f(s).sum())(_wide(s)).numpy()
        np.testing.assert_allclose(got, want, rtol=1e-7)
        np.testing.assert_allclose(fx.jit(f)(_wide(s)).numpy(), f(_wide(s)).numpy(), rtol=1e-13)
        np.testing.assert_allclose(fx.vmap(f)(_wide(s)).numpy(), f(_wide(s)).numpy(), rtol=1e-13)


def test_what_is_refused():
    x = fx.tensor(3.0)
    error = fx.errors.ArgumentError
    for call, kind, says in (
        (lambda: fx.special.lqn(-1, x), error, "lqn: n must not be negative"),
        (lambda: fx.special.lqn(1, fx.tensor(1j)), fx.errors.DTypeError, "lqn takes real numbers"),
        (lambda: fx.special.lqmn(0, -1, x), error, "lqmn: m and n must not"),
        (lambda: fx.special.ellip_harm(8, 5, 1, 1, x), error, "0 < h2 < k2"),
        (lambda: fx.special.ellip_harm(5, 8, 1, 4, x), error, "p one of 1 .. 2 n"),
        (lambda: fx.special.ellip_harm(5, 8, 1, 2, x, 3), error, "signm is 1 or -1"),
        (lambda: fx.special.ellip_harm_2([1, 2], 8, 1, 1, x), error, "numbers that are known"),
    ):  # fmt: skip
        with pytest.raises(kind, match=says):
            call()
