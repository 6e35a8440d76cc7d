"""Functions of ``fx.special`` that SciPy computes: several results, complex ones, edges, sequences.

Those of one result are rows that ``test_named.py`` goes through.
"""

import itertools
import subprocess
import sys

import numpy as np
import pytest

import fx
from fx.errors import ArgumentError, DTypeError
from fx.prims.scipy_functions import ROWS, named
from fx.special import counting, rows, waves

scipy = pytest.importorskip("scipy.special")

pytestmark = pytest.mark.filterwarnings("ignore:.*")
X, UNIT = np.linspace(0.2, 2.6, 9), np.linspace(0.05, 0.95, 9)
EDGES = np.array([0.0, -0.0, 1.0, -1.0, -1.5, 0.5, 2.0, 1e-8, np.inf, -np.inf, np.nan])
LOW = ("obl_rad2", "pro_rad2", "itairy")  # of fewer digits


def drawn(name, count=8):
    rng = np.random.default_rng(len(name))
    return [
        rng.integers(low, high, count) * 1.0
        if isinstance(low, int)
        else rng.uniform(low, high, count)
        for low, high in ROWS[name].where
    ]


def differences(f, step):
    at = [f(k * step) for k in (-2, -1, 1, 2)]
    return (at[0] - 8 * at[1] + 8 * at[2] - at[3]) / (12 * step)


@pytest.mark.parametrize("name", rows.SEVERAL)
def test_several_results(name):
    args = drawn(f"{name}.0")
    f, want = getattr(fx.special, name), getattr(scipy, name)(*args)
    given = [fx.asarray(a) for a in args]
    for way in (f, fx.jit(f), fx.vmap(f)):
        found = way(*given)
        assert isinstance(found, tuple) and len(found) == len(want)
        for got, wanted in zip(found, want, strict=True):
            np.testing.assert_array_equal(got.numpy(), wanted)
    for got, wanted in zip(f(*[a.astype(fx.float32) for a in given]), want, strict=True):
        assert got.dtype == fx.float32
        np.testing.assert_allclose(got.numpy(), wanted, rtol=2e-3, atol=1e-5)
    with pytest.raises(ValueError, match=f"{name} takes"):
        f(*given, given[0])


@pytest.mark.parametrize("name", [n for n in ROWS if "." in n])
def test_slopes_of_each_result(name):
    """First and second, against differences of the function and of the first slope."""
    args, row = drawn(name), ROWS[name]
    given = [fx.asarray(a) for a in args]
    close = 1e-5 if name.startswith(LOW) else 1e-6
    for i, slope in enumerate(row.slopes):
        f = lambda *xs: named(name, *xs)
        if slope is None:
            with pytest.raises(ValueError, match=f"no derivative of {name} with respect to"):
                fx.grad(lambda *xs, f=f: f(*xs).sum(), argnums=i)(*given)
            continue
        for _ in range(2):

            def moved(by, f=f, i=i):
                at = [x + by * (i == j) for j, x in enumerate(args)]
                return f(*map(fx.asarray, at)).numpy()

            want = differences(moved, 2.0**-13)
            f = fx.grad(lambda *xs, f=f: f(*xs).sum(), argnums=i)
            got = f(*given).numpy()
            size = max(1.0, np.abs(got).max())
            np.testing.assert_allclose(got, want, rtol=close, atol=close * size, err_msg=str(i))


@pytest.mark.parametrize("name", [n for n in ROWS if n in rows.SAYS or "." in n])
def test_edges_are_scipys(name):
    """At zeros, negative numbers, infinities and NaN, in every argument."""
    base, (family, _, which) = drawn(name, len(EDGES)), name.partition(".")
    whole = {"legendre_p": 1, "assoc_legendre_p": 2, "sph_legendre_p": 2}.get(family, 0)
    if family == "smirnov" or family == "smirnovi":
        whole = 1
    # of orders without end SciPy reads memory that it does not own
    rough = name.startswith(("mathieu", "pro_", "obl_", "pb"))
    for i in range(whole, len(base)):
        if rough and ROWS[name].slopes[i] is None:
            continue
        args = [EDGES if i == j else x for j, x in enumerate(base)]
        found = getattr(scipy, family)(*[x.astype(int) for x in args[:whole]], *args[whole:])
        want = found[int(which)] if which else found
        if name.startswith(("mathieu", "pro_", "obl_")):  # of which SciPy makes 0 of NaN
            want = np.where(np.isnan(args[i]), np.nan, want)
        np.testing.assert_array_equal(named(name, *map(fx.asarray, args)).numpy(), want)


# complex ------------------------------------------------------------------------------------------

COMPLEX = {  # name: arguments before z, after it, whether it is holomorphic
    "lambertw": ((), (0,), True), "hankel1": ((1.5,), (), True), "hankel2": ((1.5,), (), True),
    "hankel1e": ((1.5,), (), True), "hankel2e": ((1.5,), (), True),
    "jve": ((1.5,), (), False), "yve": ((1.5,), (), False),
    "elliprf": ((0.4, 1.7), (), True), "elliprd": ((0.4, 1.7), (), True),
    "elliprg": ((0.4, 1.7), (), True), "elliprj": ((0.4, 1.7, 0.9), (), True),
    "elliprc": ((0.4,), (), True), "h1vp": ((1.5,), (), True), "h2vp": ((1.5,), (), True),
}  # fmt: skip


@pytest.mark.parametrize("name", COMPLEX)
def test_complex(name):
    before, after, holomorphic = COMPLEX[name]
    z = X + 1j * np.linspace(-0.7, 0.9, 9)
    f = lambda z: getattr(fx.special, name)(*before, z, *after)
    peer = lambda z: getattr(scipy, name)(*before, z, *after)
    for way in (f, fx.jit(f), fx.vmap(f)):
        np.testing.assert_allclose(way(fx.asarray(z)).numpy(), peer(z), rtol=1e-13)
    slope = fx.vmap(fx.grad(f, holomorphic=True))
    if not holomorphic:
        with pytest.raises(ValueError, match="not holomorphic"):
            slope(fx.asarray(z))
        return
    for along in (1.0, 1j):
        want = differences(lambda h, a=along: peer(z + h * a), 2.0**-10) / along
        np.testing.assert_allclose(slope(fx.asarray(z)).numpy(), want, rtol=1e-8, atol=1e-9)


def test_branches_of_lamberts_function():
    z = np.array([0.3, -0.2, 1 + 2j, -3 - 1j, 0.0, np.inf, np.nan])
    for k in (-2, -1, 0, 1):
        got = fx.special.lambertw(fx.asarray(z), k).numpy()
        np.testing.assert_array_equal(got, scipy.lambertw(z, k))
    assert fx.special.lambertw(fx.tensor([0.5])).dtype == fx.complex64
    real = lambda x: fx.special.lambertw(x).real.sum()
    want = differences(lambda h: scipy.lambertw(X + h).real, 2.0**-12)
    np.testing.assert_allclose(fx.grad(real)(fx.asarray(X)).numpy(), want, rtol=1e-9)


# made of others -----------------------------------------------------------------------------------

MADE = {  # name: arguments; arrays are differentiated
    "kelvin": (X,), "modfresnelp": (X,), "modfresnelm": (X,), "legendre_p": (3, UNIT),
    "assoc_legendre_p": (3, -2, UNIT), "sph_legendre_p": (3, 2, X), "sph_harm_y": (3, -2, X, UNIT),
    "legendre_p_all": (3, UNIT), "assoc_legendre_p_all": (3, 2, UNIT),
    "sph_legendre_p_all": (3, 4, X), "sph_harm_y_all": (2, 1, X, UNIT),
    "bdtri": (2.0, 5.0, UNIT), "nbdtri": (2.0, 5.0, UNIT), "nrdtrimn": (UNIT, X, X - 1),
    "nrdtrisd": (X, UNIT / 3, X + 2), "assoc_laguerre": (X, 3, 0.5),
}  # fmt: skip


@pytest.mark.parametrize("name", MADE)
def test_made_of_others(name):
    args = MADE[name]
    arrays = [i for i, x in enumerate(args) if isinstance(x, np.ndarray)]

    def of(function, wrap, *xs):
        given = list(args)
        for i, x in zip(arrays, xs, strict=True):
            given[i] = wrap(x)
        found = function(*given)
        return found if isinstance(found, tuple) else (found,)

    ours, theirs = getattr(fx.special, name), getattr(scipy, name)
    xs = [args[i] for i in arrays]
    want = of(theirs, lambda x: x, *xs)
    f = lambda *xs: of(ours, lambda x: x, *xs)
    tensors = [fx.asarray(x) for x in xs]
    for way in (f, fx.jit(f)):
        for got, wanted in zip(way(*tensors), want, strict=True):
            np.testing.assert_allclose(got.numpy(), wanted, rtol=1e-11, atol=1e-13)
    along = [fx.ones_like(x) for x in tensors]
    slopes = fx.jvp(f, tuple(tensors), tuple(along))[1]
    for k, got in enumerate(slopes):
        at = lambda h, k=k: of(theirs, lambda x: x + h, *xs)[k]
        np.testing.assert_allclose(got.numpy(), differences(at, 2.0**-12), rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("name", ["riccati_jn", "riccati_yn", "pbdv_seq", "pbvv_seq", "lmbda"])
def test_sequences_of_orders(name):
    for order in (3,) if "riccati" in name else (2.5, 3.0, 0.3):
        f = getattr(fx.special, name)
        for x in (0.7, 1.9):
            at = fx.tensor(x, dtype=fx.float64)
            for got, want in zip(f(order, at), getattr(scipy, name)(order, x), strict=True):
                np.testing.assert_allclose(got.numpy(), want, rtol=1e-9, atol=1e-12)
            slope = fx.jvp(lambda x, n=order, f=f: f(n, x)[0], (at,), (fx.ones_like(at),))[1]
            np.testing.assert_allclose(slope.numpy(), f(order, at)[1].numpy(), rtol=1e-9)
    if name.startswith("pb"):
        with pytest.raises(ValueError, match="v must not be negative"):
            f(-2.5, 1.0)


def test_normed_legendre_and_what_is_refused():
    for m in (-2, 0, 2):
        got = fx.special.assoc_legendre_p(3, m, fx.asarray(UNIT), norm=True).numpy()
        np.testing.assert_allclose(got, scipy.assoc_legendre_p(3, m, UNIT, norm=True), rtol=1e-12)
    for refused in ({"diff_n": 1}, {"branch_cut": 3}):
        with pytest.raises(ValueError, match=next(iter(refused))):
            fx.special.assoc_legendre_p(3, 1, 0.5, **refused)
    with pytest.raises(ValueError, match="k must be at least 1"):
        fx.special.factorialk(3.0, 0)


@pytest.mark.parametrize("k", [1, 2, 3, 4, 7])
def test_factorials_of_steps(k):
    n = np.arange(-3, 20)
    got = fx.special.factorialk(fx.asarray(n * 1.0), k).numpy()
    np.testing.assert_allclose(got, scipy.factorialk(n, k), rtol=1e-12)


def test_tables_and_polynomials():
    for name, args in {
        "mathieu_even_coef": (2, 5.0), "mathieu_odd_coef": (2, 5.0), "pro_cv_seq": (1, 3, 2.0),
        "obl_cv_seq": (1, 3, 2.0), "ellip_normal": (5.0, 8.0, 2, 1),
    }.items():  # fmt: skip
        got = getattr(fx.special, name)(*args).numpy()
        np.testing.assert_array_equal(got, getattr(scipy, name)(*args))
    N, K = np.meshgrid(np.arange(8), np.arange(8))
    got = fx.special.stirling2(fx.asarray(N), fx.asarray(K)).numpy()
    np.testing.assert_allclose(got, scipy.stirling2(N, K))
    for name in counting._POLYNOMIALS.split():
        more = {"jacobi": (0.5, 1.5), "sh_jacobi": (2.5, 1.5), "gegenbauer": (1.5,),
                "genlaguerre": (0.5,)}.get(name, ())  # fmt: skip
        assert getattr(fx.special, name)(3, *more) == getattr(scipy, name)(3, *more)


# ends of the range, where formulas divide by 0 ----------------------------------------------------


@pytest.mark.parametrize("name", ["lpmv", "assoc_legendre_p"])
@pytest.mark.parametrize("m", [-2, 0, 2, 4])
def test_legendre_functions_have_slopes_at_the_ends(name, m):
    """One-sided differences of values that SciPy gives inside; and at a pole of the sphere."""
    ends = np.array([-1.0, 1.0])
    inside = lambda f, h: (
        (4 * f(ends * (1 - h)) - f(ends * (1 - 2 * h)) - 3 * f(ends)) / (2 * h * -ends)
    )
    order = (float(m), 5.0) if name == "lpmv" else (5, m)
    f = lambda x: getattr(fx.special, name)(*order, x)
    got = fx.grad(lambda x: f(x).sum())(fx.asarray(ends)).numpy()
    want = inside(lambda x: np.ravel(getattr(scipy, name)(*order, x)), 1e-5)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("m", [-3, -1, 0, 1, 2])
def test_spherical_legendre_functions_have_slopes_at_the_pole(m):
    f = lambda t: fx.special.sph_legendre_p(3, m, t)[0].sum()
    got = fx.grad(f)(fx.asarray(np.array([0.0, -0.4, 3.6]))).numpy()
    near = lambda h: scipy.sph_legendre_p(3, m, h)[0]
    at_pole = (4 * near(1e-5) - near(2e-5) - 3 * near(0.0)) / 2e-5
    apart = differences(lambda h: near(np.array([-0.4, 3.6]) + h), 1e-3)
    np.testing.assert_allclose(got, [at_pole, *apart], rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("name", ["ellipkinc", "ellipeinc"])
@pytest.mark.parametrize(
    ("phi", "m"), [(0.0, 0.3), (0.5, 0.0), (0.5, 1.0), (2.0, 0.0), (2.0, 0.3), (-7.0, 0.3)]
)
def test_elliptic_slopes_at_0_and_1_and_beyond_half_turns(name, phi, m):
    slope = fx.grad(lambda p, m: getattr(fx.special, name)(p, m).sum(), argnums=1)
    got = slope(*[fx.tensor(x, dtype=fx.float64) for x in (phi, m)]).item()
    f = lambda h: getattr(scipy, name)(phi, m + h)
    want = (3 * f(0) - 4 * f(-1e-5) + f(-2e-5)) / 2e-5
    np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-7)


def test_carlsons_slopes_at_equal_arguments_and_principal_values():
    x, y, z = (np.array([a]) for a in (0.0, 0.4, 0.4))
    got = fx.grad(lambda y, z: fx.special.elliprd(fx.asarray(x), y, z).sum())(
        *map(fx.asarray, (y, z))
    )
    want = differences(lambda h: scipy.elliprd(x, y + h, z), 1e-3)
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-8)
    got = fx.grad(lambda y: fx.special.elliprc(0.7, y).sum())(fx.asarray(-X)).numpy()
    want = differences(lambda h: scipy.elliprc(0.7, h - X), 1e-3)
    np.testing.assert_allclose(got, want, rtol=1e-6)


def test_distributions_in_their_tails():
    x = np.array([0.02, 0.05, 0.1, 3.0, 5.0])
    slope = fx.grad(lambda x: fx.special.kolmogorov(x).sum())(fx.asarray(x)).numpy()
    want = differences(lambda h: scipy.kolmogorov(x + h), 1e-4)
    np.testing.assert_allclose(slope, want, rtol=1e-6, atol=1e-9)
    large = np.array([700.0, 900.0, 1500.0])
    args = [fx.asarray(a) for a in (large, large * 0 + 4, large * 1.01)]
    for i in (0, 2):
        f = fx.grad(lambda *xs: fx.special.chndtr(*xs).sum(), argnums=i)
        move = lambda h, i=i: scipy.chndtr(*[a.numpy() + h * (i == j) for j, a in enumerate(args)])
        np.testing.assert_allclose(f(*args).numpy(), differences(move, 0.1), rtol=1e-6, atol=1e-9)
    shapes = np.array([0.0, 1e-9, 1e-3, 1.0, 2.0])
    slope = fx.grad(lambda s: fx.special.tklmbda(0.3, s).sum())(fx.asarray(shapes)).numpy()
    want = differences(lambda h: scipy.tklmbda(0.3, shapes + h), 1e-3)
    np.testing.assert_allclose(slope, want, rtol=1e-7, atol=1e-8)


def test_every_function_is_tested():
    told = {*MADE, *COMPLEX, *rows.__all__, *counting._TABLES, *counting._POLYNOMIALS.split()}
    told |= {"riccati_jn", "riccati_yn", "pbdv_seq", "pbvv_seq", "lmbda", "factorialk", "stirling2"}
    assert {*rows.__all__, *waves.__all__, *counting.__all__} <= told


TABLES = """
import itertools, warnings
import numpy as np
import fx

warnings.simplefilter("ignore")
numbers = [np.inf, -np.inf, np.nan, 1e9, -1e9, -1.0, 0.0, 0.5, 3.0, 99.0, 1e300]
for name, count in NAMES.items():
    columns = np.array(list(itertools.product(numbers, repeat=count))).T
    for some in np.array_split(columns, 4, axis=1):
        getattr(fx.special, name)(*map(fx.tensor, some))
"""


@pytest.mark.parametrize("kind", ["pro", "obl", "mathieu"])
def test_what_scipy_has_no_tables_for_is_nan_and_ends_no_process(kind):
    if kind == "mathieu":
        names = {f"mathieu_{k}": 2 for k in "ab"} | {"mathieu_cem": 3, "mathieu_modsem2": 3}
    else:
        names = {f"{kind}_cv": 3, f"{kind}_ang1": 4, f"{kind}_rad2": 4}
    code = TABLES.replace("NAMES", repr(names))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-500:]
    for name, count in names.items():
        inside = [1.0, 2.0, 3.0, 0.5 if "ang" in name else 1.5][:count]
        for place, outside in itertools.product(range(2), (np.inf, 1e9)):
            given = [*inside]
            given[place + (count > 2 and kind != "mathieu")] = outside
            found = getattr(fx.special, name)(*map(fx.tensor, given))
            for x in found if isinstance(found, tuple) else (found,):
                assert np.isnan(float(x)) or name in ("mathieu_a", "mathieu_b")
        wanted = getattr(scipy, name)(*inside)
        found = getattr(fx.special, name)(*[fx.tensor(x, dtype=fx.float64) for x in inside])
        np.testing.assert_array_equal(np.array(found, dtype=float), wanted)


TABLES_OF = {"pro_cv_seq": 3, "obl_cv_seq": 3, "mathieu_even_coef": 2, "mathieu_odd_coef": 2}


@pytest.mark.parametrize("name", TABLES_OF)
def test_tables_without_room_are_refused(name):
    table = getattr(fx.special, name)
    for size in (np.inf, np.nan, -np.inf if "seq" in name else np.inf, 1e9, 3000.0):
        with pytest.raises(ArgumentError, match=rf"{name}\(.*no room"):
            table(*(0, 2)[: TABLES_OF[name] - 1], size)
    few = (1, 4, 2.0) if TABLES_OF[name] == 3 else (2, 5.0)
    np.testing.assert_array_equal(table(*few).numpy(), getattr(scipy, name)(*few))


def test_parts_of_what_is_no_whole_number_are_refused():
    assert int(fx.special.stirling2(5, 2)) == int(scipy.stirling2(5, 2))
    with pytest.raises(DTypeError, match="takes ints, got float32"):
        fx.special.stirling2(fx.tensor(5.5), 2)
