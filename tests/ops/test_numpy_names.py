"""NumPy's names against NumPy: values, jit against eager, derivatives against differences."""

import numpy as np
import pytest

import fx
from fx.ops.numpy_names import NAMES

rng = np.random.default_rng(0)
V = rng.standard_normal(7)
W = rng.standard_normal(4)
M = rng.standard_normal((4, 5))
N = np.where(rng.random((4, 5)) < 0.3, np.nan, M)
C = rng.standard_normal((2, 3)) + 1j * rng.standard_normal((2, 3))
I = np.array([3, 1, 4, 1, 5, 9, 2, 6])
J = np.array([2, 7, 1, 8, 2, 8])
B = np.array([[True, False, True], [False, False, True]])
INF = np.array([0.0, -0.0, 1.5, -2.0, np.inf, -np.inf, np.nan, 6.0])


def call(name, *args, static=(), grad=True, **kwargs):
    """A call with arrays as arguments; ``static`` says which stay Python's."""
    return pytest.param(name, args, kwargs, static, grad, id=f"{name}-{len(str(args))}-{kwargs}")


def plain(name, *args, **kwargs):
    return call(name, *args, grad=False, **kwargs)


CASES = [
    # pointwise
    plain("angle", C), plain("angle", V), plain("deg2rad", V), plain("degrees", V),
    plain("rad2deg", V), plain("radians", V), call("sinc", V), plain("fmax", N, M),
    plain("fmin", N, M), plain("float_power", abs(V), 2), plain("gcd", I[:6], J),
    plain("lcm", I[:6], J), plain("heaviside", INF, 0.5), plain("isneginf", INF),
    plain("isposinf", INF), plain("ldexp", V, np.arange(7)), call("logaddexp2", W, W[::-1]),
    plain("around", V * 100, 1, static=(1,)), plain("rint", V * 3), plain("fabs", V),
    call("cbrt", V),
    plain("cbrt", INF), plain("conjugate", C), plain("invert", I), plain("left_shift", I[:6], J),
    plain("right_shift", I, 1), plain("mod", V, 0.7), plain("divmod", V, 0.7),
    plain("divmod", I[:6], J), plain("modf", INF), plain("modf", V * 5), plain("frexp", INF),
    plain("frexp", V * 1e-310), plain("frexp", np.ldexp(1.0, np.arange(-30, 30))),
    plain("bitwise_count", -I), plain("iscomplex", C.real + 1j * np.array([0, 1, 0])),
    plain("iscomplex", V), plain("select", [V > 1, V < 0], [V, -V], 7.0),
    plain("interp", V, np.array([-1.0, 0.0, 0.5, 2.0]), W), call("interp", W, np.sort(V)[:4], W),
    plain("interp", V, np.array([-1.0, 0.0, 2.0]), W[:3], -9.0, 9.0),
    plain("interp", V * 9, np.array([2.0, 0.5, 1.0]), W[:3], period=3.0),
    plain("interp", V, np.array([0.0, 1.0, 1.0, 2.0]), W), call("unwrap", V * 4),
    plain("unwrap", M * 5, axis=0), plain("unwrap", I * 1.0, period=4),
    # making
    plain("array", [[1.0, 2.0]]), plain("copy", M), plain("identity", 3, static=(0,)),
    plain("geomspace", 1.0, 1000.0, 4, static=(0, 1, 2)),
    plain("geomspace", -2.0, -32.0, 5, static=(0, 1, 2)),
    plain("geomspace", 1.0, 8.0, 3, endpoint=False, static=(0, 1, 2)),
    plain("indices", (2, 3), static=(0,)), plain("tril_indices", 3, 1, 4, static=(0, 1, 2)),
    plain("triu_indices", 4, -1, static=(0, 1)), plain("tril_indices_from", M),
    plain("triu_indices_from", M, 1, static=(1,)), plain("diag_indices", 3, static=(0,)),
    plain("diag_indices_from", M[:, :4]), plain("ix_", I[:2], J[:3]),
    plain("ravel_multi_index", (I[:3] % 3, J[:3] % 4), (3, 4), static=(1,)),
    plain("ravel_multi_index", (I[:3], J[:3]), (3, 4), mode="wrap", static=(1,)),
    plain("ravel_multi_index", (I[:3], J[:3]), (3, 4), mode="clip", order="F", static=(1,)),
    plain("unravel_index", I, (4, 5), static=(1,)), call("vander", W), plain("shape", M),
    plain("ndim", M), plain("size", M), plain("size", M, 1, static=(1,)),
    # parts
    call("append", M, W), plain("append", M, M, axis=0), plain("append", I, 3),
    call("array_split", V, 3, static=(1,)), call("atleast_1d", np.array(2.0)),
    plain("atleast_3d", M), call("column_stack", (W, W)), plain("dstack", (M, M)),
    plain("row_stack", (M, M)), plain("diagflat", W, 1, static=(1,)), plain("fliplr", M),
    plain("flipud", M), call("block", [[M, M], [M, M * 2]]), plain("block", [W, 1.0]),
    plain("hsplit", M[:, :4], 2, static=(1,)), plain("vsplit", M, 2, static=(1,)),
    plain("rollaxis", M[None], 2, static=(1,)), plain("rollaxis", M[None], 0, 3, static=(1, 2)),
    plain("resize", W, (3, 3), static=(1,)), plain("trim_zeros", np.array([0, 0, 1, 0, 2, 0])),
    plain("trim_zeros", np.array([0, 3, 0]), "b", static=(1,)), plain("flatnonzero", B),
    plain("extract", M > 0, M), plain("compress", np.array([True, False, True]), M, axis=1),
    plain("compress", np.array([True, False, True]), M),
    plain("choose", np.array([0, 2, 1, 0]), [W, W * 2, W * 3]),
    plain("choose", np.array([[5], [-1]]), [W, W * 2], mode="wrap"),
    plain("choose", np.array([5, -1, 0, 1]), [W, W * 2], mode="clip"),
    plain("lexsort", (I[:6], J)), plain("sort_complex", np.round(C)),
    plain("insert", I, 2, 99, static=(1,)), plain("insert", M, 1, 7.0, axis=1, static=(1,)),
    plain("insert", M, [0, 4, 2], M[:, :3], axis=1, static=(1,)),
    plain("insert", I, [1, 1, -2], [7, 8, 9], static=(1,)),
    plain("insert", M, slice(0, 4, 2), W[:2, None] * np.ones(5), axis=0, static=(1,)),
    plain("insert", M, -1, V[:5], axis=0, static=(1,)), call("delete", M, 1, axis=0, static=(1,)),
    plain("delete", I, slice(1, None, 2), static=(1,)), plain("delete", I, [0, -1], static=(1,)),
    plain("delete", M, [True, False, True, False], axis=0, static=(1,)),
    # statistics
    call("average", M), call("average", M, axis=1, weights=abs(V[:5])),
    plain("average", M, weights=abs(M), returned=True), plain("average", M, 0, returned=True),
    plain("average", I), call("ptp", M, axis=1), plain("percentile", M, 30.0, axis=0),
    plain("percentile", M, [10.0, 90.0]), plain("percentile", M, 40.0, method="lower"),
    call("trapezoid", M), plain("trapezoid", M, W, axis=0), plain("trapezoid", M, dx=0.5),
    plain("nanmax", N), plain("nanmax", N, axis=0), plain("nanmin", N, axis=1),
    *[plain(f, np.array(v, d)) for f in ("nanmax", "nanmin")
      for v, d in (([0, 1, 2], np.uint8), ([-128, 1], np.int8), ([2, np.inf, np.nan], float))],
    plain("nanargmax", N, axis=1), plain("nanargmin", N, axis=1), plain("nanargmax", INF),
    plain("nanprod", N, axis=0), plain("nancumsum", N, axis=1), plain("nancumprod", N),
    plain("nanvar", N, axis=1), plain("nanvar", N, ddof=1), plain("nanstd", N, axis=0),
    plain("nanquantile", N, 0.3, axis=1), plain("nanpercentile", N, [20.0, 70.0], axis=1),
    plain("nanmedian", N, axis=1), plain("nanmedian", N), call("cov", M), plain("cov", V),
    plain("cov", M, rowvar=False), plain("cov", M, M[:2], bias=True), plain("cov", M, ddof=0),
    plain("cov", M, aweights=abs(V[:5]), fweights=I[:5]), call("corrcoef", M),
    plain("corrcoef", M, M[:1]), plain("corrcoef", M, rowvar=False), plain("bincount", I),
    plain("bincount", I, minlength=12), plain("histogram", V), plain("histogram", I, 4),
    plain("histogram", V, 5, (-1.0, 1.0), static=(1, 2)),
    plain("histogram", V, np.array([-1.0, 0.0, 0.5, 2.0])),
    plain("histogram", V, 4, weights=abs(V), static=(1,)),
    plain("histogram", V, 4, density=True, static=(1,)), plain("histogram_bin_edges", V, 3),
    plain("histogram2d", V, V[::-1].copy(), 3), plain("histogram2d", V, V**2, [2, 4]),
    plain("histogramdd", np.stack([V, V**2, V**3], 1), 2, static=(1,)),
    plain("histogramdd", np.stack([V, V**2], 1), [2, 3], density=True, static=(1,)),
    plain("digitize", V, np.array([-1.0, 0.0, 1.0])), plain("digitize", I, np.array([5, 3, 1])),
    plain("digitize", I, np.array([1, 3, 5]), True, static=(2,)),
    plain("digitize", I, np.array([5, 3, 1]), right=True), plain("ediff1d", M),
    plain("ediff1d", V, to_end=[1.0, 2.0], to_begin=0.0), call("gradient", V),
    plain("gradient", M), plain("gradient", M, 0.5, axis=1), plain("gradient", V, edge_order=2),
    plain("gradient", V, np.cumsum(abs(V))), plain("gradient", M, 2.0, 3.0),
    plain("gradient", M, 2.0, axis=(0, 1)),
    *[call(f, a, b, mode=m) for f in ("convolve", "correlate") for m in ("full", "same", "valid")
      for a, b in ((V, W), (W, V), (V, W[:3]), (W[:3], V))],
    plain("convolve", C[0], C[1]), plain("correlate", C[0], C[1]), plain("convolve", I, J),
    # sets
    *[plain(f, I, J) for f in ("intersect1d", "setdiff1d", "setxor1d", "union1d")],
    plain("union1d", M, V),
    # polynomials
    call("poly", W), call("polyval", W, V), plain("polyval", I, J), plain("polyadd", V, W),
    plain("polysub", W, V), plain("polymul", V, W), call("polydiv", V, W), plain("polydiv", W, V),
    plain("polyder", V, 2, static=(1,)), plain("polyder", I), plain("polyint", V),
    plain("polyint", V, 2, [1.0, 2.0], static=(1,)),
    call("polyfit", V, V**2, 2, static=(2,)), plain("polyfit", V * 1e3, V, 3, static=(2,)),
    plain("polyfit", W, M, 1, w=abs(W), static=(2,)),
]  # fmt: skip


def wrapped(x):
    if isinstance(x, np.ndarray):
        return fx.from_numpy(x.copy())
    return type(x)(map(wrapped, x)) if isinstance(x, list | tuple) else x


def same(found, expected):
    if isinstance(expected, list | tuple):
        assert len(found) == len(expected)
        for a, b in zip(found, expected):
            same(a, b)
        return
    expected, found = np.asarray(expected), np.asarray(found)
    assert found.shape == expected.shape
    assert found.dtype.kind == expected.dtype.kind or {found.dtype.kind, expected.dtype.kind} <= {
        "u", "i"
    }  # fmt: skip
    np.testing.assert_allclose(found, expected, 1e-5 if found.dtype.itemsize < 8 else 1e-11, 1e-12)


def split(args, static):
    given = [x if i in static else wrapped(x) for i, x in enumerate(args)]
    moving = [x for i, x in enumerate(given) if i not in static and fx.tree.leaves(x)]
    return given, moving


@pytest.mark.parametrize(("name", "args", "kwargs", "static", "grad"), CASES)
def test_values(name, args, kwargs, static, grad):
    oracle = getattr(np, name, None) or {"row_stack": np.vstack, "trapezoid": np.trapezoid}[name]
    with np.errstate(all="ignore"):
        expected = oracle(*args, **kwargs)
    given, _ = split(args, static)
    same(getattr(fx, name)(*given, **wrapped_values(kwargs)), expected)


def wrapped_values(kwargs):
    return {k: wrapped(v) if isinstance(v, np.ndarray) else v for k, v in kwargs.items()}


@pytest.mark.parametrize(
    ("name", "args", "kwargs", "static", "grad"), [p for p in CASES if p.values[4]]
)
def test_jit_and_derivatives(name, args, kwargs, static, grad):
    given, _ = split(args, static)
    kwargs = wrapped_values(kwargs)
    places = [i for i, x in enumerate(given) if isinstance(x, fx.Tensor)]

    def of_tensors(*xs):
        every = list(given)
        for i, x in zip(places, xs):
            every[i] = x
        return getattr(fx, name)(*every, **kwargs)

    tensors = tuple(given[i] for i in places)
    same(fx.jit(of_tensors)(*tensors), fx.tree.map(np.asarray, of_tensors(*tensors)))
    assert fx.autograd.gradcheck(of_tensors, tensors, check_forward_ad=True)


# what is no call of one function ----------------------------------------------------------------


def test_grids_and_rows():
    same(fx.mgrid[0:2, 0:3], np.mgrid[0:2, 0:3])
    same(fx.mgrid[0:1:4j], np.mgrid[0:1:4j])
    same(fx.ogrid[0:2, 0:3], np.ogrid[0:2, 0:3])
    same(fx.r_[fx.tensor([1.0, 2.0]), 0, 5:7], np.r_[np.array([1.0, 2.0]), 0, 5:7])
    same(fx.c_[fx.tensor([1, 2]), fx.tensor([3, 4])], np.c_[[1, 2], [3, 4]])
    assert fx.s_[1:2, ::3] == np.s_[1:2, ::3] and fx.index_exp[1] == 1
    same(fx.mask_indices(3, fx.triu), np.mask_indices(3, np.triu))
    same(fx.fromfunction(lambda i, j: i * 10 + j, (2, 3)), np.fromfunction(
        lambda i, j: i * 10 + j, (2, 3)))  # fmt: skip


def test_what_numpy_writes_in_place_is_returned():
    i, v = np.array([[2, 0], [1, 1], [0, 4], [3, 2]]), np.array([[7.0, 8.0]])
    for name, args in [
        ("put", ([2, 5], [7.0, 8.0])), ("put", ([2, 25], [7.0], "clip")),
        ("put", ([-1, 25], 7.0, "wrap")), ("place", (M > 0, np.array([1.0, 2.0]))),
        ("fill_diagonal", (9.0,)), ("fill_diagonal", (np.array([1.0, 2.0]),)),
        ("put_along_axis", (i, v, 1)),
    ]:  # fmt: skip
        expected, x = M.copy(), fx.tensor(M)
        getattr(np, name)(expected, *args)
        same(getattr(fx, name)(x, *wrapped(args)), expected)
        same(x, M)
        with pytest.raises(ValueError, match=rf"a = fx.{name}\(a, ...\)"):
            getattr(fx, name)(x, *wrapped(args), inplace=True)
    for shape, wrap in (((7, 3), True), ((7, 3), False), ((3, 7), True), ((3, 3, 3), False)):
        expected = np.zeros(shape)
        np.fill_diagonal(expected, 5, wrap)
        same(fx.fill_diagonal(fx.zeros(shape, dtype=fx.float64), 5, wrap), expected)


def test_partitions_have_their_order():
    for axis in (0, 1):
        parts = np.asarray(fx.partition(fx.tensor(M), 2, axis))
        assert (parts.take([0, 1], axis) <= parts.take([2], axis)).all()
        places = fx.argpartition(fx.tensor(M), 2, axis)
        same(fx.take_along_axis(fx.tensor(M), places, axis), parts)


@pytest.mark.parametrize(
    "p", [W, [1.0, 0.0, 4.0], [0.0, 2.0, 1.0, 0.0, 0.0], [3.0], [0.0, 0.0], [1, -3, 2]]
)
def test_roots(p):
    found = np.sort_complex(np.asarray(fx.roots(wrapped(p))))
    expected = np.sort_complex(np.roots(p))
    np.testing.assert_allclose(found, expected, 1e-5 if isinstance(p, list) else 1e-10, 1e-6)


def test_piecewise():
    x = fx.tensor(V)
    same(
        fx.piecewise(x, [x < 0, x > 1], [lambda t: -t, 5.0, lambda t: t * t]),
        np.piecewise(V, [V < 0, V > 1], [lambda t: -t, 5.0, lambda t: t * t]),
    )
    same(fx.piecewise(x, [x < 0], [lambda t: t]), np.piecewise(V, [V < 0], [lambda t: t]))


def test_functions_along_axes():
    f = lambda np_: lambda row: np_.outer(row, row)[:2] if np_ is fx else np.outer(row, row)[:2]
    for axis in (0, 1):
        same(fx.apply_along_axis(f(fx), axis, fx.tensor(M)), np.apply_along_axis(f(np), axis, M))
        same(fx.apply_along_axis(fx.sum, axis, fx.tensor(M)), np.apply_along_axis(np.sum, axis, M))
    same(
        fx.apply_over_axes(fx.sum, fx.tensor(M[None]), (0, 2)),
        np.apply_over_axes(np.sum, M[None], (0, 2)),
    )


def test_vectorize():
    add = fx.vectorize(lambda a, b: fx.where(a > b, a - b, a * b))
    same(add(fx.tensor(M), fx.tensor(V[:5])), np.where(V[:5] < M, M - V[:5], M * V[:5]))
    same(add(fx.tensor(M[:, :1]), fx.tensor(V)), np.where(M[:, :1] > V, M[:, :1] - V, M[:, :1] * V))
    dot = fx.vectorize(lambda a, b: a @ b, signature="(n),(n)->()")
    same(dot(fx.tensor(M), fx.tensor(V[:5])), M @ V[:5])
    same(dot(fx.tensor(M[:, None]), fx.tensor(M)), M @ M.T)
    power = fx.vectorize(lambda x, n: x**n, excluded={1})
    same(power(fx.tensor(V), 2), V**2)


def test_sorts_of_values():
    assert fx.isscalar(3.0) and fx.isscalar(fx.tensor(1)) and not fx.isscalar(fx.tensor([1]))
    assert fx.iscomplexobj(fx.tensor(C)) and fx.isrealobj(fx.tensor(V))
    assert fx.array([1, 2], ndmin=3).shape == (1, 1, 2)
    assert fx.float_([1, 2]).dtype == fx.float32


ELSEWHERE = {
    *("mgrid", "ogrid", "r_", "c_", "s_", "index_exp", "mask_indices", "fromfunction", "put"),
    *("place", "fill_diagonal", "put_along_axis", "partition", "argpartition", "piecewise"),
    *("apply_along_axis", "apply_over_axes", "vectorize", "isscalar", "iscomplexobj"),
    *("isrealobj", "float_", "roots"),
    # in test_numpy_words.py
    *("frombuffer", "fromfile", "fromiter", "fromstring", "packbits", "unpackbits", "array_equiv"),
    *("array_repr", "array_str", "bartlett", "blackman", "einsum_path", "frompyfunc", "hamming"),
    *("hanning", "issubdtype", "iterable", "kaiser", "matvec", "promote_types", "savez", "spacing"),
    *("vecmat", "i0"),
    # PyTorch's too, tested with its names
    *("isreal", "polar", "view_as_complex", "view_as_real", "block_diag", "atleast_2d", "dsplit"),
}


def test_each_name_has_a_test():
    assert {p.values[0] for p in CASES} | ELSEWHERE == set(NAMES)


def test_a_misspelt_name_is_answered():
    with pytest.raises(AttributeError, match=r"did you mean fx\.histogram"):
        fx.histogramm
