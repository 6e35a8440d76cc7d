"""Sums of float32 are as exact as the peers': at most twice PyTorch's error, and one ulp.

Each function that adds many numbers up runs along several axes of arrays of several sizes, on
data that is hard in several ways, eagerly and compiled, forward and back. The truth is float64. A
partial sum that is lost, an accumulator that grows too long, a mean whose rounding spoils a
variance: each is an error of hundreds of ulp, and more on longer arrays.
"""

import math

import numpy as np
import pytest
import torch

import fx
import fx.torch as ft

rng = np.random.default_rng


def constant(n):
    return np.full(n, 0.1)


def normal(n):
    return rng(n).standard_normal(n)


def large_mean(n):
    return rng(n).standard_normal(n) + 1e4


def alternating(n):
    return np.where(np.arange(n) % 2, -1.0, 1.0) * rng(n).random(n)


def decades(n):
    return 10.0 ** rng(n).uniform(-3, 3, n)


KINDS = [constant, normal, large_mean, alternating, decades]


def shapes(n):
    """Some shapes of about ``n`` elements, and the axes along which most of them lie."""
    if n < 10_000:
        yield (n,), (0,)
        yield (n // 4, 4), (0,)
        yield (3, n // 60, 20), (1,)
    else:
        yield (n // 300, 300), (0,)
        yield (n // 4, 4), (0,)
        yield (4, n // 4), (1,)
    if n < 1_000_000:
        yield (n // 100, 4, 25), (0, 2)


def along_one(f):
    """A function of one axis, where the axes are one."""
    return lambda t, x, axes: f(t, x, axes[0]) if len(axes) == 1 else None


def rows(f):
    """A function of the last axis, where that is the one."""
    return lambda t, x, axes: f(t, x) if axes == (x.ndim - 1,) else None


def channels(f):
    """A function of arrays (batch, channels, positions), statistics over all but the channels."""
    return lambda t, x, axes: f(t, x) if axes == (0, 2) else None


SUMS = {
    "sum": lambda t, x, axes: t.sum(x, axes),
    "mean": lambda t, x, axes: t.mean(x, axes),
    "var": lambda t, x, axes: t.var(x, axes),
    "std": lambda t, x, axes: t.std(x, axes),
    "norm": lambda t, x, axes: t.linalg.vector_norm(x, dim=axes),
    "norm1": lambda t, x, axes: t.linalg.vector_norm(x, ord=1, dim=axes),
    "logsumexp": lambda t, x, axes: t.logsumexp(x, axes),
    "softmax": along_one(lambda t, x, axis: t.softmax(x, axis)),
    "log_softmax": along_one(lambda t, x, axis: t.log_softmax(x, axis)),
    "cumsum": along_one(lambda t, x, axis: t.cumsum(x, axis)),
    "cumprod": along_one(lambda t, x, axis: t.cumprod(1 + 1e-6 * t.tanh(x), axis)),
    "logcumsumexp": along_one(lambda t, x, axis: t.logcumsumexp(x, axis)),
    "dot": lambda t, x, axes: t.dot(x, x) if x.ndim == 1 else None,
    "mse_loss": lambda t, x, axes: t.nn.functional.mse_loss(x, x.detach() * 0.5),
    "l1_loss": lambda t, x, axes: t.nn.functional.l1_loss(x, x.detach() * 0.5),
    "layer_norm": rows(lambda t, x: t.nn.functional.layer_norm(x, (x.shape[-1],))),
    "rms_norm": rows(lambda t, x: t.nn.functional.rms_norm(x, (x.shape[-1],))),
    "batch_norm": channels(lambda t, x: t.nn.functional.batch_norm(x, None, None, training=True)),
    "instance_norm": channels(lambda t, x: t.nn.functional.instance_norm(x)),
    "group_norm": channels(lambda t, x: t.nn.functional.group_norm(x, 2)),
    "cross_entropy": along_one(
        lambda t, x, axis: t.nn.functional.cross_entropy(x, t.zeros(len(x), dtype=t.int64))
        if x.ndim == 2 else None
    ),
}  # fmt: skip


def errors(found, truth):
    """The largest error, and an ulp of the largest of what is right."""
    truth = np.asarray(truth, np.float64)
    gap = np.abs(np.asarray(found, np.float64) - truth)
    return float(np.max(gap)), float(np.spacing(np.float32(np.max(np.abs(truth)))))


def run(f, x, ct, axes):
    """The value and the gradient of a function of PyTorch's."""
    x = x.clone().requires_grad_()
    y = f(torch, x, axes)
    (gradient,) = torch.autograd.grad(y, x, ct.to(y.dtype))
    return y.detach().numpy(), gradient.numpy()


def compare(name, f, n, kinds):
    """Check a function on all shapes of about ``n`` elements."""
    wrong = []
    for shape, axes in shapes(n):
        eager = lambda x, ct, axes=axes: _both(f, x, ct, axes)
        compiled = fx.jit(eager)
        for kind in kinds:
            a = kind(math.prod(shape)).reshape(shape).astype(np.float32)
            x = torch.tensor(a)
            y = f(torch, x, axes)
            if y is None:
                break
            ct = torch.tensor(normal(y.numel() + 7)[7:].reshape(y.shape).astype(np.float32))
            truth = run(f, x.double(), ct.double(), axes)
            theirs = run(f, x, ct, axes)
            for way, function in ("eager", eager), ("jit", compiled):
                ours = function(fx.tensor(a), fx.tensor(ct.numpy()))
                for what, mine, peer, right in zip(WHAT, ours, theirs, truth, strict=True):
                    error, ulp = errors(mine.numpy(), right)
                    allowed = 2 * errors(peer, right)[0] + ulp * ULPS.get((name, what), 1)
                    if not error <= allowed:
                        wrong.append(
                            f"{name} {shape} over {axes}, {kind.__name__}, {way} {what}: "
                            f"{error / ulp:.3g} ulp, allowed {allowed / ulp:.3g}"
                        )
    assert not wrong, "\n".join(wrong)


WHAT = ("value", "gradient")
ULPS = {("logsumexp", "gradient"): 4}  # of exp(x - out): those of out, which is more than 1


def _both(f, x, ct, axes):
    y, pullback = fx.vjp(lambda x: f(ft, x, axes), x)
    return y, pullback(ct)[0]


@pytest.mark.parametrize("name", SUMS)
def test_functions(name):
    compare(name, SUMS[name], 1000, KINDS)
    compare(name, SUMS[name], 100_000, [constant, large_mean, decades])


PRODUCTS = {  # m, k, n
    "tiles": (40, 5000, 48),
    "large": (150, 1500, 130),
    "long": (7, 20_000, 33),
    "few rows": (3, 3000, 40),
    "one row": (1, 5000, 300),
    "transposed": (12, 4000, 20),
    "batch": (6, 2500, 16),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_products(name):
    m, k, n = PRODUCTS[name]
    x, y = normal(m * k).reshape(m, k), normal(k * n + 1)[1:].reshape(k, n)
    if name == "transposed":
        y = np.ascontiguousarray(y.T).T
    if name == "batch":
        x = np.stack([x, x[::-1]])
    _products(lambda t, x, y: t.matmul(x, y), x, y)


WINDOWS = {  # inputs, weights, options
    "3x3": ((2, 300, 7, 9), (20, 300, 3, 3), {"padding": 1}),
    "1x1": ((2, 1200, 5, 5), (16, 1200, 1, 1), {}),
    "strides": ((2, 200, 11, 9), (24, 200, 3, 3), {"stride": 2, "padding": 1}),
    "few channels": ((2, 260, 12, 40), (2, 260, 3, 3), {"padding": 1}),
    "one row": ((2, 400, 1, 40), (2, 400, 1, 5), {}),
    "depthwise": ((2, 8, 30, 30), (8, 1, 7, 7), {"groups": 8}),
    "a large batch": ((64, 40, 20, 20), (24, 40, 3, 3), {"padding": 1}),
}


@pytest.mark.parametrize("name", WINDOWS)
def test_convolutions(name):
    x, w, options = WINDOWS[name]
    x, w = (normal(math.prod(s) + i)[i:].reshape(s) for i, s in enumerate((x, w)))
    _products(lambda t, x, w: t.nn.functional.conv2d(x, w, **options), x, w)


def _products(f, x, y):
    """Check a function of two arrays, and both its gradients."""
    x, y = x.astype(np.float32), y.astype(np.float32)
    ct = normal(torch_of(f, x, y)[0].size + 3)[3:].reshape(torch_of(f, x, y)[0].shape)
    ct = ct.astype(np.float32)
    truth = torch_of(f, x.astype(float), y.astype(float), ct.astype(float))
    theirs = torch_of(f, x, y, ct)

    def all_three(x, y, ct):
        out, pullback = fx.vjp(lambda x, y: f(ft, x, y), x, y)
        return out, *pullback(ct)

    for way, function in ("eager", all_three), ("jit", fx.jit(all_three)):
        ours = function(*[fx.tensor(a) for a in (x, y, ct)])
        for what, mine, peer, right in zip(("value", "x", "y"), ours, theirs, truth, strict=True):
            error, ulp = errors(mine.numpy(), right)
            allowed = 2 * errors(peer, right)[0] + ulp
            assert error <= allowed, f"{way} {what}: {error / ulp:.3g} of {allowed / ulp:.3g} ulp"


def torch_of(f, x, y, ct=None):
    """The value, and the gradients if there is a cotangent, by PyTorch."""
    x, y = torch.tensor(x, requires_grad=True), torch.tensor(y, requires_grad=True)
    out = f(torch, x, y)
    grads = () if ct is None else torch.autograd.grad(out, (x, y), torch.tensor(ct))
    return [a.detach().numpy() for a in (out, *grads)]


@pytest.mark.parametrize("name", ["sum", "var", "cumsum"])
def test_a_million(name):
    compare(name, SUMS[name], 1_000_000, KINDS[:3])


@pytest.mark.parametrize("function", [fx.sum, fx.cumsum], ids=["sum", "cumsum"])
@pytest.mark.parametrize("way", [lambda f: f, fx.jit], ids=["eager", "jit"])
def test_ten_million_tenths(function, way):
    x = np.full(10_000_000, 0.1, np.float32)
    last = way(function)(fx.tensor(x)).numpy().reshape(-1)[-1]
    assert abs(last - x[0] * 1e7) <= np.spacing(np.float32(1e6))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("axes", [0, 1])
def test_narrow_floats_add_up_in_float32(dtype, axes):
    x = torch.tensor(normal(60_000).reshape(300, 200)).to(getattr(torch, dtype))
    mine = fx.tensor(x.float().numpy()).astype(dtype)
    for function in ("sum", "mean", "var", "cumsum"):
        right = getattr(torch, function)(x.double(), axes).numpy()
        peer = getattr(torch, function)(x, axes).double().numpy()
        for way in (lambda f: f), fx.jit:
            got = way(lambda x, f=function: getattr(ft, f)(x, axes))(mine)
            error, allowed = (np.abs(a - right).max() for a in (got.double().numpy(), peer))
            assert error <= 2 * allowed, function


def test_a_row_of_embeddings_that_is_met_often():
    places = rng(0).integers(0, 3, 30_000)
    ct = rng(1).standard_normal((30_000, 5)).astype(np.float32) + 3
    table = np.zeros((3, 5), np.float32)

    def gradient(t, table, ct):
        weight = t.tensor(table, requires_grad=True)
        (t.nn.functional.embedding(t.tensor(places), weight) * t.tensor(ct)).sum().backward()
        return weight.grad.numpy()

    right = gradient(torch, table.astype(float), ct.astype(float))
    peer, ulp = errors(gradient(torch, table, ct), right)
    pull = lambda w, ct: (ft.nn.functional.embedding(fx.tensor(places), w) * ct).sum()
    for way in (lambda f: f), fx.jit:
        found = way(fx.grad(pull))(fx.tensor(table), fx.tensor(ct)).numpy()
        assert errors(found, right)[0] <= 2 * peer + ulp


def test_running_statistics_of_a_large_mean():
    x = (rng(0).standard_normal((64, 3, 40)) + 1e6).astype(np.float32)
    right = x.astype(float).var((0, 2), ddof=1)
    for way in (lambda f: f), fx.jit:
        layer = fx.nn.BatchNorm1d(3, momentum=1.0)
        way(layer)(fx.tensor(x))
        np.testing.assert_allclose(layer.running_var.numpy(), right, rtol=1e-6)
