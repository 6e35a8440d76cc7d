"""Lengths, distances and what is divided by them: fused, as PyTorch's, with gradients."""

import numpy as np
import pytest
import torch

import fx
import fx.torch
from fx import limits

CASES = {
    "vector_norm": lambda m, x, y: m.linalg.vector_norm(x, dim=-1),
    "vector_norm of all": lambda m, x, y: m.linalg.vector_norm(x),
    "vector_norm, kept": lambda m, x, y: m.linalg.vector_norm(x, dim=0, keepdim=True),
    "normalize": lambda m, x, y: m.nn.functional.normalize(x, dim=-1),
    "cosine_similarity": lambda m, x, y: m.nn.functional.cosine_similarity(x, y, dim=0),
    "pairwise_distance": lambda m, x, y: m.nn.functional.pairwise_distance(x, y),
    "rms_norm": lambda m, x, y: m.nn.functional.rms_norm(x, x.shape[-1:]),
    "group_norm": lambda m, x, y: m.nn.functional.group_norm(x[None], x.shape[0]),
    "lerp": lambda m, x, y: m.lerp(x, y, 0.7),
    "lerp by a tensor": lambda m, x, y: m.lerp(x, y, x * y),
    "addcmul": lambda m, x, y: m.addcmul(x, x, y, value=0.5),
    "addcdiv": lambda m, x, y: m.addcdiv(x, x, y.abs() + 1, value=2),
    "nan_to_num": lambda m, x, y: m.nan_to_num(x / (y > 0), 2.0, posinf=3.0),
    "clamp": lambda m, x, y: m.clamp(x, -0.3, 0.4),
    "amax": lambda m, x, y: m.amax(x, -1),
    "amin": lambda m, x, y: m.amin(x, 0),
    "fmod": lambda m, x, y: m.fmod(x, y),
    "remainder": lambda m, x, y: m.remainder(x, 0.7),
    "hypot": lambda m, x, y: m.hypot(x, y),
    "logaddexp": lambda m, x, y: m.logaddexp(x, y),
    "sign": lambda m, x, y: m.sign(x / (y > 0)),
    "rsqrt": lambda m, x, y: m.rsqrt(x.abs()),
    "sum of short rows": lambda m, x, y: x.sum(-1),
}


def with_gradients(m, f, *arrays):
    xs = [m.tensor(a, requires_grad=True) for a in arrays]
    out = f(m, *xs)
    weights = m.tensor(np.cos(np.arange(out.numel())).reshape(out.shape).astype(arrays[0].dtype))
    found = m.autograd.grad((out * weights).sum(), xs, allow_unused=True)
    return [out.detach().numpy(), *[np.zeros(1) if g is None else g.numpy() for g in found]]


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("shape", [(3, 5), (40, 10), (6, 700), (2100, 3)])
def test_as_pytorch_in_every_size(name, shape):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, *shape))
    with limits.given(FUSED_FROM=1, WHERE_FROM=1, SUM_SHORT=1):
        found = with_gradients(fx.torch, CASES[name], x, y)
    for mine, theirs in zip(found, with_gradients(torch, CASES[name], x, y)):
        np.testing.assert_allclose(mine, theirs, rtol=1e-9, atol=1e-11)


SHAPES = [
    ((3, 2), (4, 2)),
    ((30, 8), (40, 8)),
    ((19, 64), (37, 64)),
    ((19, 65), (37, 65)),
    ((2, 1, 30, 8), (3, 5, 8)),
    ((0, 3), (2, 3)),
    ((2, 0, 3), (2, 4, 3)),
]


@pytest.mark.parametrize("shapes", SHAPES)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_distances_of_all_pairs(shapes, dtype):
    rng = np.random.default_rng(0)
    x, y = [rng.normal(size=s).astype("float32") for s in shapes]
    exact = with_gradients(torch, lambda m, x, y: m.cdist(x, y), *[a.astype("d") for a in (x, y)])
    found = with_gradients(
        fx.torch, lambda m, x, y: m.cdist(x, y), *[a.astype(dtype) for a in (x, y)]
    )
    for mine, wanted in zip(found, exact):
        assert mine.dtype == dtype and mine.shape == wanted.shape
        np.testing.assert_allclose(mine, wanted, atol=3e-6 if dtype == "float32" else 1e-13)


def test_neighbours_far_from_the_origin_are_told_apart():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(50, 20)).astype("float32") + np.float32(30)
    y = x + np.float32(1e-3) * rng.normal(size=x.shape).astype("float32")
    wide = [a.astype("float64") for a in (x, y)]

    def exact(m, x, y):
        return ((x[:, None] - y) ** 2).sum(-1).sqrt()

    found = with_gradients(fx.torch, lambda m, x, y: m.cdist(x, y), x, y)
    for mine, wanted in zip(found, with_gradients(torch, exact, *wide)):
        np.testing.assert_allclose(mine, wanted, rtol=2e-5, atol=2e-5)


def test_equal_rows_have_no_slope():
    x = fx.ones((3, 4))
    assert fx.grad(lambda x: fx.cdist(x, x).sum())(x).numpy().tolist() == np.zeros((3, 4)).tolist()
    assert fx.grad(lambda x: fx.norm(x - x, axis=1).sum())(x).numpy().any() == np.False_


def test_distances_are_differentiable_twice():
    x, y = np.random.default_rng(0).normal(size=(2, 4, 3))

    def twice(m):
        a, b = m.tensor(x, requires_grad=True), m.tensor(y, requires_grad=True)
        compute = {} if m is fx.torch else {"compute_mode": "use_mm_for_euclid_dist"}
        (g,) = m.autograd.grad((m.cdist(a, b, **compute) ** 3).sum(), [a], create_graph=True)
        return [h.numpy() for h in m.autograd.grad((g * g).sum(), [a, b])]

    for mine, theirs in zip(twice(fx.torch), twice(torch)):
        np.testing.assert_allclose(mine, theirs, rtol=1e-9)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_distances_of_close_rows_are_those_of_their_differences(dtype):
    rng, eps = np.random.default_rng(0), np.finfo(dtype).eps
    x, y = (rng.normal(size=(n, 40)).astype(dtype) for n in (60, 70))
    near = 100 + rng.normal(size=(60, 40)) * 1e-3  # far from 0 and close to each other
    y[:30] = x[:30]  # and equal
    y[30:40] = x[30:40] * (1 + 8 * eps)
    for a, b in ((x, y), (near.astype(dtype), near[::-1].astype(dtype)), (x * 1e-12, y * 1e-12)):
        wanted = np.sqrt(((a[:, None].astype(np.longdouble) - b) ** 2).sum(-1))
        found = fx.cdist(fx.tensor(a), fx.tensor(b)).numpy()
        assert found.dtype == a.dtype
        np.testing.assert_array_equal(found[wanted == 0], 0)
        np.testing.assert_allclose(found, wanted.astype(dtype), rtol=40 * eps)
    assert bool((fx.cdist(fx.tensor(x), fx.tensor(x)).diagonal() == 0).all())


def test_distances_of_rows_that_are_not_finite():
    x = np.random.default_rng(0).normal(size=(40, 30)).astype("f")
    x[3, 4], x[5], x[7, 0] = np.nan, np.inf, 3e38
    a = fx.tensor(x)
    found = fx.cdist(a, a.flip(0)).numpy()
    with limits.given(DISTANCE_ROWS=1000):
        wanted = fx.cdist(a, a.flip(0)).numpy()
    np.testing.assert_allclose(found, wanted, rtol=1e-5)
    batch = fx.cdist(a.reshape(1, 40, 30).expand(3, 40, 30), a)
    assert batch.shape == (3, 40, 40)
