"""Functions of ``fx.special`` made of others: each against SciPy's, with slopes, in jit."""

import numpy as np
import pytest

import fx

scipy = pytest.importorskip("scipy.special")

rng = np.random.default_rng(0)
ANY, POSITIVE = rng.normal(size=40) * 3, rng.uniform(0.1, 6, 40)
MORE, WHOLE = POSITIVE + rng.uniform(0.1, 4, 40), rng.integers(0, 9, 40) * 1.0
RATE = rng.uniform(-1.5, 1.5, 40)
CALLS = {  # name: arguments, which have slopes
    "gammasgn": ((ANY,), ()), "rgamma": ((ANY,), (0,)), "poch": ((POSITIVE, MORE), (0, 1)),
    "binom": ((MORE, POSITIVE), (0, 1)), "factorial": ((WHOLE - 1,), ()),
    "zetac": ((POSITIVE + 1.1,), (0,)), "exp10": ((ANY,), (0,)), "cosm1": ((ANY * 1e-3,), (0,)),
    "powm1": ((POSITIVE, ANY * 0.1), (0, 1)), "boxcox": ((POSITIVE, RATE), (0, 1)),
    "boxcox1p": ((POSITIVE, RATE), (0, 1)), "inv_boxcox": ((POSITIVE * 0.1, RATE), (0, 1)),
    "inv_boxcox1p": ((POSITIVE * 0.1, RATE), (0, 1)), "rel_entr": ((POSITIVE, MORE), (0, 1)),
    "kl_div": ((POSITIVE, MORE), (0, 1)), "huber": ((POSITIVE, ANY), (0, 1)),
    "pseudo_huber": ((POSITIVE, ANY), (0, 1)), "chdtr": ((MORE, POSITIVE), (0, 1)),
    "chdtrc": ((MORE, POSITIVE), (0, 1)), "pdtr": ((WHOLE, POSITIVE), (1,)),
    "pdtrc": ((WHOLE, POSITIVE), (1,)), "log_expit": ((ANY * 20,), (0,)),
}  # fmt: skip
EDGES = [0.0, -0.0, 1.0, -1.0, -1.5, 2.0, np.nan]


def test_every_composition_is_here():
    import fx.special.compositions as room

    ours = [n for n, f in vars(room).items() if getattr(f, "__module__", "") == room.__name__]
    assert {n for n in ours if n[0] != "_"} <= set(CALLS)


@pytest.mark.parametrize("name", CALLS)
def test_values_and_slopes(name):
    args, slopes = CALLS[name]
    f, peer = getattr(fx.special, name), getattr(scipy, name)
    want = peer(*args)
    given = [fx.asarray(a) for a in args]
    lanes = fx.vmap(f)
    for way in (f, fx.jit(f), lanes):
        np.testing.assert_allclose(way(*given).numpy(), want, rtol=3e-13, atol=1e-15)
    single = f(*[fx.asarray(a.astype("float32")) for a in args])
    assert single.dtype == fx.float32
    np.testing.assert_allclose(single.numpy(), want, rtol=2e-4, atol=1e-6)
    step = 2.0**-16
    for i in slopes:
        at = [peer(*[a + k * step * (j == i) for j, a in enumerate(args)]) for k in (-2, -1, 1, 2)]
        differences = (at[0] - 8 * at[1] + 8 * at[2] - at[3]) / (12 * step)
        got = fx.grad(lambda *xs: f(*xs).sum(), argnums=i)(*given).numpy()
        np.testing.assert_allclose(got, differences, rtol=1e-6, atol=1e-8, err_msg=str(i))


@pytest.mark.parametrize("name", ["rel_entr", "kl_div", "huber", "boxcox", "inv_boxcox", "rgamma"])
def test_special_points(name):
    count = len(CALLS[name][0])
    args = [np.ravel(x) for x in np.meshgrid(*[EDGES] * count)]
    with np.errstate(all="ignore"):
        want = getattr(scipy, name)(*args)
    got = getattr(fx.special, name)(*[fx.asarray(a) for a in args]).numpy()
    known = np.isfinite(want) | (want == np.inf)
    np.testing.assert_allclose(got[known], want[known], rtol=1e-13, atol=1e-15)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("jitted", [False, True])
def test_far_arguments(dtype, jitted):
    far = np.r_[-639.09, -212.5, -180.5, -99.25, -40.5, 0.0, -0.0, -3.0, -np.inf, np.inf, np.nan]
    far = np.r_[far, 49.9, 50.1, 88.0, 89.0, 91.5, 700.0, -800.0, 1e30].astype(dtype)
    peers = {
        "gammasgn": scipy.gammasgn, "exprel": scipy.exprel,
        "spherical_bessel_j0": lambda x: np.select([x == 0, np.isinf(x)], [1, 0], np.sin(x) / x),
    }  # fmt: skip
    for name, peer in peers.items():
        f = getattr(fx.special, name)
        with np.errstate(all="ignore"):
            want = peer(far.astype(float)).astype(dtype)
        got = (fx.jit(f) if jitted else f)(fx.asarray(far)).numpy()
        assert got.dtype == dtype
        np.testing.assert_allclose(got, want, 2e-5 if dtype == "float32" else 1e-12, err_msg=name)
