"""Functions of ``fx.special`` by SciPy's and made of others: each against SciPy's, with slopes."""

import numpy as np
import pytest

import fx
from fx.prims.scipy_functions import ROWS
from fx.special import more, named

scipy = pytest.importorskip("scipy.special")
mpmath = pytest.importorskip("mpmath")

UNIT, SOME, ANY, WHOLE = (0.15, 0.85), (0.6, 3.0), (-2.0, 2.0), (0, 5)
CALLS = {  # name: where each argument is drawn from (whole numbers between two), which have slopes
    "betaincc": ((SOME, SOME, UNIT), (0, 1, 2)), "betainccinv": ((SOME, SOME, UNIT), (0, 1, 2)),
    "bdtr": (((0, 4), (4, 9), UNIT), (2,)), "bdtrc": (((0, 4), (4, 9), UNIT), (2,)),
    "nbdtr": ((WHOLE, (1, 6), UNIT), (2,)), "nbdtrc": ((WHOLE, (1, 6), UNIT), (2,)),
    **dict.fromkeys(("fdtr", "fdtrc", "gdtr", "gdtrc"), ((SOME, SOME, SOME), (0, 1, 2))),
    "fdtri": ((SOME, SOME, UNIT), (0, 1, 2)), "gdtrix": ((SOME, SOME, UNIT), (0, 1, 2)),
    "chdtri": ((SOME, UNIT), (0, 1)), "pdtri": ((WHOLE, UNIT), (1,)),
    "comb": (((4, 9), WHOLE), ()), "perm": (((4, 9), WHOLE), ()), "factorial2": (((-3, 12),), ()),
    **{f"{f}dg": (((20.0, 70.0),), (0,)) for f in ("sin", "cos", "tan", "cot")},
    "loggamma": ((SOME,), (0,)),
    "radian": ((ANY, ANY, ANY), (0, 1, 2)), "cbrt": ((SOME,), (0,)), "agm": ((SOME, SOME), (0, 1)),
    "softplus": ((ANY,), (0,)), "voigt_profile": ((ANY, SOME, SOME), (0, 1, 2)),
    "eval_sh_jacobi": ((WHOLE, (2.5, 3.0), (1.2, 2.0), UNIT), (3,)),
    "iv": (((0.3, 2.5), SOME), (1,)), "kv": (((0.3, 2.5), SOME), (1,)),
    "jv": (((0.3, 2.5), SOME), (1,)), "yv": (((0.3, 2.5), SOME), (1,)),
    "ivp": (((0.3, 2.5), SOME), (1,)), "kvp": (((0.3, 2.5), SOME), (1,)),
    "jvp": (((0.3, 2.5), SOME), (1,)), "yvp": (((0.3, 2.5), SOME), (1,)),
    **{
        name: (row.where, tuple(i for i, slope in enumerate(row.slopes) if slope))
        for name, row in ROWS.items() if "." not in name
    },
}  # fmt: skip
DEGREES = [name for name in more.__all__ if name.startswith("eval_") and "jacobi" not in name]
LOOSE = {"ellipkm1": 1e-5, "wrightomega": 1e-5, "ncfdtrinc": 1e-5, "nctdtrinc": 1e-5}
ROUGH = {"ncfdtrinc": 2e-3, "nctdtrinc": 1e-4}  # differences of numbers that SciPy finds by steps


def drawn(name):
    rng = np.random.default_rng(len(name))
    return [
        rng.integers(low, high, 20) * 1.0 if isinstance(low, int) else rng.uniform(low, high, 20)
        for low, high in CALLS[name][0]
    ]


def test_every_function_is_compared():
    told = {
        *CALLS,
        *DEGREES,
        "diric",
        *named._ROOTS,
        *named._ROOTS.values(),
        *named._TABLES.split(),
    }
    told |= {"sici", "shichi", "fresnel", "airy", "wofz"}
    assert {*named.__all__, *more.__all__} <= told


@pytest.mark.parametrize("name", CALLS)
def test_values_and_slopes(name):
    args, slopes = drawn(name), CALLS[name][1]
    f, peer = getattr(fx.special, name), getattr(scipy, name)
    if name == "factorial2":
        peer = lambda n: scipy.factorial2(n.astype(int))
    elif name.startswith("spherical"):
        peer = lambda n, x: getattr(scipy, name)(n.astype(int), x)
    want, given = peer(*args), [fx.asarray(a) for a in args]
    for way in (f, fx.jit(f), fx.vmap(f)):
        np.testing.assert_allclose(way(*given).numpy(), want, rtol=2e-12, atol=1e-14)
    single = f(*[fx.asarray(a.astype("float32")) for a in args])
    assert single.dtype == fx.float32
    np.testing.assert_allclose(single.numpy(), want, rtol=2e-4, atol=1e-5)
    step = 2.0**-14
    for i, a in enumerate(args):
        slope = fx.grad(lambda *xs, f=f: f(*xs).sum(), argnums=i)
        if i not in slopes:
            if name in ROWS:
                with pytest.raises(ValueError, match=f"no derivative of {name} with respect to"):
                    slope(*given)
            continue
        at = [peer(*[b + k * step * (j == i) for j, b in enumerate(args)]) for k in (-2, -1, 1, 2)]
        differences = (at[0] - 8 * at[1] + 8 * at[2] - at[3]) / (12 * step)
        got = slope(*given).numpy()
        np.testing.assert_allclose(got, differences, ROUGH.get(name, 1e-6), 1e-8, err_msg=str(i))
        at_i = lambda x, s=slope, i=i: s(*given[:i], x, *given[i + 1 :])
        if name not in ("ellipkinc", "ellipeinc"):
            ends = [fx.asarray(a + s * 1e-6) for s in (1, -1)]
            near = [at_i(x).numpy() for x in ends]
            got = fx.grad(lambda x, f=at_i: f(x).sum())(given[i]).numpy()
            tolerance = LOOSE.get(name, 2e-7) * max(1.0, np.abs(got).max())
            np.testing.assert_allclose(got, (near[0] - near[1]) / 2e-6, 1e-4, 100 * tolerance)


@pytest.mark.parametrize("name", ["sici", "shichi", "fresnel", "airy"])
def test_of_several_results(name):
    x = np.linspace(0.2, 2.5, 15)
    f = getattr(fx.special, name)
    for got, want in zip(f(fx.asarray(x)), getattr(scipy, name)(x), strict=True):
        np.testing.assert_allclose(got.numpy(), want, rtol=1e-13)
    slopes = fx.jvp(f, (fx.asarray(x),), (fx.ones_like(fx.asarray(x)),))[1]
    ends = [getattr(scipy, name)(x + s * 1e-5) for s in (1, -1)]
    for got, up, down in zip(slopes, *ends, strict=True):
        np.testing.assert_allclose(got.numpy(), (up - down) / 2e-5, rtol=1e-7, atol=1e-8)


def test_slopes_at_0_to_third_order():
    """Of quotients by x, of which differences would be 0 / 0."""
    zero = fx.tensor(0.0, dtype=fx.float64)
    for f, wanted in {
        "ellipk": [np.pi / 8, 9 * np.pi / 64], "ellipe": [-np.pi / 8, -3 * np.pi / 64],
        "spence": None,
    }.items():  # fmt: skip
        if wanted:
            first = fx.grad(getattr(fx.special, f))
            np.testing.assert_allclose([first(zero).item(), fx.grad(first)(zero).item()], wanted)
    si = lambda x: fx.special.sici(x)[0]
    slopes = [si := fx.grad(si) for _ in range(3)]
    np.testing.assert_allclose([s(zero).item() for s in slopes], [1, 0, -1 / 3], atol=1e-15)
    at_1 = [f := fx.grad(f if k else fx.special.spence) for k in range(3)]
    one = fx.tensor(1.0, dtype=fx.float64)
    np.testing.assert_allclose([s(one).item() for s in at_1], [-1, 1 / 2, -2 / 3], rtol=1e-12)


def test_faddeeva_is_holomorphic():
    rng = np.random.default_rng(0)
    z = rng.normal(size=9) + 1j * rng.normal(size=9)
    f = fx.special.wofz
    for way in (f, fx.jit(f), fx.vmap(f)):
        np.testing.assert_allclose(way(fx.asarray(z)).numpy(), scipy.wofz(z), rtol=1e-13)
    got = fx.vmap(fx.grad(f, holomorphic=True))(fx.asarray(z)).numpy()
    np.testing.assert_allclose(got, -2 * z * scipy.wofz(z) + 2j / np.sqrt(np.pi), rtol=1e-12)
    assert f(fx.tensor([0.5])).dtype == fx.complex64


@pytest.mark.parametrize("name", DEGREES)
def test_polynomials(name):
    x = np.linspace(0.05, 0.95, 7)
    for n in (0, 1, 4):
        more = (1.5,) if name in ("eval_genlaguerre", "eval_gegenbauer") else ()
        got = getattr(fx.special, name)(n, *more, fx.asarray(x)).numpy()
        np.testing.assert_allclose(got, getattr(scipy, name)(n, *more, x), rtol=1e-12, atol=1e-13)


def test_dirichlets_function_where_its_sine_is_0():
    x = np.r_[np.linspace(-20, 20, 31), np.arange(-4, 5) * np.pi]
    for n in (1, 2, 3, 8):
        got = fx.special.diric(fx.asarray(x), n).numpy()
        np.testing.assert_allclose(got, scipy.diric(x, n), rtol=1e-9, atol=1e-9)


def test_degrees_are_exact_at_quarters():
    x = np.arange(-720.0, 721.0, 30.0)
    for name in ("sindg", "cosdg", "tandg", "cotdg"):
        got, want = getattr(fx.special, name)(fx.asarray(x)).numpy(), getattr(scipy, name)(x)
        finite = np.isfinite(want) & (np.abs(want) < 1e10)
        np.testing.assert_allclose(got[finite], want[finite], atol=1e-14)
        assert (got[want == 0] == 0).all()


@pytest.mark.parametrize("name", [*named._ROOTS, *named._TABLES.split()])
def test_tables(name):
    more = {"roots_jacobi": (0.5, 1.5), "roots_sh_jacobi": (2.5, 1.5), "roots_genlaguerre": (0.5,),
            "roots_gegenbauer": (1.5,)}.get(name, ())  # fmt: skip
    bessel = (1,) if name[:2] in ("jn", "yn") and name != "jnjnp_zeros" else ()
    args = (*bessel, 4, *more)
    got, want = getattr(fx.special, name)(*args), getattr(scipy, name)(*args)
    many = isinstance(want, tuple | list)
    for a, b in zip(got, want, strict=True) if many else [(got, want)]:
        np.testing.assert_array_equal(a.numpy(), b)


def exact(name, a, b, x, which):
    mpmath.mp.dps = 40
    at = [mpmath.mpf(float(v)) for v in (a, b)]
    h = at[which] * mpmath.mpf(10) ** -12
    ends = []
    for s in (1, -1):
        moved = [v + s * h * (i == which) for i, v in enumerate(at)]
        ends.append(mpmath.betainc(*moved, 0, mpmath.mpf(float(x)), regularized=True))
    return float((ends[0] - ends[1]) / (2 * h))


def test_slopes_of_betainc_in_its_parameters():
    """Against differences of 40 digits, on both sides of the mode and far from it."""
    sides = ([0.02, 0.7, 4.0, 60.0], [0.05, 1.0, 9.0, 200.0], [1e-5, 0.2, 0.6, 0.97])
    a, b, x = map(np.ravel, np.meshgrid(*sides))
    for which in (0, 1):
        want = np.array([exact("betainc", *at, which) for at in zip(a, b, x)])
        f = fx.grad(lambda *s: fx.special.betainc(*s).sum(), argnums=which)
        for way in (f, fx.jit(f)):
            got = way(*map(fx.asarray, (a, b, x))).numpy()
            np.testing.assert_allclose(got, want, rtol=1e-10, atol=1e-13)
        got = f(*[fx.asarray(v.astype("float32")) for v in (a, b, x)]).numpy()
        np.testing.assert_allclose(got, want, rtol=2e-3, atol=1e-6)
    ends = fx.tensor([0.0, 1.0])
    for which in (0, 1):
        at = fx.grad(lambda *s: fx.special.betainc(*s).sum(), argnums=which)
        assert (at(fx.ones(2), fx.ones(2), ends).numpy() == 0).all()
