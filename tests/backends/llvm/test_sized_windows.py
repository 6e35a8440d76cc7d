"""Convolutions and pooling in programs for any size: what they compute, and that one serves all."""

import numpy as np
import pytest

import fx
import fx.nn.functional as F
from fx import nn, optim
from tests.backends.llvm.test_sized import served
from tests.thorough import THOROUGH

assert served  # a fixture


def numbers(*shape, seed=0, dtype="float32"):
    return fx.tensor(np.random.default_rng(seed).normal(size=shape).astype(dtype))


def conv(rank, *weight, **options):
    return ("conv", (F.conv1d, F.conv2d, F.conv3d)[rank - 1], weight, options)


def pool(function, window, **options):
    return ("pool", lambda x: function(x, window, **options), None, {})


CASES = {  # of one sample
    "few channels": ((1, 12, 12), conv(2, 6, 1, 5, 5, padding=2)),
    "lines": ((3, 9, 33), conv(2, 2, 3, 3, 3, padding=1)),
    "lines of a few samples a task": ((2, 6, 6), conv(2, 3, 2, 3, 3)),
    "depthwise": ((8, 10, 10), conv(2, 8, 1, 3, 3, padding=1, groups=8)),
    "groups": ((6, 7, 7), conv(2, 40, 3, 3, 3, groups=2)),
    "many channels": ((40, 7, 7), conv(2, 35, 40, 3, 3, padding=1)),
    "pointwise": ((33, 5, 5), conv(2, 20, 33, 1, 1)),
    "strided": ((5, 13, 11), conv(2, 20, 5, 3, 3, stride=2, padding=1)),
    "dilated": ((4, 13, 11), conv(2, 18, 4, 3, 2, dilation=(2, 3), stride=(1, 2))),
    "one place": ((16, 5, 5), conv(2, 24, 16, 5, 5)),
    "tall": ((3, 60, 40), conv(2, 33, 3, 7, 7, stride=2, padding=3)),
    "over time": ((7, 50), conv(1, 20, 7, 5, padding=2)),
    "of volumes": ((3, 5, 6, 7), conv(3, 17, 3, 3, 3, 3, padding=1)),
    "maxima": ((8, 12, 12), pool(F.max_pool2d, 2)),
    "maxima with borders": ((3, 13, 40), pool(F.max_pool2d, 3, stride=2, padding=1)),
    "maxima over time": ((4, 300), pool(F.max_pool1d, 3, stride=1)),
    "means": ((5, 12, 12), pool(F.avg_pool2d, 2)),
    "means with borders": ((3, 13, 19), pool(F.avg_pool2d, 3, stride=2, padding=1)),
    "means of volumes": ((2, 6, 6, 7), pool(F.avg_pool3d, 2)),
    "of whole planes": ((9, 7, 7), pool(F.adaptive_avg_pool2d, 1)),
}  # fmt: skip


def made(name, dtype="float32"):
    """What computes the case and its gradients, weights and the shape of a sample."""
    shape, (kind, function, weight, options) = CASES[name]
    if kind == "pool":
        w = numbers(1, dtype=dtype)
        forward = lambda x, w: function(x) * w
    else:
        w = numbers(*weight, seed=1, dtype=dtype) * 0.2
        forward = lambda x, w: function(x, w, **options)

    def f(x, w, g):
        out, back = fx.vjp(forward, x, w)
        return out, *back(g[: out.size].reshape(out.shape))

    return f, w, shape


def compared(name, dtype, sizes, served, exact=()):
    """Calls of a case at some sizes, as they are eagerly; how many kernels each call emitted."""
    f, w, shape = made(name, dtype)
    jitted, alone, emitted = fx.jit(f), fx.jit(f, dynamic=False), []
    near, least = (2e-5, 2e-5) if dtype == "float32" else (1e-9, 1e-10)
    for n in sizes:
        x = numbers(n, *shape, seed=n, dtype=dtype)
        g = numbers(n * 50_000, seed=2, dtype=dtype)
        wanted = f(x, w, g)
        before = dict(served)
        found = jitted(x, w, g)
        emitted.append(served["kernels"] - before["kernels"])
        assert served["sized"] - before["sized"] == (n not in (sizes[0], 1)), n
        for a, b in zip(found, wanted, strict=True):
            scale = max(1.0, float(abs(b).max()))
            np.testing.assert_allclose(a, b, rtol=near, atol=least * scale)
        if n in exact:  # the order of sums over samples may be another
            for a, b in zip(found[:2], alone(x, w, g)):
                np.testing.assert_array_equal(a, b)
    return emitted


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("name", CASES)
def test_any_number_of_samples_is_served_by_one_program(served, name):
    exact = (37, 4) if THOROUGH else (37, 4)[list(CASES).index(name) % 2 :][:1]
    emitted = compared(name, "float32", (20, 37, 16, 1, 63, 6, 4, 13), served, exact)
    assert emitted[0] and emitted[1] and emitted[3] and emitted[5]  # of each class one
    assert not any(emitted[i] for i in (2, 4, 6, 7))


@pytest.mark.parametrize("name", ["many channels", "lines", "strided", "maxima with borders"])
def test_of_float64_too(served, name):
    emitted = compared(name, "float64", (64, 67, 131, 255), served)
    assert emitted[1] and not any(emitted[2:])


@pytest.mark.parametrize("bad", [float("inf"), float("nan")])
@pytest.mark.parametrize("name", ["strided", "lines"])
def test_weights_that_are_not_finite(served, name, bad):
    """Zeros that pad a cotangent do not meet them, in the last stack of samples either."""
    f, w, shape = made(name)
    w = w.at[0, 1, 2, 0].set(bad)
    jitted = fx.jit(f)
    for n in (20, 21, 17, 59):
        x, g = numbers(n, *shape, seed=n), numbers(n * 5000, seed=2)
        for a, b in zip(jitted(x, w, g)[1:2], f(x, w, g)[1:2]):
            np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-5)
    assert served["sized"] == 3


def lenet(**options):
    fx.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(1, 4, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(4, 8, 3),
        nn.BatchNorm2d(8), nn.ReLU(), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(72, 10),
    )  # fmt: skip
    optimizer = optim.SGD(model.parameters(), lr=0.05, momentum=0.9)

    def step(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return model, step


def test_a_step_of_a_convolutional_network_compiles_nothing_for_a_third_batch(served):
    (model, step), (twin, eager) = lenet(), lenet()
    jitted, emitted = fx.jit(step), []
    for n in (20, 32, 21, 57, 16):
        x = numbers(n, 1, 16, 16, seed=n)
        y = fx.tensor(np.random.default_rng(n).integers(0, 10, n))
        before = served["kernels"]
        loss = jitted(x, y)
        emitted.append(served["kernels"] - before)
        assert float(loss) == pytest.approx(float(eager(x, y)), rel=1e-4)
    for a, b in zip(model.state_dict().values(), twin.state_dict().values(), strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-3, atol=1e-5)
    assert emitted[1] and emitted[2:] == [0] * 3 and served["sized"] == 4
