"""``fx.special`` against SciPy and PyTorch: values, slopes, jit, special points, refusals."""

import warnings

import mpmath
import numpy as np
import pytest

import fx
import fx.special
import fx.torch

torch = pytest.importorskip("torch")
scipy = pytest.importorskip("scipy.special")

pytestmark = pytest.mark.filterwarnings("ignore:.*")
INF, NAN = np.inf, np.nan
WIDE = np.concatenate([np.linspace(-8, 8, 81), [1e-8, -1e-8, 30.0, -30.0, 0.0]])
POSITIVE, UNIT = np.geomspace(1e-3, 60, 70), np.linspace(0.01, 0.99, 41)
_WIDE = "i0 i0e i1 i1e j0 j1 erfcx log_ndtr ndtr exprel"
_POSITIVE = "y0 y1 k0 k0e k1 k1e entr digamma psi"
_POINTS = "entr i0 i0e i1 i1e ndtri log_ndtr erfcx logit ndtr"
ONE = {  # name: where
    **dict.fromkeys(_WIDE.split(), WIDE), **dict.fromkeys(_POSITIVE.split(), POSITIVE),
    "gammaln": WIDE[:-1] + 0.01, "gamma": np.linspace(-4.9, 20, 60), "erfinv": 2 * UNIT - 1,
    "erfcinv": 2 * UNIT, "ndtri": UNIT, "expit": WIDE, "logit": UNIT, "airy_ai": WIDE[:81],
    "spherical_j0": WIDE[:-1], "sinc": WIDE,
}  # fmt: skip
OTHER_NAMES = {
    "airy_ai": lambda x: scipy.airy(x)[0], "spherical_j0": lambda x: scipy.spherical_jn(0, x),
    "sinc": np.sinc,
}  # fmt: skip
LOOSE = {"gamma": 1e-13, "digamma": 1e-12, "psi": 1e-12, "gammaln": 1e-12, "ndtr": 2e-14}


def scipys(name):
    return OTHER_NAMES.get(name) or getattr(scipy, name)


def close(got, want, rtol):
    """Relative to each number, and near a zero of the function to what its size is nearby."""
    np.testing.assert_allclose(got, want, rtol=rtol, atol=rtol * 0.1)


@pytest.mark.parametrize("name", sorted(ONE))
def test_of_one_argument(name):
    """Values to the last digits, float32 as exact as rounding; and jit is native and the same."""
    x, f = ONE[name], getattr(fx.special, name)
    want = scipys(name)(x)
    for way in (f, fx.jit(f)):
        close(way(fx.asarray(x)).numpy(), want, LOOSE.get(name, 1e-14))
    single = x.astype("float32")
    exact = scipys(name)(single.astype("float64"))
    inner = np.abs(exact) < 1e37
    for way in (f, fx.jit(f)):
        got = way(fx.asarray(single)).numpy()
        assert got.dtype == np.float32
        np.testing.assert_allclose(got[inner], exact[inner], rtol=6e-6, atol=2e-7)


@pytest.mark.parametrize("name", sorted(ONE))
def test_slopes_to_third_order(name):
    x = ONE[name]
    x = x[(np.abs(x) < 6) & (np.abs(x) > 0.05)][::5]
    x = x[x > 0.2] if name == "gammaln" else x  # near its poles differences say little
    f = getattr(fx.special, name)
    step = 2.0**-12
    for _ in range(3):
        slope = fx.grad(lambda x, f=f: f(x).sum())
        at = [f(fx.asarray(x + k * step)).numpy() for k in (-2, -1, 1, 2)]
        differences = (at[0] - 8 * at[1] + 8 * at[2] - at[3]) / (12 * step)
        got = slope(fx.asarray(x)).numpy()
        size = np.abs(got).max()
        np.testing.assert_allclose(got, differences, rtol=2e-6, atol=1e-8 * size)
        np.testing.assert_allclose(fx.jit(slope)(fx.asarray(x)).numpy(), got, rtol=1e-11)
        f = slope


FLOATS = [np.finfo(t) for t in ("float32", "float64")]
EDGES = np.array([  # numbers at which a formula may lose its way, in both dtypes
    *(s * f.tiny * 2.0**-k for f in FLOATS for s in (1, -1) for k in (0, 1, 3, 21)),
    *(s * f.max for f in FLOATS for s in (1, -1)),
    *(1.0 + s * f.eps for f in FLOATS for s in (1, -1)),
    0.0, -0.0, INF, -INF, NAN, *np.arange(-6.0, 7.0, 0.5), *np.geomspace(1e-30, 1e30, 31),
    *-np.geomspace(1e-30, 1e30, 31), 33.3, 34.5, -33.3, -36.5, 150.0, -150.5, 171.0, -171.0, -171.5,
])  # fmt: skip
GAMMAS = ("gamma", "rgamma", "lgamma", "digamma", "gammasgn")


def _exactly(name, x):
    """The limit of a function of the gamma family in 40 digits; None where there is none."""
    if np.isnan(x) or (np.isinf(x) and (x < 0 or name == "rgamma")):
        return None
    pole = x <= 0 and x == np.floor(x)
    if pole and (name == "digamma" or (name in ("gamma", "gammasgn") and x)):
        return -np.copysign(INF, x) if x == 0 else NAN
    if pole or np.isinf(x):
        sign = np.copysign(1.0, x)
        return {"gamma": sign * INF, "rgamma": 0.0, "gammasgn": sign}.get(name, INF)
    if abs(x) > 1e4 and name in ("gamma", "rgamma", "gammasgn"):  # all of them whole but for 2^52
        return None if x < 0 else {"gamma": INF, "rgamma": 0.0, "gammasgn": 1.0}[name]
    mpmath.mp.dps = 60
    if name == "lgamma":
        found = mpmath.re(mpmath.loggamma(x)) if abs(x) > 1e-300 else -mpmath.log(abs(x))
    elif name == "gammasgn":
        found = mpmath.sign(mpmath.rgamma(x))
    else:
        found = getattr(mpmath, name)(x)
    return float(found)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", GAMMAS)
@pytest.mark.filterwarnings("ignore")
def test_the_gamma_family_at_its_edges(name, dtype):
    """Near poles, among numbers that are not normal, at both infinities; eagerly and compiled."""
    function = fx.lgamma if name == "lgamma" else getattr(fx.special, name)
    x = np.unique(EDGES.astype(dtype))
    x = np.concatenate([x, np.array([-0.0], dtype)])
    known = [_exactly(name, float(v)) for v in x]
    x, want = x[[w is not None for w in known]], np.array([w for w in known if w is not None])
    loose = 3e-13 if dtype == "float64" else 1.2e-7  # gamma is the exponential of up to 709
    for way in (function, fx.jit(function)):
        got = way(fx.asarray(x)).numpy()
        np.testing.assert_allclose(
            got, want.astype(dtype), rtol=loose, atol=np.finfo(dtype).smallest_subnormal
        )
        zero = want == 0
        assert (np.signbit(got) == np.signbit(want))[~zero & ~np.isnan(want)].all()


def test_the_slope_of_rgamma_at_its_zeros():
    """(-1)^n n!, which a quotient by the infinite gamma would lose."""
    x = fx.asarray([0.0, -1.0, -2.0, -3.0, -0.0, -1.5], dtype=fx.float64)
    slopes = fx.vmap(fx.grad(fx.special.rgamma))(x).numpy()
    want = [float(mpmath.diff(mpmath.rgamma, v)) for v in x.tolist()]
    np.testing.assert_allclose(slopes, want, rtol=1e-12)


def test_bessel_slopes_at_0_to_any_order():
    """j1''' is -3/8 there, which a quotient by x would lose."""
    third = lambda f: fx.grad(fx.grad(fx.grad(f)))(fx.tensor(0.0, dtype=fx.float64)).item()
    assert third(fx.special.j1) == pytest.approx(-3 / 8, abs=1e-15)
    assert third(fx.special.i1) == pytest.approx(3 / 8, abs=1e-15)
    for name, kind in (("jn", "jv"), ("yn", "yv"), ("iv", "iv"), ("kn", "kv")):
        for n in (-3, -1, 0, 1, 2, 5):
            got = getattr(fx.special, name)(n, fx.asarray(POSITIVE)).numpy()
            np.testing.assert_allclose(got, getattr(scipy, kind)(n, POSITIVE), rtol=1e-12)


A = np.array([0.3, 1.0, 2.5, 10.0])[:, None]
X = np.array([0.01, 0.4, 1.0, 3.0, 25.0])
U = np.array([0.05, 0.4, 0.9])
SEVERAL = {  # name: arguments, which of them has a slope
    "gammainc": ((A, X), 1), "gammaincc": ((A, X), 1), "zeta": ((A + 1.1, X), 1),
    "betainc": ((A, A.T[..., None] + 0.2, U), 2), "beta": ((A, X), 0), "betaln": ((A, X), 1),
    "xlogy": ((X - 1, A), 1), "xlog1py": ((X - 1, A), 0),
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(SEVERAL))
def test_of_several(name):
    args, at = SEVERAL[name]
    args = [np.ascontiguousarray(a) for a in args]
    if name == "betainc":
        args = [np.ascontiguousarray(np.squeeze(a)) for a in np.broadcast_arrays(A, 1.0, U)]
        args[1] = args[1] + 0.7
    f, given = getattr(fx.special, name), [fx.asarray(a) for a in args]
    want = getattr(scipy, name)(*args)
    for way in (f, fx.jit(f)):
        close(way(*given).numpy(), want, 1e-12)
    of_one = lambda x: f(*given[:at], x, *given[at + 1 :])
    step = 2.0**-14 * args[at]
    up, down = (of_one(fx.asarray(args[at] + s)).numpy() for s in (step, -step))
    tangent = fx.asarray(step)
    got = fx.jvp(of_one, (given[at],), (tangent,))[1].numpy()
    np.testing.assert_allclose(got, (up - down) / 2, rtol=3e-6, atol=1e-12)
    total = fx.grad(lambda x: of_one(x).sum())(given[at])
    np.testing.assert_allclose((total * tangent).sum().item(), got.sum(), rtol=1e-9)


@pytest.mark.parametrize("name", ["gammainc", "gammaincc", "zeta"])
def test_slopes_in_the_order(name):
    """Against differences of 40 digits, from far below the mode to far above it."""
    exact = {
        "gammainc": lambda a, x: mpmath.gammainc(a, 0, x, regularized=True),
        "gammaincc": lambda a, x: mpmath.gammainc(a, x, mpmath.inf, regularized=True),
        "zeta": lambda a, x: mpmath.zeta(a + 1, x),
    }[name]
    f = getattr(fx.special, name)
    first = (lambda a, x: f(a + 1, x)) if name == "zeta" else f
    a, x = map(
        np.ravel, np.meshgrid([0.05, 0.7, 1.0, 4.0, 30.0], [1e-3, 0.3, 1.0, 5.0, 29.0, 70.0])
    )
    with mpmath.workdps(40):
        want = [mpmath.diff(lambda a, x=x: exact(a, mpmath.mpf(x)), mpmath.mpf(a))
                for a, x in zip(map(float, a), map(float, x))]  # fmt: skip
    want = np.array(list(map(float, want)))
    slope = fx.grad(lambda a, x: first(a, x).sum())
    for way in (slope, fx.jit(slope), fx.vmap(fx.grad(first))):
        got = way(fx.asarray(a), fx.asarray(x)).numpy()
        np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-16)
    ends = fx.grad(lambda a: f(a, fx.tensor([0.0, np.inf])).sum())(fx.tensor([2.0, 2.0]))
    assert name == "zeta" or ends.tolist() == [0.0, 0.0]


def test_a_slope_that_is_missing_is_refused():
    x = fx.asarray(X)
    for f in (lambda a: fx.special.kv(a, x), lambda b: fx.special.hyp1f1(x, b, 0.5)):
        pushed = lambda a, f=f: fx.jvp(f, (a,), (a,))
        for derivative in (fx.grad(lambda a, f=f: f(a).sum()), pushed):
            with pytest.raises(ValueError, match=r"no derivative of .* with respect to"):
                derivative(x)


@pytest.mark.parametrize("name", [n for n in fx.special.__all__ if "_polynomial_" in n])
def test_polynomials(name):
    x = np.linspace(-3, 3, 13)
    f, g = getattr(fx.torch.special, name), getattr(torch.special, name)
    for n in (-1, 0, 1, 2, 5, 2.7):
        want = g(torch.tensor(x), n).numpy()
        np.testing.assert_allclose(f(fx.torch.tensor(x), n).numpy(), want, rtol=1e-9, atol=1e-9)
    degrees = np.arange(-1.0, 5.0)[:, None]
    want = g(torch.tensor(x), torch.tensor(degrees)).numpy()
    got = f(fx.torch.tensor(x), fx.torch.tensor(degrees))
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-9, atol=1e-9)
    h = lambda x: f(x, 4)
    slope = fx.vmap(fx.grad(h))(fx.asarray(x)).numpy()
    near = (h(fx.asarray(x + 1e-6)) - h(fx.asarray(x - 1e-6))).numpy() / 2e-6
    np.testing.assert_allclose(slope, near, rtol=1e-6, atol=1e-5)


def test_scipys_names_of_polynomials():
    x = np.linspace(-0.9, 0.9, 7)
    for name in ("chebyt", "chebyu", "hermite", "hermitenorm", "laguerre", "legendre"):
        got = getattr(fx.special, f"eval_{name}")(6, fx.asarray(x)).numpy()
        np.testing.assert_allclose(
            got, getattr(scipy, f"eval_{name}")(6, x), rtol=1e-11, atol=1e-12
        )
    at, degrees = fx.tensor([0.3, 0.5, 0.7]), fx.tensor([1, 2, 3])
    jitted = fx.jit(fx.special.eval_chebyt)
    for n in (degrees, degrees + 1):
        got, expected = jitted(n, at).numpy(), scipy.eval_chebyt(n.numpy(), at.numpy())
        np.testing.assert_allclose(got, expected, rtol=1e-5)
    with pytest.raises(ValueError, match="degrees have to be known"):
        fx.vmap(fx.special.eval_chebyt)(degrees, at)


POINTS = [0.0, -0.0, 1.0, -1.0, 0.5, INF, -INF, NAN, 2.0]
# PyTorch's slope of erfcx at inf is inf - inf, its i1 has one at NaN, its log_ndtr none at -inf,
# and its i0 and i1 of inf are NaN; SciPy's scaled function of order 2 is NaN at inf; logit's
# slope at -0.0 has the sign of 1 / -0.0
OTHERS = {
    "erfcx": (INF,), "log_ndtr": (-INF,), "i0": (INF, -INF), "i1": (INF, -INF, NAN),
    "i1e": (INF, -INF, NAN), "logit": (-0.0,),
}  # fmt: skip


def slopes(library, f, *values):
    leaves = [library.tensor(v, dtype=library.float64, requires_grad=True) for v in values]
    y = f(library, *leaves)
    y.backward()
    return [y.item(), *[leaf.grad.item() for leaf in leaves]]


@pytest.mark.parametrize("name", _POINTS.split())
def test_special_points_are_pytorchs(name):
    for x in POINTS:
        if str(x) in map(str, OTHERS.get(name, ())):
            continue
        f = lambda library, x: getattr(library.special, name)(x)
        got, want = slopes(fx.torch, f, x), slopes(torch, f, x)
        np.testing.assert_allclose(got, want, rtol=1e-12, err_msg=f"{name}({x})")


@pytest.mark.parametrize("name", ["xlogy", "xlog1py"])
def test_pairs_at_special_points_are_pytorchs(name):
    f = lambda library, x, y: getattr(library.special, name)(x, y)
    for x in POINTS:
        for y in POINTS:
            got, want = slopes(fx.torch, f, x, y), slopes(torch, f, x, y)
            np.testing.assert_allclose(got, want, rtol=1e-12, err_msg=f"{name}({x}, {y})")


def test_every_name_of_pytorch_is_there_and_float32_is_as_exact():
    x = np.linspace(0.05, 0.95, 50, dtype="float32")
    for name in torch.special.__all__:
        more = {"multigammaln": (1,), "softmax": (0,), "log_softmax": (0,), "logsumexp": (0,)}
        at = x + 1 if name == "multigammaln" else x
        calls = [(at, *more.get(name, ()))]
        if name in fx.torch.special._TWO.split() or "_polynomial_" in name:
            calls = [(x + 1.5, x + 0.5)]
        elif name == "polygamma":
            calls = [(n, x) for n in (0, 1, 3)]
        for call in calls:
            got, want = [
                getattr(library.special, name)(*[
                    library.tensor(a) if isinstance(a, np.ndarray) else a for a in call
                ]).numpy()
                for library in (fx.torch, torch)
            ]  # fmt: skip
            assert got.dtype == want.dtype
            np.testing.assert_allclose(got, want, rtol=2e-5, atol=2e-6, err_msg=name)


def test_methods_and_top_names():
    x = np.array([0.5, 1.5, 3.0])
    for line in (
        "torch.i0(x)", "x.i0()", "torch.igamma(x, x)", "x.igamma(x)", "x.igammac(x)",
        "torch.polygamma(2, x)", "x.polygamma(1)", "torch.special.polygamma(0, x)",
        "torch.special.i0(x, out=torch.zeros(3, dtype=torch.float64))", "torch.igammac(x, x)",
        "torch.special.zeta(2.0, x)", "torch.special.xlogy(2.0, x)",
    ):  # fmt: skip
        got, want = (eval(line, {"torch": t, "x": t.tensor(x)}).numpy() for t in (fx.torch, torch))
        np.testing.assert_allclose(got, want, rtol=1e-8, err_msg=line)
    with pytest.raises(AttributeError, match="airy_bi"):
        _ = fx.torch.special.airy_bi
    with pytest.raises(ValueError, match="polygamma"):
        fx.special.polygamma(-1, fx.ones(2))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert fx.jit(fx.special.airy_ai)(fx.zeros(2)).shape == (2,)
