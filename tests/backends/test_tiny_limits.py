"""Products and convolutions under tiny limits: every task, panel and band, with small arrays."""

from __future__ import annotations

import os
import random
import subprocess
import sys

import numpy as np
import pytest

import fx
from fx import limits
from fx.backends.cpu import conv as eager
from tests.backends.test_conv import CASES, _against_torch

TURNS = {
    "dense": lambda a: a,
    "turned": lambda a: np.ascontiguousarray(a.swapaxes(-1, -2)).swapaxes(-1, -2),
    "inside": lambda a: np.pad(a, [(1, 2)] * a.ndim, constant_values=np.nan)[
        tuple(slice(1, n + 1) for n in a.shape)
    ],
    "backwards": lambda a: np.ascontiguousarray(a[..., ::-1])[..., ::-1],
}


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_products_of_any_size_and_layout(seed, dtype):
    choose, rng = random.Random(seed), np.random.default_rng(seed)
    m, k, n = (choose.choice([1, 2, 5, 7, 13, 18, 25, 40]) for _ in range(3))
    batch = choose.choice([(), (3,), (2, 2)])
    if seed < 2:  # tiles that are cut unevenly among the tasks of one product
        (m, k, n), batch = ((40, 7, 13), (13, 5, 90))[seed], ()
    x = rng.standard_normal((*batch, m, k)).astype(dtype)
    y = rng.standard_normal((*choose.choice([(), batch]), k, n)).astype(dtype)
    want = x.astype(np.float64) @ y.astype(np.float64)
    turns = [TURNS[choose.choice(sorted(TURNS))] for _ in range(2)]
    left, right = fx.tensor(turns[0](x)), fx.tensor(turns[1](y))
    allowed = {"float32": 2e-6, "float64": 1e-14}[dtype] * (np.abs(x) @ np.abs(y)).max()
    with limits.tiny():
        for got in (left @ right, fx.jit(lambda a, b: a @ b)(left, right)):
            np.testing.assert_allclose(got.numpy(), want, rtol=0, atol=allowed)
        back = fx.jit(lambda a, b: fx.permute_dims(b, TAIL[b.ndim]) @ a.mT)(left, right)
    np.testing.assert_allclose(back.numpy(), want.swapaxes(-1, -2), rtol=0, atol=allowed)


TAIL = {2: (1, 0), 3: (0, 2, 1), 4: (0, 1, 3, 2)}  # of a batch of matrices, transposed


@pytest.mark.parametrize("case", CASES[::3], ids=str)
def test_convolutions_agree_with_torch(case):
    with limits.tiny():
        _against_torch(case)


@pytest.mark.parametrize("seed", range(3))
def test_bands_of_a_convolution_are_all_of_it(seed):
    rng, choose = np.random.default_rng(seed), random.Random(seed)
    high, wide, count = choose.randint(7, 13), choose.randint(7, 13), choose.choice([1, 3])
    x = rng.standard_normal((2, 3, high, wide))
    w = rng.standard_normal((6, 3 // count, 3, 3))
    kw = dict(stride=(1, 1), padding=((1, 1), (1, 1)), dilation=(1, 1), groups=count)
    y = eager.conv(x, w, **kw)
    size, kernel = dict(input_size=(high, wide)), dict(kernel_size=(3, 3))
    want = (
        y,
        eager.conv_input_grad(y, w, **size, **kw),
        eager.conv_weight_grad(x, y, **kernel, **kw),
    )
    for room in (64, 256, 1024, 4096):
        planes = dict(CONV_PLANES=room, CONV_LINES_PLANES=room, CONV_GRAD_BAND=room)
        with limits.tiny(), limits.given(**planes):
            found = eager.conv(x, w, **kw)
            back = eager.conv_input_grad(y, w, **size, **kw)
            weight = eager.conv_weight_grad(x, y, **kernel, **kw)
        for got, expected in zip((found, back, weight), want):
            np.testing.assert_allclose(got, expected, rtol=1e-12, atol=1e-11)


# the lists of memory that waits are two then, and no size may fall into another
WAITING = """
import numpy as np, fx
for n in (17, 100, 33, 200, 64, 100):
    x, y = np.random.default_rng(n).standard_normal((n, 63)), np.linspace(-1.0, 1.0, 63)
    for _ in range(3):
        got = fx.where(fx.tensor(x) > fx.tensor(y), fx.tensor(x), fx.tensor(y))
        np.testing.assert_array_equal(np.asarray(got), np.maximum(x, y))
"""


def test_memory_of_many_sizes_waits_in_few_lists():
    given = {**os.environ, "FX_LIMITS": "tiny"}
    done = subprocess.run(
        [sys.executable, "-c", WAITING], env=given, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
