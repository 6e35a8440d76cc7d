"""Integers divided by 0: an error as in PyTorch, eagerly and compiled, where it is run at all."""

import numpy as np
import pytest
import torch as pt

import fx
import fx.torch as torch
from fx.errors import DivisionError

FORMS = {
    "//": lambda t, x, y: x // y,
    "%": lambda t, x, y: x % y,
    "reflected": lambda t, x, y: 5 // y,
    "by 0": lambda t, x, y: x // 0,
    "fmod": lambda t, x, y: t.fmod(x, y),
    "remainder": lambda t, x, y: t.remainder(5, y),
    "floor": lambda t, x, y: t.div(x, y, rounding_mode="floor"),
    "trunc": lambda t, x, y: t.div(x, y, rounding_mode="trunc"),
    "in place": lambda t, x, y: x.clone().floor_divide_(y),
    "in place %": lambda t, x, y: x.clone().remainder_(y),
    "beside": lambda t, x, y: (x // y + x % y) * x.sum(),
}
DTYPES = ("uint8", "int8", "int16", "int32", "int64")


@pytest.mark.parametrize("jitted", [False, True])
@pytest.mark.parametrize("form", FORMS)
def test_as_in_pytorch(form, jitted):
    def mine(x, y):
        return FORMS[form](torch, x, y)

    f = fx.jit(mine) if jitted else mine
    for dtype in DTYPES:
        x = np.arange(5).astype(dtype)
        for divisors in ([1, 2, 3, 2, 1], [1, 2, 0, 2, 1]):
            y = np.array(divisors, dtype)
            try:
                wanted = FORMS[form](pt, pt.from_numpy(x), pt.from_numpy(y))
            except RuntimeError as error:
                assert str(error) == "ZeroDivisionError"
                with pytest.raises(DivisionError, match="ZeroDivisionError"):
                    f(torch.tensor(x), torch.tensor(y))
                continue
            found = f(torch.tensor(x), torch.tensor(y))
            np.testing.assert_array_equal(found.numpy(), wanted.numpy())


def test_nothing_is_divided_in_an_empty_tensor():
    f = lambda x, y: x // y
    for g in (f, fx.jit(f)):
        assert g(fx.zeros(0, dtype=fx.int64), fx.zeros(1, dtype=fx.int64)).shape == (0,)


def test_long_compiled_divisors():
    """In several tasks, and the 0 in the last of them."""
    y = np.ones(300_000, np.int32)
    f = fx.jit(lambda x, y: (x % y).sum())
    assert f(fx.asarray(y), fx.asarray(y)).item() == 0
    y[-1] = 0
    with pytest.raises(ZeroDivisionError):
        f(fx.asarray(y), fx.asarray(y))


def _gcd(a, b):
    return fx.while_loop(lambda c: c[1] != 0, lambda c: (c[1], c[0] % c[1]), (a, b))[0]


def _guarded(a, b):
    return fx.cond(b != 0, lambda: a // b, lambda: a * 0 - 1)


@pytest.mark.parametrize("f", [_gcd, _guarded])
def test_lanes_that_do_not_run_divide_by_nothing(f):
    a, b = fx.asarray([12, 7, 0, 30]), fx.asarray([18, 0, 0, 12])
    wanted = [f(x, y).item() for x, y in zip(a, b)]
    for g in (fx.vmap(f), fx.jit(fx.vmap(f)), fx.vmap(fx.jit(f))):
        assert g(a, b).tolist() == wanted


def test_lanes_that_do_not_run_look_up_nothing():
    table = fx.asarray([1.0, 2.0, 3.0])
    f = lambda i: fx.cond(i < 3, lambda: table[i], lambda: fx.asarray(0.0))
    for g in (fx.vmap(f), fx.jit(fx.vmap(f))):
        assert g(fx.asarray([0, 5, 2])).tolist() == [1.0, 0.0, 3.0]


def test_a_loop_that_never_runs_divides_by_nothing():
    """What is the same in every run comes before a loop only where nothing can fail."""
    table = fx.asarray([1, 2, 3])

    @fx.jit
    def f(n, k, i):
        return fx.while_loop(
            lambda c: c[0] < n,
            lambda c: (c[0] + 1, c[1] + 7 // c[2] + table[c[3]], c[2], c[3]),
            (n * 0, n * 0, k, i),
        )[1]

    of = lambda *xs: f(*map(fx.asarray, xs)).item()
    assert of(0, 0, 7) == 0
    assert of(2, 3, 1) == 8
    with pytest.raises(ZeroDivisionError):
        of(2, 0, 1)
    with pytest.raises(IndexError):
        of(2, 1, 7)
