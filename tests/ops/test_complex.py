"""Complex numbers: compiled as eager, in what moves them and in softmax and its like."""

import numpy as np
import pytest

import fx
import fx.nn.functional as F

RNG = np.random.default_rng(0)
DTYPES = ["complex64", "complex128"]


def numbers(*shape, dtype="complex128"):
    return (RNG.standard_normal(shape) + 4j * RNG.standard_normal(shape)).astype(dtype)


MOVES = {
    "rows": lambda z, i: z[i],
    "columns": lambda z, i: z[:, i],
    "pairs": lambda z, i: z[i, i],
    "take": lambda z, i: fx.take(z, i, axis=1),
    "take along": lambda z, i: fx.take_along_axis(z, i[:, None], axis=1),
    "mask": lambda z, i: z[fx.real(z) > 0],
    "set": lambda z, i: z.at[i].set(1j),
    "add": lambda z, i: z.at[i, 0].add(z[0, 0]),
    "joined": lambda z, i: fx.concat([z, fx.flip(z)[:, ::2]], axis=1),
    "padded": lambda z, i: fx.pad(z, ((1, 0), (0, 2))),
    "product": lambda z, i: z[i] @ z.T,
    "sums": lambda z, i: (z.sum(0) + fx.mean(z)) * fx.prod(z),
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", MOVES)
def test_what_moves_complex_numbers_is_compiled_as_it_runs(name, dtype):
    z, i = fx.asarray(numbers(3, 4, dtype=dtype)), fx.asarray(np.array([2, 0, 1]))
    eager, compiled = MOVES[name](z, i), fx.jit(MOVES[name])(z, i)
    assert eager.dtype == compiled.dtype == z.dtype
    np.testing.assert_allclose(np.asarray(compiled), np.asarray(eager), rtol=1e-5)


def softmax(x, axis):
    e = np.exp(x)
    return e / e.sum(axis, keepdims=True)


def logsumexp(x, axis):
    return np.log(np.exp(x).sum(axis))


ROWS = {
    "softmax": (lambda x, axis: fx.softmax(x, axis=axis), softmax),
    "F.softmax": (lambda x, axis: F.softmax(x, dim=axis), softmax),
    "F.softmin": (lambda x, axis: F.softmin(x, dim=axis), lambda x, axis: softmax(-x, axis)),
    "exp of log_softmax": (lambda x, axis: fx.exp(fx.log_softmax(x, axis=axis)), softmax),
    "exp of F.log_softmax": (lambda x, axis: fx.exp(F.log_softmax(x, dim=axis)), softmax),
    "logsumexp": (lambda x, axis: fx.logsumexp(x, axis=axis), logsumexp),
    "logsumexp of all": (
        lambda x, axis: fx.logsumexp(x, keepdims=True)[0, 0], lambda x, axis: logsumexp(x, None),
    ),
}  # fmt: skip


@pytest.mark.parametrize("way", [fx.jit, lambda f: f], ids=["jit", "eager"])
@pytest.mark.parametrize("name", ROWS)
def test_softmax_and_its_like_of_complex_numbers(name, way):
    z = numbers(3, 4)
    function, oracle = ROWS[name]
    for axis in (0, 1):
        got = way(lambda z, axis=axis: function(z, axis))(fx.asarray(z))
        np.testing.assert_allclose(np.asarray(got), oracle(z, axis), 1e-10)
    large = way(lambda z: function(z, 1))(fx.asarray(z + 2000))
    assert np.isfinite(np.asarray(large)).all()


@pytest.mark.parametrize("name", ROWS)
def test_derivatives_pass_through_complex_rows(name):
    x, way = RNG.standard_normal((2, 3)), numbers(2, 3)
    turn = numbers(2, 3)

    def loss(x):
        out = ROWS[name][0](x * fx.asarray(way), 1)
        return fx.sum(fx.real(out * fx.asarray(turn[0, 0]))) + fx.sum(fx.imag(out * out))

    got = np.asarray(fx.grad(loss)(fx.asarray(x)))
    eps = 1e-6
    for place in np.ndindex(x.shape):
        step = np.zeros_like(x)
        step[place] = eps
        ends = [float(loss(fx.asarray(x + s))) for s in (step, -step)]
        np.testing.assert_allclose(got[place], (ends[0] - ends[1]) / (2 * eps), 1e-5, 1e-6)
