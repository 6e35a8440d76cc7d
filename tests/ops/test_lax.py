"""``fx.lax`` against ``jax.lax``: values, compiled calls, lanes and slopes of each expression."""

import numpy as np
import pytest

import fx
import fx.lax

jax = pytest.importorskip("jax")

rng = np.random.default_rng(0)
ROOM = {
    "X": rng.normal(size=(3, 4)), "Y": rng.normal(size=(3, 4)), "P": rng.random((3, 4)) + 0.5,
    "V": rng.normal(size=7), "T": rng.normal(size=(2, 3, 4)), "U": rng.normal(size=(2, 4, 5)),
    "I": rng.integers(-9, 9, (3, 4)).astype("int32"), "J": np.array([[1, 2, 3, 5]] * 3, "int32"),
    "B": rng.random((3, 4)) > 0.5, "K": np.array([2, 0, 1, 1, 2, 0, 1], "int32"),
    "IM": rng.normal(size=(2, 4, 6, 5)),
    "W": rng.normal(size=(6, 2, 3, 2)), "S": rng.normal(size=(2, 4, 8)),
    "W1": rng.normal(size=(5, 4, 3)), "LAST": rng.normal(size=(2, 6, 5, 4)),
    "HWIO": rng.normal(size=(3, 2, 4, 3)), "RAGGED": rng.normal(size=(3, 4, 5)),
    "LOCAL": rng.normal(size=(5, 12, 3)), "LOCALS": rng.normal(size=(2, 2, 24, 3)),
    "L": rng.integers(-2**63, 2**63 - 1, 9), "M": rng.integers(-2**63, 2**63 - 1, 9),
    "UL": rng.integers(0, 2**64 - 1, 9, "uint64"), "UM": rng.integers(0, 2**64 - 1, 9, "uint64"),
    "HALVES": np.array([-2.5, -0.5, -0.0, 0.49999999999999994, 0.5, 2.5, 1e17, np.inf]),
    "i": np.array(5, "int32"), "z": np.array(-1, "int32"),
}  # fmt: skip
_ONE = """
    abs asinh atan cbrt ceil cos erf exp exp2 expm1 floor is_finite logistic neg rsqrt sign sin sqrt
    square tan tanh digamma lgamma bessel_i0e bessel_i1e reciprocal log log1p"""
_TWO = "add atan2 div ge lt max min mul nextafter pow rem sub eq ne igamma igammac igamma_grad_a"
EXPRESSIONS = [
    *[f"lax.{f}(P)" for f in _ONE.split()], *[f"lax.{f}(P, abs(Y))" for f in _TWO.split()],
    *[f"lax.{f}(X, 1)" for f in ("cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp")],
    *"""
lax.div(I, J)
lax.rem(I, J)
lax.betainc(P, P + 1.0, P / 3.0)
lax.erf_inv(X / 4.0)
lax.zeta(P + 1.0, P)
lax.integer_pow(X, 3)
lax.complex(X, Y)
lax.clamp(-0.5, X, 0.5)
lax.select(B, X, Y)
lax.select_n(B, X, Y)
lax.select_n(K % 3, V, V + 1.0, V * 2.0)
lax.convert_element_type(X, 'int32')
lax.shift_left(J, J)
lax.shift_right_arithmetic(I, J)
lax.shift_right_logical(I, J)
lax.clz(J)
lax.population_count(J)
lax.bitwise_xor(I, J)
lax.reshape(X, (2, 6))
lax.reshape(X, (12,), (1, 0))
lax.transpose(T, (2, 0, 1))
lax.rev(X, (0,))
lax.concatenate([X, Y], 1)
lax.split(V, (2, 4, 1))
lax.squeeze(X[:, None], (1,))
lax.expand_dims(X, (0, 2))
lax.collapse(T, 0, 2)
lax.collapse(T, 1)
lax.broadcast(X, (2,))
lax.broadcast_in_dim(V, (2, 7, 3), (1,))
lax.broadcast_to_rank(X, 4)
lax.iota('int32', 4)
lax.broadcasted_iota('int32', (2, 3), 1)
lax.pad(X, 0.5, [(1, 2, 0), (0, 1, 2)])
lax.pad(X, 0.5, [(-1, 2, 1), (2, -3, 0)])
lax.slice(X, (0, 1), (3, 4), (2, 1))
lax.slice_in_dim(T, 0, 3, 2, axis=2)
lax.index_in_dim(T, -1, 1)
lax.index_in_dim(T, 0, 1, keepdims=False)
lax.dynamic_slice(X, (i, z), (2, 2))
lax.dynamic_slice_in_dim(T, i, 2, axis=2)
lax.dynamic_index_in_dim(X, z, 1, keepdims=False)
lax.dynamic_update_slice(X, Y[:2, :2], (i, z))
lax.dynamic_update_slice_in_dim(X, Y[:1], i, 0)
lax.dynamic_update_index_in_dim(X, Y[0], z, 0)
lax.sort(X)
lax.sort(X, dimension=0)
lax.sort((K, V), num_keys=1)
lax.sort((K, K[::-1], V), num_keys=2)
lax.sort_key_val(V, K)
lax.top_k(X, 2)
lax.approx_max_k(X, 2)
lax.approx_min_k(X, 2)
lax.cumsum(X, 0, reverse=True)
lax.cummax(X, 1, reverse=True)
lax.reduce_sum(T, (0, 2))
lax.reduce_prod(T, (1,))
lax.reduce_max(T, (0,))
lax.reduce_min(T, (0, 1))
lax.reduce_and(B, (1,))
lax.reduce_or(B, (1,))
lax.reduce_sum(I, (1,))
lax.argmax(X, 1, 'int32')
lax.argmin(X, 0, 'int32')
lax.reduce(T, 0.0, lax.add, (0, 2))
lax.reduce(V, -9.0, lax.max, (0,))
lax.dot(X, X.T)
lax.batch_matmul(T, U)
lax.dot_general(T, U, (((2,), (1,)), ((0,), (0,))))
lax.dot_general(T, X, (((1, 2), (0, 1)), ((), ())))
lax.dot_general(X, T, (((1,), (2,)), ((), ())))
lax.reduce_window(IM, 0.0, lax.add, (1, 1, 2, 3), (1, 1, 2, 1), 'SAME')
lax.reduce_window(X, -np.inf, lax.max, (2, 2), (1, 2), [(1, 0), (2, 1)])
lax.reduce_window(X, 0.0, lax.add, (2, 2), (1, 1), 'VALID', None, (1, 2))
lax.conv(S, W1, (1,), 'VALID')
lax.conv(S, W1, (2,), 'SAME')
lax.conv_general_dilated(IM, W, (1, 2), 'SAME', **TWO)
lax.conv_general_dilated(IM, W, (1, 1), [(2, 1), (-1, 3)], (2, 1), (1, 2), **TWO)
lax.conv_general_dilated(LAST, HWIO, (2, 1), 'SAME_LOWER', dimension_numbers=LAYOUT)
lax.conv_with_general_padding(S, W1, (1,), [(1, 2)], (2,), (1,))
lax.conv_transpose(LAST, HWIO, (2, 3), 'SAME')
lax.conv_transpose(LAST, HWIO, (1, 4), 'VALID')
lax.conv_transpose(LAST, HWIO, (2, 1), [(1, 2), (0, 1)], (2, 1))
lax.cond(i > 3, lambda x: x * 2.0, lambda x: x, X)
lax.switch(z + 1, [lambda x: x, lambda x: -x], X)
lax.fori_loop(0, 3, lambda k, x: x * 2.0, X)
lax.scan(lambda c, x: (c + x, c * x), V[0], V)
lax.fft(V + 0j, 'FFT', (7,))
lax.fft(T, 'RFFT', (3, 4))
lax.polygamma(1.0, P)
lax.broadcast_like(X, T)
lax.mulhi(I * 1000000, J * 30000000)
lax.mulhi(L, M)
lax.mulhi(UL, UM)
lax.round(X * 9.0)
lax.round(HALVES)
lax.round(HALVES, lax.RoundingMethod.TO_NEAREST_EVEN)
lax.reduce_precision(X, 8, 7)
lax.bitcast_convert_type(X, 'int64')
lax.bitcast_convert_type(X, 'uint8')
lax.bitcast_convert_type(X, 'float32')
lax.bitcast_convert_type(J[:, :2], 'float64')
lax.bitcast_convert_type(I, 'uint32')
lax.bitcast_convert_type(I, 'int16')
lax.ragged_dot(X, RAGGED, i * 0 + np.array([1, 0, 2], 'int32'))
lax.ragged_dot(X, RAGGED, i * 0 + np.array([0, 1, 1], 'int32'))
lax.conv_general_dilated_patches(IM, (3, 2), (1, 2), 'SAME')
lax.conv_general_dilated_patches(IM, (2, 3), (2, 1), [(2, 1), (-1, 3)], (2, 1), (1, 2))
lax.conv_general_dilated_patches(S, (3,), (2,), 'VALID')
lax.conv_general_dilated_patches(LAST, (3, 2), (1, 1), 'SAME_LOWER', dimension_numbers=LAYOUT)
lax.conv_general_dilated_local(S, LOCAL, (2,), 'VALID', (3,))
lax.conv_general_dilated_local(LAST, LOCALS, (2, 2), 'VALID', (3, 2), dimension_numbers=LAYOUT)
""".strip().splitlines(),
]  # fmt: skip
WORDS = {"np": np, "LAYOUT": ("NHWC", "HWIO", "NHWC"), "TWO": {"feature_group_count": 2}}


def peers(expression):
    code = compile(expression, "<expression>", "eval")
    names = [n for n in code.co_names if n in ROOM]
    ours = lambda *xs: eval(code, {"lax": fx.lax, **WORDS, **dict(zip(names, xs))})
    theirs = lambda *xs: eval(code, {"lax": jax.lax, **WORDS, **dict(zip(names, xs))})
    return ours, theirs, [ROOM[n] for n in names]


def leaves(found):
    return [np.asarray(x) for x in (found if isinstance(found, tuple | list) else [found])]


@pytest.mark.parametrize("expression", EXPRESSIONS)
@pytest.mark.filterwarnings("ignore:.*")
def test_values_and_slopes(expression):
    ours, theirs, arrays = peers(expression)
    with jax.enable_x64(True):
        want = leaves(theirs(*map(jax.numpy.asarray, arrays)))
        given = list(map(fx.asarray, arrays))
        for way in (ours, fx.jit(ours)):
            for got, w in zip(leaves(way(*given)), want, strict=True):
                assert got.dtype == w.dtype and got.shape == w.shape
                np.testing.assert_allclose(got, w, rtol=1e-9, atol=1e-9)
        wide = [i for i, a in enumerate(arrays) if a.dtype == np.float64]
        skipped = (
            "cbrt",
            "nextafter",
            "dynamic_update",
            "conv_general",
            "complex",
            "fft",
            "igamma_grad",
            "betainc",
            "zeta",
            "bitcast",
            "reduce_precision",
        )
        if not wide or want[0].dtype != np.float64 or any(s in expression for s in skipped):
            return
        i, weights = wide[0], np.cos(np.arange(want[0].size)).reshape(want[0].shape)
        first = lambda f, np_like: lambda x: (
            (lambda y: y[0] if isinstance(y, tuple | list) else y)(
                f(*[np_like(a) if k != i else x for k, a in enumerate(arrays)])
            ) * np_like(weights)
        ).sum()  # fmt: skip
        got = fx.grad(first(ours, fx.asarray))(given[i]).numpy()
        w = jax.grad(first(theirs, jax.numpy.asarray))(jax.numpy.asarray(arrays[i]))
        np.testing.assert_allclose(got, w, rtol=1e-6, atol=1e-9)


# what the suite has XLA compile with elsewhere makes a NaN infinite where no mantissa is left
FUSED = {"xla_cpu_use_fusion_emitters": True}


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize(
    "bits", [(5, 10), (8, 7), (4, 3), (5, 2), (8, 23), (3, 0), (11, 52), (1, 4)]
)
def test_reduced_precision(dtype, bits):
    """Of ordinary numbers, of the ends of formats, of ties, of what is no number."""
    dtype = fx.dtypes.as_dtype(dtype)
    values = [1.0, -1.5, 0.0, -0.0, np.inf, -np.inf, np.nan, 65504.0, 65519.0, 65520.0, 1e-8, 6e-5]
    x = np.concatenate([values, rng.normal(size=200) * 2.0 ** rng.integers(-20, 20, 200)])
    with jax.enable_x64(True), np.errstate(all="ignore"):
        x = np.concatenate([x, np.arange(64) / 32 + 1]).astype(dtype)
        rounded = lambda x: jax.lax.reduce_precision(x, *bits)
        want = np.asarray(jax.jit(rounded, compiler_options=FUSED)(jax.numpy.asarray(x)))
    f = lambda x: fx.lax.reduce_precision(x, *bits)
    for got in (f(fx.asarray(x)), fx.jit(f)(fx.asarray(x))):
        assert got.dtype == dtype
        got = np.asarray(got.astype(fx.float64))
        np.testing.assert_array_equal(got, want.astype("float64"))
        np.testing.assert_array_equal(np.signbit(got[:6]), np.signbit(want.astype("float64")[:6]))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32"])
def test_upper_halves_of_products(dtype):
    limits = np.iinfo(dtype)
    x, y = rng.integers(limits.min, limits.max, (2, 50), dtype, endpoint=True)
    want = (x.astype(object) * y.astype(object)) >> limits.bits
    got = fx.lax.mulhi(fx.asarray(x), fx.asarray(y))
    assert got.dtype == x.dtype
    np.testing.assert_array_equal(got.numpy(), want.astype(dtype))


def test_numbers_drawn_between():
    fx.manual_seed(0)
    x = fx.lax.rng_uniform(2.0, 3.0, (1000,)).numpy()
    assert x.min() >= 2.0 and x.max() < 3.0 and abs(x.mean() - 2.5) < 0.05
    k = fx.lax.rng_uniform(fx.tensor(3), fx.tensor(6), (100,))
    assert {*k.tolist()} == {3, 4, 5} and k.dtype == fx.int64
    assert fx.lax.dtype(x) == fx.float32 and fx.lax.dtype(1) == fx.int64


def test_the_smallest_are_no_largest_of_negatives():
    """NaN comes last; the negatives of unsigned numbers have another order."""
    values, places = fx.lax.approx_min_k(fx.tensor([3.0, fx.nan, 1.0, 2.0]), 3)
    assert values.tolist() == [1.0, 2.0, 3.0] and places.tolist() == [2, 3, 0]
    values, places = fx.lax.approx_min_k(fx.tensor([3, 0, 1], dtype=fx.uint8), 2)
    assert values.tolist() == [0, 1] and places.tolist() == [1, 2]


def test_infinities_of_another_group_stay_there():
    w = fx.tensor([[[float("inf")]], [[2.0]]])
    got = fx.lax.ragged_dot(fx.ones((2, 1)), w, fx.tensor([1, 1]))
    assert got.tolist() == [[float("inf")], [2.0]]


def test_what_is_missing_says_so():
    with pytest.raises(AttributeError, match=r"dir\(fx.lax\) lists what there is"):
        fx.lax.scaled_dots
    with pytest.raises(TypeError, match=r"write x.astype\(fx.complex64\)"):
        fx.lax.bitcast_convert_type(fx.ones(2), fx.complex64)
    with pytest.raises(ValueError, match="2 numbers of int32 along the last axis"):
        fx.lax.bitcast_convert_type(fx.ones(3, dtype=fx.int32), fx.float64)
    with pytest.raises(TypeError, match="mulhi takes integers"):
        fx.lax.mulhi(1.0, 2.0)
    with pytest.raises(TypeError, match="int32 and int64 differ"):
        fx.lax.mulhi(fx.ones(2, dtype=fx.int32), fx.ones(2, dtype=fx.int64))
    with pytest.raises(ValueError, match="AWAY_FROM_ZERO or TO_NEAREST_EVEN"):
        fx.lax.round(fx.ones(2), "up")
    with pytest.raises(ValueError, match="exponent_bits is an int from 1 on"):
        fx.lax.reduce_precision(fx.ones(2), 0, 3)
    with pytest.raises(TypeError, match="floats or integers of one dtype"):
        fx.lax.rng_uniform(1, 2.0, (3,))
    with pytest.raises(ValueError, match="cut rhs and group_sizes before"):
        fx.lax.ragged_dot(fx.ones((2, 3)), fx.ones((1, 3, 4)), fx.tensor([2]), group_offset=1)
    with pytest.raises(ValueError, match=r"\(m, k\), \(groups, k, n\)"):
        fx.lax.ragged_dot(fx.ones((2, 3)), fx.ones((1, 2, 4)), fx.tensor([2]))
    with pytest.raises(ValueError, match="a number for each of the 1 spatial axes"):
        fx.lax.conv_general_dilated_patches(fx.ones((1, 1, 4)), (2, 2), (1, 1), "VALID")
    with pytest.raises(ValueError, match=r"the kernels are \(out, 2, 2\)"):
        fx.lax.conv_general_dilated_local(
            fx.ones((1, 1, 3)), fx.ones((1, 3, 2)), (1,), "VALID", (2,)
        )
    with pytest.raises(ValueError, match="nothing is left of axis 0"):
        fx.lax.pad(fx.ones(3), 0.0, [(-2, -2, 0)])
    with pytest.raises(ValueError, match="SAME"):
        fx.lax.conv(fx.ones((1, 1, 3)), fx.ones((1, 1, 2)), (1,), "HALF")
    with pytest.raises(ValueError, match="slice of 9 elements"):
        fx.lax.dynamic_slice(fx.ones(3), (0,), (9,))
