"""Fused primitives are their references: values and derivatives, by kernels of both kinds."""

import numpy as np
import pytest

import fx
from fx.nn.functional import loss
from fx.ops.products import matrices
from fx.ops.shapes import padding
from fx.prims import activations, lengths, linear, losses, norms, reduction

ROWS, N = 40, 33  # compiled kernels
SMALL = 3, 5  # the reference


def numbers(*shape, seed=0, dtype="float64"):
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)


def classes(rows, n):
    y = np.random.default_rng(9).integers(0, n, rows)
    y[1] = -100
    return y


def case(name, rows, n):
    """The primitive, its arguments, how many of them have a derivative, and parameters."""
    x = numbers(rows, n)
    if hasattr(activations, name):
        return getattr(activations, name), [x], 1, {}
    if name == "linear":
        return linear.linear, [x, numbers(7, n, seed=1), numbers(7, seed=2)], 3, {}
    if name == "layer_norm":
        weights = [numbers(n, seed=1), numbers(n, seed=2)]
        return norms.layer_norm, [x, *weights], 3, {"eps": 1e-3}
    if name == "normalised":
        x = numbers(rows, 3, n)
        vectors = [numbers(3, seed=i) for i in range(1, 5)]
        vectors[3] = vectors[3] ** 2 + 0.5
        return norms._by_statistics, [x, *vectors], 5, {"eps": 1e-3}
    if name.startswith("batch_norm"):
        x = x if name.endswith("1") else numbers(rows, 3, n)
        weights = [numbers(x.shape[1], seed=1), numbers(x.shape[1], seed=2)]
        moments = [a.numpy() for a in norms.moments.reference(fx.asarray(x))]
        return norms.batch_norm, [x, *weights, *moments], 3, {"eps": 1e-3}
    if name.startswith("cross_entropy"):
        how = {"ignore_index": -100, "reduction": name.split()[1]}
        return losses.cross_entropy, [x, classes(rows, n)], 1, how
    if name.startswith("nll"):
        _, what, way = name.split()
        how = {"axis": 1, "ignore_index": -100, "reduction": way}
        if what == "deep":
            y = np.stack([classes(rows, n), classes(rows, n)[::-1]], 1)
            return losses.nll, [numbers(rows, n, 2), y], 1, how
        weight = [np.abs(numbers(n, seed=4))] if what == "weighted" else []
        return losses.nll, [x, classes(rows, n), *weight], 1, how
    if name in SPREADS:
        return SPREADS[name], [x], 1, {"axes": (1,), "keepdims": False, "freedom": n - 1.0}
    if name == "binary_cross_entropy":
        p, y = (1 / (1 + np.exp(-numbers(rows, n, seed=i))) for i in (1, 2))
        return loss._bce, [p, y], 2, {}
    if name == "diagonal":
        place = {"offset": -1, "axis1": -1, "axis2": 0}
        return matrices._diagonal, [numbers(rows, 2, n)], 1, place
    if name == "unfold":
        return padding._windows, [numbers(rows, n, 2)], 1, {"axis": 1, "size": 3, "step": 2}
    return getattr(reduction, name), [numbers(rows, n, seed=3), x], 2, {"axis": 1}


SPREADS = {"variance": norms.variance, "deviation": lengths.deviation}


NAMES = [
    "gelu", "gelu_tanh", "silu", "linear", "layer_norm", "softmax_grad", "log_softmax_grad",
    "batch_norm 1", "batch_norm 2", "normalised", "cross_entropy mean", "cross_entropy sum",
    "cross_entropy none", "nll plain mean", "nll weighted mean", "nll deep sum",
    "nll weighted none", "variance", "deviation", "binary_cross_entropy", "diagonal", "unfold",
]  # fmt: skip


@pytest.fixture(params=[(ROWS, N), SMALL], ids=["compiled", "small"])
def size(request):
    return request.param


def weighed(function, args, count, params):
    """A number from the results, as a function of the arguments with a derivative."""
    rest = [fx.asarray(a) for a in args[count:]]

    def f(*xs):
        out = function(*xs, *rest, **params)
        weights = fx.asarray(numbers(*out.shape, seed=5).astype(args[0].dtype))
        return (out * (out + weights)).sum()  # of no linear function of its arguments

    return f, [fx.asarray(a) for a in args[:count]]


def check(got, want, tolerance):
    for a, b in zip(fx.tree.leaves(got), fx.tree.leaves(want), strict=True):
        assert a.shape == b.shape and a.dtype == b.dtype
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
def test_values(name, dtype, size):
    primitive, args, _, params = case(name, *size)
    xs = [fx.asarray(a) for a in args]
    xs = [x.astype(dtype) if x.dtype == fx.float64 else x for x in xs]
    tolerance = {"float32": 2e-5, "float64": 1e-12, "bfloat16": 3e-2}[dtype]
    got, want = primitive(*xs, **params), primitive.reference(*xs, **params)
    assert got.dtype == want.dtype
    check(got.astype("float64"), want.astype("float64"), tolerance)


@pytest.mark.parametrize("name", NAMES)
def test_derivatives(name, size):
    primitive, args, count, params = case(name, *size)
    f, xs = weighed(primitive, args, count, params)
    g, _ = weighed(primitive.reference, args, count, params)
    numbers_of = tuple(range(count))
    check(fx.grad(f, numbers_of)(*xs), fx.grad(g, numbers_of)(*xs), 1e-11)
    twice = lambda h: fx.grad(lambda *a: (fx.grad(h)(*a) ** 2).sum(), numbers_of)
    check(twice(f)(*xs), twice(g)(*xs), 1e-10)
    leaves = [x.detach().requires_grad_() for x in xs]
    value = f(*leaves)
    first = fx.autograd.grad(value, leaves, create_graph=True)
    check([a.detach() for a in first], list(fx.grad(g, numbers_of)(*xs)), 1e-11)
    (first[0] ** 2).sum().backward()
    seconds = [fx.zeros_like(x) if x.grad is None else x.grad for x in leaves]
    check(seconds, list(twice(g)(*xs)), 1e-10)


@pytest.mark.parametrize("name", NAMES)
def test_other_transforms_see_the_reference(name):
    primitive, args, count, params = case(name, *SMALL)
    f, xs = weighed(primitive, args, count, params)
    g, _ = weighed(primitive.reference, args, count, params)
    check(fx.jvp(f, tuple(xs), tuple(xs)), fx.jvp(g, tuple(xs), tuple(xs)), 1e-12)
    check(fx.jit(fx.grad(f))(*xs), fx.grad(g)(*xs), 1e-11)
    lanes = [fx.stack([x, x * 0.5]) for x in xs]
    check(fx.vmap(fx.grad(f))(*lanes), fx.vmap(fx.grad(g))(*lanes), 1e-11)
    names = [node.primitive.name for node in fx.make_graph(f)(*xs).nodes]
    assert primitive.name not in names


def test_a_class_outside(size):
    rows, n = size
    x, y = fx.asarray(numbers(rows, n)), classes(rows, n)
    for wrong in (n, -1):
        y[2] = wrong
        with pytest.raises(IndexError):
            losses.cross_entropy(x, fx.asarray(y), ignore_index=-100, reduction="mean")
        with pytest.raises(IndexError):
            losses.nll(x, fx.asarray(y), axis=1, ignore_index=-100, reduction="mean")


def test_diagonals_and_windows_are_views():
    x = fx.asarray(numbers(6, 7))
    for view in (fx.diagonal(x, 2), fx.diagonal(x.mT), fx.unfold(x, 1, 3, 2)):
        assert np.shares_memory(view._a, x._a)


def test_rows_of_infinities():
    inf = np.inf
    x = np.zeros((20, 20))
    x[0], x[1, 0], x[2, :5], x[3, 0] = -inf, inf, -inf, np.nan
    for name in ("softmax", "log_softmax"):
        with np.errstate(all="ignore"):
            rest = x - x.max(1, keepdims=True)
            want = np.exp(rest) / np.exp(rest).sum(1, keepdims=True)
            if name == "log_softmax":
                want = rest - np.log(np.exp(rest).sum(1, keepdims=True))
        got = getattr(reduction, name)(fx.asarray(x), axis=1).numpy()
        np.testing.assert_allclose(got, want, rtol=1e-12)


@pytest.mark.parametrize("shape", [(90, 70), (3, 40, 50), (2, 0, 5)])
def test_large_triangles(shape):
    for dtype in ("float32", "float64", "int64"):
        x = numbers(*shape, dtype=dtype)
        x[..., -1:, :1] = np.array(np.nan if dtype != "int64" else 3)
        for k in (0, 3, -20, 60, 10**9, -(10**9)):
            np.testing.assert_array_equal(fx.tril(fx.asarray(x), k=k).numpy(), np.tril(x, k))
            np.testing.assert_array_equal(fx.triu(fx.asarray(x), k=k).numpy(), np.triu(x, k))
