"""Products of 16-bit numbers: exact as torch's, whatever the sizes, the layouts and the values."""

from __future__ import annotations

import random

import ml_dtypes
import numpy as np
import pytest
import torch

import fx
import fx.nn.functional as F
from fx import limits
from fx.backends.cpu import matmul
from fx.backends.cpu.llvm.driver import compile_graph
from fx.backends.cpu.llvm.gemm import amx
from tests.backends.test_tiny_limits import TURNS

DTYPES = {"bfloat16": np.dtype(ml_dtypes.bfloat16), "float16": np.dtype(np.float16)}
SIZES = (1, 2, 5, 15, 16, 17, 31, 32, 33, 40, 64, 65, 100, 130)
EPS = {"bfloat16": 2.0**-8, "float16": 2.0**-11}  # half a step at 1
halves = pytest.mark.parametrize("name", DTYPES)
tiles = pytest.mark.skipif(not amx.available(), reason="this CPU has no tiles")


def numbers(seed, shape, dtype):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def check(got, x, y, name, bias=0.0):
    """Sums of float32, rounded once: half a step of the result, and what float32 loses."""
    assert got.dtype == DTYPES[name]
    left, right = x.astype(np.float64), y.astype(np.float64)
    want = left @ right + bias
    size = np.abs(left) @ np.abs(right) + np.abs(bias)
    allowed = EPS[name] * np.abs(want) * 1.001 + size * 2e-6 + 2.0**-25
    assert got.shape == want.shape
    assert (np.abs(got.astype(np.float64) - want) <= allowed).all()


@halves
@pytest.mark.parametrize("seed", range(24))
def test_any_size_and_layout(seed, name):
    choose = random.Random(f"{seed} {name}")
    m, k, n = (choose.choice(SIZES) for _ in range(3))
    lead = choose.choice([((), ()), ((3,), ()), ((), (2, 3)), ((2, 1), (2, 3)), ((2, 3), (2, 3))])
    x, y = numbers(seed, (*lead[0], m, k), "f4"), numbers(seed + 99, (*lead[1], k, n), "f4")
    x, y = (TURNS[choose.choice(sorted(TURNS))](a.astype(DTYPES[name])) for a in (x, y))
    for which in (limits.given(), limits.tiny()):
        with which:
            check(matmul.matmul(x, y), x, y, name)
            check(fx.jit(fx.matmul)(fx.tensor(x), fx.tensor(y)).numpy(), x, y, name)


@halves
def test_without_tiles(name, monkeypatch):
    monkeypatch.setattr(matmul, "_of_halves", lambda *_: None)
    x, y = numbers(0, (33, 40), DTYPES[name]), numbers(1, (40, 17), DTYPES[name])
    check(matmul.matmul(x, y), x, y, name)


@halves
def test_more_work_than_one_task_has(name):
    x, y = numbers(0, (333, 270), DTYPES[name]), numbers(1, (270, 401), DTYPES[name])
    want = matmul.matmul(x, y)
    check(want, x, y, name)
    before = fx.get_num_threads()
    try:
        fx.set_num_threads(1)
        np.testing.assert_array_equal(matmul.matmul(x, y), want)
    finally:
        fx.set_num_threads(before)
    with limits.given(EAGER_TILES_TOGETHER=1 << 40):
        np.testing.assert_array_equal(matmul.matmul(x, y), want)


@halves
@pytest.mark.parametrize("k", [1000, 5000])
def test_as_exact_as_torch(name, k):
    x, y = numbers(0, (40, k), DTYPES[name]), numbers(1, (k, 50), DTYPES[name])
    right = x.astype(np.float64) @ y.astype(np.float64)
    to = lambda a: torch.tensor(a.astype(np.float32)).to(getattr(torch, name))
    peer = (to(x) @ to(y)).double().numpy()
    mine = matmul.matmul(x, y).astype(np.float64)
    assert np.abs(mine - right).max() <= 2 * np.abs(peer - right).max()
    assert np.abs(mine - right).mean() <= 1.05 * np.abs(peer - right).mean()


@tiles
def test_float16_loses_nothing_on_its_way():
    # products of the last digits, which half of a number would not show
    x = np.array([[1 + 2**-10, -(1 + 2**-10)]], np.float16)
    y = np.array([[1 + 2**-10], [1]], np.float16)
    assert matmul.matmul(x, y)[0, 0] == np.float16((1 + 2**-10) * 2**-10)
    tiny = np.array([[2.0**-24, 2.0**-14]], np.float16)
    assert matmul.matmul(tiny, np.array([[1024.0], [3.0]], np.float16))[0, 0] == np.float16(
        2.0**-14 + 3 * 2.0**-14
    )


@halves
def test_infinities_and_nan_stay_what_they_are(name):
    x, y = numbers(0, (40, 70), DTYPES[name]), numbers(1, (70, 50), DTYPES[name])
    x[3, 5], x[20, 60], y[7, 9], x[33, 0] = np.inf, np.nan, -np.inf, np.inf
    y[0, 40] = -np.inf
    with np.errstate(all="ignore"):
        want = x.astype(np.float32) @ y.astype(np.float32)
    for got in (matmul.matmul(x, y), fx.jit(fx.matmul)(fx.tensor(x), fx.tensor(y)).numpy()):
        got = got.astype(np.float32)
        for what in (np.isnan, np.isposinf, np.isneginf):
            np.testing.assert_array_equal(what(got), what(want))
        plain = np.isfinite(want)
        allowed = 2 * EPS[name] * np.abs(want[plain]) + 1e-3
        assert (np.abs(got[plain] - want[plain]) <= allowed).all()


@halves
@pytest.mark.parametrize("lead", [(), (3,), (2, 2)])
def test_linear_and_its_gradients(name, lead):
    x, w, b = (
        fx.tensor(numbers(i, shape, DTYPES[name])).requires_grad_()
        for i, shape in enumerate([(*lead, 20, 40), (30, 40), (30,)])
    )
    ct = fx.tensor(numbers(4, (*lead, 20, 30), DTYPES[name]))
    out = F.linear(x, w, b)
    wide = [a.detach().double().numpy() for a in (x, w, b)]
    check(out.detach().numpy(), x.detach().numpy(), w.detach().numpy().T, name, wide[2])
    gradients = fx.autograd.grad(out, (x, w, b), ct)
    flat = ct.double().numpy().reshape(-1, 30)
    want = flat @ wide[1], flat.T @ wide[0].reshape(-1, 40), flat.sum(0)
    for got, right in zip(gradients, want, strict=True):
        assert got.dtype.name == name
        got = got.double().numpy().reshape(right.shape)
        np.testing.assert_allclose(got, right, atol=4 * EPS[name] * np.abs(right).max())


@halves
def test_nothing_to_add_up(name):
    x = np.zeros((3, 0), DTYPES[name])
    assert (matmul.matmul(x, x.T) == 0).all() and matmul.matmul(x.T, x).shape == (0, 0)


@tiles
@halves
@pytest.mark.parametrize("seed", range(12))
def test_compiled_products_are_made_of_tiles(seed, name):
    """Through views of what is given, in batches, with what follows, and the bits of eager ones."""
    choose = random.Random(f"tiles {seed} {name}")
    m, k, n = (choose.choice((32, 33, 48, 70)) for _ in range(3))
    lead = choose.choice(((), (3,), (2, 3)))
    x = fx.tensor(numbers(seed, (*lead, k + 3, m), DTYPES[name]))
    y = fx.tensor(numbers(seed + 50, (n, k), DTYPES[name]))

    def f(x, y):
        out = x[..., 3:, :].swapaxes(-1, -2) @ y.T
        return out, fx.relu(out + 1) * 2

    with limits.given(TILES_FROM=64):
        lowered = fx.jit(f)
        got = lowered(x, y)
        graph = fx.make_graph(f)(x, y)
        assert ", pack" in compile_graph(graph).schedule
    for a, b in zip(got, f(x, y)):
        np.testing.assert_array_equal(a.numpy(), b.numpy())
