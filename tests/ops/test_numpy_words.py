"""NumPy's names of bytes, bits, questions, text and windows, against NumPy."""

import numpy as np
import pytest

import fx

rng = np.random.default_rng(0)


def test_bytes(tmp_path):
    for dtype in ("float64", "float32", "int16", "uint8", "complex64"):
        x = (rng.normal(size=6) * 50).astype(dtype)
        got = fx.frombuffer(x.tobytes(), dtype=x.dtype)
        assert got.dtype == x.dtype
        np.testing.assert_array_equal(got.numpy(), x)
        part = fx.frombuffer(x.tobytes(), x.dtype, 2, 2 * x.itemsize)
        np.testing.assert_array_equal(part.numpy(), x[2:4])
        x.tofile(tmp_path / "x")
        np.testing.assert_array_equal(fx.fromfile(tmp_path / "x", x.dtype).numpy(), x)
    x = np.arange(3.0)
    got = fx.frombuffer(memory := bytearray(x.tobytes()))
    assert got.dtype == fx.float64
    memory[:] = bytes(24)
    np.testing.assert_array_equal(got.numpy(), x)  # memory of its own
    x.tofile(tmp_path / "t", sep=",")
    np.testing.assert_array_equal(fx.fromfile(tmp_path / "t", sep=",").numpy(), x)
    np.testing.assert_array_equal(fx.fromstring("1, 2,3", sep=",").numpy(), [1.0, 2.0, 3.0])
    np.testing.assert_array_equal(fx.fromiter(range(5), int, 3).numpy(), [0, 1, 2])
    with pytest.raises(ValueError, match=r"fx\.frombuffer"):
        fx.fromstring("12", sep="")
    with pytest.raises(ValueError, match="not all of the text is numbers"):
        fx.fromstring("1 x", sep=" ")
    with pytest.raises(ValueError):
        fx.frombuffer(b"123", dtype=fx.int16)


@pytest.mark.parametrize("bitorder", ["big", "little"])
@pytest.mark.parametrize("axis", [None, 0, 1, -1])
def test_bits(axis, bitorder):
    for shape in ((3, 11), (8, 16), (1, 1), (0, 3)):
        x = rng.integers(0, 3, shape)
        f = lambda x: fx.packbits(x, axis, bitorder)
        for a in (x, x > 0):
            want = np.packbits(a, axis, bitorder)
            for got in (f(fx.asarray(a)), fx.jit(f)(fx.asarray(a))):
                assert got.dtype == fx.uint8
                np.testing.assert_array_equal(got.numpy(), want)
        y = rng.integers(0, 256, shape).astype("uint8")
        # of no bytes NumPy gives bits that nobody wrote
        for count in (None, 5, -3, 0, 100) if y.size else (None,):
            g = lambda y, count=count: fx.unpackbits(y, axis, count, bitorder)
            want = np.unpackbits(y, axis=axis, count=count, bitorder=bitorder)
            for got in (g(fx.asarray(y)), fx.jit(g)(fx.asarray(y))):
                assert got.dtype == fx.uint8
                np.testing.assert_array_equal(got.numpy(), want)
    y = rng.integers(0, 2, (3, 9))
    lanes = fx.vmap(lambda x: fx.packbits(x, None, bitorder))(fx.asarray(y))
    np.testing.assert_array_equal(lanes.numpy(), np.packbits(y, 1, bitorder))
    with pytest.raises(TypeError, match="write x != 0"):
        fx.packbits(fx.ones(3))
    with pytest.raises(TypeError, match="takes uint8"):
        fx.unpackbits(fx.tensor([1]))
    with pytest.raises(ValueError, match="'big' or 'little'"):
        fx.packbits(fx.tensor([1]), bitorder="middle")


def test_questions():
    for a, b in (([1, 2], [[1, 2], [1, 2]]), ([1, 2], [1, 3]), ([1, 2], [1, 2, 3]), ([], [1])):
        a, b = np.array(a, float), np.array(b, float)
        assert bool(fx.array_equiv(fx.asarray(a), fx.asarray(b))) == np.array_equiv(a, b)
    kinds = (np.generic, np.number, np.inexact, np.floating, np.integer, np.signedinteger,
             np.unsignedinteger, np.complexfloating, np.bool_, np.float16)  # fmt: skip
    known = [d for d in fx.dtypes.ALL if d != fx.bfloat16]
    for a in known:
        for b in (*kinds, *known):
            assert fx.issubdtype(a, b) == np.issubdtype(a, b), (a, b)
        if a != fx.uint64:
            assert fx.promote_types(a, fx.int32) == fx.result_type(a, fx.int32)
    kinds_of = [k for k in kinds if fx.issubdtype(fx.bfloat16, k)]
    assert kinds_of == [np.generic, np.number, np.inexact, np.floating]
    assert fx.issubdtype(np.floating, np.inexact) and not fx.issubdtype(fx.bfloat16, fx.float16)
    for y in ([1], 1, "a", None):
        assert fx.iterable(y) == np.iterable(y)
    assert fx.iterable(fx.ones(2)) and not fx.iterable(fx.tensor(1.0))


def test_text():
    x = fx.tensor([[0.12345, 1e-7]])
    assert fx.array_repr(x) == repr(x)
    assert fx.array_str(x, precision=2, suppress_small=True) == np.array_str(
        x.numpy(), precision=2, suppress_small=True
    )
    before = fx.get_printoptions()
    assert fx.array_repr(x, precision=2, suppress_small=True) == "tensor([[0.12, 0.00]])"
    assert fx.get_printoptions() == before


def test_paths():
    x, y, z = (rng.normal(size=s) for s in ((2, 3), (3, 4), (4, 2)))
    for optimize in ("greedy", "optimal", False):
        want = np.einsum_path("ij,jk,kl->il", x, y, z, optimize=optimize)
        got = fx.einsum_path("ij,jk,kl->il", *map(fx.asarray, (x, y, z)), optimize=optimize)
        assert got == (list(want[0]), want[1])
    fx.jit(lambda a: a * len(fx.einsum_path("ij,jk->ik", a, a)[0]))(fx.ones((2, 2)))


def test_functions_of_numbers():
    f = fx.frompyfunc(lambda a, b: (a + b, a * b), 2, 2)
    x, y = rng.normal(size=(3, 1)), rng.normal(size=4)
    for got, want in zip(f(fx.asarray(x), fx.asarray(y)), (x + y, x * y), strict=True):
        np.testing.assert_allclose(got.numpy(), want)
    with pytest.raises(ValueError, match="nin=2, got 1"):
        f(fx.ones(1))
    with pytest.raises(ValueError, match="nout=1, but 2 came back"):
        fx.frompyfunc(lambda a: (a, a), 1, 1)(fx.ones(1))


def test_files(tmp_path):
    x, y = fx.ones((2, 3)), fx.arange(3)
    fx.savez(tmp_path / "x.npz", x, named=y)
    with np.load(tmp_path / "x.npz") as found:
        assert sorted(found) == ["arr_0", "named"]
        np.testing.assert_array_equal(found["named"], y.numpy())
    with pytest.raises(ValueError, match="arr_0 stands for two"):
        fx.savez(tmp_path / "x.npz", x, arr_0=y)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_distances_of_numbers(dtype):
    info = np.finfo(dtype)
    x = np.array([1.0, -1.0, 0.0, -0.0, 3.7, info.tiny, -info.tiny / 4, np.inf, -np.inf, np.nan])
    x = np.concatenate([x, rng.normal(size=20) * 100]).astype(dtype)
    want = np.spacing(x)
    want[2:4] = want[2], -want[2]  # of -0.0 JAX's and ours have its sign
    for way in (fx.spacing, fx.jit(fx.spacing)):
        np.testing.assert_array_equal(way(fx.asarray(x)).numpy(), want)


def test_products():
    jnp = pytest.importorskip("jax.numpy")
    a, v = rng.normal(size=(2, 3, 4)) + 1j, rng.normal(size=(2, 4)) + 2j
    w = rng.normal(size=3) + 3j
    np.testing.assert_allclose(fx.matvec(fx.asarray(a), fx.asarray(v)).numpy(),
                               np.einsum("bij,bj->bi", a, v))  # fmt: skip
    got = fx.vecmat(fx.asarray(w), fx.asarray(a)).numpy()
    np.testing.assert_allclose(got, np.einsum("i,bij->bj", w.conj(), a))
    np.testing.assert_allclose(got, jnp.vecmat(w, a), rtol=1e-5)


@pytest.mark.parametrize("name", ["bartlett", "blackman", "hamming", "hanning"])
def test_windows(name):
    for m in (0, 1, 2, 5, 12):
        got = getattr(fx, name)(m)
        assert got.dtype == fx.float32
        np.testing.assert_allclose(got.numpy(), getattr(np, name)(m), atol=1e-6)


def test_kaiser():
    for m in (0, 1, 2, 7, 12):
        for beta in (0.0, 1.5, 14.0, -3.0):
            got = fx.kaiser(m, fx.tensor(beta, dtype=fx.float64))
            np.testing.assert_allclose(got.numpy(), np.kaiser(m, beta), rtol=1e-6, atol=1e-12)
    assert fx.isfinite(fx.kaiser(9, 800.0)).all()
    slope = fx.grad(lambda b: fx.kaiser(7, b)[1])(fx.tensor(2.0, dtype=fx.float64))
    step = (np.kaiser(7, 2.0 + 1e-5)[1] - np.kaiser(7, 2.0 - 1e-5)[1]) / 2e-5
    np.testing.assert_allclose(slope.item(), step, rtol=1e-4)
    np.testing.assert_allclose(fx.i0(fx.tensor([0.5, 3.0])).numpy(), np.i0([0.5, 3.0]), rtol=1e-6)
