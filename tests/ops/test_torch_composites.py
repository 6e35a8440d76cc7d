"""Functions in PyTorch's names that are made of others: gradients, ``vmap`` and ``jit``.

Their values are compared with torch in ``tests/torch``.
"""

import itertools
import math

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import fx
import fx.torch
from fx.errors import DTypeError, ShapeError
from tests.nn.oracle import arrays, check

X, Y, S, V = arrays((3, 4), (3, 4), (3, 3), (5,), seed=4)
P = np.abs(Y) + 0.5

# each takes the library's functions and its tensors
DIFFERENTIABLE = {
    "addbmm": (lambda t, a, b: t.addbmm(a[:, :1] * b[:, 0], a[None], b.mT[None], alpha=2), (X, Y)),
    "addr": (lambda t, a, b: t.addr(a, b[:, 0], b[0], beta=2), (X, Y)),
    "angle": (lambda t, a: t.angle(a), (X,)),
    "as_strided": (lambda t, a: t.as_strided(a, (2, 3), (4, 1), 1), (X,)),
    "block_diag": (lambda t, a, b: t.block_diag(a, b), (X, S)),
    "cartesian_prod": (lambda t, a, b: t.cartesian_prod(a, b), (V, V + 1)),
    "chain_matmul": (lambda t, a, b: t.linalg.multi_dot([a, b.mT, a]), (X, Y)),
    "column_stack": (lambda t, a, b: t.column_stack([a, b]), (X, S)),
    "corrcoef": (lambda t, a: t.corrcoef(a), (X,)),
    "cov": (lambda t, a, w: t.cov(a, aweights=w[0]), (X, P)),
    "cumulative_trapezoid": (lambda t, a: t.cumulative_trapezoid(a), (X,)),
    "deg2rad": (lambda t, a: t.deg2rad(a), (X,)),
    "diag_embed": (lambda t, a: t.diag_embed(a, 1, 0, 2), (X,)),
    "diagonal_scatter": (lambda t, a, b: t.diagonal_scatter(a, b[:, 0], 1), (X, Y)),
    "fmax": (lambda t, a, b: t.fmax(a, b), (X, Y)),
    "gradient": (lambda t, a: t.gradient(a, dim=1)[0], (X,)),
    "hardshrink": (lambda t, a: t.hardshrink(a, 0.3), (X,)),
    "index_reduce": (
        lambda t, a, b: t.index_reduce(a, 1, t.tensor([0, 2]), b[:, :2], "mean"),
        (X, Y),
    ),
    "ldexp": (lambda t, a: t.ldexp(a, t.tensor(2)), (X,)),
    "logaddexp2": (lambda t, a, b: t.logaddexp2(a, b), (X, Y)),
    "matrix_power": (lambda t, a: t.matrix_power(a, 5), (S,)),
    "mvlgamma": (lambda t, a: t.mvlgamma(a + 2, 2), (P,)),
    "nanmedian": (lambda t, a: t.nanmedian(a, 1)[0], (X,)),
    "nanquantile": (lambda t, a: t.nanquantile(a, 0.3, 1), (X,)),
    "renorm": (lambda t, a: t.renorm(a, 2, 0, 1.0), (X,)),
    "select_scatter": (lambda t, a, b: t.select_scatter(a, b[0], 0, 1), (X, Y)),
    "sinc": (lambda t, a: t.sinc(a), (X,)),
    "slice_scatter": (lambda t, a, b: t.slice_scatter(a, b[:, :2], 1, 1, 3), (X, Y)),
    "trapezoid": (lambda t, a, b: t.trapezoid(a, b.cumsum(1)), (X, P)),
}
OTHERS = {  # integers, and what torch cannot differentiate
    "vander": (lambda t, a: t.vander(a, 3), (V,)),
    "gcd": (
        lambda t, a, b: t.gcd(a, b),
        (np.array([[12, 0], [7, -9]]), np.array([[8, 5], [7, 6]])),
    ),
    "lcm": (
        lambda t, a, b: t.lcm(a, b),
        (np.array([[12, 0], [7, -9]]), np.array([[8, 5], [7, 6]])),
    ),
    "unravel_index": (lambda t, a: t.stack(t.unravel_index(a, (3, 4))), (np.array([[5], [7]]),)),
}
CASES = DIFFERENTIABLE | OTHERS


def test_choices_and_triangles_of_every_size():
    for n, r, again in itertools.product((0, 1, 2, 6), (0, 1, 2, 3, 4), (False, True)):
        found, wanted = (
            t.combinations(t.arange(n) * 2, r, again).numpy() for t in (fx.torch, torch)
        )
        np.testing.assert_array_equal(found, wanted)
    for n, m, k in itertools.product((0, 1, 4), (0, 1, 3, 6), range(-7, 8)):
        for name in ("tril_indices", "triu_indices"):
            found, wanted = (getattr(t, name)(n, m, k).numpy() for t in (fx.torch, torch))
            np.testing.assert_array_equal(found, wanted)
    with pytest.raises(ShapeError, match="r must not be negative, got -1"):
        fx.torch.combinations(fx.ones(3), -1)


def test_diagonals_and_powers_of_every_size():
    for shape, k in itertools.product(((0,), (1,), (4,), (2, 3), (2, 0), (0, 3)), range(-3, 4)):
        x = np.random.default_rng(0).normal(size=shape)
        found, wanted = (t.diag_embed(t.tensor(x), k).numpy() for t in (fx.torch, torch))
        np.testing.assert_array_equal(found, wanted)
    x = np.array([0.0, -0.0, 1.0, -2.0, 3.0, np.inf, -np.inf, np.nan])
    for n, increasing, dtype in itertools.product((0, 1, 2, 9), (False, True), ("f", "d", "l")):
        of = x[: 5 if dtype == "l" else 8].astype(dtype)
        found, wanted = (t.vander(t.tensor(of), n, increasing).numpy() for t in (fx.torch, torch))
        np.testing.assert_allclose(found, wanted, rtol=1e-6)


def test_nansum_and_frexp_where_there_is_nan():
    x = np.random.default_rng(0).normal(size=(7, 90, 5)).astype("f")
    x[0, :9], x[1], x[2, 3] = np.inf, np.nan, -np.inf
    for axis in (None, 0, 1, 2, (0, 1), (0, 2), (1, 2)):
        found, wanted = (t.nansum(t.tensor(x), axis).numpy() for t in (fx.torch, torch))
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)
    (m, e), (a, b) = (t.frexp(t.tensor(x)) for t in (fx.torch, torch))
    np.testing.assert_array_equal(m.numpy(), a.numpy())
    np.testing.assert_array_equal(e.numpy()[np.isfinite(x)], b.numpy()[np.isfinite(x)])


@pytest.mark.parametrize("shape", [(5,), (4, 6), (3, 4, 5), (0, 3), (1, 1)])
def test_rolls_and_their_cotangents(shape):
    rng = np.random.default_rng(0)
    x, ct = rng.normal(size=shape), rng.normal(size=shape)
    ways = [a for r in (1, 2, 3) for a in itertools.permutations(range(len(shape)), r)]
    for axes in [*ways, (0, 0)]:
        steps = tuple([int(n) for n in rng.integers(-9, 9, len(axes))])
        leaf = fx.tensor(x, requires_grad=True)
        found = fx.roll(leaf, steps, axes)
        np.testing.assert_array_equal(found.detach().numpy(), np.roll(x, steps, axes))
        (found * fx.tensor(ct)).sum().backward()
        back = np.roll(ct, [-n for n in steps], axes)
        np.testing.assert_array_equal(leaf.grad.numpy(), back)
        f = lambda x, steps=steps, axes=axes: (fx.roll(x, steps, axes) * fx.tensor(ct)).sum()
        np.testing.assert_array_equal(fx.jit(fx.grad(f))(fx.tensor(x)).numpy(), back)


def test_the_slope_of_a_mantissa_is_the_power_of_two():
    x = fx.tensor([1.5, -0.3, 0.0, 8.0, -1e30, fx.inf, fx.nan])
    ct = fx.arange(1.0, 8.0)
    f = lambda x: (fx.frexp(x)[0] * ct).sum()
    leaf = fx.tensor(x, requires_grad=True)
    f(leaf).backward()
    np.testing.assert_array_equal(leaf.grad.numpy()[:4], [0.5, 4.0, 3.0, 0.25])
    np.testing.assert_array_equal(leaf.grad.numpy(), fx.grad(f)(x).numpy())


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_gradient(name):
    function, inputs = DIFFERENTIABLE[name]
    check(lambda *xs: function(fx.torch, *xs), lambda *xs: function(torch, *xs), *inputs)


@pytest.mark.parametrize("name", CASES)
def test_vmap_and_jit(name):
    function, inputs = CASES[name]

    def call(*xs):
        return function(fx.torch, *xs)

    lanes = [fx.tensor(np.stack([a, a[::-1] * 1])) for a in inputs]
    # a lane is in memory of its own, through which as_strided counts
    expected = np.stack([call(*[x[i].clone() for x in lanes]).numpy() for i in range(2)])
    for got in (fx.vmap(call)(*lanes), fx.jit(fx.vmap(call))(*lanes)):
        np.testing.assert_allclose(got.numpy(), expected, rtol=1e-10, atol=1e-12)


def test_at_zero_and_at_jumps_gradients_are_finite():
    for function in (fx.torch.sinc, fx.torch.sgn, fx.torch.angle):
        x = fx.tensor([0.0, 1.0], requires_grad=True)
        function(x).sum().backward()
        assert bool(fx.isfinite(x.grad).all()), function


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda t: t.bincount(t.ones(2)), DTypeError, r"bincount takes integers, got float32\[2\]"),
        (lambda t: t.bincount(t.tensor([-1])), ShapeError, "negative"),
        (lambda t: t.bincount(t.tensor([[1]])), ShapeError, r"write x.reshape\(-1\)"),
        (lambda t: t.gcd(t.ones(2), 2), DTypeError, "gcd takes integers, got float32"),
        (lambda t: t.hsplit(t.ones(2, 3), 2), ShapeError, r"write fx.tensor_split\(x, 2, 1\)"),
        (lambda t: t.vsplit(t.ones(2), 2), ShapeError, "at least 2 axes"),
        (
            lambda t: t.matrix_power(t.ones(2, 3), 2),
            ShapeError,
            r"square matrices, got shape \(2, 3\)",
        ),
        (lambda t: t.block_diag(t.ones(1, 1, 1)), ShapeError, r"got shape \(1, 1, 1\)"),
        (lambda t: t.view_as_complex(t.ones(3)), ShapeError, "size 2, got shape"),
        (lambda t: t.complex(t.ones(1), t.ones(1).double()), DTypeError, "float32 and float64"),
        (lambda t: t.diag_embed(t.ones(2), 0, 0, 0), ShapeError, "both 0"),
        (lambda t: t.combinations(t.ones(2, 2)), ShapeError, r"write x.reshape\(-1\)"),
        (lambda t: t.is_nonzero(t.ones(2)), RuntimeError, "one element"),
        (lambda t: t.histc(t.tensor([1.0, math.nan])), ShapeError, "min=nan, max=nan; choose"),
        (lambda t: t.histc(t.tensor([1.0, math.inf])), ShapeError, "min=1.0, max=inf; choose"),
        (lambda t: t.histc(t.ones(2), 4, 3, 1), ShapeError, "min=3, max=1; choose"),
        (lambda t: t.Tensor(2).cuda(), RuntimeError, "torch.cuda.is_available"),
    ],
)
def test_messages(call, error, words):
    with pytest.raises(error, match=words):
        call(fx.torch)
