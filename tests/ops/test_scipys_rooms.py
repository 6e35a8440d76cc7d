"""``ndimage``, ``interpolate``, ``optimize``, ``stats`` and ``signal`` against SciPy and JAX."""

# ruff: noqa: B023 - functions are called within the loops that make them

import itertools

import numpy as np
import pytest

import fx
from tests.thorough import pairs

pytest.importorskip("jax")
import jax
import jax.scipy.interpolate
import jax.scipy.ndimage
import jax.scipy.optimize
import jax.scipy.signal
import jax.scipy.stats
import scipy.signal

pytestmark = pytest.mark.filterwarnings("ignore:.*")
rng = np.random.default_rng(0)


def compared(ours, theirs, arrays, slopes=True, lanes=True, tolerance=1e-9):
    """Values of every way to call, and slopes by differences of what fx is compared with."""
    leaves = lambda found: found if isinstance(found, tuple) else (found,)
    want = [np.asarray(w) for w in leaves(theirs(*arrays))]
    given = [fx.asarray(a) for a in arrays]
    ways = [ours(*given), fx.jit(ours)(*given)]
    if lanes:
        ways.append(tuple(y[1] for y in leaves(
            fx.vmap(ours)(*[fx.stack([x, x]) for x in given]))))  # fmt: skip
    for found in map(leaves, ways):
        for got, w in zip(found, want, strict=True):
            assert got.shape == w.shape
            np.testing.assert_allclose(got.numpy(), w, rtol=tolerance, atol=tolerance)
    for got, w in zip(leaves(ours(*[x.to("meta") for x in given])), want, strict=True):
        assert got.shape == w.shape
    wide = [i for i, a in enumerate(arrays) if a.dtype == np.float64]
    if not slopes or not wide:
        return
    tangents = [np.cos(np.arange(a.size) + 1.0).reshape(a.shape) for a in arrays]

    def at(h):
        moved = [a + h * t if i in wide else a for i, (a, t) in enumerate(zip(arrays, tangents))]
        return [np.asarray(y) for y in leaves(theirs(*moved))]

    step = 1e-5
    f = lambda *xs: ours(*[xs[wide.index(i)] if i in wide else g for i, g in enumerate(given)])
    _, pushed = fx.jvp(
        f, tuple(given[i] for i in wide), tuple(fx.asarray(tangents[i]) for i in wide)
    )
    ends = [at(k * step) for k in (-2, -1, 1, 2)]
    for got, a, b, c, d in zip(leaves(pushed), *ends, strict=True):
        if got is not None and a.dtype.kind in "fc":
            differences = (a - 8 * b + 8 * c - d) / (12 * step)
            np.testing.assert_allclose(got.numpy(), differences, rtol=1e-6, atol=1e-6)
    if np.iscomplexobj(want[-1]):
        return
    _, pullback = fx.vjp(lambda *xs: leaves(f(*xs))[-1], *[given[i] for i in wide])
    weights = np.sin(np.arange(want[-1].size) + 1.0).reshape(want[-1].shape)
    back = pullback(fx.asarray(weights))
    left = sum((g.numpy() * tangents[i]).sum() for g, i in zip(back, wide))
    np.testing.assert_allclose(
        left, (leaves(pushed)[-1].numpy() * weights).sum(), rtol=1e-7, atol=1e-9
    )


def of_jax(f):
    def call(*arrays):
        with jax.enable_x64(True):
            found = f(*map(jax.numpy.asarray, arrays))
            return tuple(map(np.asarray, found)) if isinstance(found, tuple) else np.asarray(found)

    return call


# ndimage, interpolate ---------------------------------------------------------------------------


ORDERED = [*itertools.product((0, 1), ("constant", "nearest", "wrap", "mirror", "reflect"))]


@pytest.mark.parametrize(("shape", "how"), pairs([(5,), (3, 4), (2, 1, 3)], ORDERED, 2))
def test_map_coordinates(shape, how):
    order, mode = how
    if mode == "mirror" and 1 in shape:  # JAX's index modulo 0; SciPy's has nothing to mirror
        shape = (2, 2, 3)
    x = rng.normal(size=shape)
    places = rng.uniform(-7, 9, (len(shape), 4, 6))
    for dtype in (np.float64, np.float32, np.int32, np.complex64):
        a = (x * 9).astype(dtype)
        c = places.astype(np.float32) if dtype == np.float32 else places
        f = lambda a, *c: fx.ndimage.map_coordinates(a, c, order, mode, 0.5)
        g = of_jax(lambda a, *c: jax.scipy.ndimage.map_coordinates(a, c, order, mode, 0.5))
        close = 1e-5 if dtype in (np.float32, np.complex64) else 1e-9
        compared(f, g, [a, *c], slopes=dtype == np.float64, tolerance=close)


def test_places_that_are_whole():
    x = rng.normal(size=(3, 4))
    for order in (0, 1):
        for mode in ("constant", "wrap", "reflect"):
            f = lambda x, i, j: fx.ndimage.map_coordinates(x, [i, j], order, mode)
            g = of_jax(lambda x, i, j: jax.scipy.ndimage.map_coordinates(x, [i, j], order, mode))
            compared(f, g, [x, np.array([0, 2, -1, 3]), np.array([[3], [4]])], slopes=False)
    single = fx.ndimage.map_coordinates(fx.tensor([5.0]), [fx.tensor([3.0, -2.5])], 1, "mirror")
    assert single.tolist() == [5.0, 5.0]
    halves = fx.ndimage.map_coordinates(fx.arange(4.0), [fx.tensor([0.5, 1.5, -0.5, 2.5])], 0)
    np.testing.assert_array_equal(
        halves.numpy(), jax.scipy.ndimage.map_coordinates(
            np.arange(4.0, dtype="float32"), [np.array([0.5, 1.5, -0.5, 2.5], "float32")], 0)
    )  # fmt: skip


@pytest.mark.parametrize("method", ["linear", "nearest"])
@pytest.mark.parametrize("fill", [np.nan, None, -3.0])
def test_grids(method, fill):
    axes = [np.array([0.0, 1.0, 2.5, 3.0]), np.array([-1.0, 0.5, 2.0])]
    values = rng.normal(size=(4, 3, 2))
    places = rng.uniform(-1.5, 3.5, (4, 5, 2))

    def call(room, convert):
        return lambda v, p, a, b: room(
            (a, b), v, method=method, fill_value=None if fill is None else convert(fill)
        )(p)  # fmt: skip

    ours = call(fx.interpolate.RegularGridInterpolator, float)
    theirs = of_jax(call(jax.scipy.interpolate.RegularGridInterpolator, jax.numpy.asarray))
    slopes = method == "linear" and fill is None
    compared(ours, theirs, [values, places, *axes], slopes=slopes)
    on = np.stack(np.meshgrid(*axes, indexing="ij"), -1)
    f = fx.interpolate.RegularGridInterpolator(tuple(map(fx.asarray, axes)), fx.asarray(values))
    np.testing.assert_allclose(f(fx.asarray(on)).numpy(), values, atol=1e-12)
    both = f((fx.asarray(on[..., 0]), fx.asarray(on[..., 1])))
    np.testing.assert_allclose(both.numpy(), values, atol=1e-12)


# optimize ---------------------------------------------------------------------------------------


def rosenbrock(x):
    return (100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2).sum()


def himmelblau(x):
    return (x[0] ** 2 + x[1] - 11.0) ** 2 + (x[0] + x[1] ** 2 - 7.0) ** 2


@pytest.mark.parametrize("function", [rosenbrock, himmelblau])
@pytest.mark.parametrize("start", [(-1.2, 1.0), (0.0, 0.0), (2.0, -1.0)])
def test_minimize(function, start):
    """It ends where the gradient is small, in about as many steps as SciPy."""
    x = np.array(start)
    peer = scipy.optimize.minimize(function, x, method="BFGS")
    run = lambda x: fx.optimize.minimize(function, x, method="BFGS")
    lanes = fx.vmap(run)(fx.asarray(np.stack([x, x + 0.1])))
    for got in (run(fx.asarray(x)), fx.jit(run)(fx.asarray(x)), fx.tree.map(lambda y: y[0], lanes)):
        assert got.success and got.status == 0 and abs(got.jac).max() < 1e-5
        assert got.fun < 1e-8 and got.nit <= 2 * peer.nit + 5
        np.testing.assert_allclose(got.fun.numpy(), function(got.x.numpy()), atol=1e-12)
        slope = fx.grad(function)(got.x)
        np.testing.assert_allclose(got.jac.numpy(), slope.numpy(), atol=1e-12)
        bend = fx.hessian(function)(got.x).numpy()
        if start != (0.0, 0.0):
            np.testing.assert_allclose(
                got.hess_inv.numpy(), np.linalg.inv(bend), rtol=0.5, atol=0.1
            )


def test_ends_of_minimize():
    f = lambda x, a: ((x - a) ** 2).sum()
    x, a = fx.zeros(3, dtype=fx.float64), fx.tensor([1.0, 2.0, 3.0])
    found = fx.optimize.minimize(f, x, (a,), method="bfgs", tol=1e-9)
    np.testing.assert_allclose(found.x.numpy(), a.numpy(), atol=1e-9)
    short = fx.optimize.minimize(rosenbrock, fx.tensor([-1.2, 1.0]), method="BFGS",
                                 options={"maxiter": 2})  # fmt: skip
    assert not short.success and short.status == 1 and short.nit == 2
    down = fx.optimize.minimize(lambda x: x.sum(), fx.zeros(2), method="BFGS")
    assert not down.success and down.status == 3 and (down.x == 0).all()
    there = fx.optimize.minimize(f, a, (a,), method="BFGS")
    assert there.success and there.nit == 0 and there.nfev == 1
    log = fx.optimize.minimize(lambda x: (x - fx.log(x)).sum(), fx.tensor([3.0]), method="BFGS")
    np.testing.assert_allclose(log.x.numpy(), [1.0], atol=1e-3)  # steps to where it is NaN


# stats ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["average", "min", "max", "dense", "ordinal"])
def test_ranks(method):
    for x in (rng.integers(0, 4, (4, 7)), rng.normal(size=(3, 5)), np.array([[1.0, np.nan, 0.0]])):
        for axis in (None, 0, 1, -1):
            want = scipy.stats.rankdata(x, method, axis=axis)
            f = lambda x: fx.stats.rankdata(x, method, axis=axis).astype(fx.float64)
            compared(f, lambda x: want, [x], slopes=False)


def test_standard_errors():
    x = rng.normal(size=(4, 5))
    holes = np.where(rng.random((4, 5)) < 0.2, np.nan, x)
    for options in ({}, {"axis": None}, {"axis": 1, "ddof": 0}, {"axis": -1, "keepdims": True}):
        peer = of_jax(lambda x, options=options: jax.scipy.stats.sem(x, **options))
        compared(lambda x, options=options: fx.stats.sem(x, **options), peer, [x])
        omit = {**options, "nan_policy": "omit"}
        peer = of_jax(lambda x, omit=omit: jax.scipy.stats.sem(x, **omit))
        compared(lambda x, omit=omit: fx.stats.sem(x, **omit), peer, [holes], slopes=False)


# signal -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["convolve", "correlate"])
@pytest.mark.parametrize("mode", ["full", "same", "valid"])
@pytest.mark.parametrize("shapes", [((9,), (4,)), ((4,), (4,)), ((3,), (7,)), ((5, 6), (2, 3)),
    ((3, 4, 3), (2, 2, 2)), ((2, 3, 2, 3), (2, 1, 2, 2))])  # fmt: skip
def test_convolutions(name, mode, shapes):
    x, y = (rng.normal(size=s) for s in shapes)
    ours, theirs = getattr(fx.signal, name), getattr(scipy.signal, name)
    for method in ("direct", "fft", "auto"):
        f = lambda x, y, method=method: ours(x, y, mode, method)
        compared(f, lambda x, y: theirs(x, y, mode), [x, y], slopes=method != "fft")
    z = x + 1j * rng.normal(size=shapes[0])
    compared(lambda x, y: ours(x, y, mode), lambda x, y: theirs(x, y, mode), [z, y * 1j + y * 2])
    i, j = (x * 9).astype(int), (y * 9).astype(int)
    got = ours(fx.asarray(i), fx.asarray(j), mode)
    assert got.dtype == fx.int64
    np.testing.assert_array_equal(got.numpy(), theirs(i, j, mode, "direct"))
    narrow = ours(*(fx.asarray(a.astype("float32")) for a in (x, y)), mode)
    np.testing.assert_allclose(narrow.numpy(), theirs(x, y, mode), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["convolve2d", "correlate2d"])
@pytest.mark.parametrize("mode", ["full", "same", "valid"])
@pytest.mark.parametrize("boundary", [("fill", 0), ("fill", 1.5), ("wrap", 0), ("symm", 0)])
def test_matrices(name, mode, boundary):
    ours, theirs = getattr(fx.signal, name), getattr(scipy.signal, name)
    for shape in ((2, 3), (3, 2), (1, 4)):
        x, y = rng.normal(size=(5, 6)), rng.normal(size=shape)
        compared(lambda x, y: ours(x, y, mode, *boundary),
                 lambda x, y: theirs(x, y, mode, *boundary), [x, y])  # fmt: skip


def test_trends():
    x = rng.normal(size=(3, 12)) + np.arange(12)
    for options in (
        {},
        {"axis": 0},
        {"type": "constant"},
        {"bp": 5},
        {"bp": [3, 9]},
        {"bp": [4, 5]},
    ):
        compared(lambda x, options=options: fx.signal.detrend(x, **options),
                 lambda x, options=options: scipy.signal.detrend(x, **options), [x])  # fmt: skip


OPTIONS = [
    {}, {"nperseg": 16}, {"nperseg": 16, "noverlap": 4, "nfft": 20}, {"nperseg": 15},
    {"nperseg": 16, "scaling": "spectrum"}, {"nperseg": 16, "detrend": "linear"},
    {"nperseg": 16, "detrend": False}, {"nperseg": 16, "return_onesided": False},
    {"nperseg": 16, "average": "median"}, {"nperseg": 16, "fs": 4.0, "window": "blackman"},
    {"nperseg": 8, "window": ("kaiser", 3.0)}, {"nperseg": 21, "average": "median"},
]  # fmt: skip


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_power(options):
    x, y = rng.normal(size=(2, 90)), rng.normal(size=(2, 70))
    slopes = options.get("average") != "median"
    for axis in (-1, 0):
        a, b = (x, y) if axis else (x.T, y.T)
        there = {**options, "axis": axis}
        compared(lambda x: fx.signal.welch(x, **there)[1],
                 lambda x: scipy.signal.welch(x, **there)[1], [a], slopes)  # fmt: skip
        compared(lambda x, y: fx.signal.csd(x, y, **there)[1],
                 lambda x, y: scipy.signal.csd(x, y, **there)[1], [a, b], slopes)  # fmt: skip
    got, want = fx.signal.welch(fx.asarray(x), **options), scipy.signal.welch(x, **options)
    np.testing.assert_allclose(got[0].numpy(), want[0], atol=1e-12)
    z = x + 1j * x[::-1] ** 2
    got = fx.signal.welch(fx.asarray(z), **{"return_onesided": False, **options})[1]
    want = scipy.signal.welch(z, **{**options, "return_onesided": False})[1]
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-9)


def test_windows_of_power_as_tensors():
    x, w = rng.normal(size=64), np.hanning(16)
    got = fx.signal.welch(fx.asarray(x), window=fx.asarray(w))[1]
    np.testing.assert_allclose(got.numpy(), scipy.signal.welch(x, window=w)[1], rtol=1e-9)
    assert fx.signal.welch(fx.asarray(x.astype("float32")))[1].dtype == fx.float32


def test_what_does_not_fit_says_so():
    x = fx.ones((3, 4))
    grid = fx.interpolate.RegularGridInterpolator
    refused = [
        (lambda: fx.ndimage.map_coordinates(x, [x], 1), r"write \[\*coordinates\]"),
        (lambda: fx.ndimage.map_coordinates(x, [x, x], 3), "there are no splines"),
        (lambda: fx.ndimage.map_coordinates(x, [x, x], 1, "grid"), "constant, nearest"),
        (lambda: fx.ndimage.map_coordinates(x[:0], [x, x], 1), "no elements"),
        (lambda: grid((fx.arange(3.0),), x, "cubic"), "linear or nearest"),
        (lambda: grid((fx.arange(4.0),), x), "the lengths of the first axes"),
        (lambda: grid((-fx.arange(3.0),), x), r"write p.flip\(0\)"),
        (lambda: grid((fx.arange(3.0),), x, bounds_error=True), "fill_value=fx.nan"),
        (lambda: grid((fx.arange(3.0), fx.arange(4.0)), x)(fx.ones((2, 3))), "a grid of 2 axes"),
        (lambda: fx.optimize.minimize(rosenbrock, x[0], method="CG"), "'BFGS'"),
        (lambda: fx.optimize.minimize(rosenbrock, x, method="BFGS"), "a vector"),
        (lambda: fx.optimize.minimize(lambda x: x, x[0], method="BFGS"), "scalar"),
        (lambda: fx.optimize.minimize(rosenbrock, x[0], x[0], method="BFGS"), r"\(args,\)"),
        (lambda: fx.optimize.minimize(rosenbrock, x[0], method="BFGS", options={"a": 1}), "gtol"),
        (lambda: fx.stats.rankdata(x, "most"), "average, min"),
        (lambda: fx.stats.sem(x, nan_policy="raise"), "'omit'"),
        (lambda: fx.signal.convolve(x, x[0]), "differ in their axes"),
        (lambda: fx.signal.convolve(x, x, "half"), "full, same, valid"),
        (lambda: fx.signal.convolve(x, x, "full", "slow"), "auto, direct, fft"),
        (lambda: fx.signal.convolve(x, x.T, "valid"), "neither of"),
        (lambda: fx.signal.convolve2d(x[0], x[0]), "takes matrices"),
        (lambda: fx.signal.convolve2d(x, x, "full", "mirror"), "fill, wrap, symm"),
        (lambda: fx.signal.detrend(x, bp=9), "places in a signal of 4"),
        (lambda: fx.signal.welch(x, nperseg=4, noverlap=4), "noverlap from 0 to 3"),
        (lambda: fx.signal.welch(x, window="box"), "bartlett, blackman"),
        (lambda: fx.signal.welch(x, window="kaiser"), r"\('kaiser', beta\)"),
        (lambda: fx.signal.welch(x, scaling="power"), "density"),
    ]
    for call, words in refused:
        with pytest.raises(ValueError, match=words):
            call()
    with pytest.raises(TypeError, match="x0 is floating"):
        fx.optimize.minimize(rosenbrock, fx.arange(3), method="BFGS")
