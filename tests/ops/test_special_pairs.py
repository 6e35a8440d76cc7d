"""Functions of two numbers, integers and reductions at special values, against PyTorch and NumPy.

Values and slopes, eagerly and under jit, on every pair of zeros, infinities, NaN, subnormal and
huge numbers; integers at the ends of their range; casts of what does not fit; reductions of NaN,
infinities and nothing.
"""

from functools import partial

import numpy as np
import pytest
import torch

import fx
import fx.torch as face

pytestmark = [
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]
INF, NAN = np.inf, np.nan
NUMBERS = [0.0, -0.0, INF, -INF, NAN, 1.0, -1.0, 1e-45, -1e-45, 3e38, -3e38, 0.5, -2.5, 2.0, -3.0]
A, B = (np.array(a, np.float32).ravel() for a in np.meshgrid(NUMBERS, NUMBERS, indexing="ij"))
WAYS = pytest.mark.parametrize("way", [lambda f: f, fx.jit], ids=["eager", "jit"])
SMOOTH = """\
    add subtract multiply divide hypot logaddexp xlogy atan2 copysign pow fmod maximum minimum fmax
    fmin float_power lerp xlog1py"""
JUMPING = "floor_divide remainder nextafter eq ne lt le gt ge heaviside"
IN_NUMPY = {  # whose zeros have the sign that the Array API standard says, or whose NaN is NaN
    "remainder": np.remainder, "fmod": np.fmod, "heaviside": np.heaviside,
}  # fmt: skip
LIBRARIES = {"fx": face, "torch": torch}


def call(library, name):
    library = LIBRARIES[library]
    if name == "lerp":
        return lambda a, b: library.lerp(a, b, 0.75)
    return getattr(library.special if name == "xlog1py" else library, name)


def differs(got, want, signs=True):
    """Where two arrays are not of one class (NaN, infinite, signed), or differ by over 1e-5."""
    g, w = got.astype(np.float64), want.astype(np.float64)
    number = ~np.isnan(w)
    wrong = np.isnan(g) == number
    wrong |= number & (np.isinf(g) != np.isinf(w))
    if signs:
        wrong |= number & (np.signbit(g) != np.signbit(w))
    finite = np.isfinite(g) & np.isfinite(w)
    return wrong | (finite & ~(np.abs(g - w) <= 1e-5 * np.abs(w) + 1e-38))


def shown(wrong, *arrays):
    return [tuple(float(a[tuple(i)]) for a in arrays) for i in np.argwhere(wrong)[:5]]


@WAYS
@pytest.mark.parametrize("name", [*SMOOTH.split(), *JUMPING.split()])
def test_values_of_pairs(name, way):
    if name in IN_NUMPY:
        want = IN_NUMPY[name](A, B)
    else:
        want = call("torch", name)(torch.tensor(A), torch.tensor(B)).numpy()
    got = way(call("fx", name))(fx.tensor(A), fx.tensor(B)).numpy()
    assert got.dtype == want.dtype
    # 0 * log(y) keeps its sign in fx; a lerp to or from a subnormal is rounded
    wrong = differs(got, want, signs=name not in ("xlogy", "xlog1py", "lerp"))
    assert not wrong.any(), shown(wrong, A, B, got, want)


def excused(name, which, a, b):
    """Pairs at which PyTorch says another thing than what is right, or nothing is right."""
    huge = (np.abs(a) > 1e38) | (np.abs(b) > 1e38)
    tiny = (np.abs(a) < 1e-38) & (np.abs(b) < 1e-38)
    if name == "atan2":
        return huge | tiny  # squares are infinite or 0 there, fx divides twice
    if name == "copysign":
        return np.isinf(a)  # inf / inf; the slope is 1 or -1
    if name in ("xlogy", "xlog1py"):  # at 0 * log(0), 0 * log(inf) fx says 0
        zero = (a == 0) & ((b <= 0) | np.isinf(b)) if name == "xlogy" else (a == 0) & (b == -1)
        return zero | tiny | ((a == 0) & (np.isinf(b) | ((b > 0) & (b < 1e-38))))
    return np.zeros(a.shape, bool)


@WAYS
@pytest.mark.parametrize("name", SMOOTH.split())
def test_slopes_of_pairs(name, way):
    a, b = (torch.tensor(x, requires_grad=True) for x in (A, B))
    call("torch", name)(a, b).sum().backward()
    total = lambda a, b: call("fx", name)(a, b).sum()
    slopes = way(fx.grad(total, (0, 1)))(fx.tensor(A), fx.tensor(B))
    for which, (got, want) in enumerate(zip(slopes, (a.grad, b.grad))):
        got, want = got.numpy(), np.zeros_like(A) if want is None else want.numpy()
        wrong = differs(got, want, signs=False) & ~excused(name, which, A, B)
        assert not wrong.any(), (which, shown(wrong, A, B, got, want))


def test_slopes_that_squares_would_lose():
    a, b = fx.tensor(3e20), fx.tensor(4e20)
    np.testing.assert_allclose(float(fx.grad(fx.atan2)(a, b)), 4e20 / 25e40, rtol=1e-5)
    np.testing.assert_allclose(float(fx.grad(fx.divide, 1)(a, b)), -3 / 4 / 4e20, rtol=1e-5)
    np.testing.assert_allclose(float(fx.grad(fx.divide, 1)(a * 0, b * 1e-45)), 0.0)
    log3 = fx.grad(fx.xlogy)(fx.tensor(0.0), fx.tensor(3.0))
    np.testing.assert_allclose(float(log3), np.log(3), rtol=1e-6)
    tiny = face.special.xlog1py(fx.tensor(2.0), fx.tensor(1e-10))
    np.testing.assert_allclose(float(tiny), 2e-10, rtol=1e-6)
    assert float(fx.lerp(fx.tensor(1e8), fx.tensor(1.0), 1.0)) == 1.0
    assert float(fx.lerp(fx.tensor(1e8), fx.tensor(1.0), fx.tensor(1.0))) == 1.0


@pytest.mark.parametrize("way", ["eager", "jit", "vmap"])
@pytest.mark.parametrize("name", ["amax", "amin"])
def test_slopes_of_the_largest_among_nan(name, way):
    x = torch.tensor(ROWS, requires_grad=True)
    getattr(torch, name)(x, -1).sum().backward()
    slope = fx.grad(lambda x: getattr(face, name)(x, -1).sum())
    run = {"eager": slope, "jit": fx.jit(slope), "vmap": fx.vmap(slope)}[way]
    np.testing.assert_array_equal(run(fx.tensor(ROWS)).numpy(), x.grad.numpy())


# integers -----------------------------------------------------------------------------------------

INTEGERS = ["int8", "int16", "int32", "int64", "uint8"]
OF_INTEGERS = """\
    add subtract multiply maximum minimum bitwise_and bitwise_or bitwise_xor gcd lcm floor_divide
    remainder fmod div divide eq lt"""


def ends(dtype):
    """All pairs of integers at the ends of the range and around zero."""
    info = np.iinfo(dtype)
    some = [info.min, info.max, 0, 1, 2, 3, 7, info.min + 1, info.max - 1]
    some += [-1, -2, -7] if info.min < 0 else []
    return [np.array(x, dtype).ravel() for x in np.meshgrid(some, some, indexing="ij")]


def in_numpy(name, a, b):
    """What NumPy gives, save for its dtype; the quotient towards 0 for ``div``."""
    if name == "div":
        return (a - np.fmod(a, b)) // b
    names = {"eq": "equal", "lt": "less"}
    return getattr(np, names.get(name, name))(a, b)


@WAYS
@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("name", OF_INTEGERS.split())
def test_integers_at_their_ends(name, dtype, way):
    a, b = ends(dtype)
    if name in ("floor_divide", "remainder", "fmod", "div", "divide"):
        a, b = a[b != 0], b[b != 0]
    f = call("fx", name)
    if name == "div":
        f = lambda x, y: face.div(x, y, rounding_mode="trunc")
    got = way(f)(fx.tensor(a), fx.tensor(b)).numpy()
    want = in_numpy(name, a, b)  # of the smallest by -1 it wraps, in NumPy too
    if name == "divide":
        want = want.astype(np.float32)
    assert got.dtype == want.dtype
    wrong = ~np.isclose(got, want, rtol=1e-6) if name == "divide" else got != want
    assert not wrong.any(), shown(wrong, a, b, got, want)


@WAYS
@pytest.mark.parametrize("dtype", INTEGERS)
def test_shifts_by_the_width_and_more(dtype, way):
    info = np.iinfo(dtype)
    by = [0, 1, info.bits - 1, info.bits, min(info.bits + 1, info.max), min(100, info.max)]
    a, b = (np.array(x, dtype).ravel() for x in np.meshgrid(ends(dtype)[0][::9], by))
    for name in ("bitwise_left_shift", "bitwise_right_shift"):
        want = call("torch", name)(torch.tensor(a), torch.tensor(b)).numpy()
        got = way(getattr(fx, name))(fx.tensor(a), fx.tensor(b)).numpy()
        assert (got == want).all(), shown(got != want, a, b, got, want)


@WAYS
@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("name", ["abs", "negative", "sign", "square"])
def test_one_integer_at_its_ends(name, dtype, way):
    x = ends(dtype)[0]
    want = getattr(torch, name)(torch.tensor(x)).numpy()
    got = way(getattr(fx, name))(fx.tensor(x)).numpy()
    assert got.dtype == want.dtype and (got == want).all()


# casts --------------------------------------------------------------------------------------------

OUTSIDE = [
    *NUMBERS, 1.9, -1.9, 127.5, 128, 255.9, 256, -129, 300, -300, 32768, 65535, 65536, 2**31 - 1,
    2**31, 2**32, -(2**31), 2**53, 2**63, -(2**63), 2**64, 1e20, 65519, 65520, 6e-8, 2.9e-8,
]  # fmt: skip
ALL = "int8 int16 int32 int64 uint8 bool float16 bfloat16 float32 float64"


def plain(x):
    """Its values in a dtype that NumPy has."""
    wide = ("float16", "bfloat16", "float32")
    if str(x.dtype).rpartition(".")[2] in wide:
        x = x.double() if isinstance(x, torch.Tensor) else x.astype(fx.float64)
    return x.numpy()


@WAYS
@pytest.mark.parametrize("source", ["float64", "float32", "bfloat16", "float16", "int64", "bool"])
def test_casts_of_what_does_not_fit(source, way):
    if source in ("int64", "bool"):
        whole = [-(2**63), 2**63 - 1, 0, 1, 200, 2**31, 2**32 + 5, -300, 65535]
        x = torch.tensor(whole, dtype=torch.int64).to(getattr(torch, source))
    else:
        x = torch.tensor(OUTSIDE, dtype=torch.float64).to(getattr(torch, source))
    mine = fx.tensor(plain(x)).astype(getattr(fx, source))
    for target in ALL.split():
        want = plain(x.to(getattr(torch, target)))
        got = plain(way(partial(fx.astype, dtype=getattr(fx, target)))(mine))
        same = (got == want) | ((got != got) & (want != want))
        assert same.all(), (target, shown(~same, plain(x), got, want))


# reductions ---------------------------------------------------------------------------------------

ROWS = np.array(
    [
        [1, 2, 3, 4], [NAN] * 4, [1, NAN, 3, 4], [INF, 1, 2, 3], [-INF] * 4, [INF, -INF, 1, 2],
        [-INF, 1, 2, 3], [0, -0.0, 0, 0], [INF] * 4, [INF, NAN, 1, 2], [1, 1, 1, 1], [0, 3, 0, 2],
    ],
    np.float32,
)  # fmt: skip
REDUCTIONS = {
    "sum": None, "mean": None, "prod": None, "nansum": None, "nanmean": None, "var": None,
    "std": None, "amax": None, "amin": None, "argmax": None, "argmin": None, "logsumexp": None,
    "softmax": None, "log_softmax": None, "cumsum": None, "cumprod": None, "logcumsumexp": None,
    "any": None, "all": None, "count_nonzero": None,
    "max": lambda m, x: m.max(x, -1)[0], "places": lambda m, x: m.min(x, -1)[1],
    "cummax": lambda m, x: m.cummax(x, -1)[0], "cummin": lambda m, x: m.cummin(x, -1)[1],
    "median": lambda m, x: m.median(x, -1)[0], "sort": lambda m, x: m.sort(x, dim=-1)[0],
    "quantile": lambda m, x: m.quantile(x, 0.3, -1), "norm": lambda m, x: m.norm(x, dim=-1),
    "norm of 1": lambda m, x: m.norm(x, 1, dim=-1), "all of it": lambda m, x: m.sum(x),
    "norm of inf": lambda m, x: m.norm(x, INF, dim=-1),
    "topk": lambda m, x: m.topk(x, min(2, x.shape[-1]), -1)[0],
}  # fmt: skip
NO_SLOPE = ["argmax", "argmin", "any", "all", "count_nonzero", "places", "cummin"]
# at rows of NaN or infinities slopes are none that anybody could rely on; but those of amax and
# amin are NaN at a NaN
TAME = [0, 7, 10, 11]


def reduction(name):
    given = REDUCTIONS[name]
    return given or (lambda m, x: getattr(m, name)(x, -1))


@WAYS
@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions(name, way):
    f = reduction(name)
    for rows in (ROWS, ROWS[:, :1], np.zeros((3, 0), np.float32), np.zeros((0, 4), np.float32)):
        try:
            want = f(torch, torch.tensor(rows)).numpy()
        except (RuntimeError, IndexError):
            if name == "quantile" and rows.shape == (0, 4):
                continue  # none of no rows, which PyTorch refuses
            with pytest.raises(Exception, match=r".{20}"):
                way(lambda x: f(face, x))(fx.tensor(rows))
            continue
        got = way(lambda x: f(face, x))(fx.tensor(rows)).numpy()
        assert (got.dtype, got.shape) == (want.dtype, want.shape)
        wrong = differs(got, want, signs=False)
        assert not wrong.any(), (rows.shape, shown(wrong, got, want))


@WAYS
@pytest.mark.parametrize("name", [n for n in REDUCTIONS if n not in NO_SLOPE])
def test_slopes_of_reductions(name, way):
    f = reduction(name)
    x = torch.tensor(ROWS[TAME], requires_grad=True)
    weights = np.array([0.5, -1.0, 2.0, 1.5], np.float32)
    weigh = lambda y, w: (y * w[: y.shape[-1]]).sum() if y.ndim > 1 else y.sum()
    weigh(f(torch, x), torch.tensor(weights)).backward()
    total = lambda x: weigh(f(face, x), fx.tensor(weights))
    got, want = way(fx.grad(total))(fx.tensor(ROWS[TAME])).numpy(), x.grad.numpy()
    wrong = np.isnan(got) != np.isnan(want)
    wrong |= ~np.isnan(want) & ~(np.abs(got - want) <= 1e-5 * np.maximum(np.abs(want), 1))
    if name in ("median", "topk", "sort", "quantile", "max", "cummax"):
        wrong[1:3] = False  # of equal numbers PyTorch picks others
    assert not wrong.any(), shown(wrong, ROWS[TAME], got, want)
